"""Training on arrays by the library's trainer: what fit, evaluate, predict, save and load of modules do."""
import os
import warnings
import weakref

from . import _array_api as xp
from . import _attributes, _core, _devices, _fit_figures, _fit_folder, _hints, _lazy, _outputs, _rows, _several, _several_targets, distributed
from ._callbacks import Callback, checked, figure_of, known_metric
from ._containers import wrapped
from ._fit_data import _are_shares, _as_floats, _collected, _inputs, _is_loader, _need_as_many, _need_classes, _pair, _targets
from ._fit_losses import _name_for_targets, _name_of, _one_metric, _request, _scaled, _weight_per_sample, _weighted, takes_classes
from ._fit_run import Run
from ._fit_settings import COMPUTE, warn_of_precision
from ._output_names import names_for, names_of
from ._transforms import _flatten, _leaves_of, _unflatten, autocast, jit, run_of_trainer

OF_PROGRAM = ("loss_function", "loss_weights", "metrics")  # of a task: what a file does not have


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
    ranks = _devices.count_of(devices, device, model)
    device = distributed._device("cpu" if ranks else device)
    run = Run(model, loss, metric, functions, names, bool(shuffle))
    validation_data = run.take_samples(x, y, sample_weight, steps_per_epoch=steps_per_epoch, input_shape=input_shape, batch_size=batch_size,
                                       validation_data=validation_data, validation_split=validation_split, resume=resume)
    run.ask(validation_data)
    run.take_validation(validation_data)
    run.take_labels()
    run.take_settings(settings, callbacks, output_dir)
    run.weigh(class_weight)
    run.compare(lambda vx: predict(model, vx, device=device, precision=precision))
    run.settle({"epochs": epochs, "device": device, "precision": precision, "grad_accum": grad_accum, "seed": seed}, resume)
    warn_of_precision(precision, device, "fit")
    return run.train(callbacks, verbose, ranks)


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
    if takes_classes(loss):
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
    warn_of_precision(precision, device, "evaluate")
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
    if precision not in COMPUTE:
        raise ValueError(f"predict: precision: expected one of {', '.join(COMPUTE)}, got {precision!r}")
    identity, kept, attributes = model.__dict__.get("_compiled", (0, {}, None))
    if identity != model._node().identity or attributes.is_stale():  # a part was replaced, or what forward reads
        identity, kept, attributes = model._node().identity, {}, None
    if device not in kept:
        weak = weakref.ref(model)  # the compiled function must not keep its own module
        kept[device] = jit(lambda x: weak()(x), device="" if device == "auto" else device)
    modes = [(m._built(), m._built().training) for m in model.modules()]
    model.eval()
    try:
        with autocast(COMPUTE[precision]):
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
    task["classes"] = task["classes"] or names_of(model)
    seen = task.get("dtype") or model.__dict__.get("_seen", (None, None))[1]
    task["dtype"] = "int32" if seen == "int64" else seen or "float32"
    if task["classes"] and seen:
        names = names_for(model, task["input"], task["dtype"], task["classes"])
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
