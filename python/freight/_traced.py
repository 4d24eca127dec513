"""Operators on arrays that are traced, or on other devices, by the library's ops: x[key], x[key] = value, x @ y."""
import operator

from . import _array_api as xp
from ._core import Array
from ._functions import _call


def item(x, key):
    """x[key]; an index array may be traced."""
    keys = key if isinstance(key, tuple) else (key,)
    left = len([k for k in keys if k is not None and k is not Ellipsis])  # keys that name an axis
    if left > x.ndim:
        raise IndexError(f"too many indices for array: array is {x.ndim}-dimensional, but {left} were indexed")
    axis, picked = 0, False
    for k in keys:
        if k is None:
            x = _call("unsqueeze", x, axis)
            axis += 1
            continue
        if k is Ellipsis:
            axis = x.ndim - left
            continue
        left -= 1
        if isinstance(k, slice):
            x = _sliced(x, axis, k)
            axis += 1
        elif isinstance(k, Array) or hasattr(k, "__len__"):
            rows = xp.asarray(k)
            if rows.dtype == xp.bool:
                raise TypeError("x[mask]: the number of elements is unknown in jit and grad: use where")
            if picked:
                raise TypeError("x[...]: one index array at a time in jit and grad")
            x, picked = _call("gather", x, xp.astype(rows, xp.int64), axis), True
            axis += rows.ndim
        elif isinstance(k, type(True)):
            raise TypeError("x[...]: this index does not work in jit and grad")
        else:
            n, size = operator.index(k), x.shape[axis]
            if not -size <= n < size:
                raise IndexError(f"index {n} is out of bounds for axis {axis} with size {size}")
            x = _call("select", x, axis, n)
    return x


def _sliced(x, axis, key):
    size = x.shape[axis]
    start, stop, step = key.indices(size)
    count = len(range(start, stop, step))
    if step < 0:
        x, start, step = _call("flip", x, axis), size - 1 - start, -step
    return _call("slice", x, axis, start, min(size, start + count * step), step)


def written(x, key, value):
    """x after x[key] = value. The elements that the key names are known while the function is traced."""
    places = xp.reshape(xp.arange(x.size), x.shape)[key]
    value = xp.astype(value, x.dtype) if isinstance(value, Array) else xp.asarray(value, dtype=x.dtype)
    value = xp.reshape(xp.broadcast_to(value, places.shape), (-1,))
    y = _call("scatter", _call("reshape", x, (-1,)), xp.reshape(places, (-1,)), value, 0)
    return _call("reshape", y, x.shape)


def product(x1, x2):
    """x1 @ x2, whose shapes fit."""
    t = xp.result_type(x1, x2)
    a = xp.astype(x1 if x1.ndim > 1 else xp.expand_dims(x1, axis=0), t, copy=False)
    b = xp.astype(x2 if x2.ndim > 1 else xp.expand_dims(x2, axis=1), t, copy=False)
    y = _call("matmul", a, b)
    dropped = ([-2] if x1.ndim == 1 else []) + ([-1] if x2.ndim == 1 else [])
    return xp.squeeze(y, tuple(dropped)) if dropped else y


def reduced(function, x, axis, keepdims, dtype):
    """A reduction over axes."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = [xp._axis(a, x.ndim) for a in axes]
    if function in ("sum", "prod"):
        x = xp.astype(x, xp._summed_type(x.dtype, dtype), copy=False)
    y = _call(function, x, axes, keepdims) if axes else x  # without axes only the type changes
    return xp.astype(y, xp.bool if function in ("any", "all") else x.dtype, copy=False)


def chosen(dtype, condition, x1, x2):
    """where, in an element type."""
    x1, x2 = (xp.astype(x, dtype, copy=False) if isinstance(x, Array) else xp.full((), x, dtype=dtype) for x in (x1, x2))
    return _call("where", condition, x1, x2)
