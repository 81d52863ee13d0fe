"""Complex numbers, against NumPy."""
import numpy as np
import pytest

import weft


@pytest.fixture(params=[np.complex64, np.complex128])
def dtype(request):
    return request.param


def numbers(dtype, n=12):
    rng = np.random.default_rng(1)
    return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)


def same(a, b):
    np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5 if b.dtype.itemsize <= 8 else 1e-12)
    assert a.dtype.name == b.dtype.name


def test_numpy_goes_in_and_comes_out(dtype):
    x = numbers(dtype).reshape(3, 4)
    for view in (x, x.T, x[::-1], x[:, ::2], x[:0]):
        a = weft.array(view)
        assert a.dtype.name == view.dtype.name and a.shape == view.shape
        assert np.array_equal(np.asarray(a), view)
        assert a.tolist() == view.tolist()
    assert np.array_equal(np.from_dlpack(weft.asarray(x)), x)


def test_arithmetic_is_that_of_numpy(dtype):
    x, y = numbers(dtype), numbers(dtype)[::-1]
    a, b = weft.array(x), weft.array(y)
    same(a + b, x + y)
    same(a - b, x - y)
    same(a * b, x * y)
    same(a / b, x / y)
    same(abs(a), abs(x))
    same(a.conj(), x.conj())
    same(a.real, x.real)
    same(a.imag, x.imag)
    same(-a, -x)
    same(a ** 3, x ** 3)
    same(a.sum(), x.sum())
    same(a.prod(), x.prod())
    same(a.mean(), x.mean())
    same(weft.cumsum(a, 0), np.cumsum(x))
    same(weft.cumprod(a, 0), np.cumprod(x))
    same(weft.complex(a.real, b.real), x.real + 1j * y.real)
    for f in ("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"):
        same(getattr(weft, f)(a), getattr(np, f)(x))
    same(weft.sigmoid(a), 1 / (1 + np.exp(-x)))
    m, n = x.reshape(3, 4), y.reshape(4, 3)
    same(weft.array(m) @ weft.array(n), m @ n)
    assert np.array_equal(np.asarray(a == b), x == y) and np.array_equal(np.asarray(a != b), x != y)


@pytest.mark.parametrize("name, wanted", [
    ("bool_", "complex64"), ("uint8", "complex64"), ("int32", "complex64"), ("int64", "complex64"),
    ("float16", "complex64"), ("bfloat16", "complex64"), ("float32", "complex64"), ("float64", "complex128"),
    ("complex64", "complex64"), ("complex128", "complex128")])
def test_1j_takes_the_width_of_its_partner(name, wanted):
    x = weft.ones((2,), dtype=getattr(weft, name))
    y = x * (2 + 0.1j)
    assert y.dtype.name == wanted
    exact = np.dtype(wanted).type(2 + 0.1j)
    assert y.tolist() == [exact, exact]


def test_lists_of_complex_numbers_are_complex64_unless_told():
    assert weft.array([1, 2.5, 3j]).dtype is weft.complex64
    x = weft.array([[0.1 + 0.2j, 1]], dtype=weft.complex128)
    assert x.tolist() == [[0.1 + 0.2j, 1 + 0j]]
    assert weft.array(0.1j, dtype=weft.complex128).item() == 0.1j
    assert complex(weft.array(1 + 2j).item()) == 1 + 2j


def test_casts_keep_the_real_part():
    x = weft.array([1.5 - 2j, 1j, 0j])
    assert x.astype(weft.float32).tolist() == [1.5, 0, 0]
    assert x.astype(weft.int32).tolist() == [1, 0, 0]
    assert x.astype(weft.bool_).tolist() == [True, True, False]


def test_gradients_are_those_of_mlx():
    x = weft.array([0 + 1j, 1 + 0j, 0.5 + 0.5j])
    assert weft.grad(lambda z: (2 * z.real).sum())(x).tolist() == [2, 2, 2]
    assert weft.grad(lambda z: (2 * z.imag).sum())(x).tolist() == [-2j, -2j, -2j]
    assert weft.grad(lambda z: abs(z).sum())(weft.array([0j, 3 + 4j])).tolist() == pytest.approx([0, 0.6 - 0.8j])


def test_what_has_no_order_says_so():
    z = weft.array([1j, 2])
    for call in (lambda: z < z, lambda: weft.maximum(z, z), lambda: z.max(), lambda: weft.argmax(z), lambda: weft.softmax(z)):
        with pytest.raises((TypeError, ValueError), match="not of complex64"):
            call()


def test_files_keep_complex_numbers(tmp_path):
    x = numbers(np.complex64)
    weft.save_safetensors(str(tmp_path / "x.safetensors"), {"x": weft.array(x)})
    assert np.array_equal(np.asarray(weft.load(str(tmp_path / "x.safetensors"))["x"]), x)
    for kind in (np.complex64, np.complex128):
        np.save(tmp_path / "x.npy", x.astype(kind))
        a = weft.load(str(tmp_path / "x.npy"))
        assert np.array_equal(np.asarray(a * 2), x.astype(kind) * 2)
        weft.save(str(tmp_path / "y.npy"), a)
        assert np.array_equal(np.load(tmp_path / "y.npy"), x.astype(kind))
