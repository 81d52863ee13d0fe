/* dim.c -- interned polynomials over atoms with integer coefficients.
 *
 * An atom is a symbol, or one of three functions of polynomials: above(a) = max(a, 0), quotient(a, b) = floor(a / b), and
 * times(a, b) = a b of sizes whose product has too many terms, or too many factors, to be written out. All others are written with
 * them: min(a, b) = a - above(a - b). What is known of an atom is taken out of it when it is made, so that sizes which are equal
 * for simple reasons are equal integers; products that are not written out may be equal and not seen to be.
 *
 * The dim -(2k+1) is symbol k, the dim -(2k+2) any other atom or polynomial, number k. Both count from 1, which leaves WEFT_ANY
 * and WEFT_SAME free. No number is used twice, so that a dim kept too long is a dim nobody knows, and not another one.
 *
 * Expressions have an entry, symbols have one while somebody counts on it, for the number they are bound to. An entry goes with
 * its last reference: of nodes, of other entries, and of the thread that has just computed it, which has not given it to a node
 * yet. A thread counts on all it makes on the way to a result until it has that, and on the last RECENT results. */
#include "graph/dim.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "base/hash.h"
#include "base/mem.h"
#include "graph/copy.h"

enum { DEGREE = 6, TERMS = 32, DEPTH = 12 }; /* DEPTH: of atoms in atoms, so that walks down may be recursive */

struct term { int64_t coef; int64_t atom[DEGREE]; int degree; };   /* atoms ascend; unused ones are 0 */
struct poly { int n; bool failed; struct term term[TERMS]; };      /* terms descend by `order`; no coefficient is 0 */

enum atom { SUM, ABOVE, QUOTIENT, TIMES };
struct function { int64_t atom; dim a, b; };                         /* SUM: the entry is a polynomial, and no atom */
struct expression {
  dim d;
  struct expression *next, *next_equal;  /* in the lists of the table: by number, and by hash */
  int64_t refs;
  bool is_bound;                    /* a symbol, whose number is known by now: the length of a loop that has run */
  int64_t value;
  uint64_t hash;
  struct function f;
  int depth, n;
  struct term term[];
};

pthread_mutex_t dim_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct { struct expression **by_number, **by_hash; size_t n_lists, n; } table; /* n_lists: a power of 2 */
static int64_t n_counted;           /* references that are not entries' or threads' own */
static bool is_lossy;               /* there was no memory to count on a symbol: from then on symbols stay bound */
static _Atomic int64_t n_symbols = 1, n_expressions = 1;

dim dim_symbol(void) { return -(2 * atomic_fetch_add(&n_symbols, 1) + 1); }

bool dim_is_symbol(dim d) { return d < 0 && d != DIM_BAD && (d & 1); }

/* ---- Polynomials on the stack ---- */

/* Higher degree first, then smaller atoms first: a monomial order, so that leading terms multiply. */
static int order(const struct term *a, const struct term *b) {
  if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
  for (int i = 0; i < a->degree; i++)
    if (a->atom[i] != b->atom[i]) return a->atom[i] > b->atom[i] ? -1 : 1;
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
    out->atom[k] = j == b->degree || (i < a->degree && a->atom[i] <= b->atom[j]) ? a->atom[i++] : b->atom[j++];
  return true;
}

