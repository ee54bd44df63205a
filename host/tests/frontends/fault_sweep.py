"""Makes each slot of a device fail with each status, at several of its calls, while commands
of `keel` run: each ends with status 0 and the right result, or with status 1 and a sentence.
No crash, no hang, no silence; and a full device's BUSY is waited for.

usage: fault_sweep.py KEEL [--every N] --plugin PATH --device NAME [--beside NAME] [--command C]...

The model is made here, of ops that small devices have. Half of the failures say nothing, as a
plugin may. --every N: each N-th status for a slot, which ones depends on slot and command.
--beside: a second device, for the command `group`. --command: run, eager, group, compile or
profile (all of them).
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile
import zlib

from onnx_writer import model, node, tensor

STATUSES = ["CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
            "ALREADY_EXISTS", "PERMISSION_DENIED", "OUT_OF_MEMORY", "FAILED_PRECONDITION",
            "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
            "UNAUTHENTICATED", "INCOMPATIBLE", "DEVICE_LOST", "BUSY"]
CALLS = 1, 3
# calls that a full device refuses with BUSY, and that the host repeats
REPEATED = ["memory.copy_in", "memory.copy_out", "kernel.enqueue", "region.enqueue",
            "event.record", "stream.wait", "capture.launch"]


def slots_of(keel):
    """The fault layer lists them where it does not know one."""
    told = subprocess.run([keel, "devices"], capture_output=True, text=True,
                          env={**os.environ, "KEEL_LAYERS": "fault:no.such.slot.at.all=1"})
    return re.search(r"can be one of (.*)", told.stderr).group(1).split(", ")


def write_model(scratch):
    """y = Relu(x * k + x), sums of its rows, and its largest elements."""
    x = tensor("f32", *range(-6, 6), dims=[3, 4])
    k = tensor("f32", *[i % 5 - 1 for i in range(16)], dims=[4, 4])
    products = [sum(x.values[r * 4 + i] * k.values[i * 4 + c] for i in range(4))
                for r in range(3) for c in range(4)]
    y = tensor("f32", *[max(0, p + v) for p, v in zip(products, x.values)], dims=[3, 4])
    s = tensor("f32", *[sum(y.values[r * 4:r * 4 + 4]) for r in range(3)], dims=[3, 1])
    nodes = [node("MatMul", ["x", "k"], ["m"]), node("Add", ["m", "x"], ["a"]),
             node("Relu", ["a"], ["y"]), node("ReduceSum", ["y", "one"], ["s"])]
    content = model(nodes, {"x": x}, {"y": y, "s": s}, {"": 17},
                    constants={"k": k, "one": tensor("i64", 1)})
    for name, data in (("model.onnx", content), ("x.pb", x.bytes("x")), ("y.pb", y.bytes("y")),
                       ("s.pb", s.bytes("s"))):
        with open(os.path.join(scratch, name), "wb") as file:
            file.write(data)


def commands(all, scratch):
    at = scratch + "/model.onnx"
    data = ["--input", scratch + "/x.pb", "--expect", scratch + "/y.pb", "--expect",
            scratch + "/s.pb"]
    common = [x for p in all.plugin for x in ("--plugin", p)]
    run = [all.keel, "run", at, "--device", all.device, "--repeat", "4"] + data + common
    both = [all.keel, "run", at, "--devices", "%s,%s" % (all.device, all.beside), "--split",
            "tensor", "--repeat", "3"] + data + common
    return {"run": run, "eager": run + ["--eager"], "profile": run + ["--profile"],
            **({"group": both} if all.beside else {}),
            "compile": [all.keel, "compile", at, "--device", all.device, "-o",
                        "SCRATCH/out.keel"] + common}


def try_one(line, slot, number, status):
    with tempfile.TemporaryDirectory() as scratch:
        line = [word.replace("SCRATCH", scratch) for word in line]
        env = {**os.environ, "KEEL_LAYERS": "fault:%s=%d:%s" % (slot, number, status),
               "XDG_CACHE_HOME": scratch, "KEEL_THREADS": "2"}
        try:
            ran = subprocess.run(line, capture_output=True, text=True, env=env, timeout=120,
                                 errors="replace")
        except subprocess.TimeoutExpired:
            return "hangs", ""
    if "Sanitizer" in ran.stderr:
        return "crashes", ran.stderr[:2000]
    said = [text for text in (ran.stderr + ran.stdout).splitlines() if text.startswith("keel")
            and "warning:" not in text]
    if ran.returncode == 0:
        return ("not called" if "nothing failed" in ran.stderr else "recovers"), ""
    if ran.returncode not in (1, 2):
        return "crashes", "exit status %d: %s" % (ran.returncode, ran.stderr[-300:])
    if not said or not re.search(r"[a-z]{2}.* .*[a-z]", said[-1]):
        return "is silent", ran.stderr[-300:]
    if "DIFFERS" in ran.stdout:
        return "differs", ran.stdout[-300:]
    return "says why", said[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("keel")
    parser.add_argument("--plugin", action="append", default=[])
    parser.add_argument("--device", required=True)
    parser.add_argument("--beside")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--command", action="append")
    parser.add_argument("--show", action="store_true", help="print each sentence")
    all = parser.parse_args()
    slots, counts, wrong, sentences = slots_of(all.keel), {}, [], set()
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {}
        write_model(scratch)
        for name, line in commands(all, scratch).items():
            if all.command and name not in all.command:
                continue
            for slot in slots:
                for at, status in enumerate(STATUSES):
                    full = status == "BUSY" and slot in REPEATED
                    if (zlib.crc32((name + slot).encode()) + at) % all.every and not full:
                        continue
                    for number in CALLS:
                        said = status + (":wordless" if (at + number) // 2 % 2 else "")
                        job = pool.submit(try_one, line, slot, number, said)
                        waiting[job] = "%s, %s=%d:%s" % (name, slot, number, said)
        for job, what in waiting.items():
            how, text = job.result()
            slot, _, status = what.split(", ")[1].partition("=")
            queued = "cpu:0" not in text  # which has no queue that could be full
            if how == "says why" and "BUSY" in status and slot in REPEATED and queued:
                how = "is not repeated"
            counts[how] = counts.get(how, 0) + 1
            sentences.add(text)
            if how in ("hangs", "crashes", "is silent", "differs",
                       "is not repeated"):
                wrong.append("%s: %s: %s" % (what, how, text))
    if all.show:
        print("\n".join(sorted(sentences)))
    print("\n".join(wrong))
    print("%d runs: %s" % (len(waiting), ", ".join(
        "%d %s" % (n, how) for how, n in sorted(counts.items()))))
    return 1 if wrong else 0


sys.exit(main())
