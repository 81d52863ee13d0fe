"""What numbers, lists and the memory of others become as arguments of weft.mlx: found by bench/mlx/calls.py --each beside MLX."""
import numpy as np
import pytest
import weft
import weft.mlx.core as mx

KINDS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
THINGS = [make(np.dtype(kind)) for kind in KINDS for make in (
    lambda d: d.type(3) if d != np.float64 else np.float32(3),  # float64's is one of Python's numbers
    lambda d: np.array(3, d), lambda d: np.array([3, 0, 1], d), lambda d: np.array([[3], [2]], d))]
IDS = [f"{thing.dtype}{list(thing.shape)}{'' if isinstance(thing, np.ndarray) else ' number'}" for thing in THINGS]
everything = pytest.mark.parametrize("thing", THINGS, ids=IDS)
MASK = np.array([True, False, True])


def partners():
    return [mx.array([7, 9, 11], d) for d in (mx.float32, mx.int32, mx.uint8, mx.float16, mx.bfloat16, mx.int64)]


def same(found, wanted, dtype):
    assert found.dtype == dtype
    assert found.tolist() == wanted.tolist()


@everything
def test_where_gives_the_memory_of_others_the_dtype_of_the_other_value_not_of_the_condition(thing):
    for x in partners():
        values = np.array(x.astype(mx.float32))
        taken = thing.astype(np.float32)
        same(mx.where(mx.array(MASK), x, thing), np.where(MASK, values, taken), x.dtype)
        same(mx.where(mx.array(MASK), thing, x), np.where(MASK, taken, values), x.dtype)
        same(mx.where(mx.array(True), thing, x), np.where(True, taken, values), x.dtype)


@everything
def test_assignments_through_a_bool_take_the_dtype_of_the_array(thing):
    if thing.ndim > 1:
        return
    for x in partners():
        for mask in (mx.array(True), True):
            y = mx.array(x)
            y[mask] = thing
            same(y, np.broadcast_to(thing.astype(np.float32), (3,)), x.dtype)


@everything
def test_bounds_of_clip_take_the_dtype_of_the_array(thing):
    for x in partners():
        taken, values = thing.astype(np.float32), np.array(x.astype(mx.float32)) - 8 * (x.dtype != mx.uint8)
        x = mx.array(values).astype(x.dtype)
        same(mx.clip(x, thing, None), np.maximum(values, taken), x.dtype)
        same(mx.clip(x, None, thing), np.minimum(values, taken), x.dtype)


@everything
def test_what_is_subtracted_at_an_index_takes_the_dtype_of_the_array_before_its_sign_turns(thing):
    if thing.ndim > 1:
        return
    for flavour, arrays in ((mx, partners()), (weft, [weft.array([7, 9, 11], dtype=d) for d in (weft.float32, weft.int32, weft.float64, weft.int64)])):
        for x in arrays:
            if thing.dtype == bool and flavour is weft:
                continue
            for value in (thing, flavour.array(thing)):
                wanted = np.array([7.0, 9, 11]) - thing.astype(np.float64)
                same(x.at[:].subtract(value), wanted, x.dtype)
                same(x.at[flavour.array([0, 1, 2])].subtract(value), wanted, x.dtype)


def test_a_quotient_at_an_index_is_taken_in_the_dtype_of_the_array():
    third = np.float16(3)
    assert weft.array([1.0]).at[0].divide(third).tolist() == [np.float32(1) * (np.float32(1) / np.float32(3))]
    assert mx.array([200, 7], mx.uint8).at[0].divide(np.float32(2.5)).tolist() == [100, 7]
    assert mx.array([200, 7], mx.uint8).at[0].divide(mx.array(2.5)).tolist() == [100, 7]


def test_a_list_is_what_array_makes_of_it_and_loses_nothing():
    i, v, t = mx.array([0, 2, 1]), mx.array([0.5, 1.5, 2.5]), mx.array(MASK)
    for given in ([1.5, 2.5, 3.5], [1, 2j, 3], [2 ** 40, 1, 2], [[1.5], [2.5]], (1.5, 2.5, 3.5), range(3), [mx.array(0.5)] * 3):
        made = mx.array(list(given))
        for x in (i, v, t):
            for f in (lambda o: mx.where(t, x, o), lambda o: mx.add(x, o), lambda o: mx.multiply(o, x)):
                found, wanted = f(given), f(made)
                assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist(), (given, x)


def test_floats_below_0_become_unsigned_the_same_way_everywhere():
    x = mx.array([1, 2, 3], mx.uint8)
    wrapped = mx.array([-2.5]).astype(mx.uint8).item()
    y = mx.array(x)
    y[mx.array(True)] = -2.5
    assert wrapped == 254 and mx.array(-2.5, mx.uint8).item() == wrapped and mx.array([-2.5], mx.uint8).tolist() == [wrapped]
    assert y.tolist() == [wrapped] * 3 and mx.pad(x, 1, constant_values=-2.5).tolist() == [wrapped, 1, 2, 3, wrapped]


