"""Lowerings: arithmetic, comparisons, reductions, products."""
from __future__ import annotations

import math
from typing import Any

import torch

from ._values import (FLOATS, HALVES, Lowering, Unsupported, Value, axes_of, holds, lower,
                      only_fits, range_of)

# ---- one element each: in the type of the result


def _unary(op: str, *targets: str, **attrs: Any) -> None:
    @lower(*targets)
    def function(c: Lowering, x: Value) -> Value:
        return c.op(op, c.cast(x, c.out_type), **attrs)


for _op, _target in {
        "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
        "Atanh": "atanh", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Log": "log",
        "Neg": "neg", "Reciprocal": "reciprocal", "Sigmoid": "sigmoid", "Sin": "sin",
        "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "Relu": "relu"}.items():
    _unary(_op, f"{_target}.default")


def _keeps_ints(op: str, target: str) -> None:
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value) -> Value:
        return c.op(op, x) if x.dtype in FLOATS else c.op("Identity", x)


for _op, _target in {"Ceil": "ceil", "Floor": "floor", "Round": "round"}.items():
    _keeps_ints(_op, _target)


@lower("abs.default")
def _abs(c: Lowering, x: Value) -> Value:
    return c.op("Identity" if x.dtype == "bool" else "Abs", x)


@lower("sign.default", "sgn.default")
def _sign(c: Lowering, x: Value) -> Value:
    t = x.dtype
    if t == "bool":
        return c.op("Identity", x)
    if t not in FLOATS:
        return c.op("Sign", x)
    # of NaN it is 0
    zero = c.to(0, t)
    return c.op("Sub", c.cast(c.op("Greater", x, zero, dtype="bool"), t),
                c.cast(c.op("Less", x, zero, dtype="bool"), t))


@lower("trunc.default", "fix.default")
def _trunc(c: Lowering, x: Value) -> Value:
    if x.dtype not in FLOATS:
        return c.op("Identity", x)
    return _truncated(c, x)


def _truncated(c: Lowering, x: Value) -> Value:
    down, up = c.op("Floor", x), c.op("Ceil", x)
    return c.op("Where", c.op("Less", x, c.to(0, x.dtype), dtype="bool"), up, down,
                dtype=x.dtype)


@lower("frac.default")
def _frac(c: Lowering, x: Value) -> Value:
    return c.op("Sub", x, _truncated(c, x))


@lower("rsqrt.default", wide=True)
def _rsqrt(c: Lowering, x: Value) -> Value:
    return c.op("Reciprocal", c.op("Sqrt", c.cast(x, c.out_type)))


@lower("square.default", wide=True)
def _square(c: Lowering, x: Value) -> Value:
    return c.op("Mul", x, x)


def _log_by(target: str, base: float) -> None:
    @lower(f"{target}.default", wide=True)
    def function(c: Lowering, x: Value) -> Value:
        t = c.out_type
        return c.op("Mul", c.op("Log", c.cast(x, t)), c.to(1 / math.log(base), t))


_log_by("log2", 2)
_log_by("log10", 10)


@lower("exp2.default", wide=True)
def _exp2(c: Lowering, x: Value) -> Value:
    return c.op("Pow", c.to(2, c.out_type), c.cast(x, c.out_type))


@lower("expm1.default", wide=True)
def _expm1(c: Lowering, x: Value) -> Value:
    """2 t / (1 - t) with t = tanh(x / 2), which keeps the digits near 0; exp(x) - 1 elsewhere."""
    t = c.out_type
    x = c.cast(x, t)
    small = c.op("Tanh", c.op("Mul", x, c.to(0.5, t)))
    near = c.op("Div", c.op("Mul", small, c.to(2, t)), c.op("Sub", c.to(1, t), small))
    far = c.op("Sub", c.op("Exp", x), c.to(1, t))
    is_near = c.op("Less", c.op("Abs", x), c.to(0.5, t), dtype="bool")
    return c.op("Where", is_near, near, far, dtype=t)


