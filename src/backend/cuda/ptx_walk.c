/* ptx_walk.c -- serial loops whose loads and stores go forward by the same bytes in each step.
 *
 * Such an access has a register of its own that is the address, and moves on with the step: no multiplications inside. Of a
 * loop that carries something, where each step waits for the one before, what is loaded from inputs is also fetched ahead, into
 * registers, so that no step waits for memory: step t finds what was asked for at step t - depth. Loads only move forward in
 * time: an input that the kernel overwrites, in place, is read before it is written as it was. */
#include <string.h>
#include "backend/cuda/printer.h"

enum { MOST_WALKS = 24, FETCHED = 48 }; /* registers of what is fetched ahead */

static bool defines(const struct kir_block *b, int v) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    for (int i = 0; i < s->n_out; i++)
      if (s->out[i] == v) return true;
    if ((s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE) && s->var == v) return true;
    if (defines(&s->body, v)) return true;
  }
  return false;
}

/* Made of what is known before the loop, and of its variable at most once a product. */
static bool is_linear(const struct kir_stmt *loop, struct kir_lin l) {
  for (int i = 0; i < l.n; i++) {
    int n = 0;
    for (int j = 0; j < l.term[i].n; j++) {
      n += l.term[i].val[j] == loop->var;
      if (defines(&loop->body, l.term[i].val[j])) return false;
    }
    if (n > 1) return false;
  }
  return true;
}

static bool may_walk(const struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s) {
  if ((s->kind != KIR_LOAD && s->kind != KIR_STORE) || p->k->bufs[s->buf].kind == KIR_TABLE) return false;
  for (int d = 0; d < s->n_at; d++)
    if (!is_linear(loop, s->at[d])) return false;
  return true;
}

static bool has(const struct kir_block *b, enum kir_kind kind) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if ((enum kir_kind)s->kind == kind) return true;
  return false;
}

/* A loop that may end early, or lanes that rest, must not address what comes later. */
static bool may_fetch(const struct kir_stmt *loop) {
  return has(&loop->body, KIR_CARRY) && !has(&loop->body, KIR_UNTIL) && !has(&loop->body, KIR_CHECK);
}

/* An input whose elements are what a register holds, or halves, which are made numbers of when their turn comes. */
static bool is_fetched(const struct printer *p, const struct kir_stmt *s) {
  const struct kir_buf *b = &p->k->bufs[s->buf];
  bool is_half = b->dtype == WEFT_BF16 || b->dtype == WEFT_F16;
  return s->kind == KIR_LOAD && b->kind == KIR_IN && (is_half || (kir_is_register((weft_dtype)b->dtype) && b->dtype != WEFT_BOOL));
}

static int count_fetches(const struct printer *p, const struct kir_stmt *loop) {
  int n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) n += may_walk(p, loop, s) && is_fetched(p, s);
  return n;
}

/* How often the subscript counts the variable, if that is a number. */
static bool coefficient(struct kir_lin l, int var, int64_t *n) {
  *n = 0;
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++) {
      if (l.term[i].val[j] != var) continue;
      if (l.term[i].n > 1) return false;
      *n += l.term[i].coef;
    }
  return true;
}

/* Locals are row-major. */
static bool has_fixed_step_in_local(const struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s,
                                    int64_t *bytes) {
  for (int d = 0; d < s->n_at; d++) {
    int64_t n;
    if (!coefficient(s->at[d], loop->var, &n) || (n && d < s->n_at - 1) || n > INT16_MAX || n < -INT16_MAX) return false;
    *bytes += n * kir_width((weft_dtype)p->k->bufs[s->buf].dtype);
  }
  return true;
}

/* Bytes from a step to the next, where strides say so. What combines in memory needs its address in a register. */
static bool has_fixed_step(const struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, int64_t *bytes) {
  const struct kir_buf *b = &p->k->bufs[s->buf];
  *bytes = 0;
  if (s->kind == KIR_STORE && s->op != KIR_SET) return false;
  if (b->kind == KIR_LOCAL) return has_fixed_step_in_local(p, loop, s, bytes);
  if (b->kind > KIR_INOUT || p->survey.bufs[s->buf].private_op != KIR_OPS) return false;
  for (int d = 0; d < s->n_at; d++) {
    int stride = p->shape->stride[s->buf][d];
    int64_t n;
    if (stride == STRIDE_0) continue;
    if (!coefficient(s->at[d], loop->var, &n) || (n && stride == STRIDE_ANY) || n > INT16_MAX || n < -INT16_MAX) return false;
    if (n) *bytes += n * kir_width((weft_dtype)b->dtype) * (stride == STRIDE_1 ? 1 : -1);
  }
  return true;
}

