#!/bin/sh
# Runs clang-tidy over all sources of a build. It shows clang's warnings, too.
# usage: sh cmake/ci/tidy.sh [BUILD]    without: builds the preset asan, and takes that
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/asan}
[ $# -gt 0 ] || sh cmake/ci/build.sh asan
# the analyzer follows a function for 20,000 nodes, a tenth of what it would: most of the time is
# the analyzer's, and it is a third of what 50,000 take
# a build by gcc: with its own options, and its libmvec, whose functions have an attribute
set -- "$build" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wshadow \
  --extra-arg=-Wno-unknown-attributes --extra-arg=-Wno-unused-command-line-argument \
  --extra-arg=-Xclang --extra-arg=-analyzer-config \
  --extra-arg=-Xclang --extra-arg=max-nodes=20000
# loops.c is made of macros that clang-tidy expands without end, openmp.c of gcc's pragmas
sources() {
  find "$@" -name '*.c' ! -name loops.c ! -name openmp.c -print0
}
sources device_api host/src host/tools host/bridges host/bench plugins samples conformance |
  xargs -0 -P "$(nproc)" -n 4 clang-tidy --quiet -p "$@" 2>/dev/null
# without the analyzer: what it would find in a test is found when the test runs
sources host/tests |
  xargs -0 -P "$(nproc)" -n 8 clang-tidy --quiet '--checks=-clang-analyzer-*' -p "$@" 2>/dev/null
echo "clang-tidy has nothing to say"
