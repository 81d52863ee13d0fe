/* sort.c -- sorting along an axis: a library step with two results, the sorted elements and where each stood.
 *
 * Rows are sorted by the digits of their keys (digits.h), or by pivots (quick.h) where there are vectors that part words. An
 * entry is as small as it may be: a key alone where nobody asks for places, else a key of 32 bits and a place of 32, or 64 of
 * each. Bytes are counted and go to their places at once. Where there are many short rows, some of them stand side by side and go
 * through a sorting network. Few long rows are cut into parts: each thread counts the digits of its parts, and when all have
 * counted it knows where its own entries go. */
#include "op/beside.h"
#include "op/digits.h"
#include "op/quick.h"
#include "op/sort.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* ---- a row, and its entries ---- */

struct row {
  weft_dtype dtype;
  bool is_front;           /* of bytes: nobody reads more than where they are 0 */
  int64_t n;
  const uint8_t *from;
  uint8_t *y;              /* NULL: nobody asks for the elements, .. */
  int64_t *order;          /* .. or for where they stood */
  uint8_t *e, *other;      /* room for n entries each */
  int64_t *count;
  uint8_t *beside;         /* room for rows side by side, where they are short */
};

/* What entries of a row are: a key of 32 or 64 bits alone; a word, whose upper half is a key, the lower one its place; or 64 bits
 * of each. */
enum entries { KEYS_32, KEYS_64, WORDS, PAIRS };

static enum entries entries_of(weft_dtype d, int64_t n, bool has_order) {
  bool is_wide = weft_dtype_bytes(d) == 8;
  return !has_order ? is_wide ? KEYS_64 : KEYS_32 : is_wide || n > UINT32_MAX ? PAIRS : WORDS;
}
static size_t entry_bytes(enum entries e) { return e == KEYS_32 ? 4 : e == PAIRS ? 16 : 8; }
static int low_bits(enum entries e) { return e == WORDS ? 32 : 0; }

struct span { uint64_t least, most; int64_t n_nan; }; /* of entries' first words, and how many elements are NaN */

ORDER_INLINE void put_entry(uint8_t *e, int64_t i, enum entries kind, uint64_t key) {
  uint64_t pair[2] = { key, (uint64_t)i };
  if (kind == KEYS_32) memcpy(e + 4 * i, &(uint32_t){ (uint32_t)key }, 4);
  else if (kind == PAIRS) memcpy(e + 16 * i, pair, 16);
  else memcpy(e + 8 * i, &key, 8);
}

ORDER_INLINE struct span fill(const struct row *r, struct order_keys k, int bytes, enum entries kind, int64_t from, int64_t to) {
  struct span s = { UINT64_MAX, 0, 0 };
  for (int64_t i = from; i < to; i++) {
    uint64_t bits = order_load(r->from, i, bytes), key = order_key_of(&k, bits);
    if (kind == WORDS) key = key << 32 | (uint64_t)i;
    s.least = key < s.least ? key : s.least, s.most = key > s.most ? key : s.most, s.n_nan += order_is_no_number(&k, bits);
    put_entry(r->e, i, kind, key);
  }
  return s;
}

/* Which of eight bytes are 0: bit k of the byte k. */
static inline unsigned zeros_among(const uint8_t *x) {
  const uint64_t ones = 0x0101010101010101, low = 0x7f * ones;
  uint64_t w;
  memcpy(&w, x, 8);
  uint64_t is = ~(((w & low) + low) | w | low) >> 7; /* 1 in the bytes that are 0 */
  return (unsigned)(is * 0x0102040810204080 >> 56);
}

#define LOOPS "op/sort_loops.h"
#define LANE_BYTES 8
#include "op/lanes.h"

