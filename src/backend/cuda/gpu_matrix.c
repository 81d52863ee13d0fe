/* gpu_matrix.c -- matrices on a GPU: what factors and systems share. Matrices come as doubles in memory of their own and go back, a
 * product is taken off a matrix, and triangular systems are solved.
 *
 * Every element is what op/matrix.c makes of it, in the same order: products are subtracted one by one in the order of k, and where
 * the host adds eight sums so does a kernel here. */
#include "backend/cuda/gpu_matrix.h"

enum { THREADS = 256 };

static const char matrix_text[] =
  /* Row r of a matrix [n, m] is what stands at order[r]. */
  WRITTEN(
entry matrix_load(T* x, f64* to, s64* order, u64 n, u64 m, u64 all, u32 has_order) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    u64 row = i / m;
    u64 from = i;
    if (has_order != 0) { from = (row / n * n + u64(order[row])) * m + i % m; }
    to[i] = f64(x[from]);
  }
}
  )
  /* Row r goes to order[r]; where a status is not 0, it is nan. */
  WRITTEN(
entry matrix_store(f64* from, T* y, s64* order, s64* status, u64 n, u64 m, u64 all, u32 has_order,
                   u32 has_status) { ) QUIET_NAN WRITTEN(
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    u64 row = i / m;
    u64 to = i;
    f64 v = from[i];
    if (has_order != 0) { to = (row / n * n + u64(order[row])) * m + i % m; }
    if (has_status != 0) { if (status[row / n] != 0) { v = as_f64(0x7ff8000000000000); } }
    y[to] = v == v ? T(v) : nan;
  }
}
  )
  /* The number, from 1, of the first element of the diagonal that is 0 or nan; 0: none. A block of threads a matrix; is_unit: it
   * is not read. */
  WRITTEN(
entry matrix_pivots(f64* all, s64* status, u64 n, u32 is_unit) {
  shared u64 size_of[256];
  shared u64 place_of[256];
  f64* a = all + u64(block) * n * n;
  u64 best = 0;
  u64 at = 0;
  u64 i = u64(tid);
  while (i < n && is_unit == 0) {
    f64 v = a[i * n + i];
    bool is_first = best == 0 && !(v > 0 || v < 0);
    at = is_first ? i + 1 : at;
    best = is_first ? n - i : best;
    i = i + u64(threads);
  }
  ) LARGEST_OF_BLOCK WRITTEN(
  if (tid == 0) { status[block] = s64(largest); }
}
  )
  /* c -= a b: [m, k] x [k, n], k <= 32; tiles of 64 x 64, four by four a thread. each: from one matrix to the next. */
  WRITTEN(
entry matrix_take(f64* c, u64 c_each, u64 c_row, f64* a, u64 a_each, u64 a_row, u64 a_column, f64* b, u64 b_each, u64 b_row,
                  u64 b_column,
                  u32 m, u32 n, u32 k, u32 is_lower, u32 tiles_n, u32 tiles) {
  shared f64 left[2112];
  shared f64 right[2048];
  u64 problem = u64(block / tiles);
  u32 tile = block % tiles;
  u32 row = tile / tiles_n * 64;
  u32 column = tile % tiles_n * 64;
  if (is_lower != 0 && column > row + 63) { return; }
  f64* cp = c + problem * c_each;
  f64* ap = a + problem * a_each;
  f64* bp = b + problem * b_each;
  repeat (e, 8) {
    u32 i = tid + 256 * e;
    u32 r = i / 32;
    u32 q = i % 32;
    if (row + r < m && q < k) { left[r * 33 + q] = ap[u64(row + r) * a_row + u64(q) * a_column]; }
    r = i / 64;
    q = i % 64;
    if (column + q < n && r < k) { right[r * 64 + q] = bp[u64(r) * b_row + u64(column + q) * b_column]; }
  }
  bar;
  u32 x = tid % 16;
  u32 y = tid / 16 * 4;
  f64 s[16];
  f64 left_of[4];
  f64 right_of[4];
  repeat (i, 4) { repeat (j, 4) {
    s[i * 4 + j] = 0;
    if (row + y + i < m && column + x + 16 * j < n) { s[i * 4 + j] = cp[u64(row + y + i) * c_row + u64(column + x + 16 * j)]; }
  } }
  u32 q = 0;
  while (q < k) {
    repeat (i, 4) { left_of[i] = left[(y + i) * 33 + q]; right_of[i] = right[q * 64 + x + 16 * i]; }
    repeat (i, 4) { repeat (j, 4) { s[i * 4 + j] = s[i * 4 + j] - right_of[j] * left_of[i]; } }
    q = q + 1;
  }
  repeat (i, 4) { repeat (j, 4) {
    if (row + y + i < m && column + x + 16 * j < n) { cp[u64(row + y + i) * c_row + u64(column + x + 16 * j)] = s[i * 4 + j]; }
  } }
}
  )
  /* Rows from .. to - 1 of b, of m columns, as far as they depend on each other: a thread a column. */
  WRITTEN(
entry solve_rows(f64* a, u64 a_each, u64 row, u64 column, f64* b, u64 b_each, u64 b_row, u64 m, u32 from, u32 to, u32 is_upper,
                 u32 is_unit, u32 cuts) {
  f64* ap = a + u64(block / cuts) * a_each;
  u64 j = u64(block % cuts) * u64(threads) + u64(tid);
  f64* bp = b + (u64(block / cuts) * b_each + j);
  if (j < m) {
    u32 step = from;
    while (step < to) {
      u32 i = is_upper != 0 ? to - 1 - (step - from) : step;
      u32 k = is_upper != 0 ? i + 1 : from;
      u32 end = is_upper != 0 ? to : i;
      f64 s = bp[u64(i) * b_row];
      while (k < end) {
        s = s - bp[u64(k) * b_row] * ap[u64(i) * row + u64(k) * column];
        k = k + 1;
      }
      if (is_unit == 0) { s = s / ap[u64(i) * row + u64(i) * column]; }
      bp[u64(i) * b_row] = s;
      step = step + 1;
    }
  }
}
  )
  /* The same of 32 rows from `from` on: the triangle is in shared memory, and a thread has its column in registers. An element
   * takes the products with others off in the order of k: downwards as soon as each is known, upwards when it is its turn. */
  WRITTEN(
entry solve_block(f64* a, u64 a_each, u64 row, u64 column, f64* b, u64 b_each, u64 b_row, u64 m, u64 from, u32 is_upper,
                  u32 is_unit, u32 cuts) of 128 {
  shared f64 box[1056];
  f64* ap = a + (u64(block / cuts) * a_each + from * (row + column));
  u32 q = tid;
  while (q < 1024) {
    box[q / 32 * 33 + q % 32] = ap[u64(q / 32) * row + u64(q % 32) * column];
    q = q + threads;
  }
  bar;
  u64 j = u64(block % cuts) * u64(threads) + u64(tid);
  f64* bp = b + (u64(block / cuts) * b_each + from * b_row + j);
  if (j < m) {
    f64 x[32];
    repeat (i, 32) { x[i] = bp[u64(i) * b_row]; }
    if (is_upper != 0) {
      repeat (step, 32) {
        repeat (k, 32) { if (k > 31 - step) { x[31 - step] = x[31 - step] - x[k] * box[(31 - step) * 33 + k]; } }
        if (is_unit == 0) { x[31 - step] = x[31 - step] / box[(31 - step) * 34]; }
      }
    } else {
      repeat (k, 32) {
        if (is_unit == 0) { x[k] = x[k] / box[k * 34]; }
        repeat (i, 32) { if (i > k) { x[i] = x[i] - x[k] * box[i * 33 + k]; } }
      }
    }
    repeat (i, 32) { bp[u64(i) * b_row] = x[i]; }
  }
}
  )
  /* One right side. Rows of the matrix side by side: eight sums of every eighth product, and then theirs; else by columns. All
   * threads multiply, 1024 products of a row at a time, which eight of them add. */
  WRITTEN(
entry solve_one(f64* a, u64 a_each, u64 row, u64 column, f64* b, u64 n, u32 is_upper, u32 is_unit) {
  shared f64 part[8];
  shared f64 product[1024];
  f64* ap = a + u64(block) * a_each;
  f64* bp = b + u64(block) * n;
  u64 step = 0;
  while (step < n) {
    u64 i = is_upper != 0 ? n - 1 - step : step;
    if (column == 1) {
      u64 k = is_upper != 0 ? i + 1 : u64(0);
      u64 length = is_upper != 0 ? n - i - 1 : i;
      u64 end = k + (length & ~u64(7));
      f64* line = ap + i * row;
      f64 sum = 0;
      f64 rest = 0;
      u64 begin = k;
      u64 stop = k + length;
      while (begin < stop) {
        u64 c = begin + u64(tid);
        u64 last = begin + 1024 < stop ? begin + 1024 : stop;
        while (c < last) {
          product[c - begin] = line[c] * bp[c];
          c = c + u64(threads);
        }
        bar;
        if (tid < 8) {
          u64 whole = last < end ? last : end;
          u64 q = begin + u64(tid);
          while (q + 24 < whole) {
            repeat (j, 4) { sum = sum + product[q - begin + j * 8]; }
            q = q + 32;
          }
          while (q < whole) {
            sum = sum + product[q - begin];
            q = q + 8;
          }
          q = end > begin ? end : begin;
          while (q < last) {
            rest = rest + product[q - begin];
            q = q + 1;
          }
        }
        bar;
        begin = begin + 1024;
      }
      if (tid < 8) { part[tid] = sum; }
      bar;
      if (tid == 0) {
        f64 s = bp[i] - ((((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]))) + rest);
        if (is_unit == 0) { s = s / line[i]; }
        bp[i] = s;
      }
      bar;
    } else {
      if (tid == 0 && is_unit == 0) { bp[i] = bp[i] / ap[i * row + i * column]; }
      bar;
      f64 f = bp[i];
      u64 r = u64(tid) + (is_upper != 0 ? u64(0) : i + 1);
      u64 end = is_upper != 0 ? i : n;
      while (r < end) {
        bp[r] = bp[r] - ap[r * row + i * column] * f;
        r = r + u64(threads);
      }
      bar;
    }
    step = step + 1;
  }
}
  );

