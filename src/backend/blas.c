/* blas.c -- loads a CBLAS when somebody asks for one, and finds its functions, and those of a LAPACK if it has them, under any of
 * their usual names: see blas.h. */
#include "backend/blas.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* WEFT_BLAS is a name, a path, or 1: the first of these. The first two are of Python packages: there if somebody loaded them. */
static const char *const usual[] = { "libscipy_openblas.so", "libscipy_openblas64_.so", "libopenblas.so.0", "libopenblas.so",
                                     "libmkl_rt.so.2", "libmkl_rt.so", "libblis.so.4", "libcblas.so.3", "libcblas.so",
                                     "libblas.so.3", "libblas.so" };

/* How its functions are called, and whether sizes have 64 bits: of a CBLAS before and after sgemm, of a LAPACK around dpotrf_. */
static const struct spelling { const char *before, *after, *around[2]; bool is_wide; } spellings[] = {
  { "cblas_", "", { "", "_" }, false }, { "cblas_", "64_", { "", "_64_" }, true },
  { "scipy_cblas_", "", { "scipy_", "_" }, false }, { "scipy_cblas_", "64_", { "scipy_", "_64_" }, true } };

static const char *const setters[] = { "openblas_set_num_threads", "openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
                                       "scipy_openblas_set_num_threads64_", "MKL_Set_Num_Threads", "bli_thread_set_num_threads" };

static struct {
  pthread_mutex_t lock;
  const char *asked;     /* blas_use */
  bool is_known, is_wide;
  char name[256], why[300];
  void *gemm[2];         /* of f32, of f64; set before is_there */
  void *trsm, *potrf, *getrf; /* of f64, likewise; NULL: it has no LAPACK */
  void (*set_threads)(int);
  int is_there;          /* atomic */
  int threads;           /* atomic: as it was told last; 0: never */
} blas = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void join(char *to, size_t room, int n, const char *const text[]) {
  size_t at = 0;
  for (int i = 0; i < n; i++)
    for (const char *s = text[i]; *s && at + 1 < room; s++) to[at++] = *s;
  to[at] = 0;
}

static bool missing(const char *name, const char *why) {
  join(blas.why, sizeof blas.why, 3, (const char *[]){ name, ": ", why });
  return false;
}

static void *function_of(void *lib, const char *before, const char *name, const char *after) {
  char whole[40];
  join(whole, sizeof whole, 3, (const char *[]){ before, name, after });
  return dlsym(lib, whole);
}

/* The LAPACK of a library, or one that stands beside libraries that have none. */
static void *lapack_of(void *lib, const struct spelling *s) {
  if (s->is_wide || function_of(lib, s->around[0], "dpotrf", s->around[1])) return lib;
  void *beside = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
  return beside ? beside : lib;
}

/* All of them, or none. */
static void find_factors(void *lib, const struct spelling *s) {
  void *lapack = lapack_of(lib, s);
  blas.trsm = function_of(lib, s->before, "dtrsm", s->after);
  blas.potrf = function_of(lapack, s->around[0], "dpotrf", s->around[1]);
  blas.getrf = function_of(lapack, s->around[0], "dgetrf", s->around[1]);
  if (!blas.trsm || !blas.potrf || !blas.getrf) blas.trsm = blas.potrf = blas.getrf = NULL;
}

static bool find_functions(void *lib) {
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    const struct spelling *s = &spellings[i];
    blas.gemm[0] = function_of(lib, s->before, "sgemm", s->after), blas.gemm[1] = function_of(lib, s->before, "dgemm", s->after);
    blas.is_wide = s->is_wide;
    if (blas.gemm[0] && blas.gemm[1]) return find_factors(lib, s), true;
  }
  return false;
}

static bool load(const char *name) {
  void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL), *setter = NULL;
  if (!lib) {
    const char *why = dlerror();
    return missing(name, why ? why : "cannot be loaded");
  }
  if (!find_functions(lib)) return dlclose(lib), missing(name, "has no cblas_sgemm and cblas_dgemm");
  for (size_t i = 0; i < sizeof setters / sizeof *setters && !setter; i++) setter = dlsym(lib, setters[i]);
  memcpy(&blas.set_threads, &setter, sizeof setter);
  join(blas.name, sizeof blas.name, 1, &name);
  return true;
}

