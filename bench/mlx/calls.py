"""Calls of all functions and methods of mlx.core, right ones and wrong ones, on weft and on MLX itself, and where they differ.

    PYTHONPATH=build/release/python python bench/mlx/calls.py --both [--count 3000] [--seed 1] [--only text]
    PYTHONPATH=build/release/python python bench/mlx/calls.py --each [--only text]

--both makes random ones. --each makes every function, method and operator with every kind of argument (numbers of Python and of NumPy, arrays of
NumPy, MLX and weft in every dtype, 0-d, 1-d, empty, lists, ranges, generators, None) in every place, the others being what MLX takes.

Arguments are chosen by the names of parameters; some are of a wrong type, too many, too few or misnamed. Where MLX gives a value, weft
has to give one that agrees to 1e-4; where it raises, weft has to raise that class or one derived of it, or give a value, as it may go
beyond. A call that kills its process, or takes longer than 20 s, is counted too."""
import argparse
import collections
import inspect
import json
import os
import random
import re
import subprocess
import sys
import tempfile

PRELUDE = r'''
import numpy as np, math, io
class Evil:
    def __array__(self, *a, **k): raise KeyError("evil")
class Index:
    def __init__(self, n): self.n = n
    def __index__(self): return self.n
x = mx.array([[1.0, -2.0, 3.0], [4.5, 0.25, -6.0]]); v = mx.array([0.5, 1.5, 2.5]); s = mx.array(2.0); e = mx.zeros((0,)); e3 = mx.zeros((2, 0, 3))
k = mx.array([[1, 2, 3], [4, 5, 6]]); i = mx.array([0, 2, 1]); u = mx.array([1, 200, 3], mx.uint8); t = mx.array([True, False, True])
h = x.astype(mx.float16); b = v.astype(mx.bfloat16); z = mx.array([1 + 2j, 3 - 1j, 0.5j]); q = mx.array([[4.0, 1.0], [1.0, 3.0]]); r3 = mx.arange(24.0).reshape(2, 3, 4)
r4 = mx.arange(72.0).reshape(2, 3, 4, 3) / 10; one = mx.ones((1, 3)); nan = mx.array([1.0, float("nan"), float("inf")]); big = mx.array([2**40, 5]); p = mx.array([0.2, 0.3, 0.5])
key = mx.random.key(3)
def W(o): return mx.array(o)
def put(a, i, v): a = mx.array(a); a[i] = v; return a
def inplace(op, a, v): a = mx.array(a); return getattr(__import__("operator"), op)(a, v)
'''
RUN = "import sys, json\nif sys.argv[1] == 'weft':\n    import weft; weft.as_mlx()\nimport mlx.core as mx\nPRELUDE = %r\n" % PRELUDE + r'''
calls, out = json.load(open(sys.argv[2])), open(sys.argv[3], "a")
first = int(sys.argv[4])
def seen(v, depth=0):
    if isinstance(v, mx.array):
        if v.size > 10**6: return [str(v.dtype), list(v.shape)]
        n = np.array(v.astype(mx.float32) if v.dtype == mx.bfloat16 else v)
        flat = n.ravel().astype(complex)
        return [str(v.dtype), list(v.shape), [[float(c.real), float(c.imag)] for c in flat[:200]]]
    if isinstance(v, (bool, int, float, complex, str, type(None))): return repr(v)[:200]
    if isinstance(v, (list, tuple)): return [type(v).__name__] + [seen(w) for w in v]
    if isinstance(v, dict): return {str(k): seen(w) for k, w in v.items()}
    return type(v).__name__
for number, call in enumerate(calls):
    if number < first: continue
    out.write(json.dumps([number, "began"]) + "\n"); out.flush()
    if number == first or "__setitem__" in call or "__setitem__" in calls[number - 1]:
        space = {"mx": mx}
        exec(PRELUDE, space)
        if sys.argv[1] == "weft": space["W"] = weft.array
        np = space["np"]
    mx.random.seed(7)
    np.seterr(all="ignore")
    try:
        value = eval(call, space)
        result = ["value", seen(value)]
    except BaseException as error:
        if isinstance(error, (SystemExit, KeyboardInterrupt)): raise
        result = ["raised", [c.__name__ for c in type(error).__mro__], str(error)[:160]]
    out.write(json.dumps([number] + result) + "\n"); out.flush()
'''

