/* facts.c -- what a launcher needs to know of a kernel, derived from its text. */
#include "kernel/access.h"
#include "kernel/kir.h"

static bool is_loop(const struct kir_stmt *s) { return s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE; }

static void count(const struct kir_block *block, struct kir_facts *f) {
  for (const struct kir_stmt *s = block->first; s; s = s->next) {
    f->n_checks += s->kind == KIR_CHECK;
    f->n_lanes += s->kind == KIR_LANE;
    count(&s->body, f);
  }
}

int kir_work(const struct kir_stmt *s) { return s->kind == KIR_LOAD || s->kind == KIR_STORE ? 2 : 1; }

/* 0: there is a loop among them. */
static int straight(const struct kir_block *block) {
  int n = 0;
  for (const struct kir_stmt *s = block->first; s; s = s->next) {
    int inside = s->body.first ? straight(&s->body) : kir_work(s);
    if (is_loop(s) || !inside) return 0;
    n += inside;
  }
  return n;
}

static const struct kir_stmt *only_loop(const struct kir_block *block) {
  const struct kir_stmt *found = NULL;
  for (const struct kir_stmt *s = block->first; s; s = s->next) {
    if (is_loop(s) && found) return NULL;
    if (is_loop(s)) found = s;
  }
  return found;
}

/* Statements that each part can run for itself. */
static bool is_pure(const struct kir_kernel *k, const struct kir_stmt *s) {
  return s->kind == KIR_OP || (s->kind == KIR_LOAD && (k->bufs[s->buf].kind == KIR_IN || k->bufs[s->buf].kind == KIR_TABLE));
}

static bool rest_is_pure(const struct kir_kernel *k, const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = k->body.first; s; s = s->next)
    if (s != loop && !is_pure(k, s)) return false;
  return true;
}

static bool crosses_lanes(const struct kir_stmt *lane) {
  for (const struct kir_stmt *s = lane->body.first; s; s = s->next)
    if (s->kind == KIR_FOLD || s->kind == KIR_PREFIX || s->kind == KIR_KEEP) return true;
  return false;
}

static bool has_ordered_store(const struct kir_kernel *k) {
  struct accesses a;
  bool found = !accesses_find(&a, k); /* out of memory: then it is not cut, which is always right */
  for (int i = 0; i < a.n && !found; i++) found = a.list[i].is_ordered;
  accesses_free(&a);
  return found;
}

struct kir_facts kir_facts(const struct kir_kernel *k) {
  struct kir_facts f = { .outer = only_loop(&k->body) };
  count(&k->body, &f);
  if (f.outer) f.per_iteration = straight(&f.outer->body);
  if (!f.outer || !rest_is_pure(k, f.outer)) return f;
  f.is_private = f.outer->kind == KIR_PAR && f.outer->n_private;
  if (f.outer->kind == KIR_PAR) f.divisible = !f.is_private;
  if (f.outer->kind == KIR_LANE) f.divisible = !crosses_lanes(f.outer) && !has_ordered_store(k);
  return f;
}

/* ---- Donation --------------------------------------------------------------------------------------------------------
 * out may be the memory of in if each element has one owner, who loads it before storing it and never again. */

static bool same_buffers(const struct kir_buf *x, const struct kir_buf *y) {
  bool same = x->kind == KIR_IN && y->kind == KIR_OUT && x->dtype == y->dtype && x->rank == y->rank;
  for (int i = 0; same && i < x->rank; i++) same = kir_lin_equal(x->dims[i], y->dims[i]);
  return same;
}

static bool loads_come_first(const struct accesses *a, int in, int out) {
  bool stored = false;
  for (int i = 0; i < a->n; i++) {
    const struct kir_stmt *s = a->list[i].s;
    if (s->buf == out && (s->kind == KIR_LOAD || frame_private(a->list[i].in, out))) return false;
    if (s->buf == in && stored) return false;
    stored |= s->buf == out;
  }
  return true;
}

static bool uses_axis(const struct accesses *a, const struct kir_stmt *s, int axis) {
  for (int i = 0; i < s->n_at; i++)
    for (int j = 0; j < s->at[i].n; j++)
      for (int f = 0; f < s->at[i].term[j].n; f++) {
        int v = s->at[i].term[j].val[f];
        const struct kir_stmt *l = a->of[v].loop;
        if (v == axis || (l && l->extent == KIR_BLOCK && l->block_of == axis)) return true;
      }
  return false;
}

/* Every loop around both shows in the subscripts, or another iteration would load what this one has stored. */
static bool common_loops_show(const struct accesses *a, const struct access *load, const struct access *store) {
  for (const struct frame *f = load->in; f; f = f->up)
    for (const struct frame *g = store->in; g; g = g->up)
      if (f->s == g->s && is_loop(f->s) && !uses_axis(a, load->s, f->s->var)) return false;
  return true;
}

static bool pairs_agree(const struct accesses *a, int in, int out) {
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < a->n; j++) {
      const struct access *x = &a->list[i], *y = &a->list[j];
      if (x->s->buf != in || y->s->buf != out) continue;
      if (!accesses_same_place(a, x, y) || !common_loops_show(a, x, y)) return false;
    }
  return true;
}

static bool is_in_lanes(const struct frame *f) {
  while (f && f->s->kind != KIR_LANE) f = f->up;
  return f != NULL;
}

bool kir_lanes_own(const struct kir_kernel *k, int buf) {
  struct accesses a;
  bool yes = accesses_find(&a, k);
  for (int i = 0; yes && i < a.n; i++) yes = a.list[i].s->buf != buf || is_in_lanes(a.list[i].in);
  accesses_free(&a);
  return yes;
}

bool kir_may_donate(const struct kir_kernel *k, int in, int out) {
  struct accesses a;
  if (!same_buffers(&k->bufs[in], &k->bufs[out])) return false;
  bool may = accesses_find(&a, k) && loads_come_first(&a, in, out) && pairs_agree(&a, in, out);
  accesses_free(&a);
  return may;
}
