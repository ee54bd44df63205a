"""What the tests in JAX share: jax, and this tree's package keel with its platform made known.
Exit status 77 where jax is not installed.

KEEL_LIBRARY, KEEL_PJRT_LIBRARY and KEEL_PLUGIN_PATH say what is tested.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 2, "python"))
try:
    import jax
except ImportError:
    print("Python's package jax is not installed")
    sys.exit(77)
import keel.jax

keel.jax.register()

__all__ = ["jax", "keel"]
