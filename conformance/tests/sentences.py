#!/usr/bin/env python3
"""The headers' sentences and the rules that check them.

  sentences.py SUITE   each rule's sentence stands in its header, and each sentence
                       that promises something has a rule

SUITE is the keel-conformance program. A sentence promises something where it
holds one of the words below; what binds the host is the validation layer's
business, and is listed here."""
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).parents[2]
HEADERS = TREE / "device_api/include/kd"
WORDS = re.compile(r"\b(must|never|always|only|is refused|are required|is required)\b",
                   re.I)
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)

# sentences that other rules than their own check, by what they begin with
EXTRA = {
    ("memory.h", "Frees a buffer."): ["mem.alloc-free"],
    ("stream.h", "Asks whether the work before the event is done"): ["event.record-query"],
    ("profile.h", "Profiling of a device"): ["abi.groups"],
    ("region.h", "The compiler of a device."): ["abi.groups"],
    ("memory.h", "Import and export of memory."): ["abi.groups"],
    ("collective.h", "Collective operations of devices."): ["abi.groups"],
    ("capture.h", "bytes; only uses that begin here change"): ["capture.update"],
}

# sentences that bind the host, or only say what a word means
HOST = [
    ("kernel.h", "The output always shares the input's memory"),
    ("region.h", "outputs share it only with inputs"),
    ("tensor.h", "Only inputs have strides"),
    ("base.h", "Marks a result"), ("base.h", "never crosses the ABI"),
    ("base.h", "the other side only holds"),
    ("help.h", "kd/help.h"), ("host.h", "Never blocks."), ("memory.h", "bytes, never 0"),
    ("kernel.h", "Must not be recorded"), ("kernel.h", "So by default a kernel never gets"),
    ("kernel.h", "Constants, arguments in host memory and"),
    ("op.h", "a node without it"), ("op.h", "constants only for the inputs"),
    ("tensor.h", "they never grow"), ("tensor.h", "A kernel gets such a tensor only"),
    ("tensor.h", "Only the device whose memory"), ("kernel.h", "If a layout leaves gaps"),
    ("tensor.h", "The data never changes"),
]


def plain(text):
    text = re.sub(r"\n\s*\* ?", "\n", text)
    return re.sub(r"\s+", " ", text).strip()


def rules(suite):
    out = subprocess.run([suite, "list", "--sentences"], check=True,
                         capture_output=True, text=True).stdout
    return [line.split("\t") for line in out.splitlines()]


def blocks(source):
    """Comments as (line, text without stars and line ends)."""
    return [(source.count("\n", 0, m.start()) + 1, plain(m.group(1)))
            for m in COMMENT.finditer(source)]


def collect(suite, found, errors):
    """(header, line of comment) -> [(rule, sentence)]"""
    rules_of, count = {}, 0
    for rule, severity, header, sentence in rules(suite):
        count += 1
        sentence = plain(sentence)
        for line, text in found[header]:
            if sentence in text:
                rules_of.setdefault((header, line), []).append((rule, sentence))
                break
        else:
            errors.append(f"{rule}: kd/{header} has no sentence \"{sentence}\"")
    for (header, begins), ids in EXTRA.items():
        for line, text in found[header]:
            if text.startswith(begins):
                have = rules_of.setdefault((header, line), [])
                have += [(i, begins) for i in ids if i not in [r for r, _ in have]]
                break
        else:
            errors.append(f"kd/{header} has no comment \"{begins}\"")
    return rules_of, count


def unchecked(found, rules_of):
    for header, comments in found.items():
        for line, text in comments:
            if (header, line) in rules_of:
                continue
            for sentence in re.split(r"(?<=[.;:])\s", text):
                if WORDS.search(sentence) and not any(
                        h == header and sentence.startswith(b) for h, b in HOST):
                    yield f"kd/{header}:{line}: \"{sentence}\" has no rule"


def main():
    found = {p.name: blocks(p.read_text()) for p in sorted(HEADERS.glob("*.h"))}
    errors = []
    rules_of, count = collect(sys.argv[1], found, errors)
    errors += unchecked(found, rules_of)
    for error in errors:
        print(error)
    print(f"{count} rules, {len(errors)} errors")
    return 1 if errors else 0


sys.exit(main())
