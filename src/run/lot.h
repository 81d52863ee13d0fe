/* lot.h -- memory for blocks of middle size, several of them in one huge page. */
#ifndef WEFT_LOT_H
#define WEFT_LOT_H
#include <stdbool.h>
#include <stddef.h>

#define LOT_LEAST ((size_t)64 << 10) /* a block of fewer bytes, or of LOT_MOST and more, never stands in a lot */
#define LOT_MOST ((size_t)4 << 20)

void *lot_take(size_t bytes);             /* NULL: there is none; whoever asks takes other memory */
bool lot_give(void *block, size_t bytes); /* false: it does not stand in a lot */
int lot_count(void);                      /* lots that there are; for tests */

void lot_before_fork(void), lot_after_fork(void);

#endif
