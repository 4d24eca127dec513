"""Several arrays of samples side by side in rows of f32, as which the trainer takes several inputs and several targets."""
import math

from . import _array_api as xp
from . import _core

_LARGEST = 1 << 24  # up to it f32 has all integers


def of(values, what, *, pixels, integers=xp.int32):
    """(the arrays' rows, layout: name or number, shape of a sample and type of each array). With `pixels` u8 is numbers from 0 to 1.
    Integers become `integers` again."""
    parts, layout, count = [], [], None
    for name, part in values.items() if isinstance(values, dict) else enumerate(values):
        here = f"{what}[{name!r}]"
        if getattr(getattr(part, "dtype", None), "kind", "") in ("U", "S", "O"):
            raise TypeError(f"{here}: expected numbers, got texts: names of classes are for one target; numpy.unique(names, return_inverse=True) "
                            "gives names and classes")
        part = xp.asarray(part)
        if part.ndim == 0:
            raise ValueError(f"{here}: expected one entry per sample, (N, ...), got a number")
        count = part.shape[0] if count is None else count
        if part.shape[0] != count:
            raise ValueError(f"{here}: expected {count} samples, as the first has, got shape {part.shape}")
        if xp.isdtype(part.dtype, "complex floating"):
            raise TypeError(f"{here}: expected real numbers, got {part.dtype}")
        dtype = xp.float32
        if part.dtype == xp.uint8 and pixels:
            part = part / 255
        elif part.dtype == xp.bool:
            dtype = xp.bool
        elif xp.isdtype(part.dtype, "integral"):
            dtype = integers
            largest = int(xp.max(abs(xp.astype(part, xp.int64)))) if part.size else 0
            if largest > _LARGEST:
                raise ValueError(f"{here}: expected integers up to {_LARGEST} beside other arrays, got {largest}")
        layout.append((name, part.shape[1:], dtype))
        parts.append(part)
    return _core.to_host(joined(parts)), tuple(layout)


def joined(parts):
    """Rows of such arrays, also within a trace."""
    parts = [xp.asarray(part) for part in parts]
    return xp.concat([xp.astype(xp.reshape(part, (part.shape[0], math.prod(part.shape[1:]))), xp.float32, copy=False) for part in parts], axis=1)


def width(layout):
    """How many numbers a row has."""
    return sum(math.prod(shape) for _, shape, _ in layout)


def apart(rows, layout):
    """The arrays by their name or number."""
    parts, at = {}, 0
    for name, shape, dtype in layout:
        size = math.prod(shape)
        part = xp.reshape(rows[:, at:at + size], (rows.shape[0], *shape))
        parts[name] = part if dtype == xp.float32 else xp.astype(part, dtype)
        at += size
    return parts


def named(layout):
    """The layout as a text for messages."""
    return ", ".join(f"{name} {dtype}{list(shape)}" for name, shape, dtype in layout)
