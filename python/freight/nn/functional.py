"""PyTorch's functional forms: functions of torch.nn.functional with its parameters, on Freight's arrays. from_torch runs traced
networks with them, and the layers of _functional_layers.py are made of them. `inplace` changes nothing: results are returned.
What cannot be computed is refused by name."""
import math as _math

from .. import _core, _functions, _hints, _layers, _manipulation, xp as _xp
from .._array_api import _axis
from .._beyond_standard import rsqrt as _rsqrt
from .._linalg import vector_norm as _vector_norm
from .._parameter import Parameter as _Parameter
from .._transforms import custom_gradient as _custom_gradient
from ._ctc import ctc_loss  # noqa: F401


def _tuple(value, count):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) * count


def _reduced(each, reduction, function):
    if reduction == "none":
        return each
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{function}: reduction: expected \"none\", \"mean\" or \"sum\", got {reduction!r}")
    return _xp.mean(each) if reduction == "mean" else _xp.sum(each)


def _refuse(function, **given):
    """Raises where a parameter that Freight has nothing for is given: name=(value, what PyTorch's default is)."""
    for name, (value, usual) in given.items():
        if value is not usual and value:
            raise ValueError(f"{function}: expected {name}={usual!r}, got {value!r}")


# Activations.

def relu(input, inplace=False):
    return _functions.relu(input)


def relu6(input, inplace=False):
    return _layers.ReLU6()(input)


def silu(input, inplace=False):
    return _functions.silu(input)


def gelu(input, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate: expected \"none\" or \"tanh\", got {approximate!r}")
    return _functions.gelu(input, "tanh" if approximate == "tanh" else "erf")


def elu(input, alpha=1.0, inplace=False):
    return _functions.elu(input, alpha)


def celu(input, alpha=1.0, inplace=False):
    return _layers.CELU(alpha)(input)


