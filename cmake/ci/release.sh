#!/bin/sh
# Builds what users get, and runs the tests but for two, which suite.sh and guide.sh have.
# usage: sh cmake/ci/release.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh release
exec ctest --preset release -j 3 -E '^(guide|conformance_readme)$' # some wait more than they compute
