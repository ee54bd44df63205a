#!/bin/sh
# Checks README.md: its tables, the ONNX cases and the ops, and its commands.
#
# usage: sh cmake/ci/readme.sh            builds Keel, and checks all that follows
#        sh cmake/ci/readme.sh --check    exit 1 where cases or ops are out of date
#        sh cmake/ci/readme.sh --run      runs the README's blocks marked "sh run"
#        sh cmake/ci/readme.sh --write    writes cases and ops
#        sh cmake/ci/readme.sh --figures  writes the benchmarks' figures too
set -eu
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ]; then
  sh cmake/ci/build.sh release
  sh cmake/ci/readme.sh --check
  exec sh cmake/ci/readme.sh --run
fi
keel=build/release/bin/keel
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# replace SECTION FILE: puts a file between a section's two marks
replace() {
  awk -v section="<!-- $1:" -v file="$2" '
    index($0, section) == 1 {
      print
      while ((getline line < file) > 0) print line
      skip = 1
    }
    /^<!-- end -->$/ { skip = 0 }
    !skip && index($0, section) != 1 { print }
  ' "$scratch/README.md" >"$scratch/next"
  mv "$scratch/next" "$scratch/README.md"
}

cases() {
  echo "| set | passed | failed | skipped |"
  echo "| --- | --- | --- | --- |"
  for set in node pytorch-converted pytorch-operator simple; do
    "$keel" onnx-test --quiet /usr/share/libonnx-testdata/data/$set |
      tail -n 1 | sed "s/\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped/| $set | \1 | \2 | \3 |/"
  done
}

if [ "$1" = --run ]; then
  awk '/^```sh run$/ { on = 1; next } /^```$/ { on = 0 } on' README.md \
    >"$scratch/blocks.sh"
  sh -e "$scratch/blocks.sh" >"$scratch/out" || { cat "$scratch/out"; exit 1; }
  echo "the README's commands work"
  exit 0
fi

cp README.md "$scratch/README.md"
cases >"$scratch/cases"
replace cases "$scratch/cases"
"$keel" ops --device cpu:0 --markdown >"$scratch/ops"
replace ops "$scratch/ops"
if [ "$1" = --figures ]; then
  { echo '```'; build/release/bench/bench --json "$scratch/bench.json"
    sh plugins/cpu/bench/compare.sh
    echo '```'; } >"$scratch/figures"
  replace figures "$scratch/figures"
  python3 host/bench/plot.py "$scratch/bench.json" >host/bench/graphs.svg
fi
if [ "$1" = --check ]; then
  diff README.md "$scratch/README.md" && echo "the README's tables are right"
else
  cp "$scratch/README.md" README.md
fi
