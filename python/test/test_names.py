"""The table of names: what it says is exported, stubbed, documented and true."""
import ast
import inspect
import pathlib
import pickle
import re

import numpy as np
import pytest
import weft
from weft import _core

ROWS = {row["name"]: row for row in _core.names}
STUB = (pathlib.Path(weft.__file__).parent / "_core.pyi").read_text()
TYPES = {
    "align_corners": "bool",
    "alpha": "float",
    "arrays": "Sequence[_ArrayLike]",
    "arrays_and_dtypes": "Any",
    "atol": "float",
    "axes": "Any",
    "axis": "_Axis",
    "axis1": "int",
    "axis2": "int",
    "base": "float",
    "beta": "float",
    "biases": "Optional[_ArrayLike]",
    "bins": "Any",
    "bits": "Optional[int]",
    "block_size": "int",
    "copy": "Optional[bool]",
    "correction": "Optional[float]",
    "count_include_pad": "bool",
    "ddof": "int",
    "decimals": "int",
    "density": "Optional[bool]",
    "descending": "bool",
    "destination": "Any",
    "device": "Optional[int]",
    "dilation": "_Shape",
    "dims": "Optional[int]",
    "dtype": "_DtypeLike",
    "dx": "float",
    "end_axis": "int",
    "endpoint": "bool",
    "eps": "float",
    "equal_nan": "bool",
    "flip": "bool",
    "format": "str",
    "global_scale": "Any",
    "group_size": "Optional[int]",
    "groups": "int",
    "inclusive": "bool",
    "indexing": "str",
    "indices_or_sections": "Any",
    "k": "int",
    "keepdims": "bool",
    "kth": "int",
    "length": "Optional[int]",
    "m": "Optional[int]",
    "message": "str",
    "method": "str",
    "minlength": "int",
    "mode": "str",
    "n": "int",
    "num": "int",
    "offset": "int",
    "on": "Sequence[_ArrayLike]",
    "pad_width": "Any",
    "padding": "Any",
    "period": "Optional[float]",
    "range": "Any",
    "repeats": "Any",
    "reps": "_Shape",
    "return_counts": "bool",
    "return_index": "bool",
    "return_inverse": "bool",
    "reverse": "bool",
    "rtol": "float",
    "sample": "Any",
    "scale": "Optional[float]",
    "shape": "Any",
    "shift": "Any",
    "side": "str",
    "size": "_Shape",
    "sorted_indices": "bool",
    "source": "Any",
    "sparse": "bool",
    "spread": "_Shape",
    "stable": "bool",
    "start_axis": "int",
    "stride": "_Shape",
    "strides": "Any",
    "subscripts": "str",
    "traditional": "bool",
    "transpose": "bool",
    "x": "Any",
}
RETURNS = {"histogram": "Tuple[array, array]", "histogram2d": "Tuple[array, array, array]", "histogramdd": "Tuple[array, List[array]]", "split": "List[array]", "quantize": "List[array]", "nonzero": "Tuple[array, ...]", "unique": "Any", "meshgrid": "List[array]", "divmod": "Tuple[array, array]", "result_type": "Dtype"}


def stub(row, is_method):
    """The line of a function, or of a method, in the stub."""
    parts = ["self"] if is_method else []
    for p in inspect.signature(getattr(weft, row["name"])).parameters.values():
        if is_method and p.kind is p.POSITIONAL_ONLY and len(parts) == 1 and p.name == "a":
            continue
        if p.kind is not p.POSITIONAL_ONLY and not is_method and "/" not in parts and parts and row["signature"].find("/") > 0:
            parts.append("/")
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else " = ..." if isinstance(p.default, weft.Dtype) else f" = {p.default!r}"
        parts.append(f"{star}{p.name}: {TYPES.get(p.name, '_ArrayLike')}{default}")
    if row["signature"].endswith("/)") and not is_method:
        parts.append("/")
    return f"{'    ' if is_method else ''}def {row['name']}({', '.join(parts)}) -> {RETURNS.get(row['name'], 'array')}: ..."


