/* reference.c -- see reference.h. */
#include "reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "graph/dtype.h"
#include "graph/function.h"
#include "run/buffer.h"

struct values { int n_out; double **out; };      /* of one node: several only for loops and the like */
struct place { struct node *node; double *data; };
struct machine { int n_given; struct place *given; bool failed; };

static int64_t count(const struct node *n) { return dim_count(n->rank, n->dims); }
int64_t elements(weft_array *a) { return count(a->node); }

static double *room(int64_t n) { return calloc((size_t)(n > 0 ? n : 1), sizeof(double)); }

/* Strides of a dense array, and an index as one number in it. */
static void dense(const struct node *n, int64_t stride[]) {
  int64_t s = 1;
  for (int k = n->rank - 1; k >= 0; s *= n->dims[k--]) stride[k] = s;
}

static void at(const struct node *n, int64_t i, int64_t index[]) {
  for (int k = n->rank - 1; k >= 0; i /= n->dims[k--]) index[k] = i % n->dims[k];
}

static int64_t flat(const struct node *n, const int64_t index[]) {
  int64_t stride[WEFT_RANK_MAX], i = 0;
  dense(n, stride);
  for (int k = 0; k < n->rank; k++) i += stride[k] * index[k];
  return i;
}

static double rounded(weft_dtype d, double x) {
  if (d == WEFT_BOOL) return x != 0;
  if (d == WEFT_F64) return x;
  if (dtype_is_float(d)) return dtype_decode(d, dtype_encode(d, x));
  if (fabs(x) >= 0x1p63) return dtype_decode(d, dtype_encode(d, x));
  int bits = 8 * (int)weft_dtype_bytes(d);
  uint64_t pattern = x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
  return dtype_decode(d, bits == 64 ? pattern : pattern & ((1ull << bits) - 1));
}

/* ---- One element ---- */

static double larger(double a, double b) { return a != a || b != b ? NAN : a > b ? a : b; }
static double smaller(double a, double b) { return a != a || b != b ? NAN : a < b ? a : b; }

/* The whole quotient, by C's fmod, and what it leaves; that of 0 is 0 for integers. */
static double remainder_of(double a, double b) {
  double r = fmod(a, b);
  return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}