/* Elements from .. to - 1 of the row as entries. How many are NaN is said where there are only keys. */
static struct span fill_entries(const struct row *r, enum entries kind, int64_t from, int64_t to) {
  struct order_keys k = order_keys_of(r->dtype);
#define FILL(bytes) \
  (kind == KEYS_32 ? fill(r, k, bytes, KEYS_32, from, to) : kind == WORDS ? fill(r, k, bytes, WORDS, from, to) \
                                                          : fill(r, k, bytes, PAIRS, from, to))
  if (kind == WORDS && k.bytes == 4) return HERE(fill_words)(r, k, from, to);
  switch (k.bytes) {
    case 1: return FILL(1);
    case 2: return FILL(2);
    case 4: return FILL(4);
  }
#undef FILL
  return kind == KEYS_64 ? fill(r, k, 8, KEYS_64, from, to) : fill(r, k, 8, PAIRS, from, to);
}

/* ---- where an entry goes at last ---- */

static void put_element(const struct row *r, size_t bytes, int64_t at, int64_t i) {
  if (r->order) r->order[at] = i;
  if (r->y) memcpy(r->y + (size_t)at * bytes, r->from + (size_t)i * bytes, bytes);
}

/* Keys alone do not tell a NaN's bits: those are put apart. */
ORDER_INLINE void put_key(const struct row *r, const struct order_keys *k, int bytes, int64_t at, uint64_t key) {
  uint64_t bits = order_bits_of(k, key);
  if (key != k->all || k->least_nan == UINT64_MAX) memcpy(r->y + at * bytes, &bits, (size_t)bytes);
}

ORDER_INLINE void put_last(const struct row *r, const struct order_keys *k, int bytes, enum entries kind, int64_t at,
                           const uint8_t *e, int64_t i) {
  if (kind == KEYS_32 || kind == KEYS_64) put_key(r, k, bytes, at, order_load(e, i, kind == KEYS_32 ? 4 : 8));
  else if (kind == WORDS) put_element(r, (size_t)k->bytes, at, (int64_t)(uint32_t)order_load(e, i, 8));
  else put_element(r, (size_t)k->bytes, at, (int64_t)order_load(e, 2 * i + 1, 8));
}

/* The NaNs of elements from .. to - 1, as they stood, to places `at` and up; where there were only keys. */
static void put_nans(const struct row *r, int64_t from, int64_t to, int64_t at) {
  struct order_keys k = order_keys_of(r->dtype);
  for (int64_t i = from; i < to; i++)
    if (order_is_no_number(&k, order_load(r->from, i, k.bytes))) put_element(r, (size_t)k.bytes, at++, i);
}

/* Writes all results of a row whose entries are in order. */
ORDER_INLINE void put_all(const struct row *r, struct order_keys k, int bytes, enum entries kind, const uint8_t *e) {
  for (int64_t i = 0; i < r->n; i++) put_last(r, &k, bytes, kind, i, e, i);
}

/* Entries from .. to - 1, which are in order but for the last digit, straight to their places. */
ORDER_INLINE void put_part(const struct row *r, struct order_keys k, int bytes, enum entries kind, struct digits g,
                           const uint8_t *e, int64_t from, int64_t to, int64_t place[]) {
  size_t size = entry_bytes(kind);
  for (int64_t i = from; i < to; i++) put_last(r, &k, bytes, kind, place[digit_of(&g, g.n - 1, entry_key(e, i, size))]++, e, i);
}

/* Calls DO(bytes of elements, kind of entries) with constants. */
#define BY_ENTRIES(kind, bytes, DO)                                                                     \
  switch (kind) {                                                                                       \
    case KEYS_32:                                                                                       \
      if (bytes == 1) DO(1, KEYS_32);                                                                   \
      else if (bytes == 2) DO(2, KEYS_32);                                                              \
      else DO(4, KEYS_32);                                                                              \
      break;                                                                                            \
    case KEYS_64: DO(8, KEYS_64); break;                                                                \
    case WORDS: DO(4, WORDS); break;                                                                    \
    case PAIRS: DO(8, PAIRS); break;                                                                    \
  }

