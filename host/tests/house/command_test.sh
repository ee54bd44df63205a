#!/bin/sh
# The `keel` command as a user meets it: results, errors, exit statuses.
# usage: command_test.sh KEEL MINIMAL_PLUGIN GRAPH_NPU_PLUGIN PLUGIN_THAT_EXITS
#        PLUGIN_WITH_COPIES
set -u
keel=$1
minimal=$2
npu=$3
exits=$4
copies=$5
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

# plain COMMAND...: what it says has no escape sequence
plain() {
  "$@" >"$scratch/out" 2>&1
  if grep -q "$(printf '\033')" "$scratch/out" || ! grep -qF 'a?[31mb' "$scratch/out"; then
    echo "FAILED: $*: not plain:"
    cat -v "$scratch/out"
    failed=1
  fi
}

expect 2 "names no input of the model, and there is no such file; its inputs are \"0\"" \
  "$keel" run "$model" --input "q=$set_0/input_0.pb"
expect 2 "input \"0\" is given twice" "$keel" run "$model" --input "0=$set_0/input_0.pb" \
  --input "0=$set_0/input_0.pb"
expect 0 "usage: keel COMMAND" "$keel" --help
expect 2 "usage: keel COMMAND" "$keel"
expect 2 "unknown command \"fly\"" "$keel" fly
cd "$scratch" || exit 1 # what a word might be taken for a file's name of
for command in plugins devices ops passes compile run tune onnx-test doctor; do
  expect 0 "usage: keel $command" "$keel" $command --help
  expect 0 "usage: keel $command" "$keel" $command word -h --nonsense
  expect 0 "usage: keel $command" "$keel" help $command
  expect 2 "unknown option \"--nonsense\"" "$keel" $command --nonsense
  expect 2 "--help" "$keel" $command --nonsense=3 word
  expect 2 "--plugin needs a value" "$keel" $command --plugin
  expect 2 "is an option" "$keel" $command --option --only
done
for command in run compile; do
  expect 2 "one model at a time" "$keel" $command "$model" "$model"
done
expect 2 "the command must come first" "$keel" --json plugins
expect 2 "unknown command \"fly\"" "$keel" help fly
for option in device place skip-pass input shape dim seed expect rtol atol output \
  repeat timeout trace threads; do
  expect 2 "--$option needs a value" "$keel" run "$model" --$option
  expect 2 "\"--json\" is an option" "$keel" run --$option --json "$model"
done
for option in o -output -device -dump-after -place -skip-pass -threads; do
  expect 2 "-$option needs a value" "$keel" compile "$model" -$option
  expect 2 "\"--text\" is an option" "$keel" compile -$option --text "$model"
done
for option in device filter through rtol atol threads; do
  expect 2 "--$option needs a value" "$keel" onnx-test "$case" --$option
  expect 2 "\"--quiet\" is an option" "$keel" onnx-test --$option --quiet "$case"
done
for wrong in repeat=often repeat=0 repeat=2.5 repeat= seed=x seed=-1 seed=1e3 \
  seed=18446744073709551616 rtol=x rtol=nan rtol=inf rtol=-1 atol= timeout=-1 \
  threads=x threads=-1 threads=1026 threads=2.5; do
  expect 2 "it must be a" "$keel" run --$wrong "$model"
done
for option in device time dim; do
  expect 2 "--$option needs a value" "$keel" tune "$model" --$option
  expect 2 "\"--clear\" is an option" "$keel" tune --$option --clear "$model"
done
expect 2 "name the device" "$keel" tune "$model"
expect 2 "--clear takes no model" "$keel" tune --device cpu:0 --clear "$model"
for time in x -1 nan 1s ''; do
  expect 2 "must be a number, 0 or more" "$keel" tune --device cpu:0 --time=$time
done
for dim in batch batch= =4 batch=x batch=-1 batch=99999999999; do
  expect 2 "does not have the form NAME=SIZE" "$keel" tune --device cpu:0 --dim $dim "$model"
