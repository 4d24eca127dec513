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
# PyTorch's numbers for the same weights, data and settings.
cat > "$scratch/masks" <<'EOF'
memory of the shorter one: -0.0348 -0.0825 -0.0742 0.0452 -0.0023 0.1812 -0.0561 -0.2832 -0.1671 0.1586 0.2185 0.0310 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000
last states: -0.1517 -0.4011 0.0452 -0.0561 -0.2832 -0.1671 -0.1110 0.1829 0.1148 0.0452 -0.0023 0.1812
last cells: -0.2201 -0.5273 0.0595 -0.0982 -0.3346 -0.2008 -0.2400 0.8670 0.9497 0.0764 -0.0300 1.1522
answer: -1.8820 0.9404 2.0373 -5.0344 -2.1411 2.3331 4.4325 -5.9147 -1.6163 0.0497 2.9522 -2.2897 0.1285 0.4944 1.8209 -4.1230
state behind two halves: 0.2843 -0.0886 0.6528 -0.1724
EOF
"$scratch/build/masks_and_lengths" | diff "$scratch/masks" - || { echo 'masks_and_lengths failed'; exit 1; }
cat > "$scratch/groups" <<'EOF'
step 0: loss 2.1504, norm 3.1219
step 1: loss 1.6158, norm 2.4179
step 2: loss 1.2152, norm 1.7182
step 3: loss 0.9486, norm 1.2312
step 4: loss 0.8039, norm 0.8462
step 5: loss 0.7782, norm 1.1010
step 6: loss 0.7871, norm 1.2758
step 7: loss 0.7923, norm 1.3900
step 4: loss 0.8039, norm 0.8462
step 5: loss 0.7782, norm 1.1010
step 6: loss 0.7871, norm 1.2758
step 7: loss 0.7923, norm 1.3900
the run that went on has the same bits: yes
EOF
"$scratch/build/groups_and_freezing" | diff "$scratch/groups" - || { echo 'groups_and_freezing failed'; exit 1; }
# A header that needs a folder which is not installed must not slip in.
if grep -rlE '#include <(oneapi|dnnl|hwy|nlohmann|cuda)' "$scratch/prefix/include"; then
  echo 'installed headers include third-party headers'
  exit 1
fi
