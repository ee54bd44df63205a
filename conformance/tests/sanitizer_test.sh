#!/bin/sh
# A plugin that is built with a sanitizer: what that reports is the failure's text, and a sound
# plugin fails nothing by it.
# usage: sanitizer_test.sh SUITE TREE [CC]
set -u
suite=$1 tree=$2 cc=${3:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_STATE_HOME="$scratch/state"
failed=0

complain() {
  echo "FAILED: $*"
  tail -n 20 "$scratch/out"
  failed=1
}

# build NAME FLAG [SED]: the sample, with a line changed
build() {
  sed "${3:-}" "$tree/samples/minimal_plugin/minimal.c" >"$scratch/$1.c"
  cmp -s "$scratch/$1.c" "$tree/samples/minimal_plugin/minimal.c" && [ -n "${3:-}" ] &&
    complain "the sample has no line for $1"
  "$cc" -g -O1 -std=c11 -shared -fPIC "-fsanitize=$2" -I"$tree/device_api/include" \
    "$scratch/$1.c" -o "$scratch/$1.so" 2>"$scratch/out"
}

run() { # LIBRARY PLUGIN OPTION...
  library=$("$cc" -print-file-name="$1") plugin=$2
  shift 2
  LD_PRELOAD=$library "$suite" run "$scratch/$plugin.so" --no-reruns --time-scale 4 \
    "$@" >"$scratch/out" 2>&1
}

[ -e "$("$cc" -print-file-name=libasan.so)" ] || exit 77
[ -e "$("$cc" -print-file-name=libubsan.so)" ] || exit 77
build sound address || exit 77
run libasan.so sound --rule 'load.*' --rule 'copy.*' --rule 'state.*' ||
  complain "a sound plugin fails under AddressSanitizer"

build reads_far address '/if (size) memcpy((char \*)target + offset, source, size);/s//if (size) memcpy((char *)target + offset, source, size == 7 ? 9000 : size);/'
run libasan.so reads_far --rule copy.in-out && complain "a read past the end is not reported"
grep -q 'seen: AddressSanitizer: heap-buffer-overflow.*: copy_in .*reads_far.c:' \
  "$scratch/out" || complain "the report is not the failure's text"

# one that goes on behind what it reports
build adds_up undefined '/if (size) memcpy((char \*)target + offset, source, size);/s//volatile int big = 2147483647; if (size == 7) big++; &/'
run libubsan.so adds_up --rule copy.in-out && complain "an overflow is not reported"
grep -A 1 'case copy.in-out/size=7$' "$scratch/out" |
  grep -q 'seen: .*adds_up.c:[0-9:]* runtime error: signed integer overflow' ||
  complain "the overflow is not the text of the case that it happened in"
exit $failed