ARRAYS = [
    "x", "v", "s", "e", "e3", "k", "i", "u", "t", "h", "b", "z", "q", "r3", "r4", "one", "nan", "big", "x.T", "x[::-1]", "p",
    "v[:0]"]
ODD = [
    "None", "'a'", "object()", "Evil()", "[]", "()", "{}", "2**70", "-2**63", "1.5", "float('nan')", "True", "1j",
    "[1, [2, 3]]", "[None]", "['a']", "lambda a: a", "mx.float32", "mx", "b'ab'", "-1", "0", "7", "-9", "(0, 7)", "(0, 0)",
    "[1, 2]", "np.ones(3)", "np.float64(2)", "np.array(['a'])", "range(3)", "iter([1, 2])", "Index(1)", "float",
    "[[1, 2], [3, 4]]", "mx.cpu", "x", "s", "e", "z", "t", "10**12", "1e30"]
SCALARS = ["2", "0.5", "True", "-1", "1j", "[1, 2, 3]", "np.arange(3)", "3", "0", "2.5", "np.float32(1)"]
KINDS = {
    "axis": ["0", "1", "-1", "None", "(0, 1)", "2", "-2", "[0]", "()", "Index(0)"],
    "shape": ["(2, 3)", "3", "[6]", "(3, 2)", "(-1,)", "()", "(0,)", "(2, -1)", "(4, 2, 3)"],
    "dtype": ["mx.float32", "mx.int32", "None", "mx.float16", "mx.bfloat16", "mx.bool_", "mx.uint8", "mx.complex64", "mx.int64", "mx.float64"],
    "int": ["0", "1", "2", "3", "-1", "4", "Index(2)"], "bool": ["True", "False"],
    "float": ["0.5", "1.0", "0", "2", "-1.5", "s"],
    "arrays": ["[x, x]", "[v, v]", "(x, k)", "[]", "[v]", "[x, v]", "[h, x]", "[i, t]"],
    "key": ["key", "None", "mx.random.key(1)"], "mode": ["'constant'", "'edge'", "'reflect'", "'symmetric'"],
    "function": ["lambda a: a.sum()", "lambda a: a * 2", "lambda a, b: (a * b).sum()", "mx.sum", "lambda: x"],
    "stream": ["None", "mx.cpu"], "norm": ["'backward'", "'ortho'", "'forward'"],
    "pads": ["1", "(1, 2)", "[(1, 1), (0, 2)]", "0", "((1, 1),)"],
    "text": ["'ij,jk->ik'", "'ij->ji'", "'i,i'", "'...i->...'", "'ii'"],
    "indices": ["i", "mx.array([0])", "mx.array([[1]])", "mx.array([0, 1])", "1", "[0, 1]", "k % 2"],
}
KIND_OF = {
    "axis": "axis", "axes": "axis", "axis1": "int", "axis2": "int", "source": "int", "destination": "int", "start_axis": "int",
    "end_axis": "int", "shape": "shape", "dtype": "dtype", "keepdims": "bool", "reverse": "bool", "inclusive": "bool",
    "ddof": "int", "arrays": "arrays", "key": "key", "mode": "mode", "n": "int", "m": "int", "num": "int", "k": "int",
    "stream": "stream", "norm": "norm", "pad_width": "pads", "indices": "indices", "indices_or_sections": "int",
    "decimals": "int", "fun": "function", "f": "function", "function": "function", "offset": "int", "diagonal": "int",
    "repeats": "int", "reps": "shape", "shift": "int", "low": "float", "high": "float", "eps": "float", "scale": "float",
    "loc": "float", "start": "float", "stop": "float", "step": "float", "equal_nan": "bool", "rtol": "float", "atol": "float",
    "subscripts": "text", "precise": "bool", "kth": "int", "num_samples": "int", "num_splits": "int", "group_size": "int",
    "bits": "int", "transpose": "bool", "stride": "int", "padding": "int", "dilation": "int", "groups": "int", "dims": "int",
    "traditional": "bool", "base": "float", "upper": "bool", "M": "int", "endpoint": "bool", "indexing": "mode", "seed": "int",
    "argnums": "int", "in_axes": "int", "out_axes": "int", "alpha": "float", "beta": "float", "start_indices": "indices",
    "width": "int", "strides": "shape", "ord": "int", "s": "shape", "d": "float", "sparse": "bool", "posinf": "float",
    "neginf": "float",
}
SKIP = {
    "get_memory_limit", "FunctionExporter", "load", "save", "savez", "savez_compressed", "save_safetensors", "save_gguf",
    "set_default_device", "set_default_stream", "set_memory_limit", "set_cache_limit", "set_wired_limit", "new_stream",
    "new_thread_local_stream", "synchronize", "eval", "async_eval", "disable_compile", "enable_compile", "compile", "stream",
    "export_function", "exporter", "import_function", "export_to_dot", "get_active_memory", "get_peak_memory",
    "get_cache_memory", "reset_peak_memory", "clear_cache", "empty", "empty_like", "set_printoptions", "get_printoptions",
    "device_info", "default_device", "default_stream", "is_available", "device_count", "save", "StreamContext", "seed",
    "clear_streams", "threadlocal_stream", "metal_kernel", "cuda_kernel", "printoptions", "precompiled_cuda_kernel", "eig",
    "eigh", "eigvals", "eigvalsh", "svd", "qr", "pinv", "multivariate_normal", "custom_function", "checkpoint", "custom_vjp",
    "value_and_grad", "grad", "vjp", "jvp", "vmap", "einsum_path", "depends", "start_capture", "stop_capture", "asarray",
    "from_dlpack", "as_strided", "view", "Device", "Stream", "DeviceType", "array", "Dtype", "DtypeCategory", "ArrayAt",
    "ArrayLike"}


