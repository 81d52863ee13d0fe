import numpy as np
import pytest
import weft


def test_scan_is_the_recurrence(rng):
    e = rng.standard_normal(50).astype(np.float32)

    def step(carry, x):
        y1, y2 = carry
        y = 0.5 * y1 - 0.3 * y2 + x
        return (y, y1), y

    (last, _), ys = weft.scan(step, (weft.array(0.0), weft.array(0.0)), weft.array(e))
    expected, y1, y2 = [], np.float32(0), np.float32(0)
    for x in e:
        y1, y2 = np.float32(np.float32(np.float32(0.5) * y1) - np.float32(np.float32(0.3) * y2)) + x, y1
        expected.append(y1)
    assert ys.shape == (50,)
    np.testing.assert_allclose(np.array(ys), expected, rtol=1e-6)
    assert last.item() == ys[-1].item()


def test_scan_takes_trees_a_length_and_runs_backwards():
    carry, ys = weft.scan(lambda c, _: ({"n": c["n"] + 1}, c["n"] * c["n"]), {"n": weft.array(0)}, length=4)
    assert carry["n"].item() == 4 and ys.tolist() == [0, 1, 4, 9]
    _, ys = weft.scan(lambda c, x: (c + x["a"], c), weft.array(0.0), {"a": weft.array([1.0, 2.0, 3.0])}, reverse=True)
    assert ys.tolist() == [5, 3, 0]
    carry, ys = weft.scan(lambda c, x: (c + x, c), weft.array(1.0), weft.zeros(0))
    assert carry.item() == 1 and ys.shape == (0,)


def test_scan_is_differentiated_and_mapped(rng):
    x = rng.standard_normal((6, 3))

    def f(a):
        carry, ys = weft.scan(lambda c, row: (weft.tanh(c * row + 0.5), c), weft.ones(3, dtype=weft.float64), a)
        return (carry * ys.sum(axis=0)).sum()

    def plain(a):
        c, total = weft.ones(3, dtype=weft.float64), weft.zeros(3, dtype=weft.float64)
        for t in range(6):
            total, c = total + c, weft.tanh(c * a[t] + 0.5)
        return (c * total).sum()

    np.testing.assert_allclose(f(weft.array(x)).item(), plain(weft.array(x)).item(), rtol=1e-12)
    np.testing.assert_allclose(np.array(weft.grad(f)(weft.array(x))), np.array(weft.grad(plain)(weft.array(x))), rtol=1e-10)
    xs = rng.standard_normal((4, 6, 3))
    np.testing.assert_allclose(np.array(weft.vmap(f)(weft.array(xs))), [f(weft.array(r)).item() for r in xs], rtol=1e-12)
    np.testing.assert_allclose(weft.compile(f)(weft.array(x)).item(), f(weft.array(x)).item(), rtol=1e-14)


def test_while_loop_tests_first():
    assert weft.while_loop(lambda s: s < 100.0, lambda s: s * 2, weft.array(1.0)).item() == 128
    assert weft.while_loop(lambda s: s < 100.0, lambda s: s * 2, weft.array(500.0)).item() == 500
    n, total = weft.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] + s[0]), (weft.array(10), weft.array(0)))
    assert n.item() == 0 and total.item() == 55


def test_wrong_bodies_are_refused():
    xs = weft.array([1.0, 2.0])
    with pytest.raises(ValueError):
        weft.scan(lambda c, x: ((c, c), x), weft.array(0.0), xs)
    with pytest.raises(ValueError):
        weft.scan(lambda c, x: (weft.zeros(3), x), weft.array(0.0), xs)
    with pytest.raises(TypeError, match="carry 0 begins as int32 and the body makes it float32"):
        weft.scan(lambda c, x: (c * 1.5, x), weft.array(1), xs)
    with pytest.raises(ValueError, match="3 rows, the loop 4 steps"):
        weft.scan(lambda c, x: (c + x, c), weft.array(0.0), weft.ones(3), length=4)
    with pytest.raises(ValueError, match="-3 steps"):
        weft.scan(lambda c, x: (c, c), weft.array(0.0), length=-3)
    with pytest.raises(ValueError):
        weft.scan(lambda c, x: (c, x), weft.array(0.0))
    with pytest.raises(ValueError):
        weft.scan(lambda c, x: (c + float(x), x), weft.array(0.0), xs)
    with pytest.raises(KeyError):
        weft.scan(lambda c, x: {}[c], weft.array(0.0), xs)
    assert (xs + 1).tolist() == [2, 3]