/* The address for the loop's first index, and how far it is from there to the next one's. The variable is the first index. */
static void begin(struct printer *p, const struct kir_stmt *loop, struct ptx_walk *w) {
  const char *var = ptx_val(p, loop->var), *first = ptx_swing(p, w->s);
  if (!first) first = ptx_address(p, w->s->buf, w->s->at);
  w->at = ptx_own(p, OWN_LONG);
  if (has_fixed_step(p, loop, w->s, &w->bytes)) { ptx_line(p, "mov.s64 %s, %s", w->at, first); return; }
  w->step = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, 1", var, var);
  ptx_line(p, "sub.s64 %s, %s, %s", w->step, ptx_address(p, w->s->buf, w->s->at), first);
  ptx_line(p, "sub.s64 %s, %s, 1", var, var);
  ptx_line(p, "mov.s64 %s, %s", w->at, first);
}

/* ---- rows that are stored at once ---- */

enum { AT_ONCE = 16 }; /* bytes */

static bool is_number(struct kir_lin l, int64_t *n) {
  *n = l.n ? l.term[0].coef : 0;
  return l.n == 0 || (l.n == 1 && !l.term[0].n);
}

/* The element of a row that s stores into, of an array whose rows are as long as that number; -1: it is none. */
static int64_t element(const struct printer *p, const struct kir_stmt *s, int64_t *length) {
  const struct kir_buf *b = &p->k->bufs[s->buf];
  int last = s->n_at - 1;
  int64_t n;
  if (s->kind != KIR_STORE || s->op != KIR_SET || last < 1 || b->kind != KIR_OUT) return -1;
  if (p->survey.bufs[s->buf].private_op != KIR_OPS || p->shape->stride[s->buf][last] != STRIDE_1) return -1;
  for (int d = 0; d < last; d++)
    if (p->shape->stride[s->buf][d] == STRIDE_1 || p->shape->stride[s->buf][d] == STRIDE_MINUS_1) return -1;
  if (!kir_is_register((weft_dtype)b->dtype) || b->dtype == WEFT_BOOL || kir_width((weft_dtype)b->dtype) < 4) return -1;
  return is_number(s->at[last], &n) && is_number(b->dims[last], length) ? n : -1;
}

static bool is_same_row(const struct kir_stmt *a, const struct kir_stmt *b) {
  if (a->buf != b->buf) return false;
  for (int d = 0; d < a->n_at - 1; d++) if (!kir_lin_equal(a->at[d], b->at[d])) return false;
  return true;
}

/* How many stores from s on, one behind the other, are such a row or a part of it that begins at a multiple of its bytes wherever
 * rows do; 0: none. */
static int row_of(const struct printer *p, const struct kir_stmt *s) {
  int64_t length, other, first = element(p, s, &length);
  if (first < 0) return 0;
  int most = AT_ONCE / kir_width((weft_dtype)p->k->bufs[s->buf].dtype), n = 1;
  while (most > 1 && (length % most || first % most)) most /= 2;
  const struct kir_stmt *x = s->next;
  for (; x && n < most && element(p, x, &other) == first + n && is_same_row(s, x); x = x->next) n++;
  return n == most && n > 1 ? n : 0;
}

static struct ptx_walk *row_with(const struct printer *p, const struct kir_stmt *s, int *which) {
  for (int i = 0; p->walks && i < p->walks->n; i++) {
    struct ptx_walk *w = &p->walks->walk[i];
    const struct kir_stmt *x = w->s;
    for (*which = 0; *which < w->n_row; ++*which, x = x->next) if (x == s) return w;
  }
  return NULL;
}

