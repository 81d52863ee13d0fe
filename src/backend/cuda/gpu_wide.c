/* gpu_wide.c -- lane loops of which a thread takes several neighbours at once: further entries for kernels that go through memory.
 *
 * wide: of a spread kernel. A thread loads 16 bytes of each array along its lane loop, computes element by element and stores 16.
 * rows: of a cooperative one whose lane loops all go along one row of at most ROW_LENGTH elements. A thread has ROW_EACH elements
 * of it from the first loop to the last, in registers: kept values are the registers themselves. Folds that have an order are left
 * in shared memory, where a warp adds them in that order, as in the main entry.
 * long: of the same kernels, for longer rows. A thread goes through the row by ROW_EACH elements, and kept values lie in shared
 * memory, as those of the main entry. What is folded in order and not kept is computed once more of what is kept, by warps. Where
 * few rows have room, a thread asks for its part of the next one as soon as it has read its own for the last time.
 * shifted: the same for rows that are not aligned, but all alike: of each the first elements and the last, that are no whole 16
 * bytes, go one by one, and kept rows begin so much later that their pieces are aligned with the others.
 * loose: the same, where nothing is aligned: elements one by one, but as many under way.
 * short: of cooperative kernels that only fold, for many rows of few elements. A thread has a row, and all of its accumulators.
 *
 * Both print the same statements as the main entry, once for each element, on registers of its own: value v of element e is called
 * as in the kernel, with $e behind it. What is the same for all elements is printed once. Whoever launches sees to it that
 * neighbours are aligned (ptx_wide_shape). */
#include "backend/cuda/printer.h"
#include <string.h>
#include "base/least.h"

/* Elements of a row for each thread, the longest row that registers hold, threads of a block with longer ones, and blocks that find
 * room on a processor (row_blocks). */
enum { ROW_EACH = 16, ROW_LENGTH = 4096, LONG_THREADS = 512, ROW_BLOCKS = 4 };
/* The same of spread kernels with quotients, whose arithmetic hides loads only if there are others to compute. The linker's
 * compiler takes as many registers as it likes unless it is told (GELU in bf16: 85 instead of 48). */
enum { QUOTIENT_BLOCKS = 5, MOST_OF_QUOTIENTS = 400 };
/* Rows of which a processor has room for so few that loading, computing and storing would wait for each other: there blocks of
 * threads ask for their next row. Registers leave room for two blocks of LONG_THREADS. On an H200, ms without and with: softmax of
 * 1024 rows of 50257 0.195 and 0.182, of 50256 0.192 and 0.168, of 32768 0.124 and 0.114, 2048 of 16384, of which there is room for
 * three, 0.0875 and 0.0876; a layer norm of 50000 0.166 and 0.143. */
enum { ASKING_BLOCKS = 2, FEW_ROWS = 2, RESERVED_BYTES = 1 << 10 };
/* Of columns: so that as many loads are under way as ptx_columns asks for. They are worth while from so many threads a processor
 * on. */
enum { COLUMN_BLOCKS = 3, LEAST_OF_COLUMNS = 192 };
enum { LEAST_SHIFTED = 1024 }; /* elements of a row that is not aligned, from which on its ends are worth an extra way */
enum { MOST_WIDE = 700, MOST_ROWS = 3200 }; /* statements printed: a driver takes about 0.1 ms for each */

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static bool is_only(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

int ptx_axis_along(const struct shape_class *shape, const struct kir_stmt *s, int lane) {
  int found = -1;
  for (int d = 0; d < s->n_at; d++) {
    bool is_it = shape->stride[s->buf][d] == STRIDE_1 && is_only(s->at[d], lane);
    if (survey_mentions(s->at[d], lane) && !is_it && shape->stride[s->buf][d] != STRIDE_0) return -1;
    if (is_it) found = d;
  }
  return found;
}

static bool is_in_memory(const struct kir_kernel *k, int buf) { return k->bufs[buf].kind <= KIR_INOUT; }

struct wide_look {
  const struct survey *s;
  const struct shape_class *shape;
  struct ptx_wide *w;
  int n_statements, least_width;
  bool can, has_stored, has_check, is_alike; /* is_alike: as w->along says */
};

/* Rows that begin at the same place of their arrays, element by element. */
static bool begins_alike(const struct kir_kernel *k, const struct kir_stmt *a, const struct kir_stmt *b, int axis) {
  if (k->bufs[a->buf].dtype != k->bufs[b->buf].dtype || a->n_at != b->n_at) return false;
  for (int d = 0; d < a->n_at; d++) if (d != axis && !kir_lin_equal(a->at[d], b->at[d])) return false;
  return true;
}

static void look_at(struct wide_look *l, const struct kir_stmt *s, const struct kir_stmt *lane) {
  int d = is_in_memory(l->s->k, s->buf) ? ptx_axis_along(l->shape, s, lane->var) : -1;
  int width = kir_width((weft_dtype)l->s->k->bufs[s->buf].dtype);
  struct ptx_wide *w = l->w;
  if (s->kind == KIR_STORE && survey_is_own(l->s, s->buf)) { /* into a copy, which is dense and aligned whatever the output is */
    if (!l->s->is_once || s->n_at != 1 || !is_only(s->at[0], lane->var)) l->can = false;
    l->has_stored = true;
    return;
  }
  if (s->kind == KIR_STORE && (s->op != KIR_SET || l->s->bufs[s->buf].is_shared || l->s->bufs[s->buf].is_loaded)) l->can = false;
  l->has_stored |= s->kind == KIR_STORE;
  if (d < 0) return;
  if (!w->along) w->along = s;
  l->is_alike = l->is_alike && begins_alike(l->s->k, w->along, s, d) && (!w->n_bufs || w->axis[0] == d);
  for (int i = 0; i < w->n_bufs; i++) if (w->bufs[i] == s->buf && w->axis[i] == d) return;
  if (w->n_bufs == PTX_WIDE_BUFS) { l->can = false; return; }
  w->bufs[w->n_bufs] = s->buf, w->axis[w->n_bufs++] = d;
  l->least_width = (int)least(l->least_width, width);
}

static void look_in_lanes(struct wide_look *l, const struct kir_block *b, const struct kir_stmt *lane, bool is_top) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    l->n_statements++;
    switch ((enum kir_kind)s->kind) {
    case KIR_OP: case KIR_KEEP: case KIR_YIELD: break;
    case KIR_LOAD: if (is_top) look_at(l, s, lane); break;
    case KIR_STORE: if (is_top) look_at(l, s, lane); else l->can = false; break;
    case KIR_FOLD: if (!is_top || s->n_out != 1 || s->op == KIR_CALL) l->can = false; break;
    case KIR_IF: look_in_lanes(l, &s->body, lane, false); break;
    case KIR_SERIAL:
      if (!is_top || l->s->is_cooperative || l->w->has_columns || !ptx_find_columns(l->s, l->shape, s, lane)) l->can = false;
      for (const struct kir_stmt *x = s->body.first; x && l->can; x = x->next)
        if (x->kind == KIR_LOAD) look_at(l, x, lane);
      l->w->has_columns = true;
      break;
    case KIR_PAR: case KIR_LANE: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX:
    case KIR_LOCALS: case KIR_KINDS: l->can = false; break;
    case KIR_CHECK: /* where one fails, all of its neighbours begin again one by one: nothing may have been stored */
      l->has_check = true;
      if (!is_top || l->has_stored) l->can = false;
      break;
    }
  }
}

static bool same_length(const struct kir_stmt *a, const struct kir_stmt *b) {
  return a->extent == KIR_N && b->extent == KIR_N && kir_lin_equal(a->at[0], b->at[0]);
}

/* par .. { uniform statements and lane loops of one length }; the first loop, or NULL. */
static const struct kir_stmt *look(struct wide_look *l) {
  const struct kir_stmt *first = NULL;
  const struct kir_block *b = &l->s->k->body;
  for (const struct kir_stmt *s = b->first, *next; s && l->can; s = next) {
    next = s->next;
    if (s->kind == KIR_PAR) {
      if (next || ((s->n_private || s->extent != KIR_N) && !(l->s->is_once && s == l->s->private_loop))) l->can = false;
      next = s->body.first;
    } else if (s->kind == KIR_LANE) {
      if (!first) first = s;
      if (!same_length(first, s)) l->can = false;
      look_in_lanes(l, &s->body, s, true);
    } else if (s->kind == KIR_IF || s->kind == KIR_SERIAL || s->kind == KIR_LOCALS) {
      l->can = false;
    }
  }
  return l->can ? first : NULL;
}

/* Folds of a loop in which one has an order: the values of all of them are left in shared memory. Else none; .. */
static int folds_in(const struct kir_kernel *k, const struct kir_stmt *loop) {
  int n = 0;
  bool has_order = false;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind == KIR_FOLD) n++, has_order |= ptx_is_ordered(k, s);
  return has_order ? n : 0;
}

/* .. n: of the loops from s on. */
static int most_folds(const struct kir_kernel *k, const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    int own = s->kind == KIR_LANE ? folds_in(k, s) : most_folds(k, &s->body);
    n = own > n ? own : n;
  }
  return n;
}

/* Of the widest value that is folded. */
static int fold_bytes(const struct kir_kernel *k, const struct kir_block *b) {
  int bytes = 4;
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    int own = s->kind == KIR_FOLD ? kir_width((weft_dtype)k->vals[s->in[0]].dtype) : fold_bytes(k, &s->body);
    bytes = own > bytes ? own : bytes;
  }
  return bytes;
}

