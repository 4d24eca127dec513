"""evaluate and predict of modules on folders of images, which the command reads as fit does: it gets the module in a file."""
import contextlib
import os
import tempfile

from . import _array_api as xp
from . import _command_functions, _fit


def path_of(x):
    """The path that x is, else None."""
    return os.fspath(x) if isinstance(x, (str, os.PathLike)) else None


@contextlib.contextmanager
def _stored(model, what, **changes):
    """A file of the module with its task."""
    task = model.__dict__.get("_task")
    if task is None:
        raise ValueError(f"{what}: x: images are read for a model that fit or freight.load has given a size and classes: expected one of "
                         "these before, or arrays")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        fault, _, _ = _fit._saved(model, path, {**{k: v for k, v in task.items() if k not in _fit.OF_PROGRAM and not callable(v)}, **changes})
        if fault:
            raise ValueError(f"{what}: x: a folder is for models that the command can use: {fault}")
        yield path


def evaluated(model, path, *, batch_size, loss, metric, device, precision):
    """The figures of evaluate."""
    task = model.__dict__.get("_task") or {}
    if callable(task.get("loss_function")) or callable(metric) or loss is not None or precision != "fp32":
        raise ValueError("evaluate: x: on a folder expected the loss of fit by its name, the name of a metric and precision fp32: other ones "
                         "are for arrays")
    with _stored(model, "evaluate") as file:
        found = _command_functions.eval(file, data=path, batch_size=batch_size, device=device, quiet=True)
    figures = {"loss": found["loss"]}
    if found["top1"] is not None:
        figures["accuracy"] = found["top1"] / 100
    if isinstance(metric, str) and metric not in ("auto", "loss", "accuracy", "own"):
        if metric not in found:
            raise ValueError(f"evaluate: metric: expected one of {', '.join(found['scores'])}, got {metric!r}")
        figures[metric] = found[metric]
    return figures


def predicted(model, path, *, batch_size, device, precision):
    """What forward returns for all images, in the order of their paths."""
    with _stored(model, "predict", loss="mse", classes=[]) as file:  # outputs as they are, no probabilities
        found = _command_functions.predict(file, path, batch_size=batch_size, device=device, precision=precision, quiet=True)
    return xp.asarray([row["values"] for row in found], dtype=xp.float32)
