"""The data of fit, evaluate and predict: samples and targets of arrays, and batches of iterables such as DataLoaders."""
import warnings

from . import _array_api as xp
from . import _core, distributed

_VALUE_LOSSES = ("mse", "huber", "mae")


def _as_floats(x):
    """u8 as numbers from 0 to 1; others as they are."""
    return xp.astype(x, xp.float32) / 255 if x.dtype == xp.uint8 else x


_SCALED, _PLAIN = 2, 3  # data::Values: what a range of numbers says of pixels of files, and what files are no samples of


def _kind_of_pixels(x):
    """Of floats (N, C, H, W) what the command makes of the pixels of files, which are numbers from 0 to 1 unless this says else: with 0
    to 255 as they are, and where numbers are below or above nothing. None for other arrays."""
    if x.dtype != xp.float32 or x.ndim != 4 or x.shape[0] == 0:
        return None
    low, high = float(xp.min(x)), float(xp.max(x))
    if 0 <= low and high <= 1 or not low <= high:
        return None
    values, extremes = (_SCALED, (0.0, 255.0)) if 0 <= low and high <= 255 else (_PLAIN, (low, high))
    return {"resize": 0, "orientation": 0, "layout": 0, "values": values, "range": extremes}


def _inputs(x, what):
    """(array on the host, whether its type needs feeds)."""
    if isinstance(x, dict):
        raise TypeError(f"{what}: expected one array, got a dict: several inputs are for a module whose forward takes as many")
    series = hasattr(x, "to_frame")  # of pandas and polars
    x = xp.asarray(x)
    if x.ndim < 2:
        fix = "use series.to_frame()" if series else "of one number per sample: x[:, None]; of one sample: x[None]"
        raise ValueError(f"{what}: expected samples of at least one axis, (N, ...), got shape {x.shape}; {fix}")
    if x.size == 0 and x.shape[0] > 0:
        raise ValueError(f"{what}: expected samples with elements, got shape {x.shape}")
    if x.dtype == xp.uint8:
        return _core.to_host(x), False
    if xp.isdtype(x.dtype, "real floating") or x.dtype == xp.bool:
        return _core.to_host(xp.astype(x, xp.float32, copy=False)), False
    if xp.isdtype(x.dtype, "integral"):
        return _core.to_host(xp.astype(x, xp.int32, copy=False)), True
    raise TypeError(f"{what}: expected real numbers, got {x.dtype}")


def _texts(y):
    """A list of strings, where y is one."""
    if hasattr(y, "tolist") and getattr(getattr(y, "dtype", None), "kind", "") in ("U", "S", "O"):
        y = y.tolist()
    return y if isinstance(y, (list, tuple)) and len(y) and isinstance(y[0], str) else None


def known_names(y, names):
    """These names of outputs, where y has such names alone: those of a module stay where a class is missing in further data. Else None."""
    texts = _texts(y)
    return names if texts is not None and names and set(texts) <= set(names) else None


