/* second.c -- derivatives of derivatives, by arrays that lie between: what was made in, around and by regions that are computed again,
 * calls, choices and loops is the same array to a second derivative as to the first.
 *
 * A story is a program of u = 3 a and w = 2 b written with a construct, and again without one. Derivatives by one array, and of these
 * by another, are those of the plain program, or are refused where the story says so; those of the plain program are held against
 * central differences. Rules that read their own result (exp) would tell the two apart, and are not used. */
#include <math.h>
#include <stdlib.h>
#include "test.h"
#include "values.h"

enum { A, B, U, W, V, R, Y, MANY };
static const char *const NAMES[] = { "a", "b", "u", "w", "v", "r", "y" };
enum { N = 3 };
static const double OF_A[N] = { 0.5, 0.7, -0.4 }, OF_B[N] = { 0.3, -0.6, 0.8 };

/* v: made inside the construct; r: its result. NULL: the story has none. */
struct told { weft_array *by[MANY], *owned; };

static weft_array *times(weft_array *a, weft_array *b) { return weft_mul(a, b); }
static weft_array *number(weft_array *a, double n) { return weft_mul(a, weft_scalar(n)); }

/* What all are about. */
static weft_array *inside(weft_array *u, weft_array *w) { return weft_alias(weft_add(times(u, w), weft_sin(u))); }
static weft_array *result(weft_array *v, weft_array *u, weft_array *w) { return weft_add(times(times(v, v), w), weft_sin(times(u, v))); }
static weft_array *after(weft_array *r, weft_array *w) { return times(times(r, r), weft_add(w, r)); }

static void begin(struct told *t) {
  t->by[U] = weft_alias(number(t->by[A], 3));
  t->by[W] = weft_alias(number(t->by[B], 2));
}

/* ---- Stories ---- */

typedef void story(struct told *t, bool is_plain);

static void plainly(struct told *t) {
  weft_array **x = t->by;
  x[V] = inside(x[U], x[W]);
  x[R] = result(x[V], x[U], x[W]);
  x[Y] = after(x[R], x[W]);
}

static void one_checkpoint(struct told *t, bool is_plain) {
  begin(t);
  plainly(t);
  weft_array *y = t->by[Y];
  if (!is_plain) weft_checkpoint(1, &t->by[A], 1, &y);
  t->by[Y] = y;
}

static void checkpoint_of_u(struct told *t, bool is_plain) {
  begin(t);
  plainly(t);
  if (!is_plain) weft_checkpoint(1, &t->by[U], 1, &t->by[Y]);
}

static void checkpoint_of_all(struct told *t, bool is_plain) {
  begin(t);
  plainly(t);
  weft_array *x[] = { t->by[A], t->by[B] };
  if (!is_plain) weft_checkpoint(2, x, 1, &t->by[Y]);
}

static void checkpoints_in_a_row(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  x[V] = inside(x[U], x[W]);
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[V]);
  x[R] = result(x[V], x[U], x[W]);
  if (!is_plain) weft_checkpoint(1, &x[V], 1, &x[R]);
  x[Y] = after(x[R], x[W]);
  if (!is_plain) weft_checkpoint(1, &x[R], 1, &x[Y]);
}

static void checkpoint_in_a_checkpoint(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  x[V] = inside(x[U], x[W]);
  x[R] = result(x[V], x[U], x[W]);
  if (!is_plain) weft_checkpoint(1, &x[U], 1, &x[R]);
  x[Y] = after(x[R], x[W]);
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
}

static weft_function *captor(weft_array *w, weft_array *like) {
  weft_scope *body = weft_scope_open();
  (void)like;
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *v = inside(in, w), *r = result(v, in, w);
  return weft_compile(body, 1, &in, 1, &r);
}

static void call_of_a_captor(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) x[R] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
  else weft_call(captor(x[W], x[U]), 1, &x[U], 1, &x[R]);
  x[Y] = after(x[R], x[W]);
}

static void call_of_a_captor_of_b(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) x[R] = weft_alias(result(inside(x[U], x[B]), x[U], x[B]));
  else weft_call(captor(x[B], x[U]), 1, &x[U], 1, &x[R]);
  x[V] = weft_alias(number(x[R], 2));
  x[Y] = after(x[V], x[W]);
}

/* What it captures is made when its input is there already. */
static void call_of_a_captor_of_its_own(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  x[U] = weft_alias(number(x[A], 3));
  if (is_plain) {
    x[W] = weft_alias(number(x[B], 2));
    x[R] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
  } else {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
    x[W] = weft_keep(weft_alias(number(x[B], 2)));
    weft_array *r = result(inside(in, x[W]), in, x[W]);
    weft_call(weft_compile(body, 1, &in, 1, &r), 1, &x[U], 1, &x[R]);
  }
  x[Y] = after(x[R], x[W]);
}

static void call_without_captures(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) x[R] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
  else {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *k = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
    weft_array *r = result(inside(in, k), in, k);
    weft_call(weft_compile(body, WEFT_ARRAYS(in, k), 1, &r), WEFT_ARRAYS(x[U], x[W]), 1, &x[R]);
  }
  x[Y] = after(x[R], x[W]);
}

