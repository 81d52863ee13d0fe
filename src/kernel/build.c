/* build.c -- making kernels: values, buffers, and statements appended to the innermost open block.
 *
 * Owns the rule that building never stops half way: when memory runs out the kernel is marked failed, every function
 * still returns something harmless, and value 0, the i64 literal 0, stands for what could not be made. Nothing is judged
 * here; that is verify.c. */
#include <string.h>
#include "base/arena.h"
#include "base/hash.h"
#include "kernel/kir.h"
#include "kernel/name.h"

enum { OPEN_MAX = sizeof((struct kir_builder *)0)->open / sizeof(struct kir_block *) };

static void *take(struct kir_kernel *k, size_t bytes) {
  void *p = arena_take(k->arena, bytes);
  if (!p) k->failed = true;
  return p;
}

/* Room for one more in a list of the kernel. */
static bool more(struct kir_kernel *k, void *list, int n, int *room, size_t bytes) {
  if (n < *room) return true;
  int wide = *room ? 2 * *room : 16;
  void *old, *p;
  memcpy(&old, list, sizeof old);
  if (!(p = arena_grow(k->arena, old, (size_t)n * bytes, (size_t)wide * bytes))) return k->failed = true, false;
  memcpy(list, &p, sizeof p);
  *room = wide;
  return true;
}

/* ---- Kernels, values, buffers --------------------------------------------------------------------------------------- */

static int value(struct kir_kernel *k, enum kir_val_kind kind, weft_dtype dtype, uint64_t bits, int index) {
  if (!more(k, &k->vals, k->n_vals, &k->room_vals, sizeof *k->vals)) return 0;
  k->vals[k->n_vals] = (struct kir_val){ NULL, bits, (uint8_t)kind, (uint8_t)dtype, index };
  return k->n_vals++;
}

struct kir_kernel *kir_new(const char *name) {
  char tidy[64];
  name_tidy(tidy, name);
  struct arena *arena = arena_new();
  struct kir_kernel *k = arena ? arena_take(arena, sizeof *k) : NULL;
  if (k) {
    *k = (struct kir_kernel){ .arena = arena, .why = "out of memory" };
    k->room_vals = 64;
    k->vals = arena_take(arena, (size_t)k->room_vals * sizeof *k->vals);
    k->name = arena_text(arena, tidy);
  }
  if (!k || !k->vals || !k->name) return arena_free(arena), NULL;
  kir_lit(k, WEFT_I64, 0);
  return k;
}

void kir_free(struct kir_kernel *k) {
  if (k) arena_free(k->arena);
}

void kir_name(struct kir_kernel *k, int v, const char *name) {
  if (v) k->vals[v].name = name_unique(k, name, NAME_VALUE, v);
}

static int named(struct kir_kernel *k, int v, const char *name) {
  if (name) kir_name(k, v, name);
  return v;
}

int kir_size(struct kir_kernel *k, const char *name) {
  if (!more(k, &k->sizes, k->n_sizes, &k->room_sizes, sizeof *k->sizes)) return 0;
  int v = value(k, KIR_SIZE, WEFT_I64, 0, k->n_sizes);
  k->sizes[k->n_sizes++] = v;
  return named(k, v, name);
}

int kir_arg(struct kir_kernel *k, const char *name, weft_dtype dtype) {
  if (!more(k, &k->args, k->n_args, &k->room_args, sizeof *k->args)) return 0;
  int v = value(k, KIR_ARG, dtype, 0, k->n_args);
  k->args[k->n_args++] = v;
  return named(k, v, name);
}

int kir_buf(struct kir_kernel *k, const char *name, enum kir_buf_kind kind, weft_dtype dtype, int rank,
            const struct kir_lin dims[]) {
  struct kir_lin *own = take(k, (size_t)rank * sizeof *own);
  if (!own || !more(k, &k->bufs, k->n_bufs, &k->room_bufs, sizeof *k->bufs)) return 0;
  if (rank) memcpy(own, dims, (size_t)rank * sizeof *own);
  const char *called = name_unique(k, name, NAME_BUFFER, k->n_bufs);
  k->bufs[k->n_bufs] = (struct kir_buf){ called ? called : "", (uint8_t)kind, (uint8_t)dtype, rank, own, 0, NULL };
  return k->n_bufs++;
}

