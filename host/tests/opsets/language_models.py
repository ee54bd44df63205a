#!/usr/bin/env python3
"""Tokens of small language models, as onnxruntime-genai publishes them, beside ONNX Runtime's.

usage: language_models.py [GENERATE [OPTION...]]
  GENERATE   build/release/samples/generate unless given
  OPTION     of it: --device opencl:0 ...

Makes Llama-type models of random weights in the forms that are published: projections of Q, K
and V apart or as one, weights of 4 bits with and without zero points and as floats, grouped heads
with a cache in place, and a cache that the model appends to. Lets ONNX Runtime (a venv with onnx,
onnxruntime and numpy) and the sample `generate` continue a text, and compares the tokens. Exit
status 1 where they differ, 2 where it could not begin.
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
    sys.exit(f"language_models.py: {error}; pip install onnx onnxruntime numpy")

LAYERS, HIDDEN, HEADS, GROUPS, FFN, VOCAB, BLOCK, PLACES = 3, 64, 4, 2, 128, 200, 32, 128
SIZE = HIDDEN // HEADS
ADDED = 12


class Model:
    def __init__(self, seed, packed=False, weights="middle", in_place=True, rotary=SIZE):
        self.random = np.random.default_rng(seed)
        self.packed, self.weights, self.in_place = packed, weights, in_place
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.rotary = rotary
        self.count = 0

    def constant(self, array, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(self, op, inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"v{self.count}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{self.count}", domain=domain,
                                           **attributes))
        return names[0] if len(names) == 1 else names

    def ms(self, op, inputs, outputs=1, **attributes):
        return self.op(op, inputs, outputs, "com.microsoft", **attributes)

    def numbers(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def matmul(self, x, k, n):
        if self.weights == "float":
            return self.op("MatMul", [x, self.constant(self.numbers(k, n) / np.float32(np.sqrt(k)))])
        blocks = k // BLOCK
        inputs = [x, self.constant(self.random.integers(0, 256, (n, blocks, BLOCK // 2), np.uint8)),
                  self.constant((self.random.random((n, blocks)) / (4 * np.sqrt(k))).astype(np.float32))]
        if self.weights == "zeros":
            inputs.append(self.constant(
                self.random.integers(0x66, 0xaa, (n, (blocks + 1) // 2)).astype(np.uint8)))
        return self.ms("MatMulNBits", inputs, K=k, N=n, bits=4, block_size=BLOCK)

    def attend_in_place(self, x, layer):
        kv = GROUPS * SIZE
        if self.packed:
            parts = [self.matmul(x, HIDDEN, HIDDEN + 2 * kv), "", ""]
        else:
            parts = [self.matmul(x, HIDDEN, n) for n in (HIDDEN, kv, kv)]
        names = self.cache(layer)
        return self.ms("GroupQueryAttention",
                       [*parts, *names, "lengths", "total", "cos", "sin"],
                       [f"attention_{layer}", f"present.{layer}.key", f"present.{layer}.value"],
                       num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)[0]

    def attend_appended(self, x, layer):
        """By plain ops, with the positions that the caller gives."""
        def heads(value, count):
            value = self.op("Reshape", [value, self.constant(np.array([0, 0, count, SIZE]))])
            return self.op("Transpose", [value], perm=[0, 2, 1, 3])
        kv = GROUPS * SIZE
        q = self.ms("RotaryEmbedding", [heads(self.matmul(x, HIDDEN, HIDDEN), HEADS), "position_ids",
                                        "cos", "sin"])
        k = self.ms("RotaryEmbedding", [heads(self.matmul(x, HIDDEN, kv), GROUPS), "position_ids",
                                        "cos", "sin"])
        v = heads(self.matmul(x, HIDDEN, kv), GROUPS)
        past_k, past_v = self.cache(layer)
        k = self.op("Concat", [past_k, k], [f"present.{layer}.key"], axis=2)
        v = self.op("Concat", [past_v, v], [f"present.{layer}.value"], axis=2)
        def repeat(value):
            value = self.op("Unsqueeze", [value, self.constant(np.array([2]))])
            value = self.op("Tile", [value, self.constant(np.array([1, 1, HEADS // GROUPS, 1, 1]))])
            return self.op("Reshape", [value, self.constant(np.array([0, HEADS, -1, SIZE]))])
        scores = self.op("MatMul", [q, self.op("Transpose", [repeat(k)], perm=[0, 1, 3, 2])])
        scores = self.op("Div", [scores, self.constant(np.float32(np.sqrt(SIZE)))])
        keys = self.op("Range", [self.constant(np.int64(0)),
                                 self.op("Gather", [self.op("Shape", [k]), self.constant(np.int64(2))]),
                                 self.constant(np.int64(1))])
        later = self.op("Greater", [keys, self.op("Unsqueeze", ["position_ids",
                                                               self.constant(np.array([1, 3]))])])
        scores = self.op("Where", [later, self.constant(np.float32(-1e9)), scores])
        y = self.op("MatMul", [self.op("Softmax", [scores], axis=-1), repeat(v)])
        y = self.op("Transpose", [y], perm=[0, 2, 1, 3])
        return self.op("Reshape", [y, self.constant(np.array([0, 0, HIDDEN]))])

    def cache(self, layer):
        names = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        for name in names:
            self.inputs.append(helper.make_tensor_value_info(
                name, TensorProto.FLOAT, ["batch", GROUPS, "past", SIZE]))
        for kind in ("key", "value"):
            self.outputs.append(helper.make_tensor_value_info(
                f"present.{layer}.{kind}", TensorProto.FLOAT, ["batch", GROUPS, "all", SIZE]))
        return names

    def norm(self, x, more):
        scale = self.constant(1 + np.float32(0.1) * self.numbers(HIDDEN))
        if more is None:
            return self.op("SimplifiedLayerNormalization", [x, scale], epsilon=1e-5, axis=-1,
                           stash_type=1), x
        y, _, _, x = self.ms("SkipSimplifiedLayerNormalization", [x, more, scale],
                             [f"normed_{self.count}", "", "", f"sum_{self.count}"], epsilon=1e-5)
        return y, x

    def build(self):
        for name, dims in (("input_ids", ["batch", "rows"]), ("attention_mask", ["batch", "total"])):
            self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, dims))
        if not self.in_place:
            self.inputs.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64,
                                                             ["batch", "rows"]))
        self.outputs.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT,
                                                          ["batch", "rows", VOCAB]))
        angles = np.arange(PLACES)[:, None] / 100.0 ** (np.arange(SIZE // 2) / (SIZE // 2))
        self.constant(np.cos(angles).astype(np.float32), "cos")
        self.constant(np.sin(angles).astype(np.float32), "sin")
        if self.in_place:
            one = self.constant(np.array([1]))
            count = self.op("ReduceSum", ["attention_mask", one], keepdims=0)
            less = self.op("Sub", [count, one])
            self.op("Cast", [less], ["lengths"], to=TensorProto.INT32)
            length = self.op("Gather", [self.op("Shape", ["attention_mask"]),
                                        self.constant(np.int64(1))])
            self.op("Cast", [length], ["total"], to=TensorProto.INT32)
        x, more = self.op("Gather", [self.constant(self.numbers(VOCAB, HIDDEN)), "input_ids"]), None
        for layer in range(LAYERS):
            normed, x = self.norm(x, more)
            y = (self.attend_in_place if self.in_place else self.attend_appended)(normed, layer)
            more = self.matmul(y, HIDDEN, HIDDEN)
            normed, x = self.norm(x, more)
            gate = self.matmul(normed, HIDDEN, FFN)
            gate = self.op("Mul", [gate, self.op("Sigmoid", [gate])])
            more = self.matmul(self.op("Mul", [gate, self.matmul(normed, HIDDEN, FFN)]), FFN, HIDDEN)
        normed, _ = self.norm(x, more)
        logits = self.matmul(normed, HIDDEN, VOCAB)
        self.op("Identity", [logits], ["logits"])
        graph = helper.make_graph(self.nodes, "language", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def continue_text(model, tokens):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    wanted = [o.name for o in session.get_outputs()]
    caches = {n: np.zeros((1, GROUPS, 0, SIZE), np.float32) for n in names if n.startswith("past")}
    step, done, added, margins = list(tokens), 0, [], []
    while len(added) < ADDED:
        feeds = {"input_ids": np.array([step]), **caches,
                 "attention_mask": np.ones((1, done + len(step)), np.int64)}
        if "position_ids" in names:
            feeds["position_ids"] = np.arange(done, done + len(step))[None]
        results = dict(zip(wanted, session.run(wanted, feeds)))
        done += len(step)
        last = results["logits"][0, -1]
        order = np.sort(last)
        margins.append(order[-1] - order[-2])
        step = [int(last.argmax())]
        added += step
        caches = {n: results[n.replace("past_key_values", "present")] for n in caches}
    return added, min(margins)


def main(arguments):
    if arguments and arguments[0] == "--help":
        print(__doc__.strip())
        return 0
    generate = arguments or ["build/release/samples/generate"]
    if not os.access(generate[0], os.X_OK):
        print(f"language_models.py: there is no program {generate[0]}", file=sys.stderr)
        return 2
    kinds = {"apart": {}, "packed": {"packed": True}, "zero points": {"weights": "zeros"},
             "floats": {"weights": "float"}, "appended": {"in_place": False},
             "appended floats": {"in_place": False, "weights": "float"}}
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, how in kinds.items():
            model = Model(7, **how).build()
            path = os.path.join(scratch, "model.onnx")
            onnx.save(model, path)
            for tokens in ([5], [3, 190, 17, 44], list(range(30))):
                want, margin = continue_text(model, tokens)
                done = subprocess.run(
                    [*generate, path, "--tokens", ",".join(map(str, tokens)), "--count", str(ADDED)],
                    capture_output=True, text=True, check=False)
                got = [int(t) for t in done.stdout.split()]
                cache = done.stderr.split("cache, ")[-1].split("\n")[0] if not done.returncode \
                    else done.stderr.strip()
                good = got == want
                wrong += not good
                print(f"{'ok   ' if good else 'WRONG'} {name}, {len(tokens)} tokens: {cache}"
                      + ("" if good else f"; {got} instead of {want}, by {margin:.2g} at least"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
