/* replay.c -- steps that are loops run step by step: the plan of the body on ping-pong buffers, nothing planned or allocated
 * a step. */
#include "run/plan.h"
#include <string.h>
#include "base/mem.h"
#include "graph/dtype.h"
#include "run/show.h"

/* The memory of the body's stores for one step: leaves and outputs move, its own block stays. */
struct replaying {
  const struct plan *body;
  const struct replay *l;
  uint8_t *const *outside;   /* by store of the schedule around */
  uint8_t **base;            /* by store of the body */
  struct leaf *leaf;
};

static uint8_t *at(const struct replaying *f, const struct binding *b, int64_t size, int64_t step) {
  return f->outside[b->store] + (b->offset + step * b->stride[0]) * size;
}

static void bind(struct replaying *f, int64_t step, uint8_t *stop) {
  const struct replay *l = f->l;
  const struct schedule *s = f->body->schedule;
  int side = (int)(step & 1);
  for (int i = 0; i < s->n_stores; i++) {
    int k = s->store[i].leaf, carry = k - l->n_seq;
    if (k < 0) f->base[i] = s->store[i].is_output ? NULL : f->outside[l->body_block] + s->store[i].offset;
    else if (carry >= 0 && carry < l->n_carry) f->base[i] = f->outside[l->ping[2 * carry + side]];
    else f->base[i] = at(f, &l->in[k], l->leaf_size[k], k < l->n_seq ? step : 0);
  }
  for (int i = 0; i < s->n_targets; i++) {
    uint8_t **base = &f->base[s->output[i].place.store];
    if (i < l->n_carry) *base = f->outside[l->ping[2 * i + !side]];
    else if (i < l->n_carry + l->n_all) *base = at(f, &l->all[i - l->n_carry], l->all_size[i - l->n_carry], step);
    else *base = stop;
  }
}

/* How many steps at most; below 0: that is what the user asked for. */
static int64_t most_steps(const struct replaying *f) {
  const struct binding *c = &f->l->count;
  if (c->store < 0) return f->l->steps;
  uint64_t bits = 0;
  size_t size = weft_dtype_bytes(f->l->count_dtype);
  memcpy(&bits, f->outside[c->store] + c->offset * (int64_t)size, size);
  double n = dtype_decode(f->l->count_dtype, bits);
  return n < 9e18 ? (int64_t)n : INT64_MAX;
}

static struct failure *steps(struct replaying *f, struct run *r, int64_t *n) {
  int64_t most = most_steps(f);
  *n = 0;
  if (most < 0) return fail(WEFT_ERR_ARG, 0, "weft_loop_open: %lld steps", (long long)most);
  uint8_t *stop = f->outside[f->l->spare];
  struct run inside = { .cancel = r->cancel, .threads = r->threads, .leaf = f->leaf };
  while (*n < most) {
    bind(f, *n, stop);
    struct failure *why = plan_steps(f->body, &inside, f->base);
    if (why) return failure_in_step(why, *n);
    ++*n;
    if (f->l->has_until && *stop) break;
  }
  return NULL;
}

static struct failure *run(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  struct plan *body = p->body[i];
  const struct replay *l = p->schedule->step[i].replay;
  struct replaying f = { body, l, base, mem_alloc(sizeof *f.base * (size_t)(body->schedule->n_stores + 1)), NULL };
  int64_t n = 0;
  f.leaf = mem_alloc(sizeof *f.leaf * (size_t)(body->schedule->n_leaves + 1));
  struct failure *why = f.base && f.leaf ? steps(&f, r, &n) : fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  for (int k = 0; !why && k < l->n_carry; k++)
    if (l->last[k].store >= 0)
      memcpy(at(&f, &l->last[k], l->leaf_size[l->n_seq + k], 0), base[l->ping[2 * k + (n & 1)]], (size_t)l->carry_bytes[k]);
  if (!why && l->length.store >= 0) memcpy(base[l->length.store] + l->length.offset * 8, &n, sizeof n);
  mem_free(f.base);
  mem_free(f.leaf);
  return why;
}

static void see_all(int n, struct binding b[], enum store_use use, store_visitor *v, void *of) {
  for (int i = 0; i < n; i++) see_store(&b[i].store, use, v, of);
}

static void stores(struct schedule *s, struct step *p, store_visitor *v, void *of) {
  struct replay *l = p->replay;
  (void)s;
  see_all(l->n_seq + l->n_carry + l->n_const, l->in, STORE_READ, v, of);
  see_all(1, &l->count, STORE_READ, v, of);
  see_all(l->n_all, l->all, STORE_WRITTEN, v, of);
  see_all(l->n_carry, l->last, STORE_WRITTEN, v, of);
  for (int k = 0; k < 2 * l->n_carry; k++) see_store(&l->ping[k], STORE_BOTH, v, of);
  see_all(1, &l->length, STORE_WRITTEN, v, of);
  see_store(&l->body_block, STORE_WRITTEN, v, of);
  see_store(&l->spare, STORE_WRITTEN, v, of);
}

static void drop(struct step *p) { schedule_drop_kernels(p->replay->body); }

static bool compile(struct plan *p, int i, struct failure **failure) {
  p->body[i] = plan_of_schedule(NULL, p->schedule->step[i].replay->body, NULL, failure);
  return p->body[i] != NULL;
}

static int64_t scratch(const struct plan *p, int i, int threads) { return plan_scratch(p->body[i], threads); }

static void show(const struct plan *p, int i, struct text *t) {
  text_addf(t, "%d: loop, step by step:\n", i);
  plan_show(p->body[i], "plan", t);
}

const struct step_kind step_replay = {
  .name = "loop", .where = STEP_ON_HOST, .stores = stores, .drop = drop, .compile = compile, .run = run, .scratch = scratch,
  .show = show,
};
