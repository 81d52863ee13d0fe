/* parse.c -- kernels from text. Reads what print.c writes, and shorter forms of it: operands may be calls and loads
 * themselves, and become temporaries; statements may share a line; a comment goes from # to the end of the line.
 *
 * Owns names and counts: who is meant, how many operands. Whether the kernel makes sense is for verify.c to say. The
 * first error is kept, and turns the rest of the text into its end, so that nothing needs to be unwound. */
#include <string.h>
#include "base/arena.h"
#include "base/mem.h"
#include "base/text.h"
#include "kernel/kir.h"
#include "kernel/name.h"

enum { NAME_MAX = 40, LIST_MAX = 32, NEST_MAX = 100 };
enum token_kind { T_END, T_NAME, T_NUMBER, T_MARK };
struct token { enum token_kind kind; const char *s; size_t n; int line; };

struct parser {
  const char *at;
  int line, nest;
  struct token tok;
  bool is_bad;
  struct text *why;
  struct kir_kernel *k;
  struct kir_builder b;
};

/* ---- Tokens --------------------------------------------------------------------------------------------------------- */

static void bad(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void bad(struct parser *p, const char *format, ...) {
  va_list list;
  if (!p->is_bad) {
    text_addf(p->why, "line %d: ", p->tok.line);
    va_start(list, format);
    text_addv(p->why, format, list);
    va_end(list);
  }
  p->is_bad = true;
  p->at = "";
  p->tok = (struct token){ T_END, "", 0, p->tok.line };
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return is_letter(c) || is_digit(c); }

static void skip_space(struct parser *p) {
  for (;; p->at++) {
    if (*p->at == '#') p->at += strcspn(p->at, "\n");
    if (*p->at == '\n') p->line++;
    else if (!*p->at || !strchr(" \t\r;", *p->at)) return;
  }
}

/* %12, name, name.suffix, 12, 12:u32, 0f3f800000, ->, and marks of one character */
static void advance(struct parser *p) {
  skip_space(p);
  const char *s = p->at, *e = s;
  enum token_kind kind = T_MARK;
  if (*s == '%' || is_letter(*s)) {
    for (kind = T_NAME, e++; is_word(*e); e++) {}
    if (*e == '.' && is_word(e[1]))
      for (e++; is_word(*e); e++) {}
  } else if (is_digit(*s)) {
    for (kind = T_NUMBER; is_word(*e); e++) {}
    if (*e == ':' && is_letter(e[1]))
      for (e++; is_word(*e); e++) {}
  } else if (s[0] == '-' && s[1] == '>') {
    e += 2;
  } else if (*s) {
    e++;
  } else {
    kind = T_END;
  }
  p->tok = (struct token){ kind, s, (size_t)(e - s), p->line };
  p->at = e;
}

static bool is(const struct parser *p, const char *word) {
  return p->tok.kind != T_END && !strncmp(p->tok.s, word, p->tok.n) && !word[p->tok.n];
}

static bool accept(struct parser *p, const char *word) {
  bool found = is(p, word);
  if (found) advance(p);
  return found;
}

static void expected(struct parser *p, const char *what) {
  if (p->tok.kind == T_END) bad(p, "expected %s but the text ends", what);
  else bad(p, "expected %s but found '%.*s'", what, (int)(p->tok.n < 40 ? p->tok.n : 40), p->tok.s);
}

static void expect(struct parser *p, const char *word) {
  char quoted[16] = "'";
  strcat(strcat(quoted, word), "'");
  if (!accept(p, word)) expected(p, quoted);
}

static struct token take_name(struct parser *p, const char *what) {
  struct token t = p->tok;
  if (t.kind != T_NAME || memchr(t.s, '.', t.n)) expected(p, what);
  else if (t.n > NAME_MAX) bad(p, "a name of more than %d characters", NAME_MAX);
  else advance(p);
  return p->is_bad ? (struct token){ T_NAME, "_", 1, t.line } : t;
}

static weft_dtype dtype_named(struct parser *p, const char *s, size_t n) {
  for (int d = WEFT_BOOL; d <= WEFT_E5M2; d++)
    if (!strncmp(kir_dtype_name((weft_dtype)d), s, n) && !kir_dtype_name((weft_dtype)d)[n]) return (weft_dtype)d;
  bad(p, "no such dtype: '%.*s'", (int)(n < 40 ? n : 40), s);
  return WEFT_I64;
}

static weft_dtype take_dtype(struct parser *p) {
  struct token t = take_name(p, "a dtype");
  return p->is_bad ? WEFT_I64 : dtype_named(p, t.s, t.n);
}

static struct token take_typed(struct parser *p, weft_dtype *dtype) {
  struct token t = take_name(p, "a name");
  expect(p, ":");
  *dtype = take_dtype(p);
  return t;
}

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

struct word { char s[NAME_MAX + 1]; };

static struct word word_of(struct token t) {
  struct word w = { "" };
  memcpy(w.s, t.s, t.n);
  return w;
}

/* Refuses a name that is taken or a word of the language. */
static void claim(struct parser *p, struct token t, int scope) {
  int n = (int)t.n;
  if (p->is_bad) return;
  if (t.s[0] != '%' && name_is_reserved(t.s, t.n)) bad(p, "'%.*s' is a word of the language", n, t.s);
  else if (name_find(p->k, t.s, t.n, scope)) bad(p, "%.*s defined twice", n, t.s);
}

static void define(struct parser *p, struct token t, int v) {
  claim(p, t, p->k->scope);
  if (p->is_bad || p->k->failed) return;
  const char *name = name_put(p->k, t.s, t.n, NAME_VALUE, v);
  if (t.s[0] != '%') p->k->vals[v].name = name;
}

static int value_named(struct parser *p, struct token t) {
  const struct name *e = name_find(p->k, t.s, t.n, p->k->scope);
  if (e && e->kind == NAME_VALUE) return e->index;
  bad(p, "no value is called '%.*s' here", (int)t.n, t.s);
  return 0;
}

static int take_buffer(struct parser *p) {
  struct token t = take_name(p, "a buffer");
  const struct name *e = name_find(p->k, t.s, t.n, 0);
  if (e && e->kind == NAME_BUFFER) return e->index;
  bad(p, "no buffer %.*s", (int)t.n, t.s);
  return 0;
}

/* An instruction, or a fn: then KIR_CALL and *fn. */
static enum kir_op op_named(struct parser *p, struct token t, int *fn) {
  for (int op = 0; op < KIR_CALL; op++)
    if (!strncmp(kir_rows[op].name, t.s, t.n) && !kir_rows[op].name[t.n]) return (enum kir_op)op;
  const struct name *e = name_find(p->k, t.s, t.n, 0);
  if (!e || e->kind != NAME_FN) bad(p, "no instruction %.*s", (int)t.n, t.s);
  else if (e->index == p->k->scope - 1) bad(p, "%s calls itself", e->text);
  *fn = p->is_bad ? 0 : e->index;
  return KIR_CALL;
}

/* ---- Numbers and indices -------------------------------------------------------------------------------------------- */

static unsigned digit_of(char c) {
  if (is_digit(c)) return (unsigned)(c - '0');
  if (c >= 'a' && c <= 'f') return (unsigned)(c - 'a' + 10);
  return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10) : 99;
}

