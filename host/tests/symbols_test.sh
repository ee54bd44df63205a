#!/bin/sh
# A plugin exports one symbol; libkeel exports keel_ names only.
# usage: symbols_test.sh LIBKEEL PLUGIN...
set -u
command -v nm >/dev/null || { echo "no nm here"; exit 77; }
failed=0
# the version that the symbols have is one itself, of type A
others=$(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' |
  sed 's/@.*//' | grep -vE '^keel_')
[ -z "$others" ] || { echo "FAILED: $1 exports $others"; failed=1; }
shift
for plugin; do
  names=$(nm -D --defined-only "$plugin" | awk '{print $3}')
  [ "$names" = kd_entry_0 ] ||
    { echo "FAILED: $plugin exports: $names"; failed=1; }
done
exit $failed
