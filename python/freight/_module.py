"""Modules with PyTorch's interface over those of the library; freight.nn has them together with the layers.

Every module has a node, a module of the library: layers are made by it, and the forward of a class that is written in
Python is called by its node. Nodes are made when they are needed, and anew where a program has replaced a part.
"""
import contextlib
import threading
import weakref

from . import _array_api as xp
from . import _attributes, _core, _display, _hints
from ._nested import replaced
from ._parameter import Buffer, Parameter, Saved, differentiated, given, recording, tied
from ._transforms import _as_leaves, _flatten, _unflatten


class _Calls(threading.local):
    depth = 0  # modules that are being called
    making = False  # whether they are called for the shapes that lazy layers take


_calls = _Calls()
_unmade: weakref.WeakSet = weakref.WeakSet()  # layers whose number of inputs is not known yet: _lazy.py
_changes = [0]  # of the structure of modules: nodes that were looked up before may be out of date


def _changed(module):
    """To be called after a part of the module has changed: functions that were compiled with it are traced anew."""
    _changes[0] += 1
    _attributes.assigned()
    if module._cached is not None:
        module._cached[1].changed()


@contextlib.contextmanager
def _modes_kept(nodes):
    """Gives these nodes the modes again that they have now: setting that of a node sets those below it, too."""
    modes = [node.training for node in nodes]
    try:
        yield
    finally:
        for node, mode in zip(nodes, modes):
            node.training = mode


def _results(found):
    """The results of a node. Indices, which stand behind the values, are i64 in Python."""
    if not isinstance(found, tuple):
        return found
    return tuple(xp.astype(x, xp.int64) if x.dtype == xp.int32 else x for x in found)


