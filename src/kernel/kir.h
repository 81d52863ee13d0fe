/* kir.h -- the kernel language: what a kernel is, in memory.
 *
 * Owns the tree that the scheduler builds, the parser reads, the printer writes, the verifier checks and the back ends
 * translate. docs/kir.md is its specification. Everything of a kernel lives in the kernel's own arena: a kernel is
 * built, perhaps rewritten, and freed as a whole. Nothing here knows arrays, devices or threads.
 *
 * A value is an int: an index into kernel->vals. Literals, sizes, args, loop variables and results are all values. */
#ifndef WEFT_KIR_H
#define WEFT_KIR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weft.h"

enum { KIR_FACTORS = 4, KIR_TERMS = 16 }; /* of a product in an index, of the sum */

/* The order of sums, which is part of the meaning (docs/kir.md, measured in docs/design.md): nobody else writes these down. */
enum {
  KIR_ROW_LANES = 32,      /* accumulators of a fold along lanes: element j goes to j mod 32, combined by the tree 16, 8, 4, 2, 1 */
  KIR_ROW_BLOCK = 4096,    /* elements of such a fold, and of a prefix, before a new block begins */
  KIR_COLUMN_BLOCK = 128,  /* steps of a fold along a serial loop, in order, before a new block begins; rows of a private copy */
  KIR_PRODUCT_BLOCK = 512  /* products of a contraction, added by fma in order, before a new block begins at +0 */
};

/* ---- Instructions: X(NAME, "text", class, operands, result, level) ---------------------------------------------------
 * class: which register dtypes T stands for: F f32 f64; I i32 u32 i64 u64; N = F or I; B = I or bool; A any.
 * operands: a letter each, T or b (bool). result: T or b. level: C core, E expanded by the legaliser (expansion.h). */
