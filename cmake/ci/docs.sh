#!/bin/sh
# Checks README.md and docs/: the tables of docs/ops.md, and the commands of all.
#
# usage: sh cmake/ci/docs.sh            builds Keel, and checks all that follows
#        sh cmake/ci/docs.sh --check    exit 1 where a table is out of date, or a link
#                                       leads nowhere
#        sh cmake/ci/docs.sh --run      runs the blocks marked "sh run", file by file
#        sh cmake/ci/docs.sh --write    writes the tables
#        sh cmake/ci/docs.sh --figures  writes the benchmarks' figures (docs/figures.md)
set -eu
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ]; then
  sh cmake/ci/build.sh release
  sh cmake/ci/docs.sh --check
  exec sh cmake/ci/docs.sh --run
fi
keel=build/release/bin/keel
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# replace SECTION FILE: standard input, with the file between the section's two marks
replace() {
  awk -v section="<!-- $1:" -v file="$2" '
    index($0, section) == 1 {
      print
      while ((getline line < file) > 0) print line
      skip = 1
    }
    /^<!-- end -->$/ { skip = 0 }
    !skip && index($0, section) != 1 { print }
  '
}

cases() {
  echo "| set | passed | failed | skipped |"
  echo "| --- | --- | --- | --- |"
  for set in node pytorch-converted pytorch-operator simple; do
    "$keel" onnx-test --quiet /usr/share/libonnx-testdata/data/$set |
      tail -n 1 | sed "s/\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped/| $set | \1 | \2 | \3 |/"
  done
}

# tables FILE: docs/ops.md as it should be
tables() {
  cases >"$scratch/cases"
  "$keel" ops --device cpu:0 --markdown >"$scratch/ops"
  replace cases "$scratch/cases" <docs/ops.md | replace ops "$scratch/ops" >"$1"
}

# Links to files that are not there: [text](path)
links() {
  for file in README.md CHANGELOG.md CONTRIBUTING.md docs/*.md host/bridges/*.md host/bridges/*/*.md; do
    grep -o '](\([^)]*\))' "$file" | sed 's/^](//; s/[#)].*//' | sort -u |
      while read -r link; do
        case $link in '' | http*) continue ;; esac
        [ -e "$(dirname "$file")/$link" ] || echo "$file: there is no $link"
      done
  done
}

case $1 in
--check)
  tables "$scratch/ops.md"
  diff docs/ops.md "$scratch/ops.md"
  links >"$scratch/links"
  cat "$scratch/links"
  [ ! -s "$scratch/links" ] || exit 1
  echo "the tables are right, and links lead somewhere"
  ;;
--run)
  for file in README.md docs/*.md host/bridges/*.md host/bridges/*/*.md; do
    # "! COMMAND" must fail, which -e would not ask for
    awk '/^```sh run$/ { on = 1; next } /^```$/ { on = 0 }
         on && /^! / { print "if " substr($0, 3) "; then exit 1; fi"; next }
         on' "$file" >"$scratch/blocks.sh"
    sh -e "$scratch/blocks.sh" >"$scratch/out" 2>&1 || {
      cat "$scratch/out"
      echo "a command of $file failed"
      exit 1
    }
  done
  echo "the commands of README.md and docs/ work"
  ;;
--write)
  tables "$scratch/ops.md"
  cp "$scratch/ops.md" docs/ops.md
  ;;
--figures)
  { echo '```'
    build/release/bench/bench --json "$scratch/bench.json"
    sh plugins/cpu/bench/compare.sh
    echo '```'
  } >"$scratch/figures"
  replace figures "$scratch/figures" <docs/figures.md >"$scratch/figures.md"
  cp "$scratch/figures.md" docs/figures.md
  python3 host/bench/plot.py "$scratch/bench.json" >host/bench/graphs.svg
  ;;
*)
  echo "docs.sh: there is no $1; see the usage at its beginning" >&2
  exit 2
  ;;
esac
