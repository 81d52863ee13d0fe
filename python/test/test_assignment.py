"""x[i] = v inside a function that is transformed changes the function's own x, and nothing else."""
import numpy as np
import weft


def assigned(x):
    x[0] = x[1] * 5
    return x * x


def test_the_gradient_is_by_the_argument_and_not_by_what_was_assigned_to_it():
    dx = weft.grad(lambda x: assigned(x).sum())(weft.array([1.0, 2.0, 3.0]))
    assert np.array_equal(np.asarray(dx), [0, 104, 6])


def test_jvp_and_vjp_are_by_the_argument():
    x = weft.array([1.0, 2.0, 3.0])
    (y,), (dy,) = weft.jvp(assigned, [x], [weft.array([1.0, 1.0, 1.0])])
    assert np.array_equal(np.asarray(y), [100, 4, 9]) and np.array_equal(np.asarray(dy), [100, 4, 6])
    _, (dx,) = weft.vjp(assigned, [x], [weft.array([1.0, 1.0, 1.0])])
    assert np.array_equal(np.asarray(dx), [0, 104, 6])


def test_a_compiled_function_computes_what_was_assigned():
    x = weft.array([1.0, 2.0, 3.0])
    assert np.array_equal(np.asarray(weft.compile(assigned)(x)), [100, 4, 9])
    assert np.array_equal(np.asarray(x), [1, 2, 3])


def test_vmap_and_checkpoint_compute_what_was_assigned():
    x = weft.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert np.array_equal(np.asarray(weft.vmap(assigned)(x)), [[100, 4, 9], [625, 25, 36]])
    dx = weft.grad(lambda x: weft.checkpoint(assigned)(x).sum())(x[0])
    assert np.array_equal(np.asarray(dx), [0, 104, 6])


def test_the_body_of_a_scan_may_assign_to_its_carry_and_its_row():
    def step(carry, row):
        carry[0] = carry[0] + row[1]
        row[0] = 7
        return carry, row
    last, rows = weft.scan(step, weft.array([1.0, 2.0]), weft.array([[1.0, 2.0], [3.0, 4.0]]))
    assert np.array_equal(np.asarray(last), [7, 2]) and np.array_equal(np.asarray(rows), [[7, 2], [7, 4]])


def test_the_arguments_outside_stay():
    x = weft.array([1.0, 2.0, 3.0])
    weft.eval(weft.grad(lambda x: assigned(x).sum())(x), weft.compile(assigned)(x), weft.vmap(lambda r: r + 1)(x))
    assert np.array_equal(np.asarray(x), [1, 2, 3])
