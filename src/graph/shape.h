/* shape.h -- the dims of nodes: compared, shown in messages. */
#ifndef WEFT_SHAPE_H
#define WEFT_SHAPE_H
#include "graph/node.h"

struct shape_text { char s[160]; };

/* "[8,3]", or "[]" if 0-d; cut short if it is very long. Returns t->s. */
const char *dims_show(int rank, const dim dims[], struct shape_text *t);
const char *shape_show(const struct node *, struct shape_text *t);
bool dims_equal(int rank_a, const dim a[], int rank_b, const dim b[]);
bool shape_equal(const struct node *, const struct node *);

#endif
