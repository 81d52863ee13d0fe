"""Results of functions of mlx.core on weft and on MLX itself, of the same random arguments: which differ.

    PYTHONPATH=build/release/python python bench/mlx/same.py --both

Beyond 2e-4 of a number, or where one refuses what the other computes, it is said. Draws are compared too: the streams are the same."""
import argparse
import itertools
import json
import subprocess
import sys


def cases():
    """(name, function without arguments)"""
    import mlx.core as mx
    import numpy as np

    rng = np.random.default_rng(0)

    def a(*shape):
        return mx.array(rng.standard_normal(shape).astype(np.float32))

    for stride, pad, dilation, groups in itertools.product((1, 2), (0, 1), (1, 2), (1, 2)):
        how = f"stride {stride}, padding {pad}, dilation {dilation}, groups {groups}"
        for rank, shape, kernel in ((1, (9,), (3,)), (2, (8, 9), (3, 2))):
            x, w = a(2, *shape, 4), a(6, *kernel, 4 // groups)
            yield f"conv{rank}d {how}", lambda: getattr(mx, f"conv{rank}d")(x, w, stride, pad, dilation, groups)
            yield f"conv_transpose{rank}d {how}", lambda: getattr(mx, f"conv_transpose{rank}d")(x, w, stride, pad, dilation, 0, groups)
    for mode, (n, m) in itertools.product(("full", "same", "valid"), ((7, 3), (3, 7), (5, 4))):
        x, w = a(n), a(m)
        yield f"convolve {mode} {n} {m}", lambda: mx.convolve(x, w, mode)
    x, y = a(4, 5), a(4, 5)
    i, j = (mx.array(rng.integers(low, 9, (4, 5)).astype(np.int32)) for low in (-9, 1))
    for name in ("abs", "square", "exp", "sin", "tan", "arctan", "sinh", "tanh", "erf", "sigmoid", "floor", "sign", "expm1", "degrees"):
        yield name, lambda: getattr(mx, name)(x)
    for name in ("add", "divide", "remainder", "floor_divide", "maximum", "logaddexp", "arctan2", "less", "power"):
        yield name, lambda: getattr(mx, name)(x, y)
        if name != "logaddexp" and name != "arctan2":
            yield f"{name} of integers", lambda: getattr(mx, name)(i, j)
    for name, axis in itertools.product(("sum", "prod", "mean", "max", "argmin", "logsumexp", "var", "median", "cumsum", "cummax"), (None, 0, -1)):
        yield f"{name} {axis}", lambda: getattr(mx, name)(x, axis=axis)
    for name, n in itertools.product(("hanning", "hamming", "blackman", "bartlett"), (0, 1, 2, 7)):
        yield f"{name} {n}", lambda: getattr(mx, name)(n)
    for seed in (0, 7):
        key = mx.random.key(seed)
        yield f"uniform {seed}", lambda: mx.random.uniform(-1, 3, (5,), key=key)
        yield f"normal {seed}", lambda: mx.random.normal((5,), loc=1, scale=2, key=key)
        yield f"randint {seed}", lambda: mx.random.randint(0, 100, (7,), key=key)
        yield f"bernoulli {seed}", lambda: mx.random.bernoulli(0.3, (9,), key=key)
        yield f"truncated_normal {seed}", lambda: mx.random.truncated_normal(-1, 2, (5,), key=key)
        yield f"gumbel {seed}", lambda: mx.random.gumbel((5,), key=key)
        yield f"categorical {seed}", lambda: mx.random.categorical(x, key=key)
        yield f"categorical, samples {seed}", lambda: mx.random.categorical(x, num_samples=3, key=key)
        yield f"permutation {seed}", lambda: mx.random.permutation(9, key=key)
    q, k = a(2, 8, 6, 16), a(2, 4, 9, 16)
    yield "attention", lambda: mx.fast.scaled_dot_product_attention(q, k, k, scale=0.2, mask="causal")
    yield "attention, sinks", lambda: mx.fast.scaled_dot_product_attention(q, k, k, scale=0.2, sinks=mx.arange(8.0))
    for traditional in (True, False):
        yield f"rope {traditional}", lambda: mx.fast.rope(q, 8, traditional=traditional, base=1e4, scale=0.5, offset=3)
    for mode, bits in [("affine", bits) for bits in (2, 3, 4, 5, 6, 8)] + [(mode, None) for mode in ("mxfp4", "mxfp8", "nvfp4")]:
        w = a(8, 128)
        packed = mx.quantize(w, bits=bits, mode=mode)
        yield f"quantize {mode} {bits}", lambda: mx.concatenate([part.astype(mx.float32).flatten() for part in packed])
        yield f"dequantize {mode} {bits}", lambda: mx.dequantize(*packed, bits=bits, mode=mode).astype(mx.float32)


def results():
    import numpy as np

    found = []
    for name, function in cases():
        try:
            found.append((name, np.array(function()).astype(np.float64).ravel().tolist()))
        except Exception as why:
            found.append((name, type(why).__name__))
    return found


def is_same(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(abs(x - y) <= 2e-5 + 2e-4 * abs(y) or x == y or x != x and y != y for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--both", action="store_true")
    if not parser.parse_args().both:
        return print(json.dumps(results()))
    found = []
    for prefix in (["-m", "weft.mlx"], []):
        done = subprocess.run([sys.executable, *prefix, __file__], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout))
    differ = [(name, a, b) for (name, a), (_, b) in zip(*found) if not is_same(a, b)]
    for name, a, b in differ:
        print(name, a if isinstance(a, str) else a[:4], b if isinstance(b, str) else b[:4])
    print(f"{len(found[0])} results, {len(differ)} differ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
