#!/usr/bin/env python3
"""MLX's own tests, unmodified, with weft in the place of mlx.core.

    tools/mlx_suite.py CHECKOUT [--jobs N] [--parts N] [--limit S] [--only text] [--python PYTHON] [--write] [--peer]

CHECKOUT is a folder of MLX's repository: CHECKOUT/python/tests are run, with CHECKOUT/python/mlx for mlx.nn and its like. Every file
is a process of its own, or with --parts several that share its tests; the longest files begin. WEFT_DEVICE=1 in the environment runs
them on a GPU. Times are those of processors. --only takes several texts, with commas between them. What passed, failed and was skipped is counted by file. test/mlx_expected.txt has the tests that are
expected to fail, with a reason each, those that begin with [gpu] on a GPU alone: a failure that is not in it, or a test in it that passes, makes the run fail. --write
adds those that fail to the file and takes those that pass out of it. --peer runs MLX itself, as it is installed: the count to
compare with."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE.parent / "test" / "mlx_expected.txt"
LONGEST = ("test_quantized", "test_fft", "test_blas", "test_fast_sdpa", "test_ops", "test_array", "test_conv_transpose", "test_conv")

RUN = r'''
import json, os, sys, time, traceback, unittest
checkout, name, out, is_peer, part, parts = sys.argv[1:7]
sys.path.insert(0, os.path.join(checkout, "python", "tests"))
if is_peer != "1":
    sys.path.insert(0, os.path.join(checkout, "python"))
    import weft
    weft.as_mlx()
import mlx.core as mx, numpy as np
log = open(out, "a")
def say(test, what, why="", seconds=0.0):
    log.write(json.dumps([test.id().split(".", 1)[1], what, why, seconds]) + "\n")
    log.flush()
class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.began, self.failed = time.process_time(), False
        mx.random.seed(3)  # some compare random numbers with a tolerance that not all of them meet
        np.random.seed(3)
        say(test, "began")
    def said(self, test, what, err):
        kind, value, trace = err
        text = str(value).strip().splitlines() or [""]
        say(test, what, f"{kind.__name__}: {text[0][:150]}", time.process_time() - self.began)
    def addSuccess(self, test):
        if not self.failed: say(test, "passed", "", time.process_time() - self.began)
    def addSkip(self, test, reason): say(test, "skipped", reason)
    def addError(self, test, err): self.said(test, "failed", err)
    def addFailure(self, test, err): self.said(test, "failed", err)
    def addSubTest(self, test, subtest, err):
        if err is not None and not self.failed:
            self.failed = True
            self.said(test, "failed", err)
def single(suite):
    for test in suite:
        yield from single(test) if isinstance(test, unittest.TestSuite) else (test,)
try:
    tests = list(single(unittest.defaultTestLoader.loadTestsFromName(name)))
    unittest.TestSuite(tests[int(part)::int(parts)]).run(Result())
finally:
    log.close()
os._exit(0)
'''


def run_part(name, part, args, environment):
    """{test: (what, why, seconds)} of one file, or of every so many-th test in it."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = ["nice", "-n", "5", args.python, "-c", RUN, args.checkout, name, out, str(int(args.peer)), str(part), str(args.parts)]
        try:
            done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=args.limit)
            last = (done.stderr.strip().splitlines() or [""])[-1]
            ended = f"the process ended with {done.returncode}: {last[:150]}"
        except subprocess.TimeoutExpired:
            ended = f"not done after {args.limit} s"
        results = {}
        if os.path.exists(out):
            for line in open(out):
                test, what, why, seconds = json.loads(line)
                results[test] = (what, why, seconds)
        for test, (what, why, seconds) in results.items():
            if what == "began":
                results[test] = ("failed", ended, seconds)
        if not results and (part == 0 or ended.startswith("not done") or done.returncode):
            results["all"] = ("failed", ended, 0.0)
        return results


def read_expected(is_everywhere=False):
    """{test: reason}, of this device or of all."""
    expected = {}
    for line in EXPECTED.read_text().splitlines() if EXPECTED.exists() else []:
        if line.strip() and not line.startswith("#"):
            test, reason = line.split(":", 1)
            if is_everywhere or "[gpu]" not in reason or os.environ.get("WEFT_DEVICE", "0") != "0":
                expected[test.strip()] = reason.strip()
    return expected


def write_expected(expected):
    head = ("# Tests of MLX's suite that are expected to fail on weft, with the reason. tools/mlx_suite.py checks it: a failure that is\n"
            "# not here, and a test here that passes, are both wrong.\n")
    EXPECTED.write_text(head + "".join(f"{test}: {expected[test]}\n" for test in sorted(expected)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--limit", type=int, default=900, help="seconds of a process")
    parser.add_argument("--only", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--peer", action="store_true")
    args = parser.parse_args()
    args.checkout, began = os.path.abspath(args.checkout), time.time()
    names = sorted(p.stem for p in pathlib.Path(args.checkout, "python", "tests").glob("test_*.py")
                   if any(text in p.stem for text in args.only.split(",")))
    if not names:
        sys.exit(f"mlx_suite: there are no tests in {args.checkout}/python/tests")
    environment = {**os.environ, "CI": "1", "LOW_MEMORY": "1"}
    expected, found = read_expected(), {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        in_order = sorted(names, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
        running = {name: [pool.submit(run_part, name, part, args, environment) for part in range(args.parts)] for name in in_order}
        for name in names:
            results = found[name] = {test: r for part in running[name] for test, r in part.result().items()}
            count = {what: sum(r[0] == what for r in results.values()) for what in ("passed", "failed", "skipped")}
            print(f"{name[5:]:18}" + "".join(f"{count[what]:5} {what}" for what in count)
                  + f"{sum(r[2] for r in results.values()):8.1f} s", flush=True)
            for test, (what, why, _) in sorted(results.items()):
                if what == "failed" and f"{name}.{test}" not in expected and not args.peer:
                    print(f"failed, not expected: {name}.{test}: {why}", flush=True)
    tests = {f"{name}.{test}": r for name, results in found.items() for test, r in results.items()}
    total = {what: sum(r[0] == what for r in tests.values()) for what in ("passed", "failed", "skipped")}
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{'all':18}" + "".join(f"{total[what]:5} {what}" for what in total)
          + f"    {time.time() - began:.0f} s by the clock, {spent.ru_utime + spent.ru_stime:.0f} s of processors")
    if args.peer:
        return
    surprises = {t: r for t, r in tests.items() if r[0] == "failed" and t not in expected}
    mended = [t for t in expected if t in tests and tests[t][0] == "passed"]
    gone = [t for t in expected if t.split(".")[0] in found and t not in tests]
    for test in sorted(mended):
        print(f"passed, not expected: {test}: {expected[test]}")
    for test in sorted(gone):
        print(f"expected to fail, but there is no such test: {test}")
    if args.write:
        write_expected({**{t: r for t, r in read_expected(True).items() if t not in mended and t not in gone},
                        **{t: r[1] for t, r in surprises.items()}})
    elif surprises or mended or gone:
        sys.exit(1)


if __name__ == "__main__":
    main()
