/* select.c -- the elements of some ranks along an axis, without sorting the others: a library step with two results, the elements
 * in order and where each stood. What is composed of it: the largest k, and partitions.
 *
 * What may have one of the ranks is narrowed down. Of a long row a sample tells between which keys they are, but for bad luck: one
 * look at the row then counts what is certain to come before and takes what is between, by parts where there are threads. Of a
 * short one, or with bad luck, the range from the least key to the largest is cut into equal parts, their elements are counted, and
 * only those parts stay in which ranks lie. What stays is sorted when it is little more than what was asked for. */
#include "op/select.h"
#include "op/digits.h"

/* ---- narrowing down ---- */

enum {
  STRETCHES = 1 << 11,
  LITTLE = 512      /* so many are sorted rather than narrowed down */
};

/* The ranks first .. last among n elements that are left. */
struct ranks { int64_t n, first, last; };
struct extent { uint64_t least, most; };
struct stretches_kept { int shift; uint64_t from, to; };

ORDER_INLINE void extend(struct extent *x, uint64_t key) {
  x->least = key < x->least ? key : x->least;
  x->most = key > x->most ? key : x->most;
}

/* How far keys are shifted so that the extent has STRETCHES stretches at most. */
static int shift_of(const struct extent *x) {
  int shift = 0;
  while ((x->most - x->least) >> shift >= STRETCHES) shift++;
  return shift;
}

/* Which stretches hold the ranks, and what they are among the elements of those. */
static struct stretches_kept keep(const int64_t count[STRETCHES], int shift, struct ranks *r) {
  struct stretches_kept k = { .shift = shift };
  int64_t before = 0, n = 0;
  while (before + count[k.from] <= r->first) before += count[k.from++];
  for (k.to = k.from, n = count[k.to]; before + n <= r->last;) n += count[++k.to];
  *r = (struct ranks){ n, r->first - before, r->last - before };
  return k;
}

ORDER_INLINE bool is_kept(const struct stretches_kept *k, const struct extent *x, uint64_t key) {
  uint64_t part = (key - x->least) >> k->shift;
  return part >= k->from && part <= k->to;
}

/* The elements of a row that may have the ranks, as entries. */
ORDER_INLINE void narrow_row(const uint8_t *from, struct order_keys of, int bytes, struct ranks *r, struct order_entry *e,
                             int64_t count[]) {
  struct extent x = { UINT64_MAX, 0 };
  int64_t n = r->n, m = 0;
  for (int64_t i = 0; i < n; i++) extend(&x, order_key_of(&of, order_load(from, i, bytes)));
  int shift = shift_of(&x);
  memset(count, 0, sizeof *count * STRETCHES);
  for (int64_t i = 0; i < n; i++) count[(order_key_of(&of, order_load(from, i, bytes)) - x.least) >> shift]++;
  struct stretches_kept k = keep(count, shift, r);
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = order_key_of(&of, order_load(from, i, bytes));
    e[m] = (struct order_entry){ key, i };
    m += is_kept(&k, &x, key);
  }
}

/* The same of entries, in place. False: they are all equal, and stand in order. */
static bool narrow(struct order_entry e[], struct ranks *r, int64_t count[]) {
  struct extent x = { UINT64_MAX, 0 };
  int64_t n = r->n, m = 0;
  for (int64_t i = 0; i < n; i++) extend(&x, e[i].key);
  if (x.least == x.most) return false;
  int shift = shift_of(&x);
  memset(count, 0, sizeof *count * STRETCHES);
  for (int64_t i = 0; i < n; i++) count[(e[i].key - x.least) >> shift]++;
  struct stretches_kept k = keep(count, shift, r);
  for (int64_t i = 0; i < n; i++) {
    e[m] = e[i];
    m += is_kept(&k, &x, e[i].key);
  }
  return true;
}

static bool is_little(const struct ranks *r) { return r->n <= LITTLE || r->n / 4 <= r->last - r->first + 1; }

/* What is left of a row in order, from the first rank on. */
static const struct order_entry *narrowed(struct ranks r, struct order_entry *e, struct order_entry *other, int64_t count[]) {
  for (int64_t n = 0; !is_little(&r) && r.n != n;) { /* two ranks in the first stretch and the last may keep all of them */
    n = r.n;
    if (!narrow(e, &r, count)) return e + r.first;
  }
  return order_sort(e, other, r.n, count) + r.first;
}

