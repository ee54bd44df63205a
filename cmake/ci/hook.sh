#!/bin/sh
# Checks cmake/commit-msg: good messages pass, and bad ones are refused with the reason.
# usage: sh cmake/ci/hook.sh
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# good MESSAGE, bad REASON MESSAGE: MESSAGE is a format of printf
good() {
  # shellcheck disable=SC2059
  printf "$1" >"$scratch/message"
  cmake/commit-msg "$scratch/message" 2>"$scratch/said" ||
    { echo "refused: $1"; cat "$scratch/said"; failed=1; }
}
bad() {
  # shellcheck disable=SC2059
  printf "$2" >"$scratch/message"
  ! cmake/commit-msg "$scratch/message" 2>"$scratch/said" || { echo "passed: $2"; failed=1; }
  grep -qF "$1" "$scratch/said" ||
    { echo "no \"$1\" about: $2"; cat "$scratch/said"; failed=1; }
}

sixty=123456789-123456789-123456789-123456789-123456789-123456789-
hundred=$sixty$(printf %.40s "$sixty")

good 'cpu: a title\n\nWhy.\n'
good 'cpu: a title\n\nWhy; and more.\n\nA second paragraph.\n'
good "$sixty"'\n\nWhy.\n'
good "\303\274${sixty%-}"'\n\nWhy.\n'      # 60 characters, 61 bytes
good 'cpu: a title\n\n'"\303\274 ${hundred%9-}"'\n' # 100 characters, 101 bytes
good 'cpu: a title\n\nSee\nhttps://'"$hundred$hundred"'\n'
good '\n\ncpu: a title\n\nWhy.\n'
good 'cpu: a title\n# comment; of git.\n\nWhy.\n# On branch main\n'
good 'cpu: a title\n\nWhy.\n# ------------------------ >8 ------------------------\ndiff --git a b '"$hundred"'\n'
good 'cpu: a title\n\nWhy.\n\nSigned-off-by: A Name <a@name.example>\n'
good "Merge branch 'one' into the other; with a name that is very much longer than sixty"
good 'fixup! cpu: a title\n'
good 'squash! cpu: a title\n'
good 'amend! cpu: a title\n\ncpu: a title\n'
good 'Revert "'"$sixty"'"\n\nThis reverts commit 1234567.\n'

bad 'line 1: the subject has 61 characters' "${sixty}1"'\n\nWhy.\n'
bad 'line 1: the subject joins two things' 'cpu: one; two\n\nWhy.\n'
bad 'line 1: the subject ends with a full stop' 'cpu: a title.\n\nWhy.\n'
bad 'line 2: it is not blank' 'cpu: a title\nWhy.\n'
bad 'line 3: there is no body' 'cpu: a title\n'
bad 'line 3: there is no body' 'cpu: a title\n\n# On branch main\n'
bad 'line 3: there is no body' 'cpu: a title\n\nSigned-off-by: A Name <a@name.example>\n'
bad 'line 3: there is no body' 'Revert "cpu: a title"\n'
bad 'line 4: it has more than 100' 'cpu: a title\n\nWhy.\n'"$hundred"' x\n'
bad 'line 3: it has more than 100' 'cpu: a title\n\n'"$hundred"' x\n'
bad 'git commit --edit --file=' 'cpu: a title\n'

# as git runs it
git init -q "$scratch/tree"
git -C "$scratch/tree" config core.hooksPath "$PWD/cmake"
commit() {
  git -C "$scratch/tree" -c user.name=name -c user.email=mail commit -q --allow-empty "$@"
}
commit -m 'a title' -m 'Why.'
! commit -m 'a title' 2>/dev/null || { echo "git does not run the hook"; failed=1; }

[ $failed -ne 0 ] || echo "the hook does what its rules say"
exit $failed
