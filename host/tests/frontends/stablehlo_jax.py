#!/usr/bin/env python3
"""Programs that JAX makes, run by Keel and by JAX on the CPU.

    KEEL_LIBRARY=build/release/lib/libkeel.so.0 \\
    KEEL_PLUGIN_PATH=build/release/lib/keel stablehlo_jax.py [--table] [GLOB ...]

Each program is lowered, serialized as a portable artifact, loaded and run by Keel, and
its results are compared. Where both have lost digits, the same in f64 decides: Keel's must
not be further from that than JAX's. A program that Keel refuses says why; a result that differs, or a
failure that is no refusal, makes the script fail. Without JAX it is skipped (77).
"""
import fnmatch
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bridges/python"))
try:
    import jax
    import numpy as np
    from jaxlib import _jax
    from jaxlib.mlir.dialects import stablehlo
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)
import keel  # noqa: E402

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

CASES = []  # (name, function, inputs, whether each element counts, however small)
RNG = np.random.default_rng(7)


def case(name, function, *inputs):
    CASES.append((name, function, inputs, STRICT))


STRICT = True


def floats(*shape, dtype=np.float32, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(dtype)


def ints(*shape, dtype=np.int32, low=0, high=10):
    return RNG.integers(low, high, shape).astype(dtype)


FLOATS = (np.float32, np.float64, np.float16)
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 0.49999997, 1.0, -1.0, 3.7, -3.7,
           1e-8, -1e-8, 1e-3, -1e-3, 20.0, -20.0, 88.0, 1e4, -1e4, np.inf, -np.inf, np.nan]


def edges(dtype):
    if dtype == np.bool_:
        return np.array([True, False, True, False])
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, 100, info.max, info.min, info.max - 1,
                         info.min + 1, info.max // 3], dtype)
    return np.array(SPECIAL, dtype)


def pairs(dtype):
    e = edges(dtype)
    return np.repeat(e, len(e)), np.tile(e, len(e))


