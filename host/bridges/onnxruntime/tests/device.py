"""Values on a device whose memory the host cannot address: they stay there between partitions.

    device.py [DEVICE...]   default: every such device; it skips if there is none
"""
from __future__ import annotations

import gc
import inspect
import json
import os
import sys
import tempfile
from typing import Any

from common import (at_once, check, device, devices, np, onnx, open_session, options, ort, others,
                    partitions, register, run_tests, skip, unregister)
from models import bert, cnn, mlp, resnet50, tokens_of, transformer
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(5)
DEVICE = ""


def floats(name: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any]) -> Any:
    made = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def weights(count: int) -> list[Any]:
    return [numpy_helper.from_array((RANDOM.standard_normal((64, 64)) / 8).astype(np.float32),
                                    f"w{i}") for i in range(count)]


def through_strings(source: str, target: str) -> list[Any]:
    """Nodes that Keel does not take."""
    return [helper.make_node("Cast", [source], [source + "_s"], to=TensorProto.STRING),
            helper.make_node("Cast", [source + "_s"], [target], to=TensorProto.FLOAT)]


def chain(links: int) -> Any:
    """Partitions, each of which needs a large value of the one before, and one number that comes
    from there by way of the host."""
    nodes, at = [], "x"
    for i in range(links):
        nodes += [helper.make_node("MatMul", [at, f"w{i}"], [f"a{i}"]),
                  helper.make_node("ReduceMax", [f"a{i}"], [f"m{i}"], keepdims=0),
                  *through_strings(f"m{i}", f"t{i}"),
                  helper.make_node("Sub", [f"a{i}", f"t{i}"], [f"b{i}"])]
        at = f"b{i}"
    nodes.append(helper.make_node("Tanh", [at], ["y"]))
    return graph(nodes, [floats("x", "n", 64)], [floats("y", "n", 64)], weights(links))


def inputs(rows: int = 128) -> dict[str, Any]:
    return {"x": RANDOM.standard_normal((rows, 64)).astype(np.float32)}


def copies_of(model: Any, feeds: dict[str, Any], runs: int) -> dict[str, list[int]]:
    """The sizes of all copies in and out in so many runs of a session, by its trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        session = open_session(model, options(DEVICE, {"keel.trace": path}))
        for _ in range(runs):
            session.run(None, feeds)
        del session
        gc.collect()
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    sizes: dict[str, list[int]] = {"in": [], "out": []}
    for event in events:
        if event.get("cat") == "copy" and event["ph"] == "b":
            to = "out" if event["name"].startswith("copy out") else "in"
            sizes[to].append(event["args"]["bytes"])
    return sizes


def what_goes_from_partition_to_partition_is_not_copied() -> None:
    model, links, runs = chain(3), 3, 4
    session, feeds = open_session(model, options(DEVICE)), inputs()
    if "ReduceMax" in others(session):
        return  # the device does not take it, so the large value goes to the host
    check(len(partitions(session)) == links + 1, "partitions", partitions(session))
    check(len(others(session)) == 2 * links, "others", others(session))
    np.testing.assert_allclose(session.run(None, feeds)[0],
                               open_session(model, options(None)).run(None, feeds)[0],
                               rtol=1e-3, atol=1e-4)
    for to, sizes in copies_of(model, feeds, runs).items():
        check(sum(size >= feeds["x"].nbytes for size in sizes) == runs, to, sizes)
        check(sizes.count(4) >= links * runs, "of single numbers", to, sizes)


def count_copies(model: Any, x: Any, runs: int) -> None:
    """Of the input and the output, one a run; the size of the input is no weight's."""
    y = open_session(model, options(None)).run(None, {"x": x})[0]
    copies = copies_of(model, {"x": x}, runs)
    weights_in = [one for one in copies["in"] if one != x.nbytes]
    check(copies["in"].count(x.nbytes) == runs, "in", copies["in"])
    check(len(weights_in) <= len(model.graph.initializer), "weights more than once",
          len(weights_in))
    # but for a few numbers that a program needs once
    check([size for size in copies["out"] if size > 16] == [y.nbytes] * runs, "out",
          copies["out"])


def a_run_of_a_whole_model_copies_inputs_and_outputs_only() -> None:
    for model, shape in ((mlp("n"), (7, 64)), (cnn("n"), (3, 3, 32, 32)),
                         (transformer("n", "m"), (3, 7, 32))):
        count_copies(model, RANDOM.standard_normal(shape).astype(np.float32), 5)


def resnet_50_copies_inputs_and_outputs_only() -> None:
    count_copies(resnet50("n"), RANDOM.standard_normal((1, 3, 224, 224)).astype(np.float32), 3)


def bert_copies_inputs_and_outputs_only() -> None:
    count_copies(bert("n", "m"), tokens_of(2, 13), 3)


