"""Systems of linear equations beside NumPy's: batches, broadcasting, singular matrices, derivatives by differences."""
import numpy as np
import pytest
import weft
from weft import linalg


def definite(rng, *shape, dtype="float64"):
    m = rng.standard_normal(shape)
    return (m @ m.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("float32", 2e-5)])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 3, 17, 17), (0, 3, 3), (2, 0, 0), (60, 60), (21, 3, 3), (2, 33, 33), (131, 131), (600, 1, 1),
                                   (700, 4, 4), (2, 300, 7, 7), (8200, 11, 11)])
def test_results_are_numpys(shape, dtype, tolerance, rng):
    a, m = definite(rng, *shape, dtype=dtype), rng.standard_normal(shape).astype(dtype)
    near = dict(rtol=tolerance, atol=tolerance * 10)
    np.testing.assert_allclose(np.asarray(linalg.cholesky(a)), np.linalg.cholesky(a), **near)
    b = rng.standard_normal((*shape[:-1], 3)).astype(dtype)
    np.testing.assert_allclose(np.asarray(linalg.solve(a, b)), np.linalg.solve(a, b), **near)
    np.testing.assert_allclose(np.asarray(linalg.inv(a)), np.linalg.inv(a), **near)
    np.testing.assert_allclose(np.asarray(linalg.det(m)), np.linalg.det(m.astype("float64")).astype(dtype), rtol=1e-4 if dtype == "float32" else 1e-8)
    for got, want in zip(linalg.slogdet(m), np.linalg.slogdet(m.astype("float64"))):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(linalg.cholesky_solve(np.linalg.cholesky(a), b)), np.linalg.solve(a, b), **near)
    small = a / (9 + shape[-1] ** 2)
    low, unit = np.tril(a), np.tril(small, -1) + np.eye(shape[-1], dtype=dtype)
    np.testing.assert_allclose(np.asarray(linalg.solve_triangular(a, b, lower=True)), np.linalg.solve(low, b), **near)
    np.testing.assert_allclose(np.asarray(linalg.solve_triangular(a, b)), np.linalg.solve(np.triu(a), b), **near)
    np.testing.assert_allclose(np.asarray(linalg.solve_triangular(small, b, lower=True, unit_diagonal=True)), np.linalg.solve(unit, b), **near)
    assert linalg.cholesky(a).dtype == dtype


def test_right_sides_batches_and_views(rng):
    a, b = definite(rng, 2, 1, 4, 4), rng.standard_normal((3, 4, 2))
    np.testing.assert_allclose(np.asarray(linalg.solve(a, b)), np.linalg.solve(a, b), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(linalg.solve(a, b[0, :, 0])), np.linalg.solve(a, b[0, :, 0]), rtol=1e-9)
    view = np.flip(a[0, 0]).T
    np.testing.assert_allclose(np.asarray(linalg.inv(view)), np.linalg.inv(view), rtol=1e-9)
    assert linalg.inv([[2, 0], [0, 4]]).tolist() == [[0.5, 0], [0, 0.25]]
    for call in (lambda: linalg.inv(b), lambda: linalg.solve(a, b[:, :3]), lambda: linalg.det(1.0), lambda: linalg.cholesky(b)):
        with pytest.raises((ValueError, TypeError)):
            call()


def test_singular_and_indefinite_matrices_are_nan_and_say_where():
    m = np.array([[[1.0, 2], [2, 4]], [[1, 0], [0, 1]], [[np.nan, 0], [0, 1]]])
    assert np.isnan(np.asarray(linalg.inv(m))).all((1, 2)).tolist() == [True, False, True]
    assert linalg.inv_status(m).tolist() == [2, 0, 1] and linalg.cholesky_status(m).tolist() == [2, 0, 1]
    sign, size = linalg.slogdet(m[:2])
    assert sign.tolist() == [0, 1] and size.tolist() == [-np.inf, 0] and linalg.det(m[:2]).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 5, 16, 40])
