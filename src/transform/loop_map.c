/* loop_map.c -- loops for every row: one loop whose variables have the new axis.
 *
 * A carry is mapped if its initial value is, or if its next value comes out mapped. Sequences become [steps, rows, ..]. A
 * loop that until ends and whose stop is the same in all rows runs over the steps the loop itself has executed. Where stop
 * or the number of steps differs from row to row, all carries are mapped, a row that has stopped keeps its carries
 * (where), and the loop ends with the last row. What fails in such a row counts for nothing: the bodies are mapped with the rows
 * that go on as the active ones, and a loop inside makes no steps in the others, so that whenever a body runs, some row is
 * active, and what is the same in all rows needs no mask. Stacked outputs would have a length for each row, and are unsupported:
 * whoever needs them goes through the rows one by one (map.c). */
#include <string.h>
#include "base/mem.h"
#include "op/operand.h"
#include "transform/loop_rules.h"

struct spreading {
  const struct rule *r;
  const struct loop *l;
  const bool *is_mapped;
  dim rows;
  struct loop_draft d;
  struct node **x, **xs;      /* variables and constants of the body; mapped ones, references, NULL: not mapped */
  struct node **body, **full; /* full: mapped bodies; NULL: not mapped */
  bool *is_mapped_carry;
  bool has_own_steps;         /* the number of steps differs from row to row */
  bool is_ragged;             /* that, or until does */
  struct node *own_steps;     /* by row, 0 in rows that are not active; a reference. NULL: they are the same for all */
  struct node *count, *stopped, *done; /* if ragged, by row: carries, how many steps were made and whether until was true
                                 (NULL: it is the same for all); whether the row stands still. References */
  bool is_replay;             /* runs over the executed steps of the loop itself */
};

static struct node *original(const struct spreading *s, int k) { return s->r->node->in[k]; }
static struct node *operand(const struct spreading *s, int k) { return s->r->in[k]->node; }

static void row_dims(const struct spreading *s, const struct node *n, dim dims[]) {
  dims[0] = s->rows;
  if (n->rank) memcpy(dims + 1, n->dims, n->rank * sizeof *dims);
}

static struct node *row_var(const struct spreading *s, const struct node *var) {
  dim dims[WEFT_RANK_MAX + 1];
  row_dims(s, var, dims);
  return loop_var((weft_dtype)var->dtype, var->rank + 1, dims);
}

static struct node *in_rows(const struct spreading *s, struct node *n) {
  dim dims[WEFT_RANK_MAX + 1];
  row_dims(s, n, dims);
  return node_broadcast(node_retain(n), n->rank + 1, dims);
}

/* ---- Which bodies are mapped ---- */

static bool fresh_vars(struct spreading *s) {
  const struct loop *l = s->l;
  for (int k = 0; k < l->n_seq; k++)
    if (s->is_mapped[loop_in_seq(l, k)] && !s->xs[k] && !(s->xs[k] = row_var(s, l->seq_var[k]))) return false;
  for (int k = 0; k < l->n_carry; k++)
    if (s->is_mapped_carry[k] && !s->xs[l->n_seq + k] && !(s->xs[l->n_seq + k] = row_var(s, l->carry_var[k]))) return false;
  for (int k = 0; k < l->n_const; k++) {
    struct node **at = &s->xs[l->n_seq + l->n_carry + k];
    if (s->is_mapped[loop_in_const(l, k)] && !*at) *at = node_retain(operand(s, loop_in_const(l, k)));
  }
  return true;
}

static struct node *stop_of(const struct spreading *s) { return s->l->until ? s->full[n_bodies_of(s->l) - 1] : NULL; }

/* true: another round is needed. */
static bool more_mapped(struct spreading *s) {
  bool more = false;
  s->is_ragged = s->has_own_steps || stop_of(s);
  for (int k = 0; k < s->l->n_carry; k++) {
    if (s->is_mapped_carry[k] || !(s->full[k] || s->is_ragged)) continue;
    s->is_mapped_carry[k] = more = true;
  }
  return more;
}

