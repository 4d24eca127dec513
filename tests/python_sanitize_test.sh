#!/bin/sh
# Builds the Python package under sanitizers and runs the tests of what it does with memory: arrays, exchange, traces, fits,
# threads, forks and exits. The interpreter loads AddressSanitizer first; leaks are not looked for, since it frees little at exit.
# usage: python_sanitize_test.sh BUILD_DIR SANITIZERS. Skipped (77) where BUILD_DIR/python (python_environment.sh) is missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
"$build/python/bin/python" -c "import nanobind, pytest" 2> /dev/null || {
  echo "skipped: no environment with the packages of tests/requirements.txt"
  exit 77
}
out=$build/sanitize-python
mkdir -p "$out"
cat > "$out/interpreter" << END
#!/bin/sh
LD_PRELOAD=\$(g++ -print-file-name=libasan.so):\$(g++ -print-file-name=libstdc++.so) exec "$build/python/bin/python" "\$@"
END
chmod +x "$out/interpreter"
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1 ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
{
  cmake -S "$root" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O0 -g1" -DFREIGHT_BENCH=OFF \
    -DFREIGHT_TESTS=OFF -DFREIGHT_UNITY=ON -DFREIGHT_SANITIZE="$2" -DFREIGHT_PYTHON=ON -DPython_EXECUTABLE="$out/interpreter" &&
    ninja -C "$out" freight_python
} > "$out/build.log" 2>&1 || {
  tail -n 40 "$out/build.log"
  exit 1
}
export PYTHONPATH="$out/python" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=2
cd "$out"
set --
for name in arrays display exchange fit functional hints modules process transforms; do
  set -- "$@" "$root/python/tests/test_$name.py"
done
# AddressSanitizer keeps freed memory for a while, so that tests of flat memory cannot hold.
exec "$out/interpreter" -m pytest -q -s -p no:cacheprovider -k "not memory_stays_flat and not keeps_its_memory and not keep_the_memory" "$@"
