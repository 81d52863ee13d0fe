/* half.c -- f16 and bf16: each of the 65536 patterns, signalling NaNs among them, on the vm, on the machine and
 * on a GPU. */
#include <stdlib.h>
#include "kernel/kir.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "weft.h"

enum { PATTERNS = 65536, SIDE = 256, SHIFT = 4097, HALVES = 2, BACKENDS = 3 };
static const weft_dtype halves[HALVES] = { WEFT_F16, WEFT_BF16 };
static const char *const backends[BACKENDS] = { "vm", "avx2", "x86" };

static void use_backend(const char *name) {
  plan_drop_all();
  compiled_drop_all();
  if (name && !strcmp(name, "cuda")) weft_set(WEFT_DEVICE, 1);
  else weft_set(WEFT_DEVICE, 0), compiled_use(name);
}

static bool has_device(void) {
  if (weft_get(WEFT_DEVICE_COUNT) > 1) return true;
  test_skip("there is no device");
  return false;
}

static weft_array *patterns(weft_dtype d) {
  uint16_t *all = malloc(PATTERNS * sizeof *all);
  for (int i = 0; all && i < PATTERNS; i++) all[i] = (uint16_t)i;
  weft_array *x = weft_from(d, WEFT_DIMS(PATTERNS), all);
  free(all);
  return x;
}

/* ---- moves ---- */

typedef int came_from(int i); /* the pattern that is right at place i */
static int from_itself(int i) { return i % PATTERNS; }
static int from_the_end(int i) { return PATTERNS - 1 - i; }
static int from_every_third(int i) { return 1 + 3 * i; }
static int from_the_other_side(int i) { return i % SIDE * SIDE + i / SIDE; }
static int from_its_row(int i) { return i / 3; }
static int from_its_negative(int i) { return i ^ 0x8000; }
static int from_afar(int i) { return (int)((int64_t)i * SHIFT % PATTERNS); }

static void expect_from(const char *backend, const char *move, weft_dtype d, weft_array *y, int n, came_from *right) {
  uint16_t *got = calloc((size_t)n, sizeof *got);
  weft_status status = weft_read(y, d, got, (size_t)n * sizeof *got);
  if (status) test_fail(__FILE__, __LINE__, "%s of %s on %s: %s", move, weft_dtype_name(d), backend, weft_message());
  for (int i = 0; !status && i < n; i++) {
    if (got[i] == right(i)) continue;
    test_fail(__FILE__, __LINE__, "%s of %s on %s: %04x became %04x", move, weft_dtype_name(d), backend, right(i), got[i]);
    break;
  }
  free(got);
}

static weft_array *indices(came_from *from) {
  int64_t *at = malloc(PATTERNS * sizeof *at);
  for (int i = 0; at && i < PATTERNS; i++) at[i] = from(i);
  weft_array *y = weft_from(WEFT_I64, WEFT_DIMS(PATTERNS), at);
  free(at);
  return y;
}

static weft_array *truths(bool are) {
  bool *all = malloc(PATTERNS * sizeof *all);
  for (int i = 0; all && i < PATTERNS; i++) all[i] = are;
  weft_array *y = weft_from(WEFT_BOOL, WEFT_DIMS(PATTERNS), all);
  free(all);
  return y;
}

static weft_array *in_a_loop(weft_array *yes, weft_array *square, weft_array *other) {
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *row = weft_loop_each(loop, square), *is = weft_loop_each(loop, yes);
  weft_array *y = weft_loop_all(loop, weft_where(is, row, other));
  weft_loop_close(loop);
  return y;
}

static void move_all(const char *backend, weft_dtype d) {
  weft_scope *scope = weft_scope_open();
  weft_array *x = patterns(d), *zero = weft_full(d, WEFT_DIMS(PATTERNS), 0), *at = indices(from_afar);
  weft_array *yes = truths(true), *no = truths(false), *square = weft_reshape(x, WEFT_DIMS(SIDE, SIDE));
  weft_array *yes_square = weft_reshape(yes, WEFT_DIMS(SIDE, SIDE)), *none = weft_full(d, WEFT_DIMS(SIDE), 0);
  weft_array *turned = weft_reshape(weft_moveaxis(square, 0, 1), WEFT_DIMS(PATTERNS));
  weft_array *column = weft_broadcast(weft_unsqueeze(x, 1), WEFT_DIMS(PATTERNS, 3));
  weft_array *yes_column = weft_broadcast(weft_unsqueeze(yes, 1), WEFT_DIMS(PATTERNS, 3));
  weft_array *back = weft_slice(x, 0, -1, WEFT_BEGIN, -1), *third = weft_slice(x, 0, 1, PATTERNS, 3);
  weft_array *yes_third = weft_slice(yes, 0, 1, PATTERNS, 3);
  const struct { const char *name; weft_array *y; int n; came_from *from; } moves[] = {
    { "read", x, PATTERNS, from_itself },
    { "reversed slice", back, PATTERNS, from_the_end },
    { "slice", third, PATTERNS / 3, from_every_third },
    { "reshape", turned, PATTERNS, from_the_other_side },
    { "broadcast", column, 3 * PATTERNS, from_its_row },
    { "concat", weft_concat(0, WEFT_ARRAYS(x, x)), 2 * PATTERNS, from_itself },
    { "take", weft_take(x, 1, &at), PATTERNS, from_afar },
    { "put", weft_put(zero, weft_flip(zero, 0), x, WEFT_SET), PATTERNS, from_the_end },
    { "where", weft_where(yes, x, zero), PATTERNS, from_itself },
    { "where not", weft_where(no, zero, x), PATTERNS, from_itself },
    { "where beside lanes of 64 bits", weft_where(weft_eq(at, at), x, zero), PATTERNS, from_itself },
    { "where of a reversed slice", weft_where(yes, back, zero), PATTERNS, from_the_end },
    { "where of a slice", weft_where(yes_third, third, weft_scalar(0)), PATTERNS / 3, from_every_third },
    { "where of a reshape", weft_where(yes, turned, zero), PATTERNS, from_the_other_side },
    { "where of a broadcast", weft_where(yes_column, column, weft_scalar(0)), 3 * PATTERNS, from_its_row },
    { "where into a reversed slice", weft_put(zero, weft_flip(zero, 0), weft_where(yes, x, zero), WEFT_SET), PATTERNS,
      from_the_end },
    { "where in a loop", in_a_loop(yes_square, square, none), PATTERNS, from_itself },
    { "neg", weft_neg(x), PATTERNS, from_its_negative },
    { "cast to f32 and back", weft_cast(weft_cast(x, WEFT_F32), d), PATTERNS, from_itself },
  };
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    expect_from(backend, moves[i].name, d, moves[i].y, moves[i].n, moves[i].from);
  weft_scope_discard(scope);
}

