"""Training on arrays by the library's trainer: what fit, evaluate, predict, save and load of modules do."""
import contextlib
import functools
import json
import os
import tempfile
import warnings
import weakref

from . import _array_api as xp
from . import (
    _attributes, _core, _devices, _fit_figures, _fit_folder, _fit_settings, _functions, _hints, _lazy, _outputs, _rows, _several, _several_targets, _stopping, _termination,
    distributed)
from ._callbacks import Callback, checked, figure_of, judged_by, known_metric, settings_of
from ._containers import wrapped
from ._fit_data import (
    _are_shares, _as_floats, _Batches, _collected, _inputs, _is_loader, _kind_of_pixels, _need_as_many, _need_classes, _pair, _targets, _warn_of_targets, _with_weights, known_names)
from ._fit_losses import (
    OF_VALUES, _name_for_targets, _name_of, _one_metric, _request, _scaled, _weight_per_class, _weight_per_sample, _weighted, _weights, of_classes)
from ._fit_reports import Sink
from ._optim import Optimizer, _shortest
from ._transforms import _flatten, _leaves_of, _unflatten, autocast, jit, run_of_trainer

OF_PROGRAM = ("loss_function", "loss_weights", "metrics")  # of a task: what a file does not have
_COMPUTE = {"fp32": _core.float32, "tf32": _core.float32, "bf16": _core.bfloat16, "fp16": _core.float16}


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


def _names_of(model):
    """The names of outputs that the program has given, or an earlier fit has found."""
    names = (model.__dict__.get("_task") or {}).get("classes") or vars(_several.original(model)).get("classes")  # the latter in front of any fit
    return list(names) if isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names) else []


def _need_an_output_for_each(model, request, names):
    outputs = tuple(_core.output_shape(model._node(), request))[1:]
    if len(outputs) == 1 and outputs != (len(names),):
        raise ValueError(f"fit: y: expected as many classes as outputs, {outputs[0]}, got {len(names)}, {', '.join(names[:5])}: of more outputs assign "
                         f"{_name_of(model)}.classes, with a name for each in their order, before fit")


def _names_for(model, shape, dtype, names=None):
    """These names of outputs, or the module's, while it has as many for such samples."""
    names = _names_of(model) if names is None else names
    if not names or model._is_unmade():
        return names
    request = {"name": "model", "input": shape, "dtype": "float32" if dtype == "uint8" else dtype, "loss": "mse"}
    try:
        outputs = tuple(_core.output_shape(model._node(), request))[1:]
    except (TypeError, ValueError, RuntimeError):  # forward needs values, or other samples
        return names
    return names if len(outputs) != 1 or outputs == (len(names),) else []


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


def _warn_of_precision(precision, device, what):
    """Says where a device computes in another type than it is asked for."""
    note = _core.precision_note(precision, device) if isinstance(precision, str) and precision in _COMPUTE else ""
    if note and not distributed.get_rank():
        warnings.warn(f"{what}: precision: {note}", stacklevel=6)


_MOVES_PIXELS = ("flip", "crop_padding", "shift", "rand_augment")
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