#define KIR_ROWS(X)                      \
  X(ADD, "add", N, "TT", T, C)           \
  X(SUB, "sub", N, "TT", T, C)           \
  X(MUL, "mul", N, "TT", T, C)           \
  X(FMA, "fma", F, "TTT", T, C)          \
  X(DIV, "div", F, "TT", T, C)           \
  X(SQRT, "sqrt", F, "T", T, C)          \
  X(SCALE, "scale", F, "TT", T, C)       \
  X(MIN, "min", N, "TT", T, C)           \
  X(MAX, "max", N, "TT", T, C)           \
  X(NEG, "neg", F, "T", T, C)            \
  X(ABS, "abs", F, "T", T, C)            \
  X(FLOOR, "floor", F, "T", T, C)        \
  X(CEIL, "ceil", F, "T", T, C)          \
  X(TRUNC, "trunc", F, "T", T, C)        \
  X(RINT, "rint", F, "T", T, C)          \
  X(AND, "and", B, "TT", T, C)           \
  X(OR, "or", B, "TT", T, C)             \
  X(XOR, "xor", B, "TT", T, C)           \
  X(NOT, "not", B, "T", T, C)            \
  X(SHL, "shl", I, "TT", T, C)           \
  X(SHR, "shr", I, "TT", T, C)           \
  X(MULHI, "mulhi", I, "TT", T, C)       \
  X(EQ, "eq", N, "TT", b, C)             \
  X(NE, "ne", N, "TT", b, C)             \
  X(LT, "lt", N, "TT", b, C)             \
  X(LE, "le", N, "TT", b, C)             \
  X(SELECT, "select", A, "bTT", T, C)    \
  X(IDIV, "idiv", I, "TT", T, C)         \
  X(IREM, "irem", I, "TT", T, C)         \
  X(EXP, "exp", F, "T", T, E)            \
  X(EXP2, "exp2", F, "T", T, E)          \
  X(EXPM1, "expm1", F, "T", T, E)        \
  X(SINH, "sinh", F, "T", T, E)          \
  X(COSH, "cosh", F, "T", T, E)          \
  X(TANH, "tanh", F, "T", T, E)          \
  X(SIGMOID, "sigmoid", F, "T", T, E)    \
  X(LOG, "log", F, "T", T, E)            \
  X(LOG2, "log2", F, "T", T, E)          \
  X(LOG10, "log10", F, "T", T, E)        \
  X(LOG1P, "log1p", F, "T", T, E)        \
  X(ASINH, "asinh", F, "T", T, E)        \
  X(ACOSH, "acosh", F, "T", T, E)        \
  X(ATANH, "atanh", F, "T", T, E)        \
  X(SIN, "sin", F, "T", T, E)            \
  X(COS, "cos", F, "T", T, E)            \
  X(TAN, "tan", F, "T", T, E)            \
  X(ASIN, "asin", F, "T", T, E)          \
  X(ACOS, "acos", F, "T", T, E)          \
  X(ATAN, "atan", F, "T", T, E)          \
  X(ERF, "erf", F, "T", T, E)            \
  X(ERFC, "erfc", F, "T", T, E)          \
  X(ERFINV, "erfinv", F, "T", T, E)      \
  X(RSQRT, "rsqrt", F, "T", T, E)        \
  X(ATAN2, "atan2", F, "TT", T, E)       \
  X(HYPOT, "hypot", F, "TT", T, E)       \
  X(POW, "pow", F, "TT", T, E)           \
  X(LGAMMA, "lgamma", F, "T", T, E)      \
  X(GAMMA, "gamma", F, "T", T, E)        \
  X(DIGAMMA, "digamma", F, "T", T, E)    \
  X(TRIGAMMA, "trigamma", F, "T", T, E)  \
  X(SINC, "sinc", F, "T", T, E)          \
  X(ERFCX, "erfcx", F, "T", T, E)        \
  X(ERFCINV, "erfcinv", F, "T", T, E)    \
  X(NDTR, "ndtr", F, "T", T, E)          \
  X(NDTRI, "ndtri", F, "T", T, E)        \
  X(LOG_NDTR, "log_ndtr", F, "T", T, E)  \
  X(LOG1MEXP, "log1mexp", F, "T", T, E)  \
  X(LOGIT, "logit", F, "T", T, E)        \
  X(I0, "i0", F, "T", T, E)              \
  X(I0E, "i0e", F, "T", T, E)            \
  X(I1, "i1", F, "T", T, E)              \
  X(I1E, "i1e", F, "T", T, E)            \
  X(J0, "j0", F, "T", T, E)              \
  X(J1, "j1", F, "T", T, E)              \
  X(XLOGY, "xlogy", F, "TT", T, E)       \
  X(XLOG1PY, "xlog1py", F, "TT", T, E)   \
  X(ZETA, "zeta", F, "TT", T, E)         \
  X(POLYGAMMA, "polygamma", F, "TT", T, E)     \
  X(BETA, "beta", F, "TT", T, E)               \
  X(BETALN, "betaln", F, "TT", T, E)           \
  X(GAMMAINC, "gammainc", F, "TT", T, E)       \
  X(GAMMAINCC, "gammaincc", F, "TT", T, E)     \
  X(GAMMAINC_DA, "gammainc_da", F, "TT", T, E) \
  X(BETAINC, "betainc", F, "TTT", T, E)        \
  X(BETAINC_DA, "betainc_da", F, "TTT", T, E)  \
  X(GAMMAINCINV, "gammaincinv", F, "TT", T, E) \
  X(GAMMAINCCINV, "gammainccinv", F, "TT", T, E) \
  X(BETAINCINV, "betaincinv", F, "TTT", T, E)  \
  X(IV, "iv", F, "TT", T, E)                   \
  X(IVE, "ive", F, "TT", T, E)                 \
  X(JV, "jv", F, "TT", T, E)                   \
  X(KV, "kv", F, "TT", T, E)                   \
  X(KVE, "kve", F, "TT", T, E)                 \
  X(OWENS_T, "owens_t", F, "TT", T, E)

enum kir_op {
#define KIR_ENUM_(name, ...) KIR_##name,
  KIR_ROWS(KIR_ENUM_)
#undef KIR_ENUM_
  KIR_CAST, /* cast.M: any -> register dtype of M, stmt->dtype = M */
  KIR_BITS, /* bits.R: same width, pattern kept, stmt->dtype = R */
  KIR_OWNS, /* owns(q, k): k lies in block q */
  KIR_CALL, /* a fn of the kernel, stmt->fn */
  KIR_OPS,
  KIR_SET = KIR_OPS /* store mode without combiner */
};

struct kir_row { const char *name; char cls; const char *operands; char result; char level; };
extern const struct kir_row kir_rows[]; /* by enum kir_op; KIR_CAST .. KIR_SET have names only */

/* Combiners: add mul min max and or xor. Patterns of a register dtype, zero-extended. */
bool kir_is_combiner(int op);
uint64_t kir_empty(enum kir_op, weft_dtype);   /* where a fold starts, and what an empty one is: add: +0 */
uint64_t kir_neutral(enum kir_op, weft_dtype); /* e with e o x = x to the bit: add of floats: -0 */