def elementwise():
    unary = "abs neg sign".split()
    of_float = ("ceil floor cos sin tan exp expm1 log log1p logistic tanh sqrt rsqrt cbrt is_finite "
                "acos asin atan sinh cosh asinh acosh atanh erf erfc erf_inv lgamma digamma "
                "square reciprocal").split()
    for name in unary + of_float:
        f = getattr(lax, name)
        for dtype in FLOATS + (INTS if name in unary else ()):
            if not (name == "neg" and np.issubdtype(dtype, np.unsignedinteger)):
                case("%s-%s" % (name, dtype.__name__), f, edges(dtype))
        low = (lambda g: lambda x: g(x.astype(jnp.bfloat16)).astype(jnp.float32))(f)
        if name != "is_finite":
            case("%s-bfloat16" % name, low, edges(np.float32))
    case("neg-uint32", lambda x: lax.neg(x), edges(np.uint32))
    for method in (lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN):
        for dtype in FLOATS:
            case("round-%s-%s" % (method.name.lower(), dtype.__name__),
                 (lambda m: lambda x: lax.round(x, m))(method), edges(dtype))
    for name in "add sub mul max min".split():
        f = getattr(lax, name)
        for dtype in FLOATS + INTS:
            case("%s-%s" % (name, dtype.__name__), f, *pairs(dtype))
    for name in "add mul max min".split():
        case("%s-bool" % name, getattr(lax, name), *pairs(np.bool_))
    for name in ("div", "rem"):
        for dtype in FLOATS + INTS:
            x, y = pairs(dtype)
            if dtype in INTS:
                keep = y != 0
                if np.issubdtype(dtype, np.signedinteger):
                    keep &= ~((y == -1) & (x == np.iinfo(dtype).min))
                x, y = x[keep], y[keep]
            case("%s-%s" % (name, dtype.__name__), getattr(lax, name), x, y)
    for name in ("atan2", "nextafter", "pow"):
        for dtype in FLOATS:
            case("%s-%s" % (name, dtype.__name__), getattr(lax, name), *pairs(dtype))
    case("pow-int32", lambda x, y: jnp.power(x, y), ints(20, low=-4, high=5), ints(20, high=6))
    case("integer_pow", lambda x: lax.integer_pow(x, 5) + lax.integer_pow(x, -3), floats(20, low=0.5))
    for name in "bitwise_and bitwise_or bitwise_xor".split():
        for dtype in INTS + (np.bool_,):
            case("%s-%s" % (name, dtype.__name__), getattr(lax, name), *pairs(dtype))
    for dtype in INTS + (np.bool_,):
        case("bitwise_not-%s" % dtype.__name__, lax.bitwise_not, edges(dtype))
    for name in "shift_left shift_right_logical shift_right_arithmetic".split():
        for dtype in INTS:
            x = np.repeat(edges(dtype), 6)
            by = np.tile(np.array([0, 1, 3, 7, 8, 63], dtype), len(edges(dtype)))
            case("%s-%s" % (name, dtype.__name__), getattr(lax, name), x, by)
    for name in ("population_count", "clz"):
        for dtype in INTS:
            case("%s-%s" % (name, dtype.__name__), getattr(lax, name), edges(dtype))
    for name in "eq ne lt le gt ge".split():
        for dtype in FLOATS + INTS + (np.bool_,):
            case("%s-%s" % (name, dtype.__name__), getattr(lax, name), *pairs(dtype))
    for a in FLOATS + INTS + (np.bool_,):
        for b in FLOATS + INTS + (np.bool_,):
            x = edges(a)
            if a in FLOATS and b in INTS:
                x = np.array([0, -0.0, 0.7, 1.2, 1.9, 100.5] + ([] if b(0) - 1 > 0 else [-1.5, -0.3]), a) \
                    if np.issubdtype(b, np.signedinteger) else np.array([0, 0.7, 1.2, 1.9, 100.5], a)
            case("convert-%s-%s" % (a.__name__, b.__name__),
                 (lambda t: lambda v: lax.convert_element_type(v, t))(b), x)
    for a, b in ((np.int32, np.uint32), (np.uint64, np.int64), (np.int8, np.uint8),
                 (np.float32, np.int32), (np.uint32, np.float32), (np.float64, np.int64),
                 (np.float16, np.uint16), (np.int64, np.float64)):
        case("bitcast-%s-%s" % (a.__name__, b.__name__),
             (lambda t: lambda v: lax.bitcast_convert_type(v, t))(b), edges(a))
    case("bitcast-uint32-uint8", lambda v: lax.bitcast_convert_type(v, jnp.uint8), edges(np.uint32))
    case("reduce_precision-bf16", lambda x: lax.reduce_precision(x, 8, 7), floats(100))
    case("reduce_precision-f16", lambda x: lax.reduce_precision(x, 5, 10), floats(100))
    for bits in ((5, 10), (4, 3), (8, 7), (2, 1), (8, 23), (5, 2)):
        case("reduce_precision-%d-%d" % bits, (lambda b: lambda x: lax.reduce_precision(x, *b))(bits),
             np.concatenate([edges(np.float32), np.ldexp(floats(60), np.arange(-30, 30)).astype(np.float32),
                             np.float32(2) ** -14 * (1 - np.float32(2) ** -np.arange(10, 24))]).astype(np.float32))
        case("reduce_precision-f64-%d-%d" % bits, (lambda b: lambda x: lax.reduce_precision(x, *b))(bits), edges(np.float64))
    case("clamp", lambda x: lax.clamp(-1.0, x, 0.5), edges(np.float64))
    case("clamp-int", lambda x: lax.clamp(np.int32(2), x, np.int32(5)), ints(20))
    case("clamp-tensors", lax.clamp, floats(9) - 2, floats(9), floats(9) + 2)
    case("select", lambda c, x, y: jnp.where(c, x, y), floats(4, 5) > 0, floats(4, 5), floats(5))
    case("select_n", lambda c, x, y, z: lax.select_n(c, x, y, z), ints(7, high=3), floats(7), floats(7), floats(7))
    case("sinc", lambda x: jnp.sinc(x) + jnp.heaviside(x, 0.5) + jnp.signbit(x), floats(20))
    case("isnan", lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.nan_to_num(x)), edges(np.float32))
    case("divmod", lambda x, y: (x // y, x % y, jnp.divmod(x, y)), ints(30, low=-9), ints(30, low=1))
    case("divmod-float", lambda x, y: (x // y, x % y), floats(30), floats(30, low=0.5))
    case("hypot", lambda x, y: jnp.hypot(x, y) + jnp.logaddexp(x, y), floats(30), floats(30))
    case("gelu", lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False)), floats(30))
    case("activations", lambda x: (jax.nn.silu(x), jax.nn.elu(x), jax.nn.selu(x), jax.nn.softplus(x),
                                   jax.nn.celu(x), jax.nn.leaky_relu(x), jax.nn.hard_swish(x),
                                   jax.nn.relu6(x), jax.nn.mish(x), jax.nn.log_sigmoid(x)), floats(30))
    case("igamma", lambda a, x: lax.igamma(a, x), floats(10, low=0.5), floats(10, low=0.5))
    case("bessel", lambda x: lax.bessel_i1e(x), floats(10))


def complex_numbers():
    z = (floats(6) + 1j * floats(6)).astype(np.complex64)
    w = (floats(6) + 1j * floats(6)).astype(np.complex64)
    case("complex-parts", lambda x, y: lax.real(lax.complex(x, y) * lax.complex(y, x)), floats(6), floats(6))
    case("complex-add", lambda x, y: x + y, z, w)
    case("complex-mul", lambda x, y: x * y / (x + 3), z, w)
    case("complex-abs", jnp.abs, z)
    case("complex-exp", jnp.exp, z)
    case("complex-transpose", lambda x: jnp.reshape(x, (2, 3)).T, z)
    case("fft", lambda x: jnp.fft.fft(x), z)
    case("rfft", lambda x: jnp.abs(jnp.fft.rfft(x)), floats(8))
    case("irfft", lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), floats(8))
    case("fft2", lambda x: jnp.abs(jnp.fft.fft2(x)), floats(4, 6))


def shapes():
    case("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1,)), floats(3))
    case("broadcast-scalar", lambda x: jnp.full((3, 4), x) + jnp.ones((3, 4)), np.float32(2))
    case("reshape", lambda x: jnp.reshape(x, (6, 4)), floats(2, 3, 4))
    case("reshape-scalar", lambda x: jnp.reshape(x, ()), floats(1, 1))
    case("transpose", lambda x: jnp.transpose(x, (2, 0, 1)), floats(2, 3, 4))
    case("slice", lambda x: lax.slice(x, (1, 0), (5, 4), (2, 3)), floats(6, 5))
    case("index", lambda x: (x[1], x[-1], x[1:, ::2], x[..., None], x[::-1]), floats(4, 5))
    case("concatenate", lambda x, y: jnp.concatenate([x, y, x], 1), floats(2, 3), floats(2, 4))
    case("concatenate-many", lambda x: jnp.concatenate([x[i:i + 1] for i in range(20)]), floats(20, 2))
    case("stack", lambda x, y: (jnp.stack([x, y]), jnp.vstack([x, y]), jnp.hstack([x, y])), floats(3), floats(3))
    case("split", lambda x: jnp.split(x, 3), floats(6, 2))
    for low, high, inner in ((1, 2, 0), (-1, 2, 0), (0, 0, 2), (2, -3, 1), (-2, -1, 3), (-5, 9, 0)):
        case("pad-%d-%d-%d" % (low, high, inner),
             (lambda l, h, i: lambda x: lax.pad(x, np.float32(7), ((l, h, i), (0, 1, i))))(low, high, inner),
             floats(4, 3))
    case("pad-int", lambda x: jnp.pad(x, ((1, 1), (0, 2))), ints(2, 3))
    case("pad-modes", lambda x: (jnp.pad(x, 2, "reflect"), jnp.pad(x, 2, "edge"), jnp.pad(x, 2, "wrap")), floats(4))
    case("reverse", lambda x: lax.rev(x, (0, 2)), floats(2, 3, 4))
    for dtype in (np.int32, np.float32, np.uint8, np.int64, np.float64):
        case("iota-%s" % dtype.__name__, (lambda t: lambda x: lax.broadcasted_iota(t, (3, 4), 1) + x)(dtype), dtype(1))
    case("iota-big", lambda x: jnp.arange(100000, dtype=jnp.float32).sum() * x, np.float32(1))
    case("eye", lambda x: (jnp.eye(4, 5, 1) + x, jnp.tri(4) + x), np.float32(1))
    case("tril", lambda x: (jnp.tril(x), jnp.triu(x, 1)), floats(4, 4))
    case("roll", lambda x: jnp.roll(x, 2, axis=1), floats(3, 5))
    case("tile", lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 3, axis=0)), floats(2, 2))
    case("meshgrid", lambda x, y: jnp.meshgrid(x, y), floats(3), floats(4))
    case("linspace", lambda x: jnp.linspace(0, x, 11), np.float32(5))
    case("expand_squeeze", lambda x: (jnp.expand_dims(x, 1), jnp.squeeze(x[None])), floats(3, 2))
    case("empty", lambda x: (jnp.concatenate([x, x[:0]]), x[:0], jnp.sum(x[:0])), floats(3))
    case("rot90", lambda x: (jnp.rot90(x), jnp.flip(x)), floats(3, 4))
    case("constant-big", lambda x: x + np.arange(3000, dtype=np.float32).reshape(30, 100), floats(30, 100))
    case("constant-bools", lambda x: jnp.where(np.arange(21) % 3 == 0, x, 0), floats(21))
    case("constant-splat", lambda x: x + jnp.full((30, 100), 2.5, jnp.float32), floats(30, 100))
    case("barrier", lambda x: lax.optimization_barrier(x * 2) + 1, floats(3))


