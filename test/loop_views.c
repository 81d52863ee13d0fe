/* loop_views.c -- a view of what a loop is given or computes, in every role that a value of a body may have, in every form in
 * which a loop is run, under every transform: against the same loop written out. */
#include <string.h>
#include "values.h"

enum { STEPS = 3, MOST = 1024 };
static int n; /* all is [n,n] */

/* ---- Views: [n,n] -> [n,n] ---- */

static weft_array *whole(weft_array *x) { return x; }
static weft_array *upside_down(weft_array *x) { return weft_flip(x, 0); }
static weft_array *mirrored(weft_array *x) { return weft_flip(x, 1); }
static weft_array *transposed(weft_array *x) { return weft_transpose(x, NULL); }
static weft_array *one_row(weft_array *x) { return weft_broadcast(weft_slice(x, 0, 1, 2, 1), WEFT_DIMS(n, n)); }
static weft_array *one_column(weft_array *x) { return weft_broadcast(weft_slice(x, 1, 1, 2, 1), WEFT_DIMS(n, n)); }
static weft_array *one_number(weft_array *x) { return weft_broadcast(weft_slice(weft_slice(x, 0, 1, 2, 1), 1, 2, 3, 1), WEFT_DIMS(n, n)); }
static weft_array *windows(weft_array *x) { return weft_as_strided(x, WEFT_DIMS(n, n), (int64_t[]){ 1, 1 }, 1); }
static weft_array *reversed(weft_array *x) { return weft_reshape(weft_flip(weft_reshape(x, WEFT_DIMS(n * n)), 0), WEFT_DIMS(n, n)); }
static weft_array *turned(weft_array *x) { return weft_flip(weft_transpose(weft_flip(x, 1), NULL), 1); }

static const struct { const char *name; array_function of; } VIEW[] = {
  { "whole", whole }, { "upside down", upside_down }, { "mirrored", mirrored }, { "transposed", transposed }, { "one row", one_row },
  { "one column", one_column }, { "one number", one_number }, { "windows", windows }, { "reversed", reversed }, { "turned", turned },
};

/* ---- What is looked at ---- */

struct body { weft_loop *l; weft_array *e, *c, *d, *k; }; /* an element of a sequence, carries, a constant */

static weft_array *carry(const struct body *b) { return b->c; }
static weft_array *computed(const struct body *b) { return weft_sin(weft_mul(b->c, b->d)); }
static weft_array *element(const struct body *b) { return b->e; }
static weft_array *constant(const struct body *b) { return b->k; }

static const struct { const char *name; weft_array *(*of)(const struct body *); } BASE[] = {
  { "carry", carry }, { "computed", computed }, { "element", element }, { "constant", constant },
};

/* ---- Forms: what else the body does decides how it is run ---- */

static weft_array *by_element(const struct body *b) { return weft_tanh(weft_add(b->c, b->e)); }
static weft_array *by_rows(const struct body *b) { return weft_tanh(weft_matmul(b->c, b->k)); }
static weft_array *by_sums(const struct body *b) { return weft_sub(b->c, weft_mean(weft_mul(b->c, b->e), 1)); }

/* The mean of as many rows as it takes. */
static weft_array *by_rows_inside(const struct body *b) {
  weft_loop *l = weft_loop_open(weft_integer(7));
  weft_array *c = weft_loop_carry(l, weft_add(weft_abs(b->c), weft_scalar(0.1))), *more = weft_mul(c, weft_scalar(1.5));
  weft_loop_next(l, c, more);
  weft_loop_until(l, weft_gt(weft_sum(more, WEFT_ALL), weft_scalar(1.2 * n * n)));
  weft_array *rows = weft_loop_all(l, weft_sin(more));
  weft_loop_close(l);
  return weft_squeeze(weft_mean(rows, 0), 0);
}

static const struct { const char *name; weft_array *(*of)(const struct body *); int n; } FORM[] = {
  { "elements", by_element, 3 }, { "many elements", by_element, 9 }, { "rows", by_rows, 3 }, { "many rows", by_rows, 9 },
  { "sums", by_sums, 3 }, { "many sums", by_sums, 9 }, { "rows inside", by_rows_inside, 3 },
};

/* ---- Roles: what a view becomes ---- */

static weft_array *row_of(weft_array *v) { return weft_at(v, 0, weft_integer(1)); }
static weft_array *number_of(weft_array *v) { return weft_at(row_of(v), 0, weft_integer(2)); }
static weft_array *flat(weft_array *x) { return weft_reshape(x, WEFT_DIMS(-1)); }

/* Carries c and d become c1 and d1. Returns what the loop gives besides, or NULL. */
typedef weft_array *(*role)(const struct body *, weft_array *view, weft_array **c1, weft_array **d1);

