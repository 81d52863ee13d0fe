"""Operations of mlx.core, one after the other, on weft and on MLX itself: the time of each with its evaluation, and the ratio.

    python bench/mlx/ops.py --both [--only text] [--part K/N] # both in turn; those behind MLX stand last
    PYTHONPATH=build/release/python python -m weft.mlx bench/mlx/ops.py    # on weft

The shortest of many evaluations counts: what is left of a measurement on a machine that has other work."""
import argparse
import json
import subprocess
import sys
import time


def cases():
    """(name, function without arguments)"""
    import mlx.core as mx
    import numpy as np

    rng = np.random.default_rng(0)

    def a(*shape):
        return mx.array(rng.standard_normal(shape).astype(np.float32))

    x, y, p = a(512, 512), a(512, 512), mx.array((rng.random((512, 512)) + 0.1).astype(np.float32))
    h, k = x.astype(mx.bfloat16), mx.array(rng.integers(1, 100, (512, 512)).astype(np.int32))
    rows, at = mx.array(rng.integers(0, 512, 2048).astype(np.int32)), mx.array(rng.integers(0, 512, (512, 512)).astype(np.int32))
    mx.eval(x, y, p, h, k, rows, at)
    for name in ("abs", "negative", "square", "exp", "sin", "cos", "tan", "tanh", "arctan", "sinh", "erf", "sigmoid", "floor", "sign", "expm1",
                 "isnan", "logical_not", "round", "reciprocal"):
        yield name, lambda name=name: getattr(mx, name)(x)
    for name in ("log", "log2", "log1p", "sqrt", "rsqrt", "arcsinh"):
        yield name, lambda name=name: getattr(mx, name)(p)
    for name in ("add", "multiply", "divide", "maximum", "logaddexp", "arctan2", "less", "equal", "floor_divide", "remainder"):
        yield name, lambda name=name: getattr(mx, name)(x, y)
    yield "power", lambda: mx.power(p, y)
    for name in ("add", "multiply", "floor_divide", "remainder", "bitwise_and"):
        yield f"{name} int32", lambda name=name: getattr(mx, name)(k, k)
    yield "add bfloat16", lambda: h + h
    yield "exp bfloat16", lambda: mx.exp(h)
    yield "where", lambda: mx.where(x > 0, x, y)
    yield "clip", lambda: mx.clip(x, -1, 1)
    yield "astype float16", lambda: x.astype(mx.float16)
    for name in ("sum", "mean", "max", "min", "prod", "argmax", "logsumexp", "var", "any"):
        for axis in (None, 0, 1):
            yield f"{name} axis {axis}", lambda name=name, axis=axis: getattr(mx, name)(x, axis=axis)
    for name in ("cumsum", "cumprod", "cummax", "sort", "argsort", "softmax"):
        for axis in (0, 1):
            yield f"{name} axis {axis}", lambda name=name, axis=axis: getattr(mx, name)(x, axis=axis)
    yield "topk", lambda: mx.topk(x, 10, axis=1)
    yield "partition", lambda: mx.partition(x, 100, axis=1)
    yield "transpose", lambda: mx.contiguous(x.T)
    yield "concatenate", lambda: mx.concatenate([x, y], 1)
    yield "stack", lambda: mx.stack([x, y])
    yield "split and add", lambda: sum(mx.split(x, 4, 1))
    yield "pad", lambda: mx.pad(x, 3)
    yield "repeat", lambda: mx.repeat(x, 2, 1)
    yield "tile", lambda: mx.tile(x, (2, 2))
    yield "roll", lambda: mx.roll(x, 7, 1)
    yield "x[:, ::-1]", lambda: mx.contiguous(x[:, ::-1])
    yield "take rows", lambda: x[rows]
    yield "take_along_axis", lambda: mx.take_along_axis(x, at, 1)
    yield "at add", lambda: x.at[rows].add(1.0)
    yield "put_along_axis", lambda: mx.put_along_axis(x, at, y, 1)
    yield "slice update", lambda: mx.slice_update(x, y[:100, :100], mx.array([3, 4]), (0, 1))
    yield "tril", lambda: mx.tril(x)
    yield "arange", lambda: mx.arange(262144.0)
    yield "linspace", lambda: mx.linspace(0, 1, 262144)
    yield "eye", lambda: mx.eye(512) + 0.5
    yield "outer", lambda: mx.outer(x[0], y[0])
    yield "matmul 512", lambda: x @ y
    yield "matmul 512 transposed", lambda: x @ y.T
    yield "matvec 512", lambda: x @ y[0]
    yield "matmul 64 batch 32", lambda q=a(32, 64, 64): q @ q
    yield "matmul bfloat16", lambda: h @ h
    yield "addmm", lambda: mx.addmm(x, x, y, 0.5, 2.0)
    yield "einsum", lambda q=a(8, 64, 64): mx.einsum("bij,bkj->bik", q, q)
    yield "gather_mm", lambda q=a(64, 1, 64), w=a(8, 64, 64), i=mx.arange(64) % 8: mx.gather_mm(q, w, rhs_indices=i)
    yield "conv1d", lambda q=a(4, 256, 32), w=a(32, 3, 32): mx.conv1d(q, w, padding=1)
    yield "conv2d", lambda q=a(4, 32, 32, 16), w=a(16, 3, 3, 16): mx.conv2d(q, w, padding=1)
    yield "conv2d grouped", lambda q=a(4, 32, 32, 16), w=a(16, 3, 3, 1): mx.conv2d(q, w, padding=1, groups=16)
    yield "conv_transpose2d", lambda q=a(2, 16, 16, 16), w=a(16, 3, 3, 16): mx.conv_transpose2d(q, w, 2)
    yield "layer_norm", lambda: mx.fast.layer_norm(x, y[0], y[1], 1e-5)
    yield "rms_norm", lambda: mx.fast.rms_norm(x, y[0], 1e-5)
    q = a(1, 8, 128, 64)
    yield "rope", lambda: mx.fast.rope(q, 64, traditional=False, base=1e4, scale=1.0, offset=0)
    yield "attention", lambda: mx.fast.scaled_dot_product_attention(q, q, q, scale=0.125)
    yield "attention causal", lambda: mx.fast.scaled_dot_product_attention(q, q, q, scale=0.125, mask="causal")
    for bits in (2, 4, 8):
        w = mx.quantize(x, 64, bits)
        mx.eval(w)
        yield f"quantized_matmul {bits} bits, a row", lambda w=w, bits=bits: mx.quantized_matmul(x[:1], *w, group_size=64, bits=bits)
        yield f"quantized_matmul {bits} bits", lambda w=w, bits=bits: mx.quantized_matmul(x, *w, group_size=64, bits=bits)
        yield f"quantize {bits} bits", lambda bits=bits: mx.quantize(x, 64, bits)
        yield f"dequantize {bits} bits", lambda w=w, bits=bits: mx.dequantize(*w, 64, bits)
    key = mx.random.key(3)
    for name in ("uniform", "normal", "gumbel"):
        yield f"random.{name}", lambda name=name: getattr(mx.random, name)(shape=(512, 512), key=key)
    yield "random.bernoulli", lambda: mx.random.bernoulli(0.3, (512, 512), key=key)
    yield "random.categorical", lambda: mx.random.categorical(x, key=key)
    yield "random.permutation", lambda: mx.random.permutation(10000, key=key)
    spd = mx.array(np.eye(128, dtype=np.float32) * 200) + (lambda z: z @ z.T)(a(128, 128))
    mx.eval(spd)
    yield "linalg.inv", lambda: mx.linalg.inv(spd, stream=mx.cpu)
    yield "linalg.cholesky", lambda: mx.linalg.cholesky(spd, stream=mx.cpu)
    yield "linalg.solve", lambda: mx.linalg.solve(spd, x[:128, :4], stream=mx.cpu)
    yield "linalg.norm", lambda: mx.linalg.norm(x, axis=1)
    z, c = a(256, 256), a(256, 256) + 1j * a(256, 256)
    half = c[:, :129]
    mx.eval(z, c, half)
    yield "fft 256 x 256", lambda: mx.fft.fft(z, stream=mx.cpu)
    yield "fft 256 x 256 complex", lambda: mx.fft.fft(c, stream=mx.cpu)
    yield "ifft 256 x 256", lambda: mx.fft.ifft(c, stream=mx.cpu)
    yield "rfft 256 x 256", lambda: mx.fft.rfft(z, stream=mx.cpu)
    yield "irfft 256 x 256", lambda: mx.fft.irfft(half, stream=mx.cpu)
    yield "fft2 256 x 256", lambda: mx.fft.fft2(z, stream=mx.cpu)
    yield "fft 64 x 1024", lambda v=a(64, 1024): mx.fft.fft(v, stream=mx.cpu)
    yield "hadamard_transform", lambda: mx.hadamard_transform(x)
    yield "grad of softmax", lambda f=mx.grad(lambda z: (mx.softmax(z, -1) * y).sum()): f(x)
    yield "grad of a layer", lambda f=mx.grad(lambda z: mx.tanh(x @ z).sum()): f(y)
    yield "vmap", lambda f=mx.vmap(lambda u, v: (u * v).sum() + u): f(x, y)


