"""Writes ONNX models byte by byte, by the field numbers of ONNX's IR; Python alone is needed.

A script that imports it says cases (`case`, `one`) and models that must be refused
(`refuse`), and writes them with write_all(FOLDER): FOLDER/cases/NAME is laid out as ONNX's
own cases are; FOLDER/refused has NAME.onnx and NAME.txt, the words that the refusal has.
"""
import os
import struct

# ---- protobuf ---------------------------------------------------------------------

TYPES = {  # number in onnx.proto, struct's letter
    "f32": (1, "f"), "u8": (2, "B"), "i8": (3, "b"), "u16": (4, "H"),
    "i16": (5, "h"), "i32": (6, "i"), "i64": (7, "q"), "bool": (9, "?"),
    "f16": (10, "e"), "f64": (11, "d"), "bf16": (16, "H"), "c64": (14, "f"),
    "c128": (15, "d"),
}


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def whole(field, number):
    return varint(field << 3) + varint(number)


def part(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def parts(field, contents):
    return b"".join(part(field, content) for content in contents)


class Tensor:
    def __init__(self, dtype, dims, values):
        self.dtype, self.dims, self.values = dtype, dims, values

    def bytes(self, name=""):
        number, letter = TYPES[self.dtype]
        values = self.values
        if self.dtype == "bf16":  # those that an f32's upper half is
            values = [struct.unpack("<I", struct.pack("<f", v))[0] >> 16
                      for v in values]
        if self.dtype in ("c64", "c128"):
            values = [p for v in values for p in (complex(v).real, complex(v).imag)]
        raw = struct.pack("<%d%s" % (len(values), letter), *values)
        return (b"".join(whole(1, d) for d in self.dims) + whole(2, number)
                + part(8, name) + part(9, raw))


def tensor(dtype, *values, dims=None):
    return Tensor(dtype, [len(values)] if dims is None else dims, values)


def scalar(dtype, value):
    return Tensor(dtype, [], [value])


class Graph:
    """A nested graph; inputs and outputs are names, constants tensors by name."""

    def __init__(self, nodes, outputs, inputs=(), constants=None):
        self.nodes, self.outputs, self.inputs = nodes, outputs, inputs
        self.constants = constants or {}

    def bytes(self):
        return (parts(1, self.nodes) + part(2, "inner")
                + parts(5, [t.bytes(n) for n, t in self.constants.items()])
                + parts(11, [part(1, n) for n in self.inputs])
                + parts(12, [part(1, n) for n in self.outputs]))


class Sparse:
    """Values at places of a tensor of zeros."""

    def __init__(self, dims, values, indices):
        self.dims, self.values, self.indices = dims, values, indices

    def bytes(self, name=""):
        return (part(1, self.values.bytes(name)) + part(2, self.indices.bytes())
                + b"".join(whole(3, d) for d in self.dims))


KINDS = {"f32": 1, "i64": 2, "str": 3, "tensor": 4, "graph": 5, "f32s": 6, "i64s": 7, "strs": 8}


class Ref:
    """In a function: what its call gives for an attribute, of a kind."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind


def attribute(name, value):
    if isinstance(value, Ref):
        body = part(21, value.name) + whole(20, KINDS[value.kind])
    elif isinstance(value, Tensor):
        body = part(5, value.bytes()) + whole(20, 4)
    elif isinstance(value, Graph):
        body = part(6, value.bytes()) + whole(20, 5)
    elif isinstance(value, Sparse):
        body = part(22, value.bytes()) + whole(20, 11)
    elif isinstance(value, float):
        body = varint(2 << 3 | 5) + struct.pack("<f", value) + whole(20, 1)
    elif isinstance(value, int):
        body = whole(3, value) + whole(20, 2)
    elif isinstance(value, str):
        body = part(4, value) + whole(20, 3)
    elif value and isinstance(value[0], str):
        body = parts(9, value) + whole(20, 8)
    elif value and isinstance(value[0], float):
        body = b"".join(varint(7 << 3 | 5) + struct.pack("<f", v) for v in value) + whole(20, 6)
    else:
        body = b"".join(whole(8, v) for v in value) + whole(20, 7)
    return part(1, name) + body


def node(op, inputs, outputs, domain="", overload="", **attrs):
    return (parts(1, inputs) + parts(2, outputs) + part(3, "it") + part(4, op)
            + parts(5, [attribute(n, v) for n, v in attrs.items()])
            + part(7, domain) + (part(8, overload) if overload else b""))


def opset(domain, version):
    return part(1, domain) + whole(2, version)


def function(name, inputs, outputs, nodes, version, overload="", wants=(), usual=None):
    """wants: attributes without a default; usual: those with one."""
    return (part(1, name) + parts(4, inputs) + parts(5, outputs) + parts(6, wants)
            + parts(7, nodes) + part(9, opset("", version)) + part(9, opset("own", 1))
            + part(10, "own")
            + parts(11, [attribute(n, v) for n, v in (usual or {}).items()])
            + (part(13, overload) if overload else b""))


def port(name, value):
    shape = b"".join(part(1, whole(1, d) if d >= 0 else b"") for d in value.dims)
    return part(1, name) + part(2, part(1, whole(1, TYPES[value.dtype][0])
                                        + part(2, shape)))


def model(nodes, inputs, outputs, opsets, functions=(), constants=None, version=10,
          more=b"", more_of_graph=b""):
    """constants: initializers, sparse ones too; one of an input's name is its initial value.
    version: of the IR; more: further fields."""
    constants = constants or {}
    graph = (parts(1, nodes) + part(2, "graph")
             + parts(5, [t.bytes(n) for n, t in constants.items() if not isinstance(t, Sparse)])
             + parts(15, [t.bytes(n) for n, t in constants.items() if isinstance(t, Sparse)])
             + parts(11, [port(n, t) for n, t in inputs.items()])
             + parts(12, [port(n, t) for n, t in outputs.items()]) + more_of_graph)
    return (whole(1, version) + part(7, graph)
            + parts(8, [opset(d, v) for d, v in opsets.items()])
            + parts(25, functions) + more)


# ---- cases -------------------------------------------------------------------------

cases, refused = {}, {}


def case(name, opset_version, nodes, inputs, outputs, unsaid=(), **more):
    """Of opset `opset_version`; inputs and outputs are tensors by name. unsaid: inputs whose
    initial value counts, as nobody gives one."""
    cases[name] = (model(nodes, inputs, outputs, {"": opset_version, "own": 1}, **more),
                   {n: t for n, t in inputs.items() if n not in unsaid}, outputs)


def one(name, opset_version, op, inputs, outputs, constants=None, version=10, **attrs):
    """The same of one node; its inputs are those of the model, None for an absent one,
    then constants."""
    names = list(inputs) + list(constants or {})
    inputs = {n: t for n, t in inputs.items() if t}
    case(name, opset_version, [node(op, names, list(outputs), **attrs)],
         inputs, outputs, constants=constants, version=version)


def refuse(name, words, nodes, opsets, inputs=None, **more):
    inputs = inputs or {"x": tensor("f32", 1, 2)}
    outputs = more.pop("outputs", {"y": tensor("f32", 1, 2)})
    refused[name] = (model(nodes, inputs, outputs, opsets, **more), words)


# ---- files -------------------------------------------------------------------------

def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def write_all(folder):
    for name, (content, inputs, outputs) in cases.items():
        at = os.path.join(folder, "cases", name)
        write(at + "/model.onnx", content)
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for i, (port_name, value) in enumerate(tensors.items()):
                write("%s/test_data_set_0/%s_%d.pb" % (at, kind, i),
                      value.bytes(port_name))
    for name, (content, words) in refused.items():
        write("%s/refused/%s.onnx" % (folder, name), content)
        write("%s/refused/%s.txt" % (folder, name), words.encode())
