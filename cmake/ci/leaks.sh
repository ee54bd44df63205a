#!/bin/sh
# valgrind over `keel run`: no leak, no wrong access.
# usage: sh cmake/ci/leaks.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh release
cases=/usr/share/libonnx-testdata/data
for case in node/test_range_float_type_positive_delta_expanded \
            pytorch-converted/test_Conv2d node/test_matmul_3d; do
  # the plugin's AVX-512 loops are not for valgrind, nor are OpenCL and Vulkan drivers
  KEEL_CPU_ISA=base OCL_ICD_VENDORS=/none VK_ICD_FILENAMES=/none valgrind --quiet --error-exitcode=1 --leak-check=full \
    --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite \
    build/release/bin/keel run $cases/$case/model.onnx >/dev/null
  echo "clean: $case"
done
