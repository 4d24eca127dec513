"""What may be added to a run of fit."""
from ._fit import Callback, Checkpoint, EarlyStopping, LearningRate, Progress, TensorBoard  # noqa: F401
