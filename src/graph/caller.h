/* caller.h -- what weft keeps for each thread that calls it. Made at the first call, gone with the thread: what is left
 * in the thread's scopes is discarded then. */
#ifndef WEFT_CALLER_H
#define WEFT_CALLER_H
#include <stdbool.h>
#include <stdint.h>
#include "base/spare.h"
#include "graph/fail.h"

struct node;

struct caller {
  uint64_t id;                  /* 0: not made yet; never used twice in a process */
  struct weft_scope *root, *current;
  struct failure *last;         /* what weft_message is about */
  uint64_t origin;              /* set by weft_origin */
  const char *called;           /* the public function composed of others that is being called; NULL: none */
  int n_bodies;                 /* of loops that are being written on other sizes: what is written there is made of no arrays */
  struct weft_array *spare, *spare_end; /* handles to use again, the oldest first */
  int n_spare;
  struct spare scopes;          /* those that have ended */
  struct node *dead;            /* nodes being released */
  bool is_releasing;
};
struct caller *caller_enter(void); /* the first call of a thread */
extern _Thread_local struct caller caller_self;
static inline struct caller *caller(void) { return caller_self.id ? &caller_self : caller_enter(); }

#endif
