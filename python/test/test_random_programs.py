"""Random programs of f64 arrays through the package, against the same programs in NumPy: scans and whiles are Python's loops,
choices its if, vmap its rows, compile the function itself; gradients are differences."""
import os

import numpy as np
import pytest
import weft

N_PROGRAMS = int(os.environ.get("WEFT_PROGRAMS", 60))
FIRST = int(os.environ.get("SEED", 1))


class InNumpy:
    """What weft's transforms and loops mean, written out."""

    sin, tanh, exp, cos, maximum, where, flip, roll, cumsum, concatenate, stack = (
        np.sin, np.tanh, np.exp, np.cos, np.maximum, np.where, np.flip, np.roll, np.cumsum, np.concatenate, np.stack)
    full = staticmethod(lambda shape, v: np.full(shape, v))

    @staticmethod
    def scan(f, init, xs, reverse):
        ys = []
        for x in reversed(xs) if reverse else xs:
            init, y = f(init, x)
            ys.append(y)
        return init, np.stack(ys[::-1] if reverse else ys)

    @staticmethod
    def while_loop(cond, body, init):
        for _ in range(4):
            if not cond(init):
                break
            init = body(init)
        return init

    @staticmethod
    def cond(p, a, b, *operands):
        return a(*operands) if p else b(*operands)

    @staticmethod
    def vmap(f, x):
        return np.stack([f(row) for row in x])

    @staticmethod
    def compile(f):
        return f


class InWeft:
    sin, tanh, exp, cos, maximum, where, flip, roll, cumsum, concatenate, stack = (
        weft.sin, weft.tanh, weft.exp, weft.cos, weft.maximum, weft.where, weft.flip, weft.roll, weft.cumsum, weft.concatenate, weft.stack)
    full = staticmethod(lambda shape, v: weft.full(shape, v, dtype=weft.float64))
    cond, compile = staticmethod(weft.cond), staticmethod(weft.compile)

    @staticmethod
    def scan(f, init, xs, reverse):
        return weft.scan(f, init, xs, reverse=reverse)

    @staticmethod
    def while_loop(cond, body, init):
        return weft.while_loop(cond, body, init, bound=4)

    @staticmethod
    def vmap(f, x):
        return weft.vmap(f)(x)


def views(rng):
    """A view that keeps the shape of a vector."""
    how = rng.integers(5)
    shift = int(rng.integers(1, 3))
    return (lambda m, v: v[::-1], lambda m, v: m.roll(v, shift), lambda m, v: v, lambda m, v: m.flip(v, 0),
            lambda m, v: m.concatenate([v[1:], v[:1]]))[how]


def expression(rng, depth):
    """f(m, v), a vector of v's length: the module m says how. Drawn once, so that both sides run the same program."""
    kind = rng.integers(14 if depth else 8)
    a, b = (expression(rng, depth - 1) if depth else (lambda m, v: v) for _ in range(2))
    show, c, reverse = views(rng), float(rng.normal()), bool(rng.integers(2))
    simple = [
        lambda m, v: m.tanh(a(m, v)) * c,
        lambda m, v: m.sin(a(m, v)) + show(m, v),
        lambda m, v: m.maximum(a(m, v), b(m, v) * c),
        lambda m, v: m.where(a(m, v) > c, b(m, v), v * 0.5),
        lambda m, v: m.tanh(m.cumsum(a(m, v), 0)),
        lambda m, v: show(m, a(m, v)) * 0.7 + a(m, v).sum() * 0.1,
        lambda m, v: m.cos(a(m, v)) - b(m, v).max() * 0.3,
        lambda m, v: a(m, v) * a(m, v) * 0.2,
    ]
    nested = [
        lambda m, v: m.scan(lambda s, x: (show(m, m.tanh(s + x * c)), s), a(m, v), m.stack([v, b(m, v), v]), reverse)[1][1],
        lambda m, v: m.scan(lambda s, x: (m.tanh(a(m, s) * 0.5 + x), x), v, m.stack([v, b(m, v)]), reverse)[0],
        lambda m, v: m.while_loop(lambda s: s.sum() < 2.5, lambda s: show(m, s) + m.tanh(a(m, s)) * 0.5 + 0.3, b(m, v)),
        lambda m, v: m.cond(v.sum() > c, lambda x, y: a(m, x) + y, lambda x, y: show(m, y), v, b(m, v)),
        lambda m, v: m.vmap(lambda r: show(m, r) * a(m, r).sum(), m.stack([v, b(m, v)])).sum(axis=0) * 0.2,
        lambda m, v: m.compile(lambda x, y: a(m, x) + y * c)(*((v, v) if reverse else (v, b(m, v)))),
    ]
    return (simple + nested)[kind]


def program(seed):
    rng = np.random.default_rng(seed)
    return expression(rng, int(rng.integers(1, 4))), rng.normal(size=int(rng.choice([1, 2, 3, 3, 5, 17, 64]))), rng


@pytest.mark.parametrize("seed", range(FIRST, FIRST + N_PROGRAMS))
def test_a_program_is_what_numpy_says(seed):
    f, x, _ = program(seed)
    want = f(InNumpy, x)
    np.testing.assert_allclose(np.array(f(InWeft, weft.array(x))), want, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.array(weft.compile(lambda v: f(InWeft, v))(weft.array(x))), want, rtol=1e-10, atol=1e-10)
    rows = np.stack([x, x * 0.5, -x])
    np.testing.assert_allclose(np.array(weft.vmap(lambda v: f(InWeft, v))(weft.array(rows))), [f(InNumpy, r) for r in rows], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(FIRST + 1000, FIRST + 1000 + N_PROGRAMS))
def test_the_gradient_of_a_program_is_its_differences(seed):
    f, x, rng = program(seed)
    u = rng.normal(size=x.shape)
    slopes = [(f(InNumpy, x + h * u).sum() - f(InNumpy, x - h * u).sum()) / (2 * h) for h in (2e-5, 1e-5)]
    if not np.isfinite(slopes).all() or abs(slopes[0] - slopes[1]) > 1e-4 * (1 + abs(slopes[1])):
        pytest.skip("not smooth here")
    dx = np.array(weft.grad(lambda v: f(InWeft, v).sum())(weft.array(x)))
    dy = weft.jvp(lambda v: f(InWeft, v).sum(), [weft.array(x)], [weft.array(u)])[1][0]
    scale = 1 + abs(slopes[1])
    assert abs(dx @ u - slopes[1]) < 1e-4 * scale
    assert abs(float(dy) - slopes[1]) < 1e-4 * scale
