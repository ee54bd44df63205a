#!/bin/sh
# Configures and builds a preset; shows what CMake says only where it fails.
# usage: sh cmake/ci/build.sh PRESET [OPTION OF CMAKE]...
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build
preset=$1 log=build/configure-$1.log
cmake --preset "$@" >"$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build --preset "$preset" -- --quiet
