"""What bad input gets: a Python exception of the right class, whatever it is; never a crash, never a swallowed exception."""
import gc
import subprocess
import sys
import textwrap

import pytest

np = pytest.importorskip("numpy")
import weft  # noqa: E402
import weft.mlx.core as mx  # noqa: E402


class Raising(Exception):
    pass


class Armed:
    """Raises wherever it is looked at."""

    def __array__(self, *args, **kwargs):
        raise Raising("__array__")


class Indexed:
    def __index__(self):
        raise Raising("__index__")


class Made:
    def __mlx_array__(self):
        raise Raising("__mlx_array__")


WRONG = [None, "text", object(), b"bytes", {1: 2}, {3}, lambda: 0, Armed(), [[1], [2, 3]], [object()], 1 << 80]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("name", ["add", "matmul", "exp", "sum", "where", "concatenate", "take", "conv2d", "softmax", "sort", "reshape"])
def test_wrong_types_raise(name, wrong):
    function = getattr(mx, name)
    for args in ((wrong,), (wrong, wrong), (mx.ones((2, 2)), wrong), (wrong, mx.ones((2, 2))), (wrong, wrong, wrong)):
        try:
            y = function(*args)
            mx.eval(y)
        except (TypeError, ValueError, OverflowError, IndexError, AttributeError, Raising):
            pass


@pytest.mark.parametrize("build", [
    lambda: mx.array(Armed()), lambda: mx.ones(3) + Armed(), lambda: mx.array([1, Armed()]), lambda: weft.array(Armed()),
    lambda: weft.add(weft.ones(2), Armed()), lambda: mx.zeros((2, Indexed())), lambda: mx.ones((2, 2))[Indexed()],
    lambda: mx.ones(3).reshape(Indexed()), lambda: mx.sum(mx.ones((2, 2)), Indexed()), lambda: mx.ones(3) + Made(),
    lambda: mx.where(mx.array(True), Made(), mx.array(1.0))])
def test_what_an_object_raises_comes_through(build):
    with pytest.raises(Raising):
        build()


def test_what_a_traced_function_raises_comes_through_and_the_next_call_is_right():
    def fails(x):
        raise Raising("inside")

    def generator(x):
        yield x
        raise Raising("behind the first")

    for transform in (mx.grad, mx.value_and_grad, mx.vmap, mx.compile, mx.checkpoint, lambda f: mx.grad(mx.compile(f)),
                      lambda f: mx.compile(mx.vmap(f))):
        for fun in (fails, lambda x: sum(generator(x))):
            with pytest.raises(Raising):
                transform(fun)(mx.array([1.0, 2.0]))
    for rule in ("vjp", "jvp"):
        fun = mx.custom_function(lambda x: x * x)
        getattr(fun, rule)(lambda *args: fails(args))
        with pytest.raises(Raising):
            if rule == "vjp":
                mx.grad(lambda x: fun(x).sum())(mx.array([1.0]))
            else:
                mx.jvp(fun, [mx.array([1.0])], [mx.array([1.0])])
    assert mx.grad(lambda x: (x * x).sum())(mx.array([1.0, 2.0])).tolist() == [2, 4]


def test_recursion_in_a_tree_is_an_error():
    tree = [mx.ones(2)]
    tree.append(tree)
    deep = mx.ones(2)
    for _ in range(100_000):
        deep = [deep]
    for bad in (tree, deep):
        for use in (mx.eval, mx.async_eval, lambda t: mx.grad(lambda t: mx.array(1.0))(t), lambda t: mx.compile(lambda t: t)(t),
                    lambda t: mx.vmap(lambda t: t)(t), mx.array):
            with pytest.raises((RecursionError, ValueError)):
                use(bad)
    while isinstance(deep, list):  # taken apart from outside, or freeing it would recurse
        deep = deep[0]


def test_files_that_are_closed_cut_or_none():
    import io
    import os
    import tempfile
    closed = io.BytesIO()
    closed.close()
    for use in (lambda: mx.load(closed), lambda: mx.save(closed, mx.ones(2)), lambda: mx.load("/no/such/file.npy"),
                lambda: mx.load(io.BytesIO(b"nonsense"), format="npy"), lambda: mx.save_safetensors(closed, {"a": mx.ones(2)}),
                lambda: mx.load(io.BytesIO(b"\xff" * 64), format="safetensors"), lambda: mx.load(5)):
        with pytest.raises((ValueError, OSError, RuntimeError, TypeError)):
            use()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        mx.save_safetensors(path, {"a": mx.ones((100,))})
        whole = open(path, "rb").read()
        for n in range(0, len(whole), 37):
            open(path, "wb").write(whole[:n])
            with pytest.raises((ValueError, OSError, RuntimeError, MemoryError)):
                mx.eval(mx.load(path))


