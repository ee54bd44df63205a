#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the tests.
# Long tests are of a size that CI has time for, in the world whole (cmake/ci/sized.sh).
# usage: sh cmake/ci/asan.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh asan
exec ctest --preset asan -j 3 # some wait more than they compute
