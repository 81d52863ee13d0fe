/* program_check.c -- what must hold of every program, whatever it is: weft computes, in every way it has, what the plain
 * evaluator says; that is what the program written out by hand gives; vjp, jvp and differences agree; mapped over rows, each
 * row is what it is alone; as a function it is the same; and a step that is repeated leaves nothing behind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "every_graph.h"
#include "every_recipe.h"
#include "graph/function.h"
#include "op/op.h"
#include "program_kinds.h"
#include "program_lives.h"

enum { ROWS = 3 };

struct results { int n; struct plain y[PROGRAM_OUTS]; };

static void results_free(struct results *r) {
  for (int k = 0; k < r->n; k++) plain_free(&r->y[k]);
  r->n = 0;
}

static bool found(const struct program *p, FILE *out, const char *what, const char *why) {
  fprintf(out, "program %llu: %s: %s\n", (unsigned long long)p->seed, what, why);
  return false;
}

/* Every other program is looked at on the way, by each check in its own way. */
static bool is_touched;
static uint64_t touches(const struct program *p, uint64_t check) {
  is_touched = p->seed / (check + 1) % 2;
  return is_touched ? 2 * (p->seed * 31 + check) + 1 : 0;
}

/* What is legal but not written yet, and sizes that were taken to be equal while they were open. */
static bool is_excused(const char *message) {
  if (is_touched && strstr(message, "nothing to choose from")) return used("excused"), true; /* a size is known while it is written */
  bool is_ranked = strstr(message, "partition: ") || strstr(message, "topk: ");
  if (is_touched && is_ranked && strstr(message, " along axis ")) return used("excused"), true; /* likewise, of fewer */
  if (is_touched && strstr(message, "has run already")) return used("mapped after it has run"), true;
  if (is_touched && strstr(message, "was dropped when it was evaluated")) return used("excused"), true; /* owned, of a body that has ended */
  static const char *const told[] = { "not written yet", "taken to be equal", "more than 12 axes", "equal parts", "written out by hand", "bounds do not fit", "not supported", "is not known", "keeps no steps to go back", NULL };
  for (int k = 0; told[k]; k++) if (strstr(message, told[k])) return true;
  return false;
}

static int outs_of(const struct build *b, weft_array *y[]) {
  int n = b->p->blocks[0].n_outs;
  for (int k = 0; k < n; k++) y[k] = b->at[b->p->blocks[0].out[k]][0];
  return n;
}

static bool is_input(const struct step *s) { return s->row == &kind_leaf && s->block == 0 && !s->is_dead; }

/* ---- comparing ---- */

/* Bits, or in smooth programs nearly: derivatives of what is written otherwise are rounded otherwise. */
static bool is_same(const struct program *p, const struct plain *a, const struct plain *b, bool by_bits, char why[256]) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int k = 0; same && k < a->rank; k++) same = a->dims[k] == b->dims[k];
  if (!same) return snprintf(why, 256, "another form: %s rank %d, %lld elements, not %s rank %d, %lld", weft_dtype_name(b->dtype), b->rank, (long long)b->count, weft_dtype_name(a->dtype), a->rank, (long long)a->count), false;
  int64_t at = plain_differs(a, b->data);
  if (at < 0) return true;
  if (!by_bits && p->is_smooth && plain_is_float(a->dtype)) {
    double size = 1;
    for (int64_t i = 0; i < a->count; i++) if (isfinite(plain_f(a, i))) size = fmax(size, fabs(plain_f(a, i)));
    for (at = 0; at < a->count; at++)
      if (isfinite(plain_f(a, at)) && isfinite(plain_f(b, at)) && fabs(plain_f(a, at) - plain_f(b, at)) > 1e-7 * size) break;
    if (at == a->count || size > 1e9) return true;
  } else if (!by_bits && p->is_smooth) return true; /* whole numbers and bools of what is rounded otherwise */
  return snprintf(why, 256, "element %lld of %lld is %s, not %s", (long long)at, (long long)a->count, plain_text(b, at), plain_text(a, at)), false;
}

static bool are_same(const struct program *p, FILE *out, const char *what, const struct results *a, const struct results *b, bool by_bits) {
  char why[256], text[300];
  for (int k = 0; k < a->n; k++)
    if (!is_same(p, &a->y[k], &b->y[k], by_bits, why)) return snprintf(text, sizeof text, "result %d (%%%d): %s", k, p->blocks[0].out[k], why), found(p, out, what, text);
  return true;
}

/* ---- values ---- */

#define NO_SIZE ((weft_status)1000) /* evaluated, and a size is still none */

static struct plain read_array(weft_array *a, weft_status *s) {
  weft_dtype t = weft_dtype_of(a);
  int64_t dims[PLAIN_RANK];
  *s = weft_eval(1, &a);
  int rank = *s ? 0 : weft_rank(a);
  bool is_known = true;
  for (int k = 0; k < rank; k++) is_known &= (dims[k] = weft_dim(a, k)) >= 0;
  struct plain y = plain_new(t, is_known ? rank : 0, dims);
  if (!is_known) *s = NO_SIZE;
  if (!*s) *s = weft_read(a, t, y.data, (size_t)y.count * weft_dtype_bytes(t));
  return y;
}

static bool uses(const struct program *p, const char *name) {
  for (int i = 0; i < p->n; i++) if (!p->step[i].is_dead && !strcmp(p->step[i].row->name, name)) return true;
  return false;
}
static bool has_open_size(const struct program *p) {
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->step[i].form.rank && !p->step[i].is_dead; k++) if (p->step[i].form.dims[k] == PROGRAM_OPEN) return true;
  return false;
}

