"""Small whole models, with open batch sizes and without: each is to be one partition."""
from __future__ import annotations

import sys
from typing import Any

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

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        data = (RANDOM.standard_normal(shape) / max(shape) ** 0.5).astype(np.float32)
        self.weights.append(onnx.numpy_helper.from_array(data, name))
        return name

    def ones(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), name))
        return name

    def ints(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def op(self, kind: str, *inputs: str, out: str = "", **attrs: Any) -> str:
        name = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attrs))
        return name

    def model(self, in_shape: list[Any], out_shape: list[Any]) -> Any:
        graph = helper.make_graph(
            self.nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, in_shape)],
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


def compare(model: Any, shapes: list[tuple[int, ...]], optimize: bool) -> None:
    session = open_session(model, options(DEVICE, optimize=optimize))
    plain = open_session(model, options(None))
    check(len(partitions(session)) == 1, "partitions:", partitions(session), others(session))
    check(not others(session), "not on Keel:", others(session))
    for shape in shapes:
        x = RANDOM.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], plain.run(None, {"x": x})[0],
                                   rtol=1e-4, atol=1e-5)


def an_mlp_is_one_partition() -> None:
    for optimize in (False, True):
        compare(mlp(4), [(4, 64)], optimize)


def an_mlp_of_open_batch_is_one_partition() -> None:
    for optimize in (False, True):
        compare(mlp("batch"), [(4, 64), (1, 64), (4, 64), (33, 64)], optimize)


def a_cnn_is_one_partition() -> None:
    for optimize in (False, True):
        compare(cnn(2), [(2, 3, 32, 32)], optimize)


def a_cnn_of_open_batch_is_one_partition() -> None:
    for optimize in (False, True):
        compare(cnn("batch"), [(2, 3, 32, 32), (5, 3, 32, 32)], optimize)


def a_transformer_is_one_partition() -> None:
    for optimize in (False, True):
        compare(transformer(2, 7), [(2, 7, 32)], optimize)


def a_transformer_of_open_sizes_is_one_partition() -> None:
    for optimize in (False, True):
        compare(transformer("batch", "tokens"), [(2, 7, 32), (1, 12, 32)], optimize)


def main() -> int:
    global DEVICE
    if len(sys.argv) > 1:
        DEVICE = sys.argv[1]
    register()
    failed = run_tests([an_mlp_is_one_partition, an_mlp_of_open_batch_is_one_partition,
                        a_cnn_is_one_partition, a_cnn_of_open_batch_is_one_partition,
                        a_transformer_is_one_partition,
                        a_transformer_of_open_sizes_is_one_partition])
    unregister()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
