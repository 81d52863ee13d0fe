/* mlx.h -- operations that MLX has otherwise than weft: on complex numbers, at ties, where integers overflow. Each is made of
 * functions of weft.h, so nothing behind them knows of it. */
#ifndef WEFT_PYTHON_MLX_H
#define WEFT_PYTHON_MLX_H
#include "names.h"

void mlx_as(PyObject *kind, PyObject *other);         /* an exception of that kind becomes one of the other */
void mlx_as_value_error(PyObject *kind);

int mlx_is_complex(weft_array *);

weft_array *mlx_sign(weft_array *), *mlx_log1p(weft_array *), *mlx_log2(weft_array *), *mlx_log10(weft_array *);
weft_array *mlx_asin(weft_array *), *mlx_acos(weft_array *), *mlx_atan(weft_array *);
weft_array *mlx_asinh(weft_array *), *mlx_acosh(weft_array *), *mlx_atanh(weft_array *);
weft_array *mlx_expm1(weft_array *), *mlx_sigmoid(weft_array *), *mlx_erf(weft_array *), *mlx_erfinv(weft_array *);

weft_array *mlx_less(weft_array *, weft_array *), *mlx_less_equal(weft_array *, weft_array *);
weft_array *mlx_greater(weft_array *, weft_array *), *mlx_greater_equal(weft_array *, weft_array *);
weft_array *mlx_maximum(weft_array *, weft_array *), *mlx_minimum(weft_array *, weft_array *);
weft_array *mlx_clip(weft_array *x, weft_array *low, weft_array *high); /* either may be NULL */
weft_array *mlx_floor_divide(weft_array *, weft_array *), *mlx_power(weft_array *, weft_array *);
weft_array *mlx_logaddexp(weft_array *, weft_array *);
weft_array *mlx_and(weft_array *, weft_array *), *mlx_or(weft_array *, weft_array *), *mlx_xor(weft_array *, weft_array *);
weft_array *mlx_shl(weft_array *, weft_array *), *mlx_shr(weft_array *, weft_array *); /* of the operators */
weft_array *mlx_left_shift(weft_array *, weft_array *), *mlx_right_shift(weft_array *, weft_array *); /* of the functions */

#endif