/* Of a row of r.n elements, the entries of the ranks in order. e and other: room for n + 1 each. */
static const struct order_entry *selected(const uint8_t *from, struct order_keys k, struct ranks r, struct order_entry *e,
                                          struct order_entry *other, int64_t count[]) {
  switch (k.bytes) {
    case 1: narrow_row(from, k, 1, &r, e, count); break;
    case 2: narrow_row(from, k, 2, &r, e, count); break;
    case 4: narrow_row(from, k, 4, &r, e, count); break;
    default: narrow_row(from, k, 8, &r, e, count); break;
  }
  return narrowed(r, e, other, count);
}

/* ---- a long row: a sample, and one look ---- */

enum {
  LONG = 1 << 14, SAMPLE = 1024, /* of so many elements some are a sample, and more where there are more */
  VERY_LONG = 1 << 18, LARGE_SAMPLE = 4096,
  BLOCK = 64                     /* elements that are looked at together: often none of them is between */
};

struct between { uint64_t low, high; };

static int64_t sample_of(int64_t n) { return n < VERY_LONG ? SAMPLE : LARGE_SAMPLE; }

/* A place of each of equal shares of the row, as if drawn: any fixed step might be that of the data. */
static int64_t sample_place(int64_t n, int64_t i) {
  int64_t each = n / sample_of(n);
  uint64_t word = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
  return each * i + (int64_t)((word ^ word >> 29) * 0xbf58476d1ce4e5b9u >> 32) % each;
}

/* How many of the sample a rank may be off: four times what its place varies by, and fewer near the ends, where it varies by the
 * root of how far from the end it is. */
static int64_t margin(int64_t sample, int64_t at) {
  int64_t root = 1, end = at < sample - at ? at : sample - at;
  while (root * root < sample) root++;
  return end / 2 + 8 < 2 * root + 4 ? end / 2 + 8 : 2 * root + 4;
}

/* Between which keys the ranks are, most probably. room: for the sample, twice. */
static struct between guess(const uint8_t *from, const struct order_keys *k, const struct ranks *r, uint64_t *room,
                            int64_t count[]) {
  int64_t n = sample_of(r->n);
  for (int64_t i = 0; i < n; i++) room[i] = order_key_of(k, order_load(from, sample_place(r->n, i), k->bytes));
  const uint64_t *sorted = (void *)digits_sort((void *)room, (void *)(room + n), n, 8, 0, count);
  double share = (double)n / (double)r->n;
  int64_t low = (int64_t)((double)r->first * share), high = (int64_t)((double)r->last * share) + 1;
  int64_t below = margin(n, low), above = margin(n, high);
  return (struct between){ low - below < 0 ? 0 : sorted[low - below], high + above >= n ? UINT64_MAX : sorted[high + above] };
}

/* Elements of a part of the row that are between, as entries; returns how many there are, and in *below those before them. */
struct scan {
  const uint8_t *from;       /* the row */
  struct order_keys keys;
  struct between between;
  int64_t begin, end;
  struct order_entry *e;     /* room for one more than there are */
};

ORDER_INLINE int64_t take_between(const struct scan *s, int bytes, int64_t begin, int64_t end, int64_t m, int64_t *below) {
  uint64_t low = s->between.low, span = s->between.high - low;
  int64_t less = 0;
  for (int64_t i = begin; i < end; i++) {
    uint64_t key = order_key_of(&s->keys, order_load(s->from, i, bytes));
    s->e[m] = (struct order_entry){ key, i };
    m += key - low <= span, less += key < low;
  }
  *below += less;
  return m;
}

#define LOOPS "op/select_loops.h"
#define LANE_BYTES 4
#include "op/lanes.h"

static int64_t scan_row(const struct scan *s, int64_t *below) {
  *below = 0;
  switch (s->keys.bytes) {
    case 1: return take_between(s, 1, s->begin, s->end, 0, below);
    case 2: return take_between(s, 2, s->begin, s->end, 0, below);
    case 4: return HERE(scan_32)(s, below);
  }
  return HERE(scan_64)(s, below);
}

/* So few ranks that a sample can tell where they are. */
static bool is_sampled(const struct ranks *r) { return r->n >= LONG && r->last - r->first < r->n / 4; }

/* What was found between, and the ranks among it. False: bad luck, they are not there. */
static bool is_found(struct ranks *r, int64_t n, int64_t below) {
  *r = (struct ranks){ n, r->first - below, r->last - below };
  return r->first >= 0 && r->last < n;
}

/* ---- the step: in x[.., n]; out y[.., count], order[.., count] ---- */

