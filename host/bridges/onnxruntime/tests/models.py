"""Whole models, with open batch sizes and without: each is to be one partition."""
from __future__ import annotations

import sys
from typing import Any, Callable

from common import (check, np, onnx, open_session, options, others, partitions, register,
                    run_tests, unregister)
from onnx import TensorProto, helper

RANDOM = np.random.default_rng(24)
DEVICE = "cpu:0"


class Maker:
    """Nodes and weights of a graph, by short calls."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def constant(self, data: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(data, name))
        return name

    def weight(self, *shape: int) -> str:
        data = RANDOM.standard_normal(shape) / max(shape) ** 0.5
        return self.constant(data.astype(np.float32))

    def ones(self, *shape: int) -> str:
        return self.constant(np.ones(shape, np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float, dtype: Any = np.float32) -> str:
        return self.constant(np.array(value, dtype))

    def op(self, kind: str, *inputs: str, out: str = "", **attrs: Any) -> str:
        name = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attrs))
        return name

    def model(self, in_shape: list[Any], out_shape: list[Any],
              in_type: int = TensorProto.FLOAT) -> Any:
        graph = helper.make_graph(
            self.nodes, "model", [helper.make_tensor_value_info("x", in_type, in_shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, out_shape)], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(made)
        return made


def mlp(batch: Any) -> Any:
    m = Maker()
    at = "x"
    for size, next_size in ((64, 128), (128, 128), (128, 10)):
        at = m.op("Gemm", at, m.weight(size, next_size), m.weight(next_size))
        at = m.op("Relu", at)
    m.op("Softmax", at, out="y")
    return m.model([batch, 64], [batch, 10])


def cnn(batch: Any) -> Any:
    m = Maker()
    at = m.op("Conv", "x", m.weight(16, 3, 3, 3), m.weight(16), pads=[1, 1, 1, 1])
    at = m.op("BatchNormalization", at, m.weight(16), m.weight(16), m.weight(16), m.ones(16))
    skip = at = m.op("Relu", at)
    at = m.op("Conv", at, m.weight(16, 16, 3, 3), pads=[1, 1, 1, 1])
    at = m.op("Relu", m.op("Add", at, skip))
    at = m.op("MaxPool", at, kernel_shape=[2, 2], strides=[2, 2])
    at = m.op("Flatten", m.op("GlobalAveragePool", at))
    m.op("Gemm", at, m.weight(16, 10), m.weight(10), out="y")
    return m.model([batch, 3, 32, 32], [batch, 10])


def transformer(batch: Any, tokens: Any) -> Any:
    """A block of width 32 with 4 heads, which takes its sizes from Shape, as exporters do."""
    m = Maker()
    shape = m.op("Shape", "x")
    rows = m.op("Gather", shape, m.ints(0), axis=0)
    length = m.op("Gather", shape, m.ints(1), axis=0)
    heads = m.op("Concat", rows, length, m.ints(4), m.ints(8), axis=0)
    whole = m.op("Concat", rows, length, m.ints(32), axis=0)

    def project(at: str) -> str:
        at = m.op("Add", m.op("MatMul", at, m.weight(32, 32)), m.weight(32))
        return m.op("Transpose", m.op("Reshape", at, heads), perm=[0, 2, 1, 3])

    norm = m.op("LayerNormalization", "x", m.weight(32), m.weight(32), axis=-1)
    query, key, value = project(norm), project(norm), project(norm)
    score = m.op("MatMul", query, m.op("Transpose", key, perm=[0, 1, 3, 2]))
    score = m.op("Softmax", m.op("Mul", score, m.ones()), axis=-1)
    mixed = m.op("Transpose", m.op("MatMul", score, value), perm=[0, 2, 1, 3])
    at = m.op("Add", "x", m.op("MatMul", m.op("Reshape", mixed, whole), m.weight(32, 32)))
    norm = m.op("LayerNormalization", at, m.weight(32), m.weight(32), axis=-1)
    hidden = m.op("MatMul", norm, m.weight(32, 128))
    gelu = m.op("Mul", hidden, m.op("Sigmoid", hidden))
    m.op("Add", at, m.op("MatMul", gelu, m.weight(128, 32)), out="y")
    return m.model([batch, tokens, 32], [batch, tokens, 32])


def resnet50(batch: Any) -> Any:
    """He et al., Deep Residual Learning for Image Recognition, table 1; for 224x224."""
    m = Maker()

    def conv(at: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
        at = m.op("Conv", at, m.weight(outputs, inputs, size, size),
                  strides=[stride, stride], pads=[size // 2] * 4)
        return m.op("BatchNormalization", at, m.ones(outputs), m.weight(outputs),
                    m.weight(outputs), m.ones(outputs))

    at = m.op("Relu", conv("x", 3, 64, 7, 2))
    at = m.op("MaxPool", at, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            width = 64 << stage
            stride = 2 if stage and not block else 1
            skip = at if block else conv(at, inputs, 4 * width, 1, stride)
            at = m.op("Relu", conv(at, inputs, width, 1))
            at = m.op("Relu", conv(at, width, width, 3, stride))
            at = m.op("Relu", m.op("Add", conv(at, width, 4 * width, 1), skip))
            inputs = 4 * width
    at = m.op("Flatten", m.op("GlobalAveragePool", at))
    m.op("Gemm", at, m.weight(inputs, 1000), m.weight(1000), out="y")
    return m.model([batch, 3, 224, 224], [batch, 1000])


def bert(batch: Any, tokens: Any) -> Any:
    """Devlin et al., BERT-base: 12 layers of width 768 with 12 heads. Token 0 is padding."""
    m = Maker()
    shape = m.op("Shape", "x")
    heads = m.op("Concat", shape, m.ints(12, 64), axis=0)

    def normal(at: str) -> str:
        return m.op("LayerNormalization", at, m.ones(768), m.weight(768), axis=-1)

    def linear(at: str, inputs: int, outputs: int) -> str:
        return m.op("Add", m.op("MatMul", at, m.weight(inputs, outputs)), m.weight(outputs))

    def project(at: str) -> str:
        return m.op("Transpose", m.op("Reshape", linear(at, 768, 768), heads), perm=[0, 2, 1, 3])

    length = m.op("Gather", shape, m.ints(1), axis=0)
    places = m.op("Slice", m.weight(512, 768), m.ints(0), length, m.ints(0))
    at = normal(m.op("Add", m.op("Gather", m.weight(30522, 768), "x", axis=0), places))
    padding = m.op("Unsqueeze", m.op("Equal", "x", m.ints(0)), m.ints(1, 2))
    for _ in range(12):
        query, key, value = project(at), project(at), project(at)
        score = m.op("MatMul", query, m.op("Transpose", key, perm=[0, 1, 3, 2]))
        score = m.op("Mul", score, m.number(0.125))
        score = m.op("Softmax", m.op("Where", padding, m.number(-1e4), score), axis=-1)
        mixed = m.op("Transpose", m.op("MatMul", score, value), perm=[0, 2, 1, 3])
        whole = m.op("Concat", shape, m.ints(768), axis=0)
        at = normal(m.op("Add", at, linear(m.op("Reshape", mixed, whole), 768, 768)))
        hidden = linear(at, 768, 3072)
        gelu = m.op("Add", m.op("Erf", m.op("Mul", hidden, m.number(0.5 ** 0.5))), m.number(1))
        gelu = m.op("Mul", m.op("Mul", hidden, gelu), m.number(0.5))
        at = normal(m.op("Add", at, linear(gelu, 3072, 768)))
    first = m.op("Gather", at, m.number(0, np.int64), axis=1)
    m.op("Tanh", linear(first, 768, 768), out="y")
    return m.model([batch, tokens], [batch, 768], TensorProto.INT64)


def tokens_of(*shape: int) -> Any:
    """Sentences for bert(): each ends with some padding."""
    ids = RANDOM.integers(1, 30522, shape)
    for row, sentence in enumerate(ids):
        sentence[shape[1] - 1 - row % shape[1]:] = 0
    return ids


def compare(model: Any, shapes: list[tuple[int, ...]], optimize: bool) -> None:
    session = open_session(model, options(DEVICE, optimize=optimize))
    plain = open_session(model, options(None))
    check(len(partitions(session)) == 1, "partitions:", partitions(session), others(session))
    check(not others(session), "not on Keel:", others(session))
    for shape in shapes:
        tokens = model.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64
        x = tokens_of(*shape) if tokens else RANDOM.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], plain.run(None, {"x": x})[0],
                                   rtol=1e-4, atol=1e-5)


def is_one_partition(name: str, make: Callable[[], Any], *shapes: tuple[int, ...],
                     optimized: tuple[bool, ...] = (False, True)) -> Callable[[], None]:
    def test() -> None:
        for optimize in optimized:
            compare(make(), list(shapes), optimize)
    test.__name__ = f"{name}_is_one_partition"
    return test


TESTS = [
    is_one_partition("an_mlp", lambda: mlp(4), (4, 64)),
    is_one_partition("an_mlp_of_open_batch", lambda: mlp("batch"), (4, 64), (1, 64), (4, 64),
                     (33, 64)),
    is_one_partition("a_cnn", lambda: cnn(2), (2, 3, 32, 32)),
    is_one_partition("a_cnn_of_open_batch", lambda: cnn("batch"), (2, 3, 32, 32), (5, 3, 32, 32)),
    is_one_partition("a_transformer", lambda: transformer(2, 7), (2, 7, 32)),
    is_one_partition("a_transformer_of_open_sizes", lambda: transformer("batch", "tokens"),
                     (2, 7, 32), (1, 12, 32)),
    is_one_partition("resnet_50", lambda: resnet50("batch"), (1, 3, 224, 224), (2, 3, 224, 224),
                     optimized=(True,)),
    is_one_partition("bert", lambda: bert("batch", "tokens"), (1, 16), (2, 9), optimized=(True,)),
]


def main() -> int:
    global DEVICE
    if len(sys.argv) > 1:
        DEVICE = sys.argv[1]
    register()
    failed = run_tests(TESTS)
    unregister()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
