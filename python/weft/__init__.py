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

try:
    from . import _core
except ImportError as _why:  # most often of another Python than the one it was built for
    import sysconfig as _sysconfig
    _suffix = _sysconfig.get_config_var("EXT_SUFFIX")
    _built = sorted(_name for _name in _os.listdir(_os.path.dirname(__file__)) if _name.startswith("_core.") and _name.endswith(_suffix[-3:]))
    if "_core" + _suffix in _built:
        raise
    raise ImportError(f"weft is not built for this Python: there is no _core{_suffix} in {_os.path.dirname(__file__)}, "
                      f"but {', '.join(_built) or 'none for another'}. The python3 that is first in PATH is the one it is built for") from _why
from . import linalg, random, special
from ._core import (        # a line, or more, for each first letter
    abs, add, addmm, all, allclose, any, arange, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, argmax,
    argmin, argpartition, argsort, argtopk, array, array_equal, as_strided, asarray, assert_, astype, attention,
    AxisError,
    beta, betainc, betaincinv, betaln, bfloat16, bincount, bitwise_and, bitwise_count, bitwise_invert, bitwise_or,
    bitwise_xor, block_masked_mm, bool_, broadcast_to,
    ceil, CheckError, choose, clip, complex, complex128, complex64, concatenate, conj, conv, convolve, correlate, cos, cosh, cummax,
    cummin, cumprod, cumsum,
    degrees, depends, dequantize, diag, diagonal, diff, digamma, digitize, divide, divmod, dot, Dtype,
    ediff1d, einsum, equal, erf, erfc, erfcinv, erfcx, erfinv, exp, exp2, expand_dims, expm1, eye,
    flatnonzero, flatten, flip, float16, float32, float64, float8_e4m3fn, float8_e5m2, floor, floor_divide, fma, fmod, from_dlpack, from_f8,
    full, full_like,
    gamma, gammainc, gammaincc, gammainccinv, gammaincinv, gather_mm, gather_qmm, gcd, gelu, gelu_approx, greater, greater_equal,
    hadamard_transform, histogram, histogram2d, histogram_bin_edges, histogramdd, host, hyp2f1, hypot,
    i0, i0e, i1, i1e, identity, imag, inner, int16, int32, int64, int8, interp, isclose, isfinite, isinf, isnan,
    iv, ive,
    j0, j1, jv,
    kron, kv, kve,
    layer_norm, lcm, left_shift, less, less_equal, lgamma, linspace, log, log10, log1mexp, log1p, log2, log_ndtr,
    log_softmax, logaddexp, logcumsumexp, logical_and, logical_not, logical_or, logical_xor, logit, logsumexp,
    matmul, matrix_power, max, max_pool, maximum, mean, mean_pool, median, meshgrid, min, minimum, moveaxis,
    multiply,
    nan_to_num, nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmedian, nanmin, nanprod,
    nanquantile, nanstd, nansum, nanvar, ndtr, ndtri, negative, nonzero, not_equal, NoValueError,
    ones, ones_like, outer, owens_t,
    pad, partition, polygamma, positive, power, prod, put_along_axis,
    quantile, quantize, quantized_matmul,
    radians, RangeError, ravel, real, reciprocal, relu, remainder, repeat, reshape, resize, result_type, right_shift, rms_norm,
    roll, rope, rot90, round, rsqrt,
    searchsorted, segmented_mm, sigmoid, sign, silu, sin, sinc, sinh, size, sized, softmax, softplus, sort, split,
    sqrt, square, squeeze, stack, state, std, stop_gradient, subtract, sum, swapaxes,
    take, take_along_axis, tan, tanh, tensordot, tile, to_device, to_f8, topk, trace, transpose, trapezoid, tri,
    trigamma, tril, triu, trunc,
    uint16, uint32, uint64, uint8, unique,
    var, view,
    where, window, windows,
    xlog1py, xlogy,
    zeros, zeros_like, zeta)
from ._composed import (
    angle, append, argwhere, array_equiv, array_split, atleast_1d, atleast_2d, atleast_3d, average, bartlett, blackman, block,
    cbrt, column_stack, compress, corrcoef, cov, cross, delete, diag_indices, diagflat, dsplit, dstack, extract, fliplr,
    flipud, float_power, fmax, fmin, geomspace, gradient, hamming, hanning, heaviside, hsplit, hstack, indices, insert,
    intersect1d, iscomplex, isneginf, isposinf, isreal, kaiser, ldexp, lexsort, logaddexp2, logspace, matvec, modf,
    nanpercentile, ndim, percentile, piecewise, polyadd, polyder, polyint, polymul, polysub, polyval, ptp, ravel_multi_index,
    rint, rollaxis, select, setdiff1d, setxor1d, shape, tril_indices, trim_zeros, triu_indices, union1d, unravel_index,
    unwrap, vander, vdot, vecmat, vsplit, vstack)
from ._file import load, save, save_safetensors
from ._loop import cond, scan, while_loop
from ._run import (
    async_eval, clear_cache, device_count, einsum_path, eval, fetch, get_active_memory, get_cache_memory, get_peak_memory,
    kernels_compiled, live_nodes, plan, reset_peak_memory, set_blas, set_cache_limit, set_check, set_device, set_halves,
    set_memory_limit, set_tf32, set_threads, show, wait)
from ._standard import (
    __array_namespace_info__, broadcast_arrays, broadcast_shapes, can_cast, copysign, count_nonzero, cumulative_prod, cumulative_sum,
    empty, empty_like, finfo, iinfo, isdtype, isin, matrix_transpose, nextafter, permute_dims, signbit, unique_all,
    unique_counts, unique_inverse, unique_values, unstack, vecdot)
from ._transform import checkpoint, compile, custom_function, grad, jvp, value_and_grad, vjp, vmap

from math import e, inf, nan, pi
newaxis = None
bool = bool_

# Functions under another name, which their messages begin with.
_also = _core.also
concat = _also("concat", concatenate)
acos, acosh, asin, asinh = _also("acos", arccos), _also("acosh", arccosh), _also("asin", arcsin), _also("asinh", arcsinh)
atan, atan2, atanh, pow = _also("atan", arctan), _also("atan2", arctan2), _also("atanh", arctanh), _also("pow", power)
bitwise_left_shift, bitwise_right_shift = _also("bitwise_left_shift", left_shift), _also("bitwise_right_shift", right_shift)
bitwise_not, invert = _also("bitwise_not", bitwise_invert), _also("invert", bitwise_invert)
absolute, conjugate, fix, around = _also("absolute", abs), _also("conjugate", conj), _also("fix", trunc), _also("around", round)
amax, amin, mod, true_divide = _also("amax", max), _also("amin", min), _also("mod", remainder), _also("true_divide", divide)
deg2rad, rad2deg = _also("deg2rad", radians), _also("rad2deg", degrees)

__version__ = "0.1.0"
__array_api_version__ = "2024.12"


def as_mlx():
    """From here on `import mlx.core` is weft: see weft.mlx."""
    from .mlx import as_mlx
    return as_mlx()


_core.hide_frames_of(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
