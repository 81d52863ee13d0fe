/* far.h -- devices of the tests: the vm, with memory that nobody else can touch and work that is done when it likes.
 *
 * What is enqueued is kept in queues like a GPU's streams, and done when somebody waits for it, at once, or a little at a time, as
 * `far_lag` says. Memory that is given is overwritten when the compute queue comes to it, and handed out again before that: who
 * does not keep to the order of queues finds other bytes there. WEFT_TEST_DEVICE=1 makes them devices 1 and 2 for all tests: with
 * WEFT_DEVICE=1 they run there; WEFT_TEST_LAG says how. */
#ifndef WEFT_FAR_H
#define WEFT_FAR_H
#include "backend/backend.h"

enum { FAR_AT_ONCE, FAR_WHEN_WAITED_FOR, FAR_NOW_AND_THEN };

struct far_counts { int64_t bytes, most, takes, uploads, downloads, downloaded, launches, runs, stopped, pending; }; /* most: bytes */
extern _Atomic int far_lag;
extern _Atomic int far_refuses;                /* one kernel in so many; 0: none */
extern _Atomic int far_takes_left, far_launches_left, far_uploads_left, far_downloads_left; /* before it fails; negative: never */
extern _Atomic int far_runs_left;              /* before a kernel that was enqueued fails, and the device is lost */
extern _Atomic bool far_stuck;                 /* nothing that is enqueued ends, for who asks */
extern _Atomic bool far_looks;                 /* kernels may be stopped before they begin (counts.stopped), as long loops of a GPU */
extern const volatile int *far_cancel_after_run;
extern volatile int *far_taken_back;           /* a flag that is 0 again as soon as launches are told to stop; NULL: none */

enum { FAR_STREAM = 5 };                       /* a stream of somebody else there: its copy queue */
const struct device *far_device(int);          /* 0, 1 */
void far_use(void);                            /* they are the devices from now on; nothing fails and all counts are 0 */
void far_leave(void);                          /* as before the test. Says so if they hold memory */
void far_begin(int lag);                       /* far_use, and what is evaluated from now on runs on the first of them */
void far_end(void);
weft_array *far_ramp(int n);                   /* 0, 1 .. n - 1 as f32 */
void far_expect_ramp(weft_array *, int n, float by, float from); /* that it is by i + from */
struct far_counts far_counts(void);            /* of both; since far_use, but bytes and pending, which are now */
void far_count_anew(void);                     /* the most that was taken, and how often, from now on */
void far_drain(void);                          /* does all that is enqueued */
void *far_memory(const void *there);           /* where the bytes of an address of theirs are */

#endif
