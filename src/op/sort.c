/* sort.c -- sorting along an axis: a library step with two results, the sorted elements and where each stood.
 *
 * Rows are sorted by the digits of their keys, the lowest first: a pass counts nothing anew and moves every entry once, whatever
 * the elements are. An entry is as small as it may be: a key alone where nobody asks for places, else a key of 32 bits and a place
 * of 32, or 64 of each. Bytes are counted and go to their places at once. Where there are many short rows, some of them stand side
 * by side and go through a sorting network. Few long rows are cut into parts of the result, one for each thread. */
#include "op/order.h"

/* ---- by digits ---- */

enum {
  FEW = 40,         /* so many are put in order one by one: counting digits takes longer */
  SHORT = 1 << 14,  /* fewer than that are sorted by digits of 8 bits, whose counts are quickly cleared, more by 11 */
};

ORDER_INLINE uint64_t key_at(const uint8_t *e, int64_t i, size_t size) {
  return order_load(e, size == 16 ? 2 * i : i, size == 16 ? 8 : (int)size);
}

ORDER_INLINE void move_to(uint8_t *to, int64_t k, const uint8_t *from, int64_t i, size_t size) {
  memcpy(to + (size_t)k * size, from + (size_t)i * size, size);
}

ORDER_INLINE void insert_all(uint8_t *e, int64_t n, size_t size, int low) {
  for (int64_t i = 1, j; i < n; i++) {
    uint8_t x[16];
    move_to(x, 0, e, i, size);
    uint64_t key = key_at(x, 0, size) >> low;
    for (j = i; j > 0 && key_at(e, j - 1, size) >> low > key; j--) move_to(e, j, e, j - 1, size);
    move_to(e, j, x, 0, size);
  }
}

/* How many there are of each digit, of all digits in one pass. */
ORDER_INLINE void count_digits(const uint8_t *e, int64_t n, size_t size, int low, int width, int digits, int64_t count[]) {
  uint64_t mask = ((uint64_t)1 << width) - 1;
  memset(count, 0, sizeof *count * ((size_t)digits << width));
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = key_at(e, i, size) >> low;
    for (int d = 0; d < digits; d++, key >>= width) count[((uint64_t)d << width) + (key & mask)]++;
  }
}

/* Where each digit begins. False: all entries have the same, and may stay. */
static bool begin(int64_t count[], int width, int64_t n) {
  int64_t at = 0;
  for (int k = 0; k < 1 << width; k++) {
    int64_t here = count[k];
    if (here == n) return false;
    count[k] = at;
    at += here;
  }
  return true;
}

/* n entries of so many bytes, a key first in each, in the order of the bits of their keys from `low` on: in e or in `other`. */
ORDER_INLINE uint8_t *by_digits(uint8_t *e, uint8_t *other, int64_t n, size_t size, int low, int64_t count[]) {
  if (n <= FEW) return insert_all(e, n, size, low), e;
  int bits = 8 * (size < 8 ? (int)size : 8) - low, width = n < SHORT ? 8 : 11, digits = (bits + width - 1) / width;
  uint64_t mask = ((uint64_t)1 << width) - 1;
  count_digits(e, n, size, low, width, digits, count);
  for (int d = 0; d < digits; d++, count += (size_t)1 << width) {
    if (!begin(count, width, n)) continue;
    for (int64_t i = 0; i < n; i++) move_to(other, count[key_at(e, i, size) >> (low + d * width) & mask]++, e, i, size);
    uint8_t *t = e;
    e = other, other = t;
  }
  return e;
}

struct order_entry *order_sort(struct order_entry *e, struct order_entry *other, int64_t n, int64_t count[ORDER_COUNTS]) {
  return (void *)by_digits((void *)e, (void *)other, n, sizeof *e, 0, count);
}

/* ---- a row ---- */

struct row {
  weft_dtype dtype;
  int64_t n;
  const uint8_t *from;
  uint8_t *y;              /* NULL: nobody asks for the elements, .. */
  int64_t *order;          /* .. or for where they stood */
  uint8_t *e, *other;      /* room for n entries of 16 bytes each */
  int64_t *count;
  uint8_t *beside;         /* room for rows side by side, where they are short */
};

