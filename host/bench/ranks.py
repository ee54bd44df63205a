#!/usr/bin/env python3
"""Simulates models on 1, 2, 4 ... ranks: tables on standard output, and FOLDER/figures.json.

usage: ranks.py KEEL FOLDER MOST    FOLDER has the models of `bench/ranks models`
"""
import json
import os
import re
import subprocess
import sys

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


class Bench:
    def __init__(self, keel, folder):
        self.keel, self.folder = keel, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def seconds(self, model, *words):
        """The best of some runs on this machine."""
        said = output_of(self.keel, "run", self.path(model), "--repeat", 5, "--json", *words)
        return json.loads(said)["best_ms"] * 1e-3

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
    key, about, model, run_words, compile_words, link, kind = workload
    alone = bench.seconds(model, *run_words)
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
    flops = 2 * 1024**3 / bench.seconds("product.keel")
    moved = 3 * 4 * 4096**2 / bench.seconds("sum.keel")
    bytes_as = f"{flops / moved:.3f}"
    results = [simulate(bench, w, bytes_as, most) for w in WORKLOADS]
    with open(bench.path("figures.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    version = re.search(r"[0-9]+\.[0-9]+", output_of("smpirun", "-version"))[0]
    print(f"""
Simulated by SimGrid {version}, its SMPI model of networks, and Open MPI's choice of algorithms
(`smpi/coll-selector:ompi`). Each rank is a host of its own at one switch, by links of
{ETHERNET[0] * 8e-9:.0f} Gbit/s and {ETHERNET[1] * 1e6:.0f} µs where nothing else is said. A host computes as fast as the measured
one, of two cores: an op takes as long as its flops at {flops * 1e-9:.0f} Gflop/s, or its bytes at {moved * 1e-9:.1f} GB/s
(`--bytes-as {bytes_as}`), and each model is scaled to what it took on one rank. Nothing is
computed during an exchange. Beyond 16 ranks the layers' heads can't be shared: each rank computes
all of attention, and values are gathered before it.""")
    for result in results:
        table(result)
    print()


main()
