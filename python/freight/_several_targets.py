"""fit and evaluate with several targets per sample, as a dict or a tuple: the trainer has one array of them, so that they lie side by
side in a row, as f32, and are taken apart again in front of the loss and the metric of the program."""
import functools
import math

from . import _array_api as xp
from . import _fit_data, _several


def _are_several(y):
    """Whether y is a dict or tuple of arrays; a list, which batches of torch's DataLoader have, where its arrays are as long as no stack
    of them would be."""
    parts = list(y.values()) if isinstance(y, dict) else y
    if not isinstance(parts, (tuple, list)) or not parts or not all(len(getattr(p, "shape", ())) > 0 for p in parts):
        return False
    return not isinstance(y, list) or any(p.shape[0] != parts[0].shape[0] or p.shape != parts[0].shape for p in parts) or len(y) != parts[0].shape[0]


class _Apart:
    """Targets of several arrays: as rows, and apart again."""

    def __init__(self, what):
        self.what, self.layout, self.kind = what, None, None  # layout: key, shape and type of each; kind: dict, tuple, or list

    def rows(self, y, what):
        """f32 (N, numbers of a sample)."""
        parts, layout = [], []
        for key, values in y.items() if isinstance(y, dict) else enumerate(y):
            values, here = xp.asarray(values), f"{what}: y[{key!r}]"
            if parts and values.shape[0] != parts[0].shape[0]:
                raise ValueError(f"{here}: expected {parts[0].shape[0]} samples, as the first target has, got shape {values.shape}")
            dtype = xp.float32
            if xp.isdtype(values.dtype, ("integral", "bool")):
                dtype = values.dtype if values.dtype == xp.bool else xp.int64
                if values.size and dtype != xp.bool and int(xp.max(abs(xp.astype(values, xp.int64)))) > _several._LARGEST:
                    raise ValueError(f"{here}: expected integers up to {_several._LARGEST} beside other targets, got larger ones")
            elif not xp.isdtype(values.dtype, "real floating"):
                raise TypeError(f"{here}: expected real numbers, got {values.dtype}")
            layout.append((key, values.shape[1:], dtype))
            parts.append(xp.astype(xp.reshape(values, (values.shape[0], math.prod(values.shape[1:]))), xp.float32, copy=False))
        if self.layout is None:
            self.layout, self.kind = tuple(layout), type(y)
        elif tuple(layout) != self.layout:
            raise ValueError(f"{what}: y: expected targets {_several._named(self.layout)} as before, got {_several._named(layout)}")
        return xp.concat(parts, axis=1)

    def of(self, data, what):
        """(x, y), whose y becomes rows where it is several."""
        x, y = _fit_data._pair(data, what)
        return (x, self.rows(y, what)) if _are_several(y) else (x, y)

    def of_batches(self, loader, what):
        def taken(batch):
            return self.of(batch, f"{what}: a batch of x")

        return map(taken, loader) if iter(loader) is loader else _several._Batches(loader, taken)

    def given_to(self, function):
        """The function of outputs and targets, which gets these as the program has them."""
        if not callable(function):
            return function

        @functools.wraps(function)
        def call(outputs, targets):
            if self.layout is None:
                return function(outputs, targets)
            found, at = {}, 0
            for key, shape, dtype in self.layout:
                size = math.prod(shape)
                part = xp.reshape(targets[:, at:at + size], (targets.shape[0], *shape))
                found[key] = part if dtype == xp.float32 else part > 0.5 if dtype == xp.bool else xp.astype(part, dtype)
                at += size
            return function(outputs, found if self.kind is dict else self.kind(found.values()))

        call._of_program = function
        return call


def original(function):
    """The loss or metric of the program."""
    return getattr(function, "_of_program", function)


def accepted(function):
    """fit or evaluate, which then also takes several targets, for a loss that is a function."""
    name = function.__name__

    @functools.wraps(function)
    def call(model, x, y=None, **settings):
        task = model.__dict__.get("_task") or {}
        usual = {} if name == "fit" else {"loss": task.get("loss_function"), "metric": task.get("metric")}
        own = {key: settings[key] if settings.get(key) is not None else usual.get(key) for key in ("loss", "metric")}
        if not callable(own["loss"]):
            return function(model, x, y, **settings)
        apart = _Apart(name)
        validation = settings.get("validation_data")
        if _are_several(y):
            y = apart.rows(y, name)
        elif y is None and _fit_data._is_loader(x):
            x = apart.of_batches(x, name)
        elif y is None and isinstance(x, (tuple, list)):
            x = apart.of(x, f"{name}: y is missing and x")
        if _fit_data._is_loader(validation):
            validation = apart.of_batches(validation, "fit: validation_data")
        elif validation is not None:
            validation = apart.of(validation, "fit: validation_data")
        given = {key: apart.given_to(value) for key, value in own.items() if callable(value)}
        return function(model, x, y, **{**settings, **given, **({} if validation is None else {"validation_data": validation})})

    return call
