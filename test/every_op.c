/* every_op.c -- every operation, on every dtype and every way its operands may lie in memory, in every way of evaluation:
 * the bits of plain C (every_plain.h). One table of public calls; an op of op_table without a row fails the test. */
#include <math.h>
#include <stdlib.h>
#include "digest.h"
#include "every_op.h"
#include "every_recipe.h"
#include "op/op.h"
#include "op/select.h"
#include "test.h"
#include "values.h"

/* ---- operands ---- */

/* How elements lie in memory; in masks bit k is axis k. */
struct layout { const char *name; int least_rank; unsigned backwards, standing; int64_t step, offset; bool is_turned, overlaps; };
enum layout_name { DENSE, BACKWARDS_0, BACKWARDS_1, BACKWARDS_2, ALL_BACKWARDS, TURNED, STANDING_0, STANDING_1, ALL_STANDING, STRIDED_2,
                   STRIDED_3, SHIFTED, OVERLAPPING, BACKWARDS_WINDOWS, LAYOUTS };
static const struct layout layouts[] = {
  [DENSE] = { "dense", 0, .step = 1 },
  [BACKWARDS_0] = { "reversed along axis 0", 1, .backwards = 1, .step = 1 },
  [BACKWARDS_1] = { "reversed along axis 1", 2, .backwards = 2, .step = 1 },
  [BACKWARDS_2] = { "reversed along axis 2", 3, .backwards = 4, .step = 1 },
  [ALL_BACKWARDS] = { "reversed along all axes", 2, .backwards = ~0u, .step = 1 },
  [TURNED] = { "transposed", 2, .step = 1, .is_turned = true },
  [STANDING_0] = { "broadcast along axis 0", 1, .standing = 1, .step = 1 },
  [STANDING_1] = { "broadcast along axis 1", 2, .standing = 2, .step = 1 },
  [ALL_STANDING] = { "one element everywhere", 2, .standing = ~0u, .step = 1 },
  [STRIDED_2] = { "every second", 1, .step = 2 },
  [STRIDED_3] = { "every third, reversed and at an offset", 1, .backwards = ~0u, .step = 3, .offset = 5 },
  [SHIFTED] = { "at an offset", 0, .step = 1, .offset = 3 },
  [OVERLAPPING] = { "overlapping", 2, .step = 1, .overlaps = true },
  [BACKWARDS_WINDOWS] = { "overlapping, reversed along axis 0", 2, .backwards = 1, .step = 1, .overlaps = true },
};
enum fill { USUAL, SPECIAL, SMALL };

struct operand { struct plain value; void *memory; int64_t offset, stride[PLAIN_RANK]; };

static uint32_t state;
static uint32_t any(uint32_t below) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % below;
}

static void fill(struct plain *p, int64_t n, enum fill how) {
  static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0, 0.0, 0x1p-149, -0x1p-1074, 0x1p-24, 3e38, -1e308, 1, -1 };
  static const int64_t odd_integer[] = { INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -1, 0, 1, 127, -128, 255, 65535, -32768 };
  if (plain_is_complex(p->dtype)) {
    struct plain parts = plain_parts(p);
    fill(&parts, 2 * n, how);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    if (p->dtype == WEFT_BOOL) plain_set_i(p, i, any(2));
    else if (how == SMALL && plain_is_float(p->dtype)) plain_set_f(p, i, (double)any(9) - 4);
    else if (plain_is_float(p->dtype)) plain_set_f(p, i, how == SPECIAL && any(2) ? odd[any(12)] : (double)any(1u << 20) / (1 << 18) - 1.5);
    else plain_set_i(p, i, how == SPECIAL ? odd_integer[any(12)] : (int64_t)any(12) - 5);
  }
}

static void lay_out(struct operand *x, weft_dtype t, int rank, const int64_t dims[], enum layout_name how, enum fill what) {
  const struct layout *l = &layouts[how];
  int64_t step = l->step, far = 1 + l->offset;
  *x = (struct operand){ .value = plain_new(t, rank, dims), .offset = l->offset };
  for (int i = rank - 1; i >= 0; i--) {
    int k = l->is_turned ? rank - 1 - i : i;
    int64_t n = dims[k] ? dims[k] : 1;
    x->stride[k] = l->standing >> k & 1 ? 0 : l->overlaps ? 1 : step;
    far += x->stride[k] * (n - 1);
    step *= l->step > 1 ? n + 1 : n;
    if (l->backwards >> k & 1) x->offset += x->stride[k] * (n - 1), x->stride[k] *= -1;
  }
  x->memory = calloc((size_t)far, weft_dtype_bytes(t));
  struct plain all = { .dtype = t, .data = x->memory };
  fill(&all, far, what);
  for (int64_t i = 0; i < x->value.count; i++) {
    int64_t at[PLAIN_RANK], from = x->offset, size = (int64_t)weft_dtype_bytes(t);
    plain_index(&x->value, i, at);
    for (int k = 0; k < rank; k++) from += at[k] * x->stride[k];
    memcpy(x->value.data + i * size, (char *)x->memory + from * size, (size_t)size);
  }
}

static void operand_free(struct operand *x) {
  plain_free(&x->value);
  free(x->memory);
}

static void nothing(void *ctx) { (void)ctx; }
static weft_array *array_on(const struct operand *x) {
  size_t size = weft_dtype_bytes(x->value.dtype);
  weft_block b = { (char *)x->memory + (size_t)x->offset * size, 0, x->value.dtype, x->value.rank, x->value.dims, x->stride };
  return weft_external(&b, nothing, NULL);
}

/* ---- the calls ---- */

struct call {
  const char *op, *name;   /* of the node it makes; of the public function */
  int n_in;
  char on;                 /* a: all dtypes; n: no bools; b: no floats; r: no complex; m: floats, small numbers */
  char axes;               /* 0: once, any shape; 1, 3: for every axis; 2: two rows at least; 4: matrices; 5: axes that are
                              not empty; 6: vectors */
  weft_array *(*make)(weft_array *const x[], int axis);
  struct plain (*plain)(const struct call *, const struct plain *const x[], int axis, weft_dtype out);
};

static struct plain by_element(const struct call *c, const struct plain *const x[], int axis, weft_dtype out) {
  return (void)axis, plain_element(c->name, out, c->n_in, x);
}
static struct plain by_reduce(const struct call *c, const struct plain *const x[], int axis, weft_dtype out) {
  return plain_reduce(c->name, out, x[0], axis);
}
static struct plain by_prefix(const struct call *c, const struct plain *const x[], int axis, weft_dtype out) {
  return plain_prefix(c->name, out, x[0], axis);
}
static struct plain same(const struct call *c, const struct plain *const x[], int axis, weft_dtype out) {
  return (void)c, (void)axis, plain_cast(x[0], out);
}

#define MAKE(name, expression)                                                                    \
  __attribute__((unused)) static weft_array *make_##name(weft_array *const x[], int axis) { return (void)axis, (expression); }
#define PLAIN(name) \
  static struct plain plain_##name(const struct call *c, const struct plain *const x[], int axis, weft_dtype out)
#define ROW(name, doc) MAKE(name, weft_##name(x[0]))
WEFT_UNARY(ROW)
#undef ROW
#define ROW(name, doc) MAKE(name, weft_##name(x[0], x[1]))
WEFT_BINARY(ROW)
#undef ROW
#define ROW(name, doc) MAKE(name, weft_##name(x[0], x[1], x[2]))
WEFT_TERNARY(ROW)
#undef ROW
#define ROW(name, doc) MAKE(name, weft_##name(x[0], axis))
WEFT_REDUCE(ROW)
WEFT_ALONG(ROW)
#undef ROW
#define ROW(name, doc) MAKE(name, weft_##name(x[0]))
WEFT_ACTIVATION(ROW)
#undef ROW
MAKE(where, weft_where(x[0], x[1], x[2]))
MAKE(choose, weft_choose(weft_lt(weft_integer(1), weft_integer(2)), x[0], weft_full_like(x[0], 1)))
MAKE(fma, weft_fma(x[0], x[1], x[2]))
MAKE(to_bf16, weft_cast(x[0], WEFT_BF16))
MAKE(to_e4m3, weft_cast(x[0], WEFT_E4M3))
MAKE(to_e5m2, weft_cast(x[0], WEFT_E5M2))
MAKE(to_i16, weft_cast(x[0], WEFT_I16))
MAKE(to_f64, weft_cast(x[0], WEFT_F64))
MAKE(to_bool, weft_cast(x[0], WEFT_BOOL))
MAKE(to_c64, weft_cast(x[0], WEFT_C64))
MAKE(to_c128, weft_cast(x[0], WEFT_C128))
MAKE(complex, weft_complex(x[0], x[1]))
MAKE(iota, weft_iota(x[0], axis))
MAKE(random_bits, ((void)axis, weft_random_bits(weft_random_key(UINT64_C(0x123456789)), x[0])))
MAKE(size, weft_size(x[0], axis))
MAKE(flat, weft_reshape(x[0], WEFT_DIMS(1, WEFT_ANY)))
MAKE(turn, weft_transpose(x[0], NULL))
MAKE(odd, weft_slice(x[0], axis, 1, WEFT_END, 2))
MAKE(alias, weft_alias(x[0]))
MAKE(stop, weft_stop_gradient(x[0]))
MAKE(to, weft_to(x[0], 0))
MAKE(assert, weft_assert(x[0], weft_or(weft_eq(x[0], x[0]), weft_ne(x[0], x[0])), "neither equal nor different"))
MAKE(depend, weft_depends(x[0], 1, x + 1))
MAKE(pad, weft_pad(x[0], axis, 2, 1, weft_at(weft_reshape(weft_concat(0, WEFT_ARRAYS(weft_reshape(x[1], WEFT_DIMS(WEFT_ANY)), weft_full(weft_dtype_of(x[0]), WEFT_DIMS(1), 1))), WEFT_DIMS(WEFT_ANY)), 0, weft_integer(0))))
MAKE(concat, weft_concat(axis, WEFT_ARRAYS(x[0], x[1], weft_flip(x[0], axis))))
MAKE(matmul, weft_matmul(x[0], weft_moveaxis(x[1], -1, -2)))

