/* fourier.c -- Fourier transforms along the last axis against sums in long double, and bit by bit against their passes in plain C; of
 * views, in derivatives, maps and functions, by any number of threads. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/hash.h"
#include "every_graph.h"
#include "op/fourier.h"
#include "values.h"

static weft_array *drawn(weft_dtype t, int rank, const int64_t dims[], uint64_t seed) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  double *x = calloc((size_t)n + 1, sizeof *x);
  for (int64_t i = 0; i < n; i++) seed = seed * 6364136223846793005u + 1442695040888963407u, x[i] = (double)(seed >> 40) / (1 << 23) - 1;
  weft_array *a = weft_cast(weft_from(WEFT_F64, rank, dims, x), t);
  return free(x), a;
}

static double *numbers(weft_array *x) {
  int64_t n = elements(x);
  double *to = calloc((size_t)n + 1, sizeof *to);
  EXPECT_OK(weft_read(weft_cast(x, WEFT_F64), WEFT_F64, to, (size_t)n * sizeof *to));
  return to;
}

/* y is the transform of the rows of re + i im, to so many times the size of its largest element. */
static void expect_sums(int line, weft_array *y, weft_array *re, weft_array *im, int64_t n, int sign, double scale, double far) {
  double *a = numbers(re), *b = im ? numbers(im) : NULL, *c = numbers(weft_real(y)), *d = numbers(weft_imag(y)), worst = 0, largest = 1e-30;
  for (int64_t i = 0, rows = elements(re); i < rows; i++) {
    long double p = 0, q = 0, by = sign * 2 * 3.14159265358979323846264338327950288L / n;
    for (int64_t j = 0; j < n; j++) {
      long double g = by * (j * (i % n) % n), x = a[i / n * n + j], z = b ? b[i / n * n + j] : 0;
      p += x * cosl(g) - z * sinl(g), q += x * sinl(g) + z * cosl(g);
    }
    double e = fmax(fabs((double)(scale * p) - c[i]), fabs((double)(scale * q) - d[i]));
    worst = e <= worst ? worst : e, largest = fmax(largest, fmax(fabs(c[i]), fabs(d[i])));
  }
  if (!(worst <= far * largest)) test_fail(__FILE__, line, "of %lld: %g apart, of at most %g", (long long)n, worst, largest);
  free(a), free(b), free(c), free(d);
}

/* .. and has the bits that the plain evaluator gives. */
static void expect_bits(int line, weft_array *y) {
  for (int k = 0; k < 2; k++) {
    weft_array *part = k ? weft_imag(y) : weft_real(y);
    double *got = numbers(part), *want = reference(part, 0, NULL);
    if (!want) test_fail(__FILE__, line, "%s", plain_graph_why());
    for (int64_t i = 0; want && i < elements(part); i++)
      if (memcmp(&got[i], &want[i], sizeof *got) && !(isnan(got[i]) && isnan(want[i]))) {
        test_fail(__FILE__, line, "part %d, element %lld: %.17g, plainly %.17g", k, (long long)i, got[i], want[i]);
        break;
      }
    free(got), free(want);
  }
}

TEST(transforms_are_sums_of_turned_elements_with_the_bits_of_their_passes) {
  static const int64_t lengths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 30, 32, 48, 64, 97, 128, 240, 256, 512, 1000 };
  test_watchdog(120);
  for (size_t k = 0; k < 2 * sizeof lengths / sizeof *lengths; k++) {
    weft_scope *s = weft_scope_open();
    int64_t n = lengths[k / 2];
    weft_dtype t = k % 2 ? WEFT_F64 : WEFT_F32;
    double far = (k % 2 ? 1e-15 : 5e-7) * (n % 97 ? 1 : 8);
    int64_t rows = n < 100 ? 3 : 1;
    weft_array *re = drawn(t, WEFT_DIMS(rows, n), 5), *im = drawn(t, WEFT_DIMS(rows, n), 6), *z = weft_complex(re, im);
    expect_bits(__LINE__, weft_fft(z, 1, 1)), expect_sums(__LINE__, weft_fft(z, 0, 2), re, im, n, -1, 2, far);
    if (n < 100) {
      expect_bits(__LINE__, weft_fft(re, 0, 0.1)), expect_sums(__LINE__, weft_fft(re, 0, 1), re, NULL, n, -1, 1, far);
      expect_sums(__LINE__, weft_fft(re, 1, 0.5), re, NULL, n, 1, 0.5, far);
      expect_sums(__LINE__, weft_fft(z, 1, 1.0 / (double)n), re, im, n, 1, 1.0 / (double)n, far);
    }
    weft_scope_discard(s);
  }
}

