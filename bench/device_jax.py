"""Works of bench/device.c by JAX, on the first GPU: a line of JSON each, medians from the host's clock.

    python3 bench/device_jax.py [text ..]    only works whose name contains a text

Several calls are enqueued before they are waited for, so that dispatching one of them is hidden behind the others.
"""
import json
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp
from jax import lax
import numpy as np

rng = np.random.default_rng(7)


def f(*dims, scale=1.0):
    return jnp.asarray(rng.uniform(-scale, scale, dims).astype(np.float32))


def rnn(xs, w, h):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h
    return lax.scan(step, h, xs)[1]


def ar2(e):
    def step(c, y):
        a, b = c
        m = 0.5 * a - 0.3 * b + jnp.tanh(y)
        return (m, a), m
    return lax.scan(step, (e[0], e[0]), e)[1]


def steps(x):
    return lax.while_loop(lambda s: s[0] < 10000, lambda s: (s[0] + 1, s[1] * 0.999 + 0.5), (0, x))[1]


def kalman(z, move, x, p):
    def step(c, z):
        x, p = c
        ahead = x @ move.T
        spread = move @ p @ move.T + 0.1 * jnp.eye(4)
        gain = spread[:, :, :1] / (spread[:, :1, :1] + 0.5)
        x = ahead + gain[:, :, 0] * (z - ahead[:, :1])
        return (x, spread - gain * spread[:, :1, :]), x
    return lax.scan(step, (x, p), z)[1]


def chain(x):
    for _ in range(100):
        x = jnp.sin(x) * 1.01
    return x


def rms(x, w):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def norm(x):
    d = x - x.mean(-1, keepdims=True)
    return d * lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5)


def u(*dims, dtype=jnp.float32):
    return (jax.random.uniform(jax.random.key(7), dims) * 2 - 1).astype(dtype)


def with_nan(*dims):
    x = u(*dims)
    return jnp.where(x > 0.98, jnp.nan, x)


def indices(n, below):
    return jax.random.randint(jax.random.key(9), (n,), 0, below)


def skewed(n, below):
    return jnp.minimum(below * jax.random.uniform(jax.random.key(9), (n,)) ** 4, below - 1).astype(jnp.int32)


def gelu(x, r, s):
    return jax.nn.gelu(x, approximate=True) * s + r


def half(*dims, scale=1.0):
    return f(*dims, scale=scale).astype(jnp.bfloat16)


def attention(q, k, v, is_causal=True):  # [batch, T, heads, d]
    return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal, implementation="cudnn")


def heads():
    return tuple(half(8, 4096, 16, 64) for _ in range(3))


def root_norm(x, g):
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * g


def block(x, g1, w_qkv, w_out, g2, w_up, w_down):
    o = attention(*(t.reshape(8, 1024, 12, 64) for t in jnp.split(root_norm(x, g1) @ w_qkv, 3, -1)))
    x = x + o.reshape(8, 1024, 768) @ w_out
    return x + jax.nn.gelu(root_norm(x, g2) @ w_up, approximate=True) @ w_down


def weights():
    one = jnp.ones(768, jnp.bfloat16)
    w = [half(m, n, scale=0.03) for m, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768))]
    return half(8, 1024, 768), one, w[0], w[1], one, w[2], w[3]


def stencil(x):
    return x[:-2, 1:-1] + x[2:, 1:-1] + (x[1:-1, :-2] + x[1:-1, 2:]) - 4 * x[1:-1, 1:-1]


def volume(x):
    y = x[1:-1, 1:-1, 1:-1]
    rows, columns = x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1], x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:]
    return x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + rows + columns - 6 * y


def adamw(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * g)
    return 0.9999 * p - 1e-3 * m / (jnp.sqrt(abs(v)) + 1e-8), m, v


def entropy(x, i):
    y = x.astype(jnp.float32)
    return (jax.nn.logsumexp(y, 1) - jnp.take_along_axis(y, i[:, None], 1)[:, 0]).mean()


def batch_norm(x):
    d = x - x.mean((0, 2, 3), keepdims=True)
    return d * lax.rsqrt((d * d).mean((0, 2, 3), keepdims=True) + 1e-5)


def convolution(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "OHWI", "NHWC"), precision="highest")


