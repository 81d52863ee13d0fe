/* program_composed.c -- the other steps of random programs: products, draws, what is composed, what is made of nothing, functions of
 * the host: how each is chosen and built. */
#include <stdlib.h>
#include <string.h>
#include "program_rows.h"

/* ---- contractions ---- */

BUILD(matmul) { return weft_matmul(in[0], in[1]); }
BUILD(tensordot) { return weft_tensordot(in[0], in[1], 1, (int[]){ (int)s->p[0] }, (int[]){ (int)s->p[1] }); }
static const char *const subscripts[] = { "ij,kj->ik", "ij,ij->i", "i,j->ij", "ii->i", "ij->ji", "...i,i->...", "bij,bjk->bik", "ij,jk,kl->il", "ii" };
BUILD(einsum) { return weft_einsum(subscripts[s->p[0]], s->n_in, in); }

static weft_dtype product_dtype(const struct program *p, int a) { return form(p, a)->dtype == WEFT_BOOL ? WEFT_I32 : form(p, a)->dtype; }
MAKE(matmul) {
  int a = pick(p, KNOWN | RANK_1 | (p->is_smooth ? FLOAT : 0)), b = once_in(p, 3) ? a : pick(p, KNOWN | RANK_1 | (p->is_smooth ? FLOAT : 0));
  if (a < 0) return false;
  if (count_of(form(p, a)) <= 8000 && ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL))) return true;
  int rank = form(p, a)->rank;
  int64_t k = form(p, a)->dims[rank - 1], dims[2] = { k, k > 600 ? 1 : 1 + any(p, 5) };
  if (count_of(form(p, a)) * dims[1] > 30000) return false;
  b = leaf(p, product_dtype(p, a), 1 + (int)any(p, 2), dims);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL));
}
/* Two dot products of very different lengths, added: one kernel. */
MAKE(dots) {
  static const int lengths[] = { 1, 2, 3, 17, 512, 513, 600, 1030 };
  weft_dtype t = p->is_smooth ? WEFT_F64 : WEFT_F32;
  int side[2];
  for (int k = 0; k < 2; k++) {
    int a = leaf(p, t, 1, (int64_t[]){ lengths[any(p, COUNT(lengths))] });
    side[k] = grow(p, kind, 2, (int[]){ a, a }, 0, NULL);
  }
  const struct kind *add = NULL;
  for (int k = 0; program_kinds[k]; k++) if (!strcmp(program_kinds[k]->name, "weft_add")) add = program_kinds[k];
  return ok(grow(p, add, 2, side, 0, NULL));
}
MAKE(tensordot) {
  int a = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0));
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t dims[2] = { 1 + any(p, 4), p->step[a].form.dims[axis] };
  int b = leaf(p, product_dtype(p, a), 2, dims);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 2, (int64_t[]){ axis, 1 }));
}
MAKE(einsum) {
  int a = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0)), which = (int)any(p, COUNT(subscripts)), n = 1, in[3] = { a, a, a };
  for (const char *c = subscripts[which]; *c != '-' && *c; c++) n += *c == ',';
  for (int k = 1; k < n; k++) if (once_in(p, 2)) in[k] = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0));
  return ok(grow(p, kind, n, in, 1, (int64_t[]){ which }));
}

BUILD(windows) { return weft_windows(in[0], (int)s->p[0], s->p[1], s->p[2], s->p[3]); }
BUILD(conv) {
  weft_conv_options o = { .stride = s->p, .dilation = s->p + 1, .before = s->p + 2, .after = s->p + 3, .spread = s->p + 4, .is_flipped = (int)s->p[5] };
  return weft_conv(in[0], in[1], s->p[6] ? NULL : &o);
}
MAKE(windows) {
  int a = pick(p, KNOWN | RANK_1 | SMALL);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 4, (int64_t[]){ any_axis(p, a), 1 + any(p, 3), 1 + any(p, 2), 1 + any(p, 2) }));
}
MAKE(conv) {
  int a = pick(p, KNOWN | RANK_2 | SMALL | FLOAT | FULL);
  if (a < 0 || form(p, a)->rank != 3) return false;
  int w = leaf(p, form(p, a)->dtype, 3, (int64_t[]){ 1 + any(p, 3), 1 + any(p, 3), p->step[a].form.dims[2] });
  return ok(grow(p, kind, 2, (int[]){ a, w }, 7, (int64_t[]){ 1 + any(p, 2), 1 + any(p, 2), any(p, 2), any(p, 3), 1 + any(p, 2), any(p, 2), any(p, 2) }));
}