static weft_array *next(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return *d1 = weft_add(*c1, b->d), *c1 = v, NULL;
}
static weft_array *next_of_other(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)b, (void)c1, *d1 = v, NULL;
}
static weft_array *both(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  *c1 = v, *d1 = v;
  return weft_loop_all(b->l, v);
}
static weft_array *all(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)c1, (void)d1, weft_loop_all(b->l, v);
}
static weft_array *all_rows(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)c1, (void)d1, weft_loop_all(b->l, row_of(v));
}
static weft_array *all_numbers(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)c1, (void)d1, weft_loop_all(b->l, number_of(v));
}
static weft_array *tail(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)c1, (void)d1, weft_loop_tail(b->l, v, 2);
}
static weft_array *until(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_loop_until(b->l, weft_gt(number_of(v), weft_scalar(0.45)));
  return (void)c1, (void)d1, NULL;
}
/* What ends the loop is an element of a carry of bools. */
static weft_array *carried_until(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_array *high = weft_gt(v, weft_scalar(0.3)), *was = weft_loop_carry(b->l, weft_broadcast(weft_lt(f64_of(1), weft_scalar(0)), WEFT_DIMS(n, n)));
  weft_loop_next(b->l, was, high);
  weft_loop_until(b->l, number_of(was));
  return (void)c1, (void)d1, NULL;
}
static weft_array *number_carried(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_array *q = weft_loop_carry(b->l, f64_of(0.25));
  weft_loop_next(b->l, q, number_of(v));
  return *c1 = weft_add(*c1, q), (void)d1, weft_loop_last(b->l, q);
}
static weft_array *operand(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)b, (void)d1, *c1 = weft_mul(*c1, v), NULL;
}
static weft_array *number_operand(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  return (void)b, (void)d1, *c1 = weft_mul(*c1, number_of(v)), NULL;
}
static weft_array *sequence_inside(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, v), *q = weft_loop_carry(l, row_of(b->c));
  weft_loop_next(l, q, weft_flip(weft_add(q, e), 0));
  weft_array *y = weft_loop_last(l, q);
  weft_loop_close(l);
  return *c1 = weft_add(*c1, weft_mul(y, weft_scalar(0.1))), (void)d1, NULL;
}
static weft_array *carry_inside(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *q = weft_loop_carry(l, v);
  weft_loop_next(l, q, weft_transpose(weft_mul(q, b->c), NULL));
  weft_array *y = weft_loop_last(l, q);
  weft_loop_close(l);
  return *c1 = weft_add(*c1, y), (void)d1, NULL;
}
static weft_array *constant_inside(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *q = weft_loop_carry(l, b->c);
  weft_loop_next(l, q, weft_sin(weft_mul(q, v)));
  weft_array *y = weft_loop_last(l, q), *rows = weft_loop_all(l, v);
  weft_loop_close(l);
  return *c1 = weft_add(*c1, weft_mul(y, weft_squeeze(weft_sum(rows, 0), 0))), (void)d1, NULL;
}
static weft_array *chosen(const struct body *b, weft_array *v, weft_array **c1, weft_array **d1) {
  weft_cond *p = weft_cond_open(weft_gt(number_of(b->c), weft_scalar(0.2)));
  weft_array *y = weft_cond_value(p, v, weft_mul(b->d, weft_scalar(0.5)));
  weft_cond_close(p);
  return (void)c1, *d1 = y, NULL;
}

static const struct { const char *name; role of; } ROLE[] = {
  { "next", next }, { "next of another", next_of_other }, { "next of both", both }, { "all", all }, { "rows", all_rows }, { "numbers", all_numbers },
  { "tail", tail }, { "until", until }, { "carried until", carried_until }, { "number carried", number_carried }, { "operand", operand },
  { "number operand", number_operand }, { "sequence inside", sequence_inside }, { "carry inside", carry_inside },
  { "constant inside", constant_inside }, { "chosen", chosen },
};

/* ---- The loop ---- */

static struct { size_t view, base, form, role; } now;

static weft_array *loop(weft_array *x) { /* x: n * n */
  weft_array *square = weft_reshape(x, WEFT_DIMS(n, n));
  weft_array *xs = weft_stack(0, WEFT_ARRAYS(square, weft_mul(square, weft_scalar(-0.5)), weft_cos(square)));
  struct body b = { .l = weft_loop_open(NULL), .k = weft_mul(square, weft_scalar(0.7)) };
  b.e = weft_loop_each(b.l, xs), b.c = weft_loop_carry(b.l, weft_sin(square)), b.d = weft_loop_carry(b.l, weft_transpose(square, NULL));
  weft_array *c1 = FORM[now.form].of(&b), *d1 = weft_mul(b.d, weft_scalar(0.9));
  weft_array *y = ROLE[now.role].of(&b, VIEW[now.view].of(BASE[now.base].of(&b)), &c1, &d1);
  weft_loop_next(b.l, b.c, c1);
  weft_loop_next(b.l, b.d, d1);
  weft_array *c = weft_loop_last(b.l, b.c), *d = weft_loop_last(b.l, b.d);
  weft_loop_close(b.l);
  return y ? weft_concat(0, WEFT_ARRAYS(flat(c), flat(d), flat(y))) : weft_concat(0, WEFT_ARRAYS(flat(c), flat(d)));
}

