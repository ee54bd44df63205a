#!/bin/sh
# A manual page of what `PROGRAM WORD... --help` prints.
# usage: manual.sh HELP2MAN VERSION OUT NAME ABOUT PROGRAM [WORD]...
set -eu
help2man=$1 version=$2 out=$3 name=$4 about=$5
shift 5
mkdir -p "$(dirname "$out")"
script=$out.run
trap 'rm -f "$script"' EXIT
{
  echo '#!/bin/sh'
  printf " '%s'" "$@"
  echo ' --help | sed "s/^usage: /Usage: /"' # as help2man knows it
} >"$script"
chmod +x "$script"
"$help2man" --no-info --no-discard-stderr --section=1 --source="Keel $version" \
  --manual="Keel's commands" --name="$about" --version-string="$version" \
  --help-option=--help --output="$out.new" "$script"
# help2man names the page after the script
base=$(basename "$script")
page=$(echo "$name" | tr '[:lower:]' '[:upper:]')
sed "1,/^\.SH NAME/s/^\.TH [^ ]*/.TH \"$page\"/
     s/^$(echo "$base" | sed 's/\./\\./g; s/-/\\\\*-/g') /$name /" "$out.new" | gzip -9n >"$out"
rm -f "$out.new"
