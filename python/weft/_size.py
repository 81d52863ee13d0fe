"""Sizes while a function is traced: numbers, or open, which is to say integer arrays without axes that the sizes of names tell."""
from . import _core


def settled(n):
    """The number that n is, if it is the same whatever the sizes of names are; else n."""
    if not isinstance(n, _core.array):
        return int(n)
    number = _core.told(n)
    if type(number) is int:
        return number
    try:
        return n if number else int(n)
    except _core.NoValueError:
        return n


def sizes(x):
    """The shape of an array: a number, or an open size, for each axis."""
    return tuple(settled(_core.size(x, axis)) for axis in range(x.ndim))
