#!/bin/sh
# Builds the Python package in BUILD_DIR-wheel and runs its tests (python/tests); with `suite` the public tests of the array API
# standard instead, which lie beside the repository; with `values` random calls beside NumPy (python_values). That folder is as
# deep as BUILD_DIR, so that the compiler cache has the library's objects; wheel_test.sh makes the wheel there.
# usage: python_package.sh BUILD_DIR [suite|values]. Skipped (77) where BUILD_DIR/python (python_environment.sh) or the suite is
# missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
python=$build/python/bin/python
suite=$root/../shared/array-api-tests
skip() {
  echo "skipped: $1"
  exit 77
}
"$python" -c "import nanobind, pytest" 2> /dev/null || skip "no environment with the packages of tests/requirements.txt"
[ "${2:-}" != suite ] || [ -d "$suite" ] || skip "no array-api-tests at $suite"

out=$build-wheel
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
mkdir -p "$out"
{
  cmake -S "$root" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFREIGHT_UNITY=ON -DFREIGHT_TESTS=OFF -DFREIGHT_BENCH=OFF \
    -DFREIGHT_PYTHON=ON -DPython_EXECUTABLE="$python" &&
    ninja -C "$out" freight_python
} > "$out/build.log" 2>&1 || {
  tail -n 40 "$out/build.log"
  exit 1
}
export PYTHONPATH="$out/python" PYTHONDONTWRITEBYTECODE=1 FREIGHT_TEST_DATA="$build/data"
if [ "${2:-}" = suite ]; then
  cd "$suite"
  export ARRAY_API_TESTS_MODULE=freight.xp ARRAY_API_TESTS_VERSION=2025.12 HYPOTHESIS_STORAGE_DIRECTORY="$out/hypothesis"
  exec "$python" -m pytest -q -p no:cacheprovider array_api_tests --max-examples 20 --disable-deadline --hypothesis-seed=0
fi
[ "${2:-}" != values ] || exec "$python" "$root/tests/python_values" --calls 10000
cd "$out"
exec "$python" -m pytest -q -p no:cacheprovider "$root/python/tests"
