/* verify.c -- whether a kernel is well formed: each statement where it may stand, each value visible where it is used,
 * each dtype as the rows say. Whether its loads and stores can race is access.c.
 *
 * One walk. A value is visible from its statement to the end of its block; carries, folds and prefixes become visible
 * again after their loop, yields after their if, kept values in later lane loops of the same extent. The first thing
 * found wrong is reported. */
#include <stdarg.h>
#include <string.h>
#include "base/arena.h"
#include "base/text.h"
#include "kernel/access.h"
#include "kernel/kir.h"

/* ---- Places ----------------------------------------------------------------------------------------------------------- */

enum place { IN_KERNEL = 1, IN_PAR = 2, IN_SERIAL = 4, IN_LANE = 8, IN_IF = 16, IN_FN = 32, THROUGH_IF = 64 };
enum { LOOP_BODY = IN_KERNEL | IN_PAR | IN_SERIAL | IN_LANE };

/* Blocks a statement may stand in directly. THROUGH_IF: also in an if region that stands in one of these. */
static const uint8_t may_stand_in[KIR_KINDS] = {
  [KIR_PAR] = IN_KERNEL | IN_PAR,
  [KIR_LANE] = IN_KERNEL | IN_PAR | IN_SERIAL | THROUGH_IF,
  [KIR_SERIAL] = LOOP_BODY | THROUGH_IF,
  [KIR_IF] = LOOP_BODY | THROUGH_IF,
  [KIR_OP] = LOOP_BODY | IN_FN | THROUGH_IF,
  [KIR_LOAD] = LOOP_BODY | IN_FN | THROUGH_IF,
  [KIR_STORE] = LOOP_BODY | THROUGH_IF,
  [KIR_CHECK] = LOOP_BODY | THROUGH_IF,
  [KIR_LOCALS] = IN_KERNEL | IN_PAR,
  [KIR_FOLD] = IN_SERIAL | IN_LANE,
  [KIR_PREFIX] = IN_SERIAL | IN_LANE,
  [KIR_CARRY] = IN_SERIAL,
  [KIR_NEXT] = IN_SERIAL,
  [KIR_UNTIL] = IN_SERIAL,
  [KIR_YIELD] = IN_IF,
  [KIR_KEEP] = IN_LANE,
};

static const char *const kind_name[KIR_KINDS] = {
  [KIR_OP] = "an instruction", [KIR_LOAD] = "load", [KIR_STORE] = "store", [KIR_PAR] = "par", [KIR_SERIAL] = "serial",
  [KIR_LANE] = "lane", [KIR_IF] = "if", [KIR_YIELD] = "yield", [KIR_CARRY] = "carry", [KIR_NEXT] = "next",
  [KIR_UNTIL] = "until", [KIR_FOLD] = "fold", [KIR_PREFIX] = "prefix", [KIR_KEEP] = "keep", [KIR_LOCALS] = "local",
  [KIR_CHECK] = "check",
};

static const char *place_name(enum place p) {
  switch ((int)p) {
  case IN_KERNEL: return "kernel";
  case IN_PAR: return "par";
  case IN_SERIAL: return "serial";
  case IN_LANE: return "lane";
  case IN_IF: return "if";
  }
  return "fn";
}

static enum place place_of(const struct kir_stmt *s) {
  return s->kind == KIR_PAR ? IN_PAR : s->kind == KIR_SERIAL ? IN_SERIAL : s->kind == KIR_LANE ? IN_LANE : IN_IF;
}

/* ---- State ------------------------------------------------------------------------------------------------------------ */

struct open_block { /* one that is open */
  const struct open_block *up;
  const struct kir_stmt *s; /* the loop or if; NULL: kernel or fn */
  enum place place, outer;  /* outer: the same without ifs */
  const struct kir_stmt *lane;
  int n_pars;
};

struct fact { bool is_defined, is_visible, varies; const struct kir_stmt *loop; };
struct kept { int value; const struct kir_stmt *loop; };

struct verifier {
  struct kir_kernel *k;
  struct arena *arena;
  const char *why;
  int fn;              /* being verified; n_fns: the body */
  struct fact *of;     /* by value */
  int *local_pars;     /* by buffer: 1 + the par loops around a visible local */
  int n_shown, *shown; /* values in the order in which they became visible; buffers as -1 - buffer */
  int n_kept;
  struct kept *kept;
};

