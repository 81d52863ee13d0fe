import copy
import pickle
import re
import weakref

import numpy as np
import pytest
import weft

FLOATS = ["float32", "float64", "bfloat16"]
DTYPES = ["bool_", "uint8", "int8", "int32", "int64", "uint32"] + FLOATS


def test_lists_become_arrays_of_the_narrowest_kind():
    assert weft.array([[1, 2], [3, 4]]).dtype is weft.int32
    assert weft.array([1, 2**40]).dtype is weft.int64
    assert weft.array([1, 2.5]).dtype is weft.float32
    assert weft.array([True, False]).dtype is weft.bool_
    assert weft.array([True, 2]).tolist() == [1, 2]
    assert weft.array([]).shape == (0,) and weft.array([]).dtype is weft.float32
    assert weft.array([[], []]).shape == (2, 0)
    assert weft.array(3.5).shape == () and weft.array(3.5).item() == 3.5


@pytest.mark.parametrize("value", [[1, [2]], [[1], 2], [[1, 2], [3]], [[1, 2], [3, 4, 5]]])
def test_ragged_lists_are_refused(value):
    with pytest.raises(ValueError):
        weft.array(value)


def test_nonsense_is_refused():
    for value in ["text", b"bytes", object(), {}, None, int, [object()]]:
        with pytest.raises(TypeError):
            weft.array(value)
    with pytest.raises(TypeError):
        weft.array(1, dtype="float31")
    with pytest.raises(TypeError):
        weft.array()


def test_lists_with_arrays_in_them_are_stacked():
    a = weft.array([weft.array([1.0, 2.0]), weft.array([3.0, 4.0])])
    assert a.tolist() == [[1, 2], [3, 4]]
    assert weft.array([weft.array(1.0), 2.0]).tolist() == [1, 2]
    assert weft.array([np.float32(1.5), np.float32(2.5)]).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"])
def test_numpy_goes_in_and_out_with_its_dtype(dtype, rng):
    x = (rng.random((3, 4, 5)) * 100).astype(dtype)
    for view in [x, x[::-1], x[:, ::2], x.T, x[:, 1:2], x[..., 0], x[0:0], x[0, 0, 0:1].reshape(())]:
        for make in [weft.array, weft.asarray]:
            a = make(view)
            assert a.shape == view.shape and a.dtype.name == dtype
            back = np.array(a)
            assert back.dtype == view.dtype and np.array_equal(back, view)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8", "uint64", "bool"])
def test_numbers_of_numpy_keep_their_dtype(dtype):
    number = np.dtype(dtype).type(1)
    assert np.asarray(weft.array(number)).dtype == dtype and np.asarray(weft.asarray(number)).dtype == dtype
    assert weft.array(number, dtype=weft.complex128).dtype == weft.complex128
    assert (weft.array([1.0]) * np.float64(3)).dtype == weft.float32


def test_array_copies_and_asarray_shares():
    x = np.arange(6, dtype=np.float32)
    copied, shared = weft.array(x), weft.asarray(x)
    weft.eval(copied)
    x[0] = 100
    assert copied.tolist()[0] == 0
    assert shared.tolist()[0] == 100


def test_shared_memory_outlives_its_numpy_array_and_is_released():
    class Watched(np.ndarray):
        pass

    x = np.arange(6, dtype=np.float32).view(Watched)
    gone = weakref.ref(x)
    a = weft.asarray(x) + 1
    del x
    assert gone() is not None
    assert a.tolist() == [1, 2, 3, 4, 5, 6]
    del a
    assert gone() is None


def test_a_numpy_view_keeps_its_array_alive_and_is_read_only():
    a = weft.array([1.0, 2.0]) + 1
    x = np.asarray(a)
    del a
    assert x.tolist() == [2, 3]
    assert not x.flags.writeable


def test_a_numpy_view_shows_what_the_object_named_when_it_was_made():
    a = weft.array([1.0, 2.0])
    x = np.asarray(a)
    a[0] = 5
    a += 1
    assert x.tolist() == [1, 2] and a.tolist() == [6, 3]


def test_strided_views_share_with_numpy_too():
    a = weft.arange(12).reshape(3, 4)
    assert np.array_equal(np.asarray(a[::-1, ::2]), np.arange(12).reshape(3, 4)[::-1, ::2])
    assert memoryview(weft.array([1, 2])).tolist() == [1, 2]


def test_bfloat16_rounds_to_nearest_even_and_leaves_as_float32():
    a = weft.array([1.0, 1.00390625, 1.01171875, 3e38, float("inf"), -0.0], dtype=weft.bfloat16)
    assert a.itemsize == 2 and a.nbytes == 12
    assert a.tolist() == [1.0, 1.0, 1.015625, 3.00405527047391e38, float("inf"), 0.0]
    assert np.array(a).dtype == np.float32
    with pytest.raises(BufferError):
        memoryview(a)


