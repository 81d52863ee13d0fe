"""The systems under one set of names, so that a work is written once.

A system offers functions of arrays (exp, sum, softmax, ..), and
    array(a, dtype)      from NumPy, ready
    numpy(x)             back, as float64
    compiled(f)          f as its users would make it fast; the result may still be lazy
    wait(x)              until it is computed
What it lacks is an AttributeError, and the work is left out for it.
"""
import os

ELEMENTWISE = ("exp", "log", "tanh", "sin", "sqrt", "maximum", "minimum", "where")


class System:
    compiles = False     # the first call costs a compilation

    def compiled(self, f):
        return f

    def compiled_fast(self, f):
        return self.compiled(f)

    def wait(self, x):
        return x

    def sum(self, x, axis=None):
        return x.sum(axis)

    def mean(self, x):
        return x.mean(-1, keepdims=True)

    def gelu(self, x):
        return 0.5 * x * (1 + self.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def rms_norm(self, x, w):
        return x * self.rsqrt(self.mean(x * x) + 1e-5) * w

    def layer_norm(self, x, w, b):
        d = x - self.mean(x)
        return d * self.rsqrt(self.mean(d * d) + 1e-5) * w + b

    wide_matmul = None   # of int8, the sums in int32
    attention = None     # causal, of [heads, length, width]
    sort = argsort = median = None       # of a row
    largest = None       # the k largest of a row, in order
    cholesky_solve = None                # x of a x = b, by Cholesky
    draw = None          # so many of a distribution by its name: normal, uniform, permutation
    select = None        # x where a mask holds
    histogram = None     # counts between low and high
    conv2d = None        # [n, c, h, w] by [o, c / groups, k, k]
    join = None          # two arrays along an axis
    quantized = None     # x by the transpose of words, scales and biases of 4 bits in groups of 64


class Indexed(System):
    """Arrays are indexed as NumPy's are."""

    def reverse(self, x):
        return x[::-1]

    def take(self, x, i):
        return x[i]

    def add_at(self, z, i, u):
        return z.at[i].add(u)


def _steps(stack, step, init, xs):
    """A scan as a loop of Python."""
    out, c = [], init
    for x in xs:
        c, y = step(c, x)
        out.append(y)
    return stack(out)


class Numpy(Indexed):
    name = "NumPy"

    def __init__(self, threads):
        import numpy as np
        self.np, self.version = np, np.__version__
        for name in ELEMENTWISE:
            setattr(self, name, getattr(np, name))
        try:
            from scipy.special import erf
            self.erf = erf
        except ImportError:
            pass

    def array(self, a, dtype):
        if dtype == "bf16":
            raise AttributeError("bf16")
        return self.np.ascontiguousarray(a.astype({"f32": "float32", "f64": "float64", "i32": "int32", "u32": "uint32", "i8": "int8", "i64": "int64", "bool": "bool"}[dtype]))

    def numpy(self, x):
        return self.np.asarray(x, dtype="float64")

    def rsqrt(self, x):
        return 1 / self.np.sqrt(x)

    def sigmoid(self, x):
        return 1 / (1 + self.np.exp(-x))

    def softmax(self, x):
        e = self.np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def logsumexp(self, x):
        m = x.max(0)
        return m + self.np.log(self.np.exp(x - m).sum(0))

    def cumsum(self, x):
        return x.cumsum(dtype=x.dtype)

    def add_at(self, z, i, u):
        z = z.copy()
        self.np.add.at(z, i, u)
        return z

    def scan(self, step, init, xs):
        return _steps(self.np.stack, step, init, xs)

    def repeat(self, n, step, x):
        for _ in range(n):
            x = step(x)
        return x

    def loop(self, cond, step, c):
        while cond(c):
            c = step(c)
        return c

    def zeros(self, shape):
        return self.np.zeros(shape, "float32")

    def sort(self, x):
        return self.np.sort(x)

    def argsort(self, x):
        return self.np.argsort(x)

    def median(self, x):
        return self.np.median(x)

    def largest(self, x, k):
        return self.np.sort(self.np.partition(x, x.size - k)[-k:])

    def draw(self, name, key, n):
        draw = self.np.random.default_rng(0)
        return draw.permutation(n) if name == "permutation" else {"normal": draw.standard_normal, "uniform": draw.random}[name](n, dtype="float32")

    def select(self, x, m):
        return x[m]

    def histogram(self, x, n, low, high):
        return self.np.histogram(x, n, (low, high))[0]

    def join(self, x, y, axis):
        return self.np.concatenate([x, y], axis)

    def cholesky_solve(self, a, b):  # by LU: it has no triangular systems, and two solves by LU are slower
        return self.np.linalg.solve(a, b)


class Speaks(Indexed):
    """A module with the names of mlx.core."""
    compiles = True

    def speak(self, module):
        self.m, self.version = module, getattr(module, "__version__", "")
        for name in ELEMENTWISE + ("rsqrt", "sigmoid", "erf"):
            setattr(self, name, getattr(module, name))

    def array(self, a, dtype):
        m = self.m
        return self.wait(m.array(a).astype({"f32": m.float32, "f64": m.float64, "bf16": m.bfloat16, "i32": m.int32, "u32": m.uint32,
                                              "i8": m.int8, "i64": m.int64, "bool": m.bool_}[dtype]))

    def compiled(self, f):
        return self.m.compile(f)

    def wait(self, x):
        self.m.eval(x)
        return x

    def softmax(self, x):
        return self.m.softmax(x, -1)

    def logsumexp(self, x):
        return self.m.logsumexp(x, 0)

    def cumsum(self, x):
        return self.m.cumsum(x, 0)

    def grad(self, f, of):
        return self.m.grad(f, of)

    def zeros(self, shape):
        return self.m.zeros(shape)

    def join(self, x, y, axis):
        return self.m.concatenate([x, y], axis)


class Weft(Speaks):
    name = "weft"

    def __init__(self, threads):
        import weft
        self.speak(weft)
        weft.set_threads(threads)

    def numpy(self, x):
        import numpy
        return numpy.asarray(x.astype(self.m.float64))

    def compiled_fast(self, f):
        """Rounded as is fastest: rewrites that save roundings, and halves summed in the machine's order."""
        compiled = self.m.compile(f, rewrites="fast")

        def call(*a):
            before = self.m.set_halves(True)
            try:
                return self.wait(compiled(*a))
            finally:
                self.m.set_halves(before)
        return call

    def rms_norm(self, x, w):
        return self.m.rms_norm(x, w, 1e-5)

    def layer_norm(self, x, w, b):
        return self.m.layer_norm(x, w, b, 1e-5)

    def wide_matmul(self, a, b):
        return a @ b

    def attention(self, q, k, v):
        return self.m.attention(q, k, v, mask="causal")

    def sort(self, x):
        return self.m.sort(x)

    def argsort(self, x):
        return self.m.argsort(x)

    def median(self, x):
        return self.m.median(x)

    def largest(self, x, k):
        return self.m.sort(self.m.topk(x, k))

    def cholesky_solve(self, a, b):
        return self.m.linalg.cholesky_solve(self.m.linalg.cholesky(a), b)

    def draw(self, name, key, n):
        random = self.m.random
        return random.permutation(key, n) if name == "permutation" else getattr(random, name)(key, shape=(n,))

    def select(self, x, m):
        return x[m]

    def histogram(self, x, n, low, high):
        return self.m.histogram(x, n, (low, high))[0]

    def conv2d(self, x, w, stride, padding, groups):
        last = lambda y: y.transpose(0, 2, 3, 1)
        return self.m.conv(last(x), last(w), stride=stride, padding=padding, groups=groups).transpose(0, 3, 1, 2)

    def quantized(self, x, *codes):
        return self.m.quantized_matmul(x, *codes)

    def scan(self, step, init, xs):
        return self.m.scan(step, init, xs)[1]

    def repeat(self, n, step, x):
        return self.m.scan(lambda c, _: (step(c), ()), x, length=n)[0]

    def loop(self, cond, step, c):
        return self.m.while_loop(cond, step, c)


class Mlx(Speaks):
    name = "MLX"

    def __init__(self, threads):
        import mlx.core as mx
        mx.set_default_device(mx.cpu)
        self.speak(mx)

    def attention(self, q, k, v):
        return self.m.fast.scaled_dot_product_attention(q[None], k[None], v[None], scale=q.shape[-1] ** -0.5, mask="causal")[0]

    def sort(self, x):
        return self.m.sort(x)

    def argsort(self, x):
        return self.m.argsort(x)

    def largest(self, x, k):
        return self.m.sort(self.m.topk(x, k))

    def draw(self, name, key, n):
        random = self.m.random
        return random.permutation(n, key=key) if name == "permutation" else getattr(random, name)(shape=(n,), key=key)

    def quantized(self, x, *codes):
        return self.m.quantized_matmul(x, *codes)

    def numpy(self, x):
        import numpy
        return numpy.array(x.astype(self.m.float32) if x.dtype == self.m.bfloat16 else x, dtype="float64")


class Jax(Indexed):
    name = "JAX"
    compiles = True

    def __init__(self, threads):
        import jax
        jax.config.update("jax_enable_x64", True)  # as weak numbers stay weak, f32 stays f32
        jax.config.update("jax_platforms", "cpu")
        self.jax, self.jnp, self.version = jax, jax.numpy, jax.__version__
        for name in ELEMENTWISE:
            setattr(self, name, getattr(jax.numpy, name))
        self.rsqrt, self.sigmoid, self.erf = jax.lax.rsqrt, jax.nn.sigmoid, jax.scipy.special.erf

    def array(self, a, dtype):
        j = self.jnp
        return j.asarray(a, {"f32": j.float32, "f64": j.float64, "bf16": j.bfloat16, "i32": j.int32, "u32": j.uint32, "i8": j.int8,
                             "i64": j.int64, "bool": j.bool_}[dtype]).block_until_ready()

    def numpy(self, x):
        import numpy
        return numpy.asarray(x).astype("float64")

    def compiled(self, f):
        return self.jax.jit(f)

    def wait(self, x):
        return self.jax.block_until_ready(x)

    def softmax(self, x):
        return self.jax.nn.softmax(x, -1)

    def logsumexp(self, x):
        return self.jax.nn.logsumexp(x, 0)

    def cumsum(self, x):
        return self.jnp.cumsum(x)

    def wide_matmul(self, a, b):
        return self.jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=self.jnp.int32)

    def attention(self, q, k, v):
        q, k, v = (x.transpose(1, 0, 2)[None] for x in (q, k, v))
        return self.jax.nn.dot_product_attention(q, k, v, is_causal=True)[0].transpose(1, 0, 2)

    def sort(self, x):
        return self.jnp.sort(x)

    def argsort(self, x):
        return self.jnp.argsort(x)

    def median(self, x):
        return self.jnp.median(x)

    def largest(self, x, k):
        return self.jnp.sort(self.jax.lax.top_k(x, k)[0])

    def draw(self, name, key, n):
        random, key = self.jax.random, self.jax.random.wrap_key_data(key)
        return random.permutation(key, n) if name == "permutation" else getattr(random, name)(key, (n,), "float32")

    def histogram(self, x, n, low, high):
        return self.jnp.histogram(x, n, (low, high))[0]

    def conv2d(self, x, w, stride, padding, groups):
        return self.jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups)

    def join(self, x, y, axis):
        return self.jnp.concatenate([x, y], axis)

    def cholesky_solve(self, a, b):
        return self.jax.scipy.linalg.cho_solve((self.jnp.linalg.cholesky(a), True), b)

    def grad(self, f, of):
        return self.jax.grad(f, of)

    def scan(self, step, init, xs):
        return self.jax.lax.scan(step, init, xs)[1]

    def repeat(self, n, step, x):
        return self.jax.lax.fori_loop(0, n, lambda _, c: step(c), x)

    def loop(self, cond, step, c):
        return self.jax.lax.while_loop(cond, step, c)

    def zeros(self, shape):
        return self.jnp.zeros(shape, "float32")


