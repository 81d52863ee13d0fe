/* ptx_access.c -- memory: index expressions, addresses, loads, stores, and combining in place.
 *
 * Indices, strides and offsets are signed 64-bit throughout. Combining works on bit patterns and ends as soon as the
 * pattern in memory would not change, so a NaN that meets a NaN ends its loop instead of feeding it; a failed exchange means
 * that another thread has succeeded, so the loops end in any case. */
#include "backend/cuda/printer.h"
#include <inttypes.h>
#include <string.h>

/* ---- Indices ---------------------------------------------------------------------------------------------------------- */

static const char *number(struct printer *p, int64_t n) { return ptx_number(p, WEFT_I64, (uint64_t)n); }

static const char *product(struct printer *p, const struct kir_term *t) {
  const char *r = ptx_val(p, t->val[0]);
  for (int i = 1; i < t->n; i++) {
    const char *next = ptx_own(p, OWN_LONG);
    ptx_line(p, "mul.lo.s64 %s, %s, %s", next, r, ptx_val(p, t->val[i]));
    r = next;
  }
  return r;
}

static const char *add_term(struct printer *p, const char *sum, const struct kir_term *t) {
  if (!t->n && !sum) return number(p, t->coef);
  const char *x = t->n ? product(p, t) : NULL;
  if (!sum && t->coef == 1) return x;
  const char *r = ptx_own(p, OWN_LONG);
  if (!x) ptx_line(p, "add.s64 %s, %s, %s", r, sum, number(p, t->coef));
  else if (!sum) ptx_line(p, "mul.lo.s64 %s, %s, %s", r, x, number(p, t->coef));
  else if (t->coef == 1 || t->coef == -1) ptx_line(p, "%s.s64 %s, %s, %s", t->coef > 0 ? "add" : "sub", r, sum, x);
  else ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", r, x, number(p, t->coef), sum);
  return r;
}

const char *ptx_lin(struct printer *p, struct kir_lin l) {
  const char *sum = NULL;
  for (int i = 0; i < l.n; i++) sum = add_term(p, sum, &l.term[i]);
  return sum ? sum : "0";
}

/* ---- Addresses -------------------------------------------------------------------------------------------------------- */

const char *ptx_space(struct printer *p, int b) {
  if (p->k->bufs[b].kind == KIR_LOCAL && p->plan->locals_are_shared) return ".shared";
  return p->k->bufs[b].kind == KIR_LOCAL || p->survey.bufs[b].private_op != KIR_OPS ? "" : ".global";
}

/* Bytes between neighbours along an axis: a number where the class says so, else a register. */
const char *ptx_stride(struct printer *p, int b, int axis) {
  int width = kir_width((weft_dtype)p->k->bufs[b].dtype);
  bool may_move = p->survey.bufs[b].private_op != KIR_OPS; /* a private copy has strides of its own */
  if (!may_move) switch (p->shape->stride[b][axis]) {
    case STRIDE_0: return NULL;
    case STRIDE_1: return number(p, width);
    case STRIDE_MINUS_1: return number(p, -width);
    default: break;
  }
  p->stride_used[b] |= (uint16_t)(1u << axis);
  return ptx_textf(p, "%s_%d", p->base[b], axis);
}

static const char *advance(struct printer *p, const char *from, const char *index, const char *stride) {
  if (!stride || !strcmp(index, "0")) return from;
  const char *to = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", to, index, stride, from);
  return to;
}

/* From a row of a local to the next: where they have PTX_LONG_ROW elements or more, each begins at a multiple of four. */
static const char *local_pitch(struct printer *p, const char *n) {
  const char *long_one = ptx_own(p, OWN_LONG), *r = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, 3", long_one, n);
  ptx_line(p, "and.b64 %s, %s, -4", long_one, long_one);
  ptx_line(p, "setp.ge.s64 %s, %s, %d", is, n, PTX_LONG_ROW);
  ptx_line(p, "selp.s64 %s, %s, %s, %s", r, long_one, n, is);
  return r;
}

