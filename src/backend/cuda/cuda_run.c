/* cuda_run.c -- kernels on the GPU: on memory of the device, and seen as a back end whose memory is the host's.
 *
 * A launch on host memory uploads the bytes that its buffers span, runs, and downloads the pieces that were stored into.
 * Buffers whose spans overlap share one piece of device memory, so aliasing means the same as on the host. */
#include "backend/cuda/driver.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "backend/cuda/cublas_lt.h"
#include "backend/cuda/routine.h"
#include "base/mem.h"

struct code {
  struct gpu *gpu;
  struct ptx_plan plan;
  struct text ptx;
  struct code_part {                 /* a module; compiled when a launch is announced, or first needs it */
    pthread_mutex_t lock;
    atomic_bool is_there;
    struct cuda_module *module;
    struct cuda_entry *entry, *init; /* init: of the main part */
    _Atomic(struct remembered *) first; /* of the main part: NULL, or how the first launch was shaped */
  } *part;                           /* by enum ptx_part */
};

/* Small kernels are launched again and again with the same sizes, and to find out how takes as long as all else here. */
enum { REMEMBERED = 32 };
struct remembered { struct ptx_shape shape; int n; int64_t key[REMEMBERED]; };

/* ---- Compiling ---------------------------------------------------------------------------------------------------------- */

static void code_free(struct code *c) {
  if (!c) return;
  for (int i = 0; c->part && i < PTX_PARTS; i++) {
    if (c->part[i].module) cuda_unload(c->gpu, c->part[i].module);
    mem_free(atomic_load(&c->part[i].first));
    pthread_mutex_destroy(&c->part[i].lock);
  }
  mem_free(c->part);
  ptx_plan_free(&c->plan);
  text_free(&c->ptx);
  mem_free(c);
  cuda_leave();
}

/* NULL: there is no such part. */
static const char *entry_of(const struct ptx_plan *p, enum ptx_part part) {
  const char *const name[PTX_PARTS] = { p->entry, p->merge, p->product, p->halves[0], p->halves[1], p->floats[0], p->floats[1],
                                        p->floats[2], p->thin[0], p->thin[1], p->thin[2],
                                        p->wide_entry, p->shifted_spread_entry,
                                        p->long_entry, p->shifted_entry, p->loose_entry, p->streamed_entry,
                                        p->turned_entry, p->running_entry, p->pairs_entry, p->flat_entry,
                                        p->short_entry[0], p->short_entry[1],
                                        p->warp_rows_entry, p->relay_entry, p->aligned_entry };
  return name[part];
}

/* The heading, and what stands in the part. */
static int load_module(const struct code *c, enum ptx_part part, struct cuda_module **out) {
  struct text t = { 0 };
  size_t from = part ? c->plan.end[part - 1] : c->plan.heading_bytes;
  text_bytes(&t, text_of(&c->ptx), c->plan.heading_bytes);
  text_bytes(&t, text_of(&c->ptx) + from, c->plan.end[part] - from);
  int s = t.failed ? CUDA_NO_MEMORY : cuda_load(c->gpu, text_of(&t), out);
  text_free(&t);
  return s;
}

/* Lock held. */
static int find_part(const struct code *c, enum ptx_part part, struct code_part *m) {
  int s = m->module ? CUDA_OK : load_module(c, part, &m->module);
  if (!s) s = cuda_find(c->gpu, m->module, entry_of(&c->plan, part), &m->entry);
  if (!s && part == PTX_MAIN && c->plan.init) s = cuda_find(c->gpu, m->module, c->plan.init, &m->init);
  return s;
}

static int load_part(const struct code *c, enum ptx_part part) {
  struct code_part *m = &c->part[part];
  int s = CUDA_OK;
  if (atomic_load_explicit(&m->is_there, memory_order_acquire)) return CUDA_OK;
  pthread_mutex_lock(&m->lock);
  if (!atomic_load(&m->is_there)) s = find_part(c, part, m); /* else another thread has, meanwhile */
  if (!s) atomic_store_explicit(&m->is_there, true, memory_order_release);
  pthread_mutex_unlock(&m->lock);
  return s;
}

/* .. and what is launched behind it. */
static int load_parts(const struct code *c, enum ptx_part part) {
  int s = load_part(c, part);
  return s || !c->plan.merge ? s : load_part(c, PTX_MERGE);
}

