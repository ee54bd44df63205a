"""A region as a plan of Keel, and calls of it."""
from __future__ import annotations

import ctypes
import sys
from ctypes import addressof, byref, c_char_p, c_double, c_int64, c_uint64, c_void_p
from typing import Any, Callable, Sequence

import torch
from torch import fx

from .. import Device, Error, _check, _Core, _nanoseconds, _Owner, _strings
from .. import _interrupt
from .. import _native as native
from .._builder import Builder, dtype_of, i64s
from .._native import lib, text
from ._partition import Graph, Region, is_getitem
from ._values import Step, Value, static

# Calls are made without argument types, with objects of ctypes that are made before: that takes
# half of the time. Short ones keep the interpreter's lock.
_short, _long = ctypes.PyDLL(lib._name), ctypes.CDLL(lib._name)


def _entry(library: ctypes.CDLL, name: str, result: Any = ctypes.c_int32) -> Any:
    entry = library[name]
    entry.restype = result
    return entry


_CALLS = dict(
    wrap=_entry(_short, "keel_tensor_wrap"), create=_entry(_short, "keel_tensor_create"),
    release=_entry(_short, "keel_tensor_release", None),
    read=_entry(_long, "keel_tensor_read"),
    to_dlpack=_entry(_long, "keel_tensor_to_dlpack_legacy"),
    capsule=_entry(ctypes.PyDLL(None), "PyCapsule_New", ctypes.py_object),
    destructor=ctypes.cast(lib.keel_dlpack_destroy_capsule, c_void_p),
    NAME=c_char_p(b"dltensor"), from_dlpack=torch._C._from_dlpack,
    empty=torch._C._dynamo.guards._empty_strided_cpu,  # type: ignore[attr-defined]
    memset=ctypes.memset)

_run = _entry(_long, "keel_plan_run")
_run_with = _entry(_long, "keel_plan_run_with")

# Results of fewer bytes are read into memory of torch's, which takes less time than handing
# theirs over.
SMALL = 16384
_NOTHING = ctypes.create_string_buffer(64)


class Refused(Exception):
    """Keel can't build or plan a region: because of a node, or (None) for a reason that no
    single node has."""

    def __init__(self, node: fx.Node | None, reason: str) -> None:
        super().__init__(reason)
        self.node = node


# ---- layouts


def _hint(size: Any) -> int | None:
    return size if isinstance(size, int) else size.node.hint


def _order(fake: torch.Tensor) -> list[int] | None:
    """The dimensions from the slowest to the fastest, if the elements are packed in that order;
    None: they are not packed. What has unknown sizes, or no elements, counts as packed."""
    known = [(_hint(size), _hint(stride)) for size, stride in zip(fake.shape, fake.stride())]
    pairs = [(size, stride) for size, stride in known if size is not None and stride is not None]
    if len(pairs) < len(known) or any(size == 0 for size, _ in pairs):
        return list(range(len(known)))
    order = sorted(range(len(pairs)), key=lambda i: (-pairs[i][1], pairs[i][0] != 1))
    step = 1
    for i in reversed(order):
        size, stride = pairs[i]
        if size != 1 and stride != step:
            return None
        step *= size
    return order


def layout(fake: torch.Tensor) -> list[int] | None:
    """The order of dimensions in which a tensor is packed; None: in their own, or not packed."""
    order = _order(fake)
    long = [i for i in order or () if _hint(fake.shape[i]) != 1]
    return None if long == sorted(long) else order


def _inverse(perm: Sequence[int]) -> list[int]:
    return [list(perm).index(i) for i in range(len(perm))]


# ---- building


