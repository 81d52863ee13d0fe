/* hypergeometric.c -- Gauss's function F(a, b; c; z), the sum over k of (a)_k (b)_k / (c)_k z^k / k!, by that sum, in f64.
 *
 * Terms and sums are pairs of numbers, high + low, so that a sum may be 10^16 times smaller than its largest term. Below 0, by
 * Pfaff,
 *   F(a, b; c; z) = (1 - z)^-a F(a, c - b; c; w), w = z / (z - 1), 0 < w < 1,
 * with the smaller one of a and b as b: where c is not below it all terms are positive. At 1 it is Gauss's quotient of gammas. A
 * loop goes on until every element's terms no longer count; nan where MOST terms do not suffice, and beyond 1 unless the sum ends.
 *
 * Derivatives by a, b and c are sums too, of terms that follow from each other like those of the value. */
#include <math.h>
#include "op/composed.h"

enum { MOST = 500000 };

static weft_array *number(double x) { return weft_cast(weft_scalar(x), WEFT_F64); }

/* ---- Pairs of numbers ---- */

struct dd { weft_array *high, *low; };

static struct dd dd_of(weft_array *x) { return (struct dd){ x, number(0) }; }

static struct dd two_sum(weft_array *x, weft_array *y) { /* exactly */
  weft_array *s = weft_add(x, y), *back = weft_sub(s, x);
  return (struct dd){ s, weft_add(weft_sub(x, weft_sub(s, back)), weft_sub(y, back)) };
}

static struct dd normal(weft_array *high, weft_array *low) { /* low is far below high */
  weft_array *s = weft_add(high, low);
  return (struct dd){ s, weft_sub(low, weft_sub(s, high)) };
}

static struct dd dd_plus(struct dd x, weft_array *y) {
  struct dd s = two_sum(x.high, y);
  return normal(s.high, weft_add(s.low, x.low));
}

static struct dd dd_add(struct dd x, struct dd y) {
  struct dd s = two_sum(x.high, y.high);
  return normal(s.high, weft_add(s.low, weft_add(x.low, y.low)));
}

static struct dd dd_neg(struct dd x) { return (struct dd){ weft_neg(x.high), weft_neg(x.low) }; }

static struct dd dd_mul(struct dd x, struct dd y) {
  weft_array *p = weft_mul(x.high, y.high), *rest = weft_fma(x.high, y.high, weft_neg(p));
  return normal(p, weft_fma(x.high, y.low, weft_fma(x.low, y.high, rest)));
}

static struct dd dd_div(struct dd x, struct dd y) {
  weft_array *q = weft_div(x.high, y.high), *down = weft_neg(q);
  weft_array *rest = weft_add(weft_fma(down, y.high, x.high), weft_fma(down, y.low, x.low));
  return normal(q, weft_div(rest, y.high));
}

static struct dd dd_where(weft_array *p, struct dd x, struct dd y) {
  return (struct dd){ weft_where(p, x.high, y.high), weft_where(p, x.low, y.low) };
}

/* ---- The sum ---- */

enum { VALUE, BY_A, BY_B, BY_C, SUMS };
struct parameters { struct dd a, b, c, z; };

struct sum { weft_array *term[2], *total[2]; struct dd now, next; }; /* carries: high and low */

static struct dd carry_of(weft_loop *loop, weft_array *carry[2], weft_array *start) {
  carry[0] = weft_loop_carry(loop, start);
  carry[1] = weft_loop_carry(loop, weft_mul(start, number(0)));
  return (struct dd){ carry[0], carry[1] };
}

/* t (a + k)(b + k) z / ((c + k)(1 + k)), and by a: that of t' (a + k) + t in the place of t (a + k), by c: of t' - t / (c + k) */
static void step(int n, struct sum s[], const struct parameters *p, weft_array *k) {
  struct dd a = dd_plus(p->a, k), b = dd_plus(p->b, k), c = dd_plus(p->c, k), t = s[VALUE].now;
  struct dd over = dd_div(p->z, dd_mul(c, dd_of(weft_add(k, number(1))))), all = dd_mul(dd_mul(a, b), over);
  s[VALUE].next = dd_mul(t, all);
  if (n == 1) return;
  s[BY_A].next = dd_mul(dd_mul(dd_add(dd_mul(s[BY_A].now, a), t), b), over);
  s[BY_B].next = dd_mul(dd_mul(dd_add(dd_mul(s[BY_B].now, b), t), a), over);
  s[BY_C].next = dd_mul(dd_add(s[BY_C].now, dd_neg(dd_div(t, c))), all);
}

