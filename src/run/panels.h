/* panels.h -- panels that are kept: the right operand of a product, packed, where it is a constant of a function.
 *
 * They are a copy of bytes of a buffer and belong to it: they go when it ends, is written to or is shown to others, who might
 * write to it, and otherwise when their memory is wanted (memory.h, hoards). What has been packed never changes; who multiplies by
 * it holds it. Of one buffer there may be several, one for each form. */
#ifndef WEFT_RUN_PANELS_H
#define WEFT_RUN_PANELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/memory.h"

struct buffer;

/* What was packed, and how: equal bytes of this are equal panels of a buffer. */
struct panels_form {
  int64_t offset, row, column;  /* bytes: of the operand in the buffer, and between its elements */
  int64_t run, k, n;            /* run: of rows, see struct product */
  int64_t dtype, width, together, unit; /* unit: the address of the contractor */
};

struct panels {
  uint8_t *at;
  bool is_packed;               /* false: the caller is to do it */
  struct panels *next;          /* of the buffer's; this and the rest are panels.c's */
  struct buffer *of;            /* without a reference */
  struct panels_form form;
  size_t bytes;
  uint64_t version;             /* of the buffer, before it was packed */
  struct hoard memory;          /* once they are kept; before, the memory is borrowed */
  int refs;                     /* the buffer, and who holds them */
};

bool panels_may_keep(struct buffer *, int64_t bytes); /* nobody else may write to the buffer, and there is room or some are there */
/* Those of the buffer, or memory for them: then they are to be packed and kept. NULL: out of memory. */
struct panels *panels_hold(struct buffer *, const struct panels_form *, size_t bytes);
void panels_keep(struct panels *);        /* they are packed: others find them, if there is room and the buffer has not changed */
void panels_let_go(struct panels *);      /* once for every hold; NULL: nothing */
void panels_forget(struct buffer *);      /* all of them; who holds some goes on with it */
uint64_t panels_packed(void);             /* for tests: how often some were packed to be kept */

#endif
