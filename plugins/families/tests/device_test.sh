#!/bin/sh
# A plugin of the families on the first device that it has (in CI a software one):
# ONNX's cases, the models that come with them, products by tiles in local memory,
# ResNet-50, and the conformance suite.
# Of the suite, and of what takes long, a part, in the world all (cmake/ci/world.sh).
# usage: device_test.sh NAME KEEL SUITE PLUGIN RESNET50 [NOT RULES]... [-- OPTION=VALUE...]
# NOT RULES: left out of the suite (op.*); OPTION: of the plugin, where it takes it
set -u
. "$(dirname "$0")/../../../cmake/ci/world.sh"
name=$1 keel=$2 suite=$3 plugin=$4 resnet=$5
shift 5
device=$name:0 data=/usr/share/libonnx-testdata/data
"$keel" devices 2>/dev/null | grep -q "^$device" || {
  echo "there is no $device"
  exit 77
}
[ -d $data/node ] || { echo "libonnx-testdata is not installed"; exit 77; }
# a process for each area: what the rules of one compile is compiled once
by_area="--quick --quiet --group area"
failed=0 suite_options="$by_area --not perf.*" keel_options=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  suite_options="$suite_options --not $1"
  shift
done
[ $# -gt 0 ] && shift
for option; do
  if "$keel" devices --option "$name.$option" 2>/dev/null | grep -q "^$device"; then
    suite_options="$suite_options --option $option"
    keel_options="$keel_options --option $name.$option"
  else
    echo "without $option: the device is not there with it"
  fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
set -f # the rules' globs are for the suite

# cases SET PASSED WHOLE [OPTION]...: at least so many pass, so many run on the device alone
cases() {
  set_=$1 passed=$2 whole=$3
  shift 3
  # shellcheck disable=SC2086
  out=$("$keel" onnx-test --device "$device" --quiet $keel_options "$@" "$data/$set_" 2>&1 |
    tail -n 4)
  echo "$set_: $out"
  echo "$out" | awk -v passed="$passed" -v whole="$whole" '
    / cases ran fully/ { got = $2 }
    / passed, / { if ($1 >= passed && $3 == 0 && got >= whole) good = 1 }
    END { exit !good }' || failed=1
}
properties=$("$keel" devices --properties 2>/dev/null | sed -n "/^$device\$/,/^[^ ]/p")
for property in 'api  *[A-Z]' 'local_memory  *[1-9][0-9]* bytes' 'group_size  *[1-9]'; do
  echo "$properties" | grep -q " $property" || {
    echo "no property like \"$property\" in: $properties"
    failed=1
  }
done
# ONNX's cases of single ops: OpenCL has the first half of them and Vulkan the second, as both take
# the families' kernels; in the world each has all
case $(world && echo world || echo "$name") in
world) cases node 890 650 ;;
vulkan) cases node 520 330 --filter 'test_[!a-l]*' ;;
*) cases node 380 330 --filter 'test_[a-l]*' ;;
esac
cases pytorch-converted 82 82
cases pytorch-operator 35 30
if [ "$name" = vulkan ] || world; then # oclgrind takes OpenCL's tiles
  echo "with tiles in local memory, which a software device would not choose:"
  cases pytorch-converted 82 82 --option "$name.tiles=on"
fi