static bool keeps_what_it_folds(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind == KIR_FOLD && !survey_keeps(loop, s->in[0])) return false;
  return true;
}

/* A loop with a fold in order of what is not kept: it is folded once more, behind the loop, of what is kept by then. */
static bool folds_again(const struct kir_kernel *k, const struct kir_stmt *loop) {
  return folds_in(k, loop) > 0 && !keeps_what_it_folds(loop);
}

/* What that needs, by value: what folds are given and what makes that, down to what is kept and what is loaded. */
static bool fold_needs(const struct kir_kernel *k, const struct kir_stmt *loop, bool needs[]) {
  enum { MOST = MOST_ROWS / ROW_EACH };
  const struct kir_stmt *all[MOST + 1];
  int n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (n == MOST || s->kind == KIR_IF) return false;
    all[n++] = s;
  }
  memset(needs, 0, (size_t)k->n_vals * sizeof *needs);
  while (n--) {
    bool is = all[n]->kind == KIR_FOLD;
    if (all[n]->kind == KIR_OP) is = needs[all[n]->out[0]] && !survey_keeps(loop, all[n]->out[0]);
    for (int i = 0; is && i < all[n]->n_in; i++) needs[all[n]->in[i]] = true;
  }
  return true;
}

/* It finds what earlier loops have kept, and has not kept something else there itself. */
static bool can_fold_again(const struct kir_kernel *k, const struct ptx_plan *plan, const struct kir_stmt *loop) {
  bool *needs = arena_take(plan->arena, (size_t)(k->n_vals + 1) * sizeof *needs);
  if (!needs || !fold_needs(k, loop, needs)) return false;
  for (int r = 0; r < plan->n_rows; r++)
    for (int own = 0; own < plan->n_rows; own++) {
      const struct ptx_row *x = &plan->rows[r], *y = &plan->rows[own];
      if (x->kind != PTX_KEEP || y->kind != PTX_KEEP || !needs[x->of] || survey_keeps(loop, x->of)) continue;
      if (survey_keeps(loop, y->of) && y->shares == (x->shares >= 0 ? x->shares : r)) return false;
    }
  return true;
}

/* Kept values have whole words, and registers for each element; what has an order can be folded of what is kept. */
static bool can_be_long(const struct kir_kernel *k, const struct ptx_plan *plan, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    for (int i = 0; s->kind == KIR_KEEP && i < s->n_in; i++)
      if (kir_width((weft_dtype)k->vals[s->in[i]].dtype) < 4 || k->vals[s->in[i]].kind != KIR_RESULT) return false;
    if (s->kind == KIR_LANE && folds_again(k, s) && !can_fold_again(k, plan, s)) return false;
    if (!can_be_long(k, plan, &s->body)) return false;
  }
  return true;
}

const struct kir_stmt *ptx_find_wide(const struct survey *s, const struct ptx_plan *plan, const struct shape_class *shape,
                                     struct ptx_wide *w) {
  struct wide_look l = { .s = s, .shape = shape, .w = w, .least_width = 16, .can = true, .is_alike = true };
  *w = (struct ptx_wide){ 0 };
  if (s->owned || s->product.is_there || s->is_single || s->is_one_warp) return NULL;
  if (s->private_loop && (!s->is_once || s->is_cooperative)) return NULL;
  if (s->is_cooperative && !s->is_ordered) return NULL; /* few such kernels keep anything */
  const struct kir_stmt *first = look(&l);
  if (!first || !w->n_bufs || (l.has_check && s->is_cooperative)) return NULL;
  w->each = l.least_width <= 2 ? 8 : 16 / l.least_width;
  w->is_rows = s->is_cooperative;
  w->n_folds = most_folds(s->k, &s->k->body);
  w->fold_bytes = fold_bytes(s->k, &s->k->body);
  if (w->is_rows ? l.n_statements * ROW_EACH > MOST_ROWS : l.n_statements * w->each > MOST_WIDE) return NULL;
  w->can_be_long = w->is_rows && s->is_dealt && can_be_long(s->k, plan, &s->k->body);
  if (!l.is_alike || l.least_width < 4 || l.least_width > 8) w->along = NULL;
  return first;
}

/* ---- Registers of elements ------------------------------------------------------------------------------------------------ */

static bool names_wide(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++) if (p->wide[1][s->in[i]] != p->wide[0][s->in[i]]) return true;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        if (p->wide[1][v] != p->wide[0][v]) return true;
      }
  return false;
}

static void name_element(struct printer *p, int v) {
  for (int e = 1; e < p->n_wide; e++) p->wide[e][v] = ptx_textf(p, "%s$%d", p->wide[0][v], e);
}

/* Results of a lane loop have registers for each element, unless they are the same for all. */
static void name_block(struct printer *p, const struct kir_block *b, bool is_top) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_FOLD && is_top) continue;
    bool is_own = s->kind == KIR_YIELD || s->kind == KIR_PREFIX || s->kind == KIR_FOLD;
    if (s->kind == KIR_OP || s->kind == KIR_LOAD ? !is_top || names_wide(p, s) : is_own)
      for (int i = 0; i < s->n_out; i++) name_element(p, s->out[i]);
    name_block(p, &s->body, false);
  }
}

static void name_loops(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_PAR) name_loops(p, &s->body);
    if (s->kind != KIR_LANE) continue;
    name_element(p, s->var);
    name_block(p, &s->body, true);
  }
}

/* Elements are numbered along the thread's neighbours, then from group to group of them. */
bool ptx_name_elements(struct printer *p, int n) {
  size_t bytes = (size_t)(p->k->n_vals + 1) * sizeof *p->reg;
  p->n_wide = n;
  p->wide[0] = p->reg;
  for (int e = 1; e < n; e++) {
    if (!(p->wide[e] = arena_take(p->arena, bytes))) return ptx_refuse(p, ""), false;
    memcpy(p->wide[e], p->reg, bytes);
  }
  name_loops(p, &p->k->body);
  return !p->why;
}

/* ---- Neighbours in memory ------------------------------------------------------------------------------------------------- */

static weft_dtype memory_of(struct printer *p, const struct kir_stmt *s) { return (weft_dtype)p->k->bufs[s->buf].dtype; }
static const char *guard(struct printer *p) { return p->guard ? ptx_textf(p, "@%s ", p->guard) : ""; }

static const char *list(struct printer *p, int n, const char *const r[]) {
  if (n == 1) return r[0];
  return n == 2 ? ptx_textf(p, "{%s, %s}", r[0], r[1]) : ptx_textf(p, "{%s, %s, %s, %s}", r[0], r[1], r[2], r[3]);
}

/* Bytes of an access: as many 4- or 8-byte pieces, four or two at a time. What is not loaded is set: else the compiler would hold
 * on to what the row before left there (a layer norm of bf16: 56 registers, 48 so). */
static void access_pieces(struct printer *p, bool is_load, const char *space, const char *at, int n, int width,
                          const char *const r[]) {
  int together = 16 / width;
  for (int i = 0; i < n && is_load && p->guard; i++) ptx_line(p, "mov.b%d %s, 0", 8 * width, r[i]);
  for (int i = 0; i < n; i += together) {
    int few = (int)least(together, n - i);
    const char *v = few == 1 ? "" : few == 2 ? ".v2" : ".v4", *all = list(p, few, r + i);
    if (is_load) ptx_line(p, "%sld%s%s.b%d %s, [%s+%d]", guard(p), space, v, 8 * width, all, at, i * width);
    else ptx_line(p, "%sst%s%s.b%d [%s+%d], %s", guard(p), space, v, 8 * width, at, i * width, all);
  }
}

/* dst = part i of the word, of a dtype of 1 or 2 bytes */
static void unpack(struct printer *p, weft_dtype d, const char *dst, const char *word, int i, bool is_made) {
  int width = kir_width(d), shift = 8 * width * i, rest = 32 - 8 * width - shift;
  const char *up = ptx_own(p, OWN_WORD);
  if (d == WEFT_BF16) {
    if (i) ptx_line(p, "and.b32 %s, %s, 0xffff0000", dst, word);
    else ptx_line(p, "shl.b32 %s, %s, 16", dst, word);
  } else if (d == WEFT_F16) {
    const char *half = ptx_own(p, OWN_HALF);
    ptx_line(p, "shr.u32 %s, %s, %d", up, word, shift);
    ptx_line(p, "cvt.u16.u32 %s, %s", half, up);
    ptx_from_f16(p, dst, half, is_made);
  } else {
    ptx_line(p, "shl.b32 %s, %s, %d", up, word, rest);
    const char *to = d == WEFT_BOOL ? up : dst;
    ptx_line(p, "shr.%s %s, %s, %d", d == WEFT_I8 || d == WEFT_I16 ? "s32" : "u32", to, up, 32 - 8 * width);
    if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", dst, up);
  }
}

/* The pattern of a value of 1 or 2 bytes, in a word without anything above it; a bf16 in the upper half. */
static const char *pattern(struct printer *p, weft_dtype d, int value, const char *src) {
  const char *r = ptx_own(p, OWN_WORD);
  if (d == WEFT_BF16 && ptx_is_narrow(p, value, d)) return src;
  if (d == WEFT_BF16) ptx_to_bf16(p, WEFT_F32, r, src, ptx_is_made(p, value));
  else if (d == WEFT_F16) ptx_line(p, "cvt.u32.u16 %s, %s", r, ptx_to_f16(p, WEFT_F32, src, ptx_is_made(p, value)));
  else if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", r, src);
  else ptx_line(p, "and.b32 %s, %s, 0x%x", r, src, kir_width(d) == 1 ? 0xff : 0xffff);
  return r;
}

