/* step.c -- what is asked of steps, whatever kind they are: see step.h. */
#include "schedule/step.h"
#include "schedule/work.h"

void step_stores(struct schedule *s, int i, store_visitor *v, void *of) { s->step[i].kind->stores(s, &s->step[i], v, of); }

struct written { int store; bool is_written; };

static void note_written(void *of, int *store, enum store_use use) {
  struct written *w = of;
  w->is_written |= *store == w->store && (use & STORE_WRITTEN);
}

bool step_writes(struct schedule *s, int i, int store) {
  struct written w = { store, false };
  step_stores(s, i, note_written, &w);
  return w.is_written;
}

struct behind { bool *is_store, is_among, writes; };

static void note_behind(void *of, int *store, enum store_use use) {
  struct behind *b = of;
  b->writes |= use & STORE_WRITTEN;
  b->is_among |= (use & STORE_WRITTEN) && b->is_store[*store];
}

static void add_read(void *of, int *store, enum store_use use) { if (use & STORE_READ) ((bool *)of)[*store] = true; }

void steps_behind(struct schedule *s, int store, bool is_store[], bool is_step[]) {
  memset(is_store, 0, (size_t)s->n_stores);
  is_store[store] = true;
  for (int i = s->n_steps - 1; i >= 0; i--) {
    struct behind b = { .is_store = is_store };
    step_stores(s, i, note_behind, &b);
    is_step[i] = b.is_among || !b.writes;
    if (is_step[i]) step_stores(s, i, add_read, is_store);
  }
}

bool step_may_overwrite(const struct step *p, int from, int to) {
  return p->kind->may_overwrite && p->kind->may_overwrite(p, from, to);
}

bool step_is_copy_within(const struct step *p, int from, int to) {
  return p->is_copy && p->bufs[0].store == from && p->bufs[1].store == to && binding_is_same(&p->bufs[0], &p->bufs[1]);
}

static void add(int64_t *sum, double cost) {
  *sum = cost < (double)(INT64_MAX - *sum) ? *sum + (int64_t)cost : INT64_MAX;
}

void step_add_cost(struct work *w, double moved_bytes, double operations, int at_a_time) {
  if (!w->out->n_steps) return; /* nothing had to be done */
  struct step_cost *c = &w->out->step[w->out->n_steps - 1].cost;
  add(&c->moved_bytes, moved_bytes);
  add(&c->operations, operations);
  add(&c->effort, operations / at_a_time);
}

void costs_sum(struct schedule *s) {
  s->cost = (struct step_cost){ 0 };
  for (int i = 0; i < s->n_steps; i++) {
    const struct step_cost *c = &s->step[i].cost;
    add(&s->cost.moved_bytes, (double)c->moved_bytes);
    add(&s->cost.operations, (double)c->operations);
    add(&s->cost.effort, (double)c->effort);
  }
}
