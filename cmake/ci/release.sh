#!/bin/sh
# Builds what users get, and runs the tests.
# usage: sh cmake/ci/release.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh release
exec ctest --preset release -j 3 # some wait more than they compute
