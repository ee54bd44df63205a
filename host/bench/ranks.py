#!/usr/bin/env python3
"""Measures ranks on this machine, and simulates models on 1, 2, 4 ... of them: tables on standard
output, and FOLDER/figures.json.

usage: ranks.py BUILD FOLDER MOST    FOLDER has the models of `bench/ranks models`

FOLDER/measured.json keeps the best times of all runs: on a machine that others use, too, one run
may be slow throughout, and ranks of slow hosts would seem to grow well.
"""
import glob
import json
import os
import re
import subprocess
import sys
from statistics import median

# One rank a host, all hosts at one switch: bytes a second and seconds of a link, of which a
# message takes two.
ETHERNET, FAST = (1.25e9, 10e-6), (25e9, 1e-6)
BATCH = 8  # images a rank

# How each is shared: name, model, `keel run`'s words, `keel compile`'s for N ranks, links. What
# stays the same as ranks become more: a rank's work ("weak"), or that of all ("strong").
WORKLOADS = [
    ("learning", "ResNet-50 learns: 8 images a rank, 97.5 MiB of gradients in 4 AllReduces",
     "step.keel", ["--devices", "cpu:0"], lambda n: [], ETHERNET, "weak"),
    ("data", "ResNet-50 classifies, split by data: 8 images a rank",
     "images.onnx", ["--dim", f"open={BATCH}"],
     lambda n: ["--split", "data", "--dim", f"open={BATCH * n}"], ETHERNET, "weak"),
    ("tensor", "Two layers of BERT-large over 128 words, split by weights: 16 heads",
     "layers.onnx", [], lambda n: ["--split", "tensor"], ETHERNET, "strong"),
    ("fast", "The same layers over links of 200 Gbit/s and 1 µs", "layers.onnx", [],
     lambda n: ["--split", "tensor"], FAST, "strong"),
]

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="all" prefix="host" suffix="" radical="0-{last}" speed="{speed:.0f}f"
           bw="{bandwidth:.0f}Bps" lat="{latency:.9f}s"/>
</platform>
"""


def output_of(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"ranks.py: {' '.join(map(str, words))}\n{(done.stderr + done.stdout)[-2000:]}")
    return done.stdout + done.stderr


MPIRUN = ["mpirun.openmpi", "--bind-to", "none", "--oversubscribe"]


class Bench:
    def __init__(self, build, folder):
        self.keel, self.folder = os.path.join(build, "bin/keel"), folder
        self.exchanges = os.path.join(build, "bench/exchanges")
        self.measured = {}
        if os.path.exists(self.path("measured.json")):
            with open(self.path("measured.json"), encoding="utf-8") as file:
                self.measured = json.load(file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def measure(self):
        """The best of some runs of each model on this machine, and of those before."""
        words = {"product.keel": [], "sum.keel": []}
        words.update((model, run_words) for _, _, model, run_words, *_ in WORKLOADS)
        for model, run_words in list(words.items()) * 2:
            said = output_of(self.keel, "run", self.path(model), "--repeat", 7, "--json",
                             *run_words)
            best = json.loads(said)["best_ms"] * 1e-3
            self.measured[model] = min(best, self.measured.get(model, best))
        with open(self.path("measured.json"), "w", encoding="utf-8") as file:
            json.dump(self.measured, file, indent=1)

    def trace(self, model, ranks, bytes_as, words):
        """Writes the traces of all ranks; rank 0's actions, and the MiB of its weights."""
        said = output_of(self.keel, "compile", self.path(model), "--np", ranks, "--smpi-trace",
                         self.path("traces"), "--bytes-as", bytes_as, *words)
        with open(self.path("traces/rank-0"), encoding="utf-8") as file:
            actions = [line.split()[1:] for line in file]
        weights = re.search(r"weights ([0-9.]+) MiB", said)
        return actions, float(weights[1]) if weights else None

    def replay(self, ranks, speed, link):
        """Seconds that the traces take, simulated."""
        with open(self.path("platform.xml"), "w", encoding="utf-8") as file:
            file.write(PLATFORM.format(last=ranks - 1, speed=speed, bandwidth=link[0],
                                       latency=link[1]))
        with open(self.path("hosts"), "w", encoding="utf-8") as file:
            file.writelines(f"host{i}\n" for i in range(ranks))
        said = output_of("smpirun", "-np", ranks, "-platform", self.path("platform.xml"),
                         "-hostfile", self.path("hosts"), "-replay", self.path("traces/ranks"),
                         "--cfg=smpi/coll-selector:ompi", f"--cfg=smpi/host-speed:{speed:.0f}f")
        return float(re.search(r"Simulation time ([0-9.]+)", said)[1])


