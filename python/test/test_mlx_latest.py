"""What the newest versions of MLX have: short-time Fourier transforms, the gated delta rule, products of packed matrices with global
scales, and names that once were other functions'. The oracles are NumPy's."""
import numpy as np
import pytest

import weft.mlx.core as mx

RANDOM = np.random.default_rng(5)


def _normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


# ---- Short times


def _padded(x, more, mode):
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(more, more)], mode)


def _frames(x, n, step, window):
    starts = range(0, x.shape[-1] - n + 1, step)
    return np.fft.fft(np.stack([x[..., i:i + n] * window for i in starts], -2)).swapaxes(-1, -2)


@pytest.mark.parametrize("n, step, mode", [(16, 4, "reflect"), (15, 7, "edge"), (8, 3, "constant"), (60, 20, "reflect")])
def test_stft_is_the_transform_of_every_frame(n, step, mode):
    x, window = _normal(3, 40), np.hanning(n).astype(np.float32)
    said = np.array(mx.fft.stft(mx.array(x), n, step, window=mx.array(window), pad_mode=mode))
    want = _frames(_padded(x, n // 2, mode), n, step, window)[..., :n // 2 + 1, :]
    np.testing.assert_allclose(said, want, atol=2e-5)


def test_stft_of_complex_numbers_has_all_frequencies():
    x = _normal(30) + 1j * _normal(30)
    said = mx.fft.stft(mx.array(x), 8, 2, center=False)
    np.testing.assert_allclose(np.array(said), _frames(x, 8, 2, np.ones(8)), atol=2e-5)
    assert mx.fft.stft(mx.array(x), 8, 2, onesided=True).shape[0] == 5


def test_a_short_window_stands_in_the_middle():
    x, window = _normal(20), np.hanning(4).astype(np.float32)
    wide = np.zeros(9, np.float32)
    wide[2:6] = window
    said = mx.fft.stft(mx.array(x), 9, 2, window=mx.array(window), center=False, onesided=False)
    np.testing.assert_allclose(np.array(said), _frames(x, 9, 2, wide), atol=2e-5)
    np.testing.assert_array_equal(np.array(mx.fft.stft(mx.array(x), 9, win_length=4)),
                                  np.array(mx.fft.stft(mx.array(x), 9, window=mx.ones((4,)))))


@pytest.mark.parametrize("n, step, norm", [(16, 4, "backward"), (15, 5, "ortho"), (16, 16, "forward")])
def test_istft_gives_back_what_stft_took(n, step, norm):
    x = mx.array(_normal(2, 48))
    frames = mx.fft.stft(x, n, step, norm=norm)
    np.testing.assert_allclose(np.array(mx.fft.istft(frames, n, step, norm=norm, length=40)), np.array(x)[:, :40], atol=1e-5)
    whole = mx.fft.stft(x, n, step, norm=norm, onesided=False)
    back = mx.fft.istft(whole, hop_length=step, norm=norm, onesided=False)
    np.testing.assert_allclose(np.array(back)[:, :40], np.array(x)[:, :40], atol=1e-5)
    assert mx.fft.istft(frames, n, step, norm=norm, length=70).shape == (2, 70)


def test_the_derivative_of_stft_is_that_of_its_frames():
    x = mx.array(_normal(24))
    slope = mx.grad(lambda x: mx.square(mx.abs(mx.fft.stft(x, 8, 2))).sum())(x)
    ahead = lambda h: float((np.abs(np.array(mx.fft.stft(mx.array(np.array(x) + h), 8, 2))) ** 2).astype(np.float64).sum())
    for k in (0, 5, 23):
        h = np.zeros(24, np.float32)
        h[k] = 1e-2
        assert abs((ahead(h) - ahead(-h)) / 2e-2 - slope[k].item()) < 2e-2 * max(1, abs(slope[k].item()))


@pytest.mark.parametrize("call", [
    lambda x: mx.fft.stft(x, 0), lambda x: mx.fft.stft(x, 8, 0), lambda x: mx.fft.stft(x, 8, window=mx.ones((9,))),
    lambda x: mx.fft.stft(x, 8, window=mx.ones((2, 2))), lambda x: mx.fft.stft(x, 8, pad_mode="wrap"),
    lambda x: mx.fft.stft(x, 80, center=False), lambda x: mx.fft.stft(mx.array(1.0), 8), lambda x: mx.fft.stft(x[:0], 8),
    lambda x: mx.fft.stft(x, 8, norm="x"), lambda x: mx.fft.stft(x, 8, win_length=-1), lambda x: mx.fft.istft(x),
    lambda x: mx.fft.istft(mx.ones((3, 4)), hop_length=0), lambda x: mx.fft.istft(mx.ones((3, 0)))])
def test_what_short_times_refuse(call):
    with pytest.raises(ValueError):
        call(mx.array(_normal(20)))


# ---- The gated delta rule


def _delta(q, k, v, gamma, beta, state, mask):
    answers = []
    q, k = (np.repeat(x, v.shape[2] // x.shape[2], 2) for x in (q, k))
    for t in range(q.shape[1]):
        faded = state * (gamma[:, t, :, None, None] if gamma.ndim == 3 else gamma[:, t, :, None, :])
        miss = (v[:, t] - (faded * k[:, t, :, None]).sum(-1)) * beta[:, t, :, None]
        learnt = faded + k[:, t, :, None] * miss[..., None]
        seen = mask[:, t, None, None]
        answers.append(np.where(seen, (learnt * q[:, t, :, None]).sum(-1), 0))
        state = np.where(seen[..., None], learnt, state)
    return np.stack(answers, 1), state


@pytest.mark.parametrize("of_keys", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_gated_delta_rule_goes_step_by_step(of_keys, masked):
    q, k, v, state = _normal(2, 7, 2, 3), _normal(2, 7, 2, 3), _normal(2, 7, 4, 5), _normal(2, 4, 5, 3)
    gamma, beta = RANDOM.random((2, 7, 4) + (3,) * of_keys).astype(np.float32), RANDOM.random((2, 7, 4)).astype(np.float32)
    mask = RANDOM.random((2, 7)) > 0.5 if masked else np.ones((2, 7), bool)
    said = mx.fast.gated_delta_update(*map(mx.array, (q, k, v, gamma, beta, state)), mask=mx.array(mask) if masked else None)
    for a, b in zip(said, _delta(*(x.astype(np.float64) for x in (q, k, v, gamma, beta, state)), mask)):
        np.testing.assert_allclose(np.array(a), b, atol=1e-5)


def test_the_gated_delta_rule_has_derivatives_by_everything():
    arrays = [_normal(1, 4, 1, 2), _normal(1, 4, 1, 2), _normal(1, 4, 2, 3), RANDOM.random((1, 4, 2)).astype(np.float32),
              RANDOM.random((1, 4, 2)).astype(np.float32), _normal(1, 2, 3, 2)]
    slopes = mx.grad(lambda *a: sum(x.sum() for x in mx.fast.gated_delta_update(*a)), argnums=tuple(range(6)))(*map(mx.array, arrays))
    total = lambda *a: sum(x.sum() for x in _delta(*a, np.ones((1, 4), bool)))
    for i, slope in enumerate(slopes):
        step = np.zeros(arrays[i].shape)
        step.flat[-1] = 1e-5
        moved = [[a.astype(np.float64) + (step * s if j == i else 0) for j, a in enumerate(arrays)] for s in (1, -1)]
        assert abs((total(*moved[0]) - total(*moved[1])) / 2e-5 - np.array(slope).flat[-1]) < 1e-3


def test_the_state_of_halves_is_in_float32():
    q = mx.ones((1, 2, 1, 2), mx.float16)
    answer, state = mx.fast.gated_delta_update(q, q, q, mx.ones((1, 2, 1)), mx.ones((1, 2, 1)))
    assert answer.dtype == mx.float16 and state.dtype == mx.float32
    for bad in (q[0], q[:, :0], mx.ones((1, 3, 1, 2))):
        with pytest.raises(ValueError):
            mx.fast.gated_delta_update(q, bad, q, mx.ones((1, 2, 1)), mx.ones((1, 2, 1)))


# ---- Packed matrices


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
@pytest.mark.parametrize("lhs, rhs", [((0,), (2, 1)), (None, (2, 1)), ((4, 2), (0, 1)), ((1, 0), None)])
@pytest.mark.parametrize("packed", [True, False])
def test_gather_qqmm_is_the_product_of_what_was_rounded(mode, lhs, rhs, packed):
    x, w = mx.array(_normal(2 if lhs is None else 5, 3, 32)), mx.array(_normal(2 if rhs is None else 3, 6, 32))
    scale_x, scale_w = (mx.max(mx.abs(a)) if mode == "nvfp4" else None for a in (x, w))
    rounded = lambda a, s: mx.dequantize(*mx.quantize(a, mode=mode, global_scale=s), mode=mode, global_scale=s, dtype=mx.float32)
    x_, w_ = np.array(rounded(x, scale_x)), np.array(rounded(w, scale_w))
    args = mx.quantize(w, mode=mode, global_scale=scale_w) if packed else [w, None]
    said = mx.gather_qqmm(x, *args, *(None if i is None else mx.array(i) for i in (lhs, rhs)), mode=mode, global_scale_x=scale_x,
                          global_scale_w=scale_w)
    want = x_[list(lhs) if lhs else slice(None)] @ w_[list(rhs) if rhs else slice(None)].swapaxes(-1, -2)
    np.testing.assert_allclose(np.array(said), want, atol=1e-4)


@pytest.mark.parametrize("is_transposed", [True, False])
def test_gather_qmm_knows_a_global_scale(is_transposed):
    w = mx.array(_normal(3, 16, 16))
    scale = mx.max(mx.abs(w))
    words, scales = mx.quantize(w, mode="nvfp4", global_scale=scale)
    full = np.array(mx.dequantize(words, scales, mode="nvfp4", global_scale=scale, dtype=mx.float32))
    x = mx.array(_normal(2, 4, 16))
    said = mx.gather_qmm(x, words, scales, None, None, mx.array([2, 0]), is_transposed, mode="nvfp4", global_scale=scale)
    want = np.array(x) @ (full[[2, 0]].swapaxes(-1, -2) if is_transposed else full[[2, 0]])
    np.testing.assert_allclose(np.array(said), want, atol=1e-4)
    assert mx.gather_qmm(x.astype(mx.float16), words, scales, None, None, mx.array([2, 0]), mode="nvfp4",
                         global_scale=scale).dtype == mx.float16
    with pytest.raises(ValueError):
        mx.gather_qmm(x, words, scales, None, None, mx.array([2, 0]), mode="mxfp4", global_scale=scale)


# ---- Names


def test_matrix_transpose_is_of_the_last_two_axes():
    a = _normal(2, 3, 4)
    assert np.array_equal(np.array(mx.matrix_transpose(mx.array(a))), a.swapaxes(-1, -2))
    assert np.array_equal(np.array(mx.permute_dims(mx.array(a))), a.T)
    with pytest.raises(ValueError):
        mx.matrix_transpose(mx.ones((3,)))


def test_correction_is_another_name_of_ddof():
    a = mx.array(_normal(3, 5))
    for f in (mx.var, mx.std, mx.array.var, mx.array.std):
        assert f(a, correction=1).item() == f(a, ddof=1).item() == f(a, ddof=3, correction=1).item() != f(a).item()
        assert mx.array_equal(f(a, 1, True, correction=2), f(a, axis=1, keepdims=True, ddof=2)).item()


def test_buffers_of_trees_are_counted_once():
    a, b = mx.zeros((4,)), mx.zeros((3,), mx.float16)
    assert mx.get_array_buffer_size(a, [a, {"b": (b, 3)}]) == 22 and mx.get_array_buffer_size() == 0
    assert a.__div__(2).tolist() == [0] * 4 and (a + 2).__rdiv__(1).tolist() == [0.5] * 4


# ---- Fourier transforms: lengths that are one product, two, several, and a convolution


@pytest.mark.parametrize("n", [1, 2, 3, 8, 31, 64, 100, 128, 131, 211, 256, 257, 1000, 4096])
@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "complex128"])
def test_transforms_of_every_kind_of_length(n, kind):
    x = RANDOM.standard_normal((2, n)) + (1j * RANDOM.standard_normal((2, n)) if kind.startswith("complex") else 0)
    a = mx.array(x, getattr(mx, kind))
    wide = kind in ("float64", "complex128")
    for ours, theirs in ((mx.fft.fft, np.fft.fft), (mx.fft.ifft, np.fft.ifft)):
        said, want = ours(a), theirs(x)
        assert said.dtype == (mx.complex128 if wide else mx.complex64)
        assert np.abs(np.array(said) - want).max() < (1e-13 if wide else 2e-6) * np.abs(want).max() * max(1, np.log2(n))
    if not kind.startswith("complex"):
        np.testing.assert_allclose(np.array(mx.fft.irfft(mx.fft.rfft(a), n)) if n > 1 else x, x, atol=1e-12 if wide else 2e-5)


@pytest.mark.parametrize("n", [5, 128, 131, 200])
def test_the_derivative_of_a_transform_is_its_transpose(n):
    x, w = mx.array(_normal(n)), mx.array(_normal(n))
    slope = mx.grad(lambda x: (mx.real(mx.fft.fft(x)) * w).sum())(x)
    np.testing.assert_allclose(np.array(slope), np.fft.fft(np.array(w)).real, atol=1e-4)
    slope = mx.grad(lambda x: mx.square(mx.abs(mx.fft.fft(x))).sum())(x)
    np.testing.assert_allclose(np.array(slope), 2 * n * np.array(x), rtol=1e-4, atol=1e-3)
