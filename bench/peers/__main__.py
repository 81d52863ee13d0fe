"""Measures, prints, writes."""
import argparse
import json
import platform
import statistics
import time

from . import close, fresh, measure, report, systems, works

PROGRAMS_ON = ("weft", "MLX", "JAX", "torch.compile")
STARTS = ("NumPy", "weft", "MLX", "JAX", "torch", "PyTensor")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", required=True)
    parser.add_argument("--docs", default="")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def probe():
    """(copy, sum) of 64 MB in NumPy, GB/s: the state of the machine."""
    a, b = works.normal(works.N), works.normal(works.N).copy()
    times = measure.turns({"copy": lambda: b.__setitem__(slice(None), a), "sum": lambda: a.sum()}, 0.3)
    gbs = [a.nbytes / 1e9 / statistics.median(times[n]) for n in ("copy", "sum")]
    return f"NumPy copies {2 * gbs[0]:.1f} GB/s and sums {gbs[1]:.1f} GB/s on one thread (64 MB arrays)"


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def measure_works(o, found):
    names = [s.name for s in found]
    print(report.head(names), flush=True)
    rows = []
    for work in works.works(o.quick):
        if o.only not in work.name:
            continue
        row = measure.measure(work, found, o.seconds)
        works.forget()
        if "weft" not in row.ms:
            print(f"{work.name}: weft cannot: {row.failed.get('weft', 'there is no such function')}", flush=True)
            continue
        rows.append(row)
        print(report.line(row, names), flush=True)
    return rows


def first_result(o, name, program):
    """The middle one of three processes: memory that the machine under this one has to find takes milliseconds."""
    asked = [fresh.ask(o.threads, name, "first", program) for _ in range(3)]
    done = sorted((r for r in asked if r), key=lambda r: r["first_ms"])
    return done[len(done) // 2] if len(done) == len(asked) else None


def measure_fresh(o, names):
    """(programs, lengths, starts), each by what and system; None where it failed."""
    programs = {p: {n: first_result(o, n, p) for n in PROGRAMS_ON if n in names} for p in works.PROGRAMS}
    lengths = {n: fresh.ask(o.threads, n, "lengths") for n in PROGRAMS_ON if n in names}
    starts = {n: fresh.ask(o.threads, n, "start") for n in STARTS if n in names}
    return programs, lengths, starts


def fresh_tables(programs, lengths, starts):
    out = ["## First results", "", "Milliseconds from the first call of a compiled function nobody has seen to its result, and of a later call; each",
           "system in new processes, after it has compiled something else; the middle one of three.", ""]
    names = list(lengths)
    out += ["| program | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for program, by in programs.items():
        out.append(f"| {program} | " + " | ".join(f"{report.figure(r['first_ms'])} / {report.figure(r['later_ms'])}" if r else "failed" for r in by.values()) + " |")
    out += ["", "## 500 lengths through one function", "", "| system | lengths done | seconds | compilations |", "|---|---|---|---|"]
    for n, r in lengths.items():
        out.append(f"| {n} | {r['lengths']} | {report.figure(r['seconds'])} | {'' if r['compiles'] is None else r['compiles']} |" if r else f"| {n} | failed | | |")
    out += ["", "## Start", "", "Import, one array, one compiled `x + 1`; the memory of the process after it, NumPy included.", "",
            "| system | seconds | resident MB |", "|---|---|---|"]
    for n, r in starts.items():
        out.append(f"| {n} | {r['seconds']:.2f} | {r['resident_mb']:.0f} |" if r else f"| {n} | failed | |")
    return "\n".join(out)


def document(o, found, rows, near, tables, before, after):
    names = [s.name for s in found if any(s.name in r.ms for r in rows)]
    versions = ", ".join(f"{s.name} {s.version}" for s in found)
    return f"""# weft and its peers

Written by `bench/compare --docs`. {processor()}, {o.threads} threads, {time.strftime("%Y-%m-%d")}; {versions}.

![Times relative to weft](bench.svg)

weft's median time, and those of the others as multiples of it: above 1 they are slower. All systems take turns in one
process, on the same arrays; a ratio is the median over the rounds, ± half the distance of its quartiles. Systems that
compile have done so before. An empty cell: the system has no such function, or would take minutes. Results are compared
with each other; *(differs)* would mark one that is off.

The machine: {before} before, {after} after.

{report.markdown(rows, names)}

{near}

{tables}
"""


def main():
    o = options()
    found = systems.available(o.threads)
    names = [s.name for s in found]
    print(f"{o.threads} threads; " + ", ".join(f"{s.name} {s.version}" for s in found), flush=True)
    before = probe()
    print("machine before:", before, flush=True)
    rows = measure_works(o, found)
    after = probe()
    print("machine after:", after, flush=True)
    near = close.table(rows, o.threads)
    print(near, flush=True)
    programs, lengths, starts = measure_fresh(o, names) if not o.only else ({}, {}, {})
    tables = fresh_tables(programs, lengths, starts)
    if not o.only:
        print(tables, flush=True)
    data = {"threads": o.threads, "versions": {s.name: s.version for s in found}, "first": programs, "lengths": lengths, "start": starts,
            "works": [{"name": r.name, "group": r.group, "ms": {n: round(r.median(n), 6) for n in r.ms},
                       "ratio": {n: [round(v, 3) for v in r.ratio(n)] for n in r.ms},
                       "first_ms": {n: round(v, 3) for n, v in r.first.items()}, "differs": r.differs, "failed": r.failed} for r in rows]}
    shown = [s.name for s in found if any(s.name in r.ms for r in rows)]
    for path in [o.out] + [o.docs] * bool(o.docs):
        with open(path + ".md", "w") as f:
            f.write(document(o, found, rows, near, tables, before, after).replace("(bench.svg)", f"({path.rsplit('/', 1)[-1]}.svg)"))
        with open(path + ".json", "w") as f:
            json.dump(data, f, indent=1)
        with open(path + ".svg", "w") as f:
            f.write(report.svg(rows, shown, f"weft and its peers, {o.threads} threads"))
    print(f"written: {o.out}.md, .json, .svg" + (f"; {o.docs}.md, .json, .svg" if o.docs else ""))
    return 1 if any("weft" in r.differs for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
