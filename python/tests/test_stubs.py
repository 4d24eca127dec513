"""The stubs say what the package has (mypy's stubtest)."""
import os
import subprocess
import sys

import pytest

import freight

# Types of the extension have nanobind's metaclass and no constructor.
ALLOWED = r"freight\.(Array|dtype)(\.__init__)?"


def test_stubs_agree_with_the_package(tmp_path):
    pytest.importorskip("mypy.stubtest")
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(ALLOWED)
    folder = os.path.dirname(os.path.dirname(freight.__file__))
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "freight", "--concise", "--allowlist", str(allowed)], cwd=tmp_path,
                          env={**os.environ, "MYPYPATH": folder, "PYTHONPATH": folder}, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
