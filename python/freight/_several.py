"""fit, evaluate and predict of modules whose forward takes several inputs: the trainer has one array, so that the inputs of a
sample lie side by side in its row, as f32, and are taken apart again in front of forward."""
import functools
import inspect
import itertools
import weakref

from . import _array_api as xp
from . import _core, _fit_data, _rows, _several_targets
from ._containers import OF_LIBRARY, Wrapper
from ._module import Module

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
        inputs = _rows.apart(rows, self._layout)
        named = isinstance(self._layout[0][0], str)
        return self._inside()(**inputs) if named else self._inside()(*inputs.values())


class Stored(Wrapper):
    """A network of several inputs from a file, whose graph takes them as rows."""

    def __init__(self, graph, layout):
        super().__init__(graph)
        self.__dict__["_layout"] = layout

    def forward(self, *inputs, **named):
        names = [name for name, _, _ in self._layout]
        given = {**dict(zip(names, inputs)), **named}
        if len(inputs) > len(names) or sorted(given) != sorted(names):
            raise TypeError(f"forward: expected the inputs {_rows.named(self._layout)}, got {', '.join(given) if named else len(inputs)}")
        return self._inside(_rows.joined([given[name] for name in names]))


def layout_of(model):
    """(the module as one of a single array, its inputs by the names of forward's parameters) where it was called with several inputs;
    else (None, None)."""
    _, whole = _made.get(model, (None, None))
    if whole is None:
        return None, None
    names = _names_of_inputs(model)
    return whole, tuple((name if isinstance(name, str) else names[name], shape, dtype) for name, shape, dtype in whole._layout)


def _names_of_inputs(model):
    if isinstance(model, Stored):
        return [name for name, _, _ in model._layout]
    return getattr(model, "_input_names", None) or list(inspect.signature(model.forward).parameters)  # of from_torch, or of a class


def _in_order(model, x):
    """Inputs by name in the order of forward's parameters, which a file and tuples have."""
    if not isinstance(x, dict):
        return x
    places = {name: place for place, name in enumerate(_names_of_inputs(model))}
    return {name: x[name] for name in sorted(x, key=lambda name: places.get(name, len(places)))}


def original(model):
    """The module of the program."""
    return model._inside() if isinstance(model, Joined) else model


def _takes(model):
    """(number of inputs that forward needs, that it takes at most)"""
    if type(model).forward in OF_LIBRARY:
        return 1, 1
    if isinstance(model, Stored):
        return len(model._layout), len(model._layout)
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


def _are_inputs(model, x, y):
    """Whether x of a batch (x, y) is several inputs: a list, too, which DataLoaders make of tuples, of arrays of as many samples as y."""
    if isinstance(x, list) and 2 <= len(x) <= _takes(model)[1]:
        counts = {getattr(part, "shape", (None,))[:1] for part in x}
        if counts == {tuple(getattr(y, "shape", ())[:1])}:
            x = tuple(x)
    return _are_several(model, x)


def _only(model, x):
    """The array of a dict or tuple that has one, for a module that needs no other."""
    if not isinstance(x, (dict, tuple)) or len(x) != 1 or not isinstance(model, Module) or _takes(model)[0] > 1:
        return x
    (name, value), = x.items() if isinstance(x, dict) else enumerate(x)
    if isinstance(x, dict) and type(model).forward not in OF_LIBRARY and name != next(iter(inspect.signature(model.forward).parameters), None):
        return x
    return value if len(getattr(value, "shape", ())) > 0 else x


def joined_of(model, layout):
    """The module of these several inputs as one of a single array."""
    before, whole = _made.get(model, (None, None))
    if before != layout:
        task = whole.__dict__.get("_task") if whole else None  # what fit had, with other names or types of the inputs
        whole = Joined(model, layout)
        if task:
            whole.__dict__["_task"] = task
        _made[model] = layout, whole
    return whole


def _are_shapes(input_shape):
    return isinstance(input_shape, dict) or (isinstance(input_shape, (tuple, list)) and any(isinstance(s, (tuple, list, dict)) for s in input_shape))


