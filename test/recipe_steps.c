/* recipe_steps.c -- chooses the steps of a random program, and computes the value of each in plain C. */
#include "recipe_steps.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- chance ---- */

uint32_t recipe_any(struct recipe *p, uint32_t below) {
  p->state = p->state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = p->state ^ p->state >> 29;
  return (uint32_t)((x * 0xbf58476d1ce4e5b9u >> 33) % (below ? below : 1));
}
bool recipe_once_in(struct recipe *p, uint32_t n) { return recipe_any(p, n) == 0; }

static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F32, WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_BOOL, WEFT_BF16, WEFT_F16,
                                     WEFT_U8, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_U64, WEFT_C64, WEFT_C128, WEFT_E4M3, WEFT_E5M2 };

static double any_number(struct recipe *p, bool special) {
  static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0, 0x1p-149, -0x1p-140, 0x1p-1074, 1e38, -1e38, 65504, 1e300, 0.0 };
  if (special && recipe_once_in(p, 6)) return odd[recipe_any(p, COUNT(odd))];
  if (recipe_once_in(p, 3)) return (double)(int)recipe_any(p, 9) - 4;
  return ((double)recipe_any(p, 1u << 24) / (1 << 23) - 1) * (recipe_once_in(p, 4) ? 30 : 2);
}

static int64_t any_integer(struct recipe *p, bool special) {
  static const int64_t odd[] = { INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -1, 255, 128, -128, 65535, -32768 };
  return special && recipe_once_in(p, 6) ? odd[recipe_any(p, COUNT(odd))] : (int64_t)recipe_any(p, 19) - 9;
}

/* ---- making steps ---- */

enum { UPDATES = 4096 }; /* a scatter adds so many before it adds blocks of them */

static struct recipe_step *add(struct recipe *p, int kind, const char *op) {
  struct recipe_step *s = &p->step[p->n++];
  *s = (struct recipe_step){ .kind = kind, .op = op };
  return s;
}

static bool is_room(const struct recipe *p, int n) { return p->n + n <= RECIPE_STEPS; }

static int64_t any_size(struct recipe *p) {
  static const int sizes[] = { 0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 40 };
  return sizes[recipe_any(p, COUNT(sizes))];
}

enum { MOST_ELEMENTS = 200000 }; /* of what is made longer still: steps are many */

/* How many elements there are, or will be once an axis without any is folded or padded. */
static int64_t bulk(int rank, const int64_t dims[]) {
  int64_t count = 1;
  for (int k = 0; k < rank; k++) count *= dims[k] ? dims[k] : 1;
  return count;
}

static int any_shape(struct recipe *p, int64_t dims[]) {
  int rank = (int)recipe_any(p, 5);
  do {
    for (int k = 0; k < rank; k++) dims[k] = any_size(p);
  } while (bulk(rank, dims) > 3000);
  if (p->has_long && rank && recipe_once_in(p, 3)) {
    static const int longs[] = { 130, 300, 600, 4095, 4097, 5000, 9000, 16500, 33000, 70000 };
    int k = (int)recipe_any(p, (uint32_t)rank);
    int64_t n = longs[recipe_any(p, COUNT(longs))];
    for (int j = 0; j < rank; j++) if (dims[j] > 3) dims[j] = 3;
    dims[k] = 1;
    dims[k] = n * bulk(rank, dims) > 80000 ? 300 : n;
  }
  return rank;
}

/* Elements somewhere in memory: axes in any order, backwards, apart, or on top of each other. */
static void lay_out(struct recipe *p, struct recipe_step *s) {
  struct plain *x = &s->value;
  int order[PLAIN_RANK];
  int64_t room = 1, far = 1, size = (int64_t)weft_dtype_bytes(x->dtype);
  bool is_plain = recipe_once_in(p, 2), overlaps = recipe_once_in(p, 12);
  for (int k = 0; k < x->rank; k++) order[k] = k;
  for (int k = x->rank - 1; !is_plain && k > 0; k--) {
    int j = (int)recipe_any(p, (uint32_t)k + 1), t = order[k];
    order[k] = order[j], order[j] = t;
  }
  for (int i = x->rank - 1; i >= 0; i--) {
    int k = order[i];
    int64_t n = x->dims[k] ? x->dims[k] : 1, step = room;
    if (!is_plain && recipe_once_in(p, 8)) step *= 2;
    if (!is_plain && recipe_once_in(p, 6)) step = 0;                 /* broadcast */
    if (overlaps && step > 1 && recipe_once_in(p, 2)) step = 1;      /* windows */
    s->stride[k] = step;
    if (step && room < step * n) room = step * n;
    far += step * (n - 1);
    if (!is_plain && step && recipe_once_in(p, 3)) s->offset += step * (n - 1), s->stride[k] = -step;
  }
  if (!is_plain && recipe_once_in(p, 3)) s->offset += 3, far += 3;
  room = far;
  s->memory = calloc((size_t)room + 8, (size_t)size);
  if (!s->memory) abort();
  struct plain all = { .dtype = x->dtype, .data = s->memory, .count = room };
  bool special = recipe_once_in(p, 3);
  all = plain_parts(&all);
  for (int64_t i = 0; i < all.count; i++) {
    if (plain_is_float(all.dtype)) plain_set_f(&all, i, any_number(p, special));
    else plain_set_i(&all, i, x->dtype == WEFT_BOOL ? (int64_t)recipe_any(p, 2) : any_integer(p, special));
  }
  for (int64_t i = 0; i < x->count; i++) {
    int64_t at[PLAIN_RANK], from = s->offset;
    plain_index(x, i, at);
    for (int k = 0; k < x->rank; k++) from += at[k] * s->stride[k];
    memcpy(x->data + i * size, (char *)s->memory + from * size, (size_t)size);
  }
}

