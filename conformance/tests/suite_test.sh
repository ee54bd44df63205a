#!/bin/sh
# keel-conformance as a vendor uses it: plugins that pass, exit statuses, reports,
# expectations, reports that were tampered with.
# usage: suite_test.sh SUITE CPU MINIMAL SIM
# Other seeds and jobs are for the world (cmake/ci/world.sh).
set -u
. "$(dirname "$0")/../../cmake/ci/world.sh"
suite=$1 cpu=$2 minimal=$3 sim=$4 npu=$5 acme=$6
fault=$(dirname "$sim")/fault.so # a defect around a plugin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_STATE_HOME="$scratch/state"
failed=0

# status WANTED COMMAND...: runs it, output in $scratch/out
status() {
  wanted=$1
  shift
  "$@" >"$scratch/out" 2>&1
  got=$?
  [ $got -eq "$wanted" ] && return
  echo "FAILED: exit status $got instead of $wanted: $*"
  tail -n 5 "$scratch/out"
  failed=1
}
says() {
  grep -q -- "$1" "$scratch/out" && return
  echo "FAILED: \"$1\" is not in the output:"
  tail -n 5 "$scratch/out"
  failed=1
}

# plugins that are sound
status 0 "$suite" run "$minimal" --quick
says '^conformant\|not valid for a claim'
status 0 "$suite" run "$cpu" --out "$scratch/cpu" --report html --report junit \
  --report tap --report md --report badge --report text --time-scale 3
says ' 0 failed, '
status 0 "$suite" run "$sim" --out "$scratch/sim" --time-scale 3
says 'level 3 compile + profile + peer + collective + external'
# a device of whole graphs, without kernels
status 0 "$suite" run "$npu" --out "$scratch/npu" --time-scale 3
status 0 "$suite" run "$acme" --out "$scratch/acme" --time-scale 3
says ' 0 failed, '
# regions: what this plugin claims is looked for; a level that nothing was found to test
# is not proven
KEEL_SIM=linear_chains status 0 "$suite" run "$sim" --rule 'region.*'
says ' 0 failed, 1 skipped$' # region.apart: two parts of equal ops make no chain
KEEL_SIM=one_pattern status 0 "$suite" run "$sim" --rule 'region.*'
says ' 0 failed, 2 skipped$'
KEEL_SIM=declines_regions status 0 "$suite" run "$sim" --out "$scratch/declines" \
  --report md --time-scale 3
says '^  13 skipped: it compiles no part of [0-9]* graphs'
says '^not proven: compile,'
says '^conformant: level 2 replay + profile + peer + collective + external$'
grep -q 'level 2 replay + ' "$scratch/declines/summary.md" ||
  { echo "FAILED: the report claims another level"; failed=1; }
status 0 "$suite" verify "$scratch/declines/results.jsonl"
says 'valid, level 2 replay'
for file in report.html junit.xml results.tap summary.md badge.svg summary.txt; do
  [ -s "$scratch/cpu/$file" ] || { echo "FAILED: no $file"; failed=1; }
done

# copies of more than 4 GiB, in memory that takes no room
KEEL_SIM=huge_memory status 0 "$suite" run "$sim" --rule copy.over-4-gib --max-memory 9G \
  --time-scale 3
says ' copy 1/1 '
status 4 "$suite" run "$sim" --rule copy.over-4-gib
says '^   1 skipped: --max-memory is 512 MiB'

# an op that the plugin does not have is not there: it has not passed
status 0 "$suite" run "$minimal" --out "$scratch/minimal" --report html \
  --rule robust.zero-divisor --rule robust.index-data --rule op.sum-exact-ints
grep -q 'title="Div i32: the plugin has no such kernel">&ndash;<' "$scratch/minimal/report.html" ||
  grep -q '<code>Div</code>' "$scratch/minimal/report.html" ||
  { echo "FAILED: Div is not shown as missing"; failed=1; }
grep -q 'title="Div [a-z0-9]*: [0-9]* cases' "$scratch/minimal/report.html" &&
  { echo "FAILED: Div is shown as tested"; failed=1; }
grep -q 'title="MatMul f32: [0-9]* cases"' "$scratch/minimal/report.html" ||
  { echo "FAILED: MatMul is not shown as tested"; failed=1; }
status 0 "$suite" coverage "$scratch/minimal/results.jsonl"
says '^ops without a case in this run:.* Div Mod '
says '^rules without a run:.*robust.zero-divisor'

