"""Models in which Keel's partitions are compiled: written, opened, refused.

    contexts.py [DEVICE]    default: cpu:0
"""
from __future__ import annotations

import os
import sys
import tempfile
from typing import Any, Callable

from common import (PROVIDER, check, devices, names_of_ours, np, onnx, open_session, options,
                    ort, partitions, refused, register, run_tests, unregister)
from models import mlp, transformer
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(11)
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu:0"


def floats(name: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any]) -> Any:
    made = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def two_partitions() -> Any:
    """With nodes between them that Keel does not take, and weights of its own in each."""
    weights = [numpy_helper.from_array(RANDOM.standard_normal((8, 8)).astype(np.float32), f"w{i}")
               for i in range(2)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"]),
             helper.make_node("Round", ["a"], ["r"]),
             helper.make_node("Cast", ["r"], ["s"], to=TensorProto.STRING),
             helper.make_node("Cast", ["s"], ["t"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["t", "w1"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["y"])]
    return graph(nodes, [floats("x", "n", 8)], [floats("y", "n", 8)], weights)


def write(folder: str, model: Any, embed: bool = True, device: str = DEVICE,
          **more: str) -> str:
    """The path of the compiled model, which a session has written."""
    source, path = os.path.join(folder, "model.onnx"), os.path.join(folder, "out.onnx")
    onnx.save(model, source)
    made = options(device)
    for key, value in {"enable": "1", "file_path": path, "embed_mode": str(int(embed)),
                       **more}.items():
        made.add_session_config_entry(f"ep.context_{key}", value)
    open_session(source, made)
    os.remove(source)
    return path


def compiled(path: str) -> list[dict[str, Any]]:
    """The attributes of the compiled nodes of a model."""
    return [{one.name: helper.get_attribute_value(one) for one in node.attribute}
            for node in onnx.load(path).graph.node if node.op_type == "EPContext"]


def change(path: str, function: Callable[[Any, dict[str, Any]], None]) -> bytes:
    """The model after a change of its first compiled node, by its attributes' names."""
    model = onnx.load(path)
    node = next(one for one in model.graph.node if one.op_type == "EPContext")
    function(node, {one.name: one for one in node.attribute})
    return bytes(model.SerializeToString())


def beside(path: str) -> list[str]:
    return sorted(name for name in os.listdir(os.path.dirname(path)) if name.endswith(".keel"))


def a_compiled_model_runs_as_its_source() -> None:
    model = two_partitions()
    source = open_session(model, options(DEVICE))
    check(len(partitions(source)) == 2, "partitions", partitions(source))
    for embed in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, model, embed)
            nodes = compiled(path)
            check(len(nodes) == 2, "nodes", len(nodes))
            check(all(one["embed_mode"] == embed for one in nodes), "embed_mode")
            check(all(one["source"] == PROVIDER.encode() for one in nodes), "source")
            check(len(beside(path)) == (0 if embed else 2), "files", beside(path))
            check(not onnx.load(path).graph.initializer, "weights are still there")
            session = open_session(path, options(DEVICE))
            check(partitions(session) == [["EPContext"]] * 2, "parts", partitions(session))
            for rows in (1, 5):
                x = RANDOM.standard_normal((rows, 8)).astype(np.float32)
                np.testing.assert_allclose(session.run(None, {"x": x})[0],
                                           source.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def nothing_is_compiled_again() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp("batch"))
        made = options(DEVICE)
        made.add_session_config_entry("session.disable_model_compile", "1")
        x = RANDOM.standard_normal((3, 64)).astype(np.float32)
        check(open_session(path, made).run(None, {"x": x})[0].shape == (3, 10), "shape")


def whole_models_keep_their_results() -> None:
    for device in names_of_ours():
        for model, shape in ((mlp(4), (4, 64)), (transformer("batch", "tokens"), (2, 9, 32))):
            with tempfile.TemporaryDirectory() as folder:
                x = RANDOM.standard_normal(shape).astype(np.float32)
                want = open_session(model, options(None)).run(None, {"x": x})[0]
                session = open_session(write(folder, model, False, device), options(device))
                check(len(partitions(session)) == 1, "partitions", partitions(session))
                np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-3,
                                           atol=1e-4)