class Torch(System):
    name = "torch"

    def __init__(self, threads):
        import torch
        torch.set_num_threads(threads)
        self.torch, self.version = torch, torch.__version__
        for name in ELEMENTWISE + ("rsqrt", "sigmoid", "erf"):
            setattr(self, name, getattr(torch, name))

    def array(self, a, dtype):
        t = self.torch
        return t.tensor(a).to({"f32": t.float32, "f64": t.float64, "bf16": t.bfloat16, "i32": t.int32, "u32": t.uint32, "i8": t.int8,
                               "i64": t.int64, "bool": t.bool}[dtype])

    def numpy(self, x):
        return x.detach().double().numpy()

    def sum(self, x, axis=None):
        return x.sum() if axis is None else x.sum(axis)

    def mean(self, x):
        return x.mean(-1, keepdim=True)

    def softmax(self, x):
        return self.torch.softmax(x, -1)

    def logsumexp(self, x):
        return self.torch.logsumexp(x, 0)

    def cumsum(self, x):
        return x.cumsum(0)

    def reverse(self, x):
        return x.flip(0)

    def take(self, x, i):
        return x[i]

    def add_at(self, z, i, u):
        return z.index_add(0, i, u)

    def wide_matmul(self, a, b):
        return self.torch._int_mm(a, b)

    def attention(self, q, k, v):
        return self.torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]

    def sort(self, x):
        return self.torch.sort(x)[0]

    def argsort(self, x):
        return self.torch.argsort(x)

    def median(self, x):
        return self.torch.quantile(x, 0.5) if x.numel() < 1 << 24 else self.torch.median(x)

    def largest(self, x, k):
        return self.torch.sort(self.torch.topk(x, k)[0])[0]

    def draw(self, name, key, n):
        return {"normal": self.torch.randn, "uniform": self.torch.rand, "permutation": self.torch.randperm}[name](n)

    def select(self, x, m):
        return x[m]

    def histogram(self, x, n, low, high):
        return self.torch.histc(x, n, low, high)

    def conv2d(self, x, w, stride, padding, groups):
        return self.torch.nn.functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    def join(self, x, y, axis):
        return self.torch.cat([x, y], axis)

    def cholesky_solve(self, a, b):
        return self.torch.cholesky_solve(b, self.torch.linalg.cholesky(a))

    def grad(self, f, of):
        numbers = (of,) if isinstance(of, int) else of

        def gradient(*a):
            a = [x.detach().requires_grad_() if k in numbers else x for k, x in enumerate(a)]
            return self.torch.autograd.grad(f(*a), [a[k] for k in numbers])
        return gradient

    def scan(self, step, init, xs):
        return _steps(self.torch.stack, step, init, xs)

    def zeros(self, shape):
        return self.torch.zeros(shape)


