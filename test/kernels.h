/* kernels.h -- the kernels under test/kernels: one of them by name, or all. */
#ifndef WEFT_TEST_KERNELS_H
#define WEFT_TEST_KERNELS_H
#include <stdlib.h>
#include "base/text.h"
#include "kernel/kir.h"
#include "test.h"

#ifndef TEST_FOLDER
#define TEST_FOLDER "test"
#endif

enum { TEST_KERNELS_MAX = 100 };

/* Kernels of one file after those already in out; returns how many there are then. */
static inline int test_kernels_of(const char *file, struct kir_kernel *out[TEST_KERNELS_MAX], int n) {
  char path[1024], *s = calloc(1, 1 << 18);
  struct text why = { 0 };
  snprintf(path, sizeof path, TEST_FOLDER "/kernels/%s", file);
  FILE *f = fopen(path, "r");
  size_t bytes = f && s ? fread(s, 1, (1 << 18) - 1, f) : 0;
  if (f) fclose(f);
  int more = bytes ? kir_parse(s, out + n, TEST_KERNELS_MAX - n, &why) : -1;
  if (more < 0) test_fail(__FILE__, __LINE__, "%s: %s", path, bytes ? text_of(&why) : "cannot be read");
  text_free(&why);
  free(s);
  return more < 0 ? n : n + more;
}

static inline int test_kernels(struct kir_kernel *out[TEST_KERNELS_MAX]) {
  int n = test_kernels_of("elementwise.kir", out, 0);
  n = test_kernels_of("rows.kir", out, n);
  n = test_kernels_of("index.kir", out, n);
  return test_kernels_of("loops.kir", out, n);
}

static inline struct kir_kernel *test_kernel(const char *name) { /* NULL, and the test fails: no such kernel */
  struct kir_kernel *all[TEST_KERNELS_MAX], *found = NULL;
  int n = test_kernels(all);
  for (int i = 0; i < n; i++)
    if (!found && !strcmp(all[i]->name, name)) found = all[i];
    else kir_free(all[i]);
  if (!found) test_fail(__FILE__, __LINE__, "no kernel %s", name);
  return found;
}

#endif
