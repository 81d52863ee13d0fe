import operator

import numpy as np
import pytest
import weft

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARE = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
BITS = [operator.and_, operator.or_, operator.xor]
SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, 3e38, 1 / 3]


def same(a, x):
    x = np.asarray(x)
    a = np.array(a)
    assert a.shape == x.shape and a.dtype == x.dtype
    assert np.array_equal(a, x, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("op", ARITHMETIC + COMPARE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arithmetic_and_comparison_of_floats_are_those_of_numpy(op, dtype):
    x = np.array(SPECIAL, dtype=dtype)
    with np.errstate(all="ignore"):
        same(op(weft.array(x)[:, None], weft.array(x)[None, :]), op(x[:, None], x[None, :]))
        same(op(weft.array(x), 2.5), op(x, np.array(2.5, dtype)))
        same(op(2.5, weft.array(x)), op(np.array(2.5, dtype), x))


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul] + COMPARE + BITS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_as_in_numpy(op, dtype, rng):
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 50, dtype=dtype)
    y = rng.integers(info.min, info.max, 50, dtype=dtype)
    with np.errstate(all="ignore"):
        same(op(weft.array(x), weft.array(y)), op(x, y))


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod, np.fmod])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64", "float32", "float64"])
def test_quotients_and_remainders_are_those_of_numpy(op, dtype):
    x = np.array([-128, -127, -8, -7, -1, 0, 1, 7, 8, 127], "float64").astype(dtype)
    if x.dtype.kind == "f":
        x = np.concatenate([x, np.array([0.1, -0.1, 0.5, -2.25, np.inf, -np.inf, np.nan], dtype)])
    mine = weft.fmod if op is np.fmod else op
    a, b = x[:, None], x[None, :]
    if x.dtype.kind in "iu":
        b = b[b != 0][None, :]
    with np.errstate(all="ignore"):
        same(mine(weft.array(a), weft.array(b)), op(a, b))


