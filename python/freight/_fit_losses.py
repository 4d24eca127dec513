"""Losses, metrics and weights of samples, as what fit and evaluate ask the trainer for."""
import copy
import functools
import math

from . import _array_api as xp
from . import _core, _functions, _outputs, _rows, _several
from ._fit_data import _refuse_rows_of_integers
from ._functions import isfinite
from ._several_targets import OF_VALUES, given, mean_of_samples


def _kind_of(y):
    """The loss that targets of this type have where none is named."""
    return {xp.int64: "cross_entropy", xp.float32: "mse", xp.uint8: "multilabel", xp.int32: "cross_entropy"}[y.dtype]


def _name_for_targets(loss):
    """The loss whose targets are those of a loss module that takes values, also where they are given as integers; "own" of a function."""
    from . import nn

    module = given(loss)
    if isinstance(module, (nn.BCELoss, nn.BCEWithLogitsLoss, nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)):
        return "mse"
    return "own" if callable(loss) and not isinstance(module, nn.Loss) else None


def _name_of(model):
    return type(_several.original(model)).__name__


def _per_sample(function):
    """A loss or metric function, whose result (N, ...) becomes its mean over each sample."""
    @functools.wraps(function)
    def call(outputs, targets):
        found = function(outputs, targets)
        return mean_of_samples(found) if isinstance(found, _core.Array) else found

    return call


def of_classes(loss):
    """Whether a loss module of this package takes classes."""
    from . import nn

    return isinstance(given(loss), (nn.CrossEntropyLoss, nn.NLLLoss))


def takes_classes(loss):
    """Whether classes below 0 are a mistake in targets: not for functions of the program, which may read them otherwise."""
    return not callable(loss) or of_classes(loss)


def _unreduced(loss):
    """The loss, whose result is not reduced where it is a module of this package: numbers whose mean is the module's result."""
    from . import nn

    module = given(loss)
    if not isinstance(module, nn.Loss) or getattr(module, "reduction", "none") == "none":
        return loss
    each = copy.copy(module)
    each.reduction = "none"

    def call(outputs, targets):
        found = each(outputs, targets)
        if module.reduction == "sum":
            return found * found.size
        if not of_classes(module) or xp.isdtype(targets.dtype, "real floating"):
            return found
        counted = targets != module.ignore_index
        shares = xp.astype(counted, found.dtype)
        if module.weight is not None:
            shares = shares * xp.take(module.weight, xp.reshape(xp.where(counted, targets, 0), (-1,))).reshape(shares.shape)
        return found * (found.size / xp.maximum(xp.sum(shares), xp.asarray(1e-30)))  # all may be ignored

    return loss.targets.given_to(call, "loss") if module is not loss else call


def _request(model, x, y, *, loss, metric=None, classes=None, weighted=False):
    """What the extension's functions read: the data and what the model is for."""
    task = model.__dict__.get("_task") or {}
    request = {"name": _name_of(model), "model": model, "data_name": "arrays", "x": x, "y": y, "input": x.shape[1:],
               "dtype": "float32" if x.dtype == xp.uint8 else x.dtype.name, "loss": "mse", "mean": task.get("mean", []), "std": task.get("std", [])}
    if callable(loss) and y.dtype == xp.uint8 and math.prod(_core.output_shape(model._node(), request)[1:]) != y.shape[1]:
        y = request["y"] = xp.astype(y, xp.int32)  # no label for each output, but classes at places or the like
    if y.dtype == xp.uint8 and not callable(loss) and len(_core.output_shape(model._node(), request)) == 1:
        raise ValueError("loss: bce is for outputs (N, K), got (N,): expected a forward that returns one for each label, of one label x[:, None], or "
                         "loss=nn.BCEWithLogitsLoss() for y (N,)")
    request["classes"] = classes or ([str(i) for i in range(y.shape[1])] if y.dtype == xp.uint8 else [])
    request["loss"] = _kind_of(y) if callable(loss) or loss in (None, "auto") or y.dtype == xp.uint8 else loss
    own, right = _of_whole_arrays(model, request, loss, weighted)
    if own is not None:
        request["loss_function"] = _per_sample(own)
        request["per_element"] = functools.partial(own, reduction="none")
        request["of_places"] = own if isinstance(own, _OfPlaces) else None
    if callable(loss):
        request["loss_function"] = _per_sample(_outputs.whole(model, loss, "loss"))
        request["per_element"] = _outputs.whole(model, _unreduced(loss), "loss")
    wanted = metric == "accuracy" if callable(loss) else metric in (None, "auto", "accuracy", "loss", "own")
    if wanted and y.ndim == 2 and y.shape[1] == 1 and are_labels(y, loss):
        right = functools.partial(_right_of_one, loss)  # of two classes; of several labels each would be right or wrong
    if right is not None:
        request |= {"metric_function": right, "accuracy_function": right, "metric_name": "accuracy", "higher_is_better": True}
    return request


