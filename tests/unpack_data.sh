#!/bin/sh
# Unpacks the real data beside the checkout once, for the tests that read it (real_data in tests/support/files.h).
# usage: unpack_data.sh BUILD_DIR. Skipped (77) where there is no ../shared/data, or $FREIGHT_DATA is set.
set -eu
packed=$(cd "$(dirname "$0")/.." && pwd)/../shared/data
[ -z "${FREIGHT_DATA:-}" ] || { echo "skipped: FREIGHT_DATA is set"; exit 77; }
[ -x "$packed/unpack.sh" ] || { echo "skipped: no $packed/unpack.sh"; exit 77; }
[ ! -e "$1/data/.complete" ] || exit 0
rm -rf "$1/data.new"
"$packed/unpack.sh" "$1/data.new"
rm -rf "$1/data"
mv "$1/data.new" "$1/data"
