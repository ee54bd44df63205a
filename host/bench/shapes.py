#!/usr/bin/env python3
"""Models whose sizes change from run to run, beside ONNX Runtime: how many milliseconds of processor
time a unit of work takes where 1, 8, 9 ... sets of sizes come in turn, or at random.

usage: shapes.py [--models mlp,text,decoder,picture,detector,steps] [--sets 1,8,9,16,40] [--order turn|random]
                 [--threads 1,2] [--runs N] [--lib FILE] [--plugins DIR]

Needs Python's numpy, onnx and onnxruntime. Each figure is of a process of its own: the model is loaded,
its first set runs once, then come N rounds of all sets (at least two), of which all count, with what is
prepared for new sizes. The last column is Keel's time over ONNX Runtime's, at its better setting of
spinning threads. A unit is a row, a word, a token, a picture or a step.
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

    def model(self, inputs, outputs):
        """inputs: dims by name; outputs: ranks by name."""
        from onnx import TensorProto, helper
        x = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
        y = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
             for name, rank in outputs.items()]
        graph = helper.make_graph(self.nodes, "g", x, y, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def mlp(w):
    x = "x"
    for a, b in ((784, 1024), (1024, 1024), (1024, 1024), (1024, 10)):
        x = w.op("Relu", w.op("Gemm", x, w.weight(a, b), w.weight(b)))
    return w.model({"x": ["batch", 784]}, {x: 2})


def linear(w, value, a, b):
    return w.op("Add", w.op("MatMul", value, w.weight(a, b)), w.weight(b))


def norm(w, value, size):
    import numpy as np
    return w.op("LayerNormalization", value, w.constant(np.ones(size, np.float32)),
                w.constant(np.zeros(size, np.float32)), axis=-1)


def gelu(w, h):
    import numpy as np
    half, root, one = (w.constant(np.array(number, np.float32)) for number in (0.5, np.sqrt(2), 1))
    return w.op("Mul", w.op("Mul", h, half), w.op("Add", w.op("Erf", w.op("Div", h, root)), one))


def attend(w, q, k, v, root):
    """q, v: [batch, heads, length, each]; k: with its last two dimensions exchanged."""
    scores = w.op("Softmax", w.op("Div", w.op("MatMul", q, k), root), axis=-1)
    return w.op("Transpose", w.op("MatMul", scores, v), perm=[0, 2, 1, 3])


def text(w, layers=4, size=512, heads=8):
    """A transformer's encoder, [batch, length, size]."""
    import numpy as np
    x, each = "x", size // heads
    shape = w.ints(0, 0, heads, each)
    flat = w.ints(0, 0, size)
    root = w.constant(np.array(np.sqrt(each), np.float32))
    for _ in range(layers):
        q, k, v = (w.op("Reshape", linear(w, x, size, size), shape) for _ in range(3))
        y = attend(w, w.op("Transpose", q, perm=[0, 2, 1, 3]), w.op("Transpose", k, perm=[0, 2, 3, 1]),
                   w.op("Transpose", v, perm=[0, 2, 1, 3]), root)
        x = norm(w, w.op("Add", x, linear(w, w.op("Reshape", y, flat), size, size)), size)
        x = norm(w, w.op("Add", x, linear(w, gelu(w, linear(w, x, size, 4 * size)), 4 * size, size)), size)
    return w.model({"x": ["batch", "length", size]}, {x: 3})


def decoder(w, layers=4, size=512, heads=8):
    """One token's step of a transformer's decoder: a cache that grows, [1, heads, past, each] of keys and
    values in each layer, and what an encoder has made, [1, 100, size]."""
    import numpy as np
    x, each = "x", size // heads
    shape = w.ints(0, 0, heads, each)
    flat = w.ints(0, 0, size)
    root = w.constant(np.array(np.sqrt(each), np.float32))
    inputs, outputs = {"x": [1, 1, size], "seen": [1, 100, size]}, {}

    def heads_of(value):
        return w.op("Transpose", w.op("Reshape", linear(w, value, size, size), shape), perm=[0, 2, 1, 3])

    for i in range(layers):
        q, k, v = (heads_of(x) for _ in range(3))
        inputs[f"keys{i}"] = inputs[f"values{i}"] = [1, heads, "past", each]
        k, v = w.op("Concat", f"keys{i}", k, axis=2), w.op("Concat", f"values{i}", v, axis=2)
        outputs[k] = outputs[v] = 4
        y = attend(w, q, w.op("Transpose", k, perm=[0, 1, 3, 2]), v, root)
        x = norm(w, w.op("Add", x, linear(w, w.op("Reshape", y, flat), size, size)), size)
        q, k, v = heads_of(x), heads_of("seen"), heads_of("seen")
        y = attend(w, q, w.op("Transpose", k, perm=[0, 1, 3, 2]), v, root)
        x = norm(w, w.op("Add", x, linear(w, w.op("Reshape", y, flat), size, size)), size)
        x = norm(w, w.op("Add", x, linear(w, gelu(w, linear(w, x, size, 4 * size)), 4 * size, size)), size)
    return w.model(inputs, {x: 3, **outputs})


