/* gpu_cholesky.c -- Cholesky factors on a GPU, and systems with them, in f64 and with the bits of the host.
 *
 * Blocks of 32 columns: the corner of a block by a warp, the rows below it a thread each, and what the block takes off the rest
 * is a product by tiles. So one large matrix has the whole machine for nearly all of the work, and many small ones are side by
 * side. */
#include "backend/cuda/gpu_matrix.h"

enum { ROW_THREADS = 64 };

static const char cholesky_text[] =
  /* Columns from .. to - 1 of L in rows from .. to - 1, a warp a matrix, in shared memory: a thread has a row. s: what the columns
   * before it in the block take off, by eight sums, or one by one. */
  WRITTEN(
entry cholesky_corner(f64* all, s64* status, u64 n, u64 from, u64 to) {
  shared f64 box[1056];
  if (from == 0) { if (tid == 0) { status[block] = 0; } } else { if (status[block] != 0) { return; } }
  f64* a = all + (u64(block) * n * n + from * n + from);
  u32 m = u32(to - from);
  u32 i = 0;
  while (i < m) {
    if (tid < m) { box[i * 33 + tid] = a[u64(i) * n + u64(tid)]; }
    i = i + 1;
  }
  warp;
  u32 own = tid * 33;
  u32 j = 0;
  while (j < m) {
    f64 s = 1;
    u32 pivots = j * 33;
    if (tid >= j && tid < m) {
      u32 c = 0;
      s = box[own + j];
      if (n <= 16) {
        while (c < j) { s = s - box[own + c] * box[pivots + c]; c = c + 1; }
      } else {
        f64 d[8];
        f64 rest = 0;
        repeat (e, 8) { d[e] = 0; }
        while (c + 8 <= j) {
          repeat (e, 8) { d[e] = d[e] + box[own + (c + e)] * box[pivots + (c + e)]; }
          c = c + 8;
        }
        while (c < j) { rest = rest + box[own + c] * box[pivots + c]; c = c + 1; }
        s = s - ((((d[0] + d[4]) + (d[1] + d[5])) + ((d[2] + d[6]) + (d[3] + d[7]))) + rest);
      }
    }
    warp;
    if (tid == j) { box[own + j] = sqrt(s); }
    u32 is_wrong = ballot(tid == j && !(s > 0));
    warp;
    if (is_wrong != 0) {
      if (tid == 0) { status[block] = s64(from) + s64(j) + 1; }
      return;
    }
    if (tid > j && tid < m) { box[own + j] = s / box[pivots + j]; }
    warp;
    j = j + 1;
  }
  i = 0;
  while (i < m) {
    if (tid <= i) { a[u64(i) * n + u64(tid)] = box[i * 33 + tid]; }
    i = i + 1;
  }
}
  )
  /* The same 32 columns in the rows from to on, which wait for the corner alone: a thread has a row, in registers. */
  WRITTEN(
entry cholesky_rows(f64* all, s64* status, u64 n, u64 from, u64 to, u32 cuts) {
  shared f64 box[1056];
  u64 problem = u64(block / cuts);
  if (status[problem] != 0) { return; }
  f64* corner = all + (problem * n * n + from * n + from);
  u32 q = tid;
  while (q < 1024) {
    box[q / 32 * 33 + q % 32] = corner[u64(q / 32) * n + u64(q % 32)];
    q = q + threads;
  }
  bar;
  u64 i = to + u64(block % cuts) * u64(threads) + u64(tid);
  if (i < n) {
    f64* own = all + (problem * n * n + i * n + from);
    f64 x[32];
    f64 d[8];
    repeat (c, 32) { x[c] = own[c]; }
    repeat (j, 32) {
      f64 rest = 0;
      repeat (e, 8) { d[e] = 0; }
      repeat (c, 32) {
        if (c < j / 8 * 8) { d[c % 8] = d[c % 8] + x[c] * box[j * 33 + c]; }
        if (c >= j / 8 * 8 && c < j) { rest = rest + x[c] * box[j * 33 + c]; }
      }
      f64 s = x[j] - ((((d[0] + d[4]) + (d[1] + d[5])) + ((d[2] + d[6]) + (d[3] + d[7]))) + rest);
      x[j] = s / box[j * 33 + j];
    }
    repeat (c, 32) { own[c] = x[c]; }
  }
}
  )
  WRITTEN(
entry cholesky_end(f64* a, T* y, s64* status, u64 n, u64 all) { ) QUIET_NAN WRITTEN(
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    u64 row = i / n % n;
    T v = T(a[i]);
    v = status[i / (n * n)] != 0 ? nan : v;
    y[i] = i % n > row ? T(0) : v;
  }
}
  );

int cholesky_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  uint64_t a;
  int how = matrices_begin(&x, g, c, cholesky_text);
  if (how || only_asks) return how;
  int64_t n = x.n, all = x.problems * n * n;
  how = matrices_load(&x, c->array[0].at, 0, n, &a);
  for (int64_t from = 0, to; !how && (from < n || !from); from = to ? to : 1) {
    to = n - from < MATRIX_BLOCK ? n : from + MATRIX_BLOCK;
    int64_t cuts = routine_parts(n - to, ROW_THREADS);
    how = LAUNCH(g, x.own, "cholesky_corner", x.problems, FEW_THREADS, a, c->array[2].at, (uint64_t)n, (uint64_t)from,
                 (uint64_t)to);
    if (!how && cuts)
      how = LAUNCH(g, x.own, "cholesky_rows", x.problems * cuts, ROW_THREADS, a, c->array[2].at, (uint64_t)n, (uint64_t)from,
                   (uint64_t)to, (uint64_t)cuts);
    if (!how)
      how = matrices_take(&x, (struct standing){ matrices_doubles(a, to * n + to), n * n, n, 1 },
                          (struct standing){ matrices_doubles(a, to * n + from), n * n, n, 1 },
                          (struct standing){ matrices_doubles(a, to * n + from), n * n, 1, n }, n - to, n - to, to - from, true);
  }
  if (!how) how = LAUNCH(g, x.own, "cholesky_end", routine_parts(all, 256), 256, a, c->array[1].at, c->array[2].at, (uint64_t)n,
                         (uint64_t)all);
  return matrices_finish(&x, how);
}

int cholesky_solve_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  static const struct triangle l_and_its_transpose[] = { { 0 }, { .is_turned = true, .is_upper = true } };
  return matrices_triangles(g, c, only_asks, 2, l_and_its_transpose);
}
