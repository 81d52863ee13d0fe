/* plain_cblas.c -- a CBLAS of two functions and plain loops, for the tests of WEFT_BLAS. */
int plain_calls, plain_threads;

void openblas_set_num_threads(int n);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

void openblas_set_num_threads(int n) { plain_threads = n; }

enum { AS_IT_IS = 111 };

#define GEMM(name, real)                                                                                          \
  void name(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int la, const real *b, int lb, real beta, \
            real *c, int lc) {                                                                                    \
    (void)order, plain_calls++;                                                                                   \
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