static int leaf(struct recipe *p, weft_dtype t, int rank, const int64_t dims[]) {
  struct recipe_step *s = add(p, LEAF, "leaf");
  s->value = plain_new(t, rank, dims);
  lay_out(p, s);
  return p->n - 1;
}

static int any_leaf(struct recipe *p) {
  int64_t dims[PLAIN_RANK];
  int rank = any_shape(p, dims);
  return leaf(p, dtypes[recipe_any(p, COUNT(dtypes))], rank, dims);
}

bool has_fractions(weft_dtype t) { return plain_is_float(t) || plain_is_complex(t); }

/* A number: weak, it takes the dtype of its partner, which the caller says. */
static int number(struct recipe *p, weft_dtype t) {
  if (t == WEFT_BOOL) return leaf(p, t, 0, NULL); /* beside bools an integer is an i32 */
  bool is_float = has_fractions(t);
  struct recipe_step *s = add(p, is_float ? SCALAR : INTEGER, "scalar");
  static const double usual[] = { 0, 1, -1, 2, 0.5, -0.0, NAN };
  s->number = is_float ? (recipe_once_in(p, 2) ? usual[recipe_any(p, 7)] : any_number(p, true)) : (double)recipe_any(p, 5);
  s->value = plain_new(t, 0, NULL);
  if (is_float) plain_set_f(&s->value, 0, s->number);
  else plain_set_i(&s->value, 0, (int64_t)s->number);
  return p->n - 1;
}

bool recipe_is_weak(struct recipe *p, int i) { return p->step[i].kind == SCALAR || p->step[i].kind == INTEGER; }

static int pick(struct recipe *p) { /* the newer, the likelier; never a number */
  for (int tries = 0; tries < 20; tries++) {
    int back = (int)(recipe_any(p, 4) ? recipe_any(p, 4) : recipe_any(p, (uint32_t)p->n)), i = p->n - 1 - back;
    if (i >= 0 && !recipe_is_weak(p, i)) return i;
  }
  return 0;
}

static bool fits(struct recipe *p, int a, int b) {
  int rank;
  int64_t dims[PLAIN_RANK], count = 1;
  if (!plain_common(2, (const struct plain *[]){ value(p, a), value(p, b) }, &rank, dims)) return false;
  for (int k = 0; k < rank; k++) count *= dims[k];
  return count <= 90000;
}

/* Something that broadcasts with step a: another step, a number, or a new leaf with some axes of length 1 or missing. */
static int partner(struct recipe *p, int a, weft_dtype t) {
  for (int tries = 0; tries < 6; tries++) {
    int b = pick(p);
    if (fits(p, a, b)) return b;
  }
  if (recipe_once_in(p, 2)) return number(p, t);
  const struct plain *x = value(p, a);
  int skip = (int)recipe_any(p, (uint32_t)x->rank + 1), rank = recipe_once_in(p, 2) ? x->rank : x->rank - skip;
  int64_t dims[PLAIN_RANK];
  for (int k = 0; k < rank; k++) dims[k] = recipe_once_in(p, 3) ? 1 : x->dims[x->rank - rank + k];
  return leaf(p, recipe_once_in(p, 2) ? t : dtypes[recipe_any(p, COUNT(dtypes))], rank, dims);
}

static weft_dtype float_of(weft_dtype t) { return has_fractions(t) ? t : WEFT_F32; }

static void made(struct recipe *p, int kind, const char *op, int n, const int in[], struct plain v) {
  struct recipe_step *s = add(p, kind, op);
  s->n_in = n;
  for (int k = 0; k < n; k++) s->in[k] = in[k];
  s->value = v;
}

/* The dtype of an op's result, from its name: a letter of numbers, floats, bools, bits (no floats), integers, without bool. */
struct named { const char *name; char of; };
static bool takes(struct named op, weft_dtype t) {
  return op.of == '-' ? t != WEFT_BOOL : op.of == 'i' ? t != WEFT_BOOL && !has_fractions(t) : op.of == '&' ? !has_fractions(t) : true;
}
static weft_dtype gives(struct named op, weft_dtype t) { return op.of == 'f' ? float_of(t) : op.of == 'b' ? WEFT_BOOL : t; }

