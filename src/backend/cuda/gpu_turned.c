/* gpu_turned.c -- spread kernels that read some arrays across their rows: a further entry that goes by tiles.
 *
 * par .. { par r { .. lane c { x = load a[r,c]; .. store y[r,c] = .. } } }, where neighbours of a stand along r, those of y along
 * c: the threads of a warp would read a from 32 lines of memory. A block of threads takes a tile of r and c instead. It first
 * loads what the tile needs of a into shared memory, with threads along r, and then computes as ever, with threads along c.
 * Loads that go so are *turned*; all others, and every store, are as in the main entry. */
#include "backend/cuda/printer.h"
#include "base/least.h"

enum { TURNED_THREADS = 256, WARPS = TURNED_THREADS / 32, LEAST_SIDE = 16, SHARED_BYTES = 48 << 10, SHORT_BODY = 12 };
enum { TURNED_BLOCKS = 4 }; /* find room on a processor: 64 registers hold what a thread of a short body has under way */

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static bool is_only(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

/* Neighbours stand along `row` and not along the lanes. */
static bool is_turned(const struct kir_kernel *k, const struct shape_class *shape, const struct kir_stmt *s, int row, int lane) {
  bool is_along = false, moves = false;
  if (s->kind != KIR_LOAD || k->bufs[s->buf].kind != KIR_IN || !survey_is_known_ahead(k, s)) return false;
  for (int d = 0; d < s->n_at; d++) {
    int stride = shape->stride[s->buf][d];
    bool is_next = stride == STRIDE_1 || stride == STRIDE_MINUS_1;
    if (is_next && is_only(s->at[d], row)) is_along = true;
    if (!survey_mentions(s->at[d], lane) || stride == STRIDE_0) continue;
    if (is_next) return false;
    moves = true;
  }
  return is_along && moves;
}

/* par { uniform; par { .. lane } }: the loops, or false. */
static bool find_nest(const struct kir_kernel *k, struct ptx_turned *t) {
  const struct kir_block *b = &k->body;
  for (t->n_pars = 0, t->lane = NULL; !t->lane; b = &b->last->body) {
    const struct kir_stmt *last = b->last;
    for (const struct kir_stmt *s = b->first; s && s != last; s = s->next)
      if (s->kind != KIR_OP && s->kind != KIR_LOAD) return false;
    if (!last || (last->kind != KIR_PAR && last->kind != KIR_LANE) || last->extent != KIR_N || last->n_private) return false;
    if (last->kind == KIR_LANE) t->lane = last;
    else if (t->n_pars == PTX_TURNED_PARS) return false;
    else t->par[t->n_pars++] = last;
  }
  return t->n_pars > 0;
}

static bool has_kind(const struct kir_block *b, enum kir_kind kind) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if ((enum kir_kind)s->kind == kind || has_kind(&s->body, kind)) return true;
  return false;
}

/* From a row of a tile to the next: rows begin in banks of their own. */
static int pitch(const struct ptx_turned *t, int width) { return t->columns * width + (width > 4 ? width : 4); }

static int width_of(const struct kir_kernel *k, const struct kir_stmt *s) { return kir_width((weft_dtype)k->bufs[s->buf].dtype); }

static bool place_tiles(const struct kir_kernel *k, struct ptx_turned *t, int rows, int columns) {
  t->rows = rows, t->columns = columns, t->bytes = 0;
  for (int i = 0; i < t->n_loads; i++) {
    t->at[i] = (int)t->bytes;
    t->bytes += (size_t)(rows * pitch(t, width_of(k, t->load[i])) + 7) / 8 * 8;
  }
  return t->bytes <= SHARED_BYTES;
}

static bool is_load_of(const struct ptx_turned *t, const struct kir_stmt *s) {
  for (int i = 0; i < t->n_loads; i++) if (t->load[i] == s) return true;
  return false;
}

/* Rows of 128 elements of the result are stored at a time. Narrow elements want more rows too, as a warp loads but 32 of them,
 * unless others that are loaded beside them take the registers. 8192 x 8192 on an H200, ms by tiles of 32 x 64, 64 x 64, 32 x 128
 * and 64 x 128: f32 0.154, 0.149, 0.138, 0.139, with another array added 0.202, 0.196, 0.196, 0.374; bf16 0.127, 0.116, 0.115,
 * 0.108; u8 0.133, 0.137, 0.121, 0.108; f64 0.264 to 0.270. */