/* All n characters as a number; false: they are not one, or it does not fit 64 bits. */
static bool number_in(const char *s, size_t n, unsigned base, uint64_t *x) {
  *x = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned d = digit_of(s[i]);
    if (d >= base || __builtin_mul_overflow(*x, base, x) || __builtin_add_overflow(*x, d, x)) return false;
  }
  return n > 0;
}

static bool whole_number(const char *s, size_t n, uint64_t *x) {
  return n > 2 && s[0] == '0' && s[1] == 'x' ? number_in(s + 2, n - 2, 16, x) : number_in(s, n, 10, x);
}

static bool fits(weft_dtype d, uint64_t size, bool is_negative) {
  int bits = 8 * kir_width(d);
  if (kir_is_signed(d)) return size < (UINT64_C(1) << (bits - 1)) + is_negative;
  return (!is_negative || !size) && (bits == 64 || size >> bits == 0);
}

static uint64_t integer(struct parser *p, bool is_negative, weft_dtype *dtype) {
  const char *colon = memchr(p->tok.s, ':', p->tok.n);
  size_t n = colon ? (size_t)(colon - p->tok.s) : p->tok.n;
  uint64_t x = 0;
  *dtype = colon ? dtype_named(p, colon + 1, p->tok.n - n - 1) : WEFT_I64;
  if (p->is_bad) return 0;
  const char *name = kir_dtype_name(*dtype);
  bool is_integer = kir_is_register(*dtype) && !kir_is_float(*dtype) && *dtype != WEFT_BOOL;
  if (!is_integer) bad(p, "a literal cannot be of dtype %s", name);
  else if (!whole_number(p->tok.s, n, &x)) expected(p, "a number");
  else if (!fits(*dtype, x, is_negative)) bad(p, "%.*s does not fit %s", (int)(n < 40 ? n : 40), p->tok.s, name);
  return is_negative ? -x : x;
}

