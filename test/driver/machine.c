/* machine.c -- runs an entry: blocks of threads one after the other, threads in turns between the points where they meet.
 *
 * A thread runs until it waits (bar, shfl, match) or ends. Blocks, the warps of a block and the lanes of a warp come in an order of
 * chance, so that what depends on the order differs from run to run. Addresses are the host's own in every space. */
#include "machine.h"
#include "estimate.h"
#include "races.h"
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum op { MOV, ADD, SUB, MUL, MAD, FMA, DIV, REM, MIN, MAX, SQRT, AND, OR, XOR, NOT, SHL, SHR, SETP, SELP, CVT, CVTA, LD, ST, RED, ATOM,
          BRA, RET, BAR, SHFL, MATCH, ACTIVEMASK, BFIND, NEG, ABS, VOTE, PREFETCH, CP, LDMATRIX, MMA, PRMT, SHF, POPC, EX2, LG2, RCP, WGMMA, FENCE,
          MBARRIER, GRIDDEPCONTROL, BFI, CREATEPOLICY, OPS };
static const char *const names[OPS] = { "mov", "add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "sqrt", "and", "or", "xor",
  "not", "shl", "shr", "setp", "selp", "cvt", "cvta", "ld", "st", "red", "atom", "bra", "ret", "bar", "shfl", "match", "activemask",
  "bfind", "neg", "abs", "vote", "prefetch", "cp", "ldmatrix", "mma", "prmt", "shf", "popc", "ex2", "lg2", "rcp", "wgmma", "fence",
  "mbarrier", "griddepcontrol", "bfi", "createpolicy" };

int machine_op(const char *name) {
  for (int i = 0; i < OPS; i++) if (name[0] == names[i][0] && !strcmp(name, names[i])) return i;
  return -1;
}

const char *machine_name(int op) { return names[op]; }

enum state { BEGINS, RUNS, WAITS, ENDED };
/* cp.async: bytes that are on their way arrive when their thread waits for the group they belong to. */
struct on_its_way { uint8_t *to, data[16]; int bytes, group; };
struct thread { uint64_t steps; uint32_t *turn; struct on_its_way *way; int n_way, way_room, group; uint64_t *reg; uint8_t *local; int at; enum state state; unsigned tid[3], lane; };

/* cp.async.bulk: what it brings arrives when all threads wait for something, and nobody knows before what stands there. */
struct bulk { uint8_t *to, *data, *barrier; int bytes; };

enum { TOUCHED = 32 };

struct block {
  struct bulk *bulk;
  int n_bulk;
  const struct entry *e;
  struct thread *t;
  int n;
  unsigned grid[3], dims[3], id[3];
  uint8_t *shared;
  size_t shared_bytes;
  void **params;
  may_touch *may_touch;
  struct stretch touched[TOUCHED]; /* what instructions have touched last, and all around it that may be */
  const struct module *m;
  uint64_t steps;
  struct estimate *estimate;  /* NULL: none is made; else the turns of a thread count accesses by instruction */
  bool seeks_races;
  char *why;
};

/* Each instruction mostly touches one array. */
static struct stretch *touched_by(struct block *b, int at) { return &b->touched[at % TOUCHED]; }

enum { WHY = 300 };
static const uint64_t MOST_STEPS = UINT64_C(1) << 33; /* of a block: then it hangs */

static void wrong(struct block *b, const struct thread *t, const char *what) {
  if (*b->why) return;
  const struct instruction *i = &b->e->i[t->at];
  snprintf(b->why, WHY, "%s, line %d (%s): block %u,%u,%u thread %u,%u,%u: %s", b->e->name, i->line, i->name, b->id[0], b->id[1], b->id[2],
           t->tid[0], t->tid[1], t->tid[2], what);
}

/* ---- Values ---- */

static bool is_float(enum type t) { return t == T_F32 || t == T_F64 || t == T_F16; }
static bool is_signed(enum type t) { return t == T_S8 || t == T_S16 || t == T_S32 || t == T_S64; }

static float f32(uint64_t x) { float f; uint32_t w = (uint32_t)x; memcpy(&f, &w, 4); return f; }
static double f64(uint64_t x) { double f; memcpy(&f, &x, 8); return f; }
static uint64_t of_f32(float f) { uint32_t w; memcpy(&w, &f, 4); return w; }
static uint64_t of_f64(double f) { uint64_t w; memcpy(&w, &f, 8); return w; }
static _Float16 f16(uint64_t x) { _Float16 f; uint16_t w = (uint16_t)x; memcpy(&f, &w, 2); return f; }
static uint64_t of_f16(_Float16 f) { uint16_t w; memcpy(&w, &f, 2); return w; }

/* The register as a value of the type, signed ones extended. */
static uint64_t as(enum type t, uint64_t x) {
  switch (t) {
    case T_PRED: return x & 1;
    case T_U8: case T_B8: return (uint8_t)x;
    case T_S8: return (uint64_t)(int8_t)x;
    case T_U16: case T_B16: case T_F16: return (uint16_t)x;
    case T_S16: return (uint64_t)(int16_t)x;
    case T_U32: case T_B32: case T_F32: return (uint32_t)x;
    case T_S32: return (uint64_t)(int32_t)x;
    default: return x;
  }
}

static uint64_t special(const struct block *b, const struct thread *t, uint64_t which) {
  int axis = (int)which % 3;
  if (which == LANEID) return t->lane;
  if (which == NSMID) return 1;
  return which < NTID_X ? t->tid[axis] : which < CTAID_X ? b->dims[axis] : which < NCTAID_X ? b->id[axis] : b->grid[axis];
}

static uint64_t get(const struct block *b, const struct thread *t, const struct arg *a, enum type type) {
  switch (a->kind) {
    case ARG_REG: return as(type, t->reg[a->reg]);
    case ARG_SPECIAL: return special(b, t, a->number);
    case ARG_LOCAL: return (uint64_t)(uintptr_t)t->local;
    case ARG_SHARED: return (uint64_t)(uintptr_t)b->shared + a->number;
    default: return as(type, a->number);
  }
}

static uint64_t in(const struct block *b, const struct thread *t, const struct instruction *i, int k) { return get(b, t, &i->in[k], i->t); }
static void set(struct thread *t, const struct instruction *i, enum type type, uint64_t x) {
  t->reg[i->to[0].reg] = as(type, x) & (type_bytes(type) == 4 ? UINT32_MAX : UINT64_MAX);
}

/* ---- Arithmetic ---- */

/* Of min and max: -0 is below +0; a NaN loses, or wins if the instruction says so. */
static double extreme(bool is_min, bool nan_wins, double a, double b) {
  if (isnan(a) || isnan(b)) return nan_wins ? NAN : isnan(a) ? b : a;
  bool a_less = a < b || (a == b && signbit(a) && !signbit(b));
  return a_less == is_min ? a : b;
}

/* a b + c, rounded once: the instruction where there is one, a call of libm elsewhere. */
static inline float fma_f32(float a, float b, float c) {
#if defined __x86_64__
  if (__builtin_cpu_supports("fma")) {
    __asm__("vfmadd132ss %1, %2, %0" : "+x"(a) : "x"(b), "x"(c)); /* of several NaN the one that libm gives */
    return a;
  }
#endif
  return fmaf(a, b, c);
}
static inline double fma_f64(double a, double b, double c) {
#if defined __x86_64__
  if (__builtin_cpu_supports("fma")) {
    __asm__("vfmadd132sd %1, %2, %0" : "+x"(a) : "x"(b), "x"(c)); /* of several NaN the one that libm gives */
    return a;
  }
#endif
  return fma(a, b, c);
}

static uint64_t in_floats(enum op op, const struct instruction *i, uint64_t x, uint64_t y, uint64_t z) {
  if (i->t == T_F32) {
    float a = f32(x), b = f32(y), c = f32(z);
    switch (op) {
      case ADD: return of_f32(a + b);
      case SUB: return of_f32(a - b);
      case MUL: return of_f32(a * b);
      case FMA: return of_f32(fmaf(a, b, c));
      case DIV: return of_f32(a / b);
      case SQRT: return of_f32(sqrtf(a));
      default: return of_f32((float)extreme(op == MIN, i->is_nan, a, b));
    }
  }
  double a = f64(x), b = f64(y), c = f64(z);
  switch (op) {
    case ADD: return of_f64(a + b);
    case SUB: return of_f64(a - b);
    case MUL: return of_f64(a * b);
    case FMA: return of_f64(fma(a, b, c));
    case DIV: return of_f64(a / b);
    case SQRT: return of_f64(sqrt(a));
    default: return of_f64(extreme(op == MIN, i->is_nan, a, b));
  }
}

static uint64_t divided(enum op op, enum type t, uint64_t a, uint64_t b) {
  if (!b) return UINT64_MAX; /* unspecified */
  if (!is_signed(t)) return op == DIV ? a / b : a % b;
  if ((int64_t)b == -1) return op == DIV ? 0 - a : 0;
  return (uint64_t)(op == DIV ? (int64_t)a / (int64_t)b : (int64_t)a % (int64_t)b);
}

static uint64_t multiplied(const struct instruction *i, uint64_t a, uint64_t b) {
  if (i->how[0] != 'h') return a * b; /* lo, wide: operands are extended already */
  if (type_bytes(i->t) == 4) return a * b >> 32;
  return is_signed(i->t) ? (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64) : (uint64_t)((unsigned __int128)a * b >> 64);
}

static uint64_t in_integers(enum op op, const struct instruction *i, uint64_t a, uint64_t b) {
  switch (op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return multiplied(i, a, b);
    case DIV: case REM: return divided(op, i->t, a, b);
    case MIN: return is_signed(i->t) ? ((int64_t)a < (int64_t)b ? a : b) : a < b ? a : b;
    default: return is_signed(i->t) ? ((int64_t)a > (int64_t)b ? a : b) : a > b ? a : b;
  }
}

