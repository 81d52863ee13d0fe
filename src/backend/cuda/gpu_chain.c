/* gpu_chain.c -- kernels that are one serial loop and nothing else, as the totals of a running sum: a warp takes the same steps
 * in all of its lanes, and 32 of them are loaded and stored together, an element a lane.
 *
 * serial i { carry s; .. x = load a[i]; .. store y[i] = ..; next s = .. }. One thread alone would wait for every load and store
 * of 4 bytes to be taken; here lanes copy 32 operands at a time to shared memory, where every step finds its own, and a step leaves
 * its result with the lane that stores it.
 *
 * A stage of shared memory is copied to by lanes for each other: it is read behind a wait for the copies of one's own and a barrier
 * of the warp, and copied to again behind the barrier of the next group, when all lanes have read it. */
#include "backend/cuda/printer.h"

/* Groups of 32 steps whose operands are in shared memory or on their way there: one that is used, the others on their way. 32 steps
 * of an addition take 200 cycles, and a load from the second cache up to 700. Registers would not do: those of a load that is under
 * way cannot be handed on from group to group without waiting for it (the 4096 totals of 16M elements: 56 us so on an H200, 18
 * here). */
enum { LANES = 32, STAGES = 8, STAGE_BYTES = LANES * 8 };

/* Subscripts of what is known before the loop, and of its variable at most once a product: addresses that are as far apart. */
static bool is_even(const struct kir_kernel *k, const struct kir_stmt *loop, const struct kir_stmt *s) {
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      int n = 0;
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        n += v == loop->var;
        if (k->vals[v].kind == KIR_RESULT) return false;
      }
      if (n > 1) return false;
    }
  return true;
}

static bool is_whole(weft_dtype d) { return kir_register_of(d) == d && d != WEFT_BOOL && kir_width(d) >= 4; }

/* Every step stores an element of its own, and no other store goes there. */
static bool is_stored_once(const struct kir_stmt *loop, const struct kir_stmt *s) {
  int n = 0;
  bool moves = false;
  for (const struct kir_stmt *x = loop->body.first; x; x = x->next) n += x->kind == KIR_STORE && x->buf == s->buf;
  for (int d = 0; d < s->n_at; d++) moves |= survey_mentions(s->at[d], loop->var);
  return n == 1 && moves;
}

static bool can_be_chain(const struct survey *s, const struct kir_stmt *loop) {
  int n_loads = 0, n_stores = 0;
  for (const struct kir_stmt *x = loop->body.first; x; x = x->next) {
    weft_dtype d = x->kind == KIR_LOAD || x->kind == KIR_STORE ? (weft_dtype)s->k->bufs[x->buf].dtype : WEFT_F32;
    bool is_memory = x->kind == KIR_LOAD || x->kind == KIR_STORE;
    if (is_memory && (!is_whole(d) || !is_even(s->k, loop, x))) return false;
    if (x->kind == KIR_LOAD && s->k->bufs[x->buf].kind != KIR_IN) return false;
    if (x->kind == KIR_STORE && (x->op != KIR_SET || s->k->bufs[x->buf].kind != KIR_OUT || s->bufs[x->buf].is_loaded)) return false;
    if (x->kind == KIR_STORE && !is_stored_once(loop, x)) return false;
    if (!is_memory && x->kind != KIR_OP && x->kind != KIR_CARRY && x->kind != KIR_NEXT) return false;
    n_loads += x->kind == KIR_LOAD, n_stores += x->kind == KIR_STORE;
  }
  return n_loads && n_loads <= PTX_EARLY && n_stores <= PTX_CHAINED;
}

/* The loop, or NULL. Around it only what is the same in all lanes. */
const struct kir_stmt *ptx_find_chain(const struct survey *s) {
  const struct kir_stmt *loop = NULL;
  if (s->is_cooperative || s->private_loop || s->owned || s->n_checks) return NULL;
  for (const struct kir_stmt *x = s->k->body.first; x; x = x->next) {
    if (x->kind == KIR_SERIAL && !loop && x->extent == KIR_N && can_be_chain(s, x)) { loop = x; continue; }
    bool is_same = x->kind == KIR_OP || x->kind == KIR_LOAD || (x->kind == KIR_STORE && x->op == KIR_SET);
    if (!is_same) return NULL;
  }
  return loop;
}

