/* weft.h -- lazy arrays that are differentiated, fused, compiled and run.
 *
 *   weft_array *rms_norm(weft_array *x, weft_array *gain) {
 *     weft_array *ms = weft_mean(weft_mul(x, x), -1);
 *     return weft_mul(weft_div(x, weft_sqrt(weft_add(ms, weft_scalar(1e-5)))), gain);
 *   }
 *
 * Five rules hold everywhere and are not repeated below.
 *
 * 1. An array is a value: an expression, computed when somebody needs it. Only weft_update changes one.
 * 2. What a function returns belongs to the innermost open scope of the calling thread and lives until that scope
 *    ends. Nothing is freed by hand. A program that opens no scope works in its thread's root scope, which only grows.
 *    Using an array later is WEFT_ERR_SCOPE as long as no other array has its handle: in a debug build of weft
 *    (meson setup -Dhard=true) not before 65536 more have gone.
 * 3. Functions that return arrays do not fail. Given nonsense they return a bad array that carries the first cause:
 *    bad in, bad out. Values leave through functions that return weft_status, and the compiler warns if you drop it.
 * 4. No call aborts, exits or prints. Pointers must not be NULL unless the comment says what NULL means.
 * 5. Any thread may use an array whose scope is open. A scope is opened and ended by one thread, innermost first.
 *
 * Axes count from 0, or from the end when negative. A list is a count and a pointer, and can be written in place:
 * WEFT_DIMS(2, 3), WEFT_AXES(0, -1), WEFT_ARRAYS(w, b). In option structs zero means the default, as does a NULL pointer to one.
 * weft_sugar.h lets numbers stand where arrays are expected. */
