#!/bin/sh
# Proves the conformance suite: each defect is caught by its rule, on the simulated
# device and around the CPU plugin, and conformance/README.md lists the rules. All defects; of
# the odd devices, which must pass everything, a sixth, in the world all (cmake/ci/world.sh).
# usage: sh cmake/ci/suite.sh
set -eu
cd "$(dirname "$0")/../.."
. cmake/ci/world.sh
sh cmake/ci/build.sh release
build/release/bin/keel-conformance self-test --jobs 8 --variants "$(fraction 6)"
build/release/bin/keel-conformance self-test --fault cpu --jobs 8
exec sh conformance/tests/readme.sh --check
