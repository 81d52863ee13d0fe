/* recipe_forms.c -- a random program as a function, as updates of its leaves, mapped over rows, and as a checkpoint: the same
 * values. */
#include "recipe_steps.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "run/plan.h"

static bool reads_as(weft_array *a, const struct plain *want, const char *what, int step) {
  struct plain got = plain_new(want->dtype, want->rank, want->dims);
  bool ok = !weft_read(a, want->dtype, got.data, (size_t)want->count * weft_dtype_bytes(want->dtype));
  if (!ok) printf("%s: step %d: %s\n", what, step, weft_message());
  int64_t at = ok ? plain_differs(want, got.data) : -1;
  if (at >= 0)
    printf("%s: step %d: element %lld of %lld is %s, not %s\n", what, step, (long long)at, (long long)want->count, plain_text(&got, at), plain_text(want, at));
  plain_free(&got);
  return ok && at < 0;
}

static weft_array *dense_leaf(const struct plain *x) { return weft_from(x->dtype, x->rank, x->dims, x->data); }

static bool as_function(struct recipe *p, int n, const int target[]) {
  weft_scope *scope = weft_scope_open();
  weft_array *given[RECIPE_STEPS], *input[RECIPE_STEPS] = { 0 }, *in[RECIPE_STEPS], *all[RECIPE_STEPS], *out[4], *result[4];
  int n_in = 0;
  for (int i = 0; i < p->n; i++) if (p->step[i].kind == LEAF) given[n_in++] = recipe_leaf(&p->step[i]);
  weft_set(WEFT_REWRITES, 0);
  weft_scope *body = weft_scope_open();
  n_in = 0;
  for (int i = 0; i < p->n; i++) if (p->step[i].kind == LEAF) in[n_in++] = input[i] = weft_input(value(p, i)->dtype, value(p, i)->rank, value(p, i)->dims);
  bool ok = recipe_build_on(p, input, all);
  for (int k = 0; ok && k < n; k++) out[k] = all[target[k]];
  weft_function *f = weft_compile(body, n_in, in, ok ? n : 0, out);
  for (int times = 0; ok && times < 2; times++) { /* planned, and found again */
    weft_call(f, n_in, given, n, result);
    for (int k = 0; ok && k < n; k++) ok = reads_as(result[k], value(p, target[k]), "as a function", target[k]);
  }
  weft_set(WEFT_REWRITES, 1);
  weft_scope_discard(scope);
  return ok;
}

/* With some sizes left open: whatever can be said about such arrays has the same values. How many steps could be said. */
static int build_open(struct recipe *p, weft_array *const leaf[], weft_array *out[]) {
  for (int i = 0; i < p->n; i++) {
    const struct recipe_step *s = &p->step[i];
    weft_array *in[4];
    for (int k = 0; k < s->n_in; k++) in[k] = out[s->in[k]];
    out[i] = leaf[i] ? leaf[i] : recipe_element(s, in);
    if (weft_check(out[i])) return i;
  }
  return p->n;
}

/* A size that is 1 but not known to be stretches nothing: weft takes it to be equal to the other one, and tells. Nor are
 * bounds of slices cut where the size is unknown. */
static bool is_excused(weft_status s) {
  bool is_told = strstr(weft_message(), "taken to be equal") || strstr(weft_message(), "weft_slice: the bounds do not fit");
  return s == WEFT_ERR_UNSUPPORTED || (s == WEFT_ERR_SHAPE && is_told);
}

