#!/usr/bin/env python3
"""The ops of com.microsoft that Keel takes, beside ONNX Runtime.

usage: microsoft_ops.py [--seed N] [--keep DIR] [KEEL [OPTION...]], which --help explains

Makes models of one op each with random attributes, shapes and numbers, runs them by ONNX Runtime
(a venv with onnx, onnxruntime and numpy), and lets `keel onnx-test` compare.
"""
import os
import sys

# weights of 8 bits have kernels for floats there, where nothing else is asked for
os.environ["ORT_QMOE_CPU_QNBIT_GEMM"] = "fp32"
try:
    import ml_dtypes
    import numpy as np
    import onnx
    import onnxruntime as _  # looked for before the work begins
    from onnx import helper, numpy_helper
except ImportError as error:
    sys.exit(f"microsoft_ops.py: {error}; pip install onnx onnxruntime numpy")
from case_script import CaseFolder, by_runtime, run_cases

DOMAIN = "com.microsoft"
f32 = np.float32


class Cases(CaseFolder):
    def __init__(self, folder, opset=17):
        super().__init__(folder)
        self.opset = opset

    @staticmethod
    def number_of(dtype):
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def add(self, name, op, inputs, outputs, constants=(), domain=DOMAIN,
            result=None, types=None, instead=None, expected=None, late=True, **attributes):
        """inputs: name to array; None: absent. constants: names of inputs that the model has.
        outputs: names, "" for one that nobody wants. result: their type, unless that of input 0;
        types: of each. instead: inputs of the same meaning, which ONNX Runtime gets where it has
        not this form. expected: results, where it has none. late: the model may have open
        dimensions."""
        wanted = [o for o in outputs if o]
        form = (name, op, outputs, domain, result, types, attributes, self.opset)
        # of every other model the dimensions are known in the run only
        model, feeds = make(inputs, constants, *form, late=late and self.count % 2 == 1)
        results = expected
        if expected is None:
            other, given = make(instead, (), *form) if instead else (model, feeds)
            results = by_runtime(other, given, wanted, plain=True)
        self.save(name, model, feeds, dict(zip(wanted, results)))


def make(inputs, constants, name, op, outputs, domain, result, types, attributes, opset,
         late=False):
    """A model of one op, and what it is fed with."""
    given = {k: v for k, v in inputs.items() if v is not None}
    names = [k if v is not None else "" for k, v in inputs.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype),
                                       [None] * v.ndim if late else v.shape)
         for k, v in given.items() if k not in constants],
        [helper.make_value_info(o, onnx.TypeProto()) for o in outputs if o],
        [numpy_helper.from_array(v, k) for k, v in given.items() if k in constants])
    model = helper.make_model(
        graph, ir_version=10,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1),
                       helper.make_opsetid("ai.onnx.ml", 4)])
    first = next(iter(given.values())).dtype
    for i, output in enumerate(model.graph.output):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(
            np.dtype(types[i] if types else result or first))
    return model, {k: v for k, v in given.items() if k not in constants}


def pack(numbers, bits):
    """Numbers of `bits` bits along the last axis, the first in the lowest of a byte."""
    per = 8 // bits
    rest = -numbers.shape[-1] % per
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, rest)])
    parts = numbers.reshape(*numbers.shape[:-1], -1, per).astype(np.uint32)
    return (parts << (np.arange(per, dtype=np.uint32) * bits)).sum(-1).astype(np.uint8)


