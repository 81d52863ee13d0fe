"""run.py [--modes WEFT,NUMBA,JAX,C] [--models a,b] [--later SECONDS]: ten models beside the other modes of PyTensor.

Each mode of each model runs in a process of its own with an empty cache: function() of value and gradient, the first call, later calls
(the best of five rounds), the most memory of the process. Prints a table; what differs from the first mode by more than 1e-6 is
marked. Needs PYTHONPATH with weft, and pytensor; a mode whose back end is not installed is left out."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time


def measure(mode, name, later_s):
    import numpy as np
    import pytensor
    from models import MODELS
    if mode == "WEFT":
        import weft.pytensor
    inputs, outputs, point = MODELS[name]()
    begin = time.perf_counter()
    f = pytensor.function(inputs, outputs, mode=mode)
    made = time.perf_counter()
    first = [np.asarray(x).tolist() for x in f(*point)]
    called = time.perf_counter()
    f.trust_input = True
    call = lambda: [np.asarray(x) for x in f(*point)]
    call()
    n, rounds = max(1, int(later_s / 5 / max(once(call), 1e-7))), []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(n):
            call()
        rounds.append((time.perf_counter() - start) / n)
    fallbacks = dict(weft.pytensor.fallbacks) if mode == "WEFT" else {}
    return {"function": made - begin, "first": called - made, "later": min(rounds), "values": first, "fallbacks": fallbacks,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def once(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def apart(mode, name, later_s):
    """Measured in a process of its own; None: it failed."""
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, PYTENSOR_FLAGS=f"base_compiledir={cache}", NUMBA_CACHE_DIR=cache, JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu")
        command = [sys.executable, __file__, "--one", mode, name, str(later_s)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=400)
        except subprocess.TimeoutExpired:
            return "400 s were not enough"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1][:60]
    return json.loads(done.stdout.splitlines()[-1])


def distance(a, b):
    import numpy as np
    return max(float(np.max(np.abs(np.array(x) - np.array(y)) / (np.abs(np.array(y)) + 1e-8))) for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default="WEFT,NUMBA,JAX,CVM")
    parser.add_argument("--models")
    parser.add_argument("--later", type=float, default=1.0)
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        return print(json.dumps(measure(options.one[0], options.one[1], float(options.one[2]))))
    from models import MODELS
    print(f"{'model':18} {'mode':6} {'function ms':>12} {'first ms':>10} {'later us':>10} {'MB':>6}")
    for name in (options.models.split(",") if options.models else MODELS):
        reference = None
        for mode in options.modes.split(","):
            row = apart(mode, name, options.later)
            if isinstance(row, str):
                print(f"{name:18} {mode:6} {row}", flush=True)
                continue
            reference = reference or row["values"]
            notes = "" if distance(row["values"], reference) < 1e-6 else "  DIFFERS"
            notes += "".join(f"  {op} by perform" for op in row["fallbacks"])
            print(f"{name:18} {mode:6} {1e3 * row['function']:12.1f} {1e3 * row['first']:10.2f} {1e6 * row['later']:10.1f} "
                  f"{row['memory']:6.0f}{notes}", flush=True)


main()
