"""Functions that the standard lacks and whose parameters are not the library's; generate.py writes the others."""
import itertools

from . import _core, _functions
from ._array_api import _axis, astype
from ._manipulation import _ANY, _array


def unique(x, /, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """The distinct elements, or the distinct slices along an axis, ascending; where asked for, also where each occurs first, which
    one each of x is, and how often each occurs. Each NaN is distinct from all others."""
    found = _functions._call("unique", x, axis if axis is None else _axis(axis, x.ndim))
    asked = [y for y, wanted in zip(found[1:], (return_index, return_inverse, return_counts)) if wanted]
    return (found[0], *(astype(y, _core.int64, copy=False) for y in asked)) if asked else found[0]


def split(x, sizes, axis=0):
    """Views of x: parts of these sizes along an axis, whose sum is the size of the axis. Equal parts are made by chunk."""
    a = _axis(axis, _array(x, "split").ndim)
    n = x.shape[a]
    if isinstance(sizes, int):
        raise TypeError(f"split: expected the sizes of the parts, got {sizes}: chunk(x, n) makes n equal parts, and [{sizes}, ...] "
                        f"are parts of {sizes}")
    if any(size < 0 for size in sizes) or sum(sizes) != n:
        raise ValueError(f"split: expected sizes whose sum is {n}, as axis {axis} of shape {x.shape} has it, got {list(sizes)}")
    return [x[(_ANY,) * a + (slice(end - size, end),)] for size, end in zip(sizes, itertools.accumulate(sizes))]


def chunk(x, parts, axis=0):
    """Views of x: equal parts along an axis."""
    n = _array(x, "chunk").shape[_axis(axis, x.ndim)]
    if parts < 1 or n % parts:
        raise ValueError(f"chunk: axis {axis} of shape {x.shape} has no {parts} equal parts: split(x, sizes) makes others")
    return split(x, [n // parts] * parts, axis)


def narrow(x, axis, start, length):
    """`length` elements from `start` along an axis, a view."""
    a = _axis(axis, _array(x, "narrow").ndim)
    n = x.shape[a]
    first = start + n if start < 0 else start
    if first < 0 or length < 0 or first + length > n:
        raise IndexError(f"narrow: {length} elements from {start} are not within axis {axis} of shape {x.shape}")
    return x[(_ANY,) * a + (slice(first, first + length),)]


def select(x, axis, index):
    """The slice at `index` along an axis, without it, a view."""
    return x[(_ANY,) * _axis(axis, _array(x, "select").ndim) + (index,)]


def einsum(equation, *operands):
    """Einstein's summation: axes with letters, products summed over those the result lacks: einsum("ij,jk->ik", a, b)."""
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    return _functions._call("einsum", equation, list(operands[0] if listed else operands))