def test_specials_survive_moves():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 1 / 3], dtype=np.float32)
    back = np.array(weft.array(x)[::-1][::-1])
    assert np.array_equal(back.view(np.uint32), x.view(np.uint32))


def test_properties():
    a = weft.zeros((2, 3, 4), dtype=weft.float64)
    assert (a.shape, a.ndim, a.size, a.nbytes, a.itemsize, a.T.shape) == ((2, 3, 4), 3, 24, 192, 8, (4, 3, 2))
    assert a.dtype is weft.float64 and len(a) == 2
    assert weft.float32.size == 4 and repr(weft.float32) == "weft.float32" and repr(weft.bool_) == "weft.bool_"


def test_dtypes_are_written_in_many_ways():
    for dtype in [weft.float64, "float64", np.float64, np.dtype("float64")]:
        assert weft.array([1], dtype=dtype).dtype is weft.float64
    assert weft.array([1.5], dtype=int).dtype is weft.int32
    assert weft.array([1], dtype=float).dtype is weft.float32
    assert weft.array([2], dtype=bool).dtype is weft.bool_


def test_float64_keeps_all_digits():
    assert weft.array(0.1, dtype=weft.float64).item() == 0.1
    assert weft.array([0.1], dtype=weft.float64).tolist() == [0.1]
    assert (weft.array([0.0], dtype=weft.float64) + 0.1).tolist() == [0.1]


def test_one_element_is_a_number():
    a = weft.array([[2.5]])
    assert float(a) == 2.5 and int(a) == 2 and bool(a) and a.item() == 2.5
    for f in [float, int, bool, weft.array.item]:
        with pytest.raises(ValueError):
            f(weft.array([1.0, 2.0]))


def test_representation_shows_values():
    assert repr(weft.array([1, 2, 3])) == "array([1, 2, 3], dtype=int32)"
    assert repr(weft.array(1.5)) == "array(1.5, dtype=float32)"
    assert repr(weft.array([[True], [False]])) == "array([[True],\n       [False]], dtype=bool)"
    assert str(weft.arange(2000)) == "array([0, 1, 2, ..., 1997, 1998, 1999], dtype=int32)"
    assert repr(weft.zeros((0, 2))) == "array([], shape=(0, 2), dtype=float32)"


