"""Windows and convolution, against loops in plain NumPy; derivatives by <v, J u> = <J' v, u>, the convolution being linear."""
import itertools

import numpy as np
import pytest
import weft


def each(value, n):
    return [value] * n if np.isscalar(value) else list(value)


def plain(x, w, stride=1, padding=0, dilation=1, groups=1, flip=False, spread=1):
    n = x.ndim - 2
    stride, dilation, spread = each(stride, n), each(dilation, n), each(spread, n)
    padding = [(p, p) if np.isscalar(p) else p for p in each(padding, n)]
    dtype = np.result_type(x, w)
    apart = np.zeros((x.shape[0], *[max((s - 1) * k + 1, 0) for s, k in zip(x.shape[1:-1], spread)], x.shape[-1]), dtype)
    apart[(slice(None), *[slice(None, None, k) for k in spread])] = x
    room = [s + before + after for s, (before, after) in zip(apart.shape[1:-1], padding)]
    sizes = [(r - (k - 1) * d - 1) // t + 1 for r, k, d, t in zip(room, w.shape[1:-1], dilation, stride)]
    y = np.zeros((x.shape[0], *sizes, w.shape[0]), dtype)
    of_group, out_of_group = w.shape[-1], w.shape[0] // groups
    for i, o in itertools.product(np.ndindex(*sizes), range(w.shape[0])):
        for j in np.ndindex(*w.shape[1:-1]):
            at = [a * t + b * d - before for a, t, b, d, (before, _) in zip(i, stride, j, dilation, padding)]
            if any(a < 0 or a >= s for a, s in zip(at, apart.shape[1:-1])):
                continue
            g = o // out_of_group
            taken = apart[(slice(None), *at)][:, g * of_group:(g + 1) * of_group]
            place = tuple(k - 1 - b for k, b in zip(w.shape[1:-1], j)) if flip else j
            y[(slice(None), *i, o)] += taken @ w[(o, *place)]
    return y


CASES = [
    ((2, 7, 3), (4, 3, 3), {}),
    ((2, 7, 3), (4, 3, 3), dict(stride=2, padding=1, dilation=2, spread=3)),
    ((2, 7, 4), (6, 2, 2), dict(groups=2, padding=[(0, 3)], flip=True)),
    ((1, 6, 5, 2), (3, 3, 2, 2), dict(stride=(2, 1), padding=[1, (2, 0)])),
    ((2, 5, 4, 3), (3, 2, 2, 1), dict(groups=3, dilation=(1, 2))),
    ((2, 5, 4, 3), (2, 2, 3, 3), dict(spread=(2, 1), flip=True, padding=((1, 1), (-1, 2)))),
    ((1, 4, 3, 3, 2), (2, 2, 1, 3, 2), dict(padding=(0, 1, (1, 0)), stride=[1, 2, 1])),
    ((0, 4, 2), (3, 2, 2), {}),
    ((2, 4, 2), (0, 2, 2), {}),
    ((1, 1, 1), (1, 1, 1), dict(padding=2)),
    ((1, 1, 2), (3, 2, 2), dict(stride=3, padding=[(3, 0)], spread=2)),
    ((1, 2, 3, 2), (3, 2, 1, 2), dict(padding=[(5, -4), (-3, 2)])),
    ((2, 1, 2), (2, 2, 1), dict(padding=[(-2, 4)], groups=2)),
]


@pytest.mark.parametrize("shape,kernel,how", CASES)
def test_a_convolution_is_its_sum(shape, kernel, how, rng):
    x, w = rng.standard_normal(shape), rng.standard_normal(kernel)
    np.testing.assert_allclose(np.asarray(weft.conv(x, w, **how)), plain(x, w, **how), rtol=1e-12, atol=1e-12)
    xi, wi = rng.integers(-9, 9, shape), rng.integers(-9, 9, kernel)
    np.testing.assert_array_equal(np.asarray(weft.conv(xi, wi, **how)), plain(xi, wi, **how))
    view = np.repeat(np.swapaxes(x, 0, -1), 2, -1)[..., ::-2].swapaxes(0, -1)
    np.testing.assert_allclose(np.asarray(weft.conv(view, w, **how)), plain(view, w, **how), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("how", [{}, dict(padding=3), dict(stride=2, padding=1), dict(dilation=(2, 1), padding=((0, 4), (2, 1))), dict(stride=(1, 3), flip=True)])
@pytest.mark.parametrize("channels, each", [(1, 1), (5, 1), (33, 1), (16, 2)])
def test_one_channel_a_group_is_its_sum_in_f32(channels, each, how, rng):
    x, w = rng.standard_normal((2, 9, 10, channels)).astype("float32"), rng.standard_normal((channels * each, 3, 4, 1)).astype("float32")
    want = plain(x.astype("float64"), w.astype("float64"), groups=channels, **how)
    planes = weft.asarray(np.ascontiguousarray(x.transpose(0, 3, 1, 2))).transpose(0, 2, 3, 1)
    last = weft.conv(weft.asarray(x), weft.asarray(w), groups=channels, **how)
    np.testing.assert_allclose(np.asarray(last), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(weft.conv(planes, weft.asarray(w), groups=channels, **how)), np.asarray(last))


@pytest.mark.parametrize("shape,kernel,how", CASES)
def test_derivatives_of_a_convolution(shape, kernel, how, rng):
    x, w, dx, dw = (rng.standard_normal(s) for s in (shape, kernel, shape, kernel))
    xw = [weft.array(x), weft.array(w)]
    y, (dy,) = weft.jvp(lambda a, b: weft.conv(a, b, **how), xw, [weft.array(dx), weft.array(dw)])
    np.testing.assert_allclose(np.asarray(dy), plain(dx, w, **how) + plain(x, dw, **how), rtol=1e-12, atol=1e-12)
    v = rng.standard_normal(dy.shape)
    _, (vx, vw) = weft.vjp(lambda a, b: weft.conv(a, b, **how), xw, [weft.array(v)])
    assert vx.shape == shape and vw.shape == kernel
    np.testing.assert_allclose((np.asarray(vx) * dx).sum() + (np.asarray(vw) * dw).sum(), (v * np.asarray(dy)).sum(), rtol=1e-10, atol=1e-10)


def crossed(seed):
    """Sizes and options of one to three axes, drawn."""
    r = np.random.default_rng(seed)
    n, groups = int(r.integers(1, 4)), int(r.choice([1, 1, 2, 3]))
    kernel = [int(k) for k in r.integers(1, 4, n)]
    how = dict(stride=[int(k) for k in r.integers(1, 4, n)], dilation=[int(k) for k in r.integers(1, 3, n)], groups=groups, flip=bool(r.integers(2)),
               spread=[int(k) for k in r.choice([1, 1, 2, 3], n)], padding=[(int(a), int(b)) for a, b in r.integers(0, 3, (n, 2))])
    shape = [int(d * (k - 1) + r.integers(1, 5 if n == 3 else 10)) for d, k in zip(how["dilation"], kernel)]
    of_group, out = int(r.choice([1, 2, 5, 24])), int(r.integers(1, 5))
    return r, (int(r.integers(1, 4)), *shape, groups * of_group), (groups * out, *kernel, of_group), how


def channels_first(x):
    return weft.moveaxis(weft.array(np.ascontiguousarray(np.moveaxis(x, -1, 1))), 1, -1)


def same_bits(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("seed", range(24))
def test_options_crossed_are_the_plain_sums_and_the_same_bits_however_they_are_computed(seed):
    r, shape, kernel, how = crossed(seed)
    x, w = (r.standard_normal(s).astype("float32") for s in (shape, kernel))
    want, f = plain(x.astype("float64"), w.astype("float64"), **how), lambda a, b: weft.conv(a, b, **how)
    y = f(weft.array(x), weft.array(w))
    np.testing.assert_allclose(np.asarray(y), want, rtol=2e-5, atol=2e-5)
    same_bits(weft.compile(f)(weft.array(x), weft.array(w)), y)
    same_bits(f(channels_first(x), channels_first(w)), y)
    same_bits(weft.vmap(lambda a: f(a, weft.array(w)))(weft.array(np.stack([x, -x])))[1], -y)
    half = f(weft.array(x).astype("bfloat16"), weft.array(w).astype("bfloat16"))
    exact = [np.asarray(weft.array(a).astype("bfloat16").astype("float64")) for a in (x, w)]
    np.testing.assert_allclose(np.asarray(half.astype("float64")), plain(*exact, **how), rtol=2 ** -8, atol=2e-3)
    v, dx, dw = r.standard_normal(want.shape), r.standard_normal(shape), r.standard_normal(kernel)
    wide = [weft.array(x.astype("float64")), weft.array(w.astype("float64"))]
    _, (vx, vw) = weft.vjp(f, wide, [weft.array(v)])
    np.testing.assert_allclose((np.asarray(vx) * dx).sum(), (v * plain(dx, w.astype("float64"), **how)).sum(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((np.asarray(vw) * dw).sum(), (v * plain(x.astype("float64"), dw, **how)).sum(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch,side,channels,out", [(1, 7, 512, 96), (2, 5, 512, 20), (1, 7, 300, 24), (3, 4, 96, 20)])
def test_many_channels_of_few_places_have_the_same_bits_on_any_threads(batch, side, channels, out, rng):
    x, w = rng.standard_normal((batch, side, side, channels)).astype("float32"), rng.standard_normal((out, 3, 3, channels)).astype("float32")
    want, seen = plain(x.astype("float64"), w.astype("float64"), padding=1), []
    before = weft.set_threads(1)
    try:
        for n in (1, 2, 3, 16):
            weft.set_threads(n)
            seen += [weft.conv(weft.array(x), weft.array(w), padding=1), weft.conv(channels_first(x), channels_first(w), padding=1)]
            weft.eval(*seen)
    finally:
        weft.set_threads(before)
    np.testing.assert_allclose(np.asarray(seen[0]), want, rtol=1e-3, atol=1e-3)
    for y in seen[1:]:
        same_bits(y, seen[0])


def test_a_nan_stays_in_the_windows_that_read_it():
    x = np.ones((1, 6, 1))
    x[0, 2] = np.nan
    assert np.isnan(np.asarray(weft.conv(x, np.ones((1, 2, 1)))))[0, :, 0].tolist() == [False, True, True, False, False]
    np.testing.assert_array_equal(np.asarray(weft.conv(x, np.ones((1, 2, 1)), padding=1)), plain(x, np.ones((1, 2, 1)), padding=1))


def test_convolutions_inside_of_transforms(rng):
    x, w = rng.standard_normal((3, 2, 6, 2)), rng.standard_normal((4, 3, 2))
    mapped = weft.vmap(lambda a: weft.conv(a, weft.array(w), padding=1))(weft.array(x))
    np.testing.assert_allclose(np.asarray(mapped), np.stack([plain(a, w, padding=1) for a in x]), rtol=1e-12)
    compiled = weft.compile(lambda a, b: weft.conv(a, b, stride=2))
    np.testing.assert_allclose(np.asarray(compiled(weft.array(x[0]), weft.array(w))), plain(x[0], w, stride=2), rtol=1e-12)


def test_what_a_convolution_refuses():
    x, w = weft.zeros((1, 5, 5, 4)), weft.zeros((2, 3, 3, 4))
    for how, text in ((dict(stride=(1, 2, 3)), "the stride is one number, or one for each of 2 axes"), (dict(groups=0), "0 groups"),
                      (dict(padding=[1]), "for each of 2 axes one or a pair"), (dict(padding=[(1, 2, 3), 0]), "a pair of paddings, not 3"),
                      (dict(dilation=3), "longer than"), (dict(stride=0), "at least 1"), (dict(spread=-1), "at least 1"),
                      (dict(groups=3), "groups"), (dict(padding=-2), "longer than")):
        with pytest.raises(ValueError, match=text):
            weft.conv(x, w, **how)
    for how in (dict(stride=1.5), dict(padding=None), dict(padding="ab"), dict(groups=None)):
        with pytest.raises(TypeError):
            weft.conv(x, w, **how)
    for shape, kernel in (((3,), (2, 3, 3, 4)), ((2, 3), (4, 3)), ((), ())):
        with pytest.raises(ValueError, match="x is"):
            weft.conv(weft.zeros(shape), weft.zeros(kernel))


def slid(x, n, axis, step, dilation):
    axis %= x.ndim
    whole = np.lib.stride_tricks.sliding_window_view(x, (n - 1) * dilation + 1, axis)[..., ::dilation]
    return np.moveaxis(np.moveaxis(whole, axis, 0)[::step], 0, axis)


def test_windows_of_every_length_step_and_dilation(rng):
    x = rng.integers(-99, 99, (3, 7, 2))
    x[0, 0, 0] = 0
    for axis, n, step, dilation in itertools.product((0, 1, -1, -2), (1, 2, 3), (1, 2, 3), (1, 2)):
        for y in (x, x[:, ::-1], x[:, :, :0] if axis in (0, 1, -2) else x[:0], np.broadcast_to(x[:, :1], x.shape)):
            if (n - 1) * dilation < y.shape[axis]:
                np.testing.assert_array_equal(np.asarray(weft.windows(y, n, axis, step, dilation)), slid(y, n, axis, step, dilation))
            else:
                with pytest.raises(ValueError, match="longer than"):
                    weft.windows(y, n, axis, step, dilation)
    odd = np.asarray(weft.windows(np.array([-0.0, np.nan, 1.0]), 2, 0))
    assert np.signbit(odd[0, 0]) and np.isnan(odd[0, 1]) and np.isnan(odd[1, 0])
    for call in (lambda: weft.windows(3, 1, 0), lambda: weft.windows(x, 0, 0), lambda: weft.windows(x, 2, 0, 0), lambda: weft.windows(x, 2, 3)):
        with pytest.raises(ValueError):
            call()


def test_a_window_at_a_place_that_is_computed(rng):
    x = rng.standard_normal((4, 6))
    for start, n, axis in ((0, 2, 0), (3, 1, 0), (-2, 2, 1), (2, 4, -1), (1, 0, 1)):
        end = start + n if start >= 0 or start + n else None
        expected = np.take(x, np.arange(x.shape[axis])[start:end], axis)
        for at in (start, weft.array(start), weft.array(start - 1) + 1):
            np.testing.assert_array_equal(np.asarray(weft.window(x, at, n, axis)), expected)
    with pytest.raises(IndexError):
        weft.window(x, 3, 2)
    with pytest.raises(IndexError):
        weft.eval(weft.window(x, weft.array(2) + 1, 2))


def test_sizes_as_arrays(rng):
    x = weft.array(rng.standard_normal((3, 4)))
    assert [weft.size(x, k).item() for k in (0, 1, -1, None)] == [3, 4, 4, 12] and weft.size(x).dtype == "int64"
    assert weft.size(7).item() == 1 and weft.size([]).item() == 0
    assert weft.sized((weft.size(x, 0), 2), "int32").tolist() == [[0, 0]] * 3
    assert weft.sized(()).tolist() == 0 and weft.sized(3).shape == (3,) and weft.sized(weft.array(1) + 1).shape == (2,)
    assert weft.compile(lambda a: weft.sized((weft.size(a) - 2,)) + 1)(x).shape == (10,)
    for shape in ((-1,), (weft.array(-1),), (0.5,), (weft.array([1, 2]),)):
        with pytest.raises((ValueError, TypeError)):
            weft.sized(shape)


@pytest.mark.parametrize("how", [dict(padding=[(-2 ** 63, 2 ** 63 - 1)]), dict(padding=[(2 ** 63 - 8, 2 - 2 ** 63)]), dict(padding=2 ** 62), dict(spread=2 ** 62)])
def test_paddings_beyond_any_array_are_refused_by_name(how):
    x, w = weft.ones((1, 5, 4)), weft.ones((6, 2, 4))
    conv = lambda a, b: weft.conv(a, b, **how)
    for f, a in ((conv, x), (weft.compile(conv), x), (weft.vmap(lambda a: conv(a, w)), None)):
        with pytest.raises(ValueError, match="^conv: (padding|axis 1)"):
            f(a, w) if a is not None else f(weft.stack([x, x]))


@pytest.mark.parametrize("groups, channels, out", [(2, 4, 6), (4, 4, 4), (3, 6, 3), (1, 2, 3)])
def test_derivatives_of_groups_of_an_open_batch(rng, groups, channels, out):
    w = weft.array(rng.standard_normal((out, 3, channels // groups)))
    loss = lambda x, w: weft.sin(weft.conv(x, w, stride=2, padding=1, groups=groups)).sum()
    by_w = weft.grad(loss, argnums=1)
    twice = weft.grad(lambda x, w: weft.sin(by_w(x, w)).sum(), argnums=0)
    for f in (weft.grad(loss), by_w, twice):
        open = weft.compile(f, shapes=[(None, 7, channels), w.shape])
        for n in (1, 2, 5):
            x = weft.array(rng.standard_normal((n, 7, channels)))
            np.testing.assert_allclose(np.asarray(open(x, w)), np.asarray(f(x, w)), rtol=1e-12, atol=1e-13)
