"""sample.py [--models a,b] [--draws N] [--modes WEFT,NUMBA] [--starts fork,spawn] [--limit S]: PyMC's NUTS beside the default mode.

Each run is a process of its own with an empty cache: pm.sample with two chains on two cores, begun by fork and by spawn. Prints the
wall time and the time of processors, compilation, tuning and the processes of the chains included, and the largest difference of
posterior means in units of its Monte Carlo error, of which about 3 are to be expected once among many. Needs PYTHONPATH with weft,
and pymc."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np


def schools(pm):
    y, s = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    z = pm.Normal("z", 0, 1, shape=8)
    pm.Normal("y", mu + tau * z, s, observed=y)


def logistic(pm, n=1000, d=5):
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(n, d)), np.linspace(-1, 1, d)
    y = rng.random(n) < 1 / (1 + np.exp(-x @ b))
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 1) + x @ pm.Normal("b", 0, 1, shape=d), observed=y)


def autoregression(pm, t=200):
    import pytensor.tensor as pt
    rng, x = np.random.default_rng(0), np.zeros(t)
    for i in range(1, t):
        x[i] = 0.7 * x[i - 1] + rng.normal()
    rho, sigma = pm.Normal("rho", 0, 1), pm.HalfNormal("sigma", 1)
    pm.AR("x", rho=pt.stack([rho]), sigma=sigma, init_dist=pm.Normal.dist(0, 1), observed=x)


MODELS = {"schools": schools, "logistic": logistic, "autoregression": autoregression}


def processor():
    """Seconds of this process and of those it has started."""
    return sum(t.ru_utime + t.ru_stime for t in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def measure(mode, name, start, draws):
    import pymc as pm
    options = {"compile_kwargs": {"mode": mode}}
    if mode == "WEFT":
        import weft.pytensor  # noqa: F401
    with pm.Model():
        MODELS[name](pm)
        begin, begin_processor = time.perf_counter(), processor()
        trace = pm.sample(draws=draws, tune=draws, chains=2, cores=2, random_seed=1, progressbar=False, mp_ctx=start,
                          target_accept=0.95, nuts_sampler="pymc", **options)
        wall, spent = time.perf_counter() - begin, processor() - begin_processor
    means = {}
    for key, values in trace.posterior.data_vars.items():
        flat = np.asarray(values).reshape(2, draws, -1)
        pieces = flat.reshape(2 * 10, draws // 10, -1).mean(1)  # means of batches, whose scatter is the error of their mean
        means[key] = [pieces.mean(0).tolist(), (pieces.std(0, ddof=1) / np.sqrt(len(pieces))).tolist()]
    return {"wall": wall, "processor": spent, "means": means}


def apart(mode, name, start, draws, limit):
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, PYTENSOR_FLAGS=f"base_compiledir={cache}", NUMBA_CACHE_DIR=cache, OMP_NUM_THREADS="1")
        command = [sys.executable, __file__, "--one", mode, name, start, str(draws)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return f"{limit} s were not enough"
    return json.loads(done.stdout.splitlines()[-1]) if not done.returncode else (done.stderr.strip().splitlines() or ["?"])[-1][:90]


def distance(a, b):
    """Of the means, in units of the error of their difference."""
    worst = 0.0
    for key, (mean, error) in a["means"].items():
        other, other_error = b["means"][key]
        worst = max(worst, float(np.max(np.abs(np.array(mean) - other) / np.hypot(error, other_error))))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--modes", default="NUMBA,WEFT")
    parser.add_argument("--starts", default="fork,spawn")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=500, help="seconds of one run")
    parser.add_argument("--one", nargs=4)
    options = parser.parse_args()
    if options.one:
        mode, name, start, draws = options.one
        return print(json.dumps(measure(mode, name, start, int(draws))))
    print(f"{'model':16} {'start':6} {'mode':6} {'wall s':>8} {'processor s':>12} {'errors apart':>13}")
    for name in options.models.split(","):
        reference = None
        for start in options.starts.split(","):
            for mode in options.modes.split(","):
                row = apart(mode, name, start, options.draws, options.limit)
                if isinstance(row, str):
                    print(f"{name:16} {start:6} {mode:6} {row}", flush=True)
                    continue
                reference = reference or row
                times = f"{row['wall']:8.1f} {row['processor']:12.1f}"
                print(f"{name:16} {start:6} {mode:6} {times} {distance(row, reference):13.1f}", flush=True)


if __name__ == "__main__":
    main()
