#!/bin/sh
# Each header alone, as C11 and C++17, with gcc and clang; and no header includes
# anything but stdint.h, stddef.h and its own kind.
# usage: headers_test.sh DEVICE_API
set -u
include=$1/include
failed=0
for header in "$include"/kd/*.h; do
  name=kd/$(basename "$header")
  for compiler in gcc clang g++ clang++; do
    command -v $compiler >/dev/null || { echo "no $compiler here"; exit 77; }
    case $compiler in
      *++) language="-std=c++17 -x c++" ;;
      *) language="-std=c11 -x c" ;;
    esac
    # shellcheck disable=SC2086
    printf '#include <%s>\n#include <%s>\n' "$name" "$name" |
      $compiler $language -Wall -Wextra -Wpedantic -Wconversion -Werror \
        -Wno-unused-function -I"$include" -fsyntax-only - || {
      echo "FAILED: $name with $compiler"
      failed=1
    }
  done
done
# as other machines compile them, without their libraries
for compiler in "gcc -m32" "clang --target=i686-linux-gnu" \
    "clang --target=x86_64-windows-gnu"; do
  printf '#include <kd/kd.h>\n' |
    $compiler -std=c11 -x c -ffreestanding -Wall -Wextra -Wpedantic -Werror \
      -Wno-unused-function -I"$include" -fsyntax-only - || {
    echo "FAILED: kd/kd.h with $compiler"
    failed=1
  }
done
others=$(grep -hn '^#include' "$include"/kd/*.h |
  grep -vE '<(stdint|stddef)\.h>|<kd/[a-z]+\.h>')
[ -z "$others" ] || { echo "FAILED: other includes: $others"; failed=1; }
exit $failed
