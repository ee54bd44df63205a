#!/usr/bin/env python3
"""What a run of a small model costs from Python, beside ONNX Runtime: microseconds of a call whose
work is next to nothing, by the number of inputs and outputs.

usage: python_calls.py [--counts 1,2,8,20] [--lib FILE] [--calls N]

Needs Python's numpy, onnx and onnxruntime. A figure is the least mean of seven series of calls. The
arrays differ from call to call: in values, and in the columns "shapes" and "types" also in these,
which follow each other in turn. Both runtimes give arrays of NumPy. "ctypes" is Keel without its
calls in C.
"""
import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = ("float32", "int64", "float64", "uint8", "int32")


def model(count, types):
    """y0 = x0 + x0, y1 = x1 + x1 ..., with an open first dimension."""
    import numpy as np
    from onnx import helper
    ports = [(helper.np_dtype_to_tensor_dtype(np.dtype(types[i % len(types)]))) for i in range(count)]
    nodes = [helper.make_node("Add", [f"x{i}"] * 2, [f"y{i}"]) for i in range(count)]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(f"x{i}", t, ["n", 4]) for i, t in enumerate(ports)],
        [helper.make_tensor_value_info(f"y{i}", t, ["n", 4]) for i, t in enumerate(ports)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def least(call, sets, calls):
    best = float("inf")
    for one in sets:
        call(one)
    for _ in range(7):
        began = time.perf_counter()
        for i in range(calls):
            call(sets[i % len(sets)])
        best = min(best, (time.perf_counter() - began) / calls)
    return best * 1e6


def measure(args):
    """The figures of one runtime and count, in this process."""
    import numpy as np
    import onnx
    count, figures = int(args.counts), []
    for types, heights in ((TYPES[:1], (1,)), (TYPES[:1], (1, 7, 2, 9, 3, 16, 5)), (TYPES, (1,))):
        path = os.path.join(args.folder, "calls.onnx")
        onnx.save(model(count, types), path)
        names = [f"x{i}" for i in range(count)]
        sets = [{name: np.full((height, 4), k, types[i % len(types)]) for i, name in enumerate(names)}
                for height in heights for k in range(3)]
        if args.runtime == "ort":
            import onnxruntime
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            call = lambda named: session.run(None, named)
        else:
            import keel
            loaded = keel.open(threads=1).load(path)
            call = lambda named: [output.numpy() for output in loaded.run(**named)]
        for one in sets:
            for output, given in zip(call(one), one.values()):
                if not np.array_equal(output, given + given):
                    sys.exit(f"{args.runtime}: a wrong result")
        figures.append(least(call, sets, args.calls))
    print(*figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="1,2,8,20", help="of inputs, and as many outputs")
    parser.add_argument("--calls", type=int, default=2000, help="in each series")
    parser.add_argument("--lib", help="libkeel.so (KEEL_LIBRARY)")
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--runtime", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.runtime:
        measure(args)
        return
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", PYTHONPATH=os.path.join(HERE, "../bridges/python"))
    if args.lib:
        environment["KEEL_LIBRARY"] = args.lib
    print("                    of one kind           shapes in turn        of five types")
    print("inputs              Keel    ORT  ratio    Keel    ORT  ratio    Keel    ORT  ratio")
    for count in args.counts.split(","):
        taken = {}
        for runtime in ("keel", "ctypes", "ort"):
            run = dict(environment, KEEL_PYTHON_CALLS="") if runtime == "ctypes" else environment
            done = subprocess.run(
                [sys.executable, __file__, "--runtime", runtime, "--counts", count, "--calls",
                 str(args.calls), "--folder", args.folder], env=run, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{runtime}: {done.stderr}")
            taken[runtime] = [float(word) for word in done.stdout.split()]
        for name in ("keel", "ctypes"):
            row = "".join(f" {a:>7.2f}{b:>7.2f}{a / b:>7.2f}" for a, b in zip(taken[name], taken["ort"]))
            print(f"{count:>6} {'in C' if name == 'keel' else name:<8}{row}", flush=True)


if __name__ == "__main__":
    main()
