/* quantize.c -- weights of few bits: w = s q + b, where q has 2 to 8 bits and every group of 32, 64 or 128 neighbours along the
 * last axis has a scale s and a bias b of its own.
 *
 * The codes q stand one after the other in words of 32 bits, the first in the lowest bits: MLX's layout. They are packed by
 * elementwise operations. Unpacking is a library step: rows of 4 to 16 codes a word, or codes that cross words, are loops too
 * short for kernels. So is the product of few rows with codes: they are read once and unpacked in registers. Derivatives by x, s
 * and b are composed. */
#include <string.h>
#include "op/codes.h"
#include "op/composed.h"

/* ---- what it gets ---- */

static struct failure *form_check(const char *fn, int group, int bits) {
  if (bits < 2 || bits > 8 || bits == 7)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: codes of %d bits; 2, 3, 4, 5, 6 and 8 are possible", fn, bits);
  if (group != 32 && group != 64 && group != 128)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: groups of %d; 32, 64 and 128 are possible", fn, group);
  return NULL;
}

/* x with the last axis, of which each part is so long, as two. A shape that does not divide: NULL, and *why. */
static weft_array *split_last(const char *fn, weft_array *x, int64_t each, struct failure **why) {
  struct node *n = array_node(x);
  struct shape_text s;
  dim dims[WEFT_RANK_MAX + 1], parts = 0;
  *why = NULL;
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
static weft_array *word(uint32_t x) { return array_of(scalar_node(WEFT_U32, x, false)); }

/* ---- codes and words ---- */

/* Codes that do not cross words: each is shifted to its place. Others are spread to single bits, which do not. */
static weft_array *packed(const char *fn, weft_array *codes, int bits, struct failure **why) {
  bool is_crossing = 32 % bits != 0;
  weft_array *each = codes;
  if (is_crossing) {
    weft_array *bit = weft_and(weft_shr(weft_unsqueeze(codes, -1), counting(bits)), word(1));
    each = join_last(bit);
  }
  int width = is_crossing ? 1 : bits;
  weft_array *parts = split_last(fn, each, 32 / width, why);
  return parts ? weft_squeeze(weft_sum(weft_shl(parts, weft_mul(counting(32 / width), word((uint32_t)width))), -1), -1) : NULL;
}

/* Words [.., w] to codes [.., i, j], so many in a row that those of a group are whole rows. Code i of 32 begins at bit i bits of
 * their words, and may go on in the next; what else is there lies above its bits. */
static weft_array *crossing(const char *fn, weft_array *words, int bits, struct failure **why) {
  weft_array *some = split_last(fn, words, bits, why);
  if (!some) return NULL;
  weft_array *from = weft_mul(counting(32), word((uint32_t)bits)), *first = weft_shr(from, word(5));
  weft_array *shift = weft_and(from, word(31)), *second = weft_minimum(weft_add(first, word(1)), word((uint32_t)bits - 1));
  while (weft_rank(first) < weft_rank(some)) first = weft_unsqueeze(first, 0), second = weft_unsqueeze(second, 0);
  weft_array *low = weft_shr(weft_take_along(some, -1, first), shift);
  weft_array *high = weft_shl(weft_take_along(some, -1, second), weft_sub(word(32), shift));
  return weft_and(weft_or(low, high), word((1u << bits) - 1));
}

static weft_array *unpacked(const char *fn, weft_array *words, int bits, struct failure **why) {
  if (32 % bits) return crossing(fn, words, bits, why);
  weft_array *shift = weft_mul(counting(32 / bits), word((uint32_t)bits));
  return weft_and(weft_shr(weft_unsqueeze(words, -1), shift), word((1u << bits) - 1));
}

/* ---- the step: in words[.., n bits / 32], s and b [.., n / group], of f32 or f64; out w[.., n] ---- */

struct codes_attr { int64_t group, bits; };

/* n codes, a multiple of 32. */
static inline __attribute__((always_inline)) void codes_of(const uint32_t *word, int bits, int64_t n, float *q) {
  int per = 32 / bits;
  if (32 % bits == 0) {
    for (int64_t i = 0; i < n; i += per, word++)
      for (int j = 0; j < per; j++) q[i + j] = (float)(*word >> (j * bits) & ((1u << bits) - 1));
    return;
  }
  uint64_t some = 0;
  for (int64_t i = 0, left = 0; i < n; i++, some >>= bits, left -= bits) {
    if (left < bits) some |= (uint64_t)*word++ << left, left += 32;
    q[i] = (float)(some & ((1u << bits) - 1));
  }
}

static void unpack_codes(const uint32_t *word, int bits, int64_t n, float *q) {
  switch (bits) {
    case 2: codes_of(word, 2, n, q); break;
    case 3: codes_of(word, 3, n, q); break;
    case 4: codes_of(word, 4, n, q); break;
    case 5: codes_of(word, 5, n, q); break;
    case 6: codes_of(word, 6, n, q); break;
    default: codes_of(word, 8, n, q); break;
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  const struct codes_attr *a = c->attr;
  int64_t n = c->out[0].dims[c->out[0].rank - 1], group = a->group;
  (void)scratch;
  for (int64_t row = from; row < to; row++) {
    const uint32_t *word = (const void *)(c->in[0].data + row * c->in[0].each);
    const void *s = c->in[1].data + row * c->in[1].each, *b = c->in[2].data + row * c->in[2].each;
    void *w = c->out[0].data + row * c->out[0].each;
    for (int64_t g = 0; g < n / group; g++, word += group * a->bits / 32) {
      float code[128];
      unpack_codes(word, (int)a->bits, group, code);
      if (c->out[0].dtype == WEFT_F32) {
        float scale = ((const float *)s)[g], bias = ((const float *)b)[g], *to_w = (float *)w + g * group;
        for (int64_t i = 0; i < group; i++) to_w[i] = code[i] * scale + bias;
      } else {
        double scale = ((const double *)s)[g], bias = ((const double *)b)[g], *to_w = (double *)w + g * group;
        for (int64_t i = 0; i < group; i++) to_w[i] = (double)code[i] * scale + bias;
      }
    }
  }
  return NULL;
}

static double operations(const struct library_call *c) {
  double n = 3;
  for (int k = 0; k < c->out[0].rank; k++) n *= (double)c->out[0].dims[k];
  return n;
}

static const struct library steps = { .core = 1, .operations = operations, .run = run };

static int n_results(const struct node *n) { return (void)n, 1; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *s = n->in[1];
  (void)k;
  *rank = s->rank;
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  dims[s->rank - 1] = dim_mul(s->dims[s->rank - 1], ((const struct codes_attr *)n->attr)->group);
  return (weft_dtype)s->dtype;
}

static weft_array *stepped(weft_array *words, weft_array *s, weft_array *b, const struct codes_attr *a) {
  struct node *in[] = { words->node, s->node, b->node };
  weft_array *w;
  library_apply(&op_dequantize, 3, in, a, sizeof *a, 1, &w);
  return w;
}

/* dw, and dw q, summed over the groups: is_wanted and dx of words, s and b. */
static void codes_vjp(const struct codes_attr *a, weft_array *words, weft_array *by_w, const bool is_wanted[], weft_array *dx[]) {
  struct failure *why;
  weft_array *dw = split_last("weft_dequantize", by_w, a->group, &why), *groups = NULL, *q = NULL;
  if (dw) groups = split_last("weft_dequantize", words, a->group * a->bits / 32, &why);
  if (groups) q = unpacked("weft_dequantize", groups, (int)a->bits, &why);
  weft_array *bad = q ? NULL : array_failed(why);
  weft_array *by_code = bad ? bad : weft_mul(dw, weft_cast(join_last(q), weft_dtype_of(dw)));
  if (is_wanted[1]) dx[1] = bad ? bad : weft_squeeze(weft_sum(by_code, -1), -1);
  if (is_wanted[2]) dx[2] = bad ? bad : weft_squeeze(weft_sum(dw, -1), -1);
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (dy[0]) codes_vjp(r->node->attr, r->in[0], dy[0], is_wanted, dx);
}

/* Codes times scales plus biases is linear in both, and codes have no tangent. NULL: both tangents are 0. */
static weft_array *codes_jvp(weft_array *const in[3], weft_array *const dx[3], const struct codes_attr *a) {
  if (!dx[1] && !dx[2]) return NULL;
  weft_array *s = dx[1] ? dx[1] : weft_full_like(in[1], 0), *b = dx[2] ? dx[2] : weft_full_like(in[2], 0);
  return weft_check(s) || weft_check(b) ? (weft_check(s) ? s : b) : stepped(in[0], s, b, a);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) { dy[0] = codes_jvp(r->in, dx, r->node->attr); }

static const struct many results = { n_results, type, vjp, jvp, library_batch };
const struct op op_dequantize = { .name = "dequantize", .kind = OP_LIBRARY, .many = &results, .library = &steps };

/* ---- quantising ---- */

/* The end of the range that is further from 0 is a code exactly: s = edge / q0 with q0 whole, b = edge. */
static void ranged(weft_array *w, int bits, weft_array **scale, weft_array **bias) {
  weft_array *high = weft_max(w, -1), *low = weft_min(w, -1), *zero = number_like(w, 0), *most = number_like(w, (1 << bits) - 1);
  weft_array *is_low = weft_gt(weft_abs(low), weft_abs(high)), *edge = weft_where(is_low, low, high);
  weft_array *size = weft_maximum(weft_div(weft_sub(high, low), most), number_like(w, 1e-7f));
  weft_array *s = weft_where(is_low, size, weft_neg(size)), *code = weft_round(weft_div(edge, s)), *is_0 = weft_eq(code, zero);
  *scale = weft_where(is_0, s, weft_div(edge, weft_where(is_0, number_like(w, 1), code)));
  *bias = weft_where(is_0, zero, edge);
}

static struct failure *quantized(weft_array *w, int group, int bits, weft_array *out[3]) {
  static const char fn[] = "weft_quantize";
  struct failure *why = form_check(fn, group, bits);
  if (!why && !dtype_is_float(weft_dtype_of(w))) why = not_of(fn, weft_dtype_of(w));
  if (why) return why;
  weft_dtype as = weft_dtype_of(w);
  weft_array *wide = weft_cast(w, WEFT_F32), *s, *b;
  out[0] = out[1] = out[2] = wide;
  if (weft_rank(wide) < 0) return NULL;
  weft_array *groups = split_last(fn, wide, group, &why);
  if (!groups) return why;
  ranged(groups, bits, &s, &b);
  weft_array *code = weft_round(weft_div(weft_sub(groups, b), s)), *zero = number_like(code, 0);
  code = weft_minimum(weft_maximum(code, zero), number_like(code, (1 << bits) - 1));
  code = join_last(weft_cast(weft_stop_gradient(code), WEFT_U32));
  out[0] = weft_rank(code) < 0 ? code : packed(fn, code, bits, &why);
  out[1] = weft_cast(weft_squeeze(s, -1), as), out[2] = weft_cast(weft_squeeze(b, -1), as);
  return why;
}

void weft_quantize(weft_array *w, int group, int bits, weft_array **words, weft_array **scales, weft_array **biases) {
  weft_array *bad, *out[3] = { NULL, NULL, NULL };
  struct failure *why = NULL;
  if (arrays_ok("weft_quantize", 1, &w, &bad)) why = quantized(w, group, bits, out);
  else out[0] = out[1] = out[2] = bad;
  if (why) out[0] = out[1] = out[2] = array_failed(why);
  *words = out[0], *scales = out[1], *biases = out[2];
}

/* ---- and back ---- */

static struct failure *words_check(const char *fn, weft_array *words, weft_array *scales, weft_array *biases) {
  if (weft_dtype_of(words) != WEFT_U32) return not_of(fn, weft_dtype_of(words));
  if (!dtype_is_float(weft_dtype_of(scales))) return not_of(fn, weft_dtype_of(scales));
  return dtype_is_float(weft_dtype_of(biases)) ? NULL : not_of(fn, weft_dtype_of(biases));
}

/* A scale or a bias for every group [.., n / group, words], and none that stretches. */
static struct failure *groups_check(const char *fn, weft_array *groups, weft_array *each, int group) {
  struct node *g = array_node(groups), *n = array_node(each);
  struct shape_text s, t;
  struct failure *why = NULL;
  bool ok = n->rank == g->rank - 1;
  for (int k = 0; ok && k < n->rank; k++) ok = sizes_meet(fn, n->dims[k], g->dims[k]);
  if (!ok)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: scales or biases %s of groups of %d in words %s", fn, shape_show(n, &s), group,
               shape_show(g, &t));
  node_release(g), node_release(n);
  return why;
}

/* s q + b, computed in f32 at least. */
static weft_array *dequantized(const char *fn, weft_array *words, weft_array *scales, weft_array *biases, int group, int bits) {
  weft_array *bad;
  if (!arrays_ok(fn, 3, (weft_array *[]){ words, scales, biases }, &bad)) return bad;
  struct failure *why = form_check(fn, group, bits);
  if (!why) why = words_check(fn, words, scales, biases);
  weft_array *groups = why ? NULL : split_last(fn, words, group * bits / 32, &why);
  if (groups && weft_rank(groups) < 0) return groups;
  if (groups) why = groups_check(fn, groups, scales, group);
  if (groups && !why) why = groups_check(fn, groups, biases, group);
  if (why) return array_failed(why);
  weft_dtype in = weft_dtype_of(scales) == WEFT_F64 || weft_dtype_of(biases) == WEFT_F64 ? WEFT_F64 : WEFT_F32;
  weft_array *s = weft_cast(scales, in), *b = weft_cast(biases, in);
  if (weft_check(s) || weft_check(b)) return weft_check(s) ? s : b;
  return weft_cast(stepped(words, s, b, &(struct codes_attr){ group, bits }), weft_dtype_of(scales));
}

weft_array *weft_dequantize(weft_array *words, weft_array *scales, weft_array *biases, int group, int bits) {
  return COMPOSED(dequantized("weft_dequantize", words, scales, biases, group, bits));
}

/* ---- products of few rows: in x[m, k], words[n, k bits / 32], s and b [n, k / group], all but words f32; out x w' [m, n] ---- */

enum { FEW_ROWS = 16 }; /* of more, unpacked codes are read so often that unpacking is nothing to a product that is packed well */

static struct codes_rows rows_of(const struct library_call *c) {
  const struct codes_attr *a = c->attr;
  int rank = c->in[0].rank;
  return (struct codes_rows){ (int)a->bits, (int)a->group, c->in[0].dims[rank - 2], c->in[0].dims[rank - 1], NULL, NULL };
}

static int64_t n_of(const struct library_call *c) { return c->in[1].dims[c->in[1].rank - 2]; }

static size_t product_scratch(const struct library_call *c) {
  struct codes_rows x = rows_of(c);
  return codes_room(&x);
}

static double product_operations(const struct library_call *c) {
  struct codes_rows x = rows_of(c);
  return (double)c->n_problems * (double)n_of(c) * (double)x.k * (double)(2 + x.rows);
}

/* A part is a row of codes. */
static struct failure *product_run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  struct codes_rows x = rows_of(c);
  int64_t n = n_of(c), words = c->in[1].each / 4 / n, groups = c->in[2].each / 4 / n, is_set = -1;
  for (int64_t i = from; i < to; i++) {
    int64_t problem = i / n, row = i % n;
    if (problem != is_set) codes_set(&x, scratch, (const float *)(const void *)(c->in[0].data + problem * c->in[0].each));
    is_set = problem;
    const uint32_t *word = (const uint32_t *)(const void *)(c->in[1].data + problem * c->in[1].each) + row * words;
    const float *s = (const float *)(const void *)(c->in[2].data + problem * c->in[2].each) + row * groups;
    const float *b = (const float *)(const void *)(c->in[3].data + problem * c->in[3].each) + row * groups;
    codes_dots(&x, word, s, b, (float *)(void *)(c->out[0].data + problem * c->out[0].each) + row, n);
  }
  return NULL;
}