static double quotient_of(double a, double b, bool is_float) {
  if (b == 0) return is_float ? a / b : 0;
  if (is_float && (isinf(a) || a != a || b != b)) return NAN;
  double r = fmod(a, b), q = rint((a - r) / b);
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

static double erfinv(double x) {
  double a = fabs(x), y = a < 0.5 ? a : sqrt(-log((1 - a) * (1 + a)));
  if (!(a < 1)) return a == 1 ? copysign(INFINITY, x) : NAN;
  for (int i = 0; i < 40 && a > 0; i++) {
    double d = (a < 0.5 ? a - erf(y) : erfc(y) - (1 - a)) * 0.88622692545275801365 * exp(y * y);
    y += d / (1 - y * d);
  }
  return copysign(y, x);
}

static double power(double x, double n, weft_dtype d) {
  if (dtype_is_float(d)) return pow(x, n);
  if (n < 0) return x == 1 ? 1 : x == -1 ? (fmod(n, 2) != 0 ? -1 : 1) : 0;
  uint64_t y = 1, f = (uint64_t)(int64_t)x;
  for (uint64_t rest = (uint64_t)n; rest; rest >>= 1, f *= f)
    if (rest & 1) y *= f;
  int width = 8 * (int)weft_dtype_bytes(d);
  return dtype_decode(d, width == 64 ? y : y & ((1ull << width) - 1));
}

static double shifted(int width, int64_t a, int64_t b, bool is_left) {
  if (b < 0 || b >= width) return is_left || a >= 0 ? 0 : -1;
  return (double)(is_left ? (int64_t)((uint64_t)a << b) : a >> b);
}

static bool element(const struct node *n, const double x[], double *y) {
  const char *op = n->op->name;
  weft_dtype in = (weft_dtype)n->in[0]->dtype;
  int64_t a = dtype_is_float(in) ? 0 : (int64_t)x[0], b = n->n_in > 1 && !dtype_is_float(in) ? (int64_t)x[1] : 0;
  int width = 8 * (int)weft_dtype_bytes(in);
#define IS(name) !strcmp(op, name)
  if (IS("neg")) *y = -x[0];
  else if (IS("abs")) *y = fabs(x[0]);
  else if (IS("sign")) *y = x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0];
  else if (IS("floor")) *y = floor(x[0]);
  else if (IS("ceil")) *y = ceil(x[0]);
  else if (IS("trunc")) *y = trunc(x[0]);
  else if (IS("round")) *y = rint(x[0]);
  else if (IS("sqrt")) *y = sqrt(x[0]);
  else if (IS("rsqrt")) *y = 1 / sqrt(x[0]);
  else if (IS("exp")) *y = exp(x[0]);
  else if (IS("log")) *y = log(x[0]);
  else if (IS("log1p")) *y = log1p(x[0]);
  else if (IS("exp2")) *y = exp2(x[0]);
  else if (IS("expm1")) *y = expm1(x[0]);
  else if (IS("log2")) *y = log2(x[0]);
  else if (IS("log10")) *y = log10(x[0]);
  else if (IS("sin")) *y = sin(x[0]);
  else if (IS("cos")) *y = cos(x[0]);
  else if (IS("tan")) *y = tan(x[0]);
  else if (IS("asin")) *y = asin(x[0]);
  else if (IS("acos")) *y = acos(x[0]);
  else if (IS("atan")) *y = atan(x[0]);
  else if (IS("sinh")) *y = sinh(x[0]);
  else if (IS("cosh")) *y = cosh(x[0]);
  else if (IS("asinh")) *y = asinh(x[0]);
  else if (IS("acosh")) *y = acosh(x[0]);
  else if (IS("atanh")) *y = atanh(x[0]);
  else if (IS("erf")) *y = erf(x[0]);
  else if (IS("erfc")) *y = erfc(x[0]);
  else if (IS("erfinv")) *y = erfinv(x[0]);
  else if (IS("tanh")) *y = tanh(x[0]);
  else if (IS("pow")) *y = power(x[0], x[1], in);
  else if (IS("atan2")) *y = atan2(x[0], x[1]);
  else if (IS("hypot")) *y = hypot(x[0], x[1]);
  else if (IS("logaddexp")) *y = x[0] == x[1] ? x[0] + log(2) : larger(x[0], x[1]) + log1p(exp(-fabs(x[0] - x[1])));
  else if (IS("sigmoid")) *y = x[0] < 0 ? exp(x[0]) / (1 + exp(x[0])) : 1 / (1 + exp(-x[0]));
  else if (IS("isnan")) *y = x[0] != x[0];
  else if (IS("real") || IS("conj")) *y = x[0]; /* of real numbers; complex ones: complex.c */
  else if (IS("imag")) *y = 0;
  else if (IS("isinf")) *y = isinf(x[0]);
  else if (IS("isfinite")) *y = isfinite(x[0]);
  else if (IS("logical_not")) *y = !x[0];
  else if (IS("logical_and")) *y = x[0] && x[1];
  else if (IS("logical_or")) *y = x[0] || x[1];
  else if (IS("logical_xor")) *y = !x[0] != !x[1];
  else if (IS("floor_divide")) *y = quotient_of(x[0], x[1], dtype_is_float(in));
  else if (IS("remainder")) *y = dtype_is_float(in) || x[1] ? remainder_of(x[0], x[1]) : x[0];
  else if (IS("fmod")) *y = dtype_is_float(in) || x[1] ? fmod(x[0], x[1]) : x[0];
  else if (IS("shl")) *y = shifted(width, a, b, true);
  else if (IS("shr")) *y = shifted(width, a, b, false);
  else if (IS("not")) *y = in == WEFT_BOOL ? !x[0] : (double)~a;
  else if (IS("add")) *y = x[0] + x[1];
  else if (IS("sub")) *y = in == WEFT_BOOL ? (x[0] != x[1]) : x[0] - x[1];
  else if (IS("mul")) *y = x[0] * x[1];
  else if (IS("scale")) *y = x[0] == 0 ? x[0] : x[0] * x[1];
  else if (IS("div")) *y = x[0] / x[1];
  else if (IS("maximum")) *y = larger(x[0], x[1]);
  else if (IS("minimum")) *y = smaller(x[0], x[1]);
  else if (IS("eq")) *y = x[0] == x[1];
  else if (IS("ne")) *y = x[0] != x[1];
  else if (IS("lt")) *y = x[0] < x[1];
  else if (IS("le")) *y = x[0] <= x[1];
  else if (IS("and")) *y = (double)(a & b);
  else if (IS("or")) *y = (double)(a | b);
  else if (IS("xor")) *y = (double)(a ^ b);
  else if (IS("where")) *y = x[0] != 0 ? x[1] : x[2];
  else if (IS("fma")) *y = fma(x[0], x[1], x[2]);
  else if (IS("cast"))
    *y = dtype_is_integer((weft_dtype)n->dtype) && dtype_is_float(in)
             ? dtype_decode((weft_dtype)n->dtype, dtype_encode((weft_dtype)n->dtype, x[0]))
             : x[0];
  else return false;
  return true;
}

