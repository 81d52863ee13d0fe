"""Quantised matrices: integers of 2 to 8 bits or small floats in groups along the last axis, packed into uint32, with a scale for each
group, and in mode "affine" a bias. A row is one stream of bits, least significant first. Products take the matrix apart on
the way: what is unpacked is fused into the product where weft fuses it."""
import math

from .. import _core

_mlx = _core._mlx
array = _mlx.array

_MODES = {"affine": (64, 4), "mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
_FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
_LARGEST = {4: 6.0, 8: 448.0}  # of the small floats with so many bits


def _fp8(code):
    """The value of an e4m3 byte."""
    sign, exponent, rest = -1.0 if code & 128 else 1.0, code >> 3 & 15, code & 7
    if exponent == 15 and rest == 7:
        return math.nan
    return sign * (rest * 2.0 ** -9 if not exponent else (8 + rest) * 2.0 ** (exponent - 10))


_FP8 = [_fp8(code) for code in range(256)]


def _how(mode, group_size, bits):
    if mode not in _MODES:
        raise ValueError(f"quantised: mode={mode!r} is none of {', '.join(_MODES)}")
    group_size, bits = group_size or _MODES[mode][0], bits or _MODES[mode][1]
    if mode == "affine":
        if group_size not in (32, 64, 128):
            raise ValueError(f"quantised: groups of {group_size}, of 32, 64 or 128")
        if bits not in (2, 3, 4, 5, 6, 8):
            raise ValueError(f"quantised: {bits} bits, of 2, 3, 4, 5, 6 or 8")
    elif (group_size, bits) != _MODES[mode]:
        raise ValueError(f"quantised: {mode} has groups of {_MODES[mode][0]} and {_MODES[mode][1]} bits, not {group_size} and {bits}")
    return group_size, bits


def _is_float(x):
    return x.dtype.name in ("float16", "bfloat16", "float32")


# ---- Bits


def _pack(q, bits):
    """[.., n] numbers of so many bits as [.., n bits / 32] uint32."""
    q = q.astype(_mlx.uint32)
    if 32 % bits == 0:
        parts = q.reshape(q.shape[:-1] + (-1, 32 // bits))
        shift = _mlx._arange(0, 32, bits, _mlx.uint32)
    else:
        each = _mlx.bitwise_and(_mlx.right_shift(_mlx.expand_dims(q, -1), _mlx._arange(0, bits, 1, _mlx.uint32)), array(1, _mlx.uint32))
        parts = each.reshape(q.shape[:-1] + (-1, 32))
        shift = _mlx._arange(0, 32, 1, _mlx.uint32)
    return _mlx.sum(_mlx.left_shift(parts, shift), -1).astype(_mlx.uint32)


def _unpack(w, groups, bits):
    """The numbers of so many bits that a row of uint32 holds, as [.., groups, words or blocks of words, numbers in them]: for sums
    over groups. No axis is joined with another, so that nothing is copied for it."""
    if 32 % bits == 0:
        words = w.reshape(w.shape[:-1] + (groups, -1, 1))
        return _mlx.bitwise_and(_mlx.right_shift(words, _mlx._arange(0, 32, bits, _mlx.uint32)), (1 << bits) - 1)
    block = w.reshape(w.shape[:-1] + (groups, -1, bits))  # 32 numbers are `bits` words
    return _numbers(block, 32, bits)


def _numbers(w, n, bits):
    """The n numbers of so many bits that a row of uint32 holds, read where they are used."""
    bit = _mlx._arange(0, n, 1, _mlx.uint32) * bits
    word, offset = bit // 32, bit % 32
    q = _mlx.right_shift(_mlx.take(w, word, -1), offset)
    if 32 % bits:  # some lie across two words
        rest = _mlx.take(w, _mlx.minimum(word + 1, w.shape[-1] - 1), -1)
        q = _mlx.bitwise_or(q, _mlx.left_shift(rest, 32 - offset))
    return _mlx.bitwise_and(q, (1 << bits) - 1)


# ---- Small floats


def to_fp8(x, *, stream=None):
    """The nearest e4m3 float, as a uint8; halves to the even one, beyond 448 that."""
    x = x.astype(_mlx.float32)
    size = _mlx.minimum(_mlx.abs(x), 448.0)
    step = _mlx._exp2(_mlx.clip(_mlx.floor(_mlx.log2(_mlx.maximum(size, 2.0 ** -20))), -6.0, 8.0) - 3.0)
    size = _mlx.round(size / step) * step  # a number that e4m3 has
    exponent = _mlx.clip(_mlx.floor(_mlx.log2(_mlx.maximum(size, 2.0 ** -20))), -6.0, 8.0)
    digits = size / _mlx._exp2(exponent - 3.0)
    code = _mlx.where(digits < 8, digits, (exponent + 7) * 8 + digits - 8)
    code = _mlx.where(_mlx.isnan(x), 127.0, code).astype(_mlx.uint8)
    is_negative = _mlx.logical_or(x < 0, _mlx.reciprocal(x) < 0)
    return _mlx.bitwise_or(code, _mlx.where(is_negative, array(128, _mlx.uint8), array(0, _mlx.uint8)))


def from_fp8(x, dtype=None, *, stream=None):
    """The numbers of e4m3 bytes."""
    if x.dtype != _mlx.uint8:
        raise ValueError(f"from_fp8: bytes are expected, not {x.dtype.name}")
    return _mlx.take(array(_FP8, _mlx.float32), x, 0).astype(dtype or _mlx.bfloat16)


def _fp4_code(x):
    """The nearest of the eight sizes, the lower one of two that are as near, and the sign."""
    code = _mlx.zeros(x.shape, _mlx.uint32)
    for low, high in zip(_FP4, _FP4[1:]):
        code = code + (_mlx.abs(x) > (low + high) / 2).astype(_mlx.uint32)
    return _mlx.where(_mlx.logical_and(x < 0, code > 0), code + 8, code)


# ---- There and back


def quantize(w, /, group_size=None, bits=None, mode="affine", *, global_scale=None, stream=None):
    """[packed, scales, biases] of a matrix, or [packed, scales] in the modes of small floats."""
    group_size, bits = _how(mode, group_size, bits)
    if not _is_float(w):
        raise ValueError(f"quantize: a matrix of floats is expected, not of {w.dtype.name}")
    if w.ndim < 2:
        raise ValueError(f"quantize: a matrix is expected, not an array of {w.ndim} axes")
    if w.shape[-1] % group_size:
        raise ValueError(f"quantize: {w.shape[-1]} columns are no whole number of groups of {group_size}")
    if global_scale is not None and mode != "nvfp4":
        raise ValueError(f"quantize: a global scale in mode {mode}")
    groups = w.reshape(w.shape[:-1] + (w.shape[-1] // group_size, group_size))
    if mode == "affine":
        return _quantize_affine(w, groups, bits)
    if mode == "nvfp4":
        per_scale = 1.0 if global_scale is None else _LARGEST[8] * _LARGEST[4] / global_scale
        scales = to_fp8(_mlx.max(_mlx.abs(groups), -1).astype(_mlx.float32) / _LARGEST[bits] * per_scale)
        size = from_fp8(scales, _mlx.float32) / per_scale
    else:
        largest = _mlx.max(_mlx.abs(groups), -1).astype(_mlx.float32) / _LARGEST[bits]
        exponent = _mlx.where(largest == 0, 0.0, _mlx.ceil(_mlx.log2(largest)))  # nothing is cut off
        scales, size = (exponent + 127).astype(_mlx.uint8), _mlx._exp2(exponent)
    size = _mlx.expand_dims(size, -1)
    ratio = _mlx.where(size == 0, 0.0, groups.astype(_mlx.float32) / size)
    code = (_fp4_code(ratio) if bits == 4 else to_fp8(ratio)).reshape(w.shape)
    return [_pack(code, bits), scales]


def _quantize_affine(w, groups, bits):
    """The end of a group that is farther from 0 is met exactly, by a whole number of steps."""
    low, high = (f(groups, -1).astype(_mlx.float32) for f in (_mlx.min, _mlx.max))
    is_low = _mlx.abs(low) > _mlx.abs(high)
    step = _mlx.maximum((high - low) / (2 ** bits - 1), 1e-7)
    step, edge = _mlx.where(is_low, step, -step), _mlx.where(is_low, low, high)
    steps = _mlx.round(edge / step)
    scales = _mlx.where(steps == 0, step, edge / steps).astype(w.dtype)
    biases = _mlx.where(steps == 0, 0.0, edge).astype(w.dtype)
    q = (groups - _mlx.expand_dims(biases, -1)) / _mlx.expand_dims(scales, -1)
    q = _mlx.clip(_mlx.round(q), 0, 2 ** bits - 1).reshape(w.shape)
    return [_pack(q, bits), scales, biases]


def _check(what, w, scales, biases, mode, group_size, bits):
    if w.dtype != _mlx.uint32:
        raise ValueError(f"{what}: the packed matrix is uint32, not {w.dtype.name}")
    if mode == "affine":
        if biases is None:
            raise ValueError(f"{what}: mode affine has biases")
        if scales.shape != biases.shape:
            raise ValueError(f"{what}: scales of shape {scales.shape} and biases of {biases.shape}")
        if not _is_float(scales):
            raise ValueError(f"{what}: scales of {scales.dtype.name}")
    elif biases is not None:
        raise ValueError(f"{what}: mode {mode} has no biases")
    elif scales.dtype != _mlx.uint8:
        raise ValueError(f"{what}: scales of {scales.dtype.name}, in mode {mode} they are uint8")
    if w.ndim != scales.ndim or w.shape[:-1] != scales.shape[:-1] or w.shape[-1] * 32 // bits != scales.shape[-1] * group_size:
        raise ValueError(f"{what}: {w.shape} packed with {bits} bits and scales of {scales.shape} for groups of {group_size}")


def _expand(w, scales, biases, mode, group_size, bits, global_scale=None, dtype=None):
    """The matrix that was packed."""
    n = scales.shape[-1] * group_size
    q, group = _numbers(w, n, bits), _mlx._arange(0, n, 1, _mlx.uint32) // group_size
    for_group = lambda a: _mlx.take(a, group, -1)
    if mode == "affine":
        dtype = dtype or scales.dtype
        wide = _mlx.float32 if scales.dtype.size == 2 else scales.dtype
        value = q.astype(wide) * for_group(scales.astype(wide)) + for_group(biases.astype(wide))
    else:
        dtype, wide = dtype or _mlx.bfloat16, _mlx.float32
        size = from_fp8(scales, wide) if mode == "nvfp4" else _mlx._exp2(scales.astype(wide) - 127)
        if global_scale is not None:
            size = size * (global_scale / (_LARGEST[8] * _LARGEST[4]))
        table = array(_FP4 + [-x for x in _FP4] if bits == 4 else _FP8, wide)
        value = _mlx.take(table, q, 0) * for_group(size)
    return value.astype(dtype)


def dequantize(w, /, scales, biases=None, group_size=None, bits=None, mode="affine", global_scale=None, dtype=None, *, stream=None):
    """The matrix that was packed."""
    group_size, bits = _how(mode, group_size, bits)
    if global_scale is not None and mode != "nvfp4":
        raise ValueError(f"dequantize: a global scale in mode {mode}")
    if dtype is not None and not dtype.name.startswith(("float", "bfloat")):
        raise ValueError(f"dequantize: to {dtype.name}")
    _check("dequantize", w, scales, biases, mode, group_size, bits)
    return _expand(w, scales, biases, mode, group_size, bits, global_scale, dtype)


_FEW = 16  # rows, for which unpacking the matrix for each is less work than storing it unpacked


def _few_rows(x, w, scales, biases, bits):
    """sum over groups g of scale_g (sum over k in g of x_k q_k) + bias_g (sum over k in g of x_k): one pass over the packed matrix."""
    q = _unpack(w, scales.shape[-1], bits).astype(_mlx.float32)
    rows = x.reshape((-1, 1) + q.shape[1:])
    of_group = _mlx.sum(rows * q, (-1, -2)) * scales.astype(_mlx.float32) + _mlx.sum(rows, (-1, -2)) * biases.astype(_mlx.float32)
    return _mlx.sum(of_group, -1).reshape(x.shape[:-1] + (w.shape[0],))


def _product(what, x, w, scales, biases, transpose, mode, group_size, bits):
    _check(what, w, scales, biases, mode, group_size, bits)
    dtype = _mlx.result_type(x, scales) if mode == "affine" else x.dtype
    if not dtype.name.startswith(("float", "bfloat")):
        raise ValueError(f"{what}: of {x.dtype.name}")
    inner = w.shape[-1] * 32 // bits if transpose else w.shape[-2]
    if x.shape[-1] != inner:
        raise ValueError(f"{what}: rows of {x.shape[-1]} for a matrix of {inner}")
    if mode != "affine":
        scales = _mlx.stop_gradient(scales)
    if mode == "affine" and transpose and w.ndim == 2 and 0 < math.prod(x.shape[:-1]) <= _FEW:
        return _few_rows(x.astype(_mlx.float32), w, scales, biases, bits).astype(dtype)
    matrix = _expand(w, scales, biases, mode, group_size, bits, dtype=_mlx.float32 if dtype.size == 2 else dtype)
    x = x.astype(matrix.dtype)
    product = _mlx.matmul(x, _mlx.swapaxes(matrix, -1, -2) if transpose else matrix)
    return product.astype(dtype)


def quantized_matmul(x, w, /, scales, biases=None, transpose=True, group_size=None, bits=None, mode="affine", *, stream=None):
    """x times a packed matrix, which is transposed by default."""
    group_size, bits = _how(mode, group_size, bits)
    return _product("quantized_matmul", x, w, scales, biases, transpose, mode, group_size, bits)


def gather_qmm(x, w, /, scales, biases=None, lhs_indices=None, rhs_indices=None, transpose=True, group_size=None, bits=None,
               mode="affine", *, sorted_indices=False, stream=None):
    """Products of the matrices that indices choose, those on the right packed."""
    from ._array import broadcast_arrays
    if lhs_indices is None and rhs_indices is None:
        return quantized_matmul(x, w, scales, biases, transpose, group_size, bits, mode)
    group_size, bits = _how(mode, group_size, bits)
    every = lambda a: _mlx._arange(0, math.prod(a.shape[:-2]), 1, _mlx.uint32).reshape(a.shape[:-2])
    if x.ndim < 2:
        raise ValueError(f"gather_qmm: an array of {x.ndim} axes")
    lhs = every(x) if lhs_indices is None else lhs_indices
    rhs = every(w) if rhs_indices is None else rhs_indices
    lhs, rhs = broadcast_arrays(lhs, rhs)
    flat = lambda a: a.reshape((-1,) + a.shape[-2:])
    w, scales, biases = (a if a is None else flat(a)[rhs] for a in (w, scales, biases))
    return _product("gather_qmm", flat(x)[lhs], w, scales, biases, transpose, mode, group_size, bits)


def qqmm(x, w, scales=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None, global_scale_w=None, *, stream=None):
    """x times w', both rounded to a mode of small floats; w may be packed already."""
    if mode not in ("mxfp8", "nvfp4"):
        raise ValueError(f"qqmm: mode={mode!r} is neither mxfp8 nor nvfp4")
    group_size, bits = _how(mode, group_size, bits)
    for a in (x,) if scales is not None else (x, w):
        if not _is_float(a):
            raise ValueError(f"qqmm: of {a.dtype.name}")
    if (global_scale_x is None) != (global_scale_w is None):
        raise ValueError("qqmm: both global scales or none")
    if scales is None:
        w, scales = quantize(w, group_size, bits, mode, global_scale=global_scale_w)
    _check("qqmm", w, scales, None, mode, group_size, bits)
    rounded = _expand(*quantize(x, group_size, bits, mode, global_scale=global_scale_x), None, mode, group_size, bits, global_scale_x,
                      _mlx.float32)
    matrix = _expand(w, scales, None, mode, group_size, bits, global_scale_w, _mlx.float32)
    return _mlx.matmul(rounded, _mlx.swapaxes(matrix, -1, -2)).astype(x.dtype)