void ptx_load_raw(struct printer *p, const struct kir_stmt *s, const char *space, const char *at, int n, const char *raw[]) {
  int width = kir_width(memory_of(p, s)), words = width < 4 ? n * width / 4 : n;
  for (int i = 0; i < words; i++) raw[i] = ptx_own(p, width == 8 ? OWN_LONG : OWN_WORD);
  access_pieces(p, true, space, at, words, width < 4 ? 4 : width, raw);
}

void ptx_take_raw(struct printer *p, const struct kir_stmt *s, int n, const int element[], const char *const raw[]) {
  weft_dtype d = memory_of(p, s);
  int width = kir_width(d), v = s->out[0], a_word = width < 4 ? 4 / width : 1;
  bool is_made = d == WEFT_F16 && !ptx_pattern_matters(p, v);
  ptx_val(p, v);
  p->narrow[v] = (uint8_t)d;
  for (int i = 0; i < n; i++)
    if (width < 4) unpack(p, d, p->wide[element[i]][v], raw[i / a_word], i % a_word, is_made);
    else ptx_line(p, "mov.b%d %s, %s", 8 * width, p->wide[element[i]][v], raw[i]);
}

void ptx_load_each(struct printer *p, const struct kir_stmt *s, const char *space, const char *at, int n, const int element[]) {
  weft_dtype d = memory_of(p, s);
  int width = kir_width(d), v = s->out[0], a_word = width < 4 ? 4 / width : 1;
  const char *r[PTX_WIDE] = { 0 };
  bool is_made = d == WEFT_F16 && !ptx_pattern_matters(p, v);
  ptx_val(p, v);
  p->narrow[v] = (uint8_t)d;
  for (int i = 0; i < n; i += a_word) r[i / a_word] = width < 4 ? ptx_own(p, OWN_WORD) : p->wide[element[i]][v];
  access_pieces(p, true, space, at, n / a_word, width < 4 ? 4 : width, r);
  for (int i = 0; width < 4 && i < n; i++) unpack(p, d, p->wide[element[i]][v], r[i / a_word], i % a_word, is_made);
}

/* Elements e .. e + each - 1 of a load along lanes. */
static void load_neighbours(struct printer *p, const struct kir_stmt *s, int e, int each) {
  const char *space = p->k->bufs[s->buf].kind == KIR_IN ? ".global.nc" : ptx_space(p, s->buf);
  int element[PTX_WIDE];
  for (int i = 0; i < each; i++) element[i] = e + i;
  p->reg = p->wide[e];
  if (each == 1) { /* a narrow one is no word */
    p->narrow[s->out[0]] = (uint8_t)memory_of(p, s);
    ptx_load_plain(p, s->buf, s->out[0], ptx_address(p, s->buf, s->at));
    return;
  }
  ptx_load_each(p, s, space, ptx_address(p, s->buf, s->at), each, element);
}

static const struct kir_stmt *maker_of(const struct kir_block *b, int v) {
  const struct kir_stmt *found = NULL;
  for (const struct kir_stmt *s = b->first; s && !found; s = s->next)
    if (s->kind == KIR_OP && s->n_out == 1 && s->out[0] == v) return s;
    else found = maker_of(&s->body, v);
  return found;
}

/* The f32 that v is, rounded to bf16; -1: v comes from elsewhere, or the pattern of a NaN matters. */
static int rounded(struct printer *p, int v) {
  const struct kir_stmt *s = maker_of(&p->k->body, v);
  bool is = s && s->op == KIR_CAST && s->dtype == WEFT_BF16 && p->k->vals[s->in[0]].dtype == WEFT_F32 &&
            p->k->vals[s->in[0]].kind == KIR_RESULT && ptx_is_made(p, s->in[0]) && !ptx_is_narrow(p, s->in[0], WEFT_BF16);
  return is ? s->in[0] : -1;
}

/* Pairs of numbers are rounded and packed by one instruction: of v nothing else may be left to do. */
static void rounded_pairs(struct printer *p, int of, int n, const int element[], const char *r[]) {
  for (int i = 0; i < n; i += 2) {
    const char *low = p->wide[element[i]][of], *high = p->wide[element[i + 1]][of];
    ptx_line(p, "cvt.rn.bf16x2.f32 %s, %s, %s", r[i / 2] = ptx_own(p, OWN_WORD), high, low);
  }
}

void ptx_store_each(struct printer *p, const struct kir_stmt *s, const char *space, const char *at, int n, const int element[]) {
  weft_dtype d = memory_of(p, s);
  int width = kir_width(d), v = s->in[0], a_word = width < 4 ? 4 / width : 1;
  int of = d == WEFT_BF16 && n % 2 == 0 ? rounded(p, v) : -1;
  const char *r[PTX_WIDE] = { 0 };
  if (of >= 0) rounded_pairs(p, of, n, element, r);
  for (int i = 0; i < n && of < 0; i++) {
    p->reg = p->wide[element[i]];
    const char *x = ptx_in_register(p, (weft_dtype)p->k->vals[v].dtype, v);
    if (width >= 4) { r[i] = x; continue; }
    const char *part = pattern(p, d, v, x);
    if (d == WEFT_BF16 && i % 2) {
      const char *both = ptx_own(p, OWN_WORD);
      ptx_line(p, "prmt.b32 %s, %s, %s, 0x7632", both, r[i / 2], part); /* the upper halves */
      part = both;
    } else if (i % a_word) {
      const char *up = ptx_own(p, OWN_WORD), *both = ptx_own(p, OWN_WORD);
      ptx_line(p, "shl.b32 %s, %s, %d", up, part, 8 * width * (i % a_word));
      ptx_line(p, "or.b32 %s, %s, %s", both, r[i / a_word], up);
      part = both;
    }
    r[i / a_word] = part;
  }
  access_pieces(p, false, space, at, n / a_word, width < 4 ? 4 : width, r);
}

static void store_neighbours(struct printer *p, const struct kir_stmt *s, int e, int each) {
  int element[PTX_WIDE];
  for (int i = 0; i < each; i++) element[i] = e + i;
  p->reg = p->wide[e];
  if (each == 1) {
    ptx_store_value(p, ptx_space(p, s->buf), memory_of(p, s), ptx_address(p, s->buf, s->at), s->in[0]);
    return;
  }
  ptx_store_each(p, s, ptx_space(p, s->buf), ptx_address(p, s->buf, s->at), each, element);
}

/* ---- Statements ----------------------------------------------------------------------------------------------------------- */

static bool is_neighbours(struct printer *p, const struct kir_stmt *s, const struct kir_stmt *lane) {
  return (s->kind == KIR_LOAD || s->kind == KIR_STORE) && is_in_memory(p->k, s->buf) && ptx_axis_along(p->shape, s, lane->var) >= 0;
}

/* Some value of the subscripts is computed in the loop itself. */
static bool waits_for(const struct kir_stmt *loop, const struct kir_stmt *s) {
  for (const struct kir_stmt *x = loop->body.first; x != s; x = x->next)
    for (int i = 0; i < x->n_out; i++)
      for (int d = 0; d < s->n_at; d++) if (survey_mentions(s->at[d], x->out[i])) return true;
  return false;
}

static bool follows_check(const struct kir_stmt *loop, const struct kir_stmt *s) {
  for (const struct kir_stmt *x = loop->body.first; x != s; x = x->next) if (x->kind == KIR_CHECK) return true;
  return false;
}

static bool is_early(struct printer *p, const struct kir_stmt *s, const struct kir_stmt *lane) {
  if (s->kind != KIR_LOAD || !is_neighbours(p, s, lane) || follows_check(lane, s) || waits_for(lane, s)) return false;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        if (v != lane->var && p->wide[1][v] != p->wide[0][v]) return false;
      }
  return true;
}

static bool is_same_for_all(struct printer *p, const struct kir_stmt *s) {
  return (s->kind == KIR_OP || s->kind == KIR_LOAD) && s->n_out && p->wide[1][s->out[0]] == p->wide[0][s->out[0]];
}

/* Jumps away unless the check holds for all of the elements. */
static void check_all(struct printer *p, const struct kir_stmt *s, int e, int each, const char *others) {
  const char *all = ptx_own(p, OWN_PRED);
  for (int i = 0; i < each; i++) {
    if (i && p->wide[e + i][s->in[0]] == p->wide[e][s->in[0]]) break;
    p->reg = p->wide[e + i];
    const char *ok = ptx_val(p, s->in[0]);
    if (i) ptx_line(p, "and.pred %s, %s, %s", all, all, ok);
    else ptx_line(p, "mov.pred %s, %s", all, ok);
  }
  ptx_line(p, "@!%s bra %s", all, others);
}

/* Of all elements at once. */
static void quotients(struct printer *p, const struct kir_stmt *s, int e, int each) {
  struct ptx_quotient q[PTX_WIDE];
  for (int i = 0; i < each; i++) {
    p->reg = p->wide[e + i];
    q[i] = (struct ptx_quotient){ ptx_val(p, s->in[0]), ptx_val(p, s->in[1]), ptx_val(p, s->out[0]), true,
                                  ptx_power(p, s) };
  }
  ptx_quotients(p, each, q);
  ptx_note_made(p, s);
}

/* Results of columns, to the copy of this iteration: numbers as registers have them. */
static void store_own(struct printer *p, const struct kir_stmt *s, int e, int each) {
  weft_dtype d = kir_register_of(memory_of(p, s));
  const char *r[PTX_WIDE];
  for (int i = 0; i < each; i++) p->reg = p->wide[e + i], r[i] = ptx_in_register(p, d, s->in[0]);
  p->reg = p->wide[e];
  access_pieces(p, false, ".global", ptx_address(p, s->buf, s->at), each, kir_width(d), r);
}

