"""What a node of FX becomes: steps over values, from which programs are built later."""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence, TypeVar

import torch

TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.bool: "bool",
}
TORCH_TYPES = {name: dtype for dtype, name in TYPES.items()}
FLOATS = ("f32", "f64", "f16", "bf16")
HALVES = ("f16", "bf16")


class Unsupported(Exception):
    """Why a node is left to torch."""


class Value:
    """A value: what a step makes, a node of FX, or a constant."""
    __slots__ = ("dtype", "step", "index", "fake", "data", "number")

    def __init__(self, dtype: str, step: Step | None = None, index: int = 0, fake: Any = None,
                 data: torch.Tensor | None = None, number: Any = None) -> None:
        self.dtype, self.step, self.index = dtype, step, index
        self.fake = fake  # the fake tensor or symbolic number, of a node of FX
        self.data = data  # the elements, of a constant
        self.number = number  # the Python number that it is made of

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Of a node of FX or a constant: sizes, None where it is known at the run only."""
        if self.data is not None:
            return tuple(self.data.shape)
        if not isinstance(self.fake, torch.Tensor):
            return ()
        return tuple(static(size) for size in self.fake.shape)


class Step:
    """An op of Keel, with its inputs and attributes."""
    __slots__ = ("op", "inputs", "attrs", "outputs")

    def __init__(self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any],
                 dtypes: Sequence[str]) -> None:
        self.op, self.inputs, self.attrs = op, inputs, attrs
        self.outputs = [Value(dtype, self, i) for i, dtype in enumerate(dtypes)]


def static(size: Any) -> int | None:
    """A size; None: it is symbolic."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else None


Size = Any  # an int, or a Value: a scalar of i64


