/* later.c -- functions whose expressions depend on sizes, of arrays whose sizes are open: one function is called with several sizes
 * one after another, and has the bits that it has where sizes are known from the first. So have its derivatives, its maps, and loops
 * with it in their body; where sizes are computed, too. What does not fit is said when it is known, as it is said otherwise. */
#include "values.h"
#include "ways.h"

enum { MOST_IN = 3, CALLS = 4 };
struct sizes { int rank; int64_t dims[5]; };
struct function {
  const char *name;
  weft_array *(*f)(weft_array *const in[]);
  int n_in;
  struct sizes call[CALLS][MOST_IN];
  bool is_of_terms; /* an operand stands in it in several places: of derivatives their terms are added in another order, and a 0 may
                       have another sign */
};

/* ---- The functions: of f32, to one real array ---- */

static weft_array *parts(weft_array *y) { return weft_concat(-1, 2, (weft_array *[]){ weft_real(y), weft_imag(y) }); }
static weft_array *fft(weft_array *const in[]) { return parts(weft_fft(in[0], 0, 1)); }
static weft_array *inverse_fft(weft_array *const in[]) { return parts(weft_fft(weft_complex(in[0], weft_sin(in[0])), 1, 0.25)); }
static weft_array *hadamard(weft_array *const in[]) { return weft_hadamard(in[0], 0); }
static weft_array *rope(weft_array *const in[]) { return weft_rope(in[0], NULL); }
static weft_array *rope_of_periods(weft_array *const in[]) {
  return weft_rope(in[0], &(weft_rope_options){ .neighbours = 1, .offset = weft_sum(in[1], WEFT_ALL), .periods = weft_add(weft_mul(in[1], in[1]), weft_scalar(1)) });
}
static weft_array *conv(weft_array *const in[]) { return weft_conv(in[0], in[1], NULL); }
static weft_array *conv_in_groups(weft_array *const in[]) {
  return weft_conv(in[0], in[1], &(weft_conv_options){ .stride = (int64_t[]){ 2, 1 }, .before = (int64_t[]){ 1, 1 }, .after = (int64_t[]){ 1, 0 }, .groups = 2 });
}
static weft_array *conv_channels(weft_array *const in[]) { return weft_conv(in[0], in[1], &(weft_conv_options){ .before = (int64_t[]){ 1, 1 }, .after = (int64_t[]){ 1, 1 }, .groups = 4 }); }
static weft_array *conv_spread(weft_array *const in[]) { return weft_conv(in[0], in[1], &(weft_conv_options){ .spread = (int64_t[]){ 2 }, .dilation = (int64_t[]){ 2 }, .before = (int64_t[]){ 3 }, .is_flipped = 1 }); }
static weft_array *quantized(weft_array *const in[]) {
  weft_array *words, *scales, *biases;
  weft_quantize(in[1], &(weft_code_form){ .group = 32, .bits = 3 }, &words, &scales, &biases);
  return weft_quantized_matmul(in[0], words, scales, biases, 1, &(weft_code_form){ .group = 32, .bits = 3 });
}
static weft_array *attention(weft_array *const in[]) { return weft_attention(in[0], in[1], in[2], &(weft_attention_options){ .is_causal = 1 }); }
static weft_array *split(weft_array *const in[]) {
  weft_array *part[3];
  weft_split(in[0], -1, 3, part);
  return weft_sub(weft_mul(part[0], part[2]), part[1]);
}
static weft_array *correlate(weft_array *const in[]) { return weft_correlate(in[0], in[1], WEFT_REACH_SAME); }
static weft_array *convolve(weft_array *const in[]) { return weft_convolve(in[0], in[1], WEFT_REACH_VALID); }

static weft_array *einsum_of_three(weft_array *const in[]) { return weft_einsum("ij,jkl,lj->ki", 3, in); }
static weft_array *einsum_of_two(weft_array *const in[]) { return weft_einsum("cab,abcd->d", 2, in); }
static weft_array *conv_spread_3d(weft_array *const in[]) {
  return weft_conv(in[0], in[1], &(weft_conv_options){ .spread = (int64_t[]){ 2, 3, 2 }, .before = (int64_t[]){ 2, 1, 0 } });
}

