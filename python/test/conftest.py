"""Every test leaves nothing behind: no node of an expression, no byte of an array."""
import gc

import numpy as np
import pytest
import weft


@pytest.fixture(autouse=True)
def nothing_is_left():
    nodes, used = weft.live_nodes(), weft.get_active_memory()  # pytest holds the frames of tests that failed before
    yield
    if weft.live_nodes() > nodes:
        gc.collect()
    assert weft.live_nodes() <= nodes
    assert weft.get_active_memory() <= used


@pytest.fixture
def rng():
    return np.random.default_rng(7)
