/* gpu_select.c -- the elements of some ranks of rows on a GPU (op/select.c), in order, and where each stood.
 *
 * A row that fits in a tile, or of which much is asked for, is sorted. Of others the keys of the first and of the last rank are
 * found, 11 bits at a time from the highest: a pass over the row counts the digits of what has the bits found so far. Then it is
 * known how many elements stand between, and which of those that equal one of the two keys are wanted: they are taken as they
 * stand, tile by tile, and sorted. Keys are those of op/order.h, and of equal ones the one that stands first comes first: there is
 * one result, whoever finds it. */
#include "backend/cuda/gpu_sort.h"

/* ---- the kernels ---- */

/* A row's state: the keys of the first and of the last rank, as far as they are found, and what those ranks are among the elements
 * that have these bits: in the end among the equal ones, as they stand. Bins of a row: 2048 for each of the two. */
static const char select_text[] = WRITTEN(
entry select_begin(u64* states, u32* bins, u64 first, u64 last) {
  u32* own = bins + u64(block) * 4096;
  u64* state = states + u64(block) * 4;
  repeat (k, 16) { own[tid + 256 * k] = 0; }
  if (tid == 0) { state[0] = 0; state[1] = 0; state[2] = first; state[3] = last; }
}
) /* Digits key >> shift, MASK + 1 of them, of what has the bits above `up` of one of the two keys. */
  WRITTEN(
entry select_digits(T* x, u64* states, u32* bins, u64 n, u32 cuts, u32 shift, u32 up, u32 mask) {
  shared u32 own[4096];
  repeat (k, 16) { own[tid + 256 * k] = 0; }
  bar;
  u32 row = block / cuts;
  u64* state = states + u64(row) * 4;
  K first = K(state[0]) >> up;
  K last = K(state[1]) >> up;
  u64 at = u64(block % cuts) * TILE;
  T* a = x + u64(row) * n;
  K key_of[ITEMS];
  K key;
  while (at < n) {
    u64 left = n - at;
    T* c = a + at;
    repeat (j, ITEMS) { key_of[j] = 0; if (u64(tid + 256 * j) < left) { key_of[j] = K(c[tid + 256 * j]); } }
    repeat (j, ITEMS) {
      K b = key_of[j]; ) KEY_OF_B WRITTEN(
      u32 digit = u32(key >> shift) & mask;
      K above = key >> up;
      digit = above == first ? digit : digit + 2048;
      if ((above == first || above == last) && u64(tid + 256 * j) < left) { atom_add(own[digit], 1); }
    }
    at = at + u64(cuts) * TILE;
  }
  bar;
  u32* all = bins + u64(row) * 4096;
  repeat (k, 16) {
    u32 here = own[tid + 256 * k];
    if (here != 0) { atom_add(all[tid + 256 * k], here); }
  }
}
) /* The digits of both keys, and what is left of the ranks. The bins are empty again. */
  WRITTEN(
entry select_find(u64* states, u32* bins, u32 shift, u32 up) {
  shared u32 part[8];
  u64* state = states + u64(block) * 4;
  u32* all = bins + u64(block) * 4096;
  u64 key_of[2];
  key_of[0] = state[0];
  key_of[1] = state[1];
  u32 rank_of[2];
  rank_of[0] = u32(state[2]);
  rank_of[1] = u32(state[3]);
  u32 is_two = u32((key_of[0] >> up) != (key_of[1] >> up));
  bar;
  repeat (e, 2) {
    u32* c = all + (e == 1 ? is_two * 2048 : 0) + tid * 8;
    u32 sum = 0;
    u32 here[8];
    repeat (k, 8) { here[k] = c[k]; sum = sum + here[k]; }
    u32 own = sum; ) SUMS_BEFORE WRITTEN(
    if (rank_of[e] >= sum && rank_of[e] < sum + own) {
      repeat (k, 8) {
        if (rank_of[e] >= sum && rank_of[e] < sum + here[k]) {
          state[e] = key_of[e] | (u64(tid * 8 + k) << shift);
          state[2 + e] = u64(rank_of[e] - sum);
        }
        sum = sum + here[k];
      }
    }
  }
  bar;
  repeat (k, 16) { all[tid + 256 * k] = 0; }
}
) /* Of each tile: how many stand between the keys, equal the first, and equal the last where that is another. */
  WRITTEN(
entry select_count(T* x, u64* states, u32* counts, u64 n, u32 tiles) {
  shared u32 own[3];
  if (tid < 3) { own[tid] = 0; }
  bar;
  u32 row = block / tiles;
  u32 tile = block % tiles;
  u64* state = states + u64(row) * 4;
  K first = K(state[0]);
  K last = K(state[1]);
  u64 left = n - u64(tile) * TILE;
  T* a = x + (u64(row) * n + u64(tile) * TILE);
  K key_of[ITEMS];
  K key;
  repeat (j, ITEMS) { key_of[j] = 0; if (u64(tid + 256 * j) < left) { key_of[j] = K(a[tid + 256 * j]); } }
  u32 sum[3];
  repeat (k, 3) { sum[k] = 0; }
  repeat (j, ITEMS) {
    K b = key_of[j]; ) KEY_OF_B WRITTEN(
    bool is_there = u64(tid + 256 * j) < left;
    sum[0] = sum[0] + u32(is_there && key > first && key < last);
    sum[1] = sum[1] + u32(is_there && key == first);
    sum[2] = sum[2] + u32(is_there && key == last && first != last);
  }
  repeat (k, 3) { if (sum[k] != 0) { atom_add(own[k], sum[k]); } }
  bar;
  if (tid < 3) { counts[(u64(row) * 3 + u64(tid)) * u64(tiles) + u64(tile)] = own[tid]; }
}
) /* Each count to the sum of those of the tiles before it: a block a count. */
  WRITTEN(
entry select_sums(u32* counts, u32* totals, u32 tiles) {
  shared u32 part[8];
  u32* c = counts + u64(block) * u64(tiles);
  u32 before = 0;
  u32 at = tid * 16;
  u32 here[16];
  while (at - tid * 16 < tiles) {
    u32 sum = 0;
    repeat (j, 16) { here[j] = 0; if (at + j < tiles) { here[j] = c[at + j]; } }
    repeat (j, 16) { sum = sum + here[j]; }
    u32 own = sum; ) SUMS_BEFORE WRITTEN(
    u32 to = before + sum;
    repeat (j, 16) {
      if (at + j < tiles) { c[at + j] = to; }
      to = to + here[j];
    }
    if (tid == 255) { part[0] = sum + own; }
    bar;
    before = before + part[0];
    at = at + 4096;
    bar;
  }
  if (tid == 0) { totals[block] = before; }
}
) /* What is wanted of a tile, as it stands, by a warp. */
  WRITTEN(
entry select_take(T* x, u64* states, u32* counts, u32* totals, T* found, u32* places, u64 n, u32 tiles, u64 many) {
  u32 row = block / tiles;
  u32 tile = block % tiles;
  u64* state = states + u64(row) * 4;
  u32 before[3];
  u32 all = 0;
  repeat (k, 3) {
    u32* c = counts + (u64(row) * 3 + k) * u64(tiles);
    before[k] = c[tile];
    u32 after = totals[row * 3 + k];
    if (tile + 1 < tiles) { after = c[tile + 1]; }
    all = all + (after - before[k]);
  }
  if (all == 0) { return; }
  K first = K(state[0]);
  K last = K(state[1]);
  u32 skipped = u32(state[2]);
  u32 end = u32(state[3]) + 1;
  u32 below = (1 << lane) - 1;
  u64 left = n - u64(tile) * TILE;
  T* a = x + (u64(row) * n + u64(tile) * TILE);
  K key;
  K b;
  K b_of[16];
  u32 at = 0;
  while (at < TILE) {
    repeat (j, 16) { b_of[j] = 0; if (u64(at + lane + 32 * j) < left) { b_of[j] = K(a[at + lane + 32 * j]); } }
    repeat (j, 16) {
    b = b_of[j];
    bool is_there = u64(at + lane) < left; ) KEY_OF_B WRITTEN(
    bool is_between = is_there && key > first && key < last;
    bool is_first = is_there && key == first;
    bool is_last = is_there && key == last && first != last;
    u32 between = ballot(is_between);
    u32 firsts = ballot(is_first);
    u32 lasts = ballot(is_last);
    u32 n_between = before[0] + popc(between & below);
    u32 n_first = before[1] + popc(firsts & below);
    u32 n_last = before[2] + popc(lasts & below);
    u32 bound = first == last ? end : 0xffffffff;
    u32 of_first = max(min(n_first, bound), skipped) - skipped;
    bool is_wanted = is_between || (is_first && n_first >= skipped && n_first < bound) || (is_last && n_last < end);
    if (is_wanted) {
      u64 to = u64(row) * many + u64(n_between + of_first + min(n_last, end));
      found[to] = b;
      places[to] = u32(u64(tile) * TILE) + at + lane;
    }
    repeat (k, 3) { before[k] = before[k] + popc(k == 0 ? between : k == 1 ? firsts : lasts); }
    at = at + 32;
    }
  }
}
);