class Lowering:
    """The scope of one node: what its lowering calls. Steps are collected in `steps`.

    In a wide scope halves are f32: operands are widened before, results rounded after. So numbers
    and counts beside them are of f32, as they are in eager torch, and what a lowering makes of
    several steps is rounded once."""

    def __init__(self, out: Any, users: Callable[[int], bool], wide: bool = False) -> None:
        self.out = out  # the node's fake value, or a tuple of them
        self.used = users  # whether output i of several is used
        self.steps: list[Step] = []
        self.wide = wide
        self.widened: dict[int, Value] = {}  # by id of the f32 value: the half

    # ---- types

    def _inner(self, dtype: torch.dtype) -> str:
        """The type in which this scope has what torch has in `dtype`."""
        name = type_of(dtype)
        return "f32" if self.wide and name in HALVES else name

    @property
    def out_type(self) -> str:
        return self._inner(self.out.dtype)

    def type_at(self, index: int) -> str:
        return self._inner(self.out[index].dtype)

    def widen(self, operand: Any) -> Any:
        """An argument of the node as a wide scope has it."""
        if isinstance(operand, list):
            return [self.widen(item) for item in operand]
        if not isinstance(operand, Value) or operand.dtype not in HALVES:
            return operand
        made = self.cast(operand, "f32")
        made.fake = operand.fake
        self.widened[id(made)] = operand
        return made

    def narrow(self, output: Value, dtype: str) -> Value:
        """The only result of a wide scope as a half. An op by itself, of halves alone, computes
        and rounds in the same way without casts."""
        own = [step for step in self.steps if id(step.outputs[0]) not in self.widened]
        if len(own) == 1 and own[0] is output.step and len(own[0].outputs) == 1:
            inputs = [self._half(value, dtype) for value in own[0].inputs]
            if all(half is not None or value is None
                   for half, value in zip(inputs, own[0].inputs)):
                self.steps = []
                return self.op(own[0].op, *inputs, dtype=dtype, **own[0].attrs)
        return self.cast(output, dtype)

    def _half(self, value: Value | None, dtype: str) -> Value | None:
        """An operand as it is without a wide scope; None: it can't be."""
        if value is None or value.dtype != "f32":
            return value
        if id(value) in self.widened:
            half = self.widened[id(value)]
            return half if half.dtype == dtype else None
        if value.data is None:
            return None
        data = value.data.to(TORCH_TYPES[dtype])
        return Value(dtype, data=data) if torch.equal(data.float(), value.data) else None

    def common(self, *operands: Any) -> str:
        """The type in which torch computes with these, its rules of promotion applied."""
        values = [operand.fake if isinstance(operand, Value) and operand.fake is not None
                  else operand.number if isinstance(operand, Value) else operand
                  for operand in operands]
        result = values[0]
        if len(values) == 1:
            return self._inner(result.dtype)
        return self._inner(torch.result_type(*values))

    # ---- steps

    def op(self, name: str, *inputs: Value | None, dtype: str | None = None,
           **attrs: Any) -> Value:
        """An op with one output, of the first input's type unless `dtype` says another."""
        return self.ops(name, *inputs, dtypes=[dtype or inputs[0].dtype],  # type: ignore
                        **attrs)[0]

    def ops(self, name: str, *inputs: Value | None, dtypes: Sequence[str],
            **attrs: Any) -> list[Value]:
        kept = {key: value for key, value in attrs.items() if value is not None}
        step = Step(name, inputs, kept, dtypes)
        self.steps.append(step)
        return step.outputs

    def const(self, data: Any, dtype: str) -> Value:
        """A constant of a number or (nested) list of numbers."""
        if not isinstance(data, torch.Tensor):
            data = torch.tensor(data, dtype=TORCH_TYPES[dtype], device="cpu")
        return Value(dtype, data=data.contiguous())

    def constant(self, number: Any, dtype: str) -> Value:
        """A number of the caller's as a value. What the type does not hold is left to torch, which
        wraps it, or refuses it, op by op."""
        if not holds(dtype, number):
            raise Unsupported(f"{number} as {dtype}")
        return self.const(number, dtype)

    def cast(self, value: Value, dtype: str) -> Value:
        if value.dtype == dtype:
            return value
        return self.op("Cast", value, dtype=dtype, to=onnx_type(dtype))

    def to(self, operand: Any, dtype: str) -> Value:
        """An operand, which may be a number, as a value of a type."""
        if isinstance(operand, Value):
            return self.cast(operand, dtype)
        return self.constant(operand, dtype)

    def rounded(self, operand: Any) -> Value:
        """A first operand in the result's type. Where it is a tensor of no dimension beside
        halves, eager torch makes it a half; of a second one it keeps the digits."""
        half = type_of(self.out.dtype)
        if self.wide and half in HALVES and isinstance(operand, Value) and not operand.rank \
                and id(operand) not in self.widened:
            operand = self.cast(operand, half)
        return self.to(operand, self.out_type)

    def attribute(self, number: Any) -> float:
        """A number as an attribute, which is of f32."""
        own = type_of(self.out.dtype)
        if not holds("f32" if own == "f64" else own, number):
            raise Unsupported(f"{number} as {own}")
        if own == "f64" and float(torch.tensor(number, dtype=torch.float32)) != number:
            raise Unsupported(f"{number} as an attribute, which is of f32")
        return float(number)

    # ---- sizes

    def ints(self, values: Sequence[int]) -> Value:
        return self.const(list(values), "i64") if values else self.const(
            torch.zeros(0, dtype=torch.int64), "i64")

    def size(self, value: Value, axis: int) -> Size:
        """Of a node's value: an int where it is known."""
        known = value.shape[axis]
        if known is not None:
            return known
        shape = self.op("Shape", value, dtype="i64")
        axis = axis % value.rank
        return self.op("Gather", shape, self.const(axis, "i64"), axis=0)

    def sizes(self, value: Value) -> list[Size]:
        return [self.size(value, axis) for axis in range(value.rank)]

    def times(self, sizes: Sequence[Size]) -> Size:
        number, product = 1, None
        for size in sizes:
            if isinstance(size, int):
                number *= size
            else:
                product = size if product is None else self.op("Mul", product, size)
        if product is None:
            return number
        return product if number == 1 else self.op("Mul", product, self.const(number, "i64"))

    def dims(self, sizes: Sequence[Size]) -> Value:
        """Sizes as one vector."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints(sizes)
        parts: list[Value] = []
        known: list[int] = []
        for size in sizes:
            if isinstance(size, int):
                known.append(size)
                continue
            if known:
                parts.append(self.ints(known))
                known = []
            parts.append(self.op("Reshape", self.cast(size, "i64"), self.ints([1])))
        if known:
            parts.append(self.ints(known))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def number(self, size: Size, dtype: str) -> Value:
        return self.to(size, dtype)

    # ---- shapes

    def reshape(self, value: Value, sizes: Sequence[Size]) -> Value:
        """A size may be -1, once."""
        unknown = [i for i, size in enumerate(sizes) if not isinstance(size, int)]
        if len(unknown) == 1 and -1 not in [s for s in sizes if isinstance(s, int)] \
                and 0 not in [s for s in sizes if isinstance(s, int)]:
            sizes = [-1 if i == unknown[0] else size for i, size in enumerate(sizes)]
        zero = any(isinstance(size, int) and size == 0 for size in sizes)
        return self.op("Reshape", value, self.dims(sizes), allowzero=1 if zero else None)

    def expand(self, value: Value, sizes: Sequence[Size]) -> Value:
        return self.op("Expand", value, self.dims(sizes))

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        return self.op("Unsqueeze", value, self.ints(axes))

    def squeeze(self, value: Value, *axes: int) -> Value:
        return self.op("Squeeze", value, self.ints(axes))

    def permute(self, value: Value, perm: Sequence[int]) -> Value:
        return self.op("Transpose", value, perm=list(perm))

    def slice(self, value: Value, axis: int, start: Size, end: Size, step: int = 1) -> Value:
        return self.op("Slice", value, self.dims([start]), self.dims([end]), self.ints([axis]),
                       self.ints([step]) if step != 1 else None)

    def reduce(self, op: str, value: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """Over no axes it is the value itself."""
        if not axes:
            return value
        return self.op(op, value, self.ints(axes), keepdims=int(keep))

    def full(self, sizes: Sequence[Size], number: Any, dtype: str) -> Value:
        """All elements the same: an Expand of one, which no program holds at its whole size."""
        scalar = self.to(number, dtype)
        return self.expand(scalar, sizes) if sizes else scalar


def range_of(dtype: str) -> tuple[int, int]:
    """The least and the most of an integer type."""
    limits = torch.iinfo(TORCH_TYPES[dtype])
    return limits.min, limits.max


def holds(dtype: str, number: Any) -> bool:
    """Whether a number lies in a type's range; infinities do in those of floats."""
    if dtype == "bool" or isinstance(number, bool):
        return True
    if dtype in FLOATS:
        return not math.isfinite(number) or abs(number) <= torch.finfo(TORCH_TYPES[dtype]).max
    least, most = range_of(dtype)
    return least <= number <= most


