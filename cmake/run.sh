#!/bin/sh
# Installs what is missing, builds Keel, and runs a real ONNX model on the CPU
# device, its outputs checked against ONNX's own.
#
# usage: sh cmake/run.sh
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh
# shellcheck disable=SC2086
need $build_packages

cmake --preset release
cmake --build --preset release

keel=build/release/bin/keel
cases=/usr/share/libonnx-testdata/data/pytorch-converted
echo
"$keel" plugins
echo
"$keel" devices
echo
model=$cases/test_Conv2d_depthwise_with_multiplier
echo "running $model/model.onnx:"
"$keel" run "$model/model.onnx" --input "$model/test_data_set_0/input_0.pb" \
  --expect "$model/test_data_set_0/output_0.pb" --repeat 10 --profile
echo
echo "running all of $cases:"
"$keel" onnx-test --quiet "$cases"
echo
echo "running ResNet-50 (batch 1, seeded weights):"
build/release/samples/resnet50 --repeat 10
