/* ptx_plan.c -- the part of a printed kernel that the host needs: how large a grid, and how much memory a block of threads.
 *
 * The numbers here decide speed only: loops are strided by the grid, rows lie in shared memory or in a scratch buffer, and
 * copies of private outputs may be missing. */
#include "backend/cuda/ptx_plan.h"
#include "backend/cuda/gpu_wide.h"
#include <string.h>
#include "base/least.h"

enum { SPREAD_THREADS = PTX_ACROSS, ROW_THREADS = 512, LANES_A_THREAD = 4, GRID_Y = 65535, UNKNOWN = 1024 };
enum { BLOCKS_A_PROCESSOR = 4, BLOCKS_WITH_SETS = 2 };
enum { GRID_X = INT32_MAX, MOST_SETS = 32 };
/* Of kept rows: a warp adds while those of other blocks compute. Where few blocks have room on a processor they have more
 * threads. */
enum { DEALT_THREADS = 256, DEALT_LANES = 16, FEW_BLOCKS = 3 };
enum { PLACES_A_THREAD = 2, MOST_THREADS = 2048 }; /* that a processor has at a time */
enum { SPREAD_BLOCKS = 32 }; /* of threads a processor: from there on threads have several lanes, loaded together */

/* ---- Making ----------------------------------------------------------------------------------------------------------- */

struct ptx_planner {
  struct ptx_plan *plan;
  const struct kir_kernel *k;
  const struct survey *s;
  const struct kir_stmt **kept, **last; /* by row that is kept: its loop, and the last one that needs what is in its memory */
  const char *why;
};

static void *take(struct ptx_planner *m, size_t n, size_t bytes) {
  void *r = arena_take(m->plan->arena, (n + 1) * bytes);
  if (!r) m->why = "";
  return r;
}

static bool lin(struct ptx_planner *m, struct kir_lin l, struct ptx_lin *out) {
  *out = (struct ptx_lin){ l.n, take(m, (size_t)l.n, sizeof *out->term) };
  if (!out->term) return out->n = 0, false;
  for (int i = 0; i < l.n; i++) {
    out->term[i] = (struct ptx_term){ .coef = l.term[i].coef, .n = l.term[i].n };
    for (int j = 0; j < l.term[i].n; j++) {
      const struct kir_val *v = &m->k->vals[l.term[i].val[j]];
      if (v->kind != KIR_SIZE && v->kind != KIR_ARG) return out->n = 0, false;
      out->term[i].from[j] = v->kind == KIR_SIZE ? v->index : ~v->index;
    }
  }
  return true;
}

static struct ptx_lin *dims(struct ptx_planner *m, int rank, const struct kir_lin of[]) {
  struct ptx_lin *d = take(m, (size_t)rank, sizeof *d);
  for (int i = 0; d && i < rank; i++)
    if (!lin(m, of[i], &d[i]) && !m->why) m->why = "a length that is known only inside the kernel";
  return d;
}

static struct ptx_row *add_row(struct ptx_planner *m, enum ptx_row_kind kind, int of, int width) {
  struct ptx_plan *p = m->plan;
  struct ptx_row *r = &p->rows[p->n_rows++];
  *r = (struct ptx_row){ .kind = (uint8_t)kind, .width = (uint8_t)width, .of = of, .shares = -1 };
  return r;
}

static bool is_from(const struct kir_stmt *first, const struct kir_stmt *s) {
  while (first && first != s) first = first->next;
  return first != NULL;
}

static const struct kir_stmt *last_use(const struct kir_stmt *loop, int v) {
  const struct kir_stmt *last = loop;
  for (const struct kir_stmt *s = loop->next; s; s = s->next) if (survey_uses(&s->body, v)) last = s;
  return last;
}

/* A row of the same length that nobody needs behind this loop, which reads an element before it keeps its own; -1: none. */
static int row_to_share(const struct ptx_planner *m, const struct kir_stmt *loop, int width, struct kir_lin length) {
  for (int r = 0; r < m->plan->n_rows; r++) {
    const struct ptx_row *x = &m->plan->rows[r];
    if (x->kind != PTX_KEEP || x->shares >= 0 || x->width != width) continue;
    if (loop->extent != KIR_N || m->kept[r]->extent != KIR_N) continue;
    if (!kir_lin_equal(m->kept[r]->at[0], length) || m->kept[r] == loop || !is_from(m->kept[r], loop)) continue;
    if (is_from(m->last[r], loop)) return r;
  }
  return -1;
}

static void keep_rows(struct ptx_planner *m, const struct kir_stmt *s, const struct kir_stmt *loop) {
  struct kir_lin length = loop->extent == KIR_BLOCK ? survey_blocks_of(m->k, loop->block_of)->at[1] : loop->at[0];
  for (int i = 0; i < s->n_in && !m->why; i++) {
    int width = kir_width((weft_dtype)m->k->vals[s->in[i]].dtype), row = m->plan->n_rows;
    int old = row_to_share(m, loop, width, length);
    struct ptx_row *r = add_row(m, PTX_KEEP, s->in[i], width);
    r->n_dims = 1;
    r->dims = dims(m, 1, &length);
    r->shares = old;
    m->kept[row] = loop, m->last[old >= 0 ? old : row] = last_use(loop, s->in[i]);
  }
}