/* sorted: places in order, of those that were found (places) or of all elements; ranks from first on are held inside the row. Of no
 * elements: as on the host. */
static const char ranks_text[] = WRITTEN(
entry select_none(T* y, s64* order, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) { y[i] = 0; order[i] = 0; }
}
) WRITTEN(
entry select_ranks(T* x, s64* sorted, u32* places, T* y, s64* order, u64 n, s64 from, u64 count, u64 all, s64 first, u64 many) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    u64 row = i / count;
    s64 rank = from + s64(i % count);
    rank = min(max(rank, 0), s64(n) - 1) - first;
    u64 place = u64(sorted[row * many + u64(rank)]);
    if (many != n) { place = u64(places[row * many + place]); }
    y[i] = x[row * n + place];
    order[i] = s64(place);
  }
}
);

/* ---- what they are given ---- */

/* first .. first + many - 1: the ranks that are asked for; found, places: their elements as they stand, and where. */
struct selecting { struct gpu *g; weft_dtype dtype; int64_t rows, n, first, many; uint64_t x, found, places; };

enum { DIGIT = 11, BINS = 2 << DIGIT, BLOCKS = 132 * 8 }; /* BLOCKS: so many keep a GPU busy */

static int find_keys(const struct selecting *s, struct routine_module *m, uint64_t states, uint64_t bins, int64_t tiles) {
  int64_t wanted = BLOCKS / s->rows + 1, cuts = tiles < wanted ? tiles : wanted;
  int bits = 8 * kir_width(s->dtype), how = LAUNCH(s->g, m, "select_begin", s->rows, TILE_THREADS, states, bins, (uint64_t)s->first,
                                                   (uint64_t)(s->first + s->many - 1));
  for (int up = bits; !how && up > 0; up -= DIGIT) {
    int shift = up < DIGIT ? 0 : up - DIGIT;
    how = LAUNCH(s->g, m, "select_digits", s->rows * cuts, TILE_THREADS, s->x, states, bins, (uint64_t)s->n, (uint64_t)cuts,
                 (uint64_t)shift, (uint64_t)up, (1u << (up - shift)) - 1);
    if (!how) how = LAUNCH(s->g, m, "select_find", s->rows, TILE_THREADS, states, bins, (uint64_t)shift, (uint64_t)up);
  }
  return how;
}

