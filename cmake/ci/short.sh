#!/bin/sh
# The suite in its quick form on the CPU, and the tests of what users get that take seconds: what a
# change breaks first. Left out: devices whose drivers are software (minutes each), tests
# within valgrind, installed trees and packages, and the longest of the others.
# usage: sh cmake/ci/short.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh release
build/release/bin/keel-conformance run build/release/lib/keel/cpu.so --quick --quiet --not 'perf.*'
long='^(install|packages|.*_catches|.*_frozen.*|onnxruntime_.*|oclgrind|mlir|placement|smpi'
long="$long|.*_in_a_ring|.*_in_valgrind|.*_without_(streams|callbacks)|conformance.*|guide"
long="$long|opencl.*|vulkan.*|cuda.*|native_(opencl|vulkan|cuda)_test|families_.*|fault_sweep"
long="$long|stablehlo_test|fuzz_test|failures_test|graph_npu_test|kernels_(base|avx2)"
long="$long|broken_plugins|cancel_test|product_test|control_test|link_ranks.*|split_ranks.*|sample_.*opencl|pjrt.*)\$"
exec ctest --preset release -j 3 -E "$long"
