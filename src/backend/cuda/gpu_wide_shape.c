/* gpu_wide_shape.c -- which of the entries of gpu_wide.h a launch takes, and with how many threads: what its sizes and the
 * addresses of its arrays allow. The shape of the main entry is there already, and stays where none of them fits. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

enum { ROW_LENGTH = 4096 };    /* the longest row that registers hold */
enum { LEAST_SHIFTED_SPREAD = 256 }; /* the same where elements need nothing of each other; not measured */
enum { LEAST_SHIFTED = 1024 }; /* elements of a row that is not aligned, from which on its ends are worth an extra way */
enum { MOST_AGAIN = 8 };       /* statements that one warp computes once more of each element while all others of a block wait */
enum { LEAST_OF_COLUMNS = 192 }; /* threads a processor has with columns, from which on they are worth while */
/* Rows of which a processor has room for so few that loading, computing and storing would wait for each other: there blocks of
 * threads ask for their next row. Registers leave room for two blocks of PTX_LONG_THREADS. On an H200, ms without and with:
 * softmax of 1024 rows of 50257 0.195 and 0.182, of 50256 0.192 and 0.168, of 32768 0.124 and 0.114, 2048 of 16384, of which
 * there is room for three, 0.0875 and 0.0876; a layer norm of 50000 0.166 and 0.143. */
enum { FEW_ROWS = 2 };

bool ptx_is_aligned(const struct ptx_buf *b, const struct bound *x, int axis, int each, const int64_t sizes[],
                    const uint64_t args[]) {
  int64_t width = kir_width((weft_dtype)b->dtype), bytes = least(16, width * each);
  if ((uintptr_t)x->data % (uintptr_t)bytes) return false;
  for (int d = 0; d < b->rank; d++)
    if (d != axis && x->stride[d] * width % bytes && ptx_size(&b->dims[d], sizes, args) > 1) return false;
  return true;
}

static bool is_aligned(const struct ptx_plan *p, int i, const struct bound bufs[], const int64_t sizes[], const uint64_t args[]) {
  int b = p->wide.bufs[i];
  return ptx_is_aligned(&p->bufs[b], &bufs[b], p->wide.axis[i], p->wide.each, sizes, args);
}

/* Whether the rows of all arrays begin the same number of bytes behind a multiple of 16. */
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

/* How many such rows have room on a processor at a time. */
static int64_t rows_with_room(const struct ptx_plan *p, const struct ptx_machine *m, const struct ptx_shape *s) {
  return ((int64_t)m->shared_bytes + PTX_RESERVED_BYTES) / ((int64_t)(s->shared_bytes + p->partial_bytes) + PTX_RESERVED_BYTES);
}

/* Where a row is alone on a processor it has more threads. Blocks of threads that ask for their next row are as many as have room.
 * Softmax on an H200, ms: 2048 rows of 20000 0.113 with 256 threads, 0.124 with 512; 1024 rows of 32768 0.123 and 0.114. */
static void long_shape(const struct ptx_plan *p, const struct ptx_machine *m, unsigned threads, struct ptx_shape *s) {
  int64_t room = rows_with_room(p, m, s);
  s->block[0] = room > 1 ? threads : PTX_LONG_THREADS;
  if (p->wide.asks && !(s->is_loose && !s->is_shifted) && room <= FEW_ROWS)
    s->grid[0] = (unsigned)least(s->grid[0], room * m->n_processors);
}