/* Rows for what the folds of a loop are given: all loops use the same. */
static void fold_rows(struct ptx_planner *m, const struct kir_stmt *loop) {
  int slot = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    for (int i = 0; s->kind == KIR_FOLD && i < s->n_out && !m->why; i++, slot++) {
      struct ptx_row *r = NULL;
      if (survey_keeps(loop, s->in[i])) continue;
      int width = kir_width((weft_dtype)m->k->vals[s->out[i]].dtype);
      for (int k = 0; k < m->plan->n_rows; k++)
        if (m->plan->rows[k].kind == PTX_FOLD && m->plan->rows[k].of == slot) r = &m->plan->rows[k];
      if (!r) r = add_row(m, PTX_FOLD, slot, width);
      if (r->width < width) r->width = (uint8_t)width;
    }
}

static void buffer_row(struct ptx_planner *m, enum ptx_row_kind kind, int b) {
  const struct kir_buf *buf = &m->k->bufs[b];
  struct ptx_row *r = add_row(m, kind, b, kir_width(kir_register_of((weft_dtype)buf->dtype)));
  r->n_dims = buf->rank;
  r->dims = dims(m, buf->rank, buf->dims);
}

static int count_kind(const struct kir_block *b, enum kir_kind kind) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    n += (s->kind == kind ? 1 + s->n_in : 0) + count_kind(&s->body, kind);
  return n;
}

static int count_loops(const struct kir_block *b) {
  return count_kind(b, KIR_PAR) + count_kind(b, KIR_LANE) + count_kind(b, KIR_SERIAL);
}

static void extent(struct ptx_planner *m, const struct kir_stmt *s, enum ptx_axis axis) {
  struct ptx_extent *e = &m->plan->extents[m->plan->n_extents++];
  *e = (struct ptx_extent){ .axis = (uint8_t)axis, .in_blocks = s->extent == KIR_BLOCKS };
  if (s->extent == KIR_BLOCK) e->is_known = lin(m, survey_blocks_of(m->k, s->block_of)->at[1], &e->n);
  else e->is_known = lin(m, s->at[0], &e->n) && (!e->in_blocks || lin(m, s->at[1], &e->b));
}

/* Loops that share an axis: of one that is not the first there, its trips are those of the one before it as well. */
static void extent_of_par(struct ptx_planner *m, const struct kir_stmt *s, int pars) {
  struct ptx_extent *e = &m->plan->extents[m->plan->n_extents];
  if (pars >= m->s->n_together && (m->s->n_together || pars >= m->s->grid_depth || pars >= 3)) return;
  extent(m, s, m->s->n_together ? PTX_ROWS : PTX_ROWS + pars);
  if (m->s->n_together && pars) e[-1].inside = e;
}

static void walk(struct ptx_planner *m, const struct kir_block *b, const struct kir_stmt *lane, int pars) {
  for (const struct kir_stmt *s = b->first; s && !m->why; s = s->next) {
    bool is_swept = s == m->s->swept, is_par = s->kind == KIR_PAR && s != m->s->owned;
    if (s->kind == KIR_KEEP) keep_rows(m, s, lane);
    if (s->kind == KIR_LANE && m->s->is_dealt) fold_rows(m, s);
    if (s->kind == KIR_LOCALS) buffer_row(m, PTX_LOCAL, s->buf);
    if (is_par) extent_of_par(m, s, pars);
    if (is_swept) extent(m, s, count_kind(&s->body, KIR_LANE) ? PTX_ROWS : PTX_LANES);
    else if (s->kind == KIR_LANE) extent(m, s, PTX_LANES);
    walk(m, &s->body, s->kind == KIR_LANE ? s : lane, pars + is_par);
  }
}

static void bufs(struct ptx_planner *m) {
  m->plan->bufs = take(m, (size_t)m->k->n_bufs, sizeof *m->plan->bufs);
  for (int b = 0; m->plan->bufs && b < m->k->n_bufs && !m->why; b++) {
    const struct kir_buf *x = &m->k->bufs[b];
    m->plan->bufs[b] = (struct ptx_buf){ x->kind, x->dtype, x->rank, NULL };
    if (x->kind == KIR_TABLE || x->kind == KIR_LOCAL) continue;
    m->plan->n_params += 1 + x->rank;
    m->plan->bufs[b].dims = dims(m, x->rank, x->dims);
  }
}