def bodies_are_not_compiled() -> None:
    """ONNX Runtime writes them as they were; they are Keel's again when the model is opened."""
    def body(name: str, op: str) -> Any:
        nodes = [helper.make_node("Cast", ["s"], [name + "f"], to=TensorProto.FLOAT),
                 helper.make_node(op, [name + "f"], [name])]
        return helper.make_graph(nodes, name, [], [floats(name, 3)])

    # strings do not cross, so the node with the bodies is ONNX Runtime's
    nodes = [helper.make_node("Cast", ["x"], ["s"], to=TensorProto.STRING),
             helper.make_node("If", ["c"], ["r"], then_branch=body("t", "Neg"),
                              else_branch=body("e", "Exp")),
             helper.make_node("Abs", ["r"], ["y"])]
    model = graph(nodes, [helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                          floats("x", 3)], [floats("y", 3)], [])
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, model)
        check(len(compiled(path)) == 1, "nodes", len(compiled(path)))
        session = open_session(path, options(DEVICE))
        check(sorted(partitions(session)) == [["EPContext"], ["Exp"], ["Neg"]], "partitions",
              partitions(session))
        x = np.array([1, 2, 3], np.float32)
        for chosen, want in ((True, x), (False, np.exp(x))):
            np.testing.assert_allclose(
                session.run(None, {"c": np.array(chosen), "x": x})[0], want, rtol=1e-5)


def a_model_without_a_name_for_it_goes_beside_its_source() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "net.onnx")
        onnx.save(mlp(4), source)
        made = options(DEVICE)
        made.add_session_config_entry("ep.context_enable", "1")
        open_session(source, made)
        path = os.path.join(folder, "net_ctx.onnx")
        name = compiled(path)[0]["ep_cache_context"].decode()
        check(name.startswith("net_ctx_") and beside(path) == [name], "name", name)
        check(len(partitions(open_session(path, options(DEVICE)))) == 1, "partitions")


def other_models_files_stay() -> None:
    """A file's name is that of its contents."""
    with tempfile.TemporaryDirectory() as folder:
        first = write(folder, mlp(4), False)
        kept = beside(first)
        os.rename(first, os.path.join(folder, "first.onnx"))
        second = write(folder, mlp(4), False)  # other weights
        check(len(beside(second)) == 2 and kept[0] in beside(second), "files", beside(second))
        for path in (second, os.path.join(folder, "first.onnx")):
            open_session(path, options(DEVICE))


def names_get_the_prefix() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4), node_name_prefix="left_")
        check(compiled(path)[0]["partition_name"].startswith(b"left_"), "partition_name",
              compiled(path)[0]["partition_name"])


def bytes_need_the_models_path_for_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4), False)
        with open(path, "rb") as file:
            data = file.read()
        refused(lambda: open_session(data, options(DEVICE)), "ep.context_file_path", ".keel")
        made = options(DEVICE)
        made.add_session_config_entry("ep.context_file_path", path)
        check(len(partitions(open_session(data, made))) == 1, "partitions")


