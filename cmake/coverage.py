#!/usr/bin/env python3
"""Prints lines reached by folder, from what gcov counted.
usage: coverage.py BUILD"""
import collections
import json
import pathlib
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[1]


def counts(build):
    """{file: {line: whether it was reached}}: once for sources that several targets have."""
    data = sorted(str(path) for path in build.rglob("*.gcda"))
    if not data:
        sys.exit(f"no counts in {build}: were tests run there?")
    text = subprocess.run(["gcov", "--json-format", "--stdout", *data], check=True,
                          capture_output=True, text=True).stdout
    files = collections.defaultdict(dict)
    for unit in map(json.loads, text.splitlines()):
        for file in unit["files"]:
            path = (pathlib.Path(unit["current_working_directory"]) / file["file"]).resolve()
            if TREE not in path.parents or build in path.parents:
                continue
            lines = files[path.relative_to(TREE)]
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, False) or line["count"] > 0
    return files


def main():
    folders = collections.defaultdict(lambda: [0, 0])
    for path, lines in counts(pathlib.Path(sys.argv[1]).resolve()).items():
        for folder in (path.parent, pathlib.Path("all")):
            folders[folder][0] += sum(lines.values())
            folders[folder][1] += len(lines)
    print(f"{'reached':>8} {'lines':>8} {'%':>6}  folder")
    for folder, (reached, lines) in sorted(folders.items(), key=lambda f: str(f[0])):
        print(f"{reached:8} {lines:8} {100 * reached / max(lines, 1):6.1f}  {folder}")


main()
