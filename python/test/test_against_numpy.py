"""Every function of the module against NumPy and SciPy, on random and special values and on odd layouts.

What takes one array, two arrays, or an array and an axis is found by its signature, and its counterpart by its name; the
rest is a row of CALLS. A function that is in neither, nor among those that compute nothing, fails the test.
"""
import inspect

import numpy as np
import pytest
import weft

special = pytest.importorskip("scipy.special", reason="SciPy is not there: nothing was compared with it")
optimize = pytest.importorskip("scipy.optimize")

# ---- which functions there are

NOT_OF_VALUES = set("""
    AxisError CheckError RangeError
    Dtype NoValueError array as_mlx async_eval checkpoint clear_cache compile cond custom_function device_count einsum_path eval fetch from_dlpack get_active_memory
    get_cache_memory get_peak_memory grad jvp kernels_compiled live_nodes load plan reset_peak_memory save save_safetensors scan
    broadcast_shapes can_cast empty empty_like finfo iinfo isdtype
    set_blas set_cache_limit set_check set_device set_halves set_memory_limit set_tf32 set_threads show state to_device value_and_grad vjp vmap wait while_loop
    """.split())



FIRST_NAMES = {row["name"] for row in weft._core.names}


def is_second_name(name):
    return type(getattr(weft, name)) is type(weft.sum) and name not in FIRST_NAMES


NAMES = [n for n in dir(weft) if not n.startswith("_") and callable(getattr(weft, n)) and n not in NOT_OF_VALUES
         and not is_second_name(n) and getattr(weft, n).__module__ != "weft._composed"]  # those: test_composed.py

# Counterparts that have another name, or none.
REFERENCE = {
    "bitwise_invert": np.invert,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sigmoid": special.expit,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": lambda a, axis=None: np.logaddexp.accumulate(a, axis),
    "logsumexp": lambda a, axis=None, keepdims=False: special.logsumexp(a, axis, keepdims=keepdims),
    "softmax": lambda a, axis=None: special.softmax(a, axis),
    "stop_gradient": lambda a: a,
    "relu": lambda a: np.where(a <= 0, 0, a),
    "silu": lambda a: a * special.expit(a),
    "gelu": lambda a: a * special.ndtr(a),
    "gelu_approx": lambda a: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a ** 3))),
    "argsort": lambda a, axis=-1: np.argsort(a, axis, kind="stable"),
    "softplus": lambda a: np.logaddexp(a, 0),
    "log_softmax": lambda a, axis=None: special.log_softmax(a, axis),
    "erfinv": special.erfinv,
    "lgamma": special.gammaln,
    "trigamma": lambda a: special.polygamma(1, a),
    "log1mexp": lambda a: np.where(a > -0.7, np.log(-np.expm1(a)), np.log1p(-np.exp(a))),
    "erfcinv": special.erfcinv,
    "i0": special.i0,  # NumPy's wants floats
    "matmul": lambda a, b: np.matmul(*[x.astype(np.int32) if x.dtype == np.bool_ else x for x in (a, b)]),  # counts
}
DIVIDES = {"fmod", "remainder", "floor_divide"}  # integers by 0 have a value of weft's own
# Integers of NumPy are not comparable where the result is a float of another width or rounding goes the other way.
FLOATS_ONLY = {"isinf", "isfinite"}
# SciPy's have no limits, or others than C's, at infinity, or lose what is tiny.
OTHERWISE_FAR_OUT = {"erfcinv", "i0", "i1", "j0", "j1", "lgamma", "trigamma"}
BITS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "left_shift", "right_shift"}


def reference(name):
    return REFERENCE.get(name) or getattr(np, name, None) or getattr(special, name, None)


def parameters(name):
    """Names of the arguments, those with a default followed by '='."""
    return [p.name + ("" if p.default is p.empty else "=") for p in inspect.signature(getattr(weft, name)).parameters.values()]


def kind(name):
    p = parameters(name)
    if name in CALLS or reference(name) is None:
        return None
    if len(p) == 1 and not p[0].endswith("="):
        return "one"
    if len(p) == 2 and not p[1].endswith("="):
        return "two"
    if p[1:3] == ["axis=", "keepdims="]:
        return "reduce"
    return "along" if p[1:2] == ["axis="] else None


