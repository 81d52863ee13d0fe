/* gpu_sort.c -- rows in order on a GPU: by digits of their keys, the lowest first, as on the host (op/sort.c).
 *
 * A key is that of op/order.h: NaN is the largest, -0 comes before 0, and of equal keys the one that stands first comes
 * first. So there
 * is one result, whoever finds it. A pass goes over tiles: it counts their digits, adds the counts up along the tiles of
 * each digit, and
 * moves every entry to its place; inside a tile entries are put in order in shared memory first, so that neighbours are
 * written side by side. A row that fits in a tile is sorted there by one block of threads, all passes at once; shorter ones by
 * gpu_network.c. */
#include "backend/cuda/gpu_sort.h"

/* ---- the kernels ---- */

/* The place of every entry of a tile among those of its warp with the same digit, and how many of each digit a warp has.
 * Entry j of a thread is number 32 j + lane of its warp's, so this is their order. hist: [8 warps][256]. */
#define RANKS WRITTEN(                                                                                                    \
  repeat (k, 8) { hist[k * 256 + tid] = 0; }                                                                              \
  bar;                                                                                                                    \
  repeat (j, ITEMS) {                                                                                                     \
    u32 d = u32(key_of[j] >> shift) & 255;                                                                                \
    u32 peers = 0xffffffff;                                                                                               \
    repeat (bit, 8) {                                                                                                     \
      bool is_one = ((d >> bit) & 1) != 0;                                                                                \
      u32 ones = ballot(is_one);                                                                                          \
      peers = peers & (is_one ? ones : ~ones);                                                                            \
    }                                                                                                                     \
    u32 below = popc(peers & ((1 << lane) - 1));                                                                          \
    u32 at = first + d;                                                                                                   \
    u32 before = hist[at];                                                                                                \
    rank[j] = before + below;                                                                                             \
    warp;                                                                                                                 \
    if (below == 0) { hist[at] = before + popc(peers); }                                                                  \
    warp;                                                                                                                 \
  }                                                                                                                       \
  bar;                                                                                                                    \
  u32 sum = 0;                                                                                                            \
  repeat (k, 8) {                                                                                                         \
    u32 here = hist[k * 256 + tid];                                                                                       \
    hist[k * 256 + tid] = sum;                                                                                            \
    sum = sum + here;                                                                                                     \
  })