def products():
    case("matmul", jnp.matmul, floats(3, 4), floats(4, 5))
    case("matvec", jnp.matmul, floats(3, 4), floats(4))
    case("vecmat", jnp.matmul, floats(4), floats(4, 3))
    case("dot", jnp.dot, floats(4), floats(4))
    case("outer", jnp.outer, floats(4), floats(5))
    case("batched", jnp.matmul, floats(2, 3, 4, 5), floats(2, 3, 5, 6))
    case("batched-broadcast", jnp.matmul, floats(2, 3, 4, 5), floats(5, 6))
    case("tensordot", lambda x, y: jnp.tensordot(x, y, axes=((0, 2), (1, 0))), floats(3, 2, 4), floats(4, 3, 5))
    for equation, a, b in (("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ibj,kjb->bki", (3, 2, 4), (5, 4, 2)),
                           ("ij,ij->", (3, 4), (3, 4)), ("ij,kl->ijkl", (2, 3), (4, 5)),
                           ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("abc,cd->adb", (2, 3, 4), (4, 5)),
                           ("i,i->i", (5,), (5,)), ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5))):
        case("einsum-" + equation, (lambda e: lambda x, y: jnp.einsum(e, x, y))(equation), floats(*a), floats(*b))
    case("einsum-trace", lambda x: jnp.einsum("ii->", x), floats(4, 4))
    case("einsum-three", lambda x, y, z: jnp.einsum("ij,jk,kl->il", x, y, z), floats(2, 3), floats(3, 4), floats(4, 5))
    case("dot-int32", jnp.matmul, ints(3, 4, low=-5), ints(4, 5))
    case("dot-int8-int32", lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
         ints(3, 4, dtype=np.int8, low=-100, high=100), ints(4, 5, dtype=np.int8, low=-100, high=100))
    case("dot-float64", jnp.matmul, floats(3, 4, dtype=np.float64), floats(4, 5, dtype=np.float64))
    case("dot-float16", jnp.matmul, floats(3, 4, dtype=np.float16), floats(4, 5, dtype=np.float16))
    case("dot-bf16-f32", lambda x, y: lax.dot_general(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16),
                                                      (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32),
         floats(3, 4), floats(4, 5))
    case("dot-highest", lambda x, y: jnp.matmul(x, y, precision="highest"), floats(3, 4), floats(4, 5))
    case("dot-empty", jnp.matmul, floats(3, 0), floats(0, 5))
    case("dot-bool", lambda x, y: jnp.matmul(x, y), floats(3, 4) > 0, floats(4, 2) > 0)
    case("kron", jnp.kron, floats(2, 3), floats(3, 2))
    case("cross", jnp.cross, floats(4, 3), floats(4, 3))
    case("matrix_power", lambda x: jnp.linalg.matrix_power(x, 5), floats(3, 3))
    case("norms", lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=0), jnp.linalg.norm(x, ord=1, axis=1)), floats(3, 4))


def convolutions():
    def conv(name, lhs, rhs, strides=None, padding="SAME", numbers=None, **more):
        rank = len(lhs) - 2
        strides = strides or (1,) * rank
        case("conv-" + name,
             lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **more),
             floats(*lhs), floats(*rhs))
    conv("nchw", (2, 3, 8, 9), (4, 3, 3, 3))
    conv("valid", (2, 3, 8, 9), (4, 3, 3, 2), padding="VALID")
    conv("strided", (2, 3, 9, 9), (4, 3, 3, 3), strides=(2, 3))
    conv("nhwc", (2, 8, 9, 3), (3, 3, 3, 4), numbers=("NHWC", "HWIO", "NHWC"))
    conv("odd-layout", (8, 2, 3, 9), (3, 4, 3, 3), numbers=("HNCW", "IOHW", "WNHC"))
    conv("groups", (2, 6, 8, 8), (4, 3, 3, 3), feature_group_count=2)
    conv("depthwise", (2, 8, 8, 6), (3, 3, 1, 6), numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=6)
    conv("batch-groups", (4, 3, 6, 6), (4, 3, 3, 3), batch_group_count=2)
    conv("lhs-dilated", (2, 3, 5, 6), (4, 3, 3, 3), lhs_dilation=(2, 3), padding=((1, 2), (2, 1)))
    conv("rhs-dilated", (2, 3, 9, 9), (4, 3, 3, 3), rhs_dilation=(2, 1))
    conv("negative-padding", (2, 3, 9, 9), (4, 3, 3, 3), padding=((-1, 2), (1, -2)))
    conv("both", (1, 2, 6, 6), (3, 2, 3, 3), lhs_dilation=(2, 2), rhs_dilation=(2, 2), strides=(2, 1),
         padding=((3, 3), (-1, 4)))
    conv("1d", (2, 3, 20), (4, 3, 5))
    conv("3d", (1, 2, 5, 6, 7), (3, 2, 2, 3, 2))
    case("conv-0d", lambda x, w: lax.conv_general_dilated(x, w, (), ()), floats(3, 4), floats(5, 4))
    case("conv-transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), floats(1, 5, 5, 3), floats(3, 3, 3, 2))
    case("conv-f64", lambda x, w: lax.conv(x, w, (1, 1), "SAME"), floats(1, 2, 5, 5, dtype=np.float64),
         floats(3, 2, 3, 3, dtype=np.float64))
    case("conv-bf16", lambda x, w: lax.conv(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), (1, 1), "SAME").astype(jnp.float32),
         floats(1, 2, 5, 5), floats(3, 2, 3, 3))
    case("conv-grad", jax.grad(lambda x, w: jnp.sum(lax.conv(x, w, (2, 2), "SAME") ** 2), (0, 1)),
         floats(2, 3, 9, 9), floats(4, 3, 3, 3))
    case("conv-grad-dilated", jax.grad(lambda x, w: jnp.sum(lax.conv_general_dilated(
        x, w, (1, 2), "VALID", rhs_dilation=(2, 1), feature_group_count=2) ** 2), (0, 1)),
         floats(2, 4, 9, 9), floats(4, 2, 3, 3))
    case("convolve", lambda x, y: (jnp.convolve(x, y), jnp.correlate(x, y)), floats(12), floats(4))


