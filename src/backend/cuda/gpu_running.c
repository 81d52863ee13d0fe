/* gpu_running.c -- running combines along rows: a further entry of which a thread goes through a whole row, as the order says.
 *
 * par .. { uniform; lane i { x = load a[..,i]; s = prefix add(x); .. store y[..,i] = .. } uniform }. The main entry gives a row to
 * a warp, whose lanes wait for each other. Here a warp has ROWS rows, a lane each, and shares nothing with the other warps of its
 * block. Threads would read lines of memory that are far apart, so the warp brings tiles of 512 bytes of each row into shared
 * memory, STAGES of them ahead, and takes what is stored back in the same way. Values of up to 32 elements are in registers at a
 * time: all are loaded before the first is used.
 *
 * A long row is gone through twice, block by block: for the totals of its blocks, then on top of these (prefix_kernel.c). If it is
 * longer than the second cache, none of it would still be there the second time; so the first kernel, which stores nothing along
 * the row, asks the cache to hold on to a part, and the second one to let go. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

enum { WARPS = 4, ROWS = 8, LINE = 512, STAGES = 4, FEW = 4, MANY_ROWS = 1024 };
enum { MOST_STATEMENTS = 640 }; /* printed: as many elements at a time as keep below it */
enum { HINTS = 90 }; /* the compute capability from which on they are given: 7.0 of PTX has none */
/* Of each ten lines the cache holds on to so many: 20 MB of the 64 of 16M numbers of f32. Their running sum takes 0.080 ms on an
 * H200, where it takes 0.087 without, 0.081 with 4 or 5 of ten and 0.086 with 7. */
enum { KEPT_OF_TEN = 3 };
enum { SHARED_BYTES = 24 << 10 }; /* of a warp, at most: every GPU that is served has four times as much for a block */

/* ---- Which kernels ----------------------------------------------------------------------------------------------------- */

static bool is_only(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

/* 1, -1: neighbours along the lanes stand so; 0: the access does not go along them; 2: in some other way. */
static int direction(const struct shape_class *shape, const struct kir_stmt *s, int lane) {
  int found = 0;
  for (int d = 0; d < s->n_at; d++) {
    int stride = shape->stride[s->buf][d];
    if (stride == STRIDE_0 || !survey_mentions(s->at[d], lane)) continue;
    if (found || !is_only(s->at[d], lane) || stride == STRIDE_ANY) return 2;
    found = stride == STRIDE_1 ? 1 : -1;
  }
  return found;
}

static int axis_along(const struct shape_class *shape, const struct kir_stmt *s, int lane) {
  int d = 0;
  while (shape->stride[s->buf][d] == STRIDE_0 || !survey_mentions(s->at[d], lane)) d++;
  return d;
}

static bool add_line(const struct survey *s, const struct shape_class *shape, const struct kir_stmt *x, struct ptx_running *r) {
  int width = kir_width((weft_dtype)s->k->bufs[x->buf].dtype), way = direction(shape, x, r->nest.lane->var);
  bool is_in = s->k->bufs[x->buf].kind == KIR_IN;
  if (s->k->bufs[x->buf].kind > KIR_INOUT) return x->kind == KIR_LOAD;
  if (x->kind == KIR_LOAD && way == 0) return is_in;
  if (way == 0 || way == 2 || r->n_lines == PTX_RUNNING || (x->kind == KIR_LOAD && !is_in)) return false;
  if (x->kind == KIR_STORE && (x->op != KIR_SET || s->bufs[x->buf].is_loaded || s->bufs[x->buf].is_shared)) return false;
  r->line[r->n_lines++] = (struct ptx_line_of){ .s = x, .buf = x->buf, .axis = axis_along(shape, x, r->nest.lane->var),
                                                .width = width, .is_back = way < 0 };
  if (r->width < width) r->width = width;
  return true;
}

static int length(const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) n += 1 + length(&s->body);
  return n;
}

