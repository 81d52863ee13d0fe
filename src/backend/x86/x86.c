/* x86.c -- the back end: compiles a kernel to pages of machine code and runs it on a frame. */
#include <string.h>
#include "backend/x86/code.h"
#include "backend/x86/cpu.h"
#include "backend/x86/debug.h"
#include "backend/x86/pages.h"
#include "base/mem.h"
#include "run/memory.h"

/* ---- Compiling ---- */

static void *filled(struct arena *a, size_t n, int byte) {
  void *p = arena_take(a, n ? n : 1);
  return p ? memset(p, byte, n) : NULL;
}

static const struct shape_class any_shape = { .stride = { [0 ... 31] = { [0 ... BACKEND_RANK - 1] = STRIDE_ANY } } };

/* Without lanes one number waits for the other: masks in vector registers are there sooner than those in registers of
 * their own, and short vectors than long ones. Of many numbers more are in registers if there are 32. */
enum { FEW_NUMBERS = 160 };

static bool open_gen(struct gen *g, const struct kir_kernel *k, const struct shape_class *shape) {
  g->k = k;
  g->shape = shape ? shape : &any_shape;
  struct kir_facts facts = kir_facts(k);
  g->outer = facts.outer;
  g->has_range = cpu_has_avx512() && g->shape->set != SET_AVX2;
  g->e.evex = g->has_range && (facts.n_lanes || k->n_vals > FEW_NUMBERS);
  g->is_latent = !g->e.evex && !facts.n_lanes;
  g->reads_args = g->e.evex;
  g->vector_bytes = g->e.evex && facts.n_lanes && !(g->shape->row == 8 && !g->is_whole) ? 64 : 32;
  if (!(g->arena = arena_new())) return false;
  g->fn_memory = filled(g->arena, (size_t)k->n_fns * sizeof *g->fn_memory, 0xFF);
  g->data_at = arena_take(g->arena, (size_t)(k->n_bufs + 1) * sizeof *g->data_at);
  return g->data_at && g->fn_memory && emission_open(emission_of(g));
}

static bool place_folds(struct gen *g) {
  for (int i = 0; i < g->n_loops; i++) {
    folds_place(g, &g->loops[i]);
    prefixes_place(g, &g->loops[i]);
    across_place(g, &g->loops[i]);
  }
  return (g->row_reg = filled(g->arena, (size_t)g->n_rows, 0xFF)) != NULL;
}

static int factor_slot(struct gen *g, int val) {
  const struct kir_val *v = &g->k->vals[val];
  if (v->kind != KIR_SIZE && v->kind != KIR_ARG)
    gen_cannot(g, "a row or local array whose length is not known at the launch");
  return FRAME_VALUES + 8 * (v->index + (v->kind == KIR_ARG ? g->k->n_sizes : 0));
}

/* The length of a row is that of its lane loop: n, or b for a block. */
static const struct kir_lin *row_length(const struct gen *g, const struct kept_row *r) {
  const struct kir_stmt *s = g->loops[r->loop].stmt;
  return s->extent == KIR_BLOCK ? &g->loops[g->vals[s->block_of].loop].stmt->at[1] : &s->at[0];
}

/* Copies a length that the launch will evaluate; returns where its terms begin. */
static int note_length(struct gen *g, struct code *c, const struct kir_lin *l) {
  int first = c->n_terms;
  for (int t = 0; t < l->n; t++) {
    struct code_term *to = &c->terms[c->n_terms++];
    *to = (struct code_term){ .coef = l->term[t].coef, .n = l->term[t].n };
    for (int f = 0; f < l->term[t].n; f++) to->at[f] = factor_slot(g, l->term[t].val[f]);
  }
  return first;
}

