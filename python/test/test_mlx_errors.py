"""Wrong calls, and the class of exception that MLX 0.32.4 raises for each: weft.mlx raises the same. An axis that is not there is an
IndexError in some versions and functions of MLX and a ValueError in others; AxisError is both."""
import builtins
import io

import numpy as np
import pytest

import weft
import weft.mlx.core as mx

OF_WHAT_FAILED = """b.ndim; b.dtype; b.itemsize; b.size; b.nbytes; b.shape; len(b); list(b); b.T; mx.matrix_transpose(b); b[0]; b[:, 1]
    b.__setitem__(0, 1); b.at[0].add(1); b.sum(axis=0); mx.softmax(b, axis=-1); b.transpose(1, 0); mx.moveaxis(b, 0, 1); b.squeeze(0)
    mx.expand_dims(b, 0); mx.concatenate([b, b], axis=1); mx.stack([b, b], axis=1); mx.sort(b, axis=1); mx.cumsum(b, axis=1)
    mx.take(b, mx.array([0]), axis=1); mx.split(b, 3, axis=1); b.flatten(0, 1); mx.pad(b, ((0, 0), (1, 1))); mx.repeat(b, 2, axis=0)
    mx.vmap(lambda r: r + 1)(b); mx.unflatten(b, 1, (3, 1)); mx.trace(b); mx.argmax(b, axis=1); mx.topk(b, 2, axis=1)
    mx.zeros((3, 3))[b]; b + 1; b @ b; b.item(); b.tolist(); repr(b); mx.arange(3)[0, b]; mx.fast.rms_norm(b, None, 1e-5)"""


@pytest.mark.parametrize("program", [p.strip() for line in OF_WHAT_FAILED.splitlines() for p in line.split(";")])
def test_what_failed_in_another_thread_says_why_whatever_is_done_with_it(program):
    b = mx.zeros((2, 3))
    b[..., mx.array([1, 5])] = 1
    mx.async_eval(b)
    with pytest.raises((IndexError, ValueError)):
        mx.synchronize()
    with pytest.raises((IndexError, ValueError), match="the index 5 at place 1 is out of range for an axis of 3"):
        if eval(program, {"mx": mx, "b": b}) is not None:
            pytest.fail(program)


def test_messages_begin_with_the_function_as_it_was_called():
    x = mx.zeros((2, 3))
    for call, text in ((lambda: x.sum(axis=5), "^sum: there is no axis 5 among 2$"), (lambda: mx.softmax(x, axis=-4), "^softmax: "),
                       (lambda: weft.sort(weft.ones(3), axis=1), "^sort: there is no axis 1 among 1$"),
                       (lambda: x.transpose(0, 0), "^transpose: the axis 0 is named twice$"), (lambda: x.sum(axis="0"), "^sum: 'str' object"),
                       (lambda: x.reshape(4, -1), "^reshape: no size fits for -1 on axis 1"), (lambda: mx.grad(lambda x: x)(x), "^grad: the"),
                       (lambda: mx.fast.scaled_dot_product_attention(x, x[:, :1], x, scale=1.0), "^scaled_dot_product_attention: "),
                       (lambda: mx.value_and_grad(lambda x: x)(2.0), "^value_and_grad: an argument"),
                       (lambda: x[0, 0, 0], "too many indices: 3 for an array of 2 axes"),
                       (lambda: x.at[0, 0, 0].add(1), "too many indices: 3 for an array of 2 axes")):
        with pytest.raises((ValueError, TypeError), match=text):
            call()


def test_what_the_users_own_code_raises_is_not_changed():
    class Odd:
        def __index__(self):
            raise ValueError("no number today")

    with pytest.raises(ValueError, match="^no number today$"):
        mx.sum(mx.zeros((2, 3)), axis=Odd())