static weft_array *more_rows(weft_array *x) {
  int64_t dims[PLAIN_RANK] = { 2 };
  for (int k = 0; k < weft_rank(x); k++) dims[k + 1] = WEFT_SAME;
  return weft_broadcast(x, weft_rank(x) + 1, dims);
}
MAKE(broadcast, more_rows(x[0]))

/* Elements -1, 0 and -2 of the first axis, the first twice. */
static weft_array *places(void) { return weft_from(WEFT_I32, WEFT_DIMS(4), (int32_t[]){ -1, 0, -2, -1 }); }
static weft_array *some(weft_array *x) {
  weft_array *i = places();
  return weft_take(x, 1, &i);
}
MAKE(take, some(x[0]))
#define PUTS(how)                                                                                                        \
  MAKE(put_##how, weft_put(x[0], weft_slice(x[0], axis, -1, WEFT_BEGIN, -2), weft_slice(x[1], axis, -1, WEFT_BEGIN, -2), how)) \
  MAKE(scatter_##how, weft_put(x[0], some(x[0]), some(x[1]), how))
PUTS(WEFT_SET)
PUTS(WEFT_ADD)
PUTS(WEFT_MUL)
PUTS(WEFT_MIN)
PUTS(WEFT_MAX)

PLAIN(complex_) {
  struct plain re = plain_cast(x[0], plain_part_dtype(out)), im = plain_cast(x[1], plain_part_dtype(out)), y = plain_pair(&re, &im);
  plain_free(&re), plain_free(&im);
  return (void)c, (void)axis, y;
}
PLAIN(iota_) { return (void)c, plain_iota(out, x[0]->rank, x[0]->dims, axis); }
PLAIN(size) {
  struct plain y = plain_new(out, 0, NULL);
  plain_set_i(&y, 0, x[0]->dims[axis]);
  return (void)c, y;
}
PLAIN(flat) { return (void)c, (void)axis, (void)out, plain_reshape(x[0], 2, (int64_t[]){ 1, x[0]->count }); }
PLAIN(turn) {
  int axes[PLAIN_RANK];
  for (int k = 0; k < x[0]->rank; k++) axes[k] = x[0]->rank - 1 - k;
  return (void)c, (void)axis, (void)out, plain_transpose(x[0], axes);
}
PLAIN(odd) { return (void)c, (void)out, plain_slice(x[0], axis, 1, x[0]->dims[axis] / 2, 2); }
PLAIN(flip) { return (void)c, (void)out, plain_slice(x[0], axis, x[0]->dims[axis] - 1, x[0]->dims[axis], -1); }
PLAIN(broadcast_) {
  int64_t dims[PLAIN_RANK] = { 2 };
  for (int k = 0; k < x[0]->rank; k++) dims[k + 1] = x[0]->dims[k];
  return (void)c, (void)axis, (void)out, plain_broadcast(x[0], x[0]->rank + 1, dims);
}
PLAIN(pad_) {
  struct plain v = plain_new(out, 0, NULL);
  if (!x[1]->count) plain_is_float(out) ? plain_set_f(&v, 0, 1) : plain_set_i(&v, 0, 1);
  else memcpy(v.data, x[1]->data, weft_dtype_bytes(out));
  struct plain y = plain_pad(x[0], axis, 2, 1, &v);
  plain_free(&v);
  return (void)c, y;
}
PLAIN(concat_) {
  struct plain f = plain_flip(c, x, axis, out), y = plain_concat(axis, 3, (const struct plain *[]){ x[0], x[1], &f });
  plain_free(&f);
  return y;
}
PLAIN(matmul_) {
  int axes[PLAIN_RANK];
  for (int k = 0; k < x[1]->rank; k++) axes[k] = k;
  axes[x[1]->rank - 1] = x[1]->rank - 2, axes[x[1]->rank - 2] = x[1]->rank - 1;
  struct plain b = plain_transpose(x[1], axes), y = plain_matmul(x[0], &b, out);
  plain_free(&b);
  return (void)c, (void)axis, y;
}

static struct plain taken(const struct plain *x) {
  struct plain i = plain_new(WEFT_I32, 1, (int64_t[]){ 4 });
  for (int k = 0; k < 4; k++) plain_set_i(&i, k, (int[]){ -1, 0, -2, -1 }[k]);
  struct plain y = plain_take(x, 1, (const struct plain *[]){ &i });
  plain_free(&i);
  return y;
}
PLAIN(take_) { return (void)c, (void)axis, (void)out, taken(x[0]); }

static weft_how how_of(const struct call *c) {
  return strstr(c->name, "set") ? WEFT_SET : strstr(c->name, "add") ? WEFT_ADD : strstr(c->name, "mul") ? WEFT_MUL : strstr(c->name, "min") ? WEFT_MIN : WEFT_MAX;
}
static struct plain numbers_of(const struct plain *x) {
  struct plain n = plain_new(WEFT_I64, x->rank, x->dims);
  for (int64_t i = 0; i < n.count; i++) plain_set_i(&n, i, i);
  return n;
}
static struct plain stepped(const struct plain *x, int axis) { return plain_slice(x, axis, x->dims[axis] - 1, (x->dims[axis] + 1) / 2, -2); }
PLAIN(put_) {
  struct plain all = numbers_of(x[0]), at = stepped(&all, axis), v = stepped(x[1], axis), y = plain_put(x[0], &at, &v, how_of(c));
  plain_free(&all), plain_free(&at), plain_free(&v);
  return (void)out, y;
}
PLAIN(scatter) {
  struct plain all = numbers_of(x[0]), at = taken(&all), v = taken(x[1]), y = plain_put(x[0], &at, &v, how_of(c));
  plain_free(&all), plain_free(&at), plain_free(&v);
  return (void)axis, (void)out, y;
}

/* ---- elements elsewhere: each of the result is one of the operand, or 0 ---- */

static int64_t size_of(weft_array *x) {
  int64_t n = 1;
  for (int k = 0; k < weft_rank(x); k++) n *= weft_dim(x, k);
  return n;
}

typedef int64_t source(const struct plain *x, int axis, const int64_t at[]); /* the number of an element; -1: 0 */
static struct plain moved(const struct plain *x, int rank, const int64_t dims[], source *from, int axis) {
  struct plain y = plain_new(x->dtype, rank, dims);
  size_t size = weft_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < y.count; i++) {
    int64_t at[PLAIN_RANK];
    plain_index(&y, i, at);
    int64_t k = from(x, axis, at);
    if (k >= 0) memcpy(y.data + (size_t)i * size, x->data + (size_t)k * size, size);
  }
  return y;
}

/* Windows of three, the last first. */
static weft_array *windows(weft_array *x) {
  int64_t n = size_of(x);
  return weft_as_strided(x, WEFT_DIMS(n < 3 ? 0 : n - 2, 3), (int64_t[]){ -1, 1 }, n - 3);
}
MAKE(windows, windows(x[0]))
static int64_t from_window(const struct plain *x, int axis, const int64_t at[]) { return (void)axis, x->count - 3 - at[0] + at[1]; }
PLAIN(windows) {
  return (void)c, (void)out, moved(x[0], 2, (int64_t[]){ x[0]->count < 3 ? 0 : x[0]->count - 2, 3 }, from_window, axis);
}

/* Pairs that slide along an axis, every other one. */
static int64_t pair_of(int64_t n) { return n < 2 ? 1 : 2; }
MAKE(pairs, weft_windows(x[0], axis, pair_of(weft_dim(x[0], axis)), 2, 1))
static int64_t from_pair(const struct plain *x, int axis, const int64_t at[]) {
  int64_t i[PLAIN_RANK + 1];
  memcpy(i, at, (size_t)x->rank * sizeof *i);
  i[axis] = 2 * at[axis] + at[x->rank];
  return plain_at(x, i);
}
PLAIN(pairs) {
  int64_t dims[PLAIN_RANK + 1], n = x[0]->dims[axis];
  memcpy(dims, x[0]->dims, (size_t)x[0]->rank * sizeof *dims);
  dims[axis] = (n - pair_of(n)) / 2 + 1;
  dims[x[0]->rank] = pair_of(n);
  return (void)c, (void)out, moved(x[0], x[0]->rank + 1, dims, from_pair, axis);
}

/* The last and the first along an axis, for every place beside it. */
static weft_array *ends(weft_array *x, int axis) {
  int64_t dims[PLAIN_RANK];
  for (int k = 0; k < weft_rank(x); k++) dims[k] = k == axis ? 2 : 1;
  return weft_take_along(x, axis, weft_from(WEFT_I8, weft_rank(x), dims, (int8_t[]){ -1, 0 }));
}
MAKE(ends, ends(x[0], axis))
static int64_t from_end(const struct plain *x, int axis, const int64_t at[]) {
  int64_t i[PLAIN_RANK];
  memcpy(i, at, sizeof i);
  i[axis] = at[axis] ? 0 : x->dims[axis] - 1;
  return plain_at(x, i);
}
static struct plain along_becomes(const struct plain *x, int axis, int64_t n, source *from) {
  int64_t dims[PLAIN_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = n;
  return moved(x, x->rank, dims, from, axis);
}
PLAIN(ends) { return (void)c, (void)out, along_becomes(x[0], axis, 2, from_end); }

MAKE(repeat, weft_repeat(x[0], axis, 3))
MAKE(roll, weft_roll(x[0], axis, -2))
MAKE(tile, weft_tile(x[0], WEFT_DIMS(2, 2)))
static int64_t with(const struct plain *x, int axis, const int64_t at[], int64_t i) {
  int64_t index[PLAIN_RANK];
  memcpy(index, at, sizeof index);
  index[axis] = i;
  return plain_at(x, index);
}
static int64_t from_third(const struct plain *x, int axis, const int64_t at[]) { return with(x, axis, at, at[axis] / 3); }
static int64_t from_rolled(const struct plain *x, int axis, const int64_t at[]) { return with(x, axis, at, (at[axis] + 2) % x->dims[axis]); }
static int64_t from_tile(const struct plain *x, int axis, const int64_t at[]) {
  int more = x->rank < 2 ? 2 - x->rank : 0;
  int64_t i[PLAIN_RANK];
  for (int k = 0; k < x->rank; k++) i[k] = at[k + more] % x->dims[k];
  return (void)axis, plain_at(x, i);
}
PLAIN(repeat) { return (void)c, (void)out, along_becomes(x[0], axis, 3 * x[0]->dims[axis], from_third); }
PLAIN(roll) { return (void)c, (void)out, along_becomes(x[0], axis, x[0]->dims[axis], from_rolled); }
PLAIN(tile) {
  int more = x[0]->rank < 2 ? 2 - x[0]->rank : 0, rank = x[0]->rank + more;
  int64_t dims[PLAIN_RANK];
  for (int k = 0; k < rank; k++) dims[k] = (k < more ? 1 : x[0]->dims[k - more]) * (k >= rank - 2 ? 2 : 1);
  return (void)c, (void)out, moved(x[0], rank, dims, from_tile, axis);
}

MAKE(tril, weft_tril(x[0], 1))
MAKE(triu, weft_triu(x[0], -1))
MAKE(diagonal, weft_diagonal(x[0], 1, 0, -1))
MAKE(diag, weft_diag(x[0], -1))
static int64_t from_lower(const struct plain *x, int axis, const int64_t at[]) {
  return (void)axis, at[x->rank - 1] <= at[x->rank - 2] + 1 ? plain_at(x, at) : -1;
}
static int64_t from_upper(const struct plain *x, int axis, const int64_t at[]) {
  return (void)axis, at[x->rank - 1] >= at[x->rank - 2] - 1 ? plain_at(x, at) : -1;
}
static int64_t from_diagonal(const struct plain *x, int axis, const int64_t at[]) {
  int64_t i[PLAIN_RANK] = { at[x->rank - 2] };
  for (int k = 1; k < x->rank - 1; k++) i[k] = at[k - 1];
  i[x->rank - 1] = at[x->rank - 2] + 1;
  return (void)axis, plain_at(x, i);
}
static int64_t from_vector(const struct plain *x, int axis, const int64_t at[]) { return (void)x, (void)axis, at[1] == at[0] - 1 ? at[1] : -1; }
PLAIN(tril) { return (void)c, (void)out, moved(x[0], x[0]->rank, x[0]->dims, from_lower, axis); }
PLAIN(triu) { return (void)c, (void)out, moved(x[0], x[0]->rank, x[0]->dims, from_upper, axis); }
PLAIN(diagonal) {
  int64_t dims[PLAIN_RANK], n = x[0]->dims[0], m = x[0]->dims[x[0]->rank - 1] - 1;
  for (int k = 1; k < x[0]->rank - 1; k++) dims[k - 1] = x[0]->dims[k];
  dims[x[0]->rank - 2] = n < m ? n : m < 0 ? 0 : m;
  return (void)c, (void)out, moved(x[0], x[0]->rank - 1, dims, from_diagonal, axis);
}
PLAIN(diag) {
  int64_t n = x[0]->dims[0] + 1;
  return (void)c, (void)out, moved(x[0], 2, (int64_t[]){ n, n }, from_vector, axis);
}

static weft_array *halves(weft_array *x, int axis) { /* the second half before the first */
  weft_array *part[2], *both = weft_concat(axis, WEFT_ARRAYS(x, weft_flip(x, axis)));
  weft_split(both, axis, 2, part);
  return weft_concat(axis, WEFT_ARRAYS(part[1], part[0]));
}
MAKE(split, halves(x[0], axis))
PLAIN(split) {
  struct plain f = plain_flip(c, x, axis, out), y = plain_concat(axis, 2, (const struct plain *[]){ &f, x[0] });
  plain_free(&f);
  return y;
}
MAKE(stack, weft_stack(axis + 1, WEFT_ARRAYS(x[0], x[1])))
PLAIN(stack) {
  int64_t dims[PLAIN_RANK];
  for (int k = 0; k <= x[0]->rank; k++) dims[k] = k == axis + 1 ? 1 : x[0]->dims[k - (k > axis + 1)];
  struct plain a = plain_reshape(x[0], x[0]->rank + 1, dims), b = plain_reshape(x[1], x[0]->rank + 1, dims);
  struct plain y = plain_concat(axis + 1, 2, (const struct plain *[]){ &a, &b });
  plain_free(&a), plain_free(&b);
  return (void)c, (void)out, y;
}
MAKE(flatten, weft_flatten(x[0], 0, axis))
PLAIN(flatten) {
  int64_t dims[PLAIN_RANK] = { 1 };
  for (int k = 0; k < x[0]->rank; k++) k <= axis ? (dims[0] *= x[0]->dims[k]) : (dims[k - axis] = x[0]->dims[k]);
  return (void)c, (void)out, plain_reshape(x[0], x[0]->rank - axis, dims);
}

/* ---- operations written with others: the same in plain C, in f32 at least ---- */

static struct plain held[24]; /* what an expression made on the way */
static int n_held;
static const struct plain *hold(struct plain p) { return held[n_held] = p, &held[n_held++]; }
static struct plain released(const struct plain *y, weft_dtype out) {
  struct plain last = plain_cast(y, out);
  while (n_held) plain_free(&held[--n_held]);
  return last;
}
static weft_dtype wide_of(weft_dtype out) { return out == WEFT_F64 ? out : WEFT_F32; }
static const struct plain *wide(const struct plain *x, weft_dtype out) { return hold(plain_cast(x, wide_of(out))); }
static const struct plain *number(const struct plain *like, double v) {
  struct plain n = plain_new(like->dtype, 0, NULL);
  plain_is_float(n.dtype) ? plain_set_f(&n, 0, v) : plain_set_i(&n, 0, (int64_t)v);
  return hold(n);
}
static const struct plain *one(const char *op, const struct plain *a) { return hold(plain_element(op, a->dtype, 1, &a)); }
static const struct plain *two(const char *op, const struct plain *a, const struct plain *b) {
  return hold(plain_element(op, a->dtype, 2, (const struct plain *[]){ a, b }));
}
static const struct plain *whether(const char *op, const struct plain *a, const struct plain *b) {
  return hold(plain_element(op, WEFT_BOOL, 2, (const struct plain *[]){ a, b }));
}
static const struct plain *choose(const struct plain *c, const struct plain *a, const struct plain *b) {
  return hold(plain_element("where", a->dtype, 3, (const struct plain *[]){ c, a, b }));
}
static const struct plain *fold(const char *op, const struct plain *a, int axis) { return hold(plain_reduce(op, a->dtype, a, axis)); }

PLAIN(choose) { return (void)c, (void)axis, plain_cast(x[0], out); }
PLAIN(relu) {
  const struct plain *zero = number(x[0], 0);
  return (void)c, (void)axis, released(choose(whether("le", x[0], zero), zero, x[0]), out);
}
PLAIN(silu) {
  const struct plain *a = wide(x[0], out);
  return (void)c, (void)axis, released(two("mul", a, one("sigmoid", a)), out);
}
PLAIN(gelu) {
  const struct plain *a = wide(x[0], out), *tail = one("erfc", two("mul", a, number(a, -0.70710678118654752440)));
  return (void)c, (void)axis, released(two("mul", two("mul", a, number(a, 0.5)), tail), out);
}
PLAIN(gelu_approx) {
  const struct plain *a = wide(x[0], out), *cubic = two("mul", two("mul", two("mul", a, a), a), number(a, 0.044715));
  const struct plain *bend = one("sigmoid", two("mul", two("add", a, cubic), number(a, 1.59576912160573071176)));
  return (void)c, (void)axis, released(two("mul", a, bend), out);
}
PLAIN(softplus) {
  const struct plain *a = wide(x[0], out), *zero = number(a, 0), *is_above = whether("gt", a, zero);
  const struct plain *e = one("exp", one("neg", choose(is_above, a, one("neg", a))));
  return (void)c, (void)axis, released(two("add", choose(is_above, a, zero), one("log1p", e)), out);
}
PLAIN(log_softmax) {
  const struct plain *a = wide(x[0], out);
  if (!x[0]->dims[axis]) return released(a, out);
  const struct plain *d = two("sub", a, fold("max", a, axis));
  return (void)c, released(two("sub", d, one("log", fold("sum", one("exp", d), axis))), out);
}
static struct plain variance(const struct plain *x, int axis, weft_dtype out, double ddof, bool is_root) {
  const struct plain *a = wide(x, out), *n = number(a, (double)x->dims[axis]);
  const struct plain *d = two("sub", a, two("div", fold("sum", a, axis), n));
  const struct plain *v = two("div", fold("sum", two("mul", d, d), axis), number(a, fmax(0, (double)x->dims[axis] - ddof)));
  return released(is_root ? one("sqrt", v) : v, out);
}
MAKE(var, weft_var(x[0], axis, 0))
MAKE(std, weft_std(x[0], axis, 1))
PLAIN(var) { return (void)c, variance(x[0], axis, out, 0, false); }
PLAIN(std) { return (void)c, variance(x[0], axis, out, 1, true); }
MAKE(clip, weft_clip(x[0], x[1], x[2]))
PLAIN(clip) { return (void)c, (void)axis, (void)out, released(two("minimum", two("maximum", x[0], x[1]), x[2]), out); }

/* The bytes of the words of threefry in order. */
static struct plain plain_random_bits(const struct call *c, const struct plain *const x[], int axis, weft_dtype out) {
  (void)c, (void)axis;
  struct plain y = plain_new(out, x[0]->rank, x[0]->dims);
  size_t size = weft_dtype_bytes(out), bytes = (size_t)y.count * size, n = (bytes + 3) / 4, half = n / 2 + n % 2;
  uint32_t *word = calloc(2 * half + 2, sizeof *word);
  for (size_t i = 0; i < half; i++) {
    uint32_t w[2] = { (uint32_t)i, i + half < n ? (uint32_t)(i + half) : 0 };
    plain_threefry(1, 0x23456789, w);
    size_t first = size == 8 ? 2 * i : i, second = size == 8 ? 2 * i + 1 : i + half;
    word[first] = w[0], word[second] = w[1];
  }
  if (bytes) memcpy(y.data, word, bytes);
  free(word);
  return y;
}
MAKE(sort, weft_sort(x[0], axis))
MAKE(argsort, weft_argsort(x[0], axis))
PLAIN(sorted) { return (void)c, (void)out, plain_sort(x[0], axis, false); }
PLAIN(order) { return (void)c, (void)out, plain_sort(x[0], axis, true); }

/* The two in the middle: select's own function, which takes the last axis. */
static const struct select_attr middle = { .times = 1, .plus = -1, .over = 2, .count = 2 };
static weft_array *selected(weft_array *x, int axis, int which) {
  weft_array *y[2];
  array_select(weft_moveaxis(x, axis, -1), &middle, y);
  return weft_moveaxis(y[which], -1, axis);
}
MAKE(select, selected(x[0], axis, 0))
MAKE(select_places, selected(x[0], axis, 1))
static struct plain plain_middle(const struct plain *x, int axis, bool is_order) {
  struct plain sorted = plain_sort(x, axis, is_order), y = plain_ranks(&sorted, axis, &middle);
  plain_free(&sorted);
  return y;
}
PLAIN(select) { return (void)c, (void)out, plain_middle(x[0], axis, false); }
PLAIN(select_places) { return (void)c, (void)out, plain_middle(x[0], axis, true); }

static const struct call calls[] = {
#define E(n, on, name) { #name, #name, n, on, 0, make_##name, by_element },
  E(1, 'n', neg) E(1, 'a', abs) E(1, 'a', sqrt) E(1, 'a', rsqrt) E(1, 'a', exp) E(1, 'a', log) E(1, 'a', log1p) E(1, 'a', tanh)
  E(1, 'a', sigmoid) E(1, 'a', isnan) E(1, 'b', not) E(1, 'a', sign) E(1, 'a', floor) E(1, 'a', ceil) E(1, 'a', trunc) E(1, 'a', round)
  E(1, 'a', real) E(1, 'a', imag) E(1, 'a', conj)
  E(1, 'a', isinf) E(1, 'a', isfinite) E(1, 'a', logical_not) E(2, 'a', logical_and) E(2, 'a', logical_or) E(2, 'a', logical_xor) E(2, 'i', shl) E(2, 'i', shr)
  E(1, 'a', exp2) E(1, 'a', expm1) E(1, 'a', log2) E(1, 'a', log10) E(1, 'a', sin) E(1, 'a', cos) E(1, 'a', tan) E(1, 'a', asin) E(1, 'a', acos)
  E(1, 'a', atan) E(1, 'a', sinh) E(1, 'a', cosh) E(1, 'a', asinh) E(1, 'a', acosh) E(1, 'a', atanh) E(1, 'a', erf) E(1, 'a', erfc) E(1, 'a', erfinv)
  E(2, 'a', pow) E(2, 'a', atan2) E(2, 'a', hypot) E(2, 'a', logaddexp)
  E(1, 'a', lgamma) E(1, 'a', gamma) E(1, 'a', digamma) E(1, 'a', trigamma) E(1, 'a', erfcx) E(1, 'a', erfcinv) E(1, 'a', ndtr) E(1, 'a', ndtri) E(1, 'a', log_ndtr)
  E(1, 'a', log1mexp) E(1, 'a', logit) E(1, 'a', sinc) E(1, 'a', i0) E(1, 'a', i0e) E(1, 'a', i1) E(1, 'a', i1e) E(1, 'a', j0) E(1, 'a', j1)
  E(2, 'a', xlogy) E(2, 'a', xlog1py) E(2, 'a', zeta) E(2, 'a', polygamma)
  E(2, 'a', beta) E(2, 'a', betaln) E(2, 'a', gammainc) E(2, 'a', gammaincc) E(2, 'a', gammainc_da) E(3, 'a', betainc) E(3, 'a', betainc_da)
  E(2, 'a', gammaincinv) E(2, 'a', gammainccinv) E(3, 'a', betaincinv) E(2, 'a', iv) E(2, 'a', ive) E(2, 'a', jv) E(2, 'a', kv) E(2, 'a', kve) E(2, 'a', owens_t)
  E(2, 'a', floor_divide) E(2, 'a', remainder) E(2, 'a', fmod)
  E(2, 'a', add) E(2, 'a', sub) E(2, 'a', mul) E(2, 'a', div) E(2, 'a', maximum) E(2, 'a', minimum) E(2, 'a', eq) E(2, 'a', ne)
  E(2, 'a', lt) E(2, 'a', le) E(2, 'b', and) E(2, 'b', or) E(2, 'b', xor) E(3, 'a', where) E(3, 'a', fma)
#undef E
  { "mul", "square", 1, 'r', 0, make_square, by_element }, { "div", "reciprocal", 1, 'r', 0, make_reciprocal, by_element },
  { "lt", "gt", 2, 'a', 0, make_gt, by_element }, { "le", "ge", 2, 'a', 0, make_ge, by_element },
  { "cast", "cast to bf16", 1, 'a', 0, make_to_bf16, same }, { "cast", "cast to e4m3", 1, 'a', 0, make_to_e4m3, same },
  { "cast", "cast to e5m2", 1, 'a', 0, make_to_e5m2, same }, { "cast", "cast to i16", 1, 'a', 0, make_to_i16, same },
  { "cast", "cast to f64", 1, 'a', 0, make_to_f64, same }, { "cast", "cast to bool", 1, 'a', 0, make_to_bool, same },
  { "cast", "cast to c64", 1, 'a', 0, make_to_c64, same }, { "cast", "cast to c128", 1, 'a', 0, make_to_c128, same },
  { "complex", "complex", 2, 'r', 0, make_complex, plain_complex_ },
#define R(name) { #name, #name, 1, 'a', 1, make_##name, by_reduce },
  R(sum) R(prod) R(max) R(min) R(all) R(any) R(logsumexp) R(argmax) R(argmin)
#undef R
#define P(name) { #name, #name, 1, 'a', 1, make_##name, by_prefix },
  P(cumsum) P(cumprod) P(cummax) P(cummin)
#undef P
  { "cast", "random_bits", 1, 'i', 0, make_random_bits, plain_random_bits },
  { "sort", "sort", 1, 'a', 1, make_sort, plain_sorted }, { "sort", "argsort", 1, 'a', 1, make_argsort, plain_order },
  { "select", "select", 1, 'a', 1, make_select, plain_select }, { "select", "select places", 1, 'a', 1, make_select_places, plain_select_places },
  { "iota", "iota", 1, 'n', 1, make_iota, plain_iota_ }, { "size", "size", 1, 'a', 1, make_size, plain_size },
  { "reshape", "reshape", 1, 'a', 0, make_flat, plain_flat }, { "transpose", "transpose", 1, 'a', 0, make_turn, plain_turn },
  { "slice", "slice", 1, 'a', 1, make_odd, plain_odd }, { "slice", "flip", 1, 'a', 1, make_flip, plain_flip },
  { "broadcast", "broadcast", 1, 'a', 0, make_broadcast, plain_broadcast_ },
  { "take", "take", 1, 'a', 2, make_take, plain_take_ },
  { "put", "put set", 2, 'a', 3, make_put_WEFT_SET, plain_put_ }, { "scatter", "scatter set", 2, 'a', 2, make_scatter_WEFT_SET, plain_scatter },
  { "put", "put add", 2, 'a', 3, make_put_WEFT_ADD, plain_put_ }, { "scatter", "scatter add", 2, 'a', 2, make_scatter_WEFT_ADD, plain_scatter },
  { "put", "put mul", 2, 'a', 3, make_put_WEFT_MUL, plain_put_ }, { "scatter", "scatter mul", 2, 'a', 2, make_scatter_WEFT_MUL, plain_scatter },
  { "put", "put min", 2, 'a', 3, make_put_WEFT_MIN, plain_put_ }, { "scatter", "scatter min", 2, 'a', 2, make_scatter_WEFT_MIN, plain_scatter },
  { "put", "put max", 2, 'a', 3, make_put_WEFT_MAX, plain_put_ }, { "scatter", "scatter max", 2, 'a', 2, make_scatter_WEFT_MAX, plain_scatter },
  { "concat", "concat", 2, 'a', 1, make_concat, plain_concat_ }, { "pad", "pad", 2, 'a', 1, make_pad, plain_pad_ },
  { "matmul", "matmul", 2, 'm', 4, make_matmul, plain_matmul_ },
  { "as_strided", "as_strided", 1, 'a', 0, make_windows, plain_windows }, { "take", "take_along", 1, 'a', 5, make_ends, plain_ends },
  { "windows", "windows", 1, 'a', 5, make_pairs, plain_pairs },
  { "reshape", "repeat", 1, 'a', 1, make_repeat, plain_repeat }, { "reshape", "tile", 1, 'a', 0, make_tile, plain_tile },
  { "concat", "roll", 1, 'a', 5, make_roll, plain_roll }, { "where", "tril", 1, 'a', 4, make_tril, plain_tril },
  { "where", "triu", 1, 'a', 4, make_triu, plain_triu }, { "where", "diag", 1, 'a', 6, make_diag, plain_diag },
  { "take", "diagonal", 1, 'a', 4, make_diagonal, plain_diagonal }, { "concat", "split", 1, 'a', 1, make_split, plain_split },
  { "concat", "stack", 2, 'a', 1, make_stack, plain_stack }, { "reshape", "flatten", 1, 'a', 1, make_flatten, plain_flatten },
  { "choose", "choose", 1, 'a', 0, make_choose, plain_choose },
  { "where", "relu", 1, 'n', 0, make_relu, plain_relu }, { "mul", "silu", 1, 'a', 0, make_silu, plain_silu },
  { "mul", "gelu", 1, 'a', 0, make_gelu, plain_gelu },
  { "mul", "gelu_approx", 1, 'a', 0, make_gelu_approx, plain_gelu_approx },
  { "add", "softplus", 1, 'a', 0, make_softplus, plain_softplus }, { "minimum", "clip", 3, 'a', 0, make_clip, plain_clip },
  { "sub", "log_softmax", 1, 'a', 1, make_log_softmax, plain_log_softmax },
  { "div", "var", 1, 'r', 1, make_var, plain_var }, { "sqrt", "std", 1, 'r', 1, make_std, plain_std },
  { "alias", "alias", 1, 'a', 0, make_alias, same }, { "stop_gradient", "stop_gradient", 1, 'a', 0, make_stop, same },
  { "to", "to", 1, 'a', 0, make_to, same },
  { "assert", "assert", 1, 'a', 0, make_assert, same },
  { "depends", "depends", 2, 'a', 0, make_depend, same },
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Leaves, ops with bodies, and what only plans and gradients have: made by other tests (errors, transforms, edges,
 * functions, loops, later). */
static const char *const elsewhere[] = { "bits", "random_bits", "gamma_draw", "log_gamma_draw", "part", "pair", "value", "scalar", "input", "bad", "loop_var", "scale", "barrier", "checkpoint", "custom", "loop", "call", "later", "turns", "item", "host", "tally", "bins", "dequantize", "code_product", "depthwise", "fourier", "cholesky", "cholesky_solve", "triangle", "lu", "solve", "inverse", "determinant", "adjugate", "cofactors" };

TEST(every_op_has_a_row) {
  for (const struct op *const *op = op_table; *op; op++) {
    bool found = false;
    for (int i = 0; i < CALLS; i++) found |= !strcmp(calls[i].op, (*op)->name);
    for (int i = 0; i < (int)(sizeof elsewhere / sizeof *elsewhere); i++) found |= !strcmp(elsewhere[i], (*op)->name);
    if (!found) test_fail(__FILE__, __LINE__, "%s has no row in test/every_op.c", (*op)->name);
  }
}

/* ---- checking ---- */

static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_BOOL, WEFT_BF16, WEFT_F16, WEFT_U8, WEFT_I8, WEFT_U16,
                                     WEFT_I16, WEFT_U32, WEFT_U64, WEFT_C64, WEFT_C128, WEFT_E4M3, WEFT_E5M2 };
static const struct { int rank; int64_t dims[3]; } shapes[] = {
  { 2, { 3, 5 } }, { 0, { 0 } }, { 1, { 1 } }, { 2, { 0, 4 } }, { 3, { 2, 0, 3 } }, { 3, { 2, 3, 4 } }, { 1, { 45 } }, { 2, { 19, 33 } }, { 2, { 1, 7 } }, { 2, { 150, 3 } }
};
enum { SHAPES = sizeof shapes / sizeof *shapes, LARGE = 7 };

static bool takes(const struct call *c, weft_dtype t) {
  bool is_complex = plain_is_complex(t), is_float = plain_is_float(t) || is_complex;
  return c->on == 'n' ? t != WEFT_BOOL : c->on == 'i' ? t != WEFT_BOOL && !is_float : c->on == 'b' ? !is_float : c->on == 'm' ? is_float : c->on == 'r' ? !is_complex : true;
}

/* What needs an order of numbers, or bits, takes no complex ones and says so. */
static bool takes_complex(const struct call *c) {
  static const char *const ordered[] = { "max", "min", "argmax", "argmin", "sort", "argsort", "select", "select places", "logsumexp", "cummax", "cummin", "put min", "put max",
                                         "scatter min", "scatter max", "log_softmax", "softplus", "silu", "gelu", "gelu_approx" };
  for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++)
    if (!strcmp(c->name, ordered[i])) return false;
  for (const struct op *const *op = op_table; *op; op++)
    if (!strcmp((*op)->name, c->op)) return (*op)->kind != OP_ELEMENT || (*op)->parts || !strncmp(c->name, "logical", 7);
  return true;
}

static void refuses(weft_array *y, const struct call *c, weft_dtype t) {
  if (weft_check(y) != WEFT_ERR_DTYPE || !strstr(weft_message(), ": not of c"))
    test_fail(__FILE__, __LINE__, "weft_%s of %s: %s", c->name, weft_dtype_name(t), weft_check(y) ? weft_message() : "not refused");
}

static bool has_neutral(const struct call *c) {
  return strcmp(c->name, "max") && strcmp(c->name, "min") && strncmp(c->name, "arg", 3);
}

/* Whether the call makes sense along this axis of this shape. */
static bool fits(const struct call *c, int shape, int axis) {
  int rank = shapes[shape].rank;
  const int64_t *dims = shapes[shape].dims;
  if (c->plain == by_reduce && dims[axis] == 0 && !has_neutral(c)) return false;
  if (c->axes == 2) return rank > 0 && dims[0] > 1; /* elements -1, 0, -2 */
  if (c->axes == 4) return rank >= 2;
  if (c->axes == 5) return rank > 0 && dims[axis] > 0;
  if (c->axes == 6) return rank == 1;
  return c->axes == 0 || rank > 0;
}

static uint64_t digest; /* of the results of a call so far */

/* What is compared with another machine is not compared with plain C too, whose long doubles take minutes under emulation. */
static void note_bits(const struct call *c, weft_dtype t, weft_array *y) {
  int64_t dims[PLAIN_RANK];
  for (int k = 0; k < weft_rank(y); k++) dims[k] = weft_dim(y, k);
  struct plain got = plain_new(weft_dtype_of(y), weft_rank(y), dims);
  if (!weft_read(y, got.dtype, got.data, (size_t)got.count * weft_dtype_bytes(got.dtype))) digest = digest_of(digest, &got);
  else test_fail(__FILE__, __LINE__, "weft_%s of %s: %s", c->name, weft_dtype_name(t), weft_message());
  plain_free(&got);
}

/* A call on operands that lie so. Ways of evaluation share them, and what they must give, which is computed for the first that asks. */
struct check { enum layout_name how; int shape, axis; unsigned ways; struct operand in[3]; struct plain want; };

static struct check check_begin(const struct call *c, weft_dtype t, enum layout_name how, enum fill what, int shape, int axis) {
  struct check k = { .how = how, .shape = shape, .axis = axis };
  for (int i = 0; i < c->n_in; i++) {
    bool is_condition = !strcmp(c->op, "where") && i == 0;
    lay_out(&k.in[i], is_condition ? WEFT_BOOL : t, shapes[shape].rank, shapes[shape].dims, i == 1 && how == TURNED ? DENSE : how, c->on == 'm' ? SMALL : what);
  }
  return k;
}

static void check_end(const struct call *c, struct check *k) {
  plain_free(&k->want);
  for (int i = 0; i < c->n_in; i++) operand_free(&k->in[i]);
}

static void compare(const struct call *c, weft_dtype t, struct check *k, weft_array *y, const char *way) {
  const struct plain *px[3] = { &k->in[0].value, &k->in[1].value, &k->in[2].value };
  if (!k->want.data) k->want = c->plain(c, px, k->axis, weft_dtype_of(y));
  struct plain *want = &k->want, got = plain_new(want->dtype, want->rank, want->dims);
  bool ok = weft_rank(y) == want->rank && !weft_read(y, want->dtype, got.data, (size_t)want->count * weft_dtype_bytes(want->dtype));
  int64_t at = ok ? plain_differs(want, got.data) : -1;
  if (!ok || at >= 0)
    test_fail(__FILE__, __LINE__, "weft_%s of %s, %s, rank %d shape %d axis %d, %s: %s%s%s", c->name, weft_dtype_name(t), layouts[k->how].name,
              shapes[k->shape].rank, k->shape, k->axis, way, ok ? plain_text(&got, at) : weft_message(), ok ? ", not " : "", ok ? plain_text(want, at) : "");
  plain_free(&got);
}

static void check_run(const struct call *c, weft_dtype t, struct check *k, const char *way) {
  weft_array *x[3];
  weft_scope *s = weft_scope_open();
  for (int i = 0; i < c->n_in; i++) x[i] = array_on(&k->in[i]);
  weft_array *y = c->make(x, k->axis);
  if (plain_is_complex(t) && !takes_complex(c)) refuses(y, c, t);
  else if (weft_check(y)) test_fail(__FILE__, __LINE__, "weft_%s of %s: %s", c->name, weft_dtype_name(t), weft_message());
  else if (digest_is_wanted()) note_bits(c, t, y);
  else compare(c, t, k, y, way);
  weft_scope_discard(s);
}

/* Those of a call and a dtype. */
static struct { struct check *all; int n, room; } checks;

static void checks_add(struct check k) {
  if (checks.n == checks.room) checks.all = realloc(checks.all, (size_t)(checks.room = 2 * checks.room + 64) * sizeof *checks.all);
  if (!checks.all) abort();
  checks.all[checks.n++] = k;
}

/* Of shapes, those that are `third` modulo 3, or all below 0. */
static void add_checks(const struct call *c, weft_dtype t, enum layout_name how, enum fill what, int third, unsigned in_ways) {
  for (int shape = 0; shape < SHAPES; shape++) {
    if (third >= 0 && shape % 3 != third) continue;
    if (digest_is_wanted() && c->axes == 0 && how != DENSE && shape != LARGE) continue; /* a kernel for each rank, all of one text */
    int n_axes = c->axes % 2 && shapes[shape].rank ? shapes[shape].rank : 1;
    for (int axis = 0; axis < n_axes; axis++)
      if (fits(c, shape, axis) && shapes[shape].rank >= layouts[how].least_rank) {
        struct check k = check_begin(c, t, how, what, shape, axis);
        k.ways = in_ways;
        checks_add(k);
      }
  }
}

enum { FUSED_ON_X86, FUSED_ON_THE_VM, ALONE_ON_THE_VM, ALONE_ON_X86, ON_AVX2_AND_THREADS, WAYS_OF_OPS }; /* of `ways` */

/* Digests are for machines that are emulated: a few layouts are enough to tell them apart. */
static bool is_sampled(enum layout_name how) { return how == DENSE || how == TURNED || how == STRIDED_3 || how == OVERLAPPING; }

/* Dense, every op meets every shape. Fused, it meets every layout on a third of the shapes, another third for the next layout, the
 * next op and the next dtype: each pair of a layout and a shape with a third of the dtypes. The other ways differ in how kernels
 * are joined, encoded and shared, not in what an op is of: there it meets the sampled layouts and a third of the others. */
static bool is_met(const struct call *c, int way, int turn, enum layout_name how) {
  static const enum layout_name others[] = { TURNED, STRIDED_3, OVERLAPPING };
  if (digest_is_wanted() && c->axes == 0) return how == DENSE || how == others[turn % 3]; /* element by element: one is enough */
  if (is_sampled(how)) return true;
  return !digest_is_wanted() && (way <= FUSED_ON_THE_VM || ((int)how + turn) % 3 == 0);
}
static int third_of(const struct call *c, int turn, enum layout_name how) {
  bool meets_all = how == DENSE && !(digest_is_wanted() && c->axes == 0); /* no shape is of another machine, but orders of sums are */
  if (digest_is_wanted() && c->axes == 0 && how != DENSE) return LARGE % 3;
  return meets_all ? -1 : ((int)how / 3 + (int)how + turn) % 3;
}

static void run_checks(const struct call *c, weft_dtype t, int way) {
  static int taken = -1; /* one way alone keeps its kernels from call to call */
  char what[128];
  if (way != taken) way_take(&ways[taken = way]);
  digest = 0;
  for (int i = 0; i < checks.n; i++)
    if (checks.all[i].ways >> way & 1) check_run(c, t, &checks.all[i], ways[way].name);
  snprintf(what, sizeof what, "%s of %s, %s", c->name, weft_dtype_name(t), ways[way].name);
  digest_note(what, digest);
}

static void check_layouts(const struct call *c, weft_dtype t, unsigned in_ways, int turn) {
  checks.n = 0;
  for (int how = 0; how < LAYOUTS; how++) {
    unsigned meeting = 0;
    for (int way = 0; way < WAYS_OF_OPS; way++)
      if (in_ways >> way & 1 && is_met(c, way, turn, (enum layout_name)how)) meeting |= 1u << way;
    if (meeting) add_checks(c, t, (enum layout_name)how, USUAL, third_of(c, turn, (enum layout_name)how), meeting);
  }
  add_checks(c, t, DENSE, SPECIAL, third_of(c, turn + 1, DENSE), in_ways);
  plain_asks_truths = in_ways >> FUSED_ON_THE_VM & 1; /* plain values are the same in all ways */
  for (int way = 0; way < WAYS_OF_OPS; way++)
    if (in_ways >> way & 1) run_checks(c, t, way);
  for (int i = 0; i < checks.n; i++) check_end(c, &checks.all[i]);
}

/* ThreadSanitizer has nothing to say about one thread, and takes its time: there three threads meet every op on one dtype. Under
 * AddressSanitizer, where all is ten times slower, each pair of an op and a dtype is met in one or two of the five ways. */
static bool is_left_out(int i, int d, int way) {
  return UNDER_TSAN ? d != i % (int)(sizeof dtypes / sizeof *dtypes) : UNDER_ASAN && (i + d + way) % 3;
}

/* A function of elements that takes long to compile and to compute is that of f32, or of f64, between two casts: each pair of one and
 * another dtype is met in one or two of the five ways, each function in all of them. Digests for a GPU, whose casts are other
 * instructions in each kernel, are of all; those of the vm, for other machines, whose loop over a cast is one for all functions, are not. */
static bool is_between_casts(const struct call *c, weft_dtype t) {
  if (t == WEFT_F32 || t == WEFT_F64 || plain_is_complex(t)) return false;
  for (const struct op *const *op = op_table; *op; op++)
    if (!strcmp((*op)->name, c->op)) return (*op)->kind == OP_ELEMENT && !(*op)->is_cheap;
  return false;
}

static bool is_met_so(int i, int d, int way) {
  return (digest_is_wanted() && way != FUSED_ON_THE_VM) || !is_between_casts(&calls[i], dtypes[d]) || (i + d + way) % 3 == 0;
}

/* Two tests a back end, on dtypes with a fraction and without: two processors share the longest tests there are. */
static bool has_fraction(weft_dtype t) {
  return plain_is_float(t) || plain_is_complex(t);
}

/* Of these ways, those in which the call meets the dtype. */
static unsigned ways_met(int i, int d, unsigned in_ways) {
  unsigned met = 0;
  for (int way = 0; way < WAYS_OF_OPS; way++)
    if (in_ways >> way & 1 && !is_left_out(i, d, way) && is_met_so(i, d, way)) met |= 1u << way;
  return met;
}

static void check_ways(unsigned in_ways, bool fraction) {
  if (UNDER_TSAN) in_ways &= 1u << ON_AVX2_AND_THREADS;
  if (!in_ways) return test_skip("one thread, under ThreadSanitizer");
  test_watchdog(digest_is_wanted() ? 900 : 600); /* digests are written under emulation too */
  for (int i = 0; i < CALLS; i++)
    for (int d = 0; d < (int)(sizeof dtypes / sizeof *dtypes); d++) {
      unsigned met = ways_met(i, d, in_ways);
      state = (uint32_t)(i * 100 + d) * 2654435761u; /* operands do not depend on which calls came before */
      if (met && has_fraction(dtypes[d]) == fraction && takes(&calls[i], dtypes[d]) && digest_is_ours(i + d))
        check_layouts(&calls[i], dtypes[d], met, i + d);
    }
  EXPECT_INT(plain_off, 0);
  EXPECT_INT(weft_get(WEFT_KERNELS_VM), 0); /* the encoder takes them all */
  free(checks.all);
  plain_end();
  way_leave();
}

/* Fused, one op a kernel, and by three threads with AVX2. Digests are of fused kernels alone. */
static void check_on_x86(bool fraction) {
  check_ways(1u << FUSED_ON_X86 | (digest_is_wanted() ? 0 : 1u << ALONE_ON_X86 | 1u << ON_AVX2_AND_THREADS), fraction);
}
static void check_on_the_vm(bool fraction) {
  check_ways(1u << FUSED_ON_THE_VM | (digest_is_wanted() ? 0 : 1u << ALONE_ON_THE_VM), fraction);
}

TEST(every_op_on_floats_in_every_layout_on_x86) { check_on_x86(true); }
TEST(every_op_on_integers_in_every_layout_on_x86) { check_on_x86(false); }
TEST(every_op_on_floats_in_every_layout_on_the_vm) { check_on_the_vm(true); }
TEST(every_op_on_integers_in_every_layout_on_the_vm) { check_on_the_vm(false); }

/* What weft_assert gives is x where the check, broadcast, is true. */
static weft_array *check_of(weft_array *y) {
  weft_array *in[3] = { y };
  while (!strcmp(weft_op(in[0]), "where") || !strcmp(weft_op(in[0]), "broadcast") || !strcmp(weft_op(in[0]), "reshape"))
    if (weft_operands(in[0], 3, in) < 1) break;
  return in[0];
}

TEST(every_row_makes_the_op_it_says) {
  for (int i = 0; i < CALLS; i++) {
    struct operand in[3];
    weft_array *x[3];
    weft_scope *s = weft_scope_open();
    weft_dtype t = calls[i].on == 'b' || calls[i].on == 'i' ? WEFT_I32 : WEFT_F32;
    for (int k = 0; k < 3; k++) {
      lay_out(&in[k], t, 2, (int64_t[]){ 3, 5 }, DENSE, USUAL);
      x[k] = array_on(&in[k]);
    }
    if (calls[i].axes == 6) x[0] = weft_reshape(x[0], WEFT_DIMS(WEFT_ANY));
    weft_array *y = calls[i].make(x, calls[i].axes == 1);
    if (!strcmp(weft_op(y), "item")) EXPECT_INT(weft_operands(y, 1, &y), 1); /* one result of an op that has several */
    if (!strcmp(calls[i].op, "assert")) y = check_of(y);
    EXPECT_TEXT(weft_op(y), calls[i].op);
    weft_scope_discard(s);
    for (int k = 0; k < 3; k++) operand_free(&in[k]);
  }
}

/* ---- derivatives and maps, evaluated for real: jvp and vjp against differences, <v, Ju> = <J'v, u>, map against rows, and
 * the same of the gradient ---- */

enum { N = 6 };
static const double above_0[N] = { 0.7, 1.3, 0.4, 2.1, 0.9, 1.7 }, any_sign[N] = { 0.7, -1.3, 0.4, 2.1, -0.9, 1.7 };
static weft_array *matrix(weft_array *x) { return weft_reshape(x, WEFT_DIMS(2, 3)); }
static weft_array *front(weft_array *x) { return weft_slice(x, 0, 0, 3, 1); }
static weft_array *back(weft_array *x) { return weft_slice(x, 0, 5, 2, -1); }

/* x x' + 1, [2, 2] of [2, 3], with something above the diagonal that Cholesky does not read. */
static weft_array *definite(weft_array *x) {
  weft_array *m = weft_reshape(x, WEFT_DIMS(2, 3)), *a = weft_add(weft_matmul(m, weft_transpose(m, NULL)), weft_eye(WEFT_F64, 2, 2, 0));
  return weft_add(a, weft_triu(weft_mul(a, weft_scalar(0.25)), 1));
}
static weft_array *log_size(weft_array *a) {
  weft_array *sign, *size;
  weft_slogdet(a, &sign, &size);
  return weft_mul(sign, size);
}
#define D(name, expression) static weft_array *d_##name(weft_array *x) { return (expression); }
D(to, weft_mul(weft_to(x, 0), x))
D(neg, weft_neg(x)) D(abs, weft_abs(x)) D(sqrt, weft_sqrt(x)) D(rsqrt, weft_rsqrt(x)) D(exp, weft_exp(x)) D(log, weft_log(x))
D(log1p, weft_log1p(x)) D(tanh, weft_tanh(x)) D(sigmoid, weft_sigmoid(x))
D(square, weft_square(x)) D(reciprocal, weft_reciprocal(x)) D(sign, weft_mul(weft_sign(x), x)) D(floor, weft_mul(weft_floor(x), x))
D(ceil, weft_ceil(x)) D(trunc, weft_trunc(x)) D(round, weft_round(x)) D(floor_divide, weft_mul(weft_floor_divide(front(x), back(x)), front(x)))
D(remainder, weft_remainder(weft_mul(weft_scalar(2), x), weft_flip(x, 0))) D(fmod, weft_fmod(weft_mul(weft_scalar(2), x), weft_flip(x, 0)))
D(exp2, weft_exp2(x)) D(expm1, weft_expm1(x)) D(log2, weft_log2(x)) D(log10, weft_log10(x)) D(sin, weft_sin(x)) D(cos, weft_cos(x)) D(tan, weft_tan(x))
D(asin, weft_asin(weft_mul(x, weft_scalar(0.2)))) D(acos, weft_acos(weft_mul(x, weft_scalar(0.2)))) D(atan, weft_atan(x)) D(sinh, weft_sinh(x)) D(cosh, weft_cosh(x))
D(asinh, weft_asinh(x)) D(acosh, weft_acosh(weft_add(x, weft_scalar(1)))) D(atanh, weft_atanh(weft_mul(x, weft_scalar(0.2)))) D(erf, weft_erf(x)) D(erfc, weft_erfc(x))
D(erfinv, weft_erfinv(weft_mul(x, weft_scalar(0.2)))) D(pow, weft_pow(front(x), back(x))) D(atan2, weft_atan2(front(x), back(x))) D(hypot, weft_hypot(front(x), back(x)))
D(logaddexp, weft_logaddexp(front(x), back(x)))
D(lgamma, weft_lgamma(x)) D(gamma, weft_gamma(x)) D(digamma, weft_digamma(x)) D(trigamma, weft_trigamma(x))
D(erfcx, weft_erfcx(x)) D(erfcinv, weft_erfcinv(weft_mul(weft_abs(x), weft_scalar(0.5)))) D(ndtr, weft_ndtr(x))
D(ndtri, weft_ndtri(weft_mul(weft_abs(x), weft_scalar(0.25)))) D(log_ndtr, weft_log_ndtr(x))
D(log1mexp, weft_log1mexp(weft_neg(weft_abs(x)))) D(logit, weft_logit(weft_mul(weft_abs(x), weft_scalar(0.25))))
D(sinc, weft_sinc(x)) D(i0, weft_i0(x)) D(i0e, weft_i0e(x)) D(i1, weft_i1(x)) D(i1e, weft_i1e(x)) D(j0, weft_j0(x))
D(j1, weft_j1(x)) D(xlogy, weft_xlogy(front(x), back(x))) D(xlog1py, weft_xlog1py(front(x), back(x)))
D(zeta, weft_zeta(weft_scalar(2.5), x)) D(polygamma, weft_polygamma(weft_scalar(3), x))
D(beta, weft_beta(front(x), back(x))) D(betaln, weft_betaln(front(x), back(x))) D(gammainc, weft_gammainc(weft_scalar(1.5), x))
D(gammaincc, weft_gammaincc(weft_scalar(1.5), x)) D(betainc, weft_betainc(weft_scalar(1.5), weft_scalar(0.5), weft_sigmoid(x)))
D(gammainc_da, weft_gammainc_da(weft_scalar(1.5), x)) D(betainc_da, weft_betainc_da(weft_scalar(1.5), weft_scalar(0.5), weft_sigmoid(x)))
D(gammaincinv, weft_gammaincinv(weft_scalar(1.5), weft_sigmoid(x))) D(gammainccinv, weft_gammainccinv(weft_scalar(1.5), weft_sigmoid(x)))
D(betaincinv, weft_betaincinv(weft_scalar(1.5), weft_scalar(0.7), weft_sigmoid(x))) D(iv, weft_iv(weft_scalar(1.5), x)) D(ive, weft_ive(weft_scalar(2), x))
D(jv, weft_jv(weft_scalar(1.5), x)) D(kv, weft_kv(weft_scalar(0.5), x)) D(kve, weft_kve(weft_scalar(2.5), x)) D(owens_t, weft_owens_t(front(x), back(x)))
D(add, weft_add(front(x), back(x))) D(sub, weft_sub(front(x), back(x))) D(mul, weft_mul(front(x), back(x)))
D(div, weft_div(front(x), back(x))) D(maximum, weft_maximum(front(x), back(x))) D(minimum, weft_minimum(front(x), back(x)))
D(where, weft_where(weft_gt(x, weft_scalar(0.8)), weft_mul(x, x), weft_exp(x)))
D(choose, weft_choose(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)), weft_cumsum(weft_mul(x, x), 0), weft_exp(x)))
D(fma, weft_fma(front(x), back(x), front(x))) D(cast, weft_cast(weft_mul(x, x), WEFT_F64))
D(sum, weft_mul(weft_sum(matrix(x), 0), weft_sum(matrix(x), 0))) D(row_sum, weft_exp(weft_sum(matrix(x), 1)))
D(prod, weft_prod(matrix(x), 0)) D(max, weft_max(matrix(x), 1)) D(min, weft_min(matrix(x), 0))
D(logsumexp, weft_logsumexp(matrix(x), 1)) D(column_logsumexp, weft_logsumexp(matrix(x), 0)) D(mean, weft_mean(weft_mul(x, x), 0))
D(softmax, weft_softmax(matrix(x), 1)) D(cumsum, weft_exp(weft_cumsum(matrix(x), 1)))
D(sort, weft_exp(weft_sort(matrix(x), 1))) D(select, weft_exp(weft_topk(matrix(x), 1, 2))) D(median, weft_exp(weft_median(matrix(x), 0))) D(quantile, weft_exp(weft_quantile(matrix(x), weft_scalar(0.3), 1, WEFT_LINEAR)))
D(cholesky, weft_cholesky(definite(x))) D(solve, weft_solve(definite(x), matrix(x))) D(inverse, weft_inverse(definite(x)))
D(cholesky_solve, weft_cholesky_solve(definite(x), matrix(x)))
D(triangle, weft_solve_triangular(definite(x), matrix(x), 1, 0)) D(unit_triangle, weft_solve_triangular(definite(x), matrix(x), 0, 1))
D(det, weft_det(definite(x))) D(slogdet, log_size(definite(x)))
D(sort_columns, weft_mul(weft_sort(matrix(x), 0), matrix(x)))
D(cumprod, weft_cumprod(matrix(x), 1)) D(cummax, weft_cummax(matrix(x), 1)) D(cummin, weft_cummin(matrix(x), 1))
D(reshape, weft_exp(weft_reshape(matrix(x), WEFT_DIMS(3, 2)))) D(broadcast, weft_exp(weft_broadcast(x, WEFT_DIMS(2, N))))
D(transpose, weft_exp(weft_transpose(matrix(x), NULL))) D(slice, weft_exp(weft_slice(x, 0, 4, 0, -2)))
D(assert, weft_exp(weft_assert(x, weft_lt(x, weft_scalar(1e9)), "too large")))
D(take, weft_exp(some(matrix(x)))) D(concat, weft_exp(weft_concat(0, WEFT_ARRAYS(x, back(x)))))
D(pad, weft_exp(weft_pad(x, 0, 1, 2, weft_sum(x, WEFT_ALL)))) D(matmul, weft_matmul(matrix(x), weft_transpose(matrix(x), NULL)))
D(put_set, weft_exp(weft_put(x, front(x), weft_mul(back(x), back(x)), WEFT_SET))) D(put_add, weft_put(x, front(x), weft_exp(back(x)), WEFT_ADD))
D(put_mul, weft_put(x, front(x), weft_exp(back(x)), WEFT_MUL)) D(put_min, weft_put(x, front(x), back(x), WEFT_MIN))
D(put_max, weft_put(x, front(x), back(x), WEFT_MAX))
D(scatter_add, weft_put(x, some(x), weft_exp(weft_slice(x, 0, 0, 4, 1)), WEFT_ADD))
D(scatter_set, weft_put(x, some(x), weft_exp(weft_slice(x, 0, 0, 4, 1)), WEFT_SET))
D(scatter_mul, weft_put(x, some(x), weft_exp(weft_slice(x, 0, 0, 4, 1)), WEFT_MUL))
D(scatter_max, weft_put(x, some(x), weft_mul(weft_slice(x, 0, 0, 4, 1), weft_scalar(1.5)), WEFT_MAX))
D(scatter_min, weft_put(x, some(x), weft_mul(weft_slice(x, 0, 0, 4, 1), weft_scalar(1.5)), WEFT_MIN))
D(as_strided, weft_exp(weft_as_strided(x, WEFT_DIMS(4, 3), (int64_t[]){ -1, 1 }, 3))) /* windows, the last first */
D(windows, weft_exp(weft_windows(matrix(x), 1, 2, 1, 1)))
D(along, weft_exp(weft_take_along(matrix(x), 1, weft_from(WEFT_I64, WEFT_DIMS(2, 4), (int64_t[]){ 0, 2, 2, 1, -1, 0, 0, 0 }))))
static weft_array *add_along(weft_array *x) {
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(2, 3), (int64_t[]){ 0, 1, 1, 0, 0, 1 });
  return weft_put(x, weft_take_along(x, 0, i), weft_exp(x), WEFT_ADD);
}
D(put_along, add_along(matrix(x)))
D(put_strided, weft_put(x, weft_as_strided(x, WEFT_DIMS(2, 2), (int64_t[]){ 1, 2 }, 1), weft_exp(weft_slice(x, 0, 0, 2, 1)), WEFT_MUL))
D(roll, weft_mul(x, weft_roll(x, 0, 2))) D(repeat, weft_exp(weft_repeat(matrix(x), 1, 2))) D(tile, weft_exp(weft_tile(matrix(x), WEFT_DIMS(2, 2))))
D(diagonal, weft_exp(weft_diagonal(matrix(x), 1, 0, 1))) D(diag, weft_exp(weft_diag(front(x), -1))) D(tril, weft_exp(weft_tril(matrix(x), 0)))
D(triu, weft_exp(weft_triu(matrix(x), 1))) D(stack, weft_exp(weft_stack(1, WEFT_ARRAYS(x, weft_flip(x, 0))))) D(split, halves(weft_exp(x), 0))
D(relu, weft_mul(x, weft_relu(x))) D(silu, weft_silu(x)) D(gelu, weft_gelu(x)) D(gelu_approx, weft_gelu_approx(x)) D(softplus, weft_softplus(x))
D(clip, weft_mul(x, weft_clip(x, weft_scalar(-1), weft_scalar(1)))) D(log_softmax, weft_log_softmax(matrix(x), 1)) D(var, weft_var(matrix(x), 1, 1))
D(std, weft_std(matrix(x), 0, 0)) D(var_all, weft_var(x, WEFT_ALL, 0)) D(over_mean, weft_mul(x, weft_reshape(weft_over(weft_mean, matrix(x), WEFT_AXES(1, 0)), WEFT_DIMS(1))))
static weft_array *cube(weft_array *x) { return weft_reshape(x, WEFT_DIMS(1, 2, 3)); }
static weft_array *unbiased(weft_array *x, int axis) { return weft_var(x, axis, 1); }
D(over_var, weft_over(unbiased, cube(x), WEFT_AXES(0, 2))) D(over_prod, weft_over(weft_prod, cube(x), WEFT_AXES(2, 1)))
D(var_over, weft_var_over(cube(x), WEFT_AXES(1, 0), 0)) D(std_over, weft_std_over(cube(x), WEFT_AXES(1, 2), 1))
D(rms_norm, weft_rms_norm(matrix(x), front(x), 1e-5)) D(layer_norm, weft_layer_norm(matrix(x), front(x), back(x), 1e-5))
D(attention, weft_attention(matrix(x), matrix(x), matrix(x), &(weft_attention_options){ .is_causal = 1 }))

