"""Small models that the tests of keel.torch train: each returns a module and its arguments.

`python3 torch_models.py` prints the table of host/bridges/python/pytorch.md.
"""
import copy
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def mlp():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(),
                         nn.Linear(64, 5)), (torch.randn(8, 16),)


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=4), nn.GELU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(128, 5)), (torch.randn(8, 3, 32, 32),)


class Residual(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
        self.down = None
        if stride != 1 or inner != outer:
            self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False),
                                      nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.down is None else self.down(x)))


def resnet18():
    widths = [64, 64, 128, 256, 512]
    blocks = [block for i in range(4) for block in (
        Residual(widths[i], widths[i + 1], 1 if i == 0 else 2),
        Residual(widths[i + 1], widths[i + 1], 1))]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(512, 10)), (torch.randn(4, 3, 64, 64),)


class Attention(nn.Module):
    """A block of a transformer: causal attention and a network of two layers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.feed = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(),
                                  nn.Linear(64, 32))

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, 4, 8).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, time, width))
        return x + self.feed(x)


def attention():
    return Attention(), (torch.randn(2, 10, 32),)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 5)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        return self.out(y[:, -1]) + h.mean()


def lstm():
    return Lstm(), (torch.randn(3, 7, 8),)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(8, 16, bidirectional=True, batch_first=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.out(self.gru(x)[0])


def gru():
    return Gru(), (torch.randn(3, 7, 8),)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class LlamaBlock(nn.Module):
    """RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        inner = groups * self.size
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.size).transpose(1, 2)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q = rotated(self.split(self.q(y), self.heads), cos, sin)
        k = rotated(self.split(self.k(y), self.groups), cos, sin)
        v = self.split(self.v(y), self.groups)
        k, v = (part.repeat_interleave(self.heads // self.groups, 1) for part in (k, v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(seen.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, words=50, width=32, heads=4, groups=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, words, bias=False)
        self.size = width // heads

    def forward(self, tokens):
        speeds = 1 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size)
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), speeds).repeat(1, 2)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))


def llama():
    return Llama(), (torch.randint(0, 50, (2, 9)),)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 3, 1)

    def forward(self, x):
        wide = F.relu(self.down1(x))
        deep = F.relu(self.down2(F.max_pool2d(wide, 2)))
        return self.out(torch.cat([wide, self.up(deep)], 1))


def unet():
    return UNet(), (torch.randn(2, 3, 16, 16),)


def depthwise():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
        nn.Conv2d(8, 16, 1), nn.SiLU(), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 5)), (torch.randn(4, 3, 20, 20),)


def encoder():
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, activation="gelu",
                                      batch_first=True), (torch.randn(2, 6, 32),)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 16)
        self.mean, self.log = nn.Linear(16, 4), nn.Linear(16, 4)
        self.outer = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 20), nn.Sigmoid())

    def forward(self, x):
        h = F.leaky_relu(self.inner(x))
        mean, log = self.mean(h), self.log(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log)
        return self.outer(z) - 0.5 * (1 + log - mean.pow(2) - log.exp()).mean()


def vae():
    return Vae(), (torch.randn(4, 20),)


def groupnorm():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.InstanceNorm2d(8, affine=True),
        nn.Softplus(), nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 3, padding=2, dilation=2),
        nn.Flatten(), nn.Linear(1024, 5)), (torch.randn(2, 3, 16, 16),)


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.conv, self.out = nn.Conv1d(8, 6, 3, padding=1), nn.Linear(6, 4)

    def forward(self, tokens):
        y = F.relu(self.conv(self.embed(tokens).transpose(1, 2)))
        return self.out(F.max_pool1d(y, 2).amax(-1))


def textcnn():
    return TextCnn(), (torch.randint(0, 30, (3, 12)),)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, 32))
        self.place = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        self.blocks = nn.ModuleList([Attention(), Attention()])
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


def vit():
    return Vit(), (torch.randn(2, 3, 16, 16),)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.weight = nn.Parameter(torch.randn(4, 8, 8) * 0.3)

    def forward(self, x):
        shares = F.softmax(self.gate(x), -1)
        best, place = torch.topk(shares, 2)
        kept = torch.zeros_like(shares).scatter(1, place, best)
        return torch.einsum("bi,eij,be->bj", x, self.weight, kept)


def experts():
    return Experts(), (torch.randn(6, 8),)


MODELS = [mlp, cnn, resnet18, attention, lstm, gru, llama, unet, depthwise, encoder, vae,
          groupnorm, textcnn, vit, experts]


def far(got, want):
    """The largest difference, as a share of the largest element, or of 1."""
    if not want.numel():
        return 0.0
    return ((got - want).abs().max() / max(1.0, want.abs().max())).item()


def trained(model, arguments, call, seed=1):
    """A step of training: the output, and the gradients as one vector."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = None
    output = call(*arguments)
    torch.manual_seed(seed)
    output.backward(torch.randn_like(output))
    return output.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


def figures():
    import keel.torch
    torch._dynamo.config.allow_rnn = True
    warm = nn.Linear(2, 2)
    torch.compile(warm, backend="keel")(torch.randn(3, 2)).sum().backward()
    print("| model | error forward | error backward | regions | left to torch |"
          " compile and one step, s | of it Keel's, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for make in MODELS:
        for _ in range(2):  # the second compilation in this process counts
            torch._dynamo.reset()
            keel.torch.reset()
            torch.manual_seed(0)
            model, arguments = make()
            plain = copy.deepcopy(model)
            want = trained(plain, arguments, plain)
            begin = time.perf_counter()
            got = trained(model, arguments, torch.compile(model, backend="keel"))
            seconds = time.perf_counter() - begin
        stats = keel.torch.stats
        left = ", ".join(f"{op} x {n}" for op, n in stats.left.items()) or "nothing"
        regions = " + ".join(str(graph.regions) for graph in stats.graphs)
        print(f"| {make.__name__} | {far(got[0], want[0]):.0e} | {far(got[1], want[1]):.0e} |"
              f" {regions} | {left} | {seconds:.1f} | {stats.seconds:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(figures())
