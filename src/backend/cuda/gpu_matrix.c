/* gpu_matrix.c -- factors of matrices and systems with them on a GPU: what op/linear_steps.c does on the host, in f64, with
 * its bits.
 * Every element is what op/matrix.c makes of it, in the same order: products are subtracted one by one in the order of k, and where
 * the host adds eight sums so does a kernel here. Blocks of 32 columns are eliminated by one block of threads a matrix; what
 * they take
 * off the rest is a product, by tiles. So one large matrix has the whole machine for nearly all of the work, and many small
 * ones are side by side. */
#include "backend/cuda/gpu_matrix.h"

enum { MATRIX_SMALL = 16, MATRIX_BLOCK = 32 }; /* as in op/matrix.h: bits depend on them */
enum { FEW_THREADS = 32, ROW_THREADS = 64, THREADS = 256 };

/* ---- in and out ---- */

#define QUIET_NAN WRITTEN(                                                      \
  T nan = 0;                                                                    \
  if (WIDE) { nan = as_f64(0x7ff8000000000000); } else { nan = as_f32(0x7fc00000); })

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
  /* One right side. Rows of the matrix side by side: eight sums of every eighth product, and then theirs; else by columns. */
  WRITTEN(
entry solve_one(f64* a, u64 a_each, u64 row, u64 column, f64* b, u64 n, u32 is_upper, u32 is_unit) {
  shared f64 part[8];
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
      if (tid < 8) {
        f64 sum = 0;
        u64 c = k + u64(tid);
        while (c < end) {
          sum = sum + line[c] * bp[c];
          c = c + 8;
        }
        part[tid] = sum;
      }
      bar;
      if (tid == 0) {
        f64 rest = 0;
        u64 c = end;
        while (c < k + length) {
          rest = rest + line[c] * bp[c];
          c = c + 1;
        }
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

/* ---- Cholesky ---- */

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

/* ---- the largest ---- */

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

/* ---- LU ---- */

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

/* ---- what they are given ---- */

struct matrices { struct gpu *g; struct routine_room room; struct routine_module *common, *own; int64_t problems,
                  n; weft_dtype dtype; };

static int names_load(struct gpu *g, const char *text, weft_dtype t, struct routine_module **m) {
  const struct written_name names[] = {
    { "T", 0, t == WEFT_F64 ? "f64" : "f32" }, { "WIDE", t == WEFT_F64, NULL }, { NULL, 0, NULL },
  };
  return routine_load(g, text, names, m);
}

/* text NULL: no kernels of its own. */
static int begin(struct matrices *x, struct gpu *g, const struct routine_call *c, const char *text) {
  const struct routine_array *a = &c->array[0];
  *x = (struct matrices){ .g = g, .room = { .gpu = g }, .problems = c->n_problems, .n = routine_last(a, 1), .dtype = a->dtype };
  if (x->n > INT32_MAX / 2 || c->n_problems > INT32_MAX / 4) return DEVICE_CANNOT;
  int how = names_load(g, matrix_text, x->dtype, &x->common);
  return how || !text ? how : names_load(g, text, x->dtype, &x->own);
}

static int64_t over(int64_t n, int64_t by) { return n > 0 ? (n - 1) / by + 1 : 0; }
static int threads_for(int64_t n) { return n <= FEW_THREADS ? FEW_THREADS : THREADS; }
static uint64_t doubles(uint64_t at, int64_t n) { return at + (uint64_t)n * 8; }

/* Matrices [n, m] as doubles in memory of their own. */
static int load(struct matrices *x, uint64_t from, uint64_t order, int64_t m, uint64_t *to) {
  int64_t all = x->problems * x->n * m;
  int how = room_take(&x->room, (size_t)all * 8, to);
  if (how) return how;
  return LAUNCH(x->g, x->common, "matrix_load", over(all, 256), 256, from, *to, order, (uint64_t)x->n, (uint64_t)m,
                (uint64_t)all, order != 0);
}

static int store(struct matrices *x, uint64_t from, uint64_t to, uint64_t order, uint64_t status, int64_t m) {
  int64_t all = x->problems * x->n * m;
  return LAUNCH(x->g, x->common, "matrix_store", over(all, 256), 256, from, to, order, status, (uint64_t)x->n, (uint64_t)m,
                (uint64_t)all,
                order != 0, status != 0);
}

/* Where an operand of c -= a b stands, in each matrix. */
struct standing { uint64_t at; int64_t each, row, column; };

static int take(struct matrices *x, struct standing c, struct standing a, struct standing b, int64_t m, int64_t n, int64_t k,
                bool is_lower) {
  int64_t across = over(n, 64), tiles = over(m, 64) * across;
  if (!tiles || x->problems > INT32_MAX / tiles) return tiles ? DEVICE_CANNOT : CUDA_OK;
  return LAUNCH(x->g, x->common, "matrix_take", x->problems * tiles, 256, c.at, (uint64_t)c.each, (uint64_t)c.row, a.at,
                (uint64_t)a.each,
                (uint64_t)a.row, (uint64_t)a.column, b.at, (uint64_t)b.each, (uint64_t)b.row, (uint64_t)b.column,
                  (uint64_t)m, (uint64_t)n,
                (uint64_t)k, is_lower, (uint64_t)across, (uint64_t)tiles);
}

struct triangle { uint64_t a; bool is_turned, is_upper, is_unit; };

/* Rows from .. to - 1 of b, which has m columns, as far as they depend on each other. */
static int solve_rows(struct matrices *x, const struct triangle *t, struct standing a, struct standing b, int64_t m, int64_t from,
                      int64_t to) {
  int64_t threads = m <= 64 ? 32 : 128, cuts = over(m, threads);
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
static int solve(struct matrices *x, struct triangle t, uint64_t b, int64_t m) {
  int64_t n = x->n, row = t.is_turned ? 1 : n, column = t.is_turned ? n : 1;
  int how = CUDA_OK;
  if (m == 1 && n > MATRIX_SMALL)
    return LAUNCH(x->g, x->common, "solve_one", x->problems, t.is_turned ? threads_for(n) : FEW_THREADS, t.a, (uint64_t)(n * n),
                  (uint64_t)row, (uint64_t)column, b, (uint64_t)n, t.is_upper, t.is_unit);
  for (int64_t done = 0; !how && done < n && m > 0; done += MATRIX_BLOCK) {
    int64_t rows = n - done < MATRIX_BLOCK ? n - done : MATRIX_BLOCK, from = t.is_upper ? n - done - rows : done;
    int64_t rest = t.is_upper ? 0 : from + rows, n_rest = t.is_upper ? from : n - rest;
    struct standing a = { t.a, n * n, row, column }, right = { b, n * m, m, 1 };
    how = solve_rows(x, &t, a, right, m, from, from + rows);
    if (!how)
      how = take(x, (struct standing){ doubles(b, rest * m), n * m, m, 1 },
                 (struct standing){ doubles(t.a, rest * row + from * column), n * n, row, column },
                 (struct standing){ doubles(b, from * m), n * m, m, 1 }, n_rest, m, rows, false);
  }
  return how;
}

static int finish(struct matrices *x, int how) { return room_give(&x->room), how; }

int cholesky_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  uint64_t a;
  int how = begin(&x, g, c, cholesky_text);
  if (how || only_asks) return how;
  int64_t n = x.n, all = x.problems * n * n;
  how = load(&x, c->array[0].at, 0, n, &a);
  for (int64_t from = 0, to; !how && (from < n || !from); from = to ? to : 1) {
    to = n - from < MATRIX_BLOCK ? n : from + MATRIX_BLOCK;
    int64_t cuts = over(n - to, ROW_THREADS);
    how = LAUNCH(g, x.own, "cholesky_corner", x.problems, FEW_THREADS, a, c->array[2].at, (uint64_t)n, (uint64_t)from,
                 (uint64_t)to);
    if (!how && cuts)
      how = LAUNCH(g, x.own, "cholesky_rows", x.problems * cuts, ROW_THREADS, a, c->array[2].at, (uint64_t)n, (uint64_t)from,
                   (uint64_t)to, (uint64_t)cuts);
    if (!how)
      how = take(&x, (struct standing){ doubles(a, to * n + to), n * n, n, 1 }, (struct standing){ doubles(a, to * n + from),
          n * n, n, 1 },
                 (struct standing){ doubles(a, to * n + from), n * n, 1, n }, n - to, n - to, to - from, true);
  }
  if (!how) how = LAUNCH(g, x.own, "cholesky_end", over(all, 256), 256, a, c->array[1].at, c->array[2].at, (uint64_t)n,
                         (uint64_t)all);
  return finish(&x, how);
}

/* Systems by one triangle after the other, all of the first operand. */
static int triangles_there(struct gpu *g, const struct routine_call *c, bool only_asks, int n, const struct triangle t[]) {
  struct matrices x;
  uint64_t a, b;
  int64_t m = routine_last(&c->array[1], 1);
  int how = begin(&x, g, c, NULL);
  if (how || only_asks) return how;
  how = load(&x, c->array[0].at, 0, x.n, &a);
  if (!how) how = load(&x, c->array[1].at, 0, m, &b);
  for (int k = 0; !how && k < n; k++) how = solve(&x, (struct triangle){ a, t[k].is_turned, t[k].is_upper, t[k].is_unit }, b, m);
  if (!how) how = store(&x, b, c->array[2].at, 0, 0, m);
  return finish(&x, how);
}

/* number: is_upper, is_unit. */
int triangle_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct triangle t = { .is_upper = c->number[0] != 0, .is_unit = c->number[1] != 0 };
  return triangles_there(g, c, only_asks, 1, &t);
}

int cholesky_solve_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  static const struct triangle l_and_its_transpose[] = { { 0 }, { .is_turned = true, .is_upper = true } };
  return triangles_there(g, c, only_asks, 2, l_and_its_transpose);
}

struct lu { uint64_t at, order, status, swaps; };

/* What columns from .. to - 1, which are eliminated, take off columns to .. end - 1: of their rows by a system with L, below by a
 * product. */
static int lu_take(struct matrices *x, const struct lu *f, int64_t from, int64_t to, int64_t end) {
  static const struct triangle lower = { .is_unit = true };
  int64_t n = x->n, each = n * n;
  struct standing all = { f->at, each, n, 1 }, right = { doubles(f->at, to), each, n, 1 };
  int how = solve_rows(x, &lower, all, right, end - to, from, to);
  if (how) return how;
  return take(x, (struct standing){ doubles(f->at, to * n + to), each, n, 1 },
              (struct standing){ doubles(f->at, to * n + from), each, n, 1 },
              (struct standing){ doubles(f->at, from * n + to), each, n, 1 }, n - to, end - to, to - from, false);
}

enum { PANEL = 8, PANEL_ROWS = 2048 }; /* of lu_panel */

/* Columns from .. to - 1 by panels of few, whose rows are exchanged in all other columns behind each. */
static int lu_panels(struct matrices *x, const struct lu *f, int64_t from, int64_t to) {
  int64_t n = x->n, cuts = over(n, 128);
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
  if (x->n > 4 * MATRIX_BLOCK && x->n - from <= PANEL_ROWS && x->problems <= INT32_MAX / over(x->n, 128))
    return lu_panels(x, f, from, to);
  return LAUNCH(x->g, x->own, "lu_columns", x->problems, threads_for(x->n), f->at, f->order, f->status, (uint64_t)x->n,
                (uint64_t)from, (uint64_t)to);
}

/* a; factors of f64, order, status. */
int lu_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  struct lu f = { c->array[1].at, c->array[2].at, c->array[3].at, 0 };
  int how = begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  int64_t n = x.n, all = x.problems * n * n, rows = x.problems * n, most = rows > x.problems ? rows : x.problems;
  how = room_take(&x.room, (size_t)x.problems * PANEL * 4, &f.swaps);
  if (!how)
    how = LAUNCH(g, x.common, "matrix_load", over(all, 256), 256, c->array[0].at, f.at, 0, (uint64_t)n, (uint64_t)n,
                 (uint64_t)all, 0);
  if (!how) how = LAUNCH(g, x.own, "lu_begin", over(most, 256), 256, f.order, f.status, (uint64_t)n, (uint64_t)rows,
                         (uint64_t)x.problems);
  for (int64_t from = 0, to; !how && from < n; from = to) {
    to = n - from < MATRIX_BLOCK ? n : from + MATRIX_BLOCK;
    how = lu_columns(&x, &f, from, to);
    if (!how && to < n) how = lu_take(&x, &f, from, to, n);
  }
  return finish(&x, how);
}

