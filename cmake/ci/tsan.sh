#!/bin/sh
# Builds with ThreadSanitizer, and runs the tests.
# Of the tests of single kernels and suites of plugins, which take long and differ little in what
# threads do, a third runs, in the world all (cmake/ci/world.sh).
# usage: sh cmake/ci/tsan.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
sh cmake/ci/build.sh tsan
# shellcheck disable=SC2046 # options are words
exec ctest --preset tsan -j 2 $(except 3 conformance_cpu conformance_sim conformance_minimal \
  conformance_graph_npu conformance_acme onnx_cases blocked_test product_test rows_test \
  convolution_test winograd_test recurrent_test quantised_test einsum_test dilated_test)
