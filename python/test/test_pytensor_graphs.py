"""Random graphs, and stories of calls, in mode WEFT beside PyTensor itself; pytensor_graphs.py and pytensor_calls.py make as many as one likes."""
import logging
import warnings

import pytest

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor_calls  # noqa: E402
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


def test_random_stories_of_calls_are_those_of_pytensor():
    logging.disable(logging.WARNING)
    try:
        for seed in range(12):
            wrong = pytensor_calls.tried(seed)
            assert wrong is None or isinstance(wrong, tuple), f"{seed}: {wrong}"
    finally:
        logging.disable(logging.NOTSET)
