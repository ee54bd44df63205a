#!/usr/bin/env python3
"""Tokens a second of the sample `generate` beside llama.cpp's, at the same shapes and threads.

usage: beside_llama.py [OPTION]... [GENERATE]
  GENERATE      build/release/samples/generate unless given
  --sizes S     the model, as `generate --random` takes it (0.5b)
  --text N      tokens of the text (16)
  --count N     tokens that are added (400)
  --threads N   for both (2)
  --rounds N    of each, by turns (5)
  --gguf FILE   where llama.cpp's model is, or is written (a file that goes away)

Both have random weights of 4 bits in blocks of 32 numbers: Keel's with a scale of f32 a block,
as onnxruntime-genai publishes them for processors (20 bytes a block), llama.cpp's Q4_0 with one
of f16 (18 bytes). Prints tokens a second of each round, the medians, and their ratio. Keel's first
run, which is of the text, makes its kernels, too. Needs the packages llama-cpp-python, gguf and
numpy.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import gguf
    import llama_cpp
    import numpy as np
except ImportError as error:
    sys.exit(f"beside_llama.py: {error}; pip install llama-cpp-python gguf numpy")

PRESETS = {  # as in model.c
    "0.5b": {"layers": 16, "hidden": 1536, "heads": 16, "kv_heads": 4, "ffn": 4096, "vocab": 32000},
    "tiny": {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 256}}


def read_sizes(text):
    name, *changes = text.split(",")
    if name not in PRESETS:
        sys.exit(f"beside_llama.py: there is no model {name}: {', '.join(PRESETS)}")
    sizes = dict(PRESETS[name])
    for change in changes:
        key, value = change.split("=")
        if key in sizes:
            sizes[key] = int(value)
    return sizes


def write_gguf(path, s):
    """A Llama-type model of random blocks; its tokens have no text."""
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    size = s["hidden"] // s["heads"]
    writer.add_context_length(8192)
    writer.add_embedding_length(s["hidden"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_rope_dimension_count(size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(s["vocab"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_tokenizer_model("no_vocab")

    def add(name, rows, columns):
        blocks = np.empty((rows, columns // 32, 18), np.uint8)
        blocks[..., 2:] = random.integers(0, 256, (rows, columns // 32, 16), np.uint8)
        scale = (0.9 + 0.2 * random.random((rows, columns // 32))) / (4.6 * np.sqrt(columns))
        blocks[..., :2] = scale.astype(np.float16)[..., None].view(np.uint8)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    def add_norm(name):
        writer.add_tensor(name, (0.9 + 0.2 * random.random(s["hidden"])).astype(np.float32))

    kv = size * s["kv_heads"]
    add("token_embd.weight", s["vocab"], s["hidden"])
    for i in range(s["layers"]):
        add_norm(f"blk.{i}.attn_norm.weight")
        add(f"blk.{i}.attn_q.weight", s["hidden"], s["hidden"])
        add(f"blk.{i}.attn_k.weight", kv, s["hidden"])
        add(f"blk.{i}.attn_v.weight", kv, s["hidden"])
        add(f"blk.{i}.attn_output.weight", s["hidden"], s["hidden"])
        add_norm(f"blk.{i}.ffn_norm.weight")
        add(f"blk.{i}.ffn_gate.weight", s["ffn"], s["hidden"])
        add(f"blk.{i}.ffn_up.weight", s["ffn"], s["hidden"])
        add(f"blk.{i}.ffn_down.weight", s["hidden"], s["ffn"])
    add_norm("output_norm.weight")
    add("output.weight", s["vocab"], s["hidden"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Peer:
    """llama.cpp, by its C API: a text, then one token after the other, the likeliest."""

    def __init__(self, path, threads, places):
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)  # kept as long as this
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        how = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), how)
        if not self.model:
            sys.exit("beside_llama.py: llama.cpp does not load its model")
        how = llama_cpp.llama_context_default_params()
        how.n_ctx, how.n_batch = places, places
        how.n_threads = how.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, how)
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(vocab)

    def decode(self, tokens):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        if llama_cpp.llama_decode(self.context, batch):
            sys.exit("beside_llama.py: llama.cpp does not decode")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def run(self, text, count):
        memory = llama_cpp.llama_get_memory(self.context)
        llama_cpp.llama_memory_clear(memory, True)
        begin = time.perf_counter()
        token = self.decode(list(range(1, text + 1)))
        middle = time.perf_counter()
        for _ in range(count - 1):
            token = self.decode([token])
        end = time.perf_counter()
        return text / (middle - begin), (count - 1) / (end - middle)


def run_keel(generate, sizes, text, count, threads):
    tokens = ",".join(map(str, range(1, text + 1)))
    done = subprocess.run([generate, "--random", sizes, "--tokens", tokens, "--count", str(count),
                           "--threads", str(threads)], capture_output=True, text=True, check=False)
    found = re.findall(r"([\d.]+) tokens/s", done.stderr)
    if done.returncode or len(found) != 2:
        sys.exit(f"beside_llama.py: {generate} says: {done.stderr.strip()}")
    copied = re.search(r"copied (\d+) times in (\d+)", done.stderr)
    return float(found[0]), float(found[1]), copied.groups() if copied else ("?", "?")


def main(arguments):
    given = {"--sizes": "0.5b", "--text": "16", "--count": "400", "--threads": "2", "--rounds": "5",
             "--gguf": ""}
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--help":
            print(__doc__.strip())
            return 0
        if option not in given or not arguments:
            print(f"beside_llama.py: there is no option {option}, or it has no value; --help",
                  file=sys.stderr)
            return 2
        given[option] = arguments.pop(0)
    generate = arguments[0] if arguments else "build/release/samples/generate"
    if not os.access(generate, os.X_OK):
        print(f"beside_llama.py: there is no program {generate}", file=sys.stderr)
        return 2
    text, count, threads = (int(given[k]) for k in ("--text", "--count", "--threads"))
    with tempfile.TemporaryDirectory() as scratch:
        path = given["--gguf"] or os.path.join(scratch, "model.gguf")
        if not os.path.exists(path):
            print("writing random weights ...", file=sys.stderr)
            write_gguf(path, read_sizes(given["--sizes"]))
        peer = Peer(path, threads, max(512, text + count))
        peer.run(text, 4)
        rates = []
        for i in range(int(given["--rounds"])):
            theirs = peer.run(text, count)
            ours = run_keel(generate, given["--sizes"], text, count, threads)
            rates.append((ours, theirs))
            print(f"round {i + 1}: added {ours[1]:.1f} tokens/s by Keel, {theirs[1]:.1f} by"
                  f" llama.cpp; text {ours[0]:.1f} and {theirs[0]:.1f}; cache copied"
                  f" {ours[2][0]} times in {ours[2][1]}", flush=True)
    for name, at in (("added", 1), ("text", 0)):
        ours, theirs = (statistics.median(r[who][at] for r in rates) for who in (0, 1))
        print(f"{name}: {ours:.1f} tokens/s by Keel, {theirs:.1f} by llama.cpp, ratio"
              f" {ours / theirs:.2f} (llama-cpp-python {llama_cpp.__version__}, {threads} threads)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
