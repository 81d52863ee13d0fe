"""What a variable of a graph is while the graph is traced.

A value is a weft array, an expression of the names of the function; or it is *known*: a NumPy array or a number, of a constant, a
size, or what is computed of those. Sizes, slices and numbers of steps are known, or *open*: integers that the sizes of names tell. A
random generator is an array of four words (random.py). Who needs to know a value that is an expression raises NeedsValue with it; the
program (program.py) then has it computed first.
"""
import threading
from contextlib import contextmanager

import numpy as np
import weft
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import DenseTensorType
from weft import _core
from weft._size import settled, sizes as weft_sizes

DTYPE = {name: getattr(weft, "bool_" if name == "bool" else name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128")}

FAILURES = (ArithmeticError, AssertionError, LookupError, NotImplementedError, TypeError, ValueError)
"""What tracing a graph raises where its values or sizes do not fit."""


class NeedsValue(Exception):
    """The value of an expression has to be known to trace what is made of it."""

    def __init__(self, value, why=""):
        super().__init__(why)
        self.value = value


class NotOpen(Exception):
    """A step wants sizes as numbers: the graph is traced for each set of sizes."""

    def __init__(self, step):
        super().__init__(step)
        self.step = step


class NoRow(Exception):
    """There is no row for this use of an Op: its perform is to be called."""


def is_tensor(variable):
    return isinstance(variable.type, (DenseTensorType, ScalarType))


def is_array(variable):
    """Whether its values can be arrays of weft: tensors that are not sparse, numbers, random generators."""
    return isinstance(variable.type, (DenseTensorType, ScalarType, RandomType))


def is_expression(value):
    return isinstance(value, weft.array)


def known(value):
    if is_expression(value):
        raise NeedsValue(value)
    return value


def integer(value):
    return int(known(value))


def integers(values):
    return tuple(integer(value) for value in values)


def extent(value):
    """An integer that bounds something: a number, or open. NeedsValue: it is neither."""
    if not is_expression(value):
        return int(np.asarray(value).item())
    told = _core.told(value)
    if told is False:
        raise NeedsValue(value, "an integer that only a run tells")
    return value if told is True else told


def extents(values):
    """Those of a list, or of a vector."""
    if is_expression(values):
        return tuple(settled(values[k]) if _core.told(values[k]) is not False else needed(values) for k in range(shape(values)[0]))
    return tuple(extent(value) for value in values)


def bounds(values, trace):
    """As extents; inside of a body, where nothing can be computed first, integers that only a run tells are themselves."""
    return tuple(value if trace.is_body and is_expression(value) and _core.told(value) is False else extent(value) for value in values)


def needed(value):
    raise NeedsValue(value, "integers that only a run tells")


def is_open(n):
    return is_expression(n)


def array(value, dtype=None):
    """As an array of weft, of this dtype if one is named."""
    if not is_expression(value):
        value = np.asarray(value)
        if dtype and np.can_cast(value.dtype, dtype, "same_kind"):  # once, here, rather than in every call
            value = value.astype(dtype, copy=False)
        if value.size == 1 and is_number(value):
            return _core.constant(value.shape, value.item(), DTYPE[dtype or value.dtype.name])
        value = constant(value)
    wanted = DTYPE[dtype] if dtype else value.dtype
    return value if value.dtype == wanted else value.astype(wanted)


shared = threading.local()  # constants: those that the function this thread traces has read so far, by what they are
SMALL_BYTES = 65536  # constants of as many are told apart by what is in them


@contextmanager
def sharing_constants():
    """While a function is traced, equal constants are one array: a call holds and binds it once."""
    before, shared.constants = getattr(shared, "constants", None), {}
    try:
        yield
    finally:
        shared.constants = before


def constant(value):
    there = getattr(shared, "constants", None)
    if there is None:
        return weft.asarray(own(value))
    key = (value.dtype.str, value.shape, value.tobytes() if value.nbytes <= SMALL_BYTES else id(value))
    if key not in there:
        there[key] = weft.asarray(own(value)), value  # which is kept, so that its id stays its own
    return there[key][0]


def own(value):
    """Something that weft can share, in the byte order of the machine."""
    is_fit = value.flags.writeable and value.dtype.isnative
    return value if is_fit else np.array(value, dtype=value.dtype.newbyteorder("="))


def is_number(value):
    """Whether its one element can be written into a kernel: no memory is read for it then."""
    return value.dtype.kind in "fb" or (value.dtype.kind in "iu" and abs(value.item()) < 1 << 53)


def dtype_of(value):
    return value.dtype.name if is_expression(value) else np.asarray(value).dtype.name


def rank(value):
    return value.ndim if is_expression(value) else np.ndim(value)


def shape(value):
    """The sizes as numbers."""
    try:
        return tuple(value.shape) if is_expression(value) else np.shape(value)
    except weft.NoValueError as error:
        raise NeedsValue(weft.size(value, 0), str(error)) from None


def sizes(value):
    """The same, with open ones among them."""
    return weft_sizes(value) if is_expression(value) else np.shape(value)


def shape_if_known(value):
    try:
        return shape(value)
    except NeedsValue:
        return None


def known_sizes(value):
    """Its sizes, None for those that only a run tells."""
    return shape_if_known(value) or tuple(size_if_known(value, axis) for axis in range(rank(value)))


def size_if_known(value, axis):
    try:
        return int(weft.size(value, axis))
    except weft.NoValueError:
        return None


class Shaped:
    """Something of a shape, for the checks of PyTensor's that look at nothing else."""

    def __init__(self, shape):
        self.shape, self.ndim = shape, len(shape)


def shaped(values):
    """All of them as Shaped; None if a size is not known."""
    shapes = [shape_if_known(value) for value in values]
    return None if None in shapes else [Shaped(s) for s in shapes]