static int find(const struct selecting *s, struct routine_module *m, struct routine_room *room, int64_t tiles) {
  uint64_t states, bins, counts, totals;
  int how = room_take(room, (size_t)s->rows * 4 * 8, &states);
  if (!how) how = room_take(room, (size_t)s->rows * BINS * 4, &bins);
  if (!how) how = room_take(room, (size_t)(s->rows * tiles) * 3 * 4, &counts);
  if (!how) how = room_take(room, (size_t)s->rows * 3 * 4, &totals);
  if (!how) how = find_keys(s, m, states, bins, tiles);
  if (!how)
    how = LAUNCH(s->g, m, "select_count", s->rows * tiles, TILE_THREADS, s->x, states, counts, (uint64_t)s->n, (uint64_t)tiles);
  if (!how) how = LAUNCH(s->g, m, "select_sums", s->rows * 3, TILE_THREADS, counts, totals, (uint64_t)tiles);
  if (!how)
    how = LAUNCH(s->g, m, "select_take", s->rows * tiles, 32, s->x, states, counts, totals, s->found, s->places, (uint64_t)s->n,
                 (uint64_t)tiles, (uint64_t)s->many);
  return how;
}

static int64_t held(int64_t rank, int64_t n) { return rank < 0 ? 0 : rank < n ? rank : n - 1; }