def test_division_of_integers_by_0_is_0_and_leaves_all():
    a = weft.array([-5, 0, 7], dtype=weft.int32)
    assert (a // 0).tolist() == [0, 0, 0] and (a % 0).tolist() == [-5, 0, 7]


def test_shifts_by_the_width_or_more_leave_the_sign():
    a = weft.array([-5, 5], dtype=weft.int32)
    assert (a << 31).tolist() == [-(2**31), -(2**31)] and (a << 32).tolist() == [0, 0]
    assert (a >> 1).tolist() == [-3, 2] and (a >> 32).tolist() == [-1, 0] and (a >> -1).tolist() == [-1, 0]
    assert (weft.array([255], dtype=weft.uint8) >> 7).tolist() == [1]


def test_bools_take_part():
    a, b = weft.array([True, True, False, False]), weft.array([True, False, True, False])
    assert (a & b).tolist() == [True, False, False, False]
    assert (a | b).tolist() == [True, True, True, False]
    assert (a ^ b).tolist() == [False, True, True, False]
    assert (~a).tolist() == [False, False, True, True]
    assert (a & True).dtype is weft.bool_ and (True | b).dtype is weft.bool_
    assert (a + 1).dtype is weft.int32 and (a * 1.5).dtype is weft.float32
    assert (a + weft.array([1.0])).dtype is weft.float32


def test_python_numbers_are_weak():
    for dtype in [weft.float32, weft.float64, weft.bfloat16]:
        a = weft.ones(2, dtype=dtype)
        for b in [a + 1, 1 + a, a * 2.5, 2.5 / a, a - True, a**2]:
            assert b.dtype is dtype
    assert (weft.array([1, 2]) + 1.5).dtype is weft.float32
    assert (weft.array([1, 2]) + 1).dtype is weft.int32
    assert (weft.array([1, 2]) / 2).dtype is weft.float32
    assert (weft.array([1], dtype=weft.uint8) + 1).dtype is weft.uint8
    with pytest.raises(ValueError):
        weft.array([1], dtype=weft.uint8) + 300


def test_mixed_dtypes_meet_as_in_mlx():
    meet = {("int32", "float32"): "float32", ("bfloat16", "float32"): "float32", ("float32", "float64"): "float64",
            ("bool_", "int32"): "int32", ("int32", "int64"): "int64", ("uint8", "int8"): "int16", ("int64", "bfloat16"): "bfloat16"}
    for (a, b), c in meet.items():
        x, y = weft.ones(1, dtype=getattr(weft, a)), weft.ones(1, dtype=getattr(weft, b))
        assert (x + y).dtype is getattr(weft, c) and (y + x).dtype is getattr(weft, c)
        assert weft.result_type(x, y.dtype) is getattr(weft, c)


def test_numpy_operands_work_on_either_side():
    x = np.arange(3, dtype=np.float32)
    a = weft.array([1.0, 2.0, 3.0])
    for b in [a + x, x + a, a * np.float32(2), np.float32(2) * a, x @ a, [1.0, 2.0, 3.0] + a]:
        assert isinstance(b, weft.array) and b.dtype is weft.float32
    assert (x - a).tolist() == [-1, -1, -1]
    assert (x < a).tolist() == [True, True, True]


def test_operands_that_are_no_numbers_are_refused():
    a = weft.array([1.0])
    for other in ["x", None, object(), {}, b"x"]:
        with pytest.raises(TypeError):
            a + other
        with pytest.raises(TypeError):
            other - a
        assert (a == other) is False and (a != other) is True
    with pytest.raises(TypeError):
        a & 1.5


def test_in_place_operators_rebind_the_object_for_all_its_holders():
    a = weft.array([1.0, 2.0])
    b, c = a, a + 0
    a += 1
    assert b.tolist() == [2, 3] and c.tolist() == [1, 2]
    a *= 2
    a -= 1
    a /= 2
    assert a is b and b.tolist() == [1.5, 2.5]
    m = weft.eye(2)
    m @= weft.array([[1.0, 2.0], [3.0, 4.0]])
    assert m.tolist() == [[1, 2], [3, 4]]
    i = weft.array([6])
    i &= 3
    i |= 8
    i ^= 1
    assert i.tolist() == [11]


def test_powers_of_integers_are_products():
    x = np.array([-2.0, 0.5, 3.0], dtype=np.float32)
    for n in range(-3, 8):
        assert np.allclose(np.array(weft.array(x) ** n), x**np.float32(n), rtol=1e-6)
    assert (weft.array([3, -2]) ** 3).tolist() == [27, -8]
    assert (weft.array([0.0, np.nan]) ** 0).tolist() == [1, 1]


def test_unary():
    x = np.array([-2.0, 0.25, 3.0], dtype=np.float32)
    a = weft.array(x)
    same(-a, -x)
    same(abs(a), abs(x))
    same(+a, x)
    same(~weft.array([1, -5]), ~np.array([1, -5], dtype=np.int32))
    with pytest.raises(TypeError):
        ~a


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "tanh", "sqrt", "square", "reciprocal", "abs", "negative", "isnan"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_those_of_numpy_to_a_few_bits(name, dtype, rng):
    x = np.concatenate([rng.standard_normal(100) * 3, SPECIAL]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    a = np.array(getattr(weft, name)(weft.array(x)))
    assert a.dtype == expected.dtype
    np.testing.assert_allclose(a, expected, rtol=4e-7 if dtype == "float32" else 1e-15, atol=0)


def test_functions_without_a_numpy_name(rng):
    x = rng.random(50).astype(np.float32) + 0.1
    a = weft.array(x)
    np.testing.assert_allclose(np.array(weft.rsqrt(a)), 1 / np.sqrt(x), rtol=3e-7)
    np.testing.assert_allclose(np.array(weft.sigmoid(a)), 1 / (1 + np.exp(-x)), rtol=3e-7)
    assert weft.exp(weft.array([0])).dtype is weft.float32
    assert weft.sqrt(4).item() == 2
    for number in [weft.positive(2.5), weft.stop_gradient(2.5), weft.maximum(1.5, 2.5), weft.where(True, 2.5, 0)]:
        assert np.asarray(number).dtype == np.float32 and np.asarray(number) == 2.5
        assert (number + weft.array([1], dtype=weft.bfloat16)).dtype is weft.float32


def test_bfloat16_computes_in_float32_and_rounds_once():
    x = np.array([1.0, 1.0078125, 3.140625, 100.0], dtype=np.float32)
    a = weft.array(x, dtype=weft.bfloat16)

    def rounded(v):
        return np.array(weft.array(v.astype(np.float32)).astype(weft.bfloat16))

    assert np.array_equal(np.array(a * a), rounded(x * x))
    assert np.array_equal(np.array(a + 1), rounded(x + 1))
    assert np.array_equal(np.array(weft.exp(-a)), rounded(np.array(weft.exp(weft.array(-x)))))
    assert np.array_equal(np.array((a * a) * a), rounded(rounded(x * x) * x))


def test_maximum_minimum_where_fma():
    x, y = np.array([1.0, np.nan, 3.0], dtype=np.float32), np.array([2.0, 2.0, np.nan], dtype=np.float32)
    same(weft.maximum(x, y), np.maximum(x, y))
    same(weft.minimum(x, y), np.minimum(x, y))
    same(weft.where(weft.array([True, False, True]), x, 7.0), np.where([True, False, True], x, np.float32(7)))
    a = np.float32(1 + 2**-12)
    assert weft.fma(weft.array(a), weft.array(a), -1.0).item() == float(np.float32(np.float64(a) * np.float64(a) - 1))
    assert weft.clip(weft.array([1, 5, 9]), 2, 6).tolist() == [2, 5, 6]


def test_logical_functions_take_anything_for_true():
    a, b = weft.array([0.0, 1.5, 0.0, 2.0]), weft.array([0, 0, 3, 4])
    assert weft.logical_and(a, b).tolist() == [False, False, False, True]
    assert weft.logical_or(a, b).tolist() == [False, True, True, True]
    assert weft.logical_xor(a, b).tolist() == [False, True, True, False]
    assert weft.logical_not(a).tolist() == [True, False, True, False]


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 2)), ((3, 0), (0, 2))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmul_has_the_shapes_and_values_of_numpy(shapes, dtype, rng):
    x, y = (rng.standard_normal(s).astype(dtype) for s in shapes)
    a = np.array(weft.array(x) @ weft.array(y))
    np.testing.assert_allclose(a, x @ y, rtol=1e-5, atol=1e-5)
    assert a.dtype == dtype


def test_comparison_functions_and_closeness():
    a = weft.array([1.0, 2.0, float("nan")])
    assert not bool(weft.array_equal(a, a)) and bool(weft.array_equal(a, a, equal_nan=True))
    assert weft.isclose(a, a + 1e-9, equal_nan=True).tolist() == [True, True, True]
    assert bool(weft.allclose([1.0], [1.0 + 1e-7]))
    assert weft.isfinite([1.0, float("inf"), float("nan")]).tolist() == [True, False, False]
    assert np.allclose(np.array(weft.logaddexp([0.0, -np.inf], [1.0, -np.inf])), np.logaddexp([0, -np.inf], [1, -np.inf]))
