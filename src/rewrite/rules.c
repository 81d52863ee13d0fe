/* rules.c -- the rows, and how they are read. */
#include "rewrite/rules.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const struct rewrite_rule rewrite_rules[] = {
  { "neg(neg(x))", "x", 'n', RULE_EXACT },
  { "not(not(x))", "x", 'a', RULE_EXACT },
  { "abs(abs(x))", "abs(x)", 'n', RULE_EXACT },
  { "abs(neg(x))", "abs(x)", 'f', RULE_EXACT },

  { "mul(x, 1)", "x", 'a', RULE_EXACT },
  { "mul(1, x)", "x", 'a', RULE_EXACT },
  { "mul(x, -1)", "neg(x)", 'n', RULE_EXACT },
  { "mul(-1, x)", "neg(x)", 'n', RULE_EXACT },
  { "div(x, 1)", "x", 'f', RULE_EXACT },
  { "div(x, -1)", "neg(x)", 'f', RULE_EXACT },
  { "mul(neg(x), neg(y))", "mul(x, y)", 'n', RULE_EXACT },
  { "fma(x, y, -0)", "mul(x, y)", 'f', RULE_EXACT },
  { "fma(x, 1, y)", "add(x, y)", 'f', RULE_EXACT },
  { "fma(1, x, y)", "add(x, y)", 'f', RULE_EXACT },
  /* To double is exact, and so are overflow and the zeros. */
  { "mul(2, sub(1, x))", "fma(-2, x, 2)", 'f', RULE_EXACT },
  { "mul(sub(1, x), 2)", "fma(-2, x, 2)", 'f', RULE_EXACT },

  /* x + 0.0 is not x: -0 + 0 = +0. x + -0.0 and x - 0.0 are. */
  { "add(x, -0)", "x", 'f', RULE_EXACT },
  { "add(-0, x)", "x", 'f', RULE_EXACT },
  { "add(x, 0)", "x", 'i', RULE_EXACT },
  { "add(0, x)", "x", 'i', RULE_EXACT },
  { "add(x, 0)", "x", 'b', RULE_EXACT },
  { "add(0, x)", "x", 'b', RULE_EXACT },
  { "sub(x, 0)", "x", 'a', RULE_EXACT },
  { "sub(-0, x)", "neg(x)", 'f', RULE_EXACT },
  { "sub(0, x)", "neg(x)", 'i', RULE_EXACT },
  { "add(x, neg(y))", "sub(x, y)", 'n', RULE_EXACT },
  { "add(neg(x), y)", "sub(y, x)", 'n', RULE_EXACT },
  { "sub(x, neg(y))", "add(x, y)", 'n', RULE_EXACT },
  { "mul(x, 0)", "0", 'i', RULE_EXACT },
  { "mul(0, x)", "0", 'i', RULE_EXACT },
  { "sub(x, x)", "0", 'i', RULE_EXACT },

  { "maximum(x, x)", "x", 'a', RULE_EXACT },
  { "minimum(x, x)", "x", 'a', RULE_EXACT },
  { "and(x, x)", "x", 'a', RULE_EXACT },
  { "or(x, x)", "x", 'a', RULE_EXACT },
  { "and(x, 1)", "x", 'b', RULE_EXACT },
  { "and(1, x)", "x", 'b', RULE_EXACT },
  { "or(x, 0)", "x", 'b', RULE_EXACT },
  { "or(0, x)", "x", 'b', RULE_EXACT },

  { "where(c, x, x)", "x", 'a', RULE_EXACT },
  { "where(1, x, y)", "x", 'a', RULE_EXACT },
  { "where(0, x, y)", "y", 'a', RULE_EXACT },
  { "where(not(c), x, y)", "where(c, y, x)", 'a', RULE_EXACT },
  { "where(c, where(c, x, y), z)", "where(c, x, z)", 'a', RULE_EXACT },
  { "where(c, x, where(c, y, z))", "where(c, x, z)", 'a', RULE_EXACT },

  /* The square of a square root: one rounding less, and no square root to take. */
  { "mul(sqrt(x), sqrt(x))", "where(le(0, x), x, nan)", 'f', RULE_STABLE },
  { "log(add(1, x))", "log1p(x)", 'f', RULE_STABLE },
  { "log(add(x, 1))", "log1p(x)", 'f', RULE_STABLE },

  { "div(x, k)", "mul(x, div(1, k))", 'f', RULE_FAST },
  { "add(mul(x, y), z)", "fma(x, y, z)", 'f', RULE_FAST },
  { "add(z, mul(x, y))", "fma(x, y, z)", 'f', RULE_FAST },
  { "sub(mul(x, y), z)", "fma(x, y, neg(z))", 'f', RULE_FAST },
  { "sub(z, mul(x, y))", "fma(neg(x), y, z)", 'f', RULE_FAST },
  { NULL, NULL, 0, RULE_EXACT }
};