static void unary(struct recipe *p) {
  static const struct named ops[] = {
    { "abs", 'n' }, { "neg", '-' }, { "sqrt", 'f' }, { "rsqrt", 'f' }, { "exp", 'f' }, { "log", 'f' }, { "log1p", 'f' }, { "tanh", 'f' },
    { "sigmoid", 'f' }, { "isnan", 'b' }, { "isinf", 'b' }, { "isfinite", 'b' }, { "logical_not", 'b' }, { "not", '&' }, { "sign", 'n' },
    { "floor", 'n' }, { "ceil", 'n' }, { "trunc", 'n' }, { "round", 'n' }, { "square", 'n' }, { "reciprocal", 'f' },
    { "exp2", 'f' }, { "expm1", 'f' }, { "log2", 'f' }, { "log10", 'f' }, { "sin", 'f' }, { "cos", 'f' }, { "tan", 'f' }, { "asin", 'f' }, { "acos", 'f' },
    { "atan", 'f' }, { "sinh", 'f' }, { "cosh", 'f' }, { "asinh", 'f' }, { "acosh", 'f' }, { "atanh", 'f' }, { "erf", 'f' }, { "erfc", 'f' }, { "erfinv", 'f' },
    { "lgamma", 'f' }, { "gamma", 'f' }, { "digamma", 'f' }, { "trigamma", 'f' }, { "erfcx", 'f' }, { "erfcinv", 'f' }, { "ndtr", 'f' }, { "ndtri", 'f' }, { "log_ndtr", 'f' },
    { "log1mexp", 'f' }, { "logit", 'f' }, { "sinc", 'f' }, { "i0", 'f' }, { "i0e", 'f' }, { "i1", 'f' }, { "i1e", 'f' }, { "j0", 'f' }, { "j1", 'f' } };
  static const char *const of_complex[] = { "neg", "abs", "isnan", "conj", "real", "imag", "sqrt", "rsqrt", "exp", "log", "sin", "tanh", "sigmoid", "isinf", "isfinite", "logical_not", "square", "reciprocal" };
  int a = pick(p), k = (int)recipe_any(p, COUNT(ops));
  weft_dtype t = value(p, a)->dtype;
  if (plain_is_complex(t)) {
    const char *op = of_complex[recipe_any(p, COUNT(of_complex))];
    const struct plain *z[] = { value(p, a) };
    weft_dtype out = !strncmp(op, "is", 2) || !strncmp(op, "logical", 7) ? WEFT_BOOL : !strcmp(op, "abs") || !strcmp(op, "real") || !strcmp(op, "imag") ? plain_part_dtype(t) : t;
    made(p, ELEMENT, op, 1, &a, plain_element(op, out, 1, z));
    return;
  }
  if (!takes(ops[k], t)) k = 0;
  const struct plain *in[] = { value(p, a) };
  made(p, ELEMENT, ops[k].name, 1, &a, plain_element(ops[k].name, gives(ops[k], t), 1, in));
}

static weft_dtype promoted(struct recipe *p, int a, int b) { /* a weak one takes the other's */
  weft_dtype ta = value(p, a)->dtype, tb = value(p, b)->dtype;
  return recipe_is_weak(p, b) ? ta : recipe_is_weak(p, a) ? tb : weft_dtype_promote(ta, tb);
}

static void binary(struct recipe *p) {
  static const struct named ops[] = {
    { "add", 'n' }, { "sub", 'n' }, { "mul", 'n' }, { "div", 'f' }, { "maximum", 'n' }, { "minimum", 'n' }, { "add", 'n' }, { "mul", 'n' },
    { "sub", 'n' }, { "eq", 'b' }, { "ne", 'b' }, { "lt", 'b' }, { "le", 'b' }, { "gt", 'b' }, { "ge", 'b' }, { "and", '&' }, { "or", '&' },
    { "xor", '&' }, { "logical_and", 'b' }, { "logical_or", 'b' }, { "logical_xor", 'b' }, { "shl", 'i' }, { "shr", 'i' }, { "floor_divide", 'n' },
    { "remainder", 'n' }, { "fmod", 'n' }, { "pow", 'n' }, { "atan2", 'f' }, { "hypot", 'f' }, { "logaddexp", 'f' },
    { "xlogy", 'f' }, { "xlog1py", 'f' }, { "zeta", 'f' }, { "polygamma", 'f' }, { "beta", 'f' }, { "gammainc", 'f' },
    { "gammaincinv", 'f' }, { "gammainccinv", 'f' }, { "iv", 'f' }, { "ive", 'f' }, { "jv", 'f' }, { "kv", 'f' }, { "kve", 'f' }, { "owens_t", 'f' } };
  int a = pick(p), k = (int)recipe_any(p, COUNT(ops));
  int in[2] = { a, partner(p, a, value(p, a)->dtype) };
  if (recipe_once_in(p, 3)) { int t = in[0]; in[0] = in[1], in[1] = t; }
  weft_dtype met = promoted(p, in[0], in[1]);
  if (plain_is_complex(met) ? k > 3 && k != 9 && k != 10 : !takes(ops[k], met)) k %= 3;
  const struct plain *x[] = { value(p, in[0]), value(p, in[1]) };
  made(p, ELEMENT, ops[k].name, 2, in, plain_element(ops[k].name, gives(ops[k], met), 2, x));
}

static void ternary(struct recipe *p) {
  bool is_where = recipe_any(p, 2);
  int a = pick(p), b = partner(p, a, value(p, a)->dtype), rank;
  int64_t dims[PLAIN_RANK];
  weft_dtype met = promoted(p, a, b);
  if (!fits(p, a, b) || !plain_common(2, (const struct plain *[]){ value(p, a), value(p, b) }, &rank, dims)) return;
  int in[3];
  if (is_where) {
    in[0] = leaf(p, WEFT_BOOL, rank, dims), in[1] = a, in[2] = b;
  } else {
    in[0] = a, in[1] = b, in[2] = leaf(p, met, rank, dims);
  }
  const struct plain *x[] = { value(p, in[0]), value(p, in[1]), value(p, in[2]) };
  static const char *const ops[] = { "fma", "betainc", "betainc_da", "betaincinv" };
  int k = is_where || plain_is_complex(met) ? 0 : (int)recipe_any(p, COUNT(ops));
  const char *op = is_where ? "where" : ops[k];
  made(p, ELEMENT, op, 3, in, plain_element(op, k ? float_of(met) : met, 3, x));
}

