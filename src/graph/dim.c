/* dim.c -- interned polynomials over symbols with integer coefficients.
 *
 * A symbol is its own number and needs no entry: the dim -(2k+1) is symbol k. Any other polynomial is an entry of the
 * table: the dim -(2k+2) is entry k. Both count from 1, which leaves WEFT_ANY and WEFT_SAME free. Numbers of entries are
 * never used twice, so that a dim kept too long is a dim nobody knows, and not another one. */
#include "graph/dim.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "base/hash.h"
#include "base/mem.h"
#include "graph/copy.h"

enum { DEGREE = 6, TERMS = 32 };

struct term { int64_t coef; int64_t symbol[DEGREE]; int degree; }; /* symbols ascend; unused ones are 0 */
struct poly { int n; bool failed; struct term term[TERMS]; };      /* terms descend by `order`; no coefficient is 0 */

struct interned { uint64_t hash; int n; struct term term[]; };

pthread_mutex_t dim_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct interned **entries;  /* entry k is entries[k - first] */
static int64_t first = 1, n_entries, room;
static int64_t n_retained;      /* by nodes: entries go when it reaches 0 */
static _Atomic int64_t n_symbols = 1;

dim dim_symbol(void) { return -(2 * atomic_fetch_add(&n_symbols, 1) + 1); }

bool dim_is_symbol(dim d) { return d < 0 && d != DIM_BAD && (d & 1); }

/* ---- Polynomials on the stack ---- */

/* Higher degree first, then smaller symbols first: a monomial order, so that leading terms multiply. */
static int order(const struct term *a, const struct term *b) {
  if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
  for (int i = 0; i < a->degree; i++)
    if (a->symbol[i] != b->symbol[i]) return a->symbol[i] > b->symbol[i] ? -1 : 1;
  return 0;
}

static void add_term(struct poly *p, const struct term *t) {
  int i = 0;
  while (i < p->n && order(&p->term[i], t) < 0) i++;
  bool merges = i < p->n && order(&p->term[i], t) == 0;
  if (merges) {
    p->failed |= __builtin_add_overflow(p->term[i].coef, t->coef, &p->term[i].coef);
    if (p->term[i].coef == 0) memmove(&p->term[i], &p->term[i + 1], (size_t)(--p->n - i) * sizeof *t);
    return;
  }
  if (t->coef == 0) return;
  if (p->n == TERMS) {
    p->failed = true;
    return;
  }
  memmove(&p->term[i + 1], &p->term[i], (size_t)(p->n++ - i) * sizeof *t);
  p->term[i] = *t;
}

static bool multiply_terms(const struct term *a, const struct term *b, struct term *out) {
  *out = (struct term){ .degree = a->degree + b->degree };
  if (out->degree > DEGREE || __builtin_mul_overflow(a->coef, b->coef, &out->coef)) return false;
  for (int i = 0, j = 0, k = 0; k < out->degree; k++)
    out->symbol[k] = j == b->degree || (i < a->degree && a->symbol[i] <= b->symbol[j]) ? a->symbol[i++]
                                                                                       : b->symbol[j++];
  return true;
}

static bool divide_terms(const struct term *a, const struct term *b, struct term *out) {
  *out = (struct term){ 0 };
  if (a->coef % b->coef || (a->coef == INT64_MIN && b->coef == -1)) return false;
  out->coef = a->coef / b->coef;
  int j = 0;
  for (int i = 0; i < a->degree; i++) {
    if (j < b->degree && a->symbol[i] == b->symbol[j]) j++;
    else out->symbol[out->degree++] = a->symbol[i];
  }
  return j == b->degree;
}

/* p += scale * q */
static void add_scaled(struct poly *p, const struct poly *q, const struct term *scale) {
  for (int i = 0; i < q->n; i++) {
    struct term t;
    if (multiply_terms(&q->term[i], scale, &t)) add_term(p, &t);
    else p->failed = true;
  }
  p->failed |= q->failed;
}

