/* gpu_relay_write.c -- writers, of rows that are handed on: see gpu_relay.h.
 *
 * A thread has the same columns in all rows, in pieces of neighbours. It computes what they store from what is loaded, and from the
 * values that the adder has left beside the row. */
#include "backend/cuda/gpu_relay.h"

struct row_writer {                   /* registers of a thread: */
  const struct relaying *r;
  bool holds_vectors, asks_first; /* it has vectors in registers; it loads all of a row before it computes */
  const char *column[RELAY_EACH]; /* by the first element of a piece: its column, a word, */
  const char *active[RELAY_EACH]; /* .. and whether the row has it */
  const char *sum[KIR_RELAY_SUMS][RELAY_EACH];
  const char **row;               /* by buffer that lanes store: where its row begins */
  const char *i, *place, *at, *turn; /* the row; its place, by number and address; the turn of the place's barriers */
};

/* ---- Elements --------------------------------------------------------------------------------------------------------------- */

/* Where the first element of a piece stands, in a row that begins there. */
static const char *element_at(struct printer *p, const struct row_writer *t, int buf, int e, const char *begin) {
  const char *at = ptx_long(p);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, t->column[e], relay_width(p, buf), begin);
  return at;
}

static void elements_of(const struct row_writer *t, int e, int element[]) {
  for (int k = 0; k < t->r->each; k++) element[k] = e + k;
}

static void store_piece(struct printer *p, const struct row_writer *t, const struct kir_stmt *s, int e) {
  int element[RELAY_EACH];
  elements_of(t, e, element);
  p->guard = t->active[e], p->reg = p->wide[e];
  ptx_store_each(p, s, ptx_space(p, s->buf), element_at(p, t, s->buf, e, t->row[s->buf]), t->r->each, element);
  p->guard = NULL, p->reg = p->wide[0];
}

static void load_piece(struct printer *p, const struct row_writer *t, const struct kir_stmt *s, int e) {
  int element[RELAY_EACH];
  const char *begin = relay_begin(p, t->r, kir_relay_read(t->r->x, s->buf), t->at);
  elements_of(t, e, element);
  p->reg = p->wide[e];
  ptx_load_each(p, s, ".shared", element_at(p, t, s->buf, e, begin), t->r->each, element);
  p->reg = p->wide[0];
}

static void add_piece(struct printer *p, const struct row_writer *t, const struct kir_stmt *s, int e) {
  int i = 0;
  while (t->r->x->sum[i] != s) i++;
  for (int k = 0; k < t->r->each; k++) {
    p->reg = p->wide[e + k];
    const char *in[] = { t->sum[i][e + k], ptx_val(p, s->in[0]) };
    ptx_instruction(p, (enum kir_op)s->op, ptx_dtype(p, s->in[0]), t->sum[i][e + k], in);
  }
  p->reg = p->wide[0];
}

static bool is_row(const struct row_writer *t, const struct kir_stmt *load) {
  return t->r->x->read[kir_relay_read(t->r->x, load->buf)].is_row;
}

/* All pieces of what is loaded: of rows, or of vectors. */
static void load_all(struct printer *p, const struct row_writer *t, bool of_rows) {
  const struct kir_relay *x = t->r->x;
  for (int i = 0; i < x->n_loops; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next)
      for (int e = 0; s->kind == KIR_LOAD && t->r->needs[s->out[0]] && is_row(t, s) == of_rows && e < RELAY_EACH; e += t->r->each)
        load_piece(p, t, s, e);
}

static void piece_statement(struct printer *p, const struct row_writer *t, const struct kir_stmt *s, const struct kir_stmt *loop,
                            int e, struct where w) {
  if (s->kind == KIR_STORE) {
    if (s->op == KIR_SET) store_piece(p, t, s, e);
    else add_piece(p, t, s, e);
  } else if (s->kind == KIR_OP && t->r->needs[s->out[0]]) {
    ptx_wide_statement(p, s, loop, e, t->r->each, w);
  } else if (s->kind == KIR_LOAD && t->r->needs[s->out[0]]) {
    if (!(is_row(t, s) ? t->asks_first : t->holds_vectors)) load_piece(p, t, s, e);
  }
}