/* One channel a group, planes or channels side by side; all numbers are whole, so that sums are exact. */
BUILD(conv_channels) {
  weft_array *few = weft_cast(weft_clip(weft_round(weft_mean(in[0], WEFT_ALL)), weft_scalar(-8), weft_scalar(8)), WEFT_F32);
  weft_array *line = weft_iota(weft_full(WEFT_F32, WEFT_DIMS(120), 0), 0), *of = weft_remainder(weft_cast(line, WEFT_F32), weft_scalar(7));
  int is_planes = (int)s->p[4];
  weft_array *x = weft_add(weft_reshape(of, 4, is_planes ? (int64_t[]){ 2, 3, 4, 5 } : (int64_t[]){ 2, 4, 5, 3 }), few);
  if (is_planes) x = weft_moveaxis(x, 1, -1);
  weft_array *w = weft_reshape(weft_slice(of, 0, 1, 1 + 3 * s->p[5] * 6, 1), 4, (int64_t[]){ 3 * s->p[5], 3, 2, 1 });
  weft_conv_options o = { .stride = s->p, .dilation = (int64_t[]){ 1, s->p[1] }, .before = s->p + 2, .after = s->p + 3, .groups = 3, .is_flipped = is_planes };
  return weft_conv(x, w, &o);
}
MAKE(conv_channels) {
  int a = p->is_smooth ? -1 : pick(p, FLOAT | FULL);
  return ok(grow(p, kind, 1, &a, 6, (int64_t[]){ 1 + any(p, 2), 1 + any(p, 2), any(p, 2), any(p, 2), any(p, 2), 1 + any(p, 2) }));
}

/* ---- random numbers ---- */

BUILD(random_key) { return weft_random_key((uint64_t)s->p[0]); }
BUILD(random_split) { return weft_random_split(in[0], s->p[0]); }
BUILD(random_bits) { return weft_random_bits(in[0], in[1]); }
BUILD(random_randint) { return weft_random_randint(in[0], in[1], weft_integer(-3), weft_integer(9)); }
BUILD(random1) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], weft_scalar(0.5)); }
BUILD(random2) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], weft_scalar(0.5), weft_scalar(0.75)); }
BUILD(random3) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], weft_scalar(0.5), weft_scalar(0.75), weft_scalar(2)); }
BUILD(random_categorical) { return weft_random_categorical(in[0], NULL, in[1], -1); }
BUILD(random_permutation) { return weft_random_permutation(in[0], in[1], 0); }
BUILD(random_shuffle) { return weft_random_shuffle(in[0], in[1], -1); }
BUILD(random_choice) { return weft_random_choice(in[0], weft_full(WEFT_I32, WEFT_DIMS(1), 0), in[1], NULL, weft_rank(in[1]) > 1); }
BUILD(random_dirichlet) { return weft_random_dirichlet(in[0], NULL, weft_add(weft_mul(in[1], in[1]), weft_scalar(0.5))); }
BUILD(random_multinomial) { return weft_random_multinomial(in[0], NULL, weft_integer(5), weft_add(weft_mul(in[1], in[1]), weft_scalar(0.5))); }
extern const struct kind kind_random_key;
MAKE(random_key) { return ok(p->is_smooth ? -1 : grow(p, kind, 0, NULL, 1, (int64_t[]){ any(p, 100) })); }
MAKE(random_split) {
  int key = p->is_smooth ? -1 : grow(p, &kind_random_key, 0, NULL, 1, (int64_t[]){ any(p, 100) });
  return ok(grow(p, kind, 1, &key, 1, (int64_t[]){ any(p, 4) }));
}
MAKE(random) {
  bool is_whole = kind->one == build_random_bits || kind->one == build_random_randint;
  int like = pick(p, is_whole ? INTEGER : REAL), key = like < 0 || p->is_smooth ? -1 : grow(p, &kind_random_key, 0, NULL, 1, (int64_t[]){ any(p, 100) });
  return ok(grow(p, kind, 2, (int[]){ key, like }, 0, NULL));
}
MAKE(random_axis) {
  int x = pick(p, RANK_1 | FLOAT | FULL | SMALL), key = x < 0 || p->is_smooth ? -1 : grow(p, &kind_random_key, 0, NULL, 1, (int64_t[]){ any(p, 100) });
  return ok(grow(p, kind, 2, (int[]){ key, x }, 0, NULL));
}

