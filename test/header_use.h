/* header_use.h -- one program that uses the public headers in every way they offer; compiled as C11 and as C++17 with all
 * warnings as errors, and never run. */
#include "weft_sugar.h"

/* Every row of WEFT_BINARY takes numbers. */
#define LEFT_(name, doc) x = weft_##name(x, 2);
#define RIGHT_(name, doc) x = weft_##name(0.5f, x);
weft_array *header_numbers(weft_array *x);
weft_array *header_numbers(weft_array *x) {
  WEFT_BINARY(LEFT_)
  WEFT_BINARY(RIGHT_)
  return weft_fma(weft_where(weft_gt(x, 0L), x, 0.0L), 2, (weft_add)(x, x));
}

#ifndef __cplusplus
weft_status header_complex(weft_array *x, float _Complex *out);
weft_status header_complex(weft_array *x, float _Complex *out) {
  double _Complex many[3];
  weft_array *z = weft_mul(weft_complex(x, 1), *out);
  weft_status status = weft_read_to(z, out);
  return status ? status : weft_read_to(weft_add(z, many[0] = 2), &many);
}
#endif

weft_array *header_places(weft_array *x, weft_array *i);
weft_array *header_places(weft_array *x, weft_array *i) {
  weft_array *row = weft_at(x, 0, -1), *some = weft_at(x, 0, i), *near = weft_window(x, 0, 3, 2);
  x = weft_put(x, weft_slice(x, 0, 2, WEFT_END, 1), 0, WEFT_SET);
  x = weft_concat(0, WEFT_ARRAYS(weft_pad(x, 0, 1, 1, 0.0), row, some, near));
  return weft_reshape(x, WEFT_DIMS(WEFT_SAME, WEFT_ANY));
}

weft_status header_scopes(weft_array *w, float *loss_out);
weft_status header_scopes(weft_array *w, float *loss_out) {
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *g, *loss = weft_mean(weft_mul(w, w), WEFT_ALL);
    weft_grad(loss, 1, &w, &g);
    weft_update(w, weft_sub(w, weft_mul(g, 0.1)));
    weft_fetch_to(loss, loss_out);
  }
  int64_t few[8], table[2][8];
  if (!status) status = weft_read_to(w, &few);
  if (!status) status = weft_read_to(w, &table[1]);
  if (!status) status = weft_read_to(w, &table);
  return status != WEFT_OK ? status : weft_read_to(w, loss_out);
}

weft_array *header_loops(weft_array *e);
weft_array *header_loops(weft_array *e) {
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *e_t = weft_loop_each(loop, e), *y = weft_loop_carry(loop, 0.0), *next = weft_add(weft_mul(0.5, y), e_t);
  weft_loop_next(loop, y, next);
  weft_array *all = weft_loop_all(loop, next);
  weft_loop_close(loop);
  return all;
}