static void copies(struct ptx_planner *m) {
  const struct kir_stmt *p = m->s->private_loop;
  if (!p || m->why) return;
  for (int i = 0; i < p->n_private && !m->why; i++) buffer_row(m, PTX_COPY, p->private[i].buf);
  for (int i = 0; i < p->n_private && !m->s->in_order; i++) {
    int b = p->private[i].buf;
    m->plan->has_sets |= kir_is_float((weft_dtype)m->k->bufs[b].dtype) || m->s->bufs[b].private_op == KIR_MUL;
  }
  bool is_known = lin(m, p->at[0], &m->plan->block_n) && (p->extent != KIR_BLOCKS || lin(m, p->at[1], &m->plan->block_b));
  m->plan->has_block = m->s->may_reblock;
  m->plan->in_order = m->s->in_order, m->plan->leaves = m->s->leaves;
  if ((m->s->may_reblock || m->s->in_order) && !is_known && !m->why) m->why = "a length that is known only inside the kernel";
}

static int axis_of(const struct kir_stmt *s, int v) {
  for (int d = 0; d < s->n_at; d++) {
    struct kir_lin l = s->at[d];
    if (l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v) return d;
  }
  return -1;
}

/* What follows the sum is rounding it, and storing it once. */
static const struct kir_stmt *only_store(const struct ptx_planner *m) {
  const struct survey_product *x = &m->s->product;
  int total = x->total;
  const struct kir_stmt *s = x->rest;
  for (; s && s->kind == KIR_OP && s->op == KIR_CAST && s->in[0] == total && s->next; s = s->next) total = s->out[0];
  if (x->of_row != x->lane || x->before != x->sum || !s || s->kind != KIR_STORE || s->next) return NULL;
  if (s->in[0] != total || s->op != KIR_SET) return NULL;
  for (const struct kir_stmt *c = x->rest; c != s; c = c->next) if (c->dtype != m->k->bufs[s->buf].dtype) return NULL;
  return s;
}

/* Subscripts are loops, one an axis. */
static bool is_plain_access(const struct kir_stmt *s, const struct ptx_library *l, int i) {
  int used = (l->down[i] >= 0) + (l->across[i] >= 0);
  for (int b = 0; b < l->n_batch; b++) used += l->batch_axis[i][b] >= 0;
  return l->down[i] >= 0 && l->across[i] >= 0 && used == s->n_at;
}

static void library(struct ptx_planner *m) {
  const struct survey_product *x = &m->s->product;
  const struct kir_stmt *store = only_store(m), *of[3] = { x->a, x->b, store };
  struct ptx_library l = { .is_there = store != NULL };
  for (const struct kir_stmt *p = m->k->body.first; l.is_there && p != x->row; p = p->body.first, l.n_batch++) {
    if (l.n_batch == PTX_BATCH) return;
    l.is_there = lin(m, p->at[0], &l.batch[l.n_batch]);
    for (int i = 0; i < 3; i++) l.batch_axis[i][l.n_batch] = axis_of(of[i], p->var);
  }
  for (int i = 0; i < 3 && l.is_there; i++) {
    l.buf[i] = of[i]->buf;
    l.down[i] = axis_of(of[i], i == 1 ? x->step : x->row->var), l.across[i] = axis_of(of[i], i == 0 ? x->step : x->lane->var);
    l.is_there = is_plain_access(of[i], &l, i);
  }
  m->plan->library = l;
}

static void product(struct ptx_planner *m) {
  const struct survey_product *x = &m->s->product;
  if ((!x->is_there && !x->is_of_vector) || m->why) return;
  m->plan->product_side = kir_width((weft_dtype)m->k->vals[x->a->out[0]].dtype) == 8 ? 64 : 128;
  bool is_known = (!x->row || lin(m, x->row->at[0], &m->plan->product_rows)) && lin(m, x->lane->at[0], &m->plan->product_columns);
  for (int i = 0; i < x->n_batch; i++) is_known &= lin(m, x->batch[i]->at[0], &m->plan->product_batch[i]);
  m->plan->n_batch = x->n_batch;
  m->plan->is_long = x->between != NULL;
  is_known &= lin(m, x->sum->at[0], &m->plan->steps[0]);
  if (x->between) is_known &= lin(m, x->between->at[0], &m->plan->steps[1]) && lin(m, x->last->at[0], &m->plan->steps[2]);
  m->plan->is_of_vector = x->is_of_vector && is_known; /* else its main entry does */
  if (!is_known && x->is_there) m->why = "a length that is known only inside the kernel";
  else if (x->is_there) library(m);
}

static bool nest(struct ptx_planner *m, struct ptx_nest *x) {
  for (int i = 0; i < x->n_pars; i++) if (!lin(m, x->par[i]->at[0], &x->pars[i])) return false;
  return true;
}

static void wide(struct ptx_planner *m, const struct shape_class *shape) {
  const struct kir_stmt *lane = m->why ? NULL : ptx_find_wide(m->s, m->plan, shape, &m->plan->wide);
  if (!lane || !lin(m, lane->at[0], &m->plan->wide.length)) m->plan->wide = (struct ptx_wide){ 0 };
  if (m->plan->wide.n_bufs) ptx_find_streamed(m->s, m->plan, shape, &m->plan->wide, &m->plan->streamed);
}

