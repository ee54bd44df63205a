#!/bin/sh
# The whole suite on each plugin that we ship: docs/conformance/PLUGIN.md, with device, driver
# and date. Some minutes for the CPU, and up to half an hour where a compiler works.
# usage: sh conformance/tests/shipped.sh [--jobs N] [--out DIR] [PLUGIN]...     (cpu opencl vulkan)
#   --jobs N: rules at once; --out DIR: the reports stay there, in a folder a plugin
set -eu
cd "$(dirname "$0")/../.."
bin=build/release/bin jobs='' out=''
while [ $# -gt 1 ]; do
  case $1 in
  --jobs) jobs="--jobs $2" ;;
  --out) out=$2 ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || set -- cpu opencl vulkan
failed=0
for plugin; do
  scratch=${out:+$out/$plugin}
  [ -n "$scratch" ] || scratch=$(mktemp -d)
  mkdir -p "$scratch"
  began=$(date +%s)
  # shellcheck disable=SC2086
  "$bin/keel-conformance" "build/release/lib/keel/$plugin.so" $jobs --out "$scratch" \
    --report md --report html >"$scratch/log" 2>&1 || failed=1
  seconds=$(($(date +%s) - began))
  tail -1 "$scratch/log"
  {
    echo "# $plugin"
    echo
    "$bin/keel" devices 2>/dev/null |
      awk -v device="$plugin:0" '/^[^ ]/ {on = $1 == device} on && $1 != "plugin" {print "    " $0}'
    echo
    echo "$(date +%Y-%m-%d), $(uname -m), $(nproc) processors: $seconds seconds."
    echo "Written by \`sh conformance/tests/shipped.sh $plugin\`."
    echo
    cat "$scratch/summary.md"
    echo
    echo '```text'
    sed -n '/^ load/,/cases of/p' "$scratch/log"
    echo '```'
  } >"docs/conformance/$plugin.md"
  [ -n "$out" ] || rm -rf "$scratch"
done
exit $failed
