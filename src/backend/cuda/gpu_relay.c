/* gpu_relay.c -- the entry of kernels whose rows are handed on, and what its warps share: see gpu_relay.h. */
#include "backend/cuda/gpu_relay.h"

int relay_width(const struct printer *p, int buf) { return kir_width((weft_dtype)p->k->bufs[buf].dtype); }

/* ---- Places and barriers ---------------------------------------------------------------------------------------------------- */

const char *relay_barrier(struct printer *p, const struct relaying *r, const char *i, int which) {
  const char *at = ptx_long(p);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, i, 8 * RELAY_BARRIERS, r->head);
  ptx_line(p, "add.s64 %s, %s, %d", at, at, 8 * (1 + which));
  return at;
}

void relay_await(struct printer *p, const char *barrier, const char *turn) {
  const char *is = ptx_pred(p), *again = ptx_label(p, "await");
  ptx_place_loop(p, again);
  ptx_line(p, "mbarrier.try_wait.parity.shared::cta.b64 %s, [%s], %s", is, barrier, turn);
  ptx_line(p, "@!%s bra %s", is, again);
}

void relay_arrive(struct printer *p, const char *barrier, const char *is) {
  ptx_line(p, "@%s mbarrier.arrive.shared::cta.b64 _, [%s]", is, barrier);
}

/* Bytes an element of what stands before read i: of rows, or of vectors. */
static int bytes_before(const struct printer *p, const struct kir_relay *x, int i) {
  int bytes = 0;
  for (int k = 0; k < i; k++) if (x->read[k].is_row == x->read[i].is_row) bytes += relay_width(p, x->read[k].buf);
  return bytes;
}

int relay_bytes(const struct printer *p, const struct kir_relay *x, bool of_rows) {
  int bytes = 0;
  for (int k = 0; k < x->n_reads; k++) if (x->read[k].is_row == of_rows) bytes += relay_width(p, x->read[k].buf);
  return bytes;
}

const char *relay_begin(struct printer *p, const struct relaying *r, int i, const char *place) {
  const char *at = ptx_long(p);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, r->n, bytes_before(p, r->x, i), r->x->read[i].is_row ? place : r->vectors);
  return at;
}

const char *relay_slot(struct printer *p, const struct relaying *r, const char *i) {
  const char *at = ptx_long(p);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, i, 8 * r->x->n_slots, r->slots);
  return at;
}

/* ---- Asking for rows -------------------------------------------------------------------------------------------------------- */

void relay_ask(struct printer *p, const struct relaying *r, bool of_rows, const char *place, const char *barrier) {
  const char *bytes = ptx_word(p), *n = ptx_word(p), *all = ptx_word(p);
  int each = relay_bytes(p, r->x, of_rows);
  if (!each) return;
  ptx_line(p, "cvt.u32.u64 %s, %s", n, r->n);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", all, n, each);
  ptx_line(p, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], %s", barrier, all);
  for (int i = 0; i < r->x->n_reads; i++) {
    const struct kir_relayed *read = &r->x->read[i];
    if (read->is_row != of_rows) continue;
    struct kir_term row = { .coef = 1, .n = 1, .val = { r->x->rows->var } };
    struct kir_lin at[2] = { { 0, NULL }, { 0, NULL } };
    if (of_rows) at[!read->axis] = (struct kir_lin){ 1, &row };
    ptx_line(p, "mul.lo.u32 %s, %s, %d", bytes, n, relay_width(p, read->buf));
    ptx_line(p, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%s], %s, [%s]",
             relay_begin(p, r, i, place), ptx_address(p, read->buf, at), bytes, barrier);
  }
}

/* ---- The entry -------------------------------------------------------------------------------------------------------------- */