def _targets(y, loss, classes, what):
    """Targets as the trainer takes them: classes i64 (N), values f32, labels u8 (N, K), or tokens i32 (N, T); and the names
    of classes."""
    texts = _texts(y)
    if texts is not None:
        names = classes or sorted(set(texts))
        numbers = {name: i for i, name in enumerate(names)}
        for i, t in enumerate(texts):
            if t not in numbers:
                raise ValueError(f"{what}: y[{i}] is {t!r}, expected one of the classes {', '.join(names)}")
        return xp.asarray([numbers[t] for t in texts], dtype=xp.int64), names
    y = xp.asarray(y)
    if y.ndim == 0:
        raise ValueError(f"{what}: expected one target per sample, got a number")
    if y.size == 0 and y.shape[0] > 0:
        raise ValueError(f"{what}: y: expected targets with elements, got shape {y.shape}")
    if loss in ("bce", "multilabel") and y.ndim <= 2:
        return _labels(y, what), classes
    if loss == "bce" and not xp.isdtype(y.dtype, "real floating") and not bool(xp.all((y == 0) | (y == 1))):
        raise ValueError(f"{what}: y: expected 0 and 1 for the loss bce, got other numbers")
    if xp.isdtype(y.dtype, "real floating") or loss in (*_VALUE_LOSSES, "bce"):
        return _core.to_host(xp.astype(y, xp.float32, copy=False)), classes
    if y.ndim == 1 and (xp.isdtype(y.dtype, "integral") or y.dtype == xp.bool):
        return _core.to_host(xp.astype(y, xp.int64, copy=False)), classes
    if y.dtype in (xp.uint8, xp.bool) and y.ndim == 2:
        return _core.to_host(xp.astype(y, xp.uint8, copy=False)), classes
    if xp.isdtype(y.dtype, "integral") and y.shape[1] == 1 and loss != "own":
        what_else = "" if y.ndim == 2 else ", and values as floats: y.astype(\"float32\")"
        raise ValueError(f"{what}: y: expected classes as ({'N,' if y.ndim == 2 else 'N, ...'}), got {y.shape}: use y[:, 0]{what_else}")
    if xp.isdtype(y.dtype, "integral"):
        return _core.to_host(xp.astype(y, xp.int32, copy=False)), classes
    raise TypeError(f"{what}: expected classes, labels or real values, got {y.dtype}{list(y.shape)}")


def _warn_of_targets(x, given, y, loss):
    """Says what is trained where targets `given`, which are y, are likely to be meant in another way."""
    if y.dtype != xp.float32 or y.shape[0] == 0:
        return
    if loss in (None, "auto") and y.ndim == 2 and y.shape[1] > 1 and bool(xp.all(((y == 0) | (y == 1)) & (xp.sum(y, axis=1, keepdims=True) == 1))):
        warnings.warn("fit: y has a 1 in each row, and is trained with the loss mse, as floats are: loss=\"cross_entropy\" takes them as classes, "
                      "loss=\"mse\" ends this warning", stacklevel=8)
    pixels = all(getattr(getattr(a, "dtype", None), "itemsize", 0) == 1 and xp.asarray(a).dtype == xp.uint8 for a in (x, given))
    if loss in _VALUE_LOSSES and y.ndim > 2 and pixels and float(xp.max(y)) > 1:
        warnings.warn(f"fit: y: pixels from 0 to 255 are targets of the loss {loss} as they are, while those of x are trained on as numbers from "
                      "0 to 1: y / 255 has their scale", stacklevel=8)


def _labels(y, what):
    """Targets of the loss bce, 0 and 1 for each output, as labels u8 (N, K)."""
    if not bool(xp.all((y == 0) | (y == 1))):
        raise ValueError(f"{what}: y: expected 0 and 1 for the loss bce, got other numbers: nn.BCEWithLogitsLoss() takes probabilities")
    return _core.to_host(xp.astype(y if y.ndim == 2 else xp.reshape(y, (-1, 1)), xp.uint8, copy=False))


def _are_shares(y, loss, what):
    """Whether y has a probability for each class, (N, K) floats for the loss cross_entropy."""
    if loss != "cross_entropy" or y.dtype != xp.float32:
        return False
    if y.ndim != 2:
        raise TypeError(f"{what}: y: expected classes as integers, or probabilities (N, K), for the loss cross_entropy, got {y.dtype}{list(y.shape)}")
    if not bool(xp.all((y >= 0) & (abs(xp.sum(y, axis=1, keepdims=True) - 1) < 1e-3))):
        raise ValueError(f"{what}: y: expected probabilities whose sum is 1 in each row, for the loss cross_entropy")
    return True


def _pair(data, what):
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        length = f" of {len(data)}" if isinstance(data, (tuple, list)) else ""
        raise TypeError(f"{what}: expected (x, y), got {type(data).__name__}{length}")
    return data


