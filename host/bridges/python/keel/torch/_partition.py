"""Which nodes of a graph go to Keel, and in which regions."""
from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Sequence

import torch
from torch import fx

from ._values import (HALVES, TABLE, WIDE, Lowering, Step, Unsupported, Value, type_of)

# what only looks at memory in another way: free in torch, often a copy elsewhere
VIEWS = {f"aten.{name}" for name in (
    "alias.default", "detach.default", "view.default", "reshape.default", "_unsafe_view.default",
    "unsqueeze.default", "squeeze.dim", "squeeze.dims", "squeeze.default", "permute.default",
    "t.default", "transpose.int", "expand.default", "slice.Tensor", "select.int")}
# what is not worth a call of Keel by itself
TRIVIAL = VIEWS | {f"aten.{name}" for name in (
    "full.default", "full_like.default", "zeros.default", "zeros_like.default", "ones.default",
    "ones_like.default", "new_zeros.default", "new_ones.default", "new_full.default",
    "empty.memory_format", "scalar_tensor.default", "arange.default", "arange.start",
    "arange.start_step", "clone.default", "lift_fresh_copy.default", "_to_copy.default",
    "split.Tensor", "split_with_sizes.default", "unbind.int")} | {
    "prims.iota.default", "prims.convert_element_type.default"}


@dataclass
class Lowered:
    """What a node becomes: its steps, and the values that are its outputs."""
    steps: list[Step]
    outputs: list[Value | None]
    several: bool


@dataclass
class Region:
    """Nodes that become one program, in order, and what crosses its border."""
    nodes: list[fx.Node]
    inputs: list[fx.Node] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)


def name_of(node: fx.Node) -> str:
    """"aten.add.Tensor"; other functions by their Python names."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    return getattr(node.target, "__name__", str(node.target))


RANDOM = "random numbers are torch's"


def dropout_mask(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype,
                 p: float) -> torch.Tensor:
    """The mask that torch's dropout draws for such a tensor."""
    ones = torch.empty_strided(sizes, strides, dtype=dtype).fill_(1)
    mask: torch.Tensor = torch.ops.aten.native_dropout(ones, p, True)[1]
    return mask


def _evaluator(symbols: Sequence[Any], expression: Any) -> Callable[..., int]:
    """A function that computes a size from those that its symbols stand for."""
    from torch.utils._sympy.reference import PythonReferenceAnalysis
    from torch.utils._sympy.interp import sympy_interp

    def size(*values: int) -> int:
        return int(sympy_interp(PythonReferenceAnalysis, dict(zip(symbols, values)), expression))
    size.__module__ = __name__
    return size


def drawn_like(op: Callable[..., torch.Tensor], sizes: Sequence[int], strides: Sequence[int],
               dtype: torch.dtype) -> torch.Tensor:
    """The numbers that an op draws for such a tensor."""
    return op(torch.empty_strided(sizes, strides, dtype=dtype))


dropout_mask.keel_random = True  # type: ignore[attr-defined]
drawn_like.keel_random = True  # type: ignore[attr-defined]