static const struct library product_steps = { .core = 2, .parts = n_of, .operations = product_operations,
                                              .scratch = product_scratch, .run = product_run };

static weft_dtype product_type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0], *w = n->in[1];
  (void)k;
  *rank = x->rank;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 1] = w->dims[w->rank - 2];
  return WEFT_F32;
}

static weft_array *turned(weft_array *x) { return weft_moveaxis(x, -1, -2); }

static weft_array *product_step(weft_array *const x[4], const struct codes_attr *a) {
  struct node *in[] = { x[0]->node, x[1]->node, x[2]->node, x[3]->node };
  weft_array *y;
  library_apply(&op_codes_product, 4, in, a, sizeof *a, 1, &y);
  return y;
}

/* y = x w': dx = dy w, dw = dy' x. */
static void product_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  const struct codes_attr *a = r->node->attr;
  if (!dy[0]) return;
  if (is_wanted[0]) dx[0] = weft_matmul(dy[0], stepped(r->in[1], r->in[2], r->in[3], a));
  if (is_wanted[2] || is_wanted[3]) codes_vjp(a, r->in[1], weft_matmul(turned(dy[0]), r->in[0]), is_wanted + 1, dx + 1);
}

static void product_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  const struct codes_attr *a = r->node->attr;
  weft_array *dw = codes_jvp(r->in + 1, dx + 1, a);
  if (dx[0]) dy[0] = product_step((weft_array *[]){ dx[0], r->in[1], r->in[2], r->in[3] }, a);
  if (dw) {
    weft_array *by_w = weft_check(dw) ? dw : weft_matmul(r->in[0], turned(dw));
    dy[0] = dy[0] ? weft_add(dy[0], by_w) : by_w;
  }
}

