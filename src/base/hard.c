/* hard.c -- what an invariant that does not hold says: see hard.h. */
#include "base/hard.h"
#ifdef WEFT_HARD
#include <string.h>
#include <unistd.h>
#include "base/text.h"

/* Says what does not hold and stops where a debugger finds it. */
void hard_failed(const char *file, int line, const char *what) {
  struct text t = { 0 };
  text_addf(&t, "%s:%d: invariant does not hold: %s\n", file, line, what);
  if (write(2, text_of(&t), t.n) < 0) { /* nobody listens */ }
  __builtin_trap();
}
#else
typedef int hard_is_off; /* a translation unit may not be empty */
#endif
