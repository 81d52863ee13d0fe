/* print.c -- a kernel as text: one statement a line, one value a statement, an if region of one load or store as a
 * guard. The text is part of the key of a compiled kernel, so it depends on nothing but the kernel's meaning and its
 * names, and printing is fast: everything goes through one small buffer. */
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "kernel/kir.h"

enum { FEW_VALS = 512, BUFFER_BYTES = 1024 };

struct kir_printer {
  const struct kir_kernel *k;
  struct text *to;
  int *number, n_temps; /* by value: the number of a temporary, 0: not printed yet */
  int depth;
  size_t n;
  char buffer[BUFFER_BYTES];
};

static void flush(struct kir_printer *p) {
  text_bytes(p->to, p->buffer, p->n);
  p->n = 0;
}

static inline void put(struct kir_printer *p, const char *s) {
  for (; *s; s++) {
    if (p->n == BUFFER_BYTES) flush(p);
    p->buffer[p->n++] = *s;
  }
}

static void put_number(struct kir_printer *p, uint64_t x) {
  char digits[24];
  char *d = digits + sizeof digits - 1;
  *d = 0;
  do *--d = (char)('0' + x % 10);
  while (x /= 10);
  put(p, d);
}

static void put_hex(struct kir_printer *p, uint64_t x, int n_digits) {
  char s[17] = { 0 };
  for (int i = n_digits; i--; x >>= 4) s[i] = "0123456789abcdef"[x & 15];
  put(p, s);
}

static void put_line(struct kir_printer *p) {
  put(p, "\n");
  for (int i = 0; i < p->depth; i++) put(p, "  ");
}

/* ---- Values and indices --------------------------------------------------------------------------------------------- */

static void put_literal(struct kir_printer *p, weft_dtype dtype, uint64_t bits) {
  bool is_negative = kir_is_signed(dtype) && bits >> (8 * kir_width(dtype) - 1);
  switch ((int)dtype) {
  case WEFT_F32: put(p, "0f"), put_hex(p, bits, 8); return;
  case WEFT_F64: put(p, "0d"), put_hex(p, bits, 16); return;
  case WEFT_BOOL: put(p, bits ? "true" : "false"); return;
  }
  if (is_negative) put(p, "-");
  put_number(p, !is_negative ? bits : dtype == WEFT_I32 ? (uint32_t)-bits : -bits);
  if (dtype != WEFT_I64) put(p, ":"), put(p, kir_dtype_name(dtype));
}

static int number_of(struct kir_printer *p, int v) {
  if (!p->number[v]) p->number[v] = ++p->n_temps;
  return p->number[v];
}

static void put_value(struct kir_printer *p, int v) {
  const struct kir_val *x = &p->k->vals[v];
  if (x->kind == KIR_LIT) put_literal(p, (weft_dtype)x->dtype, x->bits);
  else if (x->name) put(p, x->name);
  else put(p, "%"), put_number(p, (uint64_t)number_of(p, v));
}

static void put_values(struct kir_printer *p, int n, const int v[]) {
  for (int i = 0; i < n; i++) {
    if (i) put(p, ", ");
    put_value(p, v[i]);
  }
}

/* The order of factors and terms in print must not depend on the order in which values were made: a text read back has
 * other indices. In a product axes come first, then results, args, sizes. */
static int before(struct kir_printer *p, int a, int b) {
  static const int rank[] = { [KIR_AXIS] = 0, [KIR_RESULT] = 1, [KIR_ARG] = 2, [KIR_SIZE] = 3, [KIR_LIT] = 4 };
  const struct kir_val *x = &p->k->vals[a], *y = &p->k->vals[b];
  if (x->kind != y->kind) return rank[x->kind] - rank[y->kind];
  if (!x->name != !y->name) return x->name ? -1 : 1;
  return x->name ? strcmp(x->name, y->name) : number_of(p, a) - number_of(p, b);
}

static struct kir_term in_print_order(struct kir_printer *p, struct kir_term t) {
  for (int i = 1; i < t.n; i++)
    for (int j = i; j && before(p, t.val[j], t.val[j - 1]) < 0; j--) {
      int swap = t.val[j];
      t.val[j] = t.val[j - 1];
      t.val[j - 1] = swap;
    }
  return t;
}