static bool look_in(const struct survey *s, const struct shape_class *shape, const struct kir_block *b, bool is_top,
                    struct ptx_running *r, int *n) {
  for (const struct kir_stmt *x = b->first; x; x = x->next) {
    ++*n;
    switch ((enum kir_kind)x->kind) {
      case KIR_OP: case KIR_YIELD: break;
      case KIR_LOAD: case KIR_STORE: if (!is_top || !add_line(s, shape, x, r)) return false; break;
      case KIR_PREFIX:
        if (x->op == KIR_CALL) *n += 2 * length(&s->k->fns[x->fn].body);
        if (!is_top || x->n_out > PTX_TUPLE || (x->n_from && x->op != KIR_CALL)) return false;
        r->is_ordered |= ptx_is_ordered(s->k, x);
        break;
      case KIR_IF: if (!look_in(s, shape, &x->body, false, r, n)) return false; break;
      case KIR_PAR: case KIR_SERIAL: case KIR_LANE: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_FOLD: case KIR_KEEP:
      case KIR_LOCALS: case KIR_CHECK: case KIR_KINDS: return false;
    }
  }
  return true;
}

static bool is_uniform(const struct kir_stmt *s, bool may_store) {
  return s->kind == KIR_OP || s->kind == KIR_LOAD || (may_store && s->kind == KIR_STORE && s->op == KIR_SET);
}

bool ptx_find_nest(const struct kir_kernel *k, struct ptx_nest *r) {
  const struct kir_block *b = &k->body;
  while (b->last && b->last->kind == KIR_PAR) {
    const struct kir_stmt *last = b->last;
    if (last->extent != KIR_N || last->n_private || r->n_pars == PTX_NEST_PARS) return false;
    for (const struct kir_stmt *s = b->first; s != last; s = s->next) if (!is_uniform(s, false)) return false;
    r->par[r->n_pars++] = last, b = &last->body;
  }
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE ? r->lane || s->extent != KIR_N : !is_uniform(s, r->lane != NULL)) return false;
    if (s->kind == KIR_LANE) r->lane = s;
  }
  return r->lane && r->n_pars;
}

static bool has_prefix(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_PREFIX) return true;
  return false;
}

static int pitch(const struct ptx_running *r, int width) { return LINE / r->width * width + 16; } /* lanes meet in no bank */

/* Elements that are in registers at a time, each of which takes n statements; 0: that is too many. */
static int n_together(const struct ptx_running *r, int n) {
  int group = (int)least(LINE / r->width, PTX_WIDE);
  while (group > FEW && group * n > MOST_STATEMENTS) group /= 2;
  return group * n > MOST_STATEMENTS ? 0 : group;
}

bool ptx_find_running(const struct survey *s, const struct shape_class *shape, struct ptx_running *r) {
  int n = 0, n_loads = 0;
  *r = (struct ptx_running){ 0 };
  if (!s->is_cooperative || s->is_single || s->private_loop || s->owned || s->n_checks) return false;
  if (!ptx_find_nest(s->k, &r->nest)) return false;
  if (!has_prefix(r->nest.lane) || !look_in(s, shape, &r->nest.lane->body, true, r, &n) || !r->n_lines) return false;
  r->group = n_together(r, n);
  for (int i = 0; i < r->n_lines; i++) {
    struct ptx_line_of *l = &r->line[i];
    bool is_load = l->s->kind == KIR_LOAD;
    l->at = r->bytes, n_loads += is_load, r->bytes += (is_load ? STAGES : 1) * ROWS * pitch(r, l->width);
  }
  return n_loads && r->group && r->bytes <= SHARED_BYTES;
}

/* ---- Registers of the printing -------------------------------------------------------------------------------------------- */

struct running {
  const struct ptx_running *r;
  const char *lane;                /* of the warp */
  const char *memory;              /* the shared memory of the warp */
  const char *is_row;              /* this lane has a row of its own */
  const char *n;                   /* elements of a row, 64 bits */
  const char *column;              /* the first one of the tile */
  const char *left;                /* elements from there on, a word */
  const char *stage;               /* bytes from the first stage to this tile's, for lines of LINE bytes; .. */
  const char *ahead;               /* .. and to the one that is loaded */
  const char *own[PTX_RUNNING];    /* by line: shared memory of this lane's row in the stage */
  const char *hint;                /* an operand of loads and stores, for the second cache; NULL: they have none */
  const char *far[PTX_RUNNING][ROWS]; /* by line: addresses in memory of the pieces of 16 bytes that this lane moves */
};

