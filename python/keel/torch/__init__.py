"""Keel as a backend of torch.compile.

    import torch
    model = torch.compile(model, backend="keel")                    # on the default device
    model = torch.compile(model, backend="keel", options={"device": "opencl:0"})

See docs/bridges/pytorch.md of Keel.
"""
from __future__ import annotations

from torch._dynamo.backends import registry as _registry

from .. import Device
from .. import devices as _devices
from ._backend import Compiled, Stats, backend, reset, stats
from ._values import TABLE as _TABLE

__all__ = ["Compiled", "Stats", "backend", "devices", "ops", "reset", "stats"]


def devices() -> list[Device]:
    """The devices that options={"device": ...} may name."""
    return _devices()


def ops() -> list[str]:
    """The ops of torch that have a lowering, by overload."""
    return sorted(_TABLE)


# an installed package has an entry point, from which dynamo registers the backend itself
if "keel" not in _registry._BACKENDS:
    _registry.register_backend(backend, name="keel")
