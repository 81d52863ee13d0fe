/* length.c -- loops whose sizes only a run can tell: they run first, with memory for the most steps there can be, and the sizes
 * that depend on their number of steps or executed length are bound. */
#include "run/evaluation.h"
#include <string.h>
#include "base/mem.h"
#include "run/tape.h"

/* Items of one loop, evaluated with its capacity for a length (make_program knows); the last is the executed length, which is bound
 * to `length`, where that is not 0, before anybody sees the others. What they need must be clear. The caller holds the loop:
 * another thread may compute the items, and make them forget it. */
static struct failure *eval_unsized(const struct node *loop, int n, struct node *const target[], dim length) {
  struct eval e;
  struct node_list l;
  struct failure *f = NULL;
  if (loop->n_in && eval_nodes(loop->n_in, loop->in, &(struct eval_options){ .only_targets = true }, &f)) return f;
  if (!eval_begin(&e, n, target, &(struct eval_options){ .only_targets = true })) return eval_no_memory();
  e.length = length;
  graph_lock();
  bool go = false;
  if (!eval_walk(&l, e.n, e.target)) f = eval_no_memory();
  else {
    f = eval_take_leaves(&e, &l) ? eval_find_plan(&e, &l, false) : eval_no_memory();
    go = !f && eval_claim(&e);
    node_list_free(&l);
  }
  graph_unlock();
  if (go) f = eval_run_or_give_up(&e);
  eval_free(&e);
  return f;
}

struct failure *eval_integer(struct node *n, int64_t *out) {
  struct failure *f = NULL;
  union { int64_t i64; int32_t i32; int16_t i16; int8_t i8; uint64_t u64; uint32_t u32; uint16_t u16; uint8_t u8; } v = { 0 };
  if (eval_nodes(1, &n, &(struct eval_options){ .only_targets = true }, &f) || value_copy(n, &v, &f)) return f;
  switch (n->dtype) {
    case WEFT_I64: *out = v.i64; break;
    case WEFT_I32: *out = v.i32; break;
    case WEFT_I16: *out = v.i16; break;
    case WEFT_I8: *out = v.i8; break;
    case WEFT_U64: *out = v.u64 > INT64_MAX ? INT64_MAX : (int64_t)v.u64; break;
    case WEFT_U32: *out = v.u32; break;
    case WEFT_U16: *out = v.u16; break;
    default: *out = v.u8;
  }
  return NULL;
}

static struct failure *read_integer(struct node *n, int64_t *out) {
  struct failure *f = eval_integer(n, out);
  if (!f) tape_told(n, *out);
  return f;
}

/* Runs the loop for its items, with memory for the most steps there can be, and binds its length to those it took. */
static struct failure *run_unsized(struct loop *l, struct node *loop, int n, struct node *const item[]) {
  struct node **target = mem_alloc(sizeof *target * (size_t)(n + 1)), *length = item_make(loop, l->n_all + l->n_carry);
  struct failure *f = target && length ? NULL : eval_no_memory();
  if (!f) {
    memcpy(target, item, sizeof *target * (size_t)n);
    target[n] = length;
    f = loop_is_by_steps(l) ? eval_uneven(loop, n + 1, target) : eval_unsized(loop, n + 1, target, l->until ? l->length : 0);
  }
  if (!f && l->until) f = eval_tell_length(length, l->length); /* if others have computed the items, they have told it too */
  if (!f) {
    graph_lock();
    if (!eval_settle(&(struct node_list){ .node = target, .n = n })) f = eval_no_memory();
    graph_unlock();
  }
  node_release(length);
  mem_free(target);
  return f;
}

/* Whoever settles the nodes of a list holds the lock: a number that came meanwhile would be that of some, and not of others. */
struct failure *eval_bind(dim symbol, int64_t number) {
  graph_lock();
  bool ok = dim_bind(symbol, number);
  graph_unlock();
  return ok ? NULL : eval_no_memory();
}

/* n is the length of a loop that has run. */
struct failure *eval_tell_length(struct node *n, dim length) {
  int64_t taken;
  struct failure *f = read_integer(n, &taken);
  return f ? f : eval_bind(length, taken);
}

/* The length of a loop that n is computed from, if that has not run. NULL: none is near. */
static struct node *length_below(struct node *n, int depth) {
  struct node *found = NULL;
  if (node_has_value(n) || loop_is_length(n)) return node_has_value(n) ? NULL : n;
  for (int k = 0; k < n->n_in && depth && !found; k++) found = length_below(n->in[k], depth - 1);
  return found;
}

/* Several loops may have numbers of steps that are computed from the length of one: it runs once for all of them. */
static struct failure *keep_length(struct node *steps) {
  enum { DEEP = 5 };
  struct failure *f = NULL;
  graph_lock();
  struct node *length = length_below(steps, DEEP);
  if (length) node_retain(length);
  graph_unlock();
  if (length) eval_nodes(2, (struct node *[]){ steps, length }, &(struct eval_options){ .only_targets = true }, &f);
  node_release(length);
  return f;
}

struct failure *eval_size_loop(struct node *loop, int n, struct node *const item[]) {
  struct loop *l = ((const struct loop_attr *)loop->attr)->loop;
  int64_t steps;
  if (dim_is_known(dim_resolve(l->steps))) return run_unsized(l, loop, n, item);
  if (!l->has_steps) return fail(WEFT_ERR_INTERNAL, loop->origin, "weft_eval: nothing tells how many steps a loop has");
  struct failure *f = keep_length(loop->in[0]);
  if (!f) f = read_integer(loop->in[0], &steps);
  if (f) return f;
  if (steps < 0)
    return fail(WEFT_ERR_ARG, loop->origin, "weft_loop_open: %lld steps, or a computed size of that", (long long)steps);
  return eval_bind(l->steps, steps);
}
