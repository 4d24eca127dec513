"""Element types of arrays: their kinds, promotion and limits, and what the namespace says of itself."""
from . import _core, _results
from ._core import Array

bool = _core.bool  # noqa: A001 (the standard's name)
int8, int16, int32, int64 = _core.int8, _core.int16, _core.int32, _core.int64
uint8, uint16, uint32, uint64 = _core.uint8, _core.uint16, _core.uint32, _core.uint64
float16, bfloat16, float32, float64 = _core.float16, _core.bfloat16, _core.float32, _core.float64
complex64, complex128 = _core.complex64, _core.complex128

_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float16, bfloat16, float32, float64),
    "complex floating": (complex64, complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_HALVES = (float16, bfloat16)
_WIDER = {float16: float64, bfloat16: float64, float32: float64, complex64: complex128}  # holds products of two elements exactly


def isdtype(dtype, kind):
    """Whether the element type is of a kind: "bool", "signed integer", "integral", ..., a type, or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: expected one of {', '.join(_KINDS)}, got {kind!r}")
        return dtype in _KINDS[kind]
    return dtype == kind


def result_type(*arrays_and_dtypes):
    """The element type of an operation on these arrays, types and Python numbers."""
    found, numbers = None, []
    for a in arrays_and_dtypes:
        if isinstance(a, (int, float, complex)):
            numbers.append(a)
            continue
        is_number = hasattr(a, "dtype") and hasattr(a, "item")  # NumPy's and torch's, which have a type of their own
        t = a.dtype if isinstance(a, Array) else _core.as_dtype(a.dtype if is_number else a)
        found = t if found is None else _core.promoted(found, t)
    if found is None:
        raise ValueError("result_type: at least one array or dtype is required")
    for n in numbers:
        found = _core.joined(found, n)
    return found


def can_cast(from_, to, /):
    """Whether values of a type can become another one by the rules of promotion."""
    t = from_.dtype if isinstance(from_, Array) else from_
    if t == to:
        return True
    same_kind = t == bool or isdtype(t, "integral") == isdtype(to, "integral")
    try:
        return same_kind and _core.promoted(t, to) == to
    except TypeError:
        return False


_FLOATS = {
    float16: (16, 2.0**-10, 65504.0, 2.0**-14), bfloat16: (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
    float32: (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
    float64: (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
}


def finfo(type, /):
    """Limits of a floating element type, of the parts of a complex one."""
    t = type.dtype if isinstance(type, Array) else _core.as_dtype(type)
    real = {complex64: float32, complex128: float64}.get(t, t)
    if real not in _FLOATS:
        raise ValueError(f"finfo: {t} is not a floating type")
    bits, eps, largest, smallest = _FLOATS[real]
    return _results.FloatInfo(bits, eps, largest, -largest, smallest, real)


def iinfo(type, /):
    """Limits of an integer element type."""
    t = type.dtype if isinstance(type, Array) else _core.as_dtype(type)
    if not isdtype(t, "integral"):
        raise ValueError(f"iinfo: {t} is not an integer type")
    bits = 8 * t.itemsize
    if isdtype(t, "unsigned integer"):
        return _results.IntegerInfo(bits, 2**bits - 1, 0, t)
    return _results.IntegerInfo(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), t)


class _Info:
    """What __array_namespace_info__ returns."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return "cpu"

    def devices(self):
        return ("cpu",)

    def default_dtypes(self, *, device=None):
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        standard = [t for t in (bool, *_KINDS["numeric"]) if t not in _HALVES]
        return {t.name: t for t in standard if isdtype(t, kinds)}


def __array_namespace_info__():
    """What the namespace can do: devices, element types, defaults."""
    return _Info()
