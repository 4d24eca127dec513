"""What may be added to a run of fit."""
from ._callbacks import Callback, Checkpoint, EarlyStopping, LearningRate, Progress, TensorBoard  # noqa: F401
