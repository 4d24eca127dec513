"""Functions of nn.functional that gather or add elements at places: samples of a grid, windows put together, sums of bags; and
draws: Gumbel softmax, RReLU and the dropout of SELU networks."""
import functools
import itertools
import math

from .. import _functions, random
from .. import xp as _xp
from . import functional as _f


def affine_grid(theta, size, align_corners=False):
    """Places in [-1, 1] of the elements of an image (N, C, H, W), or (N, C, D, H, W), moved by theta (N, 2, 3), or (N, 3, 4): a grid
    (N, H, W, 2) or (N, D, H, W, 3), x first."""
    n, spatial = size[0], list(size[2:])
    if len(spatial) not in (2, 3) or theta.shape != (n, len(spatial), len(spatial) + 1):
        raise ValueError(f"affine_grid: expected theta (N, 2, 3) with size (N, C, H, W), or (N, 3, 4) with size (N, C, D, H, W), got shape {theta.shape} "
                         f"and {tuple(size)}")
    lines = []
    for count in spatial:
        line = _xp.linspace(-1, 1, count, dtype=theta.dtype) if count > 1 else _xp.zeros(1, dtype=theta.dtype)
        lines.append(line if align_corners else line * ((count - 1) / count))
    axes = _xp.meshgrid(*lines, indexing="ij")
    places = _xp.reshape(_xp.stack([*axes[::-1], _xp.ones_like(axes[0])], axis=-1), (1, -1, len(spatial) + 1))
    return _xp.reshape(places @ _xp.matrix_transpose(theta), (n, *spatial, len(spatial)))


def _reflected(at, size, align_corners):
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return at * 0
    distance = _xp.abs(at - low)
    turns = _xp.floor(distance / span)
    rest = distance - turns * span
    return _xp.clip(_xp.where(_xp.remainder(turns, 2) == 0, rest + low, span - rest + low), 0, size - 1)


def _cubic_weights(t, a=-0.75):
    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Elements of (N, C, H, W), or (N, C, D, H, W), at the places of a grid (N, ..., 2 or 3) in [-1, 1], x first; modes and paddings are
    PyTorch's."""
    count = input.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: expected mode bilinear, nearest or bicubic, and padding_mode zeros, border or reflection, got {mode!r} and {padding_mode!r}")
    if count not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != count or (mode == "bicubic" and count == 3):
        raise ValueError(f"grid_sample: expected input (N, C, H, W) and grid (N, h, w, 2), or, but for bicubic, input (N, C, D, H, W) and grid (N, d, h, w, 3), "
                         f"got shapes {input.shape} and {grid.shape}")
    n, channels, *sizes = input.shape
    if 0 in sizes:
        raise ValueError(f"grid_sample: expected an input with elements, got shape {input.shape}")

    def padded(at, size):
        if padding_mode == "reflection":
            return _reflected(at, size, align_corners)
        return _xp.clip(at, 0, size - 1) if padding_mode == "border" else at

    taps = []  # per axis, the last first: (place, weight) of each element that counts
    for i, size in enumerate(reversed(sizes)):
        at = grid[..., i]
        at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        if mode == "bicubic":
            first = _functions.stop_gradient(_xp.floor(at))
            taps.append([(padded(first + k - 1, size), w) for k, w in enumerate(_cubic_weights(at - first))])
            continue
        at = padded(at, size)
        if mode == "nearest":
            taps.append([(_functions.stop_gradient(_xp.round(at)), None)])
        else:
            first = _functions.stop_gradient(_xp.floor(at))
            taps.append([(first, first + 1 - at), (first + 1, at - first)])
    flat, total = _xp.reshape(input, (n, channels, -1)), None
    for taken in itertools.product(*reversed(taps)):
        index, weight = 0, None
        for (at, w), size in zip(taken, sizes):
            is_inside = (at >= 0) & (at <= size - 1)
            index = index * size + _xp.astype(_xp.where(is_inside, at, 0), _xp.int64)
            w = _xp.where(is_inside, 1.0 if w is None else w, 0.0)
            weight = w if weight is None else weight * w
        rows = _xp.broadcast_to(_xp.reshape(index, (n, 1, -1)), (n, channels, math.prod(index.shape[1:])))
        part = _functions.gather_elements(flat, rows, 2) * _xp.reshape(_xp.astype(weight, input.dtype, copy=False), (n, 1, -1))
        total = part if total is None else total + part
    return _xp.reshape(total, (n, channels, *grid.shape[1:-1]))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The sums of windows, (N, C kh kw, L), where they lie in (N, C, H, W): unfold's transpose."""
    if input.ndim == 2:
        return fold(input[None], output_size, kernel_size, dilation, padding, stride)[0]
    (height, width), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_f._tuple(v, 2) for v in (output_size, kernel_size, dilation, padding, stride))
    if min(sh, sw, dh, dw) < 1:
        raise ValueError(f"fold: expected stride and dilation of at least 1, got {stride!r} and {dilation!r}")
    rows, columns = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    if input.ndim != 3 or min(rows, columns) < 1 or input.shape[1] % (kh * kw) or input.shape[2] != rows * columns:
        raise ValueError(f"fold: expected (N, C {kh * kw}, {max(0, rows) * max(0, columns)}), got shape {input.shape}")
    n, wide = input.shape[0], width + 2 * pw
    channels = input.shape[1] // (kh * kw)
    y = _xp.arange(kh)[:, None, None, None] * dh + _xp.arange(rows)[None, None, :, None] * sh
    x = _xp.arange(kw)[None, :, None, None] * dw + _xp.arange(columns)[None, None, None, :] * sw
    places = _xp.reshape(y * wide + x, (-1,))
    sums = _functions.scatter_add(places, _xp.reshape(input, (n * channels, -1)), (height + 2 * ph) * wide, 1)
    return _xp.reshape(sums, (n, channels, height + 2 * ph, wide))[:, :, ph:ph + height, pw:pw + width]


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """The mean, sum or maximum of rows of weight over each sample of tokens (N, T), or over the tokens (T,) from each offset on."""
    _f._refuse("embedding_bag", max_norm=(max_norm, None), scale_grad_by_freq=(scale_grad_by_freq, False), sparse=(sparse, False))
    if mode not in ("mean", "sum", "max"):
        raise ValueError(f"embedding_bag: mode: expected mean, sum or max, got {mode!r}")
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != input.shape):
        raise ValueError(f"embedding_bag: per_sample_weights: expected mode sum and shape {input.shape}, got mode {mode} and {per_sample_weights.shape}")
    if (offsets is None) != (input.ndim == 2) or input.ndim not in (1, 2):
        raise ValueError(f"embedding_bag: expected tokens (N, T) alone, or (T,) with offsets, got shape {input.shape} and offsets={offsets!r}")
    kept = _xp.ones_like(input, dtype=_xp.bool) if padding_idx is None else input != padding_idx % weight.shape[0]
    rows = _functions.embedding(input, weight)
    shares = _xp.astype(kept, weight.dtype)
    shares = shares if per_sample_weights is None else shares * per_sample_weights
    if offsets is None:
        count, bags = _xp.sum(shares, axis=1)[:, None], _xp.sum(rows * shares[..., None], axis=1)
        if mode == "max":
            bags = _xp.max(_xp.where(kept[..., None], rows, -_xp.inf), axis=1) if input.shape[1] else bags
    else:
        n = offsets.shape[0] - bool(include_last_offset)
        bag = _xp.sum(_xp.astype(_xp.arange(input.shape[0])[:, None] >= offsets[None, :n], _xp.int64), axis=1) - 1
        is_in = (bag == _xp.arange(n)[:, None]) & kept[None]  # (N, T)
        count = _xp.sum(_xp.astype(is_in, weight.dtype), axis=1)[:, None]
        if mode == "max":
            bags = _xp.max(_xp.where(is_in[..., None], rows[None], -_xp.inf), axis=1) if input.shape[0] else _xp.zeros((n, weight.shape[1]), dtype=weight.dtype)
        else:
            bags = _functions.scatter_add(bag, rows * shares[:, None], n)
    if mode == "max":
        return _xp.where(count > 0, bags, 0.0)
    return bags / _xp.maximum(count, 1.0) if mode == "mean" else bags


