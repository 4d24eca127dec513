#!/usr/bin/env python3
"""Whether the C++ in the documents compiles.

usage: tests/docs_cpp.py COMPILER [PAGE ...]

Blocks of a page that begin with ```cpp become one file, each a function of its own behind the umbrella header and `using namespace freight`:

    ```cpp                           statements, local classes among them; a block with `int main` is the text of a program in examples/
    ```cpp file                      functions and classes
    ```cpp fragment: REASON          is not compiled
    <!-- cpp include: HEADER -->     another header, for the page
    <!-- cpp given: DECLARATIONS --> names that the prose speaks of and the blocks use, for each block from there on
"""
import pathlib
import subprocess
import sys
import tempfile

from docs_commands import ROOT, blocks, pages


def remark(text, word):
    """The contents of all comments of a page that begin with a word, with the lines that they stand on."""
    begin = f"<!-- {word}: "
    return [(i + 1, line[len(begin):].removesuffix("-->").strip()) for i, line in enumerate(text.split("\n")) if line.startswith(begin)]


def source(path):
    """A page's C++ as one file, and the faults of form."""
    text, faults, functions = path.read_text(), [], []
    given = remark(text, "cpp given")
    for line, info, lines in blocks(path)[0]:
        words = info.split()
        if not words or words[0] != "cpp":
            continue
        if words[1:] and words[1:] != ["file"]:
            if words[1] != "fragment:" or len(words) == 2:
                faults.append(f"{path.relative_to(ROOT)}:{line}: '{info}': need `cpp`, `cpp file` or `cpp fragment: REASON`")
            continue
        block = "\n".join(lines) + "\n"
        if "int main(" in block:
            if block not in [example.read_text() for example in (ROOT / "examples").glob("*.cpp")]:
                faults.append(f"{path.relative_to(ROOT)}:{line}: this program is none of examples/, which are compiled and run")
            continue
        names = "\n".join(declarations for at, declarations in given if at < line)
        kept = [x if not x.startswith(("#include", "using namespace")) else "" for x in lines]
        opened = f"namespace block_{line} {{" if words[1:] else f"#line 1 \"given\"\n[[maybe_unused]] void block_{line}() {{\n{names}"
        functions.append(f"{opened}\n#line {line + 1} \"{path.relative_to(ROOT)}\"\n" + "\n".join(kept) + "\n}\n")
    if not functions:
        return "", faults
    headers = ["<iostream>", '"freight/freight.h"', *(f'"{header}"' for _, header in remark(text, "cpp include"))]
    return "".join(f"#include {h}\n" for h in headers) + "using namespace freight;\n" + "".join(functions), faults


def main():
    chosen = [pathlib.Path(p).resolve() for p in sys.argv[2:]] or pages()
    faults = []
    with tempfile.TemporaryDirectory(prefix="freight-docs-") as folder:
        for path in chosen:
            code, wrong = source(path)
            faults += wrong
            if not code:
                continue
            file = pathlib.Path(folder) / "page.cpp"
            file.write_text(code)
            done = subprocess.run([sys.argv[1], "-std=c++20", "-fsyntax-only", "-Wall", "-Wno-unused", "-I", ROOT / "src", "-I", ROOT / "apps/freight", file],
                                  capture_output=True, text=True, check=False)
            print(f"{path.relative_to(ROOT)}: {'compiles' if done.returncode == 0 else 'does not compile'}", flush=True)
            if done.returncode:
                faults.append(done.stderr[:6000])
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
