#!/bin/sh
# A unit test under valgrind: no wrong access, and nothing lost.
# usage: valgrind_test.sh PROGRAM
set -u
command -v valgrind >/dev/null || { echo "no valgrind here"; exit 77; }
# the CPU plugin's AVX-512 loops are not for valgrind
KEEL_CPU_ISA=base exec valgrind --quiet --error-exitcode=1 --leak-check=full \
  --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite "$1"
