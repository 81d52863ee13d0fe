"""Tables as text and Markdown, and a picture."""
import math

COLOURS = {"weft": "#d9480f", "NumPy": "#4263eb", "numexpr": "#15aabf", "Numba": "#82c91e", "MLX": "#868e96", "JAX": "#9c36b5",
           "torch": "#f06595", "torch.compile": "#fab005", "PyTensor": "#087f5b"}
INK, FAINT, LINE = "#212529", "#868e96", "#e9ecef"


def figure(v):
    return f"{v:.0f}" if v >= 100 else f"{v:.1f}" if v >= 10 else f"{v:.2f}"


def duration(ms):
    return f"{ms * 1e3:.2g} µs" if ms < 0.01 else f"{ms * 1e3:.0f} µs" if ms < 1 else f"{figure(ms)} ms"


def cell(row, name):
    if name not in row.ms:
        return ""
    middle, low, high = row.ratio(name)
    spread = f" ±{50 * (high - low) / middle:.0f}%" if high > low else ""  # none where there was one round
    return figure(middle) + spread + (" (differs)" if name in row.differs else "")


def markdown(rows, names):
    """Times of weft, and those of the others as multiples of it; and the day, where there are several."""
    peers = [n for n in names if n != "weft"]
    several = len({r.day for r in rows}) > 1
    out = ["| work | weft | " + " | ".join(peers + ["day"] * several) + " |", "|---" * (len(peers) + 2 + several) + "|"]
    for r in rows:
        cells = [r.name, duration(r.median("weft")), *(cell(r, n) for n in peers), *([r.day] if several else [])]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def line(row, names):
    text = f"{row.name:34s} {duration(row.median('weft')):>9s}  "
    text += "".join(f"{cell(row, n).replace(' (differs)', '*'):>14s}" for n in names if n != "weft")
    return text + "".join(f"\n    {n}: {why}" for n, why in row.failed.items())


def head(names):
    return f"{'work':34s} {'weft':>9s}  " + "".join(f"{n:>14s}" for n in names if n != "weft")


# ---- the picture: a line for each work, a dot for each system at its time relative to weft's, on a logarithmic scale

LEFT, RIGHT, STEP, TOP = 230, 30, 19, 92
WIDTH = 900


def svg(rows, names, title):
    groups = list(dict.fromkeys(r.group for r in rows))
    rows = sorted((r for r in rows if len(r.ms) > 1), key=lambda r: groups.index(r.group))
    ratios = [r.ratio(n)[0] for r in rows for n in r.ms]
    low, high = math.floor(math.log10(min(ratios + [1])) * 2) / 2, math.ceil(math.log10(max(ratios + [10])) * 2) / 2
    height = TOP + STEP * (len(rows) + len({r.group for r in rows})) + 34
    x = lambda ratio: LEFT + (math.log10(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
           f'<text x="20" y="28" font-size="16" font-weight="600" fill="{INK}">{title}</text>',
           f'<text x="20" y="46" fill="{FAINT}">time relative to weft, logarithmic: to the right of the line is slower</text>']
    out += _legend(names, 68) + _grid(low, high, x, height)
    y, group = TOP, None
    for r in rows:
        if r.group != group:
            group, y = r.group, y + STEP
            out.append(f'<text x="20" y="{y - 5}" font-weight="600" fill="{FAINT}">{group}</text>')
        out += _row(r, names, x, y)
        y += STEP
    return "\n".join(out + ["</svg>", ""])


def _legend(names, y):
    out, at = [], 20
    for n in names:
        out.append(f'<circle cx="{at + 5}" cy="{y - 4}" r="4.5" fill="{COLOURS[n]}"/><text x="{at + 14}" y="{y}" fill="{INK}">{n}</text>')
        at += 32 + 7 * len(n)
    return out


def _grid(low, high, x, height):
    out = []
    for k in range(math.ceil(low), math.floor(high) + 1):
        at = f"{x(10 ** k):.1f}"
        strong = ' stroke-width="1.5"' if k == 0 else ""
        out.append(f'<line x1="{at}" x2="{at}" y1="{TOP - 8}" y2="{height - 26}" stroke="{COLOURS["weft"] if k == 0 else LINE}"{strong}/>')
        label = f"{10 ** k:g}×" if k >= 0 else f"1/{10 ** -k:g}"
        out.append(f'<text x="{at}" y="{height - 10}" text-anchor="middle" fill="{FAINT}">{label}</text>')
    return out


def _row(r, names, x, y):
    places = [x(r.ratio(n)[0]) for n in r.ms]
    out = [f'<text x="{LEFT - 14}" y="{y + 9}" text-anchor="end" fill="{INK}">{r.name.replace("&", "&amp;")}</text>',
           f'<line x1="{min(places):.1f}" x2="{max(places):.1f}" y1="{y + 5}" y2="{y + 5}" stroke="{LINE}" stroke-width="3"/>']
    for n in names:
        if n in r.ms:
            out.append(f'<circle cx="{x(r.ratio(n)[0]):.1f}" cy="{y + 5}" r="4.5" fill="{COLOURS[n]}" stroke="#fff"><title>{n}: {duration(r.median(n))}</title></circle>')
    return out
