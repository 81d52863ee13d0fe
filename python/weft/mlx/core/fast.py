"""Norms, rotary positions and attention, which weft fuses like everything else."""
import math

from ... import _core
from ..._loop import scan as _scan
from .._array import _expect
from .._dtype import finfo
from .._missing import add_missing as _add_missing, missing as _missing
from .._device import _place_all

_mlx = _core._mlx


def _in_float(x, weight, call, bias=None):
    """Halves are computed in float32, and rounded once, to the type of x and, if there is a weight, of that and the bias."""
    dtype = x.dtype if weight is None else _mlx.result_type(x, weight, *([] if bias is None else [bias]))
    return call(x.astype(_mlx.float32)).astype(dtype) if x.dtype.size == 2 else call(x)


def _same_type(what, x, *others):
    _expect(what, x, *(other for other in others if other is not None))
    if not x.ndim:
        raise ValueError(f"{what}: the input has no axes")
    for other in others:
        if other is not None and other.shape != (x.shape[-1],):
            raise ValueError(f"{what}: weights of shape {other.shape} for {x.shape[-1]} elements")


def rms_norm(x, weight, eps, *, stream=None):
    """x / sqrt(mean x^2 + eps) weight, over the last axis.

    >>> mx.fast.rms_norm(mx.array([2.0, -2.0]), None, 0.0).tolist()
    [1.0, -1.0]
    """
    _same_type("rms_norm", x, weight)
    return _in_float(x, weight, lambda x: _mlx._rms_norm(x, weight, eps))


def layer_norm(x, weight, bias, eps, *, stream=None):
    """(x - mean) / sqrt(var + eps) weight + bias, over the last axis.

    >>> mx.fast.layer_norm(mx.array([1.0, 3.0]), None, None, 0.0).tolist()
    [-1.0, 1.0]
    """
    _same_type("layer_norm", x, weight, bias)
    return _in_float(x, weight, lambda x: _mlx._layer_norm(x, weight, bias, eps), bias)


def rope(a, dims, *, traditional, base, scale, offset, freqs=None, stream=None):
    """Rotary positions: pairs of the first dims elements of the last axis turn by angles that grow with the place.

    >>> mx.fast.rope(mx.ones((1, 1, 2)), 2, traditional=False, base=10000.0, scale=1.0, offset=0).tolist()
    [[[1.0, 1.0]]]
    """
    _expect("rope", a, *([] if freqs is None else [freqs]))
    if a.ndim < 3:
        raise ValueError(f"rope: an input of {a.ndim} axes")
    if (base is None) == (freqs is None):
        raise ValueError("rope: either base or freqs is given, and not both")
    if dims <= 0 or dims % 2 or dims > a.shape[-1]:
        raise ValueError(f"rope: {dims} of {a.shape[-1]} elements; it turns pairs")
    if not a.dtype.name.startswith(("float", "bfloat")):
        raise ValueError(f"rope: of {a.dtype.name}")
    is_array = isinstance(offset, _core.array)  # a number stays one: it is an argument of the kernel
    if is_array and (offset.ndim > 1 or (offset.ndim == 1 and offset.size not in (1, a.shape[0]))):
        raise ValueError(f"rope: an offset of shape {offset.shape} for a batch of {a.shape[0]}")
    if freqs is not None and freqs.shape != (dims // 2,):
        raise ValueError(f"rope: freqs of shape {freqs.shape} for {dims // 2} pairs")
    if scale == 0:  # nothing turns
        return a
    offset = offset.reshape(()) if is_array and offset.ndim and offset.size == 1 else offset
    return _mlx._rope(a, dims, traditional, 1.0 if base is None else base, scale, offset, freqs)


def scaled_dot_product_attention(q, k, v, *, scale, mask=None, sinks=None, force_fused=False, stream=None):
    """softmax(q k' scale + mask) v; several heads of q may share one of k and v.

    >>> mx.fast.scaled_dot_product_attention(*[mx.ones((1, 1, 1, 2))] * 3, scale=1.0).tolist()
    [[[[1.0, 1.0]]]]
    """
    _expect("scaled_dot_product_attention", q, k, v, *([] if mask is None or isinstance(mask, str) else [mask]))
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"scaled_dot_product_attention: {name} has {x.ndim} axes, not 4")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"scaled_dot_product_attention: {q.shape[1]} heads of q for {k.shape[1]} of k and v")
    if isinstance(mask, str) and mask != "causal":
        raise ValueError(f"scaled_dot_product_attention: the mask {mask!r} is neither 'causal' nor an array")
    dtype = _mlx.result_type(q, k, v)
    if isinstance(mask, _core.array) and mask.dtype != _mlx.bool_ and _mlx.result_type(mask.dtype, dtype) != dtype:
        raise ValueError(f"scaled_dot_product_attention: a mask of {mask.dtype.name} for arrays of {dtype.name}")
    wide = _mlx.float32 if dtype.size == 2 else dtype
    if isinstance(mask, _core.array):
        scores = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        if len(mask.shape) > 4 or any(n not in (1, m) for n, m in zip(mask.shape[::-1], scores[::-1])):
            raise ValueError(f"scaled_dot_product_attention: a mask of shape {mask.shape} for scores of {scores}")
    if sinks is not None and (sinks.shape != (q.shape[1],) or _mlx.result_type(sinks.dtype, dtype) != dtype):
        raise ValueError(f"scaled_dot_product_attention: sinks of {sinks.shape} {sinks.dtype.name} for {q.shape[1]} heads of {dtype.name}")
    if isinstance(mask, str) and (sinks is not None or q.shape[2] > k.shape[2]):  # the first rows see nothing
        mask = _mlx.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], _mlx.bool_)
    if sinks is None:
        if isinstance(mask, _core.array):  # a row that sees nothing is a mean, not nan
            hidden = _mlx.array(finfo(wide).min, wide)
            mask = _mlx.where(mask, _mlx.array(0, wide), hidden) if mask.dtype == _mlx.bool_ else mask.astype(wide)
        return _mlx._attention(q.astype(wide), k.astype(wide), v.astype(wide), scale, mask).astype(dtype)
    heads, shared = q.shape[1], k.shape[1]
    repeat = heads // shared
    q, k, v = (x.astype(wide) for x in (q, k, v))
    k, v = (_mlx.repeat(x, repeat, 1) for x in (k, v))
    scores = (q * scale) @ _mlx.swapaxes(k, -1, -2)
    if mask is not None:
        scores = _mlx.where(mask, scores, -math.inf) if mask.dtype == _mlx.bool_ else scores + mask.astype(wide)
    sink = _mlx.broadcast_to(sinks.astype(wide).reshape((1, heads, 1, 1)), scores.shape[:-1] + (1,))
    weights = _mlx.softmax(_mlx.concatenate([sink, scores], -1), -1)[..., 1:]
    return (weights @ v).astype(dtype)