def _need_classes(y, what):
    """Refuses numbers that are no classes, for a loss of the library."""
    least = int(xp.min(y)) if y.dtype == xp.int64 and y.shape[0] else 0
    if least < 0:
        raise ValueError(f"{what}: y: expected classes from 0, got {least}: samples without a class have to be left out, x[y >= 0] and y[y >= 0]"
                         "; numbers below 0 are ignored in targets (N, T) alone, PyTorch's -100 as well")


def _refuse_rows_of_integers(y, outputs):
    """Integers (N, K) for outputs (N, K) are neither classes nor values."""
    zeros_and_ones = bool(xp.all((y == 0) | (y == 1)))
    one = zeros_and_ones and bool(xp.all(xp.sum(y, axis=1) == 1))
    fix = ("classes (N), y.argmax(axis=1), or floats with loss=\"cross_entropy\", y.astype(\"float32\")" if one else
           "labels, loss=\"bce\"" if zeros_and_ones and y.shape[1] == outputs[0] else "classes (N), or values, y.astype(\"float32\")")
    raise ValueError(f"y: integers of shape {y.shape} are no targets of outputs ({y.shape[0]}, {outputs[0]}): expected {fix}")


def _with_weights(data, what):
    """(x, y, weights or None)"""
    if isinstance(data, (tuple, list)) and len(data) == 3:
        return data
    return *_pair(data, what), None


def _need_as_many(x, y, what):
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"{what}: expected as many samples in y as in x, {x.shape[0]}, got {y.shape[0]}")
    _need_samples(x.shape, what)


def _need_samples(shape, what):
    """`what` names the function, or its argument where that is not x."""
    if shape[0] == 0:
        raise ValueError(f"{_argument(what)}: there are no samples: expected at least one, got shape {shape}")


def _argument(what):
    return what if ":" in what else f"{what}: x"


def are_at_places(y):
    """Whether targets are tokens or classes at places, which count one by one, those below 0 not: counted() of data/feed.h."""
    return y.dtype == xp.int32 and y.ndim > 1


def is_iterator(loader):
    """Whether its batches come once. To ask for an iterator instead would start the workers of a DataLoader."""
    return hasattr(loader, "__next__")