class Construction:
    """A region's program under construction."""

    def __init__(self, core: _Core, graph: Graph, region: Region, name: str) -> None:
        self.graph, self.region = graph, region
        self.builder = Builder(core, name)
        self.made: dict[int, int] = {}  # by id of a Value
        self.constants: dict[tuple[Any, ...], int] = {}
        self.keep: list[Any] = []
        self.on_data: set[int] = set()  # ids of values that an input's elements decide

    def program(self) -> c_void_p:
        with self.builder as builder:
            for i, node in enumerate(self.region.inputs):
                self._input(i, node)
            for node in self.region.nodes:
                self._node(node)
            for i, node in enumerate(self.region.outputs):
                value = self.made[id(self.graph.value(node))]
                perm = layout(node.meta["val"])
                if perm:
                    value = builder.op("Transpose", [value], perm=perm)[0]
                builder.output(f"y{i}", value)
            return builder.finish()

    def _input(self, i: int, node: fx.Node) -> None:
        value = self.graph.value(node)
        perm = layout(value.fake) if isinstance(value.fake, torch.Tensor) else None
        dims = value.shape
        if perm:
            dims = tuple(dims[axis] for axis in perm)
        made = self.builder.input(f"x{i}", dtype_of(value.dtype), dims)
        if perm:
            made = self.builder.op("Transpose", [made], perm=_inverse(perm))[0]
        self.made[id(value)] = made
        self.on_data.add(id(value))

    def _node(self, node: fx.Node) -> None:
        if is_getitem(node):
            lowered = self.graph.lowered[node.args[0]]  # type: ignore[index]
            output = lowered.outputs[node.args[1]]  # type: ignore[index]
            if output is not None:
                self._bind(node, output)
            return
        lowered = self.graph.lowered[node]
        try:
            for step in lowered.steps:
                self._step(step)
            if not lowered.several:
                self._bind(node, lowered.outputs[0])  # type: ignore[arg-type]
        except Error as error:
            raise Refused(node, str(error)) from None

    def _bind(self, node: fx.Node, output: Value) -> None:
        value = self.graph.value(node)
        self.made[id(value)] = self._operand(output)  # type: ignore[assignment]
        if id(output) in self.on_data:
            self.on_data.add(id(value))

    def _operand(self, value: Value | None) -> int | None:
        if value is None:
            return None
        if id(value) not in self.made:
            if value.data is None:
                raise Error(3, "an operand that nothing computes")
            self.made[id(value)] = self._constant(value)
            self.keep.append(value)
        return self.made[id(value)]

    def _constant(self, value: Value) -> int:
        data = value.data
        assert data is not None
        size = data.numel() * data.element_size()
        key: tuple[Any, ...] | None = None
        if size <= 64:
            raw = data.reshape(-1).view(torch.uint8)
            key = (value.dtype, tuple(data.shape), bytes(raw.tolist()))
            if key in self.constants:
                return self.constants[key]
        made = self.builder.constant(dtype_of(value.dtype), data.shape,
                                     data.data_ptr() if size else None)
        if key is not None:
            self.constants[key] = made
        return made

    def _step(self, step: Step) -> None:
        inputs = [self._operand(value) for value in step.inputs]
        made = self.builder.op(step.op, inputs, len(step.outputs), **step.attrs)
        known = step.op in ("Shape", "Size")
        data = not known and any(id(value) in self.on_data for value in step.inputs)
        for value, number in zip(step.outputs, made):
            self.made[id(value)] = number
            if data:
                self.on_data.add(id(value))


def _planned(core: _Core, program: c_void_p, device: Device, places: dict[str, str]) -> c_void_p:
    plan = native.handle()
    rules = _strings([f"{glob}={where}" for glob, where in places.items()])
    params = native.PlanParams(struct_size=ctypes.sizeof(native.PlanParams),
                               device=device._handle, places=rules, place_count=len(places),
                               timeout=_nanoseconds(None))
    _check(lib.keel_plan_create(program, byref(params), byref(plan)))
    return plan


class Plan(_Owner):
    """A plan and its program, which makes plans for inputs of other shapes."""

    def __init__(self, core: _Core, plan: c_void_p, program: c_void_p) -> None:
        self.handle = plan.value
        self._core, self._plan, self._program = core, plan, program
        core.hold()

    def __del__(self) -> None:
        if getattr(self, "_plan", None) and not sys.is_finalizing():
            lib.keel_plan_release(self._plan)
            lib.keel_program_release(self._program)
            self._core.drop()


