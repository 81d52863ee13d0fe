/* plain_cblas.c -- a CBLAS and LAPACK of a few functions and plain loops, for the tests of WEFT_BLAS. */
#include <math.h>
#include <stddef.h>

int plain_calls, plain_factors, plain_threads;

void openblas_set_num_threads(int n);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

void cblas_dtrsm(int, int, int, int, int, int, int, double, const double *, int, double *, int);
void dpotrf_(const char *, const int *, double *, const int *, int *, size_t);
void dgetrf_(const int *, const int *, double *, const int *, int *, int *);

/* Several threads call at once. */
static void plain_called(int *count) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); }
void openblas_set_num_threads(int n) { __atomic_store_n(&plain_threads, n, __ATOMIC_RELAXED); }

enum { AS_IT_IS = 111 };

#define GEMM(name, real)                                                                                          \
  void name(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int la, const real *b, int lb, real beta, \
            real *c, int lc) {                                                                                    \
    (void)order, plain_called(&plain_calls);                                                                                 \
    for (int i = 0; i < m; i++)                                                                                   \
      for (int j = 0; j < n; j++) {                                                                               \
        real sum = 0, *to = &c[(long)i * lc + j];                                                                 \
        for (int p = k; p--;) sum += (ta == AS_IT_IS ? a[(long)i * la + p] : a[(long)p * la + i]) *               \
                                     (tb == AS_IT_IS ? b[(long)p * lb + j] : b[(long)j * lb + p]);                \
        *to = beta == 0 ? alpha * sum : alpha * sum + beta * *to;                                                 \
      }                                                                                                           \
  }
GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)

enum { UPPER = 121, UNIT = 132 };

/* Row by row, the triangle on the left. */
void cblas_dtrsm(int order, int side, int uplo, int turned, int diagonal, int n, int m, double alpha, const double *a, int la,
                 double *b, int lb) {
  int is_down = (uplo == UPPER) == (turned != AS_IT_IS);
  (void)order, (void)side, plain_called(&plain_factors);
  for (int step = 0; step < n; step++)
    for (int j = 0; j < m; j++) {
      int i = is_down ? step : n - 1 - step;
      double s = alpha * b[(long)i * lb + j];
      for (int k = is_down ? 0 : i + 1; k < (is_down ? i : n); k++)
        s -= (turned == AS_IT_IS ? a[(long)i * la + k] : a[(long)k * la + i]) * b[(long)k * lb + j];
      b[(long)i * lb + j] = diagonal == UNIT ? s : s / a[(long)i * la + i];
    }
}

/* Column by column: the upper triangle becomes U, U' U = a. */
void dpotrf_(const char *uplo, const int *size, double *a, const int *la, int *info, size_t length) {
  long n = *size, l = *la;
  (void)uplo, (void)length, plain_called(&plain_factors);
  for (long j = *info = 0; j < n; j++)
    for (long i = 0; i <= j; i++) {
      double s = a[i + j * l];
      for (long k = 0; k < i; k++) s -= a[k + i * l] * a[k + j * l];
      if (i == j && s <= 0) { *info = (int)j + 1; return; }
      a[i + j * l] = i == j ? sqrt(s) : s / a[i + i * l];
    }
}

void dgetrf_(const int *rows, const int *columns, double *a, const int *la, int pivot[], int *info) {
  long n = *rows, l = *la;
  (void)columns, plain_called(&plain_factors);
  for (long k = *info = 0; k < n; k++) {
    long best = k;
    for (long i = k + 1; i < n; i++) if (fabs(a[i + k * l]) > fabs(a[best + k * l])) best = i;
    pivot[k] = (int)best + 1;
    for (long j = 0; j < n; j++) {
      double was = a[k + j * l];
      a[k + j * l] = a[best + j * l], a[best + j * l] = was;
    }
    if (a[k + k * l] == 0 && !*info) *info = (int)k + 1;
    for (long i = k + 1; i < n && a[k + k * l] != 0; i++) {
      a[i + k * l] /= a[k + k * l];
      for (long j = k + 1; j < n; j++) a[i + j * l] -= a[i + k * l] * a[k + j * l];
    }
  }
}
