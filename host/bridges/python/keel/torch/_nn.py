"""Lowerings: convolutions, pools, normalisations, attention, with their gradients."""
from __future__ import annotations

from typing import Any, Sequence

import torch

from ._values import FLOATS, TORCH_TYPES, Lowering, Size, Unsupported, Value, lower


def _each(values: Any, many: int) -> list[int]:
    given = [values] if isinstance(values, int) else list(values)
    if not all(isinstance(value, int) for value in given):
        raise Unsupported("symbolic parameters of a window")
    return given * many if len(given) == 1 else given


# ---- convolutions


@lower("convolution.default")
def _convolution(c: Lowering, x: Value, weight: Value, bias: Value | None, stride: Any,
                 padding: Any, dilation: Any, transposed: bool, output_padding: Any,
                 groups: int) -> Value:
    many = weight.rank - 2
    single = x.rank == many + 1
    if single:
        x = c.unsqueeze(x, 0)
    pads = _each(padding, many)
    attrs: dict[str, Any] = dict(strides=_each(stride, many), pads=pads + pads,
                                 dilations=_each(dilation, many), group=groups)
    if transposed:
        made = c.op("ConvTranspose", x, weight, bias,
                    output_padding=_each(output_padding, many), **attrs)
    else:
        made = c.op("Conv", x, weight, bias, **attrs)
    return c.squeeze(made, 0) if single else made


@lower("convolution_backward.default")
def _convolution_backward(c: Lowering, grad: Value, x: Value, weight: Value, bias_sizes: Any,
                          stride: Any, padding: Any, dilation: Any, transposed: bool,
                          output_padding: Any, groups: int,
                          output_mask: Sequence[bool]) -> list[Value | None]:
    many = weight.rank - 2
    if x.rank != many + 2:
        raise Unsupported("without a batch")
    window = (_each(stride, many), _each(padding, many), _each(dilation, many))
    made: list[Value | None] = [None, None, None]
    if output_mask[0] and c.used(0):
        made[0] = _grad_of_input(c, grad, x, weight, window, transposed, groups)
    if output_mask[1] and c.used(1):
        source, result = (grad, x) if transposed else (x, grad)
        made[1] = _grad_of_weight(c, source, result, weight, window, groups)
    if output_mask[2] and c.used(2):
        made[2] = c.reduce("ReduceSum", grad, [0, *range(2, many + 2)])
    return made


def _grad_of_input(c: Lowering, grad: Value, x: Value, weight: Value, window: Any,
                   transposed: bool, groups: int) -> Value:
    stride, padding, dilation = window
    if transposed:
        made = c.op("Conv", grad, weight, strides=stride, pads=padding + padding,
                    dilations=dilation, group=groups)
        for i in range(len(stride)):  # an output padding beyond the stride gives more rows
            if dilation[i] > 1:
                made = c.slice(made, i + 2, 0, c.size(x, i + 2))
        return made
    return _spread(c, grad, weight, c.sizes(x)[2:], x.shape[2:], grad.shape[2:],
                   weight.shape[2:], window, groups)


def _spread(c: Lowering, grad: Value, weight: Value, sizes: Sequence[Size],
            known: Sequence[int | None], out: Sequence[int | None],
            kernel: Sequence[int | None], window: Any, groups: int) -> Value:
    """The transposed convolution whose result has these sizes. A convolution leaves out rows at
    the end that its stride does not reach; those get zeros."""
    stride, padding, dilation = window
    extra, cut = [], []
    for i in range(len(stride)):
        size, rows, taps = known[i], out[i], kernel[i]
        more = stride[i] - 1
        if size is not None and rows is not None and taps is not None:
            more = size - ((rows - 1) * stride[i] - 2 * padding[i] + dilation[i] * (taps - 1) + 1)
        if more < 0 or None in (size, rows, taps):
            cut.append(i)
        extra.append(max(more, 0))
    made = c.op("ConvTranspose", grad, weight, output_padding=extra, strides=stride,
                pads=padding + padding, dilations=dilation, group=groups)
    for i in cut:
        made = c.slice(made, i + 2, 0, sizes[i])
    return made