static int make(struct gpu *g, const struct kir_kernel *k, const struct shape_class *shape, struct code **out, const char **why) {
  struct code *c = mem_alloc(sizeof *c);
  if (!c) return CUDA_NO_MEMORY;
  c->gpu = g;
  if (!ptx_print(k, shape, g->capability, &c->ptx, &c->plan, why)) return code_free(c), **why ? DEVICE_CANNOT : CUDA_NO_MEMORY;
  c->part = mem_alloc(PTX_PARTS * sizeof *c->part);
  if (!c->part) return code_free(c), CUDA_NO_MEMORY;
  for (int i = 0; i < PTX_PARTS; i++) pthread_mutex_init(&c->part[i].lock, NULL);
  *out = c;
  return CUDA_OK;
}

static struct code *compile(const struct kir_kernel *k, const struct shape_class *shape, const char **why) {
  struct code *c = NULL;
  int s = make(cuda_gpu(0), k, shape, &c, why);
  if (s == CUDA_NO_MEMORY) *why = "";
  if (s == CUDA_FAILED) *why = cuda_message();
  return c;
}

bool cuda_print(const struct kir_kernel *k, const struct shape_class *shape, struct text *out, const char **why) {
  struct ptx_plan plan = { 0 };
  const struct gpu *g = cuda_available() ? cuda_gpu(0) : NULL;
  bool ok = ptx_print(k, shape, g ? g->capability : 80, out, &plan, why);
  if (ok) ptx_plan_free(&plan);
  return ok;
}

static void show(const struct code *c, struct text *out) { text_add(out, text_of(&c->ptx)); }

struct showing { struct gpu *gpu; bool is_machine_code; struct text *out; };

static void show_module(void *of, const char *ptx) {
  struct showing *x = of;
  void *code = NULL;
  size_t bytes = 0;
  if (!x->is_machine_code) text_add(x->out, ptx);
  else if (cuda_machine_code(x->gpu, ptx, &code, &bytes)) text_addf(x->out, "// no machine code shown: %s\n", cuda_message());
  else cuda_show_sass(code, bytes, x->out);
  mem_free(code);
}

static void show_machine_code(const struct code *c, struct text *out) {
  struct showing x = { c->gpu, true, out };
  show_module(&x, text_of(&c->ptx));
  cuda_leave();
}

/* ---- Memory of a launch ------------------------------------------------------------------------------------------------- */

enum { ALIGN = 16 }; /* addresses on the device are those on the host, modulo this */

struct host_piece { uintptr_t lo, hi; uint64_t at; bool is_stored; }; /* host bytes [lo, hi), and where lo is on the device */

struct session {
  const struct code *c;
  const struct launch *l;
  bool is_there;             /* the addresses of the launch are those of the device */
  struct arena *arena;
  struct host_piece *pieces;
  int n_pieces;
  struct ptx_shape shape;
  uint64_t checks, scratch, copies;
  uint64_t *params;
  int n_params;
};

static bool is_bound(const struct ptx_buf *b) { return b->kind != KIR_TABLE && b->kind != KIR_LOCAL; }

/* The host bytes that a buffer spans; false: none. */
static bool span(const struct session *s, int i, struct host_piece *out) {
  const struct ptx_buf *b = &s->c->plan.bufs[i];
  const struct bound *x = &s->l->bufs[i];
  int64_t low = 0, high = 0, width = kir_width((weft_dtype)b->dtype);
  for (int d = 0; d < b->rank; d++) {
    int64_t n = ptx_size(&b->dims[d], s->l->sizes, s->l->args);
    if (n <= 0) return false;
    *(x->stride[d] < 0 ? &low : &high) += (n - 1) * x->stride[d];
  }
  uintptr_t base = (uintptr_t)x->data;
  *out = (struct host_piece){ base + (uintptr_t)(low * width), base + (uintptr_t)((high + 1) * width), 0, b->kind != KIR_IN };
  return true;
}

/* Adds bytes, melting them with every piece they overlap. */
static void add_piece(struct session *s, struct host_piece p) {
  for (int i = 0; i < s->n_pieces;) {
    struct host_piece *q = &s->pieces[i];
    if (q->hi <= p.lo || p.hi <= q->lo) { i++; continue; }
    if (q->lo < p.lo) p.lo = q->lo;
    if (q->hi > p.hi) p.hi = q->hi;
    p.is_stored |= q->is_stored;
    *q = s->pieces[--s->n_pieces];
    i = 0;
  }
  s->pieces[s->n_pieces++] = p;
}

static size_t bytes_of(const struct host_piece *p) { return (size_t)(p->hi - p->lo); }

