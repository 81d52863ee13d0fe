/* complex.c -- complex numbers: what makes them, what takes them apart, and how rows compute them part by part.
 *
 * Products and quotients are the plain formulas of mathematics: an inf or nan in one part may reach the other, and no
 * infinity is recovered afterwards. Quotients and absolute values do not overflow on the way. Derivatives pair without
 * conjugates: Re(w J v) = Re((J' w) v), so a holomorphic row has one derivative for both directions, and the gradient of
 * a real y by x = a + ib is dy/da - i dy/db. */
#include "op/complex.h"
#include "base/arena.h"
#include "op/index.h"
#include "op/parts.h"

/* ---- Writing rules ---- */

struct node *split_add(struct splitting *s, struct node *n) {
  struct node_list *l = &s->list;
  if (!n) return s->no_memory = true, NULL;
  if (l->n == l->room) {
    int room = l->room ? 2 * l->room : 256;
    struct node **more = arena_grow(s->arena, l->node, sizeof *more * (size_t)l->n, sizeof *more * (size_t)room);
    if (!more) return s->no_memory = true, NULL;
    l->node = more, l->room = room;
  }
  return l->node[l->n++] = n;
}

static struct node *shaped(struct splitting *s, const struct op *op, weft_dtype d, int rank, int n, struct node *const in[],
                           const void *attr, size_t bytes) {
  for (int k = 0; k < n; k++)
    if (!in[k]) return NULL;
  struct node *x = node_local(s->arena, op, d, rank, s->like->dims, n, in, attr, bytes);
  if (x) x->origin = s->like->origin;
  return split_add(s, x);
}

struct node *split_node(struct splitting *s, const struct op *op, weft_dtype d, int n, struct node *const in[]) {
  return shaped(s, op, d, s->like->rank, n, in, NULL, 0);
}

struct node *split_number(struct splitting *s, weft_dtype d, double x) {
  struct node *n = shaped(s, &op_scalar, d, 0, 0, NULL, &(struct scalar_attr){ dtype_encode(d, x) }, sizeof(struct scalar_attr));
  return n && s->like->rank ? split_node(s, &op_broadcast, d, 1, &n) : n;
}

/* ---- Rows ---- */

RULE(neg) { return (struct parts){ REAL(neg, in[0].re), REAL(neg, in[0].im) }; }
RULE(add) { return (struct parts){ REAL(add, in[0].re, in[1].re), REAL(add, in[0].im, in[1].im) }; }
RULE(sub) { return (struct parts){ REAL(sub, in[0].re, in[1].re), REAL(sub, in[0].im, in[1].im) }; }

RULE(where) {
  return (struct parts){ REAL(where, in[0].re, in[1].re, in[2].re), REAL(where, in[0].re, in[1].im, in[2].im) };
}

/* (a + ib)(c + id) = ac - bd + i(ad + bc), each product rounded: z conj(z) is real. */
RULE(mul) {
  struct node *a = in[0].re, *b = in[0].im, *c = in[1].re, *d = in[1].im;
  return (struct parts){ REAL(sub, REAL(mul, a, c), REAL(mul, b, d)), REAL(add, REAL(mul, a, d), REAL(mul, b, c)) };
}

RULE(fma) {
  struct parts product = parts_mul(s, n, in);
  return (struct parts){ REAL(add, product.re, in[2].re), REAL(add, product.im, in[2].im) };
}

/* (a + ib) / (c + id) by the ratio r of the smaller part of the divisor to the larger, so that c c + d d is not formed.
 * If |d| <= |c|: r = d/c and the quotient is ((a + br) + i(b - ar)) / (c + dr); else the parts change places. */
RULE(div) {
  struct node *a = in[0].re, *b = in[0].im, *c = in[1].re, *d = in[1].im;
  struct node *in_order = BOOL(le, REAL(abs, d), REAL(abs, c));
  struct node *large = REAL(where, in_order, c, d), *small = REAL(where, in_order, d, c);
  struct node *x = REAL(where, in_order, a, b), *y = REAL(where, in_order, b, a);
  struct node *zero = NUMBER(0), *r = REAL(where, BOOL(eq, large, zero), zero, REAL(div, small, large));
  struct node *by = REAL(add, large, REAL(mul, small, r)), *im = REAL(sub, y, REAL(mul, x, r));
  return (struct parts){ REAL(div, REAL(add, x, REAL(mul, y, r)), by),
                         REAL(div, REAL(where, in_order, im, REAL(neg, im)), by) };
}

