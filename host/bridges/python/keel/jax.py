"""Keel's devices in JAX.

    import jax
    import keel.jax

    keel.jax.register()
    x = jax.device_put(1.0, keel.jax.device("cpu:0"))
    jax.jit(f)(x)                       # runs there

The package is a plugin of JAX ("jax_plugins"): where it is installed, JAX finds the platform
"keel" by itself, and `JAX_PLATFORMS=keel` or jax.devices("keel") chooses it. JAX's default
stays what it is.
"""
from __future__ import annotations

import importlib
from typing import Any

from . import _native

PLATFORM = "keel"
_PRIORITY = -1  # below JAX's own CPU, so that a default is never Keel's by accident

__all__ = ["PLATFORM", "device", "devices", "initialize", "library_path", "register"]


def library_path() -> str:
    """The path of Keel's PJRT plugin: what the variable KEEL_PJRT_LIBRARY says, else
    keel-bridges/libkeel_pjrt.so beside libkeel.

    Raises FileNotFoundError if there is none.
    """
    return _native.bridge("JAX", "libkeel_pjrt.so", "KEEL_PJRT_LIBRARY")


def _register(path: str) -> None:
    bridge: Any = importlib.import_module("jax._src.xla_bridge")
    bridge.register_plugin(PLATFORM, priority=_PRIORITY, library_path=path)
    # JAX has a list of the platforms to which it says what is donated
    lowering: Any = importlib.import_module("jax._src.interpreters.mlir")
    platforms = getattr(lowering, "_platforms_with_donation", None)
    if isinstance(platforms, list) and PLATFORM not in platforms:
        platforms.append(PLATFORM)


def initialize() -> None:
    """What JAX calls at its start: makes the platform known. Does nothing where the bridge is
    not installed, as this package has other uses."""
    try:
        path = library_path()
    except FileNotFoundError:
        return
    _register(path)


def register() -> None:
    """Makes the platform known where JAX has not found it by itself: before the first use of
    JAX's devices. Does nothing the second time."""
    bridge: Any = importlib.import_module("jax._src.xla_bridge")
    if PLATFORM not in bridge._backend_factories:
        _register(library_path())


def devices() -> dict[str, Any]:
    """Keel's devices as JAX has them, by Keel's names: {"cpu:0": Device}."""
    register()
    jax: Any = importlib.import_module("jax")
    return {device.keel_device: device for device in jax.devices(PLATFORM)}


def device(name: str = "") -> Any:
    """The device of that name, "opencl:0" or "opencl"; without one the first.

    Raises ValueError if there is none.
    """
    return _native.named(devices(), name)
