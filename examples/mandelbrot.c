/* mandelbrot.c -- mandelbrot [picture.svg]: the set, and how far from it every other point is.
 *
 * The idiom: a `while` is written for one point and mapped over all, each of which leaves when it is done. Points are
 * complex numbers; the distance needs dz/dc, which weft_jvp carries through the loop. */
#include <weft_sugar.h>
#include <math.h>
#include "picture.h"

enum { WIDE = 440, HIGH = 400, STEPS = 600, VIEWS = 2 };
static const struct { const char *name; double x, y, width; } view[VIEWS] = {
  { "the Mandelbrot set", -0.65, 0, 2.9 }, { "500 times larger: the valley of seahorses", -0.7453, 0.1127, 0.0058 },
};

/* z <- z^2 + c from 0, until it is far away or the steps are used up: the last z, and how many it took. */
static weft_array *iterate(weft_array *c, weft_array **count) {
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *z = weft_loop_carry(loop, weft_mul(c, 0)), *n = weft_loop_carry(loop, 0);
  weft_array *next = weft_add(weft_square(z), c), *n_next = weft_add(n, 1);
  weft_array *size2 = weft_add(weft_square(weft_real(next)), weft_square(weft_imag(next)));
  weft_loop_next(loop, z, next), weft_loop_next(loop, n, n_next);
  weft_loop_until(loop, weft_or(weft_gt(size2, 1e6), weft_ge(n_next, STEPS)));
  weft_array *last = weft_loop_last(loop, z);
  *count = weft_loop_last(loop, n);
  weft_loop_close(loop);
  return last;
}

/* Bands of colour by the steps, counted smoothly; dark towards the set, which has the distance 0. */
static weft_array *colours(weft_array *smooth, weft_array *distance, weft_array *pixel) {
  weft_array *light = weft_sqrt(weft_tanh(weft_mul(weft_div(distance, pixel), 2))), *rgb[3];
  for (int k = 0; k < 3; k++) {
    weft_array *wave = weft_cos(weft_add(weft_mul(weft_log(weft_add(smooth, 3)), 2.6), 2.3 - 0.55 * k));
    rgb[k] = weft_mul(light, weft_add(0.55, weft_mul(wave, 0.42)));
  }
  return weft_stack(0, 3, rgb);
}

/* Points [n], width of a pixel -> colours [n,3], and whether each point belongs to the set. */
static weft_function *make_painter(void) {
  weft_scope *body = weft_scope_open();
  weft_array *points = weft_input(WEFT_C128, WEFT_DIMS(WEFT_ANY)), *pixel = weft_input(WEFT_F64, 0, NULL);
  weft_array *c = weft_input(WEFT_C128, 0, NULL), *one = weft_full_like(c, 1), *count, *dz, *out[2];
  weft_array *z = iterate(c, &count), *size = weft_abs(z), *is_in = weft_le(size, 1e3);
  weft_jvp(1, &c, &one, 1, &z, &dz);
  weft_array *smooth = weft_sub(count, weft_log2(weft_log(weft_maximum(size, 2))));
  weft_array *distance = weft_div(weft_mul(size, weft_log(size)), weft_abs(dz));
  weft_array *paint = colours(smooth, weft_where(is_in, 0, distance), pixel);
  weft_map(1, &c, &points, 2, (weft_array *[]){ weft_cast(paint, WEFT_F32), is_in }, out);
  return weft_compile(body, WEFT_ARRAYS(points, pixel), 2, out);
}

static weft_status paint(weft_function *f, int i, float (*rgb)[HIGH * WIDE * 3], double *area) {
  weft_status status;
  WEFT_SCOPE(&status) {
    double pixel = view[i].width / WIDE;
    weft_array *cells = weft_full(WEFT_F64, WEFT_DIMS(HIGH, WIDE), 0), *out[2];
    weft_array *x = weft_add(view[i].x, weft_mul(pixel, weft_sub(weft_iota(cells, 1), WIDE / 2. - 0.5)));
    weft_array *y = weft_add(view[i].y, weft_mul(pixel, weft_sub(HIGH / 2. - 0.5, weft_iota(cells, 0))));
    weft_array *points = weft_reshape(weft_complex(x, y), WEFT_DIMS(WEFT_ANY));
    weft_call(f, WEFT_ARRAYS(points, weft_from(WEFT_F64, 0, NULL, &pixel)), 2, out);
    weft_fetch_to(out[0], rgb);
    weft_fetch_to(weft_mul(weft_sum(weft_cast(out[1], WEFT_F64), WEFT_ALL), pixel * pixel), area);
  }
  return status;
}

int main(int argc, char **argv) {
  static float rgb[VIEWS][HIGH * WIDE * 3];
  double area[VIEWS] = { 0 };
  weft_function *f = make_painter();
  for (int i = 0; i < VIEWS; i++)
    if (paint(f, i, &rgb[i], &area[i])) return fprintf(stderr, "mandelbrot: %s\n", weft_message()), 1;
  printf("The area of the set is %.4f by counting points; 1.5066 is known.\n", area[0]);
  const char *path = argc > 1 ? argv[1] : "mandelbrot.svg";
  FILE *out = picture_open(path, VIEWS * (WIDE + 10) + 10, HIGH + 40);
  for (int i = 0; i < VIEWS; i++) {
    picture_image(out, 10 + i * (WIDE + 10), 30, 1, WIDE, HIGH, rgb[i]);
    picture_text(out, 10 + i * (WIDE + 10), 20, "#000", view[i].name);
  }
  return picture_close(out, path) || fabs(area[0] - 1.5066) > 0.02;
}
