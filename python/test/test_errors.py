import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
import weft


def here():
    return f"test_errors.py:{inspect.currentframe().f_back.f_lineno}"


def test_an_error_names_the_function_the_shapes_and_the_line():
    a, b = weft.zeros((8, 3)), weft.zeros((4, 16))
    with pytest.raises(ValueError, match=r"^matmul: .*\[8,3\] x \[4,16\]") as caught:
        a @ b
    assert f"test_errors.py:{caught.traceback[0].lineno + 1}" in str(caught.value)


def test_an_error_of_evaluation_names_the_line_that_built_it():
    a = weft.arange(3)
    line, b = here(), a[weft.array([5])]
    c = b + 1
    with pytest.raises(IndexError) as caught:
        weft.eval(c)
    assert line in str(caught.value)


X, Y = weft.arange(10), weft.zeros((4, 5, 6))
TWO = weft.array(np.array([[0, 1, 2], [3, 4, 17], [5, -11, 6]]))
weft.eval(X, Y, TWO)


@pytest.mark.parametrize("program, says", [
    (lambda: X[TWO], "take: the index 17 at place 5 is out of range for an axis of 10 "),
    (lambda: X[TWO.T].sum(), "take: the index -11 at place 5 is out of range for an axis of 10 "),
    (lambda: weft.take(Y, weft.array([[0, 1], [4, -7]]), axis=1), "take: the index -7 at place 3 is out of range for an axis of 5 "),
    (lambda: Y[weft.array([[0], [3]]), weft.array([0, 4, 5])], "take: the index 5 at place 2 is out of range for an axis of 5 "),
    (lambda: weft.take_along_axis(Y, weft.full((4, 2, 6), -6), axis=1),
     "take_along_axis: the index -6 at place 0 is out of range for an axis of 5 "),
    (lambda: weft.compile(lambda i: X[i * 2] + 1)(TWO), "take: the index 34 at place 5 is out of range for an axis of 10 "),
    (lambda: weft.vmap(lambda i: X[i])(TWO), "take: the index 17 at place 5 is out of range for an axis of 10 "),
    (lambda: weft.bincount(weft.array([1, 2, -3])), "bincount: element 2 is -3: below 0"),
])
@pytest.mark.parametrize("starts", [False, True])
def test_an_index_out_of_range_is_named_with_its_place(program, says, starts):
    with pytest.raises(IndexError) as caught:
        y = program()
        if starts:
            weft.async_eval(y)
        y.tolist()
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_an_index_of_any_dtype_is_named_as_it_was_given(dtype):
    index = np.iinfo(dtype).min if dtype[0] == "i" else 200
    with pytest.raises(IndexError, match=f"^take: the index {index} at place 1 is out of range for an axis of 10 "):
        weft.eval(X[weft.array(np.array([3, index], dtype=dtype))])


def test_a_line_inside_a_transform_is_the_users():
    with pytest.raises(ValueError) as caught:
        weft.grad(lambda x: (x + weft.zeros(3)).sum())(weft.zeros(2))
    assert "test_errors.py:" in str(caught.value) and "_transform.py" not in str(caught.value)
    with pytest.raises(ValueError) as caught:
        weft.tile(weft.zeros(2), (2, 2)) + weft.zeros(3)
    assert "test_errors.py:" in str(caught.value)


def test_kinds_of_errors():
    with pytest.raises(ValueError):
        weft.zeros(2) + weft.zeros(3)
    with pytest.raises(TypeError):
        weft.zeros(2) & weft.zeros(2)
    with pytest.raises(IndexError):
        weft.zeros(2)[2]
    with pytest.raises(OSError):
        weft.load("/nonexistent/file.safetensors")
    with pytest.raises((MemoryError, ValueError)):
        weft.eval(weft.zeros((2**20, 2**20, 2**10)) + weft.arange(2**10))
    assert (weft.array(1) + 1).item() == 2


def test_out_of_memory_is_survived():
    used = weft.get_active_memory()
    before = weft.set_memory_limit(used + 2**20)
    try:
        with pytest.raises(MemoryError):
            weft.eval(weft.arange(2**20).astype(weft.float32) * 2)
        assert (weft.arange(4) * 2).tolist() == [0, 2, 4, 6]
    finally:
        weft.set_memory_limit(before)
    assert (weft.arange(2**20).astype(weft.float32) * 2)[-1].item() == 2 * (2**20 - 1)