static bool elements_of(const struct node *n, double *const in[], double *y) {
  double x[8];
  for (int64_t i = 0; i < count(n); i++) {
    for (int k = 0; k < n->n_in; k++) x[k] = in[k][i];
    if (!element(n, x, &y[i])) return false;
  }
  return true;
}

/* ---- Along an axis ---- */

static double fold(const char *op, int64_t n, const double x[]) {
  double y = IS("prod") ? 1 : IS("all") ? 1 : IS("max") ? -INFINITY : IS("min") ? INFINITY : 0, best = NAN;
  if (IS("logsumexp")) {
    for (int64_t i = 0; i < n; i++) best = i ? larger(best, x[i]) : x[i];
    for (int64_t i = 0; i < n; i++) y += x[i] == best ? 1 : exp(x[i] - best);
    return n ? best + log(y) : -INFINITY;
  }
  for (int64_t i = 0; i < n; i++) {
    if (IS("sum")) y += x[i];
    else if (IS("prod")) y *= x[i];
    else if (IS("max")) y = larger(y, x[i]);
    else if (IS("min")) y = smaller(y, x[i]);
    else if (IS("all")) y = y && x[i];
    else if (IS("any")) y = y || x[i];
    else {
      bool is_better = i == 0 || (best == best && (x[i] != x[i] || (IS("argmax") ? x[i] > best : x[i] < best)));
      if (is_better) y = (double)i, best = x[i];
    }
  }
  return y;
}

static double run(const char *op, int64_t i, double so_far, double x) {
  if (i == 0) return x;
  return IS("cumsum") ? so_far + x : IS("cumprod") ? so_far * x : IS("cummax") ? larger(so_far, x) : smaller(so_far, x);
}

static void along(const struct node *n, const double *x, double *y) {
  const struct node *in = n->in[0];
  int axis = ((const struct axis_attr *)n->attr)->axis;
  int64_t index[WEFT_RANK_MAX], stride[WEFT_RANK_MAX], length = in->dims[axis];
  double *row = room(length);
  dense(in, stride);
  for (int64_t i = 0; i < count(n); i++) {
    at(n, i, index);
    if (index[axis]) continue;
    int64_t base = flat(in, index);
    for (int64_t j = 0; j < length; j++) row[j] = x[base + j * stride[axis]];
    if (n->op->kind == OP_REDUCE) y[i] = fold(n->op->name, length, row);
    double so_far = 0;
    for (int64_t j = 0; n->op->kind == OP_PREFIX && j < length; j++)
      y[base + j * stride[axis]] = so_far = run(n->op->name, j, so_far, row[j]);
  }
  free(row);
}

/* ---- Moving ---- */

static int64_t source(const struct node *n, const int64_t index[], int64_t i) {
  const struct node *x = n->in[0];
  int64_t from[WEFT_RANK_MAX] = { 0 };
  if (n->op == &op_reshape) return i;
  if (n->op == &op_broadcast) {
    for (int k = 0; k < x->rank; k++) from[k] = x->dims[k] == 1 ? 0 : index[n->rank - x->rank + k];
  } else if (n->op == &op_transpose) {
    for (int k = 0; k < n->rank; k++) from[((const int *)n->attr)[k]] = index[k];
  } else {
    const struct slice_attr *a = n->attr;
    memcpy(from, index, (size_t)n->rank * sizeof *from);
    from[a->axis] = a->start + index[a->axis] * a->step;
  }
  return flat(x, from);
}