def reductions():
    for dtype in FLOATS + INTS:
        x = floats(3, 4, 5, dtype=dtype) if dtype in FLOATS else ints(3, 4, 5, dtype=dtype, high=5)
        for name in "sum prod max min".split():
            case("%s-%s" % (name, dtype.__name__),
                 (lambda f: lambda v: (f(v, axis=(0, 2), dtype=v.dtype) if f in (jnp.sum, jnp.prod) else f(v, axis=(0, 2)), f(v)))(getattr(jnp, name)), x)
    case("all-any", lambda x: (jnp.all(x, 0), jnp.any(x, 1), jnp.all(x)), floats(3, 4) > 0)
    case("xor-reduce", lambda x: lax.reduce(x, np.int32(0), lax.bitwise_xor, (0,)), ints(7, 3, high=1000))
    case("and-or-reduce", lambda x: (lax.reduce(x, np.int32(-1), lax.bitwise_and, (1,)),
                                     lax.reduce(x, np.int32(0), lax.bitwise_or, (1,))), ints(7, 3, high=1000))
    case("reduce-init", lambda x: lax.reduce(x, np.float32(10), lax.add, (0,)), floats(5, 2))
    case("reduce-max-init", lambda x: lax.reduce(x, np.float32(1), lax.max, (0,)), floats(5, 2))
    case("reduce-two", lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(1)),
                                               lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)), floats(3, 4), floats(3, 4))
    case("reduce-custom", lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.sqrt(a * a + b * b), (1,)), floats(3, 7))
    case("reduce-window-custom", lambda x: lax.reduce_window(x, np.float32(0), lambda a, b: jnp.sqrt(a * a + b * b),
                                                             (1, 3), (1, 2), "VALID"), floats(3, 7))
    case("mean-var", lambda x: (jnp.mean(x, 0), jnp.var(x, 1), jnp.std(x)), floats(6, 7))
    for dtype in (np.float32, np.int32, np.uint8):
        x = floats(5, 6, dtype=dtype) if dtype == np.float32 else ints(5, 6, dtype=dtype)
        case("argmax-%s" % dtype.__name__, lambda v: (jnp.argmax(v, 1), jnp.argmin(v, 0), jnp.argmax(v)), x)
    case("argmax-nan", lambda v: (jnp.argmax(v), jnp.argmin(v)), edges(np.float32))
    case("ptp-median", lambda x: (jnp.ptp(x), jnp.median(x), jnp.percentile(x, 30)), floats(9))
    for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
        f = getattr(lax, name)
        case(name, (lambda g: lambda x: (g(x, axis=0), g(x, axis=1, reverse=True)))(f), floats(5, 33))
    case("cumsum-int", lambda x: (jnp.cumsum(x), jnp.cumprod(x)), ints(9))
    case("cumsum-long", lambda x: jnp.cumsum(x), floats(1000))
    case("max_pool", lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), floats(2, 8, 8, 3))
    case("max_pool-same", lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), floats(2, 7, 8, 3))
    case("avg_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 2, 1), "SAME") / 9, floats(2, 7, 8, 3))
    case("window-dilated", lambda x: lax.reduce_window(x, np.float32(0), lax.add, (3, 2), (2, 1), ((1, 0), (0, 2)),
                                                       (2, 1), (1, 3)), floats(6, 7))
    case("window-int", lambda x: lax.reduce_window(x, np.int32(0), lax.add, (3,), (1,), "SAME"), ints(12))
    case("window-min", lambda x: lax.reduce_window(x, np.inf, lax.min, (2, 2), (1, 1), "VALID"), floats(6, 7))
    case("max_pool-grad", jax.grad(lambda x: jnp.sum(lax.reduce_window(
        x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2)), floats(2, 7, 8, 3))
    case("max_pool-grad-ties", jax.grad(lambda x: jnp.sum(lax.reduce_window(
        jnp.maximum(x, 0), -np.inf, lax.max, (2, 2), (1, 1), "VALID") ** 2)), np.round(floats(6, 6)))
    case("avg_pool-grad", jax.grad(lambda x: jnp.sum(lax.reduce_window(
        x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2)), floats(2, 8, 8, 3))
    case("logsumexp", lambda x: jax.scipy.special.logsumexp(x, axis=1), floats(4, 5))
    case("softmax", lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x, 0)), floats(4, 5))
    case("layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), floats(4, 32))
    case("histogram", lambda x: jnp.bincount(x, length=10), ints(40))
    case("trapezoid", lambda x: jnp.trapezoid(x) + jnp.diff(x).sum(), floats(9))


def indexing():
    x, i = floats(7, 5), ints(4, high=7)
    case("take", lambda v, k: jnp.take(v, k, axis=0), x, i)
    case("take-1", lambda v, k: jnp.take(v, k % 5, axis=1), x, i)
    case("take-clip", lambda v, k: jnp.take(v, k, axis=0, mode="clip"), x, ints(9, low=-10, high=20))
    case("take-fill", lambda v, k: jnp.take(v, k, axis=0, mode="fill"), x, ints(9, low=-10, high=20))
    case("take-wrap", lambda v, k: jnp.take(v, k, axis=0, mode="wrap"), x, ints(9, low=-10, high=20))
    case("take-2d", lambda v, k: v[k], x, ints(2, 3, high=7))
    case("take_along", lambda v, k: jnp.take_along_axis(v, k, axis=1), x, ints(7, 3, high=5))
    case("advanced", lambda v, k: v[k, k % 5], x, i)
    case("advanced-slice", lambda v, k: v[1:6][k % 5, :3], x, i)
    case("advanced-middle", lambda v, k: v[:, k, 1], floats(3, 7, 4), i)
    case("gather-window", lambda v, k: lax.gather(v, k, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (3, 2)), x,
         ints(4, 2, low=-2, high=8))
    case("gather-batch", jax.vmap(lambda v, k: v[k]), floats(3, 7, 2), ints(3, 4, high=7))
    case("gather-batch-slice", jax.vmap(lambda v, k: lax.dynamic_slice(v, (k,), (3,))), floats(5, 9), ints(5, high=9))
    case("dynamic_slice", lambda v, a, b: lax.dynamic_slice(v, (a, b), (3, 2)), x, np.int32(2), np.int32(9))
    case("dynamic_slice-negative", lambda v, a: lax.dynamic_slice(v, (a, np.int32(0)), (3, 5)), x, np.int32(-3))
    case("dynamic_index", lambda v, a: v[a], x, np.int32(3))
    case("dynamic_update", lambda v, u, a, b: lax.dynamic_update_slice(v, u, (a, b)), x, floats(3, 2), np.int32(2), np.int32(9))
    case("dynamic_update-row", lambda v, u, a: v.at[a].set(u), x, floats(5), np.int32(6))
    case("at-set", lambda v, u, k: v.at[k].set(u), x, floats(3, 5), np.array([1, 6, 2], np.int32))
    case("at-add", lambda v, u, k: v.at[k].add(u), x, floats(4, 5), np.array([1, 6, 1, 1], np.int32))
    case("at-mul", lambda v, u, k: v.at[k].mul(u), x, floats(4, 5), np.array([1, 6, 1, 1], np.int32))
    case("at-max-min", lambda v, u, k: (v.at[k].max(u), v.at[k].min(u)), x, floats(4, 5), np.array([1, 6, 1, 1], np.int32))
    case("at-drop", lambda v, u, k: v.at[k].add(u, mode="drop"), x, floats(4, 5), np.array([1, 9, -1, -30], np.int32))
    case("at-clip", lambda v, u, k: v.at[k].add(u, mode="clip"), x, floats(4, 5), np.array([1, 9, -1, -30], np.int32))
    case("at-element", lambda v, u, k: v.at[k, k % 5].add(u), x, floats(4), np.array([1, 6, 1, 1], np.int32))
    case("at-column", lambda v, u, k: v.at[:, k].add(u), x, floats(7, 2), np.array([1, 4], np.int32))
    case("at-slice", lambda v, u: v.at[1:3, ::2].set(u), x, floats(2, 3))
    case("at-int", lambda v, u, k: v.at[k].add(u), ints(9), ints(4), np.array([1, 6, 1, 1], np.int32))
    case("at-apply", lambda v, k: v.at[k].apply(jnp.sin), x, np.array([1, 6], np.int32))
    case("at-bool", lambda v, k: v.at[k].set(True), floats(9) > 0, np.array([1, 6], np.int32))
    case("scatter-batch", jax.vmap(lambda v, u, k: v.at[k].add(u)), floats(3, 7), floats(3, 4), ints(3, 4, high=7))
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    case("scatter-window-outside", lambda v, k, u: lax.scatter_add(v, k, u, numbers, mode="drop"),
         floats(7), np.array([[5], [6], [-1], [0]], np.int32), floats(4, 2))
    case("at-apply-unique", lambda v, k: v.at[k].apply(jnp.tanh, unique_indices=True), x, np.array([1, 6], np.int32))
    case("segment_sum", lambda v, k: jax.ops.segment_sum(v, k, 4), floats(9, 2), ints(9, high=4))
    case("one_hot", lambda k: jax.nn.one_hot(k, 5), ints(6, high=7))
    case("gather-grad", jax.grad(lambda v, k: jnp.sum(v[k] ** 2)), x, ints(6, high=7))
    case("dynamic_slice-grad", jax.grad(lambda v, a: jnp.sum(lax.dynamic_slice(v, (a, np.int32(0)), (3, 5)) ** 2)), x, np.int32(2))
    case("embedding-grad", jax.grad(lambda v, k: jnp.sum(jnp.take(v, k, axis=0) ** 3)), floats(11, 4), ints(3, 4, high=11))
    case("searchsorted", lambda v, q: jnp.searchsorted(v, q), np.sort(floats(20)), floats(7))
    case("interp", lambda q, a, b: jnp.interp(q, a, b), floats(9), np.sort(floats(5)), floats(5))
    case("choose", lambda k, a, b: jnp.choose(k, [a, b], mode="clip"), ints(6, high=2), floats(6), floats(6))
    case("nonzero", lambda v: jnp.nonzero(v > 0, size=5), floats(9))


def sorting():
    for dtype in (np.float32, np.float64, np.int32, np.uint8, np.int64, np.bool_):
        x = floats(4, 9, dtype=dtype) if dtype in FLOATS else ints(4, 9, dtype=dtype, high=2 if dtype == np.bool_ else 6)
        case("sort-%s" % dtype.__name__, lambda v: (jnp.sort(v, axis=-1), jnp.sort(v, axis=0)), x)
    case("sort-special", jnp.sort, np.tile(edges(np.float32), 2))
    case("sort-descending", lambda x: jnp.sort(x, descending=True), floats(9))
    case("argsort", lambda x: (jnp.argsort(x), jnp.argsort(x, stable=True, descending=True)), np.round(floats(4, 9) * 2))
    case("sort-key-value", lambda x, y: lax.sort((x, y), num_keys=1), ints(17, high=5), floats(17))
    case("sort-two-keys", lambda x, y, z: lax.sort((x, y, z), num_keys=2), ints(17, high=3), np.round(floats(17)), floats(17))
    case("sort-two-float-keys", lambda x, y: lax.sort((x, y), num_keys=2),
         np.array([1, 2, np.nan, 1, -0.0, 0, np.nan, 2, 0, -0.0, np.inf], np.float32), floats(11))
    case("sort-mixed", lambda x, y: jnp.lexsort((-x, y)), ints(30, low=-3, high=3), np.round(floats(30)))
    case("top_k-special", lambda x: lax.top_k(x, 9), edges(np.float32))
    case("top_k-special-f16", lambda x: lax.top_k(x, 9), edges(np.float16))
    case("top_k", lambda x: lax.top_k(x, 3), floats(4, 9))
    case("top_k-int", lambda x: lax.top_k(x, 3), ints(4, 9, high=5))
    case("unique", lambda x: jnp.unique(x, size=6, fill_value=0), ints(20, high=6))
    case("lexsort", lambda x, y: jnp.lexsort((x, y)), ints(12, high=3), ints(12, high=3))
    case("quantile", lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), floats(31))
    case("approx_max_k", lambda x: lax.approx_max_k(x, 3), floats(2, 32))


def control():
    case("cond", lambda p, x: lax.cond(p, lambda v: v * 2, lambda v: v - 1, x), np.bool_(True), floats(3))
    case("cond-capture", lambda p, x, y: lax.cond(p > 0, lambda: x + y, lambda: x * y), np.float32(-1), floats(3), floats(3))
    case("switch", lambda i, x: lax.switch(i, [lambda v: v + 1, lambda v: v * 2, lambda v: -v, jnp.sin], x), np.int32(2), floats(3))
    case("switch-out", lambda i, x: lax.switch(i, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], x), np.int32(9), floats(3))
    case("while", lambda x: lax.while_loop(lambda v: jnp.sum(v) < 100, lambda v: v * 2 + 1, x), floats(3) + 3)
    case("fori", lambda x: lax.fori_loop(0, 10, lambda i, v: v * 0.9 + i, x), floats(3))
    case("fori-dynamic", lambda n, x: lax.fori_loop(0, n, lambda i, v: v.at[i].add(1.0), x), np.int32(4), floats(7))
    case("while-capture", lambda x, y: lax.fori_loop(0, 5, lambda i, v: v + y * i, x), floats(3), floats(3))
    case("while-nested", lambda x: lax.fori_loop(0, 3, lambda i, v: lax.fori_loop(0, i, lambda j, w: w + j * 1.5, v), x), floats(3))
    case("cond-in-loop", lambda x: lax.fori_loop(0, 6, lambda i, v: lax.cond(i % 2 == 0, lambda w: w + 1, lambda w: w * 2, v), x), floats(3))
    case("scan", lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(3, jnp.float32), x), floats(6, 3))
    case("scan-reverse", lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.float32(0), x, reverse=True), floats(6))
    case("scan-length", lambda x: lax.scan(lambda c, _: (c * 1.1, c), x, None, length=5), np.float32(1))
    case("scan-unroll", lambda x: lax.scan(lambda c, v: (c + v, c), jnp.float32(0), x, unroll=2), floats(6))
    case("scan-grad", jax.grad(lambda w, x: lax.scan(lambda c, v: (jnp.tanh(c @ w + v), None), jnp.zeros(4), x)[0].sum()),
         floats(4, 4), floats(5, 4))
    case("map", lambda x: lax.map(lambda v: jnp.sum(v) * v, x), floats(4, 3))
    case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), floats(17))
    case("vmap-cond", jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x)), floats(5), floats(5))
    case("vmap-while", jax.vmap(lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * 2, x)), floats(5, low=0.5))
    case("nested-jit", lambda x: jax.jit(lambda v: jax.jit(jnp.sin)(v) + jax.jit(jnp.sin)(v * 2))(x), floats(3))
    case("custom_jvp", jax.grad(lambda x: jnp.sum(jax.nn.relu(x) * jax.nn.silu(x))), floats(7))
    case("remat", jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x))), floats(4))
    case("newton", lambda x: lax.while_loop(lambda s: jnp.abs(s[0] * s[0] - s[1]) > 1e-5,
                                            lambda s: ((s[0] + s[1] / s[0]) / 2, s[1]), (x, x)), np.float32(7))


