"""weft.mlx: arrays in another flavour, what it refuses, and the drop-in. MLX itself is not needed."""
import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.mlx.core as mx


def _is_mlx(a):
    return type(a) is mx.array


# ---- Flavours


def test_results_have_the_flavour_of_their_operands():
    a, b = weft.array([1.0, 2.0]), mx.array([3.0, 4.0])
    assert type(a + a) is weft.array and _is_mlx(b + b)
    assert type(weft.exp(a)) is weft.array and _is_mlx(weft.exp(b))
    assert type(a[0]) is weft.array and _is_mlx(b[0]) and _is_mlx(b.T) and _is_mlx(b.real) and _is_mlx(b.copy())
    assert _is_mlx(mx.exp(a)) and _is_mlx(b.at[0].add(1.0)) and all(map(_is_mlx, mx.split(b, 2)))
    assert _is_mlx(copy.deepcopy(b)) and _is_mlx(pickle.loads(pickle.dumps(b)))
    assert isinstance(b, weft.array) and not isinstance(a, mx.array)


def test_where_flavours_meet_it_is_mlx():
    a, b = weft.array([1.0, 2.0]), mx.array([3.0, 4.0])
    for y in (a + b, b + a, weft.add(a, b), weft.concatenate([a, b]), weft.stack([a, b]), weft.where(a > 1, a, b), a == b):
        assert _is_mlx(y)
    a += b
    assert type(a) is weft.array and a.tolist() == [4.0, 6.0]


def test_transforms_keep_the_flavour():
    b = mx.array([3.0, 4.0])
    f = lambda x: (x * x).sum()
    assert _is_mlx(weft.grad(f)(b)) and _is_mlx(mx.grad(f)(b)) and all(map(_is_mlx, mx.value_and_grad(f)(b)))
    assert _is_mlx(weft.vmap(lambda x: x * 2)(b)) and _is_mlx(mx.checkpoint(lambda x: x * 2)(b))
    assert _is_mlx(weft.scan(lambda s, x: (s + x, s), mx.array(0.0), b)[0])
    own = mx.custom_function(lambda x: x * 2)
    assert _is_mlx(own(b))
    seen = []
    mx.grad(lambda x: (seen.append(type(x)), (x * x).sum())[1])(b)
    assert seen == [mx.array]


def test_loops_and_choices_mix_flavours():
    b = mx.array([3.0, 4.0])
    add = lambda s, x: (s + x, s)
    assert [weft.scan(add, zero, b)[0].item() for zero in (0.0, weft.array(0.0), mx.array(0.0))] == [7.0] * 3
    assert weft.while_loop(lambda s: s < 9.0, lambda s: s + b[0], 0.0).item() == 9.0
    assert weft.cond(b[0] > 0.0, lambda x: x, lambda x: weft.array([0.0, 0.0]), b).tolist() == [3.0, 4.0]
    assert weft.cond(b[0] > 9.0, lambda x: x, lambda x: weft.array([0.0, 0.0]), b).tolist() == [0.0, 0.0]


def test_a_compiled_function_answers_in_the_flavour_it_is_asked_in():
    f = weft.compile(lambda x: x * 2 + 1)
    a, b = weft.array([1.0]), mx.array([1.0])
    for _ in range(3):
        assert type(f(a)) is weft.array and _is_mlx(f(b))
    assert _is_mlx(mx.compile(lambda: mx.ones((2,)))())


def test_dtypes_are_of_the_flavour_of_the_array():
    b = mx.array([1, 2])
    assert b.dtype is mx.int32 and repr(b.dtype) == "mlx.core.int32" and weft.array([1]).dtype is weft.int32
    assert b.dtype == mx.int32 and b.dtype != "int32" and {mx.int32: 1}[b.dtype] == 1
    assert mx.issubdtype(mx.int32, mx.integer) and not mx.issubdtype(mx.int32, mx.floating)
    assert mx.finfo(mx.float16).max == 65504 and mx.iinfo(mx.uint8).max == 255


# ---- Conventions at the door


def test_doubles_of_numpy_are_narrowed_unless_told_otherwise():
    x = np.array([1.0, 2.0])
    assert mx.array(x).dtype is mx.float32 and mx.array(x, mx.float64).dtype is mx.float64
    assert weft.array(x).dtype is weft.float64
    assert mx.array(x.astype(np.complex128)).dtype is mx.complex64


def test_numbers_and_memory_take_the_dtype_of_the_array_they_meet():
    a = mx.array([1, 2], mx.int32)
    assert (a + np.array([0.5, 0.5])).tolist() == [1, 2] and (a + 1.0).dtype is mx.float32
    assert (mx.array([1.0], mx.float16) * 2.5).dtype is mx.float16
    with pytest.raises(ValueError, match="overflow"):
        mx.array([1], mx.uint8) + 300
    with pytest.raises(ValueError):
        a[0] = 2 ** 40


def test_what_mlx_refuses_is_refused():
    a = mx.array([[1, 2], [3, 4]])
    with pytest.raises(ValueError):
        a @ a
    with pytest.raises(ValueError):
        a /= 2
    with pytest.raises(ValueError):
        a + [1, 2]
    with pytest.raises(ValueError):
        a[0, 0, 0]
    with pytest.raises(ValueError):
        mx.array([1.0]) & mx.array([2.0])
    assert (a == [1, 2]) is False and (a != "text") is True
    assert (weft.array([[1, 2], [3, 4]]) @ weft.array([1, 1])).tolist() == [3, 7]


def test_objects_with_an_array_inside_are_operands():
    class Holder:
        def __mlx_array__(self):
            return mx.array([1.0, 2.0])

    assert (mx.array([1.0, 1.0]) + Holder()).tolist() == [2.0, 3.0] and mx.array(Holder()).tolist() == [1.0, 2.0]

    class Liar:
        def __mlx_array__(self):
            raise KeyError("no")

    with pytest.raises(KeyError):
        mx.array([1.0]) + Liar()


def test_complex_gradients_are_conjugated_at_the_door():
    x = mx.array(3 + 4j)
    assert mx.grad(lambda z: mx.abs(z))(x).item() == pytest.approx(0.6 + 0.8j)


def test_what_is_not_there_says_its_name():
    for call, name in ((mx.linalg.eig, "linalg.eig"), (mx.fast.cuda_kernel, "fast.cuda_kernel"), (mx.export_function, "export_function")):
        with pytest.raises(NotImplementedError, match=f"mlx.core.{name}"):
            call()


def test_a_kernel_of_metal_is_refused_when_it_is_called():
    kernel = mx.fast.metal_kernel(name="twice", input_names=["x"], output_names=["y"], source="y[0] = 2 * x[0];", header="")
    with pytest.raises(NotImplementedError, match="mlx.core.fast.metal_kernel: .*'twice'"):
        kernel(inputs=[mx.ones(2)], output_shapes=[(2,)], output_dtypes=[mx.float32], grid=(2, 1, 1), threadgroup=(1, 1, 1))
    with pytest.raises(TypeError):
        mx.fast.metal_kernel("twice")


def test_every_name_has_a_signature_and_a_text():
    import inspect
    for row in weft._core._mlx.names:
        f = getattr(weft._core._mlx, row["name"])
        assert inspect.signature(f) is not None and f.__doc__ and f.__name__ == row["name"]


# ---- Derivatives


def test_grad_puts_names_into_containers_and_takes_them_out():
    tree = {"a": [mx.array(2.0), mx.array(3.0)], "b": mx.array(5.0)}
    kept = tree["a"][0]

    def f(t):
        t["b"] = t["b"] * 2
        return t["a"][0] * t["a"][1] * t["b"]

    gradient = mx.grad(f)(tree)
    assert tree["a"][0] is kept and tree["b"].item() == 10.0
    assert gradient["a"][0].item() == 30.0 and gradient["a"][1].item() == 20.0 and gradient["b"].item() == 12.0
    with pytest.raises(ZeroDivisionError):
        mx.grad(lambda t: 1 / 0)(tree)
    assert tree["a"][0] is kept
    with pytest.raises(ValueError, match="not an array"):
        mx.grad(lambda t: t[0])([mx.array(1.0), "text"])