void ptx_wide_statement(struct printer *p, const struct kir_stmt *s, const struct kir_stmt *lane, int e, int each, struct where w) {
  if (s->kind == KIR_SERIAL && each > 1) {
    ptx_columns(p, s, lane, each, w);
  } else if (s->kind == KIR_STORE && each > 1 && survey_is_own(&p->survey, s->buf)) {
    store_own(p, s, e, each);
  } else if (is_neighbours(p, s, lane)) {
    if (s->kind == KIR_LOAD) load_neighbours(p, s, e, each);
    else store_neighbours(p, s, e, each);
  } else if (s->kind == KIR_CHECK) {
    if (!e || p->wide[e][s->in[0]] != p->wide[0][s->in[0]]) check_all(p, s, e, each, w.rest);
  } else if (each > 1 && ptx_is_of_number(p, s) && !is_same_for_all(p, s)) {
    quotients(p, s, e, each);
  } else {
    for (int i = 0; i < each && !(i && is_same_for_all(p, s)); i++) {
      p->reg = p->wide[e + i];
      ptx_statements(p, s, s->next, w);
    }
  }
  p->reg = p->wide[0];
}

/* The statements of a lane loop but for folds and early loads, on elements e .. e + each - 1. */
static void body_of(struct printer *p, const struct kir_stmt *loop, int e, int each, struct where w) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind == KIR_FOLD || s->kind == KIR_KEEP || is_early(p, s, loop)) continue;
    if (e && is_same_for_all(p, s)) continue;
    ptx_wide_statement(p, s, loop, e, each, w);
  }
}

static void early_loads(struct printer *p, const struct kir_stmt *loop, int e, int each) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (is_early(p, s, loop)) load_neighbours(p, s, e, each);
  p->reg = p->wide[0];
}

static void number_elements(struct printer *p, const struct kir_stmt *loop, int e, int each) {
  for (int i = 1; i < each; i++) ptx_line(p, "add.s64 %s, %s, %d", p->wide[e + i][loop->var], p->wide[e][loop->var], i);
}

/* ---- Spread --------------------------------------------------------------------------------------------------------------- */

/* Neighbours of which one fails a check, and those at the end that are too few, go one by one, from `var` to `stop`. */
static void one_by_one(struct printer *p, const struct kir_stmt *loop, const char *stop, struct where w) {
  const char *var = ptx_val(p, loop->var), *is = ptx_own(p, OWN_PRED);
  const char *again = ptx_label(p, "tail"), *leave = ptx_label(p, "leave");
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, stop);
  ptx_line(p, "@%s bra %s", is, leave);
  w.rest = ptx_label(p, "next");
  ptx_block(p, &loop->body, w);
  ptx_place(p, w.rest);
  ptx_line(p, "add.s64 %s, %s, 1", var, var);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* The neighbours that come next on this processor are brought to its cache while these are computed: those of the block of threads
 * that is as many blocks away as processors have room for (GELU of 64M bf16 on an H200: 0.112 ms, 0.128 without). */
static void fetch_ahead(struct printer *p, const struct kir_stmt *loop, const char *end, const char *n) {
  const char *away = ptx_own(p, OWN_WORD), *threads = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  const char *ahead = ptx_own(p, OWN_LONG), *last = ptx_own(p, OWN_LONG), *var = ptx_val(p, loop->var);
  ptx_line(p, "mov.u32 %s, %%nsmid", away);
  ptx_line(p, "mov.u32 %s, %%ntid.x", threads);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", away, away, threads);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", ahead, away, p->blocks * p->each);
  ptx_line(p, "add.s64 %s, %s, %s", last, end, ahead);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, var, ahead);
  ptx_line(p, "setp.le.s64 %s, %s, %s", is, last, n);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (!is_early(p, s, loop)) continue;
    p->reg[loop->var] = ahead;
    const char *at = ptx_address(p, s->buf, s->at);
    p->reg[loop->var] = var;
    ptx_line(p, "@%s prefetch.global.L2 [%s]", is, at);
  }
}

/* Two groups of neighbours, a step apart, as long as both are there: what they load is asked for together. */
static void two_groups(struct printer *p, const struct kir_stmt *loop, const char *n, const char *step, struct where w) {
  int each = p->each;
  const char *var = ptx_val(p, loop->var), *other = p->wide[each][loop->var], *end = ptx_own(p, OWN_LONG);
  const char *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "two"), *leave = ptx_label(p, "leave");
  ptx_place_loop(p, again);
  ptx_line(p, "add.s64 %s, %s, %s", other, var, step);
  ptx_line(p, "add.s64 %s, %s, %d", end, other, each);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", is, end, n);
  ptx_line(p, "@%s bra %s", is, leave);
  w.rest = leave; /* where a check fails, as nothing is stored yet: one group after the other */
  for (int e = 0; e < 2 * each; e += each) {
    number_elements(p, loop, e, each);
    early_loads(p, loop, e, each);
    body_of(p, loop, e, each, w);
  }
  ptx_line(p, "add.s64 %s, %s, %s", var, other, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

static void wide_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each;
  const char *var = ptx_val(p, loop->var), *is = ptx_own(p, OWN_PRED), *end = ptx_own(p, OWN_LONG), *step = ptx_own(p, OWN_LONG);
  const char *again = ptx_label(p, "wide"), *apart = ptx_label(p, "apart"), *leave = ptx_label(p, "leave");
  struct where together = w;
  together.rest = apart;
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mul.lo.s64 %s, $lane, %d", var, each);
  ptx_line(p, "mul.lo.s64 %s, $lanes, %d", step, each);
  if (p->groups > 1) two_groups(p, loop, n, step, w);
  ptx_place_loop(p, again);
  ptx_line(p, "add.s64 %s, %s, %d", end, var, each);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", is, end, n);
  ptx_line(p, "@%s bra %s", is, apart);
  number_elements(p, loop, 0, each);
  early_loads(p, loop, 0, each);
  if (p->blocks && !p->plan->wide.has_columns) fetch_ahead(p, loop, end, n);
  body_of(p, loop, 0, each, together);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, apart);
  ptx_line(p, "min.s64 %s, %s, %s", end, end, n);
  one_by_one(p, loop, end, w);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, n);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  ptx_line(p, "sub.s64 %s, %s, %d", var, var, each);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* ---- Rows ----------------------------------------------------------------------------------------------------------------- */

/* Eight neighbours of 4 bytes are left as two pieces of 16. In every other 128 bytes these stand the other way round: else threads
 * that are four apart would meet in a bank. */
bool ptx_is_crossed(const struct printer *p, int width) { return p->each == 8 && width == 4; }

/* Values of a fold that has an order, to shared memory: number `slot` of the loop's. */
static void leave_values(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *fold, int slot, const char *n,
                         int e, int each) {
  weft_dtype d = (weft_dtype)p->k->vals[fold->in[0]].dtype;
  int width = kir_width(d);
  const char *r[PTX_WIDE], *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, %s", at, p->stream.n ? p->stream.left : "folds");
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, p->plan->wide.fold_bytes * slot, at);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, p->wide[e][loop->var], width, at);
  for (int k = 0; k < each; k++) {
    p->reg = p->wide[e + k], r[k] = ptx_in_register(p, d, fold->in[0]);
    if (d == WEFT_BOOL) r[k] = pattern(p, d, fold->in[0], r[k]); /* a truth stands in a predicate, which cannot be stored */
  }
  p->reg = p->wide[0];
  if (!ptx_is_crossed(p, width)) { access_pieces(p, false, ".shared", at, each, width, r); return; }
  const char *by = ptx_own(p, OWN_LONG), *other = ptx_own(p, OWN_LONG);
  ptx_line(p, "shr.u64 %s, %s, 1", by, p->wide[e][loop->var]);
  ptx_line(p, "and.b64 %s, %s, 16", by, by);
  ptx_line(p, "sub.s64 %s, %s, %s", other, at, by);
  ptx_line(p, "add.s64 %s, %s, 16", other, other);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  access_pieces(p, false, ".shared", at, 4, width, r);
  access_pieces(p, false, ".shared", other, 4, width, r + 4);
}

/* result = result o value, for elements that are of the row */
static void accumulate(struct printer *p, const struct kir_stmt *fold, int e, int each) {
  weft_dtype d = (weft_dtype)p->k->vals[fold->in[0]].dtype;
  for (int k = 0; k < each; k++) {
    p->reg = p->wide[e + k];
    const char *result = ptx_val(p, fold->out[0]), *all = ptx_own_of(p, d);
    ptx_instruction(p, (enum kir_op)fold->op, d, all, (const char *[]){ result, ptx_val(p, fold->in[0]) });
    ptx_line(p, "@%s mov.%s %s, %s", p->guard, d == WEFT_BOOL ? "pred" : ptx_bits(d), result, all);
  }
  p->reg = p->wide[0];
}

static bool has_fold_in(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_FOLD) return true;
  return false;
}

static void start_folds(struct printer *p, const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_FOLD) ptx_start(p, s);
}

/* Elements from `first` on, n of the row in all, a multiple of `each`: chunk i of this thread begins with element
 * (i threads + thread) each of these. active: by the first element of a chunk, whether it is of the row. */
