/* random.c -- keys, the bits a key has at a place, and what is drawn straight from them.
 *
 * threefry 2x32, 20 rounds: a key (k0, k1) and a counter (c0, c1) give two words. Word i of n is made of the counter (j, j + h),
 * h = ceil(n / 2): its first word for i = j < h, the second for i = j + h. Where n is odd the one in the middle has the counter
 * (j, 0). These are the streams of MLX. 64 bits are both words of one counter. */
#include "op/random.h"
#include <math.h>
#include "op/element.h"

/* ---- The op ---- */

static int word(struct kir_builder *b, uint32_t x) { return kir_lit(b->k, WEFT_U32, x); }
static int add(struct kir_builder *b, int x, int y) { return kir_op2(b, KIR_ADD, x, y); }

static int turned(struct kir_builder *b, int x, int by) {
  return kir_op2(b, KIR_OR, kir_op2(b, KIR_SHL, x, word(b, (uint32_t)by)), kir_op2(b, KIR_SHR, x, word(b, (uint32_t)(32 - by))));
}

/* x: the counter, then the two words. */
static void threefry(struct kir_builder *b, const int key[2], int x[2]) {
  static const int turns[2][4] = { { 13, 15, 26, 6 }, { 17, 29, 16, 24 } };
  int all = kir_op2(b, KIR_XOR, kir_op2(b, KIR_XOR, key[0], key[1]), word(b, 0x1BD11BDA));
  int k[3] = { key[0], key[1], all };
  for (int i = 0; i < 2; i++) x[i] = add(b, x[i], k[i]);
  for (int group = 0; group < 5; group++) {
    for (int r = 0; r < 4; r++) {
      x[0] = add(b, x[0], x[1]);
      x[1] = kir_op2(b, KIR_XOR, turned(b, x[1], turns[group % 2][r]), x[0]);
    }
    x[0] = add(b, x[0], k[(group + 1) % 3]);
    x[1] = add(b, x[1], add(b, k[(group + 2) % 3], word(b, (uint32_t)group + 1)));
  }
}

static int both_words(struct kir_builder *b, const int in[]) {
  int x[2] = { in[2], add(b, in[2], in[3]) };
  threefry(b, in, x);
  int high = kir_op2(b, KIR_SHL, kir_cast(b, WEFT_U64, x[1]), kir_lit(b->k, WEFT_U64, 32));
  return kir_op2(b, KIR_OR, kir_cast(b, WEFT_U64, x[0]), high);
}

LOWER(random_bits) {
  if (n->dtype == WEFT_U64) return both_words(b, in);
  int i = in[2], many = in[3], half = kir_op2(b, KIR_SUB, many, kir_op2(b, KIR_SHR, many, word(b, 1)));
  int is_first = kir_op2(b, KIR_LT, i, half), partner = add(b, i, half);
  int second = kir_op3(b, KIR_SELECT, kir_op2(b, KIR_LT, partner, many), partner, word(b, 0));
  int x[2] = { kir_op3(b, KIR_SELECT, is_first, i, kir_op2(b, KIR_SUB, i, half)), kir_op3(b, KIR_SELECT, is_first, second, i) };
  threefry(b, in, x);
  return kir_op3(b, KIR_SELECT, is_first, x[0], x[1]);
}

ROW(random_bits, false, NONE)

weft_array *random_word(weft_dtype as, weft_array *k0, weft_array *k1, weft_array *i, weft_array *n) {
  struct node *in[4];
  weft_array *bad;
  dim dims[WEFT_RANK_MAX];
  int rank;
  if (!arrays_nodes("weft_random_bits", 4, (weft_array *[]){ k0, k1, i, n }, in, &bad)) return bad;
  struct failure *why = common_dims("weft_random_bits", 4, in, &rank, dims);
  if (why) return array_of_bad(why, 4, in);
  bool ok = true;
  for (int k = 0; k < 4; k++) ok &= (in[k] = node_broadcast(node_cast(in[k], WEFT_U32), rank, dims)) != NULL;
  struct node *y = ok ? node_make(&op_random_bits, as, rank, dims, 4, in, NULL, 0) : NULL;
  nodes_release(4, in);
  return array_of(y);
}