int kir_table(struct kir_kernel *k, const char *name, weft_dtype dtype, int n, const uint64_t data[]) {
  struct kir_lin dim = kir_lin_const(k, n);
  uint64_t *own = take(k, (size_t)n * sizeof *own);
  int buf = kir_buf(k, name, KIR_TABLE, dtype, 1, &dim);
  if (k->failed) return 0;
  memcpy(own, data, (size_t)n * sizeof *own);
  k->bufs[buf].n_data = n;
  k->bufs[buf].data = own;
  return buf;
}

int kir_lit(struct kir_kernel *k, weft_dtype dtype, uint64_t bits) {
  if (kir_width(dtype) < 8) bits &= (UINT64_C(1) << 8 * kir_width(dtype)) - 1;
  int *after = &k->lit_after[hash_mix(dtype, bits) % KIR_LIT_LISTS];
  for (int v = *after - 1; v >= 0; v = k->vals[v].index - 1)
    if (k->vals[v].bits == bits && k->vals[v].dtype == dtype) return v;
  int v = value(k, KIR_LIT, dtype, bits, *after);
  if (!k->failed) *after = v + 1;
  return v;
}

int kir_lit_int(struct kir_kernel *k, weft_dtype dtype, int64_t n) {
  double d = (double)n;
  float f = (float)n;
  uint32_t f_bits;
  uint64_t bits = (uint64_t)n;
  memcpy(&f_bits, &f, sizeof f);
  if (dtype == WEFT_F64) memcpy(&bits, &d, sizeof d);
  return kir_lit(k, dtype, dtype == WEFT_F32 ? f_bits : dtype == WEFT_BOOL ? n != 0 : bits);
}

/* ---- Statements ----------------------------------------------------------------------------------------------------- */

void kir_begin(struct kir_builder *b, struct kir_kernel *k) {
  b->k = k;
  b->depth = 1;
  b->open[0] = &k->body;
}

/* A statement with its lists behind it in one piece, at the end of the innermost block. NULL: failed. */
static struct kir_stmt *append(struct kir_builder *b, enum kir_kind kind, int n_out, int n_in, int n_from, int n_at) {
  size_t at_bytes = (size_t)n_at * sizeof(struct kir_lin), n_ints = (size_t)(n_out + n_in + n_from);
  struct kir_stmt *s = take(b->k, sizeof *s + at_bytes + n_ints * sizeof(int));
  if (!s) return NULL;
  s->kind = (uint8_t)kind;
  s->n_out = n_out, s->n_in = n_in, s->n_from = n_from, s->n_at = n_at;
  s->at = (struct kir_lin *)(s + 1);
  s->out = (int *)(s->at + n_at);
  s->in = s->out + n_out;
  s->from = s->in + n_in;
  struct kir_block *block = b->open[(b->depth < OPEN_MAX ? b->depth : OPEN_MAX) - 1];
  *(block->last ? &block->last->next : &block->first) = s;
  return block->last = s;
}

static void copy(int *to, int n, const int from[]) {
  if (n) memcpy(to, from, (size_t)n * sizeof *to);
}

int kir_temp(struct kir_kernel *k, weft_dtype dtype) { return value(k, KIR_RESULT, dtype, 0, 0); }

static int result(struct kir_builder *b, struct kir_stmt *s, int i, weft_dtype dtype) {
  return s->out[i] = kir_temp(b->k, dtype);
}

int kir_apply(struct kir_builder *b, enum kir_op op, int n, const int in[]) {
  struct kir_stmt *s = append(b, KIR_OP, 1, n, 0, 0);
  if (!s) return 0;
  s->op = (uint8_t)op;
  copy(s->in, n, in);
  return result(b, s, 0, kir_rows[op].result == 'b' ? WEFT_BOOL : (weft_dtype)b->k->vals[in[n - 1]].dtype);
}

int kir_op1(struct kir_builder *b, enum kir_op op, int x) { return kir_apply(b, op, 1, &x); }
int kir_op2(struct kir_builder *b, enum kir_op op, int x, int y) { return kir_apply(b, op, 2, (int[]){ x, y }); }
int kir_op3(struct kir_builder *b, enum kir_op op, int x, int y, int z) { return kir_apply(b, op, 3, (int[]){ x, y, z }); }