static uint64_t take_literal(struct parser *p, weft_dtype *dtype) {
  const char *s = p->tok.s;
  uint64_t bits = 0;
  bool is_negative = accept(p, "-");
  if (p->tok.kind != T_NUMBER) expected(p, "a number");
  else if (is_negative) bits = integer(p, true, dtype);
  else if (s[0] == '0' && s[1] == 'f' && p->tok.n == 10 && number_in(s + 2, 8, 16, &bits)) *dtype = WEFT_F32;
  else if (s[0] == '0' && s[1] == 'd' && p->tok.n == 18 && number_in(s + 2, 16, 16, &bits)) *dtype = WEFT_F64;
  else bits = integer(p, false, dtype);
  advance(p);
  return bits;
}

static struct kir_lin factor(struct parser *p) {
  weft_dtype dtype = WEFT_I64;
  if (p->tok.kind == T_NAME) return kir_lin_val(p->k, value_named(p, take_name(p, "a name")));
  if (p->tok.kind != T_NUMBER) expected(p, "an index");
  int64_t x = p->is_bad ? 0 : (int64_t)integer(p, false, &dtype);
  if (dtype != WEFT_I64) bad(p, "a number in an index is i64");
  advance(p);
  return kir_lin_const(p->k, x);
}

static struct kir_lin index_of(struct parser *p) {
  struct kir_lin sum = { 0 };
  bool minus = accept(p, "-");
  do {
    struct kir_lin t = factor(p);
    while (accept(p, "*")) t = kir_lin_mul(p->k, t, factor(p));
    sum = minus ? kir_lin_sub(p->k, sum, t) : kir_lin_add(p->k, sum, t);
    minus = is(p, "-");
  } while (accept(p, "+") || accept(p, "-"));
  return sum;
}

/* [ix, ix]; returns how many */
static int indices(struct parser *p, struct kir_lin at[LIST_MAX]) {
  int n = 0;
  expect(p, "[");
  if (accept(p, "]")) return 0;
  do at[n++] = index_of(p);
  while (n < LIST_MAX && accept(p, ","));
  if (is(p, ",")) bad(p, "more than %d axes", LIST_MAX);
  expect(p, "]");
  return p->is_bad ? 0 : n;
}

static int subscripts(struct parser *p, struct kir_lin at[LIST_MAX]) {
  int buf = take_buffer(p), n = indices(p, at);
  if (!p->is_bad && !p->k->failed && n != p->k->bufs[buf].rank)
    bad(p, "%s has %d axes, not %d", p->k->bufs[buf].name, p->k->bufs[buf].rank, n);
  return buf;
}

/* ---- Operands ------------------------------------------------------------------------------------------------------- */

static int operand(struct parser *p);

static int operands(struct parser *p, int v[LIST_MAX]) {
  int n = 0;
  do v[n++] = operand(p);
  while (n < LIST_MAX && accept(p, ","));
  if (is(p, ",")) bad(p, "more than %d operands", LIST_MAX);
  return n;
}

static int bracketed(struct parser *p, int v[LIST_MAX]) {
  expect(p, "(");
  if (accept(p, ")")) return 0;
  int n = operands(p, v);
  expect(p, ")");
  return n;
}

static int convert(struct parser *p, enum kir_op op, struct token name) {
  const char *dot = memchr(name.s, '.', name.n);
  int v[LIST_MAX], n = bracketed(p, v);
  weft_dtype to = dot ? dtype_named(p, dot + 1, name.n - (size_t)(dot + 1 - name.s)) : WEFT_I64;
  if (!dot || n != 1) bad(p, "%s.DTYPE takes 1 operand", kir_rows[op].name);
  return p->is_bad ? 0 : kir_convert(&p->b, op, to, v[0]);
}

