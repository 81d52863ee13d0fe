/* answer.c -- the public calls through which values leave: eval, read, wait. */
#include <string.h>
#include "base/clock.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/memory.h"
#include "run/space.h"
#include "run/verdict.h"

/* ---- moving elements to the user ---- */

struct odometer { int64_t at[WEFT_RANK_MAX]; };

static bool advance(struct odometer *o, const dim dims[], int rank, const int64_t stride[], int64_t *offset) {
  for (int k = rank - 1; k >= 0; k--) {
    *offset += stride[k];
    if (++o->at[k] < dims[k]) return true;
    *offset -= stride[k] * dims[k];
    o->at[k] = 0;
  }
  return false;
}

static void copy_strided(uint8_t *dst, const uint8_t *src, size_t size, int rank, const dim dims[], const int64_t stride[]) {
  int64_t row = rank ? dims[rank - 1] : 1, step = rank ? stride[rank - 1] : 1, offset = 0;
  struct odometer o = { 0 };
  do {
    const uint8_t *from = src + offset * (int64_t)size;
    if (step == 1) memcpy(dst, from, size * (size_t)row);
    else
      for (int64_t i = 0; i < row; i++) memcpy(dst + (size_t)i * size, from + i * step * (int64_t)size, size);
    dst += size * (size_t)row;
  } while (rank && advance(&o, dims, rank - 1, stride, &offset));
}

static bool is_dense(const struct node *n) {
  int64_t row = 1;
  for (int k = n->rank - 1; k >= 0; row *= n->dims[k--]) if (n->dims[k] != 1 && n->value->stride[k] != row) return false;
  return true;
}

/* Elements from the lowest that a view shows to the highest; *first: where that of all indices 0 is among them. */
static int64_t span_of(const struct node *n, int64_t *first) {
  int64_t below = 0, above = 0;
  for (int k = 0; k < n->rank; k++) *(n->value->stride[k] < 0 ? &below : &above) += (n->dims[k] - 1) * n->value->stride[k];
  *first = -below;
  return above - below + 1;
}

/* A value that was on a lost device alone is none any more: its array has failed, and says so. */
static void lose(struct node *n, struct failure *f) {
  if (atomic_load(&n->state) != NODE_READY || !n->value || !buffer_is_lost(n->value->buf)) return;
  graph_lock();
  if (atomic_load(&n->state) == NODE_READY) {
    n->failure = failure_retain(f);
    node_set_state(n, NODE_FAILED);
  }
  graph_unlock();
}

/* Straight from a device, and no more of it than the array shows: the host keeps no copy. */
static weft_status copy_from_device(const struct node *n, void *dst, size_t size, struct failure **failure) {
  int64_t first, count = span_of(n, &first);
  size_t bytes = (size_t)count * size;
  bool is_dst = is_dense(n);
  uint8_t *to = is_dst ? dst : memory_take(bytes);
  const char *why = "out of memory";
  int64_t at = (n->value->offset - first) * (int64_t)size;
  weft_status status = to ? buffer_read(n->value->buf, at, bytes, to, &why) : WEFT_ERR_MEMORY;
  if (status) *failure = fail(status, n->origin, "weft_read: %s", why), lose((struct node *)(uintptr_t)n, *failure);
  else if (!is_dst) copy_strided(dst, to + first * (int64_t)size, size, n->rank, n->dims, n->value->stride);
  if (to && !is_dst) memory_give(to, bytes);
  return status;
}

