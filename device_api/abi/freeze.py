#!/usr/bin/env python3
"""Freezes the device ABI's headers, and proves that today's keep what was frozen.

usage: freeze.py note               writes today's layout to abi/kd-MAJOR.MINOR.layout:
                                    while nobody was given that version
       freeze.py freeze             the same, and copies include/ to
                                    abi/MAJOR.MINOR/include: before it is given away
       freeze.py check [DEVICE_API] exit 1 and a line a break

A frozen version is not overwritten. `check` compares the noted layout with that of
the headers; text of what is frozen, while the version is today's; and afterwards
layouts, on three kinds of machines, as layout.py does: what was frozen is there, unmoved.
"""
import pathlib
import re
import shutil
import sys

sys.dont_write_bytecode = True  # the folder may be read-only
import layout

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACHINES = None, "x86_64-windows-gnu", "i686-linux-gnu"


def version(include):
    text = (include / "kd" / "base.h").read_text()
    return ".".join(re.search(rf"#define KD_ABI_{part}\s+(\d+)", text)[1]
                    for part in ("MAJOR", "MINOR"))


def headers(include):
    return {path.name: path.read_text()
            for path in sorted((include / "kd").glob("*.h"))}


def golden_of(root, name):
    return root / "abi" / f"kd-{name}.layout"


def note(copies):
    include = ROOT / "include"
    name = version(include)
    target = ROOT / "abi" / name / "include"
    if target.exists():
        sys.exit(f"freeze.py: {target.relative_to(ROOT)} exists: version {name} is"
                 " frozen. Raise KD_ABI_MINOR in include/kd/base.h")
    golden_of(ROOT, name).write_text(layout.show(layout.read(include)))
    if copies:
        shutil.copytree(include, target)
    print(f"{name} is {'frozen' if copies else 'noted'}")


def breaks(root):
    include = root / "include"
    today = version(include)
    frozen = sorted(path.parent for path in (root / "abi").glob("*.*/include"))
    if not golden_of(root, today).exists():
        yield f"abi/kd-{today}.layout is missing: abi/freeze.py note"
    elif layout.parse(golden_of(root, today).read_text()) != layout.read(include):
        yield (f"abi/kd-{today}.layout is not that of include/: abi/freeze.py note; or"
               f" raise KD_ABI_MINOR, where somebody was given {today}")
    for folder in frozen:
        name = folder.name
        if version(folder / "include") != name:
            yield f"abi/{name}: its headers say {version(folder / 'include')}"
        if name == today:
            was, now = headers(folder / "include"), headers(include)
            for head in sorted(was.keys() | now.keys()):
                if was.get(head) != now.get(head):
                    yield (f"abi/{name}: kd/{head} is not that of include/, which"
                           " is of the same version: raise KD_ABI_MINOR")
        if layout.parse(golden_of(root, name).read_text()) != layout.read(folder / "include"):
            yield f"abi/{name}: kd-{name}.layout is not that of its headers"
        for machine in MACHINES:
            kept = layout.read(folder / "include", machine)
            for line in layout.breaks(kept, layout.read(include, machine)):
                yield f"abi/{name}, {machine or 'here'}: {line}"


def main():
    if sys.argv[1:] in (["note"], ["freeze"]):
        note(sys.argv[1] == "freeze")
        return 0
    if len(sys.argv) in (2, 3) and sys.argv[1] == "check":
        root = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT
        found = list(breaks(root))
        print("\n".join(found) if found else "what was frozen is as it was")
        return 1 if found else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
