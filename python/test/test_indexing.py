import numpy as np
import pytest
import weft


def same(a, x):
    assert a.shape == x.shape and np.array_equal(np.array(a), x)


def random_slice(rng, n):
    def bound():
        return None if rng.random() < 0.3 else int(rng.integers(-n - 3, n + 4))

    step = None if rng.random() < 0.3 else int(rng.choice([-3, -2, -1, 1, 2, 3, 7, -7]))
    return slice(bound(), bound(), step)


def random_basic(rng, shape):
    items = []
    for n in shape[:rng.integers(0, len(shape) + 1)]:
        kind = rng.random()
        if kind < 0.25 and n:
            items.append(int(rng.integers(-n, n)))
        elif kind < 0.35:
            items += [None, slice(None)]
        else:
            items.append(random_slice(rng, n))
    if rng.random() < 0.3:
        items.insert(int(rng.integers(0, len(items) + 1)), Ellipsis)
    return tuple(items)


def test_random_slices_read_what_numpy_reads(rng):
    for _ in range(150):
        shape = tuple(int(n) for n in rng.integers(0, 7, rng.integers(1, 5)))
        x = rng.standard_normal(shape).astype(np.float32)
        index = random_basic(rng, shape)
        same(weft.array(x)[index], x[index])


def test_random_slices_write_what_numpy_writes(rng):
    for _ in range(80):
        shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
        x = rng.standard_normal(shape).astype(np.float32)
        index = random_basic(rng, shape)
        a, v = weft.array(x), rng.standard_normal(x[index].shape).astype(np.float32)
        before = a + 0
        a[index] = v
        y = x.copy()
        y[index] = v
        same(a, y)
        same(before, x)
        a[index] = 2
        y[index] = 2
        same(a, y)


def test_slices_of_slices_compose(rng):
    x = rng.standard_normal((9, 8)).astype(np.float32)
    a, y = weft.array(x), x
    for index in [np.s_[::-1], np.s_[:, 1::2], np.s_[2:8:3], np.s_[:, ::-1]]:
        a, y = a[index], y[index]
    same(a, y)
    same(a.T[::-1] * 2, y.T[::-1] * 2)


ADVANCED = [
    lambda i, j: i, lambda i, j: (i, j), lambda i, j: (slice(None), i), lambda i, j: (slice(None, None, -1), i, j),
    lambda i, j: (i, slice(1, 3), j), lambda i, j: (0, slice(None), i), lambda i, j: (slice(None), 1, i),
    lambda i, j: (..., i), lambda i, j: (i, None, j), lambda i, j: (None, i), lambda i, j: (i, ..., j),
    lambda i, j: (i[:, None], j[None, :]), lambda i, j: (slice(None), i[:, None], j[None, :]), lambda i, j: (i, 1), lambda i, j: (-1, i, 0),
]


@pytest.mark.parametrize("form", ADVANCED)
def test_integer_arrays_index_as_in_numpy(form, rng):
    x = rng.standard_normal((4, 4, 4)).astype(np.float32)
    i, j = rng.integers(-4, 4, 3), rng.integers(-4, 4, 3)
    index = form(i, j)
    for convert in [lambda o: o, weft.array, lambda o: o.tolist()]:
        as_weft = tuple(convert(o) if isinstance(o, np.ndarray) else o for o in index) if isinstance(index, tuple) else convert(index)
        same(weft.array(x)[as_weft], x[index])
    v = rng.standard_normal(x[index].shape).astype(np.float32)
    a, y = weft.array(x), x.copy()
    a[index] = v
    y[index] = v
    same(a, y)
    a, y = weft.array(x).at[index].add(v), x.copy()
    np.add.at(y, index, v)
    np.testing.assert_allclose(np.array(a), y, rtol=1e-5, atol=1e-6)


def test_equal_targets_combine():
    x = weft.array([1.0, 2.0, 3.0])
    i = weft.array([0, 0, 2, 0])
    assert x.at[i].add(1).tolist() == [4, 2, 4]
    assert x.at[i].subtract(1).tolist() == [-2, 2, 2]
    assert x.at[i].multiply(2).tolist() == [8, 2, 6]
    assert x.at[i].divide(2).tolist() == [0.125, 2, 1.5]
    assert x.at[i].maximum(weft.array([5.0, 7.0, 0.0, 6.0])).tolist() == [7, 2, 3]
    assert x.at[i].minimum(weft.array([5.0, -7.0, 0.0, 6.0])).tolist() == [-7, 2, 0]
    assert x.at[i].set(weft.array([5.0, 7.0, 0.0, 6.0])).tolist() == [6, 2, 0]
    assert x.at[1:].add(10).tolist() == [1, 12, 13]
    assert x.at[::-1].add(weft.array([1.0, 2.0, 3.0])).tolist() == [4, 4, 4]
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_divided_integers_are_what_the_quotient_is_as_an_integer(dtype):
    x = weft.array([7, 8, 100], dtype=getattr(weft, dtype))
    i, top = weft.array([1, 1]), np.iinfo(dtype).max
    assert x.at[1].divide(2).tolist() == [7, 4, 100] and x.at[:2].divide(3).tolist() == [2, 2, 100]
    assert x.at[i].divide(weft.array([2, 3])).tolist() == [7, 1, 100] and x.at[0].divide(0.5).tolist() == [14, 8, 100]
    assert x.at[1].divide(0).tolist() == [7, top, 100] and x.at[1].divide(2).dtype == x.dtype
    assert weft.compile(lambda a: a.at[1].divide(3))(x).tolist() == [7, 2, 100]
    assert weft.vmap(lambda a: a.at[1].divide(3))(x[None]).tolist() == [[7, 2, 100]]
    if dtype[0] == "i":
        assert (-x).at[:2].divide(3).tolist() == [-2, -2, -100] and (-x).at[0].divide(0).tolist()[0] == -top - 1


