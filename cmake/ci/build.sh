#!/bin/sh
# Configures and builds a preset; shows what CMake says only where it fails.
# usage: sh cmake/ci/build.sh PRESET
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build
log=build/configure-$1.log
cmake --preset "$1" >"$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build --preset "$1" -- --quiet