static uint64_t shifted(enum op op, enum type t, uint64_t a, uint64_t count) {
  unsigned bits = 8 * (unsigned)type_bytes(t), n = (uint32_t)count > bits ? bits : (uint32_t)count;
  if (op == SHL) return n >= bits ? 0 : a << n;
  if (is_signed(t)) return (uint64_t)((int64_t)a >> (n >= bits ? bits - 1 : n));
  return n >= bits ? 0 : a >> n;
}

static bool compared(const struct instruction *i, uint64_t x, uint64_t y) {
  const char *how = i->how;
  if (is_float(i->t)) {
    double a = i->t == T_F32 ? f32(x) : f64(x), b = i->t == T_F32 ? f32(y) : f64(y);
    if (!strncmp(how, "nan", 3)) return isnan(a) || isnan(b);
    if (!strncmp(how, "num", 3)) return !isnan(a) && !isnan(b);
    if (!strncmp(how, "neu", 3)) return !(a == b);
    if (!strncmp(how, "eq", 2)) return a == b;
    if (!strncmp(how, "ne", 2)) return a < b || a > b;
    if (!strncmp(how, "lt", 2)) return a < b;
    if (!strncmp(how, "le", 2)) return a <= b;
    return !strncmp(how, "gt", 2) ? a > b : a >= b;
  }
  bool less = is_signed(i->t) ? (int64_t)x < (int64_t)y : x < y;
  if (!strncmp(how, "eq", 2)) return x == y;
  if (!strncmp(how, "ne", 2)) return x != y;
  if (!strncmp(how, "lt", 2)) return less;
  if (!strncmp(how, "le", 2)) return less || x == y;
  return !strncmp(how, "gt", 2) ? !less && x != y : !less;
}

/* ---- Conversions ---- */

static double rounded(const char *how, double x) {
  if (!strcmp(how, "rni")) return nearbyint(x);
  return !strcmp(how, "rmi") ? floor(x) : !strcmp(how, "rpi") ? ceil(x) : trunc(x);
}

static uint64_t to_integer(enum type t, double x) {
  int bits = 8 * type_bytes(t) - is_signed(t);
  double limit = ldexp(1, bits);
  uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  if (isnan(x)) return 0;
  if (x >= limit) return most;
  if (is_signed(t)) return x < -limit ? ~most : (uint64_t)(int64_t)x;
  return x <= 0 ? 0 : (uint64_t)x;
}

static uint64_t to_float(const struct instruction *i, uint64_t x) {
  volatile double d = 0;
  volatile float f = 0;
  bool is_zero = !strcmp(i->round, "rz"), from_float = is_float(i->from), is_s = is_signed(i->from);
  if (i->t == T_F16) {
    if (i->from == T_F32) return of_f16((_Float16)f32(x));
    if (i->from == T_F64) return of_f16((_Float16)f64(x));
    return of_f16(is_s ? (_Float16)(int64_t)x : (_Float16)x);
  }
  double v = i->from == T_F32 ? f32(x) : i->from == T_F64 ? f64(x) : i->from == T_F16 ? (double)f16(x) : 0;
  if (from_float && i->t == i->from) return i->t == T_F32 ? of_f32((float)rounded(i->round, v)) : of_f64(rounded(i->round, v));
  if (is_zero) fesetround(FE_TOWARDZERO);
  volatile int64_t s = (int64_t)x;
  volatile uint64_t u = x;
  if (i->t == T_F32) f = from_float ? (float)v : is_s ? (float)s : (float)u;
  else d = from_float ? v : is_s ? (double)s : (double)u;
  if (is_zero) fesetround(FE_TONEAREST);
  return i->t == T_F32 ? of_f32(f) : of_f64(d);
}

