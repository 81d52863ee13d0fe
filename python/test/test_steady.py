"""A program that goes on holds the same nodes and bytes at every step, looked at while its arrays live."""
import time

import numpy as np
import pytest
import weft

N = 20000  # 80 kB: more than what is stored at once for its owner


def until(x):
    c = weft.while_loop(lambda c: (c > 0.5).any(), lambda c: c * 0.5, x)
    return c + 0.25


NEXTS = {
    "plain": lambda: lambda a: weft.sin(a) * 0.9 + 0.1,
    "compiled": lambda: weft.compile(lambda a: weft.sin(a) * 0.9 + 0.1),
    "compiled twice": lambda: (lambda f: lambda a: f(f(a)))(weft.compile(lambda a: weft.sin(a) * 0.9 + 0.1)),
    "compiled, of two results": lambda: (lambda f: lambda a: f(a)[1])(weft.compile(lambda a: (a.sum(), weft.sin(a) * 0.9))),
    "a view": lambda: (lambda f: lambda a: f(a)[::-1])(weft.compile(lambda a: weft.sin(a) * 0.9)),
    "scan": lambda: lambda a: weft.scan(lambda c, _: (weft.sin(c), None), a, length=3)[0],
    "while": lambda: until,
    "cond": lambda: lambda a: weft.cond(a.sum() > 0, lambda a: a * 0.5, lambda a: a + 1, a),
    "grad": lambda: weft.grad(lambda a: (weft.sin(a) * a).sum()),
    "grad of compiled": lambda: weft.grad((lambda f: lambda a: f(a).sum())(weft.compile(lambda a: weft.sin(a) * a))),
}


def evaluate_async(a):
    """The job that has computed a lets go of it a moment later."""
    before = weft.live_nodes()
    weft.async_eval(a)
    weft.wait(a)
    for _ in range(20):
        if weft.live_nodes() < before:
            break
        time.sleep(0.001)


WAYS = {
    "eval": weft.eval,
    "several": lambda a: weft.eval(a * 2, a, [a.sum()]),
    "sum": lambda a: weft.eval(a.sum()),
    "float": lambda a: float(a.sum()),
    "item": lambda a: a.max().item(),
    "tolist": lambda a: a.tolist(),
    "numpy": lambda a: np.asarray(a),
    "repr": lambda a: repr(a.sum()),
    "async": evaluate_async,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("next", NEXTS)
def test_steps_hold_the_same(next, way):
    f, look = NEXTS[next](), WAYS[way]
    a = weft.array(np.linspace(0, 1, N).astype(np.float32))
    held = []
    for _ in range(100):
        a = f(a)
        look(a)
        held.append((weft.live_nodes(), weft.get_active_memory()))
    early, late = held[:50], held[50:]  # a plain expression is stored again after 64 operations
    assert max(n for n, _ in late) <= max(n for n, _ in early) + 10  # of a job that is not quite over
    assert max(b for _, b in late) <= max(b for _, b in early) + 4 * N
    if way == "async":
        time.sleep(0.05)


@pytest.mark.parametrize("n, most", [(3, 4), (16384, 4), (16385, 68), (10**6, 68)])
def test_a_held_array_is_not_computed_from_the_beginning_at_every_step(n, most):
    s = weft.array(np.full(n, 0.3, np.float32))
    for _ in range(100):
        s = weft.sin(s) * 1.5 + 0.1
        cost = weft.plan(s.sum())
        assert cost["operations"] <= most * n and cost["kernels"] <= 2
        weft.eval(s.sum())
        assert weft.get_active_memory() <= 3 * 4 * n + 4096


@pytest.mark.parametrize("look", [weft.eval, lambda a: float(a[0]), lambda a: a.tolist()], ids=["eval", "a part", "tolist"])
def test_a_result_that_is_never_asked_for_does_not_keep_the_steps_before(look):
    """b goes from step to step beside a, and only a is looked at."""
    f = weft.compile(lambda a, b: (weft.sin(a) * 0.9 + 0.1, b + a.sum()))
    a, b, held = weft.ones((N,)), weft.array(0.0), []
    for _ in range(30):
        a, b = f(a, b)
        look(a)
        held.append((weft.live_nodes(), weft.get_active_memory()))
    assert held[10:20] == held[20:30]
    want, total = np.ones(N, np.float32), 0.0
    for _ in range(30):
        total += want.sum()
        want = np.sin(want) * np.float32(0.9) + np.float32(0.1)
    np.testing.assert_allclose(b, total, rtol=1e-4)