def test_the_function_may_change_what_it_is_given():
    def f(x, at):
        x[at] = 2.0
        return (x * x).sum()

    x = mx.array([1.0, 2.0, 3.0])
    assert mx.grad(f)(x, mx.array([1])).tolist() == [2.0, 0.0, 6.0] and x.tolist() == [1.0, 2.0, 3.0]


def test_ties_of_running_extremes_go_to_the_last():
    a = mx.array([[3.0, 3.0, 1.0, 5.0], [1.0, 2.0, 2.0, 0.0]])
    one = mx.grad(lambda y: mx.cummax(y).sum())
    wanted = [[1.0, 2.0, 0.0, 1.0], [1.0, 1.0, 2.0, 0.0]]
    assert [one(row).tolist() for row in a] == wanted and mx.vmap(one)(a).tolist() == wanted
    assert mx.grad(lambda y: mx.cummax(y, axis=1).sum())(a).tolist() == wanted
    assert weft.grad(lambda y: weft.cummax(y, 0).sum())(weft.array([3.0, 3.0])).tolist() == [2.0, 0.0]
    assert mx.jvp(lambda y: mx.cummin(y, axis=1), [a], [mx.arange(8.0).reshape(2, 4)])[1][0].tolist() == [[0, 1, 2, 2], [4, 4, 4, 7]]


# ---- What is written into is computed along


def test_a_cache_that_is_written_into_does_not_grow():
    cache, x = mx.zeros((64, 4)), mx.ones((4,))
    mx.eval(cache, x)
    nodes = []
    for i in range(20):
        cache[i] = x * i
        mx.eval((cache[: i + 1] * 2).sum())
        nodes.append(weft.live_nodes())
    assert nodes[-1] == nodes[4]
    assert cache.sum().item() == 4 * sum(range(20))


def test_what_was_written_into_and_fails_does_not_spoil_what_was_asked_for():
    bad, at = mx.zeros((4,)), mx.array([7])
    bad[at] = 1.0  # out of range, which is found when it is computed
    y = mx.ones((2,)) + 1
    mx.eval(y)
    assert y.tolist() == [2.0, 2.0]
    with pytest.raises(Exception):
        bad.tolist()


def test_masks_take_values_in_order_without_being_known():
    x, m = np.arange(8.0, dtype=np.float32).reshape(2, 4), np.array([[True, False, True, False], [False, True, True, True]])

    def put(a, mask, v):
        a[mask] = v
        return a

    v = np.array([[10.0, 20.0, 30.0, 40.0]] * 2, dtype=np.float32)
    wanted = [put(x[i].copy(), m[i], v[i][: m[i].sum()]).tolist() for i in range(2)]
    assert mx.vmap(put)(mx.array(x), mx.array(m), mx.array(v)).tolist() == wanted


# ---- Quantised matrices


def _stream(rows, bits):
    """Numbers of so many bits as uint32, least significant bit first: one number at a time, in Python's integers."""
    out = []
    for row in rows:
        stream = sum(int(q) << (k * bits) for k, q in enumerate(row))
        out.append([(stream >> (32 * k)) & 0xFFFFFFFF for k in range(len(row) * bits // 32)])
    return np.array(out, dtype=np.uint32)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_packed_matrices_are_what_their_bits_say(bits, rows):
    rng = np.random.default_rng(bits)
    q = rng.integers(0, 2 ** bits, (6, 64))
    scales, biases = (rng.standard_normal((6, 2)).astype(np.float32) for _ in range(2))
    matrix = q * np.repeat(scales, 32, 1) + np.repeat(biases, 32, 1)
    packed = [mx.array(_stream(q, bits)), mx.array(scales), mx.array(biases)]
    np.testing.assert_allclose(np.array(mx.dequantize(*packed, group_size=32, bits=bits)), matrix, rtol=1e-6, atol=1e-5)
    x = rng.standard_normal((rows, 64)).astype(np.float32)
    np.testing.assert_allclose(np.array(mx.quantized_matmul(mx.array(x), *packed, group_size=32, bits=bits)), x @ matrix.T, rtol=1e-4,
                               atol=1e-2)
    again = mx.quantize(mx.array(matrix.astype(np.float32)), group_size=32, bits=bits)
    step = np.abs(np.array(again[1])).max()
    assert np.abs(np.array(mx.dequantize(*again, group_size=32, bits=bits)) - matrix).max() <= step * 0.51 + 1e-4


def test_small_floats_are_rounded_to_the_nearest():
    x = np.concatenate([np.linspace(-500, 500, 1001), 2.0 ** np.arange(-12.0, 9.0), [0.0, np.nan]]).astype(np.float32)
    table = np.array([(-1 if c & 128 else 1) * ((c & 7) * 2.0 ** -9 if not c >> 3 & 15 else (8 + (c & 7)) * 2.0 ** ((c >> 3 & 15) - 10))
                      for c in range(256) if c & 127 != 127])
    back = np.array(mx.from_fp8(mx.to_fp8(mx.array(x)), mx.float32))
    nearest = np.abs(np.clip(x, -448, 448)[:, None] - table).min(1)
    assert np.isnan(back[-1])
    np.testing.assert_array_equal(np.abs(back - np.clip(x, -448, 448))[:-1], nearest[:-1].astype(np.float32))


@pytest.mark.parametrize("n", [1, 2, 5, 32, 33, 64, 100, 131, 144, 210, 254, 255, 256, 257, 502, 512, 1024, 1037, 4096])
def test_fourier_transforms_are_those_of_numpy(n):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))).astype(np.complex64)
    close = lambda ours, theirs: np.testing.assert_allclose(np.array(ours), theirs, rtol=1e-5, atol=1e-5 * n ** 0.5)
    for norm in ("backward", "ortho", "forward"):
        close(mx.fft.fft(mx.array(x), norm=norm), np.fft.fft(x, norm=norm))
        close(mx.fft.ifft(mx.array(x), norm=norm), np.fft.ifft(x, norm=norm))
        close(mx.fft.rfft(mx.array(x.real), norm=norm), np.fft.rfft(x.real, norm=norm))
    close(mx.fft.irfft(mx.array(x), n=n), np.fft.irfft(x, n=n))
    close(mx.fft.fft(mx.array(x), n=n + 3, axis=1), np.fft.fft(x, n=n + 3, axis=1))
    close(mx.fft.fft2(mx.array(x)), np.fft.fft2(x))
    close(mx.fft.irfftn(mx.fft.rfftn(mx.array(x.real)), s=x.shape), x.real)
    f = lambda v: mx.square(mx.abs(mx.fft.fft(v))).sum()  # n |v|^2, whose gradient is 2 n v
    close(mx.grad(f)(mx.array(x.real)) / n, 2 * x.real)
    close(mx.vmap(mx.fft.fft)(mx.array(x)), np.fft.fft(x))
    close(mx.fft.fft(mx.array(np.ascontiguousarray(x.T)), axis=0), np.fft.fft(x.T, axis=0))
    close(mx.fft.rfft(mx.array(x.real)[:, ::-1]), np.fft.rfft(x.real[:, ::-1]))
    close(mx.fft.fft(mx.array(x)[0]), np.fft.fft(x[0]))
    for a in (mx.array(x), mx.array(x.real)):  # none, and one row of many have the bits of all
        assert mx.fft.fft(a[:0]).shape == (0, n) and mx.fft.ifft(a[:0].reshape(3, 0, n)).shape == (3, 0, n)
        np.testing.assert_array_equal(np.array(mx.fft.fft(a))[1], np.array(mx.fft.fft(a[1])))


@pytest.mark.parametrize("n", [128, 200, 256, 1024])
def test_fourier_transforms_of_doubles_are_exact_to_doubles(n):
    x = np.random.default_rng(n).standard_normal((3, n))
    with mx.stream(mx.cpu):
        wide = mx.array(x, mx.float64)
        np.testing.assert_allclose(np.array(mx.fft.fft(wide)), np.fft.fft(x), atol=1e-12)
        np.testing.assert_allclose(np.array(mx.fft.irfft(mx.fft.rfft(wide))), x, atol=1e-13)


