import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import weft


def run_all(work, n=8):
    failures = []

    def guarded(i):
        try:
            work(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_async_evaluation_is_waited_for():
    a = [weft.exp(weft.arange(10000).astype(weft.float32) * -0.001 * k) for k in range(8)]
    assert weft.state(a[0]) == "lazy"
    weft.async_eval(a)
    assert all(weft.state(x) in ("running", "ready") for x in a)
    assert weft.wait(a) is True
    assert all(weft.state(x) == "ready" for x in a)
    np.testing.assert_allclose(np.array(a[3]), np.exp(np.arange(10000, dtype=np.float32) * -0.003), rtol=1e-5)


def test_what_is_computed_from_running_arrays_is_right():
    a = weft.arange(100000).astype(weft.float32)
    for _ in range(20):
        a = a + 1
        weft.async_eval(a)
    assert a[5].item() == 25


def test_an_async_failure_shows_at_the_next_look():
    a = weft.arange(3)[weft.array([7])] + 1
    weft.async_eval(a)
    with pytest.raises(IndexError):
        weft.wait(a)
    with pytest.raises(IndexError):
        a.tolist()
    assert weft.state(a) == "failed"


def test_threads_build_and_evaluate_apart():
    shared = weft.arange(1000).astype(weft.float32)

    def work(i):
        for k in range(20):
            y = (shared * (i + 1) + k).sum()
            assert y.item() == 499500 * (i + 1) + 1000 * k
            g = weft.grad(lambda x: (x * x).sum())(shared)
            assert g[10].item() == 20

    run_all(work)


def test_threads_share_lazy_arrays_and_compiled_functions():
    lazy = weft.exp(weft.arange(1000).astype(weft.float32) * -0.01)
    f = weft.compile(lambda x: (x * 2).sum())
    expected = float(np.array((weft.exp(weft.arange(1000).astype(weft.float32) * -0.01) * 2).sum()))

    def work(i):
        for _ in range(20):
            assert f(lazy).item() == expected

    run_all(work)


def test_one_object_is_changed_and_read_by_many_threads():
    a = weft.zeros(100)

    def work(i):
        for _ in range(30):
            if i % 2:
                a[i] = 1.0
            else:
                assert a.tolist()[0] in (0.0, 1.0)

    run_all(work)


def test_arrays_die_on_other_threads():
    arrays = [weft.arange(10) + i for i in range(100)]

    def work(i):
        while arrays:
            try:
                x = arrays.pop()
            except IndexError:
                break
            del x

    run_all(work)


def test_shared_memory_is_released_from_other_threads():
    def work(i):
        for _ in range(20):
            x = np.full(1000, float(i), dtype=np.float32)
            assert (weft.asarray(x) + 1)[0].item() == i + 1

    run_all(work)


# Whoever starts the tests in the background has them ignore the signal.
SLOW = """
import signal, sys, time, weft
signal.signal(signal.SIGINT, signal.default_int_handler)
a = weft.eye(400)
for k in range(3000):
    a = weft.tanh(a @ a) * 0.5
print("go", flush=True)
start = time.time()
try:
    weft.eval(a)
except KeyboardInterrupt:
    print("stopped", time.time() - start < 20, weft.state(a), (weft.array(1) + 1).item(), flush=True)
    sys.exit(0)
print("finished", flush=True)
"""


def test_ctrl_c_stops_a_long_evaluation():
    child = subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "go\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert out == "stopped True lazy 2\n"


LOOPS = """
import os, signal, threading, time, numpy, weft
signal.signal(signal.SIGINT, signal.default_int_handler)
many, one = 10**9, weft.array(1.0)
loops = {
    "scan": lambda: weft.eval(weft.scan(lambda c, _: (weft.tanh(c), None), weft.ones(8), length=many)[0]),
    "replay": lambda: weft.eval(weft.scan(lambda c, _: (weft.tanh(c @ c), None), weft.ones((40, 40)), length=many)[0]),
    "while": lambda: weft.while_loop(lambda c: c > -1.0, lambda c: c * 0.5, one).item(),
    "gradient": lambda: weft.eval(weft.grad(lambda x: weft.scan(lambda c, _: (weft.sin(c), None), x, length=many, recompute=0)[0])(one)),
    "numpy": lambda: numpy.array(weft.scan(lambda c, _: (weft.tanh(c), None), weft.ones(8), length=many)[0]),
}
def interrupt():
    global at
    at = time.process_time()
    os.kill(os.getpid(), signal.SIGINT)
for name, run in loops.items():
    timer = threading.Timer(0.05, interrupt)
    timer.start()
    try:
        run()
        print(name, "finished")
    except KeyboardInterrupt:
        print(name, "stopped" if time.process_time() - at < 0.1 else time.process_time() - at)
    timer.join()
"""


def test_ctrl_c_stops_loops_within_a_tenth_of_a_second():
    out = subprocess.run([sys.executable, "-c", LOOPS], stdout=subprocess.PIPE, text=True, timeout=60).stdout
    assert out.splitlines() == [f"{name} stopped" for name in ("scan", "replay", "while", "gradient", "numpy")]


def test_a_handler_that_does_not_raise_lets_the_evaluation_go_on():
    hits = []
    a = weft.eye(300)
    for _ in range(100):
        a = weft.tanh(a @ a)
    before = signal.signal(signal.SIGINT, lambda *_: hits.append(1))
    try:
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        weft.eval(a)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert hits == [1] and weft.state(a) == "ready"


def test_other_threads_run_while_one_waits():
    a = weft.eye(300)
    for _ in range(60):
        a = weft.tanh(a @ a)
    ticks = []
    thread = threading.Thread(target=lambda: weft.eval(a))
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    assert len(ticks) > 1
