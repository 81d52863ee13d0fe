/* matrix_loops.h -- the loops of matrix.c, for vectors of LANES doubles: included once for each instruction set. */
typedef double NAME(vector) __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef int64_t NAME(mask) __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
#define vector NAME(vector)
#define mask NAME(mask)

enum { NAME(ROWS) = 4, NAME(WIDE) = 2 * LANES };
#define ROWS NAME(ROWS)
#define WIDE NAME(WIDE)

/* y -= f x */
static void NAME(take_row)(double *y, const double *x, double f, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) *(vector *)(y + i) -= *(const vector *)(x + i) * f;
  for (; i < n; i++) y[i] -= x[i] * f;
}

/* Eight sums, of every eighth product, and then theirs. */
static double NAME(dot)(const double *x, const double *y, int64_t n) {
  enum { PARTS = 8 / LANES };
  vector part[PARTS] = { 0 };
  double sum[8], rest = 0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int p = 0; p < PARTS; p++) part[p] += *(const vector *)(x + i + p * LANES) * *(const vector *)(y + i + p * LANES);
  for (; i < n; i++) rest += x[i] * y[i];
  memcpy(sum, part, sizeof sum);
  return (((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]))) + rest;
}

/* ROWS x WIDE of c -= a b, in registers; b is a panel [k, WIDE]. */
static inline __attribute__((always_inline)) void NAME(patch)(double *c, int64_t c_row, const double *a, int64_t a_row,
                                                              int64_t a_column, const double *b, int64_t k, int rows) {
  vector s[ROWS][2];
  for (int i = 0; i < rows; i++) s[i][0] = *(vector *)(c + i * c_row), s[i][1] = *(vector *)(c + i * c_row + LANES);
  for (int64_t j = 0; j < k; j++) {
    vector b0 = *(const vector *)(b + j * WIDE), b1 = *(const vector *)(b + j * WIDE + LANES);
    for (int i = 0; i < rows; i++) {
      double f = a[i * a_row + j * a_column];
      s[i][0] -= b0 * f, s[i][1] -= b1 * f;
    }
  }
  for (int i = 0; i < rows; i++) *(vector *)(c + i * c_row) = s[i][0], *(vector *)(c + i * c_row + LANES) = s[i][1];
}

/* The same of fewer columns: on a copy. */
static void NAME(narrow_patch)(const struct taking *t, int64_t i, int64_t j, int rows, int64_t columns) {
  double c[ROWS * WIDE] = { 0 };
  for (int r = 0; r < rows; r++) memcpy(c + r * WIDE, t->c + (i + r) * t->c_row + j, (size_t)columns * sizeof *c);
  if (rows == ROWS) NAME(patch)(c, WIDE, t->a + i * t->a_row, t->a_row, t->a_column, t->room, t->k, ROWS);
  else for (int r = 0; r < rows; r++)
    NAME(patch)(c + r * WIDE, WIDE, t->a + (i + r) * t->a_row, t->a_row, t->a_column, t->room, t->k, 1);
  for (int r = 0; r < rows; r++) memcpy(t->c + (i + r) * t->c_row + j, c + r * WIDE, (size_t)columns * sizeof *c);
}

static void NAME(pack)(const struct taking *t, int64_t j, int64_t columns) {
  for (int64_t k = 0; k < t->k; k++)
    for (int64_t i = 0; i < WIDE; i++) t->room[k * WIDE + i] = i < columns ? t->b[k * t->b_row + (j + i) * t->b_column] : 0;
}