/* The largest of nothing, or an element by its rank among fewer, is refused as soon as sizes are known: also on the side of a choice
 * that is not taken, and where only the size of it is asked for. The plain evaluator computes what is wanted. */
static bool may_be_refused(const struct program *p, const char *why) {
  if (strstr(why, "nothing to choose from")) return uses(p, "weft_cond_open") || has_open_size(p);
  bool is_ranked = uses(p, "weft_partition") || uses(p, "weft_argpartition") || uses(p, "weft_topk") || uses(p, "weft_argtopk");
  return is_ranked && has_open_size(p) && strstr(why, "elements of an axis that has");
}

/* All at once, when a scope ends. false: a size is not known before they are computed. */
static bool fetch_all(int n, weft_array *const y[], struct results *r, weft_status *s) {
  int64_t dims[PROGRAM_OUTS][WEFT_RANK_MAX];
  weft_dtype t[PROGRAM_OUTS];
  int rank[PROGRAM_OUTS];
  for (int k = 0; k < n; k++) if ((rank[k] = weft_describe(y[k], &t[k], dims[k])) < 0 || rank[k] > PLAIN_RANK) return false;
  weft_scope *scope = weft_scope_open();
  for (int k = 0; k < n; k++) {
    r->y[r->n++] = plain_new(t[k], rank[k], dims[k]);
    weft_fetch(y[k], t[k], r->y[k].data, (size_t)r->y[k].count * weft_dtype_bytes(t[k]));
  }
  *s = weft_scope_close(scope);
  return used("weft_fetch"), true;
}

/* All at once, then read; or, in one program of four, fetched. */
static bool compute(const struct program *p, FILE *out, const char *what, int n, weft_array *const y[], struct results *r, bool *is_skipped) {
  weft_status s = WEFT_OK;
  r->n = 0;
  if (p->seed / 16 % 4 || !fetch_all(n, y, r, &s)) {
    s = weft_eval(n, y);
    for (int k = 0; !s && k < n; k++) r->y[r->n++] = read_array(y[k], &s);
  }
  if (!s) return true;
  if (s == WEFT_ERR_UNSUPPORTED || is_excused(weft_message()) || may_be_refused(p, weft_message())) return *is_skipped = true, used("excused"), false;
  return found(p, out, what, s == NO_SIZE ? "it was evaluated, and has no size" : weft_message());
}

struct truth { struct results plain; bool is_skipped, is_open, is_refused; }; /* refused: an index of nothing, told by a run */

/* To write an expression evaluates nothing. Which step has been; -1: none. */
static int evaluated(const struct build *b) {
  for (int i = 0; i < b->p->n; i++) {
    const weft_array *a = b->p->step[i].block || b->p->step[i].is_dead ? NULL : b->at[i][0]; /* bodies have ended */
    if (a && a->node->n_in && a->node->op->kind != OP_LEAF && atomic_load(&a->node->state) == NODE_READY) return i;
  }
  return -1;
}

/* Whether anything that y is made of has been: bodies are written out too, and what they have may have been for a size. */
static bool some_was_evaluated(int n, weft_array *const y[]) {
  struct node *node[PROGRAM_OUTS];
  struct node_list l;
  bool some = false;
  for (int k = 0; k < n; k++) node[k] = y[k]->node;
  graph_lock();
  bool ok = walk(&l, n, node, NULL);
  for (int i = 0; ok && i < l.n; i++) some |= l.node[i]->op->kind != OP_LEAF && atomic_load(&l.node[i]->state) == NODE_READY;
  if (ok) node_list_free(&l);
  graph_unlock();
  return some || !ok;
}

/* The program as it is written, by the plain evaluator; and written out. */
static bool find_truth(const struct program *p, FILE *out, struct truth *t) {
  struct build *b = calloc(1, sizeof *b);
  struct results by_hand = { 0 };
  weft_array *y[PROGRAM_OUTS];
  bool ok = true;
  weft_scope *scope = weft_scope_open();
  *b = (struct build){ .p = p, .is_open = t->is_open };
  if (!program_build(b)) {
    if (is_excused(b->why) || strstr(b->why, "nothing to choose from")) t->is_skipped = true, used("excused");
    else ok = found(p, out, "refused", b->why);
  }
  if (ok && evaluated(b) >= 0) {
    char text[64];
    snprintf(text, sizeof text, "step %d is evaluated when the program is written", evaluated(b));
    ok = found(p, out, "as written", text);
  }
  if (ok && !t->is_skipped) {
    int n = outs_of(b, y);
    if (plain_graph(n, y, 0, NULL, t->plain.y)) t->plain.n = n;
    else if (is_excused(plain_graph_why())) t->is_skipped = true;
    else if (strstr(plain_graph_why(), " of nothing")) return weft_scope_discard(scope), free(b), t->is_refused = true;
    else ok = found(p, out, "plainly", plain_graph_why());
  }
  weft_scope_discard(scope);
  if (ok && !t->is_skipped) {
    scope = weft_scope_open();
    *b = (struct build){ .p = p, .is_written_out = true };
    used("written out");
    if (!program_build(b)) { /* the largest of nothing is told only later where sizes are open, and not at all where only they are asked for */
      if (is_excused(b->why) || strstr(b->why, "nothing to choose from") || strstr(b->why, " of nothing") || strstr(b->why, "weft_partition: ") || strstr(b->why, "weft_argpartition: ") || may_be_refused(p, b->why)) t->is_skipped = true;
      else ok = found(p, out, "written out, refused", b->why);
    }
    int n = ok && !t->is_skipped ? outs_of(b, y) : 0;
    if (ok && !plain_graph(n, y, 0, NULL, by_hand.y)) ok = found(p, out, "written out", plain_graph_why());
    else by_hand.n = n;
    ok = ok && (t->is_skipped || are_same(p, out, "as written beside written out", &by_hand, &t->plain, false));
    weft_scope_discard(scope);
  }
  results_free(&by_hand);
  free(b);
  return ok;
}