done
expect 1 "there is no device \"tpu\"" "$keel" tune --device tpu "$model"
expect 1 "cpu:0 has nothing to search for" "$keel" tune --device cpu:0 "$model"
expect 1 "cpu:0 has nothing to search for" "$keel" tune --device cpu:0 --clear
expect 2 "must be a number, 0 or more" "$keel" onnx-test "$case" --rtol=x
expect 2 "whole number from 0 to 1025" "$keel" compile "$model" --threads=x -o m.keel
expect 2 "does not have the form INPUT=2x3" "$keel" run "$model" --shape nothing=2x3
expect 2 "does not have the form INPUT=2x3" "$keel" run "$model" --shape 0=2xq
[ -z "$(ls | grep -v '^out$')" ] || { echo "FAILED: a word became a file"; failed=1; }
for threads in 0 1 3; do
  expect 0 "\"threads\": $((threads > 1 ? threads : 1))," "$keel" run "$model" \
    --threads $threads --json
  expect 0 "1 passed" "$keel" onnx-test --threads $threads "$case"
  expect 0 "1 ops" "$keel" compile "$model" --threads $threads -o threads.keel
done
expect 0 "\"threads\": 1," env KEEL_THREADS=0 "$keel" run "$model" --json
expect 1 "there is no case" "$keel" onnx-test "$scratch"
expect 1 "matches nothing*" "$keel" onnx-test --filter 'nothing*' "$case"
expect 0 "status     loaded" "$keel" plugins
expect 0 "\"status\": \"OK\"" "$keel" plugins --json
expect 1 "REFUSED" "$keel" plugins --plugin "$model"
expect 0 "cpu:0" "$keel" devices
expect 0 "memory" "$keel" devices --properties
expect 0 "\"compute_units\": {\"value\": " "$keel" devices --properties --json
"$keel" devices --properties --json 2>/dev/null | python3 -m json.tool >/dev/null ||
  { echo "FAILED: properties are no JSON"; failed=1; }
"$keel" plugins --options --json 2>/dev/null | python3 -m json.tool >/dev/null ||
  { echo "FAILED: options are no JSON"; failed=1; }
expect 1 "a plugin that was named is refused: $model: " "$keel" devices --plugin "$model"
for command in "run $model" "compile $model -o $scratch/named.keel" "onnx-test $set_0" "ops"; do
  # shellcheck disable=SC2086
  expect 1 "a plugin that was named is refused: /nope.so: no such file" "$keel" $command --plugin /nope.so
  # shellcheck disable=SC2086
  expect 1 "option isa is \"avx9\"" "$keel" $command --option cpu.isa=avx9
done
expect 0 "a plugin is refused: " env KEEL_CPU_ISA=avx9 "$keel" run "$model"
expect 1 "look at the plugin's options" "$keel" plugins --option cpu.isa=abacus
expect 1 "has no option \"iza\" (from the application); nearest are isa, " \
  "$keel" plugins --option cpu.iza=base
expect 1 "products=tiles         tiles|openblas" "$keel" plugins --options --option cpu.isa=abacus
expect 0 "options    not listed" "$keel" plugins --options --plugin "$minimal"
expect 0 "\"name\": \"products\", \"type\": \"text\", \"choices\": \"tiles|openblas\", \"default\": \"tiles\"" \
  "$keel" plugins --options --json
expect 0 "\"options\": null" "$keel" plugins --options --json --plugin "$minimal"
expect 2 "unknown option \"--options\"" "$keel" devices --options
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
if [ -r /proc/self/status ]; then
  expect 0 "\"resident_most_bytes\": " "$keel" run "$model" --json
  expect 0 "resident memory: " "$keel" run "$model"
