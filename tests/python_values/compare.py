"""Comparisons of results with NumPy's and with exact ones, and the list of functions with random calls."""
import numpy as np

import freight as f

LONG = {"float16": np.longdouble, "float32": np.longdouble, "float64": np.longdouble, "complex64": np.clongdouble,
        "complex128": np.clongdouble}


class Fault(Exception):
    pass


def need(holds, *what):
    if not holds:
        raise Fault(" ".join(str(w) for w in what))


def numpy_of(y):
    return np.asarray(y.numpy()) if isinstance(y, f.Array) else np.asarray(y)


def equal(got, expected):
    got, expected = numpy_of(got), np.asarray(expected)
    need(got.shape == expected.shape, "shape", got.shape, "expected", expected.shape)
    need(got.dtype == expected.dtype, "type", got.dtype, "expected", expected.dtype)
    same = (got == expected) | ((got != got) & (expected != expected))
    need(np.all(same), "values", got, "expected", expected)
    if got.dtype.kind == "f":
        zero = (got == 0) & (expected == 0)
        need(np.all(np.signbit(got)[zero] == np.signbit(expected)[zero]), "signs of zeros", got, "expected", expected)


def units(got, exact, dtype):
    """Distances from the exact values in units of the last place; of complex numbers in those of the larger part."""
    part = np.dtype({"complex64": "float32", "complex128": "float64"}.get(dtype, dtype))
    size = np.abs(exact).astype(part)
    largest = np.finfo(part).max
    unit = np.spacing(np.minimum(np.where(np.isfinite(size), size, largest), largest)).astype(np.longdouble)
    return np.abs(got.astype(LONG[dtype]) - exact) / unit


def pointwise(got, exact, dtype, bar):
    """A floating result against the exact one."""
    got = numpy_of(got)
    need(got.dtype == dtype, "type", got.dtype, "expected", dtype)
    need(got.shape == exact.shape, "shape", got.shape, "expected", exact.shape)
    if got.dtype.kind == "c":  # special values are the standard's, which its own tests compare
        kept = np.isfinite(exact) & np.isfinite(got)
        overflow = np.isfinite(exact) & ~np.isfinite(exact.astype(dtype))
        need(np.all(kept | overflow | ~np.isfinite(exact)), "values", got, "expected", exact.astype(dtype))
        errors = units(got[kept], exact[kept], dtype)
    else:
        rounded = exact.astype(dtype)
        special = ~np.isfinite(rounded) | ~np.isfinite(got) | (exact == 0)
        with np.errstate(all="ignore"):
            border = np.abs(exact) >= np.finfo(dtype).max  # may round either way
        same = (got == rounded) | ((got != got) & (rounded != rounded)) | (border & (np.abs(got) >= np.finfo(dtype).max))
        need(np.all(same[special]), "special values", got[special], "expected", rounded[special])
        zero = special & (rounded == 0)
        need(np.all(np.signbit(got[zero]) == np.signbit(rounded[zero])), "signs of zeros", got[zero], rounded[zero])
        errors = units(got[~special], exact[~special], dtype)
    worst = float(errors.max()) if errors.size else 0.0
    need(worst <= bar, f"{worst:.2f} units in the last place, at most {bar}: got", got, "exact", exact)
    return worst


def accumulated(got, plain, exact, dtype, least=0.0, rounded_once=False):
    """A sum, product or transform: its error and NumPy's, in units of the last place of the largest result, `least` where that
    is smaller. In float32 and complex64, and where float64 is `rounded_once`, each call has at most twice NumPy's error, or half a
    unit. Elsewhere both round as they go in float64, and NumPy's error may be nearly 0 by luck: the mean counts (__main__.py)."""
    got, plain = numpy_of(got), np.asarray(plain)
    need(got.shape == exact.shape, "shape", got.shape, "expected", exact.shape)
    need(got.dtype == dtype, "type", got.dtype, "expected", dtype)
    known = np.isfinite(exact) & np.isfinite(plain)
    need(np.all(np.isfinite(got[known])), "not finite:", got, "exact", exact)
    odd = ~np.isfinite(exact)
    if got.dtype.kind == "f":
        same = (got[odd] == plain[odd]) | ((got[odd] != got[odd]) & (plain[odd] != plain[odd]))
        need(np.all(same), "special values", got[odd], "expected", plain[odd])
    if not known.any():
        return 0.0, 0.0
    long = LONG[dtype]
    mine = np.abs(got[known].astype(long) - exact[known]).max()
    other = np.abs(plain[known].astype(long) - exact[known]).max()
    unit = np.spacing(np.abs(exact[known]).max().astype("float32" if dtype in ("float32", "complex64") else "float64"))
    unit = max(float(unit), least)
    mine, other = float(mine / unit), float(other / unit)
    bar = max(2 * other, 0.501) if rounded_once or dtype in ("float32", "complex64") else max(4 * other, 3)
    need(mine <= bar, f"error {mine:.3f} units, NumPy's {other:.3f}")
    return mine, other


FAMILIES = {}  # name of a function -> a call of it with random arguments, which returns its error


def family(*names):
    def add(check):
        for name in names:
            FAMILIES[name] = check
        return check
    return add


def function(name):
    space = f
    for part in name.split("."):
        space = getattr(space, part)
    return space
