#!/usr/bin/env python3
"""Special functions of 10^6 doubles beside SciPy's: the ratio of the times, weft on one thread and on two.

    PYTHONPATH=build/release/python bench/special.py [name ..]

Wants SciPy. The times are the least of several, taken in turns."""
import sys
import time

import numpy as np
import scipy.special as scipy
import weft

N = 1_000_000
RNG = np.random.default_rng(1)
X, A, B, P = RNG.uniform(0.1, 30, N), RNG.uniform(0.5, 20, N), RNG.uniform(0.5, 20, N), RNG.uniform(0, 1, N)
WORKS = {"lgamma": (scipy.gammaln, X), "digamma": (scipy.digamma, X), "gamma": (scipy.gamma, X), "ndtri": (scipy.ndtri, P),
         "i0": (scipy.i0, X), "j0": (scipy.j0, X), "gammainc": (scipy.gammainc, A, X), "betainc": (scipy.betainc, A, B, P)}


def once(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def main(names):
    print(f"{'10^6 doubles':14}{'SciPy ms':>10}{'weft ms':>10}{'ratio':>8}{'two threads':>14}{'ratio':>8}")
    for name in names or WORKS:
        theirs, *arrays = WORKS[name]
        mine = weft.compile(getattr(weft, name))
        ours = [weft.array(a) for a in arrays]
        least = [float("inf")] * 3
        for _ in range(5):
            least[0] = min(least[0], once(lambda: theirs(*arrays)))
            for threads in 1, 2:
                weft.set_threads(threads)
                least[threads] = min(least[threads], *[once(lambda: weft.eval(mine(*ours))) for _ in range(2)])
        one, two = least[0] / least[1], least[0] / least[2]
        print(f"{name:14}{least[0] * 1e3:10.1f}{least[1] * 1e3:10.1f}{one:8.1f}{least[2] * 1e3:14.1f}{two:8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
