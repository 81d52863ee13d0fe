/* use.c -- a program that knows weft only as it is installed; compiled as C11 and as C++17, against either library. */
#include <stdio.h>
#include <weft.h>

int main(void) {
  const float data[] = { 1, 2, 3, 4, 5, 6 };
  float sum[3], gradient[6];
  if (weft_version() != WEFT_VERSION) return 1;

  weft_scope *scope = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(2, 3), data), *dx;
  weft_array *y = weft_sum(weft_mul(x, x), 0);
  weft_grad(y, 1, &x, &dx);
  weft_fetch(y, WEFT_F32, sum, sizeof sum);
  weft_fetch(dx, WEFT_F32, gradient, sizeof gradient);
  if (weft_scope_close(scope) != WEFT_OK) {
    printf("%s\n", weft_message());
    return 1;
  }
  for (int i = 0; i < 3; i++)
    if (sum[i] != data[i] * data[i] + data[i + 3] * data[i + 3]) return 2;
  for (int i = 0; i < 6; i++)
    if (gradient[i] != 2 * data[i]) return 3;
  return 0;
}
