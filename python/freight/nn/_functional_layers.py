"""Layers and losses that are functions of functional.py with settings: they have no parameters."""
from .. import _array_api as xp
from .. import _core, _layers
from .._module import Module
from . import functional

__all__ = [
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "FunctionLayer", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
    "PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Unfold", "Fold", "RReLU", "LocalResponseNorm", "Softmax2d",
    "Interpolate", "UpsamplingNearest2d", "UpsamplingBilinear2d", "BatchNorm3d", "MaxPool3d", "AvgPool3d", "AdaptiveAvgPool3d",
    "AdaptiveMaxPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "CosineSimilarity", "PairwiseDistance", "Loss", "CrossEntropyLoss", "NLLLoss", "MSELoss",
    "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "BCELoss", "BCEWithLogitsLoss", "PoissonNLLLoss",
    "GaussianNLLLoss", "SoftMarginLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "CosineEmbeddingLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "MultiLabelMarginLoss", "CTCLoss"]


class FunctionLayer(Module):
    """A function of nn.functional with settings, which are its attributes."""

    _function = ""
    _by_mode = False  # whether the function has a parameter `training`

    def _make(self, given):
        super().__init__()
        names = [name for name in given if name not in ("self", "__class__")]
        object.__setattr__(self, "_settings", names)
        for name in names:
            value = given[name]
            setattr(self, name, xp.asarray(value) if name in ("weight", "pos_weight") and value is not None else value)

    def _keywords(self):
        mode = {"training": self.training} if self._by_mode else {}
        return {name: getattr(self, name) for name in self._settings} | mode

    def forward(self, *arrays):
        return getattr(functional, self._function)(*arrays, **self._keywords())

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._settings)


# Padding.

class _Padding(FunctionLayer):
    """Pads the last axes of (N, C, ...): one width for all sides, or (before, after) of the last axis, then of those before it."""

    _function = "pad"
    _axes, _mode = 1, "constant"

    def __init__(self, padding):
        self._make({"padding": padding, "value": 0.0})

    def _keywords(self):
        widths = functional._tuple(self.padding, 2 * self._axes)
        if len(widths) != 2 * self._axes:
            raise ValueError(f"{type(self).__name__}: padding: expected a width or {2 * self._axes} of them, got {self.padding!r}")
        return {"pad": widths, "mode": self._mode, "value": self.value if self._mode == "constant" else None}

    def extra_repr(self):
        return f"{self.padding!r}" + (f", value={self.value!r}" if self._mode == "constant" else "")


class _ConstantPadding(_Padding):
    def __init__(self, padding, value):
        self._make({"padding": padding, "value": value})


def _paddings(kind, base, mode, doc):
    for axes in (1, 2, 3):
        yield type(f"{kind}{axes}d", (base,), {"_axes": axes, "_mode": mode, "__doc__": doc, "__module__": __name__})


ZeroPad1d, ZeroPad2d, ZeroPad3d = _paddings("ZeroPad", _Padding, "constant", "Pads the last axes by zeros.")
ConstantPad1d, ConstantPad2d, ConstantPad3d = _paddings("ConstantPad", _ConstantPadding, "constant", "Pads the last axes by a value.")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _paddings(
    "ReflectionPad", _Padding, "reflect", "Pads the last axes by their mirror image, without the edge.")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _paddings("ReplicationPad", _Padding, "replicate", "Pads the last axes by their edges.")
CircularPad1d, CircularPad2d, CircularPad3d = _paddings("CircularPad", _Padding, "circular", "Pads the last axes by their other end.")


# Dropout of channels.

class Dropout1d(FunctionLayer):
    """In training whole channels of (N, C, L) become zero with probability p, the others are divided by 1 - p."""

    _function, _by_mode = "dropout1d", True

    def __init__(self, p=0.5):
        self._make(locals())


class Dropout2d(FunctionLayer):
    """In training whole channels of (N, C, H, W) become zero with probability p, the others are divided by 1 - p."""

    _function, _by_mode = "dropout2d", True

    def __init__(self, p=0.5):
        self._make(locals())


