#!/bin/sh
# Installs what is missing, builds what is not built, and runs the checks: each is a script in
# cmake/ci, which builds what it needs and can be run alone. The first that fails ends it; the
# command that repeats that check is printed last. A good run ends with ctest's closing line.
#
# usage: sh cmake/test.sh            words, calls, format, the suite on the CPU and the tests of what users
#                                    get, without the long ones: minutes, after run.sh
#        sh cmake/test.sh --all      everything that CI holds: sanitizers, clang, clang-tidy,
#                                    documents, the suite's defects, bridges, the long tests
#        sh cmake/test.sh --world    that, and the parts of long tests that CI has no time for: a
#                                    night
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh
case "${1:-}" in
'')
  level="words calls format short" packages=$short_packages ;;
--all | --world)
  level="hook words calls format tidy asan tsan bare leaks docs suite guide recipes bridges release"
  packages="$short_packages $test_packages" ;;
*)
  sed -n 's/^# usage: /usage: /p; s/^#  \( *sh\)/ \1/p; s/^#   \( *[a-z]\)/  \1/p' "$0" >&2
  exit 2 ;;
esac
[ "${1:-}" != --world ] || export KEEL_WORLD=1
# shellcheck disable=SC2086
need $build_packages $packages

began=$(date +%s)
for check in $level; do
  printf '\n== %s (after %d s)\n' "$check" $(($(date +%s) - began))
  sh "cmake/ci/$check.sh" || {
    status=$?
    printf '\n%s failed. To repeat this check alone:\n  sh cmake/ci/%s.sh\n' \
      "$check" "$check"
    exit $status
  }
done
