import functools
import math
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
import weft
from test_transforms import FUNCTIONS


def bits(a):
    return np.array(a).tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_is_eager_bit_for_bit(name, rng):
    f = FUNCTIONS[name]
    for dtype in [np.float32, np.float64]:
        x = weft.array(rng.standard_normal((3, 4)).astype(dtype))
        assert bits(weft.compile(f)(x)) == bits(f(x))
        assert bits(weft.compile(weft.grad(f))(x)) == bits(weft.grad(f)(x))


def test_a_function_is_traced_once_for_every_set_of_shapes_dtypes_and_constants():
    traced = []

    @weft.compile
    def f(x, k=1):
        traced.append(k)
        return x * k

    for _ in range(3):
        assert f(weft.array([1.0, 2.0])).tolist() == [1, 2]
    assert len(traced) == 1
    f(weft.array([1.0]))
    f(weft.array([1, 2]))
    assert len(traced) == 3
    for k in [2, 2.0, True, 0.0, -0.0, 2]:
        f(weft.array([1.0, 2.0]), k=k)
    assert len(traced) == 8
    f(weft.array([1.0, 2.0]), float("nan"))
    f(weft.array([1.0, 2.0]), float("nan"))
    assert len(traced) == 9


def test_numpy_arguments_are_arrays():
    f = weft.compile(lambda x: x + 1)
    assert f(np.array([1.0, 2.0], dtype=np.float32)).tolist() == [2, 3]
    assert f(np.array([5.0, 6.0], dtype=np.float32)).tolist() == [6, 7]


def test_captured_arrays_are_constants_of_the_first_trace():
    c = weft.array([10.0])
    f = weft.compile(lambda x: x + c)
    assert f(weft.array([1.0])).tolist() == [11]
    c += 5
    assert f(weft.array([1.0])).tolist() == [11]


def test_what_is_captured_is_differentiated_and_mapped_too():
    x, rows = weft.array([1.0, 2.0, 3.0]), weft.array([[10.0, 20.0, 30.0], [1.0, 1.0, 1.0]])

    def f(q):
        return weft.compile(lambda z: z * q * q)(x)

    assert weft.grad(lambda q: f(q).sum())(x).tolist() == [2, 8, 18]
    assert weft.jvp(f, [x], [weft.ones((3,))])[1][0].tolist() == [2, 8, 18]
    assert weft.vmap(f)(rows).tolist() == [[100, 800, 2700], [1, 2, 3]]
    assert weft.vmap(weft.grad(lambda q: f(q).sum()))(rows).tolist() == [[20, 80, 180], [2, 4, 6]]
    assert weft.grad(lambda q: weft.grad(lambda r: f(r).sum())(q).sum())(x).tolist() == [2, 4, 6]
    assert weft.grad(lambda q: weft.checkpoint(lambda p: f(q) * p)(x).sum())(x).tolist() == [2, 16, 54]
    assert weft.compile(weft.grad(lambda q: f(q).sum()))(x).tolist() == [2, 8, 18]
    assert weft.compile(lambda q: weft.vmap(f)(q))(rows).tolist() == [[100, 800, 2700], [1, 2, 3]]


def test_results_may_be_trees_and_other_things():
    f = weft.compile(lambda x: {"y": (x, x * 2), "n": 3, "none": None})
    for _ in range(2):
        r = f(weft.array([1.0]))
        assert r["y"][0].tolist() == [1] and r["y"][1].tolist() == [2] and r["n"] == 3 and r["none"] is None


def test_a_name_has_no_value_while_tracing():
    for wrong in [lambda x: x if x > 0 else -x, lambda x: float(x), lambda x: np.array(x), lambda x: x.tolist(), lambda x: weft.eval(x)]:
        with pytest.raises(ValueError):
            weft.compile(wrong)(weft.array(1.0))


def test_state_is_read_and_changed():
    state = {"w": weft.array([1.0, 2.0]), "n": weft.array(0)}

    def step(x):
        state["w"] = state["w"] - 0.5 * x
        state["n"] += 1
        return state["w"].sum()

    compiled = weft.compile(step, inputs=state, outputs=state)
    x = weft.array([1.0, 1.0])
    assert compiled(x).item() == 2
    assert compiled(x).item() == 1
    assert state["w"].tolist() == [0, 1] and state["n"].item() == 2


