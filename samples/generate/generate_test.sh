#!/bin/sh
# Tokens that follow from a cache are those that follow from the whole text, on each device;
# the cache stays where it is; a saved model says the same; bad input is refused with a reason.
# usage: generate_test.sh GENERATE [DEVICE]
set -u
generate=$1 device=${2:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
wrong() {
  echo "wrong: $*" >&2
  cat "$scratch/err" >&2
  failed=1
}
# shellcheck disable=SC2086
say() { "$generate" ${device:+--device $device} "$@" 2>"$scratch/err"; }

model="--random tiny,layers=3,accuracy=1"
# shellcheck disable=SC2086
all=$(say $model --tokens 5,17,200 --count 12)
[ "$(echo "$all" | wc -w)" = 12 ] || wrong "12 tokens are \"$all\""
case $device in
  '' | cpu:*) grep -q 'copied 0 times in 72 updates' "$scratch/err" || wrong "the cache was copied" ;;
esac
text=5,17,200
for token in $all; do
  # shellcheck disable=SC2086
  next=$(say $model --tokens $text --count 1)
  [ "$next" = "$token" ] || wrong "after $text comes $next, and $token from the cache"
  text=$text,$token
done

# a text of many rows, as one product; and its end
# shellcheck disable=SC2086
first=$(say $model --tokens x40 --count 4) second=$(say $model --tokens x40 --count 4 --end "${first%% *}")
[ "$second" = "${first%% *}" ] || wrong "\"$second\" does not end with ${first%% *}"

# a vocabulary of two, a text at random
[ "$(say --random tiny,vocab=2 --tokens x16 --count 3 | wc -w)" = 3 ] || wrong "a vocabulary of two"

# drawn by a seed, the same each time, and others by another
# shellcheck disable=SC2086
drawn=$(say $model --count 12 --top-p 0.9 --temperature 2 --seed 7)
# shellcheck disable=SC2086
[ "$(say $model --count 12 --top-p 0.9 --temperature 2 --seed 7)" = "$drawn" ] || wrong "a seed draws others"
# shellcheck disable=SC2086
[ "$(say $model --count 12 --top-p 0.9 --temperature 2 --seed 8)" != "$drawn" ] || wrong "seeds draw the same"

# shellcheck disable=SC2086
say $model --save "$scratch/model.keel" || wrong "it is not saved"
[ "$(say "$scratch/model.keel" --tokens 5,17,200 --count 12)" = "$all" ] || wrong "the saved model says others"

refuse() {
  text=$1
  shift
  say "$@" >"$scratch/out" && wrong "$* is taken"
  grep -q -e "$text" "$scratch/err" || wrong "$* is refused without \"$text\""
}
refuse 'name a model' --count 3
refuse 'there is no option "--tokns"' --tokns 3
refuse '--tokens 1,x is not right' --random tiny --tokens 1,x
refuse '--top-p 2 is not right' --random tiny --top-p 2
refuse '--count (nothing) is not right' --random tiny --count
refuse 'there is no model "7b"' --random 7b
refuse 'is no size' --random tiny,layer=3
refuse 'kv_heads must divide' --random tiny,kv_heads=3
refuse 'no-such-file' no-such-file
refuse 'token 300 is not the model' --random tiny --tokens 300
refuse 'nothing is known of the model' "$(dirname "$0")/../../plugins/cuda/tests/products.mlir"
[ $failed = 0 ] && echo "generate: as it should be"
exit $failed