/* Blocks of threads as long as the lane loop has pieces, and as high as there are rows to fill 256 threads. */
static bool spread_shape(const struct ptx_wide *w, const struct ptx_machine *m, int64_t n, struct ptx_shape *s) {
  int64_t lanes = ptx_parts(n, w->each * w->groups), x = 1, rows = s->grid[1] * (int64_t)s->block[1], y = 1;
  if (w->has_columns && lanes * rows < (int64_t)LEAST_OF_COLUMNS * m->n_processors) return false;
  while (x < lanes && x < s->most_across) x *= 2;
  while (x > 32 && ptx_parts(lanes, x) * x - lanes > lanes / 8) x /= 2; /* few threads without work */
  while (y < rows && x * y < 256) y *= 2;
  s->block[0] = (unsigned)x, s->block[1] = (unsigned)y;
  s->grid[0] = (unsigned)least(ptx_parts(lanes, x), INT32_MAX), s->grid[1] = (unsigned)least(ptx_parts(rows, y), 65535);
  return s->is_wide = true;
}

/* A block of threads for each row. */
static bool row_shape(const struct ptx_plan *p, const struct ptx_machine *m, int64_t n, bool aligned, bool shifted,
                      struct ptx_shape *s) {
  unsigned threads = 32;
  while (threads * PTX_ROW_EACH < n && threads < PTX_LONG_THREADS / 2) threads *= 2;
  if (n > ROW_LENGTH && aligned && ptx_streamed_shape(p, m, n, s)) return s->is_wide = true;
  if (n > ROW_LENGTH || shifted) {
    if (!p->long_entry || s->row_bytes) return false;
    s->shared_bytes -= s->fold_bytes; /* the main entry leaves there what it folds */
    s->is_loose = !aligned, s->is_shifted = shifted;
    long_shape(p, m, threads, s);
    return s->is_wide = s->is_long = true;
  }
  int64_t bytes = (int64_t)p->wide.n_folds * n * p->wide.fold_bytes;
  if (bytes + (int64_t)p->partial_bytes + MERGED_BYTES > (int64_t)m->shared_bytes) return false; /* too many folds of a row */
  s->block[0] = threads;
  s->shared_bytes = (size_t)bytes;
  s->row_bytes = s->scratch_bytes = 0;
  return s->is_wide = true;
}

/* Whether most of what is loaded and stored stands a few bytes apart, as every other element does: lanes that take one element each
 * find them in few sectors of 32 bytes, lanes that take neighbours in one for nearly every lane. */
static bool are_apart(const struct ptx_plan *p, const struct bound bufs[]) {
  enum { NEAR = 16 };
  int n = 0;
  for (int i = 0; i < p->wide.n_apart; i++) {
    int buf = p->wide.apart[i];
    int64_t by = bufs[buf].stride[p->wide.apart_axis[i]], far = by < 0 ? -by : by;
    n += far > 1 && far <= NEAR / kir_width((weft_dtype)p->bufs[buf].dtype);
  }
  return n && n >= p->wide.n_bufs;
}

bool ptx_wide_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                    const struct bound bufs[], struct ptx_shape *s) {
  const struct ptx_wide *w = &p->wide;
  if (ptx_short_shape(p, sizes, args, bufs, s)) return true;
  if (!p->wide_entry) return false;
  int64_t n = ptx_size(&w->length, sizes, args);
  bool aligned = n % w->each == 0 || !w->is_rows;
  if (n < w->each) return false;
  for (int i = 0; i < w->n_bufs; i++) aligned = aligned && is_aligned(p, i, bufs, sizes, args);
  if (!w->is_rows && !aligned && p->shifted_spread_entry && n >= LEAST_SHIFTED_SPREAD && !are_apart(p, bufs) &&
      are_alike(p, bufs, sizes, args)) return s->is_shifted = spread_shape(w, m, n + w->each - 1, s);
  bool shifted = !aligned && p->shifted_entry && n >= LEAST_SHIFTED && are_alike(p, bufs, sizes, args);
  if (n <= ROW_LENGTH && w->again > MOST_AGAIN) shifted = false;
  if (!aligned && !shifted && (!p->long_entry || n <= ROW_LENGTH)) return false;
  if (!w->is_rows && are_apart(p, bufs)) return false;
  if (!w->is_rows) return spread_shape(w, m, n, s);
  return row_shape(p, m, n, aligned, shifted, s);
}
