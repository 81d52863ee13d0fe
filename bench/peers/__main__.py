"""Measures, prints, writes."""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

from . import close, fresh, measure, report, systems, works

BEGAN = time.perf_counter()
STAMP = "%Y-%m-%d %H:%M"
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
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--within", type=float, default=float("inf"))
    parser.add_argument("--alone", default="")
    parser.add_argument("--apart", action="store_true")
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
    data["cpu"] = processor()
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
        print(f"{s.name} {s.version}", flush=True)
        for work in works.works(o.quick):
            if is_late(o) or not any(text in work.name for text in o.only.split("|")):
                continue
            row = measure.measure(work, [s], o.seconds)
            works.forget()
            if s.name in row.ms:
                print(f"{work.name:40s} {row.median(s.name):.6f} ms", flush=True)


APART = ("weft", "NumPy", "JAX", "torch")
PROCESSES = 2  # of each system, in turns: what one finds slow because the machine was, the other may not


def alone(o, name):
    """(version, milliseconds by work) of one system, by a process of its own, whose lines are shown as they come."""
    command = [sys.executable, "-m", "peers", f"--alone={name}", f"--threads={o.threads}", f"--seconds={o.seconds}", f"--only={o.only}", f"--out={o.out}"]
    version, ms = None, {}
    with subprocess.Popen(command + ["--quick"] * o.quick + [f"--within={o.within}"], stdout=subprocess.PIPE, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}) as p:
        for line in p.stdout:
            print(line, end="", flush=True)
            if line.endswith(" ms\n"):
                work, t, _ = line.rsplit(None, 2)
                ms[work.strip()] = float(t)
            elif line.startswith(name + " "):
                version = line.split()[1]
    return version, ms


def measure_apart(o):
    """Rows of systems that run one after the other: of each the median of its processes; kept as rows of turns are."""
    versions, times = {}, {}
    for name in APART * PROCESSES:
        version, ms = alone(o, name)
        if version:
            versions[name] = version
        for work, t in ms.items():
            times.setdefault(work, {}).setdefault(name, []).append(t)
    rows, at = [], time.strftime(STAMP)
    for work in works.works(o.quick):
        ms = {n: statistics.median(t) for n, t in times.get(work.name, {}).items()}
        if "weft" in ms:
            spread = {n: (max(t) - min(t)) / statistics.median(t) / 2 for n, t in times[work.name].items()}
            ratio = {n: [ms[n] / ms["weft"] * (1 + d * (spread[n] + spread["weft"]) / 2) for d in (0, -1, 1)] for n in ms}
            rows.append({"name": work.name, "group": work.group, "at": at, "ms": ms, "ratio": ratio, "differs": [], "failed": {}})
    return {"threads": o.threads, "cpu": processor(), "versions": versions, "works": rows}


def apart_table(data):
    """Rows of systems apart, of whatever machine they were measured on, which docs/bench.json has beside the others."""
    kept = data["apart"]
    at = sorted(row["at"] for row in kept["works"])
    with_what = ", ".join(f"{n} {v}" for n, v in kept["versions"].items())
    rows = [measure.Kept(row) for row in kept["works"]]
    return f"{kept['cpu']}, {kept['threads']} threads, {at[0]} to {at[-1]}: {with_what}.\n\n" + report.markdown(rows, list(APART))


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