def nbits(cases, random, m, n, k, bits, block, zeros=None, dtype=f32, level=0, bias=False,
          shape=None, constant=True):
    blocks = -(-k // block)
    weights = random.integers(0, 1 << bits, (n, blocks, block))
    inputs = {
        "A": random.standard_normal(shape or (m, k)).astype(dtype),
        "B": pack(weights, bits),
        "scales": (random.random((n, blocks)) * 0.1 + 0.01).astype(dtype),
        "zero_points": None, "g_idx": None, "bias": None}
    if dtype == np.float16:  # numbers that weights and products of that type have exactly
        inputs["A"] = np.round(inputs["A"] * 4).astype(dtype)
        inputs["scales"] = np.exp2(-random.integers(2, 5, (n, blocks))).astype(dtype)
    if zeros == "packed":
        inputs["zero_points"] = pack(random.integers(0, 1 << bits, (n, blocks)), bits)
    elif zeros == "float":
        inputs["zero_points"] = (random.random((n, blocks)) * (1 << bits)).astype(dtype)
    if bias:
        inputs["bias"] = random.standard_normal(n).astype(dtype)
    name = (f"nbits_m{m}_n{n}_k{k}_b{bits}_{block}_{zeros or 'middle'}_{np.dtype(dtype).name}"
            f"_level{level}{'_bias' if bias else ''}{'' if constant else '_late'}")
    cases.add(name, "MatMulNBits", inputs, ["Y"],
              ("B", "scales", "zero_points", "bias") if constant else (),
              K=k, N=n, bits=bits, block_size=block, accuracy_level=level)


def matmuls(cases, random):
    for m in (1, 2, 5, 40):
        for n, k, block in ((32, 64, 32), (50, 200, 16), (7, 33, 32), (65, 256, 128)):
            nbits(cases, random, m, n, k, 4, block)
            nbits(cases, random, m, n, k, 4, block, "packed")
    for bits in (2, 8):
        for m in (1, 9):
            nbits(cases, random, m, 48, 128, bits, 32)
            nbits(cases, random, m, 48, 96, bits, 32, "packed")
    nbits(cases, random, 3, 48, 128, 4, 32, "float")
    nbits(cases, random, 3, 48, 128, 4, 32, bias=True)
    nbits(cases, random, 3, 48, 128, 4, 32, dtype=np.float16)
    nbits(cases, random, 1, 48, 96, 4, 32, "packed", dtype=np.float16)
    nbits(cases, random, 3, 48, 128, 4, 32, shape=(2, 3, 128))
    nbits(cases, random, 3, 48, 128, 4, 32, "packed", constant=False)


def grouped(cases, random, name, batch=1, rows=1, before=0, room=0, heads=4, groups=2, size=16,
            rotary=False, packed=False, lengths=None, past=True, sink=False, biased=False,
            **attributes):
    """before: rows that were there; room: places of the cache; lengths: keys of each batch after."""
    def draw(*shape):
        return random.standard_normal(shape).astype(f32)
    total = before + rows
    room = room or before
    if lengths is None:
        lengths = [total] * batch
    q = draw(batch, rows, heads * size)
    k, v = draw(batch, rows, groups * size), draw(batch, rows, groups * size)
    past_key, past_value = draw(batch, groups, room, size), draw(batch, groups, room, size)
    for b, length in enumerate(lengths):  # what lies behind is nobody's: zeros, as there
        past_key[b, :, length - rows:] = past_value[b, :, length - rows:] = 0
    inputs = {"query": np.concatenate([q, k, v], 2) if packed else q,
              "key": None if packed else k, "value": None if packed else v,
              "past_key": past_key if past else None,
              "past_value": past_value if past else None,
              "seqlens_k": np.array(lengths, np.int32) - 1,
              "total_sequence_length": np.array(total, np.int32)}
    if rotary:
        angles = np.arange(128)[:, None] / 100.0 ** (np.arange(rotary) / rotary)
        inputs["cos_cache"] = np.cos(angles).astype(f32)
        inputs["sin_cache"] = np.sin(angles).astype(f32)
        attributes["do_rotary"] = 1
    inputs |= {key: inputs.get(key) for key in ("cos_cache", "sin_cache", "position_ids")}
    inputs["attention_bias"] = draw(batch, heads, rows, total) if biased else None
    inputs["head_sink"] = 3 * draw(heads) if sink else None
    cases.add(f"grouped_{name}", "GroupQueryAttention", inputs,
              ["output", "present_key", "present_value"], ("cos_cache", "sin_cache"),
              num_heads=heads, kv_num_heads=groups, **attributes)


def attentions(cases, random):
    for rotary in (0, 8):
        for packed in (False, True):
            kind = f"{'rotary' if rotary else 'plain'}_{'packed' if packed else 'apart'}"
            both = dict(rotary=rotary, packed=packed)
            grouped(cases, random, f"first_{kind}", rows=5, past=False, **both)
            grouped(cases, random, f"first_empty_{kind}", rows=5, **both)
            grouped(cases, random, f"first_room_{kind}", rows=5, room=12, **both)
            grouped(cases, random, f"next_{kind}", before=6, **both)
            grouped(cases, random, f"next_room_{kind}", before=6, room=20, **both)
            grouped(cases, random, f"more_{kind}", rows=4, before=6, room=20, **both)
    grouped(cases, random, "batch_next", batch=3, before=9, room=16, lengths=[10, 4, 7], rotary=8)
    grouped(cases, random, "batch_first", batch=2, rows=6, room=16, lengths=[6, 6], rotary=8)
    grouped(cases, random, "window_next", before=20, room=32, local_window_size=5)
    grouped(cases, random, "window_first", rows=30, room=32, local_window_size=7)
    grouped(cases, random, "window_more", rows=6, before=20, room=32, local_window_size=9)
    grouped(cases, random, "softcap", rows=6, before=20, room=32, softcap=5.0)
    grouped(cases, random, "scale", rows=6, before=20, room=32, scale=0.3)
    grouped(cases, random, "interleaved", rows=6, before=2, room=32, rotary=8, rotary_interleaved=1)
    grouped(cases, random, "partly", rows=6, before=2, room=32, size=32, rotary=8)
    for name, rows in (("next", 1), ("more", 6)):
        grouped(cases, random, f"smooth_{name}", rows=rows, before=20, room=32, smooth_softmax=1)
        grouped(cases, random, f"sink_{name}", rows=rows, before=20, room=32, rotary=8, sink=True)
    grouped(cases, random, "sink_first", rows=9, room=32, sink=True, local_window_size=4)
    grouped(cases, random, "sink_batch", batch=2, rows=1, before=9, room=16, lengths=[10, 4],
            sink=True)
    grouped(cases, random, "sink_biased", rows=3, before=4, room=16, sink=True, biased=True)
    grouped(cases, random, "biased", rows=3, before=4, room=16, biased=True)
    grouped(cases, random, "one_group", before=300, room=400, heads=8, groups=1, size=32)
    grouped(cases, random, "as_many", before=30, room=40, heads=4, groups=4, size=8)
    grouped(cases, random, "long_first", rows=100, room=128, heads=6, groups=2, size=16, rotary=8)


def others(cases, random):
    def draw(*shape):
        return random.standard_normal(shape).astype(f32)
    x, skip, gamma, beta, bias = draw(2, 5, 24), draw(2, 5, 24), draw(24), draw(24), draw(24)
    for with_bias in (None, bias):
        cases.add("skip_rms", "SkipSimplifiedLayerNormalization",
                  {"x": x, "skip": skip, "gamma": gamma, "bias": with_bias},
                  ["y", "", "", "sum"], ("gamma", "bias"), epsilon=1e-6)
        cases.add("skip_layer", "SkipLayerNormalization",
                  {"x": x, "skip": skip, "gamma": gamma, "beta": beta, "bias": with_bias},
                  ["y", "", "", "sum"], ("gamma", "beta", "bias"), epsilon=1e-6)
    cases.add("skip_rms_alone", "SkipSimplifiedLayerNormalization",
              {"x": x, "skip": skip, "gamma": gamma}, ["y"], ("gamma",))
    cases.add("rms", "SimplifiedLayerNormalization", {"x": x, "gamma": gamma}, ["y"], ("gamma",),
              domain="", epsilon=1e-6, axis=-1, stash_type=1)
    cases.add("gelu", "Gelu", {"x": x}, ["y"])
    cases.add("bias_gelu", "BiasGelu", {"x": x, "b": bias}, ["y"])
    cases.add("fast_gelu", "FastGelu", {"x": x}, ["y"])
    cases.add("fast_gelu_bias", "FastGelu", {"x": x, "b": bias}, ["y"])
    cases.add("quick_gelu", "QuickGelu", {"x": x}, ["y"], alpha=1.3)
    angles = np.arange(32)[:, None] / 50.0 ** (np.arange(6) / 6)
    tables = {"cos": np.cos(angles).astype(f32), "sin": np.sin(angles).astype(f32)}
    places = {"each": random.integers(0, 32, (2, 5)), "first": np.array([7])}
    for name, ids in places.items():
        for shape in ((2, 5, 24), (2, 2, 5, 12)):
            for interleaved in (0, 1):
                cases.add(f"rotary_{name}_{len(shape)}_{interleaved}", "RotaryEmbedding",
                          {"x": draw(*shape), "ids": ids, **tables}, ["y"], ("cos", "sin"),
                          interleaved=interleaved)


def quantised(cases, random):
    def draw(dtype, *shape):
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max + 1, shape).astype(dtype)
    def scale(value):
        return np.array(value, f32)
    for dtype in (np.uint8, np.int8):
        kind = np.dtype(dtype).name
        zero, other = dtype(7), dtype(100)
        a, b = draw(dtype, 2, 3, 5, 7), draw(dtype, 3, 5, 1)
        one = {"X": a, "sx": scale(0.0313), "zx": np.array(zero), "sy": scale(0.0217),
               "zy": np.array(other)}
        two = {"A": a, "sa": scale(0.0313), "za": np.array(zero), "B": b, "sb": scale(0.0117),
               "zb": np.array(other), "sc": scale(0.0503), "zc": np.array(zero)}
        numbers = [k for k in (*one, *two) if len(k) == 2]
        for zeros in (True, False):
            these = dict(two) if zeros else {**two, "zc": None}  # it takes no others to be absent
            name = f"{kind}_{'zeros' if zeros else 'none'}"
            cases.add(f"add_{name}", "QLinearAdd", these, ["C"], numbers)
            cases.add(f"mul_{name}", "QLinearMul", these, ["C"], numbers)
        cases.add(f"sigmoid_{kind}", "QLinearSigmoid", one, ["Y"], numbers)
        cases.add(f"leaky_{kind}", "QLinearLeakyRelu", one, ["Y"], numbers, alpha=0.1)
        cases.add(f"softmax_{kind}", "QLinearSoftmax", {**one, "sy": scale(1 / 256),
                                                        "zy": np.array(np.iinfo(dtype).min, dtype)},
                  ["Y"], numbers, opset=13, axis=-1)
        cases.add(f"pool_{kind}", "QLinearAveragePool", one, ["Y"], numbers, kernel_shape=[3, 2],
                  strides=[1, 2], pads=[1, 0, 1, 0])
        cases.add(f"global_{kind}", "QLinearGlobalAveragePool", one, ["Y"], numbers)
        parts = {"sy": scale(0.0503), "zy": np.array(other)}
        for i, width in enumerate((2, 4)):
            parts |= {f"x{i}": draw(dtype, 2, width, 3), f"s{i}": scale(0.0213 + 0.0307 * i),
                      f"z{i}": np.array(dtype(3 * i))}
        cases.add(f"concat_{kind}", "QLinearConcat", parts, ["Y"],
                  [k for k in parts if k[0] != "x"], result=dtype, axis=1)
    for dtype in (np.uint8, np.int8):
        kind = np.dtype(dtype).name
        a, b = draw(np.uint8, 4, 40), draw(dtype, 40, 9)
        each = (random.random(9) * 0.01 + 0.001).astype(f32)
        bias = random.standard_normal(9).astype(f32)
        for named in (True, False):
            name = f"{kind}_{'all' if named else 'few'}"
            cases.add(f"to_float_{name}", "MatMulIntegerToFloat",
                      {"A": a, "B": b, "sa": scale(0.02), "sb": each if named else scale(0.01),
                       "za": np.array(np.uint8(120)) if named else None,
                       "zb": np.array(dtype(5)) if named else None,
                       "bias": bias if named else None}, ["Y"], ["B", "sa", "sb", "za", "zb", "bias"],
                      result=f32)
            cases.add(f"dynamic_{name}", "DynamicQuantizeMatMul",
                      {"A": random.standard_normal((4, 40)).astype(f32), "B": b,
                       "sb": each if named else scale(0.01),
                       "zb": np.array(dtype(5)) if named else None,
                       "bias": bias if named else None}, ["Y"], ["B", "sb", "zb", "bias"])
            cases.add(f"qgemm_{name}", "QGemm",
                      {"A": a, "sa": scale(0.02), "za": np.array(np.uint8(120)),
                       "B": np.ascontiguousarray(b.T) if named else b,
                       "sb": each if named else scale(0.01),
                       "zb": np.full(9, 5, dtype) if named else np.array(dtype(5)),
                       "C": random.integers(-2000, 2000, 9).astype(np.int32) if named else None,
                       "sy": scale(0.6) if named else None,
                       "zy": np.array(np.uint8(110)) if named else None}, ["Y"],
                      ["sa", "za", "B", "sb", "zb", "C", "sy", "zy"],
                      result=None if named else f32, transB=int(named), alpha=1.0)
    x = random.standard_normal((3, 8)).astype(f32)
    cases.add("quantize", "QuantizeLinear", {"x": x, "s": scale(0.02), "z": np.array(np.uint8(128))},
              ["y"], ["s", "z"], result=np.uint8)
    cases.add("dequantize", "DequantizeLinear",
              {"x": draw(np.int8, 3, 8), "s": (random.random(8) + 0.1).astype(f32),
               "z": np.zeros(8, np.int8)}, ["y"], ["s", "z"], result=f32, axis=1)