static weft_array *larger(weft_array *x, weft_array *y) { return weft_maximum(weft_abs(x), weft_abs(y)); }

/* Whether a term no longer counts: it is small even if all that follow were as large as a geometric series would have them, the
 * factors before have all become positive, and terms do not grow. A sum that is no number ends too. */
static weft_array *is_small(const struct sum *s, struct dd total, const struct parameters *p) {
  weft_array *left = weft_maximum(weft_sub(number(1), weft_abs(p->z.high)), number(1e-6));
  weft_array *bound = weft_mul(weft_mul(weft_abs(total.high), left), number(0x1p-60));
  weft_array *shrinks = weft_le(weft_abs(s->next.high), weft_abs(s->now.high)), *t = s->next.high;
  weft_array *is_0 = weft_eq(t, number(0)), *counts_not = weft_logical_and(weft_le(weft_abs(t), bound), shrinks);
  return weft_logical_or(weft_logical_or(is_0, counts_not), weft_logical_not(weft_lt(weft_abs(total.high), number(INFINITY))));
}

/* n sums, total[i]: nan where terms have not ended, or cancel more than pairs of numbers can bear. rests: elements of which
 * nothing is wanted. */
static void add_up(int n, const struct parameters *p, weft_array *rests, weft_array *total[]) {
  weft_array *most = weft_cast(weft_integer(MOST), WEFT_I64), *one = weft_where(rests, number(1), number(1));
  weft_loop *loop = weft_loop_open(most);
  struct sum s[SUMS];
  struct dd sum[SUMS];
  for (int i = 0; i < n; i++) {
    weft_array *start = weft_mul(one, number(i == VALUE ? 1 : 0));
    s[i].now = carry_of(loop, s[i].term, start);
    sum[i] = carry_of(loop, s[i].total, start);
  }
  weft_array *k = weft_loop_carry(loop, number(0)), *done = weft_loop_carry(loop, rests), *largest = weft_loop_carry(loop, one);
  weft_array *last = weft_maximum(weft_maximum(weft_neg(p->a.high), weft_neg(p->b.high)), weft_neg(p->c.high));
  step(n, s, p, k);
  weft_array *ends = weft_lt(last, k);
  for (int i = 0; i < n; i++) {
    struct dd all = dd_add(sum[i], s[i].next);
    weft_array *stays = weft_eq(s[VALUE].next.high, number(0)), *small = is_small(&s[i], all, p);
    ends = i == VALUE ? weft_logical_and(weft_logical_or(ends, stays), small) : weft_logical_and(ends, small);
    struct dd next = dd_where(done, s[i].now, s[i].next), kept = dd_where(done, sum[i], all);
    weft_loop_next(loop, s[i].term[0], next.high);
    weft_loop_next(loop, s[i].term[1], next.low);
    weft_loop_next(loop, s[i].total[0], kept.high);
    weft_loop_next(loop, s[i].total[1], kept.low);
  }
  weft_array *now = weft_logical_or(done, ends);
  weft_loop_next(loop, k, weft_add(k, number(1)));
  weft_loop_next(loop, done, now);
  weft_loop_next(loop, largest, weft_where(done, largest, larger(largest, s[VALUE].next.high)));
  weft_loop_until(loop, weft_all(now, WEFT_ALL));
  for (int i = 0; i < n; i++) total[i] = weft_loop_last(loop, s[i].total[0]);
  weft_array *ended = weft_loop_last(loop, done), *peak = weft_loop_last(loop, largest);
  weft_loop_close(loop);
  weft_array *lost = weft_lt(weft_mul(weft_abs(total[VALUE]), number(0x1p60)), peak);
  for (int i = 0; i < n; i++)
    total[i] = weft_where(weft_logical_and(ended, weft_logical_not(lost)), total[i], number(NAN));
}

/* ---- Which sum ---- */