TEST(moves_of_half_types_keep_every_pattern) {
  for (int b = 0; b < BACKENDS; b++)
    for (int h = 0; h < HALVES; h++) use_backend(backends[b]), move_all(backends[b], halves[h]);
  use_backend(NULL);
}

TEST(cuda_moves_of_half_types_keep_every_pattern) {
  for (int h = 0; has_device() && h < HALVES; h++) use_backend("cuda"), move_all("cuda", halves[h]);
  use_backend(NULL);
}

/* A number of its own is an argument of the kernel. */
TEST(every_nan_of_a_half_type_arrives_as_a_constant) {
  static const uint16_t infinity[HALVES] = { 0x7c00, 0x7f80 };
  for (int h = 0; h < HALVES; h++)
    for (int i = infinity[h]; i < PATTERNS / 2; i++) {
      uint16_t bits = (uint16_t)(i % 2 ? i : i | 0x8000), got[5] = { 0 };
      weft_scope *scope = weft_scope_open();
      weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(5), (float[]){ 1, -1, 1, -1, 1 });
      weft_array *c = weft_from(halves[h], 0, NULL, &bits), *zero = weft_scalar(0);
      weft_array *y = weft_where(weft_gt(x, zero), c, zero);
      EXPECT_INT(weft_read(y, halves[h], got, sizeof got), 0);
      for (int j = 0; j < 5; j++) EXPECT_INT(got[j], j % 2 ? 0 : bits);
      weft_scope_discard(scope);
    }
}

/* ---- casts ---- */

/* All upper halves of an f32, with lower halves around what f16 and bf16 round away. */
static const uint16_t lower[] = { 0,      1,      0xfff,  0x1000, 0x1001, 0x1fff, 0x2000,
                                  0x3000, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff };
enum { LOWERS = sizeof lower / sizeof *lower, FLOATS = PATTERNS * LOWERS };

static uint16_t *cast_all(const char *backend, const uint32_t *floats, weft_dtype d) {
  uint16_t *got = calloc(FLOATS, sizeof *got);
  use_backend(backend);
  weft_scope *scope = weft_scope_open();
  weft_array *y = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(FLOATS), floats), d);
  EXPECT_INT(weft_read(y, d, got, FLOATS * sizeof *got), 0);
  weft_scope_discard(scope);
  return got;
}

static void expect_casts_of_vm(int n, const char *const on[]) {
  uint32_t *floats = malloc(FLOATS * sizeof *floats);
  for (uint32_t i = 0; floats && i < FLOATS; i++) floats[i] = i / LOWERS << 16 | lower[i % LOWERS];
  for (int h = 0; h < HALVES; h++) {
    uint16_t *vm = cast_all("vm", floats, halves[h]);
    for (int b = 0; b < n; b++) {
      uint16_t *got = cast_all(on[b], floats, halves[h]);
      int i = 0;
      while (i < FLOATS && got[i] == vm[i]) i++;
      if (i < FLOATS)
        test_fail(__FILE__, __LINE__, "%08x as %s on %s is %04x, on the vm %04x", floats[i], weft_dtype_name(halves[h]), on[b],
                  got[i], vm[i]);
      free(got);
    }
    free(vm);
  }
  use_backend(NULL);
  free(floats);
}

TEST(casts_to_half_types_give_the_bits_of_the_vm_for_nans_too) { expect_casts_of_vm(2, backends + 1); }

TEST(cuda_casts_to_half_types_give_the_bits_of_the_vm_for_nans_too) {
  if (has_device()) expect_casts_of_vm(1, (const char *[]){ "cuda" });
}
