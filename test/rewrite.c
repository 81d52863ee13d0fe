/* rewrite.c -- the rows as data: both sides computed on special and random values, and found again in graphs; views, casts,
 * common expressions, numbers and loops made smaller. */
#include <math.h>
#include "base/arena.h"
#include "base/mem.h"
#include "graph/dtype.h"
#include "op/loop.h"
#include "rewrite/rewrite.h"
#include "rewrite/rules.h"
#include "values.h"

/* ---- Calling ops by name ---- */

static weft_array *apply(const char *name, weft_array *const in[]) {
#define CASE(id, doc) if (!strcmp(name, #id)) return weft_##id(in[0]);
  WEFT_UNARY(CASE)
#undef CASE
#define CASE(id, doc) if (!strcmp(name, #id)) return weft_##id(in[0], in[1]);
  WEFT_BINARY(CASE)
#undef CASE
  if (!strcmp(name, "where")) return weft_where(in[0], in[1], in[2]);
  if (!strcmp(name, "fma")) return weft_fma(in[0], in[1], in[2]);
  return NULL;
}

/* ---- Values ---- */

enum { SPECIALS = 16, N = SPECIALS * SPECIALS * SPECIALS };

static double special(int i) {
  static const double s[SPECIALS] = { 0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38,
                                      0.5, 1.0 / 3, -2.75, 1e-20, 12345.678 };
  return s[i];
}

static double value(weft_dtype d, int var, int i) {
  int k = (var == 0 ? i : var == 1 ? i / SPECIALS : i / SPECIALS / SPECIALS) % SPECIALS;
  if (d == WEFT_F64 && k == 7) return 5e-324;
  if (d == WEFT_F64 && k == 9) return 1.7976931348623157e308;
  if (dtype_is_float(d)) return special(k);
  static const double whole[SPECIALS] = { 0, 1, 2, 3, 127, -128, 255, -1, 32767, 2147483647, -2147483648.0, 5, 7, 100, -100, 64 };
  return whole[k];
}

static weft_array *filled(weft_dtype d, int var) {
  size_t bytes = weft_dtype_bytes(d);
  unsigned char *data = malloc(N * bytes);
  for (int i = 0; i < N; i++) {
    uint64_t bits = d == WEFT_BOOL ? (uint64_t)((i * 7 / (var + 1)) % 3 == 0) : dtype_encode(d, value(d, var, i));
    memcpy(data + (size_t)i * bytes, &bits, bytes);
  }
  weft_array *a = weft_from(d, WEFT_DIMS(N), data);
  free(data);
  return a;
}

static weft_array *constant(weft_dtype d, double x) {
  size_t bytes = weft_dtype_bytes(d);
  unsigned char *data = malloc(N * bytes);
  uint64_t bits = dtype_encode(d, x);
  for (int i = 0; i < N; i++) memcpy(data + (size_t)i * bytes, &bits, bytes);
  weft_array *a = weft_from(d, WEFT_DIMS(N), data);
  free(data);
  return a;
}

/* The dtype an operand of a pattern has when x has dtype d: conditions are bools. */
static weft_dtype operand_dtype(const struct pattern *p, int parent, int k, weft_dtype d) {
  return parent >= 0 && p->node[parent].op == &op_where && k == 0 ? WEFT_BOOL : d;
}

/* One side, each op evaluated on its own: there is nothing to rewrite. NULL: not an operation on this dtype. */
static weft_array *computed(const struct pattern *p, int at, int parent, int k, weft_dtype d, weft_array *const var[]) {
  const struct pattern_node *q = &p->node[at];
  if (!q->op && q->var >= 0) return var[q->var];
  if (!q->op) return constant(operand_dtype(p, parent, k, d), q->number);
  weft_array *in[3];
  for (int i = 0; i < q->n; i++)
    if (!(in[i] = computed(p, q->in[i], at, i, d, var))) return NULL;
  weft_array *y = apply(q->op->name, in);
  if (!y || weft_check(y) != WEFT_OK || weft_eval(1, &y) != WEFT_OK) return NULL;
  return y;
}

