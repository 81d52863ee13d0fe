/* nan_constants.c -- NaN and other special numbers as constants of fused kernels and of loops: every one arrives with its
 * bits. And the gradients of RMSNorm and LayerNorm, where sqr(sqrt z) becomes where(z >= 0, z, nan). */
#include <math.h>
#include <sys/mman.h>
#include "scene.h"

enum { ROWS = 3, COLUMNS = 11, CELLS = ROWS * COLUMNS };

static const struct type { weft_dtype dtype; int bytes, exponent_bits, mantissa_bits; } types[] = {
  { WEFT_F16, 2, 5, 10 }, { WEFT_BF16, 2, 8, 7 }, { WEFT_F32, 4, 8, 23 }, { WEFT_F64, 8, 11, 52 },
};
static const struct { const char *name; uint64_t bits[4]; } numbers[] = {
  { "nan", { 0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000 } },
  { "nan with payload 1", { 0x7e01, 0x7fc1, 0x7fc00001, 0x7ff8000000000001 } },
  { "-nan with payload", { 0xfe55, 0xffd5, 0xffd23456, 0xfffabcdef0123456 } },
  { "signalling nan", { 0x7d00, 0x7fa0, 0x7fa00000, 0x7ff4000000000000 } },
  { "inf", { 0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000 } },
  { "-inf", { 0xfc00, 0xff80, 0xff800000, 0xfff0000000000000 } },
  { "-0", { 0x8000, 0x8000, 0x80000000, 0x8000000000000000 } },
  { "smallest denormal", { 1, 1, 1, 1 } },
  { "largest denormal", { 0x83ff, 0x807f, 0x807fffff, 0x800fffffffffffff } },
  { "1/3", { 0x3555, 0x3eab, 0x3eaaaaab, 0x3fd5555555555555 } },
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

enum form { SCALAR, RANK_0, RANK_1, RANK_2, ARRAY, READ_ONLY, REVERSED, BROADCAST, FORMS };
static const char *const form_names[] = { "number", "0-d", "[1]", "[1,1]", "array", "read-only", "reversed",
                                          "broadcast" };
static int n_constants;

static uint64_t element(const struct type *t, const void *at, int i) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)at + i * t->bytes, (size_t)t->bytes);
  return bits;
}
static void set_element(const struct type *t, void *at, int i, uint64_t bits) {
  memcpy((char *)at + i * t->bytes, &bits, (size_t)t->bytes);
}

/* The same number as a double, a nan with its payload at the top. */
static double widened(const struct type *t, uint64_t bits) {
  int top = t->exponent_bits + t->mantissa_bits;
  uint64_t most = (1ull << t->exponent_bits) - 1, exponent = bits >> t->mantissa_bits & most;
  uint64_t mantissa = bits & ((1ull << t->mantissa_bits) - 1);
  uint64_t wide = (bits >> top) << 63 | 0x7ffull << 52 | mantissa << (52 - t->mantissa_bits);
  double value;
  memcpy(&value, &wide, sizeof value);
  if (exponent == most) return value;
  int bias = (1 << (t->exponent_bits - 1)) - 1, power = (exponent ? (int)exponent : 1) - bias - t->mantissa_bits;
  value = ldexp((double)(mantissa | (uint64_t)(exponent != 0) << t->mantissa_bits), power);
  return bits >> top ? -value : value;
}

/* ---- constants in every form ---- */

/* A page with CELLS elements that nobody may write to. */
static void *page;
static size_t page_bytes;
static const void *protected(const struct type *t, const void *data) {
  mprotect(page, page_bytes, PROT_READ | PROT_WRITE);
  memcpy(page, data, (size_t)(CELLS * t->bytes));
  mprotect(page, page_bytes, PROT_READ);
  return page;
}
static void nothing(void *ctx) { (void)ctx; }

static weft_array *foreign(const struct type *t, const void *first, const int64_t dims[2], const int64_t strides[2]) {
  weft_block block = { (void *)first, 0, t->dtype, 2, dims, strides };
  return weft_external(&block, nothing, NULL);
}

