"""What may be added to a run of fit."""
from . import _hints
from ._callbacks import Callback, Checkpoint, EarlyStopping, LearningRate, Progress, TensorBoard  # noqa: F401


def __getattr__(name):
    raise _hints.missing("module 'freight.callbacks'", name, _hints.CALLBACKS)
