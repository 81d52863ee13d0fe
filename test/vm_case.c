#include "vm_case.h"
#include <math.h>
#include "kernels.h"
#include "run/launch.h"

static uint64_t state;
uint64_t case_random(void) { /* splitmix64 */
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

float case_from_bf16(uint16_t h) { uint32_t u = (uint32_t)h << 16; float x; memcpy(&x, &u, 4); return x; }
uint16_t case_to_bf16(float x) { /* nearest, ties to even, by comparing the two neighbours */
  uint32_t u;
  memcpy(&u, &x, 4);
  uint16_t low = (uint16_t)(u >> 16);
  if (x != x) return low | 0x40;
  uint32_t rest = u & 0xffff;
  return (uint16_t)(rest > 0x8000 || (rest == 0x8000 && (low & 1)) ? low + 1 : low);
}

static int width(weft_dtype d) {
  switch (d) {
    case WEFT_BOOL: case WEFT_U8: case WEFT_I8: return 1;
    case WEFT_U16: case WEFT_I16: case WEFT_F16: case WEFT_BF16: return 2;
    case WEFT_U32: case WEFT_I32: case WEFT_F32: return 4;
    default: return 8;
  }
}

/* ---- Values ---------------------------------------------------------------------------------------------------------- */

static double normal(void) {
  double u = ((double)(case_random() >> 11) + 0.5) / 9007199254740992.0, v = (double)(case_random() >> 11) / 9007199254740992.0;
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}
static const float specials[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, 3e38f, -3e38f, 1.5f};
static float random_float(bool calm) {
  return !calm && case_random() % 8 == 0 ? specials[case_random() % 9] : (float)normal();
}

static void fill(weft_dtype d, void *p, int64_t n, bool calm) {
  for (int64_t i = 0; i < n; i++) switch (d) {
    case WEFT_F32: ((float *)p)[i] = random_float(calm); break;
    case WEFT_F64: ((double *)p)[i] = random_float(calm); break;
    case WEFT_BF16: ((uint16_t *)p)[i] = case_to_bf16(random_float(calm)); break;
    case WEFT_I64: ((int64_t *)p)[i] = (int64_t)(case_random() % 5); break;
    case WEFT_BOOL: ((uint8_t *)p)[i] = case_random() & 1; break;
    default: for (int b = 0; b < width(d); b++) ((uint8_t *)p)[i * width(d) + b] = (uint8_t)case_random();
  }
}

static void fill_77(weft_dtype d, void *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) switch (d) {
    case WEFT_F32: ((float *)p)[i] = 77; break;
    case WEFT_F64: ((double *)p)[i] = 77; break;
    case WEFT_I64: ((int64_t *)p)[i] = 77; break;
    default: memset((char *)p + i * width(d), 77, (size_t)width(d));
  }
}

bool case_same(weft_dtype d, const void *a, const void *b) {
  if (!memcmp(a, b, (size_t)width(d))) return true;
  if (d == WEFT_F32) { float x, y; memcpy(&x, a, 4), memcpy(&y, b, 4); return x != x && y != y; }
  if (d == WEFT_F64) { double x, y; memcpy(&x, a, 8), memcpy(&y, b, 8); return x != x && y != y; }
  if (d == WEFT_BF16) { uint16_t x, y; memcpy(&x, a, 2), memcpy(&y, b, 2); return case_from_bf16(x) != case_from_bf16(x) && case_from_bf16(y) != case_from_bf16(y); }
  if (d == WEFT_F16) { uint16_t x, y; memcpy(&x, a, 2), memcpy(&y, b, 2); return (x & 0x7FFF) > 0x7C00 && (y & 0x7FFF) > 0x7C00; }
  return false;
}