/* A call whose name has been read; returns the number of results. */
static int call(struct parser *p, struct token name, int out[LIST_MAX]) {
  int in[LIST_MAX], fn = 0;
  out[0] = 0;
  if (name.n > 5 && !strncmp(name.s, "cast.", 5)) return out[0] = convert(p, KIR_CAST, name), 1;
  if (name.n > 5 && !strncmp(name.s, "bits.", 5)) return out[0] = convert(p, KIR_BITS, name), 1;
  enum kir_op op = op_named(p, name, &fn);
  if (op == KIR_CAST || op == KIR_BITS) return out[0] = convert(p, op, name), 1;
  int n = bracketed(p, in);
  if (p->is_bad || p->k->failed) return 1;
  int want = op == KIR_CALL ? p->k->fns[fn].n_param : (int)strlen(kir_rows[op].operands);
  if (n != want) bad(p, "%.*s: takes %d operands, not %d", (int)name.n, name.s, want, n);
  else if (op != KIR_CALL) out[0] = kir_apply(&p->b, op, n, in);
  else kir_call(&p->b, fn, n, in, out);
  return op == KIR_CALL ? p->k->fns[fn].n_result : 1;
}

static int nested(struct parser *p, struct token name) {
  int out[LIST_MAX], n = call(p, name, out);
  if (n != 1) bad(p, "%.*s gives %d values", (int)name.n, name.s, n);
  return out[0];
}

static int load_operand(struct parser *p) {
  struct kir_lin at[LIST_MAX];
  int buf = subscripts(p, at);
  return p->is_bad ? 0 : kir_load(&p->b, buf, at);
}

static int plain_operand(struct parser *p) {
  weft_dtype dtype = WEFT_I64;
  if (accept(p, "true")) return kir_lit(p->k, WEFT_BOOL, 1);
  if (accept(p, "false")) return kir_lit(p->k, WEFT_BOOL, 0);
  if (accept(p, "load")) return load_operand(p);
  if (p->tok.kind != T_NAME) {
    uint64_t bits = take_literal(p, &dtype);
    return p->is_bad ? 0 : kir_lit(p->k, dtype, bits);
  }
  struct token t = p->tok;
  advance(p);
  return is(p, "(") ? nested(p, t) : value_named(p, t);
}

static int operand(struct parser *p) {
  if (++p->nest > NEST_MAX) bad(p, "operands are nested too deeply");
  int v = plain_operand(p);
  p->nest--;
  return v;
}

/* ---- Statements ----------------------------------------------------------------------------------------------------- */

static void block(struct parser *p);

static void loop(struct parser *p, enum kir_kind kind) {
  struct token t = take_name(p, "a loop variable");
  struct word name = word_of(t);
  const struct name *old = name_find(p->k, t.s, t.n, p->k->scope);
  if (!old || old->kind != NAME_VALUE || p->k->vals[old->index].kind != KIR_AXIS) claim(p, t, p->k->scope);
  expect(p, "in");
  struct kir_lin n = { 0 }, size = { 0 };
  int var;
  if (accept(p, "block")) {
    int q = value_named(p, take_name(p, "a loop over blocks"));
    var = kir_loop_block(&p->b, kind, name.s, q);
  } else if (accept(p, "blocks")) {
    if (kind != KIR_PAR) bad(p, "only par goes over blocks");
    expect(p, "("), n = index_of(p), expect(p, ","), size = index_of(p), expect(p, ")");
    var = kir_loop_blocks(&p->b, name.s, n, size);
  } else {
    n = index_of(p);
    var = kir_loop(&p->b, kind, name.s, n);
  }
  if (var && strcmp(p->k->vals[var].name ? p->k->vals[var].name : "", name.s)) bad(p, "%s is taken", name.s);
}

static int combiner(struct parser *p, int *fn) {
  return accept(p, "set") ? KIR_SET : (int)op_named(p, take_name(p, "a combiner"), fn);
}

static void private_list(struct parser *p) {
  int fn = 0;
  do {
    int buf = take_buffer(p), op = combiner(p, &fn);
    if (op == KIR_CALL) bad(p, "private needs an instruction that combines");
    kir_private(&p->b, buf, (enum kir_op)op);
  } while (accept(p, ","));
}

static void loop_stmt(struct parser *p, enum kir_kind kind) {
  loop(p, kind);
  if (accept(p, "private")) private_list(p);
  block(p);
}

static void if_stmt(struct parser *p) {
  kir_if(&p->b, operand(p));
  block(p);
}

