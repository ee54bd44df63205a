#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the tests.
# usage: sh cmake/ci/asan.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh asan
exec ctest --preset asan -j 2