def are_labels(y, loss):
    """Whether targets are a 0 or 1 for each output: those of a loss module of probabilities, too, which takes floats."""
    from . import nn

    of_module = isinstance(given(loss), (nn.BCELoss, nn.BCEWithLogitsLoss)) and y.dtype == xp.float32 and y.ndim <= 2
    return y.dtype == xp.uint8 or of_module and bool(xp.all((y == 0) | (y == 1)))


def scores_of(outputs, loss):
    """The probabilities of labels."""
    from . import nn

    return outputs if isinstance(given(loss), nn.BCELoss) else _functions.sigmoid(outputs)


def _right_of_one(loss, outputs, targets):
    """The accuracy of one output against targets 0 and 1."""
    return mean_of_samples(xp.astype((scores_of(outputs, loss) > 0.5) == (xp.astype(targets, xp.float32) > 0.5), xp.float32))


def _right_of_classes(outputs, targets):
    """The accuracy of outputs (N, K) against classes (N)."""
    return xp.astype(xp.astype(xp.argmax(outputs, axis=1), targets.dtype) == targets, xp.float32)


def _right_of_shares(outputs, targets):
    """The accuracy of outputs (N, K) against probabilities (N, K): of their largest class."""
    return _right_of_classes(outputs, xp.astype(xp.argmax(targets, axis=1), xp.int64))


def _of_whole_arrays(model, request, loss, weighted=False):
    """(the function of a named loss, the function of the accuracy), where targets have axes that the library's losses do not take:
    values (N, ...) with outputs of the same shape, and classes (N, ...) with outputs (N, K, ...); else None for each. A loss of
    the program over classes whose outputs are not classes has no accuracy. `weighted`: whether samples have weights."""
    y = request["y"]
    if y.dtype == xp.float32 and y.ndim > 2 and not callable(loss):
        if request["loss"] == "bce":
            request["loss"] = "mse"
            return _functions.bce_with_logits, None
        return OF_VALUES.get(request["loss"]), None
    if y.dtype not in (xp.int32, xp.int64) or y.shape[0] == 0 or (y.ndim == 1 and not callable(loss)):
        return None, None
    outputs = tuple(_core.output_shape(model._node(), request))[1:]
    places = y.shape[1:]
    if y.ndim == 1:
        if len(outputs) != 1:
            request["loss"], request["feeds"] = "mse", True
        return None, None
    if len(outputs) == len(places) + 1 and outputs[1:] == places and (len(places) > 1 or outputs[:-1] != places):
        axis = 1
    elif outputs[:-1] == places:
        axis = len(outputs)
    else:  # a loss of classes that are not the outputs'
        if len(outputs) == len(places) == 1 and not callable(loss):
            _refuse_rows_of_integers(y, outputs)
        request["loss"] = "mse" if callable(loss) else request["loss"]
        return None, None
    if axis > 1 and len(places) == 1 and loss in (None, "auto", "cross_entropy") and not weighted:
        return None, None  # tokens, which the trainer takes

    def right(outputs, targets):
        counted = targets >= 0
        hits = xp.astype((xp.astype(xp.argmax(outputs, axis=axis), targets.dtype) == targets) & counted, xp.float32)
        return _mean_of_counted(hits, counted, weighted)

    if callable(loss):
        return None, right
    if request["loss"] not in ("cross_entropy", "focal"):
        raise ValueError(f"loss: expected cross_entropy, focal or a function for classes {y.dtype}{list(y.shape)}, got {request['loss']!r}")
    return _OfPlaces(model, axis, request["loss"]), right


