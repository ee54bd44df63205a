#!/usr/bin/env python3
"""Times Keel beside ONNX Runtime and OpenVINO on exported models, in turn, best of many.

usage: peers_compare.py KEEL DIR RESULTS [--threads 1,2] [--seconds S] [NAME...]

KEEL is the `keel` program, DIR was written by peers_export.py. Each model's figures go into
RESULTS (JSON) when it is done, in the place of older ones.

Results are held against ONNX Runtime's: the largest difference, as a part of the largest
magnitude, is at most 1e-3. Where bytes or f16 are rounded on the way, a value next to a tie
falls to one side or the other, and what comes after carries that on: there it is the root mean
square difference, as a part of the values', and at most what rounding itself has
changed (ONNX Runtime on the model as it is, against the one that it was made of), or twice
what ONNX Runtime with its optimisations off differs from itself, or 1e-3.
"""
import math
import os
import re
import tempfile
import time

import numpy as np
import onnxruntime as ort

import peers_run

ort.set_default_logger_severity(3)  # not what it removes from graphs

BOUND = 1e-3
LIMIT = 120  # seconds for the runs of one model by one runtime

try:
    import openvino
except ImportError:
    openvino = None


class Model:
    def __init__(self, folder):
        self.folder, self.name = folder, os.path.basename(folder)
        self.path = os.path.join(folder, "model.onnx")
        self.outputs, files = peers_run.ports_of(folder)
        self.feeds = {name: np.load(file) for name, file in files.items()}
        self.wanted = [np.load(os.path.join(folder, f"output_{i}.npy"))
                       for i in range(len(self.outputs))]
        self.half = self.name.endswith("_f16")
        self.rounded = self.name.endswith(("_f16", "_qdq", "_dynamic", "_operator"))


# ---- how far results are apart -----------------------------------------------------------


def apart(wanted, given, rounded):
    """The difference of lists of arrays, or why there is none."""
    worst = 0.0
    for a, b in zip(wanted, given):
        if a.shape != b.shape:
            return None, f"an output has shape {b.shape}, not {a.shape}"
        if not a.size:
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if rounded:
            scale, far = np.sqrt((a * a).mean()), np.sqrt(((a - b) ** 2).mean())
        else:
            scale, far = np.abs(a).max(), np.abs(a - b).max()
        worst = max(worst, far / scale if scale else far)
        if not math.isfinite(worst):
            return None, "an output is not finite"
    return float(worst), None


def allowed(model):
    """The bound of `apart`."""
    base = os.path.join(os.path.dirname(model.folder), model.name.rpartition("_")[0])
    if not model.rounded or not os.path.exists(os.path.join(base, "io.json")):
        return BOUND
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = ort.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
    changed, _ = apart(Model(base).wanted, model.wanted, True)
    itself, _ = apart(model.wanted, plain.run(None, model.feeds), True)
    return max(BOUND, changed or 0, 2 * (itself or 0))


# ---- runtimes ----------------------------------------------------------------------------


def best_of(call, count):
    call()
    best = math.inf
    for _ in range(count):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def onnx_runtime(model, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, model.feeds)


def open_vino(model, threads):
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                              "INFERENCE_PRECISION_HINT": "f16" if model.half else "f32"})
    request = core.compile_model(model.path, "CPU").create_infer_request()
    return lambda: request.infer(model.feeds)


def run_keel(program, model, threads, count):
    """Seconds of the best run, and the outputs; or None, and why."""
    with tempfile.TemporaryDirectory() as out:
        command = peers_run.keel_run(program, model.folder, threads, count + 6)
        printed, why = peers_run.words_of(command + ["--output", out], LIMIT)
        if why:
            return None, why
        found = re.search(r"best ([\d.]+) ms", printed)
        if not found:
            return None, "`keel run` printed no time"
        outputs = [np.load(os.path.join(out, f"{name.replace('/', '_')}.npy"))
                   for name in model.outputs]
    return (float(found[1]) / 1e3, outputs), None


# ---- one model ---------------------------------------------------------------------------


def measure(program, model, threads, seconds):
    row = {}
    peers = {"ort": onnx_runtime(model, threads)}
    if openvino:
        try:
            peers["openvino"] = open_vino(model, threads)
        except Exception as error:  # a model that it does not take
            row["openvino_error"] = str(error).strip().splitlines()[0]
    once = best_of(peers["ort"], 1)
    count = int(max(5, min(300, seconds / once)))
    for _ in range(2):
        for peer, call in peers.items():
            row[peer] = min(row.get(peer, math.inf), best_of(call, count))
        found, why = run_keel(program, model, threads, count)
        if why:
            row["error"] = why
            return row
        row["keel"] = min(row.get("keel", math.inf), found[0])
        row["apart"], why = apart(model.wanted, found[1], model.rounded)
        if why:
            row["error"] = why
    return row


def line_of(name, threads, row):
    if "keel" not in row:
        return f"{name}, {threads} thread(s): {row['error']}"
    best = min(row[peer] for peer in ("ort", "openvino") if peer in row)
    times = "  ".join(f"{peer} {row[peer] * 1e3:.3f}" for peer in ("ort", "openvino", "keel")
                      if peer in row)
    good = "" if not row.get("error") else f"  WRONG: {row['error']}"
    if not good and row["apart"] > row["allowed"]:
        good = f"  WRONG: differs by {row['apart']:.2g}, {row['allowed']:.2g} are allowed"
    return f"{name}, {threads} thread(s): {times} ms; Keel / best other {row['keel'] / best:.2f}{good}"


def main():
    parser = peers_run.parser_of(__doc__)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=0.7,
                        help="for each runtime in each of two rounds, about")
    given = parser.parse_intermixed_args()

    def measure_one(name, folder, rows):
        model = Model(folder)
        bound = allowed(model)
        for threads in map(int, given.threads.split(",")):
            row = measure(given.keel, model, threads, given.seconds)
            row["allowed"] = bound
            row["rounded"] = model.rounded
            rows[str(threads)] = row
            print(line_of(name, threads, row), flush=True)
        return rows

    peers_run.measured(given, measure_one)


if __name__ == "__main__":
    main()
