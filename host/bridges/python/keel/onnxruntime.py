"""Keel's devices in ONNX Runtime.

    import onnxruntime
    import keel.onnxruntime

    session = onnxruntime.InferenceSession(
        "model.onnx", keel.onnxruntime.session_options("cpu:0"))

Needs onnxruntime 1.24 or later. What the device does not take runs on ONNX Runtime's own CPU;
host/bridges/onnxruntime/README.md of Keel says more.
"""
from __future__ import annotations

import importlib
import os
from typing import Any

from . import _native

_ort: Any = importlib.import_module("onnxruntime")  # which has no types
PROVIDER = "KeelExecutionProvider"
_NAME = "keel"  # what ONNX Runtime knows the library by

__all__ = ["PROVIDER", "devices", "library_path", "providers", "register", "session_options",
           "unregister"]


def library_path() -> str:
    """The path of Keel's provider library: what the variable KEEL_ONNXRUNTIME_LIBRARY says, else
    keel-bridges/libkeel_onnxruntime.so beside libkeel.

    Raises FileNotFoundError if there is none.
    """
    return _native.bridge("ONNX Runtime", "libkeel_onnxruntime.so", "KEEL_ONNXRUNTIME_LIBRARY")


def register() -> None:
    """Makes Keel's provider and devices known to ONNX Runtime; does nothing the second time."""
    if not hasattr(_ort, "register_execution_provider_library"):
        raise RuntimeError(f"onnxruntime {_ort.__version__} takes no providers from libraries; "
                           "Keel's needs 1.24 or later")
    if not any(device.ep_name == PROVIDER for device in _ort.get_ep_devices()):
        _ort.register_execution_provider_library(_NAME, library_path())


def unregister() -> None:
    """Takes the provider away again; all sessions that use it must be gone."""
    _ort.unregister_execution_provider_library(_NAME)


def devices() -> dict[str, Any]:
    """Keel's devices as ONNX Runtime has them, by Keel's names: {"cpu:0": OrtEpDevice}. They are
    what SessionOptions.add_provider_for_devices takes, one for a session."""
    register()
    return {device.ep_metadata["keel.device"]: device
            for device in _ort.get_ep_devices() if device.ep_name == PROVIDER}


def _options(threads: int | None, trace: str | os.PathLike[str] | None) -> dict[str, str]:
    options = {}
    if threads is not None:
        options["keel.threads"] = str(threads)
    if trace is not None:
        options["keel.trace"] = os.fspath(trace)
    return options


def session_options(device: str = "", *, threads: int | None = None,
                    trace: str | os.PathLike[str] | None = None,
                    options: Any = None) -> Any:
    """The SessionOptions of an InferenceSession that runs on a device of Keel.

    device   "cpu:0", "opencl:0" ...; "": Keel's default device
    threads  how many threads work on a run, its caller included; None: as many as Keel takes
    trace    a file to which a timeline of all that Keel did is written when the session ends
    options  SessionOptions to which the provider is added; None: new ones
    """
    made = _ort.SessionOptions() if options is None else options
    made.add_provider_for_devices([_native.named(devices(), device)], _options(threads, trace))
    return made


def providers(device: str = "", *, threads: int | None = None,
              trace: str | os.PathLike[str] | None = None) -> list[Any]:
    """The same as the `providers` of an InferenceSession, which onnxruntime takes since 1.25.
    Give the session enable_fallback=0, or an error of Keel leaves it on the CPU with no more than
    a line that is printed."""
    name = _native.named(devices(), device).ep_metadata["keel.device"]
    return [(PROVIDER, {"keel.device": name, **_options(threads, trace)}),
            "CPUExecutionProvider"]
