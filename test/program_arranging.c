/* program_arranging.c -- steps of random programs that show, pick, update and join elements: how each is chosen and built. */
#include <stdlib.h>
#include <string.h>
#include "program_rows.h"

/* ---- views ---- */

BUILD(reshape) { return weft_reshape(in[0], (int)s->p[0], s->p + 1); }
BUILD(reshape_like) { return weft_reshape_like(in[0], in[1]); }
BUILD(broadcast) { return weft_broadcast(in[0], (int)s->p[0], s->p + 1); }
BUILD(broadcast_like) { return weft_broadcast_like(in[0], in[1]); }
BUILD(transpose) {
  int axes[PLAIN_RANK];
  for (int k = 0; k < PLAIN_RANK; k++) axes[k] = (int)s->p[k + 1];
  return weft_transpose(in[0], s->p[0] ? NULL : axes);
}
BUILD(moveaxis) { return weft_moveaxis(in[0], (int)s->p[0], (int)s->p[1]); }
BUILD(unsqueeze) { return weft_unsqueeze(in[0], (int)s->p[0]); }
BUILD(squeeze) { return weft_squeeze(in[0], (int)s->p[0]); }
BUILD(flatten) { return weft_flatten(in[0], (int)s->p[0], (int)s->p[1]); }
BUILD(as_strided) { return weft_as_strided(in[0], 2, s->p, s->p + 2, s->p[4]); }

MAKE(reshape) {
  int a = pick(p, KNOWN);
  if (a < 0) return false;
  int64_t n = count_of(form(p, a)), q[PROGRAM_PARAMS] = { 1, n };
  if (n > 1 && once_in(p, 2))
    for (int64_t d = 2; d < 8; d++) if (n % d == 0) { q[0] = 2, q[1] = d, q[2] = once_in(p, 2) ? WEFT_ANY : n / d; break; }
  if (form(p, a)->rank && once_in(p, 5)) { /* a leading SAME */
    q[0] = 2, q[1] = WEFT_SAME, q[2] = form(p, a)->dims[0] ? n / form(p, a)->dims[0] : 1;
  }
  return ok(grow(p, kind, 1, &a, 8, q));
}
MAKE(like) {
  int a = pick(p, KNOWN), b = a < 0 ? -1 : pick(p, KNOWN);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL));
}
MAKE(broadcast) {
  int a = pick(p, KNOWN);
  if (a < 0) return false;
  int more = (int)any(p, 2), rank = form(p, a)->rank + more;
  int64_t q[PROGRAM_PARAMS] = { rank };
  if (rank > 5) return false;
  for (int k = 0; k < rank; k++) {
    int64_t d = k < more ? 1 : form(p, a)->dims[k - more];
    q[k + 1] = d == 1 ? any_length(p) : once_in(p, 3) ? WEFT_SAME : d;
  }
  return ok(grow(p, kind, 1, &a, rank + 1, q));
}
MAKE(transpose) {
  int a = pick(p, RANK_1);
  if (a < 0) return false;
  int64_t q[PROGRAM_PARAMS] = { once_in(p, 2) };
  int rank = form(p, a)->rank;
  for (int k = 0; k < rank; k++) q[k + 1] = k;
  for (int k = rank - 1; k > 0; k--) {
    int j = (int)any(p, (uint32_t)k + 1);
    int64_t t = q[k + 1];
    q[k + 1] = q[j + 1], q[j + 1] = t;
  }
  return ok(grow(p, kind, 1, &a, rank + 1, q));
}
MAKE(two_axes) {
  int a = pick(p, RANK_1);
  if (a < 0) return false;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ signed_axis(p, a, any_axis(p, a)), any_axis(p, a) }));
}
MAKE(squeeze) { /* an axis of which only a run tells the length is taken to be of length 1: then the program would be an error */
  int a = pick(p, RANK_1), n = 0, ones[WEFT_RANK_MAX];
  for (int k = 0; a >= 0 && k < form(p, a)->rank; k++) if (form(p, a)->dims[k] == 1) ones[n++] = k;
  return n && ok(grow(p, kind, 1, &a, 1, (int64_t[]){ signed_axis(p, a, ones[any(p, (uint32_t)n)]) }));
}
MAKE(unsqueeze) {
  int a = pick(p, 0);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any(p, (uint32_t)form(p, a)->rank + 1) }));
}
MAKE(as_strided) {
  int a = pick(p, KNOWN | FULL);
  if (a < 0) return false;
  int64_t n = count_of(form(p, a)), d0 = 1 + any(p, 4), d1 = 1 + any(p, 4), s0 = (int64_t)any(p, 5) - 2, s1 = (int64_t)any(p, 5) - 2;
  int64_t low = (s0 < 0 ? s0 * (d0 - 1) : 0) + (s1 < 0 ? s1 * (d1 - 1) : 0), high = (s0 > 0 ? s0 * (d0 - 1) : 0) + (s1 > 0 ? s1 * (d1 - 1) : 0);
  if (high - low >= n) return false;
  return ok(grow(p, kind, 1, &a, 5, (int64_t[]){ d0, d1, s0, s1, (int64_t)any(p, (uint32_t)(n - (high - low))) - low }));
}

