"""Compares the tables of ops with the schemas that the `onnx` package has, those of ai.onnx and
of ai.onnx.ml: that each op is one of ONNX's, and `since` one of its versions; that attributes are the same, with their
kinds and defaults, and those of older versions known to the importer; and that inputs
take the types that ONNX allows, of those that Keel has.

usage: onnx_schemas.py HOST COMPILER     (HOST: the folder host/ of the sources)

Exit status 77 where the package, or one new enough, is not installed.
"""
import glob
import pathlib
import re
import subprocess
import sys

try:
    import onnx.defs as defs
except ImportError:
    print("Python's package onnx is not installed")
    sys.exit(77)

host, compiler = sys.argv[1], sys.argv[2]
upgrade = "".join(open(path).read() for path in glob.glob(host + "/src/opsets/onnx/*/*.c"))
draft = open(host + "/src/engine/program/draft.h").read()
KNOWN = int(re.search(r"#define KEEL_OPSET_KNOWN (\d+)", draft).group(1))
ML = "ai.onnx.ml"
DOMAINS = {"": KNOWN, ML: int(re.search(r"#define KEEL_ML_OPSET_KNOWN (\d+)", draft).group(1))}
if defs.onnx_opset_version() < KNOWN:
    print("the package onnx has opset %d, and Keel knows %d"
          % (defs.onnx_opset_version(), KNOWN))
    sys.exit(77)
CHANGED = set(re.findall(r'^    \{"(\w+)", \d+, \d+, \w+\},', upgrade, re.M))

NAMES = {"float": "f32", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16",
         "int32": "i32", "int64": "i64", "bool": "bool", "float16": "f16",
         "double": "f64", "uint32": "u32", "uint64": "u64", "complex64": "c64",
         "complex128": "c128", "bfloat16": "bf16"}
SMALL = {"float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2",
         "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1",
         "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2"}
# the ops that take them; others move them in ONNX, too
OF_SMALL = {"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"}
FLOAT = {"f32", "f64", "f16", "bf16"}
SIGNED, UNSIGNED = {"i8", "i16", "i32", "i64"}, {"u8", "u16", "u32", "u64"}
NUM = FLOAT | SIGNED | UNSIGNED
SETS = {"any": None, "plain": set(NAMES.values()), "num": NUM, "order": NUM | {"bool"},
        "float": FLOAT, "signed": SIGNED | FLOAT, "int": SIGNED | UNSIGNED,
        "index": {"i32", "i64"}, "scale": {"f32", "f16", "bf16", "f8e8m0"},
        "quant": {"u8", "i8", "u16", "i16"}, "byte": {"u8", "i8"},
        "float_or_byte": FLOAT | {"u8", "i8"},
        "order_or_small": NUM | {"bool"} | set(SMALL.values()),
        "num_or_small": NUM | set(SMALL.values()),
        "quant_or_small": {"u8", "i8", "u16", "i16"} | set(SMALL.values())}
KINDS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g",
         "FLOATS": "F", "INTS": "I", "STRINGS": "S"}

# What Keel lacks and refuses in words: (op, input): types.
LACKING = {
    ("Resize", "X"): {"bool", "c64", "c128"},
    ("Col2Im", "input"): {"bool", "c64", "c128"},
    ("GridSample", "X"): {"bool", "c64", "c128"},
    ("Unique", "X"): {"c64", "c128"},
    ("QuantizeLinear", "y_scale"): {"i32"},
}
# Attributes that are said otherwise: (op, attribute): why.
OTHERWISE = {
    ("MaxPool", "kernel_shape"): "its shape function demands it",
    ("AveragePool", "kernel_shape"): "its shape function demands it",
    ("LpPool", "kernel_shape"): "its shape function demands it",
    ("MeanVarianceNormalization", "axes"): "kernels have the default of the list",
    ("RNN", "activations"): "kernels have the default of the list",
    ("TfIdfVectorizer", "mode"): "a model without it counts, as with TF",
    ("Constant", "sparse_value"): "the importer refuses its kind",
    ("Optional", "type"): "the importer drops it",
}

failed = 0


def wrong(text):
    global failed
    failed = 1
    print("FAILED: " + text)


# ---- the table ----------------------------------------------------------------------

def rows_of(path):
    """The rows of a file of an op set, which macros write."""
    text = subprocess.run(
        [compiler, "-E", "-P", "-D_GNU_SOURCE", "-I" + host + "/src", "-I" + host + "/src/engine",
         "-I" + host + "/include", "-I" + host + "/../device_api/include",
         "-I" + host + "/../device_api", str(path)],
        check=True, capture_output=True, text=True).stdout
    text = text[text.index("keel_schema_row rows[] ="):]
    return text[:text.index("};") + 2]


def read_table():
    files = [path for path in sorted(pathlib.Path(host, "src/opsets").rglob("*.c"))
             if "keel_schema_row rows[] =" in path.read_text()]
    text = "".join(map(rows_of, files))
    string = r'((?:"[^"]*"\s*)+)'
    row = re.compile(r'\{\s*([^,{]+?)\s*,\s*"(\w+)"\s*,\s*(\d+)\s*,\s*"(\w+)"\s*,\s*' + string
                     + r",\s*" + string + ",")
    table = {}
    for domain, name, since, types, params, attrs in row.findall(text):
        domain = domain.strip('"') if domain.startswith('"') else ""
        if domain not in DOMAINS:
            continue  # keel's own
        join = lambda words: "".join(re.findall(r'"([^"]*)"', words))
        table[domain, name] = (int(since), types, join(params), join(attrs))
    return table