/* ---- Keys ---- */

weft_array *weft_random_key(uint64_t seed) {
  uint32_t halves[] = { (uint32_t)(seed >> 32), (uint32_t)seed };
  return weft_from(WEFT_U32, WEFT_DIMS(2), halves);
}

static struct failure *key_check(const char *fn, weft_array *key) {
  struct shape_text s;
  struct node *n = array_node(key);
  struct failure *why = NULL;
  if (n->dtype != WEFT_U32 || n->rank != 1 || !sizes_meet(fn, n->dims[0], 2))
    why = fail(WEFT_ERR_ARG, scope_origin(), "%s: a key is u32 [2], not %s %s; see weft_random_key", fn,
               weft_dtype_name((weft_dtype)n->dtype), shape_show(n, &s));
  node_release(n);
  return why;
}

static weft_array *half_of(weft_array *key, int64_t i) { return weft_squeeze(array_slice(key, 0, i, 1, 1), 0); }

/* More places than counters would repeat themselves. */
static struct failure *count_few(const char *fn, dim count) {
  if (!dim_is_known(count) || count <= (int64_t)1 << 32) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %lld draws of one key, of which there are 2^32; split it", fn,
              (long long)count);
}

bool random_open(struct draw *d, const char *fn, weft_array *key, weft_array *like, int rank, const dim dims[], weft_array **bad) {
  if (!arrays_ok(fn, 1, &key, bad)) return false;
  struct failure *why = key_check(fn, key);
  if (!why) why = count_check(fn, rank, dims);
  d->fn = fn;
  d->rank = rank;
  for (int k = 0; k < rank; k++) d->dims[k] = dims[k];
  d->count = why ? 0 : dim_count(rank, dims);
  if (!why) why = count_few(fn, d->count);
  if (why) return *bad = array_failed(why), false;
  struct node *flat = node_broadcast(scalar_node(WEFT_U32, 0, false), 1, &d->count);
  weft_array *all = array_of(flat), *size = array_broadcast(fn, weft_size(all, 0), 1, &d->count);
  key = array_with_size(key, 0, 2);
  if (like) key = array_sized_by(key, like); /* whatever draws reads the key, and so waits for these sizes */
  d->k0 = half_of(key, 0);
  d->k1 = half_of(key, 1);
  d->places = weft_iota(all, 0);
  d->n = dim_is_known(d->count) ? array_of(scalar_node(WEFT_U32, (uint32_t)d->count, false)) : weft_cast(size, WEFT_U32);
  d->n_draws = dim_is_known(d->count) ? d->n : weft_cast(weft_size(all, 0), WEFT_U32);
  return true;
}

weft_array *random_shaped(const struct draw *d, weft_array *flat) { return array_reshape(d->fn, flat, d->rank, d->dims); }

struct draw random_part(const struct draw *d, int j, int m) {
  struct draw part = *d;
  if (j) part.places = weft_add(d->places, weft_mul(d->n, weft_integer(j)));
  if (m > 1) part.n = weft_mul(d->n, weft_integer(m)), part.n_draws = weft_mul(d->n_draws, weft_integer(m));
  return part;
}

static weft_array *words(const struct draw *all, weft_dtype as, int j, int m) {
  struct draw d = random_part(all, j, m);
  return random_shaped(all, random_word(as, d.k0, d.k1, d.places, d.n));
}

static weft_array *words_for(const struct draw *d, int j, int m) {
  return words(d, d->in == WEFT_F64 ? WEFT_U64 : WEFT_U32, j, m);
}

/* Element i of narrow integers is part of word i / per: little-endian bytes. */
static weft_array *parts_of_words(const struct draw *d, weft_dtype as) {
  int bytes = (int)weft_dtype_bytes(as), per = 4 / bytes;
  weft_array *shift = weft_integer(per == 4 ? 2 : 1), *rest = weft_integer(per - 1);
  weft_array *many = weft_shr(weft_add(d->n, rest), shift);
  weft_array *word = random_word(WEFT_U32, d->k0, d->k1, weft_shr(d->places, shift), many);
  weft_array *part = weft_shr(word, weft_mul(weft_and(d->places, rest), weft_integer(8 * bytes)));
  return random_shaped(d, weft_cast(part, as));
}