def only_fits(value: Any, t: str) -> None:
    """Refuses a value that is computed where it may lie beyond a type: torch raises then."""
    if isinstance(value, Value) and value.dtype not in (t, "bool") and t != "f64" \
            and (t != "f32" or value.dtype == "f64"):
        raise Unsupported(f"a number of {value.dtype} as {t}")


def type_of(dtype: torch.dtype) -> str:
    if dtype not in TYPES:
        raise Unsupported(f"elements of {dtype}")
    return TYPES[dtype]


_ONNX = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9,
         "f16": 10, "f64": 11, "u32": 12, "u64": 13, "bf16": 16}


def onnx_type(dtype: str) -> int:
    """ONNX's number of a type, in attributes."""
    return _ONNX[dtype]


Function = TypeVar("Function", bound=Callable[..., Any])
TABLE: dict[str, Callable[..., Any]] = {}
WIDE: set[str] = set()  # what is lowered in a wide scope


def lower(*targets: str, wide: bool = False) -> Callable[[Function], Function]:
    """Registers the lowering of overloads ("add.Tensor": aten's). wide: halves are computed in
    f32, with numbers and counts of f32 (Lowering)."""
    def register(function: Function) -> Function:
        for target in targets:
            name = target if target.startswith("prims.") else "aten." + target
            TABLE[name] = function
            if wide:
                WIDE.add(name)
        return function
    return register


def axes_of(dims: Any, rank: int) -> list[int]:
    """A dim, a list of dims or None (all), as sorted axes."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(rank))
    given = [dims] if isinstance(dims, int) else dims
    return sorted({dim % rank for dim in given}) if rank else []