/* It is the same for all threads: wherever the array and its rows begin. */
void ptx_walks_part(struct printer *p, const struct ptx_walks *all, const char *others) {
  for (int i = 0; i < all->n; i++) {
    const struct ptx_walk *w = &all->walk[i];
    if (!w->n_row) continue;
    const char *bits = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
    ptx_line(p, "mov.b64 %s, %s", bits, p->base[w->s->buf]);
    for (int d = 0; d < w->s->n_at - 1; d++) {
      const char *stride = ptx_stride(p, w->s->buf, d);
      if (stride) ptx_line(p, "or.b64 %s, %s, %s", bits, bits, stride);
    }
    ptx_line(p, "and.b64 %s, %s, %d", bits, bits, w->n_row * kir_width((weft_dtype)p->k->bufs[w->s->buf].dtype) - 1);
    ptx_line(p, "setp.ne.b64 %s, %s, 0", is, bits);
    ptx_line(p, "@%s bra %s", is, others);
  }
}

bool ptx_walk_store(struct printer *p, const struct kir_stmt *s) {
  int which;
  const struct ptx_walk *w = row_with(p, s, &which);
  if (!w) return false;
  weft_dtype d = (weft_dtype)p->k->bufs[s->buf].dtype;
  const char *text = "";
  if (p->walks->turn < 0) {
    ptx_store_value(p, ".global", d, ptx_textf(p, "%s+%d", w->at, (int)w->passed + which * kir_width(d)), s->in[0]);
    return true;
  }
  if (which < w->n_row - 1) return true; /* with the last */
  const struct kir_stmt *x = w->s;
  for (int i = 0; i < w->n_row; i++, x = x->next)
    text = ptx_textf(p, "%s%s%s", text, i ? ", " : "", ptx_in_register(p, (weft_dtype)p->k->vals[x->in[0]].dtype, x->in[0]));
  ptx_line(p, "st.global.v%d.%s [%s+%d], {%s}", w->n_row, ptx_bits(d), w->at, (int)w->passed, text);
  return true;
}

struct ptx_walks ptx_walks_begin(struct printer *p, const struct kir_stmt *loop, int depth, bool in_lane) {
  struct ptx_walks all = { .before = p->walks, .loop = loop, .turn = -1 };
  all.walk = arena_take(p->arena, MOST_WALKS * sizeof *all.walk);
  int fetches = may_fetch(loop) ? count_fetches(p, loop) : 0;
  if (!all.walk) return ptx_refuse(p, ""), all;
  if (fetches) all.depth = fetches * depth <= FETCHED ? depth : FETCHED / fetches >= 2 ? FETCHED / fetches : 0;
  for (const struct kir_stmt *s = loop->body.first; s && all.n < MOST_WALKS; s = s->next) {
    if (!may_walk(p, loop, s)) continue;
    struct ptx_walk *w = &all.walk[all.n++];
    *w = (struct ptx_walk){ .s = s, .is_fetched = all.depth && is_fetched(p, s) };
    if (in_lane && all.depth && !p->guard) w->n_row = row_of(p, s);
    begin(p, loop, w);
    for (int i = 1; i < w->n_row; i++) s = s->next;
  }
  return all;
}

static struct ptx_walk *walk_of(const struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; p->walks && i < p->walks->n; i++)
    if (p->walks->walk[i].s == s) return &p->walks->walk[i];
  return NULL;
}

static const char *address_now(struct printer *p, const struct ptx_walk *w) {
  return w->passed ? ptx_textf(p, "%s+%d", w->at, (int)w->passed) : w->at;
}

const char *ptx_walk_address(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_walk *w = walk_of(p, s);
  return w ? address_now(p, w) : NULL;
}

static void fetch(struct printer *p, struct ptx_walk *w, int i) {
  const char *at = w->bytes ? ptx_textf(p, "%s+%d", w->ahead, (int)(i * w->bytes)) : w->ahead;
  ptx_load_bytes(p, ".global.nc", (weft_dtype)p->k->bufs[w->s->buf].dtype, w->fetched[i], at);
  if (w->step) ptx_line(p, "add.s64 %s, %s, %s", w->ahead, w->ahead, w->step);
}

static void fetched_all(struct printer *p, const struct ptx_walk *w, int depth) {
  if (!w->step && w->bytes) ptx_line(p, "add.s64 %s, %s, %d", w->ahead, w->ahead, (int)(depth * w->bytes));
}