@_several.accepted_with_targets
@_outputs.kept
def fit(model, x, y=None, *, validation_data=None, epochs=1, batch_size=None, sample_weight=None, class_weight=None, loss="auto",
        metric="auto", metrics=(), callbacks=(), device="auto", precision="fp32", grad_accum=1, seed=0, resume=None, output_dir="",
        verbose=1, devices=None, steps_per_epoch=None, input_shape=None, validation_split=0.0, shuffle=True, **settings):
    """See Module.fit."""
    if class_weight is not None and not isinstance(class_weight, (str, dict)):
        raise TypeError(f"fit: class_weight: expected \"balanced\", a file of weights or a dict of them by class, got {class_weight!r}")
    callbacks = [checked(c) for c in ([callbacks] if isinstance(callbacks, Callback) else callbacks)]
    metric, functions, names = _fit_figures.arranged(callbacks, _one_metric(metric, "fit"), metrics)
    name = loss if isinstance(loss, str) else _name_for_targets(loss)
    ranks = _devices.count_of(devices, device, model)
    device = distributed._device("cpu" if ranks else device)
    path = _fit_folder.path_of(x)
    batches = _Batches(x, name, steps_per_epoch) if y is None and not path and _is_loader(x) else None
    if steps_per_epoch is not None and not batches:
        raise ValueError(f"fit: steps_per_epoch is for iterables of batches: expected none for a path or arrays, got {steps_per_epoch!r}")
    if input_shape is not None and not path:
        raise ValueError("fit: input_shape is for images of a folder: expected none, as x has a shape")
    if path:
        _need_none(path, y=y, validation_data=validation_data, sample_weight=sample_weight)
        if not shuffle:
            raise ValueError("fit: shuffle=False is for arrays and batches, which keep their order: expected True for a path")
        x, y, tokens, classes = _no_samples(model, input_shape), xp.zeros((0,), dtype=xp.int64), False, None
    elif batches:
        for given, value in {"sample_weight": sample_weight, "validation_split": validation_split or None}.items():
            if value is not None:
                hint = "" if value is validation_split else ": batches (x, y, weights) have them"
                raise ValueError(f"fit: {given} is for arrays: the batches of x may differ each time{hint}")
        if resume and batches.endless:
            raise ValueError("fit: resume: expected batches that start again, such as a DataLoader, got an iterator")
        if batch_size not in (None, batches.size):
            raise ValueError(f"fit: batch_size: expected {batches.size}, as the batches of x have it, or none, got {batch_size}")
        x, y, tokens, classes, batch_size = batches.x, batches.y, batches.tokens, None, batches.size
    else:
        if y is None:
            x, y = _pair(x, "fit: y is missing and x")
        given = x, y
        x, tokens = _inputs(x, "fit: x")
        y, classes = _targets(y, name, known_names(y, _names_for(model, x.shape[1:], x.dtype.name)), "fit")
        _warn_of_targets(*given, y, loss)
        if not callable(loss) or of_classes(loss):
            _need_classes(y, "fit")
    if not path:
        _need_as_many(x, y, "fit")
    if validation_split:
        if validation_data is not None or path:
            raise ValueError("fit: validation_split: expected arrays and no validation_data; for a folder use val_split")
        (x, y, sample_weight), validation_data = _split(x, y, sample_weight, validation_split)
    _lazy.settle(model, x)
    if not shuffle:  # batches in the order of arrays are floats or tokens
        x = _as_floats(x)
    soft = _are_shares(y, loss, "fit")
    weighted = sample_weight is not None or bool(batches and batches.weights is not None) or isinstance(validation_data, tuple) and len(validation_data) == 3
    request = _request(model, x, y, loss=loss, metric=metric, classes=classes, weighted=weighted)
    y = request["y"]
    if classes and y.dtype == xp.int64 and not callable(loss):
        _need_an_output_for_each(model, request, classes)
    request["path"] = path
    request["feeds"] = request.get("feeds") or tokens or (x.dtype == xp.float32 and y.dtype == xp.int32) or soft or batches is not None or not shuffle or (
        callable(loss) and y.dtype == xp.uint8)
    request["shuffle"] = bool(shuffle)
    request["batches"] = batches
    if validation_data is not None:
        if _is_loader(validation_data):
            validation_data = _collected(validation_data, "fit: validation_data")
        vx, vy, vw = _with_weights(validation_data, "fit: validation_data")
        vx, _ = _inputs(vx, "fit: validation_data")
        vy, _ = _targets(vy, name, classes, "fit: validation_data")
        vy = xp.astype(vy, y.dtype) if vy.dtype == xp.uint8 else vy
        _need_as_many(vx, vy, "fit: validation_data")
        vw = None if vw is None else _scaled(_weight_per_sample(vw, vx.shape[0], "fit: validation_data"), "fit: validation_data")
        _are_shares(vy, loss, "fit: validation_data")
        if not callable(loss) or of_classes(loss):
            _need_classes(vy, "fit: validation_data")
        if not shuffle:
            vx = _as_floats(vx)
        if vx.shape[1:] != x.shape[1:]:
            x, vx = _of_two_shapes(model, request, x, vx)
    else:
        vx, vy, vw = x[:0], y[:0], None
    request |= {"vx": vx, "vy": vy}
    labels = request["feeds"] and y.dtype == xp.uint8
    if batches and not labels:
        batches.of_labels = y.dtype
    if labels:  # of batches or of a loss function: the trainer has labels of arrays, and a loss of its own for them, alone
        request |= {"y": xp.astype(y, xp.float32), "vy": xp.astype(vy, xp.float32), "loss": "mse"}
        if "loss_function" not in request:
            request |= {"loss_function": _functions.bce_with_logits, "per_element": functools.partial(_functions.bce_with_logits, reduction="none")}
    settings = _fit_settings.checked("fit", settings)
    moved = [name for name in _MOVES_PIXELS if settings.get(name)]
    if moved and y.ndim > 2:
        raise ValueError(f"fit: {moved[0]}: moves the pixels of x and not those of y {y.dtype}{list(y.shape)}: expected none, or a DataLoader that "
                         "changes both alike")
    if not isinstance(settings.get("optimizer", ""), str):
        of_program = settings["optimizer"]
        request["optimizer"] = _own_optimizer(settings, model)
    judge, higher, apart = judged_by(callbacks, metric, functions, output_dir)
    of_callbacks, output_dir = settings_of(callbacks, output_dir, [c for c, _, _ in apart])
    settings |= of_callbacks
    comparing = [_stopping.of(*one, os.fspath(output_dir)) for one in apart]
    if comparing and settings.get("model_ema", 0) > 0:
        raise ValueError(f"fit: model_ema: expected one figure for EarlyStopping and Checkpoint beside it, got {comparing[0].name} and another")
    if path and any(isinstance(c, _stopping.Keeping) for c in comparing):
        raise ValueError(f"fit: callbacks: expected one Checkpoint with a monitor for the folder {path}")
    if callable(metric):
        functions = {figure_of(metric): metric, **functions}
    outputs, named_loss, apart_of_rows = (), request["loss"], None
    if request.get("of_places") and request["loss"] == "cross_entropy":
        request["of_places"].smoothing = settings.pop("label_smoothing", 0.0)
    sample_weight = batches.weights if batches else sample_weight
    in_rows = sample_weight is not None or vw is not None or (
        class_weight is not None and (request["feeds"] or "metric_function" in request or settings.get("sync_batch_norm")))
    if (in_rows or class_weight is not None) and y.dtype == xp.int64 and not path:
        outputs = tuple(_core.output_shape(model._node(), request))
        classes = classes or [str(c) for c in range(outputs[-1])]
    if in_rows:
        whole = (bool(functions) or vw is not None or "metric_function" in request or batches is not None
                 or settings.get("label_smoothing", 0) > 0)  # the trainer's smoothing would not be weighted
        smoothing = settings.pop("label_smoothing", 0.0) if whole and "loss_function" not in request else 0.0
        weights = _weights(sample_weight, class_weight, y, classes, "fit: batch 0 of x" if batches else "")
        if batches:
            batches.weighted = lambda y, w, what: _rows.of((y, _weights(w, class_weight, y, classes, what)), what, pixels=False)[0]
        apart_of_rows = _weighted(request, weights, outputs, of_validation=vw, whole=whole, smoothing=smoothing)
    elif class_weight is not None:
        by_class = class_weight if isinstance(class_weight, str) or not classes else _weight_per_class(class_weight, classes)
        settings["class_weight"] = by_class if isinstance(by_class, str) else json.dumps({str(k): float(v) for k, v in by_class.items()})
    if request["feeds"]:
        request["x"], request["vx"] = _as_floats(request["x"]), _as_floats(vx)
    figures = _fit_figures.compared(request, settings, metric, functions, names, judge=judge, higher=higher, own_loss=callable(loss),
                                    stoppings=comparing, directory=os.fspath(output_dir))
    if apart_of_rows is not None and "metric_function" not in request and request["loss"] not in OF_VALUES:
        request["loss"] = "mse"  # what compares evaluations is computed here, and the trainer takes rows of values
    figures.apart, figures.only_traced = apart_of_rows, bool(path)
    figures.asked_of(request)
    if figures.names and (path or _several_targets.is_of_several(loss) or vw is not None or validation_data is None):
        raise ValueError(f"fit: metrics: {figures.names[0]} compares all predictions with classes, labels or values: expected arrays as validation_data, "
                         "without weights, and one target; or a function")
    if validation_data is not None:
        figures.take(lambda: predict(model, vx, device=device, precision=precision), vy, vw, "fit", loss)
    elif not path:
        _need_no_evaluation(settings, metric, judge or comparing)
    if isinstance(settings.get("lr"), (int, float)) and settings["lr"] < 0:  # the command's default is -1
        raise ValueError(f"fit: lr: expected a rate that is not negative, got {settings['lr']}")
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"fit: {_name_of(model)} has no parameters to train: a list of modules must be an nn.ModuleList, and "
                         "requires_grad_(True) ends what requires_grad_(False) has frozen")
    if request["loss"] == "multilabel" and "loss_function" not in request:
        settings["task"] = "multilabel"
    if resume:
        if not output_dir:
            raise ValueError("fit: resume: expected an output_dir, where the run keeps its checkpoints, got none")
        settings["resume"] = "auto" if resume is True else os.fspath(resume)
        epochs = _stopping.epochs_left(epochs, apart, os.fspath(output_dir), figures)
    request["settings"] = {"epochs": epochs, "batch_size": 64 if batch_size is None else batch_size, "device": device,
                           "precision": precision, "grad_accum": grad_accum, "seed": seed, "output_dir": os.fspath(output_dir), **settings}
    _warn_of_precision(precision, device, "fit")
    rank = distributed.get_rank()  # the other ranks train alike, and say nothing
    figure = request.get("metric_name", settings.get("metric"))
    figure = None if figure in ("loss", "auto") else figure
    sink = Sink(model, [] if rank else [*callbacks, *comparing], 0 if rank else verbose, figure, figures=figures,
                 resumed=os.fspath(output_dir) if resume else None, tells=not rank)
    if "optimizer" in request:
        sink.optimizer = of_program
    else:
        sink.frozen = {p._variable.identity for p in model.parameters() if not p.requires_grad}
    before, names_before = model.__dict__.get("_task"), _names_for(model, request["input"], request["dtype"])
    model.__dict__["_task"] = {**{k: request[k] for k in ("input", "dtype", "classes", "mean", "std")}, "loss": named_loss}
    if request["classes"] and y.dtype == xp.int64:  # texts that y had
        model.__dict__["_task"]["class_type"] = "U"
    elif y.dtype == xp.int64 and y.ndim == 1 and not request["classes"]:
        model.__dict__["_task"] |= {"classes": names_before, **{k: before[k] for k in ("class_type",) if k in (before or ())}}
    images = (before or {}).get("images") or (None if path else _kind_of_pixels(x))
    if images:
        model.__dict__["_task"]["images"] = images
    if labels:
        model.__dict__["_task"]["loss"] = "multilabel"
    elif not callable(loss) and loss == "bce" and y.ndim > 2:
        model.__dict__["_task"]["loss"] = "bce"
    if callable(loss):
        model.__dict__["_task"] |= {"loss_function": _several_targets.given(loss), "loss_weights": getattr(loss, "weights", None)}
    model.__dict__["_task"]["metrics"] = [*(_several_targets.given(f) for f in functions.values()
                                               if f not in (metric, request.get("accuracy_function")) and not hasattr(f, "of_loss")), *names]
    if callable(metric) or "metric" in settings:
        model.__dict__["_task"]["metric"] = _several_targets.given(metric) if callable(metric) else (
            request["metric_name"] if settings["metric"] == "own" else settings["metric"])
    if not model.training:
        model.train()

    if output_dir:  # for freight.load of the models that the run writes
        request["notes"] = _notes_of(model, model.__dict__["_task"], lambda: _core.output_shape(model._node(), request))

    def stopped():
        unfinished = sink.history.ended == "stopped" and output_dir and verbose and not rank
        return f"fit: stopped by SIGTERM, saved in {output_dir}: fit(..., resume=True) continues\n" if unfinished else ""

    with _termination.saved_first(output_dir or distributed.get_world_size() > 1, stopped), _fit_settings.flags_kept(model, "freeze" in settings):
        try:
            result = _trained(model, request, sink, ranks, output_dir)
        except (TypeError, ValueError):  # arguments that do not fit: the model is for what it was before
            if not sink.history.epoch:
                del model.__dict__["_task"]
                model.__dict__.update({} if before is None else {"_task": before})
                if tokens:
                    _need_tokens(model, request)
            raise
        if path:  # the data says what the model is for
            model.__dict__["_task"] |= {k: result[k] for k in ("classes", "mean", "std", "images")}
        sink.recall()
        _stopping.settle(comparing, model, result)
        sink.end(result)
    return sink.history


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


