#!/usr/bin/env python3
"""freight(1) has every command and every flag of the command, and roff finds no fault in it where there is a roff.

usage: tests/man_page_test.py BUILD_DIR
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    freight = str(pathlib.Path(sys.argv[1]) / "bin/freight")
    page = subprocess.run([sys.executable, ROOT / "tools/man_page", freight], capture_output=True, text=True, check=True).stdout
    shown = page.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    for command in (["train"], ["serve"], ["bench", "step"], ["models", "convert"], ["data", "verify"]):
        text = subprocess.run([freight, *command, "--help", "all"], capture_output=True, text=True, check=True).stdout
        if f".SS freight {' '.join(command)}\n.nf\n{text.rstrip()}\n.fi\n" not in shown:
            sys.exit(f"man_page_test: the help of {command} does not stand in the page as it is")
    if re.search(r"(?<!\\)-", "\n".join(line for line in page.splitlines() if not line.startswith(".TH"))):
        sys.exit("man_page_test: a dash that roff may show as a hyphen")
    for command, said in (("no/such/freight", "cannot be run"), ("/bin/sh", "man_page: ")):
        refused = subprocess.run([sys.executable, ROOT / "tools/man_page", command], capture_output=True, text=True, check=False)
        if refused.returncode == 0 or said not in refused.stderr or "Traceback" in refused.stderr:
            sys.exit(f"man_page_test: of {command} it says {refused.stderr!r}")
    if not shutil.which("groff"):
        print("not asked: there is no groff")
        return
    faults = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, check=False).stderr
    if faults:
        sys.exit(f"man_page_test: groff says\n{faults}")


if __name__ == "__main__":
    main()