# ---- values and layouts

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -1e-310, 1e-45, 1.0, -1.0, 0.5, 2.0, 88.0, -104.0, 709.0, 1e30, -1e300])


def random(rng, dtype, shape):
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0 if np.issubdtype(dtype, np.unsignedinteger) else -9, 9, shape).astype(dtype)
    x = rng.standard_normal(shape) * 2
    return (x + 1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else x).astype(dtype)


def layouts(x):
    """The same shape, read in other ways."""
    yield x
    yield np.flip(x)
    yield np.flip(x, 0)
    yield np.asfortranarray(x)
    yield np.repeat(np.repeat(x, 3, 0), 2, 1)[1::3, ::2]
    yield np.broadcast_to(x[:, :1], x.shape)
    yield np.lib.stride_tricks.sliding_window_view(np.ravel(x), x.shape[1])[:x.shape[0]]


def close(a, expected, name=""):
    a = np.asarray(a)
    expected = np.asarray(expected)
    assert a.shape == expected.shape, name
    if a.dtype.kind in "fc":
        single = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) <= 4
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(a, expected.astype(a.dtype), rtol=3e-6 if single else 1e-12, atol=1e-6 if single else 1e-13,
                                       equal_nan=True, err_msg=name)
    else:
        np.testing.assert_array_equal(a, expected.astype(a.dtype), err_msg=name)


DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, np.complex64, np.complex128]


def takes(name, dtype):
    kind_of = np.dtype(dtype).kind
    if name in BITS:
        return kind_of in "iub"
    if name in FLOATS_ONLY:
        return kind_of == "f"
    return True


def compare(name, arrays, **more):
    """Both sides, NumPy's in float64 where weft's is a float; unless weft says that there is no such operation."""
    try:
        got = np.asarray(getattr(weft, name)(*[weft.array(a) for a in arrays], **more))
    except TypeError as refusal:
        assert __file__ in str(refusal) and "weft_" not in str(refusal)  # it is ours, and speaks Python
        return
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) if got.dtype.kind == "f" and a.dtype.kind != "c" else a for a in arrays]
        try:
            expected = reference(name)(*wide, **more)
        except (TypeError, ValueError):  # of bools; integers to negative powers
            return
    close(got, expected, name)


# ---- one array, two arrays, an array and an axis

def named(which):
    return [n for n in NAMES if kind(n) == which]


def pytest_generate_tests(metafunc):
    """A test of `one` or the like runs for every such name that it accepts: with a dtype, the dtypes it takes."""
    for which in {"one", "two", "reduce", "along"} & set(metafunc.fixturenames):
        accepts = getattr(metafunc.function, "accepts", lambda name: True)
        names = [n for n in named(which) if accepts(n)]
        if "dtype" not in metafunc.fixturenames:
            metafunc.parametrize(which, names)
            continue
        pairs = [(n, t) for n in names for t in DTYPES if takes(n, t)]
        metafunc.parametrize((which, "dtype"), pairs, ids=["%s-%s" % (n, t.__name__) for n, t in pairs])


def of(accepts):
    def mark(test):
        test.accepts = accepts
        return test
    return mark


def test_one_array(one, dtype, rng):
    for x in layouts(random(rng, dtype, (3, 4))):
        compare(one, [x])


@of(lambda name: name not in BITS)
def test_one_array_of_special_values(one):
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            x = SPECIAL.astype(dtype)
            if one in OTHERWISE_FAR_OUT:
                x = x[np.isnan(x) | (np.abs(x) > 0.1) & (np.abs(x) < 1e3)]
            compare(one, [x])


def test_two_arrays(two, dtype, rng):
    if two == "matmul":
        for x in layouts(random(rng, dtype, (3, 4))):
            compare(two, [x, np.asfortranarray(random(rng, dtype, (4, 5)))])
        return
    b = random(rng, dtype, (3, 4))
    if two in DIVIDES and np.dtype(dtype).kind in "biu":
        b = np.where(b == 0, np.ones(1, dtype), b)
    for x in layouts(random(rng, dtype, (3, 4))):
        compare(two, [x, b])
        compare(two, [x, np.flip(b)[:1]])


