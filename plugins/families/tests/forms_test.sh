#!/bin/sh
# Compiled regions are kept, and go with a program's file: who has them compiles nothing.
# usage: forms_test.sh KEEL PLUGIN_NAME [OPTION]...   (as of `keel run`)
set -u
keel=$1 name=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

wrong() {
  echo "$1"
  tail -n 20 "$scratch/out" | sed 's/^/  /'
  failed=1
}

# compiles N: how often the plugin's compiler ran, by the trace's zones
compiles() {
  count=$(grep -o "\"$name compile\"" "$scratch/trace" | wc -l)
  [ "$count" "$1" "$2" ] || wrong "$3: $count kernels were compiled, not $1 $2"
}

# in_store STORE COMMAND...: with that store
in_store() {
  XDG_CACHE_HOME=$scratch/$1
  export XDG_CACHE_HOME
  shift
  KEEL_LAYERS=${layers:-} "$@" >"$scratch/out" 2>&1
}

model=$here/chain.mlir
in_store first "$keel" devices || wrong "devices"
grep -q "^$name:0" "$scratch/out" || {
  in_store first "$keel" run "$model" --device "$name:0" "$@" ||
    { echo "there is no $name:0"; exit 77; }
}
in_store first "$keel" run "$model" --device cpu:0 --output "$scratch/want" || wrong "on the CPU"
want="--expect $scratch/want/y.npy"

# shellcheck disable=SC2086
in_store second "$keel" run "$model" --device "$name:0" $want --trace "$scratch/trace" "$@" ||
  wrong "without a form"
compiles -gt 0 "without a form"

in_store third "$keel" compile "$model" --device "$name:0" -o "$scratch/form.keel" "$@" ||
  wrong "compiling ahead"
# shellcheck disable=SC2086
in_store fourth "$keel" run "$scratch/form.keel" --device "$name:0" $want --trace "$scratch/trace" "$@" ||
  wrong "with the form of a file"
compiles -eq 0 "with the form of a file, in an empty store"

# shellcheck disable=SC2086
layers=trace in_store third "$keel" run "$model" --device "$name:0" $want "$@" ||
  wrong "with the form of a store"
grep -q 'region.load' "$scratch/out" && ! grep -q 'region.compile' "$scratch/out" ||
  wrong "with the form of a store: it is not loaded"

[ $failed = 0 ] && echo "$name: forms are kept, and taken along"
exit $failed