def a_compiled_model_is_compiled_again_as_it_is() -> None:
    """Into the other form: the program is the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4))
        made = ort.ModelCompiler(options(DEVICE), path, embed_compiled_data_into_model=False)
        again = os.path.join(folder, "again.onnx")
        made.compile_to_file(again)
        name = compiled(again)[0]["ep_cache_context"].decode()
        with open(os.path.join(folder, name), "rb") as file:
            check(file.read() == compiled(path)[0]["ep_cache_context"], "another program")
        check(len(partitions(open_session(again, options(DEVICE)))) == 1, "partitions")


def the_compile_api_writes_to_memory() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.onnx")
        onnx.save(mlp("batch"), source)
        made = ort.ModelCompiler(options(DEVICE), source, embed_compiled_data_into_model=True)
        session = open_session(made.compile_to_bytes(), options(DEVICE))
        check(partitions(session) == [["EPContext"]], "partitions", partitions(session))
        x = RANDOM.standard_normal((2, 64)).astype(np.float32)
        check(session.run(None, {"x": x})[0].shape == (2, 10), "shape")


def values_may_go_and_become_constants() -> None:
    """Whoever joins compiled models changes what is around the nodes."""
    nodes = [helper.make_node("Add", ["x", "z"], ["y"]), helper.make_node("Sub", ["x", "z"], ["v"])]
    model = graph(nodes, [floats("x", 3), floats("z", 3)], [floats("y", 3), floats("v", 3)], [])
    x, z = np.array([1, 2, 3], np.float32), np.array([5, 7, 9], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, model)
        fewer = onnx.load(path)
        fewer.graph.value_info.append(fewer.graph.output.pop(0))
        got = open_session(fewer, options(DEVICE)).run(None, {"x": x, "z": z})
        check(len(got) == 1, "outputs", len(got))
        np.testing.assert_array_equal(got[0], x - z)
        fixed = onnx.load(path)
        del fixed.graph.input[1]
        fixed.graph.initializer.append(numpy_helper.from_array(z, "z"))
        got = open_session(fixed, options(DEVICE)).run(None, {"x": x})
        np.testing.assert_array_equal(got[1], x - z)
        twice = onnx.load(path)
        twice.graph.node[0].input[1] = "x"
        del twice.graph.input[1]
        got = open_session(twice, options(DEVICE)).run(None, {"x": x})
        np.testing.assert_array_equal(got[0], x + x)
        short = onnx.load(path)
        del short.graph.node[0].input[1]
        refused(lambda: open_session(short, options(DEVICE)), "1 inputs", "program 2")


def another_devices_program_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4))
        for other in [one.ep_metadata["keel.device"] for one in devices()]:
            if other != DEVICE:
                refused(lambda: open_session(path, options(other)), DEVICE, other)
        data = change(path, lambda node, by: by["hardware_architecture"].__setattr__(
            "s", b"acme:3"))
        refused(lambda: open_session(data, options(DEVICE)), "acme:3", DEVICE, "compile the model")


def another_format_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4))

        def later(node: Any, by: dict[str, Any]) -> None:
            by["notes"].s = by["notes"].s.replace(b"format 1", b"format 2")

        refused(lambda: open_session(change(path, later), options(DEVICE)), "format 2", "format 1")
        data = change(path, lambda node, by: node.attribute.remove(by["notes"]))
        refused(lambda: open_session(data, options(DEVICE)), "compile the model again")


def damage_is_refused() -> None:
    def cut(node: Any, by: dict[str, Any]) -> None:
        by["ep_cache_context"].s = by["ep_cache_context"].s[:-100]

    def flip(node: Any, by: dict[str, Any]) -> None:
        data = bytearray(by["ep_cache_context"].s)
        data[-100] ^= 1
        by["ep_cache_context"].s = bytes(data)

    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4))
        for damage in (cut, flip, lambda node, by: node.attribute.remove(by["ep_cache_context"])):
            refused(lambda: open_session(change(path, damage), options(DEVICE)), "compiled node",
                    "compile the model again")


def damaged_and_missing_files_are_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4), False)
        program = os.path.join(folder, beside(path)[0])
        with open(program, "rb") as file:
            data = file.read()
        for wrong in (data[:-1], data[:-1] + bytes([data[-1] ^ 4]), data + b"x", b""):
            with open(program, "wb") as file:
                file.write(wrong)
            refused(lambda: open_session(path, options(DEVICE)), "damaged", "beside")
        os.remove(program)
        refused(lambda: open_session(path, options(DEVICE)), program, "No such file")


def files_elsewhere_are_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4), False)
        name = beside(path)[0].encode()
        for place in (os.path.join(folder, "").encode() + name, b"../" + name, b"a/../../" + name,
                      b"..", b"", name + b"\0x"):
            data = change(path, lambda node, by: by["ep_cache_context"].__setattr__("s", place))
            with open(path + "2", "wb") as file:
                file.write(data)
            refused(lambda: open_session(path + "2", options(DEVICE)), "the model's folder")


def links_out_of_the_folder_and_pipes_are_refused() -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        path = write(folder, mlp(4), False)
        program = os.path.join(folder, beside(path)[0])
        inside = os.path.join(folder, "inside.keel")
        os.rename(program, inside)
        os.symlink("inside.keel", program)
        open_session(path, options(DEVICE))  # a link that stays is followed
        os.unlink(program)
        outside = os.path.join(other, "outside.keel")
        os.rename(inside, outside)
        os.symlink(outside, program)
        refused(lambda: open_session(path, options(DEVICE)), "leads out of the model's folder")
        os.unlink(program)
        os.mkfifo(program)
        refused(lambda: open_session(path, options(DEVICE)), "is not a regular file")



def what_a_model_depends_on_is_known_before_it_is_opened() -> None:
    from onnxruntime.capi import _pybind_state as state
    ours = {one.ep_metadata["keel.device"]: one for one in devices()}
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, mlp(4), False)
        text = next(one.value for one in onnx.load(path).metadata_props if PROVIDER in one.key)
        check(text.startswith(f"format 1, device {DEVICE}, version "), "text", text)
        if hasattr(state, "get_compatibility_info_from_model"):  # since 1.25
            check(state.get_compatibility_info_from_model(path, PROVIDER) == text, "from the file")

    def ask(name: str, info: str) -> str:
        return str(state.get_model_compatibility_for_ep_devices([ours[name]], info).name)

    check(ask(DEVICE, text) == "EP_SUPPORTED_OPTIMAL", "as it is", ask(DEVICE, text))
    recompile = "EP_SUPPORTED_PREFER_RECOMPILATION"
    for other in (text + ", driver 9", text.replace("version ", "version 9.")):
        check(ask(DEVICE, other) == recompile, other, ask(DEVICE, other))
    for other in ("", "nonsense", "format 1, device ", text[:10],
                  text.replace("format 1", "format 2"),
                  text.replace(DEVICE, "nonsense:0"), text.replace(DEVICE, 200 * "x")):
        check(ask(DEVICE, other) == "EP_UNSUPPORTED", other, ask(DEVICE, other))
    for name in ours:
        at_the_cpu = [ours[one].device.type == ort.OrtHardwareDeviceType.CPU
                      for one in (name, DEVICE)]
        want = name == DEVICE or all(at_the_cpu)  # ONNX Runtime names the hardware alone
        check((ask(name, text) == "EP_SUPPORTED_OPTIMAL") == want, name, ask(name, text))


def main() -> int:
    register()
    failed = run_tests([a_compiled_model_runs_as_its_source, nothing_is_compiled_again,
                        whole_models_keep_their_results, bodies_are_not_compiled,
                        a_model_without_a_name_for_it_goes_beside_its_source,
                        other_models_files_stay, names_get_the_prefix,
                        bytes_need_the_models_path_for_files,
                        a_compiled_model_is_compiled_again_as_it_is,
                        the_compile_api_writes_to_memory, values_may_go_and_become_constants,
                        another_devices_program_is_refused, another_format_is_refused,
                        damage_is_refused, damaged_and_missing_files_are_refused,
                        files_elsewhere_are_refused,
                        links_out_of_the_folder_and_pipes_are_refused,
                        what_a_model_depends_on_is_known_before_it_is_opened])
    unregister()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
