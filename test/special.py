#!/usr/bin/env python3
"""How far the special functions are from the truth, which is mpmath's.

    test/special.py [-o docs/special.md] [-n samples] [name ..]

Wants Python with mpmath (gmpy2 makes it ten times faster) and NumPy; `make ulp` and the tests want neither. The values are those of
the kernels themselves, by `ulp -v`: the vm's, and the encoder's for both tiers, which must agree to the bit. Errors of functions of
one number are in units of the last place of the larger of |f| and |x f'|: next to a zero no value is better than its operand.
Errors of functions of several numbers are relative, on the box that is printed. Ends with 1 if a bound is exceeded."""

import math
import os
import subprocess
import sys

import mpmath
import numpy as np
from mpmath import mp, mpf

ULP = os.environ.get("WEFT_ULP", os.path.join(os.path.dirname(__file__), "../build/release/test/ulp"))
mp.prec = 140
RNG = np.random.default_rng(7)


def values(name, dtype, columns):
    rows = np.stack(columns, 1)
    kind = "f32" if dtype == np.float32 else "f64"
    done = subprocess.run([ULP, "-v", kind, name], input=rows.tobytes(), capture_output=True)
    text = done.stderr.decode().strip()
    if done.returncode or not text.endswith("encoded"):
        sys.exit(f"{name} of {kind}: {text or done.returncode}")
    return np.frombuffer(done.stdout, dtype=dtype), int(text.split()[0])


# ---- Where they are asked: n numbers each

def even(low, high):
    return lambda n: RNG.uniform(low, high, n)


def log_even(low, high):
    return lambda n: np.exp(RNG.uniform(math.log(low), math.log(high), n))


def negative(f):
    return lambda n: -f(n)


def beside(points, least=1e-17, most=0.1):
    """around points, at distances of all sizes"""
    def f(n):
        return RNG.choice(points, n) + RNG.choice([-1, 1], n) * log_even(least, most)(n)
    return f


def one_minus(f):
    return lambda n: 1 - f(n)


TINY = log_even(1e-307, 1e-3)
EVERY = [TINY, negative(TINY), log_even(1e-3, 1e3), negative(log_even(1e-3, 1e3)), log_even(1e3, 1e300), negative(log_even(1e3, 1e300))]
UNIT = [even(0, 1), log_even(1e-307, 0.5), one_minus(log_even(1e-16, 0.5)), beside([0.5], 1e-16, 0.3)]
POSITIVE = [TINY, log_even(1e-3, 20), log_even(20, 1e5), log_even(1e5, 1e300)]
POLES = beside(-np.arange(1.0, 30), 1e-15, 0.3)


# ---- The truth

def lgamma(x):
    return mp.inf if x == mp.floor(x) and x <= 0 else mpmath.log(abs(mpmath.gamma(x))) if abs(x) < 1e4 else mpmath.loggamma(x).real


def digamma(x):
    return mpmath.digamma(x)