static void store_stmt(struct parser *p) {
  struct kir_lin at[LIST_MAX];
  int fn = 0, buf = subscripts(p, at), op = is(p, "=") ? KIR_SET : combiner(p, &fn);
  if (op == KIR_CALL) bad(p, "a store combines by an instruction");
  expect(p, "=");
  int v = operand(p);
  bool is_guarded = accept(p, "if");
  int cond = is_guarded ? operand(p) : 0;
  if (p->is_bad) return;
  if (is_guarded) kir_if(&p->b, cond);
  kir_store(&p->b, buf, at, op, v);
  if (is_guarded) kir_end(&p->b);
}

static void carry_stmt(struct parser *p) {
  struct token t = take_name(p, "a name");
  expect(p, "=");
  define(p, t, kir_carry(&p->b, NULL, operand(p)));
}

static void next_stmt(struct parser *p) {
  int carry[LIST_MAX], v[LIST_MAX], n = 0;
  do {
    carry[n] = value_named(p, take_name(p, "a carry"));
    expect(p, "=");
    v[n++] = operand(p);
  } while (n < LIST_MAX && accept(p, ","));
  if (is(p, ",")) bad(p, "more than %d carries", LIST_MAX);
  kir_next(&p->b, n, carry, v);
}

static void keep_stmt(struct parser *p) {
  do kir_keep(&p->b, value_named(p, take_name(p, "a value")));
  while (accept(p, ","));
}

/* An index, or a value; the first name may be that of an instruction. */
static struct kir_lin place(struct parser *p) {
  if (is(p, "-") || p->tok.kind != T_NAME) return index_of(p);
  struct kir_lin t = kir_lin_val(p->k, operand(p));
  while (accept(p, "*")) t = kir_lin_mul(p->k, t, factor(p));
  if (is(p, "-")) return kir_lin_add(p->k, t, index_of(p));
  return accept(p, "+") ? kir_lin_add(p->k, t, index_of(p)) : t;
}

static void check_stmt(struct parser *p) {
  int ok = operand(p);
  expect(p, "at");
  struct kir_lin at = place(p);
  kir_check(&p->b, ok, at, accept(p, "of") ? operand(p) : kir_lit_int(p->k, WEFT_I64, 0));
}

static void yield_stmt(struct parser *p) {
  struct token t = take_name(p, "a name");
  expect(p, "=");
  int v = operand(p);
  expect(p, "else");
  define(p, t, kir_yield(&p->b, v, operand(p)));
}

static void local_stmt(struct parser *p) {
  weft_dtype dtype;
  struct kir_lin dims[LIST_MAX];
  struct token t = take_typed(p, &dtype);
  claim(p, t, 0);
  int rank = indices(p, dims);
  if (!p->is_bad) kir_local(&p->b, word_of(t).s, dtype, rank, dims);
}

static void assign_load(struct parser *p, struct token name) {
  struct kir_lin at[LIST_MAX];
  int buf = subscripts(p, at);
  if (!accept(p, "if")) {
    if (!p->is_bad) define(p, name, kir_load(&p->b, buf, at));
    return;
  }
  int cond = operand(p);
  expect(p, "else");
  int other = operand(p);
  if (p->is_bad) return;
  kir_if(&p->b, cond);
  define(p, name, kir_yield(&p->b, kir_load(&p->b, buf, at), other));
  kir_end(&p->b);
}

/* fold COMB(v, v) from v, v; returns the number of results */
static int fold(struct parser *p, enum kir_kind kind, enum kir_order order, int out[LIST_MAX]) {
  int in[LIST_MAX], from[LIST_MAX], fn = 0;
  struct token name = p->tok;
  int op = (int)op_named(p, take_name(p, "a combiner"), &fn), n = bracketed(p, in);
  int n_from = accept(p, "from") ? operands(p, from) : 0;
  if (op == KIR_CALL && n_from != n) bad(p, "%.*s: needs its neutral values", (int)name.n, name.s);
  if (op != KIR_CALL && (n != 1 || n_from))
    bad(p, "%.*s: combines 1 value, and knows where to start", (int)name.n, name.s);
  if (p->is_bad) return 0;
  if (op == KIR_CALL && kind == KIR_FOLD) kir_fold_fn(&p->b, fn, order, n, in, from, out);
  else if (op == KIR_CALL) kir_prefix_fn(&p->b, fn, n, in, from, out);
  else if (kind == KIR_FOLD) out[0] = kir_fold(&p->b, (enum kir_op)op, order, in[0]);
  else out[0] = kir_prefix(&p->b, (enum kir_op)op, in[0]);
  return n;
}