static bool refuse(struct verifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct verifier *v, const char *format, ...) {
  struct text t = { 0 };
  va_list list;
  if (v->why) return false;
  text_addf(&t, "%s: ", v->k->name);
  va_start(list, format);
  text_addv(&t, format, list);
  va_end(list);
  v->why = t.failed ? NULL : arena_text(v->k->arena, t.s);
  if (!v->why) v->why = "out of memory";
  text_free(&t);
  return false;
}

static const char *name_of(const struct verifier *v, int x) {
  const char *name = v->k->vals[x].name;
  return name ? name : v->k->vals[x].kind == KIR_LIT ? "a literal" : "a temporary";
}

static const char *dtype_name(const struct verifier *v, int x) { return kir_dtype_name((weft_dtype)v->k->vals[x].dtype); }
static weft_dtype dtype_of(const struct verifier *v, int x) { return (weft_dtype)v->k->vals[x].dtype; }

static void show(struct verifier *v, int x, bool varies) {
  v->of[x].is_visible = true;
  v->of[x].varies = varies;
  v->shown[v->n_shown++] = x;
}

static void hide(struct verifier *v, int from) {
  while (v->n_shown > from) {
    int x = v->shown[--v->n_shown];
    if (x >= 0) v->of[x].is_visible = false;
    else v->local_pars[-1 - x] = 0;
  }
}

static bool define(struct verifier *v, int x, weft_dtype dtype) {
  if (x <= 0 || x >= v->k->n_vals || v->k->vals[x].kind != KIR_RESULT) return refuse(v, "a statement gives no value");
  if (v->of[x].is_defined) return refuse(v, "%s defined twice", name_of(v, x));
  if (dtype_of(v, x) != dtype) return refuse(v, "%s is %s, not %s", name_of(v, x), dtype_name(v, x), kir_dtype_name(dtype));
  v->of[x].is_defined = true;
  return true;
}

static bool define_here(struct verifier *v, const struct open_block *b, int x, weft_dtype dtype) {
  if (!define(v, x, dtype)) return false;
  show(v, x, b->lane);
  return true;
}

static bool see(struct verifier *v, int x) {
  if (x < 0 || x >= v->k->n_vals) return refuse(v, "no such value");
  if (v->k->vals[x].kind == KIR_LIT || v->of[x].is_visible) return true;
  return refuse(v, "%s is not visible here", name_of(v, x));
}

static bool see_as(struct verifier *v, int x, weft_dtype dtype, const char *who) {
  if (!see(v, x)) return false;
  return dtype_of(v, x) == dtype || refuse(v, "%s needs a %s, not %s", who, kir_dtype_name(dtype), dtype_name(v, x));
}

/* ---- Indices ---------------------------------------------------------------------------------------------------------- */

static bool see_term(struct verifier *v, const struct kir_term *t, const char *where) {
  int n_varying = 0;
  for (int i = 0; i < t->n; i++) {
    if (!see(v, t->val[i])) return false;
    if (dtype_of(v, t->val[i]) != WEFT_I64) return refuse(v, "%s: a subscript is not i64", where);
    n_varying += v->of[t->val[i]].varies;
  }
  return n_varying <= 1 || refuse(v, "%s: a subscript multiplies two lane values", where);
}

static bool see_index(struct verifier *v, int n, const struct kir_lin at[], const char *where) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < at[i].n; j++)
      if (!see_term(v, &at[i].term[j], where)) return false;
  return true;
}

/* The place of a check is counted in the path that fails alone: it is made of what is at hand there. */
static bool see_check(struct verifier *v, const struct kir_stmt *s) {
  if (!see_index(v, s->n_at, s->at, "check .. at")) return false;
  for (int i = 0; s->n_at && i < s->at[0].n; i++)
    for (int j = 0; j < s->at[0].term[i].n; j++) {
      uint8_t kind = v->k->vals[s->at[0].term[i].val[j]].kind;
      if (kind != KIR_AXIS && kind != KIR_SIZE) return refuse(v, "check .. at: a value, or a sum of products of axes and sizes");
    }
  return see_as(v, s->in[0], WEFT_BOOL, "check") && see_as(v, s->in[1], WEFT_I64, "check .. of") &&
         (s->n_at || see_as(v, s->in[2], WEFT_I64, "check .. at"));
}

