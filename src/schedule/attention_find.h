/* attention_find.h -- the nodes of a plan that are attention tile by tile, and what is asked of them. */
#ifndef WEFT_ATTENTION_FIND_H
#define WEFT_ATTENTION_FIND_H
#include "schedule/work.h"

/* in: q, k, v; of derivatives then dy, lse, delta; then the mask, if there is one. Results by OP_ITEM. */
struct attend_attr {
  enum kir_attention_part part;
  float scale;
  bool is_banded, band_is_difference, has_mask;
  bool is_by_rows;           /* results stand [.., row, head, element], as operands do: the items are so, and are shown turned */
  uint8_t out[2];            /* dtypes of the results; lse is f32 */
  int64_t band;
};

extern const struct op op_attend;

/* Axis k of a result is this one of its item. */
static inline int attend_axis(const struct attend_attr *a, int rank, int k) {
  return a->is_by_rows && k == rank - 3 ? k + 1 : a->is_by_rows && k == rank - 2 ? k - 1 : k;
}

#endif