def pdist(input, p=2.0):
    """The distances of the rows of (N, M), each pair once: (N (N - 1) / 2,)."""
    n = input.shape[0]
    rows, columns = _xp.nonzero(_xp.triu(_xp.ones((n, n), dtype=_xp.bool), k=1))
    return _f._vector_norm(input[rows] - input[columns], axis=-1, ord=p)


def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    """Samples of the classes that logits name, which have gradients; hard ones are one-hot with the gradients of the others."""
    u = random.uniform(logits.shape, dtype=logits.dtype)
    soft = _f.softmax((logits - _functions.log(-_functions.log(_xp.maximum(u, 1e-38)))) / tau, dim=dim)
    if not hard:
        return soft
    axis = dim % logits.ndim
    chosen = _xp.moveaxis(_functions.one_hot(_xp.argmax(soft, axis=axis), logits.shape[axis], logits.dtype), -1, axis)
    return chosen + soft - _functions.stop_gradient(soft)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """x above 0, else a x: a is drawn between lower and upper in training, and their mean otherwise."""
    slope = random.uniform(input.shape, lower, upper, dtype=input.dtype) if training else (lower + upper) / 2
    return _xp.where(input >= 0, input, input * slope)


def _alpha_dropped(input, p, training, shape):
    if not 0 <= p < 1:
        raise ValueError(f"alpha_dropout: p: expected a probability of at least 0 and below 1, got {p}")
    if not training or not p:
        return input
    low = -1.7580993408473766  # the limit of SELU for small numbers, -scale alpha
    scale = ((1 - p) * (1 + p * low * low)) ** -0.5
    is_kept = random.uniform(shape) >= p
    return _xp.where(is_kept, input, low) * scale - scale * p * low


def alpha_dropout(input, p=0.5, training=True, inplace=False):
    """Dropout that keeps the mean 0 and variance 1 of SELU networks. Klambauer et al. 2017."""
    return _alpha_dropped(input, p, training, input.shape)


def feature_alpha_dropout(input, p=0.5, training=True, inplace=False):
    """alpha_dropout of whole channels of (N, C, ...)."""
    return _alpha_dropped(input, p, training, input.shape[:2] + (1,) * (input.ndim - 2))


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """triplet_margin_loss by a distance of one's own."""
    distance = distance_function or functools.partial(_f.pairwise_distance, p=2.0)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _xp.minimum(far, distance(positive, negative))
    return _f._reduced(_functions.relu(margin + near - far), reduction, "triplet_margin_with_distance_loss")
