"""Functions in Python as a step of what is computed: alone, in functions, loops and maps; what they raise is raised."""
import threading

import numpy as np
import pytest
import weft


def sums_and_squares(x):
    x = np.asarray(x)
    return x.sum(), x * x


LIKE = [((), weft.float64), ((3,), weft.float64)]


def test_it_is_called_when_its_result_is_asked_for(rng):
    calls = []

    def counted(x):
        calls.append(threading.get_ident())
        return sums_and_squares(x)

    x = rng.standard_normal(6)
    total, squares = weft.host(counted, [weft.asarray(x)[::-2] * 2], LIKE)
    assert calls == []
    y = 2 * x[::-2]
    np.testing.assert_allclose(squares + total, y * y + y.sum(), rtol=1e-15)
    assert calls == [threading.get_ident()]


def test_a_compiled_function_calls_it_every_time(rng):
    f = weft.compile(lambda x: weft.host(sums_and_squares, [x + 1], LIKE)[1].sum())
    for _ in range(3):
        x = rng.standard_normal(3)
        assert float(f(weft.asarray(x))) == pytest.approx(((x + 1) ** 2).sum(), rel=1e-14)


def test_in_a_loop_it_is_called_at_every_step_and_in_a_map_for_every_row(rng):
    x = rng.standard_normal((4, 3))
    step = lambda carry, row: (weft.host(sums_and_squares, [carry + row], LIKE)[1], carry)
    last, _ = weft.scan(step, weft.zeros(3, weft.float64), weft.asarray(x))
    want = np.zeros(3)
    for row in x:
        want = (want + row) ** 2
    np.testing.assert_allclose(last, want, rtol=1e-13)
    np.testing.assert_allclose(weft.vmap(lambda r: weft.host(sums_and_squares, [r], LIKE)[0])(weft.asarray(x)), x.sum(1), rtol=1e-14)


def test_what_it_raises_is_raised_and_the_function_stays_usable():
    def refuses(x):
        if np.asarray(x)[0] < 0:
            raise LookupError("below 0")
        return sums_and_squares(x)

    f = weft.compile(lambda x: weft.host(refuses, [x], LIKE)[1])
    for x in ([1.0, 2, 3], [-1.0, 2, 3], [2.0, 2, 2]):
        y = f(weft.asarray(np.array(x)))
        if x[0] < 0:
            with pytest.raises(LookupError, match="below 0"):
                weft.eval(y)
        else:
            assert y.tolist() == [v * v for v in x]


@pytest.mark.parametrize("returned, error", [([1.0], ValueError), ([np.zeros(3), np.zeros(3)], ValueError), (7, TypeError),
                                             ([np.zeros((), "f"), np.zeros(3)], TypeError)])
def test_results_that_are_not_what_was_said(returned, error):
    y, _ = weft.host(lambda x: returned, [weft.zeros(3, weft.float64)], LIKE)
    with pytest.raises(error, match="host"):
        weft.eval(y)


@pytest.mark.parametrize("args, error", [((7, [], LIKE), TypeError), ((len, 3, LIKE), TypeError), ((len, [], [3]), TypeError),
                                         ((len, [], [((-1,), weft.int8)]), ValueError), ((len, [], []), ValueError)])
def test_nonsense_is_refused(args, error):
    with pytest.raises(error):
        weft.eval(weft.host(*args))


def test_operands_may_be_kept_and_it_may_use_weft(rng):
    kept = []

    def keeps(x):
        kept.append(x)
        return [weft.cumsum(x)]

    x = rng.standard_normal(5)
    y, = weft.host(keeps, [weft.asarray(x)], [((5,), "float64")])
    np.testing.assert_allclose(y, np.cumsum(x), rtol=1e-14)
    assert kept.pop().tolist() == x.tolist()


def test_an_exception_is_not_lost_where_garbage_is_collected():
    """Looking for signals collects garbage, which an exception that waits to be raised must not meet."""
    import gc

    error = LookupError("no")

    def refuses(x):
        ring = [None]
        ring[0] = ring
        del ring
        raise error

    y, = weft.host(refuses, [weft.sum(weft.ones((1 << 22,)))], [((), "float64")])
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with pytest.raises(LookupError, match="no"):
            weft.eval(y)
    finally:
        gc.set_threshold(*before)
        error.__traceback__ = None