static bool see_extent(struct verifier *v, const struct kir_lin *l, int var) {
  for (int i = 0; i < l->n; i++)
    for (int j = 0; j < l->term[i].n; j++) {
      int x = l->term[i].val[j];
      if (!see(v, x)) return false;
      if (dtype_of(v, x) != WEFT_I64 || v->of[x].varies) return refuse(v, "%s: extent must be uniform i64", name_of(v, var));
    }
  return true;
}

static bool dims_are_sizes(struct verifier *v, const struct kir_buf *b) {
  for (int i = 0; i < b->rank; i++)
    for (int j = 0; j < b->dims[i].n; j++)
      for (int f = 0; f < b->dims[i].term[j].n; f++)
        if (v->k->vals[b->dims[i].term[j].val[f]].kind != KIR_SIZE) return refuse(v, "%s: dims must be sizes", b->name);
  return true;
}

/* ---- Instructions ------------------------------------------------------------------------------------------------------ */

static bool in_class(char cls, weft_dtype d) {
  bool is_float = d == WEFT_F32 || d == WEFT_F64, is_bool = d == WEFT_BOOL;
  switch (cls) {
  case 'F': return is_float;
  case 'I': return !is_float && !is_bool;
  case 'N': return !is_bool;
  case 'B': return !is_float;
  }
  return true;
}

static bool misused(struct verifier *v, const char *name, int n, const int in[]) {
  struct text t = { 0 };
  for (int i = 0; i < n; i++) text_add(&t, i ? ", " : ""), text_add(&t, dtype_name(v, in[i]));
  refuse(v, "%s: not for %s", name, text_of(&t));
  text_free(&t);
  return false;
}

/* An instruction of the rows on operands in, perhaps fewer of them given twice; *result: its dtype. */
static bool row_fits(struct verifier *v, enum kir_op op, int n, const int in[], weft_dtype *result) {
  const struct kir_row *r = &kir_rows[op];
  if (op >= KIR_CAST) return refuse(v, "%s does not combine", r->name);
  if ((int)strlen(r->operands) != n) return refuse(v, "%s: takes %d operands", r->name, (int)strlen(r->operands));
  weft_dtype t = dtype_of(v, in[n - 1]);
  bool fits = in_class(r->cls, t);
  for (int i = 0; i < n; i++) fits &= dtype_of(v, in[i]) == (r->operands[i] == 'T' ? t : WEFT_BOOL);
  *result = r->result == 'T' ? t : WEFT_BOOL;
  return fits || misused(v, r->name, n, in);
}

static bool call_fits(struct verifier *v, int fn, int n, const int in[]) {
  if (fn < 0 || fn >= v->fn) return refuse(v, "a call of a fn that is not defined yet");
  const struct kir_fn *f = &v->k->fns[fn];
  bool fits = f->n_param == n;
  for (int i = 0; fits && i < n; i++) fits = dtype_of(v, in[i]) == dtype_of(v, f->param[i]);
  return fits || misused(v, f->name, n, in);
}

static bool verify_call(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  if (!call_fits(v, s->fn, s->n_in, s->in)) return false;
  const struct kir_fn *f = &v->k->fns[s->fn];
  if (f->n_result != s->n_out) return refuse(v, "%s gives %d values", f->name, f->n_result);
  for (int i = 0; i < s->n_out; i++)
    if (!define_here(v, b, s->out[i], dtype_of(v, f->result[i]))) return false;
  return true;
}

static bool verify_convert(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  weft_dtype to = (weft_dtype)s->dtype;
  if (s->n_in != 1 || !kir_width(to)) return refuse(v, "%s needs a dtype", kir_rows[s->op].name);
  if (s->op == KIR_BITS && (!kir_is_register(to) || kir_width(to) != kir_width(dtype_of(v, s->in[0]))))
    return refuse(v, "bits: widths differ");
  return define_here(v, b, s->out[0], kir_register_of(to));
}

static bool verify_owns(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  const struct kir_stmt *loop = v->of[s->in[0]].loop;
  if (!loop || loop->extent != KIR_BLOCKS || dtype_of(v, s->in[1]) != WEFT_I64)
    return refuse(v, "owns needs a block axis and an i64");
  return define_here(v, b, s->out[0], WEFT_BOOL);
}