enum { PARTS = 16, FEW_ROWS = 8, WORTH_PARTS = 1 << 16 };

static int64_t length(const struct library_call *c) { return c->in[0].dims[c->in[0].rank - 1]; }
static int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static struct ranks ranks_of(const struct library_call *c) {
  const struct select_attr *a = c->attr;
  int64_t n = length(c), first = select_first(a, n);
  return (struct ranks){ n, inside(first, n), inside(first + a->count - 1, n) };
}

/* Few long rows are looked at by parts: in one round all parts take what is between, in the other the first one ends it. */
static int64_t parts(const struct library_call *c) {
  if (c->n_problems > FEW_ROWS || length(c) < WORTH_PARTS) return 1;
  struct ranks r = ranks_of(c);
  return is_sampled(&r) ? PARTS : 1;
}
static bool is_cut(const struct library_call *c) { return parts(c) > 1 && c->n_ranges > c->n_problems; }
static int rounds(const struct library_call *c) { return is_cut(c) ? 2 : 1; }

/* Entries of a row, each part with one more that is overwritten. */
static size_t entries_bytes(const struct library_call *c) { return sizeof(struct order_entry) * (size_t)(length(c) + PARTS); }

/* What a thread works in: counts, and room for a sample or for entries, twice. */
struct select_room { int64_t *count; struct order_entry *e, *other; };

static struct select_room room_in(const struct library_call *c, void *at) {
  uint8_t *e = (uint8_t *)at + sizeof(int64_t[ORDER_COUNTS]);
  return (struct select_room){ at, (void *)e, (void *)(e + entries_bytes(c)) };
}

static size_t scratch(const struct library_call *c) {
  return sizeof(int64_t[ORDER_COUNTS]) + (is_cut(c) ? sizeof(uint64_t[2 * LARGE_SAMPLE]) : 2 * entries_bytes(c));
}

/* What parts of a row tell of themselves, then room for it. */
struct row_parts { int64_t n[PARTS], below[PARTS]; };
static size_t row_bytes(const struct library_call *c) {
  size_t bytes = sizeof(struct row_parts) + sizeof(int64_t[ORDER_COUNTS]) + 2 * entries_bytes(c);
  return (bytes + 63) / 64 * 64;
}
static size_t shared(const struct library_call *c) { return is_cut(c) ? (size_t)c->n_problems * row_bytes(c) : 0; }

static void put_row(const struct library_call *c, int64_t i, const struct order_entry *found) {
  const struct select_attr *a = c->attr;
  int64_t n = length(c), first = select_first(a, n), *order = (int64_t *)(void *)(c->out[1].data + i * c->out[1].each);
  size_t bytes = weft_dtype_bytes(c->in[0].dtype);
  uint8_t *from = c->in[0].data + i * c->in[0].each, *y = c->out[0].data + i * c->out[0].each;
  for (int64_t k = 0; k < a->count; k++) {
    order[k] = found[inside(first + k, n) - inside(first, n)].at;
    memcpy(y + (size_t)k * bytes, from + (size_t)order[k] * bytes, bytes);
  }
}

static struct scan scan_of(const struct library_call *c, int64_t i, int part, int n_parts, struct order_entry *e) {
  int64_t n = length(c), each = n / n_parts;
  return (struct scan){ c->in[0].data + i * c->in[0].each, order_keys_of(c->in[0].dtype), { 0, 0 }, each * part,
                        part == n_parts - 1 ? n : each * (part + 1), e + each * part + part };
}

static void select_row(const struct library_call *c, int64_t i, void *scratch) {
  struct select_room room = room_in(c, scratch);
  struct ranks r = ranks_of(c), all = r;
  struct scan s = scan_of(c, i, 0, 1, room.e);
  int64_t below, n;
  if (is_sampled(&r)) {
    s.between = guess(s.from, &s.keys, &r, (uint64_t *)room.e, room.count);
    n = scan_row(&s, &below);
    if (is_found(&r, n, below)) { put_row(c, i, narrowed(r, room.e, room.other, room.count)); return; }
  }
  put_row(c, i, selected(s.from, s.keys, all, room.e, room.other, room.count));
}

/* Together what parts found, each in its own place. */
static void gather_parts(const struct library_call *c, const struct row_parts *x, struct order_entry *e, int64_t *n,
                         int64_t *below) {
  int64_t each = length(c) / PARTS;
  *n = *below = 0;
  for (int p = 0; p < PARTS; p++) {
    memmove(e + *n, e + each * p + p, sizeof *e * (size_t)x->n[p]);
    *n += x->n[p], *below += x->below[p];
  }
}

