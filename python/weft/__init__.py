"""Lazy arrays that are differentiated, fused, compiled and run.

    import weft

    def loss(w):
        return ((x @ w - y) ** 2).mean()

    for _ in range(100):
        w = w - 0.1 * weft.grad(loss)(w)
        weft.eval(w)

An array is an expression, computed when somebody needs its values. Errors name the line that built what failed.
"""
import os as _os

from . import _core
from ._composed import (
    allclose, arange, array_equal, as_strided, clip, degrees, diag, diagonal, eye, full, full_like, identity,
    isclose, linspace, ones, ones_like, outer, pad, put_along_axis, radians, repeat, result_type, roll, round,
    split, std, take, take_along_axis, tensordot, tile, trace, tri, tril, triu, var, zeros, zeros_like)
from ._core import (
    Dtype, NoValueError, abs, add, all, any, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, argmax, argmin, array,
    asarray, astype, attention, bfloat16, bitwise_and, bitwise_invert, bitwise_or, bitwise_xor, bool_, broadcast_to, ceil,
    complex, complex64, complex128, concatenate, conj, cos, cosh, cummax, cummin, cumprod, cumsum, depends, divide,
    einsum, equal, erf, erfc, erfinv, exp, exp2, expand_dims, expm1, flatten, flip, float16, float32, float64, floor,
    floor_divide, fma, fmod, from_dlpack, greater, greater_equal, hypot, imag, int8, int16, int32, int64, isfinite,
    isinf, isnan, layer_norm, left_shift, less, less_equal, log, log1p, log2, log10, logaddexp, logical_and,
    logical_not, logical_or, logical_xor, logsumexp, matmul, max, maximum, mean, min, minimum, moveaxis, multiply,
    negative, not_equal, positive, power, prod, real, reciprocal, remainder, reshape, right_shift, rms_norm, rsqrt,
    sigmoid, sign, sin, sinh, softmax, sqrt, square, squeeze, stack, state, stop_gradient, subtract, sum, swapaxes,
    tan, tanh, transpose, trunc, uint8, uint16, uint32, uint64, where)
from ._file import load, save, save_safetensors
from ._loop import cond, scan, while_loop
from ._run import (
    async_eval, clear_cache, device_count, eval, get_active_memory, get_cache_memory, get_peak_memory,
    kernels_compiled, live_nodes, plan, reset_peak_memory, set_blas, set_cache_limit, set_check, set_device, set_memory_limit,
    set_threads, show, wait)
from ._transform import checkpoint, compile, custom_function, grad, jvp, value_and_grad, vjp, vmap

from math import e, inf, nan, pi
newaxis = None
concat = concatenate
acos, acosh, asin, asinh, atan, atan2, atanh = arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh
pow = power
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
permute_dims = transpose

__version__ = "0.1.0"
_core.hide_frames_of(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