/* A function that calls one that has captured w, and is given what another call gave. */
static void calls_in_calls(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) {
    x[V] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
    weft_array *again = weft_alias(result(inside(x[V], x[W]), x[V], x[W]));
    x[R] = weft_alias(times(again, x[W]));
  } else {
    weft_function *f = captor(x[W], x[U]);
    weft_call(f, 1, &x[U], 1, &x[V]);
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *r;
    weft_call(f, 1, &in, 1, &r);
    r = times(r, x[W]);
    weft_call(weft_compile(body, 1, &in, 1, &r), 1, &x[V], 1, &x[R]);
  }
  x[Y] = after(x[R], x[W]);
}

/* A function captures what a call gave, made when its input was there. */
static void captured_call(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) {
    x[V] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
    x[R] = weft_alias(result(x[V], x[U], x[W]));
  } else {
    weft_function *f = captor(x[W], x[U]);
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
    weft_call(f, 1, &x[U], 1, &x[V]);
    x[V] = weft_keep(x[V]);
    weft_array *r = result(x[V], in, x[W]);
    weft_call(weft_compile(body, 1, &in, 1, &r), 1, &x[U], 1, &x[R]);
  }
  x[Y] = after(x[R], x[W]);
}

/* Its results are its argument, what it has captured, and one array twice. */
static void call_that_passes_on(struct told *t, bool is_plain) {
  weft_array **x = t->by, *out[4];
  begin(t);
  if (is_plain) {
    out[0] = weft_alias(x[U]), out[1] = weft_alias(x[W]);
    out[2] = weft_alias(times(x[U], x[W])), out[3] = weft_alias(times(x[U], x[W]));
  } else {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *r = times(in, x[W]);
    weft_call(weft_compile(body, 1, &in, WEFT_ARRAYS(in, x[W], r, r)), 1, &x[U], 4, out);
  }
  x[V] = out[2];
  x[R] = out[1];
  x[Y] = times(after(times(out[2], times(out[3], out[0])), out[1]), x[W]);
}

static void checkpoint_of_a_call(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  call_of_a_captor(t, is_plain);
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
}

/* The y of the region is what a call gave, which is its argument, what it has captured, or made of both; v is that. */
static void checkpoint_that_is_a_call(struct told *t, bool is_plain, int which) {
  weft_array **x = t->by, *out[3];
  begin(t);
  if (is_plain) out[0] = x[U], out[1] = x[W], out[2] = times(x[U], x[W]);
  else {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *r = times(in, x[W]);
    weft_call(weft_compile(body, 1, &in, WEFT_ARRAYS(in, x[W], r)), 1, &x[U], 3, out);
  }
  x[V] = is_plain ? weft_alias(out[which]) : out[which];
  x[R] = x[V];
  if (is_plain) x[R] = weft_alias(x[R]);
  else weft_checkpoint(1, &x[which == 1 ? W : U], 1, &x[R]);
  x[Y] = times(after(x[R], x[W]), weft_sin(times(x[V], x[U])));
}
static void checkpoint_that_is_an_argument(struct told *t, bool is_plain) { checkpoint_that_is_a_call(t, is_plain, 0); }
static void checkpoint_that_is_captured(struct told *t, bool is_plain) { checkpoint_that_is_a_call(t, is_plain, 1); }
static void checkpoint_that_is_of_both(struct told *t, bool is_plain) { checkpoint_that_is_a_call(t, is_plain, 2); }

/* A function of one input that has captured w: its input, w, and their product. */
static void passed(struct told *t, bool is_plain, weft_array *u, weft_array *out[3]) {
  weft_array *w = t->by[W];
  if (is_plain) {
    out[0] = weft_alias(u), out[1] = weft_alias(w), out[2] = weft_alias(times(u, w));
    return;
  }
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *r = times(in, w);
  weft_call(weft_compile(body, 1, &in, WEFT_ARRAYS(in, w, r)), 1, &u, 3, out);
}

static void alias_all(int n, weft_array *y[]) { for (int k = 0; k < n; k++) y[k] = weft_alias(y[k]); }

/* Results of one call, one of them twice, are the y of one region; a second region is around it. */
static void checkpoint_of_several_of_a_call(struct told *t, bool is_plain) {
  weft_array **x = t->by, *out[3], *y[4];
  begin(t);
  passed(t, is_plain, x[U], out);
  y[0] = out[2], y[1] = out[0], y[2] = out[2], y[3] = out[1], x[V] = out[2];
  if (is_plain) alias_all(4, y);
  else weft_checkpoint(1, &x[U], 4, y);
  x[R] = y[0];
  x[Y] = times(after(times(y[0], y[3]), y[1]), weft_sin(times(y[2], x[V])));
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
}

/* The x of the region is what a call gave, and its y is what another call of it gave. */
static void checkpoint_from_call_to_call(struct told *t, bool is_plain) {
  weft_array **x = t->by, *out[3], *again[3];
  begin(t);
  passed(t, is_plain, x[U], out);
  x[V] = out[2];
  passed(t, is_plain, x[V], again);
  x[R] = again[0];
  weft_array *y[] = { again[0], again[2] };
  if (is_plain) alias_all(2, y);
  else weft_checkpoint(1, &x[V], 2, y);
  x[Y] = times(after(y[0], x[W]), times(weft_sin(y[1]), times(x[R], x[V])));
}

/* A region in a function, whose y is what it has captured or its input, called twice. */
static void checkpoint_in_a_call(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  x[V] = weft_alias(times(x[W], x[B]));
  weft_function *f = NULL;
  if (!is_plain) {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y[] = { times(in, x[V]), x[V], in };
    weft_checkpoint(1, &in, 3, y);
    weft_array *r = times(times(y[0], y[1]), weft_sin(y[2]));
    f = weft_compile(body, 1, &in, 1, &r);
  }
  weft_array *u = x[U];
  for (int i = 0; i < 2; i++) {
    if (is_plain) u = weft_alias(times(times(times(u, x[V]), x[V]), weft_sin(u)));
    else weft_call(f, 1, &u, 1, &u);
    if (!i) x[R] = u;
  }
  x[Y] = times(after(u, x[W]), weft_sin(x[R]));
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
}

