#!/bin/sh
# The CUDA plugin on the stand-in for a driver (tests/standin/README.md): ONNX's cases, the
# conformance suite, what becomes of failures and of a device that is lost; and without a
# driver: no device, and why.
# usage: standin_test.sh KEEL SUITE PLUGIN STANDINS [SOURCES [--all]]
# Of ONNX's cases, of what the suite does by libraries and on memory that is not aligned, and of the
# kernels that are compiled for real, a part, in the world all (cmake/ci/world.sh).
# STANDINS: the folder of standin_*.so; SOURCES: cuda_sources; it compiles for real all
# kernels that the cases had, each for one architecture in turn; --all: for all of them
set -u
. "$(dirname "$0")/../../../cmake/ci/world.sh"
keel=$1 suite=$2 plugin=$3 driver=$4/standin_driver.so nvrtc=$4/standin_nvrtc.so sources=${5:-} all=${6:-}
blas=$4/standin_cublaslt.so dnn=$4/standin_cudnn.so nccl=$4/standin_nccl.so
data=/usr/share/libonnx-testdata/data failed=0
[ -d $data/node ] || { echo "libonnx-testdata is not installed"; exit 77; }
command -v c++ >/dev/null || { echo "there is no C++ compiler for the stand-in"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
XDG_CACHE_HOME=$scratch/cache
export XDG_CACHE_HOME
on="--device cuda:0 --option cuda.driver=$driver --option cuda.nvrtc=$nvrtc"
with="--option cuda.cublaslt=$blas --option cuda.cudnn=$dnn"
without="--option cuda.cublaslt=off --option cuda.cudnn=off"
options="--option driver=$driver --option nvrtc=$nvrtc"
libraries="--option cublaslt=$blas --option cudnn=$dnn --option nccl=$nccl"

wrong() {
  echo "$1"
  tail -n 40 "$scratch/out" | sed 's/^/  /'
  failed=1
}

# expect WHAT PATTERN COMMAND...: its output has the pattern
expect() {
  what=$1 pattern=$2
  shift 2
  "$@" >"$scratch/out" 2>&1
  grep -q -- "$pattern" "$scratch/out" && echo "$what: as it should be" ||
    wrong "$what: the output has no \"$pattern\""
}

# no driver: no device, the reason, and nothing that fails
expect "without a driver" 'no devices: there is no NVIDIA driver' \
  env KEEL_LOG=info "$keel" devices --option cuda.driver=/none/libcuda.so.1
expect "an NVRTC that is not there" 'there is no NVRTC, which compiles kernels' \
  env KEEL_LOG=warning "$keel" devices --option cuda.driver="$driver" --option cuda.nvrtc=/none.so
expect "a driver that does not start" 'says CUDA_ERROR_NO_DEVICE' \
  env KEEL_LOG=info STANDIN_FAULT=cuInit:1:100 "$keel" devices --option cuda.driver="$driver"
expect "the suite without a device" ' 0 failed' \
  "$suite" run "$plugin" --quick --quiet --option driver=/none/libcuda.so.1

# shellcheck disable=SC2086
expect "a device whose memory is full" ' 0 failed, 0 skipped' env STANDIN_MEMORY=300000000 \
  "$suite" run "$plugin" --quick --quiet --rule mem.full-launch --rule 'mem.oom*' $options $libraries

expect "its properties" 'clock *1500000000 Hz' \
  "$keel" devices --properties --option cuda.driver="$driver" --option cuda.nvrtc="$nvrtc"
expect "an option that is misspelt" 'no option "drivr" (from the application); nearest are driver' \
  "$keel" plugins --option cuda.drivr="$driver"

# cases SET PASSED WHOLE [OPTION]...: at least so many pass, so many run on the device alone
cases() {
  set_=$1 passed=$2 whole=$3
  shift 3
  # shellcheck disable=SC2086
  "$keel" onnx-test $on --quiet "$@" "$data/$set_" >"$scratch/out" 2>&1
  tail -n 2 "$scratch/out"
  awk -v passed="$passed" -v whole="$whole" '
    / cases ran fully/ { got = $2 }
    / passed, / { if ($1 >= passed && $3 == 0 && got >= whole) good = 1 }
    END { exit !good }' "$scratch/out" || wrong "$set_: fewer than they were"
}
# by Keel's own kernels, then with what libraries do
# shellcheck disable=SC2086
if world; then
  cases node 890 650 $without --option "cuda.script=$scratch/script"
else
  cases node 520 330 $without --option "cuda.script=$scratch/script" --filter 'test_[!a-l]*'
fi
for set_ in 'pytorch-converted 82 82' 'pytorch-operator 35 30'; do
  # shellcheck disable=SC2086
  STANDIN_TELL=1 cases $set_ $with
  [ "${set_%% *}" = pytorch-operator ] || grep -q 'cudnn: [1-9][0-9]* convolutions' "$scratch/out" &&
    grep -q 'cublaslt: [1-9][0-9]* products' "$scratch/out" || wrong "$set_: not by the libraries"
done
for op in $(some 3 MatMul Gemm MatMulInteger QLinearMatMul Conv FusedConv ConvInteger ConvTranspose); do
  # shellcheck disable=SC2086
  "$suite" run "$plugin" --quiet --rule 'op.*' --op $op $options $libraries >"$scratch/out" 2>&1 ||
    wrong "the suite's cases of $op by libraries"
done

# memory that is not aligned: no vectors, and products by our own kernels
for op in $(some 3 Relu Add Concat Softmax LayerNormalization ReduceSum MatMul Gemm); do
  # shellcheck disable=SC2086
  STANDIN_SKEW=4 "$suite" run "$plugin" --quiet --rule 'op.*' --dtype f32 --op $op $options $libraries \
    >"$scratch/out" 2>&1 || wrong "$op of unaligned memory"
done

# what the libraries can do they do: in each of five runs
for one in node/test_gemm_transposeA node/test_gemm_transposeB node/test_gemm_default_vector_bias \
  node/test_gemm_default_matrix_bias pytorch-operator/test_operator_mm node/test_gemm_alpha node/test_matmul_2d node/test_matmul_3d \
  node/test_matmul_4d pytorch-converted/test_Conv1d_pad2 pytorch-converted/test_Conv2d_groups \
  pytorch-converted/test_Conv2d_no_bias pytorch-converted/test_Conv2d_dilated \
  pytorch-converted/test_Conv3d_stride_padding; do
  # shellcheck disable=SC2086
  STANDIN_TELL=1 "$keel" onnx-test $on $with "$data/$one" >"$scratch/out" 2>&1
  grep -q '^1 passed, 0 failed' "$scratch/out" && grep -q ': 5 products\|: 5 convolutions' "$scratch/out" ||
    wrong "$one: not by the library"
done

# products and a convolution in one recording
"$keel" run "$here/products.mlir" --device cpu:0 --output "$scratch/want" >"$scratch/out" 2>&1 ||
  wrong "products on the CPU"
# shellcheck disable=SC2086
KEEL_LOG=warning "$keel" run "$here/products.mlir" $on $with --repeat 8 \
  --expect "$scratch/want/y.npy" >"$scratch/out" 2>&1
[ $? = 0 ] && grep -q '5 runs were launches' "$scratch/out" && ! grep -q 'is not a graph' "$scratch/out" &&
  echo "products in a recording: as they should be" || wrong "products in a recording"

# by the library also where padding is uneven, in each of five runs
"$keel" run "$here/uneven.mlir" --device cpu:0 --output "$scratch/want" >"$scratch/out" 2>&1 ||
  wrong "uneven padding on the CPU"
as_wanted=
for output in a b c d; do
  as_wanted="$as_wanted --expect $scratch/want/$output.npy"
done
# shellcheck disable=SC2086
STANDIN_TELL=1 "$keel" run "$here/uneven.mlir" $on $with --repeat 5 --no-replay $as_wanted >"$scratch/out" 2>&1 &&
  grep -q 'cudnn: 20 convolutions' "$scratch/out" && echo "uneven padding: as it should be" ||
  wrong "uneven padding by the library"

# attention in f16: one op where rows are few, or where no library has products by tensor cores
sed 's/x8x16xf16/x40x16xf16/g; s/x16x8xf16/x16x40xf16/g; s/x8x8xf16/x40x40xf16/g' "$here/halves.mlir" \
  >"$scratch/halves40.mlir"
for case_ in "$here/halves.mlir with 1" "$scratch/halves40.mlir with 0" "$scratch/halves40.mlir without 1"; do
  model=${case_%% *} rest=${case_#* }
  [ "${rest% *}" = with ] && set_="$with" || set_="$without"
  "$keel" run "$model" --device cpu:0 --output "$scratch/want" >"$scratch/out" 2>&1 &&
    # shellcheck disable=SC2086
    "$keel" run "$model" $on $set_ --profile --expect "$scratch/want/y.npy" --rtol 1e-2 \
      --atol 5e-3 >"$scratch/out" 2>&1 &&
    [ "$(grep -c ' Attention ' "$scratch/out")" = "${rest#* }" ] || wrong "$case_: attention in f16"
done

# what stands behind products: by the library what it knows, else by kernels of our own
"$keel" run "$here/epilogues.mlir" --device cpu:0 --output "$scratch/want" >"$scratch/out" 2>&1 ||
  wrong "epilogues on the CPU"
as_wanted=
for output in a b c d e f g h i j k l m n o p; do
  as_wanted="$as_wanted --expect $scratch/want/$output.npy"
done
for way in with without; do
  [ $way = with ] && set_="$with" counts='10 10 1' || set_="$without" counts='14 1 0'
  # shellcheck disable=SC2086
  STANDIN_TELL=1 "$keel" run "$here/epilogues.mlir" $on $set_ --profile $as_wanted >"$scratch/out" 2>&1 &&
    [ "$(grep -c ' Region ' "$scratch/out") $(grep -c ' Gemm ' "$scratch/out") $(
      grep -c 'cublaslt: 16 products' "$scratch/out")" = "$counts" ] &&
    echo "epilogues $way libraries: as they should be" || wrong "epilogues $way libraries"
done

# profilers are told of ops, where that was built in
if [ -e "$4/standin_nvtx.so" ]; then
  # shellcheck disable=SC2086
  NVTX_INJECTION64_PATH=$4/standin_nvtx.so "$keel" run "$here/products.mlir" $on $with >"$scratch/out" 2>&1
  for op in MatMul Relu Gemm FusedConv; do
    grep -q "nvtx: 0 $op" "$scratch/out" || wrong "no range of $op"
  done
  grep -q 'nvtx: [1-9]\|did not begin' "$scratch/out" && wrong "ranges are not balanced"
  echo "NVTX: $(grep -c 'nvtx: 0' "$scratch/out") ranges"
fi

# libraries that are not there, are too old, or do not start: said, and done without
model=$data/pytorch-converted/test_Linear
for one in 'there is no cuBLASLt|cublaslt=/none.so' 'cuBLASLt has no cublasLtCreate|cublaslt='"$driver" \
  'cuBLASLt does not start (CUBLAS_STATUS_NOT_SUPPORTED)|cublaslt='"$blas"; do
  # shellcheck disable=SC2086
  STANDIN_NO_CUBLASLT=1 KEEL_LOG=warning "$keel" run $model/model.onnx $on --option "cuda.${one#*|}" \
    --option cuda.cudnn=off --input $model/test_data_set_0/input_0.pb \
    --expect $model/test_data_set_0/output_0.pb >"$scratch/out" 2>&1
  [ $? = 0 ] && grep -q "${one%|*}" "$scratch/out" && echo "${one%|*}: said, and done without" ||
    wrong "${one%|*}: not so"
done

# kernels of the cases, by NVRTC
if [ -n "$sources" ]; then
  # shellcheck disable=SC2086
  "$sources" $all $(world || echo "--part 1/3") "$scratch/script" >"$scratch/out" 2>&1
  case $? in
  0) tail -n 1 "$scratch/out" ;;
  77) cat "$scratch/out" ;;
  *) wrong "kernels do not compile" ;;
  esac
