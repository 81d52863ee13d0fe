"""What is measured. A work is a function of a system and arrays; a system that lacks something it needs is left out."""
import numpy as np

try:
    from numba import prange
except ImportError:
    prange = range

N = 16 << 20
_random = np.random.default_rng(0)
_kept = {}


class Work:
    def __init__(self, name, inputs, function, dtype="f32", numexpr=None, numba=None, pytensor=False, unless=(), group="", tolerance=None, fast=False, held=0):
        self.name, self.inputs, self.function, self.dtype, self.group = name, inputs, function, dtype, group
        self.numexpr, self.numba, self.pytensor, self.unless = numexpr, numba, pytensor, unless
        self.fast = fast  # systems that keep to the rounding of the program may leave it
        self.held = held  # so many of the last inputs never change: they are constants of the function
        self.tolerance = tolerance or {"f32": 2e-3, "f64": 1e-9, "bf16": 5e-2, "i8": 0}[dtype]

    def on(self, system, arrays):
        """The function to call, and with which of the system's arrays. AttributeError: it lacks something."""
        n = len(arrays) - self.held
        return self._of(system, arrays[n:]), arrays[:n]

    def _of(self, system, held):
        if system.name in self.unless:
            raise AttributeError("left out")
        if system.name == "numexpr":
            if not self.numexpr:
                raise AttributeError("expression")
            return system.expression(self.numexpr)
        if system.name == "Numba":
            if not self.numba:
                raise AttributeError("loop")
            return system.loop(self.numba)
        if system.name == "PyTensor" and not self.pytensor:
            raise AttributeError("not marked")
        function = lambda *a: self.function(system, *a, *held)
        return (system.compiled_fast if self.fast else system.compiled)(function)


def normal(*shape):
    if shape not in _kept:
        _kept[shape] = _random.standard_normal(shape, dtype=np.float32)
    return _kept[shape]


def positive(*shape):
    return np.abs(normal(*shape)) + np.float32(0.1)


def indices(n, below):
    return _random.integers(0, below, n, dtype=np.int32)


def small_integers(*shape):
    return _random.integers(-100, 100, shape).astype(np.int8)


def integers(n):
    return _random.integers(-(1 << 62), 1 << 62, n)


def forget():
    _kept.clear()


# ---- loops for Numba


def _muladd(a, b, c):
    y = np.empty_like(a)
    for i in prange(a.size):
        y[i] = a[i] * b[i] + c[i]
    return y


def _gelu(x, r):
    y = np.empty_like(x)
    for i in prange(x.size):
        v = x[i]
        y[i] = r[i] + np.float32(0.5) * v * (np.float32(1) + np.tanh(np.float32(0.7978845608028654) * (v + np.float32(0.044715) * v * v * v)))
    return y


def _ar(e):
    y = np.empty_like(e)
    for j in prange(e.shape[1]):
        a = np.float32(0)
        b = np.float32(0)
        for t in range(e.shape[0]):
            v = np.float32(0.5) * a - np.float32(0.2) * b + e[t, j]
            b = a
            a = v
            y[t, j] = v
    return y


# ---- programs


def chain(s, x):
    for i in range(200):
        x = x * 0.5 + (i % 7) * 0.25
    return x


def mlp_loss(s, x, y, w1, w2, w3):
    h = s.tanh(s.tanh(x @ w1) @ w2) @ w3 - y
    return s.sum(h * h) / 640


def logp(s, x, mu, log_sigma):
    z = (x - mu) / s.exp(log_sigma)
    return s.sum(-0.5 * z * z - log_sigma - 0.9189385332046727) - 0.5 * s.sum(mu * mu)


def block(s, x, wq, wk, wv, wo, w1, w2, g1, g2):
    """A transformer block with one head, forward."""
    h = s.rms_norm(x, g1)
    q, k, v = h @ wq, h @ wk, h @ wv
    x = x + s.softmax(q @ k.T * 0.125) @ v @ wo
    h = s.rms_norm(x, g2) @ w1
    return x + s.gelu(h) @ w2


WIDTH, HEADS, LAYERS = 384, 12, 6


