#!/usr/bin/env python3
"""Compares properties.def with a published VhloOps.td, whose path it is given.

    vhlo_properties.py VhloOps.td             says where the two differ
    vhlo_properties.py VhloOps.td --write     writes the table

The bytecode has an op's attributes without their names, in the order of these: the
table holds them. Ops without attributes are in it as well, so that one that is not is
from a later version.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "../../src/frontends/stablehlo/properties.def")
HEAD = """\
/* properties.def - the ops of VHLO 0.9.0 to {last}, and the names of their attributes in
 * the order in which bytecode holds them. tests/vhlo_properties.py compares it with
 * StableHLO's VhloOps.td. */
"""


def ops(text):
    """(name, attributes) of each op, bases of several included."""
    bases, found = {}, []
    for part in re.split(r"\n(?=(?:def|class) )", text):
        head = re.match(r"(def|class)\s+(\w+)", part)
        if not head:
            continue
        arguments = re.search(r"let arguments = \(\s*ins(.*?)\);", part, re.S)
        names = (
            re.findall(r"\w*Attr\w*(?:<[^>]*>)?\s*:\s*\$(\w+)", arguments.group(1))
            if arguments
            else None
        )
        base = re.search(r":\s*(\w+)<", part)
        if names is None:
            names = bases.get(base.group(1), []) if base else []
        if head.group(1) == "class":
            bases[head.group(2)] = names
            continue
        name = re.search(r'VHLO_\w*Op\w*<"([\w-]+_v\d+)"', part)
        if name:
            found.append((name.group(1), sorted(names)))
    return sorted(found)


def latest(text):
    """The newest version that an op names."""
    versions = re.findall(r'"(\d+)\.(\d+)\.(\d+)"', text)
    return ".".join(map(str, max(tuple(map(int, v)) for v in versions)))


def render(text):
    lines = []
    for name, names in ops(text):
        line = 'OP("%s"%s)' % (name, "".join(', "%s"' % n for n in names))
        while len(line) > 80:
            cut = line.rfind(" ", 0, 80)
            lines.append(line[:cut])
            line = "   " + line[cut + 1 :]
        lines.append(line)
    return HEAD.format(last=latest(text)) + "\n".join(lines) + "\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        want = render(file.read())
    if "--write" in sys.argv:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(want)
        return 0
    with open(TABLE, encoding="utf-8") as file:
        have = file.read()
    wanted, had = want.splitlines()[4:], have.splitlines()[4:]
    for line in sorted(set(had) - set(wanted)):
        print("only in the table: " + line)
    for line in sorted(set(wanted) - set(had)):
        print("not in the table:  " + line)
    print("%d lines, %s" % (len(had), "equal" if wanted == had else "different"))
    return 0 if wanted == had else 1


if __name__ == "__main__":
    sys.exit(main())