static const struct { const char *name; array_function f; const double *x; bool has_loop; } derivatives[] = {
#define S(name) { #name, d_##name, any_sign, false },
#define A(name) { #name, d_##name, above_0, false },
#define L(name) { #name, d_##name, above_0, true },
  S(to) S(neg) S(abs) A(sqrt) A(rsqrt) S(exp) A(log) A(log1p) S(tanh) S(sigmoid) S(square) S(reciprocal)
  S(exp2) S(expm1) A(log2) A(log10) S(sin) S(cos) S(tan) S(asin) S(acos) S(atan) S(sinh) S(cosh) S(asinh) A(acosh) S(atanh) S(erf) S(erfc) S(erfinv)
  A(pow) S(atan2) S(hypot) S(logaddexp)
  A(lgamma) A(gamma) A(digamma) A(trigamma) S(erfcx) S(erfcinv) S(ndtr) S(ndtri) S(log_ndtr) S(log1mexp) S(logit) S(sinc) S(i0) S(i0e) S(i1) S(i1e) S(j0) S(j1) A(xlogy) A(xlog1py) A(zeta) A(polygamma)
  A(beta) A(betaln) A(gammainc) A(gammaincc) A(betainc) A(gammainc_da) A(betainc_da)
  A(gammaincinv) A(gammainccinv) A(betaincinv) A(iv) A(ive) A(jv) A(kv) A(kve) S(owens_t)
  S(sign) S(floor) S(ceil) S(trunc) S(round) S(floor_divide) S(remainder) S(fmod) S(add) S(sub) S(mul) S(div) S(maximum) S(minimum)
  S(where) S(choose) S(fma) S(cast) S(sum) S(row_sum) S(prod) S(max) S(min) S(logsumexp) S(column_logsumexp) S(mean) S(softmax) S(cumsum) S(sort) S(sort_columns) S(cholesky) S(cholesky_solve) S(solve) S(inverse) S(triangle) S(unit_triangle) S(det) S(slogdet) S(select) S(median) S(quantile)
  S(reshape) S(broadcast) S(transpose) S(slice) S(take) S(assert) S(concat) S(pad) S(matmul)
  S(put_set) S(put_add) S(put_mul) S(put_min) S(put_max) S(scatter_add) S(scatter_set) S(scatter_mul) S(scatter_max) S(scatter_min)
  S(as_strided) S(windows) S(along) S(put_along) S(put_strided) S(roll) S(repeat) S(tile) S(diagonal) S(diag) S(tril) S(triu) S(stack) S(split)
  S(relu) S(silu) S(gelu) S(gelu_approx) S(softplus) S(clip) S(log_softmax) S(var) S(std) S(var_all) S(over_mean) S(over_var) S(over_prod) S(var_over) S(std_over)
  S(rms_norm) S(layer_norm) S(attention) L(cumprod) L(cummax) L(cummin)
};
enum { DERIVATIVES = sizeof derivatives / sizeof *derivatives };