def selu(input, inplace=False):
    return _layers.SELU()(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return _functions.leaky_relu(input, negative_slope)


def prelu(input, weight):
    channels = (1, -1) + (1,) * (input.ndim - 2) if weight.size > 1 and input.ndim > 1 else (-1,)
    return _xp.where(input > 0, input, input * _xp.reshape(weight, channels))


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return _layers.Hardtanh(min_val, max_val)(input)


def hardsigmoid(input, inplace=False):
    return _layers.Hardsigmoid()(input)


def hardswish(input, inplace=False):
    return _layers.Hardswish()(input)


def hardshrink(input, lambd=0.5):
    return _layers.Hardshrink(lambd)(input)


def softshrink(input, lambd=0.5):
    return _layers.Softshrink(lambd)(input)


def tanhshrink(input):
    return _layers.Tanhshrink()(input)


def threshold(input, threshold, value, inplace=False):
    return _layers.Threshold(threshold, value)(input)


def softplus(input, beta=1, threshold=20):
    return _layers.Softplus(beta, threshold)(input)


def softsign(input):
    return _functions.softsign(input)


def mish(input, inplace=False):
    return _layers.Mish()(input)


def sigmoid(input):
    return _functions.sigmoid(input)


def logsigmoid(input):
    return _layers.LogSigmoid()(input)


def tanh(input):
    return _xp.tanh(input)


def glu(input, dim=-1):
    return _layers.GLU(dim)(input)


def _cast(x, dtype):
    return x if dtype is None else _xp.astype(x, dtype, copy=False)


def softmax(input, dim=-1, _stacklevel=3, dtype=None):
    return _functions.softmax(_cast(input, dtype), dim)


def softmin(input, dim=-1, _stacklevel=3, dtype=None):
    return _functions.softmax(-_cast(input, dtype), dim)


def log_softmax(input, dim=-1, _stacklevel=3, dtype=None):
    return _functions.log_softmax(_cast(input, dtype), dim)


# Layers.

def linear(input, weight, bias=None):
    y = input @ weight.T
    return y if bias is None else y + bias


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    _refuse("embedding", sparse=(sparse, False))
    rows, padded = weight.shape[0], -1  # the row without a gradient; -1: none
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ValueError(f"embedding: padding_idx: expected a row from {-rows} to {rows - 1}, got {padding_idx}")
        padded = padding_idx % rows
    return _functions.embedding(input, weight, padded, max_norm, norm_type, scale_grad_by_freq)


def one_hot(tensor, num_classes=-1):
    """Integers, as PyTorch's: -1 stands for the largest element and 1. In jit the number of classes must be given."""
    if num_classes == -1 and getattr(tensor, "_on_host", False) and tensor.size:
        num_classes = int(_xp.max(tensor)) + 1
    if num_classes < 1:
        raise ValueError(f"one_hot: expected num_classes of at least 1, got {num_classes}")
    return _functions.one_hot(tensor, num_classes, _core.int64)


def _same_padding(weight, dilation):
    """The widths, as pad takes them, that keep the sizes; an odd one has its larger half at the end."""
    widths = [d * (k - 1) for d, k in zip(_tuple(dilation, weight.ndim - 2), weight.shape[2:])]
    return [half for w in reversed(widths) for half in (w // 2, w - w // 2)]


def _convolved(convolution, axes, input, weight, bias, stride, padding, dilation, groups):
    """`padding` may be "valid", none, or "same", which keeps the sizes."""
    if padding == "same":
        if any(n != 1 for n in _tuple(stride, axes)):
            raise ValueError(f"{convolution.__name__}: padding \"same\" keeps the sizes: expected stride 1, got {stride!r}")
        input = pad(input, _same_padding(weight, dilation))
    padding = 0 if padding in ("same", "valid") else padding
    return convolution(input, weight, bias, stride, padding, dilation, groups)


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolved(_functions.conv1d, 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolved(_functions.conv2d, 2, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    (stride,), (padding,), (output_padding,), (dilation,) = (_tuple(v, 1) for v in (stride, padding, output_padding, dilation))
    y = conv_transpose2d(_xp.expand_dims(input, axis=-2), _xp.expand_dims(weight, axis=-2), None, (1, stride), (0, padding),
                         (0, output_padding), groups, (1, dilation))
    y = _xp.squeeze(y, -2)
    return y if bias is None else y + _xp.reshape(bias, (-1, 1))


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    y = _functions.conv_transpose2d(input, weight, stride, padding, output_padding, dilation, groups)
    return y if bias is None else y + _xp.reshape(bias, (-1, 1, 1))


def _stride(function, stride):
    """The stride as the library's pools take it: None, or none at all, is the window."""
    if stride in (None, (), []):
        return 0
    if min(_tuple(stride, 1)) < 1:
        raise ValueError(f"{function}: stride: expected numbers of at least 1, got {stride!r}")
    return stride


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    pool = _functions.max_pool1d_with_indices if return_indices else _functions.max_pool1d
    return pool(input, kernel_size, _stride("max_pool1d", stride), padding, ceil_mode, True, dilation)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    pool = _functions.max_pool2d_with_indices if return_indices else _functions.max_pool2d
    return pool(input, kernel_size, _stride("max_pool2d", stride), padding, ceil_mode, True, dilation)


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    return _functions.avg_pool1d(input, kernel_size, _stride("avg_pool1d", stride), padding, ceil_mode, count_include_pad)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if divisor_override == 0:
        raise ValueError("avg_pool2d: divisor_override: expected a number other than 0, or None, got 0")
    return _functions.avg_pool2d(input, kernel_size, _stride("avg_pool2d", stride), padding, ceil_mode, count_include_pad, 1,
                                 divisor_override or 0)


def adaptive_avg_pool1d(input, output_size):
    return _layers.AdaptiveAvgPool1d(output_size)(input)


def adaptive_avg_pool2d(input, output_size):
    return _layers.AdaptiveAvgPool2d(output_size)(input)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """With return_indices also the place of each maximum in its sample and channel; so do those over two and three axes."""
    if return_indices:
        return _adaptive_maxima("adaptive_max_pool1d", input, output_size, 1)
    return _layers.AdaptiveMaxPool1d(output_size)(input)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    if return_indices:
        return _adaptive_maxima("adaptive_max_pool2d", input, output_size, 2)
    return _layers.AdaptiveMaxPool2d(output_size)(input)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """(N, C, ...) normalized by the statistics of the batch in training, else by the running ones. Training writes to the arrays
    running_mean and running_var, where they are given. Of a module give the buffers themselves, nn.Buffer: its attributes are
    copies."""
    if input.shape == (0,):  # PyTorch takes it for a batch without channels
        return input
    if input.ndim < 2:
        raise ValueError(f"batch_norm: expected (N, C, ...), got shape {input.shape}")
    wide, channels = _xp.float64 if input.dtype == _xp.float64 else _xp.float32, input.shape[1]
    scale = _xp.ones(channels, dtype=wide) if weight is None else weight
    shift = _xp.zeros(channels, dtype=wide) if bias is None else bias
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: expected running_mean and running_var with training=False, got None")
        return _functions.batch_norm_inference(input, scale, shift, running_mean, running_var, eps)
    y, mean, variance = _functions.batch_norm(input, scale, shift, eps)
    count = input.size // channels if channels else 0
    for running, batch, factor in (running_mean, mean, 1.0), (running_var, variance, count / (count - 1) if count > 1 else 1.0):
        if running is None or not count:
            continue
        held = isinstance(running, _Parameter)
        moved = (running.value if held else running) * (1 - momentum) + _functions.stop_gradient(batch) * (momentum * factor)
        if held:
            running.value = moved
        else:
            running[...] = moved
    return y


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """Each channel of each sample of (N, C, ...) to mean 0 and variance 1; without use_input_stats by the running statistics."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError("instance_norm: expected running_mean and running_var with use_input_stats=False, got None")
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _refuse("instance_norm", running_mean=(running_mean, None), running_var=(running_var, None))
    return group_norm(input, input.shape[1], weight, bias, eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    scale = _xp.ones(tuple(normalized_shape)) if weight is None else weight
    return _functions.layer_norm(input, scale, _xp.zeros(tuple(normalized_shape)) if bias is None else bias, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    channels = input.shape[1]
    scale = _xp.ones(channels) if weight is None else weight
    return _functions.group_norm(input, num_groups, scale, _xp.zeros(channels) if bias is None else bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    eps = _xp.finfo(input.dtype).eps if eps is None else eps
    y = input * _rsqrt(_xp.mean(input * input, axis=axes, keepdims=True) + eps)
    return y if weight is None else y * weight


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Krizhevsky et al. 2012: each channel divided by the squares of `size` channels around it."""
    low, high = [0] * input.ndim, [0] * input.ndim
    low[1], high[1] = size // 2, (size - 1) // 2
    squares, channels = _functions._call("pad", input * input, low, high), input.shape[1]
    total = squares[:, :channels]
    for i in range(1, size):
        total = total + squares[:, i:i + channels]
    return input / (k + alpha / size * total) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    if out is not None:
        raise ValueError("normalize: expected out=None, got an array: the result is returned")
    return input / _xp.maximum(_vector_norm(input, axis=dim, keepdims=True, ord=p), eps)


def dropout(input, p=0.5, training=True, inplace=False):
    return _functions.dropout(input, p) if training and p else input


def _dropped_channels(input, p, training, axes, function):
    if input.ndim not in (axes + 1, axes + 2):
        raise ValueError(f"{function}: expected (N, C, ...) with {axes} axes behind the channels, got shape {input.shape}")
    if not training or not p:
        return input
    return input * _functions.dropout(_xp.ones(input.shape[:-axes] + (1,) * axes), p)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, L) become zero."""
    return _dropped_channels(input, p, training, 1, "dropout1d")


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, H, W) become zero."""
    return _dropped_channels(input, p, training, 2, "dropout2d")


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, D, H, W) become zero."""
    return _dropped_channels(input, p, training, 3, "dropout3d")


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(scale q k^T) v of (..., T, E), (..., S, E) and (..., S, Ev). With dropout_p all weights lie in memory. enable_gqa: each
    head of keys and values is of several heads of queries, one after the other."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = _xp.repeat(key, groups, axis=-3), _xp.repeat(value, groups, axis=-3)
    if scale is None:
        scale = query.shape[-1] ** -0.5
    if scale == 0:  # the library's 0 is 1 / sqrt(E)
        query, scale = query * 0, 1.0
    heads = [_xp.reshape(x, (1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x for x in (query, key, value)]
    if dropout_p:
        y = dropout(_functions.attention_weights(*heads[:2], is_causal, scale, mask=attn_mask), dropout_p) @ heads[2]
    else:  # widths that differ get zeros up to the larger: they add nothing to the scores, and are cut from the result
        width = max(x.shape[-1] for x in heads)
        heads = [_functions._call("pad", x, [0] * 4, [0, 0, 0, width - x.shape[-1]]) if x.shape[-1] < width else x for x in heads]
        y = _functions.attention(*heads, is_causal, scale, mask=attn_mask)[..., :value.shape[-1]]
    return _xp.reshape(y, y.shape[4 - query.ndim:]) if query.ndim < 4 else y


# Grids of samples.

def pad(input, pad, mode="constant", value=None):
    """(before, after) of the last axis, then of the one before it, as PyTorch's. Negative widths crop in mode "constant"."""
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ValueError(f"pad: expected a pair of widths for each of at most {input.ndim} axes, got {tuple(pad)}")
    low, high = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    if mode == "constant":
        if any(width < 0 for width in low + high):
            input = input[tuple(slice(max(0, -a), n - max(0, -b)) for a, b, n in zip(low, high, input.shape))]
            low, high = [max(0, a) for a in low], [max(0, b) for b in high]
        return _functions._call("pad", input, low, high, 0 if value is None else value)
    _refuse(f"pad with mode {mode!r}", value=(value, None))
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad: mode: expected \"constant\", \"reflect\", \"replicate\" or \"circular\", got {mode!r}")
    for axis, (a, b) in enumerate(zip(low, high)):
        if a or b:
            input = _padded(input, axis, a, b, mode)
    return input


def _padded(x, axis, low, high, mode):
    """One axis continued by its own elements."""
    count = x.shape[axis]
    most = {"reflect": count - 1, "circular": count}.get(mode, max(low, high))
    if min(low, high) < 0 or max(low, high) > most:
        raise ValueError(f"pad: mode {mode!r}: axis {axis} with {count} elements takes widths from 0 to {most}, got ({low}, {high})")

    def part(start, stop):
        return x[(*(slice(None),) * axis, slice(start, stop))]

    if mode == "replicate":
        before, after = [part(0, 1)] * low, [part(count - 1, count)] * high
    elif mode == "circular":
        before, after = [part(count - low, count)], [part(0, high)]
    else:
        before, after = [_xp.flip(part(1, 1 + low), axis=axis)], [_xp.flip(part(count - 1 - high, count - 1), axis=axis)]
    return _xp.concat(before * (low > 0) + [x] + after * (high > 0), axis=axis)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Samples the axes behind (N, C) on another grid. The modes are PyTorch's; "area" is an adaptive mean. antialias is for
    bilinear and bicubic."""
    if recompute_scale_factor and size is None:
        size, scale_factor = tuple(_math.floor(n * f) for n, f in zip(input.shape[2:], _tuple(scale_factor, input.ndim - 2))), None
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias: expected mode bilinear or bicubic, got {mode!r}")
    if antialias or mode in ("nearest-exact", "trilinear") or mode != "area" and isinstance(scale_factor, (tuple, list)):
        from ._resampling import interpolated
        return interpolated(input, size, scale_factor, mode, align_corners, antialias)
    if mode != "area":
        return _layers.Upsample(size, scale_factor, mode, align_corners)(input)
    if size is None:
        return interpolate(input, None, scale_factor, mode, align_corners, True)
    pool = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}.get(input.ndim)
    if pool is None or align_corners is not None:
        raise ValueError(f"interpolate: mode 'area': expected one to three spatial axes and no align_corners, got shape {input.shape}")
    return pool(input, size)


upsample = interpolate


def pixel_shuffle(input, upscale_factor):
    """(N, C r^2, H, W) to (N, C, H r, W r)."""
    r = upscale_factor
    *batch, channels, height, width = input.shape
    if channels % (r * r):
        raise ValueError(f"pixel_shuffle: expected channels that are a multiple of {r * r}, got shape {input.shape}")
    n, c = _math.prod(batch), channels // (r * r)
    y = _xp.permute_dims(_xp.reshape(input, (n, c, r, r, height, width)), (0, 1, 4, 2, 5, 3))
    return _xp.reshape(y, (*batch, c, height * r, width * r))


def pixel_unshuffle(input, downscale_factor):
    """(N, C, H r, W r) to (N, C r^2, H, W)."""
    r = downscale_factor
    *batch, c, height, width = input.shape
    if height % r or width % r:
        raise ValueError(f"pixel_unshuffle: expected a height and a width that are multiples of {r}, got shape {input.shape}")
    n = _math.prod(batch)
    y = _xp.permute_dims(_xp.reshape(input, (n, c, height // r, r, width // r, r)), (0, 1, 3, 5, 2, 4))
    return _xp.reshape(y, (*batch, c * r * r, height // r, width // r))


def channel_shuffle(input, groups):
    n, channels, *space = input.shape
    if channels % groups:
        raise ValueError(f"channel_shuffle: expected channels that are a multiple of {groups}, got shape {input.shape}")
    y = _xp.reshape(input, (n, groups, channels // groups, *space))
    return _xp.reshape(_xp.permute_dims(y, (0, 2, 1, *range(3, 3 + len(space)))), input.shape)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of (N, C, H, W) as columns: (N, C kh kw, L)."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_tuple(v, 2) for v in (kernel_size, dilation, padding, stride))
    if input.ndim == 3:
        return unfold(input[None], kernel_size, dilation, padding, stride)[0]
    if input.ndim != 4:
        raise ValueError(f"unfold: expected (N, C, H, W) or (C, H, W), got shape {input.shape}")
    if min(sh, sw, dh, dw) < 1:
        raise ValueError(f"unfold: expected stride and dilation of at least 1, got {stride!r} and {dilation!r}")
    x = pad(input, (pw, pw, ph, ph))
    n, c, height, width = x.shape
    rows, columns = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    if rows < 1 or columns < 1:
        raise ValueError(f"unfold: expected samples of at least the window {kernel_size}, got shape {input.shape}")
    parts = [x[:, :, i * dh:i * dh + sh * (rows - 1) + 1:sh, j * dw:j * dw + sw * (columns - 1) + 1:sw]
             for i in range(kh) for j in range(kw)]
    return _xp.reshape(_xp.stack(parts, axis=2), (n, c * kh * kw, rows * columns))


from ._volumes import _adaptive_maxima, adaptive_avg_pool3d, adaptive_max_pool3d, avg_pool3d, conv3d, conv_transpose3d  # noqa: E402,F401
from ._volumes import lp_pool1d, lp_pool2d, lp_pool3d, max_pool3d, max_unpool1d, max_unpool2d, max_unpool3d  # noqa: E402,F401
from ._sampling import (  # noqa: E402,F401
    affine_grid, alpha_dropout, embedding_bag, feature_alpha_dropout, fold, grid_sample, gumbel_softmax, pdist, rrelu, triplet_margin_with_distance_loss)


# Distances.

def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    x1, x2 = _xp.broadcast_arrays(x1, x2)
    norms = [_xp.sqrt(_xp.maximum(_xp.sum(x * x, axis=dim), eps * eps)) for x in (x1, x2)]
    return _xp.sum(x1 * x2, axis=dim) / (norms[0] * norms[1])


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return _vector_norm(x1 - x2 + eps, axis=-1, keepdims=keepdim, ord=p)


# Losses.

def cross_entropy(input, target, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    classes = _xp.isdtype(target.dtype, "integral")
    if not classes and ignore_index >= 0:
        raise ValueError(f"cross_entropy: ignore_index is for classes: expected none for probabilities, got {ignore_index}")
    return _functions.cross_entropy(input, target, label_smoothing, reduction, ignore_index if classes else None, weight)


def nll_loss(input, target, weight=None, *, ignore_index=-100, reduction="mean"):
    return _functions.nll_loss(input, target, reduction, ignore_index, weight)


def mse_loss(input, target, *, reduction="mean"):
    return _functions.mse_loss(input, target, reduction)


def l1_loss(input, target, *, reduction="mean"):
    return _functions.l1_loss(input, target, reduction)


def smooth_l1_loss(input, target, *, reduction="mean", beta=1.0):
    return _functions.smooth_l1_loss(input, target, beta, reduction)


def huber_loss(input, target, *, reduction="mean", delta=1.0):
    return _functions.huber_loss(input, target, delta, reduction)


def kl_div(input, target, *, reduction="mean", log_target=False):
    if reduction == "batchmean":
        return _functions.kl_div(input, target, "sum", log_target) / (input.shape[0] if input.ndim else 1)
    return _functions.kl_div(input, target, reduction, log_target)


def binary_cross_entropy_with_logits(input, target, weight=None, *, reduction="mean", pos_weight=None):
    return _functions.bce_with_logits(input, target, reduction, weight, pos_weight)


@_custom_gradient
def _cross_entropies(p, target):
    """Binary cross-entropy with logarithms of at least -100 and finite gradients at 0 and 1, as PyTorch's."""
    yes, no = (_xp.where(q > 0, _xp.maximum(_xp.log(_xp.where(q > 0, q, 1.0)), -100.0), -100.0) for q in (p, 1 - p))
    each = -(target * yes + (1 - target) * no)
    return each, lambda dy: (dy * (p - target) / _xp.maximum(p * (1 - p), 1e-12), dy * (no - yes))


def binary_cross_entropy(input, target, weight=None, *, reduction="mean"):
    """Of probabilities from 0 to 1. Of the outputs of a network binary_cross_entropy_with_logits is more exact."""
    if input.shape != target.shape:
        raise ValueError(f"binary_cross_entropy: expected targets of shape {input.shape}, got {target.shape}")
    each = _cross_entropies(input, target)
    return _reduced(each if weight is None else each * weight, reduction, "binary_cross_entropy")


def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, *, reduction="mean"):
    each = _xp.exp(input) - target * input if log_input else input - target * _xp.log(input + eps)
    if full:  # Stirling's formula for ln(target!)
        t = _xp.where(target > 1, target, 2.0)
        each = each + _xp.where(target > 1, t * _xp.log(t) - t + 0.5 * _xp.log(2 * _math.pi * t), 0.0)
    return _reduced(each, reduction, "poisson_nll_loss")


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    if not hasattr(var, "shape"):
        var = _xp.full(input.shape, float(var))
    elif var.ndim == input.ndim - 1:
        var = _xp.expand_dims(var, axis=-1)
    var = var + _functions.stop_gradient(_xp.maximum(var, eps) - var)
    each = 0.5 * (_xp.log(var) + (input - target) ** 2 / var) + (0.5 * _math.log(2 * _math.pi) if full else 0.0)
    return _reduced(each, reduction, "gaussian_nll_loss")


def soft_margin_loss(input, target, *, reduction="mean"):
    return _reduced(_layers.Softplus()(-target * input), reduction, "soft_margin_loss")


def hinge_embedding_loss(input, target, margin=1.0, *, reduction="mean"):
    each = _xp.where(target == 1, input, 0.0) + _xp.where(target == -1, _functions.relu(margin - input), 0.0)
    return _reduced(each, reduction, "hinge_embedding_loss")


def margin_ranking_loss(input1, input2, target, margin=0.0, *, reduction="mean"):
    return _reduced(_functions.relu(-target * (input1 - input2) + margin), reduction, "margin_ranking_loss")


def cosine_embedding_loss(input1, input2, target, margin=0.0, *, reduction="mean"):
    """Of pairs (N, D) with target (N): 1 for equal ones, -1 for different ones."""
    similarity = cosine_similarity(input1, input2, dim=-1)
    each = _xp.where(target == 1, 1 - similarity, _functions.relu(similarity - margin))
    return _reduced(each, reduction, "cosine_embedding_loss")


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, *, reduction="mean"):
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = _xp.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(_functions.relu(margin + near - far), reduction, "triplet_margin_loss")


