"""Keel: runs models on devices that plugins provide.

    import keel
    model = keel.load("model.onnx", device="cpu:0")
    outputs = model.run(x)

See README.md of this package, and docs/using.md of Keel.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from ctypes import (addressof, byref, c_char, c_char_p, c_int64, c_uint32, c_void_p, cast,
                    create_string_buffer, sizeof)
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence

from . import _calls, _dlpack, _interrupt
from . import _native as native
from ._native import lib, text

__version__ = "0.1.0"
__all__ = ["Context", "Device", "Error", "Model", "Plugin", "Port", "Tensor", "device",
           "devices", "load", "open", "plugins", "trace"]


class Error(RuntimeError):
    """A call of libkeel failed: what, where, why, and what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = text(lib.keel_status_name(code))

    def __reduce__(self) -> tuple[Any, ...]:
        return Error, (self.code, str(self))


def _check(code: int) -> None:
    if code != native.OK:
        raise Error(code, text(lib.keel_message()))


def _strings(words: Sequence[str]) -> Any:
    return (c_char_p * max(1, len(words)))(*[word.encode() for word in words])


def _dims_text(dims: Sequence[Any]) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


@dataclass(frozen=True)
class Plugin:
    """A candidate: loaded where `status` is "OK"; else `reason` says why not."""
    path: str
    source: str
    name: str
    vendor: str
    version: str
    abi: tuple[int, int]
    device_count: int
    status: str
    reason: str
    hint: str


@dataclass(frozen=True)
class Port:
    """An input or output of a model. A dimension is a size, a name, or None: open."""
    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None
    kind: str = "tensor"  # or "sequence", "optional", "resource"

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind}"
        shape = "" if self.dims is None else _dims_text(self.dims)
        return f"{self.name}: {self.dtype}{shape}"


class _Owner:
    """What has a handle of libkeel, which only one object may release. So copy.copy gives the same
    object; deepcopy and pickle are refused."""

    __slots__ = ()
    _instead = "make another one in its place"

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError(f"{self!r} can't be copied deeply: {self._instead}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{self!r} can't be pickled: {self._instead}")


class _Core(_calls.Core, _Owner):
    """A libkeel context, which closes when the last of those that use it is gone: the Context,
    models, tensors. They may go in any order: the collector of cycles keeps none."""

    waiting: list[_Core] = []  # closed by nobody yet: another library has a tensor of theirs

    def __init__(self, handle: int, narrow: bool) -> None:
        super().__init__(handle)
        self._narrow = narrow  # it has opened no other drivers than the CPU's
        self._lock = threading.RLock()
        self.token = _interrupt.Token()

    @property
    def handle(self) -> int:
        if not self.context:
            raise ValueError("the context is closed")
        return self.context

    def widen(self) -> bool:
        """Opens the drivers that were left out. False: there are none."""
        with self._lock:
            if not self._narrow:
                return False
            _check(lib.keel_show(self.handle, None))
            self._narrow = False
        return True

    def may_help(self, error: Error) -> bool:
        """Whether a device that has just been added may have what the CPU has not."""
        return error.code == native.UNIMPLEMENTED and self.widen()

    def __enter__(self) -> int:
        """The handle, which another thread can't close before the block ends."""
        with self._lock:
            handle = self.handle
            self.hold()
        return handle

    def __exit__(self, *failure: object) -> None:
        self.drop()

    def _last(self) -> None:
        if not sys.is_finalizing() and self.left():
            _Core.waiting.append(self)

    def left(self, users: int = 0) -> str:
        """Closes it, where no more than so many users have it. Returns why it is still open, or
        nothing."""
        with self._lock:
            if not self.context:
                return ""
            if self.users > users:
                return "models or tensors of the context are left, or calls of it"
            if lib.keel_dlpack_count(self.context):  # tensors that another library has
                return "arrays that share memory of the context are left"
            handle = self.taken()
        self.token.release()
        lib.keel_close(handle)
        return ""


