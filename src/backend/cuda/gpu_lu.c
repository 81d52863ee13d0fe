/* gpu_lu.c -- LU factors with exchanged rows on a GPU, and what is made of them: systems, inverses, determinants, adjugates; in
 * f64 and with the bits of the host.
 *
 * Blocks of 32 columns are eliminated by one block of threads a matrix, those of a large matrix by panels of 8 columns in
 * registers; what they take off the rest is a product by tiles. */
#include "backend/cuda/gpu_matrix.h"

/* Step s of the same among lanes: a lane and the one whose number differs in bit s come to have what is larger. */
#define LARGER_OF_TWO_LANES WRITTEN(                                          \
      u32 low = shfl_xor(u32(best & 0xffffffff), 1 << s);                     \
      u32 high = shfl_xor(u32(best >> 32), 1 << s);                           \
      u32 its_place = shfl_xor(at, 1 << s);                                   \
      u64 other = (u64(high) << 32) | u64(low);                               \
      at = other > best || (other == best && its_place < at) ? its_place : at; \
      best = max(other, best);)

/* sign: that of the n rows' order, -1 for each exchange of two that leads to it: a cycle of k rows takes k - 1. seen: n bytes. */
#define SIGN_OF_ORDER WRITTEN(                          \
    f64 sign = 1;                                       \
    u64 i = 0;                                          \
    while (i < n) { seen[i] = 0; i = i + 1; }           \
    i = 0;                                              \
    while (i < n) {                                     \
      u64 k = i;                                        \
      while (seen[k] == 0) {                            \
        seen[k] = 1;                                    \
        u64 next = u64(order[k]);                       \
        sign = next != i ? -sign : sign;                \
        k = next;                                       \
      }                                                 \
      i = i + 1;                                        \
    })

