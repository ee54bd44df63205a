#!/bin/sh
# Checks that the C sources are formatted with clang-format, or formats them.
# usage: sh cmake/ci/format.sh [--fix]
set -eu
cd "$(dirname "$0")/../.."
if [ "${1:-}" = --fix ]; then
  set -- -i
else
  set -- --dry-run --Werror
fi
# the tables are laid out by hand
find device_api host plugins samples conformance \( -name '*.c' -o -name '*.h' \) \
  ! -path 'device_api/abi/*' ! -name table.c \
  ! -path 'conformance/rules/ops/cases.c' -print0 |
  xargs -0 clang-format "$@"
