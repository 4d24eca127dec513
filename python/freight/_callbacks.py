"""What may be added to a run of fit: classes that hear of it, and the settings that some stand for."""
import difflib
import os

from . import _core, _display, _fit_settings, _hints


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

    def _recall(self, history):
        """Hears of the epochs that a resumed run has behind it."""

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


def settings_of(callbacks, output_dir, apart=()):
    """(keywords of fit that the callbacks set, but for those `apart`; the run directory)."""
    found = {}
    for c in (c for c in callbacks if c not in apart):
        for key, value in _fit_settings.checked(type(c).__name__, c.settings()).items():
            value = os.fspath(value) if isinstance(value, os.PathLike) else value
            if key != "output_dir":
                found[key] = value
            elif output_dir and os.fspath(output_dir) != value:
                raise ValueError(f"fit: {type(c).__name__} and output_dir name two run directories: {value} and {output_dir}")
            else:
                output_dir = value
    boards = [c.directory for c in callbacks if isinstance(c, TensorBoard)]
    return found, output_dir or next(iter(boards), "")


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


class _Monitor(Callback):
    """A callback that compares evaluations by a figure of the validation data: "val_loss", "val_accuracy" or another metric of
    `freight train --metric`, or the name of a function given as fit(metric=). `mode` is its direction: "auto" knows
    that of all but functions without an attribute higher_is_better. None: fit's metric, or what fit compares without one."""

    monitor, mode = None, "auto"

    def _watch(self, monitor, mode):
        kind = type(self).__name__
        if monitor is not None and not isinstance(monitor, str):
            raise TypeError(f"{kind}: monitor: expected the name of a figure, got {monitor!r}" +
                            (f": use patience={monitor!r}" if isinstance(self, EarlyStopping) else ""))
        if monitor is not None and not monitor.startswith("val_"):
            raise ValueError(f"{kind}: monitor: expected \"val_loss\", \"val_accuracy\" or another metric of the validation data, got {monitor!r}")
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"{kind}: mode: expected \"auto\", \"min\" or \"max\", got {mode!r}")
        if monitor is None and mode != "auto":
            raise ValueError(f"{kind}: mode: expected monitor with it, the figure whose direction it is, got {mode!r} alone")
        self.monitor, self.mode = monitor, mode

    def _settle(self, metric, functions):
        """(the setting `metric` of fit, whether higher is better), for a fit whose argument metric is this; for one of the other
        functions its name."""
        name, own = self.monitor.removeprefix("val_"), callable(metric)
        if name == "metric" and isinstance(metric, str) and metric != "auto":
            name = metric
        if own and name in ("metric", getattr(metric, "__name__", "metric")):
            setting, known = "own", getattr(metric, "higher_is_better", None)
        elif name in functions:
            setting, known = name, getattr(functions[name], "higher_is_better", None)
        else:
            setting = known_metric(f"{type(self).__name__}: monitor", name, "val_")
            known = False if name == "loss" else _core.higher_is_better(name)
        asked = {"auto": known, "min": False, "max": True}[self.mode]
        if asked is None:
            raise ValueError(f"{type(self).__name__}: mode: expected \"min\" or \"max\" for {self.monitor}, a function without an attribute "
                             "higher_is_better, got \"auto\"")
        if known not in (None, asked):
            raise ValueError(f"{type(self).__name__}: mode: {self.monitor} is better the {'higher' if known else 'lower'} it is: expected "
                             f"\"{'max' if known else 'min'}\" or \"auto\", got {self.mode!r}")
        return setting, asked


def known_metric(argument, name, prefix=""):
    """The name of a figure, which the library knows."""
    if name == "loss" or _core.higher_is_better(name) is not None:
        return name
    names = ["loss", *(n for n in _core.metric_names() if n != "auto")]
    near = next((n for n in names if n.startswith(name)), None) or next(iter(difflib.get_close_matches(name, names, 1)), None)
    hint = f": use {prefix + near!r}" if near else ""
    raise ValueError(f"{argument}: there is no figure {prefix + name!r}{hint}; there are {', '.join(prefix + n for n in names)}, and functions in fit(metrics=)")


def judge_among(callbacks, metric, functions):
    """The name of the function by which the trainer is to compare evaluations, where a callback says so, else None."""
    monitors = [c for c in callbacks if isinstance(c, _Monitor) and c.monitor is not None]
    first = next((c for c in monitors if isinstance(c, Checkpoint)), monitors[0] if monitors and metric in (None, "auto") else None)
    name = first and first.monitor.removeprefix("val_")
    return name if name in functions else None