/* The panel in the room, columns j .. of b, taken off rows first .. of c. */
static void NAME(take_panel)(const struct taking *t, int64_t first, int64_t j, int64_t columns) {
  for (int64_t i = first; i < t->m; i += ROWS) {
    int rows = t->m - i < ROWS ? (int)(t->m - i) : ROWS;
    double *c = t->c + i * t->c_row + j;
    const double *a = t->a + i * t->a_row;
    if (columns < WIDE) NAME(narrow_patch)(t, i, j, rows, columns);
    else if (rows == ROWS) NAME(patch)(c, t->c_row, a, t->a_row, t->a_column, t->room, t->k, ROWS);
    else for (int r = 0; r < rows; r++)
      NAME(patch)(c + r * t->c_row, t->c_row, a + r * t->a_row, t->a_row, t->a_column, t->room, t->k, 1);
  }
}

static void NAME(take)(const struct taking *t) {
  for (int64_t j = 0; j < t->n; j += WIDE) {
    int64_t columns = t->n - j < WIDE ? t->n - j : WIDE;
    NAME(pack)(t, j, columns);
    NAME(take_panel)(t, t->is_lower ? j : 0, j, columns);
  }
}

/* ---- systems ---- */

/* Two panels [n, WIDE] of right sides become what solves a block of a triangle. */
static void NAME(solve_panels)(const struct matrix_triangle *t, double *panel, int64_t apart) {
  for (int64_t step = 0; step < t->n; step++) {
    int64_t i = t->is_upper ? t->n - 1 - step : step, first = t->is_upper ? i + 1 : 0, end = t->is_upper ? t->n : i;
    const double *row = t->a + i * t->row;
    double pivot = t->is_unit ? 1 : row[i * t->column];
    vector s[4];
    for (int v = 0; v < 4; v++) s[v] = *(const vector *)(panel + v / 2 * apart + i * WIDE + v % 2 * LANES);
    for (int64_t k = first; k < end; k++)
      for (int v = 0; v < 4; v++) s[v] -= *(const vector *)(panel + v / 2 * apart + k * WIDE + v % 2 * LANES) * row[k * t->column];
    for (int v = 0; v < 4 && !t->is_unit; v++) s[v] /= pivot;
    for (int v = 0; v < 4; v++) *(vector *)(panel + v / 2 * apart + i * WIDE + v % 2 * LANES) = s[v];
  }
}

/* Rows of b [.., m] become what solves a block of a triangle, and what they take off the rows of t->c is taken off. t->b and t->n
 * are those of b. */
static void NAME(solve_block)(const struct matrix_triangle *block, const struct taking *t, double *b) {
  int64_t apart = MATRIX_BLOCK * WIDE;
  for (int64_t j = 0; j < t->n; j += 2 * WIDE) {
    struct taking half[2] = { *t, *t };
    int64_t columns[2];
    half[1].room += apart;
    for (int p = 0; p < 2; p++) {
      int64_t left = t->n - j - p * WIDE;
      columns[p] = left < 0 ? 0 : left < WIDE ? left : WIDE;
      NAME(pack)(&half[p], j + p * WIDE, columns[p]);
    }
    NAME(solve_panels)(block, t->room, apart);
    for (int p = 0; p < 2; p++) {
      for (int64_t i = 0; i < t->k; i++)
        memcpy(b + i * t->b_row + j + p * WIDE, half[p].room + i * WIDE, (size_t)columns[p] * sizeof *b);
      if (columns[p]) NAME(take_panel)(&half[p], 0, j + p * WIDE, columns[p]);
    }
  }
}

/* ---- Cholesky ---- */

/* Columns from .. to - 1 of L in rows first .. first + rows - 1, a row in a lane (the last in those that are left), where the rows
 * of these columns are there already. Each sum is that of dot, in its order. */
static void NAME(cholesky_rows)(double *a, int64_t n, int64_t from, int64_t to, int64_t first, int64_t rows, double *room) {
  vector *x = (vector *)room;
  int64_t width = to - from;
  for (int64_t j = 0; j < width; j++)
    for (int r = 0; r < LANES; r++) room[j * LANES + r] = a[(first + (r < rows ? r : rows - 1)) * n + from + j];
  for (int64_t j = 0; j < width; j++) {
    const double *y = a + (from + j) * n + from;
    vector sum[8] = { 0 }, rest = { 0 };
    int64_t k = 0;
    for (; k + 8 <= j; k += 8)
      for (int p = 0; p < 8; p++) sum[p] += x[k + p] * y[k + p];
    for (; k < j; k++) rest += x[k] * y[k];
    x[j] = (x[j] - ((((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]))) + rest)) / y[j];
  }
  for (int64_t j = 0; j < width; j++)
    for (int r = 0; r < rows; r++) a[(first + r) * n + from + j] = room[j * LANES + r];
}

