"""The version of the package, which is that of the library."""
from . import _core

__version__ = _core.config()[0]