def test_augmented_assignment_through_a_reversed_view():
    x = np.arange(6, dtype=np.float32)
    a = weft.array(x)
    a[::-1] += weft.arange(6).astype(weft.float32) * 10
    x[::-1] += np.arange(6) * 10
    assert a.tolist() == x.tolist()


def test_masks_select_and_assign(rng):
    x = rng.standard_normal((4, 5)).astype(np.float32)
    m = x > 0
    for index in [m, weft.array(m), m.tolist()]:
        same(weft.array(x)[index], x[m])
    rows = np.array([True, False, True, True])
    same(weft.array(x)[weft.array(rows)], x[rows])
    same(weft.array(x)[:, weft.array([True, False, True, False, False])], x[:, [True, False, True, False, False]])
    a, y = weft.array(x), x.copy()
    a[weft.array(m)] = 0
    y[m] = 0
    same(a, y)
    a[weft.array(rows)] = weft.arange(5)
    y[rows] = np.arange(5)
    same(a, y)
    v = rng.standard_normal(m.sum()).astype(np.float32)
    a[weft.array(m)] = v
    y[m] = v
    same(a, y)
    same(weft.array(x).at[weft.array(m)].add(1), np.where(m, x + 1, x))
    same(weft.array(x)[weft.array(np.zeros((4, 5), bool))], x[np.zeros((4, 5), bool)])
    with pytest.raises(IndexError):
        weft.array(x)[weft.array([True, False])]


@pytest.mark.parametrize("flag", [True, False, np.True_, np.array(True), np.array(False)], ids=repr)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_a_single_bool_is_a_mask_over_a_new_axis(shape, flag):
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    indices = [flag, (None, flag), (..., flag), (flag, flag)] + ([(slice(None), flag)] if shape else [])
    for index in indices + ([(0, flag), (flag, None, 0), (flag, slice(1, None))] if shape and shape[0] else []):
        same(weft.array(x)[index], x[index])
        a, y = weft.array(x), x.copy()
        a[index] = y[index] = 7
        same(a, y)
    same(weft.compile(lambda a, k: a[k])(weft.array(x), weft.array(flag)), x[flag])
    number = weft.array(3.0)
    number[number > 2] = 5.0
    assert number.item() == 5


def test_a_mask_without_elements_fits_every_axis():
    for shape, mask in [((0, 1), (0, 0)), ((3,), (0,)), ((2, 3), (2, 0)), ((2, 3), (0,))]:
        same(weft.ones(shape)[np.zeros(mask, bool)], np.ones(shape, np.float32)[np.zeros(mask, bool)])


@pytest.mark.parametrize("index", [np.s_[[True, True]], np.s_[..., [True, True]], np.s_[:, None, [True] * 4], np.s_[..., [[True] * 2] * 2]])
def test_masks_that_do_not_fit_are_refused(index):
    x = np.ones((3, 2, 3), np.float32)
    index = tuple(np.array(i) if isinstance(i, list) else i for i in index) if isinstance(index, tuple) else np.array(index)
    with pytest.raises(IndexError):
        x[index]
    with pytest.raises(IndexError, match="does not fit"):
        weft.array(x)[index]
    with pytest.raises(IndexError, match="does not fit"):
        weft.array(x)[index] = 1


def test_masked_assignment_needs_no_value_of_the_mask():
    def positive(x):
        x = x.copy()
        x[x < 0] = 0
        return x

    assert weft.compile(positive)(weft.array([-1.0, 2.0])).tolist() == [0, 2]
    assert weft.grad(lambda x: positive(x).sum())(weft.array([-1.0, 2.0])).tolist() == [0, 1]
    assert weft.compile(lambda x: x[x < 0])(weft.array([-1.0, 2.0])).tolist() == [-1]


