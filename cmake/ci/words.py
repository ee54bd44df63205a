"""Finds words that GLOSSARY.md lists as no longer used: whole words, with case.

usage: words.py [--prove]
"""
import re
import sys

import tree

TABLE = "GLOSSARY.md"
# what tells of the past, and what is frozen with it
EXEMPT = re.compile(r"^(GLOSSARY|CHANGELOG)\.md$|^device_api/abi/")


def dropped():
    """By word: the term that stands for it."""
    words = {}
    for line in open(TABLE, encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) == 3 and line.startswith("| "):
            for word in re.findall(r"`([^`]+)`", cells[2]):
                words[word] = cells[0]
    return words


def find(pattern, text):
    for number, line in enumerate(text.splitlines(), 1):
        for word in pattern.findall(line):
            yield number, word


def main():
    words = dropped()
    pattern = re.compile(r"(?<![\w])(" + "|".join(
        re.escape(word) for word in sorted(words, key=len, reverse=True)) + r")(?![\w])")
    if sys.argv[1:] == ["--prove"]:
        word = next(iter(words))
        assert list(find(pattern, f"a\n{word} b\n")) == [(2, word)]
        assert not list(find(pattern, f"{word}s x{word}\n"))
        print(f"{len(words)} words would be found")
        return
    names, found = tree.files(), 0
    assert TABLE in names
    for name in names:
        if EXEMPT.search(name):
            continue
        try:
            text = open(name, encoding="utf-8").read()
        except UnicodeDecodeError:
            continue
        for number, word in find(pattern, text):
            print(f"{name}:{number}: \"{word}\" is not used any more; {TABLE} has it under"
                  f" \"{words[word]}\"")
            found += 1
    print(f"{found} places" if found else f"none of {len(words)} dropped words is used")
    sys.exit(found > 0)


main()
