/* every_graph.h -- the plain evaluator: what a graph of weft means. One op after the other, each by the loops in plain C of
 * every_plain.h; loops step by step, choices and calls by their bodies, sizes as they turn out. It shares nothing with
 * rewriting, scheduling, kernels and running, and is slow on purpose. */
#ifndef WEFT_TEST_EVERY_GRAPH_H
#define WEFT_TEST_EVERY_GRAPH_H
#include "every_plain.h"

struct op;
struct plain_given { weft_array *x; const struct plain *value; }; /* an array, and the elements it stands for */

/* The values of n arrays, to be freed. false: something has no value, and plain_graph_why says what. */
bool plain_graph(int n, weft_array *const y[], int n_given, const struct plain_given given[], struct plain out[]);
const char *plain_graph_why(void);
bool plain_knows(const struct op *); /* whether it evaluates nodes of this op; those that only plans have it does not */

/* The same for one array and doubles, in the array's dtype; to be freed. NULL: it has no value. Sizes are numbers. */
struct binding { weft_array *x; const double *data; };
double *reference(weft_array *y, int n, const struct binding given[]);
int64_t elements(weft_array *);

#endif