static bool find_tiles(const struct kir_kernel *k, struct ptx_turned *t) {
  bool is_narrow = true;
  for (const struct kir_stmt *s = t->lane->body.first; s; s = s->next)
    if (s->kind == KIR_LOAD) is_narrow &= is_load_of(t, s) && width_of(k, s) <= 2;
  if (is_narrow && place_tiles(k, t, 64, 128)) return true;
  return place_tiles(k, t, 32, 128) || place_tiles(k, t, 32, 64) || place_tiles(k, t, 32, 32);
}

bool ptx_find_turned(const struct survey *s, const struct shape_class *shape, struct ptx_turned *t) {
  const struct kir_kernel *k = s->k;
  *t = (struct ptx_turned){ .row = -1 };
  if (s->is_cooperative || s->owned || s->private_loop || s->product.is_there || !find_nest(k, t)) return false;
  if (has_kind(&t->lane->body, KIR_CHECK)) return false;
  for (const struct kir_stmt *x = t->lane->body.first; x && t->n_loads < PTX_TURNED; x = x->next)
    for (int i = 0; i < t->n_pars; i++) {
      if ((t->row >= 0 && t->row != i) || !is_turned(k, shape, x, t->par[i]->var, t->lane->var)) continue;
      t->row = i, t->load[t->n_loads++] = x;
      break;
    }
  return t->n_loads && find_tiles(k, t);
}

/* ---- Loading a tile --------------------------------------------------------------------------------------------------------- */

struct turned_thread { const char *x, *y; }; /* of 32, and the warp */
/* Its first row and column, and how many there are in all. */
struct turned_tile { struct turned_thread own; const char *row_0, *column_0, *n_rows, *n_columns; };

static const char *word(struct printer *p, const char *format, const char *a) {
  const char *r = ptx_own(p, OWN_WORD);
  ptx_line(p, format, r, a);
  return r;
}

/* to = from + own + ahead, all of them 64 bits but the thread's own index */
static void place_index(struct printer *p, const char *to, const char *from, const char *own, int ahead) {
  const char *wide = ptx_own(p, OWN_LONG);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, own);
  ptx_line(p, "add.s64 %s, %s, %s", to, from, wide);
  if (ahead) ptx_line(p, "add.s64 %s, %s, %d", to, to, ahead);
}

/* The address in shared memory of row `down` and column `across` of a tile, for elements of that width. */
static const char *tile_place(struct printer *p, int at, int width, const char *down, const char *across) {
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, turned", r);
  if (at) ptx_line(p, "add.u64 %s, %s, %d", r, r, at);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", r, down, pitch(&p->plan->turned, width), r);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", r, across, width, r);
  return r;
}

/* The elements of one load that this thread brings: along r its own and those 32 further on, along c every eighth. */
static void load_tile(struct printer *p, int i, const struct turned_tile *t) {
  const struct ptx_turned *turned = &p->plan->turned;
  const struct kir_stmt *s = turned->load[i];
  const char *r = ptx_val(p, turned->par[turned->row]->var), *c = ptx_val(p, turned->lane->var), *v[64] = { 0 };
  int width = width_of(p->k, s), n = 0;
  const char *bits = width == 8 ? "b64" : width == 4 ? "b32" : width == 2 ? "b16" : "u8";
  const char *to = tile_place(p, turned->at[i], width, t->own.x, t->own.y);
  for (int h = 0; h < turned->rows; h += 32) {
    const char *at = ptx_own(p, OWN_LONG), *step = ptx_own(p, OWN_LONG), *is_row = ptx_own(p, OWN_PRED), *is = ptx_own(p, OWN_PRED);
    place_index(p, r, t->row_0, t->own.x, h);
    place_index(p, c, t->column_0, t->own.y, 0);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", is_row, r, t->n_rows);
    ptx_line(p, "mov.s64 %s, %s", at, ptx_address(p, s->buf, s->at));
    ptx_line(p, "add.s64 %s, %s, %d", c, c, WARPS);
    ptx_line(p, "sub.s64 %s, %s, %s", step, ptx_address(p, s->buf, s->at), at);
    ptx_line(p, "sub.s64 %s, %s, %d", c, c, WARPS);
    for (int j = 0; j < turned->columns; j += WARPS, n++) {
      v[n] = ptx_own(p, width == 8 ? OWN_LONG : width == 4 || width == 1 ? OWN_WORD : OWN_HALF);
      if (j) ptx_line(p, "add.s64 %s, %s, %s", at, at, step), ptx_line(p, "add.s64 %s, %s, %d", c, c, WARPS);
      ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, c, t->n_columns, is_row);
      ptx_line(p, "@%s ld.global.nc.%s %s, [%s]", is, bits, v[n], at);
    }
  }
  n = 0;
  for (int h = 0; h < turned->rows; h += 32)
    for (int j = 0; j < turned->columns; j += WARPS, n++)
      ptx_line(p, "st.shared.%s [%s+%d], %s", bits, to, h * pitch(turned, width) + j * width, v[n]);
}

