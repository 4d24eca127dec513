"""Figures besides the loss and the metric by which evaluations are compared: those of fit(metrics=), and the losses of single
outputs. The step and the evaluation compute functions along with the loss, and add them up in a state, which is read behind each
epoch; metrics of the library are for all predictions, and take an evaluation of their own."""
import json
import math
import os

from . import _array_api as xp
from . import _core, _functions, _hints, _outputs, distributed
from ._callbacks import figure_of, judge_among, known_metric
from ._fit_data import are_at_places
from ._fit_losses import _per_sample, are_labels, scores_of
from ._several_targets import mean_of_samples, of_values
from ._transforms import _leaves_of


# What logs of callbacks and rows of metrics.jsonl have.
_LOGS = ("loss", "lr", "epoch", "epochs", "step", "steps", "total_step", "batch_loss", "samples_per_s", "best", "seconds", "split", "time", "nonfinite")


def _of_values(name):
    call = of_values(name, f"metrics: {name}", floats=True)
    call.__name__, call.higher_is_better, call.given = name, False, name
    return call


def named(metrics, what):
    """(functions by name, names of the library's metrics) of a list of both, without those that are always there."""
    if isinstance(metrics, (str, dict)) or callable(metrics):
        raise TypeError(f"{what}: metrics: expected a list of names and functions of (outputs, targets), got {metrics!r}")
    functions, names = {}, []
    for m in metrics or ():
        if not isinstance(m, str) and not callable(m):
            raise TypeError(f"{what}: metrics: expected a list of names and functions of (outputs, targets), got {m!r} in it")
        name = m if isinstance(m, str) else figure_of(m)
        if name in ("loss", "accuracy") and isinstance(m, str):
            continue
        if name in _LOGS:
            raise ValueError(f"{what}: metrics: a function has the name {name!r} of another figure: expected one of its own, by __name__")
        if name in functions or name in names:
            raise ValueError(f"{what}: metrics: expected a name for each, got {name!r} twice: functions have theirs by __name__")
        if isinstance(m, str) and name not in ("mse", "mae"):
            names.append(known_metric(f"{what}: metrics", name))
        else:
            functions[name] = _of_values(name) if isinstance(m, str) else m
    return functions, names


def arranged(callbacks, metric, metrics):
    """(metric, functions by name, names) of fit: a function of `metrics` by which the trainer is to compare evaluations is the metric."""
    functions, names = named(metrics, "fit")
    if callable(metric) and functions.get(figure_of(metric), metric) is not metric:
        raise ValueError(f"fit: metrics: expected a name for each, got {figure_of(metric)!r} twice: functions have theirs by __name__")
    if callable(metric):
        functions.pop(figure_of(metric), None)
    name = judge_among(callbacks, metric, functions)
    if name:
        if callable(metric):
            functions[figure_of(metric)] = metric
        elif metric not in (None, "auto", "loss", "accuracy"):
            names.append(metric)
        metric = functions.pop(name)
    return metric, functions, names


def compared(request, settings, metric, functions, names, *, judge, higher, own_loss, stoppings, directory):
    """The Figures of a run, which compares evaluations by fit's `metric`, or by what callbacks have asked for: judge, "own" for a function
    as the metric, and whether higher is better (judged_by). own_loss: whether the program has a loss function. The trainer computes
    the metrics of the library itself, but with functions as the loss or the accuracy has them from here, as it has functions.
    `stoppings`: what compares by itself; all names that nothing else computes are figures, too."""
    model, named = request["model"], known_metric("fit: metric", metric) if isinstance(metric, str) and metric != "auto" else None
    one_label = request["loss"] == "multilabel" and request["y"].shape[1] == 1  # of two classes, for metrics
    name, of_program = judge or named, "loss_function" in request or "metric_function" in request or one_label
    compares = ""
    if callable(metric) and judge in (None, "own"):
        compares, known = figure_of(metric), getattr(metric, "higher_is_better", True)
    elif name not in (None, "loss", "accuracy", "own") and of_program:
        compares, known, name = name, _core.higher_is_better(name), "own"
        names = [*names, *({compares} - set(names))]
    if compares:
        if "metric_function" in request:
            functions = {"accuracy": request.pop("accuracy_function"), **functions}
            del request["metric_function"]
            if own_loss and request["y"].dtype == xp.int32 and callable(metric):  # the trainer has no accuracy for tokens by a loss of the
                request["metric_function"] = _per_sample(_outputs.whole(model, metric))  # program: it expects a metric
        request |= {"metric_name": compares, "higher_is_better": known if higher is None else higher}
    if name:
        settings["metric"] = name
    if settings.get("metric") == "accuracy" == request.get("metric_name"):
        settings["metric"] = "own"
    if settings.get("early_stop", 0) > 0 and "metric" not in settings and "metric_function" in request and not callable(metric):
        settings["metric"] = "loss"  # the accuracy is a function here only because the library has none for these targets
    figures = Figures(model, functions, names, directory)
    figures.judge = compares
    for other in [named, *(s.name[4:] for s in stoppings)]:
        known = other in (None, "loss", "accuracy", settings.get("metric"), request.get("metric_name"), *functions, *figures.names)
        if not known and _core.higher_is_better(other) is not None:
            figures.names.append(other)
    return figures