def ndtr(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_ndtr(x):
    return mpmath.log1p(-ndtr(-x)) if x > 0 else mpmath.log(ndtr(x))


def erfcx(x):
    if x > 1e4:
        z = 1 / (2 * x * x)
        return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (x * mpmath.sqrt(mp.pi))
    with mpmath.workprec(mp.prec + 60):
        return mpmath.exp(x * x) * mpmath.erfc(x)


def erfc_inverse(y):
    """Newton's method on log erfc, from the double's first guess"""
    if not 0 < y < 2:
        raise ValueError
    if y > 1:
        return -erfc_inverse(2 - y)
    if y > mpf("0.25"):
        return mpmath.erfinv(1 - y)
    x = mpmath.sqrt(-mpmath.log(y))
    for _ in range(60):
        e = mpmath.erfc(x)
        d = (mpmath.log(e) - mpmath.log(y)) * e * mpmath.sqrt(mp.pi) / 2 * mpmath.exp(x * x)
        x += d
        if abs(d) < abs(x) * mpf(2) ** -110:
            break
    return x


def sinc(x):
    return mpmath.sincpi(x)


def bessel(f, order, scaled=False):
    def g(x):
        with mpmath.workprec(mp.prec + (max(0, int(mpmath.log(abs(x), 2))) if x else 0)):
            return f(order, x) * (mpmath.exp(-abs(x)) if scaled else 1)
    return g


def log1mexp(x):
    return mpmath.log1p(-mpmath.exp(x)) if x < -1 else mpmath.log(-mpmath.expm1(x))


def logit(x):
    return mpmath.log(x / (1 - x))


# name: truth, bound, where
ONE = {
    "lgamma": (lgamma, 4, POSITIVE + [negative(even(0, 30)), POLES, beside([1, 2], 1e-16, 0.3), negative(log_even(30, 1e6))]),
    "gamma": (mpmath.gamma, 4, [log_even(1e-300, 1e-3), log_even(1e-3, 20), even(0, 171.6), negative(even(0, 30)), POLES,
                                negative(even(30, 177)), negative(log_even(1e-300, 1))]),
    "digamma": (digamma, 4, POSITIVE + [negative(even(0, 30)), POLES, beside([1.4616321449683622], 1e-16, 0.3), negative(log_even(30, 1e6))]),
    "trigamma": (lambda x: mpmath.psi(1, x), 4, [log_even(1e-150, 1e-3)] + POSITIVE[1:] + [negative(even(0, 30)), POLES]),
    "erfcx": (erfcx, 4, [even(-26, 0), even(0, 3), log_even(3, 1e300), TINY, negative(TINY)]),
    "erfcinv": (erfc_inverse, 4, [even(0, 2), log_even(1e-307, 1), beside([1], 1e-16, 0.6), lambda n: 2 - log_even(1e-15, 1)(n)]),
    "ndtr": (ndtr, 4, [even(-38, 0), even(-3, 9), TINY, negative(TINY)]),
    "ndtri": (lambda p: -mpmath.sqrt(2) * erfc_inverse(2 * p), 4, UNIT),
    "log_ndtr": (log_ndtr, 4, [even(-40, 0), even(-3, 3), even(0, 37), TINY, negative(TINY), negative(log_even(40, 1e4))]),
    "log1mexp": (log1mexp, 4, [negative(log_even(1e-307, 1)), negative(even(0, 3)), negative(even(0, 744))]),
    "logit": (logit, 4, UNIT),
    "sinc": (sinc, 4, EVERY[:4] + [beside(np.arange(-9.0, 9), 1e-16, 0.3), even(-1000, 1000)]),
    "i0": (bessel(mpmath.besseli, 0), 4, [even(-15, 15), even(-713, 713), TINY, log_even(1e-3, 30)]),
    "i0e": (bessel(mpmath.besseli, 0, True), 4, [even(-15, 15), even(-713, 713), TINY, log_even(1e-3, 1e5)]),
    "i1": (bessel(mpmath.besseli, 1), 4, [even(-15, 15), even(-713, 713), TINY, log_even(1e-3, 30)]),
    "i1e": (bessel(mpmath.besseli, 1, True), 4, [even(-15, 15), even(-713, 713), TINY, log_even(1e-3, 1e5)]),
    "j0": (bessel(mpmath.besselj, 0), 4, [even(-12, 12), even(-100, 100), TINY, log_even(1e-3, 1e6)]),
    "j1": (bessel(mpmath.besselj, 1), 4, [even(-12, 12), even(-100, 100), TINY, log_even(1e-3, 1e6)]),
}


# name: truth, relative bound, box in words, a sampler of each operand
SHAPE = log_even(0.01, 300)


def beta_truth(a, b):
    return mpmath.exp(mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b))


def zeta(s, q):  # mpmath's error is absolute
    with mpmath.workprec(1200):
        return mpmath.zeta(s, q)


def polygamma(n, x):
    return mpmath.psi(int(n), x)


def gamma_pairs(n):
    a = SHAPE(n)
    return a, a * log_even(0.03, 4)(n)