def test_a_body_may_change_what_it_gets_in_place():
    def step(c, x):
        y = c * 1
        c += x
        x *= 2
        return c, y + x

    carry, ys = weft.scan(step, weft.array(0.0), weft.array([1.0, 2.0, 3.0]))
    assert carry.item() == 6 and ys.tolist() == [2, 5, 9]

    def twice(s):
        s *= 2
        return s

    start = weft.array(1.0)
    assert weft.while_loop(lambda s: s < 100.0, twice, start).item() == 128 and start.item() == 1


def test_while_loop_without_a_bound_says_what_a_gradient_needs():
    with pytest.raises(MemoryError, match="give the loop a bound"):
        weft.grad(lambda a: weft.while_loop(lambda s: s < 10.0, lambda s: s * a, a))(weft.array(1.5)).item()


def test_while_loop_without_a_bound_is_differentiated_where_it_recomputes():
    def newton(a, **how):
        start = weft.array(1.0, dtype=weft.float64)
        return weft.while_loop(lambda s: weft.abs(s * s - a) > 1e-10, lambda s: 0.5 * (s + a / s), start, **how)

    for x in (2.0, 1.0, 1e6):
        a = weft.array(x, dtype=weft.float64)
        for k in (1, 3, 100):
            d, want = (weft.grad(lambda a: newton(a, **how))(a).item() for how in ({"recompute": k}, {"bound": 50}))
            np.testing.assert_allclose(d, want, rtol=1e-14)
            assert weft.compile(weft.grad(lambda a: newton(a, recompute=k)))(a).item() == d
    many = weft.array([2.0, 9.0, 1e6], dtype=weft.float64)
    rows = weft.vmap(weft.grad(lambda a: newton(a, recompute=4)))(many)
    np.testing.assert_allclose(np.array(rows), 0.5 / np.sqrt(np.array(many)), rtol=1e-9)
    with pytest.raises(Exception, match="before how many steps"):
        newton(a, recompute=0).item()


def test_while_loop_with_a_bound_is_differentiated():
    def newton(a):
        def improve(s):
            return 0.5 * (s + a / s)

        return weft.while_loop(lambda s: weft.abs(s * s - a) > 1e-10, improve, weft.array(1.0, dtype=weft.float64), bound=50)

    a = weft.array(2.0, dtype=weft.float64)
    np.testing.assert_allclose(newton(a).item(), np.sqrt(2), rtol=1e-10)
    np.testing.assert_allclose(weft.grad(newton)(a).item(), 0.5 / np.sqrt(2), rtol=1e-9)
    assert weft.while_loop(lambda s: s < 100.0, lambda s: s * 2, weft.array(1.0), bound=3).item() == 8


def test_cond_is_one_side_of_trees():
    def f(x):
        return weft.cond(x.sum() > 0, lambda y: {"a": y * 2, "n": 1}, lambda y: {"a": weft.exp(y), "n": 2}, x)

    up, down = weft.array([1.0, 2.0]), weft.array([-1.0, -2.0])
    assert f(up)["a"].tolist() == [2, 4] and f(up)["n"].item() == 1
    np.testing.assert_allclose(np.array(f(down)["a"]), np.exp([-1, -2]), rtol=1e-6)
    assert f(down)["n"].item() == 2
    assert weft.cond(True, lambda: 1.0, lambda: 2.0).item() == 1
    with pytest.raises(ValueError):
        weft.cond(True, lambda: 1.0, lambda: (1.0, 2.0))
    with pytest.raises(ValueError):
        weft.cond(weft.array([True]), lambda: 1.0, lambda: 2.0).item()
    with pytest.raises(ValueError):
        weft.cond(True, lambda: weft.zeros(2), lambda: weft.zeros(3)).item()
    with pytest.raises(KeyError):
        weft.cond(True, lambda: 1.0, lambda: {}["none"])


