"""A run of fit, phase by phase: the data and settings that a program gives become what the trainer is asked for, and the model what
the run has made it."""
import contextlib
import functools
import json
import os
import tempfile

from . import _array_api as xp
from . import (
    _core, _devices, _fit_figures, _fit_folder, _fit_settings, _functions, _hints, _lazy, _rows, _several, _several_targets, _stopping, _termination,
    distributed)
from ._callbacks import figure_of, judged_by, settings_of
from ._fit_data import (
    _are_shares, _as_floats, _Batches, _collected, _inputs, _is_loader, _kind_of_pixels, _need_as_many, _need_classes, _pair, _targets, _warn_of_targets, _with_weights, known_names)
from ._fit_losses import (
    OF_VALUES, _name_for_targets, _name_of, _request, _scaled, _weight_per_class, _weight_per_sample, _weighted, _weights, takes_classes)
from ._fit_reports import Sink
from ._module import Module
from ._optim import Optimizer, _shortest
from ._output_names import names_for
from ._transforms import run_of_trainer

_VALIDATION = "fit: validation_data"  # in errors


def _need_none(path, **others):
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"fit: {name}: expected none with the folder {path}, which has its own classes and splits (val_split=0.2)")


def _no_samples(model, input_shape):
    """An array without samples, of the shape that the model takes."""
    shape = input_shape or (model.__dict__.get("_task") or {}).get("input") or model.__dict__.get("_seen", (None,))[0]
    if shape is None:
        raise ValueError("fit: input_shape: expected the shape of a sample, such as (3, 224, 224), for a folder")
    return xp.zeros((0, *shape))


def _need_an_output_for_each(model, request, names):
    outputs = tuple(_core.output_shape(model._node(), request))[1:]
    if len(outputs) == 1 and outputs != (len(names),):
        raise ValueError(f"fit: y: expected as many classes as outputs, {outputs[0]}, got {len(names)}, {', '.join(names[:5])}: of more outputs assign "
                         f"{_name_of(model)}.classes, with a name for each in their order, before fit")


def _need_tokens(model, request):
    """Integers are tokens: a layer that takes numbers refuses their type."""
    try:
        _core.output_shape(model._node(), request)
    except ValueError as error:
        raise ValueError(f"fit: x: expected floats, got integers, which are tokens: use x.astype(\"float32\") for numbers: {error}") from error


def _of_two_shapes(model, request, x, vx):
    """Samples of x, and of the validation data in another shape, which the trainer takes as batches of floats or tokens alone."""
    shapes = f"fit: validation_data: samples have shape {vx.shape[1:]}, those of x {x.shape[1:]}"
    if vx.ndim != x.ndim or request["mean"]:
        raise ValueError(f"{shapes}: expected {'one shape, as channels are normalized' if request['mean'] else 'as many axes'}")
    x, vx = _as_floats(x), _as_floats(vx)
    request |= {"x": x, "dtype": x.dtype.name, "feeds": True}
    try:
        _core.output_shape(model._node(), {**request, "input": vx.shape[1:]})
    except ValueError as error:
        raise ValueError(f"{shapes}: {error}") from error
    return x, vx


_MOVES_PIXELS = ("flip", "crop_padding", "shift", "rand_augment")
_AUGMENTS = (*_MOVES_PIXELS, "color_jitter", "hue_jitter", "random_erase", "mixup_alpha", "cutmix_alpha")  # what the trainer does where it makes the batches
# What an optimizer of the program has itself.
_OF_OPTIMIZER = ("lr", "head_lr", "lr_layer_decay", "lr_scale", "momentum", "nesterov", "weight_decay", "clip_grad_norm", "decay_norm_bias")


