"""fit, evaluate and predict of modules whose forward takes several inputs: the trainer has one array, so that the inputs of a
sample lie side by side in its row, as f32, and are taken apart again in front of forward."""
import functools
import inspect
import itertools
import math
import weakref

from . import _array_api as xp
from . import _core, _fit_data
from ._containers import OF_LIBRARY
from ._module import Module

_LARGEST = 1 << 24  # up to it f32 has all integers
_made: weakref.WeakKeyDictionary[Module, tuple] = weakref.WeakKeyDictionary()  # modules -> (layout, Joined)


class Joined(Module):
    """A module of several inputs as one of a single array. Its parts and their names are the module's."""

    def __init__(self, module, layout):
        super().__init__()
        self.__dict__["_inside"], self.__dict__["_layout"] = weakref.ref(module), layout

    def _parts(self):
        return [("", self._inside()._built())]

    def named_modules(self, prefix=""):
        yield prefix, self
        yield from self._inside().named_modules(prefix)

    def forward(self, rows):
        inputs, at = {}, 0
        for name, shape, dtype in self._layout:
            size = math.prod(shape)
            part = xp.reshape(rows[:, at:at + size], (rows.shape[0], *shape))
            inputs[name] = part if dtype == xp.float32 else xp.astype(part, dtype)
            at += size
        named = isinstance(self._layout[0][0], str)
        return self._inside()(**inputs) if named else self._inside()(*inputs.values())


def original(model):
    """The module of the program."""
    return model._inside() if isinstance(model, Joined) else model


def _takes(model):
    """(number of inputs that forward needs, that it takes at most)"""
    if type(model).forward in OF_LIBRARY:
        return 1, 1
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 1, 1 << 16
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in plain), len(plain)


def _are_several(model, x):
    """Whether x is several inputs: a dict, a tuple of arrays where forward takes as many, or a list where it needs them."""
    if isinstance(x, dict):
        return bool(x)
    if not isinstance(x, (tuple, list)) or len(x) < 2 or not all(len(getattr(part, "shape", ())) > 0 for part in x):
        return False
    needed, most = _takes(model)
    return len(x) <= most if isinstance(x, tuple) else needed == len(x)


def _rows(x, what):
    """(inputs of all samples side by side, layout: name or number, shape and type of each input)"""
    parts, layout, count = [], [], None
    for name, values in x.items() if isinstance(x, dict) else enumerate(x):
        values, here = xp.asarray(values), f"{what}[{name!r}]"
        if values.ndim == 0:
            raise ValueError(f"{here}: expected one entry per sample, (N, ...), got a number")
        count = values.shape[0] if count is None else count
        if values.shape[0] != count:
            raise ValueError(f"{here}: expected {count} samples, as the first input has, got shape {values.shape}")
        if xp.isdtype(values.dtype, "complex floating"):
            raise TypeError(f"{here}: expected real numbers, got {values.dtype}")
        dtype = xp.float32
        if values.dtype == xp.uint8:
            values = values / 255
        elif values.dtype == xp.bool:
            dtype = xp.bool
        elif xp.isdtype(values.dtype, "integral"):
            dtype = xp.int32
            largest = int(xp.max(abs(values))) if values.size else 0
            if largest > _LARGEST:
                raise ValueError(f"{here}: expected integers up to {_LARGEST} beside other inputs, got {largest}")
        layout.append((name, values.shape[1:], dtype))
        parts.append(xp.astype(xp.reshape(values, (count, math.prod(values.shape[1:]))), xp.float32, copy=False))
    return _core.to_host(xp.concat(parts, axis=1)), tuple(layout)


def _joined(model, x, what):
    rows, layout = _rows(x, what)
    if model not in _made or _made[model][0] != layout:
        _made[model] = layout, Joined(model, layout)
    return _made[model][1], rows


class _Batches:
    """The batches of a loader whose inputs are several, with the inputs of a sample in a row."""

    def __init__(self, loader, taken):
        self._loader, self._taken, self.sampler = loader, taken, getattr(loader, "sampler", None)

    def __iter__(self):
        return map(self._taken, self._loader)

    def __len__(self):
        return len(self._loader)


def _of_batches(model, loader, what):
    """(the module as one of a single array, the batches as such arrays), where the batches have several inputs."""
    if not isinstance(model, Module) or _takes(model)[0] < 2:
        return model, loader
    is_iterator = iter(loader) is loader
    first = next(iter(loader), None)
    if is_iterator:
        rest = loader
        loader = itertools.chain([] if first is None else [first], rest)
    if not isinstance(first, (tuple, list)) or len(first) != 2 or not _are_several(model, first[0]):
        return model, loader
    whole, _ = _joined(model, first[0], f"{what}: batch 0 of x")

    def taken(batch):
        x, y = _fit_data._pair(batch, f"{what}: a batch of x")
        rows, layout = _rows(x, f"{what}: a batch of x")
        if layout != whole._layout:
            raise ValueError(f"{what}: a batch of x: expected inputs {_named(whole._layout)} as in the first batch, got {_named(layout)}")
        return rows, y

    return whole, map(taken, loader) if is_iterator else _Batches(loader, taken)


def _named(layout):
    return ", ".join(f"{name} {dtype}{list(shape)}" for name, shape, dtype in layout)


def is_of_several(model):
    """Whether fit, evaluate or predict had the module with several inputs."""
    return model in _made


def accepted(function):
    """fit, evaluate or predict, which then also takes several inputs as x."""
    name = function.__name__

    @functools.wraps(function)
    def call(model, x, *y, **settings):
        if name != "predict" and (not y or y[0] is None) and _fit_data._is_loader(x):
            model, x = _of_batches(model, x, name)
            validation = settings.get("validation_data")
            if isinstance(model, Joined) and validation is not None:
                if _fit_data._is_loader(validation):
                    validation = _of_batches(original(model), validation, "fit: validation_data")[1]
                elif isinstance(validation, (tuple, list)) and len(validation) == 2 and _are_several(original(model), validation[0]):
                    validation = _joined(original(model), validation[0], "fit: validation_data")[1], validation[1]
                settings["validation_data"] = validation
            return function(model, x, *y, **settings)
        if name != "predict" and (not y or y[0] is None) and isinstance(x, (tuple, list)) and len(x) == 2 and _are_several(model, x[0]):
            x, y = x[0], (x[1],)
        if not _are_several(model, x):
            return function(model, x, *y, **settings)
        whole, rows = _joined(model, x, f"{name}: x")
        validation = settings.get("validation_data")
        if _fit_data._is_loader(validation):
            settings["validation_data"] = _of_batches(model, validation, "fit: validation_data")[1]
        elif isinstance(validation, (tuple, list)) and len(validation) == 2 and _are_several(model, validation[0]):
            other, vx = _joined(model, validation[0], "fit: validation_data")
            if other is not whole:
                raise ValueError("fit: validation_data: expected inputs of the same names, shapes and types as x")
            settings["validation_data"] = vx, validation[1]
        return function(whole, rows, *y, **settings)

    return call