static int upload(struct session *s) {
  for (int i = 0; i < s->n_pieces; i++) {
    struct host_piece *p = &s->pieces[i];
    int r = cuda_take(s->c->gpu, bytes_of(p) + ALIGN, &p->at, &(uint64_t){ 0 });
    if (r) return r;
    p->at += p->lo % ALIGN;
    if ((r = cuda_upload(s->c->gpu, QUEUE_COMPUTE, p->at, (const void *)p->lo, bytes_of(p)))) return r;
  }
  return CUDA_OK;
}

static int download(const struct session *s) {
  int r = CUDA_OK;
  for (int i = 0; i < s->n_pieces && !r; i++)
    if (s->pieces[i].is_stored)
      r = cuda_download(s->c->gpu, QUEUE_COMPUTE, (void *)s->pieces[i].lo, s->pieces[i].at, bytes_of(&s->pieces[i]));
  return r;
}

static void give_pieces(struct session *s) {
  for (int i = 0; i < s->n_pieces; i++)
    if (s->pieces[i].at) cuda_give(s->c->gpu, s->pieces[i].at - s->pieces[i].lo % ALIGN, bytes_of(&s->pieces[i]) + ALIGN);
}

/* ---- Checks, parameters --------------------------------------------------------------------------------------------------- */

static int start_checks(struct session *s) {
  int n = s->c->plan.n_checks;
  struct finding_words *none = arena_take(s->arena, (size_t)(n + 1) * sizeof *none);
  if (!n) return CUDA_OK;
  if (!none) return CUDA_NO_MEMORY;
  words_clear(none, n);
  int r = cuda_take(s->c->gpu, (size_t)n * sizeof *none, &s->checks, &(uint64_t){ 0 });
  return r ? r : cuda_upload(s->c->gpu, QUEUE_COMPUTE, s->checks, none, (size_t)n * sizeof *none);
}

static int end_checks(struct session *s) {
  int n = s->c->plan.n_checks;
  struct finding_words *found = arena_take(s->arena, (size_t)(n + 1) * sizeof *found);
  if (!n) return CUDA_OK;
  if (!found) return CUDA_NO_MEMORY;
  int r = cuda_download(s->c->gpu, QUEUE_COMPUTE, found, s->checks, (size_t)n * sizeof *found);
  for (int i = 0; i < n && !r; i++) if (found[i].place < s->l->checks[i].place) found_there(&found[i], &s->l->checks[i]);
  return r;
}

static void param(struct session *s, uint64_t x) { s->params[s->n_params++] = x; }

static uint64_t address(const struct session *s, int i) {
  uintptr_t data = (uintptr_t)s->l->bufs[i].data;
  struct host_piece own;
  if (s->is_there || !span(s, i, &own)) return data;
  for (int k = 0; k < s->n_pieces; k++)
    if (s->pieces[k].lo <= own.lo && own.hi <= s->pieces[k].hi) return s->pieces[k].at - s->pieces[k].lo + data;
  return 0;
}

static void buffer_params(struct session *s, int i) {
  const struct ptx_buf *b = &s->c->plan.bufs[i];
  param(s, address(s, i));
  for (int d = 0; d < b->rank; d++) param(s, (uint64_t)s->l->bufs[i].stride[d] * (uint64_t)kir_width((weft_dtype)b->dtype));
}

/* In the order that ptx.h states. */
static void fill_params(struct session *s) {
  const struct ptx_plan *p = &s->c->plan;
  for (int b = 0; b < p->n_bufs; b++)
    if (is_bound(&p->bufs[b])) buffer_params(s, b);
  for (int i = 0; i < p->n_sizes; i++) param(s, (uint64_t)s->l->sizes[i]);
  for (int i = 0; i < p->n_args; i++) param(s, s->l->args[i]);
  if (p->n_checks) param(s, s->checks);
  if (p->has_stop) param(s, s->l->stop.at), param(s, s->l->stop.number);
  if (p->n_rows) param(s, s->scratch), param(s, s->shape.row_bytes);
  for (int r = 0; r < p->n_rows; r++) param(s, (uint64_t)s->shape.row_at[r]);
  if (p->has_sets) param(s, s->shape.sets);
  if (p->has_block) param(s, (uint64_t)s->shape.block_length);
  if (p->streamed.n_loads || p->relay.each) param(s, (uint64_t)s->shape.streams);
  if (p->in_order || p->leaves) param(s, s->copies), param(s, s->shape.copy_bytes);
  if (p->leaves) param(s, s->shape.copy_bytes ? s->shape.copies_bytes / s->shape.copy_bytes : 0);
}