static const char lu_text[] =
  WRITTEN(
entry lu_begin(s64* order, s64* status, u64 n, u64 all, u64 problems) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) { order[i] = s64(i % n); }
  if (i < problems) { status[i] = 0; }
}
  )
  /* Columns from .. to - 1. The pivot is the largest from its row on, the first of equal ones; nan is none but where it
   * stands first. */
  WRITTEN(
entry lu_columns(f64* all, s64* orders, s64* status, u64 n, u64 from, u64 to) {
  shared u64 size_of[256];
  shared u64 place_of[256];
  f64* a = all + u64(block) * n * n;
  s64* order = orders + u64(block) * n;
  u64 k = from;
  while (k < to) {
    u64 best = 0;
    u64 at = k;
    u64 i = k + u64(tid);
    while (i < n) {
      u64 bits = as_u64(a[i * n + k]) & 0x7fffffffffffffff;
      bits = bits > 0x7ff0000000000000 && i != k ? u64(0) : bits;
      at = bits > best ? i : at;
      best = max(bits, best);
      i = i + u64(threads);
    }
  ) LARGEST_OF_BLOCK WRITTEN(
    u64 p = largest;
    if (p != k) {
      u64 j = u64(tid);
      while (j < n) {
        f64 was = a[k * n + j];
        a[k * n + j] = a[p * n + j];
        a[p * n + j] = was;
        j = j + u64(threads);
      }
      if (tid == 0) {
        s64 was_order = order[k];
        order[k] = order[p];
        order[p] = was_order;
      }
    }
    bar;
    f64 pivot = a[k * n + k];
    bool is_none = pivot == 0;
    if (tid == 0 && (is_none || pivot != pivot)) { if (status[block] == 0) { status[block] = s64(k) + 1; } }
    if (n <= 16) { pivot = is_none ? f64(1) : pivot; is_none = 1 == 0; }
    if (!is_none) {
      i = k + 1 + u64(tid);
      while (i < n) {
        f64 f = a[i * n + k] / pivot;
        a[i * n + k] = f;
        u64 j = k + 1;
        while (j < to) {
          a[i * n + j] = a[i * n + j] - a[k * n + j] * f;
          j = j + 1;
        }
        i = i + u64(threads);
      }
    }
    bar;
    k = k + 1;
  }
}
  )
  /* The same of at most 8 columns and 2048 rows: a thread has four rows in registers, which go there and
   * back through shared memory, so that neighbours are read together. Other columns wait for lu_swap.
   * swaps: where the row of each column was found. */
  WRITTEN(
entry lu_panel(f64* all, u32* swaps, s64* status, u64 n, u64 from, u64 to) of 512 {
  shared u64 size_of[32];
  shared u32 place_of[32];
  shared f64 line_k[16];
  shared f64 line_p[16];
  f64* a = all + (u64(block) * n * n + from * n + from);
  u32 rows = u32(n - from);
  u32 columns = u32(to - from);
  u32 own = tid >> 5;
  shared f64 box[4608];
  f64 x[32];
  repeat (r, 4) {
    repeat (j, 8) {
      u32 i = tid / 8 + 64 * j;
      f64 v = 0;
      if (i + 512 * r < rows && tid % 8 < columns) { v = a[u64(i + 512 * r) * n + u64(tid % 8)]; }
      box[i * 9 + tid % 8] = v;
    }
    bar;
    repeat (w, 8) { x[r * 8 + w] = box[tid * 9 + w]; }
    bar;
  }
  repeat (k, 8) { if (k < columns) {
    u64 best = 0;
    u32 at = k;
    repeat (r, 4) {
      u32 i = tid + 512 * r;
      u64 bits = as_u64(x[r * 8 + k]) & 0x7fffffffffffffff;
      bits = (bits > 0x7ff0000000000000 && i != k) || i < k || i >= rows ? u64(0) : bits;
      at = bits > best ? i : at;
      best = max(bits, best);
    }
    repeat (s, 5) { ) LARGER_OF_TWO_LANES WRITTEN( }
    if (lane == 0) { size_of[(k % 2) * 16 + own] = best; place_of[(k % 2) * 16 + own] = at; }
    bar;
    best = size_of[(k % 2) * 16 + lane % 16];
    at = place_of[(k % 2) * 16 + lane % 16];
    repeat (s, 4) { ) LARGER_OF_TWO_LANES WRITTEN( }
    if (tid == k) { repeat (w, 8) { line_k[(k % 2) * 8 + w] = x[w]; } }
    repeat (r, 4) { if (tid + 512 * r == at) { repeat (w, 8) { line_p[(k % 2) * 8 + w] = x[r * 8 + w]; } } }
    bar;
    repeat (r, 4) { if (tid + 512 * r == at) { repeat (w, 8) { x[r * 8 + w] = line_k[(k % 2) * 8 + w]; } } }
    if (tid == k) { repeat (w, 8) { x[w] = line_p[(k % 2) * 8 + w]; } }
    f64 pivot = line_p[(k % 2) * 8 + k];
    if (tid == 0) {
      swaps[u64(block) * 8 + k] = at;
      if (pivot == 0 || pivot != pivot) { if (status[block] == 0) { status[block] = s64(from) + k + 1; } }
    }
    if (pivot != 0) {
      repeat (r, 4) { if (tid + 512 * r > k) {
        f64 f = x[r * 8 + k] / pivot;
        x[r * 8 + k] = f;
        repeat (w, 8) { if (w > k) { x[r * 8 + w] = x[r * 8 + w] - line_p[(k % 2) * 8 + w] * f; } }
      } }
    }
  } }
  repeat (r, 4) {
    bar;
    repeat (w, 8) { box[tid * 9 + w] = x[r * 8 + w]; }
    bar;
    repeat (j, 8) {
      u32 i = tid / 8 + 64 * j;
      if (i + 512 * r < rows && tid % 8 < columns) { a[u64(i + 512 * r) * n + u64(tid % 8)] = box[i * 9 + tid % 8]; }
    }
  }
}
  )
  /* What a panel found, in all other columns and in the order of rows; a thread a column. */
  WRITTEN(
entry lu_swap(f64* all, u32* swaps, s64* orders, u64 n, u64 from, u64 to, u32 cuts) {
  u64 problem = u64(block / cuts);
  u64 j = u64(block % cuts) * u64(threads) + u64(tid);
  f64* a = all + (problem * n * n + from * n + j);
  s64* order = orders + (problem * n + from);
  u32* p = swaps + problem * 8;
  u32 columns = u32(to - from);
  u32 k = 0;
  if (j < n && (j < from || j >= to)) {
    while (k < columns) {
      u64 other = u64(p[k]);
      if (other != u64(k)) {
        f64 was = a[u64(k) * n];
        a[u64(k) * n] = a[other * n];
        a[other * n] = was;
      }
      k = k + 1;
    }
  }
  k = 0;
  if (j == 0) {
    while (k < columns) {
      u64 other = u64(p[k]);
      s64 was_order = order[k];
      order[k] = order[other];
      order[other] = was_order;
      k = k + 1;
    }
  }
}
  )
  /* The sign of the order of rows, det a, and the sizes of its pivots: a thread a matrix. seen: n bytes each. */
  WRITTEN(
entry lu_determinant(f64* all, s64* orders, u8* all_seen, T* signs, f64* all_sizes, T* dets, u64 n,
                     u64 problems) { ) QUIET_NAN WRITTEN(
  u64 p = u64(block) * 256 + u64(tid);
  if (p < problems) {
    f64* a = all + p * n * n;
    s64* order = orders + p * n;
    u8* seen = all_seen + p * n;
    ) SIGN_OF_ORDER WRITTEN(
    f64 det = sign;
    f64* sizes = all_sizes + p * n;
    i = 0;
    while (i < n) {
      f64 pivot = a[i * n + i];
      det = det * pivot;
      sign = pivot > 0 ? sign : (pivot < 0 ? -sign : pivot);
      sizes[i] = as_f64(as_u64(pivot) & 0x7fffffffffffffff);
      i = i + 1;
    }
    signs[p] = sign == 0 ? T(0) : (sign == sign ? T(sign) : nan);
    dets[p] = det == det ? T(det) : nan;
  }
}
  )
  /* The identity with its rows in this order. */
  WRITTEN(
entry lu_identity(f64* to, s64* order, u64 n, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) { to[i] = u64(order[i / n]) == i % n ? f64(1) : f64(0); }
}
  )
  /* The inverse by the determinant where a matrix has one, .. */
  WRITTEN(
entry adjugate_good(f64* b, f64* lu, s64* orders, u8* all_seen, s64* status, u64 n) {
  shared f64 of_all[1];
  u64 p = u64(block);
  if (status[p] != 0) { return; }
  f64* a = lu + p * n * n;
  if (tid == 0) {
    s64* order = orders + p * n;
    u8* seen = all_seen + p * n;
    ) SIGN_OF_ORDER WRITTEN(
    i = 0;
    while (i < n) { sign = sign * a[i * n + i]; i = i + 1; }
    of_all[0] = sign;
  }
  bar;
  f64 det = of_all[0];
  u64 i = u64(tid);
  while (i < n * n) { b[p * n * n + i] = b[p * n * n + i] * det; i = i + u64(threads); }
}
  )
  /* .. else as matrix_adjugate of op/matrix.c: elimination with the largest of all that is left as pivot. room: 4 n doubles
   * each. */
  WRITTEN(
entry adjugate_singular(T* from, f64* work, f64* b, f64* rooms, s64* status, u64 n) {
  shared u64 size_of[256];
  shared u64 place_of[256];
  shared f64 scale[1];
  u64 p = u64(block);
  if (status[p] == 0) { return; }
  f64* a = work + p * n * n;
  f64* row = rooms + p * n * 4;
  f64* column = row + n;
  f64* x = row + 2 * n;
  f64* y = row + 3 * n;
  f64 size = 1;
  f64 sign = 1;
  u64 i = u64(tid);
  while (i < n * n) { a[i] = f64(from[p * n * n + i]); i = i + u64(threads); }
  i = u64(tid);
  while (i < n) {
    row[i] = f64(i);
    column[i] = f64(i);
    x[i] = i == n - 1 ? f64(1) : f64(0);
    y[i] = x[i];
    i = i + u64(threads);
  }
  bar;
  if (tid == 0) {
    i = 0;
    while (i < n * n) { size = size + a[i] * 0; i = i + 1; }
    scale[0] = size;
  }
  bar;
  size = scale[0];
  u64 k = 0;
  while (k + 1 < n) {
  ) LARGEST_LEFT_IS_PIVOT(k) WRITTEN(
    f64 pivot = a[k * n + k];
    size = size * pivot;
    if (pivot != 0) {
      i = k + 1 + u64(tid);
      while (i < n) {
        f64 f = a[i * n + k] / pivot;
        a[i * n + k] = f;
        u64 j = k + 1;
        while (j < n) { a[i * n + j] = a[i * n + j] - f * a[k * n + j]; j = j + 1; }
        i = i + u64(threads);
      }
    }
    bar;
    k = k + 1;
  }
  if (tid == 0 && size != 0) {
    u64 step = 1;
    while (step < n) {
      i = n - 1 - step;
      u64 j = i + 1;
      while (j < n) {
        x[i] = x[i] - a[i * n + j] * x[j];
        y[i] = y[i] - a[j * n + i] * y[j];
        j = j + 1;
      }
      x[i] = x[i] / a[i * n + i];
      step = step + 1;
    }
  }
  bar;
  i = u64(tid);
  while (i < n * n) {
    u64 to = u64(column[i / n]) * n + u64(row[i % n]);
    b[p * n * n + to] = sign * size * x[i / n] * y[i % n];
    i = i + u64(threads);
  }
}
  );