def separately(*samplers):
    return lambda n: tuple(f(n) for f in samplers)


def betainc(a, b, x):
    with mpmath.workprec(max(mp.prec, 400)):
        return mpmath.betainc(a, b, 0, x, regularized=True)


def gammainc(a, x):
    with mpmath.workprec(max(mp.prec, 400)):
        return mpmath.gammainc(a, 0, x, regularized=True)


def gammaincc(a, x):
    with mpmath.workprec(max(mp.prec, 400)):
        return 1 - gammainc(a, x) if x < a else mpmath.gammainc(a, x, mp.inf, regularized=True)  # at small x the sum is the quick one


def inverse(f, most, is_falling=False):
    """The last operand of f at which its value is p: halves of its exponent, then false position (Illinois), in a bracket throughout"""
    def g(*x):
        *shape, p = x
        with mpmath.workprec(max(mp.prec, 400)):
            def over(at):
                return (f(*shape, at) - p) * (-1 if is_falling else 1)
            low, high = mpf(10) ** -320, mpf(most)
            while high > 2 * low:
                middle = mpmath.sqrt(low * high)
                low, high = (middle, high) if over(middle) < 0 else (low, middle)
            below, above, last = over(low), over(high), 0
            while high - low > high * mpf(2) ** -75 and below < 0 < above:
                middle = (low * above - high * below) / (above - below)
                at = over(middle)
                if at < 0:
                    low, below, above, last = middle, at, above / 2 if last < 0 else above, -1
                else:
                    high, above, below, last = middle, at, below / 2 if last > 0 else below, 1
            return low if below >= 0 else high if above <= 0 else (low + high) / 2
    return g


def by_last(f):
    """|x f'| by the last operand: what its own last place is worth"""
    def g(*x):
        *others, at = x
        step = at * mpf(2) ** -50
        return abs((f(*others, at + step) - f(*others, at - step)) / step * at / 2)
    return g


def bessel_of(f, scaled=0):
    def g(v, x):
        with mpmath.workprec(400):
            return f(v, x) * mpmath.exp(scaled * abs(x))
    return g


def owens_t(h, a):
    if a > 1:
        p, q = ndtr(-h), ndtr(-a * h)
        return (p + q) / 2 - p * q - owens_t(a * h, 1 / a)
    end = min(a, 16 / h)
    part = mpmath.quad(lambda x: mpmath.exp(-(h * x) ** 2 / 2) / (1 + x * x), [0, end / 4, end / 2, end * 3 / 4, end])
    return part * mpmath.exp(-h * h / 2) / (2 * mp.pi)


def slope(f):
    """by the first operand"""
    def g(a, *rest):
        with mpmath.workprec(1800):
            step = a * mpf(2) ** -150
            return (f(a + step, *rest) - f(a - step, *rest)) / (2 * step)
    return g


def UNIT_PART(n):
    return np.where(RNG.uniform(size=n) < 0.5, RNG.uniform(size=n), log_even(1e-9, 1)(n))