def first_table(data):
    names = list(data["lengths"])
    out = [f"Measured {data.get('fresh_at', '')[:10]}.", "", "| program | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for program, by in data["first"].items():
        out.append(f"| {program} | " + " | ".join(f"{report.figure(r['first_ms'])} / {report.figure(r['later_ms'])}" if r else "failed" for r in by.values()) + " |")
    return "\n".join(out)


def lengths_table(data):
    out = ["| system | lengths done | seconds | compilations |", "|---|---|---|---|"]
    for n, r in data["lengths"].items():
        out.append(f"| {n} | {r['lengths']} | {report.figure(r['seconds'])} | {'' if r['compiles'] is None else r['compiles']} |" if r else f"| {n} | failed | | |")
    return "\n".join(out)


def start_table(data):
    out = ["| system | seconds | resident MB |", "|---|---|---|"]
    for n, r in data["start"].items():
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
    data.update({key: old[key] for key in ("processor", "apart") if key in old})
    return data


def machine(o, data):
    """Where rows were measured, and with what; of several days by the days that the rows name."""
    with_what = {}
    for day in sorted({row["at"][:10] for row in data["works"]}):
        with_what.setdefault(", ".join(f"{n} {v}" for n, v in data["versions"][day].items()), []).append(day)
    out = [f"- {data['cpu']}, {o.threads} threads, which read {data['read']:.0f} GB/s together."]
    out += [f"- {' and '.join(days)}: {versions}." for versions, days in with_what.items()]
    return "\n".join(out + [f"- Before: {data['before']}.", f"- After: {data['after']}."])


def systems_in(data):
    """Those that have times, in their order."""
    return [kind.name for kind in systems.ALL if any(kind.name in row["ms"] for row in data["works"])]


def processor_table(data):
    """Rows by the time of the processor, which docs/bench.json has beside the others."""
    kept = data["processor"]
    at = sorted(row["at"] for row in kept["works"])
    return f"Measured from {at[0]} to {at[-1]}.\n\n" + report.markdown([measure.Kept(row) for row in kept["works"]], systems_in(kept))


def keep(o, what, data):
    """The page with these rows of `what`, processor or apart, in place of its own, and all else as it is."""
    page = load(o.docs)
    old = {row["name"]: row for row in page.get(what, {}).get("works", [])}
    new = {**old, **{row["name"]: row for row in data["works"]}}
    page[what] = {**data, "works": [new[work.name] for work in works.works(False) if work.name in new]}
    o.threads = page["threads"]
    write_docs(o, page)


def parts(o, data):
    """What is written by measuring, by the name that marks it in the page."""
    rows = [measure.Kept(row) for row in data["works"]]
    made = {"machine": machine(o, data), "works": report.markdown(rows, systems_in(data)), "near": close.table(rows), "aims": close.aims(rows)}
    if data.get("processor"):
        made["processor"] = processor_table(data)
    if data.get("apart"):
        made["apart"] = apart_table(data)
    if data["lengths"]:
        made.update({"first": first_table(data), "lengths": lengths_table(data), "start": start_table(data)})
    return made


def filled(page, made):
    """The page with these parts between their marks; all else in it is written by hand, and stays."""
    for name, text in made.items():
        begin, end = f"<!-- {name}: written by bench/compare --docs -->\n", f"<!-- end of {name} -->\n"
        if begin not in page or end not in page:
            raise SystemExit(f"compare: the page has no lines {begin.strip()} and {end.strip()} to write {name} between")
        page = page[:page.index(begin) + len(begin)] + text + "\n" + page[page.index(end):]
    return page


def write(o, data, path, page=None):
    """path.json, path.svg and path.md: all parts, or a page with them in it."""
    rows, made = [measure.Kept(row) for row in data["works"]], parts(o, data)
    text = filled(page, made) if page else "".join(f"## {name}\n\n{part}\n\n" for name, part in made.items())
    with open(path + ".json", "w") as f:
        json.dump(data, f, indent=1)
    with open(path + ".svg", "w") as f:
        f.write(report.svg(rows, systems_in(data), f"weft and its peers, {o.threads} threads"))
    with open(path + ".md", "w") as f:
        f.write(text)
    return made


def write_docs(o, data):
    with open(o.docs + ".md") as f:
        page = f.read()
    write(o, data, o.docs, page)


def main():
    o = options()
    if o.processor:
        measure.clock = time.process_time
    if o.alone:
        return measure_alone(o)
    if o.apart:
        data = measure_apart(o)
        if not data["works"]:
            raise SystemExit(f"compare: no work was measured: has one of them {o.only!r} in its name?")
        save(o, data)
        print(apart_table({"apart": data}), flush=True)
        return keep(o, "apart", data) if o.docs else 0
    found = systems.available(o.threads)
    names = [s.name for s in found]
    print(f"{o.threads} threads; " + ", ".join(f"{s.name} {s.version}" for s in found), flush=True)
    data = begin(o, found)
    if o.processor:
        is_done = measure_works(o, found, data)
        if o.docs:
            keep(o, "processor", {"works": data["works"]})
        return 0 if is_done else print("not all has been measured: --resume goes on")
    is_done = measure_works(o, found, data) and (bool(o.only) or measure_fresh(o, names, data))
    data["after"], data["read"] = probe(), close.bandwidth(o.threads)
    save(o, data)
    if not is_done:
        print(f"not all has been measured: {o.out}.json has what was, --resume goes on")
        return 0
    made = write(o, data, o.out)
    print(*(made[name] for name in ("near", "aims", "first", "lengths", "start") if name in made), sep="\n\n", flush=True)
    if o.docs:
        write_docs(o, merged(o, data))
    print(f"written: {o.out}.md, .json, .svg" + (f"; {o.docs}.md, .json, .svg" if o.docs else ""))
    return 1 if any("weft" in r["differs"] for r in data["works"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
