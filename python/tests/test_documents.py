"""The Python of the documents runs as printed."""
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BLOCKS = [(name, block) for name in ("python.md", "python-training.md")
          for block in re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), re.M | re.S)]


@pytest.mark.parametrize("name, block", BLOCKS)
def test_the_programs_of_the_page_run(name, block):
    try:
        exec(compile(block, name, "exec"), {})  # noqa: S102 (a page of this repository)
    except ModuleNotFoundError as error:  # pandas, or scikit-learn
        pytest.skip(str(error))