# the same for any order, number of jobs, shard and seed
if world; then
  for one in '2 1' '3 4'; do
    seed=${one% *} jobs=${one#* }
    status 0 "$suite" run "$sim" --quick --seed "$seed" --jobs "$jobs" \
      --out "$scratch/s$seed$jobs" --report text --time-scale 3
    cmp -s "$scratch/s21/summary.txt" "$scratch/s$seed$jobs/summary.txt" ||
      { echo "FAILED: seed $seed, $jobs jobs differ"; failed=1
        diff "$scratch/s21/summary.txt" "$scratch/s$seed$jobs/summary.txt"; }
  done
fi
for shard in 1 2 3; do
  "$suite" run "$minimal" --quick --shard $shard/3 --out "$scratch/p$shard" \
    --report text >/dev/null 2>&1
  grep -v -e passed "$scratch/p$shard/summary.txt"
done | awk '{print $2}' | sort | uniq -c | awk '$1 > 3' >"$scratch/doubles"
[ -s "$scratch/doubles" ] && { echo "FAILED: shards overlap"; failed=1; }

# tensors of what fails
KEEL_SIM=fast_tanh status 1 "$suite" run "$sim" --rule op.ulp --op Tanh \
  --dump "$scratch/tensors/tanh" --no-reruns
[ -s "$(echo "$scratch"/tensors/tanh/op.ulp_op=Tanh,dtype=f32*-got-0.npy |
  cut -d ' ' -f 1)" ] || { echo "FAILED: no tensors"; failed=1; }

# long runs: a round has a name of its own, which runs it again
status 0 "$suite" run "$minimal" --rule thread.memory --soak 1s
status 0 "$suite" run "$minimal" --case thread.memory/all/soak=3
says '^1 passed, 0 failed, 0 skipped'
status 2 "$suite" run "$minimal" --group device

# what failed, again: of each plugin, or of the one that was run last
export XDG_STATE_HOME="$scratch/again"
status 2 "$suite" again
says 'no plugin was run before'
KEEL_SIM=list_late status 1 "$suite" run "$sim" --rule kernel.list-static --no-reruns
status 0 "$suite" run "$minimal" --rule load.open
status 0 "$suite" again
says 'nothing failed in the last run'
KEEL_SIM=list_late status 1 "$suite" again "$sim"
says "FAIL kernel.list-static"
status 0 "$suite" again "$minimal"
status 2 "$suite" again "$scratch/p1/../never.so"
export XDG_STATE_HOME="$scratch/state"

# exit statuses
status 2 "$suite"
status 2 "$suite" run
status 2 "$suite" run "$minimal" --no-such-option
says 'unknown option'
status 2 "$suite" run "$scratch/nothing.so"
says 'No such file'
status 2 "$suite" run nothing
says 'there is no verb and no plugin'
status 2 "$suite" run "$minimal" --level 9
status 2 "$suite" run "$minimal" --seed -3
status 3 "$suite" run "$scratch/../$(basename "$scratch")/out"
status 2 "$suite" run "$minimal" --rule no.such-rule
says "no rule's id is like"
status 4 "$suite" run "$minimal" --rule 'region.*'
says 'nothing ran'
# state is looked at now and then: which calls it can have been, not the one seen next
KEEL_FAULT=sets_mask KEEL_FAULT_PLUGIN=$sim status 1 "$suite" run "$fault" \
  --rule state.signals
says 'seen: one of [0-9]* calls, .* to .*, changed the thread.s signal mask'
KEEL_FAULT=odd_tail KEEL_FAULT_PLUGIN=$sim status 1 "$suite" run "$fault" \
  --rule copy.in-out
says 'copy.in-out/size='
says 'explain copy.in-out'
status 0 "$suite" explain copy.in-out
says 'Copies from a buffer to host memory'
status 2 "$suite" explain no.such-rule
status 0 "$suite" doctor "$minimal"
status 0 "$suite" list
status 0 "$suite" coverage "$scratch/cpu/results.jsonl"
says '^MatMul'
status 0 "$suite" compare "$scratch/cpu/results.jsonl" "$scratch/cpu/results.jsonl"
status 0 "$suite" run "$minimal" --in-process --case copy.in-out/size=7
says '^  copy.in-out/size=7$'
says '^1 rule ran in this process, 0 failed$'
KEEL_FAULT=odd_tail KEEL_FAULT_PLUGIN=$sim status 1 "$suite" --in-process \
  "$fault" --case copy.in-out/size=5
says '^    failed: byte 4 of 5 came back as another$'
status 0 "$suite" run "$minimal" --in-process --rule 'stream.f*' --rule copy.zero
says '^    not claimed: the plugin has no table for async$'
status 4 "$suite" run "$minimal" --in-process --rule 'stream.*'
status 2 "$suite" run "$minimal" --in-process --rule no.such-rule
status 3 "$suite" run "$scratch/out" --in-process --rule copy.zero
status 0 "$suite" run "$minimal" --case copy.in-out/size=7
says '^1 passed, 0 failed'

# expectations
cat >"$scratch/expect.json" <<'END'
[{"case": "copy.in-out/size=7", "reason": "words only", "link":
  "https://example.com/1", "expires": "2099-01-01"}]
END
status 6 "$suite" run "$minimal" --rule copy.in-out --expectations "$scratch/expect.json"
says 'take the expectation away'
sed s/2099/2001/ "$scratch/expect.json" >"$scratch/expired.json"
status 6 "$suite" run "$minimal" --rule copy.in-out --expectations "$scratch/expired.json"
sed 's/size=7/size=*/' "$scratch/expect.json" >"$scratch/glob.json"
status 2 "$suite" run "$minimal" --rule copy.in-out --expectations "$scratch/glob.json"

# the words of every verb: help anywhere, options before and behind, and what is none
verbs="run list explain again compare render coverage pack verify self-test bench doctor"
mkdir "$scratch/words" && cd "$scratch/words" || exit 1
for verb in $verbs; do
  for words in "--help" "-h" "word --help" "--help word"; do
    # shellcheck disable=SC2086
    status 0 "$suite" $verb $words
    says "^usage: keel-conformance .*$verb"
  done
  for words in "--no-such" "word --no-such" "--no-such=3" "a b c d e"; do
    # shellcheck disable=SC2086
    status 2 "$suite" $verb $words
  done
  case $verb in list | again | coverage | self-test) ;; *) status 2 "$suite" $verb ;; esac