def inputs_of(types, params):
    """Name and types of each input, None for anything."""
    bound, result = {"T": SETS.get(types, {types})}, []
    for word in params.split("->")[0].split():
        name, kind = word.split(":")
        kind = kind.rstrip("?*%")
        if kind[0].isupper():
            letter, _, of = kind.partition("=")
            if of:
                bound[letter] = SETS.get(of, {of})
            result.append((name, bound[letter]))
        else:
            result.append((name, SETS.get(kind, {kind})))
    return result


def attrs_of(text):
    result = {}
    for word in text.split():
        name, kind = word.split(":")
        default = kind[2:].split("|")[0] if kind[1:2] == "=" else None
        result[name] = (kind[0], kind[1:2] == "!", default)
    return result


# ---- beside ONNX ---------------------------------------------------------------------

def default_of(attr, kind):
    value = attr.default_value
    if value.type == 0:
        return None
    return {"f": lambda: value.f, "i": lambda: value.i,
            "s": lambda: value.s.decode()}.get(kind, lambda: "a list")()


def same_default(kind, keel, onnx):
    if keel is None or onnx is None:
        return keel is None and onnx is None
    if kind == "f":
        return abs(float(keel) - onnx) <= 1e-6 * max(1, abs(onnx))
    return int(keel) == onnx if kind == "i" else keel == onnx


def compare_attrs(name, attrs, versions):
    newest = versions[-1]
    for key, attr in newest.attributes.items():
        if (name, key) in OTHERWISE:
            continue
        kind = KINDS.get(str(attr.type).split(".")[-1])
        if key not in attrs:
            wrong("%s-%d has attribute %s" % (name, newest.since_version, key))
            continue
        have, required, default = attrs[key]
        if have != kind or required != attr.required:
            wrong("%s: attribute %s is %s, required %s"
                  % (name, key, kind, attr.required))
        elif not required and not same_default(kind, default, default_of(attr, kind)):
            wrong("%s: attribute %s is %s by default, not %s"
                  % (name, key, default_of(attr, kind), default))
    for key in attrs:
        if not any(key in s.attributes for s in versions):
            wrong("%s has no attribute %s" % (name, key))
    for i, old in enumerate(versions[:-1]):
        if newest.domain == "" and (versions[i + 1].since_version <= 6 or name in CHANGED):
            continue  # an opset that is refused, or one that is upgraded
        for key in old.attributes:
            if key not in attrs and (name, key) not in OTHERWISE:
                wrong("%s-%d has attribute %s, and nothing changes it"
                      % (name, old.since_version, key))
        for key, attr in newest.attributes.items():
            before = old.attributes.get(key)
            if before and before.default_value != attr.default_value:
                wrong("%s-%d has another default of %s, and nothing changes it"
                      % (name, old.since_version, key))


def compare_inputs(name, inputs, newest):
    for i, param in enumerate(newest.inputs):
        if i >= len(inputs):
            if inputs and newest.inputs[-1].option == param.option and \
                    name in ("SequenceMap",):
                continue  # its inputs are one list
            wrong("%s has input %s" % (name, param.name))
            continue
        if inputs[i][1] is None:
            continue
        names = {**NAMES, **SMALL} if name in OF_SMALL else NAMES
        allowed = {names[t[7:-1]] for t in param.types if t[7:-1] in names}
        lacks = allowed - inputs[i][1] - LACKING.get((name, param.name), set())
        if lacks:
            wrong("%s-%d takes %s as %s" % (name, newest.since_version, param.name,
                                            " ".join(sorted(lacks))))


history = {}
for schema in defs.get_all_schemas_with_history():
    if schema.since_version <= DOMAINS.get(schema.domain, 0):
        history.setdefault((schema.domain, schema.name), []).append(schema)
table = read_table()
for op, (since, types, params, attrs) in table.items():
    versions = sorted(history.get(op, []), key=lambda s: s.since_version)
    if op == ("", "SimplifiedLayerNormalization"):
        continue  # ONNX Runtime's, which writes it into ONNX's domain
    if not versions:
        wrong("%s is no op of ONNX" % op[1])
        continue
    if since not in [s.since_version for s in versions]:
        wrong("%s is since %d, which is none of its versions" % (op[1], since))
    compare_attrs(op[1], attrs_of(attrs), versions)
    compare_inputs(op[1], inputs_of(types, params), versions[-1])
for domain, known in DOMAINS.items():
    lacking = sorted(name for of, name in history
                     if of == domain and (of, name) not in table
                     and (domain or name not in CHANGED))
    print("%d ops of %s's %d up to opset %d; without %s"
          % (sum(of == domain for of, _ in table), domain or "ONNX",
             sum(of == domain for of, _ in history), known, " ".join(lacking)))
sys.exit(failed)
