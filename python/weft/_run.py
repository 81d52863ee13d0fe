"""Evaluation, memory and devices."""
from . import _core
from ._core import arrays, eval  # noqa: F401

(_DEVICE, _DEVICE_COUNT, _THREADS, _REWRITES, _CHECK, _BLAS, _HALVES, _TF32, _LIMIT, _CACHE, _USED, _CACHED, _PEAK, _NODES,
 _KERNELS) = range(15)
_CHECKS = (None, "nan", "inf")
_SHOWN = ("value", "graph", "dot", "plan", "kernels", "asm", "ptx", "sass", "caches")


def fetch(x, out):
    """Computes an array into memory of the caller's: an array of NumPy's, or what else shows memory that may be written to, dense,
    of the same shape and dtype. Of lists, all arrays are computed together, and nothing is written before all of them are there.

    >>> import numpy
    >>> y = numpy.zeros(3, numpy.float32)
    >>> weft.fetch(weft.arange(3) + 0.5, y)
    >>> y.tolist()
    [0.5, 1.5, 2.5]
    """
    is_one = isinstance(x, _core.array)
    _core.fetch([x] if is_one else list(x), [out] if is_one else list(out))


def async_eval(*trees):
    """Starts computing all arrays in the trees. A failure shows when one of them is next looked at."""
    _core.async_eval(arrays(trees))


def wait(*trees, timeout=None):
    """Waits until the arrays in the trees are computed; False if that takes longer than timeout seconds."""
    return _core.wait(arrays(trees), -1.0 if timeout is None else float(timeout))


def show(*trees, what="graph"):
    """The arrays as text: what is "value", "graph", "dot", "plan", "kernels", "asm", "ptx" or "sass"; of no arrays, "caches"."""
    if what not in _SHOWN:
        raise ValueError(f"show: what={what!r} is none of {', '.join(_SHOWN)}")
    return _core.show(arrays(trees), what)


def plan(*trees):
    """What eval would do, as a dict: kernels, peak_bytes, .. Runs nothing."""
    return _core.plan(arrays(trees))


def einsum_path(subscripts, *operands):
    """In which order einsum takes its operands together, as numpy.einsum_path tells it, and a text with what that costs.

    Each pair is two places among the operands that are left; both leave, and what comes of them is last. For up to 8 operands no
    order takes fewer multiplications.

    >>> a, b, c = weft.zeros((2, 30)), weft.zeros((30, 3)), weft.zeros((3, 40))
    >>> weft.einsum_path("ij,jk,kl", a, b, c)[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum_path: subscripts are a string, not {type(subscripts).__name__}")
    pairs, products = _core.einsum_path(subscripts, [_core.asarray(x) for x in operands])
    steps = "".join(f"  {pair}\n" for pair in pairs)
    return ["einsum_path", *pairs], f"{subscripts}: {products:.0f} multiplications\n{steps}"


def device_count():
    """How many devices there are, the CPU included."""
    return _core.get(_DEVICE_COUNT)


def set_device(device):
    """Where this thread's work runs: 0 is the CPU. Returns the device before."""
    return _core.set(_DEVICE, device, "set_device")


def set_threads(n):
    """The most CPU threads for this thread's work. Returns the number before."""
    return _core.set(_THREADS, n, "set_threads")


def set_rewrites(most):
    """What functions may become that this thread compiles: 0 exact, 1 stable, 2 fast. Returns what was set before."""
    return _core.set(_REWRITES, most, "set_rewrites")


def _load_blas():
    """Those that come as a Python package are not where libraries are looked for: they are found once they are loaded."""
    import ctypes
    import glob
    import importlib.util
    import os
    for name in ("scipy_openblas32", "scipy_openblas64"):
        found = importlib.util.find_spec(name)
        for folder in found.submodule_search_locations if found else ():
            for path in glob.glob(os.path.join(folder, "lib", "libscipy_openblas*.so")):
                ctypes.CDLL(path)


def set_blas(blas):
    """Gives products of float32 and float64 matrices of this thread to a CBLAS, which adds in an order of its own, and factors of
    large matrices to its LAPACK; on GPUs large products to cublasLt. Returns what was set before; ValueError where there is neither
    a CBLAS nor, on a GPU that is set, cublasLt. A CBLAS of the package scipy-openblas32 will do."""
    if blas:
        _load_blas()
    return bool(_core.set(_BLAS, int(blas), "set_blas"))


def set_halves(halves):
    """Lets products of float16 and bfloat16 matrices of this thread, and attention, be added in the order of the machine: by
    tensor cores and, of bfloat16, by the CPU's tiles (AMX), which take numbers too small for them for 0. False: in the order of k. None, at
    first: as True on GPUs, as False on the CPU. Returns what was set before.

    >>> weft.set_halves(False)
    >>> weft.set_halves(None)
    False
    """
    return (False, True, None)[_core.set(_HALVES, 2 if halves is None else int(halves), "set_halves")]


def set_tf32(tf32):
    """Lets products of float32 matrices of this thread on GPUs round what they multiply to 11 bits (tf32) and add in the order of the
    machine, by tensor cores, some ten times as fast. False, at first: float32 in the order of k, with the bits of the CPU. Returns
    what was set before.

    >>> weft.set_tf32(True)
    False
    >>> weft.set_tf32(False)
    True
    """
    return bool(_core.set(_TF32, int(tf32), "set_tf32"))


def set_check(what):
    """Makes a nan in a result FloatingPointError, which says in which operation, line and step of a loop it arose.

    what: "nan"; "inf", which are errors as well; None: neither. Returns what was set before. For debugging."""
    if what not in _CHECKS:
        raise ValueError(f"set_check: 'nan', 'inf' or None, not {what!r}")
    return _CHECKS[_core.set(_CHECK, _CHECKS.index(what), "set_check")]


def get_active_memory():
    """Bytes in use.

    >>> weft.get_active_memory() >= 0
    True
    """
    return _core.get(_USED)


def get_peak_memory():
    """The most bytes in use since reset_peak_memory.

    >>> weft.get_peak_memory() >= 0
    True
    """
    return _core.get(_PEAK)


def reset_peak_memory():
    """The peak counts from now on.

    >>> weft.reset_peak_memory()
    """
    _core.set(_PEAK, _core.get(_USED), "reset_peak_memory")


def get_cache_memory():
    """Bytes kept for reuse.

    >>> weft.get_cache_memory() >= 0
    True
    """
    return _core.get(_CACHED)


def set_memory_limit(n):
    """Beyond n bytes evaluation raises MemoryError. Returns the limit before."""
    return _core.set(_LIMIT, n, "set_memory_limit")


def set_cache_limit(n):
    """The most bytes to keep for reuse. Returns the limit before."""
    return _core.set(_CACHE, n, "set_cache_limit")


def clear_cache():
    """Gives the memory kept for reuse back.

    >>> weft.clear_cache()
    """
    set_cache_limit(set_cache_limit(0))


def live_nodes():
    """How many nodes of expressions exist; 0 when no array does."""
    return _core.get(_NODES)


def kernels_compiled():
    """How many kernels have been compiled since the process started; what is run again with other lengths adds none."""
    return _core.get(_KERNELS)
