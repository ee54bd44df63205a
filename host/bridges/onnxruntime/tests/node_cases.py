"""ONNX's node cases through ONNX Runtime with Keel's provider.

    node_cases.py [--device cpu:0] [--least N] [--match WORD] [--verbose] [--json FILE]
                  [--page FILE]

Each case of the installed onnx package is opened with the optimizer off, so that the nodes are
those of the case, and without a way back to the CPU after an error. It is

    ok           right, with at least one node on Keel
    not claimed  right or wrong without Keel: no node on it
    not opened   ONNX Runtime opens it neither with Keel nor without
    not fed      its values do not cross the Python API
    failed       it opens without Keel, but not with it; or runs without, but not with it
    wrong        other numbers than the case's, while ONNX Runtime's own CPU has them right or
                 cannot run it

The exit code is 1 if a case failed or is wrong, or fewer than N are ok. --page writes the counts
into a page, between the marks "<!-- cases" and "<!-- end -->".
"""
from __future__ import annotations

import argparse
import collections
import ctypes
import json
import os
import re
import sys
import tempfile
import textwrap
import warnings
from typing import Any

from common import np, onnx, open_session, options, ort, partitions, register, unregister

warnings.simplefilter("ignore")
import ml_dtypes  # noqa: E402  onnx needs it, too
from onnx import TensorProto as T  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

# types that NumPy has not, by the type of NumPy that has their bits
CARRIERS = {T.BFLOAT16: np.uint16, T.FLOAT8E4M3FN: np.uint8, T.FLOAT8E4M3FNUZ: np.uint8,
            T.FLOAT8E5M2: np.uint8, T.FLOAT8E5M2FNUZ: np.uint8, T.FLOAT8E8M0: np.uint8}
PACKED = {T.INT4: 4, T.UINT4: 4, T.FLOAT4E2M1: 4, T.INT2: 2, T.UINT2: 2}  # their bits


class NotFed(Exception):
    """A value cannot be given to ONNX Runtime from Python, or taken from it."""


def to_array(value: Any) -> Any:
    """A case's value as NumPy has it, with the types of ml_dtypes."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [to_array(item) for item in value]
    return value if value is None else np.asarray(value)


def small_inputs_as_constants(case: Any, arrays: list[Any]) -> Any:
    """The model with inputs of elements smaller than a byte as constants: Python cannot feed
    them, and models have them as weights."""
    small = {i.name: a for i, a in zip(case.model.graph.input, arrays)
             if element_type(i) in PACKED}
    if not small:
        return case.model
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = [i for i in model.graph.input if i.name not in small]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(a, name) for name, a in small.items())
    return model


def element_type(value_info: Any) -> int:
    """0: not a tensor."""
    kind = value_info.type
    return kind.tensor_type.elem_type if kind.HasField("tensor_type") else 0


def make_value(array: Any, element: int) -> Any:
    if element in PACKED:
        raise NotFed("elements smaller than a byte")
    carrier = CARRIERS.get(element)
    array = np.asarray(array)
    if carrier is None:
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    bits = np.ascontiguousarray(array).view(carrier).reshape(array.shape)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element)


def take_value(value: Any, element: int) -> Any:
    if element not in CARRIERS and element not in PACKED:
        return value.numpy()
    shape = value.shape()
    bits = PACKED.get(element, 8 * np.dtype(CARRIERS.get(element, np.uint8)).itemsize)
    size = (int(np.prod(shape)) * bits + 7) // 8
    data = ctypes.string_at(value._get_c_value().data_ptr(), size) if size else b""
    return onnx.numpy_helper.to_array(onnx.TensorProto(data_type=element, dims=shape,
                                                       raw_data=data))


def run(session: Any, graph: Any, arrays: list[Any]) -> list[Any]:
    inputs = [i for i in graph.input if i.name not in {t.name for t in graph.initializer}]
    feeds = {i.name: a for i, a in zip(inputs, arrays) if a is not None}
    types = {i.name: element_type(i) for i in inputs}
    out_types = [element_type(o) for o in graph.output]
    special = set(CARRIERS) | set(PACKED)
    if not special & (set(types.values()) | set(out_types)):
        return list(session.run(None, feeds))
    if 0 in types.values() or 0 in out_types:
        raise NotFed("a sequence beside a type that NumPy has not")
    values = {name: make_value(a, types[name]) for name, a in feeds.items()}
    results = session.run_with_ort_values([o.name for o in graph.output], values)
    return [take_value(v, t) for v, t in zip(results, out_types)]


# cases whose numbers are random: type and shape are compared
RANDOM = ("test_bernoulli",)


def tolerances(want: Any, case: Any) -> tuple[float, float]:
    """The case's own, but two steps of the element type at least, and one step of the largest
    element: onnx's 1e-3 is less than a step of bf16, and its 1e-7 than one of 45 in f32."""
    if want.dtype.name not in ("bfloat16", "float16", "float32", "float64"):
        return case.rtol, case.atol
    step = float(ml_dtypes.finfo(want.dtype).eps)
    values = np.abs(wide(want))
    largest = float(np.max(values, where=np.isfinite(values), initial=0))
    return max(case.rtol, 2 * step), max(case.atol, step * largest)




