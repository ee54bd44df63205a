#!/usr/bin/env python3
"""Folders see those above them in their README's table, and no others.

usage: rooms.py FOLDER [OBJECTS...]  checks FOLDER by FOLDER/README.md: a row a folder, which
                                     begins with "| `name/` |", or "| `name/inner/` |"; files of
                                     FOLDER itself see all
       rooms.py --prove              shows that the check can fail

A file may include headers of its own folder, and of those in rows above. OBJECTS: "FOLDER" or
"PART=FOLDER", where the compiled files are, of all or of a part; calls must go the same way. A row "| `name/` | apart | ..." is of a folder that none sees.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROW = re.compile(r"^\| `([\w./]+)/` \|(?: (apart) \|)?", re.M)
PLACES = "", "engine"  # where names of headers begin


def room_of(path, rooms):
    """The row that a file belongs to: that of its innermost folder which has one."""
    folders = [str(p) for p in path.parents if str(p) in rooms]
    return folders[0] if folders else str(path.parent) if len(path.parts) > 1 else ""


def includes_of(root, path):
    """The files of the tree that a file includes, relative to its root."""
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', (root / path).read_text(), re.M):
        for at in (root / path.parent / name, *(root / place / name for place in PLACES)):
            if at.exists() and root in at.resolve().parents:
                yield at.resolve().relative_to(root), f'#include "{name}"'
                break


def object_of(objects, path):
    """Where a file's compiled form is, in the folder of the part that it belongs to."""
    part = max((p for p in objects if str(path).startswith(p)), key=len)
    return objects[part] / (str(path)[len(part):].lstrip("/") + ".o")


def calls_of(objects, files):
    """By file: the files whose symbols it uses."""
    made, used = {}, {}
    for path in files:
        if path.suffix != ".c":
            continue
        at = object_of(objects, path)
        if not at.exists():
            sys.exit(f"{path} has no compiled form {at}")
        names = subprocess.run(["nm", at], capture_output=True, text=True, check=True).stdout
        for kind, symbol in re.findall(r"^[0-9a-f ]* ([A-Za-z]) (\w+)$", names, re.M):
            if kind == "U":
                used.setdefault(path, []).append(symbol)
            elif kind in "TDBRVWC":
                made[symbol] = path
    for path, symbols in used.items():
        for symbol in symbols:
            if symbol in made:
                yield path, made[symbol], f"uses {symbol}"


def faults(root, objects=None):
    root = root.resolve()
    rows = ROW.findall((root / "README.md").read_text())
    order = {name: at for at, (name, _) in enumerate(rows)}
    apart = {name for name, alone in rows if alone}
    files = sorted(p.relative_to(root) for p in root.rglob("*.[ch]"))
    for name in sorted({room_of(p, order) for p in files} - set(order) - {""}):
        yield f"{root.name}/README.md has no row for {name}/"
    arrows = [(path, *to) for path in files for to in includes_of(root, path)]
    if objects:
        arrows += calls_of(objects, files)
    for path, to, how in arrows:
        a, b = room_of(path, order), room_of(to, order)
        if a in ("", b) or a not in order:
            continue
        if b in apart or order.get(b, len(order)) > order[a]:
            yield f"{root.name}/{path}: {how}: {b or root.name}/ is not above {a}/"


def prove_calls(root):
    """A call from low to high, which no include shows."""
    (root / "new/new.c").unlink()
    (root / "low/low.c").write_text("int high(void);\nint low(void);\n"
                                    "int low(void) { return high(); }\n")
    (root / "high/high.c").write_text("int high(void);\nint high(void) { return 1; }\n")
    for name in ("low/low.c", "high/high.c"):
        subprocess.run(["cc", "-c", root / name, "-o", root / (name + ".o")], check=True)
    found = list(faults(root, {"": root}))
    assert len(found) == 1 and "uses high" in found[0], found


def prove():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in (("README.md", "| `low/` | x |\n| `high/` | y |\n"),
                           ("low/low.h", ""), ("high/high.h", ""),
                           ("high/high.c", '#include "low/low.h"\n')):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        assert not list(faults(root))
        (root / "low/low.c").write_text('#include "high/high.h"\n')
        (root / "new").mkdir()
        (root / "new/new.c").write_text("")
        found = list(faults(root))
        assert len(found) == 2 and "low/low.c" in found[1] and "new/" in found[0], found
        prove_calls(root)
    print("the check fails where it should")


def main():
    if sys.argv[1:] == ["--prove"]:
        return prove()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    objects = {}
    for word in sys.argv[2:]:
        part, _, folder = word.rpartition("=")
        objects[part] = pathlib.Path(folder)
    found = list(faults(pathlib.Path(sys.argv[1]), objects))
    print("\n".join(found) or f"{sys.argv[1]}: each folder sees those above it")
    sys.exit(bool(found))


main()
