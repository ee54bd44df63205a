#!/bin/sh
# Builds with ThreadSanitizer, and runs the tests.
# Of the tests of single kernels, which take long and differ little in what threads do, a third
# runs, and none of those that are about files and words; in the world all (cmake/ci/world.sh).
# Other long tests are of a size that CI has time for (cmake/ci/sized.sh).
# usage: sh cmake/ci/tsan.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
sh cmake/ci/build.sh tsan
out="$(without 3 blocked_test onnx_cases product_test convolution_test order_test kernels_base \
  kernels_best kernels_plain einsum_test casts_test kernels_taps pooling_test integer_mean_test \
  kernels_avx2 lengths_test conv_transpose_test far_index_test kernels_vnni dynamic_quantise_test \
  kernels_avx2_vnni kernels_avx2_plain)"
world || out="$out|writers|texts"
exec ctest --preset tsan -j 3 -E "^($out)\$" # some wait more than they compute
