"""The functions of the array API standard (2025.12) but for the elementwise ones, which are generated, and linalg and fft.

On the host they use freight._core; arrays in jit and grad, and on other devices, take the library's ops instead.
"""
from math import ceil as _ceil, inf, nan, pi, e  # noqa: F401

from . import _core, _results
from ._dtypes import *  # noqa: F401,F403
from ._dtypes import _HALVES, _KINDS, _WIDER, __array_namespace_info__  # noqa: F401
from ._core import Array, dtype
from ._nested import flattened as _flattened
from ._manipulation import *  # noqa: F401,F403
from ._manipulation import _ANY, _all_on_host, _array, _axis, _placed, _taken
from ._functions import _call, maximum, minimum, multiply, not_equal, sqrt, subtract, square, equal, logical_or

newaxis = None


# Creation.

def _any_of(values):
    for v in values:
        if v:
            return True
    return False


def _has_array(obj):
    if isinstance(obj, (list, tuple)):
        return _any_of(_has_array(o) for o in obj)
    return isinstance(obj, Array) or (hasattr(obj, "__array__") and not isinstance(obj, (int, float, complex)))


def _from_nested(obj, dtype):
    numbers, shape = _flattened(obj)
    return _core.from_list(numbers, shape, dtype)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of a number, nested lists, or the memory of another library's array, which is shared unless copy=True."""
    if isinstance(obj, Array):
        if dtype is not None and _core.as_dtype(dtype) != obj.dtype:
            if copy is False:
                raise ValueError(f"asarray: {obj.dtype} becomes {dtype} only by a copy, and copy=False forbids it")
            return _placed(_core.astype(obj, dtype, True), device)
        return _placed(_core.astype(obj, None, copy is True), device)
    if isinstance(obj, (list, tuple)) and _has_array(obj):
        parts = [asarray(o) for o in obj]
        x = stack(parts) if parts else _from_nested(obj, dtype)
        return asarray(x, dtype=dtype, device=device)
    if type(obj) in (int, float, complex) or isinstance(obj, (__builtins_bool, list, tuple)):
        if copy is False:
            raise ValueError("asarray: Python's numbers and lists are always copied, and copy=False forbids it")
        return _placed(_from_nested(obj, dtype), device)
    if hasattr(type(obj), "_trained"):  # nn.Parameter: the value, of which gradients are taken
        return asarray(obj.value, dtype=dtype, device=device, copy=copy)
    x = _core.imported(obj)
    if x is None:
        x = _imported_by_numpy(obj)
    if x is None and hasattr(obj, "__dlpack_device__") and obj.__dlpack_device__()[0] not in (1, 3, 11):
        raise TypeError(f"asarray: the elements of this {type(obj).__name__} are on another device: copy it to the host first")
    if x is None and hasattr(obj, "dtype"):
        raise TypeError(f"asarray: elements of type {obj.dtype} are not supported: expected numbers in the native byte order")
    if x is None:
        if isinstance(obj, (int, float, complex)):
            return _placed(_from_nested(obj, dtype), device)
        if hasattr(obj, "__index__") or hasattr(obj, "__float__"):
            return asarray(obj.__index__() if hasattr(obj, "__index__") else float(obj), dtype=dtype, device=device)
        if hasattr(obj, "__iter__") and not isinstance(obj, (str, bytes, dict, set)):
            return asarray(list(obj), dtype=dtype, device=device, copy=copy)
        raise TypeError(f"asarray: cannot make an array of {type(obj)}: expected numbers, nested lists, or an object with "
                        "the buffer protocol or DLPack")
    return asarray(x, dtype=dtype, device=device, copy=copy)


__builtins_bool = type(True)


def _imported_by_numpy(obj):
    """The memory of a NumPy array whose element type the buffer protocol does not know: bfloat16 of ml_dtypes."""
    if getattr(getattr(obj, "dtype", None), "name", None) == "bfloat16" and hasattr(obj, "view"):
        bits = _core.imported(obj.view("uint16"))
        return None if bits is None else _core.reinterpreted(bits, bfloat16)
    if hasattr(obj, "__array__") and not hasattr(obj, "__dlpack__"):
        return _core.imported(obj.__array__())
    return None