static bool verify_op(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  weft_dtype result = WEFT_BOOL;
  for (int i = 0; i < s->n_in; i++)
    if (!see(v, s->in[i])) return false;
  if (s->op == KIR_CALL) return verify_call(v, b, s);
  if (s->op == KIR_CAST || s->op == KIR_BITS) return verify_convert(v, b, s);
  if (s->op == KIR_OWNS) return verify_owns(v, b, s);
  return row_fits(v, (enum kir_op)s->op, s->n_in, s->in, &result) && define_here(v, b, s->out[0], result);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------ */

static const struct kir_buf *see_buffer(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  if (s->buf < 0 || s->buf >= v->k->n_bufs) return refuse(v, "no such buffer"), NULL;
  const struct kir_buf *x = &v->k->bufs[s->buf];
  if (x->kind == KIR_LOCAL && !v->local_pars[s->buf]) refuse(v, "%s is not visible here", x->name);
  else if (b->place == IN_FN && x->kind != KIR_TABLE) refuse(v, "a fn loads from tables only");
  else if (s->n_at != x->rank) refuse(v, "%s has %d axes, not %d", x->name, x->rank, s->n_at);
  else if (see_index(v, s->n_at, s->at, x->name)) return x;
  return NULL;
}

static bool verify_load(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  const struct kir_buf *x = see_buffer(v, b, s);
  return x && define_here(v, b, s->out[0], kir_register_of((weft_dtype)x->dtype));
}

static const struct kir_private *private_here(const struct open_block *b, int buf) {
  for (; b; b = b->up)
    for (int i = 0; b->s && i < b->s->n_private; i++)
      if (b->s->private[i].buf == buf) return &b->s->private[i];
  return NULL;
}

static bool verify_store_mode(struct verifier *v, const struct open_block *b, const struct kir_stmt *s, const struct kir_buf *x) {
  const struct kir_private *p = private_here(b, s->buf);
  weft_dtype dtype = kir_register_of((weft_dtype)x->dtype), result;
  if (s->op != KIR_SET && !kir_is_combiner(s->op)) return refuse(v, "%s: no store mode %s", x->name, kir_rows[s->op].name);
  if (s->op != KIR_SET && !row_fits(v, (enum kir_op)s->op, 2, (int[]){ s->in[0], s->in[0] }, &result)) return false;
  if (p && kir_is_f8((weft_dtype)x->dtype)) return refuse(v, "%s: copies of 8 bits are not merged; use f32", x->name);
  if (p) return p->op == s->op || refuse(v, "%s is private %s", x->name, kir_rows[p->op].name);
  return s->op == KIR_SET || dtype == (weft_dtype)x->dtype ||
         refuse(v, "%s: combining in memory would round each time; use private or local", x->name);
}

static bool verify_store(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  const struct kir_buf *x = see_buffer(v, b, s);
  if (!x || !see(v, s->in[0])) return false;
  weft_dtype dtype = kir_register_of((weft_dtype)x->dtype);
  if (x->kind == KIR_IN || x->kind == KIR_TABLE) return refuse(v, "%s is read only", x->name);
  if (dtype_of(v, s->in[0]) != dtype)
    return refuse(v, "%s: stores %s, not %s", x->name, kir_dtype_name(dtype), dtype_name(v, s->in[0]));
  if (x->kind == KIR_LOCAL && v->local_pars[s->buf] != 1 + b->n_pars)
    return refuse(v, "%s: a local of outside is stored to by a par loop", x->name);
  return verify_store_mode(v, b, s, x);
}

static bool verify_local(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  const struct kir_buf *x = &v->k->bufs[s->buf];
  if (x->kind != KIR_LOCAL || !kir_is_register((weft_dtype)x->dtype))
    return refuse(v, "%s: local arrays hold register dtypes", x->name);
  if (v->local_pars[s->buf]) return refuse(v, "%s defined twice", x->name);
  v->local_pars[s->buf] = 1 + b->n_pars;
  v->shown[v->n_shown++] = -1 - s->buf;
  return dims_are_sizes(v, x);
}

/* ---- What crosses iterations and regions ------------------------------------------------------------------------------- */

static bool combines(struct verifier *v, const struct kir_stmt *s) {
  weft_dtype result = WEFT_BOOL;
  if (s->op == KIR_CALL) {
    int both[64];
    if (s->n_in > 32) return refuse(v, "a fold of more than 32 values");
    for (int i = 0; i < 2 * s->n_in; i++) both[i] = s->in[i % s->n_in];
    if (!call_fits(v, s->fn, 2 * s->n_in, both)) return false;
    const struct kir_fn *f = &v->k->fns[s->fn];
    bool same = f->n_result == s->n_in;
    for (int i = 0; same && i < s->n_in; i++) same = dtype_of(v, f->result[i]) == dtype_of(v, s->in[i]);
    return same || refuse(v, "%s does not give back what it combines", f->name);
  }
  if (s->n_in != 1 || !kir_is_combiner(s->op)) return refuse(v, "%s does not combine", kir_rows[s->op].name);
  return row_fits(v, (enum kir_op)s->op, 2, (int[]){ s->in[0], s->in[0] }, &result);
}

static bool verify_from(struct verifier *v, const struct kir_stmt *s) {
  const char *name = s->op == KIR_CALL ? v->k->fns[s->fn].name : kir_rows[s->op].name;
  if (s->n_from != (s->op == KIR_CALL ? s->n_in : 0)) return refuse(v, "%s: needs its neutral values", name);
  for (int i = 0; i < s->n_from; i++) {
    if (!see(v, s->from[i])) return false;
    if (dtype_of(v, s->from[i]) != dtype_of(v, s->in[i]))
      return refuse(v, "%s: its neutral values have another dtype", name);
  }
  return true;
}

static bool verify_fold(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++)
    if (!see(v, s->in[i])) return false;
  if (s->kind == KIR_PREFIX && s->order != KIR_PLAIN) return refuse(v, "prefix has one order");
  if (s->n_in != s->n_out) return refuse(v, "a fold gives as many values as it takes");
  if (!combines(v, s) || !verify_from(v, s)) return false;
  for (int i = 0; i < s->n_out; i++) {
    if (!define(v, s->out[i], dtype_of(v, s->in[i]))) return false;
    if (s->kind == KIR_PREFIX) show(v, s->out[i], b->lane); /* a fold is visible only after its loop */
  }
  return true;
}

