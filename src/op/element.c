/* element.c -- operations on one element at a time: a row each. A row says which operands it takes, how one element is
 * computed in the kernel language, and its derivative by each operand. */
#include <string.h>
#include "op/complex.h"
#include "op/element.h"

/* ---- Kernel code ----
 * Bools have no arithmetic: addition is or, multiplication and; the rest follows from false < true. */

int lower_number(struct kir_builder *b, weft_dtype dtype, double x) {
  weft_dtype r = kir_register_of(dtype);
  return kir_lit(b->k, r, dtype_encode(r, x));
}

ONE_INSTRUCTION(sqrt, KIR_SQRT)
ONE_INSTRUCTION(div, KIR_DIV)
ONE_INSTRUCTION(not, KIR_NOT)
ONE_INSTRUCTION(and, KIR_AND)
ONE_INSTRUCTION(or, KIR_OR)
ONE_INSTRUCTION(xor, KIR_XOR)
ONE_INSTRUCTION(where, KIR_SELECT)

#define BOOL_OR_INSTRUCTION(name, on_bools, instruction)                                          \
  LOWER(name) {                                                                                   \
    return kir_op2(b, on_bool(n) ? on_bools : instruction, in[0], in[1]);                         \
  }
BOOL_OR_INSTRUCTION(add, KIR_OR, KIR_ADD)
BOOL_OR_INSTRUCTION(sub, KIR_XOR, KIR_SUB)
BOOL_OR_INSTRUCTION(mul, KIR_AND, KIR_MUL)
BOOL_OR_INSTRUCTION(maximum, KIR_OR, KIR_MAX)
BOOL_OR_INSTRUCTION(minimum, KIR_AND, KIR_MIN)
BOOL_OR_INSTRUCTION(ne, KIR_XOR, KIR_NE)

LOWER(eq) {
  return on_bool(n) ? negated(b, kir_op2(b, KIR_XOR, in[0], in[1])) : kir_op2(b, KIR_EQ, in[0], in[1]);
}

LOWER(lt) {
  return on_bool(n) ? kir_op2(b, KIR_AND, negated(b, in[0]), in[1]) : kir_op2(b, KIR_LT, in[0], in[1]);
}

LOWER(le) {
  return on_bool(n) ? kir_op2(b, KIR_OR, negated(b, in[0]), in[1]) : kir_op2(b, KIR_LE, in[0], in[1]);
}

LOWER(neg) {
  return on_float(n) ? kir_op1(b, KIR_NEG, in[0]) : kir_op2(b, KIR_SUB, zero(b, n), in[0]);
}

LOWER(abs) {
  if (on_float(n)) return kir_op1(b, KIR_ABS, in[0]);
  return dtype_is_signed(operand_dtype(n)) ? kir_op2(b, KIR_MAX, in[0], lower_neg(b, n, in)) : in[0];
}

LOWER(isnan) {
  return on_float(n) ? kir_op2(b, KIR_NE, in[0], in[0]) : kir_lit(b->k, WEFT_BOOL, 0);
}

/* Integers have no fma; theirs wraps and rounds nothing, so it is the same. */
LOWER(fma) {
  if (on_float(n)) return kir_op3(b, KIR_FMA, in[0], in[1], in[2]);
  int product = kir_op2(b, on_bool(n) ? KIR_AND : KIR_MUL, in[0], in[1]);
  return kir_op2(b, on_bool(n) ? KIR_OR : KIR_ADD, product, in[2]);
}

LOWER(scale) {
  return kir_op3(b, KIR_SELECT, kir_op2(b, KIR_EQ, in[0], zero(b, n)), in[0], kir_op2(b, KIR_MUL, in[0], in[1]));
}

LOWER(cast) {
  return kir_cast(b, (weft_dtype)n->dtype, in[0]);
}

/* ---- Derivatives ---- */

static weft_array *choice(weft_array *c, weft_array *like, double a, double b) {
  return weft_where(c, number_like(like, a), number_like(like, b));
}

PARTIAL(neg) { return (void)r, (void)k, weft_scalar(-1); }