static void check_derivatives(int way, int first) {
  test_watchdog(300);
  way_take(&ways[way]);
  for (int i = first; i < DERIVATIVES; i += 2) check_function(derivatives[i].name, derivatives[i].f, N, derivatives[i].x);
  EXPECT_INT(weft_get(WEFT_KERNELS_VM), 0);
  way_leave();
}

TEST(derivatives_and_maps_of_every_op_are_right_on_x86) { check_derivatives(0, 0), check_derivatives(0, 1); }
TEST(derivatives_and_maps_of_every_op_are_right_on_the_vm) { check_derivatives(1, 0), check_derivatives(1, 1); }
TEST(derivatives_and_maps_of_every_op_are_right_one_op_a_kernel) { check_derivatives(3, 0), check_derivatives(3, 1); }

/* Rows of operands, mapped: each has the bits of the call on that row alone. */
static void check_mapped(const struct call *c, weft_dtype t) {
  enum { ROWS = 3 };
  struct operand in[3], row[ROWS];
  weft_array *x[3], *many, *y, *ys;
  int shape = c->axes == 6 ? 6 : 0;
  int64_t dims[PLAIN_RANK] = { ROWS };
  weft_scope *s = weft_scope_open();
  for (int k = 0; k < c->n_in; k++) lay_out(&in[k], !strcmp(c->op, "where") && c->n_in == 3 && k == 0 ? WEFT_BOOL : t, shapes[shape].rank, shapes[shape].dims, DENSE, c->on == 'm' ? SMALL : USUAL);
  for (int k = 0; k < c->n_in; k++) x[k] = array_on(&in[k]);
  struct plain wide[ROWS];
  const struct plain *all[ROWS];
  memcpy(dims + 1, shapes[shape].dims, sizeof *dims * (size_t)shapes[shape].rank);
  dims[0] = 1;
  for (int r = 0; r < ROWS; r++) {
    lay_out(&row[r], in[0].value.dtype, shapes[shape].rank, shapes[shape].dims, DENSE, c->on == 'm' ? SMALL : USUAL);
    wide[r] = plain_reshape(&row[r].value, shapes[shape].rank + 1, dims), all[r] = &wide[r];
  }
  struct plain stacked = plain_concat(0, ROWS, all);
  many = weft_from(stacked.dtype, stacked.rank, stacked.dims, stacked.data);
  y = c->make(x, 0);
  bool is_refused = weft_check(y) == WEFT_ERR_DTYPE; /* check_run asks for what it says */
  weft_map(1, x, &many, 1, &y, &ys);
  for (int r = 0; r < ROWS; r++) {
    const struct plain *px[3] = { &row[r].value, &in[1].value, &in[2].value };
    if (is_refused) { plain_free(&wide[r]), operand_free(&row[r]); continue; }
    struct plain want = c->plain(c, px, 0, weft_dtype_of(y)), got = plain_new(want.dtype, want.rank, want.dims);
    bool ok = !weft_read(weft_at(ys, 0, weft_integer(r)), want.dtype, got.data, (size_t)want.count * weft_dtype_bytes(want.dtype));
    int64_t at = ok ? plain_differs(&want, got.data) : -1;
    if (!ok || at >= 0) test_fail(__FILE__, __LINE__, "weft_%s of %s, mapped, row %d: %s%s%s", c->name, weft_dtype_name(t), r, ok ? plain_text(&got, at) : weft_message(), ok ? ", not " : "", ok ? plain_text(&want, at) : "");
    plain_free(&want), plain_free(&got), plain_free(&wide[r]), operand_free(&row[r]);
  }
  weft_scope_discard(s);
  plain_free(&stacked);
  for (int k = 0; k < c->n_in; k++) operand_free(&in[k]);
}

