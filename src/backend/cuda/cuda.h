/* cuda.h -- NVIDIA GPUs through their driver alone: libcuda is loaded when first asked for, nothing is needed to build.
 *
 * Without a driver or a device of compute capability 8.0 cuda_available() is false and every other call fails with a text;
 * so it is in a child of the process that has found the devices. Each has two streams, its queues; calls enqueue and return,
 * unless they say that they wait. Any thread may call. A fault of a kernel loses the device's context: from then on every call
 * fails with the driver's text. */
#ifndef WEFT_CUDA_H
#define WEFT_CUDA_H
#include "backend/backend.h"
#include "backend/cuda/ptx.h"

enum { CUDA_OK = DEVICE_OK, CUDA_NO_MEMORY = DEVICE_NO_MEMORY, CUDA_FAILED = DEVICE_FAILED };

struct gpu;
struct gpu *cuda_gpu(int);                            /* from 0 on; 0 is never NULL, whether there is one or not */
bool cuda_available(void);                            /* there is at least one */
bool cuda_is_there(const struct gpu *);
const char *cuda_message(void);                       /* what the last failure on this thread was */
const char *cuda_text(const struct gpu *);            /* NULL: there is none */
void cuda_leave(void);                                /* at the end of what others call: a context that this thread came with is its
                                                         current one again. One that came without any keeps ours */
struct ptx_machine cuda_machine(const struct gpu *);

/* gpu_memory.c: device memory, aligned to 256, ordered by the compute queue, with a cache. */
int cuda_take(struct gpu *, size_t bytes, uint64_t *at, uint64_t *since); /* other queues: from that point on; 0: at once */
void cuda_give(struct gpu *, uint64_t at, size_t bytes); /* 0: nothing */
void cuda_set_limits(struct gpu *, int64_t limit, int64_t cache); /* see struct device; waits if memory goes back to the driver */
bool cuda_take_again(struct gpu *, uint64_t at, size_t bytes); /* the same block, if it is in the cache; for the compute queue */
struct device_bytes cuda_bytes(const struct gpu *);
void cuda_set_peak(struct gpu *, int64_t);

int cuda_upload(struct gpu *, enum queue, uint64_t to, const void *from, size_t bytes);
int cuda_copy(struct gpu *, uint64_t to, uint64_t from, size_t bytes); /* in the compute queue */
int cuda_download(struct gpu *, enum queue, void *to, uint64_t from, size_t bytes); /* waits */

/* Points of a queue, numbered from 1 on. */
uint64_t cuda_record(struct gpu *, enum queue);
uint64_t cuda_point_after(struct gpu *, enum queue);  /* one that will come after all that is enqueued now; costs nothing */
int cuda_follow(struct gpu *, enum queue, struct gpu *of, enum queue, uint64_t point);
int cuda_wait(struct gpu *, enum queue, uint64_t point);
bool cuda_is_past(struct gpu *, enum queue, uint64_t point);

/* With streams of others: a CUstream, 0 or 1 the default one, 2 the thread's. */
int cuda_stop_open(struct gpu *, struct stop *);      /* see struct device */
int cuda_stop(struct gpu *, const struct stop *);
int cuda_words_take(struct gpu *, int n, uint64_t *at);
void cuda_words_give(struct gpu *, uint64_t at, int n, bool are_clean);
void *cuda_stream(struct gpu *);                      /* the compute queue; NULL: there is none */
int cuda_order(struct gpu *, uint64_t stream, bool is_ours_first); /* see struct device */
bool cuda_has(struct gpu *, uint64_t at, size_t bytes); /* the driver knows it as memory of this device */

bool cuda_is_lost(struct gpu *);
void cuda_note_launch(struct gpu *, const char *name); /* a kernel was enqueued: should the device be lost, it may be the one */
int cuda_blame(struct gpu *, int how);                /* how; the message of a lost device names the kernels that had not ended */

struct cuda_module;
struct cuda_entry;
int cuda_load(struct gpu *, const char *ptx, struct cuda_module **); /* cubin.c: compiled, or found on disk */
int cuda_machine_code(struct gpu *, const char *ptx, void **code, size_t *bytes); /* a copy, for mem_free */
void cuda_show_sass(const void *code, size_t bytes, struct text *);  /* sass.c */
void cuda_unload(struct gpu *, struct cuda_module *); /* NULL: nothing. Waits until nothing runs */
int cuda_find(struct gpu *, struct cuda_module *, const char *name, struct cuda_entry **); /* lives as long as the module */

/* is_early: its blocks of threads may come while the launch before it still runs, for which they wait themselves. */
struct cuda_launch { struct cuda_entry *entry; const unsigned *grid, *block; size_t shared_bytes; bool is_early; };
/* One after the other with the same parameters, each a slot of 8 bytes. ms: NULL, or the time the device took: then it waits. */
int cuda_launch(struct gpu *, int n, const struct cuda_launch[], int n_params, uint64_t params[], double *ms);

/* bundle.c: launches that are handed over at once; see struct device. */
int cuda_bundle_begin(struct gpu *);
int cuda_bundle_renew(struct gpu *, struct bundle *);
int cuda_bundle_end(struct gpu *, bool is_wanted, struct bundle **);
int cuda_bundle_start(struct gpu *, struct bundle *);
void cuda_bundle_free(struct gpu *, struct bundle *);

/* Whole kernels on host memory, on the first device: uploads what the bound buffers span, runs, downloads what was stored into.
 * lo, hi, cancel and loads of a launch are ignored. Buffers whose memory overlaps stay one piece, so they see each other as on
 * the host; host memory changes only when all went well. run returns CUDA_FAILED where the device or the driver failed. */
extern const struct backend backend_cuda;
int cuda_run(const struct code *, const struct launch *, double *ms); /* the same, timed */

#endif