/* d |x| = Re(conj(u) dx), with u = x / |x|, the sign of a real x. */
static weft_array *sign_of(const struct rule *r) {
  if (dtype_is_complex(weft_dtype_of(X))) return weft_conj(complex_unit(X, Y));
  return weft_sub(choice(weft_gt(X, weft_integer(0)), Y, 1, 0), choice(weft_lt(X, weft_integer(0)), Y, 1, 0));
}
static weft_array *back_abs(const struct rule *r, int k, weft_array *dy) { return (void)k, weft_mul(dy, sign_of(r)); }
static weft_array *forth_abs(const struct rule *r, int k, weft_array *dx) {
  return (void)k, weft_real(weft_mul(dx, sign_of(r)));
}

PARTIAL(sqrt) { return (void)k, weft_div(weft_scalar(0.5), Y); }
PARTIAL(add) { return (void)r, (void)k, weft_scalar(1); }
PARTIAL(sub) { return (void)r, weft_scalar(k == 0 ? 1 : -1); }
PARTIAL(mul) { return r->in[1 - k]; }
PARTIAL(div) { return k == 0 ? weft_div(weft_scalar(1), r->in[1]) : weft_neg(weft_div(Y, r->in[1])); }
PARTIAL(fma) { return k == 2 ? weft_scalar(1) : r->in[1 - k]; }

/* Choices pass derivatives on or drop them, for 0 times inf is not 0; forward and backward are the same. Operands of
 * maximum and minimum that are equal share: half each. */
static weft_array *share(const struct rule *r, weft_array *wins, weft_array *d) {
  weft_array *half = weft_mul(d, weft_scalar(0.5)), *zero = number_like(d, 0);
  return weft_where(weft_eq(r->in[0], r->in[1]), half, weft_where(wins, d, zero));
}
static weft_array *move_maximum(const struct rule *r, int k, weft_array *d) {
  return share(r, weft_gt(r->in[k], r->in[1 - k]), d);
}
static weft_array *move_minimum(const struct rule *r, int k, weft_array *d) {
  return share(r, weft_lt(r->in[k], r->in[1 - k]), d);
}

static weft_array *move_where(const struct rule *r, int k, weft_array *d) {
  weft_array *zero = number_like(d, 0);
  return k == 0 ? NULL : k == 1 ? weft_where(X, d, zero) : weft_where(X, zero, d);
}

/* Linear in both operands, as a product is. */
static weft_array *move_scale(const struct rule *r, int k, weft_array *d) {
  return k == 0 ? array_scale(d, r->in[1]) : array_scale(r->in[0], d);
}

PARTIAL(cast) {
  (void)k;
  return dtype_is_inexact(weft_dtype_of(Y)) && dtype_is_inexact(weft_dtype_of(X)) ? weft_scalar(1) : NULL;
}

/* ---- The rows ---- */

static struct failure *not_alike(const struct node *n, const char *fn, struct node *const in[]) {
  struct shape_text a, b;
  int k = 1;
  while (k < n->n_made - 1 && shape_equal(in[0], in[k])) k++;
  return fail(WEFT_ERR_SHAPE, n->origin, "%s: operands of shape %s and %s", fn, shape_show(in[0], &a), shape_show(in[k], &b));
}

/* Operands of other sizes, which must still agree; where some are not known yet, they are taken to. */
struct node *element_again(const struct node *n, struct node *const in[], struct failure **why) {
  char fn[32] = "weft_";
  dim dims[WEFT_RANK_MAX];
  struct node *same[ELEMENT_MOST], *y = NULL;
  strncat(fn, n->op->name, sizeof fn - strlen(fn) - 1);
  if (!dims_meet(fn, n->n_made, in, -1, dims)) return *why = not_alike(n, fn, in), NULL;
  bool ok = true;
  for (int i = 0; i < n->n_made; i++) ok &= (same[i] = node_agree(node_retain(in[i]), -1, dims)) != NULL;
  if (ok) y = node_make(n->op, (weft_dtype)n->dtype, in[0]->rank, dims, n->n_made, same, n->attr, n->attr_bytes);
  nodes_release(n->n_made, same);
  return y;
}

