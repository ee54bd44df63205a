#!/bin/sh
# Writes conformance/mutants/MEASURED.md: all that each defect makes fail, and how
# surely a race is caught in one run of its rule. Takes half an hour on two cores.
#
# usage: sh conformance/mutants/measure.sh [BUILD]      (build/release)
set -eu
cd "$(dirname "$0")/../.."
suite=${1:-build/release}/bin/keel-conformance
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$suite" self-test --races --repeat 40 --jobs 2 | tee "$work/races"
"$suite" self-test --matrix --jobs 2 | tee "$work/matrix"

# A row: name, rule, then the rules that failed in one column, then the verdict.
table() {
  awk -v kind="$1" '
    NR == 1 || /^[0-9]+ (defects|passed)/ { next }
    {
      verdict = $0
      sub(/.* (ok|NOT CAUGHT|FAILED|skipped)/, "", verdict)
      match($0, /(ok|NOT CAUGHT|FAILED|skipped)( \(.*\))?$/)
      verdict = substr($0, RSTART)
      line = substr($0, 1, RSTART - 1)
      count = split(line, word, " ")
      rest = ""
      first = 3
      rule = word[2]
      if (rule == "(must") { rule = "must pass"; first = 4 }
      for (i = first; i <= count; i++)
        if (word[i] != rule && word[i] != "-") rest = rest " " word[i]
      if (kind == "races")
        printf "| %s | %s | %s |\n", word[1], rule, verdict
      else
        printf "| %s | %s | %s |%s |\n", word[1], rule, verdict, rest
    }' "$2"
}

{
  cat <<'TEXT'
# What was measured of the defects

Written by `sh conformance/mutants/measure.sh`.

TEXT
  printf 'On %s, %s, %s processors.\n\n' "$(date -u +%Y-%m-%d)" \
    "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
  cat <<'TEXT'
## Races

How many of 40 runs of its rule alone caught each, and by how many runs it is caught
with a probability of 1 - 10^-4 (Laplace's rule of succession). `self-test` runs a
race up to 14 times.

| defect | rule | caught |
| --- | --- | --- |
TEXT
  table races "$work/races"
  cat <<'TEXT'

## All that fails

Every rule of the quick set on each defect, in one run. A defect fails what it breaks;
the last column has what it breaks beside the rule that is named for it. What the
quick set missed ran again with all cases of its rule ("1 of 2 runs"); a defect that
hangs every process was given up after 150 s.

| defect or variant | its rule | | what else failed |
| --- | --- | --- | --- |
TEXT
  table matrix "$work/matrix"
} >conformance/mutants/MEASURED.md
