"""The bases of contexts and tensors, and what a run of a model costs beside the run.

They are in C (host/bridges/python/calls of Keel) where keel-bridges/keel_calls.abi3.so lies beside
libkeel, or the variable KEEL_PYTHON_CALLS names it, and CPython 3.11 or later loads it. Otherwise, or
if the variable is empty, they are the classes below, and each call goes through ctypes: the same, at
several times the cost.
"""
from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import threading
import warnings
from typing import Any

from . import _native as native
from ._native import lib

_INTERFACE = 1  # of the module in C


class Core:
    """A context, and how many objects use it: itself, models, tensors. The last one to go calls
    `_last`."""

    def __init__(self, context: int) -> None:
        self.context = context  # 0: closed
        self.users = 1
        self._counting = threading.RLock()  # the collector may drop tensors at any point

    def hold(self) -> None:
        with self._counting:
            self.users += 1

    def drop(self) -> None:
        with self._counting:
            self.users -= 1
            last = self.users == 0
        if last:
            self._last()

    def taken(self) -> int:
        """The context, which the caller closes."""
        context, self.context = self.context, 0
        return context

    def _last(self) -> None:
        """Nothing uses it any more."""


class Value:
    """A tensor of libkeel, which goes with the object."""

    __slots__ = ("_core", "_held")

    def __init__(self, core: Any, handle: int) -> None:
        self._core = core
        self._held = handle  # 0: a run has taken it over
        core.hold()

    def __del__(self) -> None:
        if getattr(self, "_held", None):
            lib.keel_tensor_release(self._held)
            self._core.drop()

    @property
    def _handle(self) -> int:
        if not self._held:
            raise ValueError("the tensor was donated to a run, and can't be used any more")
        return self._held

    def _give_away(self) -> None:
        self._held = 0
        self._core.drop()


def _module() -> Any:
    """The module in C; None: there is none for this Python."""
    named = os.environ.get("KEEL_PYTHON_CALLS")
    path = named or ""
    if named is None:
        path = os.path.join(native.folder(), "keel-bridges", "keel_calls.abi3.so")
        if not os.path.exists(path):
            return None
    # a Python without the lock has another layout of objects
    lacks = (sys.implementation.name != "cpython" or sys.version_info < (3, 11)
             or "t" in getattr(sys, "abiflags", ""))
    if not path or lacks:
        return None
    name = "keel._calls_c"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        if module.interface != _INTERFACE:
            raise ImportError(f"{path} is for another version of this package")
    except ImportError as error:
        if named is not None:
            raise
        warnings.warn(f"calls go by ctypes, at several times the cost: {error}", RuntimeWarning)
        return None
    return module


fast: Any = _module()
if fast:
    Core, Value = fast.Core, fast.Value  # type: ignore[misc]
