"""Keel as a backend of torch.compile.

    import torch
    model = torch.compile(model, backend="keel")                    # on the default device
    model = torch.compile(model, backend="keel", options={"device": "opencl:0"})

See host/bridges/python/pytorch.md of Keel.
"""
from __future__ import annotations

from torch._dynamo.backends import registry as _registry

from .. import Device
from .. import devices as _devices
from ._backend import Compiled, Stats, backend, reset, stats
from ._values import TABLE as _TABLE

__all__ = ["Compiled", "Stats", "backend", "devices", "ops", "reset", "stats", "table"]


def devices() -> list[Device]:
    """The devices that options={"device": ...} may name."""
    return _devices()


def ops() -> list[str]:
    """The ops of torch that have a lowering, by overload."""
    return sorted(_TABLE)


def table() -> str:
    """The same by name, as a table for a page."""
    found: dict[str, list[str]] = {}
    for op in ops():
        name, _, overload = op.rpartition(".")
        found.setdefault(name, []).append(overload)
    rows = [f"| {name} | {', '.join(overloads)} |" for name, overloads in found.items()]
    return "\n".join(["| op | overloads |", "| --- | --- |", *rows])


# an installed package has an entry point, from which dynamo registers the backend itself
if "keel" not in _registry._BACKENDS:
    _registry.register_backend(backend, name="keel")
