/* gpu_pairs.c -- kernels that draw random words: a further entry of which a thread takes two elements that share them.
 *
 * Words i and i + n/2 of n are the two results of one threefry (op/random.c), which the text computes for each element:
 *
 *   half = n - (n >> 1);  is_first = i < half;  partner = i + half;  second = partner < n ? partner : 0
 *   x0 = is_first ? i : i - half;  x1 = is_first ? second : i;  20 rounds from x0, x1 to y0, y1;  word = is_first ? y0 : y1
 *
 * Here a thread has two elements, half of the outermost loop apart. For both x0 is the place of the first and x1 that of the
 * second, so that what is made of them alone is printed once; the word is y0 for the one, y1 for the other. All else is printed for
 * both, as in the main entry. Whoever launches sees to it that there are n elements, an even number (ptx_pairs_shape). */
#include "backend/cuda/printer.h"
#include "base/least.h"
#include <string.h>

enum { THREADS = 256, BLOCKS_A_PROCESSOR = 32 }; /* blocks of threads: from there on threads have several pairs */

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static const struct kir_stmt *find_in(const struct kir_block *b, int v) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    for (int i = 0; i < s->n_out; i++) if (s->out[i] == v) return s;
  return NULL;
}

/* The instruction that makes v, if it is that one. */
static const struct kir_stmt *made_by(const struct ptx_pairs *x, int v, enum kir_op op) {
  const struct kir_stmt *s = find_in(&x->lane->body, v);
  if (!s && x->par) s = find_in(&x->par->body, v);
  return s && s->kind == KIR_OP && s->op == op ? s : NULL;
}

static bool is_number(const struct kir_kernel *k, int v, uint64_t n) { return k->vals[v].kind == KIR_LIT && k->vals[v].bits == n; }

/* The place of the element, the last of the loops' indices first: cast.u32(i), or cast.u32(r width + c). */
static bool is_place(const struct kir_kernel *k, struct ptx_pairs *x, int v) {
  const struct kir_stmt *cast = made_by(x, v, KIR_CAST);
  if (!cast || cast->dtype != WEFT_U32) return false;
  if (!x->par) return cast->in[0] == x->lane->var;
  const struct kir_stmt *sum = made_by(x, cast->in[0], KIR_ADD), *row = sum ? made_by(x, sum->in[0], KIR_MUL) : NULL;
  if (!row || sum->in[1] != x->lane->var || row->in[0] != x->par->var || k->vals[row->in[1]].kind != KIR_ARG) return false;
  if (x->width_value && x->width_value != 1 + row->in[1]) return false;
  x->width_value = 1 + row->in[1], x->width = k->vals[row->in[1]].index;
  return true;
}

/* n - (n >> 1) of an argument n, always the same one. */
static bool is_half(const struct kir_kernel *k, struct ptx_pairs *x, int v) {
  const struct kir_stmt *rest = made_by(x, v, KIR_SUB), *shift = rest ? made_by(x, rest->in[1], KIR_SHR) : NULL;
  if (!shift || shift->in[0] != rest->in[0] || !is_number(k, shift->in[1], 1) || k->vals[rest->in[0]].kind != KIR_ARG) return false;
  if (x->n_value && x->n_value != 1 + rest->in[0]) return false;
  x->n_value = 1 + rest->in[0], x->n = k->vals[rest->in[0]].index;
  return true;
}

static bool is_of_place_and_half(const struct kir_kernel *k, struct ptx_pairs *x, const struct kir_stmt *s) {
  return s && is_place(k, x, s->in[0]) && is_half(k, x, s->in[1]);
}
static bool is_first(const struct kir_kernel *k, struct ptx_pairs *x, int v) {
  return is_of_place_and_half(k, x, made_by(x, v, KIR_LT));
}

/* partner < n ? partner : 0 */
static bool is_second(const struct kir_kernel *k, struct ptx_pairs *x, int v) {
  const struct kir_stmt *s = made_by(x, v, KIR_SELECT), *inside = s ? made_by(x, s->in[0], KIR_LT) : NULL;
  return inside && inside->in[0] == s->in[1] && is_of_place_and_half(k, x, made_by(x, s->in[1], KIR_ADD)) &&
         inside->in[1] + 1 == x->n_value && is_number(k, s->in[2], 0);
}

enum pair_role { ROLE_OWN, ROLE_SAME, ROLE_X0, ROLE_X1, ROLE_WORD }; /* SAME: of both elements; X0 and X1 are too */

static bool is_same(const struct printer *p, int v) { return !p->wide[1] || p->wide[1][v] == p->wide[0][v]; }

/* What a select on is_first is. */
static enum pair_role role_of_select(const struct kir_kernel *k, struct ptx_pairs *x, const struct kir_stmt *s) {
  if (s->kind != KIR_OP || s->op != KIR_SELECT || !is_first(k, x, s->in[0])) return ROLE_OWN;
  if (is_place(k, x, s->in[1]) && is_of_place_and_half(k, x, made_by(x, s->in[2], KIR_SUB))) return ROLE_X0;
  return is_second(k, x, s->in[1]) && is_place(k, x, s->in[2]) ? ROLE_X1 : ROLE_WORD;
}

