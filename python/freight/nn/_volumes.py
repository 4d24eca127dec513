"""Functions of nn.functional over three spatial axes, (N, C, D, H, W), by those over two; places of maxima in adaptive pools, and the way
back; pools of powers. A convolution is one of two axes whose
channels are the input's at each depth of the window, so that it holds the input as often as the window is deep. Measured on one core
of a Zen 4 with 3 x 3 x 3 windows and 16 or 32 channels: 0.7 to 0.8 of PyTorch's time, with gradients 0.55 to 0.6. Pools take height
and width first, then the depth."""
import functools
import math
import operator

from .. import _functions
from .. import xp as _xp
from . import functional as _f


def _batched(function, input, call):
    """call(x) of x (N, C, D, H, W); a sample without a batch axis gives results without it."""
    if input.ndim == 4:
        y = call(input[None])
        return tuple(part[0] for part in y) if isinstance(y, tuple) else y[0]
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


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    if weight.ndim != 5:
        raise ValueError(f"conv_transpose3d: expected a weight (C, K / groups, kD, kH, kW), got shape {weight.shape}")
    (step, *stride), (cut, *padding), (more, *output_padding), (apart, *dilation) = (
        _f._tuple(v, 3) for v in (stride, padding, output_padding, dilation))
    if more >= max(step, apart):
        raise ValueError(f"conv_transpose3d: output_padding must be smaller than stride or dilation: got {more}, {step} and {apart}")
    taps, channels = weight.shape[2], weight.shape[1] * groups

    def convolved(x):
        n, c, depth = x.shape[:3]
        image = _xp.reshape(_xp.permute_dims(x, (0, 2, 1, 3, 4)), (n * depth, c, *x.shape[3:]))
        flat = _xp.reshape(weight, (weight.shape[0], weight.shape[1] * taps, *weight.shape[3:]))
        planes = _f.conv_transpose2d(image, flat, None, tuple(stride), tuple(padding), tuple(output_padding), groups, tuple(dilation))
        height, width = planes.shape[2:]
        # What each depth of the input adds to those of the result, by the window's depth.
        parts = _xp.permute_dims(_xp.reshape(planes, (n, depth, channels, taps, height, width)), (3, 0, 2, 1, 4, 5))
        if step > 1:
            parts = _f.pad(_xp.expand_dims(parts, axis=4), (0, 0, 0, 0, 0, step - 1))
            parts = _xp.reshape(parts, (taps, n, channels, depth * step, height, width))[:, :, :, :(depth - 1) * step + 1]
        size = (depth - 1) * step + apart * (taps - 1) + 1 + more
        if size <= 2 * cut:
            raise ValueError(f"conv_transpose3d: padding {cut} leaves nothing of a depth of {size}: expected less")
        placed = [_f.pad(parts[k], (0, 0, 0, 0, k * apart, size - parts.shape[3] - k * apart)) for k in range(taps)]
        total = functools.reduce(operator.add, placed)[:, :, cut:size - cut]
        return total if bias is None else total + _xp.reshape(bias, (-1, 1, 1, 1))

    return _batched("conv_transpose3d", input, convolved)


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
    """With return_indices also the place of each maximum in its sample and channel, flat."""
    kernel, stride, padding = _windows(kernel_size, stride, padding)
    steps = _f._tuple(dilation, 3)

    def with_indices(x):
        n, c, d, h, w = x.shape
        y, inner = _f.max_pool2d(_xp.reshape(x, (n, c * d, h, w)), kernel[0], stride[0], padding[0], steps[1:], ceil_mode, True)
        h2, w2 = y.shape[2:]
        y, place = _f.max_pool2d(_xp.reshape(y, (n, c, d, h2 * w2)), kernel[1], stride[1], padding[1], (steps[0], 1), ceil_mode, True)
        inner = _xp.take_along_axis(_xp.reshape(inner, (n, c, -1)), _xp.reshape(place, (n, c, -1)), axis=2)
        index = _xp.reshape(inner, place.shape) + _xp.floor_divide(place, h2 * w2) * (h * w)
        shape = (n, c, y.shape[2], h2, w2)
        return _xp.reshape(y, shape), _xp.reshape(index, shape)

    if return_indices:
        return _batched("max_pool3d", input, with_indices)
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
    if return_indices:
        return _adaptive_maxima("adaptive_max_pool3d", input, output_size, 3)
    return _adaptive("adaptive_max_pool3d", _f.adaptive_max_pool2d, input, output_size)