static void cast(struct recipe *p) {
  int a = pick(p);
  weft_dtype t = dtypes[recipe_any(p, COUNT(dtypes))];
  made(p, CAST, "cast", 1, &a, plain_cast(value(p, a), t));
}

static weft_dtype sum_of(weft_dtype t) {
  if (t == WEFT_BOOL || t == WEFT_I8 || t == WEFT_I16) return WEFT_I32;
  return t == WEFT_U8 || t == WEFT_U16 ? WEFT_U32 : t;
}

static weft_dtype reduced(const char *op, weft_dtype t) {
  if (!strcmp(op, "sum") || !strcmp(op, "prod")) return sum_of(t);
  if (!strncmp(op, "arg", 3)) return WEFT_I64;
  return !strcmp(op, "all") || !strcmp(op, "any") ? WEFT_BOOL : !strcmp(op, "logsumexp") ? float_of(t) : t;
}

static bool has_neutral(const char *op) { return strcmp(op, "max") && strcmp(op, "min") && strncmp(op, "arg", 3); }

static void reduce(struct recipe *p) {
  static const char *const names[] = { "sum", "sum", "sum", "prod", "max", "min", "all", "any", "logsumexp", "argmax", "argmin" };
  int a = pick(p), k = (int)recipe_any(p, COUNT(names));
  const struct plain *x = value(p, a);
  bool is_all = recipe_once_in(p, 6), is_arg = k >= 9;
  weft_dtype out = reduced(names[k], x->dtype);
  bool is_complex = plain_is_complex(x->dtype);
  if (!x->rank || (!strcmp(names[k], "logsumexp") && x->count > 3000) || (is_complex && x->count > 400 && !strcmp(names[k], "prod"))) return;
  if (is_complex && (!has_neutral(names[k]) || !strcmp(names[k], "logsumexp"))) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  if (!has_neutral(names[k]) && (is_all ? x->count == 0 : x->dims[axis] == 0)) return;
  if (!is_all) {
    struct plain y = plain_reduce(names[k], out, x, axis);
    made(p, REDUCE, names[k], 1, &a, y);
    p->step[p->n - 1].p[0] = axis;
    return;
  }
  bool is_flat = is_arg || !strcmp(names[k], "logsumexp"); /* one logarithm, not one an axis */
  struct plain y = is_flat ? plain_reshape(x, 1, &x->count) : plain_cast(x, x->dtype);
  for (int d = y.rank - 1; d >= 0; d--) {
    struct plain z = plain_reduce(names[k], out, &y, d);
    plain_free(&y);
    y = z;
  }
  struct plain r = plain_reshape(&y, 0, NULL);
  plain_free(&y);
  made(p, REDUCE_ALL, names[k], 1, &a, r);
}

/* sum(x, axis) / n, in f32 if narrow */
static void mean(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (!x->rank) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  weft_dtype out = float_of(x->dtype), wide = out == WEFT_F64 || plain_is_complex(out) ? out : WEFT_F32;
  struct plain w = plain_cast(x, wide), s = plain_reduce("sum", wide, &w, axis), n = plain_new(wide, 0, NULL);
  plain_set_f(&n, 0, x->dims[axis]);
  struct plain q = plain_element("div", wide, 2, (const struct plain *[]){ &s, &n });
  made(p, MEAN, "mean", 1, &a, plain_cast(&q, out));
  p->step[p->n - 1].p[0] = axis;
  plain_free(&w), plain_free(&s), plain_free(&n), plain_free(&q);
}

/* e (1 / sum(e)), e = exp(x - max(x)) */
static void softmax(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (!x->rank || plain_is_complex(x->dtype)) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  weft_dtype out = float_of(x->dtype), wide = out == WEFT_F64 ? out : WEFT_F32;
  if (x->dims[axis] == 0) return;
  struct plain w = plain_cast(x, wide), m = plain_reduce("max", wide, &w, axis);
  struct plain d = plain_element("sub", wide, 2, (const struct plain *[]){ &w, &m }), e = plain_element("exp", wide, 1, (const struct plain *[]){ &d });
  struct plain s = plain_reduce("sum", wide, &e, axis), one = plain_new(wide, 0, NULL);
  plain_set_f(&one, 0, 1);
  struct plain over = plain_element("div", wide, 2, (const struct plain *[]){ &one, &s });
  struct plain q = plain_element("mul", wide, 2, (const struct plain *[]){ &e, &over });
  made(p, SOFTMAX, "softmax", 1, &a, plain_cast(&q, out));
  p->step[p->n - 1].p[0] = axis;
  plain_free(&w), plain_free(&m), plain_free(&d), plain_free(&e), plain_free(&s), plain_free(&one), plain_free(&over), plain_free(&q);
}

static void prefix(struct recipe *p) {
  static const char *const names[] = { "cumsum", "cumsum", "cumprod", "cummax", "cummin" };
  int a = pick(p), k = (int)recipe_any(p, COUNT(names));
  const struct plain *x = value(p, a);
  if (!x->rank || (plain_is_complex(x->dtype) && (k > 2 || x->count > 400))) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  made(p, PREFIX, names[k], 1, &a, plain_prefix(names[k], k < 3 ? sum_of(x->dtype) : x->dtype, x, axis));
  p->step[p->n - 1].p[0] = axis;
}

