/* fail.h -- errors as values. Every failure of the library is made by `fail` (the breakpoint for all of them). */
#ifndef WEFT_FAIL_H
#define WEFT_FAIL_H
#include <stdbool.h>
#include "weft.h"

struct text;    /* base/text.h */
struct failure; /* a status, a message, the origin tag; counted, immutable but for `seen` */

/* Never returns NULL: out of memory gives a static failure. Message: "weft_add: shapes [3] and [4] do not broadcast". */
struct failure *fail(weft_status, uint64_t origin, const char *format, ...) __attribute__((format(printf, 3, 4)));
struct failure *failure_retain(struct failure *);
void failure_release(struct failure *);
struct failure *failure_in_step(struct failure *, int64_t step, bool is_backward); /* takes it over; the same, said of a step of a
                                       loop. is_backward: it goes back through another, so its steps count from that one's end */
void text_add_step(struct text *, int64_t step, bool is_backward); /* the words for it */
struct failure *failure_for(struct failure *, const char *fn); /* "weft_eval: .." as fn says it, which evaluates too.
                                                                  Takes it over */
weft_status failure_status(const struct failure *);
const char *failure_message(const struct failure *);
bool failure_seen(struct failure *, bool mark); /* whether somebody has looked; marks it if asked */

/* Makes it the thread's last error (weft_message, weft_blame) and returns its status. */
weft_status failure_report(struct failure *);
weft_status failure_tell(struct failure *);  /* reports it, and lets go of it. NULL: nothing has failed, WEFT_OK */
weft_status report(weft_status, const char *format, ...) __attribute__((format(printf, 2, 3))); /* fail + report + release */

#endif