/* ---- Computing a tile ------------------------------------------------------------------------------------------------------- */

/* A turned load of the statements that are printed: from the tile. False: it is another load. */
bool ptx_turned_load(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_turned *t = &p->plan->turned;
  for (int i = 0; p->tile && i < t->n_loads; i++) {
    if (t->load[i] != s) continue;
    weft_dtype d = (weft_dtype)p->k->bufs[s->buf].dtype;
    ptx_load_value(p, ".shared", d, s->out[0], ptx_textf(p, "%s+%d", p->tile[i], p->tile_column * kir_width(d)));
    return true;
  }
  return false;
}

/* What stands around the lane loop inside the rows: once a row. */
static void row_statements(struct printer *p) {
  const struct ptx_turned *t = &p->plan->turned;
  for (int i = t->row; i < t->n_pars; i++) ptx_statements(p, t->par[i]->body.first, t->par[i]->body.last, (struct where){ 0 });
}

static bool comes_early(const struct printer *p, const struct kir_stmt *s) {
  if (is_load_of(&p->plan->turned, s)) return false;
  return s->kind == KIR_LOAD && p->k->bufs[s->buf].kind == KIR_IN && survey_is_known_ahead(p->k, s);
}

static int count_early(const struct printer *p) {
  int n = 0, length = 0;
  for (const struct kir_stmt *s = p->plan->turned.lane->body.first; s; s = s->next, length++) n += comes_early(p, s);
  return length <= SHORT_BODY ? (int)least(n, PTX_EARLY) : 0;
}

/* What is not turned is loaded for n rows from r on before any of it is used, so that it is on its way together. is_again: into the
 * registers that there are. */
static void load_early(struct printer *p, const struct turned_tile *t, int n, const char *end, bool is_again) {
  const struct ptx_turned *turned = &p->plan->turned;
  const char *r = ptx_val(p, turned->par[turned->row]->var), *c = ptx_val(p, turned->lane->var), *from = ptx_own(p, OWN_LONG);
  int copy = 0;
  ptx_line(p, "mov.s64 %s, %s", from, r);
  for (int k = 0; k < n; k++)
    for (int h = 0; h < turned->columns; h += 32, copy++) {
      const char *is = ptx_own(p, OWN_PRED);
      ptx_line(p, "add.s64 %s, %s, %d", r, from, k * WARPS);
      place_index(p, c, t->column_0, t->own.x, h);
      ptx_line(p, "setp.lt.s64 %s, %s, %s", is, r, end);
      ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, c, t->n_columns, is);
      p->early.n = 0, p->guard = is;
      for (const struct kir_stmt *s = turned->lane->body.first; s && p->early.n < PTX_EARLY; s = s->next) {
        if (!comes_early(p, s)) continue;
        const char **v = &p->early.reg[p->early.n][copy];
        if (!is_again) *v = ptx_own_of(p, (weft_dtype)p->k->vals[s->out[0]].dtype);
        ptx_load(p, ".global.nc", (weft_dtype)p->k->bufs[s->buf].dtype, *v, ptx_address(p, s->buf, s->at));
        p->early.s[p->early.n++] = s;
      }
      p->guard = NULL;
    }
  ptx_line(p, "mov.s64 %s, %s", r, from);
}