static bool check_way(const struct program *p, FILE *out, const struct way *w, struct truth *t, uint64_t touches) {
  struct build *b = calloc(1, sizeof *b);
  struct results r = { 0 };
  weft_array *y[PROGRAM_OUTS];
  way_take(w);
  weft_scope *scope = weft_scope_open(), *inner = touches ? weft_scope_open() : NULL; /* results leave it, and nothing else */
  *b = (struct build){ .p = p, .is_open = t->is_open, .touches = touches };
  bool is_built = program_build(b), is_skipped = !is_built && touches && is_excused(b->why);
  bool ok = is_built || (!is_skipped && found(p, out, "refused the second time", b->why));
  int n = ok ? outs_of(b, y) : 0;
  for (int k = 0; inner && k < n; k++) y[k] = weft_keep(y[k]), used("weft_keep");
  if (inner) weft_scope_discard(inner);
  if (ok && t->is_refused) {
    weft_status s = weft_eval(n, y); /* the plain evaluator computes all results of a body, weft those that are wanted */
    bool says_so = !s || (s == WEFT_ERR_SHAPE && strstr(weft_message(), "nothing to choose from")) || may_be_refused(p, weft_message());
    ok = says_so || found(p, out, w->name, weft_message());
  } else if (ok) ok = compute(p, out, w->name, n, y, &r, &is_skipped) && are_same(p, out, w->name, &t->plain, &r, true);
  t->is_skipped |= is_skipped;
  results_free(&r);
  weft_scope_discard(scope);
  free(b);
  return ok || is_skipped;
}

/* ---- derivatives ---- */

static double weight(int64_t i) { return 0.3 + 0.17 * (double)((i * 7) % 5) - 0.25 * (double)(i % 3); }
static struct plain weights_like(const struct plain *x, int64_t from) {
  struct plain y = plain_new(x->dtype, x->rank, x->dims);
  for (int64_t i = 0; i < y.count; i++) plain_set_f(&y, i, weight(i + from));
  return y;
}
static weft_array *times(const struct plain *x, double c) {
  struct plain y = plain_cast(x, x->dtype);
  for (int64_t i = 0; i < y.count; i++) plain_set_f(&y, i, c * plain_f(x, i));
  weft_array *a = plain_array(&y, 0);
  return plain_free(&y), a;
}
static double dot(const struct plain *a, const struct plain *b, double *size) {
  double s = 0;
  for (int64_t i = 0; i < a->count; i++) s += plain_f(a, i) * plain_f(b, i), *size += fabs(plain_f(a, i) * plain_f(b, i));
  return s;
}

/* sum v y at x + h u, of the program written out, by the plain evaluator. */
static double at_distance(const struct build *b, int n_x, const int x[], int n, weft_array *const y[], const struct plain v[], double h, double *size, bool *ok) {
  struct plain moved[16], z[PROGRAM_OUTS];
  struct plain_given given[16] = { 0 };
  for (int j = 0; j < n_x; j++) {
    const struct plain *at = &b->p->step[x[j]].value;
    moved[j] = plain_cast(at, at->dtype);
    for (int64_t i = 0; i < at->count; i++) plain_set_f(&moved[j], i, plain_f(at, i) + h * weight(i + 3 * j));
    given[j] = (struct plain_given){ b->at[x[j]][0], &moved[j] };
  }
  double s = 0;
  if ((*ok &= plain_graph(n, y, n_x, given, z)))
    for (int k = 0; k < n; k++) s += dot(&v[k], &z[k], size), plain_free(&z[k]);
  for (int j = 0; j < n_x; j++) plain_free(&moved[j]);
  return s;
}

struct slopes { double forward, backward, size; bool has_backward; };

/* By weft: <v, J c u> / c and <J' c v, u> / c. false: a finding. */
static bool find_slopes(const struct program *p, FILE *out, int n_x, const int x[], int n, const int at[], const struct plain v[], double c, struct slopes *s, bool *is_skipped) {
  struct build *b = calloc(1, sizeof *b);
  struct results dy = { 0 }, dx = { 0 };
  weft_array *xs[16], *u[16], *y[PROGRAM_OUTS], *seed[PROGRAM_OUTS], *d[16];
  struct plain up[16];
  weft_scope *scope = weft_scope_open();
  *b = (struct build){ .p = p, .touches = touches(p, 1) };
  bool is_built = program_build(b), no_vjp = false;
  *is_skipped = !is_built && b->touches && is_excused(b->why);
  bool ok = is_built || (!*is_skipped && found(p, out, "refused the third time", b->why));
  for (int j = 0; ok && j < n_x; j++) xs[j] = b->at[x[j]][0], up[j] = weights_like(&p->step[x[j]].value, 3 * j), u[j] = times(&up[j], c);
  for (int k = 0; ok && k < n; k++) y[k] = b->at[at[k]][0], seed[k] = times(&v[k], c);
  if (ok) {
    weft_jvp(n_x, xs, u, n, y, d);
    ok = compute(p, out, "jvp", n, d, &dy, is_skipped);
    for (int k = 0; ok && k < n; k++) s->forward += dot(&v[k], &dy.y[k], &s->size);
  }
  if (ok) {
    weft_vjp(n, y, seed, n_x, xs, d);
    ok = compute(p, out, "vjp", n_x, d, &dx, &no_vjp);
    s->has_backward = ok;
    for (int j = 0; ok && j < n_x; j++) s->backward += dot(&up[j], &dx.y[j], &s->size);
  }
  s->forward /= c, s->backward /= c, s->size /= c;
  for (int j = 0; is_built && j < n_x; j++) plain_free(&up[j]);
  results_free(&dy), results_free(&dx);
  weft_scope_discard(scope);
  free(b);
  return ok || *is_skipped || no_vjp;
}