static bool spread_bodies(struct spreading *s, struct node *active, struct failure **why) {
  const struct loop *l = s->l;
  int n_x = l->n_seq + l->n_carry + l->n_const, n_y = n_bodies_of(l);
  nodes_release(n_y, s->full);
  for (int k = 0; k < n_y; k++) s->full[k] = NULL;
  return spread(s->rows, active, n_x, s->x, s->xs, n_y, s->body, s->full, why);
}

/* Which rows stand still, in terms of two more carries. */
static bool open_rows(struct spreading *s, struct failure **why) {
  s->count = loop_var(WEFT_I64, 1, &s->rows);
  s->stopped = stop_of(s) ? loop_var(WEFT_BOOL, 1, &s->rows) : NULL;
  if (!s->count || (stop_of(s) && !s->stopped)) return false;
  weft_array *done = s->stopped ? handle_of(s->stopped) : NULL;
  if (s->has_own_steps) {
    weft_array *over = weft_le(handle_of(s->own_steps), handle_of(s->count));
    done = done ? weft_or(done, over) : over;
  }
  s->done = result_of(done, why);
  return s->done;
}

/* Which rows stand still is known once it is known what is mapped: then the bodies are mapped for those that go on. */
static bool settle(struct spreading *s, struct failure **why) {
  do {
    if (!fresh_vars(s) || !spread_bodies(s, s->r->active ? s->r->active->node : NULL, why)) return false;
  } while (more_mapped(s));
  if (!s->is_ragged) return true;
  struct node *active = open_rows(s, why) ? result_of(weft_not(handle_of(s->done)), why) : NULL;
  bool ok = active && spread_bodies(s, active, why);
  node_release(active);
  return ok;
}

/* ---- The loop ---- */

/* As many as the row with the most. */
static bool add_most_steps(struct spreading *s, struct failure **why) {
  weft_array *none = weft_full(WEFT_I64, WEFT_DIMS(1), 0), *steps = weft_cast(handle_of(s->own_steps), WEFT_I64);
  weft_array *most = weft_max(weft_concat(0, WEFT_ARRAYS(none, steps)), WEFT_ALL);
  s->d.parts.n_steps = dim_symbol();
  s->d.parts.owns_steps = true;
  s->d.parts.steps = s->d.length = result_of(most, why);
  return s->d.length;
}

static bool add_steps(struct spreading *s, struct failure **why) {
  const struct loop *l = s->l;
  s->is_replay = l->until && !s->is_ragged && l->steps != INT64_MAX;
  s->d.parts.is_backward = l->is_backward;
  s->d.parts.truncate = l->truncate;
  if (s->is_replay) return draft_same_steps(&s->d, (struct node *)s->r->node);
  if (s->has_own_steps) return add_most_steps(s, why);
  s->d.parts.n_steps = l->steps;
  s->d.parts.owns_steps = l->owns_steps;
  s->d.parts.steps = l->has_steps ? operand(s, 0) : NULL;
  return true;
}

static struct node *sequence(struct spreading *s, int k) {
  int at = loop_in_seq(s->l, k);
  struct failure *why = NULL;
  if (!s->is_mapped[at]) return node_retain(operand(s, at));
  struct node *n = result_of(weft_moveaxis(s->r->in[at], 0, 1), &why);
  if (!n) failure_release(why);
  return n;
}

static bool add_sequences(struct spreading *s) {
  for (int k = 0; k < s->l->n_seq; k++) {
    struct node *seq = sequence(s, k), *cut = seq ? loop_cut(seq, s->is_replay ? s->l->length : s->l->steps) : NULL;
    node_release(seq);
    if (!nodes_add(&s->d.seq, cut) || !nodes_add(&s->d.seq_var, node_retain(s->xs[k] ? s->xs[k] : s->l->seq_var[k]))) return false;
  }
  return true;
}