/* ---- indexing ---- */

BUILD(slice) { return weft_slice(in[0], (int)s->p[0], s->p[1], s->p[2], s->p[3]); }
BUILD(window) { return weft_window(in[0], (int)s->p[0], in[1], s->p[1]); }
BUILD(at) { return weft_at(in[0], (int)s->p[0], in[1]); }
BUILD(take) { return weft_take(in[0], s->n_in - 1, in + 1); }
BUILD(take_along) { return weft_take_along(in[0], (int)s->p[0], in[1]); }
BUILD(diagonal) { return weft_diagonal(in[0], s->p[0], (int)s->p[1], (int)s->p[2]); }

static void bounds(struct program *p, int64_t n, int64_t q[3]) { /* as in Python, cut where they do not fit */
  static const int steps[] = { 1, 1, 1, -1, -1, 2, -2, 3, -3 };
  int64_t step = n < 0 ? (once_in(p, 2) ? 1 : -1) : steps[any(p, COUNT(steps))];
  q[0] = (int64_t)any(p, (uint32_t)(n > 0 ? n : 1)), q[2] = step;
  q[1] = step > 0 ? (once_in(p, 2) ? WEFT_END : (int64_t)any(p, (uint32_t)n + 2)) : once_in(p, 2) ? WEFT_BEGIN : (int64_t)any(p, (uint32_t)q[0] + 1) - 1;
  if (step < 0 && q[1] == -1) q[1] = WEFT_BEGIN;
  if (step < 0 && once_in(p, 2)) q[0] = n > 0 ? n - 1 : -1;
  if (n < 0) q[0] = step > 0 ? 0 : -1, q[1] = step > 0 ? WEFT_END : WEFT_BEGIN;
}
MAKE(slice) {
  int a = pick(p, RANK_1);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t q[4] = { signed_axis(p, a, axis) };
  bounds(p, form(p, a)->dims[axis], q + 1);
  return ok(grow(p, kind, 1, &a, 4, q));
}
MAKE(window) {
  int a = pick(p, RANK_1 | FULL | KNOWN);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t n = form(p, a)->dims[axis], length = strcmp(kind->name, "weft_at") ? (int64_t)any(p, (uint32_t)n + 1) : 1;
  int i = index_leaf(p, 0, NULL, n - length + 1);
  int64_t at = plain_i(&p->step[i].value, 0);
  if (at < 0) plain_set_i(&p->step[i].value, 0, length && length < 100 ? at - (length - 1) : at + n - length + 1); /* i8 has room */
  return ok(grow(p, kind, 2, (int[]){ a, i }, 2, (int64_t[]){ axis, length }));
}
MAKE(take) {
  int a = pick(p, RANK_1 | FULL | KNOWN);
  if (a < 0) return false;
  int rank = (int)any(p, 3), n = 1 + (form(p, a)->rank > 1 && once_in(p, 3)), in[4] = { a };
  int64_t dims[2] = { 1 + any(p, 5), any_length(p) };
  if (dims[1] > 40) dims[1] = 2;
  for (int k = 0; k < n; k++) in[k + 1] = index_leaf(p, rank, dims, p->step[a].form.dims[k]);
  return ok(grow(p, kind, n + 1, in, 0, NULL));
}
MAKE(take_along) {
  int a = pick(p, RANK_1 | FULL | KNOWN | SMALL);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t dims[PLAIN_RANK], n = form(p, a)->dims[axis];
  for (int k = 0; k < form(p, a)->rank; k++) dims[k] = k == axis ? 1 + any(p, 4) : once_in(p, 4) ? 1 : form(p, a)->dims[k];
  int i = index_leaf(p, form(p, a)->rank, dims, n);
  return ok(grow(p, kind, 2, (int[]){ a, i }, 1, (int64_t[]){ axis }));
}
MAKE(diagonal) {
  int a = pick(p, RANK_2 | KNOWN);
  if (a < 0) return false;
  int one = any_axis(p, a), two = (one + 1) % form(p, a)->rank;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ (int64_t)any(p, 3) - 1, one, two }));
}

