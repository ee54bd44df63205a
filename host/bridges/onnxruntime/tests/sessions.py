"""The provider's devices, options, errors, partitions, sessions and threads."""
from __future__ import annotations

import ast
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from typing import Any

from common import (PROVIDER, at_once, check, devices, names_of_ours, np, open_session, options,
                    ort, others, partitions, refused, register, run_tests, since, unregister)
from models import mlp, transformer
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any] = [],
          opset: int = 17) -> Any:
    made = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def floats(name: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def every_device_is_shown() -> None:
    names = [d.ep_metadata["keel.device"] for d in devices()]
    check("cpu:0" in names and len(names) == len(set(names)), "devices:", names)
    for one in devices():
        check(one.ep_vendor == "Keel", "vendor", one.ep_vendor)
        check(one.ep_metadata["version"].count(".") == 2, "version", dict(one.ep_metadata))


def the_default_device_comes_first() -> None:
    """ONNX Runtime takes the first where none is named."""
    for name in [d.ep_metadata["keel.device"] for d in devices()]:
        code = ("import common; common.register(); "
                "print([d.ep_metadata['keel.device'] for d in common.devices()])")
        said = subprocess.run([sys.executable, "-c", code], env={**os.environ, "KEEL_DEVICE": name},
                              cwd=os.path.dirname(os.path.abspath(__file__)), check=True,
                              capture_output=True, text=True).stdout
        shown = ast.literal_eval(said)
        check(shown[0] == name and len(set(shown)) == len(devices()), "order", shown)


MADE = """
import gc, sys
import common, models
import numpy as np
common.register()
for one in common.devices():
    name, kind = one.ep_metadata["keel.device"], one.ep_metadata["keel.kind"]
    if kind == "cpu":
        continue
    assert one.device.vendor == "Keel", one.device.vendor
    assert one.device.metadata["keel.device"] == name, dict(one.device.metadata)
    assert str(one.device.type).endswith(".GPU" if kind == "gpu" else ".NPU"), one.device.type
    session = common.open_session(models.mlp(4), common.options(name))
    plain = common.open_session(models.mlp(4), common.options(None))
    x = np.ones((4, 64), np.float32)
    assert session.run(None, {"x": x})[0].shape == plain.run(None, {"x": x})[0].shape
    print(name, len(common.partitions(session)))
"""


def devices_that_onnxruntime_does_not_find_are_made() -> None:
    """On the sample of an NPU, in a process of its own."""
    plugin = os.environ.get("KEEL_ORT_NPU", "")
    if not plugin:
        return
    said = subprocess.run([sys.executable, "-c", MADE], capture_output=True, text=True,
                          env={**os.environ, "KEEL_PLUGIN_PATH": plugin},
                          cwd=os.path.dirname(os.path.abspath(__file__)))
    check(said.returncode == 0, "failed", said.stderr[-800:])
    check("graph_npu:0" in said.stdout, "devices", said.stdout)


def options_are_checked() -> None:
    model = mlp(4)
    for given, words in (({"keel.devise": "cpu:0"}, ["keel.devise", "keel.device"]),
                         ({"keel.device": "nope:9"}, ["nope:9", "cpu:0"]),
                         ({"keel.device": "x" * 200}, ["keel.device"]),
                         ({"keel.threads": "many"}, ["keel.threads", "many"]),
                         ({"keel.threads": "0"}, ["keel.threads"]),
                         ({"keel.trace": ""}, ["keel.trace"])):
        refused(lambda: open_session(model, options("cpu:0", given)), "Keel: ", *words)


def a_session_has_one_device() -> None:
    made = ort.SessionOptions()
    several = devices()
    if len(several) < 2:
        return
    try:
        made.add_provider_for_devices(several[:2], {})
    except Exception:  # ONNX Runtime may refuse it itself
        return
    refused(lambda: open_session(mlp(4), made), "one device")


def the_option_chooses_the_device() -> None:
    if not since(25):  # providers by name are its own alone
        return
    x = RANDOM.standard_normal((4, 64)).astype(np.float32)
    want = open_session(mlp(4), options("cpu:0"))
    check(want.run(None, {"x": x})[0].shape == (4, 10), "shape")
    for name in names_of_ours():
        session = ort.InferenceSession(
            mlp(4).SerializeToString(), options(None), enable_fallback=0,
            providers=[(PROVIDER, {"keel.device": name}), "CPUExecutionProvider"])
        check(len(partitions(session)) == 1, "on", name, partitions(session))
        check(session.run(None, {"x": x})[0].shape == (4, 10), "shape")


def errors_cross_with_their_whole_text() -> None:
    model = graph([helper.make_node("Gather", ["x", "i"], ["y"], name="the_gather")],
                  [floats("x", 3), helper.make_tensor_value_info("i", TensorProto.INT64, [1])],
                  [floats("y", 1)])
    session = open_session(model, options("cpu:0"))
    check(partitions(session) == [["Gather"]], "partitions", partitions(session))
    feeds = {"x": np.zeros(3, np.float32), "i": np.array([7], np.int64)}
    refused(lambda: session.run(None, feeds), "Keel: ", "the_gather", "Gather", "7")
    feeds["i"][0] = 2
    check(session.run(None, feeds)[0].shape == (1,), "runs on")


def partitions_are_wide_and_convex() -> None:
    """a -> (string and back) -> sum, and a -> sum: a path leaves Keel and comes back. Two other
    branches, which do not meet it, stand between its nodes."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]),
             helper.make_node("Exp", ["x"], ["b"]),
             helper.make_node("Cast", ["a"], ["s"], to=TensorProto.STRING),
             helper.make_node("Neg", ["b"], ["c"]),
             helper.make_node("Cast", ["s"], ["t"], to=TensorProto.FLOAT),
             helper.make_node("Abs", ["c"], ["d"]),
             helper.make_node("Add", ["a", "t"], ["u"]),
             helper.make_node("Add", ["u", "d"], ["y"])]
    model = graph(nodes, [floats("x", 4)], [floats("y", 4)])
    session = open_session(model, options("cpu:0"))
    check(len(partitions(session)) == 2, "partitions", partitions(session))
    check(sorted(others(session)) == ["Cast", "Cast"], "others", others(session))
    x = np.array([1, 2, 4, 8], np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], 2 * x + np.exp(x), rtol=1e-5)


def a_branch_takes_values_from_around_it() -> None:
    then = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["t"])], "then", [],
                             [floats("t", 3)])
    other = helper.make_graph([helper.make_node("Sub", ["x", "k"], ["e"])], "else", [],
                              [floats("e", 3)],
                              [numpy_helper.from_array(np.ones(3, np.float32), "k")])
    model = graph([helper.make_node("If", ["c"], ["r"], then_branch=then, else_branch=other),
                   helper.make_node("Neg", ["r"], ["y"])],
                  [helper.make_tensor_value_info("c", TensorProto.BOOL, []), floats("x", 3)],
                  [floats("y", 3)], [numpy_helper.from_array(np.full(3, 5, np.float32), "w")])
    session = open_session(model, options("cpu:0"))
    if since(27):  # hands over what the branches take
        check(partitions(session) == [["If", "Neg"]], "partitions", partitions(session))
    x = np.array([1, 2, 3], np.float32)
    for chosen, want in ((True, -5 * x), (False, 1 - x)):
        np.testing.assert_array_equal(
            session.run(None, {"c": np.array(chosen), "x": x})[0], want)


def constants_that_may_be_given_are_inputs() -> None:
    weight = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    model = graph([helper.make_node("Mul", ["x", "w"], ["y"])], [floats("x", 3), floats("w", 3)],
                  [floats("y", 3)], [weight])
    session = open_session(model, options("cpu:0"))
    check(len(partitions(session)) == 1, "partitions")
    x = np.ones(3, np.float32)
    check(session.run(None, {"x": x})[0][0] == 2, "the constant")
    check(session.run(None, {"x": x, "w": x * 7})[0][0] == 7, "what was given")


def empty_and_scalar_tensors_cross() -> None:
    model = graph([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])],
                  [floats("x", "n")], [floats("y", "n"), floats("z", "n")])
    session = open_session(model, options("cpu:0"))
    for size in (0, 3, 0):
        x = np.arange(size, dtype=np.float32)
        y, z = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, -x)
        np.testing.assert_array_equal(z, x)
    scalar = open_session(graph([helper.make_node("Neg", ["x"], ["y"])], [floats("x")],
                                [floats("y")]), options("cpu:0"))
    check(scalar.run(None, {"x": np.array(3, np.float32)})[0] == -3, "a scalar")


def opsets_that_are_not_known_are_not_claimed() -> None:
    """What Keel does not have of ONNX Runtime's own ops stays where it is, too."""
    model = graph([helper.make_node("Inverse", ["x"], ["a"], domain="com.microsoft"),
                   helper.make_node("QuickGelu", ["a"], ["b"], domain="com.microsoft"),
                   helper.make_node("Neg", ["b"], ["y"])],
                  [floats("x", 3, 3)], [floats("y", 3, 3)])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    session = open_session(model, options("cpu:0"))
    check(others(session) == ["Inverse"], "others", others(session))
    check(partitions(session) == [["QuickGelu", "Neg"]], "partitions", partitions(session))
    x = RANDOM.standard_normal((3, 3)).astype(np.float32)
    want = open_session(model, options(None)).run(None, {"x": x})[0]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-5)


