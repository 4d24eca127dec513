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
memory of the shorter one: -0.035 -0.082 -0.074 0.045 -0.002 0.181 -0.056 -0.283 -0.167 0.159 0.218 0.031 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000
last states: -0.152 -0.401 0.045 -0.056 -0.283 -0.167 -0.111 0.183 0.115 0.045 -0.002 0.181
last cells: -0.220 -0.527 0.060 -0.098 -0.335 -0.201 -0.240 0.867 0.950 0.076 -0.030 1.152
answer: -1.882 0.940 2.037 -5.034 -2.141 2.333 4.433 -5.915 -1.616 0.050 2.952 -2.290 0.128 0.494 1.821 -4.123
state behind two halves: 0.284 -0.089 0.653 -0.172
EOF
"$scratch/build/masks_and_lengths" | diff "$scratch/masks" - || { echo 'masks_and_lengths failed'; exit 1; }
cat > "$scratch/groups" <<'EOF'
step 0: loss 2.150, norm 3.122
step 1: loss 1.616, norm 2.418
step 2: loss 1.215, norm 1.718
step 3: loss 0.949, norm 1.231
step 4: loss 0.804, norm 0.846
step 5: loss 0.778, norm 1.101
step 6: loss 0.787, norm 1.276
step 7: loss 0.792, norm 1.390
step 4: loss 0.804, norm 0.846
step 5: loss 0.778, norm 1.101
step 6: loss 0.787, norm 1.276
step 7: loss 0.792, norm 1.390
the run that went on has the same bits: yes
EOF
"$scratch/build/groups_and_freezing" | diff "$scratch/groups" - || { echo 'groups_and_freezing failed'; exit 1; }
TMPDIR=$scratch "$scratch/build/own_data" > "$scratch/own" || { echo 'own_data failed'; exit 1; }
grep -qx 'stopped by the observer: yes; steps: 320, then 640' "$scratch/own" &&
  grep -qx 'mean distance below 0.05: yes' "$scratch/own" || { cat "$scratch/own"; echo 'own_data failed'; exit 1; }
TMPDIR=$scratch "$scratch/build/save_and_load" > "$scratch/saved" || { echo 'save_and_load failed'; exit 1; }
grep -qx 'answers as before: yes' "$scratch/saved" && grep -qx 'weights as before: yes' "$scratch/saved" &&
  grep -qx 'graph as its code: yes' "$scratch/saved" && grep -q '^refused: .*is not declared' "$scratch/saved" || { cat "$scratch/saved"; echo 'save_and_load failed'; exit 1; }
"$scratch/build/export" "$scratch/own.onnx" | grep -qx 'input f32 (N, 5, 8) -> probabilities f32 (N, 3)' &&
  test -s "$scratch/own.onnx" || { echo 'export failed'; exit 1; }
# A plugin that was built with the installed headers is loaded by the installed command.
printf '%s' '{"format": "freight-model-1", "name": "own", "input": [4], "net": [{"type": "Gain"}, {"type": "Linear", "out": 2}]}' > "$scratch/own.json"
"$scratch/prefix/bin/freight" models show "$scratch/own.json" --plugin "$scratch/build/libmine.so" | grep -q 'Gain ' ||
  { echo 'the plugin failed'; exit 1; }
# A header that needs a folder which is not installed must not slip in.
if grep -rlE '#include <(oneapi|dnnl|hwy|nlohmann|cuda)' "$scratch/prefix/include"; then
  echo 'installed headers include third-party headers'
  exit 1
fi