/* How far rounding alone moves them. They are linear in u and v: by any c they are the same numbers, but where large values cancel (a
 * softmax of what a loop has made large and equal everywhere has slope 0) each c leaves other last digits. A wrong rule is as wrong by each. */
static double rounding(const struct program *p, FILE *out, int n_x, const int x[], int n, const int at[], const struct plain v[], const struct slopes *s) {
  static const double by[] = { 0.7, 0.9, 1.1, 1.3, 1.7, 1.9 };
  double least[2] = { s->forward, s->backward }, most[2] = { s->forward, s->backward };
  for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
    struct slopes t = { 0 };
    bool is_skipped = false;
    if (!find_slopes(p, out, n_x, x, n, at, v, by[i], &t, &is_skipped) || is_skipped || !t.has_backward) return 0;
    least[0] = fmin(least[0], t.forward), most[0] = fmax(most[0], t.forward);
    least[1] = fmin(least[1], t.backward), most[1] = fmax(most[1], t.backward);
  }
  return most[0] - least[0] + most[1] - least[1];
}

/* The line x + h u through a program: its value there, and its slopes to both sides. */
struct line { const struct build *b; int n_x; const int *x; int n; weft_array *const *y; const struct plain *v; };

static double value_at(const struct line *l, double h, double *size, bool *ok) {
  return at_distance(l->b, l->n_x, l->x, l->n, l->y, l->v, h, size, ok);
}

/* How much steeper it is to the right than to the left, over steps of h. A curve has half of that over half the step, a corner all. */
static double bend(const struct line *l, double h, bool *ok) {
  double size = 0, here = value_at(l, 0, &size, ok);
  return (value_at(l, h, &size, ok) + value_at(l, -h, &size, ok) - 2 * here) / h;
}

/* Whether `want`, by differences over steps of h, is not the slope because of a corner nearer than that, such as that of the larger of
 * two numbers that are hardly apart: the line bends there, by as much as the slope is off, and differences that end before the corner
 * have the slope. A derivative of the wrong side of the corner has no such differences. */
static bool is_by_corner(const struct line *l, double h, double slope, double want) {
  bool ok = true;
  double whole = bend(l, h, &ok), half = bend(l, h / 2, &ok);
  if (!ok || !(fabs(half) >= 0.7 * fabs(whole)) || !(fabs(slope - want) <= fabs(whole))) return false;
  for (double near = h / 5; ok && near > 1e-8; near /= 10) {
    double size = 0, by = (value_at(l, near, &size, &ok) - value_at(l, -near, &size, &ok)) / (2 * near);
    double digits = 1e-14 * size / near; /* what differences lose by so short a step */
    if (ok && digits <= 0.01 * fabs(whole) && fabs(by - slope) <= 1e-4 * fabs(by) + digits) return true;
  }
  return false;
}

static bool check_second(const struct program *, FILE *, int n_x, const int x[], int n_y, const int at[], const struct plain v[]);

static bool check_gradient(const struct program *p, FILE *out, const struct truth *t) {
  int x[16], at[PROGRAM_OUTS], n_x = 0, n = 0;
  struct plain v[PROGRAM_OUTS];
  struct slopes s = { 0 };
  bool is_skipped = false;
  char text[200];
  for (int i = 0; i < p->n && n_x < 8; i++) if (is_input(&p->step[i]) && p->step[i].form.dtype == WEFT_F64 && p->step[i].value.count) x[n_x++] = i;
  for (int k = 0; k < t->plain.n; k++)
    if (t->plain.y[k].dtype == WEFT_F64) v[n] = weights_like(&t->plain.y[k], k), at[n++] = p->blocks[0].out[k];
  bool ok = !n || !n_x || find_slopes(p, out, n_x, x, n, at, v, 1, &s, &is_skipped);
  if (ok && n && n_x && !is_skipped && isfinite(s.forward) && s.size < 1e7) {
    used("jvp checked");
    double apart = fabs(s.forward - s.backward);
    if (s.has_backward && !(apart <= 1e-8 * (s.size + 1e-3)) && !(apart <= 8 * rounding(p, out, n_x, x, n, at, v, &s)))
      snprintf(text, sizeof text, "<v, J u> is %.17g, <J'v, u> is %.17g", s.forward, s.backward), ok = found(p, out, "gradient", text);
    struct build *b = calloc(1, sizeof *b);
    weft_array *y[PROGRAM_OUTS];
    weft_scope *scope = weft_scope_open();
    *b = (struct build){ .p = p, .is_written_out = true };
    bool can = ok && program_build(b);
    for (int k = 0; can && k < n; k++) y[k] = b->at[at[k]][0];
    can = can && !some_was_evaluated(n, y); /* what was evaluated for its size stays as it is */
    double size = 0, slope[2] = { 0 };
    struct line line = { b, n_x, x, n, y, v };
    for (int i = 0; can && i < 2; i++) {
      double h = i ? 2e-5 : 4e-5;
      slope[i] = (value_at(&line, h, &size, &can) - value_at(&line, -h, &size, &can)) / (2 * h);
    }
    double want = (4 * slope[1] - slope[0]) / 3, doubt = fabs(slope[1] - slope[0]);
    bool is_smooth_here = can && isfinite(want) && size < 1e6 && doubt <= 1e-3 * (fabs(want) + 1);
    if (ok && is_smooth_here) {
      used("gradient checked");
      for (int i = 0; i < p->n; i++) if (!p->step[i].is_dead && p->step[i].row->build) used(!strcmp(p->step[i].row->name, "weft_call") ? "gradient of a call" : !strcmp(p->step[i].row->name, "weft_loop_open") ? "gradient of a loop" : "");
      double moved = s.has_backward ? apart : 0; /* by rounding alone: it was measured above */
      bool is_off = fabs(s.forward - want) > 1e-4 * fabs(want) + 30 * doubt + 1e-6 * (1 + size) + moved;
      if (is_off && !is_by_corner(&line, 2e-5, s.forward, want))
        snprintf(text, sizeof text, "<v, J u> is %.10g, <J'v, u> %.10g, by differences %.10g", s.forward, s.backward, want), ok = found(p, out, "derivative", text);
    }
    weft_scope_discard(scope);
    free(b);
  }
  if (ok && n && n_x && p->seed % 2) ok = check_second(p, out, n_x, x, n, at, v);
  for (int k = 0; k < n; k++) plain_free(&v[k]);
  return ok;
}