/* Tables and locals are row-major. */
static const char *dense_address(struct printer *p, const struct kir_buf *b, const char *base, const struct kir_lin at[]) {
  const char *sum = NULL;
  for (int d = 0; d < b->rank; d++) {
    const char *i = ptx_lin(p, at[d]);
    if (sum) {
      const char *next = ptx_own(p, OWN_LONG), *n = ptx_lin(p, b->dims[d]);
      if (b->kind == KIR_LOCAL && d == b->rank - 1) n = local_pitch(p, n);
      ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", next, sum, n, i);
      i = next;
    }
    sum = i;
  }
  return sum ? advance(p, base, sum, number(p, kir_width((weft_dtype)b->dtype))) : base;
}

const char *ptx_address(struct printer *p, int b, const struct kir_lin at[]) {
  const struct kir_buf *buf = &p->k->bufs[b];
  const char *r = p->base[b];
  p->base_used[b] = true;
  if (buf->kind == KIR_TABLE || buf->kind == KIR_LOCAL) return dense_address(p, buf, r, at);
  for (int d = 0; d < buf->rank; d++) {
    const char *stride = ptx_stride(p, b, d);
    if (stride) r = advance(p, r, ptx_lin(p, at[d]), stride);
  }
  return r;
}

/* ---- Loads and stores ------------------------------------------------------------------------------------------------- */

static const char *memory_type(weft_dtype d) {
  switch (d) {
  case WEFT_BOOL: case WEFT_U8: return "u8";
  case WEFT_I8: return "s8";
  case WEFT_U16: case WEFT_BF16: return "u16";
  case WEFT_I16: return "s16";
  case WEFT_F16: return "b16";
  default: return ptx_type(d);
  }
}

static const char *carrier(struct printer *p, weft_dtype d, const char *dst) {
  return d == WEFT_BOOL || d == WEFT_BF16 ? ptx_own(p, OWN_WORD) : d == WEFT_F16 ? ptx_own(p, OWN_HALF) : dst;
}

#define GUARD(p) (p)->guard ? "@" : "", (p)->guard ? (p)->guard : "", (p)->guard ? " " : "" /* three texts */

void ptx_load_bytes(struct printer *p, const char *space, weft_dtype d, const char *r, const char *address) {
  ptx_line(p, "%s%s%sld%s.%s %s, [%s]", GUARD(p), space, memory_type(d), r, address);
}

/* What the bytes say. */
static void unpack(struct printer *p, weft_dtype d, const char *dst, const char *r, bool is_made) {
  if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", dst, r);
  if (d == WEFT_BF16) ptx_line(p, "shl.b32 %s, %s, 16", dst, r);
  if (d == WEFT_F16) ptx_from_f16(p, dst, r, is_made);
}

static void load_as(struct printer *p, const char *space, weft_dtype d, const char *dst, const char *address, bool is_made) {
  const char *r = carrier(p, d, dst);
  ptx_load_bytes(p, space, d, r, address);
  unpack(p, d, dst, r, is_made);
}

const char *ptx_carrier(struct printer *p, weft_dtype d, weft_dtype value) {
  return d == WEFT_BF16 || d == WEFT_F16 ? carrier(p, d, NULL) : ptx_own_of(p, value);
}

void ptx_take_bytes(struct printer *p, weft_dtype d, int value, const char *r) {
  if (d == WEFT_BF16 || d == WEFT_F16) unpack(p, d, ptx_val(p, value), r, d == WEFT_F16 && !ptx_pattern_matters(p, value));
  else ptx_mov(p, (weft_dtype)p->k->vals[value].dtype, ptx_val(p, value), r);
}

void ptx_load(struct printer *p, const char *space, weft_dtype d, const char *dst, const char *address) {
  load_as(p, space, d, dst, address, false);
}

void ptx_load_value(struct printer *p, const char *space, weft_dtype d, int value, const char *address) {
  load_as(p, space, d, ptx_val(p, value), address, d == WEFT_F16 && !ptx_pattern_matters(p, value));
}