def _own_optimizer(settings, model):
    """The optimizer that the program has made, which the run goes on with; the settings get its name and rate, for schedules the one
    that the program has set last."""
    own = settings["optimizer"]
    if not isinstance(own, Optimizer):
        raise TypeError(f"fit: optimizer: expected a name (\"adamw\"), with lr= beside it, or an optimizer of the module, optim.AdamW(net, lr=1e-3), "
                        f"got {own!r}")
    kind = type(own).__name__
    for name in _OF_OPTIMIZER:
        if name in settings:
            raise TypeError(f"fit: {name}: expected none beside optimizer={kind}(...), which has its own, got {settings[name]!r}")
    parts = {variable.identity for _, variable, _ in model._node().state()}
    if any(p._variable.identity not in parts for p in own._parameters):
        raise ValueError(f"fit: optimizer: expected parameters of this {_name_of(model)}, the {kind} has some of another module")
    scheduled = settings.get("lr_scheduler", "constant") != "constant" or settings.get("lr_warmup_epochs")
    settings.update(optimizer=kind.lower(), lr=_shortest(own._first_lr) if scheduled else own.lr)  # an earlier run has changed the latter
    return own._optimizer


def _split(x, y, sample_weight, share):
    """(x, y, sample_weight) of the first samples, and (x, y) of the last ones, whose share of all this is."""
    count = x.shape[0] - int(x.shape[0] * (1 - share)) if isinstance(share, (int, float)) and 0 < share < 1 else 0
    if not 0 < count < x.shape[0]:
        raise ValueError(f"fit: validation_split: expected a share between 0 and 1 of {x.shape[0]} samples that leaves some for both "
                         f"parts, got {share!r}")
    if sample_weight is not None:
        sample_weight = _weight_per_sample(sample_weight, x.shape[0])[:-count]
    return (x[:-count], y[:-count], sample_weight), (x[-count:], y[-count:])


def _notes_of(model, task, trace):
    """What the files of a run note of the model; `trace` calls its forward."""
    from . import _stored

    layout = _several.layout_of(_several.original(model))[1] if isinstance(model, _several.Joined) else None
    return _stored.noted({"inputs": layout, "outputs": _stored.names_in_results(model, trace),
                          "own_loss": "loss_function" in task or None, "class_type": task.get("class_type"),
                          "frozen": [name for name, p in model.named_parameters() if not p.requires_grad] or None})


def _need_no_evaluation(settings, metric, monitors):
    """Refuses a run that compares evaluations and has no validation data; the loss and the accuracy as the metric are shown in any case."""
    early = settings.get("early_stop", 0) > 0
    if settings.get("metric") in ("accuracy", "loss") and not monitors and not early:
        del settings["metric"]
    if early or "metric" in settings or monitors:
        what = "monitor" if monitors else f"metric {metric!r}" if "metric" in settings else "early stopping"
        raise ValueError(f"fit: {what} compares evaluations: expected validation_data, got none")


def _trained(model, request, sink, ranks, output_dir):
    """The result of the run, by as many forked ranks where they are more than 0."""
    settings = request["settings"]
    with contextlib.ExitStack() as stack:
        if not output_dir and (settings.get("early_stop", 0) > 0 or "metric" in settings):
            # The weights of the best epoch are kept in files.
            settings["output_dir"] = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "run")
        stack.callback(sink.progress.end)

        stack.enter_context(run_of_trainer())

        def train(heard):
            try:
                return _core.fit(model._node(), request, sink if heard else Sink(model, [], 0, sink.metric, figures=sink.figures, tells=False))
            except Exception as error:
                _hints.keywords_for_flags(error)
                raise

        result = _devices.run(ranks, output_dir, train) if ranks else train(True)
    if not output_dir:
        result["output_dir"] = result["model_path"] = ""
    return result


