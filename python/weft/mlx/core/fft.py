"""Fourier transforms. Of a length up to some thousands whose prime divisors are small they are one step of weft's own (weft_fft), of few
elements, or of one prime, a product with a small real matrix. Longer ones are taken apart (Cooley and Tukey), those of large primes
become a convolution of a length that is a power of two (Bluestein); complex numbers are pairs of real ones there. All in float32 or
float64 as the input is. Of long ones the mean is taken out first: the frequency 0 of numbers that are not around 0 is so large that it
would show in the last digits of others."""
import array as _memory
import functools
import math
import operator

from ... import _core
from .._array import _check_axis, _expect
from .._device import _place_all

_mlx = _core._mlx
_LARGEST = 64  # the most of a divisor
_DIRECT = 128  # a length that is one product with a matrix
_SHORT, _STEP = 32, 1 << 13  # lengths of weft_fft (fewer elements are faster by a matrix), ..
_PRIMES = (2, 3, 5, 7)  # .. which are products of these
_LONG = 1 << 12  # a length from which on the mean is taken out, and cosines are computed anew


# ---- Numbers that transforms are made of


def _angle(k, n):
    """cos and sin of 2 pi k / n, exact at quarters of a turn."""
    k %= n
    quarter, rest = divmod(4 * k, n)
    c, s = math.cos(math.pi / 2 * rest / n), math.sin(math.pi / 2 * rest / n)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarter]


@functools.lru_cache(64)
def _matrix_memory(n, count, n_parts, sign, is_wide):
    """The real form of e^(sign 2 pi i j k / n) of j < n, k < count: [cos, sin; -sin, cos], of 2 n rows, the first of which serve real numbers.
    With one part, the left half of it."""
    turns = [_angle(k, n) for k in range(n)]
    at = [[turns[j * k % n] for k in range(count)] for j in range(n)]
    upper = [[c for c, _ in row] + [sign * s for _, s in row][:count * (n_parts - 1)] for row in at]
    lower = [[-sign * s for _, s in row] + [c for c, _ in row][:count * (n_parts - 1)] for row in at]
    return _memory.array("d" if is_wide else "f", [x for row in upper + lower for x in row])


@functools.lru_cache(64)
def _first_memory(p, sign, is_wide):
    """The same to be multiplied by columns, of which the upper half is real, the lower one imaginary: a row for the real part of a frequency,
    one for its imaginary part, and so on. The first p columns serve real numbers."""
    at = [[_angle(j * k, p) for j in range(p)] for k in range(p)]
    rows = [([c for c, _ in row] + [-sign * s for _, s in row], [sign * s for _, s in row] + [c for c, _ in row]) for row in at]
    return _memory.array("d" if is_wide else "f", [x for pair in rows for row in pair for x in row])


@functools.lru_cache(64)
def _turns_memory(rows, columns, n, sign, is_wide):
    """e^(sign 2 pi i j k / n), of j < rows and k < columns: cosines, then sines."""
    turns = [_angle(k, n) for k in range(n)]
    at = [turns[j * k % n] for j in range(rows) for k in range(columns)]
    return _memory.array("d" if is_wide else "f", [c for c, _ in at] + [sign * s for _, s in at])


@functools.lru_cache(64)
def _chirp_memory(n, is_wide):
    """e^(-pi i j^2 / n) of j < n: cosines, then sines."""
    at = [_angle(j * j % (2 * n), 2 * n) for j in range(n)]
    return _memory.array("d" if is_wide else "f", [c for c, _ in at] + [-s for _, s in at])


def _constant(memory, shape):
    """An array of that memory: a new one each time, as one that is made where a function is traced belongs to its trace."""
    return _mlx.as_mlx(_core.asarray(memory)).reshape(shape)


# ---- One axis, the last. A complex array is a pair of real ones; the imaginary part may be None.


def _times(pair, n, sign, count, n_parts):
    """The transform of length n as a product: [re, im] times the real form of the matrix."""
    re, im = pair
    matrix = _constant(_matrix_memory(n, count, n_parts, sign, re.dtype == _mlx.float64), (2 * n, n_parts * count))
    y = re @ matrix[:n] if im is None else _mlx.concatenate([re, im], -1) @ matrix
    return (y[..., :count], y[..., count:]) if n_parts == 2 else (y, None)