int kir_convert(struct kir_builder *b, enum kir_op op, weft_dtype to, int a) {
  struct kir_stmt *s = append(b, KIR_OP, 1, 1, 0, 0);
  if (!s) return 0;
  s->op = (uint8_t)op;
  s->dtype = (uint8_t)to;
  s->in[0] = a;
  return result(b, s, 0, kir_register_of(to));
}

int kir_cast(struct kir_builder *b, weft_dtype to, int a) {
  return b->k->vals[a].dtype == to ? a : kir_convert(b, KIR_CAST, to, a);
}

int kir_bits(struct kir_builder *b, weft_dtype to, int a) {
  return b->k->vals[a].dtype == to ? a : kir_convert(b, KIR_BITS, to, a);
}

int kir_owns(struct kir_builder *b, int q, int k) { return kir_apply(b, KIR_OWNS, 2, (int[]){ q, k }); }

void kir_call(struct kir_builder *b, int fn, int n_in, const int in[], int out[]) {
  int n = b->k->n_fns ? b->k->fns[fn].n_result : 0;
  struct kir_stmt *s = append(b, KIR_OP, n, n_in, 0, 0);
  for (int i = 0; i < n; i++) out[i] = 0;
  if (!s) return;
  s->op = KIR_CALL;
  s->fn = fn;
  copy(s->in, n_in, in);
  for (int i = 0; i < n; i++) out[i] = result(b, s, i, (weft_dtype)b->k->vals[b->k->fns[fn].result[i]].dtype);
}

/* In a failed kernel buf may be one that could not be made, and stand for another. */
static int rank_of(const struct kir_kernel *k, int buf) { return k->failed ? 0 : k->bufs[buf].rank; }

static struct kir_stmt *access(struct kir_builder *b, enum kir_kind kind, int buf, const struct kir_lin at[]) {
  int rank = rank_of(b->k, buf);
  struct kir_stmt *s = append(b, kind, kind == KIR_LOAD, kind == KIR_STORE, 0, rank);
  if (!s) return NULL;
  s->buf = buf;
  if (rank) memcpy(s->at, at, (size_t)rank * sizeof *at);
  return s;
}

int kir_load(struct kir_builder *b, int buf, const struct kir_lin at[]) {
  struct kir_stmt *s = access(b, KIR_LOAD, buf, at);
  return s && b->k->n_bufs ? result(b, s, 0, kir_register_of((weft_dtype)b->k->bufs[buf].dtype)) : 0;
}

void kir_store(struct kir_builder *b, int buf, const struct kir_lin at[], int op_or_set, int v) {
  struct kir_stmt *s = access(b, KIR_STORE, buf, at);
  if (!s) return;
  s->op = (uint8_t)op_or_set;
  s->in[0] = v;
}

static void with_values(struct kir_builder *b, enum kir_kind kind, int n, const int in[]) {
  struct kir_stmt *s = append(b, kind, 0, n, 0, 0);
  if (s) copy(s->in, n, in);
}

/* A value that is no axis and no size, alone; -1: it is a sum of products, or has none of its own. */
static int lone_result(const struct kir_kernel *k, struct kir_lin l) {
  bool is_one = l.n == 1 && l.term[0].n == 1 && l.term[0].coef == 1;
  int v = is_one ? l.term[0].val[0] : -1;
  return is_one && k->vals[v].kind != KIR_AXIS && k->vals[v].kind != KIR_SIZE ? v : -1;
}

void kir_check(struct kir_builder *b, int ok, struct kir_lin at, int of) {
  int v = lone_result(b->k, at);
  struct kir_stmt *s = append(b, KIR_CHECK, 0, v < 0 ? 2 : 3, 0, v < 0);
  if (!s) return;
  copy(s->in, s->n_in, (int[]){ ok, of, v });
  if (v < 0) s->at[0] = at;
}
void kir_until(struct kir_builder *b, int stop) { with_values(b, KIR_UNTIL, 1, &stop); }
void kir_keep(struct kir_builder *b, int v) {
  struct kir_block *block = b->open[(b->depth < OPEN_MAX ? b->depth : OPEN_MAX) - 1];
  struct kir_stmt *last = block->last;
  if (!last || last->kind != KIR_KEEP) {
    with_values(b, KIR_KEEP, 1, &v);
    return;
  }
  for (int i = 0; i < last->n_in; i++) if (last->in[i] == v) return; /* two nodes may be one value */
  int *in = take(b->k, (size_t)(last->n_in + 1) * sizeof *in);       /* keep a, then keep b: keep a, b */
  if (!in) return;
  copy(in, last->n_in, last->in);
  in[last->n_in++] = v;
  last->in = in;
}