@of(lambda name: name not in BITS | {"matmul", "outer"})
def test_two_arrays_of_special_values(two):
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            x = SPECIAL.astype(dtype)
            if two in DIVIDES:  # a remainder is nan where the quotient has more digits than weft follows
                x = x[~((np.abs(x) > 1e6) & np.isfinite(x)) & ~((np.abs(x) < 0.1) & (x != 0))]
            compare(two, [x[:, None], x[None, :]])


def test_an_array_and_an_axis(reduce, dtype, rng):
    for x in layouts(random(rng, dtype, (3, 4))):
        for axis in (None, 0, -1):
            compare(reduce, [x], axis=axis)
            compare(reduce, [x], axis=axis, keepdims=True)


def test_along_an_axis(along, dtype, rng):
    for x in layouts(random(rng, dtype, (3, 4))):
        for axis in (0, -1):
            compare(along, [x], axis=axis)


def test_special_values_along_an_axis(reduce):
    x = np.array([[1, np.nan, 2], [np.inf, 1, -np.inf], [-0.0, 0.0, -0.0], [5e-324, 1e-310, 0]])
    with np.errstate(all="ignore"):
        compare(reduce, [x], axis=1)


# ---- derivatives, against differences of NumPy's function

POSITIVE = np.array([0.3, 0.55, 0.7, 0.85])
BEGINS_AT = {"arccosh": 1, "log1mexp": -3}


def is_smooth(name):
    """Whether weft's result is a float and NumPy's has no step here."""
    try:
        y = getattr(weft, name)(*[weft.array(POSITIVE)] * (2 if kind(name) == "two" else 1))
        return np.asarray(y).dtype.kind == "f" and name not in ("stop_gradient", "floor", "ceil", "round", "trunc", "sign", "floor_divide")
    except (TypeError, ValueError):
        return False


def slopes(f, x):
    return optimize.approx_fprime(x, lambda v: float(np.sum(f(v))), 1e-7)


@of(is_smooth)
def test_gradient_of_one_array(one):
    x = POSITIVE + BEGINS_AT.get(one, 0)
    dx = weft.grad(lambda v: getattr(weft, one)(v).sum())(weft.array(x))
    np.testing.assert_allclose(np.asarray(dx), slopes(reference(one), x), rtol=2e-5, atol=1e-6)


@of(is_smooth)
def test_gradient_of_two_arrays(two):
    other = POSITIVE[::-1] * 1.5
    for swap in (False, True):
        def pair(v, w):
            return (w, v) if swap else (v, w)
        dx = weft.grad(lambda v: getattr(weft, two)(*pair(v, weft.array(other))).sum())(weft.array(POSITIVE))
        expected = slopes(lambda v: reference(two)(*pair(v, other)), POSITIVE)
        np.testing.assert_allclose(np.asarray(dx), expected, rtol=2e-5, atol=1e-6)


@of(is_smooth)
def test_gradient_along_an_axis(reduce):
    dx = weft.grad(lambda v: getattr(weft, reduce)(v, axis=0))(weft.array(POSITIVE))
    np.testing.assert_allclose(np.asarray(dx), slopes(lambda v: reference(reduce)(v, axis=0), POSITIVE), rtol=2e-5, atol=1e-6)


# ---- the others: pairs of what weft and what NumPy is asked

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
M = X[0]
D = M.astype(np.float64)
LIKE = np.zeros((2, 3), np.int32)


def normed(x, axis=-1):
    d = x - x.mean(axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis, keepdims=True) + 1e-5)


def put_along():
    y = M.copy()
    np.put_along_axis(y, np.argmax(M, 1, keepdims=True), 0.5, 1)
    return y


def attended(q, k, v, mask):
    s = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def slid(x, n, axis, step, dilation):
    whole = np.lib.stride_tricks.sliding_window_view(x, (n - 1) * dilation + 1, axis)[..., ::dilation]
    return np.moveaxis(np.moveaxis(whole, axis, 0)[::step], 0, axis)


def pooled(x, fold):
    return fold(np.lib.stride_tricks.sliding_window_view(x, 2, 1)[:, ::2], -1)


