"""What a system costs in a process of its own: to start, to see a program for the first time, to meet 500 lengths.

    python -m peers.fresh THREADS SYSTEM start|first|lengths [program]

prints one line of JSON."""
import json
import os
import subprocess
import sys
import tempfile
import time

BEGAN = time.perf_counter()


def resident_mb():
    try:
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))
    except OSError:
        return None


def system_named(name, threads):
    from . import systems
    return next(kind for kind in systems.ALL if kind.name == name)(threads)


def start(s, _):
    import numpy as np
    x = s.array(np.ones(1000, np.float32), "f32")
    s.wait(s.compiled(lambda a: a + 1)(x))
    return {"seconds": time.perf_counter() - BEGAN, "resident_mb": resident_mb()}


def first(s, program):
    """ms of the first call of a program, and of the tenth, after the system has compiled something else."""
    from . import works
    function, inputs = works.PROGRAMS[program]
    a = [s.array(x, "f32") for x in inputs()]
    s.wait(s.compiled(lambda x: s.sum(x * 2))(a[0]))
    f, times = s.compiled(lambda *x: function(s, *x)), []
    for _ in range(10):
        begin = time.perf_counter()
        s.wait(f(*a))
        times.append(1e3 * (time.perf_counter() - begin))
    return {"first_ms": times[0], "later_ms": min(times[5:])}


def compiles(s, f):
    if s.name == "weft":
        return s.m.kernels_compiled()
    if s.name == "JAX":
        return f._cache_size()
    if s.name == "torch.compile":
        return s.torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return None


def lengths(s, _):
    """One function, arrays of 101 to 600 elements; stops after 20 s."""
    import numpy as np
    data = [s.array(np.ones(n, np.float32), "f32") for n in range(101, 601)]
    f = s.compiled(lambda x: s.softmax(s.tanh(x) * 2 + 1))
    before = compiles(s, f) or 0
    begin, done = time.perf_counter(), 0
    for x in data:
        s.wait(f(x))
        done += 1
        if time.perf_counter() - begin > 20:
            break
    seconds = time.perf_counter() - begin
    n = compiles(s, f)
    return {"lengths": done, "seconds": seconds, "compiles": None if n is None else n - before}


def ask(threads, system, what, program=""):
    """The same in a new process; None: it failed. Compilers find no cache of an earlier run."""
    with tempfile.TemporaryDirectory() as empty:
        env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=empty, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1", PYTENSOR_FLAGS=f"base_compiledir={empty}")
        try:
            done = subprocess.run([sys.executable, "-m", "peers.fresh", str(threads), system, what, program], env=env, capture_output=True,
                                  text=True, timeout=240)
        except subprocess.TimeoutExpired:
            return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


if __name__ == "__main__":
    threads, name, what, program = sys.argv[1:5]
    print(json.dumps({"start": start, "first": first, "lengths": lengths}[what](system_named(name, int(threads)), program)))