static int count_terms(const struct gen *g, int *n_locals) {
  int n = 0;
  for (int i = 0; i < g->n_rows; i++)
    if (!g->rows[i].in_place) n += row_length(g, &g->rows[i])->n;
  for (int b = 0; b < g->k->n_bufs; b++) {
    if (g->k->bufs[b].kind != KIR_LOCAL) continue;
    ++*n_locals;
    for (int d = 0; d < g->k->bufs[b].rank; d++) n += g->k->bufs[b].dims[d].n;
  }
  for (int b = 0; g->has_streams && b < g->k->n_bufs; b++)
    for (int d = 0; g->k->bufs[b].kind == KIR_OUT && d < g->k->bufs[b].rank; d++) n += g->k->bufs[b].dims[d].n;
  return n;
}

static struct code_shape note_shape(struct gen *g, struct code *c, const struct kir_buf *b) {
  struct code_shape s = { .bytes = dtype_bytes(b->dtype), .rank = b->rank };
  for (int d = 0; d < b->rank; d++) {
    s.first[d] = note_length(g, c, &b->dims[d]);
    s.n[d] = b->dims[d].n;
  }
  return s;
}

static void note_local(struct gen *g, struct code *c, int buf) {
  c->locals[c->n_locals++] = (struct code_local){ g->data_at[buf], note_shape(g, c, &g->k->bufs[buf]) };
}

/* What a launch takes scratch memory for: kept rows and local arrays. */
static bool note_scratch(struct gen *g, struct code *c) {
  int n_locals = 0, n_terms = count_terms(g, &n_locals);
  c->rows = arena_take(c->arena, (size_t)(g->n_rows + 1) * sizeof *c->rows);
  c->locals = arena_take(c->arena, (size_t)(n_locals + 1) * sizeof *c->locals);
  c->terms = arena_take(c->arena, (size_t)(n_terms + 1) * sizeof *c->terms);
  c->outs = arena_take(c->arena, (size_t)(g->k->n_bufs + 1) * sizeof *c->outs);
  if (!c->rows || !c->locals || !c->terms || !c->outs) return false;
  for (int i = 0; i < g->n_rows; i++) {
    const struct kept_row *r = &g->rows[i];
    const struct kir_lin *l = row_length(g, r);
    if (r->in_place) continue;
    c->rows[c->n_rows++] =
        (struct code_row){ r->pointer, r->bytes, note_length(g, c, l), l->n, g->loops[r->loop].is_outer };
  }
  for (int b = 0; b < g->k->n_bufs; b++)
    if (g->k->bufs[b].kind == KIR_LOCAL) note_local(g, c, b);
    else if (g->has_streams && g->k->bufs[b].kind == KIR_OUT) c->outs[c->n_outs++] = note_shape(g, c, &g->k->bufs[b]);
  return true;
}

static bool note_buffers(struct gen *g, struct code *c) {
  const struct kir_kernel *k = g->k;
  c->bufs = arena_take(c->arena, (size_t)(k->n_bufs + 1) * sizeof *c->bufs);
  if (!c->bufs) return false;
  for (int b = 0; b < k->n_bufs; b++) {
    int dtype = g->is_private[b] ? (int)kir_register_of(k->bufs[b].dtype) : k->bufs[b].dtype;
    bool is_bound = k->bufs[b].kind != KIR_LOCAL && k->bufs[b].kind != KIR_TABLE;
    c->bufs[c->n_bufs++] = (struct code_buffer){ g->data_at[b], k->bufs[b].rank, dtype_bytes(dtype), is_bound };
  }
  return true;
}

static void x86_free(struct code *c) {
  if (!c) return;
  debug_free(c->debug);
  pages_free(c->pages, c->total);
  arena_free(c->arena);
  mem_free(c);
}