@lower("log1p.default", wide=True)
def _log1p(c: Lowering, x: Value) -> Value:
    """x log(u) / (u - 1) with u = 1 + x: the errors of u cancel. Where u is 1 it is x."""
    t = c.out_type
    x = c.cast(x, t)
    one = c.to(1, t)
    u = c.op("Add", x, one)
    less = c.op("Sub", u, one)
    log = c.op("Log", u)
    plain = c.op("Or", c.op("Equal", less, c.to(0, t), dtype="bool"),
                 c.op("IsInf", u, dtype="bool"))
    safe = c.op("Where", plain, one, less, dtype=t)
    exact = c.op("Mul", log, c.op("Div", x, safe))
    return c.op("Where", plain, c.op("Where", c.op("IsInf", u, dtype="bool"), log, x, dtype=t),
                exact, dtype=t)


@lower("logical_not.default")
def _logical_not(c: Lowering, x: Value) -> Value:
    return c.op("Not", c.cast(x, "bool"))


@lower("bitwise_not.default")
def _bitwise_not(c: Lowering, x: Value) -> Value:
    return c.op("Not" if x.dtype == "bool" else "BitwiseNot", x)


def _is(op: str, target: str) -> None:
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value) -> Value:
        if x.dtype not in FLOATS:
            return c.full(c.sizes(x), False, "bool")
        return c.op(op, x, dtype="bool")


_is("IsNaN", "isnan")
_is("IsInf", "isinf")


# ---- two operands


def _times_alpha(c: Lowering, op: str, value: Value, alpha: Any) -> Value:
    if isinstance(alpha, (int, float)):
        if alpha == 1:
            return value
        if op == "Sub" and value.dtype[0] == "i" and not holds(value.dtype, -alpha):
            raise Unsupported(f"{-alpha} as {value.dtype}")  # torch adds the negative
    return c.op("Mul", value, c.to(alpha, value.dtype))


def _arithmetic(op: str, logic: str | None, *targets: str, wide: bool = False) -> None:
    @lower(*targets, wide=wide)
    def function(c: Lowering, x: Any, y: Any, alpha: Any = 1) -> Value:
        t = c.out_type
        if t == "bool":
            if logic is None or alpha is not True and alpha != 1:
                raise Unsupported("of bools")
            return c.op(logic, c.to(x, t), c.to(y, t))
        a, b = c.rounded(x), c.to(y, t)
        return c.op(op, a, _times_alpha(c, op, b, alpha))


_arithmetic("Add", "Or", "add.Tensor", "add.Scalar")
_arithmetic("Sub", None, "sub.Tensor", "sub.Scalar")
_arithmetic("Mul", "And", "mul.Tensor", "mul.Scalar", wide=True)
_arithmetic("Max", "Or", "maximum.default")
_arithmetic("Min", "And", "minimum.default")


@lower("rsub.Tensor", "rsub.Scalar")
def _rsub(c: Lowering, x: Value, y: Any, alpha: Any = 1) -> Value:
    t = c.out_type
    return c.op("Sub", c.to(y, t), _times_alpha(c, "Sub", c.to(x, t), alpha))


@lower("div.Tensor", "div.Scalar", "true_divide.Tensor", wide=True)
def _div(c: Lowering, x: Value, y: Any) -> Value:
    return c.op("Div", c.rounded(x), c.to(y, c.out_type))


def _divisor(c: Lowering, y: Any, t: str) -> Value:
    """What is divided by, as a value. By an integer 0 torch raises, which Keel does not."""
    if t not in FLOATS and (not y if isinstance(y, (int, float)) else
                            isinstance(y.fake, torch.Tensor)):
        raise Unsupported("a divisor of integers that may be 0")
    return c.to(y, t)


def _floor_div(c: Lowering, a: Value, b: Value) -> Value:
    if a.dtype in FLOATS:
        # as torch computes it, so that the last digit of the quotient agrees
        rest = c.op("Mod", a, b, fmod=1)
        exact = c.op("Div", c.op("Sub", a, rest), b)
        zero = c.to(0, a.dtype)
        apart = c.op("And", c.op("Not", c.op("Equal", rest, zero, dtype="bool")),
                     c.op("Xor", c.op("Less", b, zero, dtype="bool"),
                          c.op("Less", rest, zero, dtype="bool")))
        exact = c.op("Sub", exact, c.cast(apart, a.dtype))
        rounded = c.op("Floor", c.op("Add", exact, c.to(0.5, a.dtype)))
        by_zero = c.op("Equal", b, zero, dtype="bool")
        return c.op("Where", by_zero, c.op("Div", a, b), rounded, dtype=a.dtype)
    quotient = c.op("Div", a, b)  # towards 0
    if a.dtype[0] == "u":
        return quotient
    rest = c.op("Mod", a, b, fmod=1)
    zero = c.to(0, a.dtype)
    apart = c.op("And", c.op("Not", c.op("Equal", rest, zero, dtype="bool")),
                 c.op("Xor", c.op("Less", b, zero, dtype="bool"),
                      c.op("Less", rest, zero, dtype="bool")))
    return c.op("Sub", quotient, c.cast(apart, a.dtype))