/* done as a condition on an array with rows in front. */
static weft_array *condition(weft_array *done, const struct node *like) {
  for (int k = 1; k < like->rank; k++) done = weft_unsqueeze(done, -1);
  return done;
}

static struct node *next_of(struct spreading *s, int k, struct failure **why) {
  const struct loop *l = s->l;
  if (!s->is_mapped_carry[k]) return node_retain(s->body[k]);
  struct node *next = s->full[k] ? node_retain(s->full[k]) : in_rows(s, s->body[k]);
  if (!next || !s->done) return next;
  struct node *var = s->xs[l->n_seq + k];
  return result_of(weft_where(condition(handle_of(s->done), next), handle_of(var), array_of(next)), why);
}

static bool add_carries(struct spreading *s, struct failure **why) {
  const struct loop *l = s->l;
  for (int k = 0; k < l->n_carry; k++) {
    struct node *init = operand(s, loop_in_carry(l, k)), *var = s->xs[l->n_seq + k];
    bool is_wider = s->is_mapped_carry[k] && !s->is_mapped[loop_in_carry(l, k)];
    bool ok = nodes_add(&s->d.init, is_wider ? in_rows(s, init) : node_retain(init)) &&
              nodes_add(&s->d.carry_var, node_retain(var ? var : l->carry_var[k])) && nodes_add(&s->d.next, next_of(s, k, why));
    if (!ok) return false;
  }
  return true;
}

static bool add_row_carry(struct spreading *s, struct node *var, weft_array *next, struct failure **why) {
  return nodes_add(&s->d.carry_var, node_retain(var)) && nodes_add(&s->d.next, result_of(next, why));
}

/* A row that is not active has stopped before it begins. */
static bool add_stopped(struct spreading *s, struct failure **why) {
  return s->r->active ? nodes_add(&s->d.init, result_of(weft_not(s->r->active), why)) : nodes_add_zeros(&s->d.init, s->stopped);
}

static bool add_stops(struct spreading *s, struct failure **why) {
  weft_array *done = handle_of(s->done);
  weft_array *count = weft_add(handle_of(s->count), weft_cast(weft_not(done), WEFT_I64));
  if (!nodes_add_zeros(&s->d.init, s->count) || !add_row_carry(s, s->count, count, why)) return false;
  if (!s->stopped) return true;
  weft_array *now = weft_or(done, handle_of(stop_of(s)));
  s->d.parts.until = result_of(weft_all(now, WEFT_ALL), why);
  return s->d.parts.until && add_stopped(s, why) && add_row_carry(s, s->stopped, now, why);
}

static bool add_outputs(struct spreading *s) {
  for (int k = 0; k < s->l->n_all && !s->is_ragged; k++) {
    struct node *y = s->full[s->l->n_carry + k];
    if (y && !nodes_add(&s->d.all, node_retain(y))) return false;
  }
  return true;
}

static struct node *draft(struct spreading *s, struct failure **why) {
  const struct loop *l = s->l;
  bool ok = add_steps(s, why) && add_sequences(s) && add_carries(s, why) &&
            (!s->is_ragged || add_stops(s, why)) && add_outputs(s);
  if (ok && l->until && !s->stopped && !s->is_replay) s->d.parts.until = s->body[n_bodies_of(l) - 1];
  struct node *made = ok ? draft_make(&s->d, why) : NULL;
  if (s->stopped) node_release(s->d.parts.until);
  return made;
}

/* ---- Results ---- */

struct failure *loop_has_run(const struct node *n) {
  return fail(WEFT_ERR_NO_HISTORY, n->origin, "weft_map: a loop that makes another number of steps in every row has "
              "run already, and what it kept has the size of that run: map before it is evaluated");
}

/* Rows of different lengths. Once the loop has run, what depends on its length has the size of that run for good. */
static struct failure *ragged(const struct spreading *s) {
  bool has_run = dim_is_known(dim_resolve(s->l->length)) && !dim_is_known(s->l->length);
  if (has_run) return loop_has_run(s->r->node);
  return fail(WEFT_ERR_UNSUPPORTED, s->r->node->origin, "weft_map: a loop with another number of steps in every row");
}