def test_cond_computes_one_side_and_is_differentiated_mapped_and_compiled():
    def f(x):
        return weft.cond(x > 0, lambda: x * x, lambda: weft.zeros(3)[weft.array(1000)] + x)

    one = weft.array(3.0)
    assert f(one).item() == 9 and weft.grad(f)(one).item() == 6
    assert weft.compile(f)(one).item() == 9
    with pytest.raises(IndexError):
        f(weft.array(-1.0)).item()

    def g(x):
        return weft.cond(x > 0, lambda: weft.sqrt(x), lambda: -x)

    xs = weft.array([4.0, -1.0, 0.0])
    assert weft.vmap(g)(xs).tolist() == [2, 1, 0]
    assert weft.vmap(weft.grad(g))(xs).tolist() == [0.25, -1, -1]


def test_cond_in_scan():
    def step(c, x):
        c = weft.cond(x > 0, lambda: c + x, lambda: c * 2)
        return c, c

    last, ys = weft.scan(step, weft.array(1.0), weft.array([1.0, -1.0, 3.0, -1.0]))
    assert ys.tolist() == [2, 4, 7, 14] and last.item() == 14


def test_grad_of_scan_recomputes_and_truncates(rng):
    x = weft.array(rng.standard_normal(10))

    def f(x, **how):
        carry, ys = weft.scan(lambda c, e: (weft.tanh(c * 0.9) + e, c * e), weft.array(np.array(0.5)), x, **how)
        return carry + ys.sum()

    slope = np.array(weft.grad(f)(x))
    for every in (0, 1, 3, 10, 99):
        np.testing.assert_allclose(np.array(weft.grad(lambda x: f(x, recompute=every))(x)), slope, rtol=1e-13)
    short = np.array(weft.grad(lambda x: f(x, truncate=4))(x))
    assert not short[:6].any() and np.array_equal(short[6:], slope[6:])
    assert np.array_equal(np.array(weft.grad(lambda x: f(x, truncate=10))(x)), slope)
    with pytest.raises(ValueError):
        f(x, truncate=0).item()


def test_recompute_serves_a_length_that_is_an_array(rng):
    x, n = weft.array(rng.standard_normal(10)), weft.array(7)

    def f(x, **how):
        return weft.scan(lambda c, e: (weft.tanh(c * 0.9) + e, None), weft.array(np.array(0.5)), x, **how)[0]

    slope = np.array(weft.grad(lambda x: f(x, length=n))(x))
    np.testing.assert_allclose(np.array(weft.grad(lambda x: f(x, length=n, recompute=3))(x)), slope, rtol=1e-13)


def _grown(x):
    """x + x sin x until it is 2 at least: rows stop at different steps."""
    return weft.while_loop(lambda c: c < 2, lambda c: c + c * weft.sin(c), x, bound=40)


def _slope_of_grown(x):
    slope = 1.0
    while x < 2:
        x, slope = x + x * np.sin(x), slope * (1 + np.sin(x) + x * np.cos(x))
    return slope


def test_gradients_of_while_loops_are_mapped():
    x = np.linspace(0.1, 2.3, 12)
    slopes = np.array([_slope_of_grown(a) for a in x])
    of_rows = weft.vmap(weft.grad(_grown))
    np.testing.assert_allclose(np.array(of_rows(weft.array(x))), slopes, rtol=1e-12)
    np.testing.assert_allclose(np.array(weft.compile(of_rows)(weft.array(x))), slopes, rtol=1e-12)
    curve = np.array(weft.vmap(weft.grad(weft.grad(_grown)))(weft.array(x)))
    again = np.array(weft.grad(lambda a: weft.sum(of_rows(a)))(weft.array(x)))
    np.testing.assert_allclose(again, curve, rtol=1e-12)


