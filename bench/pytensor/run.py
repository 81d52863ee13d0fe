"""run.py [--modes WEFT,NUMBA,JAX,CVM] [--models a,b] [--later S] [--limit S] [--keep FOLDER] [--cold]: ten models beside PyTensor's modes.

Each mode of each model runs in a process of its own, first with empty caches, then, unless --cold, once more with what that left there:
PyTensor's rewriting, what else comes before the first value (linking, compiling, the first call), later calls (the best of nine rounds,
in wall time and in processor time), the most memory of the process. Then a trivial function and an update of 10^6 doubles. Prints a
table and what of the aims holds: the first value 20 times sooner than in the best other mode, rewriting and warm caches left out; later calls
ahead. What differs from the first mode by more than 1e-6 is marked; a mode that needs longer than the limit is said to need more.
With --keep, caches and first values are kept in that folder: a second run, on a quiet machine, takes the first values from there and
measures the rest anew. Needs PYTHONPATH with weft, and pytensor; a mode whose back end is not installed is left out."""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


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


def measure(mode, name, later_s):
    import numpy as np
    import pytensor
    from models import MODELS
    from pytensor.compile.debug import profiling
    if mode == "WEFT":
        import weft.pytensor
    inputs, outputs, point, *updates = {**MODELS, "trivial": trivial, "shared_update": shared_update}[name]()
    begin = time.perf_counter()
    f = pytensor.function(inputs, outputs, mode=mode, updates=updates[0] if updates else None)
    made = time.perf_counter()
    first = [np.asarray(x).tolist() for x in f(*point)]
    called = time.perf_counter()
    rewriting, f.trust_input = profiling.total_graph_rewrite_time, True
    call = (lambda: f(*point)) if mode != "JAX" else (lambda: [np.asarray(x) for x in f(*point)])
    call()
    n, walls, processors = max(1, int(later_s / 9 / max(once(call), 1e-7))), [], []
    for _ in range(9):
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(n):
            call()
        walls.append((time.perf_counter() - start) / n)
        processors.append((time.process_time() - processor) / n)
    fallbacks = dict(weft.pytensor.fallbacks) if mode == "WEFT" else {}
    return {"rewriting": rewriting, "sooner": called - begin - rewriting, "function": made - begin, "later": min(walls),
            "processor": min(processors), "values": first, "fallbacks": fallbacks,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def once(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def apart(mode, name, later_s, limit_s, cache):
    """Measured in a process of its own; a text: why it failed; a number: the seconds that were not enough."""
    env = dict(os.environ, PYTENSOR_FLAGS=f"base_compiledir={cache}", NUMBA_CACHE_DIR=str(cache), WEFT_CACHE=f"{cache}/weft",
               JAX_COMPILATION_CACHE_DIR=f"{cache}/jax", JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu")
    try:
        done = subprocess.run([sys.executable, __file__, "--one", mode, name, str(later_s)], env=env, capture_output=True, text=True,
                              timeout=limit_s)
    except subprocess.TimeoutExpired:
        return limit_s
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1][:60]
    return json.loads(done.stdout.splitlines()[-1])


def both(mode, name, options, folder):
    """A row: the first value of empty caches, which the folder may know already, the rest of warm ones; or what apart says instead."""
    known = folder / "first.json"
    if not known.exists():
        folder.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(apart(mode, name, options.later, options.limit, folder)))
    row = json.loads(known.read_text())
    if options.cold or not isinstance(row, dict):
        return row
    warm = apart(mode, name, options.later, options.limit, folder)
    if not isinstance(warm, dict):
        return warm
    best = {what: min(warm[what], row[what]) for what in ("later", "processor")} if not options.keep else {}
    return {**warm, **best, "rewriting": row["rewriting"], "sooner": row["sooner"], "warm": warm["sooner"]}


def distance(a, b):
    import numpy as np
    return max((float(np.max(np.abs(np.array(x) - np.array(y)) / (np.abs(np.array(y)) + 1e-8))) for x, y in zip(a, b)), default=0.0)


def verdict(name, rows, limits):
    """What of the aims holds in this row. limits: {mode: seconds that were not enough for its first value}."""
    others = {mode: row for mode, row in rows.items() if mode != "WEFT"}
    if "WEFT" not in rows or not others and not limits:
        return ""
    ours = rows["WEFT"]
    said = "".join(f" more than {s / ours['sooner']:.0f} x sooner than {mode}," for mode, s in limits.items())
    if not others:
        return f"{name:18} first value{said.rstrip(',')}"
    soonest = min(others, key=lambda m: others[m]["sooner"])
    wall, processor = (min(others, key=lambda m: others[m][what]) for what in ("later", "processor"))
    return (f"{name:18} first value{said} {others[soonest]['sooner'] / ours['sooner']:.0f} x sooner than {soonest}; later calls "
            f"{others[wall]['later'] / ours['later']:.2f} x {wall} in wall time, {others[processor]['processor'] / ours['processor']:.2f} x "
            f"{processor} in processor time")


def shown(name, mode, row, notes):
    warm = f"{1e3 * row['warm']:.1f}" if "warm" in row else ""
    return (f"{name:18} {mode:6} {1e3 * row['rewriting']:12.1f} {1e3 * row['sooner']:15.1f} {warm:>9} {1e6 * row['later']:10.1f} "
            f"{1e6 * row['processor']:10.1f} {row['memory']:6.0f}{notes}")


def compared(name, options, keep):
    """Prints the rows of one model; its verdict."""
    rows, limits = {}, {}
    for mode in options.modes.split(","):
        row = both(mode, name, options, keep / mode / name)
        if not isinstance(row, dict):
            if not isinstance(row, str):
                limits[mode], row = row, f"more than {row:.0f} s"
            print(f"{name:18} {mode:6} {row}", flush=True)
            continue
        reference = next(iter(rows.values()), row)["values"]
        rows[mode] = row
        notes = "" if distance(row["values"], reference) < 1e-6 else "  DIFFERS"
        print(shown(name, mode, row, notes + "".join(f"  {op} by perform" for op in row["fallbacks"])), flush=True)
    return verdict(name, rows, limits)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default="WEFT,NUMBA,JAX,CVM")
    parser.add_argument("--models")
    parser.add_argument("--later", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        return print(json.dumps(measure(options.one[0], options.one[1], float(options.one[2]))))
    from models import MODELS
    print(f"{'model':18} {'mode':6} {'rewriting ms':>12} {'first value ms':>15} {'warm ms':>9} {'later us':>10} {'processor':>10} {'MB':>6}")
    names = options.models.split(",") if options.models else [*MODELS, "trivial", "shared_update"]
    with tempfile.TemporaryDirectory() as passing:
        verdicts = [compared(name, options, (options.keep or pathlib.Path(passing)).resolve()) for name in names]
    print(*(v for v in verdicts if v), sep="\n")


main()