#ifndef WEFT_H
#define WEFT_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <initializer_list>
#include <tuple>
extern "C" {
#endif
#if defined __GNUC__
#pragma GCC visibility push(default)
#define WEFT_MUST __attribute__((warn_unused_result))
#else
#define WEFT_MUST
#endif

#define WEFT_VERSION 100 /* 0.1.0 */
int weft_version(void);  /* of the library that is running */
const char *weft_version_text(void);  /* its version and compiler, and each device that was found, with what runs there */

typedef struct weft_array    weft_array;    /* an n-dimensional array, perhaps not computed yet */
typedef struct weft_scope    weft_scope;    /* a block of memory, a program, and a transaction */
typedef struct weft_function weft_function; /* a program kept: outputs in terms of inputs */
typedef struct weft_loop     weft_loop;     /* a scope whose body is written once and run many times */
typedef struct weft_cond     weft_cond;     /* a scope of which one of two sides is computed */
typedef struct weft_file     weft_file;     /* named arrays on disk */

typedef enum {
  WEFT_OK,
  WEFT_ERR_ARG,         /* an argument makes no sense */
  WEFT_ERR_SHAPE,       /* sizes or axes do not fit together */
  WEFT_ERR_DTYPE,       /* no such operation on these element types */
  WEFT_ERR_INDEX,       /* an index read from an array is out of range */
  WEFT_ERR_NO_VALUE,    /* a weft_input or loop variable was read: it is a name, not a value */
  WEFT_ERR_NO_HISTORY,  /* differentiated through an array whose expression has been dropped */
  WEFT_ERR_SCOPE,       /* an array used after its scope, a scope ended by another thread or twice */
  WEFT_ERR_MEMORY,      /* out of memory, or beyond the limit set */
  WEFT_ERR_FILE,        /* cannot read or write it, or it is not what it claims to be */
  WEFT_ERR_DEVICE,      /* the driver or the device failed, or there is none */
  WEFT_ERR_UNSUPPORTED, /* legal, but not written yet */
  WEFT_ERR_CANCELLED,   /* stopped by the flag given to weft_cancel_when */
  WEFT_ERR_TIMEOUT,     /* weft_wait: not ready yet */
  WEFT_ERR_RULE,        /* a rule given to weft_custom reported failure */
  WEFT_ERR_NAN,         /* a nan, or an inf, where WEFT_CHECK allows none */
  WEFT_ERR_ASSERT,      /* a condition given to weft_assert does not hold; the message is the one given there */
  WEFT_ERR_INTERNAL     /* a defect of weft; the message contains what a report needs */
} weft_status;

/* Element types. Mixed operands are promoted as in MLX, and f64 with c64 gives c128; f16, bf16, e4m3 and e5m2 are computed in f32
 * and rounded once per node. The last two are floats of 8 bits, so many of exponent and fraction: e4m3 ends at 448 and has no inf,
 * so that what is beyond becomes nan; e5m2 is the upper half of an f16. f16 and bf16 hold all of both, and win over them. A
 * complex number is its real part and then its imaginary one. Complex numbers have no order: what compares, chooses or rounds does
 * not take them. */
typedef enum {
  WEFT_BOOL, WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64, WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64,
  WEFT_F16, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_E4M3, WEFT_E5M2, WEFT_C64, WEFT_C128
} weft_dtype;

weft_dtype  weft_dtype_of(weft_array *);                 /* of a bad array: WEFT_BOOL */
weft_dtype  weft_dtype_promote(weft_dtype, weft_dtype);  /* what weft_add of the two would give */
size_t      weft_dtype_bytes(weft_dtype);
const char *weft_dtype_name(weft_dtype);                 /* "f32" */

/* Sizes. A size is a number, or unknown until a function is called or a loop has run. Sizes that meet in an operation while
 * one is unknown are taken to be equal; where they turn out to differ, that is WEFT_ERR_SHAPE. More than 12 axes longer
 * than 1 in one operation are WEFT_ERR_UNSUPPORTED. */
enum { WEFT_RANK_MAX = 32 };
int         weft_rank(weft_array *);                     /* of a bad array: -1 */
int64_t     weft_dim(weft_array *, int axis);            /* the number, computing it if need be; -1: bad, or none yet */
weft_array *weft_size(weft_array *, int axis);           /* the size as a 0-d i64 array, known or not */
int         weft_is_size(weft_array *n, int64_t *number); /* what tells a 0-d integer. 1: sizes and numbers alone, so that slices,
                                                            shapes and loops by it are planned with the sizes; 2: it is *number
                                                            whatever they are. 0: only a run tells it, or it is bad */


/* ---- Scopes --------------------------------------------------------------------------------------------------------
 * Arrays made inside a scope belong to it. What it is for is declared with update and fetch; closing it runs exactly
 * that as one program, commits all of it or none, and forgets the rest:
 *
 *   weft_scope *step = weft_scope_open();
 *   weft_array *g, *loss = f(w, x);
 *   weft_grad(loss, 1, &w, &g);
 *   weft_update(w, weft_sub(w, weft_mul(g, weft_scalar(0.1))));
 *   weft_fetch(loss, WEFT_F32, &loss_now, sizeof loss_now);
 *   return weft_scope_close(step);
 *
 * A scope ends in one of three ways: close runs its program, discard drops it, weft_compile keeps it as a function.
 * Ending a scope discards inner ones left open, so an early return costs memory for a while and nothing else. */

weft_scope *weft_scope_open(void);                          /* NULL: out of memory; closing NULL says so again */
WEFT_MUST weft_status weft_scope_close(weft_scope *);       /* also reports an error in it that nobody looked at */
WEFT_MUST weft_status weft_scope_close_async(weft_scope *); /* returns once it is started. What was fetched is there
                                                               after weft_wait; a failure makes updated arrays bad, but
                                                               one that is known by now is returned, and changes nothing */
void        weft_scope_discard(weft_scope *);

weft_array *weft_keep(weft_array *);                        /* moves from this scope to the one outside, still lazy;
                                                               returns it. What is further out already stays there */
void        weft_update(weft_array *outer, weft_array *value);  /* outer := value when this scope closes, not before;
                                                               same shape and dtype; outer is of a scope further out.
                                                               What it was is not asked for: it may have failed */
void        weft_fetch(weft_array *, weft_dtype, void *dst, size_t bytes); /* dst is filled, row by row, when this scope
                                                               closes; dtype and bytes must be those of the array */


/* ---- Errors --------------------------------------------------------------------------------------------------------
 * Messages name the function as typed and show what it got: "weft_matmul: inner lengths differ: [8,3] x [4,16]".
 * With WEFT_ABORT=1 in the environment the process stops where the error arises: for debuggers. */

WEFT_MUST weft_status weft_check(weft_array *);  /* the cause if it is bad or has failed; computes nothing */
const char *weft_message(void);                  /* for the last status but OK on this thread, until the next one */


/* ---- Making arrays ----------------------------------------------------------------------------------------------- */

/* Numbers are 0-d and weak: they take the dtype of their partner. A nan keeps its sign and as much of its payload, from
 * the top, as that dtype has room for. */
weft_array *weft_scalar(double);                 /* with integers, bools or no partner: f32 */
weft_array *weft_integer(int64_t);               /* with bools or no partner: i32, or i64 if it needs it */
weft_array *weft_complex(weft_array *re, weft_array *im);  /* re + i im. Of two numbers: a number, c128 with f64, else c64 */

weft_array *weft_from(weft_dtype, int rank, const int64_t dims[], const void *data);  /* copies, row-major */
weft_array *weft_full(weft_dtype, int rank, const int64_t dims[], double value);      /* never stored if not needed */
weft_array *weft_full_like(weft_array *like, double value);                           /* in its shape and dtype */
weft_array *weft_sized(weft_dtype, int rank, weft_array *const sizes[]);  /* zeros; the sizes are 0-d integers, known
                                                              when it is computed. Wherever `like` is asked for */
weft_array *weft_iota(weft_array *like, int axis);  /* the index along axis, in the shape and dtype of like */
weft_array *weft_cast(weft_array *, weft_dtype);    /* float to integer saturates, nan becomes 0; complex to real: the real
                                                       part, to bool: whether it is not 0 */
weft_array *weft_view(weft_array *, weft_dtype);    /* the same bytes, the lowest first, as another dtype; the last axis is as many
                                                       times longer or shorter. A nan that arithmetic has made may have any
                                                       sign and payload */
weft_array *weft_to_f8(weft_array *, weft_dtype f8);  /* the bytes of e4m3 or e5m2, as u8: rounded by way of f32; what is beyond 448
                                                       is 448 in e4m3 */
weft_array *weft_from_f8(weft_array *, weft_dtype f8, weft_dtype);  /* such bytes to a float */
weft_array *weft_arange(weft_dtype, double start, double stop, double step);  /* start + i step, before stop; f64 or i64
                                                              inside, integers in steps of (start + step) - start */
weft_array *weft_linspace(weft_dtype, double start, double stop, int64_t n);  /* n values; the last is stop */
weft_array *weft_eye(weft_dtype, int64_t n, int64_t m, int64_t k);  /* 1 where column = row + k; else 0 */
weft_array *weft_tri(weft_dtype, int64_t n, int64_t m, int64_t k);  /* 1 where column <= row + k; else 0 */


/* ---- Element by element --------------------------------------------------------------------------------------------
 * Operands broadcast as in NumPy; only a size that is literally 1 stretches. Integers become f32 where mathematics
 * needs it. Complex products are the plain formula: nan and inf spread as its arithmetic says. Remainders of floats are
 * exact while |a / b| < 2^72 (f64: 2^159), and nan beyond. X(name, doc) declares weft_array *weft_name(weft_array *x). */

#define WEFT_UNARY(X)                                                        \
  X(neg,           "-x")                                                     \
  X(abs,           "|x|; of the lowest integer: itself; of complex numbers: real")\
  X(sign,          "-1, 0 or 1; 0, -0 and nan stay")                         \
  X(square,        "x x")                                                    \
  X(reciprocal,    "1 / x; integers give f32")                               \
  X(floor,         "largest whole number not above x; integers stay")        \
  X(ceil,          "smallest not below")                                     \
  X(trunc,         "nearest towards 0")                                      \
  X(round,         "nearest; halves to the even one")                        \
  X(sqrt,          "square root; nan below 0")                               \
  X(rsqrt,         "1 / square root")                                        \
  X(exp,           "e^x")                                                    \
  X(exp2,          "2^x")                                                    \
  X(expm1,         "e^x - 1")                                                \
  X(log,           "natural logarithm")                                      \
  X(log2,          "to base 2")                                              \
  X(log10,         "to base 10")                                             \
  X(log1p,         "log(1 + x)")                                             \
  X(sin,           "sine; right for arguments of any size")                  \
  X(cos,           "cosine, likewise")                                       \
  X(tan,           "tangent, likewise")                                      \
  X(asin,          "inverse sine; nan beyond 1")                             \
  X(acos,          "inverse cosine, likewise")                               \
  X(atan,          "inverse tangent")                                        \
  X(sinh,          "hyperbolic sine")                                        \
  X(cosh,          "hyperbolic cosine")                                      \
  X(tanh,          "hyperbolic tangent")                                     \
  X(asinh,         "inverse of sinh")                                        \
  X(acosh,         "inverse of cosh; nan below 1")                           \
  X(atanh,         "inverse of tanh; nan beyond 1")                          \
  X(erf,           "2 / sqrt(pi) times the integral of e^-t^2 from 0")       \
  X(erfc,          "1 - erf, without loss")                                  \
  X(erfinv,        "inverse of erf; nan beyond 1")                           \
  X(sigmoid,       "1 / (1 + e^-x)")                                         \
  X(lgamma,        "log of |gamma(x)|; inf at 0, -1, -2 ..")                 \
  X(gamma,         "the gamma function; nan at -1, -2 ..")                   \
  X(digamma,       "derivative of lgamma; nan at -1, -2 ..")                 \
  X(trigamma,      "derivative of digamma")                                  \
  X(erfcx,         "e^(x^2) erfc(x)")                                        \
  X(erfcinv,       "inverse of erfc; nan outside of [0, 2]")                 \
  X(ndtr,          "normal distribution function")                           \
  X(ndtri,         "its inverse; nan outside of [0, 1]")                     \
  X(log_ndtr,      "log of ndtr, without loss")                              \
  X(log1mexp,      "log(1 - e^x); nan above 0")                              \
  X(logit,         "log(x / (1 - x)); nan outside of [0, 1]")                \
  X(sinc,          "sin(pi x) / (pi x)")                                     \
  X(i0,            "modified Bessel function, order 0")                      \
  X(i0e,           "e^-|x| i0(x)")                                           \
  X(i1,            "order 1")                                                \
  X(i1e,           "e^-|x| i1(x)")                                           \
  X(j0,            "Bessel function of the first kind, order 0")             \
  X(j1,            "order 1")                                                \
  X(isnan,         "x != x, bool")                                           \
  X(isinf,         "|x| = inf, bool")                                        \
  X(isfinite,      "neither inf nor nan, bool")                              \
  X(not,           "bool: not x; integers: all bits")                        \
  X(logical_not,   "x = 0, bool")                                            \
  X(real,          "the real part; of a real x: x")                          \
  X(imag,          "the imaginary part; of a real x: 0")                     \
  X(conj,          "the conjugate; of a real x: x")

#define WEFT_BINARY(X)                                                       \
  X(add,           "a + b")                                                  \
  X(sub,           "a - b")                                                  \
  X(mul,           "a b")                                                    \
  X(div,           "a / b; integers give f32")                               \
  X(floor_divide,  "a / b rounded down; integers: a / 0 = 0")                \
  X(remainder,     "a - b floor(a / b), sign of b; integers: a % 0 = a; floats: nan where |a / b| >= 2^72, f64 2^159") \
  X(fmod,          "a - b trunc(a / b), sign of a; likewise")                \
  X(pow,           "a^b; integers wrap, and a^-b is 0 but for 1 and -1")     \
  X(atan2,         "angle of (b, a); derivative 0 at (0, 0)")                \
  X(hypot,         "sqrt(a^2 + b^2) without overflow, likewise")             \
  X(logaddexp,     "log(e^a + e^b)")                                         \
  X(xlogy,         "a log(b); 0 where a = 0")                                \
  X(xlog1py,       "a log(1 + b), likewise")                                 \
  X(zeta,          "Hurwitz's: sum of (b + k)^-a; nan for a < 1, b < -50")   \
  X(polygamma,     "derivative of digamma(b), a times; by a: nan")           \
  X(beta,          "gamma(a) gamma(b) / gamma(a + b)")                       \
  X(betaln,        "log of |beta(a, b)|")                                    \
  X(gammainc,      "the gamma distribution of shape a up to b; nan below 0") \
  X(gammaincc,     "1 - gammainc, without loss")                             \
  X(gammainc_da,   "derivative of gammainc(a, b) by a")                      \
  X(gammaincinv,   "the x with gammainc(a, x) = b; nan outside")             \
  X(gammainccinv,  "the x with gammaincc(a, x) = b")                         \
  X(iv,            "Bessel's I of order a, at b; by a: nan, for all of them")\
  X(ive,           "iv(a, b) e^-|b|")                                        \
  X(jv,            "Bessel's J of order a, at b")                            \
  X(kv,            "Bessel's K of order a, at b > 0")                        \
  X(kve,           "kv(a, b) e^b")                                           \
  X(owens_t,       "Owen's T(a, b): both normal, one beyond a, the other between 0 and b times it") \
  X(maximum,       "nan wins; a tie shares its derivative")                  \
  X(minimum,       "nan wins; likewise")                                     \
  X(eq,            "a = b, bool")                                            \
  X(ne,            "a != b, bool")                                           \
  X(lt,            "a < b, bool")                                            \
  X(le,            "a <= b, bool")                                           \
  X(gt,            "a > b, bool")                                            \
  X(ge,            "a >= b, bool")                                           \
  X(and,           "of bools or of bits")                                    \
  X(or,            "of bools or of bits")                                    \
  X(xor,           "of bools or of bits")                                    \
  X(logical_and,   "both are not 0, bool")                                   \
  X(logical_or,    "one is not 0, bool")                                     \
  X(logical_xor,   "exactly one is not 0, bool")                             \
  X(shl,           "a 2^b of integers; by the width or more: 0")             \
  X(shr,           "a / 2^b rounded down; by the width or more: 0, or -1 below 0")

#define WEFT_TERNARY(X)                                                      \
  X(betainc,       "the beta distribution of a and b up to c; nan below 0, above 1")\
  X(betainc_da,    "derivative of betainc(a, b, c) by a")                    \
  X(betaincinv,    "the x with betainc(a, b, x) = c")

#define WEFT_DECLARE_(name, doc) weft_array *weft_##name(weft_array *x);
WEFT_UNARY(WEFT_DECLARE_)
#undef WEFT_DECLARE_
#define WEFT_DECLARE_(name, doc) weft_array *weft_##name(weft_array *a, weft_array *b);
WEFT_BINARY(WEFT_DECLARE_)
#undef WEFT_DECLARE_
#define WEFT_DECLARE_(name, doc) weft_array *weft_##name(weft_array *a, weft_array *b, weft_array *c);
WEFT_TERNARY(WEFT_DECLARE_)
#undef WEFT_DECLARE_

weft_array *weft_hyp2f1(weft_array *a, weft_array *b, weft_array *c, weft_array *z);  /* Gauss's F(a, b; c; z), by its series: nan
                                                   beyond 1, and where 500000 terms do not suffice */
weft_array *weft_where(weft_array *c, weft_array *a, weft_array *b);  /* c ? a : b; what is not taken has derivative 0, even
                                                                          where its own is infinite */
weft_array *weft_fma(weft_array *a, weft_array *b, weft_array *c);    /* a b + c, rounded once; complex: by mul, add */
weft_array *weft_clip(weft_array *x, weft_array *low, weft_array *high);  /* minimum(maximum(x, low), high); NULL: none */
weft_array *weft_nan_to_num(weft_array *x, weft_array *nan, weft_array *inf, weft_array *minus_inf);  /* x with these instead; NULL:
                                                                          0, the largest and the lowest number there is */
weft_array *weft_isclose(weft_array *a, weft_array *b, double rtol, double atol, int equal_nan);  /* |a - b| <= atol + rtol |b| */
weft_array *weft_allclose(weft_array *a, weft_array *b, double rtol, double atol, int equal_nan);  /* of all elements, 0-d */
weft_array *weft_array_equal(weft_array *a, weft_array *b, int equal_nan);  /* the same shape and the same elements, 0-d */
weft_array *weft_gcd(weft_array *a, weft_array *b);  /* the greatest common divisor of integers, not negative; gcd(0, 0) = 0 */
weft_array *weft_lcm(weft_array *a, weft_array *b);  /* the least common multiple, likewise; 0 where one is 0 */
weft_array *weft_bit_count(weft_array *x);           /* how many bits of |x| are 1, as u8; of integers and bools */


/* ---- Along an axis -------------------------------------------------------------------------------------------------
 * A reduction keeps its axis, with length 1, so that the result broadcasts against x and reductions over several axes
 * are chained without renumbering. axis = WEFT_ALL reduces every axis, the last first (logsumexp: all at once, with one
 * logarithm), and gives a 0-d array. Sums and products of bools and of integers below 32 bits have 32. The largest of
 * nothing is an error, also where a size turns out to be 0 only later, and whether or not a choice would use it. */

enum { WEFT_ALL = -1000 };

#define WEFT_REDUCE(X)                                                       \
  X(sum,       "sum; order fixed, f16 and bf16 added in f32")                \
  X(prod,      "product, likewise")                                          \
  X(mean,      "sum / n, with n as a size, not a constant")                  \
  X(max,       "largest; nan wins; ties share the derivative")               \
  X(min,       "smallest, likewise")                                         \
  X(all,       "all true")                                                   \
  X(any,       "one true")                                                   \
  X(logsumexp, "log sum e^x")                                                \
  X(argmax,    "i64; first nan, else first largest; ALL: counted row by row") \
  X(argmin,    "i64, likewise")                                              \
  X(median,    "the middle one, or the mean of the two; nan wins, and of nothing") \
  X(nanmedian, "the same of what is no nan")                                 \
  X(nansum,    "sum, as if there were no nan")                               \
  X(nanprod,   "product, likewise")                                          \
  X(nanmean,   "mean; nan where all are nan")                                \
  X(nanmax,    "largest, likewise")                                          \
  X(nanmin,    "smallest, likewise")                                         \
  X(nanargmax, "i64; -1 where all are nan")                                  \
  X(nanargmin, "i64, likewise")

#define WEFT_ALONG(X)                                                        \
  X(cumsum,    "y_i = sum x_0..i")                                           \
  X(cumprod,   "product")                                                    \
  X(cummax,    "largest so far")                                             \
  X(cummin,    "smallest so far")                                            \
  X(logcumsumexp, "log sum e^x so far")                                      \
  X(nancumsum, "sum so far, as if there were no nan")                        \
  X(nancumprod, "product so far, likewise")                                  \
  X(softmax,   "e^x / sum e^x")                                              \
  X(log_softmax, "its logarithm")                                            \
  X(flip,      "backwards; a view")

#define WEFT_DECLARE_(name, doc) weft_array *weft_##name(weft_array *x, int axis);
WEFT_REDUCE(WEFT_DECLARE_)
WEFT_ALONG(WEFT_DECLARE_)
#undef WEFT_DECLARE_

weft_array *weft_backwards(weft_array *run(weft_array *x, int axis), weft_array *x, int axis);  /* from the end: weft_cumsum of all
                                                       elements from i on */
weft_array *weft_before(weft_array *run(weft_array *x, int axis), weft_array *x, int axis);  /* weft_cumsum or another cumulative
                                                       function of the elements before i; at 0 what it gives of none */

/* Along an axis whose elements are values at points. */
weft_array *weft_diff(weft_array *x, int64_t n, int axis);  /* x_(i+1) - x_i, n times; of bools: whether they differ */
weft_array *weft_ediff(weft_array *x, weft_array *before, weft_array *after);  /* the same of all elements in order, once, between
                                                       these: of any shape, cast to its dtype; NULL: none */
weft_array *weft_trapezoid(weft_array *y, weft_array *x, double dx, int axis);  /* sum of (y_(i+1) + y_i) / 2 (x_(i+1) - x_i). x: a
                                                       vector, or what broadcasts with y; NULL: points at distances dx. The
                                                       axis stays */
weft_array *weft_interp(weft_array *x, weft_array *xp, weft_array *fp, weft_array *left, weft_array *right);  /* on the lines
                                                       through the points (xp, fp), [n] each, xp ascending; before the first: left,
                                                       after the last: right, 0-d. NULL: the nearest fp */
typedef enum { WEFT_REACH_FULL, WEFT_REACH_SAME, WEFT_REACH_VALID } weft_reach;  /* wherever two vectors touch; as many as the
                                                       longer has; where one covers the other */
weft_array *weft_convolve(weft_array *a, weft_array *v, weft_reach);   /* y_k = sum a_i v_(k-i), of vectors */
weft_array *weft_correlate(weft_array *a, weft_array *v, weft_reach);  /* y_k = sum a_(i+k) conj(v_i) */

weft_array *weft_sort(weft_array *, int axis);      /* in order, -0 before 0 and nan last; equal ones stay as they stood */
weft_array *weft_argsort(weft_array *, int axis);   /* where the sorted elements stood, i64 */
weft_array *weft_topk(weft_array *, int axis, int64_t k);     /* the k that sort puts last, the last first */
weft_array *weft_argtopk(weft_array *, int axis, int64_t k);  /* where they stood, i64 */
weft_array *weft_partition(weft_array *, int axis, int64_t k);     /* element k is the one that sort puts there (k < 0: from the
                                                       end), those before it come before it in that order; each part as it stood */
weft_array *weft_argpartition(weft_array *, int axis, int64_t k);  /* where they stood, i64 */
weft_array *weft_searchsorted(weft_array *sorted, weft_array *v, int is_right);  /* how many of the sorted [n] come before each
                                                       v: less than it, or is_right: not more than it; i64 in the shape of v */

/* Bins. Of edges e_0 <= .. <= e_n, [n+1], bin i has e_i <= x < e_(i+1), and the last one e_n too; what is outside, and nan, is in
 * none. Edges that do not ascend, or are nan, are WEFT_ERR_ARG. Weights broadcast to x and are what is counted, in the dtype of
 * their sum, with derivatives; NULL: 1 each, i64. All elements of x count, whatever its shape. */
weft_array *weft_bincount(weft_array *x, weft_array *weights, int64_t n, int is_open);  /* how often 0 .. n-1 occur among integers;
                                                       is_open: and up to the largest. Others are WEFT_ERR_INDEX */
weft_array *weft_histogram(weft_array *x, weft_array *edges, weft_array *weights, int is_density);  /* [n]: how often each bin;
                                                       is_density: over their sum and their widths */
weft_array *weft_histogram_edges(weft_array *x, int64_t n, weft_array *low, weft_array *high);  /* n even bins between two 0-d
                                                       numbers; NULL: the least and the largest x. Where those are equal: 1/2 less
                                                       and more; of no x: 0 and 1. f64 of integers */
weft_array *weft_histogramdd(int n, weft_array *const x[], weft_array *const edges[], weft_array *weights, int is_density);
                                                       /* of points with these coordinates: [n_0,n_1,..] */
weft_array *weft_digitize(weft_array *x, weft_array *bins, int is_right);  /* i with bins_(i-1) <= x < bins_i, or is_right:
                                                       bins_(i-1) < x <= bins_i; bins [n] ascend or descend, nan
                                                       the largest, else WEFT_ERR_ARG */

/* Quantiles. q is a number or [m], in [0, 1] (a number elsewhere is an error, an element nan); the axis becomes that long, and
 * WEFT_ALL gives the shape of q. The methods are NumPy's; LOWER, HIGHER, NEAREST, INVERTED_CDF and CLOSEST_OBSERVATION give an
 * element of x in its dtype. */
typedef enum {
  WEFT_LINEAR, WEFT_LOWER, WEFT_HIGHER, WEFT_NEAREST, WEFT_MIDPOINT, WEFT_INVERTED_CDF, WEFT_AVERAGED_INVERTED_CDF,
  WEFT_CLOSEST_OBSERVATION, WEFT_INTERPOLATED_INVERTED_CDF, WEFT_HAZEN, WEFT_WEIBULL, WEFT_MEDIAN_UNBIASED, WEFT_NORMAL_UNBIASED
} weft_quantile_method;
weft_array *weft_quantile(weft_array *x, weft_array *q, int axis, weft_quantile_method);     /* nan wins, and of nothing; an error
                                                       where one of integers is chosen, and of such a q that is nan */
weft_array *weft_nanquantile(weft_array *x, weft_array *q, int axis, weft_quantile_method);  /* of what is no nan */

/* Over several axes as over one that runs through their elements, row by row: weft_over(weft_mean, x, WEFT_AXES(0, -1)).
 * Any function of this kind will do; sums are taken over the last axis first, as those over all axes. */
weft_array *weft_over(weft_array *reduce(weft_array *x, int axis), weft_array *x, int n, const int axes[]);


/* ---- Views ---------------------------------------------------------------------------------------------------------
 * No data moves, unless a reshape cannot do without. Strides may be negative or zero. */

enum { WEFT_ANY = -1, WEFT_SAME = -2 };                    /* among dims: whatever fits; the size x has on this axis */
weft_array *weft_reshape(weft_array *, int rank, const int64_t dims[]);    /* row-major; one ANY, some SAME */
weft_array *weft_reshape_like(weft_array *, weft_array *like);
weft_array *weft_broadcast(weft_array *, int rank, const int64_t dims[]);  /* aligned on the right; some SAME */
weft_array *weft_broadcast_like(weft_array *, weft_array *like);
weft_array *weft_transpose(weft_array *, const int axes[]);                /* axis k is x's axes[k]; NULL: reversed */
weft_array *weft_moveaxis(weft_array *, int from, int to);                 /* one axis; (-1, -2): matrix transpose */
weft_array *weft_unsqueeze(weft_array *, int axis);                        /* a new axis of length 1 */
weft_array *weft_squeeze(weft_array *, int axis);                          /* drops an axis of length 1 */
weft_array *weft_flatten(weft_array *, int first, int last);               /* these axes and those between become one */
weft_array *weft_as_strided(weft_array *, int rank, const int64_t dims[], const int64_t strides[], int64_t offset);
                                          /* y[i,j,..] = e[offset + i strides[0] + j strides[1] + ..], e being the elements
                                             of x row by row; they may be shown many times */
weft_array *weft_windows(weft_array *, int axis, int64_t n, int64_t step, int64_t dilation);
                                          /* windows of n that slide along the axis: y[..,i,..,j] = x[..,i step + j dilation,..]
                                             for as many i as fit; j is a new last axis */


/* ---- Indexing and updates ------------------------------------------------------------------------------------------
 * Negative indices count from the end. An index out of range is an error that names it, found before anything is written; only
 * the bounds of weft_slice are cut to fit, as in Python, also those of a size that is not known yet. */

#define WEFT_END   INT64_MAX  /* stop, going up */
#define WEFT_BEGIN INT64_MIN  /* stop, going down */
weft_array *weft_slice(weft_array *, int axis, int64_t start, int64_t stop, int64_t step);  /* x[start:stop:step] */
weft_array *weft_cut(weft_array *, int axis, weft_array *start, weft_array *stop, weft_array *step);
                                          /* the same by 0-d integers, which may be computed; NULL: as if left out in Python */
weft_array *weft_window(weft_array *, int axis, weft_array *at, int64_t n);  /* x[at : at+n]; at: 0-d integer */
weft_array *weft_at(weft_array *, int axis, weft_array *i);                  /* x[i]; the axis goes; i: 0-d integer */
weft_array *weft_take(weft_array *, int n, weft_array *const index[]);       /* x[i,j,..]: integers that broadcast to a
                                                             shape I and index the first n axes: I + the other axes */
weft_array *weft_take_along(weft_array *, int axis, weft_array *i);          /* x[..,i[..,k,..],..]; the other axes broadcast */
weft_array *weft_diagonal(weft_array *, int64_t k, int axis1, int axis2);    /* x[i, i+k]; the two axes go, i is the last */

/* Results whose size is known when they are computed: only their rank is before. In the rows of weft_map sizes may differ, and rows
 * of different sizes are no array. */
weft_array *weft_flatnonzero(weft_array *);            /* where x, row by row, is not 0: i64 [n] */
void        weft_nonzero(weft_array *, weft_array *index[]);  /* the same as an index along each axis, [n] each; of a
                                             bad array, which has no rank, none is set */
weft_array *weft_compress(weft_array *, weft_array *mask);    /* x[mask]: where bools over the first axes of x are true */
weft_array *weft_unique(weft_array *, weft_array **first, weft_array **inverse, weft_array **counts);
                                          /* the different elements in order, nan once and last. Any of the others may be NULL:
                                             where each stands first, of each element of x which it is, how often each occurs */

/* A new x in which the elements that `part` shows are set to, or combined with, v, which broadcasts. part is what you
 * would read: made from x by the functions above and by views. x[2:5] += v is
 *   weft_put(x, weft_slice(x, 0, 2, 5, 1), v, WEFT_ADD).
 * It happens in place if x is computed on the way and nobody else needs it, and for slices also if x is the array that
 * the scope updates; else x is copied. v is cast to the dtype of x. Equal targets combine in order; with WEFT_SET the
 * last one wins. */
typedef enum { WEFT_SET, WEFT_ADD, WEFT_MUL, WEFT_MIN, WEFT_MAX } weft_how;
weft_array *weft_put(weft_array *x, weft_array *part, weft_array *v, weft_how);

weft_array *weft_concat(int axis, int n, weft_array *const[]);
weft_array *weft_stack(int axis, int n, weft_array *const[]);                /* along a new axis */
void        weft_split(weft_array *, int axis, int n, weft_array *parts[]);  /* n views of equal length; see weft_slice */
weft_array *weft_pad(weft_array *, int axis, int64_t before, int64_t after, weft_array *value);
typedef enum {
  WEFT_PAD_EDGE,       /* the element at the end */
  WEFT_PAD_REFLECT,    /* backwards, without the one at the end */
  WEFT_PAD_SYMMETRIC,  /* backwards, with it */
  WEFT_PAD_WRAP,       /* from the other end */
  WEFT_PAD_RAMP,       /* in even steps to a number */
  WEFT_PAD_MAX, WEFT_PAD_MIN, WEFT_PAD_MEAN  /* of the axis */
} weft_padding;
weft_array *weft_pad_with(weft_array *, int axis, int64_t before, int64_t after, weft_padding, weft_array *end);  /* end: of a ramp,
                                                          0-d; NULL: 0 */
weft_array *weft_repeat(weft_array *, int axis, int64_t n);                  /* every element n times */
weft_array *weft_tile(weft_array *, int rank, const int64_t times[]);        /* all of it, so often along each axis */
weft_array *weft_roll(weft_array *, int axis, int64_t shift);                /* what leaves at the end comes in again */
weft_array *weft_rot90(weft_array *, int64_t quarters, int axis1, int axis2);  /* turned from axis1 towards axis2 */
void        weft_meshgrid(int n, weft_array *const x[], int is_xy, weft_array *y[]);  /* y_k[i,j,..] = x_k at its place of i, j, ..;
                                                          is_xy: the first two axes change places */
weft_array *weft_diag(weft_array *, int64_t k);        /* 1-d: a matrix with x on diagonal k; 2-d: that diagonal */
weft_array *weft_tril(weft_array *, int64_t k);        /* the last two axes: x on and below diagonal k, else 0 */
weft_array *weft_triu(weft_array *, int64_t k);        /* x on and above it, else 0 */


/* ---- Random numbers -------------------------------------------------------------------------------------------------
 * A draw is a function of a key, of the place of the element, and of nothing else: the same on every device and for any number of
 * threads, in loops, maps and functions. Keys are arrays, u32 [2]; the same key gives the same numbers, so split one for every
 * use. Keys, bits, uniform, randint and bernoulli have the bits of MLX. Draws are computed where they are used.
 *
 * The result has the shape and dtype of `like`, whose values are not read; NULL: the shape that the parameters broadcast to, in
 * their dtype if it is a float, else f32; whole numbers in i32 (randint: in i64 if its ends want that). A parameter that is NULL is
 * the one in [brackets]. Of those that make no sense, numbers are an error; elements of arrays give nan, -1 where whole numbers are
 * drawn, and false among bools. */

weft_array *weft_random_key(uint64_t seed);                        /* its high half and its low one */
weft_array *weft_random_split(weft_array *key, int64_t n);         /* u32 [n,2]: a key in every row */
weft_array *weft_random_bits(weft_array *key, weft_array *like);   /* integers of which every bit is drawn */
weft_array *weft_random_randint(weft_array *key, weft_array *like, weft_array *low, weft_array *high);
                                          /* low [0] <= x < high; of a range beyond 2^24 not every number. low if there is none */

/* X1(name, a, doc), X2, X3 declare weft_random_name(key, like, a, ..). */
#define WEFT_RANDOM(X1, X2, X3)                                                                                       \
  X2(uniform,          low, high,         "[0] <= x < [1]")                                                           \
  X2(normal,           mean, sd,          "[0], [1]; by the inverse of its distribution")                             \
  X2(truncated_normal, low, high,         "mean 0 and sd 1, between low and high, [-inf] and [inf]; beyond 37 an end of it")\
  X2(lognormal,        mean, sd,          "e^normal")                                                                 \
  X2(halfnormal,       loc, scale,        "loc [0] + scale [1] |normal|")                                             \
  X1(exponential,      scale,             "mean scale [1]")                                                           \
  X3(truncexpon,       b, loc, scale,     "loc [0] + scale [1] times an exponential below b")                         \
  X2(laplace,          loc, scale,        "[0], [1]; density e^-|x| / 2")                                             \
  X2(logistic,         loc, scale,        "[0], [1]; distribution sigmoid(x)")                                        \
  X2(gumbel,           loc, scale,        "[0], [1]; distribution e^-e^-x")                                           \
  X2(cauchy,           loc, scale,        "[0], [1]; density 1 / (pi (1 + x^2))")                                     \
  X2(halfcauchy,       loc, scale,        "loc [0] + scale [1] |cauchy|")                                             \
  X1(rayleigh,         scale,             "[1]; density x e^(-x^2 / 2)")                                              \
  X2(weibull,          a, scale,          "[1]; distribution 1 - e^-x^a")                                             \
  X2(pareto,           a, scale,          "from scale [1] on, with density a / x^(a + 1)")                            \
  X3(triangular,       left, mode, right, "[0], [1/2], [1]")                                                          \
  X2(wald,             mean, scale,       "inverse normal; scale [1]")                                                \
  X2(gamma,            a, scale,          "[1]; density x^(a - 1) e^-x / gamma(a)")                                   \
  X2(invgamma,         a, scale,          "scale [1] / gamma(a)")                                                     \
  X3(gengamma,         a, p, scale,       "scale [1] times a gamma draw of shape a / p, to the power 1 / p [1]")      \
  X1(chisquare,        df,                "the sum of the squares of df normal numbers")                              \
  X2(beta,             a, b,              "density x^(a - 1) (1 - x)^(b - 1), up to a factor")                        \
  X3(studentt,         df, loc, scale,    "loc [0] + scale [1] normal / sqrt(chisquare(df) / df)")                    \
  X2(f,                dfnum, dfden,      "the ratio of two chisquare draws over df each")                            \
  X1(bernoulli,        p,                 "true with probability p [1/2]; bool unless like says otherwise")           \
  X2(vonmises,         mu, kappa,         "an angle in [-pi, pi], with density e^(kappa cos(x - mu)); mu [0]")        \
  X1(poisson,          mean,              "events where mean are expected")                                           \
  X2(binomial,         n, p,              "successes among n trials of probability p [1/2]")                          \
  X1(geometric,        p,                 "trials up to the first success, 1 at least")                               \
  X2(negative_binomial, n, p,             "failures before n successes; n need not be whole")                         \
  X3(betabinomial,     n, a, b,           "successes among n trials of a probability that is beta(a, b)")             \
  X3(hypergeometric,   good, bad, taken,  "good ones among those taken, in so many steps; the least of them: 2^24")

#define WEFT_DECLARE1_(name, a, doc) weft_array *weft_random_##name(weft_array *key, weft_array *like, weft_array *a);
#define WEFT_DECLARE2_(name, a, b, doc) \
  weft_array *weft_random_##name(weft_array *key, weft_array *like, weft_array *a, weft_array *b);
#define WEFT_DECLARE3_(name, a, b, c, doc) \
  weft_array *weft_random_##name(weft_array *key, weft_array *like, weft_array *a, weft_array *b, weft_array *c);
WEFT_RANDOM(WEFT_DECLARE1_, WEFT_DECLARE2_, WEFT_DECLARE3_)
#undef WEFT_DECLARE1_
#undef WEFT_DECLARE2_
#undef WEFT_DECLARE3_

weft_array *weft_random_categorical(weft_array *key, weft_array *like, weft_array *logits, int axis);
                               /* an index along the axis, with probability softmax(logits); like: integers, of the shape of logits
                                  without the axis, perhaps with more in front; NULL: one each, i32. -1: of nan, or only -inf */
weft_array *weft_random_permutation(weft_array *key, weft_array *x, int axis);  /* x in a drawn order along the axis: MLX's */
weft_array *weft_random_shuffle(weft_array *key, weft_array *x, int axis);  /* every row along the axis in its own order */
weft_array *weft_random_choice(weft_array *key, weft_array *like, weft_array *x, weft_array *p, int is_once);
                               /* rows of x, [n,..], so many as like has elements, in its shape (NULL: one); with probability
                                  p [n] over its sum, which is above 0 and finite; NULL: all the same. is_once: no row twice.
                                  A p below 0 or nan, and fewer above 0 than are drawn, or none, are WEFT_ERR_ARG */
weft_array *weft_random_multivariate_normal(weft_array *key, weft_array *like, weft_array *mean, weft_array *cov);
                               /* mean [..,n] + L normal, L L' = cov [..,n,n]; like: [..,n]; NULL: as mean */
weft_array *weft_random_dirichlet(weft_array *key, weft_array *like, weft_array *alpha);  /* gamma draws over their sum along the
                                  last axis, with derivatives */
weft_array *weft_random_multinomial(weft_array *key, weft_array *like, weft_array *n, weft_array *p);  /* how often each of the
                                  kinds along the last axis of p was drawn in n trials; p is divided by its sum: with one that is
                                  not in [0, 1], or none above 0, there is nothing to draw from, and all are -1 */


/* ---- Contractions --------------------------------------------------------------------------------------------------
 * The products of an element are added in the order of k, by fma, in blocks of 512: the error is at most (512 + k/512) 2^-24
 * sum |a||b| in f32, and the bits are the same for every layout, batch, number of threads and instruction set. */

weft_array *weft_matmul(weft_array *a, weft_array *b);  /* [..,m,k] x [..,k,n] -> [..,m,n]; 1-d as in NumPy; integers
                                                           are exact but wrap around, as in weft_sum */
weft_array *weft_tensordot(weft_array *a, weft_array *b, int n, const int a_axes[], const int b_axes[]);  /* sums over n
                                                           pairs of axes; those left of a, then those of b */
weft_array *weft_inner(weft_array *a, weft_array *b);  /* summed over the last axis of both; those left of a, then those of b */
weft_array *weft_outer(weft_array *a, weft_array *b);  /* a_i b_j, of all their elements in order */
weft_array *weft_addmm(weft_array *c, weft_array *a, weft_array *b, double alpha, double beta);  /* beta c + alpha a b */
weft_array *weft_matrix_power(weft_array *, int64_t n);  /* the product of n such matrices; 0: the identity; less: of inverses */
weft_array *weft_gather_mm(weft_array *a, weft_array *b, weft_array *at_a, weft_array *at_b);  /* the product of matrices at these
                                                           places of the batch, counted row by row; NULL: as they stand */
weft_array *weft_block_masked_mm(weft_array *a, weft_array *b, int64_t block, weft_array *mask_out, weft_array *mask_a,
                                 weft_array *mask_b);   /* of blocks [block, block] that a mask lets count, the others being 0;
                                                           bools, or numbers that multiply; NULL: all */
weft_array *weft_segmented_mm(weft_array *a, weft_array *b, weft_array *segments);  /* a[:,i:j] b[i:j,:] for every pair (i, j)
                                                           of the integers [..,2], from 0 to the inner length, else
                                                           WEFT_ERR_INDEX: [..,m,n]; 0 where i is not below j */
weft_array *weft_hadamard(weft_array *, double scale);  /* the last axis, of n = m 2^k elements with m 1, 12, 20 or 28, times a
                                                           matrix of signs: Paley's or Williamson's of order m by that of 2^k,
                                                           (-1)^(bits that i and j share); times scale; 0: 1 / sqrt(n) */
weft_array *weft_fft(weft_array *, int is_inverse, double scale);  /* the last axis, of n elements: scale times the sum over j of
                                                           x_j e^(-2 pi i j k / n), inverse e^(2 pi i j k / n). c128 of f64 and
                                                           c128, else c64. Its time grows with the prime divisors of n */
weft_array *weft_irfft(weft_array *, int64_t n, double scale);  /* the last axis, of the first n / 2 + 1 of n frequencies, which are
                                                           conjugates of the others: scale times the n real sums over k of
                                                           x_k e^(2 pi i j k / n). Imaginary parts of frequencies that are
                                                           their own conjugates, 0 and n / 2, are not read */
weft_array *weft_kron(weft_array *a, weft_array *b);  /* on each axis, every element of a times all of b */
weft_array *weft_einsum(const char *subscripts, int n, weft_array *const[]);  /* "bqd,bkd->bqk"; ... for any axes; ii: a
                                                           diagonal. In pairs: */
/* In which order weft_einsum takes operands together: n - 1 pairs, by their places among the operands that are left, smaller first.
 * Both leave, and what comes of them is last. products: multiplications in all; sizes that are not known count as 64. For up to 8
 * operands no order takes fewer, for more the cheapest pair comes first. Either may be NULL. */
WEFT_MUST weft_status weft_einsum_path(const char *subscripts, int n, weft_array *const[], int pairs[][2], double *products);

/* Convolution. x [N, s.., C] and w [O, k.., C/groups], with as many axes between as you like, give [N, t.., O]:
 *   y[n, i.., o] = sum over j.. and c of x[n, i stride + j dilation - before.., c] w[o, j.., c],
 * where x is 0 outside. Channels elsewhere are a transpose, which moves nothing. A transposed convolution is one whose x
 * has been spread, by its stride, with w flipped. */
typedef struct {
  const int64_t *stride, *dilation;  /* one for each axis between; NULL: all 1 */
  const int64_t *before, *after;     /* zeros around x; below 0: that many of its elements are left out; NULL: none */
  const int64_t *spread;             /* so far apart x's elements stand, zeros between them; NULL: all 1 */
  int64_t groups;                    /* channels of x and w go together group by group; 0: 1 */
  int is_flipped;                    /* w runs backwards along each axis between */
} weft_conv_options;
weft_array *weft_conv(weft_array *x, weft_array *w, const weft_conv_options *);

/* Pooling: windows that slide along the axes between of x [N, s.., C], as in a convolution. */
typedef struct {
  const int64_t *size;               /* of the window, for each axis between */
  const int64_t *stride;             /* NULL: the size */
  const int64_t *before, *after;     /* outside of x, where nothing is larger than -inf and all is 0; NULL: none */
  const int64_t *dilation;           /* NULL: all 1 */
  int without_padding;               /* a mean is of the elements of x alone */
} weft_pool_options;
weft_array *weft_max_pool(weft_array *x, const weft_pool_options *);
weft_array *weft_mean_pool(weft_array *x, const weft_pool_options *);
typedef enum { WEFT_RESIZE_NEAREST, WEFT_RESIZE_LINEAR, WEFT_RESIZE_CUBIC } weft_resizing;
weft_array *weft_resize(weft_array *x, int axis, double scale, weft_resizing, int aligns_corners);  /* n scale points, rounded down,
                                        over the stretch of the n of the axis: the nearest, on the line between two, on the cubic
                                        (Keys' with -3/4) of four. aligns_corners: the first and the last stay where they are */


/* Systems of linear equations, of the matrices on the last two axes; those in front are a batch, and broadcast. In f64 inside, and
 * rounded once. A matrix that is singular, or not positive definite, gives nan, and a status i64 [..] says where: 0, or the number,
 * from 1, of the pivot that is 0 or nan, or of the leading minor that is not positive. In one evaluation a matrix is factored once,
 * for its inverse, status and determinant, all its systems and their derivatives. Complex matrices are factored and solved as real
 * ones of twice the size, [re, -im; im, re] for each element, and ' is the conjugate transpose of them. */
weft_array *weft_cholesky(weft_array *a);          /* lower L, L L' = a; only the lower triangle of a is read */
weft_array *weft_cholesky_status(weft_array *a);
weft_array *weft_cholesky_solve(weft_array *l, weft_array *b);  /* x, l l' x = b, of lower l; b is [n] or [..,n,m] */
weft_array *weft_solve(weft_array *a, weft_array *b);  /* x, a x = b; b is [n] or [..,n,m] */
weft_array *weft_solve_triangular(weft_array *a, weft_array *b, int is_upper, int is_unit);  /* of a triangle of a, which is
                                                      all that is read; is_unit: with ones on its diagonal, which is not read */
weft_array *weft_solve_triangular_status(weft_array *a);  /* of a triangle that is not unit, and of weft_cholesky_solve: its pivots
                                                      are its diagonal */
weft_array *weft_inverse(weft_array *a);
weft_array *weft_inverse_status(weft_array *a);    /* of weft_solve too */
weft_array *weft_det(weft_array *a);               /* the determinant, [..]; derivatives up to order 7, of singular ones too; but of
                                                      complex ones, where that of a singular one is nan */
void        weft_slogdet(weft_array *a, weft_array **sign, weft_array **logarithm);  /* its sign, or a complex number of size 1, and
                                                      the logarithm of its size */

/* Weights of few bits. Every group of neighbours along the last axis, which they divide, has a scale s, and w = s q + b with a bias
 * b, or w = s q where codes q are small floats. Codes stand one after the other in u32 words, the first in the lowest bits: [.., n]
 * becomes words [.., n bits / 32], scales and biases [.., n / group]. Layouts, codes, scales and biases are MLX's, to the bit. */
typedef enum {
  WEFT_CODES_AFFINE,     /* q is a whole number of 2, 3, 4, 5, 6 or 8 bits, groups are of 32, 64 or 128; s and b are floats */
  WEFT_CODES_MXFP4,      /* q is e2m1, groups are of 32; s is a power of two, 2^(u8 - 127), and there is no b */
  WEFT_CODES_MXFP8,      /* the same with e4m3 */
  WEFT_CODES_NVFP4       /* q is e2m1, groups are of 16; s is e4m3, u8 */
} weft_code_mode;
typedef struct {
  weft_code_mode mode;
  int group, bits;             /* 0: of the mode; of affine 64 and 4 */
  weft_array *global_scale;    /* of nvfp4, f32, 0-d: the largest |w|; scales are then 2688 / it as large. NULL: there is none */
} weft_code_form;              /* NULL: all 0 */
void        weft_quantize(weft_array *w, const weft_code_form *, weft_array **words, weft_array **scales, weft_array **biases);
                               /* biases may be NULL; without biases in the mode, they are set to NULL */
weft_array *weft_dequantize(weft_array *words, weft_array *scales, weft_array *biases, const weft_code_form *, weft_dtype);
weft_array *weft_quantized_matmul(weft_array *x, weft_array *words, weft_array *scales, weft_array *biases, int is_transposed,
                                  const weft_code_form *);  /* x w, or x w' where is_transposed, batches broadcast: the bits of
                                  the product with w in f32, or f64 where x or scales are, rounded once. Codes are read once, and w
                                  stands nowhere */
weft_array *weft_gather_qmm(weft_array *x, weft_array *words, weft_array *scales, weft_array *biases, weft_array *at_x,
                            weft_array *at_words, int is_transposed, const weft_code_form *);  /* of matrices at these places of the
                                  batch, counted row by row; NULL: as they stand. Neighbours with the same words share them */



/* ---- Composed operations -------------------------------------------------------------------------------------------
 * Written with the functions above and as fast as a kernel by hand. f16 and bf16 are raised to f32 inside. */

weft_array *weft_rms_norm(weft_array *x, weft_array *w, double eps);  /* over the last axis; w may be NULL */
weft_array *weft_layer_norm(weft_array *x, weft_array *w, weft_array *b, double eps);  /* w, b may be NULL */
weft_array *weft_softmax_where(weft_array *x, weft_array *mask, int axis);      /* of the elements where the mask is; 0 elsewhere */
weft_array *weft_log_softmax_where(weft_array *x, weft_array *mask, int axis);  /* its logarithm; -inf elsewhere */
weft_array *weft_logsumexp_where(weft_array *x, weft_array *mask, int axis);    /* likewise; the axis stays */
typedef struct {
  int64_t dims;          /* elements of the last axis that are turned, in pairs; 0: all */
  int neighbours;        /* pairs are 2 j and 2 j + 1, else j and j + dims / 2 */
  double base;           /* pair j turns by base^(-2 j / dims) a place; 0: 10000 */
  double scale;          /* of the places; 0: 1 */
  weft_array *offset;    /* the first place: 0-d, or one for each of axis 0; NULL: 0 */
  weft_array *periods;   /* [dims / 2]: pair j turns by 1 / period a place, whatever base is; NULL: by base */
} weft_rope_options;
weft_array *weft_rope(weft_array *x, const weft_rope_options *);  /* of [..,T,d]: pairs turned by their place in T */
typedef struct {
  double scale;                                    /* 0: 1 / sqrt(d) */
  weft_array *mask;                                /* [..,T,S]; bool: false is left out; numbers are added; NULL: none */
  int is_causal;                                   /* row i sees the columns up to i + S - T */
} weft_attention_options;
weft_array *weft_attention(weft_array *q, weft_array *k, weft_array *v, const weft_attention_options *);  /* softmax(q k'
                                                      scale + mask) v: [..,T,d], [..,S,d], [..,S,e] -> [..,T,e]. Heads stand
                                                      on axis -3; q may have several for each of k and v. The scores
                                                      [..,T,S] are never stored, but for a gradient */
weft_array *weft_var(weft_array *, int axis, int64_t ddof);  /* sum |x - mean|^2 / (n - ddof); the axis stays */
weft_array *weft_std(weft_array *, int axis, int64_t ddof);  /* its square root; its derivative is nan where all are equal */
weft_array *weft_var_over(weft_array *, int n, const int axes[], int64_t ddof);  /* over several axes, about the mean over them */
weft_array *weft_std_over(weft_array *, int n, const int axes[], int64_t ddof);
weft_array *weft_nanvar(weft_array *, int axis, int64_t ddof);  /* as if there were no nan; nan of not more than ddof elements */
weft_array *weft_nanstd(weft_array *, int axis, int64_t ddof);

#define WEFT_ACTIVATION(X)                                                   \
  X(relu,        "x above 0, else 0; derivative 0 at 0")                     \
  X(silu,        "x sigmoid(x)")                                             \
  X(gelu,        "x/2 (1 + erf(x / sqrt 2))")                                \
  X(gelu_approx, "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))")            \
  X(softplus,    "log(1 + e^x)")

#define WEFT_DECLARE_(name, doc) weft_array *weft_##name(weft_array *x);
WEFT_ACTIVATION(WEFT_DECLARE_)
#undef WEFT_DECLARE_


/* ---- Transforms ----------------------------------------------------------------------------------------------------
 * A lazy array already is a function of whatever it was computed from, so transforms take expressions, not callbacks:
 * m results y in terms of n arrays x. They return expressions, and nest at will. J is the Jacobian of y by x.
 *
 * Complex arrays: J is the linear map of their real and imaginary parts, and J' its transpose without conjugates,
 * Re sum(dy (J dx)) = Re sum((J' dy) dx). So the gradient of f(z) is f'(z) where there is one, and the gradient of a real y
 * by x = a + ib is dy/da - i dy/db, as in MLX and JAX: to descend, step against its conjugate.
 *
 * An x is an array that y was computed from, or what y is a derivative or map of: not a number, and not a 0-d weft_full, a
 * weft_iota or an array made in a body where a loop or choice has copied it. Those are refused; use a weft_alias of it, made
 * before the body. What only one side of a weft_choose needs is of that side once the choice has been transformed: ask for it in
 * the first transform. */

void weft_grad(weft_array *y, int n, weft_array *const x[], weft_array *dx[]);  /* d sum(y) / dx; 0 if unrelated */
void weft_vjp(int m, weft_array *const y[], weft_array *const dy[], int n, weft_array *const x[], weft_array *dx[]);
                                                   /* dx = J' dy, reverse mode */
void weft_jvp(int n, weft_array *const x[], weft_array *const dx[], int m, weft_array *const y[], weft_array *dy[]);
                                                   /* dy = J dx, forward mode */
void weft_map(int n, weft_array *const x[], weft_array *const xs[], int m, weft_array *const y[], weft_array *ys[]);
                                                   /* ys[r] = y with xs[r] in place of x, for every r along axis 0. What no row
                                                      reads is not looked at: not x itself, nor what a call does not read */
weft_array *weft_stop_gradient(weft_array *);      /* x, with derivative 0 */

void weft_checkpoint(int n, weft_array *const x[], int m, weft_array *y[]);
                                                   /* y is replaced: reverse mode computes it from x again */

/* Own rules: y is replaced by arrays of the same value whose derivatives by x are what the rules say, and 0 by all else. A
 * rule builds expressions, and returns 0 or, to report failure, anything else. It is called by weft_grad, vjp, jvp or map,
 * on their thread, and never during evaluation. A NULL rule means the ordinary one. */
typedef struct {
  void *ctx;
  int (*vjp)(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]);
  int (*jvp)(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]);    /* dx_j NULL: 0 */
  int (*map)(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]);    /* over axis 0 */
  void (*release)(void *ctx);                      /* when nothing refers to the rules any more */
} weft_rules;
void weft_custom(int n, weft_array *const x[], int m, weft_array *y[], const weft_rules *);


