/* written.c -- from the language of written.h to PTX, in one pass: what a statement means is printed as it is read.
 *
 * Every value has a register of its own; ptxas finds out which ones can be shared. Of an `if` whose condition is a constant
 * the other side is read and not printed. */
#include "backend/cuda/written.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

enum written_type { BOOL, U32, S32, U64, S64, F32, F64, U8, S8, U16, S16, NO_TYPE };
static const struct { const char *name, *bits; char reg; int bytes; } types[] = {
  [BOOL] = { "bool", "pred", 'p', 1 }, [U32] = { "u32", "b32", 'r', 4 }, [S32] = { "s32", "b32", 'r', 4 },
  [U64] = { "u64", "b64", 'd', 8 }, [S64] = { "s64", "b64", 'd', 8 }, [F32] = { "f32", "f32", 'f', 4 },
  [F64] = { "f64", "f64", 'g', 8 }, [U8] = { "u8", "b32", 'r', 1 }, [S8] = { "s8", "b32", 'r', 1 },
  [U16] = { "u16", "b32", 'r', 2 }, [S16] = { "s16", "b32", 'r', 2 },
};

enum { NAMES = 160, WORD = 32, REGS = 5 };
static const char kinds[REGS + 1] = "prdfg";

/* A value: a constant, or a register. of: what an address is of, or NO_TYPE. */
struct written_value { enum written_type type, of; bool is_number; int64_t number; int reg; };

struct written_variable {
  char name[WORD];
  enum { CONSTANT, TYPE, VARIABLE, SHARED } kind;
  struct written_value v;      /* SHARED: of where it begins */
  int n;                       /* registers in a row */
};

struct writing {
  const char *s;
  struct text head, body, *out;
  int n_regs[REGS], n_labels, n_names, n_fixed; /* n_fixed: names that every entry has */
  struct written_variable name[NAMES];
  bool is_dead;
  const char *why;
  char entry[WORD];
};

static void wrong(struct writing *w, const char *why) { if (!w->why) w->why = why; }
/* Types that do not fit are an error, but not in text that is only read and never printed. */
static void mismatch(struct writing *w, const char *why) { if (!w->is_dead) wrong(w, why); }

/* ---- words ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static void skip(struct writing *w) { while (*w->s == ' ' || *w->s == '\n') w->s++; }

static bool accept(struct writing *w, const char *sign) {
  size_t n = strlen(sign);
  skip(w);
  if (strncmp(w->s, sign, n)) return false;
  if (is_letter(*sign) && (is_letter(w->s[n]) || is_digit(w->s[n]))) return false;
  return w->s += n, true;
}
static void expect(struct writing *w, const char *sign) { if (!accept(w, sign)) wrong(w, w->s); }

static bool word(struct writing *w, char to[WORD]) {
  int n = 0;
  skip(w);
  if (!is_letter(*w->s)) return false;
  while ((is_letter(*w->s) || is_digit(*w->s)) && n < WORD - 1) to[n++] = *w->s++;
  return to[n] = 0, true;
}

/* What counts a repetition hides a variable of its name. */
static struct written_variable *find(struct writing *w, const char *name) {
  struct written_variable *found = NULL;
  for (int i = 0; i < w->n_names; i++) {
    if (strcmp(w->name[i].name, name)) continue;
    found = &w->name[i];
    if (i >= w->n_fixed && found->kind == CONSTANT) break;
  }
  return found;
}

/* A place whose name was that of a repetition that is over is free again. */
static struct written_variable *add(struct writing *w, const char *name) {
  int at = w->n_fixed;
  while (at < w->n_names && w->name[at].name[0]) at++;
  if (at == NAMES) return wrong(w, "too many names"), &w->name[0];
  if (at == w->n_names) w->n_names++;
  struct written_variable *x = &w->name[at];
  *x = (struct written_variable){ .n = 1 };
  memcpy(x->name, name, strnlen(name, WORD - 1));
  return x;
}

static enum written_type type_called(struct writing *w, const char *name) {
  for (int t = 0; t < NO_TYPE; t++) if (!strcmp(types[t].name, name)) return (enum written_type)t;
  const struct written_variable *x = find(w, name);
  return x && x->kind == TYPE ? x->v.type : NO_TYPE;
}

