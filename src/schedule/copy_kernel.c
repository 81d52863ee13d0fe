/* copy_kernel.c -- from one place to another, element by element; and from several to one, where they stand by turns. */
#include "graph/dtype.h"
#include "schedule/draft.h"

struct walked { int n; int64_t extent[WEFT_RANK_MAX], from[WOVEN_MOST][WEFT_RANK_MAX], to[WEFT_RANK_MAX]; };

/* Whether axis k is walked through together with the last one so far, by all. */
static bool goes_on(const struct walked *x, int64_t extent, int n, const struct place from[], const struct place *to, int k) {
  int i = x->n - 1;
  bool is = i >= 0 && x->to[i] == to->stride[k] * extent;
  for (int f = 0; f < n; f++) is = is && x->from[f][i] == from[f].stride[k] * extent;
  return is;
}

/* Axes without those of length 1, neighbours merged where all sides walk through them as through one. */
static void walk_axes(int rank, const dim dims[], int n, const struct place from[], const struct place *to, struct walked *x) {
  x->n = 0;
  for (int k = 0; k < rank; k++) {
    if (dims[k] == 1) continue;
    if (goes_on(x, dims[k], n, from, to, k)) x->extent[x->n - 1] *= dims[k];
    else x->extent[x->n++] = dims[k];
    x->to[x->n - 1] = to->stride[k];
    for (int f = 0; f < n; f++) x->from[f][x->n - 1] = from[f].stride[k];
  }
}

static weft_dtype pattern_of(weft_dtype d) { /* nothing is converted */
  return !dtype_is_narrow_float(d) ? d : dtype_is_f8(d) ? WEFT_U8 : WEFT_U16;
}

/* Loads what stands there for all of the indices. */
static int load_from(struct draft *d, const struct walked *x, int f, const struct place *from, weft_dtype t, const char *name,
                     const struct kir_lin size[], const struct kir_lin at[]) {
  struct reach in = { .store = from->store, .offset = from->offset };
  struct kir_lin read[AXES];
  for (int i = 0; i < x->n; i++) {
    if (!x->from[f][i]) continue;
    read[in.rank] = at[i];
    reach_along(&in, size[i], x->from[f][i]);
  }
  return kir_load(&d->b, draft_buffer(d, name, KIR_IN, t, &in), read);
}

static void open_loops(struct draft *d, const struct walked *x, struct kir_lin size[], struct kir_lin at[]) {
  for (int i = 0; i < x->n; i++) size[i] = draft_lin(d, draft_size(d, (char[]){ (char)('A' + i), 0 }, x->extent[i]));
  for (int i = 0; i < x->n; i++) {
    enum kir_kind kind = i == x->n - 1 ? KIR_LANE : KIR_PAR;
    at[i] = draft_lin(d, kir_loop(&d->b, kind, (char[]){ (char)('a' + i), 0 }, size[i]));
  }
}

static bool is_same(const struct walked *x, const struct place from[], int f, int g) {
  bool is = from[f].store == from[g].store && from[f].offset == from[g].offset;
  for (int i = 0; i < x->n; i++) is = is && x->from[f][i] == x->from[g][i];
  return is;
}

/* y[.., n a + k] = x_k[.., a] */
static bool write(struct work *w, const struct walked *x, weft_dtype t, int n, const struct place from[], const struct place *to) {
  struct draft d;
  struct reach out = { .store = to->store, .offset = to->offset };
  struct kir_lin size[AXES], at[AXES];
  int value[WOVEN_MOST];
  if (x->n > AXES) return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, 0, "weft_eval: a copy over more than %d axes", AXES));
  if (!draft_begin(&d, w, n > 1 ? "weave" : "copy")) return false;
  open_loops(&d, x, size, at);
  for (int k = 0; k < n; k++) {
    int same = 0;
    while (same < k && !is_same(x, from, same, k)) same++;
    value[k] = same < k ? value[same] : load_from(&d, x, k, &from[k], t, n > 1 ? NULL : "x", size, at);
  }
  for (int i = 0; i < x->n; i++)
    reach_along(&out, n > 1 && i == x->n - 1 ? kir_lin_scale(d.k, size[i], n) : size[i], n > 1 && i == x->n - 1 ? 1 : x->to[i]);
  int y = draft_buffer(&d, "y", KIR_OUT, t, &out);
  if (n > 1) at[x->n - 1] = kir_lin_scale(d.k, at[x->n - 1], n);
  for (int k = 0; k < n; k++) {
    kir_store(&d.b, y, at, KIR_SET, value[k]);
    if (k + 1 < n) at[x->n - 1] = kir_lin_add(d.k, at[x->n - 1], kir_lin_const(d.k, 1));
  }
  for (int i = 0; i < x->n; i++) kir_end(&d.b);
  return draft_end(&d);
}

bool step_copy(struct work *w, weft_dtype dtype, int rank, const dim dims[], const struct place *from, const struct place *to) {
  struct walked x;
  walk_axes(rank, dims, 1, from, to, &x);
  if (!write(w, &x, pattern_of(dtype), 1, from, to)) return false;
  w->out->step[w->out->n_steps - 1].is_copy = true;
  return true;
}

bool places_weave(int rank, const dim dims[], int n, const struct place from[], const struct place *to) {
  struct walked x;
  walk_axes(rank, dims, n, from, to, &x);
  return n > 1 && n <= WOVEN_MOST && x.n && x.n <= AXES && x.to[x.n - 1] == n;
}

bool step_weave(struct work *w, weft_dtype dtype, int rank, const dim dims[], int n, const struct place from[],
                const struct place *to) {
  struct walked x;
  walk_axes(rank, dims, n, from, to, &x);
  return write(w, &x, pattern_of(dtype), n, from, to);
}

/* A dense array of one number. */
bool step_number(struct work *w, const struct node *scalar, weft_dtype dtype, int64_t n, int store) {
  struct draft d;
  struct reach out = { .store = store };
  if (!draft_begin(&d, w, "fill")) return false;
  int v = draft_number(&d, scalar);
  struct kir_lin size = draft_lin(&d, draft_size(&d, "N", n));
  reach_along(&out, size, 1);
  int y = draft_buffer(&d, "y", KIR_OUT, dtype, &out);
  struct kir_lin at = draft_lin(&d, kir_loop(&d.b, KIR_LANE, "i", size));
  kir_store(&d.b, y, &at, KIR_SET, v);
  kir_end(&d.b);
  return draft_end(&d);
}