struct lu { uint64_t at, order, status, swaps; };

/* What columns from .. to - 1, which are eliminated, take off columns to .. end - 1: of their rows by a system with L, below by a
 * product. */
static int lu_take(struct matrices *x, const struct lu *f, int64_t from, int64_t to, int64_t end) {
  static const struct triangle lower = { .is_unit = true };
  int64_t n = x->n, each = n * n;
  struct standing all = { f->at, each, n, 1 }, right = { matrices_doubles(f->at, to), each, n, 1 };
  int how = matrices_solve_rows(x, &lower, all, right, end - to, from, to);
  if (how) return how;
  return matrices_take(x, (struct standing){ matrices_doubles(f->at, to * n + to), each, n, 1 },
              (struct standing){ matrices_doubles(f->at, to * n + from), each, n, 1 },
              (struct standing){ matrices_doubles(f->at, from * n + to), each, n, 1 }, n - to, end - to, to - from, false);
}

enum { PANEL = 8, PANEL_ROWS = 2048 }; /* of lu_panel */

/* Columns from .. to - 1 by panels of few, whose rows are exchanged in all other columns behind each. */
static int lu_panels(struct matrices *x, const struct lu *f, int64_t from, int64_t to) {
  int64_t n = x->n, cuts = routine_parts(n, 128);
  int how = CUDA_OK;
  for (int64_t at = from, end; !how && at < to; at = end) {
    end = to - at < PANEL ? to : at + PANEL;
    how = LAUNCH(x->g, x->own, "lu_panel", x->problems, 512, f->at, f->swaps, f->status, (uint64_t)n, (uint64_t)at, (uint64_t)end);
    if (!how)
      how = LAUNCH(x->g, x->own, "lu_swap", x->problems * cuts, 128, f->at, f->swaps, f->order, (uint64_t)n, (uint64_t)at,
                   (uint64_t)end, (uint64_t)cuts);
    if (!how && end < to) how = lu_take(x, f, at, end, to);
  }
  return how;
}

