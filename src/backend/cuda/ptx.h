/* ptx.h -- a kernel as PTX text, and the plan by which whoever launches it chooses the grid.
 *
 * Two ways to spread a kernel over threads, chosen from its text (survey.h):
 *   spread: a thread a lane, par loops along the rows of the grid; nothing passes between threads;
 *   cooperative: a block of threads an iteration of the outer par loops; lanes are strided over its threads, folds meet
 *   by shuffles and shared memory, kept rows and locals lie in shared memory or, if too long, in a scratch buffer.
 * Every loop is strided by the size of the grid along its axis, so the plan decides speed, not results.
 *
 * Results have the bits of the vm. Sums and products of floats that meet in memory through loaded subscripts have no order. */
#ifndef WEFT_PTX_H
#define WEFT_PTX_H
#include "backend/backend.h"
#include "base/arena.h"
#include "base/text.h"

/* A size that the host can compute: a sum of products of sizes (from >= 0) and i64 args (~from). */
struct ptx_term { int64_t coef; int n, from[KIR_FACTORS]; };
struct ptx_lin { int n; struct ptx_term *term; };

enum ptx_axis { PTX_LANES, PTX_ROWS, PTX_PLANES, PTX_VOLUMES, PTX_AXES };

struct ptx_extent {        /* trips of one loop along an axis of the grid: n, or ceil(n / b), times those of loops inside it */
  uint8_t axis;
  bool is_known, in_blocks;
  struct ptx_lin n, b;
  const struct ptx_extent *inside; /* NULL: none */
};

enum ptx_row_kind { PTX_KEEP, PTX_LOCAL, PTX_COPY, PTX_FOLD };
struct ptx_row {           /* memory of one block of threads: a kept row, a local, the copy of a private output, or 4096 values at
                              most that are folded in order, number `of` of their loop */
  uint8_t kind, width;     /* width: bytes an element */
  int of;                  /* a value (keep) or a buffer */
  int shares;              /* -1, or the row whose memory it has: that one is not needed any more, element by element */
  int n_dims;
  struct ptx_lin *dims;
};

struct ptx_buf { uint8_t kind, dtype; int rank; struct ptx_lin *dims; };

enum { PTX_BATCH = 4 };    /* axes of a batch that a library is given */
enum { PTX_WIDE = 32, PTX_WIDE_BUFS = 16, PTX_STREAMS = 4 };
enum { PTX_TURNED = 8, PTX_TURNED_PARS = 8 };
enum { PTX_TALL = 16 };
enum { PTX_RUNNING = 4, PTX_NEST_PARS = 8 };
enum { PTX_LONG_ROW = 16 }; /* elements of a row of a local, from which on each begins at a multiple of four of them */
enum { PTX_RESERVED_BYTES = 1 << 10 }; /* of shared memory, that the system takes in each block of threads */
enum { PTX_STOP_BYTES = 8 }; /* of shared memory, behind the partial results of folds */
enum { PTX_SHORT_ALIGNED, PTX_SHORT_LOOSE, PTX_SHORT_FORMS }; /* short rows: neighbours are moved together, or one by one */
enum { PTX_HALVES = 2, PTX_FLOATS = 3, PTX_THINS = 3 }; /* forms of products: by tensor cores in their order, of f32 and f64 in
                               order, of few rows */

/* Par loops, each the last of what is in it, around one lane loop. */
struct ptx_nest {
  const struct kir_stmt *par[PTX_NEST_PARS], *lane; /* while it is printed */
  int n_pars;
  struct ptx_lin pars[PTX_NEST_PARS];
};

/* The parts of a text: the main entry with the one to launch before it, and one for each other entry. */
enum ptx_part { PTX_MAIN, PTX_MERGE, PTX_TILES, PTX_FIRST_HALVES, PTX_FIRST_FLOATS = PTX_FIRST_HALVES + PTX_HALVES,
                PTX_FIRST_THIN = PTX_FIRST_FLOATS + PTX_FLOATS, PTX_WIDELY = PTX_FIRST_THIN + PTX_THINS,
                PTX_SHIFTED_SPREAD, PTX_LONG, PTX_SHIFTED, PTX_LOOSE, PTX_STREAMED, PTX_IN_TURN, PTX_IN_ROWS, PTX_IN_PAIRS,
                PTX_AS_ONE_ROW, PTX_FIRST_SHORT, PTX_OF_WARPS = PTX_FIRST_SHORT + PTX_SHORT_FORMS, PTX_RELAYED, PTX_ALIGNED,
                PTX_PARTS };

