#!/usr/bin/env python3
"""Exports architectures, and quantised forms of some, to ONNX.

usage: peers_export.py DIR [--again] [NAME...]     all of them where no name is given
       peers_export.py --list

Each gets a folder DIR/NAME: model.onnx, input_I.npy, output_I.npy as ONNX Runtime computes
them, and io.json, which is written last: a model that has one is left alone.

Needs torch, torchvision, transformers, onnx, onnxruntime, onnxscript; peers.sh sees to it.
"""
import argparse
import json
import os
import sys

import numpy as np
import onnxruntime as ort
from onnxruntime import quantization as q

import peers_run

OPSET = 17

# name: (base, way)
QUANTISED = {
    "resnet50_qdq": ("resnet50", "static"),
    "resnet50_dynamic": ("resnet50", "dynamic"),
    "resnet50_operator": ("resnet50", "operator"),
    "resnet50_f16": ("resnet50", "half"),
    "mobilenet_v2_qdq": ("mobilenet_v2", "static"),
    "mobilenet_v2_dynamic": ("mobilenet_v2", "dynamic"),
    "mobilenet_v3_large_qdq": ("mobilenet_v3_large", "static"),
    "bert_qdq": ("bert", "static"),
    "bert_dynamic": ("bert", "dynamic"),
    "bert_operator": ("bert", "products"),
    "distilbert_qdq": ("distilbert", "static"),
    "gpt2_dynamic": ("gpt2", "dynamic"),
    "mobilenet_v3_large_dynamic": ("mobilenet_v3_large", "dynamic"),
}


def trace(name, path, half=False):
    """Writes a net as ONNX; returns the names of its inputs and their values."""
    import torch

    import peers_nets

    torch.manual_seed(0)
    sample = peers_nets.NETS[name]()
    if half:
        sample.net = sample.net.half()
        sample.values = tuple(v.half() if v.is_floating_point() else v for v in sample.values)
    with torch.no_grad():
        torch.onnx.export(sample.net, sample.values, path, dynamo=False, opset_version=OPSET,
                          input_names=sample.inputs, output_names=sample.outputs,
                          dynamic_axes=sample.open or None)
    values = [v for given in sample.values
              for v in (given if isinstance(given, (list, tuple)) else [given])]
    return dict(zip(sample.inputs, (v.numpy() for v in values)))


class Draws(q.CalibrationDataReader):
    """A few inputs that are like the given ones."""

    def __init__(self, feeds, count=4):
        random = np.random.default_rng(0)
        self.left = [{name: self.like(value, random) for name, value in feeds.items()}
                     for _ in range(count)]

    @staticmethod
    def like(value, random):
        if value.dtype.kind == "f":
            return random.permuted(value.reshape(-1)).reshape(value.shape)
        return random.permuted(value, axis=-1)

    def get_next(self):
        return self.left.pop() if self.left else None


def quantise(base, way, path):
    """Writes the quantised form of an exported model; returns its inputs."""
    feeds = {name: np.load(file) for name, file in peers_run.ports_of(base)[1].items()}
    model = os.path.join(base, "model.onnx")
    if way == "dynamic":
        q.quantize_dynamic(model, path)
    else:
        # scores have a mask of minus infinity, to whose range nothing can be quantised
        types = ["MatMul", "Gemm"] if way == "products" else None
        form = q.QuantFormat.QDQ if way == "static" else q.QuantFormat.QOperator
        q.quantize_static(model, path, Draws(feeds), quant_format=form, per_channel=True,
                          op_types_to_quantize=types)
    return feeds


def make(name, where, again):
    folder = os.path.join(where, name)
    if os.path.exists(os.path.join(folder, "io.json")) and not again:
        return False
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    base, way = QUANTISED.get(name, (name, None))
    if way in (None, "half"):
        feeds = trace(base, path, way == "half")
    else:
        make(base, where, False)
        feeds = quantise(os.path.join(where, base), way, path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = [port.name for port in session.get_inputs()]  # a tracer drops some
    feeds = {port: feeds[port] for port in wanted}
    for i, value in enumerate(feeds.values()):
        np.save(os.path.join(folder, f"input_{i}.npy"), value)
    for i, value in enumerate(session.run(None, feeds)):
        np.save(os.path.join(folder, f"output_{i}.npy"), value)
    with open(os.path.join(folder, "io.json"), "w", encoding="utf-8") as file:
        json.dump({"inputs": wanted,
                   "outputs": [port.name for port in session.get_outputs()]}, file)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    given = parser.parse_intermixed_args()
    import peers_nets

    known = peers_nets.NAMED + peers_nets.OTHERS + list(QUANTISED)
    if given.list or not given.folder:
        print(*known, sep="\n")
        return 0
    unknown = [name for name in given.names if name not in known]
    if unknown:
        print(f"no model {unknown[0]}; there are: {' '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in given.names or known:
        try:
            if make(name, given.folder, given.again):
                print(f"{name}: exported", flush=True)
        except Exception as error:  # the others are still worth having
            failed += 1
            line = (str(error).strip().splitlines() or [""])[0]
            print(f"{name}: not exported: {type(error).__name__}: {line}", file=sys.stderr,
                  flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