def _adaptive_maxima(function, input, output_size, axes):
    """Maxima of windows that cover all of the last axes, and their places there, flat: axis by axis, from the last one on."""
    if input.ndim not in (axes + 1, axes + 2):
        raise ValueError(f"{function}: expected (N, C, ...) with {axes} axes behind the channels, got shape {input.shape}")
    y, index, inner = input, None, 1
    for axis, size in reversed(list(enumerate(_f._tuple(output_size, axes), input.ndim - axes))):
        count = input.shape[axis]
        size = size or count
        if count < 1 or size < 1:
            raise ValueError(f"{function}: expected axes and sizes of at least 1, got shape {input.shape} and output_size {output_size}")
        windows = [(i * count // size, -(-(i + 1) * count // size)) for i in range(size)]
        widest = max(end - start for start, end in windows)
        # Windows are equally wide: short ones repeat their last element, of which the first counts.
        rows = _xp.asarray([[min(start + k, end - 1) for k in range(widest)] for start, end in windows])
        before, after = y.shape[:axis], y.shape[axis + 1:]
        x = _xp.reshape(y, (math.prod(before), count, math.prod(after)))
        taken = _xp.reshape(_xp.take(_functions.stop_gradient(x), _xp.reshape(rows, (-1,)), axis=1), (x.shape[0], size, widest, x.shape[2]))
        place = _xp.argmax(taken, axis=2) + _xp.reshape(rows[:, 0], (1, -1, 1))
        y = _xp.reshape(_xp.take_along_axis(x, place, axis=1), (*before, size, *after))
        found = place * inner
        if index is not None:
            found = found + _xp.take_along_axis(_xp.reshape(index, x.shape), place, axis=1)
        index, inner = _xp.reshape(found, y.shape), inner * count
    return y, index


def _unpooled(function, axes, input, indices, kernel_size, stride, padding, output_size):
    if input.ndim not in (axes + 1, axes + 2) or indices.shape != input.shape:
        raise ValueError(f"{function}: expected (N, C, ...) with {axes} axes behind the channels, and indices of its shape, got {input.shape} "
                         f"and {indices.shape}")
    kernel, padding = _f._tuple(kernel_size, axes), _f._tuple(padding, axes)
    stride = kernel if stride in (None, (), []) else _f._tuple(stride, axes)
    sizes = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(input.shape[-axes:], stride, padding, kernel)]
    if output_size is not None:
        given = list(output_size)[-axes:]
        if len(given) < axes or any(not size - s < g < size + s for g, size, s in zip(given, sizes, stride)):
            raise ValueError(f"{function}: output_size: expected sizes nearer to {sizes} than the stride, got {tuple(output_size)}")
        sizes = given
    outer = input.shape[:-axes]
    flat = [_xp.reshape(x, (math.prod(outer), -1)) for x in (input, indices)]
    empty = _xp.zeros((math.prod(outer), math.prod(sizes)), dtype=input.dtype)
    return _xp.reshape(_functions.scatter_elements(empty, flat[1], flat[0], 1), (*outer, *sizes))


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The maxima at their places, zeros elsewhere; so are max_unpool2d and max_unpool3d."""
    return _unpooled("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpooled("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpooled("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _power_mean(average, axes, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = _f._tuple(kernel_size, axes)
    y = average(input ** norm_type, kernel, stride, 0, ceil_mode)
    return (y * math.prod(kernel)) ** (1 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-th root of the sum of the powers of each window; so are lp_pool2d and lp_pool3d."""
    return _power_mean(_f.avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _power_mean(_f.avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _power_mean(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)
