/* hard.h -- internal invariants, asserted in the hard build only (make hard). A release carries no trace of them. */
#ifndef WEFT_HARD_H
#define WEFT_HARD_H

#ifdef WEFT_HARD
void hard_failed(const char *file, int line, const char *what) __attribute__((noreturn));
#define INVARIANT(is_true) ((is_true) ? (void)0 : hard_failed(__FILE__, __LINE__, #is_true))
#else
#define INVARIANT(is_true) ((void)0)
#endif

#endif
