#!/bin/sh
# Checks that dropped words (words.txt) occur nowhere.
# usage: sh cmake/ci/words.sh            exit 1 where one does, with its place and the term
#        sh cmake/ci/words.sh --prove    shows that the check can fail
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || python3 cmake/ci/words.py --prove
exec python3 cmake/ci/words.py "$@"