static bool divide_terms(const struct term *a, const struct term *b, struct term *out) {
  *out = (struct term){ 0 };
  if (a->coef % b->coef || (a->coef == INT64_MIN && b->coef == -1)) return false;
  out->coef = a->coef / b->coef;
  int j = 0;
  for (int i = 0; i < a->degree; i++) {
    if (j < b->degree && a->atom[i] == b->atom[j]) j++;
    else out->atom[out->degree++] = a->atom[i];
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

static struct poly one_atom(dim d) { return (struct poly){ .n = 1, .term = { { .coef = 1, .atom = { d }, .degree = 1 } } }; }

/* ---- The table; lock held ---- */

static size_t list_of(uint64_t x) { return (size_t)hash_mix(0, x) & (table.n_lists - 1); }

static struct expression *entry_of(dim d) { /* NULL: nobody counts on it */
  struct expression *e = table.n ? table.by_number[list_of((uint64_t)d)] : NULL;
  while (e && e->d != d) e = e->next;
  return e;
}

static void enlist(struct expression *e) {
  struct expression **at = &table.by_number[list_of((uint64_t)e->d)], **equal = &table.by_hash[list_of(e->hash)];
  e->next = *at, *at = e;
  e->next_equal = *equal, *equal = e;
}

static bool reserve(void) {
  if (table.n < table.n_lists) return true;
  size_t more = table.n_lists ? 2 * table.n_lists : 64, before = table.n_lists;
  struct expression **lists = mem_alloc(2 * more * sizeof *lists), **old = table.by_number;
  if (!lists) return false;
  table.by_number = lists, table.by_hash = lists + more, table.n_lists = more;
  for (size_t i = 0; i < before; i++)
    for (struct expression *e = old[i], *next; e; e = next) next = e->next, enlist(e);
  mem_free(old);
  return true;
}

static struct expression *add_entry(dim d, const struct function *f, const struct poly *p, uint64_t hash) {
  struct expression *e = reserve() ? mem_alloc(sizeof *e + (size_t)p->n * sizeof *p->term) : NULL;
  if (!e) return NULL;
  *e = (struct expression){ .d = d, .hash = hash, .f = *f, .n = p->n };
  memcpy(e->term, p->term, (size_t)p->n * sizeof *p->term);
  table.n++;
  enlist(e);
  return e;
}

static void unlist(struct expression *e) {
  struct expression **at = &table.by_number[list_of((uint64_t)e->d)], **equal = &table.by_hash[list_of(e->hash)];
  while (*at != e) at = &(*at)->next;
  while (*equal != e) equal = &(*equal)->next_equal;
  *at = e->next, *equal = e->next_equal;
  table.n--;
}

static const struct poly nothing;
static const struct function no_function;

static void count_on(dim d) {
  if (d >= 0 || d == DIM_BAD) return;
  struct expression *e = entry_of(d);
  if (!e && dim_is_symbol(d) && !(e = add_entry(d, &no_function, &nothing, 0))) is_lossy = true;
  if (e) e->refs++;
}

/* Deeper than DEPTH, nothing is counted on, so this ends soon. */
static void let_go(dim d) {
  struct expression *e = d >= 0 || d == DIM_BAD ? NULL : entry_of(d);
  if (!e || --e->refs > 0 || (is_lossy && dim_is_symbol(d))) return;
  unlist(e);
  let_go(e->f.a), let_go(e->f.b);
  for (int i = 0; i < e->n; i++)
    for (int k = 0; k < e->term[i].degree; k++) let_go(e->term[i].atom[k]);
  mem_free(e);
}

static void count_on_parts(const struct expression *e) {
  count_on(e->f.a), count_on(e->f.b);
  for (int i = 0; i < e->n; i++)
    for (int k = 0; k < e->term[i].degree; k++) count_on(e->term[i].atom[k]);
}

/* ---- What a thread has computed last ---- */

enum { RECENT = 2048 }; /* a node of 32 axes takes fewer */
struct recent {
  int at;
  dim d[RECENT];          /* results */
  size_t n_pins, room;
  dim *pin;               /* what was made on the way to the next one */
};
static _Thread_local struct recent *recent;
static pthread_key_t recent_key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void drop_pins(struct recent *r) { /* lock held */
  while (r->n_pins) let_go(r->pin[--r->n_pins]);
}

static void forget(struct recent *r) { /* lock held */
  if (!r) return;
  drop_pins(r);
  for (int i = 0; i < RECENT; i++) let_go(r->d[i]);
  mem_free(r->pin);
  mem_free(r);
}

static void leave(void *r) {
  pthread_mutex_lock(&dim_mutex);
  forget(r);
  pthread_mutex_unlock(&dim_mutex);
  recent = NULL;
}

static void make_key(void) { has_key = pthread_key_create(&recent_key, leave) == 0; }

static bool has_recent(void) {
  if (recent) return true;
  pthread_once(&once, make_key);
  recent = mem_alloc(sizeof *recent);
  if (recent && has_key) pthread_setspecific(recent_key, recent);
  return recent;
}

/* Whether there is room for one more; before the lock is taken. False: out of memory. */
static bool may_pin(void) {
  if (!has_recent()) return false;
  if (recent->n_pins < recent->room) return true;
  size_t room = recent->room ? 2 * recent->room : 32;
  dim *more = mem_resize(recent->pin, room * sizeof *more);
  if (!more) return false;
  recent->pin = more, recent->room = room;
  return true;
}

static void pin(dim d) { /* lock held */
  if (recent->n_pins && recent->pin[recent->n_pins - 1] == d) return;
  count_on(d);
  recent->pin[recent->n_pins++] = d;
}

static void remember(dim d) { /* lock held */
  dim *at = &recent->d[recent->at];
  if (d >= 0 || dim_is_symbol(d) || *at == d) return;
  recent->at = (recent->at + 1) % RECENT;
  at = &recent->d[recent->at];
  count_on(d);
  let_go(*at);
  *at = d;
}

/* The end of whatever a thread was asked to compute: of all that it made, the result is left. */
static dim done(dim d) {
  if (!recent || (d >= 0 && !recent->n_pins)) return d;
  pthread_mutex_lock(&dim_mutex);
  if (d != DIM_BAD) remember(d);
  drop_pins(recent);
  pthread_mutex_unlock(&dim_mutex);
  return d;
}

/* ---- Entries as polynomials ---- */

static struct poly poly_of(dim d) {
  if (d >= 0) return number(d);
  if (dim_is_symbol(d)) return one_atom(d);
  struct poly p = { .failed = true };
  if (d == DIM_BAD) return p;
  pthread_mutex_lock(&dim_mutex);
  const struct expression *e = entry_of(d);
  p.failed = !e;
  if (e && e->f.atom == SUM) memcpy(p.term, e->term, (size_t)(p.n = e->n) * sizeof *p.term);
  else if (e) p = one_atom(d);
  pthread_mutex_unlock(&dim_mutex);
  return p;
}

/* What an atom is a function of. SUM: it is a symbol. */
static struct function function_of(dim atom) {
  struct function f = { SUM, 0, 0 };
  if (dim_is_symbol(atom)) return f;
  pthread_mutex_lock(&dim_mutex);
  const struct expression *e = entry_of(atom);
  if (e) f = e->f;
  pthread_mutex_unlock(&dim_mutex);
  return f;
}

/* ---- Interning ---- */

static int depth_of(dim d) { /* lock held, as in what follows */
  const struct expression *e = d < 0 && !dim_is_symbol(d) ? entry_of(d) : NULL;
  return e ? e->depth : 0;
}

static int depth_of_parts(const struct function *f, const struct poly *p) {
  int depth = f->atom == SUM ? 0 : 1 + (depth_of(f->a) > depth_of(f->b) ? depth_of(f->a) : depth_of(f->b));
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->term[i].degree; k++)
      if (depth_of(p->term[i].atom[k]) > depth) depth = depth_of(p->term[i].atom[k]);
  return depth;
}

static bool is_equal(const struct expression *e, uint64_t hash, const struct function *f, const struct poly *p) {
  return e->hash == hash && e->n == p->n && !dim_is_symbol(e->d) && !memcmp(&e->f, f, sizeof *f) &&
         !memcmp(e->term, p->term, (size_t)p->n * sizeof *p->term);
}

static dim find_or_add(const struct function *f, const struct poly *p) {
  uint64_t hash = hash_bytes(p->term, (size_t)p->n * sizeof *p->term) ^ hash_bytes(f, sizeof *f);
  struct expression *e = table.n ? table.by_hash[list_of(hash)] : NULL;
  while (e && !is_equal(e, hash, f, p)) e = e->next_equal;
  if (!e) {
    int depth = depth_of_parts(f, p);
    e = depth > DEPTH ? NULL : add_entry(-(2 * atomic_fetch_add(&n_expressions, 1) + 2), f, p, hash);
    if (!e) return DIM_BAD;
    e->depth = depth;
    count_on_parts(e);
  }
  pin(e->d);
  return e->d;
}

static dim intern_as(const struct function *f, const struct poly *p) {
  if (!may_pin()) return DIM_BAD;
  pthread_mutex_lock(&dim_mutex);
  dim d = find_or_add(f, p);
  pthread_mutex_unlock(&dim_mutex);
  return d;
}

/* An operand of an atom; unlike a size it may be a number below 0. */
static dim operand(const struct poly *p) {
  if (p->failed) return DIM_BAD;
  if (p->n == 0) return 0;
  const struct term *t = p->term;
  if (p->n == 1 && t->degree == 0 && t->coef > 0) return t->coef;
  if (p->n == 1 && t->degree == 1 && t->coef == 1) return t->atom[0];
  return intern_as(&no_function, p);
}

static dim intern(const struct poly *p) {
  bool is_negative = p->n == 1 && p->term[0].degree == 0 && p->term[0].coef < 0;
  return is_negative ? DIM_BAD : operand(p);
}

/* An atom as a polynomial; failed: out of memory, or too deep. */
static struct poly atom_of(enum atom atom, const struct poly *a, const struct poly *b) {
  struct function f = { atom, operand(a), operand(b) };
  if (f.a == DIM_BAD || f.b == DIM_BAD) return (struct poly){ .failed = true };
  dim d = intern_as(&f, &nothing);
  return d == DIM_BAD ? (struct poly){ .failed = true } : one_atom(d);
}

void dim_retain(dim d) {
  if (dim_is_known(d)) return;
  pthread_mutex_lock(&dim_mutex);
  count_on(d);
  n_counted++;
  pthread_mutex_unlock(&dim_mutex);
}

/* The last one takes along what this thread remembers: sizes it is computing with are those of nodes it holds. */
static void end_all(void) {
  forget(recent);
  recent = NULL;
  if (has_key) pthread_setspecific(recent_key, NULL);
  for (size_t i = 0; is_lossy && i < table.n_lists; i++)
    for (struct expression *e = table.by_number[i], *next; e; e = next) {
      next = e->next;
      if (dim_is_symbol(e->d) && e->refs <= 0) unlist(e), mem_free(e);
    }
  if (table.n) return;
  mem_free(table.by_number);
  table.by_number = table.by_hash = NULL;
  table.n_lists = 0;
  is_lossy = false;
}

void dim_release(dim d) {
  if (dim_is_known(d)) return;
  pthread_mutex_lock(&dim_mutex);
  let_go(d);
  if (--n_counted == 0) end_all();
  pthread_mutex_unlock(&dim_mutex);
}

/* ---- Symbols whose number is known by now ---- */

bool dim_bind(dim symbol, int64_t value) {
  pthread_mutex_lock(&dim_mutex);
  struct expression *e = entry_of(symbol);
  if (!e && is_lossy) e = add_entry(symbol, &no_function, &nothing, 0);
  bool ok = e || !is_lossy; /* nobody who counts on it: nobody asks */
  if (e && !e->is_bound) e->is_bound = true, e->value = value;
  pthread_mutex_unlock(&dim_mutex);
  return ok;
}

/* ---- Arithmetic ---- */

static const struct term one = { .coef = 1 }, minus_one = { .coef = -1 };

dim dim_add(dim a, dim b) {
  int64_t sum;
  if (a >= 0 && b >= 0) return __builtin_add_overflow(a, b, &sum) ? DIM_BAD : sum;
  struct poly p = poly_of(a), q = poly_of(b);
  add_scaled(&p, &q, &one);
  return done(intern(&p));
}

dim dim_sub(dim a, dim b) {
  if (a >= 0 && b >= 0) return a < b ? DIM_BAD : a - b;
  if (a == b) return a == DIM_BAD ? DIM_BAD : 0;
  struct poly p = poly_of(a), q = poly_of(b);
  add_scaled(&p, &q, &minus_one);
  return done(intern(&p));
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

/* Of sizes, which are at least 0. */
static struct poly times(const struct poly *a, const struct poly *b) {
  struct poly p = product(a, b);
  return p.failed && !a->failed && !b->failed ? atom_of(TIMES, a, b) : p;
}

dim dim_mul(dim a, dim b) {
  int64_t known;
  if (a >= 0 && b >= 0) return __builtin_mul_overflow(a, b, &known) ? DIM_BAD : known;
  struct poly p = poly_of(a), q = poly_of(b), r = times(&p, &q);
  return done(intern(&r));
}

/* Division by the leading term, as on paper. False: it does not divide. */
static bool divide(const struct poly *a, const struct poly *b, struct poly *out) {
  struct poly p = *a;
  *out = (struct poly){ 0 };
  while (p.n && !p.failed && b->n && !b->failed) {
    struct term t;
    if (!divide_terms(&p.term[0], &b->term[0], &t)) return false;
    add_term(out, &t);
    t.coef = -t.coef;
    add_scaled(&p, b, &t);
  }
  return !p.failed && !b->failed && b->n;
}

bool dim_divide(dim a, dim b, dim *quotient) {
  struct poly p = poly_of(a), q = poly_of(b), out;
  return divide(&p, &q, &out) && (*quotient = done(intern(&out))) != DIM_BAD;
}

/* ---- What atoms are worth ---- */

static struct poly above(const struct poly *), quotient(const struct poly *, const struct poly *);

static bool is_number(const struct poly *p) { return p->n == 0 || (p->n == 1 && p->term[0].degree == 0); }
static int64_t number_of(const struct poly *p) { return p->n ? p->term[0].coef : 0; }
static const struct poly *last_number(const struct poly *p) { return p->n && !p->term[p->n - 1].degree ? p : NULL; }

static struct poly sum_of(const struct poly *p, const struct poly *q, int64_t scale) {
  struct poly sum = *p;
  add_scaled(&sum, q, &(struct term){ .coef = scale });
  return sum;
}

/* p without term i. */
static struct poly without(const struct poly *p, int i) {
  struct poly rest = *p;
  memmove(&rest.term[i], &rest.term[i + 1], (size_t)(--rest.n - i) * sizeof *rest.term);
  return rest;
}

static bool is_atom(const struct term *t, enum atom atom, struct function *f) {
  if (t->degree != 1) return false;
  *f = function_of(t->atom[0]);
  return f->atom == atom;
}

static bool is_positive(const struct poly *p, int *tries);

/* A quotient is at least 0 if what is divided is; all other atoms are. */
static bool has_positive_atoms(const struct term *t, int *tries) {
  for (int k = 0; k < t->degree; k++) {
    struct function f = function_of(t->atom[k]);
    if (f.atom != QUOTIENT) continue;
    struct poly a = poly_of(f.a), b = poly_of(f.b);
    if (!is_positive(&a, tries) || !is_positive(&b, tries)) return false;
  }
  return true;
}

/* Whether p is at least 0 whatever the symbols are, which are. Exact bounds of an atom take its place, both if either may be
 * its value, until no term is negative; `tries` ends that. False: not as far as one can see. */
static bool is_positive(const struct poly *p, int *tries) {
  int k = 0;
  struct function f;
  if (p->failed || (*tries)-- <= 0) return false;
  while (k < p->n && p->term[k].coef > 0) k++;
  bool has_negative = k < p->n;
  for (int i = 0; i < p->n; i++) {
    int64_t c = p->term[i].coef;
    if (is_atom(&p->term[i], ABOVE, &f)) { /* c max(a, 0) */
      if (!has_negative) continue;
      struct poly a = poly_of(f.a), at_0 = without(p, i), at_a = sum_of(&at_0, &a, c);
      if (c < 0) return is_positive(&at_0, tries) && is_positive(&at_a, tries);
      if (is_positive(&at_0, tries) || is_positive(&at_a, tries)) return true;
    } else if (c < 0 && is_atom(&p->term[i], QUOTIENT, &f) && f.b > 0) { /* b rest + c a <= b p */
      struct poly a = poly_of(f.a), rest = without(p, i), scaled = sum_of(&nothing, &rest, f.b), at = sum_of(&scaled, &a, c);
      return is_positive(&at, tries);
    } else if (!has_positive_atoms(&p->term[i], tries)) return false;
  }
  return !has_negative;
}

static bool is_surely_positive(const struct poly *p) {
  int tries = 24;
  return is_positive(p, &tries);
}

static bool is_surely_not_positive(const struct poly *p) {
  struct poly minus = sum_of(&nothing, p, -1);
  return is_surely_positive(&minus);
}

/* The largest number that divides all coefficients. */
static int64_t content(const struct poly *p) {
  int64_t g = 0;
  for (int i = 0; i < p->n; i++)
    for (int64_t a = p->term[i].coef < 0 ? -p->term[i].coef : p->term[i].coef; a; ) {
      int64_t rest = g % a;
      g = a, a = rest;
    }
  return g;
}

static struct poly divided(const struct poly *p, int64_t by) {
  struct poly q = *p;
  for (int i = 0; i < q.n; i++) q.term[i].coef /= by;
  return q;
}

/* max(max(a, 0) + r, 0) is max(a + r, 0) where r <= 0. */
static bool above_above(const struct poly *p, struct poly *out) {
  struct function f;
  for (int i = 0; i < p->n; i++) {
    if (p->term[i].coef != 1 || !is_atom(&p->term[i], ABOVE, &f)) continue;
    struct poly rest = without(p, i), a = poly_of(f.a);
    if (!is_surely_not_positive(&rest)) continue;
    struct poly inner = sum_of(&a, &rest, 1);
    return *out = above(&inner), true;
  }
  return false;
}

static struct poly above(const struct poly *p) {
  struct poly out;
  if (p->failed) return *p;
  for (int i = 0; i < p->n; i++)
    if (p->term[i].coef == INT64_MIN) return (struct poly){ .failed = true };
  if (is_number(p)) return number(number_of(p) > 0 ? number_of(p) : 0);
  if (is_surely_positive(p)) return *p;
  if (is_surely_not_positive(p)) return number(0);
  if (above_above(p, &out)) return out;
  int64_t g = content(p);
  struct poly small = divided(p, g), atom = atom_of(ABOVE, &small, &nothing);
  return sum_of(&nothing, &atom, g);
}

/* a / b rounded down, for numbers that can be negated: INT64_MIN / -1 is none. */
static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* floor((floor(a / b) + r) / c) is floor((a + r b) / (b c)), of numbers r, b, c. */
static bool quotient_of_quotient(const struct poly *p, int64_t c, struct poly *out) {
  struct function f;
  const struct poly *r = p->n == 2 ? last_number(p) : p;
  int64_t bc;
  if (p->n < 1 || p->n > 2 || !r || p->term[0].coef != 1 || !is_atom(&p->term[0], QUOTIENT, &f)) return false;
  if (!dim_is_known(f.b) || __builtin_mul_overflow(f.b, c, &bc)) return false;
  struct poly a = poly_of(f.a), more = number(p->n == 2 ? p->term[1].coef : 0), by = number(bc);
  a = sum_of(&a, &more, f.b);
  return *out = quotient(&a, &by), true;
}

/* By a number: whole multiples of it leave the atom, so that what is left has coefficients 0 .. c - 1. */
static struct poly quotient_by(const struct poly *p, int64_t c) {
  struct poly whole = { 0 }, rest = { 0 }, out;
  for (int i = 0; i < p->n; i++) {
    struct term t = p->term[i];
    t.coef = floor_divide(p->term[i].coef, c);
    add_term(&whole, &t);
    t.coef = p->term[i].coef - c * t.coef;
    add_term(&rest, &t);
  }
  if (is_number(&rest)) return whole;
  if (!quotient_of_quotient(&rest, c, &out)) {
    struct poly by = number(c);
    out = atom_of(QUOTIENT, &rest, &by);
  }
  return sum_of(&out, &whole, 1);
}

static bool divide(const struct poly *a, const struct poly *b, struct poly *out);

/* floor(p / q); 0 where q is 0. */
static struct poly quotient(const struct poly *p, const struct poly *q) {
  struct poly out;
  bool failed = p->failed || q->failed;
  for (int i = 0; i < p->n; i++) failed |= p->term[i].coef == INT64_MIN;
  if (failed) return (struct poly){ .failed = true };
  if (!p->n || !q->n) return number(0);
  if (is_number(p) && is_number(q)) return number(floor_divide(number_of(p), number_of(q)));
  if (is_number(q) && number_of(q) > 0) return quotient_by(p, number_of(q));
  if (is_number(q) && divide(p, q, &out)) return out;
  return atom_of(QUOTIENT, p, q); /* by a symbol, which may be 0 */
}

dim dim_above(dim a, dim b) {
  if (a >= 0 && b >= 0) return a > b ? a - b : 0;
  struct poly p = poly_of(a), q = poly_of(b), difference = sum_of(&p, &q, -1), r = above(&difference);
  return done(intern(&r));
}

dim dim_min(dim a, dim b) {
  if (a >= 0 && b >= 0) return a < b ? a : b;
  struct poly p = poly_of(a), q = poly_of(b), difference = sum_of(&p, &q, -1), over = above(&difference), r = sum_of(&p, &over, -1);
  return done(intern(&r));
}

dim dim_max(dim a, dim b) {
  if (a >= 0 && b >= 0) return a > b ? a : b;
  struct poly p = poly_of(a), q = poly_of(b), difference = sum_of(&p, &q, -1), over = above(&difference), r = sum_of(&q, &over, 1);
  return done(intern(&r));
}

dim dim_quotient(dim a, dim b) {
  if (a >= 0 && b >= 0) return b ? a / b : 0;
  struct poly p = poly_of(a), q = poly_of(b), r = quotient(&p, &q);
  return done(intern(&r));
}

/* ---- Integers made of sizes ---- */

dim dim_integer(int64_t x) {
  struct poly p = number(x);
  return done(operand(&p));
}

bool dim_is_integer(dim d, int64_t *value) {
  struct poly p = poly_of(d);
  if (!p.failed && is_number(&p)) return *value = number_of(&p), true;
  return false;
}

static struct poly reckoned(enum dim_rule rule, const struct poly *p, const struct poly *q) {
  struct poly difference = sum_of(p, q, -1), over;
  switch (rule) {
    case DIM_PLUS: return sum_of(p, q, 1);
    case DIM_MINUS: return difference;
    case DIM_TIMES: return product(p, q);
    case DIM_LEAST: return over = above(&difference), sum_of(p, &over, -1);
    case DIM_LARGEST: return over = above(&difference), sum_of(q, &over, 1);
    case DIM_FLOOR: return quotient(p, q);
  }
  return (struct poly){ .failed = true };
}

dim dim_reckon(enum dim_rule rule, dim a, dim b) {
  struct poly p = poly_of(a), q = poly_of(b), r = reckoned(rule, &p, &q);
  return done(operand(&r));
}

/* b + k max(d, 0) where a - b = k d; else b + (a - b) [d > 0], [d > 0] being max(d, 0) - max(d - 1, 0). */
dim dim_choose(dim d, dim a, dim b) {
  struct poly p = poly_of(d), x = poly_of(a), y = poly_of(b), one_less = number(1), by, r;
  one_less = sum_of(&p, &one_less, -1);
  if (p.failed || x.failed || y.failed) return DIM_BAD;
  if (is_surely_positive(&one_less)) return a;
  if (is_surely_not_positive(&p)) return b;
  struct poly difference = sum_of(&x, &y, -1), over = above(&p);
  if (divide(&difference, &p, &by)) r = product(&by, &over);
  else {
    struct poly less = above(&one_less), step = sum_of(&over, &less, -1);
    r = product(&difference, &step);
  }
  r = sum_of(&y, &r, 1);
  return done(operand(&r));
}

int dim_sign(dim d) {
  struct poly p = poly_of(d), one_more = number(1);
  one_more = sum_of(&p, &one_more, 1);
  return p.failed ? 0 : is_surely_positive(&p) ? 1 : is_surely_not_positive(&one_more) ? -1 : 0;
}

/* ---- Symbols replaced ---- */

/* What symbols become: what a list says, or what they are bound to; and what functions of them have become so far, as one may stand
 * in many places. */
struct becomes { dim atom, now; };
struct memo { size_t n, room; struct becomes *list; }; /* by hash; room: 0, or a power of 2. An atom of 0: none */
struct meaning { int n; const dim *symbol, *value; bool is_bound; struct memo *memo; };

static struct becomes *memo_at(const struct memo *m, dim atom) {
  size_t i = (size_t)hash_mix(0, (uint64_t)atom) & (m->room - 1);
  while (m->list[i].atom && m->list[i].atom != atom) i = (i + 1) & (m->room - 1);
  return &m->list[i];
}

/* Without memory it is computed again. */
static void memo_add(struct memo *m, dim atom, dim now) {
  if (2 * m->n >= m->room) {
    struct memo more = { .room = m->room ? 2 * m->room : 32 };
    if (!(more.list = mem_alloc(more.room * sizeof *more.list))) return;
    for (size_t i = 0; i < m->room; i++) if (m->list[i].atom) *memo_at(&more, m->list[i].atom) = m->list[i], more.n++;
    mem_free(m->list);
    *m = more;
  }
  *memo_at(m, atom) = (struct becomes){ atom, now };
  m->n++;
}

static int index_of(dim d, int n, const dim list[]) {
  for (int i = 0; i < n; i++)
    if (list[i] == d) return i;
  return -1;
}

/* Lock held. False: it stays. */
static bool means(const struct meaning *m, dim symbol, dim *value) {
  if (m->is_bound) {
    const struct expression *e = entry_of(symbol);
    return e && e->is_bound ? (*value = e->value, true) : false;
  }
  int k = index_of(symbol, m->n, m->symbol);
  return k < 0 ? false : (*value = m->value[k], true);
}

/* Lock held. Whether d mentions a symbol that becomes something else. */
static bool mentions(dim d, const struct meaning *m) {
  dim value;
  if (d >= 0 || d == DIM_BAD) return false;
  if (dim_is_symbol(d)) return means(m, d, &value);
  const struct expression *e = entry_of(d);
  if (!e) return false;
  if (e->f.atom != SUM) return mentions(e->f.a, m) || mentions(e->f.b, m);
  for (int i = 0; i < e->n; i++)
    for (int k = 0; k < e->term[i].degree; k++)
      if (mentions(e->term[i].atom[k], m)) return true;
  return false;
}

/* Lock held. Whether d mentions no symbol but those of the list. */
static bool is_within(dim d, int n, const dim list[]) {
  if (d >= 0 || d == DIM_BAD) return true;
  if (dim_is_symbol(d)) {
    for (int i = 0; i < n; i++)
      if (mentions(list[i], &(struct meaning){ 1, &d, &d, false, NULL })) return true;
    return false;
  }
  const struct expression *e = entry_of(d);
  bool is = e && is_within(e->f.a, n, list) && is_within(e->f.b, n, list);
  for (int i = 0; is && i < e->n; i++)
    for (int k = 0; is && k < e->term[i].degree; k++) is = is_within(e->term[i].atom[k], n, list);
  return is;
}

bool dim_mentions_only(dim d, int n, const dim list[]) {
  pthread_mutex_lock(&dim_mutex);
  bool is = is_within(d, n, list);
  pthread_mutex_unlock(&dim_mutex);
  return is;
}

static struct poly substituted(dim, const struct meaning *);

static struct poly function_meant(dim atom, const struct meaning *m) {
  struct function f = function_of(atom);
  struct poly a = substituted(f.a, m);
  if (f.atom == ABOVE) return above(&a);
  struct poly b = substituted(f.b, m);
  return f.atom == TIMES ? times(&a, &b) : quotient(&a, &b);
}

static struct poly meaning_of(dim atom, const struct meaning *m) {
  dim value = atom;
  const struct becomes *known = m->memo->n && !dim_is_symbol(atom) ? memo_at(m->memo, atom) : NULL;
  if (known && known->atom) return poly_of(known->now);
  pthread_mutex_lock(&dim_mutex);
  bool is_changed = dim_is_symbol(atom) ? means(m, atom, &value) : mentions(atom, m);
  pthread_mutex_unlock(&dim_mutex);
  if (dim_is_symbol(atom)) return poly_of(value);
  struct poly p = is_changed ? function_meant(atom, m) : poly_of(atom);
  memo_add(m->memo, atom, is_changed ? operand(&p) : atom);
  return p;
}

static struct poly substituted(dim d, const struct meaning *m) {
  struct poly p = poly_of(d), sum = { .failed = p.failed };
  for (int i = 0; i < p.n; i++) {
    struct poly t = number(p.term[i].coef);
    for (int k = 0; k < p.term[i].degree; k++) {
      struct poly factor = meaning_of(p.term[i].atom[k], m);
      t = product(&t, &factor);
    }
    add_scaled(&sum, &t, &one);
  }
  return sum;
}

/* Lock held. The integer that d is, in plain arithmetic, where all its symbols become numbers: what most calls of a function ask
 * for. False: one does not, or it is larger than an integer. */
static bool is_worth(dim d, const struct meaning *m, int64_t *out) {
  int64_t a, b, sum = 0, t;
  if (d >= 0) return *out = d, true;
  if (d == DIM_BAD) return false;
  if (dim_is_symbol(d)) return means(m, d, out) && *out >= 0;
  const struct expression *e = entry_of(d);
  if (!e) return false;
  if (e->f.atom != SUM) {
    if (!is_worth(e->f.a, m, &a) || !is_worth(e->f.b, m, &b)) return false;
    if (e->f.atom == TIMES) return !__builtin_mul_overflow(a, b, out);
    *out = e->f.atom == ABOVE ? (a > 0 ? a : 0) : !b ? 0 : a == INT64_MIN ? 0 : floor_divide(a, b);
    return a != INT64_MIN;
  }
  for (int i = 0; i < e->n; i++) {
    t = e->term[i].coef;
    for (int k = 0; k < e->term[i].degree; k++)
      if (!is_worth(e->term[i].atom[k], m, &a) || __builtin_mul_overflow(t, a, &t)) return false;
    if (__builtin_add_overflow(sum, t, &sum)) return false;
  }
  return *out = sum, true;
}

static dim meant(dim d, const struct meaning *m) {
  if (d >= 0 || d == DIM_BAD) return d;
  dim value;
  int64_t number;
  pthread_mutex_lock(&dim_mutex);
  bool is_known = is_worth(d, m, &number);
  pthread_mutex_unlock(&dim_mutex);
  if (is_known) return number < 0 ? DIM_BAD : number;
  pthread_mutex_lock(&dim_mutex);
  bool is_one = dim_is_symbol(d) && means(m, d, &value), is_changed = is_one || mentions(d, m);
  bool is_lost = !dim_is_symbol(d) && !entry_of(d);
  pthread_mutex_unlock(&dim_mutex);
  if (is_one || !is_changed) return is_one ? value : is_lost ? DIM_BAD : d;
  struct poly p = substituted(d, m);
  mem_free(m->memo->list);
  return done(intern(&p));
}

/* What a symbol alone becomes stands in the list: nobody has to be asked. */
dim dim_substitute(dim d, int n, const dim symbol[], const dim value[]) {
  int k = dim_is_symbol(d) ? index_of(d, n, symbol) : -1;
  if (dim_is_symbol(d)) return k < 0 ? d : value[k];
  return meant(d, &(struct meaning){ n, symbol, value, false, &(struct memo){ 0 } });
}

dim dim_resolve(dim d) { return meant(d, &(struct meaning){ .is_bound = true, .memo = &(struct memo){ 0 } }); }

bool dim_is_negative(dim d) {
  if (dim_is_known(d) || d == DIM_BAD) return false;
  struct memo memo = { 0 };
  struct poly p = substituted(d, &(struct meaning){ .is_bound = true, .memo = &memo });
  mem_free(memo.list);
  done(0);
  return !p.failed && is_number(&p) && number_of(&p) < 0;
}

bool dim_is_told(dim d, int n, const dim symbol[], const dim value[]) {
  int64_t number;
  pthread_mutex_lock(&dim_mutex);
  bool is_told = is_worth(d, &(struct meaning){ .n = n, .symbol = symbol, .value = value }, &number);
  pthread_mutex_unlock(&dim_mutex);
  return is_told;
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

static void print_poly(const struct poly *, struct text *);

static void print_atom(dim atom, struct text *out) {
  struct function f = function_of(atom);
  if (f.atom == SUM) return text_addf(out, "n%lld", (long long)(-atom / 2));
  text_add(out, f.atom == ABOVE ? "max(" : f.atom == TIMES ? "((" : "floor((");
  dim_print(f.a, out);
  text_add(out, f.atom == ABOVE ? ",0" : f.atom == TIMES ? ")*(" : ")/(");
  if (f.atom != ABOVE) dim_print(f.b, out), text_add(out, ")");
  text_add(out, ")");
}

static void print_term(const struct term *t, bool is_first, struct text *out) {
  uint64_t size = t->coef < 0 ? -(uint64_t)t->coef : (uint64_t)t->coef;
  text_add(out, t->coef < 0 ? "-" : is_first ? "" : "+");
  if (size != 1 || !t->degree) text_addf(out, "%llu%s", (unsigned long long)size, t->degree ? "*" : "");
  for (int i = t->degree - 1; i >= 0; i--) print_atom(t->atom[i], out), text_add(out, i ? "*" : "");
}

/* p - max(a, 0) is min(p - a, p). */
static bool print_min(const struct poly *p, struct text *out) {
  struct function f;
  for (int i = 0; i < p->n; i++) {
    if (p->term[i].coef != -1 || !is_atom(&p->term[i], ABOVE, &f)) continue;
    struct poly rest = without(p, i), a = poly_of(f.a), other = sum_of(&rest, &a, -1);
    text_add(out, "min("), print_poly(&rest, out), text_add(out, ","), print_poly(&other, out), text_add(out, ")");
    return true;
  }
  return false;
}

static void print_poly(const struct poly *p, struct text *out) {
  if (p->failed || p->n == 0) text_add(out, p->failed ? "?" : "0");
  else if (!print_min(p, out))
    for (int i = 0; i < p->n; i++) print_term(&p->term[i], i == 0, out);
}

void dim_print(dim d, struct text *out) {
  struct poly p = poly_of(d);
  print_poly(&p, out);
}