weft_status value_copy(const struct node *n, void *dst, struct failure **failure) {
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  const char *why = NULL;
  void *data;
  if (n->op == &op_scalar) {
    uint64_t bits = scalar_bits(n, (weft_dtype)n->dtype);
    memcpy(dst, &bits, size);
    return WEFT_OK;
  }
  if ((*failure = node_verdict((struct node *)n))) return failure_status(*failure);
  for (int k = 0; k < n->rank; k++) if (!n->dims[k]) return WEFT_OK;
  if (!buffer_is_here(n->value->buf)) return copy_from_device(n, dst, size, failure);
  weft_status status = buffer_hold(n->value->buf, NULL, &data, &why);
  if (status) return *failure = fail(status, n->origin, "weft_read: %s", why ? why : "the value cannot be read"), status;
  const uint8_t *from = (const uint8_t *)data + n->value->offset * (int64_t)size;
  if (!n->rank || (n->rank == 1 && n->value->stride[0] == 1)) memcpy(dst, from, size * (size_t)(n->rank ? n->dims[0] : 1));
  else copy_strided(dst, from, size, n->rank, n->dims, n->value->stride);
  bool cut = buffer_state_of(n->value->buf) == BUFFER_FAILED;
  buffer_drop(n->value->buf);
  if (!cut) return WEFT_OK;
  *failure = fail(WEFT_ERR_FILE, n->origin, "weft_read: the file was cut while it was read");
  return WEFT_ERR_FILE;
}

/* ---- eval ---- */

static weft_status finish(weft_status status, struct failure *f) {
  failure_tell(f);
  buffer_callbacks();
  return status;
}

/* The nodes with references, or the status of the first array that is not usable. Makes no array. */
static weft_status look_at(const char *fn, int n, weft_array *const a[], struct node *node[]) {
  for (int i = 0; i < n; i++) {
    struct failure *f;
    if ((node[i] = array_usable(fn, n > 1 ? i + 1 : 0, a[i], &f))) continue;
    nodes_release(i, node);
    return failure_tell(f);
  }
  return WEFT_OK;
}

static bool is_done(const struct node *n) {
  if (atomic_load_explicit(&n->state, memory_order_acquire) != NODE_READY || !n->value) return true;
  return (buffer_is_done(n->value->buf) && verdict_is_past(n->value->verdict)) || buffer_is_lost(n->value->buf);
}

/* A wait for the driver cannot be left: who has a limit of time, or may be cancelled, asks instead. */
static weft_status await_while(bool (*over)(void *of), void *of, double seconds, struct failure **failure) {
  const volatile int *cancel = eval_settings()->cancel;
  double end = seconds >= 0 ? clock_seconds() + seconds : 0;
  int64_t began = clock_ns();
  while ((seconds >= 0 || cancel) && !over(of)) {
    if ((*failure = plan_stopped(cancel))) return failure_status(*failure);
    if (seconds >= 0 && clock_seconds() >= end) return WEFT_ERR_TIMEOUT;
    clock_nap(began);
  }
  return WEFT_OK;
}

static bool node_is_done(void *n) { return is_done(n); }

/* The host computed it, so nothing is under way: there is nobody to ask. */
static bool is_only_here(const struct node *n) {
  if (atomic_load_explicit(&n->state, memory_order_acquire) != NODE_READY || !n->value) return false;
  return !n->value->verdict && buffer_is_only_here(n->value->buf);
}

static __attribute__((noinline)) weft_status await_each(int n, struct node *const node[], double seconds,
                                                        struct failure **failure) {
  double end = seconds >= 0 ? clock_seconds() + seconds : 0;
  /* what was enqueued last comes last: then nobody has to ask for the others */
  weft_status last = n > 1 ? await_while(node_is_done, node[n - 1], seconds, failure) : WEFT_OK;
  if (last) return last;
  for (int i = 0; i < n; i++) {
    const char *why = NULL;
    double left = clock_left(seconds, end);
    weft_status in_time = await_while(node_is_done, node[i], left, failure);
    if (in_time) return in_time;
    if ((*failure = node_verdict(node[i]))) return failure_status(*failure);
    const struct value *v = atomic_load(&node[i]->state) == NODE_READY ? node[i]->value : NULL;
    weft_status status = v ? buffer_await(v->buf, &why) : WEFT_OK;
    if (!status) continue;
    *failure = fail(status, node[i]->origin, "weft_eval: %s", why);
    return lose(node[i], *failure), status;
  }
  return WEFT_OK;
}

