/* gpu_chain.c -- kernels that are one serial loop and nothing else, as the totals of a running sum: a warp takes the same steps
 * in all of its lanes, and 32 of them are loaded and stored together, an element a lane.
 *
 * serial i { carry s; .. x = load a[i]; .. store y[i] = ..; next s = .. }. One thread alone would wait for every load and store
 * of 4 bytes to be taken; here lanes copy 32 operands at a time to shared memory, where every step finds its own. The first lane
 * leaves results there, and each lane stores one while the next 32 steps are taken.
 *
 * A step waits for the one before it, 4 cycles if that is an addition, and for nothing else: its operand was read from shared
 * memory 32 steps before, together with its neighbours, as soon as the registers of these were free.
 *
 * A stage of shared memory is copied to by lanes for each other: it is read behind a wait for the copies of one's own and a barrier
 * of the warp, and copied to again behind the barrier of a later group, when all lanes have read it. So it is with results, which
 * have two stages. */
#include "backend/cuda/printer.h"

/* Groups of 32 steps whose operands are in shared memory or on their way there: one that is used, one that is read, the others on
 * their way. 32 additions take 140 cycles, and a load from the second cache up to 700. Registers would not do: those of a load that
 * is under way cannot be handed on from group to group without waiting for it. */
enum { LANES = 32, STAGES = 8, STAGE_BYTES = LANES * 8, RESULTS = 2 };
enum { SHORT_STEPS = 16 }; /* of a chain take as long as one of another loop over time: to look whether it is to end takes a load */

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

static int together(weft_dtype d) { return 16 / kir_width(d); } /* elements that are moved at a time */
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

/* The result of a step is kept until it and its neighbours are 16 bytes. False: it is stored as ever. */
bool ptx_chain_store(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; p->chain && i < p->chain->n_stores; i++) {
    if (p->chain->store[i] != s) continue;
    weft_dtype d = (weft_dtype)p->k->vals[s->in[0]].dtype;
    ptx_mov(p, d, p->chain->kept[i][p->early.turn % together(d)], ptx_in_register(p, d, s->in[0]));
    return true;
  }
  return false;
}

/* A load of the steps: where this lane's operand comes from and goes to, in the first stage; where all of that stage begin; and
 * where those of the stage begin that is read. */
struct chain_load { struct far far; weft_dtype d; const char *to, *from, *at; };

/* A store of the steps: this lane's element in memory, and in the first stage; where that stage begins; the result that is on its
 * way from there to memory. */
struct chain_store { struct far far; weft_dtype d; const char *own, *to, *result; };

struct chain_group {
  struct chain_load load[PTX_EARLY];
  struct chain_store store[PTX_CHAINED];
  const char *lane, *is_first, *is_later; /* the first lane; there was a group before */
  const char *stage, *ahead, *results;    /* bytes to the stage that is read, to that which is asked for, to that of results */
};

/* is = there are n times 32 steps from var on */
static void are_left(struct printer *p, const char *is, const char *var, int n, const char *end) {
  const char *to = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, %d", to, var, n * LANES);
  ptx_line(p, "setp.le.s64 %s, %s, %s", is, to, end);
}

/* Asks for the operands of a group, if its steps are there. */
static void ask(struct printer *p, struct chain_group *g, const char *is) {
  const char *to = ptx_own(p, OWN_LONG);
  for (int i = 0; i < p->early.n; i++) {
    struct chain_load *l = &g->load[i];
    ptx_line(p, "add.s64 %s, %s, %s", to, l->to, g->ahead);
    ptx_line(p, "@%s cp.async.ca.shared.global [%s], [%s], %d", is, to, l->far.at, kir_width(l->d));
    ptx_line(p, "add.s64 %s, %s, %s", l->far.at, l->far.at, l->far.by);
  }
  ptx_line(p, "cp.async.commit_group");
}

/* shared = so many bytes behind the beginning of what the chain has; element = the lane's there */
static void place_stage(struct printer *p, weft_dtype d, int bytes, const char *lane, const char *shared, const char *element) {
  ptx_line(p, "mov.u64 %s, chain", shared);
  ptx_line(p, "add.s64 %s, %s, %d", shared, shared, bytes);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", element, lane, kir_width(d), shared);
}