/* ---- Blocks --------------------------------------------------------------------------------------------------------- */

static void open(struct kir_builder *b, struct kir_block *block) {
  if (b->depth < OPEN_MAX) b->open[b->depth] = block;
  else b->k->failed = true, b->k->why = "blocks are nested too deeply";
  b->depth++;
}

void kir_end(struct kir_builder *b) {
  if (b->depth > 1) b->depth--;
}

/* Whether the loop of this name is still open: the statement that holds block d is the last one of block d - 1. */
static bool is_open(const struct kir_builder *b, const char *name) {
  for (int d = 1; d < b->depth && d < OPEN_MAX; d++) {
    const struct kir_stmt *s = b->open[d - 1]->last;
    if (s && &s->body == b->open[d] && s->kind != KIR_IF && b->k->vals[s->var].name == name) return true;
  }
  return false;
}

static void name_axis(struct kir_builder *b, int v, const char *wish) {
  struct name *old = wish ? name_find(b->k, wish, strlen(wish), b->k->scope) : NULL;
  bool is_axis = old && old->kind == NAME_VALUE && b->k->vals[old->index].kind == KIR_AXIS;
  if (is_axis && !is_open(b, old->text)) {
    old->index = v;
    b->k->vals[v].name = old->text;
  } else {
    named(b->k, v, wish ? wish : "i");
  }
}

static struct kir_stmt *loop(struct kir_builder *b, enum kir_kind kind, enum kir_extent extent, const char *name, int n_at) {
  int var = value(b->k, KIR_AXIS, WEFT_I64, 0, 0);
  if (var) name_axis(b, var, name);
  struct kir_stmt *s = append(b, kind, 0, 0, 0, n_at);
  struct kir_block *body = s ? &s->body : take(b->k, sizeof *body);
  if (s) s->extent = (uint8_t)extent, s->var = var;
  open(b, body ? body : b->open[0]);
  return s;
}

int kir_loop(struct kir_builder *b, enum kir_kind kind, const char *name, struct kir_lin n) {
  struct kir_stmt *s = loop(b, kind, KIR_N, name, 1);
  if (!s) return 0;
  s->at[0] = n;
  return s->var;
}

int kir_loop_blocks(struct kir_builder *b, const char *name, struct kir_lin n, struct kir_lin size) {
  struct kir_stmt *s = loop(b, KIR_PAR, KIR_BLOCKS, name, 2);
  if (!s) return 0;
  s->at[0] = n;
  s->at[1] = size;
  return s->var;
}

int kir_loop_block(struct kir_builder *b, enum kir_kind kind, const char *name, int q) {
  struct kir_stmt *s = loop(b, kind, KIR_BLOCK, name, 0);
  if (!s) return 0;
  s->block_of = q;
  return s->var;
}

void kir_private(struct kir_builder *b, int buf, enum kir_op op) {
  struct kir_stmt *s = b->depth > 1 && b->depth <= OPEN_MAX ? b->open[b->depth - 2]->last : NULL;
  struct kir_private *list = s ? take(b->k, (size_t)(s->n_private + 1) * sizeof *list) : NULL;
  if (!list) return;
  if (s->n_private) memcpy(list, s->private, (size_t)s->n_private * sizeof *list);
  list[s->n_private++] = (struct kir_private){ buf, (uint8_t)op };
  s->private = list;
}

void kir_if(struct kir_builder *b, int cond) {
  struct kir_stmt *s = append(b, KIR_IF, 0, 1, 0, 0);
  if (s) s->in[0] = cond;
  open(b, s ? &s->body : b->open[0]);
}

int kir_yield(struct kir_builder *b, int v, int other) {
  struct kir_stmt *s = append(b, KIR_YIELD, 1, 2, 0, 0);
  if (!s) return 0;
  copy(s->in, 2, (int[]){ v, other });
  return result(b, s, 0, (weft_dtype)b->k->vals[v].dtype);
}

/* ---- What crosses iterations ---------------------------------------------------------------------------------------- */

