"""Numbers, bounds and counts in keel.torch, beside eager PyTorch: each overload that is lowered,
by itself, gives what eager torch gives, or is left to torch.

KEEL_LIBRARY: libkeel. Exit status 77 where PyTorch is missing.
"""
import logging
import operator
import re
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)
from torch import fx
from torch._subclasses import FakeTensorMode

import keel
import keel.torch
from keel.torch import _backend
from keel.torch._partition import Graph
from keel.torch._values import TABLE
import torch_numbers as numbers

logging.getLogger("torch").setLevel(logging.CRITICAL)  # it tells what it refuses

OF_A_NUMBER = re.compile("without overflow|representable range|ZeroDivision|negative integer powers")
# how many steps of the type a result may be off; an op without an entry is exact
STEPS = {"atan2": 1, "pow": 2, "elu": 2, "softplus": 2, "addmm": 4, "addmv": 4, "baddbmm": 4,
         "addcdiv": 1, "addcmul": 1, "lerp": 1}


class Case:
    def __init__(self, overload, given, named):
        self.overload, self.given, self.named = overload, given, named

    def __str__(self):
        shown = [v.flatten()[:4].tolist() if isinstance(v, torch.Tensor) else v
                 for v in self.given]
        return f"{self.overload}({shown}, {self.named})"

    def name(self):
        return self.overload.overloadpacket.__name__

    def error(self):
        """Why torch refuses it; "": it does not."""
        made = self.eager()
        return str(made) or "refused" if isinstance(made, Exception) else ""

    def exact(self, i):
        """Result i of halves (None: the only one), computed in f64; None: the op is not one of them."""
        def wide(value):
            if isinstance(value, list):
                return [wide(item) for item in value]
            if isinstance(value, torch.Tensor) and value.dtype in numbers.HALVES:
                return value.double()
            return value
        try:
            made = self.overload(*[wide(value) for value in self.given], **self.named)
        except RuntimeError:
            return None
        return made if i is None else made[i]

    def eager(self):
        """The result, or the error where torch refuses."""
        try:
            return self.overload(*self.given, **self.named)
        except (RuntimeError, NotImplementedError, OverflowError, TypeError, IndexError) as error:
            return error


def graph_of(cases):
    """One graph of all cases: (module, inputs, the cases that torch can trace)."""
    graph, inputs, nodes, kept, results = fx.Graph(), [], [], [], []
    with FakeTensorMode() as mode:
        def operand(value):
            if isinstance(value, list):
                return [operand(item) for item in value]
            if not isinstance(value, torch.Tensor):
                return value, value
            node = graph.placeholder(f"x{len(inputs)}")
            node.meta["val"] = mode.from_tensor(value)
            inputs.append(value)
            return node, node.meta["val"]

        def half(value, index):
            return [half(v, index) for v in value] if isinstance(value, list) else value[index]

        for case in cases:
            made = [operand(value) for value in case.given]
            try:
                fake = case.overload(*[half(v, 1) for v in made], **case.named)
            except Exception:  # as it is with torch.compile
                continue
            node = graph.call_function(case.overload, tuple(half(v, 0) for v in made), case.named)
            node.meta["val"] = fake
            nodes.append(node)
            kept.append(case)
            results.append(node)
            if isinstance(fake, (tuple, list)):
                results[-1] = tuple(graph.call_function(operator.getitem, (node, i))
                                    for i in range(len(fake)))
                for part, value in zip(results[-1], fake):
                    part.meta["val"] = value
    graph.output(tuple(results))
    for node in reversed(list(graph.nodes)):
        if node.op == "placeholder":
            first = next(iter(graph.nodes))
            if node is not first:
                first.prepend(node)
    return fx.GraphModule(torch.nn.Module(), graph), inputs, kept, nodes


def is_near(a, b, exact):
    """Whether a is as near to the exact result as b is, or within half a step of a half."""
    if exact is None or a.dtype not in numbers.HALVES:
        return False
    limit = torch.finfo(a.dtype)
    step = torch.clamp(exact.abs() * limit.eps, min=limit.tiny * limit.eps) * 0.51
    far = (a.double() - exact).abs()
    worst = torch.maximum((b.double() - exact).abs(), step)
    over = a.isinf() & (exact.abs() >= limit.max) & (a.sign() == exact.sign())
    return bool(((a == b) | (far <= worst) | over | (a.isnan() & (exact.isnan() | b.isnan()))).all())


def is_close(a, b):
    """Beside the largest element: of sums in another order."""
    eps = torch.finfo(a.dtype).eps
    return bool(((a - b).abs().max() <= 8 * eps * b.abs().max()).item())


def steps_apart(a, b):
    """The largest distance of two results in steps of their type."""
    if a.dtype in (torch.float64, torch.float32):
        close = torch.isclose(a, b, rtol=2e-6 if a.dtype == torch.float32 else 1e-14,
                              atol=torch.finfo(a.dtype).tiny, equal_nan=True)
        return 0 if close.all() else 99
    same = (a == b) | (a.isnan() & b.isnan())
    if same.all():
        return 0
    if not a.is_floating_point():
        return 99

    def place(x):
        bits = x.view(torch.int16).long()
        return torch.where(bits < 0, -(bits & 0x7fff), bits)
    apart = (place(a) - place(b)).abs()
    return int(torch.where(same, 0, apart).max())


