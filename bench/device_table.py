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
print("| work | weft, ms | GB/s | torch, ms | torch : weft | first, ms |\n|---|---|---|---|---|---|")
for work, of in rows.items():
    weft, torch = of.get("weft"), of.get("torch")
    if weft:
        speed = f'{weft["GBps"]:.0f}' if weft.get("GBps") else ""
        peer = (f'{torch["ms"]:.4g}', f'{torch["ms"] / weft["ms"]:.2f}') if torch else ("", "")
        print(f'| {work} | {weft["ms"]:.4g} | {speed} | {peer[0]} | {peer[1]} | {weft.get("first_ms", 0):.0f} |')