/* Register dtypes: bool i32 u32 i64 u64 f32 f64. Memory dtypes: also u8 i8 u16 i16 (-> i32), f16 bf16 e4m3 e5m2 (-> f32). */
bool kir_is_register(weft_dtype);
weft_dtype kir_register_of(weft_dtype memory); /* c64, c128 are not KIR dtypes: split by the scheduler */
bool kir_is_float(weft_dtype);
bool kir_is_f8(weft_dtype);                    /* e4m3 e5m2: the legaliser makes u8 of them */
bool kir_is_signed(weft_dtype);                /* i8 .. i64 */
int kir_width(weft_dtype);                     /* bytes in memory; 0: not a KIR dtype */
const char *kir_dtype_name(weft_dtype);        /* "f32" */

/* ---- The tree -------------------------------------------------------------------------------------------------------- */

enum kir_val_kind { KIR_LIT, KIR_SIZE, KIR_ARG, KIR_AXIS, KIR_RESULT };
struct kir_val {
  const char *name;    /* NULL: a temporary, printed %1, %2 .. */
  uint64_t bits;       /* KIR_LIT: the pattern, zero-extended (integers: two's complement of their width) */
  uint8_t kind, dtype; /* a register dtype */
  int index;           /* KIR_SIZE, KIR_ARG: position among sizes, args */
};

/* An index: a sum of products of i64 values; sorted and merged by kir_lin_* so that equal ones compare equal. */
struct kir_term { int64_t coef; int n; int val[KIR_FACTORS]; };
struct kir_lin { int n; struct kir_term *term; }; /* n = 0: the number 0 */

enum kir_buf_kind { KIR_IN, KIR_OUT, KIR_INOUT, KIR_TABLE, KIR_LOCAL };
struct kir_buf {
  const char *name;
  uint8_t kind, dtype; /* dtype: a memory dtype; tables and locals: a register dtype */
  int rank;
  struct kir_lin *dims;
  int n_data;          /* tables */
  uint64_t *data;
};

enum kir_kind {
  KIR_OP, KIR_LOAD, KIR_STORE, KIR_PAR, KIR_SERIAL, KIR_LANE, KIR_IF, KIR_YIELD, KIR_CARRY, KIR_NEXT, KIR_UNTIL,
  KIR_FOLD, KIR_PREFIX, KIR_KEEP, KIR_LOCALS, KIR_CHECK, KIR_KINDS
};
enum kir_extent { KIR_N, KIR_BLOCKS, KIR_BLOCK }; /* n; blocks(n, b); block q */
enum kir_order { KIR_PLAIN, KIR_ROW, KIR_COL };   /* fold, fold.row, fold.col */

struct kir_stmt;
struct kir_block { struct kir_stmt *first, *last; };
struct kir_private { int buf; uint8_t op; };

struct kir_stmt {
  uint8_t kind;
  uint8_t op;              /* OP: instruction. STORE: combiner or KIR_SET. FOLD, PREFIX: combiner, or KIR_CALL with fn */
  uint8_t dtype;           /* CAST, BITS: target */
  uint8_t order;           /* FOLD: enum kir_order */
  uint8_t extent;          /* loops: enum kir_extent */
  int fn;                  /* KIR_CALL: index into kernel->fns */
  int buf;                 /* LOAD, STORE, LOCALS: index into kernel->bufs */
  int var;                 /* loops: the loop variable's value; KIR_BLOCK: block_of names the par variable */
  int block_of;
  int n_out, n_in, n_from; /* NEXT: out are the carries, in their new values. IF, UNTIL: in[0]. CHECK: in = bool, what it is of */
  int *out, *in, *from;    /* CARRY: out[0], in[0]. YIELD: out[0] = in[0] else in[1]. KEEP: in. FOLD, PREFIX: from */
  int n_at;
  struct kir_lin *at;      /* LOAD, STORE: subscripts. Loops: at[0] = n, at[1] = b of blocks(n, b). CHECK: at[0] = the place of
                              axes and sizes; n_at 0: it is the value in[2] */
  int n_private;
  struct kir_private *private;
  struct kir_block body;   /* loops, IF */
  struct kir_stmt *next;
};

struct kir_fn {
  const char *name;
  int n_param, n_result;
  int *param;              /* values */
  int *result;             /* values of the body, or literals */
  struct kir_block body;
};