def is_getitem(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def value_of(node: fx.Node) -> Value:
    """A node as an operand; refuses what Keel's programs don't take."""
    fake = node.meta.get("val")
    if isinstance(fake, torch.Tensor):
        if fake.device.type != "cpu":
            raise Unsupported(f"a tensor on {fake.device}")
        if fake.layout != torch.strided or fake.is_quantized:
            raise Unsupported(f"a tensor of layout {fake.layout}")
        return Value(type_of(fake.dtype), fake=fake)
    if isinstance(fake, torch.SymInt) or isinstance(fake, int) and not isinstance(fake, bool):
        return Value("i64", fake=fake)
    if isinstance(fake, (torch.SymFloat, float)):
        return Value("f64", fake=fake)
    raise Unsupported(f"an operand that is {type(fake).__name__}")


class Graph:
    """A graph of FX, what its nodes are lowered to, and why those of torch are not."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.module, self.graph = module, module.graph
        self.values: dict[fx.Node, Value] = {}
        self.lowered: dict[fx.Node, Lowered] = {}
        self.refused: dict[fx.Node, str] = {}
        self.sizes = self._symbols()
        self._hoist_sizes()
        self._hoist_dropout()
        self._hoist_random()
        for node in self.graph.nodes:
            if node.op == "call_function" and not is_getitem(node):
                self._lower(node)

    # ---- what depends on shapes alone

    def _symbols(self) -> dict[Any, fx.Node]:
        """The nodes that hold sizes which the caller gives, by their expressions."""
        return {node.meta["val"].node.expr: node for node in self.graph.nodes
                if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt)}

    def _size(self, size: Any) -> Any:
        """A symbolic size as a node that needs no tensor; None: there is none."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression.is_number:
            return int(expression)
        if expression in self.sizes:
            return self.sizes[expression]
        symbols = sorted(expression.free_symbols, key=str)
        if any(symbol not in self.sizes for symbol in symbols):
            return None
        evaluate = _evaluator(symbols, expression)
        last = [node for node in self.graph.nodes if node.op == "placeholder"][-1]
        with self.graph.inserting_after(max([last, *self.sizes.values()], key=self._place)):
            made = self.graph.call_function(evaluate, tuple(self.sizes[s] for s in symbols))
        made.meta["val"] = size
        self.sizes[expression] = made
        return made

    def _place(self, node: fx.Node) -> int:
        return next(i for i, other in enumerate(self.graph.nodes) if other is node)

    def _hoist_sizes(self) -> None:
        """Takes sizes from what the caller gives, not from tensors that are computed first."""
        for node in list(self.graph.nodes):
            if node.target is torch.ops.aten.sym_size.int:
                size = self._size(node.meta["val"])
                if size is not None:
                    node.replace_all_uses_with(size)
                    self.graph.erase_node(node)

    def _hoist_dropout(self) -> None:
        """Draws the masks of dropout, as torch does, from shapes alone: they are then no step
        between what comes before and after."""
        aten = torch.ops.aten
        for node in list(self.graph.nodes):
            if node.target is not aten.native_dropout.default or node.args[2] is False:
                continue
            source, p = node.args[0], node.args[1]
            fake, mask = node.meta["val"]
            sizes = [self._size(size) for size in fake.shape]
            strides = [self._size(stride) for stride in fake.stride()]
            if None in sizes or None in strides or 0 in strides or p >= 1:
                continue
            with self.graph.inserting_before(node):
                drawn = self.graph.call_function(dropout_mask, (sizes, strides, fake.dtype, p))
                kept = self.graph.call_function(aten.mul.Tensor, (source, drawn))
                made = self.graph.call_function(aten.mul.Tensor, (kept, 1 / (1 - p)))
            drawn.meta["val"], kept.meta["val"], made.meta["val"] = mask, fake, fake
            self.refused[drawn] = RANDOM
            for user in list(node.users):
                user.replace_all_uses_with(drawn if user.args[1] == 1 else made)
                self.graph.erase_node(user)
            self.graph.erase_node(node)

    def _hoist_random(self) -> None:
        """The same of numbers that are drawn for a tensor like another."""
        aten = torch.ops.aten
        for node in list(self.graph.nodes):
            if node.target not in (aten.rand_like.default, aten.randn_like.default):
                continue
            fake = node.meta["val"]
            like = node.args[0].meta["val"]
            sizes = [self._size(size) for size in like.shape]
            strides = [self._size(stride) for stride in like.stride()]
            if None in sizes or None in strides or 0 in strides or fake.dtype != like.dtype \
                    or fake.stride() != like.stride() or fake.device.type != "cpu":
                continue
            with self.graph.inserting_before(node):
                drawn = self.graph.call_function(
                    drawn_like, (node.target, sizes, strides, fake.dtype))
            drawn.meta["val"] = fake
            self.refused[drawn] = RANDOM
            node.replace_all_uses_with(drawn)
            self.graph.erase_node(node)

    def value(self, node: fx.Node) -> Value:
        if node not in self.values:
            self.values[node] = value_of(node)
        return self.values[node]

    def _operand(self, given: Any) -> Any:
        if isinstance(given, fx.Node):
            value = self.value(given)
            if isinstance(value.fake, int):
                return value.fake
            if isinstance(value.fake, torch.SymInt) and value.fake.node.expr.is_number:
                return int(value.fake)
            return value
        if isinstance(given, (list, tuple)):
            return [self._operand(item) for item in given]
        if isinstance(given, (torch.SymInt, torch.SymFloat)):
            raise Unsupported("a symbolic number that no node computes")
        if isinstance(given, complex):
            raise Unsupported("a complex number")
        return given

    def _lower(self, node: fx.Node) -> None:
        if node in self.refused or not _has_tensors(node.meta.get("val")):
            return
        function = TABLE.get(name_of(node))
        if function is None:
            tags = getattr(node.target, "tags", ())
            self.refused[node] = (RANDOM if torch.Tag.nondeterministic_seeded in tags
                                  else "no lowering")
            return
        try:
            self.lowered[node] = self._made(node, function)
        except Unsupported as error:
            self.refused[node] = str(error)
        except (TypeError, IndexError, AttributeError) as error:  # arguments of another torch
            self.refused[node] = f"not as this torch calls it: {error}"

    def _made(self, node: fx.Node, function: Callable[..., Any]) -> Lowered:
        out = node.meta["val"]
        several = isinstance(out, (tuple, list))
        scope = Lowering(out, lambda index: _is_used(node, index), name_of(node) in WIDE)
        args = [self._operand(given) for given in node.args]
        more = {key: self._operand(given) for key, given in node.kwargs.items()}
        if scope.wide:
            args = [scope.widen(given) for given in args]
            more = {key: scope.widen(given) for key, given in more.items()}
        made = function(scope, *args, **more)
        outputs = list(made) if several else [made]
        for i, output in enumerate(outputs):
            if output is None:
                if _is_used(node, i):
                    raise Unsupported(f"its output {i}")
                continue
            fake = out[i] if several else out
            if fake is None:
                raise Unsupported(f"its output {i}")
            dtype = type_of(fake.dtype)
            if scope.wide and dtype in HALVES and output.dtype == "f32":
                output = outputs[i] = (scope.cast(output, dtype) if several else
                                       scope.narrow(output, dtype))
            if output.dtype != dtype:
                raise Unsupported(f"its output is {output.dtype}, not {fake.dtype}")
            if fake.device.type != "cpu":
                raise Unsupported(f"a tensor on {fake.device}")
        return Lowered(scope.steps, outputs, several)

    def refuse(self, node: fx.Node, reason: str) -> None:
        self.lowered.pop(node, None)
        self.refused[node] = reason

    def is_keel(self, node: fx.Node) -> bool:
        if is_getitem(node):
            return node.args[0] in self.lowered
        return node in self.lowered

    # ---- views that torch makes

    def sink_views(self) -> None:
        """Views that the caller or torch needs are made by torch, of what they look at: they
        would be copies of Keel's. Users in Keel keep their own."""
        for node in reversed(list(self.graph.nodes)):
            if node not in self.lowered or name_of(node) not in VIEWS:
                continue
            outside = [user for user in node.users if not self.is_keel(user)]
            if not outside:
                continue
            if len(outside) == len(node.users):
                self.lowered.pop(node)
                continue
            with self.graph.inserting_after(node):
                copy = self.graph.node_copy(node, lambda n: n)
            copy.meta = dict(node.meta)
            for user in outside:
                user.replace_input_with(node, copy)

    # ---- regions

    def levels(self) -> dict[fx.Node, int]:
        """Numbers that grow along edges: even ones for torch, odd ones for Keel. All of Keel's
        nodes of one number can be one region: a path between two of them through torch would
        number the second higher."""
        level: dict[fx.Node, int] = {}
        ordered = 0  # what draws random numbers or has effects stays in its order
        for node in self.graph.nodes:
            parity = 1 if self.is_keel(node) else 0
            least = parity
            for source in node.all_input_nodes:
                at = level[source]
                least = max(least, at if at % 2 == parity else at + 1)
            if _is_mutable(node):
                raise Mutation(name_of(node))
            if not parity and _is_ordered(node):
                least = ordered = max(least, ordered)
            level[node] = least
        return level

    def regions(self) -> list[Region]:
        while True:
            level = self.levels()
            found: dict[int, list[fx.Node]] = {}
            for node in self.graph.nodes:
                if self.is_keel(node):
                    found.setdefault(level[node], []).append(node)
            poor = [nodes for nodes in found.values() if not _is_worth(nodes)]
            if not poor:
                break
            for nodes in poor:
                for node in nodes:
                    self.lowered.pop(node, None)
        self._sort(level)
        return [self.border(nodes) for _, nodes in sorted(found.items())]

    def _sort(self, level: dict[fx.Node, int]) -> None:
        """Brings the graph into the order of the levels."""
        nodes = list(self.graph.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        inner = [n for n in nodes if n.op not in ("placeholder", "output")]
        end = next(n for n in nodes if n.op == "output")
        for node in sorted(inner, key=lambda n: (level[n], place[n])):
            end.prepend(node)

    def border(self, nodes: list[fx.Node]) -> Region:
        inside = set(nodes)
        inputs: dict[fx.Node, None] = {}
        outputs = []
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in inside:
                    inputs[source] = None
            if any(user not in inside for user in node.users):
                outputs.append(node)
        return Region(nodes, list(inputs), outputs)


class Mutation(Exception):
    """The graph writes to a tensor: its order can't change."""


def _is_used(node: fx.Node, index: int) -> bool:
    return any(not is_getitem(user) or user.args[1] == index and bool(user.users)
               for user in node.users)


def _has_tensors(fake: Any) -> bool:
    if isinstance(fake, (tuple, list)):
        return any(_has_tensors(item) for item in fake)
    return isinstance(fake, torch.Tensor)


def _is_mutable(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _is_ordered(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    target = node.target
    if getattr(target, "keel_random", False):
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in target.tags or node.is_impure()


def _is_worth(nodes: Iterable[fx.Node]) -> bool:
    return any(not is_getitem(node) and name_of(node) not in TRIVIAL for node in nodes)
