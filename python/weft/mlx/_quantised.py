"""Products of two matrices that are both rounded to a mode of small floats; all else of quantised matrices is C."""
from .. import _core
from ._array import _expect

_mlx = _core._mlx


def _is_float(x):
    return x.dtype.name in ("float16", "bfloat16", "float32")


def _check_rounded(what, x, w, scales, mode, global_scale_x, global_scale_w):
    if mode not in ("mxfp8", "nvfp4"):
        raise ValueError(f"{what}: mode={mode!r} is neither mxfp8 nor nvfp4")
    _expect(what, x, w)
    for a in (x,) if scales is not None else (x, w):
        if not _is_float(a):
            raise ValueError(f"{what}: of {a.dtype.name}")
    if (global_scale_x is None) != (global_scale_w is None):
        raise ValueError(f"{what}: both global scales or none")


def _rounded(x, form, scale):
    """x as it is after it was packed, in float32."""
    return _mlx.dequantize(*_mlx.quantize(x, **form, global_scale=scale), None, **form, global_scale=scale, dtype=_mlx.float32)


def qqmm(x, w, scales=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None, global_scale_w=None, *, stream=None):
    """x times w', both rounded to a mode of small floats; w may be packed already.

    >>> mx.qqmm(mx.ones((1, 32)), mx.ones((1, 32)), mode="mxfp8").tolist()
    [[32.0]]
    """
    _check_rounded("qqmm", x, w, scales, mode, global_scale_x, global_scale_w)
    form = {"group_size": group_size, "bits": bits, "mode": mode}
    if scales is None:
        w, scales = _mlx.quantize(w, **form, global_scale=global_scale_w)
    rounded = _rounded(x if x.ndim > 1 else _mlx.expand_dims(x, 0), form, global_scale_x)
    if global_scale_w is None:
        product = _mlx.quantized_matmul(rounded, w, scales, **form)
    else:
        matrix = _mlx.dequantize(w, scales, None, **form, global_scale=global_scale_w, dtype=_mlx.float32)
        product = _mlx.matmul(rounded, _mlx.swapaxes(matrix, -1, -2))
    return (product if x.ndim > 1 else _mlx.squeeze(product, 0)).astype(x.dtype)


def gather_qqmm(x, w, /, scales=None, lhs_indices=None, rhs_indices=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None,
                global_scale_w=None, *, sorted_indices=False, stream=None):
    """qqmm of the matrices that indices choose.

    >>> mx.gather_qqmm(mx.ones((1, 1, 32)), mx.ones((2, 1, 32)), rhs_indices=mx.array([1]), mode="mxfp8").tolist()
    [[[32.0]]]
    """
    _check_rounded("gather_qqmm", x, w, scales, mode, global_scale_x, global_scale_w)
    form = {"group_size": group_size, "bits": bits, "mode": mode}
    if scales is None:
        w, scales = _mlx.quantize(w, **form, global_scale=global_scale_w)
    product = _mlx.gather_qmm(_rounded(x, form, global_scale_x), w, scales, None, lhs_indices, rhs_indices, True, **form,
                              global_scale=global_scale_w)
    return product.astype(x.dtype)