def test_unique_elements_are_those_of_numpy():
    x = np.array([[3, 1, 3], [7, 1, 0]])
    found = mx.unique(mx.array(x), 6, return_index=True, return_inverse=True, return_counts=True)
    values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    assert found[0].tolist() == values.tolist() + [0, 0] and found[1].tolist()[:4] == index.tolist()
    assert found[2].tolist() == inverse.reshape(x.shape).tolist() and found[3].tolist() == counts.tolist() + [0, 0]
    assert mx.unique(mx.array(x), 2).tolist() == [0, 1] and mx.unique(mx.array(x), 5, fill_value=9).tolist() == [0, 1, 3, 7, 9]
    assert [y.item() for y in mx.minmax(mx.array(x))] == [0, 7]


@pytest.mark.parametrize("upper", [False, True])
def test_systems_of_equations_are_those_of_numpy(upper):
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 5, 5)).astype(np.float32), rng.standard_normal((2, 5, 3)).astype(np.float32)
    spd = a @ a.transpose(0, 2, 1) + 5 * np.eye(5, dtype=np.float32)
    close = lambda ours, theirs: np.testing.assert_allclose(np.array(ours), theirs, rtol=2e-4, atol=2e-4)
    close(mx.linalg.solve(mx.array(spd), mx.array(b)), np.linalg.solve(spd, b))
    close(mx.linalg.inv(mx.array(spd)), np.linalg.inv(spd))
    factor = np.linalg.cholesky(spd).transpose(0, 2, 1) if upper else np.linalg.cholesky(spd)
    close(mx.linalg.cholesky(mx.array(spd), upper=upper), factor)
    close(mx.linalg.cholesky_inv(mx.array(factor), upper=upper), np.linalg.inv(spd))
    close(mx.linalg.tri_inv(mx.array(factor), upper=upper), np.linalg.inv(factor))
    close(mx.linalg.solve_triangular(mx.array(factor), mx.array(b), upper=upper), np.linalg.solve(factor, b))
    close(mx.linalg.slogdet(mx.array(a))[1], np.linalg.slogdet(a)[1])
    assert _is_mlx(mx.linalg.inv(mx.array(spd))) and all(map(_is_mlx, mx.linalg.slogdet(mx.array(a))))
    with pytest.raises(ValueError, match="square"):
        mx.linalg.inv(mx.ones((2, 3)))


def test_einsum_paths_are_those_of_numpy():
    for text, shapes in (("ij,jk,kl", [(5, 8), (8, 3), (3, 7)]), ("ij,jk,kl", [(5, 8), (8, 10), (10, 7)]), ("ij->i", [(5, 5)]),
                         ("bca,cdb,dbf,afc->", [(3, 4, 2), (4, 5, 3), (5, 3, 6), (2, 6, 4)])):
        assert mx.einsum_path(text, *map(mx.zeros, shapes))[0] == np.einsum_path(text, *map(np.zeros, shapes))[0][1:]


# ---- Random numbers


@pytest.fixture
def seeded():
    yield
    mx.random.seed(0)


def test_the_global_key_is_split_by_every_draw(seeded):
    mx.random.seed(7)
    first, second = mx.random.uniform(shape=(3,)).tolist(), mx.random.uniform(shape=(3,)).tolist()
    mx.random.seed(7)
    assert mx.random.uniform(shape=(3,)).tolist() == first != second
    assert mx.random.uniform(shape=(2,), key=mx.random.key(0)).tolist() == mx.random.uniform(shape=(2,), key=mx.random.key(0)).tolist()


def test_a_compiled_function_draws_anew_if_it_is_told_the_state(seeded):
    mx.random.seed(3)
    draw = mx.compile(lambda: mx.random.uniform(shape=(2,)), inputs=mx.random.state, outputs=mx.random.state)
    a, b = draw().tolist(), draw().tolist()
    mx.random.seed(3)
    assert a != b and a == mx.random.uniform(shape=(2,)).tolist() and b == mx.random.uniform(shape=(2,)).tolist()


# ---- The drop-in


def _run(code, *more):
    return subprocess.run([sys.executable, *more, "-c", code] if not more else [sys.executable, *more], capture_output=True, text=True)


def test_as_mlx_puts_weft_where_mlx_core_is_looked_for():
    done = _run("import weft; weft.as_mlx(); import mlx.core as mx; import mlx.core; from mlx.core import random\n"
                "import weft.mlx.core; assert mx is weft.mlx.core and mlx.core is mx and random is mx.random; weft.as_mlx()\n"
                "print(mx.array([1, 2]) + 1)")
    assert done.returncode == 0 and done.stdout == "array([2, 3], dtype=int32)\n", done.stderr


def test_a_script_runs_with_weft_in_place_of_mlx(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, mlx.core as mx, beside\nprint(sys.argv[1:], __name__, mx.arange(3).tolist(), beside.x)\n")
    (tmp_path / "beside.py").write_text("x = 5\n")
    done = _run(None, "-m", "weft.mlx", str(script), "a", "-b")
    assert done.returncode == 0 and done.stdout == "['a', '-b'] __main__ [0, 1, 2] 5\n", done.stderr
    done = _run(None, "-m", "weft.mlx", "-m", "json.tool", "--help")
    assert done.returncode == 0 and "json" in done.stdout, done.stderr


def test_what_the_drop_in_is_not_told_right_it_says_in_a_line(tmp_path):
    for asked in (["-h"], ["--help"]):
        done = _run(None, "-m", "weft.mlx", *asked)
        assert done.returncode == 0 and done.stdout.startswith("usage: python -m weft.mlx") and done.stderr == ""
    for wrong, why in (([], "usage:"), (["-m"], "usage:"), (["--nonsense", "a.py"], "usage:"), ([str(tmp_path / "none.py")], "there is no file"),
                       (["-m", "no_such_module"], "no module named 'no_such_module'"), (["-m", "no_such.module"], "no module named")):
        done = _run(None, "-m", "weft.mlx", *wrong)
        assert done.returncode == 2 and why in done.stderr and "Traceback" not in done.stderr and done.stdout == "", (wrong, done.stderr)
    (tmp_path / "fails.py").write_text("import nothing_of_that_name\n")
    done = _run(None, "-m", "weft.mlx", str(tmp_path / "fails.py"))  # the script's own failure is shown as it is
    assert done.returncode == 1 and "ModuleNotFoundError: No module named 'nothing_of_that_name'" in done.stderr


def test_the_package_says_what_it_is():
    done = _run(None, "-m", "weft")
    assert done.returncode == 0 and done.stdout.startswith(f"weft {weft.__version__}, Python") and "device 0: the CPU" in done.stdout


# ---- Files


def test_arrays_go_through_files_and_come_back_in_the_flavour(tmp_path):
    arrays = {"a": mx.array([[1.0, 2.0]]), "b": mx.array([3], mx.bfloat16)}
    mx.save_safetensors(str(tmp_path / "x"), arrays, {"k": "v"})
    back, metadata = mx.load(str(tmp_path / "x.safetensors"), return_metadata=True)
    assert metadata == {"k": "v"} and all(_is_mlx(back[k]) and mx.array_equal(back[k], arrays[k]).item() for k in arrays)
    mx.save(str(tmp_path / "y"), arrays["a"])
    assert _is_mlx(mx.load(str(tmp_path / "y.npy"))) and mx.load(str(tmp_path / "y.npy")).tolist() == [[1.0, 2.0]]
    mx.savez(str(tmp_path / "z"), arrays["a"], c=arrays["a"])
    assert {k: v.tolist() for k, v in mx.load(str(tmp_path / "z.npz")).items()} == {"arr_0": [[1.0, 2.0]], "c": [[1.0, 2.0]]}


def test_draws_of_several_normal_numbers_have_their_mean_and_covariance():
    cov = np.array([[2.0, 0.6], [0.6, 0.5]], dtype=np.float32)
    drawn = np.asarray(mx.random.multivariate_normal(mx.array([1.0, -3.0]), mx.array(cov), shape=(200_000,), key=mx.random.key(7)))
    assert drawn.shape == (200_000, 2) and drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(0), [1.0, -3.0], atol=0.02)
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.03)
    assert mx.random.multivariate_normal(mx.zeros((3, 2)), mx.array(cov), shape=(4, 3), key=mx.random.key(1)).shape == (4, 3, 2)
    for mean, shape in ((mx.zeros((3,)), ()), (mx.zeros((3, 2)), (4,))):
        with pytest.raises(ValueError, match="random.multivariate_normal"):
            mx.random.multivariate_normal(mean, mx.array(cov), shape=shape)


