"""The command of a script that writes ONNX cases and lets `keel onnx-test` compare: its options."""
import os
import subprocess
import sys
import tempfile

import numpy as np


def run_cases(about, write, how=(), may_skip=True):
    """about: the help text. write(folder, random) makes a folder for each case. how: options that
    the user's own come behind. may_skip: whether a case that Keel does not take is all right.
    Returns the exit status: 1 where a case fails, 2 where it could not begin."""
    arguments, program = sys.argv[1:], os.path.basename(sys.argv[0])
    seed, keep = "1", None

    def refuse(why):
        print(f"{program}: {why}", file=sys.stderr)
        return 2

    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--help":
            print(about.strip())
            return 0
        if option not in ("--seed", "--keep") or not arguments:
            return refuse(f"there is no option {option}, or it has no value; --help")
        if option == "--seed":
            seed = arguments.pop(0)
        else:
            keep = arguments.pop(0)
    if not seed.isdecimal():
        return refuse(f'--seed takes a whole number, not "{seed}"')
    keel = arguments or ["build/release/bin/keel"]
    if not os.access(keel[0], os.X_OK):
        return refuse(f"there is no program {keel[0]}; build Keel, or name it")
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or scratch
        os.makedirs(folder, exist_ok=True)
        write(folder, np.random.default_rng(int(seed)))
        cases = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        done = subprocess.run([keel[0], "onnx-test", *how, *keel[1:], *cases], check=False,
                              stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    skipped = not done.stdout.endswith(" 0 skipped\n")
    return 1 if done.returncode or (skipped and not may_skip) else 0
