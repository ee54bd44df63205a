#!/bin/sh
# A plugin exports one symbol; libkeel exports keel_ names only, and programs nothing. Neither
# these nor libkeel are linked with libraries that a plugin may have a copy of.
# usage: symbols_test.sh LIBKEEL PLUGIN... -- PROGRAM...
set -u
command -v nm >/dev/null || { echo "no nm here"; exit 77; }
failed=0
# check_libraries FILE: those of the C library, and Keel's own
check_libraries() {
  others=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(lib(c|m|dl|rt|pthread|keel)\.so\.[0-9]+|ld-linux.*|libgcc_s\.so\.1)$')
  [ -z "$others" ] || { echo "FAILED: $1 is linked with $others"; failed=1; }
}
check_libraries "$1"
# the version that the symbols have is one itself, of type A
others=$(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' |
  sed 's/@.*//' | grep -vE '^keel_')
[ -z "$others" ] || { echo "FAILED: $1 exports $others"; failed=1; }
shift
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  names=$(nm -D --defined-only "$1" | awk '{print $3}')
  [ "$names" = kd_entry_0 ] || { echo "FAILED: $1 exports: $names"; failed=1; }
  shift
done
shift
for program; do
  # variables of the C library, which a program may have a copy of
  names=$(nm -D --defined-only "$program" | awk '{print $3}' | grep -v '@GLIBC')
  [ -z "$names" ] || { echo "FAILED: $program exports $names"; failed=1; }
  check_libraries "$program"
done
exit $failed
