/* gpu_cofactors.c -- derivatives of adjugates on a GPU: what op/cofactors.c does, in its order, a block of threads a matrix.
 *
 * Elements, rows or columns that do not wait for each other are the threads'; sums along all of a matrix are one thread's. */
#include "backend/cuda/gpu_matrix.h"
#include <string.h>

static const char cofactors_text[] =
  WRITTEN(
entry cofactors_load(T* x, f64* to, u64 own, u64 each, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) { to[i / own * each + i % own] = f64(x[i]); }
}
  )
  /* rooms: `each` doubles a matrix, which begin with a and its k directions. sets is 2^k. */
  WRITTEN(
entry cofactors(f64* rooms, T* to, u64 n, u64 k, u64 sets, u64 each, u64 nearly) of 256 {
  shared u64 size_of[256];
  shared u64 place_of[256];
  shared f64 det[64];
  shared f64 said[1];
  shared u64 count[1];
  u64 p = u64(block);
  u64 nn = n * n;
  f64* a = rooms + p * each;
  f64* e = a + nn;
  f64* f = e + k * nn;
  f64* inverse = f + k * nn;
  f64* y = inverse + sets * nn;
  f64* d = y + nn;
  f64* row = d + n;
  f64* column = row + n;
  f64* z = column + n;
  f64* small = z + n;
  f64 none = 0;
  f64 sign = 1;
  u64 i = u64(tid);
  while (i < nn * (k + 1)) { none = none + a[i] * 0; i = i + u64(threads); }
  if (tid == 0) { count[0] = 0; }
  bar;
  if (none != none) { count[0] = 1; }
  i = u64(tid);
  while (i < nn) { y[i] = 0; i = i + u64(threads); }
  i = u64(tid);
  while (i < n) { row[i] = f64(i); column[i] = f64(i); i = i + u64(threads); }
  bar;
  bool is_bad = count[0] != 0;
  bar;
  if (k < n && !is_bad) {
    u64 s = 0;
    while (s < n) {
  ) LARGEST_LEFT_IS_PIVOT(s) WRITTEN(
      f64 pivot = a[s * n + s];
      if (tid == 0) { d[s] = pivot; }
      if (pivot != 0) {
        i = s + 1 + u64(tid);
        while (i < n) {
          f64 by = a[i * n + s] / pivot;
          a[i * n + s] = by;
          u64 j = s + 1;
          while (j < n) { a[i * n + j] = a[i * n + j] - by * a[s * n + j]; j = j + 1; }
          i = i + u64(threads);
        }
        bar;
        i = s + 1 + u64(tid);
        while (i < n) { a[s * n + i] = a[s * n + i] / pivot; i = i + u64(threads); }
      }
      bar;
      s = s + 1;
    }
  )
  /* Directions: f = L^-1 P e Q R^-1. */
  WRITTEN(
    u64 q = 0;
    while (q < k) {
      f64* from = e + q * nn;
      f64* g = f + q * nn;
      i = u64(tid);
      while (i < nn) { g[i] = from[u64(row[i / n]) * n + u64(column[i % n])]; i = i + u64(threads); }
      bar;
      u64 j = u64(tid);
      while (j < n) {
        i = 0;
        while (i < n) {
          f64 v = g[i * n + j];
          u64 m = 0;
          while (m < i) { v = v - a[i * n + m] * g[m * n + j]; m = m + 1; }
          g[i * n + j] = v;
          i = i + 1;
        }
        j = j + u64(threads);
      }
      bar;
      i = u64(tid);
      while (i < n) {
        u64 m = 0;
        while (m < n) {
          f64 v = g[i * n + m];
          j = m + 1;
          while (j < n) { g[i * n + j] = g[i * n + j] - v * a[m * n + j]; j = j + 1; }
          m = m + 1;
        }
        i = i + u64(threads);
      }
      bar;
      q = q + 1;
    }
  )
  /* Pivots that are nearly 0: count of them, k + 3 where so many are 0 that the derivative is; said: the smallest other one. */
  WRITTEN(
    if (tid == 0) {
      f64 top = 0;
      u64 zeros = 0;
      i = 0;
      while (i < n) {
        top = max(top, abs(d[i]));
        if (d[i] == 0) { zeros = zeros + 1; }
        small[i] = 0;
        i = i + 1;
      }
      u64 m = 0;
      u32 goes_on = zeros <= k + 1 ? u32(1) : u32(0);
      while (goes_on != 0) {
        u64 least = n;
        i = 0;
        while (i < n) {
          if (small[i] == 0) {
            if (least == n) { least = i; } else { if (abs(d[i]) < abs(d[least])) { least = i; } }
          }
          i = i + 1;
        }
        goes_on = 0;
        if (least < n && m < k + 2) {
          if (abs(d[least]) <= as_f64(nearly) * top) { small[least] = 1; m = m + 1; goes_on = 1; }
        }
      }
      f64 size = 0;
      i = 0;
      while (i < n) {
        if (small[i] == 0) { f64 v = abs(d[i]); size = size == 0 || v < size ? v : size; }
        i = i + 1;
      }
      said[0] = size == 0 ? f64(1) : size;
      count[0] = zeros > k + 1 ? k + 3 : m;
    }
    bar;
    f64 size = said[0];
    u64 many = count[0];
    u64 rounds = many == k + 3 ? u64(0) : (many == 0 ? u64(1) : many + 1);
    u64 m = 0;
    while (m < rounds) {
      f64 place = f64(m / 2 + 1);
      place = m % 2 != 0 ? -place : place;
      f64 weight = 1;
      u64 t = 0;
      while (t < rounds) {
        f64 there = f64(t / 2 + 1);
        there = t % 2 != 0 ? -there : there;
        if (t != m) { weight = weight * (there / (there - place)); }
        t = t + 1;
      }
      i = u64(tid);
      while (i < n) {
        f64 more = place * 5 / 4 * size;
        more = small[i] != 0 ? more : f64(0);
        z[i] = many == 0 ? d[i] : d[i] + more;
        i = i + u64(threads);
      }
      bar;
      u64 set = 0;
      while (set < sets) {
        i = u64(tid);
        while (i < nn) {
          u64 r = i / n;
          u64 c = i % n;
          f64 v = 0;
          if (set == 0 && r == c) { v = f64(1) / z[r]; }
          u64 q = 0;
          u64 bit = 1;
          while (q < k) {
            if (set / bit % 2 != 0) {
              f64* less = inverse + (set - bit) * nn;
              f64* g = f + q * nn;
              u64 j = 0;
              while (j < n) { v = v - g[r * n + j] * less[j * n + c] / z[r]; j = j + 1; }
            }
            bit = bit * 2;
            q = q + 1;
          }
          inverse[set * nn + i] = v;
          i = i + u64(threads);
        }
        bar;
        if (tid == 0) {
          f64 v = 0;
          if (set == 0) {
            v = 1;
            i = 0;
            while (i < n) { v = v * z[i]; i = i + 1; }
          } else {
            u64 q = 0;
            u64 bit = 1;
            while (set / bit % 2 == 0) { bit = bit * 2; q = q + 1; }
            f64* g = f + q * nn;
            u64 rest = set - bit;
            u64 part = rest;
            u32 goes_on = 1;
            while (goes_on != 0) {
              f64* beside = inverse + (rest - part) * nn;
              f64 sum = 0;
              i = 0;
              while (i < n) {
                u64 j = 0;
                while (j < n) { sum = sum + g[i * n + j] * beside[j * n + i]; j = j + 1; }
                i = i + 1;
              }
              v = v + det[u32(part)] * sum;
              goes_on = part != 0 ? u32(1) : u32(0);
              part = (part - 1) & rest;
            }
          }
          det[u32(set)] = v;
        }
        bar;
        set = set + 1;
      }
      i = u64(tid);
      while (i < nn) {
        f64 v = y[i];
        set = 0;
        while (set < sets) { v = v + weight * det[u32(set)] * inverse[(sets - 1 - set) * nn + i]; set = set + 1; }
        y[i] = v;
        i = i + u64(threads);
      }
      bar;
      m = m + 1;
    }
  )
  /* y = R^-1 y L^-1. */
  WRITTEN(
    u64 j = u64(tid);
    while (j < n) {
      i = n;
      while (i > 0) {
        i = i - 1;
        f64 v = y[i * n + j];
        u64 m = i + 1;
        while (m < n) { v = v - a[i * n + m] * y[m * n + j]; m = m + 1; }
        y[i * n + j] = v;
      }
      j = j + u64(threads);
    }
    bar;
    i = u64(tid);
    while (i < n) {
      u64 m = n;
      while (m > 0) {
        m = m - 1;
        f64 v = y[i * n + m];
        j = 0;
        while (j < m) { y[i * n + j] = y[i * n + j] - v * a[m * n + j]; j = j + 1; }
      }
      i = i + u64(threads);
    }
    bar;
  }
  f64 nothing = 0;
  none = is_bad ? nothing / nothing : nothing;
  i = u64(tid);
  while (i < nn) {
    to[p * nn + u64(column[i / n]) * n + u64(row[i % n])] = T(sign * y[i] + none);
    i = i + u64(threads);
  }
}
  );

