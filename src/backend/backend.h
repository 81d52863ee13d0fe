/* backend.h -- what a back end is: a struct of functions from kernels to running code.
 *
 * Back ends see kernels and addresses, never arrays, graphs or plans. Whoever launches (run/launch.c) cuts the outermost
 * loop into parts, gives each part to a thread, and handles `private` buffers: it binds a neutral copy for a part and
 * merges the copies in the order of docs/kir.md. So a back end runs a range of the outermost loop on bound memory, and a
 * private store is an ordinary combining store into whatever is bound. */
#ifndef WEFT_BACKEND_H
#define WEFT_BACKEND_H
#include "kernel/kir.h"

enum { BACKEND_RANK = 12 }; /* axes of a buffer in a kernel; more are collapsed or refused by the scheduler */

/* Stride classes, part of the key of a compiled kernel: per buffer and axis. */
enum { STRIDE_0, STRIDE_1, STRIDE_MINUS_1, STRIDE_ANY };

enum { FEW_LOCAL_BYTES = 80 << 10 }; /* every GPU that is served has as much of shared memory for a block of threads */
enum { SET_BEST, SET_AVX2 }; /* the best there is; x86: no AVX-512 */

/* The schedule record: may be chosen freely, never changes bits. */
struct shape_class {
  uint8_t stride[32][BACKEND_RANK]; /* by buffer (tables and locals ignored) and axis */
  int tile;                         /* vm: lanes a tile, 0: default */
  int unroll;                       /* x86: 0: default */
  int row;                          /* x86: rows that are folded have at most this many elements, 8, 16, 32 or 64; 0: any */
  bool row_is_full;                 /* .. and just as many */
  int short_row;                    /* cuda: many rows are folded that have at most this many elements; 0: few, or of any */
  bool short_row_is_full;           /* .. and just as many */
  bool few_locals;                  /* cuda: local arrays take at most FEW_LOCAL_BYTES in all */
  bool in_order;                    /* cuda: sums of products of halves have the order of the text */
  bool tf32;                        /* cuda: products of f32 are rounded and added by tensor cores */
  bool by_library;                  /* cuda: products of f32 and f64 are a library's, where that is found */
  uint8_t set;                      /* instructions that a back end with several sets may use: enum below */
};

/* Rows of n elements are folded, 0: none are. Short ones are told apart by how many vectors they fill. */
static inline void shape_of_rows(struct shape_class *s, int64_t n) {
  s->row = n > 64 ? 0 : n > 32 ? 64 : n > 16 ? 32 : n > 8 ? 16 : n > 0 ? 8 : 0;
  s->row_is_full = n && s->row == n;
}

/* .. of many rows on a device: for lengths in such steps, each of which is a text of its own. */
enum { SHORT_ROW = 256 };
static inline int64_t step_of_short_rows(int64_t n) { return n <= 8 ? 1 : n <= 64 ? 4 : n <= 128 ? 8 : 16; }
static inline void shape_of_short_rows(struct shape_class *s, int64_t n) {
  int64_t step = step_of_short_rows(n);
  s->short_row = n < 1 || n > SHORT_ROW ? 0 : (int)((n + step - 1) / step * step);
  s->short_row_is_full = n && s->short_row == n;
}

struct bound {                       /* a buffer bound for a launch */
  void *data;                        /* the element with all subscripts 0 */
  int64_t stride[BACKEND_RANK];      /* in elements, signed */
  bool in_register_dtype;            /* private copies: elements are of the register dtype, row-major */
};

/* What a check has found: the lowest place that fails, and what it is of there. Place NOTHING_FOUND: none fails. */
#define NOTHING_FOUND INT64_MAX
struct finding { int64_t place, value; };

/* The same in the memory of a device, where any number of threads find something at once and each word only becomes less. The
 * value is cut into three, each below the place it belongs to: so the least words are all of the lowest place. All NOTHING_FOUND:
 * none fails. Places of 2^41 and beyond have no value here: `found_there` says so. */
enum { FINDING_PARTS = 3, FINDING_BITS = 22 };
struct finding_words { int64_t place, part[FINDING_PARTS]; };

static inline bool found_there(const struct finding_words *w, struct finding *f) { /* false: the place alone */
  uint64_t value = 0;
  bool is_whole = true;
  for (int i = 0; i < FINDING_PARTS; i++) {
    is_whole &= w->part[i] >> FINDING_BITS == w->place;
    value |= ((uint64_t)w->part[i] & ((1u << FINDING_BITS) - 1)) << i * FINDING_BITS;
  }
  *f = (struct finding){ w->place, is_whole ? (int64_t)value : 0 };
  return is_whole;
}

static inline void words_clear(struct finding_words w[], int64_t n) {
  for (int64_t i = 0; i < n; i++) w[i] = (struct finding_words){ NOTHING_FOUND, { NOTHING_FOUND, NOTHING_FOUND, NOTHING_FOUND } };
}

/* A flag of the user's, and whether it has been seen in a run. Machine code knows where both stand. */
struct cancel { const volatile int *flag; int is_seen; };

