"""Pointwise functions, reductions, sorting, searching, sets."""
import numpy as np

import freight as f
from compare import LONG, accumulated, equal, family, function, need, numpy_of, pointwise
from draw import ALL, COMPLEX, FLOATS, INTEGERS, NUMERIC, REAL, SIGNED

# Pointwise.

UNARY = {"abs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
         "atanh": "arctanh", "cos": "cos", "cosh": "cosh", "exp": "exp", "expm1": "expm1", "log": "log", "log10": "log10",
         "log1p": "log1p", "log2": "log2", "negative": "negative", "positive": "positive", "reciprocal": "reciprocal",
         "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "tan": "tan", "tanh": "tanh",
         "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "rint", "conj": "conj"}
EXACT = {"abs", "negative", "positive", "sign", "square", "ceil", "floor", "trunc", "round", "conj"}
ONE = {"add", "subtract", "multiply", "divide", "sqrt"}


@family(*UNARY)
def unary(d, name):
    types = FLOATS if name in ("ceil", "floor", "trunc") else FLOATS + COMPLEX
    dtype = d.choice(types + (INTEGERS if name in EXACT else ()))
    x = d.view(dtype, d.shape(), special=dtype in FLOATS)
    y = function(name)(f.asarray(x))
    if dtype in INTEGERS:
        equal(y, x if name in ("ceil", "floor", "trunc", "round") else getattr(np, UNARY[name])(x))
        return 0.0
    exact = getattr(np, UNARY[name])(x.astype(LONG[dtype]))
    if name == "sign" and dtype in COMPLEX:
        exact = np.where(x == 0, 0, x.astype(LONG[dtype]) / np.where(x == 0, 1, np.abs(x.astype(LONG[dtype]))))
    if name == "log1p" and dtype in COMPLEX:  # NumPy's loses digits near 0
        re, im = x.real.astype(np.longdouble), x.imag.astype(np.longdouble)
        exact = np.log1p(re * (2 + re) + im * im) / 2 + 1j * np.arctan2(im, 1 + re)
    out = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype) if name == "abs" else dtype
    return pointwise(y, exact, out, 1 if name in ONE else 4)


BINARY = {"add": ("add", NUMERIC), "subtract": ("subtract", NUMERIC), "multiply": ("multiply", NUMERIC),
          "divide": ("divide", FLOATS + COMPLEX), "floor_divide": ("floor_divide", REAL), "remainder": ("remainder", REAL),
          "pow": ("power", NUMERIC), "atan2": ("arctan2", FLOATS), "hypot": ("hypot", FLOATS),
          "copysign": ("copysign", FLOATS), "logaddexp": ("logaddexp", FLOATS), "maximum": ("maximum", REAL),
          "minimum": ("minimum", REAL)}


@family(*BINARY)
def binary(d, name):
    plain, types = BINARY[name]
    dtype = d.choice(types)
    a, b = d.broadcast_pair()
    quiet = dtype not in FLOATS
    a, b = d.view(dtype, a, special=not quiet), d.view(dtype, b, special=not quiet)
    if dtype in INTEGERS:
        if name == "pow":
            b = np.abs(b.astype("int64") % 7).astype(dtype)
        equal(function(name)(f.asarray(a), f.asarray(b)), getattr(np, plain)(a, b))
        return 0.0
    y = function(name)(f.asarray(a), f.asarray(b))
    if name in ("maximum", "minimum"):  # of zeros either one
        return equal(y + 0.0, getattr(np, plain)(a, b) + np.zeros((), dtype))
    exact = getattr(np, plain)(a.astype(LONG[dtype]), b.astype(LONG[dtype]))
    if name == "floor_divide":  # the quotient where it or the divisor is infinite
        exact = np.where(((b == 0) & (a != 0) & (a == a)) | (np.isinf(a) != np.isinf(b)) & (a == a) & (b == b), a.astype(LONG[dtype]) / b, exact)
    return pointwise(y, exact, dtype, 1 if name in ONE else 4)


@family("nextafter")
def nextafter(d, name):
    a, b = d.broadcast_pair()
    dtype = d.choice(FLOATS)
    a, b = d.view(dtype, a), d.view(dtype, b)
    equal(f.nextafter(f.asarray(a), f.asarray(b)), np.nextafter(a, b))


