"""Compares abi.h and slots.def with a published pjrt_c_api.h: that each function has the place
that slots.def gives it, and that each struct of arguments has members of the same sizes at
the same offsets.

usage: check_abi.py PJRT_C_API_H [CC]

A compiler lays both out: this writes a C file that includes both headers, with an assertion for
each fact, and compiles it. Exit status 1 where one does not hold.
"""
import os
import re
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
header = os.path.abspath(sys.argv[1])
compiler = sys.argv[2] if len(sys.argv) > 2 else "cc"
text = re.sub(r"//[^\n]*|/\*.*?\*/", "", open(header).read(), flags=re.S)
slots = re.findall(r"^(?:SLOT|NONE)\((\w+)\)", open(os.path.join(here, "slots.def")).read(), re.M)
used = re.findall(r"^SLOT\((\w+)\)", open(os.path.join(here, "slots.def")).read(), re.M)


def members(struct):
    """The members of a published struct behind its head, in order."""
    found = re.search(r"struct %s \{(.*?)\n\}" % struct, text, re.S)
    body = re.sub(r"union \{(.*?)\};", "", found.group(1), flags=re.S)
    names = []
    for part in body.split(";"):
        part = part.strip()
        pointer = re.search(r"\(\*\s*(\w+)\)\s*\(", part)
        plain = re.search(r"(\w+)\s*$", part)
        if pointer:
            names.append(pointer.group(1))
        elif plain and part:
            names.append(plain.group(1))
    return [n for n in names if n not in ("struct_size", "extension_start")]


lines = ['#include "%s"' % header, '#include "%s/abi.h"' % here]
for i, slot in enumerate(slots):
    lines.append("_Static_assert(offsetof(PJRT_Api, PJRT_%s) == "
                 "offsetof(pjrt_api, functions) + %d * sizeof(void *), \"slot %s\");"
                 % (slot, i, slot))
for slot in used:
    last = members("PJRT_%s_Args" % slot)
    if last:  # ours may end earlier, where what follows is not used
        lines.append("_Static_assert(offsetof(PJRT_%s_Args, %s) < sizeof(%s_args), \"%s\");"
                     % (slot, last[0] if slot == "Client_Create" else last[-1], slot, slot))
        lines.append("_Static_assert(sizeof(PJRT_%s_Args) - sizeof(%s_args) < 8 * %d, \"%s\");"
                     % (slot, slot, 3 if slot == "Client_Create" else 1, slot))
for ours, theirs in (("pjrt_named_value", "PJRT_NamedValue"), ("pjrt_program", "PJRT_Program"),
                     ("pjrt_layout", "PJRT_Buffer_MemoryLayout"),
                     ("pjrt_tiled_layout", "PJRT_Buffer_MemoryLayout_Tiled"),
                     ("pjrt_strided_layout", "PJRT_Buffer_MemoryLayout_Strides")):
    lines.append("_Static_assert(sizeof(%s) == sizeof(%s), \"%s\");" % (ours, theirs, ours))
FACTS = """
Client_BufferFromHostBuffer done done_with_host_buffer
Client_BufferFromHostBuffer result buffer
Client_BufferFromHostBuffer semantics host_buffer_semantics
Client_Compile result executable
Client_Compile options compile_options
Client_Create client client
LoadedExecutable_Execute inputs argument_lists
LoadedExecutable_Execute outputs output_lists
LoadedExecutable_Execute done device_complete_events
Buffer_ToHostBuffer data dst
Buffer_ToHostBuffer done event
Executable_Serialize drop serialized_executable_deleter
Executable_DeserializeAndLoad result loaded_executable
LoadedExecutable_GetDeviceAssignment drop serialized_device_assignment_deleter
Device_MemoryStats limit bytes_limit
Event_OnReady context user_arg
Error_GetCode result code
Buffer_GetMemoryLayout result layout
"""
for fact in FACTS.strip().splitlines():
    slot, ours, theirs = fact.split()
    lines.append("_Static_assert(offsetof(%s_args, %s) == offsetof(PJRT_%s_Args, %s), \"%s\");"
                 % (slot, ours, slot, theirs, fact))
for value in ("PJRT_Buffer_Type_PRED == 1", "PJRT_Buffer_Type_F32 == 11",
              "PJRT_Buffer_Type_BF16 == 13", "PJRT_Buffer_Type_C128 == 15",
              "PJRT_NamedValue_kInt64List == 2", "PJRT_Error_Code_UNIMPLEMENTED == 12",
              "offsetof(pjrt_named_value, value) == offsetof(PJRT_NamedValue, int64_value)",
              "offsetof(pjrt_layout, kind) == offsetof(PJRT_Buffer_MemoryLayout, type)",
              "offsetof(pjrt_execute_options, kept) == "
              "offsetof(PJRT_ExecuteOptions, non_donatable_input_indices)"):
    lines.append("_Static_assert(%s, \"%s\");" % (value, value))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "check.c")
    open(path, "w").write("\n".join(lines) + "\n")
    done = subprocess.run([compiler, "-std=c11", "-w", "-fsyntax-only", "-I", here, path],
                          capture_output=True, text=True)
print(done.stderr, end="")
facts = sum("_Static_assert" in line for line in lines)
print("%d facts of %d functions: %s" % (facts, len(slots),
                                        "all hold" if not done.returncode else "NOT all hold"))
sys.exit(done.returncode != 0)