def _layouts(model, shapes):
    """Those of inputs of these shapes, the likeliest first: with the types of the last call, or as floats and tokens."""
    needed, most = _takes(model)
    names = _names_of_inputs(model)
    shapes = _in_order(model, shapes) if isinstance(shapes, dict) else dict(enumerate(shapes))
    if not needed <= len(shapes) <= most or any(isinstance(name, str) and name not in names for name in shapes):
        found = f"{', '.join(shapes)}" if isinstance(next(iter(shapes)), str) else f"{len(shapes)}"
        raise ValueError(f"save: input_shape: expected a shape for each input of forward, {', '.join(names[:max(needed, len(shapes))])}, got {found}")
    for name, shape in shapes.items():
        if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) and n > 0 for n in shape):
            raise ValueError(f"save: input_shape[{name!r}]: expected the shape of one sample, such as (3, 32, 32), got {shape!r}")
    seen = {name if isinstance(name, str) else names[name]: (shape, dtype) for name, shape, dtype in _layout_of_call(model)}
    known = [seen.get(name if isinstance(name, str) else names[name]) for name in shapes]
    choices = [(k[1],) if k and k[0] == tuple(shape) else (xp.float32, xp.int32) for k, shape in zip(known, shapes.values())]
    for types in sorted(itertools.islice(itertools.product(*choices), 64), key=lambda types: types.count(xp.int32)):
        yield tuple((name, tuple(shape), dtype) for (name, shape), dtype in zip(shapes.items(), types))


def _layout_of_call(model):
    """Of the inputs of the last call, where they were arrays of as many samples."""
    seen = vars(model).get("_seen_inputs") or ()
    if len({shape[0] for _, shape, _ in seen}) != 1:
        return ()
    if any(isinstance(name, str) for name, _, _ in seen):
        names = _names_of_inputs(model)
        seen = [(name if isinstance(name, str) else names[name], shape, dtype) for name, shape, dtype in seen]
    return tuple((name, shape[1:], xp.bool if dtype == xp.bool else xp.int32 if xp.isdtype(dtype, "integral") else xp.float32)
                 for name, shape, dtype in seen)


def shapes_to_save(model, input_shape):
    """The input_shape of each way to trace the model, the likeliest first; None where it has been joined of several inputs."""
    if not _are_shapes(input_shape):
        layout = _layout_of_call(model)
        if input_shape is None and "_task" not in vars(model) and model not in _made and len(layout) >= _takes(model)[0] > 1:
            joined_of(model, layout)
        yield input_shape
        return
    if len(input_shape) == 1:
        yield next(iter(input_shape.values() if isinstance(input_shape, dict) else input_shape))
        return
    if "_task" in vars(model):
        raise ValueError(f"save: input_shape: expected none, or one shape: fit had one input, {tuple(vars(model)['_task']['input'])}")
    layouts = list(_layouts(model, input_shape))
    for layout in layouts:
        joined_of(model, layout)
        yield None
    if len(layouts) > 1:  # all have failed, and the first one says why
        joined_of(model, layouts[0])
        yield None


def _joined(model, x, what):
    rows, layout = _rows.of(_in_order(model, x), what, pixels=True)
    return joined_of(model, layout), rows


class _LookedAt:
    """A loader whose first batch was looked at: the first iteration over it goes on with that one."""

    def __init__(self, loader, first, others):
        self._loader, self._begun, self.sampler = loader, itertools.chain([first], others), getattr(loader, "sampler", None)

    def __iter__(self):
        begun, self._begun = self._begun, None
        return iter(self._loader) if begun is None else begun

    def __len__(self):
        return len(self._loader)


def _looked_at(loader):
    """(the first batch, or None where there is none, and what has all batches)."""
    others = iter(loader)
    first = next(others, None)
    if first is None:
        return None, loader
    return first, itertools.chain([first], others) if _fit_data.is_iterator(loader) else _LookedAt(loader, first, others)


class _Batches:
    """The batches of a loader, of which each is changed."""

    def __init__(self, loader, changed):
        self._loader, self._changed, self.sampler = loader, changed, getattr(loader, "sampler", None)

    def __iter__(self):
        return map(self._changed, self._loader)

    def __len__(self):
        return len(self._loader)


def _each(loader, changed):
    return map(changed, loader) if _fit_data.is_iterator(loader) else _Batches(loader, changed)


def _of_batches(model, loader, what):
    """(the module as one of a single array, the batches as such arrays), where the batches have several inputs."""
    if not isinstance(model, Module) or _takes(model)[1] < 2:
        return model, loader
    first, loader = _looked_at(loader)
    if not isinstance(first, (tuple, list)) or len(first) not in (2, 3) or not _are_inputs(model, first[0], first[1]):
        return model, loader
    whole, _ = _joined(model, first[0], f"{what}: batch 0 of x")

    def rows_of(batch):
        x, *others = _fit_data._with_weights(batch, f"{what}: a batch of x")
        rows, layout = _rows.of(_in_order(model, x), f"{what}: a batch of x", pixels=True)
        if layout != whole._layout:
            raise ValueError(f"{what}: a batch of x: expected inputs {_rows.named(whole._layout)} as in the first batch, got {_rows.named(layout)}")
        return rows, *others

    return whole, _each(loader, rows_of)