def _checked(name, value, count):
    if not isinstance(value, _core.Array) or (value.ndim and value.shape[0] != count):
        got = f"an array of shape {value.shape}" if isinstance(value, _core.Array) else type(value).__name__
        raise ValueError(f"metrics: {name}: expected a number per sample, ({count},), or a number of all, got {got}")
    return value


def _number_of(name, value, count, weights):
    """The figure: what a function gave for all samples, or the mean of its numbers per sample, by the weights."""
    try:
        value = xp.asarray(value)
    except (TypeError, ValueError):
        pass
    value = mean_of_samples(xp.astype(_checked(name, value, count), xp.float64))
    if weights is None:
        return float(xp.mean(value))
    if not value.ndim:
        raise ValueError(f"metrics: {name}: with weights of samples expected a number per sample, ({count},), got a number of all")
    return float(xp.sum(value * weights) / xp.sum(weights))


class _Sums:
    """Sums over samples, and their number, as a state: a plan that is replayed adds to it."""

    def __init__(self, count):
        self._variable = _core.make_held(xp.zeros(count + 1), False).variable

    def add(self, sums, count):
        self._variable.assign(self._variable.value() + xp.stack([*sums, count]))

    def read(self):
        return self._variable.elements()

    def taken(self):
        """The sums so far, from which on they begin at 0."""
        found = self.read()
        self._variable.set(xp.zeros(found.shape))
        return found


def _means(found):
    *sums, count = found.tolist()
    return [s / count for s in sums] if count else None