TYPES = {"0": 8, "1": 4, "3": 2, "4": 8, "5": 4, "6": 1}


def sent(action, ranks):
    """The least bytes that a rank sends in an exchange."""
    name, others = action[0], ranks - 1
    if name == "allreduce":
        return 2 * others / ranks * int(action[1]) * TYPES[action[3]]
    if name == "allgather":
        return others * int(action[1]) * TYPES[action[3]]
    return 0


def simulate(bench, workload, bytes_as, most):
    key, about, model, _, compile_words, link, kind = workload
    alone = bench.measured[model]
    actions, _ = bench.trace(model, 1, bytes_as, compile_words(1))
    flops = sum(float(a[1]) for a in actions if a[0] == "compute")
    speed = flops / alone
    rows, ranks = [], 1
    while ranks <= most:
        print(f"{key}: {ranks} ranks", file=sys.stderr)
        actions, weights = bench.trace(model, ranks, bytes_as, compile_words(ranks))
        computed = sum(float(a[1]) for a in actions if a[0] == "compute") / speed
        time = bench.replay(ranks, speed, link)
        first = rows[0]["time"] if rows else time
        gain = first / time
        rows.append({"ranks": ranks, "time": time, "computed": computed, "weights": weights,
                     "exchanges": sum(sent(a, ranks) > 0 for a in actions),
                     "sent": sum(sent(a, ranks) for a in actions),
                     "gain": gain if kind == "strong" else gain * ranks,
                     "efficiency": gain / ranks if kind == "strong" else gain})
        ranks *= 2
    return {"key": key, "about": about, "kind": kind, "measured": alone, "speed": speed,
            "rows": rows}


# ---- measured ------------------------------------------------------------------------------------

def sent_by_ranks(bench, op, ranks, count, times):
    """The bytes that each rank has given to others' processes, by Open MPI's own counters."""
    base = os.path.abspath(bench.path("counted"))
    for old in glob.glob(f"{base}.*.prof"):
        os.remove(old)
    output_of(*MPIRUN, "--mca", "pml_monitoring_enable", 1, "--mca",
              "pml_monitoring_enable_output", 3, "--mca", "pml_monitoring_filename", base,
              "-n", ranks, bench.exchanges, f"keel::{op}", count, times)
    all_bytes = []
    for rank in range(ranks):
        with open(f"{base}.{rank}.prof", encoding="utf-8") as file:
            all_bytes.append(sum(int(line.split()[3]) for line in file if line[0] in "EI"))
    return all_bytes


def bytes_sent(bench):
    """Of one exchange: what is sent for two, but not for one, is its own."""
    print("""
Data that a rank sends in an exchange of 1 MiB, by Open MPI's counters (`pml_monitoring_enable`), and
the theoretical minimum:

| exchange | ranks | MiB, mean of all ranks | MiB, largest of a rank | minimum |
| --- | --- | --- | --- | --- |""")
    least = {"AllReduce": lambda n: 2 * (n - 1) / n, "ReduceScatter": lambda n: (n - 1) / n,
             "AllGather": lambda n: n - 1, "AllToAll": lambda n: (n - 1) / n}
    for op, wanted in least.items():
        for ranks in (2, 4):
            one, two = (sent_by_ranks(bench, op, ranks, 2**18, times) for times in (1, 2))
            each = [(b - a) / 2**20 for a, b in zip(one, two)]
            print(f"| {op} | {ranks} | {sum(each) / ranks:.4f} | {max(each):.4f} |"
                  f" {wanted(ranks):.4f} |")


def weights(bench):
    print("""
Weights of a rank, of all ranks, and exchanges, for BERT-large's layers and ResNet-50 split by
weights (`keel run --np N --split tensor`):

| ranks | BERT-large's layers, MiB | exchanges | ResNet-50, MiB | exchanges |
| --- | --- | --- | --- | --- |""")
    for ranks in (1, 2, 4):
        cells = []
        for model in ("layers.onnx", "images.onnx"):
            said = output_of(bench.keel, "run", bench.path(model), "--np", ranks, "--split",
                             "tensor")
            found = re.search(r"(\d+) exchanges; weights ([0-9.]+) MiB of ([0-9.]+)", said)
            cells.append(f"{found[2]} of {found[3]} | {found[1]}")
        print(f"| {ranks} | {' | '.join(cells)} |")