static void shorts(struct ptx_planner *m, const struct shape_class *shape) {
  struct ptx_shorts *x = &m->plan->shorts;
  bool is_known = !m->why && ptx_find_short(m->s, shape, x) && lin(m, x->nest.lane->at[0], &x->length) && nest(m, &x->nest);
  if (!is_known) *x = (struct ptx_shorts){ 0 };
}

static void relay(struct ptx_planner *m, const struct shape_class *shape) {
  struct ptx_relay *x = &m->plan->relay;
  if (m->why || !ptx_find_relay(m->s, m->plan, shape, x) || !lin(m, x->loop->at[0], &x->length)) *x = (struct ptx_relay){ 0 };
}

static void running(struct ptx_planner *m, const struct shape_class *shape) {
  struct ptx_running *r = &m->plan->running;
  bool is_known = !m->why && ptx_find_running(m->s, shape, r) && lin(m, r->nest.lane->at[0], &r->length) && nest(m, &r->nest);
  if (!is_known) *r = (struct ptx_running){ 0 };
}

static void pairs(struct ptx_planner *m) {
  struct ptx_pairs *x = &m->plan->pairs;
  bool is_known = !m->why && ptx_find_pairs(m->s, x) && lin(m, x->lane->at[0], &x->n_columns);
  is_known = is_known && (!x->par || lin(m, x->par->at[0], &x->n_rows));
  if (!is_known) *x = (struct ptx_pairs){ 0 };
}

static void warp_rows(struct ptx_planner *m) {
  const struct kir_stmt *loop = m->why ? NULL : ptx_find_warp_rows(m->s);
  if (loop && !lin(m, loop->at[0], &m->plan->warp_rows)) m->plan->warp_rows = (struct ptx_lin){ 0 };
}

static void flat(struct ptx_planner *m) {
  struct ptx_flat *f = &m->plan->flat;
  bool is_known = !m->why && ptx_find_flat(m->s, f) && lin(m, f->nest.lane->at[0], &f->length) && nest(m, &f->nest);
  if (!is_known) *f = (struct ptx_flat){ 0 };
}

static void turned(struct ptx_planner *m, const struct shape_class *shape) {
  struct ptx_turned *t = &m->plan->turned;
  bool is_known = !m->why && ptx_find_turned(m->s, shape, t);
  is_known = is_known && lin(m, t->lane->at[0], &t->n_columns) && lin(m, t->par[t->row]->at[0], &t->n_rows);
  for (int i = 0; is_known && i < t->n_pars; i++)
    if (i != t->row) is_known = lin(m, t->par[i]->at[0], &t->others[t->n_others++]);
  if (!is_known) *t = (struct ptx_turned){ 0 };
}

static bool has_long_loop(const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if (s->kind == KIR_SERIAL ? survey_is_long(s) : has_long_loop(&s->body)) return true;
  return false;
}

const char *plan_make(struct ptx_plan *plan, const struct kir_kernel *k, const struct survey *s, const struct shape_class *shape) {
  struct ptx_planner m = { .plan = plan, .k = k, .s = s };
  int n_rows = count_kind(&k->body, KIR_KEEP) + count_kind(&k->body, KIR_LOCALS) + count_kind(&k->body,
      KIR_FOLD) + k->n_bufs, n_loops = count_loops(&k->body);
  plan->n_bufs = k->n_bufs, plan->n_sizes = k->n_sizes, plan->n_args = k->n_args, plan->n_checks = s->n_checks;
  plan->is_cooperative = s->is_cooperative, plan->is_single = s->is_single;
  plan->chain = ptx_find_chain(s), plan->is_chain = plan->chain;
  plan->a_warp = s->a_warp, plan->is_ordered = s->is_ordered, plan->is_one_warp = s->is_one_warp, plan->is_dealt = s->is_dealt;
  plan->is_recurrent = s->is_recurrent;
  plan->partial_bytes = (size_t)s->n_partials * 32 * 8;
  plan->has_stop = has_long_loop(&k->body);
  if (plan->has_stop && s->is_cooperative) plan->partial_bytes += PTX_STOP_BYTES; /* what one thread has seen there */
  plan->rows = take(&m, (size_t)n_rows, sizeof *plan->rows);
  m.kept = take(&m, (size_t)n_rows, sizeof *m.kept), m.last = take(&m, (size_t)n_rows, sizeof *m.last);
  plan->extents = take(&m, (size_t)n_loops, sizeof *plan->extents);
  if (!m.why) bufs(&m);
  if (!m.why) walk(&m, &k->body, NULL, 0);
  copies(&m);
  product(&m);
  running(&m, shape);
  turned(&m, shape);
  pairs(&m);
  flat(&m);
  if (!plan->turned.n_loads) wide(&m, shape);
  if (!m.why) ptx_find_tall(s, shape, &plan->tall);
  shorts(&m, shape);
  warp_rows(&m);
  relay(&m, shape);
  plan->n_params += k->n_sizes + k->n_args + (s->n_checks > 0) + plan->n_rows + 2 * (plan->n_rows > 0);
  plan->n_params += plan->streamed.n_loads || plan->relay.each;
  plan->n_params += plan->has_block + plan->has_sets + 2 * plan->in_order + 3 * plan->leaves + 2 * plan->has_stop;
  return m.why;
}