RULE(abs) { return (struct parts){ REAL(hypot, in[0].re, in[0].im), NULL }; }

/* The root with a real part >= 0, its imaginary part with the sign of b. With t = sqrt((|z| + |a|) / 2) and u = b / 2t it is
 * t + iu for a >= 0, else |u| + i(t with the sign of b). Very small and very large z are scaled by a power of 4. */
RULE(sqrt) {
  bool is_wide = dtype_part((weft_dtype)n->dtype) == WEFT_F64;
  struct node *zero = NUMBER(0), *one = NUMBER(1), *infinity = NUMBER(__builtin_inf());
  struct node *larger = REAL(maximum, REAL(abs, in[0].re), REAL(abs, in[0].im));
  struct node *is_small = BOOL(lt, larger, NUMBER(is_wide ? 0x1p-900 : 0x1p-100)),
              *is_large = BOOL(lt, NUMBER(is_wide ? 0x1p900 : 0x1p100), larger);
  struct node *by = REAL(where, is_small, NUMBER(is_wide ? 0x1p200 : 0x1p60),
                         REAL(where, is_large, NUMBER(is_wide ? 0x1p-200 : 0x1p-60), one));
  struct node *back = REAL(where, is_small, NUMBER(is_wide ? 0x1p-100 : 0x1p-30),
                           REAL(where, is_large, NUMBER(is_wide ? 0x1p100 : 0x1p30), one));
  struct node *a = REAL(mul, in[0].re, by), *b = REAL(mul, in[0].im, by), *m = parts_abs(s, n, (struct parts[]){ { a, b } }).re;
  struct node *t = REAL(sqrt, REAL(mul, NUMBER(0.5), REAL(add, m, REAL(abs, a))));
  struct node *u = REAL(where, BOOL(eq, t, zero), b, REAL(div, b, REAL(add, t, t)));
  struct node *is_right = BOOL(le, zero, a), *is_below = BOOL(or, BOOL(lt, b, zero), BOOL(lt, REAL(div, one, b), zero));
  struct node *re = REAL(where, is_right, t, REAL(abs, u)), *im = REAL(where, is_right, u, REAL(where, is_below, REAL(neg, t), t));
  struct node *is_far = BOOL(eq, REAL(abs, b), infinity);
  return (struct parts){ REAL(where, is_far, infinity, REAL(mul, re, back)), REAL(where, is_far, b, REAL(mul, im, back)) };
}

RULE(rsqrt) {
  struct parts root = parts_sqrt(s, n, in);
  return parts_div(s, n, (struct parts[]){ { NUMBER(1), NUMBER(0) }, root });
}

RULE(isnan) { return (void)n, (struct parts){ BOOL(or, BOOL(isnan, in[0].re), BOOL(isnan, in[0].im)), NULL }; }
RULE(isinf) { return (void)n, (struct parts){ BOOL(or, BOOL(isinf, in[0].re), BOOL(isinf, in[0].im)), NULL }; }
RULE(isfinite) { return (void)n, (struct parts){ BOOL(and, BOOL(isfinite, in[0].re), BOOL(isfinite, in[0].im)), NULL }; }
RULE(eq) { return (void)n, (struct parts){ BOOL(and, BOOL(eq, in[0].re, in[1].re), BOOL(eq, in[0].im, in[1].im)), NULL }; }
RULE(ne) { return (void)n, (struct parts){ BOOL(or, BOOL(ne, in[0].re, in[1].re), BOOL(ne, in[0].im, in[1].im)), NULL }; }

/* To real: the real part. To bool: whether it is not 0. */
RULE(cast) {
  weft_dtype to = dtype_part((weft_dtype)n->dtype);
  struct node *re = NODE(to, cast, in[0].re);
  if (n->dtype == WEFT_BOOL) return (struct parts){ BOOL(or, re, NODE(to, cast, in[0].im)), NULL };
  if (!dtype_is_complex(n->dtype)) return (struct parts){ re, NULL };
  return (struct parts){ re, in[0].im ? NODE(to, cast, in[0].im) : split_number(s, to, 0) };
}