def parameters(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def functions(mx):
    for space in ("", "random", "linalg", "fft", "fast"):
        module = getattr(mx, space) if space else mx
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if name.startswith("_") or name in SKIP or not callable(function) or isinstance(function, type):
                continue
            rows = parameters(function)
            if rows is not None:
                yield f"mx.{space + '.' if space else ''}{name}", rows
    for name in sorted(dir(mx.array)):
        if not name.startswith("_") and name not in SKIP and callable(getattr(mx.array, name)):
            rows = parameters(getattr(mx.array, name))
            if rows is not None:
                yield f".{name}", rows[1:] if rows and rows[0].name in ("self", "a") else rows


def value_of(choose, name, is_odd):
    if is_odd:
        return choose.choice(ODD)
    kind = KIND_OF.get(name)
    if kind:
        return choose.choice(KINDS[kind])
    return choose.choice(ARRAYS) if choose.random() < 0.85 else choose.choice(SCALARS)


def call_of(choose, name, rows):
    wrongness = choose.choice([0, 0, 0.1, 0.5])
    args = []
    for row in rows:
        is_needed = row.default is inspect.Parameter.empty
        if row.kind is inspect.Parameter.VAR_KEYWORD or (not is_needed and choose.random() < 0.6):
            continue
        if row.kind is inspect.Parameter.VAR_POSITIONAL:
            args += [value_of(choose, row.name, choose.random() < wrongness) for _ in range(choose.randint(0, 3))] if not any("=" in a for a in args) else []
            continue
        if is_needed and choose.random() < wrongness / 8:
            continue
        value = value_of(choose, row.name, choose.random() < wrongness)
        is_named = row.kind is inspect.Parameter.KEYWORD_ONLY or any("=" in a.split("(")[0] for a in args) or not is_needed
        args.append(f"{row.name}={value}" if is_named else value)
    if choose.random() < wrongness / 8:
        args.append(choose.choice(["nonsense=1", "a=x", "stream=mx.cpu", "dtype=mx.float32"]))
    elif choose.random() < wrongness / 8:
        args.insert(0, choose.choice(ODD))
    return f"{choose.choice(ARRAYS)}{name}({', '.join(args)})" if name.startswith(".") else f"{name}({', '.join(args)})"


OPERATORS = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} // {b}", "{a} % {b}", "{a} ** {b}", "{a} @ {b}", "{a} & {b}",
    "{a} | {b}", "{a} ^ {b}", "{a} << {b}", "{a} >> {b}", "{a} == {b}", "{a} < {b}", "{a} != {b}", "{a} >= {b}", "-{a}",
    "~{a}", "abs({a})", "{a}[{b}]", "{a}[{b}, {c}]", "{a}[{c}:{d}]", "{a}[..., {c}]", "{a}[None, {b}]",
    "{a}.__setitem__({b}, {c})", "{a}.__setitem__(({c}, {d}), {b})", "{a}.at[{b}].add({c})", "{a}.at[{c}].maximum({b})",
    "len({a})", "bool({a})", "int({a})", "float({a})", "complex({a})", "str({a})", "repr({a})", "format({a}, '')", "list({a})",
    "{b} + {a}", "{b} - {a}", "{b} / {a}", "{b} in {a}", "hash({a}) and 0", "mx.array({b})", "mx.array([{b}, {c}])",
    "mx.array({b}, dtype={e})", "mx.array([{a}, {b}])", "mx.asarray({b})", "mx.asarray({b}, dtype={e})", "mx.grad({f})({b})",
    "mx.grad({f})({a}, {b})", "mx.value_and_grad({f}, argnums={c})({a}, {b})", "mx.vjp({f}, [{a}], [{b}])",
    "mx.jvp({f}, [{a}], [{b}])", "mx.vmap({f})({a})", "mx.vmap({f}, in_axes={c})({a}, {b})", "mx.vmap({f}, {c}, {d})({a})",
    "mx.compile({f})({b})", "mx.compile({f})({a}, {b})", "mx.checkpoint({f})({a})", "mx.custom_function({f})({b})",
    "{a}.view({e})", "mx.as_strided({a}, {c}, {d})", "mx.as_strided({a}, (2, 2), (1, 1), {c})",
    "mx.einsum_path('i,i', {a}, {b})", "mx.eval({b})", "mx.finfo({e}).max", "mx.iinfo({e}).max",
    "mx.issubdtype({e}, mx.floating)", "mx.result_type({a}, {e})", "{a}.astype({e})", "np.array({a})", "np.array({a}) + {a}",
    "mx.save(io.BytesIO(), {b})", "mx.load({b})", "mx.Device({b})", "mx.random.split({b}, {c})",
    "mx.random.randint({c}, {d}, {e})"]


