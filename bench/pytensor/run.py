"""run.py [--modes WEFT,NUMBA,JAX,CVM] [--models a,b] [--keep FOLDER] [--limit S] [--first] [--through COMMAND]: ten models beside PyTensor's modes.

In two parts. First values: each mode of each model in a process of its own with empty caches, what comes before the first value
(linking, compiling, the first call) without PyTensor's rewriting, in wall time and in processor time, compilers it starts included. Then
later calls: the modes of all models in processes that have called once, with the caches of the first part warm, and wait; they
call in turn, seven rounds of each model, and the best round counts. Also a trivial function and an update of 10^6 doubles.
Prints a table and what of the aims holds: the first value 20 times sooner than in the best other mode, later calls ahead. What differs from
the first mode by more than 1e-6 is marked; a mode that needs longer than the limit is said to need more.

With --keep the folder holds caches and all that was measured: what is there is not measured again, so the table may be made by pieces.
--first: only the first part. --through: a command that runs the later calls, as one that holds other work still.
Needs PYTHONPATH with weft, and pytensor; a mode whose back end is not installed is left out."""
import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import socket
import subprocess
import sys
import tempfile
import time

ROUNDS = 7


def trivial():
    import numpy as np
    import pytensor.tensor as pt
    x = pt.dscalar("x")
    return [x], [x + 1], [np.array(1.0)]


def shared_update():
    """10^6 doubles of a shared variable."""
    import numpy as np
    import pytensor
    import pytensor.tensor as pt
    x, s = pt.dscalar("x"), pytensor.shared(np.zeros(10 ** 6))
    return [x], [], [np.array(1e-3)], {s: s + x}


