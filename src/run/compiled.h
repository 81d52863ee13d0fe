/* compiled.h -- kernels that have been compiled, found again by their text, the classes of their strides, and the device
 * they were wanted for. */
#ifndef WEFT_COMPILED_H
#define WEFT_COMPILED_H
#include "backend/backend.h"
#include "graph/fail.h"

struct compiled {
  const struct backend *backend;
  struct code *code;
  struct kir_kernel *kernel;   /* legalised */
  struct kir_facts facts;
  char *text;                  /* as it was written */
  struct shape_class shape;
  const struct device *device; /* NULL: wanted for the host */
  bool is_on_device;           /* it is the device's code; else its printer refused, and it runs on the host */
  uint64_t hash;
  _Atomic int refs;            /* the table is one */
  struct compiled *next;
};

/* Takes the kernel over. device: NULL for the host. NULL: *failure says why. What several threads want is compiled
 * by one of them. */
struct compiled *compiled_get(struct kir_kernel *, const struct shape_class *, const struct device *, struct failure **);
void compiled_release(struct compiled *);
void compiled_drop_all(void);            /* forgets what nobody uses (tests) */

void compiled_after_fork(void);          /* in the child; the lock is held */

/* Since the process started: kernels compiled, and those the encoder left to the vm or the device's printer to the host. */
int64_t compiled_count(void), compiled_fallbacks(void);

struct contractor;
const struct contractor *compiled_contractor(void); /* what multiplies matrices where kernels are compiled now */

/* For tests and the user's way out: "vm", "x86", "avx2"; NULL: what is best here. Read from WEFT_JIT at the first use. */
void compiled_use(const char *backend);
const char *compiled_by(void);           /* in words: who translates kernels for the host, and for which instructions */
void compiled_use_tile(int lanes);       /* for tests: of the vm, in kernels compiled from now on; 0: its own choice */

#endif