@lower("div.Tensor_mode", "div.Scalar_mode", wide=True)
def _div_mode(c: Lowering, x: Value, y: Any, rounding_mode: str | None = None) -> Value:
    t = c.out_type
    a, b = c.rounded(x), _divisor(c, y, t)
    if rounding_mode is None:
        return c.op("Div", a, b)
    if rounding_mode == "floor":
        return _floor_div(c, a, b)
    quotient = c.op("Div", a, b)
    return quotient if t not in FLOATS else _truncated(c, quotient)


@lower("floor_divide.default", wide=True)
def _floor_divide(c: Lowering, x: Value, y: Any) -> Value:
    t = c.out_type
    return _floor_div(c, c.rounded(x), _divisor(c, y, t))


@lower("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def _remainder(c: Lowering, x: Any, y: Any) -> Value:
    t = c.out_type
    return c.op("Mod", c.to(x, t), _divisor(c, y, t))


@lower("fmod.Tensor", "fmod.Scalar")
def _fmod(c: Lowering, x: Value, y: Any) -> Value:
    t = c.out_type
    return c.op("Mod", c.to(x, t), _divisor(c, y, t), fmod=1)


@lower("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(c: Lowering, x: Any, y: Any) -> Value:
    t = c.out_type
    if y in (2, 3) and isinstance(y, (int, float)):
        a = c.to(x, t)
        squared = c.op("Mul", a, a)
        return squared if y == 2 else c.op("Mul", squared, a)
    if isinstance(y, (int, float)) and y in (0.5, -0.5, 1, -1) and t in FLOATS:
        a = c.to(x, t)
        if abs(y) == 0.5:
            a = c.op("Sqrt", a)
        return c.op("Reciprocal", a) if y < 0 else c.op("Identity", a)
    if t not in FLOATS and not (isinstance(y, (int, float)) and y >= 0):
        raise Unsupported("integer powers that are tensors, or negative")
    return c.op("Pow", c.to(x, t), c.to(y, t))


def _number_of(op: str, target: str) -> None:
    """The larger or smaller one, where NaN loses."""
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value, y: Value) -> Value:
        t = c.out_type
        a, b = c.to(x, t), c.to(y, t)
        if t not in FLOATS:
            return c.op(op, a, b)
        made = c.op("Where", c.op("IsNaN", b, dtype="bool"), a, c.op(op, a, b), dtype=t)
        return c.op("Where", c.op("IsNaN", a, dtype="bool"), b, made, dtype=t)


_number_of("Max", "fmax")
_number_of("Min", "fmin")


@lower("atan2.default", wide=True)
def _atan2(c: Lowering, y: Value, x: Value) -> Value:
    """atan(y / x), turned by half a circle to y's side where x is negative; the signs of zeros
    are those of 1 / x and 1 / y."""
    t = c.out_type
    y, x = c.to(y, t), c.to(x, t)
    zero, one, half = c.to(0, t), c.to(1, t), c.to(math.pi / 2, t)

    def negative(value: Value) -> Value:
        at_zero = c.op("Less", c.op("Div", one, value), zero, dtype="bool")
        return c.op("Where", c.op("Equal", value, zero, dtype="bool"), at_zero,
                    c.op("Less", value, zero, dtype="bool"), dtype="bool")

    # the quotient of the smaller by the larger: infinities and zeros give a number
    a, b = c.op("Abs", y), c.op("Abs", x)
    steep = c.op("Greater", a, b, dtype="bool")
    low, high = c.op("Min", a, b), c.op("Max", a, b)
    equal = c.op("Equal", low, high, dtype="bool")
    shares = c.op("Where", equal, one, c.op("Div", low, high), dtype=t)
    shares = c.op("Where", c.op("Equal", high, zero, dtype="bool"), zero, shares, dtype=t)
    angle = c.op("Atan", shares)
    angle = c.op("Where", steep, c.op("Sub", half, angle), angle, dtype=t)
    angle = c.op("Where", negative(x), c.op("Sub", c.to(math.pi, t), angle), angle, dtype=t)
    angle = c.op("Where", negative(y), c.op("Neg", angle), angle, dtype=t)
    unknown = c.op("Or", c.op("IsNaN", x, dtype="bool"), c.op("IsNaN", y, dtype="bool"))
    return c.op("Where", unknown, c.op("Add", x, y), angle, dtype=t)


def _clip(c: Lowering, x: Value, low: Any, high: Any) -> Value:
    t = c.out_type
    x = c.to(x, t)
    if t not in FLOATS and t != "bool":  # a bound beyond the type's range is none
        least, most = range_of(t)
        if isinstance(low, (int, float)) and low <= least:
            low = None
        if isinstance(high, (int, float)) and high >= most:
            high = None
    if low is not None:
        x = c.op("Max", x, c.to(low, t))
    if high is not None:
        x = c.op("Min", x, c.to(high, t))
    return x


@lower("clamp.default", "clamp.Tensor")
def _clamp(c: Lowering, x: Value, min: Any = None, max: Any = None) -> Value:
    return _clip(c, x, min, max)


@lower("clamp_min.default", "clamp_min.Tensor")
def _clamp_min(c: Lowering, x: Value, min: Any) -> Value:
    return _clip(c, x, min, None)


@lower("clamp_max.default", "clamp_max.Tensor")
def _clamp_max(c: Lowering, x: Value, max: Any) -> Value:
    return _clip(c, x, None, max)


@lower("hardtanh.default")
def _hardtanh(c: Lowering, x: Value, min_val: Any = -1, max_val: Any = 1) -> Value:
    return _clip(c, x, min_val, max_val)


def _logical(op: str, target: str) -> None:
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value, y: Value) -> Value:
        t = c.common(x, y)  # in which a small number may become 0
        return c.op(op, c.cast(c.cast(x, t), "bool"), c.cast(c.cast(y, t), "bool"))