def _grad_of_weight(c: Lowering, source: Value, result: Value, weight: Value, window: Any,
                    groups: int) -> Value:
    """The convolution of the source with the result's gradient as its filter, where batch and
    channels change places, and stride and dilation; a group's samples are its channels."""
    stride, padding, dilation = window
    many = len(stride)
    image = list(range(2, many + 2))
    kernel = [weight.shape[i] for i in image]
    if any(size is None for size in weight.shape) or source.shape[1] is None:
        raise Unsupported("symbolic channels or kernels")
    batch: Size = c.size(source, 0)
    inner = source.shape[1] // groups
    filters = c.permute(result, [1, 0, *image])
    if groups == 1:
        data = c.permute(source, [1, 0, *image])
    else:
        sizes = [c.size(source, i) for i in image]
        split = c.reshape(source, [batch, groups, inner, *sizes])
        transposed = c.permute(split, [2, 1, 0, *range(3, many + 3)])
        data = c.reshape(transposed, [inner, c.times([groups, batch]), *sizes])
    made = c.op("Conv", data, filters, strides=dilation, dilations=stride,
                pads=padding + padding, group=groups)
    for i in range(many):
        size, rows = source.shape[i + 2], result.shape[i + 2]
        if size is None or rows is None or kernel[i] != (
                size + 2 * padding[i] - stride[i] * (rows - 1) - 1) // dilation[i] + 1:
            made = c.slice(made, i + 2, 0, kernel[i])
    return c.permute(made, [1, 0, *image])


# ---- pools


def _pool(c: Lowering, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any,
          many: int) -> tuple[Value, dict[str, Any]]:
    kernel = _each(kernel, many)
    pads = _each(padding, many)
    attrs = dict(kernel_shape=kernel, strides=_each(stride, many) if stride else kernel,
                 pads=pads + pads, dilations=_each(dilation, many))
    return (x if x.rank == many + 2 else c.unsqueeze(x, 0)), attrs


def _max_pool(c: Lowering, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any,
              ceil_mode: bool, many: int) -> tuple[Value, Value | None]:
    single = x.rank == many + 1
    plane = c.times([c.size(x, x.rank - many + i) for i in range(many)])
    wide, attrs = _pool(c, x, kernel, stride, padding, dilation, many)
    attrs["ceil_mode"] = int(ceil_mode)
    if not c.used(1):
        made = c.op("MaxPool", wide, **attrs)
        return (c.squeeze(made, 0) if single else made), None
    made, places = c.ops("MaxPool", wide, dtypes=[x.dtype, "i64"], **attrs)
    places = c.op("Mod", places, c.to(plane, "i64"))  # ONNX counts through all planes
    if single:
        made, places = c.squeeze(made, 0), c.squeeze(places, 0)
    return made, places


def _unpool(c: Lowering, grad: Value, x: Value, indices: Value, many: int) -> Value:
    lead = c.sizes(x)[:x.rank - many]
    plane = c.times(c.sizes(x)[x.rank - many:])
    kept = c.sizes(indices)[:x.rank - many]
    flat = c.reshape(grad, [*kept, c.times(c.sizes(indices)[x.rank - many:])])
    places = c.reshape(indices, [*kept, c.times(c.sizes(indices)[x.rank - many:])])
    made = c.op("ScatterElements", c.full([*lead, plane], 0, grad.dtype), places, flat,
                axis=x.rank - many, reduction="add")
    return c.reshape(made, c.sizes(x))


def _max_pools(many: int) -> None:
    @lower(f"max_pool{many}d_with_indices.default")
    def forward(c: Lowering, x: Value, kernel_size: Any, stride: Any = (), padding: Any = 0,
                dilation: Any = 1, ceil_mode: bool = False) -> tuple[Value, Value | None]:
        return _max_pool(c, x, kernel_size, stride, padding, dilation, ceil_mode, many)

    @lower(f"max_pool{many}d_with_indices_backward.default")
    def backward(c: Lowering, grad: Value, x: Value, kernel_size: Any, stride: Any, padding: Any,
                 dilation: Any, ceil_mode: bool, indices: Value) -> Value:
        return _unpool(c, grad, x, indices, many)