static void part_round(const struct library_call *c, int64_t i, int part, void *scratch) {
  struct row_parts *x = (void *)((uint8_t *)c->shared + (size_t)i * row_bytes(c));
  struct select_room room = room_in(c, x + 1);
  struct ranks r = ranks_of(c), all = r;
  struct scan s = scan_of(c, i, part, PARTS, room.e);
  int64_t n, below;
  if (!c->round) {
    s.between = guess(s.from, &s.keys, &r, (uint64_t *)scratch + ORDER_COUNTS, scratch);
    x->n[part] = scan_row(&s, &x->below[part]);
  } else if (!part) {
    gather_parts(c, x, room.e, &n, &below);
    put_row(c, i, is_found(&r, n, below) ? narrowed(r, room.e, room.other, room.count)
                                         : selected(s.from, s.keys, all, room.e, room.other, room.count));
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  if (!c->out[1].each) return NULL;
  if (!length(c)) /* as in weft_max of nothing: the public functions refuse what they can see */
    for (int k = 0; k < 2; k++) memset(c->out[k].data + from * c->out[k].each, 0, (size_t)((to - from) * c->out[k].each));
  else if (is_cut(c)) for (int64_t i = from; i < to; i++) part_round(c, i / PARTS, (int)(i % PARTS), scratch);
  else for (int64_t i = from / parts(c); i < to / parts(c); i++) select_row(c, i, scratch);
  return NULL;
}

static double operations(const struct library_call *c) { return 8.0 * (double)c->n_problems * (double)length(c); }

/* The first rank, which may be beyond an end, and how many there are. */
static void numbers(const struct library_call *c, int64_t number[]) {
  const struct select_attr *a = c->attr;
  number[0] = select_first(a, length(c)), number[1] = a->count;
}

static const struct library steps = { .core = 1, .parts = parts, .rounds = rounds, .shared = shared, .operations = operations,
                                      .scratch = scratch, .run = run, .routine = "select",
                                      .numbers = numbers };

/* ---- rules ---- */

static int n_results(const struct node *n) { return (void)n, 2; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  *rank = x->rank;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 1] = ((const struct select_attr *)n->attr)->count;
  return k ? WEFT_I64 : (weft_dtype)x->dtype;
}

static weft_array *order_of(const struct rule *r) {
  weft_array *out[2];
  library_apply(&op_select, 1, &r->in[0]->node, r->node->attr, r->node->attr_bytes, 2, out);
  return out[1];
}

/* y = x[order]; where ranks beyond an end are the same element, their cotangents meet. */
static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  weft_array *zero = weft_full_like(r->in[0], 0);
  if (is_wanted[0] && dy[0]) dx[0] = weft_put(zero, weft_take_along(zero, -1, order_of(r)), dy[0], WEFT_ADD);
}

weft_array *array_standing_at(weft_array *rows, weft_array *at) {
  const struct node *n = rows->node;
  bool is_open = n->rank && !dim_is_known(n->dims[n->rank - 1]); /* place 0 of none is one more, which nobody looks at */
  if (is_open) rows = weft_pad(rows, -1, 0, 1, number_like(rows, 0));
  while (weft_rank(at) >= 0 && weft_rank(at) < weft_rank(rows)) at = weft_unsqueeze(at, 0);
  return weft_take_along(rows, -1, at);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (dx[0]) dy[0] = array_standing_at(dx[0], order_of(r));
}

static const struct many results = { n_results, type, vjp, jvp, library_batch };
const struct op op_select = { .name = "select", .kind = OP_LIBRARY, .again = library_again, .many = &results, .library = &steps };

void array_select(weft_array *x, const struct select_attr *a, weft_array *y[2]) {
  struct node *n = array_good_node(x);
  if (!n) y[0] = y[1] = x;
  else if (dtype_is_complex(n->dtype)) y[0] = y[1] = array_failed(not_of("weft_select", (weft_dtype)n->dtype));
  else library_apply(&op_select, 1, &n, a, sizeof *a, 2, y);
  node_release(n);
}

/* ---- the public calls ---- */