/* A type where one stands, with * an address; NO_TYPE, and nothing is read: something else. */
static enum written_type type_here(struct writing *w, enum written_type *of) {
  const char *before = w->s;
  char name[WORD];
  enum written_type t = word(w, name) ? type_called(w, name) : NO_TYPE;
  skip(w);
  if (t == NO_TYPE || *w->s == '(') return w->s = before, NO_TYPE;
  *of = NO_TYPE;
  if (accept(w, "*")) *of = t, t = U64;
  else if (t >= U8) t = t == U8 || t == U16 ? U32 : S32;
  return t;
}

/* ---- printing ---- */

static void line(struct writing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(struct writing *w, const char *format, ...) {
  va_list list;
  if (w->is_dead) return;
  va_start(list, format);
  text_add(w->out, "  ");
  text_addv(w->out, format, list);
  text_add(w->out, ";\n");
  va_end(list);
}

static void label(struct writing *w, int n) { if (!w->is_dead) text_addf(w->out, "L%d:\n", n); }

static struct written_value fresh(struct writing *w, enum written_type t, int n) {
  int kind = (int)(strchr(kinds, types[t].reg) - kinds);
  struct written_value v = { .type = t, .of = NO_TYPE, .reg = w->n_regs[kind] };
  w->n_regs[kind] += n;
  return v;
}

struct operand_text { char s[40]; };

static struct operand_text shown(const struct written_value *v) {
  struct operand_text t;
  struct text x = { 0 };
  float f = (float)v->number;
  double d = (double)v->number;
  uint32_t f_bits;
  uint64_t d_bits;
  memcpy(&f_bits, &f, sizeof f), memcpy(&d_bits, &d, sizeof d);
  if (!v->is_number) text_addf(&x, "%%%c%d", types[v->type].reg, v->reg);
  else if (v->type == F32) text_addf(&x, "0f%08x", (unsigned)f_bits);
  else if (v->type == F64) text_addf(&x, "0d%016llx", (unsigned long long)d_bits);
  else if (v->type == U32) text_addf(&x, "%u", (unsigned)v->number);
  else if (v->type == S32) text_addf(&x, "%d", (int)v->number);
  else if (v->type == U64) text_addf(&x, "%llu", (unsigned long long)v->number);
  else text_addf(&x, "%lld", (long long)v->number);
  memset(t.s, 0, sizeof t.s);
  strncpy(t.s, text_of(&x), sizeof t.s - 1);
  text_free(&x);
  return t;
}
#define SHOW(v) (shown(&(v)).s)

static struct written_value number(int64_t n) {
  return (struct written_value){ .type = S64, .of = NO_TYPE, .is_number = true, .number = n };
}

static void as_type(struct written_value *v, enum written_type t) { if (v->is_number) v->type = t; }

/* In a register, if it is a constant: where PTX takes none. */
static void in_register(struct writing *w, struct written_value *v) {
  if (!v->is_number) return;
  struct written_value to = fresh(w, v->type, 1);
  if (v->type == BOOL) line(w, "setp.eq.u32 %s, %d, 1", SHOW(to), (int)(v->number != 0));
  else line(w, "mov.%s %s, %s", types[v->type].bits, SHOW(to), SHOW(*v));
  *v = to;
}

static void assign(struct writing *w, const struct written_value *to, struct written_value v) {
  as_type(&v, to->type);
  if (v.type != to->type) mismatch(w, "what is assigned has another type");
  if (v.type == BOOL) in_register(w, &v);
  line(w, "mov.%s %s, %s", types[to->type].bits, SHOW(*to), SHOW(v));
}

/* ---- memory ---- */

struct written_place { bool is_shared; enum written_type of; struct written_value at; int64_t offset; };

static struct written_value expression(struct writing *w);

/* base[index]; the index is between the brackets that follow. */
static struct written_place place_of(struct writing *w, const struct written_value *base, bool is_shared) {
  struct written_place p = { is_shared, base->of, *base, 0 };
  struct written_value i = expression(w);
  int bytes = types[base->of].bytes;
  expect(w, "]");
  if (i.is_number) return p.offset = i.number * bytes, p;
  p.at = fresh(w, U64, 1);
  if (i.type == U32 || i.type == S32) line(w, "mad.wide.%s %s, %s, %d, %s", types[i.type].name, SHOW(p.at), SHOW(i), bytes,
                                           SHOW(*base));
  else line(w, "mad.lo.u64 %s, %s, %d, %s", SHOW(p.at), SHOW(i), bytes, SHOW(*base));
  return p;
}

static struct written_value load(struct writing *w, const struct written_place *p) {
  enum written_type t = p->of < U8 ? p->of : p->of == U8 || p->of == U16 ? U32 : S32;
  struct written_value v = fresh(w, t, 1);
  line(w, "ld.%s.%s %s, [%s+%lld]", p->is_shared ? "shared" : "global", types[p->of].name, SHOW(v), SHOW(p->at),
       (long long)p->offset);
  return v;
}

static void store(struct writing *w, const struct written_place *p, struct written_value v) {
  enum written_type t = p->of < U8 ? p->of : p->of == U8 || p->of == U16 ? U32 : S32;
  as_type(&v, t);
  if (types[v.type].reg != types[t].reg) mismatch(w, "what is stored has another type");
  line(w, "st.%s.%s [%s+%lld], %s", p->is_shared ? "shared" : "global", types[p->of].name, SHOW(p->at), (long long)p->offset,
       SHOW(v));
}

/* ---- expressions ---- */

static struct written_value converted(struct writing *w, enum written_type t, struct written_value v) {
  bool from_float = v.type == F32 || v.type == F64, to_float = t == F32 || t == F64;
  if (v.is_number && v.type != BOOL) return v.type = t, v;
  struct written_value to = fresh(w, t, 1);
  if (v.type == BOOL) line(w, "selp.%s %s, 1, 0, %s", types[t].bits, SHOW(to), SHOW(v));
  else if (t == BOOL) line(w, "setp.ne.%s %s, %s, 0", types[v.type].name, SHOW(to), SHOW(v));
  else if (types[v.type].reg == types[t].reg) line(w, "mov.%s %s, %s", types[t].bits, SHOW(to), SHOW(v));
  else if (from_float && to_float && t == F64) line(w, "cvt.f64.f32 %s, %s", SHOW(to), SHOW(v));
  else line(w, "cvt.%s%s.%s %s, %s", to_float ? "rn." : from_float ? "rzi." : "", types[t].name, types[v.type].name,
            SHOW(to), SHOW(v));
  return to;
}

static struct written_value of_two(struct writing *w, const char *op, bool is_rounded, struct written_value a,
                                   struct written_value b) {
  as_type(&a, b.type), as_type(&b, a.type);
  if (a.type != b.type) mismatch(w, "operands of two types");
  struct written_value v = fresh(w, a.type, 1);
  bool is_float = a.type == F32 || a.type == F64;
  line(w, "%s%s.%s %s, %s, %s", op, is_rounded && is_float ? ".rn" : "", types[a.type].name, SHOW(v), SHOW(a), SHOW(b));
  return v;
}

static struct written_value in_bits(struct writing *w, const char *op, struct written_value a, struct written_value b) {
  as_type(&a, b.type), as_type(&b, a.type);
  if (a.type != b.type) mismatch(w, "operands of two types");
  if (a.type == BOOL) in_register(w, &a), in_register(w, &b);
  struct written_value v = fresh(w, a.type, 1);
  line(w, "%s.%s %s, %s, %s", op, types[a.type].bits, SHOW(v), SHOW(a), SHOW(b));
  return v;
}

static struct written_value shifted(struct writing *w, const char *op, struct written_value a, struct written_value b) {
  if (!b.is_number) b = converted(w, U32, b);
  as_type(&b, U32);
  if (a.is_number && a.type == S64) a.type = U32; /* u64(1) << k says so */
  struct written_value v = fresh(w, a.type, 1);
  line(w, "%s.%s %s, %s, %s", op, op[2] == 'l' ? types[a.type].bits : types[a.type].name, SHOW(v), SHOW(a), SHOW(b));
  return v;
}

static struct written_value compared(struct writing *w, const char *op, struct written_value a, struct written_value b) {
  as_type(&a, b.type), as_type(&b, a.type);
  if (a.type != b.type) mismatch(w, "operands of two types");
  struct written_value v = fresh(w, BOOL, 1);
  bool is_float = a.type == F32 || a.type == F64;
  in_register(w, &a);
  line(w, "setp.%s%s.%s %s, %s, %s", op, is_float && !strcmp(op, "ne") ? "u" : "", types[a.type].name, SHOW(v), SHOW(a), SHOW(b));
  return v;
}

enum binary_kind { SUM, FACTOR, DIVIDED, BITS, SHIFT, COMPARED, LOGIC };
static const struct { const char *sign, *op; int level; enum binary_kind kind; } operators[] = { /* longer signs first */
  { "<<", "shl", 8, SHIFT }, { ">>", "shr", 8, SHIFT }, { "<=", "le", 7, COMPARED }, { ">=", "ge", 7, COMPARED },
  { "==", "eq", 6, COMPARED }, { "!=", "ne", 6, COMPARED }, { "&&", "and", 2, LOGIC }, { "||", "or", 1, LOGIC },
  { "<", "lt", 7, COMPARED }, { ">", "gt", 7, COMPARED }, { "&", "and", 5, BITS }, { "^", "xor", 4, BITS }, { "|", "or", 3, BITS },
  { "+", "add", 9, SUM }, { "-", "sub", 9, SUM }, { "*", "mul", 10, FACTOR }, { "/", "div", 10, DIVIDED },
  { "%", "rem", 10, DIVIDED },
};

/* As instructions would: sums and products wrap around. */
static int64_t of_numbers(const char *s, int64_t a, int64_t b) {
  if (!strcmp(s, "<<")) return (int64_t)((uint64_t)a << b);
  if (!strcmp(s, ">>")) return a >> b;
  if (!strcmp(s, "<=")) return a <= b;
  if (!strcmp(s, ">=")) return a >= b;
  if (!strcmp(s, "==")) return a == b;
  if (!strcmp(s, "!=")) return a != b;
  if (!strcmp(s, "&&")) return a && b;
  if (!strcmp(s, "||")) return a || b;
  switch (*s) {
    case '<': return a < b;
    case '>': return a > b;
    case '&': return a & b;
    case '^': return a ^ b;
    case '|': return a | b;
    case '+': return (int64_t)((uint64_t)a + (uint64_t)b);
    case '-': return (int64_t)((uint64_t)a - (uint64_t)b);
    case '*': return (int64_t)((uint64_t)a * (uint64_t)b);
    case '/': return !b ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
    default: return !b || b == -1 ? 0 : a % b;
  }
}

/* p + i, of an address and a number of elements. */
static struct written_value moved(struct writing *w, struct written_value p, struct written_value i) {
  struct written_value v = fresh(w, U64, 1);
  int bytes = types[p.of].bytes;
  v.of = p.of;
  if (i.is_number) line(w, "add.u64 %s, %s, %lld", SHOW(v), SHOW(p), (long long)(i.number * bytes));
  else if (i.type == U32 || i.type == S32) line(w, "mad.wide.%s %s, %s, %d, %s", types[i.type].name, SHOW(v), SHOW(i), bytes,
                                                SHOW(p));
  else line(w, "mad.lo.u64 %s, %s, %d, %s", SHOW(v), SHOW(i), bytes, SHOW(p));
  return v;
}

static struct written_value combined(struct writing *w, int op, struct written_value a, struct written_value b) {
  const char *name = operators[op].op;
  if (a.is_number && b.is_number) {
    struct written_value v = number(of_numbers(operators[op].sign, a.number, b.number));
    if (operators[op].kind == COMPARED || operators[op].kind == LOGIC) v.type = BOOL;
    return v;
  }
  if (a.of != NO_TYPE && operators[op].kind == SUM) return moved(w, a, b);
  bool is_float = a.type == F32 || a.type == F64 || b.type == F32 || b.type == F64;
  switch (operators[op].kind) {
    case SUM: return of_two(w, name, true, a, b);
    case FACTOR: return of_two(w, is_float ? "mul" : "mul.lo", true, a, b);
    case DIVIDED: return of_two(w, name, true, a, b);
    case BITS: case LOGIC: return in_bits(w, name, a, b);
    case SHIFT: return shifted(w, name, a, b);
    case COMPARED: return compared(w, name, a, b);
  }
  return a;
}

static int operator_here(struct writing *w, int least) {
  skip(w);
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (!strncmp(w->s, operators[i].sign, strlen(operators[i].sign)))
      return operators[i].level >= least ? (w->s += strlen(operators[i].sign), (int)i) : -1;
  return -1;
}

static struct written_value argument(struct writing *w) {
  struct written_value v = expression(w);
  if (!accept(w, ",")) expect(w, ")");
  return v;
}

static struct written_value of_warp(struct writing *w, const char *how, const char *rest) {
  struct written_value x = argument(w), by = argument(w), v = fresh(w, x.type, 1);
  as_type(&by, U32);
  line(w, "shfl.sync.%s.b32 %s, %s, %s, %s, -1", how, SHOW(v), SHOW(x), SHOW(by), rest);
  return v;
}

static struct written_value atomic(struct writing *w, const char *how) {
  char name[WORD];
  struct written_variable *x = word(w, name) ? find(w, name) : NULL;
  if (!x) return wrong(w, "no such array"), number(0);
  expect(w, "[");
  struct written_place p = place_of(w, &x->v, x->kind == SHARED);
  expect(w, ",");
  struct written_value by = argument(w), v = fresh(w, p.of, 1);
  as_type(&by, p.of);
  line(w, "atom.%s.%s.%s %s, [%s+%lld], %s", p.is_shared ? "shared" : "global", how, types[p.of].name, SHOW(v), SHOW(p.at),
       (long long)p.offset,
       SHOW(by));
  return v;
}

static struct written_value of_bits(struct writing *w, enum written_type t) {
  struct written_value x = argument(w), v = fresh(w, t, 1);
  line(w, "mov.%s %s, %s", t == U32 || t == F32 ? "b32" : "b64", SHOW(v), SHOW(x));
  return v;
}

/* Functions, by name; is_known false: it is none. */
static struct written_value called(struct writing *w, const char *f, bool *is_known) {
  enum written_type t = type_called(w, f);
  *is_known = true;
  if (t != NO_TYPE) return converted(w, t >= U8 ? U32 : t, argument(w));
  if (!strcmp(f, "min") || !strcmp(f, "max")) {
    struct written_value a = argument(w), b = argument(w);
    return of_two(w, f, false, a, b);
  }
  if (!strcmp(f, "abs") || !strcmp(f, "sqrt") || !strcmp(f, "popc")) {
    struct written_value a = argument(w), v = fresh(w, *f == 'p' ? U32 : a.type, 1);
    line(w, "%s.%s %s, %s", *f == 's' ? "sqrt.rn" : f, *f == 'p' ? types[a.type].bits : types[a.type].name, SHOW(v), SHOW(a));
    return v;
  }
  if (!strcmp(f, "fma")) {
    struct written_value a = argument(w), b = argument(w), c = argument(w), v = fresh(w, a.type, 1);
    as_type(&b, a.type), as_type(&c, a.type);
    line(w, "fma.rn.%s %s, %s, %s, %s", types[a.type].name, SHOW(v), SHOW(a), SHOW(b), SHOW(c));
    return v;
  }
  if (!strcmp(f, "ballot")) {
    struct written_value a = argument(w), v = fresh(w, U32, 1);
    in_register(w, &a);
    line(w, "vote.sync.ballot.b32 %s, %s, -1", SHOW(v), SHOW(a));
    return v;
  }
  if (!strcmp(f, "shfl_up")) return of_warp(w, "up", "0");
  if (!strcmp(f, "shfl_down")) return of_warp(w, "down", "31");
  if (!strcmp(f, "shfl_xor")) return of_warp(w, "bfly", "31");
  if (!strcmp(f, "shfl")) return of_warp(w, "idx", "31");
  if (!strcmp(f, "atom_add")) return atomic(w, "add");
  if (!strcmp(f, "atom_min")) return atomic(w, "min");
  if (!strcmp(f, "as_u32")) return of_bits(w, U32);
  if (!strcmp(f, "as_f32")) return of_bits(w, F32);
  if (!strcmp(f, "as_u64")) return of_bits(w, U64);
  if (!strcmp(f, "as_f64")) return of_bits(w, F64);
  return *is_known = false, number(0);
}

static struct written_value special(struct writing *w, const char *name) {
  static const char *const words[][2] = { { "tid", "%tid.x" }, { "block", "%ctaid.x" }, { "blocks", "%nctaid.x" }, 
                                          { "lane", "%laneid" },
                                          { "grid_y", "%ctaid.y" }, { "threads", "%ntid.x" } };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(words[i][0], name)) continue;
    struct written_value v = fresh(w, U32, 1);
    line(w, "mov.u32 %s, %s", SHOW(v), words[i][1]);
    return v;
  }
  return wrong(w, "a name that means nothing"), number(0);
}

