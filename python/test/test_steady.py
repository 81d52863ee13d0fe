"""A program that goes on holds the same nodes and bytes at every step, looked at while its arrays live."""
import time

import numpy as np
import pytest
import weft
import weft.mlx.core as mx

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


def held():
    return weft.live_nodes(), weft.get_active_memory()


def comes_down_to(most):
    """At once, or when a job that is not quite over has let go: within two seconds."""
    return any(all(now <= limit for now, limit in zip(held(), most)) or time.sleep(0.001) for _ in range(2000))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("next", NEXTS)
def test_steps_hold_the_same(next, way):
    f, look = NEXTS[next](), WAYS[way]
    a = weft.array(np.linspace(0, 1, N).astype(np.float32))
    early = []
    for _ in range(50):
        a = f(a)
        look(a)
        early.append(held())
    most = max(n for n, _ in early) + 10, max(b for _, b in early) + 4 * N
    for _ in range(50):  # a plain expression is stored again after 64 operations
        a = f(a)
        look(a)
        assert comes_down_to(most), (held(), most)
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


def nested():
    inner = weft.compile(lambda a: (weft.sin(a) * 0.9 + 0.1, (a * a).sum()))
    return weft.compile(lambda a: inner(inner(a)[0]))


def descent():
    def step(a):
        loss, slope = weft.value_and_grad(lambda a: (weft.sin(a) * a).sum())(a)
        return a - 0.1 * slope, loss
    return weft.compile(step)


def stopped(a):
    n = weft.scan(lambda c, _: (c * 0.5, None), a, length=3)[0]
    return n, weft.while_loop(lambda c: c > 1, lambda c: c * 0.5, a.sum())


STEPS_WITH_A_LOSS = {
    "compiled": lambda: weft.compile(lambda a: (weft.sin(a) * 0.9 + 0.1, (a * a).sum())),
    "a list": lambda: weft.compile(lambda a: [weft.sin(a) * 0.9 + 0.1, (a * a).sum()]),
    "a tree": lambda: (lambda f: lambda a: (lambda d: (d["next"], d["loss"]))(f(a)))(
        weft.compile(lambda a: {"next": weft.sin(a) * 0.9 + 0.1, "loss": (a * a).sum(), "aside": weft.cos(a)})),
    "nested": nested,
    "loops": lambda: weft.compile(stopped),
    "value and gradient": descent,
    "open sizes": lambda: weft.compile(lambda a: (weft.sin(a) * 0.9 + 0.1, (a * a).sum()), shapes="any"),
}


def add_up(kept, loss):
    kept[:] = [kept[0] + loss if kept else loss * 1]


KEEPS = {"a list": lambda kept, loss: kept.append(loss), "of others": lambda kept, loss: kept.append(loss * 2),
         "a sum": add_up}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("step", STEPS_WITH_A_LOSS)
def test_a_loss_that_is_kept_and_never_asked_for_does_not_keep_the_states(step, keep, way):
    f, look = STEPS_WITH_A_LOSS[step](), WAYS[way]
    a, kept, bytes_held = weft.array(np.linspace(0, 1, N).astype(np.float32)), [], []
    states = []
    for _ in range(40):
        states.append(np.array(a)) if way == "eval" else None
        a, loss = f(a)
        KEEPS[keep](kept, loss)
        del loss
        look(a)
        bytes_held.append(weft.get_active_memory())
    assert max(bytes_held[20:]) <= max(bytes_held[:20]) + 2 * 4 * N + 20 * 64  # one state is 4 N; the work of a job may be another
    if way == "eval" and step == "compiled":
        losses = [(s.astype(np.float64) ** 2).sum() for s in states]
        want = {"a list": losses, "of others": [2 * x for x in losses], "a sum": [sum(losses)]}[keep]
        np.testing.assert_allclose([float(x) for x in kept], want, rtol=1e-5)


@pytest.mark.parametrize("asked", ["state", "one entry", "another call"])
def test_states_of_mlx_are_evaluated_and_their_losses_kept(asked):
    state = {"w": mx.zeros((N,)), "v": mx.ones((N,))}

    def step(x):
        loss, slope = mx.value_and_grad(lambda w: ((w - x) ** 2).mean())(state["w"])
        state["v"] = 0.9 * state["v"] + slope
        state["w"] = state["w"] - 0.1 * state["v"]
        return loss

    step = mx.compile(step, inputs=state, outputs=state)
    losses, held = [], []
    for i in range(40):
        losses.append(step(mx.full((N,), float(i % 3))))
        if asked == "state":
            mx.eval(state)
        elif asked == "one entry":
            mx.eval(state["w"])
        else:
            mx.eval(state["v"].sum())
        held.append(weft.get_active_memory())
    assert max(held[20:]) <= max(held[:20]) + 4 * N
    w, v = np.zeros(1), np.ones(1)
    for i, loss in enumerate(losses):
        x = float(i % 3)
        np.testing.assert_allclose(float(loss), ((w - x) ** 2).mean(), rtol=1e-4)
        v = 0.9 * v + 2 * (w - x) / N
        w = w - 0.1 * v


