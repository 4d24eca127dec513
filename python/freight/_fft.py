"""The standard's fft extension, on the host, by PocketFFT."""
from math import sqrt

from . import _core
from . import _array_api as xp
from ._functions import conj


def _factor(norm, n, forward):
    if norm not in ("backward", "ortho", "forward"):
        raise ValueError(f"fft: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm == "ortho":
        return 1 / sqrt(n)
    return 1 / n if (norm == "forward") == forward else 1.0


def _sized(x, axis, n):
    """x with n elements along the axis: cut, or zeros behind."""
    have = x.shape[axis]
    if n == have:
        return x
    before = (slice(None),) * axis
    if n < have:
        return x[before + (slice(0, n),)]
    y = xp.zeros(x.shape[:axis] + (n,) + x.shape[axis + 1:], dtype=x.dtype)
    y[before + (slice(0, have),)] = x
    return y


def _prepared(x, function, real=False):
    if not xp._array(x, function)._on_host:
        raise TypeError(f"{function}: is computed on the host, outside of jit and grad, which have no complex numbers: transform before, or by a "
                        "product: a = 2 * pi / n * outer(arange(n), arange(n)) has re, im = x @ cos(a), -(x @ sin(a))")
    if xp.isdtype(x.dtype, ("bool", "integral")):
        x = xp.astype(x, xp.float32)
    if real and xp.isdtype(x.dtype, "complex floating"):
        raise TypeError(f"{function}: expected real numbers, got {x.dtype}")
    return x


def _wide(x):
    """Between the axes of a transform elements are in float64, and are rounded at its end."""
    return xp.astype(x, xp._WIDER.get(x.dtype, x.dtype), copy=False)


def _rounded(y, t):
    """A transform of elements of type t."""
    return xp.astype(y, {xp.float64: xp.float32, xp.complex128: xp.complex64}[y.dtype]) if t in xp._WIDER else y


def _length(n, usual, function):
    n = usual if n is None else n
    if n < 1:
        raise ValueError(f"{function}: invalid number of data points: {n}")
    return n


def _one(x, n, axis, norm, forward, function):
    x = _prepared(x, function)
    a = xp._axis(axis, x.ndim)
    n = _length(n, x.shape[a], function)
    return _core.fft(_sized(x, a, n), "c2c", a, n, forward, _factor(norm, n, forward))


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The discrete Fourier transform along an axis."""
    return _one(x, n, axis, norm, True, "fft")


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of fft."""
    return _one(x, n, axis, norm, False, "ifft")


def _axes(x, s, axes):
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [xp._axis(a, x.ndim) for a in axes]
    if s is None:
        s = [x.shape[a] for a in axes]
    if len(s) != len(axes):
        raise ValueError("fft: s and axes must have the same number of entries")
    return axes, [x.shape[a] if n == -1 else n for a, n in zip(axes, s)]


def _along(transform, x, function, s, axes, norm):
    x = _prepared(x, function)
    t, x = x.dtype, _wide(x)
    for a, n in zip(*_axes(x, s, axes)):
        x = transform(x, n=n, axis=a, norm=norm)
    return _rounded(x, t)


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform along several axes."""
    return _along(fft, x, "fftn", s, axes, norm)


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of fftn."""
    return _along(ifft, x, "ifftn", s, axes, norm)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of real numbers along an axis: n // 2 + 1 complex ones."""
    x = _prepared(x, "rfft", real=True)
    a = xp._axis(axis, x.ndim)
    n = _length(n, x.shape[a], "rfft")
    return _core.fft(_sized(x, a, n), "r2c", a, n, True, _factor(norm, n, True))


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of rfft: n real numbers."""
    x = _prepared(x, "irfft")
    a = xp._axis(axis, x.ndim)
    n = _length(n, 2 * (x.shape[a] - 1), "irfft")
    return _core.fft(_sized(x, a, n // 2 + 1), "c2r", a, n, False, _factor(norm, n, False))


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """rfft along the last of several axes, fft along the others."""
    x = _prepared(x, "rfftn", real=True)
    axes, s = _axes(x, s, axes)
    y = rfft(_wide(x), n=s[-1], axis=axes[-1], norm=norm)
    return _rounded(fftn(y, s=s[:-1], axes=axes[:-1], norm=norm) if len(axes) > 1 else y, x.dtype)


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of rfftn."""
    x = _prepared(x, "irfftn")
    given = s is not None
    axes, s = _axes(x, s, axes)
    last = s[-1] if given else 2 * (x.shape[axes[-1]] - 1)
    y = _wide(x)
    y = ifftn(y, s=s[:-1], axes=axes[:-1], norm=norm) if len(axes) > 1 else y
    return _rounded(irfft(y, n=last, axis=axes[-1], norm=norm), x.dtype)


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of numbers whose spectrum is real: n real ones."""
    x = _prepared(x, "hfft")
    n = _length(n, 2 * (x.shape[xp._axis(axis, x.ndim)] - 1), "hfft")
    return irfft(conj(x), n=n, axis=axis, norm=_OPPOSITE.get(norm, norm))


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of hfft."""
    return conj(rfft(_prepared(x, "ihfft", real=True), n=n, axis=axis, norm=_OPPOSITE.get(norm, norm)))


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of fft's results for samples at distance d."""
    x = xp.concat([xp.arange(0, (n - 1) // 2 + 1), xp.arange(-(n // 2), 0)])
    return xp._placed(xp.astype(xp.astype(x, xp.float64) / (n * d), dtype or xp.float32), device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of rfft's results for samples at distance d."""
    x = xp.astype(xp.arange(0, n // 2 + 1), xp.float64) / (n * d)
    return xp._placed(xp.astype(x, dtype or xp.float32), device)


def _shifted(x, axes, direction):
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    axes = tuple(axes)
    shift = tuple(direction * (x.shape[a] // 2) for a in axes)
    return xp.roll(x, shift, axis=axes)


def fftshift(x, /, *, axes=None):
    """The zero frequency moved to the middle."""
    return _shifted(xp._array(x, "fftshift"), axes, 1)


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift."""
    return _shifted(xp._array(x, "ifftshift"), axes, -1)