static struct written_value element(struct writing *w, const struct written_variable *x) {
  if (x->kind == SHARED || x->v.of != NO_TYPE) {
    struct written_place p = place_of(w, &x->v, x->kind == SHARED);
    return load(w, &p);
  }
  struct written_value i = expression(w), v = x->v;
  expect(w, "]");
  if (w->is_dead) return v;
  if (!i.is_number || i.number < 0 || i.number >= x->n) mismatch(w, "an index of registers that is no constant among them");
  return v.reg += (int)i.number, v;
}

static struct written_value named(struct writing *w) {
  char name[WORD];
  bool is_known;
  word(w, name);
  if (accept(w, "(")) {
    struct written_value v = called(w, name, &is_known);
    if (!is_known) wrong(w, "no such function");
    return v;
  }
  const struct written_variable *x = find(w, name);
  if (!x) return special(w, name);
  return accept(w, "[") ? element(w, x) : x->v;
}

static struct written_value primary(struct writing *w) {
  skip(w);
  if (accept(w, "(")) {
    struct written_value v = expression(w);
    return expect(w, ")"), v;
  }
  if (accept(w, "-")) return combined(w, 14, number(0), primary(w));
  if (accept(w, "!")) {
    struct written_value a = primary(w), v = fresh(w, BOOL, 1);
    if (a.is_number) return a.number = !a.number, a;
    line(w, "not.pred %s, %s", SHOW(v), SHOW(a));
    return v;
  }
  if (accept(w, "~")) {
    struct written_value a = primary(w), v = fresh(w, a.type, 1);
    if (a.is_number) return a.number = ~a.number, a;
    line(w, "not.%s %s, %s", types[a.type].bits, SHOW(v), SHOW(a));
    return v;
  }
  if (!is_digit(*w->s)) return named(w);
  char *end;
  struct written_value v = number((int64_t)strtoull(w->s, &end, 0));
  return w->s = end, v;
}