def from_dlpack(x, /, *, device=None, copy=None):
    """The array of another library, by DLPack: the same memory unless copy=True."""
    if device not in (None, "cpu"):
        return from_dlpack(x, copy=copy).to_device(device)
    if isinstance(x, Array) and not x._on_host:
        return _core.to_host(x)
    if not hasattr(x, "__dlpack__"):
        return _core.from_capsule(x)
    try:
        capsule = x.__dlpack__(max_version=(1, 1), copy=copy)
    except TypeError:
        capsule = x.__dlpack__()
    y = _core.from_capsule(capsule)
    return _core.astype(y, None, True) if copy else y


def _need_one(function, shape, others):
    if others:
        raise TypeError(f"{function}: expected the shape as one tuple, and dtype= by name: {function}({(shape, *others)}), got {1 + len(others)} arguments")


def empty(shape, *_others, dtype=None, device=None):
    """An array of any elements."""
    _need_one("empty", shape, _others)
    return _placed(_core.empty(shape, dtype), device)


def full(shape, fill_value, *, dtype=None, device=None):
    """An array of one number, of its type: float32 of a float, int64 of an int."""
    if isinstance(fill_value, Array):
        if fill_value.ndim:
            raise ValueError(f"full: the value must be a number or an array without axes, got shape {fill_value.shape}")
        y = broadcast_to(fill_value if dtype is None else astype(fill_value, dtype), shape)
        return _placed(astype(y, y.dtype), device)
    return _placed(_core.full(shape, fill_value, dtype), device)


def zeros(shape, *_others, dtype=None, device=None):
    """An array of zeros, float32 unless dtype says otherwise."""
    _need_one("zeros", shape, _others)
    return _placed(_core.full(shape, 0, float32 if dtype is None else dtype), device)


def ones(shape, *_others, dtype=None, device=None):
    """An array of ones, float32 unless dtype says otherwise."""
    _need_one("ones", shape, _others)
    return _placed(_core.full(shape, 1, float32 if dtype is None else dtype), device)