def test_wrong_indices_are_refused():
    a = weft.arange(12).reshape(3, 4)
    for index in [3, -4, (0, 4), (0, 0, 0), (..., ...), (0, 0, 0, None), np.array([0.5]), 1.5, 2**70]:
        with pytest.raises(IndexError):
            a[index]
    for index in ["x", object(), {}]:
        with pytest.raises(TypeError):
            a[index]
    with pytest.raises(IndexError):
        a[weft.array([0, 3])].tolist()
    with pytest.raises(IndexError):
        a[weft.array([0, -4])].tolist()
    with pytest.raises(ValueError):
        a[0:1:0]
    with pytest.raises(TypeError):
        del a[0]
    with pytest.raises(ValueError):
        a[0] = [1, 2, 3]
    with pytest.raises(IndexError):
        weft.array(1)[0]


def test_a_wrong_index_writes_nothing():
    a = weft.array([1.0, 2.0])
    b = a.at[weft.array([0, 5])].add(1)
    with pytest.raises(IndexError):
        weft.eval(b)
    assert a.tolist() == [1, 2]


def test_values_are_cast_and_leading_ones_dropped():
    a = weft.zeros((2, 3), dtype=weft.int32)
    a[0] = [[[1.9, 2.1, -3.9]]]
    assert a.tolist() == [[1, 2, -3], [0, 0, 0]]
    a[...] = 7
    assert a.tolist() == [[7] * 3] * 2
    a[:] = weft.arange(3)
    assert a.tolist() == [[0, 1, 2]] * 2
    b = weft.array(1.0)
    b[()] = 3
    assert b.item() == 3


def test_take(rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    i = rng.integers(0, 3, (2, 2))
    for axis in [0, 1, -1]:
        same(weft.take(x, weft.array(i), axis), np.take(x, i, axis))
    same(weft.take(x, weft.array(i)), np.take(x, i))
    j = rng.integers(0, 4, (3, 2, 5))
    same(weft.take_along_axis(x, j, 1), np.take_along_axis(x, j, 1))


def test_0d_and_empty():
    a = weft.array(5)
    assert a[()].item() == 5 and a[None].shape == (1,) and a[...].item() == 5
    assert weft.zeros((0, 3))[:, ::-1].shape == (0, 3)
    assert weft.arange(4)[weft.array([], dtype=weft.int32)].shape == (0,)
    assert weft.arange(4)[[]].shape == (0,)


def test_along_an_axis_the_others_broadcast(rng):
    a = rng.standard_normal((8, 2, 3))
    for shape, axis in (((4, 1, 3), 0), ((4, 2, 1), 0), ((1, 5, 1), 1), ((8, 1, 6), -1), ((8, 2, 0), 2), ((1, 1, 1), 0)):
        i = rng.integers(-a.shape[axis], a.shape[axis], shape)
        expected = np.take_along_axis(a, i, axis)
        np.testing.assert_array_equal(np.asarray(weft.take_along_axis(a, i, axis)), expected)
        changed = a.copy()
        np.put_along_axis(changed, i, 7.0, axis)
        np.testing.assert_array_equal(np.asarray(weft.put_along_axis(a, i, 7, axis)), changed)
    i = weft.array([1, 3, 5, 0]).reshape(1, 1, 4, 1)
    assert weft.put_along_axis(weft.zeros((1, 1, 8, 32)), i, 1.0, -2).sum().item() == 128
    rows = weft.vmap(lambda a, i: weft.take_along_axis(a, i, 0), in_axes=(0, None))(weft.array(a), weft.array([[1], [0]]))
    np.testing.assert_array_equal(np.asarray(rows), np.take_along_axis(a, np.array([[[1], [0]]]), 1))
    slope = weft.grad(lambda a: weft.take_along_axis(a, weft.array([[[1]]]), 0).sum())(weft.array(a))
    assert slope.sum().item() == 6 and slope[1].sum().item() == 6


def test_padding_and_diagonals_keep_the_dtype():
    for dtype in ("bool_", "uint8", "int8", "float16", "complex64"):
        x = weft.array([1, 1], dtype=getattr(weft, dtype))
        for y in (weft.pad(x, 1), weft.pad(x, (0, 2), constant_values=1), weft.diag(x, 1), weft.diag(x, -2), weft.diag(x)):
            assert y.dtype is x.dtype
    assert weft.diag(weft.array([True, False, True]), -1).tolist() == np.diag([True, False, True], -1).tolist()


def test_no_index_is_read_where_there_is_no_element():
    a = weft.array([1.0, 2.0, 3.0])
    none = weft.zeros((0,)).astype(weft.int32) + 7
    assert a[none].shape == (0,) and a[none].tolist() == []
    assert a[none].sum().item() == 0
    assert weft.concatenate([a[none], a]).tolist() == [1, 2, 3]
    assert weft.vmap(lambda i: a[i + 7])(weft.zeros((0,), dtype=weft.int32)).tolist() == []
    assert weft.vmap(lambda x: weft.assert_(x, False, "no"))(weft.zeros((0,))).tolist() == []
    with pytest.raises(IndexError):
        weft.eval(a[weft.zeros((1,)).astype(weft.int32) + 7])