static void assign(struct parser *p) {
  struct token name[LIST_MAX];
  int n = 0, n_out, out[LIST_MAX];
  do name[n++] = take_name(p, "a statement");
  while (n < LIST_MAX && accept(p, ","));
  expect(p, "=");
  if (n == 1 && accept(p, "load")) {
    assign_load(p, name[0]);
    return;
  }
  if (accept(p, "fold")) n_out = fold(p, KIR_FOLD, KIR_PLAIN, out);
  else if (accept(p, "fold.row")) n_out = fold(p, KIR_FOLD, KIR_ROW, out);
  else if (accept(p, "fold.col")) n_out = fold(p, KIR_FOLD, KIR_COL, out);
  else if (accept(p, "prefix")) n_out = fold(p, KIR_PREFIX, KIR_PLAIN, out);
  else {
    struct token t = p->tok;
    if (t.n > 7 && !strncmp(t.s, "prefix.", 7)) bad(p, "prefix has one order");
    else if (t.kind != T_NAME) expected(p, "an instruction");
    advance(p);
    n_out = call(p, t, out);
  }
  if (n_out != n) bad(p, "%d names for %d values", n, n_out);
  for (int i = 0; i < n && !p->is_bad; i++) define(p, name[i], out[i]);
}

static const struct { const char *word; void (*read)(struct parser *); } statements[] = {
  { "if", if_stmt },       { "store", store_stmt }, { "carry", carry_stmt }, { "next", next_stmt },
  { "keep", keep_stmt },   { "check", check_stmt }, { "yield", yield_stmt }, { "local", local_stmt },
};

static void until_stmt(struct parser *p) { kir_until(&p->b, operand(p)); }

static void stmt(struct parser *p) {
  if (accept(p, "par")) loop_stmt(p, KIR_PAR);
  else if (accept(p, "serial")) loop_stmt(p, KIR_SERIAL);
  else if (accept(p, "lane")) loop_stmt(p, KIR_LANE);
  else if (accept(p, "until")) until_stmt(p);
  else {
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
      if (accept(p, statements[i].word)) {
        statements[i].read(p);
        return;
      }
    assign(p);
  }
}

/* { stmt* } of a block that is open; closes it */
static void block(struct parser *p) {
  expect(p, "{");
  while (!p->is_bad && !p->k->failed && !is(p, "}")) stmt(p);
  if (!p->k->failed) expect(p, "}");
  kir_end(&p->b);
}

/* ---- The head ------------------------------------------------------------------------------------------------------- */

static void sizes(struct parser *p) {
  do {
    struct token t = take_name(p, "a size");
    define(p, t, kir_size(p->k, NULL));
  } while (accept(p, ","));
}

static void args(struct parser *p) {
  do {
    weft_dtype dtype;
    struct token t = take_typed(p, &dtype);
    define(p, t, kir_arg(p->k, NULL, dtype));
  } while (accept(p, ","));
}

static void buffers(struct parser *p, enum kir_buf_kind kind) {
  do {
    weft_dtype dtype;
    struct kir_lin dims[LIST_MAX];
    struct token t = take_typed(p, &dtype);
    claim(p, t, 0);
    int rank = indices(p, dims);
    if (!p->is_bad) kir_buf(p->k, word_of(t).s, kind, dtype, rank, dims);
  } while (accept(p, ","));
}

static int table_data(struct parser *p, weft_dtype dtype, int64_t n, uint64_t *data) {
  for (int i = 0; i < n && !p->is_bad; i++) {
    weft_dtype d = dtype;
    bool is_true = is(p, "true");
    if (is_true || is(p, "false")) data[i] = is_true, d = WEFT_BOOL, advance(p);
    else data[i] = take_literal(p, &d);
    if (!p->is_bad && d != dtype) bad(p, "a %s in a table of %s", kir_dtype_name(d), kir_dtype_name(dtype));
    if (kir_width(d) == 4) data[i] = (uint32_t)data[i];
  }
  return (int)n;
}