/* The parameters of both entries, in this order: for every buffer but tables and locals its address and its strides in
 * bytes; sizes; args; then, where the plan has them, the address of the check slots; the address to look at (0: none), and the
 * number that ends the kernel if it is found there; the scratch buffer (0: rows lie in shared memory) and the bytes a block has
 * of it; the offset of every row (a copy: -1, combine in place); how many sets of copies there are, a power of two; the length
 * of a block of the private loop; how many rows are streamed at a time; the copies of iterations or blocks of threads, the bytes of
 * one, and how many blocks left one. */
struct ptx_plan {
  struct arena *arena;
  size_t heading_bytes, end[PTX_PARTS]; /* of the text: its heading, and where its parts end, which follow each other; the heading
                               and a part are a module of their own */
  bool merges_early;        /* merge may be launched while the main entry runs, whose end it waits for */
  const char *entry, *init, *merge; /* NULL, or: init, to launch before, empties private outputs; merge, behind, combines the copies
                               of iterations into them, by blocks of MERGE_THREADS */
  const char *product;      /* NULL, or another entry for the same by tiles of product_side, blocks of 256 threads */
  struct ptx_lin product_rows, product_columns, product_batch[PTX_NEST_PARS];
  int n_batch;              /* loops around both */
  bool is_of_vector;        /* there are no rows, and all lengths are known before a launch */
  int product_side;
  const char *halves[PTX_HALVES]; /* NULL, or entries for the same by tensor cores, large tiles first; .. */
  int halves_bufs[2], halves_axis[2]; /* .. their operands, which must be aligned but along these axes, which have neighbours; */
  unsigned halves_moves[2]; /* bit d: a tile moves along axis d */
  bool is_librarys;         /* a product of f32 or f64 that was asked to be a library's */
  const char *floats[PTX_FLOATS]; /* NULL, or entries for the same by tiles of this dtype, instead of those of product_side */
  weft_dtype floats_dtype;
  const char *thin[PTX_THINS]; /* NULL, or entries for the same of few rows, fewest first; thin_width: bytes of a sum */
  int thin_width;
  bool thin_is_staged;      /* .. and the right operand comes through shared memory */
  struct ptx_library {      /* the kernel is a product by tensor cores and nothing else: axes of a, b and y */
    bool is_there;
    int buf[3], down[3], across[3]; /* down: of a, y the row, of b the step of k; across: of a the step, else the column */
    int n_batch, batch_axis[3][PTX_BATCH]; /* -1: it does not move along it */
    struct ptx_lin batch[PTX_BATCH];
  } library;
  const struct kir_attention *attention; /* NULL, or the entries go tile by tile along these sizes; .. */
  const char *aligned_entry; /* .. this one where operands are aligned */
  int capability;           /* of the device: 90 is 9.0 */
  bool by_groups;           /* ptx_by_groups */
  struct ptx_lin attention_rows, attention_batch[KIR_ATTENTION_AXES];
  /* NULL, or an entry whose threads take neighbours of a lane loop together */
  const char *wide_entry, *long_entry, *shifted_entry, *loose_entry;
  const char *shifted_spread_entry; /* NULL, or of elements that need nothing of each other: rows not aligned, but all alike */
  struct ptx_wide {
    bool is_rows;           /* all of a row at once, folds and all; .. */
    bool can_be_long;       /* .. and rows that are longer than that: there are long_entry and loose_entry too */
    const struct kir_stmt *along; /* while it is printed: NULL, or an access along the row, from whose elements all others are a
                               multiple of 16 bytes away if their strides are alike: there is shifted_entry too */
    int each, n_folds, fold_bytes; /* neighbours; folds with an order in a loop, and bytes of a value of one */
    int again;              /* long rows: statements by which one warp folds an element once more, or 0 */
    bool asks;              /* long rows: blocks of threads that go from row to row ask for the next one */
    bool has_columns;       /* spread: there are loops in the lanes */
    int groups;             /* of neighbours, a step apart, that a thread has at a time */
    struct ptx_lin length;  /* of the lane loop */
    int n_bufs, bufs[PTX_WIDE_BUFS], axis[PTX_WIDE_BUFS]; /* what must be aligned, but along that axis */
    int n_apart, apart[PTX_WIDE_BUFS], apart_axis[PTX_WIDE_BUFS]; /* whose lanes are apart along that axis */
  } wide;
  const char *streamed_entry; /* NULL, or an entry of long rows, of what wide says: bulk copies bring them, registers hold them */
  struct ptx_streamed {
    int n_loads;            /* 0: there is none */
    const struct kir_stmt *load[PTX_STREAMS]; /* while it is printed: those of the first loop that bulk copies make */
    int bytes;              /* of an element, all that is loaded so */
  } streamed;
  const char *short_entry[PTX_SHORT_FORMS]; /* NULL, or entries of which a few lanes of a warp have a short row */
  struct ptx_shorts {
    struct ptx_nest nest;   /* its lane: the first one */
    struct ptx_lin length;  /* of the lane loops, .. */
    int least, most;        /* .. elements at least and at most; most 0: there are no such entries */
    struct ptx_share { int each, lanes, elements; } share[PTX_SHORT_FORMS]; /* neighbours that a lane moves at a time, lanes that
                               share a row, elements that each of them has */
    int n_bufs, bufs[PTX_WIDE_BUFS], axis[PTX_WIDE_BUFS]; /* what must be aligned, but along that axis */
  } shorts;
  const char *warp_rows_entry; /* NULL, or an entry of rows that are not aligned, a warp a row; the length of its lane loops */
  struct ptx_lin warp_rows;
  const char *relay_entry;  /* NULL, or an entry whose warps hand rows on: some fold them, others write (gpu_relay.c) */
  struct ptx_relay {
    const struct kir_stmt *loop; /* while it is looked for: a lane loop */
    int each;               /* neighbours that a thread moves at a time; 0: there is none */
    int row_bytes, vector_bytes, n_slots; /* of what lanes load, bytes an element: of rows, and of what is the same for all rows;
                               values that folds tell of a row */
    struct ptx_lin length;
    int n_bufs, bufs[PTX_WIDE_BUFS], axis[PTX_WIDE_BUFS]; /* what must be aligned, but along that axis */
  } relay;
  const char *turned_entry; /* NULL, or an entry that goes by tiles of a par loop and the lane loop */
  struct ptx_turned {
    const struct kir_stmt *par[PTX_TURNED_PARS], *lane, *load[PTX_TURNED]; /* while it is printed: the loops, and the loads .. */
    int n_pars, row, n_loads, at[PTX_TURNED]; /* .. that go through tiles; row: which of the loops; at: where in shared memory */
    int rows, columns;      /* of a tile */
    size_t bytes;           /* of shared memory */
    int n_others;
    struct ptx_lin n_rows, n_columns, others[PTX_TURNED_PARS];
  } turned;
  const char *pairs_entry;  /* NULL, or an entry of which a thread has two elements that draw from the same random words */
  struct ptx_pairs {
    const struct kir_stmt *par, *lane; /* while it is printed: the loops; par may be NULL */
    int n_value, width_value; /* while it is looked for: 1 + the value that is how many words there are, and how many a row has */
    int n, width;           /* arguments: that value; of a kernel with rows also how many words one has */
    struct ptx_lin n_rows, n_columns;
  } pairs;
  const char *flat_entry;   /* NULL, or an entry that goes along all elements of a nest of short rows as if they were one */
  struct ptx_flat {
    struct ptx_nest nest;
    int each;               /* elements that a thread has at a time */
    struct ptx_lin length;
  } flat;
  const char *running_entry; /* NULL, or an entry of which a thread goes through a row with running combines */
  struct ptx_running {
    struct ptx_nest nest;
    int n_lines, width, bytes, group; /* width: of the widest element; bytes: of shared memory; group: elements at a time */
    bool is_ordered;
    struct ptx_line_of {    /* a load or store along the row; is_back: neighbours stand the other way round */
      const struct kir_stmt *s;
      int buf, axis, width, at; /* at: where in shared memory */
      bool is_back;
    } line[PTX_RUNNING];
    struct ptx_lin length;
  } running;
  struct ptx_tall {         /* inputs whose rows may be rows of each other: neighbours along lanes, and rows along this axis */
    int n, bufs[PTX_TALL], row[PTX_TALL];
  } tall;
  struct ptx_lin steps[3];  /* of a product: how many are added; those of long sums: 512 (1 + [1]) + [2] */
  bool is_long;
  const struct kir_stmt *chain; /* NULL, or the kernel is this serial loop, in all lanes of a warp; while it is printed */
  bool is_chain;
  bool is_cooperative, is_single; /* single: one block of threads */
  int a_warp;               /* elements of a block of these: */
  bool is_ordered, is_one_warp, is_dealt; /* lanes go to warps by blocks, all of them to one, or to all threads */
  int n_bufs, n_sizes, n_args, n_checks, n_extents, n_rows, n_params;
  struct ptx_buf *bufs;
  struct ptx_extent *extents;
  struct ptx_row *rows;
  int contended;            /* 0, or 1 + a buffer for whose places threads may compete with exchanges: each one that fails costs the
                               others time */
  bool locals_are_shared;   /* the rows are locals, and lie in shared memory whatever the launch */
  bool is_recurrent;        /* lanes in a serial loop, that wait for each other in every step */
  bool has_stop;            /* long loops look now and then whether they are to end */
  bool has_sets;            /* private outputs are combined by exchanges, which fail where others compete: a block of threads may
                               have several copies of them */
  bool has_block;           /* the length of private blocks may be chosen */
  bool in_order;            /* every iteration of the private loop has copies of its own, in memory */
  bool leaves;              /* blocks of threads leave the copy of the one private output in memory for merge, where they had it in
                               shared memory */
  struct ptx_lin block_n, block_b; /* of the private loop; blocks of 1 where it has none */
  size_t partial_bytes;     /* static shared memory */
};

