#!/bin/sh
# Faults of ranks under MPI: each ends all ranks within a limit of time, is said once, and leaves no
# process.
# usage: link_faults.sh LAUNCHER LINK_RANKS CPU_PLUGIN [COUNT [RANKS [FAULT...]]]
#   LAUNCHER  as for link_test.sh
#   COUNT     how often each (1); RANKS: how many (4, and of MPICH 2)
set -u
launcher=$1 ranks=$2
export CPU_PLUGIN=$3
. "$(dirname "$0")/launcher.sh"
count=${4:-1}
many=${5:-$many}
if [ $# -gt 5 ]; then shift 5; else set --; fi
[ $# -gt 0 ] || set -- sleep silent short stop leave fail run last differ end two exit die
limit=10 deadline=1 # seconds
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mark=$(basename "$scratch") # a word of each rank's command line
failed=0

case $many in
  2) others="rank 0 waits" ;;
  3) others="ranks 0, 2 wait" ;;
  *) others="ranks 0, 2 to $((many - 1)) wait" ;;
esac
[ "$many" -ne 4 ] || others="ranks 0, 2, 3 wait"

# words FAULT: what is said of it
words() {
  where="after $deadline s: $others in #2 AllReduce \"it\"; rank 1"
  case $1 in
    sleep) echo "$where is before #2" ;;
    silent) echo "after $deadline s: rank 0 waits in Receive from rank 1 (its message 1); rank 1 is before #1" ;;
    short) echo "a message has fewer elements than the Receive is for" ;;
    stop) echo "$where does not answer" ;;
    leave) echo "$where has left" ;;
    fail) echo "rank 1: the disk is full; before exchange 1, AllReduce" ;;
    run) echo "^rank [0-9]*: rank 1: .*index 9" ;;
    last) echo "^rank 1: .*the disk is full; before exchange 2, AllReduce" ;;
    differ) echo 'the ranks'"'"' programs differ at exchange 2: rank 0 has AllReduce "second" of f32\[4\], and rank 1 has Broadcast' ;;
    end | two) echo "rank [0-9]*: the file is damaged" ;;
    exit) echo "rank 1: the process exits without leaving the other ranks" ;;
    die) echo "exited on signal 9 (Killed)\|Killed (signal 9)" ;; # the launcher says it
  esac
}

left() {
  pgrep -f "link_ranks .* $mark" >/dev/null
}

# once FAULT: what is wrong with how it ended, or nothing
once() {
  own=$flags
  [ "$1" != die ] || own=$loud
  # shellcheck disable=SC2086
  timeout -s KILL $limit "$launcher" $own -n "$many" "$ranks" "$1" $deadline "$mark" \
    >"$scratch/out" 2>&1
  status=$?
  said=$(grep -c "$(words "$1")" "$scratch/out")
  by_ranks=$(grep -c "^rank [0-9]*: " "$scratch/out")
  tries=0
  while left && [ $((tries += 1)) -lt 20 ]; do sleep 0.1; done
  if [ $status -eq 137 ] && [ "$1" != die ]; then
    echo "it took more than $limit s"
  elif [ "$1" = differ ] && [ $status -ne 0 ]; then
    echo "the launcher's status is $status, not 0"
  elif [ $status -eq 0 ] && [ "$1" != differ ]; then
    echo "the launcher's status is 0"
  elif [ "$said" -ne 1 ]; then
    echo "it is said $said times, and the launcher's status is $status"
  elif [ "$by_ranks" -gt 1 ]; then
    echo "$by_ranks messages of ranks"
  elif grep -q "Sanitizer: " "$scratch/out"; then
    echo "a sanitizer complains"
  elif left; then
    echo "a process is left"
    pkill -KILL -f "link_ranks .* $mark"
  fi
}

now() {
  date +%s%3N
}

for fault; do
  most=0 bad=0
  for run in $(seq "$count"); do
    began=$(now)
    problem=$(once "$fault")
    took=$(($(now) - began))
    [ $took -le $most ] || most=$took
    [ "$problem" ] || continue
    echo "FAILED: $fault, run $run: $problem"
    cat "$scratch/out"
    bad=$((bad + 1)) failed=1
  done
  [ $bad -eq 0 ] && echo "ok: $fault: $count of $count ended and said it once, in $most ms at most"
done
exit $failed