@_several.accepted_with_targets
@_outputs.kept
def evaluate(model, x, y=None, *, batch_size=256, sample_weight=None, loss=None, metric=None, metrics=None, device="auto", precision="fp32"):
    """See Module.evaluate."""
    if y is None and (path := _fit_folder.path_of(x)):
        if sample_weight is not None or metrics:
            raise ValueError("evaluate: sample_weight and metrics are for arrays: expected none with a folder")
        return _fit_folder.evaluated(model, path, batch_size=batch_size, loss=loss, metric=metric, device=device, precision=precision)
    if y is None:
        x, y, w = _collected(x, "evaluate") if _is_loader(x) else (*_pair(x, "evaluate: y is missing and x"), None)
        sample_weight = w if sample_weight is None else sample_weight
    task = model.__dict__.get("_task") or {}
    if loss is None and task.get("own_loss"):
        raise ValueError("evaluate: loss: the model was trained with a loss function of its program, which its file does not have: expected it as loss=")
    loss = task.get("loss", "auto") if loss is None else loss  # accepted_with_targets gives functions and the figures of fit
    metric = _one_metric(metric, "evaluate")
    functions, names = _fit_figures.named(metrics, "evaluate")
    if callable(metric):
        functions = {figure_of(metric): metric, **functions}
    x, tokens = _inputs(x, "evaluate: x")
    y, classes = _targets(y, loss if isinstance(loss, str) else _name_for_targets(loss), task.get("classes"), "evaluate")
    _need_as_many(x, y, "evaluate")
    _lazy.settle(model, x)
    soft = _are_shares(y, loss, "evaluate")
    if not callable(loss) or of_classes(loss):
        _need_classes(y, "evaluate")
    request = _request(model, x, y, loss=loss, metric=metric, classes=classes, weighted=sample_weight is not None)
    y = request["y"]
    request["feeds"] = request.get("feeds") or tokens or soft or y.dtype == xp.int32
    if callable(loss) and y.dtype == xp.uint8:
        request |= {"y": xp.astype(y, xp.float32), "loss": "mse", "feeds": True}
    if isinstance(metric, str) and metric not in ("auto", "loss", "accuracy", "own"):
        names = list(dict.fromkeys([known_metric("evaluate: metric", metric), *names]))
    if names and (_several_targets.is_of_several(loss) or sample_weight is not None):
        others = "sample_weight" if sample_weight is not None else "several targets"
        raise ValueError(f"evaluate: metrics: {names[0]} compares all predictions without weights, got {others} beside it: expected a function of "
                         "(outputs, targets) that returns a number per sample")
    figures, weights = _fit_figures.Figures(model, functions, names), None
    figures.asked = dict(request)
    if sample_weight is not None:
        weights = _scaled(_weight_per_sample(sample_weight, x.shape[0], "evaluate: sample_weight"), "evaluate: sample_weight")
        outputs = tuple(_core.output_shape(model._node(), request))
        _weighted(request, weights, outputs, of_validation=weights, what="evaluate")
    if request["feeds"] and x.dtype == xp.uint8:
        request["x"] = _as_floats(x)
    figures.take(lambda: predict(model, x, batch_size=batch_size, device=device, precision=precision), y, weights, "evaluate", loss)
    _warn_of_precision(precision, device, "evaluate")
    found = _core.evaluate(model._node(), request, batch_size, device, precision)
    return {request["metric_name"] if name == "metric" else name: value for name, value in found.items()} | (figures.of_predictions() if functions or names else {})