static void table(struct parser *p) {
  weft_dtype dtype;
  struct kir_lin dims[LIST_MAX];
  struct token t = take_typed(p, &dtype);
  claim(p, t, 0);
  int rank = indices(p, dims);
  expect(p, "=");
  if (p->is_bad || p->k->failed) return;
  int64_t n = rank == 1 && dims[0].n == 1 && !dims[0].term[0].n ? dims[0].term[0].coef : 0;
  uint64_t *data = n > 0 && n <= 65536 ? arena_take(p->k->arena, (size_t)n * sizeof *data) : NULL;
  if (n <= 0 || n > 65536) bad(p, "a table has one axis of 1 to 65536 numbers");
  else if (!data) p->k->failed = true;
  else if (table_data(p, dtype, n, data) && !p->is_bad) kir_table(p->k, word_of(t).s, dtype, (int)n, data);
}

static int params(struct parser *p, struct token name[LIST_MAX], weft_dtype dtype[LIST_MAX]) {
  int n = 0;
  expect(p, "(");
  if (accept(p, ")")) return 0;
  do name[n] = take_typed(p, &dtype[n]), n++;
  while (n < LIST_MAX && accept(p, ","));
  if (is(p, ",")) bad(p, "more than %d parameters", LIST_MAX);
  expect(p, ")");
  return n;
}

static int result_dtypes(struct parser *p, weft_dtype dtype[LIST_MAX]) {
  int n = 0;
  expect(p, "->");
  do dtype[n++] = take_dtype(p);
  while (n < LIST_MAX && accept(p, ","));
  if (is(p, ",")) bad(p, "more than %d results", LIST_MAX);
  return n;
}

static void fn_body(struct parser *p, int fn, struct token name, int n_want, const weft_dtype want[]) {
  int v[LIST_MAX];
  expect(p, "{");
  while (!p->is_bad && !p->k->failed && !is(p, "return")) stmt(p);
  expect(p, "return");
  int n = operands(p, v);
  expect(p, "}");
  bool is_same = n == n_want;
  for (int i = 0; is_same && i < n; i++) is_same = p->k->vals[v[i]].dtype == want[i];
  if (!is_same) bad(p, "%.*s: results differ from the declared", (int)name.n, name.s);
  kir_fn_end(&p->b, fn, n, v);
}

static void function(struct parser *p) {
  struct token name = take_name(p, "a name"), param[LIST_MAX];
  weft_dtype dtype[LIST_MAX], want[LIST_MAX];
  claim(p, name, 0);
  int v[LIST_MAX], n = params(p, param, dtype), n_want = result_dtypes(p, want);
  if (p->is_bad) return;
  int fn = kir_fn_begin(&p->b, word_of(name).s, n, dtype, v);
  for (int i = 0; i < n; i++) define(p, param[i], v[i]);
  fn_body(p, fn, name, n_want, want);
}

static void head_or_stmt(struct parser *p) {
  if (accept(p, "size")) sizes(p);
  else if (accept(p, "arg")) args(p);
  else if (accept(p, "in")) buffers(p, KIR_IN);
  else if (accept(p, "out")) buffers(p, KIR_OUT);
  else if (accept(p, "inout")) buffers(p, KIR_INOUT);
  else if (accept(p, "table")) table(p);
  else if (accept(p, "fn")) function(p);
  else stmt(p);
}

static struct kir_kernel *kernel(struct parser *p) {
  expect(p, "kernel");
  struct token name = take_name(p, "a name");
  expect(p, "{");
  if (p->is_bad) return NULL;
  p->k = kir_new(word_of(name).s);
  if (p->k) kir_begin(&p->b, p->k);
  while (p->k && !p->is_bad && !p->k->failed && !is(p, "}")) head_or_stmt(p);
  if (!p->k) bad(p, "out of memory");
  else if (p->k->failed) bad(p, "%s", p->k->why);
  else expect(p, "}");
  if (!p->is_bad) return p->k;
  kir_free(p->k);
  return NULL;
}

int kir_parse(const char *text, struct kir_kernel **out, int max, struct text *why) {
  struct parser p = { .at = text, .line = 1, .why = why };
  int n = 0;
  advance(&p);
  while (!p.is_bad && p.tok.kind != T_END) {
    if (n == max) bad(&p, "more than %d kernels", max);
    struct kir_kernel *k = p.is_bad ? NULL : kernel(&p);
    if (k) out[n++] = k;
  }
  if (!p.is_bad) return n;
  while (n) kir_free(out[--n]);
  return -1;
}