TEST(transforms_are_of_views_of_other_dtypes_and_of_no_rows) {
  weft_scope *s = weft_scope_open();
  weft_array *x = drawn(WEFT_F32, WEFT_DIMS(24, 5, 2), 3), *v = weft_flip(weft_moveaxis(x, 0, -1), 2), *dense = weft_add(v, weft_scalar(0));
  weft_array *row = drawn(WEFT_F64, WEFT_DIMS(16), 4), *wide = weft_broadcast(row, WEFT_DIMS(3, 16));
  expect_sums(__LINE__, weft_fft(v, 0, 1), dense, NULL, 24, -1, 1, 5e-7);
  expect_sums(__LINE__, weft_fft(wide, 0, 1), wide, NULL, 16, -1, 1, 1e-15);
  expect_bits(__LINE__, weft_fft(weft_complex(v, weft_flip(v, 0)), 1, 1));
  EXPECT_INT(weft_dtype_of(weft_fft(weft_cast(x, WEFT_I32), 0, 1)), WEFT_C64);
  EXPECT_INT(weft_dtype_of(weft_fft(weft_cast(x, WEFT_BF16), 0, 1)), WEFT_C64);
  EXPECT_INT(weft_dtype_of(weft_fft(row, 0, 1)), WEFT_C128);
  EXPECT_F64(weft_cast(weft_real(weft_fft(weft_from(WEFT_I32, WEFT_DIMS(2), (int32_t[]){ 3, -5 }), 0, 1)), WEFT_F64), -2, 8);
  weft_array *none = weft_fft(weft_full(WEFT_F32, WEFT_DIMS(0, 8), 0), 0, 1);
  EXPECT_OK(weft_eval(1, &none));
  EXPECT_INT(weft_dim(none, 0), 0);
  EXPECT_INT(weft_check(weft_fft(weft_full(WEFT_F32, WEFT_DIMS(3, 0), 0), 0, 1)), WEFT_ERR_SHAPE);
  EXPECT(strstr(weft_message(), "weft_fft"));
  EXPECT_INT(weft_check(weft_fft(weft_scalar(1), 0, 1)), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

/* Sum of w |F x|^2 for x of n: a number with derivatives of both parts. */
static weft_array *power(weft_array *x) {
  weft_array *y = weft_fft(weft_complex(x, weft_mul(x, weft_flip(x, 1))), 1, 0.5), *w = weft_iota(x, 1);
  weft_array *p = weft_add(weft_mul(weft_real(y), weft_real(y)), weft_mul(weft_imag(y), weft_sin(weft_imag(y))));
  return weft_sum(weft_mul(weft_add(p, weft_imag(weft_fft(x, 0, 1))), w), WEFT_ALL);
}

TEST(derivatives_of_transforms_are_those_of_differences_forward_and_backward) {
  weft_scope *s = weft_scope_open();
  weft_array *x = drawn(WEFT_F64, WEFT_DIMS(2, 12), 8), *v = drawn(WEFT_F64, WEFT_DIMS(2, 12), 9), *f = power(x), *d, *t, *h, *hv;
  weft_grad(f, 1, &x, &d);
  weft_jvp(1, &x, &v, 1, &f, &t);
  weft_array *along = weft_sum(weft_mul(d, v), WEFT_ALL), *e = weft_scalar(1e-5);
  weft_array *apart = weft_div(weft_sub(power(weft_add(x, weft_mul(e, v))), power(weft_sub(x, weft_mul(e, v)))), weft_scalar(2e-5));
  weft_grad(along, 1, &x, &h);
  weft_jvp(1, &x, &v, 1, &along, &hv);
  double *a = numbers(along), *b = numbers(t), *c = numbers(apart), *p = numbers(weft_sum(weft_mul(h, v), WEFT_ALL)), *q = numbers(hv);
  EXPECT(fabs(a[0] - b[0]) < 1e-9 * fabs(a[0]));
  EXPECT(fabs(a[0] - c[0]) < 1e-6 * fabs(a[0]));
  EXPECT(fabs(p[0] - q[0]) < 1e-9 * fabs(p[0]));
  free(a), free(b), free(c), free(p), free(q);
  weft_scope_discard(s);
}

TEST(transforms_in_a_map_are_those_of_its_rows) {
  weft_scope *s = weft_scope_open();
  weft_array *x = drawn(WEFT_F32, WEFT_DIMS(3, 2, 20), 8), *same = drawn(WEFT_F32, WEFT_DIMS(2, 20), 9), *y, *one[3];
  weft_array *in = weft_squeeze(weft_slice(x, 0, 0, 1, 1), 0), *out = weft_imag(weft_fft(weft_complex(same, in), 0, 1));
  weft_map(1, &in, &x, 1, &out, &y);
  for (int k = 0; k < 3; k++) one[k] = weft_imag(weft_fft(weft_complex(same, weft_squeeze(weft_slice(x, 0, k, k + 1, 1), 0)), 0, 1));
  double *a = numbers(y), *b = numbers(weft_stack(0, 3, one));
  EXPECT(!memcmp(a, b, sizeof *a * 120));
  free(a), free(b);
  weft_scope_discard(s);
}

TEST(transforms_have_the_same_bits_by_any_number_of_threads) {
  double *first = NULL;
  int64_t before = weft_get(WEFT_THREADS);
  for (int threads = 1; threads <= 16; threads *= 4) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_THREADS, threads);
    weft_array *x = drawn(WEFT_F32, WEFT_DIMS(300, 240), 8);
    double *a = numbers(weft_imag(weft_fft(weft_complex(x, weft_flip(x, 0)), 1, 1)));
    EXPECT(!first || !memcmp(a, first, sizeof *a * 300 * 240));
    if (first) free(a);
    else first = a;
    weft_scope_discard(s);
  }
  weft_set(WEFT_THREADS, before);
  free(first);
}