static void put_entries(const struct row *r, enum entries kind, const uint8_t *e, int64_t n_nan) {
  struct order_keys k = order_keys_of(r->dtype);
#define PUT(bytes, kind) put_all(r, k, bytes, kind, e)
  BY_ENTRIES(kind, k.bytes, PUT)
#undef PUT
  if (n_nan && !r->order) put_nans(r, 0, r->n, r->n - n_nan);
}

/* Words with a place differ, so their one order is the stable one. */
static bool is_quick(enum entries kind) { return kind != PAIRS && quick_is_there(); }

/* Entries from .. to - 1 of e, each of them in order then. */
static void quick_sort(uint8_t *e, uint8_t *other, int64_t from, int64_t to, enum entries kind, int64_t count[]) {
  if (kind == KEYS_32) quick_sort_32((uint32_t *)(void *)e + from, (uint32_t *)(void *)other + from, to - from, count);
  else quick_sort_64((uint64_t *)(void *)e + from, (uint64_t *)(void *)other + from, to - from, count);
}

/* Entries at .. at + n - 1 of r->other, which have the highest digit in common, in order and to their places. */
static void put_run(const struct row *r, int64_t at, int64_t n, enum entries kind, const struct digits *g, int64_t count[]) {
  struct order_keys k = order_keys_of(r->dtype);
  struct row here = *r; /* which nothing that is written changes */
  uint64_t near[QUICK_SPREAD];
  const uint8_t *e = r->other + (size_t)at * entry_bytes(kind);
  if (kind != KEYS_32 && quick_spread(g, (const uint64_t *)(const void *)e, n, near)) e = (const uint8_t *)near;
  else quick_sort(r->other, r->e, at, at + n, kind, count);
#define PUT(bytes, kind) for (int64_t i = 0; i < n; i++) put_last(&here, &k, bytes, kind, at + i, e, i)
  BY_ENTRIES(kind, k.bytes, PUT)
#undef PUT
}

/* A row of that many at least: its entries by their highest digit, and then run by run. */
enum { IN_RUNS = 1 << 16 };

static void sort_by_runs(const struct row *r, enum entries kind, struct span s) {
  struct digits g = digits_between(s.least, s.most, low_bits(kind), DIGIT_BITS);
  int64_t end[DIGIT_VALUES], at = 0;
  digits_count(&g, g.n - 1, r->e, r->n, entry_bytes(kind), end);
  if (!digits_begin(&g, end, r->n)) { put_entries(r, kind, r->e, s.n_nan); return; } /* all keys are the same */
  digits_move(&g, g.n - 1, r->e, r->n, entry_bytes(kind), end, r->other);
  for (int v = 0; v < 1 << g.width; at = end[v++])
    if (end[v] > at) put_run(r, at, end[v] - at, kind, &g, r->count);
  if (s.n_nan && !r->order) put_nans(r, 0, r->n, r->n - s.n_nan);
}

static void sort_whole(const struct row *r) {
  enum entries kind = entries_of(r->dtype, r->n, r->order);
  struct span s = fill_entries(r, kind, 0, r->n);
  uint8_t *e = r->e;
  if (is_quick(kind) && kind != KEYS_32 && r->n >= IN_RUNS) { sort_by_runs(r, kind, s); return; }
  if (is_quick(kind)) quick_sort(e, r->other, 0, r->n, kind, r->count);
  else e = digits_sort(e, r->other, r->n, entry_bytes(kind), low_bits(kind), r->count);
  put_entries(r, kind, e, s.n_nan);
}

/* ---- a row of bytes: what there is of each says where they go ---- */

enum { BYTES = 256 };

/* Of a byte itself, or with its sign turned; a float of 8 bits has a key, as wider ones do. */
static bool is_of_bytes(weft_dtype d) { return weft_dtype_bytes(d) == 1 && !dtype_is_f8(d); }

static int64_t count_zeros(const uint8_t *x, int64_t from, int64_t to) {
  int64_t n = 0;
  for (; from + 8 <= to; from += 8) n += __builtin_popcount(zeros_among(x + from));
  for (; from < to; from++) n += !x[from];
  return n;
}

