"""The array API standard 2025.12: its names alone."""
from . import fft, linalg  # noqa: F401
from ._array_api import *  # noqa: F401,F403
from ._array_api import __array_namespace_info__  # noqa: F401
from ._array_api import e, inf, nan, newaxis, pi  # noqa: F401
from ._core import Array  # noqa: F401
from ._version import __version__  # noqa: F401
from . import _functions, _hints
from ._manipulation import _converted

__array_api_version__ = "2025.12"
for _name in vars(_functions._elementwise):
    if not _name.startswith("_"):
        globals()[_name] = getattr(_functions, _name)
_hints.explained(globals(), __name__, ("x", "condition"), _converted)
del _name, _functions, _hints, _converted