/* Small matrices are side by side, and one block of threads has all of a panel's columns; of a large one, which is alone, panels
 * are in registers. */
static int lu_columns(struct matrices *x, const struct lu *f, int64_t from, int64_t to) {
  if (x->n > 4 * MATRIX_BLOCK && x->n - from <= PANEL_ROWS && x->problems <= INT32_MAX / routine_parts(x->n, 128))
    return lu_panels(x, f, from, to);
  return LAUNCH(x->g, x->own, "lu_columns", x->problems, matrices_threads(x->n), f->at, f->order, f->status, (uint64_t)x->n,
                (uint64_t)from, (uint64_t)to);
}

/* a; factors of f64, order, status. */
int lu_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  struct lu f = { c->array[1].at, c->array[2].at, c->array[3].at, 0 };
  int how = matrices_begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  int64_t n = x.n, all = x.problems * n * n, rows = x.problems * n, most = rows > x.problems ? rows : x.problems;
  how = room_take(&x.room, (size_t)x.problems * PANEL * 4, &f.swaps);
  if (!how)
    how = LAUNCH(g, x.common, "matrix_load", routine_parts(all, 256), 256, c->array[0].at, f.at, 0, (uint64_t)n, (uint64_t)n,
                 (uint64_t)all, 0);
  if (!how) how = LAUNCH(g, x.own, "lu_begin", routine_parts(most, 256), 256, f.order, f.status, (uint64_t)n, (uint64_t)rows,
                         (uint64_t)x.problems);
  for (int64_t from = 0, to; !how && from < n; from = to) {
    to = n - from < MATRIX_BLOCK ? n : from + MATRIX_BLOCK;
    how = lu_columns(&x, &f, from, to);
    if (!how && to < n) how = lu_take(&x, &f, from, to, n);
  }
  return matrices_finish(&x, how);
}

