"""Finds calls that one place makes for all: opening files to write, reading the environment.

usage: calls.py [--prove]

Tests, the devices that are faulty on purpose, and what the suite's rules do in folders of their
own are let through.
"""
import re
import sys

import tree

TESTS = re.compile(r"(^|/)(tests|mutants)/|^conformance/rules/")
SOURCE = re.compile(r"\.(c|cc|h)$")
PYTHON = re.compile(r"^host/bridges/python/keel/.*\.py$")

WRITES = "files are written by device_api/system/save.h"
READS = "the environment is read by device_api/system/environment.h"

# a call's name, and what of its arguments makes it one of these
C_CALLS = [
    (r"f(?:re|d)?open", r'"[rb]*[wa+][^"]*"', WRITES),
    (r"open(?:at)?(?:64)?", r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b", WRITES),
    (r"creat|mkstemps?|mkostemps?|tmpfile|rename(?:at2?)?", "", WRITES),
    (r"std::(?:o|basic_o)?f(?:ile)?stream", "", WRITES),
    (r"(?:secure_)?getenv", "", READS),
]
PYTHON_CALLS = [
    (r"open", r"""["'][rb]*[wax+][^"']*["']""", WRITES),
    (r"write_text|write_bytes|tofile|savez?|mkstemp|NamedTemporaryFile", "", WRITES),
]

# who may, by file: the calls, and why
LET_THROUGH = {
    "device_api/system/save.c": ("open", "openat", "renameat"),  # the one place
    "device_api/system/environment.h": ("getenv",),  # the one place
    # a script is to be there up to where the device or the process failed
    "plugins/families/script.c": ("fopen",),
    # files without a name that stays, which end with the command
    "host/tools/onnx_case.c": ("mkstemp",),
    "host/tools/ranks.c": ("mkstemp", "tmpfile"),
    "plugins/vulkan/bench/replay.c": ("mkstemp", "fdopen"),
}
NOWHERE = re.compile(r'"/dev/null"')


def calls(text, rows):
    """By line: the name of a call, and what is wrong with it."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    for name, wanted, why in rows:
        for call in re.finditer(rf"(?<![\w.>])({name})\s*\(([^;]*)", text):
            arguments = until_closed(call[2])
            if re.search(wanted, arguments) and not NOWHERE.search(arguments):
                yield text.count("\n", 0, call.start()) + 1, call[1], why


def until_closed(text):
    depth = 1
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text[:at]
    return text


def faults(name, text):
    rows = PYTHON_CALLS if name.endswith(".py") else C_CALLS
    for line, call, why in sorted(calls(text, rows)):
        if call not in LET_THROUGH.get(name, ()):
            yield f"{name}:{line}: {call}: {why}"


def prove():
    bad = ('FILE *f = fopen(path,\n  "wb");', 'open(path, O_RDWR | O_CLOEXEC);', "rename(a, b);",
           'freopen(path, "a", stdout);', 'const char *x = getenv("HOME");', "mkstemp(name);",
           'secure_getenv("HOME");', "openat(at, name, flags | O_CREAT, 0600);",
           'fdopen(fd, "r+");', "std::ofstream(path);")
    good = ('fopen(path, "rbe");', "open(path, O_RDONLY | O_CLOEXEC);", "h->open(x, O_RDWR);",
            'freopen("/dev/null", "w", stdout);', 'keel_environment("HOME");', "reopen(x, O_RDWR);",
            '/* fopen(path, "w") */', 'f(fopen(path, "r"), "w");')
    for text in bad:
        assert len(list(faults("host/x.c", text))) == 1, text
    for text in good:
        assert not list(faults("host/x.c", text)), text
    assert list(faults("host/bridges/python/keel/x.py", "with open(path, 'wb') as f:"))
    assert not list(faults("host/bridges/python/keel/x.py", "with open(path, 'rb') as f:"))
    print("the check fails where it should")


def main():
    if sys.argv[1:] == ["--prove"]:
        return prove()
    found = []
    for name in tree.files():
        if TESTS.search(name) or not (SOURCE.search(name) or PYTHON.search(name)):
            continue
        found += faults(name, open(name, encoding="utf-8").read())
    print("\n".join(found) or "files are written, and the environment read, in one place each")
    return sys.exit(bool(found))


main()
