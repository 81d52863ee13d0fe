"""Measures, prints, writes."""
import argparse
import json
import platform
import statistics
import time

from . import close, fresh, measure, report, systems, works

BEGAN = time.perf_counter()
STAMP = "%Y-%m-%d %H:%M"
PROGRAMS_ON = ("weft", "MLX", "JAX", "torch.compile")
# What was measured elsewhere, by the same works with --threads 16.
MANY_CORES = """## On 16 cores

A Sapphire Rapids with AMX, 2026-11-17. At 13:40, on the quiet machine, weft's time and how much longer NumPy, JAX and torch take: decoder step 2.02 ms, 2.2, 3.8, 8.3;
encoder of 8x14 tokens 10.9 ms, 3.1, 2.7, 2.1, with weights held 6.2 ms, 4.8, 4.7, 3.4; normal 2.57 ms, 25, -, 10.5; permutation 2.92 ms, 8.2, -, 5.9; a vector
by 4096² of 4 bits 181 µs, 58 GB/s of the 76 that can be read, 0.76. At 15:35, while other programs ran (37 GB/s could be read), before and after
a change in the same run: bf16 1024³ by AMX with `WEFT_HALVES` 1 took 1.40 ms, 1.0 of JAX and 1.3 of torch, then 1.11 ms, 1.3 and 1.8 (from C 1.25 and
0.87 ms, of which to pack the right operand takes 0.16); int8 1024³ 0.54 ms, 1.25 of JAX and 2.3 of torch; 64³ 10 µs on two threads, 0.80 of NumPy, and
9.1 µs on one, as it is now, 0.97 of NumPy on one. Scatter-add to 1024 slots 0.81 ms, 9.4 times as fast as JAX, over 16M slots 34.7 ms, 1.95 as NumPy.
At 18:44, each system in a process of its own (`bench/compare --alone SYSTEM`; these by a script with the same arrays), weft's time, torch's and JAX's: conv2d of 8
images, channels first, 64 to 64 2.25 ms, 1.59, 1.57; 128 to 256 1.20, 1.01, 1.17; 512 to 512 of 7² 3.46, 1.53, 4.2, of which 0.5 turn channels; of one image 0.49,
0.34, 0.30; 0.48, 0.23, 0.50; 1.14, 0.35, 1.14. int8 1024³ 0.29 ms, 0.25, 0.42; bf16 2.0 ms, with
`WEFT_HALVES` 1 0.65, 0.45, 0.81; 64³ 4.4 µs, 8.6, 33; scatter-add over 16M slots 18.7 ms, 48.7, 54.9.
On 2026-11-18 at 00:41, each system in a process of its own (`bench/compare --alone`), weft's time and how much longer JAX and torch take: int8 1024³ 0.34 ms, 1.29, 1.34;
bf16 with `WEFT_HALVES` 1 0.62 ms, 1.30, 1.12, without it 2.02 ms, 0.40, 0.34; 64³ 5.0 µs, 7.2, 9.8 (NumPy 1.4); scatter-add to 1024 slots 0.35 ms, 18, 19, over 16M
slots 27.4 ms, 2.45, 2.48 (NumPy 1.46); encoder of 8x14 tokens 7.7 ms, 1.21, 2.57, with weights held 4.8 ms, 1.88, 4.29, of 64x84 tokens 89 ms, 4.4, 4.0; decoder step
1.20 ms, 4.2, 5.1; normal 1.49 ms, 12.9, 11.3; uniform 0.92 ms, torch 19.
At 04:15, in the same way, weft's time and how much longer NumPy and torch take: permutation 2.20 ms, 6.2, 7.4; sort 11.3 ms, 1.9, 44; argsort 12.8 ms, 14, 36; sort of i64
11.1 ms, 5.0, 8.8; median 1.51 ms, 10, 70; 100 largest 0.28 ms, 7.4, 12.6; selection 4.07 ms, 37, 5.6; uniform 0.97 ms, 15, 28. A
vector by 4096² of 4 bits 152 µs, 69 GB/s. At 04:34, weft's time and how much longer torch and JAX take: conv2d of eight images 64 to 64 2.12 ms, 1.00, 1.58; 128 to 256
1.35 ms, 0.97, 1.56; 512 to 512 of 7² 3.24 ms, 0.62, 1.77; depthwise 0.46 ms, 2.09, 56; of one image 0.38 ms, 1.42, 1.85; 0.36 ms, 1.23, 2.47; 0.96 ms, 0.63, 2.42 (1.93 ms
while its 49 rows were five cells for sixteen threads); depthwise 0.12 ms, 2.97, 36; histogram 1.57 ms, 1.74, 40; Cholesky 0.23 ms, 85, 186 (NumPy 140). 512 to 512 of 7² is
behind torch; what it waits for there is not measured yet."""
STARTS = ("NumPy", "weft", "MLX", "JAX", "torch", "PyTensor")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", required=True)
    parser.add_argument("--docs", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--within", type=float, default=float("inf"))
    parser.add_argument("--alone", default="")
    parser.add_argument("--processor", action="store_true")
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


def save(o, data):
    with open(o.out + ".json", "w") as f:
        json.dump(data, f, indent=1)


def load(path):
    try:
        with open(path + ".json") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def begin(o, found):
    """What is known so far: nothing, or with --resume what an earlier run has left, in which rows keep the time at which they were measured."""
    data = load(o.out) if o.resume else {}
    if data.get("threads") != o.threads:
        data = {"threads": o.threads, "versions": {}, "works": [], "first": {}, "lengths": {}, "start": {}}
    data["versions"][time.strftime(STAMP)[:10]] = {s.name: s.version for s in found}
    data.setdefault("before", probe())
    return data


def is_late(o):
    return time.perf_counter() - BEGAN > o.within


def measure_works(o, found, data):
    """Rows that are not there yet, or those that --only names, each saved at once."""
    names = [s.name for s in found]
    known = {row["name"] for row in data["works"]}
    print(report.head(names), flush=True)
    for work in works.works(o.quick):
        if not any(text in work.name for text in o.only.split("|")) or (not o.only and work.name in known):
            continue
        if is_late(o):
            return False
        row = measure.measure(work, found, o.seconds)
        works.forget()
        if "weft" not in row.ms:
            print(f"{work.name}: weft cannot: {row.failed.get('weft', 'there is no such function')}", flush=True)
            continue
        data["works"] = [r for r in data["works"] if r["name"] != work.name] + [row.as_json(time.strftime(STAMP))]
        save(o, data)
        print(report.line(row, names), flush=True)
    return True


def measure_alone(o):
    """The times of one system, whose threads nobody disturbs; they are printed."""
    for s in systems.available(o.threads, [o.alone]):
        for work in works.works(o.quick):
            if is_late(o) or not any(text in work.name for text in o.only.split("|")):
                continue
            row = measure.measure(work, [s], o.seconds)
            works.forget()
            if s.name in row.ms:
                print(f"{work.name:40s} {s.name} {report.duration(row.median(s.name))}", flush=True)


def first_result(o, name, program):
    """The middle one of three processes: memory that the machine under this one has to find takes milliseconds."""
    asked = [fresh.ask(o.threads, name, "first", program) for _ in range(3)]
    done = sorted((r for r in asked if r), key=lambda r: r["first_ms"])
    return done[len(done) // 2] if len(done) == len(asked) else None


def measure_fresh(o, names, data):
    """(programs, lengths, starts), each by what and system, None where it failed; those that are not there yet, each saved at once."""
    wanted = [(data["first"].setdefault(p, {}), n, lambda n=n, p=p: first_result(o, n, p)) for p in works.PROGRAMS for n in PROGRAMS_ON if n in names]
    wanted += [(data["lengths"], n, lambda n=n: fresh.ask(o.threads, n, "lengths")) for n in PROGRAMS_ON if n in names]
    wanted += [(data["start"], n, lambda n=n: fresh.ask(o.threads, n, "start")) for n in STARTS if n in names]
    for table, name, ask in wanted:
        if name in table:
            continue
        if is_late(o):
            return False
        table[name] = ask()
        data["fresh_at"] = time.strftime(STAMP)
        save(o, data)
    return True


def fresh_tables(data):
    programs, lengths, starts = data["first"], data["lengths"], data["start"]
    if not lengths:
        return ""
    out = ["## First results", "", f"Measured {data.get('fresh_at', '')[:10]}. Milliseconds from the first call of a compiled function nobody has seen to its result, and of a later call; each",
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


def merged(o, data):
    """With --docs, rows that have not been measured this time are those of the page as it is, with their own dates."""
    old = load(o.docs) if o.docs else {}
    there = {row["name"] for row in data["works"]}
    rows = data["works"] + [row for row in old.get("works", []) if row["name"] not in there]
    order = {work.name: i for i, work in enumerate(works.works(o.quick))}
    data["works"] = sorted((row for row in rows if row["name"] in order), key=lambda row: order[row["name"]])
    data["versions"] = {**old.get("versions", {}), **data["versions"]}
    if not data["lengths"]:
        data.update({key: old[key] for key in ("first", "lengths", "start", "fresh_at") if key in old})
    data.update({key: old[key] for key in ("processor",) if key in old})
    return data


def dates(data):
    """When rows were measured, and with what: the day of most of them, and the others by name."""
    by_day = {}
    for row in data["works"]:
        by_day.setdefault(row["at"][:10], []).append(row)
    out = []
    for day in sorted(by_day, key=lambda d: -len(by_day[d])):
        times = sorted(row["at"][11:] for row in by_day[day])
        versions = ", ".join(f"{n} {v}" for n, v in data["versions"][day].items())
        which = ": " + ", ".join(row["name"] for row in by_day[day]) if out else ""
        out.append(f"Measured {day}" + (f" from {times[0]} to {times[-1]}" if times[0] else "") + f" with {versions}{which}.")
    return "\n\n".join(out)


def systems_in(data):
    """Those that have times, in their order."""
    return [kind.name for kind in systems.ALL if any(kind.name in row["ms"] for row in data["works"])]


def processor_table(data):
    """Rows by the time of the processor, which docs/bench.json has beside the others."""
    kept = data.get("processor", {})
    if not kept:
        return ""
    rows = [measure.Kept(row) for row in kept["works"]]
    at = sorted(row["at"] for row in kept["works"])
    return f"""## One thread, time of the processor

By `bench/compare --processor`, from {at[0]} to {at[-1]}, all systems in turns in one process while others used the machine: what a work costs,
not how long one waits for it with more threads.

{report.markdown(rows, systems_in(kept))}

"""


def keep_processor(o, data):
    """The page with these rows, all else as it is."""
    page = load(o.docs)
    old = {row["name"]: row for row in page.get("processor", {}).get("works", [])}
    new = {**old, **{row["name"]: row for row in data["works"]}}
    page["processor"] = {"works": [new[work.name] for work in works.works(False) if work.name in new]}
    o.threads = page["threads"]
    write(o, page, o.docs)


def document(o, data, near):
    rows = [measure.Kept(row) for row in data["works"]]
    return f"""# weft and its peers

Written by `bench/compare --docs`. {processor()}, {o.threads} threads.

{dates(data)}

![Times relative to weft](bench.svg)

weft's median time, and those of the others as multiples of it: above 1 they are slower. All systems take turns in one
process, on the same arrays; a ratio is the median over the rounds, ± half the distance of its quartiles. Systems that
compile have done so before. An empty cell: the system has no such function, or would take minutes. Results are compared
with each other; *(differs)* would mark one that is off.

The machine: {data["before"]} before, {data["after"]} after.

{report.markdown(rows, systems_in(data))}

{near}

{processor_table(data)}{MANY_CORES}

{fresh_tables(data)}
"""


def write(o, data, path):
    rows = [measure.Kept(row) for row in data["works"]]
    near = close.table(rows, data["read"], o.threads)
    with open(path + ".md", "w") as f:
        f.write(document(o, data, near).replace("(bench.svg)", f"({path.rsplit('/', 1)[-1]}.svg)"))
    with open(path + ".json", "w") as f:
        json.dump(data, f, indent=1)
    with open(path + ".svg", "w") as f:
        f.write(report.svg(rows, systems_in(data), f"weft and its peers, {o.threads} threads"))
    return near


def main():
    o = options()
    if o.processor:
        measure.clock = time.process_time
    if o.alone:
        return measure_alone(o)
    found = systems.available(o.threads)
    names = [s.name for s in found]
    print(f"{o.threads} threads; " + ", ".join(f"{s.name} {s.version}" for s in found), flush=True)
    data = begin(o, found)
    if o.processor:
        is_done = measure_works(o, found, data)
        if o.docs:
            keep_processor(o, data)
        return 0 if is_done else print("not all has been measured: --resume goes on")
    is_done = measure_works(o, found, data) and (bool(o.only) or measure_fresh(o, names, data))
    data["after"], data["read"] = probe(), close.bandwidth(o.threads)
    save(o, data)
    if not is_done:
        print(f"not all has been measured: {o.out}.json has what was, --resume goes on")
        return 0
    print(write(o, data, o.out), flush=True)
    if not o.only:
        print(fresh_tables(data), flush=True)
    if o.docs:
        write(o, merged(o, data), o.docs)
    print(f"written: {o.out}.md, .json, .svg" + (f"; {o.docs}.md, .json, .svg" if o.docs else ""))
    return 1 if any("weft" in r["differs"] for r in data["works"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