static void expect_same(const struct rewrite_rule *r, weft_dtype d, const unsigned char *a, const unsigned char *b) {
  size_t bytes = weft_dtype_bytes(d);
  if (r->tag >= RULE_STABLE && dtype_is_f8(d)) return; /* 2 and 3 digits: a rounding more or less is anything where terms cancel */
  for (int i = 0; i < N; i++) {
    uint64_t x = 0, y = 0;
    memcpy(&x, a + (size_t)i * bytes, bytes);
    memcpy(&y, b + (size_t)i * bytes, bytes);
    double u = dtype_decode(d, x), v = dtype_decode(d, y);
    bool ok = x == y || (u != u && v != v);
    double tolerance = d == WEFT_F64 ? 1e-14 : d == WEFT_F32 ? 1e-6 : 0.02;
    if (r->tag >= RULE_STABLE) ok = ok || u == v || fabs(u - v) <= tolerance * (1 + fabs(u));
    if (r->tag == RULE_FAST) ok = ok || (!isfinite(u) && !isfinite(v)); /* the product was beyond the largest number */
    if (!ok) {
      test_fail(__FILE__, __LINE__, "%s -> %s, %s, element %d: %.17g (%llx) and %.17g (%llx)", r->before, r->after,
                weft_dtype_name(d), i, u, (unsigned long long)x, v, (unsigned long long)y);
      return;
    }
  }
}

/* Whether the numbers of a pattern are values of the dtype: -1 is none of u8. */
static bool has_numbers(const struct pattern *p, weft_dtype d) {
  for (int i = 0; i < p->n; i++) {
    const struct pattern_node *q = &p->node[i];
    if (!q->op && q->var < 0 && q->number == q->number && dtype_decode(d, dtype_encode(d, q->number)) != q->number) return false;
  }
  return true;
}

static bool is_on(const struct rule_compiled *c, weft_dtype d) {
  char on = c->on;
  if (!has_numbers(&c->before, d) || !has_numbers(&c->after, d)) return false;
  return on == 'a' || (on == 'f' && dtype_is_float(d)) || (on == 'i' && dtype_is_integer(d)) || (on == 'b' && d == WEFT_BOOL) ||
         (on == 'n' && d != WEFT_BOOL);
}

static int compare_sides(const struct rewrite_rule *r, const struct rule_compiled *c, weft_dtype d) {
  weft_scope *s = weft_scope_open();
  weft_array *var[PATTERN_VARS] = { filled(d, 0), filled(d, 1), filled(d, 2), filled(WEFT_BOOL, 1) };
  var[PATTERN_K] = constant(d, 3);
  weft_array *a = computed(&c->before, 0, -1, 0, d, var), *b = computed(&c->after, 0, -1, 0, d, var);
  int compared = 0;
  if (a && b) {
    weft_dtype t = weft_dtype_of(a);
    size_t bytes = N * weft_dtype_bytes(t);
    unsigned char *x = malloc(bytes), *y = malloc(bytes);
    EXPECT_INT(weft_dtype_of(b), t);
    if (weft_read(a, t, x, bytes) == WEFT_OK && weft_read(b, t, y, bytes) == WEFT_OK) expect_same(r, t, x, y), compared = 1;
    free(x);
    free(y);
  }
  weft_scope_discard(s);
  return compared;
}

static const weft_dtype DTYPES[] = { WEFT_F32, WEFT_F64, WEFT_F16, WEFT_BF16, WEFT_E4M3, WEFT_E5M2, WEFT_I32, WEFT_I64, WEFT_U8, WEFT_BOOL };
enum { N_DTYPES = sizeof DTYPES / sizeof *DTYPES };

TEST(every_row_can_be_read) {
  int n, rows = 0;
  const struct rule_compiled *c = rules_compiled(&n);
  for (const struct rewrite_rule *r = rewrite_rules; r->before; r++) rows++;
  EXPECT(c);
  EXPECT_INT(n, rows);
}