static void reshape(struct recipe *p) {
  int a = pick(p), rank = 0;
  const struct plain *x = value(p, a);
  int64_t dims[PLAIN_RANK], rest = x->count;
  if (recipe_once_in(p, 3)) { /* an axis of length 1 comes or goes */
    int at = (int)recipe_any(p, (uint32_t)x->rank + 1);
    for (int k = 0; k < x->rank; k++) {
      if (k == at && rank < PLAIN_RANK - 1) dims[rank++] = 1;
      if (x->dims[k] != 1 || recipe_any(p, 2)) dims[rank++] = x->dims[k];
    }
  } else if (rest == 0) dims[rank++] = 0;
  else {
    while (rest > 1 && rank < 4) {
      int64_t d = 1 + recipe_any(p, (uint32_t)(rest > 64 ? 64 : rest));
      if (rest % d || (d == 1 && recipe_any(p, 4))) continue;
      dims[rank++] = d;
      rest /= d;
    }
    if (rest > 1) dims[rank++] = rest;
  }
  if (rank > 5) return;
  made(p, RESHAPE, "reshape", 1, &a, plain_reshape(x, rank, dims));
}

static void broadcast(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  int more = (int)recipe_any(p, 3), rank = x->rank + more;
  int64_t dims[PLAIN_RANK];
  if (rank > 5) return;
  for (int k = 0; k < rank; k++) {
    int64_t d = k < more ? 1 : x->dims[k - more];
    dims[k] = d == 1 ? any_size(p) : d;
  }
  if (bulk(rank, dims) > 20000) return;
  made(p, BROADCAST, "broadcast", 1, &a, plain_broadcast(x, rank, dims));
}

static void transpose(struct recipe *p) {
  int a = pick(p), axes[PLAIN_RANK];
  const struct plain *x = value(p, a);
  for (int k = 0; k < x->rank; k++) axes[k] = k;
  for (int k = x->rank - 1; k > 0; k--) {
    int j = (int)recipe_any(p, (uint32_t)k + 1), t = axes[k];
    axes[k] = axes[j], axes[j] = t;
  }
  made(p, TRANSPOSE, "transpose", 1, &a, plain_transpose(x, axes));
  for (int k = 0; k < value(p, a)->rank; k++) p->step[p->n - 1].p[k] = axes[k];
}

/* First, length and step of what Python's start:stop:step means, start and stop being in range. */
static bool any_bounds(struct recipe *p, int64_t n, int64_t *start, int64_t *stop, int64_t *length, int64_t *step) {
  static const int steps[] = { 1, 1, 1, -1, -1, 2, -2, 3, -3 };
  if (n == 0) return false;
  *step = steps[recipe_any(p, COUNT(steps))];
  *start = recipe_any(p, (uint32_t)n);
  int64_t most = *step > 0 ? (n - 1 - *start) / *step + 1 : *start / -*step + 1;
  *length = recipe_once_in(p, 3) ? most : (int64_t)recipe_any(p, (uint32_t)most + 1);
  *stop = *start + *length * *step;
  if (*step < 0 && *stop < 0) *stop = WEFT_BEGIN;
  if (*step > 0 && *stop > n) *stop = WEFT_END;
  return true;
}

static void slice(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  int64_t start, stop, length, step;
  if (!x->rank) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  if (recipe_once_in(p, 3)) {
    int64_t n = x->dims[axis];
    made(p, FLIP, "flip", 1, &a, plain_slice(x, axis, n - 1, n, -1));
    p->step[p->n - 1].p[0] = axis;
    return;
  }
  if (!any_bounds(p, x->dims[axis], &start, &stop, &length, &step)) return;
  made(p, SLICE, "slice", 1, &a, plain_slice(x, axis, start, length, step));
  int64_t params[] = { axis, start, stop, step };
  memcpy(p->step[p->n - 1].p, params, sizeof params);
}

/* A leaf of indices into an axis of n elements, from the end too. */
static int indices(struct recipe *p, int rank, const int64_t dims[], int64_t n) {
  static const weft_dtype kinds[] = { WEFT_I64, WEFT_I32, WEFT_I64, WEFT_U8, WEFT_I8 };
  weft_dtype t = kinds[recipe_any(p, COUNT(kinds))];
  int i = leaf(p, n > 127 ? WEFT_I32 : t, rank, dims);
  struct recipe_step *s = &p->step[i];
  struct plain *x = &s->value;
  s->is_index = true;
  for (int64_t j = 0; j < x->count; j++) {
    int64_t at[PLAIN_RANK], to = s->offset, v = recipe_any(p, (uint32_t)n);
    if (x->dtype != WEFT_U8 && recipe_once_in(p, 3)) v -= n;
    plain_index(x, j, at);
    for (int k = 0; k < x->rank; k++) to += at[k] * s->stride[k];
    struct plain all = { .dtype = x->dtype, .data = s->memory };
    plain_set_i(&all, to, v);
  }
  for (int64_t j = 0; j < x->count; j++) { /* again: elements may overlap */
    int64_t at[PLAIN_RANK], from = s->offset;
    struct plain all = { .dtype = x->dtype, .data = s->memory };
    plain_index(x, j, at);
    for (int k = 0; k < x->rank; k++) from += at[k] * s->stride[k];
    plain_set_i(x, j, plain_i(&all, from));
  }
  return i;
}

