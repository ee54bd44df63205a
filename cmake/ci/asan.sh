#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the tests.
# Half of the suites of plugins run, in the world all (cmake/ci/world.sh).
# usage: sh cmake/ci/asan.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
sh cmake/ci/build.sh asan
# shellcheck disable=SC2046 # options are words
exec ctest --preset asan -j 2 $(except 2 conformance_cpu conformance_minimal conformance_sim \
  conformance_graph_npu conformance_acme cuda_sanitized)
