# world.sh - what long tests take of their work: a fixed part, as CI has no time for all of it, or
# everything in `sh cmake/test.sh --world`, which sets KEEL_WORLD=1. Tests source it.

world() {
  [ "${KEEL_WORLD:-0}" = 1 ]
}

# fraction N: the first part of N, "1/3"; in the world 1/1
fraction() {
  world && echo 1/1 || echo "1/$1"
}

# shard N: the suite's option for that part
shard() {
  echo "--shard $(fraction "$1")"
}

# some N WORD...: every Nth word; in the world all
some() {
  every=$1 at=0
  shift
  for word; do
    { ! world && [ $((at % every)) != 0 ]; } || echo "$word"
    at=$((at + 1))
  done
}

# without N WORD...: what `some` leaves out, as a pattern; none in the world
without() {
  left=$(some "$@")
  shift
  printf '%s\n' "$@" | grep -vxF "$left" | paste -s -d '|' | grep . || echo none
}
