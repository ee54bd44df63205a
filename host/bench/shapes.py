#!/usr/bin/env python3
"""Models whose sizes change from run to run, beside ONNX Runtime: how many milliseconds of processor
time a unit of work takes where 1, 8, 9 ... sets of sizes come in turn, or at random.

usage: shapes.py [--models mlp,text,picture,steps] [--sets 1,8,9,16,40] [--order turn|random]
                 [--threads 1,2] [--runs N] [--lib FILE] [--plugins DIR]

Needs Python's numpy, onnx and onnxruntime. Each figure is of a process of its own: the model is loaded,
its first set runs once, then come N rounds of all sets (at least two), of which all count, with what is
prepared for new sizes. The last column is Keel's time over ONNX Runtime's, at its better setting of
spinning threads. A unit is a row, a word, a picture or a step.
"""
import argparse
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def weights(rng, *dims):
    import numpy as np
    return (rng.standard_normal(dims) / np.sqrt(dims[0])).astype(np.float32)


class Writer:
    """An ONNX model, node by node."""

    def __init__(self):
        import numpy as np
        self.rng = np.random.default_rng(1)
        self.nodes, self.constants, self.count = [], [], 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        from onnx import numpy_helper
        name = self.name()
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *dims):
        return self.constant(weights(self.rng, *dims))

    def ints(self, *numbers):
        import numpy as np
        return self.constant(np.array(numbers, np.int64))

    def op(self, op, *inputs, **attrs):
        from onnx import helper
        name = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def model(self, dims, output, rank):
        from onnx import TensorProto, helper
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
        y = helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * rank)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def mlp(w):
    x = "x"
    for a, b in ((784, 1024), (1024, 1024), (1024, 1024), (1024, 10)):
        x = w.op("Relu", w.op("Gemm", x, w.weight(a, b), w.weight(b)))
    return w.model(["batch", 784], x, 2)