static int columns_of(const struct ptx_running *r) { return LINE / r->width; }           /* elements of a tile's row */
static int pieces_of(const struct ptx_running *r, int width) { return columns_of(r) * width / 16; } /* a power of two, 32 at most */
static int turns_of(const struct ptx_running *r, int width) { int n = ROWS * pieces_of(r, width) / 32; return n ? n : 1; }

static const char *word(struct printer *p, const char *format, const char *a, int b) {
  const char *r = ptx_own(p, OWN_WORD);
  ptx_line(p, format, r, a, b);
  return r;
}

static const char *shared_place(struct printer *p, const struct running *w, int at, const char *row, int pitch_,
                                const char *piece) {
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.u64 %s, %s, %d", r, w->memory, at);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", r, row, pitch_, r);
  if (piece) ptx_line(p, "mad.wide.u32 %s, %s, 16, %s", r, piece, r);
  return r;
}

/* Which row and which piece of it this lane moves, in its first turn. */
static void mover(struct printer *p, const struct running *w, int width, const char **row, const char **piece) {
  int pieces = pieces_of(w->r, width), shift = __builtin_ctz((unsigned)pieces);
  *row = word(p, "shr.u32 %s, %s, %d", w->lane, shift), *piece = word(p, "and.b32 %s, %s, %d", w->lane, pieces - 1);
}

/* Lane k has the address of row k; the lanes that move pieces of it are told. */
static void find_pieces(struct printer *p, struct running *w, int i) {
  const struct ptx_line_of *l = &w->r->line[i];
  const char *row, *piece, *own = ptx_address(p, l->buf, l->s->at), *base = ptx_own(p, OWN_LONG);
  mover(p, w, l->width, &row, &piece);
  ptx_line(p, "%s.s64 %s, %s, %d", "sub", base, own, l->is_back ? (columns_of(w->r) - 1) * l->width : 0);
  for (int t = 0; t < turns_of(w->r, l->width); t++) {
    const char *from = word(p, "add.u32 %s, %s, %d", row, t * 32 / pieces_of(w->r, l->width));
    const char *at = ptx_shuffle(p, WEFT_I64, "idx", base, word(p, "and.b32 %s, %s, %d", from, ROWS - 1), "-1");
    ptx_line(p, "mad.wide.u32 %s, %s, 16, %s", w->far[i][t] = ptx_own(p, OWN_LONG), piece, at);
  }
}

/* ---- Tiles ----------------------------------------------------------------------------------------------------------------- */

/* is = the piece holds elements of the row, whose `left` elements begin with the tile */
static void is_inside(struct printer *p, const struct running *w, const struct ptx_line_of *l, const char *piece, const char *left,
                      const char *is) {
  const char *first = word(p, "mul.lo.u32 %s, %s, %d", piece, 16 / l->width);
  if (l->is_back) {
    const char *back = ptx_own(p, OWN_WORD);
    ptx_line(p, "sub.s32 %s, %d, %s", back, columns_of(w->r) - 16 / l->width, first);
    first = back;
  }
  ptx_line(p, "setp.lt.s32 %s, %s, %s", is, first, left);
}

static void go_on(struct printer *p, const struct running *w, int i) {
  const struct ptx_line_of *l = &w->r->line[i];
  for (int t = 0; t < turns_of(w->r, l->width); t++)
    ptx_line(p, "add.s64 %s, %s, %d", w->far[i][t], w->far[i][t], (l->is_back ? -1 : 1) * columns_of(w->r) * l->width);
}

/* Asks for the next tile of each load; `left` elements of the rows begin with it. */
static void ask(struct printer *p, struct running *w, const char *left) {
  for (int i = 0; i < w->r->n_lines; i++) {
    const struct ptx_line_of *l = &w->r->line[i];
    const char *row, *piece, *is = ptx_own(p, OWN_PRED), *to;
    int pieces = pieces_of(w->r, l->width);
    if (l->s->kind != KIR_LOAD) continue;
    mover(p, w, l->width, &row, &piece);
    is_inside(p, w, l, piece, left, is);
    if (ROWS * pieces < 32) ptx_line(p, "setp.lt.and.u32 %s, %s, %d, %s", is, row, ROWS, is);
    to = shared_place(p, w, l->at, row, pitch(w->r, l->width), piece);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", to, w->ahead, ROWS * pitch(w->r, l->width), to);
    const char *skip = ptx_label(p, "skip");
    ptx_line(p, "@!%s bra %s", is, skip);
    for (int t = 0; t < turns_of(w->r, l->width); t++)
      ptx_line(p, "cp.async.cg.shared.global%s [%s+%d], [%s], 16, 16%s%s", w->hint ? ".L2::cache_hint" : "", to,
               t * 32 / pieces * pitch(w->r, l->width), w->far[i][t], w->hint ? ", " : "", w->hint ? w->hint : "");
    ptx_place(p, skip);
    go_on(p, w, i);
  }
  ptx_line(p, "cp.async.commit_group");
}

