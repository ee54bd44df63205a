"""newest_onnx.py - writes the node and simple cases of the onnx package that is installed.

usage: newest_onnx.py FOLDER

They are written as Debian's libonnx-testdata has them, by the package's own writer: a folder
for each case, with model.onnx and the tensors of each data set.
"""

import sys
import types
import warnings


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")  # cases that divide by zero do so on purpose
    import onnx
    from onnx.backend.test import cmd_tools
    from onnx.backend.test.case import model, node

    cases = list(node.collect_testcases(None))
    # the real models are addresses of files, not data
    cases += [case for case in model.collect_testcases() if case.kind == "simple"]
    cmd_tools.model_test = types.SimpleNamespace(collect_testcases=lambda: cases)
    cmd_tools.generate_data(types.SimpleNamespace(output=sys.argv[1]))
    print(f"onnx {onnx.__version__}, opset {onnx.defs.onnx_opset_version()}: {len(cases)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