class Numbers(unittest.TestCase):
    def setUp(self):
        self.context = keel._default()
        self.options = _backend._options({"device": "cpu:0"}, self.context)

    def run_all(self, cases):
        """(case, what Keel gives, what torch gives), for all that torch computes."""
        module, inputs, kept, nodes = graph_of(cases)
        call = _backend.compile_graph(module, "inference", self.options, self.context)
        for case, node, got in zip(kept, nodes, call(list(inputs))):
            want = case.eager()
            if getattr(node.meta["val"], "dtype", None) != getattr(want, "dtype", None):
                continue  # torch's own metadata says another type than torch gives
            if isinstance(got, (tuple, list)):
                for i, (a, b) in enumerate(zip(got, want)):
                    yield case, i, a, b
            else:
                yield case, None, got, want

    def test_numbers_give_what_they_give_in_eager_torch(self):
        for dtype in (torch.bool, *numbers.INTEGERS, *numbers.FLOATS):
            cases = [Case(*call) for call in numbers.calls(dtype)]
            wrong = []
            for case, i, got, want in self.run_all([c for c in cases if not c.error()]):
                if (got.dtype, got.shape) != (want.dtype, want.shape) or steps_apart(got, want) > \
                        STEPS.get(case.name(), 0) and not is_near(got, want, case.exact(i)):
                    wrong.append(f"{case}: {got.tolist()}, torch has {want.tolist()}")
            with self.subTest(dtype):
                self.assertEqual(wrong, [])

    def test_numbers_that_torch_refuses_are_left_to_it(self):
        for dtype in (*numbers.INTEGERS, *numbers.FLOATS):
            cases = [Case(*call) for call in numbers.calls(dtype)]
            module, _, kept, nodes = graph_of(
                [case for case in cases if OF_A_NUMBER.search(case.error())])
            graph = Graph(module)
            with self.subTest(dtype):
                self.assertGreater(len(kept), 0)
                self.assertEqual([str(case) for case, node in zip(kept, nodes)
                                  if node in graph.lowered], [])

    def test_halves_are_rounded_and_counted_as_in_eager_torch(self):
        for dtype in numbers.FLOATS:
            with self.subTest(dtype):
                wrong = []
                for case, i, got, want in self.run_all([Case(*c) for c in numbers.plain(dtype)]):
                    if steps_apart(got, want) > 1 and not is_near(got, want, case.exact(i)) \
                            and not is_close(got, want):
                        wrong.append(f"{case}: {got.tolist()}, torch has {want.tolist()}")
                self.assertEqual(wrong, [])

    def test_each_overload_that_is_lowered_is_called(self):
        called = {str(call[0]) for dtype in (torch.int32, torch.float32)
                  for make in (numbers.calls, numbers.plain) for call in make(dtype)
                  if make is numbers.calls or dtype is torch.float32}
        self.assertEqual(sorted(name for name in TABLE if name not in called
                                and not numbers.needs_no_numbers(name)), [])

    def test_a_divisor_of_integers_that_is_0_is_an_error_as_in_torch(self):
        x, zero = torch.tensor([5, -3]), torch.tensor([2, 0])
        for function in (lambda a, b: a // b, lambda a, b: a % b, torch.fmod,
                         lambda a, b: a // 0, lambda a, b: a % 0,
                         lambda a, b: torch.div(a, b, rounding_mode="trunc")):
            torch._dynamo.reset()
            with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
                torch.compile(lambda a, b: function(a * 2, b) + 1, backend="keel")(x, zero)

    def test_a_mean_of_many_halves_has_a_gradient(self):
        for dtype in numbers.HALVES:
            torch._dynamo.reset()
            x = torch.ones(70000, dtype=dtype, requires_grad=True)
            torch.compile(lambda x: x.mean() * 1000, backend="keel")(x).backward()
            torch.testing.assert_close(x.grad[0], torch.tensor(1 / 70, dtype=dtype))

    def test_a_number_many_times_is_that_of_eager_torch(self):
        step = torch.compile(lambda x: x * 0.99, backend="keel")
        x = y = torch.ones(4, dtype=torch.bfloat16)
        for _ in range(50):
            x, y = step(x), y * 0.99
        self.assertEqual(x.tolist(), y.tolist())

    def test_constants_without_elements_have_any_rank(self):
        x = torch.randn(1, 2, 8, 8)
        for sizes in ((0, 0), (0, 1), (3, 0)):
            torch._dynamo.reset()
            got = torch.compile(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, sizes) + 1,
                                backend="keel")(x)
            self.assertEqual(got.shape, (1, 2, *sizes))


if __name__ == "__main__":
    unittest.main()
