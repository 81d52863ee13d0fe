/* attention.c -- softmax(q k' scale) v, masked. Plain matrix products and a softmax: the scheduler runs them together row
 * by row (schedule/chain.c), so the scores stand nowhere as a whole. */
#include <math.h>
#include <string.h>
#include "op/composed.h"
#include "op/later.h"

/* Queries of one shape [.., heads, T, d] whose neighbouring heads share a head of k and v: [.., k's heads, shared, T, d]. */
static weft_array *grouped(weft_array *x, int64_t heads, int64_t of) {
  struct node *n = array_node(x);
  dim d[WEFT_RANK_MAX + 1];
  int at = n->rank - 3;
  bool is_shared = n->dims[at] == 1;
  memcpy(d, n->dims, sizeof *d * (size_t)at);
  d[at] = is_shared ? 1 : of;
  d[at + 1] = is_shared ? 1 : heads / of;
  memcpy(d + at + 2, n->dims + at + 1, 2 * sizeof *d);
  weft_array *y = array_reshape("weft_attention", x, n->rank + 1, d);
  node_release(n);
  return y;
}

/* Row i sees the columns up to i + S - T: the last row sees all. */
static weft_array *before_diagonal(weft_array *scores, weft_array *q, weft_array *k) {
  weft_array *like = weft_cast(scores, WEFT_I32), *row = weft_iota(like, -2), *column = weft_iota(like, -1);
  weft_array *more = weft_cast(weft_sub(weft_size(k, -2), weft_size(q, -2)), WEFT_I32);
  return weft_where(weft_le(column, weft_add(row, more)), scores, weft_scalar(-INFINITY));
}

static weft_array *masked(weft_array *scores, weft_array *mask) {
  if (weft_dtype_of(mask) == WEFT_BOOL) return weft_where(mask, scores, weft_scalar(-INFINITY));
  return weft_add(scores, weft_cast(mask, weft_dtype_of(scores)));
}

/* 1 / sqrt(d) as of an unknown size: rounded as that of a known one is. */
static weft_array *scale_by(weft_array *size) {
  weft_array *d = weft_maximum(weft_cast(size, WEFT_F64), weft_scalar(1));
  return weft_div(weft_scalar(1), weft_sqrt(d));
}

/* 1 / sqrt(d), if nothing is said. */
static weft_array *scale_of(weft_array *q, const weft_attention_options *how) {
  struct node *n = array_node(q);
  dim d = n->dims[n->rank - 1];
  node_release(n);
  if (how && how->scale) return weft_scalar(how->scale);
  return d >= 0 ? weft_scalar(d ? 1 / sqrt((double)d) : 1) : scale_by(weft_size(q, -1));
}

static weft_array *attend(weft_array *q, weft_array *k, weft_array *v, weft_array *mask, const weft_attention_options *how) {
  weft_array *s = weft_matmul(raised(q), weft_moveaxis(raised(k), -1, -2));
  s = weft_mul(s, weft_cast(scale_of(q, how), weft_dtype_of(s)));
  if (how && how->is_causal) s = before_diagonal(s, q, k);
  if (mask) s = masked(s, mask);
  return lowered(weft_matmul(weft_softmax(s, -1), raised(v)), q);
}

/* 0: there is no such axis, or its size is not known. */
static int64_t heads_of(weft_array *x) {
  struct node *n = array_node(x);
  dim d = n->rank < 3 ? 0 : n->dims[n->rank - 3];
  node_release(n);
  return d < 0 ? 0 : d;
}

