from typing_extensions import Never

class Callback:
    model: Any
    def settings(self) -> dict[str, Any]: ...
    def on_train_begin(self, logs: dict[str, Any]) -> Any: ...
    def on_train_batch_end(self, batch: int, logs: dict[str, Any]) -> Any: ...
    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> Any: ...
    def on_train_end(self, history: History) -> Any: ...

class EarlyStopping(Callback):
    patience: int
    min_delta: float
    monitor: str | None
    mode: str
    def __init__(self, monitor: str | None = ..., min_delta: float = ..., patience: int = ..., restore_best_weights: bool = ..., mode: Literal["auto", "min", "max"] = ..., **unknown: Never) -> None: ...

class Checkpoint(Callback):
    directory: str | PathLike[str]
    every: int
    keep: int
    monitor: str | None
    mode: str
    def __init__(self, directory: str | PathLike[str], every: int = ..., keep: int = ..., monitor: str | None = ..., mode: Literal["auto", "min", "max"] = ..., **unknown: Never) -> None: ...

class TensorBoard(Callback):
    directory: str | PathLike[str]
    def __init__(self, directory: str | PathLike[str]) -> None: ...

class LearningRate(Callback):
    schedule: Callable[[int], float]
    def __init__(self, schedule: Callable[[int], float]) -> None: ...

class Progress(Callback): ...