/* How many pieces of b elements n of them are, the last one perhaps not whole. */
static inline int64_t ptx_parts(int64_t n, int64_t b) { return n > 0 ? (n - 1) / b + 1 : 0; }

enum { MERGE_THREADS = 256, MERGED_BYTES = 8 * MERGE_THREADS };

enum { PTX_ACROSS = 256 }; /* threads of a block, and as many as it may have along lanes */

struct ptx_machine { int n_processors; size_t shared_bytes; /* most a block may have */ };

/* The sizes of one launch. */
struct ptx_shape {
  unsigned grid[3], block[3];
  int most_across;          /* threads of a block along lanes, of elements that need nothing of each other */
  size_t shared_bytes, scratch_bytes, row_bytes; /* scratch in all, and a block's part of it */
  size_t fold_bytes;        /* of the rows: of those that are folded, the last ones */
  size_t sets;              /* of copies of private outputs, in shared memory */
  bool is_alone;            /* .. which is all that a processor has */
  size_t copy_bytes, copies_bytes; /* in_order, leaves: the copies of an iteration or a block of threads, and of all */
  unsigned merge_grid[3], merge_block[3];
  bool is_product;          /* the grid is that of the entry by tiles */
  bool is_halves;           /* .. or of the entry by tensor cores of this form */
  int halves_form;
  bool is_floats;           /* .. or of the entry of f32 and f64 of this form */
  int floats_form;
  bool is_thin;             /* or of the entry of few rows of this form */
  int thin_form;
  bool is_wide, is_long, is_loose; /* .. or of the entry that takes neighbours together; of long rows, and not aligned; .. */
  bool is_shifted;          /* .. of rows that are all as far from being aligned */
  bool is_streamed;         /* .. of long rows that bulk copies bring, .. */
  int streams;              /* .. so many at a time */
  bool is_short;            /* .. of short rows, in this form */
  int short_form;
  bool is_of_warps;         /* .. of rows that a warp has each */
  bool is_relayed;          /* .. whose warps hand rows on; streams: for so many there is room */
  bool is_running;          /* .. or of the entry of running combines */
  bool is_turned;           /* .. or of the entry that goes by turned tiles */
  bool is_flat;             /* .. or of the entry that goes along all elements as if they were one row */
  bool is_paired;           /* .. or of the entry whose threads have pairs of elements */
  bool is_aligned;          /* .. or of attention whose operands are aligned */
  int64_t *row_at;          /* by row; in the arena given */
  int64_t block_length;
};

