/* device.h -- plans on a device with memory of its own.
 *
 * Device 0 is the host. Values stay buffers of the host: a run brings to the device what its kernels read, keeps there
 * what they make, and takes home what becomes a value. Loops run step by step, and kernels that the device's printer
 * refuses, run on the host in between. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H
#include "run/plan.h"

int device_count(void);                        /* the host among them. Looks for devices when first asked */
const struct device *device_numbered(int);     /* NULL: the host, or there is none */
int device_default(void);                      /* the environment variable WEFT_DEVICE, if there is such a device; else 0 */
void device_use(const struct device *);        /* for tests: is device 1 from now on; NULL: the GPU */
struct failure *device_failure(const struct device *, int how);

/* All steps of a plan for a device. base: the memory of stores on the host; NULL where no step there needs any. */
struct failure *device_steps(const struct plan *, struct run *, uint8_t *const base[]);

#endif