static struct written_value binary(struct writing *w, int least) {
  struct written_value a = primary(w);
  for (int op; !w->why && (op = operator_here(w, least)) >= 0;) a = combined(w, op, a, binary(w, operators[op].level + 1));
  return a;
}

static struct written_value expression(struct writing *w) {
  struct written_value c = binary(w, 1);
  if (!accept(w, "?")) return c;
  struct written_value a = expression(w);
  expect(w, ":");
  struct written_value b = expression(w);
  if (c.is_number) return c.number ? a : b;
  as_type(&a, b.type), as_type(&b, a.type);
  if (a.type != b.type) mismatch(w, "operands of two types");
  if (a.type == BOOL) {
    struct written_value not_c = fresh(w, BOOL, 1);
    line(w, "not.pred %s, %s", SHOW(not_c), SHOW(c));
    return in_bits(w, "or", in_bits(w, "and", a, c), in_bits(w, "and", b, not_c));
  }
  struct written_value v = fresh(w, a.type, 1);
  line(w, "selp.%s %s, %s, %s, %s", types[a.type].bits, SHOW(v), SHOW(a), SHOW(b), SHOW(c));
  return v;
}

/* ---- statements ---- */

static void statement(struct writing *w);

static void group(struct writing *w) {
  expect(w, "{");
  while (!w->why && !accept(w, "}")) statement(w);
}

