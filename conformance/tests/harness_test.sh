#!/bin/sh
# The harness against hostile plugins: each costs the rule that it breaks, and the
# run goes on behind it.
# usage: harness_test.sh SUITE SIM hostile|busy     busy: what makes the machine so
set -u
suite=$1 sim=$(realpath "$2") which=$3
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

if [ "$which" = hostile ]; then
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
fi

# a call that a rule makes as it is, without a word of its own for the report
KEEL_SIM=hostile_begin "$suite" run "$sim" --rule capture.other-threads \
  --no-reruns --time-scale 0.2 --verbose >"$scratch/out" 2>&1
grep -A 1 'has not returned: capture.begin' "$scratch/out" | grep -q 'on 2 threads' ||
  complain "the capture.begin that hangs is not named"

# what misses a deadline on a busy machine counts if it does so again, when nothing else runs
once() {
  rm -rf "$scratch"/mark*
  KEEL_SIM=hostile_$1 KEEL_SIM_MARK="$scratch/mark" "$suite" run "$sim" \
    --rule copy.host-reusable --rule copy.in-out --time-scale 0.1 --verbose \
    --out "$scratch" >"$scratch/out" 2>&1
  status=$?
}
once once
[ $status -eq 1 ] || complain "an idle machine, and a hang: exit status $status"
load=
trap 'kill $load 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq $((5 * $(nproc)))); do
  sh -c 'while :; do :; done' &
  load="$load $!"
done
sleep 3
once five # not a case is left out
[ $status -eq 1 ] || complain "five hangs before what is wrong: exit status $status"
grep -q 'copy.in-out/size=4097","status":"fail"' "$scratch/results.jsonl" ||
  complain "what comes behind five hangs was not run"
once once
[ $status -eq 0 ] || complain "a hang that does not come again: exit status $status"
grep -q '"copy.host-reusable/all","status":"pass".*ended when it ran alone' \
  "$scratch/results.jsonl" || complain "the first hang is not noted"
once stop
[ $status -eq 1 ] || complain "a hang that comes again: exit status $status"
grep -q 'failed again when nothing else ran' "$scratch/out" ||
  complain "nothing says that it was tried alone"
grep -q 'no sign of life.*--time-scale' "$scratch/out" ||
  complain "nothing says how to give it more time"
# shellcheck disable=SC2086
kill $load
load=

# a rule that broke as its basis did is not judged, and is run again with it
fault=$(dirname "$sim")/fault.so
KEEL_FAULT=odd_tail KEEL_FAULT_PLUGIN=$sim "$suite" run "$fault" --no-reruns \
  --rule copy.in-out --rule mem.no-overlap --rule copy.any-host-memory --report junit \
  --report tap --report md --report html --out "$scratch" >"$scratch/out" 2>&1
[ $? -eq 1 ] || complain "a broken copy does not fail the run"
grep -q '^FAIL copy.in-out ' "$scratch/out" || complain "the basis did not fail"
grep -q '^ *[0-9]* skipped: not judged: copy.in-out failed (.*mem.no-overlap' \
  "$scratch/out" || complain "mem.no-overlap is judged beside broken copies"
grep -q 'ok .*mem.no-overlap # SKIP not judged: copy.in-out failed' \
  "$scratch/results.tap" || complain "TAP says something else"
grep -A 1 'name="mem.no-overlap"' "$scratch/junit.xml" |
  grep -q 'skipped message="not judged' || complain "JUnit says something else"
KEEL_FAULT=odd_tail KEEL_FAULT_PLUGIN=$sim "$suite" again "$fault" --no-reruns \
  --out "$scratch" >"$scratch/out" 2>&1
grep -q 'not judged: copy.in-out failed (.*mem.no-overlap' "$scratch/out" ||
  complain "what was not judged is not run again"

exit $failed