static RULE(complex) { return (void)s, (void)n, (struct parts){ in[0].re, in[1].re }; }
static RULE(real) { return (void)s, (void)n, (struct parts){ in[0].re, NULL }; }
static RULE(imag) { return (void)s, (void)n, (struct parts){ in[0].im, NULL }; }
static RULE(conj) { return (struct parts){ in[0].re, REAL(neg, in[0].im) }; }

/* ---- Making and taking apart: what they are of real numbers ---- */

static int lower_same(struct kir_builder *b, const struct node *n, const int in[]) { return (void)b, (void)n, in[0]; }
static int lower_nothing(struct kir_builder *b, const struct node *n, const int in[]) {
  return (void)in, n->dtype == WEFT_BOOL ? kir_lit(b->k, WEFT_BOOL, 0) : lower_number(b, (weft_dtype)n->dtype, 0);
}

/* ---- Derivatives ---- */

static weft_array *zero_like(weft_array *x) { return number_like(x, 0); }

static weft_array *back_real(const struct rule *r, int k, weft_array *dy) {
  return (void)k, weft_cast(dy, weft_dtype_of(r->in[0]));
}
static weft_array *forth_real(const struct rule *r, int k, weft_array *dx) { return (void)r, (void)k, weft_real(dx); }
static weft_array *back_imag(const struct rule *r, int k, weft_array *dy) {
  return (void)k, dtype_is_complex(weft_dtype_of(r->in[0])) ? weft_complex(zero_like(dy), weft_neg(dy)) : NULL;
}
static weft_array *forth_imag(const struct rule *r, int k, weft_array *dx) { return (void)r, (void)k, weft_imag(dx); }
static weft_array *conjugated(const struct rule *r, int k, weft_array *d) { return (void)r, (void)k, weft_conj(d); }
static weft_array *back_complex(const struct rule *r, int k, weft_array *dy) {
  return (void)r, k == 0 ? weft_real(dy) : weft_neg(weft_imag(dy));
}
static weft_array *forth_complex(const struct rule *r, int k, weft_array *dx) {
  return (void)r, k == 0 ? weft_complex(dx, zero_like(dx)) : weft_complex(zero_like(dx), dx);
}

weft_array *complex_unit(weft_array *z, weft_array *abs_z) {
  weft_array *by = weft_where(weft_eq(abs_z, zero_like(abs_z)), number_like(abs_z, 1), abs_z);
  return weft_complex(weft_div(weft_real(z), by), weft_div(weft_imag(z), by));
}

/* ---- The ops ---- */

#define ROW(id, how, back, forth)                                                                                     \
  const struct op op_##id = { .name = #id, .kind = OP_ELEMENT, .is_cheap = true, .lower = how, .vjp = back,           \
                              .jvp = forth, .parts = parts_##id, .again = element_again };
extern const struct op op_real, op_imag, op_conj;
ROW(real, lower_same, back_real, forth_real)
ROW(imag, lower_nothing, back_imag, forth_imag)
ROW(conj, lower_same, conjugated, conjugated)
ROW(complex, NULL, back_complex, forth_complex)

const struct op op_part = { .name = "part", .kind = OP_VIEW }, op_pair = { .name = "pair", .kind = OP_PAIR };

weft_array *weft_real(weft_array *x) { return element("weft_real", &op_real, PART, 1, &x); }
weft_array *weft_imag(weft_array *x) { return element("weft_imag", &op_imag, PART, 1, &x); }
weft_array *weft_conj(weft_array *x) { return element("weft_conj", &op_conj, NUMBER, 1, &x); }

/* Two numbers make a number, which remembers both to the last bit. */
static bool is_number(weft_array *a) { return a && a->node->weak && !dtype_is_complex(a->node->dtype); }

static double value_of(weft_array *a) { return dtype_decode(WEFT_F64, scalar_bits(a->node, WEFT_F64)); }