def operator_of(choose):
    wrongness = choose.choice([0, 0.3, 0.6])
    odd = lambda good: choose.choice(ODD) if choose.random() < wrongness else choose.choice(good)
    return choose.choice(OPERATORS).format(a=choose.choice(ARRAYS), b=odd(ARRAYS + SCALARS), c=odd(KINDS["int"] + ["i", "None"]), d=odd(KINDS["int"]),
                                           e=odd(KINDS["dtype"]), f="(" + odd(KINDS["function"]) + ")")


# ---- Every kind of argument in every place

NUMPY = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
MX = ["bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "complex64"]
EVERY = (
    ["None", "True", "0", "2", "-1", "2**31", "2**40", "-2**31 - 1", "2**63 - 1", "2**63", "2.5", "-2.5", "1e300", "float('nan')", "float('inf')", "1 + 2j", "'a'"]
    + ["[1, 2, 3]", "[1.5, 2, 3]", "[True, False, True]", "(1, 2, 3)", "[[1, 2, 3], [4, 5, 6]]", "[]", "[[]]", "[s, s, s]", "[v, v]", "(i, i)", "[2, s, 1]", "[1, 2.5, True]",
       "[1, 2j, 3]", "[np.float32(1.5), np.float32(2), np.float32(3)]", "[np.int64(1), 2, 0]", "[np.ones(3), np.ones(3)]", "[2**40, 1, 2]", "[2]", "(0,)", "[[1], [2, 3]]", "[True]"]
    + ["range(3)", "range(0)", "(n for n in [1, 2, 0])", "iter([1, 0, 2])", "{0, 1}", "{'a': 1}", "slice(0, 2)", "Index(1)", "Evil()", "mx.int32", "np.int32", "object()"]
    + [f"np.dtype('{d}').type(1)" for d in NUMPY] + [f"np.array({v}, '{d}')" for d in NUMPY for v in ("2", "[1, 0, 2]", "[[1, 0, 2], [2, 1, 1]]")]
    + ["np.float32(-2.5)", "np.float64(2.5)", "np.int64(2**40)", "np.array(2.5)", "np.array([1.5, 2.5, -0.5])", "np.arange(6)[::2]", "np.arange(6.0, dtype='f').reshape(3, 2).T", "np.zeros(0)",
       "np.zeros((0, 3), 'f')", "np.array([1, 2, 0], '>i4')", "np.array(['a'])", "np.array([1, None])", "np.array([300, -1, 2])", "memoryview(b'abc')", "b'abc'", "bytearray(3)"]
    + [f"mx.array({v}, mx.{d})" for d in MX for v in ("1", "[1, 0, 2]", "[]")] + ["x", "k", "h", "r3", "x.T", "mx.array(2.5)", "mx.array([1.5, 2.5, -0.5])", "mx.array([300, -1, 2])"]
    + ["W(2.5)", "W([1.5, 2.5, 0.5])", "W([1, 0, 2])", "W(2)", "W([True, False, True])", "W([])"])
PLACES = [
    f"{a} {op} {b}" for op in ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "<<", "==", "<", ">=") for a in ("v", "i", "u", "t", "b", "z", "s") for b in ("@",)] + [
    f"@ {op} {a}" for op in ("+", "-", "/", "//", "%", "**", "@", "&", "<<", "==", "<") for a in ("v", "i", "u", "t", "b", "z", "s")] + [
    f"inplace('i{op}', {a}, @)" for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "lshift") for a in ("v", "i", "u", "t", "b", "z", "x")] + [
    f"put({a}, {at}, @)" for a in ("v", "i", "u", "t", "b", "z", "x") for at in ("1", "slice(0, 2)", "...", "i", "t", "True", "mx.array(True)", "None", "[0, 1]", "slice(None)", "(slice(None),)")
        if not (a == "x" and at in "it")] + [
    f"{a}.at[{at}].{op}(@)" for a in ("v", "i", "u", "b", "z") for at in ("1", "i", "slice(0, 2)") for op in ("add", "subtract", "multiply", "divide", "maximum", "minimum")] + [
    f"{a}[@]" for a in ("v", "x", "r3", "s", "e")] + ["x[@, 0]", "x[0, @]", "r3[:, @]", "r3[..., @, 0]", "v[@:]", "v[:@]", "v[::@]", "put(x, @, 7)", "put(x, (0, @), 7.5)", "v.at[@].add(1)",
    "put(v, slice(@, None), 1)", "mx.array(@)", "mx.asarray(@)", "mx.array([@, @])", "mx.array((1, @))", "mx.array([[@, 1]])", "len(@) and 0", "mx.where(@, v, i)", "mx.where(t, @, v)", "mx.where(t, v, @)",
    "mx.where(t, @, i)", "mx.where(t, u, @)", "mx.where(t, @, @)", "mx.where(t, t, @)", "mx.where(t, @, b)", "mx.where(True, @, 2)", "mx.where(t, 2.5, @)", "mx.grad(lambda a: (a * 2).sum())(@)",
    "mx.grad(lambda a, b: (a * b).sum())(v, @)", "mx.vmap(lambda a: a * 2)(@)", "mx.vmap(lambda a, b: a * b)(v, @)", "mx.compile(lambda a: a)(@)", "mx.compile(lambda a, b: a * b)(v, @)",
    "mx.vjp(lambda a: a * 2, [@], [v])", "mx.vjp(lambda a: a * 2, [v], [@])", "mx.jvp(lambda a: a * 2, [v], [@])", "mx.vjp(lambda a: a * 2, @, [v])", "mx.checkpoint(lambda a: a * 2)(@)",
    "mx.value_and_grad(lambda a: (a * @).sum())(v)", "mx.value_and_grad(lambda a: mx.array(1.0), argnums=@)(v)", "mx.vmap(lambda a: a, in_axes=@)(x)", "mx.vmap(lambda a: a, out_axes=@)(x)",
    "mx.eval(@)", "mx.result_type(@, v)", "mx.issubdtype(@, mx.floating)", "mx.finfo(@)", "mx.iinfo(@)", "mx.random.seed(@)", "mx.Dtype(@)", "v.astype(@)", "v.view(@)", "x.reshape(@)", "x.reshape(3, @)", "x.reshape(@, -1)",
    "x.transpose(@)", "x.transpose(0, @)", "mx.einsum('i,i', v, @)", "mx.einsum(@, v)", "mx.einsum('i->i', @)", "mx.savez(io.BytesIO(), @)", "mx.save(io.BytesIO(), @)", "np.array(v) + @",
    "mx.as_strided(x, @, (1, 1))", "mx.as_strided(x, (2, 2), @)", "mx.as_strided(x, (2, 2), (1, 1), @)", "mx.eval(v, @)",
    "mx.arange(@)", "mx.arange(0, @)", "mx.arange(0, 5, @)", "mx.arange(3, dtype=@)", "mx.clip(v, @, 2)", "mx.clip(v, None, @)", "v.clip(@, 2)", "mx.conv1d(r3, @)", "mx.conv1d(@, mx.ones((1, 2, 4)))",
    "mx.conv1d(r3, mx.ones((1, 2, 4)), stride=@)", "mx.conv1d(r3, mx.ones((1, 2, 4)), padding=@)", "mx.conv2d(r4, mx.ones((1, 2, 2, 3)), @)", "mx.conv2d(r4, mx.ones((1, 2, 2, 3)), 1, @)",
    "mx.conv_general(r4, mx.ones((1, 2, 2, 3)), 1, @)", "mx.conv_general(r4, mx.ones((1, 2, 2, 3)), input_dilation=@)", "mx.conv_transpose1d(r3, mx.ones((1, 2, 4)), output_padding=@)", "mx.convolve(v, @)", "mx.convolve(@, v)",
    "mx.quantize(mx.ones((2, 64)), @)", "mx.quantize(mx.ones((2, 64)), bits=@)", "mx.quantize(@)", "mx.quantized_matmul(@, *mx.quantize(mx.ones((3, 64))))", "mx.quantized_matmul(mx.ones((1, 64)), *mx.quantize(mx.ones((3, 64))), transpose=@)",
    "mx.gather_mm(r3, mx.ones((2, 4, 3)), @)", "mx.gather_mm(r3, mx.ones((2, 4, 3)), None, @)", "mx.isdtype(@, mx.float32)", "mx.issubdtype(mx.float32, @)", "mx.meshgrid(v, @)", "mx.broadcast_arrays(v, @)", "mx.slice(x, @, (0, 1), (1, 2))",
    "mx.slice(x, mx.array([0, 1]), @, (1, 2))", "mx.slice(x, mx.array([0, 1]), (0, 1), @)", "mx.slice_update(x, @, mx.array([0, 0]), (0, 1))", "mx.slice_update(x, one, @, (0, 1))", "mx.tensordot(x, k.T, @)", "mx.tensordot(v, @, 1)",
    "mx.unflatten(r3, @, (2, -1))", "mx.unflatten(r3, 2, @)", "mx.linalg.solve(q, @, stream=mx.cpu)", "mx.linalg.solve(@, q, stream=mx.cpu)", "mx.linalg.solve_triangular(q, @, stream=mx.cpu)", "mx.linalg.solve_triangular(q, q, upper=@, stream=mx.cpu)",
    "mx.linalg.cholesky(@, stream=mx.cpu)", "mx.linalg.inv(@, stream=mx.cpu)", "mx.fast.scaled_dot_product_attention(r4, r4, r4, scale=@)", "mx.fast.scaled_dot_product_attention(r4, r4, r4, scale=1.0, mask=@)",
    "mx.fast.scaled_dot_product_attention(@, r4, r4, scale=1.0)", "mx.softmax(@)", "mx.softmax(@, axis=-1, precise=True)", "mx.logsumexp(@)", "mx.sum(@, axis=())", "mx.mean(@)", "mx.var(@, ddof=1)", "mx.cumsum(@)", "mx.sort(@)", "mx.argmax(@)",
    "mx.can_cast(@, mx.float32)", "mx.unique(@)", "mx.addmm(s, x, @)", "mx.addmm(@, x, x.T)", "mx.addmm(s, x, x.T, alpha=@)", "mx.inner(v, @)", "mx.outer(v, @)", "mx.kron(v, @)", "mx.take(x, @)", "mx.take(x, @, axis=0)", "mx.take_along_axis(x, @, axis=None)",
    "mx.concatenate([v, @])", "mx.stack([v, @])", "mx.concatenate(@)", "mx.stack(@)", "mx.split(r3, @, 2)", "mx.repeat(v, @)", "mx.tile(v, @)", "mx.roll(x, @)", "mx.roll(x, 1, @)", "mx.random.uniform(@, 9, (2,))", "mx.random.uniform(-9, @, (2,))",
    "mx.random.normal((2,), loc=@)", "mx.random.normal((2,), scale=@)", "mx.random.normal(@)", "mx.random.bernoulli(@, (3,))", "mx.random.bernoulli(p=@)", "mx.random.randint(@, 9, (3,))", "mx.random.randint(0, @, (3,))", "mx.random.categorical(@)",
    "mx.random.gumbel(@)", "mx.random.laplace((2,), loc=@)", "mx.random.truncated_normal(@, 2.0, (3,))", "mx.random.truncated_normal(-2.0, @, (3,))", "mx.random.permutation(@)", "mx.random.multivariate_normal(@, q)", "mx.random.key(@)",
    "mx.random.split(key, @)", "mx.random.split(@)", "mx.linspace(@, 5, 3)", "mx.linspace(0, @, 3)", "mx.linspace(0, 1, @)", "mx.isclose(v, @)", "mx.allclose(v, @)", "mx.array_equal(v, @)", "mx.array_equal(@, v)", "mx.isclose(v, v, rtol=@)",
    "mx.nan_to_num(nan, @)", "mx.nan_to_num(nan, 0, @)", "mx.nan_to_num(nan, posinf=@)", "mx.diag(@)", "mx.tril(x, @)", "mx.eye(@)", "mx.eye(2, @)", "mx.zeros(@)", "mx.ones(@)", "mx.zeros_like(@)", "mx.ones_like(@)", "mx.zeros((2,), @)"] + [
    f"mx.array(@, mx.{d})" for d in MX] + [f"mx.full((2,), @, mx.{d})" for d in MX] + [f"mx.array([@], mx.{d})" for d in ("bool_", "uint8", "int32", "float32", "complex64")] + [
    f"mx.full_like({a}, @)" for a in "vuibzt"] + [f"mx.clip({a}, @, None)" for a in "viubt"] + [f"mx.pad({a}, 1, constant_values=@)" for a in "viubzt"] + [
    f"mx.put_along_axis({a}, i, @, 0)" for a in "viub"] + [f"mx.{f}({a}, @)" for f in ("maximum", "logaddexp", "power", "floor_divide", "remainder", "arctan2", "equal", "bitwise_and", "left_shift") for a in "iubzt"]


