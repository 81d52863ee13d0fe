/* gpu_attention.c -- the entries of attention: what a block of threads does with its rows, from tile to tile.
 *
 * While a tile is worked on, the next one is on its way to another stage of shared memory. The head of gpu_attention.h has the
 * mathematics, and says which file has the rest. */
#include "backend/cuda/gpu_attention.h"

static void take_registers(struct printer *p, struct ptx_attention *t) {
  for (int k = 0; k < 2; k++)
    for (int s = 0; s < ATTEND_TILE / 16; s++)
      for (int e = 0; e < 4; e++) t->factor[k][s][e] = ptx_word(p);
  for (int i = 0; i < t->m; i++) {
    for (int j = 0; j < ATTEND_TILE / 8; j++)
      for (int e = 0; e < 4; e++) t->s[i][j][e] = ptx_word(p), t->ds[i][j][e] = ptx_word(p);
    for (int k = 0; k < 2; k++)
      for (int j = 0; j < ATTEND_FRAGMENTS; j++)
        for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", t->sum[k][i][j][e] = ptx_word(p));
    for (int h = 0; h < 2; h++) {
      ptx_line(p, "mov.f32 %s, 0fFF800000", t->most[i][h] = ptx_word(p));
      ptx_line(p, "mov.f32 %s, 0f00000000", t->total[i][h] = ptx_word(p));
      ptx_line(p, "mov.f32 %s, 0f00000000", t->low[i][h] = ptx_word(p));
      t->less[i][h] = ptx_word(p);
    }
  }
}

static void copy_tile(struct printer *p, struct ptx_attention *t, const char *stage) {
  for (int k = 0; k < 2; k++) attend_copy(p, t, &t->tile[k], stage, 1);
  if (t->is_key) attend_load_next_stats(p, t);
  ptx_line(p, "cp.async.commit_group");
}

/* y += p v of the tile before, whose p is a factor in registers and whose v stands in the stage behind. */
static void late_product(struct printer *p, const struct ptx_attention *t) {
  attend_group_product(p, t, 0, 1, t->behind, (const char *const (*)[4])t->sum[0][0]);
}

/* The product of the tile before begins behind the scores of this one, which are waited for. Both ways round the jump wait for
 * themselves: where they meet the compiler would not know what is under way, and would have all of it wait for each other. */
static void begin_late_product(struct printer *p, const struct ptx_attention *t) {
  const char *first = ptx_label(p, "first"), *begun = ptx_label(p, "begun");
  ptx_line(p, "@!%s bra %s", t->has_behind, first);
  late_product(p, t);
  attend_wait_but(p, t, 1);
  ptx_line(p, "bra %s", begun);
  ptx_place(p, first);
  attend_wait_but(p, t, 0);
  ptx_place(p, begun);
}

static void whole_tile(struct printer *p, struct ptx_attention *t) {
  attend_scores(p, t, 0, t->s);
  if (t->is_late) begin_late_product(p, t);
  attend_mask_scores(p, t, t->s);
  attend_soft(p, t);
  attend_lower_sums(p, t);
  if (t->is_late) attend_set_factor(p, t, 0, t->s[0]);
  else attend_add_product(p, t, t->s, 1, t->sum[0]);
}

/* dv += p' dy of derivatives by keys, dk += ds' q or dq += ds k. By groups both factors are there before a product begins: else
 * they take registers that a third block of threads on the processor has. */
static void grad_products(struct printer *p, struct ptx_attention *t) {
  if (!t->by_groups) {
    if (t->is_key) attend_add_product(p, t, t->s, 1, t->sum[1]);
    attend_add_product(p, t, t->ds, 0, t->sum[0]);
    return;
  }
  if (t->is_key) attend_set_factor(p, t, 0, t->s[0]);
  attend_set_factor(p, t, 1, t->ds[0]);
  if (t->is_key) attend_group_product(p, t, 0, 1, t->stage, (const char *const (*)[4])t->sum[1][0]);
  attend_group_product(p, t, 1, 0, t->stage, (const char *const (*)[4])t->sum[0][0]);
  attend_wait_but(p, t, 0);
}

/* By groups dp is multiplied beside the exponentials of p. */
static void grad_tile(struct printer *p, struct ptx_attention *t) {
  attend_scores(p, t, 0, t->s);
  attend_scores(p, t, 1, t->ds);
  attend_wait_but(p, t, 1);
  attend_mask_scores(p, t, t->s);
  attend_soft_again(p, t);
  attend_wait_but(p, t, 0);
  attend_soft_derivative(p, t);
  grad_products(p, t);
}

/* All threads meet. What they have copied, the tensor cores may read too. */
static void copies_have_come(struct printer *p, const struct ptx_attention *t, const char *stage) {
  if (t->is_key) attend_store_stats(p, t, stage);
  ptx_line(p, "cp.async.wait_group 0");
  if (t->by_groups) ptx_line(p, "fence.proxy.async.shared::cta");
  ptx_line(p, "bar.sync 0");
}

