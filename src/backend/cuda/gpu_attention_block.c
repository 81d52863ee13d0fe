/* gpu_attention_block.c -- which rows of which index of the batch a block of threads has, and which tiles of the other side
 * these see.
 *
 * Blocks with most to do come first, so that those that run last have little. Nothing of the operands is touched here. */
#include "backend/cuda/gpu_attention.h"

/* Rows of the other side, over all indices of the batch, whose blocks run at a time: of heads of 64 halves 16 MB of operands, which
 * stay in the cache. */
enum { SECTION_ROWS = 1 << 16 };

const char *attend_size_word(struct printer *p, int size) {
  const char *r = ptx_word(p);
  ptx_line(p, "cvt.u32.u64 %s, %s", r, ptx_val(p, size));
  return r;
}

/* q = x / n, x = the rest; words */
static void divide(struct printer *p, const char *q, const char *x, const char *n) {
  const char *by = ptx_word(p);
  ptx_line(p, "div.u32 %s, %s, %s", q, x, n);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", by, q, n);
  ptx_line(p, "sub.u32 %s, %s, %s", x, x, by);
}

/* Finds which index of the batch this block has, id, and which of its `tiles` blocks of rows, in. There are at most 2^31 blocks, so
 * that all of this is words. Where rows see more or less of the other side, indices of the batch come by sections, whose blocks of
 * rows with most to do come first: those that run last have little. */
static void find_rows(struct printer *p, const struct ptx_attention *t, const char *id, const char *in, const char *tiles) {
  const char *n = ptx_word(p), *all = ptx_word(p), *width = ptx_word(p);
  const char *blocks = ptx_word(p), *first = ptx_word(p), *rest = ptx_word(p);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", in);
  if (!t->a->is_banded) { divide(p, id, in, tiles); return; }
  ptx_line(p, "mov.u32 %s, %%nctaid.x", blocks);
  ptx_line(p, "div.u32 %s, %s, %s", all, blocks, tiles);
  ptx_line(p, "div.u32 %s, %d, %s", n, SECTION_ROWS, t->n_across); /* indices of a section, but the last may have fewer */
  ptx_line(p, "max.u32 %s, %s, 1", n, n);
  ptx_line(p, "min.u32 %s, %s, %s", n, n, all);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", blocks, n, tiles);
  divide(p, first, in, blocks);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", first, first, n);
  ptx_line(p, "sub.u32 %s, %s, %s", width, all, first);
  ptx_line(p, "min.u32 %s, %s, %s", width, width, n);
  ptx_line(p, "mov.u32 %s, %s", rest, in);
  divide(p, in, rest, width);
  ptx_line(p, "add.u32 %s, %s, %s", id, first, rest);
}

/* Blocks with most to do come first. */
void attend_find_block(struct printer *p, struct ptx_attention *t) {
  const char *id = ptx_word(p), *tiles = ptx_word(p), *in = ptx_word(p), *rest = ptx_word(p);
  ptx_line(p, "add.u32 %s, %s, %d", tiles, t->n_own, t->rows - 1);
  ptx_line(p, "shr.u32 %s, %s, %d", tiles, tiles, ptx_log_2(t->rows));
  find_rows(p, t, id, in, tiles);
  if (!t->is_key) {
    ptx_line(p, "sub.u32 %s, %s, %s", in, tiles, in);
    ptx_line(p, "sub.u32 %s, %s, 1", in, in);
  }
  t->own0 = ptx_word(p);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", t->own0, in, t->rows);
  for (int i = t->a->n_batch - 1; i >= 0; i--) {
    ptx_line(p, "mov.u32 %s, %s", rest, id);
    divide(p, id, rest, attend_size_word(p, t->a->batch[i]));
    t->batch[i] = ptx_long(p);
    ptx_line(p, "cvt.u64.u32 %s, %s", t->batch[i], rest);
  }
}

/* Where tiles begin and end: t->at and *end, words. */
void attend_find_tiles(struct printer *p, struct ptx_attention *t, const char **end) {
  const char *e = *end = ptx_word(p);
  t->at = ptx_word(p);
  ptx_line(p, "mov.s32 %s, 0", t->at);
  ptx_line(p, "mov.s32 %s, %s", e, t->n_across);
  if (!t->a->is_banded) return;
  if (t->is_key) {
    ptx_line(p, "sub.s32 %s, %s, %s", t->at, t->own0, t->band);
    ptx_line(p, "max.s32 %s, %s, 0", t->at, t->at);
    ptx_line(p, "and.b32 %s, %s, %d", t->at, t->at, -ATTEND_TILE);
  } else {
    ptx_line(p, "add.s32 %s, %s, %s", e, t->own0, t->band);
    ptx_line(p, "add.s32 %s, %s, %d", e, e, t->rows);
    ptx_line(p, "min.s32 %s, %s, %s", e, e, t->n_across);
  }
}

void attend_find_band(struct printer *p, struct ptx_attention *t) {
  const char *rows = t->is_key ? t->n_across : t->n_own, *columns = t->is_key ? t->n_own : t->n_across;
  t->band = ptx_word(p);
  if (t->a->band_is_difference) ptx_line(p, "sub.s32 %s, %s, %s", t->band, columns, rows);
  else ptx_line(p, "mov.s32 %s, %lld", t->band, (long long)t->a->band);
}
