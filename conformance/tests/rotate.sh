#!/bin/sh
# One part of the whole suite on a plugin: another one each hour (cmake/ci/turn.sh), so that CI,
# which has no time for all of it, comes to each rule and case within some days.
# usage: rotate.sh SUITE PLUGIN PARTS [OPTION]...
set -eu
. "$(dirname "$0")/../../cmake/ci/turn.sh"
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