/* ---- Printing -------------------------------------------------------------------------------------------------------------- */

struct far { const char *at, *by; }; /* this lane's element in memory, and bytes to that of 32 steps later */

static struct far far_of(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *lane) {
  struct far f = { ptx_own(p, OWN_LONG), ptx_own(p, OWN_LONG) };
  const char *var = ptx_val(p, loop->var), *first = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, %s", first, ptx_address(p, s->buf, s->at));
  ptx_line(p, "add.s64 %s, %s, 1", var, var);
  ptx_line(p, "sub.s64 %s, %s, %s", f.by, ptx_address(p, s->buf, s->at), first);
  ptx_line(p, "sub.s64 %s, %s, 1", var, var);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", f.at, lane, f.by, first);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", f.by, f.by, LANES);
  return f;
}

/* The result of a step goes to the lane whose element it is. False: it is stored as ever. */
bool ptx_chain_store(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; p->chain && i < p->chain->n_stores; i++) {
    if (p->chain->store[i] != s) continue;
    weft_dtype d = (weft_dtype)p->k->vals[s->in[0]].dtype;
    ptx_line(p, "selp.%s %s, %s, %s, %s", ptx_bits(d), p->chain->kept[i], ptx_in_register(p, d, s->in[0]), p->chain->kept[i],
             p->chain->is_own);
    return true;
  }
  return false;
}

/* A load of the steps: where this lane's operand comes from and goes to, in the first stage, and where all of them begin. */
struct chain_load { struct far far; weft_dtype d; const char *to, *from; };

/* is = there are n times 32 steps from var on */
static void are_left(struct printer *p, const char *is, const char *var, int n, const char *end) {
  const char *to = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, %d", to, var, n * LANES);
  ptx_line(p, "setp.le.s64 %s, %s, %s", is, to, end);
}

/* Asks for the operands of a group, if its steps are there, to the stage at so many bytes. */
static void ask(struct printer *p, const struct chain_load load[], const char *stage, const char *is) {
  const char *to = ptx_own(p, OWN_LONG);
  for (int i = 0; i < p->early.n; i++) {
    ptx_line(p, "add.s64 %s, %s, %s", to, load[i].to, stage);
    ptx_line(p, "@%s cp.async.ca.shared.global [%s], [%s], %d", is, to, load[i].far.at, kir_width(load[i].d));
    ptx_line(p, "add.s64 %s, %s, %s", load[i].far.at, load[i].far.at, load[i].far.by);
  }
  ptx_line(p, "cp.async.commit_group");
}

static struct chain_load begin_load(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *lane) {
  struct chain_load l = { far_of(p, loop, s, lane), (weft_dtype)p->k->vals[s->out[0]].dtype, ptx_own(p, OWN_LONG),
                          ptx_own(p, OWN_LONG) };
  ptx_line(p, "mov.u64 %s, chain", l.from);
  ptx_line(p, "add.s64 %s, %s, %d", l.from, l.from, p->early.n * STAGES * STAGE_BYTES);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", l.to, lane, kir_width(l.d), l.from);
  p->early.s[p->early.n++] = s;
  return l;
}

/* The operands of 32 steps, 16 bytes at a time. */
static void take(struct printer *p, const struct chain_load *l, const char *stage, const char *reg[]) {
  const char *at = ptx_own(p, OWN_LONG);
  int width = kir_width(l->d), together = 16 / width;
  ptx_line(p, "add.s64 %s, %s, %s", at, l->from, stage);
  for (int k = 0; k < LANES; k++) reg[k] = ptx_own_of(p, l->d);
  for (int k = 0; k < LANES; k += together)
    if (width == 4) ptx_line(p, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", reg[k], reg[k + 1], reg[k + 2], reg[k + 3], at,
                             4 * k);
    else ptx_line(p, "ld.shared.v2.b64 {%s, %s}, [%s+%d]", reg[k], reg[k + 1], at, 8 * k);
}