def random_numbers():
    key = np.array([1, 42], np.uint32)
    wrap = jax.random.wrap_key_data
    case("random-bits", lambda k: jax.random.bits(wrap(k), (7,)), key)
    case("random-split", lambda k: jax.random.key_data(jax.random.split(wrap(k), 3)), key)
    case("random-fold", lambda k: jax.random.key_data(jax.random.fold_in(wrap(k), 5)), key)
    case("random-randint", lambda k: jax.random.randint(wrap(k), (9,), 0, 10), key)
    case("random-uniform", lambda k: jax.random.uniform(wrap(k), (9,)), key)
    case("random-normal", lambda k: jax.random.normal(wrap(k), (9,)), key)
    case("random-bernoulli", lambda k: jax.random.bernoulli(wrap(k), 0.4, (9,)), key)
    case("random-permutation", lambda k: jax.random.permutation(wrap(k), 9), key)
    case("random-categorical", lambda k, x: jax.random.categorical(wrap(k), x), key, floats(3, 4))
    case("random-choice", lambda k: jax.random.choice(wrap(k), 9, (4,)), key)
    case("random-gamma", lambda k: jax.random.gamma(wrap(k), 2.0, (3,)), key)
    case("rng_bit_generator", lambda k: lax.rng_bit_generator(k, (5,)), np.array([1, 2, 3, 4], np.uint32))