def judged_by(callbacks, metric, functions=(), output_dir=""):
    """(the setting `metric` of fit, whether higher is better) by which callbacks want the trainer to compare evaluations, None for
    what none of them says; and (callback, figure, whether higher is better) of each EarlyStopping and Checkpoint that compares by
    another figure itself, or keeps the best model elsewhere. The trainer, which writes the best checkpoint, compares by the monitor
    of the first Checkpoint of the run directory, else by a name in fit(metric=), else by the first monitor, of a Checkpoint at last."""
    asked = {c: c._settle(metric, functions) for c in callbacks if isinstance(c, _Monitor) and c.monitor is not None}
    named = metric if isinstance(metric, str) and metric != "auto" else None
    places = [os.path.realpath(d) for d in (output_dir, *(c.directory for c in callbacks if isinstance(c, Checkpoint))) if d]
    kept = {c: found for c, found in asked.items() if isinstance(c, Checkpoint) and os.path.realpath(c.directory) == places[0]}
    others = sorted(asked, key=lambda c: isinstance(c, Checkpoint))
    first = next(iter(kept.values()), (named, None) if named else asked[others[0]] if others else (None, None))
    usual = ("own", getattr(metric, "higher_is_better", True)) if callable(metric) else (named or "loss", None)
    apart, follows = [], False
    for c in callbacks:
        if isinstance(c, EarlyStopping) or (c in asked and kept.get(c) != first):
            setting, higher = asked.get(c, usual)
            same = first[0] in (None, setting) and (setting != "own" or first[1] in (None, higher))
            if same and not follows and isinstance(c, EarlyStopping):
                follows = True  # of the trainer
                continue
            if higher is None:
                higher = setting != "loss" and bool(_core.higher_is_better(setting))
            apart.append((c, "val_" + (figure_of(metric) if setting == "own" else setting), higher))
    return *(first if first[0] != named or kept else (None, None)), apart


def figure_of(metric):
    """The name of the figure that a function computes."""
    name = getattr(metric, "__name__", "metric")
    return name if name.isidentifier() else "metric"


class EarlyStopping(_Monitor):
    """Ends the run after `patience` evaluations without improvement of `monitor`, by default fit's metric or the validation loss. The
    weights are then those of the best evaluation, also where a Checkpoint keeps those that are the best by another figure. mode: "min"
    or "max", for a monitor that is a function of fit(metrics=) without an attribute higher_is_better."""

    def __init__(self, monitor=None, min_delta=0.0, patience=3, restore_best_weights=True, mode="auto", **unknown):
        _refuse(self, unknown)
        self._watch(monitor, mode)
        if not restore_best_weights:
            raise ValueError("EarlyStopping: restore_best_weights: the best weights are always restored: expected True, got False")
        self.patience, self.min_delta = patience, min_delta

    def settings(self):
        return {"early_stop": self.patience, "min_improvement": float(self.min_delta)}


class Checkpoint(_Monitor):
    """Keeps checkpoints in a run directory, each epoch or every so many steps: the newest `keep`, from which fit(resume=True) goes
    on, and the best, best/model.safetensors, by `monitor` such as "val_accuracy". With a monitor the run ends with the best weights,
    unless an EarlyStopping has others, and model.safetensors has them. A second Checkpoint with a monitor keeps the best epoch by that
    alone: best/model.safetensors of its directory, in the directory of the run best_accuracy/model.safetensors. mode: "min" or "max",
    for a monitor that is a function of fit(metrics=) without an attribute higher_is_better."""

    def __init__(self, directory, every=0, keep=3, monitor=None, mode="auto", **unknown):
        _refuse(self, unknown)
        self._watch(monitor, mode)
        self.directory, self.every, self.keep = directory, every, keep

    def settings(self):
        return {"output_dir": self.directory, "save_every": self.every, "keep": self.keep}


class TensorBoard(Callback):
    """Writes the run directory, in which there is a file of TensorBoard's events. Where output_dir or a Checkpoint names another run
    directory, this one gets links to its files of events."""

    def __init__(self, directory):
        self.directory = os.fspath(directory)

    def on_train_begin(self, logs):
        run = logs["output_dir"]
        if os.path.realpath(run) == os.path.realpath(self.directory):
            return
        os.makedirs(self.directory, exist_ok=True)
        for name in os.listdir(run):
            link = os.path.join(self.directory, name)
            if "tfevents" in name and not os.path.lexists(link):
                os.symlink(os.path.abspath(os.path.join(run, name)), link)


class LearningRate(Callback):
    """The learning rate of each step, by a function of its number from 0, such as a schedule of freight.optim."""

    def __init__(self, schedule):
        from ._optim import Plateau

        if isinstance(schedule, Plateau) or not callable(schedule):
            raise TypeError(f"LearningRate: schedule: expected a function of the step's number, got {type(schedule).__name__}" + (
                ": return its rate, plateau(logs[\"val_loss\"]), from on_epoch_end of a callback" if isinstance(schedule, Plateau) else ""))
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