CLASSES = {"AxisError": weft.AxisError}
RAISED = {
    "AxisError": [
        "mx.sum(x, axis=7)", "mx.sum(x, axis=-9)", "mx.sum(x, axis=(0, 7))", "mx.sum(mx.array(1.0), axis=-1)",
        "mx.prod(x, axis=7)", "mx.prod(x, axis=-9)", "mx.prod(x, axis=(0, 7))", "mx.prod(mx.array(1.0), axis=-1)",
        "mx.mean(x, axis=7)", "mx.mean(x, axis=-9)", "mx.mean(x, axis=(0, 7))", "mx.mean(mx.array(1.0), axis=-1)",
        "mx.max(x, axis=7)", "mx.max(x, axis=-9)", "mx.max(x, axis=(0, 7))", "mx.max(mx.array(1.0), axis=-1)",
        "mx.min(x, axis=7)", "mx.min(x, axis=-9)", "mx.min(x, axis=(0, 7))", "mx.min(mx.array(1.0), axis=-1)",
        "mx.all(x, axis=7)", "mx.all(x, axis=-9)", "mx.all(x, axis=(0, 7))", "mx.all(mx.array(1.0), axis=-1)",
        "mx.any(x, axis=7)", "mx.any(x, axis=-9)", "mx.any(x, axis=(0, 7))", "mx.any(mx.array(1.0), axis=-1)",
        "mx.logsumexp(x, axis=7)", "mx.logsumexp(x, axis=-9)", "mx.logsumexp(x, axis=(0, 7))",
        "mx.logsumexp(mx.array(1.0), axis=-1)", "mx.argmax(x, axis=7)", "mx.argmax(x, axis=-9)",
        "mx.argmax(mx.array(1.0), axis=-1)", "mx.argmin(x, axis=7)", "mx.argmin(x, axis=-9)",
        "mx.argmin(mx.array(1.0), axis=-1)", "mx.var(x, axis=7)", "mx.var(x, axis=-9)", "mx.var(x, axis=(0, 7))",
        "mx.var(mx.array(1.0), axis=-1)", "mx.std(x, axis=7)", "mx.std(x, axis=-9)", "mx.std(x, axis=(0, 7))",
        "mx.std(mx.array(1.0), axis=-1)", "mx.median(x, axis=7)", "mx.median(x, axis=-9)", "mx.median(x, axis=(0, 7))",
        "mx.median(mx.array(1.0), axis=-1)", "mx.cumsum(x, axis=7)", "mx.cumsum(x, axis=-9)",
        "mx.cumsum(mx.array(1.0), axis=-1)", "mx.cumprod(x, axis=7)", "mx.cumprod(x, axis=-9)",
        "mx.cumprod(mx.array(1.0), axis=-1)", "mx.cummax(x, axis=7)", "mx.cummax(x, axis=-9)",
        "mx.cummax(mx.array(1.0), axis=-1)", "mx.cummin(x, axis=7)", "mx.cummin(x, axis=-9)",
        "mx.cummin(mx.array(1.0), axis=-1)", "mx.logcumsumexp(x, axis=7)", "mx.logcumsumexp(x, axis=-9)",
        "mx.logcumsumexp(mx.array(1.0), axis=-1)", "mx.sort(x, axis=7)", "mx.sort(x, axis=-9)",
        "mx.sort(mx.array(1.0), axis=-1)", "mx.argsort(x, axis=7)", "mx.argsort(x, axis=-9)",
        "mx.argsort(mx.array(1.0), axis=-1)", "mx.softmax(x, axis=7)", "mx.softmax(x, axis=-9)",
        "mx.softmax(x, axis=(0, 7))", "mx.softmax(mx.array(1.0), axis=-1)", "mx.minmax(x, axis=7)", "mx.minmax(x, axis=-9)",
        "mx.minmax(x, axis=(0, 7))", "mx.minmax(mx.array(1.0), axis=-1)", "mx.squeeze(x, axis=7)", "mx.squeeze(x, axis=-9)",
        "mx.squeeze(x, axis=(0, 7))", "mx.squeeze(mx.array(1.0), axis=-1)", "mx.flip(x, axis=7)", "mx.flip(x, axis=-9)",
        "mx.flip(x, axis=(0, 7))", "mx.flip(mx.array(1.0), axis=-1)", "mx.expand_dims(x, axis=7)",
        "mx.expand_dims(x, axis=-9)", "mx.expand_dims(x, axis=(0, 7))", "mx.partition(x, 1, 7)", "mx.argpartition(x, 1, 7)",
        "mx.topk(x, 1, 7)", "mx.take(x, i, 7)", "mx.take(x, 0, 7)", "mx.take_along_axis(x, i, 7)",
        "mx.put_along_axis(x, i, x, 7)", "mx.concatenate([x, x], 7)", "mx.stack([x, x], 7)", "mx.split(x, 2, 7)",
        "mx.split(x, [1], 7)", "mx.repeat(x, 2, 7)", "mx.roll(x, 1, 7)", "mx.moveaxis(x, 7, 0)", "mx.moveaxis(x, 0, 7)",
        "mx.swapaxes(x, 0, 7)", "mx.transpose(x, (0, 7))", "mx.unflatten(x, 7, (2, 3))", "mx.diagonal(x, 0, 0, 7)",
        "mx.trace(x, 0, 0, 7)", "mx.unstack(x, axis=7)", "mx.diff(x, axis=7)", "mx.count_nonzero(x, axis=7)",
        "mx.vecdot(x, x, axis=7)", "mx.vecdot(mx.array(1.0), mx.array(2.0))", "mx.linalg.cross(x, x, axis=7)",
        "mx.linalg.norm(x, axis=7)", "mx.linalg.norm(x, 1, axis=7)", "mx.fft.fftshift(x, axes=(7,))",
        "mx.fft.ifftshift(x, axes=(7,))", "mx.fft.fft(x, axis=7)", "mx.fft.fftn(x, axes=(7,))", "mx.fft.rfft(x, axis=7)",
        "mx.random.categorical(x, 7)", "mx.random.categorical(mx.array(1.0))", "mx.random.permutation(x, 7)", "mx.slice(x, mx.array([0]), (7,), (1, 1))",
        "mx.vmap(lambda a: a, in_axes=7)(x)", "mx.vmap(lambda a: a, out_axes=7)(x)", "mx.vmap(lambda a: a)(mx.array(1.0))",
    ],
    "ValueError": [
        "mx.broadcast_shapes((2,), mx.array([2]))", "mx.broadcast_shapes((2,), mx.float32)", "mx.isdtype(mx.int8, 'nonsense')", "mx.isdtype(mx.int8, [1, 2])",
        "mx.tensordot(x, x, [[]])", "mx.tensordot(x, x, [])", "mx.value_and_grad(lambda a: a.sum(), argnums=np.array([1, 0]))(x)",
        "mx.linalg.lu_factor(mx.ones((2, 3), mx.float16), stream=mx.cpu)", "mx.vmap(lambda a: a, (None,))(x)",
        "mx.can_cast(3, mx.int8)", "mx.random.normal((2,), loc=mx.ones(3))",
        "mx.array([1.0]) & mx.array([1.0])", "mx.array([1.0]).__iand__(mx.array([1.0]))",
        "mx.array([1.0]) << mx.array([1.0])", "mx.array([1.0]) | mx.array([1.0])", "mx.array([1.0]) ^ mx.array([1.0])",
        "mx.array([1.0]) >> mx.array([1.0])", "~mx.array([1.0])", "mx.bitwise_invert(mx.array([1.0]))",
        "mx.array([1.0]) & 1", "mx.clip(x, 'a', None)", "x.__setitem__(0, 'a')", "mx.nan_to_num('a')", "x + 'a'",
        "x + object()", "x < np.array([1, None])", "x + np.array([1, 2, 0], '>i4')", "x.at[0].add('a')", "mx.exp('a')",
        "mx.array(object())", "mx.take(x, mx.array([0.5]))",
        "mx.transpose(x, (0, 0))", "mx.transpose(x, (0,))", "mx.flatten(x, 7, 8)", "mx.sum(x, axis=(0, 0))",
        "mx.squeeze(mx.ones((1, 1)), axis=(0, 0))", "mx.expand_dims(x, (0, 0))", "mx.squeeze(x, 0)",
        "x[0, 0, 0]", "mx.pad(x, ((1, 1),) * 3)", "mx.broadcast_to(x, (4, 3))", "x.reshape(4)",
        "x @ x", "mx.conv1d(x, x)", "mx.einsum('ij,jk', x, x)", "x.item()", "mx.view(mx.array([1], mx.uint8), mx.int32)",
        "mx.searchsorted(x, x)", "mx.unique(x, -1)", "mx.linspace(0, 1, -1)", "mx.arange(0, 1, 0)",
        "mx.eye(-1)", "mx.zeros((-1,))", "mx.tile(x, -1)", "mx.repeat(x, -1)", "mx.grad(lambda a: a)(x)",
        "mx.grad(lambda a: None)(x)", "mx.grad(lambda a: a.sum(), argnums=3)(x)", "mx.grad(lambda a: a.sum())(3)", "x['a']",
        "x[1.5]", "x[mx.array([1.5])]", "x.__setitem__(0, mx.ones((5,)))", "bool(x)", "float(x)",
        "int(x)", "mx.concatenate([])", "mx.stack([])", "mx.stack([x, x[0]])", "mx.concatenate([x, x[0]])",
        "mx.where(x, x, mx.ones(5))", "x + mx.ones(5)", "x.__iadd__(mx.ones(5))", "mx.addmm(x, x, x)",
        "mx.random.uniform(mx.ones(5), 1, (2,))", "mx.random.randint(0, 1, (2,), mx.float32)", "mx.random.bernoulli(1)",
        "mx.random.split(mx.ones(3))", "mx.fast.rope(x, 2, traditional=True, base=1.0, scale=1.0, offset=0)",
        "mx.fast.rms_norm(x, mx.ones(5), 1e-05)", "mx.fast.scaled_dot_product_attention(x, x, x, scale=1.0)",
        "mx.linalg.inv(x, stream=mx.cpu)", "mx.linalg.cholesky(x, stream=mx.cpu)", "mx.quantize(x)",
        "mx.take(x[:0], 1, axis=0)", "mx.take(x[:0], mx.array(1), axis=0)", "mx.take(mx.zeros(0), 1)",
        "mx.meshgrid(x, indexing='a')", "mx.hadamard_transform(x[..., :0] if 0 else mx.ones(5))",
        "mx.block_masked_mm(x, x, 16)", "mx.isclose(x, mx.ones(5))", "mx.fft.fft(x, n=0)", "mx.convolve(x, x)",
        "mx.load(x)", "mx.load(0)", "mx.issubdtype(1j, mx.floating)", "mx.isdtype(mx.uint8, ['a'])",
    ],
    "OverflowError": ["mx.broadcast_to(x, [2**31])", "mx.zeros((2**31,))", "mx.reshape(x, [2**40])", "mx.full([2**31], 1)"],
    "RuntimeError": [
        "mx.bitwise_and(mx.array([1.0]), mx.array([1.0]))", "mx.left_shift(mx.array([1.0]), mx.array([1.0]))",
        "mx.load('/nonexistent.npy')",
    ],
    "TypeError": [
        "mx.transpose(x, axes=2)", "mx.permute_dims(x, axes=1)", "mx.broadcast_to(x, 7)", "mx.broadcast_to(x, 2**70)", "mx.isdtype(None, 'integral')", "mx.isdtype(3, ())",
        "mx.isdtype(mx.int8, None)", "mx.linalg.norm(x, ord=[1])", "mx.linalg.norm(x, ord=mx)", "mx.ones(3, stream=2)", "mx.ones(3, stream=-1)",
        "mx.kron(x, None)", "mx.outer(x, None)", "[1, 2] & i", "1.5 & i", "1.5 << i", "x.at[0].add(None)", "mx.exp(None)",
        "mx.array(None)", "mx.conv2d(mx.ones((1, 4, 4, 1)), mx.ones((1, 2, 2, 1)), (1, 1, 1))",
        "mx.conv1d(mx.ones((1, 4, 1)), mx.ones((1, 2, 1)), 1, (1, 2, 3))", "mx.take(x, [0.5])",
        "mx.arange(0, mx.array([1, 2]))", "mx.arange(np.ones(3))", "(1, 2) << i", "range(3) & i", "i @ [1]", "mx.vmap(lambda a: a, None)", "mx.vjp(lambda: x, [i], [x])", "mx.can_cast(x, 3)", "mx.tensordot(x, x, [1, 2, 3])", "mx.random.laplace((2,), loc=mx.ones(3))",
        "mx.fast.rope(mx.ones((1, 1, 1, 4)), 4, traditional=True, base=1.0, scale=mx.ones(3), offset=0)",
        "mx.compile(5)", "mx.zeros(2, 'a')", "iter(mx.array(1))", "len(mx.array(1))", "[1][x]",
        "mx.softmax(x, axis='a')", "mx.random.key('a')", "mx.round(x, 'a')", "mx.sum(x, axes=1)",
        "mx.sum()", "mx.exp(x, x, x, x)", "mx.sum(3, axis=0)", "mx.sort(2)", "mx.diagonal([1, 2])", "mx.argmax(x, axis=())", "x @ True", "x @ [1]",
        "mx.fft.fft(x, norm=x)", "mx.unique(x, x)", "mx.allclose(x, x, atol=x)", "mx.full_like(x, 1, dtype=[1])", "mx.grad(3)",
        "mx.vmap('a')", "mx.vjp(3, [x], [x])", "mx.jvp(lambda a: a, [x], [1.0])", "mx.value_and_grad(None)", "mx.finfo(True)", "mx.iinfo(x)",
        "mx.linalg.solve_triangular(x, x, upper=(0, 0))", "mx.hadamard_transform(3)", "mx.transpose(lambda a: a)", "mx.split(x, 2, axis=(0, 7))",
        "mx.quantize(x, group_size=x)", "mx.conv1d(x, x, padding='a')", "mx.einsum_path('i,i', x, None)", "mx.std([1, 2], axis=1)",
    ],
}


