"""Arrays in files: safetensors and npy. What is loaded is read when it is needed."""
import os

from . import _core
from ._core import asarray

_NPY = b"\x93NUMPY"


def load(path, return_metadata=False):
    """The array of an npy file, or a dict of those of a safetensors file; with its metadata if asked for."""
    with open(path, "rb") as file:  # raises what Python's own functions do where there is no such file
        is_npy = file.read(len(_NPY)) == _NPY
    arrays, metadata = _core.load(path)
    result = next(iter(arrays.values())) if is_npy else arrays
    return (result, metadata) if return_metadata else result


def save(path, a):
    """Writes an array as an npy file; the suffix .npy is added if it is missing."""
    path = os.fspath(path)
    _core.save(path if path.endswith(".npy") else path + ".npy", [""], [asarray(a)], [])


def save_safetensors(path, arrays, metadata=None):
    """Writes a dict of arrays; the suffix .safetensors is added if it is missing."""
    path = os.fspath(path)
    path = path if path.endswith(".safetensors") else path + ".safetensors"
    pairs = [str(text) for item in (metadata or {}).items() for text in item]
    _core.save(path, list(arrays), list(arrays.values()), pairs)
