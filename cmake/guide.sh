#!/bin/sh
# VENDOR_GUIDE.md's table of slots from the headers and the suite, and its commands
# and code.
#
# usage: sh cmake/guide.sh            writes the table
#        sh cmake/guide.sh --check    exit 1 where it is out of date
#        sh cmake/guide.sh --run      compiles its C, runs its "sh run" blocks
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ "${1:-}" = --run ]; then
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
python3 cmake/guide.py build/release/bin/keel-conformance >"$scratch/slots"
awk -v file="$scratch/slots" '
  /^<!-- slots:/ { print; while ((getline line < file) > 0) print line; skip = 1 }
  /^<!-- end -->$/ { skip = 0 }
  !skip && !/^<!-- slots:/ { print }
' VENDOR_GUIDE.md >"$scratch/guide.md"
if [ "${1:-}" = --check ]; then
  diff VENDOR_GUIDE.md "$scratch/guide.md" && echo "the guide's table is right"
else
  cp "$scratch/guide.md" VENDOR_GUIDE.md
fi