@_several.accepted
def predict(model, x, *, batch_size=256, device="auto", precision="fp32"):
    """See Module.predict."""
    if path := _fit_folder.path_of(x):
        return _fit_folder.predicted(model, path, batch_size=batch_size, device=device, precision=precision)
    x, _ = _inputs(x, "predict: x")
    if x.shape[0] == 0:  # the shape of what one sample would give
        found = predict(model, xp.zeros((1, *x.shape[1:]), dtype=x.dtype), batch_size=batch_size, device=device, precision=precision)
        return _unflatten(_flatten(found, []), iter([y[:0] for y in _leaves_of(found)]))
    task = model.__dict__.get("_task") or {}
    if type(batch_size) is not int or batch_size < 1:
        raise ValueError(f"predict: batch_size: expected a whole number of at least 1, got {batch_size!r}")
    _lazy.settle(model, x)
    if precision not in _COMPUTE:
        raise ValueError(f"predict: precision: expected one of {', '.join(_COMPUTE)}, got {precision!r}")
    identity, kept, attributes = model.__dict__.get("_compiled", (0, {}, None))
    if identity != model._node().identity or attributes.is_stale():  # a part was replaced, or what forward reads
        identity, kept, attributes = model._node().identity, {}, None
    if device not in kept:
        weak = weakref.ref(model)  # the compiled function must not keep its own module
        kept[device] = jit(lambda x: weak()(x), device="" if device == "auto" else device)
    modes = [(m._built(), m._built().training) for m in model.modules()]
    model.eval()
    try:
        with autocast(_COMPUTE[precision]):
            results = [kept[device](_prepared(x[i:i + batch_size], task)) for i in range(0, x.shape[0], batch_size)]
    except ValueError as error:
        if not task or tuple(task["input"]) == x.shape[1:]:
            raise
        one = "; of one sample: x[None]" if tuple(task["input"]) == x.shape else ""
        raise ValueError(f"predict: forward takes no samples of shape {x.shape[1:]}, fit had {tuple(task['input'])}{one}: {error}") from error
    finally:
        for node, training in modes:  # outer ones first
            node.training = training
    if attributes is None or attributes.is_stale():  # a trace may have set some
        attributes = _attributes.Read([model])
    model.__dict__["_compiled"] = identity, kept, attributes
    arrays = [_leaves_of(r) for r in results]
    joined = [_joined(parts, x.shape[0]) for parts in zip(*arrays)]
    return _unflatten(_flatten(results[0], []), iter(joined))