/* Columns own, own + 32 .. of row r; it is row k of those that were loaded early, if any were. */
static void columns(struct printer *p, const struct turned_tile *t, int k) {
  const struct ptx_turned *turned = &p->plan->turned;
  const char *c = ptx_val(p, turned->lane->var), *is = ptx_own(p, OWN_PRED);
  for (p->tile_column = 0; p->tile_column < turned->columns; p->tile_column += 32) {
    const char *skip = ptx_label(p, "skip");
    p->early.turn = p->early.n ? (k * turned->columns + p->tile_column) / 32 : -1;
    place_index(p, c, t->column_0, t->own.x, p->tile_column);
    ptx_line(p, "setp.ge.s64 %s, %s, %s", is, c, t->n_columns);
    ptx_line(p, "@%s bra %s", is, skip);
    ptx_block(p, &turned->lane->body, (struct where){ .lane = turned->lane, .lo = "0", .rest = skip });
    ptx_place(p, skip);
  }
  p->early.turn = -1;
}

/* Rows of a thread that are loaded together, 1: none. */
static int together_of(const struct printer *p) { return count_early(p) ? 4 : 1; }

/* The first row of this thread; what it needs beside the tiles is asked for before these. Returns where the rows end. */
static const char *begin_rows(struct printer *p, const struct turned_tile *t) {
  const struct ptx_turned *turned = &p->plan->turned;
  const char *end = ptx_own(p, OWN_LONG);
  place_index(p, ptx_val(p, turned->par[turned->row]->var), t->row_0, t->own.y, 0);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->row_0, turned->rows);
  ptx_line(p, "min.s64 %s, %s, %s", end, end, t->n_rows);
  if (together_of(p) > 1) load_early(p, t, together_of(p), end, false);
  return end;
}

static void rows(struct printer *p, const struct turned_tile *t, const char *end) {
  const struct ptx_turned *turned = &p->plan->turned;
  const char *r = ptx_val(p, turned->par[turned->row]->var), *over = ptx_own(p, OWN_PRED),
             *again = ptx_label(p, "row"), *leave = ptx_label(p, "leave"), *tile[PTX_TURNED];
  int step[PTX_TURNED], together = together_of(p);
  for (int i = 0; i < turned->n_loads; i++) {
    int width = width_of(p->k, turned->load[i]);
    tile[i] = tile_place(p, turned->at[i], width, t->own.y, t->own.x);
    step[i] = WARPS * pitch(turned, width);
  }
  p->tile = tile;
  place_index(p, r, t->row_0, t->own.y, 0);
  ptx_place(p, again);
  for (int k = 0; k < together; k++) {
    ptx_line(p, "setp.ge.s64 %s, %s, %s", over, r, end);
    ptx_line(p, "@%s bra %s", over, leave);
    row_statements(p);
    columns(p, t, k);
    for (int i = 0; i < turned->n_loads; i++) ptx_line(p, "add.u64 %s, %s, %d", tile[i], tile[i], step[i]);
    ptx_line(p, "add.s64 %s, %s, %d", r, r, WARPS);
  }
  if (together > 1) load_early(p, t, together, end, true);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  p->tile = NULL, p->early.n = 0;
}

/* ---- The entry -------------------------------------------------------------------------------------------------------------- */

static const char *length_of(struct printer *p, const struct kir_stmt *loop) {
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, %s", r, ptx_lin(p, loop->at[0]));
  return r;
}

/* The other par loops are one, along z: their indices of iteration z, the innermost first. */
static void other_indices(struct printer *p, const char *z) {
  const struct ptx_turned *t = &p->plan->turned;
  const char *left = word(p, "mov.u32 %s, %s", z);
  for (int i = t->n_pars - 1; i >= 0; i--) {
    if (i == t->row) continue;
    const char *n = word(p, "cvt.u32.u64 %s, %s", length_of(p, t->par[i])), *index = ptx_own(p, OWN_WORD);
    ptx_line(p, "rem.u32 %s, %s, %s", index, left, n);
    ptx_line(p, "div.u32 %s, %s, %s", left, left, n);
    ptx_line(p, "cvt.u64.u32 %s, %s", ptx_val(p, t->par[i]->var), index);
  }
}

static const char *count_others(struct printer *p) {
  const struct ptx_turned *t = &p->plan->turned;
  const char *n = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, 1", n);
  for (int i = 0; i < t->n_pars; i++)
    if (i != t->row) ptx_line(p, "mul.lo.s64 %s, %s, %s", n, n, length_of(p, t->par[i]));
  return word(p, "cvt.u32.u64 %s, %s", n);
}