static bool is_plain(const struct survey *s, const struct kir_block *b, bool is_top) {
  for (const struct kir_stmt *x = b->first; x; x = x->next)
    switch ((enum kir_kind)x->kind) {
    case KIR_OP: case KIR_LOAD: case KIR_YIELD: break;
    case KIR_STORE:
      if (!is_top || x->op != KIR_SET || s->bufs[x->buf].is_shared || s->bufs[x->buf].is_loaded) return false;
      break;
    case KIR_IF: if (!is_plain(s, &x->body, false)) return false; break;
    case KIR_PAR: case KIR_SERIAL: case KIR_LANE: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX: case KIR_FOLD:
    case KIR_KEEP: case KIR_CHECK: case KIR_LOCALS: case KIR_KINDS: return false;
    }
  return true;
}

/* uniform statements, then the one loop there is. */
static const struct kir_stmt *only_loop(const struct kir_block *b, enum kir_kind kind) {
  const struct kir_stmt *s = b->first;
  while (s && (s->kind == KIR_OP || s->kind == KIR_LOAD)) s = s->next;
  return s && s->kind == kind && !s->next && s->extent == KIR_N && !s->n_private ? s : NULL;
}

bool ptx_find_pairs(const struct survey *s, struct ptx_pairs *x) {
  *x = (struct ptx_pairs){ 0 };
  if (s->owned || s->private_loop || s->product.is_there || s->is_single || s->is_one_warp || s->is_cooperative) return false;
  x->par = only_loop(&s->k->body, KIR_PAR);
  x->lane = only_loop(x->par ? &x->par->body : &s->k->body, KIR_LANE);
  if (!x->lane || !is_plain(s, &x->lane->body, true)) return false;
  int n[ROLE_WORD + 1] = { 0 };
  for (const struct kir_stmt *y = x->lane->body.first; y; y = y->next) n[role_of_select(s->k, x, y)]++;
  return n[ROLE_X0] && n[ROLE_X1] && n[ROLE_WORD];
}

/* ---- Printing ------------------------------------------------------------------------------------------------------------- */

static void name_second(struct printer *p, int v) { p->wide[1][v] = ptx_textf(p, "%s$1", p->wide[0][v]); }

static bool reads_own(const struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++) if (!is_same(p, s->in[i])) return true;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) if (!is_same(p, s->at[d].term[i].val[j])) return true;
  return false;
}

static void name_all_of(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    for (int i = 0; i < s->n_out; i++) name_second(p, s->out[i]);
    name_all_of(p, &s->body);
  }
}

/* Results that depend on which element it is have registers for both. */
static void name_statements(struct printer *p, struct ptx_pairs *x, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    enum pair_role role = role_of_select(p->k, x, s);
    if (s->kind == KIR_IF) name_all_of(p, &s->body);
    if (role == ROLE_X0 || role == ROLE_X1 || s->kind == KIR_PAR || s->kind == KIR_LANE) continue;
    if (s->kind == KIR_IF || role == ROLE_WORD || reads_own(p, s))
      for (int i = 0; i < s->n_out; i++) name_second(p, s->out[i]);
  }
}

static void print_both(struct printer *p, const struct kir_stmt *s, struct where w) {
  bool once = s->kind == KIR_OP || s->kind == KIR_LOAD ? is_same(p, s->out[0]) : false;
  for (int e = 0; e < (once ? 1 : 2); e++) p->reg = p->wide[e], ptx_statements(p, s, s->next, w);
  p->reg = p->wide[0];
}

/* x0 is the place of the first element, x1 that of the second, half of them further. */
static void print_counter(struct printer *p, const struct kir_stmt *s, enum pair_role role, const struct ptx_pairs *x) {
  const struct kir_stmt *is_first = made_by(x, s->in[0], KIR_LT);
  const char *place = ptx_val(p, is_first->in[0]), *half = ptx_val(p, is_first->in[1]);
  if (role == ROLE_X0) ptx_line(p, "mov.u32 %s, %s", ptx_val(p, s->out[0]), place);
  else ptx_line(p, "add.u32 %s, %s, %s", ptx_val(p, s->out[0]), place, half);
}

static void print_element(struct printer *p, struct ptx_pairs *x, const struct kir_block *b, struct where w) {
  for (const struct kir_stmt *s = b->first; s && s->kind != KIR_PAR && s->kind != KIR_LANE; s = s->next) {
    enum pair_role role = role_of_select(p->k, x, s);
    if (role == ROLE_X0 || role == ROLE_X1) print_counter(p, s, role, x);
    else if (role == ROLE_WORD)
      for (int e = 0; e < 2; e++) {
        p->reg = p->wide[e];
        ptx_mov(p, (weft_dtype)p->k->vals[s->out[0]].dtype, ptx_val(p, s->out[0]), ptx_val(p, s->in[1 + e]));
        ptx_note_made(p, s);
        p->reg = p->wide[0];
      }
    else print_both(p, s, w);
  }
}