class Figures:
    """The further figures of a run or an evaluation of `model`: `functions` of outputs and targets by their names, and `names` of
    metrics of the library. Those of an evaluation are of all its predictions; functions are traced for the batches of training, too,
    whose means are figures, unless they need values."""

    def __init__(self, model, functions, names=(), directory=""):
        self.model, self.functions, self.names, self.directory = model, functions, list(names), directory
        self.apart = None  # rows -> (targets, weights), where targets have weights
        self.only_traced = False  # whether the trainer alone has the samples, of which there are means over batches then
        self.unread = {}  # functions that were not traced, and why
        self.sums = {True: _Sums(len(functions)), False: _Sums(len(functions))}  # of training and of evaluation
        self.now, self.writer, self.judge = [{}, {}], None, ""
        self.of_predictions = dict  # gives the figures of an evaluation

    def asked_of(self, request):
        """Has the trainer compute them."""
        self.asked = dict(request)
        if self.functions:
            request["observe_function"] = self.observe
        if self.functions or self.names:
            request["evaluated_function"] = self.evaluated

    def take(self, predict, y, weights, what, loss):
        """Makes them figures of what `predict()` gives for samples with targets y, and weights or None."""
        classes, labels = y.dtype == xp.int64 and y.ndim == 1, are_labels(y, loss)
        if self.names and not classes and not labels and (y.dtype != xp.float32 or y.ndim > 2):
            raise ValueError(f"{what}: metrics: {self.names[0]} is for a class, labels or values per sample, got y {y.dtype}{list(y.shape)}: expected "
                             "a function")
        one = labels and y.size == y.shape[0]  # whether the sample is of the second of two classes
        targets = xp.reshape(xp.astype(y, xp.int64), (-1,)) if one else xp.astype(y, xp.uint8) if labels else y

        def need_outputs(shape):
            """Of a loss by its name the trainer has checked them already; a function may be of others."""
            count = math.prod(shape[1:])
            fits = len(shape) == 2 and count > 1 and (y.size == 0 or 0 <= int(xp.min(y)) <= int(xp.max(y)) < count) if classes else count == math.prod(y.shape[1:])
            if not fits:
                kind = "y with a class, of outputs (N, classes)," if classes else "y with a 0 or 1" if labels else "y with a value"
                each = " per sample" if classes else " for each output"
                raise ValueError(f"{what}: metrics: {self.names[0]}: expected {kind}{each}, got outputs (N, {', '.join(map(str, shape[1:]))}) and "
                                 f"y {y.dtype}{list(y.shape)}; or a function of (outputs, targets)")

        def scored(outputs):
            outputs, found = xp.reshape(outputs, (outputs.shape[0], -1)), {}
            if one:
                outputs = xp.concat([1 - outputs, outputs], axis=1)
            for name in self.names:
                try:
                    found[name] = _core.score(name, outputs, targets, classes or one, labels and not one)
                except ValueError as error:
                    _hints.keywords_for_flags(error)
                    raise
            return found

        def found():
            outputs = predict()
            given = xp.astype(y, xp.float32) if y.dtype == xp.uint8 and callable(loss) else y  # as the loss gets them
            figures = {name: _number_of(name, function(outputs, given), y.shape[0], weights) for name, function in self.functions.items()}
            if self.names:
                first = _leaves_of(outputs)[0]
                figures |= scored(_functions.softmax(first, axis=-1) if classes else scores_of(first, loss) if labels else first)
            return figures

        if self.names:  # one that is not for such targets is refused here
            shape = tuple(_core.output_shape(self.model._node(), self.asked))
            if callable(loss):
                need_outputs(shape)
            scored(xp.full((y.shape[0], math.prod(shape)), 1 / math.prod(shape)))
        self.of_predictions = found

    def observe(self, outputs, targets):
        """Adds the figures of a batch; the trainer calls it where it traces a step or an evaluation."""
        training = self.model._built().training
        if not training and not self.only_traced:
            return
        targets, weights = self.apart(targets) if self.apart else (targets, None)
        sums, count = [], xp.full((), float(outputs.shape[0]))
        if are_at_places(targets):
            count = xp.sum(xp.astype(targets >= 0, xp.float32))
        for name, function in self.functions.items():
            try:
                value = _outputs.whole(self.model, function)(outputs, targets)
                value = mean_of_samples(xp.astype(_checked(name, value, outputs.shape[0]), xp.float32))
                if weights is not None and hasattr(function, "of_loss"):  # a part of the loss, which has them, too
                    value = value * weights
                sums.append((xp.mean(value) if value.ndim else value) * count)
            except _outputs.NeedsValues as error:
                if self.only_traced or self.of_predictions is dict:
                    raise
                self.unread[name] = error
                sums.append(xp.zeros(()))
        self.sums[training].add(sums, count)

    def so_far(self):
        """The figures of training in the epoch so far, by name."""
        return self._of_training(self.sums[True].read()) if self.functions else {}

    def _of_training(self, found):
        return {name: value for name, value in zip(self.functions, _means(found) or ()) if name not in self.unread}

    def evaluated(self):
        """Computes the figures of an evaluation that has ended, and returns the one by which the trainer compares; all ranks call it."""
        if self.only_traced:
            found = self.sums[False].taken()
            if distributed._job() is not None:
                found = distributed.all_reduce(found)
            self.now[1] = dict(zip(self.functions, _means(found) or ()))
        else:
            names = [*self.functions, *self.names]
            values = self.of_predictions() if distributed.get_rank() == 0 else dict.fromkeys(names, 0.0)
            if distributed._job() is not None:
                values = dict(zip(names, distributed.broadcast(xp.asarray([values[name] for name in names], dtype=xp.float64)).tolist()))
            self.now[1] = values
        return self.now[1].get(self.judge)

    def gather(self):
        """Takes the sums of training over all ranks, each of which calls it."""
        if not self.functions:
            return
        found = self.sums[True].taken()
        if distributed._job() is not None:
            found = distributed.all_reduce(found)
        self.now[0] = self._of_training(found)

    def epoch(self, step, epoch):
        """(figures of training, figures of the validation data) of an epoch."""
        found, self.now = self.now, [{}, {}]
        if self.directory and any(found):
            self.writer = self.writer or _core.MetricsWriter(os.path.join(self.directory, "figures"))
            for split, figures in zip(("train", "val"), found):
                for name, value in figures.items():
                    self.writer.write(step, epoch, split, name, value)
        return found[0], {f"val_{name}": value for name, value in found[1].items()}

    def recalled(self, epoch_of):
        """Adds the figures of earlier epochs, from the files of the run, to these by number."""
        try:
            with open(os.path.join(self.directory, "figures", "metrics.jsonl")) as lines:
                rows = [json.loads(line) for line in lines]
        except (FileNotFoundError, NotADirectoryError):
            return
        known = [*self.functions, *self.names]
        for row in rows:
            figures = epoch_of.get(int(row["epoch"]))
            for name in known:
                if figures is not None and row.get(name) is not None:
                    figures[("val_" if row["split"] == "val" else "") + name] = row[name]