/* ---- composed ---- */

BUILD(rms_norm) { return weft_rms_norm(in[0], s->n_in > 1 ? in[1] : NULL, 1e-2); }
BUILD(layer_norm) { return weft_layer_norm(in[0], s->n_in > 1 ? in[1] : NULL, s->n_in > 2 ? in[2] : NULL, 1e-2); }
BUILD(attention) {
  weft_attention_options o = { .scale = s->p[0] ? 0.7 : 0, .is_causal = (int)s->p[1], .mask = s->p[2] ? in[3] : NULL };
  return weft_attention(in[0], in[1], in[2], &o);
}
MAKE(norm) {
  int a = pick(p, KNOWN | RANK_1 | FLOAT | FULL), n = 1 + (int)any(p, kind->one == build_layer_norm ? 3 : 2);
  if (a < 0) return false;
  int64_t d = form(p, a)->dims[form(p, a)->rank - 1];
  int in[3] = { a, leaf(p, form(p, a)->dtype, 1, &d), leaf(p, form(p, a)->dtype, 1, &d) };
  return ok(grow(p, kind, n, in, 0, NULL));
}
MAKE(attention) {
  int a = pick(p, KNOWN | RANK_2 | FLOAT | SMALL | FULL), in[4] = { a, a, a, a };
  if (a < 0) return false;
  int64_t dims[2] = { 1 + any(p, 20), form(p, a)->dims[form(p, a)->rank - 1] }, mask[2] = { form(p, a)->dims[form(p, a)->rank - 2], dims[0] };
  weft_dtype t = form(p, a)->dtype;
  bool has_mask = once_in(p, 2) && !p->is_smooth, is_self = once_in(p, 3);
  if (!is_self && form(p, a)->rank == 2) in[1] = leaf(p, t, 2, dims), in[2] = once_in(p, 2) ? in[1] : leaf(p, t, 2, dims);
  else mask[1] = mask[0];
  if (has_mask) in[3] = leaf(p, once_in(p, 2) ? WEFT_BOOL : t, 2, mask);
  return ok(grow(p, kind, has_mask ? 4 : 3, in, 3, (int64_t[]){ any(p, 2), any(p, 2), has_mask }));
}