def bases(choose, rows, called, tries=16):
    """Calls of a function with MLX's kinds of arguments, of which those that it takes are used."""
    for _ in range(tries):
        args = []
        for row in rows:
            if row.kind is inspect.Parameter.VAR_KEYWORD or row.name == "stream":
                continue
            if row.kind is inspect.Parameter.VAR_POSITIONAL:
                args += [(None, value_of(choose, row.name, False)) for _ in range(choose.randint(1, 2))]
                continue
            is_named = row.kind is inspect.Parameter.KEYWORD_ONLY or row.default is not inspect.Parameter.empty
            if row.default is inspect.Parameter.empty or choose.random() < 0.3:
                args.append((row.name if is_named else None, value_of(choose, row.name, False)))
        args.sort(key=lambda arg: arg[0] is not None)
        yield called, args


def text_of(called, args):
    inside = ", ".join(f"{name}={value}" if name else value for name, value in args)
    return f"{called}({inside})"


def each(mx, only, seed):
    """[call], one for each place and kind of argument."""
    choose, tried, rows_of = random.Random(seed), [], dict(functions(mx))
    for name, rows in rows_of.items():
        if only in name:
            for called in ([f"{choose.choice(['x', 'v', 'k', 'r3', 'q'])}{name}" for _ in range(2)] if name.startswith(".") else [name]):
                tried += bases(choose, rows, called)
    taken = [row for row, result in zip(tried, outcomes("mlx", [text_of(*row) for row in tried])) if result[0] == "value"]
    calls, places = {}, collections.Counter()
    for called, args in taken:
        name = called[called.index("."):]
        for k, (named, _) in enumerate(args):
            place = (name, named or k)
            if places[place] < 1:
                places[place] += 1
                for kind in EVERY:
                    calls[text_of(called, args[:k] + [(named, kind)] + args[k + 1:])] = 1
        for row in rows_of[called if called.startswith("mx.") else name]:  # what no base happens to have
            if row.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) and row.name != "stream" and not places[name, row.name] and (
                    row.default is not inspect.Parameter.empty):
                places[name, row.name] += 1
                for kind in EVERY:
                    calls[text_of(called, [arg for arg in args if arg[0] != row.name] + [(row.name, kind)])] = 1
    for name, rows in rows_of.items():
        if only in name and len(rows) > 1 and not any(place[0] == name[name.index("."):] for place in places):
            print("no call that MLX takes was found of", name)
    for place in PLACES:
        if only in place:
            for kind in EVERY:
                calls[place.replace("@", kind) if " @ " not in place else re.sub(r"@$|^@", lambda m: kind, place)] = 1
    return list(calls)


