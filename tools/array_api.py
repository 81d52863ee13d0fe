#!/usr/bin/env python3
"""The tests of the Python array API standard (array-api-tests, unmodified) of the module weft.

    tools/array_api.py CHECKOUT [--jobs N] [--examples N] [--only text] [--write]

CHECKOUT is a folder of its repository with its submodule array-api; pytest, pytest-json-report, hypothesis and ndindex must be
installed, pytest-xdist for more than one job. test/array_api_expected.txt has the tests that are expected to fail, with a reason each: a failure that is not in
it, or a test in it that passes, makes the run fail. --write adds those that fail to the file, and takes those that pass out."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

EXPECTED = pathlib.Path(__file__).resolve().parent.parent / "test" / "array_api_expected.txt"
HEAD = ("# Tests of array-api-tests that are expected to fail on weft, with the reason. tools/array_api.py checks it: a failure that is not\n"
        "# here, and a test here that passes, are both wrong.\n")


def read_expected():
    lines = [line for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#")] if EXPECTED.exists() else []
    return dict(line.split(" | ", 1) for line in lines)


def run(args):
    """(passed tests, {failed test: why})"""
    command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=no", "-rA",
               "--disable-warnings", "--hypothesis-seed=1", "--max-examples", str(args.examples)]
    command += ["-n", str(args.jobs)] if args.jobs > 1 else []
    command += ["-k", args.only] if args.only else []
    done = subprocess.run(command, cwd=args.checkout, env={**os.environ, "ARRAY_API_TESTS_MODULE": "weft"}, capture_output=True, text=True)
    passed, failed = set(), {}
    for line in done.stdout.splitlines():
        found = re.match(r"(PASSED|FAILED|ERROR) array_api_tests/(.*?)(?: - (.*))?$", line)
        if found and found[1] == "PASSED":
            passed.add(found[2])
        elif found:
            failed[found[2]] = (found[3] or "").strip()
    if not passed:
        sys.exit(f"array_api: nothing has passed in {args.checkout}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    passed, failed = run(args)
    expected = read_expected()
    for test in sorted(failed.keys() - expected.keys()):
        print(f"failed, not expected: {test} | {failed[test]}")
    for test in sorted(passed & expected.keys()):
        print(f"passed, not expected: {test} | {expected[test]}")
    print(f"{len(passed)} passed, {len(failed)} failed")
    if args.write:
        expected = {test: why for test, why in expected.items() if test not in passed}
        expected.update((test, why) for test, why in failed.items() if test not in expected)
        EXPECTED.write_text(HEAD + "".join(f"{test} | {expected[test]}\n" for test in sorted(expected)))
    sys.exit(1 if failed.keys() - expected.keys() or passed & expected.keys() else 0)


if __name__ == "__main__":
    main()
