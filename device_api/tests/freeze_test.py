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
MACHINES = [], ["x86_64-windows-gnu"], ["i686-linux-gnu"]
FIELD = "  uint32_t compute_units;\n"
LAST = "  uint32_t space_count;\n"

# name, frozen before?, legal?, raise the minor version?, file, old text, new text
CASES = [
    ("nothing", False, True, False, "device.h", "", ""),
    ("a new sentence", False, True, False, "device.h",
     "Describes a device.", "Describes any device."),
    ("an appended field that is not noted", False, False, False, "device.h",
     LAST, LAST + "  uint64_t more;\n"),
    ("nothing after freezing", True, True, False, "device.h", "", ""),
    ("a new sentence in a frozen version", True, False, False, "device.h",
     "Describes a device.", "Describes any device."),
    ("an appended field in a frozen version", True, False, False, "device.h",
     LAST, LAST + "  uint64_t more;\n"),
    ("an appended field in a later version", True, True, True, "device.h",
     LAST, LAST + "  uint64_t more;\n"),
    ("an inserted field in a later version", True, False, True, "device.h",
     FIELD, "  uint32_t sockets;\n" + FIELD),
    ("a field that is gone in a later version", True, False, True, "device.h",
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


for name, frozen, legal, later, file, old, new in CASES:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "device_api"
        shutil.copytree(ROOT, folder)
        if frozen:
            call(folder, "freeze.py", "freeze")
        change(folder, file, old, new)
        if later:
            raise_minor(folder)
            call(folder, "freeze.py", "note")
        result = call(folder, "freeze.py", "check", str(folder))
        judge(name, (result.returncode == 0) == legal, result)

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary) / "device_api"
    shutil.copytree(ROOT, folder)
    change(folder, "device.h", LAST, LAST + "  uint64_t more;\n")
    result = call(folder, "freeze.py", "note")
    judge("an appended field is noted", result.returncode == 0, result)
    call(folder, "freeze.py", "freeze")
    result = call(folder, "freeze.py", "check", str(folder))
    judge("and frozen", result.returncode == 0, result)
    for word in "note", "freeze":
        result = call(folder, "freeze.py", word)
        judge(f"a frozen version is not overwritten by {word}",
              result.returncode == 1 and "is frozen" in result.stderr, result)
    later = pathlib.Path(temporary) / "later"
    result = subprocess.run([sys.executable, str(folder / "tests/pairs/later.py"),
                             str(folder / "include"), str(later)],
                            capture_output=True, text=True)
    judge("later headers are made", result.returncode == 0, result)
    for machine in MACHINES:
        golden = pathlib.Path(temporary) / "golden.layout"
        golden.write_text(call(folder, "layout.py", "print", str(folder / "include"),
                               *machine).stdout)
        result = call(folder, "layout.py", "check", str(later), str(golden), *machine)
        judge(f"they only append, {' '.join(machine) or 'here'}",
              result.returncode == 0, result)
sys.exit(1 if failed else 0)
