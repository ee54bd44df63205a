#!/bin/sh
# Runs clang-tidy over all sources of a build. It shows clang's warnings, too.
# The analyzer looks at a third of the sources, in the world at all (cmake/ci/world.sh).
# usage: sh cmake/ci/tidy.sh [BUILD]    without: builds the preset asan, and takes that
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
build=${1:-build/asan}
[ $# -gt 0 ] || sh cmake/ci/build.sh asan
# the analyzer follows a function for 20,000 nodes, a tenth of what it would: most of the time is
# the analyzer's, and it is a third of what 50,000 take
# a build by gcc: with its own options, and its libmvec, whose functions have an attribute
set -- "$build" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wshadow \
  --extra-arg=-Wno-unknown-attributes --extra-arg=-Wno-unused-command-line-argument \
  --extra-arg=-Xclang --extra-arg=-analyzer-config \
  --extra-arg=-Xclang --extra-arg=max-nodes=20000
# loops.c is made of macros that clang-tidy expands without end, openmp.c of gcc's pragmas;
# exchanges.c needs MPI's header, which is not for this build
sources() {
  find "$@" -name '*.c' ! -name loops.c ! -name openmp.c ! -name exchanges.c | sort
}
tidy() {
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet "$@" 2>/dev/null
}
all=$(sources device_api host/src host/link host/tools host/bridges host/bench plugins samples conformance)
# shellcheck disable=SC2086 # paths are words
analysed=$(some 3 $all)
echo "$analysed" | tidy -p "$@"
# without the analyzer: what it would find in a test is found when the test runs
{ echo "$all" | grep -vxF "$analysed"; sources host/tests; } | tidy '--checks=-clang-analyzer-*' -p "$@"
echo "clang-tidy is clean"
