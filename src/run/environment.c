/* environment.c -- the environment variables that say how work is done, and what they may be. One that is not understood fails the
 * first evaluation, which names it; it is never as good as not set.
 *
 * Not here: variables of yes and no (WEFT_EXACT, WEFT_TF32 ..), of which 0 is no and all else yes; folders and libraries
 * (WEFT_CACHE, WEFT_BLAS), which are looked at by those who open them; WEFT_DEVICE (device.c), which weft_set may put right. */
#include <stdlib.h>
#include <string.h>
#include "run/eval.h"

/* words: those it takes, NULL: a number of 1 or more. A list has several of them, with commas between. */
static const struct variable { const char *name, *words; bool is_list; } variables[] = {
  { "WEFT_THREADS", NULL,                          false },
  { "WEFT_JIT",     "0, 1, avx2",                  false },
  { "WEFT_FUSE",    "0, 1",                        false },
  { "WEFT_CHECK",   "0, nan, inf",                 false },
  { "WEFT_READ",    "pread",                       false },
  { "WEFT_SHOW",    "plan, kernels, asm, ptx, sass", true },
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static bool is_count(const char *s) {
  char *end;
  return *s >= '0' && *s <= '9' && strtol(s, &end, 10) > 0 && !*end;
}

/* Whether the n characters are one of the words. */
static bool is_word(const char *s, size_t n, const char *words) {
  for (const char *w = words; *w; w += strspn(w, ", ")) {
    size_t length = strcspn(w, ",");
    if (length == n && !memcmp(s, w, n)) return true;
    w += length;
  }
  return false;
}

static bool is_understood(const struct variable *v, const char *s) {
  if (!v->words) return is_count(s);
  if (!v->is_list) return is_word(s, strlen(s), v->words);
  for (;; s++) {
    size_t n = strcspn(s, ",");
    if (!is_word(s, n, v->words)) return false;
    if (!*(s += n)) return true;
  }
}

int environment_strange(void) {
  for (int i = 0; i < VARIABLES; i++) {
    const char *s = getenv(variables[i].name);
    if (s && *s && !is_understood(&variables[i], s)) return i + 1;
  }
  return 0;
}

struct failure *environment_failure(int strange) {
  const struct variable *v = &variables[strange - 1];
  const char *s = getenv(v->name);
  return fail(WEFT_ERR_ARG, 0, "weft_eval: the environment variable %s is \"%s\": it takes %s%s", v->name, s ? s : "",
              !v->words ? "a number of threads, 1 or more" : v->is_list ? "any of " : "one of ", v->words ? v->words : "");
}
