#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the tests.
# Long tests are of a size that CI has time for, in the world whole (cmake/ci/sized.sh). Of the
# CPU's ways to multiply, half run here (the release runs all); in the world all (cmake/ci/world.sh).
# usage: sh cmake/ci/asan.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
sh cmake/ci/build.sh asan
out=$(without 2 kernels_best kernels_plain kernels_avx2 kernels_avx2_plain kernels_vnni kernels_avx2_vnni)
exec ctest --preset asan -j 3 -E "^($out)\$" # some wait more than they compute