static bool find(void) {
  const char *wish = blas.asked ? blas.asked : getenv("WEFT_BLAS");
  if (wish && *wish && strcmp(wish, "0") && strcmp(wish, "1")) return load(wish);
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) if (load(usual[i])) return true;
  return missing("libopenblas, libmkl_rt, libblis, libcblas, libblas, libscipy_openblas", "none of them is there, or has a CBLAS");
}

const char *blas_load(void) {
  if (__atomic_load_n(&blas.is_there, __ATOMIC_ACQUIRE)) return NULL;
  pthread_mutex_lock(&blas.lock);
  if (!blas.is_known) {
    blas.is_known = true;
    __atomic_store_n(&blas.is_there, find(), __ATOMIC_RELEASE);
  }
  bool is_there = __atomic_load_n(&blas.is_there, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&blas.lock);
  return is_there ? NULL : blas.why;
}

const char *blas_name(void) { return blas.name; }

void blas_use(const char *name) {
  pthread_mutex_lock(&blas.lock);
  blas.asked = name;
  blas.is_known = false;
  __atomic_store_n(&blas.is_there, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&blas.threads, 0, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&blas.lock);
}

/* ---- calls ---- */

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TURNED = 112 };

/* Rows side by side, or columns; leading: from one to the next. */
static bool lies(int64_t row, int64_t column, int64_t rows, int64_t columns, int *how, int64_t *leading) {
  bool by_rows = column == 1 && row >= columns, by_columns = row == 1 && column >= rows;
  *how = by_rows ? AS_IT_IS : TURNED;
  *leading = by_rows ? row : column;
  return by_rows || by_columns;
}

static bool fits_int(int64_t n) { return n <= INT32_MAX; }

bool blas_takes(const struct blas_product *p) {
  int how;
  int64_t a, b;
  if ((p->dtype != WEFT_F32 && p->dtype != WEFT_F64) || p->c_row < p->n || p->m < 1 || p->n < 1 || p->k < 1) return false;
  if (!lies(p->a_row, p->a_column, p->m, p->k, &how, &a) || !lies(p->b_row, p->b_column, p->k, p->n, &how, &b)) return false;
  return fits_int(p->m) && fits_int(p->n) && fits_int(p->k) && fits_int(a) && fits_int(b) && fits_int(p->c_row);
}

#define CALL(name, real, integer)                                                                              \
  static void name(const struct blas_product *p, void *gemm, int ta, int64_t la, int tb, int64_t lb) {         \
    void (*f)(int, int, int, integer, integer, integer, real, const real *, integer, const real *, integer, real, real *, \
              integer);                                                                                        \
    memcpy(&f, &gemm, sizeof f);                                                                               \
    f(ROW_MAJOR, ta, tb, (integer)p->m, (integer)p->n, (integer)p->k, 1, p->a, (integer)la, p->b, (integer)lb, 0, p->c, \
      (integer)p->c_row);                                                                                      \
  }
CALL(call_f32, float, int)
CALL(call_f64, double, int)
CALL(call_f32_wide, float, int64_t)
CALL(call_f64_wide, double, int64_t)

static void tell_threads(int threads) {
  if (blas.set_threads && __atomic_exchange_n(&blas.threads, threads, __ATOMIC_RELAXED) != threads) blas.set_threads(threads);
}

void blas_run(const struct blas_product *p, int threads) {
  int ta, tb;
  int64_t la, lb;
  lies(p->a_row, p->a_column, p->m, p->k, &ta, &la);
  lies(p->b_row, p->b_column, p->k, p->n, &tb, &lb);
  tell_threads(threads);
  bool is_f64 = p->dtype == WEFT_F64;
  if (blas.is_wide) (is_f64 ? call_f64_wide : call_f32_wide)(p, blas.gemm[is_f64], ta, la, tb, lb);
  else (is_f64 ? call_f64 : call_f32)(p, blas.gemm[is_f64], ta, la, tb, lb);
}

