"""Operators on arrays that are traced, or on other devices, by the library's ops: x[key], x[key] = value, x @ y."""
import math
import operator
import typing

from . import _array_api as xp
from . import _parameter, _views
from ._core import Array
from ._functions import _call


def item(x, key):
    """x[key]; index arrays may be traced. Of a traced mask the elements are not known, only what they become."""
    mask = _traced_mask(x, key)
    if mask is not None:
        return MaskedElements(x, mask)
    keys = key if isinstance(key, tuple) else (key,)
    parts = [part for k in keys for part in _parts(k)]
    y = _item(x, parts)
    if not any(isinstance(k, Array) for k in parts):
        _views.add_part(x, y, key, written)
    return y


def _item(x, keys):
    """x[keys] of integers, slices and arrays of integers. The result's axes lie where NumPy has them."""
    left = len([k for k in keys if k is not None and k is not Ellipsis])  # keys that name an axis
    if left > x.ndim:
        raise IndexError(f"too many indices for array: array is {x.ndim}-dimensional, but {left} were indexed")
    has_arrays = any(isinstance(k, Array) for k in keys)
    axis, indices, runs, before = 0, [], 0, None  # runs: of index arrays side by side
    for k in keys:
        is_index = not (k is None or k is Ellipsis or isinstance(k, slice))
        runs += is_index and not before
        before = is_index
        if k is None:
            x = _call("unsqueeze", x, axis)
            axis += 1
            continue
        if k is Ellipsis:
            axis += x.ndim - axis - left
            continue
        left -= 1
        if isinstance(k, slice):
            x = _sliced(x, axis, k)
            axis += 1
        elif isinstance(k, Array):
            indices.append((axis, _views.beside(x, wrapped(k, x.shape[axis], axis))))
            axis += 1
        else:
            n, size = operator.index(k), x.shape[axis]
            if not -size <= n < size:
                raise IndexError(f"index {n} is out of bounds for axis {axis} with size {size}")
            if has_arrays:  # it broadcasts with the arrays
                indices.append((axis, _views.beside(x, xp.asarray(n % size))))
                axis += 1
            else:
                x = _call("select", x, axis, n)
    return _picked(x, indices, runs > 1) if indices else x


def _parts(k):
    """An entry of a key as arrays of integers, where it is a list or a mask."""
    if isinstance(k, type(True)):
        raise TypeError("x[...]: this index does not work in jit and grad")
    if not isinstance(k, Array) and not hasattr(k, "__len__"):
        return (k,)
    k = xp.asarray(k)
    if k.dtype == xp.bool and not k._on_host:
        raise TypeError(_UNKNOWN)
    return xp.nonzero(k) if k.dtype == xp.bool else (xp.astype(k, xp.int64, copy=False),)


def wrapped(index, size, axis):
    """The elements that an index array names, negative numbers counted from the end."""
    if index._on_host and index.size and not -size <= (low := int(xp.min(index))) <= (high := int(xp.max(index))) < size:
        raise IndexError(f"index {low if low < -size else high} is out of bounds for axis {axis} with size {size}")
    return xp.where(index < 0, index + size, index)


def _picked(x, indices, to_front):
    """The elements of x that one index array per axis names: their axes become those of the arrays, broadcast."""
    if len(indices) == 1:
        return _call("gather", x, indices[0][1], indices[0][0])
    axes = [axis for axis, _ in indices]
    if to_front:
        others = [a for a in range(x.ndim) if a not in axes]
        x, axes = xp.permute_dims(x, (*axes, *others)), list(range(len(axes)))
    first, sizes = axes[0], [x.shape[a] for a in axes]
    flat, is_there = None, None
    for size, (_, index) in zip(sizes, indices):
        flat = index if flat is None else flat * size + index
        if not index._on_host:  # within the joined axis a wrong index would name another row
            is_valid = (index >= 0) & (index < size)
            is_there = is_valid if is_there is None else is_there & is_valid
    if is_there is not None:
        flat = xp.where(is_there, flat, -1)
    x = _call("reshape", x, (*x.shape[:first], math.prod(sizes), *x.shape[axes[-1] + 1:]))
    return _call("gather", x, flat, first)


def _sliced(x, axis, key):
    size = x.shape[axis]
    start, stop, step = key.indices(size)
    count = len(range(start, stop, step))
    if step < 0:
        x, start, step = _call("flip", x, axis), size - 1 - start, -step
    return _call("slice", x, axis, start, min(size, start + count * step), step)


def assign(x, key, value):
    """x[key] = value, which a parameter gets, too, if a module has given x."""
    if x._on_host and _parameter.origin(x) is not None:
        x._take(_parameter.written(x, key, value))
        return
    if x._on_host:
        _views.need_own(x)
    if _views.has_part(x, key, value):
        return
    mask = _traced_mask(x, key)
    if mask is not None:
        _views.write(x, _masked(x, mask, value))
        return
    _views.write(x, written(x, key, value))