static const char sort_text[] =
  /* How many entries of a tile have each digit; and, of floats, how many are NaN, with the first pass. */
  WRITTEN(
entry sort_count(T* x, K* keys, u32* counts, u64 n, u32 tiles, u32 shift, u32 is_first) {
  shared u32 own[256];
  shared u32 nans[1];
  own[tid] = 0;
  if (tid == 0) { nans[0] = 0; }
  bar;
  u32 row = block / tiles;
  u32 tile = block % tiles;
  u64 from = u64(row) * n + u64(tile) * TILE;
  u64 left = n - u64(tile) * TILE;
  T* a = x + from;
  K* c = keys + from;
  K key_of[ITEMS];
  K key;
  if (is_first != 0) {
    repeat (j, ITEMS) { if (u64(tid + 256 * j) < left) { key_of[j] = K(a[tid + 256 * j]); } }
    repeat (j, ITEMS) {
      K b = key_of[j]; ) KEY_OF_B WRITTEN(
      key_of[j] = key;
      if (KIND == 2) { if (key == LAST_KEY && u64(tid + 256 * j) < left) { atom_add(nans[0], 1); } }
    }
  } else {
    repeat (j, ITEMS) { if (u64(tid + 256 * j) < left) { key_of[j] = c[tid + 256 * j]; } }
  }
  repeat (j, ITEMS) { if (u64(tid + 256 * j) < left) { atom_add(own[u32(key_of[j] >> shift) & 255], 1); } }
  bar;
  u64 to = u64(row) * 257;
  counts[(to + u64(tid)) * u64(tiles) + u64(tile)] = own[tid];
  if (tid == 0 && is_first != 0) { counts[(to + 256) * u64(tiles) + u64(tile)] = nans[0]; }
}
  )
  /* The counts of a digit along its tiles, each to the sum of those before it; a block a digit. Those of NaN, which stand
   * behind the digits, are of the first pass. */
  WRITTEN(
entry sort_sums(u32* counts, u32* totals, u32 tiles, u32 is_first) {
  shared u32 part[32];
  if (block % 257 == 256 && is_first == 0) { return; }
  u32* c = counts + u64(block) * u64(tiles);
  u32 before = 0;
  u32 at = 0;
  while (at < tiles) {
    u32 i = at + tid;
    u32 here = 0;
    if (i < tiles) { here = c[i]; }
    u32 sum = here;
    repeat (k, 5) {
      u32 other = shfl_up(sum, 1 << k);
      sum = lane >= (1 << k) ? sum + other : sum;
    }
    if (lane == 31) { part[tid >> 5] = sum; }
    bar;
    u32 base = before;
    u32 w = 0;
    while (w < (threads >> 5)) {
      u32 of_warp = part[w];
      base = w < (tid >> 5) ? base + of_warp : base;
      before = before + of_warp;
      w = w + 1;
    }
    if (i < tiles) { c[i] = base + sum - here; }
    at = at + threads;
    bar;
  }
  if (tid == 0) { totals[block] = before; }
}
  )
  /* Entries of a tile to their places. y and order are what the last pass writes: has_y, has_order say which. */
  WRITTEN(
entry sort_move(T* x, T* y, s64* order, K* keys, u32* places, K* keys_out, u32* places_out, u32* counts, u32* totals, u64 n,
                u32 tiles,
                u32 shift, u32 is_first, u32 is_last, u32 has_y, u32 has_order) {
  shared u32 hist[2048];
  shared u32 part[8];
  shared u32 start[256];
  shared u32 goes[256];
  shared K box[TILE];
  shared u32 place_box[PAIRS ? TILE : 1];
  u32 row = block / tiles;
  u32 tile = block % tiles;
  u64 base = u64(row) * n;
  u64 from = base + u64(tile) * TILE;
  u64 left = n - u64(tile) * TILE;
  u32 first = (tid >> 5) * 256;
  u32 mine = (tid >> 5) * (32 * ITEMS) + lane;
  T* a = x + from;
  K* c = keys + from;
  u32* q = places + from;
  K key_of[ITEMS];
  u32 place_of[PAIRS ? ITEMS : 1];
  u32 rank[ITEMS];
  K key;
  K b;
  if (is_first != 0) {
    repeat (j, ITEMS) { key_of[j] = 0; if (u64(mine + 32 * j) < left) { key_of[j] = K(a[mine + 32 * j]); } }
    repeat (j, ITEMS) {
      b = key_of[j]; ) KEY_OF_B WRITTEN(
      key_of[j] = u64(mine + 32 * j) < left ? key : LAST_KEY;
      if (PAIRS) { place_of[j] = u32(u64(tile) * TILE) + mine + 32 * j; }
    }
  } else {
    repeat (j, ITEMS) {
      key_of[j] = LAST_KEY;
      if (PAIRS) { place_of[j] = 0; }
      if (u64(mine + 32 * j) < left) {
        key_of[j] = c[mine + 32 * j];
        if (PAIRS) { place_of[j] = q[mine + 32 * j]; }
      }
    }
  } ) RANKS WRITTEN(
  u32 own = sum; ) SUMS_BEFORE WRITTEN(
  start[tid] = sum;
  u32 here = sum;
  sum = totals[row * 257 + tid]; ) SUMS_BEFORE WRITTEN(
  goes[tid] = sum + counts[(u64(row) * 257 + u64(tid)) * u64(tiles) + u64(tile)] - here;
  bar;
  repeat (j, ITEMS) {
    u32 d = u32(key_of[j] >> shift) & 255;
    u32 at = start[d] + hist[first + d] + rank[j];
    box[at] = key_of[j];
    if (PAIRS) { place_box[at] = place_of[j]; }
  }
  bar;
  repeat (j, ITEMS) {
    u32 i = tid + 256 * j;
    if (u64(i) < left) {
      key = box[i];
      u64 to = base + u64(goes[u32(key >> shift) & 255] + i);
      if (is_last == 0) {
        keys_out[to] = key;
        if (PAIRS) { places_out[to] = place_box[i]; }
      } else {
        if (has_y != 0) { ) B_OF_KEY WRITTEN(
          if (PAIRS && KIND == 2) { if (key == LAST_KEY) { b = K(x[base + u64(place_box[i])]); } }
          y[to] = b;
        }
        if (PAIRS) { if (has_order != 0) { order[to] = s64(place_box[i]); } }
      }
    }
  }
}
  )
  /* Keys alone do not say which NaN they are of: these stand at the end, as they stood. A warp a tile. */
  WRITTEN(
entry sort_nans(T* x, T* y, u32* counts, u32* totals, u64 n, u32 tiles) {
  u32 row = block / tiles;
  u32 tile = block % tiles;
  u32* c = counts + (u64(row) * 257 + 256) * u64(tiles);
  u32 all = totals[row * 257 + 256];
  u32 before = c[tile];
  u32 after = all;
  if (tile + 1 < tiles) { after = c[tile + 1]; }
  if (before == after) { return; }
  u64 base = u64(row) * n;
  T* a = x + base + u64(tile) * TILE;
  T* to = y + base + (n - u64(all));
  u64 left = n - u64(tile) * TILE;
  u32 at = 0;
  while (at < TILE) {
    K b = 0;
    if (u64(at + lane) < left) { b = K(a[at + lane]); }
    bool is_nan = (b & (SIGN - 1)) >= LEAST_NAN;
    u32 all_nan = ballot(is_nan);
    if (is_nan) { to[before + popc(all_nan & ((1 << lane) - 1))] = b; }
    before = before + popc(all_nan);
    at = at + 32;
  }
}
  )
  /* A row of at most TILE elements, by one block. */
  WRITTEN(
entry sort_row(T* x, T* y, s64* order, u32 n, u32 has_y, u32 has_order) {
  shared u32 hist[2048];
  shared u32 part[8];
  shared u32 start[256];
  shared K box[TILE];
  shared u32 place_box[TILE];
  u32 first = (tid >> 5) * 256;
  u32 mine = (tid >> 5) * (32 * ITEMS) + lane;
  u64 base = u64(block) * u64(n);
  T* a = x + base;
  K key_of[ITEMS];
  u32 place_of[ITEMS];
  u32 rank[ITEMS];
  K key;
  K b;
  repeat (j, ITEMS) { key_of[j] = 0; place_of[j] = mine + 32 * j; if (mine + 32 * j < n) { key_of[j] = K(a[mine + 32 * j]); } }
  repeat (j, ITEMS) {
    b = key_of[j]; ) KEY_OF_B WRITTEN(
    key_of[j] = mine + 32 * j < n ? key : LAST_KEY;
  }
  u32 shift = 0;
  while (shift < BITS) { ) RANKS SUMS_BEFORE WRITTEN(
    start[tid] = sum;
    bar;
    repeat (j, ITEMS) {
      u32 d = u32(key_of[j] >> shift) & 255;
      u32 at = start[d] + hist[first + d] + rank[j];
      box[at] = key_of[j];
      place_box[at] = place_of[j];
    }
    bar;
    repeat (j, ITEMS) { key_of[j] = box[mine + 32 * j]; place_of[j] = place_box[mine + 32 * j]; }
    shift = shift + 8;
    bar;
  }
  repeat (j, ITEMS) {
    u32 i = mine + 32 * j;
    if (i < n) {
      key = key_of[j];
      if (has_y != 0) { ) B_OF_KEY WRITTEN(
        if (KIND == 2) { if (key == LAST_KEY) { b = K(a[place_of[j]]); } }
        y[base + u64(i)] = b;
      }
      if (has_order != 0) { order[base + u64(i)] = s64(place_of[j]); }
    }
  }
}
  );