def test_while_loops_in_a_scan_are_differentiated():
    x = np.linspace(0.1, 2.3, 6)
    total = weft.grad(lambda a: weft.scan(lambda c, e: (c + _grown(e), None), a[0] * 0, a)[0])
    np.testing.assert_allclose(np.array(total(weft.array(x))), [_slope_of_grown(a) for a in x], rtol=1e-12)


def test_a_while_loop_is_compiled():
    f = weft.compile(lambda a: weft.while_loop(lambda s: s < 100.0, lambda s: s * a, weft.array(1.0)))
    assert [f(weft.array(a)).item() for a in (3.0, 10.0, 3.0)] == [243, 100, 243]


def test_scan_keeps_the_last_rows_only(rng):
    x = weft.array(rng.standard_normal(9))

    def f(x, tail):
        _, ys = weft.scan(lambda c, e: (weft.tanh(c * e) + e, {"a": c, "b": None}), weft.array(0.5, dtype=weft.float64), x, tail=tail)
        assert ys["b"] is None
        return ys["a"]

    for k in (1, 4, 9, 20):
        rows = min(k, 9)
        assert np.array_equal(np.array(f(x, k)), np.array(f(x, None))[9 - rows:])
        last = weft.grad(lambda x: f(x, k).sum())(x)
        np.testing.assert_allclose(np.array(last), np.array(weft.grad(lambda x: f(x, None)[9 - rows:].sum())(x)), rtol=1e-13)
    assert weft.vmap(lambda x: f(x, 2))(weft.stack([x, x + 1])).shape == (2, 2)
    weft.clear_cache()
    weft.reset_peak_memory()
    _, ys = weft.scan(lambda c, _: (c * 0.5 + 1, c), weft.ones(1000), length=10_000, tail=5)
    weft.eval(ys)
    assert ys.shape == (5, 1000) and weft.get_peak_memory() < 1_000_000


def test_what_only_the_run_knows_is_said_when_the_shape_is_asked_for():
    for length, message in ((-3, "-3 steps"), (4, "needs 4 elements of an axis that has 3")):
        _, ys = weft.scan(lambda c, x: (c + x, c), weft.array(0.0), weft.ones(3), length=weft.array(length))
        with pytest.raises(ValueError, match=message):
            ys.shape
        with pytest.raises(ValueError, match=message):
            ys.tolist()


@pytest.mark.parametrize("view", [lambda c: c[::-1], lambda c: weft.broadcast_to(c[:1], (3,)), lambda c: c[2], lambda c: (c * c)[::-1]])
def test_views_of_carries_are_what_they_show(view):
    x = np.array([1.0, 2.0, 3.0])

    def shown(c):
        return np.array(view(weft.array(c)))

    _, ys = weft.scan(lambda c, _: (c * 10, view(c)), weft.array(x), length=3)
    np.testing.assert_array_equal(np.array(ys), [shown(x), shown(10 * x), shown(100 * x)])
    if shown(x).shape == (3,):
        last, _ = weft.scan(lambda c, _: (view(c), None), weft.array(x), length=3)
        np.testing.assert_array_equal(np.array(last), shown(shown(shown(x))))


def test_a_body_with_a_loop_and_a_choice_inside_reads_rows_from_around_them():
    x = weft.array([1.0, 2.0, 3.0])

    def body(carry, _):
        a, b = carry
        ys = weft.scan(lambda d, _: (d * 1.5, b[-1]), a, length=17, reverse=True)[1]
        i = weft.sin(ys * 1.3).sum() * 0.2 + weft.zeros((3,))
        k = weft.cond(a.sum() > 0, lambda p, q: weft.full((3,), 0.3), lambda p, q: weft.full((3,), 0.4), a, i)
        return (i, weft.full((3,), 0.1)), weft.tanh(b * 0.5 + k)

    ys = np.array(weft.scan(body, (x, x), length=17)[1])
    a, b = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    for y in ys:
        i = np.full(3, 17 * np.sin(b[-1] * 1.3) * 0.2)
        np.testing.assert_allclose(y, np.tanh(b * 0.5 + (0.3 if a.sum() > 0 else 0.4)), rtol=1e-5)
        a, b = i, np.full(3, 0.1)


