#!/bin/sh
# ResNet-50 and a transformer block through Keel, and the same kernels in the same order
# by the raw API (opencl_replay, vulkan_replay), in turn, with equal results: the best
# time of each, and the ratio.
# usage: models.sh [BUILD] [ROUNDS]     from the repository's root; minutes
set -u
build=${1:-build/release}
rounds=${2:-3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# keel_time resnet|block DEVICE [OPTION]: "MS TOP5"
keel_time() {
  if [ "$1" = resnet ]; then
    "$build/samples/resnet50" --device "$2" --repeat 2 ${3:+--option "$3"} |
      awk '/^top 5/ { sub(/^[^:]*: /, ""); top = $0 } /best/ { print $4, top }'
  else
    "$build/bench/families_models" ${3:+--option "$3"} "$2" |
      awk '/a run;/ { ms = $2 } /top 5/ { sub(/^[^:]*: /, ""); print ms, $0 }'
  fi
}
raw_time() {
  "$build/bench/$1_replay" "$scratch/script" 2 |
    awk '/^top 5/ { sub(/^[^:]*: /, ""); top = $0 } /^best/ { print $2, top }'
}

for name in opencl vulkan; do
  [ -x "$build/bench/${name}_replay" ] || continue
  "$build/bin/keel" devices 2>/dev/null | grep -q "^$name:0" || continue
  for model in resnet block; do
    keel_time $model $name:0 "$name.script=$scratch/script" >"$scratch/made"
    : >"$scratch/keel"; : >"$scratch/raw"
    i=0
    while [ $i -lt "$rounds" ]; do
      keel_time $model $name:0 >>"$scratch/keel"
      raw_time $name >>"$scratch/raw"
      i=$((i + 1))
    done
    tops=$(cut -d ' ' -f 2- "$scratch/keel" "$scratch/raw" "$scratch/made" | sort -u | wc -l)
    [ "$tops" = 1 ] || { echo "$model on $name: the results differ"; failed=1; }
    echo "$(sort -n "$scratch/keel" | head -1 | cut -d ' ' -f 1)" \
      "$(sort -n "$scratch/raw" | head -1 | cut -d ' ' -f 1)" |
      awk -v what="$model on $name" \
        '{ printf "%-18s Keel %9.2f ms, raw %9.2f ms, ratio %.2f\n", what, $1, $2, $1 / $2 }'
    rm -f "$scratch/script"
  done
done
exit $failed
