#!/usr/bin/env python3
"""Names of any bytes, in models and from a plugin, do no harm on a terminal, in JSON and in
traces; and a locale that a plugin sets, with a comma in numbers, is not that of the command.

usage: texts.py KEEL CPU_PLUGIN PLUGIN_WITH_EVIL_TEXTS [KEEL_CONFORMANCE]
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import onnx_writer as onnx

keel, cpu, evil = sys.argv[1:4]
conformance = sys.argv[4] if len(sys.argv) > 4 else ""
failed = 0

NAMES = [
    b"o\"\\\n\x1b[31mX\x07\xe2\x80\xa8</script>",  # not all of it is text
    b"o\"\\\n\x1b[31mX\x07\xff\xfe\xfd</script>",  # not UTF-8
    b"\xc2\x9b31m\x7f\r\t",  # controls of one and two bytes
    b"\xe2\x80\xaeexe.\xe2\x81\xa6\xe2\x80\x8f",  # turned around
    b"\xc0\x80\xe0\x80\xaf\xed\xa0\x80\xf4\x90\x80\x80",  # in no way UTF-8
    "ä".encode() * 700,  # too long for any line
    b"cut \xe6\xbc",
    "größe 漢字 💻".encode(),
]


def fail(what, output):
    global failed
    failed = 1
    print("FAILED: %s:\n%r" % (what, output))


def look(what, output, kept="\n"):
    """What a terminal gets: text, on lines."""
    try:
        text = output.decode()
    except UnicodeDecodeError:
        fail(what + " is not UTF-8", output)
        return ""
    if any(c not in kept and not c.isprintable() for c in text):
        fail(what + " has control characters", output)
    return text


def look_at_json(what, output):
    look(what, output)
    try:
        return json.loads(output)
    except ValueError as error:
        fail("%s: %s" % (what, error), output)
        return None


def run(*words, status=0, env=None):
    done = subprocess.run(words, capture_output=True, env=env or os.environ, check=False)
    look("stderr of %s" % (words,), done.stderr, "\n\t")
    if done.returncode != status:
        fail("%s: status %d, not %d" % (words, done.returncode, status), done.stderr)
    return done.stdout


def node(op, name, inputs, outputs):
    return onnx.parts(1, inputs) + onnx.parts(2, outputs) + onnx.part(3, name) + onnx.part(4, op)


def open_port(name, symbol):
    """f32, of one open dimension that has a name."""
    shape = onnx.part(1, onnx.part(2, symbol))
    return onnx.part(1, name) + onnx.part(2, onnx.part(1, onnx.whole(1, 1) + onnx.part(2, shape)))


def look_at_model(folder, name):
    two = onnx.tensor("f32", 1, 2)
    path, trace = os.path.join(folder, "m.onnx"), os.path.join(folder, "trace.json")
    said = "%r" % name[:30]

    def write(op, inputs):
        nodes = [node(op, name + b"n", [name + b"i"], [name])]
        onnx.write(path, onnx.model(nodes, inputs, {name: two}, {"": 17}))

    write("Relu", {name + b"i": two})
    command = [keel, "run", path, "--only", "--plugin", cpu]
    text = look("text of " + said, run(*command, "--profile", "--trace", trace))
    if len([line for line in text.splitlines() if line.startswith("output ")]) != 1:
        fail("the output of %s has no line of its own" % said, text)
    with open(trace, "rb") as file:
        look_at_json("trace of " + said, file.read())
    values = look_at_json("JSON of " + said, run(*command, "--profile", "--json"))
    want = name.decode(errors="replace")
    if values and name in (NAMES[0], NAMES[2], NAMES[3], NAMES[5], NAMES[7]) and \
            values["outputs"][0]["name"] != want:
        fail("JSON of %s has another name" % said, values)
    run(*command, "--shape", "x=3", status=2)
    look("dump of " + said, run(keel, "compile", path, "--dump-after", "all", "--only",
                                "--plugin", cpu))
    # errors that have the names in them
    write(name.replace(b"\0", b"") or "x", {name + b"i": two})
    run(*command, status=1)
    write("Relu", {})
    run(*command, status=1)
    nodes = [node("Relu", name + b"n", [b"x"], [b"y"])]
    graph = (onnx.parts(1, nodes) + onnx.part(2, name) + onnx.part(11, open_port(b"x", name))
             + onnx.part(12, open_port(b"y", name)))
    onnx.write(path, onnx.whole(1, 8) + onnx.part(7, graph) + onnx.part(8, onnx.opset("", 17)))
    run(*command)
    run(*command, "--dim", "nothing=3", status=2)


def make_locale(folder):
    """A locale with a comma in numbers; where none can be made, numbers are looked at all the
    same, in the usual one."""
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder + "/de_DE.UTF-8"],
                          capture_output=True, check=False)
    if not os.path.exists(folder + "/de_DE.UTF-8/LC_NUMERIC"):
        print("no locale with a comma: localedef says %r" % made.stderr)
    return dict(os.environ, LOCPATH=folder)


def look_at_numbers(what, text):
    if re.search(r"\d,\d", text):
        fail(what + " has a number with a comma", text)


def look_at_plugin(folder):
    env = make_locale(folder)
    path = os.path.join(folder, "m.onnx")
    two = onnx.tensor("f32", 1, 2)
    onnx.write(path, onnx.model([onnx.node("Relu", ["x"], ["y"])], {"x": two}, {"y": two},
                                {"": 17}))
    with_both = ["--only", "--plugin", evil, "--plugin", cpu]
    for words in (["plugins", "--options"], ["devices", "--properties", "--memory"], ["ops"],
                  ["doctor", "--time", "0.01"], ["ops", "--device", "bad"],
                  ["run", path, "--profile"], ["run", path, "--device", "bad", "--profile"]):
        text = look("%s" % words, run(keel, *words, *with_both, env=env))
        look_at_numbers("%s" % words, text)
    for words in (["plugins", "--options"], ["devices", "--properties"],
                  ["ops", "--device", "bad"], ["run", path, "--profile"]):
        values = look_at_json("%s as JSON" % words,
                              run(keel, *words, "--json", *with_both, env=env))
        if words[0] == "run" and values and not isinstance(values["load_ms"], float):
            fail("load_ms is no number", values)
        if words[0] == "devices" and values and \
                values[0]["properties"]["share"]["value"] != 0.5:
            fail("a property is no number", values)
    run(keel, "run", path, "--trace", folder + "/trace.json", *with_both, env=env)
    with open(folder + "/trace.json", "rb") as file:
        look_at_json("trace beside the plugin", file.read())


def look_at_conformance(folder):
    """Whatever the suite thinks of the plugin, its words are text."""
    env = dict(os.environ, LOCPATH=folder)
    out = os.path.join(folder, "results")
    for words in ([evil, "--rule", "load.*", "--out", out, "--report", "junit", "--report", "tap",
                   "--report", "html", "--report", "md", "--verbose"],
                  ["doctor", evil], [evil, "--rule", "load.*", "--in-process"]):
        done = subprocess.run([conformance] + words, capture_output=True, env=env, check=False)
        look("%s" % words, done.stdout, "\n\t")
        look("stderr of %s" % words, done.stderr, "\n\t")
    for name in os.listdir(out):
        with open(os.path.join(out, name), "rb") as file:
            text = look(name, file.read(), "\n\t")
        if name == "results.jsonl":
            for line in text.splitlines():
                json.loads(line)


with tempfile.TemporaryDirectory() as scratch:
    for one in NAMES:
        look_at_model(scratch, one)
    look_at_plugin(scratch)
    if conformance:
        look_at_conformance(scratch)
sys.exit(failed)