/* ---- what they are given ---- */

static int bytes_of(weft_dtype t) { return kir_width(t); }

static int64_t least_nan(weft_dtype t) {
  switch ((int)t) {
    case WEFT_E4M3: return 0x7f;
    case WEFT_E5M2: return 0x7d;
    case WEFT_F16: return 0x7c01;
    case WEFT_BF16: return 0x7f81;
    case WEFT_F32: return 0x7f800001;
  }
  return INT64_C(0x7ff0000000000001);
}

static const char *word_of(weft_dtype t) {
  int bytes = bytes_of(t);
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

int sort_load(struct gpu *g, const struct sort_form *f, const char *text, struct routine_module **m) {
  int bits = 8 * bytes_of(f->dtype), entry_bits = f->has_pairs || bits == 64 ? 64 : 32;
  const struct written_name names[] = {
    { "T", 0, word_of(f->dtype) }, { "K", 0, bits == 64 ? "u64" : "u32" },
    { "KIND", kir_is_float(f->dtype) ? 2 : kir_is_signed(f->dtype), NULL }, { "BITS", bits, NULL },
    { "SIGN", (int64_t)(UINT64_C(1) << (bits - 1)), NULL }, { "LAST_KEY", bits == 64 ? -1 : (INT64_C(1) << bits) - 1, NULL },
    { "LEAST_NAN", least_nan(f->dtype), NULL }, { "ITEMS", f->items, NULL }, { "TILE", sort_tile(f), NULL },
    { "PAIRS", f->has_pairs, NULL }, { "C", 0, entry_bits == 64 ? "u64" : "u32" }, { "ENTRY_BITS", entry_bits, NULL },
    { "LOG", 5 + __builtin_ctz((unsigned)f->items), NULL }, { NULL, 0, NULL },
  };
  return routine_load(g, text, names, m);
}

/* Rows that fit in a tile: of 1, 4 or 16 elements a thread. */
static int items_of(weft_dtype t, int64_t n) {
  return n <= TILE_THREADS ? 1 : n <= 4 * TILE_THREADS ? 4 : sort_most_items(t);
}

static int sort_short(const struct sorting *s, bool only_asks) {
  struct sort_form f = { s->dtype, true, items_of(s->dtype, s->n) };
  struct routine_module *m;
  int how = sort_load(s->g, &f, sort_text, &m);
  if (how || only_asks) return how;
  return LAUNCH(s->g, m, "sort_row", s->rows, TILE_THREADS, s->x, s->y, s->order, (uint64_t)s->n, s->has_y, s->has_order);
}

/* Keys, and where places go with them, in two rows of memory each, to and fro. */
static int sort_by_passes(const struct sorting *s, const struct sort_form *f, struct routine_module *m, struct routine_room *room) {
  int64_t tiles = (s->n - 1) / sort_tile(f) + 1, blocks = s->rows * tiles;
  size_t all = (size_t)(s->rows * s->n), key_bytes = bytes_of(s->dtype) == 8 ? 8 : 4;
  uint64_t counts, totals, keys[2] = { 0, 0 }, places[2] = { 0, 0 };
  int passes = bytes_of(s->dtype), sum_threads = tiles >= 1024 ? 1024 : (int)(tiles + 31) / 32 * 32;
  int how = room_take(room, (size_t)(s->rows * 257 * tiles) * 4, &counts);
  if (!how) how = room_take(room, (size_t)(s->rows * 257) * 4, &totals);
  for (int k = 0; !how && k < 2 && passes > 1 + k; k++) how = room_take(room, all * key_bytes, &keys[k]);
  for (int k = 0; !how && k < 2 && passes > 1 + k && f->has_pairs; k++) how = room_take(room, all * 4, &places[k]);
  for (int p = 0; !how && p < passes; p++) {
    uint64_t from = keys[(p + 1) % 2], to = keys[p % 2], shift = (uint64_t)p * 8;
    bool is_last = p == passes - 1;
    how = LAUNCH(s->g, m, "sort_count", blocks, TILE_THREADS, s->x, from, counts, (uint64_t)s->n, (uint64_t)tiles, shift, p == 0);
    if (!how) how = LAUNCH(s->g, m, "sort_sums", s->rows * 257, sum_threads, counts, totals, (uint64_t)tiles, p == 0);
    if (!how)
      how = LAUNCH(s->g, m, "sort_move", blocks, TILE_THREADS, s->x, s->y, s->order, from, places[(p + 1) % 2], to, places[p % 2],
                   counts, totals, (uint64_t)s->n, (uint64_t)tiles, shift, p == 0, is_last, s->has_y, s->has_order);
  }
  if (!how && !f->has_pairs && kir_is_float(s->dtype))
    how = LAUNCH(s->g, m, "sort_nans", blocks, 32, s->x, s->y, counts, totals, (uint64_t)s->n, (uint64_t)tiles);
  return how;
}

static int sort_long(const struct sorting *s, bool only_asks) {
  struct sort_form f = { s->dtype, s->has_order, sort_most_items(s->dtype) };
  struct routine_module *m;
  struct routine_room room = { .gpu = s->g };
  int how = sort_load(s->g, &f, sort_text, &m);
  if (how || only_asks) return how;
  how = sort_by_passes(s, &f, m, &room);
  room_give(&room);
  return how;
}

int64_t sort_longest_tile(weft_dtype t) { return TILE_THREADS * sort_most_items(t); }

/* Blocks and places are counted in 32 bits. */
static bool is_beyond(const struct sorting *s) {
  int64_t tiles = s->n ? (s->n - 1) / TILE_THREADS + 1 : 0;
  if (s->n <= sort_longest_tile(s->dtype)) return s->rows > INT32_MAX;
  return s->n >= UINT32_MAX || s->rows >= INT32_MAX / 257 || s->rows > INT32_MAX / tiles;
}

int sort_rows(const struct sorting *s, bool only_asks) {
  if (is_beyond(s)) return DEVICE_CANNOT;
  if (!s->n || !s->rows) return CUDA_OK;
  if (sort_has_network(s)) return sort_by_network(s, only_asks);
  return s->n <= sort_longest_tile(s->dtype) ? sort_short(s, only_asks) : sort_long(s, only_asks);
}

int sort_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *x = &c->array[0], *y = &c->array[1], *order = &c->array[2];
  struct sorting s = { g, x->dtype, c->n_problems, routine_last(x, 1), x->at, y->at, order->at, y->is_wanted, order->is_wanted };
  return sort_rows(&s, only_asks);
}