enum { LU_A, LU_FACTORS, LU_ORDER, LU_STATUS, LU_RIGHT }; /* as in op/linear.h */

/* L U is a with its rows in order, so a x = b is L U x = b in that order; a' x = b is U' L' y = b, with x = y back in place. */
static int solve_factors(struct matrices *x, uint64_t lu, bool is_turned, uint64_t b, int64_t m) {
  int how = CUDA_OK;
  for (int k = 0; !how && k < 2; k++) how = solve(x, (struct triangle){ lu, is_turned, k == 1, is_turned == (k == 1) }, b, m);
  return how;
}

/* number: is_turned. */
int solve_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array;
  bool is_turned = c->number[0] != 0;
  uint64_t b;
  int64_t m = routine_last(&a[LU_RIGHT], 1);
  int how = begin(&x, g, c, NULL);
  if (how || only_asks) return how;
  how = load(&x, a[LU_RIGHT].at, is_turned ? 0 : a[LU_ORDER].at, m, &b);
  if (!how) how = solve_factors(&x, a[LU_FACTORS].at, is_turned, b, m);
  if (!how) how = store(&x, b, a[LU_RIGHT + 1].at, is_turned ? a[LU_ORDER].at : 0, a[LU_STATUS].at, m);
  return finish(&x, how);
}

