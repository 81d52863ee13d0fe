/* gpu_network.c -- short rows in order on a GPU: by a network of comparisons, a warp a row.
 *
 * A lane has ITEMS elements, neighbours of each other, in registers. Blocks of 2^s that are in order become blocks of twice that by
 * comparing an element with the one that stands as far from the other end, then with those half as far away each time; the
 * smaller one always goes to the front. Elements of other lanes come by shuffles: 15 each for 32 lanes. Where places are wanted an
 * entry is a key with the place below it, so that no two are equal, and those of equal keys stay as they stood. Without places
 * equal keys are equal elements but for NaN, whose patterns are put behind the others as they stood.
 *
 * Nothing passes between warps; in the shared memory of a warp entries are turned from the order of lanes to that of memory, with
 * a barrier of the warp between writing and reading. */
#include "backend/cuda/gpu_sort.h"

/* From the lanes at `mask`, their element `from`; those of `bit` keep the larger. */
#define EXCHANGE(from, mask, bit) WRITTEN(                                                                                \
  is_high = (me & (bit)) != 0;                                                                                            \
  repeat (j, ITEMS) {                                                                                                     \
    if (ENTRY_BITS == 64) {                                                                                               \
      other[j] = (u64(shfl_xor(u32(c[from] >> 32), mask)) << 32) | u64(shfl_xor(u32(c[from]), mask));                     \
    } else { other[j] = shfl_xor(c[from], mask); }                                                                        \
  }                                                                                                                       \
  repeat (j, ITEMS) { c[j] = (other[j] < c[j]) ^ is_high ? other[j] : c[j]; })

/* In the lane itself: every element whose place has not `bit` with the one at its place ^ mask. */
#define COMPARE(mask, bit) WRITTEN(                                                                                       \
  repeat (j, ITEMS) {                                                                                                     \
    if ((j & (bit)) == 0) {                                                                                               \
      low = c[j];                                                                                                         \
      high = c[j ^ (mask)];                                                                                               \
      c[j] = min(low, high);                                                                                              \
      c[j ^ (mask)] = max(low, high);                                                                                     \
    }                                                                                                                     \
  })

static const char network_text[] =
  WRITTEN(
entry sort_network(T* x, T* y, s64* order, u32 n, u64 rows, u32 has_y) of 256 {
  shared C box[264 * ITEMS];
  u32 me = lane;
  u64 row = u64(block) * 8 + u64(tid >> 5);
  if (row >= rows) { return; }
  T* a = x + row * u64(n);
  T* to = y + row * u64(n);
  s64* places = order + row * u64(n);
  u32 first = (tid >> 5) * (33 * ITEMS);
  C c[ITEMS];
  C other[ITEMS];
  C low;
  C high;
  bool is_high = me > 31;
  K key;
  K b;
  u32 nans = 0;
  repeat (j, ITEMS) { c[j] = 0; if (me + 32 * j < n) { c[j] = C(K(a[me + 32 * j])); } }
  repeat (j, ITEMS) {
    b = K(c[j]); ) KEY_OF_B WRITTEN(
    if (KIND == 2) { nans = nans | u32(key == LAST_KEY && me + 32 * j < n); }
    key = me + 32 * j < n ? key : LAST_KEY;
    if (PAIRS) { c[j] = (u64(key) << 32) | u64(me + 32 * j); } else { c[j] = C(key); }
  }
  repeat (s, LOG) {
    if ((2 << s) <= ITEMS) { ) COMPARE((2 << s) - 1, 1 << s) WRITTEN( }
    else { ) EXCHANGE(ITEMS - 1 - j, (2 << s) / ITEMS - 1, (1 << s) / ITEMS) WRITTEN( }
    repeat (u, s) {
      if (((1 << s) >> (u + 1)) < ITEMS) { ) COMPARE((1 << s) >> (u + 1), (1 << s) >> (u + 1)) WRITTEN( }
      else { ) EXCHANGE(j, ((1 << s) >> (u + 1)) / ITEMS, ((1 << s) >> (u + 1)) / ITEMS) WRITTEN( }
    }
  }
  repeat (j, ITEMS) {
    u32 at = me * ITEMS + j;
    box[first + at + (at >> 5)] = c[j];
  }
  warp;
  repeat (j, ITEMS) {
    u32 i = me + 32 * j;
    if (i < n) {
      low = box[first + i + j];
      if (PAIRS) {
        key = K(low >> 32);
        places[i] = s64(u32(low));
      } else { key = K(low); }
      if (has_y != 0) { ) B_OF_KEY WRITTEN(
        if (KIND == 2 && PAIRS) { if (key == LAST_KEY) { b = K(a[u32(low)]); } }
        if (KIND == 2 && !PAIRS) { if (key != LAST_KEY) { to[i] = b; } } else { to[i] = b; }
      }
    }
  }
  if (KIND == 2 && !PAIRS) {
    if (ballot(nans != 0) != 0) {
      u32 before = n;
      repeat (j, ITEMS) {
        b = 0;
        if (me + 32 * j < n) { b = K(a[me + 32 * j]); }
        c[j] = C(b);
        before = before - popc(ballot((b & (SIGN - 1)) >= LEAST_NAN));
      }
      repeat (j, ITEMS) {
        b = K(c[j]);
        bool is_nan = (b & (SIGN - 1)) >= LEAST_NAN;
        u32 all_nan = ballot(is_nan);
        if (is_nan) { to[before + popc(all_nan & ((1 << me) - 1))] = b; }
        before = before + popc(all_nan);
      }
    }
  }
}
  );

enum { LANES = 32, ROWS_A_BLOCK = TILE_THREADS / LANES, MOST_ITEMS = 16 };

/* Keys and places together have 64 bits at most. */
bool sort_has_network(const struct sorting *s) {
  return s->n <= LANES * MOST_ITEMS && (kir_width(s->dtype) <= 4 || !s->has_order);
}

int sort_by_network(const struct sorting *s, bool only_asks) {
  struct sort_form f = { s->dtype, s->has_order, 1 };
  struct routine_module *m;
  while (f.items * LANES < s->n) f.items *= 2;
  int how = sort_load(s->g, &f, network_text, &m);
  if (how || only_asks) return how;
  return LAUNCH(s->g, m, "sort_network", (s->rows - 1) / ROWS_A_BLOCK + 1, TILE_THREADS, s->x, s->y, s->order, (uint64_t)s->n,
                (uint64_t)s->rows, s->has_y);
}
