"""Every function of weft.mlx.core says what it does, with an example that is true."""
import doctest
import types

import pytest

pytest.importorskip("numpy")
import weft  # noqa: E402
import weft.mlx.core as mx  # noqa: E402

FILES = {"export_to_dot"}  # test_mlx.py has it write
PARTS = {"": mx, "random.": mx.random, "linalg.": mx.linalg, "fft.": mx.fft, "fast.": mx.fast, "distributed.": mx.distributed,
         "metal.": mx.metal, "cuda.": mx.cuda}


def functions():
    for part, module in PARTS.items():
        for name in sorted(vars(module)):
            f = getattr(module, name)
            if name.startswith("_") or isinstance(f, (type, types.ModuleType)) or not callable(f) or name in FILES:
                continue
            if (f.__doc__ or "").startswith("Not there:"):
                continue
            yield pytest.param(f, id=part + name)


@pytest.mark.parametrize("function", list(functions()))
def test_the_example_of_a_function_is_true(function):
    names = {"mx": mx, "weft": weft}
    test = doctest.DocTestParser().get_doctest(function.__doc__ or "", names, function.__name__, None, 0)
    assert test.examples, f"{function.__name__} has no example"
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)
