/* elements.c -- every elementwise row, reduction and running fold on every dtype, over special values, against the
 * reference. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "graph/dtype.h"
#include "reference.h"
#include "test.h"

static const weft_dtype dtypes[] = { WEFT_BOOL, WEFT_U8,  WEFT_U16, WEFT_U32,  WEFT_U64, WEFT_I8, WEFT_I16,
                                     WEFT_I32,  WEFT_I64, WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64 };
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes, N_VALUES = 16 };

static const double floats[N_VALUES] = { 0.0, -0.0, 1, -1, 0.5, -2.25, 3, 1e-3, 100, -100, INFINITY, -INFINITY, NAN, 0x1p-20, 7, -0.1 };
static const double integers[N_VALUES] = { 0, 1, -1, 2, -2, 3, 5, 7, -7, 11, 13, 100, -100, 127, -128, 64 };

/* The values as an array of the dtype, the k-th rotation of them. */
static weft_array *values(weft_dtype d, int rotation) {
  uint8_t data[N_VALUES * 8];
  size_t size = weft_dtype_bytes(d);
  for (int i = 0; i < N_VALUES; i++) {
    const double *from = dtype_is_float(d) ? floats : integers;
    uint64_t bits = dtype_encode(d, from[(i + rotation) % N_VALUES]);
    memcpy(data + (size_t)i * size, &bits, size);
  }
  return weft_from(d, WEFT_DIMS(N_VALUES), data);
}

static double tolerance(weft_dtype d) {
  return d == WEFT_BF16 ? 0x1p-7 : d == WEFT_F16 ? 0x1p-9 : d == WEFT_F32 ? 0x1p-21 : d == WEFT_F64 ? 0x1p-49 : 0;
}

static bool agree(double a, double b, double tol) {
  if (a != a || b != b) return a != a && b != b;
  return a == b || fabs(a - b) <= tol * (fabs(a) + fabs(b)) + (tol ? 1e-9 * tol : 0);
}

static void check(const char *name, weft_dtype d, weft_array *y) {
  weft_dtype out = weft_dtype_of(y);
  if (weft_check(y)) return;
  double *want = reference(y, 0, NULL);
  uint8_t got[N_VALUES * 8];
  int64_t n = elements(y);
  weft_status status = weft_read(y, out, got, (size_t)n * weft_dtype_bytes(out));
  if (status) test_fail(__FILE__, __LINE__, "%s of %s: %s", name, weft_dtype_name(d), weft_message());
  for (int64_t i = 0; !status && want && i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, got + (size_t)i * weft_dtype_bytes(out), weft_dtype_bytes(out));
    double x = dtype_decode(out, bits);
    if (agree(x, want[i], tolerance(out))) continue;
    test_fail(__FILE__, __LINE__, "%s of %s: element %lld is %.17g, by the reference %.17g", name, weft_dtype_name(d), (long long)i, x, want[i]);
    break;
  }
  EXPECT(want);
  free(want);
}

TEST(unary_rows_agree_with_the_reference_on_every_dtype) {
  for (int k = 0; k < N_DTYPES; k++) {
    weft_scope *s = weft_scope_open();
    weft_dtype d = dtypes[k];
    weft_array *x = values(d, 0);
#define CHECK_(name, doc) check(#name, d, weft_##name(x));
    WEFT_UNARY(CHECK_)
#undef CHECK_
    for (int to = 0; to < N_DTYPES; to++) check("cast", d, weft_cast(x, dtypes[to]));
    weft_scope_discard(s);
  }
}

TEST(binary_rows_agree_with_the_reference_on_every_dtype) {
  for (int k = 0; k < N_DTYPES; k++)
    for (int turn = 0; turn < N_VALUES; turn += 3) {
      weft_scope *s = weft_scope_open();
      weft_dtype d = dtypes[k];
      weft_array *a = values(d, 0), *b = values(d, turn);
#define CHECK_(name, doc) check(#name, d, weft_##name(a, b));
      WEFT_BINARY(CHECK_)
#undef CHECK_
      check("where", d, weft_where(weft_lt(a, b), a, b));
      if (d != WEFT_F32 && d != WEFT_F16 && d != WEFT_BF16) check("fma", d, weft_fma(a, b, a));
      weft_scope_discard(s);
    }
}

TEST(folds_agree_with_the_reference_on_every_dtype) {
  for (int k = 0; k < N_DTYPES; k++)
    for (int cut = 1; cut < N_VALUES; cut += 4) {
      weft_scope *s = weft_scope_open();
      weft_dtype d = dtypes[k];
      weft_array *x = weft_slice(values(d, 2), 0, 0, cut, 1);
#define CHECK_(name, doc) check(#name, d, weft_##name(x, 0));
      WEFT_REDUCE(CHECK_)
      WEFT_ALONG(CHECK_)
#undef CHECK_
      weft_scope_discard(s);
    }
}
