"""JAX on Keel's devices, beside JAX's own CPU. Exit status 77 where jax is not installed.

usage: test_jax.py [DEVICE...]      (default: cpu:0)

KEEL_LIBRARY, KEEL_PJRT_LIBRARY and KEEL_PLUGIN_PATH say what is tested.
"""
import os
import subprocess
import sys
import threading
import unittest

from common import jax, keel
import jax.numpy as jnp
import numpy as np
from jax.experimental import serialize_executable

CPU = jax.devices("cpu")[0]
NAMES = sys.argv[1:] or ["cpu:0"]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def mlp_params():
    sizes = [8, 32, 32, 4]
    return [(normal(a, b, seed=a + b) / np.sqrt(a), np.zeros(b, np.float32))
            for a, b in zip(sizes, sizes[1:])]


def cnn(params, x):
    k1, k2, w = params
    dims = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(jax.lax.conv_general_dilated(x, k1, (1, 1), "SAME", dimension_numbers=dims))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(jax.lax.conv_general_dilated(x, k2, (2, 2), "SAME", dimension_numbers=dims))
    return x.reshape(x.shape[0], -1) @ w


def cnn_params():
    return [normal(3, 3, 2, 8) / 4, normal(3, 3, 8, 8, seed=1) / 8, normal(32, 4, seed=2) / 6]


def transformer(params, x):
    for wq, wk, wv, wo, w1, w2 in params:
        h = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        q, k, v = h @ wq, h @ wk, h @ wv
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        scores = jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(16), -1e9)
        x = x + jax.nn.softmax(scores) @ v @ wo
        x = x + jax.nn.gelu(x @ w1) @ w2
    return x.mean(1)[:, :4]


def transformer_params():
    shapes = [(16, 16)] * 4 + [(16, 32), (32, 16)]
    return [tuple(normal(*s, seed=10 * i + k) / 4 for k, s in enumerate(shapes)) for i in range(2)]


MODELS = {"mlp": (mlp, mlp_params, (64, 8)), "cnn": (cnn, cnn_params, (4, 8, 8, 2)),
          "transformer": (transformer, transformer_params, (4, 6, 16))}


def train(device, model, make, shape, steps=100):
    with jax.default_device(device):
        params = jax.tree.map(jnp.asarray, make())
        x, y = jnp.asarray(normal(*shape, seed=5)), jnp.asarray(normal(shape[0], 4, seed=6))

        @jax.jit
        def step(params, x, y):
            value, grads = jax.value_and_grad(
                lambda p: jnp.mean((model(p, x) - y) ** 2))(params)
            return value, jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)

        losses = []
        for _ in range(steps):
            value, params = step(params, x, y)
            losses.append(value)
        return np.array(losses)