def processor():
    """Seconds of this process and of those it has started."""
    return sum(t.ru_utime + t.ru_stime for t in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def rewriting():
    """What PyTensor's rewriting takes from now on, a list that is kept: [seconds by the clock, of processor]."""
    from pytensor.compile.maker import FunctionMaker
    rewrite, taken = FunctionMaker.prepare_fgraph, [0.0, 0.0]

    def counted(*arguments, **named):
        wall, spent = time.perf_counter(), processor()
        rewrite(*arguments, **named)
        taken[:] = taken[0] + time.perf_counter() - wall, taken[1] + processor() - spent

    FunctionMaker.prepare_fgraph = staticmethod(counted)
    return taken


def made(mode, name):
    """A call without arguments, and what its first value took."""
    import numpy as np
    import pytensor
    from models import MODELS
    if mode == "WEFT":
        import weft.pytensor
    inputs, outputs, point, *updates = {**MODELS, "trivial": trivial, "shared_update": shared_update}[name]()
    rewritten, begin, begin_processor = rewriting(), time.perf_counter(), processor()
    f = pytensor.function(inputs, outputs, mode=mode, updates=updates[0] if updates else None)
    values = [np.asarray(x).tolist() for x in f(*point)]
    wall, spent = time.perf_counter() - begin, processor() - begin_processor
    f.trust_input = True
    call = (lambda: f(*point)) if mode != "JAX" else (lambda: [np.asarray(x) for x in f(*point)])
    call()
    return call, {"rewriting": rewritten[1], "wall": wall - rewritten[0], "processor": spent - rewritten[1], "values": values,
                  "fallbacks": dict(weft.pytensor.fallbacks) if mode == "WEFT" else {},
                  "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def timed(call, seconds):
    """Of one call, on average over about so many seconds: by the clock, and of processor."""
    once = []
    for _ in range(3):  # the first ones fetch what other work has driven out of the caches
        start = time.perf_counter()
        call()
        once.append(time.perf_counter() - start)
    n = max(1, int(seconds / max(min(once), 1e-7)))
    start, begin = time.perf_counter(), time.process_time()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) / n, (time.process_time() - begin) / n


def serve(mode, name, path):
    """Answers each line `seconds` that comes through the socket with two times, until it is closed."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    call, row = made(mode, name)
    print(json.dumps(row), flush=True)
    with server.accept()[0] as peer, peer.makefile("rw") as lines:
        for line in lines:
            print(*timed(call, float(line)), file=lines, flush=True)


def turns(folder, seconds):
    """Of all servers of a folder, the modes of a model in turn: {"MODE NAME": [wall, processor]}, the best of the rounds."""
    models = {}
    for path in sorted(folder.iterdir()):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(path))
        mode, name = path.name.split(".")
        models.setdefault(name, {})[mode] = peer.makefile("rw")
    best = {}
    for name, peers in models.items():
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            for mode, lines in peers.items():
                print(seconds, file=lines, flush=True)
                seen = [float(x) for x in lines.readline().split()]
                known = best.get(f"{mode} {name}", seen)
                best[f"{mode} {name}"] = [min(a, b) for a, b in zip(seen, known)]
        print(f"{name}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    return best


def begun(mode, name, cache, *what):
    env = dict(os.environ, PYTENSOR_FLAGS=f"base_compiledir={cache}", NUMBA_CACHE_DIR=str(cache), WEFT_CACHE=f"{cache}/weft",
               JAX_COMPILATION_CACHE_DIR=f"{cache}/jax", JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu",
               OPENBLAS_NUM_THREADS="1")  # which waits for its threads at full speed: with two, beside other work, 200 rows take 10 ms
    cache.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen([sys.executable, __file__, "--one", mode, name, *what], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def first(mode, name, limit_s, cache):
    """What the first value took, in a process of its own; a text: why it failed; a number: the seconds that were not enough."""
    process = begun(mode, name, cache)
    try:
        out, error = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return limit_s
    if not process.returncode:
        return json.loads(out.splitlines()[-1])
    said = [line for line in error.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)] or error.splitlines() or ["?"]
    return said[-1][:60]


def known(path, find):
    """What the file says; else what find() finds, which the file says from then on."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(find()))
    return json.loads(path.read_text())


def later(wanted, keep, options):
    """{(mode, name): row} of those that are wanted: the first value with warm caches, and later calls side by side."""
    rows, servers = {}, []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for mode, model in wanted:
                servers.append(begun(mode, model, keep / mode / model, f"{folder}/{mode}.{model}"))
                rows[mode, model] = json.loads(servers[-1].stdout.readline())  # one after another: no two compile at a time
            command = [*shlex.split(options.through), sys.executable, __file__, "--turns", folder, str(options.seconds)]
            best = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        finally:
            for process in servers:
                process.kill()
                process.communicate()
    for (mode, model), row in rows.items():
        row["later"], row["later processor"] = best[f"{mode} {model}"]
    return rows


def distance(a, b):
    import numpy as np
    return max((float(np.max(np.abs(np.array(x) - np.array(y)) / (np.abs(np.array(y)) + 1e-8))) for x, y in zip(a, b)), default=0.0)


def verdict(name, rows, limits):
    """What of the aims holds in this row. limits: {mode: seconds that were not enough for its first value}."""
    others = {mode: row for mode, row in rows.items() if mode != "WEFT"}
    if "WEFT" not in rows or not others and not limits:
        return ""
    ours = rows["WEFT"]
    said = "".join(f" more than {s / ours['wall']:.0f} x sooner than {mode}," for mode, s in limits.items())
    if not others:
        return f"{name:18} first value{said.rstrip(',')}"
    soonest, wall, spent = (min(others, key=lambda m: others[m][what]) for what in ("processor", "later", "later processor"))
    return (f"{name:18} first value{said} {others[soonest]['processor'] / ours['processor']:.0f} x sooner than {soonest}; later calls "
            f"{others[wall]['later'] / ours['later']:.2f} x {wall} in wall time, "
            f"{others[spent]['later processor'] / ours['later processor']:.2f} x {spent} in processor time")


def shown(name, mode, row, notes):
    return (f"{name:16} {mode:6} {1e3 * row['rewriting']:9.0f} {1e3 * row['wall']:9.0f} {1e3 * row['processor']:9.0f} "
            f"{1e3 * row['warm']:8.0f} {1e6 * row['later']:9.1f} {1e6 * row['later processor']:9.1f} {row['memory']:6.0f}{notes}")


def compared(name, options, keep):
    """Prints the rows of one model; its verdict."""
    rows, limits = {}, {}
    for mode in options.modes.split(","):
        row = json.loads((keep / mode / name / "first.json").read_text())
        if not isinstance(row, dict):
            if not isinstance(row, str):
                limits[mode], row = row, f"more than {row:.0f} s"
            print(f"{name:16} {mode:6} {row}", flush=True)
            continue
        after = json.loads((keep / mode / name / "later.json").read_text())
        row = {**row, "warm": after["processor"], **{what: after[what] for what in ("later", "later processor")}}
        reference = next(iter(rows.values()), row)["values"]
        rows[mode] = row
        notes = "" if distance(row["values"], reference) < 1e-6 else "  DIFFERS"
        print(shown(name, mode, row, notes + "".join(f"  {op} by perform" for op in row["fallbacks"])), flush=True)
    return verdict(name, rows, limits)


def run(names, modes, options, keep):
    pairs = [(mode, name) for name in names for mode in modes]
    rows = {(mode, name): known(keep / mode / name / "first.json", lambda: first(mode, name, options.limit, keep / mode / name))
            for mode, name in pairs}
    if options.first:
        return
    new = [name for name in names if any(isinstance(rows[mode, name], dict) and not (keep / mode / name / "later.json").exists() for mode in modes)]
    for at in range(0, len(new), options.group):  # what is measured side by side is measured anew as a whole
        wanted = [(mode, name) for mode, name in pairs if name in new[at:at + options.group] and isinstance(rows[mode, name], dict)]
        for (mode, name), row in later(wanted, keep, options).items():
            (keep / mode / name / "later.json").write_text(json.dumps(row))
    print(f"{'':33}first value, ms of{'':18}later calls, us of")
    print(f"{'model':16} {'mode':6} {'rewriting':>9} {'wall':>9} {'processor':>9} {'warm':>8} {'wall':>9} {'processor':>9} {'MB':>6}")
    print(*[v for v in [compared(name, options, keep) for name in names] if v], sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default="WEFT,NUMBA,JAX,CVM")
    parser.add_argument("--models")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--through", default="")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a round of later calls")
    parser.add_argument("--group", type=int, default=6, help="models whose processes wait at a time")
    parser.add_argument("--one", nargs="+")
    parser.add_argument("--turns", nargs=2)
    options = parser.parse_args()
    if options.turns:
        return print(json.dumps(turns(pathlib.Path(options.turns[0]), float(options.turns[1]))))
    if options.one:
        return serve(*options.one) if len(options.one) == 3 else print(json.dumps(made(*options.one)[1]))
    from models import MODELS
    names = options.models.split(",") if options.models else [*MODELS, "trivial", "shared_update"]
    with tempfile.TemporaryDirectory() as passing:
        run(names, options.modes.split(","), options, (options.keep or pathlib.Path(passing)).resolve())


main()