/* The elements that have these keys in order, but for NaNs, which stand at the end as they stood. */
ORDER_INLINE void elements_of(const struct row *r, weft_dtype d, int bytes, const uint8_t *keys, int64_t n_nan) {
  int64_t n = r->n - n_nan;
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = order_bits(d, bytes, order_load(keys, i, bytes < 8 ? 4 : 8));
    memcpy(r->y + i * bytes, &bits, (size_t)bytes);
  }
  for (int64_t i = 0; n < r->n; i++)
    if (order_is_nan(d, bytes, order_load(r->from, i, bytes))) memcpy(r->y + n++ * bytes, r->from + i * bytes, (size_t)bytes);
}

ORDER_INLINE void sort_keys(const struct row *r, weft_dtype d, int bytes) {
  int64_t n_nan = 0;
  for (int64_t i = 0; i < r->n; i++) {
    uint64_t bits = order_load(r->from, i, bytes), key = order_key(d, bytes, bits);
    n_nan += order_is_nan(d, bytes, bits);
    if (bytes < 8) memcpy(r->e + 4 * i, &(uint32_t){ (uint32_t)key }, 4);
    else memcpy(r->e + 8 * i, &key, 8);
  }
  elements_of(r, d, bytes, by_digits(r->e, r->other, r->n, bytes < 8 ? 4 : 8, 0, r->count), n_nan);
}

/* Key and place in one word: bits 32 and up are the key. */
ORDER_INLINE void sort_words(const struct row *r, weft_dtype d, int bytes) {
  for (int64_t i = 0; i < r->n; i++) {
    uint64_t word = order_key(d, bytes, order_load(r->from, i, bytes)) << 32 | (uint64_t)i;
    memcpy(r->e + 8 * i, &word, 8);
  }
  const uint8_t *e = by_digits(r->e, r->other, r->n, 8, 32, r->count);
  for (int64_t i = 0; i < r->n; i++) r->order[i] = (int64_t)(uint32_t)order_load(e, i, 8);
}

ORDER_INLINE void sort_entries(const struct row *r, weft_dtype d, int bytes) {
  struct order_entry *e = (void *)r->e;
  for (int64_t i = 0; i < r->n; i++) e[i] = (struct order_entry){ order_key(d, bytes, order_load(r->from, i, bytes)), i };
  e = order_sort(e, (void *)r->other, r->n, r->count);
  for (int64_t i = 0; i < r->n; i++) r->order[i] = e[i].at;
}

static void take_elements(const struct row *r) {
  size_t bytes = weft_dtype_bytes(r->dtype);
  for (int64_t i = 0; r->y && i < r->n; i++) memcpy(r->y + (size_t)i * bytes, r->from + (size_t)r->order[i] * bytes, bytes);
}

/* ---- a row of bytes: what there is of each says where they go ---- */

enum { BYTES = 256 };

/* Two of them are all there are, which masks are: where each goes stays in registers. */
static void places_of_two(const struct row *r, uint8_t second, int64_t at_first, int64_t at_second) {
  for (int64_t i = 0; i < r->n; i++) {
    int64_t is_second = r->from[i] == second;
    r->order[is_second ? at_second : at_first] = i;
    at_first += !is_second, at_second += is_second;
  }
}

static void sort_bytes(const struct row *r) {
  uint8_t sign = r->dtype == WEFT_I8 ? 0x80 : 0, kind[2] = { 0 };
  int64_t count[BYTES] = { 0 }, begins[BYTES], at = 0;
  int n_kinds = 0;
  for (int64_t i = 0; i < r->n; i++) count[r->from[i]]++;
  for (int key = 0; key < BYTES; key++) {
    uint8_t byte = (uint8_t)key ^ sign;
    begins[byte] = at;
    if (r->y) memset(r->y + at, byte, (size_t)count[byte]);
    if (count[byte] && n_kinds++ < 2) kind[n_kinds - 1] = byte;
    at += count[byte];
  }
  if (r->order && n_kinds == 2) places_of_two(r, kind[1], begins[kind[0]], begins[kind[1]]);
  else for (int64_t i = 0; r->order && i < r->n; i++) r->order[begins[r->from[i]]++] = i;
}

static void sort_row(const struct row *r) {
  if (weft_dtype_bytes(r->dtype) == 1 && r->n > FEW) { sort_bytes(r); return; }
#define KEYS(d, bytes) sort_keys(r, d, bytes)
#define PLACES(d, bytes) if (bytes < 8 && r->n <= UINT32_MAX) sort_words(r, d, bytes); else sort_entries(r, d, bytes)
  if (!r->order) { ORDER_BY_DTYPE(r->dtype, KEYS) return; }
  ORDER_BY_DTYPE(r->dtype, PLACES)
#undef KEYS
#undef PLACES
  take_elements(r);
}

