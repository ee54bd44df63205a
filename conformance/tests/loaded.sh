#!/bin/sh
# Runs the whole suite N times (10) on a plugin, beside ten busy processes, and compares how each
# rule ended with a first run without them. Prints what differed, and how long each run took. Exit
# status 0 where nothing did.
#
# usage: sh loaded.sh SUITE PLUGIN [N] [OPTION OF run]...
set -eu
suite=$1 plugin=$2 runs=${3:-10}
[ $# -gt 2 ] && shift 3 || shift 2
work=$(mktemp -d)
load=
trap 'kill $load 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM # dash runs no EXIT trap where a signal ends it
export XDG_STATE_HOME="$work/state"

# Rules as they ended: lines of "rule status".
verdicts() {
  sed -n 's/^{"type":"rule","rule":"\([^"]*\)","status":"\([^"]*\)".*/\1 \2/p' \
    "$work/$1/results.jsonl" | sort
}

run() { # NAME OPTION...
  name=$1 began=$(date +%s)
  shift
  "$suite" run "$plugin" --quiet --out "$work/$name" --report text "$@" \
    >"$work/$name.txt" 2>&1 || true
  verdicts "$name" >"$work/$name.verdicts"
  echo "$name: $(($(date +%s) - began)) s, $(tail -n 1 "$work/$name.txt")"
}

run alone "$@"
[ -s "$work/alone.verdicts" ] || { cat "$work/alone.txt"; exit 1; }
for i in 1 2 3 4 5 6 7 8 9 10; do
  sh -c 'while :; do :; done' &
  load="$load $!"
done
differ=0
for i in $(seq "$runs"); do
  run "loaded-$i" "$@"
  cmp -s "$work/alone.verdicts" "$work/loaded-$i.verdicts" && continue
  differ=$((differ + 1))
  diff "$work/alone.verdicts" "$work/loaded-$i.verdicts" | grep '^[<>]' || true
  grep -A 8 '^\(FAIL\|WARN\|CRASH\|HANG\|ERROR\) [a-z.-]*  (' "$work/loaded-$i.txt" || true
done
echo "$differ of $runs runs under load differ from the one without"
[ "$differ" -eq 0 ]