static int names_load(struct gpu *g, const char *text, weft_dtype t, struct routine_module **m) {
  const struct written_name names[] = {
    { "T", 0, t == WEFT_F64 ? "f64" : "f32" }, { "WIDE", t == WEFT_F64, NULL }, { NULL, 0, NULL },
  };
  return routine_load(g, text, names, m);
}

/* text NULL: no kernels of its own. */
int matrices_begin(struct matrices *x, struct gpu *g, const struct routine_call *c, const char *text) {
  const struct routine_array *a = &c->array[0];
  *x = (struct matrices){ .g = g, .room = { .gpu = g }, .problems = c->n_problems, .n = routine_last(a, 1), .dtype = a->dtype };
  if (x->n > INT32_MAX / 2 || c->n_problems > INT32_MAX / 4) return DEVICE_CANNOT;
  int how = names_load(g, matrix_text, x->dtype, &x->common);
  return how || !text ? how : names_load(g, text, x->dtype, &x->own);
}

int matrices_threads(int64_t n) { return n <= FEW_THREADS ? FEW_THREADS : THREADS; }
uint64_t matrices_doubles(uint64_t at, int64_t n) { return at + (uint64_t)n * 8; }

/* Matrices [n, m] as doubles in memory of their own. */
int matrices_load(struct matrices *x, uint64_t from, uint64_t order, int64_t m, uint64_t *to) {
  int64_t all = x->problems * x->n * m;
  int how = room_take(&x->room, (size_t)all * 8, to);
  if (how) return how;
  return LAUNCH(x->g, x->common, "matrix_load", routine_parts(all, 256), 256, from, *to, order, (uint64_t)x->n, (uint64_t)m,
                (uint64_t)all, order != 0);
}

