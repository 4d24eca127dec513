"""What mkdocs.yml adds to the documents: blocks lose what only tests read (```sh not-run: REASON), and pages that are named become links."""
import pathlib
import posixpath
import re


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
        out.append(line)
    return "\n".join(out)
