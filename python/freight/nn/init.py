"""PyTorch's torch.nn.init: initial values, drawn by freight.random, of `layer.weight`, of parameters and of arrays."""
import math as _math

from .. import _core, _hints, linalg as _linalg, random as _random
from .. import _array_api as _xp
from .._parameter import Parameter as _Parameter, origin as _origin

_GAINS = {"relu": 2**0.5, "tanh": 5 / 3, "selu": 0.75}


def _shape(x):
    if not isinstance(x, (_Parameter, _core.Array)):
        raise TypeError(f"nn.init: expected a parameter such as layer.weight, or an array, got {type(x).__name__}")
    return tuple(x.shape)


def _set(x, value):
    """Gives the parameter whose value x is, or x itself, these elements."""
    held = x if isinstance(x, _Parameter) else _origin(x)
    if held is not None:
        held.value = value
    if isinstance(x, _core.Array):
        x[...] = value
    return x


def calculate_gain(nonlinearity, param=None):
    """The factor by which the standard deviation makes up for an activation: sqrt(2) for "relu"."""
    if nonlinearity == "leaky_relu":
        return _math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    return _GAINS.get(nonlinearity, 1.0)


def _fans(x):
    shape = _shape(x)
    if len(shape) < 2:
        raise ValueError(f"nn.init: expected a weight of at least two axes, got shape {shape}")
    return _math.prod(shape[1:]), shape[0] * _math.prod(shape[2:])


def uniform_(tensor, a=0.0, b=1.0):
    """Numbers in [a, b)."""
    return _set(tensor, _random.uniform(_shape(tensor), a, b))


def normal_(tensor, mean=0.0, std=1.0):
    """Normally distributed numbers."""
    return _set(tensor, _random.normal(_shape(tensor), mean, std))


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0):
    """Normally distributed numbers within [a, b]: those outside are drawn again."""
    drawn = _random.normal(_shape(tensor), mean, std)
    for _ in range(100):
        outside = (drawn < a) | (drawn > b)
        if not bool(_xp.any(outside)):
            break
        drawn = _xp.where(outside, _random.normal(_shape(tensor), mean, std), drawn)
    return _set(tensor, _xp.clip(drawn, a, b))


def constant_(tensor, val):
    """All elements one number."""
    return _set(tensor, _xp.full(_shape(tensor), float(val)))


def zeros_(tensor):
    """All elements 0."""
    return constant_(tensor, 0.0)


def ones_(tensor):
    """All elements 1."""
    return constant_(tensor, 1.0)


def eye_(tensor):
    """1 on the diagonal of (M, N), 0 elsewhere."""
    return _set(tensor, _xp.eye(*_shape(tensor)))


def xavier_uniform_(tensor, gain=1.0):
    """Uniform numbers by the inputs and outputs of a layer. Glorot and Bengio 2010."""
    bound = gain * _math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    """Normal numbers by the inputs and outputs of a layer. Glorot and Bengio 2010."""
    return normal_(tensor, 0.0, gain * _math.sqrt(2 / sum(_fans(tensor))))


def _kaiming_std(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"nn.init: mode: expected \"fan_in\" or \"fan_out\", got {mode!r}")
    return calculate_gain(nonlinearity, a) / _math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    """Uniform numbers by the inputs of a layer before an activation. He et al. 2015."""
    bound = 3**0.5 * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    """Normal numbers by the inputs of a layer before an activation. He et al. 2015."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def orthogonal_(tensor, gain=1.0):
    """A matrix (M, the rest) with orthonormal rows or columns. Saxe et al. 2013."""
    rows, columns = _shape(tensor)[0], _math.prod(tensor.shape[1:])
    q, r = _linalg.qr(_random.normal((max(rows, columns), min(rows, columns))))
    q = q * _xp.where(_linalg.diagonal(r) < 0, -1.0, 1.0)  # uniformly distributed
    return _set(tensor, gain * _xp.reshape(q if rows >= columns else q.T, _shape(tensor)))


_hints.explained(globals(), __name__)