def conv(w, value, a, b, step=1, kernel=3):
    weight = weights(w.rng, a * kernel * kernel, b).T.reshape(b, a, kernel, kernel).copy()
    return w.op("Conv", value, w.constant(weight), w.weight(b), strides=[step, step], pads=[kernel // 2] * 4)


def residual(w, x, channels, wide, step):
    y = w.op("Relu", conv(w, x, channels, wide, step))
    y = conv(w, y, wide, wide)
    near = x if step == 1 and channels == wide else conv(w, x, channels, wide, step, 1)
    return w.op("Relu", w.op("Add", y, near))


def picture(w):
    """A small residual network, [batch, 3, height, width]."""
    x = w.op("Relu", conv(w, "x", 3, 64, 2, 7))
    channels = 64
    for wide in (64, 128, 256):
        for i in range(2):
            x = residual(w, x, channels, wide, 2 if i == 0 and wide > 64 else 1)
            channels = wide
    x = w.op("Flatten", w.op("GlobalAveragePool", x))
    return w.model({"x": ["batch", 3, "height", "width"]}, {w.op("Gemm", x, w.weight(256, 100)): 2})


def detector(w):
    """Two scales of a picture, [1, 3, height, width]: boxes and scores of each place, and those that
    suppression leaves. Sizes are multiples of 16."""
    import numpy as np
    x = w.op("Relu", conv(w, "x", 3, 32, 2))
    x = residual(w, x, 32, 64, 2)
    fine = residual(w, x, 64, 128, 2)
    coarse = residual(w, fine, 128, 256, 2)
    up = w.op("Resize", conv(w, coarse, 256, 128, 1, 1), "", w.constant(np.array([1, 1, 2, 2], np.float32)),
              mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    fine = w.op("Relu", conv(w, w.op("Concat", fine, up, axis=1), 256, 128))
    rows = w.ints(1, 6, -1)
    found = [w.op("Reshape", conv(w, value, wide, 6, 1, 1), rows) for value, wide in ((fine, 128), (coarse, 256))]
    found = w.op("Transpose", w.op("Concat", *found, axis=2), perm=[0, 2, 1])
    boxes = w.op("Sigmoid", w.op("Slice", found, w.ints(0), w.ints(4), w.ints(2)))
    scores = w.op("Transpose", w.op("Sigmoid", w.op("Slice", found, w.ints(4), w.ints(6), w.ints(2))),
                  perm=[0, 2, 1])
    kept = w.op("NonMaxSuppression", boxes, scores, w.ints(20), w.constant(np.array(0.5, np.float32)),
                w.constant(np.array(0.3, np.float32)))
    places = w.op("Squeeze", w.op("Slice", kept, w.ints(2), w.ints(3), w.ints(1)), w.ints(1))
    return w.model({"x": [1, 3, "height", "width"]}, {w.op("Gather", boxes, places, axis=1): 3})


def steps(w, size=256):
    x = w.op("Transpose", "x", perm=[1, 0, 2])
    for _ in range(2):
        gates = weights(w.rng, size, 4 * size).T.reshape(1, 4 * size, size).copy()
        again = weights(w.rng, size, 4 * size).T.reshape(1, 4 * size, size).copy()
        x = w.op("LSTM", x, w.constant(gates), w.constant(again), hidden_size=size)
        x = w.op("Squeeze", x, w.ints(1))
    return w.model({"x": ["batch", "steps", size]}, {x: 3})


def cache(i):
    return {"x": (1, 1, 512), "seen": (1, 100, 512),
            **{f"{kind}{layer}": (1, 8, i, 64) for layer in range(4) for kind in ("keys", "values")}}


# name: the model, and set i's shapes and units
MODELS = {
    "mlp": (mlp, lambda i: ({"x": (1 + i, 784)}, 1 + i)),
    "text": (text, lambda i: ({"x": (1 + i % 3, 16 + i, 512)}, (1 + i % 3) * (16 + i))),
    "decoder": (decoder, lambda i: (cache(i), 1)),
    "picture": (picture, lambda i: ({"x": (1 + i % 4, 3, 64 + 8 * (i // 4), 64)}, 1 + i % 4)),
    "detector": (detector, lambda i: ({"x": (1, 3, 160 + 16 * (i % 7), 128 + 16 * (i // 7))}, 1)),
    "steps": (steps, lambda i: ({"x": (1, 8 + i, 256)}, 8 + i)),
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
        inputs[i] = {name: rng.standard_normal(dims).astype(np.float32) for name, dims in shape(i)[0].items()}
    if args.runtime == "keel":
        import keel
        context = keel.open(threads=int(args.threads))
        model = context.load(path)
        run = lambda named: model.run(**named)
    else:
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(args.threads)
        spins = "1" if args.runtime == "ort-spins" else "0"
        options.add_session_config_entry("session.intra_op.allow_spinning", spins)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        run = lambda named: session.run(None, named)
    run(inputs[0])
    units = 0
    began = time.process_time()
    for i in order_of(args, count):
        run(inputs[i])
        units += shape(i)[1]
    print((time.process_time() - began) * 1000 / units)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
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
