/* quantize.c -- weights of few bits, as weft.h says: from floats to codes, and back.
 *
 * Quantising is composed of elementwise operations, in the dtype of w and in the order of MLX, so that codes, scales and biases
 * are the same to the bit. What codes stand for is a library step (codes.h): rows of 4 to 16 codes a word, or codes that cross
 * words, are loops too short for kernels. Derivatives by scales and biases are composed. */
#include <string.h>
#include "op/later.h"
#include "op/quantize.h"

/* ---- forms ---- */

static const struct { const char *name; int group, bits; } modes[] = {
  [WEFT_CODES_AFFINE] = { "affine", 64, 4 }, [WEFT_CODES_MXFP4] = { "mxfp4", 32, 4 },
  [WEFT_CODES_MXFP8] = { "mxfp8", 32, 8 }, [WEFT_CODES_NVFP4] = { "nvfp4", 16, 4 },
};

static struct failure *affine_check(const char *fn, int64_t group, int64_t bits) {
  if (bits < 2 || bits > 8 || bits == 7)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: codes of %lld bits; 2, 3, 4, 5, 6 and 8 are possible", fn, (long long)bits);
  if (group != 32 && group != 64 && group != 128)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: groups of %lld; 32, 64 and 128 are possible", fn, (long long)group);
  return NULL;
}

/* With global: the global scale, if there is one; a function that takes none passes NULL. */
static struct failure *form_check(const char *fn, const weft_code_form *f, struct code_attr *a, weft_array **global) {
  weft_code_form none = { 0 };
  if (!f) f = &none;
  if ((unsigned)f->mode > WEFT_CODES_NVFP4) return fail(WEFT_ERR_ARG, scope_origin(), "%s: there is no mode %d", fn, (int)f->mode);
  *a = (struct code_attr){ .mode = f->mode, .group = f->group ? f->group : modes[f->mode].group,
                           .bits = f->bits ? f->bits : modes[f->mode].bits };
  if (f->global_scale && (!global || f->mode != WEFT_CODES_NVFP4))
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: a global scale%s%s", fn, global ? ", in mode " : "",
                global ? modes[f->mode].name : "");
  if (f->global_scale && (weft_rank(f->global_scale) || weft_dtype_of(f->global_scale) != WEFT_F32))
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: the global scale is one number, f32", fn);
  if (global) *global = f->global_scale;
  if (code_is_whole(a)) return affine_check(fn, a->group, a->bits);
  if (a->group == modes[f->mode].group && a->bits == modes[f->mode].bits) return NULL;
  return fail(WEFT_ERR_ARG, scope_origin(), "%s: %s has groups of %d and %d bits, not %lld and %lld", fn, modes[f->mode].name,
              modes[f->mode].group, modes[f->mode].bits, (long long)a->group, (long long)a->bits);
}

static weft_array *word(uint32_t x) { return array_of(scalar_node(WEFT_U32, x, false)); }

/* ---- from floats to codes ---- */

/* x with the last axis, of which each part is so long, as two. A shape that does not divide: NULL, and *why. A bad one: itself. */
static weft_array *split_last(const char *fn, weft_array *x, int64_t each, struct failure **why) {
  struct node *n = array_good_node(x);
  struct shape_text s;
  dim dims[WEFT_RANK_MAX + 1], parts = 0;
  *why = NULL;
  if (!n) return x;
  if (n->rank < 1 || n->rank >= WEFT_RANK_MAX || !dim_divide(n->dims[n->rank - 1], each, &parts))
    *why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the last axis of %s in parts of %lld", fn, shape_show(n, &s), (long long)each);
  for (int k = 0; k < n->rank - 1; k++) dims[k] = n->dims[k];
  dims[n->rank > 0 ? n->rank - 1 : 0] = parts, dims[n->rank] = each;
  weft_array *y = *why ? NULL : array_reshape(fn, x, n->rank + 1, dims);
  node_release(n);
  return y;
}

