"""Interpreters without the GIL (3.13t and later) turn it on for modules that do not say they can do without: weft's is one. Here it is
seen that it says nothing, neither by a slot, which only modules made in several phases have, nor by a call; and that threads that
share everything find no crash, with the GIL and, where the interpreter is one of those, with PYTHON_GIL=0, which keeps it off."""
import os
import subprocess
import sys
import sysconfig

import pytest

from weft import _core

PROGRAM = """
import gc, sys, tempfile, threading, time
import weft, weft.mlx.core as mx

folder = tempfile.mkdtemp()
w, cells, shared = mx.zeros(64), mx.zeros(8), mx.arange(1000).astype(mx.float32)
box, state = [], [mx.zeros(4)]
f = mx.compile(lambda x, y: (x * 2 + y).sum())

def stateful(x):
    state[0] = state[0] + x
    return state[0].sum()
stateful = mx.compile(stateful, inputs=state, outputs=state)
stateful(mx.ones(4))

def changes(i, k):
    w[i] = float(k)
    w[8:12] += 1
    assert len(w.tolist()) == 64 and w.shape == (64,) and (w * 2).sum().item() >= 0 and "array" in repr(w)
    mx.eval(w) if k % 2 else mx.async_eval(w)
def counts(i, k):
    cells[i] = cells[i] + 1  # of its own
def calls(i, k):
    n = k % 7 + 1
    assert f(mx.ones(n), mx.ones(n)).item() == 3 * n
    assert mx.compile(lambda x: {"a": [x * k]})(mx.ones(n))["a"][0][0].item() == k
def traces(i, k):
    g = mx.grad(lambda x: (x * x).sum())(shared[:20])
    assert g[3].item() == 6 and mx.vmap(lambda x: x @ x)(shared[:16].reshape(4, 4))[0].item() == 14
def fails(i, k):
    for wrong, kind in ((lambda: mx.zeros(3) + mx.zeros(4), ValueError), (lambda: mx.zeros(3)[mx.array([9])].item(), IndexError),
                        (lambda: mx.compile(lambda x: 1 / 0)(mx.zeros(3)), ZeroDivisionError)):
        try:
            wrong()
        except kind:
            continue
        raise AssertionError(kind)
def cycles(i, k):
    class Model: pass
    m = Model()
    m.w = mx.ones(4)
    m.f = mx.compile(lambda x: (x * m.w).sum())
    assert m.f(mx.ones(4)).item() == 4
    k % 10 or gc.collect()
def goes_on(i, k):
    stateful(mx.ones(4)).item()
def keeps(i, k):
    name = f"{folder}/{i}.safetensors"
    mx.save_safetensors(name, {"a": shared, "b": shared[:3]})
    assert mx.load(name)["b"].tolist() == [0, 1, 2]
def dies(i, k):
    box.append([mx.arange(10) + j for j in range(20)])
    try:
        box.pop(0)
    except IndexError:
        pass
def draws(i, k):
    mx.eval(mx.random.normal((10,)), mx.random.state)

bad = []
def thread(work, i, n):
    try:
        for k in range(n):
            work(i, k)
    except BaseException as failure:
        bad.append((work.__name__, repr(failure)))
for work, n in ((changes, 60), (counts, 100), (calls, 40), (traces, 20), (fails, 20), (cycles, 30), (goes_on, 40), (keeps, 10), (dies, 40), (draws, 20)):
    threads = [threading.Thread(target=thread, args=(work, i, n)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
threads = [threading.Thread(target=thread, args=(work, i, 20)) for i, work in enumerate((changes, counts, calls, traces, fails, cycles, keeps, dies))]
[t.start() for t in threads]
[t.join() for t in threads]
print(getattr(sys, "_is_gil_enabled", lambda: True)(), bad, w[:8].tolist() == [19.0] + [59.0] * 7)
"""


def run(program, **more):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, env={**os.environ, **more})


def test_the_module_does_not_say_that_it_can_do_without_the_gil():
    with open(_core.__file__, "rb") as file:
        code = file.read()
    assert b"PyModule_Create2" in code  # one phase: no slots
    assert b"PyModuleDef_Init" not in code and b"PyUnstable_Module_SetGIL" not in code


def test_the_gil_is_on_once_weft_is_imported():
    env = {"PYTHON_GIL": ""} if "PYTHON_GIL" in os.environ else {}
    done = run("import sys, weft; print(getattr(sys, '_is_gil_enabled', lambda: True)())", **env)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("gil", ["1", "0"])
def test_threads_that_share_everything_find_no_crash(gil):
    is_free = sysconfig.get_config_var("Py_GIL_DISABLED") == 1
    if gil == "0" and not is_free:
        pytest.skip("an interpreter that always has the GIL")
    done = run(PROGRAM, PYTHON_GIL=gil) if is_free else run(PROGRAM)
    has, bad, is_complete = done.stdout.split(" ") if done.returncode == 0 else (None, done.returncode, None)
    assert (has, bad) == (str(gil == "1"), "[]"), done.stderr
    if gil == "1":  # without it, writes of several threads into one array may be lost
        assert is_complete == "True\n"
