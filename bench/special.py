#!/usr/bin/env python3
"""Special functions of 10^6 doubles beside SciPy's: the ratio of the times, weft on one thread, in time of the processor, and on two, by
the clock.

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


def once(f, clock=time.perf_counter):
    start = clock()
    f()
    return clock() - start


def main(names):
    print(f"{'10^6 doubles':14}{'SciPy ms':>10}{'weft ms':>10}{'ratio':>8}{'two threads':>14}{'ratio':>8}")
    for name in names or WORKS:
        theirs, *arrays = WORKS[name]
        mine = weft.compile(getattr(weft, name))
        ours = [weft.array(a) for a in arrays]
        scipys, one, wall, two = [], [], [], []
        for _ in range(5):
            start = time.perf_counter()
            scipys.append(once(lambda: theirs(*arrays), time.process_time))
            wall.append(time.perf_counter() - start)
            weft.set_threads(1)
            one += [once(lambda: weft.eval(mine(*ours)), time.process_time) for _ in range(2)]
            weft.set_threads(2)
            two += [once(lambda: weft.eval(mine(*ours))) for _ in range(2)]
        theirs_ms, one_ms, two_ms = 1e3 * min(scipys), 1e3 * min(one), 1e3 * min(two)
        print(f"{name:14}{theirs_ms:10.1f}{one_ms:10.1f}{theirs_ms / one_ms:8.1f}{two_ms:14.1f}{1e3 * min(wall) / two_ms:8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