/* A value that is the same for all rows: made of numbers, sizes and others of its kind, or loaded where those say. */
bool relay_is_known(const struct relaying *r, const struct kir_stmt *s) {
  bool is = s->kind == KIR_OP || s->kind == KIR_LOAD;
  for (int i = 0; i < s->n_in; i++) is = is && r->is_known[s->in[i]];
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) is = is && r->is_known[s->at[d].term[i].val[j]];
  return is;
}

static void compute_once(struct printer *p, const struct relaying *r, struct where w) {
  for (int v = 0; v < p->k->n_vals; v++) r->is_known[v] = p->k->vals[v].kind != KIR_RESULT && p->k->vals[v].kind != KIR_AXIS;
  for (const struct kir_stmt *s = p->k->body.first; s != r->x->blocks; s = s->next) {
    ptx_statements(p, s, s->next, w);
    for (int i = 0; i < s->n_out; i++) r->is_known[s->out[i]] = true;
  }
  for (const struct kir_stmt *s = r->x->rows->body.first; s; s = s->next) {
    if (!relay_is_known(r, s)) continue;
    ptx_statements(p, s, s->next, w);
    r->is_known[s->out[0]] = true;
  }
}

void relay_set_row(struct printer *p, const struct relaying *r, const char *i) {
  const char *wide = ptx_long(p);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, i);
  ptx_line(p, "add.s64 %s, %s, %s", ptx_val(p, r->x->rows->var), wide, r->first);
}

bool relay_needs_index(const struct relaying *r) {
  for (int i = 0; i < r->x->n_loops; i++) if (r->needs[r->x->loop[i]->var]) return true;
  return false;
}

void relay_number(struct printer *p, const struct relaying *r, int e, int n, int step) {
  const struct kir_relay *x = r->x;
  for (int k = 0; k < n; k++) {
    const char *index = p->wide[e + k][x->loop[0]->var];
    if (k) ptx_line(p, "add.s64 %s, %s, %d", index, p->wide[e][x->loop[0]->var], step * k);
    for (int i = 1; i < x->n_loops; i++)
      if (r->needs[x->loop[i]->var]) ptx_line(p, "mov.s64 %s, %s", p->wide[e + k][x->loop[i]->var], index);
    p->is_used[x->loop[0]->var] = true;
    for (int i = 1; i < x->n_loops; i++) p->is_used[x->loop[i]->var] |= r->needs[x->loop[i]->var];
  }
}

static void find_rows(struct printer *p, struct relaying *r) {
  const char *hi = ptx_long(p), *q = ptx_val(p, r->x->blocks->var), *b = ptx_lin(p, r->x->blocks->at[1]);
  p->uses_thread[PTX_ROWS] = true;
  ptx_line(p, "mov.s64 %s, $row", q);
  ptx_line(p, "mul.lo.s64 %s, %s, %s", r->first = ptx_long(p), q, b);
  ptx_line(p, "sub.s64 %s, %s, %s", hi, ptx_lin(p, r->x->blocks->at[0]), r->first);
  ptx_line(p, "min.s64 %s, %s, %s", hi, hi, b);
  ptx_line(p, "cvt.u32.u64 %s, %s", r->count = ptx_word(p), hi);
}

static void find_places(struct printer *p, struct relaying *r) {
  const char *n = ptx_long(p);
  ptx_line(p, "ld.param.u64 %s, [q_streams]", n);
  ptx_line(p, "cvt.u32.u64 %s, %s", r->n_places = ptx_word(p), n);
  ptx_line(p, "mov.u64 %s, relayed", r->head = ptx_long(p));
  ptx_line(p, "add.s64 %s, %s, %d", r->slots = ptx_long(p), r->head, RELAY_HEAD);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", r->vectors = ptx_long(p), n, 8 * r->x->n_slots, r->slots);
  ptx_line(p, "add.s64 %s, %s, 15", r->vectors, r->vectors);
  ptx_line(p, "and.b64 %s, %s, -16", r->vectors, r->vectors);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", r->places = ptx_long(p), r->n, relay_bytes(p, r->x, false), r->vectors);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", r->place_bytes = ptx_long(p), r->n, relay_bytes(p, r->x, true));
}