def test_sizes_and_bounds_beyond_32_bits_are_refused_here_and_not_by_weft():
    import weft
    for build in (lambda: mx.zeros(2 ** 31), lambda: mx.reshape(mx.zeros(4), [2 ** 31]), lambda: mx.repeat(mx.zeros(2 ** 30), 4)):
        with pytest.raises(OverflowError, match=str(2 ** 31) + "|" + str(2 ** 32)):
            build()
    with pytest.raises(ValueError):
        mx.arange(3)[:2 ** 32]
    assert weft.zeros(2 ** 31).shape == (2 ** 31,)
    assert weft.arange(3)[:2 ** 32].tolist() == [0, 1, 2]


def test_a_shapeless_function_is_traced_once_for_all_sizes_unless_it_looks_at_one():
    n_traces = []

    def fun(x, y):
        n_traces.append(1)
        return x * y + y.sum(0, keepdims=True)

    compiled = mx.compile(fun, shapeless=True)
    for n in (2, 3, 7):
        x, y = mx.array([[1.0] * n] * n), mx.array([[2.0] * n] * n)
        assert compiled(x, y).tolist() == [[2.0 + 2.0 * n] * n] * n
    assert len(n_traces) == 1
    flat = mx.compile(lambda x: x.reshape(x.shape[0] * x.shape[1], -1), shapeless=True)
    assert [flat(mx.array([[[1.0] * 2] * n] * n)).shape for n in (3, 4)] == [(9, 2), (16, 2)]


def test_an_argument_that_is_captured_too_is_refused():
    x = mx.array([1, 2, 3]) + 2
    with pytest.raises(ValueError, match="compile"):
        mx.compile(lambda a: a + (x + 1))(x)
    assert mx.compile(lambda a: a + (x + 1))(mx.array([1, 1, 1])).tolist() == [5, 6, 7]


def test_what_mlx_does_not_map_over_is_refused_and_the_rest_mapped():
    x, values = mx.arange(24, dtype=mx.float32).reshape(2, 3, 4), mx.array([3.0, 4.0])
    pad = lambda a, v: mx.pad(a, ((1, 1), (1, 1)), constant_values=v)
    with pytest.raises(ValueError, match="pad"):
        mx.vmap(pad)(x, values)
    assert mx.array_equal(mx.vmap(pad, in_axes=(0, None))(x, values[0])[1], pad(x[1], values[0]))
    assert mx.grad(lambda v: pad(x[0], v).sum())(mx.array(2.0)).item() == 18
    with pytest.raises(ValueError, match="searchsorted"):
        mx.vmap(lambda s: mx.searchsorted(s, mx.array([1.0])))(x[0])


def test_indices_computed_from_what_is_differentiated_by_need_stop_gradient():
    a = mx.ones((4, 1, 2, 2))

    def fun(stop):
        def inner(w):
            at = mx.argsort(w)[:2].reshape((1, 2))
            return mx.gather_mm(a, a, mx.stop_gradient(at) if stop else at).sum()
        return inner

    w = mx.array([3.0, 1.0, 2.0, 0.0])
    with pytest.raises(ValueError, match="stop_gradient"):
        mx.grad(fun(False))(w)
    assert mx.grad(fun(True))(w).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("start", ["eval", "async_eval"])
def test_a_cache_that_is_written_into_takes_no_bytes_for_its_length(start):
    def bytes_of_a_token(length):
        keys, grown = mx.arange(4 * length * 16, dtype=mx.float32).reshape(1, 4, length, 16), []
        mx.eval(keys)
        for i in range(8):
            k = mx.full((1, 4, 1, 16), float(i))
            mx.synchronize()
            before = mx.get_active_memory()
            mx.reset_peak_memory()
            keys[..., i:i + 1, :] = k
            getattr(mx, start)(keys)
            mx.synchronize()
            grown.append(mx.get_peak_memory() - before)
            del k
        assert keys[0, 0, :8, 0].tolist() == [float(i) for i in range(8)]
        assert keys[0, 3, 8, 1].item() == (3 * length + 8) * 16 + 1
        return max(grown[2:])

    assert bytes_of_a_token(16384) <= bytes_of_a_token(4096) < 64 * 1024


def test_synchronize_waits_for_what_nobody_holds_and_tells_of_its_failure():
    import time

    def work(x):
        for _ in range(40):
            x = x @ x * 1e-3
        return x

    x = mx.ones((512, 512))
    mx.eval(x)
    mx.synchronize()
    before, began = mx.get_active_memory(), time.process_time()
    mx.eval(work(x))
    took = time.process_time() - began  # of all threads, so others on this machine do not show
    for _ in range(3):
        began = time.process_time()
        mx.async_eval(work(x))  # its result is gone at once
        mx.synchronize()
        assert mx.get_active_memory() == before
        assert time.process_time() - began > took / 4
    mx.async_eval(mx.linalg.inv(mx.array([[1.0, 2.0], [2.0, 4.0]])))
    with pytest.raises(RuntimeError, match="singular"):
        mx.synchronize()
    mx.synchronize()  # which has been told
    held = [mx.linalg.inv(mx.zeros((2, 2))) for _ in range(2)]
    mx.async_eval(held[0])
    mx.async_eval(mx.linalg.inv(mx.zeros((2, 2))))
    mx.async_eval(held[1])
    with pytest.raises(RuntimeError, match="singular"):
        mx.synchronize()
    mx.synchronize()  # one of them stands for all
    with pytest.raises(Exception, match="singular"):
        held[1].tolist()


def test_synchronize_waits_and_tells_of_failures():
    x = mx.ones((512, 512))
    for _ in range(4):
        x = x @ x * 1e-3
    mx.async_eval(x)
    mx.synchronize()
    import weft
    assert weft._core.state(x) == "ready"
    mx.async_eval(mx.linalg.inv(mx.array([[1.0, 2.0], [2.0, 4.0]])))
    inverse = mx.linalg.inv(mx.array([[1.0, 2.0], [2.0, 4.0]]))
    mx.async_eval(inverse)
    with pytest.raises(RuntimeError, match="singular"):
        mx.synchronize()
    with pytest.raises(RuntimeError, match="singular"):
        mx.eval(mx.linalg.inv(mx.array([[1.0, 2.0], [2.0, 4.0]])))
    assert mx.linalg.inv(mx.array([[2.0]])).tolist() == [[0.5]]
    batch = mx.array([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [2.0, 4.0]]])
    assert mx.linalg.inv(batch[:1]).tolist() == [[[0.5, 0], [0, 0.25]]]
    with pytest.raises(RuntimeError):
        mx.eval(mx.linalg.inv(batch))


def test_equal_operands_of_extrema_give_their_derivative_to_the_second():
    x = mx.array([-1.0, 0.0, 0.0, 2.0])
    assert mx.grad(lambda x: mx.maximum(x, 0).sum())(x).tolist() == [0, 0, 0, 1]
    assert mx.grad(lambda x: mx.maximum(0, x).sum())(x).tolist() == [0, 1, 1, 1]
    assert mx.grad(lambda x: mx.minimum(x, 0).sum())(x).tolist() == [1, 0, 0, 0]
    assert mx.grad(lambda x: mx.clip(x, 0, 2).sum())(x).tolist() == [0, 0, 0, 0]
    assert mx.jvp(lambda x: mx.maximum(x, 0), [x], [mx.ones(4)])[1][0].tolist() == [0, 0, 0, 1]
    nan = float("nan")
    for f in mx.maximum, mx.minimum:
        assert mx.isnan(f(mx.array([nan, 1.0, nan]), mx.array([1.0, nan, nan]))).tolist() == [True] * 3
        assert f(mx.array([1, 5], mx.int8), mx.array([3, 3], mx.int8)).dtype == mx.int8
    assert mx.maximum(mx.array([1, 2], mx.float16), 1.5).dtype == mx.float16
    assert mx.maximum(mx.array([1, 2]), mx.array([1.5, 1.5])).tolist() == [1.5, 2.0]


