#!/bin/sh
# The vendor's guide and the headers of the device ABI as one page, with a table of contents
# and a search, by pandoc.
# usage: sh docs/html/make.sh OUT.html
set -eu
out=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
command -v pandoc >/dev/null || { echo "pandoc is not installed" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
{
  # what to the reader of a page is no sign: how CI runs a block
  sed 's/^```\([a-z]*\) [a-z_.]*$/```\1/; s/^<!-- .* -->$//' VENDOR_GUIDE.md
  printf '\n# The headers\n\n'
  for header in kd base device tensor memory kernel op host stream capture region layout profile \
                option property collective native plugin help; do
    printf '\n## kd/%s.h {#header-%s}\n\n```c\n' "$header" "$header"
    cat "device_api/include/kd/$header.h"
    printf '```\n'
  done
} >"$scratch/guide.md"
missing=$(for file in device_api/include/kd/*.h; do
  grep -q "^## kd/$(basename "$file") " "$scratch/guide.md" || basename "$file"
done)
[ -z "$missing" ] || { echo "not on the page: $missing" >&2; exit 1; }
mkdir -p "$(dirname "$out")"
pandoc --from=markdown --to=html5 --standalone --toc --toc-depth=2 --metadata pagetitle="Keel for vendors" \
  --include-in-header=docs/html/head.html --include-before-body=docs/html/search.html \
  --highlight-style=tango "$scratch/guide.md" -o "$out"
echo "$out"