static bool verify_carry(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  return see(v, s->in[0]) && define_here(v, b, s->out[0], dtype_of(v, s->in[0]));
}

static bool is_carry_of(const struct kir_stmt *loop, int x) {
  for (const struct kir_stmt *s = loop->body.first; s && s->kind == KIR_CARRY; s = s->next)
    if (s->out[0] == x) return true;
  return false;
}

static bool verify_next(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++) {
    if (!is_carry_of(b->s, s->out[i])) return refuse(v, "next names no carry of this loop");
    for (int j = 0; j < i; j++)
      if (s->out[j] == s->out[i]) return refuse(v, "next %s: named twice", name_of(v, s->out[i]));
    if (!see(v, s->in[i])) return false;
    if (dtype_of(v, s->in[i]) != dtype_of(v, s->out[i])) return refuse(v, "next %s: dtype changes", name_of(v, s->out[i]));
  }
  return true;
}

static bool verify_keep(struct verifier *v, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++)
    if (!see(v, s->in[i])) return false;
  return true;
}

static bool verify_yield(struct verifier *v, const struct kir_stmt *s) {
  if (!see(v, s->in[0]) || !see(v, s->in[1])) return false;
  if (dtype_of(v, s->in[0]) != dtype_of(v, s->in[1])) return refuse(v, "%s: sides differ in dtype", name_of(v, s->out[0]));
  return define(v, s->out[0], dtype_of(v, s->in[0]));
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------------ */

static bool verify_block(struct verifier *v, const struct open_block *b, const struct kir_block *body);

static bool verify_extent(struct verifier *v, const struct kir_stmt *s) {
  if (s->extent == KIR_BLOCK) {
    if (!see(v, s->block_of)) return false;
    const struct kir_stmt *q = v->of[s->block_of].loop;
    return (q && q->extent == KIR_BLOCKS) || refuse(v, "%s is not a block axis", name_of(v, s->block_of));
  }
  if (s->extent == KIR_BLOCKS && s->kind != KIR_PAR) return refuse(v, "only par goes over blocks");
  for (int i = 0; i < s->n_at; i++)
    if (!see_extent(v, &s->at[i], s->var)) return false;
  return true;
}

static bool verify_private(struct verifier *v, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_private; i++) {
    const struct kir_buf *x = &v->k->bufs[s->private[i].buf];
    const char *by = kir_rows[s->private[i].op].name;
    if (s->kind != KIR_PAR || (x->kind != KIR_OUT && x->kind != KIR_INOUT))
      return refuse(v, "private %s: an output of a par loop", x->name);
    if (!kir_is_combiner(s->private[i].op)) return refuse(v, "private %s: %s has no neutral element", x->name, by);
  }
  return true;
}

