/* random.c -- the names of the package weft.random. A draw takes a key, the parameters of its distribution, and, by name, the
 * shape, or an array that has it, and the dtype. */
#include "names.h"

/* ---- Calls ---- */

static int optional(PyObject *o, weft_array **a) {
  *a = o == Py_None ? NULL : convert_operand(o);
  return o != Py_None && !*a ? -1 : 0;
}

/* What a distribution of n parameters draws. */
static weft_array *draw(const struct name *row, int n, weft_array *key, weft_array *like, weft_array *const p[]) {
  void (*f)(void) = row->function;
  if (n == 1) return ((weft_array * (*)(weft_array *, weft_array *, weft_array *)) f)(key, like, p[0]);
  if (n == 2) return ((weft_array * (*)(weft_array *, weft_array *, weft_array *, weft_array *)) f)(key, like, p[0], p[1]);
  return ((weft_array * (*)(weft_array *, weft_array *, weft_array *, weft_array *, weft_array *)) f)(key, like, p[0], p[1], p[2]);
}

/* (shape, dtype, like): an array of that shape and dtype. What is not said is that of an array that would be drawn without. */
static weft_array *outline(const struct name *row, PyObject *const arg[], weft_array *without) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  weft_dtype d = weft_dtype_of(without);
  weft_array *like = without;
  if (arg[1] != Py_None && dtype_parse(arg[1], &d)) return NULL;
  if (arg[0] != Py_None && arg[2] != Py_None) return PyErr_SetString(PyExc_TypeError, "either shape or like, not both"), NULL;
  if (arg[0] == Py_None) {
    if (arg[2] != Py_None && !(like = convert_array(arg[2], NULL, 0))) return NULL;
    return weft_full_like(weft_cast(like, d), 0);
  }
  if (convert_shape(arg[0], &rank, dims)) return NULL;
  for (int k = 0; k < rank; k++)
    if (dims[k] < 0) {
      PyErr_Format(PyExc_ValueError, "random.%s: the size %lld on axis %d is negative", row->name, (long long)dims[k], k);
      return NULL;
    }
  return weft_full(d, rank, dims, 0);
}

static weft_array *drawn(const struct name *row, int n, PyObject *const arg[]) {
  weft_array *key = convert_operand(arg[0]), *p[3], *like = NULL;
  PyObject *const *last = arg + 1 + n;
  if (!key) return NULL;
  for (int i = 0; i < n; i++)
    if (optional(arg[1 + i], &p[i])) return NULL;
  int is_told = last[0] != Py_None || last[1] != Py_None || last[2] != Py_None;
  weft_array *without = draw(row, n, key, NULL, p);
  if (!is_told || weft_rank(without) < 0) return without;
  return (like = outline(row, last, without)) ? draw(row, n, key, like, p) : NULL;
}

/* (key, parameters.., shape, dtype, like) */
static weft_array *call_draw1(const struct name *row, PyObject *const arg[]) { return drawn(row, 1, arg); }
static weft_array *call_draw2(const struct name *row, PyObject *const arg[]) { return drawn(row, 2, arg); }
static weft_array *call_draw3(const struct name *row, PyObject *const arg[]) { return drawn(row, 3, arg); }

/* (seed) */
static weft_array *call_key(const struct name *row, PyObject *const arg[]) {
  PyObject *i = PyNumber_Index(arg[0]);
  int beyond = 0; /* 1: above 63 bits, as 2^64 - 1 is, which -1 means too; -1: below them */
  uint64_t seed = i ? (uint64_t)PyLong_AsLongLongAndOverflow(i, &beyond) : 0;
  if (beyond > 0) seed = PyLong_AsUnsignedLongLong(i);
  if (beyond < 0 || (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)))
    PyErr_Format(PyExc_ValueError, "key: %S has more than 64 bits", arg[0]);
  (void)row;
  Py_XDECREF(i);
  return PyErr_Occurred() ? NULL : weft_random_key(seed);
}

/* A key that was split from another is computed before it is split itself: `key, noise = split(key)` in a loop, of which only what
 * is drawn is ever asked for, would make the key of a thousand steps a chain of a thousand splits. Names stay as they are. */
static int link_ends(weft_array *key) {
  if (body_name() || weft_state_of(key, NULL) != WEFT_LAZY) return 0;
  weft_own(key);
  int failed = evaluate(1, &key);
  weft_disown(key);
  return failed && raised_no_value() ? (PyErr_Clear(), 0) : failed;
}

/* (key, n) */
static weft_array *call_split(const struct name *row, PyObject *const arg[]) {
  int64_t n;
  weft_array *key = convert_operand(arg[0]);
  (void)row;
  return key && !link_ends(key) && !convert_integer(arg[1], &n) ? weft_random_split(key, n) : NULL;
}

/* (key, shape, dtype, like) */
static weft_array *call_bits(const struct name *row, PyObject *const arg[]) {
  weft_array *key = convert_operand(arg[0]), *like = key ? outline(row, arg + 1, weft_full(WEFT_U32, 0, NULL, 0)) : NULL;
  return like ? weft_random_bits(key, like) : NULL;
}