static void group_unless(struct writing *w, bool is_dead) {
  bool before = w->is_dead;
  w->is_dead |= is_dead;
  group(w);
  w->is_dead = before;
}

static void choice(struct writing *w) {
  expect(w, "(");
  struct written_value c = expression(w);
  expect(w, ")");
  int other = w->n_labels++, end = w->n_labels++;
  if (!c.is_number) line(w, "@!%s bra L%d", SHOW(c), other);
  group_unless(w, c.is_number && !c.number);
  bool has_other = accept(w, "else");
  if (has_other && !c.is_number) line(w, "bra L%d", end);
  if (!c.is_number) label(w, other);
  if (has_other && accept(w, "if")) {
    bool before = w->is_dead;
    w->is_dead |= c.is_number && c.number;
    choice(w);
    w->is_dead = before;
  } else if (has_other) group_unless(w, c.is_number && c.number);
  if (has_other && !c.is_number) label(w, end);
}

static void rounds(struct writing *w) {
  int top = w->n_labels++, end = w->n_labels++;
  label(w, top);
  expect(w, "(");
  struct written_value c = expression(w);
  expect(w, ")");
  in_register(w, &c);
  line(w, "@!%s bra L%d", SHOW(c), end);
  group(w);
  line(w, "bra L%d", top);
  label(w, end);
}