static weft_array *is_whole_below(weft_array *x) { return weft_logical_and(weft_le(x, number(0)), weft_eq(x, weft_floor(x))); }

struct plan_of { /* of operands of one shape */
  weft_array *a, *b, *c, *z;
  weft_array *high, *low;       /* the larger of a and b, the smaller */
  weft_array *ends, *is_below;  /* the sum ends, as a or b is 0, -1, ..; Pfaff's is taken */
  weft_array *gap;              /* c - a - b */
  weft_array *scale;            /* what the sum is to be multiplied with */
  struct parameters sum;
};

static struct plan_of plan_of(weft_array *const x[]) {
  struct plan_of p = { .a = x[0], .b = x[1], .c = x[2], .z = x[3] };
  p.high = weft_maximum(p.a, p.b), p.low = weft_minimum(p.a, p.b);
  p.ends = weft_logical_or(is_whole_below(p.a), is_whole_below(p.b));
  p.is_below = weft_logical_and(weft_lt(p.z, number(0)), weft_logical_not(p.ends));
  p.gap = weft_sub(weft_sub(p.c, p.a), p.b);
  p.scale = weft_where(p.is_below, weft_pow(weft_sub(number(1), p.z), weft_neg(p.high)), number(1));
  struct dd w = dd_div(dd_of(p.z), two_sum(p.z, number(-1)));
  p.sum.a = dd_of(weft_where(p.is_below, p.high, p.a));
  p.sum.b = dd_where(p.is_below, two_sum(p.c, weft_neg(p.low)), dd_of(p.b));
  p.sum.c = dd_of(p.c);
  p.sum.z = dd_where(p.is_below, w, dd_of(p.z));
  return p;
}

static weft_array *sign_of_gamma(weft_array *x) { return weft_where(weft_lt(weft_gamma(x), number(0)), number(-1), number(1)); }

/* Gamma(c) Gamma(c - a - b) / (Gamma(c - a) Gamma(c - b)), where c > a + b */
static weft_array *at_one(const struct plan_of *p) {
  weft_array *ca = weft_sub(p->c, p->a), *cb = weft_sub(p->c, p->b);
  weft_array *up = weft_add(weft_lgamma(p->c), weft_lgamma(p->gap)), *down = weft_add(weft_lgamma(ca), weft_lgamma(cb));
  weft_array *sign = weft_mul(weft_mul(sign_of_gamma(p->c), sign_of_gamma(ca)), sign_of_gamma(cb));
  return weft_where(weft_lt(number(0), p->gap), weft_mul(sign, weft_exp(weft_sub(up, down))), number(INFINITY));
}

/* Where nothing is to be added up: no numbers, at 0, from 1 on, at poles. */
static weft_array *needs_none(const struct plan_of *p, weft_array *is_far) {
  weft_array *is_number = weft_eq(weft_add(p->gap, p->z), weft_add(p->gap, p->z));
  weft_array *open = weft_logical_and(weft_logical_or(is_far, is_whole_below(p->c)), weft_logical_not(p->ends));
  return weft_logical_or(weft_logical_or(weft_eq(p->z, number(0)), weft_logical_not(is_number)), open);
}

static weft_array *value(weft_array *const x[]) {
  struct plan_of p = plan_of(x);
  weft_array *total, *one = number(1), *is_open = weft_logical_not(p.ends);
  add_up(1, &p.sum, needs_none(&p, weft_ge(p.z, one)), &total);
  weft_array *y = weft_mul(total, p.scale);
  y = weft_where(weft_logical_and(weft_eq(p.z, one), is_open), at_one(&p), y);
  y = weft_where(weft_logical_and(weft_gt(p.z, one), is_open), number(NAN), y);
  y = weft_where(weft_logical_and(is_whole_below(p.c), is_open), number(INFINITY), y);
  y = weft_where(weft_eq(p.z, number(0)), one, y);
  weft_array *all = weft_add(p.gap, p.z);
  return weft_where(weft_eq(all, all), y, number(NAN));
}

/* ---- Derivatives ---- */

