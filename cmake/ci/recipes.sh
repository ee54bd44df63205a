#!/bin/sh
# Follows the recipes of CONTRIBUTING.md literally on a copy of the tree, and runs their proofs.
# usage: sh cmake/ci/recipes.sh
set -eu
cd "$(dirname "$0")/../.."
exec python3 cmake/ci/recipes.py CONTRIBUTING.md build/recipes
