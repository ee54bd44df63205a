"""Tests of keel.torch, beside eager PyTorch.

KEEL_LIBRARY: libkeel. Exit status 77 where PyTorch is missing.
"""
import copy
import gc
import logging
import os
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)
from torch import nn
from torch.nn import functional as F

import keel
import keel.torch
import torch_models
from torch_models import far, trained

torch._dynamo.config.allow_rnn = True
CLOSE = 1e-4
# what draws random numbers is torch's; all else of these models is Keel's
LEFT = {"encoder": {"dropout_mask"}, "vae": {"drawn_like"}}


DEVICE = os.environ.get("KEEL_TEST_DEVICE")  # of the models; None: the default


def compiled(function, **options):
    return torch.compile(function, backend="keel", **options)


def on_device(function):
    return compiled(function, **({"options": {"device": DEVICE}} if DEVICE else {}))


class Fresh(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        keel.torch.reset()
        torch.manual_seed(0)

    def same(self, function, *arguments, tolerance=CLOSE, left=()):
        """Compares a function with its compiled form; all but `left` is Keel's."""
        with torch.no_grad():
            want = function(*arguments)
            got = compiled(function)(*arguments)
        for a, b in zip(got if isinstance(got, tuple) else (got,),
                        want if isinstance(want, tuple) else (want,)):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        self.assertEqual(set(keel.torch.stats.left), set(left))
        return got


class Models(Fresh):
    def check(self, make):
        model, arguments = make()
        plain = copy.deepcopy(model)
        want = trained(plain, arguments, plain)
        got = trained(model, arguments, on_device(model))
        self.assertLess(far(got[0], want[0]), CLOSE)
        self.assertLess(far(got[1], want[1]), CLOSE)
        for a, b in zip(model.buffers(), plain.buffers()):  # the statistics of batches
            self.assertLess(far(a.float(), b.float()), CLOSE)
        stats = keel.torch.stats
        self.assertEqual([graph.kind for graph in stats.graphs], ["forward", "backward"])
        self.assertEqual(set(stats.left), LEFT.get(make.__name__, set()))
        self.assertEqual(stats.regions, 2)
        self.assertGreater(stats.graphs[1].nodes, 5)

    def test_inference_is_equal_too(self):
        for make in (torch_models.cnn, torch_models.attention, torch_models.lstm):
            with self.subTest(make.__name__), torch.no_grad():
                torch._dynamo.reset()
                model, arguments = make()
                model.eval()
                self.assertLess(far(on_device(model)(*arguments), model(*arguments)), CLOSE)
                self.assertEqual(keel.torch.stats.left, {})

    def test_steps_of_an_optimiser_agree(self):
        model, (x,) = torch_models.cnn()
        plain = copy.deepcopy(model)
        target = torch.randint(0, 5, (8,))
        losses = []
        for one, call in ((plain, plain), (model, on_device(model))):
            steps = torch.optim.SGD(one.parameters(), 0.05, momentum=0.9)
            line = []
            for _ in range(10):
                steps.zero_grad()
                loss = F.cross_entropy(call(x), target)
                loss.backward()
                steps.step()
                line.append(loss.item())
            losses.append(line)
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-4)
        self.assertLess(losses[1][-1], losses[1][0])


for _make in torch_models.MODELS:
    setattr(Models, f"test_{_make.__name__}_trains",
            lambda self, make=_make: self.check(make))


