#!/bin/sh
# Configures, builds and runs part of the suite under sanitizers. Unoptimised: compiling is most of the time.
# usage: sanitize_test.sh DIR SANITIZERS ROOMS TEST_ROOMS FILTER; the ROOMS are ;-lists, empty for all.
set -eu
dir=$1 sanitizers=$2 rooms=$3 test_rooms=$4 filter=$5
root=$(cd "$(dirname "$0")/.." && pwd)
cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O0 -g1" -DFREIGHT_BENCH=OFF \
  -DFREIGHT_UNITY=ON -DFREIGHT_COMMAND=OFF -DFREIGHT_SANITIZE="$sanitizers" -DFREIGHT_ROOMS="$rooms" -DFREIGHT_TEST_ROOMS="$test_rooms" \
  > "$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
ninja -C "$dir" > "$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
export OMP_NUM_THREADS=1
if [ -n "$filter" ]; then set -- -R "$filter" -LE '^group$'; else set -- -LE '^case$'; fi
exec "$root/tools/run_ctest" "$dir" "$@"