static void begin_load(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, struct chain_group *g) {
  int i = p->early.n++;
  struct chain_load *l = &g->load[i];
  *l = (struct chain_load){ far_of(p, loop, s, g->lane), (weft_dtype)p->k->vals[s->out[0]].dtype, ptx_own(p, OWN_LONG),
                            ptx_own(p, OWN_LONG), ptx_own(p, OWN_LONG) };
  place_stage(p, l->d, i * STAGES * STAGE_BYTES, g->lane, l->from, l->to);
  p->early.s[i] = s;
  for (int k = 0; k < LANES; k++) p->early.reg[i][k] = ptx_own_of(p, l->d);
}

/* Stages of results stand behind those of n_loads loads. */
static void begin_store(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, int n_loads,
                        struct chain_group *g, struct ptx_chain *c) {
  int i = c->n_stores++;
  struct chain_store *x = &g->store[i];
  *x = (struct chain_store){ far_of(p, loop, s, g->lane), (weft_dtype)p->k->vals[s->in[0]].dtype, ptx_own(p, OWN_LONG),
                             ptx_own(p, OWN_LONG), NULL };
  place_stage(p, x->d, (n_loads * STAGES + i * RESULTS) * STAGE_BYTES, g->lane, x->to, x->own);
  x->result = ptx_own_of(p, x->d);
  c->store[i] = s;
  for (int k = 0; k < together(x->d); k++) c->kept[i][k] = ptx_own_of(p, x->d);
}

static void count_accesses(const struct kir_stmt *loop, int *n_loads, int *n_stores) {
  *n_loads = *n_stores = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    *n_loads += s->kind == KIR_LOAD, *n_stores += s->kind == KIR_STORE;
}

size_t ptx_chain_bytes(const struct kir_stmt *loop) {
  int n_loads, n_stores;
  count_accesses(loop, &n_loads, &n_stores);
  return (size_t)(n_loads * STAGES + n_stores * RESULTS) * STAGE_BYTES;
}

/* Operands k and its neighbours of the stage that is read, into their registers. */
static void take(struct printer *p, const struct chain_load *l, const char *const reg[], int k) {
  if (together(l->d) == 4) ptx_line(p, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", reg[k], reg[k + 1], reg[k + 2], reg[k + 3],
                                    l->at, 4 * k);
  else ptx_line(p, "ld.shared.v2.b64 {%s, %s}, [%s+%d]", reg[k], reg[k + 1], l->at, 8 * k);
}

/* Results k and its neighbours, to where lanes find them. */
static void leave(struct printer *p, const struct chain_group *g, const struct chain_store *x, const char *const kept[], int k) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, %s", at, x->to, g->results);
  if (together(x->d) == 4) ptx_line(p, "@%s st.shared.v4.b32 [%s+%d], {%s, %s, %s, %s}", g->is_first, at, 4 * k, kept[0], kept[1],
                                    kept[2], kept[3]);
  else ptx_line(p, "@%s st.shared.v2.b64 [%s+%d], {%s, %s}", g->is_first, at, 8 * k, kept[0], kept[1]);
}

/* This lane's results of the group before, if there was one: from shared memory, and to memory. */
static void fetch_results(struct printer *p, const struct chain_group *g, int n) {
  const char *at = ptx_own(p, OWN_LONG);
  for (int i = 0; i < n; i++) {
    ptx_line(p, "xor.b64 %s, %s, %d", at, g->results, STAGE_BYTES);
    ptx_line(p, "add.s64 %s, %s, %s", at, at, g->store[i].own);
    ptx_line(p, "@%s ld.shared.%s %s, [%s]", g->is_later, ptx_bits(g->store[i].d), g->store[i].result, at);
  }
}
static void store_results(struct printer *p, const struct chain_group *g, int n) {
  for (int i = 0; i < n; i++) {
    const struct chain_store *x = &g->store[i];
    ptx_line(p, "@%s st.global.%s [%s], %s", g->is_later, ptx_bits(x->d), x->far.at, x->result);
    ptx_line(p, "@%s add.s64 %s, %s, %s", g->is_later, x->far.at, x->far.at, x->far.by);
  }
}

/* The next of so many stages. */
static void turn(struct printer *p, const char *stage, int stages) {
  ptx_line(p, "add.s64 %s, %s, %d", stage, stage, STAGE_BYTES);
  ptx_line(p, "and.b64 %s, %s, %d", stage, stage, stages * STAGE_BYTES - 1);
}

/* Once the copies of all but so many groups are there, in all lanes: where operands of the stage that is read begin. */
static void await(struct printer *p, struct chain_group *g, int groups) {
  ptx_line(p, "cp.async.wait_group %d", groups);
  ptx_line(p, "bar.warp.sync -1");
  for (int i = 0; i < p->early.n; i++) ptx_line(p, "add.s64 %s, %s, %s", g->load[i].at, g->load[i].from, g->stage);
}