# ---- what bodies may return, and may not do


def test_numbers_that_a_body_returns_are_values():
    last, ys = weft.scan(lambda c, x: (c + x, True), weft.array(0.0), weft.array([1.0, 2.0]))
    assert ys.dtype is weft.bool_ and ys.tolist() == [True, True]
    last, ys = weft.scan(lambda c, _: (0, 2j), weft.array([1.5, 2.5]), length=3)
    assert last.dtype is weft.float32 and last.tolist() == [0.0, 0.0] and ys.tolist() == [2j] * 3
    value, flag = weft.while_loop(lambda c: c[1], lambda c: (c[0] + 1, c[0] < 3), (0, True))
    assert value.tolist() == 4 and flag.tolist() is False
    assert weft.cond(weft.array(False), lambda: True, lambda: False).tolist() is False


def test_a_carry_that_changes_its_dtype_is_named():
    double = weft.array([1.0, 2.0], dtype=weft.float64)
    with pytest.raises(TypeError, match=r"scan: carry 1 begins as float32 and the body makes it float64.*astype\(weft.float32\)"):
        weft.scan(lambda c, _: ((c[0], c[1] * double), None), (weft.zeros(2), weft.zeros(2)), length=2)
    with pytest.raises(TypeError, match="while_loop: carry 0 begins as int32 and the body makes it float32"):
        weft.while_loop(lambda c: c < 3, lambda c: c * 1.5, 1)
    with pytest.raises(ValueError, match="^scan: ") as error:
        weft.scan(lambda c, _: (weft.zeros(3), None), weft.zeros(2), length=2)
    assert "weft_" not in str(error.value)
    with pytest.raises(TypeError, match="cond: result 0 is float32 on one side and int32 on the other"):
        weft.cond(weft.array(True), lambda: 1.0, lambda: 1)
    with pytest.raises(TypeError, match=r"scan: the body returns a pair"):
        weft.scan(lambda c, _: c, weft.zeros(2), length=2)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tail_of_0_keeps_nothing(reverse):
    last, ys = weft.scan(lambda c, x: (c + x, c * x), weft.array(0.0), weft.array([1.0, 2.0, 3.0]), tail=0, reverse=reverse)
    assert last.tolist() == 6 and ys.shape == (0,)
    slope = weft.grad(lambda x: sum(y.sum() for y in weft.scan(lambda c, _: (c * 2, c), x, length=3, tail=0)))(weft.array([1.0]))
    assert slope.tolist() == [8]
    with pytest.raises(ValueError, match="tail=-1 is negative"):
        weft.scan(lambda c, x: (c + x, c * x), weft.array(0.0), weft.array([1.0]), tail=-1)


def test_a_condition_is_one_bool():
    for say in (lambda x: weft.while_loop(lambda c: c < 3, lambda c: c + 1, x), lambda x: weft.cond(x < 3, lambda: x, lambda: x)):
        with pytest.raises(ValueError, match="the condition is one bool, not an array of 1 axes: weft.all or weft.any"):
            say(weft.array([1.0, 2.0]))


def captured_and_changed():
    """Ways to change an array from outside in a body."""
    x, y = weft.array([1.0, 2.0]), weft.zeros(2)

    def item(c):
        y[0] = c[0]
        return c

    def sum_(c):
        nonlocal y
        y += c
        return c
    for change in (item, sum_):
        yield x, y, "scan", lambda: weft.scan(lambda c, _: (change(c), None), x, length=2)
        yield x, y, "while_loop", lambda: weft.while_loop(lambda c: c.sum() < 9, lambda c: change(c) * 2, x)
        yield x, y, "cond", lambda: weft.cond(weft.array(True), change, lambda c: c, x)
        yield x, y, "vmap", lambda: weft.vmap(lambda c: change(c))(weft.array([[1.0, 2.0]]))
        yield x, y, "compile", lambda: weft.compile(change)(x)
        yield x, y, "scan", lambda: weft.compile(lambda x: weft.scan(lambda c, _: (change(c), None), x, length=2)[0])(x)