def sizes_may_change() -> None:
    """ONNX Runtime plans the memory of a run by the shapes of one before."""
    model = chain(2)
    session, plain = open_session(model, options(DEVICE)), open_session(model, options(None))
    for rows in (3, 3, 3, 200, 200, 200, 1, 3, 0, 200):
        feeds = inputs(rows)
        if rows == 0:  # the largest of nothing is an error, here and there
            continue
        np.testing.assert_allclose(session.run(None, feeds)[0], plain.run(None, feeds)[0],
                                   rtol=1e-3, atol=1e-4)


def empty_and_scalar_values_cross() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["a"]), *through_strings("a", "b"),
             helper.make_node("Exp", ["b"], ["c"]), helper.make_node("Add", ["c", "a"], ["y"])]
    for shape in ([], [0], [2, 0, 3], [1]):
        model = graph(nodes, [floats("x", *shape)], [floats("y", *shape)], [])
        x = np.full(shape, 0.5, np.float32)
        got = open_session(model, options(DEVICE)).run(None, {"x": x})[0]
        np.testing.assert_allclose(got, np.exp(-x) - x, rtol=1e-3)


def all_types_cross() -> None:
    """From one partition to nodes of ONNX Runtime's and to another."""
    for dtype in (np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        nodes = [helper.make_node("Transpose", ["x"], ["a"]),
                 helper.make_node("Cast", ["a"], ["s"], to=TensorProto.STRING),
                 helper.make_node("Cast", ["s"], ["t"], to=TensorProto.FLOAT),
                 helper.make_node("Neg", ["t"], ["z"]), helper.make_node("Transpose", ["a"], ["y"])]
        model = helper.make_model(helper.make_graph(
            nodes, "graph", [helper.make_tensor_value_info("x", kind, [30, 40])],
            [helper.make_tensor_value_info("y", kind, [30, 40]), floats("z", 40, 30)]),
            opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        x = (RANDOM.standard_normal((30, 40)) * 50).astype(dtype)
        if dtype == np.bool_:
            del model.graph.node[1:4], model.graph.output[1]
        got = open_session(model, options(DEVICE)).run(None, {"x": x})
        np.testing.assert_array_equal(got[0], x)


def a_value_that_both_need_is_on_both_sides() -> None:
    nodes = [*through_strings("x", "h"), helper.make_node("MatMul", ["x", "w0"], ["a"]),
             helper.make_node("Add", ["a", "h"], ["y"]), *through_strings("a", "z")]
    model = graph(nodes, [floats("x", "n", 64)], [floats("y", "n", 64), floats("z", "n", 64)],
                  weights(1))
    session, plain = open_session(model, options(DEVICE)), open_session(model, options(None))
    for _ in range(3):
        feeds = inputs(5)
        for got, want in zip(session.run(None, feeds), plain.run(None, feeds)):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def bodies_take_values_from_the_device() -> None:
    def body(name: str, op: str) -> Any:
        return helper.make_graph([*through_strings("a", name + "h"),
                                  helper.make_node(op, [name + "h"], [name + "o"]),
                                  helper.make_node("Add", [name + "o", "a"], [name])],
                                 name, [], [floats(name, "n", 64)])

    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"]),
             helper.make_node("If", ["c"], ["r"], then_branch=body("t", "Neg"),
                              else_branch=body("e", "Tanh")),
             helper.make_node("Mul", ["r", "a"], ["y"])]
    model = graph(nodes, [helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                          floats("x", "n", 64)], [floats("y", "n", 64)], weights(1))
    session, plain = open_session(model, options(DEVICE)), open_session(model, options(None))
    for chosen in (True, False, True):
        feeds = {"c": np.array(chosen), **inputs(6)}
        np.testing.assert_allclose(session.run(None, feeds)[0], plain.run(None, feeds)[0],
                                   rtol=1e-3, atol=1e-4)


def constants_that_may_be_given_are_inputs() -> None:
    model = graph([helper.make_node("Mul", ["x", "w"], ["y"])],
                  [floats("x", 300), floats("w", 300)], [floats("y", 300)],
                  [numpy_helper.from_array(np.full(300, 2, np.float32), "w")])
    session = open_session(model, options(DEVICE))
    x = np.arange(300, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x)
        np.testing.assert_array_equal(session.run(None, {"x": x, "w": x})[0], x * x)


def inputs_may_change_after_a_run() -> None:
    """What a session was given is the application's again."""
    model = graph([helper.make_node("Identity", ["x"], ["y"]), *through_strings("y", "z")],
                  [floats("x", "n")], [floats("y", "n"), floats("z", "n")], [])
    session = open_session(model, options(DEVICE))
    for size in (3, 5000):
        x = np.ones(size, np.float32)
        first = session.run(None, {"x": x})
        x[:] = 7
        for got in first:
            np.testing.assert_array_equal(got, np.ones(size, np.float32))
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)


