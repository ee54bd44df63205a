#!/bin/sh
# Keel's packages on a Debian that has nothing else: installed, used, upgraded and removed, in
# a chroot that debootstrap makes. Takes root, a network and some minutes.
#
# usage: chroot_test.sh SOURCE BUILD [MIRROR]     KEEP=DIR keeps the bare system there
#        chroot_test.sh --short SOURCE BUILD      unpacks them instead: no root, no network
set -eu
unset KEEL_PLUGIN_PATH
short=
[ "$1" != --short ] || { short=1 && shift; }
source=$1 build=$2 mirror=${3:-http://deb.debian.org/debian}
scratch=$(mktemp -d)
root=$scratch/root
finish() {
  for at in proc dev/shm; do mountpoint -q "$root/$at" && umount "$root/$at"; done
  rm -rf --one-file-system "$scratch"
}
trap finish EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
step() { echo "== $*"; }

step "packages"
(cd "$build" && cpack -G DEB -B "$scratch/debs" >"$scratch/log" 2>&1) ||
  { cat "$scratch/log"; fail "cpack"; }
debs=$(echo "$scratch"/debs/*.deb)
# no file is in two packages
for deb in $debs; do dpkg-deb -c "$deb" | grep -v '/$' | awk '{print $6}'; done | sort >"$scratch/files"
[ -z "$(uniq -d "$scratch/files")" ] || fail "in two packages: $(uniq -d "$scratch/files")"
for deb in $debs; do
  name=$(dpkg-deb -f "$deb" Package)
  dpkg-deb -f "$deb" Depends | grep -q libc6 || [ "$name" = libkeel-dev ] ||
    fail "$name does not say what it depends on"
done

if [ -n "$short" ]; then
  for deb in $debs; do dpkg-deb -x "$deb" "$root"; done
  "$root/usr/bin/keel" devices | grep -q cpu:0 || fail "keel has no device"
  "$root/usr/bin/keel" new-plugin acme --out "$scratch/acme" >/dev/null
  [ ! -x "$root/usr/bin/keel-conformance" ] ||
    "$root/usr/bin/keel-conformance" cpu --rule 'load.*' --quiet >/dev/null ||
    fail "keel-conformance"
  echo "the packages hold what they should"
  exit 0
fi

release=$(. /etc/os-release && echo "$VERSION_CODENAME")
step "a bare Debian ($release)"
if [ -n "${KEEP:-}" ] && [ -d "$KEEP" ]; then
  cp -a "$KEEP" "$root"
else
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$scratch/log" 2>&1 ||
    { tail -20 "$scratch/log"; fail "debootstrap"; }
  [ -z "${KEEP:-}" ] || cp -a "$root" "$KEEP"
fi
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
apt() { inside apt-get -y -qq "$@" >"$scratch/log" 2>&1 || { tail -30 "$scratch/log"; fail "apt-get $*"; }; }
apt update
apt install --no-install-recommends cmake gcc libc6-dev ninja-build pkg-config python3-pip \
  python3-numpy
(cd "$root" && find usr etc var/lib/dpkg/info -type f -o -type l | sort) >"$scratch/before"

step "packages in"
mkdir "$root/debs"
cp $debs "$root/debs/"
# shellcheck disable=SC2046
apt install --no-install-recommends $(cd "$root" && ls debs/*.deb | sed 's,^,/,')
inside keel devices | grep -q cpu:0 || fail "keel has no device"
inside sh -c 'man -w keel >/dev/null 2>&1 || [ -f /usr/share/man/man1/keel.1.gz ]' || fail "no manual"

step "a host, from headers and pkg-config"
mkdir -p "$root/root/samples"
cp "$source/samples/hello_device/hello_device.c" "$source/samples/eager/eager.c" "$root/root/samples/"
for sample in hello_device eager; do
  inside sh -ec "gcc -D_GNU_SOURCE /root/samples/$sample.c -o /tmp/$sample \$(pkg-config --cflags --libs keel) -lm
             /tmp/$sample >/dev/null" || fail "sample $sample"
done

for level in 0 1 2 3; do
  step "a new plugin of level $level: build, certify"
  inside sh -ec "rm -rf /tmp/acme && keel new-plugin acme --level $level --out /tmp/acme >/dev/null
    cmake -G Ninja -S /tmp/acme -B /tmp/acme/build >/dev/null && cmake --build /tmp/acme/build >/dev/null
    ctest --test-dir /tmp/acme/build --output-on-failure" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; fail "level $level"; }
done
inside keel ops --plugin /tmp/acme/build/acme.so --only --device acme:0 | grep -q MatMul || fail "the new device"

step "the Python wheel"
cp -r "$source/host/bridges/python" "$scratch/python"
rm -rf "$scratch/python/build"
(cd "$scratch/python" && /usr/bin/python3 -m build --no-isolation --wheel -o "$root/root" . \
  >"$scratch/log" 2>&1) || { cat "$scratch/log"; fail "python -m build (python3-build)"; }
inside sh -ec 'pip install --break-system-packages --no-index --no-deps /root/*.whl' \
  >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "pip install"; }
cp /usr/share/libonnx-testdata/data/node/test_matmul_3d/model.onnx "$root/root/"
inside python3 -c '
import keel, numpy as np
a, b = np.ones((2, 3, 4), "f4"), np.ones((2, 4, 3), "f4")
(y,) = keel.load("/root/model.onnx").run(a, b)
assert (y.numpy() == 4).all(), y.numpy()' || fail "the wheel"
inside pip uninstall -qq -y --break-system-packages keel >"$scratch/log" 2>&1

step "an upgrade"
for deb in $debs; do
  dpkg-deb -R "$deb" "$scratch/next"
  sed -i 's/^Version: .*/&+next/; s/(= \([0-9.]*\))/(= \1+next)/g' "$scratch/next/DEBIAN/control"
  dpkg-deb -b --root-owner-group "$scratch/next" "$root/debs/" >/dev/null
  rm -r "$scratch/next"
done
# shellcheck disable=SC2046
apt install --no-install-recommends $(cd "$root" && ls debs/*+next*.deb | sed 's,^,/,')
inside dpkg-query -W -f '${Version}' libkeel0 | grep -q next || fail "the upgrade"
inside keel devices | grep -q cpu:0 || fail "keel has no device after the upgrade"

step "packages out"
# shellcheck disable=SC2046
apt purge $(for deb in $debs; do dpkg-deb -f "$deb" Package; done)
apt autoremove --purge
(cd "$root" && find usr etc var/lib/dpkg/info -type f -o -type l | sort) >"$scratch/after"
grep -v '__pycache__\|/etc/ld.so.cache\|^etc/ld.so.cache' "$scratch/after" >"$scratch/after2"
comm -13 "$scratch/before" "$scratch/after2" >"$scratch/left"
[ ! -s "$scratch/left" ] || { cat "$scratch/left"; fail "files are left"; }
echo "the packages install, work, upgrade and go"