static weft_array *bits_of(const struct draw *d, weft_dtype as) {
  size_t bytes = weft_dtype_bytes(as);
  if (bytes < 4) return parts_of_words(d, as);
  return weft_cast(words(d, bytes == 8 ? WEFT_U64 : WEFT_U32, 0, 1), as);
}

weft_array *random_keys(const char *fn, weft_array *key, weft_array *like, dim n) {
  struct draw d;
  weft_array *bad;
  return random_open(&d, fn, key, like, 2, (dim[]){ n, 2 }, &bad) ? bits_of(&d, WEFT_U32) : bad;
}

weft_array *weft_random_split(weft_array *key, int64_t n) {
  struct failure *why = dims_check("weft_random_split", 2, (int64_t[]){ n, 2 });
  return why ? array_failed(why) : random_keys("weft_random_split", key, NULL, n);
}

weft_array *weft_random_bits(weft_array *key, weft_array *like) {
  struct draw d;
  struct node *n;
  weft_array *bad;
  if (!operands("weft_random_bits", 1, &like, &n, &bad)) return bad;
  weft_dtype as = (weft_dtype)n->dtype;
  if (!dtype_is_integer(as)) return array_of_bad(not_of("weft_random_bits", as), 1, &n);
  bool ok = random_open(&d, "weft_random_bits", key, like, n->rank, n->dims, &bad);
  node_release(n);
  return ok ? bits_of(&d, as) : bad;
}

/* ---- Numbers from words ---- */

static weft_array *number(weft_dtype d, double x) { return weft_cast(weft_scalar(x), d); }

/* Never 1: what rounds up to it is the number below. */
weft_array *unit_of(weft_array *word, weft_dtype in) {
  if (in == WEFT_F64) return weft_mul(weft_cast(weft_shr(word, weft_integer(11)), WEFT_F64), number(in, 0x1p-53));
  return weft_minimum(weft_mul(weft_cast(word, WEFT_F32), number(in, 0x1p-32)), number(in, 0x1.fffffep-1));
}

weft_array *open_unit_of(weft_array *word, weft_dtype in) {
  return weft_maximum(unit_of(word, in), number(in, in == WEFT_F64 ? 0x1p-54 : 0x1p-33));
}

/* The quantile of a number in (-1, 1). */
weft_array *normal_of(weft_array *word, weft_dtype in) {
  weft_array *u = unit_of(word, in), *least = number(in, in == WEFT_F64 ? -0x1.fffffffffffffp-1 : -0x1.fffffep-1);
  return weft_mul(weft_erfinv(weft_add(weft_mul(u, weft_integer(2)), least)), number(in, M_SQRT2));
}

weft_array *random_unit(const struct draw *d, int j, int m) { return unit_of(words_for(d, j, m), d->in); }
weft_array *random_open_unit(const struct draw *d, int j, int m) { return open_unit_of(words_for(d, j, m), d->in); }
weft_array *random_normal(const struct draw *d, int j, int m) { return normal_of(words_for(d, j, m), d->in); }
weft_array *random_exponential(const struct draw *d, int j, int m) {
  return weft_neg(weft_log1p(weft_neg(random_unit(d, j, m))));
}

/* ---- Parameters ---- */

static const char *const wanted[] = {
  [REAL] = "a number", [FINITE_SCALE] = "at least 0", [ABOVE_0] = "above 0", [PROBABILITY] = "in [0, 1]", [CHANCE] = "in (0, 1]",
  [COUNT] = "in [0, 2^53]", [RATE] = "in [0, inf)", [SHAPE] = "in (0, inf)"
};

static bool lies_in(enum range r, double x) {
  switch (r) {
    case REAL: return !isnan(x);
    case FINITE_SCALE: return x >= 0;
    case COUNT: return x >= 0 && x <= 0x1p53;
    case ABOVE_0: return x > 0;
    case PROBABILITY: return x >= 0 && x <= 1;
    case CHANCE: return x > 0 && x <= 1;
    case RATE: return x >= 0 && x < INFINITY;
    case SHAPE: return x > 0 && x < INFINITY;
  }
  return false;
}

