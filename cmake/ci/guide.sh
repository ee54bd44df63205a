#!/bin/sh
# Checks VENDOR_GUIDE.md: its table of slots, which comes from the headers and the
# suite, and its commands and code.
#
# usage: sh cmake/ci/guide.sh            builds Keel, and checks all that follows
#        sh cmake/ci/guide.sh --check    exit 1 where the table is out of date, or where
#                                        a text has a count that nothing keeps true
#        sh cmake/ci/guide.sh --run      compiles its C, runs its "sh run" blocks
#        sh cmake/ci/guide.sh --write    writes the table
# SUITE: the keel-conformance program
set -eu
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ]; then
  sh cmake/ci/build.sh release
  sh cmake/ci/guide.sh --check
  exec sh cmake/ci/guide.sh --run
fi
suite=${SUITE:-build/release/bin/keel-conformance}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ "$1" = --run ]; then
  awk '/^```c / { file = $2; on = 1; next } /^```$/ { on = 0 }
       on { print > ("'"$scratch"'/" file) }' VENDOR_GUIDE.md
  for file in "$scratch"/*.c; do
    gcc -std=c11 -Wall -Wextra -Werror -Idevice_api/include -c "$file" \
      -o "$scratch/out.o"
  done
  awk '/^```sh run$/ { on = 1; next } /^```$/ { on = 0 } on' VENDOR_GUIDE.md \
    >"$scratch/blocks.sh"
  sh -e "$scratch/blocks.sh" >"$scratch/out" 2>&1 || { cat "$scratch/out"; exit 1; }
  echo "the guide's code compiles, and its commands work"
  exit 0
fi
python3 cmake/ci/guide.py "$suite" >"$scratch/slots"
awk -v file="$scratch/slots" '
  /^<!-- slots:/ { print; while ((getline line < file) > 0) print line; skip = 1 }
  /^<!-- end -->$/ { skip = 0 }
  !skip && !/^<!-- slots:/ { print }
' VENDOR_GUIDE.md >"$scratch/guide.md"

# Counts of what grows, outside of what is generated.
counts() {
  for file in README.md docs/*.md VENDOR_GUIDE.md host/src/README.md plugins/*/README.md; do
    awk -v file="$file" '
      /^<!-- end -->$/ { skip = 0 }
      !skip && /[0-9][0-9]+ (passed|failed|skipped|rules|defects|cases|tests|ops|kernels)/ {
        print file ": " FNR ": a count that nothing keeps true: " $0
      }
      /^<!-- [a-z]+:/ { skip = 1 }
    ' "$file"
  done
  lines=$(wc -l <samples/minimal_plugin/minimal.c)
  for file in README.md VENDOR_GUIDE.md; do
    most=$(tr '\n' ' ' <"$file" | sed -n 's/.*under \([0-9]*\) *lines.*/\1/p')
    [ "$lines" -lt "${most:-0}" ] ||
      echo "$file: says under ${most:-?} lines; samples/minimal_plugin/minimal.c has $lines"
  done
}

if [ "$1" = --check ]; then
  counts >"$scratch/counts"
  cat "$scratch/counts"
  diff VENDOR_GUIDE.md "$scratch/guide.md"
  [ ! -s "$scratch/counts" ] || exit 1
  echo "the guide's table is right"
else
  cp "$scratch/guide.md" VENDOR_GUIDE.md
fi
