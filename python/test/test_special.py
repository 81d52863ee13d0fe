"""Special functions: the names of scipy.special, and derivatives by all operands."""
import numpy as np
import pytest
import weft
from weft import special

scipy = pytest.importorskip("scipy.special")


def test_names_are_those_of_scipy():
    own = {"lgamma", "log1mexp", "log1pexp", "sigmoid", "sinc", "softplus", "trigamma"}
    assert [n for n in dir(special) if not n.startswith("_") and n not in own and not hasattr(scipy, n)] == []
    assert special.gammaln is weft.lgamma and special.psi is weft.digamma


def slope(f, x, k):
    """by differences"""
    h = 1e-5 * x[k]
    up, down = list(x), list(x)
    up[k], down[k] = x[k] + h, x[k] - h
    return (f(*up) - f(*down)) / (2 * h)


@pytest.mark.parametrize("name, x", [("gammainc", (0.7, 2.0)), ("gammainc", (6.0, 4.5)), ("gammainc", (3.0, 9.0)), ("gammaincc", (30.0, 25.0)),
                                     ("gammaincc", (0.2, 0.1)), ("beta", (0.7, 2.0)), ("betaln", (12.0, 30.0))])
def test_derivatives_by_both_operands(name, x):
    for k in 0, 1:
        got = float(weft.grad(getattr(weft, name), argnums=k)(*[weft.array(v, weft.float64) for v in x]))
        np.testing.assert_allclose(got, slope(getattr(scipy, name), x, k), rtol=1e-7)


@pytest.mark.parametrize("x", [(0.7, 2.0, 0.1), (0.7, 2.0, 0.9), (30.0, 12.0, 0.7), (5.0, 0.3, 0.99), (100.0, 80.0, 0.5)])
def test_derivatives_of_betainc_by_all_operands(x):
    for k in range(3):
        got = float(weft.grad(weft.betainc, argnums=k)(*[weft.array(v, weft.float64) for v in x]))
        np.testing.assert_allclose(got, slope(scipy.betainc, x, k), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name, x", [("gammaincinv", (0.7, 0.2)), ("gammaincinv", (6.0, 0.9)), ("gammainccinv", (30.0, 0.01)),
                                     ("gammainccinv", (0.6, 0.6)), ("betaincinv", (0.7, 2.0, 0.1)), ("betaincinv", (30.0, 12.0, 0.7)),
                                     ("owens_t", (0.7, 2.0)), ("owens_t", (-1.5, -0.4))])
def test_derivatives_of_inverses_by_all_operands(name, x):
    for k in range(len(x)):
        got = float(weft.grad(getattr(weft, name), argnums=k)(*[weft.array(v, weft.float64) for v in x]))
        np.testing.assert_allclose(got, slope(getattr(scipy, name), x, k), rtol=1e-6)


@pytest.mark.parametrize("name", ["iv", "ive", "jv", "kv", "kve"])
@pytest.mark.parametrize("x", [(0.0, 0.7), (1.0, 2.0), (0.4, 3.0), (2.5, 20.0), (-1.5, 2.0)])
def test_derivatives_of_waves_by_where_they_are(name, x):
    got = float(weft.grad(getattr(weft, name), argnums=1)(*[weft.array(v, weft.float64) for v in x]))
    np.testing.assert_allclose(got, slope(getattr(scipy, name), x, 1), rtol=1e-6)


def test_inverses_undo_what_they_are_inverses_of():
    a, p = (weft.array(np.ravel(v)) for v in np.meshgrid([0.05, 0.3, 1.0, 7.0, 150.0, 5e4], [1e-12, 1e-3, 0.3, 0.5, 0.8, 1 - 1e-9]))
    np.testing.assert_allclose(np.array(weft.gammainc(a, weft.gammaincinv(a, p))), np.array(p), rtol=1e-11)
    np.testing.assert_allclose(np.array(weft.gammaincc(a, weft.gammainccinv(a, p))), np.array(p), rtol=1e-11)
    for b in 0.3, 4.0, 90.0:
        x = weft.betaincinv(a[a > 0.2], b, p[a > 0.2])
        np.testing.assert_allclose(np.array(weft.betainc(a[a > 0.2], b, x)), np.array(p[a > 0.2]), rtol=1e-9)


@pytest.mark.parametrize("name, f", [("gammaincinv", lambda a, x: weft.gammaincinv(a, x / 9)), ("jv", lambda a, x: weft.jv(a, x * 9)), ("kv", weft.kv), ("gammainc", lambda a, x: weft.gammainc(a, x)), ("betainc", lambda a, x: weft.betainc(a, 2.0, x / 9))])
def test_in_fused_kernels_reductions_loops_and_maps(name, f):
    a, x = weft.array(np.linspace(0.5, 4, 8)), weft.array(np.linspace(0.1, 8, 8))
    want = np.array(f(a, x))
    np.testing.assert_array_equal(np.array(f(a, x) * 2 + 1), want * 2 + 1)
    np.testing.assert_allclose(float(f(a, x).sum()), want.sum(), rtol=1e-15)
    np.testing.assert_array_equal(np.array(weft.vmap(f)(a, x)), want)
    _, rows = weft.scan(lambda c, p: (c, f(p[0], p[1])), weft.array(0.0), (a, x))
    np.testing.assert_array_equal(np.array(rows), want)
    outer = f(a.reshape(8, 1), x.reshape(1, 8))
    np.testing.assert_array_equal(np.array(outer.max(axis=1)), np.array(outer).max(axis=1))
    np.testing.assert_array_equal(np.array(f(a[::-2], x[::-2])), want[::-2])


