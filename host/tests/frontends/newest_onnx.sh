#!/bin/sh
# The cases of the newest ONNX: those of Python's package onnx, which are newer than Debian's.
#
# usage: newest_onnx.sh [--venv DIR] [--data DIR] [--write] [KEEL [OPTION...]]
#   KEEL       build/release/bin/keel unless given
#   OPTION     of `keel onnx-test`: --device opencl:0, --eager ...
#   --venv DIR a virtual environment with onnx; where there is none, one is made, and
#              pip fetches the newest release (build/newest_onnx/venv unless given)
#   --data DIR the cases; where there are none, they are written (build/newest_onnx/data)
#   --write    writes the table of docs/ops.md, too
#
# Prints how many pass, fail and are skipped, what fails, and the reasons of skips with how
# many cases each has. Exit status 1 where one fails, 2 where it could not begin.
set -u
root=$(cd "$(dirname "$0")/../../.." && pwd)
venv=$root/build/newest_onnx/venv
data=$root/build/newest_onnx/data
write=
die() {
  echo "newest_onnx.sh: $*" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --venv | --data)
      [ $# -ge 2 ] || die "$1 takes a folder"
      case $1 in --venv) venv=$2 ;; *) data=$2 ;; esac
      shift 2
      ;;
    --write) write=yes; shift ;;
    -*) die "there is no option $1; --help lists them" ;;
    *) break ;;
  esac
done
keel=${1:-$root/build/release/bin/keel}
[ $# -eq 0 ] || shift
[ -x "$keel" ] || die "there is no program $keel; sh cmake/ci/build.sh release builds it"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

make_venv() {
  command -v python3 >/dev/null || die "python3 is not installed"
  python3 -m venv "$venv" ||
    die "can't make $venv: install python3-venv, or name one with --venv"
  "$venv/bin/pip" install --quiet --upgrade onnx ||
    die "pip can't fetch onnx: see what it says above, or name a venv that has it with --venv"
}

# The folder appears under its name once it is whole.
make_data() {
  [ -x "$venv/bin/python" ] || make_venv
  "$venv/bin/python" -c 'import onnx' 2>/dev/null ||
    die "$venv has no package onnx: $venv/bin/pip install onnx"
  rm -rf "$data.part"
  mkdir -p "$data.part" || die "can't make $data.part"
  "$venv/bin/python" "$(dirname "$0")/newest_onnx.py" "$data.part" >"$scratch/made" ||
    die "onnx does not write its cases: see what it says above"
  mv "$scratch/made" "$data.part/about" || die "can't write $data.part/about"
  mv "$data.part" "$data" || die "can't make $data"
}

# A reason, without what differs from case to case: files, nodes, shapes.
reasons() {
  sed -n 's/^skip  [^:]*: //p' "$scratch/node" "$scratch/simple" |
    sed 's/; while .*//; s/; `keel ops`.*//; s/; asked for .*//; s/; [a-z.]*::.* is another op.*//
         s/\[[0-9,?]*\]//g; s/^[^ ]*\.onnx: //; s/^[^ ]*\.pb: //; s/ "[^"]*"//g' |
    sort | uniq -c | sort -k1,1nr -k2
}

[ -d "$data/node" ] || [ ! -e "$data" ] || die "$data is no folder of cases: it has no node/"
[ -d "$data/node" ] || make_data
about=$(cat "$data/about" 2>/dev/null)
echo "${about:-cases of $data}"
: >"$scratch/table"
failed=0
for set in node simple; do
  "$keel" onnx-test "$@" "$data/$set" >"$scratch/$set" 2>"$scratch/errors"
  last=$(tail -n 1 "$scratch/$set")
  case $last in
    *" passed, "*) ;;
    *) cat "$scratch/errors" >&2; die "keel onnx-test did not end: see above" ;;
  esac
  echo "$set: $last"
  case $last in *", 0 failed,"*) ;; *) failed=1 ;; esac
  echo "$last" |
    sed "s/\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped/| $set | \1 | \2 | \3 |/" \
      >>"$scratch/table"
done
grep -h '^FAIL' "$scratch/node" "$scratch/simple"
echo "skipped, by reason:"
reasons
[ -z "$write" ] && exit $failed
{
  echo "| set of $(echo "$about" | sed 's/:.*//') | passed | failed | skipped |"
  echo "| --- | --- | --- | --- |"
  cat "$scratch/table"
} >"$scratch/rows"
awk -v file="$scratch/rows" '
  /^<!-- newest:/ { print; while ((getline line < file) > 0) print line; skip = 1; next }
  /^<!-- end -->$/ { skip = 0 }
  !skip' "$root/docs/ops.md" >"$scratch/ops.md" && cp "$scratch/ops.md" "$root/docs/ops.md"
exit $failed
