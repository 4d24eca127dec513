"""What may be added to a run of fit: classes that hear of it, and the settings that some stand for."""
from . import _display, _hints


class Callback:
    """Base class of what fit calls during a run; `model` is the module. Epochs and steps count from 1. on_epoch_end and
    on_train_batch_end may return True, which stops the run (behind the epoch; with the next step), or a number, the learning rate
    from then on; None and False change nothing."""

    model = None

    def settings(self):
        """Keywords of fit that the callback sets, as a dict: {"early_stop": 3}."""
        return {}

    def on_train_begin(self, logs):
        """logs: "steps" and "epochs" in all, "parameters", "device", "output_dir", "notes", "warnings"."""

    def on_train_batch_end(self, batch, logs):
        """batch: the step of the epoch. logs: "loss" and "accuracy" of the epoch so far, "batch_loss", "lr", "epoch", "epochs", "step",
        "steps", "total_step", "samples_per_s"."""

    def on_epoch_end(self, epoch, logs):
        """logs: the figures of History ("loss", "val_accuracy", ...), "best" (whether the epoch is the best so far), "seconds"."""

    def on_train_end(self, history):
        """history: what fit returns."""

    def _answered(self, method, found):
        """What the method has asked for by its result: True to stop, a learning rate, or None."""
        value = found.item() if getattr(found, "ndim", None) == 0 and hasattr(found, "item") else found  # NumPy's, Freight's, torch's
        if value is None or isinstance(value, bool):
            return value or None
        if not isinstance(value, (int, float)):
            raise TypeError(f"{type(self).__name__}.{method}: expected None, True to stop, or a number, the new learning rate, got {found!r}")
        if not 0 <= value < float("inf"):
            raise ValueError(f"{type(self).__name__}.{method}: expected a learning rate that is finite and not negative, got {found!r}")
        return float(value)


def hears_steps(callback):
    """Whether on_train_batch_end is to be called, which costs time in each step."""
    return getattr(callback.on_train_batch_end, "__func__", None) is not Callback.on_train_batch_end


def checked(callback):
    """The callback, whose methods are those that are called."""
    if not isinstance(callback, Callback):
        raise TypeError(f"fit: callbacks: expected freight.callbacks.Callback, got {type(callback).__name__}")
    known = [name for name in vars(Callback) if name.startswith("on_")]
    for name in dir(callback):
        if name.startswith("on_") and name not in known:
            raise TypeError(f"fit: callbacks: {type(callback).__name__}.{name} is never called: expected {', '.join(known)}")
    return callback


def _refuse(callback, unknown):
    for name in unknown:
        raise _hints.unknown_keyword(type(callback).__name__, name)


class EarlyStopping(Callback):
    """Ends the run after `patience` evaluations without improvement of `monitor`: the validation loss, or a metric of
    `freight train --metric` such as "val_accuracy". The weights are then those of the best evaluation."""

    def __init__(self, monitor="val_loss", min_delta=0.0, patience=3, restore_best_weights=True, **unknown):
        _refuse(self, unknown)
        if not isinstance(monitor, str):
            raise TypeError(f"EarlyStopping: monitor: expected the name of a figure, got {monitor!r}: use patience={monitor!r}")
        if not restore_best_weights:
            raise ValueError("EarlyStopping: restore_best_weights: the best weights are always restored: expected True, got False")
        if not monitor.startswith("val_"):
            raise ValueError(f"EarlyStopping: monitor: expected \"val_loss\", \"val_accuracy\" or another metric of the validation data, got {monitor!r}")
        self.patience, self.min_delta, self.monitor = patience, min_delta, monitor

    def settings(self):
        metric = {} if self.monitor == "val_loss" else {"metric": self.monitor.removeprefix("val_")}
        return {"early_stop": self.patience, "min_improvement": float(self.min_delta), **metric}


class Checkpoint(Callback):
    """Keeps checkpoints in a run directory, each epoch or every so many steps: the newest `keep`, from which fit(resume=True) goes
    on, and the best, best/model.safetensors."""

    def __init__(self, directory, every=0, keep=3, **unknown):
        _refuse(self, unknown)
        self.directory, self.every, self.keep = directory, every, keep

    def settings(self):
        return {"output_dir": self.directory, "save_every": self.every, "keep": self.keep}


class TensorBoard(Callback):
    """Writes the run directory, in which there is a file of TensorBoard's events."""

    def __init__(self, directory):
        self.directory = directory

    def settings(self):
        return {"output_dir": self.directory}


class LearningRate(Callback):
    """The learning rate of each step, by a function of its number from 0, such as a schedule of freight.optim."""

    def __init__(self, schedule):
        self.schedule = schedule

    def settings(self):
        return {"lr": float(self.schedule(0)), "lr_scheduler": "constant"}

    def on_train_batch_end(self, batch, logs):
        return float(self.schedule(logs["total_step"]))


class Progress(Callback):
    """The bar of a terminal (standard error), also where verbose=0 or no terminal is there."""

    def on_train_begin(self, logs):
        self._bar = _display.Bar()
        self._bar.begin()

    def on_train_batch_end(self, batch, logs):
        self._bar.step(logs)

    def on_epoch_end(self, epoch, logs):
        self._bar.end()

    def on_train_end(self, history):
        self._bar.end()
