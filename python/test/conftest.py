"""Every test leaves nothing behind: no node of an expression, no byte of an array, no failure that nobody has looked for."""
import gc
import os
import sys
import time

import numpy as np
import pytest
import weft

# Processes that tests start in other folders find the package too where the path to it was given as CONTRIBUTING.md has it.
if os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))


def pytest_collection_finish(session):
    """What is there before the first test stays. Looking at it in every collection is three quarters of the time of all tests."""
    gc.collect()
    gc.freeze()


def settle():
    """The key that weft.mlx draws from is a part of an expression of the one before it: a new one holds the same bytes before and after a test."""
    mx = sys.modules.get("weft.mlx.core")
    if mx:
        mx.random.seed(7)
        mx.eval(mx.random.state)


@pytest.fixture(autouse=True)
def nothing_is_left():
    settle()
    nodes, used = weft.live_nodes(), weft.get_active_memory()  # pytest holds the frames of tests that failed before
    yield
    weft._core.wait_all()
    settle()
    collects = weft.live_nodes() > nodes
    for _ in range(3):  # what a function of C's refers to, as those that SciPy minimises, is garbage only when that is gone
        if weft.live_nodes() > nodes:
            gc.collect()
    last = time.monotonic() + 20
    # work in the background whose results nobody holds; memory of a device is free when its queue has come by
    while (weft.live_nodes() > nodes or weft.get_active_memory() > used) and time.monotonic() < last:
        time.sleep(0.01)
    assert weft.live_nodes() <= nodes
    assert weft.get_active_memory() <= used
    if collects:
        gc.freeze()  # of what is there now nothing is the test's: the next collection need not look at it


@pytest.fixture
def rng():
    return np.random.default_rng(7)
