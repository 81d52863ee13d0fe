/* assert.c -- checks with a message, in whatever is computed: the user's, with the user's words, and those of composed functions.
 *
 * A check is a take of the only element of [true], at place 0 if the condition holds and at place 1, which is not there, if it does
 * not. So it fails where indices out of range fail: in kernels, loops and on devices, in rows that are active alone, and in
 * no side of a choice that is not taken. x goes on where what was taken is true: nobody can have it without the check.
 * A plan is found by the message and has a copy of it: on a device it is told when the node may be gone. */
#include <stdatomic.h>
#include <string.h>
#include "base/mem.h"
#include "op/index.h"

struct told { _Atomic int refs; weft_status status; char text[]; };

static struct told *told_of(const void *attr) { return ((const struct assert_attr *)attr)->told; }

static void told_release(struct told *t) {
  if (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) mem_free(t);
}

static void hold(const void *attr) { atomic_fetch_add_explicit(&told_of(attr)->refs, 1, memory_order_relaxed); }
static void drop(const void *attr) { told_release(told_of(attr)); }

const char *assert_text(const struct node *n) { return told_of(n->attr)->text; }
weft_status assert_status(const struct node *n) { return told_of(n->attr)->status; }

/* ---- the node ---- */

/* Takes over neither. */
static struct node *check_node(struct node *yes, struct node *at, const void *attr) {
  return node_make(&op_assert, WEFT_BOOL, at->rank, at->dims, 2, (struct node *[]){ yes, at }, attr, sizeof(struct assert_attr));
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  return check_node(in[0], in[1], n->attr);
}

/* [true] is the same in every row. */
static weft_array *batch(const struct rule *r, const bool is_mapped[]) {
  weft_array *at;
  array_active_indices(r, 1, is_mapped, &at);
  weft_array *yes = is_mapped[0] ? weft_at(r->in[0], 0, weft_integer(0)) : r->in[0];
  struct node *x = array_good_node(yes), *i = array_good_node(at), *y = x && i ? check_node(x, i, r->node->attr) : NULL;
  weft_array *out = x && i ? array_of(y) : x ? at : yes;
  node_release(x);
  node_release(i);
  return out;
}

const struct op op_assert = { .name = "assert", .kind = OP_TAKE, .chooses = true, .batch = batch, .again = again, .hold = hold,
                              .drop = drop };

/* ---- the public call ---- */

/* 0-d: true, or the check fails. Takes over the reference to the message. */
static weft_array *checked(weft_array *p, struct told *told) {
  struct assert_attr attr = { { 1, BY_ASSERT }, told };
  weft_array *yes = weft_full(WEFT_BOOL, WEFT_DIMS(1), 1);
  weft_array *at = weft_where(p, weft_full(WEFT_I64, 0, NULL, 0), weft_full(WEFT_I64, 0, NULL, 1));
  struct node *x = array_good_node(yes), *i = array_good_node(at), *y = x && i ? check_node(x, i, &attr) : NULL;
  weft_array *out = x && i ? array_of(y) : x ? at : yes;
  node_release(x);
  node_release(i);
  told_release(told);
  return out;
}

static struct told *told_new(weft_status status, const char *message) {
  size_t n = strlen(message);
  struct told *t = mem_alloc(sizeof *t + n + 1);
  if (t) atomic_init(&t->refs, 1), t->status = status, memcpy(t->text, message, n + 1);
  return t;
}

weft_array *array_assert(weft_array *x, weft_array *p, weft_status status, const char *message) {
  struct told *told = told_new(status, message);
  if (!told) return array_of(NULL);
  return weft_where(checked(weft_all(p, WEFT_ALL), told), x, zeros_like(x));
}

weft_array *weft_assert(weft_array *x, weft_array *p, const char *message) {
  weft_array *bad;
  if (!arrays_ok("weft_assert", 2, (weft_array *[]){ x, p }, &bad)) return bad;
  if (!message) return array_bad(WEFT_ERR_ARG, "weft_assert: the message is NULL");
  if (weft_dtype_of(p) != WEFT_BOOL) return array_bad(WEFT_ERR_DTYPE, "weft_assert: the condition is %s, not bool",
                                                      weft_dtype_name(weft_dtype_of(p)));
  return array_assert(x, p, WEFT_ERR_ASSERT, message);
}