def accepted(function):
    """predict, which then also takes several inputs as x."""

    @functools.wraps(function)
    def call(model, x, **settings):
        x = _only(model, x)
        if _are_several(model, x):
            model, x = _joined(model, x, "predict: x")
        return function(model, x, **settings)

    return call


def accepted_with_targets(function):
    """fit or evaluate, which then also take several inputs as x and several targets as y."""
    name = function.__name__

    def data_of(model, data, targets, what):
        """(the module as one of a single array, x, y), for arrays (x, y) or batches of them."""
        x, y = data
        if y is None and _fit_data._is_loader(x):
            model, x = _of_batches(model, x, what)

            def rows_of(batch):
                several = isinstance(batch, (tuple, list)) and len(batch) in (2, 3) and _several_targets.are_several(batch[1])
                return (batch[0], targets.rows(batch[1], f"{what}: a batch of y"), *batch[2:]) if several else batch

            return model, _each(x, rows_of), None
        x = _only(model, x)
        if _are_several(model, x):
            model, x = _joined(model, x, f"{what}: x" if what == name else what)
        if _several_targets.are_several(y, len(x) if hasattr(x, "__len__") else None):
            y = targets.rows(y, f"{what}: y")
        return model, x, y

    @functools.wraps(function)
    def call(model, x, y=None, *, loss=None, metric=None, metrics=None, loss_weights=None, **settings):
        targets = _several_targets.Targets()
        whole, x, y = data_of(model, _split_pair(model, x, y), targets, name)
        validation = settings.get("validation_data")
        if validation is not None:
            *pair, vw = (validation, None, None) if _fit_data._is_loader(validation) else _fit_data._with_weights(validation, "fit: validation_data")
            other, vx, vy = data_of(model, pair, targets, "fit: validation_data")
            if other is not whole:
                raise ValueError("fit: validation_data: expected inputs of the same names, shapes and types as x")
            settings["validation_data"] = vx if vy is None else (vx, vy) if vw is None else (vx, vy, vw)
        task = whole.__dict__.get("_task") or {}
        if name == "evaluate":
            loss, loss_weights = (task.get("loss_function"), task.get("loss_weights")) if loss is None else (loss, loss_weights)
            if metric is None and metrics is None:
                metric, metrics = task.get("metric"), task.get("metrics")
                if settings.get("sample_weight") is not None:  # of the figures of fit those that weights are for
                    metric = None if isinstance(metric, str) and metric not in ("loss", "accuracy") else metric
                    metrics = [m for m in metrics or () if callable(m)]
        if targets.layout is not None or (y is None and _fit_data._is_loader(x)):
            if targets.layout is not None:
                _several_targets.need_loss(loss, name)
                if isinstance(metrics, (list, tuple)) and "accuracy" in metrics:
                    raise ValueError(f"{name}: metrics: accuracy is for one target, got several: expected a function of (outputs, targets)")
            several = isinstance(loss, (dict, list, tuple))
            if loss_weights is not None and not several:
                raise TypeError(f"{name}: loss_weights is for a loss per target, (\"cross_entropy\", \"mse\") or a dict: got loss={loss!r}")
            if several and isinstance(metrics, (list, tuple, type(None))):
                metrics = [*(metrics or ()), *_several_targets.losses_of(loss)]
            loss, metric = targets.given_to(loss, "loss", loss_weights), targets.given_to(metric, "metric")
            metrics = [targets.given_to(m, "metric") for m in metrics] if isinstance(metrics, (list, tuple)) else metrics
        elif isinstance(loss, (dict, list, tuple)):
            raise TypeError(f"{name}: loss: expected a name or a function for one array y, got {len(loss)} losses, which are for several targets")
        elif loss_weights is not None:
            raise TypeError(f"{name}: loss_weights is for several targets, with a loss for each: expected none for one array y")
        settings |= {key: value for key, value in (("loss", loss), ("metric", metric), ("metrics", metrics)) if value is not None}
        return function(whole, x, y, **settings)

    return call


def _split_pair(model, x, y):
    """(x, y), where x is the pair and y is missing."""
    several = y is None and isinstance(x, (tuple, list)) and len(x) == 2 and not _fit_data._is_loader(x)
    return tuple(x) if several and (_are_several(model, x[0]) or _several_targets.are_several(x[1])) else (x, y)
