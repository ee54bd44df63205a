"""What scripts share that write ONNX cases and let `keel onnx-test` compare: cases and options."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

OPTIONS = """
  KEEL        build/release/bin/keel unless given
  OPTION      of `keel onnx-test`: --device opencl:0, --eager ...
  --seed N    other numbers (1 unless given)
  --keep DIR  where the cases are written, and stay; a folder that goes away unless given
Exit status 1 where a case fails, 2 where it could not begin.
"""


class CaseFolder:
    """Cases by the order in which they are saved."""
    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def save(self, name, model, feeds, results):
        """feeds, results: arrays by name, in the model's order."""
        case = os.path.join(self.folder, f"{self.count:03d}_{name}")
        data = os.path.join(case, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        onnx.save(model, os.path.join(case, "model.onnx"))
        for kind, arrays in (("input", feeds), ("output", results)):
            for i, (key, array) in enumerate(arrays.items()):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(np.asarray(array), key)
                               .SerializeToString())
        self.count += 1


def by_runtime(model, feeds, wanted=None, plain=False):
    """What ONNX Runtime gives; plain: without its own changes of the model."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options,
                                providers=["CPUExecutionProvider"]).run(wanted, feeds)


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
            print(about.strip() + "\n" + OPTIONS.rstrip())
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
