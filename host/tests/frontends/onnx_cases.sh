#!/bin/sh
# The ONNX backend cases: none fails, and as many pass as did before.
# usage: onnx_cases.sh KEEL [threads]
# threads: only what differs in how it runs, not in how programs are kept and which loops
# there are (for ThreadSanitizer, under which a run takes ten times as long)
set -u
data=/usr/share/libonnx-testdata/data
[ -d $data/node ] || { echo "libonnx-testdata is not installed"; exit 77; }
failed=0
check() { # set, least number that pass, options
  name=$1 least=$2
  shift 2
  line=$("$keel" onnx-test --quiet "$@" "$data/$name" | tail -n 1)
  echo "$name${*:+ $*}: $line"
  passed=${line%% *}
  case $line in
    *", 0 failed,"*) [ "$passed" -ge "$least" ] || failed=1 ;;
    *) failed=1 ;;
  esac
}
keel=$1
for set in "node 894" "pytorch-converted 82" "pytorch-operator 35" "simple 15"; do
  check $set
  check $set --eager
  [ "${2:-}" = threads ] && continue
  for form in text binary; do
    check $set --through $form
  done
done
# four cases' data is not what they declare, and they were compiled for
for set in "node 890" "pytorch-converted 82" "pytorch-operator 35" "simple 15"; do
  [ "${2:-}" = threads ] && break
  check $set --through compiled
done
# on the caller alone, and with one worker and two
for threads in 1 2 3; do
  KEEL_THREADS=$threads
  export KEEL_THREADS
  line=$("$keel" onnx-test --quiet $data/node | tail -n 1)
  echo "node, $threads threads: $line"
  case $line in *", 0 failed,"*) ;; *) failed=1 ;; esac
done
unset KEEL_THREADS
# and each set of loops that this processor takes
for isa in base avx2 avx512; do
  [ "${2:-}" = threads ] && break
  "$keel" devices --option cpu.isa=$isa >/dev/null 2>&1 || continue
  line=$("$keel" onnx-test --quiet --option cpu.isa=$isa $data/node | tail -n 1)
  echo "node, $isa: $line"
  case $line in *", 0 failed,"*) ;; *) failed=1 ;; esac
done
exit $failed
