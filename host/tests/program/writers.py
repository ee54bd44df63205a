#!/usr/bin/env python3
"""Every command that writes files: killed at any time, where there is no room, and twice at once.

usage: writers.py KEEL V1_MLIR [CONFORMANCE PLUGIN]

A file has what it had, or what the command writes, whole; a command that could not write says so
in a sentence and fails. WRITERS_ROUNDS: how often each command is killed (12).
"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

keel, model = sys.argv[1:3]
suite = sys.argv[3:]
ROUNDS = int(os.environ.get("WRITERS_ROUNDS", 12))
OLD = b"what was there"
scratch = pathlib.Path(tempfile.mkdtemp(prefix="keel-writers-"))
failures = []
EXCHANGES = '''"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: !keel.resource, %1: tensor<8x8xf32>):
    %3 = "keel.AllReduce"(%0, %1) : (!keel.resource, tensor<8x8xf32>) -> (tensor<8x8xf32>)
    "keel.return"(%3) : (tensor<8x8xf32>) -> ()
  }) {version = 1 : i64, name = "all", inputs = ["keel.member", "x"], input_types = [!keel.resource, tensor<8x8xf32>], outputs = ["a"], output_types = [tensor<8x8xf32>], ops = {"keel.AllReduce" = 1 : i64}} : () -> ()
}) : () -> ()
'''


def is_json(data):
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def are_lines(data):
    return data.endswith(b"\n") and all(is_json(line) for line in data.splitlines())


class Writer:
    """A command, by the folder that it writes in. `whole`: whether a file's bytes are such that
    the command has written; by default, those of another run."""

    def __init__(self, name, words, whole=None, makes=False):
        self.name, self.words, self.is_whole, self.makes = name, words, whole, makes
        self.seconds, self.want = 0, {}

    def start(self, folder, **how):
        return subprocess.Popen(self.words(folder), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)

    def learn(self, folder):
        began = time.monotonic()
        process = self.start(folder)
        said = process.communicate()[0]
        self.seconds = time.monotonic() - began
        if process.returncode:
            sys.exit(f"{self.name}: {said.decode()}")
        self.want = contents(folder)

    def good(self, name, data):
        return self.is_whole(data) if self.is_whole else data == self.want.get(name)

    def fail(self, when, what):
        failures.append(f"{self.name}, {when}: {what}")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def has_unnamed_files():
    try:
        os.close(os.open(scratch, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


def fresh(writer):
    """A folder with old files, where the command does not make its own."""
    folder = scratch / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in writer.want if not writer.makes else ():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(OLD)
    return folder


def check(writer, folder, when, killed=False):
    """A killed process may leave a file beside: one that is whole and was to get its name next, or
    any where the file system has no files without a name."""
    for name, data in contents(folder).items():
        new = name.find(".new-")
        if killed and new >= 0 and (not has_unnamed_files()
                                    or writer.good(name[:new], data)):
            continue
        if name not in writer.want:
            writer.fail(when, f"{name} is left behind")
        elif data != OLD and not writer.good(name, data):
            writer.fail(when, f"{name} is neither the old file nor a whole new one")


def kill(writer):
    for _ in range(ROUNDS):
        folder = fresh(writer)
        process = writer.start(folder)
        time.sleep(random.uniform(0, 1.1 * writer.seconds))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        check(writer, folder, "killed", killed=True)


def fails(writer, folder, when, **how):
    process = writer.start(folder, **how)
    said = process.communicate()[0].decode(errors="replace")
    if process.returncode <= 0 or "can't" not in said and "could not" not in said:
        writer.fail(when, f"exit status {process.returncode}, and it says: {said[-300:]}")


def fill(writer):
    """Where a file may have 64 bytes, and where the disk is full: /dev/full by a link."""
    folder = fresh(writer)
    fails(writer, folder, "no room", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (64, 64)))
    check(writer, folder, "no room")
    if writer.makes:
        return
    folder = fresh(writer)
    for name in writer.want:
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/full")
    fails(writer, folder, "full device")
    for name in writer.want:
        if os.readlink(folder / name) != "/dev/full":
            writer.fail("full device", f"{name} is no link any more")


def twice(writer):
    for _ in range(0 if writer.makes else ROUNDS // 3):
        folder = fresh(writer)
        both = [writer.start(folder) for _ in range(2)]
        for process in both:
            said = process.communicate()[0].decode(errors="replace")
            if process.returncode:
                writer.fail("two at once", said[-300:])
        for name, data in contents(folder).items():
            if not writer.good(name, data):
                writer.fail("two at once", f"{name} is not whole")


def print_to_full(words):
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    if ended.returncode != 1 or b"standard output can't be written" not in ended.stderr:
        failures.append(f"{words[1:]}: standard output full: exit status {ended.returncode}")


def writers():
    (scratch / "exchanges.mlir").write_text(EXCHANGES)
    run = [keel, "run", model, "--shape", "x=100000,4", "--threads", "1"]
    yield Writer("compile", lambda at: [keel, "compile", model, "-o", at / "m.keel"])
    yield Writer("compile --text",
                 lambda at: [keel, "compile", model, "--text", "-o", at / "m.mlir"])
    yield Writer("compile --smpi-trace", lambda at: [
        keel, "compile", scratch / "exchanges.mlir", "--np", "4", "--smpi-trace", at / "smpi"],
        whole=lambda data: data.endswith((b"finalize\n", b"rank-3\n")))
    yield Writer("run --output", lambda at: run + ["--output", at / "out"])
    yield Writer("run --trace", lambda at: run + ["--trace", at / "trace.json"], whole=is_json)
    yield Writer("new-plugin", lambda at: [keel, "new-plugin", "acme", "--out", at / "acme"],
                 makes=True)
    if suite:
        results = scratch / "results"
        words = suite + ["--rule", "abi.info-bounded", "--quiet", "--out"]
        subprocess.run(words + [results], stdout=subprocess.DEVNULL, check=True)
        yield Writer("suite run", lambda at: words + [at], whole=lambda data: len(data) > 99)
        yield Writer("suite render", lambda at: [
            suite[0], "render", results / "results.jsonl", "html", at / "a.html"])


def main():
    random.seed(7)
    for writer in writers():
        folder = scratch / "learn"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        writer.learn(folder)
        for do in (kill, fill, twice):
            do(writer)
    for words in (["--help"], ["devices"], ["plugins"], ["ops"], ["passes"], ["--version"],
                  ["run", model], ["run", model, "--json"], ["devices", "--json"], ["doctor"]):
        print_to_full([keel, *words])
    shutil.rmtree(scratch)
    print("\n".join(failures) or "every file is old or new, and whole")
    return bool(failures)


sys.exit(main())
