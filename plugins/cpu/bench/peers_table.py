#!/usr/bin/env python3
"""Writes the figures of peers_compare.py and peers_memory.py as tables and a plot.

usage: peers_table.py RESULTS MEMORY PAGE.md PAGE.svg

The plot has a bar for each model and number of threads: Keel's time over that of the faster
of the others.
"""
import datetime
import importlib.metadata
import json
import math
import os
import sys

LEFT, TOP, BAR, WIDTH, MOST = 190, 50, 9, 460, 3.0
COLORS = ("#1f6f8b", "#e0a458")
GROUPS = (("The twelve", "named"), ("Others, which nobody had named", "others"),
          ("Quantised and f16", "quantised"))


def groups_of(results):
    import peers_export
    import peers_nets

    sets = {"named": peers_nets.NAMED, "others": peers_nets.OTHERS,
            "quantised": list(peers_export.QUANTISED)}
    for title, key in GROUPS:
        names = [name for name in sets[key] if name in results]
        if names:
            yield title, names


def ratio(row):
    others = [row[peer] for peer in ("ort", "openvino") if peer in row]
    return row["keel"] / min(others) if "keel" in row else None


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def milliseconds(row, peer):
    return f"{row[peer] * 1e3:.3g}" if peer in row else "-"


def remark(row):
    if row.get("error"):
        return row["error"]
    good = row["apart"] <= row["allowed"]
    return f"{row['apart']:.1g}" + ("" if good else f" (**{row['allowed']:.1g} is allowed**)")


def table(results, names, threads):
    head = "".join(f" ONNX Runtime {t} | OpenVINO {t} | Keel {t} | ratio {t} |" for t in threads)
    yield f"| model |{head} apart |"
    yield f"| --- |{' --- |' * (4 * len(threads) + 1)}"
    for name in names:
        cells, notes = "", []
        for t in threads:
            row = results[name].get(t)
            if not row:
                cells += " - | - | - | - |"
                continue
            r = ratio(row)
            cells += "".join(f" {milliseconds(row, peer)} |" for peer in ("ort", "openvino", "keel"))
            cells += f" **{r:.2f}** |" if r and r > 1.1 else f" {r:.2f} |" if r else " - |"
            notes.append((row.get("apart", math.inf), remark(row)))
        yield f"| {name} |{cells} {max(notes)[1] if notes else '-'} |"


def summary(results, names, threads):
    for t in threads:
        found = [ratio(results[name][t]) for name in names if t in results[name]]
        found = [r for r in found if r]
        if found:
            above = sum(r > 1.1 for r in found)
            yield (f"{'One thread' if t == '1' else t + ' threads'}: geometric mean {mean(found):.2f}, "
                   f"worst {max(found):.2f}, above 1.1: {above} of {len(found)}.")


# ---- memory ------------------------------------------------------------------------------


MEMORY = (("steady", 2 ** 20), ("most", 2 ** 20), ("first", 1e-3))


def memory_line(name, row):
    if "error" in row:
        return f"| {name} |{' - |' * 9} {row['error']} |"
    cells = ""
    for key, unit in MEMORY:
        ort, own = row["ort"][key], row["keel"][key]
        r = f"{own / ort:.2f}"
        cells += f" {ort / unit:.3g} | {own / unit:.3g} | {f'**{r}**' if own > ort else r} |"
    return f"| {name} |{cells}"


def memory_table(memory):
    yield ""
    yield "## Memory, and the first run"
    yield ""
    threads = sorted({row["threads"] for row in memory.values()})
    yield ("MiB that the system counts as resident after five runs, and at most until then: files "
           "that are mapped and read count with it (models, libraries). Keel's is the whole "
           "process; ONNX Runtime's is what its import, session and runs add to a Python process "
           "that has numpy and the inputs. Milliseconds to the end of the first run: Keel's "
           "loading, planning and running, ONNX Runtime's session and run. "
           f"{' and '.join(map(str, threads))} thread(s), the least of some rounds.")
    yield ""
    heads = "".join(f" ONNX Runtime, {what} | Keel | ratio |"
                    for what in ("steady", "most", "first run"))
    yield f"| model |{heads}"
    yield f"| --- |{' --- |' * 9}"
    for _, names in groups_of(memory):
        yield from (memory_line(name, memory[name]) for name in names)
    good = [row for row in memory.values() if "error" not in row]
    if good:
        yield ""
        means = {key: mean([row["keel"][key] / row["ort"][key] for row in good])
                 for key, _ in MEMORY}
        yield (f"Geometric means: {means['steady']:.2f} steady, {means['most']:.2f} at most, "
               f"{means['first']:.2f} to the end of the first run.")


