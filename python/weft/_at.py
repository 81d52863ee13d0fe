"""x.at[index]: updates that combine with what is there, and with each other where targets are equal."""
from . import _core

_WHOLE = ("bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_SET, _ADD, _MULTIPLY, _MINIMUM, _MAXIMUM, _SUBTRACT, _DIVIDE = range(7)


class At:
    def __init__(self, x):
        self._x = x

    def __getitem__(self, index):
        return Updates(self._x, index)


class Updates:
    def __init__(self, x, index):
        self._x, self._index = x, index

    def _put(self, value, how):
        return _core.put(self._x, self._index, value, how)

    def set(self, value):
        return self._put(value, _SET)

    def add(self, value):
        return self._put(value, _ADD)

    def subtract(self, value):
        return self._put(value, _SUBTRACT)

    def multiply(self, value):
        return self._put(value, _MULTIPLY)

    def divide(self, value):
        x = self._x
        if x.dtype.name not in _WHOLE:
            return self._put(value, _DIVIDE)
        # of integers it is what x[index] / value would be if it were stored there: cut towards 0, and as large as there is by 0
        divisor = _core.put(_core.ones_like(x).astype(_core.float64), self._index, value, _MULTIPLY)
        return _core.where(divisor == 1, x, (x.astype(_core.float64) / divisor).astype(x.dtype))

    def minimum(self, value):
        return self._put(value, _MINIMUM)

    def maximum(self, value):
        return self._put(value, _MAXIMUM)