/* ---- a part of a long row: what stands at some places of the result ----
 * Each thread reads all of the row and keeps what belongs to its part, so nobody waits for anybody. Keys from the least to the
 * largest are counted in equal stretches; those that begin in the part are its. Some stretches at a time, as many as there is room
 * for, are taken out of the row and sorted; one that is too large is cut again, until its keys are all the same. */

enum { STRETCHES = 2048, MOST_SPANS = 64 };
struct key_span { uint64_t low, high; int64_t at; }; /* elements with these keys go to places `at` and up */

struct row_part {
  const struct row *r;
  int64_t from, to;        /* places */
  int64_t room;            /* entries */
  int n_spans;             /* that are too large and wait */
  struct key_span span[MOST_SPANS];
};

ORDER_INLINE bool is_within(const struct key_span *s, uint64_t key) { return key - s->low <= s->high - s->low; }

static void put_element(const struct row *r, int bytes, int64_t at, int64_t i) {
  if (r->order) r->order[at] = i;
  if (r->y) memcpy(r->y + at * bytes, r->from + i * bytes, (size_t)bytes);
}

/* Keys that are all the same, and NaNs, of which those are asked for: they stay as they stood. */
ORDER_INLINE void place_equal(const struct row *r, weft_dtype d, int bytes, uint64_t key, int64_t at) {
  for (int64_t i = 0; i < r->n; i++)
    if (order_key(d, bytes, order_load(r->from, i, bytes)) == key) put_element(r, bytes, at++, i);
}

/* Their keys alone; of NaNs, whose bits no key tells, there are `n_nan`. */
ORDER_INLINE void place_keys(const struct row *r, weft_dtype d, int bytes, const struct key_span *s) {
  size_t size = bytes < 8 ? 4 : 8;
  int64_t n = 0, n_nan = 0;
  for (int64_t i = 0; i < r->n; i++) {
    uint64_t bits = order_load(r->from, i, bytes), key = order_key(d, bytes, bits);
    memcpy(r->e + size * (size_t)n, &key, size); /* the low half first */
    n += is_within(s, key), n_nan += order_is_nan(d, bytes, bits);
  }
  const uint8_t *sorted = by_digits(r->e, r->other, n, size, 0, r->count);
  uint64_t nan = bytes == 8 ? UINT64_MAX : UINT32_MAX;
  bool has_nan = dtype_is_float(d) && is_within(s, nan);
  for (int64_t k = 0; k < n - (has_nan ? n_nan : 0); k++) {
    uint64_t bits = order_bits(d, bytes, order_load(sorted, k, (int)size));
    memcpy(r->y + (s->at + k) * bytes, &bits, (size_t)bytes);
  }
  if (has_nan) place_equal(r, d, bytes, nan, s->at + n - n_nan);
}

ORDER_INLINE void place_words(const struct row *r, weft_dtype d, int bytes, const struct key_span *s) {
  int64_t n = 0;
  for (int64_t i = 0; i < r->n; i++) {
    uint64_t key = order_key(d, bytes, order_load(r->from, i, bytes)), word = key << 32 | (uint64_t)i;
    memcpy(r->e + 8 * n, &word, 8);
    n += is_within(s, key);
  }
  const uint8_t *sorted = by_digits(r->e, r->other, n, 8, 32, r->count);
  for (int64_t k = 0; k < n; k++) put_element(r, bytes, s->at + k, (int64_t)(uint32_t)order_load(sorted, k, 8));
}

ORDER_INLINE void place_entries(const struct row *r, weft_dtype d, int bytes, const struct key_span *s) {
  struct order_entry *e = (void *)r->e;
  int64_t n = 0;
  for (int64_t i = 0; i < r->n; i++) {
    e[n] = (struct order_entry){ order_key(d, bytes, order_load(r->from, i, bytes)), i };
    n += is_within(s, e[n].key);
  }
  e = order_sort(e, (void *)r->other, n, r->count);
  for (int64_t k = 0; k < n; k++) put_element(r, bytes, s->at + k, e[k].at);
}

ORDER_INLINE void place_span(const struct row *r, weft_dtype d, int bytes, const struct key_span *s) {
  if (!r->order) place_keys(r, d, bytes, s);
  else if (bytes < 8 && r->n <= UINT32_MAX) place_words(r, d, bytes, s);
  else place_entries(r, d, bytes, s);
}