class _Batches:
    """The batches of an iterable, such as a DataLoader, for each epoch anew; of an iterator where the last epoch has ended."""

    def __init__(self, loader, loss, steps):
        self.loader, self.loss, self.endless = loader, loss, is_iterator(loader)
        self.count, self.length = _batches_per_epoch(loader, steps)
        self.of_labels = xp.float32
        self.weighted = None  # gives the targets of a batch with the weights of its samples in their rows
        # The first batch is looked at before the run, which then gets it as well: an epoch takes the batches once.
        self.batches, self.kept, self.repeats, self.over = None, None, False, False
        self.read, self.epoch, self.at = 0, -1, 0
        job, replicas = distributed._job(), getattr(getattr(loader, "sampler", None), "num_replicas", 1)
        if replicas > 1:
            raise ValueError(f"fit: x: its sampler divides the samples among {replicas} processes: expected the same batches on "
                             "every rank, of which fit takes each rank's part")
        self.size = None
        self.start(0, 0)
        first = self.next()
        self.x, self.y, self.weights, self.tokens = first["x"], first["y"], first["weights"], first["tokens"]
        self.size = self.x.shape[0]
        if job is not None:
            job.need_equal("a first batch of x (where a DataLoader shuffles, give it a generator with a seed) with the sum",
                           repr(float(xp.sum(xp.astype(self.x, xp.float64)))))
        self.samples = self.count * (self.y.size if are_at_places(self.y) else self.size)  # targets that count in the loss, at most

    def start(self, epoch, first):
        again = epoch == self.epoch  # the trainer asks for the same epoch a second time
        if self.endless:
            self.batches, self.over = self.loader, again and self.at > 0 and self.read > 1
        elif not again or self.read > 1:
            sampler = getattr(self.loader, "sampler", None)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            self.batches, self.read = iter(self.loader), 0
        self.repeats, self.epoch, self.at = again and self.read == 1, epoch, 0
        while self.at < first:
            self.next()

    def _raw(self):
        if self.repeats:
            self.repeats = False
            return self.kept
        batch = None if self.over else next(self.batches, None)
        if batch is None and self.endless and not self.over:
            raise ValueError(f"fit: x has ended after {self.read} batches: expected {self.count} in each epoch (steps_per_epoch)")
        self.read += 1
        self.kept = batch if self.read == 1 else None
        if not self.endless and self.read == self.length:  # ends the iteration, as a loop does: a sampler then draws once more
            next(self.batches, None)
        return batch

    def next(self):
        batch = self._raw()
        if batch is None:
            return None
        what = f"fit: batch {self.at} of x"
        x, y, weights = _with_weights(batch, what)
        (x, tokens), (y, _) = _inputs(x, what), _targets(y, self.loss, None, what)
        _need_as_many(x, y, what)
        if self.loss != "own":
            _need_classes(y, what)
        x = _as_floats(x)
        if self.size is not None and y.dtype == xp.uint8:
            y = xp.astype(y, self.of_labels)
        self.at += 1
        if self.size is not None and (x.shape[1:] != self.x.shape[1:] or y.shape[1:] != self.y.shape[1:] or x.dtype != self.x.dtype
                                      or x.shape[0] != self.size and self.at < self.count):
            raise ValueError(f"{what}: expected samples {self.x.dtype}{self.x.shape} as in the first batch, got {x.dtype}{x.shape}")
        if self.size is not None and (weights is None) != (self.weights is None):
            raise ValueError(f"{what}: expected {'(x, y)' if self.weights is None else '(x, y, weights)'} as in the first batch")
        return {"x": x, "y": self.weighted(y, weights, what) if self.weighted else y, "weights": weights, "tokens": tokens}


def _batches_per_epoch(loader, steps):
    """(the batches of an epoch, the loader's length or None)"""
    try:
        count = len(loader)
    except TypeError:
        count = None
    if steps is None and count is None:
        raise ValueError("fit: x has no length: expected steps_per_epoch, the number of batches of an epoch")
    if steps is not None and (type(steps) is not int or steps < 1 or steps > (count or steps)):
        most = f" to {count}, the batches of x" if count else ""
        raise ValueError(f"fit: steps_per_epoch: expected a whole number from 1{most}, got {steps!r}")
    if count == 0:
        raise ValueError("fit: x has no batches: expected at least one")
    return steps or count, count


def _are_batches(x):
    """Whether x is a list of batches [(x0, y0), (x1, y1)], and not (x, y) itself."""
    def is_data(part):
        if isinstance(part, list):
            return bool(part) and all(len(getattr(p, "shape", ())) > 0 for p in part)
        return isinstance(part, (dict, tuple)) or len(getattr(part, "shape", ())) > 0

    return isinstance(x, list) and len(x) > 0 and all(isinstance(b, (list, tuple)) and len(b) > 1 and all(map(is_data, b)) for b in x)


def _is_loader(x):
    if isinstance(x, str):  # a path
        return False
    if _are_batches(x):
        return True
    is_sequence = hasattr(x, "__getitem__") and hasattr(x, "__len__")  # such as those of Keras
    return not hasattr(x, "shape") and not isinstance(x, (list, tuple, dict)) and (hasattr(x, "__iter__") or is_sequence)


def _collected(loader, what):
    """All samples of an iterable of batches: (x, y, weights or None)."""
    parts = list(zip(*(_with_weights(b, what) for b in loader)))
    if not parts:
        raise ValueError(f"{_argument(what)}: there are no samples: expected at least one batch")
    if any(w is None for w in parts[2]):
        parts = [*parts[:2], [None]]
    return tuple(None if part[0] is None else xp.concat([xp.asarray(p) for p in part], axis=0) for part in parts)
