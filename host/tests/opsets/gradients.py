#!/usr/bin/env python3
"""Gradients, beside differences of values that are a little apart.

usage: gradients.py [--seed N] [--keep DIR] [KEEL [OPTION...]], which --help explains

Makes models of double numbers with a Gradient (ai.onnx.preview.training) of each op that has a
rule, computes what it must give by ONNX's reference at two places beside each number (a venv with
onnx and numpy), and lets `keel onnx-test` compare.
"""
import math
import sys

try:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun
except ImportError as error:
    sys.exit(f"gradients.py: {error}; pip install onnx numpy")
from case_script import CaseFolder, run_cases

TRAINING = "ai.onnx.preview.training"
OPSET = 23
STEP = 1e-5


# ONNX's reference has these in floats of 32 bits
class Erf(OpRun):
    def _run(self, x):
        return (np.vectorize(math.erf)(x),)


class Gelu(OpRun):
    def _run(self, x, approximate="none"):
        if approximate == "tanh":
            return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),)
        return (0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),)


def info(name, array, dynamic=False):
    shape = [f"{name}{i}" for i in range(array.ndim)] if dynamic else array.shape
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def model_of(nodes, inputs, outputs, dynamic=False, constants=()):
    graph = helper.make_graph(
        nodes, "gradient",
        [info(k, v, dynamic) for k, v in inputs.items() if k not in constants],
        [helper.make_tensor_value_info(o, TensorProto.DOUBLE, None) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in inputs.items() if k in constants])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", OPSET), helper.make_opsetid(TRAINING, 1)])


class Cases(CaseFolder):
    def __init__(self, folder, random):
        super().__init__(folder)
        self.random = random

    def add(self, name, nodes, xs, zs=None, last="y", dynamic=False, constants=(), elsewhere=False,
            reference=None):
        """nodes: from xs and zs (names to arrays) to `last`, whose weighed sum is y. elsewhere: the
        gradient is taken at other values than the model runs on. reference: nodes that say the
        same, where ONNX's reference does not have these."""
        zs = zs or {}
        inputs = {**xs, **zs}
        forward = ReferenceEvaluator(model_of(reference or nodes, inputs, [last]),
                                     new_ops=[Erf, Gelu])
        shape = forward.run(None, inputs)[0].shape
        weights = np.asarray(self.random.standard_normal(shape))
        differences = []
        for key, x in xs.items():
            slope = np.zeros(x.shape)
            for place in np.ndindex(*x.shape):
                sums = []
                for step in (STEP, -STEP):
                    moved = x.copy()
                    moved[place] += step
                    sums.append((forward.run(None, {**inputs, key: moved})[0] * weights).sum())
                slope[place] = (sums[0] - sums[1]) / (2 * STEP)
            differences.append(slope)
        feeds = dict(inputs)
        places = list(inputs)
        if elsewhere:
            feeds.update({f"other_{k}": self.random.standard_normal(v.shape) for k, v in xs.items()})
            places = [f"other_{k}" if k in xs else k for k in inputs]
            feeds.update({k: feeds[f"other_{k}"] for k in xs})
            feeds.update({f"other_{k}": v for k, v in xs.items()})
        every = nodes + [helper.make_node("Mul", [last, "weights"], ["weighed"]),
                         helper.make_node("ReduceSum", ["weighed"], ["sum"], keepdims=0),
                         helper.make_node("Gradient", places, [f"d_{k}" for k in xs],
                                          domain=TRAINING, xs=list(xs), y="sum",
                                          **({"zs": list(zs)} if zs else {}))]
        feeds["weights"] = weights
        model = model_of(every, feeds, [f"d_{k}" for k in xs], dynamic, constants)
        self.save(name, model, {k: v for k, v in feeds.items() if k not in constants},
                  {f"d_{k}": d for k, d in zip(xs, differences)})