TEST(both_sides_of_every_row_agree_on_special_values) {
  test_watchdog(120);
  int n;
  const struct rule_compiled *c = rules_compiled(&n);
  for (int i = 0; i < n; i++) {
    int compared = 0;
    for (int k = 0; k < N_DTYPES; k++)
      if (is_on(&c[i], DTYPES[k])) compared += compare_sides(&rewrite_rules[i], &c[i], DTYPES[k]);
    if (!compared) test_fail(__FILE__, __LINE__, "%s was compared for no dtype", rewrite_rules[i].before);
  }
}

/* ---- Graphs as plans see them ---- */

struct copied { struct arena *arena; struct node_list list; struct node *target[4]; int n; };

static void copied_open(struct copied *l, int n, weft_array *const a[]) {
  struct node_list from = { 0 };
  struct node *target[4];
  *l = (struct copied){ .arena = arena_new(), .n = n };
  for (int i = 0; i < n; i++) target[i] = a[i]->node;
  graph_lock();
  walk(&from, n, target, NULL);
  l->list.node = arena_take(l->arena, (size_t)(from.n + 1) * sizeof *l->list.node);
  for (int i = 0; i < from.n; i++) {
    struct node *x = from.node[i], **in = arena_take(l->arena, (size_t)(x->n_in + 1) * sizeof *in);
    for (int k = 0; k < x->n_in; k++) in[k] = l->list.node[x->in[k]->slot];
    struct node *y = node_local(l->arena, x->op, (weft_dtype)x->dtype, x->rank, x->dims, x->n_in, in, x->attr, x->attr_bytes);
    y->weak = x->weak;
    local_of(y)->leaf = x->op->kind == OP_LEAF ? (int)x->serial : 0; /* tells leaves apart */
    l->list.node[l->list.n++] = y;
  }
  for (int i = 0; i < n; i++) l->target[i] = l->list.node[target[i]->slot];
  graph_unlock();
  node_list_free(&from);
}

static void copied_close(struct copied *l) { arena_free(l->arena); }

static void rewritten(struct copied *l, enum rule_tag most, int n, weft_array *const a[]) {
  copied_open(l, n, a);
  EXPECT(rewrite(l->arena, &l->list, l->n, l->target, most));
  for (int i = 0; i < l->list.n; i++)
    for (int k = 0; k < l->list.node[i]->n_in; k++) EXPECT(l->list.node[i]->in[k]->slot < i);
}

static bool same(const struct node *a, const struct node *b) {
  if (a->op != b->op || a->dtype != b->dtype || a->rank != b->rank || a->n_in != b->n_in || a->attr_bytes != b->attr_bytes) return false;
  if (memcmp(a->dims, b->dims, a->rank * sizeof *a->dims)) return false;
  if (a->op == &op_scalar) {
    double u = dtype_decode((weft_dtype)a->dtype, scalar_bits(a, (weft_dtype)a->dtype)), v = dtype_decode((weft_dtype)b->dtype, scalar_bits(b, (weft_dtype)b->dtype));
    return !memcmp(&u, &v, sizeof u) || (u != u && v != v);
  }
  if (a->op->kind == OP_LEAF) return local_of(a)->leaf == local_of(b)->leaf;
  for (int k = 0; k < a->n_in; k++)
    if (!same(a->in[k], b->in[k])) return false;
  return true;
}

static weft_array *written(const struct pattern *p, int at, int parent, int k, weft_dtype d, weft_array *const var[]) {
  const struct pattern_node *q = &p->node[at];
  if (!q->op && q->var >= 0) return var[q->var];
  if (!q->op) return weft_full(operand_dtype(p, parent, k, d), WEFT_DIMS(4), q->number);
  weft_array *in[3];
  for (int i = 0; i < q->n; i++) in[i] = written(p, q->in[i], at, i, d, var);
  return apply(q->op->name, in);
}