/* ---- Running ------------------------------------------------------------------------------------------------------------ */

/* All that a shape depends on: sizes, arguments, strides, how far addresses are from whole 16 bytes, and whether buffers have rows
 * in common. 0: too much, or there are rows, which have places in an arena. */
static int key_of(const struct session *s, int64_t key[REMEMBERED]) {
  const struct ptx_plan *p = &s->c->plan;
  int n = 0;
  if (p->n_rows || p->n_sizes + p->n_args > REMEMBERED / 2) return 0;
  if (p->tall.n) key[n++] = ptx_rows_meet(p, s->l->sizes, s->l->args, s->l->bufs);
  for (int i = 0; i < p->n_sizes; i++) key[n++] = s->l->sizes[i];
  for (int i = 0; i < p->n_args; i++) key[n++] = (int64_t)s->l->args[i];
  for (int b = 0; b < p->n_bufs; b++) {
    if (!is_bound(&p->bufs[b])) continue;
    if (n + 1 + p->bufs[b].rank > REMEMBERED) return 0;
    key[n++] = (int64_t)((uintptr_t)s->l->bufs[b].data % 16);
    for (int d = 0; d < p->bufs[b].rank; d++) key[n++] = s->l->bufs[b].stride[d];
  }
  return n;
}

static void remember(struct session *s, int n, const int64_t key[]) {
  struct remembered *r = mem_alloc(sizeof *r), *none = NULL;
  if (!r) return;
  r->shape = s->shape, r->shape.row_at = NULL, r->n = n;
  memcpy(r->key, key, (size_t)n * sizeof *key);
  if (!atomic_compare_exchange_strong(&s->c->part[PTX_MAIN].first, &none, r)) mem_free(r);
}

static int compute_shape(struct session *s);

static int find_shape(struct session *s) {
  const struct remembered *first = atomic_load_explicit(&s->c->part[PTX_MAIN].first, memory_order_acquire);
  int64_t key[REMEMBERED];
  int n = key_of(s, key);
  if (!(s->params = arena_take(s->arena, (size_t)(s->c->plan.n_params + 1) * sizeof *s->params))) return CUDA_NO_MEMORY;
  if (n && first && n == first->n && !memcmp(key, first->key, (size_t)n * sizeof *key)) return s->shape = first->shape, CUDA_OK;
  int r = compute_shape(s);
  if (!r && n && !first) remember(s, n, key);
  return r;
}

static int compute_shape(struct session *s) {
  const struct ptx_plan *p = &s->c->plan;
  struct ptx_machine m = cuda_machine(s->c->gpu);
  if (!ptx_shape(p, &m, s->l->sizes, s->l->args, s->arena, &s->shape)) return CUDA_NO_MEMORY;
  if (p->locals_are_shared && s->shape.row_bytes)
    return cuda_say("launching", "a kernel was compiled for shorter local arrays than it is given"), CUDA_FAILED;
  ptx_tall_shape(p, &m, s->l->sizes, s->l->args, s->l->bufs, &s->shape);
  ptx_wide_shape(p, &m, s->l->sizes, s->l->args, s->l->bufs, &s->shape);
  ptx_warp_rows_shape(p, &m, s->l->sizes, s->l->args, &s->shape);
  ptx_relay_shape(p, &m, s->l->sizes, s->l->args, s->l->bufs, &s->shape);
  ptx_running_shape(p, s->l->sizes, s->l->args, s->l->bufs, &s->shape);
  ptx_turned_shape(p, s->l->sizes, s->l->args, &s->shape);
  ptx_pairs_shape(p, &m, s->l->sizes, s->l->args, &s->shape);
  ptx_flat_shape(p, &m, s->l->sizes, s->l->args, &s->shape);
  ptx_floats_shape(p, &m, s->l->sizes, s->l->args, &s->shape);
  ptx_halves_shape(p, &m, s->l->sizes, s->l->args, s->l->bufs, &s->shape);
  ptx_thin_shape(p, &m, s->l->sizes, s->l->args, &s->shape);
  ptx_attention_aligned_shape(p, s->l->bufs, &s->shape);
  return CUDA_OK;
}

static int take_scratch(struct session *s) {
  int r = s->shape.scratch_bytes ? cuda_take_room(s->c->gpu, s->shape.scratch_bytes, &s->scratch) : CUDA_OK;
  if (!r && s->shape.copies_bytes) r = cuda_take_room(s->c->gpu, s->shape.copies_bytes, &s->copies);
  return r;
}