def test_iteration_and_length():
    assert [int(x) for x in weft.arange(4)] == [0, 1, 2, 3]
    assert [r.tolist() for r in weft.array([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    for f in [len, iter]:
        with pytest.raises(TypeError):
            f(weft.array(1))


def test_copies_and_pickles_are_equal_and_apart():
    for dtype in DTYPES:
        a = weft.array([[0, 1], [1, 0]], dtype=getattr(weft, dtype))
        for b in [copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a)), a.copy()]:
            assert b.dtype is a.dtype and b.tolist() == a.tolist()
            b[0, 0] = 1
            assert a[0, 0].item() == 0
    empty = pickle.loads(pickle.dumps(weft.zeros((2, 0, 3))))
    assert empty.shape == (2, 0, 3)


def test_arrays_are_hashed_by_identity_and_can_be_referred_to_weakly():
    a, b = weft.array([1, 2]), weft.array([1, 2])
    assert len({a: 1, b: 2}) == 2
    r = weakref.ref(a)
    del a
    assert r() is None


def test_dlpack_both_ways():
    x = np.arange(6, dtype=np.float64).reshape(2, 3)
    a = weft.from_dlpack(x.T)
    assert a.tolist() == x.T.tolist() and a.dtype is weft.float64
    b = np.from_dlpack(a + 1)
    assert b.tolist() == (x.T + 1).tolist()
    capsule = a.__dlpack__()
    del capsule
    assert a.__dlpack_device__() == (1, 0)


def test_an_object_with_only_the_array_interface_is_read():
    class Shows:
        def __init__(self, x):
            self.x = x
            self.__array_interface__ = x.__array_interface__

    x = np.arange(4, dtype=np.int32)
    assert weft.array(Shows(x)).tolist() == [0, 1, 2, 3]


def test_zeros_and_ones_are_part_of_a_program_and_need_no_memory():
    for x in (weft.zeros((2, 3)), weft.ones((2, 3)), weft.zeros_like(weft.array([1, 2]))):
        assert "value" not in weft.show(x)
    for dtype in (weft.bool_, weft.uint8, weft.int64, weft.bfloat16, weft.float64, weft.complex64):
        assert weft.ones((2,), dtype).dtype == dtype and weft.ones((2,), dtype).tolist() == [1, 1]
        assert weft.zeros((), dtype).item() == 0
    assert "cast" not in weft.show(weft.grad(lambda x: weft.sum(weft.sin(x)))(weft.array([0.5])))


def test_creation():
    assert weft.zeros(3).tolist() == [0, 0, 0] and weft.zeros(3).dtype is weft.float32
    assert weft.ones((2, 1), dtype=weft.int32).tolist() == [[1], [1]]
    assert weft.full((2, 2), weft.array([1, 2])).tolist() == [[1, 2], [1, 2]]
    assert weft.full((), 2**40).item() == 2**40
    assert weft.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert weft.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert weft.arange(0).tolist() == []
    assert np.allclose(np.array(weft.arange(0, 1, 0.1)), np.arange(0, 1, 0.1, dtype=np.float32))
    assert weft.arange(2**40, 2**40 + 2).tolist() == [2**40, 2**40 + 1]
    assert np.array_equal(np.array(weft.eye(3, 4, 1)), np.eye(3, 4, 1))
    assert np.allclose(np.array(weft.linspace(0, 1, 7)), np.linspace(0, 1, 7))
    x = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(np.array(weft.tril(weft.array(x), 1)), np.tril(x, 1))
    assert np.array_equal(np.array(weft.triu(weft.array(x), -1)), np.triu(x, -1))
    for wrong in [(-1,), (2**40, 2**40)]:
        with pytest.raises(ValueError):
            weft.zeros(wrong)


def test_representation_has_the_digits_of_the_dtype():
    third = [1 / 3, 1.0, -0.0, float("inf")]
    assert repr(weft.array(third, dtype="float64")) == "array([0.3333333333333333, 1, -0, inf], dtype=float64)"
    assert repr(weft.array(third)) == "array([0.333333, 1, -0, inf], dtype=float32)"
    assert repr(weft.array([0.1 + 0.2j, 1 - 2j])) == "array([(0.1+0.2j), (1-2j)], dtype=complex64)"
    assert repr(weft.array([1 / 3 + 1j], dtype="complex128")) == "array([(0.3333333333333333+1j)], dtype=complex128)"
    assert repr(weft.zeros((3, 0, 2), dtype="int8")) == "array([], shape=(3, 0, 2), dtype=int8)"


def test_representation_of_what_failed_says_why():
    a = weft.array([1, 2, 3])[weft.array([5])]
    with pytest.raises(IndexError):
        weft.eval(a)
    assert re.fullmatch(r"array\(<failed: .*index.*test_array.py:\d+\)>, shape=\(1,\), dtype=int32\)", repr(a))


@pytest.mark.parametrize("dtype", "bool_ uint8 int16 int64 float16 float32 float64 complex64 complex128".split())
def test_memory_of_a_number(dtype):
    for a, value in ((weft.zeros((), getattr(weft, dtype)), 0), (weft.ones((), getattr(weft, dtype)) + weft.zeros((), getattr(weft, dtype)), 1)):
        for seen in (np.asarray(a), np.array(a), np.from_dlpack(a), np.asarray(memoryview(a))):
            assert seen.shape == () and seen == value and seen.dtype.name == dtype.rstrip("_")
        assert weft.from_dlpack(a).item() == value and np.asarray(weft.full((), 3, "float32") * 2) == 6


def test_a_name_has_no_value():
    with pytest.raises(weft.NoValueError, match="^eval: a traced argument"):
        weft.compile(lambda x: float(x))(weft.array(1.0))
    assert issubclass(weft.NoValueError, ValueError)


def test_lists_hold_the_largest_integers():
    most = 2**64 - 1
    for made in (weft.array([most, 5]), weft.array([[most], [5]], dtype=weft.uint64).reshape(2), weft.asarray((most, 5))):
        assert made.dtype == weft.uint64 and made.tolist() == [most, 5]
    assert weft.array(weft.array([most, 0]).tolist(), dtype=weft.uint64).tolist() == [most, 0]
    assert weft.array([most, 0.5]).tolist() == [2.0**64, 0.5]
    for d in (weft.float32, weft.float64, weft.bfloat16):
        assert weft.array([2**70, 1], dtype=d).tolist() == [2.0**70, 1] and weft.array(2**70, dtype=d).item() == 2.0**70
    assert weft.array([2**70, 1], dtype=weft.complex64).tolist() == [2.0**70, 1]
    for wrong in ([2**64], [most, -1], [-2**63 - 1]):
        with pytest.raises(OverflowError):
            weft.array(wrong)