static void expect_rewritten(const struct rewrite_rule *r, const struct rule_compiled *c, weft_dtype d) {
  weft_scope *s = weft_scope_open();
  weft_array *var[PATTERN_VARS], *side[2];
  for (int k = 0; k < PATTERN_VARS; k++)
    var[k] = k == PATTERN_K ? weft_full(d, WEFT_DIMS(4), 3) : weft_input(k == 3 ? WEFT_BOOL : d, WEFT_DIMS(4));
  side[0] = written(&c->before, 0, -1, 0, d, var);
  side[1] = written(&c->after, 0, -1, 0, d, var);
  if (weft_check(side[0]) == WEFT_OK && weft_check(side[1]) == WEFT_OK) {
    struct copied l;
    weft_array *behind[2] = { weft_stop_gradient(weft_where(var[3], side[0], side[0])), side[1] };
    rewritten(&l, r->tag, 2, behind);
    if (!same(l.target[0], l.target[1])) test_fail(__FILE__, __LINE__, "%s did not become %s, but %s", r->before, r->after, l.target[0]->op->name);
    copied_close(&l);
    if (r->tag > RULE_EXACT) { /* it stays where fewer are allowed */
      rewritten(&l, r->tag - 1, 1, side);
      EXPECT(l.target[0]->op == c->before.node[0].op);
      copied_close(&l);
    }
  }
  weft_scope_discard(s);
}

TEST(every_row_is_applied_where_it_matches) {
  int n;
  const struct rule_compiled *c = rules_compiled(&n);
  for (int i = 0; i < n; i++) {
    if (!c[i].after.node[0].op && c[i].after.node[0].var < 0) continue; /* a number as a target stays to be computed */
    for (int k = 0; k < N_DTYPES; k++)
      if (is_on(&c[i], DTYPES[k])) expect_rewritten(&rewrite_rules[i], &c[i], DTYPES[k]);
  }
}

TEST(adding_plus_zero_is_not_the_identity) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4)), *y = weft_add(x, weft_scalar(0));
  struct copied l;
  rewritten(&l, true, 1, &y);
  EXPECT(l.target[0]->op == &op_add);
  copied_close(&l);
  weft_scope_discard(s);
}

/* ---- Rules in code ---- */

static void expect_leaf(weft_array *y, weft_array *x) {
  struct copied l;
  rewritten(&l, false, 2, (weft_array *[]){ y, x });
  EXPECT(l.target[0] == l.target[1]);
  copied_close(&l);
}

static int count_op(const struct copied *l, const struct op *op) {
  int n = 0;
  for (int i = 0; i < l->list.n; i++) n += l->list.node[i]->op == op;
  return n;
}

TEST(views_that_undo_each_other_disappear) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4, 6));
  expect_leaf(weft_transpose(weft_transpose(x, NULL), NULL), x);
  expect_leaf(weft_flip(weft_flip(x, 1), 1), x);
  expect_leaf(weft_reshape(weft_reshape(x, WEFT_DIMS(24)), WEFT_DIMS(4, 6)), x);
  expect_leaf(weft_squeeze(weft_unsqueeze(x, 1), 1), x);
  expect_leaf(weft_alias(weft_stop_gradient(weft_alias(x))), x);
  expect_leaf(weft_depends(x, 1, &x), x);
  weft_scope_discard(s);
}

