"""Random calls of all functions and methods of mlx.core, right ones and wrong ones, on weft and on MLX itself, and where they differ.

    PYTHONPATH=build/release/python python bench/mlx/calls.py --both [--count 3000] [--seed 1] [--only text]

Arguments are chosen by the names of parameters; some are of a wrong type, too many, too few or misnamed. Where MLX gives a value, weft
has to give one that agrees to 1e-4; where it raises, weft has to raise that class or one derived of it, or give a value, as it may go
beyond. A call that kills its process, or takes longer than 20 s, is counted too."""
import argparse
import collections
import inspect
import json
import os
import random
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
'''
RUN = "import sys, json\nif sys.argv[1] == 'weft':\n    import weft; weft.as_mlx()\nimport mlx.core as mx\nPRELUDE = %r\n" % PRELUDE + r'''
calls, out = json.load(open(sys.argv[2])), open(sys.argv[3], "a")
first = int(sys.argv[4])
def seen(v, depth=0):
    if isinstance(v, mx.array):
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
    space = {"mx": mx}
    exec(PRELUDE, space)
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


def outcomes(which, calls):
    """[result of each call], of a process that is started anew where a call ends it."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("run.py", "calls", "out")]
        open(names[0], "w").write(RUN)
        json.dump(calls, open(names[1], "w"))
        found, first = {}, 0
        while first < len(calls):
            process = subprocess.Popen([sys.executable, names[0], which, names[1], names[2], str(first)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=40, help="calls to show of each kind")
    args = parser.parse_args()
    import weft.mlx.core as mx

    choose, rows = random.Random(args.seed), [row for row in functions(mx) if args.only in row[0]]
    calls = [operator_of(choose) if not args.only and choose.random() < 0.25 else call_of(choose, *choose.choice(rows)) for _ in range(args.count)]
    if not args.both:
        return print("\n".join(calls))
    ours, theirs = outcomes("weft", calls), outcomes("mlx", calls)
    kinds = collections.defaultdict(list)
    for call, a, b in zip(calls, ours, theirs):
        kinds[verdict(a, b)].append((call, a, b))
    for kind, found in sorted(kinds.items()):
        if kind:
            print(f"{kind}: {len(found)}")
            for call, a, b in found[:0 if kind == "MLX ends the process" else args.show]:
                print(f"    {call}\n        weft {str(a)[:230]}\n        MLX  {str(b)[:230]}")
    print(f"{len(calls)} calls, {len(kinds[''])} agree, MLX raises in {sum(b[0] == 'raised' for b in theirs)}: "
          + ", ".join(f"{kind} {len(found)}" for kind, found in sorted(kinds.items()) if kind))


if __name__ == "__main__":
    main()
