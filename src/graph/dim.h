/* dim.h -- a size: a number, or an expression of symbols (an input's size, a loop's length, an integer that is computed).
 *
 * A dim is an int64_t: a number if >= 0, else the handle of an interned expression: a polynomial in symbols, and in what max
 * and floor division make of polynomials. Equal dims are equal integers, so shapes are compared with memcmp; what turns out to
 * be equal only when it is known is taken to be equal before (trust.h). Symbols are at least 0. Infer, derivative and map rules
 * compute with dims and never copy an extent into a constant. Nodes count on the sizes they have and mention (dim_retain,
 * dim_release), and who keeps one elsewhere for longer than it takes to make a node does too: an expression nobody counts on
 * goes after a while. */
#ifndef WEFT_DIM_H
#define WEFT_DIM_H
#include <stdbool.h>
#include <stdint.h>
#include "base/text.h"

typedef int64_t dim;
enum { DIM_BAD = INT64_MIN }; /* out of memory, or a product that overflows: the caller turns it into a bad array */

static inline bool dim_is_known(dim d) { return d >= 0; }
dim dim_symbol(void);               /* a new one */
bool dim_is_symbol(dim);            /* a symbol alone */
dim dim_add(dim, dim), dim_sub(dim, dim), dim_mul(dim, dim); /* known ones: overflow gives DIM_BAD; sub below 0: DIM_BAD */
dim dim_min(dim, dim), dim_max(dim, dim);
dim dim_above(dim a, dim b);        /* max(a - b, 0) */
dim dim_quotient(dim a, dim b);     /* floor(a / b); 0 where b is 0 */

/* Integers made of sizes, such as bounds of slices: dims that may be below 0, where a number is an expression too. */
enum dim_rule { DIM_PLUS, DIM_MINUS, DIM_TIMES, DIM_LEAST, DIM_LARGEST, DIM_FLOOR }; /* FLOOR: of a quotient; 0 where b is 0 */
dim dim_integer(int64_t);
bool dim_is_integer(dim, int64_t *number); /* a number, be it below 0 */
dim dim_reckon(enum dim_rule, dim a, dim b);
dim dim_choose(dim d, dim a, dim b);       /* a where d > 0, else b */
int dim_sign(dim);                         /* whatever the symbols are, 1: at least 0, -1: below 0; 0: nobody can say */
bool dim_mentions_only(dim, int n, const dim list[]); /* every symbol in it is in one of the list too */

bool dim_differs(dim, dim);         /* whatever the symbols are: 2 and 3, n and n + 1 */
bool dim_slice_fits(dim size, dim start, dim length, int64_t step); /* as far as they are known */
bool dim_divide(dim a, dim b, dim *quotient); /* exact division of polynomials; false: does not divide */
void dim_retain(dim), dim_release(dim);
void dim_print(dim, struct text *); /* 12, n1, 2*n1+1, min(n1,8), floor((n1+1)/(2)) */
dim dim_substitute(dim, int n, const dim symbol[], const dim value[]);
int64_t dim_value(dim, int n, const dim symbol[], const int64_t value[]); /* -1: a symbol has no value */
/* It becomes a number, be it below 0, which DIM_BAD stands for: needs no memory. */
bool dim_is_told(dim, int n, const dim symbol[], const dim value[]);

/* Which symbols become what. Grows; starts with {0}, or DIM_TABLE_IN(room of 2 n) that somebody has at hand. */
struct dim_table { int n, room; dim *symbol, *value, *own; };
#define DIM_TABLE_IN(at) \
  { .room = (int)(sizeof(at) / sizeof *(at) / 2), .symbol = (at), .value = (at) + sizeof(at) / sizeof *(at) / 2 }

/* The number of a symbol, once something that has run tells it; and a dim with what is known so far. */
bool dim_bind(dim symbol, int64_t value); /* the first number stays. false: out of memory */
dim dim_resolve(dim);
bool dim_is_negative(dim);           /* what is known so far makes it a number below 0: n - 8 of n = 6 */
static inline bool dim_same(dim a, dim b) { /* as far as is known */
  return a == b || (!(dim_is_known(a) && dim_is_known(b)) && dim_resolve(a) == dim_resolve(b));
}

/* Product of a shape; DIM_BAD on overflow beyond 2^60 elements. */
dim dim_count(int rank, const dim dims[]);

#endif
