/* recipe_build.c -- the arrays of a random program, made with weft. */
#include "recipe_steps.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void nothing(void *ctx) { (void)ctx; }

weft_array *recipe_leaf(const struct recipe_step *s) {
  size_t size = weft_dtype_bytes(s->value.dtype);
  weft_block b = { (char *)s->memory + (size_t)s->offset * size, 0, s->value.dtype, s->value.rank, s->value.dims, s->stride };
  return weft_external(&b, nothing, NULL);
}

static weft_array *element(const char *op, weft_array *const in[]) {
#define ROW(name, doc) if (IS(#name)) return weft_##name(in[0]);
#define IS(name) (*op == *name && !strcmp(op, name))
  WEFT_UNARY(ROW)
#undef ROW
#define ROW(name, doc) if (IS(#name)) return weft_##name(in[0], in[1]);
  WEFT_BINARY(ROW)
#undef ROW
#define ROW(name, doc) if (IS(#name)) return weft_##name(in[0], in[1], in[2]);
  WEFT_TERNARY(ROW)
#undef ROW
  return IS("where") ? weft_where(in[0], in[1], in[2]) : weft_fma(in[0], in[1], in[2]);
}

static weft_array *along(const char *op, weft_array *x, int axis) {
#define ROW(name, doc) if (IS(#name)) return weft_##name(x, axis);
  WEFT_REDUCE(ROW)
  WEFT_ALONG(ROW)
#undef ROW
#undef IS
  return NULL;
}

static weft_array *sliced(weft_array *x, const int64_t p[]) { return weft_slice(x, (int)p[0], p[1], p[2], p[3]); }

static weft_array *build_put(const struct recipe_step *s, weft_array *const in[]) {
  weft_array *part = in[0];
  if (s->kind == PUT_TAKE) part = weft_take(in[0], s->n_in - 2, in + 2);
  else
    for (int k = 0; k < s->p[1]; k++) part = sliced(part, s->p + 2 + 4 * k);
  return weft_put(in[0], part, in[1], (weft_how)s->p[0]);
}

weft_array *recipe_element(const struct recipe_step *s, weft_array *const in[]) {
  int axes[PLAIN_RANK], axis = (int)s->p[0];
  for (int k = 0; k < PLAIN_RANK; k++) axes[k] = (int)s->p[k];
  switch (s->kind) {
    case LEAF: return recipe_leaf(s);
    case SCALAR: return weft_scalar(s->number);
    case INTEGER: return weft_integer((int64_t)s->number);
    case ELEMENT: return element(s->op, in);
    case CAST: return weft_cast(in[0], s->value.dtype);
    case REDUCE: case PREFIX: case MEAN: case SOFTMAX: case FLIP: return along(s->op, in[0], axis);
    case REDUCE_ALL: return along(s->op, in[0], WEFT_ALL);
    case RESHAPE: return weft_reshape(in[0], s->value.rank, s->value.dims);
    case BROADCAST: return weft_broadcast(in[0], s->value.rank, s->value.dims);
    case TRANSPOSE: return weft_transpose(in[0], axes);
    case SLICE: return sliced(in[0], s->p);
    case TAKE: return weft_take(in[0], s->n_in - 1, in + 1);
    case AT: return weft_at(in[0], axis, in[1]);
    case WINDOW: return weft_window(in[0], axis, in[1], s->p[1]);
    case PUT_SLICE: case PUT_TAKE: return build_put(s, in);
    case CONCAT: return weft_concat(axis, s->n_in, in);
    case PAD: return weft_pad(in[0], axis, s->p[1], s->p[2], in[1]);
    case MATMUL: return weft_matmul(in[0], in[1]);
    case STRIDED: return weft_as_strided(in[0], s->value.rank, s->value.dims, s->p + 1, s->p[0]);
    case ALONG: return weft_take_along(in[0], axis, in[1]);
    case ROLL: return weft_roll(in[0], axis, s->p[1]);
    case REPEAT: return weft_repeat(in[0], axis, s->p[1]);
    case STACK: return weft_stack(axis, 2, in);
    case TRIL: return weft_tril(in[0], s->p[0]);
    default: return weft_iota(in[0], axis);
  }
}

static bool has_form(weft_array *a, const struct recipe_step *s, int i) {
  const struct plain *v = &s->value;
  if (weft_check(a)) return printf("step %d, %s: %s\n", i, s->op, weft_message()), false;
  if (s->kind == SCALAR || s->kind == INTEGER) return true;
  bool ok = weft_rank(a) == v->rank && weft_dtype_of(a) == v->dtype;
  for (int k = 0; ok && k < v->rank; k++) ok = weft_dim(a, k) == v->dims[k];
  if (!ok) printf("step %d, %s: has another shape or dtype: rank %d, %s\n", i, s->op, weft_rank(a), weft_dtype_name(weft_dtype_of(a)));
  return ok;
}

/* leaf[i] not NULL: in place of step i. */
bool recipe_build_on(const struct recipe *p, weft_array *const leaf[], weft_array *out[]) {
  for (int i = 0; i < p->n; i++) {
    const struct recipe_step *s = &p->step[i];
    weft_array *in[4];
    for (int k = 0; k < s->n_in; k++) in[k] = out[s->in[k]];
    out[i] = leaf && leaf[i] ? leaf[i] : recipe_element(s, in);
    if (!has_form(out[i], s, i)) return false;
  }
  return true;
}

bool recipe_build(const struct recipe *p, weft_array *out[]) { return recipe_build_on(p, NULL, out); }
