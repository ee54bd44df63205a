#!/usr/bin/env python3
"""Makes tests/data/stablehlo: small programs of JAX as portable artifacts of several
versions, each with inputs, and the results that JAX has on the CPU (hostile.h says how these
are written). Needs JAX; what it made is in the tree."""
import os
import struct

os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jaxlib import _jax  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/stablehlo")
TYPES = {"float32": 1, "int32": 6, "bool": 9, "uint32": 12, "int8": 3}


def write_values(path, values):
    with open(path, "wb") as file:
        file.write(struct.pack("<I", len(values)))
        for v in values:
            file.write(struct.pack("<II", TYPES[v.dtype.name], v.ndim))
            file.write(struct.pack("<%dq" % v.ndim, *v.shape) + struct.pack("<Q", v.nbytes) + v.tobytes())


def counted(*shape, dtype=np.float32):
    """Small whole numbers: sums of them are exact, in any order."""
    return (np.arange(int(np.prod(shape))) * 7 % 11 - 4).reshape(shape).astype(dtype)


def affine(x, w):
    return x @ w + 1


def control(n, x):
    y = x + 1
    return (lax.fori_loop(0, n, lambda i, v: lax.cond(i % 2 == 0, lambda w: w + y, lambda w: w * 2, v), x),
            lax.switch(n, [lambda: y, lambda: -y, lambda: y * y]))


def index(x, k):
    return (x[k], x.at[k].add(1.0), lax.dynamic_slice(x, (k[0], k[1]), (2, 2)),
            lax.dynamic_update_slice(x, x[:2, :2], (k[1], k[0])), jnp.take(x, k, axis=1, mode="clip"))


def order(x):
    return jnp.sort(x, axis=0), jnp.argsort(-x, axis=1).astype(np.int32), jnp.argmax(x, axis=0).astype(np.int32), jnp.cumsum(x, axis=1)


def window(x, w):
    y = lax.conv_general_dilated(x, w, (1, 2), ((1, 2), (-1, 1)), (2, 1), (1, 2), ("NHWC", "HWIO", "NHWC"))
    return y, jax.grad(lambda v: jnp.sum(lax.reduce_window(v, -np.inf, lax.max, (1, 2, 2, 1), (1, 1, 2, 1), "SAME")))(x)


def bits(a, b):
    return a ^ (b << 3), lax.bitcast_convert_type(a, jnp.float32), lax.population_count(b), (a > b) & (a != 0)


def descent(w, s, g):
    return w - g, s.reshape(6) + 1


def random(key):
    return (lax.rng_bit_generator(key, (3, 5)),
            lax.rng_bit_generator(key, (3, 5), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY))


# arguments that are donated: to an output of their type, and to one of their size
DONATED = {"descent": (0, 1)}
PROGRAMS = [
    ("affine", affine, (counted(2, 3), counted(3, 2)), ("0.9.0", "0.14.0", "1.0.0", "1.17.0")),
    ("control", control, (np.int32(5), counted(2)), ("1.17.0",)),
    ("index", index, (counted(4, 3), np.array([2, 1], np.int32)), ("1.0.0", "1.17.0")),
    ("order", order, (counted(4, 3),), ("1.17.0",)),
    ("window", window, (counted(1, 4, 5, 2), counted(2, 2, 2, 2)), ("1.17.0",)),
    ("bits", bits, (counted(5, dtype=np.uint32), counted(5, dtype=np.uint32) * 5), ("1.17.0",)),
    ("descent", descent, (counted(2, 3), counted(2, 3), counted(2, 3) + 2), ("0.9.0", "1.17.0")),
    ("random", random, (np.array([1, 2, 2**32 - 1, 2**32 - 1], np.uint32),), ("1.17.0",)),
]


def main():
    for name, function, inputs, versions in PROGRAMS:
        donated = jax.jit(function, donate_argnums=DONATED.get(name, ()))
        text = str(donated.lower(*inputs).compiler_ir("stablehlo"))
        results = [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*inputs))]
        for version in versions:
            path = os.path.join(FOLDER, "%s_%s" % (name, version.replace(".", "_")))
            with open(path + ".mlirbc", "wb") as file:
                file.write(_jax.mlir.serialize_portable_artifact(text, version))
            write_values(path + ".in", [np.asarray(v) for v in inputs])
            write_values(path + ".out", results)


if __name__ == "__main__":
    main()
