"""peers_nets.py - architectures to compare runtimes on, with weights that are drawn anew.

NETS has a function for each name. It returns a Sample: a module in eval mode, the values
that it is traced with, the names of inputs and outputs, and which dimensions stay open.
"""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

# fused attention has no form in ONNX, its parts have
torch.backends.mha.set_fastpath_enabled(False)

NETS = {}


@dataclass
class Sample:
    net: nn.Module
    values: tuple
    inputs: list
    outputs: list
    open: dict = field(default_factory=dict)


def net(make):
    """Makes a function known by its name."""
    NETS[make.__name__] = make
    return make


def picture(size, batch=1):
    return torch.rand(batch, 3, size, size) * 2 - 1


def words(batch, length, vocabulary=1000):
    return torch.randint(0, vocabulary, (batch, length))


def all_ones(batch, length):
    return torch.ones(batch, length, dtype=torch.int64)


def as_if_trained(module):
    """Gives norms of batches statistics that are not 0 and 1, and what begins with zeros
    weights that are none: folding the former counts then, and results are not all 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and not layer.weight.any():
            nn.init.normal_(layer.weight, 0, 0.05)
        if isinstance(layer, (nn.BatchNorm2d, nn.BatchNorm3d)):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0, 0.1)
    return module.eval()


def one(module, value, **dims):
    """A sample with one input x and one output y; dims: name of an open one = its number."""
    axes = {"x": {at: name for name, at in dims.items()}} if dims else {}
    return Sample(module, (value,), ["x"], ["y"], axes)


# ---- images ------------------------------------------------------------------------


def torchvision_net(name, size=224, **options):
    import torchvision

    return one(as_if_trained(getattr(torchvision.models, name)(weights=None, **options)),
               picture(size), N=0)


for _name in ("resnet50", "mobilenet_v3_large", "convnext_tiny", "vit_b_16",
              "efficientnet_b0", "densenet121", "squeezenet1_1", "shufflenet_v2_x1_0",
              "regnet_y_400mf", "mnasnet1_0", "mobilenet_v2", "swin_t", "resnext50_32x4d"):
    NETS[_name] = lambda name=_name: torchvision_net(name)
NETS["googlenet"] = lambda: torchvision_net("googlenet", aux_logits=False,
                                            init_weights=False)
NETS["inception_v3"] = lambda: torchvision_net("inception_v3", 299, aux_logits=False,
                                               init_weights=False)


class Picked(nn.Module):
    """Some results of a net that gives many, as a tuple."""

    def __init__(self, inner, names, inputs=None, **options):
        super().__init__()
        self.inner, self.names, self.inputs, self.options = inner, names, inputs, options

    def forward(self, *values):
        if self.inputs:
            found = self.inner(**dict(zip(self.inputs, values)), **self.options)
        else:
            found = self.inner(*values, **self.options)
        return tuple(found[name] for name in self.names)


def segmentation(name):
    import torchvision

    inner = getattr(torchvision.models.segmentation, name)(weights=None,
                                                           weights_backbone=None)
    return one(Picked(as_if_trained(inner), ["out"]).eval(), picture(224), N=0)


for _name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    NETS[_name] = lambda name=_name: segmentation(name)


@net
def fasterrcnn():
    from torchvision.models import detection

    inner = detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, box_score_thresh=0.0,
        box_detections_per_img=30, rpn_post_nms_top_n_test=100)
    return Sample(inner.eval(), ([torch.rand(3, 240, 320)],), ["x"],
                  ["boxes", "labels", "scores"])


@net
def r3d_18():
    import torchvision

    return one(as_if_trained(torchvision.models.video.r3d_18(weights=None)),
               torch.rand(1, 3, 8, 112, 112) * 2 - 1, N=0)


def conv_pair(before, after):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())


class UNet(nn.Module):
    WIDTHS = (16, 32, 64, 128)

    def __init__(self):
        super().__init__()
        widths = self.WIDTHS
        pairs = list(zip(widths, widths[1:]))
        self.down = nn.ModuleList([conv_pair(a, b) for a, b in [(3, widths[0])] + pairs])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs])
        self.join = nn.ModuleList([conv_pair(2 * a, a) for a, _ in pairs])
        self.last = nn.Conv2d(widths[0], 5, 1)

    def forward(self, x):
        levels = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if levels else x)
            levels.append(x)
        for level in reversed(range(len(self.up))):
            kept = levels[level]
            x = F.interpolate(self.up[level](x), size=kept.shape[2:], mode="bilinear",
                              align_corners=False)
            x = self.join[level](torch.cat([x, kept], 1))
        return self.last(x)


@net
def unet():
    return one(UNet().eval(), picture(128), N=0, H=2, W=3)


class Residual(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.way = nn.Sequential(
            nn.GroupNorm(16, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1),
            nn.GroupNorm(16, after), nn.SiLU(), nn.Conv2d(after, after, 3, padding=1))
        self.past = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x):
        return self.past(x) + self.way(x)


class PixelAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(16, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = (t.flatten(2).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, 1))
        score = torch.softmax(q @ k.transpose(1, 2) * q.shape[-1] ** -0.5, -1)
        return x + self.out((score @ v).transpose(1, 2).reshape(x.shape))


@net
def vae_decoder():
    """The decoder of a latent diffusion model, an eighth as wide."""
    parts = [nn.Conv2d(4, 64, 3, padding=1), Residual(64, 64), PixelAttention(64)]
    for before, after in ((64, 64), (64, 32), (32, 16)):
        parts += [Residual(before, after), nn.Upsample(scale_factor=2),
                  nn.Conv2d(after, after, 3, padding=1)]
    parts += [nn.GroupNorm(16, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1)]
    return one(nn.Sequential(*parts).eval(), torch.randn(1, 4, 16, 16), N=0)


class ConvSiLU(nn.Sequential):
    def __init__(self, before, after, kernel=1, stride=1):
        super().__init__(nn.Conv2d(before, after, kernel, stride, (kernel - 1) // 2, bias=False),
                         nn.BatchNorm2d(after), nn.SiLU())


class CrossStage(nn.Module):
    def __init__(self, before, after, depth=1, short=True):
        super().__init__()
        half = after // 2
        self.a, self.b = ConvSiLU(before, half), ConvSiLU(before, half)
        self.steps = nn.ModuleList([nn.Sequential(ConvSiLU(half, half), ConvSiLU(half, half, 3))
                                    for _ in range(depth)])
        self.short, self.out = short, ConvSiLU(2 * half, after)

    def forward(self, x):
        a = self.a(x)
        for step in self.steps:
            a = a + step(a) if self.short else step(a)
        return self.out(torch.cat([a, self.b(x)], 1))


class PoolPyramid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = ConvSiLU(width, width // 2), ConvSiLU(2 * width, width)

    def forward(self, x):
        found = [self.first(x)]
        for _ in range(3):
            found.append(F.max_pool2d(found[-1], 5, 1, 2))
        return self.last(torch.cat(found, 1))


class Yolo(nn.Module):
    def __init__(self, c=16, classes=20):
        super().__init__()
        self.stem = nn.Sequential(ConvSiLU(3, c, 6, 2), ConvSiLU(c, 2 * c, 3, 2),
                                  CrossStage(2 * c, 2 * c))
        self.p3 = nn.Sequential(ConvSiLU(2 * c, 4 * c, 3, 2), CrossStage(4 * c, 4 * c, 2))
        self.p4 = nn.Sequential(ConvSiLU(4 * c, 8 * c, 3, 2), CrossStage(8 * c, 8 * c, 3))
        self.p5 = nn.Sequential(ConvSiLU(8 * c, 16 * c, 3, 2), CrossStage(16 * c, 16 * c),
                                PoolPyramid(16 * c))
        self.down5, self.down4 = ConvSiLU(16 * c, 8 * c), ConvSiLU(8 * c, 4 * c)
        self.join4 = CrossStage(16 * c, 8 * c, short=False)
        self.join3 = CrossStage(8 * c, 4 * c, short=False)
        self.heads = nn.ModuleList([nn.Conv2d(w * c, 3 * (classes + 5), 1) for w in (4, 8, 16)])
        self.classes = classes

    def forward(self, x):
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        p4 = self.join4(torch.cat([F.interpolate(self.down5(p5), scale_factor=2.0), p4], 1))
        p3 = self.join3(torch.cat([F.interpolate(self.down4(p4), scale_factor=2.0), p3], 1))
        found = []
        for head, level in zip(self.heads, (p3, p4, p5)):
            y = head(level)
            y = y.view(y.shape[0], 3, self.classes + 5, y.shape[2], y.shape[3])
            found.append(y.permute(0, 1, 3, 4, 2).sigmoid().flatten(1, 3))
        return torch.cat(found, 1)


@net
def yolo_csp():
    """A detector after YOLOv5: cross-stage blocks, SiLU, a pyramid of pools."""
    return one(as_if_trained(Yolo()), picture(320), N=0)


class Mixing(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.over_places = nn.Sequential(nn.Linear(places, 256), nn.GELU(), nn.Linear(256, places))
        self.over_width = nn.Sequential(nn.Linear(width, 1024), nn.GELU(), nn.Linear(1024, width))

    def forward(self, x):
        x = x + self.over_places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_width(self.norms[1](x))


class Mixer(nn.Module):
    def __init__(self, width=256, depth=6):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.Sequential(*[Mixing(196, width) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        return self.out(self.norm(x).mean(1))


@net
def mlp_mixer():
    return one(Mixer().eval(), picture(224), N=0)


@net
def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    inner = as_if_trained(SegformerForSemanticSegmentation(SegformerConfig(num_labels=20)))
    return one(Picked(inner, ["logits"]).eval(), picture(224))


def transformers_image(name, **options):
    """A model of transformers with its configuration's defaults, but for options."""
    import transformers

    config = getattr(transformers, name.replace("Model", "Config"))(**options)
    inner = as_if_trained(getattr(transformers, name)(config))
    return one(Picked(inner, ["last_hidden_state"]).eval(), picture(224))


