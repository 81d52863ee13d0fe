/* check.c -- the promises of a schedule, looked at again in the hard build: groups read only from groups below them, no
 * two values that live at the same time share memory unless one has taken over the other's, and no kernel is bound
 * beyond the memory of its buffers. */
#include "base/hard.h"
#include "schedule/work.h"
#ifdef WEFT_HARD

static void check_levels(const struct work *w) {
  for (int g = 0; g < w->n_groups; g++) {
    const struct group *x = &w->group[g];
    for (int i = 0; !x->is_dead && i < x->n_items; i++) {
      const struct node *n = w->list->node[x->item[i]];
      for (int k = 0; k < n->n_in; k++) {
        const struct item *b = &w->item[edge_of(n->in[k]).base->slot];
        if (b->group == g || b->node->op->kind == OP_LEAF) continue;
        INVARIANT(b->is_stored);
        INVARIANT(b->group < 0 ? b->ready_level <= x->level : w->group[b->group].level < x->level);
      }
    }
  }
}

static bool lives(const struct store *s) { return s->leaf < 0 && !s->is_output && s->first >= 0 && s->bytes > 0; }

static void check_memory(const struct schedule *s) {
  for (int i = 0; i < s->n_stores && s->n_stores < 2000; i++)
    for (int j = 0; j < i; j++) {
      const struct store *a = &s->store[i], *b = &s->store[j];
      if (!lives(a) || !lives(b)) continue;
      bool apart_in_time = a->last < b->first || b->last < a->first;
      bool apart_in_space = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
      bool takes_over = a->offset == b->offset && a->bytes == b->bytes && (a->last == b->first || b->last == a->first);
      INVARIANT(apart_in_time || apart_in_space || takes_over);
    }
}

/* Every element a buffer's dims reach lies inside its store. Dims are sizes alone in what the scheduler writes. */
static void check_buffer(const struct schedule *s, const struct step *p, int i) {
  const struct kir_buf *b = &p->kernel->bufs[i];
  const struct binding *x = &p->bufs[i];
  int64_t low = x->offset, high = x->offset;
  for (int k = 0; k < b->rank; k++) {
    if (b->dims[k].n != 1 || b->dims[k].term[0].n != 1) return;
    int64_t n = p->sizes[p->kernel->vals[b->dims[k].term[0].val[0]].index];
    if (n == 0) return; /* no element */
    *(x->stride[k] < 0 ? &low : &high) += (n - 1) * x->stride[k];
  }
  if (step_is_product(p) && i == p->contraction->cell) return; /* it stands nowhere */
  INVARIANT(x->store >= 0 && x->store < s->n_stores);
  if (s->store[x->store].leaf >= 0) return; /* leaves are as large as their arrays */
  if (!s->store[x->store].bytes) return;    /* an empty array: its kernel has nothing to do there */
  INVARIANT(low >= 0 && (high + 1) * (int64_t)weft_dtype_bytes((weft_dtype)b->dtype) <= s->store[x->store].bytes);
}

struct checking { const struct schedule *s; int step; };

/* What a kind says it touches is there while the step runs. */
static void check_store(void *of, int *store, enum store_use use) {
  const struct checking *m = of;
  INVARIANT(*store >= 0 && *store < m->s->n_stores && use >= STORE_READ && use <= STORE_BOTH);
  INVARIANT(m->s->store[*store].first <= m->step && m->step <= m->s->store[*store].last);
}

void schedule_check(const struct work *w) {
  const struct schedule *s = w->out;
  check_levels(w);
  check_memory(s);
  for (int i = 0; i < s->n_steps; i++) step_stores(w->out, i, check_store, &(struct checking){ s, i });
  for (int i = 0; i < s->n_steps; i++)
    for (int k = 0; s->step[i].kernel && k < s->step[i].kernel->n_bufs; k++)
      if (s->step[i].kernel->bufs[k].kind <= KIR_INOUT) check_buffer(s, &s->step[i], k);
}
#endif