/* ---- Transforms, of the loop and of the loop written out ---- */

typedef weft_array *(*transform)(weft_array *x, weft_array *y);

static weft_array *value(weft_array *x, weft_array *y) { return (void)x, y; }
static weft_array *gradient(weft_array *x, weft_array *y) {
  weft_array *dx;
  weft_grad(weft_mul(y, weft_add(weft_iota(y, 0), weft_scalar(1))), 1, &x, &dx);
  return dx;
}
static weft_array *tangent(weft_array *x, weft_array *y) {
  weft_array *dx = weft_sub(weft_scalar(1), weft_mul(weft_iota(x, 0), weft_scalar(0.1))), *dy;
  weft_jvp(1, &x, &dx, 1, &y, &dy);
  return dy;
}

static weft_array *other(weft_array *x) { return weft_mul(weft_flip(x, 0), weft_scalar(1.25)); }
static weft_array *mapped(weft_array *x, weft_array *y) {
  weft_array *xs = weft_stack(0, WEFT_ARRAYS(x, other(x))), *ys;
  weft_map(1, &x, &xs, 1, &y, &ys);
  return flat(ys);
}
static weft_array *rows_alone(transform t, weft_array *x) {
  weft_array *second = weft_alias(other(x));
  return weft_concat(0, WEFT_ARRAYS(t(x, unrolled(loop(x))), t(second, unrolled(loop(second)))));
}

static const struct { const char *name; transform of; bool is_mapped; } TRANSFORM[] = {
  { "value", value, false }, { "gradient", gradient, false }, { "tangent", tangent, false }, { "map", value, true },
  { "map of gradient", gradient, true }, { "map of tangent", tangent, true },
};

static void expect_near(int m, const double got[], const double want[], const char *how) {
  for (int i = 0; i < m; i++)
    if (!near(want[i], got[i], 1e-11))
      return test_fail(__FILE__, __LINE__, "%s of %s as %s, %s, %s: [%d] is %.17g, not %.17g", VIEW[now.view].name, BASE[now.base].name,
                       ROLE[now.role].name, FORM[now.form].name, how, i, got[i], want[i]);
}

static void compare(size_t t) {
  weft_scope *s = weft_scope_open();
  static double point[MOST], got[MOST], want[MOST];
  for (int i = 0; i < n * n; i++) point[i] = 0.9 * (double)(i * 7 % 11) / 11 - 0.2 + 0.003 * i;
  weft_array *x = f64s(n * n, point), *y = TRANSFORM[t].of(x, loop(x));
  if (TRANSFORM[t].is_mapped) y = mapped(x, y);
  weft_array *plain = TRANSFORM[t].is_mapped ? rows_alone(TRANSFORM[t].of, x) : TRANSFORM[t].of(x, unrolled(loop(x)));
  int m = weft_rank(plain) == 1 ? (int)weft_dim(plain, 0) : -1;
  bool is_ok = weft_check(plain) == WEFT_OK && weft_check(y) == WEFT_OK;
  bool is_bad = !is_ok || m < 0 || weft_rank(y) != 1 || weft_dim(y, 0) != m || weft_read(y, WEFT_F64, got, (size_t)m * sizeof *got) != WEFT_OK;
  if (is_bad)
    test_fail(__FILE__, __LINE__, "%s of %s as %s, %s, %s: %s", VIEW[now.view].name, BASE[now.base].name, ROLE[now.role].name,
              FORM[now.form].name, TRANSFORM[t].name, weft_message());
  else if (read_f64(plain, m, want)) expect_near(m, got, want, TRANSFORM[t].name);
  weft_scope_discard(s);
}

#define EACH(i, table) for (size_t i = 0; i < sizeof table / sizeof *table; i++)

/* Values of all; of the others a third each, so that every one meets at least one of the transforms, and the next one another. */
static void compare_all(size_t t) {
  test_watchdog(240);
  EACH(f, FORM) EACH(r, ROLE) EACH(b, BASE) EACH(v, VIEW) {
    if (t && (f + r + b + v + t) % 3) continue;
    now.form = f, now.role = r, now.base = b, now.view = v;
    n = FORM[f].n;
    compare(t);
  }
}

TEST(a_view_has_its_value_in_every_role_in_a_loop) { compare_all(0); }
TEST(gradients_go_through_a_view_in_every_role_in_a_loop) { compare_all(1); }
TEST(tangents_go_through_a_view_in_every_role_in_a_loop) { compare_all(2); }
TEST(maps_see_a_view_in_every_role_in_a_loop) { compare_all(3); }
TEST(maps_of_gradients_see_a_view_in_every_role_in_a_loop) { compare_all(4); }
TEST(maps_of_tangents_see_a_view_in_every_role_in_a_loop) { compare_all(5); }
