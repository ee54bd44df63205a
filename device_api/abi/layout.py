#!/usr/bin/env python3
"""The device ABI's layout as text, and whether a newer one keeps it.

usage: layout.py print INCLUDE [TARGET]         prints the layout of the headers
       layout.py check INCLUDE GOLDEN [TARGET]  exit 1 and a line a break
       layout.py agree INCLUDE TARGET COMPILER [OPTION]...
                                                exit 1 where this compiler lays
                                                out a struct in another way than
                                                clang does

TARGET is clang's name of another machine than this one.

Of each struct: offset, type and name of every field, as clang lays them out; of
each scalar typedef: its type; of each constant: its value. A growing struct of
the golden file must be a prefix of today's; a frozen one (a static assertion in
the header says so) must be equal; typedefs and constants must be unchanged but
for those that are meant to grow.
"""
import pathlib
import re
import shutil
import subprocess
import sys

# values that move when something is appended
GROWING = {"KD_ABI_MINOR", "KD_ABI_VERSION", "KD_DTYPE_COUNT", "KD_OPSET",
           "KD_STATUS_LIST"}


def clang(args, text):
    run = subprocess.run(["clang", "-x", "c", "-std=c11", *args, "-"],
                         input=text, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"layout.py: clang can't compile the headers:\n{run.stderr}")
    return run.stdout


def read(include, target=None):
    machine = ["--target=" + target, "-ffreestanding"] if target else []
    heads = sorted(pathlib.Path(include).rglob("*.h"))
    source = "".join(head.read_text() for head in heads)
    includes = "".join(f"#include <{head.relative_to(include)}>\n"
                       for head in heads)
    names = sorted(set(re.findall(r"^\} (kd_\w+);", source, re.M)))
    frozen = set(re.findall(r"sizeof\((kd_\w+)\) == \d+", source))
    probes = "".join(f"char size_of_{name}[sizeof({name})];\n"
                     for name in names)
    out = {}
    dump = clang([*machine, "-I", str(include), "-Xclang", "-fdump-record-layouts",
                  "-fsyntax-only"], includes + probes)
    struct = None
    for line in dump.splitlines():
        head = re.match(r"\s+0 \| struct (kd_\w+)$", line)
        field = re.match(r"\s+(\d+) \|   (\S.*)", line)
        if head:
            struct = head[1] + (" frozen" if head[1] in frozen else "")
            out[struct] = []
        elif field and struct:
            out[struct].append(f"{field[1]} {field[2]}")
        elif "[sizeof" in line or not line.strip():
            struct = None
    macros = clang([*machine, "-I", str(include), "-dM", "-E"], includes)
    for name, value in re.findall(r"^#define (KD_\w+) (.+)$", macros, re.M):
        if not name.endswith("_H") and not name.startswith("KD_TYPES_"):
            out["constant " + name] = [value]
    for kind, name in re.findall(
            r"^typedef (?!struct)([^;{(]+?)\b(kd_\w+);", source, re.M):
        out["typedef " + name] = [kind.strip()]
    for signature in re.findall(r"^typedef ([^;{]*\(\*kd_\w+\)[^;]*);",
                                source, re.M):
        name = re.search(r"\(\*(kd_\w+)\)", signature)[1]
        out["typedef " + name] = [" ".join(signature.split())]
    return out


def show(layout):
    return "".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines)
                   for name, lines in sorted(layout.items()))


def parse(text):
    out, name = {}, None
    for line in text.splitlines():
        if line.startswith("  "):
            out[name].append(line[2:])
        elif line.strip():
            name = line
            out[name] = []
    return out


def breaks(golden, today):
    for name, want in golden.items():
        have = today.get(name)
        if have is None and not name.endswith(" frozen"):
            have = today.get(name + " frozen")  # growing may become frozen
        if have is None:
            yield f"{name}: is gone"
            continue
        if name.startswith("constant ") and name.split()[1] in GROWING:
            continue
        if (name.endswith(" frozen") or " " in name) and len(have) != len(want):
            yield f"{name}: has {len(have)} entries, and had {len(want)}"
        for index, line in enumerate(want):
            now = have[index] if index < len(have) else "gone"
            if now != line:
                yield f"{name}: was '{line}', is '{now}'"
                break


def agree(include, golden, compiler):
    """Each offset that clang gives, asserted and compiled."""
    heads = sorted(pathlib.Path(include).rglob("*.h"))
    text = "#include <stddef.h>\n" + "".join(
        f"#include <{head.relative_to(include)}>\n" for head in heads)
    count = 0
    for name, lines in golden.items():
        if " " in name.removesuffix(" frozen"):
            continue  # typedefs and constants
        struct = name.removesuffix(" frozen")
        for line in lines:
            offset, field = line.split()[0], line.split()[-1]
            text += (f"_Static_assert(offsetof({struct}, {field}) == {offset},"
                     f' "{struct}.{field} is not at {offset}");\n')
            count += 1
    if not shutil.which(compiler[0]):
        sys.exit(f"layout.py: there is no compiler \"{compiler[0]}\"")
    run = subprocess.run([*compiler, "-x", "c", "-std=c11", "-Wall", "-Wextra",
                          "-Wpedantic", "-Werror", "-I", include,
                          "-fsyntax-only", "-"], input=text,
                         capture_output=True, text=True)
    if run.returncode:
        print(run.stderr, end="")
        return 1
    print(f"{compiler[0]}: {count} fields are where they were")
    return 0 if count > 100 else 1


def main():
    if len(sys.argv) in (3, 4) and sys.argv[1] == "print":
        print(show(read(*sys.argv[2:])), end="")
        return 0
    if len(sys.argv) in (4, 5) and sys.argv[1] == "check":
        golden = parse(pathlib.Path(sys.argv[3]).read_text())
        found = list(breaks(golden, read(sys.argv[2], *sys.argv[4:])))
        print("\n".join(found) if found else
              f"{len(golden)} structs, typedefs and constants are as they were")
        return 1 if found else 0
    if len(sys.argv) > 4 and sys.argv[1] == "agree":
        return agree(sys.argv[2], read(*sys.argv[2:4]), sys.argv[4:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
