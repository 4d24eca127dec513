"""Random arrays: a default generator with a seed, and explicit keys.

The same seed gives the same numbers on every device and for any number of threads. A key is two numbers (seed, position);
draws by a key change no state, so that they give the same numbers again, in jit too, but for the last bit of sums with low or mean.
"""
import math

from . import _array_api as xp
from . import _core, _hints, _parameter
from ._array_api import asarray, astype, float32
from ._functions import cos, log, log1p, sqrt
from ._manipulation import _converted


def seed(value):
    """Sets the seed of the default generator."""
    _core.seed(value)


def key(seed):
    """An explicit key: an array of two int64."""
    return asarray([seed, 0], dtype=xp.int64)


def split(key, count=2):
    """Several keys that follow from one, for draws that are independent of each other."""
    return tuple(xp.stack([key[0], key[1] * 6364136223846793005 + (2 * i + 1)]) for i in range(count))


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _numbers(function, **given):
    """Refuses a shape where a number is expected: NumPy has it behind the numbers."""
    for name, value in given.items():
        if isinstance(value, (tuple, list)):
            raise TypeError(f"{function}: expected the shape first, {function}({tuple(value)}, ...), got {name}={value!r}")


def _drawn(is_uniform, shape, key):
    if key is not None and (not isinstance(key, _core.Array) or key.dtype != xp.int64 or key.shape != (2,)):
        raise TypeError(f"random: a key is two int64 numbers, made by freight.random.key(seed): got {key!r}")
    return _core.random(is_uniform, shape, key)


def _is_f64(dtype):
    return dtype is not None and _core.as_dtype(dtype) == xp.float64


def _drawn_f64(shape, key):
    """Numbers in [0, 1) of 48 random bits: those of two draws."""
    parts = astype(_drawn(True, (2, *shape), key), xp.float64)
    return parts[0] + parts[1] * 2.0 ** -24


def uniform(shape=(), low=0.0, high=1.0, *, dtype=float32, key=None):
    """Numbers in [low, high), from 24 random bits, or from 48 for float64."""
    _numbers("uniform", low=low, high=high)
    drawn = _drawn_f64(_shape(shape), key) if _is_f64(dtype) else _drawn(True, _shape(shape), key)
    return astype(drawn * (high - low) + low, dtype, copy=False)


def normal(shape=(), mean=0.0, std=1.0, *, dtype=float32, key=None):
    """Normally distributed numbers."""
    _numbers("normal", mean=mean, std=std)
    if isinstance(std, (int, float)) and std < 0:
        raise ValueError(f"normal: std: expected a number that is not negative, got {std}")
    if _is_f64(dtype):  # by the method of Box and Muller
        radius, angle = _drawn_f64((2, *_shape(shape)), key)
        drawn = sqrt(-2 * log1p(-radius)) * cos(2 * math.pi * angle)
    else:
        drawn = _drawn(False, _shape(shape), key)
    return astype(drawn * std + mean, dtype, copy=False)


def randint(low, high=None, shape=(), *, key=None):
    """int64 in [low, high), or in [0, low); at most 2^48 different ones."""
    if high is None:
        low, high = 0, low
    if not 0 < high - low <= 2**48:
        raise ValueError(f"randint: the range must have 1 to 2^48 numbers, got [{low}, {high})")
    drawn = _drawn(True, _shape(shape), key) if high - low <= 2**24 else _drawn_f64(_shape(shape), key)
    drawn = astype(drawn * float(high - low), xp.int64)
    return xp.minimum(drawn, high - low - 1) + low


def bernoulli(p, shape=(), *, key=None):
    """bool, true with probability p."""
    return _drawn(True, _shape(shape), key) < p


def permutation(n, *, key=None):
    """int64: 0, 1, ..., n - 1 in random order; of an array, its rows."""
    if isinstance(n, _core.Array):
        return xp.take(n, permutation(n.shape[0], key=key), axis=0)
    return xp.argsort(_drawn(True, (n,), key), stable=True)


def choice(n, shape=(), *, replace=True, p=None, key=None):
    """Elements of 0, ..., n - 1, or of an array's rows, drawn at random; p: the probability of each, whose sum is 1."""
    if isinstance(n, _core.Array):
        return xp.take(n, choice(n.shape[0], shape, replace=replace, p=p, key=key), axis=0)
    if p is not None:
        p = asarray(p)
        if p.shape != (n,):
            raise ValueError(f"choice: p: expected a probability for each of {n}, got shape {p.shape}")
        if not _parameter.recording() and not abs(float(xp.sum(p)) - 1) < 1e-3:
            raise ValueError(f"choice: p: expected probabilities whose sum is 1, got {float(xp.sum(p)):.4g}")
        if replace:
            below = xp.cumulative_sum(p)
            return xp.minimum(xp.searchsorted(below, _drawn(True, _shape(shape), key) * below[-1], side="right"), n - 1)
    if replace:
        return randint(0, n, shape, key=key)
    count = 1
    for s in _shape(shape):
        count *= s
    if count > n:
        raise ValueError(f"choice: cannot draw {count} of {n} without replacement")
    if p is None:
        return xp.reshape(permutation(n, key=key)[:count], _shape(shape))
    times = -log(_drawn(True, (n,), key)) / p  # of exponential waits with these rates, which end in the order of such draws
    return xp.reshape(xp.argsort(times)[:count], _shape(shape))


_hints.explained(globals(), __name__, ("n", "p"), _converted)


def __getattr__(name):
    raise _hints.missing("module 'freight.random'", name, _hints.RANDOM)
