/* program_lives.c -- what becomes of arrays over several rounds of a program: some are updated in place, given to calls and let go,
 * one array stands for several inputs, some come from files, results are held or dropped, also while they are computed, by this
 * thread or by several. Whatever happens to others, each that is held has the value that the plain evaluator gives it. */
#include "program_lives.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "every_graph.h"

enum { ROUNDS = 4, STATES = 8, HELD = 24, THREADS = 3, TARGETS = PROGRAM_OUTS + 2 };

struct kept { weft_array *a; struct plain v; const char *what; }; /* an owned array, and what it must be */

struct lives {
  struct program *p;
  int n_roles, role[STATES], state_of[STATES]; /* leaves of the program, and the state that stands for each */
  int n_states, n_held;
  struct kept state[STATES], held[HELD];
  int moving;                                  /* the state that changes; -1: none can */
  weft_function *function;                     /* of all states: the results, then the next value of the one that moves */
  char path[64], why[300];
  bool is_skipped;
};

static void let_go(struct kept *k) {
  weft_disown(k->a);
  plain_free(&k->v);
}

/* ---- the beginning ---- */

/* From a file that is read when somebody needs it. NULL: such files do not hold it. */
static weft_array *from_file(struct lives *l, const struct plain *x) {
  weft_array *a = weft_from(x->dtype, x->rank, x->dims, x->data);
  snprintf(l->path, sizeof l->path, "/tmp/weft-lives-%ld.safetensors", (long)getpid());
  if (weft_save(l->path, 1, (const char *[]){ "x" }, &a, NULL)) return NULL;
  a = weft_file_get(weft_file_open(l->path), NULL);
  unlink(l->path);
  if (weft_check(a)) return NULL;
  used("weft_file_get");
  return a;
}

static bool may_stand_for(const struct step *a, const struct step *b) {
  return same_form(&a->form, &b->form) && !a->is_index && !b->is_index;
}

static void begin(struct lives *l) {
  struct program *p = l->p;
  for (int i = 0; i < p->n && l->n_roles < STATES; i++) {
    const struct step *s = &p->step[i];
    if (s->row != &kind_leaf || s->block || s->is_dead) continue;
    int r = l->n_roles++, twin = -1;
    l->role[r] = i;
    for (int j = 0; j < r && twin < 0; j++) if (may_stand_for(s, &p->step[l->role[j]]) && once_in(p, 2)) twin = j;
    l->state_of[r] = twin < 0 ? l->n_states++ : l->state_of[twin];
    if (twin >= 0) { used("one array for two inputs"); continue; }
    weft_array *a = once_in(p, 4) ? from_file(l, &s->value) : NULL;
    struct kept *k = &l->state[l->n_states - 1];
    *k = (struct kept){ weft_own(a ? a : plain_array(&s->value, s->p[0])), plain_cast(&s->value, s->value.dtype), "a state" };
    if (l->moving < 0 && plain_is_float(s->form.dtype) && k->v.count) l->moving = l->n_states - 1;
  }
}

/* ---- comparing ---- */

static bool differs(struct lives *l, const struct kept *k, const char *when) {
  struct plain got = plain_new(k->v.dtype, k->v.rank, k->v.dims);
  weft_status s = weft_read(k->a, k->v.dtype, got.data, (size_t)got.count * weft_dtype_bytes(got.dtype));
  int64_t at = s ? -1 : plain_differs(&k->v, got.data);
  if (s) snprintf(l->why, sizeof l->why, "%s, %s: %.200s", k->what, when, weft_message());
  else if (at >= 0) snprintf(l->why, sizeof l->why, "%s, %s: element %lld of %lld is %s, not %s", k->what, when, (long long)at, (long long)got.count, plain_text(&got, at), plain_text(&k->v, at));
  plain_free(&got);
  return s || at >= 0;
}

static bool all_are_right(struct lives *l, const char *when, uint32_t one_in) {
  for (int i = 0; i < l->n_states; i++) if (once_in(l->p, one_in) && differs(l, &l->state[i], when)) return false;
  for (int i = 0; i < l->n_held; i++) if (once_in(l->p, one_in) && differs(l, &l->held[i], when)) return false;
  return true;
}

/* A result that is a state itself, and not an expression of it, changes with that. */
static void hold(struct lives *l, weft_array *a, const struct plain *v, const char *what) {
  for (int i = 0; i < l->n_states; i++) if (a == l->state[i].a) return;
  if (l->n_held == HELD) let_go(&l->held[--l->n_held]);
  l->held[l->n_held++] = (struct kept){ weft_own(a), plain_cast(v, v->dtype), what };
}

static void drop_some(struct lives *l) {
  for (int i = l->n_held - 1; i >= 0; i--) {
    if (!once_in(l->p, 3)) continue;
    let_go(&l->held[i]);
    l->held[i] = l->held[--l->n_held];
    used("dropped between rounds");
  }
}

/* ---- one round ---- */

/* What is computed in a round, and what it must be: results of the program, a view of the state, its next value. */
struct round { int n, view, next; weft_array *y[TARGETS]; struct plain v[TARGETS]; };

