"""Loads the extension module, which needs libgomp: the one that the process has already (torch's), else the system's, else
the package's copy."""
import os
import sys


def _load():
    try:
        from . import _core
    except ImportError as error:
        if "libgomp.so.1" not in str(error):
            raise
        import ctypes

        ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "fallback", "libgomp.so.1"))
        from . import _core
    # Libraries of other packages (NVIDIA's, XGBoost's, NumPy's OpenBLAS) are loaded from here when they are needed.
    _core.set_python_packages([folder for folder in sys.path if folder.endswith("-packages")])


_load()
