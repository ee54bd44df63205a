"""ResNet-50 v1.5 by PyTorch, as samples/resnet50 has it: batch 1, f32 without TF32 and with
it, and f16, eager and as a CUDA graph (f16 in NHWC, too), and, with --compile, by
torch.compile; the best and the median time of a run with its result on the host.

usage: python3 torch_resnet50.py [REPEAT [--compile]]     exit status 77 where there is no PyTorch, or
no GPU for it
"""
import statistics
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    print("there is no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("this PyTorch has no GPU")
    sys.exit(77)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()

        def conv(a, b, kernel, step=1):
            return nn.Sequential(
                nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False),
                nn.BatchNorm2d(b))

        self.first = conv(inputs, width, 1)
        self.second = conv(width, width, 3, stride)
        self.third = conv(width, 4 * width, 1)
        self.beside = None
        if inputs != 4 * width or stride != 1:
            self.beside = conv(inputs, 4 * width, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.first(x))
        y = self.relu(self.second(y))
        y = self.third(y)
        return self.relu(y + (self.beside(x) if self.beside else x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for i in range(blocks):
            layers.append(Bottleneck(channels, width,
                                     2 if i == 0 and stage else 1))
            channels = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000),
               nn.Softmax(1)]
    return nn.Sequential(*layers)


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


def as_graph(model, image):
    """Runs with a captured graph: the image is copied in, the result out."""
    place = image.clone()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(place)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(place)

    def run(given):
        place.copy_(given)
        graph.replay()
        return result

    return run


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
        model = resnet50().eval().cuda().to(dtype).to(memory_format=form)
        host = torch.randn(1, 3, 224, 224).to(dtype).to(memory_format=form)
        ways = [("eager", lambda: model)]
        ways.append(("graph", lambda: as_graph(model, host.cuda())))
        if "--compile" in sys.argv:
            ways.append(("compile",
                         lambda: torch.compile(model, mode="reduce-overhead")))
        for way, make in ways:
            try:
                run = make()
                measure("%s %s" % (name, way),
                        lambda: run(host.cuda()).float().cpu(), repeat)
            except Exception as error:  # a way that is not installed
                print("torch %s %s: %s" % (name, way,
                                           str(error).split("\n")[0]))


main()
