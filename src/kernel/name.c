/* name.c -- the names of a kernel: an open hash table in its arena, never shrinking. */
#include "kernel/name.h"
#include <pthread.h>
#include <string.h>
#include "base/arena.h"

struct kir_names { int n, room; struct name *at; }; /* room is a power of two, at most half full */

static uint32_t hash(const char *s, size_t n, int scope) {
  uint32_t h = 2166136261u ^ (uint32_t)scope;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  return h | 1;
}

static struct name *slot(const struct kir_names *t, const char *s, size_t n, uint32_t h, int scope) {
  for (uint32_t i = h >> 7;; i++) {
    struct name *e = &t->at[i & (uint32_t)(t->room - 1)];
    if (!e->text) return e;
    if (e->hash == h && e->scope == scope && !strncmp(e->text, s, n) && !e->text[n]) return e;
  }
}

struct name *name_find(const struct kir_kernel *k, const char *s, size_t n, int scope) {
  if (!k->names) return NULL;
  struct name *e = slot(k->names, s, n, hash(s, n, scope), scope);
  return e->text ? e : NULL;
}

static bool widen(struct kir_kernel *k) {
  struct kir_names *old = k->names;
  if (old && 2 * old->n < old->room) return true;
  struct kir_names *t = arena_take(k->arena, sizeof *t);
  int room = old ? 2 * old->room : 64;
  struct name *at = arena_take(k->arena, (size_t)room * sizeof *at);
  if (!t || !at) return false;
  *t = (struct kir_names){ old ? old->n : 0, room, at };
  for (int i = 0; old && i < old->room; i++) {
    struct name *e = &old->at[i];
    if (e->text) *slot(t, e->text, strlen(e->text), e->hash, e->scope) = *e;
  }
  k->names = t;
  return true;
}

const char *name_put(struct kir_kernel *k, const char *s, size_t n, enum name_kind kind, int index) {
  char *copy = widen(k) ? arena_take(k->arena, n + 1) : NULL;
  if (!copy) {
    k->failed = true;
    return NULL;
  }
  memcpy(copy, s, n);
  uint32_t h = hash(s, n, k->scope);
  struct name *e = slot(k->names, s, n, h, k->scope);
  if (!e->text) k->names->n++;
  *e = (struct name){ copy, h, k->scope, (uint8_t)kind, index, 1 };
  return copy;
}

/* ---- Words of the language ---- */

static const char *const words[] = { "kernel", "size", "arg", "in", "out", "inout", "table", "fn", "par", "serial",
  "lane", "if", "else", "yield", "carry", "next", "until", "keep", "local", "check", "at", "of", "fold", "prefix", "from", "load",
  "store", "blocks", "block", "private", "return", "true", "false", "set" };
enum { N_WORDS = sizeof words / sizeof *words, RESERVED = N_WORDS + KIR_OPS };

/* By first letter, as each value of each kernel asks: 1 + the first such word, and 1 + the one after a word. 0: none. */
static struct { uint8_t first[256], next[RESERVED]; } by_letter;
_Static_assert(RESERVED < 256, "the numbers of words fit");

static const char *word(int i) { return i < N_WORDS ? words[i] : kir_rows[i - N_WORDS].name; }

static void sort_words(void) {
  for (int i = 0; i < RESERVED; i++) {
    uint8_t *first = &by_letter.first[(unsigned char)word(i)[0]];
    by_letter.next[i] = *first;
    *first = (uint8_t)(i + 1);
  }
}

bool name_is_reserved(const char *s, size_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, sort_words);
  for (int i = by_letter.first[(unsigned char)s[0]]; i; i = by_letter.next[i - 1])
    if (!strncmp(word(i - 1), s, n) && !word(i - 1)[n]) return true;
  return false;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/* The wish with what cannot stand in a name replaced: at most 40 characters, and room for a number. */
size_t name_tidy(char out[64], const char *wish) {
  size_t n = 0;
  if (!is_letter(wish[0])) out[n++] = '_';
  for (; *wish && n < 40; wish++) out[n++] = is_letter(*wish) || (*wish >= '0' && *wish <= '9') ? *wish : '_';
  out[n] = 0;
  return n;
}

static size_t add_number(char *s, size_t n, int number) {
  char digits[12];
  int d = 0;
  if (s[n - 1] >= '0' && s[n - 1] <= '9') s[n++] = '_'; /* x1 -> x1_2 */
  for (; number; number /= 10) digits[d++] = (char)('0' + number % 10);
  while (d) s[n++] = digits[--d];
  return n;
}

const char *name_unique(struct kir_kernel *k, const char *wish, enum name_kind kind, int index) {
  char s[64];
  size_t n = name_tidy(s, wish), full = n;
  struct name *taken = name_find(k, s, n, k->scope);
  int copies = taken ? taken->copies : 0;
  for (bool free = !taken && !name_is_reserved(s, n); !free; free = !name_find(k, s, full, k->scope))
    full = add_number(s, n, ++copies < 2 ? copies = 2 : copies);
  const char *got = name_put(k, s, full, kind, index);
  if (taken && got && (taken = name_find(k, s, n, k->scope))) taken->copies = copies;
  return got;
}
