"""python -m weft.mlx script.py arguments..  or  -m module arguments..: with weft in the place of mlx.core."""
import os
import runpy
import sys

from ._install import as_mlx


def main():
    if len(sys.argv) < 2 or (sys.argv[1] == "-m" and len(sys.argv) < 3):
        sys.exit("usage: python -m weft.mlx (script.py | -m module) arguments..")
    as_mlx()
    if sys.argv[1] == "-m":
        del sys.argv[0], sys.argv[0]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        del sys.argv[0]
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
