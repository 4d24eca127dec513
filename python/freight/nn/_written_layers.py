"""Layers with parameters that are written in Python: cells of recurrent networks, plain recurrent layers, and convolutions
and norms over three axes."""
import math

from .. import _functions, random, xp
from .._module import Module
from .._parameter import Buffer, Parameter
from . import functional

__all__ = ["RNNCell", "LSTMCell", "GRUCell", "RNN", "Conv3d", "ConvTranspose3d", "InstanceNorm3d", "Bilinear"]


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


class RNN(WrittenLayer):
    """Stacked plain recurrent layers: h' = tanh, or relu, of weight_ih x + bias_ih + weight_hh h + bias_hh at each step.
    layer(x, state, lengths=n) gives (N, T, H), or (N, T, 2 H) of both directions, and the last states (layers * directions, N, H).
    Behind the steps that `lengths` counts results are 0 and states stay. Unlike LSTM and GRU, each step
    is planned by itself, so that the time of planning grows with the sequence."""

    _settings = ("input_size", "hidden_size", "num_layers", "nonlinearity", "bias", "batch_first", "dropout", "bidirectional")

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=True, dropout=0.0,
                 bidirectional=False):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity: expected \"tanh\" or \"relu\", got {nonlinearity!r}")
        for name, size in ("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers):
            if size < 1:
                raise ValueError(f"RNN: {name}: expected a number of at least 1, got {size}")
        for name, value in ("bias", bias), ("batch_first", batch_first), ("bidirectional", bidirectional):
            if not isinstance(value, bool):
                raise TypeError(f"RNN: {name}: expected True or False, got {value!r}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"RNN: dropout: expected a probability, got {dropout}")
        shapes = {}
        for layer in range(num_layers):
            width = hidden_size * (1 + bidirectional) if layer else input_size
            for end in ("", "_reverse")[:1 + bidirectional]:
                shapes[f"weight_ih_l{layer}{end}"] = (hidden_size, width)
                shapes[f"weight_hh_l{layer}{end}"] = (hidden_size, hidden_size)
                shapes |= dict.fromkeys((f"bias_ih_l{layer}{end}", f"bias_hh_l{layer}{end}"), (hidden_size,) if bias else None)
        self._begin(locals(), hidden_size ** -0.5, **shapes)

    def forward(self, input, hx=None, *, lengths=None):
        if input.ndim == 2:
            y, h = self.forward(input[None] if self.batch_first else input[:, None], None if hx is None else hx[:, None],
                                lengths=None if lengths is None else xp.reshape(xp.asarray(lengths), (1,)))
            return (y[0] if self.batch_first else y[:, 0]), h[:, 0]
        if input.ndim != 3 or input.shape[2] != self.input_size:
            order = "(N, T, {})" if self.batch_first else "(T, N, {})"
            raise ValueError(f"RNN: expected {order.format(self.input_size)}, got shape {input.shape}")
        x = input if self.batch_first else input.swapaxes(0, 1)
        sides, count = 1 + self.bidirectional, x.shape[0]
        if hx is not None and hx.shape != (self.num_layers * sides, count, self.hidden_size):
            raise ValueError(f"RNN: expected a state of shape {(self.num_layers * sides, count, self.hidden_size)}, got {hx.shape}")
        valid = None
        if lengths is not None:
            lengths = xp.asarray(lengths)
            if lengths.shape != (count,) or not xp.isdtype(lengths.dtype, "integral"):
                raise ValueError(f"RNN: lengths: expected integers of shape ({count},), got {lengths.dtype}{list(lengths.shape)}")
            valid = xp.expand_dims(xp.arange(x.shape[1]), axis=0) < xp.expand_dims(lengths, axis=1)  # (N, T)
        last = []
        for layer in range(self.num_layers):
            if layer:
                x = functional.dropout(x, self.dropout, self.training)
            results = []
            for side in range(sides):
                h = xp.zeros((count, self.hidden_size), dtype=x.dtype) if hx is None else hx[layer * sides + side]
                y, h = self._direction(x, h, f"l{layer}" + "_reverse" * side, valid)
                results.append(y)
                last.append(h)
            x = xp.concat(results, axis=2)
        if valid is not None:
            x = xp.where(xp.expand_dims(valid, axis=2), x, 0.0)
        return (x if self.batch_first else x.swapaxes(0, 1)), xp.stack(last)

    def _direction(self, x, h, name, valid):
        """The states behind each step (N, T, H), and the last one."""
        activation = xp.tanh if self.nonlinearity == "tanh" else _functions.relu
        bias = getattr(self, f"bias_ih_{name}") + getattr(self, f"bias_hh_{name}") if self.bias else None
        parts = functional.linear(x, getattr(self, f"weight_ih_{name}"), bias)
        weight, states = getattr(self, f"weight_hh_{name}").T, [None] * x.shape[1]
        for t in reversed(range(x.shape[1])) if name.endswith("_reverse") else range(x.shape[1]):
            after = activation(parts[:, t] + h @ weight)
            states[t] = h = after if valid is None else xp.where(valid[:, t:t + 1], after, h)
        return xp.stack(states, axis=1), h


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


class ConvTranspose3d(WrittenLayer):
    """(N, in_channels, D, H, W) to (N, out_channels, D', H', W'): the gradient of Conv3d by its input."""

    _settings = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding", "groups", "dilation", "padding_mode")

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros"):
        if padding_mode != "zeros":
            raise ValueError(f"ConvTranspose3d: padding_mode: expected \"zeros\", got {padding_mode!r}")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(f"ConvTranspose3d: expected channels that are multiples of groups={groups}, got {in_channels} and {out_channels}")
        shape = (in_channels, out_channels // groups, *functional._tuple(kernel_size, 3))
        self._begin(locals(), math.prod(shape[1:]) ** -0.5, weight=shape, bias=(out_channels,) if bias else None)

    def forward(self, input):
        return functional.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
                                           self.dilation)


class InstanceNorm3d(WrittenLayer):
    """(N, C, D, H, W): each channel of each sample to mean 0 and variance 1; in evaluation by the running statistics, where they
    are tracked."""

    _settings = ("num_features", "eps", "momentum", "affine", "track_running_stats")

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, *, bias=True):
        self._begin(locals(), 0, weight=(num_features,) if affine else None, bias=(num_features,) if affine and bias else None)
        if affine:
            self.weight = xp.ones(num_features)
        if track_running_stats:
            self.running_mean, self.running_var = Buffer(xp.zeros(num_features)), Buffer(xp.ones(num_features))

    def forward(self, input):
        if input.ndim not in (4, 5) or input.shape[-4] != self.num_features:
            raise ValueError(f"InstanceNorm3d: expected (N, {self.num_features}, D, H, W), got shape {input.shape}")
        x = input if input.ndim == 5 else input[None]
        if self.track_running_stats and not self.training:
            y = functional.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, eps=self.eps)
        else:
            y = functional.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)
            if self.track_running_stats:
                channels = xp.reshape(x, (*x.shape[:2], -1))
                found = {"running_mean": xp.mean(channels, axis=2), "running_var": xp.var(channels, axis=2, correction=min(1, channels.shape[2] - 1))}
                for name, values in found.items():
                    setattr(self, name, getattr(self, name) * (1 - self.momentum) + xp.mean(values, axis=0) * self.momentum)
        return y if input.ndim == 5 else y[0]


class Bilinear(WrittenLayer):
    """(N, I), (N, J) to (N, K): layer(x, y) is x weight y + bias, by weight (K, I, J)."""

    _settings = ("in1_features", "in2_features", "out_features")

    def __init__(self, in1_features, in2_features, out_features, bias=True):
        for name in self._settings:
            if locals()[name] < 1:
                raise ValueError(f"Bilinear: {name}: expected at least 1, got {locals()[name]}")
        self._begin(locals(), in1_features ** -0.5, weight=(out_features, in1_features, in2_features), bias=(out_features,) if bias else None)

    def forward(self, input1, input2):
        for x, size, name in ((input1, self.in1_features, "input1"), (input2, self.in2_features, "input2")):
            if x.ndim < 1 or x.shape[-1] != size:
                raise ValueError(f"Bilinear: {name}: expected (..., {size}), got shape {x.shape}")
        return functional.bilinear(input1, input2, self.weight, self.bias)