# attention, products and convolutions of many shapes, as the CPU computes them: as the device chooses,
# and by each kind of tiles
# take NAME: tests/NAME.mlir, and what the CPU makes of it
take() {
  shapes=$(dirname "$0")/$1.mlir
  mkdir "$scratch/$1"
  "$keel" run "$shapes" --device cpu:0 --output "$scratch/$1" >/dev/null 2>&1 || failed=1
  set +f
  expected=$(for out in "$scratch/$1"/*.npy; do echo "--expect $out"; done)
  set -f
}
# shapes_by WHAT [OPTION]...
shapes_by() {
  what=$1
  shift
  # shellcheck disable=SC2086
  if "$keel" run "$shapes" --device "$device" --repeat 2 --rtol 1e-4 --atol 1e-4 $keel_options \
    $expected "$@" >"$scratch/out" 2>&1; then
    echo "$(basename "$shapes" .mlir), $what: as on the CPU"
  else
    grep -v 'as expected' "$scratch/out"
    echo "$(basename "$shapes" .mlir), $what: differ from the CPU's"
    failed=1
  fi
}
take attention
shapes_by "as the device chooses"
if [ "$name" = vulkan ]; then # PoCL's compiler takes long over groups that wait
  shapes_by "tiles=on" --option "$name.tiles=on"
fi
take shapes
shapes_by "as the device chooses"
shapes_by "tiles=on" --option "$name.tiles=on"
shapes_by "tiles=off" --option "$name.tiles=off"
for cut in $(some 2 1 4 7 10); do # some of the ways that a search tries
  shapes_by "cut=$cut" --option "$name.cut=$cut"
done

# a search finds nothing without time; what it keeps another process knows, and takes, until it
# is forgotten
# tune STATUS PART [OPTION]...
tune() {
  status=$1 part=$2
  shift 2
  # shellcheck disable=SC2086
  XDG_CACHE_HOME=$scratch/tuned "$keel" tune --device "$device" $keel_options "$@" \
    >"$scratch/out" 2>&1
  got=$?
  if [ $got -ne "$status" ] || ! grep -qE -- "$part" "$scratch/out"; then
    echo "tune $*: status $got (not $status), or no \"$part\" in:"
    cat "$scratch/out"
    failed=1
  fi
}
mkdir "$scratch/tuned"
one=$data/pytorch-converted/test_Conv2d/model.onnx
tune 0 '^no time was left for 1 kernels' --time 0 "$one"
tune 0 ': 1 kernels searched in .*; 0 were known' "$one"
tune 0 ': 0 kernels searched in .*; 1 were known' "$one"
tune 1 'No such file' nowhere.onnx
tune 1 'option tuned is off' --option "$name.tuned=off" "$one"
tune 0 ': 1 results forgotten' --clear
tune 0 ': 0 results forgotten' --clear
rm -rf "$scratch/tuned"
mkdir "$scratch/tuned"
tune 0 'searched' --time 8 "$shapes"
XDG_CACHE_HOME=$scratch/tuned
export XDG_CACHE_HOME
shapes_by "as a search has found"
unset XDG_CACHE_HOME
if [ "$name" = vulkan ]; then # Mesa's subgroups are as wide as the vectors
  for width in $(some 2 128 512); do
    LP_NATIVE_VECTOR_WIDTH=$width MESA_SHADER_CACHE_DISABLE=1 shapes_by "vectors of $width bits"
  done
fi

# without a compiler: kernels that were built with the plugin, the rest elsewhere
if [ "$name" = vulkan ] && command -v glslc >/dev/null; then
  echo "without a compiler:"
  XDG_CACHE_HOME=$scratch/cache
  export XDG_CACHE_HOME
  cases node 890 250 --option vulkan.compiler=off
  unset XDG_CACHE_HOME
fi

"$(dirname "$keel")/../tests/families_index" "$device" || failed=1
"$(dirname "$keel")/../tests/families_order" "$device" || failed=1
"$(dirname "$keel")/../tests/families_chain" "$device" 8 || failed=1

# what the device was told, done again without Keel
replay=$(dirname "$keel")/../bench/${name}_replay
model=$data/pytorch-converted/test_Conv2d_depthwise
if [ -x "$replay" ]; then
  mkdir "$scratch/told"
  if "$keel" run "$model/model.onnx" --device "$device" $keel_options \
    --output "$scratch/told" --input $model/test_data_set_0/input_0.pb \
    --option "$name.script=$scratch/script" \
    >"$scratch/out" 2>&1 &&
    "$replay" "$scratch/script" 1 "$scratch/raw" >>"$scratch/out" 2>&1 &&
    tail -c "$(wc -c <"$scratch/raw")" "$(find "$scratch/told" -name '*.npy')" |
    cmp - "$scratch/raw"; then
    echo "a script, by the raw API: the same output"
  else
    cat "$scratch/out"
    echo "a script, by the raw API: another output"
    failed=1
  fi
fi

# the same picture on both devices; a small one, as a software device takes 20 s for a whole one
"$resnet" --size 64 --repeat 1 | sed -n 's/^top 5[^:]*: //p' >"$scratch/cpu"
"$resnet" --device "$device" --size 64 --repeat 1 | sed -n 's/^top 5[^:]*: //p' >"$scratch/$name"
if cmp -s "$scratch/cpu" "$scratch/$name" && [ -s "$scratch/cpu" ]; then
  echo "ResNet-50: as on the CPU"
else
  echo "ResNet-50: differs from the CPU's"
  failed=1
fi

# Vulkan's validation, which the cases above ran under, takes much time of op.*; and so do
# all element types, which vulkan_full has
apart=
if [ "$name" = vulkan ]; then
  apart="--rule op.* --dtype" suite_options="$suite_options --not op.*"
fi
# suite WHAT ARGUMENT...: the conformance suite, and how it ends
suite() {
  what=$1
  shift
  "$suite" run "$plugin" "$@" >"$scratch/conformance" 2>&1 || {
    cat "$scratch/conformance"
    failed=1
  }
  echo "$what: $(tail -n 1 "$scratch/conformance")"
}
# shellcheck disable=SC2086
suite "the suite" $suite_options $(shard 4)
for type in ${apart:+$(some 2 f32 i32)}; do
  # shellcheck disable=SC2086
  suite "$apart $type" $by_area $apart $type
done

# Mesa's software device takes other ways in f64 by the width of the processor's vectors:
# also by those that this one does not choose
if [ "$name" = vulkan ]; then
  for width in $(some 2 512 128); do
    # shellcheck disable=SC2086
    LP_NATIVE_VECTOR_WIDTH=$width MESA_SHADER_CACHE_DISABLE=1 suite \
      "f64 in vectors of $width bits" $by_area --rule op.exact --rule op.nan-inf --dtype f64
  done
fi

# recordings as command buffers, which a processor's driver does not choose; without the cases
# of all ops that this rule has of its own, which ran above
if [ "$name" = opencl ]; then
  # shellcheck disable=SC2086
  suite "with command buffers" $by_area --rule 'capture.*' --not kernel.inputs-untouched \
    --option commands=on
  grep 'recordings are lists' "$scratch/conformance"
fi
exit $failed