static void view(const struct node *n, const double *x, double *y) {
  int64_t index[WEFT_RANK_MAX];
  for (int64_t i = 0; i < count(n); i++) at(n, i, index), y[i] = x[source(n, index, i)];
}

/* Where in x the element i of I + rest lies. -1: out of range. */
static int64_t indexed(const struct node *x, const struct node *part, int n, struct node *const index_node[],
                       double *const index[], int64_t i) {
  int64_t where[WEFT_RANK_MAX], from[WEFT_RANK_MAX];
  const struct node *I = index_node[0];
  at(part, i, where);
  for (int k = 0; k < n; k++) {
    int64_t j = (int64_t)index[k][flat(I, where)];
    if (j < 0) j += x->dims[k];
    if (j < 0 || j >= x->dims[k]) return -1;
    from[k] = j;
  }
  for (int k = n; k < x->rank; k++) from[k] = where[I->rank + k - n];
  return flat(x, from);
}

static bool take(const struct node *n, double *const in[], double *y) {
  for (int64_t i = 0; i < count(n); i++) {
    int64_t j = indexed(n->in[0], n, n->n_in - 1, n->in + 1, in + 1, i);
    if (j < 0) return false;
    y[i] = in[0][j];
  }
  return true;
}

static double combined(weft_how how, double a, double b) {
  return how == WEFT_SET   ? b
         : how == WEFT_ADD ? a + b
         : how == WEFT_MUL ? a * b
         : how == WEFT_MIN ? smaller(a, b)
                           : larger(a, b);
}

static bool put(const struct node *n, double *const in[], double *y) {
  const struct put_attr *a = n->attr;
  const struct node *v = n->in[1];
  int64_t index[WEFT_RANK_MAX];
  bool is_scatter = n->op == &op_scatter;
  weft_how how = is_scatter ? ((const struct scatter_attr *)n->attr)->how : (weft_how)a->how;
  memcpy(y, in[0], (size_t)count(n) * sizeof *y);
  for (int64_t i = 0; i < count(v); i++) {
    at(v, i, index);
    for (int k = 0; !is_scatter && k < n->rank; k++) index[k] = a->start[k] + index[k] * a->step[k];
    int64_t j = is_scatter ? indexed(n->in[0], v, n->n_in - 2, n->in + 2, in + 2, i) : flat(n, index);
    if (j < 0) return false;
    y[j] = combined(how, y[j], in[1][i]);
  }
  return true;
}

static void concat(const struct node *n, double *const in[], double *y) {
  int axis = ((const struct axis_attr *)n->attr)->axis;
  int64_t index[WEFT_RANK_MAX], start = 0;
  for (int k = 0; k < n->n_in; start += n->in[k++]->dims[axis])
    for (int64_t i = 0; i < count(n->in[k]); i++) {
      at(n->in[k], i, index);
      index[axis] += start;
      y[flat(n, index)] = in[k][i];
    }
}

static void pad(const struct node *n, double *const in[], double *y) {
  const struct pad_attr *a = n->attr;
  int64_t index[WEFT_RANK_MAX];
  for (int64_t i = 0; i < count(n); i++) {
    at(n, i, index);
    index[a->axis] -= a->before;
    y[i] = index[a->axis] < 0 || index[a->axis] >= n->in[0]->dims[a->axis] ? in[1][0] : in[0][flat(n->in[0], index)];
  }
}

static void matmul(const struct node *n, double *const in[], double *y) {
  int r = n->rank;
  int64_t index[WEFT_RANK_MAX], a[WEFT_RANK_MAX], b[WEFT_RANK_MAX];
  for (int64_t i = 0; i < count(n); i++) {
    at(n, i, index);
    memcpy(a, index, sizeof a);
    memcpy(b, index, sizeof b);
    for (int64_t k = 0; k < n->in[0]->dims[r - 1]; k++) {
      a[r - 1] = b[r - 2] = k;
      y[i] += in[0][flat(n->in[0], a)] * in[1][flat(n->in[1], b)];
    }
  }
}