def test_bytes_are_numbers_of_8_bits():
    x = mx.array([1, 2, 3], mx.uint8)
    for b in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        assert (x + b).tolist() == [98, 100, 102] and mx.add(b, x).dtype == mx.uint8
    with pytest.raises(TypeError):
        weft.array([1]) + b"a"


def test_numpy_s_complex_numbers_take_the_dtype_of_the_array_too():
    t = mx.array(MASK)
    for kind in (np.complex64, np.complex128):
        assert mx.where(t, t, kind(1)).dtype == mx.bool_ and mx.maximum(mx.array([1, 2]), kind(1)).dtype == mx.int32


def test_a_norm_has_the_dtype_of_input_weight_and_bias():
    x = mx.ones((2, 4), mx.bfloat16)
    assert mx.fast.layer_norm(x, mx.ones(4, mx.bfloat16), mx.ones(4), 1e-5).dtype == mx.float32
    assert mx.fast.layer_norm(x, None, mx.ones(4), 1e-5).dtype == mx.bfloat16


def test_classes_of_wrong_arguments():
    x, t = mx.ones((2, 3)), mx.array(MASK)
    for wrong, kind in (
            (lambda: mx.sum(x, axis=2 ** 40), TypeError), (lambda: mx.sum(x, axis=mx.array(7)), IndexError), (lambda: mx.argmax(x, axis=2 ** 63), TypeError),
            (lambda: mx.fft.ifft(x, axis=np.ones((2, 2))), TypeError), (lambda: t @ np.int8(1), TypeError), (lambda: mx.result_type(x, "a"), ValueError),
            (lambda: mx.array_equal(x, object()), ValueError), (lambda: mx.concatenate([1, 2]), TypeError), (lambda: mx.stack([x, np.ones(4)]), TypeError),
            (lambda: mx.concatenate([x, mx.ones(4)]), ValueError), (lambda: mx.stack([x, mx.ones(4)]), ValueError), (lambda: mx.result_type(x, np.ones(3)), ValueError)):
        with pytest.raises(kind):
            wrong()
    assert mx.fft.rfft(x, axis=mx.array(1)).shape == (2, 2) and mx.vecdot(x, x, axis=np.array(0)).tolist() == [2.0, 2.0, 2.0]


def test_the_value_of_a_function_of_integers_that_is_differentiated_is_one_of_integers():
    i = mx.array([2 ** 30 + 1, 3])
    for found in (mx.value_and_grad(lambda a: (a * 1).sum())(i), [a[0] for a in mx.vjp(lambda a: a * 1, [i], [mx.array([1, 1])])],
                  [a[0] for a in mx.jvp(lambda a: a * 1, [i], [mx.array([1, 1])])]):
        value, derivative = found
        assert value.dtype == mx.int32 and value.sum().item() == 2 ** 30 + 4 and derivative.tolist() == [1, 1]
    assert mx.value_and_grad(lambda a: (a / 2).sum())(mx.array([1, 2]))[0].item() == 1.5
    calls = []
    mx.value_and_grad(lambda tree: (calls.append(1), tree["x"].sum() + tree["n"])[1])({"x": mx.ones(2), "n": mx.array(3)})
    mx.grad(lambda n: (calls.append(1), n * 2)[1])(mx.array(3))
    assert calls == [1, 1]


def test_functions_of_arrays_alone_lose_nothing_of_the_memory_of_others():
    k, b = mx.array([[1, 2], [3, 4]]), mx.array([0.5, 1.5], mx.bfloat16)
    half = np.array([0.5, 1.5], np.float32)
    assert mx.outer(k, half).dtype == mx.float32 and mx.outer(k, half).tolist()[1] == [1.0, 3.0]
    assert mx.matmul(b, half).dtype == mx.float32 and (b @ half).item() == 2.5
    assert mx.tensordot(k, half, 1).tolist() == [3.5, 7.5] and mx.inner(b, half).dtype == mx.float32
    assert mx.addmm(np.array([1j, 0], np.complex64), k.astype(mx.float32), mx.eye(2)).dtype == mx.complex64
    assert mx.searchsorted(mx.array([1, 2, 3]), np.array([1.5, 2.5])).tolist() == [1, 2]


def test_integers_that_a_dtype_does_not_hold_are_refused_where_a_number_takes_it():
    u, i = mx.array([1, 2, 3], mx.uint8), mx.array([1, 2, 3])
    for wrong in (lambda: mx.full((2,), 300, mx.uint8), lambda: mx.full((2,), -1, mx.uint8), lambda: mx.full_like(u, 300), lambda: mx.pad(u, 1, constant_values=300),
                  lambda: u.at[0].add(300), lambda: u.at[0].multiply(-1), lambda: i.at[1].add(2 ** 31), lambda: u + 300, lambda: mx.clip(u, None, 300),
                  lambda: mx.where(u > 1, u, -1)):
        with pytest.raises(ValueError):
            wrong()
    assert weft.array([1, 2], dtype=weft.uint8).at[0].add(300).tolist() == [45, 2]


