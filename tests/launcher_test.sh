#!/bin/sh
# The launcher ./freight: silent when nothing changed, from any folder, through a link, several at once, exit code kept.
# usage: launcher_test.sh BUILD_DIR. Skipped (77) when the tests do not run from the launcher's own build folder.
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
[ "$build" = "$root/build" ] || { echo "skipped: this build is not in $root/build"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/freight-launcher.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
die() { echo "$*"; exit 1; }

"$root/freight" --version > "$scratch/first" 2> /dev/null # may build
cd "$scratch"
out=$("$root/freight" --version 2> err) || die "failed from another folder"
[ ! -s err ] || { cat err; die "speaks although nothing changed"; }
[ "$out" = "$("$build/bin/freight" --version)" ] || die "prints '$out'"

ln -s "$root/freight" link
[ "$(./link --version)" = "$out" ] || die "fails through a link"
status=0
./link --no-such-flag > /dev/null 2>&1 || status=$?
[ $status = 2 ] || die "exit code of the command is lost: got $status"

for i in 1 2 3 4; do ./link --version > "at-once.$i" & done
wait
for i in 1 2 3 4; do [ "$(cat at-once.$i)" = "$out" ] || die "launcher $i of four at once failed"; done