int matrices_store(struct matrices *x, uint64_t from, uint64_t to, uint64_t order, uint64_t status, int64_t m) {
  int64_t all = x->problems * x->n * m;
  return LAUNCH(x->g, x->common, "matrix_store", routine_parts(all, 256), 256, from, to, order, status, (uint64_t)x->n, (uint64_t)m,
                (uint64_t)all,
                order != 0, status != 0);
}

int matrices_take(struct matrices *x, struct standing c, struct standing a, struct standing b, int64_t m, int64_t n, int64_t k,
                  bool is_lower) {
  int64_t across = routine_parts(n, 64), tiles = routine_parts(m, 64) * across;
  if (!tiles || x->problems > INT32_MAX / tiles) return tiles ? DEVICE_CANNOT : CUDA_OK;
  return LAUNCH(x->g, x->common, "matrix_take", x->problems * tiles, 256, c.at, (uint64_t)c.each, (uint64_t)c.row, a.at,
                (uint64_t)a.each,
                (uint64_t)a.row, (uint64_t)a.column, b.at, (uint64_t)b.each, (uint64_t)b.row, (uint64_t)b.column,
                  (uint64_t)m, (uint64_t)n,
                (uint64_t)k, is_lower, (uint64_t)across, (uint64_t)tiles);
}

