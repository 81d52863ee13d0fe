"""Weights of few bits, beside a packer of plain Python integers and NumPy's arithmetic in float32; and beside MLX where it is."""
import numpy as np
import pytest
import weft

FORMS = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]


def plain(w, group, bits):
    """Codes, scales and biases: the end of a group that is further from 0 is a code exactly."""
    n = np.float32(2 ** bits - 1)
    g = w.astype(np.float32).reshape(*w.shape[:-1], -1, group)
    high, low = g.max(-1, keepdims=True), g.min(-1, keepdims=True)
    is_low = abs(low) > abs(high)
    s = np.maximum((high - low) / n, np.float32(1e-7))
    s, edge = np.where(is_low, s, -s), np.where(is_low, low, high)
    q0 = np.rint(edge / s)
    s, b = np.where(q0 == 0, s, edge / np.where(q0 == 0, np.float32(1), q0)), np.where(q0 == 0, np.float32(0), edge)
    return np.clip(np.rint((g - b) / s), 0, n).reshape(w.shape).astype(int), s[..., 0].astype(w.dtype), b[..., 0].astype(w.dtype)


def words_of(codes, bits):
    """Rows of codes as one long integer each, cut into words."""
    rows = [sum(int(c) << (i * bits) for i, c in enumerate(row)) for row in codes.reshape(-1, codes.shape[-1])]
    n = codes.shape[-1] * bits // 32
    return np.array([[row >> (32 * k) & 0xFFFFFFFF for k in range(n)] for row in rows], np.uint32).reshape(*codes.shape[:-1], n)


def weights(rng, shape, dtype="float32"):
    w = rng.standard_normal(shape).astype(dtype)
    w[0, :32] = 0
    w[-1, :32] = 3
    w[1] = abs(w[1])
    return w


@pytest.mark.parametrize("bits, group", FORMS)
def test_codes_scales_and_biases(bits, group, rng):
    for dtype in ("float32", "float16"):
        w = weights(rng, (5, 256), dtype)
        codes, s, b = plain(w, group, bits)
        words, scales, biases = weft.quantize(w, group, bits)
        np.testing.assert_array_equal(np.asarray(words), words_of(codes, bits))
        np.testing.assert_array_equal(np.asarray(scales), s)
        np.testing.assert_array_equal(np.asarray(biases), b)
        assert words.dtype == "uint32" and scales.dtype == dtype
        back = np.asarray(weft.dequantize(words, scales, biases, group, bits))
        want = codes.reshape(5, -1, group).astype(np.float32) * s[..., None].astype(np.float32) + b[..., None].astype(np.float32)
        np.testing.assert_array_equal(back, want.reshape(5, 256).astype(dtype))
        if dtype == "float32":
            assert (abs(back - w) <= abs(np.repeat(s, group, -1)) * 1.01 + 1e-6).all()  # 0.5, but where the far end is beyond the last code


@pytest.mark.parametrize("bits, group", FORMS)
def test_products_both_ways(bits, group, rng):
    w = weights(rng, (128, 256))
    q = weft.quantize(w, group, bits)
    whole = np.asarray(weft.dequantize(*q, group, bits)).astype(np.float64)
    for rows in (1, 3, 40):
        x, y = rng.standard_normal((rows, 256)).astype("f4"), rng.standard_normal((rows, 128)).astype("f4")
        np.testing.assert_allclose(np.asarray(weft.quantized_matmul(x, *q, group_size=group, bits=bits)), x @ whole.T, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(np.asarray(weft.quantized_matmul(y, *q, transpose=False, group_size=group, bits=bits)), y @ whole, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(np.asarray(weft.quantized_matmul(x[0], *q, group_size=group, bits=bits)), x[0] @ whole.T, rtol=1e-4, atol=1e-3)


def test_batches_views_maps_and_derivatives(rng):
    w, x = rng.standard_normal((3, 8, 64)).astype("f4"), rng.standard_normal((3, 2, 64)).astype("f4")
    q = weft.quantize(w)
    whole = np.asarray(weft.dequantize(*q))
    np.testing.assert_allclose(np.asarray(weft.quantized_matmul(x, *q)), x @ whole.swapaxes(1, 2), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(weft.quantize(w[:, ::-1])[0]), np.asarray(q[0])[:, ::-1])
    mapped = weft.vmap(lambda x, *q: weft.quantized_matmul(x, *q))(weft.array(x), *q)
    np.testing.assert_allclose(np.asarray(mapped), x @ whole.swapaxes(1, 2), rtol=1e-4, atol=1e-4)
    by_x = weft.grad(lambda x: weft.quantized_matmul(x, *q).sum())(weft.array(x))
    np.testing.assert_allclose(np.asarray(by_x), np.broadcast_to(whole.sum(1, keepdims=True), x.shape), rtol=1e-4, atol=1e-4)
    by_s = weft.grad(lambda s: weft.quantized_matmul(x, q[0], s, q[2]).sum())(q[1])
    codes = plain(w, 64, 4)[0]
    np.testing.assert_allclose(np.asarray(by_s)[..., 0], (codes * x.sum(1)[:, None]).sum(-1), rtol=1e-3, atol=1e-3)
    half = [a.astype("bfloat16") if a.dtype == "float32" else a for a in q]
    assert weft.quantized_matmul(weft.array(x).astype("bfloat16"), *half).dtype == "bfloat16"
    assert weft.quantize(np.zeros((0, 64), "f4"))[0].shape == (0, 8)


@pytest.mark.parametrize("call", [
    lambda w: weft.quantize(w, 48), lambda w: weft.quantize(w, 64, 7), lambda w: weft.quantize(w, 64, 1), lambda w: weft.quantize(w[:, :60]),
    lambda w: weft.quantize(w.astype("int32")), lambda w: weft.dequantize(w, w, w), lambda w: weft.quantize(np.float32(1)),
    lambda w: weft.dequantize(*weft.quantize(w), 32, 4), lambda w: weft.dequantize(*weft.quantize(w), 64, 3),
    lambda w: weft.quantized_matmul(w[:, :32], *weft.quantize(w))])
def test_what_makes_no_sense_is_refused(call, rng):
    with pytest.raises((ValueError, TypeError)):
        call(rng.standard_normal((4, 64)).astype("f4"))


@pytest.mark.parametrize("bits, group", FORMS)
def test_the_layout_is_mlxs(bits, group, rng):
    mx = pytest.importorskip("mlx.core")
    if not hasattr(mx, "__file__") or "weft" in str(mx.__file__):
        pytest.skip("this mlx is weft's")
    w = weights(rng, (6, 256))
    for ours, theirs in zip(weft.quantize(w, group, bits), mx.quantize(mx.array(w), group, bits)):
        np.testing.assert_array_equal(np.asarray(ours), np.array(theirs))
