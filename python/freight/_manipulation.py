"""The array API's functions that change the type or the shape of arrays, or join them, and checks of arguments."""
import math

from . import _core
from ._dtypes import result_type
from ._core import Array
from ._functions import _call

_ANY = slice(None)


def _array(x, function):
    if not isinstance(x, Array) and not hasattr(type(x), "_trained"):  # nn.Parameter, which has the attributes of arrays
        raise TypeError(f"{function}: expected a freight.Array, got {type(x)}: convert it by asarray")
    return x


def _converted(x):
    """What asarray makes of a list or another library's array; other values as they are."""
    if not isinstance(x, Array) and (hasattr(x, "__array__") or hasattr(x, "__dlpack__") or isinstance(x, (list, tuple))):
        from ._array_api import asarray
        return asarray(x)
    return x


def _taken(x, function):
    """An array, or what asarray makes of a list or another library's array: functions take them, as operators do
    (array_or_converted in C++)."""
    return _array(_converted(x), function)


def _placed(x, device):
    return x if device is None or device == x.device else x.to_device(device)


def _all_on_host(arrays):
    for a in arrays:
        if not a._on_host:
            return False
    return True


def _axis(axis, ndim):
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim

# Data types.

def astype(x, dtype, /, *, copy=True, device=None):
    """x converted to another element type; x itself where copy=False and it has that type."""
    y = _core.astype(_array(x, "astype"), dtype, copy)
    return _placed(y, device)

# Manipulation.

def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to."""
    return _core.broadcast_shapes([list(s) for s in shapes])


def broadcast_arrays(*arrays):
    """The arrays as views of one shape."""
    arrays = [_taken(a, "broadcast_arrays") for a in arrays]
    shape = broadcast_shapes(*[a.shape for a in arrays])
    return tuple(broadcast_to(a, shape) for a in arrays)


def broadcast_to(x, /, shape):
    """x as a view of another shape: axes are added in front, sizes of 1 repeated."""
    return _core.broadcast_to(x, shape)


def concat(arrays, /, axis=0):
    """Joins arrays along an axis; with axis=None they are flattened first."""
    arrays = [a if isinstance(a, Array) else _taken(a, "concat") for a in arrays]
    if not arrays:
        raise ValueError("concat: need at least one array")
    if axis is None:
        arrays, axis = [reshape(a, (-1,)) for a in arrays], 0
    if _all_on_host(arrays):
        return _core.concat(arrays, axis)
    t = result_type(*arrays)
    return _call("concat", [astype(a, t, copy=False) for a in arrays], axis)


def expand_dims(x, /, axis=0):
    """x with new axes of size 1, a view."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    n = _array(x, "expand_dims").ndim + len(axes)
    axes = {_axis(a, n) for a in axes}
    if len(axes) != n - x.ndim:
        raise ValueError(f"expand_dims: expected different axes, got {axis}")
    sizes = iter(x.shape)
    return _core.reshape(x, tuple(1 if a in axes else next(sizes) for a in range(n)), None)


def flip(x, /, axis=None):
    """The elements in reverse order along one axis, several or all, a view."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = {_axis(a, x.ndim) for a in axes}
    return x[tuple(slice(None, None, -1) if a in axes else _ANY for a in range(x.ndim))]


def moveaxis(x, source, destination, /):
    """x with axes moved to other places, a view."""
    source = (source,) if isinstance(source, int) else tuple(source)
    destination = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: expected as many destinations as sources, got {len(source)} and {len(destination)}")
    source = [_axis(a, x.ndim) for a in source]
    destination = [_axis(a, x.ndim) for a in destination]
    if len(set(source)) < len(source) or len(set(destination)) < len(destination):
        raise ValueError(f"moveaxis: expected different axes, got {source} to {destination}")
    order = [a for a in range(x.ndim) if a not in source]
    for to, from_ in sorted(zip(destination, source)):
        order.insert(to, from_)
    return _core.permute_dims(x, tuple(order))


def permute_dims(x, /, axes):
    """Axis i of the result is axis axes[i] of x, a view."""
    return _core.permute_dims(x, tuple(axes))


def reshape(x, /, shape, *, copy=None):
    """The same elements in row-major order under another shape, a view where the layout allows it; one size may be -1."""
    return _core.reshape(x, shape, copy)


def roll(x, /, shift, axis=None):
    """The elements moved by `shift` places along an axis, around its ends."""
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: expected one shift per axis, got {len(shifts)} shifts for {len(axes)} axes")
    for a, s in zip(axes, shifts):
        a = _axis(a, x.ndim)
        n = x.shape[a]
        s = s % n if n else 0
        before = (_ANY,) * a
        x = concat([x[before + (slice(n - s, None),)], x[before + (slice(0, n - s),)]], axis=a)
    return x if axes else astype(x, x.dtype)


def _joined_axes(x, start, end, copy=None):
    """x with the axes from start to end as one; a number counts as a vector."""
    n = x.ndim or 1
    first, last = _axis(start, n), _axis(end, n)
    return _core.reshape(x, (*x.shape[:first], math.prod(x.shape[first:last + 1]), *x.shape[last + 1:]), copy)


def squeeze(x, /, axis=None):
    """x without these axes, whose size is 1, or without all of size 1; a view."""
    if axis is None:
        axis = tuple(a for a, n in enumerate(_array(x, "squeeze").shape) if n == 1)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = {_axis(a, x.ndim) for a in axes}
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: expected size 1 on axis {a}, got shape {x.shape}")
    return _core.reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in axes), None)


def stack(arrays, /, axis=0):
    """Joins arrays of one shape along a new axis."""
    arrays = [a if isinstance(a, Array) else _taken(a, "stack") for a in arrays]
    if not arrays:
        raise ValueError("stack: need at least one array")
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        raise ValueError(f"stack: all input arrays must have the same shape: got {sorted(shapes)}")
    return concat([expand_dims(a, axis) for a in arrays], axis=axis)


def tile(x, repetitions, /):
    """x repeated along each of its last axes."""
    repetitions = (repetitions,) if isinstance(repetitions, int) else tuple(repetitions)
    n = max(x.ndim, len(repetitions))
    repetitions = (1,) * (n - len(repetitions)) + repetitions
    shape = (1,) * (n - x.ndim) + x.shape
    x = reshape(x, shape)
    for a, times in enumerate(repetitions):
        if times != 1:
            x = concat([x] * times, axis=a) if times else x[(_ANY,) * a + (slice(0, 0),)]
    return astype(x, x.dtype)


def unstack(x, /, axis=0):
    """The slices of x along an axis, views without it."""
    a = _axis(axis, x.ndim)
    return tuple(x[(_ANY,) * a + (i,)] for i in range(x.shape[a]))