def _first(pair, p, sign):
    """Transforms of length p of the columns of [.., p, m]: [.., 2 p, m], real and imaginary parts in turn."""
    re, im = pair
    matrix = _constant(_first_memory(p, sign, re.dtype == _mlx.float64), (2 * p, 2 * p))
    return matrix[:, :p] @ re if im is None else matrix @ _mlx.concatenate([re, im], -2)


def _turned(pair, other):
    """The product of complex numbers."""
    (a, b), (c, d) = pair, other
    return (a * c, a * d) if b is None else (a * c - b * d, a * d + b * c)


def _turns(rows, columns, n, sign, dtype):
    """e^(sign 2 pi i j k / n), of j < rows and k < columns: from memory or, if there are many, computed where they are used."""
    if n < _LONG:
        turns = _constant(_turns_memory(rows, columns, n, sign, dtype == _mlx.float64), (2, rows, columns))
        return turns[0], turns[1]
    count = lambda n: _mlx._arange(0, n, 1, _mlx.int64)
    angle = (count(rows).reshape((rows, 1)) * count(columns)).astype(_mlx.float64) * (sign * 2 * math.pi / n)
    return _mlx.cos(angle).astype(dtype), _mlx.sin(angle).astype(dtype)


def _each(pair, call):
    return tuple(None if x is None else call(x) for x in pair)


def _divisor(n):
    """The divisor of n next above its root that is one product, or the largest one below; None: there is none."""
    divisors = [p for p in range(2, _LARGEST + 1) if n % p == 0]
    return next((p for p in divisors if p * p >= n), divisors[-1] if divisors else None)


@functools.lru_cache(256)
def _is_step(n):
    """Whether weft_fft is asked for it."""
    rest = n
    for p in _PRIMES:
        while rest % p == 0:
            rest //= p
    return rest == 1 and _SHORT <= n <= _STEP