def text(w, layers=4, size=512, heads=8):
    """A transformer's encoder, [batch, length, size]."""
    import numpy as np
    x, each = "x", size // heads
    shape = w.ints(0, 0, heads, each)
    flat = w.ints(0, 0, size)
    root = w.constant(np.array(np.sqrt(each), np.float32))

    def linear(value, a, b):
        return w.op("Add", w.op("MatMul", value, w.weight(a, b)), w.weight(b))

    def norm(value):
        return w.op("LayerNormalization", value, w.constant(np.ones(size, np.float32)),
                    w.constant(np.zeros(size, np.float32)), axis=-1)

    for _ in range(layers):
        q, k, v = (w.op("Reshape", linear(x, size, size), shape) for _ in range(3))
        q = w.op("Transpose", q, perm=[0, 2, 1, 3])
        k = w.op("Transpose", k, perm=[0, 2, 3, 1])
        v = w.op("Transpose", v, perm=[0, 2, 1, 3])
        scores = w.op("Softmax", w.op("Div", w.op("MatMul", q, k), root), axis=-1)
        y = w.op("Transpose", w.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = norm(w.op("Add", x, linear(w.op("Reshape", y, flat), size, size)))
        h = linear(x, size, 4 * size)
        h = w.op("Mul", w.op("Mul", h, w.constant(np.array(0.5, np.float32))),
                 w.op("Add", w.op("Erf", w.op("Div", h, w.constant(np.array(np.sqrt(2), np.float32)))),
                      w.constant(np.array(1, np.float32))))
        x = norm(w.op("Add", x, linear(h, 4 * size, size)))
    return w.model(["batch", "length", size], x, 3)


def picture(w):
    """A small residual network, [batch, 3, height, width]."""
    def conv(value, a, b, step=1, kernel=3):
        weight = weights(w.rng, a * kernel * kernel, b).T.reshape(b, a, kernel, kernel).copy()
        return w.op("Conv", value, w.constant(weight), w.weight(b), strides=[step, step],
                    pads=[kernel // 2] * 4)

    x = w.op("Relu", conv("x", 3, 64, 2, 7))
    channels = 64
    for wide in (64, 128, 256):
        step = 1 if wide == channels else 2
        for i in range(2):
            y = w.op("Relu", conv(x, channels, wide, step))
            y = conv(y, wide, wide)
            near = x if step == 1 and channels == wide else conv(x, channels, wide, step, 1)
            x = w.op("Relu", w.op("Add", y, near))
            channels, step = wide, 1
    x = w.op("Flatten", w.op("GlobalAveragePool", x))
    return w.model(["batch", 3, "height", "width"], w.op("Gemm", x, w.weight(256, 100)), 2)


def steps(w, size=256):
    x = w.op("Transpose", "x", perm=[1, 0, 2])
    for _ in range(2):
        gates = weights(w.rng, size, 4 * size).T.reshape(1, 4 * size, size).copy()
        again = weights(w.rng, size, 4 * size).T.reshape(1, 4 * size, size).copy()
        x = w.op("LSTM", x, w.constant(gates), w.constant(again), hidden_size=size)
        x = w.op("Squeeze", x, w.ints(1))
    return w.model(["batch", "steps", size], x, 3)


# name: the model, and set i's shape and units
MODELS = {
    "mlp": (mlp, lambda i: ((1 + i, 784), 1 + i)),
    "text": (text, lambda i: ((1 + i % 3, 16 + i, 512), (1 + i % 3) * (16 + i))),
    "picture": (picture, lambda i: ((1 + i % 4, 3, 64 + 8 * (i // 4), 64), 1 + i % 4)),
    "steps": (steps, lambda i: ((1, 8 + i, 256), 8 + i)),
}


def order_of(args, count):
    if args.order == "turn":
        rounds = max(2, args.runs // count)
        return [i for _ in range(rounds) for i in range(count)]
    rng = random.Random(7)
    return [rng.randrange(count) for _ in range(max(args.runs, 2 * count))]


def measure(args):
    """One figure, in this process."""
    import numpy as np
    make, shape = MODELS[args.model]
    path = os.path.join(args.folder, args.model + ".onnx")
    rng = np.random.default_rng(2)
    inputs = {}
    count = int(args.sets)
    for i in range(count):
        inputs[i] = rng.standard_normal(shape(i)[0]).astype(np.float32)
    if args.runtime == "keel":
        import keel
        context = keel.open(threads=int(args.threads))
        model = context.load(path)
        run = model.run
    else:
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(args.threads)
        spins = "1" if args.runtime == "ort-spins" else "0"
        options.add_session_config_entry("session.intra_op.allow_spinning", spins)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        run = lambda x: session.run(None, {"x": x})
    run(inputs[0])
    units = 0
    began = time.process_time()
    for i in order_of(args, count):
        run(inputs[i])
        units += shape(i)[1]
    print((time.process_time() - began) * 1000 / units)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp,text,picture,steps")
    parser.add_argument("--sets", default="1,8,9,16,40")
    parser.add_argument("--order", default="turn", choices=["turn", "random"])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--lib", help="libkeel.so (KEEL_LIBRARY)")
    parser.add_argument("--plugins", help="folder of plugins (KEEL_PLUGIN_PATH)")
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--runtime", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.runtime:
        measure(args)
        return
    import onnx
    environment = dict(os.environ)
    environment["OPENBLAS_NUM_THREADS"] = "1"  # numpy's threads spin after its import
    environment["PYTHONPATH"] = os.path.join(HERE, "../bridges/python")
    if args.lib:
        environment["KEEL_LIBRARY"] = args.lib
    if args.plugins:
        environment["KEEL_PLUGIN_PATH"] = args.plugins
    print("model    threads  sets      Keel  ONNX Runtime   ratio")
    for name in args.models.split(","):
        onnx.save(MODELS[name][0](Writer()), os.path.join(args.folder, name + ".onnx"))
        for threads in args.threads.split(","):
            for sets in args.sets.split(","):
                taken = {}
                for runtime in ("keel", "ort-spins", "ort"):
                    done = subprocess.run(
                        [sys.executable, __file__, "--runtime", runtime, "--model", name, "--threads", threads,
                         "--sets", sets, "--order", args.order, "--runs", str(args.runs),
                         "--folder", args.folder], env=environment, capture_output=True, text=True, check=False)
                    if done.returncode:
                        sys.exit(f"{runtime}, {name}: {done.stderr}")
                    taken[runtime] = float(done.stdout)
                best = min(taken["ort"], taken["ort-spins"])
                print(f"{name:<8} {threads:>7} {sets:>5} {taken['keel']:>9.4f} {best:>13.4f}"
                      f" {taken['keel'] / best:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
