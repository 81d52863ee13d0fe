"""A plugin of pytest for PyTensor's own tests: WEFT is the default mode, and outcomes are written where WEFT_OUTCOMES says.

With WEFT_AS_MLX weft stands where MLX is looked for instead, and PyTensor's own mode for it is tested. Modes that tests ask for by name stay what they are, but for MLX where WEFT_INSTEAD_OF_MLX is set: the tests of that back end then run in
mode WEFT, and what they ask of a result's type holds for NumPy's arrays."""
import json
import os
import sys
import types

import numpy as np
import pytensor
import weft.pytensor

if os.environ.get("WEFT_AS_MLX"):
    weft.as_mlx()
else:
    pytensor.config.mode = weft.pytensor.WEFT
weft.pytensor.fallback.warnings = types.SimpleNamespace(warn=lambda *args, **options: None)  # tests make errors of warnings
outcomes = {}


class AnyArray(type):
    def __instancecheck__(cls, value):
        return isinstance(value, (np.ndarray, np.generic, cls.original))

    def __call__(cls, *args, **kwargs):
        return cls.original(*args, **kwargs)


class MLXLinker(weft.pytensor.WeftLinker):
    def __init__(self, use_compile=True, **kwargs):
        super().__init__(**kwargs)


def stand_in_for_mlx():
    import mlx.core
    import pytensor.compile.mode as modes
    import pytensor.link.mlx
    import pytensor.link.mlx.linker
    core = types.ModuleType("mlx.core")
    core.__dict__.update(vars(mlx.core))
    core.array = AnyArray("array", (), {"original": mlx.core.array})
    sys.modules["mlx.core"] = mlx.core = core
    pytensor.link.mlx.MLXLinker = MLXLinker
    modes.predefined_modes["MLX"] = modes.MLX = weft.pytensor.WEFT


if os.environ.get("WEFT_INSTEAD_OF_MLX"):
    stand_in_for_mlx()


def pytest_runtest_logreport(report):
    what = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
    if report.when == "call" or what != "passed":
        outcomes[report.nodeid] = what


def pytest_collectreport(report):
    if report.failed:
        outcomes[report.nodeid] = "failed"


def pytest_sessionfinish(session):
    if "WEFT_OUTCOMES" in os.environ:
        with open(os.environ["WEFT_OUTCOMES"], "w") as file:
            json.dump({"outcomes": outcomes, "fallbacks": dict(weft.pytensor.fallbacks)}, file)