static bool size_of(struct ptx_planner *m, int value, struct ptx_lin *out) {
  *out = (struct ptx_lin){ 1, take(m, 1, sizeof *out->term) };
  if (out->term) out->term[0] = (struct ptx_term){ .coef = 1, .n = 1, .from = { m->k->vals[value].index } };
  return out->term != NULL;
}

/* Of a kernel that is attention nobody asks for more than its buffers and how many tiles there are. */
const char *plan_make_attention(struct ptx_plan *plan, const struct kir_kernel *k) {
  struct ptx_planner m = { plan, k, NULL, NULL };
  struct kir_attention *a = take(&m, 1, sizeof *a);
  plan->n_bufs = k->n_bufs, plan->n_sizes = k->n_sizes, plan->n_args = k->n_args;
  if (!a) return "";
  *a = *k->attention;
  plan->attention = a;
  bufs(&m);
  size_of(&m, a->part == KIR_ATTEND_KEY ? a->columns : a->rows, &plan->attention_rows);
  for (int i = 0; i < a->n_batch; i++) size_of(&m, a->batch[i], &plan->attention_batch[i]);
  plan->n_params += k->n_sizes + k->n_args;
  return m.why;
}

void ptx_plan_free(struct ptx_plan *p) {
  arena_free(p->arena);
  *p = (struct ptx_plan){ 0 };
}

/* ---- Using ------------------------------------------------------------------------------------------------------------ */