/* Asks for the first `depth` steps. */
void ptx_walks_fetch(struct printer *p, struct ptx_walks *all) {
  for (int k = 0; k < all->n; k++) {
    struct ptx_walk *w = &all->walk[k];
    if (!w->is_fetched) continue;
    w->fetched = arena_take(p->arena, (size_t)all->depth * sizeof *w->fetched);
    if (!w->fetched) { ptx_refuse(p, ""); return; }
    w->ahead = ptx_own(p, OWN_LONG);
    ptx_line(p, "mov.s64 %s, %s", w->ahead, w->at);
    for (int i = 0; i < all->depth; i++) {
      w->fetched[i] = ptx_carrier(p, (weft_dtype)p->k->bufs[w->s->buf].dtype, (weft_dtype)p->k->vals[w->s->out[0]].dtype);
      fetch(p, w, i);
    }
    fetched_all(p, w, all->depth);
  }
}

/* A copy of the body that has a turn takes what was fetched, and asks for what is due depth steps later. */
bool ptx_walk_load(struct printer *p, const struct kir_stmt *s) {
  struct ptx_walk *w = walk_of(p, s);
  if (!w) return false;
  if (!w->is_fetched || p->walks->turn < 0) return ptx_load_plain(p, s->buf, s->out[0], address_now(p, w)), true;
  ptx_take_bytes(p, (weft_dtype)p->k->bufs[s->buf].dtype, s->out[0], w->fetched[p->walks->turn]);
  fetch(p, w, p->walks->turn);
  if (p->walks->turn == p->walks->depth - 1) fetched_all(p, w, p->walks->depth);
  return true;
}

/* Nothing but instructions, and loads that walk: so all of them may be loaded before anything is computed. */
static bool only_loads(const struct ptx_walks *all) {
  int n = 0;
  for (const struct kir_stmt *s = all->loop->body.first; s; s = s->next) {
    if (s->kind == KIR_LOAD) n++;
    else if (s->kind != KIR_OP && s->kind != KIR_CARRY && s->kind != KIR_NEXT) return false;
  }
  for (int k = 0; k < all->n; k++) if (all->walk[k].s->kind != KIR_LOAD) return false;
  return n == all->n;
}

/* The next address of a walk, for copy i of the body that is printed ahead. */
static const char *address_ahead(struct printer *p, struct ptx_walk *w, int i) {
  if (!w->step) return ptx_textf(p, "%s+%d", w->at, (int)(w->passed + i * w->bytes));
  const char *at = i ? ptx_own(p, OWN_LONG) : w->at;
  if (i) ptx_line(p, "add.s64 %s, %s, %s", at, w->ahead, w->step);
  return w->ahead = at;
}

/* Words side by side in shared memory, of which the first of four is aligned: those of a local along the loop. */
static bool is_in_fours(const struct printer *p, const struct ptx_walks *all, const struct ptx_walk *w) {
  const struct kir_buf *b = &p->k->bufs[w->s->buf];
  weft_dtype d = (weft_dtype)b->dtype;
  if (b->kind != KIR_LOCAL || !p->plan->locals_are_shared || w->step || w->bytes != 4) return false;
  if (kir_width(d) != 4 || !kir_is_register(d) || all->loop->extent != KIR_N) return false;
  struct kir_lin l = w->s->at[w->s->n_at - 1];
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == all->loop->var;
}

/* Copies i .. i + 3 of such a load. */
static void load_four(struct printer *p, struct ptx_walk *w, int k, int i) {
  const char **r = &p->early.reg[k][i];
  for (int j = 0; j < 4; j++) r[j] = ptx_own(p, OWN_WORD);
  ptx_line(p, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", r[0], r[1], r[2], r[3], w->at, (int)(w->passed + i * w->bytes));
}

static bool is_held(const struct ptx_held *held, const struct ptx_walk *w) { return held && held->load == w->s; }

bool ptx_walks_ahead(struct printer *p, struct ptx_walks *all, int copies, const struct ptx_held *held) {
  if (all->depth || !all->n || all->n > PTX_EARLY || copies > PTX_EARLY_COPIES || !only_loads(all)) return false;
  p->early = (struct ptx_early){ .n = all->n, .turn = -1 };
  for (int i = 0; i < copies; i++)
    for (int k = 0; k < all->n; k++) {
      struct ptx_walk *w = &all->walk[k];
      const struct kir_buf *b = &p->k->bufs[w->s->buf];
      p->early.s[k] = w->s;
      if (is_held(held, w)) { p->early.reg[k][i] = held->reg[i]; continue; }
      if (copies >= PTX_LONG_ROW && is_in_fours(p, all, w)) {
        if (i % 4 == 0) load_four(p, w, k, i);
        continue;
      }
      const char *at = address_ahead(p, w, i), *space = b->kind == KIR_IN ? ".global.nc" : ptx_space(p, w->s->buf);
      p->early.reg[k][i] = ptx_own_of(p, (weft_dtype)p->k->vals[w->s->out[0]].dtype);
      ptx_load(p, space, (weft_dtype)b->dtype, p->early.reg[k][i], at);
    }
  for (int k = 0; k < all->n; k++) {
    struct ptx_walk *w = &all->walk[k];
    if (w->step && is_held(held, w)) ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", w->at, w->step, copies, w->at);
    else if (w->step) ptx_line(p, "add.s64 %s, %s, %s", w->at, w->ahead, w->step);
    else w->passed += copies * w->bytes;
  }
  return all->is_ahead = true;
}

/* ---- lanes in a serial loop ---- */

enum { STEPS_AHEAD = 8 };

static bool is_steady(const struct kir_stmt *time, const struct kir_stmt *lane, struct kir_lin l) {
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++)
      if (l.term[i].val[j] != time->var && l.term[i].val[j] != lane->var && defines(&time->body, l.term[i].val[j])) return false;
  return true;
}

