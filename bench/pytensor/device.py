"""device.py [--calls N] [--small]: models in mode WEFT on device 1, all their shared variables resident.

Data and parameters are shared variables; a call returns the log density and moves the parameters up its gradient. Prints what a later
call copies to the device and back, as CUPTI sees it, where there is torch to ask it; the time of a call beside the CPU's, and how far the
parameters are from those that the CPU arrives at. Needs PYTHONPATH with weft, and pytensor."""
import argparse
import time

import models
import numpy as np
import pytensor
import weft
import weft.pytensor  # noqa: F401


def ascent(name, rate, **sizes):
    """A function that takes a step, and its parameters."""
    inputs, (density, *gradients), point = models.MODELS[name](**sizes)
    parameters = [pytensor.shared(np.asarray(value), name=v.name) for v, value in zip(inputs, point)]
    updates = {p: p + rate * g for p, g in zip(parameters, gradients)}
    f = pytensor.function([], density, updates=updates, givens=dict(zip(inputs, parameters)), mode="WEFT")
    return f, parameters


def copied_by(f, calls=10):
    """Bytes that a call copies to the GPU and back; None: nobody counts them."""
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile
        torch.zeros(1, device="cuda")
    except (ImportError, AssertionError, RuntimeError):
        return None
    float(f()), float(f())  # cells that somebody has looked at go there again
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            float(f())
        torch.cuda.synchronize()
    there, back = 0, 0
    for event in seen.profiler.kineto_results.events():
        there += event.nbytes() if event.name().startswith("Memcpy HtoD") else 0
        back += event.nbytes() if event.name().startswith("Memcpy DtoH") else 0
    return there / calls, back / calls


def measure(name, device, rate, calls, **sizes):
    weft.set_device(device)
    f, parameters = ascent(name, rate, **sizes)
    first = time.perf_counter()
    values = [float(f()) for _ in range(3)]
    first = time.perf_counter() - first
    begin = time.perf_counter()
    values += [float(f()) for _ in range(calls)]
    seconds = (time.perf_counter() - begin) / calls
    held, arrived = [type(p.container.storage[0]).__name__ for p in parameters], [p.get_value() for p in parameters]
    return values, arrived, first, seconds, copied_by(f) if device else None, held


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    small = options.small
    rows = (("logistic", 1e-5, {"n": 200 if small else 10000}), ("mixture", 1e-5, {"n": 200 if small else 100000}),
            ("lotka_volterra", 1e-6, {"t": 20 if small else 500}), ("autoregression", 1e-7, {"t": 50 if small else 1000}),
            ("garch", 1e-7, {"t": 50 if small else 2000}))
    print(f"{'model':15} {'cpu us':>9} {'device us':>10} {'3 first ms':>10} {'to / back a call, bytes':>26} {'apart':>9}  cells")
    for name, rate, sizes in rows:
        want = measure(name, 0, rate, options.calls, **sizes)
        got = measure(name, 1, rate, options.calls, **sizes)
        apart = max(np.max(np.abs(a - b) / (1e-12 + np.abs(b))) for a, b in zip(got[1], want[1]))
        moved = "not counted" if got[4] is None else f"{got[4][0]:.0f} / {got[4][1]:.0f}"
        print(f"{name:15} {1e6 * want[3]:9.1f} {1e6 * got[3]:10.1f} {1e3 * got[2]:10.1f} {moved:>26} {apart:9.1e}  {', '.join(got[5])}",
              flush=True)


if __name__ == "__main__":
    main()
