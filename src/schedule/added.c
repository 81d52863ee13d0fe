/* added.c -- sums of products: a b + a1 b1 + .., as a convolution is that goes place by place of its kernel.
 *
 * Where the sums of each product are one block, to add them is what goes on from block to block within a product. So all of them
 * become one, with two operands for each, and no sum but the last stands in memory: the same bits. */
#include "backend/patch.h"
#include "schedule/work.h"

enum {
  MOST_ADDENDS = 7,               /* a group reads so many arrays */
  LEAST_ROWS = 28, LEAST_COLUMNS = 16 /* of convolutions that go place by place; others are as good one by one */
};

static int64_t rows(const struct node *x) { return x->dims[x->rank - 2]; }
static int64_t terms(const struct node *x) { return x->in[0]->dims[x->rank - 1]; }

/* A product, or several that are added, which nobody else wants; all batches have one right operand. */
static bool may_be_added(const struct work *w, const struct node *x) {
  bool is_turned;
  if (x->op->kind != OP_CONTRACT || x->rank < 3 || local_of(x)->n_uses != 1 || !contract_is_by_patches(w, x)) return false;
  if ((x->dtype != WEFT_F32 && x->dtype != WEFT_F64) || x->in[0]->dtype != x->dtype || x->in[1]->dtype != x->dtype) return false;
  return rows(x) >= LEAST_ROWS && x->dims[x->rank - 1] >= LEAST_COLUMNS && terms(x) <= KIR_PRODUCT_BLOCK &&
         matrix_of_all(x->in[1], &is_turned);
}

bool products_add(struct work *w) {
  for (int i = 0; i < w->list->n; i++) { /* inner sums first */
    struct node *s = w->list->node[i], *first = s->n_in == 2 ? s->in[0] : NULL, *last = s->n_in == 2 ? s->in[1] : NULL;
    if (s->op != &op_add || !may_be_added(w, first) || !may_be_added(w, last)) continue;
    if (last->n_in > 2 || first->n_in == 2 * MOST_ADDENDS || terms(first) != terms(last)) continue;
    struct node *in[2 * MOST_ADDENDS];
    for (int k = 0; k < first->n_in + 2; k++) in[k] = k < first->n_in ? first->in[k] : last->in[k - first->n_in];
    struct node *all = work_node(w, first->op, (weft_dtype)s->dtype, s->rank, s->dims, first->n_in + 2, in, NULL, 0);
    if (!all) return false;
    int n_uses = local_of(s)->n_uses;
    all->origin = s->origin;
    local_become(s, all);
    local_of(s)->n_uses = n_uses;
  }
  return true;
}