_max_pools(2)
_max_pools(3)


def _avg_pool(c: Lowering, x: Value, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
              count_include_pad: bool, divisor: Any, many: int) -> Value:
    single = x.rank == many + 1
    wide, attrs = _pool(c, x, kernel, stride, padding, 1, many)
    if divisor is not None and (ceil_mode or not isinstance(divisor, int)):
        raise Unsupported("a divisor with ceil_mode")
    include = count_include_pad or divisor is not None
    made = c.op("AveragePool", wide, ceil_mode=int(ceil_mode), count_include_pad=int(include),
                **attrs)
    if divisor is not None:
        area = 1
        for size in attrs["kernel_shape"]:
            area *= size
        made = c.op("Mul", made, c.to(area / divisor, x.dtype))
    return c.squeeze(made, 0) if single else made


def _avg_pools(many: int) -> None:
    @lower(f"avg_pool{many}d.default", wide=many > 1)
    def function(c: Lowering, x: Value, kernel_size: Any, stride: Any = (), padding: Any = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: Any = None) -> Value:
        return _avg_pool(c, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                         divisor_override, many)


for _many in (1, 2, 3):
    _avg_pools(_many)


@lower("avg_pool2d_backward.default", wide=True)
def _avg_pool2d_backward(c: Lowering, grad: Value, x: Value, kernel_size: Any, stride: Any,
                         padding: Any, ceil_mode: bool, count_include_pad: bool,
                         divisor_override: Any) -> Value:
    """A transposed convolution of each plane with ones, of the gradient by what each window was
    divided by."""
    kernel, pads = _each(kernel_size, 2), _each(padding, 2)
    strides = _each(stride, 2) if stride else kernel
    sizes, out = x.shape[-2:], grad.shape[-2:]
    t = grad.dtype
    if divisor_override is not None:
        divisor: Value = c.to(1 / divisor_override, t)
    elif not ceil_mode and (count_include_pad or not any(pads)):
        divisor = c.to(1 / (kernel[0] * kernel[1]), t)
    elif None in sizes or None in out:
        raise Unsupported("windows that differ, for symbolic sizes of the image")
    else:
        counts = [_counts(out[i], sizes[i], kernel[i], strides[i], pads[i], count_include_pad)
                  for i in range(2)]
        divisor = c.const((1 / torch.outer(*counts)).to(TORCH_TYPES[t]), t)
    scaled = c.op("Mul", grad, divisor)
    planes = c.reshape(scaled, [-1, 1, *c.sizes(grad)[-2:]])
    ones = c.const(torch.ones(1, 1, *kernel, dtype=TORCH_TYPES[t]), t)
    made = _spread(c, planes, ones, c.sizes(x)[-2:], sizes, out, kernel,
                   (strides, pads, [1, 1]), 1)
    return c.op("Reshape", made, c.dims(c.sizes(x)))


def _counts(rows: int, size: int, kernel: int, stride: int, pad: int,
            include: bool) -> torch.Tensor:
    """By how many elements of a line the windows of average pooling divide."""
    counts = []
    for i in range(rows):
        first = i * stride - pad
        last = min(first + kernel, size + pad)
        counts.append(last - first if include else min(last, size) - max(first, 0))
    return torch.tensor(counts, dtype=torch.float64)


def _shares(size: int, parts: int, dtype: torch.dtype) -> torch.Tensor:
    """The matrix whose product with a line of `size` gives the means of adaptive pooling."""
    matrix = torch.zeros(parts, size, dtype=torch.float64)
    for i in range(parts):
        first, last = i * size // parts, -(-(i + 1) * size // parts)
        matrix[i, first:last] = 1 / (last - first)
    return matrix.to(dtype)


