/* scatter_runs.c -- sums and products of floats through indices, on a device that has to keep the order of the updates.
 *
 *   slot[i]        = the slot of update i, checked
 *   sorted, order  = slot in order, and where each stood: a stable sort, so the updates of a slot, its run, follow each other in
 *                    their order
 *   first[k]       = where the run of slot k begins: how many updates have a lower slot
 *   y[k]           = y[k] o v[order[first[k]]] o v[order[first[k] + 1]] ..  up to first[k + 1], every slot side by side
 *
 * Where the host has private copies of the slots, one for every 4096 updates, each such block is sorted by itself, its copy has
 * the runs of the block, and copies are merged as they are there. So results have the bits of the host.
 *
 * What an index that fails its check would update is in no run. */
#include "schedule/scatter.h"

/* Updates that a thread asks for at a time: those of a run wait for each other, and memory is some 700 cycles away. What is beyond
 * the end of a run is its last update again, and combines as the neutral element. */
enum { TOGETHER = 8 };

struct runs {
  struct scatter *s;
  int64_t blocks, length;               /* Q blocks of L updates; those beyond the last one have no slot */
  weft_dtype key, place;                /* of slots, as narrow as they may be: the sort goes byte by byte; and of places in runs */
  int slot, sorted, order, first;       /* stores */
  int size_q, size_l;
};

static struct kir_lin lin(struct runs *r, int value) { return draft_lin(&r->s->d, value); }
static int number(struct runs *r, int64_t n) { return kir_lit_int(r->s->d.k, WEFT_I64, n); }
static int plus(struct runs *r, int a, int64_t n) { return n ? kir_op2(&r->s->d.b, KIR_ADD, a, number(r, n)) : a; }

/* A buffer of blocks, of n elements each. */
static int blocks_of(struct runs *r, const char *name, enum kir_buf_kind kind, weft_dtype t, int store, struct kir_lin n,
                     int64_t each) {
  struct reach x = { .store = store };
  reach_along(&x, lin(r, r->size_q), each);
  reach_along(&x, n, 1);
  return draft_buffer(&r->s->d, name, kind, t, &x);
}

static struct kir_lin behind(struct runs *r, int value) {
  return kir_lin_add(r->s->d.k, lin(r, value), kir_lin_const(r->s->d.k, 1));
}

/* A kernel that goes through blocks. */
static bool begin(struct runs *r, const char *name) {
  struct scatter *s = r->s;
  if (!draft_begin(&s->d, s->w, name)) return false;
  r->size_q = draft_size(&s->d, "Q", r->blocks), r->size_l = draft_size(&s->d, "L", r->length);
  s->size_s = draft_size(&s->d, "S", s->slots);
  return true;
}

/* The slot of update i, and of each of its indices whether it is there, and where; what is not belongs to no slot. */
static int slot_of(struct runs *r, int i, int at[], int is_there[]) {
  struct scatter *s = r->s;
  struct kir_builder *b = &s->d.b;
  struct kir_lin from = lin(r, i);
  int slot = -1, all = -1;
  for (int j = 0; j < s->n_index; j++) {
    at[j] = draft_place(&s->d, kir_load(b, s->buf_index[j], &from), s->size_v[j], &is_there[j]);
    slot = j ? kir_op2(b, KIR_ADD, kir_op2(b, KIR_MUL, slot, s->size_v[j]), at[j]) : at[j];
    all = j ? kir_op2(b, KIR_AND, all, is_there[j]) : is_there[j];
  }
  return kir_op3(b, KIR_SELECT, all, slot, s->size_s);
}

/* slot[i] for all places of the blocks: S, which is no slot, for those behind the last update. It is stored before it is checked:
 * something has to be there to be sorted. */
static bool find_slots(struct runs *r) {
  struct scatter *s = r->s;
  struct kir_builder *b = &s->d.b;
  int at[SCATTER_INDICES], is_there[SCATTER_INDICES];
  bool is_filled = r->blocks * r->length > s->updates;
  if (!draft_begin(&s->d, s->w, "scatter_slot")) return false;
  s->size_r = -1;
  s->size_n = draft_size(&s->d, "N", s->updates), s->size_s = draft_size(&s->d, "S", s->slots);
  int all = is_filled ? draft_size(&s->d, "P", r->blocks * r->length) : s->size_n;
  struct reach to = { .store = r->slot };
  scatter_indices(s);
  reach_along(&to, lin(r, all), 1);
  int buf = draft_buffer(&s->d, "slot", KIR_OUT, r->key, &to), i = kir_loop(b, KIR_LANE, "i", lin(r, all));
  struct kir_lin place = lin(r, i);
  int update = is_filled ? kir_op2(b, KIR_MIN, i, plus(r, s->size_n, -1)) : i, slot = slot_of(r, update, at, is_there);
  if (is_filled) slot = kir_op3(b, KIR_SELECT, kir_op2(b, KIR_LT, i, s->size_n), slot, s->size_s);
  kir_store(b, buf, &place, KIR_SET, kir_cast(b, r->key, slot));
  for (int j = 0; j < s->n_index; j++) draft_check(&s->d, is_there[j], place, at[j], scatter_site(s, j));
  kir_end(b);
  return draft_end(&s->d);
}