for _op, _target in {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}.items():
    _logical(_op, _target)


def _bitwise(op: str, target: str) -> None:
    @lower(f"{target}.Tensor", f"{target}.Scalar")
    def function(c: Lowering, x: Any, y: Any) -> Value:
        t = c.out_type
        return c.op(op if t == "bool" else "Bitwise" + op, c.to(x, t), c.to(y, t))


for _op, _target in {"And": "bitwise_and", "Or": "bitwise_or", "Xor": "bitwise_xor"}.items():
    _bitwise(_op, _target)


def _compare(op: str, negate: bool, target: str) -> None:
    @lower(f"{target}.Tensor", f"{target}.Scalar")
    def function(c: Lowering, x: Value, y: Any) -> Value:
        t = c.common(x, y)
        if t == "bool" and op != "Equal":
            t = "u8"
        made = c.op(op, c.to(x, t), c.to(y, t), dtype="bool")
        return c.op("Not", made) if negate else made


for _op, _target in {"Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt",
                     "LessOrEqual": "le"}.items():
    _compare(_op, False, _target)
_compare("Equal", True, "ne")


@lower("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(c: Lowering, condition: Value, x: Any, y: Any) -> Value:
    t = c.out_type
    return c.op("Where", c.cast(condition, "bool"), c.to(x, t), c.to(y, t), dtype=t)


@lower("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(c: Lowering, x: Value, mask: Value, value: Any) -> Value:
    t = c.out_type
    only_fits(value, t)
    return c.op("Where", mask, c.to(value, t), c.to(x, t), dtype=t)


@lower("addcmul.default", wide=True)
def _addcmul(c: Lowering, x: Value, a: Value, b: Value, value: Any = 1) -> Value:
    t = c.out_type
    product = c.op("Mul", _scaled(c, c.to(a, t), value), c.to(b, t))
    return c.op("Add", c.to(x, t), product)


@lower("prims.fma.default", wide=True)
def _fma(c: Lowering, a: Value, b: Value, x: Value) -> Value:
    t = c.out_type
    return c.op("Add", c.op("Mul", c.to(a, t), c.to(b, t)), c.to(x, t))


@lower("addcdiv.default", wide=True)
def _addcdiv(c: Lowering, x: Value, a: Value, b: Value, value: Any = 1) -> Value:
    t = c.out_type
    product = c.op("Div", _scaled(c, c.to(a, t), value), c.to(b, t))
    return c.op("Add", c.to(x, t), product)


@lower("lerp.Scalar", "lerp.Tensor", wide=True)
def _lerp(c: Lowering, x: Value, end: Value, weight: Any) -> Value:
    """From the nearer end, as torch does: of weight 1 it is the end itself."""
    t = c.out_type
    a, b, part = c.to(x, t), c.to(end, t), c.to(weight, t)
    apart = c.op("Sub", b, a)
    low = c.op("Add", a, c.op("Mul", part, apart))
    high = c.op("Sub", b, c.op("Mul", apart, c.op("Sub", c.to(1, t), part)))
    if isinstance(weight, (int, float)):
        return low if abs(weight) < 0.5 else high
    near = c.op("Less", c.op("Abs", part), c.to(0.5, t), dtype="bool")
    return c.op("Where", near, low, high, dtype=t)


# ---- activations


@lower("gelu.default")
def _gelu(c: Lowering, x: Value, approximate: str = "none") -> Value:
    return c.op("Gelu", x, approximate=approximate)


@lower("silu.default", wide=True)
def _silu(c: Lowering, x: Value) -> Value:
    return c.op("Mul", x, c.op("Sigmoid", x))


@lower("silu_backward.default", wide=True)
def _silu_backward(c: Lowering, grad: Value, x: Value) -> Value:
    s = c.op("Sigmoid", x)
    one = c.to(1, x.dtype)
    inner = c.op("Add", one, c.op("Mul", x, c.op("Sub", one, s)))
    return c.op("Mul", grad, c.op("Mul", s, inner))


@lower("leaky_relu.default", wide=True)
def _leaky_relu(c: Lowering, x: Value, negative_slope: Any = 0.01) -> Value:
    if x.dtype == "f64":  # of which an attribute has not all digits
        below = c.op("Mul", x, c.to(negative_slope, "f64"))
        return c.op("Where", c.op("Greater", x, c.to(0, "f64"), dtype="bool"), x, below,
                    dtype="f64")
    return c.op("LeakyRelu", x, alpha=c.attribute(negative_slope))


@lower("elu.default", wide=True)
def _elu(c: Lowering, x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    if input_scale != 1:
        raise Unsupported("an input scale")
    made = c.op("Elu", x, alpha=c.attribute(alpha))
    return made if scale == 1 else c.op("Mul", made, c.to(scale, x.dtype))


@lower("softplus.default", wide=True)
def _softplus(c: Lowering, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    t = x.dtype
    scaled = x if beta == 1 else c.op("Mul", x, c.to(beta, t))
    made = c.op("Softplus", scaled)
    if beta != 1:
        made = c.op("Div", made, c.to(beta, t))
    return c.op("Where", c.op("Greater", scaled, c.to(threshold, t), dtype="bool"), x, made,
                dtype=t)


@lower("hardsigmoid.default")
def _hardsigmoid(c: Lowering, x: Value) -> Value:
    return c.op("HardSigmoid", x, alpha=c.attribute(1 / 6), beta=0.5)


@lower("hardswish.default")
def _hardswish(c: Lowering, x: Value) -> Value:
    return c.op("HardSwish", x)


@lower("mish.default")
def _mish(c: Lowering, x: Value) -> Value:
    return c.op("Mish", x)


@lower("_prelu_kernel.default")
def _prelu(c: Lowering, x: Value, weight: Value) -> Value:
    return c.op("PRelu", x, weight)


@lower("threshold_backward.default", wide=True)
def _threshold_backward(c: Lowering, grad: Value, x: Value, threshold: Any) -> Value:
    t = c.out_type
    low = c.op("LessOrEqual", x, c.to(threshold, x.dtype), dtype="bool")
    return c.op("Where", low, c.to(0, t), c.to(grad, t), dtype=t)


@lower("sigmoid_backward.default", wide=True)
def _sigmoid_backward(c: Lowering, grad: Value, y: Value) -> Value:
    return c.op("Mul", grad, c.op("Mul", c.op("Sub", c.to(1, y.dtype), y), y))


@lower("tanh_backward.default", wide=True)
def _tanh_backward(c: Lowering, grad: Value, y: Value) -> Value:
    return c.op("Mul", grad, c.op("Sub", c.to(1, y.dtype), c.op("Mul", y, y)))


# ---- reductions


def _reduced(c: Lowering, op: str, x: Value, dim: Any, keepdim: bool, t: str) -> Value:
    return c.reduce(op, c.cast(x, t), axes_of(dim, x.rank), keepdim)


def _reduction(op: str, *targets: str) -> None:
    @lower(*targets)
    def function(c: Lowering, x: Value, dim: Any = None, keepdim: bool = False,
                 dtype: torch.dtype | None = None) -> Value:
        return _reduced(c, op, x, dim, keepdim, c.out_type)


_reduction("ReduceSum", "sum.default", "sum.dim_IntList")
_reduction("ReduceMean", "mean.default", "mean.dim")
_reduction("ReduceProd", "prod.default", "prod.dim_int")
_reduction("ReduceMax", "amax.default", "max.default")
_reduction("ReduceMin", "amin.default", "min.default")
_reduction("ReduceLogSumExp", "logsumexp.default")


def _of_bools(op: str, target: str) -> None:
    @lower(f"{target}.default", f"{target}.dim", f"{target}.dims")
    def function(c: Lowering, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        return c.cast(_reduced(c, op, x, dim, keepdim, "bool"), c.out_type)


_of_bools("ReduceMax", "any")
_of_bools("ReduceMin", "all")


@lower("linalg_vector_norm.default", wide=True)
def _norm(c: Lowering, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False,
          dtype: torch.dtype | None = None) -> Value:
    op = {1: "ReduceL1", 2: "ReduceL2"}.get(ord)
    if op is None:
        raise Unsupported(f"a norm of order {ord}")
    if not x.rank:
        return c.op("Abs", c.cast(x, c.out_type))
    return _reduced(c, op, x, dim, keepdim, c.out_type)


def _var(c: Lowering, x: Value, dim: Any, correction: Any, keepdim: bool,
         t: str) -> tuple[Value, Value]:
    axes = axes_of(dim, x.rank)
    x_t = c.cast(x, t)
    mean = c.reduce("ReduceMean", x_t, axes, True)
    apart = c.op("Sub", x_t, mean)
    total = c.reduce("ReduceSum", c.op("Mul", apart, apart), axes, keepdim)
    count = c.times([c.size(x, axis) for axis in axes])
    correction = 1 if correction is None else correction
    if isinstance(count, int):
        rest: Value = c.to(max(float(count) - correction, 0.0), t)
    else:
        rest = c.op("Max", c.op("Sub", c.cast(count, t), c.to(correction, t)), c.to(0, t))
    if not keepdim and axes:
        mean = c.squeeze(mean, *axes)
    return c.op("Div", total, rest), mean


@lower("var.correction", wide=True)
def _var_correction(c: Lowering, x: Value, dim: Any = None, correction: Any = None,
                    keepdim: bool = False) -> Value:
    return _var(c, x, dim, correction, keepdim, c.out_type)[0]


@lower("var_mean.correction", wide=True)
def _var_mean(c: Lowering, x: Value, dim: Any = None, correction: Any = None,
              keepdim: bool = False) -> tuple[Value, Value]:
    return _var(c, x, dim, correction, keepdim, c.type_at(0))


@lower("std.correction", wide=True)
def _std(c: Lowering, x: Value, dim: Any = None, correction: Any = None,
         keepdim: bool = False) -> Value:
    return c.op("Sqrt", _var(c, x, dim, correction, keepdim, c.out_type)[0])


def _arg(c: Lowering, op: str, x: Value, dim: Any, keepdim: bool) -> Value:
    rank = x.rank
    if x.dtype == "bool":
        x = c.cast(x, "u8")
    if dim is None or not rank:
        made = c.op(op, c.reshape(x, [-1]), dtype="i64", axis=0, keepdims=0)
        return c.reshape(made, [1] * rank) if keepdim else made
    return c.op(op, x, dtype="i64", axis=dim, keepdims=int(keepdim))


def _extreme(which: str) -> None:
    """argmax and max.dim, or argmin and min.dim."""
    @lower(f"arg{which.lower()}.default")
    def place(c: Lowering, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        return _arg(c, "Arg" + which, x, dim, keepdim)

    @lower(f"{which.lower()}.dim")
    def both(c: Lowering, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        if not x.rank:
            return c.op("Identity", x), c.to(0, "i64")
        return (c.reduce("Reduce" + which, x, [dim % x.rank], keepdim),
                _arg(c, "Arg" + which, x, dim, keepdim))


_extreme("Max")
_extreme("Min")


@lower("cumsum.default")
def _cumsum(c: Lowering, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    if not x.rank:
        return c.cast(x, c.out_type)
    return c.op("CumSum", c.cast(x, c.out_type), c.const(dim % x.rank, "i64"))


def _soft(op: str, target: str) -> None:
    @lower(f"{target}.default")
    def function(c: Lowering, x: Value, dim: int, half_to_float: bool = False) -> Value:
        if not x.rank:
            raise Unsupported("of a scalar")
        return c.op(op, c.cast(x, c.out_type), axis=dim)


_soft("Softmax", "_softmax")
_soft("LogSoftmax", "_log_softmax")


@lower("topk.default")
def _topk(c: Lowering, x: Value, k: Any, dim: int = -1, largest: bool = True,
          sorted: bool = True) -> list[Value]:
    return c.ops("TopK", x, c.dims([k]), dtypes=[x.dtype, "i64"], axis=dim,
                 largest=int(largest), sorted=int(sorted))


@lower("sort.default", "sort.stable")
def _sort(c: Lowering, x: Value, dim: int = -1, descending: bool = False,
          stable: Any = None) -> list[Value]:
    if not x.rank:
        raise Unsupported("of a scalar")
    t = "u8" if x.dtype == "bool" else x.dtype
    values, places = c.ops("TopK", c.cast(x, t), c.dims([c.size(x, dim)]), dtypes=[t, "i64"],
                           axis=dim, largest=int(descending), sorted=1)
    return [c.cast(values, x.dtype), places]


# ---- products


@lower("mm.default", "bmm.default", "mv.default", "dot.default")
def _mm(c: Lowering, x: Value, y: Value) -> Value:
    return c.op("MatMul", x, y)


def _scaled(c: Lowering, value: Value, by: Any) -> Value:
    return value if by == 1 else c.op("Mul", value, c.to(by, value.dtype))


@lower("addmm.default")
def _addmm(c: Lowering, bias: Value, x: Value, y: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    if x.dtype in FLOATS and x.dtype != "f64" and beta != 0:
        return c.op("Gemm", x, y, bias, alpha=c.attribute(alpha) if alpha != 1 else None,
                    beta=c.attribute(beta) if beta != 1 else None)
    return _add_product(c, bias, x, y, beta, alpha)


@lower("baddbmm.default", "addmv.default")
def _add_product(c: Lowering, bias: Value, x: Value, y: Value, beta: Any = 1,
                 alpha: Any = 1) -> Value:
    for number in (alpha, beta):
        if not holds(x.dtype, number):
            raise Unsupported(f"{number} as {x.dtype}")
    t = "f32" if x.dtype in HALVES and (alpha != 1 or beta not in (0, 1)) else x.dtype
    product = _scaled(c, c.cast(c.op("MatMul", x, y), t), alpha)
    if beta == 0:
        return c.cast(product, x.dtype)
    return c.cast(c.op("Add", _scaled(c, c.cast(bias, t), beta), product), x.dtype)


# ---- types


@lower("_to_copy.default")
def _to_copy(c: Lowering, x: Value, dtype: torch.dtype | None = None, **rest: Any) -> Value:
    return c.op("Identity", x) if x.dtype == c.out_type else c.cast(x, c.out_type)


@lower("prims.convert_element_type.default")
def _convert(c: Lowering, x: Value, dtype: torch.dtype) -> Value:
    return _to_copy(c, x, dtype)
