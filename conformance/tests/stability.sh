#!/bin/sh
# Shows that results depend on the plugin alone: the same for seeds 1 to 5, one, two
# and four jobs, a process for a rule or for an area, and for shards put together;
# then, beside a load on every processor, N runs (20) without one that differs. With
# fewer than five runs there are two seeds, each with one number of jobs, and ops are of f32
# alone, in the world of all types (cmake/ci/world.sh).
#
# usage: sh stability.sh SUITE PLUGIN [N] [OPTION OF run]...
set -eu
. "$(dirname "$0")/../../cmake/ci/world.sh"
suite=$1 plugin=$2 runs=${3:-20}
[ $# -gt 2 ] && shift 3 || shift 2
[ "$runs" -ge 5 ] || world || set -- "$@" --dtype f32
work=$(mktemp -d)
load=
trap 'kill $load 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM # dash runs no EXIT trap where a signal ends it

# One line a case: its name and how it ended. Tables of devices and times are not
# compared; a case of a failure that the runner tried again is still one.
lines() {
  sed -n 's/^{"type":"case",.*"case":"\([^"]*\)","status":"\([^"]*\)".*/\1 \2/p' \
    "$1" | sort
}

run() { # NAME OPTION...
  name=$1
  shift
  "$suite" run "$plugin" --no-reruns --quiet --report text --out "$work/$name" \
    "$@" >"$work/$name.txt" 2>&1 || true
  lines "$work/$name/results.jsonl" >"$work/$name.lines"
}

same() { # NAME WHAT
  if ! cmp -s "$work/first.lines" "$work/$1.lines"; then
    echo "$2: differs:"
    diff "$work/first.lines" "$work/$1.lines" | head -n 20
    exit 1
  fi
}

run first --jobs 1 "$@"
count=$(wc -l <"$work/first.lines")
[ "$count" -gt 100 ] || { echo "$count cases are too few to compare"; exit 1; }
bad=$(grep -cv -e ' pass$' -e ' skipped$' \
  "$work/first.lines" || true)
echo "$count cases, $bad of them failed"
for seed in 1 2 3 4 5; do
  some="1 2 4"
  [ "$runs" -ge 5 ] || case $seed in
    1) some=4 ;;
    2) some=2 ;;
    *) some= ;;
  esac
  for jobs in $some; do
    run one --seed $seed --jobs $jobs "$@"
    same one "seed $seed, $jobs jobs"
  done
done
run one --group area "$@"
same one "--group area"
: >"$work/all"
for i in 1 2 3; do
  run part --shard $i/3 "$@"
  cat "$work/part.lines" >>"$work/all"
done
sort -u "$work/all" >"$work/one.lines"
same one "three shards"
echo "the same for the seeds and numbers of jobs tried, for --group area and three shards"

for i in $(seq "$(nproc)"); do
  sh -c 'while :; do :; done' &
  load="$load $!"
done
for i in $(seq "$runs"); do
  run one --seed "$i" --jobs 2 "$@"
  same one "run $i under load"
  [ ! -t 2 ] || printf '\r%s of %s' "$i" "$runs" >&2
done
echo "$runs runs under load: none differs"