def _prepared(x, task):
    """Inputs as training has them: pixels from 0 to 1, channels normalized."""
    mean, std = task.get("mean", []), task.get("std", [])
    if x.dtype != xp.uint8 and not mean:
        return x
    unit = 255.0 if x.dtype == xp.uint8 else 1.0
    x = xp.astype(x, xp.float32)
    if not mean:
        return x / unit
    channels = (len(mean),) + (1,) * (x.ndim - 2)
    return x * xp.reshape(xp.asarray([1 / (unit * s) for s in std]), channels) - xp.reshape(
        xp.asarray([m / s for m, s in zip(mean, std)]), channels)


def _joined(parts, count):
    y = xp.concat(list(parts), axis=0) if all(p.ndim for p in parts) else None
    if y is None or y.shape[0] != count:
        raise ValueError(f"predict: forward must return a row for each of {count} samples, got {parts[0].shape}")
    return y


def save(model, path, *, input_shape=None, loss=None):
    """See Module.save."""
    if not isinstance(loss, (str, type(None))):
        raise TypeError(f"save: loss: expected the name of a loss, such as \"mse\", which says what the outputs are, got {loss!r}: files have no functions")
    for shape in _several.shapes_to_save(model, input_shape):
        fault, untrained, text = _saved_by(model, path, shape, loss)
        if not fault:
            break
    if fault and text is None:
        warnings.warn(f"save: the file has the weights alone, for load_weights: {fault}", stacklevel=3)
    elif fault:
        warnings.warn(f"save: the file is for freight.load, the command cannot use it: {fault}", stacklevel=3)
    elif untrained and text is None:
        warnings.warn(f"save: freight.load and the command can use the file, but not train it: {untrained}", stacklevel=3)
    return not fault or text is not None


