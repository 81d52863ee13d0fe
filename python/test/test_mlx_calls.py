"""What random calls beside MLX found to differ: each was wrong, refused, or raised another class."""
import numpy as np
import pytest
import weft
import weft.mlx.core as mx


@pytest.mark.parametrize("roll", [weft.roll, mx.roll])
def test_a_roll_by_no_shifts_or_along_no_axes_turns_nothing(roll):
    x = mx.array([[1, 2], [3, 4]])
    for shift, axis in ((1, ()), ((), 0), ((), ()), ([], None)):
        assert roll(x, shift, axis).tolist() == [[1, 2], [3, 4]]


def test_axes_beyond_the_first_and_the_last_are_these_when_it_is_flattened():
    x = mx.ones((2, 3, 4))
    assert mx.flatten(x, -7, 1).shape == (6, 4) and x.flatten(1, 9).shape == (2, 12) and mx.ones(4).flatten(-2).shape == (4,)
    for from_, to in ((2, 1), (3, 5), (0, -4)):
        with pytest.raises(ValueError):
            x.flatten(from_, to)
    with pytest.raises(ValueError):
        weft.flatten(weft.ones((2, 3)), 0, 2)


def test_derivatives_by_integers_are_integers():
    x = mx.array([1, 2, 3])
    g = mx.grad(lambda x: (x * x).sum())(x)
    assert g.dtype == mx.int32 and g.tolist() == [2, 4, 6]
    g = mx.grad(lambda x: mx.exp(x).sum())(x)
    assert g.dtype == mx.int32 and g.tolist() == [2, 7, 20]
    assert mx.vjp(mx.abs, [x], [x])[1][0].dtype == mx.int32
    g, h = mx.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, mx.array([0.5, 0.5, 0.5]))
    assert g.dtype == mx.int32 and g.tolist() == [0, 0, 0] and h.dtype == mx.float32 and h.tolist() == [1, 2, 3]


def test_what_is_assigned_is_cast_as_by_astype():
    values = mx.array([-1.5, 300.0, 2.5])
    for dtype in (mx.uint8, mx.int8, mx.uint16, mx.uint32, mx.uint64, mx.int32):
        cast = values.astype(dtype).tolist()
        x = mx.zeros(3, dtype)
        x[:] = values
        assert x.tolist() == cast
        assert mx.zeros(3, dtype).at[mx.array([0, 1, 2])].add(values).tolist() == cast
        assert mx.full_like(x, values).tolist() == cast
        assert mx.put_along_axis(mx.zeros(3, dtype), mx.array([0, 1, 2]), values, 0).tolist() == cast
    assert mx.cumsum(values, dtype=mx.uint8).tolist() == mx.cumsum(values.astype(mx.uint8)).tolist()


def test_a_mask_takes_the_first_of_more_values_of_others():
    x, mask = mx.zeros(3), mx.array([True, False, True])
    x[mask] = np.array([7, 8, 9])
    assert x.tolist() == [7, 0, 8]


def test_bounds_of_whole_numbers_may_be_floats():
    key = mx.random.key(3)
    assert mx.random.randint(0.5, 10.9, (5,), key=key).tolist() == mx.random.randint(0, 10, (5,), key=key).tolist()


def test_normal_numbers_of_64_bits_are_those_of_32():
    key = mx.random.key(3)
    for draw in (mx.random.normal, mx.random.laplace):
        a, b = draw((5,), mx.float64, key=key), draw((5,), mx.float32, key=key)
        assert a.dtype == mx.float64
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=2e-7)


def test_determinants_of_integers():
    sign, size = mx.linalg.slogdet(mx.array([[2, 1], [1, 2]]))
    assert sign.item() == 1 and abs(size.item() - np.log(3)) < 1e-6


def test_transforms_of_complex_numbers():
    z = mx.array([1 + 2j, 3 - 1j])
    assert mx.hadamard_transform(z, 1.0).tolist() == [4 + 1j, -2 + 3j]
    assert mx.fft.rfft(z).tolist() == mx.fft.rfft(mx.real(z)).tolist()


def test_the_place_of_an_extreme_complex_number():
    z = mx.array([[1 + 2j, 1 - 1j, 0 + 5j], [2 + 0j, 2 + 1j, -3 + 0j]])
    assert mx.argmax(z).item() == 4 and mx.argmin(z).item() == 5
    assert mx.argmax(z, axis=1).tolist() == [0, 1] and mx.argmin(z, axis=0).tolist() == [0, 0, 1]
    assert mx.argmax(z, axis=1, keepdims=True).shape == (2, 1)


def test_sizes_below_0_of_a_triangle_are_0():
    assert mx.tri(-1).shape == (0, 0) and mx.tri(2, -3).shape == (2, 0)