/* ---- derivatives of derivatives, by arrays between ---- */

/* A smooth step that whoever builds the program has, by chance, rather one of a region; -1: there is none. */
static int between(const struct program *p) {
  int found = -1, in_region = -1;
  uint64_t n = 0;
  for (int i = 0; i < p->n; i++) {
    const struct step *s = &p->step[i];
    bool is_array = !s->is_dead && s->row != &kind_leaf && s->row != &kind_param && (!s->row->build || s->row == &kind_item);
    if (!is_array || s->form.dtype != WEFT_F64 || !is_known(&s->form) || !count_of(&s->form) || !program_has(p, i)) continue;
    if (p->seed / 5 % ++n == 0) found = i;
    if (s->block && (in_region < 0 || p->seed / 7 % 2)) in_region = i;
  }
  return in_region < 0 || p->seed / 11 % 4 == 0 ? found : in_region;
}

static weft_array *added(weft_array *sum, weft_array *y, const struct plain *weights) {
  weft_array *more = weft_sum(weft_mul(y, plain_array(weights, 0)), WEFT_ALL);
  return sum ? weft_add(sum, more) : more;
}

/* What copies the arrays above it when a derivative is taken: x times c, by a function that has captured c; or x, by a choice. */
enum { AS_IT_IS, IN_A_REGION, OF_A_CAPTOR, OF_A_CHOICE, PLACES };

static weft_array *from_place(const struct build *b, int place, weft_array *x, weft_array *c) {
  if (b->is_written_out) return place == OF_A_CAPTOR ? weft_mul(x, c) : weft_alias(x);
  if (place == OF_A_CHOICE) return weft_choose(weft_lt(c, weft_scalar(2)), x, weft_sin(x));
  int64_t dims[PLAIN_RANK];
  for (int k = 0; k < weft_rank(x); k++) dims[k] = weft_dim(x, k);
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, weft_rank(x), dims), *y = weft_mul(in, c);
  weft_call(weft_compile(body, 1, &in, 1, &y), 1, &x, 1, &y);
  return y;
}

/* <v, J u>, or <J' v, u>, of the program written or written out, by the step that is named. NULL: it cannot be built. */
static weft_array *second(struct build *b, int n_x, const int x[], int n_y, const int at[], const struct plain v[]) {
  weft_array *xs[16], *u[16], *y[PROGRAM_OUTS], *seed[PROGRAM_OUTS], *d[16], *slope = NULL, *by, *c = weft_full(WEFT_F64, 0, NULL, 1.25);
  struct plain up[16];
  bool is_forward = b->p->seed / 3 % 3 == 0, is_forward_again = b->p->seed / 9 % 3 == 0;
  int place = (int)(b->p->seed / 27 % PLACES);
  for (int j = 0; j < n_x; j++) {
    xs[j] = plain_array(&b->p->step[x[j]].value, 0), up[j] = weights_like(&b->p->step[x[j]].value, 3 * j), u[j] = plain_array(&up[j], 0);
    b->given[x[j]] = place < OF_A_CAPTOR ? xs[j] : from_place(b, place, xs[j], c = weft_alias(c));
  }
  bool ok = program_build(b);
  by = ok ? b->at[b->named - 1][0] : NULL;
  weft_array *factor = ok ? weft_sum(weft_sin(by), WEFT_ALL) : NULL; /* most programs are linear in most of their arrays */
  for (int k = 0; ok && k < n_y; k++) y[k] = weft_mul(b->at[at[k]][0], factor), seed[k] = plain_array(&v[k], 0);
  if (ok && place == IN_A_REGION && !b->is_written_out) weft_checkpoint(n_x, xs, n_y, y);
  int n = n_x;
  if (place == OF_A_CAPTOR) xs[n] = c, u[n++] = c; /* that of the last x */
  if (ok && is_forward) weft_jvp(n, xs, u, n_y, y, d);
  else if (ok) weft_vjp(n_y, y, seed, n, xs, d);
  for (int k = 0; ok && k < (is_forward ? n_y : n_x); k++) slope = added(slope, d[k], is_forward ? &v[k] : &up[k]);
  for (int j = 0; j < n_x; j++) plain_free(&up[j]);
  weft_array *ones = ok ? weft_full_like(by, 1) : NULL;
  if (ok && is_forward_again) weft_jvp(1, &by, &ones, 1, &slope, &slope);
  else if (ok) weft_grad(slope, 1, &by, &slope);
  return slope;
}

