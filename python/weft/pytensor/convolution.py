"""Convolutions of one and two axes."""
import numpy as np
import weft
from pytensor.tensor.signal.conv import Convolve1d, Convolve2d

from .row import row
from .value import NoRow, array, known, shape


@row(Convolve1d, Convolve2d, batched=True)
def convolve(node, values, trace):
    """A batch of kernels is a convolution in as many groups: its rows are channels that do not meet."""
    op, dtype, is_full = node.op, node.outputs[0].type.dtype, np.asarray(known(values[2]))
    if dtype in ("bool", "float16") or is_full.min() != is_full.max():
        raise NoRow(op)
    x, w = (array(v, dtype) for v in values[:2])
    core = lambda v: shape(v)[-op.ndim:]
    if 0 in (*core(x), *core(w)):
        raise ValueError(f"{type(op).__name__}: an operand is empty: {shape(x)} and {shape(w)}")
    if not is_full.all():
        x, w = (x, w) if core(x) >= core(w) else (w, x)
        if any(n < k for n, k in zip(core(x), core(w))):
            raise ValueError(f"{type(op).__name__}: one of the operands has to be at least as long along each axis")
    batch = np.broadcast_shapes(shape(x)[:-op.ndim], shape(w)[:-op.ndim])
    rows = int(np.prod(batch))
    if rows == 0:
        raise NoRow(op)
    x, w = (weft.broadcast_to(v, (*batch, *core(v))).reshape((rows, *core(v))) for v in (x, w))
    if op.ndim == 1 and is_full.all() and x.dtype.name.startswith(("float", "complex")):
        y = weft.cond(weft.all(weft.isfinite(w)), lambda x, w: in_groups(x, w, True), element_by_element, x, w)
    else:
        y = in_groups(x, w, is_full.all())
    return y.reshape((*batch, *shape(y)[1:]))


def in_groups(x, w, is_full):
    """[rows, n..] with [rows, k..]. Beyond the ends of x are zeros."""
    around = tuple(k - 1 for k in shape(w)[1:]) if is_full else 0
    x = weft.expand_dims(weft.moveaxis(x, 0, -1), 0)
    y = weft.conv(x, weft.expand_dims(w, -1), padding=around, groups=shape(w)[0], flip=True)
    return weft.moveaxis(weft.squeeze(y, 0), -1, 0)


def element_by_element(x, w):
    """The same of vectors, full, with nothing beyond the ends, as NumPy has it: a zero there times inf or nan in w would be nan."""
    n, k = shape(x)[1], shape(w)[1]
    at = np.arange(n + k - 1)[:, None] - np.arange(k)
    parts = x[:, np.clip(at, 0, n - 1)] * weft.expand_dims(w, 1)
    return weft.sum(weft.where((at >= 0) & (at < n), parts, 0), -1).astype(x.dtype)