/* Two of them are all there are, which masks are: where each goes stays in registers. */
static void places_of_two(const struct row *r, int64_t from, int64_t to, uint8_t second, int64_t at_first, int64_t at_second) {
  for (int64_t i = from; i < to; i++) {
    int64_t is_second = r->from[i] == second;
    r->order[is_second ? at_second : at_first] = i;
    at_first += !is_second, at_second += is_second;
  }
}

/* Places of bytes from .. to - 1, which begin there for each, and of which there are so many, to the order. */
static void bytes_to(const struct row *r, int64_t from, int64_t to, int64_t begins[BYTES], const int64_t count[BYTES],
                     uint8_t sign) {
  uint8_t kind[2] = { 0 };
  int n_kinds = 0;
  for (int key = 0; key < BYTES; key++)
    if (count[key] && n_kinds++ < 2) kind[n_kinds - 1] = (uint8_t)key ^ sign;
  if (r->is_front) HERE(zeros)(r->from, from, count[0], r->order + begins[0]);
  else if (n_kinds == 2) places_of_two(r, from, to, kind[1], begins[kind[0]], begins[kind[1]]);
  else for (int64_t i = from; i < to; i++) r->order[begins[r->from[i]]++] = i;
}

static void sort_bytes(const struct row *r) {
  uint8_t sign = r->dtype == WEFT_I8 ? 0x80 : 0;
  int64_t count[BYTES] = { 0 }, begins[BYTES], at = 0;
  if (r->is_front) count[0] = count_zeros(r->from, 0, r->n);
  else for (int64_t i = 0; i < r->n; i++) count[r->from[i] ^ sign]++;
  for (int key = 0; key < BYTES; key++) {
    begins[key ^ sign] = at;
    if (r->y) memset(r->y + at, key ^ sign, (size_t)count[key]);
    at += count[key];
  }
  if (r->order) bytes_to(r, 0, r->n, begins, count, sign);
}

static void sort_row(const struct row *r) {
  if (is_of_bytes(r->dtype) && r->n > BYTES / 4) sort_bytes(r);
  else sort_whole(r);
}

/* ---- a long row by parts, round after round ----
 * First each part makes its entries and says between which keys they are. Then, digit by digit, each counts its entries; and when
 * all have counted, moves them behind those that have smaller digits or the same in parts before it. The last digit moves them to
 * where they belong. Bytes are one digit, and no entries are made of them. With pivots only the highest digit is counted and moved
 * by; entries that have it in common stand together then, and parts put them in order, as many of such runs as begin in each. */

enum { PARTS = 16, LONG = 1 << 16, FEW_ROWS = 8 };

struct row_rounds {
  struct span span[PARTS];
  int64_t count[PARTS][DIGIT_VALUES];
};

static int64_t part_begin(const struct row *r, int part) { return part < PARTS ? r->n / PARTS * part : r->n; }

/* Where the entries of a part go: behind all of smaller digits, and behind those of the same in parts before it. */
static void places_of(const struct row_rounds *x, int part, int n_values, int64_t place[]) {
  int64_t all[DIGIT_VALUES] = { 0 }, at = 0;
  memset(place, 0, sizeof *place * (size_t)n_values);
  for (int p = 0; p < PARTS; p++)
    for (int k = 0; k < n_values; k++) all[k] += x->count[p][k], place[k] += p < part ? x->count[p][k] : 0;
  for (int k = 0; k < n_values; k++) place[k] += at, at += all[k];
}

static struct span span_of(const struct row_rounds *x) {
  struct span s = x->span[0];
  for (int p = 1; p < PARTS; p++) {
    s.least = x->span[p].least < s.least ? x->span[p].least : s.least;
    s.most = x->span[p].most > s.most ? x->span[p].most : s.most;
    s.n_nan += x->span[p].n_nan;
  }
  return s;
}