@pytest.mark.parametrize("name", ROWS)
def test_a_name_is_exported_stubbed_and_compared(name):
    row = ROWS[name]
    assert getattr(weft, name, None) is getattr(_core, name), f"python/weft/__init__.py does not import {name}"
    assert stub(row, False) in STUB.splitlines(), f"python/weft/_core.pyi wants: {stub(row, False)}"
    if row["is_method"]:
        assert stub(row, True) in STUB.splitlines(), f"python/weft/_core.pyi wants in class array: {stub(row, True)}"
    import test_against_numpy as numpy
    assert name in numpy.CALLS or numpy.kind(name) or name in numpy.NOT_OF_VALUES, f"test_against_numpy.py wants a row of CALLS for {name}"


@pytest.mark.parametrize("name", ROWS)
def test_an_example_gives_what_it_says(name):
    row, f = ROWS[name], getattr(weft, name)
    assert repr(eval("weft." + row["example"], {"weft": weft}).tolist()) == row["result"]
    assert row["example"].startswith(name) or "weft." + name in row["example"]
    assert f.__doc__.startswith(name + row["signature"]) and row["example"] in f.__doc__ and row["doc"] in f.__doc__
    assert f.__name__ == name and pickle.loads(pickle.dumps(f)) is f and f"weft.{name}(" in repr(f)


def test_the_stub_names_what_there_is():
    """Nothing in the stub that is not there, nothing there that is not in the stub."""
    tree = ast.parse(STUB)
    said = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    said |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    there = {name for name in vars(_core) if not name.startswith("_")}
    assert said == there
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        members = {m.name for m in kind.body if isinstance(m, ast.FunctionDef)}
        members |= {m.target.id for m in kind.body if isinstance(m, ast.AnnAssign)}
        own = {m for m in vars(getattr(_core, kind.name)) if not m.startswith("_")}
        assert own - members == set() and [m for m in members if not hasattr(getattr(_core, kind.name), m)] == [], kind.name


# Functions of weft.h that Python has no name for: it has another way, or none yet.
NOT_IN_PYTHON = set("""
    device_text dtype_name fetch function_arity function_show grad host id keep lead operands over scope_close scope_close_async
    update version version_text gammainc_da betainc_da
    """.split())


def test_every_function_of_c_has_a_name_or_a_reason():
    root = pathlib.Path(__file__).parents[2]
    header = re.sub(r"/\*.*?\*/", "", (root / "include" / "weft.h").read_text(), flags=re.S)
    there = set(re.findall(r"\bweft_([a-z0-9_]+)(?=\()", header)) | set(re.findall(r"^  X\((\w+), ", header, re.M))
    source = "".join(path.read_text() for path in (root / "python" / "src").glob("*.c"))
    called = set(re.findall(r"\bweft_([a-z0-9_]+)\b", source))
    missing = {name for name in there - called - NOT_IN_PYTHON if not name.startswith("random_")}
    assert missing == set(), "python/src/table.c wants a row, or NOT_IN_PYTHON a line"


def test_the_modules_of_the_package_are_there_without_being_imported():
    assert weft.random.uniform and weft.special.gammaln is weft.lgamma


def test_every_export_says_what_it_is():
    for name in dir(weft):
        if not name.startswith("_") and callable(getattr(weft, name)):
            assert (getattr(weft, name).__doc__ or "").strip(), f"weft.{name} has no docstring"


def test_methods_are_functions_of_the_array():
    x = weft.array([[1.0, -2.5, 3.0], [4.0, 0.5, -6.0]])
    for name, row in ROWS.items():
        assert hasattr(weft.array, name) == row["is_method"] or name in ("T", "real", "imag", "size", "to_device"), name
    assert x.std().item() == weft.std(x).item() and x.var(1, ddof=1).tolist() == weft.var(x, axis=1, ddof=1).tolist()
    assert x.clip(-1, 2).tolist() == [[1, -1, 2], [2, 0.5, -1]] == x.clip(min=-1, max=2).tolist() == weft.clip(x, max=2, min=-1).tolist()
    assert x.round().tolist() == [[1, -2, 3], [4, 0, -6]] and x.take([0, 5]).tolist() == [1, -6] and x.take([1], axis=1).tolist() == [[-2.5], [0.5]]
    assert x.repeat(2, 0).shape == (4, 3) and x.ravel().tolist() == x.flatten().tolist() and x.dot(weft.ones(3)).tolist() == [1.5, -1.5]
    assert x.reshape(shape=(3, 2)).shape == (3, 2) and x.sum(axis=0, keepdims=True).shape == (1, 3)

    class Layer:
        activation = weft.tanh
    assert Layer().activation(0.0).item() == 0  # a function is not bound