def hidden(bench):
    """The median of five runs of each, in turn."""
    alone, shares = {}, {}
    for way in ("raw", "keel") * 5:
        for line in output_of(*MPIRUN, "-n", 2, bench.exchanges, way).splitlines():
            if not line.startswith("{"):
                continue
            one = json.loads(line)
            alone.setdefault((one["way"], one["bytes"]), []).append(one["alone_us"])
            if "beside_us" in one:
                share = 1 - (one["beside_us"] - one["device_us"]) / one["alone_us"]
                shares.setdefault((one["way"], one["bytes"]), []).append(share)
    small = {way: alone[(way, 4)] for way in ("raw", "keel", "wake", "handed")}
    added = median(keel - handed for keel, handed in zip(small["keel"], small["handed"]))
    print(f"""
An AllReduce of 4 bytes between two ranks: {median(small["raw"]):.1f} µs by MPI_Iallreduce and MPI_Wait, {median(small["keel"]):.1f} µs as a
run of Keel's program, in which another thread calls MPI. To wake a thread and be woken by it takes
{median(small["wake"]):.1f} µs alone, and {median(small["handed"]):.1f} where that thread calls MPI and both ranks do so at once: Keel adds
{added:.1f}. These are tenth percentiles, and the medians of five runs. Four threads share two cores: each
gives its core away once before it sleeps, so that few are woken.

Larger ones during five milliseconds of computation on a device (a stand-in that sleeps). Hidden is
the share of an exchange's time that the computation overlaps (the median of five runs):

| bytes | hidden, MPI alone | hidden, Keel |
| --- | --- | --- |""")
    for size in (2**20, 2**22):
        raw, keel = (median(shares[(way, size)]) for way in ("raw", "keel"))
        print(f"| {size} | {max(raw, 0):.2f} | {min(keel, 1):.2f} |")


# ---- tables ----------------------------------------------------------------------------------------

def table(result):
    print(f"\n{result['about']}. On one rank {result['measured'] * 1e3:.0f} ms, measured.\n")
    print("| ranks | ms, simulated | of them computing | speedup | efficiency | exchanges |"
          " MiB a rank sends | MiB of weights |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in result["rows"]:
        weights = f"{row['weights']:.1f}" if row["weights"] is not None else "97.5"
        print(f"| {row['ranks']} | {row['time'] * 1e3:.2f} | {row['computed'] * 1e3:.2f} |"
              f" {row['gain']:.2f} | {row['efficiency']:.3f} | {row['exchanges']} |"
              f" {row['sent'] / 2**20:.2f} | {weights} |")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    bench, most = Bench(sys.argv[1], sys.argv[2]), int(sys.argv[3])
    bench.measure()
    flops = 2 * 1024**3 / bench.measured["product.keel"]
    moved = 3 * 4 * 4096**2 / bench.measured["sum.keel"]
    bytes_as = f"{flops / moved:.3f}"
    results = [simulate(bench, w, bytes_as, most) for w in WORKLOADS]
    with open(bench.path("figures.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print("\n### Measured\n\nOn two cores, so that four ranks share them.")
    bytes_sent(bench)
    hidden(bench)
    weights(bench)
    version = re.search(r"[0-9]+\.[0-9]+", output_of("smpirun", "-version"))[0]
    print(f"""
### Simulated

By SimGrid {version}, its SMPI model of networks, and Open MPI's choice of algorithms
(`smpi/coll-selector:ompi`). Each rank is a host of its own at one switch, by links of
{ETHERNET[0] * 8e-9:.0f} Gbit/s and {ETHERNET[1] * 1e6:.0f} µs unless stated otherwise. A host computes as fast as the measured
one, of two cores: an op takes as long as its flops at {flops * 1e-9:.0f} Gflop/s, or its bytes at {moved * 1e-9:.1f} GB/s
(`--bytes-as {bytes_as}`), and each model is scaled to the best that it took on one rank. Nothing is
computed during an exchange. Beyond 16 ranks the layers' heads can't be shared: each rank computes
all of attention, and values are gathered before it.""")
    for result in results:
        table(result)
    print()


main()