class Run:
    """What a call of fit gathers, in the order of its methods: samples, the trainer's request, validation data, labels, settings,
    weights, figures; then it trains. `metric`, `functions` by name and `names` are the figures (_fit_figures.arranged)."""

    def __init__(self, model, loss, metric, functions, names, shuffle):
        self.model, self.loss, self.metric, self.functions, self.names, self.shuffle = model, loss, metric, functions, names, shuffle
        self.loss_name = loss if isinstance(loss, str) else _name_for_targets(loss)  # as targets are read by it
        self.path = self.batches = self.classes = self.sample_weight = self.batch_size = self.optimizer = None
        self.tokens = False

    def take_samples(self, x, y, sample_weight, *, steps_per_epoch, input_shape, batch_size, validation_data, validation_split, resume):
        """Takes x and y: a folder, batches or arrays. Returns the validation data, which may be a part of them."""
        self.path, self.batch_size = _fit_folder.path_of(x), batch_size
        if y is None and not self.path and _is_loader(x):
            self.batches = _Batches(x, self.loss_name, steps_per_epoch)
        if steps_per_epoch is not None and not self.batches:
            raise ValueError(f"fit: steps_per_epoch is for iterables of batches: expected none for a path or arrays, got {steps_per_epoch!r}")
        if input_shape is not None and not self.path:
            raise ValueError("fit: input_shape is for images of a folder: expected none, as x has a shape")
        if self.path:
            _need_none(self.path, y=y, validation_data=validation_data, sample_weight=sample_weight)
            self._take_folder(input_shape)
        elif self.batches:
            self._take_batches({"sample_weight": sample_weight, "validation_split": validation_split or None}, resume)
        else:
            self._take_arrays(x, y)
        if not self.path:
            _need_as_many(self.x, self.y, "fit")
        if validation_split:
            if validation_data is not None or self.path:
                raise ValueError("fit: validation_split: expected arrays and no validation_data; for a folder use val_split")
            (self.x, self.y, sample_weight), validation_data = _split(self.x, self.y, sample_weight, validation_split)
        self.sample_weight = self.batches.weights if self.batches else sample_weight
        return validation_data

    def _take_folder(self, input_shape):
        if not self.shuffle:
            raise ValueError("fit: shuffle=False is for arrays and batches, which keep their order: expected True for a path")
        self.x, self.y = _no_samples(self.model, input_shape), xp.zeros((0,), dtype=xp.int64)

    def _take_batches(self, of_arrays, resume):
        for given, value in of_arrays.items():
            if value is not None:
                hint = "" if given == "validation_split" else ": batches (x, y, weights) have them"
                raise ValueError(f"fit: {given} is for arrays: the batches of x may differ each time{hint}")
        batches = self.batches
        if resume and batches.endless:
            raise ValueError("fit: resume: expected batches that start again, such as a DataLoader, got an iterator")
        if self.batch_size not in (None, batches.size):
            raise ValueError(f"fit: batch_size: expected {batches.size}, as the batches of x have it, or none, got {self.batch_size}")
        self.x, self.y, self.tokens, self.batch_size = batches.x, batches.y, batches.tokens, batches.size

    def _take_arrays(self, x, y):
        if y is None:
            x, y = _pair(x, "fit: y is missing and x")
        self.x, self.tokens = _inputs(x, "fit: x")
        names = names_for(self.model, self.x.shape[1:], self.x.dtype.name)
        self.y, self.classes = _targets(y, self.loss_name, known_names(y, names), "fit")
        _warn_of_targets(x, y, self.y, self.loss)
        if takes_classes(self.loss):
            _need_classes(self.y, "fit")

    def ask(self, validation_data):
        """Makes the trainer's request: the model, its data, and the loss and accuracy for such targets."""
        _lazy.settle(self.model, self.x)
        if not self.shuffle:  # batches in the order of arrays are floats or tokens
            self.x = _as_floats(self.x)
        shares = _are_shares(self.y, self.loss, "fit")
        weighted = self.sample_weight is not None or isinstance(validation_data, tuple) and len(validation_data) == 3
        self.request = request = _request(self.model, self.x, self.y, loss=self.loss, metric=self.metric, classes=self.classes, weighted=weighted)
        self.y = y = request["y"]
        if self.classes and y.dtype == xp.int64 and not callable(self.loss):
            _need_an_output_for_each(self.model, request, self.classes)
        feeds = (request.get("feeds") or self.tokens or (self.x.dtype == xp.float32 and y.dtype == xp.int32) or shares
                 or self.batches is not None or not self.shuffle or (callable(self.loss) and y.dtype == xp.uint8))
        request |= {"path": self.path, "feeds": feeds, "shuffle": self.shuffle, "batches": self.batches}

    def take_validation(self, data):
        """Takes (x, y), (x, y, weights), or batches of these; None for none."""
        self.validates = data is not None
        self.vx, self.vy, self.v_weights = self.x[:0], self.y[:0], None
        if data is None:
            return
        vx, vy, weights = _with_weights(_collected(data, _VALIDATION) if _is_loader(data) else data, _VALIDATION)
        vx, _ = _inputs(vx, _VALIDATION)
        vy, _ = _targets(vy, self.loss_name, self.classes, _VALIDATION)
        self.vy = xp.astype(vy, self.y.dtype) if vy.dtype == xp.uint8 else vy
        _need_as_many(vx, vy, _VALIDATION)
        if weights is not None:
            self.v_weights = _scaled(_weight_per_sample(weights, vx.shape[0], _VALIDATION), _VALIDATION)
        _are_shares(vy, self.loss, _VALIDATION)
        if takes_classes(self.loss):
            _need_classes(vy, _VALIDATION)
        self.vx = vx if self.shuffle else _as_floats(vx)
        if vx.shape[1:] != self.x.shape[1:]:
            self.x, self.vx = _of_two_shapes(self.model, self.request, self.x, self.vx)

    def take_labels(self):
        """Labels of batches, or for a loss function: the trainer has labels of arrays, and a loss of its own for them, alone."""
        request = self.request
        request |= {"vx": self.vx, "vy": self.vy}
        self.of_labels = request["feeds"] and self.y.dtype == xp.uint8
        if self.of_labels:
            request |= {"y": xp.astype(self.y, xp.float32), "vy": xp.astype(self.vy, xp.float32), "loss": "mse"}
            if "loss_function" not in request:
                request |= {"loss_function": _functions.bce_with_logits, "per_element": functools.partial(_functions.bce_with_logits, reduction="none")}
        elif self.batches:
            self.batches.of_labels = self.y.dtype

    def take_settings(self, settings, callbacks, output_dir):
        """Takes further keywords of fit, and those that callbacks stand for."""
        self.settings = settings = _fit_settings.checked("fit", settings)
        moved = [name for name in _MOVES_PIXELS if settings.get(name)]
        if moved and self.y.ndim > 2:
            raise ValueError(f"fit: {moved[0]}: moves the pixels of x and not those of y {self.y.dtype}{list(self.y.shape)}: expected none, or a "
                             "DataLoader that changes both alike")
        if not isinstance(settings.get("optimizer", ""), str):
            self.optimizer = settings["optimizer"]
            self.request["optimizer"] = _own_optimizer(settings, self.model)
        self.judge, self.higher, self.apart = judged_by(callbacks, self.metric, self.functions, output_dir)
        of_callbacks, output_dir = settings_of(callbacks, output_dir, [c for c, _, _ in self.apart])
        settings |= of_callbacks
        self.output_dir = os.fspath(output_dir)
        self.comparing = [_stopping.of(*one, self.output_dir) for one in self.apart]
        if self.comparing and settings.get("model_ema", 0) > 0:
            raise ValueError(f"fit: model_ema: expected one figure for EarlyStopping and Checkpoint beside it, got {self.comparing[0].name} and another")
        if self.path and any(isinstance(c, _stopping.Keeping) for c in self.comparing):
            raise ValueError(f"fit: callbacks: expected one Checkpoint with a monitor for the folder {self.path}")
        if callable(self.metric):
            self.functions = {figure_of(self.metric): self.metric, **self.functions}

    def weigh(self, class_weight):
        """Weights of samples and classes: factors of the losses, in rows beside the targets, or by class as the trainer has them."""
        request, settings, y = self.request, self.settings, self.y
        self.named_loss, self.rows_apart = request["loss"], None
        if request.get("of_places") and request["loss"] == "cross_entropy":
            request["of_places"].smoothing = settings.pop("label_smoothing", 0.0)
        in_rows = self.sample_weight is not None or self.v_weights is not None or (
            class_weight is not None and (request["feeds"] or "metric_function" in request or settings.get("sync_batch_norm")))
        outputs, classes = (), self.classes
        if (in_rows or class_weight is not None) and y.dtype == xp.int64 and not self.path:
            outputs = tuple(_core.output_shape(self.model._node(), request))
            classes = classes or [str(c) for c in range(outputs[-1])]
        if in_rows:
            self._weigh_rows(class_weight, classes, outputs)
        elif class_weight is not None:
            by_class = class_weight if isinstance(class_weight, str) or not classes else _weight_per_class(class_weight, classes)
            settings["class_weight"] = by_class if isinstance(by_class, str) else json.dumps({str(k): float(v) for k, v in by_class.items()})
        if request["feeds"]:
            request["x"], request["vx"] = _as_floats(request["x"]), _as_floats(self.vx)

    def _weigh_rows(self, class_weight, classes, outputs):
        request, settings = self.request, self.settings
        whole = (bool(self.functions) or self.v_weights is not None or "metric_function" in request or self.batches is not None
                 or settings.get("label_smoothing", 0) > 0)  # the trainer's smoothing would not be weighted
        smoothing = settings.pop("label_smoothing", 0.0) if whole and "loss_function" not in request else 0.0
        weights = _weights(self.sample_weight, class_weight, self.y, classes, "fit: batch 0 of x" if self.batches else "")
        if self.batches:
            self.batches.weighted = lambda y, w, what: _rows.of((y, _weights(w, class_weight, y, classes, what)), what, pixels=False)[0]
        self.rows_apart = _weighted(request, weights, outputs, of_validation=self.v_weights, whole=whole, smoothing=smoothing)

    def compare(self, predict):
        """What is reported of evaluations, and by what they are compared; predict(x) gives predictions for the validation data."""
        request, settings = self.request, self.settings
        self.figures = figures = _fit_figures.compared(
            request, settings, self.metric, self.functions, self.names, judge=self.judge, higher=self.higher, own_loss=callable(self.loss),
            stoppings=self.comparing, directory=self.output_dir)
        if self.rows_apart is not None and "metric_function" not in request and request["loss"] not in OF_VALUES:
            request["loss"] = "mse"  # what compares evaluations is computed here, and the trainer takes rows of values
        figures.apart, figures.only_traced = self.rows_apart, bool(self.path)
        figures.asked_of(request)
        several = _several_targets.is_of_several(self.loss)
        if figures.names and (self.path or several or self.v_weights is not None or not self.validates):
            raise ValueError(f"fit: metrics: {figures.names[0]} compares all predictions with classes, labels or values: expected arrays as "
                             "validation_data, without weights, and one target; or a function")
        if self.validates:
            figures.take(lambda: predict(self.vx), self.vy, self.v_weights, "fit", self.loss)
        elif not self.path:
            _need_no_evaluation(settings, self.metric, self.judge or self.comparing)

    def settle(self, common, resume):
        """Completes the trainer's settings by those `common` to all runs."""
        request, settings = self.request, self.settings
        if isinstance(settings.get("lr"), (int, float)) and settings["lr"] < 0:  # the command's default is -1
            raise ValueError(f"fit: lr: expected a rate that is not negative, got {settings['lr']}")
        if not any(p.requires_grad for p in self.model.parameters()):
            raise ValueError(f"fit: {_name_of(self.model)} has no parameters to train: a list of modules must be an nn.ModuleList, and "
                             "requires_grad_(True) ends what requires_grad_(False) has frozen")
        if request["loss"] == "multilabel" and "loss_function" not in request:
            settings["task"] = "multilabel"
        augments = next((name for name in _AUGMENTS if settings.get(name)), None)
        if augments and request["feeds"]:
            beside = ("batches of an iterable" if self.batches else "shuffle=False" if not self.shuffle else
                      "weights of samples" if self.sample_weight is not None or self.v_weights is not None else f"y {self.y.dtype}{list(self.y.shape)} and this loss")
            raise ValueError(f"fit: {augments}: expected none beside {beside}, of which fit makes no augmented samples: a DataLoader can")
        self.resumed = self.output_dir if resume else None
        if resume:
            if not self.output_dir:
                raise ValueError("fit: resume: expected an output_dir, where the run keeps its checkpoints, got none")
            settings["resume"] = "auto" if resume is True else os.fspath(resume)
            common["epochs"] = _stopping.epochs_left(common["epochs"], self.apart, self.output_dir, self.figures)
        request["settings"] = {**common, "batch_size": 64 if self.batch_size is None else self.batch_size, "output_dir": self.output_dir, **settings}

    def train(self, callbacks, verbose, ranks):
        """Trains, by as many forked ranks where they are more than 0, and returns the History."""
        model, output_dir, rank = self.model, self.output_dir, distributed.get_rank()  # those behind the first train alike, and say nothing
        given, settings = _several_targets.given(self.loss), self.request["settings"]
        divided = settings["grad_accum"] > 1 or settings.get("shards", 0) > 1 or ranks > 1 or distributed.get_world_size() > 1
        if divided and isinstance(given, Module) and getattr(given, "reduction", "") == "sum":
            raise ValueError(f"fit: loss: {type(given).__name__}(reduction=\"sum\") is for whole batches: expected \"mean\" beside grad_accum, shards and "
                             "devices, whose parts of a batch are averaged")
        figure = self.request.get("metric_name", self.settings.get("metric"))
        sink = Sink(model, [] if rank else [*callbacks, *self.comparing], 0 if rank else verbose,
                    None if figure in ("loss", "auto") else figure, figures=self.figures, resumed=self.resumed, tells=not rank)
        sink.optimizer = self.optimizer
        if self.optimizer is None:
            sink.frozen = {p._variable.identity for p in model.parameters() if not p.requires_grad}
        before = model.__dict__.get("_task")
        task = model.__dict__["_task"] = self._task(before)
        if not model.training:
            model.train()
        if output_dir:  # for freight.load of the models that the run writes
            self.request["notes"] = _notes_of(model, task, lambda: _core.output_shape(model._node(), self.request))

        def stopped():
            unfinished = sink.history.ended == "stopped" and output_dir and verbose and not rank
            return f"fit: stopped by SIGTERM, saved in {output_dir}: fit(..., resume=True) continues\n" if unfinished else ""

        with _termination.saved_first(output_dir or distributed.get_world_size() > 1, stopped), _fit_settings.flags_kept(model, "freeze" in self.settings):
            try:
                result = _trained(model, self.request, sink, ranks, output_dir)
            except (TypeError, ValueError):  # arguments that do not fit: the model is for what it was before
                if not sink.history.epoch:
                    del model.__dict__["_task"]
                    model.__dict__.update({} if before is None else {"_task": before})
                    if self.tokens:
                        _need_tokens(model, self.request)
                raise
            if self.path:  # the data says what the model is for
                task |= {k: result[k] for k in ("classes", "mean", "std", "images")}
            sink.recall()
            _stopping.settle(self.comparing, model, result)
            sink.end(result)
        return sink.history

    def _task(self, before):
        """What the model is for: its samples and classes, the loss and the figures, for evaluate, predict and files."""
        request, loss, y = self.request, self.loss, self.y
        names = names_for(self.model, request["input"], request["dtype"])
        task = {**{k: request[k] for k in ("input", "dtype", "classes", "mean", "std")}, "loss": self.named_loss}
        if request["classes"] and y.dtype == xp.int64:  # texts that y had
            task["class_type"] = "U"
        elif y.dtype == xp.int64 and y.ndim == 1 and not request["classes"]:
            task |= {"classes": names, **{k: before[k] for k in ("class_type",) if k in (before or ())}}
        images = (before or {}).get("images") or (None if self.path else _kind_of_pixels(self.x))
        if images:
            task["images"] = images
        if self.of_labels:
            task["loss"] = "multilabel"
        elif not callable(loss) and loss == "bce" and y.ndim > 2:
            task["loss"] = "bce"
        if callable(loss):
            task |= {"loss_function": _several_targets.given(loss), "loss_weights": getattr(loss, "weights", None)}
        further = [f for f in self.functions.values() if f not in (self.metric, request.get("accuracy_function")) and not hasattr(f, "of_loss")]
        task["metrics"] = [*map(_several_targets.given, further), *self.names]
        if callable(self.metric):
            task["metric"] = _several_targets.given(self.metric)
        elif "metric" in self.settings:
            task["metric"] = request["metric_name"] if self.settings["metric"] == "own" else self.settings["metric"]
        return task