def test_a_failed_operation_leaves_its_operands_alone():
    a = weft.array([1.0, 2.0])
    with pytest.raises(ValueError):
        a += weft.zeros(3)
    with pytest.raises(ValueError):
        a[0] = weft.zeros(3)
    assert a.tolist() == [1, 2]


def test_unknown_arguments_are_refused():
    for wrong in [lambda: weft.array([1], kind=1), lambda: weft.sum(), lambda: weft.sum([1], 0, False, 3), lambda: weft.add(1),
                  lambda: weft.exp(1, 2), lambda: weft.array([1]).reshape(1, shape=1), lambda: weft.clip([1], 0, min=0)]:
        with pytest.raises(TypeError):
            wrong()


def test_weft_never_prints(capfd):
    with pytest.raises(ValueError):
        weft.zeros(2) + weft.zeros(3)
    np.array(weft.zeros(3))
    out, err = capfd.readouterr()
    assert out == "" and err == ""


@pytest.fixture
def checked():
    before = weft.set_check("nan")
    yield
    weft.set_check(before)


def test_a_nan_is_found_in_its_line_and_step(checked):
    def body(c, x):
        root = weft.sqrt(c)  # the line to blame
        return c - x, root * 2

    _, ys = weft.scan(body, weft.array([9.0, 2.5]), weft.ones(20))
    with pytest.raises(FloatingPointError, match=r"sqrt: float32 \[2\] at \[1\] \(step 3 of the loop\).*test_errors.py"):
        weft.eval(ys)
    weft.set_check(None)
    assert np.isnan(np.array(ys)).sum() == 27  # the values are there
    assert weft.set_check("inf") is None and weft.set_check("nan") == "inf"
    with pytest.raises(ValueError):
        weft.set_check("zero")


def test_a_nan_in_a_gradient_is_found(checked):
    x = weft.array([4.0, 0.0])
    with pytest.raises(FloatingPointError, match="arises in .* at \\[1\\]"):
        weft.eval(weft.grad(lambda x: (weft.sqrt(x) * x).sum())(x))
    assert weft.grad(lambda x: (weft.sqrt(x) * x).sum())(x + 1).shape == (2,)


def test_a_check_raises_its_message_as_given():
    @weft.compile
    def root(x):
        return weft.sqrt(weft.assert_(x, x >= 0, "weft_x must be 100% positive"))

    assert root(weft.array([4.0])).item() == 2
    for _ in range(2):
        with pytest.raises(AssertionError, match="^weft_x must be 100% positive$"):
            weft.eval(root(weft.array([4.0, -1.0])))
    assert weft.vmap(lambda x: weft.cond(x >= 0, lambda: root(x), lambda: -x))(weft.array([4.0, -1.0])).tolist() == [2, 1]
    with pytest.raises(AssertionError, match="^too far$"):
        weft.eval(weft.while_loop(lambda c: c < 9, lambda c: weft.assert_(c, c < 5, "too far") + 1, weft.array(0.0)))
    with pytest.raises(TypeError):
        weft.assert_(weft.array(1.0), True, 7)


def test_a_blas_is_used_only_when_asked_for():
    assert weft.set_blas(False) is False
    try:
        weft.set_blas(True)
    except ValueError:
        return  # there is none
    x = weft.array([[i * j % 5 for i in range(64)] for j in range(64)], dtype=weft.float32)
    assert weft.plan(x @ x)["library_calls"] == 1
    assert (x @ x)[3, 5].item() == sum(3 * i % 5 * (i * 5 % 5) for i in range(64))
    large = weft.eye(520, dtype=weft.float64) * 4 + 1
    if " by weft(" not in weft.show(weft.linalg.cholesky(large), what="plan"):  # it has a LAPACK
        factor = weft.linalg.cholesky(large)
        assert abs(factor @ factor.T - large).max().item() < 1e-12
    assert weft.set_blas(False) is True
    assert weft.plan(x @ x)["library_calls"] == 0
    assert " by weft(" in weft.show(weft.linalg.cholesky(large), what="plan")