fi

# what was compiled runs without NVRTC; what was not is said to be missing
for have in 'test_relu 1 cases ran fully, 0' 'test_softplus 0 cases ran fully, 0'; do
  one=${have%% *}
  [ "$one" = test_softplus ] && rm -rf "$XDG_CACHE_HOME"
  "$keel" onnx-test --device cuda:0 --option cuda.driver="$driver" --option cuda.nvrtc=/none.so \
    "$data/node/$one" >"$scratch/out" 2>&1
  grep -q "${have#* }" "$scratch/out" && grep -q '^1 passed, 0 failed' "$scratch/out" &&
    echo "$one without NVRTC: as it should be" || wrong "$one without NVRTC"
done

# a device that is lost, before anybody waits for it and after: the log has it once
model=$data/pytorch-converted/test_Conv2d_depthwise
for slow in 0 200; do
  # shellcheck disable=SC2086
  STANDIN_LOSE=1 STANDIN_SLOW=$slow timeout 20 "$keel" run "$model/model.onnx" $on $without \
    --input $model/test_data_set_0/input_0.pb >"$scratch/out" 2>&1
  [ $? = 1 ] && grep -q 'is lost: .*CUDA_ERROR_ILLEGAL_ADDRESS' "$scratch/out" &&
    [ "$(grep -c 'nothing runs on it until it is opened again' "$scratch/out")" = 1 ] &&
    echo "a lost device, $slow ms late: as it should be" || wrong "a lost device, $slow ms late"
