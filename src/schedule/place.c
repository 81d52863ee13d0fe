/* place.c -- where values stand in memory. Views are arithmetic on strides; only a reshape that no strides can express
 * (or an as_strided of what is not row-major) needs the elements moved. */
#include "schedule/work.h"
#include <string.h>

int64_t node_count(const struct node *n) {
  int64_t count = 1;
  for (int k = 0; k < n->rank; k++) count *= n->dims[k];
  return count;
}

int store_new(struct work *w, int64_t bytes) {
  struct schedule *s = w->out;
  if (s->n_stores == w->room_stores) {
    int room = w->room_stores ? 2 * w->room_stores : 32;
    struct store *more = arena_grow(w->arena, s->store, sizeof *more * (size_t)s->n_stores, sizeof *more * (size_t)room);
    if (!more) return w->no_memory = true, -1;
    s->store = more;
    w->room_stores = room;
  }
  s->store[s->n_stores] = (struct store){ .leaf = -1, .bytes = bytes, .first = -1, .last = -1 };
  return s->n_stores++;
}

void place_dense(const struct node *n, int store, struct place *p) {
  int64_t stride = 1;
  *p = (struct place){ .store = store };
  for (int k = n->rank - 1; k >= 0; k--) {
    p->stride[k] = stride;
    if (n->dims[k]) stride *= n->dims[k]; /* 0 would say that the axis stands still */
  }
}

/* A row-major walk over `in` as a walk over `out`: groups of axes with equal products are split or merged. */
static bool reshape(const struct node *in, const struct node *out, const struct place *p, struct place *q) {
  int64_t dims[WEFT_RANK_MAX], stride[WEFT_RANK_MAX];
  int n = 0;
  for (int k = 0; k < in->rank; k++)
    if (in->dims[k] != 1) dims[n] = in->dims[k], stride[n++] = p->stride[k];
  int i = 0, o = 0;
  while (o < out->rank) {
    if (i >= n) {
      q->stride[o++] = 0; /* only ones are left */
      continue;
    }
    int i0 = i, o0 = o;
    int64_t a = dims[i++], b = out->dims[o++];
    while (a != b) {
      if (a < b) { if (i >= n) return false; a *= dims[i++]; }
      else { if (o >= out->rank) return false; b *= out->dims[o++]; }
    }
    while (o < out->rank && out->dims[o] == 1 && i >= n) o++;
    for (int k = i0; k + 1 < i; k++)
      if (stride[k] != stride[k + 1] * dims[k + 1]) return false;
    int64_t s = stride[i - 1];
    for (int k = o - 1; k >= o0; k--) {
      q->stride[k] = s;
      s *= out->dims[k];
    }
  }
  return i == n;
}

void place_part(const struct place *whole, int rank, int part, struct place *out) {
  *out = (struct place){ .store = whole->store, .offset = 2 * whole->offset + part };
  for (int k = 0; k < rank; k++) out->stride[k] = 2 * whole->stride[k];
}

bool place_is_dense(const struct node *n, const struct place *p) {
  int64_t stride = 1;
  for (int k = n->rank - 1; k >= 0; stride *= n->dims[k--])
    if (n->dims[k] != 1 && p->stride[k] != stride) return false;
  return true;
}

static bool as_strided(const struct node *v, const struct place *in, struct place *out) {
  const struct strided_attr *a = v->attr;
  out->offset += a->offset;
  memcpy(out->stride, a->stride, (size_t)v->rank * sizeof *a->stride);
  return place_is_dense(v->in[0], in);
}

bool place_view(const struct node *v, const struct place *in, struct place *out) {
  const struct node *x = v->in[0];
  *out = (struct place){ .store = in->store, .offset = in->offset };
  if (v->op == &op_transpose) {
    const struct transpose_attr *t = v->attr;
    for (int k = 0; k < v->rank; k++) out->stride[k] = in->stride[t->axes[k]];
  } else if (v->op == &op_broadcast) {
    int d = v->rank - x->rank;
    for (int k = 0; k < x->rank; k++) out->stride[k + d] = x->dims[k] == 1 ? 0 : in->stride[k];
  } else if (v->op == &op_slice) {
    const struct slice_attr *s = v->attr;
    memcpy(out->stride, in->stride, sizeof out->stride);
    if (node_count(v)) out->offset += s->start * in->stride[s->axis];
    out->stride[s->axis] *= s->step;
  } else if (v->op == &op_windows) {
    const struct windows_attr *a = v->attr;
    memcpy(out->stride, in->stride, (size_t)x->rank * sizeof *in->stride);
    out->stride[a->axis] *= a->step;
    out->stride[x->rank] = in->stride[a->axis] * a->dilation;
  } else if (v->op == &op_part) {
    place_part(in, v->rank, (int)((const struct part_attr *)v->attr)->part, out);
  } else { /* reshape, as_strided */
    if (!node_count(v)) return true; /* no element, no address */
    return v->op == &op_as_strided ? as_strided(v, in, out) : reshape(x, v, in, out);
  }
  return true;
}

bool place_behind(const struct node *v, const struct place *out, struct place *in) {
  const struct node *x = v->in[0];
  *in = (struct place){ .store = out->store, .offset = out->offset };
  if (v->op == &op_transpose) {
    const struct transpose_attr *t = v->attr;
    for (int k = 0; k < v->rank; k++) in->stride[t->axes[k]] = out->stride[k];
    return true;
  }
  return v->op == &op_reshape && node_count(v) && reshape(v, x, out, in);
}

bool place_of(struct work *w, const struct node *n, struct place *p) {
  const struct node *few[64], **chain = few;
  int depth = 0;
  for (const struct node *x = n; x->op->kind == OP_VIEW && !w->item[x->slot].is_stored; x = x->in[0]) depth++;
  if (depth > 64 && !(chain = work_take(w, sizeof *chain * (size_t)depth))) return false;
  for (int i = 0; i < depth; i++, n = n->in[0]) chain[i] = n;
  *p = w->item[n->slot].place;
  while (depth--) {
    struct place in = *p;
    if (!place_view(chain[depth], &in, p)) return false;
  }
  return p->store >= 0;
}

bool place_needed(struct work *w, const struct node *n, struct place *p) {
  if (place_of(w, n, p)) return true;
  const char *view = n->op->name, *of = edge_of(n).base->op->name;
  return !w->no_memory && work_fail(w, fail(WEFT_ERR_INTERNAL, n->origin, "weft_eval: %s of %s has no place", view, of));
}

bool place_if_dense(struct work *w, const struct node *x, struct place *p) {
  enum { MOST_VIEWS = 16 };
  const struct node *view[MOST_VIEWS];
  int n = 0;
  for (; x->op->kind == OP_VIEW; x = x->in[0]) {
    if (n == MOST_VIEWS) return false;
    view[n++] = x;
  }
  if (x->op == &op_value) *p = w->leaf_place[local_of(x)->leaf];
  else if (x->op->kind == OP_LEAF) return false;
  else place_dense(x, 0, p);
  while (n--) {
    struct place in = *p;
    if (!place_view(view[n], &in, p)) return false;
  }
  return true;
}
