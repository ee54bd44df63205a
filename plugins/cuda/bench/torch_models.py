"""Models of several kinds on cuda:0 beside PyTorch on the same GPU: exported to ONNX with
random weights of a fixed seed, outputs compared, then the best time of a run each, from
inputs on the host to outputs on the host. Numbers are f32, or f16 where a name ends so; no
TF32 on either side. The ratio is Keel's time to that of PyTorch's CUDA graph, or of its eager
run where it can't be captured.

usage: python3 torch_models.py KEEL [--profile] [NAME]...      KEEL: the program; default: all
       models; --profile: prints where Keel's time goes, too
exit status 77 where there is no PyTorch, or no GPU for it; 1 where outputs differ
"""
import contextlib
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError:
    print("there is no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("this PyTorch has no GPU")
    sys.exit(77)

warnings.filterwarnings("ignore")
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
torch.backends.mha.set_fastpath_enabled(False)  # the exporter knows attention's parts only


class First(nn.Module):
    """A model's first output, whatever it gives."""

    def __init__(self, net, name=None, **options):
        super().__init__()
        self.net, self.name, self.options = net.eval(), name, options

    def forward(self, *values):
        out = self.net(*values, **self.options)
        return getattr(out, self.name) if self.name else out


def vision(name, side=224, batch=1):
    import torchvision

    net = getattr(torchvision.models, name)(weights=None).eval()
    for layer in net.modules():  # statistics as after training, not 0 and 1
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return First(net), [torch.rand(batch, 3, side, side) * 2 - 1]


def tokens(batch, length, vocabulary):
    return torch.randint(0, vocabulary, (batch, length))


def bert(batch=1, length=128):
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=30522, attn_implementation="eager")
    return First(BertModel(config), "last_hidden_state"), [tokens(batch, length, 30522)]


