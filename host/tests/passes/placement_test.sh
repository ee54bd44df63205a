#!/bin/sh
# ONNX's models of several ops, each op on another device in turn (those that are there
# of cpu, opencl and vulkan), and placed by cost: the outputs are as expected.
# usage: placement_test.sh KEEL
set -u
keel=$1
data=/usr/share/libonnx-testdata/data/node
[ -d $data ] || { echo "libonnx-testdata is not installed"; exit 77; }
devices=$("$keel" devices --json 2>/dev/null |
  sed -n 's/.*"name": "\([^"]*:0\)".*/\1/p' | tr '\n' ' ')
set -- $devices
count=$#
[ $count -gt 1 ] || { echo "one device alone: $devices"; exit 77; }
failed=0 models=0 places=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for case in test_layer_normalization_4d_axis1_expanded test_mvn_expanded \
  test_layer_normalization_3d_axis0_epsilon_expanded \
  test_sce_mean_3d_log_prob_expanded test_nllloss_NCd1_weight_expanded \
  test_sce_NCd1d2d3_none_no_weight_negative_ii_expanded \
  test_logsoftmax_axis_1_expanded test_softmax_large_number_expanded \
  test_range_float_type_positive_delta_expanded test_celu_expanded \
  test_greater_equal_expanded test_blackmanwindow_expanded; do
  at=$data/$case
  [ -f "$at/model.onnx" ] || continue
  io=
  for file in "$at"/test_data_set_0/input_*.pb; do
    [ -f "$file" ] && io="$io --input $file"
  done
  for file in "$at"/test_data_set_0/output_*.pb; do
    io="$io --expect $file"
  done
  # shellcheck disable=SC2086
  "$keel" run "$at/model.onnx" $io --device cpu:0 --profile --skip-pass regions \
    --skip-pass algebra --skip-pass patterns \
    >"$scratch/cpu" 2>&1 ||
    { cat "$scratch/cpu"; failed=1; continue; }
  rules= n=0
  for op in $(awk '$6 == "cpu:0" { print $7 }' "$scratch/cpu" | sort -u); do
    eval "device=\${$((n % count + 1))}"
    rules="$rules --place $op=$device"
    n=$((n + 1))
  done
  for how in "$rules" "--place auto"; do
    # shellcheck disable=SC2086
    if "$keel" run "$at/model.onnx" $io $how --profile >"$scratch/out" 2>&1; then
      used=$(awk '$6 ~ /:0$/ { print $6 }' "$scratch/out" | sort -u | tr '\n' ' ')
      echo "$case: $n kinds of ops on $used"
      # each device has a line, those of OpenCL and Vulkan by their clocks
      for device in $used; do
        line=$(grep "^$device .* \(by its clock\|as the host saw it\)$" "$scratch/out")
        case $device:$line in
          cpu*:cpu*host\ saw\ it | opencl*:*its\ clock | vulkan*:*its\ clock) ;;
          *) echo "$case: the profile says of $device: $line"; failed=1 ;;
        esac
      done
      [ "$how" = "--place auto" ] || places=$((places + $(echo "$used" | wc -w)))
    else
      echo "$case: with $how"
      cat "$scratch/out"
      failed=1
    fi
  done
  models=$((models + 1))
done
echo "$models models"
# where ops were to run they did
[ $models -gt 5 ] && [ $places -gt $((models + 4)) ] || failed=1
exit $failed