def test_paths_of_products_with_dots():
    a, b = mx.ones((4, 2, 3)), mx.ones((3, 5))
    assert mx.einsum_path("...i,ij->...j", a, b)[0] == [(0, 1)]
    assert mx.einsum_path("...i,...i->...", mx.ones(3), mx.ones((3, 3)))[0] == [(0, 1)]


@pytest.mark.parametrize("call", [
    lambda: mx.fast.rms_norm(mx.ones(3), 1, 1e-5), lambda: mx.fast.rms_norm(2.5, None, 1e-5), lambda: mx.fast.layer_norm(mx.ones(3), None, 1, 1e-5),
    lambda: mx.fast.rope(2, 2, traditional=True, base=1.0, scale=1.0, offset=0), lambda: mx.fast.scaled_dot_product_attention(mx.ones((1, 1, 1, 2)), 1, 2, scale=1.0),
    lambda: mx.fast.scaled_dot_product_attention(*[mx.ones((1, 1, 1, 2))] * 3, scale=1.0, mask=0), lambda: mx.fft.stft(mx.ones(9), window=2), lambda: mx.fft.fft([1.0, 2.0]),
    lambda: mx.segmented_mm(2, mx.ones((2, 2)), mx.array([[0, 1]])), lambda: mx.block_masked_mm(mx.ones((2, 2)), [], 32),
    lambda: mx.can_cast(mx.int32, 0.5), lambda: mx.random.gumbel(dtype="float32"), lambda: mx.random.uniform(dtype=float), lambda: mx.random.normal((2,), "float32"),
    lambda: mx.random.truncated_normal(0, 1, None, "float32"), lambda: mx.random.permutation(3j), lambda: mx.random.multivariate_normal(1, mx.eye(2)), lambda: mx.random.uniform(key=5),
    lambda: mx.random.randint(0, 2, dtype=int), lambda: mx.random.laplace((2,), int), lambda: mx.gather_qqmm("x", mx.ones((8, 32)), mx.ones((4, 64))),
    lambda: mx.fast.gated_delta_update(mx.ones((1, 2, 3, 4)), 5, 10, None, 10)])
def test_what_is_no_array_or_no_dtype_where_one_is_wanted_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_a_long_transform_is_exact_beside_its_largest_frequency():
    x = np.random.default_rng(0).random(1 << 17).astype(np.float32)
    got, truth = np.array(mx.fft.rfft(mx.array(x))), np.fft.rfft(x.astype(np.float64))
    assert np.abs(got - truth)[1:].max() < 4e-4 and got.dtype == np.complex64


def test_what_is_no_array_is_not_forgotten_while_axes_are_read():
    """The exception was lost where the length of NumPy's axes was asked for."""
    numpy = pytest.importorskip("numpy")
    for function in (mx.transpose, mx.permute_dims, weft.transpose):
        with pytest.raises(TypeError):
            function(lambda a: a, axes=numpy.array([0]))


def test_a_kind_of_device_is_shown_by_its_name():
    assert repr(mx.cpu) == "DeviceType.cpu"


def test_objects_with_an_index_are_numbers():
    class Index:
        def __index__(self):
            return 3

    three = Index()
    assert mx.hanning(three).tolist() == mx.hanning(3).tolist() and mx.bartlett(three).size == 3
    assert mx.fft.fftfreq(three).size == 3 and mx.fft.rfftfreq(three).size == 2 and mx.fft.fft(mx.ones(5), n=three).size == 3
    assert mx.diff(mx.arange(5), n=three).size == 2 and mx.roll(mx.arange(4), three, axis=0).tolist() == [1, 2, 3, 0]
    assert isinstance(mx.unstack(mx.ones((2, 2))), tuple) and mx.median(mx.ones((2, 0, 3)), axis=-1).shape == (2, 0)
    assert mx.take_along_axis(mx.array([[1, 2], [3, 4]]), mx.array([[1]])).tolist() == [[2], [4]]


def test_files_that_are_not_there_or_of_no_format(tmp_path):
    for name, kind in (("a.npz", ValueError), ("a.npy", RuntimeError), ("a.safetensors", RuntimeError), ("a", ValueError), ("a.txt", ValueError)):
        with pytest.raises(kind):
            mx.load(str(tmp_path / name))
    mx.save(str(tmp_path / "b.npy"), mx.ones(2))
    (tmp_path / "b.npy").rename(tmp_path / "plain")
    assert mx.load(str(tmp_path / "plain"), format="npy").tolist() == [1, 1]
    with open(tmp_path / "plain", "rb") as file:
        assert mx.load(file).tolist() == [1, 1]