/* An input that the lane reads at another place in each step of time, all of which are known and gone through. */
static bool is_asked_ahead(const struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane,
                           const struct kir_stmt *s) {
  bool moves = false;
  if (p->k->bufs[s->buf].kind != KIR_IN || !may_fetch(time)) return false;
  for (int d = 0; d < s->n_at; d++) {
    if (!is_steady(time, lane, s->at[d])) return false;
    moves |= survey_mentions(s->at[d], time->var);
  }
  return moves;
}

/* ---- What stays the same over time ---- */

static bool is_of_launch(const struct kir_kernel *k, struct kir_lin l) {
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++) {
      int kind = k->vals[l.term[i].val[j]].kind;
      if (kind != KIR_SIZE && kind != KIR_ARG) return false;
    }
  return true;
}

static bool stores_into(const struct kir_block *b, int buf) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if ((s->kind == KIR_STORE && s->buf == buf) || stores_into(&s->body, buf)) return true;
  return false;
}

/* A load of the threads' own memory whose subscripts are the two loops and what is known before time begins. */
static bool can_be_held(const struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane,
                        const struct kir_stmt *loop, const struct kir_stmt *s) {
  if (s->kind != KIR_LOAD || p->k->bufs[s->buf].kind != KIR_LOCAL || stores_into(&time->body, s->buf)) return false;
  bool by_loop = false, by_lane = false;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        by_loop |= v == loop->var, by_lane |= v == lane->var;
        if (v != loop->var && v != lane->var && (v == time->var || defines(&time->body, v))) return false;
      }
  return by_loop && by_lane; /* what all lanes share comes to all of them at once anyway */
}

/* At most one step of time a product, so that the address moves on by the same bytes. */
static bool moves_evenly(const struct kir_stmt *time, const struct kir_stmt *lane, const struct kir_stmt *s) {
  bool moves = false;
  for (int d = 0; d < s->n_at; d++) {
    if (!is_steady(time, lane, s->at[d])) return false;
    for (int i = 0; i < s->at[d].n; i++) {
      int n = 0;
      for (int j = 0; j < s->at[d].term[i].n; j++) n += s->at[d].term[i].val[j] == time->var;
      if (n > 1) return false;
      moves |= n > 0;
    }
  }
  return moves;
}

static bool is_moving(const struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane, const struct kir_stmt *s) {
  if ((s->kind != KIR_LOAD && s->kind != KIR_STORE) || !moves_evenly(time, lane, s)) return false;
  if (s->kind == KIR_LOAD) return is_fetched(p, s) && may_fetch(time);
  return s->op == KIR_SET && p->k->bufs[s->buf].kind == KIR_OUT;
}

/* The addresses of the first step of time. */
static void hold_moving(struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane) {
  struct ptx_held *h = &p->held;
  const char *t = ptx_val(p, time->var);
  for (const struct kir_stmt *s = lane->body.first; s && h->n_moving < PTX_NEXT; s = s->next) {
    if (!is_moving(p, time, lane, s)) continue;
    const char *at = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG);
    ptx_line(p, "mov.s64 %s, %s", at, ptx_address(p, s->buf, s->at));
    ptx_line(p, "add.s64 %s, %s, 1", t, t);
    ptx_line(p, "sub.s64 %s, %s, %s", by, ptx_address(p, s->buf, s->at), at);
    ptx_line(p, "sub.s64 %s, %s, 1", t, t);
    h->moving[h->n_moving].s = s;
    h->moving[h->n_moving].reg = s->kind == KIR_LOAD ? ptx_own_of(p, (weft_dtype)p->k->bufs[s->buf].dtype) : NULL;
    h->moving[h->n_moving].at = at, h->moving[h->n_moving++].by = by;
  }
}

