/* convolve.h -- what a convolution is asked for, and the attr of op_depthwise. */
#ifndef WEFT_OP_CONVOLVE_H
#define WEFT_OP_CONVOLVE_H
#include <stdbool.h>
#include "weft.h"

enum { CONVOLVE_AXES = WEFT_RANK_MAX - 2 };

/* All that is asked of one convolution. */
struct convolution {
  int n;                /* axes between */
  int64_t stride[CONVOLVE_AXES], dilation[CONVOLVE_AXES], before[CONVOLVE_AXES], after[CONVOLVE_AXES], spread[CONVOLVE_AXES];
  int64_t groups;
  int is_flipped;
  bool is_of_products;  /* groups are rows of a map: what they are one by one is products, though a group be one channel */
};

/* x [N, s, s, C], or planes [N, C, s, s], by w [C O, k, k, 1]; a group is one channel, and nothing is flipped or spread. */
struct depthwise_attr { struct convolution c; bool are_planes; };

#endif