def test_running_sums_of_narrow_integers_stay_narrow():
    assert mx.cumsum(mx.array([200, 100], mx.uint8)).tolist() == [200, 44]
    assert mx.cumprod(mx.array([100, 2], mx.int8)).tolist() == [100, -56]
    assert mx.cumsum(mx.array([True, True])).dtype == mx.int32
    assert mx.cumprod(mx.array([True, False])).dtype == mx.bool_


def test_a_number_is_formatted_as_its_value():
    assert f"{mx.array(2.5)} {mx.array(3)}" == "2.5 3" and "{}".format(mx.array(True)) == "True"
    assert f"{mx.array([1])}".startswith("array(")


def test_norms_have_the_type_of_their_weight_too():
    half, weight = mx.ones((1, 8), mx.bfloat16), mx.ones(8)
    assert mx.fast.rms_norm(half, weight, 1e-5).dtype == mx.float32
    assert mx.fast.layer_norm(half, weight, None, 1e-5).dtype == mx.float32
    assert mx.fast.layer_norm(half, None, weight, 1e-5).dtype == mx.bfloat16
    assert mx.fast.rms_norm(half, weight.astype(mx.bfloat16), 1e-5).dtype == mx.bfloat16


def test_users_derive_their_own_arrays():
    class Named(mx.array):
        def __init__(self, values, name):
            super().__init__(values)
            self.name = name

    a = Named([1.0, 2.0], "a")
    assert a.name == "a" and isinstance(a, mx.array) and a.tolist() == [1, 2] and a.dtype == mx.float32
    for b in (a + 1, mx.exp(a), a[0], a.T, -a, a ** 2, a.astype(mx.int32), a.at[0].add(1), weft.exp(a)):
        assert type(b) is mx.array
    same = a
    a += 1
    assert a is same and type(a) is Named and a.tolist() == [2, 3] and a.name == "a"
    assert mx.grad(lambda x: (x * x).sum())(a).tolist() == [4, 6]
    assert mx.compile(lambda x: x + 1)(a).tolist() == [3, 4]
    assert mx.vmap(lambda x: x * 2)(a).tolist() == [4, 6]
    with pytest.raises(TypeError):
        Named([1.0])

    class Plain(mx.array):
        pass

    assert Plain(3).item() == 3 and Plain([1, 2], mx.float16).dtype == mx.float16


def test_memory_of_constants_has_an_element_for_each():
    for a in (mx.ones((2, 3)), mx.zeros((2, 3)), mx.full((2, 3), 7.0), mx.zeros_like(mx.array([[1.0, 2, 3]] * 2)), mx.broadcast_to(mx.array(2.0), (2, 3))):
        assert memoryview(a).strides == (12, 4) and memoryview(a).c_contiguous
        assert np.from_dlpack(a).strides == (12, 4) and np.array(a).tolist() == a.tolist()
        mx.eval(a)
        assert memoryview(a).strides == (12, 4)
    assert memoryview(mx.zeros((0, 3))).shape == (0, 3) and memoryview(mx.ones((1, 1))).shape == (1, 1)
    shared = mx.from_dlpack(np.broadcast_to(np.array([7], np.int32), (3,)))
    assert memoryview(shared).strides == (0,)


def test_an_axis_that_is_not_there_is_a_wrong_value_and_a_wrong_index():
    x = mx.ones((2, 3))
    for wrong in (lambda: mx.sum(x, 2), lambda: mx.sort(x, axis=-3), lambda: mx.concatenate([x, x], 2), lambda: mx.stack([x, x], 3),
                  lambda: mx.softmax(mx.array(1.0), -1), lambda: mx.roll(x, 1, 2), lambda: mx.unflatten(x, 2, (1, 1)),
                  lambda: mx.fft.fft(x, axis=2), lambda: mx.random.categorical(x, 2), lambda: mx.slice(x, mx.array([0]), (2,), (1, 1)),
                  lambda: mx.random.permutation(x, 2), lambda: x.cumsum(axis=2), lambda: weft.sum(weft.ones((2, 3)), axis=2)):
        for kind in (ValueError, IndexError, weft.AxisError):
            with pytest.raises(kind):
                wrong()


def test_numbers_of_numpy_are_numbers():
    i = mx.array([1, 2], mx.int32)
    for two in (np.float64(2.5), 2.5):
        assert (i + two).dtype == mx.float32 and (i + two).tolist() == [3.5, 4.5] and (two * i).tolist() == [2.5, 5]
        assert (mx.array([1.0], mx.float16) + two).dtype == mx.float16
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises((TypeError, ValueError), match="no elements of the format"):
            mx.array(np.longdouble(1))
        with pytest.raises(TypeError, match="no elements of the format"):
            weft.array(np.longdouble(1))


def test_complex_numbers_are_ordered_by_the_real_part_first():
    a, b = mx.array([1 + 2j, 1 + 3j, 2 + 0j, 0j, complex(1, mx.nan)]), mx.array([1 + 3j, 1 + 2j, 1 + 5j, 0j, 1 + 0j])
    assert (a < b).tolist() == [True, False, False, False, False] and (a >= b).tolist() == [False, True, True, True, False]
    assert (a <= b).tolist() == [True, False, False, True, False] and (a > b).tolist() == [False, True, True, False, False]
    assert mx.maximum(a, b)[:4].tolist() == [1 + 3j, 1 + 3j, 2, 0] and mx.minimum(a, b)[:4].tolist() == [1 + 2j, 1 + 2j, 1 + 5j, 0]
    assert mx.isnan(mx.maximum(a, b))[4].item() and mx.isnan(mx.minimum(b, a))[4].item()
    assert mx.clip(a[:3], 1 + 2.5j, None).tolist() == [1 + 2.5j, 1 + 3j, 2]
    assert mx.partition(a[:4], 1).shape == (4,) and mx.topk(a[:4], 2).tolist() == [1 + 3j, 2]


def test_inverse_functions_of_complex_numbers_are_numpy_s_on_both_sides_of_their_cuts():
    z = np.array([x + 1j * y for x in (-3, -1, -0.5, 0, 0.5, 1, 3, 40) for y in (-2, -0.5, 0.25, 3)] + [3 + 0j, -3 + 0j, 0.5 + 0j, 0j, 1j * 2])
    for name in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "log1p", "log2", "log10"):
        want = np.log2(np.where(z == 0, 1, z)) if name == "log2" else np.log10(np.where(z == 0, 1, z)) if name == "log10" else getattr(np, name)(z)
        got = np.array(getattr(mx, name)(mx.array(np.where(z == 0, 1, z) if name in ("log2", "log10") else z)))
        np.testing.assert_allclose(got, want.astype(np.complex64), rtol=2e-5, atol=2e-6, err_msg=name)
    assert mx.log10(mx.array(0j)).item() == complex(-mx.inf, 0) and mx.arctan(mx.array(1j)).item() == complex(0, mx.inf)


def test_floats_that_no_integer_holds_are_what_the_machine_makes_of_them():
    x = mx.array([300.0, -300.0, 70000.0, 2.0 ** 31, -2.0 ** 33, mx.inf, -mx.inf, mx.nan])
    assert x.astype(mx.uint8).tolist() == [44, 212, 112, 0, 0, 0, 0, 0]
    assert x.astype(mx.int16).tolist() == [300, -300, 4464, 0, 0, 0, 0, 0]
    assert x.astype(mx.int32).tolist() == [300, -300, 70000] + [-2 ** 31] * 5
    assert x.astype(mx.int64).tolist() == [300, -300, 70000, 2 ** 31, -2 ** 33] + [-2 ** 63] * 3
    assert x.astype(mx.uint64).tolist() == [300, 2 ** 64 - 300, 70000, 2 ** 31, 2 ** 64 - 2 ** 33, 0, 2 ** 63, 2 ** 63]
    assert mx.array([1e19]).astype(mx.uint64).item() == 9999999980506447872
    assert mx.array(-1, mx.uint64).item() == 2 ** 64 - 1 and (mx.array([1], mx.uint64) + -3).item() == 2 ** 64 - 2