# name: truth, bound, box, where; True: of the larger of |f| and |x f'| by the last operand
SEVERAL = {
    "xlogy": (lambda x, y: x * mpmath.log(y), 1e-15, "a, b in [1e-9, 1e9]", separately(log_even(1e-9, 1e9), log_even(1e-9, 1e9))),
    "xlog1py": (lambda x, y: x * mpmath.log1p(y), 1e-15, "a, b in [1e-9, 1e9]", separately(log_even(1e-9, 1e9), log_even(1e-9, 1e9))),
    "zeta": (zeta, 1e-14, "a - 1 in [1e-6, 100], b in [0.01, 1000]", separately(lambda n: 1 + log_even(1e-6, 100)(n), log_even(0.01, 1000))),
    "polygamma": (polygamma, 1e-14, "a = 1 .. 20, b in [0.01, 1000]", separately(lambda n: RNG.integers(1, 21, n), log_even(0.01, 1000))),
    "beta": (beta_truth, 2e-12, "a, b in [0.01, 300]", separately(SHAPE, SHAPE)),
    "gammainc": (gammainc, 2e-12, "a in [0.01, 300], b / a in [0.03, 4]", gamma_pairs),
    "gammaincc": (gammaincc, 2e-12, "a in [0.01, 300], b / a in [0.03, 4]", gamma_pairs),
    "gammainc_da": (slope(gammainc), 1e-10, "a in [0.01, 300], b / a in [0.03, 4]", gamma_pairs),
    "betainc": (betainc, 2e-12, "a, b in [0.01, 300], c in [0.001, 0.999]", separately(SHAPE, SHAPE, even(0.001, 0.999))),
    "betainc_da": (slope(betainc), 1e-9, "a, b in [0.01, 300], c in [0.001, 0.999]", separately(SHAPE, SHAPE, even(0.001, 0.999))),
    "gammaincinv": (inverse(gammainc, 1e5), 2e-12, "a in [0.01, 300], b in [1e-9, 1)", separately(SHAPE, UNIT_PART), True),
    "gammainccinv": (inverse(gammaincc, 1e5, True), 2e-12, "a in [0.01, 300], b in [1e-9, 1)", separately(SHAPE, UNIT_PART), True),
    "betaincinv": (inverse(betainc, 1), 2e-12, "a, b in [0.01, 300], c in [1e-9, 1)", separately(SHAPE, SHAPE, UNIT_PART), True),
    "jv": (bessel_of(mpmath.besselj), 4e-15, "a in [-20, 100], b in [1e-6, 1e4]", separately(even(-20, 100), log_even(1e-6, 1e4)), True),
    "iv": (bessel_of(mpmath.besseli), 2e-13, "a in [0, 100], b in [0.001, 600]", separately(even(0, 100), log_even(0.001, 600))),
    "ive": (bessel_of(mpmath.besseli, -1), 2e-13, "a in [0, 100], b in [0.001, 1e5]", separately(even(0, 100), log_even(0.001, 1e5))),
    "kv": (bessel_of(mpmath.besselk), 2e-13, "a in [-100, 100], b in [1e-6, 600]", separately(even(-100, 100), log_even(1e-6, 600))),
    "kve": (bessel_of(mpmath.besselk, 1), 2e-13, "a in [-100, 100], b in [1e-6, 1e5]", separately(even(-100, 100), log_even(1e-6, 1e5))),
    "owens_t": (owens_t, 2e-14, "a in [0.001, 37], b in [0.001, 1000]", separately(log_even(0.001, 37), log_even(0.001, 1000))),
}


# ---- The measure

def last_place(x, dtype):
    if x == 0:
        return mpf(2) ** (-149 if dtype == np.float32 else -1074)
    least, digits = (-149, 24) if dtype == np.float32 else (-1074, 53)
    return mpf(2) ** max(int(mpmath.floor(mpmath.log(abs(x), 2))) + 1 - digits, least)


def error_of(truth, x, got, dtype):
    """in units of the last place of the larger of |f| and |x f'|"""
    try:
        want = truth(mpf(x))
    except (ValueError, ZeroDivisionError):  # a pole
        return 0.0
    if not math.isfinite(got):
        return 0.0 if abs(want) > (mpf(2) ** 128 if dtype == np.float32 else mpf(2) ** 1024) * (1 - mpf(2) ** -22) else math.inf
    off = abs(mpf(float(got)) - want)
    plain = float(off / last_place(want, dtype))
    if plain <= 1:
        return plain
    step = mpf(2) ** -60 * abs(mpf(x))
    slope = (truth(mpf(x) + step) - truth(mpf(x) - step)) / (2 * step)
    return float(off / last_place(max(abs(want), abs(mpf(x) * slope)), dtype))