def turned(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    u, v = x[..., :half], x[..., half:]
    return np.concatenate([u * np.cos(angle) - v * np.sin(angle), u * np.sin(angle) + v * np.cos(angle)], -1)


def signs(n):
    return np.ones((1, 1)) if n == 1 else np.kron([[1, 1], [1, -1]], signs(n // 2))


Q = np.tile(np.float32([0, 0.5, 1, 2]), (2, 16))  # multiples of a 255th of 2 are nearest to these
CALLS = {
    "logsumexp": (lambda: weft.logsumexp(M, 1, where=M > -3), lambda: special.logsumexp(np.where(M > -3, M, -np.inf), 1)),
    "softmax": (lambda: weft.softmax(M, 1, where=M % 2 == 0), lambda: special.softmax(np.where(M % 2 == 0, M, -np.inf), 1)),
    "log_softmax": (lambda: weft.log_softmax(M, 1, where=M % 2 == 0), lambda: special.log_softmax(np.where(M % 2 == 0, M, -np.inf), 1)),
    "addmm": (lambda: weft.addmm(M, M[:, :3], M, 2.0, 0.5), lambda: 0.5 * M + 2 * M[:, :3] @ M),
    "matrix_power": (lambda: weft.matrix_power(M[:, :3] / 4, 5), lambda: np.linalg.matrix_power(M[:, :3] / 4, 5)),
    "inner": lambda m: m.inner(X, M),
    "gather_mm": (lambda: weft.gather_mm(X, np.swapaxes(X, 1, 2), [1, 0, 1], [0, 0, 1]), lambda: X[[1, 0, 1]] @ np.swapaxes(X, 1, 2)[[0, 0, 1]]),
    "block_masked_mm": (lambda: weft.block_masked_mm(M, M.T, 2, mask_lhs=np.array([[True, False], [False, True]])),
                        lambda: (M * np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])) @ M.T),
    "segmented_mm": (lambda: weft.segmented_mm(M, M.T, [[0, 2], [1, 4]]), lambda: np.stack([M[:, :2] @ M.T[:2], M[:, 1:] @ M.T[1:]])),
    "hadamard_transform": (lambda: weft.hadamard_transform(X), lambda: X @ signs(4) / 2),
    "max_pool": (lambda: weft.max_pool(X, 2), lambda: pooled(X, np.max)),
    "mean_pool": (lambda: weft.mean_pool(X, 2), lambda: pooled(X, np.mean)),
    "resize": (lambda: weft.resize(M, 2, 1), lambda: np.repeat(M, 2, 1)),
    "rope": (lambda: weft.rope(X), lambda: turned(X)),
    "view": (lambda: weft.view(X, weft.int16), lambda: X.view(np.int16)),
    "to_f8": (lambda: weft.to_f8([1.0, -0.5, 3e-3]), lambda: np.array([0x38, 0xB0, 2])),
    "from_f8": (lambda: weft.from_f8(np.array([0x38, 0xB0, 2], np.uint8)), lambda: np.array([1, -0.5, 2**-8])),
    "nan_to_num": lambda m: m.nan_to_num(np.array([[1, np.nan], [-np.inf, np.inf]], np.float32), nan=3.0, neginf=-1.0),
    "divmod": (lambda: weft.stack(weft.divmod(M, 3.0)), lambda: np.stack(np.divmod(M, 3.0))),
    "diff": lambda m: m.diff(X, 2, 1),
    "ediff1d": lambda m: m.ediff1d(M, [9.0], [7.0, 8.0]),
    "trapezoid": (lambda: weft.trapezoid(X, M[0] ** 3, axis=-1), lambda: np.trapezoid(X, M[0] ** 3, axis=-1)),
    "interp": lambda m: m.interp(X / 5, M[0], M[1]),
    "convolve": lambda m: m.convolve(M[0], M[1, :3]),
    "correlate": lambda m: m.correlate(M[0], M[1, :3], "full"),
    "rot90": lambda m: m.rot90(X, 3, (0, 2)),
    "meshgrid": lambda m: m.stack(m.meshgrid(M[0], M[1], M[2])),
    "windows": (lambda: weft.windows(X, 2, 1, 1), lambda: slid(X, 2, 1, 1, 1)),
    "window": (lambda: weft.window(X, weft.array(1), 2, axis=-1), lambda: X[..., 1:3]),
    "searchsorted": lambda m: m.searchsorted(m.asarray(np.sort(M, None)), m.asarray(X), "right"),
    "flatnonzero": lambda m: m.flatnonzero(m.asarray(M) > 0),
    "nonzero": lambda m: m.stack(m.nonzero(m.asarray(M) > 0)),
    "bincount": lambda m: m.bincount(m.asarray(np.array([3, 1, 3, 0])), m.asarray(M[0, :4]), 6),
    "digitize": lambda m: m.digitize(m.asarray(X), m.asarray(np.sort(M[0]))),
    "histogram": (lambda: weft.concatenate(weft.histogram(weft.array(X), 7)), lambda: np.concatenate(np.histogram(X, 7))),
    "histogram_bin_edges": lambda m: m.histogram_bin_edges(m.asarray(X), 6, (-1.0, 2.0)),
    "histogram2d": (lambda: weft.histogram2d(M[0], M[1], 3)[0], lambda: np.histogram2d(M[0], M[1], 3)[0]),
    "histogramdd": (lambda: weft.histogramdd(weft.array(M[:, :2]), (2, 3), density=True)[0], lambda: np.histogramdd(M[:, :2], (2, 3), density=True)[0]),
    "unique": lambda m: m.concatenate(m.unique(m.asarray([3, 1, 2, 3, 1]), True, True, True)),
    "topk": (lambda: weft.topk(X, 2, 1), lambda: np.flip(np.sort(X, 1), 1)[:, :2]),
    "argtopk": (lambda: weft.argtopk(X, 2, 1), lambda: np.flip(np.argsort(X, 1, kind="stable"), 1)[:, :2]),
    "partition": (lambda: weft.partition(M, 1).sort(), lambda: np.sort(M)),
    "argpartition": (lambda: weft.take_along_axis(M, weft.argpartition(M, 1), -1)[:, 1], lambda: np.sort(M)[:, 1]),
    "quantile": lambda m: m.quantile(m.asarray(X), 0.3, axis=1),
    "nanquantile": lambda m: m.nanquantile(m.asarray(X), 0.3, axis=1),
    "quantize": (lambda: weft.dequantize(*weft.quantize(Q, 32, 8), 32, 8).round(1), lambda: Q.round(1)),  # test_quantized.py
    "dequantize": (lambda: weft.dequantize(*weft.quantize(Q, 32, 8), 32, 8).round(1), lambda: Q.round(1)),
    "quantized_matmul": (lambda: weft.quantized_matmul(Q, *weft.quantize(Q, 32, 8), group_size=32, bits=8).round(0), lambda: (Q @ Q.T).round(0)),
    "gather_qmm": (lambda: weft.gather_qmm(Q, *weft.quantize(Q, 32, 8), None, [0], group_size=32, bits=8).round(0), lambda: (Q @ Q.T)[None].round(0)),
    "sized": (lambda: weft.sized((weft.array(2), 3)), lambda: np.zeros((2, 3))),
    "conv": (lambda: weft.conv(X, M[:, :2, None] * np.ones(4, np.float32)),
             lambda: np.einsum("ntcj,ojc->nto", slid(X, 2, 1, 1, 1), M[:, :2, None] * np.ones(4))),
    "polygamma": (lambda: weft.polygamma(D % 3, D + 8.5), lambda: special.polygamma(D % 3, D + 8.5)),
    "zeta": (lambda: weft.zeta(D / 2 + 5.25, np.abs(D) + 0.5), lambda: special.zeta(D / 2 + 5.25, np.abs(D) + 0.5)),
    "allclose": lambda m: m.allclose(M, M + 1e-9),
    "arange": lambda m: m.arange(2, 17, 3),
    "array_equal": lambda m: m.array_equal(M, M),
    "as_strided": (lambda: weft.as_strided(M, (3, 2), (1, 2), 1), lambda: np.array([M.ravel()[1 + i:4 + i:2] for i in range(3)])),
    "asarray": lambda m: m.asarray(M),
    "astype": (lambda: weft.astype(weft.asarray(M), weft.int32), lambda: M.astype(np.int32)),  # np.astype: from 2.1 on
    "attention": (lambda: weft.attention(M, M, M, mask="causal"), lambda: attended(M, M, M, np.tri(len(M), dtype=bool))),
    "broadcast_to": lambda m: m.broadcast_to(M[:1], (5, 4)),
    "clip": lambda m: m.clip(M, -2, 3.5),
    "complex": (lambda: weft.complex(M, M[::-1]), lambda: M + 1j * M[::-1]),
    "concatenate": lambda m: m.concatenate([M, M[::-1]], axis=0),
    "dot": lambda m: m.dot(X, M.T),
    "diag": lambda m: m.diag(M[0], -1),
    "diagonal": lambda m: m.diagonal(m.asarray(X), 1, 0, 2),
    "einsum": lambda m: m.einsum("ijk,jk->ki", X, M),
    "expand_dims": lambda m: m.expand_dims(M, 1),
    "eye": lambda m: m.eye(3, 5, 1),
    "flatten": (lambda: weft.flatten(X, 0, 1), lambda: X.reshape(6, 4)),
    "flip": lambda m: m.flip(X, 1),
    "fma": (lambda: weft.fma(M, M, M), lambda: M * M + M),
    "choose": (lambda: weft.choose(weft.array(True), weft.array(M), -weft.array(M)), lambda: M),
    "assert_": (lambda: weft.assert_(weft.array(M), weft.array(M) == M, "never"), lambda: M),
    "depends": (lambda: weft.depends(weft.array(M), [weft.array(M)]), lambda: M),
    "full": lambda m: m.full((2, 3), 2.5),
    "full_like": (lambda: weft.full_like(weft.array(LIKE), 7), lambda: np.full_like(LIKE, 7)),
    "identity": lambda m: m.identity(4),
    "isclose": lambda m: m.isclose(M, M[::-1]),
    "layer_norm": (lambda: weft.layer_norm(M, M[0], M[1]), lambda: normed(M) * M[0] + M[1]),
    "linspace": lambda m: m.linspace(-1, 2, 7),
    "moveaxis": lambda m: m.moveaxis(X, 0, -1),
    "ones": lambda m: m.ones((2, 3)),
    "ones_like": (lambda: weft.ones_like(weft.array(LIKE)), lambda: np.ones_like(LIKE)),
    "pad": lambda m: m.pad(M, ((1, 2), (0, 3)), constant_values=5),
    "positive": lambda m: m.positive(M),
    "repeat": lambda m: m.repeat(M, 3, axis=1),
    "ravel": lambda m: m.ravel(X),
    "reshape": lambda m: m.reshape(X, (4, -1)),
    "rms_norm": (lambda: weft.rms_norm(M, M[0]), lambda: M / np.sqrt((M * M).mean(-1, keepdims=True) + 1e-5) * M[0]),
    "roll": lambda m: m.roll(M, 5, axis=1),
    "round": lambda m: m.round(M / 8, 1),
    "split": (lambda: weft.concatenate(weft.split(X, 2, axis=2)[::-1]), lambda: np.concatenate(np.split(X, 2, axis=2)[::-1])),
    "squeeze": lambda m: m.squeeze(X[:1], 0),
    "stack": lambda m: m.stack([M, M * 2], axis=1),
    "std": lambda m: m.std(X, axis=(0, 2), ddof=1),
    "swapaxes": lambda m: m.swapaxes(X, 0, 2),
    "take": lambda m: m.take(M, np.array([2, 0, -1]), axis=1),
    "put_along_axis": (lambda: weft.put_along_axis(M, np.argmax(M, 1, keepdims=True), 0.5, 1), put_along),
    "take_along_axis": lambda m: m.take_along_axis(m.asarray(M), m.asarray(np.argsort(M, 1)), 1),
    "tensordot": lambda m: m.tensordot(X, M, 2),
    "tile": lambda m: m.tile(M, (2, 1, 3)),
    "transpose": lambda m: m.transpose(X, (1, 2, 0)),
    "tri": lambda m: m.tri(3, 5, 1),
    "trace": lambda m: m.trace(m.asarray(X), 0, 1, 2),
    "tril": lambda m: m.tril(m.asarray(X), -1),
    "triu": lambda m: m.triu(m.asarray(X), 1),
    "var": lambda m: m.var(X, axis=(1, 2)),
    "host": (lambda: weft.host(lambda x: [np.asarray(x) * 2], [X], [(X.shape, X.dtype)])[0], lambda: X * 2),
    "where": lambda m: m.where(M > 0, M, -M),
    "zeros": lambda m: m.zeros((2, 3)),
    "zeros_like": (lambda: weft.zeros_like(weft.array(LIKE)), lambda: np.zeros_like(LIKE)),
    "result_type": (lambda: weft.zeros(1, weft.result_type(weft.int32, weft.float32)), lambda: np.zeros(1, np.float32)),
}

# Names of the array API standard, some of which NumPy has from 2.0 or 2.1 on
SIGNED = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf])
CALLS.update({
    "broadcast_arrays": (lambda: weft.stack(weft.broadcast_arrays(weft.array(M), weft.array(M[:1]))), lambda: np.stack([M, np.broadcast_to(M[:1], M.shape)])),
    "copysign": lambda m: m.copysign(m.asarray(SIGNED), m.asarray(SIGNED[::-1].copy())),
    "count_nonzero": lambda m: m.count_nonzero(m.asarray(np.round(M)), axis=0),
    "cumulative_prod": (lambda: weft.cumulative_prod(weft.array(M), axis=1), lambda: np.cumprod(M, 1)),
    "cumulative_sum": (lambda: weft.cumulative_sum(weft.array(M), axis=0, include_initial=True), lambda: np.concatenate([M[:1] * 0, np.cumsum(M, 0)])),
    "isin": lambda m: m.isin(m.asarray(np.round(M)), m.asarray(np.array([1.0, -1.0]))),
    "permute_dims": (lambda: weft.permute_dims(weft.array(M), (1, 0)), lambda: M.T),
    "matrix_transpose": (lambda: weft.matrix_transpose(weft.array(X)), lambda: np.swapaxes(X, -1, -2)),
    "nextafter": lambda m: m.nextafter(m.asarray(SIGNED), m.asarray(np.ones(6))),
    "signbit": lambda m: m.signbit(m.asarray(SIGNED)),
    "unique_all": (lambda: weft.unique_all(weft.array(np.round(M))).indices, lambda: np.unique(np.round(M), return_index=True)[1]),
    "unique_counts": (lambda: weft.unique_counts(weft.array(np.round(M))).counts, lambda: np.unique(np.round(M), return_counts=True)[1]),
    "unique_inverse": (lambda: weft.unique_inverse(weft.array(np.round(M))).inverse_indices,
                       lambda: np.reshape(np.unique(np.round(M), return_inverse=True)[1], M.shape)),
    "unique_values": (lambda: weft.unique_values(weft.array(np.round(M))), lambda: np.unique(np.round(M))),
    "unstack": (lambda: weft.unstack(weft.array(M), axis=1)[1], lambda: M[:, 1]),
    "vecdot": (lambda: weft.vecdot(weft.array(M), weft.array(M[::-1])), lambda: np.sum(M * M[::-1], -1)),
})

