#!/usr/bin/env python3
"""Prints the guide's tables of slots: purpose from the headers, who calls a slot from the
host's sources, which plugins have it from theirs, and rules from the suite.
usage: guide.py SUITE"""
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).parents[2]
HEADERS = TREE / "device_api/include/kd"
HOST = TREE / "host/src"
PLUGINS = {  # their names, and the folders of their sources
    "minimal": ["samples/minimal_plugin"], "cpu": ["plugins/cpu"],
    "opencl": ["plugins/opencl", "plugins/families"],
    "vulkan": ["plugins/vulkan", "plugins/families"],
    "cuda": ["plugins/cuda", "plugins/families"], "sim": ["conformance/mutants"],
    "graph_npu": ["samples/graph_npu"], "acme": ["samples/acme_ops"],
}
# the name that the host has for its copy of a table
MEMBERS = {
    "kd_plugin": "table", "kd_memory_table": "memory", "kd_kernel_def": "def", "kd_op_def": "own",
    "kd_stream_table": "streams", "kd_event_table": "events",
    "kd_capture_table": "capture", "kd_region_table": "regions",
    "kd_profile_table": "profile", "kd_peer_table": "peer",
    "kd_external_table": "external", "kd_layout_table": "layouts",
    "kd_collective_table": "collectives", "kd_native_table": "native",
}
TABLES = [  # table, header, level
    ("kd_plugin", "plugin.h", "core"), ("kd_memory_table", "memory.h", "core"),
    ("kd_kernel_def", "kernel.h", "core"), ("kd_op_def", "op.h", "core"),
    ("kd_stream_table", "stream.h", "async"), ("kd_event_table", "stream.h", "async"),
    ("kd_capture_table", "capture.h", "replay"), ("kd_region_table", "region.h", "compile"),
    ("kd_profile_table", "profile.h", "profile"), ("kd_peer_table", "memory.h", "peer"),
    ("kd_external_table", "memory.h", "external"), ("kd_layout_table", "layout.h", "core"),
    ("kd_collective_table", "collective.h", "collective"),
    ("kd_native_table", "native.h", "extension"),
]
# "table.slot": (need, what the host does without it), from the one list of slots
LIST = {f"{m[1]}.{m[2]}": (m[3], m[4]) for m in re.finditer(
    r'SLOT\((\w+), \w+, (\w+), (\w+), \w+, \w+, "(.*)",', (HOST / "engine/layers/slots.def").read_text())}


def purpose(comment):
    text = re.sub(r"\n\s*\* ?", " ", comment).strip(" */\n")
    text = re.sub(r"\s+", " ", text)
    return re.split(r"[.;:] ", text + " ")[0].rstrip(". ")


def slots(body):
    """(name, comment) of a table's slots, by their order; a comment is a slot's own:
    the one right before it, which no other slot stands behind."""
    comment = None
    for match in re.finditer(r"/\*(.*?)\*/|\(\*(\w+)\)\s*\(|;", body, re.S):
        if match.group(2):
            yield match.group(2), comment
        comment = match.group(1)  # none behind a declaration


def sources(folder):
    return [(path, path.read_text()) for path in sorted((TREE / folder).rglob("*.c"))
            if "tests" not in path.parts and "fault" not in path.parts]


def callers(table, slot, files):
    """Files of the host that call the slot: by its copy's name, or by a pointer to it."""
    call = re.compile(r"\b%s(\.|->)%s[(;]" % (MEMBERS[table], slot))  # or taken into a pointer
    pointer = re.compile(r"\b%s \*(\w+) =" % table)
    out = []
    for path, text in files:
        names = "|".join(pointer.findall(text))
        if call.search(text) or (names and re.search(
                r"\b(%s)->%s\(" % (names, slot), text)):
            out.append(path.relative_to(HOST).as_posix().removeprefix("engine/"))
    return out


def holders(table, slot, files):
    """Plugins with a table of that type that sets the slot."""
    body = re.compile(r"\b%s \w+(?:\[[^\]]*\])? = \{(.*?)\n\};" % table, re.S)
    macro = re.compile(r"#define .*?(?<!\\)\n", re.S)
    field = re.compile(r"\.%s\s*=\s*(?!NULL)" % slot)
    out = []
    shared = (TREE / "plugins/families/instance.h").read_text()
    common = re.search(r"#define FAM_PLUGIN\(.*?(?<!\\)\n", shared, re.S)[0]
    for name, texts in files.items():
        parts = [p.replace("FAM_PLUGIN(", common) for text in texts for p in body.findall(text)]
        if table == "kd_kernel_def":  # definitions are often made by macros
            parts += [p for text in texts for p in macro.findall(text)]
        if any(field.search(p) for p in parts):
            out.append(name)
    return out


def main():
    out = subprocess.run([sys.argv[1], "list", "--names"], check=True,
                         capture_output=True, text=True).stdout
    rules = {}
    for line in out.splitlines():
        rule, names = line.split("\t")
        for name in names.split():
            rules.setdefault(name, []).append(rule)
    host = [(p, t) for p, t in sources("host/src") if "layers" not in p.parts]
    plugins = {name: [t for folder in folders for _, t in sources(folder)]
               for name, folders in PLUGINS.items()}
    for table, header, level in TABLES:
        source = (HEADERS / header).read_text()
        body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (table, table),
                         source, re.S).group(1)
        print(f"\n`{table}` (kd/{header}, {level})\n")
        print("| slot | purpose | the host calls it in | if it is NULL, the host |"
              " implemented by | rules |\n| --- | --- | --- | --- | --- | --- |")
        said = {}
        for slot, comment in slots(body):
            what = purpose(comment or "")
            if not what or what in said:
                sys.exit(f"kd/{header}: {table}.{slot} " + (
                    f"has the purpose of {said[what]}" if what else
                    "has no comment of its own"))
            said[what] = slot
            name = f"{table}.{slot}"
            if name not in LIST:
                sys.exit(f"{name} is not in host/src/engine/layers/slots.def")
            need, without = LIST.pop(name)
            default = "refuses the plugin" if need == "NEEDED" else without
            shown = " ".join(f"`{r}`" for r in rules.get(name, [])[:8])
            more = len(rules.get(name, [])) - 8
            shown += f" and {more} more" if more > 0 else ""
            calls = callers(table, slot, host)
            where = "<br>".join(calls) or "nothing yet"
            who = ", ".join(holders(table, slot, plugins)) or "none yet"
            print(f"| `{slot}` | {what} | {where} | {default} | {who} | {shown} |")
    if LIST:
        sys.exit("not in the headers: " + ", ".join(LIST))


main()