/* i*C+c, N-i-1, 1-p: what is added before what is taken away, products before names before numbers. */
static int term_before(struct kir_printer *p, const struct kir_term *a, const struct kir_term *b) {
  if ((a->coef < 0) != (b->coef < 0)) return a->coef < 0 ? 1 : -1;
  if (a->n != b->n) return b->n - a->n;
  int64_t x = a->coef < 0 ? a->coef : -a->coef, y = b->coef < 0 ? b->coef : -b->coef;
  if (x != y) return x < y ? -1 : 1;
  for (int i = 0; i < a->n; i++) {
    int c = before(p, b->val[i], a->val[i]); /* sizes first: A+j */
    if (p->k->vals[a->val[i]].kind == p->k->vals[b->val[i]].kind) c = -c;
    if (c) return c;
  }
  return 0;
}

static void put_term(struct kir_printer *p, const struct kir_term *t, bool is_first) {
  uint64_t size = t->coef < 0 ? -(uint64_t)t->coef : (uint64_t)t->coef;
  if (t->coef < 0 || !is_first) put(p, t->coef < 0 ? "-" : "+");
  if (size != 1 || !t->n) put_number(p, size);
  for (int i = 0; i < t->n; i++) {
    if (i || size != 1) put(p, "*");
    put_value(p, t->val[i]);
  }
}

static void put_lin(struct kir_printer *p, const struct kir_lin *l) {
  struct kir_term t[KIR_TERMS];
  for (int i = 0; i < l->n; i++) {
    struct kir_term x = in_print_order(p, l->term[i]);
    int j = i;
    for (; j && term_before(p, &x, &t[j - 1]) < 0; j--) t[j] = t[j - 1];
    t[j] = x;
  }
  for (int i = 0; i < l->n; i++) put_term(p, &t[i], !i);
  if (!l->n) put(p, "0");
}

static void put_at(struct kir_printer *p, const char *name, int n, const struct kir_lin at[]) {
  put(p, name);
  put(p, "[");
  for (int i = 0; i < n; i++) {
    if (i) put(p, ",");
    put_lin(p, &at[i]);
  }
  put(p, "]");
}

/* ---- Statements ----------------------------------------------------------------------------------------------------- */

static void put_op(struct kir_printer *p, const struct kir_stmt *s) {
  put_values(p, s->n_out, s->out);
  put(p, " = ");
  put(p, s->op == KIR_CALL ? p->k->fns[s->fn].name : kir_rows[s->op].name);
  if (s->op == KIR_CAST || s->op == KIR_BITS) put(p, "."), put(p, kir_dtype_name((weft_dtype)s->dtype));
  put(p, "(");
  put_values(p, s->n_in, s->in);
  put(p, ")");
}

static void put_load(struct kir_printer *p, const struct kir_stmt *s, int out) {
  put_value(p, out);
  put(p, " = load ");
  put_at(p, p->k->bufs[s->buf].name, s->n_at, s->at);
}

static void put_store(struct kir_printer *p, const struct kir_stmt *s) {
  put(p, "store ");
  put_at(p, p->k->bufs[s->buf].name, s->n_at, s->at);
  if (s->op != KIR_SET) put(p, " "), put(p, kir_rows[s->op].name);
  put(p, " = ");
  put_value(p, s->in[0]);
}

static void put_fold(struct kir_printer *p, const struct kir_stmt *s) {
  static const char *const order[] = { [KIR_PLAIN] = " ", [KIR_ROW] = ".row ", [KIR_COL] = ".col " };
  put_values(p, s->n_out, s->out);
  put(p, s->kind == KIR_FOLD ? " = fold" : " = prefix");
  put(p, order[s->order]);
  put(p, s->op == KIR_CALL ? p->k->fns[s->fn].name : kir_rows[s->op].name);
  put(p, "(");
  put_values(p, s->n_in, s->in);
  put(p, ")");
  if (s->n_from) put(p, " from "), put_values(p, s->n_from, s->from);
}