static void number_chunks(struct printer *p, const struct kir_stmt *loop, const char *first, const char *n, const char *active[]) {
  int each = p->each;
  const char *step = ptx_own(p, OWN_LONG), *var = ptx_val(p, loop->var);
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mul.lo.s64 %s, $lanes, %d", step, each);
  for (int e = 0; e < p->n_wide; e += each) {
    if (e) ptx_line(p, "add.s64 %s, %s, %s", p->wide[e][loop->var], p->wide[e - each][loop->var], step);
    else if (first) ptx_line(p, "mad.lo.s64 %s, $lane, %d, %s", var, each, first);
    else ptx_line(p, "mul.lo.s64 %s, $lane, %d", var, each);
    number_elements(p, loop, e, each);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", active[e] = ptx_own(p, OWN_PRED), p->wide[e][loop->var], n);
  }
}

/* The first lane loop: what is before it in the row is uniform. */
static const struct kir_stmt *first_loop(const struct printer *p) {
  const struct kir_stmt *s = p->k->body.first;
  while (s && s->kind != KIR_LANE) s = s->kind == KIR_PAR ? s->body.first : s->next;
  return s;
}
static bool is_first_loop(const struct printer *p, const struct kir_stmt *loop) { return first_loop(p) == loop; }

/* The row that comes next on this processor is brought to the cache: that of the block of threads that is as many blocks away as
 * processors have room for. Worth while for halves, which wait for arithmetic (a layer norm of bf16, 8192 rows of 4096 on an H200:
 * 0.049 ms, 0.053 without); rows of f32 wait for memory and take longer so. */
static void fetch_row(struct printer *p, const struct kir_stmt *loop, const char *const active[]) {
  const struct kir_stmt *par = p->k->body.first;
  if (par->kind != KIR_PAR || par->extent != KIR_N || par->body.first->kind == KIR_PAR || !is_first_loop(p, loop)) return;
  const char *ahead = ptx_own(p, OWN_LONG), *away = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED), *both = ptx_own(p, OWN_PRED);
  const char *row = ptx_val(p, par->var), *n = ptx_lin(p, par->at[0]);
  ptx_line(p, "mov.u32 %s, %%nsmid", away);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", ahead, away, p->blocks);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, ahead, row);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, ahead, n);
  for (int e = 0; e < ROW_EACH; e += p->each)
    for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
      if (!is_early(p, s, loop)) continue;
      p->reg = p->wide[e];
      p->reg[par->var] = ahead;
      const char *at = ptx_address(p, s->buf, s->at);
      p->reg[par->var] = row;
      ptx_line(p, "and.pred %s, %s, %s", both, is, active[e]);
      ptx_line(p, "@%s prefetch.global.L2 [%s]", both, at);
    }
  p->reg = p->wide[0];
}

/* The early loads of the first loop of a row that is streamed: each thread takes its elements. */
static void streamed_loads(struct printer *p, const struct kir_stmt *loop, const char *n, const char *const active[]) {
  ptx_stream_await(p, n);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    for (int e = 0; e < p->n_wide && is_early(p, s, loop); e += p->each) {
      p->guard = active[e];
      if (!ptx_stream_load(p, loop, s, n, e, p->each)) load_neighbours(p, s, e, p->each);
    }
  p->reg = p->wide[0];
}

/* The row's n elements at once. */
static void row_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each, slot = 0;
  const char *active[PTX_WIDE];
  bool has_order = folds_in(p->k, loop) > 0, has_fold = has_fold_in(loop), is_taken = p->stream.n && is_first_loop(p, loop);
  number_chunks(p, loop, NULL, n, active);
  if (!has_order) start_folds(p, loop);
  if (is_taken) streamed_loads(p, loop, n, active);
  else for (int e = 0; e < p->n_wide; e += each) p->guard = active[e], early_loads(p, loop, e, each);
  p->guard = NULL;
  if (each == 8 && !p->stream.n) fetch_row(p, loop, active);
  for (int e = 0; e < p->n_wide; e += each) {
    p->guard = active[e];
    body_of(p, loop, e, each, w);
    slot = 0;
    for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
      if (s->kind != KIR_FOLD) continue;
      if (has_order) leave_values(p, loop, s, slot++, n, e, each);
      else accumulate(p, s, e, each);
    }
  }
  p->guard = NULL;
  if (has_order && p->stream.n) ptx_add_left_blocks(p, loop, p->stream.left, n);
  else if (has_order) ptx_add_left(p, loop, n);
  else if (has_fold) ptx_meet(p, loop);
  if (is_taken && !has_fold) ptx_line(p, "bar.sync 0");
  if (is_taken) ptx_stream_on(p, n);
}

/* ---- Long rows ------------------------------------------------------------------------------------------------------------ */

static struct ptx_asked *asked_for(struct printer *p, const struct kir_stmt *load) {
  for (int i = 0; i < p->n_asked; i++) if (p->asked[i].load == load) return &p->asked[i];
  return NULL;
}

static const struct ptx_asked *asked_in(const struct printer *p, int row) {
  for (int i = 0; i < p->n_asked; i++) if (p->asked[i].row == row) return &p->asked[i];
  return NULL;
}

/* The value that is kept in a row, of elements e .. e + each - 1. */
static void row_pieces(struct printer *p, const struct kir_stmt *loop, int row, bool is_load, int e, int each) {
  int v = p->plan->rows[row].of, width = p->plan->rows[row].width;
  const char *r[PTX_WIDE], *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, p->wide[e][loop->var], width, row);
  for (int k = 0; k < each; k++) p->reg = p->wide[e + k], r[k] = ptx_val(p, v);
  access_pieces(p, is_load, ptx_row_space(p), at, each, width, r);
  p->reg = p->wide[0];
}

/* Kept values of elements e .. e + each - 1, from the rows of earlier loops or to those of this one. */
static void kept_pieces(struct printer *p, const struct kir_stmt *loop, bool is_load, int e, int each) {
  for (int row = 0; row < p->plan->n_rows; row++) {
    int v = p->plan->rows[row].of;
    if (p->plan->rows[row].kind != PTX_KEEP || survey_keeps(loop, v) == is_load) continue;
    if (is_load && (!survey_uses(&loop->body, v) || p->wide[1][v] == p->wide[0][v])) continue;
    const struct ptx_asked *a = each > 1 && !is_load ? asked_in(p, row) : NULL;
    const char *there = a ? ptx_label(p, "there") : NULL;
    if (a) ptx_line(p, "@!%s bra %s", a->is_rest, there);
    row_pieces(p, loop, row, is_load, e, each);
    if (a) ptx_place(p, there);
  }
}

/* ---- Asking for the next row ---------------------------------------------------------------------------------------------- */

/* What stands in the memory of a row is kept by the loop, or needed by it. */
static bool keeps_in(const struct printer *p, const struct kir_stmt *loop, int row) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *x = &p->plan->rows[r];
    if (x->kind == PTX_KEEP && (r == row || x->shares == row) && survey_keeps(loop, x->of)) return true;
  }
  return false;
}
static bool needs(const struct printer *p, const struct kir_stmt *loop, int row) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *x = &p->plan->rows[r];
    if (x->kind == PTX_KEEP && (r == row || x->shares == row) && survey_uses(&loop->body, x->of)) return true;
  }
  return false;
}

/* The last loop that touches the memory of a row; NULL: in it others than the thread that has an element may read it. */
static const struct kir_stmt *last_of(const struct printer *p, const struct kir_stmt *first, int row) {
  const struct kir_stmt *last = first;
  for (const struct kir_stmt *s = first; s; s = s->next)
    if (s->kind == KIR_LANE && (keeps_in(p, s, row) || needs(p, s, row))) last = s;
  return keeps_in(p, last, row) || folds_again(p->k, last) ? NULL : last;
}

static bool has_doubles(const struct kir_kernel *k) {
  for (int v = 0; v < k->n_vals; v++) if (k->vals[v].dtype == WEFT_F64) return true;
  return false;
}

/* par r { .. lane c { x = load a[r,c]; keep x; .. } .. lane c { .. } }: the loads whose place is free in the last loop. */
static void find_asked(struct printer *p) {
  const struct kir_stmt *par = p->k->body.first, *first = NULL;
  if (par->kind != KIR_PAR || par->extent != KIR_N || par->next || p->each == 1 || has_doubles(p->k)) return;
  if (!par->body.last || par->body.last->kind == KIR_PAR) return;
  for (first = par->body.first; first && first->kind != KIR_LANE; first = first->next) {}
  for (const struct kir_stmt *s = first ? first->body.first : NULL; s && p->n_asked < PTX_ASKED; s = s->next) {
    if (s->kind != KIR_LOAD || !is_early(p, s, first) || p->k->bufs[s->buf].kind != KIR_IN) continue;
    if (!survey_is_known_ahead(p->k, s)) continue;
    int row = survey_keeps(first, s->out[0]) ? ptx_kept_row(p, s->out[0]) : -1;
    if (row < 0 || p->plan->rows[row].shares >= 0 || kir_width(memory_of(p, s)) != 4 || !kir_is_register(memory_of(p, s))) continue;
    const struct kir_stmt *last = last_of(p, first, row);
    if (!last) continue;
    struct ptx_asked *a = &p->asked[p->n_asked++];
    *a = (struct ptx_asked){ .load = s, .last = last, .row = row, .length = ptx_own(p, OWN_LONG), .end = ptx_own(p, OWN_LONG) };
    ptx_line(p, "mov.s64 %s, 0", a->length);
  }
}