/* Of a kernel that is attention or a derivative of it: a back end may compute it tile by tile, in another order of sums.
 * q [..,T,d], k [..,S,d], v [..,S,e], y and dy [..,T,e], lse and delta [..,T]; each buffer has an axis for each of the batch.
 * Nothing is told here that the text does not tell: a kernel whose text is the same is compiled once. */
enum { KIR_ATTENTION_AXES = 8 };
enum kir_attention_part {
  KIR_ATTEND,              /* y = softmax(scale q k') v, lse the logarithm of the sum of exponentials of a row */
  KIR_ATTEND_QUERY,        /* dq; delta: the sum of dy y along rows */
  KIR_ATTEND_KEY           /* dk, dv */
};
struct kir_attention {
  enum kir_attention_part part;
  uint8_t dtype;           /* of q, k, v, dy: f16 or bf16 */
  int d, e;
  float scale;
  bool is_banded, band_is_difference; /* row i sees columns up to i + band; the band is S - T, whatever they are */
  int64_t band;
  int n_batch, batch[KIR_ATTENTION_AXES], rows, columns; /* values: sizes */
  int q, k, v, mask, y, lse, dy, delta, dq, dk, dv; /* buffers; -1: there is none. mask [..,T,S]: bool, or added */
};

enum { KIR_LIT_LISTS = 64 }; /* special functions have hundreds of literals, which one list would search one by one */

struct kir_kernel {
  struct arena *arena;
  const char *name;
  int n_vals, n_sizes, n_args, n_bufs, n_fns;
  struct kir_val *vals;
  int *sizes, *args;       /* values */
  struct kir_buf *bufs;
  struct kir_fn *fns;
  struct kir_block body;
  const struct kir_attention *attention; /* NULL: it is none. In the kernel's arena */
  bool failed;             /* out of memory while building, or a limit passed: builders go on harmlessly */
  const char *why;         /* failed: what happened; kir_verify returns it */
  struct kir_names *names; /* build.c and parse.c: who is called what */
  int scope;               /* names are unique in the kernel, and in each fn: 0, or 1 + the fn being built */
  int lit_after[KIR_LIT_LISTS]; /* by a hash of its bits 1 + the newest literal, 0: none; kir_val.index is 1 + the one before it */
  int room_vals, room_bufs, room_fns, room_sizes, room_args;
};

/* ---- Building (build.c; name.c, lin.c) --------------------------------------------------------------------------------
 * A builder appends to the innermost open block. All of them are total: after an allocation failure the kernel is marked
 * failed and they return value 0, the i64 literal 0. Names are copied and made unique, which a loop variable need not be
 * where its loop is over; NULL gives a temporary. */

struct kir_builder { struct kir_kernel *k; int depth; struct kir_block *open[64]; };

struct kir_kernel *kir_new(const char *name); /* NULL: out of memory */
void kir_free(struct kir_kernel *);
void kir_begin(struct kir_builder *, struct kir_kernel *);
int kir_size(struct kir_kernel *, const char *name);
int kir_arg(struct kir_kernel *, const char *name, weft_dtype);
int kir_buf(struct kir_kernel *, const char *name, enum kir_buf_kind, weft_dtype, int rank, const struct kir_lin dims[]);
int kir_table(struct kir_kernel *, const char *name, weft_dtype, int n, const uint64_t data[]);
int kir_lit(struct kir_kernel *, weft_dtype, uint64_t bits); /* shared: equal literals are one value */
int kir_lit_int(struct kir_kernel *, weft_dtype, int64_t);   /* the integer as a value of any register dtype */