TEST(views_of_views_are_one_view) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(20, 6));
  weft_array *y[] = { weft_slice(weft_slice(x, 0, 3, 19, 2), 0, 6, WEFT_BEGIN, -3),
                      weft_broadcast(weft_broadcast(weft_slice(x, 0, 0, 1, 1), WEFT_DIMS(5, 6)), WEFT_DIMS(2, 5, 6)),
                      weft_reshape(weft_reshape(x, WEFT_DIMS(60, 2)), WEFT_DIMS(2, 60)) };
  struct copied l;
  rewritten(&l, false, 3, y);
  EXPECT(l.target[0]->op == &op_slice && l.target[0]->in[0]->op == &op_input);
  const struct slice_attr *a = l.target[0]->attr;
  EXPECT_INT(a->start, 3 + 2 * 6);
  EXPECT_INT(a->step, -6);
  EXPECT(l.target[1]->in[0]->op == &op_slice);
  EXPECT(l.target[2]->op == &op_reshape && l.target[2]->in[0]->op == &op_input);
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(a_view_of_a_number_is_a_broadcast_of_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(2, 3)), *k = weft_full(WEFT_F32, WEFT_DIMS(3, 4), 7);
  weft_array *y = weft_mul(x, weft_transpose(weft_slice(k, 1, 1, 3, 1), NULL));
  struct copied l;
  rewritten(&l, false, 1, &y);
  EXPECT(l.target[0]->in[1]->op == &op_broadcast && l.target[0]->in[1]->in[0]->op == &op_scalar);
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(a_cast_through_a_wider_dtype_is_no_detour) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_BF16, WEFT_DIMS(4)), *i = weft_input(WEFT_I64, WEFT_DIMS(4));
  expect_leaf(weft_cast(weft_cast(x, WEFT_F64), WEFT_BF16), x);
  weft_array *y[] = { weft_cast(weft_cast(x, WEFT_F32), WEFT_I32), weft_cast(weft_cast(i, WEFT_F64), WEFT_I64),
                      weft_cast(weft_cast(x, WEFT_F16), WEFT_F32) };
  struct copied l;
  rewritten(&l, false, 3, y);
  EXPECT(l.target[0]->in[0]->op == &op_input);
  EXPECT(l.target[1]->in[0]->op == &op_cast); /* an i64 is not always an f64 */
  EXPECT(l.target[2]->in[0]->op == &op_cast); /* nor a bf16 an f16 */
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(equal_expressions_are_one_and_different_ones_are_not) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4));
  weft_array *a = weft_exp(weft_mul(x, weft_scalar(2))), *b = weft_exp(weft_mul(x, weft_scalar(2))), *c = weft_exp(weft_mul(x, weft_scalar(3)));
  weft_array *y = weft_add(weft_sub(a, b), c);
  struct copied l;
  rewritten(&l, false, 1, &y);
  EXPECT_INT(count_op(&l, a->node->op), 2);
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(numbers_are_folded_by_the_arithmetic_of_kernels) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4));
  weft_array *y = weft_mul(x, weft_exp(weft_div(weft_full(WEFT_F32, WEFT_DIMS(4), 1), weft_full(WEFT_F32, WEFT_DIMS(4), 3))));
  struct copied l;
  rewritten(&l, false, 1, &y);
  EXPECT(l.target[0]->op == &op_mul && l.target[0]->in[1]->op == &op_broadcast);
  const struct node *k = l.target[0]->in[1]->in[0];
  EXPECT(k->op == &op_scalar);
  float third = 1, got = 0;
  weft_array *apart = weft_from(WEFT_F32, WEFT_DIMS(1), (float[]){ 1 }), *three = weft_from(WEFT_F32, WEFT_DIMS(1), (float[]){ 3 });
  EXPECT_OK(weft_read(weft_exp(weft_div(apart, three)), WEFT_F32, &third, sizeof third));
  uint64_t bits = scalar_bits(k, WEFT_F32);
  memcpy(&got, &bits, sizeof got);
  EXPECT(!memcmp(&got, &third, sizeof got));
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(a_function_of_a_concatenation_is_the_concatenation_of_functions) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4)), *z = weft_input(WEFT_F32, WEFT_DIMS(2)), *c = weft_concat(0, WEFT_ARRAYS(x, z));
  weft_array *y = weft_exp(c), *both = weft_mul(weft_exp(c), c);
  struct copied l;
  rewritten(&l, false, 1, &y);
  EXPECT(l.target[0]->op == &op_concat);
  copied_close(&l);
  rewritten(&l, false, 1, &both);
  EXPECT(l.target[0]->op == &op_mul && l.target[0]->in[1]->op == &op_concat && l.target[0]->in[0]->op != &op_concat);
  copied_close(&l);
  weft_scope_discard(s);
}

static bool has_op(weft_array *y, const struct op *op) {
  struct copied l;
  rewritten(&l, false, 1, &y);
  bool has = count_op(&l, op);
  copied_close(&l);
  return has;
}

/* Whether what is taken of x is taken of what x is made of. */
static bool is_taken_before(weft_array *x, weft_array *i) {
  struct copied l;
  weft_array *y = weft_take(x, 1, &i);
  rewritten(&l, false, 1, &y);
  bool is = l.target[0]->op != &op_take;
  copied_close(&l);
  return is;
}