/* Before the first loop of a row. */
static void await_asked(struct printer *p) {
  if (p->n_asked) ptx_line(p, "cp.async.wait_group 0");
  for (int i = 0; i < p->n_asked; i++) {
    struct ptx_asked *a = &p->asked[i];
    if (p->shift.by) ptx_line(p, "add.s64 %s, %s, %s", a->end, a->length, p->shift.head);
    else ptx_line(p, "mov.s64 %s, %s", a->end, a->length);
  }
}

/* Before the last loop: where the next row of this block of threads begins, and how much of it has a place that is whole in
 * both. */
static void begin_asking(struct printer *p, struct ptx_asked *a, const char *n) {
  const struct kir_stmt *par = p->k->body.first, *s = a->load;
  const char *next = ptx_own(p, OWN_LONG), *row = ptx_val(p, par->var), *is = ptx_own(p, OWN_PRED), *at;
  int axis = ptx_axis_along(p->shape, s, first_loop(p)->var);
  p->uses_thread[PTX_ROWS] = true;
  ptx_line(p, "add.s64 %s, %s, $rows", next, row);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, next, ptx_lin(p, par->at[0]));
  ptx_line(p, "mov.s64 %s, 0", ptx_val(p, s->at[axis].term[0].val[0]));
  p->reg[par->var] = next;
  at = ptx_address(p, s->buf, s->at);
  p->reg[par->var] = row;
  a->from = at;
  ptx_line(p, "mov.s64 %s, %s", a->length, n);
  if (p->shift.by) {
    const char *own = ptx_own(p, OWN_LONG);
    ptx_line(p, "or.b64 %s, %s, 15", a->from = ptx_own(p, OWN_LONG), at);
    ptx_line(p, "add.s64 %s, %s, 1", a->from, a->from);
    ptx_line(p, "sub.s64 %s, %s, %s", own, a->from, at);
    ptx_line(p, "shr.u64 %s, %s, 2", own, own);
    ptx_line(p, "sub.s64 %s, %s, %s", a->length, n, own);
    ptx_line(p, "and.b64 %s, %s, -4", a->length, a->length);
    ptx_line(p, "sub.s64 %s, %s, %s", own, p->shift.end, p->shift.head);
    ptx_line(p, "min.s64 %s, %s, %s", a->length, a->length, own);
  }
  ptx_line(p, "selp.s64 %s, %s, 0, %s", a->length, a->length, is);
}

/* Elements e .. e + each - 1 of the next row take the place of those of this one, which this thread has read. */
static void ask(struct printer *p, const struct ptx_asked *a, const struct kir_stmt *loop, int e, int each) {
  const char *c = p->wide[e][loop->var], *to = ptx_own(p, OWN_LONG), *at = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  int width = p->plan->rows[a->row].width;
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", to, c, width, a->row);
  if (p->shift.by) {
    const char *far = ptx_own(p, OWN_LONG);
    ptx_line(p, "sub.s64 %s, %s, %s", far, c, p->shift.head);
    c = far;
  }
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, c, width, a->from);
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, c, a->length, p->guard);
  for (int i = 0; i < each * width; i += 16) ptx_line(p, "@%s cp.async.cg.shared.global [%s+%d], [%s+%d], 16", is, to, i, at, i);
}

/* Elements e .. e + each - 1, which are asked for already. */
static void long_part(struct printer *p, const struct kir_stmt *loop, int e, int each, struct where w) {
  bool has_order = folds_in(p->k, loop) > 0;
  kept_pieces(p, loop, true, e, each);
  body_of(p, loop, e, each, w);
  kept_pieces(p, loop, false, e, each);
  for (const struct kir_stmt *s = loop->body.first; s && !has_order; s = s->next)
    if (s->kind == KIR_FOLD) accumulate(p, s, e, each);
  for (int i = 0; i < p->n_asked && each > 1; i++) if (p->asked[i].last == loop) ask(p, &p->asked[i], loop, e, each);
}

/* Before the first loop of a row: how many elements stand before the first whole 16 bytes, and where the last ones begin. Kept rows
 * move so that these are whole there, too; other threads may still be reading those of the row before. */
static void shift_rows(struct printer *p, const char *n) {
  const struct kir_stmt *s = p->plan->wide.along;
  int width = kir_width((weft_dtype)p->k->bufs[s->buf].dtype), axis = p->plan->wide.axis[0];
  const char *low = ptx_own(p, OWN_LONG), *to = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "mov.s64 %s, 0", ptx_val(p, s->at[axis].term[0].val[0]));
  ptx_line(p, "and.b64 %s, %s, 15", low, ptx_address(p, s->buf, s->at));
  ptx_line(p, "shr.u64 %s, %s, %d", to, low, width == 8 ? 3 : 2);
  ptx_line(p, "sub.s64 %s, %s, %s", by, to, p->shift.by);
  ptx_line(p, "mov.s64 %s, %s", p->shift.by, to);
  for (int row = 0; row < p->plan->n_rows; row++)
    if (p->plan->rows[row].kind == PTX_KEEP)
      ptx_line(p, "mad.lo.s64 $row%d, %s, %d, $row%d", row, by, p->plan->rows[row].width, row);
  ptx_line(p, "sub.s64 %s, %d, %s", p->shift.head, 16 / width, to); /* so that pieces of all rows have the same places */
  ptx_line(p, "sub.s64 %s, %s, %s", p->shift.end, n, p->shift.head);
  ptx_line(p, "and.b64 %s, %s, %d", p->shift.end, p->shift.end, -(16 / width));
  ptx_line(p, "add.s64 %s, %s, %s", p->shift.end, p->shift.end, p->shift.head);
}

/* The elements before the head and from the end on, fewer than threads, one each. */
static void edges(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  const char *var = ptx_val(p, loop->var), *far = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.lt.s64 %s, $lane, %s", is, p->shift.head);
  ptx_line(p, "sub.s64 %s, $lane, %s", far, p->shift.head);
  ptx_line(p, "add.s64 %s, %s, %s", far, far, p->shift.end);
  ptx_line(p, "selp.s64 %s, $lane, %s, %s", var, far, is);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, var, n);
  p->guard = is;
  early_loads(p, loop, 0, 1);
  long_part(p, loop, 0, 1, w);
  p->guard = NULL;
}

static bool begin_all(struct printer *p, const struct kir_stmt *loop, const char *n) {
  bool asks = false;
  for (int i = 0; i < p->n_asked; i++) {
    if (p->asked[i].last != loop) continue;
    begin_asking(p, &p->asked[i], n);
    asks = true;
  }
  return asks;
}

enum { AGAIN = 8 }; /* elements of a lane at a time */

/* Element `var` of what is folded once more: from rows, else computed as ever. */
static void fold_one(struct printer *p, const struct kir_stmt *loop, const bool needs[], struct where w) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *x = &p->plan->rows[r];
    if (x->kind != PTX_KEEP || !needs[x->of] || !(survey_keeps(loop, x->of) || survey_uses(&loop->body, x->of))) continue;
    const char *at = ptx_own(p, OWN_LONG);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, ptx_val(p, loop->var), x->width, r);
    ptx_load(p, ptx_row_space(p), (weft_dtype)p->k->vals[x->of].dtype, ptx_val(p, x->of), at);
  }
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind == KIR_FOLD) ptx_accumulate(p, s);
    else if ((s->kind == KIR_OP || s->kind == KIR_LOAD) && needs[s->out[0]] && !survey_keeps(loop, s->out[0]))
      ptx_statements(p, s, s->next, w);
  }
  ptx_line(p, "add.s64 %s, %s, 32", ptx_val(p, loop->var), ptx_val(p, loop->var));
}

/* The folds of a loop, behind it and a barrier: a warp takes blocks of 4096 elements, lane l has accumulator l. */
static void fold_again(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  bool *needs = arena_take(p->arena, (size_t)(p->k->n_vals + 1) * sizeof *needs);
  if (!needs || !fold_needs(p->k, loop, needs)) { ptx_refuse(p, ""); return; }
  struct ptx_blocks b = ptx_blocks_open(p, loop, "0", n);
  const char *var = ptx_val(p, loop->var), *is = ptx_own(p, OWN_PRED), *far = ptx_own(p, OWN_LONG), *many = ptx_label(p, "many"),
             *few = ptx_label(p, "few"), *done = ptx_label(p, "done");
  ptx_line(p, "cvt.u64.u32 %s, %s", far, b.lane);
  ptx_line(p, "add.s64 %s, %s, %s", var, b.from, far);
  ptx_place_loop(p, many);
  ptx_line(p, "add.s64 %s, %s, %d", far, var, 32 * (AGAIN - 1));
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, far, b.to);
  ptx_line(p, "@%s bra %s", is, few);
  for (int i = 0; i < AGAIN; i++) fold_one(p, loop, needs, w);
  ptx_line(p, "bra %s", many);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, b.to);
  ptx_line(p, "@%s bra %s", is, done);
  fold_one(p, loop, needs, w);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
  ptx_blocks_close(p, loop, &b);
  ptx_blocks_meet(p, loop, &b);
}

/* The early loads of a part of the row. What was asked for, while the row before was stored, stands in its place if that is all of
 * the part; else it is loaded once more. */