/* The one number of a step that the subscripts of an access of a local mention, once and by itself; else -1. `inside`: a loop in
 * the lane whose variable is 0. */
static int swinging(const struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane, int inside,
                    const struct kir_stmt *s) {
  int number = -1;
  if ((s->kind != KIR_LOAD && s->kind != KIR_STORE) || p->k->bufs[s->buf].kind != KIR_LOCAL) return -1;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        if (v == lane->var || v == inside || (v != time->var && !defines(&time->body, v))) continue;
        if (number >= 0 || s->at[d].term[i].n > 1 || v == time->var || p->k->vals[v].dtype != WEFT_I64) return -1;
        number = v;
      }
  return number;
}

/* Where such accesses are while the number is 0, and how much further while it is 1. */
static void hold_swings(struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane, const struct kir_block *b,
                        int inside) {
  struct ptx_held *h = &p->held;
  for (const struct kir_stmt *s = b->first; s && h->n_swings < PTX_SWINGS; s = s->next) {
    if (s->kind == KIR_SERIAL && s->extent == KIR_N && inside < 0) {
      ptx_line(p, "mov.s64 %s, 0", ptx_val(p, s->var));
      hold_swings(p, time, lane, &s->body, s->var);
    }
    int number = swinging(p, time, lane, inside, s);
    if (number < 0 || h->n_swings == PTX_SWINGS) continue;
    const char *at = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG), *before = ptx_own(p, OWN_LONG), *r = ptx_val(p, number);
    ptx_line(p, "mov.s64 %s, %s", before, r);
    ptx_line(p, "mov.s64 %s, 0", r);
    ptx_line(p, "mov.s64 %s, %s", at, ptx_address(p, s->buf, s->at));
    ptx_line(p, "mov.s64 %s, 1", r);
    ptx_line(p, "sub.s64 %s, %s, %s", by, ptx_address(p, s->buf, s->at), at);
    ptx_line(p, "mov.s64 %s, %s", r, before);
    h->swing[h->n_swings].s = s, h->swing[h->n_swings].number = number;
    h->swing[h->n_swings].at = at, h->swing[h->n_swings++].by = by;
  }
}

const char *ptx_swing(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; p->held.is_straight && i < p->held.n_swings; i++) {
    if (p->held.swing[i].s != s) continue;
    const char *at = ptx_own(p, OWN_LONG);
    ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", at, ptx_val(p, p->held.swing[i].number), p->held.swing[i].by, p->held.swing[i].at);
    return at;
  }
  return NULL;
}

static int find_moving(const struct printer *p, const struct kir_stmt *s) {
  int i = p->held.is_straight ? p->held.n_moving - 1 : -1;
  while (i >= 0 && p->held.moving[i].s != s) i--;
  return i;
}

void ptx_step_held(struct printer *p, const char *more) {
  const char *ahead = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, 1", ahead, p->held.time);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", more, ahead, p->held.last);
}

void ptx_fetch_held(struct printer *p) {
  const char *guard = p->guard;
  p->guard = p->held.is;
  for (int i = 0; i < p->held.n_moving; i++) {
    weft_dtype d = (weft_dtype)p->k->bufs[p->held.moving[i].s->buf].dtype;
    if (p->held.moving[i].reg) ptx_load(p, ".global.nc", d, p->held.moving[i].reg, p->held.moving[i].at);
  }
  p->guard = guard;
}

/* What was asked for in the step before; and what the next step wants. */
bool ptx_load_held(struct printer *p, const struct kir_stmt *s) {
  int i = find_moving(p, s);
  if (i < 0) return false;
  weft_dtype d = (weft_dtype)p->k->bufs[s->buf].dtype;
  const char *guard = p->guard, *at = p->held.moving[i].at, *more = ptx_own(p, OWN_PRED);
  ptx_mov(p, d, ptx_val(p, s->out[0]), p->held.moving[i].reg);
  ptx_step_held(p, more);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, p->held.moving[i].by);
  p->guard = more;
  ptx_load(p, ".global.nc", d, p->held.moving[i].reg, at);
  p->guard = guard;
  return true;
}

