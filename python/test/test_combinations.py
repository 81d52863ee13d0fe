"""What a linker asks of weft, in combination: open sizes, sizes as values, slices by arrays, functions of the host, checks, choices, masks,
memory of the caller's, memory that a call may take over, pickling. Each is compared with NumPy, for several sizes by one trace."""
import multiprocessing
import pickle

import numpy as np
import pytest
import weft

LENGTHS = (5, 1, 0, 7, 2)


def count_of_traces(f):
    traced = []

    def counted(*args):
        traced.append(1)
        return f(*args)

    return weft.compile(counted, shapes="any"), traced


def halves_of(x):
    """Of each number the half, by NumPy."""
    return [np.asarray(x) / 2]


def number(k):
    return weft.array(k, dtype=weft.int64)


# ---- slices by arrays, in whatever is around them ----


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_slices_by_arrays_of_open_sizes_have_gradients(step):
    f, traced = count_of_traces(lambda x, i, j: weft.grad(lambda x: weft.sum(x[i:j:step] ** 3))(x))
    for n in (6, 9, 4):
        x = np.arange(1.0, n + 1)
        for i, j in ((0, 3), (-2, 100), (5, 1), (n, -n - 3), (2, 2)):
            want = np.zeros(n)
            want[i:j:step] = 3 * x[i:j:step] ** 2
            np.testing.assert_allclose(np.asarray(f(weft.asarray(x), number(i), number(j))), want)
    assert len(traced) == 1


def test_slices_by_arrays_inside_a_loop_are_those_of_each_step():
    def sums(x):
        return weft.scan(lambda k, _: (k + 1, weft.sum(x[k:])), number(0), None, length=4)[1]

    f, traced = count_of_traces(sums)
    for n in (4, 6, 2):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(np.asarray(f(weft.asarray(x))), [x[k:].sum() for k in range(4)])
    assert len(traced) == 1


def test_slices_by_arrays_in_a_choice():
    f = weft.compile(lambda x, i, p: weft.choose(p, x[i:], x[:i]) * 2, shapes="any")
    for n in (5, 3):
        x = np.arange(float(n))
        for i in (0, 1, 2, -1):
            for p in (True, False):
                assert np.asarray(f(weft.asarray(x), number(i), weft.array(p))).tolist() == (2 * (x[i:] if p else x[:i])).tolist()


# ---- functions of the host ----


def test_host_functions_in_loops_in_functions_in_maps(rng):
    def row(x):
        return weft.scan(lambda c, a: (weft.host(halves_of, [c + a], [((), weft.float64)])[0], c), x[0] * 0, x)

    f = weft.compile(weft.vmap(row))
    for n in (3, 2):
        x = rng.normal(size=(n, 4))
        last, before = f(weft.asarray(x))
        c, rows = np.zeros(n), []
        for k in range(4):
            rows.append(c)
            c = (c + x[:, k]) / 2
        np.testing.assert_allclose(np.asarray(last), c)
        np.testing.assert_allclose(np.asarray(before), np.stack(rows, 1))


def test_a_host_function_of_the_side_that_is_not_taken_is_not_called():
    called = []

    def noted(x):
        called.append(1)
        return [np.asarray(x) * 2]

    f = weft.compile(lambda x, p: weft.choose(p, weft.host(noted, [x], [((3,), weft.float64)])[0], x))
    x = weft.asarray(np.arange(3.0))
    assert np.asarray(f(x, weft.array(False))).tolist() == [0, 1, 2] and not called
    assert np.asarray(f(x, weft.array(True))).tolist() == [0, 2, 4] and len(called) == 1


def test_what_a_host_function_raises_inside_a_loop_of_a_function_is_raised_and_the_function_goes_on():
    def refuse(x):
        if np.asarray(x) > 2:
            raise KeyError("beyond two")
        return [np.asarray(x) + 1]

    f = weft.compile(lambda x: weft.while_loop(lambda c: c < 5, lambda c: weft.host(refuse, [c], [((), weft.float64)])[0], x))
    with pytest.raises(KeyError, match="beyond two"):
        weft.eval(f(weft.array(0.0, dtype=weft.float64)))
    assert f(weft.array(9.0, dtype=weft.float64)).item() == 9


# ---- checks ----