/* How many of a sorted block come before slot k: what is between lo and hi is halved until there is nothing. */
static int search(struct runs *r, int sorted, int q, int k) {
  struct kir_builder *b = &r->s->d.b;
  kir_loop(b, KIR_SERIAL, "step", kir_lin_const(r->s->d.k, 64));
  int lo = kir_carry(b, "lo", number(r, 0)), hi = kir_carry(b, "hi", r->size_l);
  kir_until(b, kir_op2(b, KIR_LE, hi, lo));
  int middle = kir_op2(b, KIR_SHR, kir_op2(b, KIR_ADD, lo, hi), number(r, 1));
  int x = kir_cast(b, WEFT_I64, kir_load(b, sorted, (struct kir_lin[]){ lin(r, q), lin(r, middle) }));
  int is_before = kir_op2(b, KIR_LT, x, k), above = plus(r, middle, 1);
  int next_lo = kir_op3(b, KIR_SELECT, is_before, above, lo), next_hi = kir_op3(b, KIR_SELECT, is_before, hi, middle);
  kir_next(b, 2, (int[]){ lo, hi }, (int[]){ next_lo, next_hi });
  kir_end(b);
  return lo;
}

/* first[q, k], one more than there are slots: the last is where the runs end. */
static bool find_first(struct runs *r) {
  struct scatter *s = r->s;
  struct kir_builder *b = &s->d.b;
  if (!begin(r, "scatter_first")) return false;
  int sorted = blocks_of(r, "sorted", KIR_IN, r->key, r->sorted, lin(r, r->size_l), r->length);
  int first = blocks_of(r, "first", KIR_OUT, r->place, r->first, behind(r, s->size_s), s->slots + 1);
  int q = kir_loop(b, KIR_PAR, "q", lin(r, r->size_q)), k = kir_loop(b, KIR_LANE, "k", behind(r, s->size_s));
  int lo = search(r, sorted, q, k);
  kir_store(b, first, (struct kir_lin[]){ lin(r, q), lin(r, k) }, KIR_SET, kir_cast(b, r->place, lo));
  kir_end(b);
  kir_end(b);
  return draft_end(&s->d);
}

/* Of a run: variables, c -1 in rows of one element; buffers; where it begins and ends in its block. */
struct slot_run { int q, k, c, first, order, lo, hi; };

/* Element c of update i of its block. */
static int load_update(struct runs *r, const struct slot_run *w, int i) {
  struct scatter *s = r->s;
  struct kir_lin from[2] = { lin(r, i) };
  if (s->has_copies) from[0] = kir_lin_add(s->d.k, kir_lin_mul(s->d.k, lin(r, w->q), lin(r, r->size_l)), from[0]);
  if (w->c >= 0) from[1] = lin(r, w->c);
  return kir_load(&s->d.b, s->buf_v, from);
}

/* What is there, combined with a run in its order. */
static int combine_run(struct runs *r, const struct slot_run *w, int there) {
  struct scatter *s = r->s;
  struct kir_builder *b = &s->d.b;
  weft_dtype t = (weft_dtype)s->n->dtype;
  int i[TOGETHER], v[TOGETHER], is_there[TOGETHER], neutral = kir_lit(s->d.k, t, kir_neutral(s->op, t));
  kir_loop(b, KIR_SERIAL, "step", lin(r, r->size_l));
  int y = kir_carry(b, "all", there), p = kir_carry(b, "p", w->lo), all = y;
  kir_until(b, kir_op2(b, KIR_LE, w->hi, p));
  int last = plus(r, w->hi, -1);
  for (int j = 0; j < TOGETHER; j++) {
    int at = plus(r, p, j);
    is_there[j] = j ? kir_op2(b, KIR_LT, at, w->hi) : -1;
    at = j ? kir_op2(b, KIR_MIN, at, last) : at;
    i[j] = kir_load(b, w->order, (struct kir_lin[]){ lin(r, w->q), lin(r, at) });
  }
  for (int j = 0; j < TOGETHER; j++) v[j] = load_update(r, w, i[j]);
  for (int j = 0; j < TOGETHER; j++) all = kir_op2(b, s->op, all, j ? kir_op3(b, KIR_SELECT, is_there[j], v[j], neutral) : v[j]);
  int after = plus(r, p, TOGETHER);
  kir_next(b, 2, (int[]){ y, p }, (int[]){ all, after });
  kir_end(b);
  return y;
}

