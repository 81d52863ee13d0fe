/* mem.h -- every small allocation of the library goes through here, so that each one can be made to fail in a test. */
#ifndef WEFT_MEM_H
#define WEFT_MEM_H
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);  /* zeroed; NULL: out of memory */
void *mem_room(size_t bytes);   /* the same, with whatever stands there */
void *mem_resize(void *, size_t bytes); /* as realloc; NULL leaves the old block as it was */
char *mem_text(const char *);   /* a copy of the text */
void mem_free(void *);          /* NULL: nothing */

/* For tests: the n-th allocation from now on fails (1: the next one), and all after it if sticky. 0: none does. */
void mem_fail_at(int64_t n, int sticky);
void mem_fail_pause(int on);    /* meanwhile none fails and none is counted: what a test's own device allocates */
int64_t mem_count(void);        /* allocations made since mem_fail_at was last called */
int mem_should_fail(void);      /* counts one allocation made elsewhere (buffers, mappings) as a site */
void mem_watch(void);           /* counts live blocks from now on; nobody else wants to know */
int64_t mem_live(void);         /* blocks allocated and not freed */

#endif
