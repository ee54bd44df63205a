#!/bin/sh
# How models grow over ranks: writes docs/ranks.svg and the figures of docs/figures.md.
#
# What two and four ranks on this machine do is measured. Up to 1,024 ranks SimGrid replays what
# `keel compile --smpi-trace` writes, at the speed that the machine is measured to have. Nothing is
# downloaded, and nothing installed.
#
# usage: sh host/bench/ranks.sh [MOST]    ranks, 1024 if not said; with another number it prints
#                                         the figures, and writes nothing
set -eu
cd "$(dirname "$0")/../.."
most=${1:-1024}
folder=build/ranks

# need COMMAND PACKAGE: Debian's
need() {
  command -v "$1" >/dev/null && return
  echo "ranks.sh: there is no $1; install the package $2" >&2
  exit 1
}
need smpirun libsimgrid-dev
need mpirun.openmpi openmpi-bin
need mpicc.openmpi libopenmpi-dev
need python3 python3
need cmake cmake

# containers run as root, which Open MPI asks about
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p $folder
cmake --preset release >$folder/configure.log 2>&1 || {
  cat $folder/configure.log
  exit 1
}
cmake --build --preset release --target keel_command cpu keel_openmpi \
  ranks exchanges -- --quiet
build/release/bench/ranks models $folder
python3 host/bench/ranks.py build/release $folder "$most" >$folder/figures
if [ "$most" -ne 1024 ]; then
  cat $folder/figures
  exit
fi
python3 host/bench/ranks_plot.py $folder/figures.json >docs/ranks.svg
awk -v file=$folder/figures '
  /^<!-- ranks:/ { print; while ((getline line < file) > 0) print line; skip = 1 }
  /^<!-- end -->$/ { skip = 0 }
  !skip && !/^<!-- ranks:/ { print }' docs/figures.md >$folder/figures.md
cp $folder/figures.md docs/figures.md
echo "docs/ranks.svg and docs/figures.md are written"