/* x with the axis last, once it is known that there are k ranks; typed: what messages say of it. NULL: *bad. */
static weft_array *turned(const char *fn, weft_array *x, int *axis, int64_t k, int64_t typed, weft_array **bad) {
  struct node *n;
  struct shape_text s;
  if (!operands(fn, 1, &x, &n, bad)) return NULL;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, (weft_dtype)n->dtype) : axis_check(fn, n, axis);
  if (!why && k < 0) why = fail(WEFT_ERR_ARG, scope_origin(), "%s: k is %lld", fn, (long long)typed);
  if (!why && !slice_meets(fn, WEFT_ERR_SHAPE, n->dims[*axis], 0, k, 1))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: k is %lld, beyond axis %d of %s", fn, (long long)typed, *axis,
               shape_show(n, &s));
  if (why) return *bad = array_of_bad(why, 1, &n), NULL;
  bool is_open = !dim_is_known(n->dims[*axis]);
  x = array_of(n);
  if (is_open) x = array_sized_by(x, array_slice(x, *axis, 0, k, 1)); /* which fails if there are fewer */
  return weft_moveaxis(x, *axis, -1);
}

/* The k last in order, the last first. */
static weft_array *largest(const char *fn, weft_array *x, int axis, int64_t k, int which) {
  weft_array *bad, *last = turned(fn, x, &axis, k, k, &bad), *y[2];
  if (!last) return bad;
  array_select(last, &(struct select_attr){ .times = 1, .plus = -k, .over = 1, .count = k }, y);
  return weft_moveaxis(weft_flip(y[which], -1), -1, axis);
}

weft_array *weft_topk(weft_array *x, int axis, int64_t k) { return COMPOSED(largest("weft_topk", x, axis, k, 0)); }
weft_array *weft_argtopk(weft_array *x, int axis, int64_t k) { return COMPOSED(largest("weft_argtopk", x, axis, k, 1)); }

/* Where a is -0: 1 / a tells, in f32 at least, as e4m3 has no infinity. */
static weft_array *is_minus_0(weft_array *a) {
  weft_array *x = weft_dtype_of(a) == WEFT_F64 ? a : weft_cast(a, WEFT_F32), *zero = number_like(x, 0);
  return weft_and(weft_eq(x, zero), weft_lt(weft_reciprocal(x), zero));
}

/* a comes before b; is_first: it stands before it. */
static weft_array *precedes(weft_array *a, weft_array *b, weft_array *is_first) {
  weft_array *less = weft_lt(a, b), *same = weft_eq(a, b);
  if (dtype_is_float(weft_dtype_of(a))) {
    weft_array *a_nan = weft_isnan(a), *b_nan = weft_isnan(b), *a_low = is_minus_0(a), *b_low = is_minus_0(b);
    less = weft_or(weft_or(less, weft_and(b_nan, weft_not(a_nan))), weft_and(same, weft_and(a_low, weft_not(b_low))));
    same = weft_or(weft_and(same, weft_eq(a_low, b_low)), weft_and(a_nan, b_nan));
  }
  return weft_or(less, weft_and(same, is_first));
}

/* Where what comes before the element of rank k stands, then that element, then the others, each as they stood: the order of
 * x's elements by which of the three they are. */
static weft_array *parted(weft_array *last, int64_t k) {
  weft_array *y[2];
  array_select(last, &(struct select_attr){ .times = k < 0, .plus = k, .over = 1, .count = 1 }, y);
  weft_array *x = weft_dtype_of(last) == WEFT_BOOL ? weft_cast(last, WEFT_U8) : last;
  weft_array *it = weft_dtype_of(last) == WEFT_BOOL ? weft_cast(y[0], WEFT_U8) : y[0];
  weft_array *place = weft_iota(weft_cast(last, WEFT_I64), -1);
  weft_array *class = weft_where(precedes(x, it, weft_lt(place, y[1])), weft_integer(0),
                                 weft_where(weft_eq(place, y[1]), weft_integer(1), weft_integer(2)));
  return weft_argsort(weft_cast(class, WEFT_U8), -1);
}

static weft_array *partitioned(const char *fn, weft_array *x, int axis, int64_t k, bool is_order) {
  weft_array *bad, *last = turned(fn, x, &axis, k < 0 ? -k : k + 1, k, &bad);
  if (!last) return bad;
  weft_array *order = parted(last, k);
  return weft_moveaxis(is_order ? order : weft_take_along(last, -1, order), -1, axis);
}

weft_array *weft_partition(weft_array *x, int axis, int64_t k) {
  return COMPOSED(partitioned("weft_partition", x, axis, k, false));
}
weft_array *weft_argpartition(weft_array *x, int axis, int64_t k) {
  return COMPOSED(partitioned("weft_argpartition", x, axis, k, true));
}
