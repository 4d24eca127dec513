"""What modules have besides parts and parameters, which a trace of forward has read once: as values that are equal as long as that is
the same. Functions that keep a trace compare them."""
import argparse
import contextlib
import dataclasses
import threading
import types
import weakref

from ._core import Array

# Attributes of modules that forward does not read, or that functions follow by themselves.
_OF_MODULES = frozenset(("_modules", "_held", "_cached", "_task", "_seen", "_seen_inputs", "_compiled", "_layer", "_settings", "_inside", "_inner", "_layout", "_asked_mode", "_asked_grad"))
_MOST_BYTES = 1 << 20  # of an array whose elements are compared; others are compared by what they are
_PLAIN = (int, float, complex, str, bytes, type(None))
_assignments = 0  # of attributes to any module, so far


class _Trace(threading.local):
    called: dict | None = None  # by identity: modules that the function being traced has called; None where none is traced


_trace = _Trace()


@contextlib.contextmanager
def traced():
    """A function is traced within this. Gives a list, which has the outermost modules that the function has called at its end."""
    before, modules = _trace.called, {}
    _trace.called, outermost = modules, []
    try:
        yield outermost
        below = {id(part) for module in modules.values() for part in module.modules() if part is not module}
        outermost += [module for identity, module in modules.items() if identity not in below]
    finally:
        _trace.called = before


def called(module):
    """To be called where a module is called within jit or grad."""
    if _trace.called is not None:
        _trace.called[id(module)] = module


class _Same:
    """A value that is equal to itself alone; it is kept, so that no other one gets its identity."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Same) and self.value is other.value


def _compared(value):
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), [_compared(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(value)
    if isinstance(value, dict):
        return type(value), [(k, _compared(v)) for k, v in value.items()]
    if isinstance(value, (types.SimpleNamespace, argparse.Namespace)) or dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _Same(value), _compared(vars(value)) if hasattr(value, "__dict__") else None
    if isinstance(value, Array) and value._on_host or hasattr(value, "__array_interface__"):
        try:
            elements = memoryview(value)
            if elements.nbytes <= _MOST_BYTES:
                return elements.format, elements.shape, elements.tobytes()
        except (BufferError, TypeError, ValueError):
            pass
    return _Same(value)


def assigned():
    """To be called where an attribute of a module has been assigned or deleted, or a part has changed."""
    global _assignments
    _assignments += 1


def _changes_inside(value):
    """Whether the value may change without an assignment to the module."""
    return not (isinstance(value, _PLAIN) or callable(value) or isinstance(value, tuple) and not any(map(_changes_inside, value)))


def _items(module):
    """The attributes of a module and those below that forward may read, and the parts of those that only hold parts: of others a trace
    notes itself that they are other ones."""
    found = []
    for m in module.modules():
        if m._only_holds:
            found.append(("", [(name, weakref.ref(part)) for name, part in (*m._modules.items(), *m._held.items())]))
        if m._own_forward or not hasattr(m, "_keys"):  # a layer of the library has settings alone
            found += [(name, value) for name, value in vars(m).items() if name not in _OF_MODULES]
    return found


def _of_classes(modules):
    """(class, name, value) of what the classes of modules with a forward of the program's own, and its classes below these, have
    besides methods."""
    classes = {type(part) for m in modules for part in m.modules() if part._own_forward}
    bases = {base for cls in classes for base in cls.__mro__ if not base.__module__.startswith("freight.") and base is not object}
    return [(cls, name, value) for cls in bases for name, value in vars(cls).items()
            if name[:2] != "__" and name not in _OF_MODULES | {"_own_forward"} and not callable(value) and not hasattr(value, "__get__")]


class Read:
    """The attributes of modules and of their classes as forward reads them now."""

    def __init__(self, modules):
        self._modules = [weakref.ref(m) for m in modules]  # one of which may have this as an attribute
        self._of_classes = _of_classes(modules)
        self._assignments = _assignments
        items = [item for m in modules for item in _items(m)]
        items += [("", [p.requires_grad for p in m.parameters()]) for m in modules]  # which parameters have gradients
        self._compared = [(name, _compared(value)) for name, value in items]
        self._by_assignment = not any(name and _changes_inside(value) for name, value in items)

    def is_stale(self):
        """Whether they have changed since."""
        if any(vars(cls).get(name, Read) is not value for cls, name, value in self._of_classes):
            return True
        if self._by_assignment and self._assignments == _assignments:
            return False
        now = Read([m for m in (reference() for reference in self._modules) if m is not None])
        if self._compared != now._compared:
            return True
        self._assignments = now._assignments
        return False