static struct chain_group begin_group(struct printer *p, const struct kir_stmt *loop, struct ptx_chain *c) {
  struct chain_group g = { .lane = ptx_own(p, OWN_LONG), .is_first = ptx_own(p, OWN_PRED), .is_later = ptx_own(p, OWN_PRED),
                           .stage = ptx_own(p, OWN_LONG), .ahead = ptx_own(p, OWN_LONG), .results = ptx_own(p, OWN_LONG) };
  const char *lane = ptx_own(p, OWN_WORD);
  int n_loads, n_stores;
  count_accesses(loop, &n_loads, &n_stores);
  ptx_line(p, "mov.u32 %s, %%tid.x", lane);
  ptx_line(p, "cvt.u64.u32 %s, %s", g.lane, lane);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", g.is_first, lane);
  ptx_line(p, "setp.ne.u32 %s, %s, %s", g.is_later, lane, lane);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind == KIR_STORE) begin_store(p, loop, s, n_loads, &g, c);
    if (s->kind == KIR_LOAD) begin_load(p, loop, s, &g);
  }
  return g;
}

/* Asks for the first groups, and reads the first of them. */
static void begin_stages(struct printer *p, struct chain_group *g, const char *var, const char *end) {
  const char *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "mov.s64 %s, 0", g->ahead);
  for (int k = 0; k < STAGES - 1; k++) {
    are_left(p, is, var, k + 1, end);
    ask(p, g, is);
    turn(p, g->ahead, STAGES);
  }
  ptx_line(p, "mov.s64 %s, 0", g->stage);
  ptx_line(p, "mov.s64 %s, 0", g->results);
  await(p, g, STAGES - 2);
  for (int i = 0; i < p->early.n; i++)
    for (int k = 0; k < LANES; k += together(g->load[i].d)) take(p, &g->load[i], p->early.reg[i], k);
  turn(p, g->stage, STAGES);
}

/* While there are 32 steps: what the next ones need is on its way. one: prints a step. */
void ptx_chain_steps(struct printer *p, const struct kir_stmt *loop, const char *end, struct where w,
                     void (*look)(struct printer *, const struct kir_stmt *, int steps),
                     void (*one)(struct printer *, const struct kir_stmt *, const char *step, struct where)) {
  struct ptx_chain c = { 0 };
  struct ptx_early around = p->early;
  const char *var = ptx_val(p, loop->var), *many = ptx_label(p, "chain"), *rest = ptx_label(p, "rest"), *is = ptx_own(p, OWN_PRED);
  p->early = (struct ptx_early){ .turn = -1 };
  struct chain_group g = begin_group(p, loop, &c);
  begin_stages(p, &g, var, end);
  ptx_place_loop(p, many);
  are_left(p, is, var, 1, end);
  ptx_line(p, "@!%s bra %s", is, rest);
  look(p, loop, LANES / SHORT_STEPS);
  await(p, &g, STAGES - 3);
  are_left(p, is, var, STAGES, end);
  ask(p, &g, is);
  fetch_results(p, &g, c.n_stores);
  p->chain = &c;
  for (int k = 0; k < LANES; k++) {
    p->early.turn = k;
    one(p, loop, "1", w);
    for (int i = 0; i < p->early.n; i++) {
      int n = together(g.load[i].d);
      if ((k + 1) % n == 0) take(p, &g.load[i], p->early.reg[i], k + 1 - n);
    }
    for (int i = 0; i < c.n_stores; i++) {
      int n = together(g.store[i].d);
      if ((k + 1) % n == 0) leave(p, &g, &g.store[i], c.kept[i], k + 1 - n);
    }
  }
  p->chain = NULL;
  store_results(p, &g, c.n_stores);
  ptx_line(p, "setp.ge.s64 %s, %s, 0", g.is_later, g.lane);
  turn(p, g.stage, STAGES);
  turn(p, g.ahead, STAGES);
  turn(p, g.results, RESULTS);
  ptx_line(p, "bra %s", many);
  ptx_place(p, rest);
  ptx_line(p, "cp.async.wait_group 0");
  ptx_line(p, "bar.warp.sync -1");
  fetch_results(p, &g, c.n_stores);
  store_results(p, &g, c.n_stores);
  p->early = around;
}
