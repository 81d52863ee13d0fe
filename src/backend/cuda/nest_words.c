/* nest_words.c -- lane loops whose folds have an order, of narrow elements: a lane loads words of them, and lanes hand each other
 * the elements that they are to fold.
 *
 * Lane l folds the elements l, 32 + l, 64 + l .. of a block (ptx_blocks.c). If it loads them one by one a warp asks for 64 bytes of
 * halves at a time, 32 of bytes, and has as little on its way from memory. Of words with 2^k elements lane l loads the one whose
 * number is l, its 5 bits rotated to the right by k: the warp asks for the same 128 bytes as of f32. Then, for i = 0 .. k - 1, the
 * lanes l and l ^ 2^i exchange every other 2^i elements of their words; part t of the word of lane l is now the element 32 t + l.
 *
 * Where a block begins `by` elements behind a whole word, the words from 32 - by on are whole, and lane l has the elements of
 * accumulator l - by: behind the block, before the tree, accumulators are brought where they belong. So each has its elements in
 * their order, and the bits are the same. At the end of a block, and where loads do not begin alike, nest_repeat goes on. */
#include "backend/cuda/ptx_nest.h"
#include "backend/cuda/gpu_wide.h"

enum { WORDS = 16 };       /* of what a lane loads at a time, on its way: as f32 has it, whose rows reach 0.96 of a copy */
enum { MOST_COPIES = 64, LEAST_COPIES = 4, MOST_STATEMENTS = 512 };

static int bytes_of(const struct printer *p, const struct kir_stmt *load) { return kir_width(ptx_memory_of(p, load)); }

static bool is_by_words(const struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s) {
  return s->kind == KIR_LOAD && p->k->bufs[s->buf].kind == KIR_IN && bytes_of(p, s) < 4 && ptx_is_neighbours(p, s, loop) &&
         ptx_is_steady(loop, s);
}

/* Statements of the body, those of combiners included; 0: there is something else than arithmetic, loads and folds. */
static int length_of(const struct printer *p, const struct kir_stmt *loop) {
  int n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind != KIR_OP && s->kind != KIR_LOAD && s->kind != KIR_FOLD) return 0;
    n += s->op == KIR_CALL && s->kind != KIR_LOAD ? nest_length(&p->k->fns[s->fn].body) : 1;
  }
  return n;
}

/* Copies of the body for which words are loaded at a time; 0: it loads none. */
static int copies_of(const struct printer *p, const struct kir_stmt *loop) {
  int length = length_of(p, loop), bytes = 0, n = 0, copies = MOST_COPIES;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    bool is = is_by_words(p, loop, s);
    if (s->kind == KIR_LOAD) bytes += is ? bytes_of(p, s) : bytes_of(p, s) < 8 ? 4 : 8; /* those of registers */
    n += is;
  }
  if (!n || n > PTX_EARLY || !length || length >= NEST_SHORT) return 0;
  while (copies > LEAST_COPIES && (copies * bytes > 4 * WORDS || copies * length > MOST_STATEMENTS)) copies /= 2;
  return copies;
}

/* What exchange i of elements of so many bytes takes of a lane's own word, its bytes 0 to 3, and of the other's, 4 to 7. */
static const char *selector(struct printer *p, const char *lane, int i, int width) {
  const char *bit = ptx_word(p), *is = ptx_pred(p), *r = ptx_word(p);
  ptx_line(p, "and.b32 %s, %s, %d", bit, lane, 1 << i);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", is, bit);
  ptx_line(p, width << i == 1 ? "selp.b32 %s, 0x3715, 0x6240, %s" : "selp.b32 %s, 0x3276, 0x5410, %s", r, is);
  return r;
}

/* Where the word of this lane stands behind the first of the 32, in bytes, 64 bits. */
static const char *place_of_word(struct printer *p, const char *lane, int k) {
  const char *low = ptx_word(p), *high = ptx_word(p), *r = ptx_long(p);
  ptx_line(p, "and.b32 %s, %s, %d", low, lane, (1 << k) - 1);
  ptx_line(p, "shl.b32 %s, %s, %d", low, low, 5 - k);
  ptx_line(p, "shr.u32 %s, %s, %d", high, lane, k);
  ptx_line(p, "or.b32 %s, %s, %s", low, low, high);
  ptx_line(p, "mul.wide.u32 %s, %s, 4", r, low);
  return r;
}

static void begin(struct printer *p, const struct kir_stmt *loop, const char *lane) {
  struct ptx_early *e = &p->early;
  *e = (struct ptx_early){ .turn = -1 };
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (!is_by_words(p, loop, s)) continue;
    struct ptx_words *x = &e->words[e->n];
    x->width = bytes_of(p, s), x->parts = 4 / x->width;
    x->at = place_of_word(p, lane, ptx_log_2(x->parts));
    for (int i = 0; 1 << i < x->parts; i++) x->select[i] = selector(p, lane, i, x->width);
    e->s[e->n++] = s;
  }
}