static void repeated(struct writing *w) {
  char name[WORD];
  expect(w, "(");
  if (!word(w, name)) wrong(w, "a name is expected");
  expect(w, ",");
  struct written_value n = expression(w);
  expect(w, ")");
  if (!n.is_number) wrong(w, "repeated so often as no constant says");
  const char *from = w->s;
  struct written_variable *x = add(w, name);
  x->kind = CONSTANT;
  for (int64_t k = 0; !w->why && (k < n.number || !k); k++) {
    x->v = number(k);
    w->s = from;
    group_unless(w, k >= n.number);
  }
  x->name[0] = 0; /* what the body has declared stays */
}

static void shared_array(struct writing *w) {
  char name[WORD];
  enum written_type of, t = type_here(w, &of);
  if (t == NO_TYPE || !word(w, name)) wrong(w, "an array in shared memory is expected");
  expect(w, "[");
  struct written_value n = expression(w);
  expect(w, "]"), expect(w, ";");
  if (!n.is_number) wrong(w, "an array in shared memory has a constant length");
  struct written_variable *x = add(w, name);
  x->kind = SHARED, x->v = fresh(w, U64, 1), x->v.of = t;
  if (w->is_dead) return;
  text_addf(&w->head, ".shared .align 16 .%s %s_%s[%lld];\n", types[t].bits[0] == 'p' ? "b8" : types[t].bits, w->entry, name,
            (long long)n.number);
  line(w, "mov.u64 %s, %s_%s", SHOW(x->v), w->entry, name);
}

