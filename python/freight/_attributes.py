"""What modules have besides parts and parameters, which a trace of forward has read once: as values that are equal as long as that is
the same. Functions that keep a trace compare them."""
import argparse
import dataclasses
import types

from ._core import Array

# Attributes of modules that forward does not read, or that functions follow by themselves.
_OF_MODULES = frozenset(("_modules", "_held", "_cached", "_task", "_seen", "_compiled", "_layer", "_settings", "_inside", "_layout"))
_MOST_BYTES = 1 << 20  # of an array whose elements are compared; others are compared by what they are
_PLAIN = (int, float, complex, str, bytes, type(None))


class _Same:
    """A value that is equal to itself alone; it is kept, so that no other one gets its identity."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None


def _compared(value):
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), [_compared(v) for v in value]
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


def of(module):
    """The attributes of a module and those below that forward may read."""
    return [(name, _compared(value)) for m in module.modules() if not hasattr(m, "_keys")  # a layer, which has settings alone
            for name, value in vars(m).items() if name not in _OF_MODULES]
