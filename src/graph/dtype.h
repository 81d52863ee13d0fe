/* dtype.h -- what kinds of numbers there are, and which of them a mixed operation computes in. */
#ifndef WEFT_DTYPE_H
#define WEFT_DTYPE_H
#include <stdbool.h>
#include "weft.h"

static inline bool dtype_is_valid(weft_dtype d) { return (unsigned)d <= WEFT_C128; }
static inline bool dtype_is_float(weft_dtype d) { return d >= WEFT_F16 && d <= WEFT_E5M2; }
static inline bool dtype_is_integer(weft_dtype d) { return d >= WEFT_U8 && d <= WEFT_I64; }
static inline bool dtype_is_signed(weft_dtype d) { return d >= WEFT_I8 && d <= WEFT_I64; }
static inline bool dtype_is_complex(weft_dtype d) { return d >= WEFT_C64; }
static inline bool dtype_is_inexact(weft_dtype d) { return d >= WEFT_F16; } /* float or complex: has derivatives */
static inline bool dtype_is_f8(weft_dtype d) { return d == WEFT_E4M3 || d == WEFT_E5M2; }
static inline bool dtype_is_narrow_float(weft_dtype d) { return d == WEFT_F16 || d == WEFT_BF16 || dtype_is_f8(d); }

/* What mathematics is done in: a float stays, anything else becomes f32. */
static inline weft_dtype dtype_float(weft_dtype d) { return dtype_is_float(d) || dtype_is_complex(d) ? d : WEFT_F32; }

/* What the real and the imaginary part are stored in; of any other dtype: itself. */
static inline weft_dtype dtype_part(weft_dtype d) { return d == WEFT_C64 ? WEFT_F32 : d == WEFT_C128 ? WEFT_F64 : d; }
/* The complex dtype that numbers of d become. */
static inline weft_dtype dtype_complex(weft_dtype d) { return d == WEFT_F64 || d == WEFT_C128 ? WEFT_C128 : WEFT_C64; }

bool dtype_fits(weft_dtype, int64_t); /* whether the integer is a value of an integer dtype */

/* The pattern of a number in a dtype, zero-extended. Floats are rounded once, to nearest even; a nan keeps its sign and
 * the top bits of its payload, and becomes quiet only if none of those is set. To integers: towards zero, saturating, nan
 * gives 0. To bool: not equal to 0. */
uint64_t dtype_encode(weft_dtype, double);
uint64_t dtype_encode_integer(weft_dtype, int64_t); /* to integers: wraps */
uint64_t dtype_widen(weft_dtype, uint64_t bits);     /* the pattern in the register dtype that holds it: f32, i32 .. */
double dtype_decode(weft_dtype, uint64_t bits);     /* i64 and u64: the nearest double */

#endif