/* The last two axes as one. */
static weft_array *join_last(weft_array *x) { return weft_flatten(x, -2, -1); }

/* 0, 1 .. n - 1, u32. */
static weft_array *counting(int64_t n) { return weft_iota(weft_full(WEFT_U32, 1, &n, 0), 0); }

/* Codes that do not cross words: each is shifted to its place. Others are spread to single bits, which do not. */
static weft_array *packed(const char *fn, weft_array *codes, int64_t bits, struct failure **why) {
  bool is_crossing = 32 % bits != 0;
  weft_array *each = codes;
  if (is_crossing) each = join_last(weft_and(weft_shr(weft_unsqueeze(codes, -1), counting(bits)), word(1)));
  int64_t width = is_crossing ? 1 : bits;
  weft_array *parts = split_last(fn, each, 32 / width, why);
  return parts ? weft_squeeze(weft_sum(weft_shl(parts, weft_mul(counting(32 / width), word((uint32_t)width))), -1), -1) : NULL;
}

/* The end of the range that is further from 0 is a code exactly: s = edge / q0 with q0 whole, b = edge. */
static void ranged(weft_array *w, int64_t bits, weft_array **scale, weft_array **bias) {
  weft_array *high = weft_max(w, -1), *low = weft_min(w, -1), *zero = number_like(w, 0), *most = number_like(w, (1 << bits) - 1);
  weft_array *is_low = weft_gt(weft_abs(low), weft_abs(high)), *edge = weft_where(is_low, low, high);
  weft_array *size = weft_maximum(weft_div(weft_sub(high, low), most), number_like(w, 1e-7f));
  weft_array *s = weft_where(is_low, size, weft_neg(size)), *code = weft_round(weft_div(edge, s)), *is_0 = weft_eq(code, zero);
  *scale = weft_where(is_0, s, weft_div(edge, weft_where(is_0, number_like(w, 1), code)));
  *bias = weft_where(is_0, zero, edge);
}

/* groups [.., n / group, group] to codes of that shape, u32; scales and biases [.., n / group, 1]. Codes come from scales that are
 * not rounded to the dtype of w. */
static weft_array *affine_codes(weft_array *groups, int64_t bits, weft_array **scale, weft_array **bias) {
  weft_array *wide = weft_cast(groups, WEFT_F32), *s, *b;
  ranged(wide, bits, &s, &b);
  weft_array *code = weft_round(weft_div(weft_sub(wide, b), s)), *zero = number_like(wide, 0);
  code = weft_minimum(weft_maximum(code, zero), number_like(wide, (1 << bits) - 1));
  *scale = weft_cast(s, weft_dtype_of(groups)), *bias = weft_cast(b, weft_dtype_of(groups));
  return weft_cast(weft_stop_gradient(code), WEFT_U32);
}

