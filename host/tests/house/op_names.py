#!/usr/bin/env python3
"""The engine names no op, but for those below, each for its reason.

usage: op_names.py FOLDER    quoted names of ops in the sources of FOLDER/engine; those that there
                             are have rows in FOLDER
       op_names.py --prove   shows that the check can fail
"""
import pathlib
import re
import sys
import tempfile

# file: names, and why the engine knows them
KNOWN = {
    "loader/reorder.c": ["Reorder"],  # the kernel that plugins with layouts have beside it
    "passes/layout.c": ["Reorder", "Reorder", "Slice"],  # what the pass makes
    "passes/regions.c": ["Region"],  # the same
    "program/region.c": ["Region"],  # the node that a compiled part becomes
    "passes/cost.c": ["Relu", "MatMul", "Relu"],  # by which it measures a device
    "program/body.c": ["Loop"],  # keel_builder_while
    "program/builder.c": ["Loop"],  # its two inputs that may be left out
    "run/control.c": ["Concat", "Gather"],  # sequences of a loop, by a device's kernels
}


def names_of(root):
    """All ops that have a row: in a table of definitions, or in an op set."""
    names = set()
    for path in (root / "defs").glob("*.def"):
        names |= set(re.findall(r"^\w*(?:OP|FUNCTION|REDUCE)\((\w+)", path.read_text(), re.M))
    row = r'^\s+(?:[A-Z_]+\(\s*(?:KEEL_\w+, )?|\{\s*(?:NULL|"[\w.]+"),\s*)"([A-Z]\w+)", '
    for path in root.rglob("*.c"):
        names |= set(re.findall(row, path.read_text(), re.M))
    return names


def faults(folder, names, known):
    count = 0
    for path in sorted(folder.rglob("*.[ch]")):
        at = str(path.relative_to(folder))
        found = [name for name in re.findall(r'"(?:[\w.]+::)?(\w+)"', path.read_text())
                 if name in names]
        count += len(found)
        if sorted(found) != sorted(known.get(at, [])):
            yield (f"{at} names {', '.join(found) or 'no op'}, and the list has"
                   f" {', '.join(known.get(at, [])) or 'none'}: what an op needs is a rule of"
                   " its op set (engine/ops/registry.h)")
    for at in sorted(set(known) - {str(p.relative_to(folder)) for p in folder.rglob("*.[ch]")}):
        yield f"{at} is in the list, and does not exist"
    if count >= 15:
        yield f"the engine names {count} ops, and 14 are the most"


def prove():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.c").write_text('is(node, "Relu"); f("keel::Part"); g("other");')
        names = {"Relu", "Part"}
        assert len(list(faults(folder, names, {}))) == 1
        assert not list(faults(folder, names, {"a.c": ["Part", "Relu"]}))
        assert len(list(faults(folder, names, {"a.c": ["Relu"], "b.c": ["Relu"]}))) == 2
    print("the check fails where it should")


def main():
    if sys.argv[1:] == ["--prove"]:
        return prove()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    names = names_of(root)
    if len(names) < 290 or not {"Add", "Conv", "If", "Momentum", "ZipMap", "Rank"} <= names:
        sys.exit(f"{root}: only {len(names)} rows of ops were found")
    found = list(faults(root / "engine", names, KNOWN))
    print("\n".join(found) or f"{root}/engine: names of ops are those of the list")
    sys.exit(bool(found))


main()
