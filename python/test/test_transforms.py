import collections

import numpy as np
import pytest
import weft


def numeric_gradient(f, x, eps=1e-6):
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        g[i] = (float(f(weft.array(up))) - float(f(weft.array(down)))) / (2 * eps)
    return g


INDEX = [0, 2, 2, 1]
FUNCTIONS = {
    "polynomial": lambda x: (x * x * x - 2 * x).sum(),
    "exp_tanh": lambda x: (weft.exp(-x * x) * weft.tanh(x)).sum(),
    "division": lambda x: (1 / (1 + x * x)).sum(),
    "sqrt_log": lambda x: weft.log(weft.sqrt(x * x + 1)).sum(),
    "rsqrt": lambda x: weft.rsqrt(x * x + 1).sum(),
    "sigmoid": lambda x: weft.sigmoid(x).sum(),
    "log1p": lambda x: weft.log1p(x * x).sum(),
    "mean_of_rows": lambda x: (x.mean(axis=1) ** 2).sum(),
    "sum_of_columns": lambda x: (x.sum(axis=0) ** 3).sum(),
    "max": lambda x: (x.max(axis=1) ** 2).sum(),
    "prod": lambda x: (x + 2).prod(axis=1).sum(),
    "softmax": lambda x: (weft.softmax(x, axis=1) * weft.arange(4)).sum(),
    "logsumexp": lambda x: (x.logsumexp(axis=0) ** 2).sum(),
    "cumsum": lambda x: (x.cumsum(axis=1) ** 2).sum(),
    "cumsum_outer": lambda x: (x.cumsum(axis=0, reverse=True) ** 2).sum(),
    "reversed": lambda x: (x[::-1] * x * weft.arange(4)).sum(),
    "strided": lambda x: (x[:, ::2] ** 3).sum() + (x[::-2, 1:] ** 2).sum(),
    "transposed": lambda x: (x.T @ x).sum() + (x.T.reshape(3, 4) * x).sum(),
    "matmul": lambda x: weft.tanh(x @ x.T).sum(),
    "gather": lambda x: (x[weft.array(INDEX)] ** 2).sum(),
    "scatter": lambda x: (weft.zeros((3, 4), dtype=x.dtype).at[weft.array(INDEX[:3])].add(x * x) ** 2).sum(),
    "set": lambda x: (x.at[1:, ::2].set(x[0, :2] ** 2) ** 2).sum(),
    "where": lambda x: weft.where(x > 0.1, x * x, -x).sum(),
    "maximum": lambda x: (weft.maximum(x, 0.3 * x.T.reshape(3, 4)) ** 2).sum(),
    "concatenate": lambda x: (weft.concatenate([x, x * x], axis=1) ** 2).sum(),
    "pad": lambda x: (weft.pad(x, 1, constant_values=2.0) ** 2).sum(),
    "rms_norm": lambda x: (weft.rms_norm(x, x[0] + 1) * weft.arange(4)).sum(),
    "layer_norm": lambda x: (weft.layer_norm(x, x[1], x[0]) * weft.arange(4)).sum(),
    "attention": lambda x: (weft.attention(x, x * x, x, scale=0.7, mask=weft.array([True, False, True])) * weft.arange(4)).sum(),
    "broadcast": lambda x: (x[:, :1] * x[:1] * x).sum(),
    "fma": lambda x: weft.fma(x, x, x).sum(),
    "var": lambda x: weft.var(x, 1).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_finite_differences(name, rng):
    f, x = FUNCTIONS[name], rng.standard_normal((3, 4))
    g = weft.grad(f)(weft.array(x))
    assert g.shape == x.shape and g.dtype is weft.float64
    np.testing.assert_allclose(np.array(g), numeric_gradient(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_and_reverse_mode_agree(name, rng):
    f, x, u = FUNCTIONS[name], rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    _, (forward,) = weft.jvp(f, [weft.array(x)], [weft.array(u)])
    backward = (weft.grad(f)(weft.array(x)) * u).sum()
    np.testing.assert_allclose(forward.item(), backward.item(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_map_is_a_loop_over_rows(name, rng):
    f, x = FUNCTIONS[name], rng.standard_normal((5, 3, 4))
    ys = np.array(weft.vmap(f)(weft.array(x)))
    np.testing.assert_allclose(ys, [f(weft.array(row)).item() for row in x], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["exp_tanh", "softmax", "reversed", "matmul", "gather", "rms_norm", "cumsum"])
def test_map_of_gradients_and_gradients_of_maps(name, rng):
    f, x = FUNCTIONS[name], rng.standard_normal((2, 3, 4))
    rows = np.array([np.array(weft.grad(f)(weft.array(row))) for row in x])
    np.testing.assert_allclose(np.array(weft.vmap(weft.grad(f))(weft.array(x))), rows, rtol=1e-10, atol=1e-12)
    whole = weft.grad(lambda a: weft.vmap(f)(a).sum())(weft.array(x))
    np.testing.assert_allclose(np.array(whole), rows, rtol=1e-10, atol=1e-12)


def test_gradients_nest():
    def f(x):
        return x * x * x * x

    assert weft.grad(f)(2.0).item() == 32
    assert weft.grad(weft.grad(f))(2.0).item() == 48
    assert weft.grad(weft.grad(weft.grad(f)))(2.0).item() == 48
    hessian = weft.vmap(lambda e: weft.jvp(weft.grad(lambda x: (x * x * x).sum()), [weft.array([1.0, 2.0])], [e])[1][0])(weft.eye(2))
    assert hessian.tolist() == [[6, 0], [0, 12]]


def test_arguments_and_results_are_trees():
    def f(params, x, scale=1.0):
        return (params["w"] * x + params["layers"][0]).sum() * scale, {"aux": x}

    params = {"w": weft.array([1.0, 2.0]), "layers": [weft.array([0.5, 0.5]), "name", None]}
    (value, aux), g = weft.value_and_grad(f)(params, weft.array([3.0, 4.0]), scale=2.0)
    assert value.item() == 24 and aux["aux"].tolist() == [3, 4]
    assert g["w"].tolist() == [6, 8] and g["layers"][0].tolist() == [2, 2] and g["layers"][1:] == ["name", None]


Pair = collections.namedtuple("Pair", "first second")


def test_trees_keep_their_types():
    tree = Pair(weft.array([1.0]), collections.OrderedDict(b=[weft.array([2.0])], a=(3, "x", weft.array([4.0]))))
    g = weft.grad(lambda t: (t.first * t.second["b"][0] * t.second["a"][2]).sum())(tree)
    assert type(g) is Pair and type(g.second) is collections.OrderedDict and list(g.second) == ["b", "a"]
    assert g.first.tolist() == [8] and g.second["b"][0].tolist() == [4] and g.second["a"][1] == "x"
    deep = weft.array([1.0])
    for _ in range(100000):
        deep = [deep]
    with pytest.raises(RecursionError):
        weft.eval(deep)
    while isinstance(deep, list):
        deep = deep[0]


def test_argnums_and_argnames():
    def f(x, y, z=None):
        return x * y * y + (0 if z is None else z * z)

    assert weft.grad(f, 1)(3.0, 4.0).item() == 24
    gx, gy = weft.grad(f, (0, 1))(3.0, 4.0)
    assert (gx.item(), gy.item()) == (16, 24)
    gx, named = weft.grad(f, 0, "z")(3.0, 4.0, z=weft.array(5.0))
    assert gx.item() == 16 and named["z"].item() == 10
    none, named = weft.grad(f, argnames=["z"])(3.0, 4.0, z=weft.array(5.0))
    assert none is None and named["z"].item() == 10
    for wrong in [-3, (0, 0), 5]:
        with pytest.raises(ValueError):
            weft.grad(f, wrong)(3.0, 4.0)


def test_what_cannot_be_differentiated_is_refused():
    with pytest.raises(ValueError):
        weft.grad(lambda x: x)(weft.array([1.0, 2.0]))
    with pytest.raises(ValueError):
        weft.grad(lambda x: 3.0)(weft.array(1.0))
    with pytest.raises(ValueError):
        weft.grad(lambda x: x * 1.0)(weft.array(1))


def test_an_argument_given_twice_has_two_gradients():
    a = weft.array(3.0)
    gx, gy = weft.grad(lambda x, y: x * x * y, (0, 1))(a, a)
    assert (gx.item(), gy.item()) == (18, 9)


def test_captured_and_stopped_arrays_are_constants():
    c = weft.array(5.0)
    assert weft.grad(lambda x: x * c)(2.0).item() == 5
    assert weft.grad(lambda x: x * weft.stop_gradient(x))(2.0).item() == 2
    assert weft.grad(lambda x: c * c)(2.0).item() == 0


def test_values_may_be_looked_at_while_differentiating():
    def f(x):
        y = x * x
        weft.eval(y)
        return y * 2 if y.item() > 1 else y

    assert weft.grad(f)(3.0).item() == 12
    assert weft.grad(f)(0.5).item() == 1


def test_in_place_updates_are_differentiated():
    def f(x):
        y = weft.zeros(3)
        y[0] = x * x
        y[1:] += x
        y *= 2
        return y.sum()

    assert weft.grad(f)(3.0).item() == 16


def test_an_exception_inside_a_transform_leaves_nothing_open():
    def f(x):
        raise KeyError("mine")

    for transform in [weft.grad, weft.vmap, weft.compile, weft.checkpoint]:
        with pytest.raises(KeyError, match="mine"):
            transform(f)(weft.array([1.0]))
    assert (weft.array([1.0]) + 1).tolist() == [2]


def test_axes_of_vmap():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    a, b = weft.array(x), weft.array(y)
    assert np.array_equal(np.array(weft.vmap(lambda r, s: r * s, in_axes=(0, None))(a, b)), x * y)
    assert np.array_equal(np.array(weft.vmap(lambda c: c * 2, in_axes=1, out_axes=1)(a)), x * 2)
    assert np.array_equal(np.array(weft.vmap(lambda c: c * 2, in_axes=-1)(a)), x.T * 2)
    assert np.array_equal(np.array(weft.vmap(lambda c, s: c + s, in_axes=(1, 0))(a, b)), x.T + y[:, None])
    tree = weft.vmap(lambda t: (t["a"] + t["b"], t["b"]), in_axes=({"a": 0, "b": None},), out_axes=(0, None))({"a": a, "b": b})
    assert tree[0].shape == (2, 3)
    constant = weft.vmap(lambda r: weft.ones(2))(a)
    assert constant.tolist() == [[1, 1], [1, 1]]
    nested = weft.vmap(weft.vmap(lambda p, q: p * q, in_axes=(None, 0)), in_axes=(0, None))(b, b)
    assert np.array_equal(np.array(nested), np.outer(y, y))
    with pytest.raises(ValueError):
        weft.vmap(lambda p, q: p + q)(a, b)
    with pytest.raises(ValueError):
        weft.vmap(lambda p: p, in_axes=None)(a)
    with pytest.raises(ValueError):
        weft.vmap(lambda p: p)(weft.array(1.0))


def test_a_mapped_name_has_no_value():
    with pytest.raises(ValueError):
        weft.vmap(lambda x: x if x > 0 else -x)(weft.array([1.0, -1.0]))
    shown = []
    weft.vmap(lambda x: shown.append(repr(x)) or x)(weft.array([[1.0]]))
    assert shown == ["array(<no value>, shape=(1,), dtype=float32)"]


def test_vjp_and_jvp_take_and_give_lists():
    outs, grads = weft.vjp(lambda x, y: (x * y, x + y), [weft.array(2.0), weft.array(3.0)], [weft.array(1.0), weft.array(10.0)])
    assert [o.item() for o in outs] == [6, 5] and [g.item() for g in grads] == [13, 12]
    outs, tangents = weft.jvp(lambda x, y: x * y, [weft.array(2.0), weft.array(3.0)], [weft.array(1.0), weft.array(10.0)])
    assert [o.item() for o in outs] == [6] and [t.item() for t in tangents] == [23]


def test_products_with_the_jacobian_of_a_function_that_changes_its_argument_in_place():
    def f(x):
        x += 1
        x *= x
        return x

    a = weft.array(2.0)
    assert weft.vjp(f, [a], [weft.array(1.0)])[1][0].item() == 6
    assert weft.jvp(f, [a], [weft.array(1.0)])[1][0].item() == 6
    assert a.item() == 2


def test_checkpoint_changes_nothing_but_what_is_kept():
    def f(x):
        return weft.tanh(weft.exp(x) * x).sum()

    x = weft.array([0.1, 0.2, -0.3])
    assert weft.grad(weft.checkpoint(f))(x).tolist() == weft.grad(f)(x).tolist()
    assert weft.checkpoint(f)(x).item() == f(x).item()


def test_custom_rules_are_used():
    @weft.custom_function
    def clipped(x, y):
        return x * y

    @clipped.vjp
    def clipped_vjp(primals, cotangent, output):
        x, y = primals
        return cotangent * 100, output * 0 + 7

    assert clipped(weft.array(2.0), weft.array(3.0)).item() == 6
    gx, gy = weft.grad(clipped, (0, 1))(weft.array(2.0), weft.array(3.0))
    assert (gx.item(), gy.item()) == (100, 7)
    chained = weft.grad(lambda x: clipped(x * x, x) * 2)(weft.array(3.0))
    assert chained.item() == 2 * 100 * 6 + 7

    @weft.custom_function
    def doubled(x):
        return x * 2

    @doubled.jvp
    def doubled_jvp(x, dx):
        return dx * 5

    @doubled.vmap
    def doubled_vmap(xs, axis):
        return xs * 3, axis

    assert weft.jvp(doubled, [weft.array(1.0)], [weft.array(1.0)])[1][0].item() == 5
    assert weft.vmap(doubled)(weft.array([1.0, 2.0])).tolist() == [3, 6]


def test_an_exception_in_a_rule_is_the_users():
    @weft.custom_function
    def f(x):
        return x * 2

    @f.vjp
    def f_vjp(x, dy, y):
        raise LookupError("in the rule")

    with pytest.raises(LookupError, match="in the rule"):
        weft.grad(f)(weft.array(1.0))

    @f.vjp
    def f_two(x, dy, y):
        return dy, dy

    with pytest.raises(ValueError):
        weft.grad(f)(weft.array(1.0))


def test_history_dropped_by_evaluation_is_never_a_zero():
    kept = []

    def f(x):
        kept.append(x * x)
        return kept[0] * 3

    assert weft.grad(f)(2.0).item() == 12
    assert kept[0].item() == 4
    kept.clear()


def test_gradient_of_rms_norm_with_a_square_of_a_root():
    def f(x):
        z = (x * x).mean(axis=-1, keepdims=True)
        return (x / weft.sqrt(weft.square(weft.sqrt(z)) + 1e-5)).sum()

    x = np.random.default_rng(1).standard_normal((3, 4))
    np.testing.assert_allclose(np.array(weft.grad(f)(weft.array(x))), numeric_gradient(f, x), rtol=1e-5, atol=1e-7)


# ---- trees, numbers and keywords


class Params(dict):
    """A dict that is made in its own way and knows more than its items."""

    def __init__(self, name, **items):
        super().__init__(items)
        self.name = name


def test_a_dict_of_another_class_is_a_tree():
    p = Params("layer", w=weft.array([1.0, 2.0]), b=weft.array(3.0))
    g = weft.grad(lambda p: (p["w"] * p["w"]).sum() + p["b"])(p)
    assert type(g) is Params and g.name == "layer" and g["w"].tolist() == [2, 4] and g["b"].tolist() == 1
    q = weft.compile(lambda p: p)(p)
    assert type(q) is Params and q.name == "layer" and q["w"].tolist() == [1, 2]
    d = collections.defaultdict(list, x=weft.array([1.0, 2.0]))
    out = weft.vmap(lambda d: d)(d)
    assert type(out) is collections.defaultdict and out["y"] == [] and out["x"].tolist() == [1, 2]
    assert list(weft.scan(lambda c, _: (c, None), collections.OrderedDict(b=1.0, a=2.0), length=1)[0]) == ["b", "a"]


def test_vjp_and_jvp_take_trees():
    def f(p, q):
        return {"sum": p["w"] * q[0] + p["b"], "n": 3}, (p["w"] * 2,)
    p, q = {"w": weft.array([1.0, 2.0]), "b": weft.array(3.0)}, [weft.array([5.0, 7.0])]
    (first, second), (dp, dq) = weft.vjp(f, (p, q), [{"sum": [1.0, 10.0], "n": 0}, (weft.array([1.0, 1.0]),)])
    assert first["sum"].tolist() == [8, 17] and second[0].tolist() == [2, 4]
    assert dp["w"].tolist() == [7, 72] and dp["b"].tolist() == 11 and dq[0].tolist() == [1, 20]
    (_, _), (dfirst, dsecond) = weft.jvp(f, (p, q), [{"w": [1.0, 0.0], "b": 1.0}, [[0.0, 1.0]]])
    assert dfirst["sum"].tolist() == [6, 3] and dsecond[0].tolist() == [2, 0]
    with pytest.raises(ValueError, match="jvp: the tangents have another structure"):
        weft.jvp(f, (p, q), [{"w": [1.0, 0.0]}, [[0.0, 1.0]]])
    with pytest.raises(ValueError, match="vjp: the cotangents have another structure"):
        weft.vjp(f, (p, q), [{"sum": [1.0, 10.0], "n": 0}])


def test_vjp_is_jvp_turned_round(rng):
    def f(p):
        return weft.tanh(p["a"]) * p["b"][0], {"y": p["a"].sum() * p["b"][0]}
    p = {"a": weft.array(rng.standard_normal(3)), "b": (weft.array(rng.standard_normal(3)),)}
    u = {"a": weft.array(rng.standard_normal(3)), "b": (weft.array(rng.standard_normal(3)),)}
    v = [weft.array(rng.standard_normal(3)), {"y": weft.array(rng.standard_normal(3))}]
    (g,), dy = weft.vjp(f, [p], v)[1], weft.jvp(f, [p], [u])[1]
    left = (g["a"] * u["a"]).sum() + (g["b"][0] * u["b"][0]).sum()
    right = (v[0] * dy[0]).sum() + (v[1]["y"] * dy[1]["y"]).sum()
    np.testing.assert_allclose(float(left), float(right), rtol=1e-12)


def test_gradient_by_an_integer_and_by_the_last_argument():
    assert weft.grad(lambda x: x * x)(3).tolist() == 6
    assert weft.grad(lambda n, x: n * x * x, argnums=-1)(2, 3).tolist() == 12
    a, b = weft.grad(lambda n, x: n * x * x, argnums=(0, -1))(2.0, 3)
    assert a.tolist() == 9 and b.tolist() == 12
    with pytest.raises(ValueError, match="twice"):
        weft.grad(lambda n, x: n * x, argnums=(1, -1))(2.0, 3.0)
    with pytest.raises(ValueError, match="there is no argument -3 among 2"):
        weft.grad(lambda n, x: n * x, argnums=-3)(2.0, 3.0)


def test_map_over_keywords():
    x = weft.array([1.0, 2.0])
    assert weft.vmap(lambda x, by, power=1: x * by ** power)(x, by=weft.array([3.0, 4.0]), power=2).tolist() == [9, 32]
    assert weft.vmap(lambda *, by: by["a"] * 2)(by={"a": np.array([1.0, 2.0])}).tolist() == [2, 4]
    assert weft.vmap(lambda x, by: x.sum() * by, in_axes=1)(weft.array([[1.0, 2.0]]), by=x).tolist() == [1, 4]


def test_to_device_places_and_gradients_come_back():
    x = weft.array([1.0, 2.0, 3.0])
    assert weft.to_device(x, 0).tolist() == [1, 2, 3]
    assert weft.grad(lambda x: weft.sum(weft.to_device(x, 0) ** 2))(x).tolist() == [2, 4, 6]
    with pytest.raises(RuntimeError, match="no device 99"):
        weft.eval(weft.to_device(x, 99))


def test_derivatives_by_one_argument_do_not_ask_how_what_a_function_captured_was_made():
    data, x = weft.array([2.0, 3.0]), weft.array([1.0, 2.0])
    scale = weft.exp(weft.array([0.5, 1.0]))
    weft.eval(scale)  # it forgets what it was made of, and is younger than the data
    f = weft.compile(lambda a, b: a * a * b * scale)
    want = 2 * np.asarray(x) * np.asarray(data) * np.asarray(scale)
    np.testing.assert_allclose(weft.grad(lambda a: f(a, data).sum())(x), want, rtol=1e-6)
    np.testing.assert_allclose(weft.jvp(lambda a: f(a, data), [x], [weft.ones(2)])[1][0], want, rtol=1e-6)
    second = weft.grad(lambda a: weft.grad(lambda q: f(q, data).sum())(a).sum())(x)
    np.testing.assert_allclose(second, 2 * np.asarray(data) * np.asarray(scale), rtol=1e-6)
    rows = weft.vmap(weft.grad(lambda a: f(a * weft.ones(2), data).sum()))(x)
    np.testing.assert_allclose(rows, 2 * np.asarray(x) * (np.asarray(data) * np.asarray(scale)).sum(), rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("is_region", [False, True])
def test_derivatives_of_a_function_that_captured_x_and_is_called_twice(order, is_region):
    k, x = weft.array([0.3, 0.8], dtype=weft.float64), weft.array([0.4, -0.7], dtype=weft.float64)

    def derivative(compile, region):
        def body(p):
            f = compile(lambda r, s: weft.tanh(r * p) * s)
            return weft.tanh(f(k, p)) + f(weft.tanh(k), weft.tanh(p)) * 0.5

        g = lambda v: weft.sin(region(body)(v)).sum()
        for _ in range(order - 1):
            g = (lambda h: lambda v: weft.sin(weft.grad(h)(v)).sum())(g)
        return weft.grad(g)(x)

    plain = derivative(lambda f: f, lambda f: f)
    np.testing.assert_allclose(derivative(weft.compile, weft.checkpoint if is_region else lambda f: f), plain, rtol=1e-9)


def test_a_function_with_rules_takes_keywords():
    @weft.custom_function
    def f(x, *, by):
        return x * by

    f.vjp(lambda x, dy, y, by: (dy * 7, dy.sum() * 11) if by.ndim == 0 else dy * 5)
    x, two = weft.array([1.0, 2.0]), weft.array(2.0)
    assert f(x, by=3).tolist() == [3, 6]
    assert [g.tolist() for g in weft.grad(lambda x, by: f(x, by=by).sum(), argnums=(0, 1))(x, two)] == [[7, 7], 22]
    assert weft.grad(lambda x: f(x, by=x).sum())(x).tolist() == [5, 5]


@pytest.mark.parametrize("mx", [weft, pytest.importorskip("weft.mlx.core")], ids=["weft", "mlx"])
def test_constants_of_a_function_that_were_evaluated_with_it_stop_no_transform(mx):
    @mx.compile
    def f(a, y):
        c = mx.sin(mx.arange(3).astype(mx.float32))  # computed once, when f runs; it depends on no argument
        return mx.sum(y * mx.take(mx.exp(c), mx.array([2, 1, 1]))) + a

    a, y = mx.array(1.0), mx.array([1.0, 2.0, 3.0])  # older than c
    weights = np.exp(np.sin([2.0, 1.0, 1.0]))

    def rows(a, y):
        return mx.vmap(f, in_axes=(None, 0))(a, mx.stack([y, y - 0.5]))

    once = np.asarray(rows(a, y))
    f(a, y).tolist()
    np.testing.assert_allclose(once, [weights @ [1, 2, 3] + 1, weights @ [0.5, 1.5, 2.5] + 1], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(mx.vmap(lambda b: mx.sum(rows(b, y)))(mx.stack([a, a]))), [once.sum()] * 2, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(mx.vmap(lambda b: mx.sum(rows(a, y)) + b)(mx.array([0.0, 1.0]))), [once.sum(), once.sum() + 1], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(mx.grad(lambda y: mx.sum(rows(a, y)))(y)), 2 * weights, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(mx.vmap(mx.grad(lambda y: mx.sum(rows(a, y))))(mx.stack([y, y]))), [2 * weights] * 2, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(mx.jvp(lambda y: rows(a, y), [y], [y])[1][0]), [weights @ [1, 2, 3]] * 2, rtol=1e-5)