/* The pattern of the nearest bf16; a NaN is the one that the machine makes. */
static uint32_t bf16(uint64_t x) {
  uint32_t u = (uint32_t)x;
  return isnan(f32(u)) ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

/* prmt.b32: the bytes of the two words that the four digits name; only those that copy. */
static uint32_t permuted(uint64_t low, uint64_t high, uint64_t which) {
  uint64_t all = (uint32_t)low | high << 32;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) r |= (uint32_t)(all >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
  return r;
}

/* cvt.rn.f16x2.f32 or bf16x2: two numbers, the second in the lower half. */
static uint64_t packed(const struct instruction *i, uint64_t high, uint64_t low) {
  if (i->how[0] == 'b') return (uint64_t)bf16(high) << 16 | bf16(low);
  return of_f16((_Float16)f32(high)) << 16 | of_f16((_Float16)f32(low));
}

static uint64_t converted(const struct instruction *i, uint64_t x) {
  if (is_float(i->t)) return to_float(i, x);
  if (!is_float(i->from)) return x;
  double v = i->from == T_F32 ? f32(x) : i->from == T_F64 ? f64(x) : (double)f16(x);
  return to_integer(i->t, rounded(i->round, v));
}

/* ---- Memory ---- */

/* Whether all of the bytes are in memory that begins there; they may not go round the end of all addresses. */
static bool is_in(uint64_t at, int bytes, const void *begin, size_t room) {
  uint64_t from = (uint64_t)(uintptr_t)begin;
  return at - from < room && room - (at - from) >= (uint64_t)bytes;
}

static void estimate(struct block *b, const struct thread *t, const struct instruction *i, uint64_t at, int bytes) {
  if (!b->estimate) return;
  bool stores = i->op == ST || i->op == RED || i->op == ATOM;
  estimate_area(b->estimate, touched_by(b, t->at)->from, touched_by(b, t->at)->bytes);
  estimate_access(b->estimate, (unsigned)((t - b->t) / 32), t->at, t->turn[t->at]++, stores, at, bytes);
}

static uint8_t *address_in(struct block *b, const struct thread *t, const struct instruction *i, int k, int bytes, bool is_shared) {
  uint64_t at = get(b, t, &i->in[k], T_U64) + i->in[k + 1].number;
  uint8_t *there = (uint8_t *)(uintptr_t)at;
  if (at % (uint64_t)bytes) return wrong(b, t, "an address that is not aligned"), NULL;
  if (is_in(at, bytes, b->shared, b->shared_bytes) || is_in(at, bytes, t->local, b->e->local_bytes)) return there;
  if (is_shared) return wrong(b, t, "beyond shared memory"), NULL;
  for (int n = 0; n < b->m->n_tables; n++)
    if (is_in(at, bytes, b->m->tables[n].data, b->m->tables[n].bytes)) return there;
  if (!b->may_touch(at, bytes, touched_by(b, t->at))) return wrong(b, t, "beyond what was allocated"), NULL;
  estimate(b, t, i, at, bytes);
  return there;
}

static uint8_t *address(struct block *b, const struct thread *t, const struct instruction *i, int k, int bytes) {
  return address_in(b, t, i, k, bytes, i->is_shared);
}
static uint8_t *shared_address(struct block *b, const struct thread *t, const struct instruction *i, int k, int bytes) {
  return address_in(b, t, i, k, bytes, true);
}

/* Of an access before it is made: a race, if it is in one. `as`: who stores, itself or the copier of bulk copies. */
static void look_for_race(struct block *b, const struct thread *t, int as, enum race_kind kind, const void *at, int bytes) {
  static const char *const verbs[] = { "reads", "stores", "combines" }, *const done[] = { "has read", "has stored", "has combined" };
  char why[WHY], line[32];
  struct race r;
  if (!b->seeks_races || is_in((uint64_t)(uintptr_t)at, bytes, t->local, b->e->local_bytes)) return;
  if (!races_access((int)(t - b->t), as, kind, at, bytes, b->e->i[t->at].line, &r)) return;
  snprintf(line, sizeof line, " in line %d", r.line);
  snprintf(why, sizeof why, "it %s what thread %d%s %s%s, and nothing orders the two", verbs[kind], r.thread,
           r.is_elsewhere ? " of another block" : "", done[r.before], r.line ? line : "");
  wrong(b, t, why);
}
static void look_at_own(struct block *b, const struct thread *t, enum race_kind kind, const void *at, int bytes) {
  look_for_race(b, t, (int)(t - b->t), kind, at, bytes);
}

static uint64_t param(const struct block *b, uint64_t which, enum type t) {
  uint64_t x = 0;
  memcpy(&x, b->params[which], (size_t)type_bytes(t));
  return as(t, x) & (type_bytes(t) < 8 ? UINT32_MAX : UINT64_MAX);
}

static void load(struct block *b, struct thread *t, const struct instruction *i) {
  int size = type_bytes(i->t), n = i->width ? i->width : 1;
  uint8_t *at = i->is_param ? (uint8_t *)b->params[i->in[0].number] : address(b, t, i, 0, size * n);
  if (at && !i->is_param && !i->is_volatile) look_at_own(b, t, RACE_READS, at, size * n);
  for (int k = 0; at && k < n; k++) {
    uint64_t x = 0;
    memcpy(&x, at + k * size, (size_t)size);
    t->reg[i->to[k].reg] = as(i->t, x) & (size < 8 ? UINT32_MAX : UINT64_MAX);
  }
}

static void store(struct block *b, struct thread *t, const struct instruction *i) {
  int size = type_bytes(i->t), n = i->width > 1 ? i->width : 1;
  uint8_t *at = address(b, t, i, 0, size * n);
  for (int k = 0; at && k < n; k++) {
    uint64_t x = get(b, t, &i->in[2 + k], i->t);
    if (memcmp(at + k * size, &x, (size_t)size)) look_at_own(b, t, RACE_STORES, at + k * size, size);
    memcpy(at + k * size, &x, (size_t)size);
  }
}

/* An mbarrier: how many are to arrive in a turn, how many have not yet, bytes that are to come (they may come before they are
 * announced), and which turn it is. */
struct mbarrier { uint8_t all, left, turn; int32_t bytes; };
_Static_assert(sizeof(struct mbarrier) == 8, "as large as PTX says");

static void arrive(uint8_t *at, int n, int bytes) {
  struct mbarrier m;
  memcpy(&m, at, sizeof m);
  m.left = (uint8_t)(m.left - n), m.bytes += bytes;
  if (!m.left && !m.bytes) m.left = m.all, m.turn ^= 1;
  memcpy(at, &m, sizeof m);
}

/* mbarrier.init [at], n; .arrive _, [at]; .arrive.expect_tx _, [at], bytes; a thread that tries to wait does so until the turn is over. */
static void of_mbarrier(struct block *b, struct thread *t, const struct instruction *i) {
  uint8_t *at = shared_address(b, t, i, 0, 8);
  if (!at) return;
  if (!strcmp(i->how, "init")) {
    struct mbarrier m = { .all = (uint8_t)get(b, t, &i->in[2], T_U32), .left = (uint8_t)get(b, t, &i->in[2], T_U32) };
    memcpy(at, &m, sizeof m);
  } else {
    if (b->seeks_races) races_arrive((int)(t - b->t), at);
    arrive(at, 1, strcmp(i->how, "expect_tx") ? 0 : (int)get(b, t, &i->in[2], T_U32));
  }
}

static bool is_turn_over(struct block *b, const struct thread *t, const struct instruction *i) {
  struct mbarrier m;
  const uint8_t *at = shared_address(b, t, i, 0, 8);
  if (!at) return false;
  memcpy(&m, at, sizeof m);
  bool is_over = m.turn != get(b, t, &i->in[2], T_U32);
  if (is_over && b->seeks_races) races_await((int)(t - b->t), at);
  return is_over;
}

/* cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], bytes, [barrier] */
static void copy_bulk(struct block *b, struct thread *t, const struct instruction *i) {
  int bytes = (int)get(b, t, &i->in[4], T_U32);
  uint64_t from = get(b, t, &i->in[2], T_U64) + i->in[3].number;
  uint8_t *to = shared_address(b, t, i, 0, 16), *barrier = shared_address(b, t, i, 5, 8);
  if (bytes <= 0 || bytes % 16 || from % 16) { wrong(b, t, "a bulk copy that is not of whole 16 bytes"); return; }
  if (!to || !barrier) return;
  if (to + bytes > b->shared + b->shared_bytes) { wrong(b, t, "beyond shared memory"); return; }
  if (!b->may_touch(from, bytes, touched_by(b, t->at))) { wrong(b, t, "beyond what was allocated"); return; }
  if (b->estimate) estimate_area(b->estimate, touched_by(b, t->at)->from, touched_by(b, t->at)->bytes);
  if (b->estimate) estimate_bulk(b->estimate, from, bytes);
  look_at_own(b, t, RACE_READS, (const void *)(uintptr_t)from, bytes);
  look_for_race(b, t, races_copier(), RACE_STORES, to, bytes);
  b->bulk = realloc(b->bulk, (size_t)(b->n_bulk + 1) * sizeof *b->bulk);
  b->bulk[b->n_bulk++] = (struct bulk){ to, memcpy(malloc((size_t)bytes), (const void *)(uintptr_t)from, (size_t)bytes), barrier, bytes };
  memset(to, 0xcd, (size_t)bytes);
}

static void bulk_arrives(struct block *b) {
  for (int k = 0; k < b->n_bulk; k++) {
    struct bulk *x = &b->bulk[k];
    memcpy(x->to, x->data, (size_t)x->bytes);
    if (b->seeks_races) races_arrive(races_copier(), x->barrier);
    arrive(x->barrier, 0, -x->bytes);
    free(x->data);
  }
  b->n_bulk = 0;
}

/* cp.async.cg.shared.global [to], [from], 16, n, or .ca and 4: n bytes and zeros; or the end of a group; or waiting until n groups are left. */
static void copy_async(struct block *b, struct thread *t, const struct instruction *i) {
  if (!strncmp(i->how, "mbarrier", 8)) { copy_bulk(b, t, i); return; }
  if (!strncmp(i->how, "commit", 6)) { t->group++; return; }
  if (!strncmp(i->how, "wait", 4)) {
    int n = 0;
    for (int k = 0; k < t->n_way; k++) {
      const struct on_its_way *w = &t->way[k];
      if (w->group >= t->group - (int)i->in[0].number) { t->way[n++] = *w; continue; }
      look_at_own(b, t, RACE_STORES, w->to, w->bytes);
      memcpy(w->to, w->data, (size_t)w->bytes);
    }
    t->n_way = n;
    return;
  }
  int all = (int)i->in[4].number, bytes = i->n_in > 5 ? (int)get(b, t, &i->in[5], T_U32) : all;
  struct on_its_way w = { .to = shared_address(b, t, i, 0, all), .bytes = all, .group = t->group };
  const uint8_t *at = NULL;
  if ((get(b, t, &i->in[2], T_U64) + i->in[3].number) % (uint64_t)all) wrong(b, t, "an address that is not aligned");
  if (bytes < 0 || bytes > all) wrong(b, t, "a copy of more bytes than it may be");
  else if (bytes) {
    uint64_t a = get(b, t, &i->in[2], T_U64) + i->in[3].number;
    if (b->may_touch(a, bytes, touched_by(b, t->at))) at = (const uint8_t *)(uintptr_t)a, estimate(b, t, i, a, bytes);
    else wrong(b, t, "beyond what was allocated");
  }
  if (at) look_at_own(b, t, RACE_READS, at, bytes), memcpy(w.data, at, (size_t)bytes);
  if (w.to) look_at_own(b, t, RACE_STORES, w.to, all);
  if (t->n_way == t->way_room) t->way = realloc(t->way, (size_t)(t->way_room = 2 * t->way_room + 16) * sizeof *t->way);
  if (w.to) t->way[t->n_way++] = w;
}

static uint64_t updated(const struct instruction *i, uint64_t old, uint64_t x) {
  enum op op = (enum op)machine_op(i->how);
  switch (op) {
    case AND: return old & x;
    case OR: return old | x;
    case XOR: return old ^ x;
    default: return is_float(i->t) ? in_floats(op, i, old, x, 0) : in_integers(op, i, old, x);
  }
}

static void atomic(struct block *b, struct thread *t, const struct instruction *i) {
  int size = type_bytes(i->t);
  uint8_t *at = address(b, t, i, 0, size);
  uint64_t old = 0, x = get(b, t, &i->in[2], i->t), new;
  if (!at) return;
  look_at_own(b, t, RACE_COMBINES, at, size);
  memcpy(&old, at, (size_t)size);
  old = as(i->t, old);
  if (!strcmp(i->how, "cas")) new = old == x ? get(b, t, &i->in[3], i->t) : old;
  else if (!strcmp(i->how, "exch")) new = x;
  else new = updated(i, old, x);
  if (i->op == ATOM) set(t, i, i->t, old);
  memcpy(at, &new, (size_t)size);
}

/* ---- Meeting ---- */

static struct thread *lane_of(const struct block *b, const struct thread *t, unsigned lane) {
  unsigned at = (unsigned)(t - b->t) / 32 * 32 + lane;
  return at < (unsigned)b->n ? &b->t[at] : NULL;
}

static bool is_of_block(const struct instruction *i) { return i->op == BAR && i->how[0] != 'w'; } /* bar.warp.sync */

static uint32_t mask_of(const struct block *b, const struct thread *t, const struct instruction *i) {
  if (i->op == LDMATRIX || i->op == MMA) return UINT32_MAX;
  return (uint32_t)get(b, t, &i->in[i->n_in - 1], T_U32);
}

/* All of the mask wait at the same instruction. */
static bool is_together(struct block *b, const struct thread *t, uint32_t mask) {
  if (!(mask >> t->lane & 1)) wrong(b, t, "a lane that is not of its mask");
  for (unsigned l = 0; l < 32; l++) {
    const struct thread *x = mask >> l & 1 ? lane_of(b, t, l) : NULL;
    if (!(mask >> l & 1)) continue;
    if (!x || x->state == ENDED) return wrong(b, t, "a mask with a lane that has ended"), false;
    if (x->state != WAITS || x->at != t->at) return false;
  }
  return true;
}

/* Which lane a shuffle reads; its own if that is out of range. */
static unsigned source(const struct block *b, const struct thread *t, const struct instruction *i) {
  int by = (int)get(b, t, &i->in[1], T_U32), own = (int)t->lane;
  int at = i->how[0] == 'd' ? own + by : i->how[0] == 'u' ? own - by : i->how[0] == 'b' ? own ^ by : by & 31;
  return at < 0 || at > 31 ? t->lane : (unsigned)at;
}

static void exchange(struct block *b, struct thread *t, const struct instruction *i, uint32_t mask) {
  uint64_t out[32] = { 0 };
  if (i->op == BAR && b->seeks_races) races_meet_some((int)(t - b->t) / 32 * 32, mask);
  for (unsigned l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    struct thread *x = lane_of(b, t, l);
    if (i->op == SHFL) {
      unsigned from = source(b, x, i);
      if (!(mask >> from & 1)) wrong(b, x, "a shuffle from a lane that is not there");
      else out[l] = get(b, lane_of(b, t, from), &i->in[0], i->t);
    } else if (i->op == MATCH) {
      for (unsigned k = 0; k < 32; k++)
        if (mask >> k & 1 && get(b, lane_of(b, t, k), &i->in[0], i->t) == get(b, x, &i->in[0], i->t)) out[l] |= 1u << k;
    } else if (i->op == VOTE) { /* ballot */
      for (unsigned k = 0; k < 32; k++)
        if (mask >> k & 1 && get(b, lane_of(b, t, k), &i->in[0], T_PRED)) out[l] |= 1u << k;
    }
  }
  for (unsigned l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    struct thread *x = lane_of(b, t, l);
    if (i->op != BAR) x->reg[i->to[0].reg] = out[l]; /* bar.warp gives nothing */
    x->state = RUNS, x->at++;
  }
}

/* ldmatrix.x4: lane l has the address of row l % 8 of matrix l / 8, and gets elements 2 (l % 4) and the next of row l / 4 of each. */
static void load_matrices(struct block *b, struct thread *first, const struct instruction *i) {
  uint16_t row[32][8];
  bool turned = !strcmp(i->how, "trans");
  for (unsigned l = 0; l < 32; l++) {
    const uint8_t *at = address(b, lane_of(b, first, l), i, 0, 16);
    if (!at) return;
    look_at_own(b, lane_of(b, first, l), RACE_READS, at, 16);
    memcpy(row[l], at, 16);
  }
  for (unsigned l = 0; l < 32; l++) {
    struct thread *x = lane_of(b, first, l);
    for (unsigned k = 0; k < 4; k++) {
      unsigned r = l / 4, c = l % 4 * 2;
      uint32_t low = turned ? row[8 * k + c][r] : row[8 * k + r][c], high = turned ? row[8 * k + c + 1][r] : row[8 * k + r][c + 1];
      x->reg[i->to[k].reg] = low | high << 16;
    }
    x->state = RUNS, x->at++;
  }
}

static double half_of(const struct instruction *i, uint64_t word, unsigned high) {
  uint16_t h = (uint16_t)(word >> 16 * high);
  return i->how[0] != 'b' ? (double)f16(h) : f32((uint64_t)h << 16);
}

/* mma.m8n8k4 and m16n8k4 of f64: a chain of fma in the order of k. */
static void multiply_doubles(struct block *b, struct thread *first, const struct instruction *i) {
  double a[16][4], k_n[4][8], c[16][8];
  unsigned n_a = (unsigned)i->n_to / 2;
  for (unsigned l = 0; l < 32; l++) {
    const struct thread *x = lane_of(b, first, l);
    for (unsigned e = 0; e < n_a; e++) a[l / 4 + 8 * e][l % 4] = f64(get(b, x, &i->in[e], T_F64));
    k_n[l % 4][l / 4] = f64(get(b, x, &i->in[n_a], T_F64));
    for (unsigned e = 0; e < 2 * n_a; e++) c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2] = f64(get(b, x, &i->in[n_a + 1 + e], T_F64));
  }
  for (unsigned l = 0; l < 32; l++) {
    struct thread *x = lane_of(b, first, l);
    for (unsigned e = 0; e < 2 * n_a; e++) {
      unsigned r = l / 4 + e / 2 * 8, n = l % 4 * 2 + e % 2;
      double sum = c[r][n];
      for (int k = 0; k < 4; k++) sum = fma_f64(a[r][k], k_n[k][n], sum);
      x->reg[i->to[e].reg] = of_f64(sum);
    }
    x->state = RUNS, x->at++;
  }
}

