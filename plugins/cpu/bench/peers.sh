#!/bin/sh
# The CPU plugin beside ONNX Runtime and OpenVINO, on models of many kinds.
#
# usage: sh plugins/cpu/bench/peers.sh [OPTION]... [MODEL]...
#
#   --list          print the models and end
#   --keel FILE     the `keel` program (build/release/bin/keel)
#   --work DIR      folder of models and figures (build/peers)
#   --venv DIR      Python's virtual environment (DIR of --work, venv); made if missing
#   --threads LIST  how many threads: 1,2
#   --seconds S     time for each runtime in each of two rounds (0.7)
#   --memory        measure memory and first runs alone, of times nothing
#   --page NAME     write NAME.md and NAME.svg: of another kind of processor (PEERS)
#   --again         export models anew that are there
#   --help          this text
#
# Makes the environment, exports what is missing, times the models named, or all, and
# writes plugins/cpu/bench/PEERS.md and PEERS.svg of all figures so far: what was measured
# before is kept in DIR/results.json and memory.json. It takes about half an hour and 4 GB,
# and the first time packages from PyPI. Not part of CI.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
keel=$root/build/release/bin/keel work=$root/build/peers venv='' threads=1,2 seconds=0.7 page=PEERS
again='' list=no times=yes

fail() {
  echo "peers.sh: $1" >&2
  exit 1
}

help() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
}

while [ $# -gt 0 ]; do
  case $1 in
    --list) list=yes ;;
    --memory) times=no ;;
    --again) again=--again ;;
    --help | -h) help; exit 0 ;;
    --keel | --work | --venv | --threads | --seconds | --page)
      [ $# -gt 1 ] || fail "$1 wants a value; see --help"
      case $1 in
        --keel) keel=$2 ;;
        --work) work=$2 ;;
        --venv) venv=$2 ;;
        --threads) threads=$2 ;;
        --seconds) seconds=$2 ;;
        --page) page=$2 ;;
      esac
      shift ;;
    -*) fail "no option $1; see --help" ;;
    *) break ;;
  esac
  shift
done
venv=${venv:-$work/venv}
python=$venv/bin/python

# what is not there is installed; what is, stays as it is
environment() {
  [ -x "$python" ] || {
    echo "making $venv"
    python3 -m venv "$venv" 2>/dev/null ||
      fail "python3 -m venv $venv failed (Debian: apt-get install python3-venv)"
  }
  for package in numpy onnx onnxruntime onnxscript torch torchvision transformers openvino; do
    "$python" -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$package'))" || {
      echo "installing $package"
      case $package in
        torch*) index='--index-url https://download.pytorch.org/whl/cpu' ;;
        *) index= ;;
      esac
      # shellcheck disable=SC2086
      "$python" -m pip install --quiet $index "$package" ||
        "$python" -m pip install --quiet "$package" ||
        fail "pip cannot install $package into $venv"
    }
  done
}

[ -x "$keel" ] || [ $list = yes ] || fail "$keel is not there: build first, or name it with --keel"
mkdir -p "$work/models"
environment
export PYTHONPATH="$here" PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1 \
  HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
[ $list = no ] || exec "$python" "$here/peers_export.py" --list

# what one model lacks is said, and the others go on
# shellcheck disable=SC2086
"$python" "$here/peers_export.py" "$work/models" $again "$@" || {
  [ $? -eq 1 ] || exit 2
}
[ $times = no ] || "$python" "$here/peers_compare.py" "$keel" "$work/models" \
  "$work/results.json" --threads "$threads" --seconds "$seconds" "$@"
"$python" "$here/peers_memory.py" "$keel" "$work/models" "$work/memory.json" \
  --threads "${threads##*,}" "$@"
[ -f "$work/results.json" ] || {
  echo "$work has no times yet: $page.md stays as it is"
  exit 0
}
"$python" "$here/peers_table.py" "$work/results.json" "$work/memory.json" "$here/$page.md" \
  "$here/$page.svg"
echo "wrote $here/$page.md and $here/$page.svg"
