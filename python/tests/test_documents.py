"""The Python of docs/python.md runs as printed."""
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S))
def test_the_programs_of_the_page_run(block):
    try:
        exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102 (a page of this repository)
    except ModuleNotFoundError as error:  # pandas, or scikit-learn
        pytest.skip(str(error))
