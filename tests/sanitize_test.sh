#!/bin/sh
# Configures, builds and runs part of the suite under sanitizers. usage: sanitize_test.sh DIR SANITIZERS ROOMS FILTER
# ROOMS is a ;-list of rooms of src/freight; the tests of the same rooms, whose names match FILTER, are run.
set -eu
dir=$1 sanitizers=$2 rooms=$3 filter=$4
root=$(cd "$(dirname "$0")/.." && pwd)
cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DFREIGHT_BENCH=OFF \
  -DFREIGHT_SANITIZE="$sanitizers" -DFREIGHT_ROOMS="$rooms" > "$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
ninja -C "$dir" > "$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
export OMP_NUM_THREADS=1
if [ -n "$filter" ] && ! ctest --test-dir "$dir" -N -R "$filter" | grep -q 'Total Tests: [1-9]'; then
  echo "no test matches $filter"
  exit 77
fi
ctest --test-dir "$dir" --output-on-failure -j "$(nproc)" -R "${filter:-.}"
