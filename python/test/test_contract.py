"""Sums of products against NumPy."""
import numpy as np
import pytest

import weft

SIZES = dict(zip("abcdefg", (2, 3, 4, 5, 3, 2, 6)))


def operand(rng, names):
    return rng.integers(-4, 5, [SIZES[c] for c in names]).astype(np.float32)


@pytest.mark.parametrize("text", ["ab,bc->ac", "ab,bc", "abc,abd->acd", "abcd,aecd->aeb", "ab,bc,cd->da", "aab->b", "abc->cab", "a,b,c->cab"])
def test_einsum_gives_what_numpy_gives(text, rng):
    arrays = [operand(rng, names) for names in text.split("->")[0].split(",")]
    np.testing.assert_array_equal(np.array(weft.einsum(text, *arrays)), np.einsum(text, *arrays))


def test_einsum_knows_dots(rng):
    a, b = operand(rng, "abcd"), operand(rng, "de")
    np.testing.assert_array_equal(np.array(weft.einsum("...d,de->...e", a, b)), np.einsum("...d,de->...e", a, b))


@pytest.mark.parametrize("axes", [0, 1, 2, ([0, 1], [1, 0]), (1, 0)])
def test_tensordot_gives_what_numpy_gives(axes, rng):
    a = rng.integers(-4, 5, (3, 4, 4, 3)).astype(np.float32)
    b = rng.integers(-4, 5, (4, 3, 5)).astype(np.float32)
    if axes == 1:
        b = b.transpose(1, 0, 2)
    if axes == (1, 0):
        b = b[:, :2]
    np.testing.assert_array_equal(np.array(weft.tensordot(a, b, axes)), np.tensordot(a, b, axes))


def test_integers_are_exact(rng):
    a, b = rng.integers(-128, 128, (40, 300)).astype(np.int8), rng.integers(-128, 128, (300, 50)).astype(np.int8)
    y = weft.matmul(weft.array(a), weft.array(b))
    assert y.dtype == weft.int32
    np.testing.assert_array_equal(np.array(y), a.astype(np.int32) @ b.astype(np.int32))


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="^einsum: "):
        weft.einsum("ij,jk->ik", weft.ones((2, 3)), weft.ones((4, 5)))
    with pytest.raises(TypeError, match="einsum"):
        weft.einsum(3)
    with pytest.raises(ValueError, match="tensordot"):
        weft.tensordot(weft.ones((2, 3)), weft.ones((4, 5)), 1)


def test_einsum_paths_are_as_good_as_the_optimal_ones_of_numpy():
    for text, shapes in (("ij,jk,kl", [(5, 8), (8, 3), (3, 7)]), ("ij,jk,kl->il", [(5, 80), (80, 10), (10, 7)]),
                         ("bca,cdb,dbf,afc->", [(3, 4, 2), (4, 5, 3), (5, 3, 6), (2, 6, 4)]),
                         ("ab,bc,cd,de,ef->af", [(9, 2), (2, 8), (8, 3), (3, 7), (7, 4)])):
        arrays = [np.ones(s, np.float32) for s in shapes]
        path, said = weft.einsum_path(text, *arrays)
        assert path[0] == "einsum_path" and len(path) == len(arrays) and said.startswith(text)
        ours = np.einsum_path(text, *arrays, optimize=path)[1]
        best = np.einsum_path(text, *arrays, optimize="optimal")[1]
        flops = lambda s: float(next(line for line in s.split("\n") if "Optimized FLOP" in line).split(":")[1])
        assert flops(ours) <= flops(best)
        np.testing.assert_allclose(np.asarray(weft.einsum(text, *arrays)), np.einsum(text, *arrays), rtol=1e-5)
    assert weft.einsum_path("ii->i", weft.ones((3, 3)))[0] == ["einsum_path"]
    with pytest.raises(ValueError, match="einsum_path"):
        weft.einsum_path("ij,jk", weft.ones((3, 3)), weft.ones((2, 3)))
    with pytest.raises(ValueError, match="einsum_path"):
        weft.einsum_path("ij")


def test_the_derivative_by_a_turned_matrix_lies_as_the_matrix_does():
    rng = np.random.default_rng(0)
    x, w = (weft.array(rng.standard_normal(shape).astype(np.float32)) for shape in ((8, 40), (24, 40)))
    by_turned = weft.grad(lambda w: weft.tanh(x @ w.T).sum())(w)
    step = w - weft.array(0.1) * by_turned
    assert "M=24, N=40, K=8" in weft.show(step, what="plan"), weft.show(step, what="plan")
    plain = weft.grad(lambda v: weft.tanh(x @ v).sum())(w.T)
    assert np.array_equal(np.array(by_turned).T, np.array(plain))
    y = weft.array(rng.standard_normal((3, 40, 8)).astype(np.float32))
    turned = weft.grad(lambda y: weft.tanh(weft.swapaxes(y, 1, 2) @ w.T).sum())(y)
    direct = weft.grad(lambda z: weft.tanh(z @ w.T).sum())(weft.swapaxes(y, 1, 2))
    assert np.array_equal(np.swapaxes(np.array(turned), 1, 2), np.array(direct))
