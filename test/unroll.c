/* unroll.c -- loops written out, step by step, as graphs without loops: what a loop means, to compare with. */
#include <stdlib.h>
#include "graph/scope.h"
#include "op/loop.h"
#include "values.h"

enum { MOST = 256 };

static weft_array *handle(struct node *n) { return array_of(node_retain(n)); }

static struct node *first_loop(struct node *target) {
  struct node_list l = { 0 };
  struct node *found = NULL;
  graph_lock();
  walk(&l, 1, &target, NULL);
  graph_unlock();
  for (int i = 0; !found && i < l.n; i++)
    if (l.node[i]->op == &op_loop) found = l.node[i];
  node_list_free(&l);
  return found;
}

static int items_of(struct node *loop, struct node *target, struct node *item[]) {
  struct node_list l = { 0 };
  int n = 0;
  graph_lock();
  walk(&l, 1, &target, NULL);
  graph_unlock();
  for (int i = 0; i < l.n && n < MOST; i++)
    if (l.node[i]->op == &op_item && l.node[i]->in[0] == loop) item[n++] = l.node[i];
  node_list_free(&l);
  return n;
}

static weft_array *row(weft_array *xs, int64_t t) { return weft_squeeze(weft_slice(xs, 0, t, t + 1, 1), 0); }

struct state { weft_array *seq[MOST], *carry[MOST], *(*all)[MOST]; int n_rows; };

/* One step; returns whether it was the last. */
static bool step(const struct loop *l, struct node *n, int64_t t, struct state *s) {
  struct node *var[MOST], *value[MOST], *body[MOST], *out[MOST];
  int n_var = 0, n_body = 0;
  for (int k = 0; k < l->n_seq; k++) var[n_var] = l->seq_var[k], value[n_var++] = row(s->seq[k], t)->node;
  for (int k = 0; k < l->n_carry; k++) var[n_var] = l->carry_var[k], value[n_var++] = s->carry[k]->node;
  for (int k = 0; k < l->n_const; k++) var[n_var] = l->const_var[k], value[n_var++] = n->in[loop_in_const(l, k)];
  for (int k = 0; k < l->n_carry; k++) body[n_body++] = l->next[k];
  for (int k = 0; k < l->n_all; k++) body[n_body++] = l->all[k];
  if (l->until) body[n_body++] = l->until;
  struct failure *why = NULL;
  if (!graph_substitute(n_var, var, value, n_body, body, out, &why)) {
    test_fail(__FILE__, __LINE__, "%s", failure_message(why));
    failure_release(why);
    return true;
  }
  for (int k = 0; k < l->n_carry; k++) s->carry[k] = array_of(out[k]);
  for (int k = 0; k < l->n_all; k++) s->all[k][s->n_rows] = weft_unsqueeze(array_of(out[l->n_carry + k]), 0);
  s->n_rows++;
  if (!l->until) return false;
  uint8_t stop = 0;
  EXPECT_OK(weft_read(unrolled(array_of(out[n_body - 1])), WEFT_BOOL, &stop, 1));
  return stop;
}

static int64_t steps_of(const struct loop *l, struct node *n) {
  int64_t steps = l->steps;
  if (!dim_is_known(l->steps) && l->has_steps)
    EXPECT_OK(weft_read(weft_cast(unrolled(handle(n->in[0])), WEFT_I64), WEFT_I64, &steps, sizeof steps));
  return steps;
}

/* A sequence cut to a number of steps that has become known. */
static weft_array *sequence(const struct loop *l, struct node *xs, int64_t n) {
  struct node *out = NULL;
  struct failure *why = NULL;
  if (dim_is_known(l->steps)) return handle(xs);
  if (graph_specialise(false, 0, NULL, NULL, 1, &l->steps, &(dim){ n }, 1, &xs, &out, &why)) return array_of(out);
  return array_failed(why);
}

static weft_array *stacked(const struct loop *l, const struct state *s, int k) {
  weft_array *rows[MOST];
  for (int t = 0; t < s->n_rows; t++) rows[t] = s->all[k][l->is_backward ? s->n_rows - 1 - t : t];
  return weft_concat(0, s->n_rows, rows);
}

static weft_array *result(const struct loop *l, const struct state *s, int k) {
  if (k < l->n_all) return stacked(l, s, k);
  return k < loop_out_length(l) ? s->carry[k - l->n_all] : i64_of(s->n_rows);
}

static weft_array *without(struct node *loop, weft_array *a) {
  const struct loop *l = loop_of(loop);
  struct state *s = calloc(1, sizeof *s);
  struct node *item[MOST], *to[MOST], *out;
  if (!s || !(s->all = calloc((size_t)l->n_all + 1, sizeof *s->all))) abort();
  int64_t n = steps_of(l, loop);
  for (int k = 0; k < l->n_seq; k++) s->seq[k] = sequence(l, loop->in[loop_in_seq(l, k)], n);
  for (int k = 0; k < l->n_carry; k++) s->carry[k] = handle(loop->in[loop_in_carry(l, k)]);
  for (int64_t t = 0; t < n; t++)
    if (step(l, loop, l->is_backward ? n - 1 - t : t, s)) break;
  int n_items = items_of(loop, a->node, item);
  for (int k = 0; k < n_items; k++) to[k] = result(l, s, ((const struct item_attr *)item[k]->attr)->k)->node;
  dim symbol[] = { l->length, l->steps }, value[] = { s->n_rows, n };
  struct failure *why = NULL;
  int n_symbols = dim_is_known(l->length) ? 0 : l->steps == l->length || dim_is_known(l->steps) ? 1 : 2;
  free(s->all), free(s);
  if (graph_specialise(false, n_items, item, to, n_symbols, symbol, value, 1, &a->node, &out, &why)) return array_of(out);
  test_fail(__FILE__, __LINE__, "%s", failure_message(why));
  failure_release(why);
  return a;
}

weft_array *unrolled(weft_array *a) {
  for (struct node *loop; (loop = first_loop(a->node)) != NULL;) {
    weft_array *now = without(loop, a);
    if (now == a || weft_check(now) != WEFT_OK) return now;
    a = now;
  }
  return a;
}
