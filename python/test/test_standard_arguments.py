"""Arguments that the Python array API standard has and NumPy's functions of the same name have not, or only some of them."""
import numpy as np
import pytest
import weft


def test_where_arrays_are_made():
    for x in [weft.zeros(2, device=0), weft.ones(2, device=0), weft.full((2,), 1, device=0), weft.arange(2, device=0), weft.eye(2, device=0),
              weft.linspace(0, 1, 2, device=0), weft.asarray([1, 2], device=0), weft.zeros_like([1, 2], device=0),
              weft.array([1, 2]).astype(weft.float32, device=0), weft.from_dlpack(np.ones(2, np.float32), device=0)]:
        assert x.device == 0 and x.shape[0] == 2
    with pytest.raises((ValueError, RuntimeError), match="device"):
        weft.eval(weft.zeros(2, device=99))
    with pytest.raises(TypeError):
        weft.zeros(2, device="somewhere")


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sorts_the_other_way_round_leave_equal_elements_as_they_stood(rng, axis):
    x = rng.integers(0, 4, (7, 9)).astype(np.float32)
    want = np.argsort(-x, axis=axis, kind="stable")
    assert weft.argsort(x, axis, descending=True).tolist() == want.tolist()
    assert weft.sort(x, axis, descending=True).tolist() == (-np.sort(-x, axis=axis)).tolist()
    open_sort = weft.compile(lambda a: weft.argsort(a, axis, descending=True, stable=True), shapes="any")
    assert open_sort(weft.array(x)).tolist() == want.tolist()
    g = weft.grad(lambda a: (weft.sort(a, descending=True) * weft.array([1.0, 2.0, 3.0])).sum())(weft.array([5.0, 7.0, 6.0]))
    assert g.tolist() == [3, 1, 2]
    assert weft.sort(weft.array([1.0, np.nan, 2.0]), descending=True).tolist()[1:] == [2, 1]


@pytest.mark.parametrize("correction", [0, 1, 1.0, 0.5, 2])
def test_a_correction_need_not_be_a_whole_number(rng, correction):
    x = rng.standard_normal((5, 6))
    for axis, n in [(None, 30), (0, 5), (1, 6), ((0, 1), 30)]:
        want = x.var(axis=axis) * n / (n - correction)
        np.testing.assert_allclose(weft.var(x, axis, correction=correction), want, rtol=1e-14)
        np.testing.assert_allclose(weft.std(x, axis, correction=correction), np.sqrt(want), rtol=1e-14)
    assert weft.var(weft.array(x), correction=correction, keepdims=True).shape == (1, 1)
    assert np.isinf(weft.var(weft.array([1.0, 2.0]), correction=2).item())


def test_a_sorter_is_the_order_of_what_is_searched(rng):
    x, v = rng.standard_normal(50), rng.standard_normal((3, 4))
    order = np.argsort(x)
    for side in ["left", "right"]:
        assert weft.searchsorted(x, v, side=side, sorter=order).tolist() == np.searchsorted(x, v, side, sorter=order).tolist()


def test_numbers_of_python_are_weak_in_result_type():
    assert weft.result_type(weft.int8, 1) == weft.int8 and weft.result_type(1, weft.array([True])) == weft.int32
    assert weft.result_type(weft.float16, 1.0, 2) == weft.float16 and weft.result_type(weft.int8, 1.0) == weft.float32
    assert weft.result_type(weft.float64, 1j) == weft.complex128 and weft.result_type(weft.uint8, weft.int8, True) == weft.int16
    assert weft.result_type(1, 2.0) == weft.float32


def test_a_copy_of_dlpack_is_not_the_memory_it_was():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    shared, copy = weft.from_dlpack(x), weft.from_dlpack(x, copy=True)
    x[0, 0] = 9
    assert shared.tolist()[0][0] == 9 and copy.tolist() == [[2, 1, 0], [5, 4, 3]]