/* The nearest of the eight sizes, the smaller of two that are as near, and the sign where it is not 0. */
static weft_array *fp4_codes(weft_array *x) {
  static const float sizes[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
  weft_array *size = weft_abs(x), *far = size, *code = weft_cast(weft_full_like(x, 0), WEFT_U32);
  for (int k = 1; k < 8; k++) {
    weft_array *next = weft_abs(weft_sub(size, number_like(size, (double)sizes[k])));
    code = weft_add(code, weft_cast(weft_lt(next, far), WEFT_U32));
    far = next;
  }
  weft_array *is_negative = weft_and(weft_lt(x, number_like(x, 0)), weft_gt(code, word(0)));
  return weft_where(is_negative, weft_add(code, word(8)), code);
}

/* Beyond 448, and of nan, it is 448. */
static weft_array *e4m3_of(weft_array *x) {
  weft_array *most = weft_where(weft_lt(x, number_like(x, 0)), number_like(x, -448), number_like(x, 448));
  return weft_to_f8(weft_where(weft_lt(weft_abs(x), number_like(x, 448)), x, most), WEFT_E4M3);
}

/* Codes of small floats, and scales u8: powers of two no number is above 6 or 448 of, or e4m3 floats. */
static weft_array *float_codes(weft_array *groups, const struct code_attr *a, weft_array *global, weft_array **scale) {
  bool is_fp4 = a->bits == 4;
  bool is_nvfp4 = a->mode == WEFT_CODES_NVFP4;
  weft_array *w = weft_stop_gradient(groups), *ratio;
  weft_array *size = weft_div(weft_max(weft_abs(w), -1), number_like(w, is_fp4 ? 6 : 448));
  if (is_nvfp4) {
    weft_array *one = array_of(number_node(WEFT_F32, 1, 0));
    weft_array *up = global ? weft_div(array_of(number_node(WEFT_F32, 448 * 6, 0)), weft_stop_gradient(global)) : one;
    *scale = e4m3_of(weft_mul(size, up));
    ratio = weft_mul(weft_div(w, weft_from_f8(*scale, WEFT_E4M3, weft_dtype_of(w))), up);
  } else {
    size = weft_cast(size, WEFT_F32);
    weft_array *zero = number_like(size, 0), *power = weft_where(weft_eq(size, zero), zero, weft_ceil(weft_log2(size)));
    *scale = weft_cast(weft_add(weft_cast(power, WEFT_I32), weft_integer(127)), WEFT_U8);
    ratio = weft_div(w, weft_cast(weft_exp2(power), weft_dtype_of(w)));
  }
  return is_fp4 ? fp4_codes(ratio) : weft_cast(e4m3_of(ratio), WEFT_U32);
}

/* ---- Of rows whose length is not known yet: each result is written later ---- */

struct quantize_options { weft_code_form form; int which; };

static weft_array *write_codes(const void *options, weft_array *const in[]) {
  struct quantize_options o = *(const struct quantize_options *)options;
  weft_array *out[3];
  if (o.form.global_scale) o.form.global_scale = in[1];
  weft_quantize(in[0], &o.form, &out[0], &out[1], &out[2]);
  return out[o.which];
}

static void quantized_later(weft_array *w, const weft_code_form *form, const struct code_attr *a, weft_array *out[3]) {
  struct quantize_options o;
  memset(&o, 0, sizeof o);
  if (form) o.form = *form;
  const struct node *n = w->node;
  dim dims[WEFT_RANK_MAX];
  memcpy(dims, n->dims, n->rank * sizeof *dims);
  weft_dtype scale = code_is_whole(a) ? (weft_dtype)n->dtype : WEFT_U8;
  for (o.which = 0; o.which < 2 + code_is_whole(a); o.which++) {
    dim groups = dim_quotient(n->dims[n->rank - 1], a->group);
    dims[n->rank - 1] = o.which ? groups : dim_mul(groups, a->group * a->bits / 32);
    out[o.which] = array_later(write_codes, &o, sizeof o, o.form.global_scale ? 2 : 1, (weft_array *[]){ w, o.form.global_scale },
                               o.which ? scale : WEFT_U32, n->rank, dims);
  }
}

static struct failure *quantized(weft_array *w, const weft_code_form *form, weft_array *out[3]) {
  static const char fn[] = "weft_quantize";
  struct code_attr a;
  dim parts;
  weft_array *global = NULL, *s = NULL, *b = NULL, *code;
  struct failure *why = form_check(fn, form, &a, &global);
  if (!why && !dtype_is_float(weft_dtype_of(w))) why = not_of(fn, weft_dtype_of(w));
  if (why) return why;
  if (weft_rank(w) < 0) return out[0] = out[1] = out[2] = w, NULL;
  const struct node *n = w->node;
  if (n->rank > 0 && !dim_divide(n->dims[n->rank - 1], a.group, &parts) && !dim_is_known(dim_resolve(n->dims[n->rank - 1])))
    return quantized_later(w, form, &a, out), NULL;
  weft_array *groups = split_last(fn, w, a.group, &why);
  if (!groups) return why;
  code = code_is_whole(&a) ? affine_codes(groups, a.bits, &s, &b) : float_codes(groups, &a, global, &s);
  code = join_last(code);
  out[0] = packed(fn, code, a.bits, &why);
  out[1] = weft_squeeze(s, -1), out[2] = b ? weft_squeeze(b, -1) : NULL;
  return why;
}

void weft_quantize(weft_array *w, const weft_code_form *form, weft_array **words, weft_array **scales, weft_array **biases) {
  weft_array *bad, *out[3] = { NULL, NULL, NULL }, *given[] = { w, form && form->global_scale ? form->global_scale : w };
  struct failure *why = NULL;
  if (!has_places("weft_quantize", 2, (weft_array **[]){ words, scales })) return;
  if (arrays_ok("weft_quantize", 2, given, &bad)) why = quantized(w, form, out);
  else out[0] = out[1] = out[2] = bad;
  if (why) out[0] = out[1] = out[2] = array_failed(why);
  *words = out[0], *scales = out[1];
  if (biases) *biases = out[2];
}

/* ---- the step: in words[.., n bits / 32], scales and biases [.., n / group]; out w[.., n], f64 if scales are, else f32 ---- */

static enum code_scale scale_of(weft_dtype t, const struct code_attr *a) {
  return t == WEFT_F32 ? SCALE_F32 : t == WEFT_F16 ? SCALE_F16 : t == WEFT_BF16 ? SCALE_BF16
       : a->mode == WEFT_CODES_NVFP4 ? SCALE_E4M3 : SCALE_E8M0;
}

struct codes codes_of_call(const struct library_call *c, const struct code_attr *a, int first, int64_t i) {
  const struct library_array *w = &c->in[first], *s = w + 1, *b = w + 2;
  struct codes x = { .kind = code_is_whole(a) ? CODE_WHOLE : a->bits == 4 ? CODE_FP4 : CODE_FP8, .bits = (int)a->bits,
                     .group = (int)a->group, .rows = w->rank > 1 ? w->dims[w->rank - 2] : 1, .n = s->dims[s->rank - 1] * a->group,
                     .words = (const void *)(w->data + i * w->each), .scales = s->data + i * s->each,
                     .scale = scale_of(s->dtype, a) };
  if (code_is_whole(a)) x.biases = b->data + i * b->each, x.bias = scale_of(b->dtype, a);
  return x;
}

/* f64: q s + b of whole numbers. */
static void wide_row(const struct library_call *c, const struct code_attr *a, int64_t row, int64_t n) {
  const uint32_t *word = (const void *)(c->in[0].data + row * c->in[0].each);
  const double *s = (const void *)(c->in[1].data + row * c->in[1].each), *b = (const void *)(c->in[2].data + row * c->in[2].each);
  double *w = (void *)(c->out[0].data + row * c->out[0].each);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i * a->bits, shift = at % 32;
    uint64_t some = word[at / 32] >> shift;
    if (shift + a->bits > 32) some |= (uint64_t)word[at / 32 + 1] << (32 - shift);
    w[i] = (double)(some & ((1u << a->bits) - 1)) * s[i / a->group] + b[i / a->group];
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  const struct code_attr *a = c->attr;
  int64_t n = c->out[0].dims[c->out[0].rank - 1];
  (void)scratch;
  for (int64_t row = from; row < to; row++) {
    if (c->out[0].dtype == WEFT_F64) { wide_row(c, a, row, n); continue; }
    struct codes w = codes_of_call(c, a, 0, row);
    w.rows = 1; /* a problem is a row: nothing of this matrix is behind it */
    codes_row(&w, 0, (void *)(c->out[0].data + row * c->out[0].each));
  }
  return NULL;
}

static double operations(const struct library_call *c) {
  double n = 3;
  for (int k = 0; k < c->out[0].rank; k++) n *= (double)c->out[0].dims[k];
  return n;
}

void code_numbers(const struct library_call *c, int64_t number[]) {
  const struct code_attr *a = c->attr;
  number[0] = a->group, number[1] = a->bits, number[2] = a->mode, number[3] = a->is_transposed, number[4] = a->is_gathered;
}

static const struct library steps = { .core = 1, .operations = operations, .run = run, .routine = "dequantize",
                                      .numbers = code_numbers };

static int n_results(const struct node *n) { return (void)n, 1; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *s = n->in[1];
  (void)k;
  *rank = s->rank;
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  dims[s->rank - 1] = dim_mul(s->dims[s->rank - 1], ((const struct code_attr *)n->attr)->group);
  return s->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

static weft_array *stepped(weft_array *const in[], const struct code_attr *a) {
  return library_one(&op_dequantize, code_operands(a), in, a, sizeof *a, 1, 0);
}

/* By s: dw q, by b: dw, summed over groups. q: with scales that are 1 and no biases. */
void codes_vjp(const struct code_attr *a, weft_array *const in[], weft_array *by_w, const bool is_wanted[], weft_array *dx[]) {
  struct failure *why;
  if (!code_is_whole(a) || (!is_wanted[1] && !is_wanted[2])) return; /* scales in u8 have no derivative */
  weft_array *dw = split_last("weft_dequantize", by_w, a->group, &why), *bad = dw ? NULL : array_failed(why);
  if (is_wanted[1] && !bad) {
    weft_array *q = stepped((weft_array *[]){ in[0], weft_full_like(in[1], 1), weft_full_like(in[2], 0) }, a);
    weft_array *codes = split_last("weft_dequantize", q, a->group, &why);
    if (!codes) bad = array_failed(why);
    else dx[1] = weft_cast(weft_squeeze(weft_sum(weft_mul(dw, codes), -1), -1), weft_dtype_of(in[1]));
  }
  if (is_wanted[2] && !bad) dx[2] = weft_cast(weft_squeeze(weft_sum(dw, -1), -1), weft_dtype_of(in[2]));
  for (int k = 1; bad && k < 3; k++) if (is_wanted[k]) dx[k] = bad;
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (dy[0]) codes_vjp(r->node->attr, r->in, dy[0], is_wanted, dx);
}

/* Codes times scales plus biases is linear in both, and codes have no tangent. */
static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  const struct code_attr *a = r->node->attr;
  if (!code_is_whole(a) || (!dx[1] && !dx[2])) return;
  weft_array *s = dx[1] ? dx[1] : weft_full_like(r->in[1], 0), *b = dx[2] ? dx[2] : weft_full_like(r->in[2], 0);
  dy[0] = stepped((weft_array *[]){ r->in[0], s, b }, a);
}

static const struct many results = { n_results, type, vjp, jvp, library_batch };
const struct op op_dequantize = { .name = "dequantize", .kind = OP_LIBRARY, .again = library_again,
                                  .many = &results, .library = &steps };

/* ---- and back ---- */

/* A scale or a bias for every group of words, and none that stretches. */
static struct failure *groups_check(const char *fn, const struct node *words, const struct node *each, const struct code_attr *a) {
  struct shape_text s, t;
  int last = words->rank - 1;
  bool ok = last >= 0 && each->rank == words->rank;
  for (int k = 0; ok && k < last; k++) ok = sizes_meet(fn, each->dims[k], words->dims[k]);
  if (ok) ok = sizes_meet(fn, dim_mul(each->dims[last], a->group * a->bits / 32), words->dims[last]);
  if (ok) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: words %s with scales or biases %s, of groups of %lld with %lld bits", fn,
              shape_show(words, &s), shape_show(each, &t), (long long)a->group, (long long)a->bits);
}

