/* verdict.h -- what the checks of an evaluation on a device will say: its values are to be trusted, or why not.
 *
 * Kernels that look at indices write what they find to words in the memory of the device. Who enqueues them without waiting gives
 * the values a verdict, which is open until somebody reads the words: where values leave, never before. It begins with the open
 * verdicts of what the evaluation reads, so what is computed from what fails fails for the same reason, and nothing else does.
 * What was stored on the way, because somebody holds it, has a part of it: the checks of the steps that it is made by.
 * Want of memory and failures of the device leave it open: it may be asked again. Any thread may call. */
#ifndef WEFT_VERDICT_H
#define WEFT_VERDICT_H
#include <stdbool.h>
#include <stdint.h>

struct device; /* backend/backend.h, as the next */
struct finding_words;
struct failure; /* graph/fail.h, as the next */
struct node;
struct plan;   /* run/plan.h */
struct verdict;

struct verdict *verdict_retain(struct verdict *); /* NULL: nothing, as for all the others */
void verdict_release(struct verdict *);

/* What is about to be enqueued: n_checks, of the steps of the plan that run on the device. Without checks it only joins those
 * before it. *out NULL: nothing is open. A failure is want of memory, or that of one before it. */
struct failure *verdict_open(const struct plan *, int n_checks, int n, struct verdict *const before[], struct verdict **out);
struct failure *verdict_join(int n, struct node *const[], struct verdict **out); /* of all these values */
/* Of one that is closed, whose plan it is: the checks of these steps, and these before it. Before others know of either. */
struct failure *verdict_part(struct verdict *whole, const struct plan *, const bool is_step[], int n,
                             struct verdict *const before[], struct verdict **out);
struct finding_words *verdict_words(const struct verdict *);   /* on the device; NULL: it has none of its own */
struct failure *verdict_so_far(struct verdict *); /* what those before it and its words say now, while more is to be enqueued;
                                                     waits. NULL: nothing yet */
void verdict_close(struct verdict *);             /* all is enqueued */

bool verdict_is_open(const struct verdict *);
bool verdict_has_failed(const struct verdict *);  /* somebody has asked, and it is a failure */
bool verdict_is_past(const struct verdict *);     /* to ask it would not take long; never waits */
struct failure *verdict_known(const struct verdict *); /* with a reference; NULL: it is open, or fine. Never waits */
struct failure *verdict_await(struct verdict *);  /* with a reference; NULL: it is fine */
struct failure *node_verdict(struct node *);      /* that of a ready node's value; if it is none, the node has failed from now on */

#endif
