"""fit and evaluate with several targets, as a tuple, a list or a dict: the trainer has one array, so that the targets of a sample
lie side by side in its row, as f32, and are taken apart again in front of the loss and the metric."""
from . import _array_api as xp
from . import _functions, _rows


def are_several(y, count=None):
    """Whether y is several targets: a dict, or a tuple or list of arrays. A list of `count` arrays has one of each sample."""
    if isinstance(y, dict):
        return bool(y)
    return (isinstance(y, (tuple, list)) and len(y) > 0 and all(len(getattr(part, "shape", ())) > 0 for part in y) and
            not (isinstance(y, list) and len(y) == count))


class Targets:
    """The targets of a run: their names or numbers, shapes and types, once rows of them were made."""

    def __init__(self):
        self.layout, self._kind = None, tuple

    def rows(self, y, what):
        """(N, numbers of a sample) f32."""
        rows, layout = _rows.of(y, what, pixels=False, integers=xp.int64)
        if self.layout is None:
            self.layout, self._kind = layout, type(y)
        if layout != self.layout:
            raise ValueError(f"{what}: expected targets {_rows.named(self.layout)}, got {_rows.named(layout)}")
        return rows

    def apart(self, rows):
        """The targets as the program gave them, a dict, tuple or list."""
        width = _rows.width(self.layout)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"fit had several targets, {_rows.named(self.layout)}: expected the same here, got one of shape {rows.shape[1:]} per sample")
        parts = _rows.apart(rows, self.layout)
        return parts if self._kind is dict else self._kind(parts.values())

    def given_to(self, function, argument, weights=None):
        """A loss or metric, whose targets are then those of the program; others than functions and losses by target as they are.
        `weights`: those of losses by target."""
        several = isinstance(function, (dict, list, tuple)) and argument == "loss"
        if not callable(function) and not several:
            return function
        called = _sum_of(function, weights) if several else function

        def call(outputs, rows):
            return called(outputs, rows if self.layout is None else self.apart(rows))

        call.__name__ = getattr(function, "__name__", "metric")
        call.given, call.weights, call.targets = function, weights, self
        for name in ("higher_is_better", "of_loss"):
            if hasattr(function, name):
                setattr(call, name, getattr(function, name))
        return call


def is_of_several(loss):
    """Whether a loss of fit or evaluate is of several targets, whose rows lie side by side."""
    targets = getattr(loss, "targets", None)
    return isinstance(targets, Targets) and targets.layout is not None


def need_loss(loss, name):
    if loss is None or isinstance(loss, str):
        raise ValueError(f"{name}: loss: expected one per target, such as (\"cross_entropy\", \"mse\") or a dict by name, whose sum is the loss, or "
                         f"a function of (outputs, targets), for several targets; got {loss!r}")


def _cross_entropy(outputs, targets):
    if targets.dtype == xp.float32 and targets.ndim < outputs.ndim:
        raise ValueError(f"loss: cross_entropy: expected classes as integers, got float32 {targets.shape}")
    return _functions.cross_entropy(outputs, targets, reduction="none")


def mean_of_samples(found):
    """The means (N) of a result (N, ...) over each sample."""
    return xp.mean(found, axis=tuple(range(1, found.ndim))) if found.ndim > 1 else found


OF_VALUES = {"mse": _functions.mse_loss, "mae": _functions.l1_loss, "huber": _functions.huber_loss}
_OF_OUTPUTS = {**OF_VALUES, "bce": lambda o, t, reduction: _functions.bce_with_logits(o, xp.astype(t, xp.float32), reduction=reduction)}


def of_values(name, what="loss", *, floats=False):
    """A loss of as many targets as outputs by its name, as a function that gives a number for each; with floats=True of values alone."""
    function = _OF_OUTPUTS[name]

    def call(outputs, targets):
        if outputs.size != targets.size or floats and targets.dtype != xp.float32:
            raise ValueError(f"{what}: expected {'values' if floats else 'targets'} of the shape of the outputs, {outputs.shape}, got y "
                             f"{targets.dtype}{list(targets.shape)}")
        return function(xp.reshape(outputs, targets.shape), targets, reduction="none")

    return call


_NAMED = {"cross_entropy": _cross_entropy, **{name: of_values(name) for name in _OF_OUTPUTS}}


def _part(loss, key):
    if callable(loss):
        return loss
    if loss not in _NAMED:
        raise ValueError(f"loss[{key!r}]: expected a function or one of {', '.join(_NAMED)}, got {loss!r}")
    return _NAMED[loss]


def _parts(losses):
    return {key: _part(loss, key) for key, loss in (losses.items() if isinstance(losses, dict) else enumerate(losses))}


def _sum_of(losses, weights):
    """The loss that is the sum, by `weights`, of one for each output and target: each a name, whose mean over a sample counts, or a
    function."""
    parts, factors = _parts(losses), _factors(weights, losses)

    def loss(outputs, targets):
        outputs, targets = _by_key(outputs, parts, "outputs"), _by_key(targets, parts, "targets")
        total = None
        for key, function in parts.items():
            each = mean_of_samples(function(outputs[key], targets[key]))
            each = each if factors[key] == 1 else each * factors[key]
            total = each if total is None else total + each
        return total

    return loss


def _factors(weights, losses):
    """The weight of each loss, by its key."""
    keys = list(losses) if isinstance(losses, dict) else list(range(len(losses)))
    if weights is None:
        return dict.fromkeys(keys, 1.0)
    in_order = isinstance(weights, (list, tuple)) and len(weights) == len(keys)
    given = weights if isinstance(weights, dict) else dict(zip(keys, weights)) if in_order else None
    if given is None or set(given) != set(keys) or not all(isinstance(w, (int, float)) and 0 <= w < float("inf") for w in given.values()):
        raise ValueError(f"fit: loss_weights: expected a finite number that is not negative for each loss, {', '.join(map(str, keys))}, got {weights!r}")
    return {key: float(given[key]) for key in keys}


def losses_of(losses):
    """The loss of each output and target as a metric, by Keras's names: "kind_loss"; of outputs without names "loss_0"."""
    parts = _parts(losses)

    def metric_of(key, function):
        def one(outputs, targets):
            return mean_of_samples(function(_by_key(outputs, parts, "outputs")[key], _by_key(targets, parts, "targets")[key]))

        one.__name__, one.higher_is_better, one.of_loss = f"{key}_loss" if isinstance(key, str) else f"loss_{key}", False, True
        return one

    return [metric_of(key, function) for key, function in parts.items()] if len(parts) > 1 else []


def _by_key(values, parts, what):
    if isinstance(values, dict) and set(values) == set(parts):
        return values
    if isinstance(values, (tuple, list)) and len(values) == len(parts):  # in the order of the losses
        return dict(zip(parts, values))
    got = list(values) if isinstance(values, dict) else len(values) if isinstance(values, (tuple, list)) else "one array"
    raise ValueError(f"loss: expected {what} for the losses {', '.join(map(str, parts))}, got {got}")


def given(function):
    """The loss or metric as the program gave it."""
    return getattr(function, "given", function)