/* The next stage of STAGES. */
static void turn(struct printer *p, const char *stage) {
  ptx_line(p, "add.u32 %s, %s, 1", stage, stage);
  ptx_line(p, "and.b32 %s, %s, %d", stage, stage, STAGES - 1);
}

/* What lanes have left of their rows, out to memory. */
static void put_out(struct printer *p, struct running *w, const char *n_rows) {
  for (int i = 0; i < w->r->n_lines; i++) {
    const struct ptx_line_of *l = &w->r->line[i];
    const char *row, *piece, *is = ptx_own(p, OWN_PRED), *v[4], *from;
    if (l->s->kind != KIR_STORE) continue;
    mover(p, w, l->width, &row, &piece);
    is_inside(p, w, l, piece, w->left, is);
    if (ROWS * pieces_of(w->r, l->width) < 32) ptx_line(p, "setp.lt.and.u32 %s, %s, %d, %s", is, row, ROWS, is);
    from = shared_place(p, w, l->at, row, pitch(w->r, l->width), piece);
    for (int t = 0; t < turns_of(w->r, l->width); t++) {
      int rows = t * 32 / pieces_of(w->r, l->width);
      const char *is_row = ptx_own(p, OWN_PRED);
      for (int k = 0; k < 4; k++) v[k] = ptx_own(p, OWN_WORD);
      ptx_line(p, "setp.lt.and.u32 %s, %s, %s, %s", is_row, word(p, "add.u32 %s, %s, %d", row, rows), n_rows, is);
      ptx_line(p, "@%s ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", is_row, v[0], v[1], v[2], v[3], from,
               rows * pitch(w->r, l->width));
      ptx_line(p, "@%s st.global%s.v4.b32 [%s], {%s, %s, %s, %s}%s%s", is_row, w->hint ? ".L2::cache_hint" : "", w->far[i][t], v[0],
               v[1], v[2], v[3], w->hint ? ", " : "", w->hint ? w->hint : "");
    }
    go_on(p, w, i);
  }
}

/* ---- Elements -------------------------------------------------------------------------------------------------------------- */

/* Line i of a group of n elements, the first of which is `e`'s. */
static void line_access(struct printer *p, const struct running *w, int i, int n) {
  const struct ptx_line_of *l = &w->r->line[i];
  int element[PTX_WIDE];
  const char *at = ptx_own(p, OWN_LONG);
  for (int k = 0; k < n; k++) element[k] = l->is_back ? n - 1 - k : k;
  ptx_line(p, "sub.s64 %s, %s, %d", at, w->own[i], l->is_back ? (n - 1) * l->width : 0);
  if (l->s->kind == KIR_LOAD) ptx_load_each(p, l->s, ".shared", at, n, element);
  else ptx_store_each(p, l->s, ".shared", at, n, element);
  p->reg = p->wide[0];
}

static int line_of(const struct ptx_running *r, const struct kir_stmt *s) {
  for (int i = 0; i < r->n_lines; i++) if (r->line[i].s == s) return i;
  return -1;
}

static bool is_same_for_all(struct printer *p, const struct kir_stmt *s) {
  return (s->kind == KIR_OP || s->kind == KIR_LOAD) && s->n_out && p->wide[1][s->out[0]] == p->wide[0][s->out[0]];
}

