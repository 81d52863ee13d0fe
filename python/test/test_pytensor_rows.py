"""Which Ops have rows: beside the tables of PyTensor's linkers for JAX and Numba, and in the dtypes that are seldom asked for."""
import pathlib
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor  # noqa: E402
import pytensor.scalar as ps  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.compile.mode import Mode  # noqa: E402
from pytensor.graph.op import Op  # noqa: E402
from pytensor.ifelse import IfElse  # noqa: E402
from pytensor.scalar.basic import ScalarOp  # noqa: E402
from pytensor.scalar.loop import ScalarLoop  # noqa: E402
from pytensor.tensor.elemwise import CAReduce, Elemwise  # noqa: E402

import weft.pytensor  # noqa: E402
from weft.pytensor import plane, row, scalar  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pytensor.md"
NOT_DENSE = ("pytensor.sparse", "pytensor.typed_list", "pytensor.link")  # sparse matrices, lists, and JAX's own functions
PLAIN = Mode("py", "fast_compile")


@pytest.fixture(autouse=True)
def without_fallbacks(request):
    before = weft.pytensor.fallbacks.total()
    yield
    assert "fallback" in request.node.name or weft.pytensor.fallbacks.total() == before


def kinds(base):
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


def taken():
    """The classes of Ops, but for those of scalars, that the linker for JAX or the one for Numba takes."""
    jax = pytest.importorskip("pytensor.link.jax.dispatch.basic", exc_type=ImportError).jax_funcify
    numba = pytest.importorskip("pytensor.link.numba.dispatch.basic", exc_type=ImportError).numba_funcify
    pytest.importorskip("pytensor.link.jax.dispatch", exc_type=ImportError)
    pytest.importorskip("pytensor.link.numba.dispatch", exc_type=ImportError)
    for kind in set(kinds(Op)):
        if kind.__module__.startswith("pytensor.") and not kind.__module__.startswith(NOT_DENSE) and not issubclass(kind, ScalarOp):
            if any(table.dispatch(kind) is not table.dispatch(object) for table in (jax, numba)):
                yield kind


def test_ops_that_other_linkers_take_have_rows_but_for_those_that_the_page_names():
    missing = {kind.__name__ for kind in taken() if not any(k in row.ROWS for k in kind.__mro__) and not issubclass(kind, IfElse)}
    named = re.search(r"^No row: (.*?)\.$", PAGE.read_text(), re.S | re.M)
    assert missing == set(re.findall(r"`(\w+)`", named[1]))


def test_every_scalar_op_has_a_row():
    ops = [kind for kind in set(kinds(ScalarOp)) if kind.__module__.startswith("pytensor.") and not list(kind.__subclasses__())]
    assert len(ops) > 80
    assert not [kind.__name__ for kind in ops if not any(kind in table for table in scalar.TABLES) and not issubclass(kind, ScalarLoop)]


SPECIAL = [0.0, 1e-300, 1e-20, 1e-8, 0.3, 0.5, 1.0, 1.0000001, 1.5, 2.0, 30.0, 1e7, 1e9, 1e20, 1e155, 1e300, np.inf]
NUMPYS = {ps.Exp2: np.exp2, ps.Expm1: np.expm1, ps.Log2: np.log2, ps.Log10: np.log10, ps.Log1p: np.log1p, ps.Sign: np.sign,
          ps.ArcCos: np.arccos, ps.ArcSin: np.arcsin, ps.ArcTan: np.arctan, ps.ArcCosh: np.arccosh, ps.ArcSinh: np.arcsinh, ps.ArcTanh: np.arctanh,
          ps.Maximum: np.maximum, ps.Minimum: np.minimum, ps.LT: np.less, ps.LE: np.less_equal, ps.GT: np.greater, ps.GE: np.greater_equal}


def numbers(rng):
    """All pairs of special parts, with both signs; numbers of all sizes, and close to the branch point 1."""
    parts = [sign * x for x in SPECIAL for sign in (1, -1)]
    around = lambda size: size * np.exp(1j * rng.uniform(-np.pi, np.pi, size.shape))
    return np.concatenate([[complex(a, b) for a in parts for b in parts], around(np.exp(3 * rng.standard_normal(2000))),
                           1 + around(np.exp(3 * rng.standard_normal(1000) - 8))])


def same(got, want, size, tolerance):
    """Part by part: zeros have their signs, what is infinite or nan is the same, the rest is close by the size of the whole."""
    close = np.abs(got - want) <= tolerance * np.maximum(size, 1e-305)
    is_zero = (got == 0) & (want == 0)
    return (np.isnan(got) & np.isnan(want)) | (is_zero & (np.signbit(got) == np.signbit(want))) | ~is_zero & ((got == want) | close)