/* mma.m16n8k8 of tf32: f32 of which the lower 13 bits are not looked at. */
static void multiply_tf32(struct block *b, struct thread *first, const struct instruction *i) {
  double a[16][8], c[16][8], k_n[8][8];
  for (unsigned l = 0; l < 32; l++) {
    const struct thread *x = lane_of(b, first, l);
    for (unsigned e = 0; e < 4; e++) {
      a[l / 4 + e % 2 * 8][l % 4 + e / 2 * 4] = f32(get(b, x, &i->in[e], T_U32) & 0xffffe000);
      c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2] = f32(get(b, x, &i->in[6 + e], T_F32));
    }
    for (unsigned e = 0; e < 2; e++) k_n[l % 4 + e * 4][l / 4] = f32(get(b, x, &i->in[4 + e], T_U32) & 0xffffe000);
  }
  for (unsigned l = 0; l < 32; l++) {
    struct thread *x = lane_of(b, first, l);
    for (unsigned e = 0; e < 4; e++) {
      double sum = c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2];
      for (int k = 0; k < 8; k++) sum += a[l / 4 + e / 2 * 8][k] * k_n[k][l % 4 * 2 + e % 2];
      x->reg[i->to[e].reg] = of_f32((float)sum);
    }
    x->state = RUNS, x->at++;
  }
}

/* mma.m16n8k16: d = a b + c, f32; each sum rounded once. */
static void multiply_matrices(struct block *b, struct thread *first, const struct instruction *i) {
  double a[16][16], c[16][8], k_n[16][8];
  for (unsigned l = 0; l < 32; l++) {
    const struct thread *x = lane_of(b, first, l);
    for (unsigned e = 0; e < 8; e++)
      a[l / 4 + e / 2 % 2 * 8][l % 4 * 2 + e % 2 + e / 4 * 8] = half_of(i, get(b, x, &i->in[e / 2], T_U32), e % 2);
    for (unsigned e = 0; e < 4; e++) k_n[l % 4 * 2 + e % 2 + e / 2 * 8][l / 4] = half_of(i, get(b, x, &i->in[4 + e / 2], T_U32), e % 2);
    for (unsigned e = 0; e < 4; e++) c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2] = f32(get(b, x, &i->in[6 + e], T_F32));
  }
  for (int r = 0; r < 16; r++)
    for (int n = 0; n < 8; n++)
      for (int k = 0; k < 16; k++) c[r][n] += a[r][k] * k_n[k][n];
  for (unsigned l = 0; l < 32; l++) {
    struct thread *x = lane_of(b, first, l);
    for (unsigned e = 0; e < 4; e++) x->reg[i->to[e].reg] = of_f32((float)c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2]);
    x->state = RUNS, x->at++;
  }
}

/* ---- wgmma ---- */

/* Where 16 bytes of a matrix stand that a register tells of: bits of an address / 16, and chunks exchanged by rows of 128 bytes. */
static const uint8_t *told(struct block *b, const struct thread *t, uint64_t desc, uint64_t more) {
  uint64_t base = (uint64_t)(uintptr_t)b->shared, at = base + ((((desc & 0x3fff) << 4) + more - base) & 0x3ffff);
  at ^= (at >> 7 & 7) << 4;
  if (desc >> 62 != 1 || at < base || at + 16 > base + b->shared_bytes) return wrong(b, t, "a matrix that is not in shared memory"), NULL;
  return (const uint8_t *)(uintptr_t)at;
}

/* Element (n, k) of a matrix of 16 along k: neighbours along k, or turned, along n. */
static double told_element(struct block *b, const struct thread *t, const struct instruction *i, uint64_t desc, bool turned, unsigned n,
                           unsigned k) {
  uint64_t from_piece = (desc >> 16 & 0x3fff) << 4, from_atom = (desc >> 32 & 0x3fff) << 4;
  uint64_t more = turned ? n / 64 * from_piece + k / 8 * from_atom + k % 8 * 128 + n % 64 / 8 * 16
                         : n / 8 * from_atom + n % 8 * 128 + k / 8 * 16;
  const uint8_t *at = told(b, t, desc, more);
  uint16_t h = 0;
  if (at && !((turned ? n : k) % 8)) look_at_own(b, t, RACE_READS, at, 16);
  if (at) memcpy(&h, at + (turned ? n : k) % 8 * 2, 2);
  return half_of(i, h, 0);
}

static bool is_multiplying(const struct instruction *i) { return i->n_to > 4; }

/* wgmma.m64nNk16: the first of 128 threads that are all here; a in registers if the instruction has four more operands. */
static void multiply_group(struct block *b, struct thread *first, const struct instruction *i) {
  unsigned columns = (unsigned)i->n_to * 2, at_b = i->n_in == 9 ? 4 : 1;
  bool in_registers = i->n_in == 9, turned = get(b, first, &i->in[i->n_in - 1], T_U32), adds = get(b, first, &i->in[at_b + 1], T_PRED);
  static _Thread_local double a[64][16], k_n[16][256];
  uint64_t desc[2] = { get(b, first, &i->in[0], T_B64), get(b, first, &i->in[at_b], T_B64) };
  for (unsigned n = 0; n < columns && !*b->why; n++)
    for (unsigned k = 0; k < 16; k++) k_n[k][n] = told_element(b, first, i, desc[1], turned, n, k);
  for (unsigned r = 0; r < 64 && !in_registers && !*b->why; r++)
    for (unsigned k = 0; k < 16; k++) a[r][k] = told_element(b, first, i, desc[0], get(b, first, &i->in[5], T_U32), r, k);
  for (unsigned u = 0; u < 128 && in_registers; u++)
    for (unsigned e = 0; e < 8; e++)
      a[u / 32 * 16 + u % 32 / 4 + e / 2 % 2 * 8][u % 4 * 2 + e % 2 + e / 4 * 8] = half_of(i, get(b, &first[u], &i->in[e / 2], T_U32), e % 2);
  for (unsigned u = 0; u < 128; u++) {
    for (unsigned e = 0; e < columns / 2; e++) {
      unsigned r = u / 32 * 16 + u % 32 / 4 + e / 2 % 2 * 8, n = e / 4 * 8 + u % 4 * 2 + e % 2;
      double sum = adds ? f32(first[u].reg[i->to[e].reg]) : 0;
      for (int k = 0; k < 16; k++) sum += a[r][k] * k_n[k][n];
      first[u].reg[i->to[e].reg] = of_f32((float)sum);
    }
    first[u].state = RUNS, first[u].at++;
  }
}

/* All threads of the group wait at this instruction. */
static bool is_group_together(const struct block *b, const struct thread *first) {
  if ((first - b->t) % 128 || first - b->t + 128 > b->n) return false;
  for (int u = 0; u < 128; u++)
    if (first[u].state != WAITS || first[u].at != first->at) return false;
  return true;
}