class Block(nn.Module):
    """A decoder's layer: it sees what came before."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        mask = torch.full((length, length), -1e4).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = [t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v)]
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads) + self.mask
        seen = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(seen)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def decoder(length=128, width=768, layers=6, words=8000):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.places = nn.Parameter(torch.randn(1, length, width) * 0.02)
            self.blocks = nn.Sequential(*[Block(width, 12, length) for _ in range(layers)])
            self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words)

        def forward(self, x):
            return self.out(self.norm(self.blocks(self.words(x) + self.places)))

    return First(Decoder()), [tokens(1, length, words)]


def encoder():
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return First(nn.TransformerEncoder(layer, 4)), [torch.randn(4, 64, 256)]


def unet():
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(),
                             nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = block(3, 32), block(32, 64), block(64, 128)
            self.up = nn.ConvTranspose2d(128, 64, 2, 2)
            self.d, self.out = block(128, 32), nn.Conv2d(32, 3, 1)

        def forward(self, x):
            b = self.b(nn.functional.max_pool2d(self.a(x), 2))
            c = self.up(self.c(nn.functional.max_pool2d(b, 2)))
            y = self.d(torch.cat([b, c], 1))
            return self.out(nn.functional.interpolate(y, scale_factor=2, mode="nearest"))

    return First(UNet()), [torch.rand(1, 3, 128, 128)]


def mlp():
    return First(nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048),
                               nn.ReLU(), nn.Linear(2048, 10))), [torch.randn(64, 512)]


MODELS = {
    "resnet50": lambda: vision("resnet50"),
    "resnet50_batch16": lambda: vision("resnet50", batch=16),
    "mobilenet_v3_large": lambda: vision("mobilenet_v3_large"),
    "convnext_tiny": lambda: vision("convnext_tiny"),
    "vit_b_16": lambda: vision("vit_b_16"),
    "bert_base": bert,
    "bert_base_batch8": lambda: bert(8),
    "decoder": decoder,
    "encoder": encoder,
    "unet": unet,
    "mlp": mlp,
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "densenet121": lambda: vision("densenet121"),
    "swin_t": lambda: vision("swin_t"),
    "resnet50_f16": lambda: vision("resnet50"),
    "bert_base_f16": bert,
    "vit_b_16_f16": lambda: vision("vit_b_16"),
}


def best_of(run, count=50, least=1.0):
    """Seconds of the best run: of `count`, or of as many as a second has."""
    for _ in range(5):
        run()
    best, began = math.inf, time.perf_counter()
    for _ in range(count):
        begin = time.perf_counter()
        run()
        end = time.perf_counter()
        best = min(best, end - begin)
        if end - began > least:
            break
    return best


def as_graph(net, inputs):
    """Runs by a captured graph: inputs are copied in, the output out."""
    places = [value.cuda() for value in inputs]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            net(*places)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = net(*places)

    def run():
        for place, value in zip(places, inputs):
            place.copy_(value)
        graph.replay()
        return result.cpu()

    return run


def keel(program, folder, count, rtol):
    """Seconds of the best run; raises what it says where it fails."""
    command = [program, "run", folder + "/model.onnx", "--device", "cuda:0", "--repeat", "60",
               "--expect", folder + "/output.npy", "--rtol", str(rtol), "--atol",
               str(rtol)]
    for i in range(count):
        command += ["--input", "%s/input_%d.npy" % (folder, i)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if "--profile" in sys.argv:
        told = subprocess.run(command + ["--profile"], capture_output=True, text=True)
        print(told.stdout, flush=True)
    best = re.search(r"best ([\d.]+) ms", done.stdout)
    if done.returncode or not best:
        lines = (done.stderr + done.stdout).strip().splitlines()
        raise RuntimeError("; ".join(line for line in lines if "load" not in line)[:400])
    return float(best[1]) / 1e3


def measure(name, program):
    torch.manual_seed(0)
    net, inputs = MODELS[name]()
    net.eval()
    half = name.endswith("_f16")
    if half:
        net = net.half()
        inputs = [value.half() if value.is_floating_point() else value for value in inputs]
    with tempfile.TemporaryDirectory() as folder:
        given = tuple(value.float() if value.is_floating_point() else value
                      for value in inputs)
        with contextlib.redirect_stdout(None):  # it tells much where it fails
            torch.onnx.export(net.float() if half else net, given,
                              folder + "/model.onnx", dynamo=False, opset_version=17)
        if half:
            import onnx
            make_half(onnx, folder + "/model.onnx")
            net = net.half()
        net = net.cuda()
        device_inputs = [value.cuda() for value in inputs]
        expected = net(*device_inputs).float().cpu().numpy()
        for i, value in enumerate(inputs):
            np.save("%s/input_%d.npy" % (folder, i), value.numpy())
        scale = float(np.abs(expected).max())
        np.save(folder + "/output.npy",
                expected.astype(np.float16) if half else expected)
        eager = best_of(lambda: net(*[value.cuda() for value in inputs]).cpu())
        try:
            graph = best_of(as_graph(net, inputs))
        except RuntimeError:  # what copies from the host can't be captured
            torch.cuda.synchronize()
            graph = eager
        ours = keel(program, folder, len(inputs), (2e-2 if half else 1e-3) * max(scale, 1))
    print("%-20s Keel %7.3f ms, torch eager %7.3f ms, graph %7.3f ms; ratio %.2f" %
          (name, ours * 1e3, eager * 1e3, graph * 1e3, ours / graph), flush=True)
    return ours / graph


def make_half(onnx, path):
    """Makes all f32 of a model f16: weights, inputs, outputs and casts."""
    from onnx import TensorProto, numpy_helper

    model = onnx.load(path)
    graphs = [model.graph]

    def halved(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            narrow = np.clip(values, -65504, 65504).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(narrow, tensor.name))

    while graphs:
        graph = graphs.pop()
        for tensor in graph.initializer:
            halved(tensor)
        for port in list(graph.input) + list(graph.output) + list(graph.value_info):
            if port.type.tensor_type.elem_type == TensorProto.FLOAT:
                port.type.tensor_type.elem_type = TensorProto.FLOAT16
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    halved(attribute.t)
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.FLOAT16
    onnx.save(model, path)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    ratios, failed = [], 0
    torch.set_grad_enabled(False)
    names = [name for name in sys.argv[2:] if name != "--profile"] or list(MODELS)
    for name in names:
        try:
            ratios.append(measure(name, os.path.abspath(sys.argv[1])))
        except Exception as error:  # the others are still worth having
            print("%-20s %s: %s" % (name, type(error).__name__, str(error).strip().split("\n")[0][:400]),
                  flush=True)
            failed = 1
    if ratios:
        print("%d of %d models; geometric mean of Keel's time to torch's: %.2f" %
              (len(ratios), len(names),
               math.exp(sum(map(math.log, ratios)) / len(ratios))))
    sys.exit(failed)


if __name__ == "__main__":
    main()
