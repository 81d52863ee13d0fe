"""Random graphs in mode WEFT beside PyTensor itself; `python/test/pytensor_graphs.py` makes as many as one likes."""
import logging
import warnings

import pytest

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor_graphs  # noqa: E402


@pytest.mark.parametrize("theme", sorted(pytensor_graphs.THEMES))
def test_random_graphs_give_what_pytensor_gives(theme):
    logging.disable(logging.WARNING)  # PyTensor prints each rewrite that fails
    try:
        for seed in range(5):
            wrong, _, _ = pytensor_graphs.tried(seed, theme)
            assert wrong is None or isinstance(wrong, tuple), f"{theme} {seed}: {wrong}"
    finally:
        logging.disable(logging.NOTSET)