/* The body of the lane loop on n elements from its variable on. */
static void group(struct printer *p, struct running *w, int n) {
  const struct kir_stmt *loop = w->r->nest.lane;
  for (int e = 1; e < n; e++) ptx_line(p, "add.s64 %s, %s, %d", p->wide[e][loop->var], p->wide[0][loop->var], e);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind == KIR_LOAD && line_of(w->r, s) >= 0) line_access(p, w, line_of(w->r, s), n);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    int line = line_of(w->r, s);
    if (line >= 0 && s->kind == KIR_STORE) line_access(p, w, line, n);
    for (int e = 0; line < 0 && e < n; e++) {
      if (e && is_same_for_all(p, s)) break;
      p->reg = p->wide[e];
      if (s->kind == KIR_PREFIX) ptx_running_step(p, s, e == n - 1);
      else ptx_statements(p, s, s->next, (struct where){ .lane = loop, .lo = "0" });
    }
    p->reg = p->wide[0];
  }
  ptx_line(p, "add.s64 %s, %s, %d", ptx_val(p, loop->var), ptx_val(p, loop->var), n);
  for (int i = 0; i < w->r->n_lines; i++)
    ptx_line(p, "add.s64 %s, %s, %d", w->own[i], w->own[i], (w->r->line[i].is_back ? -1 : 1) * n * w->r->line[i].width);
}

/* While there are `n` elements and more of them before `end`. */
static void groups(struct printer *p, struct running *w, const char *end, int n) {
  const char *again = ptx_label(p, "group"), *leave = ptx_label(p, "leave");
  const char *over = ptx_own(p, OWN_PRED), *to = ptx_own(p, OWN_LONG);
  ptx_place_loop(p, again);
  ptx_line(p, "add.s64 %s, %s, %d", to, ptx_val(p, w->r->nest.lane->var), n);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", over, to, end);
  ptx_line(p, "@%s bra %s", over, leave);
  group(p, w, n);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* This lane's row of the tile that has come. */
static void compute(struct printer *p, struct running *w) {
  const char *row = word(p, "and.b32 %s, %s, %d", w->lane, ROWS - 1), *end = ptx_own(p, OWN_LONG);
  for (int i = 0; i < w->r->n_lines; i++) {
    const struct ptx_line_of *l = &w->r->line[i];
    w->own[i] = shared_place(p, w, l->at, row, pitch(w->r, l->width), NULL);
    if (l->s->kind == KIR_LOAD)
      ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", w->own[i], w->stage, ROWS * pitch(w->r, l->width), w->own[i]);
    if (l->is_back) ptx_line(p, "add.s64 %s, %s, %d", w->own[i], w->own[i], (columns_of(w->r) - 1) * l->width);
  }
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, w->r->nest.lane->var), w->column);
  ptx_line(p, "add.s64 %s, %s, %d", end, w->column, columns_of(w->r));
  ptx_line(p, "min.s64 %s, %s, %s", end, end, w->n);
  if (w->r->group > FEW) groups(p, w, end, w->r->group);
  groups(p, w, end, FEW);
}

/* Where a block of 4096 elements begins, but the first, what came before is set aside. */
static void begin_block(struct printer *p, struct running *w) {
  const char *within = ptx_label(p, "within"), *low = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "and.b64 %s, %s, %d", low, w->column, KIR_ROW_BLOCK - 1);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", is, low);
  ptx_line(p, "@%s bra %s", is, within);
  for (const struct kir_stmt *s = w->r->nest.lane->body.first; s; s = s->next) if (s->kind == KIR_PREFIX) ptx_running_block(p, s);
  ptx_place(p, within);
}