class Dropout3d(FunctionLayer):
    """In training whole channels of (N, C, D, H, W) become zero with probability p, the others are divided by 1 - p."""

    _function, _by_mode = "dropout3d", True

    def __init__(self, p=0.5):
        self._make(locals())


class AlphaDropout(FunctionLayer):
    """Dropout that keeps the mean 0 and variance 1 of SELU networks. Klambauer et al. 2017."""

    _function, _by_mode = "alpha_dropout", True

    def __init__(self, p=0.5):
        self._make(locals())


class FeatureAlphaDropout(FunctionLayer):
    """AlphaDropout of whole channels of (N, C, ...)."""

    _function, _by_mode = "feature_alpha_dropout", True

    def __init__(self, p=0.5):
        self._make(locals())


# Images.

class PixelShuffle(FunctionLayer):
    """(N, C r^2, H, W) to (N, C, H r, W r). Shi et al. 2016."""

    _function = "pixel_shuffle"

    def __init__(self, upscale_factor):
        self._make(locals())


class PixelUnshuffle(FunctionLayer):
    """(N, C, H r, W r) to (N, C r^2, H, W)."""

    _function = "pixel_unshuffle"

    def __init__(self, downscale_factor):
        self._make(locals())


class ChannelShuffle(FunctionLayer):
    """Interleaves groups of channels. Zhang et al. 2018."""

    _function = "channel_shuffle"

    def __init__(self, groups):
        self._make(locals())


class Unfold(FunctionLayer):
    """The windows of (N, C, H, W) as columns: (N, C kh kw, L)."""

    _function = "unfold"

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        self._make(locals())


class Fold(FunctionLayer):
    """The sums of windows, (N, C kh kw, L), where they lie in (N, C, H, W)."""

    _function = "fold"

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        self._make(locals())


class RReLU(FunctionLayer):
    """x above 0, else a x: a is drawn between lower and upper in training, and their mean otherwise."""

    _function, _by_mode = "rrelu", True

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3):
        self._make(locals())


class LocalResponseNorm(FunctionLayer):
    """Each channel divided by the squares of `size` channels around it. Krizhevsky et al. 2012."""

    _function = "local_response_norm"

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        self._make(locals())


class Softmax2d(FunctionLayer):
    """Softmax over the channels of (N, C, H, W)."""

    _function = "softmax"

    def __init__(self):
        self._make({"dim": -3})

    def extra_repr(self):
        return ""


class Interpolate(FunctionLayer):
    """What Upsample makes for what the library's layer has not: the modes trilinear, nearest-exact and area, and a factor for each axis."""

    _function = "interpolate"
    _modes = ("trilinear", "nearest-exact", "area")

    def __init__(self, size=None, scale_factor=None, mode="trilinear", align_corners=None):
        self._make(locals())


def _new_upsample(cls, size=None, scale_factor=None, mode="nearest", align_corners=None):
    several = cls is _layers.Upsample and isinstance(scale_factor, (tuple, list))
    return Interpolate(size, scale_factor, mode, align_corners) if several or mode in Interpolate._modes else object.__new__(cls)


setattr(_layers.Upsample, "__new__", staticmethod(_new_upsample))  # a generated class


class UpsamplingNearest2d(_layers.Upsample):
    """Upsample with mode="nearest"."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(_layers.Upsample):
    """Upsample with mode="bilinear" and align_corners=True."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)


# Three axes.

class BatchNorm3d(_layers.BatchNorm2d):
    """BatchNorm of (N, C, D, H, W)."""


class MaxPool3d(FunctionLayer):
    """The largest number of each window of (N, C, D, H, W)."""

    _function = "max_pool3d"

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        self._make(locals())


class AvgPool3d(FunctionLayer):
    """The mean of each window of (N, C, D, H, W)."""

    _function = "avg_pool3d"

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        self._make(locals())


class AdaptiveAvgPool3d(FunctionLayer):
    """(N, C, D, H, W) to (N, C, *output_size): averages over windows that cover all."""

    _function = "adaptive_avg_pool3d"

    def __init__(self, output_size):
        self._make(locals())


