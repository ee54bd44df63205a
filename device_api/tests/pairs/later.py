#!/usr/bin/env python3
"""Writes headers of a version that does not exist yet, from those of today.

usage: later.py INCLUDE OUT    OUT/kd is written anew

Every struct that may grow is longer by a slot or a number; KD_ABI_MINOR and
KD_OPSET are 99, and there are a status 40, element types 40 and 70, and a flag
and a hint that nobody knows. Proves that old and new binaries work together.
"""
import pathlib
import re
import sys

LATER = """
/* What the later version added. */
#define KD_LATER        1
#define KD_LATER_STATUS 40
#define KD_LATER_TYPE   40u
#define KD_LATER_TYPE_2 70u
#define KD_LATER_FLAG   0x00400000u /* must be understood */
#define KD_LATER_HINT   0x80000000u
"""


def replaced(pattern, new, text, where):
    text, count = re.subn(pattern, new, text, flags=re.M)
    if count != 1:
        sys.exit(f"later.py: {where} has {pattern} {count} times, not once")
    return text


# grows, too: its size is an argument of profile_push
SIZED = "kd_profile_record"


def grow(text):
    """Appends to every struct that begins with its size."""
    def longer(found):
        body, name = found[1], found[2]
        slot = re.search(r"\(\*\w+\)\(", body)
        what = ("  kd_status (*later)(uint64_t what);\n" if slot
                else "  uint64_t later;\n")
        return f"{body}{what}}} {name};"
    return re.subn(rf"(^typedef struct (?:{SIZED} \{{\n|kd_\w+ \{{\n  uint32_t struct_size;)"
                   r"(?:(?!^\}).*\n)*)^\} (kd_\w+);", longer, text, flags=re.M)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, out = (pathlib.Path(path) / "kd" for path in sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    grown = 0
    sized = 0
    for head in sorted(source.glob("*.h")):
        text = head.read_text()
        sized += len(re.findall(
            rf"^  uint32_t struct_size;|^\}} {SIZED};", text, re.M))
        text, count = grow(text)
        grown += count
        if head.name == "base.h":
            text = replaced(r"^(#define KD_ABI_MINOR +)\d+$", r"\g<1>99", text, head)
            text = replaced(r"^(#define KD_OPSET +)\d+u$", r"\g<1>99u", text, head)
            text = replaced(r"^(#endif /\* KD_BASE_H \*/)$", LATER + r"\n\1", text,
                            head)
        (out / head.name).write_text(text)
    if grown != sized or not grown:
        sys.exit(f"later.py: {grown} of {sized} structs were grown")
    print(f"{grown} structs are longer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