class Device(_Owner):
    """A device of a context."""

    _instead = "give its name"

    def __init__(self, core: _Core, handle: int) -> None:
        self._core, self._handle = core, handle
        facts = native.DeviceFacts()
        lib.keel_device_describe(handle, byref(facts))
        self.name = text(facts.name)
        self.product = text(facts.product)
        self.kind = text(facts.kind)
        self.driver = text(facts.driver)
        self.plugin = text(facts.plugin)
        self.level = int(facts.level)
        self.kernel_count = int(facts.kernel_count)

    def memory(self) -> dict[str, int]:
        """Bytes: total, available, used (by this process); 0: not known."""
        facts = native.MemoryFacts()
        with self._core:
            _check(lib.keel_device_memory(self._handle, byref(facts)))
        return {"total": facts.total, "available": facts.available, "used": facts.used}

    def properties(self) -> dict[str, int | float | str]:
        """All that the device says of itself; units are in `keel devices --properties`."""
        found: dict[str, int | float | str] = {}
        one = native.Property()
        with self._core:
            while lib.keel_device_property(self._handle, len(found), byref(one)) == native.OK:
                value = {1: one.integer, 2: one.real}.get(one.type, text(one.text))
                found[text(one.name)] = value
        return found

    def __repr__(self) -> str:
        return f"<keel.Device {self.name}: {self.product}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other._handle == self._handle

    def __hash__(self) -> int:
        return hash(self._handle)


class Tensor(_calls.Value, _Owner):
    """A value: immutable data on a device or in host memory, or a sequence of values."""

    __slots__ = ("__weakref__",)
    _instead = "give its numpy(), or to(device)"

    @property
    def dtype(self) -> str:
        """"f32", "i64" ...; "none" for a sequence."""
        return text(lib.keel_dtype_name(lib.keel_tensor_dtype(self._handle)))

    @property
    def shape(self) -> tuple[int, ...]:
        dims = lib.keel_tensor_dims(self._handle)
        return tuple(dims[:lib.keel_tensor_rank(self._handle)])

    @property
    def device(self) -> Device | None:
        """Where the data is; None: in host memory."""
        found = lib.keel_tensor_device(self._handle)
        return Device(self._core, found) if found else None

    def to(self, device: Device | str | None) -> Tensor:
        """The same data on a device, or (None) in host memory."""
        out = native.handle()
        where = None if device is None else _device_of(self._core, device)._handle
        _check(lib.keel_tensor_to(self._handle, where, byref(out)))
        return _owned(self._core, out)

    def numpy(self) -> Any:
        """A NumPy array, read-only where it shares the memory."""
        import numpy
        if _calls.fast:
            try:
                return numpy.asarray(memoryview(self))  # type: ignore[arg-type]
            except BufferError:  # NumPy has the type from others, or the memory is a device's
                pass
        number = lib.keel_tensor_dtype(self._handle)
        kind = _kinds.get(number)
        if kind is None:
            kind = _kinds[number] = self._kind()
        shape = self.shape
        address = lib.keel_tensor_data(self._handle)
        if address and 0 not in shape:
            raw = numpy.asarray(_Memory(self, address, kind.itemsize, shape))
            return raw.view(kind)
        array = numpy.empty(shape, kind)
        _check(lib.keel_tensor_read(self._handle, array.ctypes.data, array.nbytes))
        return array

    def _kind(self) -> Any:
        """NumPy's type of the elements."""
        import numpy
        name = _NUMPY.get(self.dtype)
        if name is not None:
            return numpy.dtype(name)
        try:
            types = importlib.import_module("ml_dtypes")
            return numpy.dtype(getattr(types, _ML_DTYPES[self.dtype]))
        except (ImportError, KeyError):
            raise TypeError(f"NumPy has no type for {self!r}; ml_dtypes, if it is installed,"
                            " has some") from None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # host memory: what the host can't address is copied there

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if dl_device not in (None, (1, 0)):
            raise BufferError(f"{self!r} is given in host memory, not on {dl_device}")
        versioned = bool(max_version and max_version[0] >= 1)
        # the older struct can't say that memory is read-only
        flags = native.COPY if copy or (not versioned and copy is None) else \
            0 if copy is False else native.MAY_COPY
        function = lib.keel_tensor_to_dlpack if versioned else lib.keel_tensor_to_dlpack_legacy
        out = native.handle()
        code = function(self._handle, flags, byref(out))
        if code != native.OK and copy is False:
            raise BufferError(text(lib.keel_message()))
        _check(code)
        return _dlpack.capsule_of(int(out.value or 0), versioned)

    def __len__(self) -> int:
        length = lib.keel_sequence_length(self._handle)
        if length >= 0:
            return int(length)
        if not self.shape:
            raise TypeError("len() of a scalar")
        return self.shape[0]

    def __getitem__(self, index: int) -> Tensor:
        """Item `index` of a sequence; of a tensor's elements use numpy()."""
        if lib.keel_sequence_length(self._handle) < 0:
            raise TypeError(f"{self!r} is not a sequence; numpy() gives its elements")
        out = native.handle()
        if lib.keel_sequence_at(self._handle, index, byref(out)) != native.OK:
            raise IndexError(text(lib.keel_message()))
        return _owned(self._core, out)

    def __repr__(self) -> str:
        room = create_string_buffer(256)
        where = self.device
        return (f"<keel.Tensor {text(lib.keel_tensor_text(self._handle, room, 256))}"
                f"{' on ' + where.name if where else ''}>")