def written(x, key, value):
    """The array x with a value at x[key]."""
    value = _views.beside(x, xp.astype(value, x.dtype) if isinstance(value, Array) else xp.asarray(value, dtype=x.dtype))
    box = _box(x.shape, key)
    if box is not None:
        value = xp.broadcast_to(value, tuple(b.stop - b.start for b in box if not b.dropped))
        value = _call("reshape", value, tuple(b.stop - b.start for b in box))
        for axis, b in enumerate(box):
            value = _call("flip", value, axis) if b.reversed else value
        return _in_box(x, [(axis, b.start, b.stop) for axis, b in enumerate(box) if b.stop - b.start < x.shape[axis]], value)
    places = xp.reshape(xp.arange(x.size), x.shape)[key]
    return _views.scattered(x, places, xp.broadcast_to(value, places.shape))


class _Extent(typing.NamedTuple):
    """Of an axis the part from start to before stop, in the opposite order where reversed; dropped by a key that is a number."""

    start: int
    stop: int
    reversed: bool
    dropped: bool


def _box(shape, key):
    """The part of each axis that a key of numbers and slices names, where they are parts without gaps; else None."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, (Array, type(True))) or not (k is Ellipsis or isinstance(k, slice) or hasattr(k, "__index__")) or hasattr(k, "__len__")
           for k in keys):
        return None
    if Ellipsis not in keys:
        keys.append(Ellipsis)
    at = keys.index(Ellipsis)
    if keys.count(Ellipsis) > 1 or len(keys) - 1 > len(shape):
        return None
    keys[at:at + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    box = []
    for k, size in zip(keys, shape):
        if not isinstance(k, slice):
            n = operator.index(k)
            if not -size <= n < size:
                return None
            box.append(_Extent(n % size, n % size + 1, False, True))
            continue
        places = range(size)[k]
        if len(places) > 1 and abs(places.step) > 1:
            return None
        first = min(places, default=0)
        box.append(_Extent(first, first + len(places), len(places) > 1 and places.step < 0, False))
    return box


def _in_box(x, parts, value):
    """The array x with a value from start to before stop of axes, (axis, start, stop) of each."""
    if not parts:
        return value
    axis, start, stop = parts[0]
    inside = _in_box(_call("slice", x, axis, start, stop, 1), parts[1:], value) if len(parts) > 1 else value
    pieces = [(0, start), None, (stop, x.shape[axis])]
    joined = [inside if p is None else _call("slice", x, axis, *p, 1) for p in pieces if p is None or p[0] < p[1]]
    return _call("concat", joined, axis)


_UNKNOWN = "x[mask]: the number of elements is unknown in jit and grad: use where"


def _traced_mask(x, key):
    """The key as a mask (the first axes of x), where it is one that is traced."""
    if isinstance(key, tuple) and len(key) == 1:
        key = key[0]
    if x._on_host or not isinstance(key, Array) or key.dtype != xp.bool or key._on_host:
        return None
    if key.shape != x.shape[:key.ndim]:
        raise IndexError(f"boolean index did not match indexed array: the mask has shape {key.shape}, the array {x.shape}")
    return key


def _masked(x, mask, value):
    """x with a value at the elements of a mask: one for all, or what the same mask has of another array."""
    if isinstance(value, MaskedElements):
        if value._mask is not mask or value._x.shape != x.shape:
            raise TypeError("x[mask] = y[other_mask]: the numbers of elements are unknown in jit and grad: expected the same mask, "
                            f"and arrays of one shape, got {x.shape} and {value._x.shape}")
        value = value._x
    else:
        value = _views.beside(x, value if isinstance(value, Array) else xp.asarray(value, dtype=x.dtype))
        if value.ndim > x.ndim - mask.ndim:
            raise TypeError(f"x[mask] = value: the number of elements is unknown in jit and grad: expected a value of {x.ndim - mask.ndim} "
                            f"axes for all of them, got shape {value.shape}; use where")
    y = xp.where(xp.reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim)), xp.astype(value, x.dtype), x)
    if y.shape != x.shape:
        raise ValueError(f"x[mask] = value: could not broadcast shape {value.shape} to {x.shape[mask.ndim:]}")
    return y


class _NamedByMask(type):
    """Errors print types, and say what this one is."""

    def __repr__(cls):
        return "x[mask] in jit and grad, whose number of elements is unknown (use where)"


class MaskedElements(metaclass=_NamedByMask):
    """x[mask] of a mask that is traced, whose number of elements is unknown: operators compute with all of x, and x[mask] = y takes
    those of the mask. Nothing else is known of them."""

    _unknown_elements = _UNKNOWN  # why it is no result and no argument of functions

    def __init__(self, x, mask):
        self._x, self._mask = x, mask

    def _with(self, operation, other, swapped=False):
        if isinstance(other, MaskedElements):
            if other._mask is not self._mask:
                raise TypeError(_UNKNOWN)
            other = other._x
        elif isinstance(other, Array) and other.ndim > self._x.ndim - self._mask.ndim:
            raise TypeError(_UNKNOWN)
        return MaskedElements(operation(other, self._x) if swapped else operation(self._x, other), self._mask)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError(_UNKNOWN)


def _operators():
    def method(operation, swapped):
        return lambda self, other: self._with(operation, other, swapped)

    for name in "add sub mul truediv floordiv mod pow".split():
        operation = getattr(operator, name)
        for prefix, swapped in (("", False), ("i", False), ("r", True)):
            setattr(MaskedElements, f"__{prefix}{name}__", method(operation, swapped))


_operators()


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