/* The NaNs of all parts stand at the end, those of this one behind those of the parts before. */
static void put_part_nans(const struct row *r, const struct row_rounds *x, int part) {
  int64_t at = r->n;
  for (int p = part; p < PARTS; p++) at -= x->span[p].n_nan;
  if (x->span[part].n_nan) put_nans(r, part_begin(r, part), part_begin(r, part + 1), at);
}

static void move_part(const struct row *r, struct row_rounds *x, int part, enum entries kind, struct digits g, int digit) {
  int64_t from = part_begin(r, part), to = part_begin(r, part + 1), place[DIGIT_VALUES];
  const uint8_t *e = digit % 2 ? r->other : r->e;
  struct order_keys k = order_keys_of(r->dtype);
  size_t size = entry_bytes(kind);
  places_of(x, part, 1 << g.width, place);
  if (digit < g.n - 1) {
    digits_move(&g, digit, e + (size_t)from * size, to - from, size, place, digit % 2 ? r->e : r->other);
    return;
  }
#define PUT(bytes, kind) put_part(r, k, bytes, kind, g, e, from, to, place)
  BY_ENTRIES(kind, k.bytes, PUT)
#undef PUT
  if (!r->order) put_part_nans(r, x, part);
}

/* The runs that begin in a part. */
static void sort_runs(const struct row *r, struct row_rounds *x, int part, enum entries kind, struct digits g) {
  int64_t begin = part_begin(r, part), end = part_begin(r, part + 1), at = 0, count[ORDER_COUNTS];
  for (int v = 0; v < 1 << g.width; v++) {
    int64_t n = 0;
    for (int p = 0; p < PARTS; p++) n += x->count[p][v];
    if (n && at >= begin && at < end) put_run(r, at, n, kind, &g, count);
    at += n;
  }
  if (!r->order) put_part_nans(r, x, part);
}

enum { QUICK_ROUNDS = 4 };

static void quick_round(const struct row *r, struct row_rounds *x, int part, int round) {
  enum entries kind = entries_of(r->dtype, r->n, r->order);
  int64_t from = part_begin(r, part), to = part_begin(r, part + 1), place[DIGIT_VALUES];
  size_t size = entry_bytes(kind);
  if (!round) { x->span[part] = fill_entries(r, kind, from, to); return; }
  struct span s = span_of(x);
  struct digits g = digits_between(s.least, s.most, low_bits(kind), DIGIT_BITS);
  if (round == 1) digits_count(&g, g.n - 1, r->e + (size_t)from * size, to - from, size, x->count[part]);
  else if (round == 2) {
    places_of(x, part, 1 << g.width, place);
    digits_move(&g, g.n - 1, r->e + (size_t)from * size, to - from, size, place, r->other);
  } else sort_runs(r, x, part, kind, g);
}

static void part_round(const struct row *r, struct row_rounds *x, int part, int round) {
  enum entries kind = entries_of(r->dtype, r->n, r->order);
  int64_t from = part_begin(r, part), to = part_begin(r, part + 1);
  if (!round) { x->span[part] = fill_entries(r, kind, from, to); return; }
  struct span s = span_of(x);
  struct digits g = digits_between(s.least, s.most, low_bits(kind), DIGIT_BITS);
  size_t size = entry_bytes(kind);
  int digit = (round - 1) / 2;
  if (digit >= g.n) return;
  if (round % 2 == 0) move_part(r, x, part, kind, g, digit);
  else digits_count(&g, digit, (digit % 2 ? r->other : r->e) + (size_t)from * size, to - from, size, x->count[part]);
}

static void bytes_round(const struct row *r, struct row_rounds *x, int part, int round) {
  int64_t from = part_begin(r, part), to = part_begin(r, part + 1), place[DIGIT_VALUES], begins[BYTES];
  uint8_t sign = r->dtype == WEFT_I8 ? 0x80 : 0;
  if (!round) {
    memset(x->count[part], 0, sizeof x->count[part]);
    if (r->is_front) x->count[part][0] = count_zeros(r->from, from, to);
    else for (int64_t i = from; i < to; i++) x->count[part][r->from[i] ^ sign]++;
    return;
  }
  places_of(x, part, BYTES, place);
  for (int key = 0; key < BYTES; key++) {
    begins[key ^ sign] = place[key];
    if (r->y) memset(r->y + place[key], key ^ sign, (size_t)x->count[part][key]);
  }
  if (r->order) bytes_to(r, from, to, begins, x->count[part], sign);
}