/* What the loop leaves behind. */
static void leave_loop(struct verifier *v, const struct open_block *outer, const struct kir_stmt *s) {
  for (const struct kir_stmt *x = s->body.first; x; x = x->next) {
    if (x->kind == KIR_CARRY || x->kind == KIR_FOLD || x->kind == KIR_PREFIX)
      for (int i = 0; i < x->n_out; i++) show(v, x->out[i], outer->lane);
    for (int i = 0; x->kind == KIR_KEEP && i < x->n_in; i++) v->kept[v->n_kept++] = (struct kept){ x->in[i], s };
  }
}

static bool have_same_extent(const struct kir_stmt *x, const struct kir_stmt *y) {
  if (x->extent != y->extent) return false;
  if (x->extent == KIR_BLOCK) return x->block_of == y->block_of;
  return kir_lin_equal(x->at[0], y->at[0]);
}

static void show_kept(struct verifier *v, const struct kir_stmt *s) {
  for (int i = 0; i < v->n_kept; i++)
    if (have_same_extent(v->kept[i].loop, s) && !v->of[v->kept[i].value].is_visible) show(v, v->kept[i].value, true);
}

static bool verify_loop(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  const struct kir_stmt *lane = s->kind == KIR_LANE ? s : b->lane;
  struct open_block inner = { b, s, place_of(s), place_of(s), lane, b->n_pars + (s->kind == KIR_PAR) };
  if (s->var <= 0 || v->k->vals[s->var].kind != KIR_AXIS || v->of[s->var].is_defined)
    return refuse(v, "a loop needs a variable of its own");
  if (!verify_extent(v, s) || !verify_private(v, s)) return false;
  int shown = v->n_shown, n_kept = v->n_kept;
  v->of[s->var].is_defined = true;
  v->of[s->var].loop = s;
  show(v, s->var, s->kind == KIR_LANE); /* a serial loop in a lane counts alike in all lanes */
  if (s->kind == KIR_LANE) show_kept(v, s);
  if (!verify_block(v, &inner, &s->body)) return false;
  hide(v, shown);
  v->n_kept = n_kept;
  leave_loop(v, b, s);
  return true;
}

static bool verify_if(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  struct open_block inner = { b, s, IN_IF, b->outer, b->lane, b->n_pars };
  int shown = v->n_shown, n_kept = v->n_kept;
  if (!see_as(v, s->in[0], WEFT_BOOL, "if") || !verify_block(v, &inner, &s->body)) return false;
  hide(v, shown);
  v->n_kept = n_kept;
  for (const struct kir_stmt *x = s->body.first; x; x = x->next) {
    if (x->kind != KIR_YIELD) continue;
    if (!see(v, x->in[1])) return false; /* the other value is one of outside */
    show(v, x->out[0], b->lane);
  }
  return true;
}

static bool verify_stmt(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  switch ((enum kir_kind)s->kind) {
  case KIR_OP: return verify_op(v, b, s);
  case KIR_LOAD: return verify_load(v, b, s);
  case KIR_STORE: return verify_store(v, b, s);
  case KIR_PAR: case KIR_SERIAL: case KIR_LANE: return verify_loop(v, b, s);
  case KIR_IF: return verify_if(v, b, s);
  case KIR_YIELD: return verify_yield(v, s);
  case KIR_CARRY: return verify_carry(v, b, s);
  case KIR_NEXT: return verify_next(v, b, s);
  case KIR_UNTIL: return see_as(v, s->in[0], WEFT_BOOL, "until");
  case KIR_FOLD: case KIR_PREFIX: return verify_fold(v, b, s);
  case KIR_KEEP: return verify_keep(v, s);
  case KIR_LOCALS: return verify_local(v, b, s);
  case KIR_CHECK: return see_check(v, s);
  case KIR_KINDS: break;
  }
  return refuse(v, "no such statement");
}

static bool may_stand(struct verifier *v, const struct open_block *b, const struct kir_stmt *s) {
  int ok = may_stand_in[s->kind];
  if (ok & b->place || (b->place == IN_IF && ok & THROUGH_IF && ok & b->outer)) return true;
  return refuse(v, "%s may not stand in %s", kind_name[s->kind], place_name(b->place));
}

