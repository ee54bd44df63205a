#!/usr/bin/env python3
"""The table of docs/stablehlo.md, from lower.def and properties.def.

    stablehlo_ops.py            prints it
    stablehlo_ops.py --write    writes it into the page
    stablehlo_ops.py --check    exit 1 where the page has another
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "../../src/frontends/stablehlo")
PAGE = os.path.join(HERE, "../../../docs/stablehlo.md")
MARKS = ("<!-- ops: python3 host/tests/frontends/stablehlo_ops.py --write -->\n", "<!-- end -->")
# taken care of where functions and tuples are, outside of lower.def
OTHERS = {"func": "the module's functions", "return": "", "tuple": "not of `main`", "get_tuple_element": "not of `main`"}


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)


def table():
    found = re.findall(r'LOWER\((\w+),\s*\w+,\s*([^,"]*),\s*((?:"[^"]*"\s*)*)\)', read("lower.def"))
    rows = {name: (flags, "".join(re.findall(r'"([^"]*)"', limits))) for name, flags, limits in found}
    rows.update({name: ("", limits) for name, limits in OTHERS.items()})
    every = sorted({re.sub(r"_v\d+$", "", op) for op in re.findall(r'OP\("([^"]+)"', read("properties.def"))})
    lines = ["| op | read | complex | limits |", "| --- | --- | --- | --- |"]
    for op in every:
        flags, limits = rows.get(op, (None, ""))
        some = flags is not None and re.search("HLO_(PARTS|BILINEAR|COMPLEX)", flags)
        lines.append("| %s | %s | %s | %s |" % (op, "no" if flags is None else "yes", "yes" if some else "", limits))
    number = sum(op in rows for op in every)
    lines.append("\n%d of %d ops." % (number, len(every)))
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 2:
        print(table())
        return 0
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    begin = text.index(MARKS[0]) + len(MARKS[0])
    right = text[:begin] + table() + text[text.index(MARKS[1], begin) :]
    if sys.argv[1] == "--write":
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(right)
    elif text != right:
        print("docs/stablehlo.md: the table is not that of lower.def: stablehlo_ops.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
