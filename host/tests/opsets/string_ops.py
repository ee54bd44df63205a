#!/usr/bin/env python3
"""Ops on strings, beside ONNX Runtime.

usage: string_ops.py [--seed N] [--keep DIR] [KEEL [OPTION...]], which --help explains

Makes models of one op each with random attributes, shapes and strings, runs them by ONNX Runtime
(a venv with onnx, onnxruntime and numpy), and lets `keel onnx-test` compare.
"""
import sys

from microsoft_ops import compare, np

ML, MS = "ai.onnx.ml", "com.microsoft"
i64, f32 = np.int64, np.float32
WORDS = ("a", "b", "ab", "", "Root", "tree", "the", "THE", "The", "x y", " x", "1", "-2.5", "Größe",
         "日本", "a,b,,c", ", ", "e\u0301", "\U0001f332")


def strings(random, *shape, words=WORDS):
    return random.choice(np.array(words, dtype=object), shape).astype(object)


def lines(random, *shape, between=(" ", ",", "  ", "\t")):
    found = np.empty(shape, dtype=object)
    for i in np.ndindex(*shape):
        found[i] = random.choice(between).join(random.choice(WORDS, random.integers(0, 7)))
    return found


def split_lines(random):
    """What ONNX Runtime splits as Python, whose rules ONNX has: no empty strings, which it takes
    for no part, and no blanks but spaces, and not at the end."""
    found = lines(random, 2, 3, between=(" ", ",", "  "))
    for i in np.ndindex(*found.shape):
        found[i] = "x" + found[i] + "y"
    return found


def move(cases, random):
    """Ops that move elements or compare them."""
    def add(op, inputs, outputs=("Y",), constants=(), result=object, **attributes):
        cases.add(op, op, inputs, list(outputs), constants, domain="", result=result, **attributes)
    x, y = strings(random, 3, 4), strings(random, 2, 4)
    small = np.array(WORDS[:4], dtype=object)
    add("Concat", {"a": x, "b": y}, axis=0)
    add("Gather", {"x": x, "i": random.integers(-4, 4, (2, 3))}, axis=1)
    add("GatherND", {"x": x, "i": random.integers(0, 3, (5, 2))})
    add("GatherElements", {"x": x, "i": random.integers(0, 3, (2, 4))}, axis=0)
    add("Transpose", {"x": x}, perm=[1, 0])
    add("Tile", {"x": x, "n": np.array([2, 1], i64)}, constants=("n",))
    add("Expand", {"x": strings(random, 3, 1), "s": np.array([2, 3, 5], i64)})
    add("Reshape", {"x": x, "s": np.array([2, -1], i64)}, constants=("s",))
    add("Unsqueeze", {"x": x, "s": np.array([1], i64)})
    add("Slice", {"x": x, "a": np.array([3], i64), "b": np.array([-9], i64),
                  "c": np.array([1], i64), "d": np.array([-2], i64)})
    add("Split", {"x": x, "s": np.array([1, 3], i64)}, ["A", "B"], ("s",), axis=1)
    add("Where", {"c": random.random((3, 4)) < 0.5, "x": x, "y": strings(random, 4)})
    add("Equal", {"a": small[random.integers(0, 4, (5, 6))], "b": small[random.integers(0, 4, 6)]},
        result=bool)
    add("Compress", {"x": x, "c": np.array([True, False, True])}, axis=0)
    add("ScatterElements", {"x": x, "i": random.integers(0, 3, (2, 4)), "u": y}, axis=0)
    add("ScatterND", {"x": x, "i": np.array([[1], [2]], i64), "u": y})
    add("OneHot", {"i": random.integers(0, 5, 6), "d": np.array([5], i64),
                   "v": np.array(["off", "on"], dtype=object)})
    add("Unique", {"x": strings(random, 20)}, ["Y", "I", "R", "C"], sorted=1,
        types=(object, i64, i64, i64))
    add("Unique", {"x": strings(random, 20)}, ["Y", "I", "R", "C"], sorted=0,
        types=(object, i64, i64, i64))
    add("Shape", {"x": x}, result=i64)
    add("Size", {"x": x}, result=i64)
    add("Identity", {"x": x})


def cast(cases, random):
    def add(x, to):
        result = np.dtype(to)
        cases.add(f"cast_{x.dtype}_{result.name}".replace("object", "text"), "Cast", {"x": x},
                  ["Y"], domain="", result=result,
                  to=8 if result == object else cases.number_of(result))
    numbers = random.integers(-100, 100, 20)
    for dtype in (np.int8, np.int32, i64, np.uint8, np.uint64, bool):
        add((numbers % 100 if dtype in (np.uint8, np.uint64) else numbers).astype(dtype), object)
    add((numbers / 8).astype(f32), object)
    add((numbers / 8).astype(np.float64), object)
    add(np.array([str(n) for n in numbers], dtype=object), i64)
    add(np.array([str(n) for n in numbers], dtype=object), np.int8)
    reals = [repr(float(r)) for r in np.exp(random.standard_normal(20) * 9)]
    for dtype in (f32, np.float64, np.float16):
        add(np.array(reals[:5] + ["1e2", "NaN", "INF", "-INF", " 7"], dtype=object), dtype)