#define S(...) { sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), { __VA_ARGS__ } }
static const struct function functions[] = {
  { "fft", fft, 1, { { S(3, 12) }, { S(1, 1) }, { S(2, 35) }, { S(0, 8) } } },
  { "inverse fft", inverse_fft, 1, { { S(2, 16) }, { S(3, 7) }, { S(1, 2) }, { S(2, 9) } } },
  { "hadamard", hadamard, 1, { { S(3, 4) }, { S(2, 12) }, { S(1, 128) }, { S(2, 1) } } },
  { "rope", rope, 1, { { S(2, 3, 4) }, { S(1, 5, 8) }, { S(2, 0, 6) }, { S(3, 1, 2) } } },
  { "rope of periods", rope_of_periods, 2, { { S(2, 3, 4), S(2) }, { S(1, 5, 8), S(4) }, { S(0, 3, 6), S(3) }, { S(3, 1, 2), S(1) } }, true },
  { "conv", conv, 2, { { S(2, 6, 3), S(4, 3, 3) }, { S(1, 40, 24), S(2, 4, 24) }, { S(0, 5, 1), S(1, 5, 1) }, { S(1, 1, 1), S(1, 1, 1) } } },
  { "conv in groups", conv_in_groups, 2, { { S(2, 6, 7, 4), S(6, 3, 2, 2) }, { S(1, 33, 32, 32), S(2, 3, 3, 16) }, { S(1, 3, 3, 2), S(2, 1, 1, 1) }, { S(0, 4, 4, 6), S(2, 2, 2, 3) } } },
  { "conv of channels", conv_channels, 2, { { S(2, 6, 7, 4), S(4, 3, 3, 1) }, { S(1, 9, 9, 4), S(8, 2, 3, 1) }, { S(1, 1, 1, 4), S(4, 1, 1, 1) }, { S(0, 4, 4, 4), S(4, 2, 2, 1) } } },
  { "conv spread", conv_spread, 2, { { S(2, 6, 3), S(4, 3, 3) }, { S(1, 9, 2), S(1, 2, 2) }, { S(1, 1, 1), S(1, 1, 1) }, { S(0, 5, 2), S(3, 4, 2) } } },
  { "conv spread 3d", conv_spread_3d, 2, { { S(2, 2, 3, 2, 3), S(2, 2, 1, 2, 3) }, { S(1, 1, 1, 1, 1), S(1, 1, 1, 1, 1) }, { S(0, 2, 1, 2, 1), S(2, 1, 2, 1, 1) }, { S(1, 3, 1, 2, 2), S(3, 2, 2, 1, 2) } } },
  { "einsum of three", einsum_of_three, 3, { { S(2, 8), S(8, 5, 3), S(3, 8) }, { S(30, 3), S(3, 1, 20), S(20, 3) }, { S(4, 0), S(0, 2, 3), S(3, 0) }, { S(1, 7), S(7, 30, 2), S(2, 7) } }, true },
  { "einsum of two", einsum_of_two, 2, { { S(3, 4, 5), S(4, 5, 3, 1) }, { S(3, 4, 5), S(4, 5, 3, 6) }, { S(1, 1, 1), S(1, 1, 1, 2) }, { S(2, 0, 3), S(0, 3, 2, 2) } }, true },
  { "quantized", quantized, 2, { { S(3, 32), S(4, 32) }, { S(1, 96), S(2, 96) }, { S(2, 64), S(0, 64) }, { S(0, 32), S(1, 32) } } },
  { "attention", attention, 3, { { S(2, 4, 3, 4), S(2, 2, 5, 4), S(2, 2, 5, 3) }, { S(1, 3, 2, 2), S(1, 3, 4, 2), S(1, 3, 4, 2) }, { S(2, 6, 3, 4), S(2, 1, 3, 4), S(2, 1, 3, 4) }, { S(0, 4, 3, 4), S(0, 2, 5, 4), S(0, 2, 5, 4) } }, true },
  { "split", split, 1, { { S(2, 6) }, { S(1, 3) }, { S(4, 0) }, { S(0, 9) } } },
  { "correlate", correlate, 2, { { S(7), S(3) }, { S(3), S(8) }, { S(1), S(1) }, { S(50), S(20) } } },
  { "convolve", convolve, 2, { { S(7), S(3) }, { S(3), S(8) }, { S(4), S(4) }, { S(20), S(61) } } },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- What is made of one: of the same arrays, or of them with an axis of rows in front ---- */

static weft_array *value(const struct function *f, weft_array *const in[]) { return f->f(in); }

static weft_array *smooth(weft_array *const in[], weft_array *x[], const struct function *f) { /* x: what is differentiated by */
  weft_array *of[MOST_IN];
  for (int k = 0; k < f->n_in; k++) x[k] = in[k], of[k] = weft_sin(in[k]);
  return f->f(of);
}

static weft_array *joined(int n, weft_array *const x[]) {
  weft_array *all[MOST_IN];
  for (int k = 0; k < n; k++) all[k] = weft_reshape(x[k], WEFT_DIMS(WEFT_ANY));
  return weft_concat(0, n, all);
}

static weft_array *pulled(const struct function *f, weft_array *const in[]) {
  weft_array *x[MOST_IN], *dx[MOST_IN], *y = smooth(in, x, f), *dy = weft_add(weft_stop_gradient(y), weft_scalar(0.5));
  weft_vjp(1, &y, &dy, f->n_in, x, dx);
  return joined(f->n_in, dx);
}

static weft_array *pushed(const struct function *f, weft_array *const in[]) {
  weft_array *x[MOST_IN], *dx[MOST_IN], *y = smooth(in, x, f), *dy;
  for (int k = 0; k < f->n_in; k++) dx[k] = weft_cos(x[k]);
  weft_jvp(f->n_in, x, dx, 1, &y, &dy);
  return dy;
}

static weft_array *pulled_twice(const struct function *f, weft_array *const in[]) {
  weft_array *x[MOST_IN], *dx[MOST_IN], *y = smooth(in, x, f), *of;
  weft_grad(weft_mul(y, y), f->n_in, x, dx);
  of = weft_sum(weft_mul(joined(f->n_in, dx), joined(f->n_in, dx)), WEFT_ALL);
  weft_grad(of, f->n_in, x, dx);
  return joined(f->n_in, dx);
}

static weft_array *pushed_of_pulled(const struct function *f, weft_array *const in[]) {
  weft_array *x[MOST_IN], *dx[MOST_IN], *y = smooth(in, x, f), *all, *d;
  weft_grad(weft_mul(y, y), f->n_in, x, dx);
  all = joined(f->n_in, dx);
  for (int k = 0; k < f->n_in; k++) dx[k] = weft_cos(x[k]);
  weft_jvp(f->n_in, x, dx, 1, &all, &d);
  return d;
}

/* Rows of the first operand, of the last, or of all; a derivative of the function of a row, too. */
static weft_array *mapped_over(const struct function *f, weft_array *const in[], bool is_first, bool is_last,
                               weft_array *(*of)(const struct function *, weft_array *const[])) {
  weft_array *x[MOST_IN], *xs[MOST_IN], *row[MOST_IN], *y, *ys;
  int n = 0;
  for (int k = 0; k < f->n_in; k++) {
    row[k] = in[k];
    if (!(is_first && k == 0) && !(is_last && k == f->n_in - 1) && !(is_first && is_last)) continue;
    xs[n] = weft_stack(0, 3, (weft_array *[]){ in[k], weft_flip(in[k], -1), weft_sin(in[k]) });
    x[n] = row[k] = weft_alias(weft_at(xs[n], 0, weft_integer(0))), n++;
  }
  y = of(f, row);
  weft_map(n, x, xs, 1, &y, &ys);
  return ys;
}
static weft_array *mapped(const struct function *f, weft_array *const in[]) { return mapped_over(f, in, true, true, value); }
static weft_array *mapped_by_first(const struct function *f, weft_array *const in[]) { return mapped_over(f, in, true, false, value); }
static weft_array *mapped_by_last(const struct function *f, weft_array *const in[]) { return mapped_over(f, in, false, true, value); }
static weft_array *mapped_pulled(const struct function *f, weft_array *const in[]) { return mapped_over(f, in, true, true, pulled); }

static weft_array *pulled_mapped(const struct function *f, weft_array *const in[]) {
  weft_array *y = mapped(f, in), *dx[MOST_IN];
  weft_grad(weft_mul(y, y), f->n_in, in, dx);
  return joined(f->n_in, dx);
}

/* In the body of a loop: of a carry. */
static weft_array *looped(const struct function *f, weft_array *const in[]) {
  weft_array *of[MOST_IN];
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, in[0]);
  for (int k = 0; k < f->n_in; k++) of[k] = k ? in[k] : c;
  weft_array *y = f->f(of);
  weft_loop_next(l, c, weft_mul(c, weft_add(weft_scalar(0.5), weft_cos(weft_mean(weft_concat(0, 2, (weft_array *[]){ weft_reshape(y, WEFT_DIMS(WEFT_ANY)), weft_full(WEFT_F32, WEFT_DIMS(1), 1) }), WEFT_ALL)))));
  weft_array *all = weft_loop_all(l, y);
  weft_loop_close(l);
  return all;
}