class AdaptiveMaxPool3d(FunctionLayer):
    """(N, C, D, H, W) to (N, C, *output_size): maxima of windows that cover all."""

    _function = "adaptive_max_pool3d"

    def __init__(self, output_size, return_indices=False):
        self._make(locals())


# Places of maxima.

class _AdaptiveMaxima:
    """A layer of the library that gives places, too, where they are asked for."""

    return_indices = False

    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        object.__setattr__(self, "return_indices", return_indices)

    def _built(self):
        if not self.return_indices:
            return super()._built()
        own = self.__dict__  # a node that calls forward, as the library's gives the maxima alone
        own["_cached"] = own["_cached"] or (0, _core.make_written(self, [], self._layer.training), ())
        return own["_cached"][1]

    def _run(self, node, arguments, keywords):
        if not self.return_indices:
            return super()._run(node, arguments, keywords)
        return getattr(functional, self._function)(*arguments, **keywords, output_size=self.output_size, return_indices=True)


class AdaptiveMaxPool1d(_AdaptiveMaxima, _layers.AdaptiveMaxPool1d):
    """(N, C, L) to (N, C, output_size): maxima of windows that cover all."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxima, _layers.AdaptiveMaxPool2d):
    """(N, C, H, W) to (N, C, *output_size): maxima of windows that cover all."""

    _function = "adaptive_max_pool2d"


class _Unpool(FunctionLayer):
    """Puts maxima at their places, with zeros elsewhere: layer(maxima, indices), of a pool with return_indices=True."""

    def __init__(self, kernel_size, stride=None, padding=0):
        self._make(locals())

    def forward(self, input, indices, output_size=None):
        return getattr(functional, self._function)(input, indices, **self._keywords(), output_size=output_size)


class MaxUnpool1d(_Unpool):
    """Puts maxima (N, C, L) at their places, with zeros elsewhere: layer(maxima, indices)."""

    _function = "max_unpool1d"


class MaxUnpool2d(_Unpool):
    """Puts maxima (N, C, H, W) at their places, with zeros elsewhere: layer(maxima, indices)."""

    _function = "max_unpool2d"


class MaxUnpool3d(_Unpool):
    """Puts maxima (N, C, D, H, W) at their places, with zeros elsewhere: layer(maxima, indices)."""

    _function = "max_unpool3d"


class _PowerPool(FunctionLayer):
    """Roots of sums of powers."""

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        self._make(locals())


class LPPool1d(_PowerPool):
    """The norm_type-th root of the sum of the powers of each window of (N, C, L)."""

    _function = "lp_pool1d"


class LPPool2d(_PowerPool):
    """The norm_type-th root of the sum of the powers of each window of (N, C, H, W)."""

    _function = "lp_pool2d"


class LPPool3d(_PowerPool):
    """The norm_type-th root of the sum of the powers of each window of (N, C, D, H, W)."""

    _function = "lp_pool3d"


# Distances.

class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors along an axis."""

    _function = "cosine_similarity"

    def __init__(self, dim=1, eps=1e-8):
        self._make(locals())


class PairwiseDistance(FunctionLayer):
    """The p-norm of the differences of vectors along the last axis."""

    _function = "pairwise_distance"

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        self._make(locals())


# Losses.

class Loss(FunctionLayer):
    """A loss as a module: loss(outputs, targets), also for fit(loss=...)."""