/* In arrays the constants are those from number k on, one after the other. */
static weft_array *constant(int type, int k, enum form form, bool is_gpu) {
  const struct type *t = &types[type];
  char data[CELLS * 8];
  int64_t cells[2] = { ROWS, COLUMNS }, ones[2] = { 1, 1 };
  for (int i = 0; i < CELLS; i++) set_element(t, data, i, numbers[(k + i) % NUMBERS].bits[type]);
  switch (form) {
    case SCALAR: return weft_scalar(widened(t, numbers[k].bits[type]));
    case RANK_0: return weft_from(t->dtype, 0, NULL, data);
    case RANK_1: return weft_from(t->dtype, 1, ones, data);
    case RANK_2: return weft_from(t->dtype, 2, ones, data);
    case ARRAY: return weft_from(t->dtype, 2, cells, data);
    case READ_ONLY: /* memory of the host */
      if (is_gpu) return weft_from(t->dtype, 2, cells, data);
      return foreign(t, protected(t, data), cells, (int64_t[]){ COLUMNS, 1 });
    case REVERSED:
      if (is_gpu) return weft_flip(weft_flip(weft_from(t->dtype, 2, cells, data), 0), 1);
      return foreign(t, (const char *)protected(t, data) + (CELLS - 1) * t->bytes, cells, (int64_t[]){ -COLUMNS, -1 });
    default: return weft_broadcast(weft_from(t->dtype, 1, ones, data), 2, cells);
  }
}

static uint64_t constant_at(int type, int k, enum form form, int i) {
  bool is_array = form == ARRAY || form == READ_ONLY, is_reversed = form == REVERSED;
  return numbers[(k + (is_array ? i : is_reversed ? CELLS - 1 - i : 0)) % NUMBERS].bits[type];
}

/* x, alternating 1 and -1. */
static weft_array *signs(int type, char data[CELLS * 8]) {
  const struct type *t = &types[type];
  uint64_t one = (uint64_t)((1 << (t->exponent_bits - 1)) - 1) << t->mantissa_bits, sign = 1ull << (8 * t->bytes - 1);
  for (int i = 0; i < CELLS; i++) set_element(t, data, i, i % 2 ? one | sign : one);
  return weft_from(t->dtype, WEFT_DIMS(ROWS, COLUMNS), data);
}

static void expect_choice(int type, int k, enum form form, const char *x, weft_array *y, const char *where) {
  const struct type *t = &types[type];
  char got[CELLS * 8];
  n_constants++;
  if (!scene_ok(weft_read(y, t->dtype, got, (size_t)(CELLS * t->bytes)), where)) return;
  for (int i = 0; i < CELLS; i++) {
    uint64_t right = i % 2 ? element(t, x, i) : constant_at(type, k, form, i), is = element(t, got, i);
    scene_expect(is == right, "%s %s as %s, %s: element %d is %llx, not %llx",
                 weft_dtype_name(t->dtype), numbers[k].name, form_names[form], where, i, (unsigned long long)is,
                 (unsigned long long)right);
  }
}

/* where(x > 0, c, x), one operation at a time, inside a function, and row by row in a loop. */
static void use_constant(int type, int k, enum form form, bool is_gpu) {
  char data[CELLS * 8];
  weft_scope *scope = weft_scope_open();
  weft_array *x = signs(type, data), *c = constant(type, k, form, is_gpu), *zero = weft_scalar(0), *y;
  expect_choice(type, k, form, data, weft_where(weft_gt(x, zero), c, x), "plain");

  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(types[type].dtype, WEFT_DIMS(form < ARRAY ? WEFT_ANY : ROWS, COLUMNS));
  weft_array *out = weft_where(weft_gt(in, zero), c, in);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  expect_choice(type, k, form, data, y, "in a function");

  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(loop, x), *c_t = form >= ARRAY ? weft_loop_each(loop, c) : c;
  if (form == RANK_2) c_t = weft_squeeze(c, 0);
  y = weft_loop_all(loop, weft_where(weft_gt(x_t, zero), c_t, x_t));
  weft_loop_close(loop);
  expect_choice(type, k, form, data, y, "in a loop");
  weft_scope_discard(scope);
}

