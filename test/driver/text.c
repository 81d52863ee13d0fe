/* text.c -- reads a PTX module. Registers are places by their name; scopes inside a body share them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"

enum { MOST = 128 }; /* registers of a list */
struct names { char **name; int n, room, *slot; }; /* slot: by hash, 1 + the place; 0: none */

/* Of a word like ld.global.v4.f32: all that it says; whether its first operand is read; whether its operands may be in memory. */
struct meaning { struct instruction x; bool stores, touches; };

struct reader {
  const char *s, *counted;   /* counted: lines up to there */
  int line;
  char *why;
  size_t room;
  struct module *m;
  struct entry *e;
  struct names reg, label, param;
  struct names said;         /* words that instructions begin with, and what they mean: */
  struct meaning *meanings;
  bool *is_pred;             /* by register */
  int n_typed;
  int *label_at;
  struct shared { char name[100]; size_t at, bytes; int named_by; } *shared; /* named_by: number of the entry, from 1 on */
  int n_shared;
};

static void *grown(void *p, int n, size_t size) { return n & (n - 1) ? p : realloc(p, (size_t)(n ? 2 * n : 1) * size); }
#define ADD(list, n, x) ((list) = grown((list), (n), sizeof *(list)), (list)[(n)++] = (x))

static int line_of(struct reader *r) {
  for (; r->counted < r->s; r->counted++) r->line += *r->counted == '\n';
  return r->line;
}

