/* fold.c -- see fold.h: a kernel of one element. */
#include "rewrite/fold.h"
#include <string.h>
#include "backend/backend.h"

static void build(struct kir_kernel *k, const struct node *n, int *out) {
  struct kir_builder b;
  int in[8], n_in = n->n_in < 8 ? n->n_in : 8;
  for (int i = 0; i < n_in; i++) in[i] = kir_arg(k, "a", kir_register_of((weft_dtype)n->in[i]->dtype));
  *out = kir_buf(k, "y", KIR_OUT, (weft_dtype)n->dtype, 0, NULL);
  kir_begin(&b, k);
  kir_store(&b, *out, NULL, KIR_SET, kir_cast(&b, (weft_dtype)n->dtype, n->op->lower(&b, n, in)));
}

static bool run(struct kir_kernel *k, int out, const uint64_t args[], uint64_t *bits) {
  struct shape_class shape;
  memset(&shape, 0, sizeof shape);
  const char *why = "";
  struct code *code = backend_vm.compile(k, &shape, &why);
  if (!code) return false;
  struct bound bufs[32];
  memset(bufs, 0, sizeof bufs);
  *bits = 0;
  bufs[out].data = bits;
  struct launch l = { .args = args, .bufs = bufs, .hi = 1 };
  bool ok = backend_vm.run(code, &l) == 0;
  backend_vm.free(code);
  return ok;
}

bool fold_element(const struct node *n, const struct node *const scalar[], uint64_t *bits) {
  struct kir_kernel *k = kir_new("fold");
  if (!k) return false;
  int out;
  uint64_t args[8];
  build(k, n, &out);
  for (int i = 0; i < n->n_in && i < 8; i++) args[i] = scalar_bits(scalar[i], kir_register_of((weft_dtype)n->in[i]->dtype));
  bool ok = !k->failed && kir_legalise(k) && k->n_bufs <= 32 && !kir_verify(k) && run(k, out, args, bits);
  kir_free(k);
  return ok;
}
