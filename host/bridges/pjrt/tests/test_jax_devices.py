"""Programs of JAX over several of Keel's devices at once, beside the same over JAX's CPU made into
as many. Exit status 77 where jax is not installed, or Keel has fewer than four devices.

usage: test_jax_devices.py [DEVICE...]      (default: the first four)

KEEL_LIBRARY, KEEL_PJRT_LIBRARY and KEEL_PLUGIN_PATH say what is tested.
"""
import os
import sys
import unittest

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"  # before jax is there

from common import jax, keel
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

ALL = {str(d).split(", ")[-1].rstrip(")"): d for d in jax.devices("keel")}
KEEL = [ALL[name] for name in sys.argv[1:]] or list(ALL.values())[:4]
CPU = jax.devices("cpu")[:4]
lax = jax.lax


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mesh(devices, **axes):
    return Mesh(np.array(devices).reshape(*axes.values()), tuple(axes))


class Devices(unittest.TestCase):
    """Each test runs what it is given on four devices of the CPU, and on Keel's."""

    def same(self, run, tolerance=1e-6):
        want = jax.tree.map(np.asarray, run(CPU))
        have = jax.tree.map(np.asarray, run(KEEL))
        self.assertEqual(jax.tree.structure(want), jax.tree.structure(have))
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(have)):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)

    def mapped(self, function, values, ins, outs, tolerance=1e-6, **axes):
        axes = axes or {"x": 4}

        def run(devices):
            m = mesh(devices, **axes)
            f = jax.shard_map(function, mesh=m, in_specs=ins, out_specs=outs, check_vma=False)
            return jax.jit(f)(*values)
        self.same(run, tolerance)

    def test_reductions(self):
        def f(a):
            return (lax.psum(a, "x"), lax.pmax(a, "x"), lax.pmin(a, "x"), lax.pmean(a, "x"),
                    lax.psum({"a": a, "b": a + 1j * a}, "x"))
        self.mapped(f, [normal(8, 3)], (P("x"),), P())

    def test_integers_and_truth(self):
        def f(a):
            n = (a * 10).astype(jnp.int32)
            return lax.psum(n, "x"), lax.pmax(n.astype(jnp.uint8), "x"), lax.psum(n > 0, "x")
        self.mapped(f, [normal(8, 3)], (P("x"),), P())

    def test_gather(self):
        for axis in range(3):
            for tiled in (True, False):
                self.mapped(lambda a: lax.all_gather(a, "x", axis=axis, tiled=tiled),
                            [normal(4, 5, 6)], (P("x"),), P())

    def test_scatter(self):
        for axis in range(2):
            self.mapped(lambda a: lax.psum_scatter(a, "x", scatter_dimension=axis, tiled=True),
                        [normal(16, 8)], (P("x"),), P("x"))
        self.mapped(lambda a: lax.psum_scatter(a, "x"), [normal(16, 8)], (P("x"),), P("x"))

    def test_all_to_all(self):
        for split in range(3):
            for join in range(3):
                self.mapped(lambda a: lax.all_to_all(a, "x", split, join, tiled=True),
                            [normal(16, 8, 4)], (P("x"),), P("x"))
        self.mapped(lambda a: lax.all_to_all(a, "x", 0, 1), [normal(16, 3)], (P("x"),), P("x"))

    def test_permute(self):
        ring = [(i, (i + 1) % 4) for i in range(4)]
        self.mapped(lambda a: (lax.ppermute(a, "x", ring), lax.ppermute(a, "x", [(0, 2)]),
                               lax.pshuffle(a, "x", [2, 0, 3, 1])),
                    [normal(8, 3)], (P("x"),), P("x"))

    def test_index(self):
        self.mapped(lambda a: a * 0 + lax.axis_index("x"), [normal(4, 3)], (P("x"),), P("x"))

    def test_two_axes(self):
        def f(a, b):
            return (lax.psum(a, "x"), lax.psum(b, "y"), lax.all_gather(a, "y", tiled=True),
                    lax.psum(a, ("x", "y")), lax.all_gather(b, ("y", "x"), tiled=True),
                    a + lax.axis_index("y") * 10 + lax.axis_index("x"))
        self.mapped(f, [normal(8, 6), normal(8, 6, seed=1)], (P("x", "y"), P(("y", "x"))),
                    (P(None, "y"), P(None), P(None), P(), P(None), P("x", "y")), x=2, y=2)

    def test_loops_and_branches(self):
        def f(a):
            def step(i, v):
                return lax.pmean(v * (i + 1), "x")
            looped = lax.fori_loop(0, 5, step, a)
            scanned, all_ = lax.scan(lambda c, k: (c + lax.psum(k, "x"), c), a[0], a)
            return looped, scanned, all_, lax.cond(a.shape[0] > 1, lambda v: lax.psum(v, "x"),
                                                   lambda v: v, a)
        self.mapped(f, [normal(8, 3)], (P("x"),), P("x"), tolerance=1e-5)

    def test_pmap(self):
        def run(devices):
            f = jax.pmap(lambda a, b: (a / lax.psum(a, "i"), a @ b), axis_name="i",
                         in_axes=(0, None), devices=devices)
            return f(np.abs(normal(4, 5, 3)) + 1, normal(3, 2))
        self.same(run, 1e-5)

    def test_a_compiler_would_split_it(self):
        """Each device has whole values where nobody maps them."""
        def run(devices):
            m = mesh(devices, x=2, y=2)
            a = jax.device_put(normal(8, 6), NamedSharding(m, P("x", "y")))
            b = jax.device_put(normal(6, 4), NamedSharding(m, P("y")))

            @jax.jit
            def f(a, b):
                c = jnp.tanh(a @ b)
                c = lax.with_sharding_constraint(c, NamedSharding(m, P("y", "x")))
                return c, c.sum(), jnp.sort(c, axis=0), a[::-1]
            return f(a, b)
        self.same(run, 1e-5)

    def test_between_two_ways(self):
        """From one body to another that splits values in another way."""
        def run(devices):
            m = mesh(devices, x=2, y=2)
            one = jax.shard_map(lambda a: a * 2, mesh=m, in_specs=P("x", "y"),
                                out_specs=P("x", "y"))
            two = jax.shard_map(lambda a: a + lax.axis_index("x"), mesh=m, in_specs=P("y", "x"),
                                out_specs=P("y", "x"))
            return jax.jit(lambda a: two(one(a) + 1) * 3)(normal(8, 8))
        self.same(run)

    def test_two_meshes(self):
        def run(devices):
            grid, row = mesh(devices, x=2, y=2), mesh(devices, d=4)
            one = jax.shard_map(lambda a: a - lax.pmean(a, ("x", "y")), mesh=grid,
                                in_specs=P("x", "y"), out_specs=P("x", "y"))
            two = jax.shard_map(lambda a: lax.psum(a, "d"), mesh=row, in_specs=P("d"),
                                out_specs=P())
            return jax.jit(lambda a: two(one(a)))(normal(8, 8))
        self.same(run, 1e-5)

    def test_results_are_where_they_are_wanted(self):
        m = mesh(KEEL, x=4)
        f = jax.jit(lambda a: (a * 2, a.sum()),
                    out_shardings=(NamedSharding(m, P(None, "x")), NamedSharding(m, P())))
        a = normal(8, 8)
        split, whole = f(jax.device_put(a, NamedSharding(m, P("x"))))
        for shard in split.addressable_shards:
            self.assertIn(shard.device, KEEL)
            self.assertEqual(shard.data.shape, (8, 2))
            np.testing.assert_array_equal(shard.data, a[shard.index] * 2)
        self.assertEqual(len(whole.addressable_shards), 4)
        self.assertEqual(split.sharding.spec, P(None, "x"))

    def test_training(self):
        """Data-parallel: each device has its part of the batch, and all the same weights."""
        sizes = [8, 32, 4]
        x, y = normal(32, 8), normal(32, 4, seed=1)

        def loss(params, x, y):
            h = jnp.tanh(x @ params[0])
            return jnp.mean((h @ params[1] - y) ** 2)

        def run(devices):
            m = mesh(devices, x=4)
            params = [normal(a, b, seed=a) / a for a, b in zip(sizes, sizes[1:])]

            def step(params, x, y):
                value, gradients = jax.value_and_grad(loss)(params, x, y)
                gradients = lax.pmean(gradients, "x")
                return ([p - 0.1 * g for p, g in zip(params, gradients)],
                        lax.pmean(value, "x"))
            f = jax.jit(jax.shard_map(step, mesh=m, in_specs=(P(), P("x"), P("x")),
                                      out_specs=(P(), P()), check_vma=False), donate_argnums=0)
            replicated = NamedSharding(m, P())
            params = jax.device_put(params, replicated)
            losses = []
            for _ in range(100):
                params, value = f(params, x, y)
                losses.append(value)
                if devices is CPU:  # whose runs get stuck in each other on few processors
                    value.block_until_ready()
            return params, losses
        self.same(run, 1e-5)

    def test_many_runs_at_once(self):
        m = mesh(KEEL, x=4)
        f = jax.jit(jax.shard_map(lambda a: lax.psum(a, "x"), mesh=m, in_specs=P("x"),
                                  out_specs=P()))
        a = jax.device_put(normal(8, 64), NamedSharding(m, P("x")))
        want = np.asarray(a).reshape(4, 2, 64).sum(axis=0)
        for result in [f(a) for _ in range(50)]:
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)

    def test_what_is_refused(self):
        m = mesh(KEEL, x=2, y=2)
        f = jax.jit(jax.shard_map(lambda a: lax.psum(a, "x"), mesh=m, in_specs=P("x"),
                                  out_specs=P(), axis_names={"x"}))
        with self.assertRaisesRegex(Exception, "leaves axis \"y\" of the mesh to the compiler"):
            f(normal(8, 4))
        g = jax.jit(jax.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh(KEEL, x=4),
                                  in_specs=P("x"), out_specs=P()))
        compiled = g.lower(normal(8, 4)).compile()
        with self.assertRaisesRegex(Exception, "a program of several devices is not serialized"):
            from jax.experimental import serialize_executable
            serialize_executable.serialize(compiled)


if __name__ == "__main__":
    if len(KEEL) < 4:
        print("Keel has %d devices here, and four are needed" % len(KEEL))
        sys.exit(77)
    print("on", ", ".join(str(d) for d in KEEL))
    unittest.main(argv=sys.argv[:1])
