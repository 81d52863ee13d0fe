/* gpu_chain.c -- kernels that are one serial loop and nothing else, as the totals of a running sum: a warp takes the same steps
 * in all of its lanes, and 32 of them are loaded and stored together, an element a lane.
 *
 * serial i { carry s; .. x = load a[i]; .. store y[i] = ..; next s = .. }. One thread alone would wait for every load and store
 * of 4 bytes to be taken; here a step finds its operand in the lane that has it, and leaves its result with the lane that stores
 * it. */
#include "backend/cuda/printer.h"

enum { LANES = 32, AHEAD = 4 }; /* 32 steps of an addition take 180 cycles, a load from the second cache 300 */

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

/* Elements of this lane of a load: those of the steps that come, and of later ones. */
struct chain_load { struct far far; weft_dtype d; const char *v[AHEAD]; };

/* is = there are n times 32 steps from var on */
static void are_left(struct printer *p, const char *is, const char *var, int n, const char *end) {
  const char *to = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, %d", to, var, n * LANES);
  ptx_line(p, "setp.le.s64 %s, %s, %s", is, to, end);
}

/* Asks for the next element of each load, if its steps are there. */
static void ask(struct printer *p, struct chain_load load[], int which, const char *is) {
  for (int i = 0; i < p->early.n; i++) {
    p->guard = is;
    ptx_load(p, ".global.nc", load[i].d, load[i].v[which], load[i].far.at);
    p->guard = NULL;
    ptx_line(p, "add.s64 %s, %s, %s", load[i].far.at, load[i].far.at, load[i].far.by);
  }
}

static struct chain_load begin_load(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *lane) {
  struct chain_load l = { far_of(p, loop, s, lane), (weft_dtype)p->k->vals[s->out[0]].dtype, { 0 } };
  for (int k = 0; k < AHEAD; k++) ptx_mov(p, l.d, l.v[k] = ptx_own_of(p, l.d), ptx_number(p, l.d, 0));
  p->early.s[p->early.n++] = s;
  return l;
}

static void begin_store(struct printer *p, const struct kir_stmt *s, struct ptx_chain *c) {
  weft_dtype d = (weft_dtype)p->k->vals[s->in[0]].dtype;
  ptx_mov(p, d, c->kept[c->n_stores] = ptx_own_of(p, d), ptx_number(p, d, 0));
  c->store[c->n_stores++] = s;
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
  for (int k = 0; k < AHEAD; k++) are_left(p, is, var, k + 1, end), ask(p, load, k, is);
  ptx_place_loop(p, many);
  are_left(p, is, var, 1, end);
  ptx_line(p, "@!%s bra %s", is, rest);
  look(p, loop, LANES);
  p->chain = &c;
  are_left(p, is, var, AHEAD + 1, end);
  for (int k = 0; k < LANES; k++) {
    for (int i = 0; i < p->early.n; i++)
      p->early.reg[i][k] = ptx_shuffle(p, load[i].d, "idx", load[i].v[0], ptx_textf(p, "%d", k), "-1");
    ptx_line(p, "setp.eq.u32 %s, %s, %d", c.is_own, lane_word, k);
    p->early.turn = k;
    one(p, loop, "1", w);
  }
  p->chain = NULL;
  for (int i = 0; i < c.n_stores; i++) {
    ptx_store(p, ".global", (weft_dtype)p->k->bufs[c.store[i]->buf].dtype, store[i].at, c.kept[i]);
    ptx_line(p, "add.s64 %s, %s, %s", store[i].at, store[i].at, store[i].by);
  }
  for (int i = 0; i < p->early.n; i++)
    for (int k = 0; k < AHEAD - 1; k++) ptx_mov(p, load[i].d, load[i].v[k], load[i].v[k + 1]);
  ask(p, load, AHEAD - 1, is);
  ptx_line(p, "bra %s", many);
  ptx_place(p, rest);
  p->early = around;
}
