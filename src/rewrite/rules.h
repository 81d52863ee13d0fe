/* rules.h -- the algebra: rows of before and after, as text, so that they can be read, applied and tested as data.
 *
 * Patterns are calls of elementwise ops by name on variables x y z c k and numbers: "add(x, neg(y))". A number stands for a
 * scalar of exactly that value (-0 is not 0) broadcast to the shape of the node; a variable that occurs twice stands for
 * the same node twice. k stands for any such number that is neither tiny nor huge: 1/k is normal. */
#ifndef WEFT_RULES_H
#define WEFT_RULES_H
#include "op/op.h"
#include "rewrite/rewrite.h"

struct rewrite_rule {
  const char *before, *after;
  char on;     /* dtype of x: f float, i integer, b bool, n float or integer, a any */
  enum rule_tag tag;
};
extern const struct rewrite_rule rewrite_rules[]; /* ends with before = NULL */

/* A pattern in memory: nodes of a tree, the root first. */
enum { PATTERN_NODES = 12, PATTERN_VARS = 5, PATTERN_C = 3, PATTERN_K = 4 };
struct pattern_node { const struct op *op; int var; double number; int n, in[3]; }; /* op NULL: var >= 0, or a number */
struct pattern { int n; struct pattern_node node[PATTERN_NODES]; };

struct rule_compiled { struct pattern before, after; char on; enum rule_tag tag; };
/* All rows, parsed once in the process; NULL: a row cannot be read (a test makes sure that none is so). */
const struct rule_compiled *rules_compiled(int *n);

#endif
