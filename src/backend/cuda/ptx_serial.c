/* ptx_serial.c -- folds and prefixes in one thread: along a serial loop, and along a row that a thread has to itself.
 *
 * A fold along a serial loop adds blocks of 128 elements in order and counts the blocks, as a binary number counts: two of a rank
 * become one of the next. The counter is in local memory, which a register of it names (struct ptx_counter). */
#include "backend/cuda/ptx_reduce.h"

enum { LEVELS = 48 }; /* of a counter: more blocks than anybody has elements */

struct ptx_counter *reduce_counter_of(struct printer *p, const struct kir_stmt *s) { return &p->counter[s->out[0]]; }

static const char *stack(struct printer *p, const struct kir_stmt *s) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, stack", at);
  if (reduce_counter_of(p, s)->offset) ptx_line(p, "add.u64 %s, %s, %d", at, at, reduce_counter_of(p, s)->offset);
  return at;
}

/* Entries are words of 8 bytes, those of a tuple side by side. */
static void get_entry(struct printer *p, const struct kir_stmt *s, const char *at, const char *const to[]) {
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = ptx_dtype(p, s->out[i]);
    const char *w = d == WEFT_BOOL ? ptx_own(p, OWN_WORD) : to[i];
    ptx_line(p, "ld.local.%s %s, [%s+%d]", d == WEFT_BOOL ? "u32" : ptx_bits(d), w, at, 8 * i);
    if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", to[i], w);
  }
}

static void put_entry(struct printer *p, const struct kir_stmt *s, const char *at, const char *const from[]) {
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = ptx_dtype(p, s->out[i]);
    const char *w = from[i];
    if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", w = ptx_own(p, OWN_WORD), from[i]);
    ptx_line(p, "st.local.%s [%s+%d], %s", d == WEFT_BOOL ? "u32" : ptx_bits(d), at, 8 * i, w);
  }
}

void ptx_serial_start(struct printer *p, const struct kir_stmt *s) {
  struct ptx_counter *c = reduce_counter_of(p, s);
  ptx_start(p, s);
  if (!ptx_is_ordered(p->k, s) || !reduce_fits(p, s)) return;
  if (s->kind == KIR_PREFIX) {
    reduce_fresh(p, s, c->inside);
    reduce_fresh(p, s, c->before);
    c->has = ptx_own(p, OWN_PRED);
    return;
  }
  c->count = ptx_own(p, OWN_WORD);
  c->offset = p->stack_bytes;
  p->stack_bytes += LEVELS * 8 * s->n_out;
  ptx_line(p, "mov.u32 %s, 0", c->count);
}

/* The results join the counter: while the newest entry is of the same rank they are combined with it, older on the left. */
static void push_block(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *older[PTX_TUPLE], *at = stack(p, s), *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD),
             *is_free = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *put = ptx_label(p, "put");
  reduce_results(p, s, r);
  reduce_fresh(p, s, older);
  ptx_line(p, "mov.u32 %s, %s", rest, c->count);
  ptx_place_loop(p, again);
  ptx_line(p, "and.b32 %s, %s, 1", bit, rest);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_free, bit);
  ptx_line(p, "@%s bra %s", is_free, put);
  get_entry(p, s, at, older);
  reduce_combine(p, s, older, r, r);
  ptx_line(p, "add.u64 %s, %s, %d", at, at, 8 * s->n_out);
  ptx_line(p, "shr.u32 %s, %s, 1", rest, rest);
  ptx_line(p, "bra %s", again);
  ptx_place(p, put);
  put_entry(p, s, at, r);
  ptx_line(p, "add.u32 %s, %s, 1", c->count, c->count);
}

