/* piece.c -- kernels that run on part of their axes: see piece.h. */
#include "run/piece.h"
#include <alloca.h>
#include <string.h>
#include "run/launch.h"

void piece_kernel_of(struct piece_kernel *p, const struct plan *plan, int step, int n_axes, const int start[],
                     uint8_t *const base[]) {
  p->code = plan->code[step];
  p->step = &plan->schedule->step[step];
  p->n_axes = n_axes;
  p->start = start;
  p->joins = 0;
  findings_clear(p->checks, p->step->n_sites);
  if (p->code) step_bind(p->step, p->code->kernel, base, p->bound);
}

/* Which axis a dim of a buffer is; -1: none. */
static int axis_of(const struct piece_kernel *p, const struct kir_lin *d) {
  const struct kir_kernel *k = p->code->kernel;
  if (d->n != 1 || d->term[0].n != 1 || k->vals[d->term[0].val[0]].kind != KIR_SIZE) return -1;
  int i = k->vals[d->term[0].val[0]].index;
  return i < p->n_axes ? i : -1;
}

static void bind_own(const struct piece_kernel *p, const struct piece_buffer *own, struct bound *b) {
  const struct kir_buf *x = &p->code->kernel->bufs[own->buf];
  int64_t size = (int64_t)weft_dtype_bytes((weft_dtype)x->dtype);
  b->data = own->data;
  for (int d = 0; d < x->rank; d++) b->stride[d] = own->stride[axis_of(p, &x->dims[d])] / size;
}

void piece_strides(const struct piece_kernel *p, int buf, int64_t stride[]) {
  const struct kir_buf *x = &p->code->kernel->bufs[buf];
  for (int a = 0; a < p->n_axes; a++) stride[a] = 0;
  for (int d = 0; d < x->rank; d++) {
    int axis = axis_of(p, &x->dims[d]);
    if (axis >= 0) stride[axis] += p->bound[buf].stride[d] * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype);
  }
}

static void displace(const struct piece_kernel *p, int buf, const int64_t from[], struct bound *b) {
  int64_t stride[AXES];
  piece_strides(p, buf, stride);
  for (int a = 0; a < p->n_axes; a++) if (stride[a]) b->data = (uint8_t *)b->data + from[a] * stride[a];
}

int piece_run(struct piece_kernel *p, const int64_t from[], const int64_t extent[], int n, const struct piece_buffer own[],
              struct cancel *cancel) {
  const struct kir_kernel *k = p->code->kernel;
  struct bound *bound = alloca(sizeof *bound * (size_t)(k->n_bufs + 1));
  int64_t *sizes = alloca(sizeof *sizes * (size_t)(k->n_sizes + 1));
  memcpy(sizes, p->step->sizes, sizeof *sizes * (size_t)k->n_sizes);
  for (int a = 0; a < p->n_axes; a++) {
    sizes[a] = extent[a];
    if (p->start[a] >= 0) sizes[p->start[a]] = from[a];
  }
  for (int j = 0; j < k->n_bufs; j++) {
    if (k->bufs[j].kind > KIR_INOUT) continue;
    bound[j] = p->bound[j];
    int i = 0;
    while (i < n && own[i].buf != j) i++;
    if (i < n) bind_own(p, &own[i], &bound[j]);
    else displace(p, j, from, &bound[j]);
  }
  struct finding found[DRAFT_SITES];
  findings_clear(found, p->step->n_sites);
  struct launch l = { .sizes = sizes, .args = p->step->args, .bufs = bound, .checks = found, .cancel = cancel };
  int how = launch_run(p->code->backend, p->code->code, k, &p->code->facts, &l, 1);
  findings_join(p->checks, found, p->step->n_sites, &p->joins);
  return how == 1;
}

struct failure *piece_outcome(const struct piece_kernel *p) {
  return p->code ? step_first_failure(p->step, p->checks) : NULL;
}