done

# what waits for an event to be told of is told, where the driver calls nobody any more
# shellcheck disable=SC2086
STANDIN_LOSE=1 STANDIN_SLOW=100 timeout 20 "$keel" onnx-test $on $without "$data/node/test_loop11" \
  >"$scratch/out" 2>&1
[ $? = 1 ] && grep -q 'DEVICE_LOST\|is lost' "$scratch/out" && echo "a callback of a lost device: comes" ||
  wrong "a callback of a lost device"

# a device that said once that it is lost does no more, also where the driver would
# shellcheck disable=SC2086
STANDIN_FAULT=cuModuleLoadData:1:719 "$keel" onnx-test $on $without "$data/pytorch-operator" >"$scratch/out" 2>&1
grep -q ' 0 cases ran fully, 0 partly' "$scratch/out" &&
  echo "nothing runs on a lost device: as it should be" || wrong "a lost device goes on"

# out of memory: what was asked, what there is, what of it is ours
# shellcheck disable=SC2086
STANDIN_MEMORY=1300 "$keel" run "$model/model.onnx" $on $without --input $model/test_data_set_0/input_0.pb \
  >"$scratch/out" 2>&1
grep -q '160 bytes on cuda:0 (cuMemAllocAsync): 20 of 1300 are free, and 1280 are this process' \
  "$scratch/out" && echo "out of memory: as it should be" || wrong "out of memory"