def sessions_run_at_once() -> None:
    """Two sessions of each of two models, eight threads in all of them."""
    made = []
    for model, shape in ((mlp("batch"), (5, 64)), (transformer("batch", "tokens"), (2, 9, 32))):
        x = RANDOM.standard_normal(shape).astype(np.float32)
        want = open_session(model, options(None)).run(None, {"x": x})[0]
        for given in ({}, {"keel.threads": "2"}):
            made.append((open_session(model, options("cpu:0", given)), x, want))

    def work(first: int) -> None:
        for i in range(40):
            session, x, want = made[(first + i) % len(made)]
            np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-5)

    at_once(8, work)


def sessions_are_made_at_once() -> None:
    model = transformer("batch", "tokens")

    def work(_: int) -> None:
        for _ in range(5):
            session = open_session(model, options("cpu:0", {"keel.threads": "3"}))
            session.run(None, {"x": np.ones((1, 3, 32), np.float32)})

    at_once(4, work)


def threads_may_be_chosen() -> None:
    x = RANDOM.standard_normal((4, 64)).astype(np.float32)
    model = mlp(4)
    want = open_session(model, options(None)).run(None, {"x": x})[0]
    open_session(model, options("cpu:0")).run(None, {"x": x})  # starts what all runs share
    for count in (1, 2, 5, 7):  # though the process has a runtime with another number
        made = options("cpu:0", {"keel.threads": str(count)})
        made.intra_op_num_threads = 1
        gc.collect()
        before = len(os.listdir("/proc/self/task"))
        session = open_session(model, made)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-6)
        new = len(os.listdir("/proc/self/task")) - before
        shared = count == len(os.sched_getaffinity(0))  # with the other runtime
        check(new == (0 if shared else count - 1), "threads of its own", count, new)
        del session