static void declaration(struct writing *w, enum written_type t, enum written_type of) {
  char name[WORD];
  if (!word(w, name)) { wrong(w, "a name is expected"); return; }
  struct written_variable *x = find(w, name);
  if (!x || x->kind != VARIABLE) {
    int n = 1;
    if (accept(w, "[")) {
      struct written_value count = expression(w);
      n = (int)count.number;
      if (!count.is_number || n < 1) wrong(w, "so many registers as no constant says");
      expect(w, "]");
    }
    x = add(w, name);
    x->kind = VARIABLE, x->v = fresh(w, t, n), x->v.of = of, x->n = n;
  } else if (accept(w, "[")) expression(w), expect(w, "]");
  if (x->v.type != t || x->v.of != of) mismatch(w, "declared again as something else");
  struct written_value to = x->v;
  if (accept(w, "=")) assign(w, &to, expression(w));
  expect(w, ";");
}

/* name = .. or name[..] = .. */
static void assignment(struct writing *w) {
  char name[WORD];
  const char *before = w->s;
  struct written_variable *x = word(w, name) ? find(w, name) : NULL;
  if (!x) { /* a call whose value nobody wants */
    w->s = before;
    expression(w), expect(w, ";");
    return;
  }
  struct written_value to = x->v;
  if (accept(w, "[")) {
    if (x->kind == SHARED || x->v.of != NO_TYPE) {
      struct written_place p = place_of(w, &to, x->kind == SHARED);
      expect(w, "=");
      store(w, &p, expression(w));
      expect(w, ";");
      return;
    }
    to = element(w, x);
  }
  expect(w, "=");
  assign(w, &to, expression(w));
  expect(w, ";");
}