/* ---- updates: part by what reads it ---- */

enum { BY_SLICE, BY_TAKE, BY_AT, BY_WINDOW, BY_TRANSPOSE, BY_ALONG, BY_DIAGONAL, BY_KINDS };
static weft_array *part_of(weft_array *x, weft_array *const in[], const struct step *s) {
  switch (s->p[1]) {
    case BY_SLICE: return weft_slice(x, (int)s->p[2], s->p[3], s->p[4], s->p[5]);
    case BY_TAKE: return weft_take(x, 1, in + 2);
    case BY_AT: return weft_at(x, (int)s->p[2], in[2]);
    case BY_WINDOW: return weft_window(x, (int)s->p[2], in[2], s->p[3]);
    case BY_TRANSPOSE: return weft_slice(weft_transpose(x, NULL), 0, s->p[3], s->p[4], s->p[5]);
    case BY_ALONG: return weft_take_along(x, (int)s->p[2], in[2]);
    default: return weft_diagonal(x, 0, 0, 1);
  }
}
BUILD(put) { return weft_put(in[0], part_of(in[0], in, s), in[1], (weft_how)s->p[0]); }
MAKE(put) {
  int a = pick(p, RANK_1 | FULL | KNOWN | (p->is_smooth ? FLOAT | SMALL : SMALL)), by = (int)any(p, BY_KINDS), index = -1;
  if (a < 0 || (by == BY_DIAGONAL && form(p, a)->rank < 2)) return false;
  int axis = by == BY_TAKE ? 0 : any_axis(p, a);
  int64_t q[PROGRAM_PARAMS] = { any(p, p->is_smooth ? 2 : 5), by, axis }, n = form(p, a)->dims[axis];
  if (by == BY_SLICE) bounds(p, n, q + 3);
  if (by == BY_TRANSPOSE) bounds(p, form(p, a)->dims[form(p, a)->rank - 1], q + 3);
  if (by == BY_WINDOW) q[3] = 1;
  if (by == BY_AT || by == BY_WINDOW) index = index_leaf(p, 0, NULL, n);
  if (by == BY_TAKE) index = index_leaf(p, 1, (int64_t[]){ 1 + any(p, 5) }, n);
  if (by == BY_ALONG) {
    int64_t dims[PLAIN_RANK];
    for (int k = 0; k < form(p, a)->rank; k++) dims[k] = k == axis ? 1 + any(p, 3) : form(p, a)->dims[k];
    index = index_leaf(p, form(p, a)->rank, dims, n);
  }
  int v = once_in(p, 2) ? leaf(p, p->is_smooth ? WEFT_F64 : form(p, a)->dtype, 0, NULL) : pick(p, p->is_smooth ? FLOAT : REAL);
  return ok(grow(p, kind, index < 0 ? 2 : 3, (int[]){ a, v, index }, 8, q));
}

