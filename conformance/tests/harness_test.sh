#!/bin/sh
# The harness against hostile plugins: each costs the rule that it breaks, and the
# run goes on behind it.
# usage: harness_test.sh SUITE SIM
set -u
suite=$1 sim=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

complain() {
  echo "FAILED: $*"
  failed=1
}

# expect HOW STATUS: what becomes of copy.host-reusable; its neighbours pass
expect() {
  KEEL_SIM=hostile_$1 "$suite" run "$sim" --rule copy.host-reusable \
    --rule copy.in-out --rule mem.alloc-free --no-reruns --time-scale 0.3 \
    --group $group --verbose --report text --out "$scratch" >"$scratch/out" 2>&1
  status=$?
  [ $status -eq 1 ] || complain "$1: exit status $status"
  grep -Eq "^($2) +copy.host-reusable" "$scratch/summary.txt" ||
    complain "$1: $(grep copy.host-reusable "$scratch/summary.txt")"
  case $2 in hang) # the call that hangs is named
    grep -q 'has not returned: memory.copy_in(.*300000 bytes)' "$scratch/out" ||
      complain "$1: the call that hangs is not named" ;;
  esac
  for rule in copy.in-out mem.alloc-free; do
    grep -q "^pass *$rule" "$scratch/summary.txt" || complain "$1: $rule suffered"
  done
  tail -n 1 "$scratch/out" | grep -Eq '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' ||
    complain "$1: the last line is $(tail -n 1 "$scratch/out")"
  echo "ok: $1, a process for each $group"
}

# a call that a rule makes as it is, without a word of its own for the report
KEEL_SIM=hostile_begin "$suite" run "$sim" --rule capture.other-threads \
  --no-reruns --time-scale 0.2 --verbose >"$scratch/out" 2>&1
grep -A 1 'has not returned: capture.begin' "$scratch/out" | grep -q 'on 2 threads' ||
  complain "the capture.begin that hangs is not named"

for group in rule area; do
  expect garbage fail
  expect exit crash
  expect stop hang
  expect abort crash
  expect loop hang
  expect flood 'fail|hang'
  expect close crash
  expect memory 'crash|fail|hang'
  expect scribble 'crash|fail'
done
exit $failed
