#!/usr/bin/env python3
"""The checks of documents find what is planted in made-up pages, and nothing in a good one."""
import pathlib
import re
import subprocess
import sys
import tempfile

import docs_commands
import docs_cpp

GOOD = """# A page

```sh
freight devices          # comments do not count
freight --version | \\
  tr a-z A-Z
```
```text
cpu     1 core
...
FREIGHT 1.2...
```

```sh exit 4
freight fails
```

```sh not-run: needs a GPU
freight fails
```

```json
{"a": [1]} {"b": 2}
```
"""
FAKE = '#!/bin/sh\ncase $1 in\ndevices) echo "cpu     2 core"; echo more; echo more;;\n--version) echo "freight 9.8.7 on this";;\n*) exit 4;;\nesac\n'
# What stands in the good page, what takes its place, and a word of the fault that follows.
PLANTED = [
    ("```sh exit 4", "```sh", "exits with 4, need 0"),
    ("```sh exit 4", "```sh exit 5", "exits with 4, need 5"),
    ("cpu     1 core", "gpu     1 core", "not what was printed"),
    ("...\nFREIGHT", "FREIGHT", "not what was printed"),
    ("FREIGHT 1.2...", "FREIGHT 1.2", "not what was printed"),
    ("not-run: needs a GPU", "not-run:", "needs a reason"),
    ("```sh not-run: needs a GPU", "```sh skip", "need `sh`"),
    ("```json", "```", "a fence needs one of"),
    ("```json", "```yaml", "a fence needs one of"),
    ('{"b": 2}', '{"b" 2}', "not json"),
    ("# A page\n", "# A page\n\n    freight devices\n", "a block of four spaces"),
    ("# A page\n", "# A page\n\nSee `nowhere.md`.\n", "there is no nowhere.md"),
    ("# A page\n", "# A page\n\nSee `ir/nowhere.h`.\n", "there is no source ir/nowhere.h"),
    ("# A page\n", "# A page\n\n<!-- before: freight fails -->\n", "exits with 4, need 0"),
]
# Files, and a word of what tools/check_docs says of them.
PAGES = [
    ({"docs/a.md": 200 * "a line\n", "docs/functions.md": 300 * "a row\n"}, "2 pages"),
    ({"docs/a.md": 201 * "a line\n"}, "docs/a.md: expected at most 200 lines, got 201"),
    ({"docs/a.md": "a" * 249_999 + "\n"}, "documents: expected at most 250,000 bytes, got 250,007"),
]
# A document or a source, and the phrases that tools/check_words finds in it.
WORDS = [
    ("a.md", "A picture is told.\n", ["picture", "told"]),
    ("a.md", "`told` is a name.\n```text\nwhat is told\n```\n<!-- rows -->\n| told |\n<!-- end of rows -->\n", []),
    ("a.md", "```sh\nfreight nets  # of nets\n```\nThe standard deviation, a deviation.\n", ["nets", "deviation"]),
    ("a.cpp", 'fail(kind, "got ", n, ", need 3");  // told of nets\n', ["got  , need"]),
    ("a.cpp", 'fail(kind, "got 2, need 3", " nets");  // told\n', ["nets", "got 2, need"]),
    ("a.cpp", 'add("--nets", "picture"); j["nets"] = "picture";\n', []),
]
CPP = ("# A page\n\n<!-- cpp given: Tensor x; -->\n```cpp\nTensor y = x;\n```\n", [
    ("Tensor y = x;", "int main() {}", "none of examples"),
    ("```cpp\n", "```cpp fragment:\n", "need `cpp`"),
    ("```cpp\n", "```cpp part\n", "need `cpp`"),
])


def expect(condition, what):
    if not condition:
        sys.exit(f"docs_test: {what}")


def faults(folder, text, number):
    """What the check of commands says of a page with this text."""
    page, place = folder / "page.md", folder / str(number)
    page.write_text(text)
    place.mkdir()
    checked = docs_commands.Page(page, folder / "freight", folder / "data", place)
    checked.check()
    return checked.faults


def tool(name, *arguments):
    return subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parent.parent / "tools" / name, *arguments], capture_output=True, text=True, check=False).stdout


def lengths_and_words():
    for pages, word in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "docs").mkdir()
            for name, text in ({"README.md": "Freight"} | pages).items():
                (folder / name).write_text(text)
            said = tool("check_docs", folder)
            expect(word in said, f"check_docs says of {list(pages)}: {said}, expected '{word}'")
    for name, text, phrases in WORDS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text(text)
            found = re.findall(r": '(.*?)': ", tool("check_words", path))
            expect(sorted(found) == sorted(phrases), f"check_words finds {found} in {text!r}, expected {phrases}")


def main():
    lengths_and_words()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        docs_commands.ROOT = docs_cpp.ROOT = folder
        (folder / "freight").write_text(FAKE)
        (folder / "freight").chmod(0o755)
        found = faults(folder, GOOD, "good")
        expect(not found, f"the good page has faults: {found}")
        for i, (good, bad, word) in enumerate(PLANTED):
            expect(GOOD.count(good) == 1 or good == "# A page\n", f"{good} stands in the page more than once")
            found = faults(folder, GOOD.replace(good, bad, 1), i)
            expect(len(found) == 1 and word in found[0], f"'{bad}' for '{good}' gives {found}, need one with '{word}'")
        text, planted = CPP
        page = folder / "page.md"
        page.write_text(text)
        code, found = docs_cpp.source(page)
        expect(not found and "Tensor x;" in code and "Tensor y = x;" in code, f"the good C++ gives {found} and\n{code}")
        for good, bad, word in planted:
            page.write_text(text.replace(good, bad, 1))
            found = docs_cpp.source(page)[1]
            expect(len(found) == 1 and word in found[0], f"'{bad}' for '{good}' gives {found}, need one with '{word}'")


if __name__ == "__main__":
    main()