def one(cases, op, *arrays, others=(), name=None, dynamic=False, **attributes):
    """An op of arrays, of which the first have gradients; others: inputs that have none."""
    xs = {f"x{i}": np.asarray(a, np.float64) for i, a in enumerate(arrays)}
    zs = {f"z{i}": np.asarray(a) for i, a in enumerate(others) if a is not None}
    names = list(xs) + ["" if a is None else f"z{i}" for i, a in enumerate(others)]
    cases.add(name or op, [helper.make_node(op, names, ["y"], **attributes)], xs, zs,
              dynamic=dynamic)


def elementwise(cases, random):
    def draw(low, high):
        return random.uniform(low, high, (2, 3))
    around = ["Neg", "Abs", "Exp", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid",
              "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Tanh", "Erf", "Sin", "Cos",
              "Sinh", "Cosh", "Asinh", "Atan", "Mish", "Gelu", "Identity", "ThresholdedRelu",
              "Floor", "Sign"]
    for op in around:
        x = draw(-3, 3)
        x[np.abs(x) < 0.05] = 0.3
        one(cases, op, x)
    one(cases, "Gelu", draw(-2, 2), name="Gelu_tanh", approximate="tanh")
    one(cases, "Elu", draw(-2, 2), name="Elu_of_2", alpha=2.0)
    one(cases, "Celu", draw(-2, 2), name="Celu_of_2", alpha=2.0)
    for op in ("Log", "Sqrt", "Reciprocal"):
        one(cases, op, draw(0.5, 3))
    for op in ("Asin", "Acos", "Atanh", "Tan"):
        one(cases, op, draw(-0.9, 0.9))
    one(cases, "Acosh", draw(1.2, 3))
    b = random.uniform(0.5, 2, (4, 1, 3))
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu"):
        x = random.uniform(0.4, 2, (4, 2, 3))
        one(cases, op, x, b)
        one(cases, op, x, b[0, 0], name=f"{op}_dynamic", dynamic=True)
        if op != "PRelu":
            one(cases, op, b[0], x, name=f"{op}_turned")
    for op in ("Sum", "Mean", "Max"):
        one(cases, op, draw(-1, 1), draw(-1, 1), draw(-1, 1), name=f"{op}_of_three")
    one(cases, "Clip", draw(-2, 2), others=(np.float64(-1), np.float64(0.8)))
    one(cases, "Clip", draw(-2, 2), others=(None, np.float64(0.8)), name="Clip_above")
    cases.add("Where", [helper.make_node("Where", ["c", "a", "b"], ["y"])],
              {"a": draw(-1, 1), "b": random.standard_normal((3,))},
              {"c": random.random((2, 3)) > 0.5})
    x = draw(-1, 1)
    cases.add("square", [helper.make_node("Mul", ["x", "x"], ["y"])], {"x": x})
    cases.add("cast", [helper.make_node("Cast", ["x"], ["w"], to=TensorProto.DOUBLE),
                       helper.make_node("Sin", ["w"], ["y"])], {"x": x})
    cases.add("dropout_of_inference", [helper.make_node("Dropout", ["x"], ["y"])], {"x": x})
    cases.add("nothing_on_the_way", [helper.make_node("Sin", ["b"], ["y"])],
              {"x": x, "b": draw(-1, 1)})


