/* ptx_quotient.c -- quotients of f32 without jumps.
 *
 * div.rn is a short way for most numbers and a long one for the others, with a jump for every quotient, over which the compiler
 * moves nothing. Of several quotients all go the short way here, side by side, and all of them the long one if a number of one of
 * them is not between 2^-60 and 2^60. The bits are those of div.rn, whose short way this is: measured on an H200 for all
 * denominators and eight numerators.
 *
 * The long way of div.rn is a call, across which values must stand where the callee leaves them: a kernel takes more registers
 * for it. Here it is a quotient of f64, rounded: f32 over f32 is never so near to the middle of two f32, denormal or not, that the
 * first rounding leads to another second one, and is exact where it is the middle. */
#include "backend/cuda/printer.h"

/* A literal between 2^-30 and 2^30 over an f32: it need not be looked at. */
bool ptx_is_of_number(const struct printer *p, const struct kir_stmt *s) {
  if (s->kind != KIR_OP || s->op != KIR_DIV || p->k->vals[s->in[0]].kind != KIR_LIT) return false;
  const struct kir_val *v = &p->k->vals[s->in[0]];
  uint64_t size = v->bits & 0x7fffffff;
  return v->dtype == WEFT_F32 && size >= 0x30800000 && size <= 0x4e800000;
}

/* Of a power of two: its exponent, 127 more than that; else 0. */
int ptx_power(const struct printer *p, const struct kir_stmt *s) {
  uint64_t bits = p->k->vals[s->in[0]].bits & 0x7fffffff;
  return ptx_is_of_number(p, s) && !(bits & 0x7fffff) ? (int)(bits >> 23) : 0;
}

/* all = all and 2^low <= |x| <= 2^high */
static void look_at(struct printer *p, const char *x, int low, int high, const char *all) {
  const char *size = ptx_own(p, OWN_WORD);
  ptx_line(p, "abs.f32 %s, %s", size, x);
  ptx_line(p, "setp.ge.and.f32 %s, %s, 0f%08x, %s", all, size, (unsigned)(low + 127) << 23, all);
  ptx_line(p, "setp.le.and.f32 %s, %s, 0f%08x, %s", all, size, (unsigned)(high + 127) << 23, all);
}

struct reciprocal { const char *of, *r, *less; };

/* r = 1 / b to an ulp, and -b */
static struct reciprocal reciprocal(struct printer *p, const char *b) {
  struct reciprocal x = { b, ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD) };
  const char *e = ptx_own(p, OWN_WORD);
  ptx_line(p, "rcp.approx.ftz.f32 %s, %s", x.r, b);
  ptx_line(p, "neg.f32 %s, %s", x.less, b);
  ptx_line(p, "fma.rn.f32 %s, %s, %s, 0f3f800000", e, x.less, x.r);
  ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", x.r, x.r, e, x.r);
  return x;
}

/* q = a r, corrected by what a - b q leaves: the nearest (Markstein). Of b = 2 - 2^-23 it is that because the 1 / b of the machine
 * is the nearest one. */
static void short_way(struct printer *p, const struct ptx_quotient *x, const struct reciprocal *over) {
  const char *left = ptx_own(p, OWN_WORD), *about = ptx_own(p, OWN_WORD);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", about, x->a, over->r);
  ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", left, over->less, about, x->a);
  ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", x->q, over->r, left, about);
}

/* q = a / b for a power of two a, of which 1 / b is the nearest already: a correction makes it of every number that is at most an
 * ulp off, as the machine's are, but for b = 2 - 2^-23 (above). Tried for all b and all such numbers, and on an H200. The quotient
 * must be no denormal, nor 1 / b. */
static void power_way(struct printer *p, const struct ptx_quotient *x, const char *all) {
  int down = x->power < 127 ? x->power - 127 : 0, up = x->power > 127 ? x->power - 127 : 0;
  look_at(p, x->b, up - 126, down + 126, all);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", x->q, x->a, reciprocal(p, x->b).r);
}

/* q = a / b for all numbers. That of zeros, infinities and NaN is a times the machine's 1 / b. */
static void long_way(struct printer *p, const struct ptx_quotient *x) {
  const char *a = ptx_own(p, OWN_LONG), *b = ptx_own(p, OWN_LONG), *less = ptx_own(p, OWN_LONG), *r = ptx_own(p, OWN_LONG),
             *e = ptx_own(p, OWN_LONG), *q = ptx_own(p, OWN_LONG), *other = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED),
             *size = ptx_own(p, OWN_WORD);
  ptx_line(p, "cvt.f64.f32 %s, %s", a, x->a);
  ptx_line(p, "cvt.f64.f32 %s, %s", b, x->b);
  ptx_line(p, "rcp.approx.ftz.f64 %s, %s", r, b);
  ptx_line(p, "mul.rn.f64 %s, %s, %s", other, a, r);
  ptx_line(p, "neg.f64 %s, %s", less, b);
  for (int i = 0; i < 2; i++) {
    ptx_line(p, "fma.rn.f64 %s, %s, %s, 0d3ff0000000000000", e, less, r);
    ptx_line(p, "fma.rn.f64 %s, %s, %s, %s", r, r, e, r);
  }
  ptx_line(p, "mul.rn.f64 %s, %s, %s", q, a, r);
  ptx_line(p, "fma.rn.f64 %s, %s, %s, %s", e, less, q, a);
  ptx_line(p, "fma.rn.f64 %s, %s, %s, %s", q, e, r, q);
  ptx_line(p, "mov.pred %s, 1", is);
  for (int i = 0; i < 2; i++) {
    ptx_line(p, "abs.f32 %s, %s", size, i ? x->a : x->b);
    ptx_line(p, "setp.gt.and.f32 %s, %s, 0f00000000, %s", is, size, is);
    ptx_line(p, "setp.le.and.f32 %s, %s, 0f7f7fffff, %s", is, size, is);
  }
  ptx_line(p, "selp.b64 %s, %s, %s, %s", q, q, other, is);
  ptx_line(p, "cvt.rn.f32.f64 %s, %s", x->q, q);
}

/* No quotient is an operand of another one. */
void ptx_quotients(struct printer *p, int n, const struct ptx_quotient x[]) {
  const char *all = ptx_own(p, OWN_PRED), *done = ptx_label(p, "near");
  struct reciprocal over = { 0 };
  ptx_line(p, "mov.pred %s, 1", all);
  for (int i = 0; i < n; i++) {
    bool is_other = over.of != x[i].b;
    if (x[i].power && is_other) { power_way(p, &x[i], all); continue; }
    if (!x[i].is_of_number) look_at(p, x[i].a, -60, 60, all);
    if (is_other) look_at(p, x[i].b, -60, 60, all), over = reciprocal(p, x[i].b);
    short_way(p, &x[i], &over);
  }
  ptx_line(p, "@%s bra %s", all, done);
  for (int i = 0; i < n; i++) long_way(p, &x[i]);
  ptx_place(p, done);
}
