#!/bin/sh
# `keel compile --smpi-trace`: each action of a trace, what is refused, and, where SimGrid is
# installed, that it replays what was written.
# usage: smpi_test.sh KEEL
set -u
keel=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

fail() {
  echo "FAILED: $1"
  failed=1
}

# refuse STATUS TEXT ARGUMENT...: keel compile of the model ends so, and says that
refuse() {
  want=$1 text=$2
  shift 2
  "$keel" compile "$scratch/model.mlir" "$@" >"$scratch/out" 2>&1
  status=$?
  [ "$status" -eq "$want" ] && grep -q -e "$text" "$scratch/out" && return
  fail "$*: status $status, not $want, or no \"$text\""
  cat "$scratch/out"
}

# Of 64 elements each rank gives all, a part for each other, or all to one; f16 is no type of
# SMPI's, and goes as bytes. Relu computes 64 flops, or reads and writes 512 bytes.
cat >"$scratch/model.mlir" <<'END'
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: !keel.resource, %1: tensor<8x8xf32>, %2: tensor<8x8xf16>):
    %3 = "keel.AllReduce"(%0, %1) : (!keel.resource, tensor<8x8xf32>) -> (tensor<8x8xf32>)
    %4 = "onnx.Relu"(%3) : (tensor<8x8xf32>) -> (tensor<8x8xf32>)
    %5 = "keel.ReduceScatter"(%0, %4) {size = 4 : i64} : (!keel.resource, tensor<8x8xf32>) -> (tensor<2x8xf32>)
    %6 = "keel.AllGather"(%0, %5) {size = 4 : i64} : (!keel.resource, tensor<2x8xf32>) -> (tensor<8x8xf32>)
    %7 = "keel.AllToAll"(%0, %2) {size = 4 : i64} : (!keel.resource, tensor<8x8xf16>) -> (tensor<8x8xf16>)
    %8 = "keel.Broadcast"(%0, %6) : (!keel.resource, tensor<8x8xf32>) -> (tensor<8x8xf32>)
    %9 = "keel.Permute"(%0, %8) {pairs = array<i64: 0, 1, 1, 2, 2, 0, 3, 3>} : (!keel.resource, tensor<8x8xf32>) -> (tensor<8x8xf32>)
    "keel.return"(%7, %9) : (tensor<8x8xf16>, tensor<8x8xf32>) -> ()
  }) {version = 1 : i64, name = "all", inputs = ["keel.member", "x", "h"], input_types = [!keel.resource, tensor<8x8xf32>, tensor<8x8xf16>], outputs = ["a", "b"], output_types = [tensor<8x8xf16>, tensor<8x8xf32>], ops = {"keel.AllReduce" = 1 : i64, "keel.ReduceScatter" = 1 : i64, "keel.AllGather" = 1 : i64, "keel.AllToAll" = 1 : i64, "keel.Broadcast" = 1 : i64, "keel.Permute" = 1 : i64, "onnx.Relu" = 14 : i64}} : () -> ()
}) : () -> ()
END
cat >"$scratch/want" <<'END'
2 init
2 allreduce 64 48 5
2 compute 64
2 reducescatter 16 16 16 16 48 5
2 allgather 16 16 5 5
2 alltoall 32 32 6 6
2 bcast 64 0 5
2 irecv 1 0 64 5
2 isend 0 0 64 5
2 waitall
2 finalize
END

"$keel" compile "$scratch/model.mlir" --np 4 --smpi-trace "$scratch/traces" >"$scratch/out" 2>&1 ||
  fail "no traces: $(cat "$scratch/out")"
diff "$scratch/want" "$scratch/traces/rank-2" || fail "rank 2 has another trace"
grep -q "isend\|irecv" "$scratch/traces/rank-3" && fail "rank 3 sends to itself"
[ "$(wc -l <"$scratch/traces/ranks")" -eq 4 ] || fail "not four traces are listed"
# allreduce 384, reducescatter 192, allgather 192, alltoall 96, broadcast and permute 256 each
grep -q "4 ranks, each of 0.000 Gflop and 6 exchanges, which send 1.344 KiB" "$scratch/out" ||
  fail "it is summed up as: $(cat "$scratch/out")"

"$keel" compile "$scratch/model.mlir" --np 4 --smpi-trace "$scratch/bytes" --bytes-as 10 \
  >/dev/null 2>&1