static bool verify_block(struct verifier *v, const struct open_block *b, const struct kir_block *body) {
  bool only_carries = true, after_next = false;
  for (const struct kir_stmt *s = body->first; s; s = s->next) {
    if (s->kind >= KIR_KINDS) return refuse(v, "no such statement");
    if (s->kind == KIR_LANE && b->lane && b->place != IN_LANE) return refuse(v, "lane loops do not nest");
    if (!may_stand(v, b, s)) return false;
    if (s->kind == KIR_CARRY && !only_carries) return refuse(v, "carry must open its loop");
    if (after_next && s->kind != KIR_UNTIL) return refuse(v, "only until may follow next");
    if (!verify_stmt(v, b, s)) return false;
    only_carries &= s->kind == KIR_CARRY;
    after_next |= s->kind == KIR_NEXT;
  }
  return true;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------------- */

static bool verify_fn(struct verifier *v, int fn) {
  const struct kir_fn *f = &v->k->fns[fn];
  struct open_block b = { .place = IN_FN, .outer = IN_FN };
  v->fn = fn;
  for (int i = 0; i < f->n_param; i++)
    if (!define_here(v, &b, f->param[i], dtype_of(v, f->param[i]))) return false;
  if (!verify_block(v, &b, &f->body)) return false;
  for (int i = 0; i < f->n_result; i++)
    if (!see(v, f->result[i])) return false;
  hide(v, 0);
  return f->n_result > 0 || refuse(v, "%s gives nothing", f->name);
}

static bool verify_head(struct verifier *v) {
  const struct kir_kernel *k = v->k;
  for (int i = 0; i < k->n_vals; i++)
    if (!kir_is_register((weft_dtype)k->vals[i].dtype))
      return refuse(v, "%s: %s is no dtype of a value", name_of(v, i), dtype_name(v, i));
  for (int i = 0; i < k->n_bufs; i++) {
    const struct kir_buf *b = &k->bufs[i];
    weft_dtype d = (weft_dtype)b->dtype;
    if (!kir_width(d)) return refuse(v, "%s: %s is no dtype of a kernel", b->name, kir_dtype_name(d));
    if (b->kind == KIR_TABLE && !kir_is_register(d)) return refuse(v, "%s: tables hold register dtypes", b->name);
    if (!dims_are_sizes(v, b)) return false;
  }
  return true;
}

static void verify_kernel(struct verifier *v) {
  struct kir_kernel *k = v->k;
  struct open_block b = { .place = IN_KERNEL, .outer = IN_KERNEL };
  if (!verify_head(v)) return;
  for (int i = 0; i < k->n_fns; i++)
    if (!verify_fn(v, i)) return;
  v->fn = k->n_fns;
  for (int i = 0; i < k->n_sizes; i++) show(v, k->sizes[i], false);
  for (int i = 0; i < k->n_args; i++) show(v, k->args[i], false);
  verify_block(v, &b, &k->body);
}

static int count_kept(const struct kir_block *block) {
  int n = 0;
  for (const struct kir_stmt *s = block->first; s; s = s->next)
    n += (s->kind == KIR_KEEP ? s->n_in : 0) + count_kept(&s->body);
  return n;
}

static bool set_up(struct verifier *v) {
  const struct kir_kernel *k = v->k;
  size_t n_kept = (size_t)count_kept(&k->body);
  v->arena = arena_new();
  if (!v->arena) return false;
  v->of = arena_take(v->arena, (size_t)k->n_vals * sizeof *v->of);
  v->local_pars = arena_take(v->arena, (size_t)k->n_bufs * sizeof *v->local_pars);
  v->shown = arena_take(v->arena, (size_t)(2 * k->n_vals + k->n_bufs) * sizeof *v->shown);
  v->kept = arena_take(v->arena, n_kept * sizeof *v->kept);
  return v->of && v->local_pars && v->shown && v->kept;
}

static void no_memory(struct verifier *v) {
  v->k->failed = true;
  v->why = v->k->why = "out of memory";
}

static void verify_accesses(struct verifier *v) {
  struct accesses a;
  if (!accesses_find(&a, v->k)) no_memory(v);
  else {
    const char *why = accesses_race(&a);
    if (why) refuse(v, "%s", why);
  }
  accesses_free(&a);
}

const char *kir_verify(struct kir_kernel *k) {
  struct verifier v = { .k = k };
  if (k->failed) return k->why;
  if (set_up(&v)) verify_kernel(&v);
  else no_memory(&v);
  arena_free(v.arena);
  if (!v.why) verify_accesses(&v);
  return v.why;
}