static double number(weft_dtype d, const void *p) {
  if (d == WEFT_F32) { float x; memcpy(&x, p, 4); return x; }
  if (d == WEFT_F64) { double x; memcpy(&x, p, 8); return x; }
  if (d == WEFT_BF16) { uint16_t x; memcpy(&x, p, 2); return case_from_bf16(x); }
  int64_t x = 0;
  memcpy(&x, p, (size_t)width(d));
  return (double)x;
}
static bool is_close(double a, double b, double tolerance) {
  if (a != a || b != b) return a != a && b != b;
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* ---- A case ---------------------------------------------------------------------------------------------------------- */

static int64_t lin_value(const struct vm_case *c, struct kir_lin lin) {
  int64_t sum = 0;
  for (int t = 0; t < lin.n; t++) {
    int64_t m = lin.term[t].coef;
    for (int i = 0; i < lin.term[t].n; i++) m *= c->size[c->k->vals[lin.term[t].val[i]].index];
    sum += m;
  }
  return sum;
}

struct vm_case case_of(struct kir_kernel *k, int n_sizes, const int64_t *sizes, uint64_t seed) {
  struct vm_case c = {.k = k};
  state = seed;
  if (!k) return c;
  const char *wrong = kir_verify(k);
  if (wrong) test_fail(__FILE__, __LINE__, "%s: %s", k->name, wrong);
  if (!kir_legalise(k)) test_fail(__FILE__, __LINE__, "%s: out of memory", k->name);
  if (k->n_sizes != n_sizes || k->n_bufs > CASE_BUFS) test_fail(__FILE__, __LINE__, "%s: %d sizes given", k->name, n_sizes);
  c.facts = kir_facts(k);
  for (int i = 0; i < 8; i++) c.check[i] = INT64_MAX;
  for (int i = 0; i < n_sizes; i++) c.size[i] = sizes[i];
  for (int b = 0; b < k->n_bufs; b++) {
    const struct kir_buf *buf = &k->bufs[b];
    if (buf->kind == KIR_TABLE || buf->kind == KIR_LOCAL) continue;
    c.n[b] = 1;
    for (int a = 0; a < buf->rank; a++) c.n[b] *= c.dims[b][a] = lin_value(&c, buf->dims[a]);
    c.in[b] = calloc((size_t)c.n[b] + 1, 8), c.want[b] = calloc((size_t)c.n[b] + 1, 8);
    if (buf->kind == KIR_OUT) fill_77(buf->dtype, c.in[b], c.n[b]);
    else fill(buf->dtype, c.in[b], c.n[b], false);
    memcpy(c.want[b], c.in[b], (size_t)c.n[b] * 8);
  }
  return c;
}

struct vm_case case_open(const char *kernel, int n_sizes, const int64_t *sizes, uint64_t seed) {
  return case_of(test_kernel(kernel), n_sizes, sizes, seed);
}

void case_close(struct vm_case *c) {
  for (int b = 0; b < CASE_BUFS; b++) free(c->in[b]), free(c->want[b]);
  if (c->k) kir_free(c->k);
}

void case_calm(struct vm_case *c) {
  for (int b = 0; b < c->k->n_bufs; b++) {
    int kind = c->k->bufs[b].kind, d = c->k->bufs[b].dtype;
    if ((kind == KIR_IN || kind == KIR_INOUT) && (d == WEFT_F32 || d == WEFT_F64 || d == WEFT_BF16)) {
      fill(d, c->in[b], c->n[b], true);
      memcpy(c->want[b], c->in[b], (size_t)c->n[b] * 8);
    }
  }
}

int case_buf(const struct vm_case *c, const char *name) {
  for (int b = 0; b < c->k->n_bufs; b++)
    if (!strcmp(c->k->bufs[b].name, name)) return b;
  test_fail(__FILE__, __LINE__, "%s: no buffer %s", c->k->name, name);
  return 0;
}
void *case_in(const struct vm_case *c, const char *name) { return c->in[case_buf(c, name)]; }
void *case_want(const struct vm_case *c, const char *name) { return c->want[case_buf(c, name)]; }
int64_t case_size(const struct vm_case *c, const char *name) {
  for (int i = 0; i < c->k->n_sizes; i++)
    if (!strcmp(c->k->vals[c->k->sizes[i]].name, name)) return c->size[i];
  test_fail(__FILE__, __LINE__, "%s: no size %s", c->k->name, name);
  return 0;
}
void case_arg(struct vm_case *c, const char *name, uint64_t bits) {
  for (int i = 0; i < c->k->n_args; i++)
    if (!strcmp(c->k->vals[c->k->args[i]].name, name)) { c->arg[i] = bits; return; }
  test_fail(__FILE__, __LINE__, "%s: no arg %s", c->k->name, name);
}
void case_arg_f32(struct vm_case *c, const char *name, float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  case_arg(c, name, u);
}

/* ---- Views: the same elements behind other strides ------------------------------------------------------------------- */

enum view { PLAIN, REVERSED, STRIDED, TRANSPOSED, VIEWS };

static void strides(enum view v, int rank, const int64_t *dims, int64_t *stride, int64_t *offset, int64_t *room) {
  int64_t s = 1, step = v == STRIDED ? 2 : 1;
  *offset = v == STRIDED ? 3 : 0;
  for (int i = 0; i < rank; i++) {
    int a = v == TRANSPOSED ? i : rank - 1 - i;
    stride[a] = v == REVERSED ? -s : s * step;
    if (v == REVERSED && dims[a] > 0) *offset += s * (dims[a] - 1);
    s *= step * dims[a] + (v == STRIDED ? 3 : 0);
  }
  *room = s + *offset + 8;
}

static char *element(const struct bound *b, int w, int rank, const int64_t *dims, int64_t i) {
  int64_t at = 0;
  for (int a = rank - 1; a >= 0; a--) at += i % dims[a] * b->stride[a], i /= dims[a];
  return (char *)b->data + at * w;
}

/* ---- Running --------------------------------------------------------------------------------------------------------- */

enum way { WHOLE, IN_PARTS, THREADS_1, THREADS_2, THREADS_3 };

/* Cut in three, the parts out of order. */
static int run_in_parts(const struct vm_case *c, const struct code *code, struct launch *l) {
  static const int64_t cut[][2] = {{20, INT64_MAX}, {1, 20}, {0, 1}};
  int failed = 0;
  for (int i = 0; i < 3; i++) l->lo = cut[i][0], l->hi = cut[i][1], failed |= backend_vm.run(code, l);
  (void)c;
  return failed;
}

static void run_once(struct vm_case *c, const struct code *code, enum view view, enum way way, void **got, uint64_t *loads) {
  struct bound bound[CASE_BUFS] = {{0}};
  void *memory[CASE_BUFS] = {0};
  struct finding checks[8];
  findings_clear(checks, 8);
  for (int b = 0; b < c->k->n_bufs; b++) {
    const struct kir_buf *buf = &c->k->bufs[b];
    int64_t offset, room;
    int w = width(buf->dtype);
    if (!c->in[b]) continue;
    strides(view, buf->rank, c->dims[b], bound[b].stride, &offset, &room);
    memory[b] = malloc((size_t)(room * w));
    bound[b].data = (char *)memory[b] + offset * w;
    for (int64_t i = 0; i < c->n[b]; i++) memcpy(element(&bound[b], w, buf->rank, c->dims[b], i), (char *)c->in[b] + i * w, (size_t)w);
  }
  struct launch l = {.sizes = c->size, .args = c->arg, .bufs = bound, .checks = checks, .loads = loads, .lo = 0, .hi = INT64_MAX};
  int failed = way == IN_PARTS ? run_in_parts(c, code, &l)
               : way == WHOLE && !c->facts.is_private ? backend_vm.run(code, &l)
               : launch_run(&backend_vm, code, c->k, &c->facts, &l, way == THREADS_3 ? 3 : way == THREADS_2 ? 2 : 1);
  if (failed) test_fail(__FILE__, __LINE__, "%s: status %d", c->k->name, failed);
  for (int i = 0; i < c->facts.n_checks; i++)
    if (checks[i].place != c->check[i] || checks[i].value != c->check_of[i])
      test_fail(__FILE__, __LINE__, "%s: check %d says %lld of %lld, not %lld of %lld", c->k->name, i, (long long)checks[i].place,
                (long long)checks[i].value, (long long)c->check[i], (long long)c->check_of[i]);
  for (int b = 0; b < c->k->n_bufs; b++) {
    const struct kir_buf *buf = &c->k->bufs[b];
    int w = width(buf->dtype);
    if (!c->in[b]) continue;
    got[b] = calloc((size_t)c->n[b] + 1, 8);
    for (int64_t i = 0; i < c->n[b]; i++) memcpy((char *)got[b] + i * w, element(&bound[b], w, buf->rank, c->dims[b], i), (size_t)w);
    free(memory[b]);
  }
}

static void compare(const struct vm_case *c, void *const *got, void *const *want, double tolerance, const char *what) {
  for (int b = 0; b < c->k->n_bufs; b++) {
    const struct kir_buf *buf = &c->k->bufs[b];
    int w = width(buf->dtype);
    if (!c->in[b]) continue;
    for (int64_t i = 0; i < c->n[b]; i++) {
      const char *g = (char *)got[b] + i * w, *e = (char *)want[b] + i * w;
      bool floats = buf->dtype == WEFT_F32 || buf->dtype == WEFT_F64 || buf->dtype == WEFT_BF16;
      if (tolerance > 0 && floats ? is_close(number(buf->dtype, g), number(buf->dtype, e), tolerance) : case_same(buf->dtype, g, e)) continue;
      test_fail(__FILE__, __LINE__, "%s, %s: %s[%lld] is %.9g, not %.9g (first size %lld)", c->k->name, what, buf->name, (long long)i,
                number(buf->dtype, g), number(buf->dtype, e), (long long)c->size[0]);
      break;
    }
  }
}

static void release(void **got) {
  for (int b = 0; b < CASE_BUFS; b++) free(got[b]), got[b] = NULL;
}

static struct code *compiled(const struct vm_case *c, int tile) {
  struct shape_class shape = {.tile = tile};
  const char *why = NULL;
  struct code *code = backend_vm.compile(c->k, &shape, &why);
  if (!code) test_fail(__FILE__, __LINE__, "%s: refused: %s", c->k->name, why);
  return code;
}

static void another_way(struct vm_case *c, int tile, enum view view, enum way way, void *const *first) {
  static const char *const views[] = {"plain", "reversed", "strided", "transposed"};
  static const char *const ways[] = {"whole", "in parts", "1 thread", "2 threads", "3 threads"};
  void *got[CASE_BUFS] = {0};
  char what[100];
  struct code *code = compiled(c, tile);
  if (!code) return;
  snprintf(what, sizeof what, "tile %d, %s, %s", tile, views[view], ways[way]);
  run_once(c, code, view, way, got, NULL);
  compare(c, got, first, 0, what);
  release(got);
  backend_vm.free(code);
}

void case_check(struct vm_case *c, double tolerance) {
  void *first[CASE_BUFS] = {0};
  struct code *code = compiled(c, 0);
  if (!code) return;
  memset(c->loads, 0, sizeof c->loads);
  run_once(c, code, PLAIN, WHOLE, first, c->loads);
  backend_vm.free(code);
  compare(c, first, c->want, tolerance, "against the reference");
  another_way(c, 1, PLAIN, WHOLE, first);
  another_way(c, 7, TRANSPOSED, WHOLE, first);
  another_way(c, 32, REVERSED, WHOLE, first);
  another_way(c, 1 << 20, STRIDED, WHOLE, first);
  for (enum view v = REVERSED; v < VIEWS; v++) another_way(c, 512, v, WHOLE, first);
  if (c->facts.divisible) another_way(c, 32, PLAIN, IN_PARTS, first);
  another_way(c, 0, PLAIN, THREADS_1, first);
  another_way(c, 7, PLAIN, THREADS_2, first);
  another_way(c, 0, REVERSED, THREADS_3, first);
  release(first);
}
