/* vm.c -- the back end that is always there: a tile interpreter of the kernel language, and the oracle of the others. */
#include "backend/backend.h"
#include "backend/vm/program.h"
#include "base/mem.h"
#include "base/text.h"

static bool available(void) { return true; }

static void release(struct code *c) {
  if (!c) return;
  for (int i = 0; c->bufs && i < c->n_bufs; i++) mem_free(c->bufs[i].data);
  mem_free(c->steps), mem_free(c->regs), mem_free(c->terms), mem_free(c->access), mem_free(c->loops), mem_free(c->folds);
  mem_free(c->fns), mem_free(c->list), mem_free(c->labels), mem_free(c->size_reg), mem_free(c->arg_reg);
  mem_free(c->arg_dtype), mem_free(c->ones), mem_free(c->bufs), mem_free(c->row_width);
  mem_free(c);
}

static const char *build(struct code *c, const struct kir_kernel *k) {
  uint8_t *varying = mem_alloc((size_t)k->n_vals + 1), *kept = mem_alloc((size_t)k->n_vals + 1);
  const char *why = "";
  if (varying && kept && vm_varying(k, varying, kept)) why = vm_translate(c, k, varying, kept);
  if (!why && !vm_place(c)) why = "";
  mem_free(varying), mem_free(kept);
  return why;
}

static struct code *compile(const struct kir_kernel *k, const struct shape_class *shape, const char **why) {
  struct code *c = mem_alloc(sizeof *c);
  *why = "";
  if (!c) return NULL;
  c->tiles = tile_best();
  c->tile = shape && shape->tile > 0 ? shape->tile : VM_TILE;
  *why = build(c, k);
  if (!*why) return c;
  release(c);
  return NULL;
}

/* ---- Listing --------------------------------------------------------------------------------------------------------- */

static const char *const names[VM_CODES] = {
  [VM_STOP] = "stop", [VM_OP] = "op", [VM_OP_ONE] = "one", [VM_IOTA] = "iota", [VM_ONES] = "ones", [VM_ADDR] = "address",
  [VM_WITHIN] = "within", [VM_LOAD] = "load", [VM_LOAD_ONE] = "load one", [VM_STORE] = "store", [VM_STORE_ONE] = "store one",
  [VM_OP_STORE] = "op store", [VM_BEGIN] = "begin", [VM_LANE] = "lane", [VM_END] = "end", [VM_JUMP] = "jump",
  [VM_UNLESS] = "unless", [VM_MASK] = "mask", [VM_CHECK] = "check", [VM_CHECK_ONE] = "check one", [VM_UNTIL] = "until",
  [VM_UNTIL_ONE] = "until one", [VM_NEXT] = "next", [VM_FOLD_OPEN] = "fold open", [VM_FOLD] = "fold",
  [VM_FOLD_CLOSE] = "fold close"};

static void show_reg(const struct code *c, int r, const char *before, struct text *t) {
  static const char kinds[] = {[VM_ONE] = 's', [VM_OWN] = 't', [VM_REF] = 'm', [VM_ROW] = 'r'};
  if (r < 0) return;
  text_addf(t, "%s%c%d", before, kinds[c->regs[r].kind], c->regs[r].slot);
  if (c->regs[r].kind != VM_ONE) text_addf(t, ".%d", c->regs[r].width);
}

static void show(const struct code *c, struct text *t) {
  for (int i = 0; i < c->n_steps; i++) {
    const struct vm_step *s = &c->steps[i];
    text_addf(t, "%4d  %-10s", i, names[s->code]);
    show_reg(c, s->out, " ", t);
    if (s->out >= 0 && s->in[0] >= 0) text_add(t, " =");
    for (int j = 0; j < 3; j++) show_reg(c, s->in[j], " ", t);
    show_reg(c, s->mask, " if ", t);
    if (s->access >= 0) text_addf(t, " #%d", s->access);
    if (s->jump >= 0) text_addf(t, " -> %d", s->jump);
    if (s->by_ref) text_add(t, " in place");
    text_add(t, "\n");
  }
}

const struct backend backend_vm = {"vm", available, compile, vm_run, vm_borrows, release, show};
