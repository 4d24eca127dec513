"""Functions that the standard lacks and whose parameters are not the library's; generate.py writes the others."""
import itertools

from . import _core, _functions
from ._array_api import _axis, all as _all, asarray, astype, concat, eye, isdtype, mean, nan, permute_dims, sort, where, zeros
from ._linalg import diagonal
from ._manipulation import _ANY, _array


def unique(x, /, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """The distinct elements, or the distinct slices along an axis, ascending; where asked for, also where each occurs first, which
    one each of x is, and how often each occurs. Each NaN is distinct from all others."""
    if axis is None and isinstance(x, _core.Array) and x._on_host:
        found = _core.unique(x)
    else:
        found = _functions._call("unique", x, axis if axis is None else _axis(axis, x.ndim))
    asked = [y for y, wanted in zip(found[1:], (return_index, return_inverse, return_counts)) if wanted]
    return (found[0], *(astype(y, _core.int64, copy=False) for y in asked)) if asked else found[0]


def pad(x, low, high=None, value=0):
    """Elements of one value around x: per axis so many before (low) and behind (high), or NumPy's pad(x, ((before, behind), ...)), where
    one pair, or one number, is for all axes."""
    if high is None:
        pairs = [[low, low]] if isinstance(low, int) else [low] if isinstance(low[0], int) else low
        low, high = zip(*(pairs * _array(x, "pad").ndim if len(pairs) == 1 else pairs))
    return _functions._call("pad", x, list(low), list(high), value)


def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """bool: whether elements differ by at most atol + rtol |y|."""
    x, y = asarray(x), asarray(y)
    near = (x == y) | _functions.isfinite(x) & _functions.isfinite(y) & (_functions.abs(x - y) <= atol + rtol * _functions.abs(y))
    return near | (x != x) & (y != y) if equal_nan else near


def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements differ by at most atol + rtol |y|."""
    return bool(_all(isclose(x, y, rtol, atol, equal_nan)))


def array_equal(x, y):
    """Whether shapes and elements are equal."""
    x, y = asarray(x), asarray(y)
    return x.shape == y.shape and bool(_all(x == y))


def round(x, /, decimals=0):
    """The nearest whole numbers, or numbers of so many decimals, halves to even."""
    if decimals == 0 or (decimals > 0 and not isdtype(_array(x, "round").dtype, ("real floating", "complex floating"))):
        return _functions.round(x)
    wide = astype(x, _core.float64) if isdtype(x.dtype, "integral") else x  # int64 with a float would be float32
    scale = 10.0 ** abs(decimals)
    y = _functions.round(wide * scale) / scale if decimals > 0 else _functions.round(wide / scale) * scale
    return astype(y, x.dtype, copy=False)


def rsqrt(x):
    """1 / sqrt(x)."""
    if not (isinstance(x, _core.Array) and x._on_host and isdtype(x.dtype, "real floating")):
        return _functions._call("rsqrt", x)
    # The library's function would count subnormal numbers as 0. Of 16 bits the result is rounded once.
    if x.dtype.itemsize == 2:
        return astype(rsqrt(astype(x, _core.float32)), x.dtype)
    return _functions.reciprocal(_functions.sqrt(x))


def median(x, axis=None, *, keepdims=False):
    """The middle of the sorted elements over an axis, several, or all: of an even number the mean of two; nan where one is."""
    axes = range(_array(x, "median").ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = [_axis(a, x.ndim) for a in axes]
    kept = [a for a in range(x.ndim) if a not in axes]
    y = sort(permute_dims(x, (*kept, *axes)).reshape((*(x.shape[a] for a in kept), -1)), axis=-1)
    n = y.shape[-1]
    found = mean(y[..., (n - 1) // 2:n // 2 + 1], axis=-1)
    if isdtype(x.dtype, "real floating"):  # nan is the last of the sorted elements
        found = where(_functions.isnan(y[..., -1]), nan, found) if n else found
    return found.reshape([1 if a in axes else size for a, size in enumerate(x.shape)]) if keepdims else found


def diag(x, k=0):
    """The matrix with a vector on diagonal k, or diagonal k of a matrix."""
    if _array(x, "diag").ndim == 2:
        return diagonal(x, offset=k)
    n = x.shape[0] + (k if k > 0 else -k)
    return where(eye(n, k=k, dtype=_core.bool), (concat([zeros(k, dtype=x.dtype), x]) if k > 0 else concat([x, zeros(-k, dtype=x.dtype)])) if k else x,
                 zeros((), dtype=x.dtype))


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