/* ---- Functions -----------------------------------------------------------------------------------------------------
 *   weft_scope *body = weft_scope_open();
 *   weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, 512)), *y = model(x);
 *   weft_function *f = weft_compile(body, 1, &x, 1, &y);
 *   ...
 *   weft_call(f, 1, &batch, 1, &result);
 *
 * A function is pure, serves any number of threads, and specialises itself to the sizes it meets. Other arrays the
 * body uses keep the value they have now, and derivatives by them are found; list among the inputs what should vary, placeholder
 * or not: any array that is an x (see Transforms). */

weft_array    *weft_input(weft_dtype, int rank, const int64_t dims[]);  /* a name; sizes may be ANY; NULL: all */
weft_function *weft_compile(weft_scope *, int n, weft_array *const in[], int m, weft_array *const out[]);
                               /* ends the scope; the function belongs to the one outside. If bad, so are its calls */
void           weft_call(weft_function *, int n, weft_array *const in[], int m, weft_array *out[]);
                               /* lazy, like any operation: differentiable, mappable, legal in loops and functions */
void           weft_function_arity(weft_function *, int *n, int *m);


/* ---- Loops ---------------------------------------------------------------------------------------------------------
 * The body is written once, between open and close, in terms of loop variables; it runs as often as it must. For
 * y_t = a y_{t-1} + b y_{t-2} + e_t:
 *
 *   weft_loop *loop = weft_loop_open(NULL);                     runs once for every e
 *   weft_array *e_t = weft_loop_each(loop, e), *y1 = weft_loop_carry(loop, y0), *y2 = weft_loop_carry(loop, y00);
 *   weft_array *y_t = weft_add(weft_add(weft_mul(a, y1), weft_mul(b, y2)), e_t);
 *   weft_loop_next(loop, y1, y_t);
 *   weft_loop_next(loop, y2, y1);
 *   weft_array *y = weft_loop_all(loop, y_t);
 *   weft_loop_close(loop);
 *
 * Arrays from outside may be used freely. A loop can be differentiated, mapped, nested; its cost to compile does not
 * depend on the number of steps. Backwards is weft_flip before and after, an earlier element of a sequence is a slice
 * of it, an earlier state is one more carry. */

