#!/usr/bin/env python3
"""The ops of com.microsoft that Keel takes, beside ONNX Runtime.

usage: microsoft_ops.py [--seed N] [--keep DIR] [KEEL [OPTION...]]
  KEEL        build/release/bin/keel unless given
  OPTION      of `keel onnx-test`: --device opencl:0, --eager ...
  --seed N    other numbers (1 unless given)
  --keep DIR  where the cases are written, and stay; a folder that goes away unless given

Makes models of one op each with random attributes, shapes and numbers, runs them by ONNX Runtime
(a venv with onnx, onnxruntime and numpy), and lets `keel onnx-test` compare. Exit status 1 where
a case fails, 2 where it could not begin.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    sys.exit(f"microsoft_ops.py: {error}; pip install onnx onnxruntime numpy")

DOMAIN = "com.microsoft"
f32 = np.float32


class Cases:
    def __init__(self, folder, opset=17):
        self.folder, self.count, self.opset = folder, 0, opset
        os.makedirs(folder, exist_ok=True)

    @staticmethod
    def number_of(dtype):
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def add(self, name, op, inputs, outputs, constants=(), domain=DOMAIN,
            result=None, **attributes):
        """inputs: name to array; None: absent. constants: names of inputs that the model has.
        outputs: names, "" for one that nobody wants. result: their type, unless that of input 0,
        or a tuple of their types."""
        given = {k: v for k, v in inputs.items() if v is not None}
        names = [k if v is not None else "" for k, v in inputs.items()]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(op, names, outputs, domain=domain, **attributes)
        graph = helper.make_graph(
            [node], name,
            [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for k, v in given.items() if k not in constants],
            [helper.make_value_info(o, onnx.TypeProto()) for o in outputs if o],
            [numpy_helper.from_array(v, k) for k, v in given.items() if k in constants])
        wanted = [o for o in outputs if o]
        model = helper.make_model(
            graph, ir_version=10,
            opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1),
                           helper.make_opsetid("ai.onnx.ml", 4)])
        first = next(iter(given.values())).dtype
        types = result if isinstance(result, tuple) else [result or first] * len(wanted)
        for output, dtype in zip(model.graph.output, types):
            output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        feeds = {k: v for k, v in given.items() if k not in constants}
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
        results = session.run(wanted, feeds)
        case = os.path.join(self.folder, f"{self.count:03d}_{name}")
        data = os.path.join(case, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        onnx.save(model, os.path.join(case, "model.onnx"))
        for kind, arrays in (("input", feeds.items()), ("output", zip(wanted, results))):
            for i, (key, array) in enumerate(arrays):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(array, key).SerializeToString())
        self.count += 1


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
            rotary=False, packed=False, lengths=None, past=True, **attributes):
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


def compare(about, write, opset=17):
    """The command of a script that writes cases: about, its help text; write(cases, random)."""
    arguments, program = sys.argv[1:], os.path.basename(sys.argv[0])
    seed, keep = 1, None
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--help":
            print(about.strip())
            return 0
        if option not in ("--seed", "--keep") or not arguments:
            print(f"{program}: there is no option {option}, or it has no value; --help",
                  file=sys.stderr)
            return 2
        if option == "--seed":
            seed = int(arguments.pop(0))
        else:
            keep = arguments.pop(0)
    keel = arguments or ["build/release/bin/keel"]
    if not os.access(keel[0], os.X_OK):
        print(f"{program}: there is no program {keel[0]}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        cases = Cases(keep or scratch, opset)
        write(cases, np.random.default_rng(seed))
        folders = sorted(os.path.join(cases.folder, name) for name in os.listdir(cases.folder))
        done = subprocess.run([keel[0], "onnx-test", *keel[1:], *folders], check=False)
        return 1 if done.returncode else 0


def write_all(cases, random):
    matmuls(cases, random)
    attentions(cases, random)
    others(cases, random)
    quantised(cases, random)


if __name__ == "__main__":
    sys.exit(compare(__doc__, write_all))