def wide(array: Any) -> Any:
    """In a type that can be subtracted."""
    if array.dtype.kind == "V" or array.dtype.name not in np.sctypeDict:
        return array.astype(np.float32)
    return array


def compare(got: Any, want: Any, case: Any) -> None:
    if isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple)) and len(got) == len(want), "another sequence"
        for g, w in zip(got, want):
            compare(g, w, case)
    elif want is None or got is None:
        assert got is None and want is None, f"{got} for {want}"
    else:
        got, want = np.asarray(got), np.asarray(want)
        assert got.shape == want.shape, f"shape {got.shape} for {want.shape}"
        if want.dtype.kind in "OUS":
            assert (got.astype(str) == want.astype(str)).all(), "other strings"
        else:
            assert got.dtype == want.dtype, f"type {got.dtype} for {want.dtype}"
            if case.name.startswith(RANDOM):
                return
            rtol, atol = tolerances(want, case)
            np.testing.assert_allclose(wide(got), wide(want), rtol=rtol, atol=atol)


def first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (type(error).__name__ + ": " + " ".join(lines))[:900]


def attempt(case: Any, device: str | None) -> tuple[str, str, list[str]]:
    """What became of a case: "open", "run", "fed", "wrong" or "right"; why; Keel's ops."""
    ops: list[str] = []
    for inputs, outputs in case.data_sets:
        inputs, outputs = to_array(inputs), to_array(outputs)
        model = small_inputs_as_constants(case, inputs)
        inputs = [a for i, a in zip(case.model.graph.input, inputs)
                  if element_type(i) not in PACKED]
        try:
            session = open_session(model, options(device))
        except Exception as error:
            return "open", first_line(error), []
        ops = [op for part in partitions(session) for op in part]
        try:
            got = run(session, model.graph, inputs)
        except NotFed as error:
            return "fed", str(error), ops
        except Exception as error:
            return "run", first_line(error), ops
        try:
            compare(got, outputs, case)
        except AssertionError as error:
            return "wrong", first_line(error), ops
    return "right", "", ops


def judge(case: Any, device: str) -> tuple[str, str, list[str]]:
    became, why, ops = attempt(case, device)
    if became == "right" and ops:
        return "ok", why, ops
    if became in ("right", "wrong", "run", "fed") and not ops:
        return "not claimed", why, ops
    if became == "fed":
        return "not fed", why, ops
    plain, plain_why, _ = attempt(case, None)
    if became == "open":
        return ("not opened" if plain == "open" else "failed"), why, ops
    if became == "run":
        return "failed", f"{why} (without Keel: {plain})", ops
    if plain == "wrong":
        return "wrong without Keel, too", f"{why} / {plain_why}", ops
    return "wrong", f"{why} (without Keel: {plain})", ops