/* How many of the row's keys are in each stretch of the span; returns by how much keys are shifted to say which one. */
ORDER_INLINE int count_stretches(const struct row *r, weft_dtype d, int bytes, const struct key_span *s, int64_t count[]) {
  int shift = 0;
  while ((s->high - s->low) >> shift >= STRETCHES) shift++;
  memset(count, 0, sizeof *count * STRETCHES);
  for (int64_t i = 0; i < r->n; i++) {
    uint64_t key = order_key(d, bytes, order_load(r->from, i, bytes));
    if (is_within(s, key)) count[(key - s->low) >> shift]++;
  }
  return shift;
}

/* The stretches of a span that begin in the part. */
ORDER_INLINE void sort_span(struct row_part *p, weft_dtype d, int bytes, struct key_span s) {
  int64_t count[STRETCHES], n = 0;
  int shift = count_stretches(p->r, d, bytes, &s, count);
  struct key_span next = { .at = s.at };
  for (int k = 0; k < STRETCHES && (uint64_t)k <= (s.high - s.low) >> shift; k++) {
    uint64_t low = s.low + ((uint64_t)k << shift), last = low + (((uint64_t)1 << shift) - 1);
    bool is_ours = count[k] && s.at >= p->from && s.at < p->to;
    if (n && (!is_ours || n + count[k] > p->room)) place_span(p->r, d, bytes, &next), n = 0;
    last = last > s.high || last < low ? s.high : last;
    if (is_ours && count[k] > p->room) {
      if (low == last) place_equal(p->r, d, bytes, low, s.at);
      else p->span[p->n_spans++] = (struct key_span){ low, last, s.at };
    } else if (is_ours) {
      if (!n) next = (struct key_span){ low, last, s.at };
      next.high = last, n += count[k];
    }
    s.at += count[k];
  }
  if (n) place_span(p->r, d, bytes, &next);
}

ORDER_INLINE void sort_part(struct row_part *p, weft_dtype d, int bytes) {
  struct key_span all = { .low = UINT64_MAX };
  for (int64_t i = 0; i < p->r->n; i++) {
    uint64_t key = order_key(d, bytes, order_load(p->r->from, i, bytes));
    all.low = key < all.low ? key : all.low, all.high = key > all.high ? key : all.high;
  }
  p->span[p->n_spans++] = all;
  while (p->n_spans) {
    struct key_span s = p->span[--p->n_spans];
    sort_span(p, d, bytes, s);
    p->from = 0, p->to = p->r->n; /* what is cut again is ours as a whole */
  }
}

/* ---- short rows, some side by side ---- */

/* Rows longer than that are sorted faster one by one (measured on AVX2: at 400 a network takes half as long as digits). */
enum { SHORT_ROW = 512, MOST_BESIDE = ORDER_BESIDE / 4 };

/* How many rows stand side by side: of keys of 32 bits alone 16, else 8. */
static int n_beside(weft_dtype d, bool has_order) {
  return ORDER_BESIDE / (has_order || weft_dtype_bytes(d) == 8 ? 8 : 4);
}

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
    elements_of(&r[k], d, bytes, r->e, n_nan[k]);
  }
}

