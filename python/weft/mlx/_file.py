"""Arrays in files: npy, npz, safetensors and gguf."""
import contextlib
import io
import os

from .. import _core, _file, _run
from . import _gguf

_mlx = _core._mlx
_STORED, _DEFLATED = 0, 8  # of zipfile


def _is_file(file):
    return hasattr(file, "read") or hasattr(file, "write")


def _folder():
    import tempfile  # here, as few programs need it, and it takes 5 ms
    return tempfile.TemporaryDirectory()


def _zip(file, *how):
    import zipfile
    try:
        return zipfile.ZipFile(file, *how)
    except zipfile.BadZipFile as why:
        raise ValueError(f"load: no npz file: {why}") from why


def _named(file, suffix):
    path = os.fspath(file)
    return path if path.endswith(suffix) else path + suffix


class _FileError(OSError, RuntimeError):
    """A file that cannot be read or written: an OSError, and MLX's RuntimeError."""


@contextlib.contextmanager
def _failing():
    """What the system or the file is to blame for, as MLX's class too."""
    try:
        yield
    except OSError as why:
        raise _FileError(str(why)) from why


def _to(file, suffix, write):
    """write(path) for a path; a file object gets the bytes."""
    if not _is_file(file):
        if not isinstance(file, (str, os.PathLike)):
            raise ValueError(f"save: a file opened in binary mode, or its path, is expected, not {type(file).__name__}")
        with _failing():
            return write(_named(file, suffix))
    if getattr(file, "closed", False):
        raise RuntimeError("save: the file is closed")
    with _folder() as folder:
        path = os.path.join(folder, "a" + suffix)
        write(path)
        with open(path, "rb") as written:
            file.write(written.read())


def save(file, arr):
    """Writes an array as an npy file: to a path, or into an open file.

    >>> import io; file = io.BytesIO()
    >>> mx.save(file, mx.array([1, 2])); _ = file.seek(0)
    >>> mx.load(file, format="npy").tolist()
    [1, 2]
    """
    _to(file, ".npy", lambda path: _file.save(path, _mlx.array(arr) if not isinstance(arr, _core.array) else arr))


def save_safetensors(file, arrays, metadata=None):
    """Writes a dict of arrays.

    >>> import io; file = io.BytesIO()
    >>> mx.save_safetensors(file, {"w": mx.array([1, 2])}, {"of": "numbers"}); _ = file.seek(0)
    >>> arrays, metadata = mx.load(file, format="safetensors", return_metadata=True)
    >>> arrays["w"].tolist(), metadata["of"]
    ([1, 2], 'numbers')
    """
    for what, given in (("arrays", arrays), ("metadata", metadata or {})):
        if not isinstance(given, dict):
            raise TypeError(f"save_safetensors: the {what} are a dict, not {type(given).__name__}")
    for name, a in arrays.items():
        if not isinstance(a, _core.array):
            raise ValueError(f"save_safetensors: {name!r} is no array")
    for key, text in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ValueError(f"save_safetensors: the metadata are texts, not {key!r}: {text!r}")
    _to(file, ".safetensors", lambda path: _file.save_safetensors(path, arrays, metadata))


def _write_zip(file, arrays, compression):
    with _zip(file, "w", compression) as archive:
        for name, a in arrays.items():
            with io.BytesIO() as item:
                save(item, a)
                archive.writestr(name + ".npy", item.getvalue())


def _replace(path, write):
    """write(path) of a file beside it, which then takes its place: if anything fails, the one that was there stays."""
    path = os.path.realpath(path)  # a link stays one
    beside = f"{path}.{os.getpid()}.{id(write)}"
    try:
        write(beside)
        if os.path.exists(path):
            os.chmod(beside, os.stat(path).st_mode & 0o7777)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise


def _savez(file, args, kwargs, compression):
    arrays = {**{f"arr_{i}": a for i, a in enumerate(args)}, **kwargs}
    if _is_file(file):
        _write_zip(file, arrays, compression)
    else:
        _replace(_named(file, ".npz"), lambda path: _write_zip(path, arrays, compression))


def savez(file, *args, **kwargs):
    """Writes several arrays as an npz file.

    >>> import io; file = io.BytesIO()
    >>> mx.savez(file, mx.array(1), b=mx.array([2])); _ = file.seek(0)
    >>> {name: a.tolist() for name, a in sorted(mx.load(file, format="npz").items())}
    {'arr_0': 1, 'b': [2]}
    """
    _savez(file, args, kwargs, _STORED)


def savez_compressed(file, *args, **kwargs):
    """Writes several arrays as a compressed npz file.

    >>> import io; file = io.BytesIO()
    >>> mx.savez_compressed(file, b=mx.array([2])); _ = file.seek(0)
    >>> mx.load(file, format="npz")["b"].tolist()
    [2]
    """
    _savez(file, args, kwargs, _DEFLATED)


