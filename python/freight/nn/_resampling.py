"""What the library's layer Upsample has not: more modes of nn.functional.interpolate, antialias, and a factor for each spatial axis. Each
axis is multiplied by a matrix of weights, (out, in)."""
import math

from .. import xp as _xp


def weights(mode, given, made, scale, align_corners, antialias):
    """f64 (made, given) of one axis with `given` elements. `scale` is the distance of the results' points, in elements. The
    coordinates and filters are PyTorch's: with antialias the filter is as wide as a point of a coarser grid, and sums to 1."""
    corners = align_corners and made > 1
    places, element = _xp.arange(made, dtype=_xp.float64), _xp.arange(given, dtype=_xp.float64)
    step = (given - 1) / (made - 1) if corners else 0.0 if align_corners else scale
    if mode.startswith("nearest"):
        nearest = _xp.minimum(_xp.floor((places + 0.5) * scale if mode == "nearest-exact" else places * scale), given - 1)
        return _xp.astype(element == nearest[:, None], _xp.float64)
    if mode == "bicubic" and not antialias:  # points beyond the ends are the last ones
        at = places * step if align_corners else (places + 0.5) * step - 0.5
        around = _xp.floor(at)[:, None] + _xp.arange(-1, 3, dtype=_xp.float64)
        points = _xp.clip(around, 0, given - 1)
        return _xp.sum((element == points[:, :, None]) * _cubic(_xp.abs(at[:, None] - around), -0.75)[:, :, None], axis=1)
    if not antialias:  # linear
        at = places * step if align_corners else _xp.maximum((places + 0.5) * step - 0.5, 0)
        return _xp.maximum(0, 1 - _xp.abs(element - _xp.minimum(at, given - 1)[:, None]))
    half, width = (2.0, _cubic) if mode == "bicubic" else (1.0, lambda d: _xp.maximum(0, 1 - d))
    wide = max(step, 1.0)
    centre = (places + 0.5)[:, None] * step
    low, high = _xp.maximum(_xp.trunc(centre - half * wide + 0.5), 0), _xp.minimum(_xp.trunc(centre + half * wide + 0.5), given)
    w = _xp.where((element >= low) & (element < high), width(_xp.abs(element - centre + 0.5) / wide), 0.0)
    return w / _xp.sum(w, axis=1, keepdims=True)


def _cubic(d, a=-0.5):
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, (((d - 5) * d + 8) * d - 4) * a
    return _xp.where(d < 1, near, _xp.where(d < 2, far, 0.0))


def interpolated(x, size, factor, mode, align_corners, antialias):
    spatial = x.ndim - 2
    expected = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "trilinear": (3,), "bilinear": (2,), "bicubic": (2,)}.get(mode)
    if expected is None:
        raise ValueError(f"interpolate: mode: expected one of nearest, nearest-exact, linear, bilinear, bicubic, trilinear and area, got {mode!r}")
    if spatial not in expected:
        raise ValueError(f"interpolate: mode {mode!r}: expected (N, C, ...) with {' or '.join(map(str, expected))} spatial axes, got shape {x.shape}")
    if align_corners is not None and mode.startswith("nearest"):
        raise ValueError(f"interpolate: align_corners: mode {mode!r} takes none")
    if (size is None) == (factor is None):
        raise ValueError(f"interpolate: expected either size or scale_factor, got {size!r} and {factor!r}")
    several = [v if isinstance(v, (tuple, list)) else (v,) * spatial for v in (size, factor)]
    if any(len(v) != spatial for v in several):
        raise ValueError(f"interpolate: expected one number or {spatial}, got {size if factor is None else factor!r}")
    made = [int(n) for n in several[0]] if factor is None else [math.floor(n * f) for n, f in zip(x.shape[2:], several[1])]
    if min(made) < 1 or 0 in x.shape[1:]:
        raise ValueError(f"interpolate: expected at least one element per axis, got {tuple(made)} of shape {x.shape}")
    for i, (given, count) in enumerate(zip(x.shape[2:], made)):
        scale = given / count if factor is None else 1 / several[1][i]
        w = _xp.asarray(weights(mode, given, count, scale, bool(align_corners), antialias), dtype=x.dtype)
        x = _xp.moveaxis(_xp.moveaxis(x, i + 2, -1) @ w.T, -1, i + 2)
    return x