/* ---- By a library --------------------------------------------------------------------------------------------------------- */

static int64_t size_in(const struct ptx_lin *l, const struct launch *x) { return ptx_size(l, x->sizes, x->args); }

static int64_t stride_in(const struct ptx_library *l, const struct launch *x, int i, int axis) {
  return axis < 0 ? 0 : x->bufs[l->buf[i]].stride[axis];
}

/* The axes of the batch as one, in all operands; false: they are none. */
static bool batch_of(const struct ptx_library *l, const struct launch *x, int64_t *n, int64_t step[3]) {
  *n = 1, step[0] = step[1] = step[2] = 0;
  for (int b = l->n_batch - 1; b >= 0; b--) {
    int64_t length = size_in(&l->batch[b], x);
    if (length == 1) continue;
    for (int i = 0; i < 3; i++) {
      int64_t s = stride_in(l, x, i, l->batch_axis[i][b]);
      if (*n == 1) step[i] = s;
      else if (s != *n * step[i]) return false;
    }
    *n *= length;
  }
  return *n > 0 && *n <= INT32_MAX;
}

/* Neighbours along an axis, and steps along the other that do not overlap. An axis of one element has any stride. */
static bool matrix_of(int64_t down, int64_t across, int64_t rows, int64_t columns, bool *is_turned, int64_t *step) {
  if (across == 1 || columns == 1) { *is_turned = false, *step = rows == 1 ? columns : down; if (*step >= columns) return true; }
  if (down == 1 || rows == 1) { *is_turned = true, *step = columns == 1 ? rows : across; if (*step >= rows) return true; }
  return false;
}

static bool library_product(const struct code *c, const struct launch *x, struct lt_product *p) {
  const struct ptx_plan *plan = &c->plan;
  const struct ptx_library *l = &plan->library;
  int64_t batch[3], down[3], across[3], last = plan->is_long ? size_in(&plan->steps[2], x) : 0;
  bool y_is_turned;
  if (!(plan->halves[0] || plan->is_librarys) || !l->is_there) return false;
  for (int i = 0; i < 3; i++) down[i] = stride_in(l, x, i, l->down[i]), across[i] = stride_in(l, x, i, l->across[i]);
  *p = (struct lt_product){ .dtype = (weft_dtype)plan->bufs[l->buf[0]].dtype, .y_dtype = (weft_dtype)plan->bufs[l->buf[2]].dtype,
                            .m = size_in(&plan->product_rows, x), .n = size_in(&plan->product_columns, x),
                            .k = size_in(&plan->steps[0], x), .by_tensor_cores = !plan->is_librarys };
  weft_dtype b = (weft_dtype)plan->bufs[l->buf[1]].dtype;
  bool is_full = p->dtype == WEFT_F32 || p->dtype == WEFT_F64;
  if (plan->is_librarys && (!is_full || b != p->dtype || p->y_dtype != p->dtype)) return false;
  if (plan->is_long) p->k = KIR_PRODUCT_BLOCK * (1 + size_in(&plan->steps[1], x)) + last;
  if (p->m < 1 || p->n < 1 || p->k < 1 || (p->y_dtype != p->dtype && p->y_dtype != WEFT_F32)) return false;
  if (!batch_of(l, x, &p->n_batch, batch)) return false;
  p->a_batch = batch[0], p->b_batch = batch[1], p->y_batch = batch[2];
  return matrix_of(down[0], across[0], p->m, p->k, &p->a_is_turned, &p->a_step) &&
         matrix_of(down[1], across[1], p->k, p->n, &p->b_is_turned, &p->b_step) &&
         matrix_of(down[2], across[2], p->m, p->n, &y_is_turned, &p->y_step) && !y_is_turned;
}

/* DEVICE_CANNOT: it is weft's own kernel that multiplies. */
static int run_by_library(const struct session *s) {
  const struct ptx_library *l = &s->c->plan.library;
  struct lt_product p;
  if (!library_product(s->c, s->l, &p)) return DEVICE_CANNOT;
  return lt_run(s->c->gpu, &p, address(s, l->buf[0]), address(s, l->buf[1]), address(s, l->buf[2]));
}

/* Which library runs the kernel, should addresses be aligned; NULL: none. */
static const char *library_of(const struct code *c, const struct launch *x) {
  struct lt_product p;
  return library_product(c, x, &p) && lt_can(c->gpu, &p, 16) ? lt_name() : NULL;
}

