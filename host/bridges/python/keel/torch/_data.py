"""Lowerings: shapes, views, indices, and what makes data."""
from __future__ import annotations

from typing import Any, Sequence

import torch

from ._values import (FLOATS, TORCH_TYPES, Lowering, Size, Unsupported, Value, lower, only_fits,
                      static, type_of)

END = 2 ** 63 - 1


def _same(c: Lowering, x: Value) -> Value:
    return c.op("Identity", x)


@lower("alias.default", "detach.default", "clone.default", "lift_fresh_copy.default",
       "contiguous.default", "prims.device_put.default")
def _identity(c: Lowering, x: Value, *rest: Any, **more: Any) -> Value:
    return _same(c, x)


def _out_sizes(c: Lowering, given: Sequence[Size]) -> list[Size]:
    """The result's sizes: as numbers, else as the node's arguments say (which may hold a -1)."""
    known = [static(size) for size in c.out.shape]
    return [given[i] if size is None else size for i, size in enumerate(known)]


@lower("view.default", "view_copy.default", "reshape.default", "_unsafe_view.default",
       "prims.reshape.default")
def _view(c: Lowering, x: Value, size: Sequence[Size]) -> Value:
    return c.reshape(x, _out_sizes(c, size))


@lower("copy.default")
def _copy(c: Lowering, x: Value, source: Value, non_blocking: bool = False) -> Value:
    return c.expand(c.cast(source, x.dtype), c.sizes(x)) if x.rank else c.reshape(
        c.cast(source, x.dtype), [])


@lower("view.dtype")
def _view_dtype(c: Lowering, x: Value, dtype: torch.dtype) -> Value:
    if type_of(dtype) != x.dtype:
        raise Unsupported("the same bits as another type")
    return _same(c, x)


@lower("unsqueeze.default")
def _unsqueeze(c: Lowering, x: Value, dim: int) -> Value:
    return c.unsqueeze(x, dim % (x.rank + 1))