def _saved_by(model, path, input_shape, loss):
    """What _saved returns, of what is known of the samples and the task."""
    whole, layout = _several.layout_of(model) if "_task" not in model.__dict__ else (None, None)
    task = {"loss": "cross_entropy", "classes": [], "mean": [], "std": [], **((whole or model).__dict__.get("_task") or {})}
    if whole is not None and input_shape is None:  # its inputs are rows there
        model, task["input"], task["dtype"], task["layout"] = whole, (_rows.width(layout),), "float32", layout
    elif input_shape is not None:
        task["input"] = tuple(input_shape)
    elif "input" not in task:
        if "_seen" not in model.__dict__:
            raise ValueError("save: expected input_shape, the shape of one sample: the model has seen none so far")
        task["input"], task["dtype"] = model.__dict__["_seen"]
    if loss is not None:
        task["loss"] = loss
    task["classes"] = task["classes"] or _names_of(model)
    seen = task.get("dtype") or model.__dict__.get("_seen", (None, None))[1]
    task["dtype"] = "int32" if seen == "int64" else seen or "float32"
    if task["classes"] and seen:
        names = _names_for(model, task["input"], task["dtype"], task["classes"])
        if not names and task["loss"] not in ("mse", "mae", "huber"):
            warnings.warn(f"save: the file has no names of classes: there are {len(task['classes'])}, and another number of outputs", stacklevel=4)
            task["classes"] = model.__dict__.setdefault("_task", task)["classes"] = []
    try:
        fault, untrained, text = _saved(model, path, task)
    except ValueError:
        if seen:
            raise
        fault = untrained = text = None
    if not seen and fault != "":  # where no sample was seen, floats are more likely than tokens
        found = _saved(model, path, task | {"dtype": "int32"})
        if fault is None or not found[0]:
            return found
        _saved(model, path, task)
    return fault, untrained, text


