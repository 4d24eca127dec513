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
# The programs say themselves whether they reached what they show.
"$scratch/build/custom_layer" | grep -qx 'loss below 0.001: yes; parameters: 7' || { echo 'custom_layer failed'; exit 1; }
"$scratch/build/gradient_penalty" | grep -q ': yes$' || { echo 'gradient_penalty failed'; exit 1; }
"$scratch/build/threads" | grep -qx 'different answers: 0 of 400' || { echo 'threads failed'; exit 1; }
"$scratch/build/two_optimizers" | grep -qx 'loss below 0.2: yes; frozen layer unchanged: yes' || { echo 'two_optimizers failed'; exit 1; }
"$scratch/build/custom_backend" | grep -qx 'loss fell: yes; steps ran here: yes' || { echo 'custom_backend failed'; exit 1; }
# A header that needs a folder which is not installed must not slip in.
if grep -rlE '#include <(oneapi|dnnl|hwy|nlohmann|cuda)' "$scratch/prefix/include"; then
  echo 'installed headers include third-party headers'
  exit 1
fi
