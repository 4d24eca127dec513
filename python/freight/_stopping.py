"""An EarlyStopping or a Checkpoint whose figure is not the one by which the trainer compares evaluations: it compares them itself."""
import os

from . import _core, distributed
from ._callbacks import Callback, Checkpoint
from ._fit_reports import History


class _Comparing(Callback):
    """Compares epochs by the figure `name`, as the callback `asked` says."""

    def __init__(self, asked, name, higher):
        self.asked, self.name, self.sign = asked, name, 1 if higher else -1
        self.best, self.best_epoch = -float("inf"), 0

    def _count(self, epoch, value):
        """Whether the epoch is the best so far."""
        best = self.sign * value > self.best
        if best:
            self.best, self.best_epoch = self.sign * value, epoch
        return best

    def _recall(self, history):
        for epoch, value in zip(history.epoch, history.history.get(self.name, ())):
            self._count(epoch, value)

    def _is_best(self, epoch, logs):
        """The same of the figures of an epoch; None where it has none, as it has not been evaluated."""
        if self.name in logs:
            return self._count(epoch, logs[self.name])
        if "val_loss" not in logs:
            return None
        raise ValueError(f"{type(self.asked).__name__}: monitor: the run has no figure {self.name!r}; there are " +
                         ", ".join(k for k in logs if k[:4] == "val_"))


class Keeping(_Comparing):
    """Keeps the model of the best epoch for a Checkpoint beside the first one, which is the trainer's."""

    def __init__(self, asked, name, higher, directory):
        super().__init__(asked, name, higher)
        if asked.every:
            raise ValueError(f"fit: Checkpoint: every: expected it for the Checkpoint without a monitor, or the first, whose directory {directory} is "
                             f"the run's, got {asked.every}")
        shared = os.path.realpath(asked.directory) == os.path.realpath(directory)
        self.path = os.path.join(asked.directory, "best_" + name.removeprefix("val_") if shared else "best", "model.safetensors")

    def on_epoch_end(self, epoch, logs):
        if self._is_best(epoch, logs):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self.model.save(self.path)


class Stopping(_Comparing):
    """Stops the run as an EarlyStopping says. The weights of the best epoch are kept in memory, and in a run directory as a file, from
    which a resumed run takes them."""

    def __init__(self, asked, name, higher, directory):
        super().__init__(asked, name, higher)
        self.path = os.path.join(directory, "early_stopping", f"{name}.safetensors") if directory else ""
        self.improved, self.stale = -float("inf"), 0
        self.weights, self.over = None, False

    def _count(self, epoch, value):
        improved = self.sign * value > self.improved + self.asked.min_delta
        self.stale = 0 if improved else self.stale + 1
        if improved:
            self.improved = self.sign * value
        return super()._count(epoch, value)

    def on_epoch_end(self, epoch, logs):
        best = self._is_best(epoch, logs)
        if best is None:
            return None
        if best:
            self.weights = {name: variable.elements() for name, variable, _ in self.model._node().state()}
            if self.path:
                self._store()
        self.over = self.stale >= self.asked.patience
        return self.over

    def _store(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        _core.save_weights(self.model._node(), self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def restore(self, model):
        """Gives the module the weights of the best epoch; all ranks call it."""
        if self.weights is None and self.best_epoch and os.path.exists(self.path):
            _core.load_weights(model._node(), self.path)
        for name, variable, _ in model._node().state():
            if self.weights is not None:
                variable.set(self.weights[name])
            if distributed.get_world_size() > 1:
                variable.set(distributed.broadcast(variable.elements(), src=0))


def of(asked, name, higher, directory):
    """What compares epochs for a callback, by a figure of its own."""
    return (Keeping if isinstance(asked, Checkpoint) else Stopping)(asked, name, higher, directory)


def epochs_left(epochs, apart, directory, figures):
    """The epochs of a run that goes on in this directory: those it has behind it where one of the EarlyStoppings that compare by
    themselves has ended it."""
    stoppings = [one for one in apart if not isinstance(one[0], Checkpoint)]
    history = History()
    if stoppings:
        history._recall(directory, None, figures)
    for asked, name, higher in stoppings:
        if name not in history.history:
            continue
        again = Stopping(asked, name, higher, "")
        again._recall(history)
        if again.stale >= asked.patience:
            return min(epochs, history.epoch[-1])
    return epochs


def settle(comparing, model, result):
    """Gives the module the best weights by the first Stopping among these that has stopped the run, else by the first, and says so in
    the result of the run. All ranks call it; rank 0 alone has compared."""
    stoppings = [c for c in comparing if isinstance(c, Stopping)]
    if not stoppings:
        return
    decided = next((s for s in stoppings if s.over), stoppings[0])
    decided.restore(model)
    result["best_epoch"] = decided.best_epoch
    if decided.over and result["ended"] == "stopped":
        result["ended"] = "early"
