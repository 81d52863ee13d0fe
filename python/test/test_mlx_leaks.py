"""Nothing is left behind by calls: nodes, blocks of Python and pages of the process stay what they were. WEFT_CALLS says how many calls
there are of all kinds together; make mlx-leaks runs a million."""
import gc
import os
import pickle
import sys
import time

import pytest

np = pytest.importorskip("numpy")
import weft  # noqa: E402
import weft.mlx.core as mx  # noqa: E402

CALLS = int(os.environ.get("WEFT_CALLS", 100_000))
X = mx.array(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4))
COMPILED = mx.compile(lambda x: mx.sin(x) * 2 + x.sum())
GRAD, MAP = mx.grad(lambda x: (x * x).sum()), mx.vmap(lambda x: x * 2)


def fails(call):
    try:
        call()
    except Exception:
        return
    raise AssertionError("it did not fail")


def write(x=[mx.zeros((3, 4))]):
    x[0][1:2] = 3.0
    x[0] += 1
    mx.eval(x[0])


KINDS = {
    "operators": lambda: -X + 2 * X @ X.T[:, :1],
    "lazy and dropped": lambda: mx.softmax(X, -1).reshape(4, 3),
    "evaluated": lambda: mx.eval(X * 3),
    "in the background": lambda: (lambda y: (mx.async_eval(y), mx.synchronize()))(X + 1),
    "item": lambda: (X[1, 2] + 1).item(),
    "list": lambda: mx.array([[1.0, 2.0], [3.0, 4.0]]).tolist(),
    "index": lambda: X[mx.array([0, 2])][..., None, ::2],
    "written": write,
    "compiled": lambda: COMPILED(X),
    "gradient": lambda: GRAD(X),
    "mapped": lambda: MAP(X),
    "numpy": lambda: np.asarray(X + 1).sum(),
    "from numpy": lambda: mx.array(np.ones(3, np.float32)) + 1,
    "dlpack": lambda: mx.from_dlpack(np.ones(3, np.float32)),
    "pickled": lambda: pickle.loads(pickle.dumps(X)),
    "random": lambda: mx.random.normal((3,)),
    "text": lambda: repr(X[:1, :1]),
    "wrong shapes": lambda: fails(lambda: X + mx.ones((7,))),
    "wrong types": lambda: fails(lambda: X + object()),
    "out of range": lambda: fails(lambda: X[9]),
    "raised in a trace": lambda: fails(lambda: mx.grad(lambda x: 1 / 0)(X)),
}


for _call in KINDS.values():  # what is kept from the first call on: keys, traces, the array that is written into
    for _ in range(3):
        _call()


def pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


def settle():
    """Unpickling looks names up that are new strings each time, and CPython's cache of attributes of types keeps up to 4096 of them."""
    mx.synchronize()
    gc.collect()
    if sys.version_info < (3, 13):
        sys._clear_type_cache()
    else:
        sys._clear_internal_caches()


@pytest.mark.parametrize("kind", KINDS)
def test_calls_leave_nothing_behind(kind):
    call, n = KINDS[kind], max(CALLS // len(KINDS) // 4, 50)
    held = []
    for _ in range(4):
        for _ in range(n):
            call()
        settle()
        held.append((weft.live_nodes(), sys.getallocatedblocks(), pages() if os.path.exists("/proc/self/statm") else 0))
    (nodes, blocks, size), (nodes_after, blocks_after, size_after) = held[1], held[3]
    assert nodes_after <= nodes + 8
    assert blocks_after <= blocks + 50
    assert size_after <= size + 256 + n // 50  # pages of 4096 bytes


def test_work_in_the_background_whose_results_nobody_holds_comes_to_its_end():
    before, last = weft.live_nodes(), time.monotonic() + 100
    for _ in range(300):
        mx.async_eval(X + 1)
    while weft.live_nodes() > before + 8 and time.monotonic() < last:  # nobody waits for what is dropped
        time.sleep(0.01)
    assert weft.live_nodes() <= before + 8