/* ---- lanes ---- */

#if LANES == 8
/* Where each of the matrices begins; those from `valid` on are the last one again. */
static __m512i NAME(beginnings)(const struct matrix_memory *m, int64_t valid) {
  __m512i k = _mm512_min_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(valid - 1));
  return _mm512_mullo_epi64(k, _mm512_set1_epi64(m->each));
}
#endif

static void NAME(lanes_load)(const struct matrix_memory *m, double *to) {
#if LANES == 8
  __m512i at = NAME(beginnings)(m, m->valid);
  if (m->is_f32)
    for (int64_t i = 0; i < m->n; i++)
      _mm512_storeu_pd(to + i * LANES, _mm512_cvtps_pd(_mm512_i64gather_ps(at, (const float *)m->at + i, 4)));
  else for (int64_t i = 0; i < m->n; i++) _mm512_storeu_pd(to + i * LANES, _mm512_i64gather_pd(at, (const double *)m->at + i, 8));
#else
  for (int k = 0; k < LANES; k++) {
    int64_t at = (k < m->valid ? k : m->valid - 1) * m->each;
    if (m->is_f32) for (int64_t i = 0; i < m->n; i++) to[i * LANES + k] = ((const float *)m->at)[at + i];
    else for (int64_t i = 0; i < m->n; i++) to[i * LANES + k] = ((const double *)m->at)[at + i];
  }
#endif
}

static void NAME(lanes_store)(const struct matrix_memory *m, const double *from) {
#if LANES == 8
  __m512i at = NAME(beginnings)(m, LANES);
  __mmask8 is = (__mmask8)((1 << m->valid) - 1);
  if (m->is_f32)
    for (int64_t i = 0; i < m->n; i++)
      _mm512_mask_i64scatter_ps((float *)m->at + i, is, at, _mm512_cvtpd_ps(_mm512_loadu_pd(from + i * LANES)), 4);
  else for (int64_t i = 0; i < m->n; i++)
    _mm512_mask_i64scatter_pd((double *)m->at + i, is, at, _mm512_loadu_pd(from + i * LANES), 8);
#else
  for (int k = 0; k < m->valid; k++) {
    if (m->is_f32) for (int64_t i = 0; i < m->n; i++) ((float *)m->at)[k * m->each + i] = (float)from[i * LANES + k];
    else for (int64_t i = 0; i < m->n; i++) ((double *)m->at)[k * m->each + i] = from[i * LANES + k];
  }
#endif
}

static inline __attribute__((always_inline)) vector NAME(roots)(vector x) {
#if LANES == 8
  return (vector)_mm512_sqrt_pd((__m512d)x);
#else
  for (int k = 0; k < LANES; k++) x[k] = __builtin_sqrt(x[k]);
  return x;
#endif
}

static void NAME(lanes_cholesky)(double *from, int64_t n, double status[]) {
  vector *a = (vector *)from, found = { 0 };
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      vector s = a[i * n + j];
      for (int64_t k = 0; k < j; k++) s -= a[i * n + k] * a[j * n + k];
      if (i == j) {
        mask is_first = (mask)~(s > 0) & (mask)(found == 0);
        found = (vector)(((mask)found & ~is_first) | ((mask)((vector){ 0 } + (double)(i + 1)) & is_first));
        s = NAME(roots)(s);
      } else s /= a[j * n + j];
      a[i * n + j] = s;
    }
  mask is_wrong = (mask)(found != 0), nan = (mask)((vector){ 0 } + (double)NAN);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      a[i * n + j] = j > i ? (vector){ 0 } : (vector)(((mask)a[i * n + j] & ~is_wrong) | (nan & is_wrong));
  *(vector *)status = found;
}

