#!/usr/bin/env python3
"""Freezes the device ABI's headers, and proves that today's keep what was frozen.

usage: freeze.py freeze [--again]   copies include/ to abi/MAJOR.MINOR/include and
                                    writes that version's layout files
       freeze.py check [DEVICE_API] exit 1 and a line a break

A frozen version is not overwritten but with --again, which is for a version that
nobody was given yet. `check` compares text while the version is today's, and
afterwards layouts, as layout.py does: what was frozen is there, unmoved.
"""
import pathlib
import re
import shutil
import sys

sys.dont_write_bytecode = True  # the folder may be read-only
import layout

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACHINES = {"": None, ".llp64": "x86_64-windows-gnu", ".ilp32": "i686-linux-gnu"}


def version(include):
    text = (include / "kd" / "base.h").read_text()
    return ".".join(re.search(rf"#define KD_ABI_{part}\s+(\d+)", text)[1]
                    for part in ("MAJOR", "MINOR"))


def headers(include):
    return {path.name: path.read_text()
            for path in sorted((include / "kd").glob("*.h"))}


def freeze(again):
    include = ROOT / "include"
    name = version(include)
    target = ROOT / "abi" / name / "include"
    if target.exists() and not again:
        sys.exit(f"freeze.py: {target.relative_to(ROOT)} exists: version {name} is"
                 " frozen. Raise KD_ABI_MINOR in include/kd/base.h; or, where"
                 f" nobody was given {name} yet, say --again")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(include, target)
    for suffix, machine in MACHINES.items():
        golden = ROOT / "abi" / f"kd-{name}{suffix}.layout"
        golden.write_text(layout.show(layout.read(include, machine)))
    print(f"{name} is frozen: {len(headers(target))} headers, "
          f"{len(MACHINES)} layouts")


def breaks(root):
    include = root / "include"
    today = version(include)
    frozen = sorted(path.parent for path in (root / "abi").glob("*.*/include"))
    if not frozen:
        yield "abi: no version is frozen"
    for folder in frozen:
        name = folder.name
        if version(folder / "include") != name:
            yield f"abi/{name}: its headers say {version(folder / 'include')}"
        if name == today:
            was, now = headers(folder / "include"), headers(include)
            for head in sorted(was.keys() | now.keys()):
                if was.get(head) != now.get(head):
                    yield (f"abi/{name}: kd/{head} is not that of include/, which"
                           " is of the same version: abi/freeze.py freeze"
                           " --again, or raise KD_ABI_MINOR")
        for suffix, machine in MACHINES.items():
            golden = layout.parse(
                (root / "abi" / f"kd-{name}{suffix}.layout").read_text())
            kept = layout.read(folder / "include", machine)
            if golden != kept:
                yield (f"abi/{name}: kd-{name}{suffix}.layout is not that of its"
                       " headers")
            for line in layout.breaks(kept, layout.read(include, machine)):
                yield f"abi/{name}{suffix}: {line}"


def main():
    if sys.argv[1:] in (["freeze"], ["freeze", "--again"]):
        freeze(len(sys.argv) == 3)
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
