"""Finds words that words.txt lists as no longer used: whole words, with case.

usage: words.py [--prove]
"""
import re
import sys

import tree

LIST = "cmake/ci/words.txt"
# what tells of the past, and what is frozen with it
EXEMPT = re.compile(rf"^({re.escape(LIST)}|CHANGELOG\.md)$|^device_api/abi/")


def dropped():
    """By word: the term that stands for it, which GLOSSARY.md has."""
    glossary = open("GLOSSARY.md", encoding="utf-8").read()
    words = {}
    for line in open(LIST, encoding="utf-8"):
        if line.startswith("#"):
            continue
        term, _, rest = line.partition(": ")
        assert f"\n| {term} |" in glossary, f"{LIST}: GLOSSARY.md has no term \"{term}\""
        words.update((word, term) for word in rest.strip().split(", "))
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
    assert LIST in names
    for name in names:
        if EXEMPT.search(name):
            continue
        try:
            text = open(name, encoding="utf-8").read()
        except UnicodeDecodeError:
            continue
        for number, word in find(pattern, text):
            print(f"{name}:{number}: \"{word}\" is not used any more; say what GLOSSARY.md"
                  f" has under \"{words[word]}\"")
            found += 1
    print(f"{found} places" if found else f"none of {len(words)} dropped words is used")
    sys.exit(found > 0)


main()