/* Halves are multiplied by wgmma, in modules for that compute capability alone. */
static inline bool ptx_by_groups(int capability) { return capability == 90; }

/* k is verified and legalised. False: cannot, and why says what is missing ("": out of memory). */
bool ptx_print(const struct kir_kernel *k, const struct shape_class *, int capability, struct text *out, struct ptx_plan *,
               const char **why); /* capability: of the device, 90 is 9.0 */
void ptx_plan_free(struct ptx_plan *);
bool ptx_is_one_number(const struct ptx_plan *); /* in_order, and all that iterations leave is one number each */
int64_t ptx_size(const struct ptx_lin *, const int64_t sizes[], const uint64_t args[]);
bool ptx_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
               struct arena *, struct ptx_shape *); /* false: out of memory */
/* The shape of a main entry whose threads need nothing of each other, with so many of a block along lanes at most. */
void ptx_spread_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                      int most_across, struct ptx_shape *);
/* Makes its blocks of threads several rows high where rows are read more than once; before the shapes of other entries. */
bool ptx_tall_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                    const struct bound bufs[], struct ptx_shape *);
/* Whether they are. */
bool ptx_rows_meet(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[], const struct bound bufs[]);
/* Whether a block of threads has room for the tiles of such a kernel. */
bool ptx_attends(const struct ptx_machine *, int capability, const struct kir_attention *);
/* The shape of a kernel that is attention; false: it is none. */
bool ptx_attention_shape(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[], struct ptx_shape *);
/* Turns it into that of aligned_entry, where its operands stand so. */
bool ptx_attention_aligned_shape(const struct ptx_plan *, const struct bound bufs[], struct ptx_shape *);
/* Turns the shape of the main entry into that of wide_entry, where arrays stand so. */
bool ptx_wide_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                    const struct bound bufs[], struct ptx_shape *);
bool ptx_warp_rows_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                         struct ptx_shape *); /* after those of gpu_wide.h, which it leaves alone */
bool ptx_relay_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                     const struct bound bufs[], struct ptx_shape *); /* likewise */
/* Whether such a kernel, handing rows on, is faster than two. */
bool ptx_relays(const struct ptx_machine *, const struct relayed *);
bool ptx_running_shape(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[], const struct bound bufs[],
                       struct ptx_shape *); /* likewise */
bool ptx_turned_shape(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[], struct ptx_shape *); /* likewise */
bool ptx_pairs_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                     struct ptx_shape *); /* likewise */
bool ptx_flat_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                    struct ptx_shape *); /* likewise, where no other does */
/* Turns the shape of a product into that of its entry for f32 and f64. */
bool ptx_floats_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                      struct ptx_shape *);
/* Turns the shape of the main entry of a product into that of its entry for few rows. */
bool ptx_thin_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                    struct ptx_shape *);
/* How many products a result adds up. */
int64_t ptx_steps(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[]);
/* Of a product's batch, as many as may be side by side. */
int64_t ptx_matrices(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[]);
/* Turns the shape of a product into that of an entry by tensor cores, where operands stand so that it can read them. */
bool ptx_halves_shape(const struct ptx_plan *, const struct ptx_machine *, const int64_t sizes[], const uint64_t args[],
                      const struct bound bufs[], struct ptx_shape *);

#endif