static weft_array *pulled_looped(const struct function *f, weft_array *const in[]) {
  weft_array *x[MOST_IN], *of[MOST_IN], *dx[MOST_IN];
  for (int k = 0; k < f->n_in; k++) x[k] = in[k], of[k] = weft_sin(in[k]);
  weft_array *y = looped(f, of);
  weft_grad(weft_mul(y, y), f->n_in, x, dx);
  return joined(f->n_in, dx);
}

static weft_array *chosen(const struct function *f, weft_array *const in[]) {
  weft_array *y = f->f(in), *of = weft_concat(0, 2, (weft_array *[]){ weft_reshape(in[0], WEFT_DIMS(WEFT_ANY)), weft_full(WEFT_F32, WEFT_DIMS(1), 1) });
  return weft_choose(weft_gt(weft_sum(of, WEFT_ALL), weft_scalar(0)), weft_mul(y, y), weft_exp(y));
}

static const struct { const char *name; weft_array *(*of)(const struct function *, weft_array *const[]); } forms[] = {
  { "value", value }, { "vjp", pulled }, { "jvp", pushed }, { "vjp of vjp", pulled_twice }, { "jvp of vjp", pushed_of_pulled }, { "map", mapped },
  { "map by the first", mapped_by_first }, { "map by the last", mapped_by_last }, { "map of vjp", mapped_pulled }, { "vjp of map", pulled_mapped },
  { "loop", looped }, { "vjp of loop", pulled_looped }, { "choice", chosen },
};
enum { FORMS = sizeof forms / sizeof *forms };