int64_t ptx_size(const struct ptx_lin *l, const int64_t sizes[], const uint64_t args[]) {
  uint64_t sum = 0;
  for (int i = 0; i < l->n; i++) {
    uint64_t x = (uint64_t)l->term[i].coef;
    for (int j = 0; j < l->term[i].n; j++) {
      int from = l->term[i].from[j];
      x *= from >= 0 ? (uint64_t)sizes[from] : args[~from];
    }
    sum += x;
  }
  return (int64_t)sum;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t parts(int64_t n, int64_t b) { return b > 0 && n > 0 ? (n - 1) / b + 1 : 0; }

struct user { const struct ptx_plan *p; const struct ptx_machine *m; const int64_t *sizes; const uint64_t *args; };

static int64_t trips(const struct user *u, const struct ptx_extent *e, int64_t block) {
  if (!e->is_known) return UNKNOWN;
  int64_t n = ptx_size(&e->n, u->sizes, u->args);
  if (e->inside && __builtin_mul_overflow(n, trips(u, e->inside, block), &n)) return INT64_MAX;
  if (!e->in_blocks) return n;
  return parts(n, block ? block : ptx_size(&e->b, u->sizes, u->args));
}

static int64_t longest(const struct user *u, enum ptx_axis axis, int64_t block) {
  int64_t n = 1;
  for (int i = 0; i < u->p->n_extents; i++)
    if (u->p->extents[i].axis == axis) n = most(n, trips(u, &u->p->extents[i], block));
  return n;
}

static int64_t longest(const struct user *u, enum ptx_axis axis, int64_t block);

/* Bytes of a row, rounded so that the next one is aligned; -1: absurd. */
static int64_t row_bytes(const struct user *u, const struct ptx_row *r) {
  int64_t n = r->width;
  if (r->kind == PTX_FOLD) return (n * least(KIR_ROW_BLOCK, longest(u, PTX_LANES, 0)) + 15) / 16 * 16;
  for (int d = 0; d < r->n_dims; d++) {
    int64_t length = most(0, ptx_size(&r->dims[d], u->sizes, u->args));
    if (r->kind == PTX_LOCAL && d && d == r->n_dims - 1 && length >= PTX_LONG_ROW) length = (length + 3) / 4 * 4;
    if (__builtin_mul_overflow(n, length, &n) || n > INT64_MAX / 4) return -1;
  }
  if (r->kind == PTX_KEEP && u->p->shifted_entry) n += (u->p->wide.each - 1) * r->width; /* by which it may begin later */
  return (n + 15) / 16 * 16;
}

static bool place_rows_of(const struct user *u, struct ptx_shape *s, bool of_folds, int64_t *at) {
  for (int r = 0; r < u->p->n_rows; r++) {
    if (u->p->rows[r].kind == PTX_COPY || (u->p->rows[r].kind == PTX_FOLD) != of_folds) continue;
    int64_t bytes = row_bytes(u, &u->p->rows[r]);
    if (bytes < 0) return false;
    s->row_at[r] = u->p->rows[r].shares >= 0 ? s->row_at[u->p->rows[r].shares] : *at;
    if (u->p->rows[r].shares < 0) *at += bytes;
  }
  return true;
}

/* Kept rows and locals first, then what is folded: all in shared memory, or none. */
static bool place_rows(const struct user *u, struct ptx_shape *s, int64_t room) {
  int64_t at = 0, kept;
  if (!place_rows_of(u, s, false, &at)) return false;
  kept = at;
  if (!place_rows_of(u, s, true, &at)) return false;
  s->fold_bytes = (size_t)(at - kept);
  if (at <= room) s->shared_bytes = (size_t)at;
  else s->row_bytes = (size_t)at;
  return true;
}

static int64_t power_at_least(int64_t n, int64_t limit) {
  int64_t x = 1;
  while (x < n && x < limit) x *= 2;
  return x;
}

static int64_t iterations(const struct user *u) {
  int64_t n = ptx_size(&u->p->block_n, u->sizes, u->args);
  return parts(n, u->p->block_b.n ? ptx_size(&u->p->block_b, u->sizes, u->args) : 1);
}

/* How many elements a row has in this launch. That their bytes are not too many was looked at before. */
static int64_t elements_of(const struct user *u, const struct ptx_row *r) {
  int64_t n = 1;
  for (int d = 0; d < r->n_dims; d++) n *= most(0, ptx_size(&r->dims[d], u->sizes, u->args));
  return n;
}

/* How copies of so many elements are merged: threads along elements, x of them at most, then along iterations. */
static void merge_shape(struct ptx_shape *s, int64_t elements, int64_t x) {
  x = power_at_least(elements, x);
  s->merge_block[0] = (unsigned)x, s->merge_block[1] = (unsigned)(MERGE_THREADS / x), s->merge_block[2] = 1;
  s->merge_grid[0] = (unsigned)least(parts(elements, x), GRID_X), s->merge_grid[1] = s->merge_grid[2] = 1;
}

bool ptx_is_one_number(const struct ptx_plan *p) {
  int n = 0, rank = 0, width = 0;
  for (int r = 0; r < p->n_rows; r++) if (p->rows[r].kind == PTX_COPY) n++, rank = p->rows[r].n_dims, width = p->rows[r].width;
  return p->in_order && n == 1 && rank == 0 && width >= 4;
}

/* The copies of an iteration, one after the other. Numbers stand side by side, so that merging reads them 16 bytes at a time. */
static bool place_in_order(const struct user *u, struct ptx_shape *s) {
  int64_t at = 0, elements = 1, all;
  for (int r = 0; r < u->p->n_rows; r++) {
    if (u->p->rows[r].kind != PTX_COPY) continue;
    int64_t bytes = ptx_is_one_number(u->p) ? u->p->rows[r].width : row_bytes(u, &u->p->rows[r]);
    if (bytes < 0) return false;
    s->row_at[r] = at;
    at += bytes;
    elements = most(elements, elements_of(u, &u->p->rows[r]));
  }
  if (__builtin_mul_overflow(at, iterations(u), &all)) return false;
  s->copy_bytes = (size_t)at, s->copies_bytes = (size_t)all;
  merge_shape(s, elements, 32);
  return true;
}

/* Sets of copies, of so many bytes each, if so many blocks of threads are to find room on a processor. */
static int64_t sets_for(int64_t blocks, int64_t before, int64_t of_set, int64_t room) {
  int64_t sets = 1;
  while (sets < MOST_SETS && before + 2 * sets * of_set <= room / blocks - PTX_RESERVED_BYTES) sets *= 2;
  return sets;
}

/* Copies of private outputs stand in what is left of the shared memory, as far as they fit. Where they are combined by exchanges,
 * the lanes of a warp have sets of copies of their own: else half of the exchanges fail, and lanes meet in banks. Registers have
 * room for 1024 threads: two blocks, or one of twice the threads where sets take the whole memory of a processor. Adding 16M
 * numbers into 1024 places took 0.089 ms so on an H200, 0.115 with 8 sets for each of four blocks. */
static void place_copies(const struct user *u, struct ptx_shape *s, int64_t room) {
  int64_t before = (int64_t)s->shared_bytes, of_set = 0;
  for (int r = 0; r < u->p->n_rows; r++) {
    if (u->p->rows[r].kind != PTX_COPY) continue;
    int64_t bytes = row_bytes(u, &u->p->rows[r]);
    bool fits = bytes >= 0 && before + of_set + bytes <= room;
    s->row_at[r] = fits ? of_set : -1;
    if (fits) of_set += bytes;
  }
  s->sets = 1;
  if (u->p->has_sets && of_set) {
    s->sets = (size_t)sets_for(BLOCKS_WITH_SETS, before, of_set, room);
    s->is_alone = s->sets < MOST_SETS;
    if (s->is_alone) s->sets = (size_t)sets_for(1, before, of_set, room);
  }
  for (int r = 0; r < u->p->n_rows; r++)
    if (u->p->rows[r].kind == PTX_COPY && s->row_at[r] >= 0) s->row_at[r] = before + (int64_t)s->sets * s->row_at[r];
  s->shared_bytes = (size_t)(before + (int64_t)s->sets * of_set);
}

/* How many threads a block has: few where there are few in all, so that every processor has some. */
static int64_t spread_threads(const struct user *u, int64_t lanes, int64_t rows) {
  int64_t all = lanes < (int64_t)SPREAD_THREADS * u->m->n_processors ? lanes * least(rows, SPREAD_THREADS * u->m->n_processors)
                                                                     : lanes;
  return most(32, power_at_least(all / u->m->n_processors, SPREAD_THREADS));
}

/* How many blocks of threads a processor may have where threads compete for places: a thread for eight of them, so that most
 * find theirs free; 0: places are so many that it does not matter. Then each thread has one lane: 16M products into 2^20 places
 * took 0.501 ms on an H200 so, 0.559, 0.542, 0.576 and 0.615 with two, three, four and eight blocks whose threads go on and on. */
static int64_t crowd(const struct user *u) {
  const struct ptx_buf *b = &u->p->bufs[u->p->contended - 1];
  int64_t n = 1;
  for (int d = 0; d < b->rank; d++) n = most(1, least(n, INT32_MAX) * least(ptx_size(&b->dims[d], u->sizes, u->args), INT32_MAX));
  if (n >= (int64_t)PLACES_A_THREAD * MOST_THREADS * u->m->n_processors) return 0;
  return most(1, least(8, parts(n, 8 * (int64_t)SPREAD_THREADS * u->m->n_processors)));
}

/* Threads along lanes, `across` of them at most, then along rows, so that short lanes still fill a warp. */
static void spread(const struct user *u, int64_t across, struct ptx_shape *s) {
  int64_t lanes = longest(u, PTX_LANES, 0), rows = longest(u, PTX_ROWS, 0), planes = longest(u, PTX_PLANES, 0);
  if (u->p->is_chain) lanes = 32; /* a warp */
  int64_t threads = spread_threads(u, lanes, rows);
  int64_t x = power_at_least(lanes, least(across, threads)), y = power_at_least(rows, threads / x);
  s->block[0] = (unsigned)x, s->block[1] = (unsigned)y, s->block[2] = 1;
  s->grid[0] = (unsigned)least(parts(lanes, x), GRID_X);
  s->grid[1] = (unsigned)least(parts(rows, y), GRID_Y);
  int64_t blocks = (int64_t)s->grid[0] * s->grid[1], enough = (int64_t)SPREAD_BLOCKS * u->m->n_processors;
  int64_t crowded = u->p->contended ? crowd(u) : -1;
  if (blocks >= enough && crowded) s->grid[0] = (unsigned)parts(s->grid[0], least(LANES_A_THREAD, blocks / enough));
  s->grid[2] = (unsigned)least(planes, GRID_Y);
  if (crowded <= 0) return;
  int64_t few = u->m->n_processors * crowded;
  s->grid[0] = (unsigned)least(s->grid[0], few);
  s->grid[1] = (unsigned)least(s->grid[1], most(1, few / s->grid[0]));
  s->grid[2] = 1;
}

void ptx_spread_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                      int most_across, struct ptx_shape *s) {
  spread(&(struct user){ p, m, sizes, args }, most_across, s);
}

