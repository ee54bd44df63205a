#!/bin/sh
# Formats the C sources with clang-format, or checks that they are.
# usage: sh cmake/format.sh [--check]
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = --check ]; then
  printf '\n== clang-format\n'
  set -- --dry-run --Werror
else
  set -- -i
fi
# the tables are laid out by hand
find device_api host plugins samples conformance \( -name '*.c' -o -name '*.h' \) \
  ! -path 'device_api/abi/*' ! -name table.c \
  ! -path 'conformance/rules/cases.c' -print0 |
  xargs -0 clang-format "$@"
