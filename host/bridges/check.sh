#!/bin/sh
# The bridges beside the frameworks that they serve, each in a Python environment of its own, which
# this makes.
#
# usage: check.sh [--short] [BUILD [FOLDER]]
#   --short  what CI runs: a tenth of ONNX's cases, none of other packages' models, of torch only
#            the numbers beside tensors
#   BUILD    a build of Keel (default: build/release)
#   FOLDER   of the environments (default: build/bridges); those that are there are used again
#
# variables:
#   BRIDGES           which of "onnxruntime jax torch" (default: all)
#   DEVICES           on which devices (default: cpu:0), also of the samples
#   KEEL_PLUGIN_PATH  plugins beside the build's own, as a vendor's
#   JAX_TESTS         a checkout of JAX at the installed release: its own tests run as well, and are
#                     counted beside those on JAX's own CPU
#   PIP               options of pip install, as an index
#
# host/bridges/RESULTS.md has what came of it.
set -eu
cd "$(dirname "$0")/../.."
short=
case ${1:-} in
--short) short=yes && shift ;;
-*)
  echo "check.sh: there is no $1; see the usage at its beginning" >&2
  exit 2
  ;;
esac
build=$(realpath "${1:-build/release}")
mkdir -p "${2:-build/bridges}"
folder=$(realpath "${2:-build/bridges}")
devices=${DEVICES:-cpu:0}
failed=0
export KEEL_LIBRARY="$build/lib/libkeel.so"
export KEEL_PLUGIN_PATH="$build/lib/keel${KEEL_PLUGIN_PATH:+:$KEEL_PLUGIN_PATH}"
for device in $devices; do # of a sample: its plugin, too
  sample="$build/samples/${device%%:*}.so"
  [ ! -e "$sample" ] || KEEL_PLUGIN_PATH="$KEEL_PLUGIN_PATH:$sample"
done
export KEEL_ORT_LIBRARY="$build/lib/keel-bridges/libkeel_onnxruntime.so"
export KEEL_PJRT_LIBRARY="$build/lib/keel-bridges/libkeel_pjrt.so"
export PYTHONPATH="$PWD/host/bridges/python"

# environment NAME PACKAGE...: its python in $python
environment() {
  python="$folder/$1/bin/python"
  name=$1
  shift
  [ ! -e "$folder/$name.part" ] && [ -x "$python" ] && return
  echo "== $name: installing $*"
  touch "$folder/$name.part"
  python3 -m venv "$folder/$name"
  # shellcheck disable=SC2086 # options are words
  "$folder/$name/bin/pip" install -q --disable-pip-version-check ${PIP:-} "$@"
  rm "$folder/$name.part"
}

run() {
  echo "== $*"
  "$@" || [ $? = 77 ] || failed=1 # 77: skipped
}

onnxruntime() {
  environment onnxruntime onnx onnxruntime numpy
  tests=host/bridges/onnxruntime/tests
  for device in $devices; do
    run "$python" -B -W ignore $tests/node_cases.py --device "$device" ${short:+--every 10}
    [ "$short" ] || run "$python" -B -W ignore $tests/models.py "$device"
  done
  run "$python" -B -W ignore $tests/sessions.py
  run "$python" -B -W ignore $tests/contexts.py
  run "$python" -B -W ignore $tests/device.py
  run "$python" -B -W ignore $tests/python_door.py
}

# jax_tests FILE PLATFORM [DEVICE]: runs a file of JAX's tests; those that pass, in
# $folder/FILE.PLATFORM.passed
jax_tests() {
  (
    cd "$JAX_TESTS"
    if [ "$2" = keel ]; then
      export PJRT_NAMES_AND_LIBRARY_PATHS="keel:$KEEL_PJRT_LIBRARY" KEEL_DEVICE="$3"
    fi
    JAX_PLATFORMS=$2 JAX_NUM_GENERATED_CASES=1 "$python" -m pytest -q -rA --tb=line \
      -p no:cacheprovider "tests/$1" || true
  ) >"$folder/$1.$2" 2>&1
  sed -n 's/^PASSED //p' "$folder/$1.$2" | sort >"$folder/$1.$2.passed"
}

# jax_file FILE: how many of its tests pass on JAX's own CPU, and of these on each device
jax_file() {
  jax_tests "$1" cpu
  for device in $devices; do
    jax_tests "$1" keel "$device"
    both=$(comm -12 "$folder/$1.cpu.passed" "$folder/$1.keel.passed" | wc -l)
    echo "$1: $both of $(wc -l <"$folder/$1.cpu.passed") that pass on JAX's CPU pass on $device;" \
      "assertions that failed: $(grep -c '^E .*AssertionError' "$folder/$1.keel" || true)"
  done
}

jax() {
  environment jax jax numpy absl-py pytest
  # shellcheck disable=SC2086 # devices are words
  JAX_PLATFORMS=cpu,keel run "$python" -B host/bridges/pjrt/tests/test_jax.py $devices
  [ "$short" ] && programs=60 || programs=500
  for device in $devices; do
    JAX_PLATFORMS=cpu,keel \
      run "$python" -B host/bridges/pjrt/tests/random_programs.py "$device" $programs
  done
  # several devices in one program: those of the samples and the simulated ones are always there
  JAX_PLATFORMS=cpu,keel \
    KEEL_PLUGIN_PATH="$KEEL_PLUGIN_PATH:$build/samples:$build/conformance/sim.so" \
    run "$python" -B host/bridges/pjrt/tests/test_jax_devices.py sim:0 sim:1 cpu:0 acme:0
  [ -n "${JAX_TESTS:-}" ] || return 0
  for file in lax_test.py nn_test.py random_test.py lax_numpy_test.py; do
    jax_file $file
  done
}

torch() {
  if [ "$short" ]; then
    environment torch-alone torch numpy
  else
    environment torch torch torchvision numpy
  fi
  run "$python" -B -W ignore host/bridges/python/tests/test_torch_numbers.py
  [ -z "$short" ] || return 0
  run "$python" -B host/bridges/python/tests/test_torch.py
  for device in $devices; do
    [ "$device" = cpu:0 ] || run env "KEEL_TEST_DEVICE=$device" "$python" -B host/bridges/python/tests/test_torch.py Models
  done
}

for bridge in ${BRIDGES:-onnxruntime jax torch}; do
  $bridge
done
exit $failed
