"""Functions of nn.functional over three spatial axes, (N, C, D, H, W): by those over two. A convolution is one of two axes whose
channels are the input's at each depth of the window, so that it holds the input as often as the window is deep. Measured on one core
of a Zen 4 with 3 x 3 x 3 windows and 16 or 32 channels: 0.7 to 0.8 of PyTorch's time, with gradients 0.55 to 0.6. Pools take height
and width first, then the depth."""
from .. import xp as _xp
from . import functional as _f


def _batched(function, input, call):
    """call(x) of x (N, C, D, H, W); a sample without a batch axis gives a result without it."""
    if input.ndim == 4:
        return call(input[None])[0]
    if input.ndim != 5:
        raise ValueError(f"{function}: expected (N, C, D, H, W) or (C, D, H, W), got shape {input.shape}")
    return call(input)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """`padding` may be "valid", none, or "same", which keeps the sizes."""
    if weight.ndim != 5:
        raise ValueError(f"conv3d: expected a weight (K, C / groups, kD, kH, kW), got shape {weight.shape}")
    return _f._convolved(_by_conv2d, 3, input, weight, bias, stride, padding, dilation, groups)


def _by_conv2d(input, weight, bias, stride, padding, dilation, groups):
    stride, dilation = _f._tuple(stride, 3), _f._tuple(dilation, 3)
    depth, *padding = _f._tuple(padding, 3)

    def convolved(x):
        x = _f.pad(x, (0, 0, 0, 0, depth, depth)) if depth else x
        taps, count = weight.shape[2], (x.shape[2] - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1
        if count < 1 or x.shape[1] != weight.shape[1] * groups:
            raise ValueError(f"conv3d: weight {weight.shape} does not fit input {input.shape}: expected {x.shape[1] // groups} channels, and "
                             "a window that is no deeper than the padded input")
        parts = [x[:, :, i * dilation[0]:i * dilation[0] + stride[0] * (count - 1) + 1:stride[0]] for i in range(taps)]
        x = _xp.permute_dims(_xp.stack(parts, axis=2), (0, 3, 1, 2, 4, 5))  # (N, D', C, kD, H, W)
        n, channels = x.shape[0], x.shape[2] * taps
        image = _xp.reshape(x, (n * count, channels, *x.shape[4:]))
        flat = _xp.reshape(weight, (weight.shape[0], weight.shape[1] * taps, *weight.shape[3:]))
        y = _f.conv2d(image, flat, bias, stride[1:], tuple(padding), dilation[1:], groups)
        return _xp.permute_dims(_xp.reshape(y, (n, count, *y.shape[1:])), (0, 2, 1, 3, 4))

    return _batched("conv3d", input, convolved)


_by_conv2d.__name__ = "conv3d"  # for messages


def _by_axes(x, planes, depths):
    """planes of (N, C D, H, W), then depths of (N, C, D, H' W')."""
    n, c, d, h, w = x.shape
    y = planes(_xp.reshape(x, (n, c * d, h, w)))
    h, w = y.shape[2:]
    y = depths(_xp.reshape(y, (n, c, d, h * w)))
    return _xp.reshape(y, (n, c, y.shape[2], h, w))


def _windows(kernel_size, stride, padding):
    """(window, step, padding) of height and width, and of the depth."""
    kernel, padding = _f._tuple(kernel_size, 3), _f._tuple(padding, 3)
    stride = kernel if stride in (None, (), []) else _f._tuple(stride, 3)
    return [(v[1:], (v[0], other)) for v, other in ((kernel, 1), (stride, 1), (padding, 0))]


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    _f._refuse("max_pool3d", return_indices=(return_indices, False))
    kernel, stride, padding = _windows(kernel_size, stride, padding)
    steps = _f._tuple(dilation, 3)
    return _batched("max_pool3d", input, lambda x: _by_axes(
        x, lambda x: _f.max_pool2d(x, kernel[0], stride[0], padding[0], steps[1:], ceil_mode),
        lambda x: _f.max_pool2d(x, kernel[1], stride[1], padding[1], (steps[0], 1), ceil_mode)))


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if divisor_override == 0:
        raise ValueError("avg_pool3d: divisor_override: expected a number other than 0, or None, got 0")
    kernel, stride, padding = _windows(kernel_size, stride, padding)
    divisor = None if divisor_override is None else 1
    return _batched("avg_pool3d", input, lambda x: _by_axes(
        x, lambda x: _f.avg_pool2d(x, kernel[0], stride[0], padding[0], ceil_mode, count_include_pad, divisor),
        lambda x: _f.avg_pool2d(x, kernel[1], stride[1], padding[1], ceil_mode, count_include_pad, divisor_override)))


def _adaptive(function, pool, input, output_size):
    def pooled(x):
        sizes = [n or m for n, m in zip(_f._tuple(output_size, 3), x.shape[2:])]
        return _by_axes(x, lambda x: pool(x, tuple(sizes[1:])), lambda x: pool(x, (sizes[0], x.shape[3])))
    return _batched(function, input, pooled)


def adaptive_avg_pool3d(input, output_size):
    return _adaptive("adaptive_avg_pool3d", _f.adaptive_avg_pool2d, input, output_size)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    _f._refuse("adaptive_max_pool3d", return_indices=(return_indices, False))
    return _adaptive("adaptive_max_pool3d", _f.adaptive_max_pool2d, input, output_size)