weft_loop  *weft_loop_open(weft_array *steps);               /* 0-d integer; NULL: the shortest sequence, or until */
weft_array *weft_loop_each(weft_loop *, weft_array *xs);     /* xs[t] along axis 0; longer sequences are cut */
weft_array *weft_loop_carry(weft_loop *, weft_array *init);  /* init at step 0, then what next says */
void        weft_loop_next(weft_loop *, weft_array *carry, weft_array *value);  /* same shape and dtype */
void        weft_loop_until(weft_loop *, weft_array *stop);  /* 0-d bool; the step where it is true is the last */
weft_array *weft_loop_all(weft_loop *, weft_array *y);       /* y of every step, stacked; for use after close. Needs a
                                                                bound: steps or a sequence */
weft_array *weft_loop_tail(weft_loop *, weft_array *y, int64_t k);  /* y of the last k steps, or of all if there are fewer, in
                                                                memory for k. A loop that until ends is run once more for
                                                                it, and needs no bound */
weft_array *weft_loop_last(weft_loop *, weft_array *carry);  /* the carry after the last step; for use after close */
void        weft_loop_recompute(weft_loop *, int64_t every);  /* reverse mode keeps the carries before every k-th step and
                                                                computes those between again; 0: k is the square root of the
                                                                steps, so is what is kept, if their number is known here.
                                                                Without it all are kept. A loop that until ends is run once
                                                                more for it, and needs no bound */