@lower("_adaptive_avg_pool2d.default", wide=True)
def _adaptive_avg_pool2d(c: Lowering, x: Value, output_size: Sequence[Size]) -> Value:
    if list(output_size) == [1, 1]:
        return c.reduce("ReduceMean", x, [x.rank - 2, x.rank - 1], True)
    high, wide = x.shape[-2:]
    if high is None or wide is None or not all(isinstance(s, int) for s in output_size):
        raise Unsupported("symbolic sizes of the image")
    rows = c.const(_shares(high, output_size[0], TORCH_TYPES[x.dtype]), x.dtype)
    columns = c.const(_shares(wide, output_size[1], TORCH_TYPES[x.dtype]).t(), x.dtype)
    return c.op("MatMul", c.op("MatMul", rows, x), columns)


@lower("_adaptive_avg_pool2d_backward.default", wide=True)
def _adaptive_avg_pool2d_backward(c: Lowering, grad: Value, x: Value) -> Value:
    high, wide = x.shape[-2:]
    out = grad.shape[-2:]
    if high is None or wide is None or None in out:
        raise Unsupported("symbolic sizes of the image")
    if out == (1, 1):
        part = c.op("Mul", grad, c.to(1 / (high * wide), grad.dtype))
        return c.expand(part, c.sizes(x))
    rows = c.const(_shares(high, out[0], TORCH_TYPES[x.dtype]).t(), x.dtype)
    columns = c.const(_shares(wide, out[1], TORCH_TYPES[x.dtype]), x.dtype)
    return c.op("MatMul", c.op("MatMul", rows, grad), columns)


# ---- normalisations