static bool has_copies(const struct user *u, const struct ptx_shape *s) {
  for (int r = 0; r < u->p->n_rows; r++)
    if (u->p->rows[r].kind == PTX_COPY && s->row_at[r] >= 0 && !u->p->in_order) return true;
  return false;
}

enum { LINE_ELEMENTS = 128 }; /* of a byte or more */
enum { LEFT_TOGETHER = 8 }; /* elements of copies that were left, side by side in a block of threads: 32 bytes of f32 */

/* Every block of threads has room for the copy that it leaves. */
static bool place_left(const struct user *u, struct ptx_shape *s) {
  const struct ptx_row *row = u->p->rows;
  while (row->kind != PTX_COPY) row++;
  int64_t n = (int64_t)s->grid[0] * s->grid[1] * s->grid[2], all;
  if (s->row_at[row - u->p->rows] < 0) return true;
  s->copy_bytes = (size_t)row_bytes(u, row);
  if (__builtin_mul_overflow((int64_t)s->copy_bytes, n, &all)) return false;
  s->copies_bytes = (size_t)all;
  merge_shape(s, elements_of(u, row), LEFT_TOGETHER);
  return true;
}

/* Of a block of the private loop: as many blocks as keep the machine busy. Where nothing but copies lies in rows they may be longer
 * than in the text: a thread goes on and on, and what it loads next is on its way. They begin with whole lines of memory. */