class Dynamic(Fresh):
    def check(self, make, sizes, left=()):
        model, arguments = make()
        plain = copy.deepcopy(model)
        call = compiled(model, dynamic=True)
        for size in sizes:
            given = tuple(torch.cat([a] * 4)[:size] for a in arguments)
            want = trained(plain, given, plain)
            got = trained(model, given, call)
            self.assertLess(far(got[0], want[0]), CLOSE)
            self.assertLess(far(got[1], want[1]), CLOSE)
        self.assertEqual([graph.kind for graph in keel.torch.stats.graphs],
                         ["forward", "backward"])
        self.assertEqual(set(keel.torch.stats.left), set(left))

    def test_one_compilation_serves_batches_of_all_sizes(self):
        for make in (torch_models.mlp, torch_models.attention, torch_models.llama,
                     torch_models.unet, torch_models.depthwise, torch_models.vit):
            with self.subTest(make.__name__):
                self.setUp()
                self.check(make, (2, 3, 5, 4))

    def test_a_second_size_makes_the_batch_dynamic(self):
        model, (x,) = torch_models.mlp()
        call = compiled(model)
        with torch.no_grad():
            for size in (2, 3, 4, 5, 6):
                y = torch.randn(size, 16)
                self.assertLess(far(call(y), model(y)), CLOSE)
        self.assertEqual(len(keel.torch.stats.graphs), 2)

    def test_sizes_become_values(self):
        def function(x):
            return (x.sum(0) / x.shape[0] + x.shape[1], torch.arange(x.shape[0]) * 2,
                    torch.zeros(x.shape[0], 3) + x[:, :1])
        call = compiled(function, dynamic=True)
        for size in (3, 4, 7):
            x = torch.randn(size, 5)
            for a, b in zip(call(x), function(x)):
                torch.testing.assert_close(a, b)
        self.assertEqual(len(keel.torch.stats.graphs), 1)


class Borders(Fresh):
    """Where Keel ends and torch begins."""

    def test_a_graph_break_runs_in_torch(self):
        def function(x):
            y = torch.relu(x) * 2
            torch._dynamo.graph_break()
            return torch.tanh(y) + 1
        x = torch.randn(5)
        torch.testing.assert_close(compiled(function)(x), function(x))
        self.assertEqual(len(keel.torch.stats.graphs), 2)

    def test_an_op_without_a_lowering_is_left_to_torch(self):
        def function(x):
            y = torch.linalg.inv(torch.relu(x) + 3 * torch.eye(4))
            return torch.tanh(y @ x)
        x = torch.randn(4, 4)
        with self.assertLogs("keel.torch", logging.INFO) as lines:
            got = compiled(function)(x)
        torch.testing.assert_close(got, function(x), rtol=1e-4, atol=1e-5)
        self.assertIn("aten.linalg_inv_ex.default", keel.torch.stats.left)
        self.assertEqual(keel.torch.stats.graphs[0].regions, 2)
        self.assertTrue(any("linalg_inv_ex" in line and "no lowering" in line
                            for line in lines.output))

    def test_an_op_of_the_user_is_left_to_torch(self):
        @torch.library.custom_op("keeltest::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @twice.register_fake
        def _(x):
            return torch.empty_like(x)

        def function(x):
            return torch.relu(twice(torch.sin(x))) + 1
        self.same(function, torch.randn(3, 4), left=["keeltest.twice.default"])

    def test_types_that_keel_has_not_are_left_to_torch(self):
        def function(x):
            return torch.view_as_real(torch.fft.fft(torch.relu(x))).sum(-1) * 2
        x = torch.randn(8)
        torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-5)

    def test_random_numbers_are_those_of_eager_torch(self):
        def function(x):
            y = torch.relu(x)
            noise = torch.rand_like(y) + torch.randn_like(x * 2)
            noise = noise + torch.bernoulli(torch.sigmoid(y))  # of values: it can't come first
            return F.dropout(y, 0.5) + torch.rand(4), torch.randn(4) * x, noise
        x = torch.randn(4)
        torch.manual_seed(5)
        want = torch.compile(function, backend="aot_eager")(x)
        torch.manual_seed(5)
        torch._dynamo.reset()
        for a, b in zip(compiled(function)(x), want):
            torch.testing.assert_close(a, b)

    def test_arguments_may_be_changed(self):
        def function(x, y):
            x.add_(y)
            return x * 2
        a, b = torch.randn(3), torch.randn(3)
        want = a.clone()
        expected = function(want, b)
        torch.testing.assert_close(compiled(function)(a, b), expected)
        torch.testing.assert_close(a, want)

    def test_results_belong_to_the_caller(self):
        def function(x):
            return x.clone(), x.reshape(-1) + 0, torch.ones(5000), x * 1, torch.relu(x)
        x = torch.rand(100, 50)
        call = compiled(function)
        kept = x.clone()
        for result in call(x):
            result.add_(7)  # must not reach x, another result, or the next call
        torch.testing.assert_close(x, kept)
        for a, b in zip(call(x), function(x)):
            torch.testing.assert_close(a, b)

    def test_a_single_result_is_no_argument(self):
        x = torch.arange(8000)
        for function in (torch.floor, lambda x: torch.round(x.reshape(80, 100))):
            self.setUp()
            result = compiled(function)(x)
            self.assertEqual(keel.torch.stats.regions, 1)
            result.add_(1)
            self.assertEqual(x.tolist(), list(range(8000)))

    def test_equal_results_share_no_memory(self):
        def function(x):
            return torch.exp(x), torch.exp(x * 1.0), torch.cat([torch.sin(x), x]), torch.sin(x)
        x = torch.rand(8000)
        results = compiled(function)(x)
        for result in results:
            result.fill_(3)
        ranges = sorted((r.data_ptr(), r.nbytes) for r in results)
        for (at, size), (then, _) in zip(ranges, ranges[1:]):
            self.assertLessEqual(at + size, then)

    def test_a_view_of_an_argument_stays_one(self):
        def function(x):
            return x.t(), x[1:], torch.relu(x)
        x = torch.randn(3, 4)
        a, b, _ = compiled(function)(x)
        x.fill_(2)
        self.assertEqual(a.tolist(), [[2.0] * 3] * 4)
        self.assertEqual(b.tolist(), [[2.0] * 4] * 2)

    def test_arguments_of_any_layout_are_taken(self):
        x = torch.randn(2, 3, 4, 5)
        for given in (x, x.permute(3, 1, 0, 2), x.to(memory_format=torch.channels_last),
                      x[:, ::2], x[..., 1:3], x[:, :1].expand(2, 3, 4, 5), x[:0]):
            with self.subTest(given.stride()):
                self.setUp()
                got = self.same(lambda t: torch.relu(t) + t, given)
                self.assertEqual(got.stride(), (torch.relu(given) + given).stride())

    def test_layouts_may_differ_from_those_of_the_first_call(self):
        call = compiled(lambda t: t * 2 + 1, dynamic=True)
        x = torch.randn(6, 5)
        for given in (x, x.t(), x[::2], x[:, 1:], torch.randn(0, 3)):
            torch.testing.assert_close(call(given), given * 2 + 1)

    def test_threads_run_one_function(self):
        model = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 256))
        call = compiled(model)
        with torch.no_grad():
            call(torch.randn(64, 256))
        wrong = []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for _ in range(30):
                    x = torch.randn(64, 256, generator=generator)
                    if far(call(x), model(x)) > CLOSE:
                        wrong.append(seed)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_memory_does_not_grow(self):
        call = compiled(lambda x: (torch.relu(x), x + 1))
        x = torch.randn(200, 200)
        for _ in range(5):
            call(x)
        gc.collect()
        before = keel.device("cpu:0").memory()["used"]
        for _ in range(50):
            call(x)
        self.assertLessEqual(keel.device("cpu:0").memory()["used"], before + 400000)