static bool fill_code(struct gen *g, struct code *c) {
  if (!(c->arena = arena_new()) || !note_buffers(g, c) || !note_scratch(g, c) || g->why) return false;
  c->n_sizes = g->k->n_sizes;
  c->n_values = g->k->n_sizes + g->k->n_args;
  c->frame_bytes = (g->frame + 63) & ~63;
  c->is_avx512 = g->e.evex;
  c->lanes = g->lanes;
  c->n_code = g->e.n;
  c->pool_at = encoder_pool_at(&g->e);
  c->total = c->pool_at + g->e.n_pool;
  code_note_marks(c, g);
  bool is_forbidden;
  c->pages = pages_new(g->e.code, g->e.n, g->e.pool, c->pool_at, g->e.n_pool, &is_forbidden);
  if (is_forbidden) gen_cannot(g, "executable memory on this system");
  if (c->pages) c->debug = debug_new(c->name, (struct debug_code){ c->pages, c->n_code, g->called, g->called_end });
  return c->pages != NULL;
}

static struct code *finish(struct gen *g) {
  if (g->why || g->no_memory || !encoder_finish(&g->e)) return NULL;
  struct code *c = mem_alloc(sizeof *c);
  if (!c || fill_code(g, c)) return c;
  x86_free(c);
  return NULL;
}

static struct code *attempt(struct gen *g, const struct kir_kernel *k, const struct shape_class *shape) {
  if (!open_gen(g, k, shape)) return NULL;
  analyse(g);
  if (g->why || g->no_memory || !place_folds(g)) return NULL;
  if (g->wide && g->e.evex && g->vector_bytes == 32 && g->shape->row) return g->wants_whole = true, NULL;
  emit_kernel(g);
  return finish(g);
}

static void close_gen(struct gen *g) {
  encoder_free(&g->e);
  arena_free(g->arena);
}

static struct code *x86_compile(const struct kir_kernel *k, const struct shape_class *shape, const char **why) {
  struct gen g = { 0 };
  struct code *c = attempt(&g, k, shape);
  if (!c && g.wants_whole) {
    close_gen(&g);
    g = (struct gen){ .is_whole = true };
    c = attempt(&g, k, shape);
  }
  if (!c && g.is_crowded) {
    close_gen(&g);
    g = (struct gen){ .no_pins = true, .is_whole = g.is_whole };
    c = attempt(&g, k, shape);
  }
  *why = c ? NULL : g.why ? g.why : "";
  close_gen(&g);
  return c;
}

/* ---- Running ---- */

static int64_t word_at(const uint8_t *frame, int at) {
  int64_t v;
  memcpy(&v, frame + at, 8);
  return v;
}
static void set_word(uint8_t *frame, int at, int64_t v) { memcpy(frame + at, &v, 8); }

static void fill_frame(const struct code *c, const struct launch *l, uint8_t *frame) {
  set_word(frame, FRAME_LO, l->lo);
  set_word(frame, FRAME_HI, l->hi);
  set_word(frame, FRAME_CHECKS, (int64_t)(intptr_t)l->checks);
  set_word(frame, FRAME_CANCEL, (int64_t)(intptr_t)l->cancel);
  for (int i = 0; i < c->n_values; i++)
    set_word(frame, FRAME_VALUES + 8 * i, i < c->n_sizes ? l->sizes[i] : (int64_t)l->args[i - c->n_sizes]);
  for (int b = 0; b < c->n_bufs; b++) {
    const struct code_buffer *s = &c->bufs[b];
    if (!s->is_bound) continue;
    set_word(frame, s->at, (int64_t)(intptr_t)l->bufs[b].data);
    for (int d = 0; d < s->rank; d++) set_word(frame, s->at + 8 + 8 * d, l->bufs[b].stride[d] * s->bytes);
  }
}

/* The last vector of a row is written whole. */
enum { STREAM_BYTES = 16 << 20 };
enum { ROW_SLACK = 64, STACK_FRAME = 24 << 10 };

static int64_t length(const struct code *c, int first, int n, const uint8_t *values) {
  int64_t sum = 0;
  for (int t = first; t < first + n; t++) {
    int64_t product = c->terms[t].coef;
    for (int f = 0; f < c->terms[t].n; f++) product *= word_at(values, c->terms[t].at[f]);
    sum += product;
  }
  return sum < 0 ? 0 : sum;
}