def _dft(pair, sign=-1, count=None, n_parts=2):
    """Sum over j of x_j e^(sign 2 pi i j k / n), of k < count at least; with one part its real part at least. The last axis of the result may be
    two: whoever reshapes them to one after all else is done saves a copy."""
    n = pair[0].shape[-1]
    count, p = count or n, _divisor(n)
    if _is_step(n):
        found = _mlx._fft(pair[0] if pair[1] is None else _mlx._complex(*pair), sign > 0, 1.0)
        return _mlx.real(found), _mlx.imag(found)
    if n <= _DIRECT:
        return _times(pair, n, sign, count, n_parts)
    return _bluestein(pair, sign) if p is None else _in_two(pair, p, n // p, sign)


def _in_two(pair, p, m, sign):
    """With n = p m, j = j1 m + j2 and k = k1 + p k2 it is, for each k1, a transform over j2 of length m of the transforms over j1 of length p,
    turned by e^(sign 2 pi i j2 k1 / n)."""
    n, front = p * m, pair[0].shape[:-1]
    rows = _first(_each(pair, lambda x: x.reshape(front + (p, m))), p, sign)
    rows = rows.reshape(front + (p, 2, m))
    rows = _turned((rows[..., 0, :], rows[..., 1, :]), _turns(p, m, n, sign, rows.dtype))
    return _each(_dft(rows, sign), lambda x: _mlx.swapaxes(x.reshape(front + (p, m)), -1, -2))


def _flat(pair, n):
    front = pair[0].shape[:-1] if pair[0].shape[-1] == n else pair[0].shape[:-2]
    return _each(pair, lambda x: x.reshape(front + (n,)))


def _bluestein(pair, sign):
    """j k = (j^2 + k^2 - (k - j)^2) / 2: a convolution with e^(pi i j^2 / n). A transform the other way is that of the conjugate."""
    n, dtype, front = pair[0].shape[-1], pair[0].dtype, pair[0].shape[:-1]
    if sign > 0:
        re, im = _bluestein((pair[0], None if pair[1] is None else -pair[1]), -1)
        return re, -im
    length = 1 << (2 * n - 1).bit_length()
    chirp = _constant(_chirp_memory(n, dtype == _mlx.float64), (2, n))
    c, s = chirp[0], chirp[1]
    kernel = (_mlx.concatenate([a, _mlx.zeros((length - 2 * n + 1,), dtype), a[:0:-1]]) for a in (c, -s))
    padded = _each(_turned(pair, (c, s)), lambda x: _mlx.concatenate([x, _mlx.zeros(front + (length - n,), dtype)], -1))
    flat = lambda pair, sign: _flat(_dft(pair, sign), length)
    product = flat(_turned(flat(padded, -1), flat(tuple(kernel), -1)), 1)
    return _turned(_each(product, lambda x: x[..., :n] * (1 / length)), (c, s))


# ---- Arguments


_NORMS = {"backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}  # powers of 1 / n, there and back


def _scale(norm, n, is_back):
    if norm not in _NORMS:
        raise ValueError(f"fft: norm={norm!r} is none of {', '.join(_NORMS)}")
    return n ** -_NORMS[norm][is_back]


def _cut(a, n, axis):
    """The first n along the axis, with zeros behind if there are fewer."""
    length = a.shape[axis]
    if n < length:
        return a[(slice(None),) * (axis % a.ndim) + (slice(0, n),)]
    widths = [(0, n - length if k == axis % a.ndim else 0) for k in range(a.ndim)]
    return _mlx.pad(a, widths) if n > length else a


def _length(what, a, n, axis):
    """How many elements a transform has, and its axis, as ints."""
    _expect(what, a)
    axis = _check_axis(what, a, axis)
    n = a.shape[axis] if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"{what}: of {n} elements")
    return n, axis


def _last(a, axis):
    return a if axis in (-1, a.ndim - 1) else _mlx.moveaxis(a, axis, -1)


def _back(a, axis):
    return a if axis in (-1, a.ndim - 1) else _mlx.moveaxis(a, -1, axis)


def _along(a, axis, sign, scale, count=None, n_parts=2):
    """The first count frequencies of the transform along an axis, as a complex array; with one part the real one, as a real array."""
    real = _mlx.float64 if a.dtype.name in ("float64", "complex128") else _mlx.float32
    a = _last(a, axis)
    n, front = a.shape[-1], a.shape[:-1]
    if _is_step(n) and n < _LONG:
        found = _mlx._fft(a, sign > 0, scale)
        found = _mlx.real(found) if n_parts == 1 else found
        return _back(found if count is None else found[..., :count], axis)
    parts = (_mlx.real(a), _mlx.imag(a)) if a.dtype.name.startswith("complex") else (a.astype(real), None)
    re, im = _dft(parts, sign, count, n_parts) if n < _LONG else _around_zero(parts, sign)
    re, im = (re, im) if scale == 1 else (re * scale, im if im is None else im * scale)
    found = (re if n_parts == 1 else _mlx._complex(re, im)).reshape(front + (math.prod(re.shape[len(front):]),))
    return _back(found if count is None else found[..., :count], axis)


def _around_zero(pair, sign):
    """The transform of what is left without the mean, which is n times itself at the frequency 0 and nothing elsewhere."""
    n = pair[0].shape[-1]
    means = _each(pair, lambda x: _mlx.mean(x, -1, True))
    found = _flat(_dft(tuple(None if x is None else x - mean for x, mean in zip(pair, means)), sign), n)
    return tuple(x if mean is None else _mlx.concatenate([x[..., :1] + n * mean, x[..., 1:]], -1) for x, mean in zip(found, means))


def fft(a, n=None, axis=-1, norm="backward", stream=None):
    """The Fourier transform along an axis, of n elements.

    >>> mx.fft.fft(mx.array([1.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    n, axis = _length("fft", a, n, axis)
    return _along(_cut(a, n, axis), axis, -1, _scale(norm, n, 0))


def ifft(a, n=None, axis=-1, norm="backward", stream=None):
    """The inverse of fft.

    >>> mx.fft.ifft(mx.array([2.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    n, axis = _length("ifft", a, n, axis)
    return _along(_cut(a, n, axis), axis, 1, _scale(norm, n, 1))


def rfft(a, n=None, axis=-1, norm="backward", stream=None):
    """fft of real numbers: the frequencies that are not below 0.

    >>> mx.fft.rfft(mx.array([1.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    n, axis = _length("rfft", a, n, axis)
    a = _mlx.real(a) if a.dtype.name.startswith("complex") else a
    return _along(_cut(a, n, axis), axis, -1, _scale(norm, n, 0), n // 2 + 1)


def irfft(a, n=None, axis=-1, norm="backward", stream=None):
    """The inverse of rfft: n real numbers.

    >>> mx.fft.irfft(mx.array([2.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    _expect("irfft", a)
    axis = _check_axis("irfft", a, axis)
    n = 2 * (a.shape[axis] - 1) if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"irfft: of {n} elements")
    half = _last(_cut(a, n // 2 + 1, axis), axis).astype(_mlx.complex128 if a.dtype.name == "complex128" else _mlx.complex64)
    if _is_step(n) and n < _LONG:
        return _back(_mlx._irfft(half, n, _scale(norm, n, 1)), axis)
    whole = _mlx.concatenate([half, _mlx.conj(half[..., 1:(n + 1) // 2])[..., ::-1]], -1)
    return _back(_along(whole, -1, 1, _scale(norm, n, 1), n_parts=1), axis)


def _axes(what, a, s, axes):
    _expect(what, a)
    if axes is None:
        axes = list(range(a.ndim)) if s is None else list(range(-len(s), 0))
    axes = list(axes)
    if not a.ndim or any(not -a.ndim <= k < a.ndim for k in axes):
        raise _core.AxisError(f"{what}: axes {axes} of an array of {a.ndim}")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"{what}: {len(s)} sizes for {len(axes)} axes")
    return axes, [None] * len(axes) if s is None else list(s)


def fftn(a, s=None, axes=None, norm="backward", stream=None):
    """fft along several axes.

    >>> mx.fft.fftn(mx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    for axis, n in zip(*_axes("fftn", a, s, axes)):
        a = fft(a, n, axis, norm)
    return a


def ifftn(a, s=None, axes=None, norm="backward", stream=None):
    """The inverse of fftn.

    >>> mx.fft.ifftn(mx.ones((2, 2))).tolist()
    [[(1+0j), 0j], [0j, 0j]]
    """
    for axis, n in zip(*_axes("ifftn", a, s, axes)):
        a = ifft(a, n, axis, norm)
    return a


def rfftn(a, s=None, axes=None, norm="backward", stream=None):
    """fftn of real numbers: rfft along the last of the axes.

    >>> mx.fft.rfftn(mx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    axes, sizes = _axes("rfftn", a, s, axes)
    if not axes:
        return a
    a = rfft(a, sizes[-1], axes[-1], norm)
    for axis, n in zip(axes[:-1], sizes[:-1]):
        a = fft(a, n, axis, norm)
    return a


def irfftn(a, s=None, axes=None, norm="backward", stream=None):
    """The inverse of rfftn.

    >>> mx.fft.irfftn(mx.ones((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    axes, sizes = _axes("irfftn", a, s, axes)
    if not axes:
        return a
    for axis, n in zip(axes[:-1], sizes[:-1]):
        a = ifft(a, n, axis, norm)
    return irfft(a, sizes[-1], axes[-1], norm)


def _of_two(name, call, shape):
    def function(a, s=None, axes=(-2, -1), norm="backward", stream=None):
        return call(a, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{call.__name__} along two axes.\n\n    >>> mx.fft.{name}(mx.ones((4, 4))).shape\n    {shape}\n"
    return function


fft2, ifft2 = _of_two("fft2", fftn, (4, 4)), _of_two("ifft2", ifftn, (4, 4))
rfft2, irfft2 = _of_two("rfft2", rfftn, (4, 3)), _of_two("irfft2", irfftn, (4, 6))


# ---- Frequencies


def _check(n, d):
    n = operator.index(n)
    if n < 1 or d == 0:
        raise ValueError(f"fftfreq: of {n} samples, {d} apart")
    return n


def fftfreq(n, d=1.0, stream=None):
    """The frequencies of fft.

    >>> mx.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    n = _check(n, d)
    at = _mlx._arange(0, n, 1, _mlx.float32)
    return _mlx.where(at < (n + 1) // 2, at, at - n) / (n * d)


def rfftfreq(n, d=1.0, stream=None):
    """The frequencies of rfft.

    >>> mx.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    n = _check(n, d)
    return _mlx._arange(0, n // 2 + 1, 1, _mlx.float32) / (n * d)


def _shift(a, axes, sign):
    _expect("fftshift", a)
    axes = list(range(a.ndim)) if axes is None else [operator.index(axes)] if hasattr(axes, "__index__") else list(axes)
    if any(not -a.ndim <= k < a.ndim for k in axes):
        raise _core.AxisError(f"fftshift: there is no such axis among {a.ndim}")
    half = [a.shape[k] // 2 if sign > 0 else -(a.shape[k] // 2) for k in axes]
    return _mlx.roll(a, half, axes) if axes else a


def fftshift(a, axes=None, stream=None):
    """The frequency 0 in the middle.

    >>> mx.fft.fftshift(mx.arange(4)).tolist()
    [2, 3, 0, 1]
    """
    return _shift(a, axes, 1)


def ifftshift(a, axes=None, stream=None):
    """The frequency 0 at the beginning.

    >>> mx.fft.ifftshift(mx.arange(4)).tolist()
    [2, 3, 0, 1]
    """
    return _shift(a, axes, -1)


# ---- Short times


def _window(what, window, width, n):
    """The window in the middle of n, with zeros around it; without one, width ones."""
    width = n if width is None else width
    _expect(what, *([] if window is None else [window]))
    if width < 0 or (window is not None and window.ndim != 1):
        raise ValueError(f"{what}: a window of {width if window is None else window.shape}")
    window = _mlx.ones((width,)) if window is None else window
    before = (n - window.size) // 2
    if before < 0:
        raise ValueError(f"{what}: a window of {window.size} for {n} samples")
    return _mlx.pad(window, [(before, n - window.size - before)])


def _check_step(what, n, step):
    if n < 1 or step < 1:
        raise ValueError(f"{what}: {n} samples every {step}")


def _ends(x, more, mode):
    """x with so many samples more at both ends of the last axis."""
    if mode in ("constant", "edge"):
        return _mlx.pad(x, [(0, 0)] * (x.ndim - 1) + [(more, more)], mode)
    if mode != "reflect":
        raise ValueError(f"stft: pad_mode={mode!r} is none of reflect, constant, edge")
    n = x.shape[-1]
    turn = max(2 * (n - 1), 1)  # there and back again
    at = _mlx.remainder(_mlx._arange(-more, n + more, 1, _mlx.int32), turn)
    return _mlx.take(x, _mlx.minimum(at, turn - at), -1)


def stft(x, n_fft=2048, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", norm="backward", onesided=None,
         stream=None):
    """Fourier transforms of n_fft samples of the last axis, times a window, every hop_length samples: [.., frequency, time].

    >>> mx.fft.stft(mx.ones((8,)), 4, 4, onesided=False).shape
    (4, 3)
    """
    _expect("stft", x)
    step = n_fft // 4 if hop_length is None else hop_length
    _check_step("stft", n_fft, step)
    if not x.ndim or not x.size:
        raise ValueError(f"stft: of an array of shape {x.shape}")
    shape = _window("stft", window, win_length, n_fft)
    is_real = not x.dtype.name.startswith("complex")
    x = _ends(x, n_fft // 2, pad_mode) if center else x
    if x.shape[-1] < n_fft:
        raise ValueError(f"stft: {n_fft} samples of {x.shape[-1]}")
    frames = fft(_mlx._windows(x, n_fft, -1, step) * shape, None, -1, norm)
    return _mlx.swapaxes(frames[..., :n_fft // 2 + 1] if (is_real if onesided is None else onesided) else frames, -1, -2)


def _laid(frames, step):
    """The sum of frames that begin every step samples: [.., time, n] -> [.., samples]."""
    times, n = frames.shape[-2:]
    at = _mlx._arange(0, times, 1, _mlx.int32).reshape((times, 1)) * step + _mlx._arange(0, n, 1, _mlx.int32)
    return _mlx.zeros(frames.shape[:-2] + ((times - 1) * step + n,), frames.dtype).at[..., at].add(frames)


def istft(stft_matrix, n_fft=None, hop_length=None, win_length=None, window=None, center=True, norm="backward", onesided=None,
          length=None, stream=None):
    """The inverse of stft: the sum of the frames times the window, over that of its squares.

    >>> mx.fft.istft(mx.fft.stft(mx.ones((8,)), 4), 4).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    _expect("istft", stft_matrix)
    onesided = True if onesided is None else onesided
    if stft_matrix.ndim < 2 or not stft_matrix.size:
        raise ValueError(f"istft: of an array of shape {stft_matrix.shape}")
    rows = stft_matrix.shape[-2]
    n = n_fft if n_fft is not None else 2 * (rows - 1) if onesided else rows
    step = n // 4 if hop_length is None else hop_length
    _check_step("istft", n, step)
    shape = _window("istft", window, win_length, n)
    frames = _mlx.swapaxes(stft_matrix, -1, -2)
    frames = (irfft(frames, n, -1, norm) if onesided else _mlx.real(ifft(frames, n, -1, norm))) * shape
    weight = _laid(_mlx.broadcast_to(shape * shape, frames.shape[-2:]), step)
    y = _laid(frames, step) / _mlx.maximum(weight, 1e-8)
    first = n // 2 if center else 0
    if length is not None:
        return _cut(y[..., first:], max(length, 0), -1)
    return y[..., first:max(y.shape[-1] - first, 0)]
_place_all(globals())
