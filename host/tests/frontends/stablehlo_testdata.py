#!/usr/bin/env python3
"""StableHLO's own test programs (stablehlo/testdata), run by Keel.

    KEEL_LIBRARY=build/release/lib/libkeel.so.0 \\
    KEEL_PLUGIN_PATH=build/release/lib/keel stablehlo_testdata.py FOLDER [GLOB ...]

A program computes something, and compares it with what it expects, by a custom call. Here it
returns both instead, and this script compares them. Refusals are counted by what is not
supported; a result that differs, or a failure that is no refusal, makes the script fail.
Without jaxlib, which serializes the programs, it is skipped (77).
"""
import collections
import fnmatch
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bridges/python"))
try:
    import numpy as np
    from jaxlib import _jax
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)
import keel  # noqa: E402

CHECK = re.compile(r"^ *stablehlo\.custom_call @check\.(\w+)\((%[\w#:]+), (%[\w#:]+)\)"
                   r".*: \((tensor<.*>), (tensor<.*>)\) -> \(\)\n", re.M)
ROUNDING = {"f16": 4e-3, "f32": 1e-5, "f64": 1e-11, "bf16": 3e-2}
# numpy has none: returned as the type behind it, which has all of their values
WIDER = {"bf16": "f32", "f8E4M3FN": "f32", "f8E5M2": "f32"}


def element(kind):
    return re.search(r"(?:x|<)([a-zA-Z]\w*(?:<\w+>)?)>$", kind).group(1)


def with_results(text):
    """The program that returns what it compares, and the pairs' element types."""
    checks = CHECK.findall(text)
    main = text.index("@main(")
    end = text.index("\n  }", main)
    body = CHECK.sub("", text[main:end])
    lines, values, types, kinds = [], [], [], []
    for number, (_, have, want, a, b) in enumerate(checks):
        kinds.append(element(a))
        for value, kind in ((have, a), (want, b)):
            name = element(kind)
            if name in WIDER:
                wide = kind.replace(name + ">", WIDER[name] + ">")
                new = "%%wide%d_%d" % (number, len(values))
                lines.append("    %s = stablehlo.convert %s : (%s) -> %s" % (new, value, kind, wide))
                value, kind = new, wide
            values.append(value)
            types.append(kind)
    lines.append("    return %s : %s" % (", ".join(values), ", ".join(types)))
    body = re.sub(r"\n    return.*", "", body)
    head, rest = body.split("\n", 1) if "\n" in body else (body, "")
    head = "@main() -> (%s) {" % ", ".join(types)
    return text[:main] + head + "\n" + rest + "\n".join(["", *lines]) + text[end:], kinds


def differs(have, want, kind):
    if not np.issubdtype(want.dtype, np.inexact):
        bad = np.flatnonzero(have.ravel() != want.ravel())
    else:
        rtol = ROUNDING.get(kind, 1e-4)
        finite = np.abs(want[np.isfinite(want)])
        close = np.isclose(have, want, rtol, rtol * 0.1 * (finite.max() if finite.size else 0), equal_nan=True)
        bad = np.flatnonzero(~close.ravel())
    if not len(bad):
        return None
    return "%d of %d: at %d %r for %r" % (len(bad), want.size, bad[0], have.ravel()[bad[0]], want.ravel()[bad[0]])


def run_one(path):
    with open(path, encoding="utf-8") as file:
        text, kinds = with_results(file.read())
    data = _jax.mlir.serialize_portable_artifact(text, "1.17.0")
    try:
        results = [t.numpy() for t in keel.load(data).run()]
    except keel.Error as error:
        return ("refused" if error.status == "UNIMPLEMENTED" else "wrong"), str(error)
    for k, kind in enumerate(kinds):
        why = differs(results[2 * k], results[2 * k + 1], kind)
        if why:
            return "wrong", why
    return "passed", ""


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    folder, globs = sys.argv[1], sys.argv[2:]
    counts, reasons = collections.Counter(), collections.Counter()
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".mlir") or (globs and not any(fnmatch.fnmatch(name, g) for g in globs)):
            continue
        try:
            result, why = run_one(os.path.join(folder, name))
        except Exception as error:  # jaxlib's own
            result, why = "unread", str(error).replace("\n", " ")[:200]
        counts[result] += 1
        if result in ("wrong", "unread"):
            print("%-7s %s: %s" % (result, name, why[:300]))
        elif result == "refused":
            found = re.search(r"op (\S+) at byte \d+(.*)", why)
            reasons[(found.group(1) + found.group(2))[:110] if found else why[:110]] += 1
    for why, number in reasons.most_common():
        print("%5d refused: %s" % (number, why))
    print("%d passed, %d refused, %d wrong, %d unread" % tuple(counts[k] for k in ("passed", "refused", "wrong", "unread")))
    return 1 if counts["wrong"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
