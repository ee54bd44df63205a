"""Writes small ONNX models: cases of what ONNX changed from opset to opset, with what
comes out, and models that must be refused, with words that the refusal has.

usage: onnx_models.py FOLDER        (onnx_writer.py says what is in it)
"""
import itertools
import math
import sys

from onnx_writer import (Tensor, case, cases, function, model, node, one, refuse, refused,
                         part, scalar, tensor, varint, whole, write_all)

INF, NAN = float("inf"), float("nan")
X = {"x": tensor("f32", -1, 2)}
RELU = node("Relu", ["x"], ["y"])

one("newest_opset", 28, "Relu", X, {"y": tensor("f32", 0, 2)})
case("function_of_its_own_opset", 12,
     [node("Rest", ["x", "y"], ["z"], domain="own")],
     {"x": tensor("f32", 3, -3), "y": tensor("f32", -INF, INF)},
     {"z": tensor("f32", -INF, INF)},
     functions=[function("Rest", ["x", "y"], ["z"],
                         [node("Mod", ["x", "y"], ["z"])], 28)])

# opset 28
one("mod_of_floats", 28, "Mod",
    {"a": tensor("f32", 5.5, -5.5, 5.5, -5.5, 3, -3, 4, INF, 1, NAN, 0),
     "b": tensor("f32", 2, 2, -2, -2, INF, INF, -INF, 2, 0, 1, 3)},
    {"c": tensor("f32", 1.5, 0.5, -0.5, -1.5, 3, INF, -INF, NAN, NAN, NAN, 0)})
one("mod_of_large_floats", 28, "Mod",
    {"a": tensor("f64", 1e17 + 16, -1e17)}, {"c": tensor("f64", 0, 2)},
    constants={"b": tensor("f64", 7)})
one("shift_of_signed_left", 28, "BitShift",
    {"a": tensor("i8", 1, -1, 64, 3, 3), "b": tensor("i8", 3, 2, 1, 8, -1)},
    {"c": tensor("i8", 8, -4, -128, 0, 0)}, direction="LEFT")
one("shift_of_signed_right", 28, "BitShift",
    {"a": tensor("i32", 9, -9, -9, 9, -9, 9),
     "b": tensor("i32", 1, 1, 32, 32, -1, -5)},
    {"c": tensor("i32", 4, -5, -1, 0, -1, 0)}, direction="RIGHT")
one("space_to_depth_by_columns", 28, "SpaceToDepth",
    {"x": tensor("f32", *range(8), dims=[1, 2, 2, 2])},
    {"y": tensor("f32", 0, 1, 2, 3, 4, 5, 6, 7, dims=[1, 8, 1, 1])},
    blocksize=2, mode="CRD")