# each function of the driver fails, at its first and at its second call: in a way that
# passes, and in one that stays; nothing crashes or hangs
calls=0 told=0
for call in cuDevicePrimaryCtxRetain cuMemGetInfo cuMemAllocAsync cuMemFreeAsync \
  cuMemHostAlloc cuModuleLoadData cuModuleGetFunction cuStreamCreateWithPriority \
  cuStreamSynchronize cuStreamQuery cuLaunchHostFunc cuEventCreate cuEventRecord \
  cuStreamWaitEvent cuEventQuery cuEventSynchronize cuLaunchKernel cuMemcpyHtoDAsync \
  cuMemcpyDtoHAsync; do
  for fault in 1:2 1:719 2:2 2:719; do
    # shellcheck disable=SC2086
    STANDIN_FAULT=$call:$fault timeout 20 "$keel" run "$model/model.onnx" $on $without \
      --input $model/test_data_set_0/input_0.pb >"$scratch/out" 2>&1
    code=$?
    calls=$((calls + 1))
    case $code in
    0) grep -q 'is lost' "$scratch/out" && wrong "$call:$fault: it runs on a lost device" ;;
    1) grep -q 'CUDA_ERROR\|bytes on cuda:0' "$scratch/out" && told=$((told + 1)) ||
      wrong "$call:$fault: the failure is not told" ;;
    *) wrong "$call:$fault: status $code" ;;
    esac
  done
done
echo "$calls failures of the driver: $told told, the others did no harm"
[ $told -ge 25 ] || wrong "too few failures were met"

# without a pool of memory, as on virtual GPUs
# shellcheck disable=SC2086
STANDIN_NO_POOLS=1 "$keel" onnx-test $on $without --quiet "$data/pytorch-operator" >"$scratch/out" 2>&1
grep -q '^35 passed, 0 failed' "$scratch/out" && echo "without pools: 35 cases" ||
  wrong "without pools"

# recordings that the driver can't record: lists
# shellcheck disable=SC2086
STANDIN_NO_CAPTURE=1 "$suite" run "$plugin" --quick --quiet --rule 'capture.*' \
  $options $libraries >"$scratch/out" 2>&1 ||
  wrong "the suite without stream capture"
echo "without stream capture: $(tail -n 1 "$scratch/out")"

# copies of pageable memory go by way of pinned memory: nobody waits
# shellcheck disable=SC2086
STANDIN_SLOW_COPIES=2 "$suite" run "$plugin" --quick --quiet --rule stream.enqueue-not-blocking \
  --rule stream.independent $options $libraries >"$scratch/out" 2>&1 ||
  wrong "the suite with slow copies"
grep -q 'warnings' "$scratch/out" && wrong "copies that wait" || echo "slow copies: nobody waits"

# shellcheck disable=SC2086
"$suite" run "$plugin" --quick --quiet --not 'op.*' --not 'perf.*' $options $libraries \
  >"$scratch/out" 2>&1 || wrong "the suite"
tail -n 1 "$scratch/out"
exit $failed
