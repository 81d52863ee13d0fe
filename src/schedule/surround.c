/* surround.c -- an array with a number before and after it along an axis, in parts: what it surrounds is copied, or was stored
 * there in the first place, and the number is written beside it.
 *
 * A kernel of the whole asks of every element whether it is inside, and so reads an array whose axes change places element by
 * element: 8 x 64 x 56^2 with channels last, padded along two axes, took 1.8 ms on one thread of Zen 4, and takes 0.4 so. */
#include <string.h>
#include "graph/dtype.h"
#include "schedule/draft.h"

enum {
  LEAST_SURROUNDED = 1 << 13,   /* elements: of fewer one kernel is as good as three */
  LEAST_RUN = 32                /* elements between the numbers: among fewer, those are all over the array */
};

static const struct pad_attr *attr_of(const struct node *n) { return n->attr; }

/* Elements that stay side by side. */
static int64_t run_of(const struct node *n) {
  int64_t run = 1;
  for (int k = (int)attr_of(n)->axis; k < n->rank; k++) run *= n->in[0]->dims[k];
  return run;
}

bool pad_is_in_parts(const struct work *w, const struct node *n) {
  const struct item *x = &w->item[n->slot];
  if (!w->fuse || work_is_for_device(w) || n->op != &op_pad || x->group < 0 || !x->is_stored || x->for_operand >= 0) return false;
  if (n->rank >= AXES) return false; /* both sides are one more */
  return w->group[x->group].n_items == 1 && scalar_of(n->in[1]) && !dtype_is_complex((weft_dtype)n->dtype) &&
         node_count(n->in[0]) >= LEAST_SURROUNDED && run_of(n) >= LEAST_RUN;
}

void pad_inside(const struct node *n, const struct place *whole, struct place *inside) {
  *inside = *whole;
  inside->offset += attr_of(n)->before * whole->stride[attr_of(n)->axis];
}

/* The number in `times` parts of the array, each of dims, `apart` elements from one to the next. */
static bool fill(struct work *w, const struct node *n, const dim dims[], int64_t times, int64_t apart, int64_t offset) {
  const struct place *p = &w->item[n->slot].place;
  struct reach out = { .store = p->store, .offset = p->offset + offset };
  struct draft d;
  struct kir_lin at[AXES];
  int axes = 0;
  if (!draft_begin(&d, w, "fill")) return false;
  int v = draft_number(&d, scalar_of(n->in[1]));
  if (times > 1) reach_along(&out, draft_lin(&d, draft_size(&d, "N", times)), apart), axes++;
  for (int k = 0; k < n->rank; k++) {
    if (dims[k] == 1 && k < n->rank - 1) continue;
    reach_along(&out, draft_lin(&d, draft_size(&d, (char[]){ (char)('A' + k), 0 }, dims[k])), p->stride[k]), axes++;
  }
  int y = draft_buffer(&d, "y", KIR_OUT, (weft_dtype)n->dtype, &out);
  for (int i = 0; i < axes; i++)
    at[i] = draft_lin(&d, kir_loop(&d.b, i == axes - 1 ? KIR_LANE : KIR_PAR, (char[]){ (char)('a' + i), 0 }, out.dims[i]));
  kir_store(&d.b, y, at, KIR_SET, v);
  for (int i = 0; i < axes; i++) kir_end(&d.b);
  return draft_end(&d);
}

/* Before and after; both by one kernel where they are as wide. */
static bool fill_sides(struct work *w, const struct node *n) {
  const struct pad_attr *a = attr_of(n);
  int64_t stride = w->item[n->slot].place.stride[a->axis], inside = n->in[0]->dims[a->axis];
  dim dims[WEFT_RANK_MAX];
  memcpy(dims, n->dims, sizeof *dims * (size_t)n->rank);
  dims[a->axis] = a->before;
  if (a->before && a->before == a->after) return fill(w, n, dims, 2, (a->before + inside) * stride, 0);
  if (a->before && !fill(w, n, dims, 1, 0, 0)) return false;
  dims[a->axis] = a->after;
  return !a->after || fill(w, n, dims, 1, 0, (a->before + inside) * stride);
}

bool step_pad(struct work *w, const struct node *n) {
  struct place from, to;
  const struct node *x = n->in[0];
  pad_inside(n, &w->item[n->slot].place, &to);
  bool is_there = w->item[x->slot].into == n->slot;
  if (!is_there && !(place_needed(w, x, &from) && step_copy(w, (weft_dtype)x->dtype, x->rank, x->dims, &from, &to))) return false;
  return fill_sides(w, n);
}