/* is_narrow: src is a bf16 already */
static void store_as(struct printer *p, const char *space, weft_dtype d, const char *address, const char *src, bool is_narrow,
                     bool is_made) {
  const char *r = src;
  if (d == WEFT_BF16 && !is_narrow) ptx_to_bf16(p, WEFT_F32, r = ptx_own(p, OWN_WORD), src, is_made);
  if (d == WEFT_BF16) {
    const char *pattern = ptx_own(p, OWN_WORD);
    ptx_line(p, "shr.b32 %s, %s, 16", pattern, r);
    r = pattern;
  }
  if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", r = ptx_own(p, OWN_WORD), src);
  if (d == WEFT_F16) r = ptx_to_f16(p, WEFT_F32, src, is_made);
  ptx_line(p, "%s%s%sst%s.%s [%s], %s", GUARD(p), space, memory_type(d), address, r);
}

void ptx_store(struct printer *p, const char *space, weft_dtype d, const char *address, const char *src) {
  store_as(p, space, d, address, src, false, false);
}

void ptx_store_value(struct printer *p, const char *space, weft_dtype d, const char *address, int value) {
  const char *src = ptx_in_register(p, (weft_dtype)p->k->vals[value].dtype, value);
  store_as(p, space, d, address, src, ptx_is_narrow(p, value, d), ptx_is_made(p, value));
}

/* ---- The patterns of NaN ---------------------------------------------------------------------------------------------- */

static bool is_number(const struct kir_val *v) {
  bool is_f32 = v->dtype == WEFT_F32;
  uint64_t sign = is_f32 ? 0x80000000u : UINT64_C(1) << 63, infinity = is_f32 ? 0x7f800000u : UINT64_C(0x7ff0000000000000);
  return v->kind == KIR_LIT && (v->bits & ~sign) <= infinity;
}

bool ptx_is_made(const struct printer *p, int v) { return p->made[v] || is_number(&p->k->vals[v]); }

/* A NaN that goes in comes out as one of the machine's, or does not come out. */
static bool forgets(enum kir_op op) {
  switch (op) {
    case KIR_ADD: case KIR_SUB: case KIR_MUL: case KIR_FMA: case KIR_DIV: case KIR_SQRT: case KIR_SCALE: case KIR_MIN: case KIR_MAX:
    case KIR_EQ: case KIR_NE: case KIR_LT: case KIR_LE: return true;
    default: return false;
  }
}

void ptx_note_made(struct printer *p, const struct kir_stmt *s) {
  weft_dtype from = (weft_dtype)p->k->vals[s->in[s->n_in - 1]].dtype;
  bool is_made = false;
  if (s->op == KIR_SELECT) is_made = ptx_is_made(p, s->in[1]) && ptx_is_made(p, s->in[2]);
  else if (s->op == KIR_NEG || s->op == KIR_ABS) is_made = ptx_is_made(p, s->in[0]);
  else if (s->op == KIR_CAST) is_made = from != WEFT_F32 || ptx_is_made(p, s->in[0]);
  else is_made = forgets((enum kir_op)s->op);
  p->made[s->out[0]] = is_made;
}

static bool hands_on(const struct kir_block *b, int v) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    bool is_harmless = s->kind == KIR_KEEP || ((s->kind == KIR_OP || s->kind == KIR_FOLD) && forgets((enum kir_op)s->op));
    for (int i = 0; i < s->n_in; i++) if (s->in[i] == v && !is_harmless) return true;
    for (int i = 0; i < s->n_from; i++) if (s->from[i] == v) return true;
    if (hands_on(&s->body, v)) return true;
  }
  return false;
}

bool ptx_pattern_matters(const struct printer *p, int v) { return hands_on(&p->k->body, v); }

/* ---- Combining in memory ---------------------------------------------------------------------------------------------- */

/* The lanes of a warp that go to one place combine first: what remains is one exchange a warp and place. Jumps to done in
 * all of them but one, which goes on with the total. */
