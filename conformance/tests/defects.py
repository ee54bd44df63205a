#!/usr/bin/env python3
"""Each defect of the rules' tables, and each oddity of self_test.c, is somewhere in
mutants/, and mutants/ knows no other.

usage: defects.py"""
import pathlib
import re
import sys

tree = pathlib.Path(__file__).parent.parent


def names(files, pattern):
    return {name for file in files for name in re.findall(pattern, file.read_text(), re.M)}


rows = names((tree / "rules").glob("**/*.c"), r'DEFECT(?:_AS)?\((\w+),|\{\.name = "(\w+)", \.rule')
rows = {a or b for a, b in rows}
odd = names([tree / "verbs/self_test.c"], r'^    "(\w+)", +/\*')
mutants = list((tree / "mutants").rglob("*.c"))
built = names([tree / "CMakeLists.txt"], r"^stub\((\w+)")
bugs = names(mutants, r"BUG\((\w+)\)") | built
oddities = names(mutants, r"ODD\((\w+)\)")
wrong = [f"{name}: no row in rules/" for name in bugs - rows]
wrong += [f"{name}: not in mutants/" for name in rows - bugs]
wrong += [f"{name}: not in self_test.c" for name in oddities - odd]
wrong += [f"{name}: oddity, not in mutants/" for name in odd - oddities]
# a rule that no defect fails may be one that cannot fail
proven = set()
for file in (tree / "rules").glob("**/*.c"):
    proven |= set(re.findall(r'"([a-z]+\.[a-z0-9-]+)"', "".join(
        line for line in file.read_text().splitlines(True) if re.search(r"DEFECT|\.rule", line))))
rules = dict(re.findall(r"^\| `([a-z]+\.[a-z0-9-]+)` \| (\w+)", (tree / "README.md").read_text(),
                        re.M))
wrong += [f"{rule}: no defect" for rule, severity in rules.items()
          if severity != "information" and rule not in proven]
print("\n".join(sorted(wrong) + [f"{len(rows)} defects, {len(odd)} oddities"]))
sys.exit(1 if wrong or len(rows) < 300 or len(odd) < 20 else 0)