static int no_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)y;
  for (int i = 0; i < 4; i++) dx[i] = weft_mul(weft_mul(x[i], dy[0]), number(NAN));
  return 0;
}
static int no_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  (void)ctx, (void)dx;
  for (int i = 0; i < 3; i++) dy[i] = weft_mul(x[0], number(NAN));
  return 0;
}

/* By a, b and c. Nobody has a formula for second derivatives by these. */
static void partials(weft_array *const x[], weft_array *d[]) {
  struct plan_of p = plan_of(x);
  weft_array *total[SUMS], *zero = number(0), *is_open = weft_logical_not(p.ends);
  weft_array *diverges = weft_logical_or(weft_gt(p.z, number(1)), weft_logical_and(weft_eq(p.z, number(1)), weft_le(p.gap, zero)));
  add_up(SUMS, &p.sum, needs_none(&p, diverges), total);
  weft_array *slope = weft_mul(weft_neg(weft_log1p(weft_neg(weft_minimum(p.z, zero)))), total[VALUE]);
  weft_array *by_high = weft_mul(p.scale, weft_add(slope, total[BY_A])), *by_low = weft_neg(weft_mul(p.scale, total[BY_B]));
  weft_array *is_a_high = weft_ge(p.a, p.b), *bad = weft_logical_and(diverges, is_open);
  d[0] = weft_where(p.is_below, weft_where(is_a_high, by_high, by_low), total[BY_A]);
  d[1] = weft_where(p.is_below, weft_where(is_a_high, by_low, by_high), total[BY_B]);
  d[2] = weft_where(p.is_below, weft_mul(p.scale, weft_add(total[BY_B], total[BY_C])), total[BY_C]);
  for (int i = 0; i < 3; i++) d[i] = weft_where(weft_eq(p.z, zero), zero, weft_where(bad, number(NAN), d[i]));
  weft_custom(4, x, 3, d, &(weft_rules){ NULL, no_vjp, no_jvp, NULL, NULL });
}

/* All four; by z it is a b / c F(a + 1, b + 1; c + 1; z). */
static void slopes(weft_array *const x[], weft_array *d[]) {
  weft_array *one = number(1);
  partials(x, d);
  weft_array *next = weft_hyp2f1(weft_add(x[0], one), weft_add(x[1], one), weft_add(x[2], one), x[3]);
  d[3] = weft_mul(weft_div(weft_mul(x[0], x[1]), x[2]), next);
}

static int hyp2f1_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)y;
  slopes(x, dx);
  for (int i = 0; i < 4; i++) dx[i] = weft_mul(dx[i], dy[0]);
  return 0;
}

static int hyp2f1_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  weft_array *d[4], *sum = NULL;
  (void)ctx;
  slopes(x, d);
  for (int i = 0; i < 4; i++) {
    weft_array *part = dx[i] ? weft_mul(d[i], dx[i]) : NULL;
    if (part) sum = sum ? weft_add(sum, part) : part;
  }
  dy[0] = sum ? sum : weft_mul(x[0], number(0));
  return 0;
}

static int hyp2f1_map(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]) {
  (void)ctx, (void)is_mapped;
  ys[0] = weft_hyp2f1(xs[0], xs[1], xs[2], xs[3]);
  return 0;
}

/* ---- The function ---- */

static weft_array *hyp2f1(weft_array *const in[]) {
  weft_array *bad, *x[4];
  for (int i = 0; i < 4; i++) if (!is_ordered("weft_hyp2f1", in[i], &bad)) return bad;
  weft_array *all = weft_add(weft_add(in[0], in[1]), weft_add(in[2], in[3])), *same = weft_eq(all, all);
  if (weft_check(same)) return same;
  weft_array *one = weft_where(same, number(1), number(1));
  for (int i = 0; i < 4; i++) x[i] = weft_mul(weft_cast(in[i], WEFT_F64), one);
  weft_array *y = value(x);
  weft_custom(4, x, 1, &y, &(weft_rules){ NULL, hyp2f1_vjp, hyp2f1_jvp, hyp2f1_map, NULL });
  return weft_cast(y, dtype_float(weft_dtype_of(all)));
}

weft_array *weft_hyp2f1(weft_array *a, weft_array *b, weft_array *c, weft_array *z) {
  return COMPOSED(hyp2f1((weft_array *[]){ a, b, c, z }));
}