/* Lets those go on who wait for nobody any more. */
static bool meet(struct block *b) {
  bool any = false, all = true;
  for (int k = 0; k < b->n && all; k++)
    all = b->t[k].state == ENDED || (b->t[k].state == WAITS && is_of_block(&b->e->i[b->t[k].at]));
  if (all && b->seeks_races) races_meet_all();
  for (int k = 0; k < b->n && !*b->why; k++) {
    struct thread *t = &b->t[k];
    if (t->state != WAITS) continue;
    const struct instruction *i = &b->e->i[t->at];
    if (is_of_block(i)) {
      if (all) t->state = RUNS, t->at++, any = true;
      continue;
    }
    if (i->op == MBARRIER) {
      if (is_turn_over(b, t, i)) t->reg[i->to[0].reg] = 1, t->state = RUNS, t->at++, any = true;
      continue;
    }
    if (i->op == WGMMA) {
      if (is_group_together(b, t)) multiply_group(b, t, i), any = true;
      continue;
    }
    uint32_t mask = mask_of(b, t, i);
    if (!is_together(b, t, mask)) continue;
    any = true;
    if (i->op == LDMATRIX) load_matrices(b, t, i);
    else if (i->op == MMA) (i->t == T_F64 ? multiply_doubles : strcmp(i->how, "tf32") ? multiply_matrices : multiply_tf32)(b, t, i);
    else exchange(b, t, i, mask);
  }
  return any;
}

/* ---- Running ---- */

static void step(struct block *b, struct thread *t) {
  const struct instruction *i = &b->e->i[t->at];
  if (i->guard >= 0 && (bool)(t->reg[i->guard] & 1) == i->unless) { t->at++; return; }
  switch ((enum op)i->op) {
    case MOV:
      if (i->n_to == 2) {
        uint64_t x = get(b, t, &i->in[0], T_B64);
        t->reg[i->to[0].reg] = (uint32_t)x, t->reg[i->to[1].reg] = x >> 32;
      } else if (i->n_in == 2) {
        t->reg[i->to[0].reg] = get(b, t, &i->in[0], T_B32) | get(b, t, &i->in[1], T_B32) << 32;
      } else {
        set(t, i, i->t, in(b, t, i, 0));
      }
      break;
    case CVTA: set(t, i, T_U64, in(b, t, i, 0)); break;
    case ADD: case SUB: case MUL: case DIV: case REM: case MIN: case MAX: {
      uint64_t x = in(b, t, i, 0), y = in(b, t, i, 1);
      bool is_wide = i->op == MUL && i->how[0] == 'w';
      if (is_float(i->t)) set(t, i, i->t, in_floats((enum op)i->op, i, x, y, 0));
      else set(t, i, is_wide ? T_U64 : i->t, in_integers((enum op)i->op, i, x, y));
      break;
    }
    case FMA: set(t, i, i->t, in_floats(FMA, i, in(b, t, i, 0), in(b, t, i, 1), in(b, t, i, 2))); break;
    case MAD: {
      bool is_wide = i->how[0] == 'w';
      uint64_t c = get(b, t, &i->in[2], is_wide ? T_U64 : i->t);
      set(t, i, is_wide ? T_U64 : i->t, multiplied(i, in(b, t, i, 0), in(b, t, i, 1)) + c);
      break;
    }
    case SQRT: set(t, i, i->t, in_floats(SQRT, i, in(b, t, i, 0), 0, 0)); break;
    case AND: set(t, i, i->t, in(b, t, i, 0) & in(b, t, i, 1)); break;
    case OR: set(t, i, i->t, in(b, t, i, 0) | in(b, t, i, 1)); break;
    case XOR: set(t, i, i->t, in(b, t, i, 0) ^ in(b, t, i, 1)); break;
    case NOT: set(t, i, i->t, ~in(b, t, i, 0)); break;
    case NEG:
      if (i->t == T_F32 || i->t == T_F64) set(t, i, i->t, in(b, t, i, 0) ^ UINT64_C(1) << (i->t == T_F32 ? 31 : 63));
      else set(t, i, i->t, 0 - in(b, t, i, 0));
      break;
    case ABS:
      if (i->t == T_F32 || i->t == T_F64) set(t, i, i->t, in(b, t, i, 0) & ~(UINT64_C(1) << (i->t == T_F32 ? 31 : 63)));
      else set(t, i, i->t, (int64_t)in(b, t, i, 0) < 0 ? 0 - in(b, t, i, 0) : in(b, t, i, 0));
      break;
    case SHL: case SHR: set(t, i, i->t, shifted((enum op)i->op, i->t, in(b, t, i, 0), get(b, t, &i->in[1], T_U32))); break;
    case SETP: {
      bool yes = compared(i, in(b, t, i, 0), in(b, t, i, 1));
      if (strchr(i->how, '&')) yes = yes && get(b, t, &i->in[2], T_PRED);
      if (strchr(i->how, '|')) yes = yes || get(b, t, &i->in[2], T_PRED);
      t->reg[i->to[0].reg] = yes;
      break;
    }
    case SELP: set(t, i, i->t, get(b, t, &i->in[2], T_PRED) ? in(b, t, i, 0) : in(b, t, i, 1)); break;
    case PRMT: set(t, i, T_B32, permuted(in(b, t, i, 0), in(b, t, i, 1), in(b, t, i, 2))); break;
    case BFI: { /* b with the lowest bits of a in place of those from c on */
      unsigned from = (unsigned)in(b, t, i, 2), n = (unsigned)in(b, t, i, 3);
      uint64_t bits = (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX) << from;
      set(t, i, i->t, (in(b, t, i, 1) & ~bits) | (in(b, t, i, 0) << from & bits));
      break;
    }
    case SHF: {
      uint64_t both = in(b, t, i, 1) << 32 | in(b, t, i, 0), n = in(b, t, i, 2) & 31; /* shf.l.wrap */
      set(t, i, T_B32, both << n >> 32);
      break;
    }
    case CVT:
      if (i->n_in == 2) { set(t, i, T_B32, packed(i, in(b, t, i, 0), in(b, t, i, 1))); break; }
      set(t, i, i->t, converted(i, get(b, t, &i->in[0], i->from))); break;
    case EX2: set(t, i, T_F32, of_f32((float)exp2(f32(in(b, t, i, 0))))); break; /* .approx: within two units of the last place */
    case LG2: set(t, i, T_F32, of_f32((float)log2(f32(in(b, t, i, 0))))); break;
    case RCP: { /* .approx: the nearest, or its neighbour, but of 2 - 2^-23, where no step of Newton's leads from there to the nearest */
      if (i->t == T_F64) { /* the upper word of it alone */
        double d;
        uint64_t bits = get(b, t, &i->in[0], T_F64);
        memcpy(&d, &bits, sizeof d);
        d = 1 / d;
        memcpy(&bits, &d, sizeof d);
        set(t, i, T_F64, bits & ~(uint64_t)0xffffffff);
        break;
      }
      float x = f32(in(b, t, i, 0)), r = 1 / x;
      set(t, i, T_F32, of_f32(of_f32(x) & 1 && (of_f32(x) & 0x7fffff) != 0x7fffff ? nextafterf(r, 0) : r));
      break;
    }
    case LD: load(b, t, i); break;
    case ST: store(b, t, i); break;
    case RED: case ATOM: atomic(b, t, i); break;
    case BRA: t->at = i->target; return;
    case RET: t->state = ENDED; return;
    case CP: copy_async(b, t, i); break;
    case BAR: case SHFL: case MATCH: case VOTE: case LDMATRIX: case MMA: t->state = WAITS; return;
    case WGMMA: /* fence, commit and wait: all is done at once */
      if (!is_multiplying(i)) break;
      t->state = WAITS;
      return;
    case FENCE: case GRIDDEPCONTROL: break; /* one launch runs after the other */
    case CREATEPOLICY: t->reg[i->to[0].reg] = 1; break; /* there is no cache to have one */
    case MBARRIER:
      if (strcmp(i->how, "parity")) { of_mbarrier(b, t, i); break; }
      t->state = WAITS;
      return;
    case ACTIVEMASK: t->reg[i->to[0].reg] = 1u << t->lane; break; /* nobody promises more */
    case BFIND: t->reg[i->to[0].reg] = in(b, t, i, 0) ? 31u - (unsigned)__builtin_clz((uint32_t)in(b, t, i, 0)) : UINT32_MAX; break;
    case PREFETCH: address(b, t, i, 0, 1); break;
    case POPC: t->reg[i->to[0].reg] = (uint64_t)__builtin_popcountll(in(b, t, i, 0)); break;
    case OPS: wrong(b, t, "an instruction it does not know"); break;
  }
  t->at++;
}

/* ---- Quickly: the same, of what most instructions are, on registers and numbers of 32 and of 64 bits ---- */

