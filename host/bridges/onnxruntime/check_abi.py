#!/usr/bin/env python3
"""Compares ort_abi.h with ONNX Runtime's published headers.

    check_abi.py PATH...    of onnxruntime_c_api.h and onnxruntime_ep_c_api.h (and
                            onnxruntime_error_code.h, where it is a file of its own),
                            or of folders that have them

For each slot that ort_abi.h has, the published table must have that name at that number, with
as many parameters; and each number of an enumeration must be the published one. The exit code is
1 if something differs, and 2 if a header lacks a table.
"""
from __future__ import annotations

import os
import re
import sys
from typing import Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
# our tables, by the published ones
TABLES = {"ort_api_base": "OrtApiBase", "ort_api": "OrtApi", "ort_ep_api": "OrtEpApi",
          "ort_ep_factory": "OrtEpFactory", "ort_ep": "OrtEp",
          "ort_compute_info": "OrtNodeComputeInfo", "ort_editor_api": "OrtModelEditorApi",
          "ort_allocator": "OrtAllocator", "ort_data_transfer": "OrtDataTransferImpl",
          "ort_kernel": "OrtKernelImpl"}


def code_of(text: str) -> str:
    """Without comments, directives and what spans lines, as a full build has it."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r"^\s*#if defined\(ORT_MINIMAL_BUILD\)\s*$.*?^\s*#else", " ", text,
                  flags=re.S | re.M)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^\s*#.*$", " ", text, flags=re.M)
    return re.sub(r"\s+", " ", text)


def split(text: str, at: str) -> list[str]:
    """The parts between `at`, but not inside of brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "({") - (letter in ")}")
        if letter == at and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def body_of(text: str, name: str) -> str | None:
    found = re.search(rf"struct {name} \{{", text)
    if not found:
        return None
    depth, i = 1, found.end()
    while depth:
        depth += (text[i] == "{") - (text[i] == "}")
        i += 1
    return text[found.end():i - 1]


def parameters(text: str) -> int:
    parts = split(text, ",")
    return 0 if parts in ([], ["void"]) else len(parts)


def member(text: str) -> tuple[str, int]:
    """A member's name, and how many parameters it has; -1: it is no function."""
    release = re.match(r"ORT_CLASS_RELEASE\((\w+)\)", text)
    if release:
        return f"Release{release[1]}", 1
    macro = re.match(r"(ORT_API2_STATUS|ORT_API_T)\((.*)\)", text)
    if macro:
        parts = split(macro[2], ",")
        parts = parts[1:] if macro[1] == "ORT_API_T" else parts
        return parts[0], 0 if parts[1:] == ["void"] else len(parts) - 1
    pointer = re.search(r"\(\s*(?:ORT_API_CALL)?\s*\*\s*(\w+)\s*\)\s*\(", text)
    if pointer:
        depth, i = 1, pointer.end()
        while depth:
            depth += (text[i] == "(") - (text[i] == ")")
            i += 1
        return pointer[1], parameters(text[pointer.end():i - 1])
    return re.split(r"[\s*]", text)[-1], -1


def members(text: str, table: str) -> list[tuple[str, int]] | None:
    """What is in each slot, "" where ours has a padding; two numbers of 32 bits share one."""
    body = body_of(text, table)
    if body is None:
        return None
    slots: list[str] = []
    for part in split(body, ";"):
        unused = re.fullmatch(r"ORT_UNUSED\((\d+), (\d+)\)", part)
        if unused:
            if int(unused[1]) != len(slots):
                raise LookupError(f"{table}: a padding from slot {unused[1]} on is in slot "
                                  f"{len(slots)}")
            slots += [""] * (int(unused[2]) - len(slots))
        elif not (slots and all(re.fullmatch(r"uint32_t \w+", one) for one in (slots[-1], part))):
            slots.append(part)
    return [member(part) for part in slots]


def own_slots(ours: str) -> Iterator[tuple[str, int, str, int]]:
    """Of each slot that ort_abi.h has: its table, number, name, and how many parameters."""
    for table in TABLES:
        for at, (name, count) in enumerate(members(ours, table) or []):
            if name:
                yield table, at, name, count


def published_numbers(text: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for found in re.finditer(r"enum (?:\w+ )?\{([^}]*)\}", text):
        following = 0
        for part in split(found[1], ","):
            name, _, value = (word.strip() for word in part.partition("="))
            following = int(value, 0) if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", value) else following
            numbers[name] = following
            following += 1
    return numbers


def differences(ours: str, published: str) -> Iterator[str]:
    all_theirs = {table: members(published, theirs) for table, theirs in TABLES.items()}
    for table, at, name, count in own_slots(ours):
        theirs = all_theirs[table]
        if theirs is None:
            raise LookupError(f"the headers have no struct {TABLES[table]}")
        found = theirs[at][0] if at < len(theirs) else "nothing"
        if found != name:
            yield f"{TABLES[table]}: slot {at} is {found}, not {name}"
        elif theirs[at][1] != count:
            yield f"{TABLES[table]}.{name} has {theirs[at][1]} parameters, not {count}"
    numbers = published_numbers(published)
    for name, number in re.findall(r"\b((?:ORT|ONNX|Ort)\w+) = (-?\d+),", ours):
        if numbers.get(name) != int(number):
            yield f"{name} is {numbers.get(name, 'not there')}, not {number}"


def files(paths: list[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from (os.path.join(path, name) for name in sorted(os.listdir(path))
                        if re.fullmatch(r"onnxruntime_(ep_)?(c_api|error_code)\.h", name))
        else:
            yield path


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    published = ""
    for path in files(arguments):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        version = re.search(r"#define ORT_API_VERSION (\d+)", text)
        if version:
            print(f"{os.path.basename(path)}: version {version[1]}")
        published += code_of(text)
    with open(os.path.join(HERE, "ort_abi.h"), encoding="utf-8") as file:
        ours = code_of(file.read())
    try:
        found = list(differences(ours, published))
    except LookupError as error:
        print(error)
        return 2
    for line in found:
        print(line)
    print(f"{len(list(own_slots(ours)))} slots compared, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
