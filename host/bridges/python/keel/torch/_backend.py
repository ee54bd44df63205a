"""The backend: graphs of dynamo, by AOTAutograd, to regions of Keel with torch in between."""
from __future__ import annotations

import contextlib
import difflib
import logging
import operator
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from .. import Context, Device, _default
from ._partition import Graph, Mutation, Region, is_getitem, name_of
from ._program import Call, Refused
from . import _data, _math, _nn  # noqa: F401 (they register their lowerings)

log = logging.getLogger("keel.torch")


@dataclass
class Compiled:
    """What became of one graph."""
    kind: str  # "forward", "backward", "inference"
    regions: int  # programs of Keel
    nodes: int  # of the graph that are in them
    ops: int  # of Keel that these became
    left: dict[str, int]  # ops that torch runs, and how many
    reasons: dict[str, str]  # why
    seconds: float


@dataclass
class Stats:
    """All graphs that were compiled since `reset`."""
    graphs: list[Compiled] = field(default_factory=list)

    @property
    def regions(self) -> int:
        return sum(graph.regions for graph in self.graphs)

    @property
    def left(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for graph in self.graphs:
            total.update(graph.left)
        return total

    @property
    def seconds(self) -> float:
        return sum(graph.seconds for graph in self.graphs)


stats = Stats()
_lock = threading.Lock()


def reset() -> None:
    """Forgets what `stats` holds."""
    with _lock:
        stats.graphs.clear()


# ---- options


@dataclass(frozen=True)
class Options:
    device: Device
    places: dict[str, str]
    strict: bool


_KNOWN = {
    "device": (str, "a device's name, \"opencl:0\"; keel.torch.devices() lists them"),
    "places": (dict, "single ops elsewhere, {\"GLOB of ops\": \"cpu:0\"}"),
    "strict": (bool, "raise where an op is left to torch"),
}


def _options(given: Mapping[str, Any] | None, context: Context) -> Options:
    given = dict(given or {})
    for name, value in given.items():
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            listed = "; ".join(f"{key}: {about}" for key, (_, about) in _KNOWN.items())
            raise ValueError(f"backend \"keel\" has no option {name!r}{hint} (it has {listed})")
        kind, about = _KNOWN[name]
        if not isinstance(value, (kind, Device) if name == "device" else kind):
            raise ValueError(f"option {name!r} of backend \"keel\" takes {about}; it was given"
                             f" {value!r}")
    places = dict(given.get("places", {}))
    for where in places.values():
        if not where.startswith("@"):  # "where another op is" is not the name of a device
            context.device(where)
    return Options(context.device(given.get("device")), places, given.get("strict", False))


# ---- one graph


def _refuse(graph: Graph, context: Context, options: Options, region: Region,
            error: Refused) -> None:
    """Leaves to torch what Keel refuses: the node, those that fail alone, or the region."""
    if error.node is not None:
        graph.refuse(error.node, str(error))
        return
    found = False
    for node in region.nodes:
        if is_getitem(node):
            continue
        parts = [node, *[user for user in node.users if is_getitem(user)]]
        try:
            Call(context._core, graph, graph.border(parts), "alone", options.device,
                 options.places)
        except Refused as alone:
            graph.refuse(node, str(alone))
            found = True
    if not found:
        for node in region.nodes:
            if not is_getitem(node):
                graph.refuse(node, str(error))


def _calls(graph: Graph, context: Context, options: Options,
           kind: str) -> list[tuple[Region, Call]]:
    while True:
        graph.sink_views()
        made: list[tuple[Region, Call]] = []
        for i, region in enumerate(graph.regions()):
            try:
                made.append((region, Call(context._core, graph, region, f"{kind} {i}",
                                          options.device, options.places)))
            except Refused as error:
                _refuse(graph, context, options, region, error)
                break
        else:
            return made


def _assembled(graph: Graph, calls: Sequence[tuple[Region, Call]]) -> Callable[..., Any]:
    """The graph with calls in the place of regions, as one function."""
    new = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    of = {node: index for index, (region, _) in enumerate(calls) for node in region.nodes}
    done: set[int] = set()
    root: dict[str, Any] = {}
    for node in graph.graph.nodes:
        if node in of:
            index = of[node]
            if index in done:
                continue
            done.add(index)
            region, call = calls[index]
            call.run.__name__ = f"keel_{index}"
            made = new.call_function(call.run, tuple(env[n] for n in region.inputs))
            for i, output in enumerate(region.outputs):
                env[output] = new.call_function(operator.getitem, (made, i))
            continue
        if node.op == "get_attr":
            root[node.target] = _attribute(graph.module, node.target)
        env[node] = new.node_copy(node, lambda n: env[n])
    module = fx.GraphModule(root, new)
    return module.forward


def _attribute(module: torch.nn.Module, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _direct(graph: Graph, calls: Sequence[tuple[Region, Call]]) -> Callable[..., Any] | None:
    """The call itself, where the graph is one region that takes and returns all."""
    if len(calls) != 1:
        return None
    region, call = calls[0]
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    end = next(node for node in graph.graph.nodes if node.op == "output")
    results = end.args[0]
    if isinstance(results, (tuple, list)) and list(results) == region.outputs \
            and region.inputs == given:
        return call.run
    return None


def _boxed(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """Takes its arguments as a list, which it empties, so that they may go early."""
    def call(args: list[Any]) -> Any:
        given = tuple(args)
        args.clear()
        return function(*given)
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def compile_graph(module: fx.GraphModule, kind: str, options: Options,
                  context: Context) -> Callable[..., Any]:
    """A graph of ATen as a function that takes a list of its inputs."""
    start = time.perf_counter()
    module = fx.GraphModule(module, module.graph)
    graph = Graph(module)
    try:
        calls = _calls(graph, context, options, kind)
    except Mutation as error:
        log.info("%s graph: left to torch, as %s writes to its argument", kind, error)
        calls = []
        for node in list(graph.lowered):
            graph.refuse(node, "beside an op that writes to its argument")
    inside = {node for region, _ in calls for node in region.nodes}
    left: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for node in module.graph.nodes:
        if node.op == "call_function" and node not in inside and node in graph.refused:
            left[name_of(node)] += 1
            reasons.setdefault(name_of(node), graph.refused[node])
    for op, reason in reasons.items():
        log.info("%s graph: %s x %s is left to torch: %s", kind, left[op], op, reason)
    if options.strict and left:
        raise RuntimeError("backend \"keel\" with strict=True: left to torch are " + "; ".join(
            f"{op} ({reason})" for op, reason in reasons.items()))
    function = _direct(graph, calls) or _assembled(graph, calls)
    done = Compiled(kind, len(calls), sum(not is_getitem(node) for node in inside),
                    sum(call.ops for _, call in calls), dict(left), reasons,
                    time.perf_counter() - start)
    log.info("%s graph: %d nodes in %d regions, %d left to torch, %.2f s", kind, done.nodes,
             done.regions, sum(left.values()), done.seconds)
    with _lock:
        stats.graphs.append(done)
    return _boxed(function)


# ---- the backend


# Ops that stay whole, though torch could write them with simpler ones: of attention torch's own
# form keeps other values for the backward pass; the rest are one op of Keel.
_WHOLE = ("_scaled_dot_product_flash_attention_for_cpu", "_adaptive_avg_pool2d", "elu",
          "hardsigmoid", "hardswish", "leaky_relu", "mish", "softplus")


def _table() -> dict[Any, Any]:
    from torch._decomp import core_aten_decompositions
    table = dict(core_aten_decompositions())
    for name in _WHOLE:
        table.pop(getattr(torch.ops.aten, name).default, None)
    # what draws random numbers otherwise than eager torch would give others; torch's own form of
    # linspace rounds otherwise, too
    return {op: function for op, function in table.items()
            if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ())
            and not str(op).startswith("aten.linspace")}


def backend(module: fx.GraphModule, inputs: Sequence[Any], *,
            options: Mapping[str, Any] | None = None, mode: str | None = None,
            **rest: Any) -> Callable[..., Any]:
    """What torch.compile calls: torch.compile(model, backend="keel", options={...})."""
    if mode not in (None, "default"):
        raise ValueError(f"backend \"keel\" has no mode {mode!r}: leave mode out")
    context = _default()
    chosen = _options(options, context)

    def compiler(kind: str) -> Callable[..., Any]:
        def compiled(graph: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
            with _disable_current_modes():  # else constants would be fake tensors
                return compile_graph(graph, kind, chosen, context)
        return compiled

    with _lstm_by_steps(module):
        return _traced(module, inputs, compiler)


@contextlib.contextmanager
def _lstm_by_steps(module: fx.GraphModule) -> Iterator[None]:
    """For training, torch must not trace an LSTM as layers of oneDNN: its graph of these fails.
    Of the steps Keel makes one region."""
    found = any(getattr(node.target, "__name__", "") == "lstm" for node in module.graph.nodes)
    enabled = torch._C._get_mkldnn_enabled()
    if found and torch.is_grad_enabled():
        torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _traced(module: fx.GraphModule, inputs: Sequence[Any],
            compiler: Callable[[str], Callable[..., Any]]) -> Callable[..., Any]:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    return aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"),
                        inference_compiler=compiler("inference"), decompositions=_table(),
                        partition_fn=min_cut_rematerialization_partition)(module, inputs)