static int64_t private_length(const struct user *u, int64_t blocks) {
  int64_t n = ptx_size(&u->p->block_n, u->sizes, u->args), b = most(1, ptx_size(&u->p->block_b, u->sizes, u->args));
  int64_t each = most(1, parts(n, blocks));
  bool has_others = false;
  for (int r = 0; r < u->p->n_rows; r++) has_others |= u->p->rows[r].kind != PTX_COPY;
  if (each <= b) return each;
  return has_others ? b : (each + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
}

static void cooperate(const struct user *u, struct ptx_shape *s) {
  int64_t lanes = longest(u, PTX_LANES, 0), rows, limit = GRID_X;
  int64_t threads = least(ROW_THREADS,
      (parts(lanes, u->p->is_single || u->p->is_recurrent ? 1 : LANES_A_THREAD) + 31) / 32 * 32);
  bool is_large = (int64_t)s->shared_bytes > (int64_t)u->m->shared_bytes / (FEW_BLOCKS + 1) || s->row_bytes;
  int64_t most_dealt = is_large ? ROW_THREADS : DEALT_THREADS;
  int64_t blocks = s->is_alone ? 1 : u->p->has_sets ? BLOCKS_WITH_SETS : BLOCKS_A_PROCESSOR;
  if (u->p->is_dealt) threads = most(32, power_at_least(parts(lanes, DEALT_LANES), most_dealt));
  else if (u->p->is_ordered) threads = u->p->is_one_warp ? 32 : 32 * power_at_least(parts(lanes, u->p->a_warp), ROW_THREADS / 32);
  int64_t others = most(1, longest(u, PTX_PLANES, 0)) * most(1, longest(u, PTX_VOLUMES, 0)); /* private loops, side by side */
  if (u->p->has_block) s->block_length = private_length(u, parts(blocks * u->m->n_processors, others));
  rows = longest(u, PTX_ROWS, s->block_length);
  if (s->row_bytes || has_copies(u, s)) limit = blocks * u->m->n_processors;
  if (s->is_alone) threads *= 2;
  s->block[0] = (unsigned)most(32, threads), s->block[1] = s->block[2] = 1;
  s->grid[0] = u->p->is_single ? 1 : (unsigned)least(rows, limit);
  s->grid[1] = u->p->is_single ? 1 : (unsigned)least(longest(u, PTX_PLANES, 0), s->row_bytes ? 1 : GRID_Y);
  s->grid[2] = u->p->is_single ? 1 : (unsigned)least(longest(u, PTX_VOLUMES, 0), s->row_bytes ? 1 : GRID_Y);
  s->scratch_bytes = s->row_bytes * s->grid[0];
}

enum { LEAST_SIDE = 32 }; /* of a matrix that tiles are worth while for; .. */
enum { LEAST_SHARED = 2, LEAST_STEPS = 128 }; /* .. but where both are shorter, and there are many steps. Not measured */

int64_t ptx_matrices(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[]) {
  int64_t n = 1;
  for (int i = 0; i < p->n_batch; i++) n = least(GRID_Y, n * least(GRID_Y, most(1, ptx_size(&p->product_batch[i], sizes, args))));
  return n;
}

int64_t ptx_steps(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[]) {
  int64_t n = ptx_size(&p->steps[0], sizes, args);
  if (!p->is_long) return n;
  return (ptx_size(&p->steps[1], sizes, args) + 1) * KIR_PRODUCT_BLOCK + ptx_size(&p->steps[2], sizes, args);
}

static bool product_shape(const struct user *u, struct ptx_shape *s) {
  const struct ptx_plan *p = u->p;
  if (!p->product && !p->floats[0]) return false;
  int64_t rows = ptx_size(&p->product_rows, u->sizes, u->args), columns = ptx_size(&p->product_columns, u->sizes, u->args);
  bool is_least = p->floats[0] && rows < LEAST_SIDE && columns < LEAST_SIDE && ptx_steps(p, u->sizes, u->args) >= LEAST_STEPS;
  int64_t side = is_least ? LEAST_SHARED : LEAST_SIDE;
  if (rows < side || columns < side) return false;
  s->is_product = true;
  s->block[0] = 256, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)parts(columns, p->product_side), s->grid[1] = (unsigned)least(parts(rows, p->product_side), GRID_Y);
  s->grid[2] = (unsigned)ptx_matrices(p, u->sizes, u->args);
  return true;
}

bool ptx_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
               struct arena *arena, struct ptx_shape *s) {
  struct user u = { p, m, sizes, args };
  *s = (struct ptx_shape){ .most_across = PTX_ACROSS, .row_at = arena_take(arena, (size_t)(p->n_rows + 1) * sizeof *s->row_at) };
  int64_t room = (int64_t)m->shared_bytes - (int64_t)p->partial_bytes - (p->leaves ? MERGED_BYTES : 0);
  if (s->row_at && ptx_attention_shape(p, sizes, args, s)) return true;
  if (!s->row_at || !place_rows(&u, s, room)) return false;
  if (!p->in_order) place_copies(&u, s, room);
  else if (!place_in_order(&u, s)) return false;
  if (product_shape(&u, s)) return true;
  if (p->is_cooperative) cooperate(&u, s);
  else spread(&u, SPREAD_THREADS, s);
  return !p->leaves || place_left(&u, s);
}
