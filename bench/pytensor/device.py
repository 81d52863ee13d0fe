"""device.py [--calls N] [--small] [--pymc]: models in mode WEFT on device 1, all their shared variables resident.

Data and parameters are shared variables; a call returns the log density and moves the parameters up its gradient. Prints what a later
call copies to the device and back, as CUPTI sees it, where there is torch to ask it; the time of a call beside the CPU's, and how far the
parameters are from those that the CPU arrives at. With --pymc three models as PyMC's users write them, their data in pm.Data: what a call of
their log density and gradient copies, beside the bytes of its argument and of its results, and how far it and draws of NUTS are from the
CPU's (by groups, floats are added through indices: with WEFT_EXACT=1 in one order). Needs PYTHONPATH with weft, and pytensor."""
import argparse
import json
import tempfile
import time
import warnings

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
    with tempfile.TemporaryDirectory() as folder:
        seen.export_chrome_trace(f"{folder}/trace.json")  # events as Python sees them have no sizes
        with open(f"{folder}/trace.json") as file:
            copies = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "gpu_memcpy"]
    there, back = (sum(event["args"]["bytes"] for event in copies if event["name"].startswith(f"Memcpy {way}")) for way in ("HtoD", "DtoH"))
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


def regression(pm, n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 5))
    y = rng.random(n) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 5)))
    eta = pm.Normal("a", 0, 1) + pm.Data("x", x) @ pm.Normal("b", 0, 1, shape=5)
    pm.Bernoulli("y", logit_p=eta, observed=pm.Data("seen", y))


def groups(pm, n):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 8, n)
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = mu + tau * pm.Normal("z", 0, 1, shape=8)
    pm.Normal("y", theta[pm.Data("group", group)], pm.HalfNormal("s", 1), observed=pm.Data("seen", rng.normal(size=n) + group))


def series(pm, n):
    seen = np.cumsum(np.random.default_rng(0).normal(size=n)) * 0.1
    pm.AR("x", rho=pm.Normal("rho", 0, 1, shape=2), sigma=pm.HalfNormal("sigma", 1), init_dist=pm.Normal.dist(0, 1, shape=2),
          observed=pm.Data("seen", seen))


def sampled(pm, write, n, device, draws):
    """Of a model of PyMC: its density and gradient at a point, the bytes of argument and results, what a call copies, some draws, and
    what the cells of its data hold."""
    weft.set_device(device)
    with pm.Model() as model:
        write(pm, n)
        data = model.data_vars
        f = model.logp_dlogp_function(ravel_inputs=True, mode="WEFT")
        f.set_extra_values({})
        f._pytensor_function.trust_input = True
        point = pm.blocking.DictToArrayBijection.map(model.initial_point()).data + 0.1
        for _ in range(3):
            result = [np.asarray(v) for v in f([point])]
        held = [type(v.container.storage[0]).__name__ for v in data]
        moved = copied_by(lambda: f([point])[0]) if device else None
        warnings.simplefilter("ignore", FutureWarning)  # of what is returned: the other wants arviz
        trace = pm.sample(draws=draws, tune=draws, chains=1, cores=1, random_seed=1, progressbar=False, return_inferencedata=False,
                          compute_convergence_checks=False, nuts_sampler="pymc", compile_kwargs={"mode": "WEFT"})
        drawn = [trace.get_values(v.name) for v in model.free_RVs]
    return result + drawn, point.nbytes, sum(v.nbytes for v in result), moved, held


def densities(small):
    import logging

    import pymc as pm
    logging.getLogger("pymc").setLevel(logging.ERROR)
    pytensor.config.mode = weft.pytensor.WEFT  # for what PyMC compiles besides: the default wants Numba
    print(f"{'model of PyMC':15} {'argument / results, bytes':>26} {'to / back a call, bytes':>26} {'density, gradient apart':>24} {'draws':>9}  "
          "cells of its data")
    for name, write, n in (("regression", regression, 10000), ("groups", groups, 10000), ("series", series, 1000)):
        n, draws = (50, 3) if small else (n, 30)
        want, got = (sampled(pm, write, n, device, draws) for device in (0, 1))
        apart = [max(np.max(np.abs(a - b) / (1e-12 + np.abs(b))) for a, b in list(zip(got[0], want[0]))[part]) for part in (slice(2), slice(2, None))]
        moved = "not counted" if got[3] is None else f"{got[3][0]:.0f} / {got[3][1]:.0f}"
        print(f"{name:15} {f'{got[1]} / {got[2]}':>26} {moved:>26} {apart[0]:24.1e} {apart[1]:9.1e}  {', '.join(got[4])}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--pymc", action="store_true")
    options = parser.parse_args()
    small = options.small
    if options.pymc:
        return densities(small)
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
