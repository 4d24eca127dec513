"""What a run of fit reports, to its history, its progress and its callbacks, and what these ask for."""
import contextlib
import json
import math
import os
import warnings

from . import _attributes, _display, _several, distributed
from ._callbacks import LearningRate, hears_steps
from ._module import _changed


class History:
    """What a run reported: `history` has a list per figure with one number per epoch, those before a resumption included, `epoch`
    their numbers from 1; `ended` says why the run was over ("complete", "early", "stopped", "nothing_left")."""

    def __init__(self):
        self.epoch, self.history = [], {}
        self.ended, self.steps, self.best_epoch = "", 0, 0
        self.seconds = self.samples_per_second = 0.0
        self.output_dir = self.model_path = ""

    def _recall(self, directory, metric, others, before=math.inf):
        """Takes the epochs that a resumed run has behind it from its metrics."""
        epochs = {}
        with contextlib.suppress(FileNotFoundError), open(os.path.join(directory, "metrics.jsonl")) as lines:
            for row in map(json.loads, lines):
                if row["split"] not in ("train", "val") or row["epoch"] != int(row["epoch"]) or row["epoch"] >= before:
                    continue
                figures, prefix = epochs.setdefault(int(row["epoch"]), {}), "val_" if row["split"] == "val" else ""
                for name, column in (("loss", "loss"), ("accuracy", "top1"), (metric, metric), ("lr", "lr")):
                    if row.get(column) is not None:  # percent, to the digits that are reported
                        figures.setdefault(prefix + name, round(row[column] * 1e10) / 1e12 if column == "top1" else row[column])
        others.recalled(epochs)
        for epoch, figures in epochs.items():
            self._add(epoch, {**{k: v for k, v in figures.items() if k != "lr"}, **{k: v for k, v in figures.items() if k == "lr"}})

    def _add(self, epoch, figures):
        self.epoch.append(epoch)
        for name, value in figures.items():
            self.history.setdefault(name, []).append(value)

    def _repr_html_(self):
        return f"<p>{len(self.epoch)} epochs, {self.ended}, {self.seconds:.1f} s</p>" + _display.curves(self.epoch, self.history)

    def __repr__(self):
        last = ", ".join(f"{k} {v[-1]:.4g}" for k, v in self.history.items())
        return f"History({len(self.epoch)} epochs, {self.ended}: {last})"


_MOST_RETRACES = 64  # by callbacks, without a warning


class Sink:
    """Gets the reports of a run, and hands them on to the callbacks. `metric` is its name, `figures` the further ones, `resumed` a run
    directory; where it tells, it gives warnings."""

    def __init__(self, model, callbacks, verbose, metric=None, *, figures, resumed=None, tells=True):
        self.model, self.callbacks, self.metric, self.resumed, self.tells = model, callbacks, metric, resumed, tells
        self.figures, self.gather, self._retraces = figures, figures.gather, 0
        self.frozen, self.optimizer = set(), None  # parameters that the run cannot train, whatever callbacks do; the program's optimizer
        self.history, self.progress = History(), _display.progress(verbose)
        self.progress.names = tuple(dict.fromkeys(["loss", "accuracy", metric, *figures.functions]))
        self.wants_steps = self.progress.wants_steps or any(hears_steps(c) for c in callbacks)

    def _tell(self, method, *arguments):
        for c in self.callbacks:
            getattr(c, method)(*arguments)

    def _ask(self, method, *arguments):
        """[what ends the run, a learning rate], None where callbacks ask for neither: True or the exception that one has raised, and the
        first rate that one returns. A rate counts in a run that ends, too: the one that goes on from it has it."""
        own = any(not type(c).__module__.startswith("freight.") and (method == "on_epoch_end" or hears_steps(c)) for c in self.callbacks)
        before = _attributes.Read([_several.original(self.model)]) if own else None
        answers, raised = [], None
        rate_before = self.optimizer and self.optimizer.lr
        for c in self.callbacks:
            if raised is not None and not isinstance(c, LearningRate):
                continue
            try:
                answers.append(c._answered(method, getattr(c, method)(*arguments)))
            except BaseException as error:
                raised = raised or error
        if own and before.is_stale():
            self._attributes_changed()
        thawed = next((name for name, p in self.model.named_parameters() if p.requires_grad and p._variable.identity in self.frozen),
                      None) if own and self.frozen else None
        if thawed and raised is None:
            raised = ValueError(f"fit: a callback has set requires_grad of {thawed}, which was frozen at the start of the run, so that its optimizer "
                                "does not have it: expected optimizer=optim.SGD(net, ...), of all parameters")
        if self.optimizer and self.optimizer.lr != rate_before:  # one has set the rate of the program's optimizer
            answers.append(self.optimizer.lr)
        return [raised or any(a is True for a in answers) or None, next((a for a in answers if a is not None and a is not True), None)]

    def _attributes_changed(self):
        """A callback has set attributes of the module, which forward has read when it was traced."""
        if distributed.get_world_size() > 1:
            warnings.warn("fit: a callback has changed attributes of the module, of which the other ranks know nothing: the run goes on with those "
                          "of its start. nn.Buffer has values that may change", stacklevel=2)
            return
        _changed(_several.original(self.model))
        self._retraces += 1
        if self._retraces == _MOST_RETRACES:
            warnings.warn(f"fit: callbacks have changed attributes of the module {_MOST_RETRACES} times, and the step was compiled anew each time: "
                          "nn.Buffer has values that may change, and object.__setattr__ sets what forward does not read", stacklevel=2)

    def start(self, summary):
        if self.tells:
            for text in summary["warnings"]:
                warnings.warn(f"fit: {text}", stacklevel=2)
        for c in self.callbacks:
            c.model = _several.original(self.model)
        self.progress.begin()
        self._tell("on_train_begin", summary)

    def _named(self, figures):
        """The figures, of which the metric has its name."""
        if "metric" in figures:
            figures.setdefault(self.metric, figures.pop("metric"))
        return figures

    def step(self, logs):
        logs |= self.figures.so_far()
        self.progress.step(self._named(logs))
        return self._ask("on_train_batch_end", logs["step"], logs)

    def epoch(self, logs):
        test = self._named(logs.pop("validation", {}))
        figures = {k: self._named(logs)[k] for k in self.progress.names if k in logs}
        trained, validated = self.figures.epoch(logs["total_step"], logs["epoch"])
        figures |= trained | {f"val_{k}": v for k, v in test.items()} | validated | {"lr": logs["lr"]}
        self.recall(logs["epoch"])
        self.history._add(logs["epoch"], figures)
        self.progress.epoch(logs, figures, self.history)
        return self._ask("on_epoch_end", logs["epoch"], {**logs, **figures})

    def recall(self, before=math.inf):
        """Takes the epochs that a resumed run has behind it, once; callbacks hear of them."""
        if self.resumed and not self.history.epoch:
            self.history._recall(self.resumed, self.metric, self.figures, before)
            self._tell("_recall", self.history)

    def end(self, result):
        history = self.history
        history.ended, history.steps, history.best_epoch = result["ended"], result["steps"], result["best_epoch"]
        history.seconds, history.samples_per_second = result["train_seconds"], result["samples_per_second"]
        history.output_dir, history.model_path = result["output_dir"], result["model_path"]
        self._tell("on_train_end", history)