@family("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
def comparison(d, name):
    a, b = d.broadcast_pair()
    dtype = d.choice(ALL if name in ("equal", "not_equal") else REAL)
    a, b = d.view(dtype, a), d.view(dtype, b)
    b = np.where(d.random.random(b.shape) < 0.5, a.ravel()[0] if a.size else 0, b).astype(dtype)
    equal(function(name)(f.asarray(a), f.asarray(b)), getattr(np, name)(a, b))


@family("isfinite", "isinf", "isnan", "signbit")
def test(d, name):
    x = d.view(d.choice(FLOATS if name == "signbit" else NUMERIC), d.shape())
    equal(function(name)(f.asarray(x)), getattr(np, name)(x))


@family("logical_and", "logical_or", "logical_xor", "logical_not")
def logical(d, name):
    a, b = (d.view("bool", s) for s in d.broadcast_pair())
    given = (a,) if name == "logical_not" else (a, b)
    equal(function(name)(*map(f.asarray, given)), getattr(np, name)(*given))


@family("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift")
def bitwise(d, name):
    dtype = d.choice(INTEGERS if "shift" in name else ("bool",) + INTEGERS)
    a, b = (d.view(dtype, s) for s in d.broadcast_pair())
    if "shift" in name:
        b = np.abs(b.astype("int64") % 70).astype(dtype)
    plain = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "bitwise_invert": "invert"}.get(name, name)
    given = (a,) if name == "bitwise_invert" else (a, b)
    equal(function(name)(*map(f.asarray, given)), getattr(np, plain)(*given))


@family("real", "imag")
def part(d, name):
    x = d.view(d.choice(COMPLEX), d.shape())
    equal(function(name)(f.asarray(x)), getattr(np, name)(x))


@family("clip")
def clip(d, name):
    dtype = d.choice(REAL)
    x = d.view(dtype, d.shape())
    low, high = (d.values(dtype, (), special=False).item() for _ in range(2))
    low, high = min(low, high), max(low, high)
    equal(f.clip(f.asarray(x), low, high), np.clip(x, np.asarray(low, dtype), np.asarray(high, dtype)))


@family("where")
def where(d, name):
    dtype = d.choice(ALL)
    a, b = d.broadcast_pair()
    condition = d.view("bool", d.choice([a, b]))
    a, b = d.view(dtype, a), d.view(dtype, b)
    equal(f.where(*map(f.asarray, (condition, a, b))), np.where(condition, a, b))