static bool any_indices(struct recipe *p, int a, int *n, int in[], struct plain *y) {
  const struct plain *x = value(p, a);
  int64_t dims[PLAIN_RANK];
  int rank = (int)recipe_any(p, 3);
  if (!x->rank) return false;
  *n = 1 + (int)recipe_any(p, x->rank > 1 && recipe_once_in(p, 3) ? 2 : 1);
  for (int k = 0; k < rank; k++) dims[k] = any_size(p);
  for (int k = 0; k < *n; k++) if (x->dims[k] == 0) return false;
  if (bulk(rank, dims) * bulk(x->rank - *n, x->dims + *n) > 20000 || rank + x->rank - *n > 5) return false;
  const struct plain *index[2];
  in[0] = a;
  for (int k = 0; k < *n; k++) in[k + 1] = indices(p, rank, dims, value(p, a)->dims[k]);
  for (int k = 0; k < *n; k++) index[k] = value(p, in[k + 1]);
  *y = plain_take(value(p, a), *n, index);
  return true;
}

static void take(struct recipe *p) {
  int a = pick(p), n, in[3];
  struct plain y;
  if (any_indices(p, a, &n, in, &y)) made(p, TAKE, "take", n + 1, in, y);
}

static void window(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (!x->rank) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  int64_t n = x->dims[axis];
  if (n == 0) return;
  bool is_at = recipe_once_in(p, 2);
  int64_t length = is_at ? 1 : recipe_any(p, (uint32_t)n + 1), at = recipe_any(p, (uint32_t)(n - length + 1));
  int i = leaf(p, recipe_once_in(p, 2) ? WEFT_I32 : WEFT_I64, 0, NULL);
  int64_t written = length && recipe_once_in(p, 2) ? at - n : at;
  p->step[i].is_index = true;
  struct plain all = { .dtype = value(p, i)->dtype, .data = p->step[i].memory };
  plain_set_i(&all, p->step[i].offset, written);
  plain_set_i(value(p, i), 0, written);
  struct plain w = plain_slice(value(p, a), axis, at, length, 1);
  if (is_at) {
    int64_t dims[PLAIN_RANK];
    int rank = 0;
    for (int k = 0; k < w.rank; k++) if (k != axis) dims[rank++] = w.dims[k];
    struct plain y = plain_reshape(&w, rank, dims);
    plain_free(&w);
    w = y;
  }
  made(p, is_at ? AT : WINDOW, is_at ? "at" : "window", 2, (int[]){ a, i }, w);
  p->step[p->n - 1].p[0] = axis;
  p->step[p->n - 1].p[1] = length;
}

/* v for a part: a leaf, or a step that has the very shape; cast and broadcast here. */
static int update_for(struct recipe *p, const struct plain *part, weft_dtype t, struct plain *wide) {
  int v = -1;
  for (int i = p->n - 1; i >= 0 && v < 0; i--) {
    const struct plain *x = value(p, i);
    bool fit = !recipe_is_weak(p, i) && x->rank == part->rank;
    for (int k = 0; fit && k < x->rank; k++) fit = x->dims[k] == part->dims[k] || x->dims[k] == 1;
    if (fit && recipe_any(p, 3)) v = i;
  }
  if (v < 0) v = recipe_once_in(p, 4) ? number(p, t) : leaf(p, recipe_once_in(p, 2) ? t : dtypes[recipe_any(p, COUNT(dtypes))], part->rank, part->dims);
  struct plain c = plain_cast(value(p, v), t);
  *wide = plain_broadcast(&c, part->rank, part->dims);
  plain_free(&c);
  return v;
}

static struct plain numbers_of(const struct plain *x) {
  struct plain n = plain_new(WEFT_I64, x->rank, x->dims);
  for (int64_t i = 0; i < n.count; i++) plain_set_i(&n, i, i);
  return n;
}

/* x[start:stop:step on some axes] how= v */
static void put_slice(struct recipe *p) {
  int a = pick(p);
  if (!value(p, a)->rank || value(p, a)->count == 0) return;
  weft_how how = (weft_how)recipe_any(p, plain_is_complex(value(p, a)->dtype) ? 3 : 5);
  struct plain part = numbers_of(value(p, a)), wide;
  int64_t params[RECIPE_PARAMS] = { how };
  int n = 1 + (int)recipe_any(p, 2), filled = 0;
  for (int j = 0; j < n; j++) {
    int axis = (int)recipe_any(p, (uint32_t)part.rank);
    int64_t start, stop, length, step;
    if (!any_bounds(p, part.dims[axis], &start, &stop, &length, &step)) break;
    struct plain q = plain_slice(&part, axis, start, length, step);
    plain_free(&part);
    part = q;
    params[2 + 4 * filled] = axis, params[3 + 4 * filled] = start, params[4 + 4 * filled] = stop, params[5 + 4 * filled] = step;
    filled++;
  }
  params[1] = filled;
  int v = update_for(p, &part, value(p, a)->dtype, &wide);
  made(p, PUT_SLICE, "put", 2, (int[]){ a, v }, plain_put(value(p, a), &part, &wide, how));
  memcpy(p->step[p->n - 1].p, params, sizeof params);
  plain_free(&part);
  plain_free(&wide);
}

static void put_take(struct recipe *p) {
  int a = pick(p), n, in[4];
  struct plain unused, part, wide;
  weft_how how = (weft_how)recipe_any(p, plain_is_complex(value(p, a)->dtype) ? 3 : 5);
  if (!any_indices(p, a, &n, in, &unused)) return;
  plain_free(&unused);
  struct plain all = numbers_of(value(p, a));
  const struct plain *index[2] = { value(p, in[1]), n > 1 ? value(p, in[2]) : NULL };
  part = plain_take(&all, n, index);
  plain_free(&all);
  int v = update_for(p, &part, value(p, a)->dtype, &wide), order[4] = { a, v, in[1], in[2] };
  if (n < 2) order[3] = 0;
  if (RECIPE_ROWS * part.count > UPDATES) { plain_free(&part), plain_free(&wide); return; }
  made(p, PUT_TAKE, "put", n + 2, order, plain_put(value(p, a), &part, &wide, how));
  p->step[p->n - 1].p[0] = how;
  plain_free(&part);
  plain_free(&wide);
}