def machine():
    name, flags, features = "", [], ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16",
                                     "avx512_fp16", "amx_int8", "amx_bf16", "amx_tile")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = (part.strip() for part in line.partition(":"))
                name = name or (value if key == "model name" else "")
                flags = flags or (value.split() if key == "flags" else [])
    except OSError:
        name = "unknown"
    return f"{name}, {os.cpu_count()} cores, {' '.join(f for f in features if f in flags)}"


def versions():
    packages = ("onnxruntime", "openvino", "torch", "torchvision", "transformers", "onnx")
    for package in packages:
        try:
            yield f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{package} (not installed)"


def document(results, memory, plot):
    threads = sorted({t for rows in results.values() for t in rows}, key=int)
    yield "# The CPU plugin beside ONNX Runtime and OpenVINO"
    yield ""
    page = os.path.splitext(os.path.basename(plot))[0]
    option = "" if page == "PEERS" else f" --page {page}"
    yield (f"`sh plugins/cpu/bench/peers.sh{option}` writes this page. Milliseconds, the best of many runs, "
           "each model's in turn and in one go, at " + " and ".join(threads) + " thread(s); weights "
           "and inputs are random, batch sizes are as in `peers_nets.py`. Ratio: Keel's time over "
           "that of the faster of the two. Absolute times on a shared machine mean little. Both "
           "others compute in f32 where the model does (OpenVINO would take bf16 by itself).")
    yield ""
    yield f"- {machine()}"
    yield f"- {', '.join(versions())}"
    yield f"- {datetime.date.today().isoformat()}"
    yield ""
    yield f"![Keel's time over the faster other's]({os.path.basename(plot)})"
    yield ""
    yield ("Apart: how far results are from ONNX Runtime's. In f32 the largest difference over the "
           "largest magnitude, at most 1e-3. Where bytes or f16 are rounded on the way, the root "
           "mean square difference over the values' own, at most 1e-3, what rounding "
           "itself has changed, or twice what ONNX Runtime without its optimisations differs from "
           "itself: a value next to a tie falls to one side or the other, and what "
           "comes after carries that on.")
    for title, names in groups_of(results):
        yield ""
        yield f"## {title}"
        yield ""
        yield from table(results, names, threads)
        yield ""
        yield " ".join(summary(results, names, threads))
    if memory:
        yield from memory_table(memory)


# ---- the plot ----------------------------------------------------------------------------


def bars(results, threads):
    def x(r):
        return LEFT + WIDTH * min(r, MOST) / MOST

    y = TOP
    for title, names in groups_of(results):
        yield f'<text x="12" y="{y + 12}" font-weight="bold">{title}</text>'
        y += 22
        for name in names:
            yield f'<text x="{LEFT - 8}" y="{y + BAR + 3}" text-anchor="end">{name}</text>'
            for i, t in enumerate(threads):
                r = ratio(results[name][t]) if t in results[name] else None
                if not r:
                    continue
                at = y + i * (BAR + 1)
                yield (f'<rect x="{LEFT}" y="{at}" width="{x(r) - LEFT:.1f}" height="{BAR}" '
                       f'fill="{COLORS[i % 2]}"/><text x="{x(r) + 4:.1f}" y="{at + BAR - 1}" '
                       f'font-size="9">{r:.2f}</text>')
            y += len(threads) * (BAR + 1) + 6
        y += 10
    for r in (0.5, 1, 1.5, 2, 2.5, 3):
        color = "#888888" if r == 1 else "#dddddd"
        yield (f'<line x1="{x(r):.1f}" y1="{TOP - 6}" x2="{x(r):.1f}" y2="{y}" stroke="{color}" '
               f'stroke-dasharray="3 3"/><text x="{x(r):.1f}" y="{y + 14}" '
               f'text-anchor="middle">{r:g}</text>')
    yield str(y + 26)  # the height


def svg(results):
    threads = sorted({t for rows in results.values() for t in rows}, key=int)
    *parts, height = bars(results, threads)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 50}" height="{height}" '
           'font-family="sans-serif" font-size="11">')
    yield '<rect width="100%" height="100%" fill="white"/>'
    for i, t in enumerate(threads):
        yield (f'<rect x="{LEFT + 110 * i}" y="14" width="12" height="12" fill="{COLORS[i % 2]}"/>'
               f'<text x="{LEFT + 110 * i + 18}" y="24">{t} thread{"" if t == "1" else "s"}</text>')
    yield f'<text x="{LEFT + 250}" y="24">Keel / the faster other; less is faster</text>'
    yield from parts
    yield "</svg>"


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__.strip())
    results, memory = read(sys.argv[1]), read(sys.argv[2])
    write(sys.argv[4], svg(results))
    write(sys.argv[3], document(results, memory, sys.argv[4]))


if __name__ == "__main__":
    main()