def heads(cases, random):
    """MultiHeadAttention, Attention and QAttention."""
    def draw(*shape):
        return random.standard_normal(shape).astype(f32)
    b, s, n, h = 2, 5, 4, 8
    d = n * h
    q, k, v = draw(b, s, d), draw(b, s, d), draw(b, s, d)
    past = [draw(b, n, 3, h) for _ in range(2)]
    bias = draw(3 * d)
    lengths = np.array([4, 2], np.int32)
    by_key = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 0, 0]], np.int32)
    def many(name, outputs=("y",), instead=None, **inputs):
        order = ("q", "k", "v", "bias", "mask", "add", "past_k", "past_v")
        attributes = {key: inputs.pop(key) for key in list(inputs) if key not in order}
        cases.add(f"multi_{name}", "MultiHeadAttention",
                  {key: inputs.get(key) for key in order}, list(outputs), ("bias",),
                  instead=instead and {key: instead.get(key) for key in order},
                  num_heads=n, **attributes)
    apart = dict(q=q, k=k, v=v)
    many("plain", **apart)
    many("bias", **apart, bias=bias)
    many("scale", **apart, scale=0.2)
    many("wide_values", q=q, k=k, v=draw(b, s, n * 12))
    many("cross", q=q, k=draw(b, 7, d), v=draw(b, 7, d), bias=bias)
    many("kept", q=q, k=draw(b, n, 6, h), v=draw(b, n, 6, h))
    many("lengths", **apart, mask=lengths)
    many("by_key", **apart, mask=by_key, mask_filter_value=-500.0)
    many("by_row", **apart, mask=np.tril(np.ones((b, s, s), np.int32)))
    many("added", **apart, add=draw(1, n, s, s))
    many("added_for_all", **apart, add=draw(b, 1, s, s), mask=lengths)
    many("causal", **apart, unidirectional=1)
    many("causal_mask", **apart, unidirectional=1, mask=by_key)
    kept = ("y", "present_k", "present_v")
    many("present", kept, **apart)
    many("past", kept, **apart, past_k=past[0], past_v=past[1], bias=bias)
    many("past_mask", kept, **apart, past_k=past[0], past_v=past[1],
         mask=np.concatenate([np.ones((b, 3), np.int32), by_key], 1), unidirectional=1)
    many("past_added", kept, **apart, past_k=past[0], past_v=past[1], add=draw(b, n, s, s + 3))
    one = dict(q=q[:, :1], k=k[:, :1], v=v[:, :1])
    many("next", kept, **one, past_k=past[0], past_v=past[1])
    many("scores", ("y", "present_k", "present_v", "qk"), **apart, mask=by_key)
    def parts(*all_parts):
        return np.stack([part.reshape(b, s, n, h) for part in all_parts], 3)
    many("packed", q=parts(q, k, v), instead=apart)
    many("packed_bias", q=parts(q, k, v), bias=bias, instead=dict(apart, bias=bias))
    many("packed_pair", q=q, k=parts(k, v), instead=apart)

    x, w = draw(b, s, 20), draw(20, 3 * d) / 4
    total = np.array([5, 3, 1, 0], np.int32)
    def whole(name, outputs=("y",), **inputs):
        order = ("x", "w", "bias", "mask", "past", "add")
        attributes = {key: inputs.pop(key) for key in list(inputs) if key not in order}
        cases.add(f"attention_{name}", "Attention", {key: inputs.get(key) for key in order},
                  list(outputs), ("w", "bias"), num_heads=n, **attributes)
    all_past = np.stack([draw(b, n, 3, h), draw(b, n, 3, h)])
    given = dict(x=x, w=w, bias=bias)
    whole("plain", **given)
    whole("no_bias", x=x, w=w)
    whole("lengths", **given, mask=lengths)
    whole("begins", **given, mask=total)
    whole("spans", **given, mask=np.array([5, 3, 0, 5, 10, 0, 5, 10], np.int32))
    whole("by_key", **given, mask=by_key)
    whole("by_row", **given, mask=np.tril(np.ones((b, s, s), np.int32)))
    whole("causal", **given, unidirectional=1)
    whole("causal_lengths", **given, unidirectional=1, mask=lengths)
    whole("scale", **given, scale=0.3)
    whole("added", **given, add=draw(b, n, s, s))
    whole("present", ("y", "present"), **given, unidirectional=1)
    whole("past", ("y", "present"), **given, past=all_past, unidirectional=1)
    whole("past_mask", ("y", "present"), **given, past=all_past,
          mask=np.concatenate([np.ones((b, 3), np.int32), by_key], 1))
    whole("sizes", x=x, w=draw(20, 2 * d + n * 6) / 4, bias=draw(2 * d + n * 6),
          qkv_hidden_sizes=[d, d, n * 6])

    for dtype in (np.uint8, np.int8):
        for each in (False, True):
            info = np.iinfo(dtype)
            columns = 3 * d if each else 1
            scale = (random.random(columns) * 0.002 + 0.001).astype(f32)
            zero = random.integers(-5 if dtype == np.int8 else 120, 6 if dtype == np.int8 else 135,
                                   columns).astype(dtype)
            cases.add(f"quantised_attention_{np.dtype(dtype).name}_{'each' if each else 'one'}",
                      "QAttention",
                      {"x": random.integers(0, 256, (b, s, 20)).astype(np.uint8),
                       "w": random.integers(info.min, info.max + 1, (20, 3 * d)).astype(dtype),
                       "bias": bias, "sx": np.array(0.02, f32), "sw": scale if each else scale[0],
                       "mask": lengths if each else None, "zx": np.array(127, np.uint8),
                       "zw": zero if each else zero[0], "past": all_past if each else None},
                      ["y", "present"], ("w", "bias", "sx", "sw", "zx", "zw"), result=f32,
                      num_heads=n, unidirectional=int(each))


