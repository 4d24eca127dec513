"""What mkdocs.yml adds to the documents: blocks lose what only tests read (```sh not-run: REASON), pages that are named become links, and the reference
of the C++ interface stands beside them under api/, where there is Doxygen (tools/api_reference)."""
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

REFERENCE = "api/index.html"


def on_page_markdown(markdown, page, config, files, **_):
    here, folder = posixpath.dirname(page.file.src_uri), pathlib.Path(config["docs_dir"])

    def link(match):
        name = match[1].removeprefix("docs/")
        for target in (posixpath.normpath(posixpath.join(here, name)), name):
            if not target.startswith("..") and (folder / target).is_file():
                return f"[`{match[1]}`]({posixpath.relpath(target, here or '.')})"
        return match[0]

    out, code = [], False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            code = not code
            line = re.sub(r"^```(\w+) .*", r"```\1", line)
        elif not code:
            line = re.sub(r"`([\w./-]+\.md)`", link, line)
            if shutil.which("doxygen"):  # the page is no document: mkdocs would not find it
                line = line.replace(f"`{REFERENCE}`", f'<a href="{posixpath.relpath(REFERENCE, here or ".")}"><code>{REFERENCE}</code></a>')
        out.append(line)
    return "\n".join(out)


def on_post_build(config, **_):
    if shutil.which("doxygen"):
        tool = pathlib.Path(__file__).resolve().parent / "api_reference"
        subprocess.run([sys.executable, tool, pathlib.Path(config["site_dir"]) / "api"], check=True)