/* ---- moves ---- */

static void expect_moved(int type, weft_array *y, const int from[], int n, const char *how) {
  const struct type *t = &types[type];
  char got[CELLS * 8];
  if (!scene_ok(weft_read(y, t->dtype, got, (size_t)(n * t->bytes)), how)) return;
  for (int i = 0; i < n; i++) {
    uint64_t right = numbers[from[i]].bits[type], is = element(t, got, i);
    scene_expect(is == right, "%s, %s of %s: %llx became %llx", how, weft_dtype_name(t->dtype),
                 numbers[from[i]].name, (unsigned long long)right, (unsigned long long)is);
  }
}

static void moves(int type) {
  const struct type *t = &types[type];
  char data[NUMBERS * 8];
  int64_t order[NUMBERS], five[2] = { 2, 5 };
  int same[2 * NUMBERS], back[NUMBERS], shuffled[NUMBERS], turned[NUMBERS];
  for (int i = 0; i < NUMBERS; i++) {
    set_element(t, data, i, numbers[i].bits[type]);
    same[i] = same[NUMBERS + i] = i, back[i] = NUMBERS - 1 - i, turned[i] = i % 2 * 5 + i / 2;
    shuffled[i] = (int)(order[i] = i * 7 % NUMBERS);
  }
  weft_scope *scope = weft_scope_open();
  weft_array *x = weft_from(t->dtype, WEFT_DIMS(NUMBERS), data), *at = weft_from(WEFT_I64, WEFT_DIMS(NUMBERS), order);
  weft_array *yes = weft_eq(at, at), *zeros = weft_full(t->dtype, WEFT_DIMS(NUMBERS), 0);
  weft_array *grid = weft_reshape(x, 2, five), *framed = weft_pad(weft_unsqueeze(x, 0), 0, 1, 1, weft_scalar(0));
  expect_moved(type, x, same, NUMBERS, "read");
  expect_moved(type, weft_concat(0, WEFT_ARRAYS(x, x)), same, 2 * NUMBERS, "concat");
  expect_moved(type, weft_where(yes, x, zeros), same, NUMBERS, "where");
  expect_moved(type, weft_take(x, 1, &at), shuffled, NUMBERS, "take");
  expect_moved(type, weft_slice(x, 0, -1, WEFT_BEGIN, -1), back, NUMBERS, "slice");
  expect_moved(type, weft_reshape(weft_moveaxis(grid, 0, 1), WEFT_DIMS(NUMBERS)), turned, NUMBERS, "reshape");
  expect_moved(type, weft_put(zeros, weft_flip(zeros, 0), x, WEFT_SET), back, NUMBERS, "put");
  expect_moved(type, weft_slice(framed, 0, 1, 2, 1), same, NUMBERS, "pad");
  expect_moved(type, weft_slice(weft_broadcast(x, WEFT_DIMS(2, NUMBERS)), 0, 0, 1, 1), same, NUMBERS, "broadcast");
  weft_scope_discard(scope);
}

/* ---- gradients of the norms ---- */

/* x s / (s s) with s = sqrt(mean(x^2) + eps) is x / s. */
static weft_array *rms_norm(weft_array *x) {
  weft_array *s = weft_sqrt(weft_add(weft_mean(weft_mul(x, x), -1), weft_scalar(1e-3)));
  return weft_div(weft_mul(x, s), weft_mul(s, s));
}
static weft_array *layer_norm(weft_array *x) { return rms_norm(weft_sub(x, weft_mean(x, -1))); }