@pytest.mark.parametrize("call, error, text", [
    (lambda: weft.quantize(weft.zeros((4, 128)), bits=0), ValueError, "quantize: bits=0"),
    (lambda: weft.quantize(weft.zeros((4, 128)), group_size=-32), ValueError, "quantize: group_size=-32"),
    (lambda: weft.quantize(weft.zeros((4, 100)), group_size=64), ValueError, r"quantize: the last axis of \[4,100\] in parts of 64"),
    (lambda: weft.histogram(weft.arange(4.0), -1), ValueError, "^histogram: -1 bins"),
    (lambda: weft.histogram_bin_edges(weft.arange(4.0), 0), ValueError, "^histogram_bin_edges: 0 bins"),
    (lambda: weft.repeat(weft.arange(2), [1, 2**63 - 1]), MemoryError, "repeat: number 1 is 9223372036854775807"),
    (lambda: weft.repeat(weft.arange(2), [2**61, 2**61]), MemoryError, "repeat: number 0 is 2305843009213693952"),
    (lambda: weft.repeat(weft.arange(2), [1, -3]), ValueError, "repeat: number 1 is -3"),
    (lambda: weft.bincount(weft.array([-5])).tolist(), IndexError, "bincount: element 0 is -5: below 0"),
    (lambda: weft.einsum("ij,jk->ik", weft.zeros((2, 3)), weft.zeros((4, 5))), ValueError, '"ij,jk->ik": the axis j has 3 elements, and 4 elsewhere'),
    (lambda: weft.einsum("ij->ik", weft.zeros((2, 3))), ValueError, 'einsum: "ij->ik": no operand has the axis k of the result'),
    (lambda: weft.einsum("...i,...i", weft.zeros((2, 3)), weft.zeros((4, 3))), ValueError, 'the axis ... has 2 elements, and 4 elsewhere'),
    (lambda: bool(weft.arange(4.0) > 1), ValueError, r"an array of 4 elements is neither true nor false: any\(\) or all\(\) of it is"),
    (lambda: weft.load("nowhere.npy"), FileNotFoundError, "nowhere.npy"),
    (lambda: weft.topk(weft.arange(4.0), 9), ValueError, r"topk: k is 9, beyond axis 0 of \[4\]"),
    (lambda: weft.quantile(weft.arange(4.0), float("nan")), ValueError, r"quantile: q is nan, not in \[0, 1\]"),
    (lambda: weft.conv(weft.zeros((1, 5, 5, 4)), weft.zeros((6, 9, 9, 4))), ValueError, r"conv: on axis 1 the kernel \[6,9,9,4\]"),
    (lambda: weft.random.bernoulli(weft.random.key(1), 1.5), ValueError, r"random\.bernoulli: p is 1.5"),
    (lambda: weft.random.laplace(weft.random.key(1), 0.0, -1.0), ValueError, "random.laplace: scale is -1, not at least 0"),
    (lambda: weft.random.permutation(weft.random.key(1), -4), ValueError, "random.permutation: -4 numbers"),
])
def test_bad_input_gets_the_function_as_typed_and_the_values(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_message_has_the_dtypes_of_python():
    x = weft.array([1.0, 2.0])
    with pytest.raises(TypeError, match=r"^bitwise_and: of bools or integers, not of float32 \("):
        weft.bitwise_and(x, x)
    with pytest.raises(TypeError, match=r"^floor: not of complex64 \("):
        weft.floor(weft.array([1j]))
    with pytest.raises(ValueError, match=r"^random.normal: a key is uint32 \[2\], not int32 \[\]; see random.key \("):
        weft.random.normal(3)
    with pytest.raises(ValueError, match='^einsum: "f32,i8": '):  # what users have named stays
        weft.einsum("f32,i8", x, x)


def test_the_derivative_of_std_of_equal_elements_is_nan():
    assert np.isnan(weft.grad(weft.std)(weft.array([2.0, 2.0]))).all()


def test_functions_made_of_others_are_called_by_their_own_names():
    x, m, key = weft.zeros((3, 4)), weft.zeros((2, 3, 4)), weft.random.key(0)
    for call, text in [
        (lambda: weft.addmm(x, x, x), "addmm: inner lengths differ: \\[3,4\\] x \\[3,4\\]"),
        (lambda: weft.gather_mm(m, m, rhs_indices=weft.array([0])), "gather_mm: inner lengths differ"),
        (lambda: weft.block_masked_mm(x, x, 32), "block_masked_mm: inner lengths differ"),
        (lambda: weft.segmented_mm(x, x, weft.array([[0, 1]])), "segmented_mm: inner lengths differ"),
        (lambda: weft.pad(weft.zeros((0, 3)), 1, "edge"), "^pad: axis 0 is empty"),
        (lambda: weft.random.normal(key, shape=(2, -3)), "random.normal: the size -3 on axis 1 is negative"),
        (lambda: weft.random.bits(key, shape=-1), "random.bits: the size -1 on axis 0 is negative"),
        (lambda: weft.nanquantile(x, 0.5, method="middle"), "^nanquantile: there is no method 'middle'"),
        (lambda: weft.nanpercentile(x, 101), "^nanpercentile: q is 101, not in"),
        (lambda: weft.histogram_bin_edges(x, 3, (2, 1)), "^histogram_bin_edges: the range is"),
        (lambda: weft.nanmax(x[:0], axis=0), r"^nanmax: nothing to choose from in \[0,4\] along axis 0"),
        (lambda: weft.nanargmin(x[:0], axis=0), "^nanargmin: nothing to choose from"),
        (lambda: weft.softmax(x, 1, where=[True, False]), "^softmax: "),
        (lambda: weft.logsumexp(x, 1, where=[True, False]), "^logsumexp: "),
        (lambda: weft.searchsorted([3.0, 1.0, 2.0], x, sorter=[1, 2]), "^searchsorted: a sorter of 2 places for 3 elements"),
        (lambda: weft.cov(m), "^cov: of one or two axes, not of 3"),
        (lambda: weft.histogramdd([x[0], x[0, :3]]), r"^histogramdd: coordinates \[4\] and \[3\]"),
        (lambda: weft.scan(lambda c, x: (c, weft.flatnonzero(x)), 0, x), r"^scan: .* has as many rows as a loop inside has steps"),
        (lambda: weft.quantile(weft.zeros((3, 0), weft.int8), 0.5, 1, method="lower"), r"^quantile: nothing to choose from in \[3,0\] along axis 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="^unique: not of complex64"):
        weft.unique(weft.array([1j]))


def test_an_index_out_of_range_is_of_the_function_that_was_called_in_maps_too():
    x, q = weft.zeros((2, 3)), [weft.stack([y] * 3) for y in weft.quantize(weft.ones((2, 64)))]
    for call, args, text in [
        (lambda x, i: weft.take_along_axis(x, i, 1), (x, weft.array([[5], [0]])), "take_along_axis: the index 5"),
        (lambda x, i: x[i], (x, weft.array([7])), "(an index|take): the index 7"),
        (lambda x, i: weft.gather_mm(x, weft.zeros((2, 3, 2)), rhs_indices=i), (x, weft.array([2])), "gather_mm: the index 2"),
        (lambda x, i: weft.gather_qmm(x, *q, rhs_indices=i), (weft.ones((2, 64)), weft.array([0, 3])), "gather_qmm: the index 3"),
    ]:
        for f in (call, weft.compile(call, shapes="any")):
            with pytest.raises(IndexError, match="^" + text):
                weft.eval(f(*args))
        with pytest.raises(IndexError, match="^" + text):
            weft.eval(weft.vmap(call)(*(weft.stack([a, a]) for a in args)))
        with pytest.raises(IndexError, match="^" + text):
            weft.eval(weft.vmap(call, in_axes=(None, 0))(args[0], weft.stack([args[1]] * 2)))


@pytest.mark.parametrize("call, words", [
    (lambda: weft.set_device(1000), "set_device: there is no device 1000: "),
    (lambda: weft.set_threads(0), "set_threads: 1 to 1024 threads, not 0"),
    (lambda: weft.set_check("nans"), "set_check: 'nan', 'inf' or None, not 'nans'"),
])
def test_a_setting_that_is_refused_says_what_may_be_set(call, words):
    with pytest.raises(ValueError) as e:
        call()
    assert words in str(e.value)


def test_an_old_pytensor_is_refused_by_its_number(tmp_path):
    (tmp_path / "pytensor.py").write_text("import os\n__version__ = os.environ['OLD']\n")
    for old in ("2.38.3", "3.2", "3.2.9rc1", "3.3.0"):
        run = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import weft.pytensor", str(tmp_path)],
                             capture_output=True, text=True, env={**os.environ, "OLD": old})
        says = f"ImportError: weft.pytensor needs PyTensor 3.3 or later; this is {old}"
        assert run.returncode == 1 and (says in run.stderr) == (old != "3.3.0")  # 3.3.0: there is nothing else in it