done
[ -z "$(ls)" ] || { echo "FAILED: a verb wrote $(ls)"; failed=1; }
for option in level rule not option report seed jobs shard group soak max-memory \
  time-scale device op dtype case dump out expectations; do
  status 2 "$suite" run "$minimal" --$option
  says "needs a value"
  status 2 "$suite" run "$minimal" --$option --quick
  says "is an option"
done
for wrong in level=5 report=ht report= seed=3x seed= seed=18446744073709551616 jobs=0 \
  jobs=x shard=3/2 group=x soak=-1s soak=inf max-memory=12Q max-memory=-5 \
  shard=4294967297/3 shard=1/ shard=/3 shard=0/3 shard=-1/3 case= case=nosuch/x case=load.open \
  time-scale=3x time-scale=inf device=9 device=x op=NoSuchOp dtype=f33 option=x; do
  status 2 "$suite" run "--$wrong" "$minimal"
  says "--${wrong%%=*}"
done
status 2 "$suite" run "$minimal" --case nosuch/x
says 'there is no rule "nosuch"'
status 4 "$suite" run "$minimal" --case load.open/typo
status 2 "$suite" run "$minimal" --shard 1/3 --case load.open/all
says 'exclude each other'
status 2 "$suite" run cpu:x
says 'is not the index of a device'
for wrong in jobs=17 repeat=x repeat=0 seed=x; do
  status 2 "$suite" self-test "--$wrong"
done
status 2 "$suite" verify report --replay 200%
status 2 "$suite" render "$scratch/cpu/results.jsonl" ht
says 'there is no format'
status 2 "$suite" doctor "$minimal" --report html
says 'unknown option'
status 0 "$suite" bench "$minimal" --json behind.json
status 0 "$suite" bench --json=before.json "$minimal"
status 0 "$suite" bench before.json --compare behind.json
says 'ratio'
status 2 "$suite" bench --compare before.json
cd / || exit 1