/* ---- Leaves ---- */

static bool leaf(const struct node *n, double *y) {
  if (n->op == &op_scalar) return y[0] = dtype_decode((weft_dtype)n->dtype, scalar_bits(n, (weft_dtype)n->dtype)), true;
  if (!n->value) return false;
  void *data;
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  int64_t index[WEFT_RANK_MAX];
  if (buffer_hold(n->value->buf, NULL, &data, NULL)) return false;
  for (int64_t i = 0; i < count(n); i++) {
    int64_t from = n->value->offset;
    uint64_t bits = 0;
    at(n, i, index);
    for (int k = 0; k < n->rank; k++) from += index[k] * n->value->stride[k];
    memcpy(&bits, (const char *)data + from * (int64_t)size, size);
    y[i] = dtype_decode((weft_dtype)n->dtype, bits);
  }
  buffer_drop(n->value->buf);
  return true;
}

/* ---- Graphs ---- */

static double **evaluate(struct machine *, int n, struct node *const target[]);

/* The results of a loop, a step at a time, the variables bound anew in each. */
static double **loop(struct machine *m, const struct node *n, double *const in[]) {
  const struct loop *l = ((const struct loop_attr *)n->attr)->loop;
  int n_target = l->n_all + l->n_carry + (l->until != NULL), n_var = l->n_seq + l->n_carry + l->n_const;
  int64_t steps = l->has_steps ? (int64_t)in[0][0] : l->steps, done = 0;
  double *const *seq = in + l->has_steps, *const *init = seq + l->n_seq, *const *constant = init + l->n_carry;
  double **out = calloc((size_t)(l->n_all + l->n_carry + 1), sizeof *out),
         **carry = calloc((size_t)l->n_carry + 1, sizeof *carry);
  struct node **target = calloc((size_t)n_target + 1, sizeof *target);
  struct machine inner = { .given = calloc((size_t)n_var + 1, sizeof *inner.given) };
  for (int k = 0; k < l->n_all; k++) target[k] = l->all[k], out[k] = room(steps * count(l->all[k]));
  for (int k = 0; k < l->n_carry; k++) target[l->n_all + k] = l->next[k];
  if (l->until) target[n_target - 1] = l->until;
  for (int k = 0; k < l->n_carry; k++) {
    carry[k] = room(count(l->carry_var[k]));
    memcpy(carry[k], init[k], (size_t)count(l->carry_var[k]) * sizeof(double));
  }
  for (int64_t t = 0, is_over = 0; t < steps && !is_over; t++, done++) {
    int64_t at_row = l->is_backward ? steps - 1 - t : t;
    inner.n_given = 0;
    for (int k = 0; k < l->n_seq; k++)
      inner.given[inner.n_given++] = (struct place){ l->seq_var[k], seq[k] + at_row * count(l->seq_var[k]) };
    for (int k = 0; k < l->n_carry; k++) inner.given[inner.n_given++] = (struct place){ l->carry_var[k], carry[k] };
    for (int k = 0; k < l->n_const; k++) inner.given[inner.n_given++] = (struct place){ l->const_var[k], constant[k] };
    double **y = evaluate(&inner, n_target, target);
    if (!y) { m->failed = true; break; }
    for (int k = 0; k < l->n_all; k++)
      memcpy(out[k] + at_row * count(l->all[k]), y[k], (size_t)count(l->all[k]) * sizeof(double));
    for (int k = 0; k < l->n_carry; k++) memcpy(carry[k], y[l->n_all + k], (size_t)count(l->next[k]) * sizeof(double));
    is_over = l->until && y[n_target - 1][0] != 0;
    for (int k = 0; k < n_target; k++) free(y[k]);
    free(y);
  }
  for (int k = 0; k < l->n_carry; k++) out[l->n_all + k] = carry[k];
  out[l->n_all + l->n_carry] = room(1);
  out[l->n_all + l->n_carry][0] = (double)done;
  free(carry);
  free(target);
  free(inner.given);
  return out;
}

