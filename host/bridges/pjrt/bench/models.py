"""Forward runs and training steps of small models in JAX: on a device of Keel's beside another.

usage: models.py [KEEL_DEVICE [OTHER]]      (default: cpu:0, and JAX's cpu)

OTHER is a platform of JAX's, as cuda. KEEL_LIBRARY, KEEL_PJRT_LIBRARY and KEEL_PLUGIN_PATH say
which Keel; JAX_PLATFORMS must name keel and OTHER. Each figure is the best of five rounds of 20
runs in a row, of f32 without tf32; the ratio is Keel's time to the other's. Exit status 77 where
jax is not installed.
"""
import sys
import time

try:
    import jax
except ImportError:
    print("Python's package jax is not installed")
    sys.exit(77)
import jax.numpy as jnp
import numpy as np

import keel.jax

WIDTH, HEADS, LAYERS = 512, 8, 4


def normal(*shape, seed=0):
    scale = shape[-2] ** 0.5 if len(shape) > 1 else 1
    return (np.random.default_rng(seed).standard_normal(shape) / scale).astype(np.float32)


def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def mlp_params():
    sizes = [1024, 2048, 2048, 10]
    return [(normal(a, b, seed=a), np.zeros(b, np.float32)) for a, b in zip(sizes, sizes[1:])]


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer(params, x):
    batch, length, width = x.shape
    for q, k, v, out, up, down in params:
        y = norm(x)
        heads = [(y @ w).reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)
                 for w in (q, k, v)]
        scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.sqrt(width // HEADS)
        seen = jax.nn.softmax(scores, -1) @ heads[2]
        x = x + seen.transpose(0, 2, 1, 3).reshape(batch, length, width) @ out
        x = x + jax.nn.gelu(norm(x) @ up) @ down
    return x


def transformer_params():
    shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    return [[normal(*shape, seed=9 * layer + i) for i, shape in enumerate(shapes)]
            for layer in range(LAYERS)]


def cnn(params, x):
    dims = ("NHWC", "HWIO", "NHWC")
    for i, k in enumerate(params[:-1]):
        stride = 2 if i % 2 else 1
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, k, (stride, stride), "SAME",
                                                     dimension_numbers=dims))
    return x.mean((1, 2)) @ params[-1]


def cnn_params():
    channels = [3, 32, 64, 64, 128]
    kernels = [normal(3, 3, a, b, seed=a + b) / 3 for a, b in zip(channels, channels[1:])]
    return kernels + [normal(128, 10, seed=7)]


MODELS = {  # a function, its weights, the input, the wanted output
    "mlp": (mlp, mlp_params(), normal(256, 1024), normal(256, 10)),
    "cnn": (cnn, cnn_params(), normal(8, 64, 64, 3), normal(8, 10)),
    "transformer": (transformer, transformer_params(), normal(4, 128, WIDTH),
                    normal(4, 128, WIDTH)),
}


def step_of(function):
    def loss(params, x, y):
        return jnp.mean((function(params, x) - y) ** 2)

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), value
    return step


def best_of(run):
    """Milliseconds of one of 20 runs in a row, in the best round."""
    jax.block_until_ready(run(3))
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready(run(20))
        best = min(best, (time.perf_counter() - begin) / 20)
    return best * 1e3


def measure(name, device):
    """Times, and a result to compare, of a forward run and of a step."""
    function, params, x, y = MODELS[name]
    params, x, y = jax.device_put((params, x, y), device)
    forward, step = jax.jit(function), jax.jit(step_of(function))

    def runs(count):
        return [forward(params, x) for _ in range(count)][-1]

    def steps(count):
        trained = params
        for _ in range(count):
            trained, value = step(trained, x, y)
        return trained, value

    times = best_of(runs), best_of(steps)
    return times, (np.asarray(runs(1)), np.asarray(jax.tree.leaves(steps(10)[0])[0]))


def main():
    keel.jax.register()
    jax.config.update("jax_default_matmul_precision", "highest")
    ours = keel.jax.device(sys.argv[1] if len(sys.argv) > 1 else "cpu:0")
    other = jax.devices(sys.argv[2] if len(sys.argv) > 2 else "cpu")[0]
    for name in MODELS:
        (times, got), (times_other, want) = measure(name, ours), measure(name, other)
        for kind, a, b, g, w in zip(("forward", "step"), times, times_other, got, want):
            far = np.abs(g - w).max() / np.abs(w).max()
            print(f"{name:12} {kind:8} Keel {a:8.3f} ms, {other.platform} {b:8.3f} ms; ratio "
                  f"{a / b:.2f}; differs by {far:.0e}", flush=True)


main()