static weft_array *argument(const struct sizes *s, uint32_t seed) { return weft_cast(drawn_floats(s->rank, s->dims, seed), WEFT_F32); }

/* The bits of two; both may be empty, or both fail, with one message. */
static void compare(const struct function *f, const char *form, int call, weft_array *got, weft_array *want) {
  size_t n = 1, m = 1;
  bool same = weft_rank(got) == weft_rank(want);
  for (int k = 0; same && k < weft_rank(want); k++) same = weft_dim(got, k) == weft_dim(want, k);
  if (!same) return test_fail(__FILE__, __LINE__, "%s, %s, call %d: another shape, or %s", f->name, form, call, weft_message());
  double *a = all_f64(got, &n), *b = all_f64(want, &m);
  size_t at = 0;
  bool is_near = f->is_of_terms && strstr(form, "vjp");
  while (at < n && (is_near ? near(a[at], b[at], 1e-5) : are_same(a + at, b + at, 1))) at++;
  if (at < n) test_fail(__FILE__, __LINE__, "%s, %s, call %d: element %zu of %zu is %.17g, with known sizes %.17g", f->name, form, call, at, n, a[at], b[at]);
  free(a), free(b);
}

/* In a function of just these sizes: rewrites of functions round as they do there. */
static weft_array *known(const struct function *f, int form, weft_array *const in[]) {
  weft_array *name[MOST_IN], *y;
  weft_scope *body = weft_scope_open();
  for (int k = 0; k < f->n_in; k++) {
    int64_t dims[WEFT_RANK_MAX];
    weft_dtype d;
    int rank = weft_describe(in[k], &d, dims);
    name[k] = weft_input(d, rank, dims);
  }
  y = forms[form].of(f, name);
  weft_call(weft_compile(body, f->n_in, name, 1, &y), f->n_in, in, 1, &y);
  return y;
}