static void concat(struct recipe *p) {
  int a = pick(p), n = 1 + (int)recipe_any(p, 3), in[4] = { a };
  if (!value(p, a)->rank || bulk(value(p, a)->rank, value(p, a)->dims) > MOST_ELEMENTS) return;
  int axis = (int)recipe_any(p, (uint32_t)value(p, a)->rank);
  for (int k = 1; k < n; k++) {
    int b = pick(p);
    const struct plain *x = value(p, a), *y = value(p, b);
    bool fit = y->rank == x->rank && y->dtype == x->dtype;
    for (int j = 0; fit && j < x->rank; j++) fit = j == axis || x->dims[j] == y->dims[j];
    if (!fit) {
      int64_t dims[PLAIN_RANK];
      memcpy(dims, x->dims, sizeof dims);
      dims[axis] = any_size(p);
      if (bulk(x->rank, dims) > MOST_ELEMENTS) return;
      b = leaf(p, x->dtype, x->rank, dims);
    }
    in[k] = b;
  }
  const struct plain *x[4];
  for (int k = 0; k < n; k++) x[k] = value(p, in[k]);
  made(p, CONCAT, "concat", n, in, plain_concat(axis, n, x));
  p->step[p->n - 1].p[0] = axis;
}

static void pad(struct recipe *p) {
  int a = pick(p);
  if (!value(p, a)->rank || bulk(value(p, a)->rank, value(p, a)->dims) > MOST_ELEMENTS) return;
  int axis = (int)recipe_any(p, (uint32_t)value(p, a)->rank), v = recipe_once_in(p, 3) ? leaf(p, value(p, a)->dtype, 0, NULL) : number(p, value(p, a)->dtype);
  int64_t before = recipe_any(p, 4), after = recipe_any(p, 4);
  made(p, PAD, "pad", 2, (int[]){ a, v }, plain_pad(value(p, a), axis, before, after, value(p, v)));
  int64_t params[] = { axis, before, after };
  memcpy(p->step[p->n - 1].p, params, sizeof params);
}

/* Numbers of 8 bits, so that no order of the sum makes a difference. */
static int small(struct recipe *p, int a, weft_dtype t) {
  made(p, CAST, "cast", 1, &a, plain_cast(value(p, a), WEFT_I8));
  int i = p->n - 1;
  made(p, CAST, "cast", 1, &i, plain_cast(value(p, i), t));
  return p->n - 1;
}

static void matmul(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (x->rank < 2 || x->count > 3000 || x->dims[x->rank - 1] > 60 || !is_room(p, 6)) return;
  int64_t dims[PLAIN_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[x->rank - 2] = x->dims[x->rank - 1];
  dims[x->rank - 1] = any_size(p);
  if (bulk(x->rank, dims) > MOST_ELEMENTS) return;
  weft_dtype t = recipe_once_in(p, 3) ? WEFT_F64 : WEFT_F32;
  int b = leaf(p, recipe_once_in(p, 2) ? t : WEFT_I8, value(p, a)->rank, dims), in[2] = { small(p, a, t), 0 };
  in[1] = small(p, b, t);
  made(p, MATMUL, "matmul", 2, in, plain_matmul(value(p, in[0]), value(p, in[1]), t));
}

static void iota(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (!x->rank || x->dtype == WEFT_BOOL) return;
  int axis = (int)recipe_any(p, (uint32_t)x->rank);
  made(p, IOTA, "iota", 1, &a, plain_iota(x->dtype, x->rank, x->dims, axis));
  p->step[p->n - 1].p[0] = axis;
}

/* Element i of y is the element of x that from says; -1: 0. */
static struct plain moved(const struct plain *x, int rank, const int64_t dims[], const int64_t from[]) {
  struct plain y = plain_new(x->dtype, rank, dims);
  size_t size = weft_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < y.count; i++)
    if (from[i] >= 0) memcpy(y.data + (size_t)i * size, x->data + (size_t)from[i] * size, size);
  return y;
}

/* Any walk that stays inside, windows and steps backwards among them. */
static void strided(struct recipe *p) {
  int a = pick(p), rank = (int)recipe_any(p, 4);
  const struct plain *x = value(p, a);
  if (!x->count) return;
  int64_t dims[PLAIN_RANK], stride[PLAIN_RANK], low = 0, high = 0, n = 1, from[2048];
  for (int k = 0; k < rank; k++) {
    n *= dims[k] = recipe_any(p, 9);
    stride[k] = (int64_t)recipe_any(p, 7) - 3;
    int64_t far = (dims[k] ? dims[k] - 1 : 0) * stride[k];
    *(far < 0 ? &low : &high) += far;
  }
  if (high - low >= x->count || n > 2048) return;
  int64_t offset = (int64_t)recipe_any(p, (uint32_t)(x->count - (high - low))) - low;
  struct plain shape = plain_new(WEFT_BOOL, rank, dims);
  for (int64_t i = 0; i < n; i++) {
    int64_t at[PLAIN_RANK];
    plain_index(&shape, i, at);
    from[i] = offset;
    for (int k = 0; k < rank; k++) from[i] += at[k] * stride[k];
  }
  plain_free(&shape);
  made(p, STRIDED, "as_strided", 1, &a, moved(x, rank, dims, from));
  p->step[p->n - 1].p[0] = offset;
  memcpy(p->step[p->n - 1].p + 1, stride, (size_t)rank * sizeof *stride);
}

