"""What the tests of the ONNX Runtime bridge share: registering it, sessions, counting."""
from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Sequence

SKIP = 77  # the exit code of a test that cannot run here
PROVIDER = "KeelExecutionProvider"
NAME = "keel"  # under which the library is registered


# what came with later versions of ONNX Runtime
def since(minor: int) -> bool:
    return tuple(int(part) for part in ort.__version__.split(".")[:2]) >= (1, minor)


def skip(why: str) -> None:
    print(f"skipped: {why}")
    sys.exit(SKIP)


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as missing:
    skip(f"{missing}; needs a Python with onnx, onnxruntime and numpy (KEEL_ORT_PYTHON names it "
         "to CMake)")


def library() -> str:
    path = os.environ.get("KEEL_ORT_LIBRARY", "")
    if not os.path.exists(path):
        sys.exit(f"KEEL_ORT_LIBRARY is \"{path}\"; it must name libkeel_onnxruntime.so")
    return path


def register() -> None:
    ort.register_execution_provider_library(NAME, library())


def unregister() -> None:
    ort.unregister_execution_provider_library(NAME)


def devices() -> list[Any]:
    return [d for d in ort.get_ep_devices() if d.ep_name == PROVIDER]


def names_of_ours() -> list[str]:
    """Devices of the plugins that come with Keel, which take whole models. Others need not."""
    names = [one.ep_metadata["keel.device"] for one in devices()]
    return [name for name in names if name.split(":")[0] in ("cpu", "opencl", "vulkan", "cuda")]


def device(name: str) -> Any:
    for one in devices():
        if one.ep_metadata.get("keel.device") == name:
            return one
    raise LookupError(f"there is no {name}: {[dict(d.ep_metadata) for d in devices()]}")


def options(device_name: str | None, provider_options: dict[str, str] | None = None,
            optimize: bool = False) -> Any:
    """Session options; `device_name` None: without Keel."""
    made = ort.SessionOptions()
    made.log_severity_level = 4
    if not optimize:
        made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if device_name:
        made.add_provider_for_devices([device(device_name)], provider_options or {})
    return made


def open_session(model: Any, made: Any) -> Any:
    """A session that never takes another provider than it was given."""
    data = model if isinstance(model, (bytes, str)) else model.SerializeToString()
    session = ort.InferenceSession(data, made, enable_fallback=0)
    session.disable_fallback()
    return session


def partitions(session: Any) -> list[list[str]]:
    """The ops of each partition that runs on Keel."""
    return [[node.op_type for node in part.get_nodes()]
            for part in session.get_provider_graph_assignment_info() if part.ep_name == PROVIDER]


def others(session: Any) -> list[str]:
    """The ops that do not run on Keel."""
    return [node.op_type for part in session.get_provider_graph_assignment_info()
            if part.ep_name != PROVIDER for node in part.get_nodes()]


def check(condition: bool, what: str, *facts: Any) -> None:
    if not condition:
        raise AssertionError(" ".join([what, *[repr(f) for f in facts]]))


def refused(call: Callable[[], Any], *words: str) -> None:
    """The call fails, and the text has all of the words."""
    try:
        call()
    except Exception as error:
        text = str(error)
        check(all(word in text for word in words), "text:", text, words)
        return
    raise AssertionError(f"not refused: {words}")


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Calls work(0), work(1) and so on, each on a thread of its own; none may fail."""
    wrong: list[Exception] = []

    def call(i: int) -> None:
        try:
            work(i)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not wrong, "wrong:", wrong[:1])


def run_tests(tests: Sequence[Any]) -> int:
    """Runs functions; prints each one's name. Returns how many failed."""
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}")
        except Exception as error:  # the next test runs all the same
            failed += 1
            print(f"FAILED  {test.__name__}: {type(error).__name__}: {error}")
    return failed