/* (key, logits, axis, shape) */
static weft_array *call_categorical(const struct name *row, PyObject *const arg[]) {
  int64_t axis, dims[WEFT_RANK_MAX];
  int rank;
  weft_array *key = convert_operand(arg[0]), *logits = key ? convert_operand(arg[1]) : NULL;
  (void)row;
  if (!logits || convert_integer(arg[2], &axis)) return NULL;
  if (axis < -WEFT_RANK_MAX || axis >= WEFT_RANK_MAX)
    return PyErr_Format(PyExc_ValueError, "there is no axis %lld", (long long)axis), NULL;
  if (arg[3] == Py_None) return weft_random_categorical(key, NULL, logits, (int)axis);
  if (convert_shape(arg[3], &rank, dims)) return NULL;
  return weft_random_categorical(key, weft_full(WEFT_I32, rank, dims, 0), logits, (int)axis);
}

/* (key, x, axis); of a number n: of 0 .. n - 1, by its order */
static weft_array *call_ordered(const struct name *row, PyObject *const arg[]) {
  int64_t axis, n;
  weft_array *key = convert_operand(arg[0]);
  if (!key || convert_integer(arg[2], &axis)) return NULL;
  if (axis < -WEFT_RANK_MAX || axis >= WEFT_RANK_MAX)
    return PyErr_Format(PyExc_ValueError, "there is no axis %lld", (long long)axis), NULL;
  if (PyLong_Check(arg[1]) && !PyBool_Check(arg[1])) {
    if (convert_integer(arg[1], &n)) return NULL;
    if (n < 0) return PyErr_Format(PyExc_ValueError, "random.permutation: %lld numbers", (long long)n), NULL;
    return weft_argsort(weft_random_bits(key, weft_full(WEFT_U32, 1, &n, 0)), 0);
  }
  weft_array *x = convert_operand(arg[1]);
  return x ? ((weft_array * (*)(weft_array *, weft_array *, int)) row->function)(key, x, (int)axis) : NULL;
}

/* (key, a, shape, replace, p) */
static weft_array *call_choice(const struct name *row, PyObject *const arg[]) {
  int64_t n, dims[WEFT_RANK_MAX];
  int rank = 0, is_replaced = PyObject_IsTrue(arg[3]);
  weft_array *key = convert_operand(arg[0]), *x = NULL, *p = NULL;
  (void)row;
  if (!key || is_replaced < 0) return NULL;
  if (PyLong_Check(arg[1]) && !PyBool_Check(arg[1])) {
    if (convert_integer(arg[1], &n)) return NULL;
    if (n < 0) return PyErr_Format(PyExc_ValueError, "random.choice: of %lld numbers", (long long)n), NULL;
    x = weft_iota(weft_full(WEFT_I64, 1, &n, 0), 0);
  } else if (!(x = convert_operand(arg[1]))) return NULL;
  if (arg[4] != Py_None && !(p = convert_operand(arg[4]))) return NULL;
  if (arg[2] != Py_None && convert_shape(arg[2], &rank, dims)) return NULL;
  return weft_random_choice(key, weft_full(WEFT_I32, rank, dims, 0), x, p, !is_replaced);
}

/* ---- The table ---- */

