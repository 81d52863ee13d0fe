/* assembling.c -- see assembling.h */
#include "assembling.h"
#include <stdlib.h>
#include <unistd.h>
#include "test.h"

bool assembling_begin(struct assembling *a) {
  *a = (struct assembling){ .folder = "/tmp/weft-ptx-XXXXXX" };
  if (system("ptxas --version >/dev/null 2>&1")) return test_skip("there is no ptxas"), false;
  bool is_made = mkdtemp(a->folder);
  EXPECT(is_made);
  return is_made;
}

/* FNV-1a */
static uint64_t hash_of(const char *text, int n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (int i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return h;
}

static bool is_new(struct assembling *a, uint64_t hash) {
  for (int i = 0; i < a->n_different; i++)
    if (a->seen[i] == hash) return false;
  uint64_t *grown = realloc(a->seen, ((size_t)a->n_different + 1) * sizeof *grown);
  if (!grown) abort();
  a->seen = grown;
  a->seen[a->n_different++] = hash;
  return true;
}

void assembling_add(struct assembling *a, const char *name, const char *ptx, int n_bytes) {
  char path[128];
  a->n_texts++;
  if (!is_new(a, hash_of(ptx, n_bytes))) return;
  snprintf(path, sizeof path, "%s/%03d_%.60s.ptx", a->folder, a->n_different, name);
  FILE *f = fopen(path, "w");
  EXPECT(f && (int)fwrite(ptx, 1, (size_t)n_bytes, f) == n_bytes && !fclose(f));
}

/* All in one process, which is half of the work; if that refuses some, one by one, to name them. */
void assembling_end(struct assembling *a, const char *options) {
  char command[500];
  snprintf(command, sizeof command,
           "cd %s && : >log; ptxas %s *.ptx -o out.cubin 2>err || for f in *.ptx; do ptxas %s $f -o out.cubin 2>err || { echo $f; head -3 err; }; "
           "done >log; head -12 log; ! test -s log; s=$?; %s rm -r %s; exit $s",
           a->folder, options, options, getenv("WEFT_TEST_KEEP") ? "true" : "", a->folder);
  EXPECT_INT(system(command), 0);
  free(a->seen);
}