def test_factors_are_lower_or_upper_and_determinants_have_names(rng):
    a = rng.standard_normal((2, 4, 4))
    a = a @ a.transpose(0, 2, 1) + 4 * np.eye(4)
    u = np.asarray(weft.linalg.cholesky(a, upper=True))
    np.testing.assert_allclose(u.transpose(0, 2, 1) @ u, a, rtol=1e-12)
    assert np.array_equal(u, np.triu(u))
    parts = weft.linalg.slogdet(a)
    assert parts.sign.tolist() == [1, 1] and parts.logabsdet is parts[1] and isinstance(parts, tuple)
    for source, destination in [(0, 2), ((), ()), ((0, 1), (2, 0)), ((2, 0), (0, 2)), ((0, 1, 2), (2, 0, 1)), ((-1,), (0,))]:
        assert weft.moveaxis(weft.ones((2, 3, 4)), source, destination).shape == np.moveaxis(np.ones((2, 3, 4)), source, destination).shape
    with pytest.raises(ValueError, match="2 axes go to 1 places"):
        weft.moveaxis(weft.ones((2, 3, 4)), (0, 1), (0,))
    with pytest.raises(ValueError, match="twice"):
        weft.moveaxis(weft.ones((2, 3, 4)), (0, 0), (0, 1))
    x = weft.array([1.0, 2.0])
    copy = weft.asarray(x, copy=True)
    x[0] = 9
    assert copy.tolist() == [1, 2] and weft.asarray(x) is x
    assert weft.permute_dims(weft.ones((2, 3, 4)), axes=(2, 0, 1)).shape == (4, 2, 3)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint32", "float16", "float64"])
@pytest.mark.parametrize("other", [[1.5, 2], [300, -1], np.array([1.5, 300.0]), np.array([300, 44], np.int16), [2 + 1j, 1], [True], 1.5, 300, True])
def test_what_is_sought_is_not_cut_to_the_dtype_it_is_sought_in(dtype, other):
    x = np.array([44, 1, 2, 3]).astype(dtype)
    assert weft.isin(weft.array(x), other).tolist() == np.isin(x, other).tolist()
    assert weft.isin(other, weft.array(x)).tolist() == np.isin(other, x).tolist()


def test_numbers_beside_arrays_keep_their_fractions():
    x = np.array([7, 2], np.uint8)
    assert weft.copysign(0.5, weft.array(x)).tolist() == [0.5, 0.5]
    assert weft.copysign(weft.array(x), [-1, 2]).tolist() == [-7, 2]
    assert weft.nextafter(0.5, weft.array(x)).tolist() == np.nextafter(np.float32(0.5), np.float32(9)).repeat(2).tolist()
    assert weft.diff(weft.array(x), prepend=0.5, append=-1.5).tolist() == np.diff(x, prepend=0.5, append=-1.5).tolist()
    with pytest.raises(ValueError, match="copysign: 300 does not fit uint8"):
        weft.copysign(weft.array(x), 300)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "bool"])
def test_whole_numbers_far_apart_are_not_close(dtype):
    ends = np.array([0, 1], bool) if dtype == "bool" else np.array([np.iinfo(dtype).min, np.iinfo(dtype).max])
    x, y = ends.astype(dtype), ends[::-1].astype(dtype)
    assert weft.isclose(weft.array(x), weft.array(y), atol=0.5).tolist() == [False, False]
    assert weft.isclose(weft.array(x), weft.array(x)).tolist() == [True, True]
    assert weft.isclose(weft.array([16777217]), weft.array([16777216]), rtol=0).tolist() == [False]


def test_numbers_that_are_close_to_halves_are_halves():
    x = weft.array([0.1, 0.2]).astype(weft.float16)
    assert weft.isclose(x, 0.1).tolist() == (x == 0.1).tolist() == [True, False]


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 0), (2, 1, 3)])
def test_which_each_element_is_has_the_shape_of_the_elements(rng, shape):
    x = rng.integers(0, 3, shape)
    values, which = weft.unique(weft.array(x), return_inverse=True)
    assert which.shape == shape and np.array_equal(np.asarray(values)[np.asarray(which)], x)


def test_one_row_is_one_observation_of_many_variables():
    x = weft.array([[1.0, 4.0, 9.0]])
    assert weft.cov(x, rowvar=False, bias=True).tolist() == [[0.0] * 3] * 3
    assert weft.cov(x, bias=True).item() == pytest.approx(np.var([1, 4, 9]))
    assert weft.cov(x[0], rowvar=False, bias=True).item() == pytest.approx(np.var([1, 4, 9]))
