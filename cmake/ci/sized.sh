#!/bin/sh
# Runs a long test in the size that CI has time for, or whole in the world (cmake/ci/world.sh).
# usage: sized.sh SIZE WHOLE COMMAND...    SIZE or WHOLE is COMMAND's last word
set -eu
. "$(dirname "$0")/world.sh"
size=$1 whole=$2
shift 2
! world || size=$whole
exec "$@" "$size"