def models():
    def mlp(p, x):
        for w, b in p[:-1]:
            x = jnp.tanh(x @ w + b)
        return x @ p[-1][0] + p[-1][1]
    p = [(floats(4, 16), floats(16)), (floats(16, 8), floats(8)), (floats(8, 3), floats(3))]
    x, y = floats(5, 4), ints(5, high=3)

    def loss(p, x, y):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(mlp(p, x)), y[:, None], 1))
    case("mlp", mlp, p, x)
    case("mlp-loss", loss, p, x, y)
    case("mlp-grad", jax.value_and_grad(loss), p, x, y)
    case("mlp-sgd", lambda p, x, y: jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x, y)), p, x, y)
    case("mlp-hessian", jax.hessian(lambda x: jnp.sum(jnp.tanh(x) ** 2)), floats(4))
    case("mlp-jacobian", lambda p, x: jax.jacfwd(lambda v: mlp(p, v))(x[0]), p, x)

    def adam(p, m, v, x, y):
        g = jax.grad(loss)(p, x, y)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        return jax.tree.map(lambda a, b, c: a - 0.01 * b / (jnp.sqrt(c) + 1e-8), p, m, v), m, v
    zero = jax.tree.map(np.zeros_like, p)
    case("mlp-adam", adam, p, zero, zero, x, y)

    def cnn(p, x):
        x = lax.conv_general_dilated(x, p[0], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + p[1])
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = lax.conv_general_dilated(x, p[2], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(x).reshape(x.shape[0], -1) @ p[3]
    q = [floats(3, 3, 3, 8) * 0.3, floats(8), floats(3, 3, 8, 4) * 0.3, floats(16, 3)]
    images = floats(2, 8, 8, 3)
    case("cnn", cnn, q, images)
    case("cnn-grad", jax.value_and_grad(lambda p, x: jnp.mean(cnn(p, x) ** 2)), q, images)

    def norm(x, g):
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g

    def layer(p, x):
        h = norm(x, p["g1"])
        b, t, d = h.shape
        q, k, v = [(h @ p[n]).reshape(b, t, 2, d // 2) for n in "qkv"]
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(d // 2))
        s = jnp.where(jnp.tril(jnp.ones((t, t), bool)), s, -1e9)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(b, t, d) @ p["o"]
        return x + jax.nn.gelu(norm(x, p["g2"]) @ p["w1"]) @ p["w2"]
    t = {n: floats(8, 8) * 0.4 for n in "qkvo"}
    t.update(g1=floats(8), g2=floats(8), w1=floats(8, 32) * 0.3, w2=floats(32, 8) * 0.3)
    tokens = floats(2, 6, 8)
    case("transformer", layer, t, tokens)
    case("transformer-grad", jax.value_and_grad(lambda p, x: jnp.mean(layer(p, x) ** 2)), t, tokens)
    table = floats(11, 8)

    def language(p, table, k):
        h = layer(p, table[k])
        logits = jax.nn.log_softmax(h @ table.T)
        return -jnp.mean(jnp.take_along_axis(logits[:, :-1], k[:, 1:, None], 2))
    case("language-grad", jax.value_and_grad(language, (0, 1)), t, table, ints(2, 6, high=11))

    def rope(x):
        half = x.shape[-1] // 2
        angle = jnp.arange(x.shape[1])[:, None] * (10000.0 ** (-jnp.arange(half) / half))
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)
    case("rope", lambda x: rope(x).astype(jnp.float32), floats(2, 6, 8))

    def lstm(w, u, b, x):
        def step(s, v):
            h, c = s
            i, f, g, o = jnp.split(v @ w + h @ u + b, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zero = jnp.zeros((x.shape[1], 4), jnp.float32)
        return lax.scan(step, (zero, zero), x)
    weights = (floats(3, 16), floats(4, 16), floats(16))
    case("lstm", lstm, *weights, floats(5, 2, 3))
    case("lstm-grad", jax.grad(lambda w, u, b, x: jnp.sum(lstm(w, u, b, x)[1]), (0, 1, 2)), *weights, floats(5, 2, 3))
    case("attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
         floats(2, 5, 2, 4), floats(2, 5, 2, 4), floats(2, 5, 2, 4))
    case("batch_norm-grad", jax.grad(lambda x: jnp.sum(((x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)) ** 3)), floats(6, 4))
    case("gnn", lambda h, a, s, r: jax.ops.segment_sum(jax.nn.relu(h[s] @ a), r, 5), floats(5, 4), floats(4, 4),
         ints(9, high=5), ints(9, high=5))
    case("power-iteration", lambda a: lax.fori_loop(0, 20, lambda i, v: (a @ v) / jnp.linalg.norm(a @ v), jnp.ones(4)),
         floats(4, 4, low=0))
    case("jacobi-solve", lambda a, b: lax.fori_loop(0, 30, lambda i, v: (b - (a - jnp.diag(jnp.diag(a))) @ v) / jnp.diag(a),
                                                    jnp.zeros(4)), floats(4, 4) * 0.1 + np.eye(4, dtype=np.float32) * 2, floats(4))
    case("polyfit-ish", lambda x: jnp.polyval(np.array([1, -2, 3], np.float32), x) + jnp.vander(x, 3).sum(1), floats(6))
    case("resize", lambda x: jax.image.resize(x, (6, 10), "bilinear"), floats(3, 5))
    case("cholesky", lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3)), floats(3, 3))
    case("solve", jnp.linalg.solve, floats(3, 3), floats(3))
    case("expm", lambda x: jax.scipy.linalg.expm(x), floats(3, 3))


def texts():
    """Ops that JAX lowers otherwise on the CPU: (name, text, inputs, results)."""
    a = floats(2, 5, 5) + 4 * np.eye(5, dtype=np.float32)
    spd = (a @ a.transpose(0, 2, 1)).astype(np.float32)
    low = np.linalg.cholesky(spd.astype(np.float64)).astype(np.float32)
    main = "module { func.func public @main(%s) -> %s { %s } }"
    for lower, want in (("true", low), ("false", low.transpose(0, 2, 1))):
        body = ("%%0 = stablehlo.cholesky %%a, lower = %s : tensor<2x5x5xf32> return %%0 : tensor<2x5x5xf32>" % lower)
        yield "cholesky-" + lower, main % ("%a: tensor<2x5x5xf32>", "tensor<2x5x5xf32>", body), [spd], [want]
    for left in (True, False):
        for lower in (True, False):
            for unit in (True, False):
                for transpose in ("NO_TRANSPOSE", "TRANSPOSE"):
                    b = floats(2, 5, 3) if left else floats(2, 3, 5)
                    kind = "tensor<%sxf32>" % "x".join(map(str, b.shape))
                    flags = (str(left).lower(), str(lower).lower(), str(unit).lower(), transpose)
                    body = ('%%0 = "stablehlo.triangular_solve"(%%a, %%b) <{left_side = %s, lower = %s, '
                            'unit_diagonal = %s, transpose_a = #stablehlo<transpose %s>}> : '
                            % flags + "(tensor<2x5x5xf32>, %s) -> %s return %%0 : %s" % (kind, kind, kind))
                    m = np.tril(a) if lower else np.triu(a)
                    if unit:
                        m = m - m * np.eye(5, dtype=np.float32) + np.eye(5, dtype=np.float32)
                    m = m.transpose(0, 2, 1) if transpose == "TRANSPOSE" else m
                    m = m.astype(np.float64)
                    want = np.linalg.solve(m, b) if left else np.linalg.solve(m.transpose(0, 2, 1), b.transpose(0, 2, 1)).transpose(0, 2, 1)
                    yield ("triangular_solve-%s-%s-%s-%s" % flags, main % ("%%a: tensor<2x5x5xf32>, %%b: %s" % kind, kind, body),
                           [a, b], [want.astype(np.float32)])
    x, scale, offset, mean, var = floats(4, 3, 5), floats(3), floats(3), floats(3), floats(3, low=0.5)
    grad = floats(4, 3, 5)
    v = lambda t: t[None, :, None]
    t, w = "tensor<4x3x5xf32>", "tensor<3xf32>"
    yield ("batch_norm_inference", main % (
        "%%x: %s, %%s: %s, %%o: %s, %%m: %s, %%v: %s" % (t, w, w, w, w), t,
        '%%0 = "stablehlo.batch_norm_inference"(%%x, %%s, %%o, %%m, %%v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : '
        "(%s, %s, %s, %s, %s) -> %s return %%0 : %s" % (t, w, w, w, w, t, t)),
        [x, scale, offset, mean, var], [(x - v(mean)) / np.sqrt(v(var) + 1e-3) * v(scale) + v(offset)])
    bm, bv = x.mean((0, 2)), x.var((0, 2))
    yield ("batch_norm_training", main % (
        "%%x: %s, %%s: %s, %%o: %s" % (t, w, w), "(%s, %s, %s)" % (t, w, w),
        '%%0:3 = "stablehlo.batch_norm_training"(%%x, %%s, %%o) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : '
        "(%s, %s, %s) -> (%s, %s, %s) return %%0#0, %%0#1, %%0#2 : %s, %s, %s" % (t, w, w, t, w, w, t, w, w)),
        [x, scale, offset], [(x - v(bm)) / np.sqrt(v(bv) + 1e-3) * v(scale) + v(offset), bm, bv])
    # at the batch's own mean and variance it is the derivative of batch_norm_training
    def train(p, s, o):
        m, q = jnp.mean(p, (0, 2)), jnp.var(p, (0, 2))
        return jnp.sum(((p - v(m)) / jnp.sqrt(v(q) + 1e-3) * v(s) + v(o)) * grad)
    want = [np.asarray(g) for g in jax.grad(train, (0, 1, 2))(x, scale, offset)]
    yield ("batch_norm_grad", main % (
        "%%x: %s, %%s: %s, %%m: %s, %%v: %s, %%g: %s" % (t, w, w, w, t), "(%s, %s, %s)" % (t, w, w),
        '%%0:3 = "stablehlo.batch_norm_grad"(%%x, %%s, %%m, %%v, %%g) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : '
        "(%s, %s, %s, %s, %s) -> (%s, %s, %s) return %%0#0, %%0#1, %%0#2 : %s, %s, %s" % (t, w, w, w, t, t, w, w, t, w, w)),
        [x, scale, bm, bv, grad], want)
    p, q = floats(3, 4), floats(4, 5)
    yield ("einsum", main % ("%p: tensor<3x4xf32>, %q: tensor<4x5xf32>", "tensor<5x3xf32>",
                             '%0 = stablehlo.einsum %p, %q, config = "ab,bc->ca" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<5x3xf32> '
                             "return %0 : tensor<5x3xf32>"), [p, q], [(p @ q).T])
    yield ("map", main % ("%p: tensor<3x4xf32>", "tensor<3x4xf32>",
                          '%0 = "stablehlo.map"(%p, %p) <{dimensions = array<i64: 0, 1>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): '
                          "%1 = stablehlo.multiply %a, %b : tensor<f32> stablehlo.return %1 : tensor<f32> }) : "
                          "(tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32> return %0 : tensor<3x4xf32>"), [p], [p * p])
    yield ("tuple", main % ("%p: tensor<3x4xf32>, %q: tensor<4x5xf32>", "tensor<4x5xf32>",
                            "%0 = stablehlo.tuple %p, %q : tuple<tensor<3x4xf32>, tensor<4x5xf32>> "
                            "%1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<3x4xf32>, tensor<4x5xf32>>) -> tensor<4x5xf32> "
                            "return %1 : tensor<4x5xf32>"), [p, q], [q])
    yield ("dimension_size", main % ("%p: tensor<3x4xf32>", "tensor<i32>",
                                     "%0 = stablehlo.get_dimension_size %p, dim = 1 : (tensor<3x4xf32>) -> tensor<i32> "
                                     "return %0 : tensor<i32>"), [p], [np.int32(4)])
    n = np.array([-np.nan, -np.inf, -1, -0.0, 0, 1, np.inf, np.nan], np.float32)
    n[0], n[-1] = np.copysign(n[0], -1), np.copysign(n[-1], 1)
    order = np.array([3, 0, 7, 5, 1, 6, 2, 4])
    yield ("total-order", main % ("%p: tensor<8xf32>", "tensor<8xi32>",
                                  '%i = stablehlo.iota dim = 0 : tensor<8xi32> %0:2 = "stablehlo.sort"(%p, %i) <{dimension = 0 : i64, '
                                  "is_stable = true}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>): "
                                  "%1 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1> "
                                  "stablehlo.return %1 : tensor<i1> }) : (tensor<8xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>) "
                                  "return %0#1 : tensor<8xi32>"), [n[order]], [np.argsort(order).astype(np.int32)])


for fill in (elementwise, complex_numbers, shapes, products, convolutions, reductions, indexing,
             sorting, control, random_numbers, models):
    STRICT = fill is elementwise
    fill()


def tolerance(have):
    return {np.dtype(np.float64): 1e-12, np.dtype(np.complex128): 1e-12,
            np.dtype(np.float16): 4e-3}.get(have.dtype, 2e-5)


def differs(name, have, want, strict):
    """What is wrong with a result, or None."""
    if have.dtype != want.dtype or have.shape != want.shape:
        return "%s%s for %s%s" % (have.dtype, list(have.shape), want.dtype, list(want.shape))
    if not np.issubdtype(want.dtype, np.inexact):
        bad = np.flatnonzero(have.ravel() != want.ravel())
    else:
        rtol = 2e-2 if "bfloat16" in name or "bf16" in name else tolerance(want)
        finite = np.abs(want[np.isfinite(want)])
        scale = rtol * 0.1 * finite.max() if finite.size and not strict else 1e-37
        bad = np.flatnonzero(~np.isclose(have, want, rtol, scale, equal_nan=True).ravel())
    if not len(bad):
        return None
    k = bad[0]
    return "%d of %d: at %d %r for %r" % (len(bad), want.size, k, have.ravel()[k], want.ravel()[k])


def artifact(function, inputs, version):
    lowered = jax.jit(function).lower(*inputs)
    args = [np.asarray(v) for v in jax.tree.leaves(inputs)]
    kept = lowered._lowering.compile_args.get("kept_var_idx")
    if kept is not None:
        args = [args[i] for i in sorted(kept)]
    # as jaxlib does for a PJRT plugin: what is CHLO becomes composites, or StableHLO
    text = str(lowered.compiler_ir("stablehlo"))
    return _jax.mlir.serialize_portable_artifact(text, version), args


def run_text(name, text, inputs, want, version):
    data = _jax.mlir.serialize_portable_artifact(text, version)
    return compare(name, data, inputs, [np.asarray(v) for v in want], False)


def run_one(name, function, inputs, strict, version):
    """'passed', or ('refused' or 'wrong', why)."""
    data, args = artifact(function, inputs, version)
    keep = os.environ.get("KEEP_ARTIFACTS")
    if keep:
        with open(os.path.join(keep, name.replace("/", "_") + ".mlirbc"), "wb") as file:
            file.write(data)
    want = [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*inputs))]

    def exact():
        wide = jax.tree.map(lambda v: np.asarray(v, np.float64) if np.asarray(v).dtype == np.float32 else v, inputs)
        return [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*wide))]
    return compare(name, data, args, want, strict, exact)


