/* views.c -- casts of casts, views of views, and nodes that change nothing. All exact. */
#include <string.h>
#include "graph/dtype.h"
#include "graph/shape.h"
#include "rewrite/rewriting.h"

/* ---- Casts ---- */

/* Whether every value of a is a value of b. One bit a dtype, in the order of weft_dtype. */
static bool is_within(weft_dtype a, weft_dtype b) {
#define D(x) (1u << WEFT_##x)
  static const unsigned within[] = {
    [WEFT_BOOL] = D(BOOL) | D(U8) | D(U16) | D(U32) | D(U64) | D(I8) | D(I16) | D(I32) | D(I64) |
                  D(F16) | D(F32) | D(F64) | D(BF16) | D(E4M3) | D(E5M2),
    [WEFT_U8] = D(U8) | D(U16) | D(U32) | D(U64) | D(I16) | D(I32) | D(I64) | D(F16) | D(F32) | D(F64) | D(BF16),
    [WEFT_U16] = D(U16) | D(U32) | D(U64) | D(I32) | D(I64) | D(F32) | D(F64),
    [WEFT_U32] = D(U32) | D(U64) | D(I64) | D(F64),
    [WEFT_U64] = D(U64),
    [WEFT_I8] = D(I8) | D(I16) | D(I32) | D(I64) | D(F16) | D(F32) | D(F64) | D(BF16),
    [WEFT_I16] = D(I16) | D(I32) | D(I64) | D(F32) | D(F64),
    [WEFT_I32] = D(I32) | D(I64) | D(F64),
    [WEFT_I64] = D(I64),
    [WEFT_F16] = D(F16) | D(F32) | D(F64),
    [WEFT_F32] = D(F32) | D(F64),
    [WEFT_F64] = D(F64),
    [WEFT_BF16] = D(BF16) | D(F32) | D(F64),
    [WEFT_E4M3] = D(E4M3) | D(F16) | D(F32) | D(F64) | D(BF16),
    [WEFT_E5M2] = D(E5M2) | D(F16) | D(F32) | D(F64) | D(BF16),
    [WEFT_C64] = 0, [WEFT_C128] = 0
  };
#undef D
  return within[a] >> b & 1;
}

/* From floats to integers casts saturate, between integers they wrap: a float between two integers is seen. */
static bool is_seen(weft_dtype from, weft_dtype between, weft_dtype to) {
  return dtype_is_integer(from) && dtype_is_float(between) && dtype_is_integer(to) && !is_within(from, to);
}

/* A cast to a wider dtype keeps the value, so the next cast sees the same number without it. */
struct node *rewrite_cast(struct rewriting *w, struct node *n) {
  struct node *x = n->in[0];
  if (x->dtype == n->dtype) return x;
  if (x->op != &op_cast || !is_within((weft_dtype)x->in[0]->dtype, (weft_dtype)x->dtype)) return n;
  if (is_seen((weft_dtype)x->in[0]->dtype, (weft_dtype)x->dtype, (weft_dtype)n->dtype)) return n;
  if (x->in[0]->dtype == n->dtype) return x->in[0];
  return made(w, &op_cast, n, n->rank, n->dims, (weft_dtype)n->dtype, 1, &x->in[0], NULL, 0);
}

/* ---- Views ---- */

static struct node *over(struct rewriting *w, const struct op *op, struct node *n, struct node *x, const void *attr, size_t bytes) {
  if (n->rank == x->rank && dims_equal(n->rank, n->dims, x->rank, x->dims) && !bytes) return x;
  return made(w, op, n, n->rank, n->dims, (weft_dtype)n->dtype, 1, &x, attr, bytes);
}

/* Axis k of n is axis outer[k] of x, which is axis inner[outer[k]] of what x transposes. */
static struct node *transpose(struct rewriting *w, struct node *n) {
  const int *outer = n->attr;
  struct node *x = n->in[0];
  const int *inner = x->op == &op_transpose ? x->attr : NULL;
  int axes[WEFT_RANK_MAX];
  bool is_identity = true;
  for (int k = 0; k < n->rank; k++) {
    axes[k] = inner ? inner[outer[k]] : outer[k];
    is_identity &= axes[k] == k;
  }
  if (inner) x = x->in[0];
  if (is_identity) return x;
  return inner ? over(w, &op_transpose, n, x, axes, (size_t)n->rank * sizeof *axes) : n;
}

static bool is_known(const struct slice_attr *a) { return a->start >= 0; }

