/* abreast.c -- products of one row that follow each other and need nothing of each other, such as the queries, keys and values of
 * a token: which of them may run at the same time, each by a thread of its own. Whether they do is found out at each run. */
#include "schedule/work.h"

enum {
  MOST_PRODUCTS = STEPS_ABREAST,
  MOST_STORES = 32,           /* that a step touches */
  LEAST_ELEMENTS = 1 << 16    /* of a matrix: less is not worth a thread */
};

/* What a step touches. */
struct touched { const struct schedule *s; int n; struct { int store; enum store_use use; } at[MOST_STORES]; };

static void note(void *of, int *store, enum store_use use) {
  struct touched *t = of;
  if (t->n < MOST_STORES) t->at[t->n].store = *store, t->at[t->n].use = use;
  t->n++;
}

static bool is_in_block(const struct store *t) { return t->leaf < 0 && !t->is_output; }

/* Two stores share memory: they are the same, or stand in the same part of the plan's block. Memory of leaves that is given to
 * outputs is not seen here: see step_kind.abreast. */
static bool share_memory(const struct schedule *s, int i, int j) {
  const struct store *a = &s->store[i], *b = &s->store[j];
  if (i == j) return true;
  return is_in_block(a) && is_in_block(b) && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool disturb(const struct touched *a, const struct touched *b) {
  if (a->n > MOST_STORES || b->n > MOST_STORES) return true;
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n; j++)
      if (((a->at[i].use | b->at[j].use) & STORE_WRITTEN) && share_memory(a->s, a->at[i].store, b->at[j].store)) return true;
  return false;
}

/* A row by a matrix whose columns are neighbours, in one block of terms: threads that shared its columns would read a little of
 * each row. */
static bool is_row(const struct step *p) {
  const struct contraction *c = p->contraction;
  if (p->kind != &step_product || c->n_batch || c->feeds || c->is_fed || c->n_more || c->windows) return false;
  if (c->b_run || c->b_first || c->maker[0] || c->maker[1] || c->has_whole_rows || (c->is_turned ? c->n : c->m) != 1) return false;
  bool lies_in_rows = c->is_turned ? c->a.stride[0] == 1 : c->b.stride[1] == 1;
  return lies_in_rows && c->k <= KIR_PRODUCT_BLOCK && c->m * c->n * c->k >= LEAST_ELEMENTS;
}

static bool are_alike(const struct contraction *a, const struct contraction *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->a_dtype == b->a_dtype && a->b_dtype == b->b_dtype;
}

/* How many steps from i on may run at the same time. */
static int count(struct schedule *s, int i) {
  struct touched t[MOST_PRODUCTS];
  int n = 0;
  for (bool goes_on = true; goes_on && n < MOST_PRODUCTS && i + n < s->n_steps && is_row(&s->step[i + n]); n += goes_on) {
    goes_on = are_alike(s->step[i].contraction, s->step[i + n].contraction);
    t[n].s = s, t[n].n = 0;
    step_stores(s, i + n, note, &t[n]);
    for (int j = 0; j < n; j++) goes_on = goes_on && !disturb(&t[j], &t[n]);
  }
  return n;
}

void abreast_find(struct schedule *s) {
  for (int i = 0, n; i < s->n_steps; i += n ? n : 1)
    if ((n = count(s, i))) s->step[i].contraction->n_abreast = n;
}
