"""An EarlyStopping whose figure is not the one by which the trainer compares evaluations: it compares them by itself."""
import os

from . import _array_api as xp
from . import _core, distributed
from ._callbacks import Callback


class Stopping(Callback):
    """Stops the run as `asked`, an EarlyStopping, says, by the figure `name` of an epoch. The weights of the best epoch are kept in
    memory, and in a run directory as a file, from which a resumed run takes them."""

    def __init__(self, asked, name, higher, directory):
        self.asked, self.name, self.sign = asked, name, 1 if higher else -1
        self.path = os.path.join(directory, "early_stopping", f"{name}.safetensors") if directory else ""
        self.best = self.improved = -float("inf")
        self.best_epoch = self.stale = 0
        self.weights, self.over = None, False

    def _count(self, epoch, value):
        """Whether the epoch is the best so far."""
        score = self.sign * value
        best = score > self.best
        if best:
            self.best, self.best_epoch = score, epoch
        improved = score > self.improved + self.asked.min_delta
        self.stale = 0 if improved else self.stale + 1
        if improved:
            self.improved = score
        return best

    def _recall(self, history):
        for epoch, value in zip(history.epoch, history.history.get(self.name, ())):
            self._count(epoch, value)

    def on_epoch_end(self, epoch, logs):
        if self.name not in logs:
            if "val_loss" not in logs:  # an epoch without an evaluation
                return None
            raise ValueError(f"EarlyStopping: monitor: the run has no figure {self.name!r}; there are " + ", ".join(k for k in logs if k[:4] == "val_"))
        if self._count(epoch, logs[self.name]):
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


def settle(stoppings, model, result):
    """Gives the module the best weights by the first of these that has stopped the run, else by the first, and says so in the result
    of the run. All ranks call it; rank 0 alone has compared."""
    if not stoppings:
        return
    decided = next((s for s in stoppings if s.over), stoppings[0])
    decided.restore(model)
    result["best_epoch"] = decided.best_epoch
    if decided.over and result["ended"] == "stopped":
        result["ended"] = "early"