def text(cases, random):
    for shapes in (((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 4)), ((), (2, 2)), ((0,), (1,))):
        cases.add("concat", "StringConcat", {"x": strings(random, *shapes[0]),
                                             "y": strings(random, *shapes[1])}, ["Z"], domain="")
    for delimiter in (None, "", ",", ", ", "a"):
        for most in (None, 0, 1, 3):
            given = {"delimiter": delimiter, "maxsplit": most}
            cases.add("split", "StringSplit", {"x": split_lines(random)}, ["Y", "Z"], domain="",
                      types=(object, i64), **{k: v for k, v in given.items() if v is not None})
    for pattern in ("a", "[a-z]+", "(?i)the", r"\d+", r".*", r"-?\d+\.\d+", "", "a|ab", r"\w+",
                    "日.", "[^a]*", "x y$"):
        cases.add("regex", "RegexFullMatch", {"x": strings(random, 3, 7)}, ["Y"], domain="",
                  result=bool, pattern=pattern)
    for action in ("NONE", "LOWER", "UPPER"):
        for cased in (0, 1):
            for shape in ((9,), (1, 6)):
                cases.add("normalizer", "StringNormalizer",  # ONNX Runtime wants to know shapes
                          {"x": strings(random, *shape, words=WORDS[:13])}, ["Y"], domain="",
                          case_change_action=action, is_case_sensitive=cased, locale="C", late=False,
                          stopwords=["the", "root", "a"])
    cases.add("normalizer_all_go", "StringNormalizer", {"x": strings(random, 4, words=["a", "b"])},
              ["Y"], domain="", locale="C", stopwords=["a", "b"], is_case_sensitive=1,
              late=False)


def tokens(cases, random):
    for mark in (0, 1):
        for least in (1, 2):
            for how in ({"separators": [" "]}, {"separators": [",", " "]}, {"separators": [""]},
                        {"tokenexp": "[a-zA-Z0-9_]+"}, {"tokenexp": "[^ ,]+"}):
                if how.get("separators") == [""] and least > 1:
                    continue
                for shape in ((4,), (2, 3)):
                    cases.add("tokenizer", "Tokenizer", {"x": lines(random, *shape)}, ["Y"],
                              domain=MS, mark=mark, mincharnum=least, pad_value="#", **how)


def grams(cases, random):
    """Pools of single tokens, pairs and triples, of strings and of integers."""
    words = np.array(WORDS[:8], dtype=object)
    for kind in ("strings", "int64s"):
        for mode in ("TF", "IDF", "TFIDF"):
            for least, most, skip in ((1, 1, 0), (1, 2, 0), (2, 2, 3), (2, 3, 1), (1, 3, 5)):
                pool, starts = [], []
                for size in (1, 2, 3):
                    starts.append(len(pool))
                    for gram in sorted({tuple(random.integers(0, 8, size)) for _ in range(9)}):
                        pool += gram
                count = (starts[1] + (starts[2] - starts[1]) // 2 + (len(pool) - starts[2]) // 3)
                rows = random.integers(0, 8, ((7,), (3, 9))[int(random.integers(2))])
                given = ({"pool_strings": list(words[pool])} if kind == "strings" else
                         {"pool_int64s": [int(p) for p in pool]})
                cases.add(f"tfidf_{kind}", "TfIdfVectorizer",
                          {"x": words[rows] if kind == "strings" else rows}, ["Y"], domain="",
                          result=f32, mode=mode, min_gram_length=least, max_gram_length=most,
                          max_skip_count=skip, ngram_counts=starts,
                          ngram_indexes=list(range(count)),
                          weights=[float(w) for w in random.random(count).astype(f32)], **given)


def encoders(cases, random):
    names, numbers = list(WORDS[:6]), [5, -1, 3, 8, 0, 2]
    x = strings(random, 4, 5, words=WORDS[:9])
    given = {"strings": names, "int64s": numbers, "floats": [0.5, 2.0, -1.0, 3.5, 7.0, 0.25]}
    inputs = {"strings": x, "int64s": random.integers(-2, 9, (3, 4)),
              "floats": random.choice(np.array(given["floats"] + [9], f32), (6,))}
    types = {"strings": object, "int64s": i64, "floats": f32}
    for keys in given:
        for values in given:
            if "strings" in (keys, values):
                cases.add("label_encoder", "LabelEncoder", {"x": inputs[keys]}, ["Y"], domain=ML,
                          result=types[values], default_string="none", default_int64=-7,
                          default_float=1.5,
                          **{"keys_" + keys: given[keys], "values_" + values: given[values]})
    cases.add("one_hot", "OneHotEncoder", {"x": x}, ["Y"], domain=ML, result=f32, zeros=1,
              cats_strings=names)
    for given in (x, random.integers(-2, 9, (3, 4))):
        cases.add("category_mapper", "CategoryMapper", {"x": given}, ["Y"], domain=ML,
                  result=i64 if given is x else object, cats_strings=names, cats_int64s=numbers,
                  default_string="none", default_int64=-7)


def write(cases, random):
    for part in (move, cast, text, tokens, grams, encoders):
        part(cases, random)


if __name__ == "__main__":
    sys.exit(compare(__doc__, write, opset=21))