def embeddings(cases, random):
    """EmbedLayerNormalization and GatherBlockQuantized."""
    def draw(*shape):
        return random.standard_normal(shape).astype(f32)
    ids = random.integers(0, 30, (2, 6)).astype(np.int32)
    tables = {"words": draw(30, 16), "places": draw(12, 16)}
    norm = {"gamma": draw(16), "beta": draw(16)}
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]], np.int32)
    segments = random.integers(0, 2, (2, 6)).astype(np.int32)
    for with_segments in (True, False):
        for places in (None, random.integers(0, 12, (1, 6)), random.integers(0, 12, (2, 6))):
            inputs = {"ids": ids, "segments": segments if with_segments else None, **tables,
                      "segment_table": draw(2, 16) if with_segments else None, **norm,
                      "mask": mask if with_segments else None,
                      "position_ids": None if places is None else places.astype(np.int32)}
            cases.add(f"embed_{with_segments}_{'none' if places is None else places.shape[0]}",
                      "EmbedLayerNormalization", inputs, ["y", "lengths", "sum"],
                      ("words", "places", "segment_table", "gamma", "beta"),
                      types=[f32, np.int32, f32], epsilon=1e-5)
    for bits in (2, 4, 8):
        for zeros in (True, False):
            for dtype in (f32, np.float16):
                rows, size, block = 20, 96, 32
                scales = (random.random((rows, size // block)) + 0.1).astype(dtype)
                cases.add(f"gather_{bits}_{zeros}_{np.dtype(dtype).name}", "GatherBlockQuantized",
                          {"data": pack(random.integers(0, 1 << bits, (rows, size)), bits),
                           "indices": random.integers(-rows, rows, (2, 3)),
                           "scales": scales,
                           "zeros": pack(random.integers(0, 1 << bits, scales.shape), bits)
                           if zeros else None}, ["y"], ("data", "scales", "zeros"), result=dtype,
                          bits=bits, block_size=block)
    i4, u4 = ml_dtypes.int4, ml_dtypes.uint4
    for dtype in (i4, u4):
        for gather, blocked in ((0, 1), (1, 0), (0, 2), (2, 1), (1, 1)):
            for zeros in (True, False):
                shape = [6, 20, 34]
                by_block = list(shape)
                by_block[blocked] = -(-shape[blocked] // 16)
                low, high = (-8, 8) if dtype == i4 else (0, 16)
                cases.add(f"gather_{np.dtype(dtype).name}_{gather}_{blocked}_{zeros}",
                          "GatherBlockQuantized",
                          {"data": random.integers(low, high, shape).astype(dtype),
                           "indices": random.integers(-6, 6, (2, 2)).astype(np.int32),
                           "scales": (random.random(by_block) + 0.1).astype(f32),
                           "zeros": random.integers(low, high, by_block).astype(dtype)
                           if zeros else None}, ["y"], ("data", "scales", "zeros"), result=f32,
                          block_size=16, gather_axis=gather, quantize_axis=blocked)
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn):
        for block, scales in ((16, (10, 3)), (0, (10, 1)), (0, (1, 1))):
            cases.add(f"gather_{np.dtype(dtype).name}_{block}_{scales[0]}", "GatherBlockQuantized",
                      {"data": random.standard_normal((10, 40)).astype(dtype),
                       "indices": random.integers(0, 10, (4,)),
                       "scales": (random.random(scales) + 0.1).astype(f32)},
                      ["y"], ("data", "scales"), result=f32, block_size=block)


def mixed(x, router, first, second, third, k, whole, activation):
    """What a mixture of experts is defined as. Layers: weights of each expert, and bias or None."""
    share = np.exp(router - router.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    best = np.argsort(-share, axis=-1)[:, :k]
    y = np.zeros_like(x, np.float64)
    def layer(weights, row, expert):
        return row @ weights[0][expert].T + (0 if weights[1] is None else weights[1][expert])
    for i, row in enumerate(x.astype(np.float64)):
        sum_of = share[i, best[i]].sum() if whole else 1
        for expert in best[i]:
            h = layer(first, row, expert)
            h = activation(h, None if third is None else layer(third, row, expert))
            y[i] += share[i, expert] / sum_of * layer(second, h, expert)
    return y.astype(f32)


def swish(x, alpha=1.0):
    return x / (1 + np.exp(-alpha * x))


def experts(cases, random):
    """MoE and QMoE."""
    def draw(*shape):
        return random.standard_normal(shape).astype(f32)
    def floats(name, activation, rows=(7,), k=2, fused=1, bias=True, **attributes):
        count, size, inner = 5, 24, 32
        cases.add(f"experts_{name}", "MoE",
                  {"x": draw(*rows, size), "router": draw(int(np.prod(rows)), count),
                   "w1": draw(count, fused * inner, size) / 4,
                   "b1": draw(count, fused * inner) if bias else None,
                   "w2": draw(count, size, inner) / 4, "b2": draw(count, size) if bias else None},
                  ["y"], ("w1", "b1", "w2", "b2"), activation_type=activation, k=k, **attributes)
    for activation in ("relu", "gelu", "silu", "identity"):
        floats(activation, activation)
    floats("whole", "silu", normalize_routing_weights=1)
    floats("no_bias", "relu", bias=False)
    floats("batch", "gelu", rows=(2, 3), k=3)
    floats("one", "relu", rows=(1,), k=1)
    floats("all", "relu", k=5)
    floats("many_rows", "silu", rows=(100,), k=2, normalize_routing_weights=1)
    swiglu = dict(activation_alpha=1.702, activation_beta=1.0, swiglu_limit=1.5, fused=2,
                  normalize_routing_weights=1)
    floats("swiglu", "swiglu", swiglu_fusion=1, **swiglu)
    floats("swiglu_plain", "swiglu", swiglu_fusion=1, fused=2)
    x, router = draw(6, 24), draw(6, 5)
    w = [draw(5, 32, 24) / 4, draw(5, 24, 32) / 4, draw(5, 32, 24) / 4]
    b = [draw(5, 32), draw(5, 24), draw(5, 32)]
    inputs = {"x": x, "router": router, "w1": w[0], "b1": b[0], "w2": w[1], "b2": b[1]}
    def gated(g, l):
        return swish(np.minimum(g, 1.5), 1.702) * (np.clip(l, -1.5, 1.5) + 1)
    attributes = dict(activation_alpha=1.702, activation_beta=1.0, swiglu_limit=1.5, k=2)
    cases.add("experts_swiglu_third", "MoE", {**inputs, "w3": w[2], "b3": b[2]}, ["y"],
              ("w1", "w2", "w3"), activation_type="swiglu", **attributes,
              expected=[mixed(x, router, (w[0], b[0]), (w[1], b[1]), (w[2], b[2]), 2, False, gated)])
    cases.add("experts_swiglu_behind", "MoE",
              {**inputs, "w1": np.concatenate([w[0], w[2]], 1),
               "b1": np.concatenate([b[0], b[2]], 1)}, ["y"],
              ("w1", "w2", "b1"), activation_type="swiglu", swiglu_fusion=2, **attributes,
              expected=[mixed(x, router, (w[0], b[0]), (w[1], b[1]), (w[2], b[2]), 2, False, gated)])
    cases.add("experts_silu_third", "MoE", {**inputs, "w3": w[2]}, ["y"], ("w1", "w2", "w3"),
              activation_type="silu", k=3, normalize_routing_weights=1,
              expected=[mixed(x, router, (w[0], b[0]), (w[1], b[1]), (w[2], None), 3, True,
                              lambda g, l: swish(g) * l)])

    def packed(name, bits, block, zeros=False, bias=True, activation="swiglu", rows=7, k=2,
               size=64, inner=96, apart=False, **attributes):
        count, fused = 4, 2 if activation == "swiglu" else 1
        one = {"x": draw(rows, size), "router": draw(rows, count)}
        for i, (n, m) in enumerate(((fused * inner, size), (size, inner)), 1):
            blocks = (m // block,) if block else ()
            one[f"w{i}"] = pack(random.integers(0, 1 << bits, (count, n, m)), bits)
            one[f"s{i}"] = ((random.random((count, n, *blocks)) + 0.5) * 0.6 / (1 << bits)).astype(f32)
            one[f"b{i}"] = draw(count, n) if bias else None
        one |= {"w3": None, "s3": None, "b3": None}
        for i in (1, 2):
            one[f"z{i}"] = pack(random.integers(0, 1 << bits, one[f"s{i}"].shape), bits) \
                if zeros else None
        one |= {"z3": None, "apart": np.abs(draw(rows, count)) if apart else None}
        if block:
            attributes["block_size"] = block
        if activation == "swiglu":
            attributes = dict(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0,
                              swiglu_limit=7.0, **attributes)
        cases.add(f"packed_experts_{name}_{bits}_{block}", "QMoE", one, ["y"],
                  [key for key in one if key not in ("x", "router", "apart")],
                  activation_type=activation, k=k, expert_weight_bits=bits, **attributes)
    for bits in (2, 4, 8):
        for block in (0, 32):
            packed("swiglu", bits, block, normalize_routing_weights=1)
            packed("zeros", bits, block, zeros=True, activation="silu")
    packed("no_bias", 4, 16, bias=False)
    packed("gelu", 4, 32, activation="gelu")
    packed("odd", 4, 0, size=40, inner=24, zeros=True)
    packed("apart", 4, 32, apart=True)
    packed("apart_whole", 4, 32, apart=True, normalize_routing_weights=1)
    packed("one_row", 4, 32, rows=1)
    packed("many_rows", 4, 32, rows=60, normalize_routing_weights=1)


def compare(about, write, opset=17):
    """The command of a script that writes cases of an opset by write(cases, random)."""
    return run_cases(about, lambda folder, random: write(Cases(folder, opset), random))


def write_all(cases, random):
    for part in (matmuls, attentions, others, quantised, heads, embeddings, experts):
        part(cases, random)


if __name__ == "__main__":
    sys.exit(compare(__doc__, write_all))
