/* recipe_check.c -- evaluates random programs in all ways, and compares values with those in plain C, gradients with each
 * other. */
#include "recipe_steps.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int recipe_targets(struct recipe *p, int target[4]) { /* the last, and perhaps some others */
  int n = 0;
  struct recipe chance = { .state = p->state };
  target[n++] = p->n - 1;
  for (int k = 0; k < 3; k++) {
    int i = (int)recipe_any(&chance, (uint32_t)p->n);
    if (recipe_once_in(&chance, 2) && !recipe_is_weak(p, i)) target[n++] = i;
  }
  if (recipe_is_weak(p, target[0])) target[0] = 0;
  return n;
}

static bool is_any_of(const char *op, const char *const names[]) {
  for (int k = 0; names[k]; k++) if (!strcmp(op, names[k])) return true;
  return false;
}

/* Its result depends on the order in which floats are combined. */
static bool has_order(const struct recipe_step *s) {
  static const char *const ops[] = { "sum", "prod", "logsumexp", "mean", "softmax", "cumsum", "cumprod", "matmul", NULL };
  bool combines = s->kind == PUT_TAKE && (s->p[0] == WEFT_ADD || s->p[0] == WEFT_MUL);
  return has_fractions(s->value.dtype) && (combines || is_any_of(s->op, ops));
}

/* Which steps depend on no order. */
static void find_free(const struct recipe *p, bool free_of_order[]) {
  for (int i = 0; i < p->n; i++) {
    free_of_order[i] = !has_order(&p->step[i]);
    for (int k = 0; k < p->step[i].n_in; k++) free_of_order[i] &= free_of_order[p->step[i].in[k]];
  }
}

/* Values of some steps, the way taken. false: it failed, or they are others (those compared: NULL for all); said if loud. */
static bool right(struct recipe *p, const struct way *w, int n, const int target[], const bool compared[], bool is_loud) {
  weft_scope *scope = weft_scope_open();
  weft_array *all[RECIPE_STEPS], *want[4];
  bool ok = recipe_build(p, all);
  for (int k = 0; ok && k < n; k++) want[k] = all[target[k]];
  const char *kernels = ok && is_loud ? weft_show(n, want, "kernels") : "", *graph = ok && is_loud ? weft_show(n, want, "graph") : "";
  if (ok && weft_eval(n, want)) {
    if (is_loud) printf("%s: %s\n", w->name, weft_message());
    ok = false;
  }
  for (int k = 0; ok && k < n; k++) {
    struct plain *v = value(p, target[k]), got = plain_new(v->dtype, v->rank, v->dims);
    if (weft_read(want[k], v->dtype, got.data, (size_t)v->count * weft_dtype_bytes(v->dtype))) {
      if (is_loud) printf("%s: reading step %d: %s\n", w->name, target[k], weft_message());
      ok = false;
    } else {
      int64_t at = compared && !compared[target[k]] ? -1 : plain_differs(v, got.data);
      ok = at < 0;
      if (!ok && is_loud)
        printf("%s: step %d, %s: element %lld of %lld is %s, not %s\n", w->name, target[k], p->step[target[k]].op, (long long)at,
               (long long)v->count, plain_text(&got, at), plain_text(v, at));
    }
    plain_free(&got);
  }
  if (!ok && is_loud) printf("%s%s", graph, kernels);
  weft_scope_discard(scope);
  return ok;
}

/* The first step that is wrong by itself, if there is one, is the shorter story. */
static void blame(struct recipe *p, const struct way *w, int n, const int target[], const bool compared[]) {
  for (int i = 0; i < p->n; i++) {
    if (recipe_is_weak(p, i) || right(p, w, 1, &i, compared, false)) continue;
    right(p, w, 1, &i, compared, true);
    return;
  }
  right(p, w, n, target, compared, true);
}

bool recipe_check(uint64_t seed) {
  struct recipe *p = recipe_new(seed);
  int target[4], n = recipe_targets(p, target);
  bool ok = true;
  for (int k = 0; ok && k < n_ways; k++) {
    way_take(&ways[k]);
    ok = right(p, &ways[k], n, target, NULL, false);
    if (!ok) blame(p, &ways[k], n, target, NULL);
  }
  way_leave();
  recipe_free(p);
  return ok;
}

bool recipe_check_way(uint64_t seed, const struct way *w, bool any_order) {
  struct recipe *p = recipe_new(seed);
  bool compared[RECIPE_STEPS];
  int target[4], n = recipe_targets(p, target);
  find_free(p, compared);
  way_take(w);
  bool ok = right(p, w, n, target, any_order ? compared : NULL, false);
  if (!ok) blame(p, w, n, target, any_order ? compared : NULL);
  way_leave();
  recipe_free(p);
  return ok;
}

/* The gradient of the sum of a float step by all float leaves, and its tangent along them; how many there are. */
static int gradients(struct recipe *p, weft_array *const all[], weft_array *dx[]) {
  int n = 0, y = -1;
  weft_array *x[RECIPE_STEPS];
  for (int i = p->n - 1; i >= 0 && y < 0; i--)
    if (!recipe_is_weak(p, i) && has_fractions(value(p, i)->dtype) && p->step[i].kind != LEAF) y = i;
  for (int i = 0; i < p->n && n < 7; i++)
    if (p->step[i].kind == LEAF && has_fractions(value(p, i)->dtype)) x[n++] = all[i];
  if (y < 0 || !n) return 0;
  weft_grad(all[y], n, x, dx);
  weft_jvp(n, x, x, 1, &all[y], &dx[n]);
  return n + 1;
}

bool recipe_check_gradient(uint64_t seed) {
  struct recipe *p = recipe_new(seed);
  struct plain first[8] = { 0 };
  int n = 0;
  bool ok = true;
  for (int k = 0; ok && k < n_ways; k++) {
    way_take(&ways[k]);
    weft_scope *scope = weft_scope_open();
    weft_array *all[RECIPE_STEPS], *dx[8];
    ok = recipe_build(p, all);
    n = ok ? gradients(p, all, dx) : 0;
    weft_status s = n ? weft_eval(n, dx) : WEFT_OK;
    if (s == WEFT_ERR_UNSUPPORTED) { weft_scope_discard(scope); break; }
    if (s) ok = false, printf("gradient, %s: %s\n", ways[k].name, weft_message());
    for (int j = 0; ok && j < n; j++) {
      int64_t dims[PLAIN_RANK];
      for (int d = 0; d < weft_rank(dx[j]); d++) dims[d] = weft_dim(dx[j], d);
      struct plain got = plain_new(weft_dtype_of(dx[j]), weft_rank(dx[j]), dims);
      ok = weft_read(dx[j], got.dtype, got.data, (size_t)got.count * weft_dtype_bytes(got.dtype)) == WEFT_OK;
      if (!ok) printf("gradient, %s: %s\n", ways[k].name, weft_message());
      int64_t at = ok && k ? plain_differs(&first[j], got.data) : -1;
      if (at >= 0) {
        printf("gradient, %s: element %lld by leaf %d is %s, in the first way %s\n", ways[k].name, (long long)at, j, plain_text(&got, at), plain_text(&first[j], at));
        ok = false;
      }
      if (k || !ok) plain_free(&got);
      else first[j] = got;
    }
    if (!ok) printf("%s%s", weft_show(n, dx, "graph"), k ? weft_show(n, dx, "kernels") : "");
    weft_scope_discard(scope);
  }
  for (int j = 0; j < 8; j++) plain_free(&first[j]);
  way_leave();
  recipe_free(p);
  return ok;
}
