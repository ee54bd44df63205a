# packages.sh - sourced by run.sh and test.sh: installs what is missing.
#
# need PACKAGE...: Debian packages, by apt, as root or with sudo; nothing is done
# where all are there.

need() {
  missing=
  for package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q 'ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null || {
    echo "these packages are missing, and there is no apt-get:$missing" >&2
    return 1
  }
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "these packages are missing; install them as root:$missing" >&2
      return 1
    }
    as_root=sudo
  fi
  echo "installing:$missing"
  $as_root apt-get update -qq || return 1
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends $missing >/dev/null
}

# what building takes, the tests with it
build_packages="gcc libc6-dev cmake ninja-build pkg-config protobuf-c-compiler libcmocka-dev \
libprotobuf-c-dev libonnx-testdata libcjson-dev libpcre2-dev libopenblas-dev \
libdnnl-dev libjpeg-dev libpng-dev libwebp-dev libtiff-dev libopenjp2-7-dev opencl-headers libvulkan-dev libshaderc-dev glslc"
# what the tests of minutes take beside that
short_packages="git clang-format python3 binutils file"
# what all tests take beside that
test_packages="openmpi-bin libopenmpi-dev mpich libmpich-dev clang clang-tidy g++ libtbb-dev python3-dev python3-venv python3-pip python3-numpy \
libclblast-dev dpkg-dev help2man pandoc valgrind mlir-19-tools pocl-opencl-icd oclgrind mesa-vulkan-drivers vulkan-validationlayers \
gcc-mingw-w64-x86-64-win32"
