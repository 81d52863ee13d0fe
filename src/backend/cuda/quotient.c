/* quotient.c -- quotients of f32 without jumps.
 *
 * div.rn is a short way for most numbers and a long one for the others, with a jump for every quotient, over which the compiler
 * moves nothing. Of several quotients all go the short way here, side by side, and all of them the long one if a number of one of
 * them is not between 2^-60 and 2^60. The bits are those of div.rn, whose short way this is: measured on an H200 for all
 * denominators and eight numerators. */
#include "backend/cuda/printer.h"

/* A literal between 2^-30 and 2^30 over an f32: it need not be looked at. */
bool ptx_is_of_number(const struct printer *p, const struct kir_stmt *s) {
  if (s->kind != KIR_OP || s->op != KIR_DIV || p->k->vals[s->in[0]].kind != KIR_LIT) return false;
  const struct kir_val *v = &p->k->vals[s->in[0]];
  uint64_t size = v->bits & 0x7fffffff;
  return v->dtype == WEFT_F32 && size >= 0x30800000 && size <= 0x4e800000;
}

/* all = all and 2^-60 <= |x| <= 2^60 */
static void look_at(struct printer *p, const char *x, const char *all) {
  const char *size = ptx_own(p, OWN_WORD);
  ptx_line(p, "abs.f32 %s, %s", size, x);
  ptx_line(p, "setp.ge.and.f32 %s, %s, 0f21800000, %s", all, size, all);
  ptx_line(p, "setp.le.and.f32 %s, %s, 0f5d800000, %s", all, size, all);
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

/* No quotient is an operand of another one. */
void ptx_quotients(struct printer *p, int n, const struct ptx_quotient x[]) {
  const char *all = ptx_own(p, OWN_PRED), *done = ptx_label(p, "near");
  struct reciprocal over = { 0 };
  ptx_line(p, "mov.pred %s, 1", all);
  for (int i = 0; i < n; i++) {
    bool is_other = over.of != x[i].b;
    if (!x[i].is_of_number) look_at(p, x[i].a, all);
    if (is_other) look_at(p, x[i].b, all), over = reciprocal(p, x[i].b);
    short_way(p, &x[i], &over);
  }
  ptx_line(p, "@%s bra %s", all, done);
  for (int i = 0; i < n; i++) ptx_line(p, "div.rn.f32 %s, %s, %s", x[i].q, x[i].a, x[i].b);
  ptx_place(p, done);
}
