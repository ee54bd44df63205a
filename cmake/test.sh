#!/bin/sh
# Installs what is missing, builds Keel in every way that CI guards, and runs the
# tests: gcc and clang without a warning, formatting, clang-tidy, unit tests,
# ONNX's cases, the ABI's layout, AddressSanitizer, UndefinedBehaviorSanitizer,
# ThreadSanitizer and valgrind. Ends with ctest's closing line.
#
# usage: sh cmake/test.sh [--quick]     --quick: the release build alone
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh
# shellcheck disable=SC2086
need $build_packages $test_packages

began=$(date +%s)
step() {
  printf '\n== %s (after %d s)\n' "$1" $(($(date +%s) - began))
}

build() { # preset
  step "build: $1"
  cmake --preset "$1" >"build-$1.log" 2>&1 || { cat "build-$1.log"; exit 1; }
  rm -f "build-$1.log"
  cmake --build --preset "$1" -- --quiet
}

if [ "${1:-}" != --quick ]; then
  sh cmake/format.sh --check
  build asan
  step "clang-tidy"
  sh cmake/tidy.sh build/asan
  step "test: asan"
  ctest --preset asan -j 2
  for preset in tsan bare; do
    build $preset
    step "test: $preset"
    ctest --preset $preset -j 2
  done
fi
build release
if [ "${1:-}" != --quick ]; then
  step "valgrind"
  sh cmake/leaks.sh
  step "README"
  sh cmake/readme.sh --check
  sh cmake/readme.sh --run
fi
if [ "${1:-}" != --quick ]; then
  step "the suite, proven"
  build/release/bin/keel-conformance self-test --jobs 4
  build/release/bin/keel-conformance self-test --fault cpu --jobs 4
  step "guide"
  sh conformance/tests/readme.sh --check
  sh cmake/guide.sh --check
  sh cmake/guide.sh --run
fi
step "test: release"
ctest --preset release -j 2
