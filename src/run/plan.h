/* plan.h -- a schedule with its kernels compiled: what to run, found again by the exact structure of the graph. */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H
#include "run/compiled.h"
#include "schedule/schedule.h"

struct bundled;
struct plan {
  _Atomic int refs;              /* the table is one */
  struct arena *arena;
  struct schedule *schedule;
  const struct device *device;   /* where it runs; NULL: on the host */
  bool only_enqueues;            /* on its device, all of it, and nothing is checked */
  bool may_be_bundled;           /* bundled.h */
  _Atomic(struct bundled *) bundled; /* NULL: nothing is kept yet */
  bool needs_caller;             /* a step of it, or of a body, is run by whoever asks: not in the background */
  bool calls_some;               /* loops or functions of the host: an evaluation holds what their nodes own */
  struct compiled **code;        /* by step; NULL: a replay, or a contraction that no kernel goes on with */
  bool *is_there;                /* by step: it runs on the device, on the memory of stores there */
  struct plan **body;            /* by step; a replay's */
  _Atomic(struct product *) *product; /* four a step: how it was multiplied by one thread and by several, and so by panels
                                    that are kept (product.c), or NULL */
  uint64_t hash;
  size_t key_bytes;
  void *key;
  struct plan *next;
  uint64_t used;                 /* when it was last found */
  size_t bytes;                  /* its arena and its key */
};

struct failure *plan_stopped(const volatile int *flag); /* NULL: the flag is not set */
struct failure *run_stopped(struct cancel *);           /* the same in a run */

/* The graph as a plan wants it: local nodes in order, leaves numbered in `serial`. It lives in `arena`, which the plan
 * takes over. */
struct program {
  struct arena *arena;
  struct node_list list;
  int n_targets, n_leaves;
  struct node **target;
  struct place *leaf_place;
  enum rule_tag rewrites;        /* the most that is allowed */
  const struct device *device;   /* where it is to run; NULL: on the host */
};

/* Takes over program->arena in any case. NULL: *failure says why. */
struct plan *plan_for(struct program *, struct failure **);
struct plan *plan_of_schedule(struct arena *, struct schedule *, const struct device *, struct failure **); /* the same */
void plan_retain(struct plan *), plan_release(struct plan *);

/* The table of plans. */
struct plan *plan_find(const void *key, size_t bytes, uint64_t hash); /* with a reference, or NULL */
void plan_keep(struct plan *, const void *key, size_t bytes, uint64_t hash);
void plan_drop_all(void);
enum { PLAN_TABLE_BYTES = 64 << 20 };  /* beyond it, plans that were not used lately are forgotten */
size_t plan_table_bytes(void);
void plan_use_fusing(bool); /* for tests: false: one op a kernel, in plans made from now on */

/* What a run is given and gives. */
struct undo;
struct leaf {
  struct buffer *buf;
  int64_t offset;                /* in bytes */
  bool dies;                     /* nobody needs its value after this run: its memory may be given to an output */
  bool is_taken;                 /* on a device it was, whatever became of the run */
  bool is_constant;              /* of a function that has been called before: the same in every run */
};
struct run {
  struct leaf *leaf;
  struct cancel *cancel;         /* NULL: it cannot be */
  int threads;
  bool gives;                    /* some leaf dies */
  struct buffer **out;           /* by store: buffers of output stores, with references; others NULL. n_stores entries */
  uint64_t **loads;              /* vm: by step, by buffer; NULL: not counted */
  int overwrites;                /* 1 + the first step that changes a leaf's memory; from there on nothing fails or stops.
                                    0: none */
  struct undo *undo;             /* what is written back if it fails; NULL: nothing */
  struct finding_words *words;   /* on a device: of the checks of the next step, in its memory; NULL: none has any */
  int n_before;                  /* on a device: open verdicts of its leaves (verdict.h) */
  struct verdict **before;
  struct stop stop;              /* on a device: where kernels with long loops look; at 0: nowhere */
  bool stays_open;               /* on a device: it need not wait for its checks, if it says so: */
  struct verdict *verdict;       /* with a reference; NULL: its values are to be trusted */
};
weft_status plan_run(struct plan *, struct run *, struct failure **);
/* Steps on the memory of stores; in order, or one of them. */
struct failure *plan_steps(const struct plan *, struct run *, uint8_t *const base[]);
struct failure *plan_step(const struct plan *, int step, struct run *, uint8_t *const base[]);
struct failure *plan_pass(const struct plan *, struct run *); /* the last chance to fail, before the first step that overwrites */
int64_t plan_peak(const struct plan *, int threads);    /* bytes allocated at the same time, if no leaf gives its memory; */
int64_t plan_scratch(const struct plan *, int threads); /* of these, the most that a step needs to work in */
int plan_library_calls(const struct plan *, int step);
bool plan_may_fail(const struct plan *, int step); /* see struct step_kind */
int plan_checks(const struct plan *, int step);    /* on a device: those that find something, and write it to words of theirs */
struct failure *plan_found(const struct plan *, int step, int check, const struct finding_words *); /* what they say */
bool plan_looks(const struct plan *, int step);
bool plan_is_on_device(const struct plan *, int step); /* runs there, on the memory of stores there */

#endif