/* Rows from .. to - 1 of b, which has m columns, as far as they depend on each other. */
int matrices_solve_rows(struct matrices *x, const struct triangle *t, struct standing a, struct standing b, int64_t m, int64_t from,
                        int64_t to) {
  int64_t threads = m <= 64 ? 32 : 128, cuts = routine_parts(m, threads);
  if (!cuts || x->problems > INT32_MAX / cuts) return cuts ? DEVICE_CANNOT : CUDA_OK;
  if (to - from == MATRIX_BLOCK)
    return LAUNCH(x->g, x->common, "solve_block", x->problems * cuts, (int)threads, a.at, (uint64_t)a.each, (uint64_t)a.row,
                  (uint64_t)a.column, b.at, (uint64_t)b.each, (uint64_t)b.row, (uint64_t)m, (uint64_t)from, t->is_upper, t->is_unit,
                  (uint64_t)cuts);
  return LAUNCH(x->g, x->common, "solve_rows", x->problems * cuts, (int)threads, a.at, (uint64_t)a.each, (uint64_t)a.row,
                (uint64_t)a.column, b.at, (uint64_t)b.each, (uint64_t)b.row, (uint64_t)m, (uint64_t)from, (uint64_t)to, t->is_upper,
                t->is_unit, (uint64_t)cuts);
}

/* b [n, m] becomes what solves it: as matrix_solve, and as matrix_lanes_solve for what is small. */
int matrices_solve(struct matrices *x, struct triangle t, uint64_t b, int64_t m) {
  int64_t n = x->n, row = t.is_turned ? 1 : n, column = t.is_turned ? n : 1;
  int how = CUDA_OK;
  if (m == 1 && n > MATRIX_SMALL)
    return LAUNCH(x->g, x->common, "solve_one", x->problems, matrices_threads(n), t.a,
                  (uint64_t)(n * n), (uint64_t)row, (uint64_t)column, b, (uint64_t)n, t.is_upper, t.is_unit);
  for (int64_t done = 0; !how && done < n && m > 0; done += MATRIX_BLOCK) {
    int64_t rows = n - done < MATRIX_BLOCK ? n - done : MATRIX_BLOCK, from = t.is_upper ? n - done - rows : done;
    int64_t rest = t.is_upper ? 0 : from + rows, n_rest = t.is_upper ? from : n - rest;
    struct standing a = { t.a, n * n, row, column }, right = { b, n * m, m, 1 };
    how = matrices_solve_rows(x, &t, a, right, m, from, from + rows);
    if (!how)
      how = matrices_take(x, (struct standing){ matrices_doubles(b, rest * m), n * m, m, 1 },
                 (struct standing){ matrices_doubles(t.a, rest * row + from * column), n * n, row, column },
                 (struct standing){ matrices_doubles(b, from * m), n * m, m, 1 }, n_rest, m, rows, false);
  }
  return how;
}

int matrices_finish(struct matrices *x, int how) { return room_give(&x->room), how; }

/* Systems by one triangle after the other, all of the first operand; a unit one is alone. */
int matrices_triangles(struct gpu *g, const struct routine_call *c, bool only_asks, int n, const struct triangle t[]) {
  struct matrices x;
  uint64_t a, b, status = c->array[3].at;
  int64_t m = routine_last(&c->array[1], 1);
  int how = matrices_begin(&x, g, c, NULL);
  if (how || only_asks) return how;
  how = matrices_load(&x, c->array[0].at, 0, x.n, &a);
  if (!how) how = matrices_load(&x, c->array[1].at, 0, m, &b);
  if (!how)
    how = LAUNCH(g, x.common, "matrix_pivots", x.problems, matrices_threads(x.n), a, status, (uint64_t)x.n, t[0].is_unit);
  for (int k = 0; !how && k < n; k++)
    how = matrices_solve(&x, (struct triangle){ a, t[k].is_turned, t[k].is_upper, t[k].is_unit }, b, m);
  if (!how) how = matrices_store(&x, b, c->array[2].at, 0, status, m);
  return matrices_finish(&x, how);
}

/* number: is_upper, is_unit. */
int triangle_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct triangle t = { .is_upper = c->number[0] != 0, .is_unit = c->number[1] != 0 };
  return matrices_triangles(g, c, only_asks, 1, &t);
}