def cross_entropy(logits, targets, *, stream=None):
    """-log softmax(logits) at the targets, over the last axis.

    >>> mx.fast.cross_entropy(mx.array([[0.0, -mx.inf]]), mx.array([0])).tolist()
    [0.0]
    """
    score = _mlx._take_along(logits, _mlx.expand_dims(targets, -1), -1)
    return _mlx.logsumexp(logits, -1) - _mlx.squeeze(score, -1)


def gated_delta_update(q, k, v, gamma, beta, initial_state=None, mask=None, stream=None):
    """The gated delta rule, step by step along axis 1: the state [B, Hv, Dv, Dk] fades by gamma, learns beta (v - state k) k', and
    answers state q. Heads of q and k serve several of v. Where the mask is false the state stays, and the answer is 0.

    >>> [a.tolist() for a in mx.fast.gated_delta_update(*[mx.ones((1, 2, 1, 1))] * 3, *[mx.ones((1, 2, 1))] * 2)]
    [[[[[1.0]], [[1.0]]]], [[[[1.0]]]]]
    """
    _expect("gated_delta_update", q, k, v, gamma, beta)
    for name, x, rank in (("q", q, 4), ("k", k, 4), ("v", v, 4), ("beta", beta, 3)):
        if x.ndim != rank:
            raise ValueError(f"gated_delta_update: {name} has {x.ndim} axes, not {rank}")
    if v.shape[2] % q.shape[2] or q.shape != k.shape or v.shape[:2] != q.shape[:2] or not q.shape[1]:
        raise ValueError(f"gated_delta_update: q of shape {q.shape}, k of {k.shape} and v of {v.shape}")
    dtype = _mlx.result_type(q, k, v)
    dtype = dtype if dtype.name.startswith(("float", "bfloat")) else _mlx.float32
    shared = v.shape[2] // q.shape[2]
    fades = gamma if gamma.ndim == 4 else _mlx.expand_dims(gamma, -1)
    rows = [x.astype(_mlx.float32) for x in (_mlx.repeat(q, shared, 2), _mlx.repeat(k, shared, 2), v, fades, beta)]
    rows.append(_mlx.ones(q.shape[:2], _mlx.bool_) if mask is None else mask.astype(_mlx.bool_))
    shape = v.shape[:1] + v.shape[2:] + q.shape[3:]
    state = _mlx.zeros(shape) if initial_state is None else _mlx.broadcast_to(initial_state, shape).astype(_mlx.float32)
    state, answers = _scan(_delta_step, state, [_mlx.swapaxes(x, 0, 1) for x in rows])
    return [_mlx.swapaxes(answers, 0, 1).astype(dtype), state]


def _delta_step(state, row):
    q, k, v, fade, beta, seen = row
    q, k, seen = _mlx.expand_dims(q, 2), _mlx.expand_dims(k, 2), seen.reshape(seen.shape + (1, 1, 1))
    faded = state * _mlx.expand_dims(fade, 2)
    miss = (v - _mlx.sum(faded * k, -1)) * _mlx.expand_dims(beta, -1)
    learnt = faded + k * _mlx.expand_dims(miss, -1)
    answer = _mlx.where(seen[..., 0], _mlx.sum(learnt * q, -1), 0.0)
    return _mlx.where(seen, learnt, state), answer


_FOREIGN = "kernels in another language cannot be given to weft yet"


def metal_kernel(name, input_names, output_names, source, header="", ensure_row_contiguous=True, atomic_outputs=False, compile_options=None):
    """A kernel of Metal's, which modules make when they are imported whether or not they will call it: its call is refused.

    >>> mx.fast.metal_kernel("twice", ["x"], ["y"], "y[0] = 2 * x[0];")()
    Traceback (most recent call last):
    NotImplementedError: mlx.core.fast.metal_kernel: kernels in another language cannot be given to weft yet: 'twice'
    """
    return _missing("mlx.core.fast", "metal_kernel", f"{_FOREIGN}: {name!r}")


_add_missing(globals(), "mlx.core.fast", ["cuda_kernel", "precompiled_cuda_kernel"], _FOREIGN)
_place_all(globals())
