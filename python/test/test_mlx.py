"""weft.mlx: arrays in another flavour, what it refuses, and the drop-in. MLX itself is not needed."""
import copy
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
    for call, name in ((mx.fft.fft, "fft.fft"), (mx.fast.metal_kernel, "fast.metal_kernel"), (mx.export_function, "export_function")):
        with pytest.raises(NotImplementedError, match=f"mlx.core.{name}"):
            call()


def test_every_name_has_a_signature_and_a_text():
    import inspect
    for row in weft._core._mlx.names:
        f = getattr(weft._core._mlx, row["name"])
        assert inspect.signature(f) is not None and f.__doc__ and f.__name__ == row["name"]


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
    assert _run(None, "-m", "weft.mlx").returncode != 0


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