enum { LU_A, LU_FACTORS, LU_ORDER, LU_STATUS, LU_RIGHT }; /* as in op/linear.h */

/* L U is a with its rows in order, so a x = b is L U x = b in that order; a' x = b is U' L' y = b, with x = y back in place. */
static int solve_factors(struct matrices *x, uint64_t lu, bool is_turned, uint64_t b, int64_t m) {
  int how = CUDA_OK;
  for (int k = 0; !how && k < 2; k++)
    how = matrices_solve(x, (struct triangle){ lu, is_turned, k == 1, is_turned == (k == 1) }, b, m);
  return how;
}

/* number: is_turned. */
int solve_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array;
  bool is_turned = c->number[0] != 0;
  uint64_t b;
  int64_t m = routine_last(&a[LU_RIGHT], 1);
  int how = matrices_begin(&x, g, c, NULL);
  if (how || only_asks) return how;
  how = matrices_load(&x, a[LU_RIGHT].at, is_turned ? 0 : a[LU_ORDER].at, m, &b);
  if (!how) how = solve_factors(&x, a[LU_FACTORS].at, is_turned, b, m);
  if (!how) how = matrices_store(&x, b, a[LU_RIGHT + 1].at, is_turned ? a[LU_ORDER].at : 0, a[LU_STATUS].at, m);
  return matrices_finish(&x, how);
}

/* The inverse as doubles. */
static int invert(struct matrices *x, const struct routine_array *a, uint64_t *b) {
  int64_t all = x->problems * x->n * x->n;
  int how = room_take(&x->room, (size_t)all * 8, b);
  if (!how) how = LAUNCH(x->g, x->own, "lu_identity", routine_parts(all, 256), 256, *b, a[LU_ORDER].at, (uint64_t)x->n,
                         (uint64_t)all);
  return how ? how : solve_factors(x, a[LU_FACTORS].at, false, *b, x->n);
}

int inverse_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array;
  uint64_t b;
  int how = matrices_begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  how = invert(&x, a, &b);
  if (!how) how = matrices_store(&x, b, a[LU_STATUS + 1].at, 0, a[LU_STATUS].at, x.n);
  return matrices_finish(&x, how);
}

int determinant_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array, *y = a + LU_STATUS + 1;
  uint64_t seen;
  int how = matrices_begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  how = room_take(&x.room, (size_t)(x.problems * x.n), &seen);
  if (!how)
    how = LAUNCH(g, x.own, "lu_determinant", routine_parts(x.problems, 256), 256, a[LU_FACTORS].at, a[LU_ORDER].at, seen, y[0].at,
                 y[1].at, y[2].at, (uint64_t)x.n, (uint64_t)x.problems);
  return matrices_finish(&x, how);
}

int adjugate_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array;
  uint64_t b, seen, work, rooms;
  int how = matrices_begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  how = invert(&x, a, &b);
  if (!how) how = room_take(&x.room, (size_t)(x.problems * x.n), &seen);
  if (!how) how = room_take(&x.room, (size_t)(x.problems * x.n * x.n) * 8, &work);
  if (!how) how = room_take(&x.room, (size_t)(x.problems * x.n * 4) * 8, &rooms);
  if (!how)
    how = LAUNCH(g, x.own, "adjugate_good", x.problems, matrices_threads(x.n), b, a[LU_FACTORS].at, a[LU_ORDER].at, seen,
                 a[LU_STATUS].at,
                 (uint64_t)x.n);
  if (!how)
    how = LAUNCH(g, x.own, "adjugate_singular", x.problems, matrices_threads(x.n), a[LU_A].at, work, b, rooms, a[LU_STATUS].at,
                 (uint64_t)x.n);
  if (!how) how = matrices_store(&x, b, a[LU_STATUS + 1].at, 0, 0, x.n);
  return matrices_finish(&x, how);
}
