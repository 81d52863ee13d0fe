/* random_lanes.c -- loops of lanes: every element tries until it is content, by itself, and at most so often.
 *
 * The loop is written for one element and mapped over all, so it is one kernel in which lanes leave one by one. Step t of a
 * rejection has a key of its own, (k0 + (t + 1) 0x9E3779B9, k1), and in it word i of n for element i: which words an element
 * gets does not depend on what happens to others. */
#include "op/random.h"

enum { LANES_MOST = 8 }; /* arrays of one body: places, a key, parameters, what is carried */

weft_array *lanes_map(const char *fn, int n, weft_array *const x[], weft_array *body(const void *, weft_array *const x[]),
                      const void *ctx) {
  weft_array *one[LANES_MOST], *all[LANES_MOST], *flat[LANES_MOST], *inner[LANES_MOST], *bad;
  struct node *node[LANES_MOST];
  int m = 0, rank;
  dim dims[WEFT_RANK_MAX];
  if (!operands(fn, n, x, node, &bad)) return bad;
  struct failure *why = common_dims(fn, n, node, &rank, dims);
  if (!why) why = count_check(fn, rank, dims);
  if (why) return array_of_bad(why, n, node);
  dim count = dim_count(rank, dims);
  for (int k = 0; k < n; k++) { /* what is 0-d is the same for all, and stays outside */
    bool is_lane = node[k]->rank > 0;
    one[k] = is_lane ? array_of(node_make(&op_input, (weft_dtype)node[k]->dtype, 0, NULL, 0, NULL, NULL, 0)) : x[k];
    if (!is_lane) continue;
    inner[m] = one[k];
    all[m] = array_broadcast(fn, x[k], rank, dims);
    flat[m] = array_reshape(fn, all[m], 1, &count);
    m++;
  }
  nodes_release(n, node);
  weft_array *y = body(ctx, one), *ys = y;
  if (m) weft_map(m, inner, flat, 1, &y, &ys);
  return m ? array_reshape(fn, ys, rank, dims) : ys;
}

/* ---- Rejection ---- */

struct trying { const struct draw *d; const struct rejection *r; };

static weft_array *limited(weft_array *is_done, weft_array *t, int64_t most) {
  return weft_or(is_done, weft_ge(t, weft_cast(weft_integer(most), WEFT_U32)));
}

/* x[0]: the place; then the parameters. */
static weft_array *try_until(const void *ctx, weft_array *const x[]) {
  const struct draw *d = ((const struct trying *)ctx)->d;
  const struct rejection *r = ((const struct trying *)ctx)->r;
  weft_dtype word = d->in == WEFT_F64 ? WEFT_U64 : WEFT_U32;
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *y = weft_loop_carry(loop, weft_cast(weft_scalar(0), d->in)), *w[RANDOM_PARAMETERS], *next;
  weft_array *t = weft_loop_carry(loop, weft_cast(weft_integer(0), WEFT_U32)), *n = d->n_draws;
  weft_array *after = weft_add(t, weft_integer(1));
  weft_array *k0 = weft_add(d->k0, weft_mul(after, weft_cast(weft_integer(0x9E3779B9), WEFT_U32)));
  for (int j = 0; j < r->n_words; j++)
    w[j] = random_word(word, k0, d->k1, weft_add(x[0], weft_mul(n, weft_integer(j))), weft_mul(n, weft_integer(r->n_words)));
  weft_array *is_done = r->attempt(d, w, x + 1, &next);
  weft_loop_next(loop, y, next);
  weft_loop_next(loop, t, after);
  weft_loop_until(loop, limited(is_done, after, r->most));
  weft_array *last = weft_loop_last(loop, y);
  weft_loop_close(loop);
  return last;
}

weft_array *random_rejected(const struct draw *d, const struct rejection *r, int n, weft_array *const p[]) {
  weft_array *x[LANES_MOST] = { random_shaped(d, d->places) };
  for (int k = 0; k < n; k++) x[k + 1] = weft_stop_gradient(p[k]);
  return weft_stop_gradient(lanes_map(d->fn, n + 1, x, try_until, &(struct trying){ d, r }));
}