int kir_temp(struct kir_kernel *, weft_dtype);       /* a result that no statement gives yet */
int kir_apply(struct kir_builder *, enum kir_op, int n, const int in[]); /* an instruction of the rows */
int kir_op1(struct kir_builder *, enum kir_op, int a);
int kir_op2(struct kir_builder *, enum kir_op, int a, int b);
int kir_op3(struct kir_builder *, enum kir_op, int a, int b, int c);
int kir_cast(struct kir_builder *, weft_dtype to, int a); /* a itself if nothing would change */
int kir_bits(struct kir_builder *, weft_dtype to, int a);
int kir_convert(struct kir_builder *, enum kir_op cast_or_bits, weft_dtype to, int a); /* a statement in any case */
int kir_owns(struct kir_builder *, int q, int k);
void kir_call(struct kir_builder *, int fn, int n_in, const int in[], int out[]);
int kir_load(struct kir_builder *, int buf, const struct kir_lin at[]);
void kir_store(struct kir_builder *, int buf, const struct kir_lin at[], int op_or_set, int value);
void kir_check(struct kir_builder *, int ok, struct kir_lin at, int of);
int kir_loop(struct kir_builder *, enum kir_kind, const char *name, struct kir_lin n); /* opens; returns the variable */
int kir_loop_blocks(struct kir_builder *, const char *name, struct kir_lin n, struct kir_lin b); /* par .. in blocks */
int kir_loop_block(struct kir_builder *, enum kir_kind, const char *name, int q);      /* .. in block q */
void kir_private(struct kir_builder *, int buf, enum kir_op);                          /* on the loop just opened */
void kir_if(struct kir_builder *, int cond);
int kir_yield(struct kir_builder *, int value, int other);
void kir_end(struct kir_builder *); /* closes the innermost block */
int kir_carry(struct kir_builder *, const char *name, int init);
void kir_next(struct kir_builder *, int n, const int carry[], const int value[]);
void kir_until(struct kir_builder *, int stop);
int kir_fold(struct kir_builder *, enum kir_op, enum kir_order, int value); /* visible after its loop */
void kir_fold_fn(struct kir_builder *, int fn, enum kir_order, int n, const int in[], const int from[], int out[]);
int kir_prefix(struct kir_builder *, enum kir_op, int value);
void kir_prefix_fn(struct kir_builder *, int fn, int n, const int in[], const int from[], int out[]);
void kir_keep(struct kir_builder *, int value);
int kir_local(struct kir_builder *, const char *name, weft_dtype, int rank, const struct kir_lin dims[]);
int kir_fn_begin(struct kir_builder *, const char *name, int n, const weft_dtype param[], int value[]); /* opens its block */
void kir_fn_end(struct kir_builder *, int fn, int n, const int result[]);
void kir_name(struct kir_kernel *, int value, const char *name); /* names a result; made unique */

struct kir_lin kir_lin_const(struct kir_kernel *, int64_t);
struct kir_lin kir_lin_val(struct kir_kernel *, int value); /* a literal becomes a number */
struct kir_lin kir_lin_add(struct kir_kernel *, struct kir_lin, struct kir_lin);
struct kir_lin kir_lin_sub(struct kir_kernel *, struct kir_lin, struct kir_lin);
struct kir_lin kir_lin_mul(struct kir_kernel *, struct kir_lin, struct kir_lin);
struct kir_lin kir_lin_scale(struct kir_kernel *, struct kir_lin, int64_t);
bool kir_lin_equal(struct kir_lin, struct kir_lin);

/* ---- Text (print.c, parse.c), meaning (verify.c), expansion (math.c) ------------------------------------------------- */

struct text; /* base/text.h */
void kir_print(const struct kir_kernel *, struct text *); /* of a failed kernel: the text fails */
int kir_parse(const char *text, struct kir_kernel **out, int max, struct text *why); /* number of kernels; -1: why */

/* NULL if the kernel is well formed, else a text in the kernel's arena that says what is wrong. Without memory to find
 * out the kernel has failed. */
const char *kir_verify(struct kir_kernel *);

/* Replaces level-E instructions and calls of fns (but for fold and prefix combiners) by straight-line core
 * instructions, in place. Math results are the same bits on every back end because this is the only definition. */
bool kir_legalise(struct kir_kernel *); /* false: out of memory */

/* Facts a launcher needs, derived from the text. */
struct kir_facts {
  bool divisible;          /* one outermost par or lane loop that threads may cut anywhere */
  bool is_private;         /* outermost loop is par .. private: launch each q (or 2^k of them) on its own copies */
  const struct kir_stmt *outer; /* the outermost loop if it is the only one at kernel level, else NULL */
  int n_checks;            /* check sites, numbered in text order */
  int n_lanes;             /* lane loops */
  int per_iteration;       /* work of an iteration of the outermost loop if there is no loop in it, else 0 */
};
struct kir_facts kir_facts(const struct kir_kernel *);
int kir_work(const struct kir_stmt *); /* of a statement without others inside, roughly: memory takes twice as long as the rest */
bool kir_may_donate(const struct kir_kernel *, int in_buf, int out_buf); /* may out be the memory of in? */
bool kir_lanes_own(const struct kir_kernel *, int buf);   /* each load and store of it is some lane's; false also without memory */

#endif