static const char *combine_warp(struct printer *p, enum kir_op op, weft_dtype d, const char *address, const char *src,
                                const char *done) {
  const char *group = ptx_own(p, OWN_WORD), *rest = ptx_own(p, OWN_WORD), *first = ptx_own(p, OWN_WORD);
  const char *lane = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED), *total = ptx_own_of(p, d);
  const char *more = ptx_label(p, "more"), *all = ptx_label(p, "all");
  ptx_line(p, "activemask.b32 %s", group);
  ptx_line(p, "match.any.sync.b64 %s, %s, %s", group, address, group);
  ptx_line(p, "bfind.u32 %s, %s", first, group);
  ptx_line(p, "mov.%s %s, %s", ptx_bits(d), total, ptx_shuffle(p, d, "idx", src, first, group));
  ptx_line(p, "shl.b32 %s, 1, %s", bit, first);
  ptx_line(p, "xor.b32 %s, %s, %s", rest, group, bit);
  ptx_place_loop(p, more);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, all);
  ptx_line(p, "bfind.u32 %s, %s", lane, rest);
  ptx_instruction(p, op, d, total, (const char *[]){ total, ptx_shuffle(p, d, "idx", src, lane, group) });
  ptx_line(p, "shl.b32 %s, 1, %s", bit, lane);
  ptx_line(p, "xor.b32 %s, %s, %s", rest, rest, bit);
  ptx_line(p, "bra %s", more);
  ptx_place(p, all);
  ptx_line(p, "mov.u32 %s, %%laneid", lane);
  ptx_line(p, "setp.ne.u32 %s, %s, %s", is, lane, first);
  ptx_line(p, "@%s bra %s", is, done);
  return total;
}

static bool is_shared(const char *space) { return !strcmp(space, ".shared"); }

enum { TRIES = 4 }; /* in memory that all processors share; places of a block of threads have few who compete */

/* A few tries: goes to done if new = old o src is there now, or would change nothing. */
static void try_swap(struct printer *p, const char *space, enum kir_op op, weft_dtype d, const char *address, const char *src,
                     const char *done) {
  const char *bits = ptx_bits(d), *old = ptx_own_of(p, d), *new = ptx_own_of(p, d), *seen = ptx_own_of(p, d);
  const char *is = ptx_own(p, OWN_PRED), *n = ptx_own(p, OWN_WORD), *again = ptx_label(p, "try");
  ptx_line(p, "ld.volatile%s.%s %s, [%s]", space, bits, old, address);
  ptx_line(p, "mov.u32 %s, %d", n, is_shared(space) ? 1 : TRIES);
  ptx_place_loop(p, again);
  ptx_instruction(p, op, d, new, (const char *[]){ old, src });
  ptx_line(p, "setp.eq.%s %s, %s, %s", bits, is, new, old);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_line(p, "atom%s.cas.%s %s, [%s], %s, %s", space, bits, seen, address, old, new);
  ptx_line(p, "setp.eq.%s %s, %s, %s", bits, is, seen, old);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_line(p, "mov.%s %s, %s", bits, old, seen);
  ptx_line(p, "sub.u32 %s, %s, 1", n, n);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", is, n);
  ptx_line(p, "@%s bra %s", is, again);
}

/* old = what is there, until new = old o src is there, or would change nothing */
static void swap_loop(struct printer *p, const char *space, enum kir_op op, weft_dtype d, const char *address, const char *src) {
  const char *bits = ptx_bits(d), *again = ptx_label(p, "again"), *done = ptx_label(p, "done");
  const char *old = ptx_own_of(p, d), *new = ptx_own_of(p, d), *seen = ptx_own_of(p, d), *same = ptx_own(p, OWN_PRED);
  /* Most soon find their place free. Those who do not are many: they combine first. */
  try_swap(p, space, op, d, address, src, done);
  src = combine_warp(p, op, d, address, src, done);
  ptx_line(p, "ld.volatile%s.%s %s, [%s]", space, bits, old, address);
  ptx_place_loop(p, again);
  ptx_instruction(p, op, d, new, (const char *[]){ old, src });
  ptx_line(p, "setp.eq.%s %s, %s, %s", bits, same, new, old);
  ptx_line(p, "@%s bra %s", same, done);
  ptx_line(p, "atom%s.cas.%s %s, [%s], %s, %s", space, bits, seen, address, old, new);
  ptx_line(p, "setp.eq.%s %s, %s, %s", bits, same, seen, old);
  ptx_line(p, "mov.%s %s, %s", bits, old, seen);
  ptx_line(p, "@!%s bra %s", same, again);
  ptx_place(p, done);
}

