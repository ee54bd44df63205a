#!/bin/sh
# Builds with ThreadSanitizer, and runs the tests.
# usage: sh cmake/ci/tsan.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh tsan
exec ctest --preset tsan -j 2
