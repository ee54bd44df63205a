#!/usr/bin/env python3
"""Memory, and the time to the end of a first run, of Keel beside ONNX Runtime.

usage: peers_memory.py KEEL DIR RESULTS [--threads N] [--rounds N] [NAME...]

KEEL is the `keel` program, DIR was written by peers_export.py. Each model's figures go into
RESULTS (JSON) when it is done, in the place of older ones: the least of some rounds, in turn,
each in a process of its own.

Memory is what the system counts as resident (VmRSS, and VmHWM for the most), files that are
mapped with it. Of `keel run MODEL --repeat 5` that is the whole process when the runs are
over. Of ONNX Runtime it is what its import, its session and as many runs add to a Python
process that has numpy and the inputs. The time is what loading, planning and the first run
take, or the session and its first run; libraries that are opened on the way count.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

RUNS = 5
LIMIT = 300  # seconds for one process


# ---- ONNX Runtime's process --------------------------------------------------------------


def status(key):
    """Bytes of a line of this process's status."""
    with open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) << 10
    raise SystemExit(f"/proc/self/status has no {key}")


def ports(folder):
    with open(os.path.join(folder, "io.json"), encoding="utf-8") as file:
        names = json.load(file)["inputs"]
    return {name: os.path.join(folder, f"input_{i}.npy") for i, name in enumerate(names)}


def child(folder, threads):
    feeds = {name: np.load(file) for name, file in ports(folder).items()}
    before = status("VmRSS")
    import onnxruntime as ort

    ort.set_default_logger_severity(3)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    begin = time.perf_counter()
    session = ort.InferenceSession(os.path.join(folder, "model.onnx"), options,
                                   providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    first = time.perf_counter() - begin
    for _ in range(RUNS - 1):
        session.run(None, feeds)
    print(json.dumps({"first": first, "steady": status("VmRSS") - before,
                      "most": status("VmHWM") - before}))


# ---- both --------------------------------------------------------------------------------


def words_of(command):
    """What a command prints as JSON, or None and its last word."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None, f"takes more than {LIMIT} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else f"exit status {done.returncode}"
    return json.loads(done.stdout), None


def onnx_runtime(folder, threads):
    return words_of([sys.executable, os.path.abspath(__file__), "--child", folder, str(threads)])


def keel(program, folder, threads):
    command = [program, "run", os.path.join(folder, "model.onnx"), "--repeat", str(RUNS),
               "--device", "cpu:0", "--threads", str(threads), "--json"]
    for name, file in ports(folder).items():
        command += ["--input", f"{name}={file}"]
    found, why = words_of(command)
    if why:
        return None, why
    return {"first": (found["load_ms"] + found["plan_ms"] + found["first_ms"]) / 1e3,
            "steady": found["resident_bytes"], "most": found["resident_most_bytes"]}, None


def measure(program, folder, threads, rounds):
    row = {}
    for _ in range(rounds):
        for who, call in (("ort", lambda: onnx_runtime(folder, threads)),
                          ("keel", lambda: keel(program, folder, threads))):
            found, why = call()
            if why:
                return {"error": f"{who}: {why}"}
            least = row.setdefault(who, found)
            row[who] = {key: min(least[key], found[key]) for key in found}
    return row


def ratios(row):
    return {key: row["keel"][key] / row["ort"][key] for key in ("steady", "most", "first")}


def line_of(name, row):
    if "error" in row:
        return f"{name}: {row['error']}"
    texts = []
    for key, unit, of in (("steady", "MiB", 2 ** 20), ("most", "MiB", 2 ** 20),
                          ("first", "ms", 1e-3)):
        ort, own = row["ort"][key] / of, row["keel"][key] / of
        texts.append(f"{key} {own:.1f} beside {ort:.1f} {unit} ({own / ort:.2f})")
    return f"{name}: {', '.join(texts)}"


def main():
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keel")
    parser.add_argument("folder")
    parser.add_argument("results")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_intermixed_args()
    results = {}
    if os.path.exists(given.results):
        with open(given.results, encoding="utf-8") as file:
            results = json.load(file)
    names = given.names or sorted(
        name for name in os.listdir(given.folder)
        if os.path.exists(os.path.join(given.folder, name, "io.json")))
    for name in names:
        folder = os.path.join(given.folder, name)
        if not os.path.exists(os.path.join(folder, "io.json")):
            print(f"{name}: not in {given.folder}; peers_export.py makes it", file=sys.stderr)
            continue
        row = measure(given.keel, folder, given.threads, given.rounds)
        results[name] = dict(row, threads=given.threads)
        print(line_of(name, row), flush=True)
        with open(given.results, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
