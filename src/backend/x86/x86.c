/* x86.c -- the back end: compiles a kernel to pages of machine code and runs it on a frame. */
#include <string.h>
#include "backend/x86/code.h"
#include "backend/x86/cpu.h"
#include "backend/x86/pages.h"
#include "base/mem.h"
#include "run/buffer.h"

/* ---- Compiling -------------------------------------------------------------------------------------------------------- */

static void *filled(struct arena *a, size_t n, int byte) {
  void *p = arena_take(a, n ? n : 1);
  return p ? memset(p, byte, n) : NULL;
}

static const struct shape_class any_shape = { .stride = { [0 ... 31] = { [0 ... BACKEND_RANK - 1] = STRIDE_ANY } } };

static bool open_gen(struct gen *g, const struct kir_kernel *k, const struct shape_class *shape) {
  size_t n = (size_t)k->n_vals, copies = n * COPIES;
  g->k = k;
  g->shape = shape ? shape : &any_shape;
  g->outer = kir_facts(k).outer;
  g->e.evex = cpu_has_avx512() && !g->shape->avx2_only;
  g->vector_bytes = g->e.evex ? 64 : 32;
  if (!(g->arena = arena_new())) return false;
  g->vals = arena_take(g->arena, n * sizeof *g->vals);
  g->where = filled(g->arena, copies, 0xFF);
  g->spill = filled(g->arena, copies * sizeof *g->spill, 0xFF);
  g->next = arena_take(g->arena, copies * sizeof *g->next);
  g->upcoming = arena_take(g->arena, n * sizeof *g->upcoming);
  g->data_at = arena_take(g->arena, (size_t)(k->n_bufs + 1) * sizeof *g->data_at);
  if (!g->vals || !g->where || !g->spill || !g->next || !g->upcoming || !g->data_at) return false;
  for (size_t i = 0; i < n; i++) g->upcoming[i] = NEVER;
  for (int r = 0; r < REGISTERS; r++) g->holder[r] = -1;
  return true;
}

static bool place_folds(struct gen *g) {
  for (int i = 0; i < g->n_loops; i++) folds_place(g, &g->loops[i]);
  return (g->row_reg = filled(g->arena, (size_t)g->n_rows, 0xFF)) != NULL;
}

static int factor_slot(struct gen *g, int val) {
  const struct kir_val *v = &g->k->vals[val];
  if (v->kind != KIR_SIZE && v->kind != KIR_ARG) gen_cannot(g, "a kept row whose length is not known at the launch");
  return FRAME_VALUES + 8 * (v->index + (v->kind == KIR_ARG ? g->k->n_sizes : 0));
}

/* The length of a row is that of its lane loop: n, or b for a block. */
static const struct kir_lin *row_length(const struct gen *g, const struct row *r) {
  const struct kir_stmt *s = g->loops[r->loop].stmt;
  return s->extent == KIR_BLOCK ? &g->loops[g->vals[s->block_of].loop].stmt->at[1] : &s->at[0];
}

static bool note_rows(struct gen *g, struct code *c) {
  int n_terms = 0;
  for (int i = 0; i < g->n_rows; i++) n_terms += row_length(g, &g->rows[i])->n;
  c->rows = arena_take(c->arena, (size_t)(g->n_rows + 1) * sizeof *c->rows);
  c->terms = arena_take(c->arena, (size_t)(n_terms + 1) * sizeof *c->terms);
  if (!c->rows || !c->terms) return false;
  for (int i = 0, at = 0; i < g->n_rows; i++) {
    const struct kir_lin *l = row_length(g, &g->rows[i]);
    c->rows[c->n_rows++] = (struct code_row){ g->rows[i].pointer, g->rows[i].bytes, at, l->n, g->loops[g->rows[i].loop].is_outer };
    for (int t = 0; t < l->n; t++, at++) {
      c->terms[at] = (struct code_term){ .coef = l->term[t].coef, .n = l->term[t].n };
      for (int f = 0; f < l->term[t].n; f++) c->terms[at].at[f] = factor_slot(g, l->term[t].val[f]);
    }
  }
  return true;
}

static bool note_buffers(struct gen *g, struct code *c) {
  const struct kir_kernel *k = g->k;
  c->bufs = arena_take(c->arena, (size_t)(k->n_bufs + 1) * sizeof *c->bufs);
  if (!c->bufs) return false;
  for (int b = 0; b < k->n_bufs; b++) {
    int dtype = g->is_private[b] ? (int)kir_register_of(k->bufs[b].dtype) : k->bufs[b].dtype;
    c->bufs[c->n_bufs++] = (struct code_buffer){ g->data_at[b], k->bufs[b].rank, dtype_bytes(dtype) };
  }
  return true;
}

static void x86_free(struct code *c) {
  if (!c) return;
  pages_free(c->pages, c->total);
  arena_free(c->arena);
  mem_free(c);
}