NETS["poolformer"] = lambda: transformers_image("PoolFormerModel")
NETS["mobilenet_v1"] = lambda: transformers_image("MobileNetV1Model")
NETS["cvt"] = lambda: transformers_image("CvtModel")


@net
def detr():
    """A ResNet-50 with frozen norms, and a small transformer that looks for objects."""
    import transformers

    config = transformers.TableTransformerConfig(
        use_timm_backbone=False, backbone=None,
        backbone_config=transformers.ResNetConfig(out_features=["stage4"]), d_model=128,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=512, decoder_ffn_dim=512)
    inner = transformers.TableTransformerModel(config).eval()
    return one(Picked(inner, ["last_hidden_state"]).eval(), picture(224))


@net
def dcgan():
    """The generator of Radford et al., 2015: transposed convolutions alone."""
    widths, layers = [100, 512, 256, 128, 64, 3], []
    for i in range(5):
        layers.append(nn.ConvTranspose2d(widths[i], widths[i + 1], 4, 2 if i else 1,
                                         1 if i else 0, bias=False))
        layers += [nn.BatchNorm2d(widths[i + 1]), nn.ReLU()] if i < 4 else [nn.Tanh()]
    return one(as_if_trained(nn.Sequential(*layers)), torch.randn(1, 100, 1, 1))


