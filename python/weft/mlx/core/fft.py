"""Fourier transforms: what needs none of them is here."""
from ... import _core
from .._missing import add_missing

_mlx = _core._mlx


def _check(n, d):
    if n < 1 or d == 0:
        raise ValueError(f"fftfreq: of {n} samples, {d} apart")


def fftfreq(n, d=1.0, stream=None):
    """The frequencies of fft."""
    _check(n, d)
    at = _mlx._arange(0, n, 1, _mlx.float32)
    return _mlx.where(at < (n + 1) // 2, at, at - n) / (n * d)


def rfftfreq(n, d=1.0, stream=None):
    """The frequencies of rfft."""
    _check(n, d)
    return _mlx._arange(0, n // 2 + 1, 1, _mlx.float32) / (n * d)


def _shift(a, axes, sign):
    axes = list(range(a.ndim)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    if any(not -a.ndim <= k < a.ndim for k in axes):
        raise ValueError(f"fftshift: there is no such axis among {a.ndim}")
    half = [a.shape[k] // 2 if sign > 0 else -(a.shape[k] // 2) for k in axes]
    return _mlx.roll(a, half, axes) if axes else a


def fftshift(a, axes=None, stream=None):
    """The frequency 0 in the middle."""
    return _shift(a, axes, 1)


def ifftshift(a, axes=None, stream=None):
    """The frequency 0 at the beginning."""
    return _shift(a, axes, -1)


add_missing(globals(), "mlx.core.fft", ["fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "irfft", "irfft2", "irfftn", "istft",
                                        "rfft", "rfft2", "rfftn", "stft"])
