"""DLPack capsules, https://dmlc.github.io/dlpack: taken from others, and made for them."""
from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_void_p, py_object
from typing import Any

from ._native import lib

_api = ctypes.pythonapi
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [py_object, c_char_p]
_set_name = _api.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [py_object, c_char_p]
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]

# where a struct's deleter is, and the names of its capsule before and after it was taken;
# the names live as long as the process, as capsules point to them
_KINDS = {
    False: (56, b"dltensor", b"used_dltensor"),
    True: (16, b"dltensor_versioned", b"used_dltensor_versioned"),
}
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
# of a capsule that nobody took: C code, as an exception may be pending, or Python ending
_destructor = ctypes.cast(lib.keel_dlpack_destroy_capsule, c_void_p)


def take(capsule: Any) -> tuple[int, bool]:
    """The struct in a capsule, which the caller owns from now on; whether it is versioned."""
    for versioned, (_, name, used) in _KINDS.items():  # the one that is asked for is the first
        try:
            managed = _pointer(capsule, name)
        except ValueError:  # it has another name
            continue
        _set_name(capsule, used)
        return int(managed or 0), versioned
    raise TypeError(f"{capsule!r} is no DLPack capsule, or was taken already")


def give_up(managed: int, versioned: bool) -> None:
    """Gives back a struct that was taken."""
    deleter = c_void_p.from_address(managed + _KINDS[versioned][0]).value
    if deleter:
        _Deleter(deleter)(managed)


def capsule_of(managed: int, versioned: bool) -> Any:
    return _new(managed, _KINDS[versioned][1], _destructor)