static void tiles(struct printer *p, struct running *w, const char *n_rows) {
  const char *over = ptx_own(p, OWN_PRED), *rest = ptx_own(p, OWN_WORD);
  const char *again = ptx_label(p, "tile"), *leave = ptx_label(p, "leave"), *others = ptx_label(p, "others"),
             *first = ptx_label(p, "first");
  int columns = columns_of(w->r);
  ptx_line(p, "cvt.u32.u64 %s, %s", w->left, w->n);
  ptx_line(p, "mov.u32 %s, %s", rest, w->left);
  ptx_line(p, "mov.u32 %s, 0", w->stage);
  ptx_line(p, "mov.u32 %s, 0", w->ahead);
  ptx_line(p, "mov.s64 %s, 0", w->column);
  ptx_place(p, first);
  ask(p, w, rest);
  ptx_line(p, "sub.s32 %s, %s, %d", rest, rest, columns);
  turn(p, w->ahead);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", over, w->ahead, STAGES - 1);
  ptx_line(p, "@%s bra %s", over, first);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.le.s32 %s, %s, 0", over, w->left);
  ptx_line(p, "@%s bra %s", over, leave);
  ptx_line(p, "cp.async.wait_group %d", STAGES - 2);
  ptx_line(p, "bar.warp.sync -1");
  ask(p, w, rest);
  ptx_line(p, "sub.s32 %s, %s, %d", rest, rest, columns);
  turn(p, w->ahead);
  begin_block(p, w);
  ptx_line(p, "@!%s bra %s", w->is_row, others);
  compute(p, w);
  ptx_place(p, others);
  ptx_line(p, "bar.warp.sync -1");
  put_out(p, w, n_rows);
  turn(p, w->stage);
  ptx_line(p, "sub.s32 %s, %s, %d", w->left, w->left, columns);
  ptx_line(p, "add.s64 %s, %s, %d", w->column, w->column, columns);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* ---- The entry ------------------------------------------------------------------------------------------------------------- */

const char *ptx_nest_indices(struct printer *p, const struct ptx_nest *r, const char *q) {
  const char *all = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD), *last = ptx_own(p, OWN_WORD), *n = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, 1", all);
  for (int i = 0; i < r->n_pars; i++) ptx_line(p, "mul.lo.s64 %s, %s, %s", all, all, ptx_lin(p, r->par[i]->at[0]));
  const char *n_all = ptx_own(p, OWN_WORD);
  ptx_line(p, "cvt.u32.u64 %s, %s", n_all, all);
  ptx_line(p, "sub.u32 %s, %s, 1", last, n_all);
  ptx_line(p, "min.u32 %s, %s, %s", left, q, last);
  for (int i = r->n_pars - 1; i >= 0; i--) {
    const char *few = ptx_own(p, OWN_WORD), *index = ptx_own(p, OWN_WORD), *var = ptx_val(p, r->par[i]->var);
    if (i == 0) { ptx_line(p, "cvt.u64.u32 %s, %s", var, left); break; }
    ptx_line(p, "mov.s64 %s, %s", n, ptx_lin(p, r->par[i]->at[0]));
    ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
    ptx_line(p, "rem.u32 %s, %s, %s", index, left, few);
    ptx_line(p, "div.u32 %s, %s, %s", left, left, few);
    ptx_line(p, "cvt.u64.u32 %s, %s", var, index);
  }
  return n_all;
}

void ptx_nest_before(struct printer *p, const struct ptx_nest *r, struct where w) {
  ptx_statements(p, p->k->body.first, p->k->body.last, w);
  for (int i = 0; i < r->n_pars - 1; i++) ptx_statements(p, r->par[i]->body.first, r->par[i]->body.last, w);
  ptx_statements(p, r->par[r->n_pars - 1]->body.first, r->lane, w);
}

/* The first row of the warp and how many it has, at most ROWS; lanes without a row have the last one's indices. */
static const char *own_rows(struct printer *p, struct running *w, const char *warp) {
  const char *first = ptx_own(p, OWN_WORD), *q = ptx_own(p, OWN_WORD), *row = word(p, "and.b32 %s, %s, %d", w->lane, ROWS - 1),
             *n = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", first);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", first, first, WARPS, warp);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", first, first, ROWS);
  ptx_line(p, "add.u32 %s, %s, %s", q, first, row);
  ptx_line(p, "sub.s32 %s, %s, %s", n, ptx_nest_indices(p, &w->r->nest, q), first);
  ptx_line(p, "max.s32 %s, %s, 0", n, n);
  ptx_line(p, "min.s32 %s, %s, %d", n, n, ROWS);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", is, w->lane, n);
  w->is_row = is;
  return n;
}

static const char *hint_of(struct printer *p, const struct ptx_running *r) {
  bool is_stored = false;
  if (p->plan->capability < HINTS) return NULL;
  const char *hint = ptx_own(p, OWN_LONG);
  for (int i = 0; i < r->n_lines; i++) is_stored |= r->line[i].s->kind == KIR_STORE;
  if (is_stored) ptx_line(p, "createpolicy.fractional.L2::evict_first.b64 %s, 1.0", hint);
  else ptx_line(p, "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %s, 0.%d", hint, KEPT_OF_TEN);
  return hint;
}