@lower("squeeze.dim", "squeeze.dims", "squeeze.default")
def _squeeze(c: Lowering, x: Value, dim: Any = None) -> Value:
    dims = range(x.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = [d % x.rank for d in dims if x.rank and x.shape[d] == 1]
    return c.squeeze(x, *gone) if gone else _same(c, x)


@lower("permute.default", "permute_copy.default", "prims.transpose.default")
def _permute(c: Lowering, x: Value, dims: Sequence[int]) -> Value:
    return c.permute(x, [d % x.rank for d in dims]) if x.rank else _same(c, x)


@lower("t.default")
def _t(c: Lowering, x: Value) -> Value:
    return c.permute(x, [1, 0]) if x.rank == 2 else _same(c, x)


@lower("transpose.int")
def _transpose(c: Lowering, x: Value, dim0: int, dim1: int) -> Value:
    if not x.rank:
        return _same(c, x)
    perm = list(range(x.rank))
    perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return c.permute(x, perm)


@lower("expand.default", "expand_copy.default")
def _expand(c: Lowering, x: Value, size: Sequence[Size], implicit: bool = False) -> Value:
    lead = len(size) - x.rank
    sizes = []
    for i, known in enumerate(static(s) for s in c.out.shape):
        if known is not None:
            sizes.append(known)
        elif isinstance(size[i], int):  # -1
            sizes.append(c.size(x, i - lead))
        else:
            sizes.append(size[i])
    return c.expand(x, sizes)


@lower("slice.Tensor")
def _slice(c: Lowering, x: Value, dim: int = 0, start: Any = None, end: Any = None,
           step: int = 1) -> Value:
    if not isinstance(step, int):
        raise Unsupported("a symbolic step")
    return c.slice(x, dim % x.rank, 0 if start is None else start,
                   END if end is None else end, step)


@lower("select.int")
def _select(c: Lowering, x: Value, dim: int, index: Size) -> Value:
    at = c.const(index, "i64") if isinstance(index, int) else index
    return c.op("Gather", x, at, axis=dim % x.rank)


@lower("diagonal.default")
def _diagonal(c: Lowering, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    first, second = dim1 % x.rank, dim2 % x.rank
    rest = [i for i in range(x.rank) if i not in (first, second)]
    high, wide = x.shape[first], x.shape[second]
    if high is None or wide is None:
        raise Unsupported("symbolic sizes")
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(high - row, wide - column), 0)
    flat = c.reshape(c.permute(x, [*rest, first, second]),
                     [*[c.size(x, i) for i in rest], high * wide])
    places = [(row + i) * wide + column + i for i in range(count)]
    return c.op("Gather", flat, c.ints(places), axis=len(rest))


@lower("unfold.default")
def _unfold(c: Lowering, x: Value, dimension: int, size: int, step: int) -> Value:
    if not x.rank or x.shape[dimension] is None:
        raise Unsupported("of a scalar, or of a symbolic size")
    axis = dimension % x.rank
    many = (x.shape[axis] - size) // step + 1
    places = torch.arange(many)[:, None] * step + torch.arange(size)
    made = c.op("Gather", x, c.const(places, "i64"), axis=axis)
    return c.permute(made, [i for i in range(x.rank + 1) if i != axis + 1] + [axis + 1])


@lower("narrow.default")
def _narrow(c: Lowering, x: Value, dim: int, start: Size, length: Size) -> Value:
    if not isinstance(start, int) or not isinstance(length, int) or start < 0:
        raise Unsupported("symbolic positions")
    return c.slice(x, dim % x.rank, start, start + length)


def _pieces(c: Lowering, x: Value, sizes: Sequence[Size], dim: int) -> list[Value]:
    if len(sizes) == 1:
        return [_same(c, x)]
    return c.ops("Split", x, c.dims(sizes), dtypes=[x.dtype] * len(sizes), axis=dim % x.rank)


@lower("split_with_sizes.default")
def _split_with_sizes(c: Lowering, x: Value, split_sizes: Sequence[Size],
                      dim: int = 0) -> list[Value]:
    return _pieces(c, x, split_sizes, dim)


@lower("split.Tensor", "unsafe_split.Tensor")
def _split(c: Lowering, x: Value, split_size: Size, dim: int = 0) -> list[Value]:
    sizes = [static(out.shape[dim]) for out in c.out]
    if any(size is None for size in sizes):
        raise Unsupported("symbolic sizes")
    return _pieces(c, x, sizes, dim)


@lower("unbind.int")
def _unbind(c: Lowering, x: Value, dim: int = 0) -> list[Value]:
    return [c.op("Gather", x, c.const(i, "i64"), axis=dim % x.rank) for i in range(len(c.out))]


@lower("cat.default")
def _cat(c: Lowering, tensors: Sequence[Value], dim: int = 0) -> Value:
    # torch leaves out old-style empty vectors
    kept = [t for t in tensors if not (t.shape == (0,) and len(c.out.shape) != 1)]
    values = [c.cast(t, c.out_type) for t in kept]
    if len(values) == 1:
        return _same(c, values[0])
    return c.op("Concat", *values, axis=dim % len(c.out.shape))


@lower("stack.default")
def _stack(c: Lowering, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % len(c.out.shape)
    return c.op("Concat", *[c.unsqueeze(c.cast(t, c.out_type), axis) for t in tensors],
                axis=axis)


@lower("repeat.default")
def _repeat(c: Lowering, x: Value, repeats: Sequence[Size]) -> Value:
    lead = len(repeats) - x.rank
    if lead:
        x = c.unsqueeze(x, *range(lead))
    return c.op("Tile", x, c.dims(repeats))


@lower("flip.default")
def _flip(c: Lowering, x: Value, dims: Sequence[int]) -> Value:
    axes = [d % x.rank for d in dims] if x.rank else []
    if not axes:
        return _same(c, x)
    many = len(axes)
    return c.op("Slice", x, c.ints([-1] * many), c.ints([-END - 1] * many), c.ints(axes),
                c.ints([-1] * many))


@lower("roll.default")
def _roll(c: Lowering, x: Value, shifts: Any, dims: Any = ()) -> Value:
    sizes = x.shape
    dims = [dims] if isinstance(dims, int) else list(dims)
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if any(size is None for size in sizes) or not all(isinstance(s, int) for s in shifts):
        raise Unsupported("symbolic sizes")
    if 0 in sizes:
        return _same(c, x)
    if not dims:
        whole = 1
        for size in sizes:
            whole *= size
        flat = _rolled(c, c.reshape(x, [whole]), 0, shifts[0] % whole, whole)
        return c.reshape(flat, sizes)
    made = x
    for dim, shift in zip(dims, shifts):
        made = _rolled(c, made, dim % x.rank, shift % sizes[dim], sizes[dim])
    return made


def _rolled(c: Lowering, x: Value, axis: int, shift: int, size: int) -> Value:
    if not shift:
        return x
    return c.op("Concat", c.slice(x, axis, size - shift, END), c.slice(x, axis, 0, size - shift),
                axis=axis)


@lower("constant_pad_nd.default")
def _pad(c: Lowering, x: Value, pad: Sequence[Size], value: Any = 0) -> Value:
    return _padded(c, x, pad, "constant", value)


def _padded(c: Lowering, x: Value, pad: Sequence[Size], mode: str, value: Any) -> Value:
    if not all(isinstance(size, int) for size in pad):
        raise Unsupported("symbolic padding")
    axes = [x.rank - 1 - i for i in range(len(pad) // 2)]
    if any(size < 0 for size in pad):
        if mode != "constant":
            raise Unsupported("negative padding")
        for i, axis in enumerate(axes):
            before, after = min(pad[2 * i], 0), min(pad[2 * i + 1], 0)
            if before or after:
                x = c.slice(x, axis, -before, after or END)
        pad = [max(size, 0) for size in pad]
    pads = c.ints([*pad[::2], *pad[1::2]])
    fill = c.to(value, x.dtype) if mode == "constant" else None
    return c.op("Pad", x, pads, fill, c.ints(axes), mode=mode)


def _pad_by(mode: str, target: str) -> None:
    @lower(*[f"{target}_pad{rank}d.default" for rank in (1, 2, 3)])
    def function(c: Lowering, x: Value, padding: Sequence[Size]) -> Value:
        return _padded(c, x, padding, mode, None)


_pad_by("reflect", "reflection")
_pad_by("edge", "replication")


def _triangle(target: str, upper: int) -> None:
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value, diagonal: Size = 0) -> Value:
        return c.op("Trilu", x, c.to(diagonal, "i64"), upper=upper)


_triangle("tril", 0)
_triangle("triu", 1)


# ---- by position


@lower("gather.default")
def _gather(c: Lowering, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if not x.rank or not index.rank:
        raise Unsupported("of a scalar")
    return c.op("GatherElements", x, c.cast(index, "i64"), axis=dim % x.rank)


@lower("index_select.default")
def _index_select(c: Lowering, x: Value, dim: int, index: Value) -> Value:
    if not x.rank or index.rank != 1:
        raise Unsupported("of a scalar")
    return c.op("Gather", x, index, axis=dim % x.rank)


@lower("embedding.default")
def _embedding(c: Lowering, weight: Value, indices: Value, padding_idx: int = -1,
               scale_grad_by_freq: bool = False, sparse: bool = False) -> Value:
    return c.op("Gather", weight, indices, axis=0)


def _scatter(c: Lowering, x: Value, dim: int, index: Value, source: Any,
             reduction: str) -> Value:
    if not x.rank or not index.rank:
        raise Unsupported("of a scalar")
    if isinstance(source, Value) and source.rank == index.rank:
        if source.shape != index.shape or None in source.shape:
            # the index's shape counts; a source may be larger
            many = index.rank
            source = c.op("Slice", source, c.ints([0] * many), c.dims(c.sizes(index)),
                          c.ints(range(many)))
        source = c.cast(source, x.dtype)
    else:
        source = c.expand(c.to(source, x.dtype), c.sizes(index))
    return c.op("ScatterElements", x, c.cast(index, "i64"), source, axis=dim % x.rank,
                reduction=reduction)


@lower("scatter.src", "scatter.value")
def _scatter_set(c: Lowering, x: Value, dim: int, index: Value, source: Any) -> Value:
    return _scatter(c, x, dim, index, source, "none")


@lower("scatter_add.default")
def _scatter_add(c: Lowering, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter(c, x, dim, index, source, "add")


@lower("scatter.reduce", "scatter.value_reduce")
@lower("scatter_reduce.two", wide=True)
def _scatter_reduce(c: Lowering, x: Value, dim: int, index: Value, source: Any, reduce: str,
                    include_self: bool = True) -> Value:
    reduction = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add",
                 "multiply": "mul"}.get(reduce)
    if reduce == "mean" and x.dtype in FLOATS:
        counts = c.full(c.sizes(x), int(include_self), x.dtype)
        counts.fake = x.fake
        count = _scatter(c, counts, dim, index, 1, "add")
        base = x if include_self else _without(c, x, dim, index, "add")
        total = _scatter(c, base, dim, index, source, "add")
        return c.op("Div", total, c.op("Max", count, c.to(1, x.dtype)))
    if reduction is None:
        raise Unsupported(f"a reduction of {x.dtype} by {reduce}")
    if not include_self:
        x = _without(c, x, dim, index, reduction)
    return _scatter(c, x, dim, index, source, reduction)


def _without(c: Lowering, x: Value, dim: int, index: Value, reduction: str) -> Value:
    """x with what does not change a reduction in the places of the index."""
    t = TORCH_TYPES[x.dtype]
    if reduction in ("max", "min"):
        if x.dtype == "bool":
            raise Unsupported("of bools, without the values themselves")
        least, most = (float("-inf"), float("inf")) if t.is_floating_point else (
            torch.iinfo(t).min, torch.iinfo(t).max)
        neutral: Any = least if reduction == "max" else most
    else:
        neutral = 1 if reduction == "mul" else 0
    made = _scatter(c, x, dim, index, neutral, "none")
    made.fake = x.fake
    return made


@lower("index_add.default")
def _index_add(c: Lowering, x: Value, dim: int, index: Value, source: Value,
               alpha: Any = 1) -> Value:
    if dim % max(x.rank, 1) or not x.rank or index.rank != 1:
        raise Unsupported("in another than the first dimension")
    if alpha != 1:
        source = c.op("Mul", source, c.to(alpha, x.dtype))
    return c.op("ScatterND", x, c.unsqueeze(c.cast(index, "i64"), 1), source, reduction="add")


def _positions(c: Lowering, x: Value, indices: Sequence[Value | None]) -> list[int]:
    """Which dimensions are indexed; refuses masks."""
    at = [i for i, index in enumerate(indices) if index is not None]
    for i in at:
        if indices[i].dtype not in ("i64", "i32"):  # type: ignore[union-attr]
            raise Unsupported("a mask as an index: the size is known after the run only")
    return at


def _joined(c: Lowering, indices: Sequence[Value]) -> tuple[Value, int]:
    """Several indices, broadcast, as one of vectors; the rank of their common shape."""
    rank = max(index.rank for index in indices)
    wide = [c.cast(index, "i64") for index in indices]
    if len({index.shape for index in indices}) > 1 or any(None in i.shape for i in indices):
        total = wide[0]
        for index in wide[1:]:
            total = c.op("Add", total, index)
        zeros = c.op("Mul", total, c.to(0, "i64"))
        wide = [c.op("Add", index, zeros) for index in wide]
    parts = [c.unsqueeze(index, rank) for index in wide]
    return (parts[0] if len(parts) == 1 else c.op("Concat", *parts, axis=rank)), rank


@lower("index.Tensor", "_unsafe_index.Tensor")
def _index(c: Lowering, x: Value, indices: Sequence[Value | None]) -> Value:
    at = _positions(c, x, indices)
    given = [indices[i] for i in at]
    if len(at) == 1:
        return c.op("Gather", x, given[0], axis=at[0])
    rest = [i for i in range(x.rank) if i not in at]
    moved = x if at == list(range(len(at))) else c.permute(x, at + rest)
    joined, rank = _joined(c, given)  # type: ignore[arg-type]
    made = c.op("GatherND", moved, joined)
    lead = at[0] if at == list(range(at[0], at[0] + len(at))) else 0
    if not lead:
        return made
    total = rank + len(rest)
    order = [*range(rank, rank + lead), *range(rank), *range(rank + lead, total)]
    return c.permute(made, order)


@lower("index_put.default", "_unsafe_index_put.default")
def _index_put(c: Lowering, x: Value, indices: Sequence[Value | None], values: Value,
               accumulate: bool = False) -> Value:
    mask = _mask_of(x, indices)
    if mask is not None and not accumulate and (values.rank == 0 or set(values.shape) == {1}):
        wide = c.unsqueeze(mask, *range(mask.rank, x.rank)) if mask.rank < x.rank else mask
        only_fits(values, x.dtype)
        one = c.cast(c.reshape(values, []) if values.rank else values, x.dtype)
        return c.op("Where", wide, one, x, dtype=x.dtype)
    at = _positions(c, x, indices)
    rest = [i for i in range(x.rank) if i not in at]
    prefix = at == list(range(len(at)))
    lead = at[0] if at == list(range(at[0], at[0] + len(at))) else 0
    given = [indices[i] for i in at]
    joined, rank = _joined(c, given)  # type: ignore[arg-type]
    shape = c.op("Shape", joined, dtype="i64", start=0, end=-1) if any(
        None in index.shape for index in given) else None  # type: ignore[union-attr]
    sizes: Any
    if shape is None:
        common = list(torch.broadcast_shapes(*[i.shape for i in given]))  # type: ignore
        tail = [c.size(x, i) for i in rest]
        sizes = c.dims(tail[:lead] + common + tail[lead:])
    else:
        tail = [c.size(x, i) for i in rest]
        parts = [c.dims(tail[:lead])] if lead else []
        parts.append(shape)
        if rest[lead:]:
            parts.append(c.dims(tail[lead:]))
        sizes = c.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
    wide = c.op("Expand", c.cast(values, x.dtype), sizes)
    if lead:
        total = rank + len(rest)
        order = [*range(lead, lead + rank), *range(lead), *range(lead + rank, total)]
        wide = c.permute(wide, order)
    moved = x if prefix else c.permute(x, at + rest)
    made = c.op("ScatterND", moved, joined, wide, reduction="add" if accumulate else "none")
    if prefix:
        return made
    order = at + rest
    return c.permute(made, [order.index(i) for i in range(x.rank)])


def _mask_of(x: Value, indices: Sequence[Value | None]) -> Value | None:
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == "bool":
        return indices[0]
    return None


@lower("slice_scatter.default")
def _slice_scatter(c: Lowering, x: Value, source: Value, dim: int = 0, start: Any = None,
                   end: Any = None, step: int = 1) -> Value:
    axis = dim % x.rank
    size = x.shape[axis]
    if size is None or any(not isinstance(p, int) and p is not None for p in (start, end, step)):
        if step != 1:
            raise Unsupported("symbolic positions, with a step")
        return _replaced(c, x, c.cast(source, x.dtype), axis, 0 if start is None else start,
                         c.size(source, axis))
    first, last, _ = slice(start, end, step).indices(size)
    last = max(first, last)
    places = list(range(first, last, step))
    source = c.cast(source, x.dtype)
    if not places:
        return _same(c, x)
    if len(places) == size:
        return _same(c, source)
    if step == 1:
        parts = [c.slice(x, axis, 0, first)] if first else []
        parts.append(source)
        if last < size:
            parts.append(c.slice(x, axis, last, END))
        return c.op("Concat", *parts, axis=axis)
    index = c.reshape(c.ints(places), [len(places) if i == axis else 1 for i in range(x.rank)])
    sizes = c.sizes(x)
    sizes[axis] = len(places)
    return c.op("ScatterElements", x, c.expand(index, sizes), source, axis=axis)


def _replaced(c: Lowering, x: Value, source: Value, axis: int, start: Size,
              length: Size) -> Value:
    """x with `length` rows from `start` on replaced, for sizes that only the run knows."""
    if isinstance(start, int) and start < 0:
        start = c.op("Add", c.to(c.size(x, axis), "i64"), c.const(start, "i64"))
    end = start + length if isinstance(start, int) and isinstance(length, int) else \
        c.op("Add", c.to(start, "i64"), c.to(length, "i64"))
    before = [] if isinstance(start, int) and start == 0 else [c.slice(x, axis, 0, start)]
    return c.op("Concat", *before, source, c.slice(x, axis, end, END), axis=axis)


@lower("select_scatter.default")
def _select_scatter(c: Lowering, x: Value, source: Value, dim: int, index: Size) -> Value:
    axis = dim % x.rank
    size = x.shape[axis]
    if not isinstance(index, int) or size is None:
        return _replaced(c, x, c.unsqueeze(c.cast(source, x.dtype), axis), axis, index, 1)
    at = index % size
    return _slice_scatter(c, x, c.unsqueeze(source, axis), axis, at, at + 1)


# ---- what makes data


@lower("full.default")
def _full(c: Lowering, size: Sequence[Size], fill_value: Any, **rest: Any) -> Value:
    return c.full(list(size), fill_value, c.out_type)


@lower("full_like.default")
def _full_like(c: Lowering, x: Value, fill_value: Any, **rest: Any) -> Value:
    return c.full(c.sizes(x), fill_value, c.out_type)


def _filled(number: int, *targets: str) -> None:
    @lower(*targets)
    def function(c: Lowering, x: Any, *rest: Any, **more: Any) -> Value:
        if isinstance(x, Value):  # like it, or of a size that follows
            sizes = list(rest[0]) if rest else c.sizes(x)
        else:
            sizes = list(x)
        return c.full(sizes, number, c.out_type)


_filled(0, "zeros.default", "new_zeros.default", "zeros_like.default", "empty.memory_format",
        "empty_like.default", "new_empty.default", "empty_permuted.default")
_filled(1, "ones.default", "new_ones.default", "ones_like.default")


@lower("new_full.default")
def _new_full(c: Lowering, x: Value, size: Sequence[Size], fill_value: Any,
              **rest: Any) -> Value:
    return c.full(list(size), fill_value, c.out_type)


@lower("scalar_tensor.default")
def _scalar_tensor(c: Lowering, number: Any, **rest: Any) -> Value:
    return _same(c, c.to(number, c.out_type))


def _range(c: Lowering, start: Any, end: Any, step: Any) -> Value:
    t = c.out_type
    if all(isinstance(number, (int, float)) for number in (start, end, step)):
        data = torch.arange(start, end, step, dtype=TORCH_TYPES[t])
        if data.numel() <= 65536:
            return _same(c, c.const(data, t))
    if t in ("f16", "bf16"):
        raise Unsupported("in a short type")
    if t in FLOATS:
        if not all(isinstance(number, int) or isinstance(number, Value) and number.dtype == "i64"
                   for number in (start, end, step)):
            raise Unsupported("of symbolic floats")
        whole = c.op("Range", c.to(start, "i64"), c.to(end, "i64"), c.to(step, "i64"))
        return c.cast(whole, t)
    return c.op("Range", c.to(start, t), c.to(end, t), c.to(step, t))


@lower("arange.default", "arange.start", "arange.start_step")
def _arange(c: Lowering, *given: Any, **rest: Any) -> Value:
    if len(given) == 1:
        return _range(c, 0, given[0], 1)
    return _range(c, given[0], given[1], given[2] if len(given) > 2 else 1)


@lower("prims.iota.default")
def _iota(c: Lowering, length: Size, start: Any = 0, step: Any = 1, **rest: Any) -> Value:
    if all(isinstance(number, int) for number in (length, start, step)):
        return _range(c, start, start + length * step, step)
    t = c.out_type
    counted = c.op("Range", c.to(0, t), c.to(length, t), c.to(1, t))
    if step != 1:
        counted = c.op("Mul", counted, c.to(step, t))
    return counted if start == 0 else c.op("Add", counted, c.to(start, t))


@lower("eye.default", "eye.m")
def _eye(c: Lowering, n: Size, m: Any = None, **rest: Any) -> Value:
    m = n if m is None else m
    if not isinstance(n, int) or not isinstance(m, int):
        raise Unsupported("symbolic sizes")
    return _same(c, c.const(torch.eye(n, m, dtype=c.out.dtype), c.out_type))


@lower("one_hot.default")
def _one_hot(c: Lowering, x: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise Unsupported("without a number of classes")
    return c.op("OneHot", x, c.const(num_classes, "i64"), c.const([0, 1], "i64"), dtype="i64",
                axis=-1)
