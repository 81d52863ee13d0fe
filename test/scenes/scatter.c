/* scatter.c -- many updates of few places, NaN among them, in every element type. */
#include <math.h>
#include <time.h>
#include <unistd.h>
#include "scene.h"

enum { SLOTS = 7, MOST = 1000000 };

/* Slots 1, 3 and 5 get the updates, the others are neighbours that must stay. In slot 3 one update is NaN, slot 5 holds
 * one from the start. Values are such that any order gives the same sum or product. */
enum { PLAIN = 1, NAN_UPDATE = 3, NAN_MEMORY = 5 };

static const struct { weft_dtype dtype; bool is_float; } types[] = {
  { WEFT_F32, true }, { WEFT_F64, true }, { WEFT_BF16, true }, { WEFT_F16, true },
  { WEFT_I32, false }, { WEFT_I64, false }, { WEFT_U8, false }, { WEFT_BOOL, false },
};
static const struct { weft_how how; const char *name; } combiners[] = {
  { WEFT_ADD, "add" }, { WEFT_MUL, "prod" }, { WEFT_MAX, "max" }, { WEFT_MIN, "min" },
};

static float memory[SLOTS] = { 3, 1, 3, 1, 3, 1, 3 };
static int32_t *target;
static float *update;
static double slowest;
static int n_scatters, n_under_100_ms;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The i-th of n updates of a slot: 0 or 1 but for a few 1s or 2s, which any order combines alike. */
static float update_of(weft_how how, int i, int n) {
  bool is_special = i % (n / 3 + 1) == 0;
  return how == WEFT_MUL ? (is_special ? 2 : 1) : is_special;
}

static void make_updates(weft_how how, bool with_nan, int n) {
  for (int i = 0; i < n; i++)
    for (int s = 0; s < 3; s++) {
      target[3 * i + s] = 2 * s + 1;
      update[3 * i + s] = update_of(how, i, n);
    }
  if (with_nan) update[3 * (n / 2) + 1] = NAN;
}

static double combined(weft_how how, double a, double b, weft_dtype dtype) {
  switch (how) {
    case WEFT_ADD: return dtype == WEFT_BOOL ? a || b : a + b;
    case WEFT_MUL: return dtype == WEFT_BOOL ? a && b : a * b;
    case WEFT_MAX: return fmax(a, b);
    default: return fmin(a, b);
  }
}

static void expect_slots(int type, int how, int n, const double got[SLOTS]) {
  bool is_float = types[type].is_float, is_bool = types[type].dtype == WEFT_BOOL;
  double right = memory[PLAIN];
  for (int i = 0; i < n; i++) {
    double v = update_of(combiners[how].how, i, n);
    right = combined(combiners[how].how, right, is_bool ? v != 0 : v, types[type].dtype);
  }
  for (int s = 0; s < SLOTS; s++) {
    double expected = s % 2 == 0 ? (is_bool ? 1 : memory[s]) : is_float && s != PLAIN ? NAN : right;
    bool ok = isnan(expected) ? isnan(got[s]) : got[s] == expected;
    scene_expect(ok, "%s of %s, %d updates: slot %d is %g, not %g", combiners[how].name,
                 weft_dtype_name(types[type].dtype), n, s, got[s], expected);
  }
}

static void scatter(int type, int how, int n) {
  double got[SLOTS];
  weft_dtype dtype = types[type].dtype;
  make_updates(combiners[how].how, types[type].is_float, n);
  memory[NAN_MEMORY] = types[type].is_float ? NAN : 1;
  weft_scope *scope = weft_scope_open();
  weft_array *x = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(SLOTS), memory), dtype);
  weft_array *v = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(3 * n), update), dtype);
  weft_array *at = weft_from(WEFT_I32, WEFT_DIMS(3 * n), target);
  if (!scene_ok(weft_eval(WEFT_ARRAYS(x, v, at)), "the operands")) return weft_scope_discard(scope);
  weft_array *y = weft_put(x, weft_take(x, 1, &at), v, combiners[how].how);
  alarm(10);
  double begin = now();
  weft_status status = weft_eval(1, &y);
  double ms = 1e3 * (now() - begin);
  alarm(0);
  n_scatters++;
  n_under_100_ms += ms < 100;
  slowest = fmax(slowest, ms);
  weft_array *wide = weft_cast(y, WEFT_F64);
  if (scene_ok(status, combiners[how].name) && scene_ok(weft_read(wide, WEFT_F64, got, sizeof got), "the result"))
    expect_slots(type, how, n, got);
  weft_scope_discard(scope);
}

int main(int argc, char **argv) {
  static const int counts[] = { 1, 2, 1000, MOST };
  scene_start(argc, argv, "scatter-prod with a NaN compares floats in its exchange loop: the GPU never comes back");
  target = malloc(sizeof *target * 3 * MOST);
  update = malloc(sizeof *update * 3 * MOST);
  if (!target || !update) return 1;
  for (int t = 0; t < (argc > 1 && !strcmp(argv[1], "gpu") ? 1 : 8); t++) /* f32 alone there */
    for (int h = 0; h < 4; h++)
      for (int c = 0; c < 4; c++) scatter(t, h, counts[c]);
  free(target);
  free(update);
  return scene_end("%d scatters with up to a million updates a slot, NaN where NaN belongs, neighbours untouched;\n"
                   "              slowest %.1f ms, %d under 100 ms", n_scatters, slowest, n_under_100_ms);
}