UNARY(neg, SIGNED, true, HOLOMORPHIC)
UNARY(abs, PART, true, TURNS_PARTS)
UNARY(sqrt, FLOAT, true, HOLOMORPHIC)
UNARY(isnan, TEST, true, TESTS_PARTS)
UNARY(not, BITS, true, NONE)

BINARY(add, NUMBER, true, HOLOMORPHIC)
BINARY(sub, NUMBER, true, HOLOMORPHIC)
BINARY(mul, NUMBER, true, HOLOMORPHIC)
BINARY(div, FLOAT, true, HOLOMORPHIC)
BINARY(maximum, NUMBER, true, MOVES)
BINARY(minimum, NUMBER, true, MOVES)
BINARY(eq, COMPARE, true, TESTS_PARTS)
BINARY(ne, COMPARE, true, TESTS_PARTS)
BINARY(lt, COMPARE, true, NONE)
BINARY(le, COMPARE, true, NONE)
BINARY(and, BITS, true, NONE)
BINARY(or, BITS, true, NONE)
BINARY(xor, BITS, true, NONE)

ROW(scale, true, MOVES)
ROW(where, true, MOVES_PARTS)
const struct op op_choose = { .name = "choose", .kind = OP_ELEMENT, .is_cheap = true, .lower = lower_where, .vjp = move_where,
                              .jvp = move_where, .chooses = true, .parts = parts_where, .again = element_again };
ROW(fma, true, HOLOMORPHIC)
ROW(cast, true, HOLOMORPHIC)

weft_array *weft_fma(weft_array *a, weft_array *b, weft_array *c) {
  return element("weft_fma", &op_fma, NUMBER, 3, (weft_array *[]){ a, b, c });
}

/* ---- Making nodes ---- */

struct failure *not_of(const char *fn, weft_dtype d) {
  return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: not of %s", fn, weft_dtype_name(d));
}

static struct failure *types(const char *fn, const struct op *op, enum element_class cls, weft_dtype met, weft_dtype *in,
                             weft_dtype *out) {
  *in = cls == FLOAT ? dtype_float(met) : cls == LOGICAL ? WEFT_BOOL : cls == PAIR ? dtype_part(dtype_complex(met)) : met;
  *out = cls == COMPARE || cls == TEST ? WEFT_BOOL : cls == PART ? dtype_part(met) : cls == PAIR ? dtype_complex(met) : *in;
  if (dtype_is_complex(cls == PAIR ? met : *in) && (!op->parts || cls == PAIR)) return not_of(fn, met);
  if (cls == SIGNED && met == WEFT_BOOL)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: not of bool; see weft_not", fn);
  if (cls == INTEGER && !dtype_is_integer(met))
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: of integers, not of %s", fn, weft_dtype_name(met));
  if (cls == BITS && dtype_is_float(met))
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: of bools or integers, not of %s", fn, weft_dtype_name(met));
  return NULL;
}

/* Casts and broadcasts the operands, and makes the node; takes the references. */
static weft_array *joined(const char *fn, const struct op *op, weft_dtype out, int n, struct node *node[],
                          const weft_dtype in[]) {
  dim dims[WEFT_RANK_MAX];
  int rank;
  struct failure *why = common_dims(fn, n, node, &rank, dims);
  if (why) return array_of_bad(why, n, node);
  bool ok = true;
  for (int i = 0; i < n; i++) ok &= (node[i] = node_broadcast(node_cast(node[i], in[i]), rank, dims)) != NULL;
  if (!ok) return nodes_release(n, node), array_of(NULL);
  return array_of(node_take(op, out, rank, dims, n, node, NULL, 0));
}

/* Numbers that meet a dtype are rounded to it before anybody asks whether they are 0. */
static bool round_numbers(int n, struct node *node[], weft_dtype met) {
  bool ok = true;
  for (int i = 0; i < n; i++) if (node[i]->weak) ok &= (node[i] = node_cast(node[i], met)) != NULL;
  return ok;
}