def test_a_triangle_with_0_on_its_diagonal_is_nan_as_a_whole_and_says_where(n, dtype, rng):
    a, b = rng.standard_normal((9, n, n)) / n + np.eye(n), rng.standard_normal((9, n, 3))
    a[2, n // 2, n // 2], a[4, n - 1, n - 1], a[6, 0, 0], a[7, n // 2, n // 2] = 0, -0.0, np.nan, 1e-10
    a, b = a.astype(dtype), b.astype(dtype)
    want = [0, 0, n // 2 + 1, 0, n, 0, 1, 0, 0]
    solves = [lambda a, b: linalg.solve_triangular(a, b), lambda a, b: linalg.solve_triangular(a, b, lower=True), linalg.cholesky_solve]
    for f in [*solves, *(weft.compile(f) for f in solves), *(weft.compile(f, shapes="any") for f in solves), *(weft.vmap(f) for f in solves)]:
        x = np.asarray(f(weft.array(a), weft.array(b)))
        assert np.isnan(x).all((1, 2)).tolist() == [k != 0 for k in want] == np.isnan(x).any((1, 2)).tolist()
    for f in (linalg.solve_triangular_status, weft.compile(linalg.solve_triangular_status, shapes="any"), weft.vmap(linalg.solve_triangular_status)):
        assert f(weft.array(a)).tolist() == want and f(weft.array(a).mT).tolist() == want
    assert np.isfinite(np.asarray(linalg.solve_triangular(a, b, lower=True, unit_diagonal=True))).all((1, 2)).tolist() == [True] * 9


@pytest.mark.parametrize("f", [
    lambda x: linalg.cholesky(x @ x.T + 1), lambda x: linalg.inv(x), lambda x: linalg.det(x), lambda x: linalg.slogdet(x)[1],
    lambda x: linalg.solve(x, x.T + 2), lambda x: linalg.cholesky_solve(x, x.T + 2), lambda x: linalg.solve_triangular(x, x.T, lower=True), lambda x: linalg.solve_triangular(x, x.T, unit_diagonal=True)])
def test_derivatives_are_differences(f, rng):
    x, v = rng.standard_normal((4, 4)) + 3 * np.eye(4), rng.standard_normal((4, 4))
    y, (along,) = weft.jvp(f, [weft.array(x)], [weft.array(v)])
    h = 1e-6
    want = (np.asarray(f(weft.array(x + h * v))) - np.asarray(f(weft.array(x - h * v)))) / (2 * h)
    np.testing.assert_allclose(np.asarray(along), want, rtol=1e-5, atol=1e-6)
    u = rng.standard_normal(np.shape(want))
    (back,) = weft.vjp(f, [weft.array(x)], [weft.array(u)])[1]
    np.testing.assert_allclose((np.asarray(back) * v).sum(), (u * np.asarray(along)).sum(), rtol=1e-8)
    xs = np.stack([x, x + v / 9])
    np.testing.assert_allclose(np.asarray(weft.vmap(f)(weft.array(xs)))[1], np.asarray(f(weft.array(xs[1]))), rtol=1e-12)


def test_normal_numbers_that_go_together():
    cov, mean = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([1.0, -3.0])
    x = np.asarray(weft.vmap(lambda k: weft.random.multivariate_normal(k, mean, cov))(weft.random.split(weft.random.key(4), 40000)))
    np.testing.assert_allclose(x.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.05)
    assert weft.random.multivariate_normal(weft.random.key(1), mean, cov, shape=(5, 2)).shape == (5, 2)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5, 5), (5, 3), (3, 5), (2, 0, 0), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_with_rows_exchanged(shape, dtype, rng):
    a = rng.standard_normal(shape).astype(dtype)
    p, lower, upper = map(np.asarray, linalg.lu(a))
    assert lower.dtype == upper.dtype == dtype and (np.triu(lower, 1) == 0).all() and (np.tril(upper, -1) == 0).all()
    assert (np.abs(lower) <= 1).all() and (np.diagonal(lower, axis1=-2, axis2=-1) == 1).all()
    again = np.take_along_axis(lower, np.broadcast_to(p[..., None], lower.shape), -2) @ upper
    np.testing.assert_allclose(again, a, atol=1e-5 if dtype == "float32" else 1e-13)
    factors, pivots = map(np.asarray, linalg.lu_factor(a))
    rows = np.broadcast_to(np.arange(shape[-2]), shape[:-1]).copy()
    for k in range(pivots.shape[-1]):
        here, there = rows[..., k].copy(), np.take_along_axis(rows, pivots[..., k:k + 1], -1)[..., 0].copy()
        np.put_along_axis(rows, pivots[..., k:k + 1], here[..., None], -1)
        rows[..., k] = there
    np.testing.assert_array_equal(np.argsort(rows, -1), p)
    k = min(shape[-2:])
    np.testing.assert_array_equal(np.tril(factors[..., :k], -1), np.tril(lower, -1))
    np.testing.assert_array_equal(np.triu(factors[..., :k, :]), upper)


def test_factors_of_what_is_singular_and_of_what_is_no_matrix():
    factors, pivots = linalg.lu_factor(np.array([[1.0, 2], [2, 4]]))
    assert factors.tolist() == [[2, 4], [0.5, 0]] and pivots.tolist() == [1, 1]
    assert linalg.lu_factor(np.zeros((2, 2)))[0].tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError):
        linalg.lu_factor(np.ones(3))
    with pytest.raises(TypeError):
        linalg.lu(np.ones((2, 2), "int32"))