class Module:
    """A layer, a block or a network. Subclasses make their parts in `__init__`, after `super().__init__()`, and compute in
    `forward`."""

    _own_forward = False  # whether the program has written it, for a class of its own
    _only_holds = False  # whether it has no forward, and others call its parts

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        cls._own_forward = not (getattr(cls.forward, "__module__", None) or "").startswith("freight.")

    def __init__(self):
        own = self.__dict__
        own["_modules"], own["_held"] = {}, {}
        own["_cached"] = None

    # Parts.

    def __setattr__(self, name, value):
        own = self.__dict__
        task = self._noted_task() if name == "classes" else None
        if task is not None:
            task["classes"] = self._class_names(task, value)
        elif isinstance(value, (Module, Parameter)):
            if "_modules" not in own:
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before parts are assigned")
            if isinstance(value, Parameter) and value._node is None:
                raise TypeError(f"{type(self).__name__}.{name}: got a parameter of another module: nn.Parameter(p.value) copies it")
            own.pop(name, None)
            parts, others = (own["_modules"], own["_held"]) if isinstance(value, Module) else (own["_held"], own["_modules"])
            others.pop(name, None)
            parts[name] = value
            _changed(self)
        elif isinstance(own.get("_held", {}).get(name), Parameter) and value is not None:
            if tied(own["_held"][name]._variable, value):
                _changed(self)
            else:
                own["_held"][name].value = value
        else:
            parts = [of_kind for of_kind in (own.get("_modules", {}), own.get("_held", {})) if name in of_kind]
            for of_kind in parts:
                del of_kind[name]
            if parts:
                _changed(self)
            object.__setattr__(self, name, value)
            _attributes.assigned()

    def __getattr__(self, name):
        own = self.__dict__
        if "_modules" not in own and name[:1] != "_":
            raise AttributeError(f"{type(self).__name__} has no {name!r}: is super().__init__() called first?")
        if name in own.get("_modules", ()):
            return own["_modules"][name]
        if name in own.get("_held", ()):
            return given(own["_held"][name]._variable)
        task = self._noted_task() if name == "classes" else None
        if task is not None:  # the names of the outputs, as fit or the stored model has them
            return list(task["classes"])
        raise _hints.missing(type(self).__name__, name, _hints.MODULE)

    def _noted_task(self):
        """What fit, or the file of the model, has noted of what it is for; None where there is nothing. Of a module of several inputs the
        one of a single array has it."""
        from . import _several

        return (_several.layout_of(self)[0] or self).__dict__.get("_task")

    def _class_names(self, task, names):
        """The names of the outputs, as the stored model has them."""
        if isinstance(names, str) or not all(isinstance(n, str) for n in names):
            raise TypeError(f"{type(self).__name__}.classes: expected a text per class, got {names!r}")
        if len(task["classes"]) not in (0, len(names)):
            raise ValueError(f"{type(self).__name__}.classes: expected {len(task['classes'])} names, got {len(names)}")
        return list(names)

    def __delattr__(self, name):
        own = self.__dict__
        if own["_modules"].pop(name, None) is None and own["_held"].pop(name, None) is None:
            object.__delattr__(self, name)
            _attributes.assigned()
        _changed(self)

    def __dir__(self):
        return [*super().__dir__(), *self._modules, *self._held]

    def add_module(self, name, module):
        """Makes a module a part of this one: `self.NAME = module`."""
        setattr(self, name, module)

    def register_parameter(self, name, parameter):
        """Makes an nn.Parameter a part of this module: `self.NAME = parameter`; None for none."""
        setattr(self, name, parameter)

    def register_buffer(self, name, data):
        """Keeps an array that is not trained with the module, in state_dict and files: `self.NAME = nn.Buffer(data)`; None for none."""
        setattr(self, name, data if data is None else Buffer(data))

    def children(self):
        """The modules that are direct parts of this one."""
        return iter(self._modules.values())

    def named_children(self):
        """(name, module) of the direct parts."""
        return iter(self._modules.items())

    def named_modules(self, prefix=""):
        """(path, module) of this module and all below; its own path is ""."""
        yield prefix, self
        for name, child in self._modules.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        """This module and all below."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, path):
        """The module at a path such as "layer1.0.conv1"; "" is this one."""
        module = self
        for name in filter(None, path.split(".")):
            if name not in module._modules:
                raise AttributeError(f"{type(self).__name__} has no module {path!r}")
            module = module._modules[name]
        return module

    def apply(self, function):
        """Calls the function with each module, the innermost first, and returns the module: `net.apply(init)`."""
        for module in [*self.modules()][::-1]:
            function(module)
        return self

    # The node.

    def _parts(self):
        """(name, node) of the parts in the order in which they were assigned."""
        held = [(name, p._node) for name, p in self._held.items()]
        return held + [(name, child._built()) for name, child in self._modules.items()]

    def _make_node(self, parts, training):
        return _core.make_written(self, parts, training)

    def _built(self):
        cached = self._cached
        if cached is not None and cached[0] == _changes[0]:
            return cached[1]
        parts = self._parts()
        key = tuple((name, node.identity) for name, node in parts)
        if cached is None or cached[2] != key:
            cached = (0, self._make_node(parts, cached is None or cached[1].training), key)
        self.__dict__["_cached"] = (_changes[0], *cached[1:])
        return cached[1]

    def _node(self):
        if _unmade and not _calls.making and self._is_unmade():
            from . import _lazy

            _lazy.refuse(self)
        before = self._cached
        node = self._built()
        if before is None or before[1] is not node:
            node.name_variables()
        return node

    # Calls.

    def forward(self, *arguments, **keywords):
        """What the module computes; a class of your own defines it. Called by `module(x)`."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def _run(self, node, arguments, keywords):
        return node.invoke(*arguments, **keywords)

    def _single(self, x):
        """Arrays of NumPy are f64 where nothing else is said, parameters are f32."""
        is_double = isinstance(x, _core.Array) and x.dtype == xp.float64
        return xp.astype(x, xp.float32) if is_double and self._node().state() else x

    def __call__(self, *arguments, **keywords):
        if _unmade and self._is_unmade():
            from . import _lazy

            _lazy.make(self, [_as_leaves(a) for a in arguments], keywords)
        node, run = self._node(), Module._run.__get__(self) if self._own_forward else self._run
        if _calls.depth:
            return run(node, arguments, keywords)
        in_step = recording()
        # Arrays of a step keep their types; NumPy's become f32, as outside of a step.
        arguments = [a if in_step and not hasattr(a, "__array_interface__") else self._single(_as_leaves(a)) for a in arguments]
        keywords = keywords if in_step else {k: _as_leaves(v) for k, v in keywords.items()}
        if arguments and isinstance(arguments[0], _core.Array):
            self.__dict__["_seen"] = (arguments[0].shape[1:], arguments[0].dtype.name)
            if len(arguments) > 1 or keywords:
                self.__dict__["_seen_inputs"] = [(name, x.shape, x.dtype) for name, x in (*enumerate(arguments), *keywords.items())
                                                 if isinstance(x, _core.Array) and x.ndim]
        if in_step:
            _attributes.called(self)
            return run(node, arguments, keywords)
        _calls.depth += 1
        try:
            result = run(node, arguments, keywords)
        finally:
            _calls.depth -= 1
        leaves = []
        structure = _flatten(result, leaves)
        return _unflatten(structure, iter([_core.to_host(x) if x.device == "cpu" else x for x in leaves]))

    def _is_unmade(self):
        return any(m in _unmade for m in self.modules())

    def _make_lazy(self, arguments, keywords):
        """Calls forward for the shapes that lazy layers below take; no node can be made before."""
        self.forward(*arguments, **keywords)

    # Training or evaluation.

    @property
    def training(self):
        """Whether the module is in training mode, which train() and eval() set."""
        if _unmade and self._is_unmade():
            return self.__dict__.get("_asked_mode", True)
        return self._node().training

    def train(self, mode=True):
        """Training mode for this module and all below; eval() for the other one."""
        if _unmade and self._is_unmade():  # _lazy.make sets it
            for m in self.modules():
                m.__dict__["_asked_mode"] = bool(mode)
        else:
            self._node().training = bool(mode)
        return self

    def eval(self):
        """Evaluation mode for this module and all below: no dropout, BatchNorm by its running statistics."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Whether the parameters below are trained. BatchNorm whose parameters are not uses its running statistics and leaves them
        as they are, unlike PyTorch's in training mode. Lazy layers have it from their first call on."""
        if _unmade and self._is_unmade():
            self.__dict__["_asked_grad"] = requires_grad  # _lazy.make sets it
            for part in self._modules.values():
                part.requires_grad_(requires_grad)
            for p in self._held.values():
                if p._trained:
                    p.requires_grad = requires_grad
            return self
        for p in self._all_parameters():
            p[1].requires_grad = requires_grad
        return self

    def to(self, device):
        """Moves parameters and buffers: "cpu", "cuda:0"."""
        if not isinstance(device, str):
            raise TypeError(f"to: expected a device such as \"cpu\" or \"cuda:0\", got {device!r}; parameters keep their element type")
        self._node().to_device(device)
        return self

    # Parameters.

    def _all_parameters(self):
        seen = set()
        for name, variable, trained in self._node().state():
            if trained and variable.identity not in seen:
                seen.add(variable.identity)
                yield name, Parameter._of(variable, self)

    def named_parameters(self):
        """(name, parameter) of all below, each once, those that are frozen among them."""
        return self._all_parameters()

    def parameters(self):
        """The parameters of this module and all below, each once, those that are frozen among them."""
        return (p for _, p in self._all_parameters())

    def named_buffers(self):
        """(name, buffer) of all below: arrays that are saved and not trained, such as running statistics."""
        return ((name, Buffer._of(v)) for name, v, trained in self._node().state() if not trained)

    def buffers(self):
        """The buffers of this module and all below."""
        return (b for _, b in self.named_buffers())

    def get_parameter(self, path):
        """The parameter at a path such as "fc.weight"."""
        found = dict(self._all_parameters())
        if path not in found:
            raise AttributeError(f"{type(self).__name__} has no parameter {path!r}: it has {', '.join(found)}")
        return found[path]

    def _trained_values(self, readings=None):
        """Values of the trained parameters by name, for gradients; those of `readings` where there is one."""
        trained = {name: p._variable for name, p in self._all_parameters() if p.requires_grad}
        differentiated({variable.identity: name for name, variable in trained.items()})
        return {name: readings.read(variable) if readings else variable.value() for name, variable in trained.items()}

    def state_dict(self):
        """Copies of all parameters and buffers by PyTorch's names. BatchNorm counts its batches, num_batches_tracked, with momentum=None
        alone; PyTorch's load_state_dict adds the count where it is missing, also with strict=True."""
        return {name: variable.elements() for name, variable, _ in self._node().state()}

    def load_state_dict(self, state_dict, strict=True):
        """Sets all values from arrays of Freight, NumPy or torch; with strict=False those whose names both have. Returns PyTorch's pair
        of lists: names that are missing in state_dict, and unexpected ones. Nothing changes where it raises."""
        entries, own = [], {name: variable.dtype for name, variable, _ in self._node().state()}
        for name, value in state_dict.items():
            if name.rsplit(".", 1)[-1] == "num_batches_tracked" and name not in own:  # of a BatchNorm with a fixed momentum
                continue
            value = value.detach().cpu() if hasattr(value, "detach") else getattr(value, "value", value)
            x = xp.asarray(value)
            entries.append((name, _core.to_host(xp.astype(x, own.get(name, xp.float32), copy=False))))
        return _core.load_state(self._node(), entries, strict)

    def summary(self, input_shape=None, dtype=xp.float32):
        """The layers as a table, as text: with the shape of one sample also output shapes and work."""
        if input_shape is not None:
            from . import _lazy

            _lazy.settle(self, xp.zeros((0, *input_shape), dtype=dtype))
            return _core.model_summary(self._node(), {"name": type(self).__name__, "input": tuple(input_shape), "dtype": dtype,
                                                      "loss": "mse"})
        return _display.layers_text(self)

    def _repr_html_(self):
        return _display.table(*_display.layers(self))

    # Training and files (_fit.py).

    def fit(self, x, y=None, *, validation_data=None, epochs=1, batch_size=None, steps_per_epoch=None, sample_weight=None,
            class_weight=None, loss="auto", loss_weights=None, metric="auto", metrics=(), callbacks=(), device="auto", precision="fp32",
            grad_accum=1, seed=0, resume=None, output_dir="", verbose=1, **settings):
        """Trains on arrays x (N, ...) and y: classes (N), values (N) or (N, K), labels (N, K) as bool, or probabilities (N, K) with
        loss="cross_entropy"; or on batches (x, y) of a DataLoader, or of an iterator, steps_per_epoch of them in each epoch. Several
        inputs and several targets are tuples or dicts of arrays; the loss is then a function of (outputs, targets), or one per target,
        such as ("cross_entropy", "mse"), whose sum by loss_weights counts; each of them is a figure, kind_loss of the target "kind".
        validation_data: (x, y), or (x, y, weights), by which its figures are then means. metrics: a list of further figures, names and
        functions of (outputs, targets) that return a number, or one per sample: called for all samples of an evaluation, and traced for
        the batches of training, whose means are figures. metric: one by which epochs are compared. A loss function is traced, too, and the
        mean of its results over batches counts.
        batch_size: 64 for arrays; validation_split=0.2: the last samples are the validation data. Further settings are flags of
        `freight train`: optimizer="adamw", lr=1e-3, lr_scheduler="onecycle"; lr is 0.01 unless given, whatever optimizer is named. With an
        output_dir the run writes checkpoints, metrics and the model as the command does, and resume=True goes on from the newest.
        seed: of the order of samples, dropout and augmentation; initial weights and later draws are those of freight.random.seed.
        verbose: 0 nothing, 1 progress in a notebook or a terminal, 2 a line per epoch. Returns a History."""
        from . import _fit

        return _fit.fit(self, x, y, validation_data=validation_data, epochs=epochs, batch_size=batch_size,
                        steps_per_epoch=steps_per_epoch, sample_weight=sample_weight, class_weight=class_weight, loss=loss,
                        loss_weights=loss_weights, metric=metric, metrics=metrics, callbacks=callbacks, device=device,
                        precision=precision, grad_accum=grad_accum, seed=seed, resume=resume, output_dir=output_dir, verbose=verbose,
                        **settings)

    def evaluate(self, x, y=None, *, batch_size=256, sample_weight=None, loss=None, metric=None, metrics=None, device="auto",
                 precision="fp32", verbose=0):
        """The figures on arrays, each sample once, in evaluation mode: a dict with "loss", of classes "accuracy", the metric, a name
        such as "f1" or a function of all outputs and targets, and those in the list metrics, by default the ones of fit. sample_weight
        (N): all of them are means by these weights. Nothing is shown, whatever verbose, Keras's argument, says."""
        from . import _fit

        return _fit.evaluate(self, x, y, batch_size=batch_size, sample_weight=sample_weight, loss=loss, metric=metric, metrics=metrics,
                             device=device, precision=precision)

    def predict(self, x, *, batch_size=256, device="auto", precision="fp32", verbose=0):
        """What forward returns for all samples, in evaluation mode. Nothing is shown, whatever verbose, Keras's argument, says."""
        from . import _fit

        return _fit.predict(self, x, batch_size=batch_size, device=device, precision=precision)

    def save(self, path, *, input_shape=None, loss=None):
        """Writes the model for `freight.load` and the command. The forward of a class is traced for samples of input_shape, and
        any size of batch; of several inputs input_shape is a list of shapes, or a dict by parameter, and by default what they were in
        fit, predict or the last call. Where that fails, it warns and writes the weights alone, for load_weights. loss: a name, such as "mse",
        that says what the outputs are where no fit has; usually "cross_entropy". Returns whether it was the model."""
        from . import _fit

        return _fit.save(self, path, input_shape=input_shape, loss=loss)

    def load_weights(self, path):
        """Takes the weights of a file: a stored model, weights alone, or a safetensors file with PyTorch's names."""
        import os

        _core.load_weights(self._node(), os.fspath(path))
        return self

    # Python's protocols.

    def extra_repr(self):
        """What repr shows between the parentheses; a class of your own may define it."""
        return ""

    def __repr__(self):
        lines = []
        for name, child in self._modules.items():
            lines += f"({name}): {child!r}".split("\n")
        inside = self.extra_repr()
        return f"{type(self).__name__}({inside})" if not lines else "\n  ".join([f"{type(self).__name__}({inside}", *lines]) + "\n)"

    def __getstate__(self):
        return {**{k: v for k, v in self.__dict__.items()
                   if k not in ("_cached", "_compiled", "_inner") and not getattr(v, "_of_a_run", False)}, "training": self._is_unmade() or self._built().training}

    def __setstate__(self, state):
        training = state.pop("training")
        self.__dict__.update(state)
        self.__dict__["_cached"] = None
        _changed(self)
        if not training:
            with _modes_kept([m._built() for m in list(self.modules())[1:]]):
                self._built().training = False