static bool as_open_function(struct recipe *p) {
  weft_scope *scope = weft_scope_open();
  weft_array *given[RECIPE_STEPS], *input[RECIPE_STEPS] = { 0 }, *in[RECIPE_STEPS], *all[RECIPE_STEPS], *result;
  int n_in = 0;
  weft_set(WEFT_REWRITES, 0);
  for (int i = 0; i < p->n; i++) if (p->step[i].kind == LEAF) given[n_in++] = recipe_leaf(&p->step[i]);
  weft_scope *body = weft_scope_open();
  n_in = 0;
  for (int i = 0; i < p->n; i++) {
    if (p->step[i].kind != LEAF) continue;
    int64_t dims[PLAIN_RANK];
    for (int k = 0; k < value(p, i)->rank; k++) dims[k] = n_in == 0 && recipe_any(p, 2) ? WEFT_ANY : value(p, i)->dims[k];
    in[n_in++] = input[i] = weft_input(value(p, i)->dtype, value(p, i)->rank, dims);
  }
  int n = build_open(p, input, all), last = n - 1;
  while (last > 0 && recipe_is_weak(p, last)) last--;
  weft_function *f = weft_compile(body, n_in, in, n > 0 ? 1 : 0, &all[last > 0 ? last : 0]);
  weft_call(f, n_in, given, 1, &result);
  weft_status status = weft_eval(1, &result);
  bool ok = is_excused(status) || reads_as(result, value(p, last), "with open sizes", last);
  weft_set(WEFT_REWRITES, 1);
  weft_scope_discard(scope);
  return ok;
}

static bool same_form(const struct plain *a, const struct plain *b) {
  bool same = a->rank == b->rank && a->dtype == b->dtype;
  for (int k = 0; same && k < a->rank; k++) same = a->dims[k] == b->dims[k];
  return same;
}

/* Some of its later steps of the same form, mostly the last; itself if there is none. */
static int what_becomes(struct recipe *chance, struct recipe *p, int i) {
  int found = i;
  for (int j = i + 1; j < p->n; j++)
    if (!recipe_is_weak(p, j) && same_form(value(p, i), value(p, j)) && (found == i || !recipe_once_in(chance, 4))) found = j;
  return found;
}

/* Leaves become other steps of their form, all at once: what is read and written must not get into each other's way. */
static bool updated(struct recipe *p) {
  struct recipe chance = { .state = p->state };
  weft_scope *scope = weft_scope_open();
  weft_array *given[RECIPE_STEPS] = { 0 }, *all[RECIPE_STEPS];
  int becomes[RECIPE_STEPS], last = p->n - 1;
  for (int i = 0; i < p->n; i++) if (p->step[i].kind == LEAF) given[i] = dense_leaf(value(p, i));
  weft_scope *step = weft_scope_open();
  bool ok = recipe_build_on(p, given, all);
  for (int i = 0; ok && i < p->n; i++) {
    becomes[i] = i;
    if (!given[i]) continue;
    becomes[i] = what_becomes(&chance, p, i);
    if (becomes[i] != i) weft_update(given[i], all[becomes[i]]);
  }
  struct plain seen = plain_new(value(p, last)->dtype, value(p, last)->rank, value(p, last)->dims);
  bool fetches = ok && !recipe_is_weak(p, last) && !given[last];
  if (fetches) weft_fetch(all[last], seen.dtype, seen.data, (size_t)seen.count * weft_dtype_bytes(seen.dtype));
  if (ok && weft_scope_close(step)) ok = false, printf("as updates: %s\n", weft_message());
  if (ok && fetches && plain_differs(value(p, last), seen.data) >= 0) ok = false, printf("as updates: what was fetched is wrong\n");
  for (int i = 0; ok && i < p->n; i++) if (given[i]) ok = reads_as(given[i], value(p, becomes[i]), "as updates", i);
  plain_free(&seen);
  weft_scope_discard(scope);
  return ok;
}

/* As a binding does it: everything is owned until it has been used, so that leaves may die with the evaluation. */
static bool owned(struct recipe *p, int n, const int target[]) {
  weft_array *given[RECIPE_STEPS] = { 0 }, *all[RECIPE_STEPS] = { 0 }, *asked[4];
  struct recipe chance = { .state = p->state };
  weft_scope *scope = weft_scope_open();
  for (int i = 0; i < p->n; i++) if (p->step[i].kind == LEAF) given[i] = dense_leaf(value(p, i));
  bool ok = recipe_build_on(p, given, all), keeps[RECIPE_STEPS];
  for (int i = 0; ok && i < p->n; i++) keeps[i] = recipe_once_in(&chance, 8);
  for (int k = 0; ok && k < n; k++) keeps[target[k]] = true, asked[k] = all[target[k]];
  for (int i = 0; ok && i < p->n; i++) if (keeps[i]) weft_own(all[i]);
  weft_scope_discard(scope);
  if (ok && weft_eval(n, asked)) ok = false, printf("owned: %s\n", weft_message());
  scope = weft_scope_open();
  for (int i = 0; ok && i < p->n; i++) if (keeps[i] && !recipe_is_weak(p, i)) ok = reads_as(all[i], value(p, i), "owned", i);
  weft_scope_discard(scope);
  for (int i = 0; ok && i < p->n; i++) if (keeps[i]) weft_disown(all[i]);
  return ok;
}