/* ---- short rows, some side by side ---- */

/* Rows longer than that are sorted faster one by one (measured on AVX2: at 400 a network takes half as long as digits). */
enum { SHORT_ROW = BESIDE_MOST, MOST_BESIDE = BESIDE_BYTES / 4 };

/* The network compares signed integers. */
ORDER_INLINE int32_t signed_32(uint64_t key) { return (int32_t)((uint32_t)key ^ 0x80000000u); }
ORDER_INLINE int64_t signed_64(uint64_t key) { return (int64_t)(key ^ (uint64_t)1 << 63); }

ORDER_INLINE void sort_keys_beside(const struct row r[], weft_dtype d, int bytes) {
  int n_rows = bytes < 8 ? 16 : 8;
  int64_t n = r->n, n_nan[MOST_BESIDE] = { 0 };
  int32_t *e32 = (void *)r->beside;
  int64_t *e64 = (void *)r->beside;
  for (int k = 0; k < n_rows; k++)
    for (int64_t i = 0; i < n; i++) {
      uint64_t bits = order_load(r[k].from, i, bytes), key = order_key(d, bytes, bits);
      n_nan[k] += order_is_nan(d, bytes, bits);
      if (bytes < 8) e32[n_rows * i + k] = signed_32(key);
      else e64[n_rows * i + k] = signed_64(key);
    }
  if (bytes < 8) order_network_i32(e32, n);
  else order_network_i64(e64, n);
  for (int k = 0; k < n_rows; k++) {
    for (int64_t i = 0; i < n; i++) {
      if (bytes < 8) memcpy(r->e + 4 * i, &(uint32_t){ (uint32_t)signed_32((uint32_t)e32[n_rows * i + k]) }, 4);
      else memcpy(r->e + 8 * i, &(uint64_t){ (uint64_t)signed_64((uint64_t)e64[n_rows * i + k]) }, 8);
    }
    put_entries(&r[k], bytes < 8 ? KEYS_32 : KEYS_64, r->e, n_nan[k]);
  }
}

/* Words of a key and a place differ, and so do pairs: their one order is the stable one. */
ORDER_INLINE void sort_places_beside(const struct row r[], weft_dtype d, int bytes) {
  enum { ROWS = BESIDE_BYTES / 8 };
  int64_t n = r->n, *e = (void *)r->beside, *at = e + ROWS * n;
  for (int k = 0; k < ROWS; k++)
    for (int64_t i = 0; i < n; i++) {
      uint64_t key = order_key(d, bytes, order_load(r[k].from, i, bytes));
      e[ROWS * i + k] = signed_64(bytes < 8 ? key << 32 | (uint64_t)i : key);
      if (bytes == 8) at[ROWS * i + k] = i;
    }
  if (bytes < 8) order_network_i64(e, n);
  else order_network_entries(e, at, n);
  for (int k = 0; k < ROWS; k++)
    for (int64_t i = 0; i < n; i++) r[k].order[i] = bytes < 8 ? (int64_t)(uint32_t)e[ROWS * i + k] : at[ROWS * i + k];
}

/* Elements of a row whose places are known. */
static void put_by_order(const struct row *r) {
  for (int64_t i = 0; i < r->n; i++) put_element(r, weft_dtype_bytes(r->dtype), i, r->order[i]);
}

/* Where vectors do not turn rows (beside.h), element by element. */
static void sort_one_by_one(const struct row r[], int n_rows) {
#define KEYS(d, bytes) sort_keys_beside(r, d, bytes)
#define PLACES(d, bytes) sort_places_beside(r, d, bytes)
  if (!r->order) { ORDER_BY_DTYPE(r->dtype, KEYS) return; }
  ORDER_BY_DTYPE(r->dtype, PLACES)
#undef KEYS
#undef PLACES
  for (int k = 0; r->y && k < n_rows; k++) put_by_order(&r[k]);
}

