"""Loops and small works of bench/device.c by JAX, on the first GPU: a line of JSON each, medians from the host's clock.

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


works = {
    "chain200-1k-f32": (chain, lambda: (f(1024),), 200),
    "tiny-calls-1k-f32": (jnp.negative, lambda: (f(1024),), 1000),
    "rnn-scan-T1000-B64-H64": (rnn, lambda: (f(1000, 64, 64), f(64, 64, scale=0.1), f(64, 64, scale=0.1)), 3),
    "rnn-scan-grad-T1000-B64-H64": (jax.grad(lambda xs, w, h: (rnn(xs, w, h) ** 2).sum(), argnums=1),
                                    lambda: (f(1000, 64, 64), f(64, 64, scale=0.1), f(64, 64, scale=0.1)), 3),
    "ar2-scan-T10000-N256": (ar2, lambda: (f(10000, 256),), 2),
    "ar2-scan-grad-T10000-N256": (jax.grad(lambda e: (ar2(e) ** 2).sum()), lambda: (f(10000, 256),), 1),
    "while-10000-N256": (steps, lambda: (f(256),), 2),
    "kalman-T1000-N4-B256": (kalman, lambda: (f(1000, 256, 1), f(4, 4, scale=0.1), f(256, 4), f(256, 4, 4, scale=0.1)), 3),
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