@family("astype")
def astype(d, name):
    a, b = d.choice(ALL), d.choice(ALL)
    x = d.view(a, d.shape(), special=False)
    if a in COMPLEX and b not in COMPLEX:
        return
    if a in FLOATS and b in INTEGERS:
        x = np.clip(x, max(np.iinfo(b).min, -2**31), min(np.iinfo(b).max, 2**31 - 1) // 2).astype(a)
    equal(f.astype(f.asarray(x), getattr(f, b)), x.astype(b))


# Reductions.

@family("sum", "prod", "mean")
def summed(d, name):
    dtype = d.choice(FLOATS + COMPLEX if name == "mean" else NUMERIC)
    many = d.random.random() < 0.3
    shape = d.shape(0, 3, 40) if many else d.shape()
    x = d.view(dtype, shape, special=dtype in FLOATS and not many, scale=1.0 if name == "prod" and dtype not in INTEGERS else None)
    axis, keep = d.axes(x.ndim), bool(d.random.integers(2))
    y = function(name)(f.asarray(x), axis=axis, keepdims=keep)
    plain = getattr(np, name)(x, axis=axis, keepdims=keep)
    if dtype in INTEGERS:
        return equal(y, plain.astype("int64" if dtype in SIGNED else "uint64"))
    # In float64 a sum that cancels is as exact as its elements.
    largest = float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0)) if name != "prod" and dtype in ("float64", "complex128") else 0.0
    least = np.spacing(largest) / (max(1, x.size // max(1, plain.size)) if name == "mean" else 1) if largest else 0.0
    return accumulated(y, plain, np.asarray(getattr(np, name)(x.astype(LONG[dtype]), axis=axis, keepdims=keep)), dtype, least,
                       rounded_once=name != "prod")


@family("var", "std")
def spread(d, name):
    dtype = d.choice(FLOATS)
    x = d.view(dtype, d.shape(0, 3, 12), special=False)
    axis, keep, correction = d.axes(x.ndim), bool(d.random.integers(2)), float(d.random.integers(2))
    y = function(name)(f.asarray(x), axis=axis, keepdims=keep, correction=correction)
    plain, exact = (np.asarray(getattr(np, name)(x.astype(t), axis=axis, keepdims=keep, ddof=correction))
                    for t in (dtype, np.longdouble))
    # The square of the error of a mean, which is all that is left of equal elements.
    least = (np.finfo(dtype).eps * float(np.max(np.abs(x), initial=0.0))) ** (2 if name == "var" else 1)
    return accumulated(y, plain, exact, dtype, least)


@family("max", "min", "argmax", "argmin", "any", "all", "count_nonzero")
def chosen(d, name):
    dtype = d.choice(ALL if name in ("any", "all", "count_nonzero") else REAL)
    x = d.view(dtype, tuple(max(1, n) for n in d.shape()))
    axis = (d.axis(x.ndim) if x.ndim and d.random.random() < 0.7 else None) if name.startswith("arg") else d.axes(x.ndim)
    if name in ("argmax", "argmin", "count_nonzero"):
        y, plain = function(name)(f.asarray(x), axis=axis), getattr(np, name)(x, axis=axis)
    else:
        keep = bool(d.random.integers(2))
        y, plain = function(name)(f.asarray(x), axis=axis, keepdims=keep), getattr(np, name)(x, axis=axis, keepdims=keep)
    equal(y, np.asarray(plain).astype("int64") if name == "count_nonzero" else plain)


@family("cumulative_sum", "cumulative_prod")
def running(d, name):
    dtype = d.choice(NUMERIC)
    x = d.view(dtype, d.shape(1, 3, 9), special=False, scale=1.0)
    axis, first = d.axis(x.ndim), bool(d.random.integers(2))
    plain_function = np.cumsum if name == "cumulative_sum" else np.cumprod

    def plain(t):
        y = plain_function(x.astype(t), axis=axis)
        start = np.full_like(np.take(y, [0] if y.shape[axis] else [], axis=axis), name == "cumulative_prod")
        if not y.shape[axis]:
            start = np.full(tuple(1 if a == axis % x.ndim else n for a, n in enumerate(x.shape)), name == "cumulative_prod", y.dtype)
        return np.concatenate([start, y], axis=axis) if first else y
    y = function(name)(f.asarray(x), axis=axis, include_initial=first)
    if dtype in INTEGERS:
        return equal(y, plain("int64" if dtype in SIGNED else "uint64"))
    return accumulated(y, plain(dtype), plain(LONG[dtype]), dtype)


@family("diff")
def diff(d, name):
    dtype = d.choice(REAL)
    x = d.view(dtype, d.shape(1, 3), special=False)
    axis, n = d.axis(x.ndim), int(d.random.integers(0, 3))
    equal(f.diff(f.asarray(x), axis=axis, n=n), np.diff(x, axis=axis, n=n))


# Sorting, searching, sets.

@family("sort", "argsort")
def sort(d, name):
    x = d.view(d.choice(("bool",) + REAL), d.shape(1))
    axis, down = d.axis(x.ndim), bool(d.random.integers(2))
    if not down:
        return equal(function(name)(f.asarray(x), axis=axis), getattr(np, name)(x, axis=axis, kind="stable"))
    order = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    order = x.shape[axis] - 1 - order  # the stable descending one
    y = function(name)(f.asarray(x), axis=axis, descending=True)
    equal(y, order if name == "argsort" else np.take_along_axis(x, order, axis))


@family("searchsorted")
def searchsorted(d, name):
    dtype, side = d.choice(REAL), d.choice(("left", "right"))
    a, b = np.sort(d.view(dtype, d.shape(1, 1, 12), special=False)), d.view(dtype, d.shape(0, 3), special=False)
    equal(f.searchsorted(f.asarray(a), f.asarray(b), side=side), np.asarray(np.searchsorted(a, b, side=side), "int64"))


@family("unique_all", "unique_counts", "unique_inverse", "unique_values")
def unique(d, name):
    x = d.view(d.choice(("bool",) + REAL), d.shape())
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    expected = {"unique_all": (values, first, inverse.reshape(x.shape), counts), "unique_counts": (values, counts),
                "unique_inverse": (values, inverse.reshape(x.shape)), "unique_values": (values,)}[name]
    got = function(name)(f.asarray(x))
    for g, e in zip(got if name != "unique_values" else (got,), expected):
        g, e = numpy_of(g), np.asarray(e)
        need(g.shape == e.shape and np.all((g == e) | ((g != g) & (e != e))), name, g, "expected", e)


@family("isin")
def isin(d, name):
    dtype = d.choice(REAL)
    a, b = d.view(dtype, d.shape()), d.view(dtype, d.shape())
    equal(f.isin(f.asarray(a), f.asarray(b)), np.isin(a, b))


@family("nonzero")
def nonzero(d, name):
    x = d.view(d.choice(ALL), d.shape(1))
    for g, e in zip(f.nonzero(f.asarray(x)), np.nonzero(x)):
        equal(g, e)
