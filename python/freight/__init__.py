"""Freight: arrays as NumPy's, functions compiled and planned as a whole, gradients.

Functions and semantics are those of the array API standard (2025.12); `freight.xp` has the standard's names alone.
"""
from . import _load  # noqa: F401  (the extension module, before what uses it)
from . import _hints
from . import _methods  # noqa: F401  (methods of Array)
from . import fft, linalg, random, xp  # noqa: F401
from ._array_api import *  # noqa: F401,F403
from ._array_api import e, inf, nan, newaxis, pi  # noqa: F401
from ._beyond_standard import (  # noqa: F401
    allclose, array_equal, chunk, diag, einsum, isclose, median, narrow, pad, rsqrt, select, split, unique)
from ._command_functions import (  # noqa: F401  (eval hides Python's for `from freight import *` alone)
    advise, eval, explain, export, generate, launch, predict, profile, report, runs, serve, train, verify)
from ._commands import CommandError, Server  # noqa: F401
from ._core import Array, dtype  # noqa: F401
from ._functions import *  # noqa: F401,F403
from ._manipulation import _converted
from ._beyond_standard import round  # noqa: F401,E402,I001  (with decimals, in place of the standard's)
from ._print import get_printoptions, set_printoptions  # noqa: F401
from ._settings import set_threads, show_config  # noqa: F401
from ._transforms import Jit, Plan, autocast, custom_gradient, grad, jit, plan, value_and_grad  # noqa: F401
from ._version import __version__  # noqa: F401
from .linalg import LinAlgError, cond, cross, det, diagonal, expm, inv, lstsq, outer, qr, solve, svd, trace  # noqa: F401

_hints.explained(globals(), __name__, ("x", "condition"), _converted)
_LAZY = {"nn": "nn", "data": "data", "optim": "optim", "callbacks": "callbacks", "distributed": "distributed",
         "models": "models", "load": "_fit",
         "load_data": "_data", "History": "_fit_reports", "from_torch": "_from_torch", "FreightClassifier": "_estimators",
         "FreightRegressor": "_estimators"}  # names -> modules that are imported when they are first used


def __getattr__(name):
    import importlib

    if name not in _LAZY:
        raise _hints.missing("module 'freight'", name, _hints.PACKAGE)
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    return module if name == _LAZY[name] else getattr(module, name)