static void part_loads(struct printer *p, const struct kir_stmt *loop, const char *until, const char *const active[]) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (!is_early(p, s, loop)) continue;
    struct ptx_asked *a = asked_for(p, s);
    const char *there = a ? ptx_label(p, "there") : NULL, *met = a ? ptx_label(p, "met") : NULL;
    if (a) ptx_line(p, "setp.gt.s64 %s, %s, %s", a->is_rest = ptx_own(p, OWN_PRED), until, a->end);
    if (a) ptx_line(p, "@!%s bra %s", a->is_rest, there);
    for (int e = 0; e < ROW_EACH; e += p->each) p->guard = active[e], load_neighbours(p, s, e, p->each);
    if (!a) continue;
    ptx_line(p, "bra %s", met);
    ptx_place(p, there);
    for (int e = 0; e < ROW_EACH; e += p->each) p->guard = active[e], row_pieces(p, loop, a->row, true, e, p->each);
    ptx_place(p, met);
  }
  p->reg = p->wide[0];
}

/* The elements of the row, by all threads. */
static void go_through(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each;
  const char *active[PTX_WIDE], *first = ptx_own(p, OWN_LONG), *is_over = ptx_own(p, OWN_PRED), *step = ptx_own(p, OWN_LONG);
  const char *again = ptx_label(p, "part"), *leave = ptx_label(p, "leave"), *end = n, *until = ptx_own(p, OWN_LONG);
  bool is_shifted = p->shift.by;
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mul.lo.s64 %s, $lanes, %d", step, ROW_EACH);
  ptx_line(p, "mov.s64 %s, %s", first, is_shifted ? p->shift.head : "0");
  if (is_shifted) edges(p, loop, n, w), end = p->shift.end;
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is_over, first, end);
  ptx_line(p, "@%s bra %s", is_over, leave);
  number_chunks(p, loop, first, end, active);
  ptx_line(p, "add.s64 %s, %s, %s", first, first, step);
  ptx_line(p, "min.s64 %s, %s, %s", until, first, end);
  part_loads(p, loop, until, active);
  for (int e = 0; e < ROW_EACH; e += each) p->guard = active[e], long_part(p, loop, e, each, w);
  p->guard = NULL;
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

static bool does_more_than_fold(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_KEEP || s->kind == KIR_STORE) return true;
  return false;
}

static void long_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  bool has_order = folds_in(p->k, loop) > 0, is_again = folds_again(p->k, loop), is_first = is_first_loop(p, loop);
  if (p->shift.by && is_first) shift_rows(p, n);
  if (is_first) await_asked(p);
  bool asks = begin_all(p, loop, n);
  if (!has_order) start_folds(p, loop);
  if (!is_again || does_more_than_fold(loop)) go_through(p, loop, n, w);
  if (asks) ptx_line(p, "cp.async.commit_group");
  if (has_order) ptx_line(p, "bar.sync 0");
  if (is_again) fold_again(p, loop, n, w);
  else if (has_order) ptx_add_kept(p, loop, "0", n);
  else if (has_fold_in(loop)) ptx_meet(p, loop);
}

/* ---- Short rows ----------------------------------------------------------------------------------------------------------- */

/* 32 elements at a time, each with an accumulator of its own, as the order of a row says; then the tree. */
enum { SHORT_EACH = 32, SHORT_LENGTH = 256, SHORT_THREADS = 128, MANY_ROWS = 1 << 14 };

bool ptx_find_short(const struct survey *s, const struct ptx_wide *w, struct ptx_nest *r) {
  int n_folds = 0, bytes = 0, n = 0;
  *r = (struct ptx_nest){ 0 };
  if (!w->is_rows || s->is_dealt || s->n_checks || !ptx_find_nest(s->k, r)) return false;
  for (const struct kir_stmt *x = r->lane->body.first; x; x = x->next, n++) {
    if (x->kind != KIR_FOLD && x->kind != KIR_OP && x->kind != KIR_LOAD) return false;
    if (x->kind != KIR_FOLD) continue;
    if (x->n_out != 1 || x->op == KIR_CALL || s->k->vals[x->in[0]].dtype == WEFT_BOOL) return false;
    n_folds++, bytes += kir_width((weft_dtype)s->k->vals[x->in[0]].dtype);
  }
  return n_folds && bytes <= 8 && n * SHORT_EACH <= MOST_WIDE;
}

enum { MOST_SHORT_FOLDS = 8 };
struct short_folds { int n; const struct kir_stmt *fold[MOST_SHORT_FOLDS]; const char *a[MOST_SHORT_FOLDS][SHORT_EACH]; };

static void start_short(struct printer *p, const struct kir_stmt *loop, struct short_folds *f) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind != KIR_FOLD) continue;
    weft_dtype d = (weft_dtype)p->k->vals[s->in[0]].dtype;
    ptx_start(p, s);
    for (int e = 0; e < SHORT_EACH; e++) ptx_mov(p, d, f->a[f->n][e] = ptx_own_of(p, d), ptx_val(p, s->out[0]));
    f->fold[f->n++] = s;
  }
}

/* a[e] = a[e] o value, for elements that are of the row */
static void add_short(struct printer *p, const struct short_folds *f, int e, int each) {
  for (int i = 0; i < f->n; i++)
    for (int k = e; k < e + each; k++) {
      weft_dtype d = (weft_dtype)p->k->vals[f->fold[i]->in[0]].dtype;
      const char *all = ptx_own_of(p, d);
      p->reg = p->wide[k];
      ptx_instruction(p, (enum kir_op)f->fold[i]->op, d, all, (const char *[]){ f->a[i][k], ptx_val(p, f->fold[i]->in[0]) });
      ptx_line(p, "@%s mov.%s %s, %s", p->guard, ptx_bits(d), f->a[i][k], all);
    }
  p->reg = p->wide[0];
}

static void short_tree(struct printer *p, struct short_folds *f) {
  for (int i = 0; i < f->n; i++) {
    weft_dtype d = (weft_dtype)p->k->vals[f->fold[i]->in[0]].dtype;
    for (int half = SHORT_EACH / 2; half; half /= 2)
      for (int e = 0; e < half; e++) {
        const char *both = ptx_own_of(p, d);
        ptx_instruction(p, (enum kir_op)f->fold[i]->op, d, both, (const char *[]){ f->a[i][e], f->a[i][e + half] });
        f->a[i][e] = both;
      }
    ptx_mov(p, d, ptx_val(p, f->fold[i]->out[0]), f->a[i][0]);
  }
}

static void short_row(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  const char *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "part"), *active[SHORT_EACH];
  struct short_folds f = { 0 };
  int each = p->each;
  start_short(p, loop, &f);
  ptx_line(p, "mov.s64 %s, 0", p->wide[0][loop->var]);
  ptx_val(p, loop->var);
  ptx_place_loop(p, again);
  for (int e = 0; e < SHORT_EACH; e += each) {
    if (e) ptx_line(p, "add.s64 %s, %s, %d", p->wide[e][loop->var], p->wide[0][loop->var], e);
    number_elements(p, loop, e, each);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", active[e] = ptx_own(p, OWN_PRED), p->wide[e][loop->var], n);
  }
  for (int e = 0; e < SHORT_EACH; e += each) p->guard = active[e], early_loads(p, loop, e, each);
  for (int e = 0; e < SHORT_EACH; e += each) p->guard = active[e], body_of(p, loop, e, each, w), add_short(p, &f, e, each);
  p->guard = NULL;
  ptx_line(p, "add.s64 %s, %s, %d", p->wide[0][loop->var], p->wide[0][loop->var], SHORT_EACH);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, p->wide[0][loop->var], n);
  ptx_line(p, "@%s bra %s", is, again);
  short_tree(p, &f);
}

void ptx_short_body(struct printer *p) {
  const struct ptx_nest *r = &p->plan->shorts;
  struct where alone = { .lane = r->lane, .lo = "0", .rest = "$done" };
  const char *q = ptx_own(p, OWN_WORD), *by = ptx_own(p, OWN_WORD), *tid = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  p->threads = SHORT_THREADS, p->each = p->plan->wide.each;
  if (!ptx_name_elements(p, SHORT_EACH)) return;
  ptx_line(p, "mov.u32 %s, %%ctaid.x", q);
  ptx_line(p, "mov.u32 %s, %%ntid.x", by);
  ptx_line(p, "mov.u32 %s, %%tid.x", tid);
  ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", q, q, by, tid);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is, q, ptx_nest_indices(p, r, q));
  ptx_line(p, "@%s bra $done", is);
  ptx_nest_before(p, r, alone);
  short_row(p, r->lane, ptx_lin(p, r->lane->at[0]), alone);
  ptx_statements(p, r->lane->next, NULL, alone);
  ptx_place(p, "$done");
}

/* ---- The entries ---------------------------------------------------------------------------------------------------------- */

static void long_rows(struct printer *p, int each) {
  if (!ptx_name_elements(p, ROW_EACH)) return;
  p->threads = LONG_THREADS, p->each = each;
  p->rows_are_shared = true; /* else this entry is not launched */
  find_asked(p);
  if (p->n_asked) p->blocks = ASKING_BLOCKS;
  p->lane_loop = long_loop;
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}

void ptx_long_body(struct printer *p) { long_rows(p, p->plan->wide.each); }
void ptx_loose_body(struct printer *p) { long_rows(p, 1); }

void ptx_shifted_body(struct printer *p) {
  p->shift.by = ptx_own(p, OWN_LONG), p->shift.head = ptx_own(p, OWN_LONG), p->shift.end = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, 0", p->shift.by);
  long_rows(p, p->plan->wide.each);
}

static int length(const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) n += 1 + length(&s->body);
  return n;
}

/* In lane loops; where they are long, registers are better left to the compiler. */
static bool has_quotients(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE && p->each * length(&s->body) > MOST_OF_QUOTIENTS) return false;
    if (ptx_is_of_number(p, s) || has_quotients(p, &s->body)) return true;
  }
  return false;
}