static bool compute(struct machine *m, const struct node *n, double *const in[], double *y) {
  switch (n->op->kind) {
  case OP_LEAF: return leaf(n, y);
  case OP_ELEMENT: return elements_of(n, in, y);
  case OP_SIZE: return y[0] = (double)((const struct size_attr *)n->attr)->size, true;
  case OP_REDUCE: case OP_PREFIX: return along(n, in[0], y), true;
  case OP_VIEW: return view(n, in[0], y), true;
  case OP_TAKE: return take(n, in, y);
  case OP_PUT: case OP_SCATTER: return put(n, in, y);
  case OP_CONTRACT: return matmul(n, in, y), true;
  case OP_CONCAT: return concat(n, in, y), true;
  case OP_PAD: return pad(n, in, y), true;
  case OP_IDENTITY: return memcpy(y, in[0], (size_t)count(n) * sizeof *y), true;
  case OP_IOTA: {
    int64_t index[WEFT_RANK_MAX];
    for (int64_t i = 0; i < count(n); i++)
      at(n, i, index), y[i] = (double)index[((const struct axis_attr *)n->attr)->axis];
    return true;
  }
  default: return (void)m, false;
  }
}

static const double *given(const struct machine *m, const struct node *n) {
  for (int i = 0; i < m->n_given; i++)
    if (m->given[i].node == n) return m->given[i].data;
  return NULL;
}

static bool visit(struct machine *m, const struct node *n, struct values *all, struct values *v) {
  const double *data = given(m, n);
  double **in = calloc((size_t)n->n_in + 1, sizeof *in);
  bool ok = true;
  for (int k = 0; k < n->n_in; k++) in[k] = all[n->in[k]->slot].out[0];
  if (n->op->kind == OP_LOOP && !data) {
    const struct loop *l = ((const struct loop_attr *)n->attr)->loop;
    v->out = loop(m, n, in);
    v->n_out = l->n_all + l->n_carry + 1;
    ok = !m->failed;
  } else {
    v->out = calloc(1, sizeof *v->out);
    v->n_out = 1;
    v->out[0] = room(count(n));
    if (data) memcpy(v->out[0], data, (size_t)count(n) * sizeof(double));
    else if (n->op->kind == OP_ITEM)
      memcpy(v->out[0], all[n->in[0]->slot].out[((const struct item_attr *)n->attr)->k],
             (size_t)count(n) * sizeof(double));
    else ok = compute(m, n, in, v->out[0]);
    for (int64_t i = 0; i < count(n); i++) v->out[0][i] = rounded((weft_dtype)n->dtype, v->out[0][i]);
  }
  free(in);
  return ok;
}

/* One graph at a time: slots are those of the walk, and a body is walked again in each step. */
static double **evaluate(struct machine *m, int n, struct node *const target[]) {
  struct node_list list;
  graph_lock();
  bool ok = walk(&list, n, target, NULL);
  graph_unlock();
  if (!ok) return NULL;
  struct values *all = calloc((size_t)list.n + 1, sizeof *all);
  double **out = calloc((size_t)n + 1, sizeof *out);
  for (int i = 0; ok && i < list.n; i++) {
    for (int j = 0; j < list.n; j++) list.node[j]->slot = j;
    ok = visit(m, list.node[i], all, &all[i]);
  }
  for (int j = 0; j < list.n; j++) list.node[j]->slot = j;
  for (int i = 0; ok && i < n; i++) {
    out[i] = room(count(target[i]));
    memcpy(out[i], all[target[i]->slot].out[0], (size_t)count(target[i]) * sizeof(double));
  }
  for (int i = 0; i < list.n; i++) {
    for (int k = 0; k < all[i].n_out; k++) free(all[i].out[k]);
    free(all[i].out);
  }
  free(all);
  node_list_free(&list);
  if (ok) return out;
  free(out);
  return NULL;
}

double *reference(weft_array *y, int n, const struct binding given_to[]) {
  if (weft_check(y)) return NULL;
  struct machine m = { .n_given = n, .given = calloc((size_t)n + 1, sizeof *m.given) };
  for (int i = 0; i < n; i++) m.given[i] = (struct place){ given_to[i].x->node, (double *)(uintptr_t)given_to[i].data };
  struct node *target = y->node;
  double **out = evaluate(&m, 1, &target), *data = out ? out[0] : NULL;
  free(out);
  free(m.given);
  return data;
}