class Call:
    """A region's plan. `run` takes its inputs, and returns its outputs as tensors of torch."""

    def __init__(self, core: _Core, graph: Graph, region: Region, name: str, device: Device,
                 places: dict[str, str]) -> None:
        self.core, self.region = core, region
        made = Construction(core, graph, region, name)
        try:
            program = made.program()
        except Error as error:
            raise Refused(None, str(error)) from None
        try:
            plan = _planned(core, program, device, places)
        except Error as error:
            lib.keel_program_release(program)
            raise Refused(None, str(error)) from None
        self.plan = Plan(core, plan, program)
        self.ops = int(lib.keel_program_op_count(program))
        self._check(graph)
        on_data = [id(graph.value(node)) in made.on_data for node in region.outputs]
        self.run = self._generated(graph, on_data)

    def _check(self, graph: Graph) -> None:
        """Refuses what gives other sizes than torch does: a fault of a lowering."""
        port = native.Port()
        for i, node in enumerate(self.region.outputs):
            _check(lib.keel_plan_output(self.plan.handle, i, byref(port)))
            fake = node.meta["val"]
            order = layout(fake) or range(fake.dim())
            want = [static(fake.shape[axis]) for axis in order]
            if port.rank == native.RANK_UNKNOWN:
                continue
            got = [port.dims[axis] for axis in range(port.rank)]
            if len(got) != len(want) or any(
                    b is not None and a >= 0 and a != b for a, b in zip(got, want)):
                source: Any = node.args[0] if is_getitem(node) else node
                raise Refused(source, f"its lowering gives {got}, where torch has {want}")

    def _generated(self, graph: Graph, on_data: Sequence[bool]) -> Callable[..., Any]:
        """A function of Python without loops over what is known now."""
        region = self.region
        n, m = len(region.inputs), len(region.outputs)
        scope: dict[str, Any] = dict(
            _CALLS, __name__=__name__, plan=c_void_p(self.plan.handle), owner=self.plan,
            context=c_void_p(self.core.handle), pool=[], fail=_fail, fit=_fit, apart=_apart,
            nowhere=addressof(_NOTHING), run=_runner(self.core), empty_strided=torch.empty_strided)
        fills: list[str] = []
        sizes: list[int] = []  # of the arrays of dims that change
        for i, node in enumerate(region.inputs):
            fills += self._fill(graph.value(node), i, scope, sizes)
        takes: list[str] = []
        shared: list[int] = []  # outputs that may share memory with an input or one another
        shapes: list[str] = []
        for i, node in enumerate(region.outputs):
            if _is_small(node.meta["val"]):
                takes += _read(i, node.meta["val"], scope)
                continue
            takes += [f"code = to_dlpack(o{i}, 1, pointer_at)",
                      "if code: fail(code)",
                      f"y{i} = from_dlpack(capsule(pointer, NAME, destructor))"]
            if on_data[i]:
                shared.append(i)
            else:  # it may be a constant of the plan
                takes.append(f"y{i} = y{i}.clone()")
            shapes += _strided(i, node.meta["val"])
        scope["make"] = _scratch(n, m, sizes)
        slots = [f"i{i}, p{i}" for i in range(n)] + [f"o{i}" for i in range(m)]
        lines = [f"def call({', '.join(f'a{i}' for i in range(n))}):",
                 "  s = pool.pop() if pool else make()",
                 "  given, got, cell, number, number_at, real, pointer, pointer_at, dims, dims_at,"
                 f" {', '.join(slots)} = s",
                 "  try:",
                 *["    " + line for line in fills],
                 f"    code = run(plan, given, {n}, got, {m})",
                 "    if code: fail(code)",
                 "  finally:",
                 *[f"    release(i{i})" for i in range(n)],
                 f"    memset(given, 0, {8 * n})" if n > 4 else
                 "    " + ("; ".join(f"i{i}.value = None" for i in range(n)) or "pass"),
                 "  try:",
                 *["    " + line for line in takes],
                 "  finally:",
                 *[f"    release(o{i})" for i in range(m)],
                 "  pool.append(s)"]
        if shared:
            names = ", ".join(f"y{i}" for i in shared)
            tensors = " ".join(f"a{i}," for i, node in enumerate(region.inputs)
                               if isinstance(node.meta["val"], torch.Tensor))
            lines.append(f"  {names}{',' if len(shared) == 1 else ''} ="
                         f" apart([{names}], ({tensors}))")
        lines += ["  " + line for line in shapes]
        lines.append(f"  return ({' '.join(f'y{i},' for i in range(m))})")
        exec("\n".join(lines), scope)
        return scope["call"]  # type: ignore[no-any-return]

    def _fill(self, value: Value, i: int, scope: dict[str, Any], sizes: list[int]) -> list[str]:
        """The lines that make input i a tensor of Keel's."""
        kind = dtype_of(value.dtype)
        if not isinstance(value.fake, torch.Tensor):
            place = "number[0]" if value.dtype == "i64" else "real.value"
            return [f"{place} = a{i}",
                    f"code = create(context, {kind}, 0, None, number_at, p{i})",
                    "if code: fail(code)"]
        known = list(value.shape)
        scope[f"type{i}"], scope[f"shape{i}"] = value.fake.dtype, tuple(known)
        differs = f"a{i}.dim() != {len(known)}" if None in known else f"a{i}.shape != shape{i}"
        lines = [f"if a{i}.dtype is not type{i} or {differs}: a{i} = fit(a{i}, type{i}, shape{i})"]
        perm = layout(value.fake)
        if perm:
            lines.append(f"a{i} = a{i}.permute({tuple(perm)})")
        lines.append(f"if not a{i}.is_contiguous(): a{i} = a{i}.contiguous()")
        known = [known[axis] for axis in perm] if perm else known
        dims = f"dims{i}"
        if None in known:
            lines.append(f"dims[{len(sizes)}][:] = a{i}.shape")
            dims = f"dims_at[{len(sizes)}]"
            sizes.append(len(known))
        else:
            scope[f"keep{i}"] = array = i64s(known)
            scope[dims] = c_void_p(addressof(array))
        lines.append(f"cell.value = a{i}.data_ptr() or nowhere")
        lines.append(f"code = wrap(context, {kind}, {len(known)}, {dims}, cell, None, None, p{i})")
        lines.append("if code: fail(code)")
        return lines