def _moments(c: Lowering, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Mean, what is left of x without it, and the variance of the whole population."""
    mean = c.reduce("ReduceMean", x, axes, True)
    apart = c.op("Sub", x, mean)
    return mean, apart, c.reduce("ReduceMean", c.op("Mul", apart, apart), axes, True)


def _inverse_root(c: Lowering, variance: Value, eps: float) -> Value:
    return c.op("Reciprocal", c.op("Sqrt", c.op("Add", variance, c.to(eps, variance.dtype))))


@lower("native_layer_norm.default", wide=True)
def _layer_norm(c: Lowering, x: Value, normalized_shape: Sequence[Size], weight: Value | None,
                bias: Value | None, eps: float) -> list[Value | None]:
    many = len(normalized_shape)
    axes = list(range(x.rank - many, x.rank))
    if x.dtype == "f32" and weight is not None and not c.used(1) and not c.used(2):
        return [c.op("LayerNormalization", x, weight, bias, axis=-many, epsilon=eps), None, None]
    t = x.dtype
    mean, apart, variance = _moments(c, x, axes)
    rstd = _inverse_root(c, variance, eps)
    made = c.op("Mul", apart, rstd)
    if weight is not None:
        made = c.op("Mul", made, c.cast(weight, t))
    if bias is not None:
        made = c.op("Add", made, c.cast(bias, t))
    return [made, mean, rstd]


@lower("native_group_norm.default", wide=True)
def _group_norm(c: Lowering, x: Value, weight: Value | None, bias: Value | None, N: Size,
                C: Size, HxW: Size, group: int, eps: float) -> list[Value]:
    batch = c.size(x, 0)
    inner = c.times([c.size(x, 1), *c.sizes(x)[2:]])
    if not isinstance(inner, int):
        raise Unsupported("symbolic sizes of the image")
    grouped = c.reshape(x, [batch, group, inner // group])
    mean, apart, variance = _moments(c, grouped, [2])
    rstd = _inverse_root(c, variance, eps)
    made = c.reshape(c.op("Mul", apart, rstd), c.sizes(x))
    ones = [1] * (x.rank - 2)
    if weight is not None:
        made = c.op("Mul", made, c.reshape(weight, [C, *ones]))
    if bias is not None:
        made = c.op("Add", made, c.reshape(bias, [C, *ones]))
    return [made, c.squeeze(mean, 2), c.squeeze(rstd, 2)]


def _channel(c: Lowering, value: Value, rank: int) -> Value:
    """A value of each channel, beside an image of that rank."""
    return c.unsqueeze(value, *range(1, rank - 1)) if rank > 2 else value


def _normalised(c: Lowering, apart: Value, rstd: Value, weight: Value | None,
                bias: Value | None, rank: int) -> Value:
    scale = rstd if weight is None else c.op("Mul", rstd, _channel(c, weight, rank))
    made = c.op("Mul", apart, scale)
    return made if bias is None else c.op("Add", made, _channel(c, bias, rank))


def _batch_norm_train(c: Lowering, x: Value, weight: Value | None, bias: Value | None,
                      running: Sequence[Value | None], momentum: float,
                      eps: float) -> list[Value | None]:
    """Output, mean, 1 / deviation, and the new running mean and variance, if there are any."""
    if x.dtype not in ("f32", "f64") or any(
            v is not None and v.dtype != x.dtype for v in (weight, bias, *running)):
        raise Unsupported("statistics in another type")
    axes = [0, *range(2, x.rank)]
    mean, apart, variance = _moments(c, x, axes)
    rstd = _inverse_root(c, variance, eps)
    flat_mean, flat_variance = c.reshape(mean, [-1]), c.reshape(variance, [-1])
    output = _normalised(c, apart, rstd, weight, bias, x.rank)
    result: list[Value | None] = [output, flat_mean, c.reshape(rstd, [-1])]
    if running[0] is None or running[1] is None:
        return result
    count = c.times([c.size(x, axis) for axis in axes])
    if isinstance(count, int):
        unbiased = c.op("Mul", flat_variance, c.to(count / max(count - 1, 1), x.dtype))
    else:
        number = c.cast(count, x.dtype)
        rest = c.op("Sub", number, c.to(1, x.dtype))
        unbiased = c.op("Mul", flat_variance, c.op("Div", number, rest))
    for old, new in ((running[0], flat_mean), (running[1], unbiased)):
        kept = c.op("Mul", old, c.to(1 - momentum, x.dtype))
        result.append(c.op("Add", kept, c.op("Mul", new, c.to(momentum, x.dtype))))
    return result


def _batch_norm_infer(c: Lowering, x: Value, weight: Value | None, bias: Value | None,
                      mean: Value, variance: Value, eps: float) -> Value:
    if x.dtype not in FLOATS:
        raise Unsupported("of integers")
    if weight is not None and bias is not None and x.rank > 2:
        return c.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps)
    rstd = _channel(c, _inverse_root(c, variance, eps), x.rank)
    apart = c.op("Sub", x, _channel(c, mean, x.rank))
    return _normalised(c, apart, rstd, weight, bias, x.rank)


@lower("_native_batch_norm_legit_functional.default", "_native_batch_norm_legit.default")
def _batch_norm(c: Lowering, x: Value, weight: Value | None, bias: Value | None,
                running_mean: Value | None, running_var: Value | None, training: bool,
                momentum: float, eps: float) -> list[Value | None]:
    if not training:
        raise Unsupported("without training")
    return _batch_norm_train(c, x, weight, bias, (running_mean, running_var), momentum, eps)


@lower("_native_batch_norm_legit.no_stats")
def _batch_norm_no_stats(c: Lowering, x: Value, weight: Value | None, bias: Value | None,
                         training: bool, momentum: float, eps: float) -> list[Value | None]:
    return _batch_norm_train(c, x, weight, bias, (None, None), momentum, eps)


@lower("_batch_norm_with_update_functional.default")
def _batch_norm_update(c: Lowering, x: Value, weight: Value | None, bias: Value | None,
                       running_mean: Value, running_var: Value, momentum: float,
                       eps: float) -> list[Value | None]:
    made = _batch_norm_train(c, x, weight, bias, (running_mean, running_var), momentum, eps)
    reserve = c.full([0], 0, "u8")
    return [*made[:3], reserve, *made[3:]]


@lower("_native_batch_norm_legit_no_training.default")
def _batch_norm_no_training(c: Lowering, x: Value, weight: Value | None, bias: Value | None,
                            running_mean: Value, running_var: Value, momentum: float,
                            eps: float) -> list[Value | None]:
    made = _batch_norm_infer(c, x, weight, bias, running_mean, running_var, eps)
    empty = c.full([0], 0, c.type_at(1))
    return [made, empty, empty]


# ---- attention


def _attended(c: Lowering, scores: Value, mask: Value | None, log_sum: Value | None) -> Value:
    """The softmax of scores; of rows that a mask leaves nothing of zeros, as in torch."""
    if log_sum is None:
        made = c.op("Softmax", scores, axis=-1)
    else:
        made = c.op("Exp", c.op("Sub", scores, log_sum))
    if mask is None:
        return made
    most = c.reduce("ReduceMax", scores, [3], True)
    gone = c.op("Equal", most, c.to(float("-inf"), scores.dtype), dtype="bool")
    return c.op("Where", gone, c.to(0, scores.dtype), made, dtype=scores.dtype)


def _scores(c: Lowering, q: Value, k: Value, mask: Value | None, causal: bool,
            scale: float | None) -> Value:
    width = q.shape[-1]
    if width is None:
        raise Unsupported("symbolic widths of a head")
    factor = scale if scale is not None else width ** -0.5
    transposed = c.permute(k, [0, 1, 3, 2])
    scores = c.op("MatMul", c.op("Mul", q, c.to(factor, q.dtype)), transposed)
    if causal:
        rows, columns = q.shape[-2], k.shape[-2]
        if rows is None or columns is None:
            ones = c.full([c.size(q, 2), c.size(k, 2)], 1, "f32")
            low = c.cast(c.op("Trilu", ones, upper=0), "bool")
        else:
            low = c.const(torch.ones(rows, columns, dtype=torch.bool).tril(), "bool")
        scores = c.op("Where", low, scores, c.to(float("-inf"), q.dtype), dtype=q.dtype)
    if mask is not None:
        if mask.dtype == "bool":
            scores = c.op("Where", mask, scores, c.to(float("-inf"), q.dtype), dtype=q.dtype)
        else:
            scores = c.op("Add", scores, c.cast(mask, q.dtype))
    return scores


@lower("_scaled_dot_product_flash_attention_for_cpu.default", wide=True)
def _attention(c: Lowering, query: Value, key: Value, value: Value, dropout_p: float = 0.0,
               is_causal: bool = False, attn_mask: Value | None = None,
               scale: float | None = None) -> list[Value | None]:
    if dropout_p:
        raise Unsupported("dropout within")
    scores = _scores(c, query, key, attn_mask, is_causal, scale)
    shares = _attended(c, scores, attn_mask, None)
    made = c.op("MatMul", shares, value)
    log_sum = None
    if c.used(1):
        log_sum = c.op("ReduceLogSumExp", scores, c.ints([3]), keepdims=0)
    return [made, log_sum]


@lower("_scaled_dot_product_flash_attention_for_cpu_backward.default", wide=True)
def _attention_backward(c: Lowering, grad: Value, query: Value, key: Value, value: Value,
                        out: Value, logsumexp: Value, dropout_p: float, is_causal: bool,
                        attn_mask: Value | None = None,
                        scale: float | None = None) -> list[Value]:
    if dropout_p:
        raise Unsupported("dropout within")
    t = query.dtype
    scores = _scores(c, query, key, attn_mask, is_causal, scale)
    shares = _attended(c, scores, attn_mask, c.cast(c.unsqueeze(logsumexp, 3), t))
    factor = c.to(scale if scale is not None else query.shape[-1] ** -0.5, t)
    turn = [0, 1, 3, 2]
    grad_value = c.op("MatMul", c.permute(shares, turn), grad)
    grad_shares = c.op("MatMul", grad, c.permute(value, turn))
    rows = c.reduce("ReduceSum", c.op("Mul", grad, out), [3], True)
    grad_scores = c.op("Mul", c.op("Mul", shares, c.op("Sub", grad_shares, rows)), factor)
    return [c.op("MatMul", grad_scores, key),
            c.op("MatMul", c.permute(grad_scores, turn), query), grad_value]


# ---- images


@lower("pixel_shuffle.default")
def _pixel_shuffle(c: Lowering, x: Value, upscale_factor: int) -> Value:
    if x.rank != 4:
        raise Unsupported("of another rank than 4")
    return c.op("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")


@lower("upsample_nearest2d.vec", "upsample_nearest1d.vec", "upsample_nearest3d.vec")
def _upsample_nearest(c: Lowering, x: Value, output_size: Any, scale_factors: Any) -> Value:
    if any(size is None for size in x.shape) or not all(
            isinstance(size, int) for size in c.out.shape):
        raise Unsupported("symbolic sizes")
    if scale_factors is not None and any(
            int(x.shape[i + 2] * f) != x.shape[i + 2] * f or f != int(f)
            for i, f in enumerate(scale_factors)):
        raise Unsupported("scales that are not whole")
    return c.op("Resize", x, None, None, c.ints([int(size) for size in c.out.shape]),
                mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor")


def _resize(c: Lowering, x: Value, mode: str, align_corners: bool,
            scales: Sequence[Any]) -> Value:
    sizes = [int(size) if isinstance(size, int) else None for size in c.out.shape]
    if None in sizes or None in x.shape:
        raise Unsupported("symbolic sizes")
    if not align_corners:
        for old, new, scale in zip(x.shape[2:], sizes[2:], scales):
            if scale is not None and old * scale != new:
                raise Unsupported("a scale that is not the sizes' own")
    how = "align_corners" if align_corners else "half_pixel" if mode == "cubic" else \
        "pytorch_half_pixel"
    return c.op("Resize", x, None, None, c.ints(sizes), mode=mode,  # type: ignore[arg-type]
                coordinate_transformation_mode=how)


def _upsample(mode: str, target: str) -> None:
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value, output_size: Any, align_corners: bool,
                 scales_h: Any = None, scales_w: Any = None) -> Value:
        return _resize(c, x, mode, align_corners, (scales_h, scales_w))


_upsample("linear", "upsample_bilinear2d")
_upsample("cubic", "upsample_bicubic2d")


@lower("grid_sampler_2d.default", wide=True)
def _grid_sample(c: Lowering, x: Value, grid: Value, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Value:
    return c.op("GridSample", x, grid, align_corners=int(align_corners),
                mode=("linear", "nearest", "cubic")[interpolation_mode],
                padding_mode=("zeros", "border", "reflection")[padding_mode])


# ---- recurrent


@lower("mkldnn_rnn_layer.default")
def _lstm_layer(c: Lowering, x: Value, w_input: Value, w_hidden: Value, b_input: Value,
                b_hidden: Value, hx: Value, cx: Value, reverse: bool, batch_sizes: Any,
                mode: int, hidden_size: int, num_layers: int, has_biases: bool,
                bidirectional: bool, batch_first: bool, train: bool) -> list[Value | None]:
    """One layer, one direction, as torch splits a whole one for inference."""
    if mode != 2 or num_layers != 1 or bidirectional or batch_first or train or batch_sizes:
        raise Unsupported("another form than a layer of an LSTM in one direction, time first")

    def transposed(weights: Value) -> Value:
        """From torch's order of gates to ONNX's, with a dimension for directions."""
        i, f, g, o = c.ops("Split", weights, dtypes=[x.dtype] * 4, axis=0, num_outputs=4)
        return c.unsqueeze(c.op("Concat", i, o, f, g, axis=0), 0)

    bias = None
    if has_biases:
        bias = c.op("Concat", transposed(b_input), transposed(b_hidden), axis=1)
    y, y_h, y_c = c.ops("LSTM", x, transposed(w_input), transposed(w_hidden), bias, None, hx, cx,
                        dtypes=[x.dtype] * 3, hidden_size=hidden_size,
                        direction="reverse" if reverse else None)
    return [c.squeeze(y, 1), y_h, y_c, None]
