/* pin.c -- memory shown to others. A pin remembers what it holds, so that an unpin that has none does nothing, and one
 * that comes after an update lets go of what was pinned. */
#include <pthread.h>
#include "base/mem.h"
#include "graph/scope.h"
#include "op/op.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/eval.h"

struct pin { struct pin *older; struct node *node; };

pthread_mutex_t pin_mutex = PTHREAD_MUTEX_INITIALIZER; /* the lists of all handles */

static struct failure *hold(struct node *n, void **data) {
  const char *why = NULL;
  struct failure *f = NULL;
  if (eval_nodes(1, &n, &(struct eval_options){ .fn = "weft_pin" }, &f)) return f;
  if (n->op == &op_scalar) return fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_pin: a number has no memory; weft_read gives it");
  weft_status status = buffer_hold(n->value->buf, data, &why);
  return status ? fail(status, n->origin, "weft_pin: %s", why ? why : "the value cannot be read") : NULL;
}

static void add(weft_array *a, struct pin *p, struct node *n) {
  buffer_pin(n->value->buf, true);
  weft_own(a);
  p->node = n;
  pthread_mutex_lock(&pin_mutex);
  p->older = a->pins;
  a->pins = p;
  pthread_mutex_unlock(&pin_mutex);
}

static weft_block block_of(const struct node *n, void *data) {
  weft_dtype d = (weft_dtype)n->dtype;
  uint8_t *first = (uint8_t *)data + n->value->offset * (int64_t)weft_dtype_bytes(d);
  return (weft_block){ first, 0, d, n->rank, n->dims, n->value->stride };
}

weft_status weft_pin(weft_array *a, int device, weft_block *out) {
  struct node *n;
  weft_array *bad;
  void *data;
  if (!out) return report(WEFT_ERR_ARG, "weft_pin: the block is NULL");
  if (device_numbered(device)) return report(WEFT_ERR_UNSUPPORTED, "weft_pin: values are kept in the memory of the host, device 0");
  if (device) return report(WEFT_ERR_DEVICE, "weft_pin: there is no device %d", device);
  if (!arrays_nodes("weft_pin", 1, &a, &n, &bad)) return weft_check(bad);
  struct pin *p = mem_alloc(sizeof *p);
  struct failure *f = p ? hold(n, &data) : fail(WEFT_ERR_MEMORY, 0, "weft_pin: out of memory");
  weft_status status = f ? failure_report(f) : WEFT_OK;
  if (!f) {
    *out = block_of(n, data);
    add(a, p, n);
  } else {
    mem_free(p);
    node_release(n);
  }
  failure_release(f);
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
  buffer_pin(p->node->value->buf, false);
  buffer_drop(p->node->value->buf);
  node_release(p->node);
  mem_free(p);
  weft_disown(a);
  buffer_callbacks();
}