/* Element i of n is element start + i step of x, which is element s + t (start + i step) of what x slices. */
static struct node *slice(struct rewriting *w, struct node *n) {
  const struct slice_attr *a = n->attr;
  struct node *x = n->in[0];
  if (a->start == 0 && a->step == 1 && n->dims[a->axis] == x->dims[a->axis]) return x;
  if (x->op != &op_slice || !is_known(a)) return n;
  const struct slice_attr *b = x->attr;
  struct slice_attr both;
  memset(&both, 0, sizeof both); /* attrs are compared as bytes */
  both.axis = a->axis;
  int64_t skipped;
  if (b->axis != a->axis || !is_known(b) || __builtin_mul_overflow(a->step, b->step, &both.step) ||
      __builtin_mul_overflow(a->start, b->step, &skipped) || __builtin_add_overflow(b->start, skipped, &both.start))
    return n;
  if (n->dims[a->axis] == 0) both.start = 0;
  if (both.start < 0) return n;
  return over(w, &op_slice, n, x->in[0], &both, sizeof both);
}

static struct node *flat(struct rewriting *w, struct node *n) {
  struct node *x = n->in[0];
  if (dims_equal(n->rank, n->dims, x->rank, x->dims)) return x;
  return x->op == n->op ? over(w, n->op, n, x->in[0], NULL, 0) : n;
}

/* Whatever a view shows of a number is the number. */
static struct node *of_number(struct rewriting *w, struct node *n, const struct node *scalar) {
  struct node *s = (struct node *)scalar;
  return n->rank ? made(w, &op_broadcast, n, n->rank, n->dims, (weft_dtype)n->dtype, 1, &s, NULL, 0) : s;
}

struct node *rewrite_view(struct rewriting *w, struct node *n) {
  const struct node *scalar = n->op == &op_broadcast ? NULL : scalar_below(n->in[0]);
  if (scalar) return of_number(w, n, scalar);
  if (n->op == &op_transpose) return transpose(w, n);
  if (n->op == &op_slice) return slice(w, n);
  return n->op == &op_reshape || n->op == &op_broadcast ? flat(w, n) : n;
}

/* ---- Identities ---- */

struct node *rewrite_identity(struct rewriting *w, struct node *n) {
  (void)w;
  if (n->op->kind == OP_ITEM && n->in[0]->op->kind == OP_IDENTITY) return n->in[0]->in[((const struct item_attr *)n->attr)->k];
  return n->op->kind == OP_IDENTITY && !n->op->many && n->op != &op_barrier ? n->in[0] : n;
}

/* ---- Parts ---- */

enum { MOST_PARTS = 64 };

/* The axis along which v is a part of all of x, from its start on; -1: it is none. */
static int axis_of_part(const struct node *n) {
  const struct put_attr *a = n->attr;
  int axis = -1;
  for (int k = 0; k < n->rank; k++) {
    if (a->how != WEFT_SET || a->step[k] != 1 || a->start[k] < 0 || n->dims[k] < 0 || n->in[1]->dims[k] < 0) return -1;
    if (a->start[k] == 0 && n->in[1]->dims[k] == n->dims[k]) continue;
    if (axis >= 0) return -1;
    axis = k;
  }
  return axis;
}

static int64_t start_of(const struct node *n, int axis) { return ((const struct put_attr *)n->attr)->start[axis]; }

/* put(put(.., a), b) of parts side by side that are together all of it: whatever was there before, it is concat(a, b). */
struct node *rewrite_put(struct rewriting *w, struct node *n) {
  struct node *part[MOST_PARTS], *in[MOST_PARTS];
  int n_parts = 0, axis = axis_of_part(n);
  int64_t length = 0;
  if (axis < 0) return n;
  for (struct node *x = n; x->op == &op_put && axis_of_part(x) == axis && n_parts < MOST_PARTS; x = x->in[0]) {
    int at = n_parts++;
    for (; at && start_of(part[at - 1], axis) > start_of(x, axis); at--) part[at] = part[at - 1];
    part[at] = x;
    length += x->in[1]->dims[axis];
    if (length >= n->dims[axis]) break;
  }
  int64_t next = 0;
  for (int i = 0; i < n_parts; i++) {
    if (start_of(part[i], axis) != next) return n;
    next += part[i]->in[1]->dims[axis];
    in[i] = part[i]->in[1];
  }
  if (next != n->dims[axis] || n_parts < 2) return n;
  struct axis_attr a = { .axis = axis };
  return made(w, &op_concat, n, n->rank, n->dims, (weft_dtype)n->dtype, n_parts, in, &a, sizeof a);
}