/* Whatever dies is overwritten, or nothing is. */
static bool as_updates(struct recipe *p, int n, const int target[]) {
  int64_t least = gift_least();
  bool ok = true;
  for (int k = 0; ok && k < 2; k++) {
    plan_drop_all();
    gift_set_least(k ? INT64_MAX : 0);
    ok = updated(p) && owned(p, n, target);
    if (!ok) printf("%s\n", k ? "nothing is overwritten" : "what dies is overwritten");
  }
  gift_set_least(least);
  plan_drop_all();
  return ok;
}

/* Row r of a mapped leaf: its elements, turned round by r. */
static struct plain row_of(const struct plain *x, int r) {
  struct plain y = plain_new(x->dtype, x->rank, x->dims);
  for (int64_t i = 0; i < x->count; i++) memcpy(y.data + i * (int64_t)weft_dtype_bytes(x->dtype), x->data + (i + 7 * r) % x->count * (int64_t)weft_dtype_bytes(x->dtype), weft_dtype_bytes(x->dtype));
  return y;
}

static weft_array *rows_of(const struct plain *x) {
  int64_t dims[PLAIN_RANK + 1] = { RECIPE_ROWS };
  for (int k = 0; k < x->rank; k++) dims[k + 1] = x->dims[k];
  size_t bytes = (size_t)x->count * weft_dtype_bytes(x->dtype);
  uint8_t *data = malloc(RECIPE_ROWS * bytes + 1);
  for (int r = 0; r < RECIPE_ROWS; r++) {
    struct plain y = row_of(x, r);
    memcpy(data + (size_t)r * bytes, y.data, bytes);
    plain_free(&y);
  }
  weft_array *a = weft_from(x->dtype, x->rank + 1, dims, data);
  free(data);
  return a;
}

/* The results for row r alone. */
static bool by_row(struct recipe *p, const bool is_mapped[], int r, int n, const int target[], struct plain out[]) {
  weft_scope *scope = weft_scope_open();
  weft_array *given[RECIPE_STEPS] = { 0 }, *all[RECIPE_STEPS];
  for (int i = 0; i < p->n; i++) {
    if (!is_mapped[i]) continue;
    struct plain y = row_of(value(p, i), r);
    given[i] = dense_leaf(&y);
    plain_free(&y);
  }
  bool ok = recipe_build_on(p, given, all);
  for (int k = 0; ok && k < n; k++) {
    const struct plain *v = value(p, target[k]);
    out[k] = plain_new(v->dtype, v->rank, v->dims);
    ok = !weft_read(all[target[k]], v->dtype, out[k].data, (size_t)v->count * weft_dtype_bytes(v->dtype));
    if (!ok) printf("a row alone: %s\n", weft_message());
  }
  weft_scope_discard(scope);
  return ok;
}

/* Leaves of which there are several rows, and these; how many. */
static int rows_given(struct recipe *p, const bool is_mapped[], weft_array *x[], weft_array *xs[], weft_array *given[]) {
  int m = 0;
  for (int i = 0; i < p->n; i++) {
    given[i] = NULL;
    if (is_mapped[i]) x[m] = given[i] = dense_leaf(value(p, i)), xs[m++] = rows_of(value(p, i));
  }
  return m;
}

static bool mapped(struct recipe *p, const bool is_mapped[], int n, const int target[], weft_array *ys[]) {
  weft_array *given[RECIPE_STEPS], *all[RECIPE_STEPS], *x[RECIPE_STEPS], *xs[RECIPE_STEPS], *y[4];
  int m = rows_given(p, is_mapped, x, xs, given);
  if (!recipe_build_on(p, given, all)) return false;
  for (int k = 0; k < n; k++) y[k] = all[target[k]];
  weft_map(m, x, xs, n, y, ys);
  return true;
}

