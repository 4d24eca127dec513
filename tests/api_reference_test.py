#!/usr/bin/env python3
"""The C++ interface has a reference, in which every public name has a sentence, and a name without one is told by file and line.

usage: tests/api_reference_test.py   (exit 77: skipped, there is no doxygen)
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools/api_reference"
HEADER = """// A header with all kinds of comments: a_b, <T>, 100 %, #1, a@b, src/*.h.
#pragma once
#include <vector>

namespace freight {

// A function with two forms, which share this. See `x < y`.
int twice(int x);
int twice(double x);
int quiet(int x);  // a function with its comment behind it
int bare(int x);
// Of a fragment.
int begun(int x);

class Thing {  // a class
 public:
  Thing() = default;
  Thing(const Thing&) = delete;
  ~Thing();
  // A function with a body.
  int inside() const {
    // This is no documentation.
    return member_;
  }
  int naked() const { return 1; }
  double left = 0, right = 0;  // both of them
  int plain = 0;

 private:
  int hidden() const;
  int member_ = 0;
};

namespace detail {
int anything();
}

}  // namespace freight
"""
TOLD = {11: "bare", 12: "Of a fragment.", 25: "naked", 27: "plain"}


def main():
    if not shutil.which("doxygen"):
        print("skipped: there is no doxygen")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="freight-api-test-") as folder:
        source, out = pathlib.Path(folder) / "src", pathlib.Path(folder) / "out"
        (source / "freight").mkdir(parents=True)
        (source / "freight/a.h").write_text(HEADER)
        done = subprocess.run([sys.executable, TOOL, out, source, "freight/a.h"], capture_output=True, text=True, check=False)
        told = {int(line.split(":")[1]): line for line in done.stdout.splitlines()}
        if done.returncode != 1 or told.keys() != TOLD.keys() or any(word not in told[line] for line, word in TOLD.items()):
            sys.exit(f"api_reference_test: of a header with faults in lines {list(TOLD)} it says:\n{done.stdout}{done.stderr}")

        site = pathlib.Path(folder) / "site"
        done = subprocess.run([sys.executable, TOOL, site], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"api_reference_test: the installed headers have faults:\n{done.stdout}{done.stderr}")
        pages = {path.name: path.read_text() for path in site.glob("*.html")}
        for page, said in (("classfreight_1_1Tensor.html", "A handle of an array of numbers"), ("namespacefreight.html", "where the axis does not divide."),
                           ("classfreight_1_1nn_1_1Linear.html", "x weight^T + bias")):
            if said not in pages.get(page, ""):
                sys.exit(f"api_reference_test: {page} does not say '{said}'")


if __name__ == "__main__":
    main()