void        weft_loop_truncate(weft_loop *, int64_t steps);   /* reverse mode goes back through the last steps only: what
                                                                the ones before did is constant to it */
void        weft_loop_close(weft_loop *);

/* Choices. What is made between open and close is computed only if the side that is chosen needs it:
 *
 *   weft_cond *choice = weft_cond_open(weft_lt(error, tolerance));
 *   weft_array *y = weft_cond_value(choice, x, refined(x));
 *   weft_cond_close(choice);
 *
 * A choice can be differentiated, mapped, nested. If weft_map makes p vary, it is weft_where of both, and what
 * fails in a row that takes the other side counts for nothing. */

weft_cond  *weft_cond_open(weft_array *p);                   /* 0-d bool */
weft_array *weft_cond_value(weft_cond *, weft_array *a, weft_array *b);  /* p ? a : b, of the same shape and dtype; for
                                                                use after close */
void        weft_cond_close(weft_cond *);

/* The same of expressions that exist already. In a function and in the body of a loop, where nobody can ask for what is between,
 * and where it is differentiated or mapped, what only one side needs is computed, and may fail, if that side is chosen; evaluated
 * outside of a function both sides are computed. Sides of different sizes give sizes that are known when it runs. */

weft_array *weft_choose(weft_array *p, weft_array *a, weft_array *b);  /* p ? a : b, p a 0-d bool; a, b of one rank, or numbers */

