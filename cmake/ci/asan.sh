#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the tests.
# Suites of plugins go in turns, half of them at a time.
# usage: sh cmake/ci/asan.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/turn.sh
sh cmake/ci/build.sh asan
# shellcheck disable=SC2046 # options are words
exec ctest --preset asan -j 2 $(except 2 conformance_cpu conformance_minimal conformance_sim \
  conformance_graph_npu conformance_acme cuda_sanitized)