# Special functions where SciPy's are good to 1e-12: test/special.py compares them with mpmath on larger boxes.
SHAPE = np.abs(np.random.default_rng(5).standard_normal((3, 4)) * 3) + 0.3
for _name, *_args in [("beta", SHAPE, SHAPE[::-1]), ("betaln", SHAPE, SHAPE[::-1]), ("gammainc", SHAPE, SHAPE[::-1]),
                      ("gammaincc", SHAPE, SHAPE[::-1]), ("betainc", SHAPE, SHAPE[::-1], SHAPE / 20),
                      ("gammaincinv", SHAPE, SHAPE[::-1] / 20), ("gammainccinv", SHAPE, SHAPE[::-1] / 20),
                      ("betaincinv", SHAPE, SHAPE[::-1], SHAPE / 20), ("owens_t", SHAPE, SHAPE[::-1]),
                      ("hyp2f1", SHAPE, SHAPE[::-1], SHAPE + 1, SHAPE / 20),
                      *((name, SHAPE, SHAPE[::-1]) for name in ("iv", "ive", "jv", "kv", "kve"))]:
    CALLS[_name] = (lambda n=_name, a=_args: getattr(weft, n)(*a), lambda n=_name, a=_args: getattr(special, n)(*a))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_calls_give_what_numpy_gives(name):
    row = CALLS[name]
    mine, theirs = row if isinstance(row, tuple) else (lambda: row(weft), lambda: row(np))
    close(mine(), theirs(), name)


def test_every_function_is_compared():
    assert [n for n in NAMES if n not in CALLS and kind(n) is None] == []
    assert [n for n in CALLS if n not in NAMES] == []