def on_device(shape: list[int], dtype: Any = np.float32) -> Any:
    info = device(DEVICE).memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    return ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype, memory_info=info)


def to_host(value: Any) -> Any:
    target = ort.OrtValue.ortvalue_from_numpy(np.zeros(value.shape(), np.float32))
    ort.copy_tensors([value], [target])
    return np.array(target.numpy())  # which is the value's


def values_pass_from_session_to_session() -> None:
    """Also to one with a runtime of its own."""
    if "memory_info" not in inspect.signature(ort.OrtValue.ortvalue_from_shape_and_type).parameters:
        return  # this Python makes no values in a provider's memory
    first, second = chain(1), graph([helper.make_node("Neg", ["x"], ["y"])],
                                    [floats("x", "n", 64)], [floats("y", "n", 64)], [])
    feeds = inputs(9)
    want = -open_session(first, options(None)).run(None, feeds)[0]
    start, middle, end = (on_device([9, 64]) for _ in range(3))
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(feeds["x"])], [start])
    for given in ({}, {"keel.threads": "2"}):
        for model, source, target, own in ((first, start, middle, {}),
                                           (second, middle, end, given)):
            session = open_session(model, options(DEVICE, own))
            binding = session.io_binding()
            binding.bind_ortvalue_input("x", source)
            binding.bind_ortvalue_output("y", target)
            for _ in range(2):
                session.run_with_iobinding(binding)
            del binding, session
        gc.collect()
        np.testing.assert_allclose(to_host(end), want, rtol=1e-3, atol=1e-4)
    copied = on_device([9, 64])
    ort.copy_tensors([end], [copied])
    del end
    gc.collect()
    np.testing.assert_allclose(to_host(copied), want, rtol=1e-3, atol=1e-4)


def the_option_may_choose_another_device() -> None:
    """Than that whose memory ONNX Runtime was told of."""
    model, feeds = chain(2), inputs(7)
    want = open_session(model, options(None)).run(None, feeds)[0]
    for shown, chosen in (("cpu:0", DEVICE), (DEVICE, "cpu:0")):
        session = open_session(model, options(shown, {"keel.device": chosen}))
        for _ in range(3):
            np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-3, atol=1e-4)


def compiled_models_do_the_same() -> None:
    model, feeds = chain(2), inputs(11)
    want = open_session(model, options(None)).run(None, feeds)[0]
    with tempfile.TemporaryDirectory() as folder:
        source, path = os.path.join(folder, "m.onnx"), os.path.join(folder, "c.onnx")
        onnx.save(model, source)
        made = options(DEVICE)
        made.add_session_config_entry("ep.context_enable", "1")
        made.add_session_config_entry("ep.context_file_path", path)
        open_session(source, made)
        session = open_session(path, options(DEVICE))
        check(partitions(session) == [["EPContext"]] * 3, "partitions", partitions(session))
        for _ in range(3):
            np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-3, atol=1e-4)


def sessions_run_at_once() -> None:
    made = []
    for model, feeds in ((chain(2), inputs(40)), (mlp("batch"), inputs(8))):
        want = open_session(model, options(None)).run(None, feeds)[0]
        for given in ({}, {"keel.threads": "2"}):
            made.append((open_session(model, options(DEVICE, given)), feeds, want))

    def work(first: int) -> None:
        for i in range(20):
            session, feeds, want = made[(first + i) % len(made)]
            np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-3, atol=1e-4)

    at_once(6, work)


def main(names: list[str]) -> int:
    global DEVICE
    register()
    shown = [one.ep_metadata["keel.device"] for one in devices()
             if one.memory_info(ort.OrtDeviceMemoryType.DEFAULT)]
    failed = 0
    for DEVICE in names or shown:
        print(f"on {DEVICE}")
        failed += run_tests([what_goes_from_partition_to_partition_is_not_copied,
                             a_run_of_a_whole_model_copies_inputs_and_outputs_only,
                             sizes_may_change,
                             empty_and_scalar_values_cross, all_types_cross,
                             a_value_that_both_need_is_on_both_sides,
                             bodies_take_values_from_the_device,
                             constants_that_may_be_given_are_inputs,
                             inputs_may_change_after_a_run, values_pass_from_session_to_session,
                             the_option_may_choose_another_device, compiled_models_do_the_same,
                             sessions_run_at_once, resnet_50_copies_inputs_and_outputs_only,
                             bert_copies_inputs_and_outputs_only])
        gc.collect()
    unregister()
    if not names and not shown:
        skip("no device of Keel has memory of its own")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
