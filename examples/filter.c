/* filter.c -- filter [picture.svg]: blur, edges and relief of an image.
 *
 * The idiom: a neighbour is a shifted view. The image gets a frame, once; slices of it move no data; a filter is
 * arithmetic on them, and becomes one kernel that reads the framed image where it is. */
#include <weft_sugar.h>
#include "picture.h"

enum { SIDE = 192, FRAME = 2, SHOWN = 4 };

static weft_array *framed(weft_array *x) {
  for (int axis = 0; axis < 2; axis++) x = weft_pad(x, axis, FRAME, FRAME, weft_scalar(0.5));
  return x;
}

/* The pixels so far down and right of each pixel of the image in the frame x. */
static weft_array *shifted(weft_array *x, int down, int right) {
  weft_array *rows = weft_slice(x, 0, FRAME + down, FRAME + down + SIDE, 1);
  return weft_slice(rows, 1, FRAME + right, FRAME + right + SIDE, 1);
}

/* Weights 1 4 6 4 1, along both axes. */
static weft_array *blurred(weft_array *x) {
  static const double weight[5] = { 1 / 16., 4 / 16., 6 / 16., 4 / 16., 1 / 16. };
  weft_array *sum = weft_scalar(0);
  for (int i = -2; i <= 2; i++)
    for (int j = -2; j <= 2; j++) sum = weft_add(sum, weft_mul(shifted(x, i, j), weight[i + 2] * weight[j + 2]));
  return sum;
}

/* How fast x grows downwards (axis 0) or to the right, smoothed across. */
static weft_array *slope(weft_array *x, int axis) {
  weft_array *sum = weft_scalar(0);
  for (int k = -1; k <= 1; k++) {
    weft_array *ahead = shifted(x, axis ? k : 1, axis ? 1 : k), *behind = shifted(x, axis ? k : -1, axis ? -1 : k);
    sum = weft_add(sum, weft_mul(weft_sub(ahead, behind), k ? 0.25 : 0.5));
  }
  return sum;
}

/* A sphere on a chequered floor: [SIDE,SIDE,3]. */
static weft_array *scene(void) {
  weft_array *cells = weft_full(WEFT_F32, WEFT_DIMS(SIDE, SIDE, 1), 0);
  weft_array *x = weft_sub(weft_div(weft_iota(cells, 1), SIDE / 2.), 1);
  weft_array *y = weft_sub(1, weft_div(weft_iota(cells, 0), SIDE / 2.));
  weft_array *deep = weft_div(1, weft_maximum(weft_sub(-0.2, y), 1e-3)); /* how far off a ray meets the floor */
  weft_array *column = weft_cast(weft_add(weft_mul(x, deep), 1000), WEFT_I32);
  weft_array *row = weft_cast(weft_mul(2, deep), WEFT_I32);
  weft_array *floor = weft_where(weft_eq(weft_and(weft_xor(column, row), 1), 1), 0.75, 0.25);
  weft_array *back = weft_where(weft_lt(y, -0.2), floor, weft_add(0.6, weft_mul(0.3, y)));
  weft_array *up = weft_sub(y, 0.05), *z2 = weft_sub(0.3, weft_add(weft_mul(x, x), weft_mul(up, up)));
  weft_array *shine = weft_add(weft_mul(0.5, weft_sub(up, x)), weft_mul(0.9, weft_sqrt(weft_maximum(z2, 0))));
  weft_array *ball = weft_add(0.1, weft_maximum(shine, 0)), *is_ball = weft_gt(z2, 0);
  weft_array *red = weft_where(is_ball, ball, weft_mul(back, 0.8));
  weft_array *blue = weft_where(is_ball, weft_mul(ball, 0.3), back);
  return weft_concat(2, WEFT_ARRAYS(red, weft_where(is_ball, weft_mul(ball, 0.45), back), blue));
}

int main(int argc, char **argv) {
  static const char *name[SHOWN] = { "the image", "blurred", "edges", "relief" };
  static float rgb[SHOWN][SIDE * SIDE * 3];
  weft_array *x = scene(), *frame = framed(x), *across = slope(frame, 1), *down = slope(frame, 0);
  weft_array *edges = weft_mul(3, weft_sqrt(weft_add(weft_mul(across, across), weft_mul(down, down))));
  weft_array *shown[SHOWN] = { x, blurred(frame), edges, weft_add(0.5, weft_sub(across, down)) };
  weft_cost cost;
  if (weft_eval(WEFT_ARRAYS(x, frame))) return fprintf(stderr, "filter: %s\n", weft_message()), 1;
  for (int i = 0; i < SHOWN; i++) {
    if (weft_plan(1, &shown[i], &cost) || weft_read_to(shown[i], &rgb[i]))
      return fprintf(stderr, "filter: %s\n", weft_message()), 1;
    printf("%-10s kernels: %d\n", name[i], cost.kernels);
  }
  const char *path = argc > 1 ? argv[1] : "filter.svg";
  FILE *out = picture_open(path, 2 * SIDE + 30, 2 * SIDE + 60);
  for (int i = 0; i < SHOWN; i++) {
    double left = 10 + (SIDE + 10) * (i % 2), top = 24 + (SIDE + 26) * (i / 2);
    picture_image(out, left, top, 1, SIDE, SIDE, rgb[i]);
    picture_text(out, left, top - 6, "#000", name[i]);
  }
  return picture_close(out, path);
}
