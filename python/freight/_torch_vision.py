"""Functions of torchvision's networks that torch.fx calls as a whole, with their parameters: their branches depend on sizes."""
import math

from . import _functions, xp
from ._torch_functions import _named
from .nn import functional


@_named("stochastic_depth")
def _stochastic_depth(input, p, mode, training=True):
    if not training or not p:
        return input
    count = input.shape[0] if mode == "row" else 1
    return input * _functions.dropout(xp.ones((count, *(1,) * (input.ndim - 1))), p)


@_named("_patch_merging_pad")
def _merged_patches(x):
    height, width = x.shape[-3:-1]
    x = functional.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    return xp.concat([x[..., 0::2, 0::2, :], x[..., 1::2, 0::2, :], x[..., 0::2, 1::2, :], x[..., 1::2, 1::2, :]], axis=-1)


@_named("_get_relative_position_bias")
def _position_bias(relative_position_bias_table, relative_position_index, window_size):
    count = window_size[0] * window_size[1]
    bias = xp.reshape(relative_position_bias_table[relative_position_index], (count, count, -1))
    return xp.permute_dims(bias, (2, 0, 1))[None]


@_named("shifted_window_attention")
def _shifted_window_attention(input, qkv_weight, proj_weight, relative_position_bias, window_size, num_heads, shift_size, attention_dropout=0.0,
                              dropout=0.0, qkv_bias=None, proj_bias=None, logit_scale=None, training=True):
    """Attention within windows of (N, H, W, C), which lie shift_size further where they are smaller than the grid (Liu et al. 2021;
    with logit_scale by cosines, 2022)."""
    count, height, width, channels = input.shape
    rows, columns = window_size
    x = functional.pad(input, (0, 0, 0, -width % columns, 0, -height % rows))
    sizes = x.shape[1:3]
    shifts = tuple(0 if window >= size else shift for window, size, shift in zip(window_size, sizes, shift_size))
    if any(shifts):
        x = xp.roll(x, tuple(-s for s in shifts), axis=(1, 2))
    grid = (sizes[0] // rows, sizes[1] // columns)
    windows, inside, width_of_head = grid[0] * grid[1], rows * columns, channels // num_heads
    x = xp.permute_dims(xp.reshape(x, (count, grid[0], rows, grid[1], columns, channels)), (0, 1, 3, 2, 4, 5))
    x = xp.reshape(x, (count * windows, inside, channels))
    if logit_scale is not None and qkv_bias is not None:  # keys have no bias there
        third = qkv_bias.shape[0] // 3
        qkv_bias = xp.concat([qkv_bias[:third], xp.zeros((third,)), qkv_bias[2 * third:]])
    qkv = xp.reshape(functional.linear(x, qkv_weight, qkv_bias), (count * windows, inside, 3, num_heads, width_of_head))
    q, k, v = xp.unstack(xp.permute_dims(qkv, (2, 0, 3, 1, 4)))
    if logit_scale is not None:
        q, k = (functional.normalize(a, dim=-1) for a in (q, k))
        scores = (q @ k.mT) * xp.exp(xp.clip(logit_scale, None, math.log(100.0)))
    else:
        scores = (q * width_of_head**-0.5) @ k.mT
    scores = scores + relative_position_bias
    if any(shifts):
        # Rows and columns that the shift has brought together, though they lie apart, do not see each other.
        bands = [xp.astype(xp.arange(size) >= size - window, xp.int64) + xp.astype(xp.arange(size) >= size - shift, xp.int64) if shift
                 else xp.zeros((size,), dtype=xp.int64) for size, window, shift in zip(sizes, window_size, shifts)]
        region = xp.reshape(3 * bands[0][:, None] + bands[1], (grid[0], rows, grid[1], columns))
        region = xp.reshape(xp.permute_dims(region, (0, 2, 1, 3)), (windows, inside))
        mask = xp.where(region[:, None, :] == region[:, :, None], 0.0, -100.0)
        scores = xp.reshape(scores, (count, windows, num_heads, inside, inside)) + mask[:, None]
        scores = xp.reshape(scores, (-1, num_heads, inside, inside))
    weights = functional.dropout(functional.softmax(scores, dim=-1), attention_dropout, training)
    x = xp.reshape(xp.permute_dims(weights @ v, (0, 2, 1, 3)), (count * windows, inside, channels))
    x = functional.dropout(functional.linear(x, proj_weight, proj_bias), dropout, training)
    x = xp.permute_dims(xp.reshape(x, (count, *grid, rows, columns, channels)), (0, 1, 3, 2, 4, 5))
    x = xp.reshape(x, (count, *sizes, channels))
    return (xp.roll(x, shifts, axis=(1, 2)) if any(shifts) else x)[:, :height, :width, :]
