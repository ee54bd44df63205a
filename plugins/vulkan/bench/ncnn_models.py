#!/usr/bin/env python3
"""ncnn_models.py - vision models beside ncnn on the same Vulkan device, in turn.

usage: ncnn_models.py KEEL [MODEL ...]      KEEL: the command; models of torchvision, default:
       resnet50 mobilenet_v2 mobilenet_v3_large

Weights are random; both get the same ones and the same picture, in f32. Needs torch,
torchvision, onnx, pnnx and ncnn of PyPI; where one is missing, says so and exits with 77.
"""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time

try:
    import ncnn
    import numpy
    import pnnx
    import torch
    import torchvision
except ImportError as missing:
    print(f"ncnn_models.py: {missing}; pip install torch torchvision onnx pnnx ncnn")
    sys.exit(77)

ROUNDS = 3


def export(name, folder):
    """The model as ONNX and as ncnn's own files; its input and PyTorch's output."""
    torch.manual_seed(1)
    model = getattr(torchvision.models, name)(weights=None).eval()
    for module in model.modules():  # else the last outputs are all but alike
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    x = torch.randn(1, 3, 224, 224)
    torch.onnx.export(model, x, f"{folder}/model.onnx", dynamo=False)
    with contextlib.redirect_stdout(io.StringIO()):
        pnnx.export(model, f"{folder}/model.pt", x, fp16=False)
    return x.numpy(), model(x).detach().numpy()


def open_ncnn(folder):
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic"):
        setattr(net.opt, f"use_{option}", False)
    net.load_param(f"{folder}/model.ncnn.param")
    net.load_model(f"{folder}/model.ncnn.bin")
    return net


def run_ncnn(net, x):
    start = time.monotonic()
    with net.create_extractor() as run:
        run.input("in0", ncnn.Mat(x[0]))
        _, out = run.extract("out0")
    return time.monotonic() - start, numpy.array(out).reshape(-1)


def run_keel(keel, folder):
    said = subprocess.run(
        [keel, "run", f"{folder}/model.onnx", "--device", "vulkan:0", "--input",
         f"{folder}/x.npy", "--output", folder, "--repeat", str(ROUNDS), "--json"],
        check=True, capture_output=True, text=True).stdout
    out = [f for f in os.listdir(folder) if f.endswith(".npy") and f != "x.npy"]
    best = json.loads(said)
    return best, numpy.load(f"{folder}/{out[0]}").reshape(-1)


def apart(got, want):
    return float(abs(got - want).max() / abs(want).max())


def compare(keel, name):
    with tempfile.TemporaryDirectory() as folder:
        x, want = export(name, folder)
        numpy.save(f"{folder}/x.npy", x)
        net = open_ncnn(folder)
        ours, other = 1e30, 1e30
        for _ in range(2):
            for _ in range(ROUNDS):
                spent, theirs = run_ncnn(net, x)
                other = min(other, spent)
            said, got = run_keel(keel, folder)
            ours = min(ours, said["best_ms"] / 1e3)
    print(f"{name:20} ncnn {other * 1e3:8.1f} ms, Keel {ours * 1e3:8.1f} ms, ratio "
          f"{ours / other:.2f}; off by {apart(theirs, want.reshape(-1)):.1e} and "
          f"{apart(got, want.reshape(-1)):.1e} of PyTorch's greatest", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if ncnn.get_gpu_count() < 1:
        print("ncnn_models.py: ncnn finds no Vulkan device")
        sys.exit(77)
    print(f"ncnn {ncnn.__version__} on {ncnn.get_gpu_info(0).device_name()}")
    for name in sys.argv[2:] or ["resnet50", "mobilenet_v2", "mobilenet_v3_large"]:
        compare(sys.argv[1], name)


main()
