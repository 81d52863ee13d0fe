/* cublas_lt.c -- products of matrices by NVIDIA's library, where that is found: see cublas_lt.h.
 *
 * The library is loaded when the first such product runs; WEFT_CUBLASLT is its name or path, or 0: it is not to be used. To it
 * columns stand one after the other, so y = a b is given to it as y' = b' a'. What it has chosen for a shape is kept. */
#include "backend/cuda/cublas_lt.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "backend/cuda/driver.h"

/* X(name in the library, our name, parameters) */
#define CUBLAS_LT(X)                                                                                                  \
  X(cublasLtCreate, create, (handle *))                                                                               \
  X(cublasLtMatmulDescCreate, work_new, (handle *, int, int))                                                         \
  X(cublasLtMatmulDescSetAttribute, set_work, (handle, int, const void *, size_t))                                    \
  X(cublasLtMatmulDescDestroy, work_free, (handle))                                                                   \
  X(cublasLtMatrixLayoutCreate, layout_new, (handle *, int, uint64_t, uint64_t, int64_t))                             \
  X(cublasLtMatrixLayoutSetAttribute, set_layout, (handle, int, const void *, size_t))                                \
  X(cublasLtMatrixLayoutDestroy, layout_free, (handle))                                                               \
  X(cublasLtMatmulPreferenceCreate, wish_new, (handle *))                                                             \
  X(cublasLtMatmulPreferenceSetAttribute, set_wish, (handle, int, const void *, size_t))                              \
  X(cublasLtMatmulPreferenceDestroy, wish_free, (handle))                                                             \
  X(cublasLtMatmulAlgoGetHeuristic, choose, (handle, handle, handle, handle, handle, handle, handle, int, void *, int *)) \
  X(cublasLtMatmul, multiply, (handle, handle, const void *, uint64_t, handle, uint64_t, handle, const void *, uint64_t,     \
                               handle, uint64_t, handle, const void *, uint64_t, size_t, handle))

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_TF32 = 77 };
enum { WORK_TURN_A = 3, WORK_TURN_B = 4, LAYOUT_BATCH = 5, LAYOUT_BATCH_STEP = 6 };
enum { WISH_BYTES = 1, WISH_PARTS = 3, WISH_ALIGNMENT = 5 };
enum { PARTS_IN_F32 = 2 }; /* of long sums: added in f32, not in the dtype of y */

struct lt_choice { uint64_t algorithm[8]; size_t bytes; int state; float waves; int reserved[4]; };
struct lt_key { struct lt_product p; int alignment; struct gpu *gpu; };

/* A shape, and what the library does with it. */
struct lt_known {
  struct lt_key key;
  bool is_possible;
  handle work, a, b, y;
  struct lt_choice choice;
};

enum { KNOWN = 64, MOST_BYTES = 32 << 20 }; /* bytes to work in: what the library's makers recommend for Hopper */

static struct {
  pthread_mutex_t lock;      /* of all but functions */
  bool is_known, is_there;
  char path[256];
#define MEMBER_(symbol, name, params) int (*name) params;
  CUBLAS_LT(MEMBER_)
#undef MEMBER_
  int n_known, oldest;
  struct lt_known known[KNOWN];
} lt = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Loading -------------------------------------------------------------------------------------------------------------- */

static bool load(const char *path) {
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL), *f;
  if (!lib) return false;