size_t ptx_chain_bytes(const struct kir_stmt *loop) {
  size_t n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) n += s->kind == KIR_LOAD;
  return n * STAGES * STAGE_BYTES;
}

static void begin_store(struct printer *p, const struct kir_stmt *s, struct ptx_chain *c) {
  weft_dtype d = (weft_dtype)p->k->vals[s->in[0]].dtype;
  ptx_mov(p, d, c->kept[c->n_stores] = ptx_own_of(p, d), ptx_number(p, d, 0));
  c->store[c->n_stores++] = s;
}

/* The next of the stages, of each load. */
static void turn(struct printer *p, const char *stage) {
  ptx_line(p, "add.s64 %s, %s, %d", stage, stage, STAGE_BYTES);
  ptx_line(p, "and.b64 %s, %s, %d", stage, stage, STAGES * STAGE_BYTES - 1);
}

/* While there are 32 steps: what the next ones need is on its way. one: prints a step. */
void ptx_chain_steps(struct printer *p, const struct kir_stmt *loop, const char *end, struct where w,
                     void (*look)(struct printer *, const struct kir_stmt *, int steps),
                     void (*one)(struct printer *, const struct kir_stmt *, const char *step, struct where)) {
  struct ptx_chain c = { .is_own = ptx_own(p, OWN_PRED) };
  struct chain_load load[PTX_EARLY];
  struct far store[PTX_CHAINED];
  struct ptx_early around = p->early;
  const char *lane = ptx_own(p, OWN_LONG), *lane_word = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  const char *var = ptx_val(p, loop->var), *many = ptx_label(p, "chain"), *rest = ptx_label(p, "rest");
  p->early = (struct ptx_early){ .turn = -1 };
  ptx_line(p, "mov.u32 %s, %%tid.x", lane_word);
  ptx_line(p, "cvt.u64.u32 %s, %s", lane, lane_word);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind == KIR_STORE) store[c.n_stores] = far_of(p, loop, s, lane), begin_store(p, s, &c);
    if (s->kind == KIR_LOAD) load[p->early.n] = begin_load(p, loop, s, lane);
  }
  const char *stage = ptx_own(p, OWN_LONG), *ahead = ptx_own(p, OWN_LONG);
  for (int k = 0; k < STAGES - 1; k++) {
    are_left(p, is, var, k + 1, end);
    ptx_line(p, "mov.s64 %s, %d", ahead, k * STAGE_BYTES);
    ask(p, load, ahead, is);
  }
  ptx_line(p, "mov.s64 %s, %d", ahead, (STAGES - 1) * STAGE_BYTES);
  ptx_line(p, "mov.s64 %s, 0", stage);
  ptx_place_loop(p, many);
  are_left(p, is, var, 1, end);
  ptx_line(p, "@!%s bra %s", is, rest);
  look(p, loop, LANES);
  ptx_line(p, "cp.async.wait_group %d", STAGES - 2);
  ptx_line(p, "bar.warp.sync -1");
  are_left(p, is, var, STAGES, end);
  ask(p, load, ahead, is);
  for (int i = 0; i < p->early.n; i++) take(p, &load[i], stage, p->early.reg[i]);
  p->chain = &c;
  for (int k = 0; k < LANES; k++) {
    ptx_line(p, "setp.eq.u32 %s, %s, %d", c.is_own, lane_word, k);
    p->early.turn = k;
    one(p, loop, "1", w);
  }
  p->chain = NULL;
  for (int i = 0; i < c.n_stores; i++) {
    ptx_store(p, ".global", (weft_dtype)p->k->bufs[c.store[i]->buf].dtype, store[i].at, c.kept[i]);
    ptx_line(p, "add.s64 %s, %s, %s", store[i].at, store[i].at, store[i].by);
  }
  turn(p, stage);
  turn(p, ahead);
  ptx_line(p, "bra %s", many);
  ptx_place(p, rest);
  ptx_line(p, "cp.async.wait_group 0");
  p->early = around;
}