def test_flags_are_true_or_false():
    x = mx.ones((2, 3))
    for wrong in (lambda: x.sum(0, 1), lambda: mx.sum(x, keepdims=1), lambda: mx.cumsum(x, reverse=None), lambda: mx.softmax(x, precise=np.True_), lambda: mx.allclose(x, x, equal_nan=1),
                  lambda: mx.meshgrid(x[0], sparse=1), lambda: mx.linspace(0, 1, 3, endpoint=0), lambda: mx.minmax(x, None, 1)):
        with pytest.raises(TypeError):
            wrong()
    assert mx.sum(x, 0, True).shape == (1, 3) and weft.sum(weft.ones((2, 3)), 0, keepdims=1).shape == (1, 3)


def test_sums_over_no_axes_are_the_array_as_it_is():
    for name in ("bool_", "uint8", "int8", "int16", "uint32", "float16", "float32"):
        dtype = getattr(mx, name)
        x = mx.array([1, 0, 1], dtype)
        for call in (mx.sum, mx.prod):
            for y in (call(x, axis=()), call(x, axis=(), keepdims=True), call(x[0]), call(x[0], keepdims=True)):
                assert y.dtype == dtype and y.tolist() == (x.tolist() if y.ndim else x[0].item())
    assert mx.array([200, 100], mx.uint8).sum().item() == 300 and mx.array([200, 100], mx.uint8).sum().dtype == mx.uint32
    assert mx.grad(lambda a: mx.sum(a, axis=()) * 3)(mx.array(2.0)).item() == 3
    for counted in (mx.count_nonzero(mx.array(5.0)), mx.count_nonzero(mx.array([2.0, 0.0]), axis=()), mx.count_nonzero(mx.array([2.0, 3.0]))):
        assert counted.dtype == mx.int32
    for made in (mx.linalg.norm(mx.array([3, 4]), axis=0), mx.trace(mx.array([[1, 2], [3, 4]], mx.uint8)), mx.mean(mx.array(3, mx.uint8))):
        assert made.item() in (5, 3) and made.dtype in (mx.float32, mx.uint32)


def test_transforms_over_no_axes_are_the_array_as_it_is():
    x = mx.array([[1.0, 2.0], [3.0, 5.0]])
    for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"):
        assert getattr(mx.fft, name)(x, axes=()).tolist() == x.tolist()
        with pytest.raises(ValueError):
            getattr(mx.fft, name)(mx.array(1.0), axes=())


def test_complex_quotients_are_not_rounded_down():
    z = mx.array([1 + 2j, 3 - 1j])
    assert (z // 2).tolist() == (z / 2).tolist() == mx.floor_divide(z, mx.array([2.0, 2.0])).tolist()
    assert (mx.array([4.0]) // (1 + 1j)).tolist() == [2 - 2j]


def test_whole_numbers_of_numpy_serve_as_numbers():
    one = np.int64(1)
    x, w = mx.arange(16.0).reshape(1, 4, 4, 1), mx.ones((1, 2, 2, 1))
    for k in (one, np.uint8(1), np.array(1), mx.array(1), mx.array(1, mx.uint8)):
        assert mx.conv2d(x, w, k, k, k).tolist() == mx.conv2d(x, w, 1, 1, 1).tolist()
        assert mx.conv2d(x, w, (k, k), [k, k]).tolist() == mx.conv2d(x, w, 1, 1).tolist()
        assert mx.conv_transpose2d(x, w, k, k, k, k * 0).tolist() == mx.conv_transpose2d(x, w, 1, 1, 1, 0).tolist()
        assert mx.conv_general(x, w, k, ([k, k], [0, 0]), input_dilation=k).tolist() == mx.conv_general(x, w, 1, ([1, 1], [0, 0])).tolist()
    assert mx.linalg.norm(x[0, :, :, 0], axis=one).tolist() == mx.linalg.norm(x[0, :, :, 0], axis=1).tolist()
    assert mx.grad(lambda a, b: (a * b).sum(), argnums=one)(x, x + 1).tolist() == x.tolist()
    assert [g.tolist() for g in mx.grad(lambda a, b: a * b * b, argnums=(np.int32(0), one))(mx.array(2.0), mx.array(3.0))] == [9, 12]


def test_stacking_along_no_axis_is_along_the_first():
    x = mx.arange(6).reshape(2, 3)
    for y in (mx.stack([x, x + 6], axis=None), mx.stack([x, x + 6], None)):
        assert y.shape == (2, 2, 3) and y.reshape(-1).tolist() == list(range(12))
    assert mx.concatenate([x, x], axis=None).shape == (12,)
    with pytest.raises(TypeError):  # as NumPy's
        weft.stack([weft.ones(2), weft.ones(2)], axis=None)