/* The inverse as doubles. */
static int invert(struct matrices *x, const struct routine_array *a, uint64_t *b) {
  int64_t all = x->problems * x->n * x->n;
  int how = room_take(&x->room, (size_t)all * 8, b);
  if (!how) how = LAUNCH(x->g, x->own, "lu_identity", over(all, 256), 256, *b, a[LU_ORDER].at, (uint64_t)x->n, (uint64_t)all);
  return how ? how : solve_factors(x, a[LU_FACTORS].at, false, *b, x->n);
}

int inverse_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array;
  uint64_t b;
  int how = begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  how = invert(&x, a, &b);
  if (!how) how = store(&x, b, a[LU_STATUS + 1].at, 0, a[LU_STATUS].at, x.n);
  return finish(&x, how);
}

int determinant_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array, *y = a + LU_STATUS + 1;
  uint64_t seen;
  int how = begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  how = room_take(&x.room, (size_t)(x.problems * x.n), &seen);
  if (!how)
    how = LAUNCH(g, x.own, "lu_determinant", over(x.problems, 256), 256, a[LU_FACTORS].at, a[LU_ORDER].at, seen, y[0].at,
                 y[1].at, y[2].at, (uint64_t)x.n, (uint64_t)x.problems);
  return finish(&x, how);
}

int adjugate_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  struct matrices x;
  const struct routine_array *a = c->array;
  uint64_t b, seen, work, rooms;
  int how = begin(&x, g, c, lu_text);
  if (how || only_asks) return how;
  how = invert(&x, a, &b);
  if (!how) how = room_take(&x.room, (size_t)(x.problems * x.n), &seen);
  if (!how) how = room_take(&x.room, (size_t)(x.problems * x.n * x.n) * 8, &work);
  if (!how) how = room_take(&x.room, (size_t)(x.problems * x.n * 4) * 8, &rooms);
  if (!how)
    how = LAUNCH(g, x.own, "adjugate_good", x.problems, threads_for(x.n), b, a[LU_FACTORS].at, a[LU_ORDER].at, seen,
                 a[LU_STATUS].at,
                 (uint64_t)x.n);
  if (!how)
    how = LAUNCH(g, x.own, "adjugate_singular", x.problems, threads_for(x.n), a[LU_A].at, work, b, rooms, a[LU_STATUS].at,
                 (uint64_t)x.n);
  if (!how) how = store(&x, b, a[LU_STATUS + 1].at, 0, 0, x.n);
  return finish(&x, how);
}
