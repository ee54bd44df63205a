#!/bin/sh
# Shows how many lines the tests reach, by folder: builds the preset coverage, runs
# the unit tests, and sums what gcov counted.
#
# usage: sh cmake/coverage.sh [CTEST-OPTION...]    without: -R '_test$', the unit tests
#
# Where gcovr is installed, build/coverage/report/index.html shows each line.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- -R '_test$'
sh cmake/ci/build.sh coverage
find build/coverage -name '*.gcda' -delete
failed=0
ctest --preset coverage -j 2 "$@" || failed=$?
python3 cmake/coverage.py build/coverage
if command -v gcovr >/dev/null; then
  mkdir -p build/coverage/report
  # sources that are compiled for several instruction sets have each function several times
  gcovr --merge-mode-functions=separate --root . \
    --html-details build/coverage/report/index.html build/coverage ||
    echo "gcovr made no report" >&2
fi
[ $failed -eq 0 ] || echo "tests failed: their lines are counted up to there" >&2
exit $failed
