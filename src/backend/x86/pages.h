/* pages.h -- memory that is first written, then executed, and never both. */
#ifndef WEFT_X86_PAGES_H
#define WEFT_X86_PAGES_H
#include <stdbool.h>
#include <stddef.h>

/* A copy of the two parts, the second at offset `at`, executable and no longer writable. NULL: out of memory, or, if
 * *is_forbidden, the system lets nobody make code. */
void *pages_new(const void *code, size_t n, const void *pool, size_t at, size_t n_pool, bool *is_forbidden);
void pages_free(void *, size_t total);

#endif