/* Rows and copies in order may stand in scratch, and a library works in some. */
static bool borrows(const struct code *c, const struct launch *x) {
  struct lt_product p;
  return c->plan.n_rows || c->plan.in_order || library_product(c, x, &p);
}

static enum ptx_part part_of(const struct ptx_shape *s) {
  if (s->is_halves) return (enum ptx_part)(PTX_FIRST_HALVES + s->halves_form);
  if (s->is_floats) return (enum ptx_part)(PTX_FIRST_FLOATS + s->floats_form);
  if (s->is_thin) return (enum ptx_part)(PTX_FIRST_THIN + s->thin_form);
  if (s->is_aligned) return PTX_ALIGNED;
  if (s->is_turned) return PTX_IN_TURN;
  if (s->is_running) return PTX_IN_ROWS;
  if (s->is_paired) return PTX_IN_PAIRS;
  if (s->is_flat) return PTX_AS_ONE_ROW;
  if (s->is_relayed) return PTX_RELAYED;
  if (s->is_short) return (enum ptx_part)(PTX_FIRST_SHORT + s->short_form);
  if (s->is_of_warps) return PTX_OF_WARPS;
  if (s->is_streamed) return PTX_STREAMED;
  if (s->is_long) return s->is_shifted ? PTX_SHIFTED : s->is_loose ? PTX_LOOSE : PTX_LONG;
  if (s->is_wide && s->is_shifted) return PTX_SHIFTED_SPREAD;
  return s->is_wide ? PTX_WIDELY : s->is_product ? PTX_TILES : PTX_MAIN;
}

static int launch(struct session *s, double *ms) {
  static const unsigned fill_grid[3] = { 256, 1, 1 }, fill_block[3] = { 256, 1, 1 };
  struct cuda_launch l[3];
  enum ptx_part part = part_of(&s->shape);
  const struct code_part *c = &s->c->part[part];
  int n = 0, r = load_parts(s->c, part);
  if (r) return r;
  if (c->init) l[n++] = (struct cuda_launch){ c->init, fill_grid, fill_block, 0 };
  l[n++] = (struct cuda_launch){ c->entry, s->shape.grid, s->shape.block, s->shape.shared_bytes };
  if (s->c->plan.merge && (s->c->plan.in_order || s->shape.copies_bytes))
    l[n++] = (struct cuda_launch){ s->c->part[PTX_MERGE].entry, s->shape.merge_grid, s->shape.merge_block, 0,
                                   .is_early = s->c->plan.merges_early };
  fill_params(s);
  return cuda_launch(s->c->gpu, n, l, s->n_params, s->params, ms);
}

/* All but moving the memory: enqueued, unless it is timed. */
static int run_there(struct session *s, double *ms) {
  int r = ms ? DEVICE_CANNOT : run_by_library(s);
  if (r != DEVICE_CANNOT) return r;
  r = find_shape(s);
  if (!r) r = take_scratch(s);
  if (!r) r = launch(s, ms);
  cuda_give_room(s->c->gpu, s->scratch, s->shape.scratch_bytes);
  cuda_give_room(s->c->gpu, s->copies, s->shape.copies_bytes);
  return r;
}

static int bring(struct session *s) {
  const struct ptx_plan *p = &s->c->plan;
  struct host_piece piece;
  s->pieces = arena_take(s->arena, (size_t)(p->n_bufs + 1) * sizeof *s->pieces);
  if (!s->pieces) return CUDA_NO_MEMORY;
  for (int b = 0; b < p->n_bufs; b++)
    if (is_bound(&p->bufs[b]) && span(s, b, &piece)) add_piece(s, piece);
  return upload(s);
}

int cuda_run(const struct code *c, const struct launch *l, double *ms) {
  struct session s = { .c = c, .l = l, .arena = arena_new() };
  if (!s.arena) return CUDA_NO_MEMORY;
  int r = bring(&s);
  if (!r) r = start_checks(&s);
  if (!r) r = run_there(&s, ms);
  if (!r) r = end_checks(&s);
  if (!r) r = download(&s);
  cuda_give(c->gpu, s.checks, (size_t)c->plan.n_checks * sizeof(struct finding_words));
  give_pieces(&s);
  arena_free(s.arena);
  cuda_leave();
  return r;
}

static int run(const struct code *c, const struct launch *l) { return cuda_run(c, l, NULL); }