TEST(every_row_mapped_is_itself_on_every_row) {
  static const weft_dtype some_of[] = { WEFT_F32, WEFT_I32, WEFT_C64 };
  test_watchdog(200);
  plain_asks_truths = false; /* they were asked above, for more numbers */
  for (int i = 0; i < CALLS; i++)
    for (int k = 0; k < 3; k++)
      if (takes(&calls[i], some_of[k]) && (!plain_is_complex(some_of[k]) || takes_complex(&calls[i]))) check_mapped(&calls[i], some_of[k]);
  plain_end();
}

/* ---- the tables, for others ---- */

int every_rows(void) { return CALLS; }
const char *every_row_op(int row) { return calls[row].op; }
bool every_row_is_of(int row, const char *op) {
  const char *name = calls[row].name;
  size_t n = strlen(op);
  return !strcmp(calls[row].op, op) && !strncmp(name, op, n) && (name[n] == 0 || name[n] == ' ');
}
bool every_row_named(const char *function) {
  for (int i = 0; i < CALLS; i++) if (!strcmp(calls[i].name, function)) return true;
  return false;
}
bool every_row_takes(int row, weft_dtype t) {
  return takes(&calls[row], t) && (!plain_is_complex(t) || takes_complex(&calls[row]));
}
weft_array *every_row_make(int row, weft_array *const x[]) { return calls[row].make(x, 0); }