weft_status values_await(int n, struct node *const node[], double seconds, struct failure **failure) {
  int i = 0;
  while (i < n && is_only_here(node[i])) i++;
  return i == n ? WEFT_OK : await_each(n, node, seconds, failure);
}

static weft_status compute(int n, struct node *node[], const struct eval_options *o, struct failure **failure) {
  if (o->in_background && eval_enqueue_call(n, node)) return *failure = NULL, WEFT_OK;
  *failure = o->in_background ? NULL : eval_ready_call(n, node, 0, NULL);
  if (*failure && o->fn) *failure = failure_for(*failure, o->fn);
  return *failure ? failure_status(*failure) : eval_nodes(n, node, o, failure);
}

static weft_status evaluate(const char *fn, int n, weft_array *const a[], bool in_background) {
  struct node *few[16], **node = n <= 16 ? few : mem_alloc(sizeof *node * (size_t)n);
  struct failure *f = NULL;
  weft_status status = n < 0 || (n && !a) ? report(WEFT_ERR_ARG, "%s: no arrays", fn)
                     : node ? look_at(fn, n, a, node) : report(WEFT_ERR_MEMORY, "%s: out of memory", fn);
  if (status == WEFT_OK) {
    status = compute(n, node, &(struct eval_options){ .in_background = in_background }, &f);
    if (!status && !in_background) status = values_await(n, node, -1, &f);
    nodes_release(n, node);
  }
  if (node != few) mem_free(node);
  return finish(status, f);
}

weft_status weft_eval(int n, weft_array *const a[]) { return evaluate("weft_eval", n, a, false); }
weft_status weft_eval_async(int n, weft_array *const a[]) { return evaluate("weft_eval_async", n, a, true); }

static bool is_reached(void *e) { return event_is_over(e); }

static weft_status wait_for_all(double seconds) {
  enum { MOST = 32 };
  double end = clock_seconds() + seconds;
  struct event e[MOST];
  struct failure *f = NULL, *lost = NULL;
  weft_status status = WEFT_OK;
  if (!job_wait(seconds)) return report(WEFT_ERR_TIMEOUT, "weft_wait: not ready yet");
  int n = device_events(MOST, e);
  for (int i = 0; !status && i < n; i++)
    status = await_while(is_reached, &e[i], clock_left(seconds, end), &f);
  if (status == WEFT_ERR_TIMEOUT) report(status, "weft_wait: not ready yet");
  if (status) return finish(status, f);
  f = job_failure(), lost = device_drain();
  if (!lost) lost = device_loss();
  if (!f) f = lost;
  else failure_release(lost);
  return finish(f ? failure_status(f) : WEFT_OK, f);
}

/* What has been cancelled is lazy again: then the job that was started for it says why nothing has come. What has never been
 * started has no such job, and other arrays' failures are none of its. */
static struct failure *why_lazy(int n, struct node *const node[]) {
  struct failure *f = NULL;
  for (int i = 0; i < n && !f; i++) if (atomic_load(&node[i]->state) == NODE_LAZY) f = job_failure_of(node[i]);
  return f;
}

weft_status weft_wait(int n, weft_array *const a[], double seconds) {
  struct failure *f = NULL;
  double end = clock_seconds() + seconds;
  if (n == 0) return wait_for_all(seconds);
  if (n < 0 || !a) return report(WEFT_ERR_ARG, "weft_wait: no arrays");
  struct node **node = mem_alloc(sizeof *node * (size_t)n);
  if (!node) return report(WEFT_ERR_MEMORY, "weft_wait: out of memory");
  weft_status status = look_at("weft_wait", n, a, node);
  if (status == WEFT_OK) {
    status = eval_wait(n, node, seconds, &f);
    double left = clock_left(seconds, end);
    if (status == WEFT_OK) status = values_await(n, node, left, &f);
    if (status == WEFT_ERR_TIMEOUT) report(status, "weft_wait: not ready yet");
    if (status == WEFT_OK && (f = why_lazy(n, node))) status = failure_status(f);
    nodes_release(n, node);
  }
  mem_free(node);
  return finish(status, f);
}

