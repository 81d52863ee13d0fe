"""MLX's programs on weft.

    import weft.mlx.core as mx          # mlx.core, by weft

    import weft
    weft.as_mlx()                       # from here on `import mlx.core` is weft, and with it the mlx.nn,
    import mlx.core as mx, mlx.nn       # mlx.optimizers and mlx.utils of the mlx package that is installed

    python -m weft.mlx script.py        # the same for a script as it is

The arrays are weft's, with MLX's conventions: what numbers and NumPy's arrays become, which arguments are taken and which refused,
which exceptions are raised. What is not there raises NotImplementedError, which names it.
"""
from . import core
from ._install import as_mlx

__all__ = ["as_mlx", "core"]
