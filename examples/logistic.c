/* logistic.c -- logistic [picture.svg]: a line between two clouds, by gradient descent.
 *
 * The idiom: a step is a scope. What it is for is declared with update and fetch; closing it compiles forward pass,
 * gradient and update into one program, runs it, and changes the parameters all together or not at all. */
#include <weft_sugar.h>
#include "noise.h"
#include "picture.h"

enum { POINTS = 400, STEPS = 300, GRID = 100 };

static weft_array *logit(weft_array *w, weft_array *b, weft_array *x) { return weft_add(weft_matmul(x, w), b); }

/* mean of log(1 + e^z) - yz, written so that nothing overflows; w is held small. */
static weft_array *loss_of(weft_array *w, weft_array *b, weft_array *x, weft_array *y) {
  weft_array *z = logit(w, b, x), *tail = weft_log1p(weft_exp(weft_neg(weft_abs(z))));
  weft_array *each = weft_sub(weft_add(weft_maximum(z, 0), tail), weft_mul(y, z));
  return weft_add(weft_mean(each, WEFT_ALL), weft_mul(1e-3, weft_sum(weft_mul(w, w), WEFT_ALL)));
}

static weft_status descend(weft_array *w, weft_array *b, weft_array *x, weft_array *y, float *loss_now) {
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *g[2], *loss = loss_of(w, b, x, y);
    weft_grad(loss, WEFT_ARRAYS(w, b), g);
    weft_update(w, weft_sub(w, weft_mul(g[0], 0.5)));
    weft_update(b, weft_sub(b, weft_mul(g[1], 0.5)));
    weft_fetch_to(loss, loss_now);
  }
  return status;
}

/* The middles of the picture's cells, from (-3, 3) to (3, -3). */
static weft_array *make_grid(void) {
  weft_array *cells = weft_full(WEFT_F32, WEFT_DIMS(GRID, GRID, 1), 0);
  weft_array *right = weft_iota(cells, 1), *up = weft_sub(GRID - 1, weft_iota(cells, 0));
  return weft_mul(weft_sub(weft_concat(2, WEFT_ARRAYS(right, up)), GRID / 2. - 0.5), 6. / GRID);
}

/* Blue where the chance is 0, white in doubt, orange at 1. */
static weft_array *colours(weft_array *chance) {
  weft_array *doubt = weft_sub(1, weft_abs(weft_sub(weft_mul(chance, 2), 1)));
  weft_array *red = weft_minimum(weft_add(0.4, weft_mul(1.2, chance)), 1);
  weft_array *green = weft_add(0.65, weft_mul(0.35, doubt));
  weft_array *blue = weft_minimum(weft_sub(1.6, weft_mul(1.2, chance)), 1);
  return weft_concat(2, WEFT_ARRAYS(red, green, blue));
}

int main(int argc, char **argv) {
  static float at[POINTS][2], side[POINTS], rgb[GRID * GRID * 3], loss, share;
  for (int i = 0; i < POINTS; i++) {
    side[i] = (float)(i % 2);
    at[i][0] = (float)(0.7 * normal() + (i % 2 ? 0.9 : -0.9));
    at[i][1] = (float)(0.9 * normal() + (i % 2 ? 0.6 : -0.4));
  }
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(POINTS, 2), at), *y = weft_from(WEFT_F32, WEFT_DIMS(POINTS, 1), side);
  weft_array *w = weft_full(WEFT_F32, WEFT_DIMS(2, 1), 0), *b = weft_full(WEFT_F32, WEFT_DIMS(1), 0);
  for (int t = 1; t <= STEPS; t++) {
    if (descend(w, b, x, y, &loss)) return fprintf(stderr, "logistic: %s\n", weft_message()), 1;
    if (t % 50 == 0) printf("step %3d, loss %.5f\n", t, loss);
  }
  weft_array *is_right = weft_cast(weft_eq(weft_gt(logit(w, b, x), 0), weft_gt(y, 0.5)), WEFT_F32);
  weft_array *image = colours(weft_sigmoid(logit(w, b, make_grid())));
  if (weft_read_to(weft_mean(is_right, WEFT_ALL), &share) || weft_read_to(image, &rgb))
    return fprintf(stderr, "logistic: %s\n", weft_message()), 1;
  printf("%.1f%% of the points are on the right side.\n", 100 * share);
  const char *path = argc > 1 ? argv[1] : "logistic.svg";
  FILE *out = picture_open(path, 400, 400);
  picture_image(out, 0, 0, 4, GRID, GRID, rgb);
  for (int i = 0; i < POINTS; i++)
    picture_dot(out, 200 + 66.7 * at[i][0], 200 - 66.7 * at[i][1], 3, side[i] > 0 ? "#a04000" : "#103070");
  picture_text(out, 10, 390, "#000", "two kinds of points, and the probability that was fitted");
  return picture_close(out, path);
}