/* ---- Evaluation ----------------------------------------------------------------------------------------------------
 * Whatever is asked for together is planned together: prefer one call with many arrays. Work that was started and then
 * fails makes its arrays bad, and those its scope was to update. An array that has been stored forgets its expression
 * once no open scope can ask for it; differentiating through it then is WEFT_ERR_NO_HISTORY, never zero. */

WEFT_MUST weft_status weft_read(weft_array *, weft_dtype, void *dst, size_t bytes);  /* as weft_fetch, now */
WEFT_MUST weft_status weft_eval(int n, weft_array *const[]);        /* compute and store */
WEFT_MUST weft_status weft_eval_async(int n, weft_array *const[]);  /* the same, but return once it is started */
WEFT_MUST weft_status weft_wait(int n, weft_array *const[], double seconds);
                                  /* until ready, or TIMEOUT; seconds < 0: for ever. What nobody has started is not waited for.
                                     n = 0: all this thread started; also says, once, what failed of it that nobody has seen,
                                     and fetches that did: of several the first */
weft_array *weft_to(weft_array *, int device);  /* x on that device: what is computed from it runs there, and nowhere else until
                                     weft_to brings it away; -1: on none in particular, so it runs where the thread
                                     says (WEFT_DEVICE). In the body of a loop, which runs in one place, it is x */
