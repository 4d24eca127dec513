"""Functions of functions: jit, grad, value_and_grad, plan. Their arguments and results are arrays, nested in tuples, lists
and dicts."""
import functools
import threading

from . import _core
from ._array_api import asarray
from ._core import Array


_recording = threading.local()  # .depth: calls of functions whose gradients are wanted, in this thread


def _flatten(value, leaves):
    """Puts the arrays into `leaves`; returns a description of the rest, which is hashable where the rest is."""
    if isinstance(value, Array):
        leaves.append(value)
        return Array
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_flatten(v, leaves) for v in value))
    if isinstance(value, dict):
        return (dict, tuple((k, _flatten(v, leaves)) for k, v in value.items()))
    return ("static", value)


def _unflatten(structure, leaves):
    if structure is Array:
        return next(leaves)
    kind, content = structure
    if kind == "static":
        return content
    if kind is dict:
        return {k: _unflatten(v, leaves) for k, v in content}
    items = [_unflatten(v, leaves) for v in content]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _as_leaves(value):
    """Other libraries' arrays as Freight's, in nested arguments."""
    if isinstance(value, (list, tuple)):
        items = [_as_leaves(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _as_leaves(v) for k, v in value.items()}
    return asarray(value) if not isinstance(value, Array) and hasattr(value, "__dlpack__") else value


class Jit:
    """A function that is traced once per signature of its arguments, planned and replayed; made by jit."""

    def __init__(self, function, device, deterministic):
        functools.update_wrapper(self, function)
        self._function = function
        self._device = device
        self._deterministic = deterministic
        self._compiled = {}
        self.recompilations = []  # why each trace after the first was made

    def _prepared(self, arguments, keywords):
        leaves = []
        structure = _flatten(_as_leaves((arguments, keywords)), leaves)
        try:
            entry = self._compiled.get(structure)
        except TypeError as error:
            raise TypeError(f"jit: arguments must be arrays, numbers, strings, or tuples, lists and dicts of these: {error}") from None
        if entry is None:
            output, function = {}, self._function

            def body(inputs):
                args, kwargs = _unflatten(structure, iter(inputs))
                results = []
                output["structure"] = _flatten(function(*args, **kwargs), results)
                return results

            entry = (_core.Compiled(body, self._device, self._deterministic), output)
            if self._compiled:
                self.recompilations.append("other structure or other values that are not arrays")
            self._compiled[structure] = entry
        return entry, leaves

    def __call__(self, *arguments, **keywords):
        if _core.compiling() or getattr(_recording, "depth", 0):  # its operations are a part of what is traced
            return self._function(*arguments, **keywords)
        (compiled, output), leaves = self._prepared(arguments, keywords)
        before = compiled.traces()
        results = compiled.call(leaves)
        if compiled.traces() != before and before:
            types = ", ".join(f"{x.dtype}{list(x.shape)}" for x in leaves)
            self.recompilations.append(f"other shapes or element types: {types}")
        return _unflatten(output["structure"], iter(results))

    def plan(self, *arguments, **keywords):
        """What a call would do: memory, work and kernels. Nothing is run."""
        (compiled, _), leaves = self._prepared(arguments, keywords)
        return Plan(compiled.plan(leaves))

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def jit(function=None, *, device="", deterministic=False):
    """The function compiled: traced once per shapes and types of its arrays, planned, and replayed as a whole. Numbers,
    strings and other values are part of the signature. Also a decorator: @freight.jit."""
    if function is None:
        return functools.partial(jit, device=device, deterministic=deterministic)
    return Jit(function, device, deterministic)


class Plan:
    """The plan of a compiled function: bytes of its arena, arithmetic, bytes moved, and its steps."""

    def __init__(self, found):
        self.text = found["text"]
        self.arena_bytes = found["arena_bytes"]
        self.flops = found["flops"]
        self.bytes = found["bytes"]
        self.steps = found["steps"]

    def __repr__(self):
        head = (f"{len(self.steps)} steps, arena {self.arena_bytes:,} bytes, {self.flops:,.0f} FLOP, "
                f"{self.bytes:,.0f} bytes moved")
        return "\n".join([head, *self.steps])


def plan(function, *arguments, **keywords):
    """What jit(function) would do with these arguments; nothing is run."""
    compiled = function if isinstance(function, Jit) else jit(function)
    return compiled.plan(*arguments, **keywords)


def value_and_grad(function, argnums=0, has_aux=False):
    """A function that returns the value of a scalar function and its gradients with respect to one argument, or several:
    the arrays of nested arguments each have one. With has_aux the function returns (scalar, other results)."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def wrapped(*arguments, **keywords):
        arguments = [_as_leaves(a) for a in arguments]
        leaves, structures, counts = [], [], []
        for n in numbers:
            before = len(leaves)
            structures.append(_flatten(arguments[n], leaves))
            counts.append(len(leaves) - before)
        for x in leaves:
            if x.dtype not in (_core.float32, _core.float64, _core.float16, _core.bfloat16):
                raise TypeError(f"grad: arguments must be floating arrays, got {x.dtype}: use astype, or argnums")
        if not leaves:
            raise TypeError(f"grad: argument {numbers[0]} has no arrays: expected a freight.Array, got "
                            f"{type(arguments[numbers[0]])}")
        on_host = [x._on_host for x in leaves]
        traced = [_core.as_leaf(x) for x in leaves]
        at = 0
        for n, structure, count in zip(numbers, structures, counts):
            # The function gets arrays of its own: what it writes to them changes none that gradients are taken by.
            arguments[n] = _unflatten(structure, iter([_core.as_leaf(x) for x in traced[at:at + count]]))
            at += count
        _recording.depth = getattr(_recording, "depth", 0) + 1
        try:
            value = function(*arguments, **keywords)
        finally:
            _recording.depth -= 1
        loss = value[0] if has_aux else value
        if not isinstance(loss, Array):
            raise TypeError(f"grad: the function must return a scalar array, got {type(loss)}")
        found = _core.gradients(loss, traced, True)
        done = all(on_host) and not _core.compiling()
        if done:
            found = [_core.to_host(g) for g in found]
            results = []
            structure = _flatten(value, results)
            value = _unflatten(structure, iter([_core.to_host(r) for r in results]))
        grads, at = [], 0
        for structure, count in zip(structures, counts):
            grads.append(_unflatten(structure, iter(found[at:at + count])))
            at += count
        return value, grads[0] if isinstance(argnums, int) else tuple(grads)

    return wrapped


def grad(function, argnums=0, has_aux=False):
    """A function that returns the gradients of a scalar function; see value_and_grad."""
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def wrapped(*arguments, **keywords):
        value, grads = both(*arguments, **keywords)
        return (grads, value[1]) if has_aux else grads

    return wrapped