# pack, verify, and what verify refuses
cd "$scratch" || exit 1
status 0 "$suite" pack sim/results.jsonl report.tar.gz
status 0 "$suite" verify report.tar.gz --plugin "$sim" --replay 3%
status 1 "$suite" verify report.tar.gz --plugin "$minimal"
says 'not the plugin that was tested'
mkdir packed && tar xzf report.tar.gz -C packed
echo 'vendor: another' >packed/product.yaml
tar czf edited.tar.gz -C packed results.jsonl environment.json product.yaml SHA256SUMS
status 1 "$suite" verify edited.tar.gz
says 'product.yaml is not what SHA256SUMS says'
tar czf few.tar.gz -C packed results.jsonl SHA256SUMS
status 1 "$suite" verify few.tar.gz
says 'has no environment.json'
echo nothing >none.tar.gz
status 1 "$suite" verify none.tar.gz
says 'not a whole report'
sed '5s/pass/fail/' sim/results.jsonl >edited.jsonl
status 1 "$suite" verify edited.jsonl
says 'not as they were written'
grep -v '"rule":"copy.zero"' sim/results.jsonl >missing.jsonl
status 1 "$suite" verify missing.jsonl
sed 's/"checks":[0-9]*/"checks":0/' sim/results.jsonl >zero.jsonl
status 1 "$suite" verify zero.jsonl
head -n 100 sim/results.jsonl >cut.jsonl
status 1 "$suite" verify cut.jsonl
says 'cut off'
"$suite" run "$sim" --quick --out quick >/dev/null 2>&1
status 1 "$suite" verify quick/results.jsonl
says 'part of the rules'
# a rule taken out, and the digest made to fit: still refused
python3 - <<'END' 2>/dev/null && status 1 "$suite" verify forged.jsonl && says 'is missing'
import hashlib, json
lines = [l for l in open("sim/results.jsonl")
         if '"rule":"copy.zero"' not in l][:-1]
end = json.loads(open("sim/results.jsonl").readlines()[-1])
end["lines_sha256"] = hashlib.sha256("".join(lines).encode()).hexdigest()
open("forged.jsonl", "w").write("".join(lines) + json.dumps(end) + "\n")
END

# a replay gives the options that the command has: one that loses the device at its first copy
python3 - <<'END' 2>/dev/null &&
import hashlib, json
lines = open("sim/results.jsonl").readlines()
suite, end = json.loads(lines[0]), json.loads(lines[-1])
suite["command"] += " --option lose_copy=1"
lines[0] = json.dumps(suite) + "\n"
end["lines_sha256"] = hashlib.sha256("".join(lines[:-1]).encode()).hexdigest()
open("optioned.jsonl", "w").write("".join(lines[:-1]) + json.dumps(end) + "\n")
END
  status 3 "$suite" verify optioned.jsonl --plugin "$sim" --replay 1% &&
  says 'DEVICE_LOST'

# a replay that did not run shows nothing, and what can't be read is no report
status 0 "$suite" verify sim/results.jsonl --plugin "$sim" --replay 0.001%
says '^1 of 1 chosen rules were run again'
# what is watched beside other rules may be chosen by itself, and fails a replay of others too
status 0 "$suite" run "$sim" --rule life.host-allocs-balanced
KEEL_SIM=entry_allocates status 1 "$suite" verify sim/results.jsonl --plugin "$sim" \
  --replay 0.001%
says 'life.host-allocs-balanced is fail here, the report says pass'
TMPDIR=/nonexistent status 5 "$suite" verify sim/results.jsonl --plugin "$sim" --replay 5%
says 'did not run again'
"$suite" verify sim/results.jsonl --plugin "$sim" --replay 100% >interrupted 2>&1 &
sleep 2
kill -TERM $!
wait $!
got=$?
[ $got -eq 143 ] || { echo "FAILED: an interrupted replay ends with $got"; failed=1; }
grep valid interrupted && failed=1
# what can't be written is said
"$suite" render sim/results.jsonl html >/dev/full 2>out
got=$?
[ $got -eq 5 ] || { echo "FAILED: a full disk ends with $got"; failed=1; }
says "can't be written"
mkdir -p full && ln -s /dev/full full/summary.txt
status 5 "$suite" run "$minimal" --rule load.open --out full --report text
says "full/summary.txt can't be written: No space left"
for report in nofile . none.jsonl none.tar.gz; do
  mkdir -p none.jsonl
  [ $report = none.tar.gz ] && rm -f none.tar.gz
  status 2 "$suite" verify $report
  grep -q 'tar: ' out && { echo "FAILED: tar speaks"; failed=1; }
done
exit $failed