typedef enum { WEFT_LAZY, WEFT_RUNNING, WEFT_READY, WEFT_FAILED } weft_state;
weft_state  weft_state_of(weft_array *, int *device);  /* never waits. device may be NULL; where, if READY */

void        weft_cancel_when(const volatile int *flag);
                                  /* what this thread starts from now on stops once *flag != 0; NULL: never. The flag
                                     may be set by a signal handler or another thread, and must outlive the work */
void        weft_before_long(void (*call)(void *ctx), void *ctx);
                                  /* called on this thread before work of more than a moment, and before it waits, by
                                     what evaluates; may come more than once. For bindings: here a lock is let go.
                                     NULL: nothing is called */


/* ---- Files ---------------------------------------------------------------------------------------------------------
 * safetensors and npy, by content when reading and by name when writing. Arrays are read when they are needed,
 * without a copy where that is possible, and stay valid when the file object is gone or the file is written over. */

weft_file  *weft_file_open(const char *path);
int         weft_file_count(weft_file *);                   /* -1: it cannot be read, and weft_message says why */
const char *weft_file_name(weft_file *, int i);             /* in the order of the file; NULL: no such i */
weft_array *weft_file_get(weft_file *, const char *name);   /* NULL: the first */
int         weft_file_meta(weft_file *, int i, const char **key, const char **value);  /* 0: no such i */

WEFT_MUST weft_status weft_save(const char *path, int n, const char *const names[], weft_array *const[],
                                const char *const meta[]);  /* key, value, .., NULL; or NULL. All of it is written, or
                                                               the file that was there stays */


/* ---- Devices, threads, memory --------------------------------------------------------------------------------------
 * weft_set returns the value before, or -1 if it refuses; weft_message says why. Bytes are those of the current device. */

