#!/bin/sh
# Makes BUILD_DIR/python, an environment with the packages of tests/requirements.txt, once per list.
# usage: python_environment.sh BUILD_DIR. Skipped (77) where pip reaches no package index.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=$1/python
cmp -s "$here/requirements.txt" "$python/.complete" && exit 0
rm -rf "$python"
python3 -m venv "$python"
"$python/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" > "$1/python.log" 2>&1 || {
  tail -n 5 "$1/python.log"
  echo "skipped: pip could not install the packages of tests/requirements.txt"
  rm -rf "$python"
  exit 77
}
cp "$here/requirements.txt" "$python/.complete"
