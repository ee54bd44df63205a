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
import json
import os
import sys
import time

import numpy as np

import peers_run

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


def child(folder, threads):
    feeds = {name: np.load(file) for name, file in peers_run.ports_of(folder)[1].items()}
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


def onnx_runtime(folder, threads):
    printed, why = peers_run.words_of(
        [sys.executable, os.path.abspath(__file__), "--child", folder, str(threads)], LIMIT)
    return json.loads(printed) if not why else None, why


def keel(program, folder, threads):
    command = peers_run.keel_run(program, folder, threads, RUNS) + ["--json"]
    printed, why = peers_run.words_of(command, LIMIT)
    if why:
        return None, why
    found = json.loads(printed)
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
    parser = peers_run.parser_of(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_intermixed_args()

    def measure_one(name, folder, _):
        row = measure(given.keel, folder, given.threads, given.rounds)
        print(line_of(name, row), flush=True)
        return dict(row, threads=given.threads)

    peers_run.measured(given, measure_one)


if __name__ == "__main__":
    main()