def empty_like(x, /, *, dtype=None, device=None):
    """empty, with the shape and type of x."""
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """full, with the shape and type of x."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def zeros_like(x, /, *, dtype=None, device=None):
    """zeros, with the shape and type of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """ones, with the shape and type of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, ... before stop; with one argument 0, 1, ... before it."""
    if stop is None:
        start, stop = 0, start
    for x in (start, stop, step):
        if not isinstance(x, (int, float)):
            raise TypeError(f"arange: start, stop and step must be real Python numbers, got {type(x)}")
    if step == 0:
        raise ValueError("arange: step must not be zero")
    if isinstance(start, float) or isinstance(stop, float) or isinstance(step, float):
        count, usual = (stop - start) / step, float32
        if not -9e18 < count < 9e18:
            raise ValueError(f"arange: cannot compute the number of elements from {start} to {stop}")
        count = _ceil(count)
    else:
        count, usual = -((start - stop) // step), int64
    return _placed(_core.arange(_max_of(count, 0), start, step, usual if dtype is None else dtype), device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers from start to stop at equal distances; without stop where endpoint=False."""
    if dtype is None and (isinstance(start, complex) or isinstance(stop, complex)):
        dtype = complex64
    if num < 0:
        raise ValueError(f"linspace: number of samples, {num}, must be non-negative")
    dtype = float32 if dtype is None else _core.as_dtype(dtype)
    gaps = num - 1 if endpoint else num
    k = arange(num, dtype=float64)
    y = start * ((gaps - k) / gaps) + stop * (k / gaps) if gaps else full((num,), start, dtype=float64 if dtype not in _KINDS["complex floating"] else complex128)
    if num:
        y[0] = start
        if endpoint and num > 1:
            y[-1] = stop
    return _placed(astype(y, dtype), device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """(n_rows, n_cols): 1 on diagonal k, 0 elsewhere."""
    x = zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype)
    if -n_rows < k < x.shape[1]:
        _core.diagonal(x, k)[...] = 1
    return _placed(x, device)


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid: one array of all of their axes per vector."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    arrays = [_taken(a, "meshgrid") for a in arrays]
    n = len(arrays)
    views = []
    for i, a in enumerate(arrays):
        at = 1 - i if indexing == "xy" and i < 2 and n > 1 else i
        views.append(reshape(a, tuple(-1 if j == at else 1 for j in range(n))))
    return tuple(astype(v, v.dtype) for v in broadcast_arrays(*views))


def tril(x, /, *, k=0):
    """x (..., M, N) with zeros above diagonal k."""
    return _triangle(x, k, False, "tril")


def triu(x, /, *, k=0):
    """x (..., M, N) with zeros below diagonal k."""
    return _triangle(x, k, True, "triu")


def _triangle(x, k, upper, function):
    if _array(x, function).ndim < 2:
        raise ValueError(f"{function}: expected at least two axes, got shape {x.shape}")
    rows, columns = arange(x.shape[-2])[:, None], arange(x.shape[-1])
    kept = columns - rows >= k if upper else columns - rows <= k
    return where(kept, x, False if x.dtype == bool else 0)


def _max_of(a, b):
    return a if a > b else b


def repeat(x, repeats, /, axis=None):
    """Each element of the axis as often as `repeats`, or its entry of it, says."""
    _array(x, "repeat")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    n = x.shape[_axis(axis, x.ndim)]
    if not isinstance(repeats, int):
        repeats = _taken(repeats, "repeat")
        if repeats.ndim > 1:
            raise ValueError(f"repeat: repeats must have at most one axis, got shape {repeats.shape}")
        counts = broadcast_to(repeats, (n,)).tolist()
    else:
        counts = [repeats] * n
    if _any_of(c < 0 for c in counts):
        raise ValueError("repeat: repeats may not contain negative values")
    index = [i for i, c in enumerate(counts) for _ in range(c)]
    return take(x, asarray(index, dtype=int64), axis=axis)


# Indexing, searching, sorting, sets.

def take(x, indices, /, axis=None):
    """The elements of an axis that integers name, in their order."""
    _array(x, "take")
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis must be given for an array of {x.ndim} axes")
        axis = 0
    return x[(_ANY,) * _axis(axis, x.ndim) + (indices,)]


def take_along_axis(x, indices, /, axis=-1):
    """One element of x per index along an axis; the other axes broadcast."""
    x, indices = _taken(x, "take_along_axis"), _taken(indices, "take_along_axis")
    a = _axis(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis: x has {x.ndim} axes, indices have {indices.ndim}")
    rest = broadcast_shapes(x.shape[:a] + (1,) + x.shape[a + 1:], indices.shape[:a] + (1,) + indices.shape[a + 1:])
    x = broadcast_to(x, rest[:a] + (x.shape[a],) + rest[a + 1:])
    indices = broadcast_to(indices, rest[:a] + (indices.shape[a],) + rest[a + 1:])
    if not x._on_host or not indices._on_host:
        from . import _functions, _traced
        return _functions.gather_elements(x, _traced.wrapped(indices, x.shape[a], a), axis=a)
    key = tuple(indices if i == a else reshape(arange(x.shape[i]), (-1,) + (1,) * (x.ndim - i - 1))
                for i in range(x.ndim))
    return x[key]


def argmax(x, /, axis=None, *, keepdims=False):
    """int64: the index of the first largest element along an axis, or of the flattened array."""
    return _position_of("argmax", x, axis, keepdims)


def argmin(x, /, axis=None, *, keepdims=False):
    """int64: the index of the first smallest element along an axis, or of the flattened array."""
    return _position_of("argmin", x, axis, keepdims)


def _position_of(function, x, axis, keepdims):
    if axis is None:
        y = _position_of(function, reshape(_array(x, function), (-1,)), 0, False)
        return reshape(y, (1,) * x.ndim) if keepdims else y
    if isinstance(axis, (tuple, list)):
        raise TypeError(f"{function}: axis: expected one axis, or None for all, got {axis!r}")
    if _array(x, function)._on_host:
        return _core.position_of(function == "argmax", x, axis, keepdims)
    return astype(_call(function, x, _axis(axis, x.ndim), keepdims), int64)


def count_nonzero(x, /, axis=None, *, keepdims=False):
    """int64: how many elements differ from 0."""
    differ = x if x.dtype == bool else not_equal(x, 0)
    return sum(differ, axis=axis, keepdims=keepdims, dtype=int64)


def nonzero(x, /):
    """Where x differs from 0: one vector of int64 per axis."""
    return _core.nonzero(x)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """int64: where values x2 belong in the sorted x1, left or right of equal ones."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    x1, x2 = _taken(x1, "searchsorted"), _beside(x1, x2)
    if x1.ndim != 1:
        raise ValueError(f"searchsorted: the sorted array must have one axis, got shape {x1.shape}")
    t = result_type(x1, x2)
    x1, x2 = astype(x1, t, copy=False), astype(x2, t, copy=False)
    if not _all_on_host((x1, x2)):
        return astype(_call("searchsorted", x1, x2, side), int64)
    if sorter is not None:
        if not isdtype(sorter.dtype, "integral") or sorter.shape != x1.shape:
            raise ValueError(f"searchsorted: sorter must be integers of shape {x1.shape}: got {sorter.dtype} of shape "
                             f"{sorter.shape}")
        sorter = astype(sorter, int64, copy=False)
    return _core.searchsorted(x1, x2, side == "right", sorter)


def _beside(x1, x2):
    """x2 as an array; a number takes its type from x1."""
    if isinstance(x2, (int, float, complex)):
        return asarray(x2, dtype=_core.joined(_taken(x1, "asarray").dtype, x2))
    return _taken(x2, "asarray")


def where(condition, x1=None, x2=None, /):
    """x1 where the condition holds, else x2; all three broadcast. Of the condition alone nonzero."""
    if x2 is None:
        if x1 is not None:
            raise TypeError("where: expected x2 with x1, or the condition alone")
        return nonzero(condition)
    return _core.where(condition, x1, x2)


def unique_all(x, /):
    """The distinct elements, ascending, where each occurs first, which one each element is, and how often each occurs."""
    return _results.UniqueAllResult(*_core.unique(x))


def unique_counts(x, /):
    """The distinct elements, ascending, and how often each occurs."""
    values, _, _, counts = _core.unique(x)
    return _results.UniqueCountsResult(values, counts)


def unique_inverse(x, /):
    """The distinct elements, ascending, and which one each element of x is."""
    values, _, inverse, _ = _core.unique(x)
    return _results.UniqueInverseResult(values, inverse)


def unique_values(x, /):
    """The distinct elements, ascending."""
    return _core.unique(x)[0]


def isin(x1, x2, /, *, invert=False):
    """bool: whether each element of x1 occurs in x2."""
    x1, x2 = _beside(x2, x1), _beside(x1, x2)
    t = _core.promoted(x1.dtype, x2.dtype)
    x1, values = astype(x1, t, copy=False), unique_values(astype(x2, t, copy=False))
    if values.size == 0:
        return full(x1.shape, invert, dtype=bool)
    at = _core.searchsorted(values, x1, False, None)
    found = equal(take(values, minimum(at, values.size - 1), axis=0), x1)
    return ~found if invert else found


def sort(x, /, axis=-1, *, descending=False, stable=True):
    """The elements along an axis in ascending order, NaN last."""
    if _array(x, "sort")._on_host:
        return _core.sort(x, axis, descending, False)
    return _call("sort", x, _axis(axis, x.ndim), "descending" if descending else "ascending")[0]


def argsort(x, /, axis=-1, *, descending=False, stable=True):
    """int64: the indices that sort x along an axis."""
    if _array(x, "argsort")._on_host:
        return _core.sort(x, axis, descending, True)
    return astype(_call("argsort", x, _axis(axis, x.ndim), "descending" if descending else "ascending"), int64)


# Statistics.

def sum(x, /, axis=None, *, dtype=None, keepdims=False):
    """Sums over axes; of signed integers in int64, of unsigned ones in uint64."""
    return _core.reduce(0, x, axis, keepdims, dtype)


def prod(x, /, axis=None, *, dtype=None, keepdims=False):
    """Products over axes; of signed integers in int64, of unsigned ones in uint64."""
    return _core.reduce(1, x, axis, keepdims, dtype)


def max(x, /, axis=None, *, keepdims=False):
    """The largest elements over axes; a NaN wins."""
    return _core.reduce(2, x, axis, keepdims, None)


def min(x, /, axis=None, *, keepdims=False):
    """The smallest elements over axes; a NaN wins."""
    return _core.reduce(3, x, axis, keepdims, None)


def any(x, /, axis=None, *, keepdims=False):
    """bool: whether any element differs from 0."""
    return _core.reduce(4, x, axis, keepdims, None)


def all(x, /, axis=None, *, keepdims=False):
    """bool: whether all elements differ from 0."""
    return _core.reduce(5, x, axis, keepdims, None)


def _count(x, axis):
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    n = 1
    for a in axes:
        n *= x.shape[_axis(a, x.ndim)]
    return n


def mean(x, /, axis=None, *, keepdims=False):
    """Means over axes; of integers in float32."""
    _array(x, "mean")
    if isdtype(x.dtype, ("bool", "integral")):
        x = astype(x, float32)
    if x._on_host:
        return _core.reduce(6, x, axis, keepdims, None)
    t = float32 if x.dtype in _HALVES else x.dtype
    y = sum(x, axis=axis, keepdims=keepdims, dtype=t) / _divisor(_count(x, axis), t)
    return astype(y, x.dtype, copy=False)


def _divisor(n, t):
    return asarray(float(n), dtype=t)


def var(x, /, axis=None, *, correction=0.0, keepdims=False):
    """Sums of squared differences from the mean, divided by n - correction."""
    _array(x, "var")
    if isdtype(x.dtype, ("bool", "integral")):
        x = astype(x, float32)
    t, n = x.dtype, _count(x, axis)
    if t == complex64 or t == complex128:
        real = {complex64: float32, complex128: float64}[t]
        away = subtract(x, mean(x, axis=axis, keepdims=True))
        total = sum(square(away.real) + square(away.imag), axis=axis, keepdims=keepdims, dtype=real)
        return total / _divisor(n - correction if n > correction else 0, real)
    if x._on_host:
        y = _core.squared_deviations(x, axis, keepdims)
    else:
        y = sum(square(subtract(x, mean(x, axis=axis, keepdims=True))), axis=axis, keepdims=keepdims)
    return astype(y / _divisor(n - correction if n > correction else 0, y.dtype), t, copy=False)


def std(x, /, axis=None, *, correction=0.0, keepdims=False):
    """The square root of var. Its gradient is 0 where all elements are equal."""
    y = var(x, axis=axis, correction=correction, keepdims=keepdims)
    if y._on_host:
        return sqrt(y)
    none = equal(y, 0)
    return where(none, 0, sqrt(where(none, 1, y)))


def cumulative_sum(x, /, axis=None, *, dtype=None, include_initial=False):
    """Element i is the sum of elements 0 to i along the axis; include_initial puts 0 in front."""
    return _running("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x, /, axis=None, *, dtype=None, include_initial=False):
    """Element i is the product of elements 0 to i along the axis; include_initial puts 1 in front."""
    return _running("cumulative_prod", x, axis, dtype, include_initial)


def _summed_type(t, dtype):
    if dtype is not None:
        return _core.as_dtype(dtype)
    return int64 if t == bool or t in _KINDS["signed integer"] else uint64 if t in _KINDS["unsigned integer"] else t


def _running(function, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{function}: axis must be given for an array of {x.ndim} axes")
        x, axis = reshape(x, (-1,)), 0
    if x._on_host:
        return _core.running(int(function == "cumulative_prod"), x, axis, dtype, include_initial)
    if include_initial:
        raise TypeError(f"{function}: include_initial does not work in jit and grad: use concat")
    t = _summed_type(x.dtype, dtype)
    return astype(_call("cumprod" if function == "cumulative_prod" else "cumsum", astype(x, t, copy=False), _axis(axis, x.ndim)), t, copy=False)


def clip(x, /, min=None, max=None):
    """min(max(x, low), high); x where neither is given. Of bounds that are numbers, only elements between them have a gradient."""
    numbers = isinstance(min, (int, float, type(None))) and isinstance(max, (int, float, type(None))) and (min, max) != (None, None)
    if numbers and not x._on_host and isdtype(x.dtype, "real floating"):
        return _call("clamp", x, -inf if min is None else min, inf if max is None else max)
    y = x
    if min is not None:
        y = maximum(y, _bound(min, x))
    if max is not None:
        y = minimum(y, _bound(max, x))
    return astype(y, x.dtype, copy=y is x)


def _bound(b, x):
    return astype(b, x.dtype, copy=False) if isinstance(b, Array) and isdtype(x.dtype, "integral") and b.dtype == x.dtype else b


def real(x, /):
    """The real part, a view; x itself where it is not complex."""
    return _core.part(x, 0) if _array(x, "real").dtype in _KINDS["complex floating"] else x


def imag(x, /):
    """The imaginary part, a view."""
    return _core.part(x, 1) if _array(x, "imag").dtype in _KINDS["complex floating"] else zeros_like(x)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbors along the axis, n times; of bool, whether they differ."""
    a = _axis(axis, _array(x, "diff").ndim)
    if n < 0:
        raise ValueError(f"diff: order must be non-negative, got {n}")
    parts = [_taken(p, "diff") for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        parts = [p if p.ndim else broadcast_to(p, x.shape[:a] + (1,) + x.shape[a + 1:]) for p in parts]
        x = concat(parts, axis=a)
    for _ in range(n):
        before = (_ANY,) * a
        left, right = x[before + (slice(1, None),)], x[before + (slice(None, -1),)]
        x = not_equal(left, right) if x.dtype == bool else subtract(left, right)
    return x


# Contractions.

def matmul(x1, x2, /):
    """(..., M, K) x (..., K, N) -> (..., M, N); batch axes broadcast, vectors are rows and columns."""
    return _core.matmul(x1, x2)


def matrix_transpose(x, /):
    """The last two axes swapped, a view."""
    n = _array(x, "matrix_transpose").ndim
    if n < 2:
        raise ValueError(f"matrix_transpose: needs at least two axes, got shape {x.shape}")
    return _core.permute_dims(x, (*range(n - 2), n - 1, n - 2))


def tensordot(x1, x2, /, *, axes=2):
    """Products summed over axes of x1 and x2 that correspond."""
    x1, x2 = _taken(x1, "tensordot"), _taken(x2, "tensordot")
    if isinstance(axes, int):
        if axes < 0 or axes > x1.ndim or axes > x2.ndim:
            raise ValueError(f"tensordot: {axes} axes of arrays that have {x1.ndim} and {x2.ndim}")
        left, right = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        left, right = ([a] if isinstance(a, int) else list(a) for a in axes)
        left, right = [_axis(a, x1.ndim) for a in left], [_axis(a, x2.ndim) for a in right]
    if [x1.shape[a] for a in left] != [x2.shape[a] for a in right]:
        raise ValueError(f"tensordot: shape mismatch for sum: {x1.shape} over {left} and {x2.shape} over {right}")
    kept1 = [a for a in range(x1.ndim) if a not in left]
    kept2 = [a for a in range(x2.ndim) if a not in right]
    shape = tuple(x1.shape[a] for a in kept1) + tuple(x2.shape[a] for a in kept2)
    inner = 1
    for a in left:
        inner *= x1.shape[a]
    rows, columns = 1, 1
    for a in kept1:
        rows *= x1.shape[a]
    for a in kept2:
        columns *= x2.shape[a]
    y = matmul(reshape(permute_dims(x1, tuple(kept1 + left)), (rows, inner)),
               reshape(permute_dims(x2, tuple(right + kept2)), (inner, columns)))
    return reshape(y, shape)


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of conj(x1) x2 over an axis; the others broadcast."""
    from ._functions import conj
    x1, x2 = _taken(x1, "vecdot"), _taken(x2, "vecdot")
    n = _max_of(x1.ndim, x2.ndim)
    if not -n <= axis < 0 and not 0 <= axis < n or x1.ndim == 0 or x2.ndim == 0:
        raise IndexError(f"vecdot: axis {axis} is out of bounds for arrays of {x1.ndim} and {x2.ndim} axes")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: sizes of axis {axis} differ: {x1.shape} and {x2.shape}")
    t = _core.promoted(x1.dtype, x2.dtype)
    left = conj(x1) if isdtype(x1.dtype, "complex floating") else x1
    if x1._on_host and x2._on_host and t in _WIDER:  # rounded once
        return astype(sum(multiply(astype(left, _WIDER[t], copy=False), x2), axis=axis), t)
    return sum(multiply(left, x2), axis=axis, dtype=t)
