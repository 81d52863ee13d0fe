"""The table of docs/gpu.md, and its picture, from the lines that bench/device and those of its peers printed.

    python3 bench/device_table.py [--svg docs/gpu.svg] weft.json [torch.json jax.json ..]
"""
import json
import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from bench.peers import report
from bench.peers.measure import Row

NAMES = {"jax": "JAX"}

rows = {}
paths = sys.argv[1:]
picture = paths.pop(paths.index("--svg") + 1) if "--svg" in paths else None
for path in paths:
    for line in open(path) if path != "--svg" else []:
        if line.startswith("{"):
            x = json.loads(line)
            rows.setdefault(x["work"], {})[x["system"]] = x
peers = [name for name in ("torch", "torch.compile", "jax") if any(name in of for of in rows.values())]
print("| work | weft, ms | GB/s | " + "".join(f"{name}, ms | " for name in peers) + "best peer : weft | first, ms |")
print("|---" * (5 + len(peers)) + "|")
for work, of in rows.items():
    weft = of.get("weft")
    if weft:
        speed = f'{weft["GBps"]:.0f}' if weft.get("GBps") else ""
        times = [of[name]["ms"] for name in peers if name in of]
        cells = "".join((f'{of[name]["ms"]:.4g}' if name in of else "") + " | " for name in peers)
        ratio = f'{min(times) / weft["ms"]:.2f}' if times else ""
        print(f'| {work} | {weft["ms"]:.4g} | {speed} | {cells}{ratio} | {weft.get("first_ms", 0):.0f} |')


def group(work):
    """What a work waits for, as its name says."""
    if any(w in work for w in ("matmul", "codes", "attention", "block")):
        return "products"
    if any(w in work for w in ("scan", "while", "kalman", "chain", "calls")):
        return "loops and calls"
    if any(w in work for w in ("sort", "topk", "histogram", "cholesky", "solve")):
        return "library steps"
    return "memory"


def row(work, of):
    r = Row(SimpleNamespace(name=work, group=group(work)))
    r.ms = {NAMES.get(system, system): [x["ms"]] for system, x in of.items()}
    return r


if picture:
    shown = [row(work, of) for work, of in rows.items() if "weft" in of]
    names = [n for n in report.COLOURS if any(n in r.ms for r in shown)]
    with open(picture, "w") as f:
        f.write(report.svg(shown, names, "weft and its peers on one H200"))