static void check_form(const struct function *f, int form) {
  weft_array *name[MOST_IN];
  weft_scope *body = weft_scope_open();
  for (int k = 0; k < f->n_in; k++) name[k] = weft_input(WEFT_F32, f->call[0][k].rank, NULL);
  weft_array *y = forms[form].of(f, name);
  if (weft_check(y)) test_fail(__FILE__, __LINE__, "%s, %s: %s", f->name, forms[form].name, weft_message());
  weft_function *open = weft_compile(body, f->n_in, name, 1, &y);
  for (int call = 0; call <= CALLS; call++) { /* the first once more, at the end */
    weft_scope *s = weft_scope_open();
    weft_array *in[MOST_IN], *got;
    for (int k = 0; k < f->n_in; k++) in[k] = argument(&f->call[call % CALLS][k], (uint32_t)(17 * call + k));
    weft_call(open, f->n_in, in, 1, &got);
    compare(f, forms[form].name, call, got, known(f, form, in));
    weft_scope_discard(s);
  }
}

static void check_forms(const struct way *way) {
  test_watchdog(300);
  way_take(way);
  for (int i = 0; i < FUNCTIONS; i++)
    for (int form = 0; form < FORMS; form++) {
      weft_scope *s = weft_scope_open();
      check_form(&functions[i], form);
      weft_scope_discard(s);
    }
  way_leave();
}

TEST(functions_of_open_sizes_have_the_bits_of_known_ones_on_x86) { check_forms(&ways[0]); }
TEST(functions_of_open_sizes_have_the_bits_of_known_ones_on_the_vm) { check_forms(&ways[1]); }
TEST(functions_of_open_sizes_have_the_bits_of_known_ones_one_op_a_kernel_and_by_threads) { check_forms(&ways[3]), check_forms(&ways[4]); }

/* ---- Sizes that a run tells ---- */

/* x, of a length that only a run tells. */
static weft_array *told(weft_array *x) { return weft_compress(x, weft_gt(x, weft_scalar(-100))); }

static weft_array *looped_of_told(weft_array *const in[]) {
  struct function f = { "", in[1] ? fft : hadamard, 1 };
  return looped(&f, (weft_array *[]){ told(in[0]) });
}

SCOPED(functions_of_computed_sizes_have_the_bits_of_known_ones) {
  for (int64_t n = 1; n <= 12; n = n == 1 ? 4 : n + 8) {
    weft_array *x = argument(&(struct sizes){ 1, { n } }, 5), *kernel = argument(&(struct sizes){ 1, { 3 } }, 6), *y = told(x), *dx, *want;
    EXPECT_SAME(weft_hadamard(y, 0), weft_hadamard(x, 0));
    EXPECT_SAME(parts(weft_fft(y, 0, 1)), parts(weft_fft(x, 0, 1)));
    EXPECT_SAME(correlate((weft_array *[]){ y, kernel }), correlate((weft_array *[]){ x, kernel }));
    EXPECT_INT(weft_dim(weft_hadamard(told(x), 0), 0), n);
    weft_array *of_told = weft_hadamard(weft_sin(told(x)), 0), *of_x = weft_hadamard(weft_sin(x), 0);
    weft_grad(weft_mul(of_told, of_told), 1, &x, &dx);
    weft_grad(weft_mul(of_x, of_x), 1, &x, &want);
    EXPECT_SAME(dx, want);
    struct function hadamards = { "", hadamard, 1 }, ffts = { "", fft, 1 };
    EXPECT_SAME(looped_of_told((weft_array *[]){ x, NULL }), looped(&hadamards, &x));
    EXPECT_SAME(looped_of_told((weft_array *[]){ x, x }), looped(&ffts, &x));
  }
}

/* ---- What does not fit ---- */

static weft_function *of_names(weft_array *(*f)(weft_array *const[]), int n, const int rank[]) {
  weft_array *name[MOST_IN];
  weft_scope *body = weft_scope_open();
  for (int k = 0; k < n; k++) name[k] = weft_input(WEFT_F32, rank[k], NULL);
  weft_array *y = f(name);
  return weft_compile(body, n, name, 1, &y);
}

static weft_array *codes(weft_array *const in[]) {
  weft_array *words, *scales, *biases;
  weft_quantize(in[0], &(weft_code_form){ .group = 32 }, &words, &scales, &biases);
  return words;
}

