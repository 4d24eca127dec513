#!/usr/bin/env python3
"""The documents become a site without a warning: every page stands in mkdocs.yml, every link and anchor leads somewhere.

usage: tests/docs_site.py BUILD_DIR   (exit 77: skipped, there is no mkdocs; tests/requirements.txt names its version)
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    own = pathlib.Path(sys.argv[1]) / "python/bin/mkdocs"
    mkdocs = str(own.resolve()) if own.exists() else shutil.which("mkdocs")
    if not mkdocs:
        print(f"skipped: no mkdocs in {own.parent} or on the path")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as site:
        done = subprocess.run([mkdocs, "build", "--strict", "--site-dir", site], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
        if done.returncode:
            sys.exit(f"docs_site: mkdocs exits with {done.returncode}\n{done.stdout}")
        for page in (ROOT / "docs").rglob("*.md"):
            name = page.relative_to(ROOT / "docs").with_suffix(".html")
            html = pathlib.Path(site) / ("index.html" if str(name) == "README.html" else name)
            if not html.exists():
                sys.exit(f"docs_site: there is no {html.name} of {page}")
            if "not-run:" in html.read_text() or "```" in html.read_text():
                sys.exit(f"docs_site: {page}: a block is not shown as one")
        if shutil.which("doxygen"):
            if not (pathlib.Path(site) / "api/index.html").exists() or 'href="api/index.html"' not in (pathlib.Path(site) / "cpp.html").read_text():
                sys.exit("docs_site: the reference of the C++ interface is missing, or cpp.html does not lead to it")


if __name__ == "__main__":
    main()