/* Words of a key and a place differ, and so do pairs: their one order is the stable one. */
ORDER_INLINE void sort_places_beside(const struct row r[], weft_dtype d, int bytes) {
  enum { ROWS = ORDER_BESIDE / 8 };
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

static void sort_beside(const struct row r[], int n_rows) {
#define KEYS(d, bytes) sort_keys_beside(r, d, bytes)
#define PLACES(d, bytes) sort_places_beside(r, d, bytes)
  if (!r->order) { ORDER_BY_DTYPE(r->dtype, KEYS) return; }
  ORDER_BY_DTYPE(r->dtype, PLACES)
#undef KEYS
#undef PLACES
  for (int k = 0; k < n_rows; k++) take_elements(&r[k]);
}

/* ---- the step: in x[.., n]; out y[.., n], order[.., n] ---- */

static int64_t length(const struct library_call *c) { return c->in[0].dims[c->in[0].rank - 1]; }

/* Few long rows are cut into parts, if there are threads for those. */
enum { PARTS = 16, LONG = 1 << 18, FEW_ROWS = 2, LEAST_SHARE = 8 };

static int64_t parts(const struct library_call *c) {
  return c->n_problems <= FEW_ROWS && length(c) >= LONG && weft_dtype_bytes(c->in[0].dtype) > 1 ? PARTS : 1;
}
static bool is_cut(const struct library_call *c) { return parts(c) > 1 && c->n_ranges > c->n_problems; }

/* Entries there is room for, twice: all of a row, or twice what a range would have if all had the same. */
static int64_t n_entries(const struct library_call *c) {
  int64_t n = length(c), ranges = is_cut(c) ? c->n_ranges / c->n_problems : 1, most = 2 * (n / ranges), least = n / LEAST_SHARE;
  return ranges == 1 ? n : (most > least ? most : least) + 1;
}

static size_t entry_bytes(const struct library_call *c) {
  bool is_wide = weft_dtype_bytes(c->in[0].dtype) == 8 || length(c) > UINT32_MAX;
  return !is_cut(c) ? sizeof(struct order_entry) : c->out[1].is_wanted ? is_wide ? 16 : 8 : is_wide ? 8 : 4;
}

static size_t entries_bytes(const struct library_call *c) {
  size_t bytes = entry_bytes(c) * (size_t)n_entries(c);
  return (bytes + 63) / 64 * 64;
}

static struct row row_at(const struct library_call *c, int64_t i, uint8_t *room) {
  const struct library_array *x = &c->in[0], *y = &c->out[0], *order = &c->out[1];
  return (struct row){
    .dtype = x->dtype, .n = length(c), .from = x->data + i * x->each,
    .y = y->is_wanted ? y->data + i * y->each : NULL,
    .order = order->is_wanted ? (int64_t *)(void *)(order->data + i * order->each) : NULL,
    .e = room, .other = room + entries_bytes(c), .count = (int64_t *)(void *)(room + 2 * entries_bytes(c)),
    .beside = room + entries_bytes(c),
  };
}

/* Parts from .. to - 1 of all rows. */
static void run_parts(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  for (int64_t next; from < to; from = next) {
    int64_t row = from / PARTS, first = from % PARTS, end = to - row * PARTS;
    struct row r = row_at(c, row, scratch);
    end = end < PARTS ? end : PARTS;
    int64_t each = r.n / PARTS;
    struct row_part p = { .r = &r, .from = each * first, .to = end < PARTS ? each * end : r.n, .room = n_entries(c) - 1 };
#define PART(d, bytes) sort_part(&p, d, bytes)
    ORDER_BY_DTYPE(r.dtype, PART)
#undef PART
    next = row * PARTS + end;
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  if (is_cut(c)) return run_parts(c, from, to, scratch), NULL;
  if (parts(c) > 1) from /= PARTS, to /= PARTS;
  int n_rows = n_beside(c->in[0].dtype, c->out[1].is_wanted);
  bool is_short = length(c) <= SHORT_ROW && order_has_networks();
  if (!length(c)) return NULL; /* and no memory: nobody could say which results are wanted */
  for (; is_short && to - from >= n_rows; from += n_rows) {
    struct row r[MOST_BESIDE];
    for (int k = 0; k < n_rows; k++) r[k] = row_at(c, from + k, scratch);
    sort_beside(r, n_rows);
  }
  for (; from < to; from++) {
    struct row r = row_at(c, from, scratch);
    sort_row(&r);
  }
  return NULL;
}

/* Rows side by side have the second row of entries and the counts, which their keys and places fit in. */
static size_t scratch(const struct library_call *c) { return 2 * entries_bytes(c) + sizeof(int64_t[ORDER_COUNTS]); }
_Static_assert(2 * ORDER_BESIDE * SHORT_ROW <= sizeof(int64_t[ORDER_COUNTS]), "short rows side by side have room");

static double operations(const struct library_call *c) {
  double per_element = 1;
  for (int64_t n = length(c); n > 1; n /= 2) per_element++;
  return (double)c->n_problems * (double)length(c) * per_element;
}

static const struct library steps = { .core = 1, .parts = parts, .reads_all = true, .operations = operations, .scratch = scratch,
                                      .run = run, .routine = "sort" };

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

static weft_array *sorted(const char *fn, weft_array *x, int axis, int which) {
  struct node *n;
  weft_array *bad, *out[2];
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, (weft_dtype)n->dtype) : axis_check(fn, n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  weft_array *last = weft_moveaxis(array_of(n), axis, -1);
  if (!(n = array_good_node(last))) return last;
  library_apply(&op_sort, 1, &n, NULL, 0, 2, out);
  node_release(n);
  return weft_moveaxis(out[which], -1, axis);
}

weft_array *weft_sort(weft_array *x, int axis) { return COMPOSED(sorted("weft_sort", x, axis, 0)); }
weft_array *weft_argsort(weft_array *x, int axis) { return COMPOSED(sorted("weft_argsort", x, axis, 1)); }
