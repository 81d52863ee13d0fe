/* gpu_neighbours.c -- elements of a thread that are neighbours in memory: loaded and stored 16 bytes at a time.
 *
 * Memory has its own dtypes: elements of 1 and 2 bytes are packed into words on the way. Addresses are aligned, which is seen to by
 * whoever launches (gpu_wide_shape.c). */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

bool ptx_is_only(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

int ptx_axis_along(const struct shape_class *shape, const struct kir_stmt *s, int lane) {
  int found = -1;
  for (int d = 0; d < s->n_at; d++) {
    bool is_it = shape->stride[s->buf][d] == STRIDE_1 && ptx_is_only(s->at[d], lane);
    if (survey_mentions(s->at[d], lane) && !is_it && shape->stride[s->buf][d] != STRIDE_0) return -1;
    if (is_it) found = d;
  }
  return found;
}

bool ptx_is_neighbours(const struct printer *p, const struct kir_stmt *s, const struct kir_stmt *lane) {
  bool is_access = s->kind == KIR_LOAD || s->kind == KIR_STORE;
  return is_access && ptx_is_in_memory(p->k, s->buf) && ptx_axis_along(p->shape, s, lane->var) >= 0;
}

/* lane times n and k more: n, or 0. */
static int turns(struct kir_lin l, int lane, int64_t k) {
  bool has_more = l.n == 2 && !l.term[0].n;
  if (l.n != 1 + has_more || (has_more ? l.term[0].coef : 0) != k) return 0;
  const struct kir_term *t = &l.term[l.n - 1];
  return t->n == 1 && t->val[0] == lane && t->coef > 1 && t->coef <= PTX_WIDE ? (int)t->coef : 0;
}

/* Store k of those that stand by turns along this axis. */
static int turns_of(const struct kir_stmt *s, const struct kir_stmt *first, int lane, int axis, int64_t k) {
  if (!s || s->kind != KIR_STORE || s->op != KIR_SET || s->buf != first->buf) return 0;
  for (int d = 0; d < s->n_at; d++)
    if (d != axis && (survey_mentions(s->at[d], lane) || !kir_lin_equal(s->at[d], first->at[d]))) return 0;
  return turns(s->at[axis], lane, k);
}

int ptx_is_woven(const struct kir_kernel *k, const struct shape_class *shape, const struct kir_stmt *first, int lane, int *axis) {
  if (first->kind != KIR_STORE || !ptx_is_in_memory(k, first->buf)) return 0;
  for (*axis = 0; *axis < first->n_at && !survey_mentions(first->at[*axis], lane);) ++*axis;
  if (*axis == first->n_at || shape->stride[first->buf][*axis] != STRIDE_1) return 0;
  int n = turns_of(first, first, lane, *axis, 0);
  const struct kir_stmt *s = first;
  for (int i = 1; i < n; i++) if (turns_of(s = s->next, first, lane, *axis, i) != n) return 0;
  return n;
}

static const char *guard(struct printer *p) { return p->guard ? ptx_textf(p, "@%s ", p->guard) : ""; }

static const char *list(struct printer *p, int n, const char *const r[]) {
  if (n == 1) return r[0];
  return n == 2 ? ptx_textf(p, "{%s, %s}", r[0], r[1]) : ptx_textf(p, "{%s, %s, %s, %s}", r[0], r[1], r[2], r[3]);
}

/* Registers are loaded and stored 16 bytes at a time. Where a guard keeps a load from happening its registers are set to 0:
 * else the compiler would hold on to what the row before left there (a layer norm of bf16: 56 registers, 48 so). */
void ptx_access_pieces(struct printer *p, bool is_load, const char *space, const char *at, int n, int width,
                       const char *const r[]) {
  int together = (int)least(4, 16 / width); /* an instruction takes at most four registers, and 16 bytes */
  for (int i = 0; i < n && is_load && p->guard; i++) ptx_line(p, "mov.b%d %s, 0", 8 * width, r[i]);
  for (int i = 0; i < n; i += together) {
    int few = (int)least(together, n - i);
    const char *v = few == 1 ? "" : few == 2 ? ".v2" : ".v4", *all = list(p, few, r + i);
    if (is_load) ptx_line(p, "%sld%s%s.b%d %s, [%s+%d]", guard(p), space, v, 8 * width, all, at, i * width);
    else ptx_line(p, "%sst%s%s.b%d [%s+%d], %s", guard(p), space, v, 8 * width, at, i * width, all);
  }
}

void ptx_unpack(struct printer *p, weft_dtype d, const char *dst, const char *word, int i, bool is_made) {
  int width = kir_width(d), shift = 8 * width * i, rest = 32 - 8 * width - shift;
  const char *up = ptx_own(p, OWN_WORD);
  if (d == WEFT_BF16) {
    if (i) ptx_line(p, "and.b32 %s, %s, 0xffff0000", dst, word);
    else ptx_line(p, "shl.b32 %s, %s, 16", dst, word);
  } else if (d == WEFT_F16) {
    const char *half = ptx_own(p, OWN_HALF);
    ptx_line(p, "shr.u32 %s, %s, %d", up, word, shift);
    ptx_line(p, "cvt.u16.u32 %s, %s", half, up);
    ptx_from_f16(p, dst, half, is_made);
  } else {
    ptx_line(p, "shl.b32 %s, %s, %d", up, word, rest);
    const char *to = d == WEFT_BOOL ? up : dst;
    ptx_line(p, "shr.%s %s, %s, %d", d == WEFT_I8 || d == WEFT_I16 ? "s32" : "u32", to, up, 32 - 8 * width);
    if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", dst, up);
  }
}

const char *ptx_small_pattern(struct printer *p, weft_dtype d, int value, const char *src) {
  const char *r = ptx_own(p, OWN_WORD);
  if (d == WEFT_BF16 && ptx_is_narrow(p, value, d)) return src;
  if (d == WEFT_BF16) ptx_to_bf16(p, WEFT_F32, r, src, ptx_is_made(p, value));
  else if (d == WEFT_F16) ptx_line(p, "cvt.u32.u16 %s, %s", r, ptx_to_f16(p, WEFT_F32, src, ptx_is_made(p, value)));
  else if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", r, src);
  else ptx_line(p, "and.b32 %s, %s, 0x%x", r, src, kir_width(d) == 1 ? 0xff : 0xffff);
  return r;
}

void ptx_load_raw(struct printer *p, const struct kir_stmt *s, const char *space, const char *at, int n, const char *raw[]) {
  int width = kir_width(ptx_memory_of(p, s)), words = width < 4 ? n * width / 4 : n;
  for (int i = 0; i < words; i++) raw[i] = ptx_own(p, width == 8 ? OWN_LONG : OWN_WORD);
  ptx_access_pieces(p, true, space, at, words, width < 4 ? 4 : width, raw);
}

void ptx_take_raw(struct printer *p, const struct kir_stmt *s, int n, const int element[], const char *const raw[]) {
  weft_dtype d = ptx_memory_of(p, s);
  int width = kir_width(d), v = s->out[0], a_word = width < 4 ? 4 / width : 1;
  bool is_made = d == WEFT_F16 && !ptx_pattern_matters(p, v);
  ptx_val(p, v);
  p->narrow[v] = (uint8_t)d;
  for (int i = 0; i < n; i++)
    if (width < 4) ptx_unpack(p, d, p->wide[element[i]][v], raw[i / a_word], i % a_word, is_made);
    else ptx_line(p, "mov.b%d %s, %s", 8 * width, p->wide[element[i]][v], raw[i]);
}

void ptx_load_each(struct printer *p, const struct kir_stmt *s, const char *space, const char *at, int n, const int element[]) {
  weft_dtype d = ptx_memory_of(p, s);
  int width = kir_width(d), v = s->out[0], a_word = width < 4 ? 4 / width : 1;
  const char *r[PTX_WIDE] = { 0 };
  bool is_made = d == WEFT_F16 && !ptx_pattern_matters(p, v);
  ptx_val(p, v);
  p->narrow[v] = (uint8_t)d;
  for (int i = 0; i < n; i += a_word) r[i / a_word] = width < 4 ? ptx_own(p, OWN_WORD) : p->wide[element[i]][v];
  ptx_access_pieces(p, true, space, at, n / a_word, width < 4 ? 4 : width, r);
  for (int i = 0; width < 4 && i < n; i++) ptx_unpack(p, d, p->wide[element[i]][v], r[i / a_word], i % a_word, is_made);
}

void ptx_load_neighbours(struct printer *p, const struct kir_stmt *s, int e, int each) {
  const char *space = p->k->bufs[s->buf].kind == KIR_IN ? ".global.nc" : ptx_space(p, s->buf);
  int element[PTX_WIDE];
  for (int i = 0; i < each; i++) element[i] = e + i;
  p->reg = p->wide[e];
  if (each == 1) { /* a narrow one is no word */
    p->narrow[s->out[0]] = (uint8_t)ptx_memory_of(p, s);
    ptx_load_plain(p, s->buf, s->out[0], ptx_address(p, s->buf, s->at));
    return;
  }
  ptx_load_each(p, s, space, ptx_address(p, s->buf, s->at), each, element);
}

static const struct kir_stmt *maker_of(const struct kir_block *b, int v) {
  const struct kir_stmt *found = NULL;
  for (const struct kir_stmt *s = b->first; s && !found; s = s->next)
    if (s->kind == KIR_OP && s->n_out == 1 && s->out[0] == v) return s;
    else found = maker_of(&s->body, v);
  return found;
}

/* The f32 of which v is the bf16, where rounding is all that was done to it and the pattern of a NaN does not matter; else -1. */
static int rounded(struct printer *p, int v) {
  const struct kir_stmt *s = maker_of(&p->k->body, v);
  bool is = s && s->op == KIR_CAST && s->dtype == WEFT_BF16 && p->k->vals[s->in[0]].dtype == WEFT_F32 &&
            p->k->vals[s->in[0]].kind == KIR_RESULT && ptx_is_made(p, s->in[0]) && !ptx_is_narrow(p, s->in[0], WEFT_BF16);
  return is ? s->in[0] : -1;
}

/* Two numbers at a time are rounded to bf16 and packed into a word by one instruction. */
static void rounded_pairs(struct printer *p, int of, int n, const int element[], const char *r[]) {
  for (int i = 0; i < n; i += 2) {
    const char *low = p->wide[element[i]][of], *high = p->wide[element[i + 1]][of];
    ptx_line(p, "cvt.rn.bf16x2.f32 %s, %s, %s", r[i / 2] = ptx_own(p, OWN_WORD), high, low);
  }
}

/* Value v becomes element i of those in the registers r, which are words of elements of 1 and 2 bytes. */
static void put_part(struct printer *p, weft_dtype d, int v, int i, const char *r[]) {
  int width = kir_width(d), a_word = width < 4 ? 4 / width : 1;
  const char *x = ptx_in_register(p, (weft_dtype)p->k->vals[v].dtype, v);
  const char *part = width < 4 ? ptx_small_pattern(p, d, v, x) : x;
  if (d == WEFT_BF16 && i % 2) {
    const char *both = ptx_own(p, OWN_WORD);
    ptx_line(p, "prmt.b32 %s, %s, %s, 0x7632", both, r[i / 2], part); /* the upper halves */
    part = both;
  } else if (i % a_word) {
    const char *up = ptx_own(p, OWN_WORD), *both = ptx_own(p, OWN_WORD);
    ptx_line(p, "shl.b32 %s, %s, %d", up, part, 8 * width * (i % a_word));
    ptx_line(p, "or.b32 %s, %s, %s", both, r[i / a_word], up);
    part = both;
  }
  r[i / a_word] = part;
}

void ptx_store_each(struct printer *p, const struct kir_stmt *s, const char *space, const char *at, int n, const int element[]) {
  weft_dtype d = ptx_memory_of(p, s);
  int width = kir_width(d), v = s->in[0], a_word = width < 4 ? 4 / width : 1;
  int of = d == WEFT_BF16 && n % 2 == 0 ? rounded(p, v) : -1;
  const char *r[PTX_WIDE] = { 0 };
  if (of >= 0) rounded_pairs(p, of, n, element, r);
  for (int i = 0; i < n && of < 0; i++) p->reg = p->wide[element[i]], put_part(p, d, v, i, r);
  ptx_access_pieces(p, false, space, at, n / a_word, width < 4 ? 4 : width, r);
}

void ptx_store_neighbours(struct printer *p, const struct kir_stmt *s, int e, int each) {
  int element[PTX_WIDE];
  for (int i = 0; i < each; i++) element[i] = e + i;
  p->reg = p->wide[e];
  if (each == 1) {
    ptx_store_value(p, ptx_space(p, s->buf), ptx_memory_of(p, s), ptx_address(p, s->buf, s->at), s->in[0]);
    return;
  }
  ptx_store_each(p, s, ptx_space(p, s->buf), ptx_address(p, s->buf, s->at), each, element);
}

void ptx_store_woven(struct printer *p, const struct kir_stmt *first, int n, int e, int each) {
  weft_dtype d = ptx_memory_of(p, first);
  int width = kir_width(d), a_word = width < 4 ? 4 / width : 1, at = 0;
  const char *r[PTX_WIDE] = { 0 };
  for (int i = 0; i < each; i++) {
    const struct kir_stmt *s = first;
    for (int k = 0; k < n; k++, s = s->next) p->reg = p->wide[e + i], put_part(p, d, s->in[0], at++, r);
  }
  p->reg = p->wide[e];
  const char *to = ptx_address(p, first->buf, first->at);
  ptx_access_pieces(p, false, ptx_space(p, first->buf), to, at / a_word, width < 4 ? 4 : width, r);
}