static weft_array *element_nodes(const char *fn, const struct op *op, enum element_class cls, int n,
                                 struct node *node[]) {
  weft_dtype met, in, out;
  struct failure *why = common_dtype(fn, n, node, &met);
  if (!why) why = types(fn, op, cls, met, &in, &out);
  if (why) return array_of_bad(why, n, node);
  if (cls == LOGICAL && !round_numbers(n, node, met)) return nodes_release(n, node), array_of(NULL);
  return joined(fn, op, out, n, node, (weft_dtype[]){ in, in, in });
}

weft_array *element(const char *fn, const struct op *op, enum element_class cls, int n, weft_array *const a[]) {
  struct node *node[3];
  weft_array *bad;
  return arrays_nodes(fn, n, a, node, &bad) ? element_nodes(fn, op, cls, n, node) : bad;
}

/* A number above 0, and not infinite, also in the dtype it meets. */
static bool is_positive(weft_array *a, weft_dtype met) {
  struct failure *why = NULL;
  struct node *n = array_usable("weft_vjp", 2, a, &why), *s = n;
  double v = 0;
  graph_lock(); /* an evaluation may drop the history of a broadcast */
  while (s && s->op == &op_broadcast && s->n_in) s = s->in[0];
  if (s && s->op == &op_scalar) v = dtype_decode((weft_dtype)s->dtype, scalar_bits(s, (weft_dtype)s->dtype));
  graph_unlock();
  if (dtype_is_float(met)) v = dtype_decode(met, dtype_encode(met, v));
  failure_release(why);
  node_release(n);
  return v > 0 && v < __builtin_inf();
}

/* Where 0 times the factor is that 0 again, a product is all it takes. */
weft_array *array_scale(weft_array *d, weft_array *by) {
  const struct op *op = is_positive(by, weft_dtype_of(d)) ? &op_mul : &op_scale;
  return element("weft_vjp", op, NUMBER, 2, (weft_array *[]){ d, by });
}

/* a > b is b < a; messages show the operands as they were given. */
static weft_array *swapped(const char *fn, const struct op *op, weft_array *a, weft_array *b) {
  struct node *node[2];
  weft_array *bad;
  dim dims[WEFT_RANK_MAX];
  int rank;
  if (!arrays_nodes(fn, 2, (weft_array *[]){ a, b }, node, &bad)) return bad;
  struct failure *why = common_dims(fn, 2, node, &rank, dims);
  if (why) return array_of_bad(why, 2, node);
  return element_nodes(fn, op, COMPARE, 2, (struct node *[]){ node[1], node[0] });
}

weft_array *weft_square(weft_array *x) { return element("weft_square", &op_mul, NUMBER, 2, (weft_array *[]){ x, x }); }
weft_array *weft_reciprocal(weft_array *x) {
  return element("weft_reciprocal", &op_div, FLOAT, 2, (weft_array *[]){ weft_integer(1), x });
}

weft_array *weft_gt(weft_array *a, weft_array *b) { return swapped("weft_gt", &op_lt, a, b); }
weft_array *weft_ge(weft_array *a, weft_array *b) { return swapped("weft_ge", &op_le, a, b); }

static weft_array *select_by(const char *fn, const struct op *op, weft_array *c, weft_array *a, weft_array *b) {
  struct node *node[3];
  weft_array *bad;
  weft_dtype d;
  if (!arrays_nodes(fn, 3, (weft_array *[]){ c, a, b }, node, &bad)) return bad;
  struct failure *why = common_dtype(fn, 2, node + 1, &d);
  if (why) return array_of_bad(why, 3, node);
  return joined(fn, op, d, 3, node, (weft_dtype[]){ WEFT_BOOL, d, d });
}

weft_array *weft_where(weft_array *c, weft_array *a, weft_array *b) { return select_by("weft_where", &op_where, c, a, b); }
weft_array *array_choose(weft_array *p, weft_array *a, weft_array *b) { return select_by("weft_choose", &op_choose, p, a, b); }

weft_array *weft_cast(weft_array *x, weft_dtype d) {
  struct node *n;
  weft_array *bad;
  struct failure *why = dtype_check("weft_cast", d);
  if (why) return array_failed(why);
  return arrays_nodes("weft_cast", 1, &x, &n, &bad) ? array_of(node_cast(n, d)) : bad;
}
