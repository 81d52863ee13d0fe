/* digits.c -- digits [picture.svg]: a small network learns to read digits that are drawn for it.
 *
 * The idiom: a step of training as a compiled function of parameters and a batch of any size. It is traced once; a call
 * costs microseconds, and is lazy like any operation, so a scope can update the parameters with what it returns. */
#include <weft_sugar.h>
#include "digits.h"
#include "picture.h"

enum { HIDDEN = 48, BATCH = 64, STEPS = 1500, TESTS = 1000, SHOWN = 96, N = 4 };

static const struct { weft_dtype dtype; int rank; int64_t dims[2]; } kind[N + 2] = { /* of what a step takes */
  { WEFT_F32, 2, { SIDE * SIDE, HIDDEN } }, { WEFT_F32, 1, { HIDDEN } }, { WEFT_F32, 2, { HIDDEN, 10 } },
  { WEFT_F32, 1, { 10 } }, { WEFT_F32, 2, { WEFT_ANY, SIDE * SIDE } }, { WEFT_I32, 1, { WEFT_ANY } },
};

static void draw_batch(int n, float pixel[][SIDE * SIDE], int32_t label[]) {
  for (int i = 0; i < n; i++) draw_digit(label[i] = (int32_t)(10 * uniform()), pixel[i]);
}

/* [n,SIDE*SIDE] -> [n,10]: how much each picture looks like each digit. */
static weft_array *network(weft_array *const p[], weft_array *x) {
  return weft_add(weft_matmul(weft_maximum(weft_add(weft_matmul(x, p[0]), p[1]), 0), p[2]), p[3]);
}

static weft_function *make_step(void) { /* parameters, pixels, labels -> better parameters, loss */
  weft_scope *body = weft_scope_open();
  weft_array *in[N + 2], *out[N + 1];
  for (int i = 0; i < N + 2; i++) in[i] = weft_input(kind[i].dtype, kind[i].rank, kind[i].dims);
  weft_array *z = network(in, in[N]), *row = weft_iota(in[N + 1], 0);
  weft_array *right = weft_take(z, 2, (weft_array *[]){ row, in[N + 1] });
  out[N] = weft_mean(weft_sub(weft_squeeze(weft_logsumexp(z, 1), 1), right), WEFT_ALL);
  weft_grad(out[N], N, in, out);
  for (int i = 0; i < N; i++) out[i] = weft_sub(in[i], weft_mul(out[i], 0.2));
  return weft_compile(body, N + 2, in, N + 1, out);
}

int main(int argc, char **argv) {
  static float pixel[TESTS][SIDE * SIDE], start[N][SIDE * SIDE * HIDDEN], rgb[SIDE * SIDE * 3], loss;
  static int32_t label[TESTS];
  static int64_t guess[TESTS];
  weft_array *p[N];
  for (int i = 0; i < N; i++) {
    for (int k = 0; i % 2 == 0 && k < SIDE * SIDE * HIDDEN; k++) start[i][k] = (float)((i ? 0.15 : 0.06) * normal());
    p[i] = weft_from(kind[i].dtype, kind[i].rank, kind[i].dims, start[i]);
  }
  weft_function *step = make_step();
  weft_status status = WEFT_OK;
  for (int t = 1; t <= STEPS && !status; t++) {
    draw_batch(BATCH, pixel, label);
    WEFT_SCOPE(&status) {
      weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(BATCH, SIDE * SIDE), pixel);
      weft_array *y = weft_from(WEFT_I32, WEFT_DIMS(BATCH), label);
      weft_array *in[N + 2] = { p[0], p[1], p[2], p[3], x, y }, *out[N + 1];
      weft_call(step, N + 2, in, N + 1, out);
      for (int i = 0; i < N; i++) weft_update(p[i], out[i]);
      weft_fetch_to(out[N], &loss);
    }
    if (t % 250 == 0 && !status) printf("step %4d, loss %.4f\n", t, loss);
  }
  draw_batch(TESTS, pixel, label);
  weft_array *best = weft_argmax(network(p, weft_from(WEFT_F32, WEFT_DIMS(TESTS, SIDE * SIDE), pixel)), 1);
  if (!status) status = weft_read_to(best, &guess);
  if (status) return fprintf(stderr, "digits: %s\n", weft_message()), 1;
  int n_right = 0;
  for (int i = 0; i < TESTS; i++) n_right += guess[i] == label[i];
  printf("%.1f%% of %d new digits are read right.\n", 100. * n_right / TESTS, TESTS);
  const char *path = argc > 1 ? argv[1] : "digits.svg";
  FILE *out = picture_open(path, 12 * 50 + 10, SHOWN / 12 * 60 + 10);
  for (int i = 0; i < SHOWN; i++) {
    for (int k = 0; k < SIDE * SIDE * 3; k++) rgb[k] = 1 - pixel[i][k / 3];
    picture_image(out, 10 + i % 12 * 50, 10 + i / 12 * 60, 2.5, SIDE, SIDE, rgb);
    const char *colour = guess[i] == label[i] ? "#239b56" : "#c0392b";
    picture_text(out, 26 + i % 12 * 50, 64 + i / 12 * 60, colour, (char[]){ (char)('0' + guess[i]), 0 });
  }
  return picture_close(out, path);
}