def test_the_derivative_of_factors(rng):
    a, loss = rng.standard_normal((4, 4)), lambda a: weft.sum(linalg.lu_factor(a)[0] ** 3)
    slope = np.asarray(weft.grad(loss)(weft.asarray(a)))
    for at in np.ndindex(4, 4):
        d = np.zeros((4, 4))
        d[at] = 1e-6
        change = (loss(weft.asarray(a + d)).item() - loss(weft.asarray(a - d)).item()) / 2e-6
        assert slope[at] == pytest.approx(change, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4), (2, 1, 9, 9), (3, 0, 0)])
def test_complex_results_are_numpys(rng, shape):
    def drawn(*s):
        return rng.standard_normal(s) + 1j * rng.standard_normal(s)
    a, b, near = drawn(*shape), drawn(*shape[:-1], 2), dict(rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.asarray(linalg.solve(a, b)), np.linalg.solve(a, b), **near)
    np.testing.assert_allclose(np.asarray(linalg.inv(a)), np.linalg.inv(a), **near)
    np.testing.assert_allclose(np.asarray(linalg.det(a)), np.linalg.det(a), **near)
    for got, want in zip(linalg.slogdet(a), np.linalg.slogdet(a)):
        np.testing.assert_allclose(np.asarray(got), want, **near)
        assert np.asarray(got).dtype == want.dtype
    p = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1])
    c = linalg.cholesky(p + 1j * np.eye(shape[-1]))  # what is imaginary on the diagonal is not read
    np.testing.assert_allclose(np.asarray(c), np.linalg.cholesky(p), **near)
    np.testing.assert_allclose(np.asarray(linalg.cholesky_solve(c, b)), np.linalg.solve(p, b), **near)
    for lower, triangle in ((True, np.tril(a)), (False, np.triu(a))):
        np.testing.assert_allclose(np.asarray(linalg.solve_triangular(a, b, lower=lower)), np.linalg.solve(triangle, b), **near)
        unit = triangle - triangle * np.eye(shape[-1]) + np.eye(shape[-1])
        np.testing.assert_allclose(np.asarray(linalg.solve_triangular(a, b, lower=lower, unit_diagonal=True)), np.linalg.solve(unit, b), **near)
    np.testing.assert_allclose(np.asarray(linalg.solve(a.real + 4 * np.eye(shape[-1]), b)), np.linalg.solve(a.real + 4 * np.eye(shape[-1]), b), **near)
    assert linalg.inv(weft.asarray(a).astype(weft.complex64)).dtype == weft.complex64
    if len(shape) == 3:
        np.testing.assert_allclose(np.asarray(weft.vmap(linalg.det)(weft.asarray(a))), np.linalg.det(a), **near)
        np.testing.assert_allclose(np.asarray(weft.compile(linalg.inv)(weft.asarray(a))), np.linalg.inv(a), **near)


