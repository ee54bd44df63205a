#!/bin/sh
# Installs what is missing, builds Keel in every way that CI guards, and runs the
# checks: each is a script in cmake/ci, which builds what it needs and can be run alone.
# The first that fails ends it; the command that repeats that check is printed last.
# A good run ends with ctest's closing line.
#
# usage: sh cmake/test.sh [--quick]     --quick: the release build's tests alone
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh
# shellcheck disable=SC2086
need $build_packages $test_packages

checks="hook words format tidy asan tsan bare leaks docs suite guide recipes bridges release"
[ "${1:-}" != --quick ] || checks=release

began=$(date +%s)
for check in $checks; do
  printf '\n== %s (after %d s)\n' "$check" $(($(date +%s) - began))
  sh "cmake/ci/$check.sh" || {
    status=$?
    printf '\n%s failed. To repeat this check alone:\n  sh cmake/ci/%s.sh\n' \
      "$check" "$check"
    exit $status
  }
done
