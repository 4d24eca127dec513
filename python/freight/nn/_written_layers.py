"""Layers with parameters that are written in Python: cells of recurrent networks, and convolution over three axes."""
import math

from .. import _functions, random, xp
from .._module import Module
from .._parameter import Parameter
from . import functional

__all__ = ["RNNCell", "LSTMCell", "GRUCell", "Conv3d"]


class WrittenLayer(Module):
    """A layer of this file. Its settings are attributes, as in PyTorch."""

    _settings: tuple[str, ...] = ()

    def _begin(self, given, bound, **shapes):
        """Keeps the settings, and makes parameters that are uniform within the bound; without a shape there is none."""
        Module.__init__(self)
        for name in self._settings:
            setattr(self, name, given[name])
        for name, shape in shapes.items():
            setattr(self, name, Parameter(random.uniform(shape, -bound, bound)) if shape else None)

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._settings)


class _Cell(WrittenLayer):
    """One step of a recurrent layer: input (N, I) and state (N, H), or both without N."""

    _gates = 1
    _settings: tuple[str, ...] = ("input_size", "hidden_size", "bias")

    def _make(self, given):
        i, h, bias = given["input_size"], self._gates * given["hidden_size"], given["bias"]
        if given["input_size"] < 1 or given["hidden_size"] < 1:
            raise ValueError(f"{type(self).__name__}: expected sizes of at least 1, got {given['input_size']} and {given['hidden_size']}")
        self._begin(given, given["hidden_size"] ** -0.5, weight_ih=(h, i), weight_hh=(h, given["hidden_size"]),
                    bias_ih=(h,) if bias else None, bias_hh=(h,) if bias else None)

    def _state(self, x, state):
        shape = (*x.shape[:-1], self.hidden_size)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ValueError(f"{type(self).__name__}: expected (N, {self.input_size}) or ({self.input_size},), got shape {x.shape}")
        if state is not None and state.shape != shape:
            raise ValueError(f"{type(self).__name__}: expected a state of shape {shape}, got {state.shape}")
        return xp.zeros(shape, dtype=x.dtype) if state is None else state

    def _of_gates(self, x, h):
        """What input and state add to each gate."""
        return [[part[..., k * self.hidden_size:(k + 1) * self.hidden_size] for k in range(self._gates)]
                for part in (functional.linear(x, self.weight_ih, self.bias_ih), functional.linear(h, self.weight_hh, self.bias_hh))]


class RNNCell(_Cell):
    """tanh, or relu, of weight_ih x + bias_ih + weight_hh h + bias_hh: cell(x, h) gives h."""

    _settings = ("input_size", "hidden_size", "bias", "nonlinearity")

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity: expected \"tanh\" or \"relu\", got {nonlinearity!r}")
        self._make(locals())

    def forward(self, input, hx=None):
        (a,), (b,) = self._of_gates(input, self._state(input, hx))
        return xp.tanh(a + b) if self.nonlinearity == "tanh" else _functions.relu(a + b)


class LSTMCell(_Cell):
    """Gates i, f, g, o: cell(x, (h, c)) gives (h, c). Hochreiter and Schmidhuber 1997."""

    _gates = 4

    def __init__(self, input_size, hidden_size, bias=True):
        self._make(locals())

    def forward(self, input, hx=None):
        h, c = (self._state(input, s) for s in (hx or (None, None)))
        i, f, g, o = (a + b for a, b in zip(*self._of_gates(input, h)))
        c = _functions.sigmoid(f) * c + _functions.sigmoid(i) * xp.tanh(g)
        return _functions.sigmoid(o) * xp.tanh(c), c


class GRUCell(_Cell):
    """Gates r, z, n: cell(x, h) gives h. Cho et al. 2014."""

    _gates = 3

    def __init__(self, input_size, hidden_size, bias=True):
        self._make(locals())

    def forward(self, input, hx=None):
        h = self._state(input, hx)
        (a_r, a_z, a_n), (b_r, b_z, b_n) = self._of_gates(input, h)
        z = _functions.sigmoid(a_z + b_z)
        n = xp.tanh(a_n + _functions.sigmoid(a_r + b_r) * b_n)
        return (1 - z) * n + z * h


class Conv3d(WrittenLayer):
    """(N, in_channels, D, H, W) to (N, out_channels, D', H', W')."""

    _settings = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros"):
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"Conv3d: padding_mode: expected \"zeros\", \"reflect\", \"replicate\" or \"circular\", got {padding_mode!r}")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(f"Conv3d: expected channels that are multiples of groups={groups}, got {in_channels} and {out_channels}")
        if padding == "same" and functional._tuple(stride, 3) != (1, 1, 1):
            raise ValueError(f"Conv3d: padding \"same\" keeps the sizes: expected stride 1, got {stride}")
        shape = (out_channels, in_channels // groups, *functional._tuple(kernel_size, 3))
        self._begin(locals(), math.prod(shape[1:]) ** -0.5, weight=shape, bias=(out_channels,) if bias else None)

    def forward(self, input):
        padding, weight = self.padding, self.weight
        if self.padding_mode != "zeros" and padding not in ("valid", 0):
            widths = [w for p in reversed(functional._tuple(padding, 3)) for w in (p, p)] if padding != "same" else (
                functional._same_padding(weight, self.dilation))
            input, padding = functional.pad(input, widths, self.padding_mode), 0
        return functional.conv3d(input, weight, self.bias, self.stride, padding, self.dilation, self.groups)