def test_a_file_that_fails_is_an_error_of_the_system_and_of_mlx(tmp_path):
    cut, header, x = tmp_path / "cut.npy", tmp_path / "cut.safetensors", mx.ones((2,))
    cut.write_bytes(b"\x93NUMPY\x01\x00")
    header.write_bytes(b"\xff" * 20)
    calls = [lambda: mx.load(str(cut)), lambda: mx.load(str(header)), lambda: mx.save(str(tmp_path / "no" / "a.npy"), x),
             lambda: mx.save_safetensors(str(tmp_path / "no" / "a"), {"a": x}), lambda: mx.load(io.BytesIO(b"nothing"), format="npy")]
    for call in calls:
        for kind in (OSError, RuntimeError):
            with pytest.raises(kind) as raised:
                call()
            assert str(raised.value)
    with open(tmp_path / "closed.npy", "wb") as file:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        mx.save(file, x)


@pytest.mark.parametrize("raised", [TypeError, ValueError, IndexError, KeyError])
def test_what_a_function_of_integers_raises_is_its_own(raised):
    def fails(a):
        raise raised("mine")

    i = mx.array([1, 2])
    for call in (lambda: mx.vjp(fails, [i], [i]), lambda: mx.jvp(fails, [i], [i]), lambda: mx.grad(fails)(i), lambda: mx.value_and_grad(fails)(i)):
        with pytest.raises(raised, match="mine") as seen:
            call()
        assert seen.type is raised