def test_arguments_by_name_and_what_is_wrong_with_them():
    a = weft.array([1, 2, 3])
    assert a.sum(dtype="float64").dtype == "float64" and weft.cumsum(a, dtype=weft.int64).dtype == "int64"
    assert weft.sum(weft.array([200, 100], dtype="uint8"), dtype=np.uint8).item() == 44
    for call, text in ((lambda: weft.sum(a, where=True), r"sum\(\) got an unexpected keyword argument 'where'"),
                       (lambda: weft.sum(a, 0, axis=1), r"sum\(\) got multiple values for argument 'axis'"),
                       (lambda: weft.sum(), r"sum\(\) misses the argument 'a': sum\(a, /, axis=None"),
                       (lambda: a.sum(0, False, 3), r"sum\(\) takes at most 3 arguments by position, not 4"),
                       (lambda: weft.add(1), r"add\(\) misses the argument 'b'")):
        with pytest.raises(TypeError, match=text):
            call()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_modes_of_padding(mode, rng):
    for shape, width in (((3, 4), ((1, 2), (3, 0))), ((5,), 3), ((2,), (7, 5)), ((1, 3), (2, 9)), ((3, 1), [(1, 1)])):
        x = rng.integers(0, 99, shape)
        np.testing.assert_array_equal(np.asarray(weft.pad(x, width, mode)), np.pad(x, width, mode), err_msg=f"{shape} {width}")
    if mode != "constant":
        with pytest.raises(ValueError, match="is empty"):
            weft.pad(weft.zeros((0, 2)), 1, mode=mode)
    with pytest.raises(ValueError, match='mode="odd" is none of'):
        weft.pad(weft.zeros(2), 1, mode="odd")
    slope = weft.grad(lambda x: weft.pad(x, (2, 1), mode).sum())(weft.array([1.0, 2.0, 3.0]))
    assert slope.sum().item() == (3 if mode == "constant" else 6)


def test_several_repeats_and_shifts(rng):
    x = rng.integers(0, 99, (3, 4))
    for times, axis in (([1, 0, 2], 0), ([2, 1, 0, 3], 1), ([2], 1), (np.array([1, 1, 2]), 0), (2, None), ([1] * 11 + [3], None)):
        np.testing.assert_array_equal(np.asarray(weft.repeat(x, times, axis)), np.repeat(x, times, axis))
    for shift, axis in (((1, 2), (0, 1)), (1, (0, 1)), ((1, -2), 1), (5, None), ((1, 2), None), (-7, -1)):
        np.testing.assert_array_equal(np.asarray(weft.roll(x, shift, axis)), np.roll(x, shift, axis))
    for cuts in ([1, 3], [0, 2, 9], [], 4):
        for a, b in zip(weft.split(x, cuts, 1), np.split(x, cuts, 1)):
            np.testing.assert_array_equal(np.asarray(a), b)
    with pytest.raises(ValueError, match="2 numbers for an axis of 3"):
        weft.repeat(x, [1, 2], 0)


def test_what_c_has_is_not_composed_again(rng):
    """linspace of C's bits, std of float16 that does not overflow, ranges that are exact."""
    n = 1000
    start, stop = 0.1, 7.3
    i = np.arange(n, dtype=np.float64)
    expected = i * ((stop - start) / (n - 1)) + start
    expected[-1] = stop
    np.testing.assert_array_equal(np.asarray(weft.linspace(start, stop, n, dtype="float64")), expected)
    np.testing.assert_allclose(np.asarray(weft.linspace(-1, 2, 6, endpoint=False, dtype="float64")), np.linspace(-1, 2, 6, endpoint=False), atol=1e-15)
    assert [weft.linspace(2, 3, k).tolist() for k in (0, 1)] == [[], [2.0]] and weft.linspace(2, 3, 0, endpoint=False).shape == (0,)
    x = weft.array(rng.uniform(-1, 1, 64) * 30000).astype("float16")
    np.testing.assert_allclose(x.std().item(), np.asarray(x).astype(np.float64).std(), rtol=1e-3)
    assert weft.arange(2**60, 2**60 + 3).tolist() == [2**60, 2**60 + 1, 2**60 + 2] and weft.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert weft.arange(weft.array(3)).tolist() == [0, 1, 2] and weft.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]