struct launch {
  const int64_t *sizes;              /* by position among kernel->sizes */
  const uint64_t *args;              /* bit patterns, by position among kernel->args */
  const struct bound *bufs;          /* by buffer index; tables and locals: ignored */
  union {                            /* by site: what was found so far */
    struct finding *checks;          /* on the host: one thread's */
    struct finding_words *words;     /* on a device: at an address of its own */
  };
  int64_t lo, hi;                    /* part of the outermost loop (kir_facts.outer); ignored if there is none */
  struct cancel *cancel;             /* polled now and then inside long loops; NULL: never. Stops early if it is set */
  struct stop { uint64_t at, number; } stop; /* on a device: long loops end once this number is at that address; at 0: never */
  int64_t parts;                     /* so many launches write what is larger than this one writes; 0: one */
  uint64_t *loads;                   /* vm only: elements loaded, by buffer; NULL: not counted */
};

/* A flag that may be NULL: never set. */
static inline bool flag_is_set(const volatile int *flag) { return flag && __atomic_load_n(flag, __ATOMIC_RELAXED); }

/* Whether the cancel of a run, NULL: none, is set. Whoever sees the flag once ends with what he has: the run has failed then, even
 * if the flag is taken back. */
static inline bool cancel_is_set(struct cancel *c) {
  if (!c || __atomic_load_n(&c->is_seen, __ATOMIC_RELAXED)) return c;
  if (!flag_is_set(c->flag)) return false;
  __atomic_store_n(&c->is_seen, 1, __ATOMIC_RELAXED);
  return true;
}

struct code; /* a compiled kernel, owned by its back end */

struct backend {
  const char *name;
  bool (*available)(void);
  /* k is verified and legalised. NULL: cannot (why: "" = out of memory, else what it lacks; the caller falls back). */
  struct code *(*compile)(const struct kir_kernel *k, const struct shape_class *, const char **why);
  /* Runs [lo, hi) of the outermost loop on the calling thread, from any number of threads at once.
   * 0: done. 1: out of memory for scratch. */
  int (*run)(const struct code *, const struct launch *);
  bool (*borrows)(const struct code *, const struct launch *); /* whether that run would need memory: then it may fail. May be
                                    NULL of a device's: its launches never do */
  void (*free)(struct code *);
  void (*show)(const struct code *, struct text *); /* listing; may be NULL */
  void (*show_machine_code)(const struct code *, struct text *); /* NULL: the listing is that */
  const char *(*by)(const struct code *, const struct launch *); /* the library that would run it, NULL: none; may be NULL itself */
  void (*watch_forks)(void); /* registers the locks it takes when kernels come and go; NULL: there is none */
};

extern const struct backend backend_vm, backend_x86;

/* A device has memory of its own, a *space*: its addresses are numbers to everybody else. Work for it goes to one of its
 * *queues* and is done there in the order in which it was enqueued; calls return before that, unless they are said to wait. An
 * *event* is a point of a queue: all that was enqueued before it. The host's queue is always done, so its events are past and
 * cost nothing. Any thread may call; all but available, text and message ask for a device that is there.
 *
 * Memory belongs to the compute queue: what is taken may be used by what is enqueued there afterwards, what is given still serves
 * what is enqueued there already. */
enum { DEVICE_OK, DEVICE_NO_MEMORY, DEVICE_CANNOT, DEVICE_FAILED };
enum queue { QUEUE_COMPUTE, QUEUE_COPY, N_QUEUES };

struct event { const struct device *device; enum queue queue; uint64_t at; }; /* device NULL: it is past */

/* A library step on a device: code of the back end's own, found by its name, on dense arrays. Operands first, then results;
 * those that are not wanted have memory too. The axes in front of a problem's own are n_problems in all. */
struct routine_array { weft_dtype dtype; int rank; const int64_t *dims; bool is_wanted; uint64_t at; };
enum { ROUTINE_NUMBERS = 8 };
struct routine_call {
  const char *name;
  int n_arrays;
  const struct routine_array *array;
  int64_t n_problems, number[ROUTINE_NUMBERS]; /* number: what else there is to know, as the name says */
  struct finding_words *words;           /* of its checks, in the memory of the device */
};

struct bundle; /* launches that a device is handed at once, owned by its back end */

/* A kernel along rows that adds up along columns, too (kernel/relay.h): its sizes; bytes an element of the rows that it reads, of
 * what it reads for all rows alike, and of what it stores; numbers of a row that its folds tell; statements an element, for its
 * folds and for what it stores. */
struct relayed { int64_t rows, columns; int row_bytes, vector_bytes, written_bytes, n_slots, to_fold, to_store; };

struct device_bytes { int64_t used, peak, cached, limit, cache_limit; };

struct device {
  const struct backend *backend;         /* what its kernels are of */
  void *self;                            /* which of the back end's devices it is */
  bool (*available)(const struct device *);
  const char *(*text)(const struct device *); /* name, memory, instruction set; NULL: it is not there */
  size_t row_bytes;                      /* that threads have room for near them, to keep a row, whatever else they do; 0: none */
  const char *(*message)(void);          /* what the last failure on this thread was */
  int (*compile)(const struct device *, const struct kir_kernel *, const struct shape_class *, struct code **,
                 const char **why);      /* CANNOT: why */