static void find_run(struct runs *r, struct slot_run *w) {
  struct kir_builder *b = &r->s->d.b;
  w->lo = kir_cast(b, WEFT_I64, kir_load(b, w->first, (struct kir_lin[]){ lin(r, w->q), lin(r, w->k) }));
  w->hi = kir_cast(b, WEFT_I64, kir_load(b, w->first, (struct kir_lin[]){ lin(r, w->q), behind(r, w->k) }));
}

/* par q in blocks of updates, private y: the copy of each block. */
static void walk_copies(struct runs *r, struct slot_run *w) {
  struct scatter *s = r->s;
  weft_dtype t = (weft_dtype)s->n->dtype;
  w->q = kir_loop_blocks(&s->d.b, "q", lin(r, s->size_n), kir_lin_const(s->d.k, SCATTER_BLOCK));
  kir_private(&s->d.b, s->buf_y, s->op);
  w->k = kir_loop(&s->d.b, KIR_LANE, "k", lin(r, s->size_s));
  struct kir_lin to = lin(r, w->k);
  find_run(r, w);
  kir_store(&s->d.b, s->buf_y, &to, s->op, combine_run(r, w, kir_lit(s->d.k, t, kir_neutral(s->op, t))));
}

static void walk_slots(struct runs *r, struct slot_run *w) {
  struct scatter *s = r->s;
  struct kir_builder *b = &s->d.b;
  w->q = number(r, 0);
  w->k = kir_loop(b, s->row > 1 ? KIR_PAR : KIR_LANE, "k", lin(r, s->size_s));
  find_run(r, w);
  if (s->row > 1) w->c = kir_loop(b, KIR_LANE, "c", lin(r, s->size_c));
  struct kir_lin to[2] = { lin(r, w->k) };
  if (s->row > 1) to[1] = lin(r, w->c);
  int there = kir_load(b, s->buf_y, to);
  kir_store(b, s->buf_y, to, KIR_SET, combine_run(r, w, there));
}

static bool walk_runs(struct runs *r) {
  struct scatter *s = r->s;
  struct slot_run w = { .c = -1 };
  if (!begin(r, "scatter_run")) return false;
  s->size_r = -1;
  s->size_n = draft_size(&s->d, "N", s->updates);
  s->size_c = s->row > 1 ? draft_size(&s->d, "C", s->row) : -1;
  w.first = blocks_of(r, "first", KIR_IN, r->place, r->first, behind(r, s->size_s), s->slots + 1);
  w.order = blocks_of(r, "order", KIR_IN, WEFT_I64, r->order, lin(r, r->size_l), r->length);
  s->buf_v = scatter_rows(s, "v", KIR_IN, s->size_n, &s->v);
  s->buf_y = scatter_rows(s, "y", KIR_INOUT, s->size_s, &s->y);
  if (s->has_copies) walk_copies(r, &w);
  else walk_slots(r, &w);
  for (int depth = s->has_copies || s->row > 1 ? 2 : 1; depth > 0; depth--) kir_end(&s->d.b);
  return draft_end(&s->d);
}

static weft_dtype narrowest(int64_t n) {
  return n <= UINT8_MAX ? WEFT_U8 : n <= UINT16_MAX ? WEFT_U16 : n <= INT32_MAX ? WEFT_I32 : WEFT_I64;
}

bool scatter_by_runs(struct scatter *s) {
  struct runs r = { .s = s, .blocks = 1, .length = s->updates, .key = narrowest(s->slots) };
  if (s->has_copies) r.blocks = (s->updates + SCATTER_BLOCK - 1) / SCATTER_BLOCK, r.length = SCATTER_BLOCK;
  r.place = r.length <= INT32_MAX ? WEFT_I32 : WEFT_I64;
  int64_t all = r.blocks * r.length, key = (int64_t)weft_dtype_bytes(r.key), place = (int64_t)weft_dtype_bytes(r.place);
  r.slot = store_new(s->w, all * key), r.sorted = store_new(s->w, all * key);
  r.order = store_new(s->w, all * (int64_t)sizeof(int64_t));
  r.first = store_new(s->w, r.blocks * (s->slots + 1) * place);
  if (s->w->no_memory || !find_slots(&r)) return false;
  if (!step_sort(s->w, r.key, r.blocks, r.length, r.slot, r.sorted, r.order)) return false;
  return find_first(&r) && walk_runs(&r);
}
