#!/usr/bin/env python3
"""Shows that layout.py passes what is legal and fails what is not.

usage: layout_test.py DEVICE_API    (the folder)
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
GOLDEN = ROOT / "abi" / "kd-0.10.layout"

# name, legal?, file, old text, new text
CASES = [
    ("nothing", True, "memory.h", "", ""),
    ("an appended slot", True, "memory.h",
     "  void (*trim)(kd_device *device);\n",
     "  void (*trim)(kd_device *device);\n"
     "  kd_status (*prefetch)(kd_device *device);\n"),
    ("an appended status", True, "base.h",
     "#define KD_BUSY 19\n", "#define KD_BUSY 19\n#define KD_NEW 20\n"),
    ("swapped slots", False, "stream.h",
     "  kd_status (*query)(kd_event *event);", None),
    ("a changed signature", False, "memory.h",
     "  void (*trim)(kd_device *device);\n",
     "  void (*trim)(kd_device *device, int32_t how);\n"),
    ("an inserted field", False, "device.h",
     "  uint32_t compute_units;\n",
     "  uint32_t sockets;\n  uint32_t compute_units;\n"),
    ("a changed status value", False, "base.h",
     "#define KD_INTERNAL 13\n", "#define KD_INTERNAL 31\n"),
    ("a widened typedef", False, "base.h",
     "typedef int32_t kd_status;", "typedef int64_t kd_status;"),
    ("a renamed field", False, "kernel.h",
     "  uint32_t host_inputs;", "  uint32_t cpu_inputs;"),
    ("a removed constant", False, "base.h", "#define KD_U4 21u", "#define KD_V 21u"),
    ("a grown frozen struct", False, "tensor.h",
     "  uint64_t reserved;\n} kd_tensor;",
     "  uint64_t reserved;\n  uint64_t more;\n} kd_tensor;"),
    ("a changed callback type", False, "stream.h",
     "typedef void (*kd_event_callback)(void *context, kd_status status,",
     "typedef void (*kd_event_callback)(void *context, int64_t status,"),
]


def swap_query_and_wait(text):
    query = "  kd_status (*query)(kd_event *event);"
    wait = "  kd_status (*wait)(kd_event *event, uint64_t timeout);"
    assert query in text and wait in text
    return (text.replace(query, "@").replace(wait, query).replace("@", wait))


def run(include):
    return subprocess.run(
        [sys.executable, str(ROOT / "abi" / "layout.py"), "check",
         str(include), str(GOLDEN)], capture_output=True, text=True)


failed = 0
for name, legal, file, old, new in CASES:
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder) / "include"
        shutil.copytree(ROOT / "include", include)
        path = include / "kd" / file
        text = path.read_text()
        # clang-format aligns constants, so spaces match any number of them
        pattern = re.compile(re.sub(r"(\\ )+", r"[ ]+", re.escape(old)))
        if not pattern.search(text):
            sys.exit(f"layout_test: {file} has no longer: {old}")
        text = swap_query_and_wait(text) if new is None \
            else pattern.sub(lambda _: new, text) if old else text
        if "frozen struct" in name:
            text = text.replace("sizeof(kd_tensor) == 72",
                                "sizeof(kd_tensor) == 80")
        path.write_text(text)
        result = run(include)
        right = (result.returncode == 0) == legal
        failed += not right
        print(f"{'ok' if right else 'FAILED'}: {name} is "
              f"{'passed' if result.returncode == 0 else 'refused'}: "
              f"{(result.stdout or result.stderr).strip().splitlines()[0]}")
sys.exit(1 if failed else 0)
