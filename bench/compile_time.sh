#!/bin/sh
# Seconds to compile a user's file that includes the umbrella header and builds a net. usage: bench/compile_time.sh [FILE.cpp]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
file=${1:-$root/examples/train_mlp.cpp}
object=$(mktemp)
for flags in '-O0' '-O2'; do
  start=$(date +%s%N)
  # shellcheck disable=SC2086
  ${CXX:-g++} -std=c++20 $flags -I"$root/src" -c "$file" -o "$object"
  end=$(date +%s%N)
  printf '%s %s  %d ms\n' "$(basename "$file")" "$flags" $(((end - start) / 1000000))
done
rm -f "$object"