def test_random_functions_are_called_by_the_names_they_were_called_by():
    with pytest.raises(ValueError, match=r"^random\.uniform: a key is .* see random\.key"):
        mx.random.uniform(key=mx.ones((2, 2)))
    with pytest.raises(ValueError, match=r"random\.normal: "):
        weft.random.normal(weft.array([1, 2, 3]), shape=(2,))


@pytest.mark.parametrize("kind, call", [(kind, call) for kind, calls in RAISED.items() for call in calls])
def test_a_wrong_call_raises_what_mlx_raises(kind, call):
    names = {"mx": mx, "np": np, "x": mx.arange(6.0).reshape(2, 3), "i": mx.zeros((2, 3), mx.int32)}
    expected = CLASSES.get(kind) or getattr(builtins, kind)
    with pytest.raises(expected) as raised:
        y = eval(call, names)
        if isinstance(y, mx.array):
            mx.eval(y)
    assert raised.type is expected


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("function", ["cummax", "cummin"])
def test_a_running_maximum_of_complex_numbers_says_what_is_wrong(function, inclusive):
    """Without the element itself it spoke of a size that is not known."""
    with pytest.raises(ValueError, match=f"{function}: not of complex64"):
        getattr(mx, function)(mx.array([1j, 2.0]), axis=0, inclusive=inclusive)