def _runner(core: _Core) -> Callable[..., int]:
    """keel_plan_run, which Ctrl-C ends."""
    def run(plan: Any, given: Any, n: int, got: Any, m: int) -> int:
        if not _interrupt.reaches():
            return int(_run(plan, given, n, got, m))
        params = native.RunParams(struct_size=ctypes.sizeof(native.RunParams))
        return core.token.call(core.handle, params, lambda: int(
            _run_with(plan, byref(params), given, n, got, m)))
    return run


def _scratch(n: int, m: int, sizes: Sequence[int]) -> Callable[[], tuple[Any, ...]]:
    """Makes what one call at a time writes to."""
    def make() -> tuple[Any, ...]:
        given, got = (c_void_p * max(1, n))(), (c_void_p * max(1, m))()
        slots: list[c_void_p] = []
        for i in range(n):
            slots.append(c_void_p.from_buffer(given, 8 * i))
            slots.append(c_void_p(addressof(given) + 8 * i))
        slots += [c_void_p.from_buffer(got, 8 * i) for i in range(m)]
        dims = [(c_int64 * size)() for size in sizes]
        number, pointer = (c_int64 * 1)(), c_void_p()
        return (given, got, c_void_p(), number, c_void_p(addressof(number)),
                c_double.from_buffer(number), pointer, c_void_p(addressof(pointer)), dims,
                [c_void_p(addressof(d)) for d in dims], *slots)
    return make


def _is_small(fake: torch.Tensor) -> bool:
    if not all(isinstance(size, int) for size in (*fake.shape, *fake.stride())):
        return False
    return fake.numel() * fake.element_size() <= SMALL and _order(fake) is not None


def _read(i: int, fake: torch.Tensor, scope: dict[str, Any]) -> list[str]:
    """The lines that read output i into a new tensor."""
    scope[f"result{i}"] = fake.dtype
    scope[f"size{i}"] = c_uint64(fake.numel() * fake.element_size())
    return [f"y{i} = empty({tuple(fake.shape)}, {tuple(fake.stride())}, result{i})",
            f"cell.value = y{i}.data_ptr() or nowhere",
            f"code = read(o{i}, cell, size{i})",
            "if code: fail(code)"]


def _strided(i: int, fake: torch.Tensor) -> list[str]:
    """The lines that give output i the strides that torch expects."""
    perm = layout(fake)
    if perm:
        return [f"y{i} = y{i}.permute({tuple(_inverse(perm))})"]
    if _order(fake) is not None:
        return []
    strides = fake.stride()
    if any(stride == 0 for stride in strides):
        first = ", ".join(":1" if stride == 0 else ":" for stride in strides)
        return [f"y{i} = y{i}[{first}].expand(y{i}.shape)"]
    if all(isinstance(stride, int) for stride in strides):
        return [f"y{i} = empty_strided(y{i}.shape, {tuple(strides)},"
                f" dtype=y{i}.dtype).copy_(y{i})"]
    return []


def _fail(code: int) -> None:
    """Raises what libkeel says of the call that has just failed."""
    raise Error(code, text(lib.keel_message()))


def _fit(value: torch.Tensor, dtype: torch.dtype, shape: Sequence[int | None]) -> torch.Tensor:
    """An argument that is not what the graph says, as far as it can be used: some ops of torch
    give another type than their own metadata (batch norm of bf16 with weights of f32)."""
    if value.dim() != len(shape) or any(
            known is not None and known != size for known, size in zip(shape, value.shape)):
        raise RuntimeError(f"backend \"keel\": a tensor of shape {tuple(value.shape)} came where"
                           f" the graph has {tuple(shape)}; an op that torch ran before gives"
                           " another shape than its metadata says")
    return value.to(dtype)


def _apart(outputs: list[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs, where those are copied that share memory with an input or another output:
    torch may write to each."""
    if len(outputs) == 1:
        at = outputs[0].data_ptr()
        if any(t.data_ptr() <= at < t.data_ptr() + t.nbytes for t in inputs):
            return [outputs[0].clone()]
        return outputs
    ranges = [(t.data_ptr(), t.nbytes, -1) for t in inputs]
    ranges += [(t.data_ptr(), t.nbytes, i) for i, t in enumerate(outputs)]
    ranges.sort()
    end = 0
    last = -1
    for at, size, i in ranges:
        if at < end and size:
            if i >= 0:
                outputs[i] = outputs[i].clone()
            elif last >= 0:
                outputs[last] = outputs[last].clone()
                last = -1
        if at + size > end:
            end, last = at + size, i
    return outputs


__all__ = ["Call", "Refused"]