/* ---- Before the first row, and behind the last ------------------------------------------------------------------------------- */

/* Piece i of this thread begins with element (i threads + thread) each. Pieces beyond the row are computed as if they were the
 * first, and not stored: without branches the compiler has all of them wait for memory at the same time. */
static void number_pieces(struct printer *p, struct row_writer *t) {
  const struct kir_stmt *loop = t->r->x->loop[0];
  const char *thread = ptx_word(p), *step = ptx_word(p), *wide = ptx_long(p);
  ptx_line(p, "mad.lo.u32 %s, %s, 32, %s", thread, t->r->warp, t->r->lane);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", p->wide[0][loop->var], thread, t->r->each);
  ptx_line(p, "mov.u32 %s, %%ntid.x", step);
  ptx_line(p, "mad.lo.s32 %s, %s, -32, %s", step, t->r->n_places, step);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", wide, step, t->r->each);
  for (int e = 0; e < RELAY_EACH; e += t->r->each) {
    if (e) ptx_line(p, "add.s64 %s, %s, %s", p->wide[e][loop->var], p->wide[e - t->r->each][loop->var], wide);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", t->active[e] = ptx_pred(p), p->wide[e][loop->var], t->r->n);
  }
  for (int e = 0; e < RELAY_EACH; e += t->r->each) {
    ptx_line(p, "selp.s64 %s, %s, 0, %s", p->wide[e][loop->var], p->wide[e][loop->var], t->active[e]);
    ptx_line(p, "cvt.u32.u64 %s, %s", t->column[e] = ptx_word(p), p->wide[e][loop->var]);
    relay_number(p, t->r, e, t->r->each, 1);
  }
}

static void begin_sums(struct printer *p, struct row_writer *t) {
  for (int i = 0; i < t->r->x->n_sums; i++)
    for (int e = 0; e < RELAY_EACH; e++) {
      weft_dtype d = ptx_dtype(p, t->r->x->sum[i]->in[0]);
      ptx_mov(p, d, t->sum[i][e] = ptx_own_of(p, d), ptx_number(p, d, kir_neutral((enum kir_op)t->r->x->sum[i]->op, d)));
    }
}

/* The sums of this block of rows go to its copies, for the entry that merges them. */
static void leave_sums(struct printer *p, const struct row_writer *t) {
  for (int i = 0; i < t->r->x->n_sums; i++) {
    const char *copy = ptx_copy_at(p, t->r->x->sum[i]->buf, ptx_val(p, t->r->x->blocks->var));
    int width = kir_width(ptx_dtype(p, t->r->x->sum[i]->in[0]));
    for (int e = 0; e < RELAY_EACH; e += t->r->each) {
      const char *at = ptx_long(p);
      ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, t->column[e], width, copy);
      p->guard = t->active[e];
      ptx_access_pieces(p, false, ".global", at, t->r->each, width, t->sum[i] + e);
    }
  }
  p->guard = NULL;
}

static int words_of(const struct printer *p, int buf) { return relay_width(p, buf) > 4 ? 2 : 1; }