/* Arrays: a, its directions, y. */
int cofactors_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *a = c->array;
  int64_t n = routine_last(a, 1), k = c->n_arrays - 2, own = n * n, each = own * (2 * k + 2 + (INT64_C(1) << k)) + 5 * n;
  const struct written_name names[] = { { "T", 0, a->dtype == WEFT_F64 ? "f64" : "f32" }, { NULL, 0, NULL } };
  const double nearly = 1e-5; /* as in op/cofactors.c */
  struct routine_room room = { .gpu = g };
  struct routine_module *m;
  uint64_t at, bits;
  memcpy(&bits, &nearly, sizeof bits);
  if (c->n_problems > INT32_MAX) return DEVICE_CANNOT;
  int how = routine_load(g, cofactors_text, names, &m);
  if (how || only_asks || !n) return how;
  how = room_take(&room, (size_t)(c->n_problems * each) * 8, &at);
  for (int64_t i = 0; !how && i <= k; i++)
    how = LAUNCH(g, m, "cofactors_load", (c->n_problems * own - 1) / 256 + 1, 256, a[i].at, at + (uint64_t)(i * own) * 8,
                 (uint64_t)own, (uint64_t)each, (uint64_t)(c->n_problems * own));
  if (!how)
    how = LAUNCH(g, m, "cofactors", c->n_problems, n <= 32 ? 32 : 256, at, a[k + 1].at, (uint64_t)n, (uint64_t)k,
                 UINT64_C(1) << k, (uint64_t)each, bits);
  return room_give(&room), how;
}
