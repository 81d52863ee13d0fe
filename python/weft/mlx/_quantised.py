"""Products of two matrices that are both rounded to a mode of small floats; all else of quantised matrices is C."""
from .. import _core

_mlx = _core._mlx


def _is_float(x):
    return x.dtype.name in ("float16", "bfloat16", "float32")


def qqmm(x, w, scales=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None, global_scale_w=None, *, stream=None):
    """x times w', both rounded to a mode of small floats; w may be packed already."""
    if mode not in ("mxfp8", "nvfp4"):
        raise ValueError(f"qqmm: mode={mode!r} is neither mxfp8 nor nvfp4")
    for a in (x,) if scales is not None else (x, w):
        if not _is_float(a):
            raise ValueError(f"qqmm: of {a.dtype.name}")
    if (global_scale_x is None) != (global_scale_w is None):
        raise ValueError("qqmm: both global scales or none")
    form = {"group_size": group_size, "bits": bits, "mode": mode}
    if scales is None:
        w, scales = _mlx.quantize(w, **form, global_scale=global_scale_w)
    rows = x if x.ndim > 1 else _mlx.expand_dims(x, 0)
    rounded = _mlx.dequantize(*_mlx.quantize(rows, **form, global_scale=global_scale_x), None, **form, global_scale=global_scale_x,
                              dtype=_mlx.float32)
    if global_scale_w is None:
        product = _mlx.quantized_matmul(rounded, w, scales, **form)
    else:
        matrix = _mlx.dequantize(w, scales, None, **form, global_scale=global_scale_w, dtype=_mlx.float32)
        product = _mlx.matmul(rounded, _mlx.swapaxes(matrix, -1, -2))
    return (product if x.ndim > 1 else _mlx.squeeze(product, 0)).astype(x.dtype)