TEST(few_elements_of_a_function_are_the_function_of_few) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(80, 4)), *h = weft_input(WEFT_BF16, WEFT_DIMS(80, 4)), *row = weft_input(WEFT_F32, WEFT_DIMS(4));
  weft_array *few = weft_input(WEFT_I32, WEFT_DIMS(10)), *many = weft_input(WEFT_I32, WEFT_DIMS(11));
  weft_array *w = weft_input(WEFT_F32, WEFT_DIMS(4, 4)), *wh = weft_input(WEFT_BF16, WEFT_DIMS(4, 4)), *two = weft_scalar(2), *chain = x;
  EXPECT(is_taken_before(weft_exp(x), few));
  EXPECT(!is_taken_before(weft_exp(x), many));
  EXPECT(is_taken_before(weft_mul(weft_sub(weft_cast(h, WEFT_F32), row), weft_add(x, two)), few));
  EXPECT(is_taken_before(weft_transpose(weft_exp(weft_transpose(x, NULL)), NULL), few));
  EXPECT(is_taken_before(weft_log_softmax(weft_input(WEFT_F32, WEFT_DIMS(80, 8)), 1), few));
  EXPECT(!is_taken_before(weft_add(weft_matmul(x, w), row), few)); /* the product would have to be stored, too */
  EXPECT(is_taken_before(weft_cast(weft_matmul(h, wh), WEFT_F32), few)); /* it is, in half as many bytes */
  EXPECT(!is_taken_before(weft_cast(weft_matmul(x, w), WEFT_BF16), few));
  EXPECT(!is_taken_before(weft_add(x, weft_iota(x, 0)), few));
  for (int k = 0; k < 15; k++) chain = weft_mul(chain, chain);
  EXPECT(is_taken_before(chain, few));
  for (int k = 0; k < 100; k++) chain = weft_sin(weft_mul(chain, chain));
  EXPECT(!is_taken_before(chain, few));
  weft_scope_discard(s);
}

TEST(one_element_a_row_of_a_number_is_a_comparison) {
  weft_scope *s = weft_scope_open();
  weft_array *i = weft_input(WEFT_I32, WEFT_DIMS(6, 1)), *two = weft_input(WEFT_I32, WEFT_DIMS(6, 2)), *v = weft_input(WEFT_F32, WEFT_DIMS(6, 1));
  weft_array *zeros = weft_full(WEFT_F32, WEFT_DIMS(6, 5), 0), *x = weft_input(WEFT_F32, WEFT_DIMS(6, 5)), *d;
  EXPECT(!has_op(weft_put(zeros, weft_take_along(zeros, 1, i), v, WEFT_ADD), &op_scatter));
  EXPECT(!has_op(weft_put(zeros, weft_take_along(zeros, 1, i), v, WEFT_SET), &op_scatter));
  EXPECT(has_op(weft_put(zeros, weft_take_along(zeros, 1, i), v, WEFT_MAX), &op_scatter));
  EXPECT(has_op(weft_put(zeros, weft_take_along(zeros, 1, two), weft_scalar(1), WEFT_ADD), &op_scatter));
  EXPECT(has_op(weft_put(x, weft_take_along(x, 1, i), v, WEFT_ADD), &op_scatter)); /* few of many: x is kept, but for those */
  weft_array *both[] = { weft_iota(weft_full(WEFT_I32, WEFT_DIMS(6), 0), 0), weft_squeeze(i, 1) };
  EXPECT(!has_op(weft_put(zeros, weft_take(zeros, 2, both), weft_scalar(1), WEFT_SET), &op_scatter));
  weft_array *turned[] = { both[1], both[0] };
  weft_array *square = weft_full(WEFT_F32, WEFT_DIMS(6, 6), 0);
  EXPECT(!has_op(weft_put(square, weft_take(square, 2, turned), weft_scalar(1), WEFT_SET), &op_scatter));
  weft_grad(weft_sum(weft_take_along(weft_log_softmax(x, 1), 1, i), WEFT_ALL), 1, &x, &d);
  EXPECT(!has_op(d, &op_scatter));
  weft_scope_discard(s);
}