/* Little is asked for of long rows. Blocks, places and counts are of 32 bits. */
static bool is_found(const struct selecting *s, int64_t tiles) {
  return s->n > sort_longest_tile(s->dtype) && s->many <= s->n / 4 && s->n < UINT32_MAX && s->rows <= INT32_MAX / (tiles + 1);
}

/* What is sorted: all, or what is found. */
static int put_in_order(const struct selecting *s, bool is_all, struct routine_room *room, uint64_t *sorted, bool only_asks) {
  struct sorting order = { s->g, s->dtype, s->rows, is_all ? s->n : s->many, is_all ? s->x : s->found, 0, 0, false, true };
  int how = only_asks ? CUDA_OK : room_take(room, (size_t)(order.rows * order.n) * 8, &order.order);
  if (!how) how = sort_rows(&order, only_asks);
  return *sorted = order.order, how;
}

/* number: the first rank of each row, and how many there are. */
int select_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *x = &c->array[0], *y = &c->array[1], *order = &c->array[2];
  struct sort_form f = { x->dtype, true, sort_most_items(x->dtype) };
  struct selecting s = { .g = g, .dtype = x->dtype, .rows = c->n_problems, .n = routine_last(x, 1), .x = x->at };
  struct routine_room room = { .gpu = g };
  struct routine_module *ranks, *m = NULL;
  int64_t from = c->number[0], count = c->number[1], all = c->n_problems * count, tiles = s.n / sort_tile(&f) + 1;
  uint64_t sorted = 0;
  int how = sort_load(g, &f, ranks_text, &ranks);
  if (how || !all) return how;
  if (!s.n) return only_asks ? how : LAUNCH(g, ranks, "select_none", (all - 1) / 256 + 1, 256, y->at, order->at, (uint64_t)all);
  s.first = held(from, s.n), s.many = held(from + count - 1, s.n) - s.first + 1;
  bool is_all = !is_found(&s, tiles);
  if (!is_all) how = sort_load(g, &f, select_text, &m);
  if (!how && !is_all && !only_asks) how = room_take(&room, (size_t)(s.rows * s.many) * (size_t)kir_width(s.dtype), &s.found);
  if (!how && !is_all && !only_asks) how = room_take(&room, (size_t)(s.rows * s.many) * 4, &s.places);
  if (!how && !is_all && !only_asks) how = find(&s, m, &room, tiles);
  if (!how) how = put_in_order(&s, is_all, &room, &sorted, only_asks);
  if (!how && !only_asks)
    how = LAUNCH(g, ranks, "select_ranks", (all - 1) / 256 + 1, 256, x->at, sorted, s.places, y->at, order->at, (uint64_t)s.n,
                 (uint64_t)from, (uint64_t)count, (uint64_t)all, is_all ? 0 : (uint64_t)s.first, (uint64_t)(is_all ? s.n : s.many));
  room_give(&room);
  return how;
}