/* Of the program as it is written, and written out. A side of a choice may not be asked. */
static bool check_second(const struct program *p, FILE *out, int n_x, const int x[], int n_y, const int at[], const struct plain v[]) {
  enum { MOST = 800 };
  struct build *b = calloc(1, sizeof *b);
  struct results got = { 0 };
  struct plain want;
  bool is_skipped = false, ok = true;
  int by = program_size(p) <= MOST ? between(p) : -1;
  weft_scope *scope = weft_scope_open();
  *b = (struct build){ .p = p, .named = by + 1 };
  weft_array *d = by < 0 ? NULL : second(b, n_x, x, n_y, at, v);
  if (d) {
    weft_status s = weft_check(d);
    is_skipped = s == WEFT_ERR_UNSUPPORTED || (s && (is_excused(weft_message()) || strstr(weft_message(), "was copied into a loop or choice")));
    ok = is_skipped || compute(p, out, "second derivative by what is between", 1, &d, &got, &is_skipped);
  }
  weft_scope_discard(scope);
  if (ok && d && !is_skipped) {
    scope = weft_scope_open();
    *b = (struct build){ .p = p, .named = by + 1, .is_written_out = true };
    d = second(b, n_x, x, n_y, at, v);
    if (d && plain_graph(1, &d, 0, NULL, &want)) {
      char why[256], text[300];
      used(p->step[by].block ? "second derivative by what is in a region" : "second derivative by what is between");
      if (!is_same(p, &want, &got.y[0], false, why)) snprintf(text, sizeof text, "by %%%d: %s", by, why), ok = found(p, out, "second derivative by what is between", text);
      plain_free(&want);
    }
    weft_scope_discard(scope);
  }
  results_free(&got);
  free(b);
  return ok || is_skipped;
}

/* ---- mapped ---- */

static struct plain turned(const struct plain *x, int r) { /* its elements, moved on by r */
  struct plain y = plain_new(x->dtype, x->rank, x->dims);
  size_t size = weft_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < x->count; i++) memcpy(y.data + (size_t)i * size, x->data + (size_t)((i + r) % x->count) * size, size);
  return y;
}

static struct plain rows_of(const struct plain *x) {
  struct plain row[ROWS], thin[ROWS];
  const struct plain *all[ROWS];
  int64_t dims[PLAIN_RANK + 1] = { 1 };
  memcpy(dims + 1, x->dims, sizeof *dims * (size_t)x->rank);
  for (int r = 0; r < ROWS; r++) row[r] = turned(x, r), thin[r] = plain_reshape(&row[r], x->rank + 1, dims), all[r] = &thin[r];
  struct plain y = plain_concat(0, ROWS, all);
  for (int r = 0; r < ROWS; r++) plain_free(&row[r]), plain_free(&thin[r]);
  return y;
}

static bool check_rows(const struct program *p, FILE *out, int n_x, const int x[], const struct results *ys) {
  bool ok = true;
  for (int r = 0; ok && r < ROWS; r++) {
    struct build *b = calloc(1, sizeof *b);
    struct plain row[16];
    struct results alone = { 0 }, one = { 0 };
    weft_array *y[PROGRAM_OUTS];
    weft_scope *scope = weft_scope_open();
    *b = (struct build){ .p = p, .is_written_out = true };
    for (int j = 0; j < n_x; j++) row[j] = turned(&p->step[x[j]].value, r), b->leaf[x[j]] = &row[j];
    bool can = program_build(b);
    int n = can ? outs_of(b, y) : 0;
    if (can && plain_graph(n, y, 0, NULL, alone.y)) alone.n = n;
    for (int k = 0; ok && k < alone.n; k++) {
      struct plain s = plain_slice(&ys->y[k], 0, r, 1, 1);
      one.y[one.n++] = plain_reshape(&s, s.rank - 1, s.dims + 1);
      plain_free(&s);
    }
    if (ok) ok = are_same(p, out, r ? "mapped, a later row" : "mapped, row 0", &alone, &one, false);
    results_free(&alone), results_free(&one);
    weft_scope_discard(scope);
    for (int j = 0; j < n_x; j++) plain_free(&row[j]);
    free(b);
  }
  return ok;
}

/* Whether a result has a size that differs from row to row. */
static bool has_open_result(const struct program *p) {
  for (int k = 0; k < p->blocks[0].n_outs; k++) if (!is_known(&p->step[p->blocks[0].out[k]].form)) return true;
  return false;
}