static weft_array *positive(weft_array *x) { return weft_gt(weft_sum(times(x, x), WEFT_ALL), weft_scalar(0)); }

/* What both sides and what is after need is above, v only one side. */
static void one_choice(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  weft_array *p = positive(x[A]), *v = inside(x[U], x[W]), *r = result(v, x[U], x[W]);
  x[R] = is_plain ? weft_alias(r) : weft_choose(p, r, weft_sin(x[U]));
  x[Y] = after(x[R], x[W]);
}

static void choice_above_others(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  weft_array *p = positive(x[A]);
  x[V] = is_plain ? inside(x[U], x[W]) : weft_alias(weft_choose(p, inside(x[U], x[W]), weft_sin(x[U])));
  x[R] = result(x[V], x[U], x[W]);
  if (!is_plain) x[R] = weft_choose(weft_not(p), weft_sin(x[V]), x[R]);
  else x[R] = weft_alias(x[R]);
  x[Y] = after(x[R], x[W]);
}

/* Derivatives by what is made inside one side alone are those, or refused. */
static void inside_a_choice(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  weft_array *p = positive(x[A]);
  x[V] = inside(x[U], x[W]);
  x[R] = result(x[V], x[U], x[W]);
  x[Y] = after(x[R], x[W]);
  if (!is_plain) x[Y] = weft_choose(p, x[Y], weft_sin(x[U]));
}

static void choice_in_a_call(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) x[R] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
  else {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
    weft_array *r = weft_choose(positive(in), result(inside(in, x[W]), in, x[W]), weft_sin(times(in, x[W])));
    weft_call(weft_compile(body, 1, &in, 1, &r), 1, &x[U], 1, &x[R]);
  }
  x[Y] = after(x[R], x[W]);
}

/* w belongs to one side of a choice in the function. */
static void choice_in_a_call_of_its_own(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  x[U] = weft_alias(number(x[A], 3));
  if (is_plain) {
    x[W] = weft_alias(number(x[B], 2));
    x[R] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
    x[Y] = after(x[R], x[B]);
  } else {
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
    x[W] = weft_keep(weft_alias(number(x[B], 2)));
    weft_array *r = weft_choose(positive(in), result(inside(in, x[W]), in, x[W]), weft_sin(times(in, x[W])));
    weft_call(weft_compile(body, 1, &in, 1, &r), 1, &x[U], 1, &x[R]);
    x[Y] = after(x[R], x[B]);
  }
}

static void checkpoint_of_a_choice(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  choice_above_others(t, is_plain);
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
}

static void one_cond(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) x[R] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
  else {
    weft_cond *c = weft_cond_open(positive(x[A]));
    x[R] = weft_cond_value(c, result(inside(x[U], x[W]), x[U], x[W]), weft_sin(x[U]));
    weft_cond_close(c);
  }
  x[Y] = after(x[R], x[W]);
}

/* Three steps c = c w + sin(v c), with v made inside the body of what is outside. */
static weft_array *scanned(weft_array *u, weft_array *w, weft_array *v, bool is_plain, bool recomputes) {
  if (is_plain) {
    for (int i = 0; i < 3; i++) u = weft_add(times(u, w), weft_sin(times(v, u)));
    return u;
  }
  weft_loop *l = weft_loop_open(weft_cast(weft_integer(3), WEFT_I64));
  weft_array *c = weft_loop_carry(l, u);
  weft_loop_next(l, c, weft_add(times(c, w), weft_sin(times(v, c))));
  if (recomputes) weft_loop_recompute(l, 2);
  weft_array *r = weft_loop_last(l, c);
  weft_loop_close(l);
  return r;
}

static void one_scan(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  x[V] = inside(x[U], x[W]);
  x[R] = weft_alias(scanned(x[U], x[W], x[V], is_plain, false));
  x[Y] = after(x[R], x[W]);
}

static void scan_that_recomputes(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  x[V] = inside(x[U], x[W]);
  x[R] = weft_alias(scanned(x[U], x[W], x[V], is_plain, true));
  x[Y] = after(x[R], x[W]);
}

static void checkpoint_of_a_scan(struct told *t, bool is_plain) {
  one_scan(t, is_plain);
  if (!is_plain) weft_checkpoint(1, &t->by[A], 1, &t->by[Y]);
}

/* The body uses what a call gave that is made in it, of arrays outside. */
static void scan_of_a_call(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  if (is_plain) {
    x[V] = weft_alias(result(inside(x[U], x[W]), x[U], x[W]));
    x[R] = x[U];
    for (int i = 0; i < 3; i++) x[R] = weft_add(times(x[R], x[V]), x[W]);
  } else {
    weft_function *f = captor(x[W], x[U]);
    weft_loop *l = weft_loop_open(weft_cast(weft_integer(3), WEFT_I64));
    weft_array *c = weft_loop_carry(l, x[U]);
    weft_call(f, 1, &x[U], 1, &x[V]);
    weft_loop_next(l, c, weft_add(times(c, x[V]), x[W]));
    t->owned = weft_own(x[V]);
    x[R] = weft_loop_last(l, c);
    weft_loop_close(l);
  }
  x[R] = weft_alias(x[R]);
  x[Y] = after(x[R], x[W]);
}

