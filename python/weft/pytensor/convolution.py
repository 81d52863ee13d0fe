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
    around = tuple(k - 1 for k in core(w)) if is_full.all() else 0
    y = weft.conv(weft.expand_dims(weft.moveaxis(x, 0, -1), 0), weft.expand_dims(w, -1), padding=around, groups=rows, flip=True)
    y = weft.moveaxis(weft.squeeze(y, 0), -1, 0)
    return y.reshape((*batch, *shape(y)[1:]))
