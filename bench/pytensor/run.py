"""run.py [--modes WEFT,NUMBA,JAX,CVM] [--models a,b] [--later SECONDS] [--cold]: ten models beside the other modes of PyTensor.

Each mode of each model runs in a process of its own, first with empty caches, then, unless --cold, once more with what that left there:
PyTensor's rewriting, what else comes before the first value (linking, compiling, the first call), later calls (the best of nine rounds,
in wall time and in processor time), the most memory of the process. Then a trivial function and an update of 10^6 doubles. Prints a
table and what of the aims holds: the first value 20 times sooner than in the best other mode, rewriting and warm caches left out; later calls
ahead. What differs from the first mode by more than 1e-6 is marked. Needs PYTHONPATH with weft, and pytensor; a mode whose
back end is not installed is left out."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

LIMIT_S = 600


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


def apart(mode, name, later_s, cache):
    """Measured in a process of its own; a text: why it failed."""
    env = dict(os.environ, PYTENSOR_FLAGS=f"base_compiledir={cache}", NUMBA_CACHE_DIR=cache, WEFT_CACHE=f"{cache}/weft",
               JAX_COMPILATION_CACHE_DIR=f"{cache}/jax", JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu")
    try:
        done = subprocess.run([sys.executable, __file__, "--one", mode, name, str(later_s)], env=env, capture_output=True, text=True,
                              timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{LIMIT_S} s were not enough"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1][:60]
    return json.loads(done.stdout.splitlines()[-1])


def distance(a, b):
    import numpy as np
    return max((float(np.max(np.abs(np.array(x) - np.array(y)) / (np.abs(np.array(y)) + 1e-8))) for x, y in zip(a, b)), default=0.0)


def verdict(name, rows):
    """What of the aims holds in this row."""
    others = {mode: row for mode, row in rows.items() if mode != "WEFT"}
    if "WEFT" not in rows or not others:
        return ""
    ours, soonest = rows["WEFT"], min(others, key=lambda m: others[m]["sooner"])
    wall, processor = (min(others, key=lambda m: others[m][what]) for what in ("later", "processor"))
    return (f"{name:18} first value {others[soonest]['sooner'] / ours['sooner']:.0f} x sooner than {soonest}; later calls "
            f"{others[wall]['later'] / ours['later']:.2f} x {wall} in wall time, {others[processor]['processor'] / ours['processor']:.2f} x "
            f"{processor} in processor time")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default="WEFT,NUMBA,JAX,CVM")
    parser.add_argument("--models")
    parser.add_argument("--later", type=float, default=1.0)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        return print(json.dumps(measure(options.one[0], options.one[1], float(options.one[2]))))
    from models import MODELS
    print(f"{'model':18} {'mode':6} {'rewriting ms':>12} {'first value ms':>15} {'warm ms':>9} {'later us':>10} {'processor':>10} {'MB':>6}")
    verdicts = []
    for name in (options.models.split(",") if options.models else [*MODELS, "trivial", "shared_update"]):
        rows = {}
        for mode in options.modes.split(","):
            with tempfile.TemporaryDirectory() as cache:
                row = apart(mode, name, options.later, cache)
                warm = row if options.cold or isinstance(row, str) else apart(mode, name, 0.1, cache)
            if isinstance(row, str):
                print(f"{name:18} {mode:6} {row}", flush=True)
                continue
            reference = next(iter(rows.values()), row)["values"]
            rows[mode] = row
            notes = "" if distance(row["values"], reference) < 1e-6 else "  DIFFERS"
            notes += "".join(f"  {op} by perform" for op in row["fallbacks"])
            warmer = "" if warm is row or isinstance(warm, str) else f"{1e3 * warm['sooner']:.1f}"
            print(f"{name:18} {mode:6} {1e3 * row['rewriting']:12.1f} {1e3 * row['sooner']:15.1f} {warmer:>9} {1e6 * row['later']:10.1f} "
                  f"{1e6 * row['processor']:10.1f} {row['memory']:6.0f}{notes}", flush=True)
        verdicts.append(verdict(name, rows))
    print(*(v for v in verdicts if v), sep="\n")


main()