  int (*take)(const struct device *, size_t bytes, uint64_t *at, struct event *since); /* other queues may use it after `since` */
  void (*give)(const struct device *, uint64_t at, size_t bytes); /* 0: nothing */
  struct device_bytes (*bytes)(const struct device *);
  void (*set_peak)(const struct device *, int64_t);
  void (*set_limits)(const struct device *, int64_t limit, int64_t cache); /* of what is taken and cached together, and of what
                                            is cached; negative: none. Gives back what is beyond; cache 0: all of it */

  bool (*has)(const struct device *, uint64_t at, size_t bytes); /* it is memory of this device, whoever has taken it */
  void *(*stream)(const struct device *); /* what others know its compute queue by; NULL: nobody does */
  int (*order)(const struct device *, uint64_t stream, bool is_ours_first); /* what the compute queue, or the stream of another
                                            library, is given from now on comes after what the other one has now */

  int (*upload)(const struct device *, enum queue, uint64_t to, const void *from, size_t bytes); /* has read `from` */
  int (*download)(const struct device *, enum queue, void *to, uint64_t from, size_t bytes);     /* waits: `to` is there */
  int (*copy)(const struct device *, uint64_t to, uint64_t from, size_t bytes); /* inside its memory, in the compute queue */
  int (*announce)(const struct device *, const struct code *, const struct launch *); /* such a launch will come, of the same sizes
                                            and strides: compiles what it takes, so that it need not then. NULL: nothing is left */
  int (*launch)(const struct device *, const struct code *, const struct launch *); /* a whole kernel, in the compute queue; bound
                                            addresses and those of words are the device's own */
  int (*routine)(const struct device *, const struct routine_call *, bool only_asks); /* in the compute queue; CANNOT: there is none
                                            for that. only_asks: compiles what it takes, enqueues nothing. NULL: there are none */
  void (*show_routine)(const struct device *, const struct routine_call *, bool is_machine_code, struct text *); /* PTX otherwise */
  bool (*multiplies_halves)(const struct device *); /* a library does so, and by tf32, faster than kernels; NULL: none does */
  bool (*multiplies)(const struct device *); /* a library does so, f32 and f64, where that is asked for; NULL: none does */
  bool (*reorders)(const struct device *); /* floats that meet through indices may be combined in any order, as kernels do; false:
                                   they may not, so kernels are to be without such stores. NULL: kernels keep the order */
  bool (*relays)(const struct device *, const struct relayed *); /* faster in one kernel than in one along rows and one along
                                   columns; of sizes alone, all else 0: perhaps. NULL: none is */
  bool (*attends)(const struct device *, const struct kir_attention *); /* kernels that are attention go tile by tile, and there is
                                   room for tiles of that part, dtype, d and e. NULL: they do not */
  uint64_t (*record)(const struct device *, enum queue);   /* the point that is reached now, as `at` of an event */
  int (*follow)(const struct device *, enum queue, const struct event *); /* what is enqueued from now on waits for it */
  int (*wait)(const struct event *);     /* FAILED: the device is lost, and what was to be done by then */
  bool (*is_past)(const struct event *); /* never waits */
  bool (*looks)(const struct code *);    /* a kernel with loops that may be stopped; NULL: none is, as the next */
  int (*stop_open)(const struct device *, struct stop *); /* a place for launches to look at, and a number that nobody has had */
  int (*stop)(const struct device *, const struct stop *); /* what looks there ends soon, with whatever it has */
  /* Clear words in the device's memory for n checks of runs to come; CANNOT: there are none left. NULL: there is no such
   * thing. give: no kernel that was not enqueued yet writes to them; are_clean: none has changed them, and all that might are
   * done. */
  int (*words_take)(const struct device *, int n, uint64_t *at);
  void (*words_give)(const struct device *, uint64_t at, int n, bool are_clean);
  /* What the calling thread launches, copies inside the device, or has done by routines between begin and end is handed over at
   * once, then and whenever it is started again; NULL: there is no such thing. CANNOT, of each of them: nothing has been enqueued.
   * end with is_wanted false: it is not to run. renew begins again, for the same launches with other parameters; CANNOT: that
   * bundle cannot be. If end cannot then, it is gone. */
  int (*bundle_begin)(const struct device *);
  int (*bundle_renew)(const struct device *, struct bundle *);
  int (*bundle_end)(const struct device *, bool is_wanted, struct bundle **);
  int (*bundle_start)(const struct device *, struct bundle *);
  void (*bundle_free)(const struct device *, struct bundle *);
  bool (*is_lost)(const struct device *); /* a kernel went wrong: every call fails from now on, and what is there is lost */
};

const struct device *cuda_device(int); /* from 0 on; NULL: there are fewer */
const char *cuda_absence(void);        /* why there is none for this process; NULL: there is one */
bool cuda_print(const struct kir_kernel *, const struct shape_class *, struct text *, const char **why); /* PTX; device or not */

#endif
