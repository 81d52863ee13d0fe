/* loop_segments.c -- a loop whose gradient keeps few carries: a loop over segments of k steps, each of them a loop.
 *
 * Reverse mode of a loop keeps the carries before each step and computes the step again. Steps of the outer loop are
 * segments: of n steps, n/k carries are kept, and k more while the gradient goes through one segment. What is left of n
 * is a third loop. Where n comes with the run, so do the numbers of segments and of steps left. */
#include "base/mem.h"
#include "op/loop.h"
#include "op/operand.h"
#include "op/said.h"

struct segments {
  const struct loop_parts *p;
  int64_t k;                  /* steps of a segment */
  dim q, left;                /* segments; steps behind them */
  struct node *q_steps, *left_steps; /* the same as arrays, references; NULL: they are numbers */
  bool owns;                  /* only the run tells: q and left are symbols of these loops, not arithmetic of sizes */
  struct node **seq, **seq_var, **carry_var; /* of the outer loop: [q,k,d..], [k,d..] and as the carries; references */
  struct node *inner, *outer, *rest;
};

static struct node **list_new(int n) { return mem_alloc((size_t)(n + 1) * sizeof(struct node *)); }

static void list_drop(int n, struct node **list) {
  for (int i = 0; list && i < n; i++) node_release(list[i]);
  mem_free(list);
}

dim loop_steps_told(const struct loop_parts *p, struct node *count) {
  dim n = p->n_seq ? dim_said(count) : DIM_BAD;
  return n != DIM_BAD && dim_mentions_only(n, 1, p->seq[0]->dims) ? n : DIM_BAD;
}

/* How many of each, when it runs. Where sizes of the first sequence tell the number of steps they tell these too, so that together
 * they are as many: what is stacked has the rows of its sequence, not of two loops that nobody knows yet. */
static bool count_later(struct segments *s, struct node *count) {
  weft_array *n = weft_cast(array_of(node_retain(count)), WEFT_I64), *k = weft_cast(weft_integer(s->k), WEFT_I64);
  s->q_steps = array_good_node(weft_floor_divide(n, k));
  s->left_steps = array_good_node(weft_remainder(n, k));
  dim all = loop_steps_told(s->p, count), q = all == DIM_BAD ? DIM_BAD : dim_quotient(all, s->k);
  dim left = q == DIM_BAD ? DIM_BAD : dim_sub(all, dim_mul(q, s->k));
  s->owns = left == DIM_BAD;
  dim_retain(s->q = s->owns ? dim_symbol() : q);
  dim_retain(s->left = s->owns ? dim_symbol() : left);
  return s->q_steps && s->left_steps;
}

static dim done(const struct segments *s) { return dim_mul(s->q, s->k); }

static struct node *rows(struct node *xs, dim start, dim n) {
  return start == DIM_BAD || n == DIM_BAD ? NULL : array_good_node(array_slice(array_of(node_retain(xs)), 0, start, n, 1));
}

/* Behind the segments: how many they are is known when they have run. */
static struct node *rows_left(const struct segments *s, struct node *xs) {
  if (!s->owns) return rows(xs, done(s), s->left);
  struct node *after = item_make(s->outer, loop_out_length(loop_of(s->outer)));
  struct node *x = after ? array_good_node(weft_depends(array_of(node_retain(xs)), 1, (weft_array *[]){ array_of(after) })) : NULL;
  struct node *part = x ? rows(x, done(s), s->left) : NULL;
  node_release(x);
  return part;
}

/* [q k, d..] as [q, k, d..] */
static struct node *folded(struct segments *s, struct node *xs) {
  dim dims[WEFT_RANK_MAX + 1] = { s->q, s->k };
  for (int i = 1; i < xs->rank; i++) dims[i + 1] = xs->dims[i];
  struct node *whole = rows(xs, 0, done(s));
  return whole ? node_reshape(whole, xs->rank + 1, dims) : NULL;
}

static struct node *unfolded(const struct segments *s, struct node *xs) {
  dim dims[WEFT_RANK_MAX] = { done(s) };
  for (int i = 2; i < xs->rank; i++) dims[i - 1] = xs->dims[i];
  return node_reshape(xs, xs->rank - 1, dims);
}

