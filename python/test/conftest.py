"""Every test leaves nothing behind: no node of an expression, no byte of an array."""
import gc

import numpy as np
import pytest
import weft


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()  # a test that failed before may have left something, and pytest holds its frames
    nodes, used = weft.live_nodes(), weft.get_active_memory()
    yield
    gc.collect()
    assert weft.live_nodes() <= nodes
    assert weft.get_active_memory() <= used


@pytest.fixture
def rng():
    return np.random.default_rng(7)