/* for (var = own; var < n; var += all), and the second element of the outermost loop half of it further. There are fewer than 2^32
 * draws and half as many pairs, so that words do to count them, by fewer instructions than numbers of 64 bits. */
struct pairs_loop { const char *again, *leave, *count, *step; };

static const char *as_word(struct printer *p, const char *x) {
  const char *w = ptx_own(p, OWN_WORD);
  ptx_line(p, "cvt.u32.u64 %s, %s", w, x);
  return w;
}

static struct pairs_loop open_pairs(struct printer *p, const struct kir_stmt *loop, enum ptx_axis axis, bool is_outermost) {
  struct pairs_loop l = { .again = ptx_label(p, "pairs"), .leave = ptx_label(p, "leave"), .count = ptx_own(p, OWN_WORD) };
  const char *n = as_word(p, ptx_lin(p, loop->at[0])), *half = ptx_own(p, OWN_WORD), *is_over = ptx_own(p, OWN_PRED);
  const char *second = ptx_own(p, OWN_WORD);
  p->uses_thread[axis] = true;
  l.step = as_word(p, axis == PTX_LANES ? "$lanes" : "$rows");
  if (is_outermost) ptx_line(p, "shr.u32 %s, %s, 1", half, n);
  ptx_line(p, "cvt.u32.u64 %s, %s", l.count, axis == PTX_LANES ? "$lane" : "$row");
  ptx_place_loop(p, l.again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is_over, l.count, is_outermost ? half : n);
  ptx_line(p, "@%s bra %s", is_over, l.leave);
  ptx_line(p, "cvt.u64.u32 %s, %s", ptx_val(p, loop->var), l.count);
  if (!is_outermost) return l;
  ptx_line(p, "add.u32 %s, %s, %s", second, l.count, half);
  ptx_line(p, "cvt.u64.u32 %s, %s", p->wide[1][loop->var], second);
  return l;
}

static void close_pairs(struct printer *p, struct pairs_loop l) {
  ptx_line(p, "add.u32 %s, %s, %s", l.count, l.count, l.step);
  ptx_line(p, "bra %s", l.again);
  ptx_place(p, l.leave);
}

void ptx_pairs_body(struct printer *p) {
  struct ptx_pairs found = p->plan->pairs, *x = &found;
  const struct kir_stmt *outermost = x->par ? x->par : x->lane;
  size_t bytes = (size_t)(p->k->n_vals + 1) * sizeof *p->reg;
  p->n_wide = 2;
  p->wide[0] = p->reg;
  if (!(p->wide[1] = arena_take(p->arena, bytes))) { ptx_refuse(p, ""); return; }
  memcpy(p->wide[1], p->reg, bytes);
  name_second(p, outermost->var);
  if (x->par) name_statements(p, x, &x->par->body);
  name_statements(p, x, &x->lane->body);
  struct where w = { .rest = "$done" };
  ptx_statements(p, p->k->body.first, outermost, w);
  struct pairs_loop down = { 0 }, across;
  if (x->par) {
    down = open_pairs(p, x->par, PTX_ROWS, true);
    print_element(p, x, &x->par->body, w);
  }
  across = open_pairs(p, x->lane, PTX_LANES, !x->par);
  w.lane = x->lane;
  print_element(p, x, &x->lane->body, w);
  close_pairs(p, across);
  if (x->par) close_pairs(p, down);
  ptx_place(p, "$done");
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------ */

bool ptx_pairs_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                     struct ptx_shape *s) {
  const struct ptx_pairs *x = &p->pairs;
  if (!p->pairs_entry) return false;
  int64_t columns = ptx_size(&x->n_columns, sizes, args), rows = x->n_rows.n ? ptx_size(&x->n_rows, sizes, args) : 1;
  int64_t outermost = x->n_rows.n ? rows : columns, n = (uint32_t)args[x->n], all;
  if (columns < 1 || rows < 1 || outermost % 2 || __builtin_mul_overflow(rows, columns, &all) || all != n) return false;
  if (x->n_rows.n && (int64_t)args[x->width] != columns) return false;
  if (x->n_rows.n) rows /= 2;
  else columns /= 2;
  int64_t wide = 32, high = 1, most = (int64_t)BLOCKS_A_PROCESSOR * m->n_processors;
  while (wide < columns && wide < THREADS) wide *= 2;
  while (high < rows && wide * high < THREADS) high *= 2;
  s->block[0] = (unsigned)wide, s->block[1] = (unsigned)high, s->block[2] = 1;
  s->grid[0] = (unsigned)least(ptx_parts(columns, wide), most);
  s->grid[1] = (unsigned)least(ptx_parts(rows, high), ptx_parts(most, s->grid[0])), s->grid[2] = 1;
  s->is_wide = false;
  return s->is_paired = true;
}
