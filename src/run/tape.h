/* tape.h -- calls of functions in which sizes depend on values, played again.
 *
 * Such a call cannot be one plan: it is evaluated part by part, and every integer that a part tells may be a size of the next.
 * What was run, and which integers were told, is written down. A later call with arguments of the same sizes and strides runs the
 * same plans on its own values, without a graph, as long as it tells the same integers. Where it tells others it is begun again
 * part by part, and written down too: a tape branches there. So a tape changes how long a call takes and nothing else.
 *
 * Only calls that are short are written down (call_plans.c), as their beginning is computed twice where they leave the tape. */
#ifndef WEFT_TAPE_H
#define WEFT_TAPE_H
#include <pthread.h>
#include <stdatomic.h>
#include "run/eval.h"

struct tape;
void tape_free(struct tape *); /* NULL: nothing */

/* True: the items have their values, or another thread computes them. False: they are as before. in: arguments, ready. */
bool tape_play(struct tape *, int n, struct node *item[], struct node *const in[]);

/* Writes down what this thread runs from here on, on arguments `in` for items; NULL: it cannot, or will not. */
struct recorder *tape_begin(int n_in, struct node *const in[], int n, struct node *const item[]);
/* No longer. What was written joins *tape, which may be NULL, under the lock; is_wanted false: it is dropped. */
void tape_end(struct recorder *, _Atomic(struct tape *) *tape, pthread_mutex_t *lock, bool is_wanted);
bool tape_is_full(const struct tape *); /* has so many branches that no others are wanted. NULL: not yet */
bool tape_is_useless(const struct tape *); /* was left more often than played to its end */

/* Who runs tells: a plan has run and its targets have their values; an integer was read that may be a size; something was
 * computed in another way, so that what was written is of no use. */
struct eval;
struct recorder;
extern _Thread_local struct recorder *tape_here; /* what this thread writes; NULL: nothing */
void tape_note_run(const struct eval *), tape_note_other(void);
static inline void tape_ran(const struct eval *e) { if (tape_here) tape_note_run(e); }
static inline void tape_spoil(void) { if (tape_here) tape_note_other(); }
void tape_told(struct node *, int64_t);

#endif