fi
expect 1 "No such file" "$keel" run nowhere.onnx
expect 0 "[cse]" "$keel" passes
expect 0 "\"pass\": \"cse\"" "$keel" passes --json
expect 0 "output" "$keel" run "$model" --skip-pass cse --skip-pass fuse
expect 1 "no pass \"sse\"" "$keel" run "$model" --skip-pass sse
expect 2 "give a model file" "$keel" run
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
expect 2 "no output file: give -o FILE" "$keel" compile "$model"
expect 2 "give a model file" "$keel" compile
expect 0 "best" "$keel" run "$model" --repeat 9 --trace "$scratch/trace.json"
expect 0 "9 runs" python3 "$(dirname "$0")/../base/check_trace.py" "$scratch/trace.json"
expect 1 "can't be written" "$keel" run "$model" --trace /nowhere/trace.json
expect 1 "is past its deadline" "$keel" run "$model" \
  --timeout 0.0001
expect 1 "can't be written" "$keel" compile "$model" -o /nowhere/m.keel
expect 1 "there is no device \"tpu\"" "$keel" compile "$model" \
  -o "$scratch/m.keel" --device tpu
head -c 999 "$scratch/m.keel" >"$scratch/cut.keel"
expect 1 "is damaged: it has 999 bytes" "$keel" run "$scratch/cut.keel"
expect 2 "needs a value" "$keel" run "$model" --input
expect 1 "not a valid ModelProto" "$keel" run $set_0/input_0.pb
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
# what Keel lacks is skipped, with the reason; another value is a failure
python3 - "$data/node" "$scratch/cases" <<'END' || failed=1
import pathlib, shutil, sys

def case(name, of, swap, expect=None):
    folder = pathlib.Path(sys.argv[2]) / name
    shutil.copytree(pathlib.Path(sys.argv[1]) / of, folder)
    model = folder / "model.onnx"
    data = model.read_bytes()
    for old, new in swap:
        assert data.count(old) == 1 and len(old) == len(new), (name, old)
        data = data.replace(old, new)
    model.write_bytes(data)
    if expect:
        (folder / "test_data_set_0/output_0.pb").write_bytes(
            (folder / "test_data_set_0" / expect).read_bytes())

cast = "test_cast_FLOAT_to_DOUBLE"
case("skip/c64", cast, [(b"input\x12\x0e\n\x0c\x08\x01", b"input\x12\x0e\n\x0c\x08\x0e")])
case("skip/type30", cast, [(b"to\x18\x0b", b"to\x18\x1e")])
case("skip/to_c64", cast, [(b"to\x18\x0b", b"to\x18\x0e"),
                           (b"output\x12\x0e\n\x0c\x08\x0b", b"output\x12\x0e\n\x0c\x08\x0e")])
case("skip/attribute", "test_leakyrelu", [(b"alpha", b"alphx")])
case("skip/op", "test_leakyrelu", [(b"LeakyRelu", b"LeakyRelx")])
case("skip/type", "test_not_2d", [(b"x\x12\x0e\n\x0c\x08\x09", b"x\x12\x0e\n\x0c\x08\x01")])
case("fail/value", "test_leakyrelu", [], "input_0.pb")
END
expect 0 "0 passed, 0 failed, 6 skipped" "$keel" onnx-test "$scratch/cases/skip"
for reason in "X of Cast as c64 is not supported" \
  '"to" is element type 30, which Keel does not have yet' \
  "no device takes Cast(f32[3,4]) -> c64[3,4]; asked for cpu:0" \
  'attribute "alphx" of LeakyRelu is not supported' \
  "there is no op LeakyRelx; did you mean LeakyRelu?" \
  "X of Not as f32 is not supported"; do
  expect 0 "$reason" "$keel" onnx-test "$scratch/cases/skip"
done
expect 1 "0 passed, 1 failed, 0 skipped" "$keel" onnx-test "$scratch/cases/fail"
# a plugin ends the process with status 0: the command was not done
for command in devices plugins ops "doctor --time 0"; do
  # shellcheck disable=SC2086
  expect 1 "$exits: it ended its process in entry, with exit status 0" \
    "$keel" $command --plugin "$exits"
done
for words in "run $model" "compile $model -o $scratch/e.keel"; do
  # shellcheck disable=SC2086
  expect 1 "the command is not done" "$keel" $words --plugin "$exits"