#define LAST ", *, shape=None, dtype=None, like=None)"
#define ROW(name, signature, call, doc, example, result) \
  { #name, signature, "weft_random_" #name, (void (*)(void))weft_random_##name, call, NULL, 0, doc, example, result }
#define KEY "(weft.random.key(1), "
#define DRAW1(name, a, doc, with) ROW(name, "(key, " a LAST, call_draw1, doc, #name KEY with "shape=(2, 0))", "[[], []]")
#define DRAW2(name, a, b, doc, with) ROW(name, "(key, " a ", " b LAST, call_draw2, doc, #name KEY with "shape=(2, 0))", "[[], []]")
#define DRAW3(name, a, b, c, doc, with) \
  ROW(name, "(key, " a ", " b ", " c LAST, call_draw3, doc, #name KEY with "shape=(2, 0))", "[[], []]")

const struct name random_names[] = {
  ROW(key, "(seed)", call_key, "a key: uint32 [2], the high half of the seed and the low one", "key(5)", "[0, 5]"),
  ROW(split, "(key, n=2)", call_split, "n new keys, uint32 [n, 2]", "split(weft.random.key(0))",
      "[[4146024105, 967050713], [2718843009, 1272950319]]"),
  ROW(bits, "(key, *, shape=None, dtype=None, like=None)", call_bits,
      "integers, uint32 unless a dtype is given, of which every bit is drawn",
      "bits(weft.random.key(0), shape=2)", "[928981903, 3453687069]"),
  ROW(randint, "(key, low, high" LAST, call_draw2, "low <= x < high; of a range beyond 2^24 not every number",
      "randint(weft.random.key(3), -5, 10, shape=4)", "[-2, -5, 4, 0]"),
  DRAW2(uniform, "low=None", "high=None", "low [0] <= x < high [1]", ""),
  DRAW2(normal, "mean=None", "sd=None", "normal, of mean 0 and sd 1 unless they are given", ""),
  DRAW2(truncated_normal, "low=None", "high=None", "normal of mean 0 and sd 1, between low and high", ""),
  DRAW2(lognormal, "mean=None", "sd=None", "e^normal", ""),
  DRAW2(halfnormal, "loc=None", "scale=None", "loc [0] + scale [1] |normal|", ""),
  DRAW1(exponential, "scale=None", "of mean scale [1]", ""),
  DRAW3(truncexpon, "b", "loc=None", "scale=None", "loc [0] + scale [1] times an exponential below b", "2.0, "),
  DRAW2(laplace, "loc=None", "scale=None", "density e^-|x| / 2", ""),
  DRAW2(logistic, "loc=None", "scale=None", "distribution sigmoid(x)", ""),
  DRAW2(gumbel, "loc=None", "scale=None", "distribution e^-e^-x", ""),
  DRAW2(cauchy, "loc=None", "scale=None", "density 1 / (pi (1 + x^2))", ""),
  DRAW2(halfcauchy, "loc=None", "scale=None", "loc [0] + scale [1] |cauchy|", ""),
  DRAW1(rayleigh, "scale=None", "density x e^(-x^2 / 2)", ""),
  DRAW2(weibull, "a", "scale=None", "distribution 1 - e^-x^a", "2.0, "),
  DRAW2(pareto, "a", "scale=None", "from scale [1] on, with density a / x^(a + 1)", "2.0, "),
  DRAW3(triangular, "left=None", "mode=None", "right=None", "between left [0] and right [1], most often mode [1/2]", ""),
  DRAW2(wald, "mean", "scale=None", "inverse normal", "2.0, "),
  DRAW2(gamma, "a", "scale=None", "density x^(a - 1) e^-x / gamma(a)", "2.0, "),
  DRAW2(invgamma, "a", "scale=None", "scale [1] / gamma(a)", "2.0, "),
  DRAW3(gengamma, "a", "p=None", "scale=None", "scale [1] times a gamma draw of shape a / p, to the power 1 / p [1]", "2.0, "),
  DRAW1(chisquare, "df", "the sum of the squares of df normal numbers", "2.0, "),
  DRAW2(beta, "a", "b", "density x^(a - 1) (1 - x)^(b - 1), up to a factor", "2.0, 3.0, "),
  DRAW3(studentt, "df", "loc=None", "scale=None", "loc [0] + scale [1] normal / sqrt(chisquare(df) / df)", "2.0, "),
  DRAW2(f, "dfnum", "dfden", "the ratio of two chisquare draws over df each", "2.0, 3.0, "),
  DRAW2(vonmises, "mu", "kappa", "an angle in [-pi, pi], with density e^(kappa cos(x - mu))", "0.0, 3.0, "),
  DRAW1(bernoulli, "p=None", "true with probability p [1/2]; bool unless a dtype is given", ""),
  DRAW1(poisson, "mean", "events where mean are expected; int32 unless a dtype is given, as all that follow", "2.0, "),
  DRAW2(binomial, "n", "p=None", "successes among n trials of probability p [1/2]", "5, "),
  DRAW1(geometric, "p", "trials up to the first success, 1 at least", "0.5, "),
  DRAW2(negative_binomial, "n", "p", "failures before n successes; n need not be whole", "2.0, 0.5, "),
  DRAW3(betabinomial, "n", "a", "b", "successes among n trials of a probability that is beta(a, b)", "5, 2.0, 3.0, "),
  DRAW3(hypergeometric, "good", "bad", "taken", "good ones among those taken", "5, 6, 7, "),
  ROW(categorical, "(key, logits, axis=-1, *, shape=None)", call_categorical,
      "an index along the axis, with probability softmax(logits); shape: that of logits without the axis, or with more in front",
      "categorical(weft.random.key(8), [[0.0, 100.0], [100.0, 0.0]])", "[1, 0]"),
  ROW(permutation, "(key, x, axis=0)", call_ordered, "x in a drawn order along the axis; of a number n: 0 .. n - 1 in that order",
      "permutation(weft.random.key(1), 1)", "[0]"),
  ROW(shuffle, "(key, x, axis=-1)", call_ordered, "x with every row along the axis in an order of its own",
      "shuffle(weft.random.key(1), [[5, 5]])", "[[5, 5]]"),
  ROW(choice, "(key, a, shape=None, replace=True, p=None)", call_choice,
      "rows of a, or numbers below a, with probability p over its sum; replace=False: none of them twice",
      "choice(weft.random.key(1), [7], shape=2)", "[7, 7]"),
  DRAW1(dirichlet, "alpha", "gamma draws over their sum, along the last axis", "[], "),
  DRAW2(multivariate_normal, "mean", "cov", "mean + L normal, L L' = cov, of the last axis of mean and the last two of cov",
        "weft.zeros(0), weft.zeros((0, 0)), "),
  DRAW2(multinomial, "n", "p", "how often each of the kinds along the last axis of p was drawn in n trials", "5, [], "),
  { 0 },
};