class Options(Fresh):
    def fails(self, kind=Exception, **options):
        with self.assertRaises(kind) as caught:
            compiled(torch.relu, **options)(torch.randn(3))
        return str(caught.exception)

    def test_devices_are_listed_and_taken(self):
        names = [device.name for device in keel.torch.devices()]
        self.assertIn("cpu:0", names)
        x = torch.randn(3)
        for given in ("cpu:0", "cpu", keel.torch.devices()[0]):
            torch._dynamo.reset()
            call = compiled(torch.relu, options={"device": given})
            torch.testing.assert_close(call(x), torch.relu(x))

    def test_an_unknown_device_gives_keels_whole_text(self):
        with self.assertRaises(keel.Error) as direct:
            keel.device("npu:7")
        self.assertIn(str(direct.exception), self.fails(options={"device": "npu:7"}))

    def test_unknown_options_are_refused(self):
        text = self.fails(options={"devise": "cpu:0"})
        self.assertIn("no option 'devise'; did you mean 'device'?", text)
        self.assertIn("strict", text)
        self.assertIn("it was given 3", self.fails(options={"strict": 3}))

    def test_a_mode_of_inductor_is_refused(self):
        self.assertIn("mode", self.fails(mode="max-autotune"))

    def test_strict_names_what_is_left_to_torch(self):
        with self.assertRaises(Exception) as caught:
            compiled(lambda x: torch.linalg.inv(x) + 1, options={"strict": True})(torch.eye(3))
        self.assertIn("linalg_inv_ex", str(caught.exception))

    def test_places_put_ops_elsewhere(self):
        x = torch.randn(3)
        call = compiled(torch.relu, options={"places": {"Relu": "cpu:0"}})
        torch.testing.assert_close(call(x), torch.relu(x))
        text = self.fails(options={"places": {"Relu": "npu:7"}})
        self.assertIn("npu:7", text)

    def test_an_installed_package_needs_no_import(self):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "../pyproject.toml"), encoding="utf-8") as project:
            lines = project.read().split("[project.entry-points.torch_dynamo_backends]")[1]
        entry = lines.strip().splitlines()[0].replace('"', "")
        with tempfile.TemporaryDirectory() as folder:
            info = os.path.join(folder, "keel-0.1.0.dist-info")
            os.mkdir(info)
            for name, text in (("METADATA", "Metadata-Version: 2.1\nName: keel\nVersion: 0.1.0"),
                               ("entry_points.txt", f"[torch_dynamo_backends]\n{entry}")):
                with open(os.path.join(info, name), "w", encoding="utf-8") as file:
                    file.write(text + "\n")
            script = ("import sys, torch\n"
                      "x = torch.randn(3)\n"
                      "y = torch.compile(torch.relu, backend='keel')(x)\n"
                      "assert 'keel.torch' in sys.modules\n"
                      "import keel.torch\n"
                      "assert keel.torch.stats.regions == 1 and torch.equal(y, x.relu())\n")
            paths = [folder, os.environ.get("PYTHONPATH", "")]
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", script],
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_page_has_the_table_of_ops(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                            "../pytorch.md")
        with open(path, encoding="utf-8") as page:
            text = page.read()
        self.assertIn(keel.torch.table(), text, "python3 -m keel.torch --ops prints the table")

    def test_the_table_of_ops_is_printed(self):
        for module, word in ((["--ops"], "| aten.convolution | default |"),
                             (["--devices"], "cpu:0")):
            out = subprocess.run([sys.executable, "-m", "keel.torch", *module],
                                 capture_output=True, text=True, check=True).stdout
            self.assertIn(word, out)