done
# a plugin with cJSON, PCRE2 and protobuf-c of its own has its own, and the host the host's
printf '{"library": "%s", "name": "other"}' "$minimal" >"$scratch/other.json"
expect 0 "status     loaded" "$keel" plugins --only --plugin "$copies"
expect 1 "a plugin named \"minimal\" is loaded from $copies" "$keel" plugins --only \
  --plugin "$copies" --plugin "$scratch/other.json"
expect 0 "as expected" "$keel" run "$model" --plugin "$copies" --input $set_0/input_0.pb \
  --expect $set_0/output_0.pb
# what is closed is not what is printed to
"$keel" devices >&- 2>"$scratch/out"
[ $? -eq 1 ] && grep -qF "standard output can't be written" "$scratch/out" || {
  echo "FAILED: devices without standard output"
  failed=1
}
"$keel" compile "$model" -o "$scratch/closed.keel" >&- 2>/dev/null
expect 0 "as expected" "$keel" run "$scratch/closed.keel" \
  --input $set_0/input_0.pb --expect $set_0/output_0.pb
# outputs whose names are files' names differ where the names do
cat >"$scratch/names.mlir" <<'END'
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<2xf32>):
    %1 = "onnx.Neg"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = "onnx.Abs"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %3 = "onnx.Exp"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %4 = "onnx.Sqrt"(%2) : (tensor<2xf32>) -> tensor<2xf32>
    "keel.return"(%1, %2, %3, %4) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> ()
  }) {version = 1 : i64, name = "names", inputs = ["x"], input_types = [tensor<2xf32>], outputs = ["a/b", "a_b", "a_b-2", "../a"], output_types = [tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>]} : () -> ()
}) : () -> ()
END
expect 0 "output a_b-2" "$keel" run "$scratch/names.mlir" --output "$scratch/names"
expect 0 ".._a.npy a_b-2.npy a_b-3.npy a_b.npy" sh -c "cd '$scratch/names' && echo .._a.npy a*"
# bf16 in a .npy: as f32, and that is said
cat >"$scratch/half.mlir" <<'END'
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<2xf32>):
    %1 = "onnx.Cast"(%0) {to = 16 : i64} : (tensor<2xf32>) -> tensor<2xbf16>
    "keel.return"(%1) : (tensor<2xbf16>) -> ()
  }) {version = 1 : i64, name = "half", inputs = ["x"], input_types = [tensor<2xf32>], outputs = ["y"], output_types = [tensor<2xbf16>]} : () -> ()
}) : () -> ()
END
expect 0 "y is bf16, and $scratch/half/y.npy has it as f32" "$keel" run \
  "$scratch/half.mlir" --output "$scratch/half"
expect 0 "'<f4'" cat "$scratch/half/y.npy"
expect 0 "bf16 and types of 8" "$keel" run --help
# layers: one that can't be is refused, and trace shows by itself
expect 1 "did you mean memory.allocate?" env KEEL_LAYERS=fault:memory.alocate=1 \
  "$keel" run "$model"
expect 1 "there is no layer \"tracing\"" env KEEL_LAYERS=tracing "$keel" devices
expect 0 "trace: kernel.enqueue(" env -u KEEL_LOG KEEL_LAYERS=trace "$keel" run "$model"
expect 0 "KEEL_LOG is \"loud\"" env KEEL_LOG=loud "$keel" devices
expect 0 "KEEL_LAYERS" "$keel" --help
# a plugin that was refused is why its device is missed
cp "$minimal" "$scratch/mine.so"
chmod 666 "$scratch/mine.so"
expect 1 "a plugin that was named is refused: $scratch/mine.so: the file is writable by everyone" \
  "$keel" run "$model" --plugin "$scratch/mine.so" --device minimal