def a_trace_is_written_at_the_end() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        session = open_session(mlp(4), options("cpu:0", {"keel.trace": path}))
        refused(lambda: open_session(mlp(4), options("cpu:0", {"keel.trace": path})), "trace")
        session.run(None, {"x": np.ones((4, 64), np.float32)})
        check(not os.path.exists(path), "written too early")
        del session
        gc.collect()
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        check(any("Gemm" in str(e.get("name")) for e in events), "no Gemm in", len(events))


def a_session_outlives_the_library() -> None:
    x = np.ones((4, 64), np.float32)
    model = mlp(4)
    session = open_session(model, options("cpu:0"))
    want = session.run(None, {"x": x})[0]
    gc.collect()
    unregister()
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)
    register()
    other = open_session(model, options("cpu:0"))
    del session
    gc.collect()
    np.testing.assert_array_equal(other.run(None, {"x": x})[0], want)


def endless_model() -> bytes:
    body = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["b"]), helper.make_node("Tanh", ["b"], ["c"]),
         helper.make_node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("a", 16, 16)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), floats("c", 16, 16)])
    return graph([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
                 [helper.make_tensor_value_info("n", TensorProto.INT64, []), floats("x", 16, 16)],
                 [floats("y", 16, 16)],
                 [numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")])


class Begun:
    """A run on a thread of its own."""

    def __init__(self, session: Any, rounds: int) -> None:
        self.options = ort.RunOptions()
        self.options.log_severity_level = 4
        self.errors: list[str] = []
        self.thread = threading.Thread(target=self.run, args=(session, rounds), daemon=True)
        self.thread.start()

    def run(self, session: Any, rounds: int) -> None:
        try:
            session.run(None, {"n": np.array(rounds, np.int64),
                               "x": np.ones((16, 16), np.float32)}, self.options)
        except Exception as error:
            self.errors.append(str(error))

    def end(self) -> None:
        self.thread.join(0.3)
        check(self.thread.is_alive(), "nothing has ended it yet", self.errors)
        self.options.terminate = True
        self.thread.join(60)
        check(not self.thread.is_alive(), "a run that is to end")
        check(len(self.errors) == 1 and "RunOptions.terminate" in self.errors[0], "errors",
              self.errors)


def runs_well(session: Any) -> None:
    next_one = Begun(session, 3)
    next_one.thread.join()
    check(not next_one.errors, "the next run", next_one.errors)


def terminate_ends_a_run() -> None:
    session = open_session(endless_model(), options("cpu:0"))
    check(not others(session), "the provider has all", others(session))
    for _ in range(2):
        both = [Begun(session, 10 ** 11) for _ in range(2)]
        for one in both:  # one after the other: the other one goes on
            one.end()
        runs_well(session)


def terminate_ends_a_run_on_other_threads() -> None:
    given = options("cpu:0")
    given.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    given.inter_op_num_threads = 2
    both = [open_session(endless_model(), given) for _ in range(2)]
    for _ in range(2):
        begun = [Begun(session, 10 ** 11) for session in both]
        for one in begun:
            one.end()
        for session in both:
            runs_well(session)


def the_library_goes_and_comes_again() -> None:
    gc.collect()
    unregister()
    check(not devices(), "devices that went")
    register()
    check(bool(devices()), "devices that came")
    x = np.ones((4, 64), np.float32)
    check(open_session(mlp(4), options("cpu:0")).run(None, {"x": x})[0].shape == (4, 10), "runs")
    gc.collect()


def main() -> int:
    register()
    failed = run_tests([every_device_is_shown, the_default_device_comes_first,
                        devices_that_onnxruntime_does_not_find_are_made,
                        options_are_checked, a_session_has_one_device, the_option_chooses_the_device,
                        errors_cross_with_their_whole_text, partitions_are_wide_and_convex,
                        a_branch_takes_values_from_around_it,
                        constants_that_may_be_given_are_inputs, empty_and_scalar_tensors_cross,
                        opsets_that_are_not_known_are_not_claimed, sessions_run_at_once,
                        sessions_are_made_at_once, threads_may_be_chosen,
                        a_trace_is_written_at_the_end, terminate_ends_a_run,
                        terminate_ends_a_run_on_other_threads, a_session_outlives_the_library,
                        the_library_goes_and_comes_again])
    gc.collect()
    unregister()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