@pytest.mark.parametrize("name", ["det", "inv", "phase", "log", "cholesky"])
def test_complex_derivatives_are_differences(rng, name):
    a = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    w = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    f = {"det": lambda m, x: (x.det(m) * w[0, 0]).real, "inv": lambda m, x: (x.inv(m) * w).real.sum(),
         "phase": lambda m, x: (x.slogdet(m)[0] * w[0, 0]).real, "log": lambda m, x: x.slogdet(m)[1] * 3.0,
         "cholesky": lambda m, x: (x.cholesky(m @ m.conj().T + np.eye(3)) * w).real.sum()}[name]
    ours = (lambda m: f(m, linalg)) if name != "cholesky" else lambda m: weft.real(linalg.cholesky(weft.matmul(m, weft.conj(m).T) + np.eye(3)) * w).sum()
    step, want = 1e-6, np.zeros((3, 3), complex)
    for i in range(9):
        e = np.zeros((3, 3))
        e.flat[i] = step
        want.flat[i] = (f(a + e, np.linalg) - f(a - e, np.linalg) - 1j * (f(a + 1j * e, np.linalg) - f(a - 1j * e, np.linalg))) / (2 * step)
    got = np.asarray(weft.grad(lambda m: weft.real(ours(m)) if name != "log" else ours(m))(weft.asarray(a)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    d = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    _, [tangent] = weft.jvp(lambda m: weft.real(ours(m)), (weft.asarray(a),), (weft.asarray(d),))
    np.testing.assert_allclose(np.asarray(tangent), (want * d).real.sum(), rtol=1e-5, atol=1e-6)


def test_a_complex_matrix_that_is_singular_says_so():
    a = np.array([[1, 1j], [1j, -1]])
    assert np.isnan(np.asarray(linalg.inv(a))).all() and linalg.inv_status(a).item() == 2 and linalg.det(a).item() == 0
    assert linalg.slogdet(a)[0].item() == 0 and linalg.slogdet(a)[1].item() == -np.inf
    assert linalg.cholesky_status(np.array([[1, 2j], [-2j, 1]])).item() == 2


@pytest.mark.parametrize("dtype", ["bool_", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float8_e4m3fn", "float32", "float64"])
def test_norms_of_what_has_no_room_for_squares(dtype):
    d = getattr(weft, dtype)
    x = weft.array([[100, -100], [3, 120]] if dtype != "bool_" else [[1, 0], [1, 1]]).astype(d)
    x = x * 1000 if dtype == "int32" else x * 4 if dtype == "float16" else x
    wide = np.asarray(x.astype(weft.float64))
    eps = {"float16": 1e-3, "bfloat16": 8e-3, "float8_e4m3fn": 0.07}.get(dtype, 1e-6)
    for ord in (2, 1, 3, np.inf, -np.inf, 0):
        got = weft.linalg.vector_norm(x, ord=ord)
        assert got.dtype == (d if "float" in dtype else weft.float32)
        np.testing.assert_allclose(float(got), np.linalg.norm(wide.ravel(), ord), rtol=eps)
    for ord in ("fro", 1, -1, np.inf, -np.inf):
        np.testing.assert_allclose(float(weft.linalg.matrix_norm(x, ord=ord)), np.linalg.norm(wide, ord), rtol=eps)
