"""A plugin of pytest for PyTensor's own tests: WEFT is the default mode, and outcomes are written where WEFT_OUTCOMES says.

Modes that tests ask for by name stay what they are."""
import json
import os

import pytensor
import weft.pytensor

pytensor.config.mode = weft.pytensor.WEFT
outcomes = {}
if os.environ.get("WEFT_INSTEAD"):  # tests/link/mlx: the mode of the suite is ours
    import pytensor.compile.mode as modes
    modes.predefined_modes[os.environ["WEFT_INSTEAD"]] = weft.pytensor.WEFT
    setattr(modes, os.environ["WEFT_INSTEAD"], weft.pytensor.WEFT)


def pytest_runtest_logreport(report):
    what = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
    if report.when == "call" or what != "passed":
        outcomes[report.nodeid] = what


def pytest_collectreport(report):
    if report.failed:
        outcomes[report.nodeid] = "failed"


def pytest_sessionfinish(session):
    with open(os.environ["WEFT_OUTCOMES"], "w") as file:
        json.dump({"outcomes": outcomes, "fallbacks": dict(weft.pytensor.fallbacks)}, file)