def test_compiled_functions_are_differentiated_mapped_and_nested():
    f = weft.compile(lambda x: weft.exp(x) * x)
    assert weft.grad(f)(1.0).item() == pytest.approx(2 * np.e, rel=1e-6)
    x = weft.array([[0.5, 1.0], [1.5, 2.0]])
    np.testing.assert_allclose(np.array(weft.vmap(f)(x)), np.array(f(x)), rtol=1e-6)
    g = weft.compile(lambda y: f(y).sum() + weft.grad(lambda z: f(z).sum())(y).sum())
    assert np.isfinite(g(x).item())


def test_training_step_compiles_with_its_gradient(rng):
    x = rng.standard_normal((64, 3)).astype(np.float32)
    w_true = np.array([1.0, -2.0, 0.5], dtype=np.float32)
    data, target = weft.array(x), weft.array(x @ w_true)

    @weft.compile
    def step(w, rate):
        g = weft.grad(lambda v: ((data @ v - target) ** 2).mean())(w)
        return w - rate * g

    w = weft.zeros(3)
    for _ in range(200):
        w = step(w, 0.1)
        weft.eval(w)
    np.testing.assert_allclose(np.array(w), w_true, atol=1e-3)


def test_reversed_reads_compile():
    x = weft.arange(7).astype(weft.float32)
    assert weft.compile(lambda a: 2 * a[::-1])(x).tolist() == [12, 10, 8, 6, 4, 2, 0]


def test_exact_keeps_rewrites_that_change_rounding_out(rng):
    def f(x):
        return (x / weft.sqrt(weft.square(weft.sqrt((x * x).mean())) + 1e-5)).sum()

    for _ in range(20):
        x = weft.array(rng.standard_normal((8, 16)).astype(np.float32))
        assert bits(weft.compile(weft.grad(f), rewrites="exact")(x)) == bits(weft.grad(f)(x))


def test_fast_rounds_a_product_and_a_sum_once():
    def f(x, y):
        return x * y - 1.00048828125

    def loop(x, y):
        return weft.scan(lambda c, _: (c * y - 1.00048828125, ()), x, length=1)[0]

    x, y = weft.array([1 + 2**-12, 3.0]), weft.array([1 + 2**-12, 7.0])
    assert weft.compile(f)(x, y).tolist() == f(x, y).tolist() == [0, 19.99951171875]
    assert weft.compile(loop)(x, y).tolist() == [0, 19.99951171875]
    assert weft.compile(f, rewrites="fast")(x, y).tolist() == [2**-24, 19.99951171875]
    assert weft.compile(loop, rewrites="fast")(x, y).tolist() == [2**-24, 19.99951171875]
    assert weft.compile(lambda x: x / 3, rewrites="fast")(y).tolist() == (np.array(y) * np.float32(1 / 3)).tolist()
    assert f(x, y).tolist() == [0, 19.99951171875]
    with pytest.raises(ValueError, match="rewrites='faster' is none of exact, stable, fast"):
        weft.compile(f, rewrites="faster")


def test_a_known_call_takes_the_short_way_and_gives_the_same():
    f = weft.compile(lambda x, y: (x + y, x * y))
    x, y = weft.array([1.0, 2.0]), weft.array([3.0, 5.0])
    first, second = f(x, y), f(x, y)
    assert type(second) is tuple and [bits(a) for a in first] == [bits(a) for a in second]
    assert [a.tolist() for a in f(x, y=y)] == [[4, 7], [3, 10]]
    assert [a.tolist() for a in f(x, np.array([3.0, 5.0], np.float32))] == [[4, 7], [3, 10]]
    assert [a.tolist() for a in f(weft.array([[1.0]]), y)] == [[[4, 6]], [[3, 5]]]
    g = weft.compile(lambda x: [x + 1])
    assert type(g(x)) is list and type(g(x)) is list and g(x)[0].tolist() == [2, 3]
    none = weft.compile(lambda x: ())
    assert none(x) == () and none(x) == ()