static bool check_map(struct program *p, FILE *out) {
  int x[16], n_x = 0;
  struct results r = { 0 };
  bool is_skipped = false;
  for (int i = 0; i < p->n && n_x < 8; i++) if (is_input(&p->step[i]) && !p->step[i].is_index && p->step[i].value.count && p->step[i].value.rank < 5 && (!n_x || once_in(p, 2))) x[n_x++] = i;
  if (!n_x || has_open_result(p)) return true;
  struct build *b = calloc(1, sizeof *b);
  weft_array *y[PROGRAM_OUTS], *ys[PROGRAM_OUTS], *from[16], *rows[16];
  weft_scope *scope = weft_scope_open();
  *b = (struct build){ .p = p, .touches = touches(p, 2) };
  bool is_built = program_build(b);
  is_skipped = !is_built && b->touches && is_excused(b->why);
  bool ok = is_built || (!is_skipped && found(p, out, "refused before a map", b->why));
  int n = ok ? outs_of(b, y) : 0;
  for (int j = 0; ok && j < n_x; j++) {
    struct plain all = rows_of(&p->step[x[j]].value);
    from[j] = b->at[x[j]][0], rows[j] = plain_array(&all, 0);
    plain_free(&all);
  }
  if (ok) weft_map(n_x, from, rows, n, y, ys), used("mapped"), ok = compute(p, out, "mapped", n, ys, &r, &is_skipped);
  weft_scope_discard(scope);
  free(b);
  if (ok && !is_skipped) ok = check_rows(p, out, n_x, x, &r);
  results_free(&r);
  return ok || is_skipped;
}

/* ---- as a function ---- */

/* Which two of three operands are taken together first depends on the sizes that are known. */
static bool has_long_einsum(const struct program *p) {
  for (int i = 0; i < p->n; i++) if (!p->step[i].is_dead && p->step[i].n_in > 2 && !strcmp(p->step[i].row->name, "weft_einsum")) return true;
  return false;
}

/* A derivative that is written while sizes are open is written otherwise: parts of which nobody knows yet that they lie apart are added,
 * not placed side by side, and terms come in another order. */
static bool has_derivative(const struct program *p) { return uses(p, "weft_grad") || uses(p, "weft_vjp") || uses(p, "weft_jvp"); }

static bool check_function(const struct program *p, FILE *out, const struct truth *t, bool is_open) {
  bool is_rounded = is_open && has_derivative(p);
  if ((is_open && has_long_einsum(p)) || (is_rounded && !p->is_smooth)) return used("excused"), true;
  struct build *b = calloc(1, sizeof *b);
  struct results r = { 0 };
  weft_array *in[PROGRAM_STEPS], *arg[PROGRAM_STEPS], *y[PROGRAM_OUTS], *result[PROGRAM_OUTS];
  int n_in = 0;
  bool is_skipped = false;
  weft_scope *scope = weft_scope_open();
  for (int i = 0; i < p->n; i++) if (is_input(&p->step[i])) arg[n_in++] = plain_array(&p->step[i].value, p->step[i].p[0]);
  n_in = 0;
  weft_scope *body = weft_scope_open();
  *b = (struct build){ .p = p, .touches = touches(p, 3) };
  for (int i = 0; i < p->n; i++) {
    if (!is_input(&p->step[i])) continue;
    struct form f = p->step[i].form;
    for (int k = 0; k < f.rank; k++) if (is_open && f.dims[k] != 1) f.dims[k] = WEFT_ANY;
    in[n_in++] = b->given[i] = weft_input(f.dtype, f.rank, f.dims);
  }
  bool ok = program_build(b);
  if (!ok && (is_open || is_excused(b->why))) is_skipped = true, used("excused");
  else if (!ok) found(p, out, "as a function, refused", b->why);
  int n = ok ? outs_of(b, y) : 0;
  weft_function *f = ok ? weft_compile(body, n_in, in, n, y) : NULL;
  for (int times = 0; ok && times < 2; times++) {
    weft_call(f, n_in, arg, n, result);
    if (is_open && weft_check(result[0])) { is_skipped = true, used("excused"); break; }
    ok = compute(p, out, is_open ? "as an open function" : "as a function", n, result, &r, &is_skipped) &&
         are_same(p, out, is_open ? "as an open function" : times ? "as a function, again" : "as a function", &t->plain, &r, !is_rounded);
    results_free(&r);
  }
  if (ok && !is_skipped) used(is_open ? "as an open function" : "as a function");
  results_free(&r);
  weft_scope_discard(scope);
  free(b);
  return ok || is_skipped;
}

/* ---- the steady state: a step that is repeated leaves nothing behind ---- */

enum { LAZILY, BY_CALL, BY_UPDATE, BY_ASYNC, BY_READ, STEADY_WAYS };

/* x/2 + something of every result, in the form of x. */
static weft_array *next_of(struct build *b, int x, weft_array *from) {
  weft_array *y[PROGRAM_OUTS], *s = weft_mul(from, weft_scalar(0.5));
  int n = outs_of(b, y);
  for (int k = 0; k < n; k++) s = weft_add(s, weft_cast(weft_sum(weft_cast(weft_real(y[k]), WEFT_F32), WEFT_ALL), b->p->step[x].form.dtype));
  return s;
}

static weft_array *one_step(const struct program *p, int x, weft_array *a) {
  struct build *b = calloc(1, sizeof *b);
  *b = (struct build){ .p = p };
  b->given[x] = a;
  weft_array *y = program_build(b) ? next_of(b, x, a) : NULL;
  free(b);
  return y;
}

static weft_function *function_of_step(const struct program *p, int x) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(p->step[x].form.dtype, p->step[x].form.rank, p->step[x].form.dims), *y = one_step(p, x, in);
  return y ? weft_compile(body, 1, &in, 1, &y) : NULL;
}

/* How many there are. What a thread of weft's has let go of, rules of one's own among it, ends in the next call of a user's. */
static int64_t nodes_now(void) {
  weft_scope_discard(weft_scope_open());
  return weft_get(WEFT_NODES);
}

