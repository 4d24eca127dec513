#!/bin/sh
# tools/bundle: what it packs needs nothing but itself and glibc, and runs with an empty environment.
# usage: bundle_test.sh BUILD_DIR
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/freight-bundle-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
die() { echo "$*"; exit 1; }

"$root/tools/bundle" --build "$build" -o "$scratch/bundle.tar.gz"
size=$(stat -c %s "$scratch/bundle.tar.gz")
[ "$size" -lt $((64 << 20)) ] || die "it has $size bytes, need fewer than 64 MiB"
tar -C "$scratch" -xzf "$scratch/bundle.tar.gz"
home=$(echo "$scratch"/freight-*-linux-*)
freight=$home/bin/freight
[ -s "$home/README" ] && [ -s "$home/LICENSE" ] || die "a README or LICENSE is missing"
grep -q '^\.SS freight train$' "$home/share/man/man1/freight.1" || die "the manual page is missing"

glibc='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libmvec|libanl|libnsl)\.so'
for file in "$freight" "$home"/lib/*.so*; do
  readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r needed; do
    printf '%s\n' "$needed" | grep -Eq "$glibc" || [ -e "$home/lib/$needed" ] || die "$file needs $needed, which is not packed"
  done
  if readelf -d "$file" | grep -E '\((RPATH|RUNPATH)\)' | grep -v '\[$ORIGIN/\.\./lib\]'; then
    die "$file looks for libraries elsewhere"
  fi
done
# What the loader takes in fact: the bundle's libraries, glibc's, and the kernel's page.
env -i ldd "$freight" | sed -n 's/.* => \([^ ]*\).*/\1/p' | while read -r path; do
  case $path in
    "$home"/bin/../lib/* | "$home"/lib/*) ;;
    *) basename "$path" | grep -Eq "$glibc" || die "the loader takes $path" ;;
  esac
done

cd "$scratch"
env -i "$freight" --version | grep -q '^freight '
env -i "$freight" devices | grep -q '^cpu '
env -i TMPDIR="$scratch" "$freight" train digits --model mlp --max-steps 20 --no-progress -o run > train.log 2>&1 || {
  cat train.log
  die "it does not train"
}
printf 'P5\n28 28\n255\n' > picture.pgm
head -c 784 /dev/zero >> picture.pgm
env -i TMPDIR="$scratch" "$freight" predict run/model.safetensors picture.pgm | grep -q 'picture.pgm' || die "it does not predict"

# Programs link the static library where it was unpacked.
cmake -S "$root/examples" -B build -G Ninja -DCMAKE_PREFIX_PATH="$home" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache > link.log 2>&1 &&
  ninja -C build hello >> link.log 2>&1 || {
  cat link.log
  die "a program cannot be linked with it"
}
grep -q "^freight_DIR:PATH=$home/" build/CMakeCache.txt || die "another freight was found"
build/hello | grep -q "^$(env -i "$freight" --version): "