def _saved(model, path, task):
    """Writes the file; returns why it has the weights alone, why it cannot be trained, and the module as a text or None."""
    from . import _stored

    _lazy.settle(model, xp.zeros((0, *task["input"]), dtype=task["dtype"]))
    text = _stored.described(model, {k: v for k, v in task.items() if k not in OF_PROGRAM and not callable(v)})
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    notes = {"inputs": task.get("layout"), "own_loss": "loss_function" in task or None, "frozen": frozen or None,
             **{k: task.get(k) for k in ("estimator", "class_type")}}
    request = {"name": _name_of(model), **task, "loss_function": None, "module": text}

    def write(notes):
        return _core.save_model(model._node(), os.fspath(path), request | {"notes": _stored.noted(notes)})

    with run_of_trainer():
        fault, untrained = write(notes) if text else _stored.saved_with_names(model, notes, write)
    return _hints.raised_at(fault), _hints.raised_at(untrained), text


def load(path):
    """A module from a model that `save`, fit or the command has stored, without its class and without torch: a network made of the
    library's layers, of those of this package, or traced by from_torch; of other classes an nn.GraphModule."""
    from . import _stored

    path = os.fspath(path)
    module = _stored.load(path)
    if module is not None:
        return module
    try:
        return _stored.with_notes(described(*_core.load_model(path)).eval(), path)
    except RuntimeError as error:
        if "not a Freight model" not in str(error):
            raise
        raise RuntimeError(f"{path}: has weights alone, or is no model of Freight: make the module, and call "
                           "module.load_weights(path)") from error


def described(node, task):
    """The module of a network of the library, which is for this task."""
    model = wrapped(node)
    model.__dict__["_task"] = {**{k: v for k, v in task.items() if k != "name"}, "dtype": task["dtype"].name}
    return model
