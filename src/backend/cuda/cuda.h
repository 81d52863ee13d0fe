/* cuda.h -- an NVIDIA GPU through its driver alone: libcuda is loaded when first asked for, nothing is needed to build.
 *
 * Without a driver or a device of compute capability 8.0 cuda_available() is false and every other call fails with a text;
 * so it is in a child of the process that has found the device. The first device that the driver shows is the one. All
 * calls wait until the device is done. Any thread may call. */
#ifndef WEFT_CUDA_H
#define WEFT_CUDA_H
#include "backend/backend.h"
#include "backend/cuda/ptx.h"

enum { CUDA_OK = DEVICE_OK, CUDA_NO_MEMORY = DEVICE_NO_MEMORY, CUDA_FAILED = DEVICE_FAILED };

bool cuda_available(void);
const char *cuda_message(void);                       /* what the last failure on this thread was */
const char *cuda_text(void);                          /* NULL: there is none */
struct ptx_machine cuda_machine(void);
struct device_bytes cuda_bytes(void);
void cuda_set_peak(int64_t);

int cuda_take(size_t bytes, uint64_t *at);            /* device memory, aligned to 256 */
void cuda_give(uint64_t at, size_t bytes);            /* 0: nothing */
void cuda_trim(void);                                 /* gives the cached memory back to the driver */
int cuda_upload(uint64_t to, const void *from, size_t bytes);
int cuda_download(void *to, uint64_t from, size_t bytes);

struct cuda_module;
struct cuda_entry;
int cuda_load(const char *ptx, struct cuda_module **);
void cuda_unload(struct cuda_module *);               /* NULL: nothing */
int cuda_find(struct cuda_module *, const char *name, struct cuda_entry **); /* lives as long as the module */

struct cuda_launch { struct cuda_entry *entry; const unsigned *grid, *block; size_t shared_bytes; };
/* One after the other with the same parameters, each a slot of 8 bytes. ms: NULL, or the time the device took. */
int cuda_launch(int n, const struct cuda_launch[], int n_params, uint64_t params[], double *ms);

/* Whole kernels on host memory: uploads what the bound buffers span, runs, downloads what was stored into. lo, hi, cancel
 * and loads of a launch are ignored. Buffers whose memory overlaps stay one piece, so they see each other as on the host; host
 * memory changes only when all went well. run returns CUDA_FAILED where the device or the driver failed. */
extern const struct backend backend_cuda;
int cuda_run(const struct code *, const struct launch *, double *ms); /* the same, timed */

#endif