def _mean_of_counted(found, counted, by_sample):
    """The mean of numbers at places that count; by_sample: a number for each sample, whose mean it is."""
    axes = tuple(range(1, found.ndim)) if by_sample else None
    share = found.shape[0] if by_sample else 1
    return xp.sum(found, axis=axes) * share / xp.maximum(xp.sum(xp.astype(counted, xp.float32)), xp.asarray(1.0))


class _OfPlaces:
    """The loss of a name for classes at places, (N, ...) with outputs that have the classes on an axis: its mean over the places that
    have a class, which is not negative, as tokens are counted, too. `smoothing` is that of labels in training."""

    def __init__(self, model, axis, name):
        self._model, self._axis, self._name, self.smoothing = model, axis, name, 0.0

    def __call__(self, outputs, targets, reduction="mean"):
        """With reduction="none" a number for each sample, whose mean is that of the places."""
        from .nn import functional

        smoothing = self.smoothing if self._model._built().training else 0.0
        each = functional.cross_entropy(xp.moveaxis(outputs, self._axis, 1), xp.where(targets < 0, -100, targets), reduction="none",
                                        label_smoothing=smoothing)
        if self._name == "focal":  # models.h
            each = (1 - _functions.exp(-each)) ** 2 * each
        return _mean_of_counted(each, targets >= 0, reduction == "none")


def _weight_per_sample(sample_weight, count, what="fit: sample_weight"):
    w = xp.astype(xp.asarray(sample_weight), xp.float32, copy=False)
    if w.shape != (count,):
        raise ValueError(f"{what}: expected one weight per sample, ({count},), got shape {w.shape}")
    if not bool(xp.all(isfinite(w) & (w >= 0))):
        raise ValueError(f"{what}: expected finite weights that are not negative")
    return w


def _scaled(w, what):
    """The weights, whose mean is then 1."""
    total = float(xp.sum(xp.astype(w, xp.float64)))
    if total == 0:
        raise ValueError(f"{what}: expected a sample whose weight is not 0")
    return w * (w.shape[0] / total)


def _weight_per_class(class_weight, names):
    """A dict by class as one of all names: the others weigh 1."""
    factors = {str(c): float(factor) for c, factor in class_weight.items()}
    unknown = [c for c in factors if c not in names]
    if unknown:
        raise ValueError(f"fit: class_weight: unknown class {unknown[0]!r}; the data has {', '.join(names)}")
    return {name: factors.get(name, 1.0) for name in names}


def _weights(sample_weight, class_weight, y, names, batch=""):
    """A weight per sample, 1 in the mean: the loss keeps its scale, and the learning rate its meaning. `names` are those of the
    classes, where y has classes. Of a batch, which this names in errors, those of samples are as they are given, as others may differ;
    those of classes are 1 in its mean, as PyTorch's CrossEntropyLoss(weight=) divides by their sum."""
    count = y.shape[0]
    w = xp.ones(count) if sample_weight is None else _weight_per_sample(sample_weight, count, batch or "fit: sample_weight")
    if class_weight is not None:
        if y.dtype != xp.int64:
            raise ValueError(f"fit: class_weight: expected a class per sample, got y {y.dtype}{list(y.shape)}")
        if class_weight == "balanced" and not batch:
            counts = [int(xp.sum(y == c)) for c in range(int(xp.max(y)) + 1)]
            by_class = [count / (len(counts) * max(n, 1)) for n in counts]
        elif isinstance(class_weight, str):
            expected = "a dict of weights by class for batches" if batch else "\"balanced\" or a dict of weights by class"
            raise ValueError(f"fit: class_weight: expected {expected}, got {class_weight!r}")
        else:
            by_class = list(_weight_per_class(class_weight, names).values())
        factors = xp.take(xp.asarray(by_class), y)
        w = w * (_scaled(factors, f"{batch}: class_weight") if batch else factors)
    return w if batch else _scaled(w, "fit: sample_weight, class_weight")


def _one_metric(metric, what):
    """The metric among a list of figures, of which loss and accuracy are reported in any case."""
    if metric is None or isinstance(metric, str) or callable(metric):
        return metric
    if not isinstance(metric, (list, tuple)):
        raise TypeError(f"{what}: metric: expected a name such as \"f1\" or a function of (outputs, targets), got {metric!r}")
    others = [m for m in metric if m not in ("auto", "loss", "accuracy")]
    if len(others) > 1:
        names = ", ".join(getattr(m, "__name__", str(m)) for m in others)
        raise ValueError(f"{what}: metric: expected one figure besides loss and accuracy, got {names}: use metrics=")
    return _one_metric(others[0], what) if others else next((m for m in metric if m == "accuracy"), "auto")