/* The first thread sets up the barriers. */
static void begin_barriers(struct printer *p, const struct relaying *r, const char *n_writers) {
  const char *skip = ptx_label(p, "set");
  p->uses_first = true;
  ptx_line(p, "@!$first bra %s", skip);
  ptx_line(p, "mbarrier.init.shared::cta.b64 [%s], 1", r->head);
  for (int i = 0; i < RELAY_ADDERS * RELAY_BARRIERS; i++) {
    const char *n = i % RELAY_BARRIERS == RELAY_FREE ? n_writers : "1";
    ptx_line(p, "mbarrier.init.shared::cta.b64 [%s+%d], %s", r->head, 8 * (1 + i), n);
  }
  ptx_line(p, "fence.proxy.async.shared::cta");
  ptx_place(p, skip);
  ptx_line(p, "bar.sync 0");
}

/* Which warp this is, and of how many writers; own: which adder. */
static const char *find_warp(struct printer *p, struct relaying *r, const char *n_writers) {
  const char *own = ptx_word(p);
  r->lane = ptx_word(p), r->warp = ptx_word(p);
  ptx_line(p, "mov.u32 %s, %%tid.x", r->warp);
  ptx_line(p, "and.b32 %s, %s, 31", r->lane, r->warp);
  ptx_line(p, "shr.u32 %s, %s, 5", r->warp, r->warp);
  ptx_line(p, "mov.u32 %s, %%ntid.x", n_writers);
  ptx_line(p, "shr.u32 %s, %s, 5", n_writers, n_writers);
  ptx_line(p, "sub.u32 %s, %s, %s", n_writers, n_writers, r->n_places);
  ptx_line(p, "sub.u32 %s, %s, %s", own, r->warp, n_writers);
  return own;
}

/* Each warp goes its way, once the vectors are there. Adders are printed first: they say which values are halves. */
static void roles(struct printer *p, struct relaying *r, struct where w) {
  const char *n_writers = ptx_word(p), *is = ptx_pred(p), *writes = ptx_label(p, "writes"), *asked = ptx_label(p, "asked");
  const char *own = find_warp(p, r, n_writers);
  begin_barriers(p, r, n_writers);
  if (relay_bytes(p, r->x, false)) {
    ptx_line(p, "@!$first bra %s", asked);
    relay_ask(p, r, false, NULL, r->head);
    ptx_place(p, asked);
    relay_await(p, r->head, "0");
  }
  ptx_line(p, "setp.lt.u32 %s, %s, %s", is, r->warp, n_writers);
  ptx_line(p, "@%s bra %s", is, writes);
  relay_adders(p, r, own, w);
  ptx_place(p, writes);
  relay_writers(p, r, w);
}

void ptx_relay_body(struct printer *p) {
  struct kir_relay *x = arena_take(p->arena, sizeof *x);
  struct relaying *r = arena_take(p->arena, sizeof *r);
  bool *by_value = arena_take(p->arena, 2 * ((size_t)p->k->n_vals + 1));
  struct where w = { .rest = ptx_label(p, "done") };
  if (!x || !r || !by_value || !kir_find_relay(p->k, x)) { ptx_refuse(p, ""); return; }
  *r = (struct relaying){ .x = x, .needs = by_value, .is_known = by_value + p->k->n_vals + 1, .each = p->plan->relay.each };
  p->threads = RELAY_THREADS, p->blocks = 1;
  if (!ptx_name_elements(p, RELAY_EACH)) return;
  if (p->plan->merges_early) ptx_line(p, "griddepcontrol.launch_dependents");
  compute_once(p, r, w);
  r->n = ptx_lin(p, x->loop[0]->at[0]);
  find_rows(p, r);
  find_places(p, r);
  roles(p, r, w);
  ptx_place(p, w.rest);
}