typedef enum {
  WEFT_DEVICE,        /* where work started by this thread runs, unless weft_to has placed it: 0 the CPU, 1.. GPUs. Values stay
                         where they were computed until they are read or wanted elsewhere. At first the environment
                         variable WEFT_DEVICE, else 0; evaluating on a device that is not there is WEFT_ERR_DEVICE */
  WEFT_DEVICE_COUNT,  /* read only */
  WEFT_THREADS,       /* the most CPU threads for work started by this thread */
  WEFT_REWRITES,      /* of functions this thread compiles: 0 those that keep every bit, as outside functions; 1 those too that
                         are better conditioned (at first); 2 those too that only make it faster: x y + z becomes
                         weft_fma(x, y, z), a quotient by a number a product with its reciprocal */
  WEFT_CHECK,         /* this thread: 1 makes a nan in a result WEFT_ERR_NAN, 2 an inf too. The message names the operation it
                         arose in and the step of each loop around it, weft_blame its line; the values stay. At first the
                         environment variable WEFT_CHECK: nan, inf, or none. For debugging: results are looked through */
  WEFT_BLAS,          /* this thread: 1 gives products of f32 and f64 matrices to a CBLAS, with its bits and its order of sums, and
                         factors and systems of 512 rows or more to its LAPACK, if it has one; on GPUs products of 2^20
                         multiplications and more to cublasLt, if that is found. Refused where there is neither a CBLAS nor, with
                         WEFT_DEVICE a GPU, cublasLt. At first 1 if the environment variable WEFT_BLAS is 1, or the name or path of
                         a library. Where there is no CBLAS then, such products on the CPU are WEFT_ERR_FILE */
  WEFT_HALVES,        /* this thread, on every device: 1 lets products of f16 and bf16 matrices, and attention, be added in the
                         order of the machine, by tensor cores and, of bf16, by the CPU's tiles (AMX), which take numbers too
                         small for them for 0; 0 adds in the order of k. 2: 1 on GPUs, 0 on the CPU. At first the environment
                         variable WEFT_HALVES, or 2 */
  WEFT_TF32,          /* this thread, on GPUs: 1 lets products of f32 matrices round what they multiply to 11 bits (tf32) and
                         add in the order of the machine, by tensor cores; 0 multiplies f32 in the order of k, as the CPU does. At
                         first 1 if the environment variable WEFT_TF32 is 1, else 0 */
  WEFT_BYTES_LIMIT,   /* beyond it: WEFT_ERR_MEMORY; below 0: there is none. This and the next four: of the device that is set, or
                         of the CPU */
  WEFT_BYTES_CACHE,   /* the most to keep for reuse, constants of functions that products have packed included; set 0 to give all of
                         it back */
  WEFT_BYTES_USED, WEFT_BYTES_CACHED,  /* read only. Arrays, temporaries and what products work in; not the few rows a
                         thread that a kernel works on */
  WEFT_BYTES_PEAK,    /* of USED since it was last set */
  WEFT_NODES,         /* read only: nodes alive in the process; 0 when every scope has ended */
  WEFT_KERNELS,       /* read only: kernels compiled since the process started */
  WEFT_KERNELS_VM,    /* read only: those of them that the encoder left to the vm */
  WEFT_KERNELS_HOST   /* read only: steps of work for a device that ran on the host, since the process started */
} weft_setting;
int64_t     weft_get(weft_setting);
int64_t     weft_set(weft_setting, int64_t value);
const char *weft_device_text(int device);               /* name, memory, instruction set; NULL: no such device */


/* ---- Looking inside ------------------------------------------------------------------------------------------------
 * what: "value", "graph", "dot", "plan", "kernels", "asm", "ptx" or "sass"; or, of no arrays, "caches": what is kept in memory and
 * on disk. Texts belong to the open scope. WEFT_SHOW=plan,kernels in the environment shows such words, from "plan" on, of all
 * that is planned, on standard error. */

const char *weft_show(int n, weft_array *const[], const char *what);
const char *weft_function_show(weft_function *, const char *what);  /* no value; plans are those its calls have made so far */

typedef struct {
  int64_t peak_bytes, moved_bytes, operations;
  int kernels, library_calls;
  int64_t scratch_bytes;  /* of peak_bytes: what the threads of a product of matrices work in */
} weft_cost;
WEFT_MUST weft_status weft_plan(int n, weft_array *const[], weft_cost *);  /* what weft_eval would do; runs nothing */

uint64_t    weft_id(weft_array *);                        /* equal for arrays that are the same node */
const char *weft_op(weft_array *);                        /* "add"; "input", "value" at the leaves */
int         weft_operands(weft_array *, int max, weft_array *in[]);  /* returns how many there are */


/* ---- For language bindings -----------------------------------------------------------------------------------------
 * A program in C needs none of this. A binding makes each operation in a scope that it discards, owns the result for an
 * object of its language, and calls weft_check where its users expect an exception. Callbacks come on a thread that is
 * inside a call of weft, never on weft's own threads, and with no lock held.
 *
 * An owner keeps an array alive beside, and after, its scope. Disown removes one owner; it may be called by any thread,
 * at any time, also while the process ends. */

weft_array    *weft_own(weft_array *);                 /* returns its argument */
void           weft_disown(weft_array *);              /* NULL: nothing */
weft_function *weft_function_own(weft_function *);
void           weft_function_disown(weft_function *);

/* The same value under a new identity, in this scope: something to differentiate by, or to return from a rule. Until
 * this scope ends, evaluation keeps the history of whatever is computed from it: the scope is the trace. */
weft_array *weft_alias(weft_array *);
weft_array *weft_depends(weft_array *, int n, weft_array *const on[]);  /* x, computed after all of these */

/* x, if p is true everywhere; else whatever needs x fails with WEFT_ERR_ASSERT and this message. p: bool, of any shape. It counts
 * as index checks do: not in rows of a map that are not active, not in a side of a choice that is not taken, and for nobody
 * where x has no elements. */
weft_array *weft_assert(weft_array *x, weft_array *p, const char *message);

int weft_describe(weft_array *, weft_dtype *, int64_t dims[WEFT_RANK_MAX]);
                                  /* weft_rank, weft_dtype_of and each weft_dim at once; -1: bad, or a size is none yet */

/* Memory shared with others: data[sum_k i_k strides[k]], strides in elements. */
typedef struct {
  void *data;
  int device;
  weft_dtype dtype;
  int rank;
  const int64_t *dims, *strides;
} weft_block;
weft_array *weft_external(const weft_block *, void (*release)(void *ctx), void *ctx);
                                  /* not copied; release is called once, and at once if the array is bad */
                                  /* on a device, data is an address there, which the driver is asked about. What others have
                                     enqueued for it comes first if weft_follow says so */
WEFT_MUST weft_status weft_pin(weft_array *, int device, weft_block *);
                                  /* computed, brought and kept there, and no kernel will overwrite it. Who writes to it
                                     changes the array, and expressions of it that are not computed yet */
void        weft_unpin(weft_array *);  /* once for every pin; the block is void then */
void       *weft_stream(int device);  /* on which weft computes there, a CUstream of the primary context; NULL: no such device */
WEFT_MUST weft_status weft_follow(int device, void *stream);
                                  /* what weft computes there from now on comes after what that stream has now */
WEFT_MUST weft_status weft_lead(int device, void *stream);
                                  /* what that stream is given from now on comes after what weft has enqueued there. NULL or 1 is
                                     CUDA's default stream, 2 that of the thread */
int         weft_is_only(weft_array *);  /* 1: it is computed and not pinned, its elements are apart, and no other array, expression
                                     or view can come to its memory. Who pins it then may write there without being seen */

/* Where in the user's program: nodes made by this thread carry the tag last set. */
uint64_t    weft_origin(uint64_t tag);  /* returns the one before */
uint64_t    weft_blame(void);           /* the tag of the node that weft_message is about; 0: none */


/* Functions of the host that compute arrays, as a step of whatever is computed: called on the thread that asks for the result,
 * with no lock held and nothing left to do on a device. What is started in the background waits there until somebody waits for
 * it. The function may use weft, but must not ask for what waits for it. It is called once for every row of a map, and
 * differentiated by the rules of weft_custom alone. */
typedef struct {
  void *ctx;
  int (*run)(void *ctx, const weft_block in[], const weft_block out[]);  /* all dense; fills out; 0, or anything else to fail:
                                     the status of what failed inside it is the caller's, with its message */
  void (*release)(void *ctx);     /* when nothing refers to it any more; NULL: nothing */
} weft_host_function;
void        weft_host(const weft_host_function *, int n, weft_array *const x[], int m, const weft_block like[], weft_array *y[]);
                                  /* y_k has the dtype and dims of like_k; its data and strides are not looked at */
void        weft_host_like(const weft_host_function *, int n, weft_array *const x[], int m, weft_array *const like[],
                           weft_array *y[]);
                                  /* y_k has the dtype and the sizes, be they open, of an array, which is not computed for it */


/* ---- Lists in place ------------------------------------------------------------------------------------------------
 * The count is found without evaluating the elements, which are evaluated once. */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#define WEFT_LIST_(T, ...) \
  (int)std::tuple_size<decltype(std::make_tuple(__VA_ARGS__))>::value, std::initializer_list<T>{__VA_ARGS__}.begin()
#else
#define WEFT_LIST_(T, ...) (int)(sizeof((T[]){__VA_ARGS__}) / sizeof(T)), (T[]){__VA_ARGS__}
#endif
#define WEFT_DIMS(...)   WEFT_LIST_(int64_t, __VA_ARGS__)      /* WEFT_DIMS(2, 3); a 0-d shape is 0, NULL */
#define WEFT_AXES(...)   WEFT_LIST_(int, __VA_ARGS__)
#define WEFT_ARRAYS(...) WEFT_LIST_(weft_array *, __VA_ARGS__)

#endif