# ---- language ------------------------------------------------------------------------


def language(inner, inputs, outputs, **options):
    names = list(inputs)
    return Sample(Picked(inner.eval(), outputs, names, **options).eval(),
                  tuple(inputs.values()), names, outputs,
                  {name: {0: "B", 1: "L"} for name in names})


def small_bert():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4,
                                num_attention_heads=4, intermediate_size=1024))


@net
def bert():
    mask = all_ones(2, 32)
    mask[1, 20:] = 0
    return language(small_bert(), dict(input_ids=words(2, 32), attention_mask=mask),
                    ["last_hidden_state", "pooler_output"])


@net
def bert_base():
    from transformers import BertConfig, BertModel

    return language(BertModel(BertConfig(vocab_size=30522)),
                    dict(input_ids=words(1, 128), attention_mask=all_ones(1, 128)),
                    ["last_hidden_state"])


@net
def distilbert():
    from transformers import DistilBertConfig, DistilBertModel

    inner = DistilBertModel(DistilBertConfig(vocab_size=1000, dim=384, n_layers=4, n_heads=6,
                                             hidden_dim=1536))
    return language(inner, dict(input_ids=words(1, 64), attention_mask=all_ones(1, 64)),
                    ["last_hidden_state"])


@net
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    inner = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4,
                                       n_positions=128))
    return language(inner, dict(input_ids=words(1, 64), attention_mask=all_ones(1, 64)),
                    ["logits"], use_cache=False)


@net
def t5_encoder():
    from transformers import T5Config, T5EncoderModel

    inner = T5EncoderModel(T5Config(vocab_size=1000, d_model=256, d_kv=32, d_ff=1024,
                                    num_layers=4, num_heads=8))
    return language(inner, dict(input_ids=words(1, 64), attention_mask=all_ones(1, 64)),
                    ["last_hidden_state"])


@net
def qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    inner = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=1000, hidden_size=256, intermediate_size=704, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=2))
    return language(inner, dict(input_ids=words(1, 48), attention_mask=all_ones(1, 48)),
                    ["logits"], use_cache=False)


@net
def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    inner = MambaForCausalLM(MambaConfig(vocab_size=1000, hidden_size=128, state_size=16,
                                         num_hidden_layers=2))
    sample = language(inner, dict(input_ids=words(1, 32)), ["logits"], use_cache=False)
    sample.open = {}  # a step of its own for each word
    return sample


