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

step() {
  printf '\n== %s\n' "$1"
}

build() { # preset
  step "build: $1"
  cmake --preset "$1" >"build-$1.log" 2>&1 || { cat "build-$1.log"; exit 1; }
  rm -f "build-$1.log"
  cmake --build --preset "$1" -- --quiet
}

if [ "${1:-}" != --quick ]; then
  sh cmake/format.sh --check
  build clang
  sh cmake/tidy.sh build/clang
  for preset in asan tsan; do
    build $preset
    step "test: $preset"
    ctest --preset $preset -j 2
  done
fi
if [ "${1:-}" != --quick ]; then
  build bare
  step "test: bare"
  ctest --preset bare -j 2
fi
build release
if [ "${1:-}" != --quick ]; then
  sh cmake/leaks.sh
  step "README"
  sh cmake/readme.sh --check
  sh cmake/readme.sh --run
fi
if [ "${1:-}" != --quick ]; then
  step "conformance: the suite, proven"
  build/release/bin/keel-conformance self-test --jobs 4
  build/release/bin/keel-conformance self-test --fault cpu --jobs 4
  sh conformance/tests/readme.sh --check
  sh cmake/guide.sh --check
  sh cmake/guide.sh --run
fi
step "test: release"
ctest --preset release -j 2