/* ---- the step: in x[.., n]; out y[.., n], order[.., n] ---- */

static int64_t length(const struct library_call *c) { return c->in[0].dims[c->in[0].rank - 1]; }

/* Few long rows are cut into parts, if there are threads for those. */
static int64_t parts(const struct library_call *c) { return c->n_problems <= FEW_ROWS && length(c) >= LONG ? PARTS : 1; }
static bool is_cut(const struct library_call *c) { return parts(c) > 1 && c->n_ranges > c->n_problems; }
static bool is_bytes(const struct library_call *c) { return is_of_bytes(c->in[0].dtype); }
static bool is_front(const struct library_call *c) {
  return ((const struct sort_attr *)c->attr)->is_front && is_bytes(c) && !c->out[0].is_wanted;
}

static bool is_by_pivots(const struct library_call *c) {
  return is_quick(entries_of(c->in[0].dtype, length(c), c->out[1].is_wanted));
}

/* Two of bytes; else entries, and of every digit that there may be counts and moves. */
static int rounds(const struct library_call *c) {
  int bits = 8 * (int)weft_dtype_bytes(c->in[0].dtype);
  if (!is_cut(c)) return 1;
  return is_bytes(c) ? 2 : is_by_pivots(c) ? QUICK_ROUNDS : 1 + 2 * ((bits + DIGIT_BITS - 1) / DIGIT_BITS);
}

/* All entries of a row; there is room for them twice. */
static size_t entries_bytes(const struct library_call *c) {
  size_t bytes = entry_bytes(entries_of(c->in[0].dtype, length(c), c->out[1].is_wanted)) * (size_t)length(c);
  return (bytes + 63) / 64 * 64;
}

static struct row row_at(const struct library_call *c, int64_t i, uint8_t *room) {
  const struct library_array *x = &c->in[0], *y = &c->out[0], *order = &c->out[1];
  return (struct row){
    .dtype = x->dtype, .is_front = is_front(c), .n = length(c), .from = x->data + i * x->each,
    .y = y->is_wanted ? y->data + i * y->each : NULL,
    .order = order->is_wanted ? (int64_t *)(void *)(order->data + i * order->each) : NULL,
    .e = room, .other = room + entries_bytes(c), .count = (int64_t *)(void *)(room + 2 * entries_bytes(c)),
    .beside = room + entries_bytes(c),
  };
}

/* What a row that is cut has of the shared memory: what is counted, then the entries. */
static size_t row_bytes(const struct library_call *c) {
  return (sizeof(struct row_rounds) + 63) / 64 * 64 + (is_bytes(c) ? 0 : 2 * entries_bytes(c));
}

static void run_parts(const struct library_call *c, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++) {
    uint8_t *room = (uint8_t *)c->shared + (size_t)(i / PARTS) * row_bytes(c);
    struct row r = row_at(c, i / PARTS, room + row_bytes(c) - (is_bytes(c) ? 0 : 2 * entries_bytes(c)));
    (is_bytes(c) ? bytes_round : is_by_pivots(c) ? quick_round : part_round)(&r, (void *)room, (int)(i % PARTS), c->round);
  }
}

/* Short rows from `from` on, as many as stand side by side. */
static void sort_beside(const struct library_call *c, int64_t from, int n_rows, uint8_t *room) {
  struct row r[MOST_BESIDE];
  for (int k = 0; k < n_rows; k++) r[k] = row_at(c, from + k, room);
  sort_one_by_one(r, n_rows);
}

