"""unique with NumPy's parameters; the standard's functions of one array are in freight/_array_api.py."""
from . import _core, _functions
from ._array_api import _axis, astype


def unique(x, /, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """The distinct elements, or the distinct slices along an axis, ascending; where asked for, also where each occurs first, which
    one each of x is, and how often each occurs. Each NaN is distinct from all others."""
    found = _functions._call("unique", x, axis if axis is None else _axis(axis, x.ndim))
    asked = [y for y, wanted in zip(found[1:], (return_index, return_inverse, return_counts)) if wanted]
    return (found[0], *(astype(y, _core.int64, copy=False) for y in asked)) if asked else found[0]
