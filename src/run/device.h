/* device.h -- devices by number, and plans on one of them.
 *
 * Device 0 is the host. A run brings to the device what its kernels read, unless it is there already, enqueues them, and leaves
 * what they make there: a value is ready when it is enqueued, with an event, and goes home when somebody reads it. What its
 * kernels check is told by a verdict (verdict.h), which a run waits for unless it may stay open. A run waits too if some of its
 * steps run on the host: loops run step by step, and kernels that the device's printer refuses. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H
#include "run/plan.h"

int device_count(void);                        /* the host among them. Looks for devices when first asked */
const struct device *device_numbered(int);     /* NULL: the host, or there is none */
int device_number(const struct device *);      /* NULL: 0 */
int device_default(void);                      /* the environment variable WEFT_DEVICE, whether there is such a device or not */
struct failure *device_missing(const char *fn, int64_t); /* a number that no device has, and why not */
struct failure *device_unnamed(void);          /* the environment variable is no number */
struct failure *device_failure(const struct device *, int how, uint64_t origin);
struct failure *device_refuses(const struct device *, uint64_t origin, const char *kernel); /* to compile it */
struct failure *device_no_memory(const struct device *, int64_t bytes, const char *what, uint64_t origin);
                                               /* for that a block is not to be had */
struct failure *device_drain(void);            /* until all that was enqueued is done, on all devices that are not lost */
void device_started(void);                     /* this thread has started work on a device: */
struct failure *device_loss(void);             /* then it is told, once, that one is lost */
int device_events(int most, struct event[]);   /* of all that is enqueued on all devices now. How many there are */

/* For tests: these are the devices from now on; 0: those of the machine. */
void device_use(int n, const struct device *const[]);

bool device_may_stop(const struct plan *);     /* kernels of it, or of bodies of its loops, have long loops, which may be stopped */
struct failure *device_await(const struct device *, const struct run *); /* before the host looks at what such kernels make: until
                                                  all that is enqueued is done, or the run is cancelled. Then they end soon, and
                                                  nobody has seen what they made */
int64_t device_steps_on_host(void);            /* of plans for a device, so far */
struct failure *device_run(const struct plan *, struct run *); /* a plan for a device */

#endif
