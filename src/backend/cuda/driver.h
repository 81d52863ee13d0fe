/* driver.h -- libcuda as far as it is used, and what a GPU is: for the files of this folder that speak to the driver. */
#ifndef WEFT_CUDA_DRIVER_H
#define WEFT_CUDA_DRIVER_H
#include <pthread.h>
#include <stdatomic.h>
#include "backend/cuda/cuda.h"

typedef int result;
typedef void *handle;

struct node_params {         /* as the driver's CUDA_KERNEL_NODE_PARAMS_v2 */
  handle entry;
  unsigned grid[3], block[3], shared_bytes;
  void **params, **extra;
  handle kernel, context;
};

struct launch_attribute { int id, unused; union { int is_early; char bytes[64]; } value; }; /* as CUlaunchAttribute */
struct launch_config {       /* as CUlaunchConfig */
  unsigned grid[3], block[3], shared_bytes;
  handle stream;
  struct launch_attribute *attributes;
  unsigned n_attributes;
};

/* X(name in the library, our name, parameters) */
#define DRIVER(X)                                                                                                     \
  X(cuInit, init, (unsigned))                                                                                         \
  X(cuDeviceGetCount, count, (int *))                                                                                 \
  X(cuDeviceGet, device, (int *, int))                                                                                \
  X(cuDeviceGetName, name, (char *, int, int))                                                                        \
  X(cuDeviceTotalMem_v2, total, (size_t *, int))                                                                      \
  X(cuDeviceGetAttribute, attribute, (int *, int, int))                                                               \
  X(cuDevicePrimaryCtxRetain, retain, (handle *, int))                                                                \
  X(cuCtxGetCurrent, current, (handle *))                                                                             \
  X(cuCtxSetCurrent, set_current, (handle))                                                                           \
  X(cuGetErrorString, error_text, (result, const char **))                                                            \
  X(cuModuleLoadDataEx, load, (handle *, const void *, unsigned, int *, void **))                                     \
  X(cuDriverGetVersion, version, (int *))                                                                             \
  X(cuLinkCreate_v2, link_new, (unsigned, int *, void **, handle *))                                                  \
  X(cuLinkAddData_v2, link_add, (handle, int, void *, size_t, const char *, unsigned, int *, void **))                \
  X(cuLinkComplete, link_end, (handle, void **, size_t *))                                                            \
  X(cuLinkDestroy, link_free, (handle))                                                                               \
  X(cuModuleUnload, unload, (handle))                                                                                 \
  X(cuModuleGetFunction, find, (handle *, handle, const char *))                                                      \
  X(cuFuncGetAttribute, ask_function, (int *, int, handle))                                                           \
  X(cuFuncSetAttribute, set_function, (handle, int, int))                                                             \
  X(cuLaunchKernel, launch, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,    \
                             void **, void **))                                                                       \
  X(cuLaunchKernelEx, launch_with, (const struct launch_config *, handle, void **, void **))                          \
  X(cuMemAlloc_v2, alloc, (uint64_t *, size_t))                                                                       \
  X(cuMemFree_v2, free, (uint64_t))                                                                                   \
  X(cuMemHostAlloc, host_alloc, (void **, size_t, unsigned))                                                          \
  X(cuMemcpyHtoDAsync_v2, to_device, (uint64_t, const void *, size_t, handle))                                        \
  X(cuMemcpyDtoHAsync_v2, to_host, (void *, uint64_t, size_t, handle))                                                \
  X(cuMemcpyDtoDAsync_v2, copy, (uint64_t, uint64_t, size_t, handle))                                                 \
  X(cuStreamCreate, stream_new, (handle *, unsigned))                                                                 \
  X(cuStreamSynchronize, wait, (handle))                                                                              \
  X(cuStreamQuery, ask, (handle))                                                                                     \
  X(cuStreamWaitEvent, stream_after, (handle, handle, unsigned))                                                      \
  X(cuPointerGetAttribute, about, (void *, int, uint64_t))                                                            \
  X(cuEventCreate, event_new, (handle *, unsigned))                                                                   \
  X(cuEventRecord, event_record, (handle, handle))                                                                    \
  X(cuEventSynchronize, event_wait, (handle))                                                                         \
  X(cuEventQuery, event_ask, (handle))                                                                                \
  X(cuEventElapsedTime, event_ms, (float *, handle, handle))                                                          \
  X(cuEventDestroy_v2, event_free, (handle))                                                                          \
  X(cuStreamBeginCapture_v2, capture_begin, (handle, int))                                                            \
  X(cuStreamEndCapture, capture_end, (handle, handle *))                                                              \
  X(cuStreamGetCaptureInfo_v2, capture_info, (handle, int *, uint64_t *, handle *, const handle **, size_t *))         \
  X(cuGraphExecKernelNodeSetParams_v2, graph_set_node, (handle, handle, const struct node_params *))                  \
  X(cuGraphInstantiateWithFlags, graph_instantiate, (handle *, handle, unsigned long long))                           \
  X(cuGraphLaunch, graph_launch, (handle, handle))                                                                    \
  X(cuGraphDestroy, graph_free, (handle))                                                                             \
  X(cuGraphExecDestroy, graph_exec_free, (handle))

enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };
enum { NON_BLOCKING = 1, UNTIMED = 2 };          /* of streams; of events */
enum { POINTS = 64 };                            /* of a queue that have an event of their own */
enum { CACHED = 2048 };                          /* blocks */
enum { STOPS = 256 };                            /* runs that can be told to end at the same time */
enum { SUSPECTS = 8 };                           /* kernels whose names are kept */
enum { STAGE_LINES = 8, STAGE_PIECES = 2, STAGE_BYTES = 2 << 20 };

struct driver {
#define MEMBER_(symbol, name, params) result (*name) params;
  DRIVER(MEMBER_)
#undef MEMBER_
};
extern struct driver cu;

/* Point p of a queue is the event p % POINTS, or a later one that took its place: to wait for that is to wait for both. A point of
 * the compute queue is owed at first: an event costs as much as a small kernel, and nobody may ever ask for it. It is recorded when
 * somebody does, or before something is enqueued LATE_SECONDS after it was owed, which he is not to wait for. */
struct points {
  handle stream, event[POINTS];
  uint64_t recorded;
  _Atomic uint64_t past;
  _Atomic double owed;       /* since when one is; 0: none */
};
#define LATE_SECONDS 50e-6

/* Pinned memory through which bytes go to the device, or come from it, so that both sides work at the same time. Of many bytes
 * every line moves a part, by a thread of its own: one alone would fill pages more slowly than the device does. */
struct stage_line { void *piece[STAGE_PIECES]; handle event[STAGE_PIECES]; };
struct stage { pthread_mutex_t lock; struct stage_line line[STAGE_LINES]; };

struct gpu_block { uint64_t at; size_t bytes; uint64_t since; }; /* free for other queues from that point of the compute queue on */

enum { WORDS = 2048 };
struct gpu_words {           /* gpu_words.c */
  pthread_mutex_t lock;
  uint64_t at;               /* 0: not there yet */
  uint8_t state[WORDS];
};

/* Words that say which runs are to end. They go there by a stream and through a word of their own: all else may be waiting for the
 * very kernel that is to be stopped. */
struct gpu_stops {
  pthread_mutex_t lock;
  uint64_t at;               /* STOPS words on the device; 0: not there yet */
  uint64_t n;                /* numbers given so far */
  handle stream;
  void *word;                /* pinned */
};

struct gpu {
  struct device device;
  int ordinal;               /* the driver's */
  handle multiplier;         /* cublasLt's, for this device; NULL: not asked for yet */
  int capability, driver_version; /* 90: 9.0; as the driver counts */
  pthread_mutex_t lock;      /* of context, points and blocks */
  _Atomic(handle) context;   /* NULL: not asked for yet */
  struct ptx_machine machine;
  size_t bytes;
  char text[200];
  struct points queue[N_QUEUES];
  struct stage up[N_QUEUES], down; /* what is behind a long kernel in one queue holds no piece of the other */
  int n_blocks;
  struct gpu_block block[CACHED];
  _Atomic int64_t used, peak, cached, limit, cache_limit;
  struct launched { char name[60]; uint64_t point; } launched[SUSPECTS]; /* the last kernels: they end before that point */
  uint64_t n_launched;
  struct gpu_words words;
  struct gpu_stops stops;
  pthread_mutex_t recorder_lock; /* held while a thread records */
  handle recorder;           /* a stream that runs nothing; NULL: not there yet */
  _Atomic int n_bundles;
};

int cuda_status(result, const char *doing);            /* a text if it is none of CUDA_OK */
void cuda_say(const char *doing, const char *what);
void cuda_repeat(const char *message);                 /* of another thread: it becomes this one's */
int cuda_enter(struct gpu *, const char *doing);       /* its context becomes the calling thread's, until cuda_leave */
int cuda_allow_shared(handle entry, size_t bytes);     /* before it is launched with so much dynamic shared memory */

bool cuda_is_drained(struct gpu *);                    /* waits for the compute queue; false: something may still run, so nothing
                                                          that it uses is given back. Context entered */
uint64_t cuda_owe_point(struct gpu *, enum queue);     /* one that will be recorded soon; lock held */
void cuda_pay_points(struct gpu *);                    /* before something is enqueued for computing; context entered */

/* bundle.c, as others see it */
handle cuda_working_stream(struct gpu *);              /* where launches of this thread go: the compute queue, or what records */
bool cuda_is_recording(void);
bool cuda_record_other(void);                          /* before a copy, or a library's work; false: it cannot be enqueued now */
struct cuda_launch;
int cuda_record_launch(struct gpu *, const struct cuda_launch *, int n, const uint64_t params[], void *pointers[]);
int cuda_start(struct gpu *, const struct cuda_launch *, void *pointers[]); /* driver.c: a launch, to the working stream */
bool cuda_record_name(const char *kernel);             /* false: nothing is recorded */
void cuda_spoil(void);                                 /* what is recorded cannot be started */
int cuda_take_room(struct gpu *, size_t bytes, uint64_t *at); /* memory that launches of the compute queue work in */
void cuda_give_room(struct gpu *, uint64_t at, size_t bytes); /* 0: nothing */

#endif