static void put_next(struct kir_printer *p, const struct kir_stmt *s) {
  put(p, "next ");
  for (int i = 0; i < s->n_in; i++) {
    if (i) put(p, ", ");
    put_value(p, s->out[i]);
    put(p, " = ");
    put_value(p, s->in[i]);
  }
}

static void put_two(struct kir_printer *p, const char *word, int a, const char *between, int b) {
  put(p, word);
  put_value(p, a);
  put(p, between);
  put_value(p, b);
}

static bool is_number_0(const struct kir_printer *p, int v) { return p->k->vals[v].kind == KIR_LIT && !p->k->vals[v].bits; }

static void put_check(struct kir_printer *p, const struct kir_stmt *s) {
  put(p, "check ");
  put_value(p, s->in[0]);
  put(p, " at ");
  if (s->n_at) put_lin(p, &s->at[0]);
  else put_value(p, s->in[2]);
  if (!is_number_0(p, s->in[1])) put(p, " of "), put_value(p, s->in[1]);
}

static void put_yield(struct kir_printer *p, const struct kir_stmt *s) {
  put_two(p, "yield ", s->out[0], " = ", s->in[0]);
  put(p, " else ");
  put_value(p, s->in[1]);
}

static void put_buf(struct kir_printer *p, const struct kir_buf *b) {
  put(p, b->name);
  put(p, ":");
  put_at(p, kir_dtype_name((weft_dtype)b->dtype), b->rank, b->dims);
}

static void put_extent(struct kir_printer *p, const struct kir_stmt *s) {
  if (s->extent == KIR_BLOCK) put(p, "block "), put_value(p, s->block_of);
  if (s->extent == KIR_N) put_lin(p, &s->at[0]);
  if (s->extent != KIR_BLOCKS) return;
  put(p, "blocks(");
  put_lin(p, &s->at[0]);
  put(p, ", ");
  put_lin(p, &s->at[1]);
  put(p, ")");
}

static void put_loop(struct kir_printer *p, const struct kir_stmt *s) {
  put(p, s->kind == KIR_PAR ? "par " : s->kind == KIR_SERIAL ? "serial " : "lane ");
  put_value(p, s->var);
  put(p, " in ");
  put_extent(p, s);
  for (int i = 0; i < s->n_private; i++) {
    put(p, i ? ", " : " private ");
    put(p, p->k->bufs[s->private[i].buf].name);
    put(p, " ");
    put(p, kir_rows[s->private[i].op].name);
  }
}

static bool put_guarded(struct kir_printer *p, const struct kir_stmt *s) {
  const struct kir_stmt *a = s->body.first, *b = a ? a->next : NULL;
  if (a && a->kind == KIR_STORE && !b) {
    put_store(p, a);
    put(p, " if ");
    put_value(p, s->in[0]);
    return true;
  }
  if (!b || b->next || a->kind != KIR_LOAD || b->kind != KIR_YIELD || b->in[0] != a->out[0]) return false;
  put_load(p, a, b->out[0]);
  put_two(p, " if ", s->in[0], " else ", b->in[1]);
  return true;
}

static void put_block(struct kir_printer *p, const struct kir_block *);

static void put_body(struct kir_printer *p, const struct kir_stmt *s) {
  put(p, " {");
  put_block(p, &s->body);
  put_line(p);
  put(p, "}");
}

static void put_stmt(struct kir_printer *p, const struct kir_stmt *s) {
  switch ((enum kir_kind)s->kind) {
  case KIR_OP: put_op(p, s); break;
  case KIR_LOAD: put_load(p, s, s->out[0]); break;
  case KIR_STORE: put_store(p, s); break;
  case KIR_PAR: case KIR_SERIAL: case KIR_LANE: put_loop(p, s), put_body(p, s); break;
  case KIR_IF: if (!put_guarded(p, s)) put(p, "if "), put_value(p, s->in[0]), put_body(p, s); break;
  case KIR_YIELD: put_yield(p, s); break;
  case KIR_CARRY: put_two(p, "carry ", s->out[0], " = ", s->in[0]); break;
  case KIR_NEXT: put_next(p, s); break;
  case KIR_UNTIL: put(p, "until "), put_value(p, s->in[0]); break;
  case KIR_FOLD: case KIR_PREFIX: put_fold(p, s); break;
  case KIR_KEEP: put(p, "keep "), put_values(p, s->n_in, s->in); break;
  case KIR_LOCALS: put(p, "local "), put_buf(p, &p->k->bufs[s->buf]); break;
  case KIR_CHECK: put_check(p, s); break;
  case KIR_KINDS: break;
  }
}

