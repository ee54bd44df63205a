"""Numbers, bounds and counts beside tensors: calls of overloads that keel.torch lowers, with
numbers just inside and outside of each type's range."""
import math

import torch

aten = torch.ops.aten
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
            torch.uint32, torch.uint64)
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)


def values(dtype):
    """Elements: the ends of the type, and some between them."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True])
    if dtype in INTEGERS:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        return torch.tensor([0, 1, 5, least, least + 1, most, most - 1, 7, 100], dtype=dtype)
    big = {torch.float16: 65504.0, torch.bfloat16: 3e38}.get(dtype, 1e30)
    return torch.tensor([0.0, -0.0, 1, 2.5, -0.5, 0.1, 100, 300, 1000, big, -big, 1e-5,
                         math.inf, -math.inf, math.nan], dtype=dtype)


def numbers(dtype):
    if dtype == torch.bool:
        return [True, 0, 2, -1, 2.5]
    if dtype in INTEGERS:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        wide = [number for number in (least - 1, most + 1, 2 ** 40, 300, -300)
                if -2 ** 63 <= number < 2 ** 63]
        return [0, 1, -1, 3, -5, 7, least, min(most, 2 ** 63 - 1), *wide, True, 2.5, -0.5, 1e10]
    return [0, 1, -1, 3, 0.5, 0.3337, 1.0001, 0.999, 1e-6, 1e-9, 65504, 65505.5, 70000, 1e5, -1e5,
            3.4e38, 1e39, 2 ** 24 + 1, math.inf, math.nan]


def tensors(number):
    """The same number as tensors of no dimension, of other types than what they meet."""
    if isinstance(number, bool):
        return [torch.tensor(number)]
    if isinstance(number, int):
        return [torch.tensor(number)]
    return [torch.tensor(number, dtype=dtype) for dtype in (torch.float32, torch.float64)]


def _binary(x, number):
    for name in ("add", "sub", "mul", "div", "remainder", "fmod", "bitwise_and", "bitwise_or",
                 "bitwise_xor", "eq", "ne", "lt", "le", "gt", "ge"):
        packet = getattr(aten, name)
        yield packet.Scalar, x, number
        for other in tensors(number):
            yield packet.Tensor, x, other
            yield packet.Tensor, other, x
    yield aten.rsub.Scalar, x, number
    yield aten.remainder.Scalar_Tensor, number, x
    if number != 2 ** 24 + 1:  # which is even as f32, and odd in eager torch
        yield aten.pow.Tensor_Scalar, x, number
    yield aten.pow.Scalar, number, x
    for mode in ("floor", "trunc"):
        if mode == "floor" or number != -1:
            yield aten.div.Scalar_mode, x, number, dict(rounding_mode=mode)
    for other in tensors(number):
        yield aten.rsub.Tensor, x, other
        yield aten.pow.Tensor_Tensor, x, other
        yield aten.floor_divide.default, x, other
        yield aten.true_divide.Tensor, x, other
        for packet in (aten.maximum, aten.minimum, aten.fmax, aten.fmin, aten.atan2,
                       aten.logical_and, aten.logical_or, aten.logical_xor):
            yield packet.default, x, other
        for mode in ("floor", "trunc"):
            if mode == "floor" or number != -1:  # least / -1 ends the process in eager torch
                yield aten.div.Tensor_mode, x, other, dict(rounding_mode=mode)
    if number >= 0:
        yield aten.lerp.Scalar, x, x.flip(0), number


def _alphas(x, number):
    """Without differences of what is almost the same, in which each rounding shows."""
    if x.dtype in HALVES and 0 < abs(number) < 1e5 and number not in (1, 3, 0.5, 65504):
        return
    if abs(number) > 1e30 and x.dtype == torch.float32:
        return
    many = x if x.dtype in (torch.bool, *INTEGERS) else x * 4
    for packet in (aten.add, aten.sub, aten.rsub):
        yield packet.Tensor, many, x, dict(alpha=number)
        yield packet.Scalar, x, 7, dict(alpha=number)


def _bounds(x, number):
    other = x[1].item() if x.dtype != torch.bool else True
    for low, high in ((number, None), (None, number), (number, other), (other, number)):
        yield aten.clamp.default, x, low, high
    yield aten.clamp_min.default, x, number
    yield aten.clamp_max.default, x, number
    yield aten.hardtanh.default, x, number, 5
    yield aten.hardtanh.default, x, 1, number
    for bound in tensors(number):
        yield aten.clamp.Tensor, x, bound, None
        yield aten.clamp.Tensor, x, bound, torch.tensor(5)
        yield aten.clamp.Tensor, x, bound.reshape(1), None
        yield aten.clamp_min.Tensor, x, bound
        yield aten.clamp_max.Tensor, x, bound


def _choices(x, number):
    mask = torch.arange(x.numel()) % 2 == 0
    yield aten.masked_fill.Scalar, x, mask, number
    yield aten.where.ScalarOther, mask, x, number
    yield aten.where.ScalarSelf, mask, number, x
    yield aten.where.Scalar, mask, number, 1
    for other in tensors(number):
        yield aten.masked_fill.Tensor, x, mask, other
        yield aten.where.self, mask, x, other
        yield aten.index_put.default, x, [mask], other
    index = torch.tensor([0, 2])
    yield aten.scatter.value, x, 0, index, number
    yield aten.scatter.value_reduce, x, 0, index, number, dict(reduce="add")
    yield aten.index_add.default, x, 0, index, x[:2], dict(alpha=number)
    yield aten.constant_pad_nd.default, x, [1, 2], number
    yield aten.threshold_backward.default, x, x, number


def _made(x, number):
    dtype = x.dtype
    yield aten.full.default, [2, 3], number, dict(dtype=dtype)
    yield aten.full_like.default, x, number
    yield aten.new_full.default, x, [2], number
    yield aten.scalar_tensor.default, number, dict(dtype=dtype)


def _products(x, number):
    if not math.isfinite(number):
        return
    a = x[:4].repeat(2)[:4].reshape(2, 2)
    yield aten.addcmul.default, x, x, x, dict(value=number)
    yield aten.addcdiv.default, x, x, x.flip(0), dict(value=number)
    yield aten.addmm.default, a, a, a, dict(alpha=number, beta=1)
    yield aten.addmm.default, a, a, a, dict(alpha=1, beta=number)
    yield aten.addmv.default, a[0], a, a[0], dict(alpha=number, beta=number)
    yield aten.baddbmm.default, a[None], a[None], a[None], dict(alpha=number, beta=2)


def _activations(x, number):
    if not abs(number) < 1e38:
        return
    yield aten.leaky_relu.default, x, number
    yield aten.elu.default, x, number
    yield aten.elu.default, x, 1.5, number
    yield aten.softplus.default, x, number
    if number < 80:  # beyond, the exponential of eager torch is infinite
        yield aten.softplus.default, x, 1, number


def calls(dtype):
    """(overload, arguments, named arguments) for elements of a type."""
    x = values(dtype)
    groups = [_binary, _alphas, _bounds, _choices, _made, _products]
    if dtype in FLOATS:
        groups.append(_activations)
    for number in numbers(dtype):
        for group in groups:
            for overload, *rest in group(x, number):
                named = rest.pop() if isinstance(rest[-1], dict) else {}
                yield overload, rest, named


def plain(dtype):
    """Calls without a number, whose steps or counts may not fit into a half."""
    x = torch.linspace(-3, 3, 24).to(dtype)
    y = x.flip(0) * 0.37
    many = (torch.arange(70000) % 7 / 8).to(dtype)
    image = torch.linspace(-2, 300, 2 * 3 * 7 * 9).to(dtype).reshape(2, 3, 7, 9)
    lines = x.reshape(4, 6)
    for name in ("acos", "asin", "atan", "cos", "erf", "exp", "exp2", "expm1", "log1p", "neg",
                 "reciprocal", "sigmoid", "sign", "sgn", "sin", "sqrt", "tan", "tanh", "relu",
                 "abs", "ceil", "floor", "round", "trunc", "fix", "frac", "rsqrt", "square", "log",
                 "log2", "log10", "sinh", "cosh", "asinh", "atanh", "acosh", "gelu", "silu",
                 "hardsigmoid", "hardswish", "mish", "isnan", "isinf", "logical_not"):
        yield getattr(aten, name).default, [x], {}
    for name in ("silu_backward", "sigmoid_backward", "tanh_backward", "atan2", "fmax", "fmin"):
        yield getattr(aten, name).default, [y, x], {}
    yield aten.lerp.Tensor, [x, y, x.abs() / 3], {}
    yield aten.addcmul.default, [x, y, y], {}
    yield aten.addcdiv.default, [x, y, y], {}
    for correction in (0, 1, 2.5):
        for packet in (aten.var, aten.std, aten.var_mean):
            yield packet.correction, [many], dict(correction=correction)
            yield packet.correction, [lines, [1]], dict(correction=correction)
    for name in ("mean", "amax", "amin", "max", "min", "sum"):
        yield getattr(aten, name).default, [many / 16], {}
    yield aten.prod.default, [y], {}
    for packet in (aten.max, aten.min):
        yield packet.dim, [lines, 1], {}
    yield aten.sum.dim_IntList, [many.reshape(2, -1) / 16, [1]], {}
    yield aten.prod.dim_int, [lines, 1], {}
    yield aten.mean.dim, [many.reshape(2, -1), [1]], {}
    yield aten.logsumexp.default, [lines, [1]], {}
    yield aten.linalg_vector_norm.default, [many], {}
    yield aten.linalg_vector_norm.default, [lines * 100, 2, [1]], {}
    yield aten._softmax.default, [lines, 1, False], {}
    yield aten._log_softmax.default, [lines, 1, False], {}
    yield aten.cumsum.default, [lines, 1], {}
    yield aten.scatter_reduce.two, [torch.zeros(2, dtype=dtype), 0, torch.arange(70000) % 2, many,
                                    "mean"], {}
    yield aten.avg_pool2d.default, [image, [3, 3], [2, 2], [1, 1], False, False], {}
    yield aten.avg_pool2d.default, [image, [2, 3], [2, 2], [0, 0], False, True, 7], {}
    yield aten.avg_pool2d_backward.default, [image[:, :, :3, :4], image[:, :, :, :8], [3, 3],
                                             [2, 2], [0, 0], False, True, None], {}
    yield aten._adaptive_avg_pool2d.default, [image, [3, 4]], {}
    yield aten._adaptive_avg_pool2d.default, [image, [1, 1]], {}
    yield aten._adaptive_avg_pool2d_backward.default, [image[:, :, :3, :4], image], {}
    yield aten.native_layer_norm.default, [lines, [6], lines[0], lines[1], 1e-5], {}
    yield aten.native_group_norm.default, [image, image[0, 0, 0, :3], None, 2, 3, 63, 1, 1e-5], {}


def needs_no_numbers(name):
    """Overloads that move elements, or compute one step from tensors alone."""
    return name.split(".")[1] in _MOVES


_MOVES = set("""
alias all any arange argmax argmin bitwise_not bmm cat clone contiguous copy detach diagonal dot
embedding empty empty_like empty_permuted expand expand_copy eye flip gather grid_sampler_2d index
index_select lift_fresh_copy narrow new_empty new_ones new_zeros one_hot ones ones_like permute
permute_copy pixel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d repeat
replication_pad1d replication_pad2d replication_pad3d reshape roll select select_scatter slice
slice_scatter sort split split_with_sizes squeeze stack t topk transpose tril triu unbind unfold
unsafe_split unsqueeze view view_copy zeros zeros_like _to_copy _unsafe_index _unsafe_index_put
_unsafe_view convert_element_type device_put iota mm mv convolution convolution_backward
max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
max_pool3d_with_indices_backward mkldnn_rnn_layer upsample_bicubic2d upsample_bilinear2d
upsample_nearest1d upsample_nearest2d upsample_nearest3d avg_pool1d avg_pool3d scatter
scatter_add scatter_reduce _prelu_kernel fma _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training
_batch_norm_with_update_functional _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_flash_attention_for_cpu_backward transpose
""".split())
