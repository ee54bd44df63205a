#!/bin/sh
# Builds with clang and without any optional library, and runs the tests.
# The CPU's loops are clang's vectors in the world alone (cmake/ci/world.sh): they take as long to
# compile as the rest.
# usage: sh cmake/ci/bare.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
quick=ON
! world || quick=OFF
sh cmake/ci/build.sh bare -DKEEL_QUICK_LOOPS=$quick
exec ctest --preset bare -j 3 # some wait more than they compute
