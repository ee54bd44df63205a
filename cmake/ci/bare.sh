#!/bin/sh
# Builds with clang and without any optional library, and runs the tests.
# usage: sh cmake/ci/bare.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh bare
exec ctest --preset bare -j 2
