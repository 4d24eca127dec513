"""Modules that contain others, in order or by name, as PyTorch's: Sequential, ModuleList, ModuleDict."""
from . import _core
from ._module import Module, _changed, _modes_kept, _results


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
        return self.insert(len(self), module)

    def insert(self, index, module):
        parts = list(self._modules.items())
        parts.insert(index, (None, self._checked(module)))
        self._arrange(parts)
        return self

    def extend(self, modules):
        self._arrange([*self._modules.items(), *((None, self._checked(m)) for m in modules)])
        return self

    def pop(self, index=-1):
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
    """Layers one after the other: Sequential(Linear(784, 128), ReLU()), or a dict of names and layers. All results of one
    are the arguments of the next."""

    def __init__(self, *layers):
        super().__init__()
        named = layers[0].items() if len(layers) == 1 and isinstance(layers[0], dict) else ((str(i), m) for i, m in enumerate(layers))
        for name, layer in named:
            self.add_module(name, self._checked(layer))

    @staticmethod
    def _of(parts):
        return Sequential(dict(parts))

    def _make_node(self, parts, training):
        node = _core.make_sequential(parts)
        with _modes_kept([part for _, part in parts]):
            node.training = training
        return node

    def _run(self, node, arguments, keywords):
        if keywords:
            raise TypeError(f"Sequential: expected arrays alone, got {', '.join(keywords)}")
        return _results(node.call(arguments))


class ModuleList(_Listed):
    """Modules in a list, which belong to the module that has it."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    @staticmethod
    def _of(parts):
        return ModuleList(module for _, module in parts)


class ModuleDict(Module):
    """Modules by name, which belong to the module that has it."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
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
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()


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