N = 1 << 26
memory = {
    "copy-64M-f32": (jnp.negative, lambda: (u(N),)),
    "fma-64M-f32": (lambda a, b, c: a * b + c, lambda: (u(N), u(N), u(N))),
    "gelu-residual-64M-f32": (gelu, lambda: (u(N), u(N), u(1))),
    "gelu-residual-64M-bf16": (gelu, lambda: tuple(u(n, dtype=jnp.bfloat16) for n in (N, N, 1))),
    "rmsnorm-8192x4096-f32": (rms, lambda: (u(8192, 4096), u(4096))),
    "rmsnorm-grad-8192x4096-f32": (jax.grad(lambda x, w: (rms(x, w) ** 2).sum(), argnums=(0, 1)), lambda: (u(8192, 4096), u(4096))),
    "softmax-8192x4096-f32": (jax.nn.softmax, lambda: (u(8192, 4096),)),
    "softmax-65536x512-f32": (jax.nn.softmax, lambda: (u(65536, 512),)),
    "softmax-2048x16384-f32": (jax.nn.softmax, lambda: (u(2048, 16384),)),
    "softmax-1024x50257-f32": (jax.nn.softmax, lambda: (u(1024, 50257),)),
    "sum-all-64M-f32": (jnp.sum, lambda: (u(N),)),
    "sum-axis0-8192x4096": (lambda x: x.sum(0), lambda: (u(8192, 4096),)),
    "sum-axis1-8192x4096": (lambda x: x.sum(1), lambda: (u(8192, 4096),)),
    "logsumexp-axis0-8192x4096": (lambda x: jax.nn.logsumexp(x, 0), lambda: (u(8192, 4096),)),
    "reverse-mul-64M-f32": (lambda x: 2 * x[::-1], lambda: (u(N),)),
    "transpose-8192x8192-f32": (lambda x: 2 * x.T, lambda: (u(8192, 8192),)),
    "transpose-add-8192x8192-f32": (lambda x, y: x.T + y, lambda: (u(8192, 8192), u(8192, 8192))),
    "strided-128M-f32": (lambda x: 2 * x[::2], lambda: (u(2 * N),)),
    "strided-columns-8192x16384-f32": (lambda x: 2 * x[:, ::2], lambda: (u(8192, 16384),)),
    "stencil-8192x8192-f32": (stencil, lambda: (u(8192, 8192),)),
    "stencil-8192x8192-bf16": (stencil, lambda: (u(8192, 8192, dtype=jnp.bfloat16),)),
    "stencil-400x400x400-f32": (volume, lambda: (u(400, 400, 400),)),
    "differences-64M-f32": (lambda x: x[1:] - x[:-1], lambda: (u(N),)),
    "by-heads-8x4096x16x64-bf16": (lambda x: 2 * x.swapaxes(1, 2), lambda: (u(8, 4096, 16, 64, dtype=jnp.bfloat16),)),
    "joined-8192x4096-f32": (lambda x, y: jnp.concatenate((x, y), 1), lambda: (u(8192, 4096), u(8192, 4096))),
    "sum-axis1-8192x8192-bf16": (lambda x: x.sum(1), lambda: (u(8192, 8192, dtype=jnp.bfloat16),)),
    "sum-axis1-8192x8193-bf16": (lambda x: x.sum(1), lambda: (u(8192, 8193, dtype=jnp.bfloat16),)),
    "max-axis1-8192x8192-bf16": (lambda x: x.max(1), lambda: (u(8192, 8192, dtype=jnp.bfloat16),)),
    "argmax-8192x8192-f32": (lambda x: x.argmax(1), lambda: (u(8192, 8192),)),
    "batch-norm-32x64x112x112-f32": (batch_norm, lambda: (u(32, 64, 112, 112),)),
    "adamw-64M-f32": (adamw, lambda: (u(N), u(N), u(N), u(N))),
    "cross-entropy-8192x50257-bf16": (entropy, lambda: (u(8192, 50257, dtype=jnp.bfloat16), indices(8192, 50257))),
    "cross-entropy-grad-8192x50257-bf16": (jax.grad(entropy), lambda: (u(8192, 50257, dtype=jnp.bfloat16), indices(8192, 50257))),
    "conv-32x56x56x64-3x3-f32": (convolution, lambda: (u(32, 56, 56, 64), u(64, 3, 3, 64))),
    "conv-32x56x56x64-3x3-bf16": (convolution, lambda: (u(32, 56, 56, 64, dtype=jnp.bfloat16), u(64, 3, 3, 64, dtype=jnp.bfloat16))),
    "matmul-1x8192x8192-bf16": (jnp.matmul, lambda: (u(1, 8192, dtype=jnp.bfloat16), u(8192, 8192, dtype=jnp.bfloat16))),
    "matmul-8x8192x8192-bf16": (jnp.matmul, lambda: (u(8, 8192, dtype=jnp.bfloat16), u(8192, 8192, dtype=jnp.bfloat16))),
    "softmax-axis0-8192x4096-f32": (lambda x: jax.nn.softmax(x, 0), lambda: (u(8192, 4096),)),
    "softmax-393216x64-f32": (jax.nn.softmax, lambda: (u(393216, 64),)),
    "argmax-axis0-8192x4096-f32": (lambda x: x.argmax(0), lambda: (u(8192, 4096),)),
    "cumsum-axis0-8192x4096-f32": (lambda x: x.cumsum(0), lambda: (u(8192, 4096),)),
    "max-pool-32x64x112x112-f32": (lambda x: x.reshape(32, 64, 56, 2, 56, 2).max((3, 5)), lambda: (u(32, 64, 112, 112),)),
    "batch-norm-32x112x112x64-f32": (lambda x: (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5), lambda: (u(32, 112, 112, 64),)),
    "query-8x16x1x64-of-2048-bf16": (lambda q, k: jax.nn.softmax(q @ k.mT * 0.125, -1) @ k,
                                     lambda: (u(8, 16, 1, 64, dtype=jnp.bfloat16), u(8, 16, 2048, 64, dtype=jnp.bfloat16))),
    "matmul-65536x8x8-f32": (lambda a, b: jnp.matmul(a, b, precision="highest"), lambda: (u(65536, 8, 8), u(65536, 8, 8))),
    "scatter-add-16M-into-1024": (lambda b, i, v: b.at[i].add(v), lambda: (u(1024), indices(1 << 24, 1024), u(1 << 24))),
    "scatter-add-16M-nan-into-1024": (lambda b, i, v: b.at[i].add(v), lambda: (u(1024), indices(1 << 24, 1024), with_nan(1 << 24))),
    "scatter-add-16M-into-1048576": (lambda b, i, v: b.at[i].add(v), lambda: (u(1 << 20), indices(1 << 24, 1 << 20), u(1 << 24))),
    "scatter-prod-16M-into-1048576": (lambda b, i, v: b.at[i].multiply(v), lambda: (u(1 << 20), indices(1 << 24, 1 << 20), u(1 << 24))),
    "scatter-add-65536x768-into-1000": (lambda b, i, v: b.at[i].add(v), lambda: (u(1000, 768), indices(65536, 1000), u(65536, 768))),
    "scatter-add-65536x768-skewed-into-50257": (lambda b, i, v: b.at[i].add(v), lambda: (u(50257, 768), skewed(65536, 50257), u(65536, 768))),
    "gather-65536x768": (lambda e, i: e[i], lambda: (u(50257, 768), indices(65536, 50257))),
    "gather-16M-of-1M-f32": (lambda e, i: e[i], lambda: (u(1 << 20), indices(1 << 24, 1 << 20))),
    "cumsum-16M-f32": (lambda x: x.cumsum(), lambda: (u(1 << 24),)),
    "cumsum-rows-4096x4096": (lambda x: x.cumsum(1), lambda: (u(4096, 4096),)),
    "uniform-64M-f32": (lambda x: jax.random.uniform(jax.random.key(3), x.shape), lambda: (u(N),)),
    "normal-64M-f32": (lambda x: jax.random.normal(jax.random.key(3), x.shape), lambda: (u(N),)),
    "layernorm-8192x4096-bf16": (norm, lambda: (u(8192, 4096, dtype=jnp.bfloat16),)),
    "cast-64M-f32-bf16": (lambda x: x.astype(jnp.bfloat16), lambda: (u(N),)),
    "cast-64M-bf16-f32": (lambda x: x.astype(jnp.float32), lambda: (u(N, dtype=jnp.bfloat16),)),
}
works = {name: (work, operands, 50) for name, (work, operands) in memory.items()} | {
    "chain200-1k-f32": (chain, lambda: (f(1024),), 200),
    "tiny-calls-1k-f32": (jnp.negative, lambda: (f(1024),), 1000),
    "rnn-scan-T1000-B64-H64": (rnn, lambda: (f(1000, 64, 64), f(64, 64, scale=0.1), f(64, 64, scale=0.1)), 3),
    "rnn-scan-grad-T1000-B64-H64": (jax.grad(lambda xs, w, h: (rnn(xs, w, h) ** 2).sum(), argnums=1),
                                    lambda: (f(1000, 64, 64), f(64, 64, scale=0.1), f(64, 64, scale=0.1)), 3),
    "ar2-scan-T10000-N256": (ar2, lambda: (f(10000, 256),), 2),
    "ar2-scan-grad-T10000-N256": (jax.grad(lambda e: (ar2(e) ** 2).sum()), lambda: (f(10000, 256),), 1),
    "while-10000-N256": (steps, lambda: (f(256),), 2),
    "kalman-T1000-N4-B256": (kalman, lambda: (f(1000, 256, 1), f(4, 4, scale=0.1), f(256, 4), f(256, 4, 4, scale=0.1)), 3),
    "attention-8x16x4096x64-bf16": (lambda q, k, v: attention(q, k, v, False), heads, 5),
    "attention-causal-8x16x4096x64-bf16": (attention, heads, 5),
    "attention-grad-8x16x4096x64-bf16": (lambda q, k, v, dy: jax.vjp(attention, q, k, v)[1](dy),
                                         lambda: heads() + (half(8, 4096, 16, 64),), 5),
    "block-8x1024x768-bf16": (block, weights, 10),
    "block-grad-8x1024x768-bf16": (jax.grad(lambda *x: (block(*x).astype(jnp.float32) ** 2).mean(), argnums=(1, 2, 3, 4, 5, 6)),
                                   weights, 10),
}

for name, (work, operands, repeats) in works.items():
    if len(sys.argv) > 1 and not any(text in name for text in sys.argv[1:]):
        continue
    x, g = operands(), jax.jit(work)
    begin = time.perf_counter()
    jax.block_until_ready(g(*x))
    first, times = time.perf_counter() - begin, []
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready([g(*x) for _ in range(repeats)])
        times.append((time.perf_counter() - begin) / repeats)
    print(json.dumps({"work": name, "system": "jax", "ms": round(1e3 * sorted(times)[2], 4), "first_ms": round(1e3 * first, 1)}), flush=True)