for dtype, start, end in (("i8", 64, -64), ("u8", 200, 72), ("i16", 16384, -16384),
                          ("u16", 60000, 27232)):  # bits that go do not come back
    for name, op, value in (("sum", "Add", start), ("shift", "BitShift", 1)):
        extra = {"direction": "LEFT"} if op == "BitShift" else {}
        case("half_of_a_%s_of_%s" % (name, dtype), 28,
             [node(op, ["x", "y"], ["z"], **extra), node("Div", ["z", "two"], ["h"])],
             {"x": tensor(dtype, start, 3), "y": tensor(dtype, value, value)},
             {"h": tensor(dtype, end, ((3 + value) // 2 if op == "Add" else 3))},
             constants={"two": tensor(dtype, 2)})

# opset 27
one("range_of_half_floats", 27, "Range",
    {}, {"y": tensor("f16", 1, 1.5, 2, 2.5)},
    constants={"start": scalar("f16", 1), "limit": scalar("f16", 3),
               "delta": scalar("f16", 0.5)})
one("range_of_bytes", 27, "Range", {}, {"y": tensor("bf16", 250, 252, 254)},
    constants={"start": scalar("bf16", 250), "limit": scalar("bf16", 256),
               "delta": scalar("bf16", 2)}, stash_type=1)

# opset 24
one("cast_that_rounds_another_type", 24, "Cast", {"x": tensor("f32", 1.5, -2)},
    {"y": tensor("i32", 1, -2)}, to=6, round_mode="down")

# opsets 21 and 23
one("quantize_by_blocks", 21, "QuantizeLinear",
    {"x": tensor("f32", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, dims=[2, 5]),
     "scale": tensor("f32", 1, 2, 4, 0.5, 1, 3, dims=[2, 3]),
     "zero": tensor("u8", 0, 10, 20, 1, 2, 3, dims=[2, 3])},
    {"y": tensor("u8", 1, 2, 12, 12, 21, 13, 15, 10, 11, 6, dims=[2, 5])},
    axis=1, block_size=2)
one("quantize_to_16_bits", 21, "QuantizeLinear",
    {"x": tensor("f32", -1, 0, 1, 100), "scale": scalar("f32", 0.001),
     "zero": scalar("u16", 32767)},
    {"y": tensor("u16", 31767, 32767, 33767, 65535)})
one("quantize_to_a_named_type", 21, "QuantizeLinear",
    {"x": tensor("f32", -40, 0, 1, 40), "scale": scalar("f32", 0.001)},
    {"y": tensor("i16", -32768, 0, 1000, 32767)}, output_dtype=5)
one("quantize_by_half_floats", 21, "QuantizeLinear",
    {"x": tensor("f16", 1, 2.5, -3), "scale": scalar("f16", 0.5),
     "zero": scalar("i8", 1)},
    {"y": tensor("i8", 3, 6, -5)})
one("quantize_with_less_precision", 23, "QuantizeLinear",
    {"x": tensor("f32", 1000.5, 3), "scale": scalar("f32", 1)},
    {"y": tensor("u16", 1000, 3)}, output_dtype=4, precision=16)
one("dequantize_by_blocks", 21, "DequantizeLinear",
    {"x": tensor("i8", 1, 2, 3, 4, 5, 6, dims=[3, 2]),
     "scale": tensor("f32", 1, 2, 4, 0.5, dims=[2, 2]),
     "zero": tensor("i8", 0, 1, 2, 3, dims=[2, 2])},
    {"y": tensor("f32", 1, 2, 3, 6, 12, 1.5, dims=[3, 2])}, axis=0, block_size=2)
one("dequantize_16_bits_to_half_floats", 23, "DequantizeLinear",
    {"x": tensor("u16", 0, 40000, 65535), "scale": scalar("f32", 0.5),
     "zero": scalar("u16", 40000)},
    {"y": tensor("f16", -20000, 0, 12768)}, output_dtype=10)
one("product_of_quantised_by_half_floats", 21, "QLinearMatMul",
    {"a": tensor("u8", 10, 20, 30, 40, dims=[2, 2])},
    {"y": tensor("u8", 35, 50, 75, 110, dims=[2, 2])},
    constants={"a_scale": tensor("f16", 0.5), "a_zero": tensor("u8", 0),
               "b": tensor("u8", 1, 2, 3, 4, dims=[2, 2]),
               "b_scale": tensor("f16", 2), "b_zero": tensor("u8", 0),
               "y_scale": tensor("f16", 2), "y_zero": tensor("u8", 0)})
one("product_of_quantised_by_rows_and_columns", 10, "QLinearMatMul",
    {"a": tensor("u8", 10, 20, 30, 40, dims=[2, 2])},
    {"y": tensor("u8", 70, 140, 220, 255, dims=[2, 2])},
    constants={"a_scale": tensor("f32", 0.5, 1), "a_zero": tensor("u8", 0, 10),
               "b": tensor("u8", 1, 2, 3, 4, dims=[2, 2]),
               "b_scale": tensor("f32", 1, 2), "b_zero": tensor("u8", 0, 1),
               "y_scale": tensor("f32", 0.5), "y_zero": tensor("u8", 0)})
one("norm_of_groups_of_channels", 21, "GroupNormalization",
    {"x": tensor("f32", 1, 3, -1, 1, 2, 6, dims=[1, 6, 1]),
     "scale": tensor("f32", 1, 2, 3, 4, 5, 6), "bias": tensor("f32", 0, 0, 0, 0, 0, 7)},
    {"y": tensor("f32", -1, 2, -3, 4, -5, 13, dims=[1, 6, 1])},
    num_groups=3, epsilon=0.0)
one("norm_of_groups_with_one_scale_each", 18, "GroupNormalization",
    {"x": tensor("f32", 1, 3, -1, 1, 2, 6, dims=[1, 6, 1]),
     "scale": tensor("f32", 1, 2, 3), "bias": tensor("f32", 0, 5, 0)},
    {"y": tensor("f32", -1, 1, 3, 7, -3, 3, dims=[1, 6, 1])},
    num_groups=3, epsilon=0.0)

# opset 20
one("largest_of_truths", 20, "ReduceMax",
    {"x": tensor("bool", 1, 0, 0, 0, dims=[2, 2])},
    {"y": tensor("bool", 1, 0)}, constants={"axes": tensor("i64", 1)}, keepdims=0)
one("least_of_no_truths", 20, "ReduceMin",
    {"x": tensor("bool", dims=[2, 0])}, {"y": tensor("bool", 1, 1)},
    constants={"axes": tensor("i64", 1)}, keepdims=0)
one("samples_of_a_volume", 20, "GridSample",
    {"x": tensor("f32", *range(8), dims=[1, 1, 2, 2, 2]),
     "grid": tensor("f32", 0, 0, 0, -1, 1, 1, 1, -1, 0.5, dims=[1, 1, 1, 3, 3])},
    {"y": tensor("f32", 3.5, 6, 4, dims=[1, 1, 1, 1, 3])}, align_corners=1)
one("samples_of_lines_by_cubes", 20, "GridSample",
    {"x": tensor("f32", 1, 2, 4, 8, dims=[1, 1, 4]),
     "grid": tensor("f32", -0.25, -3, 3, dims=[1, 3, 1])},
    {"y": tensor("f32", 2, 1, 8, dims=[1, 1, 3])}, mode="cubic",
    padding_mode="border")
one("cubic_samples_past_a_border", 16, "GridSample",  # as ONNX Runtime has them
    {"x": tensor("f32", 0, 0, 0, 8, 0, 0, 0, 8, dims=[1, 1, 2, 4]),
     "grid": tensor("f32", 1.125, 0, dims=[1, 1, 1, 2])},
    {"y": tensor("f32", 8.28125, dims=[1, 1, 1, 1])}, mode="bicubic",
    padding_mode="border")
one("samples_by_the_old_name", 16, "GridSample",
    {"x": tensor("f32", *range(4), dims=[1, 1, 2, 2]),
     "grid": tensor("f32", 0, 0, dims=[1, 1, 1, 2])},
    {"y": tensor("f32", 1.5, dims=[1, 1, 1, 1])}, mode="bilinear")
one("spectrum_along_an_axis_that_is_fed", 20, "DFT",
    {"x": tensor("f32", 1, 2, 3, 4, dims=[2, 2, 1]), "": None,
     "axis": scalar("i64", 0)},
    {"y": tensor("f32", 4, 0, 6, 0, -2, 0, -2, 0, dims=[2, 2, 2])})
one("spectrum_along_the_axis_before_the_last", 20, "DFT",
    {"x": tensor("f32", 1, 2, 3, 4, dims=[2, 2, 1])},
    {"y": tensor("f32", 3, 0, -1, 0, 7, 0, -1, 0, dims=[2, 2, 2])})
one("spectrum_along_the_old_axis", 17, "DFT",
    {"x": tensor("f32", 1, 2, 3, 4, dims=[1, 2, 2, 1])},
    {"y": tensor("f32", 4, 0, 6, 0, -2, 0, -2, 0, dims=[1, 2, 2, 2])})
one("signal_of_half_a_spectrum", 20, "DFT",
    {"x": tensor("f32", 10, 0, -2, 2, -2, 0, dims=[1, 3, 2])},
    {"y": tensor("f32", 1, 2, 3, 4, dims=[1, 4, 1])}, inverse=1, onesided=1)

# what a reduction over nothing leaves, integers that f64 does not hold, NaN, scalars
for name, values in (("L1", (2, 3)), ("L2", (2, 3)), ("SumSquare", (4, 9)),
                     ("Sum", (-2, 3))):
    one("reduce_nothing_%s" % name, 18, "Reduce" + name,
        {"x": tensor("f32", -2, 3)}, {"y": tensor("f32", *values)},
        noop_with_empty_axes=1)
one("reduce_nothing_LogSum", 18, "ReduceLogSum", {"x": tensor("f32", 1)},
    {"y": tensor("f32", 0)}, noop_with_empty_axes=1)
one("powers_of_integers", 15, "Pow",
    {"a": tensor("i64", 3, 7, -3, -1, 2), "b": tensor("i64", 39, 20, 37, -3, -1)},
    {"c": tensor("i64", 3 ** 39, 7 ** 20, -3 ** 37, -1, 0)})
one("hard_sigmoid_of_nan", 6, "HardSigmoid", {"x": tensor("f32", NAN, 9, -9)},
    {"y": tensor("f32", NAN, 1, 0)})
one("kinds_of_truths", 11, "Unique", {"x": tensor("bool", 1, 1, 0, 1)},
    {"y": tensor("bool", 0, 1), "at": tensor("i64", 2, 0)})
one("complex_places", 13, "NonZero", {"x": tensor("c64", 0j, 1j, -0.0, 2)},
    {"y": tensor("i64", 1, 3, dims=[1, 2])})
one("complex_updates", 13, "ScatterElements",
    {"x": tensor("c128", 0, 0, 0), "at": tensor("i64", 2), "u": tensor("c128", 1 + 2j)},
    {"y": tensor("c128", 0, 0, 1 + 2j)})
one("places_of_a_scalar", 13, "NonZero", {"x": scalar("f32", 3)},
    {"y": tensor("i64", dims=[0, 1])})

# what older opsets meant
one("regions_before_half_pixels", 10, "RoiAlign",
    {"x": tensor("f32", *range(16), dims=[1, 1, 4, 4]),
     "rois": tensor("f32", 0, 0, 2, 2, dims=[1, 4]), "at": tensor("i64", 0)},
    {"y": tensor("f32", 5, dims=[1, 1, 1, 1])}, sampling_ratio=1)
for version in (6, 11, 13, 18):
    extra = {"num_outputs": 3} if version == 18 else {}
    case("parts_that_nobody_reads_%d" % version, version,
         [node("Split", ["x"], ["a", "", ""], **extra)],
         {"x": tensor("f32", 1, 2, 3, 4, 5, 6)}, {"a": tensor("f32", 1, 2)})
one("sequence_that_is_wanted", 6, "RNN",
    {"x": tensor("f32", 0, dims=[1, 1, 1])}, {"y": tensor("f32", 0, dims=[1, 1, 1, 1])},
    constants={"w": tensor("f32", 1, dims=[1, 1, 1]),
               "r": tensor("f32", 1, dims=[1, 1, 1])},
    hidden_size=1, output_sequence=1)
one("dropout_of_inference", 6, "Dropout", X, {"y": tensor("f32", -1, 2)}, is_test=1)

# ---- refused -----------------------------------------------------------------------

LATER = "convert the model to opset 28 with onnx.version_converter"
refuse("later_opset", 'node "it": Relu of opset 29: Keel knows', [RELU], {"": 29})
refuse("much_later_opset", LATER, [RELU], {"": 40})
refuse("later_opset_by_its_long_name", "up to opset 28", [RELU], {"ai.onnx": 29})
refuse("later_opset_of_a_function", "Relu of opset 29",
       [node("Mine", ["x"], ["y"], domain="own")], {"": 20, "own": 1},
       functions=[function("Mine", ["a"], ["b"], [node("Relu", ["a"], ["b"])], 29)])
refuse("later_opset_of_keel", "Reorder of opset 2 of keel",
       [node("Reorder", ["x"], ["y"], domain="keel")], {"": 20, "keel": 2})
refuse("no_opset", "does not say which opset of ai.onnx it uses", [RELU],
       {"own": 1})
refuse("dropout_of_training", "training (is_test = 0)",
       [node("Dropout", ["x"], ["y"])], {"": 6})
refuse("other_number_of_parts", "num_outputs is 3, and 2 outputs",
       [node("Split", ["x"], ["y", "z"], num_outputs=3)], {"": 18})
refuse("quantised_to_another_type", "output_dtype is 24",
       [node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=24)], {"": 24},
       constants={"s": scalar("f32", 1)})
refuse("statistics_of_another_type", "stash_type is 7",
       [node("GroupNormalization", ["v", "x", "x"], ["y"], num_groups=1,
             stash_type=7)], {"": 21},
       inputs={"v": tensor("f32", 1, 2, dims=[1, 2]), "x": tensor("f32", 1, 2)})
refuse("unknown_mode", 'attribute "mode" is "RCD", and not one of DCR|CRD',
       [node("DepthToSpace", ["x"], ["y"], blocksize=1, mode="RCD")], {"": 13})
refuse("unknown_reduction", 'attribute "reduction" is "sum", and not one of',
       [node("ScatterND", ["x", "i", "x"], ["y"], reduction="sum")], {"": 18},
       constants={"i": tensor("i64", 0, 1, dims=[2, 1])})
refuse("unknown_direction", "and not one of LEFT|RIGHT",
       [node("BitShift", ["x", "x"], ["y"], direction="UP")], {"": 18},
       inputs={"x": tensor("u8", 1, 2)})
refuse("range_by_another_type", "stash_type is 10",
       [node("Range", ["q", "q", "q"], ["y"], stash_type=10)], {"": 27},
       constants={"q": scalar("f16", 1)})
refuse("two_axes_in_one", "batch_axis is 0 and time_axis 0",
       [node("ReverseSequence", ["v", "n"], ["y"], batch_axis=0)], {"": 10},
       inputs={"v": tensor("f32", 1, 2, dims=[1, 2]), "n": tensor("i64", 1)})
refuse("other_hidden_size", "hidden_size is 3, and R has 2 units",
       [node("RNN", ["v", "w", "w"], ["y"], hidden_size=3)], {"": 14},
       inputs={"v": tensor("f32", 1, 2, dims=[1, 1, 2]),
               "w": tensor("f32", 1, 2, 3, 4, dims=[1, 2, 2])})


# ---- attention, and what goes with it ------------------------------------------------


def numbers(*dims, begin=0):
    count = math.prod(dims)
    return tensor("f32", *[((begin + i) * 7919 % 401 - 200) / 150 for i in range(count)],
                  dims=list(dims))


class Heads:
    """[batch, heads, rows, size], or with heads and rows exchanged as [batch, rows, heads * size]."""

    def __init__(self, value, heads=None):
        d = value.dims
        self.flat, self.values = heads is not None, value.values
        self.batch, self.rows = d[0], d[1] if self.flat else d[2]
        self.heads = heads or d[1]
        self.size = d[2] // heads if self.flat else d[3]

    def row(self, b, h, i):
        at = (b * self.rows + i) * self.heads + h if self.flat else \
            (b * self.heads + h) * self.rows + i
        return self.values[at * self.size:(at + 1) * self.size]


def attend(q, k, v, added=lambda b, h, i, j: 0, softcap=0):
    """(y, weights) by batch, head and row; rows of which `added` hides all are zeros."""
    y, weights = {}, {}
    for b, h, i in itertools.product(range(q.batch), range(q.heads), range(q.rows)):
        group = h * k.heads // q.heads
        scores = []
        for j in range(k.rows):
            score = sum(x * z for x, z in zip(q.row(b, h, i), k.row(b, group, j)))
            score /= math.sqrt(q.size)
            scores.append((softcap * math.tanh(score / softcap) if softcap else score)
                          + added(b, h, i, j))
        most = max(scores)
        powers = [0 if most == -INF else math.exp(s - most) for s in scores]
        total = sum(powers) or 1
        weights[b, h, i] = [p / total for p in powers]
        y[b, h, i] = [sum(w * v.row(b, group, j)[c] for j, w in enumerate(weights[b, h, i]))
                      for c in range(v.size)]
    return y, weights


def in_order(rows, q, flat=False):
    """What attend gives, as a tensor."""
    order = [(b, h, i) for b in range(q.batch) for h in range(q.heads) for i in range(q.rows)]
    size = len(rows[0, 0, 0])
    if flat:
        order = [(b, h, i) for b in range(q.batch) for i in range(q.rows) for h in range(q.heads)]
    dims = [q.batch, q.rows, q.heads * size] if flat else [q.batch, q.heads, q.rows, size]
    return tensor("f32", *[x for at in order for x in rows[at]], dims=dims)


def hide(seen):
    return 0 if seen else -INF


Q, K, V = numbers(2, 4, 3, 4), numbers(2, 2, 5, 4, begin=99), numbers(2, 2, 5, 6, begin=7)
QKV = {"q": Q, "k": K, "v": V}
Y, _ = attend(Heads(Q), Heads(K), Heads(V), lambda b, h, i, j: hide(j <= i))
one("attention_of_groups_in_order", 24, "Attention", QKV, {"y": in_order(Y, Heads(Q))},
    is_causal=1)
Y, _ = attend(Heads(Q), Heads(K), Heads(V), lambda b, h, i, j: hide(-1 <= j - i <= 2))
one("attention_in_a_window", 25, "Attention", QKV, {"y": in_order(Y, Heads(Q))},
    left_window_size=1, right_window_size=2)

# what came before is joined, and order counts from there
BEFORE = numbers(2, 2, 2, 4, begin=3), numbers(2, 2, 2, 6, begin=5)


def behind(past, now):
    size = past.dims[2] * past.dims[3], now.dims[2] * now.dims[3]
    out = [x for i in range(past.dims[0] * past.dims[1])
           for x in past.values[i * size[0]:(i + 1) * size[0]]
           + now.values[i * size[1]:(i + 1) * size[1]]]
    return tensor("f32", *out, dims=past.dims[:2] + [past.dims[2] + now.dims[2], now.dims[3]])


ALL_K, ALL_V = behind(BEFORE[0], K), behind(BEFORE[1], V)
Y, _ = attend(Heads(Q), Heads(ALL_K), Heads(ALL_V), lambda b, h, i, j: hide(j <= i + 2))
one("attention_with_a_past", 23, "Attention",
    {**QKV, "": None, "pk": BEFORE[0], "pv": BEFORE[1]},
    {"y": in_order(Y, Heads(Q)), "kk": ALL_K, "vv": ALL_V}, is_causal=1)

# a mask that ends before the keys do, with a row that sees none
MASK = [True, False, True, True, False, False, False, False, True, True, True, False]
Y, WEIGHTS = attend(Heads(Q), Heads(K), Heads(V),
                    lambda b, h, i, j: hide(j < 4 and MASK[i * 4 + j]))
MASKED = {**QKV, "m": tensor("bool", *MASK, dims=[3, 4])}
one("attention_of_a_row_without_keys", 23, "Attention", MASKED,
    {"y": in_order(Y, Heads(Q))})
case("attention_shows_its_weights", 23,
     [node("Attention", list(MASKED), ["y", "", "", "w"], qk_matmul_output_mode=3)], MASKED,
     {"y": in_order(Y, Heads(Q)), "w": in_order(WEIGHTS, Heads(Q))})
FLOATS = numbers(2, 1, 3, 5, begin=11)
Y, _ = attend(Heads(Q), Heads(K), Heads(V), lambda b, h, i, j: FLOATS.values[(b * 3 + i) * 5 + j],
              softcap=0.5)
one("attention_with_a_cap", 23, "Attention", {**QKV, "m": FLOATS},
    {"y": in_order(Y, Heads(Q))}, softcap=0.5)
Y, _ = attend(Heads(Q), Heads(K), Heads(V), lambda b, h, i, j: hide(j < [4, 2][b] and
                                                                  j <= i + [4, 2][b] - 3))
case("attention_of_samples_of_two_lengths", 24,
     [node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"], is_causal=1)],
     {**QKV, "n": tensor("i64", 4, 2)}, {"y": in_order(Y, Heads(Q))})

# nothing is known of the inputs before the run: not how many dimensions they have, nor of
# which type the mask is
FLAT = {"q": numbers(2, 3, 16), "k": numbers(2, 5, 8, begin=99), "v": numbers(2, 5, 12, begin=7)}
HEADS = Heads(FLAT["q"], 4), Heads(FLAT["k"], 2), Heads(FLAT["v"], 2)
OPEN = [node("Compress", [n, "all"], [n + "_"], axis=0) for n in ("q", "k", "v")]
for name, mask in (("truths", tensor("bool", *MASK, dims=[3, 4])),
                   ("numbers", tensor("f32", *[hide(m) for m in MASK], dims=[3, 4]))):
    Y, _ = attend(*HEADS, lambda b, h, i, j: hide(j < 4 and MASK[i * 4 + j]))
    case("attention_of_unknown_inputs_and_" + name, 23,
         OPEN + [node("Compress", ["m", "rows"], ["m_"], axis=0),
                 node("Attention", ["q_", "k_", "v_", "m_"], ["y"], q_num_heads=4,
                      kv_num_heads=2)],
         {**FLAT, "m": mask, "all": tensor("bool", True, True),
          "rows": tensor("bool", True, True, True)},
         {"y": in_order(Y, HEADS[0], flat=True)})
Y, _ = attend(Heads(Q), Heads(K), Heads(V))
case("attention_of_unknown_inputs", 23,
     OPEN + [node("Attention", ["q_", "k_", "v_"], ["y"])],
     {**QKV, "all": tensor("bool", True, True)}, {"y": in_order(Y, Heads(Q))})


def rotate(row, place, interleaved):
    half = len(row) // 2
    out = list(row)
    for c in range(half):
        a, b = (2 * c, 2 * c + 1) if interleaved else (c, c + half)
        cos, sin = COS.values[place * half + c], SIN.values[place * half + c]
        out[a], out[b] = cos * row[a] - sin * row[b], sin * row[a] + cos * row[b]
    return out


COS, SIN = numbers(9, 2, begin=50), numbers(9, 2, begin=60)
PLACES = tensor("i64", 0, 4, 8, 1, 2, 3, dims=[2, 3])
X = numbers(2, 3, 12)
Y = [y for at in range(12) for y in
     rotate(X.values[at * 6:at * 6 + 4], PLACES.values[at // 2], False)
     + list(X.values[at * 6 + 4:at * 6 + 6])]
one("rotary_of_a_part", 23, "RotaryEmbedding", {"x": X, "cos": COS, "sin": SIN, "p": PLACES},
    {"y": tensor("f32", *Y, dims=X.dims)}, num_heads=2, rotary_embedding_dim=4)
X = numbers(2, 2, 3, 4)
Y = [y for at in range(12) for y in
     rotate(X.values[at * 4:at * 4 + 4], PLACES.values[at // 6 * 3 + at % 3], True)]
one("rotary_of_neighbours", 23, "RotaryEmbedding", {"x": X, "cos": COS, "sin": SIN, "p": PLACES},
    {"y": tensor("f32", *Y, dims=X.dims)}, interleaved=1)

CACHE = {"c": tensor("i32", *range(12), dims=[2, 3, 2]),
         "u": tensor("i32", 50, 51, 52, 53, 60, 61, 62, 63, dims=[2, 2, 2])}
one("tensor_scatter_from_the_first", 24, "TensorScatter", CACHE,
    {"y": tensor("i32", 50, 51, 52, 53, 4, 5, 60, 61, 62, 63, 10, 11, dims=[2, 3, 2])})
one("tensor_scatter_in_a_ring", 24, "TensorScatter", {**CACHE, "w": tensor("i64", 1, 2)},
    {"y": tensor("i32", 0, 1, 50, 51, 52, 53, 62, 63, 8, 9, 60, 61, dims=[2, 3, 2])},
    mode="circular", axis=1)
one("center_of_both_kinds", 18, "CenterCropPad",
    {"x": tensor("i16", *range(1, 11), dims=[2, 5]), "s": tensor("i32", 2, 5)},
    {"y": tensor("i16", 0, 0, 2, 3, 7, 8, 0, 0, 0, 0, dims=[5, 2])}, axes=[1, 0])
# blocks of 2x1, steps of 2 and 1, a row of padding below that holds sums of no place
one("columns_to_an_image", 18, "Col2Im",
    {"x": tensor("f32", *range(1, 13), dims=[1, 2, 6]), "image": tensor("i64", 3, 3)},
    {"y": tensor("f32", 1, 2, 3, 7, 8, 9, 4, 5, 6, dims=[1, 1, 3, 3])},
    constants={"block": tensor("i64", 2, 1)}, strides=[2, 1], pads=[0, 0, 1, 0])
one("columns_that_overlap", 18, "Col2Im",
    {"x": tensor("i32", *range(1, 7), dims=[1, 2, 3]), "image": tensor("i64", 5)},
    {"y": tensor("i32", 1, 2, 3 + 4, 5, 6, dims=[1, 1, 5])},
    constants={"block": tensor("i64", 2)}, dilations=[2])
refuse("offsets_of_another_window", "offset must have 8 numbers and mask 4",
       [node("DeformConv", ["x", "w", "offset"], ["y"])], {"": 22},
       inputs={"x": tensor("f32", *range(9), dims=[1, 1, 3, 3]),
               "w": tensor("f32", 1, 2, 3, 4, dims=[1, 1, 2, 2]),
               "offset": tensor("f32", *range(16), dims=[1, 4, 2, 2])})
refuse("channels_of_no_offset_group", "not in offset_group = 2 groups",
       [node("DeformConv", ["x", "w", "x"], ["y"], offset_group=2)], {"": 22},
       inputs={"x": tensor("f32", *range(9), dims=[1, 1, 3, 3]),
               "w": tensor("f32", 1, 2, 3, 4, dims=[1, 1, 2, 2])})
refuse("columns_of_another_image", "the input must be [N,C*2,4]",
       [node("Col2Im", ["x", "image", "block"], ["y"])], {"": 18},
       inputs={"x": tensor("f32", *range(6), dims=[1, 2, 3])},
       constants={"image": tensor("i64", 5), "block": tensor("i64", 2)})
PAST = tensor("f32", 10, 20, 30, 40, dims=[1, 2, 2])
ROWS = tensor("f32", 1, 2, 3, 4, 5, 6, dims=[1, 2, 3])
TAPS = {"w": tensor("f32", 1, 2, 4, -1, 1, 0.5, dims=[2, 1, 3]), "b": tensor("f32", 0.5, -3)}
Y = [10 + 40 + 4, 20 + 2 + 8, 1 + 4 + 12, -30 + 40 + 2, -40 + 4 + 2.5, -4 + 5 + 3]
Y = tensor("f32", *[y + (0.5 if i < 3 else -3) for i, y in enumerate(Y)], dims=[1, 2, 3])
case("causal_convolution_behind_a_state", 27,
     [node("CausalConvWithState", ["x", "w", "b", "past"], ["y", "now"])],
     {"x": ROWS, "past": PAST}, {"y": Y, "now": tensor("f32", 2, 3, 5, 6, dims=[1, 2, 2])},
     constants=TAPS)
Y = [4, 2 + 8, 1 + 4 + 12, 2, 4 + 2.5, -4 + 5 + 3]
case("causal_convolution_from_zeros", 27,
     [node("CausalConvWithState", ["x", "w"], ["y", "now"], activation="silu")], {"x": ROWS},
     {"y": tensor("f32", *[y / (1 + math.exp(-y)) for y in Y], dims=[1, 2, 3]),
      "now": tensor("f32", 2, 3, 5, 6, dims=[1, 2, 2])}, constants=TAPS)
refuse("state_of_another_length", "past_state [N,C,k-1]",
       [node("CausalConvWithState", ["x", "w", "", "x"], ["y"])], {"": 27}, inputs={"x": ROWS},
       constants=TAPS)
def attend(rule, q, k, v, decay, beta, state, scale):
    """LinearAttention of one head of keys, by the recurrence; q has two heads. Returns a row of
    outputs for each token, and the state."""
    out = []
    for t, key in enumerate(k):
        fade = [math.exp(g) if "gated" in rule else 1 for g in decay[t]]
        state = [[f * s for s in row] for f, row in zip(fade, state)]
        value = list(v[t])
        if "delta" in rule:
            value = [beta[t] * (value[j] - sum(key[i] * state[i][j] for i in range(2)))
                     for j in range(2)]
        state = [[state[i][j] + key[i] * value[j] for j in range(2)] for i in range(2)]
        out.append([scale * sum(q[t][2 * h + i] * state[i][j] for i in range(2))
                    for h in range(2) for j in range(2)])
    return out, state


def flat(rows):
    return [number for row in rows for number in row]


TOKENS = {"q": [[1, 2, -1, 3], [0.5, 1, 2, 0], [3, -2, 1, 1]], "k": [[1, 0.5], [-1, 2], [0.25, 1]],
          "v": [[2, -1], [1, 3], [-2, 0.5]], "g": [[-0.1, -0.5], [-1, -0.2], [-0.3, -0.7]]}
BETA, KEPT = [0.5, 1, 0.25], [[0.5, -1], [2, 1]]
for rule in "linear", "gated", "delta", "gated_delta":
    for kept in True, False:
        made, state = attend(rule, *[TOKENS[n] for n in "qkvg"], BETA,
                             KEPT if kept else [[0, 0], [0, 0]], 0.5 if kept else 0.5 ** 0.5)
        given = {n: tensor("f32", *flat(TOKENS[n]), dims=[1, 3, len(TOKENS[n][0])]) for n in "qkv"}
        given["s"] = tensor("f32", *flat(KEPT), dims=[1, 1, 2, 2]) if kept else None
        given["g"] = tensor("f32", *flat(TOKENS["g"]), dims=[1, 3, 2]) if "gated" in rule else None
        given["b"] = tensor("f32", *BETA, dims=[1, 3, 1]) if "delta" in rule else None
        case("linear_attention_%s_%s" % (rule, "behind_a_state" if kept else "from_zeros"), 27,
             [node("LinearAttention", [n if given[n] else "" for n in "qkvsgb"], ["y", "now"],
                   kv_num_heads=1, q_num_heads=2, update_rule=rule,
                   **({"scale": 0.5} if kept else {}))],
             {n: t for n, t in given.items() if t},
             {"y": tensor("f32", *flat(made), dims=[1, 3, 4]),
              "now": tensor("f32", *flat(state), dims=[1, 1, 2, 2])})
LINEAR = {n: tensor("f32", *flat(TOKENS[n]), dims=[1, 3, len(TOKENS[n][0])]) for n in "qkv"}
refuse("attention_without_its_decay", "decay is missing, which update_rule \"gated\" needs",
       [node("LinearAttention", ["q", "k", "v"], ["y"], kv_num_heads=1, q_num_heads=2,
             update_rule="gated")], {"": 27}, inputs=LINEAR)
refuse("attention_of_heads_that_do_not_fit", "must be a multiple of kv_num_heads",
       [node("LinearAttention", ["q", "k", "v"], ["y"], kv_num_heads=2, q_num_heads=3,
             update_rule="linear")], {"": 27}, inputs=LINEAR)

NONE = {n: tensor("f32", dims=[1, 0, len(TOKENS[n][0])]) for n in "qkv"}
case("linear_attention_of_no_tokens", 27,
     [node("LinearAttention", ["q", "k", "v", "s"], ["y", "now"], kv_num_heads=1, q_num_heads=2,
           update_rule="linear")],
     {**NONE, "s": tensor("f32", *flat(KEPT), dims=[1, 1, 2, 2])},
     {"y": tensor("f32", dims=[1, 0, 4]), "now": tensor("f32", *flat(KEPT), dims=[1, 1, 2, 2])})
OPEN = {n: tensor("f32", dims=[-1, -1, -1]) for n in "qkv"}
refuse("attention_of_no_heads", "must be a multiple of kv_num_heads (0)",
       [node("LinearAttention", ["q", "k", "v"], ["y"], kv_num_heads=0, q_num_heads=2,
             update_rule="linear")], {"": 27}, inputs=OPEN)

TRAINING = "ai.onnx.preview.training"


def trained(name, op, made, lists, step, **attrs):
    """One optimiser on two tensors; lists: X, G and so on, by a number for each tensor."""
    inputs = {"r": scalar("f32", 0.1), "t": scalar("i64", step)}
    for letter, pair in zip("xgvh", lists):
        for i, number in enumerate(pair):
            inputs["%s%d" % (letter, i)] = tensor("f32", *[number] * (1 + i))
    kept = [letter for letter in "xgvh"[:len(lists)] if letter != "g"]
    outputs, names = {}, []
    for k, letter in enumerate(kept):
        for i in range(2):
            value = made(*[pair[i] for pair in lists])[k]
            names.append("new_%s%d" % (letter, i))
            outputs[names[-1]] = tensor("f32", *[value] * (1 + i))
    cases[name] = (model([node(op, list(inputs), names, domain=TRAINING, **attrs)], inputs,
                         outputs, {"": 28, TRAINING: 1}), inputs, outputs)


def by_momentum(step, nesterov):
    def made(x, g, v):
        g += 0.25 * x
        v = 0.75 * v + (0.5 if step else 1) * g
        return x - 0.1 * (g + 0.75 * v if nesterov else v), v
    return made


def by_adagrad(x, g, h):
    g += 0.25 * x
    h += g * g
    return x - 0.1 / (1 + 3 * 0.5) * g / (h ** 0.5 + 0.125), h


def by_adam(step):
    def made(x, g, v, h):
        g += 0.25 * x
        v, h = 0.75 * v + 0.25 * g, 0.5 * h + 0.5 * g * g
        rate = 0.1 * (1 - 0.5 ** step) ** 0.5 / (1 - 0.75 ** step) if step else 0.1
        return 0.875 * (x - rate * v / (h ** 0.5 + 0.125)), v, h
    return made


for step in 0, 3:
    for mode in "standard", "nesterov":
        trained("momentum_%s_%d" % (mode, step), "Momentum", by_momentum(step, mode == "nesterov"),
                [(1, -2), (0.5, 3), (0.25, 1)], step, alpha=0.75, beta=0.5, mode=mode,
                norm_coefficient=0.25)
    trained("adam_%d" % step, "Adam", by_adam(step), [(1, -2), (0.5, 3), (0.25, 1), (2, 0.5)], step,
            alpha=0.75, beta=0.5, epsilon=0.125, norm_coefficient=0.25,
            norm_coefficient_post=0.125)
trained("adagrad", "Adagrad", by_adagrad, [(1, -2), (0.5, 3), (2, 0.5)], 3, decay_factor=0.5,
        epsilon=0.125, norm_coefficient=0.25)
refused["optimiser_of_an_odd_list"] = (model(
    [node("Momentum", ["r", "t", "x", "x"], ["y", "z"], domain=TRAINING, alpha=0.5, beta=0.5,
          mode="standard", norm_coefficient=0.5)],
    {"r": scalar("f32", 1), "t": scalar("i64", 1), "x": tensor("f32", 1, 2)},
    {"y": tensor("f32", 1, 2)}, {"": 28, TRAINING: 1}), "takes 3 tensors for each that it trains")
refused["optimiser_of_open_shapes"] = (model(
    [node("Adam", ["r", "t", "x"], ["y", "z", "w"], domain=TRAINING)],
    {"r": scalar("f32", 1), "t": scalar("i64", 1), "x": tensor("f32", dims=[-1])},
    {"y": tensor("f32", 1, 2)}, {"": 28, TRAINING: 1}), "takes 4 tensors for each that it trains")


# ---- derivatives ---------------------------------------------------------------------------

def derived(name, nodes, inputs, outputs):
    cases[name] = (model(nodes, inputs, outputs, {"": 28, TRAINING: 1}), inputs, outputs)


def gradient(inputs, outputs, y, xs, **more):
    return node("Gradient", inputs, outputs, domain=TRAINING, y=y, xs=xs, **more)


PRODUCT = [node("Mul", ["a", "b"], ["p"]), node("Sin", ["z"], ["s"]),
           node("Add", ["p", "s"], ["y"])]
PAIR = {"a": tensor("f32", 2, 3), "b": tensor("f32", 5), "z": tensor("f32", 0, 0)}
derived("gradient_of_a_product_that_is_broadcast",
        PRODUCT + [gradient(["a", "b", "z"], ["da", "db"], "y", ["a", "b"], zs=["z"])], PAIR,
        {"da": tensor("f32", 5, 5), "db": tensor("f32", 5)})
derived("gradient_of_one_of_two",
        PRODUCT + [gradient(["a", "b"], ["", "db"], "y", ["a", "b"])], PAIR,
        {"db": tensor("f32", 5)})
derived("gradient_elsewhere",
        PRODUCT + [gradient(["c", "b"], ["dc", "db"], "y", ["a", "b"])],
        {**PAIR, "c": tensor("f32", 7, 1)},
        {"dc": tensor("f32", 5, 5), "db": tensor("f32", 8)})
derived("gradient_of_a_value_between",
        PRODUCT + [node("Mul", ["y", "y"], ["q"]), gradient(["y", "a"], ["dy", "da"], "q",
                                                            ["y", "a"])],
        PAIR, {"dy": tensor("f32", 20, 30), "da": tensor("f32", 0, 0)})
derived("second_derivative",
        [node("Mul", ["x", "x"], ["s"]), node("Mul", ["s", "x"], ["c"]),
         gradient(["x"], ["first"], "c", ["x"]), gradient(["x"], ["second"], "first", ["x"])],
        {"x": tensor("f32", 1, -2)},
        {"first": tensor("f32", 3, 12), "second": tensor("f32", 6, -12)})


def refuse_gradient(name, words, nodes, *args, **more):
    refuse(name, words, nodes + [gradient(*args, **more)], {"": 28, TRAINING: 1})


refuse_gradient("gradient_of_an_op_without_a_rule", 'Hardmax "it" has no gradient in Keel',
                [node("Hardmax", ["x"], ["d"])],
                ["x"], ["y"], "d", ["x"])
refuse_gradient("gradient_of_no_value", 'its graph has no value "nowhere"', [],
                ["x"], ["y"], "nowhere", ["x"])
refuse("gradient_by_integers", "tensor 0 of xs is of i64, and must be of floats",
       [node("Mul", ["i", "i"], ["m"]), gradient(["i"], ["y"], "m", ["i"])], {"": 28, TRAINING: 1},
       inputs={"i": tensor("i64", 1, 2)})
refuse("gradient_at_another_type", "is of i64, and the tensor that it stands for of f32",
       [node("Mul", ["x", "x"], ["m"]), gradient(["i"], ["y"], "m", ["x"])], {"": 28, TRAINING: 1},
       inputs={"x": tensor("f32", 1, 2), "i": tensor("i64", 1, 2)})
# each has some three times the nodes of the one before
refuse("gradients_of_gradients", "take fewer gradients of gradients",
       [node("Tanh", ["x"], ["d0"])] +
       [gradient(["x"], ["d%d" % (i + 1)], "d%d" % i, ["x"]) for i in range(19)] +
       [gradient(["x"], ["y"], "d19", ["x"])], {"": 28, TRAINING: 1})
refuse_gradient("gradient_of_fewer_values", "takes a value for each tensor of xs and zs", [],
                ["x"], ["y"], "x", ["x", "x"])


ML = "ai.onnx.ml"
TO_BITS = node("Binarizer", ["x"], ["y"], domain=ML, threshold=0.5)
for version in 1, 2, 3, 4, 5:
    cases["ml_of_version_%d" % version] = (
        model([TO_BITS], {"x": tensor("f32", 0, 0.5, 1)}, {"y": tensor("f32", 0, 0, 1)},
              {"": 21, ML: version}),
        {"x": tensor("f32", 0, 0.5, 1)}, {"y": tensor("f32", 0, 0, 1)})
refused["ml_of_a_later_version"] = (
    model([TO_BITS], {"x": tensor("f32", 1)}, {"y": tensor("f32", 1)}, {"": 21, ML: 6}),
    "Keel knows what it means up to opset 5")


class Packed:
    """A constant of a small type, by the bytes of its elements: raw, or as int32_data."""

    def __init__(self, number, count, data, raw):
        self.number, self.count, self.data, self.raw = number, count, data, raw

    def bytes(self, name):
        return (whole(1, self.count) + whole(2, self.number) + part(8, name)
                + (part(9, self.data) if self.raw
                   else part(5, b"".join(varint(b) for b in self.data))))


for raw in True, False:
    for name, number, data, values in (
            ("i4", 22, b"\x21\x0f", [1, 2, -1]), ("u4", 21, b"\x21\x0f", [1, 2, 15]),
            ("i2", 26, b"\x39", [1, -2, -1]), ("u2", 25, b"\x39", [1, 2, 3]),
            ("f8e4m3fn", 17, b"\x38\x7e\xb8", [1, 448, -1]),
            ("f8e5m2", 19, b"\x3c\x7b\x01", [1, 57344, 2.0 ** -16]),
            ("f4e2m1", 23, b"\x72\x0d", [1, 6, -3])):
        case("weights_of_%s_%s" % (name, "raw" if raw else "listed"), 25,
             [node("DequantizeLinear", ["x", "s"], ["y"])], {"s": scalar("f32", 0.5)},
             {"y": tensor("f32", *[v / 2 for v in values])},
             constants={"x": Packed(number, 3, data, raw)})
refuse("weights_with_a_byte_too_few", "has 1 bytes of data, and its shape needs 2",
       [node("DequantizeLinear", ["x", "s"], ["y"])], {"": 25}, inputs={"s": scalar("f32", 1)},
       constants={"x": Packed(22, 3, b"\x21", True)})
THETA = tensor("f32", 2, 0, 1, 0, 3, -1, dims=[1, 2, 3])
one("grid_of_centres", 20, "AffineGrid", {"t": THETA, "n": tensor("i64", 1, 1, 2, 4)},
    {"y": tensor("f32", *[p for y in (-0.5, 0.5) for x in (-0.75, -0.25, 0.25, 0.75)
                          for p in (2 * x + 1, 3 * y - 1)], dims=[1, 2, 4, 2])})
one("grid_of_corners", 20, "AffineGrid", {"t": THETA, "n": tensor("i64", 1, 1, 2, 3)},
    {"y": tensor("f32", *[p for y in (-1, 1) for x in (-1, 0, 1)
                          for p in (2 * x + 1, 3 * y - 1)], dims=[1, 2, 3, 2])},
    align_corners=1)
one("products_so_far", 26, "CumProd", {"x": tensor("i32", 2, 3, 4, 5, 6, 7, dims=[2, 3])},
    {"y": tensor("i32", 12, 4, 1, 42, 7, 1, dims=[2, 3])},
    constants={"axis": scalar("i64", -1)}, exclusive=1, reverse=1)
GATE = tensor("f32", -1, 0, 2)
one("gated_unit", 28, "SwiGLU", {"a": GATE, "b": tensor("f32", 3, 4, 5)},
    {"y": tensor("f32", *[a / (1 + math.exp(-0.5 * a)) * b
                          for a, b in zip(GATE.values, (3, 4, 5))])}, alpha=0.5)
refuse("heads_that_do_not_divide", "q_num_heads is 3, and does not divide 16",
       [node("Attention", ["q", "k", "v"], ["y"], q_num_heads=3, kv_num_heads=2)], {"": 23},
       inputs=FLAT)
OPEN_FLAT = Tensor("f32", [-1, -1, 8], [])  # dimensions that are open
refuse("open_rows_without_heads", "and the attributes q_num_heads and kv_num_heads",
       [node("Attention", ["x", "x", "x"], ["y"], q_num_heads=2)], {"": 23},
       inputs={"x": OPEN_FLAT})
refuse("open_rotation_without_heads", "X has 3 dimensions, and needs num_heads",
       [node("RotaryEmbedding", ["x", "cos", "cos"], ["y"])], {"": 23},
       inputs={"x": OPEN_FLAT, "cos": Tensor("f32", [-1, -1, 2], [])})
refuse("keys_before_without_values", "past_key and past_value go together",
       [node("Attention", ["q", "k", "v", "", "pk"], ["y"])], {"": 23},
       inputs={**QKV, "pk": BEFORE[0]})
refuse("mask_of_other_rows", "attn_mask does not broadcast to [2,4,3,5]",
       [node("Attention", ["q", "k", "v", "m"], ["y"])], {"": 23},
       inputs={**QKV, "m": tensor("f32", *range(10), dims=[2, 5])})
refuse("update_beyond_the_cache", "no longer along the axis",
       [node("TensorScatter", ["u", "c"], ["y"])], {"": 24}, inputs=CACHE)
refuse("odd_rotation", "rotary_embedding_dim must be even, and at most 4",
       [node("RotaryEmbedding", ["x", "cos", "cos"], ["y"], rotary_embedding_dim=3)], {"": 23},
       inputs={"x": numbers(1, 2, 3, 4), "cos": numbers(1, 3, 2)})


write_all(sys.argv[1])