def encoder(s, x, *weights):
    """Layers of attention and two products, with norms behind them; 16 weights each."""
    batch, tokens = x.shape[:2]
    split = lambda y: y.reshape(batch, tokens, HEADS, WIDTH // HEADS).swapaxes(1, 2)
    for i in range(0, len(weights), 16):
        wq, wk, wv, wo, w1, w2, bq, bk, bv, bo, b1, b2, g1, h1, g2, h2 = weights[i:i + 16]
        q, k, v = split(x @ wq + bq), split(x @ wk + bk), split(x @ wv + bv)
        y = s.softmax((q @ k.swapaxes(2, 3)) * (WIDTH // HEADS) ** -0.5) @ v
        x = s.layer_norm(x + (y.swapaxes(1, 2).reshape(batch, tokens, WIDTH) @ wo + bo), g1, h1)
        x = s.layer_norm(x + (s.gelu(x @ w1 + b1) @ w2 + b2), g2, h2)
    return x


def encoder_inputs(batch, tokens, layers):
    w, wide = WIDTH, 4 * WIDTH
    matrices = [(w, w)] * 4 + [(w, wide), (wide, w)]
    vectors = [w] * 4 + [wide] + [w] * 5
    one = lambda: [_random.standard_normal(n, dtype=np.float32) / 16 for n in matrices + vectors]
    return [normal(batch, tokens, w)] + [x for _ in range(layers) for x in one()]


def decoder(s, x, *rest):
    """One token after those whose keys and values are held; 18 arrays a layer."""
    split = lambda y: y.reshape(1, 1, HEADS, WIDTH // HEADS).swapaxes(1, 2)
    for i in range(0, len(rest), 18):
        k, v, wq, wk, wv, wo, w1, w2, bq, bk, bv, bo, b1, b2, g1, h1, g2, h2 = rest[i:i + 18]
        y = s.layer_norm(x, g1, h1)
        q, k, v = split(y @ wq + bq), s.join(k, split(y @ wk + bk), 2), s.join(v, split(y @ wv + bv), 2)
        y = s.softmax((q @ k.swapaxes(2, 3)) * (WIDTH // HEADS) ** -0.5) @ v
        x = x + (y.swapaxes(1, 2).reshape(1, 1, WIDTH) @ wo + bo)
        x = x + (s.gelu(s.layer_norm(x, g2, h2) @ w1 + b1) @ w2 + b2)
    return x


def decoder_inputs(past, layers):
    weights = encoder_inputs(1, 1, layers)[1:]
    cache = lambda: [normal(1, HEADS, past, WIDTH // HEADS)] * 2
    return [normal(1, 1, WIDTH)] + [x for i in range(layers) for x in cache() + weights[16 * i:16 * i + 16]]


def ar(s, e):
    zero = s.zeros((e.shape[1],))

    def step(c, x):
        one, two = c
        y = 0.5 * one - 0.2 * two + x
        return (y, one), y
    return s.scan(step, (zero, zero), e)


def ar_gradient(s, e):
    def loss(v):
        y = ar(s, v)
        return s.sum(y * y)
    return s.grad(loss, 0)(e)


def rnn(s, x, w, u):
    def step(h, row):
        h = s.tanh(row @ w + h @ u)
        return h, h
    return s.scan(step, s.zeros((x.shape[1], u.shape[0])), x)


def rnn_gradient(s, x, w, u):
    return s.grad(lambda w, u: s.sum(rnn(s, x, w, u)), (0, 1))(w, u)


def kalman(s, y, a, c, q):
    """Log likelihoods of a scalar observed through a state of 4: mean [4,1], covariance [4,4]."""
    def step(state, seen):
        mean, cov = state
        mean, cov = a @ mean, a @ cov @ a.T + q
        gain = cov @ c.T
        scale = c @ gain + 0.1
        off = seen - c @ mean
        return (mean + gain * (off / scale), cov - gain @ gain.T / scale), s.log(scale) + off * off / scale
    return s.scan(step, (s.zeros((4, 1)), q * 10), y)


def decay(x):
    return x * 0.999 + 0.001


def until_far(s, x):
    """The steps are counted and compared."""
    return s.loop(lambda c: c[0] < 10000, lambda c: (c[0] + 1, decay(c[1])), (x[0] * 0, x))[1]


def oscillator(s, x, v):
    """x'' = 2 (1 - x^2) x' - x up to time 200: Heun with Euler inside, as large a step as the error allows."""
    def slope(x, v):
        return v, 2 * (1 - x * x) * v - x

    def step(c):
        t, h, x, v = c
        dx, dv = slope(x, v)
        ex, ev = slope(x + h * dx, v + h * dv)
        error = 0.5 * h * s.maximum(abs(ex - dx), abs(ev - dv)) / 1e-3 + 1e-6
        is_good = error < 1
        h_next = h * s.minimum(s.maximum(0.9 / s.sqrt(error), 0.3), 3.0)
        return (s.where(is_good, t + h, t), h_next, s.where(is_good, x + 0.5 * h * (dx + ex), x),
                s.where(is_good, v + 0.5 * h * (dv + ev), v))
    x, v = x[0], v[0]
    return s.loop(lambda c: c[0] < 200, step, (x * 0, x * 0 + 0.01, x, v))[2]


def norm_gradient(norm, n):
    return lambda s, x, g, *w: s.grad(lambda *a: s.sum(getattr(s, norm)(*a) * g), tuple(range(n)))(x, *w)


PROGRAMS = {
    "AR(2) scan 1000x256": (ar, lambda: [normal(1000, 256)]),
    "AR(2) scan gradient 1000x256": (ar_gradient, lambda: [normal(1000, 256)]),
    "RNN scan gradient 20x64x64": (rnn_gradient, lambda: [normal(20, 64, 64), normal(64, 64) / 8, normal(64, 64).T / 8]),
    "RNN scan gradient 100x64x64": (rnn_gradient, lambda: [normal(100, 64, 64), normal(64, 64) / 8, normal(64, 64).T / 8]),
    "Newton's root by while": (lambda s, x: s.loop(lambda c: s.maximum(c * c - x, x - c * c) > 1e-3, lambda c: 0.5 * (c + x / c), x), lambda: [positive(1)[0] + 2]),
    "10-op logp and gradient": (lambda s, *a: s.grad(lambda *b: logp(s, *b), (1, 2))(*a), lambda: [normal(1000), normal(1), normal(1) * 0.1]),
    "MLP step 64x128x128x10": (lambda s, x, y, *w: [p - 0.1 * d for p, d in zip(w, s.grad(lambda *p: mlp_loss(s, x, y, *p), (0, 1, 2))(*w))],
                               lambda: [normal(64, 128), normal(64, 10), normal(128, 128) / 11, normal(128, 128) / 11, normal(128, 10) / 11]),
    "transformer block 64x64": (block, lambda: [normal(64, 64)] + [normal(64, 64) / 8] * 4 + [normal(64, 256) / 8, normal(256, 64) / 16, positive(64), positive(64)]),
}


def definite(n, k):
    m = normal(n, k, k)
    return m @ m.swapaxes(1, 2) + np.eye(k, dtype=np.float32)


def codes(n, k):
    """Any words are codes of 4 bits; with scales and biases of groups of 64."""
    words = _random.integers(0, 1 << 32, (n, k // 8), dtype=np.uint32)
    return [("u32", words), normal(n, k // 64) / 64, normal(n, k // 64) / 64]


def ordered(quick):
    n, few = (1 << 16, 1 << 14) if quick else (4 << 20, 1 << 20)
    yield Work(f"sort {n}", lambda: [normal(n)], lambda s, x: s.sort(x), group="order")
    yield Work(f"argsort {n}", lambda: [normal(n)], lambda s, x: s.argsort(x), group="order", tolerance=n)  # equal ones in any order
    yield Work(f"sort {n} i64", lambda: [("i64", integers(n))], lambda s, x: s.sort(x), group="order")
    yield Work(f"sort {n // 16} rows of 16", lambda: [normal(n // 16, 16)], lambda s, x: s.sort(x), group="order")
    yield Work(f"median {few}", lambda: [normal(few)], lambda s, x: s.median(x), group="order")
    yield Work(f"100 largest of {few}", lambda: [normal(few)], lambda s, x: s.largest(x, 100), group="order")


ANY = float("inf")  # what is drawn differs


def random(quick):
    n, few = (1 << 16, 1 << 14) if quick else (4 << 20, 1 << 20)
    for name, count in (("normal", n), ("uniform", n), ("permutation", few)):
        yield Work(f"{name} {count}", lambda: [("u32", np.array([0, 1], np.uint32))],
                   lambda s, key, name=name, count=count: s.draw(name, key, count), group="random", tolerance=ANY)


def selected(quick):
    n, few = (1 << 16, 1 << 14) if quick else (N, 4 << 20)
    yield Work(f"x[mask] {n}", lambda: [normal(n), ("bool", normal(n) > 0)], lambda s, x, m: s.select(x, m), group="order")
    yield Work(f"histogram of {few}, 100 bins", lambda: [normal(few)], lambda s, x: s.histogram(x, 100, -4, 4), group="order", tolerance=1)


def convolutions(quick):
    """[batch, channels, side, side] by [outputs, channels of a group, k, k]."""
    layers = [(64, 64, 56, 3, 1, 1), (128, 256, 28, 3, 2, 1), (512, 512, 7, 3, 1, 1), (96, 96, 56, 7, 1, 96)]
    for batch in (1,) if quick else (8, 1):
        for c, o, side, k, stride, groups in layers:
            to = f"{c}" if groups > 1 else f"{c} to {o}"
            yield Work(f"conv2d {batch} of {to}, {side}^2, {k}x{k}/{stride}" + ", depthwise" * (groups > 1),
                       lambda b=batch, c=c, o=o, n=side, k=k, g=groups: [normal(b, c, n, n), normal(o, c // g, k, k) / 16],
                       lambda s, x, w, stride=stride, k=k, g=groups: s.conv2d(x, w, stride, k // 2, g), group="convolutions",
                       tolerance=2e-2, unless=("MLX",))  # MLX: a second or more


def systems(quick):
    n, size = (1000, 512) if quick else (10**5, 4096)
    yield Work(f"{n} Cholesky solves 4x4", lambda: [definite(n, 4), normal(n, 4, 1)], lambda s, a, b: s.cholesky_solve(a, b),
               group="systems", tolerance=2e-2)
    for m in (1, 64):
        yield Work(f"{m}x{size} by {size}^2 of 4 bits", lambda m=m: [normal(m, size)] + codes(size, size),
                   lambda s, x, *c: s.quantized(x, *c), group="systems", tolerance=2e-2)


def products(quick):
    big, long = (256, 512) if quick else (1024, 4096)
    product = lambda s, a, b: a @ b
    sizes = [(16,) * 3, (64,) * 3, (256,) * 3, (2 * big,) * 3, (long, long, 1), (1, long, long), (long, 8, long), (8, long, long)]
    for m, k, n in sizes:
        name = f"{m}^3" if m == k == n else f"{m}x{k} by {k}x{n}"
        yield Work(f"matmul {name}", lambda m=m, k=k, n=n: [normal(m, k), positive(k, n)], product, group="products", tolerance=2e-2)
    square = lambda: [normal(big, big), positive(big, big)]
    yield Work(f"matmul {big}^3 bf16", square, product, "bf16", group="products", tolerance=1)
    yield Work(f"matmul {big}^3 bf16, the machine's order", square, product, "bf16", group="products", tolerance=1, fast=True)
    yield Work(f"matmul {big}^3 int8", lambda: [small_integers(big, big)] * 2, lambda s, a, b: s.wide_matmul(a, b), "i8", group="products")
    yield Work(f"{big}^3 + bias, gelu, residual", lambda: square() + [normal(big), normal(big, big)],
               lambda s, a, b, c, r: s.gelu(a @ b + c) + r, group="products", tolerance=2e-2)
    yield Work(f"matmul {big}^3 bare", square, product, group="products", tolerance=2e-2)
    yield Work(f"attention 8x{big}x64, causal", lambda: [normal(8, big, 64), positive(8, big, 64), normal(8, big, 64) * 2],
               lambda s, q, k, v: s.attention(q, k, v), group="products")


def networks(quick):
    layers = 1 if quick else LAYERS
    for batch, tokens in ((8, 14), (64, 84)):
        for is_held in (False, True):
            yield Work(f"encoder of {layers}, {batch}x{tokens} tokens" + ", weights held" * is_held,
                       lambda b=batch, t=tokens: encoder_inputs(b, t, layers), encoder, group="networks", tolerance=2e-2,
                       held=16 * layers * is_held, unless=("MLX",) if tokens > 14 else ())  # MLX: seconds
    yield Work(f"decoder of {layers}, one token after 512", lambda: decoder_inputs(512, layers), decoder, group="networks", tolerance=2e-2)


def works(quick):
    """All of them; quick: on small arrays."""
    n = N >> 8 if quick else N
    rows, short = ((256, 256), (1024, 64)) if quick else ((4096, 4096), (262144, 64))
    size = f"{n >> 20}M" if n >> 20 else f"{n >> 10}k"
    slow = ("torch", "PyTensor")  # a Python loop, or minutes
    gelu = "b + 0.5*a*(1 + tanh(0.7978845608028654*(a + 0.044715*a*a*a)))"
    yield Work(f"a*b+c {size}", lambda: [normal(n), positive(n), normal(n) * 2], lambda s, a, b, c: a * b + c, group="elements",
               numexpr="a*b + c", numba=_muladd, pytensor=True)
    yield Work(f"gelu+residual {size}", lambda: [normal(n), positive(n)], lambda s, x, r: r + s.gelu(x), group="elements",
               numexpr=gelu, numba=_gelu, pytensor=True)
    for name in ("exp", "tanh", "log", "sigmoid", "sin", "erf"):
        text = f"{name}(a)" if name in ("exp", "tanh", "log", "sin") else None
        yield Work(f"{name} {size}", lambda: [positive(n)], lambda s, x, name=name: getattr(s, name)(x), group="elements", numexpr=text)
    for r, c in (rows, short):
        at = f"{r}x{c}"
        yield Work(f"softmax {at}", lambda r=r, c=c: [normal(r, c)], lambda s, x: s.softmax(x), group="rows", pytensor=c == 64)
        yield Work(f"rms_norm {at}", lambda r=r, c=c: [normal(r, c), positive(c)], lambda s, x, w: s.rms_norm(x, w), group="rows")
        yield Work(f"layer_norm {at}", lambda r=r, c=c: [normal(r, c), positive(c), normal(c)], lambda s, x, w, b: s.layer_norm(x, w, b),
                   group="rows")
        yield Work(f"rms_norm gradient {at}", lambda r=r, c=c: [normal(r, c), positive(r, c), positive(c)], norm_gradient("rms_norm", 2),
                   group="gradients", tolerance=2e-2, pytensor=c == 64)
        yield Work(f"layer_norm gradient {at}", lambda r=r, c=c: [normal(r, c), positive(r, c), positive(c), normal(c)],
                   norm_gradient("layer_norm", 3), group="gradients", tolerance=2e-2)
    for r, c in ((short[0] * 2, 32), (short[0] * 8, 8)):
        yield Work(f"softmax {r}x{c}", lambda r=r, c=c: [normal(r, c)], lambda s, x: s.softmax(x), group="rows")
    matrix = lambda: [normal(*rows)]
    yield Work("logsumexp axis 0", matrix, lambda s, x: s.logsumexp(x), group="reductions")
    yield Work("sum all", matrix, lambda s, x: s.sum(x), group="reductions", tolerance=1e-2)
    yield Work("sum axis 0", matrix, lambda s, x: s.sum(x, 0), group="reductions")
    yield Work("sum axis 1", matrix, lambda s, x: s.sum(x, 1), group="reductions")
    yield Work(f"cumsum {size}", lambda: [normal(n)], lambda s, x: s.cumsum(x), group="reductions", tolerance=1e-1)
    yield Work("2*x[::-1]", lambda: [normal(n)], lambda s, x: 2 * s.reverse(x), group="layouts")
    yield Work("2*x[::3]", lambda: [normal(n)], lambda s, x: 2 * x[::3], group="layouts")
    yield Work("x + x.T", matrix, lambda s, x: x + x.T, group="layouts")
    few = n // 4
    yield Work(f"gather {size} / 4", lambda: [normal(n), ("i32", indices(few, n))], lambda s, x, i: s.take(x, i), group="indices")
    yield Work("scatter-add, 1024 slots", lambda: [np.zeros(1024, np.float32), ("i32", indices(few, 1024)), normal(few)],
               lambda s, z, i, u: s.add_at(z, i, u), group="indices", tolerance=1e-2)
    yield Work("scatter-add, spread", lambda: [np.zeros(n, np.float32), ("i32", indices(few, n)), normal(few)],
               lambda s, z, i, u: s.add_at(z, i, u), group="indices")
    for dtype in ("f64", "bf16"):
        yield Work(f"a*b+c {size} {dtype}", lambda: [normal(n), positive(n), normal(n) * 2], lambda s, a, b, c: a * b + c, dtype, group="dtypes")
        yield Work(f"softmax {rows[0]}x{rows[1]} {dtype}", matrix, lambda s, x: s.softmax(x), dtype, group="dtypes")
        yield Work(f"rms_norm {rows[0]}x{rows[1]} {dtype}", lambda: [normal(*rows), positive(rows[1])], lambda s, x, w: s.rms_norm(x, w), dtype,
                   group="dtypes")
    yield from products(quick)
    yield from networks(quick)
    yield from random(quick)
    yield from ordered(quick)
    yield from selected(quick)
    yield from convolutions(quick)
    yield from systems(quick)
    program, inputs = PROGRAMS["MLP step 64x128x128x10"]
    yield Work("MLP step 64x128x128x10", inputs, program, group="programs")
    yield Work("200 chained ops on 1k", lambda: [normal(1024)], chain, group="programs")
    yield Work("x+1 on one element", lambda: [normal(1)], lambda s, x: x + 1, group="programs")
    steps, width = (200, 256) if quick else (10000, 256)
    yield Work(f"AR(2) scan {steps}x{width}", lambda: [normal(steps, width)], ar, group="loops", numba=_ar, pytensor=True, unless=("torch",))
    yield Work(f"AR(2) scan gradient {steps}x{width}", lambda: [normal(steps, width)],
               ar_gradient, group="loops", pytensor=not quick, unless=("torch",))
    yield Work(f"Kalman filter {steps}, state of 4",
               lambda: [normal(steps, 1, 1), normal(4, 4) / 5, normal(1, 4), np.eye(4, dtype=np.float32)], kalman, group="loops",
               pytensor=not quick, unless=("torch",))
    weights = [normal(64, 64) / 8, normal(64, 64).T / 8]
    steps = 20 if quick else 1000
    yield Work(f"RNN scan {steps}x64x64", lambda: [normal(steps, 64, 64)] + weights, rnn, group="loops", pytensor=not quick)
    yield Work(f"RNN scan gradient {steps}x64x64", lambda: [normal(steps, 64, 64)] + weights, rnn_gradient, group="loops", tolerance=2e-2,
               pytensor=not quick, unless=("torch",))
    yield Work("10000 steps on 256", lambda: [normal(256)], lambda s, x: s.repeat(10000, decay, x), group="loops", pytensor=not quick)
    steps = 10**4 if quick else 10**6
    yield Work(f"{steps} steps on a number", lambda: [normal(1)], lambda s, x: s.repeat(steps, decay, x), group="loops", pytensor=not quick)
    yield Work("while, 10000 steps on 256", lambda: [normal(256)], until_far, group="loops", pytensor=not quick)
    for name, fast in (("oscillator, adaptive steps", False), ("oscillator, fast rewrites", True)):
        yield Work(name, lambda: [positive(1), positive(1)], oscillator, group="loops", tolerance=1e-1, fast=fast,
                   pytensor=not quick and not fast)