const struct backend backend_cuda = {
  .name = "cuda", .available = cuda_available, .compile = compile, .run = run, .free = code_free, .show = show,
  .show_machine_code = show_machine_code, .by = library_of, .borrows = borrows
};

/* ---- As a device ---------------------------------------------------------------------------------------------------------- */

static struct gpu *gpu_of(const struct device *d) { return d->self; }

/* The end of what may have entered the context, and of what enqueues or waits: the kernels that have lost the device are named. */
static int left(int how) { return cuda_leave(), how; }
static int done(const struct device *d, int how) { return left(cuda_blame(gpu_of(d), how)); }

static bool is_there(const struct device *d) { return cuda_is_there(gpu_of(d)); }
static const char *text_of_device(const struct device *d) { return cuda_text(gpu_of(d)); }
static struct device_bytes bytes_there(const struct device *d) { return cuda_bytes(gpu_of(d)); }
static void set_peak(const struct device *d, int64_t bytes) { cuda_set_peak(gpu_of(d), bytes); }
static void set_limits(const struct device *d, int64_t limit, int64_t cache) {
  cuda_set_limits(gpu_of(d), limit, cache);
  cuda_leave();
}
static bool is_lost(const struct device *d) { return left(cuda_is_lost(gpu_of(d))); }
static void give(const struct device *d, uint64_t at, size_t bytes) { cuda_give(gpu_of(d), at, bytes), cuda_leave(); }
static int wait(const struct event *e) { return done(e->device, cuda_wait(gpu_of(e->device), e->queue, e->at)); }
static bool is_past(const struct event *e) { return left(cuda_is_past(gpu_of(e->device), e->queue, e->at)); }

static uint64_t record(const struct device *d, enum queue q) {
  uint64_t point = cuda_record(gpu_of(d), q);
  return cuda_leave(), point;
}

static int compile_there(const struct device *d, const struct kir_kernel *k, const struct shape_class *shape, struct code **out,
                         const char **why) {
  return make(gpu_of(d), k, shape, out, why);
}

static int take(const struct device *d, size_t bytes, uint64_t *at, struct event *since) {
  uint64_t point = 0;
  int how = left(cuda_take(gpu_of(d), bytes, at, &point));
  *since = point ? (struct event){ d, QUEUE_COMPUTE, point } : (struct event){ 0 };
  return how;
}

static int upload_there(const struct device *d, enum queue q, uint64_t to, const void *from, size_t bytes) {
  return done(d, cuda_upload(gpu_of(d), q, to, from, bytes));
}

static int download_from(const struct device *d, enum queue q, void *to, uint64_t from, size_t bytes) {
  return done(d, cuda_download(gpu_of(d), q, to, from, bytes));
}

static int copy_there(const struct device *d, uint64_t to, uint64_t from, size_t bytes) {
  return done(d, cuda_copy(gpu_of(d), to, from, bytes));
}

/* Events of another kind of device are waited for. */
static int follow(const struct device *d, enum queue q, const struct event *e) {
  if (e->device->wait != wait) return e->device->wait(e);
  return left(cuda_follow(gpu_of(d), q, gpu_of(e->device), e->queue, e->at));
}

static int launch_there(const struct device *d, const struct code *c, const struct launch *l) {
  struct arena_room room;
  struct session s = { .c = c, .l = l, .is_there = true, .checks = (uint64_t)(uintptr_t)l->words, .arena = arena_in(&room) };
  cuda_note_launch(c->gpu, c->plan.entry);
  int r = run_there(&s, NULL);
  arena_free(s.arena);
  return done(d, r);
}

/* Compiles what such a launch will run, should addresses be aligned. A library's product needs nothing. */
static int announce(const struct device *d, const struct code *c, const struct launch *l) {
  struct session s = { .c = c, .l = l, .is_there = true };
  struct lt_product p;
  (void)d;
  if (library_product(c, l, &p) && lt_can(c->gpu, &p, 16)) return left(CUDA_OK);
  if (!(s.arena = arena_new())) return left(CUDA_NO_MEMORY);
  int r = find_shape(&s);
  if (!r) r = load_parts(c, part_of(&s.shape));
  arena_free(s.arena);
  return left(r);
}

static int routine(const struct device *d, const struct routine_call *c, bool only_asks) {
  return done(d, cuda_routine(gpu_of(d), c, only_asks));
}

