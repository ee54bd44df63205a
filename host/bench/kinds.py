#!/usr/bin/env python3
"""Small models of kinds that applications bring and benchmarks of architectures do not have, beside ONNX
Runtime: windows over one or few columns, products with few columns, recurrent layers of batch 1.

usage: kinds.py [--only GLOB,...] [--threads 1,2] [--seconds S] --keel FILE

Needs Python's numpy, onnx and onnxruntime, and the program `keel`. A figure is the least of many runs, in
milliseconds; the two runtimes take turns. The last column is Keel's time over ONNX Runtime's.
"""
import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

from shapes import Writer, weights


def conv(w, x, outs, ins, kernel, **attrs):
    count = ins * kernel[0] * kernel[1]
    return w.op("Conv", x, w.constant(weights(w.rng, count, outs).T.reshape(outs, ins, *kernel).copy()),
                w.weight(outs), **attrs)


def windows():
    for wide in (1, 2, 3, 4, 8, 16):
        dims = [1, 128, 512, wide]
        for op in ("MaxPool", "AveragePool"):
            for step in (1, 2):
                yield f"{op}_w{wide}_s{step}", dims, lambda w, op=op, step=step: w.op(
                    op, "x", kernel_shape=[3, 1], strides=[step, 1])
        yield f"LpPool_w{wide}", dims, lambda w: w.op("LpPool", "x", kernel_shape=[3, 1], strides=[2, 1])
        yield f"Conv_w{wide}", [1, 256, 512, wide], lambda w: conv(w, "x", 256, 256, (5, 1), pads=[2, 0, 2, 0])
        yield f"Conv64_w{wide}", [1, 64, 512, wide], lambda w: conv(w, "x", 64, 64, (3, 1), pads=[1, 0, 1, 0])
        yield f"Conv_batch_w{wide}", [4, 64, 301, wide], lambda w: conv(w, "x", 96, 64, (7, 1), strides=[2, 1])
        yield f"Depthwise_w{wide}", [1, 256, 512, wide], lambda w: conv(w, "x", 256, 1, (5, 1), group=256,
                                                                        pads=[2, 0, 2, 0])
        yield f"ConvTranspose_w{wide}", [1, 64, 256, wide], lambda w: w.op(
            "ConvTranspose", "x", w.constant(weights(w.rng, 64, 256).reshape(64, 64, 4, 1).copy()), strides=[2, 1])
    yield "MaxPool_rows1", [1, 128, 1, 512], lambda w: w.op("MaxPool", "x", kernel_shape=[1, 3])
    yield "Conv_rows1", [1, 256, 1, 512], lambda w: conv(w, "x", 256, 256, (1, 5), pads=[0, 2, 0, 2])
    yield "MaxPool_line", [1, 128, 512], lambda w: w.op("MaxPool", "x", kernel_shape=[3])
    yield "MaxPool_chain_w1", [1, 64, 2048, 1], lambda w: w.op("MaxPool", w.op("Relu", conv(
        w, w.op("MaxPool", w.op("Relu", conv(w, "x", 64, 64, (9, 1))), kernel_shape=[4, 1], strides=[4, 1]),
        128, 64, (9, 1))), kernel_shape=[4, 1], strides=[4, 1])


def products():
    for n in (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48):
        yield f"MatMul_n{n}", [2048, 256], lambda w, n=n: w.op("MatMul", "x", w.weight(256, n))
    for m, k, n in ((200, 2048, 5), (4096, 200, 16), (5, 512, 4096), (1, 1024, 1000), (7, 768, 30), (1000, 64, 2)):
        yield f"Gemm_{m}x{k}x{n}", [m, k], lambda w, k=k, n=n: w.op("Gemm", "x", w.weight(k, n), w.weight(n))


def recurrent():
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, batch, ins, size, ways in ((16, 1, 256, 128, 2), (16, 1, 160, 160, 1), (100, 1, 400, 400, 1),
                                              (50, 1, 64, 64, 1), (20, 2, 128, 256, 1), (1, 1, 512, 512, 1)):
            def make(w, op=op, gates=gates, ins=ins, size=size, ways=ways):
                more = {"linear_before_reset": 1} if op == "GRU" and ways == 2 else {}
                return w.op(op, "x", w.constant(weights(w.rng, ins, ways * gates * size).T.reshape(
                    ways, gates * size, ins).copy()), w.constant(weights(w.rng, size, ways * gates * size).T.reshape(
                        ways, gates * size, size).copy()), w.weight(ways, 2 * gates * size), hidden_size=size,
                            direction="bidirectional" if ways == 2 else "forward", **more)
            yield f"{op}_{steps}x{batch}x{ins}_h{size}_{ways}", [steps, batch, ins], make


RANKS = {"MatMul": 2, "Gemm": 2, "LSTM": 4, "GRU": 4, "RNN": 4}


def peer(args):
    """ONNX Runtime's least time, in this process."""
    import time

    import numpy as np
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(args.threads)
    session = onnxruntime.InferenceSession(args.peer, options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    value = onnxruntime.OrtValue.ortvalue_from_numpy(
        np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    run = session.run_with_ort_values
    names = [one.name for one in session.get_outputs()]
    least, until = 1e9, time.perf_counter() + args.seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        run(names, {"x": value})
        least = min(least, time.perf_counter() - began)
    print(least * 1000)


def told(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def compare(args, path, threads):
    """The less of two turns each."""
    least = [1e9, 1e9]
    for _ in range(2):
        command = [args.keel, "run", "--json", "--threads", threads, path, "--repeat"]
        once = json.loads(told([*command, "20"]))["best_ms"]
        repeat = min(20000, max(20, int(args.seconds * 1000 / once)))
        least[0] = min(least[0], json.loads(told([*command, str(repeat)]))["best_ms"])
        least[1] = min(least[1], float(told([sys.executable, __file__, "--keel", args.keel, "--peer", path,
                                             "--threads", threads, "--seconds", str(args.seconds)])))
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--keel", required=True)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        peer(args)
        return
    import onnx
    print(f"{'kind':<28} threads      Keel  ONNX Runtime   ratio")
    with tempfile.TemporaryDirectory() as folder:
        for name, dims, make in (*windows(), *products(), *recurrent()):
            if not any(fnmatch.fnmatch(name, glob) for glob in args.only.split(",")):
                continue
            writer, path = Writer(), os.path.join(folder, name + ".onnx")
            rank = RANKS.get(name.split("_")[0], len(dims))
            onnx.save(writer.model({"x": dims}, {make(writer): rank}), path)
            for threads in args.threads.split(","):
                keel, other = compare(args, path, threads)
                print(f"{name:<28} {threads:>7} {keel:>9.4f} {other:>13.4f} {keel / other:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
