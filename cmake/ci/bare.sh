#!/bin/sh
# Builds with clang and without any optional library, and runs the tests.
# The CPU's loops are clang's vectors every other time (cmake/ci/turn.sh): they take as long to
# compile as the rest.
# usage: sh cmake/ci/bare.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/turn.sh
quick=ON
[ "$TURN" != all ] && [ "$(part 2)" = 2 ] || quick=OFF
sh cmake/ci/build.sh bare -DKEEL_QUICK_LOOPS=$quick
exec ctest --preset bare -j 2