def _each_of(request, smoothing):
    """The loss of the request as a function that gives numbers per sample, or None."""
    function = request.get("per_element") or request.get("loss_function")
    y, loss = request["y"], request["loss"]
    if function is None and loss in OF_VALUES:
        function = functools.partial(OF_VALUES[loss], reduction="none")
    if function is None and y.dtype == xp.uint8:
        function = lambda o, t: _functions.bce_with_logits(o, xp.astype(t, xp.float32), reduction="none")  # noqa: E731
    if function is None and loss == "cross_entropy" and (y.dtype == xp.int64 or y.dtype == xp.float32):
        function = functools.partial(_smoothed, request["model"], smoothing)
    return function


def _smoothed(model, smoothing, outputs, targets):
    """The cross-entropy of each sample, of labels that are smoothed in training."""
    from .nn import functional

    return functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=smoothing if model._built().training else 0.0)


def _weighted(request, weights, outputs, *, of_validation=None, whole=False, smoothing=0.0, what="fit"):
    """The request with weights in the targets. Classes become shares of the weight for outputs of this shape; other targets get a
    column, and so do classes where a function needs them, which `whole` says, or where the validation data has weights. Returns what
    takes rows apart as (targets, weights), or None."""
    y = request["y"]
    request["feeds"] = True
    if request["loss"] == "cross_entropy" and "loss_function" not in request and "metric_function" not in request and not whole and of_validation is None:
        if y.dtype == xp.int64:
            count = max(len(request["classes"]), outputs[-1])
            hot = xp.astype(xp.expand_dims(y, axis=1) == xp.arange(count), xp.float32)
            request["y"] = hot * xp.expand_dims(weights, axis=1)
            return None
        if y.dtype == xp.float32:
            request["y"] = y * xp.expand_dims(weights, axis=1)
            return None
    function = _each_of(request, smoothing)
    if function is None:
        raise ValueError(f"{what}: sample_weight is for cross_entropy, bce, mse, mae, huber or a loss function, got loss {request['loss']}")
    targets, weight = _rows.of((y, weights), f"{what}: y", pixels=False)[1]
    layout = (targets[0], targets[1], y.dtype), weight

    def apart(rows):
        return tuple(_rows.apart(rows, layout).values())

    request["y"] = _rows.of((y, weights), f"{what}: y", pixels=False)[0]
    if "vy" in request:
        v = xp.ones(request["vy"].shape[0]) if of_validation is None else of_validation
        request["vy"] = _rows.of((request["vy"], v), f"{what}: y", pixels=False)[0]
    def weighted_loss(outputs, rows):
        t, w = apart(rows)
        same = isinstance(outputs, _core.Array) and outputs.size == t.size
        each = function(xp.reshape(outputs, t.shape) if same else outputs, t)
        if each.ndim == 0:
            raise ValueError(f"{what}: with sample_weight the loss function must return a number per sample, got a scalar")
        return mean_of_samples(each) * w

    request["loss_function"] = weighted_loss
    shares = y.dtype == xp.float32 and request["loss"] == "cross_entropy"
    if (shares or y.dtype == xp.int64 and len(outputs) == 2) and "metric_function" not in request:
        request |= {"metric_function": _right_of_shares if shares else _right_of_classes, "metric_name": "accuracy", "higher_is_better": True}
    if request["loss"] not in OF_VALUES and not ((shares or y.dtype == xp.int64) and "metric_function" in request):
        request["loss"] = "mse"  # of which the trainer takes rows of values
    if "metric_function" in request:
        metric, model = request["metric_function"], request["model"]
        request["accuracy_function"] = metric

        def weighted_metric(outputs, rows):
            t, w = apart(rows)
            found = metric(outputs, t)
            if of_validation is None or model._built().training:
                return found
            if found.ndim == 0:
                raise ValueError(f"{what}: {request['metric_name']}: with weights of samples a metric must return a number per sample, got their mean")
            return found * w

        request["metric_function"] = weighted_metric
    return apart
