#!/bin/sh
# The wheel: made as users make it, audited, installed into a new environment in another folder, and used there; then in a
# root that has no libgomp.
# usage: wheel_test.sh BUILD_DIR. Skipped (77) without the packages of tests/requirements.txt, or where pip reaches no index.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
python=$build/python/bin/python
scratch=$(mktemp -d "${TMPDIR:-/tmp}/freight-wheel-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
die() { echo "$*"; exit 1; }
skip() { echo "skipped: $1"; exit 77; }
quiet() { "$@" > "$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; die "failed: $*"; }; }
"$python" -c "import abi3audit, auditwheel, nanobind, scikit_build_core" 2> /dev/null ||
  skip "no environment with the packages of tests/requirements.txt"

# Without an environment of its own for the build, so that what python_package.sh compiled is used again.
quiet "$python" -m pip wheel --no-deps --no-build-isolation -C "build-dir=$build-wheel" -w "$scratch/dist" "$root/python"
wheel=$(echo "$scratch"/dist/*)
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
quiet "$python" -m abi3audit --strict "$wheel"
"$python" - "$wheel" << 'EOF_PYTHON'
import email
import re
import sys
import zipfile

archive = zipfile.ZipFile(sys.argv[1])
names = archive.namelist()
glibc = re.fullmatch(r".*/freight-[0-9.]+-cp310-abi3-manylinux_2_(\d+)_x86_64\.whl", sys.argv[1])
assert glibc and int(glibc[1]) <= 35, f"expected an abi3 wheel for manylinux_2_35 or older, got {sys.argv[1]}"
size = sum(i.compress_size for i in archive.infolist())
assert size < 20e6, f"expected fewer than 20 MB, got {size:,} bytes"
[metadata] = (n for n in names if n.endswith(".dist-info/METADATA"))
needs = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist")
assert needs == ["nanobind-backend>=1.0"], needs
licenses = {n.split("/licenses/")[1] for n in names if ".dist-info/licenses/" in n}
expected = {"LICENSE", "NOTICE"} | {"libraries/" + n for n in ("pocketfft", "cpp-httplib", "onednn", "libgomp1", "libsentencepiece0", "libnettle8")}
assert expected <= licenses, f"licenses are missing: {expected - licenses}"
files = {n for n in names if n.startswith("freight/")}
expected = {"freight/" + n for n in ("_core.abi3.so", "lib/libfreight.so", "lib/fallback/libgomp.so.1", "bin/freight", "py.typed", "__init__.pyi")}
assert expected <= files, f"files are missing: {expected - files}"
packed = [n for n in names if n.startswith("freight.libs/")]
unwanted = [n for n in packed if re.search(r"/lib(gomp|curl|cuda|cu|nv|xgboost|lapack|openblas|gloo|clblast)", n)]
assert packed and not unwanted, f"packed, and not to be: {unwanted}"
EOF_PYTHON

# --copies: the interpreter is a file, which works in another root, too.
"$python" -m venv --copies "$scratch/venv"
new=$scratch/venv/bin
"$new/pip" install -q --disable-pip-version-check "$wheel" > "$scratch/log" 2>&1 || {
  tail -n 5 "$scratch/log"
  skip "pip could not install nanobind-backend"
}
mkdir "$scratch/elsewhere"
cd "$scratch/elsewhere"
cat > use.py << 'EOF_PYTHON'
import ctypes
import os
import sys

import freight as fr

assert "numpy" not in sys.modules
assert fr.__file__.startswith(sys.prefix), fr.__file__
x = fr.asarray([[2.0, 1.0], [1.0, 2.0]])
assert fr.jit(lambda x: (x @ x).sum())(x).item() == 18
assert fr.grad(lambda w: fr.sum(w**2))(fr.arange(3.0)).tolist() == [0, 2, 4]
assert all(abs(a - b) < 1e-6 for a, b in zip(fr.linalg.eigh(x)[0].tolist(), [1, 3]))
ctypes.CDLL("libgomp.so.1")  # is in the process now, under its name
if os.path.exists("/proc/self/maps"):
    gomp = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}
    assert len(gomp) == 1, f"expected one libgomp in the process, got {gomp}"
print(fr.show_config()["lapack"], *gomp if os.path.exists("/proc/self/maps") else [])
EOF_PYTHON
quiet "$new/python" use.py
fallback=$(echo "$scratch"/venv/lib/python3*/site-packages/freight/lib/fallback/libgomp.so.1)
grep -q "$fallback" "$scratch/log" && die "the packed libgomp was loaded, although the system has one"
# Another package has loaded a libgomp before.
quiet "$new/python" -c "import ctypes; ctypes.CDLL('$fallback'); exec(open('use.py').read())"
grep -q "$fallback" "$scratch/log" || die "the libgomp that was in the process was not used: $(cat "$scratch/log")"
"$new/freight" --version | grep -q '^freight ' || die "the command does not run"
quiet "$new/freight" train digits --model mlp --max-steps 20 --devices 'cpu*2' --no-progress -o run
quiet "$new/freight" eval --weights run/model.safetensors
quiet "$new/freight" models show lenet

# A root with the interpreter, this environment, NumPy's OpenBLAS, and the libraries that these load, but libgomp and LAPACK.
bare=$scratch/bare
stdlib=$("$new/python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
packages=$(dirname "$(dirname "$(dirname "$(dirname "$fallback")")")")
cp -r "$("$python" -c 'import numpy, os; print(os.path.dirname(numpy.__file__))').libs" "$packages/"
mkdir -p "$bare$stdlib" "$bare$scratch" "$bare/tmp"
cp -r "$scratch/venv" "$scratch/elsewhere" "$bare$scratch/"
(cd "$stdlib" && tar -cf - --exclude=test --exclude=site-packages --exclude=dist-packages --exclude=__pycache__ --exclude='config-*' .) |
  tar -C "$bare$stdlib" -xf -
{ echo "$new/python"; find "$stdlib/lib-dynload" "$packages" -name '*.so*' -type f; echo "$packages/freight/bin/freight"; } |
  xargs ldd 2> /dev/null | sed -n 's/^.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p' | sort -u | grep -Ev "^$scratch|/lib(gomp|lapack|blas|openblas)" |
  xargs cp -L --parents -t "$bare"
# The loader reads a program's folder from /proc, which is not there, else from LD_ORIGIN_PATH.
in_bare() {
  if [ "$(id -u)" = 0 ]; then set -- chroot "$bare" "$@"; else set -- unshare -r chroot "$bare" "$@"; fi
  env -i HOME=/tmp PATH="$PATH" LD_ORIGIN_PATH="$packages/freight/bin" "$@"
}
quiet in_bare "$new/python" -c "
import ctypes
try:
  ctypes.CDLL('libgomp.so.1')
except OSError:
  pass
else:
  raise SystemExit('this root has a libgomp')"
quiet in_bare "$new/python" "$scratch/elsewhere/use.py"
grep -q "/numpy.libs/" "$scratch/log" || die "NumPy's OpenBLAS was not found: $(cat "$scratch/log")"
quiet in_bare "$new/python" "$new/freight" --version
# The command looks into the packages of its environment, too.
mkdir -p "$bare$packages/xgboost/lib"
: > "$bare$packages/xgboost/lib/libxgboost.so"
(cd "$bare/tmp" && "$new/freight" data sample housing > /dev/null)
if in_bare "$new/python" "$new/freight" train /tmp/housing.csv --target median_house_value -o /tmp/run > "$scratch/log" 2>&1; then
  die "trees were fitted by an empty library"
fi
grep -q "$packages/xgboost/lib/libxgboost.so" "$scratch/log" || die "XGBoost's package was not looked for: $(cat "$scratch/log")"