TEST(a_checkpoint_is_computed_twice_and_an_ordinary_gradient_once) {
  for (int saves = 0; saves < 2; saves++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4)), *e = weft_exp(x), *y = weft_exp(e), *d;
    if (saves) weft_checkpoint(1, &x, 1, &y);
    weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d);
    struct copied l;
    rewritten(&l, true, 2, (weft_array *[]){ y, d });
    EXPECT_INT(count_op(&l, e->node->op), saves ? 4 : 2);
    EXPECT_INT(count_op(&l, &op_barrier), 0);
    EXPECT_INT(count_op(&l, &op_item), 0);
    copied_close(&l);
    weft_scope_discard(s);
  }
}

TEST(results_of_a_loop_that_nobody_takes_are_left_out) {
  weft_scope *s = weft_scope_open();
  weft_array *w = weft_input(WEFT_F64, WEFT_DIMS(3)), *xs = weft_input(WEFT_F64, WEFT_DIMS(5, 3));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x = weft_loop_each(loop, xs), *a = weft_loop_carry(loop, weft_full(WEFT_F64, WEFT_DIMS(3), 0)), *b = weft_loop_carry(loop, weft_full(WEFT_F64, WEFT_DIMS(3), 1));
  weft_loop_next(loop, a, weft_add(a, weft_mul(b, weft_scalar(0.5))));
  weft_loop_next(loop, b, weft_mul(weft_mul(b, w), x));
  weft_array *last_a = weft_loop_last(loop, a), *last_b = weft_loop_last(loop, b), *all = weft_loop_all(loop, a);
  weft_loop_close(loop);
  const struct loop *whole = loop_of(last_b->node->in[0]);
  EXPECT_INT(whole->n_all, 3);
  struct copied l;
  rewritten(&l, false, 1, &last_b);
  const struct node *n = l.target[0]->in[0];
  EXPECT_INT(loop_of(n)->n_all, 0);
  EXPECT_INT(loop_of(n)->n_carry, 1);
  EXPECT_INT(loop_of(n)->n_seq, 1);
  EXPECT_INT(n->n_in, 3);
  EXPECT_INT(((const struct item_attr *)l.target[0]->attr)->k, 0);
  copied_close(&l);
  rewritten(&l, false, 2, (weft_array *[]){ last_a, all });
  n = l.target[0]->in[0];
  EXPECT_INT(loop_of(n)->n_all, 1);
  EXPECT_INT(loop_of(n)->n_carry, 2);
  EXPECT_INT(((const struct item_attr *)l.target[0]->attr)->k, 1);
  EXPECT_INT(((const struct item_attr *)l.target[1]->attr)->k, 0);
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(rewriting_a_million_nodes_is_linear_and_iterative) {
  test_watchdog(120);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4)), *y = x;
  for (int i = 0; i < 500000; i++) y = weft_neg(weft_add(y, x));
  struct copied l;
  rewritten(&l, true, 1, &y);
  EXPECT(l.list.n > 500000);
  copied_close(&l);
  weft_scope_discard(s);
}

TEST(rewriting_without_memory_fails_and_nothing_else) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4)), *y = weft_exp(weft_concat(0, WEFT_ARRAYS(x, weft_mul(x, weft_scalar(1)))));
  weft_array *k = weft_div(weft_full(WEFT_F32, WEFT_DIMS(4), 1), weft_full(WEFT_F32, WEFT_DIMS(4), 3));
  for (int i = 0; i < 200; i++) y = weft_add(weft_neg(weft_neg(y)), weft_scalar(i));
  weft_array *both[] = { y, weft_mul(k, x) };
  bool ok = false;
  for (int64_t at = 1; !ok && at < 1000; at++) {
    struct copied l;
    copied_open(&l, 2, both);
    mem_fail_at(at, 1);
    ok = rewrite(l.arena, &l.list, l.n, l.target, true);
    mem_fail_at(0, 0);
    copied_close(&l);
  }
  EXPECT(ok);
  weft_scope_discard(s);
}