static weft_array *attend_in_groups(weft_array *q, weft_array *k, weft_array *v, weft_array *mask,
                                    const weft_attention_options *how) {
  int64_t heads = heads_of(q), of = heads_of(k);
  if (heads == of || of <= 1 || heads < of || heads % of) return attend(q, k, v, mask, how);
  if (mask && weft_rank(mask) >= 3) mask = grouped(mask, heads, of);
  weft_array *y = attend(grouped(q, heads, of), weft_unsqueeze(k, -3), weft_unsqueeze(v, -3), mask, how);
  if (weft_rank(y) < 4) return y; /* bad */
  struct node *n = array_node(y);
  dim d[WEFT_RANK_MAX];
  memcpy(d, n->dims, sizeof *d * (size_t)(n->rank - 4));
  d[n->rank - 4] = heads;
  memcpy(d + n->rank - 3, n->dims + n->rank - 2, 2 * sizeof *d);
  y = array_reshape("weft_attention", y, n->rank - 1, d);
  node_release(n);
  return y;
}

/* ---- How many heads there are is not known yet ---- */

static dim heads_open(weft_array *x) {
  const struct node *n = x->node;
  return n->rank < 3 ? 1 : dim_resolve(n->dims[n->rank - 3]);
}

static weft_array *write_attention(const void *options, weft_array *const in[]) {
  weft_attention_options how = *(const weft_attention_options *)options;
  struct shape_text a, b;
  if (how.mask) how.mask = in[3];
  dim heads = heads_open(in[0]), of = heads_open(in[1]);
  if (dim_is_known(heads) && dim_is_known(of) && heads == 1 && of > 1)
    return array_bad(WEFT_ERR_SHAPE, "weft_attention: q is %s and k %s: one head of q for several of k, which was not known before",
                     shape_show(in[0]->node, &a), shape_show(in[1]->node, &b));
  return weft_attention(in[0], in[1], in[2], &how);
}

/* As many as q has, which may be several for each of k: its sizes are those where k has as many. */
static weft_array *attend_later(weft_array *q, weft_array *k, weft_array *v, weft_array *mask, const weft_attention_options *how) {
  weft_attention_options o = how ? *how : (weft_attention_options){ 0 };
  dim heads = heads_open(q);
  weft_array *like = attend(q, array_with_size(k, -3, heads), weft_rank(v) < 3 ? v : array_with_size(v, -3, heads), mask, how);
  if (weft_check(like)) return like;
  const struct node *n = like->node;
  return array_later(write_attention, &o, sizeof o, mask ? 4 : 3, (weft_array *[]){ q, k, v, mask }, (weft_dtype)n->dtype,
                     n->rank, n->dims);
}

/* q or k has a number of heads that is not known, and not that of the other one. */
static bool heads_are_open(weft_array *q, weft_array *k) {
  dim heads = heads_open(q), of = heads_open(k);
  if (heads == of || heads == 1 || of == 1) return false;
  return !dim_is_known(heads) || !dim_is_known(of);
}

static struct failure *shapes_wrong(weft_array *const x[3]) {
  struct node *n[3];
  struct shape_text t[3];
  struct failure *why = NULL;
  for (int i = 0; i < 3; i++) n[i] = array_node(x[i]);
  bool is_flat = n[0]->rank < 2 || n[1]->rank < 2 || n[2]->rank < 2;
  if (is_flat || !sizes_meet("weft_attention", n[0]->dims[n[0]->rank - 1], n[1]->dims[n[1]->rank - 1]) ||
      !sizes_meet("weft_attention", n[1]->dims[n[1]->rank - 2], n[2]->dims[n[2]->rank - 2]))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_attention: q, k, v must be [..,T,d], [..,S,d], [..,S,e], not %s, %s, %s",
               shape_show(n[0], &t[0]), shape_show(n[1], &t[1]), shape_show(n[2], &t[2]));
  nodes_release(3, n);
  return why;
}

weft_array *weft_attention(weft_array *q, weft_array *k, weft_array *v, const weft_attention_options *how) {
  weft_array *in[] = { q, k, v, how ? how->mask : NULL }, *bad;
  for (int i = 0; i < 4; i++) if ((i < 3 || in[i]) && !is_ordered("weft_attention", in[i], &bad)) return bad;
  struct failure *why = shapes_wrong(in);
  if (why) return array_failed(why);
  if (heads_are_open(q, k)) return COMPOSED(attend_later(q, k, v, in[3], how));
  return COMPOSED(attend_in_groups(q, k, v, in[3], how));
}
