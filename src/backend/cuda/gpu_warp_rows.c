/* gpu_warp_rows.c -- many rows of at most 4096 elements that are not aligned: a warp has a row, and loads again what is kept of it.
 *
 * The main entry of such a kernel has all threads of a block leave kept values, and what is to be folded in order, in shared memory,
 * for one of its warps to add up; its threads count in 64 bits from element to element, and wait for each other. Here lane l is
 * accumulator l, as in kernels that keep nothing (ptx_blocks.c): elements of a lane stand at fixed distances, and nothing is stored
 * between loops. Only what was loaded is loaded again, which the caches mostly have; what is computed of it is not computed twice.
 *
 * Where rows are few a block of threads for each has more on its way, and where they are aligned gpu_rows.c holds them in registers. */
#include "backend/cuda/gpu_wide.h"

enum { ROWS_A_PROCESSOR = 16 }; /* at least: warps that are there at a time; not measured */
enum { WARPS_A_PROCESSOR = 32 }; /* blocks of threads it has at most */

/* The load of a lane loop that gives the value; NULL: none does. */
static const struct kir_stmt *load_of(const struct kir_block *b, int value, const struct kir_stmt **loop) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    for (const struct kir_stmt *x = s->kind == KIR_LANE ? s->body.first : NULL; x; x = x->next)
      if (x->kind == KIR_LOAD && x->out[0] == value) return *loop = s, x;
    const struct kir_stmt *found = s->kind == KIR_PAR ? load_of(&s->body, value, loop) : NULL;
    if (found) return found;
  }
  return NULL;
}

static bool can_load_again(const struct kir_kernel *k, const struct kir_stmt *keep) {
  for (int i = 0; i < keep->n_in; i++) {
    const struct kir_stmt *loop, *load = load_of(&k->body, keep->in[i], &loop);
    if (!load || k->bufs[load->buf].kind != KIR_IN || !ptx_is_steady(loop, load)) return false;
  }
  return true;
}

/* par .. { uniform statements and lane loops of one length, of which some keep what they load }; the first of them, or NULL. */
const struct kir_stmt *ptx_find_warp_rows(const struct survey *s) {
  const struct kir_stmt *first = NULL, *next;
  if (!s->is_dealt || s->is_single || s->has_private || s->n_checks) return NULL;
  for (const struct kir_stmt *x = s->k->body.first; x; x = next) {
    next = x->kind == KIR_PAR ? x->body.first : x->next;
    if (x->kind == KIR_PAR && (x->next || x->extent != KIR_N || x->n_private)) return NULL;
    if (x->kind != KIR_PAR && x->kind != KIR_LANE && x->kind != KIR_OP && x->kind != KIR_LOAD && x->kind != KIR_STORE) return NULL;
    if (x->kind != KIR_LANE) continue;
    if (!first) first = x;
    if (x->extent != KIR_N || !kir_lin_equal(x->at[0], first->at[0])) return NULL;
    for (const struct kir_stmt *y = x->body.first; y; y = y->next)
      if (y->kind == KIR_KEEP && !can_load_again(s->k, y)) return NULL;
  }
  return first;
}

void ptx_load_again(struct printer *p, const struct kir_stmt *loop) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    int v = p->plan->rows[r].of;
    if (p->plan->rows[r].kind != PTX_KEEP || survey_keeps(loop, v) || !survey_uses(&loop->body, v)) continue;
    const struct kir_stmt *of, *load = load_of(&p->k->body, v, &of);
    const char *var = p->reg[of->var];
    p->reg[of->var] = ptx_val(p, loop->var);
    p->narrow[v] = p->k->bufs[load->buf].dtype;
    ptx_load_plain(p, load->buf, v, ptx_address(p, load->buf, load->at));
    p->reg[of->var] = var;
  }
}

void ptx_warp_rows_body(struct printer *p) {
  p->survey.is_dealt = false;
  p->loads_again = true;
  p->threads = 32, p->blocks = WARPS_A_PROCESSOR;
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}

bool ptx_warp_rows_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                         struct ptx_shape *s) {
  int64_t rows = (int64_t)s->grid[0] * s->grid[1] * s->grid[2];
  if (!p->warp_rows_entry || s->is_wide || s->is_short || s->row_bytes) return false;
  if (rows < (int64_t)ROWS_A_PROCESSOR * m->n_processors || ptx_size(&p->warp_rows, sizes, args) > KIR_ROW_BLOCK) return false;
  s->block[0] = 32;
  s->shared_bytes = 0;
  return s->is_of_warps = true;
}