/* Loads words of so many elements of each lane, of which lane 0 has `first`; jumps away where they are not aligned. */
static void ask(struct printer *p, const struct kir_stmt *loop, const char *first, int copies, const char *others) {
  struct ptx_early *e = &p->early;
  const char *var = ptx_val(p, loop->var), *at[PTX_EARLY], *all = ptx_long(p), *is = ptx_pred(p);
  ptx_line(p, "mov.u64 %s, 0", all);
  p->reg[loop->var] = first;
  for (int k = 0; k < e->n; k++) {
    at[k] = ptx_plus(p, ptx_address(p, e->s[k]->buf, e->s[k]->at), e->words[k].at);
    ptx_line(p, "or.b64 %s, %s, %s", all, all, at[k]);
  }
  p->reg[loop->var] = var;
  ptx_line(p, "and.b64 %s, %s, 3", all, all);
  ptx_line(p, "setp.ne.u64 %s, %s, 0", is, all);
  ptx_line(p, "@%s bra %s", is, others);
  for (int k = 0; k < e->n; k++)
    for (int i = 0; i < copies / e->words[k].parts; i++)
      ptx_line(p, "ld.global.nc.b32 %s, [%s+%d]", e->reg[k][i] = ptx_word(p), at[k], 128 * i);
}

void nest_take_word(struct printer *p, int k) {
  const struct ptx_words *x = &p->early.words[k];
  int v = p->early.s[k]->out[0], part = p->early.turn % x->parts;
  const char *word = p->early.reg[k][p->early.turn / x->parts], *other = ptx_word(p);
  weft_dtype d = ptx_memory_of(p, p->early.s[k]);
  for (int i = 0; !part && 1 << i < x->parts; i++) {
    ptx_line(p, "shfl.sync.bfly.b32 %s, %s, %d, 31, -1", other, word, 1 << i);
    ptx_line(p, "prmt.b32 %s, %s, %s, %s", word, word, other, x->select[i]);
  }
  ptx_unpack(p, d, ptx_val(p, v), word, part, d == WEFT_F16 && !ptx_pattern_matters(p, v));
}

/* So many copies of the body at a time, while there are as many steps to come. */
static void all_words(struct printer *p, const struct kir_stmt *s, const struct ptx_blocks *b, const char *lane, int copies,
                      struct where w) {
  const char *var = ptx_val(p, s->var), *first = ptx_long(p), *behind = ptx_long(p), *over = ptx_pred(p);
  const char *many = ptx_label(p, "words"), *few = ptx_label(p, "few");
  ptx_place_loop(p, many);
  ptx_line(p, "sub.s64 %s, %s, %s", first, var, lane);
  ptx_line(p, "add.s64 %s, %s, %d", behind, first, 32 * copies);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", over, behind, b->to);
  ptx_line(p, "@%s bra %s", over, few);
  ask(p, s, first, copies, few);
  for (p->early.turn = 0; p->early.turn < copies; p->early.turn++) nest_one_copy(p, s, "32", w);
  ptx_line(p, "bra %s", many);
  ptx_place_loop(p, few);
}

/* By how many elements the block begins behind a whole word, of the first load; 0 where it is too short for words behind the first
 * 32 elements. */
static const char *behind_word(struct printer *p, const struct kir_stmt *s, const struct ptx_blocks *b, int least_copies) {
  const char *var = ptx_val(p, s->var), *at = ptx_long(p), *n = ptx_long(p), *by = ptx_word(p), *is = ptx_pred(p);
  p->reg[s->var] = b->from;
  ptx_line(p, "and.b64 %s, %s, 3", at, ptx_address(p, p->early.s[0]->buf, p->early.s[0]->at));
  p->reg[s->var] = var;
  ptx_line(p, "cvt.u32.u64 %s, %s", by, at);
  ptx_line(p, "shr.u32 %s, %s, %d", by, by, ptx_log_2(p->early.words[0].width));
  ptx_line(p, "sub.s64 %s, %s, %s", n, b->to, b->from);
  ptx_line(p, "setp.lt.s64 %s, %s, %d", is, n, 32 * (least_copies + 1));
  ptx_line(p, "selp.b32 %s, 0, %s, %s", by, by, is);
  return by;
}

/* The elements of the block before the first 32 that begin with a whole word: lane l goes on with the element 32 + l - by. */
static void before_words(struct printer *p, const struct kir_stmt *s, const struct ptx_blocks *b, const char *by, struct where w) {
  const char *var = ptx_val(p, s->var), *back = ptx_long(p), *is = ptx_pred(p), *whole = ptx_label(p, "whole");
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, by);
  ptx_line(p, "@%s bra %s", is, whole);
  ptx_line(p, "cvt.u64.u32 %s, %s", back, by);
  ptx_line(p, "sub.s64 %s, %s, %s", var, var, back);
  w.rest = ptx_label(p, "next");
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, var, b->from);
  ptx_line(p, "@%s bra %s", is, w.rest);
  ptx_block(p, &s->body, w);
  ptx_place(p, w.rest);
  ptx_line(p, "add.s64 %s, %s, 32", var, var);
  ptx_place(p, whole);
}

/* What is left of a block, when there are no steps for so many copies any more, goes by fewer of them. */
enum { FEWER = 4 };

const char *nest_by_words(struct printer *p, const struct kir_stmt *s, const struct ptx_blocks *b, const char *lane,
                          struct where w) {
  struct ptx_early around = p->early;
  int copies = copies_of(p, s), parts = 1, least_copies = copies;
  if (!copies) return NULL;
  begin(p, s, b->lane);
  for (int k = 0; k < p->early.n; k++) if (p->early.words[k].parts > parts) parts = p->early.words[k].parts;
  while (least_copies / FEWER >= parts) least_copies /= FEWER;
  const char *by = behind_word(p, s, b, least_copies);
  before_words(p, s, b, by, w);
  for (; copies >= least_copies; copies /= FEWER) all_words(p, s, b, lane, copies, w);
  p->early = around;
  return by;
}