def test_its_results_may_have_open_sizes(rng):
    """One trace for all sizes; as many rows as the argument has, and one more."""
    traced = []

    def with_sum(x):
        x = np.asarray(x)
        return [np.append(x * 2, x.sum())]

    def f(x):
        traced.append(1)
        n = weft.size(x, 0)
        doubled, = weft.host(with_sum, [x + 1], [((n + 1,), weft.float64)])
        return doubled - 1, weft.sum(doubled)

    compiled = weft.compile(f, shapes=[(None,)])
    for n in (3, 0, 1, 5, 3):
        x = rng.standard_normal(n)
        want = np.append((x + 1) * 2, (x + 1).sum())
        rows, total = compiled(x)
        np.testing.assert_allclose(rows, want - 1, rtol=1e-13)
        np.testing.assert_allclose(total, want.sum(), rtol=1e-12)
    assert len(traced) == 1
    wrong = weft.compile(lambda x: weft.host(lambda x: [np.zeros(2)], [x], [((weft.size(x, 0),), weft.float64)])[0], shapes=[(None,)])
    assert np.asarray(wrong(np.ones(2))).tolist() == [0, 0]
    with pytest.raises(ValueError, match="another shape"):
        np.asarray(wrong(np.ones(3)))


def test_a_scan_over_open_sizes_calls_it_at_each_step(rng):
    def f(x):
        step = lambda carry, row: (weft.host(lambda c: [np.asarray(c) * 2], [carry + row], [((weft.size(x, 1),), weft.float64)])[0], carry)
        return weft.scan(step, weft.zeros_like(x[0]), x)[0]

    compiled = weft.compile(f, shapes=[(None, None)])
    for shape in ((3, 2), (1, 4), (5, 0), (4, 3)):
        x, want = rng.standard_normal(shape), np.zeros(shape[1])
        for row in x:
            want = (want + row) * 2
        np.testing.assert_allclose(compiled(x), want, rtol=1e-12)


LOOKS = [weft.eval, weft.wait, np.asarray, lambda a: a.tolist(), lambda a: weft.eval(a + 1), lambda a: weft.fetch(a, np.zeros(3))]


def raises_key_error(x):
    raise KeyError("mine")


@pytest.mark.parametrize("look", LOOKS)
def test_what_it_raises_in_the_background_is_raised_by_all_who_look(look):
    y, = weft.host(raises_key_error, [weft.ones((3,), dtype=weft.float64)], [((3,), "float64")])
    weft.async_eval(y)
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            look(y)


@pytest.mark.parametrize("look", LOOKS)
def test_what_one_job_raises_is_no_matter_of_the_next(look):
    """Who waits for the second job runs the first: its exception was set while Python ran the second function."""
    x = weft.ones((3,), dtype=weft.float64)
    y, = weft.host(raises_key_error, [x], [((3,), "float64")])
    z, = weft.host(lambda x: [x * 2], [x], [((3,), "float64")])
    weft.async_eval(y)
    weft.async_eval(z)
    look(z)
    assert z.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(KeyError, match="mine"):
        look(y)


def test_exceptions_that_nobody_looks_for_are_let_go():
    import weakref

    class Large:
        pass

    seen = []

    def fails(x):
        large = Large()
        seen.append(weakref.ref(large))
        raise LookupError("no")

    def fail(is_looked_at):
        y, = weft.host(fails, [weft.ones((3,))], [((3,), "float32")])
        z, = weft.host(lambda x: [x], [weft.ones((3,))], [((3,), "float32")])
        weft.async_eval(y)
        weft.async_eval(z)
        weft.wait(z)
        if is_looked_at:
            with pytest.raises(LookupError):
                weft.eval(y)

    for _ in range(40):
        fail(True)
    assert len(seen) == 40 and not any(ref() for ref in seen)
    for _ in range(40):
        fail(False)
    assert len(seen) == 80 and sum(ref() is not None for ref in seen) <= 16
    for _ in range(16):
        fail(True)
    assert not any(ref() for ref in seen)
    with pytest.raises(RuntimeError, match=r"^host: the function raised LookupError: no \(.*test_host.py:\d+\)$"):
        weft._core.wait_all()  # the first of those that nobody has looked for
    weft._core.wait_all()