def test_a_short_call_looks_at_types_ranks_and_sizes():
    f = weft.compile(lambda x: x / 2)
    for _ in range(2):
        assert f(weft.array([2.0, 4.0])).tolist() == [1, 2]
        assert f(weft.array([[2.0, 4.0]])).tolist() == [[1, 2]]
        assert f(weft.array([2, 4])).dtype == weft.float32
        assert f(weft.array([2.0, 4.0], dtype=weft.float64)).dtype == weft.float64
        assert f(weft.array(3.0)).tolist() == 1.5


def test_a_compiled_function_looks_like_its_function_and_is_a_method():
    class Model:
        scale = 3.0

        @weft.compile
        def run(self, x):
            """Scales."""
            return x * self.scale

    m = Model()
    assert Model.run.__name__ == "run" and Model.run.__doc__ == "Scales." and callable(Model.run.__wrapped__)
    for _ in range(2):
        assert m.run(weft.array([1.0])).tolist() == [3]


def test_errors_of_a_known_call_name_the_shapes():
    f = weft.compile(lambda x, y: x + y)
    x = weft.array([1.0, 2.0])
    f(x, x)
    with pytest.raises(ValueError, match=r"\[2\].*\[3\]"):
        f(x, weft.array([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError):
        f(x)


def test_a_hundred_lengths_are_one_compilation():
    f = weft.compile(lambda x: weft.softmax(weft.tanh(x) * 2 + 1.625))
    x = [weft.array([0.5] * n) for n in range(101, 201)]
    weft.eval(x)
    before = weft.kernels_compiled()
    for a in x:
        weft.eval(f(a))
    assert weft.kernels_compiled() == before + 1


def test_a_compiled_function_in_a_cycle_is_collected():
    import gc
    import weakref
    f = weft.compile(lambda x: x + 1)
    f(weft.array([1.0]))
    f.me, seen = f, weakref.ref(f)
    before = weft.live_nodes()
    del f
    gc.collect()
    assert seen() is None and weft.live_nodes() <= before


def test_short_and_long_evaluations_on_many_threads_agree():
    import threading
    f = weft.compile(lambda x: x * 2 + 1)
    wrong = []

    def work(n):
        x = weft.array(np.arange(n, dtype=np.float32))
        for _ in range(50):
            y = f(x)
            weft.eval(y, [y, {"z": y}])
            if float(y[-1]) != 2 * (n - 1) + 1:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (4, 100, 300000, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_compile_with_options_is_a_decorator():
    @weft.compile(rewrites="exact")
    def f(x):
        """doc"""
        return x * 2 + 1
    assert f(weft.array([1.0])).tolist() == [3] and f.__name__ == "f" and f.__doc__ == "doc"

    @weft.compile
    def g(x):
        return x * 3
    assert g(weft.array([1.0])).tolist() == [3]
    with pytest.raises(ValueError, match="rewrites='most'"):
        weft.compile(rewrites="most")


def test_state_that_a_function_replaces_is_as_before_unless_it_is_an_output():
    state = {"x": weft.array([1.0]), "list": [weft.array([2.0])]}

    def f(y):
        out = state["x"] + y + state["list"][0]
        state["x"] = state["x"] * 10
        state["list"].append(y)
        state["new"] = y
        return out
    h = weft.compile(f, inputs=state)
    y = weft.array([5.0])
    for _ in range(3):
        assert h(y).tolist() == [8]
    assert list(state) == ["x", "list"] and state["x"].tolist() == [1] and len(state["list"]) == 1
    h = weft.compile(lambda y: f(y), inputs=state, outputs=[state])
    assert [h(y).tolist() for _ in range(2)] == [[8], [17]]
    assert state["x"].tolist() == [100] and state["new"].tolist() == [5]


def test_one_trace_serves_all_sizes(rng):
    traces = []

    @weft.compile(shapes="any")
    def f(x, y):
        traces.append(0)
        return weft.exp(x).sum(0) + y * weft.size(x, 0), x[1:] - x[:-1]

    for n in (2, 3, 7, 50):
        x, y = rng.standard_normal((n, 4)), rng.standard_normal(4)
        total, steps = f(weft.array(x), weft.array(y))
        np.testing.assert_allclose(np.array(total), np.exp(x).sum(0) + y * n, rtol=1e-12)
        np.testing.assert_array_equal(np.array(steps), np.diff(x, axis=0))
    assert len(traces) == 1
    f(weft.ones((1, 4)), weft.ones(4))  # a size of 1 stretches, another dtype promotes: other traces
    assert len(traces) == 2
    with pytest.raises(ValueError, match="differ|broadcast"):
        f(weft.zeros((3, 4), weft.float64), weft.zeros(5, weft.float64))


def test_shapes_say_which_sizes_are_fixed():
    traces = []

    def f(x, y):
        traces.append(0)
        with pytest.raises(weft.NoValueError):
            x.shape
        return weft.vmap(lambda a, b: a * b.sum())(x, y)

    compiled = weft.compile(f, shapes=[(None, 2), (None, 3)])
    for n in (0, 1, 2, 5):
        assert compiled(weft.ones((n, 2)), weft.ones((n, 3))).tolist() == [[3, 3]] * n
    assert len(traces) == 1
    with pytest.raises(ValueError, match=r"argument 2 is \[2,4\]"):
        compiled(weft.ones((2, 2)), weft.ones((2, 4)))
    with pytest.raises(ValueError, match="taken to be equal differ"):
        compiled(weft.ones((2, 2)), weft.ones((3, 3)))
    for wrong in ([(None, 2)], [(None,), (None, 3)], [(None, 2), (-1, 3)]):
        with pytest.raises(ValueError, match="compile"):
            weft.compile(f, shapes=wrong)(weft.ones((2, 2)), weft.ones((2, 3)))
    with pytest.raises(ValueError, match="shapes='all'"):
        weft.compile(f, shapes="all")


def test_functions_of_any_size_are_differentiated_mapped_looped_and_nested():
    inner = weft.compile(lambda y: y * y)
    total = weft.compile(lambda x: inner(x).sum() * x[1:].sum(), shapes="any")
    slope = weft.compile(weft.grad(total), shapes="any")
    for n in (2, 3, 5):
        x = weft.arange(1, n + 1, dtype=weft.float64)
        np.testing.assert_allclose(np.array(slope(x)), np.array(weft.grad(lambda x: (x * x).sum() * x[1:].sum())(x)))
        rows = weft.stack([x, x + 1])
        np.testing.assert_allclose(np.array(weft.vmap(total)(rows)), [total(x).item(), total(x + 1).item()])
    running = weft.compile(lambda x: weft.scan(lambda c, a: (c + a, c * a), weft.array(0.0), x), shapes="any")
    for n in (0, 1, 3, 4):
        last, all_of_them = running(weft.ones(n))
        assert last.item() == n and all_of_them.tolist() == list(range(n))


def test_a_function_of_memory_gives_memory_that_may_be_written_to_if_nobody_else_sees_it():
    with weft._core.Scope(), weft._core.Scope() as body:
        x = weft._core.input(weft.zeros(3, weft.float64), 0)
        y = x * 2
        f = body.compile([x], [y, weft._core.alias(x), y[::-1], weft._core.alias(weft.broadcast_to(x[:1], (4,)))])
    a = np.arange(3.0)
    for _ in range(2):
        twice, same, flipped, ones = (np.asarray(r) for r in f.run(a))
        shares = np.shares_memory(twice, flipped)
        assert not same.flags.writeable and twice.flags.writeable == flipped.flags.writeable == (not shares)
        assert not ones.flags.writeable or ones.strides != (0,)
        if twice.flags.writeable:
            twice[:] = 7
        assert flipped.tolist() == [4, 2, 0] and a.tolist() == [0, 1, 2] and ones.tolist() == [0] * 4
    with pytest.raises(TypeError):
        f.run()
    with pytest.raises(TypeError):
        f.run(object())


@weft.compile
def doubled(x):
    return 2 * x


def halved(x):
    return x / 2


class Holder:
    @weft.compile
    def tripled(x):
        return 3 * x


KEPT = [doubled, Holder.tripled, weft.compile(halved, rewrites="exact", shapes="any")]
for kept in KEPT:  # traced before a test counts what it leaves behind
    kept(weft.array([1.0, 4.0]))


@pytest.mark.parametrize("f", KEPT)
def test_a_compiled_function_is_pickled_as_what_can_be_imported(f):
    again = pickle.loads(pickle.dumps(f))
    x = weft.array([1.0, 4.0])
    assert again(x).tolist() == f(x).tolist()
    assert again.open == f.open and again.__weft_options__ == f.__weft_options__
    assert (again is f) == (f.__wrapped__ is not halved)


def test_what_cannot_be_imported_is_not_pickled_and_says_so():
    for f in (weft.compile(lambda x: x), weft.compile(functools.partial(halved))):
        with pytest.raises(pickle.PicklingError, match="imported by its name"):
            pickle.dumps(f)
    state = [weft.array(1.0)]
    with pytest.raises(pickle.PicklingError, match="state"):
        pickle.dumps(weft.compile(halved, inputs=state, outputs=state))


def test_a_compiled_function_runs_in_other_processes():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(run_there, (doubled,)) == [2.0, 6.0]


def run_there(f):
    return f(weft.array([1.0, 3.0])).tolist()


# ---- Many kinds of arguments


def resident_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.parametrize("made", ["lazy", "by position", "by keyword"])
def test_ten_thousand_shapes_take_no_more_memory_than_a_thousand(made):
    f = weft.compile(lambda x: weft.sum(x * x + 1) + weft.sum(weft.exp(-x)))
    for n in range(1, 10001):
        x = weft.ones((n,)) if made == "lazy" else weft.array(np.ones(n, np.float32))
        y = f(x=x) if made == "by keyword" else f(x)
        weft.eval(y)
        if n % 997 == 0:
            assert y.item() == pytest.approx(2 * n + n * math.exp(-1), rel=1e-5)
        if n == 1000:
            before = resident_bytes()
    assert resident_bytes() - before < 40 << 20  # 100 KB each they were 1 GB


@pytest.mark.parametrize("call", [lambda f, x: f(x), lambda f, x: f(x=x)])
def test_shapes_that_come_again_are_traced_once_among_many_others(call):
    traced = []

    @weft.compile
    def f(x):
        traced.append(x.shape)
        return x + 1

    for n in range(3, 2000):
        for again in (1, 2):
            assert call(f, weft.zeros((again,))).tolist() == [1.0] * again
        call(f, weft.zeros((n,)))
    assert traced.count((1,)) == traced.count((2,)) == 1


def test_a_shape_that_was_forgotten_is_traced_again():
    traced = []

    @weft.compile
    def f(x):
        traced.append(x.shape)
        return [x + 1, x * 2]

    for n in [*range(1, 1500), 1]:
        a, b = f(weft.ones((n,)))
    assert (a.tolist(), b.tolist()) == ([2.0], [2.0])
    assert traced.count((1,)) == 2


def test_threads_call_what_other_threads_forget():
    f = weft.compile(lambda x: x + 1)
    wrong = []

    def work(first):
        for n in range(first, first + 700):
            if f(weft.ones((n % 900 + 1,))).shape != (n % 900 + 1,) or f(weft.ones((3,))).tolist() != [2.0] * 3:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(200 * i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("f", [weft.sin, weft.sum, weft.grad(lambda x: weft.sum(x * x)), lambda x: weft.reshape(x, (1, -1))])
def test_a_map_of_any_number_of_rows_may_have_none(f):
    mapped = weft.compile(weft.vmap(f), shapes="any")
    for n in (3, 0, 1, 0):
        x = weft.array(np.arange(4.0 * n, dtype=np.float32).reshape(n, 4))
        assert bits(mapped(x)) == bits(weft.vmap(f)(x)) and mapped(x).shape == weft.vmap(f)(x).shape