# ---- the page ------------------------------------------------------------------------------

# what a refusal says, and what it comes to
REASONS = [(r"there is no op", "Keel has no such op"),
           (r"not have yet|has no kernel for (Cast|CastLike)\(", "element types of 8 bits or less"),
           (r"has no kernel for|no kernel for", "the device has no kernel for the types"),
           (r"is not a tensor|Unexpected attribute type", "sequences and optionals"),
           (r"type that does not cross", "strings"),
           (r"", "other")]


def log_of(case: Any, device: str) -> str:
    """What the provider logs of a case's nodes. ONNX Runtime writes it to the process's stderr."""
    made = options(device)
    made.log_severity_level = 1
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            open_session(case.model, made)
        except Exception:  # what was asked before is logged all the same
            pass
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def reasons(cases: list[Any], device: str) -> dict[str, dict[str, int]]:
    """By reason and op, in how many cases a node was refused for it first."""
    found: dict[str, dict[str, int]] = {}
    for case in cases:
        refusal = re.search(r'does not take (\S+) "[^"]*": (.*)', log_of(case, device))
        op, text = refusal.groups() if refusal else (case.model.graph.node[0].op_type, "")
        reason = next(words for pattern, words in REASONS if re.search(pattern, text))
        ops = found.setdefault(reason, {})
        ops[op] = ops.get(op, 0) + 1
    return found


def write_page(path: str, head: str, found: dict[str, Any], why: dict[str, dict[str, int]]) -> None:
    lines = [head, "", "| cases | |", "| ---: | --- |"]
    lines += [f"| {len(ones)} | {verdict} |"
              for verdict, ones in sorted(found.items(), key=lambda pair: -len(pair[1]))]
    lines += ["", "| not claimed, as | ops, and in how many cases |", "| --- | --- |"]
    for reason, ops in sorted(why.items(), key=lambda pair: -sum(pair[1].values())):
        words = ", ".join(f"{op} {n}" for op, n in sorted(ops.items(), key=lambda p: (-p[1], p[0])))
        lines.append(f"| {reason} | {words} |")
    claimed = sorted({op for ones in found["ok"] for op in ones[2]})
    lines += ["", *textwrap.wrap(f"Ops with a node on the device in these cases, {len(claimed)}: "
                                 + ", ".join(claimed) + ".", 100)]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    whole = re.sub(r"(<!-- cases[^\n]*\n).*?(<!-- end -->)",
                   lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.S)
    with open(path, "w", encoding="utf-8") as file:
        file.write(whole)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--match", default="")
    parser.add_argument("--every", type=int, default=1, help="of the cases, each so many-th")
    parser.add_argument("--json", default="")
    parser.add_argument("--page", default="")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()

    register()
    cases = [c for c in collect_testcases(None) if given.match in c.name and c.model]
    cases = cases[::given.every]
    found: dict[str, list[list[Any]]] = collections.defaultdict(list)
    for case in cases:
        if given.verbose:
            print(case.name, flush=True)
        verdict, why, ops = judge(case, given.device)
        found[verdict].append([case.name, why, ops, [n.op_type for n in case.model.graph.node]])
    head = (f"onnx {onnx.__version__}, onnxruntime {ort.__version__}, {given.device}: "
            f"{len(cases)} cases")
    print(head)
    if given.page:
        refused = {name for name, *_ in found["not claimed"]}
        why = reasons([case for case in cases if case.name in refused], given.device)
        write_page(given.page, head, found, why)
    unregister()
    for verdict, ones in sorted(found.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(ones):6} {verdict}")
    for verdict in ("failed", "wrong"):
        for name, why, *_ in found[verdict]:
            print(f"{verdict}: {name}: {why}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    bad = len(found["failed"]) + len(found["wrong"])
    return 1 if bad or len(found["ok"]) < given.least else 0


if __name__ == "__main__":
    sys.exit(main())