#define FIND_(symbol, name, params)                                                                                   \
  if (!(f = dlsym(lib, #symbol))) return dlclose(lib), false;                                                         \
  memcpy(&lt.name, &f, sizeof f);
  CUBLAS_LT(FIND_)
#undef FIND_
  strncpy(lt.path, path, sizeof lt.path - 1);
  return true;
}

static bool find(void) {
  static const char *const usual[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                       "/usr/local/cuda/lib64/libcublasLt.so" };
  const char *wish = getenv("WEFT_CUBLASLT");
  if (wish && *wish) return strcmp(wish, "0") && load(wish);
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) if (load(usual[i])) return true;
  return false;
}

const char *lt_name(void) {
  pthread_mutex_lock(&lt.lock);
  if (!lt.is_known) lt.is_known = true, lt.is_there = find();
  pthread_mutex_unlock(&lt.lock);
  return lt.is_there ? "cublasLt" : NULL;
}

/* A handle serves the device that is current when it is made. NULL: the library does not serve it. Lock held, context entered. */
static handle handle_of(struct gpu *g) {
  if (!g->multiplier && lt.create(&g->multiplier)) g->multiplier = NULL;
  return g->multiplier;
}

/* ---- Choosing ------------------------------------------------------------------------------------------------------------- */

static int type_of(weft_dtype d) { return d == WEFT_F16 ? R_16F : d == WEFT_BF16 ? R_16BF : d == WEFT_F64 ? R_64F : R_32F; }

static int computing(const struct lt_product *p) {
  return p->dtype == WEFT_F64 ? COMPUTE_64F : p->dtype == WEFT_F32 && p->by_tensor_cores ? COMPUTE_TF32 : COMPUTE_32F;
}

static bool layout(handle *out, weft_dtype d, int64_t rows, int64_t columns, int64_t step, int64_t n_batch, int64_t batch) {
  int32_t n = (int32_t)n_batch;
  if (lt.layout_new(out, type_of(d), (uint64_t)rows, (uint64_t)columns, step)) return false;
  return !lt.set_layout(*out, LAYOUT_BATCH, &n, sizeof n) && !lt.set_layout(*out, LAYOUT_BATCH_STEP, &batch, sizeof batch);
}

/* The library's a is our b, and the other way round. */
static bool describe(struct lt_known *x) {
  const struct lt_product *p = &x->key.p;
  int32_t turn_a = p->b_is_turned, turn_b = p->a_is_turned;
  if (lt.work_new(&x->work, computing(p), p->dtype == WEFT_F64 ? R_64F : R_32F) ||
      lt.set_work(x->work, WORK_TURN_A, &turn_a, sizeof turn_a) || lt.set_work(x->work, WORK_TURN_B, &turn_b, sizeof turn_b))
    return false;
  return layout(&x->a, p->dtype, turn_a ? p->k : p->n, turn_a ? p->n : p->k, p->b_step, p->n_batch, p->b_batch) &&
         layout(&x->b, p->dtype, turn_b ? p->m : p->k, turn_b ? p->k : p->m, p->a_step, p->n_batch, p->a_batch) &&
         layout(&x->y, p->y_dtype, p->n, p->m, p->y_step, p->n_batch, p->y_batch);
}

static bool choose(struct lt_known *x) {
  uint64_t bytes = MOST_BYTES;
  uint32_t alignment = (uint32_t)x->key.alignment, parts = PARTS_IN_F32;
  handle wish = NULL, self = handle_of(x->key.gpu);
  int n = 0;
  if (!self || lt.wish_new(&wish)) return false;
  bool is_set = !lt.set_wish(wish, WISH_BYTES, &bytes, sizeof bytes) && !lt.set_wish(wish, WISH_PARTS, &parts, sizeof parts);
  for (int i = 0; i < 4 && is_set; i++) is_set = !lt.set_wish(wish, WISH_ALIGNMENT + i, &alignment, sizeof alignment);
  if (is_set && lt.choose(self, x->work, x->a, x->b, x->y, x->y, wish, 1, &x->choice, &n)) n = 0;
  lt.wish_free(wish);
  return n > 0 && x->choice.bytes <= MOST_BYTES;
}

static void forget(struct lt_known *x) {
  if (x->work) lt.work_free(x->work);
  if (x->a) lt.layout_free(x->a);
  if (x->b) lt.layout_free(x->b);
  if (x->y) lt.layout_free(x->y);
}

/* Lock held. */
static const struct lt_known *known(const struct lt_key *key) {
  for (int i = 0; i < lt.n_known; i++) if (!memcmp(&lt.known[i].key, key, sizeof *key)) return &lt.known[i];
  int at = lt.n_known < KNOWN ? lt.n_known++ : lt.oldest++ % KNOWN;
  struct lt_known *x = &lt.known[at];
  forget(x);
  memset(x, 0, sizeof *x);
  memcpy(&x->key, key, sizeof *key);
  x->is_possible = describe(x) && choose(x);
  return x;
}

/* Without what lies between its members. */
static void make_key(struct lt_key *key, struct gpu *g, const struct lt_product *p, int alignment) {
  memset(key, 0, sizeof *key);
  key->p.dtype = p->dtype, key->p.y_dtype = p->y_dtype, key->p.by_tensor_cores = p->by_tensor_cores;
  key->p.m = p->m, key->p.n = p->n, key->p.k = p->k, key->p.n_batch = p->n_batch;
  key->p.a_step = p->a_step, key->p.b_step = p->b_step, key->p.y_step = p->y_step;
  key->p.a_batch = p->a_batch, key->p.b_batch = p->b_batch, key->p.y_batch = p->y_batch;
  key->p.a_is_turned = p->a_is_turned, key->p.b_is_turned = p->b_is_turned;
  key->alignment = alignment, key->gpu = g;
}

bool lt_can(struct gpu *g, const struct lt_product *p, int alignment) {
  struct lt_key key;
  if (!lt_name() || cuda_enter(g, "asking cublasLt")) return false;
  make_key(&key, g, p, alignment);
  pthread_mutex_lock(&lt.lock);
  bool can = known(&key)->is_possible;
  pthread_mutex_unlock(&lt.lock);
  return can;
}

/* ---- Running -------------------------------------------------------------------------------------------------------------- */

static int alignment_of(uint64_t a) {
  int n = 16;
  while (n < 256 && !(a & (uint64_t)(2 * n - 1))) n *= 2;
  return n;
}

int lt_run(struct gpu *g, const struct lt_product *p, uint64_t a, uint64_t b, uint64_t y) {
  static const float one = 1, zero = 0;
  static const double long_one = 1, long_zero = 0;
  bool is_long = p->dtype == WEFT_F64;
  struct lt_key key;
  uint64_t room = 0;
  if ((a | b | y) % 16 || !lt_name()) return DEVICE_CANNOT;
  int s = cuda_record_other() ? cuda_enter(g, "multiplying by cublasLt") : CUDA_FAILED;
  if (s) return s;
  make_key(&key, g, p, alignment_of(a | b | y));
  pthread_mutex_lock(&lt.lock);
  const struct lt_known *x = known(&key);
  size_t bytes = x->choice.bytes;
  if (!x->is_possible) s = DEVICE_CANNOT;
  if (!s && bytes) s = cuda_take_room(g, bytes, &room);
  if (!s && lt.multiply(g->multiplier, x->work, is_long ? (const void *)&long_one : &one, b, x->a, a, x->b,
                        is_long ? (const void *)&long_zero : &zero, y, x->y, y, x->y, x->choice.algorithm, room, bytes,
                        cuda_working_stream(g))) {
    cuda_say("multiplying by cublasLt", "it does not say why");
    s = CUDA_FAILED;
  }
  pthread_mutex_unlock(&lt.lock);
  cuda_give_room(g, room, bytes);
  return s;
}