/* red.add.f32 in global memory takes denormals for 0, unlike that in shared memory. From |src| >= 2^-100 on neither a denormal in
 * memory nor a denormal sum can make a difference: the one is below half an ulp of src, the other is no multiple of the ulps. */
static void add_f32(struct printer *p, const char *space, const char *address, const char *src) {
  const char *size = ptx_own(p, OWN_WORD), *is_tiny = ptx_own(p, OWN_PRED);
  const char *tiny = ptx_label(p, "tiny"), *done = ptx_label(p, "done");
  if (is_shared(space)) { ptx_line(p, "red.shared.add.f32 [%s], %s", address, src); return; }
  ptx_line(p, "and.b32 %s, %s, 0x7fffffff", size, src);
  ptx_line(p, "setp.lt.u32 %s, %s, 0x0d800000", is_tiny, size);
  ptx_line(p, "@%s bra %s", is_tiny, tiny);
  ptx_line(p, "red%s.add.f32 [%s], %s", space, address, src);
  ptx_line(p, "bra %s", done);
  ptx_place(p, tiny);
  swap_loop(p, space, KIR_ADD, WEFT_F32, address, src);
  ptx_place(p, done);
}

/* A bool is a byte: combined inside its word, the neighbours given neutral bits. */
static void combine_bool(struct printer *p, const char *space, enum kir_op op, const char *address, const char *src) {
  const char *at = ptx_own(p, OWN_LONG), *low = ptx_own(p, OWN_WORD), *w = ptx_own(p, OWN_WORD);
  ptx_line(p, "cvt.u32.u64 %s, %s", low, address);
  ptx_line(p, "and.b32 %s, %s, 3", low, low);
  ptx_line(p, "shl.b32 %s, %s, 3", low, low);
  ptx_line(p, "and.b64 %s, %s, -4", at, address);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", w, op == KIR_AND ? "0" : "1", op == KIR_AND ? "1" : "0", src);
  ptx_line(p, "shl.b32 %s, %s, %s", w, w, low);
  if (op == KIR_AND) ptx_line(p, "not.b32 %s, %s", w, w);
  ptx_line(p, "red%s.%s.b32 [%s], %s", space, kir_rows[op].name, at, w);
}

void ptx_combine(struct printer *p, const char *space, enum kir_op op, weft_dtype d, const char *address, const char *src) {
  bool is_logic = op == KIR_AND || op == KIR_OR || op == KIR_XOR, is_float = kir_is_float(d);
  const char *unsigned_type = kir_width(d) == 8 ? "u64" : "u32";
  if (d == WEFT_BOOL && is_logic) combine_bool(p, space, op, address, src);
  else if (d == WEFT_BOOL) ptx_refuse(p, "a combiner it does not have for bool");
  else if (is_logic) ptx_line(p, "red%s.%s.%s [%s], %s", space, kir_rows[op].name, ptx_bits(d), address, src);
  else if (op == KIR_ADD && d == WEFT_F32) add_f32(p, space, address, src);
  else if (op == KIR_ADD) ptx_line(p, "red%s.add.%s [%s], %s", space, is_float ? "f64" : unsigned_type, address, src);
  else if ((op == KIR_MIN || op == KIR_MAX) && !is_float)
    ptx_line(p, "red%s.%s.%s [%s], %s", space, kir_rows[op].name, ptx_type(d), address, src);
  else if (op == KIR_MUL || op == KIR_MIN || op == KIR_MAX) swap_loop(p, space, op, d, address, src);
  else ptx_refuse(p, "a combiner it does not have");
}
