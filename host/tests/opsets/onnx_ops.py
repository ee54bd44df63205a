#!/usr/bin/env python3
"""Ops of ai.onnx of which ONNX has few cases, beside ONNX's reference or ONNX Runtime.

usage: onnx_ops.py [--seed N] [--keep DIR] [KEEL [OPTION...]], which --help explains

Makes small models with random attributes, shapes and numbers, runs them by the reference or the
runtime (a venv with onnx, onnxruntime and numpy), and lets `keel onnx-test` compare.
"""
import sys

try:
    import numpy as np
    import onnxruntime as _  # looked for before the work begins
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    sys.exit(f"onnx_ops.py: {error}; pip install onnx onnxruntime numpy")
from case_script import CaseFolder, by_runtime, run_cases

f32 = np.float32


def by_reference(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)


class Cases(CaseFolder):
    def add(self, name, op, opset, inputs, outputs, peer=by_reference, dynamic=False,
            result=None, **attributes):
        """inputs: name to array; None: absent. dynamic: the model does not say the dimensions.
        result: the outputs' type, unless that of input 0."""
        given = {k: v for k, v in inputs.items() if v is not None}
        names = [k if v is not None else "" for k, v in inputs.items()]
        while names and not names[-1]:
            names.pop()
        first = next(iter(given.values())).dtype
        dtype = helper.np_dtype_to_tensor_dtype(np.dtype(result or first))
        graph = helper.make_graph(
            [helper.make_node(op, names, outputs, **attributes)], name,
            [helper.make_tensor_value_info(
                k, helper.np_dtype_to_tensor_dtype(v.dtype),
                [f"{k}{i}" for i in range(v.ndim)] if dynamic else v.shape)
             for k, v in given.items()],
            [helper.make_tensor_value_info(o, dtype, None) for o in outputs])
        model = helper.make_model(graph, ir_version=10,
                                  opset_imports=[helper.make_opsetid("", opset)])
        self.save(name, model, given, dict(zip(outputs, peer(model, given))))