def test_nothing_hangs_on_nan_and_infinity():
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-300, 1e300, -1.0, 1.0, 1e5])
    a, b = (weft.array(np.ravel(v)) for v in np.meshgrid(odd, odd))
    for f in weft.gammainc, weft.gammaincc, weft.zeta, weft.polygamma, weft.beta, weft.betaln, weft.gammaincinv, weft.gammainccinv, weft.iv, \
            weft.ive, weft.jv, weft.kv, weft.kve, weft.owens_t:
        assert np.array(f(a, b)).shape == (121,)
    for c in odd:
        assert np.array(weft.betainc(a, b, float(c))).shape == np.array(weft.betaincinv(a, b, float(c))).shape == (121,)


def test_gauss_function_is_within_a_part_in_10_to_the_12_of_mpmath_on_the_box_of_pytensors_tests():
    """a, b, c in (0.05, 20), z in (-0.9, 0.9): docs/special.md."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 30
    rng = np.random.default_rng(0)
    x = [*rng.uniform(0.05, 20, (3, 200)), rng.uniform(-0.9, 0.9, 200)]
    got = np.array(weft.hyp2f1(*x))
    for value, *point in zip(got, *x):
        want = mpmath.hyp2f1(*map(mpmath.mpf, point))
        assert abs(value - want) <= 1e-12 * abs(want), point


@pytest.mark.parametrize("x", [(2.3, 1.7, 3.1, -0.6), (2.3, 1.7, 3.1, 0.6), (0.5, 4.0, 9.0, 0.2), (5.5, 7.25, 3.0, -0.4)])
def test_derivatives_of_gauss_function_by_all_operands(x):
    for k in range(4):
        got = float(weft.grad(weft.hyp2f1, argnums=k)(*[weft.array(v, weft.float64) for v in x]))
        np.testing.assert_allclose(got, slope(scipy.hyp2f1, x, k), rtol=1e-6, atol=1e-9)


def test_softplus_is_within_four_units_of_the_last_place():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(5)
    sizes = np.exp(rng.uniform(np.log(1e-300), np.log(700), 300))
    x = np.concatenate([rng.uniform(-740, 740, 300), sizes, -sizes, rng.uniform(-3, 3, 300), [0.0, -0.0]])
    with mpmath.workprec(140):
        for a, got in zip(x, np.asarray(weft.softplus(weft.asarray(x)))):
            e = mpmath.exp(mpmath.mpf(a))
            want, slope_there = mpmath.log1p(e), mpmath.mpf(a) * e / (1 + e)
            unit = np.spacing(max(float(want), abs(float(slope_there)), 2.3e-308))
            assert abs(mpmath.mpf(float(got)) - want) <= 4 * unit, a
    ends = np.asarray(weft.softplus(weft.asarray(np.array([np.inf, -np.inf, np.nan]))))
    assert ends[0] == np.inf and ends[1] == 0 and np.isnan(ends[2])


def test_betaln_is_right_on_its_box():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(6)
    a, b = np.exp(rng.uniform(np.log(0.01), np.log(300), (2, 300)))
    with mpmath.workprec(140):
        for p, q, got in zip(a, b, np.asarray(weft.betaln(weft.asarray(a), weft.asarray(b)))):
            p, q = mpmath.mpf(p), mpmath.mpf(q)
            want, both = mpmath.loggamma(p) + mpmath.loggamma(q) - mpmath.loggamma(p + q), mpmath.psi(0, p + q)
            size = max(abs(want), abs(p * (mpmath.psi(0, p) - both)), abs(q * (mpmath.psi(0, q) - both)))
            assert abs(mpmath.mpf(float(got)) - want) <= 2e-15 * size, (p, q)


@pytest.mark.parametrize("name", ["iv", "jv", "kv"])
def test_bessel_functions_of_large_orders_are_there_as_long_as_they_are_numbers(name):
    rng = np.random.default_rng(7)
    v, x = np.exp(rng.uniform(np.log(20), np.log(1000), 3000)), np.exp(rng.uniform(0, np.log(700), 3000))
    wanted = getattr(scipy, name)(v, x)
    got = np.asarray(getattr(special, name)(weft.array(v, weft.float64), weft.array(x, weft.float64)))
    near = 3 * np.sqrt(2 / (np.pi * x)) if name == "jv" else 0  # of a zero of J: of the size of its waves
    seen = np.isfinite(wanted) & (np.abs(wanted) > 1e-290)
    assert seen.sum() > 1000
    np.testing.assert_array_less(np.abs(got[seen] - wanted[seen]), (1e-10 * np.abs(wanted) + 1e-14 * near * (v < x))[seen])
