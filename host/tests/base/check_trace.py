#!/usr/bin/env python3
"""Checks a trace of `keel run --trace`: it is JSON of the Trace Event Format, ops lie
inside the runs of their thread or on other threads, spans of a thread nest, and the thread of a link
to other ranks does nothing but exchange.

usage: check_trace.py FILE
"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
             if e["name"] == "thread_name"}
    spans, open_copies, runs = {}, {}, []
    for e in events:
        if e["ph"] == "X":
            assert e["dur"] >= 0 and e["ts"] >= 0, e
            assert (e["pid"], e["tid"]) in names, f"a track without a name: {e}"
            spans.setdefault((e["pid"], e["tid"]), []).append(e)
            if names[(e["pid"], e["tid"])] == "link":
                assert e["args"]["device"] == "link", f"a link that computes: {e}"
            if e["name"] == "run":
                runs.append(e)
        elif e["ph"] == "b":
            open_copies[e["id"]] = e
        elif e["ph"] == "e":
            begun = open_copies.pop(e["id"])
            assert begun["ts"] <= e["ts"], e
        else:
            assert e["ph"] in "CMi", e
    assert not open_copies, "copies that do not end"
    for (process, _), track in spans.items():
        if process != 1:
            continue
        stack = []
        for e in sorted(track, key=lambda e: (e["ts"], -e["dur"])):
            end = e["ts"] + e["dur"]
            while stack and stack[-1] <= e["ts"]:
                stack.pop()
            # digits are nanoseconds, and floats
            assert not stack or end <= stack[-1] + 0.002, f"no nesting: {e}"
            stack.append(end)
    first = min(e["ts"] for e in runs)
    last = max(e["ts"] + e["dur"] for e in runs)
    devices = [e for (p, _), track in spans.items() if p == 2 for e in track]
    for e in devices:
        if "node" in e["args"]:
            assert first <= e["ts"] and e["ts"] + e["dur"] <= last + 1e5, e
    print(f"{len(events)} events, {len(runs)} runs, {len(devices)} on devices")


main()