/* The real numbers x from half of their frequencies, in which imaginary parts that no real numbers have are not read. */
TEST(real_numbers_come_back_from_half_of_their_frequencies) {
  static const int64_t lengths[] = { 1, 2, 3, 4, 7, 8, 9, 30, 64, 97, 256 };
  for (size_t k = 0; k < 2 * sizeof lengths / sizeof *lengths; k++) {
    weft_scope *s = weft_scope_open();
    int64_t n = lengths[k / 2], count = n / 2 + 1;
    weft_dtype t = k % 2 ? WEFT_F64 : WEFT_F32;
    weft_array *x = drawn(t, WEFT_DIMS(3, n), 5), *half = weft_slice(weft_fft(x, 0, 1), -1, 0, count, 1);
    weft_array *place = weft_iota(weft_real(half), -1), *twice = weft_mul(place, weft_scalar(2));
    weft_array *own = weft_or(weft_eq(place, weft_scalar(0)), weft_eq(twice, weft_scalar((double)n)));
    weft_array *odd = weft_complex(weft_real(half), weft_where(own, weft_scalar(NAN), weft_imag(half)));
    weft_array *y[2] = { weft_irfft(half, n, 1.0 / (double)n), weft_irfft(odd, n, 1.0 / (double)n) };
    EXPECT_INT(weft_dtype_of(y[0]), t);
    double *want = numbers(x), *got = numbers(y[0]), *other = numbers(y[1]), worst = 0;
    for (int64_t i = 0; i < 3 * n; i++) worst = fabs(got[i] - want[i]) > worst ? fabs(got[i] - want[i]) : worst;
    if (!(worst < (t == WEFT_F64 ? 1e-14 : 2e-6))) test_fail(__FILE__, __LINE__, "of %lld: %g apart", (long long)n, worst);
    EXPECT(!memcmp(got, other, sizeof *got * 3 * (size_t)n));
    free(want), free(got), free(other);
    weft_scope_discard(s);
  }
  weft_scope *s = weft_scope_open();
  EXPECT_F64(weft_irfft(weft_from(WEFT_F64, WEFT_DIMS(2), (double[]){ 3, 1 }), 2, 0.5), 2, 1);
  EXPECT_INT(weft_check(weft_irfft(weft_full(WEFT_F32, WEFT_DIMS(3, 5), 0), 7, 1)), WEFT_ERR_SHAPE);
  EXPECT(strstr(weft_message(), "weft_irfft") && strstr(weft_message(), "[3,5]"));
  EXPECT_INT(weft_check(weft_irfft(weft_full(WEFT_F32, WEFT_DIMS(3, 1), 0), 0, 1)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_irfft(weft_scalar(1), 1, 1)), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

/* Many lengths, more than turns are kept of, short and long ones, in two dtypes, on several threads: each is of its own length. */
static void *many_lengths(void *from) {
  for (int round = 0; round < 2; round++)
    for (int64_t n = 1 + *(int *)from; n < 200; n += 3) {
      weft_scope *s = weft_scope_open();
      weft_dtype t = n % 2 ? WEFT_F64 : WEFT_F32;
      weft_array *y = weft_fft(weft_full(t, WEFT_DIMS(n % 50 ? n : 4096 * (n / 50)), 1), 0, 1);
      double *a = numbers(weft_real(y)), *b = numbers(weft_imag(y));
      int64_t size = elements(y);
      for (int64_t k = 0; k < size; k++)
        if (!(fabs(a[k] - (k ? 0 : (double)size)) + fabs(b[k]) < 1e-3)) { EXPECT(!"the turns are those of another length"); break; }
      free(a), free(b);
      weft_scope_discard(s);
    }
  return NULL;
}

TEST(turns_are_of_the_length_that_is_asked_for_on_every_thread) {
  pthread_t t[3];
  int from[3] = { 0, 1, 2 };
  test_watchdog(120);
  for (int i = 0; i < 3; i++) EXPECT_INT(pthread_create(&t[i], NULL, many_lengths, &from[i]), 0);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < 3; i++) many_lengths(&from[i]);
}

/* Of a prime number of elements, whose turns are all in one pass: cosine, and the sine with its sign turned. */
static double furthest_turn(int n) {
  double *room = calloc(2 * (size_t)n, sizeof *room), *to = calloc(2 * (size_t)fourier_turns(n), sizeof *to), worst = 0;
  fourier_write_turns(n, room, true, to);
  for (int j = 0; j < n; j++) {
    int quarter = 4 * j / n, rest = 4 * j % n, is_beyond = 2 * rest > n;
    long double angle = 1.57079632679489661923132169163975144L * (is_beyond ? n - rest : rest) / n;
    long double c = is_beyond ? sinl(angle) : cosl(angle), s = is_beyond ? cosl(angle) : sinl(angle);
    long double right[2] = { quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s,
                             -(quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c) };
    for (int k = 0; k < 2; k++) {
      double place = nextafter(fabs((double)right[k]), 2) - fabs((double)right[k]);
      worst = fmax(worst, (double)fabsl((long double)to[k * fourier_turns(n) + j] - right[k]) / place);
    }
  }
  free(room), free(to);
  return worst;
}

TEST(turns_are_exact_to_the_last_place) {
  if (LDBL_MANT_DIG < 64) return test_skip("long double is no longer than double");
  int primes[] = { 3, 5, 7, 11, 13, 101, 1009, 4409, 10007 };
  for (size_t i = 0; i < sizeof primes / sizeof *primes; i++) EXPECT(furthest_turn(primes[i]) < 0.75);
}

/* What a machine's libm makes of sines has no say in them. */
TEST(turns_have_the_same_bits_on_every_machine) {
  int lengths[] = { 3, 7, 8, 12, 60, 97, 128, 1000, 1001, 4096, 10007 };
  uint64_t all = 0;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    size_t n = (size_t)lengths[i], count = 2 * (size_t)fourier_turns(lengths[i]);
    double *room = calloc(2 * n, sizeof *room), *to = calloc(count, sizeof *to);
    fourier_write_turns(lengths[i], room, true, to);
    all = hash_mix(all, hash_bytes(to, count * sizeof *to));
    free(room), free(to);
  }
  EXPECT_INT((int64_t)all, -1769368250582603829);
}