/* dx_i = (w_i - y_i mean(w y)) / s; through the mean, for LayerNorm, minus its own mean. */
static void right_gradient(bool is_layer, const double x[COLUMNS], const double w[COLUMNS], double dx[COLUMNS]) {
  double mean = 0, square = 0, along = 0, all = 0, n = COLUMNS;
  for (int i = 0; i < COLUMNS; i++) mean += is_layer ? x[i] / n : 0;
  for (int i = 0; i < COLUMNS; i++) square += (x[i] - mean) * (x[i] - mean) / n;
  double s = sqrt(square + 1e-3);
  for (int i = 0; i < COLUMNS; i++) along += w[i] * (x[i] - mean) / s / n;
  for (int i = 0; i < COLUMNS; i++) dx[i] = (w[i] - (x[i] - mean) / s * along) / s, all += is_layer ? dx[i] / n : 0;
  for (int i = 0; i < COLUMNS; i++) dx[i] -= all;
}

static void norm_gradient(int type, bool is_layer) {
  static const double tolerance[] = { 2e-2, 1e-1, 1e-5, 1e-13 };
  double x[CELLS], w[COLUMNS], dx[CELLS], right[CELLS];
  for (int i = 0; i < CELLS; i++) x[i] = (i * 5 % 17 - 8) / 8.0, w[i % COLUMNS] = (i % COLUMNS * 3 % 11 - 5) / 4.0;
  for (int r = 0; r < ROWS; r++) right_gradient(is_layer, x + r * COLUMNS, w, right + r * COLUMNS);
  weft_scope *scope = weft_scope_open();
  weft_array *xs = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(ROWS, COLUMNS), x), types[type].dtype), *d, *y;
  weft_array *ws = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(COLUMNS), w), types[type].dtype);
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(types[type].dtype, WEFT_DIMS(WEFT_ANY, COLUMNS));
  weft_grad(weft_mul(is_layer ? layer_norm(in) : rms_norm(in), ws), 1, &in, &d);
  weft_function *f = weft_compile(body, 1, &in, 1, &d);
  weft_call(f, 1, &xs, 1, &y);
  if (scene_ok(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, dx, sizeof dx), "the gradient of a norm"))
    for (int i = 0; i < CELLS; i++)
      scene_expect(fabs(dx[i] - right[i]) <= tolerance[type], "gradient of %s in %s: element %d is %g, not %g",
                   is_layer ? "LayerNorm" : "RMSNorm", weft_dtype_name(types[type].dtype), i, dx[i], right[i]);
  weft_scope_discard(scope);
}

/* sqr(sqrt z) inside a function: z where there is a root, else nan. */
static void square_of_root(int type) {
  double z[6] = { 4, 0, -0.0, -1, INFINITY, NAN }, got[6];
  weft_scope *scope = weft_scope_open();
  weft_array *zs = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(6), z), types[type].dtype), *y;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(types[type].dtype, WEFT_DIMS(WEFT_ANY)), *root = weft_sqrt(in);
  weft_array *out = weft_mul(root, root);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &zs, 1, &y);
  if (scene_ok(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, got, sizeof got), "sqr(sqrt z)"))
    for (int i = 0; i < 6; i++)
      scene_expect(z[i] >= 0 ? got[i] == z[i] : isnan(got[i]), "sqr(sqrt %g) is %g", z[i], got[i]);
  weft_scope_discard(scope);
}

int main(int argc, char **argv) {
  scene_start(argc, argv, "a NaN is printed into the text of a kernel, which then does not compile");
  bool is_gpu = argc > 1 && !strcmp(argv[1], "gpu");
  page_bytes = 4096;
  page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return perror("mmap"), 1;
  for (int type = 0; type < 4; type++) {
    for (int k = 0; k < NUMBERS; k++)
      for (int form = 0; form < FORMS; form++) use_constant(type, k, (enum form)form, is_gpu);
    moves(type);
    square_of_root(type);
    norm_gradient(type, false);
    norm_gradient(type, true);
  }
  munmap(page, page_bytes);
  return scene_end("%d uses of special constants keep every bit, also in functions and loops; the gradients of\n"
                   "              RMSNorm and LayerNorm are numbers", n_constants);
}