class WithPast(nn.Module):
    """A decoder whose earlier keys and values come as inputs, and go on as outputs."""

    def __init__(self, inner, layers):
        super().__init__()
        self.inner, self.layers = inner, layers

    def forward(self, input_ids, attention_mask, *past):
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.inner(input_ids=input_ids, attention_mask=attention_mask,
                           past_key_values=cache, use_cache=True)
        kept = [t for layer in found.past_key_values.layers for t in (layer.keys, layer.values)]
        return (found.logits, *kept)


@net
def llama_past():
    from transformers import LlamaConfig, LlamaForCausalLM

    layers, heads, size, past, new = 3, 2, 32, 10, 3
    inner = LlamaForCausalLM(LlamaConfig(
        vocab_size=1000, hidden_size=256, num_hidden_layers=layers, num_attention_heads=8,
        num_key_value_heads=heads, intermediate_size=512))
    which = [f"{kind}{layer}" for layer in range(layers) for kind in "kv"]
    values = [words(1, new), all_ones(1, past + new)]
    values += [torch.randn(1, heads, past, size) * 0.3 for _ in which]
    axes = {"input_ids": {0: "B", 1: "T"}, "attention_mask": {0: "B", 1: "PT"}}
    axes.update({f"past_{name}": {0: "B", 2: "P"} for name in which})
    return Sample(WithPast(inner.eval(), layers).eval(), tuple(values),
                  ["input_ids", "attention_mask"] + [f"past_{name}" for name in which],
                  ["logits"] + [f"present_{name}" for name in which], axes)


class Tagger(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.look_up = nn.Embedding(200, 48)
        self.cells = kind(48, 64, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        y, state = self.cells(self.look_up(x))
        return (self.out(y), *state) if isinstance(state, tuple) else (self.out(y), state)


def tagger(kind, outputs):
    return Sample(Tagger(kind).eval(), (words(3, 17, 200),), ["x"], outputs,
                  {"x": {0: "B", 1: "L"}})


NETS["lstm"] = lambda: tagger(nn.LSTM, ["y", "h", "c"])
NETS["gru"] = lambda: tagger(nn.GRU, ["y", "h"])

# ---- sound ---------------------------------------------------------------------------


@net
def whisper_encoder():
    from transformers import WhisperConfig, WhisperModel

    inner = WhisperModel(WhisperConfig(
        vocab_size=1000, d_model=128, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, num_mel_bins=80, max_source_positions=200, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)).encoder
    sample = language(inner, dict(input_features=torch.randn(1, 80, 400)),
                      ["last_hidden_state"])
    sample.open = {"input_features": {0: "B"}}
    return sample


@net
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    inner = Wav2Vec2Model(Wav2Vec2Config(
        hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024,
        conv_dim=(256,) * 7, num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=16))
    sample = language(inner, dict(input_values=torch.randn(1, 8000)), ["last_hidden_state"])
    sample.open = {}
    return sample


class Gated(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = dilation
        self.both = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.on = nn.Conv1d(width, width, 1)
        self.skip = nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.both(F.pad(x, (self.pad, 0))).chunk(2, 1)
        y = torch.tanh(a) * torch.sigmoid(b)
        return x + self.on(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self, width=48, depth=10):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.steps = nn.ModuleList([Gated(width, 2 ** i) for i in range(depth)])
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(),
                                  nn.Conv1d(width, 64, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for step in self.steps:
            x, skip = step(x)
            total = total + skip
        return self.last(total)


@net
def wavenet():
    return one(WaveNet().eval(), torch.rand(1, 1, 4000) * 2 - 1)


class Separable(nn.Module):
    """A block of Conv-TasNet: pointwise, dilated depthwise, pointwise."""

    def __init__(self, width, hidden, dilation):
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv1d(width, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
            nn.PReLU(), nn.GroupNorm(1, hidden), nn.Conv1d(hidden, width, 1))

    def forward(self, x):
        return x + self.way(x)


@net
def conv_tasnet():
    blocks = [Separable(64, 128, 2 ** i) for _ in range(2) for i in range(6)]
    return one(nn.Sequential(nn.Conv1d(1, 128, 16, 8), nn.ReLU(), nn.Conv1d(128, 64, 1), *blocks,
                             nn.Conv1d(64, 128, 1), nn.Sigmoid(),
                             nn.ConvTranspose1d(128, 1, 16, 8)).eval(),
               torch.rand(1, 1, 16000) * 2 - 1)


# ---- lists ---------------------------------------------------------------------------

NAMED = ("resnet50 mobilenet_v3_large convnext_tiny vit_b_16 fasterrcnn unet bert bert_base "
         "gpt2 llama_past whisper_encoder lstm").split()
OTHERS = [name for name in NETS if name not in NAMED]