static struct failure *misread(const struct node *n, weft_dtype dtype, const void *dst, size_t bytes) {
  dim count = dim_count(n->rank, n->dims);
  if (n->dtype != dtype)
    return fail(WEFT_ERR_DTYPE, n->origin, "weft_read: the array is %s, not %s", weft_dtype_name((weft_dtype)n->dtype),
                weft_dtype_name(dtype));
  if (!dim_is_known(count)) return fail(WEFT_ERR_INTERNAL, n->origin, "weft_read: the array has its value, but no size");
  if ((uint64_t)count * weft_dtype_bytes(dtype) != bytes)
    return fail(WEFT_ERR_ARG, n->origin, "weft_read: the array has %llu bytes, the destination %llu",
                (unsigned long long)count * weft_dtype_bytes(dtype), (unsigned long long)bytes);
  if (!dst && bytes) return fail(WEFT_ERR_ARG, n->origin, "weft_read: the destination is NULL");
  return NULL;
}

weft_status weft_read(weft_array *a, weft_dtype dtype, void *dst, size_t bytes) {
  struct node *n;
  struct failure *f;
  weft_status status = look_at("weft_read", 1, &a, &n);
  if (status) return status;
  status = compute(1, &n, &(struct eval_options){ .fn = "weft_read" }, &f);
  if (status == WEFT_OK && (f = misread(n, dtype, dst, bytes))) status = failure_status(f);
  if (status == WEFT_OK) status = value_copy(n, dst, &f);
  node_release(n);
  return finish(status, f);
}

/* Nobody computes it yet, as one look tells. */
static bool is_lazy(weft_array *a) {
  const struct node *n = array_look(a);
  if (!n) return false;
  bool yes = atomic_load(&n->state) == NODE_LAZY && n->op != &op_scalar;
  array_looked(a);
  return yes;
}

/* What it was computed with may have been found to fail. */
static weft_state state_by_verdict(struct node *n) {
  struct failure *f = node_verdict(n);
  failure_release(f);
  return f ? WEFT_FAILED : WEFT_READY;
}

weft_state weft_state_of(weft_array *a, int *device) {
  struct node *n;
  weft_state s = WEFT_FAILED;
  if (device) *device = 0;
  if (is_lazy(a)) return WEFT_LAZY;
  if (look_at("weft_state_of", 1, &a, &n)) return s;
  switch ((enum node_state)atomic_load(&n->state)) {
    case NODE_QUEUED: case NODE_RUNNING: s = WEFT_RUNNING; break;
    case NODE_READY: s = WEFT_READY; break;
    case NODE_FAILED: s = WEFT_FAILED; break;
    case NODE_LAZY: s = n->op == &op_scalar ? WEFT_READY : WEFT_LAZY; break;
  }
  if (s == WEFT_READY && n->value) {
    enum buffer_state b = buffer_state_of(n->value->buf);
    s = b == BUFFER_FAILED ? WEFT_FAILED : b == BUFFER_LOADING ? WEFT_RUNNING : b == BUFFER_ABSENT ? WEFT_LAZY : s;
    if (s == WEFT_READY && buffer_is_lost(n->value->buf)) s = WEFT_FAILED;
    if (s == WEFT_READY && (!buffer_is_done(n->value->buf) || !verdict_is_past(n->value->verdict))) s = WEFT_RUNNING;
    if (s == WEFT_READY) s = state_by_verdict(n);
    if (s == WEFT_READY && device) *device = device_number(buffer_space(n->value->buf));
  }
  node_release(n);
  return s;
}

void weft_cancel_when(const volatile int *flag) { eval_settings()->cancel = flag; }