def outcomes(which, calls):
    """[result of each call], of a process that is started anew where a call ends it."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("run.py", "calls", "out")]
        open(names[0], "w").write(RUN)
        json.dump(calls, open(names[1], "w"))
        found, first = {}, 0
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep)))}
        while first < len(calls):
            process = subprocess.Popen([sys.executable, names[0], which, names[1], names[2], str(first)], cwd=folder, env=paths, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            size = -1
            while True:
                try:
                    _, text = process.communicate(timeout=20)
                    ended = f"died with {process.returncode}: {text.decode(errors='replace')[-300:]}"
                    break
                except subprocess.TimeoutExpired:
                    if not os.path.exists(names[2]) or os.path.getsize(names[2]) == size:
                        process.kill()
                        process.communicate()
                        ended = "hangs"
                        break
                    size = os.path.getsize(names[2])
            last = -1
            for line in open(names[2]) if os.path.exists(names[2]) else ():
                number, *result = json.loads(line)
                last = max(last, number)
                if result[0] != "began":
                    found[number] = result
            if last < 0:
                sys.exit(f"calls: {which}: {ended}")
            if last not in found:
                found[last] = ["ended", ended]
            first = last + 1
        return [found[k] for k in range(len(calls))]


def near(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (a != a and b != b) or abs(a - b) <= 1e-4 * max(1, abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    return a == b


def verdict(ours, theirs):
    if ours[0] == "ended":
        return f"weft {ours[1]}"
    if theirs[0] == "ended":
        return "MLX ends the process"
    if theirs[0] == "raised" and theirs[1][0] == "AttributeError" and "no attribute" in theirs[2]:
        return "weft goes beyond"
    if theirs[0] == "raised":
        if ours[0] == "value":
            return "weft goes beyond"
        if theirs[1][0] in ours[1] or ours[1][0] == "KeyError" and "evil" in ours[2]:  # what an object raises is not lost
            return ""
        if "std::bad_cast" in theirs[2] or "SmallVector" in theirs[2]:  # MLX has no word for it
            return ""
        return f"another class: {ours[1][0]} for {theirs[1][0]}"
    if ours[0] == "raised":
        return "not there" if ours[1][0] == "NotImplementedError" else "raised by weft alone"
    return "" if near(ours[1], theirs[1]) else "other values"


def as_arrays(calls):
    """{call: the same with mx.array(..) around what is a list, a range or NumPy's}"""
    kinds = sorted((kind for kind in EVERY if kind.startswith(("[", "(1", "(i", "(0", "range", "np.array", "np.dtype", "np.zeros", "np.arange"))), key=len, reverse=True)
    found = {}
    for call in calls:
        kind = next((kind for kind in kinds if kind in call), None)
        if kind:
            made = f"list({kind})" if kind.startswith("range") else f"np.array({kind})" if kind.startswith("[np.") else kind
            found[call] = call.replace(kind, f"mx.array({made})")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th call of --each, from the K-th on")
    parser.add_argument("--save", help="a file for all outcomes")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=40, help="calls to show of each kind")
    args = parser.parse_args()
    import weft.mlx.core as mx

    choose, rows = random.Random(args.seed), [row for row in functions(mx) if args.only in row[0]]
    calls = [operator_of(choose) if not args.only and choose.random() < 0.25 else call_of(choose, *choose.choice(rows)) for _ in range(args.count)]
    if args.each:
        k, n = map(int, args.part.split("/"))
        calls = each(mx, args.only, args.seed)[k::n]
    elif not args.both:
        return print("\n".join(calls))
    ours, theirs = outcomes("weft", calls), outcomes("mlx", calls)
    if args.save:
        json.dump([calls, ours, theirs], open(args.save, "w"))
    kinds = collections.defaultdict(list)
    for call, a, b in zip(calls, ours, theirs):
        kinds[verdict(a, b)].append((call, a, b))
    beyond = as_arrays(call for call, _, _ in kinds["weft goes beyond"]) if args.each else {}
    of_arrays = dict(zip(beyond, outcomes("mlx", list(beyond.values())))) if beyond else {}
    for call, a, b in kinds.pop("weft goes beyond", []):
        c = of_arrays.get(call)
        how = "" if not c else ", as MLX does of mx.array(..)" if c[0] == "value" and near(a[1], c[1]) else ", otherwise than MLX of mx.array(..)" if c[0] == "value" else ""
        kinds["weft goes beyond" + how].append((call, a, b))
    for kind, found in sorted(kinds.items()):
        if kind:
            print(f"{kind}: {len(found)}")
            for call, a, b in found[:0 if kind == "MLX ends the process" else args.show]:
                print(f"    {call}\n        weft {str(a)[:230]}\n        MLX  {str(b)[:230]}")
    print(f"{len(calls)} calls, {len(kinds[''])} agree, MLX raises in {sum(b[0] == 'raised' for b in theirs)}: "
          + ", ".join(f"{kind} {len(found)}" for kind, found in sorted(kinds.items()) if kind))


if __name__ == "__main__":
    main()