/* Sixteen registers each for sums, for vectors, and for rows, of f64 twice as many, as long as some are left to compute with. */
static void find_registers(const struct printer *p, struct row_writer *t) {
  const struct kir_relay *x = t->r->x;
  int rows = 0, vectors = 0, sums = 0;
  for (int i = 0; i < x->n_reads; i++) *(x->read[i].is_row ? &rows : &vectors) += words_of(p, x->read[i].buf);
  for (int i = 0; i < x->n_sums; i++) sums += words_of(p, x->sum[i]->buf);
  t->holds_vectors = sums + vectors <= 2;
  t->asks_first = sums + rows + (t->holds_vectors ? vectors : 0) <= 3;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------------------- */

static void find_row(struct printer *p, const struct row_writer *t) {
  const struct kir_relay *x = t->r->x;
  for (int b = 0; b < p->k->n_bufs; b++) t->row[b] = NULL;
  for (int i = 0; i < x->n_loops; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next) {
      if (s->kind != KIR_STORE || s->op != KIR_SET || t->row[s->buf]) continue;
      const char *index = p->reg[x->loop[i]->var];
      p->reg[x->loop[i]->var] = "0";
      t->row[s->buf] = ptx_address(p, s->buf, s->at);
      p->reg[x->loop[i]->var] = index;
    }
}

static void take_slots(struct printer *p, const struct row_writer *t) {
  const char *at = relay_slot(p, t->r, t->place);
  for (int i = 0; i < t->r->x->n_slots; i++) {
    int v = t->r->x->slot[i];
    if (!t->r->is_known[v]) ptx_load(p, ".shared", ptx_dtype(p, v), ptx_val(p, v), ptx_textf(p, "%s+%d", at, 8 * i));
  }
}

static void write_row(struct printer *p, const struct row_writer *t, struct where w) {
  const struct kir_relay *x = t->r->x;
  relay_set_row(p, t->r, t->i);
  relay_await(p, relay_barrier(p, t->r, t->place, RELAY_FOLDED), t->turn);
  take_slots(p, t);
  find_row(p, t);
  if (t->asks_first) load_all(p, t, true);
  for (int e = 0; e < RELAY_EACH; e += t->r->each)
    for (int i = 0; i < x->n_loops; i++)
      for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next) piece_statement(p, t, s, x->loop[i], e, w);
}

/* On to the next row, which has the next place, the first one again behind the last. */
static void next_row(struct printer *p, const struct row_writer *t) {
  const char *is = ptx_pred(p);
  ptx_line(p, "add.u32 %s, %s, 1", t->i, t->i);
  ptx_line(p, "add.u32 %s, %s, 1", t->place, t->place);
  ptx_line(p, "add.s64 %s, %s, %s", t->at, t->at, t->r->place_bytes);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is, t->place, t->r->n_places);
  ptx_line(p, "@%s mov.u32 %s, 0", is, t->place);
  ptx_line(p, "@%s mov.s64 %s, %s", is, t->at, t->r->places);
  ptx_line(p, "@%s xor.b32 %s, %s, 1", is, t->turn, t->turn);
}

static void first_row(struct printer *p, struct row_writer *t) {
  t->i = ptx_word(p), t->place = ptx_word(p), t->at = ptx_long(p), t->turn = ptx_word(p);
  ptx_line(p, "mov.u32 %s, 0", t->i);
  ptx_line(p, "mov.u32 %s, 0", t->place);
  ptx_line(p, "mov.u32 %s, 0", t->turn);
  ptx_line(p, "mov.s64 %s, %s", t->at, t->r->places);
}

void relay_writers(struct printer *p, struct relaying *r, struct where w) {
  struct row_writer *t = arena_take(p->arena, sizeof *t);
  const char **row = arena_take(p->arena, (size_t)(p->k->n_bufs + 1) * sizeof *row);
  const char *is_first = ptx_pred(p), *is_over = ptx_pred(p), *again = ptx_label(p, "row"), *leave = ptx_label(p, "rows");
  if (!t || !row) { ptx_refuse(p, ""); return; }
  *t = (struct row_writer){ .r = r, .row = row };
  kir_relay_needs(r->x, NULL, r->needs);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, r->lane);
  number_pieces(p, t);
  begin_sums(p, t);
  find_registers(p, t);
  first_row(p, t);
  if (t->holds_vectors) load_all(p, t, false);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is_over, t->i, r->count);
  ptx_line(p, "@%s bra %s", is_over, leave);
  write_row(p, t, w);
  ptx_line(p, "bar.warp.sync -1");
  relay_arrive(p, relay_barrier(p, r, t->place, RELAY_FREE), is_first);
  next_row(p, t);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  leave_sums(p, t);
}
