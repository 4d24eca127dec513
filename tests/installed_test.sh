#!/bin/sh
# Installs the build into a scratch prefix, builds examples/ against it as a user would, and runs hello.
# usage: installed_test.sh BUILD_DIR
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/freight-installed.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
quiet() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log"; echo "failed: $*"; exit 1; }; }

quiet cmake --install "$build" --prefix "$scratch/prefix"
quiet cmake -S "$root/examples" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
grep -q "^freight_DIR:PATH=$scratch/prefix/" "$scratch/build/CMakeCache.txt" || { echo 'another freight was found'; exit 1; }
quiet ninja -C "$scratch/build"
version=$("$scratch/prefix/bin/freight" --version)
"$scratch/build/hello" | grep -q "^$version: "
# A header that needs a folder which is not installed must not slip in.
if grep -rlE '#include <(oneapi|dnnl|hwy|nlohmann|cuda)' "$scratch/prefix/include"; then
  echo 'installed headers include third-party headers'
  exit 1
fi