static int cubed_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)y;
  dx[0] = times(dy[0], number(times(x[0], x[0]), 3));
  return 0;
}
static int cubed_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  (void)ctx;
  dy[0] = times(dx[0], number(times(x[0], x[0]), 3));
  return 0;
}

static void checkpoint_of_own_rules(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  begin(t);
  x[V] = inside(x[U], x[W]);
  x[R] = times(x[V], times(x[V], x[V]));
  if (!is_plain) weft_custom(1, &x[V], 1, &x[R], &(weft_rules){ NULL, cubed_vjp, cubed_jvp, NULL, NULL });
  else x[R] = weft_alias(x[R]);
  x[Y] = after(x[R], x[W]);
  if (!is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
}

static void call_beside_own_rules(struct told *t, bool is_plain) {
  weft_array **x = t->by;
  call_of_a_captor(t, is_plain);
  x[V] = weft_alias(number(x[R], 2));
  x[Y] = times(x[V], times(x[V], x[V]));
  if (!is_plain) weft_custom(1, &x[V], 1, &x[Y], &(weft_rules){ NULL, cubed_vjp, cubed_jvp, NULL, NULL });
}

/* Rows that a loop makes which ends where it likes: a length that only a run tells. */
static void rows_of_a_run(struct told *t, bool is_plain, int how) {
  weft_array **x = t->by, *rows;
  begin(t);
  weft_function *f = how == 1 && !is_plain ? captor(x[W], x[U]) : NULL;
  if (is_plain) rows = weft_mul(weft_reshape(x[U], WEFT_DIMS(1, WEFT_ANY)), weft_from(WEFT_F64, WEFT_DIMS(3, 1), (double[]){ 1, 2, 3 }));
  else {
    weft_loop *l = weft_loop_open(weft_cast(weft_integer(8), WEFT_I64));
    weft_array *c = weft_loop_carry(l, weft_cast(weft_scalar(1), WEFT_F64));
    rows = weft_loop_all(l, weft_mul(x[U], c));
    weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
    weft_loop_until(l, weft_ge(c, weft_scalar(3)));
    weft_loop_close(l);
  }
  x[V] = weft_alias(times(weft_sin(rows), x[W]));
  x[R] = weft_alias(weft_squeeze(weft_sum(times(x[V], times(x[V], rows)), 0), 0));
  if (how == 1) {
    if (is_plain) x[R] = weft_alias(result(inside(x[R], x[W]), x[R], x[W]));
    else weft_call(f, 1, &x[R], 1, &x[R]);
  }
  if (how == 2 && !is_plain) x[R] = weft_choose(positive(x[A]), x[R], weft_sin(x[U]));
  x[Y] = after(x[R], x[W]);
  if (how == 0 && !is_plain) weft_checkpoint(1, &x[A], 1, &x[Y]);
  if (how == 3 && !is_plain) weft_checkpoint(1, &x[V], 1, &x[Y]);
}
static void checkpoint_of_rows_of_a_run(struct told *t, bool is_plain) { rows_of_a_run(t, is_plain, 0); }
static void call_after_rows_of_a_run(struct told *t, bool is_plain) { rows_of_a_run(t, is_plain, 1); }
static void choice_after_rows_of_a_run(struct told *t, bool is_plain) { rows_of_a_run(t, is_plain, 2); }
static void checkpoint_above_rows_of_a_run(struct told *t, bool is_plain) { rows_of_a_run(t, is_plain, 3); }

#define STORY(name, refused) { #name, name, refused }
enum { NONE, BY_W = 1 << W, BY_V = 1 << V, BY_R = 1 << R };
static const struct { const char *name; story *tell; int may_refuse; } STORIES[] = {
  STORY(one_checkpoint, NONE), STORY(checkpoint_of_u, NONE), STORY(checkpoint_of_all, NONE), STORY(checkpoints_in_a_row, NONE),
  STORY(checkpoint_in_a_checkpoint, NONE), STORY(call_of_a_captor, NONE), STORY(call_of_a_captor_of_b, NONE),
  STORY(call_of_a_captor_of_its_own, NONE), STORY(call_without_captures, NONE), STORY(calls_in_calls, NONE), STORY(captured_call, NONE),
  STORY(call_that_passes_on, NONE), STORY(checkpoint_of_a_call, NONE), STORY(checkpoint_that_is_an_argument, NONE),
  STORY(checkpoint_that_is_captured, NONE), STORY(checkpoint_that_is_of_both, NONE), STORY(checkpoint_of_several_of_a_call, NONE),
  STORY(checkpoint_from_call_to_call, NONE), STORY(checkpoint_in_a_call, NONE), STORY(one_choice, NONE), STORY(choice_above_others, NONE),
  STORY(inside_a_choice, BY_W | BY_V | BY_R), STORY(choice_in_a_call, NONE), STORY(choice_in_a_call_of_its_own, BY_W),
  STORY(checkpoint_of_a_choice, NONE), STORY(one_cond, NONE), STORY(one_scan, NONE), STORY(scan_that_recomputes, NONE),
  STORY(checkpoint_of_a_scan, NONE), STORY(scan_of_a_call, NONE), STORY(checkpoint_of_own_rules, NONE),
  STORY(call_beside_own_rules, NONE), STORY(checkpoint_of_rows_of_a_run, NONE), STORY(call_after_rows_of_a_run, NONE),
  STORY(choice_after_rows_of_a_run, BY_V), STORY(checkpoint_above_rows_of_a_run, NONE),
};
enum { N_STORIES = sizeof STORIES / sizeof *STORIES };

/* ---- Derivatives ---- */

enum { BY_GRAD, BY_JVP, BY_VJP, HOWS };
enum { PLAIN_CALL, MAPPED_FIRST, MAPPED_BETWEEN, IN_A_FUNCTION, EVALUATED_BETWEEN, WHERES };
static const char *const HOW[] = { "grad", "jvp", "vjp" };
static const char *const WHERE[] = { "", ", of a map", ", mapped between", ", in a function of open sizes", ", evaluated between" };

static weft_array *derivative(int how, weft_array *y, weft_array *x) {
  weft_array *d, *dx = weft_add(weft_stop_gradient(x), weft_scalar(2)), *dy = weft_sub(weft_stop_gradient(y), weft_scalar(1));
  if (how == BY_GRAD) weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d);
  else if (how == BY_VJP) weft_vjp(1, &y, &dy, 1, &x, &d);
  else weft_jvp(1, &x, &dx, 1, &y, &d);
  return d;
}