chmod 644 "$scratch/mine.so"
chmod 1777 "$scratch"
expect 0 "minimal:0" "$keel" devices --plugin "$scratch/mine.so"
chmod 700 "$scratch"
# compiled ahead: the file has what the device's compiler made, and a process without a
# store compiles nothing; where it is damaged, or left out, the compiler is called
without_store() {
  env -u KEEL_LOG XDG_CACHE_HOME=/dev/null/nowhere KEEL_LAYERS=trace "$@"
}
calls() { # how many of "region.$2" the command at $3... makes; $1 are wanted
  wanted=$1
  slot=$2
  shift 2
  without_store "$@" >"$scratch/out" 2>&1
  got=$(grep -c "trace: region.$slot OK" "$scratch/out")
  if [ "$got" -ne "$wanted" ]; then
    echo "FAILED: $*: $got calls of region.$slot, not $wanted, in:"
    cat "$scratch/out"
    failed=1
  fi
}
ahead=$scratch/ahead.keel
expect 0 "1 compiled region in it, 0." without_store "$keel" compile "$model" \
  --device graph_npu --plugin "$npu" -o "$ahead"
calls 1 compile "$keel" run "$model" --device graph_npu --plugin "$npu"
calls 0 compile "$keel" run "$ahead" --plugin "$npu"
calls 1 load "$keel" run "$ahead" --plugin "$npu"
expect 0 "as expected" without_store "$keel" run "$ahead" --plugin "$npu" \
  --input $set_0/input_0.pb --expect $set_0/output_0.pb
size=$(wc -c <"$ahead") # the form is the last in the file
head -c $((size - 100)) "$ahead" >"$scratch/bad.keel"
printf %s 0123456789 >>"$scratch/bad.keel"
tail -c 90 "$ahead" >>"$scratch/bad.keel"
calls 1 compile "$keel" run "$scratch/bad.keel" --plugin "$npu"
expect 0 "warning: graph_npu:0 can't use a compiled form of the program" \
  without_store "$keel" run "$scratch/bad.keel" --plugin "$npu"
expect 0 "1 compiled region left out: text holds none" "$keel" compile "$ahead" \
  --plugin "$npu" --text -o "$scratch/ahead.mlir"
calls 1 compile "$keel" run "$scratch/ahead.mlir" --plugin "$npu"
calls 0 compile "$keel" compile "$model" --device graph_npu --plugin "$npu" --text \
  -o "$scratch/ahead.mlir"
expect 0 "1 region not in it: the plugin provides no compiled form, so each run compiles them" \
  "$keel" compile $data/pytorch-operator/test_operator_basic/model.onnx --device cpu -o "$ahead"
# names of open dimensions: of ONNX, and of random inputs
expect 0 ops "$keel" compile --text -o "$scratch/names.mlir" \
  $data/node/test_sequence_map_identity_2_sequences/model.onnx
expect 0 'input_symbols = [["N"], ["M"]]' cat "$scratch/names.mlir"
named=$(dirname "$0")/../data/v2.mlir
expect 0 "f32[4,3,1]" "$keel" run "$named" --dim batch=4
expect 2 'inputs have "batch"' "$keel" run "$named" --dim channels=4
expect 2 "is not NAME=SIZE" "$keel" run "$named" --dim batch=99999999999999999999
expect 2 'inputs have "batch"' "$keel" compile "$named" --np 2 --split data --dim Batch=4 \
  -o "$scratch/named"
# what differs: by itself, and by the largest of what is expected
npy() {
  printf '\223NUMPY\001\000\166\000%-117s\n' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
  printf "$1"
}
hundred='\000\000\310\102'
npy "$hundred"'\157\022\203\072' >"$scratch/got.npy" # 100, 0.001
npy "$hundred"'\064\200\267\072' >"$scratch/near.npy" # 100, 0.0014
npy "$hundred"'\047\240\011\073' >"$scratch/far.npy"  # 100, 0.0021
cat >"$scratch/relu.mlir" <<'END'
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<2xf32>):
    %1 = "onnx.Relu"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    "keel.return"(%1) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