static struct failure *dtypes_check(const char *fn, const struct coded *c) {
  if (weft_dtype_of(c->words) != WEFT_U32)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: words are u32, not %s", fn, weft_dtype_name(weft_dtype_of(c->words)));
  weft_dtype s = weft_dtype_of(c->scales), b = c->biases ? weft_dtype_of(c->biases) : s;
  bool is_right = code_is_whole(&c->a) ? dtype_is_float(s) && dtype_is_float(b) : s == WEFT_U8;
  if (!is_right)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: scales of mode %s are %s, not %s", fn, modes[c->a.mode].name,
                code_is_whole(&c->a) ? "floats, and so are biases" : "u8",
                weft_dtype_name(code_is_whole(&c->a) && dtype_is_float(s) ? b : s));
  if (code_is_whole(&c->a) != !!c->biases)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: mode %s has %s biases", fn, modes[c->a.mode].name,
                c->biases ? "no" : "scales and");
  return NULL;
}

static struct failure *coded_global(const char *fn, weft_array *words, weft_array *scales, weft_array *biases,
                                    const weft_code_form *f, struct coded *c, weft_array **global) {
  struct failure *why = form_check(fn, f, &c->a, global);
  c->words = words, c->scales = scales, c->biases = biases;
  if (!why) why = dtypes_check(fn, c);
  if (why) return why;
  struct node *w = array_node(words), *s = array_node(scales), *b = biases ? array_node(biases) : NULL;
  why = groups_check(fn, w, s, &c->a);
  if (!why && b) why = groups_check(fn, w, b, &c->a);
  for (int k = 0; !why && k < w->rank; k++) {
    int64_t words_each = k < w->rank - 1 ? 1 : c->a.group * c->a.bits / 32;
    c->words = array_with_size(c->words, k, dim_mul(s->dims[k], words_each));
    if (b) c->biases = array_with_size(c->biases, k, s->dims[k]);
  }
  node_release(w), node_release(s), node_release(b);
  return why;
}