static int bundle_begin(const struct device *d) { return left(cuda_bundle_begin(gpu_of(d))); }
static int bundle_renew(const struct device *d, struct bundle *b) { return left(cuda_bundle_renew(gpu_of(d), b)); }
static int bundle_end(const struct device *d, bool is_wanted, struct bundle **out) {
  return done(d, cuda_bundle_end(gpu_of(d), is_wanted, out));
}
static int bundle_start(const struct device *d, struct bundle *b) { return done(d, cuda_bundle_start(gpu_of(d), b)); }
static void bundle_free(const struct device *d, struct bundle *b) { cuda_bundle_free(gpu_of(d), b), cuda_leave(); }

static bool looks(const struct code *c) { return c->plan.has_stop; }
static int stop_open(const struct device *d, struct stop *s) { return done(d, cuda_stop_open(gpu_of(d), s)); }
static int stop(const struct device *d, const struct stop *s) { return done(d, cuda_stop(gpu_of(d), s)); }

static int words_take(const struct device *d, int n, uint64_t *at) { return done(d, cuda_words_take(gpu_of(d), n, at)); }
static void words_give(const struct device *d, uint64_t at, int n, bool are_clean) { cuda_words_give(gpu_of(d), at, n, are_clean); }

static void show_routine(const struct device *d, const struct routine_call *c, bool is_machine_code, struct text *out) {
  struct showing x = { gpu_of(d), is_machine_code, out };
  text_addf(out, "// %s\n", c->name);
  routine_show(show_module, &x);
  (void)cuda_routine(x.gpu, c, true);
  routine_show(NULL, NULL);
  cuda_leave();
}

/* Sums may be added in any order, unless WEFT_EXACT is 1: then in that of the text. */
static bool may_reorder(void) {
  const char *exact = getenv("WEFT_EXACT");
  return !exact || strcmp(exact, "1");
}
static bool multiplies_halves(const struct device *d) { return (void)d, may_reorder() && lt_name(); }
static bool multiplies(const struct device *d) { return (void)d, lt_name() != NULL; }
static bool attends(const struct device *d, const struct kir_attention *a) {
  struct ptx_machine m = cuda_machine(gpu_of(d));
  return may_reorder() && ptx_attends(&m, gpu_of(d)->capability, a);
}
static bool relays(const struct device *d, const struct relayed *r) {
  struct ptx_machine m = cuda_machine(gpu_of(d));
  return gpu_of(d)->capability >= 90 && ptx_relays(&m, r);
}
static bool reorders(const struct device *d) { return (void)d, may_reorder(); }
static bool has(const struct device *d, uint64_t at, size_t bytes) { return left(cuda_has(gpu_of(d), at, bytes)); }
static int order(const struct device *d, uint64_t s, bool is_ours_first) { return left(cuda_order(gpu_of(d), s, is_ours_first)); }
static void *stream(const struct device *d) {
  void *s = cuda_stream(gpu_of(d));
  return cuda_leave(), s;
}

static const struct device as_device = {
  .backend = &backend_cuda, .available = is_there, .text = text_of_device, .message = cuda_message, .compile = compile_there,
  .take = take, .give = give, .bytes = bytes_there, .set_peak = set_peak, .set_limits = set_limits, .upload = upload_there,
  .download = download_from, .copy = copy_there, .announce = announce, .launch = launch_there, .routine = routine,
  .show_routine = show_routine,
  .record = record, .follow = follow, .wait = wait, .is_past = is_past, .looks = looks, .stop_open = stop_open, .stop = stop,
  .words_take = words_take, .words_give = words_give,
  .bundle_begin = bundle_begin, .bundle_renew = bundle_renew, .bundle_end = bundle_end, .bundle_start = bundle_start,
  .bundle_free = bundle_free,
  .is_lost = is_lost, .multiplies_halves = multiplies_halves, .multiplies = multiplies, .reorders = reorders, .attends = attends,
  .relays = relays, .has = has,
  .stream = stream, .order = order,
};

enum { BESIDE_ROWS = 20 << 10 }; /* bytes of shared memory: a block of 4096 values that are folded, and results of folds */

const struct device *cuda_device(int i) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  struct gpu *g = cuda_available() ? cuda_gpu(i) : NULL;
  if (!g) return NULL;
  pthread_mutex_lock(&lock);
  if (!g->device.self) {
    g->device = as_device;
    g->device.self = g;
    if (g->machine.shared_bytes > BESIDE_ROWS) g->device.row_bytes = g->machine.shared_bytes - BESIDE_ROWS;
  }
  pthread_mutex_unlock(&lock);
  return &g->device;
}