/* results = what the counter holds o results, from the newest entry to the oldest. */
static void total_of_blocks(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *older[PTX_TUPLE], *at = stack(p, s), *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD),
             *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *skip = ptx_label(p, "skip"), *done = ptx_label(p, "total");
  reduce_results(p, s, r);
  reduce_fresh(p, s, older);
  ptx_line(p, "mov.u32 %s, %s", rest, c->count);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_line(p, "and.b32 %s, %s, 1", bit, rest);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, bit);
  ptx_line(p, "@%s bra %s", is, skip);
  get_entry(p, s, at, older);
  reduce_combine(p, s, older, r, r);
  ptx_place(p, skip);
  ptx_line(p, "add.u64 %s, %s, %d", at, at, 8 * s->n_out);
  ptx_line(p, "shr.u32 %s, %s, 1", rest, rest);
  ptx_line(p, "bra %s", again);
  ptx_place(p, done);
}

/* Whether the position begins a block. */
void reduce_begins(struct printer *p, const char *position, const char *is) {
  const char *low = ptx_own(p, OWN_LONG);
  ptx_line(p, "and.b64 %s, %s, %d", low, position, KIR_ROW_BLOCK - 1);
  ptx_line(p, "setp.eq.s64 %s, %s, 0", is, low);
}

void ptx_serial_block(struct printer *p, const struct kir_stmt *s) {
  if (!ptx_is_ordered(p->k, s) || !reduce_fits(p, s)) return;
  push_block(p, s);
  ptx_start(p, s);
}

/* Inside a block in order, the first element alone; then what came before the block, if anything did. */
static void serial_prefix(struct printer *p, const struct kir_stmt *s, const char *position) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *v[PTX_TUPLE], *is_first = ptx_own(p, OWN_PRED), *within = ptx_label(p, "within"),
             *both = ptx_label(p, "both"), *done = ptx_label(p, "done");
  reduce_results(p, s, r);
  for (int i = 0; i < s->n_out; i++) v[i] = ptx_val(p, s->in[i]);
  reduce_begins(p, position, is_first);
  ptx_line(p, "@!%s bra %s", is_first, within);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", c->has, position);
  reduce_copy(p, s, c->before, r);
  reduce_copy(p, s, c->inside, v);
  ptx_line(p, "bra %s", both);
  ptx_place(p, within);
  reduce_combine(p, s, c->inside, v, c->inside);
  ptx_place(p, both);
  reduce_copy(p, s, r, c->inside);
  ptx_line(p, "@!%s bra %s", c->has, done);
  reduce_combine(p, s, c->before, c->inside, r);
  ptx_place(p, done);
}

void ptx_serial_step(struct printer *p, const struct kir_stmt *s, const char *position) {
  if (s->kind == KIR_FOLD || !ptx_is_ordered(p->k, s)) ptx_accumulate(p, s);
  else if (reduce_fits(p, s)) serial_prefix(p, s, position);
}

void ptx_serial_end(struct printer *p, const struct kir_stmt *s) {
  if (s->kind == KIR_FOLD && ptx_is_ordered(p->k, s) && reduce_fits(p, s)) total_of_blocks(p, s);
}

/* before and inside are neutral at first: with that every element stands alone, and so does every block. */
void ptx_running_start(struct printer *p, const struct kir_stmt *s) {
  struct ptx_counter *c = reduce_counter_of(p, s);
  if (!reduce_fits(p, s)) return;
  reduce_fresh(p, s, c->inside);
  reduce_fresh(p, s, c->before);
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = ptx_dtype(p, s->out[i]);
    ptx_mov(p, d, p->carry[s->out[0]][i] = ptx_own_of(p, d), reduce_start(p, s, i));
  }
}

void ptx_running_block(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  reduce_copy(p, s, c->before, p->carry[s->out[0]]);
  for (int i = 0; i < s->n_out; i++) ptx_mov(p, ptx_dtype(p, s->out[i]), c->inside[i], reduce_start(p, s, i));
}

void ptx_running_step(struct printer *p, const struct kir_stmt *s, bool is_last) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *v[PTX_TUPLE];
  reduce_results(p, s, r);
  for (int i = 0; i < s->n_out; i++) v[i] = ptx_val(p, s->in[i]);
  reduce_combine(p, s, c->inside, v, c->inside);
  reduce_combine(p, s, c->before, c->inside, r);
  if (is_last) reduce_copy(p, s, p->carry[s->out[0]], r);
}