def measure(only, part="0/1", seconds=0.15):
    """{name: the shortest time of an evaluation, in µs}"""
    import mlx.core as mx

    found, (k, n) = {}, map(int, part.split("/"))
    for number, (name, case) in enumerate(cases()):
        if only not in name or number % n != k:
            continue
        try:
            mx.eval(case())
            best, end = float("inf"), time.perf_counter() + seconds
            while time.perf_counter() < end:
                began = time.perf_counter()
                mx.eval(case())
                best = min(best, time.perf_counter() - began)
            found[name] = best * 1e6
        except Exception as why:  # what one of them has not is no comparison
            print(f"{name}: {type(why).__name__}: {why}", file=sys.stderr)
    return found


def both(only, part, rounds):
    """Both in turn, and the shortest of all rounds."""
    best = {"weft": {}, "MLX": {}}
    for _ in range(rounds):
        for who, prefix in (("weft", ["-m", "weft.mlx"]), ("MLX", [])):
            done = subprocess.run([sys.executable, *prefix, __file__, "--json", "--only", only, "--part", part], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            sys.stderr.write(done.stderr)
            for name, us in json.loads(done.stdout).items():
                best[who][name] = min(us, best[who].get(name, us))
    names = [name for name in best["weft"] if name in best["MLX"]]
    ratio = {name: best["MLX"][name] / best["weft"][name] for name in names}
    print(f"{'µs':36}{'weft':>10}{'MLX':>10}{'MLX : weft':>12}")
    for name in sorted(names, key=lambda name: -ratio[name]):
        print(f"{name:36}{best['weft'][name]:10.1f}{best['MLX'][name]:10.1f}{ratio[name]:12.2f}")
    behind = [name for name in names if ratio[name] < 1]
    print(f"{len(names)} operations, {len(behind)} behind MLX{': ' if behind else ''}{', '.join(behind)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th operation, from the K-th on")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.both:
        return both(arguments.only, arguments.part, arguments.rounds)
    found = measure(arguments.only, arguments.part)
    print(json.dumps(found) if arguments.json else "\n".join(f"{name:36}{us:10.1f}" for name, us in found.items()))


if __name__ == "__main__":
    main()