def test_a_capsule_is_taken_once():
    class Once:
        def __init__(self):
            self.capsule = np.arange(3.0).__dlpack__()

        def __dlpack__(self, **kwargs):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    once = Once()
    assert weft.from_dlpack(once).tolist() == [0, 1, 2]
    for from_dlpack in (weft.from_dlpack, mx.from_dlpack):
        with pytest.raises((ValueError, BufferError)):
            from_dlpack(once)
        with pytest.raises((TypeError, AttributeError)):
            from_dlpack(5)

    class Wrong(Once):
        def __dlpack__(self, **kwargs):
            raise Raising("__dlpack__")

    with pytest.raises(Raising):
        weft.from_dlpack(Wrong())
    mine = mx.arange(4).__dlpack__()
    del mine  # nobody has taken it
    gc.collect()


def test_an_array_that_changes_while_it_is_converted():
    victim = mx.ones((4,))

    class Changes:
        def __array__(self, *args, **kwargs):
            victim[:] = 7.0
            return np.full(4, 2.0, np.float32)

    assert (victim + Changes()).tolist() in ([3.0] * 4, [9.0] * 4)
    list_ = [mx.ones(2), mx.ones(2)]

    class Clears:
        def __array__(self, *args, **kwargs):
            list_.clear()
            gc.collect()
            return np.ones(2, np.float32)

    list_.insert(0, Clears())
    assert mx.array(list_).shape == (3, 2)


def run(program, **more):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, **more)


def test_the_interpreter_survives_no_memory():
    done = run("""
        import weft, weft.mlx.core as mx
        weft.set_memory_limit(1 << 20)
        for _ in range(20):
            try:
                mx.eval(mx.random.normal((4096, 4096)) + 1)
            except MemoryError:
                continue
            raise SystemExit("no MemoryError")
        weft.set_memory_limit(1 << 34)
        print(mx.sum(mx.random.normal((1000, 1000)) * 0 + 1).item())
    """)
    assert done.returncode == 0 and done.stdout.strip() == "1000000.0", done.stderr


def test_ctrl_c_stops_a_long_evaluation():
    done = run("""
        import os, signal, threading, time
        import weft.mlx.core as mx
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        x = mx.random.normal((1500, 1500)); mx.eval(x)
        y = x
        for _ in range(400):
            y = mx.tanh(y @ x)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.time()
        try:
            mx.eval(y)
        except KeyboardInterrupt:
            print("stopped", mx.sum(mx.ones(3)).item(), time.time() - began < 30)
    """)
    assert done.stdout.strip() == "stopped 3.0 True", done.stdout + done.stderr


def test_cycles_through_compiled_functions_are_collected():
    import weakref

    class Model:
        def __init__(self):
            self.w = mx.ones((8,))
            self.step = mx.compile(lambda x: x * self.w)
            self.slope = mx.grad(lambda x: (self.step(x) * self.w).sum())

    for _ in range(3):
        model = Model()
        mx.eval(model.step(mx.ones((8,))), model.slope(mx.ones((8,))))
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None


def test_what_the_lookup_of_an_attribute_raises_is_not_lost():
    class Broken:
        def __getattr__(self, name):
            raise KeyError(name)

    for make in (lambda: mx.array(Broken()), lambda: weft.array(Broken()), lambda: mx.exp(Broken())):
        with pytest.raises(KeyError):
            make()


def test_a_capsule_of_dlpack_is_consumed_once():
    class Once:
        capsule = np.arange(3.0, dtype=np.float32).__dlpack__()

        def __dlpack__(self, **how):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    assert mx.from_dlpack(Once()).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="consumed before"):
        mx.from_dlpack(Once())


@pytest.mark.parametrize("save", [mx.savez, mx.savez_compressed])
def test_an_npz_file_that_cannot_be_written_in_full_leaves_the_one_that_was_there(save, tmp_path):
    """It was left with the arrays before the one that failed, under their new values."""
    real, link = tmp_path / "real.npz", tmp_path / "a.npz"
    link.symlink_to(real)
    save(str(link), a=mx.array([1.0, 2.0]), b=mx.array([3.0]))
    real.chmod(0o640)
    wrong = mx.array([1.0, 2.0])[mx.array([7])]
    with pytest.raises(IndexError):
        save(str(link), a=mx.array([5.0]), b=wrong)
    assert {name: a.tolist() for name, a in mx.load(str(link)).items()} == {"a": [1.0, 2.0], "b": [3.0]}
    save(str(link), a=mx.array([5.0]))
    assert {name: a.tolist() for name, a in mx.load(str(link)).items()} == {"a": [5.0]}
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "real.npz"]
    with pytest.raises(OSError):
        save(str(tmp_path / "no" / "folder.npz"), a=mx.array([1.0]))
