"""Arrays beside NumPy's: what its functions, dtypes and Python's own protocols of numbers make of them."""
import numpy as np
import pytest
import weft

A = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]], np.float32)


@pytest.mark.parametrize("f", [
    lambda a: np.sum(a), lambda a: np.sum(a, axis=0), lambda a: np.mean(a, 1, keepdims=True), lambda a: np.max(a), lambda a: np.argmin(a, 1),
    lambda a: np.exp(a), lambda a: np.abs(a), lambda a: np.add(a, 1), lambda a: np.matmul(a, a.T), lambda a: np.maximum(a, A),
    lambda a: np.concatenate([a, A]), lambda a: np.stack([a, a]), lambda a: np.where(a > 0, a, 0), lambda a: np.einsum("ij,ij->i", a, a),
    lambda a: np.transpose(a), lambda a: np.reshape(a, (3, 2)), lambda a: np.add.reduce(a), lambda a: np.maximum.reduce(a, axis=1),
    lambda a: np.zeros_like(a), lambda a: np.round(a, 1), lambda a: np.clip(a, -1, 1), lambda a: A + a, lambda a: A * a, lambda a: np.float64(2) * a,
    lambda a: np.negative(a), lambda a: np.std(a, axis=1), lambda a: np.power(a, 2)])
def test_functions_that_weft_has_take_its_arrays(f):
    got = f(weft.array(A))
    assert isinstance(got, weft.array)
    np.testing.assert_allclose(np.asarray(got), f(A), rtol=1e-6)


@pytest.mark.parametrize("f", [lambda a: np.cbrt(a), lambda a: np.linalg.norm(a), lambda a: np.unwrap(a), lambda a: np.add.accumulate(a),
                               lambda a: np.copysign(a, -1), lambda a: np.ptp(a)])
def test_functions_that_weft_has_not_are_numpys(f):
    got = f(weft.array(A))
    assert not isinstance(got, weft.array)
    np.testing.assert_allclose(got, f(A), rtol=1e-6)


def test_what_numpys_functions_may_not_do():
    a, out = weft.array(A), np.zeros_like(A)
    np.add(a, 1, out=out)
    np.testing.assert_array_equal(out, A + 1)
    out += a
    np.testing.assert_array_equal(out, A + 1 + A)
    with pytest.raises(TypeError, match="cannot be written into"):
        np.add(A, 1, out=a)
    with pytest.raises(TypeError, match="are values"):
        np.put_along_axis(a, np.array([[0]]), 1.0, 0)
    with pytest.raises(TypeError, match="where"):
        np.sum(a, where=A > 0)
    assert np.shape(a) == (2, 3) and np.ndim(a) == 2 and np.size(a) == 6 == np.size(a, 0) * np.size(a, 1)
    assert np.argsort(a, kind="stable").tolist() == np.argsort(A, kind="stable").tolist() and isinstance(np.sort(a, stable=True), weft.array)
    with pytest.raises(weft.NoValueError):
        weft.compile(lambda x: np.cbrt(x))(a)
    assert weft.compile(lambda x: np.sum(np.exp(x)))(a).shape == ()