def test_a_check_in_a_side_of_a_choice_counts_if_the_side_is_taken():
    f = weft.compile(lambda x, p: weft.choose(p, weft.assert_(x, x > 0, "not positive"), -x), shapes="any")
    for n in (3, 2):
        x = weft.asarray(-np.ones(n))
        assert np.asarray(f(x, weft.array(False))).tolist() == [1] * n
        with pytest.raises(AssertionError, match="not positive"):
            weft.eval(f(x, weft.array(True)))
        assert np.asarray(f(-x, weft.array(True))).tolist() == [1] * n


def test_a_check_in_a_cond_in_a_loop():
    def step(c, a):
        return weft.cond(a > 0, lambda: c + a, lambda: weft.assert_(c - a, c > 5, "too small")), None

    f = weft.compile(lambda x: weft.scan(step, weft.array(0.0), x)[0])
    assert f(weft.array([3.0, 3.0, -1.0])).item() == 7
    with pytest.raises(AssertionError, match="too small"):
        weft.eval(f(weft.array([3.0, -1.0, 3.0])))


# ---- choices of other sizes, masks ----


def test_sides_of_different_sizes_in_a_loop_and_by_their_gradient():
    f = weft.compile(lambda x, p: weft.grad(lambda x: weft.sum(weft.choose(p, x[1:] ** 2, weft.concatenate([x, x]))))(x), shapes="any")
    for n in (4, 2, 6):
        x = np.arange(1.0, n + 1)
        assert np.asarray(f(weft.asarray(x), weft.array(True))).tolist() == [0, *(2 * x[1:])]
        assert np.asarray(f(weft.asarray(x), weft.array(False))).tolist() == [2] * n


def test_a_side_whose_size_only_a_run_tells_is_sliced_by_an_array():
    f = weft.compile(lambda x, i, p: weft.choose(p, x[x > 0][i:], x), shapes="any")
    for x in (np.array([1.0, -2.0, 3.0, 4.0]), np.array([-1.0, 5.0])):
        for i in (0, 1, -1, 9):
            assert np.asarray(f(x, np.int64(i), np.bool_(True))).tolist() == x[x > 0][i:].tolist()
            assert np.asarray(f(x, np.int64(i), np.bool_(False))).tolist() == x.tolist()


def test_a_check_in_a_side_whose_size_only_a_run_tells_counts_if_the_side_is_taken():
    f = weft.compile(lambda x, i, p: weft.choose(p, weft.assert_(x, x < 9, "large")[x > 0][i:], x), shapes="any")
    x = np.array([1.0, 9.0])
    assert np.asarray(f(x, np.int64(1), np.bool_(False))).tolist() == [1, 9]
    with pytest.raises(AssertionError, match="large"):
        weft.eval(f(x, np.int64(0), np.bool_(True)))


def test_masks_meet_slices_by_arrays_sums_and_gradients():
    def masked(x, i):
        y = x[x > 0]
        return weft.sum(y[i:] ** 2), weft.size(y, 0)

    f, traced = count_of_traces(lambda x, i: (weft.grad(lambda x: masked(x, i)[0])(x), *masked(x, i)))
    for n in (6, 3, 9):
        x = np.linspace(-1, 2, n)
        for i in (0, 1, -1, 50):
            slope, value, size = (np.asarray(y) for y in f(weft.asarray(x), number(i)))
            places = np.flatnonzero(x > 0)[i:]
            want = np.zeros(n)
            want[places] = 2 * x[places]
            np.testing.assert_allclose(slope, want)
            np.testing.assert_allclose(value, np.sum(x[places] ** 2))
            assert size == np.count_nonzero(x > 0)
    assert len(traced) == 1


# ---- memory ----


def test_results_are_written_into_memory_of_the_callers(rng):
    f = weft.compile(lambda x: (x * 2, weft.sum(x)), shapes="any")
    for n in LENGTHS:
        x, y, total = rng.normal(size=n), np.empty(n), np.empty(())
        weft.fetch(f(weft.asarray(x)), (y, total))
        assert y.tolist() == (2 * x).tolist() and total == pytest.approx(x.sum())
    x = np.arange(4.0)
    weft.fetch(weft.asarray(x)[::-1] + 1, x)  # which is read and written
    assert x.tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("out, error", [
    (np.empty(4), ValueError), (np.empty((3, 1)), ValueError), (np.empty(3, np.float32), TypeError), (np.empty(6)[::2], ValueError),
    (bytes(24), (BufferError, TypeError, ValueError)), (3.0, TypeError), ([1.0, 2.0, 3.0], TypeError)])