def save_gguf(file, arrays, metadata=None):
    """Writes a dict of arrays, and one of texts, lists of texts and arrays.

    >>> import io; file = io.BytesIO()
    >>> mx.save_gguf(file, {"w": mx.array([1, 2])}, {"of": "numbers"}); _ = file.seek(0)
    >>> arrays, metadata = mx.load(file, format="gguf", return_metadata=True)
    >>> arrays["w"].tolist(), metadata["of"]
    ([1, 2], 'numbers')
    """
    metadata = metadata or {}
    for what, given in (("arrays", arrays), ("metadata", metadata)):
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise TypeError(f"save_gguf: the {what} are a dict with texts as keys, not {given!r:.60}")
    for name, a in arrays.items():
        if not isinstance(a, _core.array):
            raise TypeError(f"save_gguf: {name!r} is no array")
    if _is_file(file):
        _gguf.write(file, arrays, metadata)
        return

    def write(path):
        with open(path, "wb") as out:
            _gguf.write(out, arrays, metadata)

    with _failing():
        _replace(_named(file, ".gguf"), write)


def _read_gguf(file):
    name = os.fspath(getattr(file, "name", "the file")) if _is_file(file) else os.fspath(file)

    def fail(text):
        raise _FileError(f"load: {name}: {text}")

    with _failing(), io.BytesIO(file.read()) if _is_file(file) else open(file, "rb") as opened:
        return _gguf.read(opened, fail)


def _from(file, suffix, read):
    """read(path); of a file object, the bytes as a file."""
    if not _is_file(file):
        with _failing():
            return read(os.fspath(file))
    with _folder() as folder:
        path = os.path.join(folder, "a" + suffix)
        with open(path, "wb") as copy:
            copy.write(file.read())
        with _failing():
            loaded = read(path)
        _core.eval(loaded)
        return loaded


def export_to_dot(file, *arrays, **named):
    """Writes the expressions of arrays as a graph in the language of Graphviz, with weft's names of operations."""
    text = _run.show(arrays, named, what="dot")
    if hasattr(file, "write"):
        file.write(text)
    else:
        with open(file, "w") as out:
            out.write(text)


def _format(file, format):
    if format is not None:
        return format
    if _is_file(file):
        name = str(getattr(file, "name", ""))
        return name.rsplit(".", 1)[-1] if "." in name else "npy"
    return os.path.splitext(os.fspath(file))[1].removeprefix(".")


def _npz(file):
    arrays = {}
    with _zip(file) as archive:
        for name in archive.namelist():
            arrays[name.removesuffix(".npy")] = load(io.BytesIO(archive.read(name)), format="npy")
    return arrays


def _in_flavour(arrays):
    """MLX keeps floats of 8 bits in uint8."""
    return {name: _mlx.as_mlx(a.view("uint8") if a.dtype.name.startswith("float8") else a) for name, a in arrays.items()}


def load(file, /, format=None, return_metadata=False, *, stream=None):
    """The array of an npy file, the dict of an npz, safetensors or gguf file; with the metadata if asked for.

    >>> import io; file = io.BytesIO()
    >>> mx.save(file, mx.array([1.5])); _ = file.seek(0)
    >>> mx.load(file, format="npy").tolist()
    [1.5]
    """
    if not _is_file(file) and not isinstance(file, (str, os.PathLike)):
        raise ValueError(f"load: a file opened in binary mode, or its path, is expected, not {type(file).__name__}")
    kind = _format(file, format)
    if _is_file(file) and getattr(file, "closed", False):
        raise ValueError("load: the file is closed")
    if return_metadata and kind in ("npy", "npz"):
        raise ValueError(f"load: there is no metadata in {kind} files")
    if kind not in ("npy", "npz", "safetensors", "gguf"):
        raise ValueError(f"load: {kind!r} is no format of arrays")
    if not _is_file(file) and not os.path.exists(file):
        raise (RuntimeError if kind in ("npy", "safetensors") else ValueError)(f"load: there is no file {os.fspath(file)!r}")
    if kind == "npy":
        loaded = _mlx.as_mlx(_from(file, ".npy", _file.load))
        if loaded.dtype.name == "complex128":
            raise ValueError("load: MLX has no complex128; weft.load reads it")
        return loaded
    if kind == "npz":
        return _npz(file)
    if kind == "safetensors":
        arrays, metadata = _from(file, ".safetensors", lambda path: _file.load(path, return_metadata=True))
        return (_in_flavour(arrays), metadata) if return_metadata else _in_flavour(arrays)
    arrays, metadata = _read_gguf(file)
    return (arrays, metadata) if return_metadata else arrays