/* Where `swaps` has all bits set, x and y change places. */
#define EXCHANGE(x, y, swaps)                                       \
  do {                                                              \
    mask both_ = ((mask)(x) ^ (mask)(y)) & (swaps);                 \
    (x) = (vector)((mask)(x) ^ both_), (y) = (vector)((mask)(y) ^ both_); \
  } while (0)

/* Row k becomes, in each lane, the row from there on whose first element is the largest. */
static void NAME(lanes_pivot)(vector *a, int64_t n, int64_t k, vector *order) {
  const mask sign = (mask){ 0 } + INT64_MIN;
  vector largest = (vector)((mask)a[k * n + k] & ~sign), at = (vector){ 0 } + (double)k;
  for (int64_t i = k + 1; i < n; i++) {
    vector size = (vector)((mask)a[i * n + k] & ~sign);
    mask is_larger = (mask)(size > largest);
    largest = (vector)(((mask)size & is_larger) | ((mask)largest & ~is_larger));
    at = (vector)(((mask)((vector){ 0 } + (double)i) & is_larger) | ((mask)at & ~is_larger));
  }
  for (int64_t i = k + 1; i < n; i++) {
    mask is_it = (mask)(at == (double)i);
    for (int64_t j = 0; j < n; j++) EXCHANGE(a[k * n + j], a[i * n + j], is_it);
    EXCHANGE(order[k], order[i], is_it);
  }
}

static void NAME(lanes_lu)(double *from, int64_t n, double *to_order, double status[]) {
  vector *a = (vector *)from, *order = (vector *)to_order, found = { 0 };
  for (int64_t i = 0; i < n; i++) order[i] = (vector){ 0 } + (double)i;
  for (int64_t k = 0; k < n; k++) {
    NAME(lanes_pivot)(a, n, k, order);
    vector pivot = a[k * n + k];
    mask is_none = (mask)(pivot == 0), is_wrong = is_none | (mask)(pivot != pivot);
    is_wrong &= (mask)(found == 0);
    found = (vector)(((mask)found & ~is_wrong) | ((mask)((vector){ 0 } + (double)(k + 1)) & is_wrong));
    pivot = (vector)(((mask)((vector){ 0 } + 1.0) & is_none) | ((mask)pivot & ~is_none)); /* then all below are 0 too */
    for (int64_t i = k + 1; i < n; i++) {
      vector f = a[i * n + k] / pivot;
      a[i * n + k] = f;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
    }
  }
  *(vector *)status = found;
}

static void NAME(lanes_solve)(const struct matrix_triangle *t, double *to, int64_t m) {
  const vector *a = (const vector *)t->a;
  vector *b = (vector *)to;
  for (int64_t step = 0; step < t->n; step++) {
    int64_t i = t->is_upper ? t->n - 1 - step : step, from = t->is_upper ? i + 1 : 0, end = t->is_upper ? t->n : i;
    for (int64_t k = from; k < end; k++)
      for (int64_t j = 0; j < m; j++) b[i * m + j] -= a[i * t->row + k * t->column] * b[k * m + j];
    for (int64_t j = 0; j < m && !t->is_unit; j++) b[i * m + j] /= a[i * t->row + i * t->column];
  }
}

static const struct loops NAME(loops)[] = { { LANES, NAME(take_row), NAME(dot), NAME(take), NAME(solve_block), NAME(cholesky_rows),
                                              NAME(lanes_load), NAME(lanes_store),
                                              NAME(lanes_cholesky), NAME(lanes_lu), NAME(lanes_solve) } };
#undef vector
#undef mask
#undef ROWS
#undef WIDE
#undef EXCHANGE