def measure_one(name, dtype, n):
    truth, bound, where = ONE[name]
    x = np.concatenate([np.asarray(f(n // len(where))) for f in where]).astype(dtype)
    x = x[np.isfinite(x) & (x != 0)]
    y, instructions = values(name, dtype, [x])
    worst, total, at = 0.0, 0.0, x[0]
    for a, b in zip(x, y):
        e = error_of(truth, float(a), b, dtype)
        total += min(e, 1e9)
        if e > worst:
            worst, at = e, a
    kind = "f32" if dtype == np.float32 else "f64"
    mark = "" if worst <= bound else " **too much**"
    return f"| `{name}` | {kind} | {bound} | {worst:.3f} | {total / len(x):.3f} | {float(at).hex()} | {instructions} | {len(x)} |{mark}", worst <= bound


def measure_several(name, n):
    truth, bound, box, where, *is_slope = SEVERAL[name]
    columns = [np.asarray(c, np.float64) for c in where(n)]
    y, instructions = values(name, np.float64, columns)
    worst, at = 0.0, [c[0] for c in columns]
    for *x, got in zip(*columns, y):
        want = truth(*[mpf(float(v)) for v in x])
        if abs(want) < mpf(10) ** -280 or abs(want) > mpf(10) ** 300:
            continue
        e = float(abs(mpf(float(got)) - want) / abs(want))
        if e > bound and is_slope:
            e = float(abs(mpf(float(got)) - want) / max(abs(want), by_last(truth)(*[mpf(float(v)) for v in x])))
        if not e <= worst:
            worst, at = e, x
    mark = "" if worst <= bound else " **too much**"
    where = ", ".join(f"{float(v):.17g}" for v in at)
    return f"| `{name}` | {box} | {bound:g} | {worst:.1e} | {where} | {len(y)} |{mark}", worst <= bound


HEAD_SEVERAL = """
Functions of several numbers, in f64: the relative error on a box, where the value is not below 1e-280; of inverses and of `jv`
relative to the larger of |f| and |x f'| by the last operand. Beyond the box `gammainc` and `gammaincc` go on up to a = 8e4 and are nan
where 2500 terms, or 1000 steps of a continued fraction, do not suffice; `betainc` and the inverses likewise. `iv`, `jv` and `kv` are
nan where thousands of terms, orders or points do not suffice: both operands beyond 1000, as a rule. `hyp2f1` is no instruction but a
loop of sums in pairs of numbers (src/op/hypergeometric.c); python/test/test_special.py holds it to 1e-12 for a, b, c in [0.05, 20], z in
[-0.9, 0.9]; it is nan beyond 1 unless the sum ends, and where 500000 terms do not suffice. `softplus`, which is also `log1pexp`, and
`betaln` are made of others: that test holds them to 4 units of the last place (it finds 0.9), and to 2e-15 of the larger of |f| and
|x f'| for a, b in [0.01, 300] (8e-16).

| function | box | bound | max | at | values |
|---|---|---|---|---|---|
"""

HEAD_ONE = """# Accuracy of the special functions

Written by `test/special.py`, against mpmath, in units of the last place of the larger of |f| and |x f'|, at random numbers of all
sizes, next to poles, zeros and the ends of the domain. f32 is rounded from f64. The vm and the encoder, for AVX-512 and AVX2, gave
the same bits at every one of them.

| function | dtype | bound | max | mean | at | instructions | values |
|---|---|---|---|---|---|---|---|
"""


def main(args):
    path, n, names = None, 4000, []
    while args:
        a = args.pop(0)
        if a == "-o":
            path = args.pop(0)
        elif a == "-n":
            n = int(args.pop(0))
        else:
            names.append(a)
    text, good = HEAD_ONE, True
    for name in [k for k in ONE if not names or k in names]:
        for dtype in np.float64, np.float32:
            with np.errstate(all="ignore"):
                row, ok = measure_one(name, dtype, n)
            print(row, flush=True)
            text, good = text + row + "\n", good and ok
    text += HEAD_SEVERAL
    for name in [k for k in SEVERAL if not names or k in names]:
        row, ok = measure_several(name, n // 4)
        print(row, flush=True)
        text, good = text + row + "\n", good and ok
    if path:
        with open(path, "w") as f:
            f.write(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
