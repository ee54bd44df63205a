#!/bin/sh
# The minimal plugin as a vendor builds it: bare gcc, the headers alone, under
# 200 lines; then it is loaded.
# usage: build_test.sh SOURCE_ROOT KEEL
set -eu
cd "$1"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
gcc -shared -fPIC -Idevice_api/include samples/minimal_plugin/minimal.c \
  -o "$out/minimal.so"
lines=$(wc -l <samples/minimal_plugin/minimal.c)
[ "$lines" -lt 200 ] || { echo "FAILED: it has $lines lines"; exit 1; }
"$2" ops --only --plugin "$out/minimal.so" --device minimal | grep -q MatMul
"$2" plugins --only --plugin "$out/minimal.so"
