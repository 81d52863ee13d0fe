"""The table of docs/gpu.md from the lines that bench/device and bench/device_torch.py printed.

    python3 bench/device_table.py weft.json [torch.json ..]
"""
import json
import sys

rows = {}
for path in sys.argv[1:]:
    for line in open(path):
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