def test_what_differs_from_weft_at_single_points_is_as_mlx_has_it():
    assert mx.sign(mx.array([mx.nan, -2.0, 3.0, 0.0])).tolist() == [0, -1, 1, 0]
    assert (mx.array([1.0, 7.0]) // mx.array([0.1, 0.7])).tolist() == [10, 10]
    assert mx.argsort(mx.array([0.0, -0.0, 1.0, -0.0, 0.0, -1.0])).tolist() == [5, 0, 1, 3, 4, 2]
    assert mx.full((2,), 3, mx.bool_).dtype == mx.int32 and mx.full((2,), 1.5, mx.int8).dtype == mx.float32
    assert mx.full((2,), mx.array(1.5), mx.int8).dtype == mx.float32 and mx.full((2,), 1j, mx.float32).dtype == mx.complex64
    assert mx.full((2,), 2 ** 31).dtype == mx.int64 and mx.full((2,), True, mx.float16).dtype == mx.float16
    assert (mx.array([True]) << mx.array([True])).dtype == mx.uint8
    assert mx.unique(mx.array([3, 1, 3]), 2, return_counts=True)[1].dtype == mx.int32
    for kind, wrong in ((TypeError, lambda: mx.array([1]) + None), (ValueError, lambda: mx.exp("text")), (TypeError, lambda: mx.exp(None)),
                        (TypeError, lambda: mx.sum("text")), (TypeError, lambda: mx.linalg.inv(None)), (TypeError, lambda: mx.conv1d(1, 2)),
                        (RuntimeError, lambda: mx.bitwise_and(mx.ones(1), mx.ones(1))), (ValueError, lambda: mx.ones(1) & mx.ones(1)),
                        (ValueError, lambda: mx.ones(1)["a"]), (TypeError, lambda: mx.compile(5)), (ValueError, lambda: mx.array("a"))):
        with pytest.raises(kind):
            wrong()


def test_draws_of_one_distribution_count_sums_of_probabilities():
    """As MLX has it: k with sum of p below k <= u < sum of p up to k."""
    logits, key = mx.array([0.1, 2.0, -1.0, 0.5]), mx.random.key(3)
    p = np.exp(np.array(logits, np.float64))
    u = np.array(mx.random.uniform(shape=(5, 40), key=key), np.float64)
    want = np.searchsorted(np.cumsum(p / p.sum())[:-1], u, side="right")
    for drawn in (mx.random.categorical(logits, shape=(5, 40), key=key), mx.random.categorical(logits[:, None], 0, shape=(5, 40), key=key)):
        assert drawn.dtype == mx.uint32 and drawn.shape == (5, 40) and (np.array(drawn) == want).all()
    assert mx.random.categorical(logits, num_samples=7, key=key).shape == (7,)
    assert mx.random.categorical(logits, key=key).shape == ()
    assert mx.random.categorical(mx.array([-mx.inf, 0.0, -mx.inf]), shape=(9,), key=key).tolist() == [1] * 9
    assert set(mx.random.categorical(mx.array([mx.inf, 0.0, mx.inf]), shape=(99,), key=key).tolist()) == {0, 2}
    with pytest.raises(ValueError):
        mx.random.categorical(logits[None], shape=(3, 2), num_samples=2)


def test_a_draw_where_nothing_is_likely_is_the_first_and_where_something_is_nan_that():
    """As MLX has it, whose draws are the largest of logits and noise."""
    key, nothing = mx.random.key(3), mx.full((2, 3), -mx.inf)
    for drawn in (mx.random.categorical(nothing, key=key), mx.random.categorical(nothing.T, 0, key=key),
                  mx.random.categorical(nothing, shape=(4, 2), key=key), mx.random.categorical(nothing, num_samples=5, key=key)):
        assert drawn.dtype == mx.uint32 and not np.array(drawn).any()
    assert mx.random.categorical(nothing[0], key=key).item() == 0
    some = mx.array([[0, mx.nan, 1], [mx.nan, 3, 2], [-mx.inf, -mx.inf, mx.nan]])
    assert mx.random.categorical(some, key=key).tolist() == [1, 0, 2]
    with pytest.raises(ValueError, match="random.categorical: there is nothing to choose from"):
        mx.random.categorical(mx.zeros((3, 0)), key=key)


def test_processes_that_are_spawned_run_on_weft_too(tmp_path):
    (tmp_path / "worker.py").write_text("import mlx.core as mx\n\ndef where(_):\n    return mx.array.__module__, mx.ones(3).sum().item()\n")
    (tmp_path / "main.py").write_text(
        "import multiprocessing, worker\nif __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n        print(pool.map(where := worker.where, [0]))\n")
    ran = subprocess.run([sys.executable, "-m", "weft.mlx", "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[('weft.mlx.core', 3.0)]", ran.stderr


def test_a_mask_takes_the_first_of_more_values_than_it_wants():
    a = mx.arange(5)
    a[mx.array([False, True, True, False, False])] = mx.array([-3.2, -4.5, 9.0])
    assert a.tolist() == [0, -3, -4, 3, 4]
    with pytest.raises(ValueError):
        a[mx.array([False, True, True, True, False])] = mx.array([1, 2])
    with pytest.raises(TypeError):
        a[mx.array([False, True, True, False, False])] = None
    b = mx.array([1.0, 2.0])
    assert b.at[0].subtract(True).tolist() == [0, 2] and b.at[1].subtract(mx.array(1)).tolist() == [1, 1]
    for wrong in (lambda: b.at[0, 0].add(1), lambda: b.at["a"].add(1), lambda: b.at[0].add("a")):
        with pytest.raises(ValueError):
            wrong()


def test_what_numpy_writes_into_the_memory_of_an_array_the_array_has():
    a = mx.ones((2, 2))
    np.asarray(a)[0, 0] = 5
    assert a.tolist() == [[5, 1], [1, 1]] and (a + 1).tolist() == [[6, 2], [2, 2]]
    number = mx.array(3.0)
    np.asarray(number)[...] = 4
    assert number.item() == 4
    view = np.asarray(a)
    assert np.asarray(a).ctypes.data == view.ctypes.data  # both show the same
    view[1, 1] = 7
    assert a.tolist() == [[5, 1], [1, 7]]


def test_what_is_written_reaches_no_other_array():
    x = mx.arange(12.0).reshape(3, 4)
    mx.eval(x)
    before = x.tolist()
    for other in (lambda: x.T, lambda: x * 1, lambda: x[1], lambda: mx.stop_gradient(x), lambda: x.reshape(4, 3)):
        y = other()
        seen = np.asarray(y)
        assert seen.flags.writeable
        seen[...] = -1
        assert x.tolist() == before and (np.array(y) == -1).all()
    assert np.asarray(x.T).strides == (4, 16)


def test_memory_that_is_not_the_arrays_own_is_shown_read_only():
    repeated = np.asarray(mx.broadcast_to(mx.array([1.0, 2.0]), (3, 2)))
    assert repeated.strides == (0, 4) and not repeated.flags.writeable
    shared = mx.from_dlpack(np.arange(4, dtype=np.float32))
    assert not np.asarray(shared).flags.writeable
    assert not np.asarray(weft.array([1.0])).flags.writeable  # weft's own arrays are values


def test_looking_at_memory_inside_a_transform_keeps_the_history():
    def f(x):
        y = x * x
        np.asarray(y)
        return y.sum()

    assert mx.grad(f)(mx.arange(3.0)).tolist() == [0, 2, 4]


def test_memory_is_copied_once_where_others_can_come_to_it():
    x = mx.random.normal((64, 64))
    y = x.T
    mx.eval(x, y)
    first = np.asarray(y).ctypes.data
    assert np.asarray(y).ctypes.data == first and np.asarray(y).ctypes.data == first


def test_bfloat16_is_shown_under_its_name_and_refused_by_numpy():
    a = mx.zeros((3, 4), mx.bfloat16)
    assert memoryview(a).format == "bfloat16" and memoryview(a).strides == (8, 2)
    with pytest.raises(ValueError, match="bfloat16"):
        np.array(a)


def test_a_memory_limit_is_a_guideline_as_in_mlx():
    before = mx.set_memory_limit(1000)
    try:
        assert mx.get_memory_limit() == 1000 and mx.abs(mx.ones((512, 512)) * -2).sum().item() == 2 * 512 * 512
    finally:
        assert mx.set_memory_limit(before) == 1000


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_addmm_scales_halves_before_they_are_rounded(dtype):
    a, b, c = mx.full((4, 512), 2.0, dtype), mx.full((512, 6), 100.0, dtype), mx.ones((4, 6), dtype)
    assert np.allclose(np.array(mx.addmm(c, a, b, 0.125, 0.0).astype(mx.float32)), 12800)


def test_slices_from_known_starts_are_those_from_computed_ones():
    a, new = mx.arange(30.0).reshape(5, 6), mx.full((2, 3), -1.0)
    for start in ([1, 2], [4, 4], [-3, 0], [9, -9]):
        known, computed = mx.array(start), mx.array(start) + 0
        mx.eval(known)
        for f in (lambda s: mx.slice(a, s, (0, 1), (2, 3)), lambda s: mx.slice_update(a, new, s, (0, 1)),
                  lambda s: mx.slice(a, s[1:], (1,), (5, 2)), lambda s: mx.slice_update(a, new, s[:1], (-2,))):
            assert f(known).tolist() == f(computed).tolist()
    with pytest.raises(ValueError):
        mx.slice(a, mx.array([1, 2]), (0,), (2, 3))


def test_bytes_of_8_bit_floats_in_safetensors_are_read(tmp_path):
    head = b'{"t":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes([0, 0x7E, 0xFE, 0xB6]))
    loaded = mx.load(str(tmp_path / "a.safetensors"))["t"]
    assert loaded.dtype == mx.uint8 and mx.from_fp8(loaded).tolist() == [0, 448, -448, -0.875]


def test_a_cache_has_what_was_written_whatever_fails_behind_it():
    rng = np.random.default_rng(5)
    for _ in range(20):
        heads, length, width = int(rng.integers(1, 4)), int(rng.integers(16, 80)), int(rng.integers(4, 40))
        right = rng.standard_normal((1, heads, length, width)).astype(np.float32)
        keys, held = mx.array(right), None
        mx.eval(keys)
        for step in range(8):
            n = int(rng.integers(1, 4))
            at = int(rng.integers(0, length - n))
            new = rng.standard_normal((1, heads, n, width)).astype(np.float32)
            if step == 3:
                held, was = keys[..., :5, :], right[..., :5, :].copy()
            keys[..., at:at + n, :] = mx.array(new)
            right[..., at:at + n, :] = new
            q = mx.array(rng.standard_normal((1, heads, 3, width)).astype(np.float32))
            total = mx.fast.scaled_dot_product_attention(q, keys[..., :at + n, :], keys[..., :at + n, :], scale=0.3).sum()
            how = rng.integers(0, 4)
            if how == 0:
                with pytest.raises((IndexError, ValueError)):
                    mx.eval(mx.take(mx.ones(4), mx.array([10**6])) * total)
            elif how < 3:
                (mx.eval if how == 1 else mx.async_eval)(total)
            if rng.random() < 0.5:
                assert np.array_equal(np.array(keys), right)
        assert np.array_equal(np.array(keys), right) and np.array_equal(np.array(held), was)


def test_differences_taken_more_often_than_there_are_elements_are_nothing():
    for n in (2, 3, 2**40):
        assert mx.diff(mx.array([1.0, 5.0]), n).shape == (0,)
    assert mx.diff(mx.array([[1, 4], [9, 9]]), 2**62, axis=0).shape == (0, 2)


def test_sums_of_exponentials_of_complex_numbers():
    x = (np.arange(12).reshape(3, 4) * (1 - 0.5j) / 3 - 2j).astype(np.complex64)
    for axis in (None, 0, 1, -1, (0, 1)):
        wanted = np.exp(x.astype(np.complex128)).sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(np.array(mx.exp(mx.logsumexp(mx.array(x), axis=axis, keepdims=True))), wanted, rtol=1e-5)
        np.testing.assert_allclose(np.array(mx.softmax(mx.array(x), axis=axis)), np.exp(x) / wanted, rtol=1e-5)
    assert mx.logsumexp(mx.array(x), axis=0).shape == (4,) and mx.softmax(mx.array(x), axis=0).dtype == mx.complex64
    large = mx.logsumexp(mx.array([1000 + 1j, 1000 + 1j]))
    assert abs(large.item() - (1000 + np.log(2) + 1j)) < 1e-3
    real = mx.array([0.5, -1.0, 2.0])
    assert mx.allclose(mx.softmax(real.astype(mx.complex64)).real, mx.softmax(real)).item()


def test_complex_numbers_wrap_as_their_real_parts_do_where_they_become_unsigned():
    x = mx.array([-2.0, -1.0, 0.0, 1.5, 300.0])
    for d in (mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64, mx.bool_):
        assert x.astype(mx.complex64).astype(d).tolist() == x.astype(d).tolist()


@pytest.mark.parametrize("number", [2 ** 64, -2 ** 63 - 1, 10 ** 30])
def test_integers_of_more_than_64_bits_are_no_other_number(number):
    for make in (lambda: mx.array(number), lambda: mx.array(number, mx.uint64), lambda: mx.random.randint(0, number, (3,), mx.uint64)):
        with pytest.raises(OverflowError):
            make()


def test_running_sums_of_exponentials_keep_what_is_far_below_the_largest_of_the_row():
    x = np.array([[-200.0, 0.0, 1.0, -50.0], [300.0, -300.0, 301.0, 0.0]], np.float32)
    wanted = np.logaddexp.accumulate(x, 1)
    np.testing.assert_allclose(np.array(mx.logcumsumexp(mx.array(x), axis=1)), wanted, rtol=1e-6)
    z = mx.array(x + 1j * np.float32(0.5))
    np.testing.assert_allclose(np.array(mx.logcumsumexp(z, axis=1)), wanted + 0.5j, rtol=1e-6)
    backwards = np.logaddexp.accumulate(x[:, ::-1], 1)[:, ::-1]
    np.testing.assert_allclose(np.array(mx.array(x).logcumsumexp(1, reverse=True)), backwards, rtol=1e-6)
    none = mx.array([complex(-np.inf, 0)] * 2)  # of nothing twice: nothing
    assert mx.logaddexp(none, none).tolist() == mx.logcumsumexp(none).tolist() == none.tolist()
    assert mx.logcumsumexp(mx.zeros((2, 0), mx.complex64), axis=1).shape == (2, 0)


def test_running_sums_of_exponentials_of_no_elements_have_no_derivative():
    def before(x):
        return mx.logcumsumexp(x, axis=1, inclusive=False)

    x = mx.array([[1.0, 2.0, 3.0]])
    assert before(x)[0, 0].item() == -mx.inf
    assert mx.jvp(before, [x], [mx.ones_like(x)])[1][0].tolist() == [[0, 1, 1]]
    np.testing.assert_allclose(np.array(mx.vjp(before, [x], [mx.ones_like(x)])[1][0]), [[1.268941, 0.731059, 0]], rtol=1e-5)


def test_functions_with_rules_take_numbers_and_keywords_as_they_are():
    seen = []

    @mx.custom_function
    def total(x, axis, mode="sum", *, scale=1):
        seen.append((type(axis), mode, type(scale)))
        return (x.sum(axis) if mode == "sum" else x.mean(axis)) * scale

    @total.vjp
    def total_vjp(primals, cotangent, output, **keywords):
        seen.append((type(primals[1]), sorted(keywords)))
        return mx.broadcast_to(cotangent * 100, primals[0].shape)

    x = mx.array([[1.0, 2.0], [3.0, 4.0]])
    assert total(x, 0, scale=3).tolist() == [12, 18] and total(x, 1, "mean").tolist() == [1.5, 3.5]
    assert mx.grad(lambda x: total(x, 1).sum())(x).tolist() == [[100, 100]] * 2
    assert mx.compile(mx.grad(lambda x: total(x, 1, mode="mean", scale=2.0).sum()))(x).tolist() == [[100, 100]] * 2
    assert mx.grad(lambda x, s: total(x, 1, scale=s).sum(), argnums=(0, 1))(x, mx.array(3.0))[1].item() == 0
    assert all(kind is int for kind, *_ in seen) and (int, ["mode", "scale"]) in seen

    @mx.custom_function
    def times(x, n):
        return x * n

    times.jvp(lambda primals, tangents: seen.append((primals[1], tangents[1])) or tangents[0] * primals[1] * 10)
    times.vmap(lambda inputs, axes: seen.append((inputs[1], axes)) or (inputs[0] * inputs[1] + 100, axes[0]))
    seen.clear()
    assert mx.jvp(lambda x: times(x, 3), [x], [x])[1][0].tolist() == [[30, 60], [90, 120]]
    assert mx.vmap(lambda x: times(x, 3))(x).tolist() == [[103, 106], [109, 112]]
    assert seen == [(3, None), (3, (0, None))]
    for call in (lambda: mx.jvp(lambda x: times(x, n=3), [x], [x]), lambda: mx.vmap(lambda x: times(x, n=3))(x)):
        with pytest.raises(ValueError, match="keywords, and there is n"):
            call()


def test_an_ellipsis_that_stands_for_no_axis_stands_between_no_indices():
    x, i = mx.arange(24).reshape(2, 3, 4), mx.array([0, 1])
    assert x[:, i, ..., 0].tolist() == x[:, i, 0].tolist() == [[0, 4], [12, 16]]
    assert x[:, i, ..., i].shape == (2, 2) and x[None, i, ..., i].shape == (2, 1, 3)  # the second stands for one
    assert x.at[:, i, ..., 0].add(mx.array([[1, 2], [3, 4]]))[:, :2, 0].tolist() == [[1, 6], [15, 20]]
    x[:, i, ..., 0] = mx.array([[1, 2], [3, 4]])
    assert x[:, :2, 0].tolist() == [[1, 2], [3, 4]]
    assert weft.arange(24).reshape(2, 3, 4)[:, weft.array([0, 1, 1]), ..., 0].shape == (3, 2)  # NumPy's way


def test_numbers_beside_which_something_is_true_need_not_fit_its_dtype():
    x = mx.array([0, 3], mx.uint8)
    for number in (-3, 300, 2**40, 2.5, 1j, True):
        assert mx.logical_and(x, number).tolist() == mx.logical_and(number, x).tolist() == [False, True]
        assert mx.logical_or(x, number).tolist() == [True, True] and mx.logical_xor(number, x).tolist() == [True, False]


def test_causal_rows_before_the_first_column_are_means():
    q, k = mx.array([[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]]), mx.array([[[[1.0, 0.0], [0.0, 2.0]]]])
    y = mx.fast.scaled_dot_product_attention(q, k, k, scale=1.0, mask="causal")
    assert y[0, 0, 0].tolist() == [0.5, 1.0] and y[0, 0, 1].tolist() == [1, 0]
    assert mx.isfinite(mx.grad(lambda k: mx.fast.scaled_dot_product_attention(q, k, k, scale=1.0, mask="causal").sum())(k)).all().item()


def test_a_matrix_without_an_inverse_is_one_class_wherever_it_is_found():
    def inverse(a):
        return mx.linalg.inv(a, stream=mx.cpu)

    a = mx.zeros((2, 2))
    for call in (lambda: mx.eval(inverse(a)), lambda: inverse(a).tolist(), lambda: np.array(inverse(a)), lambda: repr(inverse(a)),
                 lambda: inverse(a)[0, 0].item(), lambda: mx.compile(inverse)(a).tolist(), lambda: mx.save(io.BytesIO(), inverse(a))):
        for kind in (RuntimeError, AssertionError, weft.CheckError):
            with pytest.raises(kind, match="^inv: the matrix is singular$"):
                call()


def test_a_singular_matrix_is_an_error_in_all_that_divides_by_it_and_nan_is_nan():
    singular, regular, b = [[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 4.0]], [1.0, 2.0]
    linalg, batch = mx.linalg, mx.array([regular, singular])
    calls = {"tri_inv": lambda a: linalg.tri_inv(a), "solve_triangular": lambda a: linalg.solve_triangular(a, mx.array(b)),
             "solve": lambda a: linalg.solve(a, mx.array(b)), "inv": linalg.inv, "cholesky_inv": linalg.cholesky_inv}
    for name, f in calls.items():
        for g in (f, mx.compile(f), mx.vmap(f)):
            with pytest.raises(RuntimeError, match=f"^{name}: the matrix is singular$"):
                mx.eval(g(batch if g not in (f,) else mx.array(singular)))
        assert np.isfinite(np.array(f(mx.array(regular)))).all()
        assert np.isnan(np.array(f(mx.array([[np.nan, 0.0], [2.0, 4.0]])))).any()
    wide = mx.array([regular, regular])
    assert mx.linalg.solve_triangular(wide, mx.array([[1.0], [2.0]])).shape == (2, 2, 1)
    with pytest.raises(RuntimeError, match="singular"):
        mx.eval(mx.linalg.solve_triangular(mx.array(singular), mx.ones((3, 2, 1))))


def test_a_triangle_is_singular_by_its_diagonal_whatever_stands_elsewhere():
    nan, linalg = np.nan, mx.linalg
    calls = [lambda a, upper: linalg.tri_inv(a, upper), lambda a, upper: linalg.cholesky_inv(a, upper),
             lambda a, upper: linalg.solve_triangular(a, mx.array([1.0, 2.0]), upper=upper)]
    for f in calls:
        for upper in (False, True):
            for a in ([[1.0, nan], [2.0, 0.0]], [[1.0, 2.0], [nan, 0.0]], [[nan, 1.0], [1.0, 0.0]]):  # beside it, in it, before it
                for g in (f, mx.compile(f)):
                    with pytest.raises(RuntimeError, match="^[a-z_]*: the matrix is singular$"):
                        mx.eval(g(mx.array(a), upper))
            beside = [[2.0, 1.0], [nan, 4.0]] if upper else [[2.0, nan], [1.0, 4.0]]
            assert np.isfinite(np.array(f(mx.array(beside), upper))).all()
            assert np.isnan(np.array(f(mx.array([[nan, 1.0], [1.0, 4.0]]), upper))).any()
    with pytest.raises(ValueError, match="^cholesky_inv: of int32$"):
        linalg.cholesky_inv(mx.ones((2, 2), dtype=mx.int32))


def test_names_that_left_their_function_are_both_of_mlx_classes():
    kept = []
    mx.compile(lambda x: kept.append(x * 2) or x)(mx.ones(2))
    for kind in (RuntimeError, ValueError, weft.NoValueError):
        with pytest.raises(kind):
            kept[0].tolist()


def test_the_product_of_vectors_in_the_plane_stands_upright():
    a, b = mx.array([[1.0, 2.0], [mx.inf, 0.0]]), mx.array([[3.0, 5.0], [0.0, 1.0]])
    assert mx.linalg.cross(a, b).tolist() == [[0, 0, -1], [0, 0, mx.inf]]
    assert mx.linalg.cross(a, b, axis=0)[:2].tolist() == [[0, 0], [0, 0]]
    assert mx.linalg.cross(a[0], mx.array([3.0, 5.0, 7.0])).tolist() == [14, -7, -1]


def test_what_is_no_file_is_a_wrong_value(tmp_path):
    mx.save(str(tmp_path / "a.npy"), mx.ones(2))
    for call in (lambda: mx.save(5, mx.ones(2)), lambda: mx.load(5), lambda: mx.load(str(tmp_path / "a.npy"), format="npz"),
                 lambda: mx.load(str(tmp_path / "a.npy"), return_metadata=True)):
        with pytest.raises(ValueError):
            call()
