/* donate.h -- arrays that die with an evaluation, and what takes their memory.
 *
 * A leaf dies if nobody can ask for its value afterwards: it is the only value in memory of weft's own, and everybody who
 * refers to it is part of the evaluation and goes with it, or is the name that is to be updated. An update to come takes
 * the name over at once, as a leaf without a value yet, so that nobody can get at the old one meanwhile. From the first
 * step that overwrites anything nothing fails and nothing stops, so that all of it happens, or nothing; or little is overwritten,
 * and kept to be written back (undo.h).
 *
 * On a device the memory of a copy there goes over to the output's buffer, and what the leaf has in other spaces stays. What checks
 * have to say is read before anything is overwritten, so a run that does not wait for its checks, or for those of what it reads,
 * overwrites nothing. Only a device that refuses a kernel half-way can lose what was overwritten: the leaf has failed then. */
#ifndef WEFT_DONATE_H
#define WEFT_DONATE_H
#include "graph/scope.h"
#include "run/plan.h"

/* An update that is waiting for its value. The references are those of whoever closes the scope. */
struct heir {
  weft_array *outer;
  struct node *value;    /* what it will be */
  struct node *was;      /* what it names */
  struct node *leaf;     /* what it will name: not ready, with room for a value. NULL: it cannot be named before */
  bool is_named;         /* outer names the leaf, and gave a reference to `was` for it */
  bool is_done;          /* and the leaf has the value */
};

/* An evaluation, as far as it matters here. */
struct donation {
  int n, n_asked;                /* targets: of each there is a reference, and one more if it was asked for */
  struct node *const *target;
  const bool *forgets;           /* by target: it will have no history */
  int n_heirs;
  struct heir *heir;
  int n_leaves;
  struct node *const *leaf;
  bool *dies;                    /* by leaf: found out */
  const struct node *call;       /* of which there is one more reference; NULL: none */
};
bool donate_may(const struct node *);          /* its memory is worth it, and nobody else has it */
bool donate_find(struct donation *);           /* whether one dies; heirs are named then. Graph lock held */
void heirs_settle(int n, struct heir[], bool is_done); /* those that are named: ready, with the new value or, the name given
                                                  back, with the old one. Graph lock held */
void heir_fill(struct node *leaf, const struct node *from); /* gives it the value of a ready node; graph lock held */

/* Outputs take over the memory of leaves that die: `take` is called for each such gift, false: it cannot be taken. NULL: they are
 * only counted. How many bytes. */
typedef bool gift_taker(void *of, const struct gift *);
int64_t donate_memory(const struct plan *, struct run *, gift_taker *take, void *of);

/* Between these two memory holds neither the old nor the new value, and no process is forked. */
void overwriting_begin(void);                  /* does nothing if this thread does already */
void overwriting_end(void);                    /* graph lock held; does nothing if none has begun */
void overwriting_await(void);                  /* until nobody does; graph lock held */

#endif