void ptx_running_body(struct printer *p) {
  const struct ptx_running *r = &p->plan->running;
  struct running w = { .r = r, .lane = ptx_own(p, OWN_WORD), .n = ptx_own(p, OWN_LONG), .column = ptx_own(p, OWN_LONG),
                       .left = ptx_own(p, OWN_WORD), .stage = ptx_own(p, OWN_WORD), .ahead = ptx_own(p, OWN_WORD) };
  struct where alone = { .lane = r->nest.lane, .lo = "0" };
  p->threads = 32 * WARPS;
  if (!ptx_name_elements(p, r->group)) return;
  ptx_line(p, "mov.u32 %s, %%tid.x", w.lane);
  const char *warp = word(p, "shr.u32 %s, %s, %d", w.lane, 5), *memory = w.memory = ptx_own(p, OWN_LONG);
  ptx_line(p, "and.b32 %s, %s, 31", w.lane, w.lane);
  ptx_line(p, "mov.u64 %s, running", memory);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", memory, warp, r->bytes, memory);
  w.hint = hint_of(p, r);
  const char *n_rows = own_rows(p, &w, warp), *has_none = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.eq.s32 %s, %s, 0", has_none, n_rows);
  ptx_line(p, "@%s bra $done", has_none); /* it would read the last row, which another warp may overwrite */
  ptx_nest_before(p, &r->nest, alone);
  ptx_line(p, "mov.s64 %s, %s", w.n, ptx_lin(p, r->nest.lane->at[0]));
  ptx_line(p, "mov.s64 %s, 0", ptx_val(p, r->nest.lane->var));
  for (int i = 0; i < r->n_lines; i++) find_pieces(p, &w, i);
  for (const struct kir_stmt *s = r->nest.lane->body.first; s; s = s->next) if (s->kind == KIR_PREFIX) ptx_running_start(p, s);
  tiles(p, &w, n_rows);
  for (const struct kir_stmt *s = r->nest.lane->body.first; s; s = s->next) if (s->kind == KIR_PREFIX) ptx_scan_end(p, s);
  ptx_line(p, "@!%s bra $done", w.is_row);
  ptx_statements(p, r->nest.lane->next, NULL, alone);
  ptx_place(p, "$done");
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------- */

static bool is_aligned(const struct ptx_plan *p, const struct ptx_line_of *l, const struct bound bufs[], const int64_t sizes[],
                       const uint64_t args[], int64_t n) {
  const struct ptx_buf *b = &p->bufs[l->buf];
  const struct bound *x = &bufs[l->buf];
  int64_t first = (int64_t)(uintptr_t)x->data + (l->is_back ? l->width : 0);
  if (n % (16 / l->width) || first % 16) return false;
  for (int d = 0; d < b->rank; d++)
    if (d != l->axis && x->stride[d] * l->width % 16 && ptx_size(&b->dims[d], sizes, args) > 1) return false;
  return true;
}

bool ptx_running_shape(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], const struct bound bufs[],
                       struct ptx_shape *s) {
  const struct ptx_running *r = &p->running;
  int64_t n = p->running_entry ? ptx_size(&r->length, sizes, args) : 0, rows = 1;
  if (n < FEW || n > INT32_MAX / 2 || n % FEW) return false;
  for (int i = 0; i < r->nest.n_pars; i++) {
    int64_t m = ptx_size(&r->nest.pars[i], sizes, args);
    if (m < 1 || __builtin_mul_overflow(rows, m, &rows) || rows > INT32_MAX) return false;
  }
  if (!r->is_ordered && rows < MANY_ROWS) return false; /* a block of threads a row is faster */
  for (int i = 0; i < r->n_lines; i++) if (!is_aligned(p, &r->line[i], bufs, sizes, args, n)) return false;
  s->block[0] = 32 * WARPS, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)((rows - 1) / (WARPS * ROWS) + 1), s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = (size_t)(WARPS * r->bytes), s->row_bytes = s->scratch_bytes = 0;
  return s->is_running = true;
}
