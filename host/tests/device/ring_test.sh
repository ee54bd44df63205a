#!/bin/sh
# ONNX's cases on a simulated device that takes one entry, or four, and then says KD_BUSY: as
# many pass as where it takes any number.
# usage: ring_test.sh KEEL SIM
set -u
keel=$1 sim=$2
data=${KEEL_ONNX_DATA:-/usr/share/libonnx-testdata/data}
[ -d "$data/node" ] || { echo "there is no test data of ONNX in $data"; exit 77; }
failed=0
cases() {
  for set in node simple pytorch-converted pytorch-operator; do
    "$keel" onnx-test --plugin "$sim" --device sim:0 --quiet "$data/$set" 2>&1
  done
}
want=$(cases)
for ring in 1 4; do
  got=$(KEEL_SIM_RING=$ring cases)
  [ "$got" = "$want" ] && echo "a ring of $ring: $(echo "$got" | grep -c ' passed, 0 failed') sets pass" && continue
  echo "FAILED with a ring of $ring:"
  echo "$got"
  failed=1
done
echo "$want" | awk '/ passed, 0 failed/ && $1 >= 894 { good = 1 } END { exit !good }' ||
  { echo "FAILED: $want"; failed=1; }
exit $failed