class CrossEntropyLoss(Loss):
    """-ln softmax of logits (N, C, ...) at targets: (N, ...) classes, or (N, C, ...) probabilities."""

    _function = "cross_entropy"

    def __init__(self, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        self._make(locals())


class NLLLoss(Loss):
    """-log probabilities (N, C, ...) at targets (N, ...)."""

    _function = "nll_loss"

    def __init__(self, weight=None, *, ignore_index=-100, reduction="mean"):
        self._make(locals())


class MSELoss(Loss):
    """(output - target)^2."""

    _function = "mse_loss"

    def __init__(self, *, reduction="mean"):
        self._make(locals())


class L1Loss(Loss):
    """|output - target|."""

    _function = "l1_loss"

    def __init__(self, *, reduction="mean"):
        self._make(locals())


class SmoothL1Loss(Loss):
    """d^2 / (2 beta) for differences d below beta, |d| - beta / 2 above."""

    _function = "smooth_l1_loss"

    def __init__(self, *, reduction="mean", beta=1.0):
        self._make(locals())


class HuberLoss(Loss):
    """d^2 / 2 for differences d below delta, delta (|d| - delta / 2) above."""

    _function = "huber_loss"

    def __init__(self, reduction="mean", delta=1.0):
        self._make(locals())


class KLDivLoss(Loss):
    """target (ln target - output) of log probabilities; reduction="batchmean" is the divergence itself."""

    _function = "kl_div"

    def __init__(self, *, reduction="mean", log_target=False):
        self._make(locals())


class BCELoss(Loss):
    """Binary cross-entropy of probabilities. Of the outputs of a network BCEWithLogitsLoss is more exact."""

    _function = "binary_cross_entropy"

    def __init__(self, weight=None, *, reduction="mean"):
        self._make(locals())


class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of sigmoid(output)."""

    _function = "binary_cross_entropy_with_logits"

    def __init__(self, weight=None, *, reduction="mean", pos_weight=None):
        self._make(locals())


class PoissonNLLLoss(Loss):
    """output - target ln output of counts, or exp(output) - target output with log_input."""

    _function = "poisson_nll_loss"

    def __init__(self, log_input=True, full=False, *, eps=1e-8, reduction="mean"):
        self._make(locals())


class GaussianNLLLoss(Loss):
    """loss(mean, target, variance)."""

    _function = "gaussian_nll_loss"

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        self._make(locals())


class SoftMarginLoss(Loss):
    """ln(1 + exp(-target output)) with targets of 1 and -1."""

    _function = "soft_margin_loss"

    def __init__(self, *, reduction="mean"):
        self._make(locals())


class HingeEmbeddingLoss(Loss):
    """The output where the target is 1, max(0, margin - output) where it is -1."""

    _function = "hinge_embedding_loss"

    def __init__(self, margin=1.0, *, reduction="mean"):
        self._make(locals())


class MarginRankingLoss(Loss):
    """loss(x1, x2, target): max(0, margin - target (x1 - x2))."""

    _function = "margin_ranking_loss"

    def __init__(self, margin=0.0, *, reduction="mean"):
        self._make(locals())


class CosineEmbeddingLoss(Loss):
    """loss(x1, x2, target): 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""

    _function = "cosine_embedding_loss"

    def __init__(self, margin=0.0, *, reduction="mean"):
        self._make(locals())


class TripletMarginLoss(Loss):
    """loss(anchor, positive, negative): max(0, margin + distance to the positive - distance to the negative)."""

    _function = "triplet_margin_loss"

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, *, reduction="mean"):
        self._make(locals())


class TripletMarginWithDistanceLoss(Loss):
    """TripletMarginLoss by a distance of one's own."""

    _function = "triplet_margin_with_distance_loss"

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        self._make(locals())


class MultiLabelSoftMarginLoss(Loss):
    """The mean over the labels of binary cross-entropy of sigmoid(output)."""

    _function = "multilabel_soft_margin_loss"

    def __init__(self, weight=None, *, reduction="mean"):
        self._make(locals())


class MultiMarginLoss(Loss):
    """The mean over the wrong classes of max(0, margin - output of the right one + output)^p."""

    _function = "multi_margin_loss"

    def __init__(self, p=1, margin=1.0, weight=None, *, reduction="mean"):
        self._make(locals())


class MultiLabelMarginLoss(Loss):
    """The mean over all classes of max(0, 1 - output of a label + output of another class), summed over the labels. Targets
    (N, C) have the numbers of labels in front of a -1."""

    _function = "multilabel_margin_loss"

    def __init__(self, *, reduction="mean"):
        self._make(locals())


class CTCLoss(Loss):
    """loss(log_probs (T, N, C), targets (N, S), input_lengths, target_lengths). Graves et al. 2006."""

    _function = "ctc_loss"

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        self._make(locals())
