"""ResNet-50 v1.5 by PyTorch, as samples/resnet50 has it: batch 1, f32 without TF32 and with
it, and f16, eager and as a CUDA graph (f16 in NHWC, too), and, with --compile, by
torch.compile; the best and the median time of a run with its result on the host.

usage: python3 torch_resnet50.py [REPEAT [--compile]]     exit status 77 where there is no PyTorch, no
torchvision, or no GPU for them
"""
import statistics
import sys
import time

import torch_models  # ends where there is no PyTorch, or no GPU
import torch
from torch import nn

try:
    import torchvision
except ImportError:
    print("there is no torchvision")
    sys.exit(77)


def measure(what, run, repeat):
    for _ in range(10):
        run()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e3)
    print("torch %-22s best %.3f ms, median %.3f ms" %
          (what, min(times), statistics.median(times)), flush=True)


def main():
    repeat = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print("PyTorch %s, CUDA %s, cuDNN %s" %
          (torch.__version__, torch.version.cuda,
           torch.backends.cudnn.version()))
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    for name, dtype in (("f32", torch.float32), ("tf32", torch.float32),
                        ("f16", torch.float16), ("f16 NHWC", torch.float16)):
        torch.backends.cudnn.allow_tf32 = name == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        form = torch.channels_last if "NHWC" in name else torch.contiguous_format
        model = nn.Sequential(torchvision.models.resnet50(weights=None), nn.Softmax(1))
        model = model.eval().cuda().to(dtype).to(memory_format=form)
        host = torch.randn(1, 3, 224, 224).to(dtype).to(memory_format=form)

        def called(net):
            return lambda: net(host.cuda()).float().cpu()

        ways = [("eager", lambda: called(model)),
                ("graph", lambda: torch_models.as_graph(model, [host]))]
        if "--compile" in sys.argv:
            ways.append(("compile",
                         lambda: called(torch.compile(model, mode="reduce-overhead"))))
        for way, make in ways:
            try:
                measure("%s %s" % (name, way), make(), repeat)
            except Exception as error:  # a way that is not installed
                print("torch %s %s: %s" % (name, way,
                                           str(error).split("\n")[0]))


main()
