#!/usr/bin/env python3
"""Every slot, field, flag and status of the golden layout is named by a rule.

usage: names.py SUITE LAYOUT"""
import re
import subprocess
import sys

# what is no promise of a plugin: conveniences, handles, header machinery
EXEMPT = re.compile(
    r"KD_OWNED|KD_STATIC_ASSERT|KD_HAS|KD_TYPES_|KD_OK$|KD_ENTRY|KD_EXPORT|"
    r"KD_LAYOUT_|kd_launch\.device$|kd_tensor\.layout$|.*_H$|KD_STATUS_NAME_OF")

suite, layout = sys.argv[1:3]
out = subprocess.run([suite, "list", "--names"], check=True, capture_output=True,
                     text=True).stdout
named = set(word for line in out.splitlines() for word in line.split("\t")[1].split())
wanted, struct = [], None
for line in open(layout):
    words = line.split()
    if line.startswith("constant "):
        wanted.append(words[1])
        struct = None
    elif re.match(r"kd_[a-z_]+", line):
        struct = words[0]
    elif line.startswith(" ") and struct and len(words) >= 2:
        field = re.search(r"([A-Za-z_0-9]+)(\[[^\]]*\])?$", words[-1])
        if field:
            wanted.append(f"{struct}.{field.group(1)}")
    elif not line.startswith(" "):
        struct = None
missing = [w for w in wanted if w not in named and not EXEMPT.match(w)]
for name in missing:
    print(f"no rule names {name}")
print(f"{len(wanted)} names, {len(missing)} without a rule")
sys.exit(1 if missing or len(wanted) < 200 else 0)