def test_an_index_that_is_out_of_range_is_one_class_wherever_it_is_found():
    x = mx.arange(5)
    for call in (lambda: mx.eval(x[mx.array([7])]), lambda: x[mx.array([7])].item(), lambda: x[mx.array([7])].tolist(), lambda: x[7],
                 lambda: bool(x[mx.array(-9)]), lambda: repr(mx.take(x, mx.array([1, 9]))), lambda: np.array(x[mx.array([9])]),
                 lambda: memoryview(x[mx.array([9])]), lambda: mx.compile(lambda x: x[mx.array([9])])(x).item(),
                 lambda: mx.eval(mx.grad(lambda x: x[mx.array([9])].sum())(mx.ones(4))), lambda: weft.arange(5)[7],
                 lambda: weft.arange(5)[weft.array([7])].item(), lambda: weft.eval(weft.take(weft.arange(5), weft.array([9]))),
                 lambda: mx.save(io.BytesIO(), x[mx.array([9])]), lambda: x.__setitem__(7, 1),
                 lambda: x.at[7].add(1), lambda: x.at[mx.array([7])].add(1).tolist(), lambda: mx.zeros((2, 5)).at[:, -6].maximum(1)):
        for kind in (IndexError, ValueError, weft.RangeError):
            with pytest.raises(kind, match="out of range for a"):
                call()


