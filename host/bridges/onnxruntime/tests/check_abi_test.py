"""Tests of check_abi.py, on headers that are made from ort_abi.h: as it says, and with one
mistake each."""
from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import unittest
from typing import Any

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, FOLDER)
import check_abi  # noqa: E402

with open(os.path.join(FOLDER, "ort_abi.h"), encoding="utf-8") as file:
    OURS = check_abi.code_of(file.read())


def declaration(name: str, count: int) -> str:
    """In each of the forms that the published headers have, in turn."""
    arguments = ", ".join(f"_In_ const int* a{i}" for i in range(count)) or "void"
    if count < 0:
        return f"uint32_t {name};  ///< a number"
    if re.fullmatch(r"Release\w+", name) and count == 1:
        return f"ORT_CLASS_RELEASE({name[len('Release'):]});"
    if len(name) % 3 == 0:
        return f"ORT_API2_STATUS({name}, {arguments});"
    if len(name) % 3 == 1:
        return f"ORT_API_T(const char*, {name},\n            {arguments});"
    return f"/** \\brief ({name}; */ int*(ORT_API_CALL* {name})({arguments})NO_EXCEPTION;"


def tables() -> dict[str, list[tuple[str, int]]]:
    """By their published names: what is in each slot, and how many parameters it has."""
    made: dict[str, list[tuple[str, int]]] = {}
    for table, at, name, count in check_abi.own_slots(OURS):
        slots = made.setdefault(check_abi.TABLES[table], [])
        slots += [(f"Other{i}", 2) for i in range(len(slots), at)]
        slots.append((name, count))
    return made


def header(slots: dict[str, list[tuple[str, int]]], numbers: dict[str, int]) -> str:
    lines = ["#define ORT_API_VERSION 99"]
    for table, members in slots.items():
        lines += [f"struct {table} {{", *[declaration(*one) for one in members], "};"]
    lines += ["typedef enum Numbers {", *[f"{n} = {v}," for n, v in numbers.items()], "} Numbers;"]
    return "\n".join(lines) + "\n"


NUMBERS = {name: int(value)
           for name, value in re.findall(r"\b((?:ORT|ONNX|Ort)\w+) = (-?\d+),", OURS)}


class Checks(unittest.TestCase):
    def check(self, text: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "onnxruntime_c_api.h"), "w", encoding="utf-8") as out:
                out.write(text)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = check_abi.main([folder])
        return code, said.getvalue()

    def refuse(self, slots: Any, numbers: Any, *words: str) -> None:
        code, said = self.check(header(slots, numbers))
        self.assertEqual(code, 1, said)
        for word in words:
            self.assertIn(word, said)

    def test_what_agrees_passes(self) -> None:
        code, said = self.check(header(tables(), NUMBERS))
        self.assertEqual(code, 0, said)
        self.assertIn("version 99", said)
        self.assertRegex(said, r"[1-9][0-9] slots compared, 0 differences")

    def test_two_slots_that_changed_places_are_named(self) -> None:
        slots = tables()
        api = slots["OrtApi"]
        at = [name for name, _ in api].index("Node_GetInputs")
        api[at], api[at + 1] = api[at + 1], api[at]
        self.refuse(slots, NUMBERS, f"slot {at} is Node_GetNumOutputs, not Node_GetInputs")

    def test_a_slot_more_at_the_beginning_is_seen(self) -> None:
        for table in tables():
            slots = tables()
            at = next(i for i, (name, _) in enumerate(slots[table]) if not name.startswith("Other"))
            slots[table].insert(0, ("New", 1))
            self.refuse(slots, NUMBERS, f"{table}: slot {at} is {slots[table][at][0]}")

    def test_a_slot_of_minimal_builds_is_none(self) -> None:
        text = header(tables(), NUMBERS).replace(
            "struct OrtModelEditorApi {",
            "struct OrtModelEditorApi {\n#if defined(ORT_MINIMAL_BUILD)\n  const bool none;\n#else")
        code, said = self.check(text)
        self.assertEqual(code, 0, said)

    def test_a_slot_that_is_gone_is_seen(self) -> None:
        slots = tables()
        slots["OrtNodeComputeInfo"].pop()
        self.refuse(slots, NUMBERS, "slot 3 is nothing, not ReleaseState")

    def test_another_number_of_parameters_is_seen(self) -> None:
        slots = tables()
        slots["OrtEp"] = [(name, count + (name == "Compile")) for name, count in slots["OrtEp"]]
        self.refuse(slots, NUMBERS, "OrtEp.Compile has 7 parameters, not 6")

    def test_another_number_of_an_enumeration_is_seen(self) -> None:
        numbers = dict(NUMBERS, ORT_OP_ATTR_TENSOR=9)
        self.refuse(tables(), numbers, "ORT_OP_ATTR_TENSOR is 9, not 8")

    def test_a_missing_table_is_no_agreement(self) -> None:
        slots = tables()
        del slots["OrtEpApi"]
        code, said = self.check(header(slots, NUMBERS))
        self.assertEqual(code, 2)
        self.assertIn("OrtEpApi", said)


if __name__ == "__main__":
    unittest.main()
