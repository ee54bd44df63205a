#!/usr/bin/env python3
"""Draws the efficiency of ranks, as host/bench/ranks.py has simulated it.

usage: ranks_plot.py FILE >docs/ranks.svg
"""
import json
import math
import sys

COLORS = ["#1f6f8b", "#e0a458", "#8f5b8c", "#5a9367"]
LABELS = {"learning": "learning: each rank its own images, gradients summed",
          "data": "split by data: each rank its own images",
          "tensor": "split by weights: the same layers for all",
          "fast": "the same over links of 200 Gbit/s and 1 µs, not 10 and 10"}
LEFT, TOP, WIDTH, HEIGHT = 60, 104, 600, 240


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    steps = math.log2(max(row["ranks"] for row in results[0]["rows"])) or 1

    def x(ranks):
        return LEFT + WIDTH * math.log2(ranks) / steps

    def y(efficiency):
        return TOP + HEIGHT * (1 - min(efficiency, 1))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{TOP + HEIGHT + 46}"'
           ' font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for percent in range(0, 101, 25):
        at = y(percent / 100)
        out.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{LEFT + WIDTH}" y2="{at:.1f}"'
                   f' stroke="#dddddd"/><text x="{LEFT - 8}" y="{at + 4:.1f}"'
                   f' text-anchor="end">{percent} %</text>')
    for row in results[0]["rows"]:
        out.append(f'<text x="{x(row["ranks"]):.1f}" y="{TOP + HEIGHT + 18}"'
                   f' text-anchor="middle">{row["ranks"]}</text>')
    out.append(f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 38}"'
               ' text-anchor="middle">ranks; efficiency, simulated</text>')
    for i, result in enumerate(results):
        points = " ".join(f'{x(r["ranks"]):.1f},{y(r["efficiency"]):.1f}'
                          for r in result["rows"])
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[i]}"'
                   ' stroke-width="2"/>')
        out.extend(f'<circle cx="{x(r["ranks"]):.1f}" cy="{y(r["efficiency"]):.1f}" r="3"'
                   f' fill="{COLORS[i]}"/>' for r in result["rows"])
        out.append(f'<rect x="{LEFT}" y="{14 + 20 * i}" width="12" height="12"'
                   f' fill="{COLORS[i]}"/><text x="{LEFT + 18}"'
                   f' y="{24 + 20 * i}">{LABELS[result["key"]]}</text>')
    out.append("</svg>")
    print("\n".join(out))


main()
