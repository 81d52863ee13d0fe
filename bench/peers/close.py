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
# what was measured to be in the way of an aim that is missed
BOUNDS = {
    "decoder": "since this row keys and values are read where they are and weights are asked for ahead: builds in turns, 3.17 ms of a processor and 3.89 before. Its 52 MB take {read_ms:.1f} ms at what the machine reads, but more than half stand in arrays below 2 MiB, in pages of 4 KiB: products as these read them at 20 GB/s on one thread, at 29 in huge pages",
    "encoder of 6, 64x84": "products at the rate of 2048^3, {product_rate:.0f} GFLOP/s, would take {product_ms:.0f} ms of it; 1.5 leaves 50 ms for all that is no product. On one thread (below) nine tenths of its time are patches, softmax 2.8 %, packing 3.3 (now less), GELU 2.0, norms 1.1; the peak of fma, 117 GFLOP/s, would be 1009 ms and 1.50 of torch.compile with nothing else done",
    "100 largest": "the row varied by 31 %: in time of the processor 3.5 of JAX (below)",
    "conv2d 1 of 512": "weights were copied before they were packed; since they are packed where they are, 1.12 of torch in time of the processor (below)",
    "conv2d 1 of 128": "in time of the processor 1.04 of torch (below)",
    "conv2d 1 of 64": "in time of the processor 0.94 of torch, ±7 % (below); in windows of 2026-11-18, which were not quiet, 0.92 (±39 %), 0.64 (±45 %) and 1.05 (±11 %)",
    "conv2d": "{operations:.3g} GFLOP, at {rate:.0f} GFLOP/s, 2048^3 has {product_rate:.0f}; time of the processor below",
}
# what the rows of convolutions do not say
CONVOLUTIONS = [
    "Convolutions and the permutation by the clock of two quiet cores on 2026-11-18, all systems in one run: eight images of 64 to 64 10.1 ms, 0.92 of torch (±37 %, whose rounds differ so",
    "much), 0.91 of torch.compile; 128 to 256 5.2 ms, 1.24 of JAX; 512 to 512 9.9 ms, 0.81 of torch (±27 %), 0.94 of torch.compile; depthwise 1.53 ms, 1.70 of torch (±37 %), 3.09 of",
    "torch.compile; of one image 1.30 ms, 1.51 of JAX and 1.81 of torch; 0.70, 1.76 and 1.78; 2.27, 2.43 and 1.47; depthwise 0.20, 2.81 of torch; permutation 4.6 ms, 1.21 of torch. Encoder of",
    "64x84 tokens 1.38 of JAX, decoder 1.86 ms, 1.79 of NumPy, 28 of the 34 GB/s that can be read: twice as fast as NumPy would be 31. On one thread of this machine fma reach 113 GFLOP/s, weft's",
    "products 103 to 106 (2048^3, torch 92). Eight images of 64 to 64 are 17.9 ms of products at that rate, torch takes 18.2 for all of it and weft 22.4: to turn channels and pad takes two",
    "passes, 1.9 ms, and the products by two of the three rows of the kernel are stored before they are added (one image takes 2.3 ms, eight times that would be 18.7). 512 to 512 of 7² are",
    "18.0 ms of products at weft's rate. torch takes 16.1 for all, 115 GFLOP/s if it made every product, more than fma reach: a fifth of them are with zeros around the image, and weft makes",
    "those. Depthwise 7x7 of one image is 0.26 ms of multiplications alone on one thread, torch takes 0.46: twice as fast as that is beyond one thread; weft takes 0.37.",
]
MET = 0.95  # of an aim: nobody can tell it from the noise


def bound(row, rows, read):
    text = entry(BOUNDS, row.name)
    rate = next((OPERATIONS["matmul 2048^3"] * 1e3 / r.median("weft") for r in rows if r.name == "matmul 2048^3"), 0)
    moved, operations = entry(MEGABYTES, row.name) or 0, entry(OPERATIONS, row.name) or 0
    return (text or why(row)).format(read_ms=moved / read, product_rate=rate, product_ms=operations * 1e3 / rate if rate else 0,
                                     operations=operations, rate=operations * 1e3 / row.median("weft"))


def aims(rows, read):
    """What works are held to, and where that is missed what is in the way."""
    out = ["", "## Aims", "", "How many times as fast as the best of its peers a work is to be, and is; where it is not, what was measured to be in the way.",
           "Less than a twentieth below an aim counts as met.", "", "| work | aim | is | missed for |", "|---|---|---|---|"]
    for row in rows:
        aim = entry(AIMS, row.name)
        peers = [n for n in row.ms if n != "weft" and (not aim or not aim[1] or n in aim[1])]
        if aim and peers:
            ratio, name = min((row.ratio(n)[0], n) for n in peers)
            out.append(f"| {row.name} | {aim[0]} | {report.figure(ratio)} of {name} | {'' if ratio >= MET * aim[0] else bound(row, rows, read)} |")
    out += ["", *CONVOLUTIONS]
    row = next((r for r in rows if r.name == "1x4096 by 4096^2 of 4 bits"), None)
    if not row:
        return out
    rate = MEGABYTES[row.name] / row.median("weft")
    return out + ["", f"A vector by 4096² weights of 4 bits reads {rate:.0f} GB/s, {rate / read:.2f} of what can be read; four fifths are wanted. It waits for the multipliers:",
                  "16 weights are a shift, a lookup, a product with their scale, a sum with their bias and an fma, each rounded as it is for weights that are",
                  "stored, and half a shuffle that brings rows to lanes. On Zen 4 these five alone, from registers, take 3.0 cycles; all of it 4.1 from the",
                  "second cache, which is 0.57 ms on two threads before anything is read from memory. Three other ways were measured, of the same bits: `q s` by",
                  "one fma of a sum that has `q` in its lowest bits (4.2 cycles as a ternary operation, 3.8 by an and), and four words turned at a time while",
                  "those before are multiplied (3.9). llama.cpp's kernel for such a product (`ggml_vec_dot_q4_0_q8_0` of the wheel gpt4all 2.8.2, 2026-11-18) takes 0.66 ms of",
                  "one thread for all rows, 14 GB/s, where weft takes 1.4 to 1.7: it rounds the vector to 8 bits and adds integers. weft multiplies floats, with the bits of weights that were",
                  "dequantised before."]


def table(rows, read, threads):
    near = [(row, best(row)) for row in rows]
    near = [(row, found) for row, found in near if found]
    if not near:
        return "\n".join(aims(rows, read)[1:])
    out = ["## Where a peer is close", "", f"Works in which a peer takes less than {NEAR} times weft's time, MLX less than {NEAR_MLX} times, and what weft",
           f"waits for. {threads} threads read {read:.0f} GB/s here; `bench/limits` has kernels by hand beside weft's, and `bench/contract` what",
           "the multipliers of the machine can do.", "", "| work | nearest | waits for |", "|---|---|---|"]
    out += [f"| {row.name} | {name} {report.figure(ratio)} | {why(row)} |" for row, (ratio, name) in near]
    return "\n".join(out + aims(rows, read))