int kir_carry(struct kir_builder *b, const char *name, int init) {
  struct kir_stmt *s = append(b, KIR_CARRY, 1, 1, 0, 0);
  if (!s) return 0;
  s->in[0] = init;
  return named(b->k, result(b, s, 0, (weft_dtype)b->k->vals[init].dtype), name);
}

void kir_next(struct kir_builder *b, int n, const int carry[], const int v[]) {
  struct kir_stmt *s = append(b, KIR_NEXT, n, n, 0, 0);
  if (!s) return;
  copy(s->out, n, carry);
  copy(s->in, n, v);
}

static struct kir_stmt *combine(struct kir_builder *b, enum kir_kind kind, enum kir_op op, int n, const int in[],
                                int n_from) {
  struct kir_stmt *s = append(b, kind, n, n, n_from, 0);
  if (!s) return NULL;
  s->op = (uint8_t)op;
  copy(s->in, n, in);
  for (int i = 0; i < n; i++) result(b, s, i, (weft_dtype)b->k->vals[in[i]].dtype);
  return s;
}

int kir_fold(struct kir_builder *b, enum kir_op op, enum kir_order order, int v) {
  struct kir_stmt *s = combine(b, KIR_FOLD, op, 1, &v, 0);
  if (!s) return 0;
  s->order = (uint8_t)order;
  return s->out[0];
}

static void combine_fn(struct kir_builder *b, enum kir_kind kind, int fn, enum kir_order order, int n, const int in[],
                       const int from[], int out[]) {
  struct kir_stmt *s = combine(b, kind, KIR_CALL, n, in, n);
  for (int i = 0; i < n; i++) out[i] = s ? s->out[i] : 0;
  if (!s) return;
  s->fn = fn;
  s->order = (uint8_t)order;
  copy(s->from, n, from);
}

void kir_fold_fn(struct kir_builder *b, int fn, enum kir_order order, int n, const int in[], const int from[], int out[]) {
  combine_fn(b, KIR_FOLD, fn, order, n, in, from, out);
}

void kir_prefix_fn(struct kir_builder *b, int fn, int n, const int in[], const int from[], int out[]) {
  combine_fn(b, KIR_PREFIX, fn, KIR_PLAIN, n, in, from, out);
}

int kir_prefix(struct kir_builder *b, enum kir_op op, int v) {
  struct kir_stmt *s = combine(b, KIR_PREFIX, op, 1, &v, 0);
  return s ? s->out[0] : 0;
}

int kir_local(struct kir_builder *b, const char *name, weft_dtype dtype, int rank, const struct kir_lin dims[]) {
  int buf = kir_buf(b->k, name, KIR_LOCAL, dtype, rank, dims);
  struct kir_stmt *s = append(b, KIR_LOCALS, 0, 0, 0, 0);
  if (s) s->buf = buf;
  return buf;
}

/* ---- Functions of a kernel ------------------------------------------------------------------------------------------ */

int kir_fn_begin(struct kir_builder *b, const char *name, int n, const weft_dtype param[], int v[]) {
  struct kir_kernel *k = b->k;
  int fn = k->n_fns;
  struct kir_block *body = take(k, sizeof *body);
  int *own = take(k, (size_t)n * sizeof *own);
  open(b, body ? body : b->open[0]);
  for (int i = 0; i < n; i++) v[i] = 0;
  if (!body || !own || !more(k, &k->fns, fn, &k->room_fns, sizeof *k->fns)) return 0;
  const char *called = name_unique(k, name, NAME_FN, fn);
  k->fns[k->n_fns++] = (struct kir_fn){ .name = called ? called : "", .n_param = n, .param = own };
  k->scope = fn + 1;
  for (int i = 0; i < n; i++) own[i] = v[i] = value(k, KIR_RESULT, param[i], 0, 0);
  return fn;
}

void kir_fn_end(struct kir_builder *b, int fn, int n, const int result_of[]) {
  struct kir_kernel *k = b->k;
  int *own = take(k, (size_t)n * sizeof *own);
  struct kir_block *body = b->open[(b->depth < OPEN_MAX ? b->depth : OPEN_MAX) - 1];
  kir_end(b);
  k->scope = 0;
  if (!own || fn >= k->n_fns) return;
  copy(own, n, result_of);
  k->fns[fn].result = own;
  k->fns[fn].n_result = n;
  k->fns[fn].body = *body;
}
