/* attr.h -- attributes of nodes: what their op needs to know besides its inputs. */
#ifndef WEFT_OP_ATTR_H
#define WEFT_OP_ATTR_H
#include <stdatomic.h>
#include "graph/dim.h"
#include "weft.h"

/* No attr has padding: equal ones are equal bytes. */
struct to_attr { int64_t device; };  /* -1: on none in particular */
struct axis_attr { int axis, needs_one; };  /* needs_one: of REDUCE, whose axis was of no known size: with no element along it there
                                                is no value */
struct transpose_attr { int axes[WEFT_RANK_MAX]; };          /* attr_bytes covers rank entries only */
struct strided_attr { int64_t offset, stride[WEFT_RANK_MAX]; }; /* of the elements row by row; attr_bytes: rank strides */
struct slice_attr { int64_t axis; dim start; int64_t step; }; /* element i of the axis is x's start + i*step */
struct windows_attr { int64_t axis, step, dilation; };          /* element j of window i is x's i*step + j*dilation; the last
                                                                axis is j */
enum take_by { BY_TAKE, BY_AT, BY_WINDOW, BY_ALONG, BY_STRIDES, BY_PAD, BY_CHOICE, BY_GATHER_MM, BY_GATHER_QMM, BY_PUT, BY_ASSERT };
struct take_attr { int n; enum take_by by; };                /* indices have one common shape I; result I + rest of x; by: what the
                                                                user called, for messages */
#define WINDOW_FAR (INT64_C(1) << 62) /* the start of a window that is before the beginning has so much less as an index */
struct assert_attr { struct take_attr take; struct told *told; }; /* of op_assert; told: the message */
struct put_attr { int64_t how; dim start[WEFT_RANK_MAX]; int64_t step[WEFT_RANK_MAX]; }; /* v has x's rank; element i of v
                                                                stands at start + i*step on each axis of x */
struct scatter_attr { weft_how how; int n, batch; enum take_by by; }; /* v has dims I + rest of x; batch: 0 but for
                                                                schedule/prepare.c; by: BY_PUT, or that of the take whose
                                                                derivative it is */
struct pad_attr { int64_t axis, before, after; };
struct item_attr { int k; };
struct part_attr { int64_t part; };                          /* 0: real, 1: imaginary */
struct complex_attr { double re, im; };                      /* of a weak op_complex: the number itself */
struct scalar_attr { uint64_t bits; };                       /* the pattern in the node's dtype (weak: f64 or i64) */
struct size_attr { dim size; int64_t axis; };                /* in[0]'s size on that axis; -1: its number of elements */
struct call_attr { struct weft_function *function; int n_out, is_trusting; struct items *_Atomic items; }; /* is_trusting: of sizes
                                                                that only a run tells; items: those that live (item.c); NULL: they
                                                                are not known */

#endif