static weft_array *stacked(struct spreading *s, struct node *made, int *at) {
  if (s->is_ragged) return array_failed(ragged(s));
  return weft_moveaxis(array_of(item_of(made, (*at)++)), 1, 0);
}

static void give_out(struct spreading *s, struct node *made, weft_array *ys[], bool is_mapped_out[]) {
  const struct loop *l = s->l, *now = loop_of(made);
  for (int k = 0, at = 0; k < l->n_all; k++)
    if ((is_mapped_out[k] = s->full[l->n_carry + k] || s->is_ragged)) ys[k] = stacked(s, made, &at);
  for (int k = 0; k < l->n_carry; k++) {
    int out = loop_out_last(l, k);
    if ((is_mapped_out[out] = s->is_mapped_carry[k])) ys[out] = array_of(item_of(made, loop_out_last(now, k)));
  }
  int length = loop_out_length(l);
  if ((is_mapped_out[length] = s->is_ragged)) ys[length] = array_of(item_of(made, loop_out_last(now, l->n_carry)));
}

static bool take_own_steps(struct spreading *s, struct failure **why) {
  weft_array *steps = s->r->in[0];
  if (!s->has_own_steps) return true;
  if (s->r->active) steps = weft_where(s->r->active, steps, weft_integer(0));
  s->own_steps = result_of(steps, why);
  return s->own_steps;
}

static bool spreading_open(struct spreading *s, struct failure **why) {
  const struct loop *l = s->l;
  int n_x = l->n_seq + l->n_carry + l->n_const;
  s->x = node_list_new(n_x);
  s->xs = node_list_new(n_x);
  s->full = node_list_new(n_bodies_of(l));
  s->is_mapped_carry = mem_alloc((size_t)l->n_carry + 1);
  if (!s->x || !s->xs || !s->full || !s->is_mapped_carry) return false;
  for (int k = 0; k < n_x; k++)
    s->x[k] = k < l->n_seq + l->n_carry ? l->seq_var[k] : original(s, loop_in_const(l, k - l->n_seq - l->n_carry));
  for (int k = 0; k < l->n_carry; k++) s->is_mapped_carry[k] = s->is_mapped[loop_in_carry(l, k)];
  for (int k = 0; k < s->r->node->n_in; k++)
    if (s->is_mapped[k]) s->rows = operand(s, k)->dims[0];
  if (!take_own_steps(s, why)) return false;
  draft_branch(&s->d, l);
  s->body = bodies_of(l, NULL, s->x + l->n_seq + l->n_carry, why);
  return s->body;
}

static void spreading_close(struct spreading *s) {
  const struct loop *l = s->l;
  mem_free(s->x);
  mem_free(s->is_mapped_carry);
  node_list_drop(l->n_seq + l->n_carry + l->n_const, s->xs);
  node_list_drop(n_bodies_of(l), s->full);
  node_list_drop(n_bodies_of(l), s->body);
  node_release(s->own_steps);
  node_release(s->count);
  node_release(s->stopped);
  node_release(s->done);
  draft_free(&s->d);
}

void loop_batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  struct spreading s = { .r = r, .l = loop_of(r->node), .is_mapped = is_mapped };
  struct failure *why = NULL;
  s.has_own_steps = s.l->has_steps && is_mapped[0];
  if (s.has_own_steps && s.l->n_seq) why = ragged(&s);
  struct node *made = !why && spreading_open(&s, &why) && settle(&s, &why) ? draft(&s, &why) : NULL;
  if (made) give_out(&s, made, ys, is_mapped_out);
  else {
    int n = loop_count(r->node);
    for (int k = 0; k < n; k++) is_mapped_out[k] = true;
    all_bad(n, ys, why ? why : no_memory());
  }
  node_release(made);
  spreading_close(&s);
}