/* A step for every row; what is not of the rows comes from outside. */
static bool looped(struct recipe *p, const bool is_mapped[], int n, const int target[], weft_array *ys[]) {
  weft_array *given[RECIPE_STEPS], *all[RECIPE_STEPS], *x[RECIPE_STEPS], *xs[RECIPE_STEPS];
  rows_given(p, is_mapped, x, xs, given);
  weft_loop *l = weft_loop_open(NULL);
  for (int i = 0, m = 0; i < p->n; i++) if (given[i]) given[i] = weft_loop_each(l, xs[m++]);
  bool ok = recipe_build_on(p, given, all);
  for (int k = 0; ok && k < n; k++) ys[k] = weft_loop_all(l, all[target[k]]);
  weft_loop_close(l);
  return ok;
}

/* Mapped over rows and as a loop over them: what each row gives alone. */
static bool as_rows(struct recipe *p, int n, const int target[]) {
  bool is_mapped[RECIPE_STEPS] = { false }, any_mapped = false, ok = true;
  struct plain want[RECIPE_ROWS][4] = { 0 };
  for (int i = 0; i < p->n; i++)
    any_mapped |= is_mapped[i] = p->step[i].kind == LEAF && !p->step[i].is_index && p->step[i].value.count && recipe_once_in(p, 2);
  for (int r = 0; ok && r < RECIPE_ROWS; r++) ok = by_row(p, is_mapped, r, n, target, want[r]);
  for (int how = 0; ok && any_mapped && how < 2; how++) {
    weft_scope *scope = weft_scope_open();
    weft_array *ys[4];
    ok = how ? looped(p, is_mapped, n, target, ys) : mapped(p, is_mapped, n, target, ys);
    if (ok && weft_eval(n, ys) == WEFT_ERR_UNSUPPORTED) { weft_scope_discard(scope); continue; }
    for (int k = 0; ok && k < n; k++)
      for (int r = 0; ok && r < RECIPE_ROWS; r++) ok = reads_as(weft_at(ys[k], 0, weft_integer(r)), &want[r][k], how ? "in a loop" : "mapped", target[k]);
    if (!ok) printf("%s", weft_show(n, ys, "graph"));
    weft_scope_discard(scope);
  }
  for (int r = 0; r < RECIPE_ROWS; r++)
    for (int k = 0; k < 4; k++) plain_free(&want[r][k]);
  return ok;
}

/* Behind a checkpoint and rules that say nothing: the same values. */
static bool as_checkpoint(struct recipe *p, int n, const int target[]) {
  weft_scope *scope = weft_scope_open();
  weft_array *given[RECIPE_STEPS] = { 0 }, *all[RECIPE_STEPS], *in[RECIPE_STEPS], *y[4];
  int n_in = 0;
  for (int i = 0; i < p->n; i++) if (p->step[i].kind == LEAF) in[n_in++] = given[i] = recipe_leaf(&p->step[i]);
  bool ok = recipe_build_on(p, given, all);
  for (int k = 0; ok && k < n; k++) y[k] = weft_alias(all[target[k]]);
  if (ok) weft_checkpoint(n_in, in, n, y), weft_custom(n_in, in, n, y, &(weft_rules){ 0 });
  for (int k = 0; ok && k < n; k++) ok = reads_as(y[k], value(p, target[k]), "behind a checkpoint", target[k]);
  weft_scope_discard(scope);
  return ok;
}

bool recipe_check_forms(uint64_t seed) {
  struct recipe *p = recipe_new(seed);
  int target[4], n = recipe_targets(p, target);
  bool ok = true;
  for (int k = 0; ok && k < 2; k++) { /* fused, x86 and vm */
    way_take(&ways[k]);
    ok = as_function(p, n, target) && as_open_function(p) && as_updates(p, n, target) && as_rows(p, n, target) &&
         as_checkpoint(p, n, target);
    if (!ok) printf("%s\n", ways[k].name);
  }
  way_leave();
  recipe_free(p);
  return ok;
}