/* p, or nan where it is not in the range. */
weft_array *random_where_in(enum range r, weft_array *p) {
  weft_array *zero = weft_integer(0), *ok = NULL;
  switch (r) {
    case REAL: return p;
    case FINITE_SCALE: ok = weft_ge(p, zero); break;
    case COUNT: ok = weft_and(weft_ge(p, zero), weft_le(p, number_like(p, 0x1p53))); break;
    case ABOVE_0: ok = weft_gt(p, zero); break;
    case PROBABILITY: ok = weft_and(weft_ge(p, zero), weft_le(p, weft_integer(1))); break;
    case CHANCE: ok = weft_and(weft_gt(p, zero), weft_le(p, weft_integer(1))); break;
    case RATE: ok = weft_and(weft_ge(p, zero), weft_lt(p, number_like(p, INFINITY))); break;
    case SHAPE: ok = weft_and(weft_gt(p, zero), weft_lt(p, number_like(p, INFINITY))); break;
  }
  return weft_where(ok, p, number_like(p, NAN));
}

/* Numbers are known here, and looked at here. */
struct failure *random_number_wrong(const char *fn, const struct parameter *want, const struct node *n) {
  if (n->op != &op_scalar) return NULL;
  uint64_t bits = scalar_bits(n, WEFT_F64);
  double x = dtype_decode(WEFT_F64, bits);
  if (lies_in(want->range, x)) return NULL;
  return fail(WEFT_ERR_ARG, scope_origin(), "%s: %s is %g, not %s", fn, want->name, x, wanted[want->range]);
}

bool random_is_number(weft_array *p, double *x) {
  struct node *n = array_node(p);
  bool is = n->op == &op_scalar;
  if (is) *x = dtype_decode(WEFT_F64, scalar_bits(n, WEFT_F64));
  node_release(n);
  return is;
}

weft_array *random_unordered(const struct draw *d, int i, const char *first, const char *second) {
  double x, y;
  if (!random_is_number(d->p[i], &x) || !random_is_number(d->p[i + 1], &y) || x <= y) return NULL;
  return array_bad(WEFT_ERR_ARG, "%s: %s is %g, above %s, which is %g", d->fn, first, x, second, y);
}

static weft_array *looked_at(const struct draw *d, const struct parameter *want, struct node *n) {
  bool is_number = n->op == &op_scalar;
  weft_array *p = weft_cast(array_of(node_retain(n)), d->in);
  double x;
  bool is_whole = random_is_number(p, &x) && x == floor(x); /* it stays a number, which draws may look at */
  if (want->range == COUNT && !is_whole) p = weft_floor(p);
  if (!is_number) p = random_where_in(want->range, p);
  return n->rank ? array_broadcast(d->fn, p, d->rank, d->dims) : p;
}

/* ---- Drawing ---- */

/* The shape is that of `like`, else what the parameters broadcast to; the dtype likewise. */
static struct failure *outline(const struct distribution *t, struct draw *d, const struct node *like, struct node *const p[]) {
  weft_dtype met = WEFT_F32;
  struct failure *why = common_dtype(t->fn, t->n, p, &met);
  if (!why && dtype_is_complex(met)) why = not_of(t->fn, met);
  if (!why && !like) why = common_dims(t->fn, t->n, p, &d->rank, d->dims);
  if (why) return why;
  if (like) {
    d->rank = like->rank;
    for (int k = 0; k < like->rank; k++) d->dims[k] = like->dims[k];
  }
  d->as = like ? (weft_dtype)like->dtype : t->of == WHOLES ? WEFT_I32 : t->of == TRUTHS ? WEFT_BOOL : dtype_float(met);
  d->in = t->of == WHOLES || d->as == WEFT_F64 ? WEFT_F64 : WEFT_F32;
  bool ok = t->of == REALS ? dtype_is_float(d->as) : !dtype_is_complex(d->as);
  return ok ? NULL : not_of(t->fn, d->as);
}