struct question { int story, where, how[2], by[2]; };

/* Mapped over a, whose rows are others. */
static weft_array *mapped(weft_array *a, weft_array *y) {
  weft_array *rows = weft_from(WEFT_F64, WEFT_DIMS(2, N), (double[]){ 0.5, 0.7, -0.4, -0.3, 0.2, 0.9 }), *ys;
  weft_map(1, &a, &rows, 1, &y, &ys);
  return ys;
}

static weft_array *asked(struct told *t, const struct question *q) {
  weft_array *y = t->by[Y];
  if (q->where == MAPPED_FIRST) y = mapped(t->by[A], y);
  y = derivative(q->how[0], y, t->by[q->by[0]]);
  if (q->where == MAPPED_BETWEEN) y = mapped(t->by[A], y);
  if (q->where == EVALUATED_BETWEEN && weft_eval(1, &y)) return y;
  return derivative(q->how[1], times(y, y), t->by[q->by[1]]);
}

/* The numbers; how many, or the status as a negative number. */
static int answer(const struct question *q, bool is_plain, const double of_a[], const double of_b[], double out[static 64]) {
  struct told t = { { 0 }, NULL };
  weft_scope *s = weft_scope_open();
  bool is_open = q->where == IN_A_FUNCTION, is_mapped = q->where == MAPPED_FIRST || q->where == MAPPED_BETWEEN;
  weft_array *a = f64s(N, of_a), *b = f64s(N, of_b), *d;
  weft_scope *body = is_open ? weft_scope_open() : NULL;
  t.by[A] = is_open ? weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) : is_mapped ? weft_input(WEFT_F64, WEFT_DIMS(N)) : a;
  t.by[B] = is_open ? weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) : b;
  STORIES[q->story].tell(&t, is_plain);
  d = t.by[q->by[0]] && t.by[q->by[1]] ? asked(&t, q) : NULL;
  if (body && !d) weft_scope_discard(body);
  if (body && d) {
    weft_function *f = weft_compile(body, 2, t.by, 1, &d);
    weft_call(f, WEFT_ARRAYS(a, b), 1, &d);
  }
  int n = d != NULL;
  for (int k = 0; d && k < weft_rank(d); k++) n *= (int)weft_dim(d, k);
  weft_status status = d ? weft_read(d, WEFT_F64, out, n < 0 ? 0 : (size_t)n * sizeof *out) : WEFT_OK;
  weft_scope_discard(s);
  if (t.owned) weft_disown(t.owned);
  return status ? -(int)status : n;
}

static bool differ(double a, double b) { return !(fabs(a - b) <= 1e-9 * (1 + fabs(b))); }

static bool may_refuse(const struct question *q) {
  int may = STORIES[q->story].may_refuse;
  return (may >> q->by[0] & 1) || (may >> q->by[1] & 1);
}

static int n_wrong, n_refused, n_right;

static void compare(const struct question *q) {
  double got[64] = { 0 }, want[64] = { 0 };
  char text[200];
  snprintf(text, sizeof text, "%s: %s by %s, %s by %s%s", STORIES[q->story].name, HOW[q->how[0]], NAMES[q->by[0]], HOW[q->how[1]],
           NAMES[q->by[1]], WHERE[q->where]);
  int n = answer(q, true, OF_A, OF_B, want);
  if (!n) return;
  if (n < 0) { test_fail(__FILE__, __LINE__, "%s: plain: %s", text, weft_message()); return; }
  int m = answer(q, false, OF_A, OF_B, got);
  if (m < 0) {
    n_refused++;
    if (!may_refuse(q) || m != -WEFT_ERR_ARG || !strstr(weft_message(), "was copied into a loop or choice"))
      test_fail(__FILE__, __LINE__, "%s: %s", text, weft_message());
    return;
  }
  if (m != n) test_fail(__FILE__, __LINE__, "%s: %d elements, not %d", text, m, n);
  for (int i = 0; i < n && i < m; i++)
    if (differ(got[i], want[i])) {
      test_fail(__FILE__, __LINE__, "%s: element %d is %.12g, not %.12g", text, i, got[i], want[i]);
      n_wrong++;
      return;
    }
  n_right++;
}

static bool depends_on_a(int by) { return by != B && by != W; }