static bool check_steady(const struct program *p, FILE *out, int how) {
  enum { STEPS = 20, BEGIN = 8 };
  int x = -1;
  for (int i = 0; i < p->n && x < 0; i++) if (is_input(&p->step[i]) && plain_is_float(p->step[i].form.dtype) && p->step[i].value.count) x = i;
  if (x < 0) return true;
  int64_t nodes = 0, bytes = 0;
  bool ok = true, is_skipped = false;
  weft_scope *outer = weft_scope_open();
  weft_array *a = weft_own(plain_array(&p->step[x].value, 0));
  weft_function *f = how == BY_CALL ? function_of_step(p, x) : NULL;
  is_skipped = how == BY_CALL && !f;
  for (int k = 0; ok && !is_skipped && k < STEPS; k++) {
    weft_scope *scope = weft_scope_open();
    weft_array *y = NULL;
    weft_status s = WEFT_OK;
    if (how == BY_CALL) weft_call(f, 1, &a, 1, &y);
    else y = one_step(p, x, a);
    if (!y) { is_skipped = true; break; }
    if (how == BY_UPDATE) weft_update(a, y), s = weft_scope_close(scope);
    else {
      weft_own(y);
      weft_scope_discard(scope);
      if (how == BY_READ) {
        struct plain v = read_array(y, &s);
        plain_free(&v);
      } else s = how == BY_ASYNC ? weft_eval_async(1, &y) : weft_eval(1, &y);
      if (!s && how == BY_ASYNC) s = weft_wait(1, &y, 20);
      weft_disown(a);
      a = y;
    }
    bool is_empty_now = s && strstr(weft_message(), "nothing to choose from"); /* a size that the values of this step tell */
    if (s && (s == WEFT_ERR_UNSUPPORTED || is_excused(weft_message()) || is_empty_now)) { is_skipped = true; break; }
    if (s) ok = found(p, out, "repeated", weft_message());
    if (k == BEGIN) nodes = nodes_now(), bytes = weft_get(WEFT_BYTES_USED);
  }
  for (int k = 0; how == BY_ASYNC && k < 1000 && (nodes_now() > nodes || weft_get(WEFT_BYTES_USED) > bytes); k++)
    usleep(5000); /* a job lets go a moment later */
  int64_t more = nodes_now() - nodes, larger = weft_get(WEFT_BYTES_USED) - bytes;
  if (ok && !is_skipped && (more > 0 || larger > 0)) {
    static const char *const names[] = { "repeated, by eval", "repeated, by a call", "repeated, by update", "repeated, asynchronously", "repeated, by read" };
    char text[100];
    snprintf(text, sizeof text, "%d steps later there are %lld nodes and %lld bytes more", STEPS - BEGIN - 1, (long long)more, (long long)larger);
    ok = found(p, out, names[how], text);
  }
  if (ok && !is_skipped) used("steady"), used(how == BY_ASYNC ? "async" : how == BY_UPDATE ? "updated" : "steady");
  weft_disown(a);
  weft_scope_discard(outer);
  return ok;
}

/* ---- arrays that change, and others that do not ---- */

static bool check_lives(struct program *p, FILE *out) {
  char why[300];
  bool is_skipped = false;
  if (program_lives(p, why, &is_skipped) || is_excused(why) || may_be_refused(p, weft_message())) return true;
  return found(p, out, "lives", why);
}

/* ---- all ---- */

/* WEFT_JIT=0: nothing but the vm, for tools that cannot follow machine code. */
static bool is_vm_only(void) {
  const char *jit = getenv("WEFT_JIT");
  return jit && !strcmp(jit, "0");
}
static void leave(void) { is_vm_only() ? way_take(&ways[1]) : way_leave(); }

static bool check_all(struct program *p, FILE *out, struct truth *t) {
  const struct way *first = &ways[is_vm_only()], *second = is_vm_only() ? &ways[2] : &ways[1 + p->seed % (uint64_t)(n_ways - 1)];
  if (!find_truth(p, out, t) || t->is_skipped) return t->is_skipped;
  if (!check_way(p, out, first, t, 0) || (!t->is_skipped && !check_way(p, out, second, t, touches(p, 0)))) return false;
  leave();
  if (t->is_skipped || t->is_refused) return true;
  if (p->is_smooth && !check_gradient(p, out, t)) return false;
  if (p->seed % 3 == 0 && !check_map(p, out)) return false;
  if (p->seed % 3 == 1 && !check_function(p, out, t, false)) return false;
  if (p->seed % 3 == 2 && !check_function(p, out, t, true)) return false;
  if (p->seed % 4 == 2) return check_lives(p, out);
  return p->seed % 4 || check_steady(p, out, (int)(p->seed / 4 % STEADY_WAYS));
}

bool program_check(struct program *p, FILE *out) {
  struct truth t = { .is_open = true };
  uint64_t state = p->state;
  leave();
  plain_off = 0;
  weft_set(WEFT_REWRITES, 0);
  eval_write_calls(INT64_MAX); /* whatever the machine does beside */
  bool ok = check_all(p, out, &t);
  results_free(&t.plain);
  p->state = state;
  leave();
  weft_set(WEFT_REWRITES, 1);
  if (ok && plain_off) plain_off = 0, ok = found(p, out, "beyond its bound", plain_off_text);
  if (ok && weft_wait(0, NULL, 30) == WEFT_ERR_TIMEOUT) ok = found(p, out, "afterwards", "what was begun on the way does not end");
  for (int k = 0; k < 1000 && nodes_now(); k++) usleep(5000); /* likewise */
  if (ok && nodes_now()) {
    char text[64];
    snprintf(text, sizeof text, "%lld nodes are left", (long long)nodes_now());
    ok = found(p, out, "afterwards", text);
  }
  return ok;
}
