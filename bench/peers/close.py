"""Rows in which a peer is close to weft: what weft waits for there, with the count that shows it."""
import statistics
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from . import measure, report, works

NEAR, NEAR_MLX = 2, 10

# by the beginning of a work's name: megabytes that must be moved, thousand million additions and products, or what else it waits for
MEGABYTES = {"a*b+c 16M f64": 536.9, "a*b+c 16M bf16": 134.2, "a*b+c 16M": 268.4, "sum ": 67.1, "2*x[::-1]": 134.2, "2*x[::3]": 89.5,
             "cumsum": 134.2, "log 16M": 134.2, "tanh 16M": 134.2, "sin 16M": 134.2, "matmul 4096x4096 by": 67.1,
             "matmul 1x4096": 67.1, "matmul 8x4096": 67.1, "1x4096 by 4096^2 of 4 bits": 10.5,
             "100 largest": 4.2, "sort 262144 rows of 16": 33.6, "decoder of 6": 51.9}  # weights 42.5, what is cached 9.4
OPERATIONS = {"matmul 64^3": 0.000524, "matmul 256^3": 0.0336, "matmul 2048^3": 17.18, "matmul 1024^3 bf16": 2.147,
              "matmul 1024^3 int8": 2.147, "matmul 1024^3 bare": 2.147, "1024^3 + bias": 2.147, "MLP step": 0.0068,
              "conv2d 8 of 64 ": 1.85, "conv2d 8 of 128 ": 0.925, "conv2d 8 of 512 ": 1.85, "conv2d 8 of 96,": 0.236, "conv2d 1 of 64 ": 0.231,
              "conv2d 1 of 128 ": 0.116, "conv2d 1 of 512 ": 0.231, "conv2d 1 of 96,": 0.0295, "64x4096 by 4096^2 of 4 bits": 2.147,
              "encoder of 6, 8x14": 2.4, "encoder of 6, 64x84": 118}
REASONS = {
    "gather": "4.2 million elements, each in a line of 64 bytes of its own: 268 MB of lines besides 34 of indices and results",
    "scatter-add, 1024": "6.6 instructions an update, 1.6 of them to check its index; by hand 8, unchecked",
    "scatter-add, spread": "4.2 million elements, each a line that is read and written: 537 MB, and 134 for the copy",
    "matmul 16^3": "a call from Python: from C it takes 0.7 µs (`bench/contract`)",
    "x+1": "a call from Python: from C it takes 0.45 µs (`bench/calls`)",
    "oscillator, adaptive": "one chain of operations, 67 cycles a step, each rounded as it is written. JAX computes `x * y + z` with "
                            "one rounding and `x / 1e-3` as a product; the next row is weft with `rewrites=\"fast\"`, which does so too",
    "normal": "threefry, of whose two words an element is one, so that draws depend on their places alone, and the inverse of erf in f32",
    "uniform": "threefry, of whose two words an element is one, so that draws depend on their places alone",
    "permutation": "a stable sort by random words, the permutation that MLX has for the key; torch and NumPy swap elements one after the other",
    "logsumexp": "35 instructions for 8 elements of AVX2, most of them the exponential",
}


def bandwidth(threads):
    """GB/s that so many threads read from memory at once."""
    parts = np.array_split(works.normal(4 * works.N), threads)
    with ThreadPoolExecutor(threads) as pool:
        times = measure.turns({"read": lambda: list(pool.map(lambda x: x.sum(), parts))}, 0.3)["read"]
    works.forget()
    return sum(x.nbytes for x in parts) / 1e9 / statistics.median(times)


def best(row):
    """The peer that is nearest, if one is too near for our liking."""
    near = [(row.ratio(n)[0], n) for n in row.ms if n != "weft" and row.ratio(n)[0] < (NEAR_MLX if n == "MLX" else NEAR)]
    return min(near) if near else None


def entry(table, name):
    return next((v for k, v in table.items() if name.startswith(k)), None)


def why(row):
    ms = row.median("weft")
    moved, operations = entry(MEGABYTES, row.name), entry(OPERATIONS, row.name)
    if moved:
        return f"{moved:.0f} MB are moved, at {moved / ms:.0f} GB/s"
    if operations:
        return f"{operations:.3g} GFLOP, at {operations * 1e3 / ms:.0f} GFLOP/s"
    return entry(REASONS, row.name) or ""


# by the beginning of a work's name: how many times as fast as the best of these systems it is to be; no systems: of all
COMPILERS = ("JAX", "torch", "torch.compile")
AIMS = {"normal": (2, ()), "uniform": (2, ()), "permutation": (1, ()), "sort 4194304": (1.3, ("NumPy",)), "argsort 4194304": (1.3, ("NumPy",)),
        "100 largest": (2, ()), "median": (1.5, ()), "x[mask]": (1.5, ()), "histogram": (2, ()), "conv2d 8 of 96": (2, ("torch", "torch.compile")),
        "conv2d 1 of 96": (2, ("torch", "torch.compile")), "conv2d": (1, ("torch", "torch.compile")), "100000 Cholesky": (10, ()),
        "64x4096 by 4096^2 of 4 bits": (1, ()), "encoder of 6, 8x14": (1.5, COMPILERS), "encoder of 6, 64x84": (1.5, COMPILERS), "decoder": (2, ())}
MET = 0.95  # of an aim: nobody can tell it from the noise


def aims(rows):
    """What works are held to; where that is missed what they wait for, of which the page says more."""
    out = ["| work | aim | is | missed: waits for |", "|---|---|---|---|"]
    for row in rows:
        aim = entry(AIMS, row.name)
        peers = [n for n in row.ms if n != "weft" and (not aim or not aim[1] or n in aim[1])]
        if aim and peers:
            ratio, name = min((row.ratio(n)[0], n) for n in peers)
            out.append(f"| {row.name} | {aim[0]} | {report.figure(ratio)} of {name} | {'' if ratio >= MET * aim[0] else why(row)} |")
    return "\n".join(out)


def table(rows):
    near = [(row, best(row)) for row in rows]
    out = ["| work | nearest | waits for |", "|---|---|---|"]
    return "\n".join(out + [f"| {row.name} | {found[1]} {report.figure(found[0])} | {why(row)} |" for row, found in near if found])
