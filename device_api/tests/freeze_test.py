#!/usr/bin/env python3
"""Shows that freeze.py keeps what was frozen, and that later.py only appends.

usage: freeze_test.py DEVICE_API    (the folder)
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
MACHINES = {"llp64": ["x86_64-windows-gnu"], "ilp32": ["i686-linux-gnu"]}
FIELD = "  uint32_t compute_units;\n"
LAST = "  uint32_t space_count;\n"

# name, legal?, raise the minor version?, file, old text, new text
CASES = [
    ("nothing", True, False, "device.h", "", ""),
    ("a new sentence in the same version", False, False, "device.h",
     "Describes a device.", "Describes any device."),
    ("an appended field in the same version", False, False, "device.h",
     LAST, LAST + "  uint64_t more;\n"),
    ("an appended field in a later version", True, True, "device.h",
     LAST, LAST + "  uint64_t more;\n"),
    ("an inserted field in a later version", False, True, "device.h",
     FIELD, "  uint32_t sockets;\n" + FIELD),
    ("a field that is gone in a later version", False, True, "device.h",
     FIELD, ""),
]

failed = 0


def call(folder, *words):
    return subprocess.run([sys.executable, str(folder / "abi" / words[0]),
                           *words[1:]], capture_output=True, text=True)


def judge(name, right, result):
    global failed
    failed += not right
    said = (result.stdout + result.stderr).strip().splitlines()
    print(f"{'ok' if right else 'FAILED'}: {name}: {said[0] if said else ''}")


def change(folder, file, old, new):
    path = folder / "include" / "kd" / file
    text = path.read_text()
    if old not in text:
        sys.exit(f"freeze_test: {file} has no longer: {old}")
    path.write_text(text.replace(old, new, 1) if old else text)


def raise_minor(folder):
    path = folder / "include" / "kd" / "base.h"
    lines = path.read_text().splitlines()
    path.write_text("".join(
        ("#define KD_ABI_MINOR 4000" if line.startswith("#define KD_ABI_MINOR")
         else line) + "\n" for line in lines))


for name, legal, later, file, old, new in CASES:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "device_api"
        shutil.copytree(ROOT, folder)
        change(folder, file, old, new)
        if later:
            raise_minor(folder)
        result = call(folder, "freeze.py", "check", str(folder))
        judge(name, (result.returncode == 0) == legal, result)

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary) / "device_api"
    shutil.copytree(ROOT, folder)
    result = call(folder, "freeze.py", "freeze")
    judge("a frozen version is not overwritten",
          result.returncode == 1 and "--again" in result.stderr, result)
    change(folder, "device.h", "Describes a device.", "Describes any device.")
    call(folder, "freeze.py", "freeze", "--again")
    result = call(folder, "freeze.py", "check", str(folder))
    judge("--again overwrites it", result.returncode == 0, result)
    later = pathlib.Path(temporary) / "later"
    result = call(folder, "later.py", str(folder / "include"), str(later))
    judge("later headers are made", result.returncode == 0, result)
    for golden in sorted((folder / "abi").glob("kd-*.layout")):
        model = golden.name.split(".")[-2]
        result = call(folder, "layout.py", "check", str(later), str(golden),
                      *MACHINES.get(model, []))
        judge(f"they only append to {golden.name}", result.returncode == 0,
              result)
sys.exit(1 if failed else 0)
