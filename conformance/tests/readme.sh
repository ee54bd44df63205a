#!/bin/sh
# Writes conformance/README.md, the list of rules, from the suite itself.
# usage: sh conformance/tests/readme.sh [--check]
set -eu
cd "$(dirname "$0")/../.."
suite=${SUITE:-build/release/bin/keel-conformance}
if [ "${1:-}" = --check ]; then
  "$suite" list --markdown | diff conformance/README.md - &&
    echo "conformance/README.md is right"
else
  "$suite" list --markdown >conformance/README.md
fi
