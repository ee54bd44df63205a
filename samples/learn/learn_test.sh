#!/bin/sh
# The sample alone and on ranks: the same first loss, and the same line.
# usage: learn_test.sh LEARN
set -eu
learn=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# good FILE: each line once, and what the line is at
good() {
  [ "$(grep -c "^step   0: loss 15.8125$" "$1")" -eq 1 ] &&
    [ "$(grep -c "^step 200: .* it says 28.000, and the line is at 28$" "$1")" -eq 1 ] && return
  cat "$1"
  exit 1
}

"$learn" >"$scratch/out"
good "$scratch/out"
for mpi in openmpi mpich; do
  case $mpi in
    openmpi) launcher="mpirun.openmpi --oversubscribe" counts="2 4" ;;
    mpich) launcher=mpiexec.mpich counts=2 ;; # more than cores, its ranks take long to meet
  esac
  [ -f "$(dirname "$learn")/../lib/keel-link/keel_$mpi.so" ] || continue
  command -v "${launcher%% *}" >/dev/null || continue
  for count in $counts; do
    # shellcheck disable=SC2086
    timeout 60 $launcher -n "$count" "$learn" >"$scratch/out"
    good "$scratch/out"
    echo "ok: $count ranks of $mpi"
  done
  # shellcheck disable=SC2086
  if timeout 60 $launcher -n 3 "$learn" >"$scratch/out" 2>&1 ||
    [ "$(grep -c "3 ranks cannot share 8 points evenly" "$scratch/out")" -ne 1 ]; then
    cat "$scratch/out"
    exit 1
  fi
done