struct failure *coded_of(const char *fn, weft_array *words, weft_array *scales, weft_array *biases, const weft_code_form *f,
                         struct coded *c) {
  return coded_global(fn, words, scales, biases, f, c, NULL);
}

dim coded_length(const struct coded *c) {
  const struct node *s = c->scales->node;
  return dim_mul(s->dims[s->rank - 1], c->a.group);
}

weft_array *coded_values(const struct coded *c, weft_dtype as) {
  bool is_wide = as == WEFT_F64 && code_is_whole(&c->a);
  weft_array *in[] = { c->words, is_wide ? weft_cast(c->scales, WEFT_F64) : c->scales,
                       is_wide ? weft_cast(c->biases, WEFT_F64) : c->biases };
  return weft_cast(stepped(in, &c->a), as);
}

static weft_array *dequantized(weft_array *words, weft_array *scales, weft_array *biases, const weft_code_form *form,
                               weft_dtype as) {
  static const char fn[] = "weft_dequantize";
  struct coded c;
  weft_array *global = NULL;
  struct failure *why = coded_global(fn, words, scales, biases, form, &c, &global);
  if (!why && !dtype_is_float(as)) why = not_of(fn, as);
  if (why) return array_failed(why);
  if (global) /* scales that are f32, with the global one in them */
    c.scales = weft_mul(weft_from_f8(scales, WEFT_E4M3, WEFT_F32), weft_div(global, array_of(number_node(WEFT_F32, 448 * 6, 0))));
  bool is_wide = code_is_whole(&c.a) && (weft_dtype_of(scales) == WEFT_F64 || weft_dtype_of(biases) == WEFT_F64);
  return weft_cast(coded_values(&c, is_wide ? WEFT_F64 : WEFT_F32), as);
}

weft_array *weft_dequantize(weft_array *words, weft_array *scales, weft_array *biases, const weft_code_form *form, weft_dtype as) {
  weft_array *bad, *given[] = { words, scales, biases ? biases : words, form && form->global_scale ? form->global_scale : words };
  if (!arrays_ok("weft_dequantize", 4, given, &bad)) return bad;
  return COMPOSED(dequantized(words, scales, biases, form, as));
}