def is_closer(have, want, exact):
    """Whether a result of f32 is as near to that of f64 as the other is."""
    if have.dtype != np.float32 or have.shape != exact.shape or exact.dtype != np.float64:
        return False
    return np.abs(have - exact).max() <= np.abs(want - exact).max()


def compare(name, data, args, want, strict, exact=None):
    try:
        have = [t.numpy() for t in keel.load(data).run(*args)]
    except keel.Error as error:
        return ("refused" if error.status == "UNIMPLEMENTED" else "wrong"), str(error)
    if len(have) != len(want):
        return "wrong", "%d results for %d" % (len(have), len(want))
    for k, (h, w) in enumerate(zip(have, want)):
        why = differs(name, h, w, strict)
        if why and not (exact and not strict and is_closer(h, w, exact()[k])):
            return "wrong", why
    return "passed", ""


def main():
    globs = [a for a in sys.argv[1:] if not a.startswith("-")]
    version = os.environ.get("STABLEHLO_VERSION") or stablehlo.get_current_version()
    counts = {"passed": 0, "refused": 0, "wrong": 0}
    every = [(name, lambda c=c, v=version: run_one(*c, v)) for c in CASES for name in [c[0]]]
    every += [(t[0], lambda t=t, v=version: run_text(*t, v)) for t in texts()]
    for name, run in every:
        if globs and not any(fnmatch.fnmatch(name, g) for g in globs):
            continue
        try:
            result, why = run()
        except Exception as error:  # JAX's own: the case is not there
            print("no case  %s: %s" % (name, str(error).splitlines()[0][:150]))
            continue
        counts[result] += 1
        if result != "passed":
            print("%-8s %s: %s" % (result, name, why.replace("\n", " ")[:300]))
    print("%(passed)d passed, %(refused)d refused, %(wrong)d wrong" % counts)
    return 1 if counts["wrong"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
