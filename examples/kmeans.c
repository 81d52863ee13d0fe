/* kmeans.c -- kmeans [picture.svg]: clusters by Lloyd's method, until nothing moves.
 *
 * The idiom: a loop is written once and run as often as it must; sums per cluster are one weft_put with WEFT_ADD into
 * the rows that an index array shows. The whole search is one expression: nothing comes back to C in between. */
#include <weft_sugar.h>
#include "noise.h"
#include "picture.h"

enum { POINTS = 2000, CLUSTERS = 6, STEPS = 100 };

/* [POINTS]: the nearest of the centres. |x - c|^2 of every pair is never stored. */
static weft_array *nearest(weft_array *x, weft_array *centre) {
  weft_array *apart = weft_sub(weft_unsqueeze(x, 1), weft_unsqueeze(centre, 0));
  weft_array *far = weft_squeeze(weft_sum(weft_mul(apart, apart), 2), 2);
  return weft_squeeze(weft_argmin(far, 1), 1);
}

/* The means of the points that are nearest to each centre; a centre without points stays. */
static weft_array *moved(weft_array *x, weft_array *centre, weft_array *label) {
  weft_array *none = weft_mul(centre, 0), *slot = weft_slice(none, 1, 0, 1, 1);
  weft_array *sum = weft_put(none, weft_take(none, 1, &label), x, WEFT_ADD);
  weft_array *count = weft_put(slot, weft_take(slot, 1, &label), 1, WEFT_ADD);
  return weft_where(weft_gt(count, 0), weft_div(sum, weft_maximum(count, 1)), centre);
}

int main(int argc, char **argv) {
  static const char *colour[CLUSTERS] = { "#c0392b", "#2471a3", "#239b56", "#b7950b", "#76448a", "#5d6d7e" };
  static float at[POINTS][2], middle[CLUSTERS][2], path_of[STEPS][CLUSTERS][2];
  static int64_t label[POINTS];
  for (int i = 0; i < POINTS; i++) {
    double angle = 1.05 * (i % CLUSTERS), away = i % CLUSTERS ? 1.3 : 0.2;
    at[i][0] = (float)(away * cos(angle) + 0.28 * normal());
    at[i][1] = (float)(away * sin(angle) + 0.28 * normal());
  }
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(POINTS, 2), at);

  weft_loop *loop = weft_loop_open(weft_integer(STEPS));
  weft_array *centre = weft_loop_carry(loop, weft_slice(x, 0, 0, CLUSTERS, 1));
  weft_array *next = moved(x, centre, nearest(x, centre));
  weft_loop_next(loop, centre, next);
  weft_loop_until(loop, weft_all(weft_eq(next, centre), WEFT_ALL));
  weft_array *last = weft_loop_last(loop, centre), *history = weft_loop_all(loop, centre);
  weft_loop_close(loop);

  int64_t steps = weft_dim(history, 0);
  size_t bytes = (size_t)(steps > 0 ? steps : 0) * sizeof path_of[0];
  if (weft_read(history, WEFT_F32, path_of, bytes) || weft_read(last, WEFT_F32, middle, sizeof middle) ||
      weft_read_to(nearest(x, last), &label))
    return fprintf(stderr, "kmeans: %s\n", weft_message()), 1;
  printf("%d points in %d clusters after %d steps.\n", POINTS, CLUSTERS, (int)steps);
  const char *path = argc > 1 ? argv[1] : "kmeans.svg";
  FILE *out = picture_open(path, 480, 480);
  for (int i = 0; i < POINTS; i++)
    picture_dot(out, 240 + 110 * at[i][0], 240 - 110 * at[i][1], 2, colour[label[i]]);
  for (int k = 0; k < CLUSTERS; k++) {
    double way[STEPS][2];
    for (int t = 0; t < steps; t++) way[t][0] = 240 + 110 * path_of[t][k][0], way[t][1] = 240 - 110 * path_of[t][k][1];
    picture_line(out, (int)steps, way, 2, "#000");
    picture_dot(out, 240 + 110 * middle[k][0], 240 - 110 * middle[k][1], 8, "#000");
    picture_dot(out, 240 + 110 * middle[k][0], 240 - 110 * middle[k][1], 6, colour[k]);
  }
  picture_text(out, 12, 468, "#000", "points by cluster, and the way of each centre");
  return picture_close(out, path);
}
