#!/bin/sh
# The first part of the whole suite on a plugin, for which CI has no time; in the world all of it
# (cmake/ci/world.sh).
# usage: part.sh SUITE PLUGIN PARTS [OPTION]...
set -eu
. "$(dirname "$0")/../../cmake/ci/world.sh"
suite=$1 plugin=$2 parts=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "again: keel-conformance $plugin $(shard "$parts") $*"
# a machine without the device is no failure; its plugin's other tests say so
"$suite" doctor "$plugin" >"$scratch/doctor" 2>&1 || {
  cat "$scratch/doctor"
  exit 77
}
# shellcheck disable=SC2046
"$suite" run "$plugin" $(shard "$parts") --group area --out "$scratch" "$@"