/* The same by vectors that turn them. */
static void sort_turned(const struct library_call *c, int64_t from, int n_rows, uint8_t *room) {
  struct row first = row_at(c, from, room);
  struct beside_rows b = { first.dtype, first.n, c->in[0].each, c->out[0].each, c->out[1].each,
                      first.from, first.y, (uint8_t *)first.order, first.beside };
  int64_t n_nan[MOST_BESIDE];
  beside_sort(&b, n_nan);
  for (int k = 0; first.y && k < n_rows; k++) {
    if (!first.order && !n_nan[k]) continue;
    struct row r = row_at(c, from + k, room);
    if (r.order) put_by_order(&r);
    else put_nans(&r, 0, r.n, r.n - n_nan[k]);
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  if (is_cut(c)) return run_parts(c, from, to), NULL;
  if (parts(c) > 1) from /= PARTS, to /= PARTS;
  int n_rows = beside_at_once(c->in[0].dtype, c->out[1].is_wanted);
  bool is_turned = beside_is_there(), is_short = length(c) <= SHORT_ROW && (is_turned || order_has_networks());
  if (!length(c)) return NULL; /* and no memory: nobody could say which results are wanted */
  for (; is_short && to - from >= n_rows; from += n_rows) (is_turned ? sort_turned : sort_beside)(c, from, n_rows, scratch);
  for (; from < to; from++) {
    struct row r = row_at(c, from, scratch);
    sort_row(&r);
  }
  return NULL;
}

/* Rows side by side have the second row of entries and the counts, which their keys and places fit in. */
static size_t scratch(const struct library_call *c) {
  return is_cut(c) ? 0 : 2 * entries_bytes(c) + sizeof(int64_t[ORDER_COUNTS]);
}
_Static_assert(BESIDE_ROOM <= sizeof(int64_t[ORDER_COUNTS]), "short rows side by side have room");

static size_t shared(const struct library_call *c) { return is_cut(c) ? (size_t)c->n_problems * row_bytes(c) : 0; }

static double operations(const struct library_call *c) {
  double per_element = 1;
  for (int64_t n = length(c); n > 1; n /= 2) per_element++;
  return (double)c->n_problems * (double)length(c) * per_element;
}

static const struct library steps = { .core = 1, .parts = parts, .rounds = rounds, .shared = shared, .operations = operations,
                                      .scratch = scratch, .run = run, .routine = "sort" };

/* ---- rules ---- */

static int count(const struct node *n) { return (void)n, 2; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  *rank = x->rank;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  return k ? WEFT_I64 : (weft_dtype)x->dtype;
}

/* y = x[order]: dx[order] = dy. */
static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  weft_array *zero = weft_full_like(r->in[0], 0), *order = weft_argsort(r->in[0], -1);
  if (is_wanted[0] && dy[0]) dx[0] = weft_put(zero, weft_take_along(zero, -1, order), dy[0], WEFT_SET);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (dx[0]) dy[0] = weft_take_along(dx[0], -1, weft_argsort(r->in[0], -1));
}

static const struct many results = { count, type, vjp, jvp, library_batch };
const struct op op_sort = { .name = "sort", .kind = OP_LIBRARY, .again = library_again, .many = &results, .library = &steps };

/* ---- the public calls ---- */

static weft_array *sorted(const char *fn, weft_array *x, int axis, int which, bool is_front) {
  struct sort_attr a = { is_front };
  struct node *n;
  weft_array *bad, *out[2];
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, (weft_dtype)n->dtype) : axis_check(fn, n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  weft_array *last = weft_moveaxis(array_of(n), axis, -1);
  if (!(n = array_good_node(last))) return last;
  library_apply(&op_sort, 1, &n, &a, sizeof a, 2, out);
  node_release(n);
  return weft_moveaxis(out[which], -1, axis);
}

weft_array *weft_sort(weft_array *x, int axis) { return COMPOSED(sorted("weft_sort", x, axis, 0, false)); }
weft_array *weft_argsort(weft_array *x, int axis) { return COMPOSED(sorted("weft_argsort", x, axis, 1, false)); }
weft_array *places_of_zeros(weft_array *x) { return sorted("weft_flatnonzero", x, 0, 1, true); }
