"""`import mlx.core` is weft."""
import importlib.util
import sys
import types


class _InWorkers:
    """What a process that is spawned unpickles before anything of the program: there as here."""

    def __reduce__(self):
        return exec, (f"import sys; sys.path[:] = {sys.path!r}; import weft; weft.as_mlx()",)


def _reach_workers():
    from multiprocessing import spawn

    tell = spawn.get_preparation_data
    if not hasattr(tell, "of_weft"):
        def prepare(name):
            return {**tell(name), "weft": _InWorkers()}

        prepare.of_weft = True
        spawn.get_preparation_data = prepare


def as_mlx():
    """From here on `import mlx.core` is weft.mlx.core. mlx.nn, mlx.optimizers and mlx.utils are those of the mlx package that is
    installed, which needs no native part. In processes that multiprocessing spawns it is so too. Returns weft.mlx.core."""
    from . import core

    before = sys.modules.get("mlx.core")
    if before is core:
        return core
    if before is not None:
        raise ImportError("as_mlx: mlx.core is imported already; call it before the first import of mlx")
    if importlib.util.find_spec("mlx") is None:
        package = types.ModuleType("mlx")
        package.__path__ = []
        sys.modules["mlx"] = package
    import mlx

    sys.modules["mlx.core"] = mlx.core = core
    _reach_workers()
    for name in ("random", "linalg", "fft", "fast", "distributed", "metal", "cuda"):
        sys.modules["mlx.core." + name] = getattr(core, name)
    return core
