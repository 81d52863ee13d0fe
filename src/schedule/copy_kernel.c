/* copy_kernel.c -- from one place to another, element by element. */
#include "graph/dtype.h"
#include "schedule/draft.h"

struct walked { int n; int64_t extent[WEFT_RANK_MAX], from[WEFT_RANK_MAX], to[WEFT_RANK_MAX]; };

/* Axes without those of length 1, neighbours merged where both sides walk through them as through one. */
static void walk_axes(int rank, const dim dims[], const struct place *from, const struct place *to, struct walked *x) {
  x->n = 0;
  for (int k = 0; k < rank; k++) {
    if (dims[k] == 1) continue;
    int i = x->n - 1;
    if (i >= 0 && x->from[i] == from->stride[k] * dims[k] && x->to[i] == to->stride[k] * dims[k]) x->extent[i] *= dims[k];
    else i = x->n++, x->extent[i] = dims[k];
    x->from[i] = from->stride[k];
    x->to[i] = to->stride[k];
  }
}

bool step_copy(struct work *w, weft_dtype dtype, int rank, const dim dims[], const struct place *from, const struct place *to) {
  struct walked x;
  struct draft d;
  struct reach in = { .store = from->store, .offset = from->offset }, out = { .store = to->store, .offset = to->offset };
  if (dtype_is_narrow_float(dtype)) dtype = dtype_is_f8(dtype) ? WEFT_U8 : WEFT_U16; /* patterns: nothing to convert */
  walk_axes(rank, dims, from, to, &x);
  if (x.n > AXES) return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, 0, "weft_eval: a copy over more than %d axes", AXES));
  if (!draft_begin(&d, w, "copy")) return false;
  for (int i = 0; i < x.n; i++) {
    struct kir_lin size = draft_lin(&d, draft_size(&d, (char[]){ (char)('A' + i), 0 }, x.extent[i]));
    reach_along(&out, size, x.to[i]);
    if (x.from[i]) reach_along(&in, size, x.from[i]);
  }
  int buf_in = draft_buffer(&d, "x", KIR_IN, dtype, &in), buf_out = draft_buffer(&d, "y", KIR_OUT, dtype, &out), n_read = 0;
  struct kir_lin at[AXES], read[AXES];
  for (int i = 0; i < x.n; i++) {
    enum kir_kind kind = i == x.n - 1 ? KIR_LANE : KIR_PAR;
    at[i] = draft_lin(&d, kir_loop(&d.b, kind, (char[]){ (char)('a' + i), 0 }, out.dims[i]));
    if (x.from[i]) read[n_read++] = at[i];
  }
  kir_store(&d.b, buf_out, at, KIR_SET, kir_load(&d.b, buf_in, read));
  for (int i = 0; i < x.n; i++) kir_end(&d.b);
  if (!draft_end(&d)) return false;
  w->out->step[w->out->n_steps - 1].is_copy = true;
  return true;
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
