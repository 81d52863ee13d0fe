/* move.c -- arrays that are placed on a device: weft_to, and evaluations cut where values move from one to another.
 *
 * A plan is for one device. So the operand of weft_to is evaluated first, where it is placed or where the thread says; its bytes
 * are brought to the device of the result, which then is another array of the same buffer and a leaf of the rest. */
#include "base/mem.h"
#include "graph/scope.h"
#include "op/operand.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/tape.h"

weft_array *weft_to(weft_array *x, int device) {
  struct node *n;
  weft_array *bad;
  if (device < -1 || device > 200 || (device > 0 && !device_numbered(device)))
    return array_failed(device_missing("weft_to", device));
  if (!operands("weft_to", 1, &x, &n, &bad)) return bad;
  struct to_attr attr = { device };
  struct node *y = node_make(&op_to, (weft_dtype)n->dtype, n->rank, n->dims, 1, &n, &attr, sizeof attr);
  node_release(n);
  return array_of(y);
}

static int device_of(const struct node *n) { return (int)((const struct to_attr *)n->attr)->device; }
static bool is_away(const struct node *n) { return n->value && !buffer_is_here(n->value->buf); }

/* On the host alone nothing moves: it is part of the plan, as any other identity. What is placed nowhere is on the host if the
 * thread's work is. */
bool eval_moves(const struct node *n) {
  if (atomic_load(&n->state) == NODE_READY) return false;
  const struct node *x = n->in[0];
  bool is_there = atomic_load_explicit(&x->state, memory_order_acquire) == NODE_READY;
  bool on_host = eval_device(n) == 0 && eval_device(x) == 0;
  return !on_host || (is_there && is_away(x));
}

static struct failure *bring(struct node *x, int device) {
  const struct device *d = device_numbered(device);
  const char *why = NULL;
  void *data;
  if (device > 0 && !d) return device_missing("weft_to", device);
  weft_status status = buffer_hold(x->value->buf, d, &data, &why);
  if (!status) buffer_drop(x->value->buf);
  return status ? fail(status, x->origin, "weft_to: %s", why ? why : "the value cannot be read") : NULL;
}

struct failure *eval_move(struct node *n, struct node *x) {
  tape_spoil();
  struct failure *f = NULL;
  if (!eval_nodes(1, &x, &(struct eval_options){ .only_targets = true }, &f) && device_of(n) >= 0 && x->value)
    f = bring(x, device_of(n));
  return f ? f : eval_hand_over(1, &n, &x);
}

/* ---- Targets in several places ---- */

bool eval_is_one_place(int n, struct node *const target[]) {
  for (int i = 1; i < n; i++) if (eval_device(target[i]) != eval_device(target[0])) return false;
  return true;
}

/* One evaluation for each, in the order of their first targets. Nothing is overwritten: one may fail when another is done. */
weft_status eval_by_place(int n, struct node *const target[], const struct eval_options *all, struct failure **failure) {
  struct node **some = mem_alloc(sizeof *some * (size_t)(n + 1));
  bool *is_done = mem_alloc((size_t)n + 1);
  weft_status status = WEFT_OK;
  if (!some || !is_done) {
    *failure = fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
    status = WEFT_ERR_MEMORY;
  }
  for (int i = 0; status == WEFT_OK && i < n; i++) {
    int m = 0;
    for (int k = i; k < n; k++) {
      if (is_done[k] || eval_device(target[k]) != eval_device(target[i])) continue;
      some[m++] = target[k];
      is_done[k] = true;
    }
    struct eval_options o = { .fn = all->fn, .in_background = all->in_background, .only_targets = all->only_targets };
    if (m) status = eval_nodes(m, some, &o, failure);
  }
  mem_free(some);
  mem_free(is_done);
  return status;
}