/* Whole numbers that parameters leave undefined are -1, or what a cast makes of it. */
static weft_array *finished(const struct distribution *t, const struct draw *d, weft_array *y) {
  if (t->of == WHOLES && !dtype_is_float(d->as)) y = weft_where(weft_isnan(y), number_like(y, -1), y);
  if (t->of != REALS) y = weft_stop_gradient(y);
  return weft_cast(array_broadcast(t->fn, y, d->rank, d->dims), d->as);
}

static weft_array *drawn_of(const struct distribution *t, weft_array *key, weft_array *like, const struct node *n,
                            struct node *const p[]) {
  struct draw d = { 0 };
  weft_array *bad;
  struct failure *why = NULL;
  for (int i = 0; i < t->n && !why; i++) why = random_number_wrong(t->fn, &t->p[i], p[i]);
  if (!why) why = outline(t, &d, n, p);
  if (why) return array_failed(why);
  if (!random_open(&d, t->fn, key, like, d.rank, d.dims, &bad)) return bad;
  for (int i = 0; i < t->n; i++) d.p[i] = looked_at(&d, &t->p[i], p[i]);
  return finished(t, &d, t->draw(&d));
}

weft_array *random_drawn(const struct distribution *t, weft_array *key, weft_array *like, weft_array *const given[]) {
  weft_array *all[RANDOM_PARAMETERS], *bad;
  struct node *p[RANDOM_PARAMETERS], *n = NULL;
  for (int i = 0; i < t->n; i++) {
    all[i] = given[i] ? given[i] : weft_scalar(t->p[i].otherwise);
    if (!given[i] && isnan(t->p[i].otherwise)) return array_bad(WEFT_ERR_ARG, "%s: %s is NULL", t->fn, t->p[i].name);
  }
  if (like && !operands(t->fn, 1, &like, &n, &bad)) return bad;
  if (!arrays_nodes(t->fn, t->n, all, p, &bad)) return node_release(n), bad;
  weft_array *y = drawn_of(t, key, like, n, p);
  nodes_release(t->n, p);
  node_release(n);
  return y;
}

/* ---- What MLX draws the same bits of ---- */

/* A unit of a narrow dtype is below 1 there too. */
static weft_array *narrow_unit(const struct draw *d) {
  weft_array *u = random_unit(d, 0, 1);
  static const struct { weft_dtype as; double below_one; } most[] = {
    { WEFT_F16, 0x1.ffcp-1 }, { WEFT_BF16, 0x1.fep-1 }, { WEFT_E4M3, 0x1.ep-1 }, { WEFT_E5M2, 0x1.cp-1 } };
  for (int i = 0; i < 4; i++) if (d->as == most[i].as) u = weft_minimum(u, number(WEFT_F32, most[i].below_one));
  return weft_cast(u, d->as);
}

RANDOM2(uniform, REALS, "low", REAL, 0, "high", REAL, 1) {
  weft_array *low = weft_cast(d->p[0], d->as), *high = weft_cast(d->p[1], d->as);
  return weft_add(weft_mul(weft_sub(high, low), narrow_unit(d)), low);
}

RANDOM2(normal, REALS, "mean", REAL, 0, "sd", FINITE_SCALE, 1) {
  return weft_add(weft_mul(random_normal(d, 0, 1), d->p[1]), d->p[0]);
}

/* The word is below p times what comes after 2^32 in f32, as MLX has it: 2^32, which large words are rounded to, is below it. */
RANDOM1(bernoulli, TRUTHS, "p", PROBABILITY, 0.5) {
  return weft_lt(weft_cast(words(d, WEFT_U32, 0, 1), WEFT_F32), weft_mul(d->p[0], number(WEFT_F32, 0x1.000002p32)));
}

/* Whether draws up to an end are i32: a number less what is above the last draw, or an array of a dtype that i32 holds. */
static bool fits_i32(const struct node *end, int64_t above) {
  if (end->op != &op_scalar) return weft_dtype_promote((weft_dtype)end->dtype, WEFT_I32) == WEFT_I32;
  return !dtype_is_integer(end->dtype) || dtype_fits(WEFT_I32, (int64_t)scalar_bits(end, WEFT_I64) - above);
}

