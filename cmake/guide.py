#!/usr/bin/env python3
"""Prints the guide's tables of slots: purpose and requirement from the headers,
rules from the suite. usage: guide.py SUITE"""
import pathlib
import re
import subprocess
import sys

HEADERS = pathlib.Path(__file__).parents[1] / "device_api/include/kd"
TABLES = [  # table, header, level, needed slots, what the host does without one
    ("kd_plugin", "plugin.h", "core",
     "open close device_count device_info device_open device_close", ""),
    ("kd_memory_table", "memory.h", "core", "allocate release copy_in copy_out", ""),
    ("kd_kernel_def", "kernel.h", "core", "enqueue", ""),
    ("kd_stream_table", "stream.h", "async", "create destroy wait", ""),
    ("kd_event_table", "stream.h", "async", "create destroy record query wait", ""),
    ("kd_capture_table", "capture.h", "replay", "begin end launch destroy", ""),
    ("kd_region_table", "region.h", "compile", "claim compile enqueue destroy", ""),
    ("kd_profile_table", "profile.h", "profile", "start stop clock", ""),
    ("kd_peer_table", "memory.h", "peer", "reachable copy", ""),
    ("kd_external_table", "memory.h", "external", "import_memory export_memory", ""),
    ("kd_collective_table", "collective.h", "collective", "create destroy", ""),
]
WITHOUT = {
    "kd_memory_table.copy": "copies through host memory",
    "kd_memory_table.fill": "copies the pattern in",
    "kd_memory_table.map": "copies instead",
    "kd_memory_table.unmap": "copies instead",
    "kd_memory_table.stats": "tells what it allocated itself",
    "kd_memory_table.trim": "nothing",
    "kd_stream_table.flush": "assumes that nothing is held back",
    "kd_stream_table.synchronize": "records an event and waits for it",
    "kd_event_table.on_complete": "waits on a thread of its own",
    "kd_capture_table.update": "records anew",
    "kd_region_table.workspace": "gives none",
    "kd_region_table.serialize": "compiles in each process",
    "kd_region_table.validate": "compiles in each process",
    "kd_region_table.load": "compiles in each process",
    "kd_kernel_def.supports": "lets the types decide",
    "kd_kernel_def.cost": "guesses",
    "kd_kernel_def.create": "calls enqueue with kernel NULL",
    "kd_kernel_def.workspace": "gives none",
    "kd_kernel_def.destroy": "refuses the plugin if `create` is there",
    "kd_plugin.space": "takes the device to have one space, of which nothing is known",
    "kd_plugin.run_begin": "nothing", "kd_plugin.run_end": "nothing",
    "kd_plugin.device_status": "assumes that the device works",
    "kd_plugin.extension": "nothing",
}


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


def main():
    out = subprocess.run([sys.argv[1], "list", "--names"], check=True,
                         capture_output=True, text=True).stdout
    rules = {}
    for line in out.splitlines():
        rule, names = line.split("\t")
        for name in names.split():
            rules.setdefault(name, []).append(rule)
    for table, header, level, needed, _ in TABLES:
        source = (HEADERS / header).read_text()
        body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (table, table),
                         source, re.S).group(1)
        print(f"\n`{table}` (kd/{header}, {level})\n")
        print("| slot | purpose | where it is NULL, the host | rules |\n"
              "| --- | --- | --- | --- |")
        said = {}
        for slot, comment in slots(body):
            what = purpose(comment or "")
            if not what or what in said:
                sys.exit(f"kd/{header}: {table}.{slot} " + (
                    f"has the purpose of {said[what]}" if what else
                    "has no comment of its own"))
            said[what] = slot
            name = f"{table}.{slot}"
            default = "refuses the plugin" if slot in needed.split() else \
                WITHOUT.get(name, "does without")
            shown = " ".join(f"`{r}`" for r in rules.get(name, [])[:8])
            more = len(rules.get(name, [])) - 8
            shown += f" and {more} more" if more > 0 else ""
            print(f"| `{slot}` | {what} | {default} | {shown} |")


main()