/* Of a x x' + 2 that every value gives: [3, 3] of its mean and spread. */
static weft_array *definite(weft_array *x) {
  weft_array *i = weft_iota(weft_full(WEFT_F64, WEFT_DIMS(3, 3), 0), 0), *m = weft_sin(weft_add(i, weft_mul(weft_transpose(i, NULL), weft_tanh(weft_mean(weft_cast(x, WEFT_F64), WEFT_ALL)))));
  return weft_add(weft_matmul(m, weft_transpose(m, NULL)), weft_mul(weft_eye(WEFT_F64, 3, 3, 0), weft_scalar(2)));
}
BUILD(cholesky) { return weft_cholesky(definite(in[0])); }
BUILD(cholesky_status) { return weft_cholesky_status(weft_sub(definite(in[0]), weft_scalar(2))); }
BUILD(solve) { return weft_solve(definite(in[0]), weft_triu(definite(in[0]), 0)); }
BUILD(cholesky_solve) { return weft_cholesky_solve(definite(in[0]), weft_triu(definite(in[0]), 0)); }
BUILD(solve_triangular) { return weft_solve_triangular(definite(in[0]), definite(in[0]), (int)s->p[0], (int)s->p[1]); }
BUILD(solve_triangular_status) { return weft_solve_triangular_status(weft_round(weft_sub(definite(in[0]), weft_scalar(2.5)))); }
BUILD(inverse) { return weft_inverse(definite(in[0])); }
BUILD(inverse_status) { return weft_inverse_status(definite(in[0])); }
BUILD(det) { return weft_det(definite(in[0])); }
BUILD(slogdet) {
  weft_array *sign, *log;
  weft_slogdet(weft_sub(definite(in[0]), weft_scalar(s->p[1] ? 2 : 0)), &sign, &log);
  return s->p[0] ? sign : log;
}
BUILD(random_multivariate_normal) { return weft_random_multivariate_normal(weft_random_key((uint64_t)s->p[0]), NULL, weft_full(WEFT_F64, WEFT_DIMS(3), 1), definite(in[0])); }
MAKE(linear) {
  int a = p->is_smooth ? -1 : pick(p, FLOAT | FULL);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any(p, 2), any(p, 2) }));
}

/* Whole weights [4, 64] of so many bits, the least and the largest in every group: their scale is 1, and sums are exact in any order. */
static weft_array *whole_weights(int bits) {
  weft_array *i = weft_iota(weft_full(WEFT_I32, WEFT_DIMS(4, 64), 0), 1), *at = weft_remainder(i, weft_integer(32));
  weft_array *w = weft_remainder(weft_mul(i, weft_integer(7)), weft_integer(1 << bits));
  w = weft_where(weft_eq(at, weft_integer(1)), weft_integer((1 << bits) - 1), weft_where(weft_eq(at, weft_integer(0)), weft_integer(0), w));
  return weft_cast(w, WEFT_F32);
}

/* Weights of any values, their words or scales, and back; or the product of whole ones with rows made of x, or with chosen ones of
 * two such matrices. */
enum { CODES, BACK, PRODUCT, GATHERED };
static weft_array *quantized(weft_array *x, const struct step *s, int what) {
  weft_array *w = weft_sin(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(4, 64), 0), 1)), *words, *scales, *biases;
  weft_array *mean = weft_mean(x, WEFT_ALL), *few = weft_cast(weft_clip(weft_round(mean), weft_scalar(-8), weft_scalar(8)), WEFT_F32);
  weft_code_form form = { WEFT_CODES_AFFINE, s->p[1] ? 64 : 32, (int)s->p[0], NULL };
  if (form.bits == 4 && s->p[1]) form = (weft_code_form){ s->p[2] ? WEFT_CODES_MXFP4 : WEFT_CODES_NVFP4, 0, 0, NULL };
  if (form.bits == 8 && s->p[1]) form = (weft_code_form){ WEFT_CODES_MXFP8, 0, 0, NULL };
  weft_quantize(what < PRODUCT ? weft_add(w, mean) : whole_weights((int)s->p[0]), &form, &words, &scales, &biases);
  if (what == CODES) return s->p[3] == 2 && biases ? biases : s->p[3] ? scales : words;
  if (what == BACK) return weft_dequantize(words, scales, biases, &form, WEFT_F32);
  weft_array *rows = weft_add(weft_full(WEFT_F32, WEFT_DIMS(2, s->p[2] ? 64 : 4), 1), few);
  weft_array *again = weft_unsqueeze(weft_mul(rows, weft_scalar(2)), 0);
  if (what == PRODUCT) return weft_quantized_matmul(rows, words, scales, biases, (int)s->p[2], &form);
  weft_array *places = weft_remainder(weft_iota(weft_full(WEFT_I32, WEFT_DIMS(3), 0), 0), weft_integer(2));
  return weft_gather_qmm(weft_concat(0, 2, (weft_array *[]){ weft_unsqueeze(rows, 0), again }), words, scales, biases, places, NULL,
                         (int)s->p[2], &form);
}
BUILD(quantize) { return quantized(in[0], s, CODES); }
BUILD(dequantize) { return quantized(in[0], s, BACK); }
BUILD(quantized_matmul) { return quantized(in[0], s, PRODUCT); }
BUILD(gather_qmm) { return quantized(in[0], s, GATHERED); }
MAKE(quantized) {
  static const int bits[] = { 2, 3, 4, 5, 6, 8 };
  int a = p->is_smooth ? -1 : pick(p, FLOAT | FULL);
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ bits[any(p, 6)], any(p, 2), any(p, 2), any(p, 3) }));
}