static struct poly number(int64_t x) { return (struct poly){ .n = x != 0, .term = { { .coef = x } } }; }

static struct poly poly_of(dim d) {
  if (d >= 0) return number(d);
  struct poly p = { .failed = d == DIM_BAD };
  if (dim_is_symbol(d)) {
    p.n = 1;
    p.term[0] = (struct term){ .coef = 1, .symbol = { d }, .degree = 1 };
  } else if (!p.failed) {
    pthread_mutex_lock(&dim_mutex);
    int64_t k = -(d + 2) / 2 - first;
    p.failed = k < 0 || k >= n_entries;
    if (!p.failed) memcpy(p.term, entries[k]->term, (size_t)(p.n = entries[k]->n) * sizeof *p.term);
    pthread_mutex_unlock(&dim_mutex);
  }
  return p;
}

/* ---- Interning ---- */

static struct interned *entry_new(const struct poly *p, uint64_t hash) {
  struct interned *e = mem_alloc(sizeof *e + (size_t)p->n * sizeof *p->term);
  if (!e) return NULL;
  e->hash = hash;
  e->n = p->n;
  memcpy(e->term, p->term, (size_t)p->n * sizeof *p->term);
  return e;
}

static bool reserve(void) {
  if (n_entries < room) return true;
  int64_t more = room ? 2 * room : 64;
  struct interned **grown = mem_resize(entries, (size_t)more * sizeof *grown);
  if (!grown) return false;
  entries = grown;
  room = more;
  return true;
}

static dim find_or_add(const struct poly *p) {
  uint64_t hash = hash_bytes(p->term, (size_t)p->n * sizeof *p->term);
  for (int64_t k = 0; k < n_entries; k++)
    if (entries[k]->hash == hash && entries[k]->n == p->n &&
        !memcmp(entries[k]->term, p->term, (size_t)p->n * sizeof *p->term))
      return -(2 * (first + k) + 2);
  struct interned *e = reserve() ? entry_new(p, hash) : NULL;
  if (!e) return DIM_BAD;
  entries[n_entries] = e;
  return -(2 * (first + n_entries++) + 2);
}

static dim intern(const struct poly *p) {
  if (p->failed) return DIM_BAD;
  if (p->n == 0) return 0;
  const struct term *t = p->term;
  if (p->n == 1 && t->degree == 0) return t->coef < 0 ? DIM_BAD : t->coef;
  if (p->n == 1 && t->degree == 1 && t->coef == 1) return t->symbol[0];
  pthread_mutex_lock(&dim_mutex);
  dim d = find_or_add(p);
  pthread_mutex_unlock(&dim_mutex);
  return d;
}

void dim_retain(dim d) {
  if (dim_is_known(d)) return;
  pthread_mutex_lock(&dim_mutex);
  n_retained++;
  pthread_mutex_unlock(&dim_mutex);
}

/* ---- Symbols whose number is known by now: the length of a loop that has run ----
 * In the order in which they were made. They go with the entries, or before, when nobody mentions them. */

struct settled { dim symbol; int64_t value; };
static struct { struct settled *at; int n, room; } bound;
static _Thread_local struct dim_table *noted;

struct dim_table *dim_note(struct dim_table *into) {
  struct dim_table *before = noted;
  noted = into;
  return before;
}