const char *ptx_store_held(struct printer *p, const struct kir_stmt *s) {
  int i = find_moving(p, s);
  return i < 0 ? ptx_swing(p, s) : p->held.moving[i].at;
}

void ptx_move_held(struct printer *p, const struct kir_stmt *s) {
  int i = find_moving(p, s);
  if (i >= 0) ptx_line(p, "add.s64 %s, %s, %s", p->held.moving[i].at, p->held.moving[i].at, p->held.moving[i].by);
}

void ptx_hold(struct printer *p, const struct kir_stmt *time, const struct kir_stmt *lane, const struct kir_stmt *loop, int steps) {
  const struct kir_stmt *s = loop->body.first;
  while (s && !can_be_held(p, time, lane, loop, s)) s = s->next;
  if (!s || steps > PTX_EARLY_COPIES || lane->extent != KIR_N || loop->extent != KIR_N) return;
  if (!is_of_launch(p->k, lane->at[0]) || !is_of_launch(p->k, loop->at[0])) return;
  const char *n = ptx_lin(p, lane->at[0]), *j = ptx_val(p, lane->var), *k = ptx_val(p, loop->var), *skip = ptx_label(p, "unheld");
  const char *at = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG), *first;
  struct ptx_held *h = &p->held;
  *h = (struct ptx_held){ .loop = loop, .load = s, .lane = lane, .all = ptx_own(p, OWN_PRED), .is = ptx_own(p, OWN_PRED) };
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "setp.le.s64 %s, %s, $lanes", h->all, n);
  ptx_line(p, "setp.ge.and.s64 %s, %s, %d, %s", h->all, ptx_lin(p, loop->at[0]), steps, h->all);
  ptx_line(p, "setp.lt.and.s64 %s, $lane, %s, %s", h->is, n, h->all); /* threads without a lane hold nothing */
  ptx_line(p, "@!%s bra %s", h->is, skip);
  ptx_line(p, "mov.s64 %s, $lane", j);
  ptx_line(p, "mov.s64 %s, 0", k);
  ptx_line(p, "mov.s64 %s, %s", at, first = ptx_address(p, s->buf, s->at));
  ptx_line(p, "mov.s64 %s, 1", k);
  ptx_line(p, "sub.s64 %s, %s, %s", by, ptx_address(p, s->buf, s->at), first);
  for (int i = 0; i < steps; i++) {
    weft_dtype d = (weft_dtype)p->k->bufs[s->buf].dtype;
    ptx_load(p, ptx_space(p, s->buf), d, h->reg[i] = ptx_own_of(p, (weft_dtype)p->k->vals[s->out[0]].dtype), at);
    ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  }
  hold_moving(p, time, lane);
  hold_swings(p, time, lane, &lane->body, -1);
  ptx_place(p, skip);
}

void ptx_walks_step(struct printer *p, struct ptx_walks *all) {
  if (all->is_ahead) return;
  for (int k = 0; k < all->n; k++) {
    struct ptx_walk *w = &all->walk[k];
    if (w->step) ptx_line(p, "add.s64 %s, %s, %s", w->at, w->at, w->step);
    else w->passed += w->bytes;
  }
}

void ptx_walks_settle(struct printer *p, struct ptx_walks *all) {
  for (int k = 0; k < all->n; k++) {
    struct ptx_walk *w = &all->walk[k];
    if (w->passed) ptx_line(p, "add.s64 %s, %s, %d", w->at, w->at, (int)w->passed);
    w->passed = 0;
  }
}

/* What this lane will load some steps later comes into the second cache meanwhile. */
void ptx_ask_ahead(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  if (!w->time || !w->lane || w->serial || !is_asked_ahead(p, w->time, w->lane, s)) return;
  const char *t = ptx_val(p, w->time->var), *is_there = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, %d", t, t, STEPS_AHEAD);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is_there, t, w->time_end);
  ptx_line(p, "@%s prefetch.global.L2 [%s]", is_there, ptx_address(p, s->buf, s->at));
  ptx_line(p, "sub.s64 %s, %s, %d", t, t, STEPS_AHEAD);
}