/* Rows of x alone are more rows. Else each row of the map has codes of its own. */
static void product_batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  const struct codes_attr *a = r->node->attr;
  is_mapped_out[0] = true;
  if (is_mapped[1] || is_mapped[2] || is_mapped[3]) { library_batch(r, is_mapped, ys, is_mapped_out); return; }
  ys[0] = weft_quantized_matmul(r->in[0], r->in[1], r->in[2], r->in[3], 1, (int)a->group, (int)a->bits);
}

static const struct many product_results = { n_results, product_type, product_vjp, product_jvp, product_batch };
const struct op op_codes_product = { .name = "codes_product", .kind = OP_LIBRARY, .many = &product_results,
                                     .library = &product_steps };

/* How many rows there are before the last axis, where it fits the codes and all is known; else 0. */
static int64_t few_rows(weft_array *x, weft_array *words, weft_array *scales, int group, int bits) {
  const struct node *n = x->node, *w = words->node;
  int64_t rows = 1;
  bool ok = n->rank >= 1 && w->rank == 2 && scales->node->rank == 2 && dim_is_known(w->dims[0]) && dim_is_known(w->dims[1]);
  for (int k = 0; ok && k < n->rank; k++) ok = dim_is_known(n->dims[k]);
  if (!ok || n->dims[n->rank - 1] != w->dims[1] * 32 / bits || n->dims[n->rank - 1] < group) return 0;
  for (int k = 0; k < n->rank - 1 && rows <= FEW_ROWS; k++) rows *= n->dims[k];
  return rows <= FEW_ROWS ? rows : 0;
}