static size_t scratch_bytes(int64_t n, int element) {
  return (((size_t)n * (size_t)element + 63) & ~(size_t)63) + ROW_SLACK;
}

/* Would an output fill half of a usual last cache? What a system says of its caches is not to be relied on: virtual ones
 * tell of ten times what there is. */
static bool exceeds_cache(const struct code *c, const struct launch *l, const uint8_t *frame) {
  for (int i = 0; i < c->n_outs; i++) {
    double bytes = (double)c->outs[i].bytes * (double)(l->parts ? l->parts : 1);
    for (int d = 0; d < c->outs[i].rank; d++) bytes *= (double)length(c, c->outs[i].first[d], c->outs[i].n[d], frame);
    if (bytes > STREAM_BYTES) return true;
  }
  return false;
}

/* Row-major strides of a local array; its bytes. */
static size_t shape_local(const struct code *c, const struct code_local *l, uint8_t *frame, bool set) {
  const struct code_shape *s = &l->shape;
  int64_t n = 1;
  for (int d = s->rank - 1; d >= 0; d--) {
    if (set) set_word(frame, l->at + 8 + 8 * d, n * s->bytes);
    n *= length(c, s->first[d], s->n[d], frame);
  }
  return scratch_bytes(n, s->bytes);
}

/* Puts rows and local arrays behind the frame; the bytes of all. */
static size_t place_scratch(const struct code *c, const struct launch *l, uint8_t *frame, bool set) {
  size_t at = (size_t)c->frame_bytes;
  for (int i = 0; i < c->n_rows; i++) {
    const struct code_row *r = &c->rows[i];
    if (set) set_word(frame, r->pointer, (int64_t)(intptr_t)(frame + at));
    at += scratch_bytes(r->is_outer ? l->hi - l->lo : length(c, r->first, r->n, frame), r->bytes);
  }
  for (int i = 0; i < c->n_locals; i++) {
    if (set) set_word(frame, c->locals[i].at, (int64_t)(intptr_t)(frame + at));
    at += shape_local(c, &c->locals[i], frame, set);
  }
  return at;
}

/* A host may run with flush-to-zero or another rounding; kernels never do. */
static void call(const struct code *c, uint8_t *frame) {
  unsigned host = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x1F80);
  void (*run)(uint8_t *);
  memcpy(&run, &c->pages, sizeof run);
  run(frame);
  __builtin_ia32_ldmxcsr(host);
}

static int run_on_heap(const struct code *c, const struct launch *l, size_t bytes) {
  uint8_t *frame = memory_borrow(bytes); /* 64-byte aligned */
  if (!frame) return 1;
  fill_frame(c, l, frame);
  place_scratch(c, l, frame, true);
  set_word(frame, FRAME_STREAMS, exceeds_cache(c, l, frame));
  call(c, frame);
  memory_return(frame, bytes);
  return 0;
}

static int x86_run(const struct code *c, const struct launch *l) {
  _Alignas(64) uint8_t frame[STACK_FRAME];
  fill_frame(c, l, frame);
  bool has_scratch = c->n_rows || c->n_locals;
  size_t bytes = has_scratch ? place_scratch(c, l, frame, false) : (size_t)c->frame_bytes;
  if (bytes > sizeof frame) return run_on_heap(c, l, bytes);
  if (has_scratch) place_scratch(c, l, frame, true);
  set_word(frame, FRAME_STREAMS, exceeds_cache(c, l, frame));
  call(c, frame);
  return 0;
}

static bool x86_borrows(const struct code *c, const struct launch *l) {
  _Alignas(64) uint8_t frame[STACK_FRAME];
  fill_frame(c, l, frame);
  return place_scratch(c, l, frame, false) > sizeof frame;
}

const struct backend backend_x86 = {
  .name = "x86", .available = cpu_has_avx2, .compile = x86_compile, .run = x86_run,
  .borrows = x86_borrows, .free = x86_free, .show = code_list, .watch_forks = debug_watch_forks
};
