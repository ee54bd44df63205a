"""Follows recipes on a copy of the tree.

usage: recipes.py FILE COPY

A recipe is a section of FILE; its blocks say behind the language what is done with them:
"new PATH", "add PATH after TEXT", "sh do", "sh proof". All recipes are followed, then the
copy is built once, without optimisation, then each proof is run. A recipe may touch MOST
files, beside what its scripts write.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import tree

MOST = 3
BLOCK = re.compile(r"^```(\w+) (new|add|do|proof)\b(.*)\n((?:(?!^```$).*\n)*)^```$", re.M)
TARGETS = ["keel_command", "keel_conformance", "sim", "cpu"]


def copy_tree(to):
    files = tree.files()
    for name in files:
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != pathlib.Path(name).read_bytes():
            shutil.copy2(name, target)
    for old in (p for p in to.rglob("*") if p.is_file()):
        name = str(old.relative_to(to))
        if not name.startswith("build/") and name not in files:
            old.unlink()


def follow(copy, how, rest, text):
    """Does what a block says. Returns the file that it touches."""
    path, _, after = rest.strip().partition(" after ")
    target = copy / path
    if how == "new":
        assert not target.exists(), f"{path} is there already"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return path
    lines = target.read_text().splitlines(keepends=True)
    at = next((i for i, line in enumerate(lines) if after.strip() in line), None)
    assert at is not None, f"{path} has no line with {after!r}"
    lines.insert(at + 1, text)
    target.write_text("".join(lines))
    return path


def shell(copy, text):
    status = subprocess.run(["sh", "-ec", text], cwd=copy, check=False).returncode
    if status:
        sys.exit(f"failed with {status}, in {copy}:\n{text}")


def build(copy):
    quick = ["-DCMAKE_BUILD_TYPE=Debug", "-DKEEL_BUILD_TESTS=OFF", "-DKEEL_BUILD_BENCH=OFF",
             "-DKEEL_QUICK_LOOPS=ON"]
    shell(copy, "cmake --preset release " + " ".join(quick) + " >configure.log || "
                "{ cat configure.log; exit 1; }")
    shell(copy, "cmake --build build/release --target " + " ".join(TARGETS) + " -- --quiet")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    text = pathlib.Path(sys.argv[1]).read_text()
    copy = pathlib.Path(sys.argv[2]).resolve()
    copy_tree(copy)
    proofs = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name, touched = section.split("\n", 1)[0], set()
        for _, how, rest, block in BLOCK.findall(section):
            if how == "do":
                shell(copy, block)
            elif how == "proof":
                proofs.append((name, block))
            else:
                touched.add(follow(copy, how, rest, block))
        print(f"{name}: {len(touched)} files", flush=True)
        if len(touched) > MOST:
            sys.exit(f"{name} touches {len(touched)} files; at most {MOST}: {sorted(touched)}")
    build(copy)
    for name, block in proofs:
        print(f"== {name}", flush=True)
        shell(copy, block)
    print(f"{len(proofs)} recipes work")


main()