/* x w' of few rows; NULL: it is not such a product, or not one that computes in f32. */
static weft_array *few_product(weft_array *x, weft_array *words, weft_array *scales, weft_array *biases, int group, int bits) {
  weft_dtype d = weft_dtype_of(x), s = weft_dtype_of(scales), as = weft_dtype_promote(d, s);
  if (!dtype_is_float(d) || as == WEFT_F64 || weft_dtype_of(biases) == WEFT_F64) return NULL;
  int64_t rows = few_rows(x, words, scales, group, bits), dims[WEFT_RANK_MAX];
  if (!rows) return NULL;
  int rank = weft_rank(x);
  for (int k = 0; k < rank; k++) dims[k] = k < rank - 1 ? x->node->dims[k] : words->node->dims[0];
  weft_array *in[] = { weft_cast(weft_reshape(x, WEFT_DIMS(rows, x->node->dims[rank - 1])), WEFT_F32), words,
                       weft_cast(scales, WEFT_F32), weft_cast(biases, WEFT_F32) };
  for (int k = 0; k < 4; k++) if (weft_check(in[k])) return in[k];
  return weft_cast(weft_reshape(product_step(in, &(struct codes_attr){ group, bits }), rank, dims), as);
}

weft_array *weft_quantized_matmul(weft_array *x, weft_array *words, weft_array *scales, weft_array *biases, int is_transposed,
                                  int group, int bits) {
  struct composing c = composing_begin();
  weft_array *w = dequantized("weft_quantized_matmul", words, scales, biases, group, bits), *bad, *few = NULL;
  if (is_transposed && arrays_ok("weft_quantized_matmul", 2, (weft_array *[]){ x, w }, &bad))
    few = few_product(x, words, scales, biases, group, bits);
  return composing_end(c, few ? few : weft_matmul(x, is_transposed && weft_rank(w) > 1 ? turned(w) : w));
}
