/* gift.c -- which outputs may stand in the memory of which leaves. Whether a leaf is really needed by nobody else is found
 * out at each run; here it is only said what the steps allow. */
#include <stdatomic.h>
#include "schedule/work.h"

enum { PAGE = 4096, MOST_GIVERS = 8 }; /* of an output */

static _Atomic int64_t least = PAGE;

int64_t gift_least(void) { return atomic_load_explicit(&least, memory_order_relaxed); }
void gift_set_least(int64_t bytes) { atomic_store(&least, bytes); }

static bool is_dense(const struct node *n, const struct place *p) {
  struct place dense;
  place_dense(n, p->store, &dense);
  for (int k = 0; k < n->rank; k++)
    if (n->dims[k] != 1 && p->stride[k] != dense.stride[k]) return false;
  return true;
}

/* Leaves learn how many bytes they are, if they stand dense. */
static void measure_leaves(struct work *w) {
  for (int i = 0; i < w->list->n; i++) {
    const struct node *n = w->list->node[i];
    if (n->op != &op_value || w->item[i].place.store < 0 || !is_dense(n, &w->item[i].place)) continue;
    w->out->store[w->item[i].place.store].bytes = node_count(n) * (int64_t)weft_dtype_bytes((weft_dtype)n->dtype);
  }
}

/* The first step that would change what the leaf holds, if `to` stood in its memory. */
static int first_change(struct schedule *s, int from, int to) {
  int i = s->store[to].first;
  while (i <= s->store[to].last && (!step_writes(s, i, to) || step_is_copy_within(&s->step[i], from, to))) i++;
  return i;
}

static bool may_give(struct schedule *s, int from, int to, int *step) {
  int last = s->store[from].last;
  *step = first_change(s, from, to);
  return last < *step || (last == *step && step_may_overwrite(&s->step[last], from, to));
}

static bool add(struct work *w, int *room, struct gift g) {
  struct schedule *s = w->out;
  if (s->n_gifts == *room) {
    int more = *room ? 2 * *room : 16;
    struct gift *grown = arena_grow(w->arena, s->gift, sizeof *grown * (size_t)s->n_gifts, sizeof *grown * (size_t)more);
    if (!grown) return !(w->no_memory = true);
    s->gift = grown, *room = more;
  }
  s->gift[s->n_gifts++] = g;
  return true;
}

static bool find_givers(struct work *w, const bool *shown, int to, int *room) {
  struct schedule *s = w->out;
  for (int i = 0, n = 0; i < s->n_stores && n < MOST_GIVERS; i++) {
    int step;
    if (s->store[i].leaf < 0 || s->store[i].bytes != s->store[to].bytes || shown[i] || !may_give(s, i, to, &step)) continue;
    if (!add(w, room, (struct gift){ i, to, step })) return false;
    n++;
  }
  return true;
}

static bool is_worth_it(const struct store *t) {
  return t->is_output && t->first >= 0 && t->bytes && t->bytes >= gift_least();
}

bool gifts_find(struct work *w) {
  struct schedule *s = w->out;
  int room = 0, n = 0;
  for (int i = 0; i < s->n_stores; i++) n += is_worth_it(&s->store[i]);
  if (!n) return true;
  bool *shown = work_take(w, (size_t)s->n_stores + 1); /* a target is this leaf, or a view of it */
  if (!shown) return false;
  for (int t = 0; t < s->n_targets; t++)
    if (!s->output[t].is_number) shown[s->output[t].place.store] = true;
  measure_leaves(w);
  for (int i = 0; i < s->n_stores; i++)
    if (is_worth_it(&s->store[i]) && !find_givers(w, shown, i, &room)) return false;
  return true;
}