def reductions(cases, random):
    x = random.uniform(0.3, 2, (2, 3, 4))
    axes = np.array([0, 2])
    for op in ("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
               "ReduceLogSumExp", "ReduceMax", "ReduceMin"):
        one(cases, op, x, others=(axes,))
        one(cases, op, x, others=(axes,), name=f"{op}_flat", keepdims=0)
        one(cases, op, x, name=f"{op}_of_all", keepdims=0)
        one(cases, op, x, others=(np.array([1]),), name=f"{op}_dynamic", keepdims=0, dynamic=True)
    x = random.standard_normal((2, 3, 4))
    for op in ("Softmax", "LogSoftmax"):
        one(cases, op, x)
        one(cases, op, x, name=f"{op}_of_1", axis=1, dynamic=True)
    scale, bias = random.standard_normal((2, 4))
    one(cases, "LayerNormalization", x, scale, bias)
    one(cases, "LayerNormalization", x, random.standard_normal((3, 4)), name="LayerNorm_of_two",
        axis=1, epsilon=0.1)
    one(cases, "RMSNormalization", x, scale)
    three = random.standard_normal((2, 3))
    x = random.standard_normal((2, 3, 4, 2))
    one(cases, "InstanceNormalization", x, three[0], three[1])
    one(cases, "BatchNormalization", x, three[0], three[1],
        others=(random.standard_normal(3), random.random(3) + 0.5))
    labels = random.integers(0, 3, (2, 4))
    scores = random.standard_normal((2, 3, 4))
    for how in ("mean", "sum", "none"):
        for op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
            one(cases, op, scores, others=(labels,), name=f"{op}_{how}", reduction=how)
            one(cases, op, scores, others=(labels, random.random(3) + 0.2), reduction=how,
                name=f"{op}_{how}_weighed", ignore_index=1)


def data(cases, random):
    x = random.standard_normal((2, 3, 4))
    one(cases, "Reshape", x, others=(np.array([4, -1]),))
    one(cases, "Flatten", x)
    one(cases, "Unsqueeze", x, others=(np.array([0, 2]),))
    one(cases, "Squeeze", x[:1], others=(np.array([0]),))
    one(cases, "Transpose", x)
    one(cases, "Transpose", x, name="Transpose_by", perm=[1, 2, 0])
    one(cases, "Expand", x[:, :1], others=(np.array([5, 1, 3, 4]),))
    one(cases, "Concat", x, x[:, :1] * 2, random.standard_normal((2, 2, 4)), axis=1)
    one(cases, "Concat", x, x * 2, name="Concat_dynamic", axis=-1, dynamic=True)
    one(cases, "Slice", x, others=tuple(np.array(v) for v in ([2, 3], [0, 0], [1, 2], [-1, -2])))
    one(cases, "Gather", x, others=(np.array([[0, 2, 2], [1, 0, -1]]),), axis=1)
    one(cases, "GatherElements", x, others=(random.integers(0, 3, (2, 5, 4)),), axis=1)
    one(cases, "GatherND", x, others=(np.array([[0, 1], [1, 2], [0, 1]]),))
    one(cases, "Tile", x, others=(np.array([2, 1, 3]),))
    one(cases, "DepthToSpace", random.standard_normal((1, 8, 2, 3)), blocksize=2)
    one(cases, "SpaceToDepth", random.standard_normal((1, 2, 4, 6)), blocksize=2)
    one(cases, "Pad", x, others=(np.array([0, 1, 2, 1, 0, 3]),))
    one(cases, "Pad", x, others=(np.array([0, 1, 2, 1, 0, 1]),), name="Pad_reflect", mode="reflect")
    one(cases, "Trilu", x, upper=0)
    one(cases, "CumSum", x, others=(np.array(1),))
    one(cases, "CumSum", x, others=(np.array(2),), name="CumSum_turned", reverse=1, exclusive=1)
    cases.add("Split", [helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2, axis=2),
                        helper.make_node("Sin", ["b"], ["y"])], {"x": x})
    places = np.array([[[2, 0, 1, 1]], [[0, 1, 2, 0]]])
    for how in ("none", "add"):
        cases.add(f"ScatterElements_{how}",
                  [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1,
                                    reduction=how)],
                  {"x": x, "u": random.standard_normal((2, 1, 4))}, {"i": places})
        cases.add(f"ScatterND_{how}",
                  [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=how)],
                  {"x": x, "u": random.standard_normal((2, 4))}, {"i": np.array([[0, 1], [1, 2]])})