static bool fill_code(struct gen *g, struct code *c) {
  if (!(c->arena = arena_new()) || !note_buffers(g, c) || !note_rows(g, c) || g->why) return false;
  c->n_sizes = g->k->n_sizes;
  c->n_values = g->k->n_sizes + g->k->n_args;
  c->frame_bytes = (g->frame + 63) & ~63;
  c->is_avx512 = g->e.evex;
  c->lanes = g->lanes;
  c->n_code = g->e.n;
  c->pool_at = encoder_pool_at(&g->e);
  c->total = c->pool_at + g->e.n_pool;
  code_note_marks(c, g);
  c->pages = pages_new(g->e.code, g->e.n, g->e.pool, c->pool_at, g->e.n_pool);
  return c->pages != NULL;
}

static struct code *finish(struct gen *g) {
  if (g->why || g->no_memory || !encoder_finish(&g->e)) return NULL;
  struct code *c = mem_alloc(sizeof *c);
  if (!c || fill_code(g, c)) return c;
  x86_free(c);
  return NULL;
}

static struct code *x86_compile(const struct kir_kernel *k, const struct shape_class *shape, const char **why) {
  struct gen g = { 0 };
  struct code *c = NULL;
  if (open_gen(&g, k, shape)) {
    analyse(&g);
    if (!g.why && !g.no_memory && place_folds(&g)) {
      emit_kernel(&g);
      c = finish(&g);
    }
  }
  *why = c ? NULL : g.why ? g.why : "";
  encoder_free(&g.e);
  arena_free(g.arena);
  return c;
}

/* ---- Running ---------------------------------------------------------------------------------------------------------- */

static int64_t word_at(const uint8_t *frame, int at) {
  int64_t v;
  memcpy(&v, frame + at, 8);
  return v;
}
static void set_word(uint8_t *frame, int at, int64_t v) { memcpy(frame + at, &v, 8); }

static void fill_frame(const struct code *c, const struct launch *l, uint8_t *frame) {
  set_word(frame, FRAME_LO, l->lo);
  set_word(frame, FRAME_HI, l->hi);
  set_word(frame, FRAME_CANCEL, (int64_t)(intptr_t)l->cancel);
  for (int i = 0; i < c->n_values; i++)
    set_word(frame, FRAME_VALUES + 8 * i, i < c->n_sizes ? l->sizes[i] : (int64_t)l->args[i - c->n_sizes]);
  for (int b = 0; b < c->n_bufs; b++) {
    const struct code_buffer *s = &c->bufs[b];
    set_word(frame, s->at, (int64_t)(intptr_t)l->bufs[b].data);
    for (int d = 0; d < s->rank; d++) set_word(frame, s->at + 8 + 8 * d, l->bufs[b].stride[d] * s->bytes);
  }
}

/* The last vector of a row is written whole. */
enum { ROW_SLACK = 64, STACK_FRAME = 24 << 10 };

static size_t row_bytes(const struct code *c, const struct code_row *r, const struct launch *l, const uint8_t *values) {
  int64_t n = 0;
  for (int t = r->first; t < r->first + r->n; t++) {
    int64_t product = c->terms[t].coef;
    for (int f = 0; f < c->terms[t].n; f++) product *= word_at(values, c->terms[t].at[f]);
    n += product;
  }
  if (r->is_outer) n = l->hi - l->lo;
  return n <= 0 ? ROW_SLACK : (((size_t)n * (size_t)r->bytes + 63) & ~(size_t)63) + ROW_SLACK;
}

static size_t place_rows(const struct code *c, const struct launch *l, uint8_t *frame, bool set) {
  size_t at = (size_t)c->frame_bytes;
  for (int i = 0; i < c->n_rows; i++) {
    if (set) set_word(frame, c->rows[i].pointer, (int64_t)(intptr_t)(frame + at));
    at += row_bytes(c, &c->rows[i], l, frame);
  }
  return at;
}

#if defined __x86_64__
/* A host may run with flush-to-zero or another rounding; kernels never do. */
static void call(const struct code *c, uint8_t *frame) {
  unsigned host = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x1F80);
  void (*run)(uint8_t *);
  memcpy(&run, &c->pages, sizeof run);
  run(frame);
  __builtin_ia32_ldmxcsr(host);
}
#else
static void call(const struct code *c, uint8_t *frame) { (void)c, (void)frame; }
#endif

static int run_on_heap(const struct code *c, const struct launch *l, size_t bytes) {
  uint8_t *frame = memory_take(bytes); /* 64-byte aligned */
  if (!frame) return 1;
  fill_frame(c, l, frame);
  place_rows(c, l, frame, true);
  call(c, frame);
  memory_give(frame, bytes);
  return 0;
}

static int x86_run(const struct code *c, const struct launch *l) {
  _Alignas(64) uint8_t frame[STACK_FRAME];
  fill_frame(c, l, frame);
  size_t bytes = place_rows(c, l, frame, false);
  if (bytes > sizeof frame) return run_on_heap(c, l, bytes);
  place_rows(c, l, frame, true);
  call(c, frame);
  return 0;
}

const struct backend backend_x86 = {
  .name = "x86", .available = cpu_has_avx2, .compile = x86_compile, .run = x86_run, .free = x86_free, .show = code_list
};
