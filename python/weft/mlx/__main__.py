"""python -m weft.mlx script.py arguments..  or  -m module arguments..: with weft in the place of mlx.core."""
import importlib.util
import os
import runpy
import sys

from ._install import as_mlx

USAGE = """usage: python -m weft.mlx (script.py | -m module) arguments..

Runs a script, or a module, as python does, with weft in the place of mlx.core: `import mlx.core` is weft, and the
mlx.nn, mlx.optimizers and mlx.utils of your own mlx package run on it."""


def _refuse(why):
    print(f"python -m weft.mlx: {why}", file=sys.stderr)
    sys.exit(2)


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that it is to be in
        return False


def main():
    what = sys.argv[1:2]
    if what in (["-h"], ["--help"]):
        print(USAGE)
        return
    if not what or (what == ["-m"] and len(sys.argv) < 3) or (what[0].startswith("-") and what != ["-m"]):
        print(USAGE, file=sys.stderr)
        sys.exit(2)
    as_mlx()
    if what == ["-m"]:
        del sys.argv[0], sys.argv[0]
        sys.path.insert(0, os.getcwd())
        if not _is_module(sys.argv[0]):
            _refuse(f"no module named {sys.argv[0]!r}")
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        del sys.argv[0]
        if not os.path.exists(sys.argv[0]):
            _refuse(f"there is no file {sys.argv[0]!r}")
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