/* What is a value of its operands, by name: IN(k) is the k-th, WORD(k) its lower half. */
#define VALUE_ROWS(X)                                                                              \
  X(MOV4, WORD(0)) X(MOV8, IN(0))                                                                  \
  X(ADD4, WORD(0) + WORD(1)) X(ADD8, IN(0) + IN(1)) X(SUB4, WORD(0) - WORD(1)) X(SUB8, IN(0) - IN(1)) \
  X(MUL4, WORD(0) * WORD(1)) X(MUL8, IN(0) * IN(1))                                                \
  X(WIDE_S, WIDE_SIGNED) X(WIDE_U, (uint64_t)WORD(0) * WORD(1))                                    \
  X(MAD4, WORD(0) * WORD(1) + WORD(2)) X(MAD8, IN(0) * IN(1) + IN(2))                              \
  X(MAD_S, WIDE_SIGNED + IN(2)) X(MAD_U, (uint64_t)WORD(0) * WORD(1) + IN(2))                      \
  X(AND, IN(0) & IN(1)) X(OR, IN(0) | IN(1)) X(XOR, IN(0) ^ IN(1))                                 \
  X(NOT4, ~WORD(0)) X(NOT8, ~IN(0)) X(NOT_PRED, ~IN(0) & 1)                                        \
  X(SHL4, WORD(1) > 31 ? 0 : WORD(0) << WORD(1)) X(SHL8, WORD(1) > 63 ? 0 : IN(0) << WORD(1))      \
  X(SHR_U4, WORD(1) > 31 ? 0 : WORD(0) >> WORD(1)) X(SHR_U8, WORD(1) > 63 ? 0 : IN(0) >> WORD(1))  \
  X(SHR_S4, (uint32_t)((int32_t)WORD(0) >> (WORD(1) > 31 ? 31 : WORD(1))))                         \
  X(SHR_S8, (uint64_t)((int64_t)IN(0) >> (WORD(1) > 63 ? 63 : WORD(1))))                           \
  X(MIN_S4, (int32_t)WORD(0) < (int32_t)WORD(1) ? WORD(0) : WORD(1)) X(MIN_U4, WORD(0) < WORD(1) ? WORD(0) : WORD(1)) \
  X(MAX_S4, (int32_t)WORD(0) > (int32_t)WORD(1) ? WORD(0) : WORD(1)) X(MAX_U4, WORD(0) > WORD(1) ? WORD(0) : WORD(1)) \
  X(MIN_S8, (int64_t)IN(0) < (int64_t)IN(1) ? IN(0) : IN(1)) X(MIN_U8, IN(0) < IN(1) ? IN(0) : IN(1)) \
  X(MAX_S8, (int64_t)IN(0) > (int64_t)IN(1) ? IN(0) : IN(1)) X(MAX_U8, IN(0) > IN(1) ? IN(0) : IN(1)) \
  X(MIN_F32, of_f32((float)extreme(true, q->how, f32(IN(0)), f32(IN(1))))) X(MIN_F64, of_f64(extreme(true, q->how, f64(IN(0)), f64(IN(1))))) \
  X(MAX_F32, of_f32((float)extreme(false, q->how, f32(IN(0)), f32(IN(1))))) X(MAX_F64, of_f64(extreme(false, q->how, f64(IN(0)), f64(IN(1))))) \
  X(DIV_S8, divided(DIV, T_S64, IN(0), IN(1))) X(DIV_U8, divided(DIV, T_U64, IN(0), IN(1)))        \
  X(REM_S8, divided(REM, T_S64, IN(0), IN(1))) X(REM_U8, divided(REM, T_U64, IN(0), IN(1)))        \
  X(DIV_U4, (uint32_t)divided(DIV, T_U32, WORD(0), WORD(1))) X(REM_U4, (uint32_t)divided(REM, T_U32, WORD(0), WORD(1))) \
  X(SELP, IN(2) & 1 ? IN(0) : IN(1)) X(SELP2, (uint16_t)(IN(2) & 1 ? IN(0) : IN(1)))               \
  X(MOV2, (uint16_t)IN(0)) X(MOV_PRED, IN(0) & 1)                                                  \
  X(CVT, as((enum type)q->how, as((enum type)q->more, IN(0))) & (type_bytes((enum type)q->how) == 4 ? UINT32_MAX : UINT64_MAX)) \
  X(ADD_F32, of_f32(f32(IN(0)) + f32(IN(1)))) X(ADD_F64, of_f64(f64(IN(0)) + f64(IN(1))))          \
  X(SUB_F32, of_f32(f32(IN(0)) - f32(IN(1)))) X(SUB_F64, of_f64(f64(IN(0)) - f64(IN(1))))          \
  X(MUL_F32, of_f32(f32(IN(0)) * f32(IN(1)))) X(MUL_F64, of_f64(f64(IN(0)) * f64(IN(1))))          \
  X(DIV_F32, of_f32(f32(IN(0)) / f32(IN(1)))) X(DIV_F64, of_f64(f64(IN(0)) / f64(IN(1))))          \
  X(FMA_F32, of_f32(fma_f32(f32(IN(0)), f32(IN(1)), f32(IN(2))))) X(FMA_F64, of_f64(fma_f64(f64(IN(0)), f64(IN(1)), f64(IN(2))))) \
  X(NEG_F32, WORD(0) ^ UINT32_C(1) << 31) X(NEG_F64, IN(0) ^ UINT64_C(1) << 63)                    \
  X(ABS_F32, WORD(0) & UINT32_MAX >> 1) X(ABS_F64, IN(0) & UINT64_MAX >> 1)                        \
  X(F32_OF_F16, of_f32((float)f16(IN(0)))) X(F16_OF_F32, of_f16((_Float16)f32(IN(0))))              \
  X(F64_OF_F32, of_f64(f32(IN(0)))) X(F32_OF_F64, of_f32((float)f64(IN(0))))                       \
  X(F32_OF_S4, of_f32((float)(int32_t)WORD(0))) X(F32_OF_U4, of_f32((float)WORD(0)))               \
  X(F64_OF_S4, of_f64((double)(int32_t)WORD(0))) X(F64_OF_U4, of_f64((double)WORD(0)))             \
  SETP_ROWS(X, F32, f32(IN(0)), f32(IN(1))) SETP_ROWS(X, F64, f64(IN(0)), f64(IN(1)))              \
  SETP_ROWS(X, S4, (int32_t)WORD(0), (int32_t)WORD(1)) SETP_ROWS(X, S8, (int64_t)IN(0), (int64_t)IN(1)) \
  SETP_ROWS(X, U4, WORD(0), WORD(1)) SETP_ROWS(X, U8, IN(0), IN(1))
#define WIDE_SIGNED (uint64_t)((int64_t)(int32_t)WORD(0) * (int32_t)WORD(1))

