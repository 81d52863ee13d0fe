"""What it costs to build one operation, and to call a tiny compiled function, in ns: on weft and on MLX itself.

    PYTHONPATH=build/release/python python -m weft.mlx bench/mlx/dispatch.py    # on weft
    python bench/mlx/dispatch.py                                                # on MLX"""
import timeit

import mlx.core as mx

a, b = mx.ones((4, 4)), mx.ones((4, 4))
mx.eval(a, b)
tiny = mx.compile(lambda x, y: x * y + 1)
mx.eval(tiny(a, b))

CASES = {
    "a + b": lambda: a + b, "a * 2": lambda: a * 2, "mx.add(a, b)": lambda: mx.add(a, b), "mx.exp(a)": lambda: mx.exp(a),
    "a.sum()": lambda: a.sum(), "a.sum(axis=1)": lambda: a.sum(axis=1), "mx.softmax(a, -1)": lambda: mx.softmax(a, -1),
    "a.reshape(16)": lambda: a.reshape(16), "a[0]": lambda: a[0], "a[1:3]": lambda: a[1:3], "mx.array(1.0)": lambda: mx.array(1.0),
    "mx.array([1, 2])": lambda: mx.array([1, 2]), "a @ b": lambda: a @ b, "mx.where(a, a, b)": lambda: mx.where(a, a, b),
    "tiny compiled call": lambda: tiny(a, b), "tiny call and eval": lambda: mx.eval(tiny(a, b)),
}

for name, case in CASES.items():
    case()
    best = min(timeit.repeat(case, number=200, repeat=70)) / 200  # short enough not to be interrupted by other work
    print(f"{name:20}{best * 1e9:8.0f}")
