/* debug.h -- what debuggers and profilers are told of a compiled kernel. */
#ifndef WEFT_X86_DEBUG_H
#define WEFT_X86_DEBUG_H
#include <stddef.h>

/* Tells of a function of n bytes that opens and closes with the prologue and epilogue of x86_function.c, and calls some of itself.
 * NULL: out of memory, and nobody knows of it, which does no harm. */
struct debug_code { const void *at; size_t n, called, called_end; };
struct debug *debug_new(const char *name, struct debug_code);
void debug_free(struct debug *);
void debug_watch_forks(void); /* before other locks are registered, under which kernels come and go: what is first is locked last */

/* What gdb looks at: a list of object files in memory. */
struct debug_entry { struct debug_entry *next, *previous; const void *file; unsigned long long bytes; };
struct debug_list { unsigned version, action; struct debug_entry *relevant, *first; };
extern struct debug_list __jit_debug_descriptor;

#endif