static void put_block(struct kir_printer *p, const struct kir_block *b) {
  p->depth++;
  for (const struct kir_stmt *s = b->first; s; s = s->next) put_line(p), put_stmt(p, s);
  p->depth--;
}

/* ---- The head ------------------------------------------------------------------------------------------------------- */

static void put_table(struct kir_printer *p, const struct kir_buf *b) {
  put(p, " =");
  for (int i = 0; i < b->n_data; i++) put(p, " "), put_literal(p, (weft_dtype)b->dtype, b->data[i]);
}

static void put_bufs(struct kir_printer *p) {
  static const char *const word[] = { "in ", "out ", "inout ", "table ", "" };
  int kind = -1; /* buffers of one kind that follow one another share a line; tables do not */
  for (int i = 0; i < p->k->n_bufs; i++) {
    const struct kir_buf *b = &p->k->bufs[i];
    if (b->kind == KIR_LOCAL) continue;
    if (b->kind == kind) put(p, ", ");
    else put_line(p), put(p, word[b->kind]);
    put_buf(p, b);
    if (b->kind == KIR_TABLE) put_table(p, b);
    kind = b->kind == KIR_TABLE ? -1 : b->kind;
  }
}

static void put_typed(struct kir_printer *p, int v) {
  put_value(p, v);
  put(p, ":");
  put(p, kir_dtype_name((weft_dtype)p->k->vals[v].dtype));
}

static void put_fn(struct kir_printer *p, const struct kir_fn *f) {
  put_line(p);
  put(p, "fn ");
  put(p, f->name);
  for (int i = 0; i < f->n_param; i++) put(p, i ? ", " : "("), put_typed(p, f->param[i]);
  put(p, f->n_param ? ") ->" : "() ->");
  for (int i = 0; i < f->n_result; i++)
    put(p, i ? ", " : " "), put(p, kir_dtype_name((weft_dtype)p->k->vals[f->result[i]].dtype));
  put(p, " {");
  put_block(p, &f->body);
  p->depth++;
  put_line(p);
  p->depth--;
  put(p, "return ");
  put_values(p, f->n_result, f->result);
  put_line(p);
  put(p, "}");
}

static void put_kernel(struct kir_printer *p) {
  const struct kir_kernel *k = p->k;
  put(p, "kernel ");
  put(p, k->name);
  put(p, " {");
  p->depth = 1;
  if (k->n_sizes) put_line(p), put(p, "size "), put_values(p, k->n_sizes, k->sizes);
  if (k->n_args) put_line(p), put(p, "arg ");
  for (int i = 0; i < k->n_args; i++) put(p, i ? ", " : ""), put_typed(p, k->args[i]);
  put_bufs(p);
  for (int i = 0; i < k->n_fns; i++) put_fn(p, &k->fns[i]);
  p->depth = 0;
  put_block(p, &k->body);
  put(p, "\n}\n");
  flush(p);
}

void kir_print(const struct kir_kernel *k, struct text *to) {
  int few[FEW_VALS];
  bool is_large = k->n_vals > FEW_VALS;
  int *number = k->failed ? NULL : is_large ? mem_alloc((size_t)k->n_vals * sizeof *number) : few;
  if (!number) {
    to->failed = true;
    return;
  }
  if (!is_large) memset(few, 0, (size_t)k->n_vals * sizeof *few);
  struct kir_printer p;
  p.k = k, p.to = to, p.number = number, p.n_temps = 0, p.depth = 0, p.n = 0;
  put_kernel(&p);
  if (is_large) mem_free(number);
}