/* A lane loop behind the first one loads along the row. */
static bool loads_later(struct printer *p) {
  const struct kir_stmt *next, *first = NULL;
  for (const struct kir_stmt *s = p->k->body.first; s; s = next) {
    next = s->kind == KIR_PAR ? s->body.first : s->next;
    for (const struct kir_stmt *x = first && s->kind == KIR_LANE ? s->body.first : NULL; x; x = x->next)
      if (x->kind == KIR_LOAD && is_neighbours(p, x, s)) return true;
    if (s->kind == KIR_LANE && !first) first = s;
  }
  return false;
}

/* How many blocks of threads, each with a row, are to find room on a processor, so that some load while others wait at a barrier:
 * six where elements are loaded as halves, five where a row is but kept, four where two values, or one of 8 bytes, are kept side
 * by side, or more is loaded along the row later; three where more is kept. With one more the compiler puts registers into memory
 * and back, or asks for one load after the other. On an H200, 8192 rows of 4096, ms with 4, 5 and 6: softmax 0.082, 0.073, 0.083;
 * RMS norm 0.073, 0.074, 0.079; its gradient 0.148, 0.170, 0.230 (3: 0.154); a layer norm of bf16 0.059, 0.057, 0.052. */
static int row_blocks(struct printer *p) {
  int kept = 0;
  for (int i = 0; i < p->plan->n_rows; i++)
    if (p->plan->rows[i].kind == PTX_KEEP && p->plan->rows[i].shares < 0) kept += p->plan->rows[i].width > 4 ? 2 : 1;
  if (kept > 1) return kept > 2 ? ROW_BLOCKS - 1 : ROW_BLOCKS;
  if (p->each == 8) return ROW_BLOCKS + 2;
  return loads_later(p) ? ROW_BLOCKS : ROW_BLOCKS + 1;
}

/* Rows that stand where a loaded number says: a thread waits for the number and then for the row, so it asks for two pieces of it.
 * Of all that is stored nothing is stored before the check. */
static bool is_of_rows_by_number(struct printer *p) {
  const struct kir_stmt *s = p->k->body.first, *row = NULL;
  while (s && s->kind != KIR_LANE) {
    if (s->kind == KIR_PAR) row = s;
    s = s->kind == KIR_PAR ? s->body.first : s->next;
  }
  for (const struct kir_stmt *x = s && row ? s->body.first : NULL; x; x = x->next)
    if (x->kind == KIR_CHECK) return p->wide[1][x->in[0]] == p->wide[0][x->in[0]];
  return false;
}

void ptx_streamed_body(struct printer *p) {
  p->each = p->plan->wide.each, p->threads = PTX_STREAM_THREADS, p->blocks = 1;
  if (!ptx_name_elements(p, PTX_STREAM_EACH)) return;
  ptx_stream_begin(p);
  p->lane_loop = row_loop;
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}

void ptx_wide_body(struct printer *p) {
  p->each = p->plan->wide.each;
  p->blocks = p->plan->wide.is_rows ? row_blocks(p) : p->plan->wide.has_columns ? COLUMN_BLOCKS
              : has_quotients(p, &p->k->body) ? QUOTIENT_BLOCKS : 0;
  if (!ptx_name_elements(p, p->plan->wide.is_rows ? ROW_EACH : p->each)) return;
  p->groups = !p->plan->wide.is_rows && !p->blocks && p->each > 1 && is_of_rows_by_number(p) ? 2 : 1;
  if (p->groups > 1 && !ptx_name_elements(p, 2 * p->each)) return;
  p->lane_loop = p->plan->wide.is_rows ? row_loop : wide_loop;
  if (p->plan->merges_early) ptx_line(p, "griddepcontrol.launch_dependents");
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------ */

static int64_t parts(int64_t n, int64_t b) { return n > 0 ? (n - 1) / b + 1 : 0; }

static bool is_aligned(const struct ptx_plan *p, int i, const struct bound bufs[], const int64_t sizes[], const uint64_t args[]) {
  const struct ptx_buf *b = &p->bufs[p->wide.bufs[i]];
  const struct bound *x = &bufs[p->wide.bufs[i]];
  int64_t width = kir_width((weft_dtype)b->dtype), bytes = least(16, width * p->wide.each);
  if ((uintptr_t)x->data % (uintptr_t)bytes) return false;
  for (int d = 0; d < b->rank; d++)
    if (d != p->wide.axis[i] && x->stride[d] * width % bytes && ptx_size(&b->dims[d], sizes, args) > 1) return false;
  return true;
}

/* All rows begin as many bytes behind whole 16 of them. */
static bool are_alike(const struct ptx_plan *p, const struct bound bufs[], const int64_t sizes[], const uint64_t args[]) {
  const struct ptx_wide *w = &p->wide;
  const struct bound *first = &bufs[w->bufs[0]];
  int64_t width = kir_width((weft_dtype)p->bufs[w->bufs[0]].dtype);
  if ((uintptr_t)first->data % (uintptr_t)width) return false;
  for (int i = 1; i < w->n_bufs; i++) {
    const struct bound *x = &bufs[w->bufs[i]];
    const struct ptx_buf *b = &p->bufs[w->bufs[i]];
    if (((uintptr_t)x->data - (uintptr_t)first->data) % 16) return false;
    for (int d = 0; d < b->rank; d++)
      if (d != w->axis[i] && (x->stride[d] - first->stride[d]) * width % 16 && ptx_size(&b->dims[d], sizes, args) > 1) return false;
  }
  return true;
}

/* There are so many rows that each can have a thread. */
static bool is_short(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], struct ptx_shape *s) {
  int64_t rows = p->short_entry ? 1 : 0;
  for (int i = 0; i < p->shorts.n_pars; i++) {
    int64_t m = ptx_size(&p->shorts.pars[i], sizes, args);
    if (m < 1 || __builtin_mul_overflow(rows, m, &rows) || rows > INT32_MAX / 2) return false;
  }
  if (rows < MANY_ROWS) return false;
  s->block[0] = SHORT_THREADS, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)parts(rows, SHORT_THREADS), s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = s->row_bytes = s->scratch_bytes = 0;
  return true;
}

/* How many such rows have room on a processor at a time. */
static int64_t rows_with_room(const struct ptx_plan *p, const struct ptx_machine *m, const struct ptx_shape *s) {
  return ((int64_t)m->shared_bytes + RESERVED_BYTES) / ((int64_t)(s->shared_bytes + p->partial_bytes) + RESERVED_BYTES);
}

/* Where a row is alone on a processor it has more threads. Blocks of threads that ask for their next row are as many as have room.
 * Softmax on an H200, ms: 2048 rows of 20000 0.113 with 256 threads, 0.124 with 512; 1024 rows of 32768 0.123 and 0.114. */
static void long_shape(const struct ptx_plan *p, const struct ptx_machine *m, unsigned threads, struct ptx_shape *s) {
  int64_t room = rows_with_room(p, m, s);
  s->block[0] = room > 1 ? threads : LONG_THREADS;
  if (p->wide.asks && !(s->is_loose && !s->is_shifted) && room <= FEW_ROWS)
    s->grid[0] = (unsigned)least(s->grid[0], room * m->n_processors);
}

bool ptx_wide_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                    const struct bound bufs[], struct ptx_shape *s) {
  const struct ptx_wide *w = &p->wide;
  if (!p->wide_entry) return false;
  int64_t n = ptx_size(&w->length, sizes, args);
  bool aligned = n % w->each == 0 || !w->is_rows;
  if (n < w->each) return false;
  for (int i = 0; i < w->n_bufs; i++) aligned = aligned && is_aligned(p, i, bufs, sizes, args);
  bool shifted = !aligned && p->shifted_entry && n >= LEAST_SHIFTED && are_alike(p, bufs, sizes, args);
  if (!aligned && !shifted && (!p->long_entry || n <= ROW_LENGTH)) return false;
  if (!w->is_rows) {
    int64_t lanes = parts(n, w->each * w->groups), x = 1, rows = s->grid[1] * (int64_t)s->block[1], y = 1;
    if (w->has_columns && lanes * rows < (int64_t)LEAST_OF_COLUMNS * m->n_processors) return false;
    while (x < lanes && x < 256) x *= 2;
    while (x > 32 && parts(lanes, x) * x - lanes > lanes / 8) x /= 2; /* few threads without work */
    while (y < rows && x * y < 256) y *= 2;
    s->block[0] = (unsigned)x, s->block[1] = (unsigned)y;
    s->grid[0] = (unsigned)least(parts(lanes, x), INT32_MAX), s->grid[1] = (unsigned)least(parts(rows, y), 65535);
    return s->is_wide = true;
  }
  if (aligned && n <= SHORT_LENGTH && is_short(p, sizes, args, s)) return s->is_wide = s->is_short = true;
  unsigned threads = 32;
  while (threads * ROW_EACH < n && threads < LONG_THREADS / 2) threads *= 2;
  if (n > ROW_LENGTH && aligned && ptx_streamed_shape(p, m, n, s)) return s->is_wide = true;
  if (n > ROW_LENGTH || shifted) {
    if (!p->long_entry || s->row_bytes) return false;
    s->shared_bytes -= s->fold_bytes; /* the main entry leaves there what it folds */
    s->is_loose = !aligned, s->is_shifted = shifted;
    long_shape(p, m, threads, s);
    return s->is_wide = s->is_long = true;
  }
  s->block[0] = threads;
  s->shared_bytes = (size_t)(w->n_folds * n * w->fold_bytes);
  s->row_bytes = s->scratch_bytes = 0;
  return s->is_wide = true;
}