/* ---- factors ----
 * A LAPACK reads columns: what stands row by row is the transpose to it. Characters are followed, behind all arguments, by their
 * lengths, as Fortran passes them. */

bool blas_has_factors(void) { return !blas_load() && blas.potrf; }

/* Factors the upper triangle of the transpose, which is the lower one row by row. */
#define POTRF(name, integer)                                                                  \
  static int64_t name(double *a, int64_t n) {                                                 \
    void (*f)(const char *, const integer *, double *, const integer *, integer *, size_t);   \
    integer size = (integer)n, info = 0;                                                      \
    memcpy(&f, &blas.potrf, sizeof f);                                                        \
    f("U", &size, a, &size, &info, 1);                                                        \
    return info > 0 ? info : 0;                                                               \
  }
POTRF(potrf, int)
POTRF(potrf_wide, int64_t)

int64_t blas_cholesky(double *a, int64_t n, int threads) {
  tell_threads(threads);
  int64_t status = (blas.is_wide ? potrf_wide : potrf)(a, n), end = status ? status - 1 : n;
  for (int64_t i = 0; i < end; i++) if (!(a[i * n + i] > 0)) return i + 1; /* nan, which not every library notices */
  return status;
}

/* The exchanges become an order: row i changed places with row pivot[i]. */
#define GETRF(name, integer)                                                                  \
  static void name(double *a, int64_t n, int64_t order[], void *pivots) {                     \
    void (*f)(const integer *, const integer *, double *, const integer *, integer *, integer *); \
    integer size = (integer)n, info = 0, *pivot = pivots;                                     \
    memcpy(&f, &blas.getrf, sizeof f);                                                        \
    f(&size, &size, a, &size, pivot, &info);                                                  \
    for (int64_t i = 0; i < n; i++) {                                                         \
      int64_t was = order[i], with = (int64_t)pivot[i] - 1;                                   \
      order[i] = order[with], order[with] = was;                                              \
    }                                                                                         \
  }
GETRF(getrf, int)
GETRF(getrf_wide, int64_t)

/* Blocks of it at a time, which caches hold. */
static void turn(const double *from, double *to, int64_t n) {
  enum { SIDE = 16 };
  for (int64_t i = 0; i < n; i += SIDE)
    for (int64_t j = 0; j < n; j += SIDE)
      for (int64_t r = i; r < n && r < i + SIDE; r++)
        for (int64_t c = j; c < n && c < j + SIDE; c++) to[c * n + r] = from[r * n + c];
}

int64_t blas_lu(double *a, int64_t n, int64_t order[], double *room, int threads) {
  for (int64_t i = 0; i < n; i++) order[i] = i;
  turn(a, room, n);
  tell_threads(threads);
  (blas.is_wide ? getrf_wide : getrf)(room, n, order, room + n * n);
  turn(room, a, n);
  for (int64_t i = 0; i < n; i++) if (!(fabs(a[i * n + i]) > 0)) return i + 1;
  return 0;
}

enum { LEFT = 141, UPPER = 121, LOWER = 122, NOT_UNIT = 131, UNIT = 132 };

#define TRSM(name, integer)                                                                   \
  static void name(const struct blas_triangle *t, int uplo, double *b) {                      \
    void (*f)(int, int, int, int, int, integer, integer, double, const double *, integer, double *, integer); \
    integer n = (integer)t->n, m = (integer)t->m;                                             \
    memcpy(&f, &blas.trsm, sizeof f);                                                         \
    f(ROW_MAJOR, LEFT, uplo, t->is_turned ? TURNED : AS_IT_IS, t->is_unit ? UNIT : NOT_UNIT, n, m, 1, t->a, n, b, m); \
  }
TRSM(trsm, int)
TRSM(trsm_wide, int64_t)

/* What is upper when it is turned stands below the diagonal. */
void blas_solve(const struct blas_triangle *t, double *b, int threads) {
  tell_threads(threads);
  (blas.is_wide ? trsm_wide : trsm)(t, t->is_upper != t->is_turned ? UPPER : LOWER, b);
}