/* Whether somebody sees the patterns of numbers: a nan that arithmetic makes has any of many. */
static bool looks_at_bits(const struct program *p) {
  for (int i = 0; i < p->n; i++) {
    const char *name = p->step[i].row->name;
    if (!p->step[i].is_dead && (!strcmp(name, "weft_view") || !strcmp(name, "weft_to_f8"))) return true;
  }
  return false;
}

static weft_array *next_of(struct lives *l, const struct round *r, weft_array *from) {
  weft_array *s = weft_mul(from, weft_scalar(0.5));
  for (int k = 0; k < r->n; k++)
    s = weft_add(s, weft_cast(weft_sum(weft_cast(weft_real(r->y[k]), WEFT_F32), WEFT_ALL), l->state[l->moving].v.dtype));
  return looks_at_bits(l->p) ? weft_where(weft_isnan(s), weft_scalar(0.5), s) : s;
}

static weft_array *view_of(struct lives *l, weft_array *x) {
  int rank = weft_rank(x), axis = (int)any(l->p, (uint32_t)rank);
  if (!rank) return weft_alias(x);
  switch (any(l->p, 4)) {
    case 0: return weft_flip(x, axis);
    case 1: return weft_slice(x, axis, 0, WEFT_END, 2);
    case 2: return weft_moveaxis(x, axis, 0);
    default: return weft_reshape(x, WEFT_DIMS(WEFT_ANY));
  }
}

/* The program on these arrays, by state. */
static bool write_round(struct lives *l, weft_array *const state[], struct round *r) {
  struct build *b = calloc(1, sizeof *b);
  *b = (struct build){ .p = l->p };
  for (int i = 0; i < l->n_roles; i++) b->given[l->role[i]] = state[l->state_of[i]];
  bool ok = program_build(b);
  r->n = l->p->blocks[0].n_outs, r->view = r->next = -1;
  for (int k = 0; ok && k < r->n; k++) r->y[k] = b->at[l->p->blocks[0].out[k]][0];
  int n = r->n;
  if (ok && l->moving >= 0) {
    weft_array *from = state[l->moving], *next = next_of(l, r, from);
    r->y[r->next = n++] = next, r->y[r->view = n++] = view_of(l, from);
  }
  r->n = n;
  free(b);
  return ok;
}

static bool find_truth(struct lives *l, struct round *r) {
  struct plain_given given[STATES];
  for (int i = 0; i < l->n_states; i++) given[i] = (struct plain_given){ l->state[i].a, &l->state[i].v };
  if (weft_wait(0, NULL, 30)) return false; /* the plain evaluator looks at nodes, which no job may change meanwhile */
  for (int k = 0; k < r->n; k++) if (weft_check(r->y[k])) return false;
  return plain_graph(r->n, r->y, l->n_states, given, r->v);
}

static void become(struct lives *l, weft_array *a, const struct plain *v) {
  let_go(&l->state[l->moving]);
  l->state[l->moving] = (struct kept){ a, plain_cast(v, v->dtype), "a state" };
}

static void hold_some(struct lives *l, const struct round *r) {
  for (int k = 0; k < r->n; k++) {
    if (k == r->next || once_in(l->p, 2)) continue;
    hold(l, r->y[k], &r->v[k], k == r->view ? "a view of a state" : "a result");
    used(k == r->view ? "view of a state held" : "result held");
  }
}

/* The state is overwritten when the scope ends; what is held of it and of the results is as before. */
static weft_status by_update(struct lives *l, struct round *r, weft_scope *scope) {
  bool is_async = once_in(l->p, 2);
  hold_some(l, r);
  weft_update(l->state[l->moving].a, r->y[r->next]);
  weft_status s = is_async ? weft_scope_close_async(scope) : weft_scope_close(scope);
  if (!s && once_in(l->p, 2)) drop_some(l);
  if (!s && is_async && once_in(l->p, 2)) s = weft_wait(0, NULL, 30);
  plain_free(&l->state[l->moving].v);
  l->state[l->moving].v = plain_cast(&r->v[r->next], r->v[r->next].dtype);
  used("weft_update"), used(is_async ? "updated in the background" : "updated in place");
  return s;
}

/* The old state is let go before the new one is computed, or while that goes on. */
static weft_status by_eval(struct lives *l, struct round *r, weft_scope *scope) {
  weft_array *next = weft_own(r->y[r->next]), *some[TARGETS] = { next };
  int n = 1, how = (int)any(l->p, 3);
  hold_some(l, r);
  for (int i = 0; i < l->n_held && n < TARGETS; i++) if (once_in(l->p, 2)) some[n++] = l->held[i].a;
  weft_scope_discard(scope);
  bool is_early = n == 1 && once_in(l->p, 2);
  if (is_early) become(l, next, &r->v[r->next]), used("state let go before it is read");
  weft_status s = how ? weft_eval_async(n, some) : weft_eval(n, some);
  if (!s && how == 1) s = weft_wait(n, some, 30);
  if (!is_early) become(l, next, &r->v[r->next]);
  if (!s && how == 2) drop_some(l), used("dropped while computed");
  return s;
}

