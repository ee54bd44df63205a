#!/usr/bin/env python3
"""Draws the graphs of `bench --json FILE`: nanoseconds a node, empty nodes.

usage: plot.py FILE >host/bench/graphs.svg
"""
import json
import math
import sys

RUNTIMES = [("keel", "Keel", "#1f6f8b"), ("tbb", "oneTBB", "#e0a458"),
            ("openmp", "OpenMP", "#b8b8b8")]
LEFT, TOP, ROW, BAR, WIDTH = 165, 46, 46, 11, 470
DECADES = 3  # 1 to 1000 ns, logarithmic


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], encoding="utf-8") as file:
        graphs = [g for g in json.load(file)["graphs"] if g["node"] == "empty"]

    def x(ns):
        return LEFT + WIDTH * min(max(math.log10(ns), 0) / DECADES, 1)

    height = TOP + ROW * len(graphs) + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{height}"'
           ' font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, (_, name, color) in enumerate(RUNTIMES):
        out.append(f'<rect x="{LEFT + 110 * i}" y="14" width="12" height="12"'
                   f' fill="{color}"/><text x="{LEFT + 110 * i + 18}"'
                   f' y="24">{name}</text>')
    for decade in range(DECADES + 1):
        at = x(10 ** decade)
        out.append(f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}"'
                   f' y2="{height - 30}" stroke="#dddddd"/>'
                   f'<text x="{at:.1f}" y="{height - 14}"'
                   f' text-anchor="middle">{10 ** decade} ns</text>')
    for row, g in enumerate(graphs):
        y = TOP + ROW * row
        threads = "1 thread" if g["threads"] == 1 else f'{g["threads"]} threads'
        out.append(f'<text x="{LEFT - 10}" y="{y + 23}" text-anchor="end">'
                   f'{g["graph"]}, {threads}</text>')
        for i, (key, _, color) in enumerate(RUNTIMES):
            if key not in g:
                continue
            end = x(g[key])
            out.append(f'<rect x="{LEFT}" y="{y + i * (BAR + 1)}"'
                       f' width="{end - LEFT:.1f}" height="{BAR}" fill="{color}"/>'
                       f'<text x="{end + 5:.1f}" y="{y + i * (BAR + 1) + 10}"'
                       f' font-size="10">{g[key]:.1f}</text>')
    out.append("</svg>")
    print("\n".join(out))


main()