static bool is_empty_shape(int shape) {
  for (int k = 0; k < shapes[shape].rank; k++) if (!shapes[shape].dims[k]) return true;
  return false;
}

static int dtype_number(weft_dtype t) {
  int d = 0;
  while (d < (int)(sizeof dtypes / sizeof *dtypes) - 1 && dtypes[d] != t) d++;
  return d;
}

static void check_alone(const struct call *c, weft_dtype t, enum layout_name how, int shape) {
  struct check k = check_begin(c, t, how, USUAL, shape, 0);
  check_run(c, t, &k, "");
  check_end(c, &k);
}

int every_row_check(int row, weft_dtype t, bool is_empty, bool is_sample) {
  const struct call *c = &calls[row];
  int n = 0, turn = row + dtype_number(t) + 1; /* the tests above meet the third before */
  for (int how = 0; how < LAYOUTS; how++)
    for (int shape = 0, third = third_of(c, turn, (enum layout_name)how); shape < SHAPES; shape++) {
      if (is_sample && third >= 0 && shape % 3 != third) continue;
      if (is_empty_shape(shape) == is_empty && fits(c, shape, 0) && shapes[shape].rank >= layouts[how].least_rank)
        check_alone(c, t, (enum layout_name)how, shape), n++;
    }
  return n;
}

int every_derivatives(void) { return DERIVATIVES; }
array_function every_derivative(int i, const char **name, const double **x) {
  *name = derivatives[i].name;
  *x = derivatives[i].x;
  return derivatives[i].f;
}
