#!/bin/sh
# Checks that files are opened to be written, and the environment is read, in one place each.
# usage: sh cmake/ci/calls.sh            exit 1 where another does, with its place
#        sh cmake/ci/calls.sh --prove    shows that the check can fail
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || python3 cmake/ci/calls.py --prove
exec python3 cmake/ci/calls.py "$@"
