/* beside.h -- short rows in order, some of them side by side in the lanes of vectors (beside.c). */
#ifndef WEFT_BESIDE_H
#define WEFT_BESIDE_H
#include "op/order.h"

enum {
  BESIDE_MOST = 512,        /* elements that a row has at most */
  BESIDE_BYTES = 64,        /* of a place of all rows: an entry of 4 bytes of 16 rows, or of 8 of 8 */
  BESIDE_ROOM = 2 * BESIDE_BYTES * BESIDE_MOST
};

/* Rows of n elements, `each` bytes from one to the next, and where their results go. */
struct beside_rows {
  weft_dtype dtype;
  int64_t n, from_each, y_each, order_each;
  const uint8_t *from;
  uint8_t *y;      /* NULL: nobody asks for the elements, .. */
  uint8_t *order;  /* .. or for where they stood, i64 */
  void *room;      /* BESIDE_ROOM bytes at a multiple of 64 */
};

bool beside_is_there(void); /* this machine has what it is written for; else it must not be called */

/* How many rows it sorts at a time: no fewer. */
int beside_at_once(weft_dtype d, bool has_order);

/* Writes the results of so many rows, but the elements where places are asked for too: those are at their places then. How many
 * elements are NaN is said of each row where nobody asks for places: so many of the last ones of y are nothing yet. */
void beside_sort(const struct beside_rows *b, int64_t n_nan[]);

#endif
