/* lin.c -- index expressions: sums of products of i64 values, kept sorted and merged, so that equal ones are equal.
 *
 * A term's factors are sorted by value; terms are sorted by their factors. An expression is never changed once made. */
#include <string.h>
#include "base/arena.h"
#include "kernel/kir.h"

static struct kir_lin fail(struct kir_kernel *k, const char *why) {
  k->failed = true;
  if (why) k->why = why;
  return (struct kir_lin){ 0 };
}

static struct kir_lin one(struct kir_kernel *k, int64_t coef, int n, int val) {
  struct kir_term *t = arena_take(k->arena, sizeof *t);
  if (!t) return fail(k, NULL);
  *t = (struct kir_term){ coef, n, { val } };
  return (struct kir_lin){ 1, t };
}

struct kir_lin kir_lin_const(struct kir_kernel *k, int64_t c) { return c ? one(k, c, 0, 0) : (struct kir_lin){ 0 }; }

struct kir_lin kir_lin_val(struct kir_kernel *k, int v) {
  const struct kir_val *x = &k->vals[v];
  if (x->kind != KIR_LIT) return one(k, 1, 1, v);
  return kir_lin_const(k, x->dtype == WEFT_I32 ? (int32_t)x->bits : (int64_t)x->bits);
}

static int compare(const struct kir_term *a, const struct kir_term *b) {
  for (int i = 0; i < a->n && i < b->n; i++)
    if (a->val[i] != b->val[i]) return a->val[i] < b->val[i] ? -1 : 1;
  return a->n - b->n;
}

/* a + sign b, a merge of two sorted lists */
static struct kir_lin sum(struct kir_kernel *k, struct kir_lin a, struct kir_lin b, int sign) {
  struct kir_lin r = { 0, arena_take(k->arena, (size_t)(a.n + b.n) * sizeof *r.term) };
  if (!r.term) return fail(k, NULL);
  for (int i = 0, j = 0; i < a.n || j < b.n;) {
    int c = i == a.n ? 1 : j == b.n ? -1 : compare(&a.term[i], &b.term[j]);
    struct kir_term t = c <= 0 ? a.term[i] : b.term[j];
    if (c > 0) t.coef = 0;
    int64_t add = c >= 0 ? b.term[j].coef : 0;
    if (sign > 0 ? __builtin_add_overflow(t.coef, add, &t.coef) : __builtin_sub_overflow(t.coef, add, &t.coef))
      return fail(k, "a number in an index is too large");
    i += c <= 0;
    j += c >= 0;
    if (t.coef) r.term[r.n++] = t;
    if (r.n > KIR_TERMS) return fail(k, "an index has too many terms");
  }
  return r;
}

struct kir_lin kir_lin_add(struct kir_kernel *k, struct kir_lin a, struct kir_lin b) {
  return !a.n ? b : !b.n ? a : sum(k, a, b, 1);
}

struct kir_lin kir_lin_sub(struct kir_kernel *k, struct kir_lin a, struct kir_lin b) { return !b.n ? a : sum(k, a, b, -1); }

struct kir_lin kir_lin_scale(struct kir_kernel *k, struct kir_lin a, int64_t by) {
  if (!by || !a.n) return (struct kir_lin){ 0 };
  struct kir_lin r = { a.n, arena_take(k->arena, (size_t)a.n * sizeof *r.term) };
  if (!r.term) return fail(k, NULL);
  for (int i = 0; i < a.n; i++) {
    r.term[i] = a.term[i];
    if (__builtin_mul_overflow(a.term[i].coef, by, &r.term[i].coef)) return fail(k, "a number in an index is too large");
  }
  return r;
}

static bool times(struct kir_term *t, const struct kir_term *a, const struct kir_term *b) {
  if (a->n + b->n > KIR_FACTORS || __builtin_mul_overflow(a->coef, b->coef, &t->coef)) return false;
  t->n = a->n + b->n;
  for (int n = 0, i = 0, j = 0; n < t->n; n++)
    t->val[n] = j == b->n || (i < a->n && a->val[i] <= b->val[j]) ? a->val[i++] : b->val[j++];
  return true;
}

struct kir_lin kir_lin_mul(struct kir_kernel *k, struct kir_lin a, struct kir_lin b) {
  struct kir_lin r = { 0 };
  for (int i = 0; i < a.n; i++)
    for (int j = 0; j < b.n; j++) {
      struct kir_term t = { 0 };
      if (!times(&t, &a.term[i], &b.term[j])) return fail(k, "a product in an index is too long");
      r = sum(k, r, (struct kir_lin){ 1, &t }, 1);
    }
  return r;
}

bool kir_lin_equal(struct kir_lin a, struct kir_lin b) {
  if (a.n != b.n) return false;
  for (int i = 0; i < a.n; i++)
    if (a.term[i].coef != b.term[i].coef || compare(&a.term[i], &b.term[i])) return false;
  return true;
}