for line in "3 compute 5120" "3 allreduce 64 5760 5"; do
  grep -q "^$line$" "$scratch/bytes/rank-3" || fail "bytes do not count: no $line"
done

# a rank that is not there
sed 's/2, 0, 3, 3>/2, 0, 9, 3>/' "$scratch/model.mlir" >"$scratch/far.mlir"
"$keel" compile "$scratch/far.mlir" --np 4 --smpi-trace "$scratch/far" >"$scratch/out" 2>&1 &&
  fail "a Permute with rank 9 is taken"
grep -q 'Permute "" needs ranks that --np 4 does not have' "$scratch/out" ||
  fail "of rank 9 it says: $(cat "$scratch/out")"

# pair OP INPUT ATTRIBUTES TYPE: traces of two ranks that do this twice with the other one
pair() {
  cat >"$scratch/pair.mlir" <<END
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: !keel.resource, %1: tensor<8xf64>):
    %2 = "keel.$1"(%0$2) {$3} : (!keel.resource$4) -> (tensor<8xf64>)
    %3 = "keel.$1"(%0$2) {$3} : (!keel.resource$4) -> (tensor<8xf64>)
    "keel.return"(%2, %3) : (tensor<8xf64>, tensor<8xf64>) -> ()
  }) {version = 1 : i64, name = "pair", inputs = ["keel.member", "x"], input_types = [!keel.resource, tensor<8xf64>], outputs = ["a", "b"], output_types = [tensor<8xf64>, tensor<8xf64>], ops = {"keel.$1" = 1 : i64}} : () -> ()
}) : () -> ()
END
  "$keel" compile "$scratch/pair.mlir" --np 2 --smpi-trace "$scratch/$1" >"$scratch/out" 2>&1 ||
    fail "no traces of $1: $(cat "$scratch/out")"
}
pair Send ", %1" "to = 1 : i64" ", tensor<8xf64>"
pair Receive "" "from = 0 : i64, dtype = 11 : i64, shape = array<i64: 8>" ""
printf '0 init\n0 isend 1 0 8 0\n0 isend 1 1 8 0\n0 waitall\n0 finalize\n' |
  diff - "$scratch/Send/rank-0" || fail "rank 0 sends otherwise"
printf '1 init\n1 recv 0 0 8 0\n1 recv 0 1 8 0\n1 finalize\n' |
  diff - "$scratch/Receive/rank-1" || fail "rank 1 receives otherwise"
grep -q "2 exchanges, which send 0.000 KiB" "$scratch/out" || fail "who receives sends"

refuse 1 "is for 4 ranks, and --np is 8" --np 8 --smpi-trace "$scratch/none"
[ -e "$scratch/none" ] && fail "what is refused leaves a folder"
refuse 2 "give --np N" --smpi-trace "$scratch/none"
refuse 2 "give no -o" --np 4 --smpi-trace "$scratch/none" -o "$scratch/none"
refuse 2 "is for --smpi-trace" --bytes-as 2 -o "$scratch/none"
refuse 1 "Not a directory" --np 4 --smpi-trace "$scratch/want/none"

command -v smpirun >/dev/null || {
  echo "not replayed: there is no smpirun (SimGrid; Debian: libsimgrid-dev)"
  exit $failed
}
cat >"$scratch/platform.xml" <<'END'
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="all" prefix="h" suffix="" radical="0-3" speed="1Gf" bw="1GBps" lat="1us"/>
</platform>
END
printf 'h0\nh1\nh2\nh3\n' >"$scratch/hosts"
printf '%s\n' "$scratch/Send/rank-0" "$scratch/Receive/rank-1" >"$scratch/two"

# replay RANKS LIST: it ends, after some simulated time
replay() {
  smpirun -np "$1" -platform "$scratch/platform.xml" -hostfile "$scratch/hosts" -replay "$2" \
    --cfg=smpi/coll-selector:ompi --cfg=smpi/host-speed:1Gf >"$scratch/out" 2>&1
  grep -q "Simulation time 0\.0*[1-9]" "$scratch/out" && return
  fail "SimGrid does not replay $2"
  cat "$scratch/out"
}
replay 4 "$scratch/traces/ranks"
replay 2 "$scratch/two"
exit $failed