static weft_array *number(double re, double im) {
  struct complex_attr both = { re, im };
  struct node *in[] = { scalar_node(WEFT_F32, dtype_encode(WEFT_F32, re), false),
                        scalar_node(WEFT_F32, dtype_encode(WEFT_F32, im), false) };
  struct node *n = in[0] && in[1] ? node_make(&op_complex, WEFT_C64, 0, NULL, 2, in, &both, sizeof both) : NULL;
  nodes_release(2, in);
  if (n) n->weak = true;
  return array_of(n);
}

weft_array *weft_complex(weft_array *re, weft_array *im) {
  weft_array *in[] = { re, im }, *bad;
  if (!arrays_ok("weft_complex", 2, in, &bad)) return bad;
  return is_number(re) && is_number(im) ? number(value_of(re), value_of(im)) : element("weft_complex", &op_complex, PAIR, 2, in);
}

/* ---- Products of many ---- */

/* y_i = x_i y_(i-1) along axis 0, y before the first being 1. */
static void products(weft_array *x, weft_array **all, weft_array **last) {
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_i = weft_loop_each(loop, x), *y = weft_loop_carry(loop, weft_broadcast_like(number_like(x, 1), x_i));
  weft_array *next = weft_mul(y, x_i);
  weft_loop_next(loop, y, next);
  *all = weft_loop_all(loop, next);
  *last = weft_loop_last(loop, y);
  weft_loop_close(loop);
}

static struct failure *axis_wrong(const char *fn, weft_array *x, int *axis) {
  struct node *n = array_node(x);
  struct failure *why = axis_check(fn, n, axis);
  node_release(n);
  return why;
}

static weft_array *prod_along(weft_array *x, int axis) {
  weft_array *all, *last;
  products(weft_moveaxis(x, axis, 0), &all, &last);
  return weft_unsqueeze(last, axis);
}

weft_array *complex_prod(weft_array *x, int axis) {
  if (axis == WEFT_ALL) {
    for (int k = weft_rank(x) - 1; k >= 0; k--) x = prod_along(x, k);
    return weft_reshape(x, 0, NULL);
  }
  struct failure *why = axis_wrong("weft_prod", x, &axis);
  return why ? array_failed(why) : prod_along(x, axis);
}

weft_array *complex_cumprod(weft_array *x, int axis) {
  struct failure *why = axis_wrong("weft_cumprod", x, &axis);
  weft_array *all, *last;
  if (why) return array_failed(why);
  products(weft_moveaxis(x, axis, 0), &all, &last);
  return weft_moveaxis(all, 0, axis);
}

/* Numbers of x's rows, [first n dims] counted through, at the indices: those out of range are told here, by their own places. */
static weft_array *places(weft_array *x, int n, weft_array *const index[], int by) {
  dim count = dim_count(n, x->node->dims);
  struct node flat = { .dtype = WEFT_I64, .rank = 1, .dims = &count };
  weft_array *number = weft_iota(array_sized_by(zeros_of(&flat), x), 0);
  return array_take(array_reshape("weft_put", number, n, x->node->dims), n, index, by);
}

/* One update after the other, of rows that are there. index: of one shape I; v: of dims I + rest of x. */
weft_array *complex_scatter_mul(weft_array *x, weft_array *v, int n, weft_array *const index[], int by) {
  const struct node *i = index[0]->node, *whole = x->node;
  dim updates[WEFT_RANK_MAX + 1] = { dim_count(i->rank, i->dims) }, rows[WEFT_RANK_MAX + 1] = { dim_count(n, whole->dims) };
  int rest = whole->rank - n;
  for (int k = 0; k < rest; k++) updates[k + 1] = rows[k + 1] = whole->dims[n + k];
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *at = weft_loop_each(loop, array_reshape("weft_put", places(x, n, index, by), 1, updates));
  weft_array *v_i = weft_loop_each(loop, array_reshape("weft_put", v, rest + 1, updates));
  weft_array *y = weft_loop_carry(loop, array_reshape("weft_put", x, rest + 1, rows));
  weft_loop_next(loop, y, array_scatter(y, weft_mul(weft_take(y, 1, &at), v_i), 1, &at, WEFT_SET, by));
  y = weft_loop_last(loop, y);
  weft_loop_close(loop);
  return array_reshape("weft_put", y, whole->rank, whole->dims);
}