static void every_question(int where) {
  struct question q = { .where = where };
  int n = 0; /* ways are taken in turn */
  test_watchdog(300);
  bool is_mapped = where == MAPPED_FIRST || where == MAPPED_BETWEEN;
  for (q.story = 0; q.story < N_STORIES; q.story++)
    for (int by = 0; by < MANY * MANY; by++) {
      q.by[0] = by / MANY, q.by[1] = by % MANY;
      if (is_mapped && (depends_on_a(q.by[1]) || (where == MAPPED_FIRST && depends_on_a(q.by[0])))) continue;
      q.how[0] = n / HOWS % HOWS, q.how[1] = n % HOWS;
      n += 4;
      compare(&q);
    }
}

TEST(a_second_derivative_by_an_array_between_is_that_of_the_plain_program) { every_question(PLAIN_CALL); }
TEST(a_second_derivative_of_a_map_is_that_of_the_plain_program) { every_question(MAPPED_FIRST); }
TEST(a_second_derivative_of_a_mapped_first_one_is_that_of_the_plain_program) { every_question(MAPPED_BETWEEN); }
TEST(a_second_derivative_in_a_function_of_open_sizes_is_that_of_the_plain_program) { every_question(IN_A_FUNCTION); }
TEST(a_second_derivative_of_an_evaluated_first_one_is_that_of_the_plain_program) { every_question(EVALUATED_BETWEEN); }

/* What is made inside one side alone stays outside of it where the first derivative is asked for by it too. */
TEST(an_array_of_a_side_that_the_first_derivative_is_asked_for_by_is_found_by_the_second) {
  for (int how = 0; how < 2; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *a = f64s(3, (double[]){ 1, 2, 3 }), *w = weft_alias(number(a, 2)), *d[2];
    weft_array *y = weft_choose(positive(a), times(w, times(w, w)), weft_sin(a));
    weft_grad(y, how + 1, (weft_array *[]){ a, w }, d);
    weft_grad(d[0], 1, &w, &d[1]);
    if (how) EXPECT_F64(d[1], 24, 48, 72);
    else EXPECT(weft_check(d[1]) == WEFT_ERR_ARG && strstr(weft_message(), "ask for it already where the first"));
    weft_scope_discard(s);
  }
}

/* A choice below makes copies in an order of its own: one that has the length of a loop may be older than what the loop reads. */
TEST(a_second_derivative_of_rows_of_a_run_above_a_choice_finds_their_length) {
  for (int is_plain = 0; is_plain < 2; is_plain++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64_of(0.8), *p = weft_lt(weft_scalar(1), f64_of(1.6)), *d;
    weft_array *w = weft_alias(is_plain ? x : weft_choose(p, x, weft_sin(x)));
    weft_loop *l = weft_loop_open(weft_integer(5));
    weft_array *c = weft_loop_carry(l, weft_cast(weft_scalar(1), WEFT_F64));
    weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
    weft_loop_until(l, weft_ge(c, weft_scalar(3)));
    weft_array *rows = weft_loop_all(l, w);
    weft_loop_close(l);
    weft_grad(times(weft_nanmax(rows, WEFT_ALL), weft_sin(w)), 1, &x, &d);
    weft_grad(d, 1, &w, &d);
    EXPECT_F64(d, 2 * cos(0.8) - 0.8 * sin(0.8));
    weft_scope_discard(s);
  }
}

/* ---- The same arrays as inputs of functions, and mapped ---- */

static const double OTHERS[N] = { 0.1, 0.9, -0.7 };

/* The first derivative as a function of an array between, called with another one; or mapped over rows of them. */
static int applied(const struct question *q, bool is_plain, bool is_map, double out[static 64]) {
  struct told t = { { 0 }, NULL };
  weft_scope *s = weft_scope_open();
  weft_array *arg = f64s(N, OTHERS), *d = NULL;
  weft_scope *body = weft_scope_open();
  t.by[A] = f64s(N, OF_A), t.by[B] = f64s(N, OF_B);
  STORIES[q->story].tell(&t, is_plain);
  weft_array *in = t.by[q->by[1]];
  bool is_row = in && weft_rank(in) == 1 && t.by[q->by[0]];
  if (is_row) d = derivative(q->how[0], t.by[Y], t.by[q->by[0]]);
  if (is_row && is_map) arg = weft_reshape(arg, WEFT_DIMS(1, N)), weft_map(1, &in, &arg, 1, &d, &d);
  if (is_row && is_map) d = weft_keep(d), weft_scope_discard(body);
  else if (is_row) weft_call(weft_compile(body, 1, &in, 1, &d), 1, &arg, 1, &d);
  else weft_scope_discard(body);
  int n = d != NULL;
  for (int k = 0; d && k < weft_rank(d); k++) n *= (int)weft_dim(d, k);
  weft_status status = d ? weft_read(d, WEFT_F64, out, n < 0 ? 0 : (size_t)n * sizeof *out) : WEFT_OK;
  weft_scope_discard(s);
  if (t.owned) weft_disown(t.owned);
  return status ? -(int)status : n;
}

