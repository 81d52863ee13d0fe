"""The table of docs/gpu.md, and its picture, from the lines that bench/device and those of its peers printed.

    python3 bench/device_table.py [--svg docs/gpu.svg] weft.json [torch.json jax.json ..]

bench/compare --device gpu runs all of them and calls this.
"""
import json
import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from bench.peers import report
from bench.peers.measure import Row

NAMES = {"jax": "JAX"}
PEERS = ("torch", "torch.compile", "jax")
BEGIN, END = "<!-- table of bench/compare --device gpu -->\n", "<!-- end of the table -->\n"


def merge(rows, lines):
    """What lines of JSON say, by work and system, in place of what was known of them."""
    for line in lines:
        if line.startswith("{"):
            x = json.loads(line)
            rows.setdefault(x["work"], {})[x["system"]] = x
    return rows


def table(rows):
    peers = [name for name in PEERS if any(name in of for of in rows.values())]
    lines = ["| work | weft, ms | GB/s | " + "".join(f"{NAMES.get(p, p)}, ms | " for p in peers) + "best peer : weft | first, ms |",
             "|---" * (5 + len(peers)) + "|"]
    for work, of in rows.items():
        weft = of.get("weft")
        if weft:
            speed = f'{weft["GBps"]:.0f}' if weft.get("GBps") else ""
            times = [of[name]["ms"] for name in peers if name in of]
            cells = "".join((f'{of[name]["ms"]:.4g}' if name in of else "") + " | " for name in peers)
            ratio = f'{min(times) / weft["ms"]:.2f}' if times else ""
            first = f'{weft["first_ms"]:.0f}' if "first_ms" in weft else ""
            lines.append(f'| {work} | {weft["ms"]:.4g} | {speed} | {cells}{ratio} | {first} |')
    return "\n".join(lines) + "\n"


def group(work):
    """What a work waits for, as its name says."""
    if any(w in work for w in ("matmul", "codes", "attention", "block")):
        return "products"
    if any(w in work for w in ("scan", "while", "kalman", "chain", "calls")):
        return "loops and calls"
    if any(w in work for w in ("sort", "topk", "histogram", "cholesky", "solve")):
        return "library steps"
    return "memory"


def picture(rows):
    def row(work, of):
        r = Row(SimpleNamespace(name=work, group=group(work)))
        r.ms = {NAMES.get(system, system): [x["ms"]] for system, x in of.items()}
        return r
    shown = [row(work, of) for work, of in rows.items() if "weft" in of]
    names = [n for n in report.COLOURS if any(n in r.ms for r in shown)]
    return report.svg(shown, names, "weft and its peers on one GPU")


def write_docs(rows, folder):
    """gpu.json, gpu.svg, and the table between its two marks in gpu.md."""
    page = os.path.join(folder, "gpu.md")
    text = open(page).read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    with open(page, "w") as f:
        f.write(text[:begin] + table(rows) + text[end:])
    with open(os.path.join(folder, "gpu.json"), "w") as f:
        json.dump(rows, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "gpu.svg"), "w") as f:
        f.write(picture(rows))


def main():
    paths = sys.argv[1:]
    svg = None
    if "--svg" in paths:
        at = paths.index("--svg")
        svg, paths = paths[at + 1], paths[:at] + paths[at + 2:]
    rows = {}
    for path in paths:
        merge(rows, open(path))
    print(table(rows), end="")
    if svg:
        with open(svg, "w") as f:
            f.write(picture(rows))


if __name__ == "__main__":
    main()