class TorchCompile(Torch):
    name = "torch.compile"
    compiles = True
    scan = None          # unrolls loops: compiling ten thousand steps takes longer than anybody waits

    def compiled(self, f):
        self.torch._dynamo.reset()
        return self.torch.compile(f)

    def grad(self, f, of):
        return self.torch.func.grad(f, of)


class Numexpr(System):
    """Only what a work gives as an expression."""
    name = "numexpr"

    def __init__(self, threads):
        import numexpr
        self.numexpr, self.version = numexpr, numexpr.__version__
        numexpr.set_num_threads(threads)

    array, numpy = Numpy.array, Numpy.numpy

    @property
    def np(self):
        import numpy
        return numpy

    def expression(self, text):
        names = "abc"
        return lambda *a: self.numexpr.evaluate(text, dict(zip(names, a)), {})


class Numba(System):
    """Only what a work gives as a loop."""
    name = "Numba"
    compiles = True

    def __init__(self, threads):
        import numba
        self.numba, self.version = numba, numba.__version__
        numba.set_num_threads(threads)

    array, numpy, np = Numpy.array, Numpy.numpy, Numexpr.np

    def loop(self, f):
        return self.numba.njit(parallel=True)(f)


class Pytensor(System):
    """Works marked for it: a compilation takes seconds."""
    name = "PyTensor"
    compiles = True

    def __init__(self, threads):
        os.environ.setdefault("PYTENSOR_FLAGS", f"floatX=float32,cxx={'g++' if _has('g++') else ''}")
        import pytensor
        import pytensor.tensor as pt
        self.pytensor, self.pt, self.version = pytensor, pt, pytensor.__version__
        for name in ELEMENTWISE + ("sigmoid", "erf"):
            setattr(self, name, getattr(pt, name))

    array, numpy, np = Numpy.array, Numpy.numpy, Numexpr.np

    def rsqrt(self, x):
        return 1 / self.pt.sqrt(x)

    def softmax(self, x):
        return self.pt.special.softmax(x, -1)

    def logsumexp(self, x):
        return self.pt.logsumexp(x, 0)

    def cumsum(self, x):
        return self.pt.cumsum(x)

    def grad(self, f, of):
        return lambda *a: self.pytensor.grad(f(*a), [a[k] for k in ((of,) if isinstance(of, int) else of)])

    def scan(self, step, init, xs):
        def body(x, *c):
            new, y = step(tuple(c) if len(c) > 1 else c[0], x)
            return list(new) + [y] if isinstance(new, tuple) else [new, y]
        init = list(init) if isinstance(init, tuple) else [init]
        outs = self.pytensor.scan(body, sequences=[xs], outputs_info=init + [None], return_updates=False)
        return outs[-1]

    def repeat(self, n, step, x):
        return self.pytensor.scan(step, outputs_info=[x], n_steps=n, return_updates=False)[-1]

    def loop(self, cond, step, c):
        from pytensor.scan.utils import until

        def body(*c):
            new = step(c)
            return list(new), until(self.pt.invert(cond(new)))
        outs = self.pytensor.scan(body, outputs_info=list(c), n_steps=10**6, return_updates=False)
        return [out[-1] for out in outs]

    def zeros(self, shape):
        return self.pt.zeros(shape, dtype="float32")

    def compiled(self, f):
        made = []

        def call(*a):
            if not made:
                x = [self.pt.tensor(dtype=str(v.dtype), shape=tuple(1 if n == 1 else None for n in v.shape)) for v in a]
                made.append(self.pytensor.function(x, f(*x), mode="NUMBA"))
            return made[0](*a)
        return call


def _has(program):
    import shutil
    return shutil.which(program) is not None


ALL = [Weft, Numpy, Numexpr, Numba, Mlx, Jax, Torch, TorchCompile, Pytensor]


def available(threads, names=None):
    """Those that can be had, or of these the ones that are named."""
    found = []
    for kind in ALL:
        if names and kind.name not in names:
            continue
        try:
            found.append(kind(threads))
        except Exception as why:
            print(f"{kind.name}: skipped: {type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}", flush=True)
    return found
