"""Methods and attributes of freight.Array that are functions of the package, and its text form."""
from . import _array_api as xp
from . import _beyond_standard, _core, _functions, _hints
from ._core import Array
from ._manipulation import _joined_axes
from ._print import array_text


def _refuse(function, name, value, instead):
    raise TypeError(f"{function}: {name}={value!r} is NumPy's: use {instead}, or numpy.asarray(x)")


def _needed(function, keywords):
    """The keywords without those that numpy.mean(x) and others hand to methods where the program has given none."""
    name, known = function.__name__, function.__code__.co_varnames[1:function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    for key in keywords:
        if key not in known and key not in ("out", "ddof", "dtype"):
            raise _hints.unknown_argument(f"Array.{name}()", key, known)
    for key, usual, instead in (("out", None, f"freight.{name}(x), which makes a new array"), ("ddof", 0, "correction"),
                                ("dtype", None, f"freight.{name}(x.astype(dtype))")):
        if key in keywords and not (key == "dtype" and name.startswith("cumulative")):
            value = keywords.pop(key)
            if value != usual:
                _refuse(name, key, value, instead)
    return keywords


def _named(method, function):
    """The method under the function's name, which errors print, with its text."""
    name = function.__name__
    method.__name__, method.__qualname__, method.__doc__ = name, f"Array.{name}", function.__doc__
    return method


def _reduction(function):
    def method(self, axis=None, **keywords):
        return function(self, axis=axis, **(_needed(function, keywords) if keywords else keywords))
    return _named(method, function)


def _running(function):
    def method(self, axis=None, **keywords):
        return function(self.ravel() if axis is None else self, axis=axis, **(_needed(function, keywords) if keywords else keywords))
    return _named(method, function)


def _sum(how):
    def method(self, axis=None, *, dtype=None, keepdims=False, out=None, **others):
        if others:
            raise _hints.unknown_argument(f"Array.{method.__name__}()", next(iter(others)), ("axis", "dtype", "keepdims"))
        if out is not None:
            _refuse(method.__name__, "out", out, f"freight.{method.__name__}(x), which makes a new array")
        return _core.reduce(how, self, axis, keepdims, dtype)
    return method


def _extreme(how):
    def method(self, axis=None, *, keepdims=False, out=None, **others):
        if others:
            raise _hints.unknown_argument(f"Array.{method.__name__}()", next(iter(others)), ("axis", "keepdims"))
        if out is not None:
            _refuse(method.__name__, "out", out, f"freight.{method.__name__}(x), which makes a new array")
        return _core.reduce(how, self, axis, keepdims, None)
    return method


for _how, _name in enumerate(("sum", "prod", "max", "min", "any", "all")):  # without calls in between
    setattr(Array, _name, _named((_sum if _how < 2 else _extreme)(_how), getattr(xp, _name)))
for _name in ("mean", "std", "var", "argmax", "argmin"):
    setattr(Array, _name, _reduction(getattr(xp, _name)))
Array.cumsum = _running(xp.cumulative_sum)
Array.cumprod = _running(xp.cumulative_prod)


def _method(function):
    setattr(Array, function.__name__, function)
    return function


Array.mT = property(xp.matrix_transpose)
Array.real = property(xp.real)
Array.imag = property(xp.imag)
Array.itemsize = property(lambda self: self.dtype.itemsize, doc="Bytes of an element.")
Array.nbytes = property(lambda self: self.size * self.dtype.itemsize, doc="Bytes of all elements.")


def _missing(self, name):
    raise _hints.missing("Array", name, _hints.ARRAY)


Array.__getattr__ = _missing


@_method
def __complex__(self):
    return complex(self.item())


@_method
def astype(self, dtype, copy=True):
    """The array converted to another element type."""
    return xp.astype(self, dtype, copy=copy)


@_method
def reshape(self, *shape, copy=None):
    """The same elements under another shape, a view where the layout allows it."""
    return _core.reshape(self, shape[0] if len(shape) == 1 else shape, copy)


@_method
def transpose(self, *axes):
    """The axes in another order, reversed where none is given; a view."""
    if not axes:
        return self.T
    return _core.permute_dims(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)


@_method
def swapaxes(self, axis1, axis2):
    """Two axes swapped, a view."""
    order = list(range(self.ndim))
    axis1, axis2 = xp._axis(axis1, self.ndim), xp._axis(axis2, self.ndim)
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _core.permute_dims(self, tuple(order))


@_method
def squeeze(self, axis=None):
    """The array without axes of size 1, a view."""
    return xp.squeeze(self, axis)


@_method
def flatten(self, start_dim=0, end_dim=-1):
    """The elements in row-major order, a copy; with start_dim the axes from there to end_dim joined, as PyTorch does."""
    return _joined_axes(self, start_dim, end_dim, True)


@_method
def ravel(self):
    """The elements in row-major order, a view where the layout allows it."""
    return _core.reshape(self, (-1,), None)


@_method
def copy(self):
    """The elements in memory of their own."""
    return _core.astype(self, None, True)


@_method
def fill(self, value):
    """Assigns one number to every element."""
    self[...] = value


@_method
def clip(self, min=None, max=None):
    """min(max(x, low), high)."""
    return xp.clip(self, min, max)


@_method
def round(self, decimals=0, *, out=None):
    """The nearest whole numbers, or numbers of so many decimals, halves to even."""
    if out is not None:
        _refuse("round", "out", out, "freight.round(x), which makes a new array")
    return _beyond_standard.round(self, decimals)


@_method
def conj(self):
    """The complex conjugate."""
    return _functions.conj(self)


@_method
def argsort(self, axis=-1, descending=False, stable=True):
    """int64: the indices that sort the array along an axis."""
    return xp.argsort(self, axis=axis, descending=descending, stable=stable)


@_method
def __divmod__(self, other):
    return self // other, self % other


@_method
def __rdivmod__(self, other):
    return other // self, other % self


@_method
def __round__(self, ndigits=None):
    return self.item().__round__(ndigits) if self.ndim == 0 else self.round(ndigits or 0)


@_method
def nonzero(self):
    """Where elements differ from 0: one vector of int64 per axis."""
    return xp.nonzero(self)


@_method
def repeat(self, repeats, axis=None):
    """Each element of the axis several times."""
    return xp.repeat(self, repeats, axis=axis)


@_method
def take(self, indices, axis=None):
    """The elements of an axis that integers name."""
    return xp.take(self if axis is not None else self.ravel(), xp.asarray(indices), axis=axis)


@_method
def dot(self, other):
    """The matrix product."""
    return self @ other


@_method
def to_device(self, device, /, *, stream=None):
    """The array on another device: "cpu", "cuda:0", "opencl:0"."""
    if stream is not None:
        raise ValueError(f"to_device: streams are Freight's own: got {stream!r}")
    if device == self.device:
        return self
    return _core.to_host(self) if device == "cpu" else _core.to_device(self, device)


Array.to = to_device


@_method
def cpu(self):
    """The array on the host."""
    return self.to_device("cpu")


@_method
def numpy(self):
    """A NumPy array of the same memory; of bfloat16 by ml_dtypes, or else in float32."""
    return self.__array__()


@_method
def __array__(self, dtype=None, copy=None):
    import numpy
    if self.dtype == _core.bfloat16:
        try:
            import ml_dtypes
        except ImportError:
            y = numpy.asarray(memoryview(_core.astype(self, _core.float32, True)))
        else:
            y = numpy.asarray(memoryview(_core.reinterpreted(self, _core.uint16))).view(ml_dtypes.bfloat16)
    else:
        y = numpy.asarray(memoryview(self))
    if dtype is not None and y.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__: {self.dtype} becomes {dtype} only by a copy, and copy=False forbids it")
        return y.astype(dtype)
    return y.copy() if copy else y


_UFUNCS = {"absolute": "abs", "arctan2": "atan2", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
           "arctanh": "atanh", "power": "pow", "float_power": "pow", "true_divide": "divide", "mod": "remainder", "invert": "bitwise_invert",
           "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "conjugate": "conj", "rint": "round"}


@_method
def __array_ufunc__(self, ufunc, method, *inputs, out=None, **keywords):
    """NumPy's elementwise functions are Freight's of the same meaning: numpy.exp(x), numpy_array * x."""
    import numpy
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    function = getattr(_functions, name, xp.matmul if name == "matmul" else None)
    if method != "__call__" or keywords or function is None:
        raise TypeError(f"numpy.{ufunc.__name__}{'' if method == '__call__' else '.' + method}: expected arrays alone, and a function that freight "
                        "has: numpy.asarray(x) is the same memory for NumPy")
    if out is None:
        return function(*(i if isinstance(i, (bool, int, float, complex)) else xp.asarray(i) for i in inputs))
    return ufunc(*map(numpy.asarray, inputs), out=out)  # numpy_array += x


@_method
def __array_namespace__(self, /, *, api_version=None):
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ValueError(f"__array_namespace__: unknown version {api_version!r} of the array API standard")
    from . import xp as namespace
    return namespace


@_method
def __dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None):
    return _core.to_dlpack(self, stream, max_version, dl_device, copy)


@_method
def __dlpack_device__(self, /):
    return (1, 0)  # kDLCPU: elements on other devices are brought to the host


@_method
def __iter__(self):
    if self.ndim == 0:
        raise TypeError("iteration over an array without axes")
    return (self[i] for i in range(self.shape[0]))


@_method
def __contains__(self, value):
    return bool(xp.any(self == value))


@_method
def __repr__(self):
    return array_text(self, name="Array")


@_method
def __str__(self):
    return array_text(self)


@_method
def __format__(self, spec):
    return format(self.item(), spec) if spec and self.ndim == 0 else str(self)


@_method
def __copy__(self):
    return _core.astype(self, None, True)


@_method
def __deepcopy__(self, memo):
    return _core.astype(self, None, True)


def _unpickle(version, dtype, shape, data):
    """Makes the array that __reduce__ wrote; later versions read what earlier ones wrote."""
    if version != 1:
        raise ValueError(f"pickle: this array was written by a later version of freight (format {version}, expected 1)")
    return _core.reshape(_core.reinterpreted(xp.asarray(memoryview(data), copy=True), dtype), shape, None)


@_method
def __reduce__(self):
    x = _core.to_host(self).copy()
    bits = _core.reinterpreted(x, _core.uint16) if x.dtype == _core.bfloat16 else x  # which has no buffer format
    return _unpickle, (1, x.dtype.name, x.shape, memoryview(bits).tobytes())


def _dtype_named(name):
    return getattr(_core, name)


_core.dtype.__reduce__ = lambda self: (_dtype_named, (self.name,))
_core.dtype.__hash__ = object.__hash__
