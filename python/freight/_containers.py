"""Modules that contain others, in order or by name, as PyTorch's: Sequential, ModuleList, ModuleDict."""
from . import _core
from ._module import Layer, Module, _changed, _modes_kept, _results
from ._parameter import Parameter


class Wrapper(Module):
    """A module around another one, whose parameters and public attributes it has as its own."""

    def __init__(self, inside):
        super().__init__()
        self.__dict__["_inside"] = inside

    def _parts(self):
        return [("", self._inside._built())]

    def __getattr__(self, name):
        if name[:1] == "_":
            raise AttributeError(name)
        if name == "classes" and self._noted_task() is not None:
            return super().__getattr__(name)
        return getattr(self._inside, name)


class _Listed(Module):
    """Modules in order. Their names are their numbers, which follow every change, unless a dict has named them."""

    def _named(self, index):
        try:
            return list(self._modules)[index]
        except IndexError:
            raise IndexError(f"{type(self).__name__}: index {index} is out of range: it has {len(self)} modules") from None

    def _checked(self, module):
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}: expected a module, got {type(module).__name__}")
        return module

    def _arrange(self, parts):
        """Takes (name, module) as its parts; a new module has no name yet."""
        numbered = all(name is None or name.isdigit() for name, _ in parts)
        taken = {name for name, _ in parts}
        free = (n for n in map(str, range(len(parts))) if n not in taken)
        named = {str(i) if numbered else next(free) if name is None else name: module for i, (name, module) in enumerate(parts)}
        self._modules.clear()
        self._modules.update(named)
        _changed(self)

    def append(self, module):
        """Adds a module at the end."""
        return self.insert(len(self), module)

    def insert(self, index, module):
        """Adds a module before the one at the index."""
        parts = list(self._modules.items())
        parts.insert(index, (None, self._checked(module)))
        self._arrange(parts)
        return self

    def extend(self, modules):
        """Adds modules at the end."""
        self._arrange([*self._modules.items(), *((None, self._checked(m)) for m in modules)])
        return self

    def pop(self, index=-1):
        """Removes a module and returns it."""
        module = self._modules[self._named(index)]
        del self[index]
        return module

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if not isinstance(index, slice):
            return self._modules[self._named(index)]
        return self._of(list(self._modules.items())[index])

    def __setitem__(self, index, module):
        self.add_module(self._named(index), self._checked(module))

    def __delitem__(self, index):
        if not isinstance(index, slice):
            self._named(index)
        parts = list(self._modules.items())
        del parts[index]
        self._arrange(parts)

    def __add__(self, other):
        if not isinstance(other, (_Listed, list, tuple)):
            return NotImplemented
        return self._of([*self._modules.items()]).extend(other)

    def __iadd__(self, other):
        return self.extend(other)


class Sequential(_Listed):
    """Layers one after the other: Sequential(Linear(784, 128), ReLU()), or a list, or a dict of names and layers. All results of one
    are the arguments of the next."""

    def __init__(self, *layers):
        super().__init__()
        layers = layers[0] if len(layers) == 1 and isinstance(layers[0], (list, tuple)) else layers
        named = layers[0].items() if len(layers) == 1 and isinstance(layers[0], dict) else ((str(i), m) for i, m in enumerate(layers))
        for name, layer in named:
            self.add_module(name, self._checked(layer))

    @staticmethod
    def _of(parts):
        return Sequential(dict(parts))

    def forward(self, *arrays):
        if not self._own_forward:
            return self(*arrays)
        for layer in self:  # for super().forward(x) of a class of the program
            found = layer(*arrays)
            arrays = found if isinstance(found, tuple) else (found,)
        return arrays[0] if len(arrays) == 1 else arrays

    def _make_node(self, parts, training):
        if self._own_forward:
            return super()._make_node(parts, training)
        node = _core.make_sequential(parts)
        with _modes_kept([part for _, part in parts]):
            node.training = training
        return node

    def _make_lazy(self, arguments, keywords):
        for layer in self:
            found = layer(*arguments)
            arguments = found if isinstance(found, tuple) else (found,)

    def _run(self, node, arguments, keywords):
        if keywords:
            raise TypeError(f"Sequential: expected arrays alone, got {', '.join(keywords)}")
        return _results(node.call(arguments))


OF_LIBRARY = (Module.forward, Layer.forward, Sequential.forward)  # those of layers and of chains of them, which the library runs


class ModuleList(_Listed):
    """Modules in a list, which belong to the module that has it."""

    _only_holds = True

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    @staticmethod
    def _of(parts):
        return ModuleList(module for _, module in parts)


class ModuleDict(Module):
    """Modules by name, which belong to the module that has it."""

    _only_holds = True

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
        """Takes the modules of a dict."""
        for name, module in modules.items():
            self[name] = module

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __contains__(self, name):
        return name in self._modules

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """(name, module) of each."""
        return self._modules.items()


class ParameterList(Module):
    """Parameters in a list, which belong to the module that has it; those with an index are arrays, as attributes are."""

    _only_holds = True

    def __init__(self, values=()):
        super().__init__()
        self.extend(values)

    def append(self, value):
        """Adds a parameter, or an array that becomes one, at the end."""
        setattr(self, str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def extend(self, values):
        """Adds several at the end."""
        for value in values:
            self.append(value)
        return self

    def __len__(self):
        return len(self._held)

    def __getitem__(self, index):
        return getattr(self, str(range(len(self))[index]))

    def __setitem__(self, index, value):
        setattr(self, str(range(len(self))[index]), value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))


class ParameterDict(Module):
    """Parameters by name, which belong to the module that has it; those by a name are arrays, as attributes are."""

    _only_holds = True

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters):
        """Takes those of a dict."""
        for name, value in parameters.items():
            self[name] = value

    def __setitem__(self, name, value):
        setattr(self, name, value if name in self or isinstance(value, Parameter) else Parameter(value))

    def __getitem__(self, name):
        if name not in self._held:
            raise KeyError(name)
        return getattr(self, name)

    def __contains__(self, name):
        return name in self._held

    def __len__(self):
        return len(self._held)

    def __iter__(self):
        return iter(self._held)

    def keys(self):
        """The names."""
        return self._held.keys()

    def values(self):
        """The values."""
        return [self[name] for name in self]

    def items(self):
        """(name, value) of each."""
        return [(name, self[name]) for name in self]


def wrapped(node):
    """The Python module of a node that the library made."""
    from . import nn as classes

    kind, settings = node.config()
    if kind == "Sequential":
        module = Sequential({name: wrapped(child) for name, child in settings["layers"]})
        module.__dict__["_cached"] = None
        return module
    found = getattr(classes, kind, None)
    if found is None:
        raise ValueError(f"there is no freight.nn.{kind or 'layer for a module without a declaration'}")
    return found._wrapped(node, settings, wrapped)
