"""Random programs in JAX on a device of Keel's, beside JAX's own CPU: chains of ops that move
data, with elementwise ops, sums and products between them. Exit status 77 where jax is not
installed.

usage: random_programs.py [DEVICE [COUNT [SEED]]]      (default: cpu:0, 100, another each hour)

KEEL_LIBRARY, KEEL_PJRT_LIBRARY and KEEL_PLUGIN_PATH say what is tested.
"""
from __future__ import annotations

import random
import sys
import time
from typing import Any

from common import jax, keel
import jax.numpy as jnp
import numpy as np

SHAPES = [(4, 3), (3, 5), (2, 1, 3, 5)]  # the last is where most chains begin
ELEMENTS, RANK = 2000, 5  # at most


def constant(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def transpose(r: random.Random, x: Any, _: list[Any]) -> Any:
    order = list(range(x.ndim))
    r.shuffle(order)
    return jnp.transpose(x, order)


def broadcast(r: random.Random, x: Any, _: list[Any]) -> Any:
    ones = [i for i in range(x.ndim) if x.shape[i] == 1]
    if ones and r.random() < .5:
        return jnp.broadcast_to(x, [3 if i == ones[0] else n for i, n in enumerate(x.shape)])
    return jnp.broadcast_to(x, (r.choice([2, 3]), *x.shape))


def cut(r: random.Random, x: Any, _: list[Any]) -> Any:
    axis = r.randrange(x.ndim)
    size = x.shape[axis]
    return jax.lax.slice_in_dim(x, r.randrange(size), size, r.choice([1, 1, 2]), axis)


def row(r: random.Random, x: Any, _: list[Any]) -> Any:
    return x[r.randrange(x.shape[0])]


def reshape(r: random.Random, x: Any, _: list[Any]) -> Any:
    return x.reshape(-1) if r.random() < .4 else x.reshape(x.shape[::-1])


def join(r: random.Random, x: Any, _: list[Any]) -> Any:
    return jnp.concatenate([x, x * 2], r.randrange(x.ndim))


def flip(r: random.Random, x: Any, _: list[Any]) -> Any:
    return jnp.flip(x, r.randrange(x.ndim))


def pad(r: random.Random, x: Any, _: list[Any]) -> Any:
    return jnp.pad(x, [(r.randrange(2), r.randrange(2)) for _ in x.shape], constant_values=1.)


def take(_: random.Random, x: Any, __: list[Any]) -> Any:
    return jnp.take(x, np.array([0, x.shape[0] - 1, 0]), 0)


def add_up(r: random.Random, x: Any, _: list[Any]) -> Any:
    return x.sum(r.randrange(x.ndim), keepdims=r.random() < .5) * .25


def largest(r: random.Random, x: Any, _: list[Any]) -> Any:
    return x.max(r.randrange(x.ndim))


def product(_: random.Random, x: Any, __: list[Any]) -> Any:
    return x @ constant(x.shape[-1], 3) if x.ndim > 1 else x * 2


def unary(r: random.Random, x: Any, _: list[Any]) -> Any:
    return r.choice([jnp.tanh, jnp.abs, jnp.negative, jax.nn.relu, jax.nn.sigmoid])(x)


def where(_: random.Random, x: Any, __: list[Any]) -> Any:
    return jnp.where(x > 0, x, x * .5)


def with_constant(r: random.Random, x: Any, _: list[Any]) -> Any:
    shape = (2, *x.shape) if r.random() < .3 else x.shape
    return r.choice([jnp.add, jnp.multiply])(x, constant(*shape))


def with_another(r: random.Random, x: Any, values: list[Any]) -> Any:
    other = r.choice(values)
    try:
        np.broadcast_shapes(x.shape, other.shape)
    except ValueError:
        return x + 1
    return r.choice([jnp.add, jnp.multiply, jnp.subtract, jnp.maximum])(x, other)


STEPS = [transpose, transpose, broadcast, broadcast, cut, cut, row, reshape, join, flip, pad, take,
         add_up, largest, product, unary, where, with_constant, with_constant, with_another]


def program(seed: int) -> Any:
    def run(*inputs: Any) -> Any:
        r = random.Random(seed)
        values = list(inputs)
        for _ in range(r.randrange(3, 16)):
            x = values[-1] if r.random() < .85 else r.choice(values)
            step = r.choice(STEPS)
            made = step(r, x, values) if x.ndim else x + 1
            if 0 < made.size <= ELEMENTS and made.ndim <= RANK:
                values.append(made)
        return jnp.clip(values[-1], -1e6, 1e6)
    return run


def differs(seed: int, device: Any, cpu: Any) -> str:
    """How the two differ; "": they don't."""
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    with jax.default_device(cpu):
        want = np.asarray(jax.jit(program(seed))(*inputs))
    compiled = jax.jit(program(seed))
    for time_ in ("first", "second"):
        got = np.asarray(compiled(*(jax.device_put(x, device) for x in inputs)))
        room = 1e-3 * max(1., float(np.abs(want).max()))
        if not np.allclose(got, want, rtol=1e-3, atol=room, equal_nan=True):
            return f"{time_} run: up to {np.abs(got - want).max():g} away"
    return ""


def main() -> int:
    name, *numbers = sys.argv[1:] or ["cpu:0"]
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        sys.exit(f"random_programs.py: {' '.join(numbers)}: want COUNT and SEED, two numbers")
    count = int(numbers[0]) if numbers else 100
    first = int(numbers[1]) if len(numbers) > 1 else int(time.time()) // 3600 * 1000
    device, cpu = keel.jax.device(name), jax.devices("cpu")[0]
    wrong = 0
    for seed in range(first, first + count):
        how = differs(seed, device, cpu)
        wrong += bool(how)
        if how:
            print(f"program {seed} on {name}: {how}; again: random_programs.py {name} 1 {seed}",
                  flush=True)
        if seed % 200 == 199:
            jax.clear_caches()
    print(f"{count} programs from {first} on {name}: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
