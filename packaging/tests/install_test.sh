#!/bin/sh
# Installs a build in a prefix, moves the prefix, and works with it as others would: the
# programs, find_package(Keel) with keel_add_plugin and its test, pkg-config, the manual, bash's
# completion.
# usage: install_test.sh SOURCE BUILD
set -eu
source=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
cmake --install "$build" --prefix "$scratch/first" >"$scratch/log"
mv "$scratch/first" "$scratch/moved"
prefix=$scratch/moved
export PATH="$prefix/bin:$PATH"
unset KEEL_PLUGIN_PATH

keel plugins | grep -q "$prefix/lib.*/keel/cpu.so" || fail "keel finds no plugin in $prefix"
keel devices | grep -q cpu:0 || fail "there is no device"
if command -v keel-conformance >/dev/null; then
  keel-conformance cpu --rule load.open --quiet >"$scratch/log" ||
    { cat "$scratch/log"; fail "the suite does not find cpu"; }
  keel-conformance self-test --defect no_reopen >"$scratch/log" ||
    { cat "$scratch/log"; fail "the suite does not find its simulated device"; }
fi
[ -f "$(echo "$prefix"/lib*/libkeel.so)" ] || fail "there is no libkeel.so"
nm -D --defined-only "$(echo "$prefix"/lib*/libkeel.so)" | grep -v ' keel_\| KEEL_' &&
  fail "libkeel exports more than its public functions"

cmake -G Ninja -S "$source/packaging/tests/plugin" -B "$scratch/plugin" -DSAMPLES="$source/samples" \
  -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" || { cat "$scratch/log"; fail "find_package"; }
cmake --build "$scratch/plugin" >"$scratch/log" || { cat "$scratch/log"; fail "building"; }
(cd "$scratch/plugin" && ctest --output-on-failure) >"$scratch/log" ||
  { cat "$scratch/log"; fail "ctest of a plugin"; }
"$scratch/plugin/hello" >/dev/null || fail "a host that find_package(Keel) gave libkeel"
cmake --install "$scratch/plugin" --prefix "$prefix" >/dev/null
keel plugins | grep -q "plugin *minimal" || fail "an installed plugin is not found"
[ "$(nm -D --defined-only "$scratch/plugin/minimal.so" | wc -l)" = 1 ] ||
  fail "a plugin exports more than its entry"

# a new plugin of each level is conformant as it is; under 200 lines at first, 600 at last
for level in 0 1 2 3; do
  keel new-plugin acme-$level --level $level --out "$scratch/acme" >/dev/null
  cmake -G Ninja -S "$scratch/acme" -B "$scratch/acme/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_FLAGS="-Werror -Wpedantic" >"$scratch/log" || { cat "$scratch/log"; fail "new-plugin"; }
  cmake --build "$scratch/acme/build" >"$scratch/log" || { cat "$scratch/log"; fail "new-plugin"; }
  most=$((level ? 600 : 200))
  [ "$(cat "$scratch"/acme/*.[ch] | wc -l)" -lt $most ] || fail "new-plugin: over $most lines"
  if command -v keel-conformance >/dev/null; then
    (cd "$scratch/acme/build" && ctest --output-on-failure) >"$scratch/log" ||
      { cat "$scratch/log"; fail "a new plugin of level $level is not conformant"; }
    grep -q ": level $level " "$scratch/acme/build/acme-${level}_conformance/summary.md" ||
      fail "a new plugin of level $level is of another level"
  fi
  rm -r "$scratch/acme"
done

PKG_CONFIG_PATH=$(echo "$prefix"/lib*/pkgconfig)
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
gcc -D_GNU_SOURCE "$source/samples/hello_device/hello_device.c" -o "$scratch/hello" \
  $(pkg-config --cflags --libs keel) -lm
LD_LIBRARY_PATH="$(pkg-config --variable=libdir keel)" "$scratch/hello" >/dev/null ||
  fail "a host that pkg-config gave libkeel"
# shellcheck disable=SC2046
gcc -shared -fPIC "$source/samples/minimal_plugin/minimal.c" -o "$scratch/minimal.so" \
  $(pkg-config --cflags keel-device-api)

if [ -d "$prefix/share/man" ]; then
  commands="keel keel-run"
  [ ! -x "$prefix/bin/keel-conformance" ] || commands="$commands keel-conformance"
  for command in $commands; do
    gzip -dc "$prefix/share/man/man1/$command.1.gz" | grep -q '^\.SH SYNOPSIS' ||
      fail "the manual of $command"
  done
fi
if command -v pandoc >/dev/null; then # the headers are on the page
  for text in kd_memory_table kd_rebind "In ten minutes" "nothing has these words"; do
    grep -q "$text" "$prefix/share/doc/libkeel-dev/guide.html" || fail "$text is not in the guide"
  done
fi
bash -c '
  . "$1"/share/bash-completion/completions/keel
  COMP_WORDS=(keel ru) COMP_CWORD=1; _keel keel ru keel; echo "${COMPREPLY[@]}"
  COMP_WORDS=(keel run --exp) COMP_CWORD=2; _keel keel --exp run; echo "${COMPREPLY[@]}"
  COMP_WORDS=(keel run --device c) COMP_CWORD=3; _keel keel c --device; echo "${COMPREPLY[@]}"
' sh "$prefix" >"$scratch/words"
printf 'run\n--expect\ncpu:0\n' | diff - "$scratch/words" || fail "bash's completion"
echo "the installed Keel works, in a prefix that was moved"
