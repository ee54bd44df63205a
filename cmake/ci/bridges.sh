#!/bin/sh
# Runs ONNX Runtime, JAX and PyTorch on Keel: the short form of host/bridges/check.sh, which
# installs them from PyPI. Where that is out of reach, nothing is run, and that is said.
# usage: sh cmake/ci/bridges.sh
set -eu
cd "$(dirname "$0")/../.."
sh cmake/ci/build.sh release
mkdir -p build/bridges
python3 -m pip download -q --no-deps --disable-pip-version-check -d build/bridges/six six >/dev/null 2>&1 || {
  echo "NOT RUN: PyPI is out of reach, so that there is no ONNX Runtime, JAX or PyTorch to run"
  exit 0
}
sh host/bridges/check.sh --short >build/bridges/log 2>&1 || {
  cat build/bridges/log
  exit 1
}
echo "ONNX Runtime, JAX and PyTorch run on Keel"
