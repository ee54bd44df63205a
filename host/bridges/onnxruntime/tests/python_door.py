"""keel.onnxruntime: finding the library, registering it, providers of a session."""
from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from typing import Any

from common import check, library, np, open_session, options, ort, partitions, run_tests, since
from models import mlp

import keel.onnxruntime as door

X = np.ones((4, 64), np.float32)


def open_with(given: Any) -> Any:
    """A session with providers, or with session options."""
    named = isinstance(given, list)
    made = ort.SessionOptions() if named else given
    made.log_severity_level = 4
    made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ort.InferenceSession(mlp(4).SerializeToString(), made,
                                   providers=given if named else None, enable_fallback=0)
    session.disable_fallback()
    return session


def the_library_is_found_beside_libkeel() -> None:
    check(os.path.samefile(door.library_path(), library()), "path", door.library_path())
    os.environ["KEEL_ONNXRUNTIME_LIBRARY"] = "/nowhere/libkeel_onnxruntime.so"
    try:
        door.library_path()
    except FileNotFoundError as error:
        check("KEEL_ONNXRUNTIME_LIBRARY" in str(error), "text", str(error))
    else:
        raise AssertionError("a path that is not there")
    finally:
        del os.environ["KEEL_ONNXRUNTIME_LIBRARY"]


def registering_twice_is_registering_once() -> None:
    door.register()
    door.register()
    names = list(door.devices())
    check("cpu:0" in names and len(names) == len(set(names)), "devices", names)


def providers_make_a_session() -> None:
    want = open_session(mlp(4), options(None))
    ways = [door.session_options] + ([door.providers] if since(25) else [])
    for given in (way(*names, **more) for way in ways
                  for names, more in (((), {}), (("cpu:0",), {}), (("cpu",), {"threads": 2}))):
        session = open_with(given)
        check(len(partitions(session)) == 1, "partitions", partitions(session))
        check(session.run(None, {"x": X})[0].shape == want.run(None, {"x": X})[0].shape, "shape")


def mistakes_are_named() -> None:
    for call, word in ((lambda: door.providers("nope:3"), "cpu:0"),
                       (lambda: door.session_options("nope:3"), "cpu:0"),
                       (lambda: open_with(door.session_options("cpu:0", threads=0)),
                        "keel.threads")):
        try:
            call()
        except Exception as error:
            check(word in str(error), "text", str(error))
        else:
            raise AssertionError("a mistake that passed")


def a_trace_is_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        session = open_with(door.session_options("cpu:0", trace=path))
        session.run(None, {"x": X})
        del session
        gc.collect()
        with open(path, encoding="utf-8") as file:
            check(bool(json.load(file)["traceEvents"]), "no events")


def it_goes_and_comes_again() -> None:
    gc.collect()
    door.unregister()
    check(not [d for d in ort.get_ep_devices() if d.ep_name == door.PROVIDER], "devices")
    check("cpu:0" in door.devices(), "no devices")
    gc.collect()
    door.unregister()


if __name__ == "__main__":
    sys.exit(1 if run_tests([the_library_is_found_beside_libkeel,
                             registering_twice_is_registering_once, providers_make_a_session,
                             mistakes_are_named, a_trace_is_written,
                             it_goes_and_comes_again]) else 0)