/* ---- joining ---- */

BUILD(concat) { return weft_concat((int)s->p[0], s->n_in, in); }
BUILD(stack) { return weft_stack((int)s->p[0], s->n_in, in); }
BUILD(split) {
  weft_array *part[4];
  weft_split(in[0], (int)s->p[0], (int)s->p[1], part);
  return part[s->p[2]];
}
BUILD(pad) { return weft_pad(in[0], (int)s->p[0], s->p[1], s->p[2], s->n_in > 1 ? in[1] : weft_integer(s->p[3])); }
BUILD(repeat) { return weft_repeat(in[0], (int)s->p[0], s->p[1]); }
BUILD(tile) { return weft_tile(in[0], 2, s->p); }
BUILD(roll) { return weft_roll(in[0], (int)s->p[0], s->p[1]); }
BUILD(diag) { return weft_diag(in[0], s->p[0]); }
BUILD(tril) { return weft_tril(in[0], s->p[0]); }
BUILD(triu) { return weft_triu(in[0], s->p[0]); }

BUILD(pad_with) { return weft_pad_with(in[0], (int)s->p[0], s->p[1], s->p[2], (weft_padding)s->p[3], NULL); }
BUILD(resize) { return weft_resize(in[0], (int)s->p[0], 0.5 * (double)s->p[1], (weft_resizing)s->p[2], (int)s->p[3]); }
MAKE(pad_with) {
  int a = pick(p, KNOWN | RANK_1 | FULL | SMALL | (p->is_smooth ? FLOAT : REAL));
  if (a < 0) return false;
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ any_axis(p, a), any(p, 4), any(p, 4), any(p, 8) }));
}
MAKE(resize) {
  int a = pick(p, KNOWN | RANK_1 | FULL | SMALL | (p->is_smooth ? FLOAT : REAL));
  if (a < 0) return false;
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ any_axis(p, a), 1 + any(p, 5), any(p, 3), any(p, 2) }));
}
BUILD(max_pool) {
  weft_pool_options how = { s->p, s->p + 2, s->p + 4, s->p + 4, NULL, 0 };
  return weft_max_pool(in[0], &how);
}
BUILD(mean_pool) {
  weft_pool_options how = { s->p, NULL, s->p + 4, s->p + 4, NULL, (int)s->p[6] };
  return weft_mean_pool(in[0], &how);
}
MAKE(pool) {
  int64_t dims[] = { 1 + any(p, 2), 3 + any(p, 4), 1 + any(p, 3) };
  int a = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 3, dims);
  return ok(grow(p, kind, 1, &a, 7, (int64_t[]){ 1 + any(p, 3), 1, 1 + any(p, 2), 1, any(p, 2), 0, any(p, 2) }));
}
BUILD(view) { return weft_view(in[0], (weft_dtype)s->p[0]); }
BUILD(to_f8) { return weft_to_f8(in[0], s->p[1] ? WEFT_E5M2 : WEFT_E4M3); }
BUILD(from_f8) { return weft_from_f8(in[0], s->p[1] ? WEFT_E5M2 : WEFT_E4M3, WEFT_F32); }
MAKE(view) { /* to as many bytes or fewer: they always fit. A nan has many patterns, so not of floats but for those of one's own */
  static const weft_dtype to[] = { WEFT_U8, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_I32 };
  int64_t dims[] = { 1 + any(p, 3), 2 * (1 + any(p, 3)) };
  bool is_pattern = kind->one == build_from_f8;
  int a = leaf(p, is_pattern ? WEFT_U8 : once_in(p, 2) ? WEFT_F32 : WEFT_U32, 2, dims);
  return !p->is_smooth && ok(grow(p, kind, 1, &a, 2, (int64_t[]){ to[any(p, COUNT(to))], any(p, 2) }));
}
BUILD(softmax_where) { return weft_softmax_where(in[0], in[1], (int)s->p[0]); }
BUILD(log_softmax_where) { return weft_log_softmax_where(in[0], in[1], (int)s->p[0]); }
BUILD(logsumexp_where) { return weft_logsumexp_where(in[0], in[1], (int)s->p[0]); }
MAKE(where_counts) {
  int a = pick(p, KNOWN | FLOAT | RANK_1 | SMALL);
  if (a < 0 || p->is_smooth) return false;
  int mask = leaf(p, WEFT_BOOL, form(p, a)->rank, p->step[a].form.dims);
  return ok(grow(p, kind, 2, (int[]){ a, mask }, 1, (int64_t[]){ any_axis(p, a) }));
}
BUILD(rope) {
  weft_rope_options how = { .neighbours = (int)s->p[0], .base = 100, .offset = weft_integer(s->p[1]) };
  return weft_rope(in[0], &how);
}
MAKE(rope) {
  int64_t dims[] = { 1 + any(p, 2), 1 + any(p, 4), 2 + 2 * any(p, 3) };
  int a = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 3, dims);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any(p, 2), any(p, 3) }));
}
BUILD(inner) { return weft_inner(in[0], in[1]); }
BUILD(outer) { return weft_outer(in[0], in[1]); }
BUILD(addmm) { return weft_addmm(in[1], weft_outer(in[0], in[0]), weft_outer(in[0], in[1]), 0.5, 2); }
BUILD(matrix_power) { return weft_matrix_power(in[2], s->p[0]); }
BUILD(hadamard) { return weft_hadamard(in[2], s->p[0] ? 0.5 : 0); }
BUILD(fft) { /* p[0]: of x + i x backwards; p[2]: complex as it is */
  weft_array *y = weft_fft(s->p[0] ? weft_complex(in[0], weft_flip(in[0], -1)) : in[0], (int)s->p[1], 0.5);
  return s->p[2] ? y : weft_sub(weft_real(y), weft_imag(y));
}
MAKE(fft) {
  enum { LONGEST = 300 };
  int a = pick(p, KNOWN | RANK_1 | FULL | (p->is_smooth ? FLOAT : 0));
  bool is_real = a >= 0 && !plain_is_complex(form(p, a)->dtype);
  if (a < 0 || form(p, a)->dims[form(p, a)->rank - 1] > LONGEST) return false;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ is_real && once_in(p, 2), any(p, 2), !p->is_smooth && once_in(p, 2) }));
}
BUILD(irfft) { /* p[0]: of how many; p[1]: of x + i x backwards */
  return weft_irfft(s->p[1] ? weft_complex(in[0], weft_flip(in[0], -1)) : in[0], s->p[0], 0.5);
}
MAKE(irfft) {
  enum { LONGEST = 150 };
  int a = pick(p, KNOWN | RANK_1 | FULL | (p->is_smooth ? FLOAT : 0));
  int64_t m = a < 0 ? 0 : form(p, a)->dims[form(p, a)->rank - 1];
  if (m < 1 || m > LONGEST) return false;
  bool is_real = !plain_is_complex(form(p, a)->dtype), is_odd = m == 1 || once_in(p, 2);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ 2 * m - 2 + is_odd, is_real && once_in(p, 2) }));
}
BUILD(gather_mm) { return weft_gather_mm(in[2], in[2], weft_full(WEFT_I32, WEFT_DIMS(2), 0), NULL); }
BUILD(block_masked_mm) { return weft_block_masked_mm(in[2], in[2], 2, NULL, weft_full(WEFT_BOOL, WEFT_DIMS(1, 1), (double)s->p[0]), NULL); }
BUILD(segmented_mm) { return weft_segmented_mm(in[2], in[2], weft_from(WEFT_I32, WEFT_DIMS(2, 2), (int32_t[]){ 0, 1, (int32_t)(s->p[0] & 1), 2 })); }
MAKE(small_product) { /* two vectors of the same length, and a matrix */
  weft_dtype t = p->is_smooth ? WEFT_F64 : WEFT_F32;
  int64_t n = 1 + any(p, 5);
  int a = leaf(p, t, 1, &n), b = leaf(p, t, 1, &n), c = leaf(p, t, 2, (int64_t[]){ 2, 2 });
  return ok(grow(p, kind, 3, (int[]){ a, b, c }, 1, (int64_t[]){ any(p, 4) }));
}
BUILD(rot90) { return weft_rot90(in[0], s->p[0], (int)s->p[1], (int)s->p[2]); }
BUILD(meshgrid) {
  weft_array *y[2];
  weft_meshgrid(2, in, (int)s->p[0], y);
  return y[s->p[1]];
}
BUILD(kron) { return weft_kron(in[0], in[1]); }
MAKE(rot90) {
  int a = pick(p, RANK_2);
  if (a < 0) return false;
  int one = any_axis(p, a), two = (one + 1) % form(p, a)->rank;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ (int64_t)any(p, 9) - 4, one, two }));
}
MAKE(kron) { /* all pairs of elements */
  int a = pick(p, KNOWN | SMALL | (p->is_smooth ? FLOAT : 0)), b = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 1, (int64_t[]){ 1 + any(p, 4) });
  if (a < 0 || count_of(form(p, a)) > 400) return false;
  return ok(grow(p, kind, 2, (int[]){ a, b }, 2, (int64_t[]){ any(p, 2), any(p, 2) }));
}
MAKE(join) {
  int a = pick(p, KNOWN), n = 1 + (int)any(p, 3), in[3] = { a, a, a };
  if (a < 0) return false;
  for (int k = 1; k < n; k++) { int b = pick(p, KNOWN); if (b >= 0 && form(p, b)->rank == form(p, a)->rank && once_in(p, 2)) in[k] = b; }
  return ok(grow(p, kind, n, in, 1, (int64_t[]){ any(p, (uint32_t)form(p, a)->rank + (kind->one == build_stack)) }));
}
MAKE(split) {
  int a = pick(p, KNOWN | RANK_1);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t n = form(p, a)->dims[axis] % 3 == 0 ? 3 : form(p, a)->dims[axis] % 2 == 0 ? 2 : 1;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ axis, n, any(p, (uint32_t)n) }));
}
MAKE(pad) {
  int a = pick(p, KNOWN | RANK_1), n = 1 + (int)any(p, 2);
  if (a < 0) return false;
  int v = leaf(p, form(p, a)->dtype, 0, NULL);
  return ok(grow(p, kind, n, (int[]){ a, v }, 4, (int64_t[]){ any_axis(p, a), any(p, 4), any(p, 4), any(p, 3) }));
}
MAKE(by_number) {
  int a = pick(p, KNOWN | RANK_1 | SMALL);
  if (a < 0) return false;
  bool is_roll = kind->one == build_roll;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any_axis(p, a), is_roll ? (int64_t)any(p, 9) - 4 : (int64_t)any(p, 4) }));
}
MAKE(tile) {
  int a = pick(p, KNOWN | SMALL);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ 1 + any(p, 2), any(p, 3) }));
}
MAKE(diag) {
  int a = pick(p, KNOWN | RANK_1 | SMALL);
  return ok(grow(p, kind, 1, &a, 1, (int64_t[]){ (int64_t)any(p, 5) - 2 }));
}