def test_a_message_names_the_index_and_its_place_among_the_indices():
    with pytest.raises(weft.RangeError, match="^take: the index 30 at place 1 is out of range for an axis of 5 "):
        mx.arange(5)[mx.array([0, 30])].tolist()
    with pytest.raises(weft.RangeError, match="^the index 30 is out of range for axis 1 of 3$"):
        mx.zeros((2, 3))[:, 30]


class Half:
    def __float__(self):
        return 2.5


class Two:
    def __index__(self):
        return 2


class Turn:
    def __complex__(self):
        return 1j


class Never:
    def __float__(self):
        raise KeyError("never")


def test_objects_that_stand_for_a_number_are_complex_operands_as_in_mlx():
    x = mx.arange(3)
    for o, number in ((Half(), 2.5), (Two(), 2), (Turn(), 1j)):
        for y in (x + o, o + x, mx.add(x, o), mx.add(o, x)):
            assert y.dtype == mx.complex64 and y.tolist() == [complex(k + number) for k in range(3)]
        assert mx.where(x > 1, o, 0).tolist() == [0j, 0j, complex(number)]
        assert (x == o).tolist() == [k == number for k in range(3)]
    y = mx.zeros(3)
    y[1] = Half()
    assert y.tolist() == [0, 2.5, 0]
    for call in (lambda: x + Never(), lambda: mx.add(x, Never()), lambda: x.__setitem__(0, Never())):
        with pytest.raises(KeyError, match="never"):
            call()
    for call in (lambda: x + object(), lambda: mx.array(Half()), lambda: x + "1"):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: x @ Half(), lambda: x + None):
        with pytest.raises(TypeError):
            call()


def test_a_list_that_cannot_be_an_array_says_why():
    class Wrong:
        def __float__(self):
            raise ValueError("of the element's own")

        def __array__(self, *args, **kwargs):
            raise ValueError("of the element's own")

    for wrong, text in (([[1], [2, 3]], "non-uniform length"), ([1, [2]], "non-uniform length"), ([mx.array([1.0]), 1.0], "non-uniform length"),
                        ([1.0, mx.array([1.0])], "non-uniform length"), ([mx.ones((2, 3)), mx.ones((2, 2))], "non-uniform length"),
                        ([object()], "an array cannot be made of object"),
                        ([[1, Half()]], "an array cannot be made of Half"), ([Wrong()], "of the element's own")):
        with pytest.raises((ValueError, OverflowError), match=text):
            mx.array(wrong)


@pytest.mark.parametrize("of", [weft, mx])
def test_what_is_no_function_is_refused_where_it_is_given(of):
    for name in ("grad", "value_and_grad", "vmap", "compile", "checkpoint", "custom_function"):
        with pytest.raises(TypeError, match=f"^{name}: a function is expected, not int$"):
            getattr(of, name)(3)
    for name in ("jvp", "vjp"):
        with pytest.raises(TypeError, match=f"^{name}: a function is expected, not NoneType$"):
            getattr(of, name)(None, [of.array([1.0])], [of.array([1.0])])


def test_files_of_what_is_no_dict_and_elements_that_are_deleted(tmp_path):
    for wrong in (lambda: mx.save_safetensors(str(tmp_path / "a"), [mx.ones(2)]), lambda: mx.save_safetensors(str(tmp_path / "a"), {}, ["a"])):
        with pytest.raises(TypeError, match="^save_safetensors: the .* are a dict, not list$"):
            wrong()
    with pytest.raises(AttributeError, match="__delitem__"):
        del mx.ones(2)[0]