static void every_application(bool is_map) {
  struct question q = { 0 };
  int n = 0;
  test_watchdog(300);
  for (q.story = 0; q.story < N_STORIES; q.story++)
    for (int by = 0; by < MANY * MANY; by++) {
      double want[64] = { 0 }, got[64] = { 0 };
      q.by[0] = by / MANY, q.by[1] = by % MANY, q.how[0] = n++ % HOWS;
      const char *name = STORIES[q.story].name, *how = HOW[q.how[0]], *first = NAMES[q.by[0]], *in = NAMES[q.by[1]];
      int m = applied(&q, true, is_map, want);
      if (!m) continue;
      if (m < 0) test_fail(__FILE__, __LINE__, "%s: %s by %s of %s, plain: %s", name, how, first, in, weft_message());
      int k = applied(&q, false, is_map, got);
      bool is_refused = k < 0 && may_refuse(&q) && strstr(weft_message(), "was copied into a loop or choice");
      if (k < 0 && !is_refused) test_fail(__FILE__, __LINE__, "%s: %s by %s of %s: %s", name, how, first, in, weft_message());
      for (int i = 0; k >= 0 && i < m; i++)
        if (m != k || differ(got[i], want[i])) {
          test_fail(__FILE__, __LINE__, "%s: %s by %s of %s: element %d of %d is %g, not %g of %d", name, how, first, in, i, k, got[i], want[i], m);
          break;
        }
    }
}

TEST(a_derivative_as_a_function_of_an_array_between_is_that_of_the_plain_program) { every_application(false); }
TEST(a_derivative_mapped_over_an_array_between_is_that_of_the_plain_program) { every_application(true); }

/* What the table is held to: its plain programs against differences of their first derivatives. */
TEST(second_derivatives_of_the_plain_programs_are_differences_of_first_ones) {
  test_watchdog(300);
  for (int at = 0; at < N_STORIES; at++)
    for (int by = 0; by < 4; by++) {
      double got[64], first[2][64], want;
      struct question q = { at, PLAIN_CALL, { BY_GRAD, BY_JVP }, { by / 2, by % 2 } };
      int n = answer(&q, true, OF_A, OF_B, got);
      for (int k = 0; k < 2; k++) { /* along the tangent that jvp is given */
        double of_a[N], of_b[N], h = k ? 1e-6 : -1e-6;
        for (int i = 0; i < N; i++) of_a[i] = OF_A[i] + h * (q.by[1] == A) * (OF_A[i] + 2), of_b[i] = OF_B[i] + h * (q.by[1] == B) * (OF_B[i] + 2);
        weft_scope *s = weft_scope_open();
        struct told t = { { f64s(N, of_a), f64s(N, of_b) }, NULL };
        STORIES[at].tell(&t, true);
        weft_array *d = derivative(BY_GRAD, t.by[Y], t.by[q.by[0]]);
        EXPECT_OK(weft_read(times(d, d), WEFT_F64, first[k], N * sizeof **first));
        weft_scope_discard(s);
      }
      EXPECT_INT(n, N);
      for (int i = 0; i < N; i++) {
        want = (first[1][i] - first[0][i]) / 2e-6;
        if (!(fabs(got[i] - want) <= 1e-4 * (1 + fabs(want) + fabs(first[0][i]))))
          test_fail(__FILE__, __LINE__, "%s: by %s, by %s: %g, by differences %g", STORIES[at].name, NAMES[by / 2], NAMES[by % 2], got[i], want);
      }
    }
}

/* ---- What loops have copied ---- */

/* A counter and a number in the body of a loop are its own: nobody else finds them there. */
TEST(an_input_or_a_row_that_a_loop_has_copied_is_refused_not_ignored) {
  for (int how = 0; how < 3; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64s(3, OF_A), *arg = how ? f64s(3, OF_B) : f64_of(2), *out;
    weft_array *rows = weft_reshape(arg, how ? 2 : 1, (int64_t[]){ 1, 3 });
    weft_scope *body = weft_scope_open();
    weft_array *k = how == 2 ? weft_alias(weft_iota(x, 0)) : how ? weft_iota(x, 0) : weft_full(WEFT_F64, 0, NULL, 5);
    weft_loop *l = weft_loop_open(weft_integer(2));
    weft_array *c = weft_loop_carry(l, x);
    weft_loop_next(l, c, weft_mul(c, k));
    weft_array *y = weft_loop_last(l, c);
    weft_loop_close(l);
    weft_map(1, &k, &rows, 1, &y, &out);
    bool is_refused = weft_check(out) == WEFT_ERR_ARG && strstr(weft_message(), "weft_map: x 1 was copied into a loop");
    if (!is_refused) EXPECT_F64(out, 0.5 * 0.09, 0.7 * 0.36, -0.4 * 0.64); /* another name of it is found */
    EXPECT(is_refused == (how < 2));
    weft_call(weft_compile(body, 1, &k, 1, &y), 1, &arg, 1, &out);
    is_refused = weft_check(out) == WEFT_ERR_ARG && strstr(weft_message(), "weft_compile: input 1 was copied into a loop");
    if (!is_refused) EXPECT_F64(out, 0.5 * 0.09, 0.7 * 0.36, -0.4 * 0.64);
    EXPECT(is_refused == (how < 2));
    weft_scope_discard(s);
  }
}

TEST(a_number_is_no_input_of_a_function) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *k = weft_scalar(3), *y = weft_mul(f64s(3, OF_A), k), *five = f64_of(5);
  weft_function *f = weft_compile(body, 1, &k, 1, &y);
  weft_call(f, 1, &five, 1, &y);
  EXPECT_INT(weft_check(y), WEFT_ERR_ARG);
  EXPECT(strstr(weft_message(), "weft_compile: input 1 is a number"));
  weft_scope_discard(s);
}

/* e after the steps, times sin w: what the next test's loop makes. */
static double run_by_hand(double x, double w) {
  double c = x, e = x;
  for (int i = 0; i < 5; i++) {
    double before = c;
    c = 4 * i + 3 + c * w, e = w * (e + before);
    if (c > 16) break;
  }
  return e * sin(w);
}

