#!/bin/sh
# The Containerfile: builds the image as the README says, from the sources that git knows, and trains in it.
# usage: container_test.sh BUILD_DIR. Skipped (77) without buildah, without root, or without an image of debian:12: it is pulled,
# or else made by debootstrap from the package sources of this machine, where that is installed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/freight-container-test.XXXXXX")
die() { echo "$*"; exit 1; }
skip() { echo "skipped: $1"; exit 77; }
quiet() { "$@" > "$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; die "failed: $*"; }; }
command -v buildah > /dev/null || skip "no buildah"
[ "$(id -u)" = 0 ] || skip "not root: the image is built without namespaces"

# Storage of its own. Programs run in a chroot, which needs neither namespaces nor control groups of the machine.
export TMPDIR="$scratch" BUILDAH_ISOLATION=chroot
image() { buildah --storage-driver vfs --root "$scratch/storage" --runroot "$scratch/run" "$@"; }
cleanup() {
  image rm --all > /dev/null 2>&1 || true
  rm -rf "$scratch"
}
trap cleanup EXIT

base=docker.io/library/debian
# A Debian as the one on this machine finds its packages.
bootstrapped() {
  command -v debootstrap > /dev/null || return 1
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
  debootstrap --variant=minbase --include=ca-certificates bookworm "$scratch/debian" "$mirror" > "$scratch/log" 2>&1 || {
    tail -n 5 "$scratch/log"
    return 1
  }
  rm "$scratch/debian/etc/apt/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || cp -r "$file" "$scratch/debian$(dirname "$file")/"
  done
  container=$(image from scratch)
  quiet image add "$container" "$scratch/debian" /
  quiet image config --cmd bash "$container"
  quiet image commit "$container" "$base:12"
  quiet image tag "$base:12" "$base:12-slim"
  quiet image rm "$container"
  rm -rf "$scratch/debian"
}
{ image pull "$base:12" && image pull "$base:12-slim"; } > "$scratch/log" 2>&1 || bootstrapped ||
  skip "no image debian:12: $(tail -n 1 "$scratch/log")"

# The compiler cache of this machine, if there is one: paths in it are relative to the sources (tools/prepare.sh).
cache=$(ccache --get-config cache_dir 2> /dev/null) || cache=
mkdir "$scratch/sources"
git -C "$root" ls-files -z | tar -C "$root" --null -T - -cf - | tar -C "$scratch/sources" -xf -
quiet image build --layers=false ${cache:+--volume "$cache:/root/.cache/ccache"} --tag freight "$scratch/sources"
size=$(image images --format '{{.Size}}' freight)
echo "image: $size"
image inspect --type image --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.WorkingDir}}' freight | grep -qx '\[freight\] /work' ||
  die "the image does not run freight in /work: $(image inspect --type image freight)"

container=$(image from --pull=false freight)
inside() { image run --volume "$scratch/work:/work" "$container" -- "$@"; }
mkdir "$scratch/work"
expected=$("$build/bin/freight" --version)
version=$(inside freight --version)
[ "$version" = "$expected" ] || die "the image has '$version', expected '$expected'"
quiet inside freight train digits --model mlp --max-steps 20 --no-progress -o run
[ -s "$scratch/work/run/model.safetensors" ] || die "the run did not reach the folder that is mounted as /work"
quiet inside freight data sample housing
quiet inside freight train housing.csv --target median_house_value --rounds 5 -o trees # by XGBoost, a recommended package