/* Where it stands, or would; later symbols are smaller numbers. Lock held, as in what follows. */
static int place_of(dim symbol) {
  int low = 0, high = bound.n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (bound.at[middle].symbol > symbol) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool is_bound(int k, dim symbol) { return k < bound.n && bound.at[k].symbol == symbol; }

static bool bind(dim symbol, int64_t value) {
  int k = place_of(symbol);
  if (is_bound(k, symbol)) return true;
  if (bound.n == bound.room) {
    int more = bound.room ? 2 * bound.room : 16;
    struct settled *grown = mem_resize(bound.at, (size_t)more * sizeof *grown);
    if (!grown) return false;
    bound.at = grown;
    bound.room = more;
  }
  memmove(bound.at + k + 1, bound.at + k, (size_t)(bound.n++ - k) * sizeof *bound.at);
  bound.at[k] = (struct settled){ symbol, value };
  return true;
}

bool dim_bind(dim symbol, int64_t value) {
  if (noted && !dim_table_add(noted, symbol, value)) return false;
  pthread_mutex_lock(&dim_mutex);
  bool ok = bind(symbol, value);
  pthread_mutex_unlock(&dim_mutex);
  return ok;
}

void dim_unbind(const struct dim_table *t, dim since) {
  pthread_mutex_lock(&dim_mutex);
  for (int i = 0; i < t->n; i++) {
    int k = place_of(t->symbol[i]);
    if (t->symbol[i] < since && is_bound(k, t->symbol[i]))
      memmove(bound.at + k, bound.at + k + 1, (size_t)(--bound.n - k) * sizeof *bound.at);
  }
  pthread_mutex_unlock(&dim_mutex);
}

/* The symbols of d that have a number, and their numbers. */
static int bound_in(dim d, dim symbol[], dim value[]) {
  struct poly p = poly_of(d);
  int n = 0;
  pthread_mutex_lock(&dim_mutex);
  for (int i = 0; i < p.n; i++)
    for (int j = 0; j < p.term[i].degree; j++) {
      int k = place_of(p.term[i].symbol[j]);
      if (is_bound(k, p.term[i].symbol[j])) symbol[n] = p.term[i].symbol[j], value[n++] = bound.at[k].value;
    }
  pthread_mutex_unlock(&dim_mutex);
  return n;
}

dim dim_resolve(dim d) {
  if (dim_is_known(d) || d == DIM_BAD) return d;
  dim symbol[TERMS * DEGREE], value[TERMS * DEGREE];
  int n = bound_in(d, symbol, value);
  return n ? dim_substitute(d, n, symbol, value) : d;
}

static void forget_entries(void) {
  mem_free(bound.at);
  bound.at = NULL;
  bound.n = bound.room = 0;
  for (int64_t k = 0; k < n_entries; k++) mem_free(entries[k]);
  mem_free(entries);
  first += n_entries;
  entries = NULL;
  n_entries = room = 0;
}

void dim_release(dim d) {
  if (dim_is_known(d)) return;
  pthread_mutex_lock(&dim_mutex);
  if (--n_retained == 0) forget_entries();
  pthread_mutex_unlock(&dim_mutex);
}

/* ---- Arithmetic ---- */

static const struct term one = { .coef = 1 }, minus_one = { .coef = -1 };

dim dim_add(dim a, dim b) {
  int64_t sum;
  if (a >= 0 && b >= 0) return __builtin_add_overflow(a, b, &sum) ? DIM_BAD : sum;
  struct poly p = poly_of(a), q = poly_of(b);
  add_scaled(&p, &q, &one);
  return intern(&p);
}

dim dim_sub(dim a, dim b) {
  if (a >= 0 && b >= 0) return a < b ? DIM_BAD : a - b;
  if (a == b) return a == DIM_BAD ? DIM_BAD : 0;
  struct poly p = poly_of(a), q = poly_of(b);
  add_scaled(&p, &q, &minus_one);
  return intern(&p);
}

bool dim_differs(dim a, dim b) {
  if (a == b || a == DIM_BAD || b == DIM_BAD) return false;
  if (a >= 0 && b >= 0) return true;
  struct poly p = poly_of(a), q = poly_of(b);
  add_scaled(&p, &q, &minus_one);
  return !p.failed && p.n == 1 && p.term[0].degree == 0;
}

bool dim_slice_fits(dim size, dim start, dim length, int64_t step) {
  if (length == 0 || !dim_is_known(size) || !dim_is_known(start) || !dim_is_known(length)) return true;
  __int128 last = start + (__int128)(length - 1) * step;
  return start < size && last >= 0 && last < size;
}

static struct poly product(const struct poly *a, const struct poly *b) {
  struct poly p = { .failed = a->failed || b->failed };
  for (int i = 0; i < a->n; i++) add_scaled(&p, b, &a->term[i]);
  return p;
}

dim dim_mul(dim a, dim b) {
  int64_t known;
  if (a >= 0 && b >= 0) return __builtin_mul_overflow(a, b, &known) ? DIM_BAD : known;
  struct poly p = poly_of(a), q = poly_of(b), r = product(&p, &q);
  return intern(&r);
}

/* Division by the leading term, as on paper. */
bool dim_divide(dim a, dim b, dim *quotient) {
  if (b == 0 || a == DIM_BAD || b == DIM_BAD) return false;
  struct poly p = poly_of(a), q = poly_of(b), out = { 0 };
  while (p.n && !p.failed && q.n && !q.failed) {
    struct term t;
    if (!divide_terms(&p.term[0], &q.term[0], &t)) return false;
    add_term(&out, &t);
    t.coef = -t.coef;
    add_scaled(&p, &q, &t);
  }
  if (p.failed || q.failed) return false;
  return (*quotient = intern(&out)) != DIM_BAD;
}

static int index_of(dim d, int n, const dim list[]) {
  for (int i = 0; i < n; i++)
    if (list[i] == d) return i;
  return -1;
}

static struct poly substituted(dim d, int n, const dim symbol[], const dim value[]) {
  struct poly p = poly_of(d), sum = { .failed = p.failed };
  for (int i = 0; i < p.n; i++) {
    struct poly t = number(p.term[i].coef);
    for (int j = 0; j < p.term[i].degree; j++) {
      dim s = p.term[i].symbol[j];
      int k = index_of(s, n, symbol);
      struct poly factor = poly_of(k < 0 ? s : value[k]);
      t = product(&t, &factor);
    }
    add_scaled(&sum, &t, &one);
  }
  return sum;
}

dim dim_substitute(dim d, int n, const dim symbol[], const dim value[]) {
  if (d >= 0 || d == DIM_BAD) return d;
  if (dim_is_symbol(d)) {
    int k = index_of(d, n, symbol);
    return k < 0 ? d : value[k];
  }
  struct poly p = substituted(d, n, symbol, value);
  return intern(&p);
}

bool dim_is_negative(dim d) {
  if (dim_is_known(d) || d == DIM_BAD) return false;
  dim symbol[TERMS * DEGREE], value[TERMS * DEGREE];
  int n = bound_in(d, symbol, value);
  struct poly p = substituted(d, n, symbol, value);
  return !p.failed && p.n == 1 && !p.term[0].degree && p.term[0].coef < 0;
}

int64_t dim_value(dim d, int n, const dim symbol[], const int64_t value[]) {
  dim v = dim_substitute(d, n, symbol, value);
  return v >= 0 ? v : -1;
}

dim dim_count(int rank, const dim dims[]) {
  dim count = 1;
  for (int i = 0; i < rank; i++)
    if (dims[i] == 0) return 0;
  for (int i = 0; i < rank; i++) count = dim_mul(count, dims[i]);
  return count > (int64_t)1 << 60 ? DIM_BAD : count;
}

/* ---- Text ---- */

static void print_term(const struct term *t, bool is_first, struct text *out) {
  uint64_t size = t->coef < 0 ? -(uint64_t)t->coef : (uint64_t)t->coef;
  text_add(out, t->coef < 0 ? "-" : is_first ? "" : "+");
  if (size != 1 || !t->degree) text_addf(out, "%llu%s", (unsigned long long)size, t->degree ? "*" : "");
  for (int i = t->degree - 1; i >= 0; i--) text_addf(out, "n%lld%s", (long long)(-t->symbol[i] / 2), i ? "*" : "");
}

void dim_print(dim d, struct text *out) {
  struct poly p = poly_of(d);
  if (p.failed || p.n == 0) text_add(out, p.failed ? "?" : "0");
  else
    for (int i = 0; i < p.n; i++) print_term(&p.term[i], i == 0, out);
}