/* ---- Reading ---- */

static const struct op *op_named(const char *s, size_t n) {
  for (const struct op *const *op = op_table; *op; op++)
    if ((*op)->kind == OP_ELEMENT && strlen((*op)->name) == n && !memcmp((*op)->name, s, n)) return *op;
  return NULL;
}

static void skip(const char **s) {
  while (**s == ' ' || **s == ',') ++*s;
}

static bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
static bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

static int variable(char c) {
  static const char names[PATTERN_VARS] = { 'x', 'y', 'z', [PATTERN_C] = 'c', [PATTERN_K] = 'k' };
  for (int i = 0; i < PATTERN_VARS; i++)
    if (names[i] == c) return i;
  return -1;
}

/* Reads numbers without strtod, whose decimal point is the locale's: rows use small integers only. */
static bool number(const char **s, double *out) {
  bool is_negative = **s == '-';
  const char *p = *s + is_negative;
  if (*p < '0' || *p > '9') return false;
  double v = 0;
  while (*p >= '0' && *p <= '9') v = 10 * v + (*p++ - '0');
  *out = is_negative ? -v : v;
  *s = p;
  return true;
}

/* Returns the index of the node read, or -1. Depth is bounded by the room for nodes. */
static int read(struct pattern *p, const char **s) {
  skip(s);
  if (p->n == PATTERN_NODES) return -1;
  int at = p->n++;
  struct pattern_node *node = &p->node[at];
  *node = (struct pattern_node){ .var = -1 };
  if (number(s, &node->number)) return at;
  size_t n = 0;
  while (is_word((*s)[n])) n++;
  if (n == 3 && !memcmp(*s, "nan", 3)) return *s += 3, node->number = __builtin_nan(""), at;
  if (n == 1) return node->var = variable(**s), ++*s, node->var < 0 ? -1 : at;
  node->op = op_named(*s, n);
  if (!node->op || (*s)[n] != '(') return -1;
  for (*s += n + 1; **s != ')'; skip(s)) {
    int in = node->n < 3 ? read(p, s) : -1;
    if (in < 0) return -1;
    node->in[node->n++] = in;
  }
  ++*s;
  return at;
}

static bool read_all(struct pattern *p, const char *s) {
  return read(p, &s) == 0 && *s == 0;
}

enum { MOST_RULES = 96 };
static struct rule_compiled compiled[MOST_RULES];
static int n_compiled = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void compile_all(void) {
  int n = 0;
  for (const struct rewrite_rule *r = rewrite_rules; r->before; r++, n++) {
    if (n == MOST_RULES) return;
    compiled[n].on = r->on;
    compiled[n].tag = r->tag;
    if (!read_all(&compiled[n].before, r->before) || !read_all(&compiled[n].after, r->after)) return;
  }
  n_compiled = n;
}

const struct rule_compiled *rules_compiled(int *n) {
  pthread_once(&once, compile_all);
  *n = n_compiled;
  return n_compiled < 0 ? NULL : compiled;
}