def test_a_result_that_nobody_holds_is_not_computed():
    runs = []

    def seen(x):
        runs.append(1)
        return (np.asarray(x),)

    f = weft.compile(lambda a: (a + 1, weft.host(seen, [a], [((3,), weft.float32)])[0]))
    a = weft.ones((3,))
    first = f(a)[0]
    weft.eval(first)
    assert not runs
    first, second = f(a)
    weft.eval(first)
    assert len(runs) == 1
    assert second.tolist() == [1, 1, 1] and len(runs) == 1


def rows(state):
    state, seen = weft.stack([weft.sin(state) + 1, weft.cos(state)])
    return state, seen


def halves(state):
    both = weft.sin(weft.concatenate([state, state * 0.5]))
    return both[:2], both[2:]


def keys(key):
    key, noise = weft.random.split(key)
    return key, weft.random.normal(noise, shape=(2,))


def mlx_keys(key):
    key, noise = mx.random.split(key)
    return key, mx.random.normal((2,), key=noise)


@pytest.mark.parametrize("step, first", [(rows, weft.ones((2,))), (halves, weft.ones((2,))), (keys, weft.random.key(1)),
                                         (mlx_keys, mx.random.key(1))])
def test_a_state_that_is_part_of_what_is_evaluated_ends_its_own_history(step, first):
    """A key, or a state beside what is read of it: nobody asks for it, it is a view of what nobody holds, and its expression was as
    long as there had been steps. Values are those of the states evaluated at each step."""
    state, other, total, want = first, first, weft.zeros((2,)), weft.zeros((2,))
    longest = 0
    for _ in range(150):
        state, seen = step(state)
        total = total + seen
        weft.eval(total)
        other, seen = step(other)
        want = want + seen
        weft.eval(other, want)
        longest = max(longest, weft.show(state).count("\n"))
    assert total.tolist() == want.tolist()
    assert longest < 600


def descend(p, g, _):
    return {k: p[k] - 0.05 * g[k] for k in p}, _


def adapt(p, g, m):
    m = {k: (0.9 * m[k][0] + 0.1 * g[k], 0.99 * m[k][1] + 0.01 * g[k] * g[k]) for k in p}
    return {k: p[k] - 0.01 * m[k][0] / (mx.sqrt(m[k][1]) + 1e-8) for k in p}, m


@pytest.mark.parametrize("update", [descend, adapt])
@pytest.mark.parametrize("n", [16, 200])  # states below and above 64 KiB
@pytest.mark.parametrize("before", [True, False], ids=["read, then updated", "updated, then read"])
def test_a_training_of_which_only_losses_are_read_costs_the_same_at_every_step(update, n, before):
    """As many write it: loss.item(), and never mx.eval of parameters. Values are those of a training that evaluates them."""
    x = mx.sin(mx.arange(8 * n, dtype=mx.float32)).reshape(8, n)

    def loss(p):
        h = mx.tanh(x @ p["w"] + p["b"])
        return mx.square((h * p["v"]).sum(axis=1) - 1).mean()

    def train(evaluates):
        p = {"w": mx.cos(mx.arange(n * n, dtype=mx.float32)).reshape(n, n) / n, "b": mx.zeros((n,)), "v": mx.ones((n,)) / n}
        m, losses, held = {k: (mx.zeros_like(v), mx.zeros_like(v)) for k, v in p.items()}, [], []
        for _ in range(60):
            value, g = mx.value_and_grad(loss)(p)
            if before:
                losses.append(value.item())
            p, m = update(p, g, m)
            if evaluates:
                mx.eval(p, m)
            if not before:
                losses.append(value.item())
            del value, g
            held.append((weft.live_nodes(), weft.get_active_memory()))
        return losses, held

    losses, held = train(False)
    assert losses == train(True)[0]
    early, late = held[:30], held[30:]
    assert max(k for k, _ in late) <= max(k for k, _ in early) * 1.2 + 50
    assert max(b for _, b in late) <= max(b for _, b in early) * 1.2 + 4 * n * n