def test_dtypes_are_numpys():
    for name in "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split():
        d = weft.zeros(1, dtype=name).dtype
        assert d == name and d == np.dtype(name) and d == np.dtype(name).type and np.dtype(name) == d and np.dtype(d) == np.dtype(name)
        assert not d != name and d != "float8" and d != np.dtype("S3") and d is not None and d != None and d != 3  # noqa: E711
        assert np.zeros(2, dtype=d).dtype.name == name
    assert weft.float32 != weft.float64 and weft.float32 == weft.float32 and len({weft.float32, weft.float64, weft.float32}) == 2
    assert weft.bfloat16 == "bfloat16" and weft.bfloat16 != np.float32
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(TypeError):
            np.dtype(weft.bfloat16)
    else:
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            assert np.dtype(getattr(weft, name)) == getattr(ml_dtypes, name)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits_are_those_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    theirs = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    x = weft.asarray(theirs)
    assert x.dtype == name and x.view(weft.uint8).tolist() == list(range(256))
    np.testing.assert_array_equal(np.asarray(x), theirs.astype(np.float32))
    np.testing.assert_array_equal(np.asarray(x, dtype=theirs.dtype).astype(np.float32), theirs.astype(np.float32))
    rng = np.random.default_rng(0)
    wide = np.concatenate([rng.standard_normal(20000) * np.exp2(rng.integers(-20, 20, 20000)), [448, 464, 465, 57344, 61439, 61440, np.inf, -np.inf, 0.0, -0.0]])
    for d in (np.float32, np.float16):
        with np.errstate(over="ignore"):
            given = wide.astype(d)
        np.testing.assert_array_equal(np.asarray(weft.asarray(given).astype(name).view(weft.uint8)), given.astype(theirs.dtype).view(np.uint8))
    a, b = theirs[:120].reshape(8, 15), theirs[120:240].reshape(15, 8)
    for f in (lambda x, y: x[:, :8] + y[:8], lambda x, y: x[:, :8] * y[:8], lambda x, y: x[:, :8] / y[:8]):
        with np.errstate(all="ignore"):
            want = f(a, b).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(f(weft.asarray(a), weft.asarray(b))), want)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits_go_through_dlpack(name):
    torch = pytest.importorskip("torch")
    x = weft.asarray(np.arange(256, dtype=np.uint8)).view(getattr(weft, name))
    t = torch.from_dlpack(x)
    assert t.dtype == getattr(torch, name) and t.view(torch.uint8).tolist() == list(range(256))
    assert weft.from_dlpack(t).dtype == name and weft.from_dlpack(t).view(weft.uint8).tolist() == list(range(256))


def test_a_number_is_one_for_python():
    a = weft.array(2.71828)
    assert f"{a:.3f}" == "2.718" and format(weft.array(7), "04d") == "0007" and f"{a}" == str(a) and f"{weft.array([1, 2])}" == "array([1, 2], dtype=int32)"
    with pytest.raises(TypeError, match="formats one number"):
        f"{weft.array([1.0]):.3f}"
    assert round(a).item() == 3 and abs(round(a, 2).item() - 2.72) < 1e-6 and round(weft.array([0.5, 1.5])).tolist() == [0, 2]
    assert complex(weft.array(1 + 2j)) == 1 + 2j and complex(weft.array(3.0)) == 3
    q, r = divmod(weft.array([7, -7]), 3)
    assert q.tolist() == [2, -3] and r.tolist() == [1, 2]
    q, r = divmod(7.5, weft.array([2.0, -2.0]))
    assert q.tolist() == [3, -4] and r.tolist() == [1.5, -0.5]


def test_a_number_is_an_index():
    i = weft.array(2)
    assert list(range(i)) == [0, 1] and [5, 6, 7][i] == 7 and [5, 6, 7][:weft.array(1)] == [5] and "ab" * i == "abab"
    x = weft.arange(10)
    assert x[i:i + 3].tolist() == [2, 3, 4] and x[i].item() == 2 and x[weft.array([2])].tolist() == [2]
    assert weft.zeros((i, 3)).shape == (2, 3) and weft.zeros(i).shape == (2,) and x.reshape(i, 5).shape == (2, 5)
    assert weft.zeros(np.array([2, 3])).shape == (2, 3) and weft.zeros(weft.array([2, 3])).shape == (2, 3)
    assert weft.zeros((2, 3)).sum(weft.array(1)).shape == (2,)
    for wrong in (weft.array([1]), weft.array(1.0), weft.array(True)):
        with pytest.raises(TypeError, match="only a 0-d array of integers is an index"):
            range(wrong)


def test_ranges_are_made_of():
    assert weft.array(range(3)).tolist() == [0, 1, 2] and weft.array([range(2), range(2)]).tolist() == [[0, 1], [0, 1]]
    assert weft.array(range(2), dtype="float64").dtype == "float64" and (weft.array([1, 2]) + range(2)).tolist() == [1, 3]
    assert weft.array(range(0)).shape == (0,)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "float64", "bool"])
def test_numbers_of_the_memory_are_instances_of_numpys_types(dtype):
    a = np.asarray(weft.array(np.zeros(2, dtype)))
    assert a.dtype == np.dtype(dtype) and a.dtype.char == np.dtype(dtype).char and isinstance(a[0], np.dtype(dtype).type)
    assert weft.array(memoryview(np.array([1, 2], dtype))).dtype == dtype
