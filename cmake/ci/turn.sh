# turn.sh - which part of a long test runs now. CI has no time for all of it: each hour another
# part runs, so that all of it has run within some hours of landings. Tests source it.
#   TURN=N     as in that hour, of those since 1970; a test prints it
#   TURN=all   everything
TURN=${TURN:-$(($(date +%s) / 3600))}
case $TURN in
all) ;;
0?* | *[!0-9]*)
  echo "TURN=$TURN is neither a number nor \"all\""
  exit 2 ;;
*) echo "this hour's part: TURN=$TURN (TURN=all: everything)" ;;
esac

# part N: which of N parts, from 1, has its turn; of all, 1
part() {
  [ "$TURN" = all ] && echo 1 || echo $((TURN % $1 + 1))
}

# fraction N: that part as "2/3"; of all, 1/1
fraction() {
  [ "$TURN" = all ] && echo 1/1 || echo "$(part "$1")/$1"
}

# shard N: the suite's option for that part
shard() {
  echo "--shard $(fraction "$1")"
}

# some N WORD...: every Nth word, beginning with the one whose turn it is
some() {
  parts=$1 at=0
  shift
  for word; do
    [ "$TURN" != all ] && [ $((at % parts + 1)) != "$(part "$parts")" ] || echo "$word"
    at=$((at + 1))
  done
}

# except N WORD...: ctest's option that leaves out the tests whose turn it is not
except() {
  # shellcheck disable=SC2046 # names are words
  echo "-E ^($(printf '%s\n' "$@" | tail -n +2 |
    grep -vxF "$(some "$@")" | paste -s -d '|'))\$"
}