static void expect_said(int line, weft_array *(*f)(weft_array *const[]), int n, const struct sizes in[], const char *text) {
  weft_array *x[MOST_IN], *y;
  int rank[MOST_IN];
  for (int k = 0; k < n; k++) rank[k] = in[k].rank, x[k] = argument(&in[k], 3);
  weft_call(of_names(f, n, rank), n, x, 1, &y);
  weft_status status = weft_eval(1, &y);
  if (status != WEFT_ERR_SHAPE && status != WEFT_ERR_ARG) test_fail(__FILE__, line, "status %d", (int)status);
  if (!strstr(weft_message(), text)) test_fail(__FILE__, line, "%s", weft_message());
  y = f(x), status = weft_eval(1, &y);
  if (!strstr(weft_message(), text)) test_fail(__FILE__, line, "with known sizes: %s", weft_message());
}
#define EXPECT_SAID(f, text, ...) expect_said(__LINE__, f, sizeof((struct sizes[]){ __VA_ARGS__ }) / sizeof(struct sizes), (struct sizes[]){ __VA_ARGS__ }, text)

SCOPED(sizes_that_do_not_fit_are_told_as_known_ones_are_when_they_are_known) {
  EXPECT_SAID(hadamard, "weft_hadamard: the last axis is 3, not m 2^k with m 1, 12, 20 or 28", S(2, 3));
  EXPECT_SAID(fft, "weft_fft: the last axis has 0 elements, not one or more", S(2, 0));
  EXPECT_SAID(rope, "weft_rope: 5 elements of [2,3,5] are turned in pairs", S(2, 3, 5));
  EXPECT_SAID(rope_of_periods, "weft_rope: a period for each of 3 pairs", S(2, 3, 6), S(2));
  EXPECT_SAID(conv, "weft_conv: [2,6,3] has 3 channels, and [4,3,2] wants 2 in 1 groups", S(2, 6, 3), S(4, 3, 2));
  EXPECT_SAID(conv, "weft_conv: on axis 1 the kernel [4,5,3] is longer than [2,3,3] with its padding", S(2, 3, 3), S(4, 5, 3));
  EXPECT_SAID(conv, "weft_conv: the kernel [4,0,3] has no size on axis 1", S(2, 3, 3), S(4, 0, 3));
  EXPECT_SAID(conv_in_groups, "weft_conv: 2 groups do not divide the channels of [1,4,4,3] and [2,1,1,1]", S(1, 4, 4, 3), S(2, 1, 1, 1));
  EXPECT_SAID(codes, "weft_quantize: the last axis of [2,40] in parts of 32", S(2, 40));
  EXPECT_SAID(split, "weft_split: axis 1 of [2,4] is not 3 equal parts", S(2, 4));
  EXPECT_SAID(correlate, "weft_correlate: a vector is empty", S(0), S(3));
}

/* ---- A map over no kernels: there are no groups ---- */

SCOPED(a_map_over_no_kernels_has_no_rows) {
  for (int is_open = 0; is_open < 2; is_open++)
    for (int way = 0; way < 2; way++) {
      weft_array *x = argument(&(struct sizes)S(2, 6, 3), 1), *ws = argument(&(struct sizes)S(0, 4, 3, 3), 2), *y, *ys;
      weft_array *xs = way ? argument(&(struct sizes)S(0, 2, 6, 3), 1) : x;
      weft_scope *body = weft_scope_open();
      weft_array *in[] = { is_open ? weft_input(WEFT_F32, way ? 4 : 3, NULL) : xs, is_open ? weft_input(WEFT_F32, 4, NULL) : ws };
      weft_array *row[] = { way ? weft_input(WEFT_F32, WEFT_DIMS(2, 6, 3)) : in[0], weft_input(WEFT_F32, WEFT_DIMS(4, 3, 3)) };
      y = weft_conv(row[0], row[1], NULL);
      weft_map(1 + way, way ? row : row + 1, way ? in : in + 1, 1, &y, &ys);
      if (is_open) weft_call(weft_compile(body, 2, in, 1, &ys), 2, (weft_array *[]){ xs, ws }, 1, &ys);
      EXPECT_OK(weft_eval(1, &ys));
      EXPECT_INT(weft_rank(ys), 4);
      EXPECT_INT(weft_dim(ys, 0), 0);
      EXPECT_INT(weft_dim(ys, 2), 4);
      EXPECT_INT(weft_dim(ys, 3), 4);
      if (!is_open) weft_scope_discard(body);
    }
}