def test_what_is_captured_is_not_changed_by_a_body():
    for x, y, who, program in captured_and_changed():
        with pytest.raises(ValueError, match=f"^{who}: an array from outside cannot be changed in here"):
            program()
        y += x  # it still is what it was
        assert y.tolist() == [1, 2]
        y -= x


def test_what_a_body_makes_it_may_change():
    def body(c, _):
        y = weft.zeros(2)
        y[0] = c[0]
        c += 1
        return c, y
    last, ys = weft.scan(body, weft.array([1.0, 2.0]), length=2)
    assert last.tolist() == [3, 4] and ys.tolist() == [[1, 0], [2, 0]]


def test_a_mapped_function_may_count_its_steps_apart_from_the_rows():
    def counted(x):
        return weft.while_loop(lambda c: c[1] < 4, lambda c: (c[0] * 1.5, c[1] + 1), (x, weft.array(0)), bound=9)[0]

    rows = weft.array([[1.0, 2.0, 3.0], [0.3, 0.2, 0.1]])
    f = weft.compile(counted)
    np.testing.assert_allclose(np.array(weft.vmap(lambda x: f(2 * x))(rows)), 2 * 1.5**4 * np.array(rows), rtol=1e-6)
    g = weft.grad(lambda x: weft.cond(x.sum() > 2, counted, lambda p: p * 2, x).sum())
    np.testing.assert_allclose(np.array(weft.vmap(g)(rows)), [[1.5**4] * 3, [2] * 3], rtol=1e-6)


TABLE = [1.5, -0.5, 3.0]


def read_below_three(a, k):
    return weft.cond(k < 3, lambda k: a[k] * a[k], lambda k: weft.array(-1.0), k)


def read_to_the_end(a, k):
    return weft.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5 + a[c[0]]), (k, weft.array(1.0)), bound=8)[1]


def read_in_a_scan(a, k):
    def read():
        return weft.scan(lambda c, x: (c * x + a[k], c), weft.array(1.0), a)[0]

    return weft.cond(k < 3, read, lambda: weft.array(-1.0))


def write_below_three(a, k):
    return weft.cond(k < 3, lambda: a.at[k].add(2.0) * a, lambda: a)


@pytest.mark.parametrize("f", [read_below_three, read_to_the_end, read_in_a_scan, write_below_three])
def test_a_row_of_a_map_fails_only_where_it_would_alone(f):
    a, rows = weft.array(TABLE), [0, 7, 2, 1]
    ks = weft.array(rows)
    one = np.array([np.array(f(a, weft.array(k))) for k in rows])

    def slope(a, k):
        return weft.grad(lambda a: f(a, k).sum())(a)

    def total(a):
        return weft.vmap(lambda k: f(a, k))(ks).sum()

    slopes = np.array([np.array(slope(a, weft.array(k))) for k in rows])
    np.testing.assert_allclose(np.array(weft.vmap(lambda k: f(a, k))(ks)), one, rtol=1e-6)
    np.testing.assert_allclose(np.array(weft.compile(weft.vmap(lambda k: f(a, k)))(ks)), one, rtol=1e-6)
    np.testing.assert_allclose(np.array(weft.vmap(lambda k: slope(a, k))(ks)), slopes, rtol=1e-6)
    np.testing.assert_allclose(np.array(weft.grad(total)(a)), slopes.sum(0), rtol=1e-6)
    with pytest.raises(IndexError):
        np.array(weft.vmap(lambda k: f(a, k))(weft.array([0, -4])))


def two_whiles(x):
    """A scan over two whiles that recompute, the second with what the first has made."""

    def step(c, _):
        u = weft.while_loop(lambda v: v.sum() < 20, lambda v: v * 1.5, c, bound=10, recompute=2)
        v = weft.while_loop(lambda v: v.sum() < 60, lambda v: v * 1.2 + u * 0.01, c, bound=30, recompute=3)
        return weft.tanh(v * 0.1), u.sum()

    carry, sums = weft.scan(step, x, length=3)
    return carry.sum() + sums.sum()