class Layer(Module):
    """A layer of the library; freight/_layers.py has a class for each, by the library's declarations."""

    _type = ""
    _keys: dict[str, str] = {}  # the name of a setting in Python -> in the declaration
    _usual: dict[str, object] = {}
    _containers: dict[str, str] = {}  # settings that are a layer, or layers
    _words: dict[str, dict[str | None, int]] = {}  # settings that may be words or None, and their values in the declaration

    def _make(self, given):
        Module.__init__(self)
        if not given.get("batch_first", True):
            raise ValueError(f"{self._type}, batch_first: samples are (N, T, C): expected True, got {given['batch_first']!r}")
        own = self.__dict__
        own["_settings"] = {}
        for name, key in self._keys.items():
            value = given[name]
            if name in self._containers:
                if self._containers[name] == "layer":
                    parts = {key: value} if value is not None else {}
                else:
                    parts = value if isinstance(value, dict) else {str(i): m for i, m in enumerate(value)}
                for part, module in parts.items():
                    if not isinstance(module, Module):
                        raise TypeError(f"{self._type}, {name}: expected a module, got {type(module).__name__}")
                    own["_modules"][part] = module
                own["_settings"][key] = list(parts)
            else:
                own[name] = value
                if key in self._words:
                    value = replaced(value, self._words[key], f"{self._type}, {name}")
                if value is not None:
                    own["_settings"][key] = value
        if not self._modules:
            own["_layer"] = _core.make_layer(self._type, own["_settings"])
            self._hide_settings()

    def _hide_settings(self):
        """A parameter comes before the setting of its name: `layer.bias` is an array, or None."""
        own = self.__dict__
        for path, _, _ in self._layer.state():
            own.pop(path, None)
        if own.get("bias") is False:
            own["bias"] = None

    def _built(self):
        if "_layer" in self.__dict__:
            if self.__dict__["_cached"] is None:
                self.__dict__["_cached"] = (0, self._called_by(self._layer), ())
            return self._cached[1]
        return super()._built()

    def _called_by(self, node):
        """The library's node, or one that calls a forward of the program, which may call the library's."""
        if not self._own_forward:
            return node
        self.__dict__["_inner"] = node
        return _core.make_written(self, [("", node)], node.training)

    def _make_node(self, parts, training):
        nodes = dict(parts)
        settings = dict(self._settings)
        for name, kind in self._containers.items():
            key = self._keys[name]
            settings[key] = [("" if kind == "layer" else part, nodes[part]) for part in settings[key]]
        with _modes_kept([part for _, part in parts]):
            node = _core.make_layer(self._type, settings)
            node.training = training
        return self._called_by(node)

    def _run(self, node, arguments, keywords):
        if not arguments and keywords.keys() == {"input"}:
            arguments, keywords = (keywords["input"],), {}
        if keywords:
            raise TypeError(f"{self._type}: expected arrays alone, got {', '.join(keywords)}")
        return _results(node.call(arguments))

    def forward(self, *arguments, **keywords):
        return self._forwarded(*arguments, **keywords)

    def _forwarded(self, *arguments, **keywords):
        """What the library computes, for a call of its forward: by super().forward(x), where the program has written another."""
        if not self._own_forward:
            return self(*arguments, **keywords)
        self._built()
        return self._run(self._inner, arguments, keywords)

    def _make_lazy(self, arguments, keywords):
        raise TypeError(f"{self._type}: its parts cannot be lazy layers: expected layers that are given the number of their inputs")

    def __getattr__(self, name):
        if name[:1] != "_":
            for path, variable, _ in self._node().state():
                if path == name:
                    return given(variable)
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        if name == "classes" and self._noted_task() is not None:
            return super().__setattr__(name, value)
        for path, variable, trained in self._node().state() if name[:1] != "_" else ():
            if path == name:
                if value is None:
                    raise AttributeError(f"{self._type}: {name} cannot be removed: make another layer without it")
                if tied(variable, value):
                    _changed(self)
                else:
                    (Parameter if trained else Buffer)._of(variable).value = value.value if isinstance(value, Parameter) else value
                return
        if name in self._keys or isinstance(value, (Module, Parameter)):
            raise AttributeError(f"{self._type}: {name} cannot be set: make another layer")
        object.__setattr__(self, name, value)
        _attributes.assigned()

    def extra_repr(self):
        given = self._settings
        words = {(key, number): word for key, numbers in self._words.items() for word, number in numbers.items()}
        shown = {name: words.get((key, given[key]), given[key]) if isinstance(given[key], (int, float)) else given[key]
                 for name, key in self._keys.items() if key in given and name not in self._containers}
        texts = {name: repr(value) if len(repr(value)) < 100 else "..." for name, value in shown.items()}
        return ", ".join(f"{name}={text}" for name, text in texts.items() if given[self._keys[name]] != self._usual.get(name, ...))

    @classmethod
    def _wrapped(cls, node, settings, wrapped):
        """The Python layer of a node; `wrapped` makes those of the nodes in its settings."""
        layer = cls.__new__(cls)
        Module.__init__(layer)
        own = layer.__dict__
        own["_settings"], own["_layer"] = {}, node
        for name, key in cls._keys.items():
            if name in cls._containers:
                own["_settings"][key] = [part or key for part, _ in settings.get(key, ())]
                for part, child in settings.get(key, ()):
                    own["_modules"][part or key] = wrapped(child)
            else:
                value = own[name] = settings.get(key, cls._usual.get(name))
                if value is not None:
                    own["_settings"][key] = value
        layer._hide_settings()
        return layer

    def __getstate__(self):
        if self._modules:
            return super().__getstate__()
        own = {k: v for k, v in self.__dict__.items() if k not in ("_cached", "_layer", "_inner", "_compiled")}
        state = [(name, Saved.of(v), v.trainable) for name, v, _ in self._layer.state()]
        return {"own": own, "state": state, "training": self._layer.training}

    def __setstate__(self, state):
        if "own" not in state:
            return super().__setstate__(state)
        self.__dict__.update(state["own"])
        self.__dict__["_cached"] = None
        layer = self.__dict__["_layer"] = _core.make_layer(self._type, self._settings)
        layer.training = state["training"]
        for (_, variable, _), (_, value, trainable) in zip(layer.state(), state["state"]):
            Saved.restore(variable, value)
            if variable.trainable != trainable:
                variable.trainable = trainable
        _changed(self)