/* ---- making ---- */

BUILD(full) { return weft_full((weft_dtype)s->p[0], (int)s->p[1], s->p + 2, (double)s->p[5]); }
BUILD(full_like) { return weft_full_like(in[0], (double)s->p[0]); }
BUILD(iota) { return weft_iota(in[0], (int)s->p[0]); }
BUILD(size) { return weft_size(in[0], (int)s->p[0]); }
BUILD(sized) { return weft_sized((weft_dtype)s->p[0], 2, (weft_array *[]){ weft_size(in[0], 0), weft_integer(2) }); }
BUILD(arange) { return weft_arange((weft_dtype)s->p[0], (double)s->p[1], (double)s->p[2], 0.5 * (double)s->p[3]); }
BUILD(linspace) { return weft_linspace((weft_dtype)s->p[0], (double)s->p[1], (double)s->p[2], s->p[3]); }
BUILD(eye) { return weft_eye((weft_dtype)s->p[0], s->p[1], s->p[2], s->p[3]); }
BUILD(tri) { return weft_tri((weft_dtype)s->p[0], s->p[1], s->p[2], s->p[3]); }

/* Sizes that are computed, but the same in every row of a map: of the size of an axis, and of its places. */
static weft_array *places_of(weft_array *x) { return weft_iota(weft_sized(WEFT_I64, WEFT_ARRAYS(weft_size(x, 0))), 0); }
static weft_array *every(weft_array *x, int64_t n, int64_t k) {
  return weft_eq(weft_remainder(places_of(x), weft_integer(n + 1)), weft_integer(k));
}
BUILD(cut) {
  weft_array *n = weft_size(in[0], (int)s->p[1]), *from = weft_sub(n, weft_integer(s->p[0] + 1)), *to = weft_floor_divide(n, weft_integer(2));
  return weft_cut(in[0], (int)s->p[1], s->p[2] ? from : NULL, s->p[2] == 1 ? NULL : to, weft_integer(s->p[3]));
}
BUILD(compress) { return weft_compress(in[0], every(in[0], s->p[0], s->p[2])); }
BUILD(flatnonzero) { return weft_flatnonzero(every(in[0], s->p[0], s->p[2])); }
BUILD(nonzero) { /* of rows and columns, one of the two lists */
  weft_array *row = weft_unsqueeze(every(in[0], s->p[0], s->p[2]), 0), *rows = weft_concat(0, 2, (weft_array *[]){ row, row });
  weft_array *at[] = { rows, rows }; /* they stay, if there is no memory for rows */
  weft_nonzero(rows, at);
  return at[s->p[3] > 1];
}
BUILD(unique) { return weft_unique(weft_floor_divide(places_of(in[0]), weft_integer(s->p[0] + 1)), NULL, NULL, NULL); }
MAKE(chosen) {
  static const int64_t steps[] = { 1, 1, -1, 2, -3 };
  int a = pick(p, RANK_1);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 4, (int64_t[]){ any(p, 3), any_axis(p, a), any(p, 3), steps[any(p, COUNT(steps))] }));
}

