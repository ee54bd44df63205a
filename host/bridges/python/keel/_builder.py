"""Programs made op by op, over libkeel's builder: for bridges that have a graph of their own."""
from __future__ import annotations

from ctypes import byref, c_char_p, c_float, c_int64, c_uint32, c_void_p
from types import TracebackType
from typing import Any, Sequence

from . import Error, _check, _Core, _Owner
from . import _native as native
from ._native import lib, text

_i64s: dict[int, Any] = {}


def i64s(values: Sequence[int]) -> Any:
    """An array of C; of no elements it still has an address."""
    kind = _i64s.setdefault(len(values), c_int64 * max(1, len(values)))
    return kind(*values)


def _attr(name: str, value: Any, keep: list[Any]) -> native.Attr:
    """One attribute; what it points to is added to `keep`."""
    attr = native.Attr(name=name.encode())
    if isinstance(value, (bool, int)):
        attr.kind, attr.i = native.ATTR_INT, int(value)
    elif isinstance(value, float):
        attr.kind, attr.f = native.ATTR_FLOAT, value
    elif isinstance(value, str):
        attr.kind, attr.s = native.ATTR_STRING, value.encode()
    elif isinstance(value, c_void_p):
        attr.kind, attr.tensor = native.ATTR_TENSOR, value
    elif value and isinstance(value[0], str):
        strings = (c_char_p * len(value))(*[item.encode() for item in value])
        attr.kind, attr.count, attr.strings = native.ATTR_STRINGS, len(value), strings
        keep.append(strings)
    elif any(isinstance(item, float) for item in value):
        floats = (c_float * len(value))(*value)
        attr.kind, attr.count, attr.floats = native.ATTR_FLOATS, len(value), floats
        keep.append(floats)
    else:
        ints = i64s(value)
        attr.kind, attr.count, attr.ints = native.ATTR_INTS, len(value), ints
        keep.append(ints)
    return attr


class Builder(_Owner):
    """A program under construction, for one thread. Values are numbers; None stands for an
    omitted argument. A call that fails raises keel.Error, and ends the construction."""

    def __init__(self, core: _Core, name: str) -> None:
        self._core, self._handle = core, native.handle()
        _check(lib.keel_builder_create(core.handle, name.encode(), byref(self._handle)))
        core.hold()

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._handle:
            lib.keel_builder_destroy(self._handle)
            self._handle = c_void_p()
            self._core.drop()

    def _made(self, value: int) -> int:
        if value == native.ABSENT:
            # a builder that has failed returns its first failure, and nothing else
            _check(lib.keel_builder_finish(self._handle, byref(native.handle())))
        return value

    def input(self, name: str, dtype: int, dims: Sequence[int | None]) -> int:
        """An input; a dimension of None stays open until the program runs."""
        sizes = i64s([-1 if size is None else size for size in dims])
        return self._made(lib.keel_builder_input(self._handle, name.encode(), dtype, len(dims),
                                                 sizes))

    def constant(self, dtype: int, dims: Sequence[int], address: int | None) -> int:
        """A constant of packed host memory, which is copied; None: zeros."""
        tensor = native.handle()
        _check(lib.keel_tensor_create(self._core.handle, dtype, len(dims), i64s(dims), address,
                                      byref(tensor)))
        try:
            return self._made(lib.keel_builder_constant(self._handle, tensor))
        finally:
            lib.keel_tensor_release(tensor)

    def op(self, op: str, inputs: Sequence[int | None], outputs: int = 1,
           **attrs: Any) -> list[int]:
        """An op, "Relu" or "keel::Normal", with its attributes; its outputs."""
        keep: list[Any] = []
        structs = (native.Attr * max(1, len(attrs)))(
            *[_attr(name, value, keep) for name, value in attrs.items()])
        values = (c_uint32 * max(1, len(inputs)))(
            *[native.ABSENT if value is None else value for value in inputs])
        made = (c_uint32 * outputs)()
        _check(lib.keel_builder_op_n(self._handle, op.encode(), structs, len(attrs), values,
                                     len(inputs), made, outputs))
        return list(made)

    def output(self, name: str, value: int) -> None:
        _check(lib.keel_builder_output(self._handle, name.encode(), value))

    def finish(self) -> c_void_p:
        """The program, which the caller releases (keel_program_release)."""
        program = native.handle()
        _check(lib.keel_builder_finish(self._handle, byref(program)))
        return program


def dtype_of(name: str) -> int:
    """The number of an element type, "f32"."""
    return int(lib.keel_dtype_of(name.encode()))


def dtype_name(number: int) -> str:
    return text(lib.keel_dtype_name(number))


__all__ = ["Builder", "Error", "dtype_name", "dtype_of", "i64s"]
