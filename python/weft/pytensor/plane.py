"""Functions of complex numbers that weft has of real ones only, made of real ones as NumPy makes them.

Branch cuts are C's, each side of them told by the sign of a zero; the arc functions follow Kahan, "Branch cuts for complex elementary
functions", and beyond BIG the first term of the series at infinity, where squares would overflow.
"""
import numpy as np
import pytensor.scalar.basic as ps
import weft

LN2 = float(np.log(2))
BIG = 1e8


def parts(z):
    return weft.real(z), weft.imag(z)


def scaled(z, by):
    """Part by part: a complex factor would make nan of an infinite part and a zero."""
    x, y = parts(z)
    return weft.complex(x * by, y * by)


def expm1(z):
    x, y = parts(z)
    half = weft.sin(y / 2)
    return weft.complex(weft.expm1(x) * weft.cos(y) - 2 * half * half, weft.exp(x) * weft.sin(y))


def log1p(z):
    x, y = parts(z)
    return weft.complex(weft.log(weft.hypot(x + 1, y)), weft.arctan2(y, x + 1))


def sign(z):
    """z / |z|, 0 of 0; of one infinite part its direction, of two nan."""
    x, y = parts(z)
    size = weft.hypot(x, y)
    toward = lambda a, b: weft.where(weft.isinf(size), weft.where(weft.isinf(a), weft.where(weft.isinf(b), np.nan, weft.sign(a)),
                                                                  weft.where(weft.isinf(b), 0.0, np.nan)),
                                     weft.where(size == 0, 0.0, a / weft.where(size == 0, 1.0, size)))
    return weft.complex(toward(x, y), toward(y, x))


def roots(z):
    """Of 1 - z and 1 + z."""
    x, y = parts(z)
    return weft.sqrt(weft.complex(1 - x, -y)), weft.sqrt(weft.complex(1 + x, y))


def log_of_twice(z):
    return LN2 + weft.log(weft.abs(z))


def is_big(z):
    return weft.abs(z) > BIG


def arccos(z):
    (x, y), (minus, plus) = parts(z), roots(z)
    a, b, c, d = *parts(minus), *parts(plus)
    near = 2 * weft.arctan2(a, c), weft.arcsinh(b * c - a * d)
    far = weft.arctan2(weft.abs(y), x), weft.copysign(log_of_twice(z), -y)
    return weft.complex(*(weft.where(is_big(z), f, n) for f, n in zip(far, near)))


def arcsin(z):
    (x, y), (minus, plus) = parts(z), roots(z)
    a, b, c, d = *parts(minus), *parts(plus)
    near = weft.arctan2(x, a * c - b * d), weft.arcsinh(a * d - b * c)
    far = weft.arctan2(x, weft.abs(y)), weft.copysign(log_of_twice(z), y)
    return weft.complex(*(weft.where(is_big(z), f, n) for f, n in zip(far, near)))


def arccosh(z):
    (x, y) = parts(z)
    a, b, c, d = *parts(weft.sqrt(weft.complex(x - 1, y))), *parts(weft.sqrt(weft.complex(x + 1, y)))
    near = weft.arcsinh(a * c + b * d), 2 * weft.arctan2(b, c)
    far = log_of_twice(z), weft.arctan2(y, x)
    return weft.complex(*(weft.where(is_big(z), f, n) for f, n in zip(far, near)))


def arctanh(z):
    x, y = parts(z)
    size = weft.abs(x)
    distance = weft.hypot(1 - size, y)
    near = weft.where(distance < 0.25, 0.5 * (weft.log(weft.hypot(1 + size, y)) - weft.log(distance)),
                      0.25 * weft.log1p(4 * size / (distance * distance)))
    modulus = weft.abs(z)
    inverse = lambda part: weft.where(weft.isinf(modulus), 0.0, part / modulus / modulus)
    far = inverse(size)
    angle = weft.where(modulus > BIG, weft.copysign(np.pi / 2 - inverse(weft.abs(y)), y), 0.5 * weft.arctan2(2 * y, (1 - x) * (1 + x) - y * y))
    return weft.complex(weft.copysign(weft.where(modulus > BIG, far, near), x), angle)


def turned(f):
    """i f(z / i), where z / i = y - i x."""
    def g(z):
        x, y = parts(z)
        a, b = parts(f(weft.complex(y, -x)))
        return weft.complex(-b, a)
    return g


def before(at_most):
    """The order by the real part, then by the imaginary one; nan is neither before nor behind."""
    second = weft.less_equal if at_most else weft.less

    def g(z, w):
        (a, b), (c, d) = parts(z), parts(w)
        is_nan = weft.logical_or(weft.isnan(b), weft.isnan(d))
        return weft.logical_or(weft.logical_and(a < c, weft.logical_not(is_nan)), weft.logical_and(a == c, second(b, d)))
    return g


is_before, is_not_behind = before(False), before(True)
larger = lambda z, w: weft.where(weft.logical_or(is_not_behind(w, z), weft.isnan(z)), z, w)
smaller = lambda z, w: weft.where(weft.logical_or(is_not_behind(z, w), weft.isnan(z)), z, w)

# Operands are cast to the dtype of the result first.
COMPLEX = {
    ps.Exp2: lambda z: weft.exp(scaled(z, LN2)), ps.Expm1: expm1, ps.Log2: lambda z: scaled(weft.log(z), 1 / LN2),
    ps.Log10: lambda z: scaled(weft.log(z), 1 / float(np.log(10))), ps.Log1p: log1p, ps.Sign: sign,
    ps.ArcCos: arccos, ps.ArcSin: arcsin, ps.ArcTan: turned(arctanh), ps.ArcCosh: arccosh, ps.ArcSinh: turned(arcsin), ps.ArcTanh: arctanh,
    ps.Maximum: larger, ps.Minimum: smaller,
}
# The result is bool.
COMPLEX_ORDER = {ps.LT: is_before, ps.LE: is_not_behind, ps.GT: lambda z, w: is_before(w, z), ps.GE: lambda z, w: is_not_behind(w, z)}