END
differs() { # $1 status, $2 the file that is expected, then options
  status=$1
  wanted=$2
  shift 2
  expect $status "output" "$keel" run "$scratch/relu.mlir" --input "$scratch/got.npy" \
    --expect "$scratch/$wanted.npy" "$@"
}
differs 0 got
differs 0 near
differs 1 far
differs 1 near --atol 1e-7
differs 0 far --atol 2e-3
# sizes that a device's compiler needs, as `keel run` takes them
fixed() { # $1 status, $2 text, then options
  status=$1
  text=$2
  shift 2
  expect $status "$text" "$keel" compile "$named" --device graph_npu --plugin "$npu" \
    -o "$scratch/fixed.keel" "$@"
}
fixed 0 'for one set of sizes give --dim batch=N --dim the "length"=N'
fixed 0 'give --dim the "length"=N' --dim batch=2
sed 's/"batch"/""/g' "$named" >"$scratch/unnamed.mlir"
expect 0 "give --shape x=AxB --shape mask=AxB" "$keel" compile "$scratch/unnamed.mlir" \
  --device graph_npu --plugin "$npu" -o "$scratch/fixed.keel"
fixed 0 "1 compiled region in it" --shape x=2x3x5 --shape mask=2x5
fixed 0 "1 compiled region in it" --shape x=2x3x5 --shape mask=2x5 --dim batch=2
expect 0 "f32[2,3,5]" "$keel" run "$scratch/fixed.keel" --plugin "$npu"
expect 1 "for which it is compiled" "$keel" run "$scratch/fixed.keel" --plugin "$npu" \
  --shape x=4x3x5
fixed 1 'dimension 0 of input "mask" is 2, and can' --shape x=2x3x5 --shape mask=3x5
fixed 1 'dimension 1 of input "x" is 3, and can' --shape x=2x4x5
fixed 1 'input "x" has 3 dimensions, not 2' --shape x=2x3
fixed 2 'are two sizes of dimension "batch"' --shape x=2x3x5 --dim batch=4
fixed 2 'are two sizes of dimension "batch"' --dim batch=3 --shape mask=2x6
fixed 2 'are two sizes of dimension "batch"' --dim batch=4 --dim batch=3
fixed 2 'are two sizes of input "x"' --shape x=2x3x5 --shape x=4x3x5
fixed 1 "is too large" --dim batch=9223372036854775807
fixed 2 'inputs have "batch"' --dim channels=4
fixed 2 "does not have the form INPUT=2x3" --shape X=2x3x5
fixed 2 "is not NAME=SIZE" --dim batch=99999999999999999999
fixed 2 "--split takes sizes by --dim, not --shape" --np 2 --split data --shape x=2x3x5
expect 0 "named.1: " "$keel" compile "$named" --np 2 --split data --dim batch=4 --dim batch=3 \
  -o "$scratch/named"
expect 1 "keel:" "$keel" run "$named" --dim batch=9223372036854775807
expect 1 "keel:" "$keel" run "$named" --shape x=3000000000x3x3000000000
expect 0 "f32[0,3,1]" "$keel" run "$named" --dim batch=0
expect 0 "f32[2,3,1]" "$keel" run "$named" --dim batch=2 --shape mask=2x1
expect 2 'are two sizes of dimension "batch"' "$keel" run "$named" --dim batch=4 --shape mask=2x1
expect 2 'are two sizes of dimension "batch"' "$keel" run "$named" --dim batch=4 --dim batch=3
expect 2 'are two sizes of input "mask"' "$keel" run "$named" --shape mask=2x1 --shape mask=4x1
sed 's/the \\"length\\"/bat/g' "$named" >"$scratch/bat.mlir" # a part of another name
expect 0 "f32[1,3,4]" "$keel" run "$scratch/bat.mlir" --dim bat=4
expect 2 "is not NAME=SIZE" "$keel" run "$named" --dim batch=-4
expect 1 "one size \"batch\", which is 2 in" "$keel" run "$named" --shape x=2x3x5 \
  --shape mask=3x5
