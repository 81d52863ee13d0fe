/* copy.c -- from one place to another, element by element. */
#include "graph/dtype.h"
#include "schedule/work.h"

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
  struct kir_lin size[WEFT_RANK_MAX], at[WEFT_RANK_MAX], read[WEFT_RANK_MAX], read_dims[WEFT_RANK_MAX];
  struct binding bind[2] = { { .store = from->store, .offset = from->offset }, { .store = to->store, .offset = to->offset } };
  int n_read = 0;
  if (dtype_is_narrow_float(dtype)) dtype = WEFT_U16; /* a pattern like any other: nothing to convert */
  walk_axes(rank, dims, from, to, &x);
  if (x.n > AXES) return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, 0, "weft_eval: a copy over more than %d axes", AXES));
  struct kir_kernel *k = kir_new("copy");
  if (!k) return !(w->no_memory = true);
  for (int i = 0; i < x.n; i++) {
    char name[] = { (char)('A' + i), 0 };
    size[i] = kir_lin_val(k, kir_size(k, name));
    bind[1].stride[i] = x.to[i];
    if (x.from[i]) bind[0].stride[n_read] = x.from[i], read_dims[n_read++] = size[i];
  }
  struct kir_builder b;
  int in = kir_buf(k, "x", KIR_IN, dtype, n_read, read_dims), out = kir_buf(k, "y", KIR_OUT, dtype, x.n, size);
  kir_begin(&b, k);
  n_read = 0;
  for (int i = 0; i < x.n; i++) {
    char name[] = { (char)('a' + i), 0 };
    at[i] = kir_lin_val(k, kir_loop(&b, i == x.n - 1 ? KIR_LANE : KIR_PAR, name, size[i]));
    if (x.from[i]) read[n_read++] = at[i];
  }
  kir_store(&b, out, at, KIR_SET, kir_load(&b, in, read));
  for (int i = 0; i < x.n; i++) kir_end(&b);
  return step_fill(w, k, x.n, x.extent, 0, NULL, 2, bind, 0, NULL);
}

/* A dense array of one number. */
bool step_number(struct work *w, const struct node *scalar, weft_dtype dtype, int64_t n, int store) {
  struct kir_builder b;
  struct kir_kernel *k = kir_new("fill");
  if (!k) return !(w->no_memory = true);
  int v = kir_arg(k, "s", kir_register_of(dtype));
  struct kir_lin size = kir_lin_val(k, kir_size(k, "N"));
  int out = kir_buf(k, "y", KIR_OUT, dtype, 1, &size);
  kir_begin(&b, k);
  struct kir_lin at = kir_lin_val(k, kir_loop(&b, KIR_LANE, "i", size));
  kir_store(&b, out, &at, KIR_SET, v);
  kir_end(&b);
  struct argument arg = scalar_argument(scalar);
  struct binding bind = { store, 0, { 1 } };
  return step_fill(w, k, 1, &n, 1, &arg, 1, &bind, 0, NULL);
}