class OnKeel(unittest.TestCase):
    def each(self):
        return [keel.jax.device(name) for name in NAMES]

    def same(self, function, *args, tolerance=1e-6):
        with jax.default_device(CPU):
            want = jax.jit(function)(*args)
        for device in self.each():
            with jax.default_device(device):
                got = jax.jit(function)(*[jax.device_put(a, device) for a in args])
            for w, g in zip(jax.tree.leaves(want), jax.tree.leaves(got)):
                self.assertEqual((w.dtype, w.shape), (g.dtype, g.shape))
                self.assertEqual(g.devices(), {device})
                np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=tolerance,
                                           atol=tolerance)

    def test_gradients_of_convolutions(self):
        cases = [  # the input's shape, the kernel's, and how they meet
            ((2, 9, 8, 3), (3, 3, 3, 4), {"padding": "SAME"}),
            ((2, 9, 8, 3), (3, 2, 3, 4), {"window_strides": (2, 2), "padding": "SAME"}),
            ((1, 12, 11, 2), (2, 3, 2, 5), {"padding": ((1, 0), (2, 3))}),
            ((1, 12, 11, 2), (2, 3, 2, 5), {"padding": ((-1, 2), (0, -2))}),
            ((2, 16, 15, 1), (3, 3, 1, 2), {"rhs_dilation": (2, 3), "window_strides": (2, 1)}),
            ((3, 40, 2), (5, 2, 3), {"window_strides": (3,), "padding": ((2, 1),)}),
            ((1, 8, 9, 7, 2), (2, 3, 2, 2, 3), {"padding": "SAME"}),
            ((2, 9, 8, 4), (3, 3, 1, 8), {"feature_group_count": 4})]
        for x, k, how in cases:
            letters = "DHW"[-(len(x) - 2):]
            how = {"window_strides": (1,) * len(letters), "padding": "VALID", **how,
                   "dimension_numbers": ("N" + letters + "C", letters + "IO", "N" + letters + "C")}

            def loss(x, k):
                return (jax.lax.conv_general_dilated(x, k, **how) ** 2).sum()

            with self.subTest(x=x, k=k):
                self.same(jax.grad(loss, (0, 1)), normal(*x, seed=1), normal(*k, seed=2),
                          tolerance=2e-5)

    def test_ready_is_when_the_work_has_ended(self):
        def chain(x):
            y = x
            for _ in range(20):
                y = y @ x
            return y
        for device in self.each():
            x = jax.device_put(normal(1024, 1024) / 32, device)
            run = jax.jit(chain)
            jax.block_until_ready(run(x))
            y = run(x)
            if device.keel_device.split(":")[0] in ("cuda", "opencl", "vulkan"):
                self.assertFalse(y.is_ready())  # 43 GFLOP, by a call that waits for nothing
            jax.block_until_ready(y)
            self.assertTrue(y.is_ready())

    def test_one_thread_is_enough(self):
        code = ("import sys, unittest, test_jax\n"
                "unittest.main(module='test_jax', argv=['', 'OnKeel.test_training_gives_memory_"
                "back_to_itself'])")
        folder = os.path.dirname(os.path.abspath(__file__))
        paths = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        done = subprocess.run([sys.executable, "-B", "-c", code, *NAMES], capture_output=True,
                              text=True, timeout=300,
                              env={**os.environ, "KEEL_THREADS": "1", "PYTHONPATH": paths})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_devices(self):
        known = keel.jax.devices()
        self.assertIn("cpu:0", known)
        self.assertEqual(len(known), len(jax.devices("keel")))
        for name, device in known.items():
            self.assertEqual((device.platform, device.keel_device), ("keel", name))
        with self.assertRaisesRegex(ValueError, 'no device "nonsense"; there are'):
            keel.jax.device("nonsense")

    def test_the_default_device_comes_first(self):
        last = list(keel.jax.devices())[-1]
        code = ("import keel.jax, jax; keel.jax.register();"
                "print(jax.devices('keel')[0].keel_device)")
        for wanted in (last, "cpu:0"):
            done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True,
                                  text=True, timeout=300,
                                  env={**os.environ, "KEEL_DEVICE": wanted})
            self.assertEqual(done.stdout.strip(), wanted, done.stderr)

    def test_tanh_is_flat_far_out(self):
        slope = jax.grad(lambda x: jnp.sum(jnp.tanh(x)))
        for device in self.each():
            x = jax.device_put(np.array([-np.inf, -190, -30, 30, 200, np.inf], np.float32), device)
            self.assertEqual(slope(x).tolist(), [0.0] * 6)

    def test_parts_of_parts(self):
        x, y = normal(2, 1, 3, 5), normal(2, 3, 5, 3, seed=1)
        for device in self.each():
            there = jax.device_put(x, device)
            got = jax.jit(lambda a, b: jnp.swapaxes(a, 2, 3) * b)(there, jax.device_put(y, device))
            np.testing.assert_allclose(got, np.swapaxes(x, 2, 3) * y, rtol=1e-6)

    def test_values_go_there_and_back(self):
        for device in self.each():
            for dtype in ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16",
                          "float32", "complex64"):
                x = jnp.asarray(np.arange(6).reshape(2, 3).T, dtype=dtype)
                there = jax.device_put(x, device)
                self.assertTrue((np.asarray(there) == np.asarray(x)).all())
            empty = jax.device_put(np.zeros((0, 3), np.float32), device)
            self.assertEqual(np.asarray(empty).shape, (0, 3))

    def test_functions(self):
        x, y = normal(4, 5), normal(5, 3, seed=1)
        self.same(lambda a, b: jnp.tanh(a @ b) + 1, x, y)
        self.same(lambda a: (a.sum(0), a.max(1), jnp.argmax(a, 1), a.T), x)
        self.same(lambda a: jnp.sort(a, axis=1), x)
        self.same(lambda a: jax.lax.fori_loop(0, 5, lambda i, v: v * 1.5 + i, a), x)
        self.same(lambda a: jax.lax.scan(lambda c, r: (c + r, c * r), a[0], a)[1], x)
        self.same(lambda a: jax.lax.cond(a.sum() > 0, jnp.sin, jnp.cos, a), x)
        self.same(lambda a: a.at[1, 2].set(9)[:, ::-1], x)
        self.same(lambda a: jnp.cumsum(a, 1), x, tolerance=1e-5)

    def test_small_numbers_keep_their_digits(self):
        x = np.array([1e-12, -1e-9, 3e-8, 0.5, -0.25], np.float32)
        self.same(lambda a: (jnp.log1p(a), jnp.expm1(a), jnp.cbrt(a), jnp.arctan2(a, -a)), x)

    def test_random_numbers_are_jax_s(self):
        for seed in (0, 7):
            self.same(lambda k: (jax.random.bits(k, (5,)), jax.random.uniform(k, (3, 4)),
                                 jax.random.normal(k, (6,)), jax.random.permutation(k, 9)),
                      jax.random.PRNGKey(seed), tolerance=2e-6)

    def test_random_bits_are_xla_s(self):
        shapes = ((), (5,), (3, 4), (3, 0), (301, 1, 3))
        keys = (np.array([1, 2, 3, 4], np.uint32), np.array([1, 2], np.uint64),
                np.array([2**63 + 5, 2**64 - 3], np.uint64))  # the counter wraps
        algorithms = jax.lax.RandomAlgorithm
        # JAX 0.7 has it in jax.experimental
        with (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(True):
            for algorithm in (algorithms.RNG_THREE_FRY, algorithms.RNG_PHILOX):
                for dtype in ("uint8", "uint32", "uint64"):
                    def bits(key, algorithm=algorithm, dtype=dtype):
                        return [jax.lax.rng_bit_generator(key, shape, dtype, algorithm)
                                for shape in shapes]
                    for key in keys:
                        self.same(bits, key, tolerance=0)
            self.same(lambda key: jax.lax.rng_bit_generator(key, (9,))[0], keys[0], tolerance=0)

    def test_what_jax_wraps_itself(self):
        # outside of jit JAX adds constraints of shards around what it calls
        with jax.default_device(CPU):
            want = jax.random.normal(jax.random.PRNGKey(3), (4,))
        for device in self.each():
            with jax.default_device(device):
                got = jax.random.normal(jax.random.PRNGKey(3), (4,))
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-6)

    def test_models_train_as_on_jax_s_cpu(self):
        for name, (model, make, shape) in MODELS.items():
            want = train(CPU, model, make, shape)
            for device in self.each():
                got = train(device, model, make, shape)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=name)

    def test_errors_have_keel_s_text(self):
        for device in self.each():
            with jax.default_device(device):
                with self.assertRaisesRegex(Exception, "is not supported"):
                    jax.jit(lambda: jnp.arange(4).astype("int4") * 2)()

    def test_threads_share_functions_and_values(self):
        for device in self.each():
            x = jax.device_put(normal(16, 16), device)
            f = jax.jit(lambda a: jnp.tanh(a @ a).sum())
            want = float(f(x))
            wrong = []

            def work(k):
                y = jax.device_put(normal(16, 16, seed=k), device)
                for _ in range(100):
                    if float(f(x)) != want:
                        wrong.append(k)
                    z = f(y)
                    z.delete()

            threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])

    def test_a_function_may_give_nothing(self):
        for device in self.each():
            with jax.default_device(device):
                self.assertEqual(jax.jit(lambda a: ())(normal(3)), ())

    def test_a_program_is_kept_as_bytes(self):
        x = normal(3, 4)
        for device in self.each():
            with jax.default_device(device):
                compiled = jax.jit(lambda a: jnp.sin(a) @ a.T).lower(x).compile()
                kept = serialize_executable.serialize(compiled)
                again = serialize_executable.deserialize_and_load(
                    *kept, backend=device.client, execution_devices=[device])
                result = again(x)
                self.assertEqual(result.devices(), {device})
                np.testing.assert_array_equal(np.asarray(result), np.asarray(compiled(x)))
                broken = kept[0].replace(b"KEELPJRT", b"KEELPJRX")
                with self.assertRaisesRegex(Exception, "not a program that Keel"):
                    serialize_executable.deserialize_and_load(
                        broken, *kept[1:], backend=device.client, execution_devices=[device])

    def test_donated_arguments_are_used_up(self):
        for device in self.each():
            step = jax.jit(lambda w, g: (w - 0.5 * g, g.sum()), donate_argnums=0)
            w = jax.device_put(np.full((32, 32), 8, np.float32), device)
            g = jax.device_put(np.ones((32, 32), np.float32), device)
            w = step(w, g)[0]
            for k in range(6):
                at, before = w.unsafe_buffer_pointer(), w
                w = step(w, g)[0]
                self.assertTrue(before.is_deleted())
                if device.keel_device.startswith("cpu"):
                    self.assertEqual(w.unsafe_buffer_pointer(), at)
                with self.assertRaisesRegex(Exception, "deleted|donated"):
                    np.asarray(before + 1)
            self.assertFalse(g.is_deleted())
            self.assertTrue((np.asarray(w) == 4.5).all())

    def test_a_donated_argument_stays_where_another_has_it(self):
        for device in self.each():
            both = jax.jit(lambda a, b: (a + 1, b * 2), donate_argnums=(0,))
            for _ in range(4):
                x = jax.device_put(np.full(9, 3, np.float32), device)
                y, z = both(x, x)
                self.assertTrue((np.asarray(y) == 4).all() and (np.asarray(z) == 6).all())
            twice = jax.jit(lambda a, b: (a + b, a * b), donate_argnums=(0, 1))
            x = jax.device_put(np.full(9, 3, np.float32), device)
            with self.assertRaisesRegex(Exception, "donate"):
                jax.block_until_ready(twice(x, x))
            self.assertTrue((np.asarray(x) == 3).all())

    def test_training_gives_memory_back_to_itself(self):
        for device in self.each():
            def loss(params, x):
                return ((mlp(params, x) - 1) ** 2).mean()

            def step(params, x):
                grads = jax.grad(loss)(params, x)
                return jax.tree.map(lambda p, d: p - 0.1 * d, params, grads)

            results = []
            for donated in ((), (0,)):
                params = jax.device_put(mlp_params(), device)
                x = jax.device_put(normal(16, 8), device)
                f = jax.jit(step, donate_argnums=donated)
                places = []
                for k in range(24):
                    params = jax.block_until_ready(f(params, x))
                    places.append({p.unsafe_buffer_pointer() for p in jax.tree.leaves(params)})
                results.append([np.asarray(p) for p in jax.tree.leaves(params)])
                # but for a step that begins while the last one still lets go of its results
                same = sum(a == b for a, b in zip(places[3:], places[4:]))
                if donated and device.keel_device.startswith("cpu"):
                    self.assertGreaterEqual(same, 10)
            for plain, donated in zip(*results):
                np.testing.assert_array_equal(plain, donated)

    def test_a_kept_program_donates_as_well(self):
        for device in self.each():
            w = jax.device_put(np.full(40, 8, np.float32), device)
            compiled = jax.jit(lambda a: a * 2, donate_argnums=0).lower(w).compile()
            again = serialize_executable.deserialize_and_load(
                *serialize_executable.serialize(compiled), backend=device.client,
                execution_devices=[device])
            doubled = again(w)
            self.assertTrue(w.is_deleted())
            self.assertTrue((np.asarray(doubled) == 16).all())

    def test_what_is_deleted_is_gone(self):
        for device in self.each():
            x = jax.device_put(normal(3), device)
            x.delete()
            self.assertTrue(x.is_deleted())
            with self.assertRaises(RuntimeError):
                np.asarray(x)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