def deformed(cases, random, maps=4, channels=4, image=(7, 6), kernel=(3, 2), batch=2, group=1,
             offset_group=1, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0), mask=True,
             bias=True, dtype=f32, reach=1.5, opset=22, dynamic=False, said=True):
    space = len(image)
    places = [(image[i] + pads[i] + pads[space + i] - dilations[i] * (kernel[i] - 1) - 1)
              // strides[i] + 1 for i in range(space)]
    taps = int(np.prod(kernel)) * offset_group

    def draw(*shape, scale=1):
        numbers = random.standard_normal(shape) * scale
        if dtype == np.float16:  # numbers that neither coordinates nor products round
            numbers = np.round(numbers * 2) / 2
        return numbers.astype(dtype)
    cases.add(
        f"deform_{maps}of{channels}_{'x'.join(map(str, kernel))}_groups{group}_{offset_group}"
        f"_{np.dtype(dtype).name}{'_mask' if mask else ''}{'_bias' if bias else ''}"
        f"{'_dynamic' if dynamic else ''}", "DeformConv", opset,
        {"X": draw(batch, channels, *image), "W": draw(maps, channels // group, *kernel),
         "offset": draw(batch, taps * space, *places, scale=reach),
         "B": draw(maps) if bias else None,
         "mask": np.abs(draw(batch, taps, *places)) if mask else None},
        ["Y"], dynamic=dynamic, group=group, offset_group=offset_group, strides=strides,
        dilations=dilations, pads=pads, **({"kernel_shape": kernel} if said else {}))


def deform_convs(cases, random):
    deformed(cases, random)
    deformed(cases, random, mask=False, bias=False, opset=19, said=False)
    deformed(cases, random, bias=False, group=2, offset_group=4, pads=(1, 2, 0, 1))
    deformed(cases, random, mask=False, maps=6, channels=6, group=3, offset_group=2,
             strides=(2, 3), dilations=(2, 1), pads=(2, 1, 1, 2), image=(9, 8))
    deformed(cases, random, maps=1, channels=1, kernel=(1, 1), reach=20, batch=1)
    deformed(cases, random, dynamic=True, group=2, offset_group=2, pads=(1, 1, 1, 1))
    deformed(cases, random, dynamic=True, mask=False, said=False)
    unmoved(cases, random, (9,), (3,), (2,), (1, 0))
    unmoved(cases, random, (5, 4, 6), (3, 2, 2), (1, 2, 1), (1, 0, 1, 0, 1, 1), 2)
    for dtype in (np.float64, np.float16):
        deformed(cases, random, dtype=dtype, offset_group=2, pads=(1, 0, 0, 1))


def unmoved(cases, random, image, kernel, strides, pads, group=1):
    """Offsets of 0: a Conv."""
    x = random.standard_normal((2, 4, *image)).astype(f32)
    w = random.standard_normal((6, 4 // group, *kernel)).astype(f32)

    def as_conv(_, feeds):
        conv = helper.make_node("Conv", ["X", "W"], ["Y"], strides=strides, pads=pads, group=group)
        model = helper.make_model(helper.make_graph(
            [conv], "conv",
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, feeds[k].shape) for k in "XW"],
            [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)]), ir_version=10,
            opset_imports=[helper.make_opsetid("", 17)])
        return by_runtime(model, {k: feeds[k] for k in "XW"})
    space = len(image)
    places = [(image[i] + pads[i] + pads[space + i] - kernel[i]) // strides[i] + 1
              for i in range(space)]
    offset = np.zeros((2, int(np.prod(kernel)) * space, *places), f32)
    cases.add(f"deform_as_conv_{'x'.join(map(str, image))}", "DeformConv", 22,
              {"X": x, "W": w, "offset": offset}, ["Y"], as_conv, strides=strides, pads=pads,
              group=group)


def regions(cases, random):
    """MaxRoiPool; bins of which ONNX Runtime's floats are as exact as integers."""
    for opset, dtype, scale, shape in ((6, f32, 1.0, (2, 4)), (21, f32, 0.25, (4, 2)),
                                       (13, f32, 0.5, (1, 8))):
        x = random.standard_normal((3, 5, 9, 12)).astype(dtype)
        corners = random.integers(-2, 14, (7, 2, 2)) / scale + random.random((7, 2, 2))
        corners.sort(1)
        rois = np.concatenate([random.integers(0, 3, (7, 1)), corners.reshape(7, 4)], 1)
        rois[3, 3:] = rois[3, 1:3] - 2  # the last corner first
        cases.add(f"max_roi_pool_{opset}", "MaxRoiPool", opset,
                  {"X": x, "rois": rois.astype(dtype)}, ["Y"], by_runtime, pooled_shape=shape,
                  spatial_scale=scale)


def scans_of_batches(cases, random):
    """Scan of opset 8; its body also reads a value from around it."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["old", "keep"], ["kept"]),
         helper.make_node("Add", ["kept", "a"], ["sum"]),
         helper.make_node("Identity", ["sum"], ["new"]),
         helper.make_node("Mul", ["sum", "b"], ["both"])], "body",
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, [3]) for k in ("old", "a", "b")],
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, [3])
         for k in ("new", "sum", "both")])
    for directions, lengths in ((None, None), ([0, 1], None), (None, [2, 5, 1]),
                                ([1, 0], [5, 3, 4])):
        feeds = {"start": random.standard_normal((3, 3)).astype(f32),
                 "A": random.standard_normal((3, 5, 3)).astype(f32),
                 "B": random.standard_normal((3, 5, 3)).astype(f32),
                 "keep": random.standard_normal(3).astype(f32)}
        if lengths:
            feeds["lengths"] = np.array(lengths, np.int64)
        more = {"directions": directions} if directions else {}
        node = helper.make_node("Scan", ["lengths" if lengths else "", "start", "A", "B"],
                                ["last", "sums", "products"], body=body, num_scan_inputs=2, **more)
        graph = helper.make_graph(
            [node], "scan",
            [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for k, v in feeds.items()],
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, None)
             for k in ("last", "sums", "products")])
        model = helper.make_model(graph, ir_version=3,
                                  opset_imports=[helper.make_opsetid("", 8)])
        name = f"scan8{'_turned' if directions else ''}{'_lengths' if lengths else ''}"
        cases.save(name, model, feeds,
                   dict(zip(("last", "sums", "products"), by_runtime(model, feeds))))


def flexible(cases, random, name, batch=2, heads=4, groups=4, rows=3, keys=5, size=8, wide=6,
             dtype=f32, dynamic=False, score=False, prob=False, **attributes):
    """FlexAttention, whose functions read values from around them."""
    def draw(*shape):
        return random.standard_normal(shape).astype(dtype)
    feeds = {"Q": draw(batch, heads, rows, size), "K": draw(batch, groups, keys, size),
             "V": draw(batch, groups, keys, wide)}
    kind = attributes.get("softmax_precision",
                          TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT)
    compute = helper.tensor_dtype_to_np_dtype(kind)

    def function(op, other):
        return helper.make_graph(
            [helper.make_node(op, ["x", other], ["y"])], other,
            [helper.make_tensor_value_info("x", kind, ["B", "H", "L", "S"])],
            [helper.make_tensor_value_info("y", kind, ["B", "H", "L", "S"])])
    more = dict(attributes)
    if prob:
        feeds["keep"] = random.random((heads, 1, keys)).astype(compute)
        more["prob_mod"] = function("Mul", "keep")
    if score:
        feeds["bias"] = random.standard_normal((rows, keys)).astype(compute)
        more["score_mod"] = function("Add", "bias")
    q = feeds["Q"].astype(np.float64)
    k, v = (np.repeat(feeds[x].astype(np.float64), heads // groups, 1) for x in "KV")
    scores = q @ k.swapaxes(2, 3) * attributes.get("scale", size ** -0.5)
    scores = scores + feeds["bias"].astype(np.float64) if score else scores
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    chances = chances * feeds["keep"].astype(np.float64) if prob else chances
    graph = helper.make_graph(
        [helper.make_node("FlexAttention", ["Q", "K", "V"], ["Y"], domain="ai.onnx.preview",
                          **more)], name,
        [helper.make_tensor_value_info(
            key, helper.np_dtype_to_tensor_dtype(value.dtype),
            [f"{key}{i}" for i in range(value.ndim)] if dynamic else value.shape)
         for key, value in feeds.items()],
        [helper.make_tensor_value_info("Y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)),
                                       None)])
    model = helper.make_model(graph, ir_version=10,
                              opset_imports=[helper.make_opsetid("", 26),
                                             helper.make_opsetid("ai.onnx.preview", 1)])
    cases.save(f"flex_{name}", model, feeds, {"Y": (chances @ v).astype(dtype)})


def flex_attentions(cases, random):
    flexible(cases, random, "plain")
    flexible(cases, random, "score", score=True)
    flexible(cases, random, "both", score=True, prob=True)
    flexible(cases, random, "shared", groups=2, prob=True, score=True, scale=0.25)
    flexible(cases, random, "dynamic", dynamic=True)
    flexible(cases, random, "dynamic_shared", groups=1, dynamic=True, score=True, prob=True)
    flexible(cases, random, "double", dtype=np.float64, groups=2, score=True)
    flexible(cases, random, "precise", softmax_precision=TensorProto.DOUBLE, prob=True)
    flexible(cases, random, "against", scale=-0.5)


def write(folder, random):
    cases = Cases(folder)
    for part in (deform_convs, regions, scans_of_batches, flex_attentions):
        part(cases, random)


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, write))