/* The stage that the next tile comes to. There are two, or three where the tile before this one is still to be multiplied. */
static void find_next_stage(struct printer *p, const struct ptx_attention *t) {
  const char *is = ptx_pred(p);
  if (!t->is_late) { ptx_line(p, "sub.s64 %s, %d, %s", t->next, t->stage_bytes, t->stage); return; }
  ptx_line(p, "add.s64 %s, %s, %d", t->next, t->stage, t->stage_bytes);
  ptx_line(p, "setp.eq.s64 %s, %s, %d", is, t->next, 3 * t->stage_bytes);
  ptx_line(p, "selp.b64 %s, 0, %s, %s", t->next, t->next, is);
}

static void leave_behind(struct printer *p, const struct ptx_attention *t) {
  ptx_line(p, "mov.s64 %s, %s", t->behind, t->stage);
  ptx_line(p, "setp.eq.u32 %s, 0, 0", t->has_behind);
}

/* The first tile is there, if there is one. The next is asked for while it is worked on. */
static void all_tiles(struct printer *p, struct ptx_attention *t, const char *end) {
  const char *is_last = ptx_pred(p), *leave = ptx_label(p, "leave"), *again = ptx_label(p, "tiles"), *asked = ptx_label(p, "asked"),
             *after = ptx_word(p), *last = ptx_label(p, "last");
  ptx_line(p, "setp.ge.s32 %s, %s, %s", is_last, t->at, end);
  ptx_line(p, "@%s bra %s", is_last, leave);
  ptx_line(p, "setp.ne.u32 %s, 0, 0", t->has_behind);
  ptx_place_loop(p, again);
  find_next_stage(p, t);
  ptx_line(p, "add.s32 %s, %s, %d", after, t->at, ATTEND_TILE);
  ptx_line(p, "setp.ge.s32 %s, %s, %s", is_last, after, end);
  ptx_line(p, "@%s bra %s", is_last, asked);
  copy_tile(p, t, t->next);
  ptx_place(p, asked);
  (t->is_grad ? grad_tile : whole_tile)(p, t);
  if (t->is_late) leave_behind(p, t);
  ptx_line(p, "@%s bra %s", is_last, last);
  copies_have_come(p, t, t->next); /* and all are done with this tile */
  ptx_line(p, "mov.s64 %s, %s", t->stage, t->next);
  ptx_line(p, "mov.s32 %s, %s", t->at, after);
  ptx_line(p, "bra %s", again);
  ptx_place(p, last);
  if (t->is_late) late_product(p, t), attend_wait_but(p, t, 0);
  ptx_place(p, leave);
}

static struct ptx_attention attention_of(struct printer *p, const struct kir_attention *a, bool is_aligned) {
  bool by_groups = attend_is_by_groups(p->plan->by_groups, a);
  return (struct ptx_attention){
    .a = a, .part = a->part, .is_key = a->part == KIR_ATTEND_KEY, .is_grad = a->part != KIR_ATTEND,
    .n_operands = a->part == KIR_ATTEND ? 1 : 2, .by_groups = by_groups, .is_late = attend_is_late(a, by_groups),
    .is_aligned = is_aligned, .is_f32 = a->dtype == WEFT_F32, .width = kir_width((weft_dtype)a->dtype),
    .m = attend_fragments(a, by_groups), .rows = attend_rows(a, by_groups),
    .threads = ATTEND_GROUP * attend_form_of(a, by_groups).groups, .type = a->dtype == WEFT_BF16 ? "bf16" : "f16",
    .tid = ptx_word(p), .lane = ptx_word(p), .warp = ptx_word(p), .has_behind = ptx_pred(p), .is_level = ptx_pred(p),
    .base = ptx_long(p), .stage = ptx_long(p), .next = ptx_long(p), .behind = ptx_long(p)
  };
}

static void attention_body(struct printer *p, bool is_aligned) {
  const struct kir_attention *a = p->k->attention;
  struct ptx_attention t = attention_of(p, a, is_aligned);
  const char *end;
  p->threads = t.threads;
  if (a->mask < 0) p->blocks = attend_form_of(a, t.by_groups).blocks;
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.tid);
  ptx_line(p, "shr.u32 %s, %s, 5", t.warp, t.tid);
  ptx_line(p, "mov.u64 %s, halves", t.base);
  ptx_line(p, "mov.u64 %s, 0", t.stage);
  t.n_own = attend_size_word(p, t.is_key ? a->columns : a->rows), t.n_across = attend_size_word(p, t.is_key ? a->rows : a->columns);
  if (a->is_banded) attend_find_band(p, &t);
  attend_find_block(p, &t);
  attend_find_tiles(p, &t, &end);
  attend_plan_operands(p, &t);
  if (t.is_key) attend_plan_stats(p, &t);
  for (int k = 0; k < t.n_operands; k++) attend_copy(p, &t, &t.own[k], NULL, t.rows / ATTEND_TILE);
  copy_tile(p, &t, t.stage);
  take_registers(p, &t);
  attend_plan_rows(p, &t);
  if (t.part == KIR_ATTEND_QUERY) attend_load_stats(p, &t);
  if (t.is_key) attend_plan_stat_columns(p, &t);
  copies_have_come(p, &t, t.stage);
  for (int k = 0; k < t.n_operands && !t.by_groups && !t.is_f32; k++) attend_load_own(p, &t, k);
  all_tiles(p, &t, end);
  attend_store_results(p, &t);
}

void ptx_attention(struct printer *p) { attention_body(p, false); }
void ptx_attention_aligned(struct printer *p) { attention_body(p, true); }