class Turncoat:
    """An integer that gives an array another value while it is asked for."""

    def __init__(self, array, value):
        self.array, self.value = array, value

    def __index__(self):
        for _ in range(3):
            self.array += weft.ones(self.array.shape)
        weft.eval(self.array)
        return self.value


@pytest.mark.parametrize("call", [
    lambda a, i: a.sum(i), lambda a, i: a.sum(axis=(i,)), lambda a, i: a.reshape(i, 2), lambda a, i: weft.take(a, [0], i), lambda a, i: weft.roll(a, i, 0),
    lambda a, i: weft.pad(a, i), lambda a, i: weft.repeat(a, [i, i], 0), lambda a, i: a.var(ddof=i), lambda a, i: weft.take_along_axis(a, a, i),
    lambda a, i: weft.split(a, [i]), lambda a, i: weft.tensordot(a, a, i), lambda a, i: a.swapaxes(0, i), lambda a, i: a.round(i),
    lambda a, i: a.sort(i), lambda a, i: weft.windows(a, i, 0), lambda a, i: weft.window(a, 0, i), lambda a, i: weft.size(a, i),
    lambda a, i: weft.conv(a.reshape(1, 2, 2), a.reshape(1, 2, 2), padding=[(i, i)]), lambda a, i: weft.conv(a.reshape(1, 2, 2), a.reshape(2, 1, 2), stride=i)])
def test_arguments_that_change_the_array_are_harmless(call):
    a = weft.array([[0, 1], [1, 0]]) + weft.zeros((2, 2), dtype=weft.int32)
    try:
        result = call(a, Turncoat(a, 1 if "reshape" not in str(call.__code__.co_names) else 2))
        weft.eval(result)
    except (IndexError, ValueError):
        pass
    assert a.tolist()[0][0] >= 3


def test_no_message_speaks_c(rng):
    x, m = weft.zeros((2, 3)), weft.zeros((4, 5))
    wrong = [lambda: x @ m, lambda: x + m, lambda: x[5], lambda: x.reshape(7), lambda: weft.concatenate([x, m]), lambda: weft.stack([x, m]),
             lambda: x.squeeze(0), lambda: weft.broadcast_to(x, (3, 2)), lambda: x.sum(9), lambda: weft.einsum("ij,jk", x, m),
             lambda: weft.tensordot(x, m), lambda: x ^ x, lambda: -weft.array(True), lambda: weft.max(weft.zeros(0)), lambda: weft.zeros((2, -1)),
             lambda: weft.eval(weft.take(x, weft.array([9]), 0)), lambda: weft.take_along_axis(x, m, 0), lambda: weft.diag(weft.zeros((1, 1, 1))),
             lambda: weft.split(x, 2, 1), lambda: weft.pad(x, -5), lambda: weft.tile(x, -1), lambda: weft.linspace(0, 1, -1), lambda: weft.load("/none"),
             lambda: weft.grad(lambda x: weft.floor(x).sum() * x)(x), lambda: weft.vmap(lambda a, b: a + b)(x, m), lambda: weft.as_strided(x, (9,), (9,)),
             lambda: weft.scan(lambda c, _: (m, None), x, length=2), lambda: weft.cond(weft.array(True), lambda: x, lambda: m),
             lambda: weft.while_loop(lambda c: c.sum() < 1, lambda c: m, x), lambda: weft.compile(lambda x: x.tolist())(x), lambda: x.astype("float8"),
             lambda: weft.attention(x, m, m), lambda: weft.sort(weft.zeros(2, "complex64")), lambda: weft.searchsorted(x, 1.0), lambda: weft.windows(x, 9, 1),
             lambda: weft.conv(x, m), lambda: weft.window(x, weft.array(0.5), 1), lambda: weft.sized((x,)), lambda: weft.size(x, 2), lambda: weft.layer_norm(x, m), lambda: weft.show(x, what="?"), lambda: weft.vmap(lambda a: float(a))(x),
             lambda: weft.vjp(lambda a: a, [x], [m]), lambda: weft.jvp(lambda a: a, [x], [m]), lambda: weft.compile(lambda a: weft.eye(a))(weft.array(1)),
             lambda: weft.scan(lambda c, _: (c, c), x, length=-1), lambda: weft.scan(lambda c, _: (c, c), x, length=2, recompute=-1)]
    silent = []
    for k, call in enumerate(wrong):
        try:
            call()
            silent.append(k)
        except Exception as error:
            assert "weft_" not in str(error), str(error)
    assert silent == []
