"""stream= and `with mx.stream(..)`: operations run on the device they name, with the same results. On a device without a GPU, whose
driver interprets PTX (test/driver): in a process of its own, as a driver is found when the first device is asked for."""
import os
import pathlib
import subprocess
import sys

import pytest

import weft
import weft.mlx.core as mx

DRIVER = pathlib.Path(weft.__file__).resolve().parents[2] / "test" / "driver"
BEGIN = '''
import doctest, types
import numpy as np
import weft, weft.mlx.core as mx
assert mx.device_count(mx.gpu) == 1
HOME = mx.default_device()
OTHER = mx.cpu if HOME == mx.gpu else mx.gpu
PLACE = {mx.cpu: (1, 0), mx.gpu: (2, 0)}
def place(a):
    mx.eval(a)
    return a.__dlpack_device__()
def is_there(a, device):
    return place(a) == PLACE[mx.gpu if device == mx.gpu else mx.cpu]
x = mx.array([[1.0, 2.0], [3.0, 4.0]])
'''


def run(home, text):
    if not (DRIVER / "libcuda.so.1").exists():
        pytest.skip("there is no driver without a GPU")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(DRIVER), "WEFT_CACHE": "off", "WEFT_CUBLASLT": "0", "WEFT_DEVICE": home,
                   "PYTHONPATH": str(pathlib.Path(weft.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", BEGIN + text], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


EVERY = '''
import ast
FILES = {"load", "save", "save_gguf", "save_safetensors", "savez", "savez_compressed"}
# Views of what is given, and numbers: nothing is computed.
VIEWS = set("""as_strided atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to contiguous expand_dims flatten flip
    full_like imag matrix_transpose meshgrid moveaxis ones_like permute_dims positive real reshape slice split
    squeeze stop_gradient swapaxes transpose unflatten unstack zeros_like""".split())
PARTS = {"mx": mx, "mx.random": mx.random, "mx.linalg": mx.linalg, "mx.fft": mx.fft, "mx.fast": mx.fast}
seen, there = 0, 0
def arrays(tree):
    if isinstance(tree, mx.array): return [tree]
    if isinstance(tree, (list, tuple)): return [a for item in tree for a in arrays(item)]
    return []
class Calls(ast.NodeTransformer):  # the first call of the function: its result is kept, with a stream and without
    def __init__(self, path): self.path = path
    def visit_Call(self, node):
        self.generic_visit(node)
        if ast.unparse(node.func) != self.path: return node
        return ast.Call(ast.Name("call", ast.Load()), [node.func] + node.args, node.keywords)
def call(f, *args, **kwargs):
    try:  # arrays for lists of numbers, unless they are shapes
        with_arrays = [mx.array(a) if isinstance(a, list) and not arrays(a) else a for a in args]
        f(*with_arrays, **kwargs)
        args = with_arrays
    except Exception: pass
    plain = f(*args, **kwargs)
    given.extend(arrays(list(args)) + arrays(list(kwargs.values())))
    made.append((plain, f(*args, stream=OTHER, **kwargs)))
    with mx.stream(OTHER): made.append((plain, f(*args, **kwargs)))
    made.append((plain, f(*args, stream=HOME, **kwargs)))
    return plain
for path, module in PARTS.items():
    for name, f in sorted(vars(module).items()):
        if name.startswith("_") or isinstance(f, (type, types.ModuleType)) or not callable(f) or name in FILES: continue
        if (f.__doc__ or "").startswith("Not there:") or "stream=None" not in str(__import__("inspect").signature(f)): continue
        example = doctest.DocTestParser().get_examples(f.__doc__.replace("weft.mlx.core.", "mx."))[0].source
        tree = ast.fix_missing_locations(Calls(f"{path}.{name}").visit(ast.parse(example.strip(), mode="eval")))
        given, made = [], []
        mx.random.seed(7)
        try: eval(compile(tree, name, "eval"), {"mx": mx, "weft": weft, "call": call})
        except Exception as why: raise AssertionError(f"{path}.{name}: {example}: {why!r}") from why
        assert made or name in ("identity",) or "alias" in name or f.__name__ != name, (path, name, example)
        seen += 1
        draws = path == "mx.random" and "key(" not in example
        for k, (plain, placed) in enumerate(made):
            for a, b in zip(arrays([plain]), arrays([placed])):
                if given and a.size and name not in VIEWS:
                    assert is_there(b, HOME if k == 2 else OTHER), (path, name, k, place(b))
                    there += 1
                assert draws or np.array_equal(np.array(a), np.array(b), equal_nan=True), (path, name, a, b)
print(seen, there)
'''


@pytest.mark.parametrize("home", ["0", "1"])
def test_every_function_runs_where_its_stream_says(home):
    seen, there = map(int, run(home, EVERY).split())
    assert seen > 200 and there > 450


@pytest.mark.parametrize("home", ["0", "1"])
def test_operators_methods_and_assignments_run_where_the_block_says(home):
    run(home, '''
def f(x):
    y = mx.tanh(x @ x) + x.T * 2 - x[0]
    z = (-y) ** 2 + abs(y) ** 3 + (y > 1) + 2 / (y * y + 1)
    z[0] = y[1]
    z += 1
    return [z, z.sum(axis=0), z.reshape(-1)[1:] * 2, z.at[0].add(1.0), ~(z > 0), z.astype(mx.float16), mx.concatenate([z, y])]
plain = f(x)
with mx.stream(OTHER):
    placed = f(x)
    assert mx.default_device() == OTHER
assert mx.default_device() == HOME
for a, b in zip(plain, placed):
    assert is_there(b, OTHER) and is_there(a, HOME) and np.array_equal(np.array(a), np.array(b)) and a.dtype == b.dtype
assert is_there(plain[0] + placed[0], HOME)
''')


def test_work_there_is_one_piece():
    """Of operations one after the other only the ends are brought: what is between is neither read nor computed alone."""
    run("0", '''
n = 1 << 12
a = mx.array(np.arange(n, dtype=np.float32) / n)
mx.eval(a)
with mx.stream(OTHER):
    b = a
    for _ in range(300):
        b = b * 0.5 + 1
before = weft.live_nodes()
assert is_there(b, OTHER)
want = np.arange(n, dtype=np.float32) / n
for _ in range(300):
    want = want * np.float32(0.5) + 1
assert np.allclose(np.array(b), want)
''')


@pytest.mark.parametrize("home", ["0", "1"])
def test_transforms_and_streams(home):
    run(home, '''
def f(x, s=None):
    return (mx.exp(x, stream=s) * mx.sin(x) + mx.matmul(x, x, stream=s)).sum()
there = lambda x: f(x, OTHER)
same = lambda a, b: np.array_equal(np.array(a), np.array(b))
assert same(mx.grad(f)(x), mx.grad(there)(x))
assert same(mx.grad(lambda x: mx.grad(f)(x).sum())(x), mx.grad(lambda x: mx.grad(there)(x).sum())(x))
assert same(mx.jvp(f, [x], [x])[1][0], mx.jvp(there, [x], [x])[1][0])
g, h = lambda x: mx.exp(x) + x, lambda x: mx.exp(x, stream=OTHER) + x
for t in (mx.vmap, mx.compile, mx.checkpoint): assert same(t(g)(x), t(h)(x))
with mx.stream(OTHER):  # an array that is differentiated by is found, though what was made there is kept
    y = x * 2
    assert same(mx.grad(lambda y: (y * y).sum())(y), 4 * x)
    z = mx.grad(lambda w: (w * y).sum())(x)
assert same(z, 2 * x)
total, rows = weft.scan(lambda c, r: (c + mx.exp(r, stream=OTHER), c), mx.zeros(2), x)
assert same(total, mx.exp(x[0]) + mx.exp(x[1]))
''')


def test_streams_within_streams_and_threads():
    run("0", '''
import threading
with mx.stream(mx.gpu):
    with mx.stream(mx.cpu):
        a = x + 1
        assert mx.default_device() == mx.cpu
    b = x + 1
    c = mx.add(x, 1, stream=mx.cpu)
    mx.set_default_device(mx.cpu)
    d = x + 1
    seen = []
    t = threading.Thread(target=lambda: seen.append((mx.default_device(), place(x + 1))))
    t.start(); t.join()
assert seen == [(mx.Device(mx.cpu), (1, 0))]
assert [place(v) for v in (a, b, c, d)] == [(1, 0), (2, 0), (1, 0), (1, 0)] and mx.default_device() == mx.cpu
e = a + b + c + d
assert is_there(e, mx.cpu) and np.array_equal(np.array(e), np.array(x) * 4 + 4)
try:
    with mx.stream(mx.gpu): raise KeyError
except KeyError: pass
assert is_there(x + 1, mx.cpu)
mx.set_default_device(mx.gpu)
assert is_there(x + 1, mx.gpu) and is_there(mx.add(x, 1, stream=mx.cpu), mx.cpu) and is_there(mx.add(x, 1, stream=mx.gpu), mx.gpu)
s = mx.new_stream(mx.cpu)
assert is_there(mx.add(x, 1, stream=s), mx.cpu)
for wrong in (3, "gpu", x):
    try: mx.add(x, 1, stream=wrong)
    except TypeError: pass
    else: raise AssertionError(wrong)
    try: mx.fft.fft(x, stream=wrong)
    except TypeError: pass
    else: raise AssertionError(wrong)
''')


def test_without_a_gpu_its_work_runs_on_the_cpu():
    if mx.device_count(mx.gpu):
        pytest.skip("there is a GPU")
    x = mx.array([1.0, 2.0])
    assert mx.add(x, 1, stream=mx.gpu).tolist() == [2, 3] and mx.fft.fft(x, stream=mx.gpu).shape == (2,)