@pytest.mark.parametrize("dtype, tolerance", [("complex64", 3e-6), ("complex128", 1e-13)])
@pytest.mark.parametrize("kind", plane.COMPLEX, ids=lambda kind: kind.__name__)
def test_a_function_of_complex_numbers_is_numpys(rng, kind, dtype, tolerance):
    with np.errstate(all="ignore"):
        z = numbers(rng).astype(dtype)
        if kind is ps.Exp2:  # of two infinite parts weft's exp is nan as a whole
            z = z[~(np.isinf(z.real) & np.isinf(z.imag))]
        values = [z] if kind not in (ps.Maximum, ps.Minimum) else [z, rng.permutation(z)]
        want = NUMPYS[kind](*values)
    x = [pt.tensor(dtype=dtype, shape=(None,)) for _ in values]
    got = pytensor.function(x, Elemwise(one_of(kind))(*x), mode="WEFT")(*values)
    assert got.dtype == want.dtype
    is_same = same(got.real, want.real, np.abs(want), tolerance) & same(got.imag, want.imag, np.abs(want), tolerance)
    assert is_same.all(), [(v, g, w) for v, g, w in zip(values[0][~is_same], got[~is_same], want[~is_same])][:5]


@pytest.mark.parametrize("kind", plane.COMPLEX_ORDER, ids=lambda kind: kind.__name__)
def test_the_order_of_complex_numbers_is_numpys(kind):
    some = [1 + 1j, 1 + 2j, 2 + 0j, complex(np.nan, 1), complex(1, np.nan), complex(np.inf, 0), complex(-np.inf, np.inf), 0j]
    a, b = np.array([(p, q) for p in some for q in some]).T
    x, y = pt.zvector(), pt.zvector()
    assert np.array_equal(pytensor.function([x, y], Elemwise(one_of(kind))(x, y), mode="WEFT")(a, b), NUMPYS[kind](a, b))


def one_of(kind):
    return next(op for op in vars(ps).values() if type(op) is kind)


LINEAR = {"lu": lambda x: list(pt.linalg.lu(x)), "lu_factor": lambda x: list(pt.linalg.lu_factor(x)), "slogdet": lambda x: list(pt.linalg.slogdet(x)),
          "permuted": lambda x: list(pt.linalg.lu(x, permute_l=True)), "expm": lambda x: [pt.linalg.expm(x)]}


@pytest.mark.parametrize("dtype, tolerance", [("complex64", 1e-4), ("complex128", 1e-10)])
@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)])
@pytest.mark.parametrize("name", LINEAR)
def test_factors_of_complex_matrices_are_scipys(rng, name, shape, dtype, tolerance):
    x = pt.tensor(dtype=dtype, shape=(None,) * len(shape))
    value = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    got, want = (pytensor.function([x], LINEAR[name](x), mode=mode)(value) for mode in ("WEFT", PLAIN))
    for a, b in zip(got, want):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("op", [ps.and_, ps.or_, ps.xor], ids=str)
def test_bits_are_reduced_over_any_axes_also_of_nothing(rng, op, dtype):
    x = pt.tensor(dtype=dtype, shape=(None, None))
    out = [CAReduce(op, axis)(x) for axis in (None, (0,), (1,), ())]
    f, plain = (pytensor.function([x], out, mode=mode) for mode in ("WEFT", PLAIN))
    for shape in ((3, 4), (0, 4), (3, 0), (1, 1)):
        value = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        for a, b in zip(f(value), plain(value)):
            assert a.dtype == b.dtype and np.array_equal(a, b)


ORDERED = {"max": lambda x: pt.max(x, axis=1), "argmax": lambda x: pt.argmax(x, axis=1), "sort": lambda x: pt.sort(x, axis=0),
           "argsort": lambda x: pt.argsort(x, axis=1), "erf": pt.erf}


@pytest.mark.filterwarnings("ignore::weft.pytensor.FallbackWarning")
@pytest.mark.parametrize("name", ORDERED)
def test_what_weft_has_not_of_complex_numbers_is_a_fallback_and_no_error(rng, name):
    x = pt.zmatrix("x")
    f, plain = (pytensor.function([x], [ORDERED[name](x * 2), x + 1], mode=mode) for mode in ("WEFT", PLAIN))
    for shape in ((3, 4), (2, 2)):
        value = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        for a, b in zip(f(value), plain(value)):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_running_sums_that_are_copied_have_the_dtype_they_are_computed_in():
    s = pytensor.shared(np.array([[True, True, False, True]]), shape=(1, None))
    x = pt.cumsum(s, axis=1)
    got, again = pytensor.function([], [x, x], mode="WEFT")()
    assert got.dtype == again.dtype == np.int64 and got.tolist() == again.tolist() == [[1, 2, 2, 3]]
