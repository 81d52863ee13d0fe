/* pin.c -- memory shown to others. A pin remembers what it holds, so that an unpin that has none does nothing, and one
 * that comes after an update lets go of what was pinned. */
#include <pthread.h>
#include "base/mem.h"
#include "graph/scope.h"
#include "op/op.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/verdict.h"

struct pin { struct pin *older; struct node *node; };

pthread_mutex_t pin_mutex = PTHREAD_MUTEX_INITIALIZER; /* the lists of all handles */

static struct failure *hold(struct node *n, const struct device *space, void **data) {
  const char *why = NULL;
  struct failure *f = NULL;
  if (eval_nodes(1, &n, &(struct eval_options){ .fn = "weft_pin" }, &f)) return f;
  if (n->op == &op_scalar) return fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_pin: a number has no memory; weft_read gives it");
  if ((f = node_verdict(n))) return f;
  for (enum buffer_pinned how = PIN_VOID; how == PIN_VOID;) {
    weft_status status = buffer_hold(n->value->buf, space, data, &why);
    if (!status && (status = buffer_await(n->value->buf, &why))) buffer_drop(n->value->buf);
    if (status) return fail(status, n->origin, "weft_pin: %s", why ? why : "the value cannot be read");
    if ((how = buffer_pin(n->value->buf, space)) == PINNED) return NULL;
    buffer_drop(n->value->buf);
  }
  return fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_pin: its memory is pinned or external on another device: one at a time");
}

static void add(weft_array *a, struct pin *p, struct node *n) {
  weft_own(a);
  p->node = n;
  pthread_mutex_lock(&pin_mutex);
  p->older = a->pins;
  a->pins = p;
  pthread_mutex_unlock(&pin_mutex);
}

static weft_block block_of(const struct node *n, int device, void *data) {
  weft_dtype d = (weft_dtype)n->dtype;
  uint8_t *first = (uint8_t *)data + n->value->offset * (int64_t)weft_dtype_bytes(d);
  return (weft_block){ first, device, d, n->rank, n->dims, n->value->stride };
}

weft_status weft_pin(weft_array *a, int device, weft_block *out) {
  struct node *n;
  weft_array *bad;
  void *data;
  if (!out) return report(WEFT_ERR_ARG, "weft_pin: the block is NULL");
  const struct device *space = device_numbered(device);
  if (device && !space) return failure_tell(device_missing("weft_pin", device));
  if (!arrays_nodes("weft_pin", 1, &a, &n, &bad)) return weft_check(bad);
  struct pin *p = mem_alloc(sizeof *p);
  struct failure *f = p ? hold(n, space, &data) : fail(WEFT_ERR_MEMORY, 0, "weft_pin: out of memory");
  if (!f) {
    *out = block_of(n, device, data);
    add(a, p, n);
  } else {
    mem_free(p);
    node_release(n);
  }
  weft_status status = failure_tell(f);
  buffer_callbacks();
  return status;
}

void weft_unpin(weft_array *a) {
  struct failure *f = array_failure("weft_unpin", 0, a);
  if (f && (!a || a->tag != HANDLE_ALIVE)) return scope_blame(f);
  failure_release(f); /* what has gone bad since may still be pinned */
  pthread_mutex_lock(&pin_mutex);
  struct pin *p = a->pins;
  if (p) a->pins = p->older;
  pthread_mutex_unlock(&pin_mutex);
  if (!p) return scope_blame(fail(WEFT_ERR_ARG, scope_origin(), "weft_unpin: the array is not pinned"));
  buffer_unpin(p->node->value->buf);
  buffer_drop(p->node->value->buf);
  node_release(p->node);
  mem_free(p);
  weft_disown(a);
  buffer_callbacks();
}

/* Whether no two elements stand in one place, and none is left out between them: the axes, by stride, are those of rows. */
static bool is_apart(const struct node *n) {
  int64_t expected = 1, elements = 1;
  for (int k = 0; k < n->rank; k++) elements *= n->dims[k];
  for (int done = 0; done < n->rank; done++) {
    int64_t found = 0;
    for (int k = 0; k < n->rank && !found; k++)
      if (n->dims[k] > 1 && (n->value->stride[k] == expected || n->value->stride[k] == -expected)) found = n->dims[k];
    if (!found) break;
    expected *= found;
  }
  return expected == elements || !elements;
}

int weft_is_only(weft_array *a) {
  struct node *n;
  weft_array *bad;
  if (!arrays_nodes("weft_is_only", 1, &a, &n, &bad)) return 0;
  bool is_alone = atomic_load(&n->refs) == 2; /* its handle, and here */
  bool is = is_alone && atomic_load(&n->state) == NODE_READY && n->value && buffer_is_only(n->value->buf) && is_apart(n);
  node_release(n);
  return is;
}
