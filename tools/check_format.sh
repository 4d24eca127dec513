#!/bin/sh
# Fails when a C++ source differs from what clang-format (Debian 12's version 14) would write. `--fix` rewrites the files.
set -eu
cd "$(dirname "$0")/.."
files=$(find src apps tests bench examples python/src -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2> /dev/null | sort)
if [ "${1:-}" = --fix ]; then
  printf '%s\n' "$files" | xargs -P "$(nproc)" -n 50 clang-format -i
else
  printf '%s\n' "$files" | xargs -P "$(nproc)" -n 50 clang-format --dry-run -Werror
fi