static bool open(struct segments *s) {
  const struct loop_parts *p = s->p;
  s->seq = list_new(p->n_seq), s->seq_var = list_new(p->n_seq), s->carry_var = list_new(p->n_carry);
  bool ok = s->seq && s->seq_var && s->carry_var;
  for (int i = 0; ok && i < p->n_seq; i++) {
    s->seq[i] = folded(s, p->seq[i]);
    if (s->seq[i]) s->seq_var[i] = loop_var(s->seq[i]->dtype, s->seq[i]->rank - 1, s->seq[i]->dims + 1);
    ok = s->seq_var[i];
  }
  for (int i = 0; ok && i < p->n_carry; i++)
    ok = (s->carry_var[i] = loop_var(p->carry_var[i]->dtype, p->carry_var[i]->rank, p->carry_var[i]->dims));
  return ok;
}

static bool make_inner(struct segments *s, struct failure **failure) {
  struct loop_parts p = *s->p;
  p.steps = NULL, p.owns_steps = false, p.n_steps = s->k, p.seq = s->seq_var, p.init = s->carry_var;
  return (s->inner = loop_make(&p, failure));
}

static bool make_outer(struct segments *s, struct failure **failure) {
  struct loop_parts p = *s->p;
  const struct loop *l = loop_of(s->inner);
  struct node **item = list_new(p.n_carry + p.n_all);
  bool ok = item;
  for (int i = 0; ok && i < p.n_carry; i++) ok = (item[i] = item_make(s->inner, loop_out_last(l, i)));
  for (int i = 0; ok && i < p.n_all; i++) ok = (item[p.n_carry + i] = item_make(s->inner, i));
  p.steps = s->q_steps, p.owns_steps = s->owns, p.n_steps = s->q;
  p.seq = s->seq, p.seq_var = s->seq_var, p.carry_var = s->carry_var, p.next = item, p.all = item + p.n_carry;
  s->outer = ok ? loop_make(&p, failure) : NULL;
  list_drop(s->p->n_carry + s->p->n_all, item);
  return s->outer;
}

static bool make_rest(struct segments *s, struct failure **failure) {
  struct loop_parts p = *s->p;
  if (s->left == 0) return true;
  struct node **seq = list_new(p.n_seq), **init = list_new(p.n_carry);
  bool ok = seq && init;
  for (int i = 0; ok && i < p.n_seq; i++) ok = (seq[i] = rows_left(s, p.seq[i]));
  for (int i = 0; ok && i < p.n_carry; i++) ok = (init[i] = item_make(s->outer, loop_out_last(loop_of(s->outer), i)));
  p.steps = s->left_steps, p.owns_steps = s->owns, p.n_steps = s->left, p.seq = seq, p.init = init;
  s->rest = ok ? loop_make(&p, failure) : NULL;
  list_drop(s->p->n_seq, seq);
  list_drop(s->p->n_carry, init);
  return s->rest;
}

static struct node *stacked(struct segments *s, int i) {
  struct node *all = item_make(s->outer, i);
  if (all) all = unfolded(s, all);
  if (!all || !s->rest) return all;
  struct node *more = item_make(s->rest, i);
  return more ? array_good_node(weft_concat(0, WEFT_ARRAYS(array_of(all), array_of(more)))) : (node_release(all), NULL);
}

static bool give_out(struct segments *s, struct node *out[]) {
  struct node *end = s->rest ? s->rest : s->outer;
  bool ok = true;
  for (int i = 0; ok && i < s->p->n_all; i++) ok = (out[i] = stacked(s, i));
  for (int i = 0; ok && i < s->p->n_carry; i++) ok = (out[s->p->n_all + i] = item_make(end, loop_out_last(loop_of(end), i)));
  return ok;
}

bool loop_in_segments(const struct loop_parts *p, int64_t k, struct node *count, struct node *out[], struct failure **failure) {
  struct segments s = { .p = p, .k = k };
  if (!count) s.q = p->n_steps / k, s.left = p->n_steps % k;
  bool ok = (!count || count_later(&s, count)) && open(&s) && make_inner(&s, failure) && make_outer(&s, failure) &&
            make_rest(&s, failure) && give_out(&s, out);
  if (!ok && !*failure) *failure = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_loop_close: out of memory");
  list_drop(p->n_seq, s.seq);
  list_drop(p->n_seq, s.seq_var);
  list_drop(p->n_carry, s.carry_var);
  node_release(s.inner);
  node_release(s.outer);
  node_release(s.rest);
  dim_release(s.q);
  dim_release(s.left);
  node_release(s.q_steps);
  node_release(s.left_steps);
  return ok;
}
