"""Many updates of few places, NaN among them, in every element type."""
import signal
import time

import scene

np, weft = scene.start("scatter-prod with a NaN compares floats in its exchange loop: the GPU never comes back")
SLOTS, PLAIN, NAN_UPDATE, NAN_MEMORY = 7, 1, 3, 5  # the even slots are neighbours, which must stay
COMBINERS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
FLOATS = ["float32", "float64", "float16", "bfloat16"]
times = []


def updates(how, n):
    """0 or 1 but for a few 1s or 2s, so that any order gives the same result."""
    special = np.arange(n) % (n // 3 + 1) == 0
    return np.where(special, 2, 1) if how == "multiply" else special.astype(int)


def scatter(name, how, n):
    is_float, dtype = name in FLOATS, getattr(weft, name)
    memory, values = np.full(SLOTS, 3.0), np.repeat(updates(how, n).astype(float)[:, None], 3, axis=1)
    memory[[PLAIN, NAN_UPDATE, NAN_MEMORY]] = 1
    if name == "bool_":
        memory, values = memory != 0, values != 0
    right = memory.copy()
    for s in (PLAIN, NAN_UPDATE, NAN_MEMORY):
        right[s] = COMBINERS[how].reduce(np.append(values[:, 0], memory[s]))
    if is_float:
        right[[NAN_UPDATE, NAN_MEMORY]] = memory[NAN_MEMORY] = values[n // 2, 1] = np.nan
    x, v = weft.array(memory).astype(dtype), weft.array(values.reshape(-1)).astype(dtype)
    at = weft.array(np.tile(np.array([PLAIN, NAN_UPDATE, NAN_MEMORY], np.int32), n))
    weft.eval(x, v, at)
    signal.alarm(10)
    begin = time.monotonic()
    y = getattr(x.at[at], how)(v)
    weft.eval(y)
    times.append(1e3 * (time.monotonic() - begin))
    signal.alarm(0)
    got, right = np.asarray(y.astype(weft.float64)), right.astype(float)
    scene.expect(np.array_equal(got, right, equal_nan=True), f"{how} of {name}, {n} updates: {got}, not {right}")


for name in ["float32"] if scene.backend == "gpu" else FLOATS + ["int32", "int64", "uint8", "bool_"]:
    for how in COMBINERS:
        for n in (1, 2, 1000, 1000000):
            scatter(name, how, n)
scene.end(f"{len(times)} scatters with up to a million updates a slot, NaN where NaN belongs, neighbours untouched;\n"
          f"              slowest {max(times):.1f} ms, {sum(t < 100 for t in times)} under 100 ms")