static void wrong(struct reader *r, const char *what, const char *which) {
  if (!*r->why) snprintf(r->why, r->room, "line %d: %s: %.60s", line_of(r), what, which);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void skip(struct reader *r) {
  for (;;) {
    while (is_space(*r->s)) r->s++;
    if (r->s[0] != '/' || r->s[1] != '/') return;
    while (*r->s && *r->s != '\n') r->s++;
  }
}

/* Two colons stand inside a word: shared::cta. */
static bool goes_on(const char *s) {
  char c = *s;
  return isalnum((unsigned char)c) || c == '$' || c == '%' || c == '_' || c == '.' || (c == ':' && (s[1] == ':' || s[-1] == ':'));
}

/* A word with its dots, or one other character. */
static bool word(struct reader *r, char w[200]) {
  skip(r);
  size_t n = 0;
  bool is_word = isalnum((unsigned char)*r->s) || strchr("$%_.-", *r->s);
  if (!*r->s) return w[0] = 0, false;
  do w[n++] = *r->s++;
  while (is_word && n < 199 && goes_on(r->s));
  w[n] = 0;
  return true;
}

static bool accept(struct reader *r, char c) {
  skip(r);
  return *r->s == c ? r->s++, true : false;
}
static void expect(struct reader *r, char c) {
  if (!accept(r, c)) wrong(r, "something else is expected before", r->s);
}

/* ---- Names ---- */

/* Where the name is, or could be, in the table. */
static int *slot_of(struct names *x, const char *name) {
  uint32_t h = 2166136261u;
  for (const char *s = name; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  int i = (int)(h % (uint32_t)x->room);
  while (x->slot[i] && strcmp(x->name[x->slot[i] - 1], name)) i = (i + 1) % x->room;
  return &x->slot[i];
}

static int find(struct names *x, const char *name) { return x->room ? *slot_of(x, name) - 1 : -1; }

static int place(struct names *x, const char *name) {
  if (2 * x->n >= x->room) {
    x->room = 4 * x->n + 64;
    free(x->slot);
    x->slot = calloc((size_t)x->room, sizeof *x->slot);
    for (int i = 0; i < x->n; i++) *slot_of(x, x->name[i]) = i + 1;
  }
  int *slot = slot_of(x, name);
  if (*slot) return *slot - 1;
  ADD(x->name, x->n, strdup(name));
  *slot = x->n;
  return x->n - 1;
}

static enum type type_of(const char *s) {
  static const char *const names[] = { "", "pred", "u8", "s8", "b8", "u16", "s16", "b16", "f16", "u32", "s32", "b32", "f32", "u64",
                                       "s64", "b64", "f64" };
  for (int t = T_PRED; t <= T_F64; t++) if (s[0] == names[t][0] && !strcmp(s, names[t])) return (enum type)t;
  return T_NONE;
}

static bool special(const char *w, struct arg *a) {
  if (w[0] != '%' || !strchr("tncl", w[1])) return false;
  static const char *const names[] = { "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y",
                                       "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%nsmid" };
  for (int i = 0; i <= NSMID; i++) if (!strcmp(w, names[i])) return *a = (struct arg){ ARG_SPECIAL, 0, (uint64_t)i }, true;
  return false;
}

static uint64_t number(const char *w) {
  if (w[0] == '0' && (w[1] == 'f' || w[1] == 'd') && strlen(w) > 8) return strtoull(w + 2, NULL, 16);
  return w[0] == '-' ? (uint64_t)strtoll(w, NULL, 0) : strtoull(w, NULL, 0);
}

static bool symbol(struct reader *r, const char *w, struct arg *a) {
  for (int i = 0; i < r->n_shared; i++) {
    struct shared *x = &r->shared[i];
    if (strcmp(x->name, w)) continue;
    if (r->e && x->named_by != r->m->n_entries) r->e->shared_bytes += x->bytes, x->named_by = r->m->n_entries;
    return *a = (struct arg){ ARG_SHARED, 0, x->at }, true;
  }
  for (int i = 0; i < r->m->n_tables; i++)
    if (!strcmp(r->m->tables[i].name, w)) return *a = (struct arg){ ARG_GLOBAL, 0, (uint64_t)(uintptr_t)r->m->tables[i].data }, true;
  if (!strcmp(w, "stack") && r->e && r->e->local_bytes) return *a = (struct arg){ ARG_LOCAL, 0, 0 }, true;
  int p = find(&r->param, w);
  return p < 0 ? false : (*a = (struct arg){ ARG_NUMBER, 0, (uint64_t)p }, true);
}

static struct arg argument(struct reader *r) {
  char w[200];
  struct arg a = { ARG_NONE, 0, 0 };
  word(r, w);
  if (special(w, &a) || !strcmp(w, "_")) return a;
  if (isdigit((unsigned char)w[0]) || w[0] == '-') return (struct arg){ ARG_NUMBER, 0, number(w) };
  int i = find(&r->reg, w);
  if (i >= 0) return (struct arg){ ARG_REG, i, 0 };
  if (!symbol(r, w, &a)) wrong(r, "not declared", w);
  return a;
}

/* [a], [a+8], {a, b} or a; the address of memory is the first, its offset the second. */
static void operand(struct reader *r, struct arg list[MOST], int *n) {
  *n = 0;
  if (accept(r, '[')) {
    list[(*n)++] = argument(r);
    list[*n] = (struct arg){ ARG_NUMBER, 0, 0 };
    if (accept(r, '+')) list[*n] = argument(r);
    (*n)++;
    expect(r, ']');
  } else if (accept(r, '{')) {
    do list[(*n)++] = argument(r); while (*n < MOST && accept(r, ','));
    expect(r, '}');
  } else {
    list[(*n)++] = argument(r);
  }
}

/* ---- Instructions ---- */

static void copy_word(char *to, size_t room, const char *w) {
  size_t n = strnlen(w, room - 1);
  memcpy(to, w, n);
  to[n] = 0;
}

static void modifiers(struct instruction *x, char *w) {
  char *rest = NULL; /* several threads read at the same time */
  for (char *s = strtok_r(w, ".", &rest); s; s = strtok_r(NULL, ".", &rest)) {
    enum type t = type_of(s);
    if (t && (x->t && !strcmp(x->name, "cvt"))) x->from = t;
    else if (t) x->t = t;
    else if (!strcmp(s, "shared") || !strncmp(s, "shared::", 8)) x->is_shared = true;
    else if (!strcmp(s, "param")) x->is_param = true;
    else if (!strcmp(s, "NaN")) x->is_nan = true;
    else if (!strcmp(s, "L2::cache_hint")) x->has_hint = true;
    else if (!strcmp(s, "volatile")) x->is_volatile = true;
    else if (s[0] == 'v' && (s[1] == '2' || s[1] == '4') && !s[2]) x->width = s[1] - '0';
    else if (s[0] == 'r' && strlen(s) < 4) copy_word(x->round, sizeof x->round, s);
    else if (strcmp(s, "global") && strcmp(s, "sync") && strcmp(s, "nc") && strcmp(s, "local") && strcmp(s, "to") && strcmp(s, "aligned")) {
      if (x->how[0] && !strcmp(s, "and")) strcat(x->how, "&");
      else if (x->how[0] && !strcmp(s, "or")) strcat(x->how, "|");
      else copy_word(x->how, sizeof x->how, s);
    }
  }
}

static void operands(struct reader *r, struct instruction *x, bool stores) {
  int n;
  if (accept(r, ';')) return;
  struct arg first[MOST];
  operand(r, first, &n);
  if (stores) for (int i = 0; i < n && i < 12; i++) x->in[x->n_in++] = first[i];
  else x->n_to = n, x->to = memcpy(malloc((size_t)n * sizeof *first), first, (size_t)n * sizeof *first);
  while (accept(r, ',')) {
    struct arg more[MOST];
    operand(r, more, &n);
    for (int i = 0; i < n && x->n_in < 12; i++) x->in[x->n_in++] = more[i];
    if (n > 1 && !stores && strcmp(x->name, "ld") && strcmp(x->name, "atom")) x->width = n;
    if (stores && n > 1) x->width = n;
  }
  if (x->has_hint) x->n_in--;
  expect(r, ';');
}

/* Predicates are never in memory: ptxas refuses them there. */
static void look_at_values(struct reader *r, const struct instruction *x) {
  for (int i = 0; i < x->n_to + x->n_in; i++) {
    struct arg a = i < x->n_to ? x->to[i] : x->in[i - x->n_to];
    if (a.kind == ARG_REG && a.reg < r->n_typed && r->is_pred[a.reg]) wrong(r, "a predicate in memory", r->reg.name[a.reg]);
  }
}

static bool is_one_of(const char *w, const char *const list[]) {
  for (; *list; list++) if (!strcmp(w, *list)) return true;
  return false;
}

static struct meaning understood(struct reader *r, const char *said) {
  static const char *const read[] = { "st", "prefetch", "red", "bar", "cp", "ret", NULL }, *const touch[] = { "ld", "st", "red", "atom", NULL };
  struct meaning m = { .x = { .target = -1 } };
  char w[200];
  copy_word(w, sizeof w, said);
  char *dot = strchr(w, '.');
  if (dot) *dot = 0;
  m.x.op = machine_op(w);
  if (m.x.op < 0) return wrong(r, "an instruction it does not know", w), m;
  m.x.name = machine_name(m.x.op);
  if (dot) modifiers(&m.x, dot + 1);
  m.stores = is_one_of(w, read) || (!strcmp(w, "mbarrier") && !strcmp(m.x.how, "init"));
  m.touches = is_one_of(w, touch);
  return m;
}

/* What the word means: most have been said before. */
static struct meaning *meaning_of(struct reader *r, const char *w) {
  int n = r->said.n, i = place(&r->said, w);
  if (i < n) return &r->meanings[i];
  struct meaning m = understood(r, w);
  ADD(r->meanings, n, m);
  return &r->meanings[i];
}

static void instruction(struct reader *r, char *w) {
  int guard = -1, line = line_of(r);
  bool unless = false;
  if (!strcmp(w, "@")) {
    unless = accept(r, '!');
    guard = argument(r).reg;
    word(r, w);
  }
  const struct meaning *m = meaning_of(r, w);
  r->e->i = grown(r->e->i, r->e->n_instructions, sizeof *r->e->i);
  struct instruction *x = &r->e->i[r->e->n_instructions++];
  *x = m->x;
  x->guard = guard, x->unless = unless, x->line = line;
  if (*r->why) return;
  if (!strcmp(x->name, "bra")) {
    char to[200];
    word(r, to);
    x->target = place(&r->label, to);
    expect(r, ';');
  } else {
    operands(r, x, m->stores);
  }
  if (m->touches) look_at_values(r, x);
}

static void typed(struct reader *r, const char *name, bool is_pred) {
  int i = place(&r->reg, name);
  while (r->n_typed <= i) ADD(r->is_pred, r->n_typed, false);
  r->is_pred[i] = is_pred;
}

/* The name and the number behind it: thousands of them, so by hand. */
static void numbered(char *to, const char *w, int i) {
  char digits[12];
  int n = 0;
  do digits[n++] = (char)('0' + i % 10); while (i /= 10);
  size_t length = strlen(w);
  memcpy(to, w, length);
  while (n) to[length++] = digits[--n];
  to[length] = 0;
}

static void registers(struct reader *r, bool is_inner) {
  char w[200], name[240];
  word(r, w); /* .type */
  bool is_pred = !strcmp(w, ".pred");
  do {
    word(r, w);
    if (accept(r, '<')) {
      char count[200];
      word(r, count);
      for (int i = 0, n = atoi(count); i < n; i++) numbered(name, w, i), typed(r, name, is_pred);
      expect(r, '>');
    } else {
      if (find(&r->reg, w) >= 0 && !is_inner) wrong(r, "defined twice:", w);
      typed(r, w, is_pred);
    }
  } while (accept(r, ','));
  expect(r, ';');
}

/* .local .align 8 .b8 stack[n]; there is but one. */
static void local(struct reader *r) {
  char w[200];
  word(r, w), word(r, w), word(r, w), word(r, w);
  if (strcmp(w, "stack")) wrong(r, "local memory of another name", w);
  expect(r, '[');
  word(r, w);
  r->e->local_bytes = (size_t)strtoull(w, NULL, 0);
  expect(r, ']');
  expect(r, ';');
}

static void body(struct reader *r) {
  char w[200];
  int depth = 1, n_at = 0;
  expect(r, '{');
  while (depth && !*r->why && word(r, w)) {
    if (!strcmp(w, "{")) depth++;
    else if (!strcmp(w, "}")) depth--;
    else if (!strcmp(w, ".reg")) registers(r, depth > 1);
    else if (!strcmp(w, ".local")) local(r);
    else if (!strcmp(w, ".pragma")) while (*r->s && *r->s++ != ';') {}
    else if (accept(r, ':')) {
      int l = place(&r->label, w);
      for (; n_at <= l; n_at++) r->label_at = grown(r->label_at, n_at, sizeof *r->label_at), r->label_at[n_at] = -1;
      r->label_at[l] = r->e->n_instructions;
    } else instruction(r, w);
  }
  for (int i = 0; i < r->e->n_instructions; i++) {
    int *to = &r->e->i[i].target;
    if (*to < 0) continue;
    if (*to >= n_at || r->label_at[*to] < 0) wrong(r, "a jump to nowhere", r->label.name[*to]);
    else *to = r->label_at[*to];
  }
  r->e->n_regs = r->reg.n;
  if (!*r->why) machine_prepare(r->e);
}

static void forget(struct names *x) {
  for (int i = 0; i < x->n; i++) free(x->name[i]);
  free(x->name);
  free(x->slot);
  *x = (struct names){ 0 };
}

static void entry(struct reader *r) {
  char w[200];
  struct entry e = { .n_params = 0 };
  word(r, w);
  copy_word(e.name, sizeof e.name, w);
  ADD(r->m->entries, r->m->n_entries, e);
  r->e = &r->m->entries[r->m->n_entries - 1];
  expect(r, '(');
  while (!accept(r, ')') && !*r->why) {
    word(r, w), word(r, w), word(r, w); /* .param .type name */
    place(&r->param, w);
    accept(r, ',');
  }
  r->e->n_params = r->param.n;
  skip(r);
  for (; *r->s && *r->s != '{'; r->s++)
    if (!strncmp(r->s, ".maxntid", 8)) r->e->most_threads = atoi(r->s + 8);
  body(r);
  forget(&r->reg);
  free(r->is_pred), r->is_pred = NULL, r->n_typed = 0;
  forget(&r->label);
  forget(&r->param);
}

/* .shared .align 8 .b8 name[n]; .global .align 8 .b32 name[n] = { .. }; */
static void memory(struct reader *r, bool is_shared) {
  char w[200], name[200];
  enum type t;
  size_t n = 0;
  word(r, w), word(r, w); /* .align n */
  size_t align = (size_t)strtoull(w, NULL, 0);
  word(r, w);
  t = type_of(w + 1);
  word(r, name);
  expect(r, '[');
  if (!accept(r, ']')) word(r, w), n = (size_t)strtoull(w, NULL, 0), expect(r, ']');
  if (is_shared) {
    r->shared = grown(r->shared, r->n_shared, sizeof *r->shared);
    struct shared *x = &r->shared[r->n_shared++];
    copy_word(x->name, sizeof x->name, name);
    x->at = (r->m->shared_bytes + align - 1) / align * align, x->bytes = (n * (size_t)type_bytes(t) + 15) / 16 * 16;
    x->named_by = 0;
    r->m->shared_bytes = x->at + x->bytes;
  } else {
    struct table x = { .bytes = n * (size_t)type_bytes(t), .data = calloc(n + 1, (size_t)type_bytes(t)) };
    copy_word(x.name, sizeof x.name, name);
    if (accept(r, '=')) {
      expect(r, '{');
      for (size_t i = 0; i < n; i++) {
        word(r, w);
        uint64_t bits = number(w);
        memcpy((char *)x.data + i * (size_t)type_bytes(t), &bits, (size_t)type_bytes(t));
        accept(r, ',');
      }
      expect(r, '}');
    }
    ADD(r->m->tables, r->m->n_tables, x);
  }
  expect(r, ';');
}

struct module *module_parse(const char *ptx, char *why, size_t room) {
  struct reader r = { .s = ptx, .counted = ptx, .line = 1, .why = why, .room = room, .m = calloc(1, sizeof *r.m) };
  char w[200];
  *why = 0;
  while (!*why && word(&r, w)) {
    if (!strcmp(w, ".version") || !strcmp(w, ".target") || !strcmp(w, ".address_size")) word(&r, w);
    else if (!strcmp(w, ".shared")) memory(&r, true);
    else if (!strcmp(w, ".global")) memory(&r, false);
    else if (!strcmp(w, ".entry")) entry(&r);
    else if (strcmp(w, ".visible") && strcmp(w, ".extern")) wrong(&r, "not expected", w);
  }
  forget(&r.said);
  free(r.meanings);
  free(r.label_at);
  free(r.shared);
  if (!*why) return r.m;
  module_free(r.m);
  return NULL;
}

void module_free(struct module *m) {
  for (int e = 0; e < m->n_entries; e++) {
    for (int i = 0; i < m->entries[e].n_instructions; i++)
      free(m->entries[e].i[i].to);
    free(m->entries[e].i);
    free(m->entries[e].quick), free(m->entries[e].numbers);
  }
  for (int t = 0; t < m->n_tables; t++) free(m->tables[t].data);
  free(m->entries);
  free(m->tables);
  free(m);
}
