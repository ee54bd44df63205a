"""libkeel's functions and structs, as host/include/keel has them, by ctypes."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import (POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p)
from typing import Any

API = "0.1"  # the versions of libkeel whose structs these are

OK, BUSY = 0, 19
NOT_FOUND, FAILED_PRECONDITION, UNIMPLEMENTED = 5, 9, 12


class ContextParams(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32),
                ("plugins", POINTER(c_char_p)), ("plugin_count", c_uint32),
                ("workers", c_int32), ("memory_limit", c_uint64),
                ("options", POINTER(c_char_p)), ("option_count", c_uint32),
                ("reserved", c_uint32), ("log", c_void_p), ("log_context", c_void_p),
                ("visible", c_char_p), ("entries", c_void_p), ("entry_count", c_uint32),
                ("reserved_entries", c_uint32), ("step", c_void_p), ("step_context", c_void_p)]


class PluginInfo(Structure):
    _fields_ = [("path", c_char_p), ("source", c_char_p), ("name", c_char_p),
                ("vendor", c_char_p), ("version", c_char_p), ("abi_version", c_uint32),
                ("device_count", c_uint32), ("status", c_int32), ("reason", c_char_p),
                ("hint", c_char_p)]


class DeviceFacts(Structure):
    _fields_ = [("name", c_char_p), ("product", c_char_p), ("kind", c_char_p),
                ("driver", c_char_p), ("plugin", c_char_p), ("level", c_uint32),
                ("flags", c_uint32), ("compute_units", c_uint32), ("kernel_count", c_uint32),
                ("memory", c_uint64), ("uuid", c_uint8 * 16), ("same_as", c_char_p)]


class Property(Structure):
    _fields_ = [("name", c_char * 64), ("unit", c_char * 16), ("type", c_uint32),
                ("flags", c_uint32), ("integer", c_int64), ("real", c_double),
                ("text", c_char * 256)]


class MemoryFacts(Structure):
    _fields_ = [("total", c_uint64), ("available", c_uint64), ("used", c_uint64),
                ("buffers", c_uint64)]


class Port(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_uint32), ("rank", c_uint32),
                ("dims", POINTER(c_int64)), ("flags", c_uint32),
                ("symbols", POINTER(c_char_p)), ("sharding", c_char_p)]


class PlanParams(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("device", c_void_p),
                ("places", POINTER(c_char_p)), ("place_count", c_uint32),
                ("skip_count", c_uint32), ("skip", POINTER(c_char_p)), ("on_pass", c_void_p),
                ("on_pass_context", c_void_p), ("on_pass_name", c_char_p),
                ("cancel", c_void_p), ("timeout", c_uint64),
                ("version_bytes", c_uint64)]


class InputSizes(Structure):
    _fields_ = [("input", c_uint32), ("rank", c_uint32), ("dims", POINTER(c_int64))]


class VersionCounts(Structure):
    _fields_ = [(name, c_uint64) for name in ("kept", "pinned", "made", "evicted", "hits",
                                              "misses", "time")]


class Footprint(Structure):
    _fields_ = [("device", c_char_p), *((name, c_uint64) for name in (
        "constants", "mapped", "taken", "recorded", "values"))]


RUN_ENQUEUES = 4


class RunParams(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("cancel", c_void_p),
                ("timeout", c_uint64), ("donated", POINTER(c_uint32)),
                ("donated_count", c_uint32), ("reserved", c_uint32), ("should_end", c_void_p),
                ("should_end_context", c_void_p), ("done", c_void_p), ("done_context", c_void_p),
                ("into", c_void_p), ("into_count", c_uint32), ("reserved_into", c_uint32)]


class OutputMemory(Structure):
    _fields_ = [("data", c_void_p), ("size", c_uint64)]


RUN_PARAMS_SIZE = ctypes.sizeof(RunParams)


class Attr(Structure):
    """An attribute of an op. Its size is the distance in an array of them: the fields must be
    those of the libkeel that is loaded."""
    _fields_ = [("name", c_char_p), ("kind", c_uint32), ("count", c_uint32), ("i", c_int64),
                ("f", c_float), ("s", c_char_p), ("ints", POINTER(c_int64)),
                ("floats", POINTER(c_float)), ("strings", POINTER(c_char_p)),
                ("tensor", c_void_p), ("body", c_void_p)]


ATTR_FLOAT, ATTR_INT, ATTR_STRING, ATTR_TENSOR = 1, 2, 3, 4
ATTR_FLOATS, ATTR_INTS, ATTR_STRINGS = 6, 7, 8
ABSENT = 0xffffffff  # an omitted argument of an op
RANK_UNKNOWN = 0xffffffff
ONLY_NAMED = 0x1
NO_WORKERS = -1
MAY_COPY, COPY = 0x1, 0x2

# name: result, arguments. A result "status" is checked by the caller.
_handle, _out = c_void_p, POINTER(c_void_p)
_signatures: dict[str, tuple[Any, list[Any]]] = {
    "keel_version": (c_char_p, []),
    "keel_message": (c_char_p, []),
    "keel_status_name": (c_char_p, [c_int32]),
    "keel_dtype_name": (c_char_p, [c_uint32]),
    "keel_dtype_of": (c_uint32, [c_char_p]),
    "keel_open": (c_int32, [POINTER(ContextParams), _out]),
    "keel_close": (None, [_handle]),
    "keel_show": (c_int32, [_handle, c_char_p]),
    "keel_plugin_count": (c_uint32, [_handle]),
    "keel_plugin_at": (c_int32, [_handle, c_uint32, POINTER(PluginInfo)]),
    "keel_device_count": (c_uint32, [_handle]),
    "keel_device_at": (_handle, [_handle, c_uint32]),
    "keel_device_find": (c_int32, [_handle, c_char_p, _out]),
    "keel_device_default": (_handle, [_handle]),
    "keel_device_describe": (None, [_handle, POINTER(DeviceFacts)]),
    "keel_device_property": (c_int32, [_handle, c_uint32, POINTER(Property)]),
    "keel_device_memory": (c_int32, [_handle, POINTER(MemoryFacts)]),
    "keel_program_load": (c_int32, [_handle, c_char_p, _out]),
    "keel_program_load_memory": (c_int32, [_handle, c_char_p, c_char_p, c_uint64, _out]),
    "keel_program_initializer_count": (c_uint32, [_handle]),
    "keel_program_initializer": (c_int32, [_handle, c_uint32, POINTER(Port)]),
    "keel_program_override": (c_int32, [_handle, POINTER(c_char_p), c_uint32, _out]),
    "keel_program_release": (None, [_handle]),
    "keel_program_op_count": (c_uint32, [_handle]),
    "keel_builder_create": (c_int32, [_handle, c_char_p, _out]),
    "keel_builder_destroy": (None, [_handle]),
    "keel_builder_input": (c_uint32, [_handle, c_char_p, c_uint32, c_uint32,
                                      POINTER(c_int64)]),
    "keel_builder_constant": (c_uint32, [_handle, _handle]),
    "keel_builder_op_n": (c_int32, [_handle, c_char_p, POINTER(Attr), c_uint32,
                                    POINTER(c_uint32), c_uint32, POINTER(c_uint32),
                                    c_uint32]),
    "keel_builder_output": (c_int32, [_handle, c_char_p, c_uint32]),
    "keel_builder_finish": (c_int32, [_handle, _out]),
    "keel_plan_create": (c_int32, [_handle, POINTER(PlanParams), _out]),
    "keel_plan_release": (None, [_handle]),
    "keel_plan_input_count": (c_uint32, [_handle]),
    "keel_plan_input": (c_int32, [_handle, c_uint32, POINTER(Port)]),
    "keel_plan_output_count": (c_uint32, [_handle]),
    "keel_plan_output": (c_int32, [_handle, c_uint32, POINTER(Port)]),
    "keel_plan_prepare": (c_int32, [_handle, POINTER(InputSizes), c_uint32]),
    "keel_trim": (None, [_handle]),
    "keel_program_batch": (c_int32, [_handle]),
    "keel_plan_footprint": (c_int32, [_handle, c_uint32, POINTER(Footprint)]),
    "keel_plan_versions": (None, [_handle, POINTER(VersionCounts)]),
    "keel_cancel_create": (c_int32, [_handle, _out]),
    "keel_cancel_request": (None, [_handle, c_char_p]),
    "keel_cancel_release": (None, [_handle]),
    "keel_plan_run": (c_int32, [_handle, _out, c_uint32, _out, c_uint32]),
    "keel_plan_run_with": (c_int32, [_handle, POINTER(RunParams), _out, c_uint32, _out,
                                     c_uint32]),
    "keel_tensor_create": (c_int32, [_handle, c_uint32, c_uint32, POINTER(c_int64), c_void_p,
                                     _out]),
    "keel_tensor_wrap": (c_int32, [_handle, c_uint32, c_uint32, POINTER(c_int64), c_void_p,
                                   c_void_p, c_void_p, _out]),
    "keel_tensor_release": (None, [_handle]),
    "keel_tensor_wait": (c_int32, [_handle]),
    "keel_tensor_dtype": (c_uint32, [_handle]),
    "keel_tensor_rank": (c_uint32, [_handle]),
    "keel_tensor_dims": (POINTER(c_int64), [_handle]),
    "keel_tensor_size": (c_uint64, [_handle]),
    "keel_tensor_device": (_handle, [_handle]),
    "keel_tensor_read": (c_int32, [_handle, c_void_p, c_uint64]),
    "keel_tensor_to": (c_int32, [_handle, _handle, _out]),
    "keel_tensor_data": (c_void_p, [_handle]),
    "keel_tensor_text": (c_char_p, [_handle, c_char_p, c_uint32]),
    "keel_sequence_length": (c_int64, [_handle]),
    "keel_sequence_at": (c_int32, [_handle, c_int64, _out]),
    "keel_sequence_create": (c_int32, [_handle, _out, c_uint32, _out]),
    "keel_optional_empty": (c_int32, [_handle, _out]),
    "keel_tensor_from_dlpack": (c_int32, [_handle, c_void_p, c_uint32, _out]),
    "keel_tensor_from_dlpack_legacy": (c_int32, [_handle, c_void_p, c_uint32, _out]),
    "keel_tensor_to_dlpack": (c_int32, [_handle, c_uint32, _out]),
    "keel_tensor_to_dlpack_legacy": (c_int32, [_handle, c_uint32, _out]),
    "keel_dlpack_destroy_capsule": (None, [c_void_p]),
    "keel_dlpack_count": (c_uint32, [_handle]),
    "keel_trace_start": (c_int32, [_handle]),
    "keel_trace_stop": (c_int32, [_handle, c_char_p]),
}


def _open() -> ctypes.CDLL:
    named = os.environ.get("KEEL_LIBRARY")
    name = named or "libkeel.so.0"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(
            f"{error}; install libkeel0, or set KEEL_LIBRARY to the path of libkeel.so.0"
        ) from None
    try:
        for function, (result, arguments) in _signatures.items():
            entry = getattr(library, function)
            entry.restype, entry.argtypes = result, arguments
    except AttributeError as error:
        raise ImportError(f"{name} is not a libkeel {API}: {error}") from None
    version = library.keel_version().decode()
    if not version.startswith(API + "."):
        raise ImportError(f"{name} is libkeel {version}; this package is for {API}")
    return library


lib = _open()


def text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


class _Symbol(Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("name", c_char_p),
                ("address", c_void_p)]


def folder() -> str:
    """Where the libkeel lies that is loaded; "" if the system does not say."""
    found = _Symbol()
    address = ctypes.cast(lib.keel_version, c_void_p)
    if not ctypes.CDLL(None).dladdr(address, byref(found)) or not found.file:
        return ""
    return os.path.dirname(os.path.realpath(os.fsdecode(found.file)))


def bridge(to: str, file: str, variable: str) -> str:
    """The path of a bridge's library: what the variable says, else keel-bridges/FILE beside
    libkeel."""
    path = os.environ.get(variable) or os.path.join(folder(), "keel-bridges", file)
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {path}; install Keel's bridge to {to}, or set "
                                f"{variable} to the path of {file}")
    return path


def named(known: dict[str, Any], name: str) -> Any:
    """The device of that name, "opencl:0" or "opencl"; without one the first."""
    if not name:
        return next(iter(known.values()))
    for full in (name, f"{name}:0"):
        if full in known:
            return known[full]
    raise ValueError(f"there is no device \"{name}\"; there are {', '.join(known)}")


def handle() -> c_void_p:
    return c_void_p()


__all__ = ["lib", "text", "handle", "byref", "c_int", "c_char_p", "c_int64", "c_void_p"]