static int64_t any_dtype(struct program *p) {
  static const weft_dtype of[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_BF16 };
  return p->is_smooth ? WEFT_F64 : of[any(p, COUNT(of))];
}
MAKE(full) { return ok(grow(p, kind, 0, NULL, 6, (int64_t[]){ any_dtype(p), any(p, 3), 1 + any(p, 4), 1 + any(p, 4), 0, any(p, 3) })); }
MAKE(full_like) {
  int a = pick(p, p->is_smooth ? FLOAT : 0);
  return ok(grow(p, kind, 1, &a, 1, (int64_t[]){ any(p, 4) }));
}
MAKE(iota) {
  int a = pick(p, RANK_1);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any_axis(p, a) }));
}
MAKE(sized) {
  int a = pick(p, RANK_1);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any_dtype(p) }));
}
MAKE(series) { return ok(grow(p, kind, 0, NULL, 4, (int64_t[]){ any_dtype(p), any(p, 5), 5 + any(p, 5), 1 + any(p, 4) })); }

/* ---- functions of the host ---- */

static int twice_and_one(void *ctx, const weft_block in[], const weft_block out[]) {
  int64_t n = 1;
  for (int k = 0; k < in->rank; k++) n *= in->dims[k];
  for (int64_t i = 0; i < n; i++) ((double *)out->data)[i] = 2 * ((const double *)in->data)[i] + 1;
  return (void)ctx, 0;
}
BUILD(host) {
  weft_array *y, *x = weft_cast(in[0], WEFT_F64);
  weft_host(&(weft_host_function){ .run = twice_and_one }, 1, &x, 1, &(weft_block){ .dtype = WEFT_F64, .rank = (int)s->p[0], .dims = s->p + 1 }, &y);
  return y;
}
BUILD(host_like) {
  weft_array *y, *x = weft_cast(in[0], WEFT_F64);
  weft_host_like(&(weft_host_function){ .run = twice_and_one }, 1, &x, 1, s->p[0] ? &in[1] : &x, &y);
  return y;
}
MAKE(host_like) { /* of sizes that a run tells, or like another array that nobody computes for it */
  int a = pick(p, FLOAT), b = -1;
  if (a < 0 || p->is_smooth) return false;
  if (is_known(form(p, a)) && once_in(p, 2)) b = leaf(p, WEFT_F64, form(p, a)->rank, form(p, a)->dims);
  return ok(grow(p, kind, b < 0 ? 1 : 2, (int[]){ a, b }, 1, (int64_t[]){ b >= 0 }));
}
MAKE(host) {
  int a = pick(p, FLOAT | KNOWN);
  if (a < 0 || p->is_smooth) return false;
  int64_t q[PROGRAM_PARAMS] = { form(p, a)->rank };
  for (int k = 0; k < form(p, a)->rank; k++) q[k + 1] = form(p, a)->dims[k];
  return ok(grow(p, kind, 1, &a, 1 + form(p, a)->rank, q));
}

/* ---- the same value ---- */

BUILD(stop_gradient) { return weft_stop_gradient(in[0]); }
BUILD(assert) { return weft_assert(in[0], weft_eq(places_of(in[0]), places_of(in[0])), "as it must be"); }
BUILD(to) { return weft_to(in[0], 0); }
BUILD(alias) { return weft_alias(in[0]); }
BUILD(depends) { return weft_depends(in[0], 1, in + 1); }
MAKE(same) {
  int a = pick(p, 0), b = a < 0 ? -1 : pick(p, KNOWN);
  if (p->is_smooth && kind->one == build_stop_gradient) return false;
  return ok(grow(p, kind, kind->one == build_depends ? 2 : 1, (int[]){ a, b }, 0, NULL));
}