static void statement(struct writing *w) {
  enum written_type of, t;
  skip(w);
  if (!*w->s) { wrong(w, "it ends too soon"); return; }
  if (accept(w, "if")) { choice(w); return; }
  if (accept(w, "while")) { rounds(w); return; }
  if (accept(w, "repeat")) { repeated(w); return; }
  if (accept(w, "shared")) { shared_array(w); return; }
  if (accept(w, "bar")) { line(w, "bar.sync 0"), expect(w, ";"); return; }
  if (accept(w, "warp")) { line(w, "bar.warp.sync -1"), expect(w, ";"); return; }
  if (accept(w, "return")) { line(w, "ret"), expect(w, ";"); return; }
  if ((t = type_here(w, &of)) != NO_TYPE) { declaration(w, t, of); return; }
  assignment(w);
}

static void parameters(struct writing *w, struct text *list) {
  enum written_type of, t;
  char name[WORD];
  expect(w, "(");
  for (int n = 0; !w->why && !accept(w, ")"); n++) {
    if ((t = type_here(w, &of)) == NO_TYPE || !word(w, name)) { wrong(w, "a parameter is expected"); return; }
    struct written_variable *x = add(w, name);
    x->kind = VARIABLE, x->v = fresh(w, t, 1), x->v.of = of;
    text_addf(list, "%s.param .%s %s_%s", n ? ", " : "", types[t].name, w->entry, name);
    line(w, "ld.param.%s %s, [%s_%s]", types[t].name, SHOW(x->v), w->entry, name);
    if (of != NO_TYPE) line(w, "cvta.to.global.u64 %s, %s", SHOW(x->v), SHOW(x->v));
    accept(w, ",");
  }
}

static void registers(struct writing *w, struct text *ptx) {
  static const char *const of[REGS] = { "pred", "b32", "b64", "f32", "f64" };
  for (int k = 0; k < REGS; k++) if (w->n_regs[k]) text_addf(ptx, "  .reg .%s %%%c<%d>;\n", of[k], kinds[k], w->n_regs[k]);
}

static void entry(struct writing *w, struct text *ptx) {
  struct text list = { 0 };
  w->head = w->body = (struct text){ 0 };
  w->out = &w->body;
  w->n_names = w->n_fixed, w->n_labels = 0;
  memset(w->n_regs, 0, sizeof w->n_regs);
  if (!word(w, w->entry)) wrong(w, "an entry has a name");
  parameters(w, &list);
  struct written_value most = accept(w, "of") ? expression(w) : number(0);
  group(w);
  line(w, "ret");
  text_add(ptx, text_of(&w->head));
  text_addf(ptx, ".visible .entry %s(%s)\n", w->entry, text_of(&list));
  if (most.number) text_addf(ptx, ".maxntid %d\n", (int)most.number);
  text_add(ptx, "{\n");
  registers(w, ptx);
  text_add(ptx, text_of(&w->body));
  text_add(ptx, "}\n\n");
  if (list.failed || w->head.failed || w->body.failed) wrong(w, "");
  text_free(&list), text_free(&w->head), text_free(&w->body);
}

bool written_print(const char *text, const struct written_name given[], struct text *ptx, const char **why) {
  static const char none[] = "";
  struct writing *w = mem_alloc(sizeof *w);
  if (!w) return *why = none, false;
  w->s = text;
  for (; given && given->name; given++) {
    struct written_variable *x = add(w, given->name);
    x->kind = given->type ? TYPE : CONSTANT;
    x->v = number(given->number);
    if (given->type) x->v.type = type_called(w, given->type);
  }
  w->n_fixed = w->n_names;
  text_add(ptx, ".version 7.0\n.target sm_80\n.address_size 64\n\n");
  while (!w->why && (skip(w), *w->s)) expect(w, "entry"), entry(w, ptx);
  if (!w->why && ptx->failed) w->why = none;
  *why = w->why;
  bool ok = !w->why;
  mem_free(w);
  return ok;
}
