/* vm_case.h -- a kernel of test/kernels, its inputs, and what should come out; run in every way that must not matter:
 * behind other strides, in other tiles, cut into parts, on several threads. */
#ifndef WEFT_TEST_VM_CASE_H
#define WEFT_TEST_VM_CASE_H
#include "backend/backend.h"
#include "test.h"

enum { CASE_BUFS = 12, CASE_RANK = 4 };

struct vm_case {
  struct kir_kernel *k;
  struct kir_facts facts;
  int64_t size[8], dims[CASE_BUFS][CASE_RANK], n[CASE_BUFS]; /* n: elements */
  uint64_t arg[8];
  void *in[CASE_BUFS], *want[CASE_BUFS]; /* row-major, memory dtype: what is there before, and after */
  int64_t check[8], check_of[8];         /* expected, by site: the place, INT64_MAX: none; what it is of */
  uint64_t loads[CASE_BUFS];             /* of the first run */
  bool ignore_order;                     /* do not cut it: the kernel is run once with lo = 0 */
};

/* Sizes in the order of the text. Inputs are random with special values among them, outputs 77. */
struct vm_case case_open(const char *kernel, int n_sizes, const int64_t *sizes, uint64_t seed);
struct vm_case case_of(struct kir_kernel *, int n_sizes, const int64_t *sizes, uint64_t seed); /* takes the kernel over */
void case_close(struct vm_case *);
int case_buf(const struct vm_case *, const char *name);
void *case_in(const struct vm_case *, const char *name);
void *case_want(const struct vm_case *, const char *name);
int64_t case_size(const struct vm_case *, const char *name);
void case_arg(struct vm_case *, const char *name, uint64_t bits);
void case_arg_f32(struct vm_case *, const char *name, float);
void case_calm(struct vm_case *); /* no special values among the f32 and f64 inputs */
/* Runs and compares: bits (NaN = NaN) if tolerance is 0, else close; all ways agree to the bit. */
void case_check(struct vm_case *, double tolerance);

uint64_t case_random(void); /* of a stream that case_open seeds */
float case_from_bf16(uint16_t);
uint16_t case_to_bf16(float);
bool case_same(weft_dtype, const void *a, const void *b);

#endif
