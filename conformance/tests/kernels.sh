#!/bin/sh
# What kernels compute and nothing else, by options of the plugin: of all ops, or of some.
# usage: kernels.sh SUITE PLUGIN "OP;OP..." [OPTION]...    exit status 3: it refuses an option
set -eu
suite=$1 plugin=$2 ops=$(echo "$3" | tr ';' ' ')
shift 3
for op in ${ops:---}; do
  [ "$op" = -- ] || set -- --op "$op" "$@"
  "$suite" run "$plugin" --quiet --no-reruns --rule op.exact --rule op.sum-bound \
    --rule op.quantised --rule layout.kernels "$@"
  [ "$op" = -- ] || shift 2
done