def two_whiles_plainly(c):
    total = 0.0
    for _ in range(3):
        u, v = c, c
        for _ in range(10 if u.sum() < 20 else 0):
            u = u * 1.5
            if not u.sum() < 20:
                break
        for _ in range(30 if v.sum() < 60 else 0):
            v = v * 1.2 + u * 0.01
            if not v.sum() < 60:
                break
        c, total = np.tanh(v * 0.1), total + u.sum()
    return c.sum() + total


def test_a_scan_over_two_whiles_that_recompute_is_differentiated_and_mapped():
    rows = np.array([[1.0, 2.0, 3.0], [0.5, 0.2, 0.1], [3.0, 3.0, 3.1]])
    expected = np.zeros_like(rows)
    for i, j in np.ndindex(*rows.shape):
        h = 1e-6 * np.eye(3)[j]
        expected[i, j] = (two_whiles_plainly(rows[i] + h) - two_whiles_plainly(rows[i] - h)) / 2e-6
    x = weft.array(rows)
    assert two_whiles(x[0]).item() == pytest.approx(two_whiles_plainly(rows[0]), rel=1e-12)
    alone = [np.array(weft.grad(two_whiles)(x[i])) for i in range(3)]
    np.testing.assert_allclose(alone, expected, rtol=1e-6)
    np.testing.assert_allclose(np.array(weft.vmap(weft.grad(two_whiles))(x)), expected, rtol=1e-6)
    np.testing.assert_allclose(np.array(weft.compile(weft.vmap(weft.grad(two_whiles)))(x)), expected, rtol=1e-6)


def test_sequences_of_a_scan_have_as_many_rows_each():
    x, y = weft.arange(3.0), weft.arange(5.0)

    def body(c, r):
        return c + r[0] * r[1], c

    for xs in ((x, y), (y, x), {"a": x, "b": y}, (x, y[:0])):
        for more in ({}, {"reverse": True}, {"length": 2}):
            with pytest.raises(ValueError, match="rows: (3, 5|5, 3|3, 0)"):
                weft.scan(lambda c, r: (c, None), weft.array(0.0), xs, **more)
    with pytest.raises(ValueError, match="a number in xs has no rows"):
        weft.scan(body, weft.array(0.0), (x, 2.0))
    assert weft.scan(body, weft.array(0.0), (x, x))[0].item() == 5
    for reads in (body, lambda c, r: (c + 1, c)):
        any_size = weft.compile(lambda a, b: weft.scan(reads, weft.array(0.0), (a, b)), shapes="any")
        assert any_size(y, y)[1].shape == (5,)
        for a, b in ((x, y), (y, x)):
            with pytest.raises(ValueError, match="differ"):
                weft.eval(any_size(a, b))
    some = weft.compile(lambda a, b: weft.scan(body, weft.array(0.0), (a[a > 0.5], b))[0], shapes="any")
    assert some(y, y[1:]).item() == 30
    with pytest.raises(ValueError, match="differ"):
        weft.eval(some(y, y))


@pytest.mark.parametrize("how", [dict(bound=7), dict(recompute=2)])
def test_grad_of_a_mapped_while_loop_of_which_one_result_is_the_same_in_every_row(how):
    def both(v, r):
        return weft.while_loop(lambda c: c[0] < 3, lambda c: [c[0] + c[0], c[1] * c[0]], [v, r], **how)

    def loss(v, rs):
        a, b = weft.vmap(both, in_axes=(None, 0))(v, rs)
        return (a * b).sum()

    rs = np.array([1, 6, 0.25])
    for v, n in ((4.0, 0), (1.75, 1), (0.5, 3)):
        scale = 2.0 ** (n * (n + 1) // 2)
        dv, drs = weft.grad(loss, argnums=(0, 1))(weft.array(np.array(v)), weft.array(rs))
        np.testing.assert_allclose(np.asarray(dv), scale * (n + 1) * v**n * rs.sum())
        np.testing.assert_allclose(np.asarray(drs), np.full(3, scale * v ** (n + 1)))
