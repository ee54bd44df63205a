#!/usr/bin/env python3
"""The headers' sentences and the rules that check them.

  sentences.py check SUITE   each rule's sentence stands in its header, each
                             sentence that promises something has a rule, and each
                             comment carries the ids of its rules
  sentences.py write SUITE   writes the ids into the headers' comments

SUITE is the keel-conformance program. A sentence promises something where it
holds one of the words below; what binds the host is the validation layer's
business, and is listed here."""
import pathlib
import re
import subprocess
import sys

HEADERS = pathlib.Path(__file__).parents[2] / "device_api/include/kd"
WORDS = re.compile(r"\b(must|never|always|only|is refused|are needed|is needed)\b",
                   re.I)
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
IDS = re.compile(r"\s*\*?\s*\[([a-z]+\.[a-z0-9-]+(?:[,\s*]+[a-z]+\.[a-z0-9-]+)*)\]"
                 r"\s*$")


# sentences that other rules than their own check, by what they begin with
EXTRA = {
    ("memory.h", "Frees a buffer."): ["mem.alloc-free"],
    ("stream.h", "Asks whether the work before the event is done"): ["event.record-query"],
    ("profile.h", "Profiling of a device"): ["abi.groups"],
    ("region.h", "The compiler of a device."): ["abi.groups"],
    ("capture.h", "bytes; only uses that start here change"): ["capture.update"],
}

# sentences that bind the host, or only say what a word means
HOST = [
    ("base.h", "Marks a result"), ("base.h", "never crosses the ABI"),
    ("base.h", "the other side holds"), ("device.h", "Dimension C must be"),
    ("help.h", "kd/help.h"), ("host.h", "never blocks;"),
    ("kernel.h", "Must not be recorded"),
    ("kernel.h", "Weights and vectors are always"),
    ("tensor.h", "they never grow"), ("tensor.h", "A kernel meets it only"),
    ("tensor.h", "The data never changes"), ("tensor.h", "Typed data somewhere"),
]


def plain(text):
    text = re.sub(r"\n\s*\* ?", "\n", text)
    return re.sub(r"\s+", " ", text).strip()


def rules(suite):
    out = subprocess.run([suite, "list", "--sentences"], check=True,
                         capture_output=True, text=True).stdout
    return [line.split("\t") for line in out.splitlines()]


def blocks(source):
    """Comments as (start, end, text); what stands side by side is one."""
    return [(m.start(), m.end(), m.group(1)) for m in COMMENT.finditer(source)]


def split_ids(text):
    found = IDS.search(text)
    if not found:
        return text, []
    return text[:found.start()], re.split(r"[,\s]+", plain(found.group(1)))


def owner(blocks_of, sentence):
    hits = [b for b in blocks_of if sentence in plain(split_ids(b[2])[0])]
    return hits[0] if hits else None


def render(source, start, text, ids):
    """The comment with its ids as the last line, wrapped to 80 columns."""
    line_start = source.rfind("\n", 0, start) + 1
    indent = " " * (start - line_start) if not source[line_start:start].strip() \
        else None
    body = text.rstrip()
    if not ids:
        return "/*" + body + " */"
    if indent is None:  # behind code, on its line
        return "/*" + body + " [" + ", ".join(ids) + "] */"
    lines, line = [], indent + " * ["
    for i, name in enumerate(ids):
        word = name + ("," if i + 1 < len(ids) else "]")
        if len(line) + len(word) + 4 > 80:
            lines.append(line.rstrip())
            line = indent + " * "
        line += word + " "
    lines.append(line.rstrip())
    return "/*" + body + "\n" + "\n".join(lines) + " */"


def main():
    mode, suite = sys.argv[1], sys.argv[2]
    wanted, errors = {}, []
    sources = {p.name: p.read_text() for p in sorted(HEADERS.glob("*.h"))}
    found = {name: blocks(text) for name, text in sources.items()}
    all_sentences = []
    for rule, severity, header, sentence in rules(suite):
        sentence = plain(sentence)
        block = owner(found[header], sentence)
        all_sentences.append(sentence)
        if not block:
            errors.append(f"{rule}: kd/{header} has no sentence \"{sentence}\"")
            continue
        wanted.setdefault((header, block[0]), []).append(rule)
    for (header, begins), ids in EXTRA.items():
        for block in found[header]:
            if plain(block[2]).startswith(begins):
                have = wanted.setdefault((header, block[0]), [])
                have += [i for i in ids if i not in have]
                break
        else:
            errors.append(f"kd/{header} has no comment \"{begins}\"")
    for name, text in sources.items():
        out, at = "", 0
        for start, end, comment in found[name]:
            body, have = split_ids(comment)
            ids = wanted.get((name, start), [])
            if mode == "check":
                if sorted(have) != sorted(ids):
                    errors.append(f"kd/{name}: a comment carries {have}, and its"
                                  f" rules are {ids}: {plain(body)[:60]}")
                for sentence in re.split(r"(?<=[.;:])\s", plain(body)):
                    if WORDS.search(sentence) and not ids and not any(
                            h == name and sentence.startswith(b) for h, b in HOST):
                        errors.append(f"kd/{name}: \"{sentence}\" has no rule")
            out += text[at:start] + render(text, start, body, ids)
            at = end
        out += text[at:]
        if mode == "write" and out != text:
            (HEADERS / name).write_text(out)
    for error in errors:
        print(error)
    print(f"{len(all_sentences)} rules, {len(errors)} errors")
    return 1 if errors and mode == "check" else 0


sys.exit(main())
