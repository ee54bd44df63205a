#!/bin/sh
# The `keel` command as a user meets it: results, errors, exit statuses.
# usage: command_test.sh KEEL MINIMAL_PLUGIN
set -u
keel=$1
minimal=$2
data=/usr/share/libonnx-testdata/data
[ -d $data/node ] || { echo "libonnx-testdata is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect STATUS PART COMMAND...: the exit status, and a part of what it says
expect() {
  status=$1
  part=$2
  shift 2
  "$@" >"$scratch/out" 2>&1
  got=$?
  if [ $got -ne "$status" ] || ! grep -qF -- "$part" "$scratch/out"; then
    echo "FAILED: $*: status $got (not $status), or no \"$part\" in:"
    cat "$scratch/out"
    failed=1
  fi
}

case=$data/pytorch-converted/test_Conv2d
set_0=$case/test_data_set_0
model=$case/model.onnx

expect 0 "usage: keel COMMAND" "$keel" --help
expect 2 "usage: keel COMMAND" "$keel"
expect 2 "no command \"fly\"" "$keel" fly
for command in plugins devices ops passes compile run onnx-test; do
  expect 0 "usage: keel $command" "$keel" $command --help
  expect 2 "--help" "$keel" $command --nonsense
done
expect 0 "status     loaded" "$keel" plugins
expect 0 "\"status\": \"OK\"" "$keel" plugins --json
expect 1 "REFUSED" "$keel" plugins --plugin "$model"
expect 0 "cpu:0" "$keel" devices
expect 0 "was refused" "$keel" devices --plugin "$model"
expect 1 "look at the plugin's options" "$keel" plugins --option cpu.isa=abacus
expect 0 "MatMul" "$keel" ops --device minimal --plugin "$minimal"
expect 1 "there is no device \"tpu\"" "$keel" ops --device tpu

expect 0 "as expected" "$keel" run "$model" --input $set_0/input_0.pb \
  --expect $set_0/output_0.pb
expect 1 "DIFFERS" "$keel" run "$model" --expect $set_0/output_0.pb
expect 0 "random, seed 7" "$keel" run "$model" --seed 7
expect 0 "as expected" "$keel" run "$model" --eager \
  --input $set_0/input_0.pb --expect $set_0/output_0.pb
expect 0 "Conv" "$keel" run "$model" --repeat 3 --profile
expect 0 "\"first_ms\"" "$keel" run "$model" --json
expect 1 "No such file" "$keel" run nowhere.onnx
expect 0 "[cse]" "$keel" passes
expect 0 "\"pass\": \"cse\"" "$keel" passes --json
expect 0 "output" "$keel" run "$model" --skip-pass cse --skip-pass fuse
expect 1 "no pass \"sse\"" "$keel" run "$model" --skip-pass sse
expect 2 "which model?" "$keel" run
expect 0 "1 ops" "$keel" compile "$model" -o "$scratch/m.keel"
expect 0 "as expected" "$keel" run "$scratch/m.keel" \
  --input $set_0/input_0.pb --expect $set_0/output_0.pb
expect 0 "1 ops" "$keel" compile "$scratch/m.keel" -o "$scratch/m.mlir" --text
expect 0 "as expected" "$keel" run "$scratch/m.mlir" \
  --input $set_0/input_0.pb --expect $set_0/output_0.pb
expect 0 "1 ops" "$keel" compile "$scratch/m.mlir" -o "$scratch/c.keel" \
  --device cpu:0
expect 0 "as expected" "$keel" run "$scratch/c.keel" \
  --input $set_0/input_0.pb --expect $set_0/output_0.pb
expect 1 "there is no device \"cpu:0\"" "$keel" run "$scratch/c.keel" --only \
  --plugin "$minimal"
expect 0 "// after fuse" "$keel" compile "$model" --dump-after fuse
expect 0 "keel.constant" "$keel" compile "$model" --dump-after all
expect 1 "there is no pass \"fuze\"" "$keel" compile "$model" --dump-after fuze
expect 2 "where to?" "$keel" compile "$model"
expect 2 "which model?" "$keel" compile
expect 0 "best" "$keel" run "$model" --repeat 9 --trace "$scratch/trace.json"
expect 0 "9 runs" python3 "$(dirname "$0")/check_trace.py" "$scratch/trace.json"
expect 1 "can't be written" "$keel" run "$model" --trace /nowhere/trace.json
expect 1 "the run is past its deadline" "$keel" run "$model" \
  --timeout 0.0001
expect 1 "can't be written" "$keel" compile "$model" -o /nowhere/m.keel
expect 1 "there is no device \"tpu\"" "$keel" compile "$model" \
  -o "$scratch/m.keel" --device tpu
head -c 999 "$scratch/m.keel" >"$scratch/cut.keel"
expect 1 "is damaged: it has 999 bytes" "$keel" run "$scratch/cut.keel"
expect 2 "needs a value" "$keel" run "$model" --input
expect 2 "no number" "$keel" run "$model" --repeat often
expect 1 "no valid ModelProto" "$keel" run $set_0/input_0.pb
expect 1 "do not fit W" "$keel" run "$model" --input $set_0/output_0.pb
expect 0 "output" "$keel" run "$model" --input $set_0/input_0.pb \
  --output "$scratch/outputs"
for file in "$scratch"/outputs/*.npy; do
  expect 0 "as expected" "$keel" run "$model" --input $set_0/input_0.pb \
    --expect "$file"
done
expect 0 "as expected" "$keel" run $data/node/test_relu/model.onnx \
  --plugin "$minimal" --device minimal \
  --input x=$data/node/test_relu/test_data_set_0/input_0.pb \
  --expect $data/node/test_relu/test_data_set_0/output_0.pb
expect 0 "3 passed, 0 failed, 0 skipped" "$keel" onnx-test --only \
  --plugin "$minimal" $data/node/test_relu $data/node/test_add \
  $data/node/test_matmul_2d
expect 0 "no device has a kernel for Neg" "$keel" onnx-test --only \
  --plugin "$minimal" $data/node/test_neg
expect 1 "no such folder" "$keel" onnx-test /nowhere
# names of open dimensions: of ONNX, and of random inputs
expect 0 ops "$keel" compile --text -o "$scratch/names.mlir" \
  $data/node/test_sequence_map_identity_2_sequences/model.onnx
expect 0 'input_symbols = [["N"], ["M"]]' cat "$scratch/names.mlir"
named=$(dirname "$0")/data/v2.mlir
expect 0 "f32[4,3,1]" "$keel" run "$named" --dim batch=4
expect 2 'inputs have "batch"' "$keel" run "$named" --dim channels=4
expect 2 "is no NAME=SIZE" "$keel" run "$named" --dim batch=99999999999999999999
expect 1 "keel:" "$keel" run "$named" --dim batch=9223372036854775807
expect 1 "keel:" "$keel" run "$named" --shape x=3000000000x3x3000000000
expect 0 "f32[0,3,1]" "$keel" run "$named" --dim batch=0
sed 's/the \\"length\\"/bat/g' "$named" >"$scratch/bat.mlir" # a part of another name
expect 0 "f32[1,3,4]" "$keel" run "$scratch/bat.mlir" --dim bat=4
expect 2 "is no NAME=SIZE" "$keel" run "$named" --dim batch=-4
expect 1 "one size \"batch\", which is 2 in" "$keel" run "$named" --shape x=2x3x5 \
  --shape mask=3x5
exit $failed
