#!/usr/bin/env python3
"""A static function's name carries its subject: it stands in at most three files, tests and
benchmarks aside.

usage: static_names.py FOLDER...   exit 1 and a line a name
       static_names.py --prove     shows that the check can fail
"""
import collections
import pathlib
import re
import sys
import tempfile

MOST = 3
DEFINITION = re.compile(r"^static (?:inline |const |_Noreturn )*[\w ]+?[ *]+(\w+)\([^;{]*?\)\s*\{",
                        re.M)


def faults(folders):
    places = collections.defaultdict(set)
    for folder in folders:
        for path in sorted(folder.rglob("*.c")):
            if {"tests", "bench"} & set(path.parts):
                continue
            for name in DEFINITION.findall(path.read_text()):
                places[name].add(str(path))
    for name, paths in sorted(places.items()):
        if len(paths) > MOST:
            yield f"{name} stands in {len(paths)} files: {', '.join(sorted(paths)[:6])} ..."


def prove():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for i in range(MOST):
            (folder / f"{i}.c").write_text(f"static int *take(int a,\n  int b) {{\n}}\n"
                                           f"static int own_{i}(void);\n")
        assert not list(faults([folder]))
        (folder / "more.c").write_text("static const char *take(void) { return 0; }\n")
        assert len(list(faults([folder]))) == 1
    print("the check fails where it should")


def main():
    if sys.argv[1:] == ["--prove"]:
        return prove()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = list(faults([pathlib.Path(word) for word in sys.argv[1:]]))
    print("\n".join(found) or "each static function's name stands in a few files at most")
    sys.exit(bool(found))


main()