class _Memory:
    """A tensor's memory for NumPy, whose array keeps this object and so the tensor. Its elements are
    given as bytes without a type, so that those of ml_dtypes can be seen as such."""

    def __init__(self, tensor: Tensor, address: int, size: int, shape: tuple[int, ...]) -> None:
        self._tensor = tensor
        self.__array_interface__ = {"version": 3, "typestr": f"|V{size}", "shape": shape,
                                    "data": (address, True)}


_kinds: dict[int, Any] = {}  # NumPy's, by kd_dtype
_NUMPY = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "i16": "i2", "i32": "i4",
          "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "bool": "?",
          "c64": "c8", "c128": "c16"}
_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz",
              "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz",
              "f8e8m0": "float8_e8m0fnu"}


class Model(_Owner):
    """A model that is planned for a device. Any number of threads may run it at once."""

    _instead = "load the model again; any number of threads may run one"

    def __init__(self, core: _Core, program: c_void_p, plan: c_void_p,
                 load: Callable[[c_void_p], Model] | None = None) -> None:
        # the program makes plans for inputs of other shapes than it declares
        self._core, self._program, self._plan, self._load = core, program, plan, load
        core.hold()
        self._arrays: Any = None  # the types of the arguments' and results' arrays
        self.inputs = self._ports(plan, lib.keel_plan_input_count, lib.keel_plan_input)
        self.outputs = self._ports(plan, lib.keel_plan_output_count, lib.keel_plan_output)
        self.initializers = self._ports(program, lib.keel_program_initializer_count,
                                        lib.keel_program_initializer)
        self._names = [port.name for port in self.inputs]
        self._named = set(self._names)
        self._others: dict[tuple[str, ...], Model] = {}
        self._fast: Any = None  # runs of tensors and arrays in C
        if _calls.fast and all(p.kind == "tensor" for p in (*self.inputs, *self.outputs)):
            self._fast = _calls.fast.Call(core, plan.value, len(self.inputs), len(self.outputs),
                                          Tensor)

    def _ports(self, handle: c_void_p, count: Any, at: Any) -> list[Port]:
        found = []
        port = native.Port()
        for i in range(count(handle)):
            _check(at(handle, i, byref(port)))
            dims: tuple[int | str | None, ...] | None = None
            if port.rank != native.RANK_UNKNOWN:
                names = [text(port.symbols[d]) if port.symbols else "" for d in range(port.rank)]
                dims = tuple(port.dims[d] if port.dims[d] >= 0 else names[d] or None
                             for d in range(port.rank))
            kind = ("resource" if port.flags & 4 else "optional" if port.flags & 2 else
                    "sequence" if port.flags & 1 else "tensor")
            found.append(Port(text(port.name), text(lib.keel_dtype_name(port.dtype)), dims, kind))
        return found

    def __del__(self) -> None:
        if getattr(self, "_plan", None):
            lib.keel_plan_release(self._plan)
            lib.keel_program_release(self._program)
            self._core.drop()

    def _with_inputs(self, names: tuple[str, ...]) -> Model:
        """The model in which these initializers are inputs; it is planned once."""
        if names not in self._others:
            program = native.handle()
            listed = (c_char_p * len(names))(*[name.encode() for name in names])
            _check(lib.keel_program_override(self._program, listed, len(names), byref(program)))
            assert self._load
            self._others[names] = self._load(program)
        return self._others[names]

    def _replaced(self, named: Mapping[str, Any]) -> tuple[str, ...]:
        """The initializers that a call gives a value for."""
        initial = {port.name for port in self.initializers}
        return tuple(sorted(initial.intersection(named)))

    def _in_order(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        names = self._names
        if not named and len(given) == len(names):
            return given
        if not given and named.keys() == self._named:
            return tuple([named[name] for name in names])
        unknown = [name for name in named if name not in names]
        if len(given) > len(names) or unknown:
            raise TypeError(
                (f"the model has no input {unknown[0]!r}" if unknown else
                 f"the model takes {len(names)} inputs, not {len(given)}")
                + f"; its inputs are {', '.join(map(str, self.inputs))}"
                + (f", and initial values that may be replaced "
                   f"{', '.join(map(str, self.initializers))}" if self.initializers else ""))
        values = list(given)
        for port in self.inputs[len(given):]:
            if port.name not in named:
                raise TypeError(f"input {port} is missing")
            values.append(named[port.name])
        twice = [name for name in names[:len(given)] if name in named]
        if twice:
            raise TypeError(f"input {twice[0]!r} is given twice")
        return tuple(values)

    def _donated(self, names: Sequence[str], values: Sequence[Any]) -> list[int]:
        """The indices of the inputs that are donated."""
        if isinstance(names, str):
            names = [names]
        known = [port.name for port in self.inputs]
        for name in names:
            if name not in known:
                raise TypeError(f"donate: the model has no input {name!r}; its inputs are "
                                + ", ".join(map(str, self.inputs)))
            value = values[known.index(name)]
            if not isinstance(value, Tensor):
                raise TypeError(f"donate: input {name!r} is not a keel.Tensor, but of type "
                                f"{type(value).__name__}, whose memory is not Keel's: make one "
                                "by Context.tensor, or leave the name out")
            if sum(one is value for one in values) > 1 or list(names).count(name) > 1:
                raise ValueError(f"donate: input {name!r} is given twice")
        return [known.index(name) for name in names]

    def _memory_of(self, into: Mapping[str, Any]) -> dict[int, memoryview]:
        """The memory of the arrays that outputs are to be in, by index."""
        names, found = [port.name for port in self.outputs], {}
        for name, array in into.items():
            if name not in names:
                raise TypeError(f"into: the model has no output {name!r}; its outputs are "
                                + ", ".join(map(str, self.outputs)))
            index = names.index(name)
            found[index] = _memory_for(self.outputs[index], array)
        return found

    def run(self, *inputs: Any, timeout: float | None = None, donate: Sequence[str] = (),
            wait: bool = True, into: Mapping[str, Any] | None = None, **named: Any) -> list[Any]:
        """Runs it, and returns its outputs in order, as Tensors.

        inputs   what has __dlpack__ in host memory (NumPy, PyTorch ...), Tensors, or nested
                 lists of numbers; for a sequence a list of these, for an optional None or
                 one; in the model's order, or by name
        timeout  seconds; then KD_DEADLINE_EXCEEDED
        donate   names of inputs, each a Tensor that is used up, whether the run fails or not:
                 outputs may take its memory. No other thread may use it meanwhile
        wait     False: returns when the device has been given the work, whose failure is then
                 raised where an output is read or goes into a run that waits
        into     arrays that outputs are written to, by name, and returned in their place:
                 writable, contiguous, of the output's type and shape, or of bytes (uint8) for
                 any type. One of another shape is refused before the run where the model says
                 the size, otherwise after it

        An initializer (Model.initializers) that is given by name replaces the model's own
        value; each set of them is planned once.
        """
        replaced = self._replaced(named) if self.initializers and named else ()
        if replaced and self._load:
            initial = {name: named[name] for name in replaced}
            rest = {name: value for name, value in named.items() if name not in initial}
            known = dict(zip((port.name for port in self.inputs), self._in_order(inputs, rest)))
            return self._with_inputs(replaced).run(timeout=timeout, donate=donate, wait=wait,
                                                   into=into, **known, **initial)
        memory = self._memory_of(into) if into else {}
        values = self._in_order(inputs, named)
        flags, limit = 0 if wait else native.RUN_ENQUEUES, _nanoseconds(timeout)
        core = self._core
        if self._fast and not donate and not memory:
            ran = self._fast.run(values, flags, limit)
            if isinstance(ran, list):
                return ran
            if ran is not None:
                error = Error(ran[0], text(ran[1]))
                if not core.may_help(error):
                    raise error
        own = [_value(core, value, port) for value, port in zip(values, self.inputs)]
        n, m = len(own), len(self.outputs)
        if self._arrays is None:
            self._arrays = c_void_p * max(1, n), c_void_p * max(1, m)
        arguments = self._arrays[0](*[t._handle for t in own])
        results = self._arrays[1]()
        params = native.RunParams(native.RUN_PARAMS_SIZE, flags, None, limit)
        context = core.handle
        donated = self._donated(donate, values) if donate else []
        if donated:
            params.donated = (c_uint32 * len(donated))(*donated)
            params.donated_count = len(donated)
        if memory:
            pieces = (native.OutputMemory * m)()
            for i, view in memory.items():
                if view.nbytes:
                    pieces[i].data = addressof(c_char.from_buffer(view.cast("B")))
                    pieces[i].size = view.nbytes
            params.into = cast(pieces, c_void_p)
            params.into_count = m
        for i in donated:
            own[i]._give_away()
        outputs: list[Tensor] = []

        def run() -> int:
            return int(lib.keel_plan_run_with(self._plan, byref(params), arguments, n, results, m))

        def call() -> None:
            code = core.token.call(context, params, run)
            if code != native.OK:
                _check(code)
        try:
            try:
                call()
            except Error as error:
                if donated or not core.may_help(error):
                    raise
                call()
            outputs += [Tensor(core, results[i]) for i in range(m)]
        except KeyboardInterrupt:
            for i in range(len(outputs), m):  # it may come when the run has ended
                lib.keel_tensor_release(results[i])
            raise
        shared: list[tuple[int, int]] = []
        for value, tensor, port in zip(values, own, self.inputs):
            if not isinstance(value, Tensor):
                _ranges(tensor, shared, port)
        for i, view in memory.items():
            shape = outputs[i].shape
            if not _is_raw(self.outputs[i], view) and shape != view.shape:
                raise ValueError(f"into: output {self.outputs[i].name!r} came as {list(shape)}, "
                                 f"and the array is {list(view.shape or ())}")
        return [into[port.name] if into and i in memory else _apart(t, shared, port)
                for i, (t, port) in enumerate(zip(outputs, self.outputs))]

    def prepare(self, sizes: Mapping[str, Sequence[int | None]]) -> None:
        """Plans these sizes of inputs now, so that a run with them need not, and keeps that plan.

        sizes  by name, {"x": (1, 128)}; None: as the model has it. Dimensions of one name are
               given once; inputs without open dimensions need not be given
        """
        names = [port.name for port in self.inputs]
        given = (native.InputSizes * max(1, len(sizes)))()
        for one, (name, dims) in zip(given, sizes.items()):
            if name not in names:
                raise TypeError(f"the model has no input {name!r}; its inputs are "
                                + ", ".join(map(str, self.inputs)))
            one.input, one.rank = names.index(name), len(dims)
            one.dims = (c_int64 * max(1, len(dims)))(*[-1 if d is None else d for d in dims])
        _check(lib.keel_plan_prepare(self._plan, given, len(sizes)))

    def versions(self) -> dict[str, int]:
        """How many plans for single sizes there are (kept), of these prepared (pinned), made and
        evicted so far; how many runs found one (hits) and did not (misses); and the nanoseconds
        in which they were made (time)."""
        counts = native.VersionCounts()
        lib.keel_plan_versions(self._plan, byref(counts))
        return {name: int(getattr(counts, name)) for name, *_ in counts._fields_}

    def batch_objection(self) -> str:
        """Why the rows of its inputs, along their open first dimension, may not be treated apart; ""
        if they are: then requests may be joined to one batch, and its outputs cut again."""
        code = lib.keel_program_batch(self._program)
        if code not in (native.OK, native.FAILED_PRECONDITION):
            _check(code)
        return "" if code == native.OK else text(lib.keel_message())

    def footprint(self) -> dict[str, dict[str, int]]:
        """The bytes that the model holds, by device and in "host" memory: constants, those that are
        read in its file (mapped), those of which kernels have a form of their own (taken), the memory
        of recordings (recorded), and that which each run takes from the pool (values)."""
        found: dict[str, dict[str, int]] = {}
        one = native.Footprint()
        while lib.keel_plan_footprint(self._plan, len(found), byref(one)) == native.OK:
            found[text(one.device)] = {name: int(getattr(one, name))
                                       for name, *_ in one._fields_[1:]}
        return found

    def __repr__(self) -> str:
        return (f"<keel.Model ({', '.join(map(str, self.inputs))}) ->"
                f" ({', '.join(map(str, self.outputs))})>")


class Context(_Owner):
    """A runtime: plugins, devices, a thread pool. See `open`."""

    _instead = "open another one"

    def __init__(self, handle: int, narrow: bool = False) -> None:
        self._core = _Core(handle, narrow)

    def __del__(self) -> None:
        if getattr(self, "_core", None):
            self._core.drop()

    @property
    def _handle(self) -> int:
        return self._core.handle

    def trim(self) -> None:
        """Gives back memory that is kept for reuse, as after a large model is gone."""
        with self._core as handle:
            lib.keel_trim(handle)

    def plugins(self) -> list[Plugin]:
        """Every candidate, loaded or refused, in the order in which they were found."""
        found = []
        info = native.PluginInfo()
        self._core.widen()
        with self._core as handle:
            for i in range(lib.keel_plugin_count(handle)):
                _check(lib.keel_plugin_at(handle, i, byref(info)))
                found.append(Plugin(
                    text(info.path), text(info.source), text(info.name), text(info.vendor),
                    text(info.version), (info.abi_version >> 16, info.abi_version & 0xffff),
                    info.device_count, text(lib.keel_status_name(info.status)),
                    text(info.reason), text(info.hint)))
        return found

    def devices(self) -> list[Device]:
        self._core.widen()
        with self._core as handle:
            return [Device(self._core, lib.keel_device_at(handle, i))
                    for i in range(lib.keel_device_count(handle))]

    def device(self, name: Device | str | None = None) -> Device:
        """A device by name ("cpu:0", "cpu"), or the default one."""
        return _device_of(self._core, name)

    def load(self, model: str | os.PathLike[str] | bytes, device: Device | str | None = None, *,
             places: Mapping[str, str] | None = None, timeout: float | None = None) -> Model:
        """Loads a model (ONNX, Keel's own forms), and plans it.

        model    a path, or the model itself as bytes, which holds all of its data
        device   where it runs; None: the default device
        places   single ops elsewhere: {"GLOB of names or ops": "cpu:0"}
        timeout  seconds that planning may take
        """
        if places:
            self._core.widen()
        with self._core as handle:
            try:
                return self._loaded(handle, model, device, places or {}, timeout)
            except Error as error:
                if not self._core.may_help(error):
                    raise
            return self._loaded(handle, model, device, places or {}, timeout)

    def _loaded(self, handle: int, model: str | os.PathLike[str] | bytes,
                device: Device | str | None, places: Mapping[str, str],
                timeout: float | None) -> Model:
        program = native.handle()
        if isinstance(model, bytes):
            _check(lib.keel_program_load_memory(handle, b"the model's bytes", model, len(model),
                                                byref(program)))
        else:
            _check(lib.keel_program_load(handle, os.fsencode(model), byref(program)))
        return self._planned(program, device, places, timeout)

    def _planned(self, program: c_void_p, device: Device | str | None,
                 places: Mapping[str, str], timeout: float | None) -> Model:
        """A model of a program, which it takes over."""
        plan = native.handle()
        try:
            rules = _strings([f"{glob}={where}" for glob, where in places.items()])
            params = native.PlanParams(
                struct_size=sizeof(native.PlanParams), device=self.device(device)._handle,
                places=rules, place_count=len(places),
                timeout=_nanoseconds(timeout))
            _check(self._core.token.call(self._handle, params, lambda: int(lib.keel_plan_create(
                program, byref(params), byref(plan)))))
        except BaseException:
            lib.keel_program_release(program)
            raise

        def load(other: c_void_p) -> Model:
            with self._core:
                return self._planned(other, device, places, timeout)
        return Model(self._core, program, plan, load)

    def tensor(self, value: Any, dtype: str | None = None) -> Tensor:
        """A Tensor of an array or of numbers; it shares packed host memory of arrays, which
        must not change while it lives. dtype: of numbers that are not an array ("f32")."""
        with self._core:
            return _tensor(self._core, value, dtype)

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Writes a timeline of what happens within, for ui.perfetto.dev."""
        with self._core as handle:
            _check(lib.keel_trace_start(handle))
            try:
                yield
            except BaseException:
                lib.keel_trace_stop(handle, os.fsencode(path))
                raise
            _check(lib.keel_trace_stop(handle, os.fsencode(path)))

    def close(self) -> None:
        """Closes it now. Its models and tensors must be gone, and arrays that share their
        memory. It closes by itself when nothing of it is left."""
        left = self._core.left(1)
        if left:
            raise ValueError(left)


# ---- values -------------------------------------------------------------------------


def _device_of(core: _Core, name: Device | str | None) -> Device:
    if isinstance(name, Device):
        if name._core is not core:
            raise ValueError(f"{name!r} is a device of another context")
        return name
    out = native.handle()
    with core as handle:
        if not _is_cpu(name):
            core.widen()
        code = lib.keel_device_find(handle, (name or "").encode(), byref(out))
        if code == native.NOT_FOUND and core.widen():
            code = lib.keel_device_find(handle, (name or "").encode(), byref(out))
        _check(code)
        return Device(core, int(out.value or 0))


def _is_cpu(name: str | None) -> bool:
    """Whether a name, or the default, needs no other driver than the CPU's."""
    return not name or name == "cpu" or name.startswith("cpu:")


_FORMATS = {"f": "f32", "d": "f64", "e": "f16", "?": "bool", "b": "i8", "B": "u8", "h": "i16",
            "H": "u16", "i": "i32", "I": "u32", "q": "i64", "l": "i64", "Q": "u64", "L": "u64"}


def _is_raw(port: Port, view: memoryview) -> bool:
    """Whether the array is of bytes, for an output of another type."""
    return view.format == "B" and port.dtype != "u8"


def _memory_for(port: Port, array: Any) -> memoryview:
    """An array's memory for an output, if it fits."""
    try:
        view = memoryview(array)
    except (TypeError, ValueError, BufferError):
        raise TypeError(f"into: an array for {port} must show its memory as NumPy's do (one of "
                        f"another library by .numpy(), of a type that NumPy lacks by .view('u1')); "
                        f"this is a {type(array).__name__}") from None
    why = None
    if port.kind != "tensor":
        why = "is not a tensor"
    elif view.readonly:
        why = "needs an array that may be written to"
    elif not view.c_contiguous:
        why = "needs a contiguous array, in C's order"
    elif not _is_raw(port, view):
        fits = port.dims is None or (len(port.dims) == view.ndim and all(
            size == there for size, there in zip(port.dims, view.shape or ())
            if isinstance(size, int)))
        if _FORMATS.get(view.format) != port.dtype:
            why = f"has other elements than the array, which is of {view.format!r}"
        elif not fits:
            why = f"has another shape than the array, which is {list(view.shape or ())}"
    if why:
        raise ValueError(f"into: output {port} {why}")
    return view


def _nanoseconds(seconds: float | None) -> int:
    """0: no limit."""
    if seconds is None or seconds > 1e9:  # 30 years
        return 0
    if not seconds >= 0:
        raise ValueError(f"a timeout of {seconds} seconds")
    return max(1, int(seconds * 1e9))


def _owned(core: _Core, out: c_void_p) -> Tensor:
    """The Tensor of a handle that libkeel has given."""
    return Tensor(core, int(out.value or 0))


def _tensor(core: _Core, value: Any, dtype: str | None) -> Tensor:
    if isinstance(value, Tensor):
        if value._core is not core:
            raise ValueError(f"{value!r} is of another context; give its numpy()")
        return value
    if not hasattr(value, "__dlpack__"):
        return _of_numbers(core, value, dtype)
    if tuple(value.__dlpack_device__())[0] not in (1, 3, 11):
        raise TypeError(f"an array of {type(value).__module__} is on a device of its own:"
                        " copy it to host memory first")
    try:
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:
        # NumPy refuses read-only arrays
        if type(value).__module__ != "numpy":
            raise TypeError(f"the array can't be shared: {error}") from None
        return _of_numbers(core, value, dtype)
    managed, versioned = _dlpack.take(capsule)
    function = lib.keel_tensor_from_dlpack if versioned else lib.keel_tensor_from_dlpack_legacy
    out = native.handle()
    code = function(core.handle, managed, native.MAY_COPY, byref(out))
    if code != native.OK:
        failure = Error(code, text(lib.keel_message()))
        _dlpack.give_up(managed, versioned)
        raise failure
    return _owned(core, out)


def _of_numbers(core: _Core, value: Any, dtype: str | None) -> Tensor:
    try:
        import numpy
    except ImportError:
        raise TypeError("numbers that are not an array need NumPy; install it") from None
    wanted = _NUMPY.get(dtype or "")
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        array = numpy.asarray(value)
    elif dtype not in (None, "none") and wanted is None:
        raise TypeError(f"numbers can't be given as {dtype}: give an array of that type")
    else:
        array = numpy.asarray(value, dtype=wanted)
    names = {numpy.dtype(code): name for name, code in _NUMPY.items()}
    array = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    if array.dtype not in names:
        raise TypeError(f"Keel has no element type for NumPy's {array.dtype}")
    if not array.flags.c_contiguous:
        array = numpy.ascontiguousarray(array)
    dims = (c_int64 * max(1, array.ndim))(*array.shape)
    out = native.handle()
    kind = lib.keel_dtype_of(names[array.dtype].encode())
    _check(lib.keel_tensor_create(core.handle, kind, array.ndim, dims, array.ctypes.data,
                                  byref(out)))
    return _owned(core, out)


def _value(core: _Core, value: Any, port: Port) -> Tensor:
    if port.kind == "tensor":
        return _tensor(core, value, port.dtype)
    out = native.handle()
    if value is None and port.kind == "optional":
        _check(lib.keel_optional_empty(core.handle, byref(out)))
        return _owned(core, out)
    arrays = isinstance(value, (list, tuple)) and all(
        isinstance(item, Tensor) or hasattr(item, "__dlpack__") for item in value)
    # a list of numbers is a tensor, where the port may take one
    if port.kind != "sequence" and not (port.kind == "optional" and arrays):
        return _tensor(core, value, port.dtype)
    if not isinstance(value, (list, tuple)):
        return _tensor(core, value, port.dtype)
    items = [_tensor(core, item, port.dtype) for item in value]
    handles = (c_void_p * max(1, len(items)))(*[item._handle for item in items])
    _check(lib.keel_sequence_create(core.handle, handles, len(items), byref(out)))
    return _owned(core, out)


def _items(tensor: Tensor) -> list[Tensor] | None:
    """Of a sequence; None: it is a tensor."""
    length = lib.keel_sequence_length(tensor._handle)
    return None if length < 0 else [tensor[i] for i in range(length)]


def _ranges(tensor: Tensor, found: list[tuple[int, int]], port: Port | None = None) -> None:
    """Adds where a value's data lie in memory that the host can address."""
    items = None if port and port.kind == "tensor" else _items(tensor)
    for item in items or ():
        _ranges(item, found)
    address = None if items is not None else lib.keel_tensor_data(tensor._handle)
    if address:
        found.append((address, lib.keel_tensor_size(tensor._handle)))


def _apart(tensor: Tensor, shared: list[tuple[int, int]], port: Port | None = None) -> Tensor:
    """The value, or a copy where it lies in memory that is the caller's."""
    if not shared:
        return tensor
    if port and port.kind == "tensor":
        mine = [lib.keel_tensor_data(tensor._handle)]
    else:
        found: list[tuple[int, int]] = []
        _ranges(tensor, found)
        mine = [address for address, _ in found]
    for at, size in shared:
        if any(address and at <= address < at + size for address in mine):
            break
    else:
        return tensor
    core, out = tensor._core, native.handle()
    items = _items(tensor)
    if items is not None:
        parts = [_apart(item, shared) for item in items]
        handles = (c_void_p * max(1, len(parts)))(*[part._handle for part in parts])
        _check(lib.keel_sequence_create(core.handle, handles, len(parts), byref(out)))
        return _owned(core, out)
    dims = (c_int64 * max(1, len(tensor.shape)))(*tensor.shape)
    _check(lib.keel_tensor_create(core.handle, lib.keel_tensor_dtype(tensor._handle),
                                  len(tensor.shape), dims, lib.keel_tensor_data(tensor._handle),
                                  byref(out)))
    return _owned(core, out)


def open(*, plugins: Sequence[str | os.PathLike[str]] = (), only: bool = False,
         options: Mapping[str, object] | None = None, threads: int | None = None,
         visible: str | None = None, memory_limit: int = 0) -> Context:
    """Opens a runtime.

    plugins       paths of plugins, or of folders of plugins, that are looked at first
    only          no other plugins than these
    options       of plugins: {"cpu.isa": "base"}; an Error where one is refused, or a plugin
                  that `plugins` names
    threads       that share the work, the caller among them; None: all processors
    visible       devices to show or hide: "cpu,-opencl"; None: all, of which drivers other than
                  the CPU's are opened when they are first needed or listed
    memory_limit  bytes that tensors may take; 0: no limit
    """
    if isinstance(plugins, (str, bytes)):
        raise TypeError("plugins is a list of paths")
    paths = [os.fspath(path) for path in plugins]
    _Core.waiting = [core for core in _Core.waiting if core.left()]
    settings = [f"{name}={value}" for name, value in (options or {}).items()]
    params = native.ContextParams(
        struct_size=sizeof(native.ContextParams), flags=native.ONLY_NAMED if only else 0,
        plugins=_strings(paths), plugin_count=len(paths), options=_strings(settings),
        option_count=len(settings), memory_limit=memory_limit,
        visible=visible.encode() if visible is not None else None)
    if threads is not None:
        params.workers = native.NO_WORKERS if threads < 2 else threads - 1
    narrow = (visible is None and not plugins and not only and not options
              and not os.environ.get("KEEL_VISIBLE_DEVICES")
              and _is_cpu(os.environ.get("KEEL_DEVICE")))
    if narrow:
        params.visible = b"cpu"
    out = native.handle()
    _check(lib.keel_open(byref(params), byref(out)))
    return Context(int(out.value or 0), narrow)


_lock = threading.Lock()
_shared: Context | None = None


def _default() -> Context:
    global _shared
    with _lock:
        if _shared is None:
            _shared = open()
        return _shared


def load(model: str | os.PathLike[str] | bytes, device: Device | str | None = None, *,
         places: Mapping[str, str] | None = None, timeout: float | None = None) -> Model:
    """Loads and plans a model; see Context.load."""
    return _default().load(model, device, places=places, timeout=timeout)


def devices() -> list[Device]:
    """All devices."""
    return _default().devices()


def device(name: str | None = None) -> Device:
    """A device by name, or the default one."""
    return _default().device(name)


def plugins() -> list[Plugin]:
    """Every candidate plugin, loaded or refused."""
    return _default().plugins()


def trace(path: str | os.PathLike[str]) -> contextlib.AbstractContextManager[None]:
    """`with keel.trace("run.json"):` writes a timeline; see Context.trace."""
    return _default().trace(path)