/* for (at = block index; at < n; at += blocks), along an axis of the grid: all threads of a block take the same way. */
struct turned_loop { const char *at, *again, *leave, *step; };

static struct turned_loop open_tiles(struct printer *p, char axis, const char *n) {
  struct turned_loop l = { ptx_own(p, OWN_WORD), ptx_label(p, "tiles"), ptx_label(p, "leave"), ptx_own(p, OWN_WORD) };
  const char *over = ptx_own(p, OWN_PRED);
  ptx_line(p, "mov.u32 %s, %%ctaid.%c", l.at, axis);
  ptx_line(p, "mov.u32 %s, %%nctaid.%c", l.step, axis);
  ptx_place_loop(p, l.again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", over, l.at, n);
  ptx_line(p, "@%s bra %s", over, l.leave);
  return l;
}

static void close_tiles(struct printer *p, struct turned_loop l) {
  ptx_line(p, "add.u32 %s, %s, %s", l.at, l.at, l.step);
  ptx_line(p, "bra %s", l.again);
  ptx_place(p, l.leave);
}

static const char *count_tiles(struct printer *p, const char *n, int side) { /* a power of two */
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "add.s64 %s, %s, %d", r, n, side - 1);
  ptx_line(p, "shr.u64 %s, %s, %d", r, r, __builtin_ctz((unsigned)side));
  return word(p, "cvt.u32.u64 %s, %s", r);
}

static const char *first_of(struct printer *p, const char *tile, int side) {
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", r, tile, side);
  return r;
}

void ptx_turned_body(struct printer *p) {
  const struct ptx_turned *t = &p->plan->turned;
  struct turned_thread own = { ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD) };
  if (together_of(p) > 1) p->blocks = TURNED_BLOCKS;
  ptx_line(p, "mov.u32 %s, %%tid.x", own.y);
  ptx_line(p, "and.b32 %s, %s, 31", own.x, own.y);
  ptx_line(p, "shr.u32 %s, %s, 5", own.y, own.y);
  const char *n_rows = length_of(p, t->par[t->row]), *n_columns = length_of(p, t->lane);
  struct turned_loop others = open_tiles(p, 'z', count_others(p));
  other_indices(p, others.at);
  ptx_statements(p, p->k->body.first, p->k->body.last, (struct where){ 0 });
  for (int i = 0; i < t->row; i++) ptx_statements(p, t->par[i]->body.first, t->par[i]->body.last, (struct where){ 0 });
  struct turned_loop down = open_tiles(p, 'y', count_tiles(p, n_rows, t->rows));
  struct turned_loop across = open_tiles(p, 'x', count_tiles(p, n_columns, t->columns));
  struct turned_tile tile = { own, first_of(p, down.at, t->rows), first_of(p, across.at, t->columns), n_rows, n_columns };
  const char *end = begin_rows(p, &tile);
  for (int i = 0; i < t->n_loads; i++) load_tile(p, i, &tile);
  ptx_line(p, "bar.sync 0");
  rows(p, &tile, end);
  ptx_line(p, "bar.sync 0");
  close_tiles(p, across);
  close_tiles(p, down);
  close_tiles(p, others);
}

/* ---- Launching -------------------------------------------------------------------------------------------------------------- */

static int64_t tiles(int64_t n, int64_t side) { return (n - 1) / side + 1; }

bool ptx_turned_shape(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], struct ptx_shape *s) {
  const struct ptx_turned *t = &p->turned;
  int64_t rows = ptx_size(&t->n_rows, sizes, args), columns = ptx_size(&t->n_columns, sizes, args), others = 1;
  if (!p->turned_entry || rows < LEAST_SIDE || columns < LEAST_SIDE) return false;
  for (int i = 0; i < t->n_others; i++) {
    int64_t n = ptx_size(&t->others[i], sizes, args);
    if (n < 1 || __builtin_mul_overflow(others, n, &others) || others > INT32_MAX) return false;
  }
  if (tiles(columns, t->columns) > INT32_MAX || tiles(rows, t->rows) > INT32_MAX) return false;
  s->block[0] = TURNED_THREADS, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)tiles(columns, t->columns);
  s->grid[1] = (unsigned)least(tiles(rows, t->rows), 65535), s->grid[2] = (unsigned)least(others, 65535);
  return s->is_turned = true;
}