/* In the order of enum question. */
#define SETP_ROWS(X, of, x, y)                                                                     \
  X(NAN_##of, JOINED(isnan((double)(x)) || isnan((double)(y)))) X(NUM_##of, JOINED(!isnan((double)(x)) && !isnan((double)(y)))) \
  X(NEU_##of, JOINED(!((x) == (y)))) X(EQ_##of, JOINED((x) == (y))) X(NE_##of, JOINED((x) < (y) || (x) > (y))) \
  X(LT_##of, JOINED((x) < (y))) X(LE_##of, JOINED((x) <= (y))) X(GT_##of, JOINED((x) > (y))) X(GE_##of, JOINED((x) >= (y)))
#define JOINED(yes) (!q->more ? (yes) : q->more == 1 ? (yes) && (IN(2) & 1) : (yes) || (IN(2) & 1))
enum question { ASKS_NAN, ASKS_NUM, ASKS_NEU, ASKS_EQ, ASKS_NE, ASKS_LT, ASKS_LE, ASKS_GT, ASKS_GE };

/* A number of memory, anywhere or in shared memory. */
#define MEMORY_ROWS(X)                                                                             \
  X(U1, uint8_t, uint8_t) X(S1, int8_t, uint32_t) X(U2, uint16_t, uint16_t) X(S2, int16_t, uint32_t) X(U4, uint32_t, uint32_t) X(U8, uint64_t, uint64_t)

#define VALUE_CODE(name, value) Q_##name,
#define MEMORY_CODES(name, type, as_type) Q_LD_##name, Q_LD_SHARED_##name, Q_ST_##name, Q_ST_SHARED_##name,
enum quick_code { Q_NONE, Q_GUARDED, Q_BRA, VALUE_ROWS(VALUE_CODE) MEMORY_ROWS(MEMORY_CODES) Q_LD_4S, Q_ST_4S, Q_LD_8S, Q_ST_8S, Q_CODES };
_Static_assert(Q_CODES < 256, "a byte");

static enum question question_of(const char *how) {
  static const char *const words[] = { "nan", "num", "neu", "eq", "ne", "lt", "le", "gt" };
  for (int q = ASKS_NAN; q < ASKS_GE; q++) if (!strncmp(how, words[q], strlen(words[q]))) return (enum question)q;
  return ASKS_GE;
}

static int quick_setp(const struct instruction *i) {
  int question = (int)question_of(i->how);
  switch (i->t) {
    case T_F32: return Q_NAN_F32 + question;
    case T_F64: return Q_NAN_F64 + question;
    case T_S32: return Q_NAN_S4 + question;
    case T_S64: return Q_NAN_S8 + question;
    case T_U32: case T_B32: return Q_NAN_U4 + question;
    case T_U64: case T_B64: return Q_NAN_U8 + question;
    default: return Q_NONE;
  }
}

/* Of an op on numbers of 4 and 8 bytes, and its codes on floats of that size; Q_NONE: it has none. */
static int by_size(enum type t, int of_4, int of_8, int of_f32, int of_f64) {
  if (t == T_F32) return of_f32;
  if (t == T_F64) return of_f64;
  return type_bytes(t) == 4 ? of_4 : type_bytes(t) == 8 ? of_8 : Q_NONE;
}

static int quick_memory(const struct instruction *i, bool loads) {
  int row = i->t == T_S8 ? Q_LD_S1 : i->t == T_S16 ? Q_LD_S2 : type_bytes(i->t) == 1 ? Q_LD_U1 : type_bytes(i->t) == 2 ? Q_LD_U2
          : type_bytes(i->t) == 4 ? Q_LD_U4 : Q_LD_U8;
  if (i->width > 1) return by_size(i->t, loads ? Q_LD_4S : Q_ST_4S, loads ? Q_LD_8S : Q_ST_8S, loads ? Q_LD_4S : Q_ST_4S, loads ? Q_LD_8S : Q_ST_8S);
  return row + i->is_shared + (loads ? 0 : 2);
}

static int quick_cvt(const struct instruction *i) {
  bool is_plain = !i->round[0] || !strcmp(i->round, "rn");
  if (i->n_in != 1 || !i->from) return Q_NONE;
  if (!is_float(i->t) && !is_float(i->from)) return Q_CVT;
  if (!is_plain) return Q_NONE;
  if (i->t == T_F16) return i->from == T_F32 ? Q_F16_OF_F32 : Q_NONE;
  if (i->t == T_F32 && i->from == T_F16) return Q_F32_OF_F16;
  if (i->t == T_F32) return i->from == T_F64 ? Q_F32_OF_F64 : i->from == T_S32 ? Q_F32_OF_S4 : i->from == T_U32 ? Q_F32_OF_U4 : Q_NONE;
  if (i->t == T_F64) return i->from == T_F32 ? Q_F64_OF_F32 : i->from == T_S32 ? Q_F64_OF_S4 : i->from == T_U32 ? Q_F64_OF_U4 : Q_NONE;
  return Q_NONE;
}

static int quick_code(const struct instruction *i) {
  bool is_s = is_signed(i->t), is_lo = i->how[0] == 'l', is_wide = i->how[0] == 'w' && type_bytes(i->t) == 4;
  switch ((enum op)i->op) {
    case BRA: return Q_BRA;
    case MOV:
      if (i->n_in != 1) return Q_NONE;
      return i->t == T_PRED ? Q_MOV_PRED : i->t == T_B16 || i->t == T_U16 ? Q_MOV2 : by_size(i->t, Q_MOV4, Q_MOV8, Q_MOV4, Q_MOV8);
    case CVTA: return Q_MOV8;
    case ADD: return by_size(i->t, Q_ADD4, Q_ADD8, Q_ADD_F32, Q_ADD_F64);
    case SUB: return by_size(i->t, Q_SUB4, Q_SUB8, Q_SUB_F32, Q_SUB_F64);
    case MUL: return is_wide ? (is_s ? Q_WIDE_S : Q_WIDE_U) : by_size(i->t, is_lo ? Q_MUL4 : Q_NONE, is_lo ? Q_MUL8 : Q_NONE, Q_MUL_F32, Q_MUL_F64);
    case MAD: return is_wide ? (is_s ? Q_MAD_S : Q_MAD_U) : is_lo ? by_size(i->t, Q_MAD4, Q_MAD8, Q_NONE, Q_NONE) : Q_NONE;
    case DIV: return by_size(i->t, is_s ? Q_NONE : Q_DIV_U4, is_s ? Q_DIV_S8 : Q_DIV_U8, Q_DIV_F32, Q_DIV_F64);
    case REM: return by_size(i->t, is_s ? Q_NONE : Q_REM_U4, is_s ? Q_REM_S8 : Q_REM_U8, Q_NONE, Q_NONE);
    case MIN: return by_size(i->t, is_s ? Q_MIN_S4 : Q_MIN_U4, is_s ? Q_MIN_S8 : Q_MIN_U8, Q_MIN_F32, Q_MIN_F64);
    case MAX: return by_size(i->t, is_s ? Q_MAX_S4 : Q_MAX_U4, is_s ? Q_MAX_S8 : Q_MAX_U8, Q_MAX_F32, Q_MAX_F64);
    case FMA: return by_size(i->t, Q_NONE, Q_NONE, Q_FMA_F32, Q_FMA_F64);
    case NEG: return by_size(i->t, Q_NONE, Q_NONE, Q_NEG_F32, Q_NEG_F64);
    case ABS: return by_size(i->t, Q_NONE, Q_NONE, Q_ABS_F32, Q_ABS_F64);
    case AND: return i->t == T_PRED ? Q_AND : by_size(i->t, Q_AND, Q_AND, Q_NONE, Q_NONE);
    case OR: return i->t == T_PRED ? Q_OR : by_size(i->t, Q_OR, Q_OR, Q_NONE, Q_NONE);
    case XOR: return i->t == T_PRED ? Q_XOR : by_size(i->t, Q_XOR, Q_XOR, Q_NONE, Q_NONE);
    case NOT: return i->t == T_PRED ? Q_NOT_PRED : by_size(i->t, Q_NOT4, Q_NOT8, Q_NONE, Q_NONE);
    case SHL: return by_size(i->t, Q_SHL4, Q_SHL8, Q_NONE, Q_NONE);
    case SHR: return is_s ? by_size(i->t, Q_SHR_S4, Q_SHR_S8, Q_NONE, Q_NONE) : by_size(i->t, Q_SHR_U4, Q_SHR_U8, Q_NONE, Q_NONE);
    case SELP: return i->t == T_B16 || i->t == T_U16 ? Q_SELP2 : by_size(i->t, Q_SELP, Q_SELP, Q_SELP, Q_SELP);
    case SETP: return quick_setp(i);
    case CVT: return quick_cvt(i);
    case LD: return i->is_param ? (i->width < 2 ? Q_MOV8 : Q_NONE) : quick_memory(i, true);
    case ST: return quick_memory(i, false);
    default: return Q_NONE;
  }
}

/* What an operand is read as; a number is that from the start. */
static enum type type_of_operand(const struct instruction *i, int k) {
  if (i->op == SHL || i->op == SHR) return k ? T_U32 : i->t;
  if (i->op == SELP || i->op == SETP) return k < 2 ? i->t : T_PRED;
  if (i->op == LD || i->op == ST) return k < 2 ? T_U64 : i->t;
  if (i->op == MAD && i->how[0] == 'w' && k == 2) return T_U64;
  return i->op == CVT ? i->from : i->op == CVTA ? T_U64 : i->t;
}

enum { LOCAL_MEMORY = SPECIALS, OTHERS, RECENT = OTHERS + 256 }; /* numbers that are not written once more: others by hash */

/* The place of an operand among the registers; what is none stands behind them. */
static int place_of(struct entry *e, int recent[RECENT], struct arg a, enum type t) {
  if (a.kind == ARG_REG) return a.reg;
  if (a.kind != ARG_PARAM) a.number = a.kind == ARG_NUMBER || a.kind == ARG_GLOBAL ? as(t, a.number) : a.number, t = T_NONE;
  int *last = &recent[a.kind == ARG_SPECIAL ? a.number : a.kind == ARG_LOCAL ? LOCAL_MEMORY : (a.number * UINT64_C(0x9e3779b97f4a7c15) >> 56) + OTHERS];
  const struct number *x = *last < e->n_numbers ? &e->numbers[*last] : NULL;
  if (x && x->a.number == a.number && x->a.kind == a.kind && x->t == t) return e->n_regs + *last;
  if (!(e->n_numbers & (e->n_numbers - 1))) e->numbers = realloc(e->numbers, (size_t)(2 * e->n_numbers + 1) * sizeof *e->numbers);
  e->numbers[*last = e->n_numbers] = (struct number){ a, t };
  return e->n_regs + e->n_numbers++;
}

static struct quick prepared(struct entry *e, int recent[RECENT], const struct instruction *i) {
  struct quick q = { .code = (uint8_t)quick_code(i), .unless = i->unless, .guard = i->guard, .target = i->target };
  bool is_vector = q.code >= Q_LD_4S, loads_param = i->op == LD && i->is_param;
  int n_in = is_vector ? 2 : loads_param ? 1 : i->n_in;
  if ((i->op == LD || i->op == ST) && !loads_param && races_are_sought()) q.code = Q_NONE;
  if (!is_vector && (i->n_to > 1 || i->n_in > 3)) q.code = Q_NONE;
  if (i->n_to && i->to[0].kind != ARG_REG) q.code = Q_NONE;
  for (int k = 0; k < n_in; k++) if (i->in[k].kind == ARG_NONE) q.code = Q_NONE;
  if (i->n_to) q.to = i->to[0].reg;
  for (int k = 0; k < n_in && q.code; k++) {
    struct arg a = i->in[k];
    if (loads_param) a.kind = ARG_PARAM;
    q.in[k] = place_of(e, recent, a, loads_param ? i->t : type_of_operand(i, k));
  }
  if (i->op == SETP) q.more = strchr(i->how, '&') ? 1 : strchr(i->how, '|') ? 2 : 0;
  if (i->op == MIN || i->op == MAX) q.how = i->is_nan;
  if (i->op == CVT) q.how = (uint8_t)i->t, q.more = (uint8_t)i->from;
  if (is_vector) q.how = (uint8_t)(type_bytes(i->t) * i->width), q.more = i->is_shared;
  if (q.code && q.guard >= 0) q.then = q.code, q.code = Q_GUARDED;
  return q;
}

void machine_prepare(struct entry *e) {
  e->quick = aligned_alloc(64, ((size_t)e->n_instructions + 2) / 2 * 2 * sizeof *e->quick);
  int recent[RECENT] = { 0 };
  for (int k = 0; k < e->n_instructions; k++) {
    const struct instruction *i = &e->i[k];
    for (int n = 0; n < i->n_in; n++)
      if (i->in[n].kind == ARG_SPECIAL || i->in[n].kind == ARG_LOCAL) place_of(e, recent, i->in[n], T_NONE);
    e->meets |= i->op == BAR || i->op == SHFL || i->op == MATCH || i->op == VOTE || i->op == LDMATRIX || i->op == MMA || i->op == WGMMA || i->op == MBARRIER;
  }
  e->n_own = e->n_numbers;
  for (int k = 0; k < e->n_instructions; k++) e->quick[k] = prepared(e, recent, &e->i[k]);
  e->quick[e->n_instructions] = (struct quick){ .guard = -1 };
}

/* Where a number of so many bytes stands, if it is where the last one was, and if not, by all that is known; NULL: it may not be touched. */
static inline uint8_t *quick_address(struct block *b, struct thread *t, const struct quick *q, uint64_t at, uint64_t bytes, bool is_shared) {
  const struct stretch *last = touched_by(b, (int)(q - b->e->quick));
  uint64_t from = is_shared ? (uint64_t)(uintptr_t)b->shared : last->from, room = is_shared ? b->shared_bytes : last->bytes;
  bool is_known = is_shared || !b->estimate;
  if (is_known && at % bytes == 0 && at - from < room && room - (at - from) >= bytes) return (uint8_t *)(uintptr_t)at;
  t->at = (int)(q - b->e->quick);
  return address(b, t, &b->e->i[t->at], 0, (int)bytes);
}

#define IN(k) reg[q->in[k]]
#define WORD(k) ((uint32_t)IN(k))

/* Until the thread is at an instruction that is none of these; so many of them were done. Each jumps to the next one by itself, so that
 * the processor learns what follows what. */
static uint64_t run_quickly(struct block *b, struct thread *t) {
#define VALUE_LABEL(name, value) [Q_##name] = &&name,
#define MEMORY_LABELS(name, type, as_type)                                                                      \
  [Q_LD_##name] = &&LD_##name, [Q_LD_SHARED_##name] = &&LD_SHARED_##name, [Q_ST_##name] = &&ST_##name, [Q_ST_SHARED_##name] = &&ST_SHARED_##name,
  static const void *const labels[Q_CODES] = { [Q_NONE] = &&none, [Q_GUARDED] = &&guarded, [Q_BRA] = &&jump, VALUE_ROWS(VALUE_LABEL)
                                               MEMORY_ROWS(MEMORY_LABELS) [Q_LD_4S] = &&load_4s, [Q_ST_4S] = &&store_4s,
                                               [Q_LD_8S] = &&load_8s, [Q_ST_8S] = &&store_8s };
  const struct quick *all = b->e->quick, *q = all + t->at, *from = q;
  uint64_t *reg = t->reg, n = 0;
  goto *labels[q->code];
#define NEXT do { q++; goto *labels[q->code]; } while (0)

none:
  return t->at = (int)(q - all), n + (uint64_t)(q - from);
guarded:
  if ((bool)(reg[q->guard] & 1) == q->unless) NEXT;
  goto *labels[q->then];
jump:
  n += (uint64_t)(q - from) + 1;
  if (n > MOST_STEPS) return t->at = (int)(q - all), n;
  q = from = all + q->target;
  goto *labels[q->code];
#define VALUE(name, value) name: reg[q->to] = (value); NEXT;
  VALUE_ROWS(VALUE)
#define ACCESS(name, is_shared, size)                                            \
  name: {                                                                        \
    uint8_t *at = quick_address(b, t, q, IN(0) + IN(1), size, is_shared);        \
    if (!at) return n + (uint64_t)(q - from);
#define LOADS(name, type, as_type) { type x; memcpy(&x, at, sizeof x); reg[q->to] = (as_type)x; NEXT; } }
#define STORES(name, type, as_type) { type x = (type)IN(2); memcpy(at, &x, sizeof x); NEXT; } }
#define MEMORY(name, type, as_type)                                              \
  ACCESS(LD_##name, false, sizeof(type)) LOADS(name, type, as_type)              \
  ACCESS(LD_SHARED_##name, true, sizeof(type)) LOADS(name, type, as_type)        \
  ACCESS(ST_##name, false, sizeof(type)) STORES(name, type, as_type)             \
  ACCESS(ST_SHARED_##name, true, sizeof(type)) STORES(name, type, as_type)
  MEMORY_ROWS(MEMORY)
#define VECTORS(load, store, type)                                               \
  ACCESS(load, q->more, q->how)                                                  \
    const struct arg *to = b->e->i[q - all].to;                                  \
    for (size_t k = 0; k < q->how / sizeof(type); k++) {                         \
      type x;                                                                    \
      memcpy(&x, at + k * sizeof x, sizeof x);                                   \
      reg[to[k].reg] = x;                                                        \
    }                                                                            \
    NEXT;                                                                        \
  }                                                                              \
  ACCESS(store, q->more, q->how)                                                 \
    const struct arg *values = b->e->i[q - all].in + 2;                          \
    for (size_t k = 0; k < q->how / sizeof(type); k++) {                         \
      type x = (type)get(b, t, &values[k], T_B64);                               \
      memcpy(at + k * sizeof x, &x, sizeof x);                                   \
    }                                                                            \
    NEXT;                                                                        \
  }
  VECTORS(load_4s, store_4s, uint32_t)
  VECTORS(load_8s, store_8s, uint64_t)
}

/* What numbers of the text are. */
static void write_numbers(const struct block *b, struct thread *t, int from, int to) {
  for (int k = from; k < to; k++) {
    const struct number *x = &b->e->numbers[k];
    t->reg[b->e->n_regs + k] = x->a.kind == ARG_PARAM ? param(b, x->a.number, x->t) : get(b, t, &x->a, T_NONE);
  }
}

static void begin_thread(struct block *b, struct thread *t) {
  unsigned k = (unsigned)(t - b->t);
  if (b->estimate) memset(t->turn, 0, (size_t)b->e->n_instructions * sizeof *t->turn);
  t->at = 0, t->steps = 0, t->state = RUNS, t->lane = k % 32, t->n_way = t->group = 0;
  t->tid[0] = k % b->dims[0], t->tid[1] = k / b->dims[0] % b->dims[1], t->tid[2] = k / b->dims[0] / b->dims[1];
  memset(t->reg, 0xcd, (size_t)b->e->n_regs * sizeof *t->reg);
  write_numbers(b, t, 0, b->e->n_own);
}

static void run_thread(struct block *b, struct thread *t) {
  if (t->state == BEGINS) begin_thread(b, t);
  while (t->state == RUNS && !*b->why) {
    uint64_t quick = run_quickly(b, t);
    b->steps += quick, t->steps += quick + 1;
    if (++b->steps > MOST_STEPS) wrong(b, t, "it does not end");
    if (!*b->why) step(b, t);
  }
}

static void begin(struct block *b) {
  for (int k = 0; k < b->n; k++) b->t[k].state = BEGINS;
  memset(b->shared, 0xcd, b->shared_bytes);
  if (b->seeks_races) races_begin_block(b->shared, b->shared_bytes);
}

static void run_block(struct block *b, unsigned *seed) {
  bool any = true;
  begin(b);
  while (any && !*b->why) {
    int warps = (b->n + 31) / 32, from = rand_r(seed) % warps, turned = rand_r(seed) & 31;
    for (int w = 0; w < warps; w++)
      for (int l = 0; l < 32; l++) {
        int k = (w + from) % warps * 32 + (l ^ turned);
        if (k < b->n) run_thread(b, &b->t[k]);
      }
    any = meet(b);
    if (!any && b->n_bulk) bulk_arrives(b), any = true;
  }
  for (int k = 0; k < b->n && !*b->why; k++)
    if (b->t[k].state != ENDED) wrong(b, &b->t[k], "it waits for a thread that does not come");
}

static void number_block(struct block *b, uint64_t n) {
  b->id[0] = (unsigned)(n % b->grid[0]), b->id[1] = (unsigned)(n / b->grid[0] % b->grid[1]);
  b->id[2] = (unsigned)(n / b->grid[0] / b->grid[1]);
}

/* Room for so many, of one launch at a time: kept, since it would be given back to the system and taken from it for each. */
static uint64_t *registers(size_t n) {
  static uint64_t *kept;
  static size_t room;
  if (n > room) free(kept), kept = malloc((room = 2 * n) * sizeof *kept);
  return kept;
}

/* Some blocks, for an estimate of all. What goes wrong is of no concern: others have not run. */
static void run_few(struct block *b, uint64_t n, unsigned *seed) {
  struct estimate e = { 0 };
  int n_run = n < ESTIMATED_BLOCKS ? (int)n : ESTIMATED_BLOCKS;
  b->estimate = &e;
  for (int k = 0; k < b->n; k++) b->t[k].turn = malloc(((size_t)b->e->n_instructions + 1) * sizeof *b->t->turn);
  for (int which = 0; which < n_run; which++) {
    number_block(b, estimate_block(n, which));
    b->steps = 0;
    run_block(b, seed);
    for (int k = 0; k < b->n; k += 32) {
      uint64_t most = 0;
      for (int l = k; l < k + 32 && l < b->n; l++) if (b->t[l].steps > most) most = b->t[l].steps;
      estimate_steps(&e, most);
    }
    estimate_end_block(&e, b->n);
    *b->why = 0;
  }
  estimate_tell(&e, b->e->name, n, b->n, b->shared_bytes, n_run);
  for (int k = 0; k < b->n; k++) free(b->t[k].turn);
  b->estimate = NULL;
}

/* Blocks tell each other how far they are by what gives something back, and by fences. */
static bool blocks_talk(const struct entry *e) {
  for (int k = 0; k < e->n_instructions; k++) if (e->i[k].op == ATOM || e->i[k].op == FENCE) return true;
  return false;
}

const char *machine_run(const struct module *m, const struct entry *e, const unsigned grid[3], const unsigned block[3],
                        size_t shared_bytes, void **params, may_touch *may) {
  static _Thread_local char why[WHY];
  static _Thread_local unsigned seed = 1;
  struct block b = { .e = e, .m = m, .params = params, .may_touch = may, .why = why, .n = (int)(block[0] * block[1] * block[2]),
                     .shared_bytes = m->shared_bytes + shared_bytes };
  size_t regs = (size_t)(e->n_regs + e->n_numbers) + 1, local = (e->local_bytes + 15) / 16 * 16;
  memcpy(b.grid, grid, sizeof b.grid);
  memcpy(b.dims, block, sizeof b.dims);
  *why = 0;
  b.t = calloc((size_t)b.n, sizeof *b.t);
  b.shared = aligned_alloc(1024, (b.shared_bytes + 2047) / 1024 * 1024);
  /* Threads that meet nobody end one after the other, in the same registers. */
  size_t n_files = e->meets ? (size_t)b.n : 1;
  uint64_t *reg = registers(n_files * regs);
  uint8_t *locals = calloc((size_t)b.n, local + 1);
  for (size_t k = 0; k < (size_t)b.n; k++) {
    b.t[k].reg = reg + k % n_files * regs, b.t[k].local = locals + k * local;
    if (k < n_files) write_numbers(&b, &b.t[k], e->n_own, e->n_numbers);
  }
  uint64_t n = (uint64_t)grid[0] * grid[1] * grid[2], from = n ? (uint64_t)rand_r(&seed) % n : 0;
  if (estimate_is_on()) run_few(&b, n, &seed), n = 0;
  b.seeks_races = n && races_are_sought();
  if (b.seeks_races) races_begin_launch(b.n, blocks_talk(e));
  for (uint64_t k = 0; k < n && !*why; k++) {
    number_block(&b, (k + from) % n);
    b.steps = 0;
    run_block(&b, &seed);
  }
  if (b.seeks_races) races_end_launch();
  for (int k = 0; k < b.n; k++) free(b.t[k].way);
  for (int k = 0; k < b.n_bulk; k++) free(b.bulk[k].data);
  free(b.bulk);
  free(locals);
  free(b.shared);
  free(b.t);
  return *why ? why : NULL;
}