class Ops(Fresh):
    """Ops by themselves, in forms that no model above has."""

    def each(self, functions, *arguments):
        for function in functions:
            with self.subTest(function=function):
                self.setUp()
                self.same(function, *arguments)

    def test_arithmetic(self):
        x, y = torch.randn(4, 5), torch.randn(4, 5)
        self.each([
            lambda x, y: torch.add(x, y, alpha=2), lambda x, y: torch.rsub(x, y, alpha=3),
            lambda x, y: x // y, lambda x, y: x % y, lambda x, y: torch.fmod(x, y),
            lambda x, y: torch.div(x, y, rounding_mode="trunc"),
            lambda x, y: x.abs() ** y, lambda x, y: x ** 3, lambda x, y: 2 ** x,
            lambda x, y: torch.maximum(x, y) - torch.minimum(x, y),
            lambda x, y: torch.log1p(x.abs() * 1e-6) * 1e6,
            lambda x, y: torch.expm1(x * 1e-6) * 1e6,
            lambda x, y: x.clamp(-y.abs(), y), lambda x, y: torch.where(x > y, x, 0.0),
            lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: torch.addcmul(x, y, y, value=2),
            lambda x, y: (x > 0) & (y < 0) | ~(x == y), lambda x, y: x.round() + y.trunc(),
            lambda x, y: torch.atan2(x, y), lambda x, y: torch.fmax(x, y) + torch.fmin(x, y),
            lambda x, y: torch.rsqrt(x.abs() + 1) + torch.exp2(y) + torch.log2(y.abs() + 1),
        ], x, y)

    def test_special_values_go_through(self):
        x = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")])
        self.each([torch.relu, torch.sigmoid, torch.tanh, torch.sign, torch.isnan, torch.isinf,
                   torch.log1p, torch.expm1, torch.floor, F.softplus, F.silu,
                   lambda x: x.clamp(-0.5, 0.5), lambda x: torch.maximum(x, x.flip(0)),
                   lambda x: x.amax(), lambda x: x > 0, lambda x: x // 2], x)

    def test_integers_and_bools(self):
        x = torch.tensor([-7, -3, 0, 3, 7])
        y = torch.tensor([2, -2, 5, -4, 3])
        self.each([
            lambda x, y: x // 3, lambda x, y: x % -4, lambda x, y: x / y,
            lambda x, y: torch.fmod(x, 4), lambda x, y: x.sum(), lambda x, y: (x > y).sum(),
            lambda x, y: x + (x > y), lambda x, y: (x > 0) * (y > 0), lambda x, y: x & y,
            lambda x, y: x.float().mean() + y, lambda x, y: (x == y).any() | (x != y).all(),
            lambda x, y: x.abs().prod(), lambda x, y: x.cumsum(0), lambda x, y: x.argmax(),
            lambda x, y: torch.bitwise_xor(x, y), lambda x, y: ~x,
        ], x, y)

    def test_reductions(self):
        x = torch.randn(3, 4, 5)
        self.each([
            lambda x: x.sum((0, 2)), lambda x: x.mean(1, keepdim=True), lambda x: x.var(),
            lambda x: x.std(1, correction=0), lambda x: torch.var_mean(x, (0, 1)),
            lambda x: x.amax((1, 2)), lambda x: x.min(2), lambda x: x.logsumexp(1),
            lambda x: x.norm(), lambda x: x.argmin(1, keepdim=True), lambda x: x.prod(2),
            lambda x: torch.softmax(x, 1), lambda x: torch.log_softmax(x, 0),
            lambda x: x.topk(2, 1, largest=False), lambda x: x.sort(2, descending=True),
            lambda x: x[0, 0, 0].sum(), lambda x: x.cumsum(1), lambda x: (x > 0).all(1),
        ], x)

    def test_moves(self):
        x = torch.arange(60.0).reshape(3, 4, 5)
        index = torch.tensor([[0, 2], [1, -1]])
        self.each([
            lambda x, i: x[:, 1:-1, ::2] * 1, lambda x, i: x[..., -1] * 1,
            lambda x, i: x[i] * 1, lambda x, i: x[:, i] * 1, lambda x, i: x[i, i] * 1,
            lambda x, i: x[i, :, i] * 1, lambda x, i: x[:, i, i] * 1,
            lambda x, i: torch.roll(x, (1, -1), (0, 2)), lambda x, i: x.flip(0, 2),
            lambda x, i: torch.cat([x, x * 2], 1), lambda x, i: torch.stack([x, x], -1) + 0,
            lambda x, i: x.repeat(2, 1, 1), lambda x, i: x.tril(1) + x.triu(-1),
            lambda x, i: F.pad(x, (1, 2, -1, 1), value=3), lambda x, i: x.unbind(1)[2] * 1,
            lambda x, i: F.pad(x, (1, 2), mode="reflect"), lambda x, i: x.split([1, 3], 1)[1] + 0,
            lambda x, i: x.gather(1, i.abs().reshape(1, 2, 2).expand(3, 2, 2)),
            lambda x, i: torch.arange(0, 7, 2) + i.sum(), lambda x, i: F.one_hot(i.abs(), 4),
            lambda x, i: x.index_select(1, i[1].abs()), lambda x, i: torch.eye(3) @ x[..., 0],
            lambda x, i: x.masked_fill(x > 30, -1.0),
        ], x, index)

    def test_writes_at_indices(self):
        x = torch.randn(4, 5)
        i = torch.tensor([0, 2, 0])

        def put(accumulate):
            def function(x, i):
                return x.index_put((i,), torch.ones(3, 5), accumulate)
            return function

        def column(x, i):
            y = x.clone()
            y[:, 2] = 7
            y[1:3, ::2] += 1
            return y

        self.each([
            put(True), lambda x, i: x.index_put((i[:2], i[1:]), torch.tensor(3.0)), column,
            lambda x, i: x.index_add(0, i, torch.ones(3, 5)),
            lambda x, i: x.index_put((torch.tensor([[1], [2]]), i), torch.tensor(5.0)),
            lambda x, i: x.scatter(1, i.reshape(3, 1), 9.0),
            lambda x, i: x.scatter_add(0, i.reshape(1, 3), torch.ones(2, 4)),
        ], x, i)

    def test_short_floats(self):
        for dtype in (torch.float16, torch.bfloat16):
            x = torch.randn(4, 8).to(dtype)
            for function in (lambda x: torch.relu(x) @ x.t(), lambda x: F.layer_norm(x, (8,)),
                             lambda x: torch.softmax(x, -1), lambda x: x.sum() * 0.5,
                             lambda x: x.float() + 1):
                self.setUp()
                self.same(function, x, tolerance=2e-2)

    def test_types_that_differ_from_their_metadata_are_seen(self):
        # batch norm of bf16 with weights of f32 gives statistics of f32, and says bf16
        model, (x,) = torch_models.cnn()
        plain = copy.deepcopy(model)

        def step(one, call):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = call(x)
            torch.manual_seed(1)
            output.backward(torch.randn_like(output))
            return torch.cat([p.grad.flatten() for p in one.parameters()])
        want, got = step(plain, plain), step(model, compiled(model))
        self.assertLess(far(got, want), 0.05)

    def test_rows_that_a_mask_leaves_nothing_of(self):
        q = torch.randn(1, 2, 3, 8)
        mask = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
        grads = []
        for call in (F.scaled_dot_product_attention, compiled(F.scaled_dot_product_attention)):
            x = q.clone().requires_grad_()
            y = call(x, x, x, attn_mask=mask)
            self.assertEqual(y[0, 0, 1].tolist(), [0.0] * 8)
            (y ** 2).sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)

    def test_convolutions_and_their_gradients(self):
        cases = [(nn.Conv2d(4, 6, 3, 2, 1, 1, 2), 9, 9), (nn.Conv2d(4, 6, (3, 2), (3, 2)), 11, 8),
                 (nn.Conv2d(4, 4, 3, 1, 2, 2, 4, bias=False), 8, 7),
                 (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), 5, 4),
                 (nn.ConvTranspose2d(4, 6, 4, 3, 0, 0, 2, dilation=2), 4, 5),
                 (nn.ConvTranspose2d(4, 6, 3, 2, 1, 2, dilation=3), 5, 4),
                 (nn.Conv1d(4, 6, 3, padding=1), 9, None),
                 (nn.Conv3d(4, 2, 2, 2), 4, (4, 5))]
        for model, high, wide in cases:
            with self.subTest(model):
                self.setUp()
                extra = () if wide is None else wide if isinstance(wide, tuple) else (wide,)
                x = torch.randn(2, 4, high, *extra, requires_grad=True)
                plain, y = copy.deepcopy(model), x.detach().clone().requires_grad_()
                want = trained(plain, (y,), plain)
                got = trained(model, (x,), compiled(model))
                for a, b in (*zip(got, want), (x.grad, y.grad)):
                    self.assertLess(far(a, b), CLOSE)
                self.assertEqual(keel.torch.stats.left, {})

    def test_pools_and_their_gradients(self):
        cases = [nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, 3, ceil_mode=True),
                 nn.MaxPool2d(3, 1, 1, dilation=2), nn.AvgPool2d(3, 2, 1),
                 nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AvgPool2d(3, 2, ceil_mode=True),
                 nn.AvgPool2d(2, 2, 1, ceil_mode=True), nn.AvgPool2d((2, 3), divisor_override=5),
                 nn.AdaptiveAvgPool2d((3, 5)), nn.AdaptiveAvgPool2d(1), nn.MaxPool1d(2),
                 nn.MaxPool3d(2)]
        for pool in cases:
            with self.subTest(pool):
                self.setUp()
                rank = 3 if isinstance(pool, nn.MaxPool1d) else \
                    5 if isinstance(pool, nn.MaxPool3d) else 4
                x = torch.randn(2, 3, *(8, 7, 6)[:rank - 2], requires_grad=True)
                y = x.detach().clone().requires_grad_()
                (pool(y) ** 2).sum().backward()
                compiled(lambda t: (pool(t) ** 2).sum())(x).backward()
                self.assertLess(far(x.grad, y.grad), CLOSE)
                self.assertEqual(keel.torch.stats.left, {})


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    unittest.main()