def test_memory_that_does_not_fit_is_refused_and_left_alone(out, error):
    before = np.array(out, copy=True) if isinstance(out, np.ndarray) else out
    with pytest.raises(error):
        weft.fetch(weft.asarray(np.arange(3.0)), out)
    if isinstance(out, np.ndarray):
        np.testing.assert_array_equal(out, before)


def test_nothing_is_written_if_one_of_several_fails():
    x, y, z = weft.asarray(np.arange(3.0)), np.zeros(3), np.zeros(3)
    with pytest.raises(IndexError):
        weft.fetch([x + 1, x[weft.asarray(np.array([7, 0, 0]))]], [y, z])
    with pytest.raises(ValueError):
        weft.fetch([x + 1, x], [y])
    assert not y.any() and not z.any()


def test_an_array_that_nobody_else_holds_is_taken_over_by_the_call_that_replaces_it():
    n, f = 1 << 20, weft.compile(lambda x, y: x * 0.5 + y)
    x, y = weft.zeros(n), weft.ones(n)
    x = f(x, y)
    weft.eval(x, y)
    weft.reset_peak_memory()
    before = weft.get_peak_memory()
    for _ in range(3):
        x = f(x, y)
        weft.eval(x)
    assert weft.get_peak_memory() - before < 4 * n
    seen = np.asarray(x)  # from now on somebody else looks at it
    kept = seen.copy()
    x = f(x, y)
    weft.eval(x)
    assert (seen == kept).all() and (np.asarray(x) != kept).any()


def test_numpy_arguments_are_shared_whatever_their_layout(rng):
    f = weft.compile(lambda x: weft.sum(x * x, 0), shapes="any")
    x = rng.normal(size=(6, 4))
    for view in (x, x[::-1], x[:, ::2], x.T, x[1:1], np.asfortranarray(x), np.broadcast_to(x[:1], (5, 4))):
        np.testing.assert_allclose(np.asarray(f(view)), (view * view).sum(0))


# ---- names and pickles ----


def test_values_and_sizes_of_names_have_an_exception_of_their_own():
    for look in (lambda x: float(x[0]), lambda x: x.shape, lambda x: bool(weft.any(x > 0)), lambda x: int(weft.size(x, 0)),
                 lambda x: x.tolist(), lambda x: np.asarray(x), lambda x: weft.fetch(x, np.empty(3)), lambda x: range(weft.size(x, 0))):
        with pytest.raises(weft.NoValueError):
            weft.compile(lambda x: (look(x), x)[1], shapes="any")(weft.ones(3))


@weft.compile(shapes="any")
def positive_part(x, i, p):
    y = weft.choose(p, x[x > 0][i:], weft.host(halves_of, [x], [((), weft.float64)] if x.ndim == 0 else [((4,), weft.float64)])[0])
    return weft.assert_(y, weft.size(y, 0) < 100, "long")


positive_part(np.array([1.0, -2.0, 3.0, 4.0]), np.int64(1), np.bool_(True))  # traced before a test counts what it leaves behind


def called_elsewhere(data, args):
    return pickle.loads(data)(*args)


def test_pickled_functions_of_open_sizes_with_masks_choices_checks_and_host_functions():
    data, x = pickle.dumps(positive_part), np.array([1.0, -2.0, 3.0, 4.0])
    for p, want in ((True, [3, 4]), (False, [0.5, -1, 1.5, 2])):
        args = x, np.int64(1), np.bool_(p)
        assert np.asarray(called_elsewhere(data, args)).tolist() == want
    with pytest.raises(pickle.PicklingError, match="lambda"):
        pickle.dumps(weft.compile(lambda x: x))


def run_in_child(data):
    return np.asarray(called_elsewhere(data, (np.array([1.0, -2.0, 3.0, 4.0]), np.int64(1), np.bool_(True)))).tolist()


def test_a_pickled_function_runs_in_a_process_that_was_spawned():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(run_in_child, (pickle.dumps(positive_part),)) == [3, 4]