static weft_function *function_of(struct lives *l) {
  weft_array *in[STATES];
  struct round r;
  weft_scope *body = weft_scope_open();
  for (int i = 0; i < l->n_states; i++) in[i] = weft_input(l->state[i].v.dtype, l->state[i].v.rank, l->state[i].v.dims);
  if (!write_round(l, in, &r)) return weft_scope_discard(body), NULL;
  return weft_compile(body, l->n_states, in, r.view, r.y); /* results, and behind them the next value */
}

/* By a function; nobody but the call has the old state. */
static weft_status by_call(struct lives *l, struct round *r, weft_scope *scope) {
  weft_array *arg[STATES], *y[TARGETS];
  int n = r->view;
  for (int i = 0; i < l->n_states; i++) arg[i] = l->state[i].a;
  weft_call(l->function, l->n_states, arg, n, y);
  for (int k = 0; k < n; k++) weft_own(y[k]);
  for (int k = 0; k < n; k++) if (k != r->next && once_in(l->p, 2)) hold(l, y[k], &r->v[k], "a result of a call");
  weft_scope_discard(scope);
  become(l, y[r->next], &r->v[r->next]);
  weft_status s = once_in(l->p, 2) ? weft_eval_async(1, &y[r->next]) : weft_eval(n, y);
  for (int k = 0; k < n; k++) if (k != r->next) weft_disown(y[k]);
  used("state given to a call");
  return s;
}

struct guest { int n, how; weft_array *const *y; weft_status status; char why[200]; };

static void *evaluate(void *arg) {
  struct guest *g = arg;
  for (int k = 0; k < g->n && !g->status; k++) {
    weft_array *y = g->y[g->how ? g->n - 1 - k : k];
    g->status = g->how == 1 ? weft_eval(1, &y) : weft_eval_async(1, &y);
  }
  if (!g->status) g->status = weft_wait(0, NULL, 30);
  if (g->status) snprintf(g->why, sizeof g->why, "thread %d of several: %.150s", g->how, weft_message());
  return NULL;
}

/* The same arrays, by several threads at once, each in its own order. */
static weft_status by_threads(struct lives *l, struct round *r, weft_scope *scope) {
  pthread_t t[THREADS];
  struct guest g[THREADS];
  weft_status s = WEFT_OK;
  for (int i = 0; i < THREADS; i++) g[i] = (struct guest){ .n = r->n, .how = i, .y = r->y };
  for (int k = 0; k < r->n; k++) if (k != r->next) hold(l, r->y[k], &r->v[k], "a result of several threads");
  for (int i = 0; i < THREADS; i++) if (pthread_create(&t[i], NULL, evaluate, &g[i])) abort();
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL), s = s ? s : g[i].status;
  for (int i = 0; i < THREADS && !l->why[0]; i++) memcpy(l->why, g[i].why, sizeof g[i].why);
  if (r->next >= 0) become(l, weft_own(r->y[r->next]), &r->v[r->next]);
  weft_scope_discard(scope);
  used("evaluated by several threads");
  return s;
}

/* false: a finding. */
static bool play(struct lives *l) {
  typedef weft_status way(struct lives *, struct round *, weft_scope *);
  static way *const ways[] = { by_update, by_eval, by_call, by_threads };
  weft_array *state[STATES];
  struct round r = { 0 };
  weft_scope *scope = weft_scope_open();
  for (int i = 0; i < l->n_states; i++) state[i] = l->state[i].a;
  int how = l->moving >= 0 ? (int)any(l->p, 4) : 3;
  if (how == 2 && !l->function) how = 1;
  if (!write_round(l, state, &r) || !find_truth(l, &r)) return weft_scope_discard(scope), l->is_skipped = true;
  weft_status s = ways[how](l, &r, scope);
  if (s && !l->why[0]) snprintf(l->why, sizeof l->why, "%.250s", weft_message());
  for (int k = 0; k < r.n; k++) plain_free(&r.v[k]);
  if (!s) drop_some(l);
  return !s && all_are_right(l, "between rounds", 3);
}

bool program_lives(struct program *p, char why[300], bool *is_skipped) {
  struct lives *l = calloc(1, sizeof *l);
  *l = (struct lives){ .p = p, .moving = -1 };
  weft_scope *outer = weft_scope_open();
  begin(l);
  if (l->moving >= 0 && once_in(p, 2)) l->function = function_of(l);
  bool ok = true;
  for (int k = 0; ok && !l->is_skipped && k < ROUNDS; k++) ok = play(l);
  if (ok && !l->is_skipped) ok = all_are_right(l, "at the end", 1), used("lives");
  if (!ok) memcpy(why, l->why, sizeof l->why);
  *is_skipped = l->is_skipped;
  if (weft_wait(0, NULL, 30)) l->is_skipped = true; /* what it says was looked at above */
  for (int i = 0; i < l->n_states; i++) let_go(&l->state[i]);
  for (int i = 0; i < l->n_held; i++) let_go(&l->held[i]);
  weft_scope_discard(outer);
  free(l);
  return ok;
}
