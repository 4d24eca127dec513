#!/bin/sh
# The packages freight and libfreight-dev: the command runs, and a program is linked with the library, where they are unpacked.
# usage: debian_packages_test.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/freight-debian-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
die() { echo "$*"; exit 1; }
quiet() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log"; die "failed: $*"; }; }

quiet cpack --config "$build/CPackConfig.cmake" -G DEB -B "$scratch"
for package in freight libfreight-dev; do
  deb=$(echo "$scratch/$package"_*.deb)
  [ -e "$deb" ] || die "cpack made no package $package: $(ls "$scratch")"
  quiet dpkg-deb -x "$deb" "$scratch/root"
  [ -s "$scratch/root/usr/share/doc/$package/copyright" ] || die "$package has no copyright file"
  echo "$(basename "$deb"): $(($(stat -c %s "$deb") / 1024)) KiB, depends on $(dpkg-deb -f "$deb" Depends)"
done
depends=$(dpkg-deb -f "$scratch"/freight_*.deb Depends)
for library in libc6 libdnnl2 libgomp1; do
  case $depends in *"$library "*) ;; *) die "freight does not depend on $library: $depends" ;; esac
done
case $depends in *libcurl* | *xgboost* | *nvidia*) die "freight depends on what it loads when it needs it: $depends" ;; esac

cd "$scratch"
version=$(root/usr/bin/freight --version)
quiet root/usr/bin/freight train digits --model mlp --max-steps 20 --no-progress -o run
quiet cmake -S "$root/examples" -B build -G Ninja -DCMAKE_PREFIX_PATH="$scratch/root/usr" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
grep -q "^freight_DIR:PATH=$scratch/root/" build/CMakeCache.txt || die "another freight was found"
quiet ninja -C build hello
build/hello | grep -q "^$version: " || die "hello does not say '$version'"