def multilabel_soft_margin_loss(input, target, weight=None, *, reduction="mean"):
    each = _functions.bce_with_logits(input, _xp.astype(target, input.dtype, copy=False), "none")
    return _reduced(_xp.mean(each if weight is None else each * weight, axis=-1), reduction, "multilabel_soft_margin_loss")


def multilabel_margin_loss(input, target, *, reduction="mean"):
    classes = input.shape[-1]
    count = _xp.cumulative_sum(_xp.astype(target < 0, _xp.float32), axis=-1)
    labels, target = _xp.astype(count == 0, input.dtype), _xp.where(target < 0, 0, target)  # up to the first -1
    others = 1 - _xp.max(_functions.one_hot(target, classes) * labels[..., None], axis=-2)
    outputs = _functions.gather_elements(input, target, -1)
    each = _functions.relu(1 - outputs[..., None] + input[..., None, :]) * labels[..., None] * others[..., None, :]
    return _reduced(_xp.sum(each, axis=(-2, -1)) / classes, reduction, "multilabel_margin_loss")


def bilinear(input1, input2, weight, bias=None):
    """(..., I), (..., J) to (..., K) by weight (K, I, J)."""
    k, i, j = weight.shape
    rows = input1 @ _xp.reshape(_xp.permute_dims(weight, (1, 0, 2)), (i, k * j))
    y = _xp.sum(_xp.reshape(rows, (*input1.shape[:-1], k, j)) * input2[..., None, :], axis=-1)
    return y if bias is None else y + bias


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, *, reduction="mean"):
    classes = input.shape[-1]
    right = _functions.one_hot(target, classes)
    each = _functions.relu(margin - _xp.sum(input * right, axis=-1, keepdims=True) + input) ** p * (1 - right)
    each = _xp.sum(each, axis=-1) / classes
    return _reduced(each if weight is None else each * _xp.take(weight, target), reduction, "multi_margin_loss")


# Parameters that take other libraries' arrays, and lists, as all functions of arrays do. Not the statistics that training writes to.
_ARRAYS = frozenset(("input target weight bias pos_weight input1 input2 x1 x2 anchor positive negative query key value attn_mask log_probs targets "
                     "grid theta indices offsets per_sample_weights tensor logits var").split())


def _array(x):
    return x if hasattr(type(x), "_trained") else _manipulation._converted(x)  # a parameter has its value where it is used


_hints.explained(globals(), __name__, _ARRAYS, _array)