/* Rows of a segment have a size that a loop tells: as what a region is made of, they waited for the loop outside of its copy. */
TEST(a_second_derivative_of_a_checkpoint_of_a_run_in_segments_is_that_of_its_steps) {
  for (int which = 0; which < 64; which++) {
    bool is_plain = which & 1, is_forward = which & 2, is_forward_again = which & 4, is_evaluated = which & 8, by_w = which & 16;
    weft_scope *s = weft_scope_open();
    weft_array *x = f64_of(0.8), *w = weft_alias(weft_sin(x)), *one = weft_cast(weft_scalar(1), WEFT_F64), *d;
    weft_loop *l = weft_loop_open(NULL);
    weft_array *row = weft_loop_each(l, weft_from(WEFT_F64, WEFT_DIMS(5, 2), (double[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }));
    weft_array *c = weft_loop_carry(l, x), *e = weft_loop_carry(l, x), *next = weft_add(weft_sum(row, WEFT_ALL), times(c, w));
    weft_loop_next(l, c, next);
    weft_loop_next(l, e, times(w, weft_add(e, c)));
    weft_loop_until(l, weft_gt(next, weft_scalar(16)));
    if (!is_plain) weft_loop_recompute(l, which & 32 ? 2 : 4);
    weft_array *last = weft_loop_last(l, e);
    weft_loop_close(l);
    weft_array *y = times(last, weft_sin(w)), *by = by_w ? w : x;
    if (!is_plain) weft_checkpoint(1, &x, 1, &y);
    if (is_forward) weft_jvp(1, &x, &one, 1, &y, &d);
    else weft_grad(y, 1, &x, &d);
    if (is_evaluated) EXPECT_OK(weft_eval(1, &d));
    if (is_forward_again) weft_jvp(1, &by, &one, 1, &d, &d);
    else weft_grad(d, 1, &by, &d);
    double at[2][2], h = 1e-4, got = 0; /* of the slope along x, where w follows with cos x; by w at one x */
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++) {
        double dx = j ? h : -h, db = i ? h : -h, t = by_w ? 0.8 + dx : 0.8 + dx + db;
        at[i][j] = run_by_hand(t, by_w ? sin(0.8) + db + dx * cos(0.8) : sin(t));
      }
    double want = (at[1][1] - at[1][0] - at[0][1] + at[0][0]) / (4 * h * h);
    EXPECT_OK(weft_read(d, WEFT_F64, &got, sizeof got));
    if (!(fabs(got - want) <= 1e-4 * fabs(want))) test_fail(__FILE__, __LINE__, "%d: %.9g, by differences %.9g", which, got, want);
    weft_scope_discard(s);
  }
}

/* ---- Choices above and below a run that ends itself ---- */

static weft_array *chosen(weft_array *x, int kind) {
  weft_array *is = weft_full(WEFT_BOOL, 0, NULL, 1), *other = kind == 2 ? weft_add(weft_cumsum(x, 0), weft_sqrt(x)) : weft_sin(x);
  return kind ? weft_choose(is, x, other) : x;
}

static weft_array *squared(weft_array *x, bool is_called) {
  if (!is_called) return times(x, x);
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, 1, (int64_t[]){ WEFT_ANY }), *y = times(in, in);
  weft_call(weft_compile(body, 1, &in, 1, &y), 1, &x, 1, &y);
  return y;
}

/* The rows of a run that ends at its second step, times what `by` makes: differentiated along x, and then by that array. */
static double slope_of_run(int above, int below, bool is_called, int which, bool is_forward, bool is_forward_again) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 0.35, 0.6, 0.2 }), *u = f64s(3, (double[]){ 0.7, -0.4, 2 });
  weft_array *r = squared(chosen(x, above), is_called);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *row = weft_loop_each(l, r);
  weft_loop_until(l, weft_gt(row, weft_scalar(0.2)));
  weft_array *rows = weft_loop_all(l, row);
  weft_loop_close(l);
  weft_array *z = chosen(rows, below), *by = which == 0 ? r : which == 1 ? rows : z, *d;
  weft_array *y = times(z, weft_sum(weft_sin(by), WEFT_ALL));
  if (is_forward) weft_jvp(1, &x, &u, 1, &y, &d);
  else weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d), d = times(d, u);
  d = weft_sum(d, WEFT_ALL);
  weft_array *ones = weft_full_like(by, 1);
  if (is_forward_again) weft_jvp(1, &by, &ones, 1, &d, &d);
  else weft_grad(d, 1, &by, &d), d = weft_sum(d, WEFT_ALL);
  double got = NAN;
  EXPECT_OK(weft_read(d, WEFT_F64, &got, sizeof got));
  weft_scope_discard(s);
  return got;
}

TEST(a_second_derivative_by_rows_of_a_run_between_choices_is_that_of_the_plain_program) {
  for (int which = 0; which < 3; which++)
    for (int way = 0; way < 4; way++) {
      double want = slope_of_run(0, 0, false, which, way & 1, way & 2);
      for (int k = 1; k < 18; k++) {
        double got = slope_of_run(k % 3, k / 3 % 3, k >= 9, which, way & 1, way & 2);
        if (!(fabs(got - want) <= 1e-12 * fabs(want))) test_fail(__FILE__, __LINE__, "%d, %d, %d: %g, not %g", which, way, k, got, want);
      }
    }
}