# what is wrong, and what to do
expect 0 "nothing is wrong" "$keel" doctor --only --plugin "$minimal" --time 0.01
expect 0 "minimal:0: multiplies matrices of 256 x 256" "$keel" doctor --only \
  --plugin "$minimal" --time 0.01
expect 1 "KEEL_DEVCE: is not known" env KEEL_DEVCE=cpu "$keel" doctor --time 0
expect 0 "ok    KEEL_CPU_ISA: base" env KEEL_CPU_ISA=base "$keel" doctor --time 0
expect 1 "/nope: No such file" env KEEL_PLUGIN_PATH=/nope "$keel" doctor --time 0
mkdir -m 777 "$scratch/open"
expect 1 "writable by everyone" env KEEL_PLUGIN_PATH="$scratch/open" "$keel" doctor --time 0
expect 1 "not a shared library" "$keel" doctor --plugin "$model" --time 0
expect 1 "does not multiply" env KEEL_LAYERS=fault:kernel.enqueue=1:INTERNAL "$keel" doctor \
  --only --plugin "$minimal" --time 0.01
expect 1 "devices: there is none" "$keel" doctor --only
expect 2 "--time is \"x\"" "$keel" doctor --time x
# the story of a load and of a placement
story() {
  KEEL_LOG=debug KEEL_PLUGIN_PATH=/nope "$keel" run $data/node/test_matmul_3d/model.onnx \
    --plugin "$minimal" --device minimal
}
expect 0 "(application): minimal 1.0, ABI 0.10; kernels: 3, devices: 1; " story
expect 0 "/nope (environment KEEL_PLUGIN_PATH): refused: /nope: no such file; correct the path" story
expect 0 "(system's manifest): " story
expect 0 "MatMul on cpu:0: minimal:0 has no kernel for MatMul(f32[2,3,4], f32[2,4,3]) -> (f32[2,3,3]) (minimal: rank 3" \
  story
# a fault that did not come is told
expect 0 "nothing failed: kernel.enqueue was called 1 times, and call 9 was to fail" \
  env KEEL_LAYERS=fault:kernel.enqueue=9 "$keel" run $data/node/test_matmul_3d/model.onnx
expect 1 "layer fault: call 1 of kernel.enqueue failed" \
  env KEEL_LOG=info KEEL_LAYERS=fault:kernel.enqueue=1 "$keel" run \
  $data/node/test_matmul_3d/model.onnx
# a new plugin
expect 0 "usage: keel new-plugin" "$keel" new-plugin --help
expect 2 "give the plugin's name" "$keel" new-plugin
expect 2 "give the plugin's name" "$keel" new-plugin a b
expect 2 "is not a plugin name" "$keel" new-plugin Acme
expect 2 "is not a plugin name" "$keel" new-plugin abcdefghijklmnopqrstuvwxyz01234567
expect 2 "is reserved by the headers" "$keel" new-plugin keel
expect 2 "or by CMake" "$keel" new-plugin test
expect 2 "from 0 to 3" "$keel" new-plugin acme --level 4
expect 2 "unknown option \"--plugin\"" "$keel" new-plugin acme --plugin x
expect 0 "a plugin of level 2 (replay)" "$keel" new-plugin int-a_1 --level 2 --out "$scratch/a/b"
expect 0 "int_a_1_push" cat "$scratch/a/b/stream.c"
expect 0 "\"int-a_1\"" cat "$scratch/a/b/plugin.c"
expect 1 "is there already" "$keel" new-plugin int-a_1 --out "$scratch/a/b"
expect 1 "can't make the folder" "$keel" new-plugin acme --out "$model/x"
# names of files are no commands to a terminal
odd=$scratch/$(printf 'a\033[31mb')
plain "$keel" "$odd"
plain "$keel" run "$odd"
plain "$keel" run "$model" "$odd"
plain "$keel" run "$model" --input "0=$odd"
plain "$keel" run "$model" --output "$odd/none"
plain "$keel" compile "$odd" -o "$scratch/e.keel"
plain "$keel" compile "$model" -o "$odd"
plain "$keel" onnx-test "$odd"
exit $failed