def products(cases, random):
    def draw(*shape):
        return random.standard_normal(shape)
    for a, b in (((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)), ((3, 4), (2, 4, 2)),
                 ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
                 ((2, 1, 3, 4), (5, 4, 2))):
        name = "MatMul_" + "x".join(map(str, a)) + "_" + "x".join(map(str, b))
        one(cases, "MatMul", draw(*a), draw(*b), name=name)
    one(cases, "MatMul", draw(2, 3, 4), draw(4, 2), name="MatMul_dynamic", dynamic=True)
    for turn_a in (0, 1):
        for turn_b in (0, 1):
            one(cases, "Gemm", draw(4, 3) if turn_a else draw(3, 4),
                draw(2, 4) if turn_b else draw(4, 2), draw(2), name=f"Gemm_{turn_a}{turn_b}",
                alpha=0.5, beta=2.0, transA=turn_a, transB=turn_b)
    for name, x, w, more in (
            ("plain", (2, 3, 6, 5), (4, 3, 3, 2), {}),
            ("strides", (2, 4, 8, 7), (4, 2, 3, 2),
             {"strides": [2, 3], "pads": [1, 0, 2, 1], "group": 2}),
            ("dilations", (1, 4, 9, 8), (8, 1, 2, 3),
             {"dilations": [3, 2], "group": 4, "strides": [2, 1]}),
            ("same", (1, 2, 7, 6), (3, 2, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            ("same_lower", (1, 2, 7, 6), (3, 2, 3, 4), {"auto_pad": "SAME_LOWER"}),
            ("line", (2, 2, 9), (3, 2, 4), {"pads": [2, 1], "strides": [2]})):
        one(cases, "Conv", draw(*x), draw(*w), draw(w[0]), name=f"Conv_{name}", **more)
        if name in ("plain", "strides"):
            one(cases, "Conv", draw(*x), draw(*w), name=f"Conv_{name}_dynamic", dynamic=True, **more)
    more = {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 1]}
    one(cases, "ConvTranspose", draw(2, 3, 4, 3), draw(3, 4, 3, 2), draw(4))
    one(cases, "ConvTranspose", draw(2, 3, 4, 3), draw(3, 4, 3, 2), name="ConvTranspose_strides",
        **more)
    node = helper.make_node
    halves = [node("Split", [k], [f"{k}0", f"{k}1"], axis=axis, num_outputs=2)
              for k, axis in (("x", 1), ("w", 0))]
    halves += [node("ConvTranspose", [f"x{i}", f"w{i}"], [f"y{i}"], **more) for i in "01"]
    cases.add("ConvTranspose_groups",
              [node("ConvTranspose", ["x", "w"], ["y"], group=2, **more)],
              {"x": draw(2, 4, 4, 3), "w": draw(4, 2, 3, 2)},
              reference=halves + [node("Concat", ["y0", "y1"], ["y"], axis=1)])
    x = draw(2, 3, 7, 6)
    one(cases, "MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    one(cases, "MaxPool", x, name="MaxPool_dynamic", kernel_shape=[2, 2], dynamic=True)
    for whole in (0, 1):
        one(cases, "AveragePool", x, name=f"AveragePool_{whole}", kernel_shape=[3, 2],
            strides=[2, 2], pads=[1, 0, 1, 1], count_include_pad=whole)
    one(cases, "GlobalAveragePool", x)
    one(cases, "GlobalMaxPool", x)


def whole(cases, random):
    """Several ops, constants, other places, and second derivatives."""
    def draw(*shape):
        return random.standard_normal(shape)
    node = helper.make_node
    layers = [node("MatMul", ["x", "w1"], ["a"]), node("Add", ["a", "b1"], ["b"]),
              node("Tanh", ["b"], ["c"]), node("MatMul", ["c", "w2"], ["d"]),
              node("Softmax", ["d"], ["y"])]
    weights = {"w1": draw(4, 5), "b1": draw(5), "w2": draw(5, 3)}
    cases.add("layers", layers, weights, {"x": draw(2, 4)})
    cases.add("layers_of_constants", layers, weights, {"x": draw(2, 4)},
              constants=("w1", "b1", "w2"))
    cases.add("elsewhere", layers, weights, {"x": draw(2, 4)}, elsewhere=True)
    cases.add("elsewhere_dynamic", layers, weights, {"x": draw(2, 4)}, elsewhere=True, dynamic=True)
    heads = [node("MatMul", ["x", "wq"], ["q"]), node("MatMul", ["x", "wk"], ["k"]),
             node("MatMul", ["x", "wv"], ["v"]), node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
             node("MatMul", ["q", "t"], ["s"]), node("Softmax", ["s"], ["p"]),
             node("MatMul", ["p", "v"], ["o"]), node("Add", ["o", "x"], ["r"]),
             node("LayerNormalization", ["r", "g"], ["n"]), node("Gelu", ["n"], ["y"])]
    cases.add("attention", heads, {"x": draw(2, 3, 4), "wq": draw(4, 4), "wk": draw(4, 4),
                                   "wv": draw(4, 4), "g": draw(4)})
    cases.add("attention_dynamic", heads, {"x": draw(2, 3, 4), "wq": draw(4, 4), "wk": draw(4, 4),
                                           "wv": draw(4, 4), "g": draw(4)}, dynamic=True)
    images = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
              node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"]),
              node("Relu", ["n"], ["r"]), node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
              node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "o"], ["g"]),
              node("LogSoftmax", ["g"], ["y"])]
    for dynamic in (False, True):
        cases.add(f"images{'_dynamic' if dynamic else ''}", images,
                  {"x": draw(2, 2, 4, 4), "w": draw(3, 2, 3, 3), "s": draw(3), "b": draw(3),
                   "o": draw(27, 3)}, {"m": draw(3), "v": random.random(3) + 0.5}, dynamic=dynamic)
    # what a Dropout keeps, by the mask of the same run: no difference
    one_third = [node("Dropout", ["x", "ratio", "training"], ["kept", "mask"], seed=4),
                 node("Mul", ["kept", "c"], ["k"]), node("ReduceSum", ["k"], ["q"], keepdims=0),
                 node("Gradient", ["x"], ["slope"], domain=TRAINING, xs=["x"], y="q"),
                 node("Cast", ["mask"], ["m"], to=TensorProto.DOUBLE),
                 node("Mul", ["m", "c"], ["d"]), node("Div", ["d", "left"], ["e"]),
                 node("Sub", ["slope", "e"], ["off"])]
    feeds = {"x": draw(50), "c": draw(50), "ratio": np.float64(0.25), "training": np.bool_(True),
             "left": np.float64(0.75)}
    cases.save("dropout", model_of(one_third, feeds, ["off"]), feeds, {"off": np.zeros(50)})
    # of x sin(x): the first derivative's sum has the second one
    x = draw(3)
    nodes = [node("Sin", ["x"], ["s"]), node("Mul", ["s", "x"], ["p"]),
             node("ReduceSum", ["p"], ["q"], keepdims=0),
             node("Gradient", ["x"], ["slope"], domain=TRAINING, xs=["x"], y="q"),
             node("ReduceSum", ["slope"], ["r"], keepdims=0),
             node("Gradient", ["x"], ["curve"], domain=TRAINING, xs=["x"], y="r")]
    cases.save("second_derivative", model_of(nodes, {"x": x}, ["slope", "curve"]), {"x": x},
               {"slope": np.sin(x) + x * np.cos(x), "curve": 2 * np.cos(x) - x * np.sin(x)})


def write(folder, random):
    cases = Cases(folder, random)
    for part in (elementwise, reductions, data, products, whole):
        part(cases, random)


if __name__ == "__main__":
    # a skip is a rule that is missing
    sys.exit(run_cases(__doc__, write, how=("--rtol", "1e-5", "--atol", "1e-6"), may_skip=False))