/* along: by an index of its own at every place; repeat: n times each; roll: by n; all along an axis. */
static void along_axis(struct recipe *p) {
  int a = pick(p), kind = (int[]){ ALONG, ROLL, REPEAT }[recipe_any(p, 3)];
  if (!value(p, a)->rank || !value(p, a)->count || value(p, a)->count > 4000) return;
  int axis = (int)recipe_any(p, (uint32_t)value(p, a)->rank), in[2] = { a, a };
  int64_t dims[PLAIN_RANK], size = value(p, a)->dims[axis], n = recipe_any(p, 4);
  memcpy(dims, value(p, a)->dims, sizeof dims);
  dims[axis] = kind == ROLL ? size : kind == REPEAT ? size * n : n;
  if (kind == ROLL) n = (int64_t)recipe_any(p, 90) - 45;
  if (kind == ALONG) in[1] = indices(p, value(p, a)->rank, dims, size);
  const struct plain *x = value(p, a);
  struct plain shape = plain_new(WEFT_BOOL, x->rank, dims);
  int64_t *from = malloc(sizeof *from * (size_t)(shape.count + 1));
  for (int64_t i = 0; from && i < shape.count; i++) {
    int64_t at[PLAIN_RANK], to;
    plain_index(&shape, i, at);
    to = kind == ALONG ? plain_i(value(p, in[1]), i) : kind == REPEAT ? at[axis] / n : at[axis] - n;
    at[axis] = (to % size + size) % size;
    from[i] = plain_at(x, at);
  }
  if (from) {
    made(p, kind, kind == ALONG ? "take_along" : kind == ROLL ? "roll" : "repeat", 1 + (kind == ALONG), in, moved(x, x->rank, dims, from));
    p->step[p->n - 1].p[0] = axis;
    p->step[p->n - 1].p[1] = n;
  }
  free(from);
  plain_free(&shape);
}

static void stack(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (x->rank > 4 || x->count > 4000) return;
  int64_t dims[PLAIN_RANK];
  int axis = (int)recipe_any(p, (uint32_t)x->rank + 1);
  for (int k = 0; k <= x->rank; k++) dims[k] = k == axis ? 1 : x->dims[k - (k > axis)];
  struct plain thin = plain_reshape(x, x->rank + 1, dims);
  made(p, STACK, "stack", 2, (int[]){ a, a }, plain_concat(axis, 2, (const struct plain *[]){ &thin, &thin }));
  p->step[p->n - 1].p[0] = axis;
  plain_free(&thin);
}

static void tril(struct recipe *p) {
  int a = pick(p);
  const struct plain *x = value(p, a);
  if (x->rank < 2 || x->count > 4000) return;
  int64_t k = (int64_t)recipe_any(p, 9) - 4, *from = malloc(sizeof *from * (size_t)(x->count + 1));
  for (int64_t i = 0; from && i < x->count; i++) {
    int64_t at[PLAIN_RANK];
    plain_index(x, i, at);
    from[i] = at[x->rank - 1] <= at[x->rank - 2] + k ? i : -1;
  }
  if (from) made(p, TRIL, "tril", 1, &a, moved(x, x->rank, x->dims, from)), p->step[p->n - 1].p[0] = k;
  free(from);
}

int recipe_most = RECIPE_STEPS;

static void make(struct recipe *p, uint64_t seed) {
  static void (*const kinds[])(struct recipe *) = { unary, unary, unary, binary, binary, binary, binary, binary, ternary, cast,
    reduce, reduce, reduce, mean, softmax, prefix, reshape, broadcast, transpose, slice, slice, take, window, put_slice, put_take,
    concat, pad, matmul, iota, strided, along_axis, along_axis, stack, tril };
  *p = (struct recipe){ .state = seed * 0x9e3779b97f4a7c15u + 1 };
  for (int i = 0; i < 4; i++) recipe_any(p, 2);
  p->has_long = recipe_once_in(p, 25);
  any_leaf(p);
  if (recipe_any(p, 2)) any_leaf(p);
  int wanted = 3 + (int)recipe_any(p, recipe_once_in(p, 4) ? 40 : 14), tries = 0;
  if (wanted > recipe_most) wanted = recipe_most;
  for (int n = 0; n < wanted && tries < 400 && is_room(p, 8); tries++) {
    int before = p->n;
    kinds[recipe_any(p, COUNT(kinds))](p);
    if (p->n > before && value(p, p->n - 1)->rank <= 6) n++;
    if (recipe_once_in(p, 12) && is_room(p, 8)) any_leaf(p);
  }
}

struct recipe *recipe_new(uint64_t seed) {
  struct recipe *p = malloc(sizeof *p);
  if (!p) abort();
  make(p, seed);
  return p;
}

void recipe_free(struct recipe *p) {
  for (int i = 0; i < p->n; i++) {
    plain_free(&p->step[i].value);
    free(p->step[i].memory);
  }
  free(p);
}

bool recipe_is_leaf(const struct recipe *p, int i) { return p->step[i].kind == LEAF; }