/* Both ends, in the dtype of the draws: i32 unless they, or what the draws are like, say otherwise. */
static struct failure *ends_check(struct draw *d, const struct node *like, struct node *const end[2]) {
  static const struct parameter any = { "an end", REAL, 0 };
  struct failure *why = common_dims(d->fn, 2, end, &d->rank, d->dims);
  if (like) {
    d->rank = like->rank;
    for (int k = 0; k < like->rank; k++) d->dims[k] = like->dims[k];
  }
  bool narrow = fits_i32(end[0], 0) && fits_i32(end[1], 1);
  d->as = like ? (weft_dtype)like->dtype : narrow ? WEFT_I32 : WEFT_I64;
  for (int i = 0; i < 2 && !why; i++) {
    if (!dtype_is_integer(end[i]->dtype)) why = not_of(d->fn, (weft_dtype)end[i]->dtype);
    else why = random_number_wrong(d->fn, &any, end[i]);
  }
  if (!why && !dtype_is_integer(d->as)) why = not_of(d->fn, d->as);
  if (why || end[0]->op != &op_scalar || end[1]->op != &op_scalar) return why;
  int64_t low = (int64_t)scalar_bits(end[0], WEFT_I64), high = (int64_t)scalar_bits(end[1], WEFT_I64);
  if (low >= high)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: there is no integer from %lld to below %lld", d->fn, (long long)low,
                (long long)high);
  if (dtype_fits(d->as, low) && dtype_fits(d->as, high - 1)) return NULL;
  return fail(WEFT_ERR_ARG, scope_origin(), "%s: from %lld to below %lld is beyond %s", d->fn, (long long)low, (long long)high,
              weft_dtype_name(d->as));
}

/* The dtype in which ends are compared with a draw: that of the draws, unless they are arrays of another one, whose elements may
 * lie beyond it. */
static weft_dtype dtype_of_ends(weft_dtype as, struct node *const end[2]) {
  bool fit = as == WEFT_U64;
  if (!fit) fit = (end[0]->op == &op_scalar || end[0]->dtype == as) && (end[1]->op == &op_scalar || end[1]->dtype == as);
  return fit ? as : WEFT_I64;
}

/* low + u (high - low) in f32, rounded down, held between the ends as integers: beyond 2^24 not every number is drawn. */
static weft_array *between(const struct draw *d, weft_dtype as, weft_array *const end[2]) {
  weft_array *f[2], *whole[2];
  for (int i = 0; i < 2; i++) {
    f[i] = array_broadcast(d->fn, weft_cast(end[i], WEFT_F32), d->rank, d->dims);
    whole[i] = array_broadcast(d->fn, weft_cast(end[i], as), d->rank, d->dims);
  }
  weft_array *u = weft_add(weft_mul(weft_sub(f[1], f[0]), random_unit(d, 0, 1)), f[0]);
  weft_array *x = weft_cast(weft_floor(u), as), *last = weft_sub(whole[1], weft_integer(1));
  return weft_cast(weft_maximum(weft_minimum(x, last), whole[0]), d->as);
}

static weft_array *randint(weft_array *key, weft_array *like, weft_array *low, weft_array *high) {
  struct draw d = { .fn = "weft_random_randint", .in = WEFT_F32 };
  struct node *end[2], *n = NULL;
  weft_array *bad, *ends[2] = { low ? low : weft_integer(0), high };
  if (!high) return array_bad(WEFT_ERR_ARG, "%s: high is NULL", d.fn);
  if (like && !operands(d.fn, 1, &like, &n, &bad)) return bad;
  if (!operands(d.fn, 2, ends, end, &bad)) return node_release(n), bad;
  struct failure *why = ends_check(&d, n, end);
  node_release(n);
  if (why) return array_of_bad(why, 2, end);
  weft_dtype as = dtype_of_ends(d.as, end);
  nodes_release(2, end);
  return random_open(&d, d.fn, key, like, d.rank, d.dims, &bad) ? between(&d, as, ends) : bad;
}

weft_array *weft_random_randint(weft_array *key, weft_array *like, weft_array *low, weft_array *high) {
  return COMPOSED(randint(key, like, low, high));
}
