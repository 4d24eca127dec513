"""Functions of functions: jit, grad, value_and_grad, custom_gradient, autocast, plan. Their arguments and results are
arrays, nested in tuples, lists and dicts."""
import contextlib
import functools
import inspect
import itertools
import threading
import weakref

from . import _array_api as xp
from . import _attributes, _core, _own_arrays
from ._array_api import asarray
from ._core import Array


class _State(threading.local):
    depth = 0  # calls of functions whose gradients are wanted
    runs = 0  # of the library's trainer: it traces functions and then wants their gradients
    compute = _core.float32  # of the innermost autocast

    def __init__(self):
        self.rules = []  # of custom gradients, as long as gradients are wanted
        self.outer = []  # what `compute` is outside of each autocast


_state = _State()


def _flatten(value, leaves):
    """Puts the arrays into `leaves`; returns a description of the rest, which is hashable where the rest is. The C++
    function `collect` reads it too."""
    if isinstance(value, Array):
        leaves.append(value)
        return Array
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_flatten(v, leaves) for v in value))
    if isinstance(value, dict):
        return (dict, tuple((k, _flatten(v, leaves)) for k, v in value.items()))
    if hasattr(type(value), "_unknown_elements"):
        raise TypeError(type(value)._unknown_elements)
    return (type(value), value, "static")


def _unflatten(structure, leaves):
    if structure is Array:
        return next(leaves)
    if len(structure) == 3:
        return structure[1]
    kind, content = structure
    if kind is dict:
        return {k: _unflatten(v, leaves) for k, v in content}
    items = [_unflatten(v, leaves) for v in content]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _leaves_of(value):
    leaves = []
    _flatten(value, leaves)
    return leaves


def _as_leaves(value):
    """Other libraries' arrays as Freight's, in nested arguments."""
    if isinstance(value, (list, tuple)):
        items = [_as_leaves(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _as_leaves(v) for k, v in value.items()}
    return asarray(value) if not isinstance(value, Array) and hasattr(value, "__dlpack__") else value


_MOST_ENTRIES = 128  # of one function: the oldest one goes first


class _Traced:
    """A function that is traced, and what its traces returned."""

    def __init__(self, function, structure):
        self.function, self.structure, self.count = function, structure, 0
        self.outputs = {}  # the structure of the results, by the types of the arguments
        self.called = []  # modules
        self.output = None  # the structure where all have the same

    def __call__(self, inputs):
        args, kwargs = _unflatten(self.structure, iter(inputs))
        results = []
        with _own_arrays.function(), _attributes.traced() as called:
            output = _flatten(self.function(*args, **kwargs), results)
        self.called += [weakref.ref(m) for m in called]
        self.outputs[self._types(inputs)] = output
        self.output = output if all(o == output for o in self.outputs.values()) else None
        self.count += 1
        return results

    @staticmethod
    def _types(leaves):
        return tuple((x.dtype, x.shape) for x in leaves)

    def results(self, leaves, results):
        output = self.output if self.output is not None else self.outputs[self._types(leaves)]
        return results[0] if output is Array else _unflatten(output, iter(results))


def _modules_in(structure):
    """The modules among arguments."""
    if structure is Array:
        return []
    if len(structure) == 3:
        return [structure[1]] if hasattr(structure[1], "_trained_values") else []
    return [m for part in structure[1] for m in _modules_in(part[1] if structure[0] is dict else part)]


class _Entry:
    """What is compiled for one structure of arguments and one type of arithmetic. The traced function must not lead back
    here: the garbage collector does not see what the compiled one holds."""

    def __init__(self, function, structure, device, deterministic, compute):
        self.structure, self.compute = structure, compute
        self.traced = _Traced(function, structure)
        self.compiled = _core.Compiled(self.traced, device, deterministic, compute)
        self.attributes = None  # as read by a trace

    def read(self):
        """To be called after a trace, which has read attributes of modules, and may have set some."""
        modules = {id(m): m for m in (*_modules_in(self.structure), *(reference() for reference in self.traced.called)) if m is not None}
        self.attributes = _attributes.Read(modules.values()) if modules else None

    def is_stale(self):
        """Whether attributes of modules have changed since the trace."""
        return self.attributes is not None and self.attributes.is_stale()


class Jit:
    """A function that is traced once per signature of its arguments, planned and replayed; made by jit."""

    def __init__(self, function, device, deterministic):
        functools.update_wrapper(self, function)
        self._function = function
        self._device = device
        self._deterministic = deterministic
        self._entries = {}
        self._last = None  # the entry of the last call
        self.recompilations = []  # why each trace after the first was made

    def _prepared(self, arguments, keywords):
        leaves, last = [], self._last
        if (last is not None and last.compute is _state.compute and _core.collect(last.structure, (arguments, keywords), leaves)
                and not last.is_stale()):
            return last, leaves
        leaves = []
        structure = _flatten(_as_leaves((arguments, keywords)), leaves)
        compute = _state.compute
        try:
            entry = self._entries.get((structure, compute))
        except TypeError as error:
            raise TypeError(f"jit: arguments must be arrays, numbers, strings, or tuples, lists and dicts of these: {error}") from None
        if entry is None or entry.is_stale():
            stale = entry is not None
            entry = _Entry(self._function, structure, self._device, self._deterministic, compute)
            if stale:
                self.recompilations.append("other attributes of a module")
            elif self._entries:
                self.recompilations.append("other structure, other values that are not arrays, or another autocast")
                if len(self._entries) == _MOST_ENTRIES:
                    del self._entries[next(iter(self._entries))]
            self._entries[structure, compute] = entry
        self._last = entry
        return entry, leaves

    def __call__(self, *arguments, **keywords):
        if _state.depth or _core.compiling():  # its operations are a part of what is traced
            return self._function(*arguments, **keywords)
        entry, leaves = self._prepared(arguments, keywords)
        traced = entry.traced
        before = traced.count
        results = entry.compiled.call(leaves)
        if traced.count != before:
            entry.read()
        if traced.count != before and before:
            types = ", ".join(f"{x.dtype}{list(x.shape)}" for x in leaves)
            self.recompilations.append(f"other shapes or element types: {types}")
        return traced.results(leaves, results)

    def plan(self, *arguments, **keywords):
        """What a call would do: memory, work and kernels. Nothing is run."""
        entry, leaves = self._prepared(arguments, keywords)
        plan = Plan(entry.compiled.plan(leaves))
        entry.read()
        return plan

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def jit(function=None, *, device="", deterministic=False):
    """The function compiled: traced once per shapes and types of its arrays, planned, and replayed as a whole. Numbers,
    strings and other values are part of the signature. Also a decorator: @freight.jit."""
    if function is None:
        return functools.partial(jit, device=device, deterministic=deterministic)
    return Jit(function, device, deterministic)


class Plan:
    """The plan of a compiled function, of freight.plan(function, ...) or function.plan(...).

    steps: a list of the kernels in their order, as text.
    arena_bytes: the memory of intermediate results.
    flops, bytes: the arithmetic of a call, and the bytes that it moves.
    text: the plan as `freight profile --plan` prints it, with layouts and addresses.
    """

    def __init__(self, found):
        self.text = found["text"]
        self.arena_bytes = found["arena_bytes"]
        self.flops = found["flops"]
        self.bytes = found["bytes"]
        self.steps = found["steps"]

    def _head(self):
        return (f"{len(self.steps)} steps, arena {self.arena_bytes:,} bytes, {self.flops:,.0f} FLOP, "
                f"{self.bytes:,.0f} bytes moved")

    def __repr__(self):
        return "\n".join([self._head(), *self.steps])

    def _repr_html_(self):
        from . import _display

        rows = [("", "step"), *((str(i), text) for i, text in enumerate(self.steps))]
        return _display.table(rows, self._head())


def plan(*arguments, **keywords):
    """What jit(function) would do with the arguments behind it; nothing is run. Without a function: `freight plan`, with the
    data as the argument and the command's flags as keywords."""
    if not arguments or not callable(arguments[0]):
        from . import _command_functions

        return _command_functions.plan(*arguments, **keywords)
    function, *arguments = arguments
    compiled = function if isinstance(function, Jit) else jit(function)
    return compiled.plan(*arguments, **keywords)


def _settled(x):
    """x on the host where it was computed there; results of a module on another device stay on it."""
    return _core.to_host(x) if x.device == "cpu" else x


def _has_module(value):
    if isinstance(value, (list, tuple, dict)):
        return any(_has_module(v) for v in (value.values() if isinstance(value, dict) else value))
    return hasattr(value, "_trained_values")


def _values_of(value, readings=None):
    """Modules, nested in tuples, lists and dicts, as dicts of their parameters by name."""
    if isinstance(value, dict):
        return {k: _values_of(v, readings) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_values_of(v, readings) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Array):
        raise TypeError("grad: expected modules and arrays as separate arguments, got both in one: argnums=(0, 1) has gradients of two")
    return value._trained_values(readings) if hasattr(value, "_trained_values") else value


def _need_elements(function, arguments, keywords):
    """Refuses a batch without samples, whose loss is the mean of nothing: a step with its gradients would make all weights NaN."""
    for place, x in [*enumerate(arguments), *keywords.items()]:
        if isinstance(x, Array) and x.ndim and x.shape[0] == 0:
            names = list(inspect.signature(function).parameters) if not isinstance(place, str) else []
            name = place if isinstance(place, str) else names[place] if place < len(names) else f"argument {place}"
            raise ValueError(f"value_and_grad: {name}: expected a batch of at least one sample, got shape {x.shape}")


def value_and_grad(function, argnums=0, has_aux=False):
    """A function that returns the value of a scalar function and its gradients with respect to one argument, or several:
    the arrays of nested arguments each have one, and of a module its parameters by their names. The gradient of an array that the
    function does not use is zeros, of such a parameter None. With has_aux the function returns (scalar, other results)."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def wrapped(*arguments, **keywords):
        if not (_state.depth or _core.compiling()):
            return differentiated(arguments, keywords, None)
        readings = _core.Readings()  # what an outer function has computed from the parameters before is a constant of this one
        try:
            return differentiated(arguments, keywords, readings)
        finally:
            readings.end()

    def differentiated(arguments, keywords, readings):
        arguments = [asarray(a) if type(a) is float and i in numbers else _as_leaves(a) for i, a in enumerate(arguments)]
        leaves, structures, counts, modules = [], [], [], []
        for n in numbers:
            if not -len(arguments) <= n < len(arguments):
                named = f" and the keywords {', '.join(keywords)}" if keywords else ""
                raise TypeError(f"grad: argnums: expected a positional argument {n}, got {len(arguments)} positional arguments{named}")
            before = len(leaves)
            if _has_module(arguments[n]):  # modules, which the function gets as they are
                modules.append(n)
                structures.append(_flatten(_values_of(arguments[n], readings), leaves))
            else:
                structures.append(_flatten(arguments[n], leaves))
            counts.append(len(leaves) - before)
        if modules:
            _need_elements(function, arguments, keywords)
        for x in leaves:
            if x.dtype not in (_core.float32, _core.float64, _core.float16, _core.bfloat16):
                raise TypeError(f"grad: arguments must be floating arrays, got {x.dtype}: use astype, or argnums")
        frozen = next((arguments[n] for n in modules), None)
        if not leaves and frozen is not None:
            raise ValueError(f"grad: {type(frozen).__name__} has no trained parameters: expected at least one, requires_grad_(True) ends what "
                             "requires_grad_(False) has frozen")
        if not leaves:
            raise TypeError(f"grad: argument {numbers[0]} has no arrays: expected a freight.Array, got "
                            f"{type(arguments[numbers[0]])}")
        on_host = [x._on_host for n in numbers if n not in modules for x in _leaves_of(arguments[n])]
        traced = []
        for n, structure, count in zip(numbers, structures, counts):
            new = leaves[len(traced):len(traced) + count]
            if n not in modules:
                new = [_core.as_leaf(x) if x._on_host else _core.as_new(x) for x in new]
                # The function gets arrays of its own: what it writes to them changes none that gradients are taken by.
                arguments[n] = _unflatten(structure, iter([_core.as_leaf(x) for x in new]))
            traced += new
        _state.depth += 1
        try:
            with _own_arrays.function():
                value = function(*arguments, **keywords)
            loss = value[0] if has_aux else value
            if not isinstance(loss, Array):
                raise TypeError(f"grad: the function must return a scalar array, got {type(loss)}")
            at = 0
            for n, count in zip(numbers, counts):
                if n in modules:  # read anew: what the function has evaluated ended the recording in which they were read before
                    traced[at:at + count] = _leaves_of(_values_of(arguments[n]))
                at += count
            found = _core.gradients(loss, traced)
        finally:
            _state.depth -= 1
            _forget_rules()
        done = all(on_host) and not _state.depth and not _core.compiling()  # gradients of an outer function lead through these
        for n, count, at in zip(numbers, counts, itertools.accumulate(counts, initial=0)):
            if n not in modules:  # parameters of modules have None, with which optimizers leave them alone
                found[at:at + count] = [xp.zeros_like(x) if g is None else g for g, x in zip(found[at:], leaves[at:at + count])]
        if done:
            found = [None if g is None else _settled(g) for g in found]
            results = []
            structure = _flatten(value, results)
            value = _unflatten(structure, iter([_settled(r) for r in results]))
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


def _kind_of(value):
    """For messages while a function is traced, when arrays have no elements."""
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, tuple, dict)) else type(value).__name__


class _Rule:
    """One call of a function with a custom gradient, while gradients are wanted.

    Gradients are walked back from the results to the arguments. On the way stand the results, behind which lies a number
    that all of them lead to, and behind it the arguments: what arrives at the results is kept, at the number the
    function's gradient is computed from it, and the arguments get that in place of what arrives at them.
    """

    def __init__(self, function, backward, arguments):
        self.name, self.backward, self.arguments = function.__qualname__, backward, arguments
        self.arrived, self.found = {}, []

    def attach(self, value, leaves):
        self.results = []
        self.structure = _flatten(value, self.results)
        number = None
        for i, x in enumerate(leaves):
            if x._on_host or not xp.isdtype(x.dtype, "real floating"):
                continue
            x = _core.changed_gradient(x, functools.partial(self._of_argument, i))
            empty = xp.sum(xp.astype(xp.reshape(x, (-1,))[:0], xp.float32))
            number = empty if number is None else number + empty
        if number is None:
            return value
        number = _core.changed_gradient(number, self._compute)
        led = []
        for i, y in enumerate(self.results):
            if xp.isdtype(y.dtype, "real floating"):
                y = _core.changed_gradient(_core.led_gradient(y, number), functools.partial(self._of_result, i))
            led.append(y)
        return _unflatten(self.structure, iter(led))

    def _of_result(self, i, gradient):
        self.arrived[i] = gradient
        return gradient

    def _compute(self, gradient):
        arrived = [self.arrived[i] if i in self.arrived else xp.zeros(y.shape, dtype=y.dtype)
                   for i, y in enumerate(self.results)]
        self.arrived.clear()
        found = self.backward(_unflatten(self.structure, iter(arrived)))
        if len(self.arguments) == 1 and not (isinstance(found, tuple) and (
                len(found) == 1 or not isinstance(self.arguments[0], (tuple, list, dict)))):
            found = (found,)
        if not isinstance(found, (tuple, list)) or len(found) != len(self.arguments):
            raise TypeError(f"custom_gradient: the gradient of {self.name} must be a tuple with one entry per positional "
                            f"argument, {len(self.arguments)}: got {_kind_of(found)}")
        self.found = []
        for n, (argument, g) in enumerate(zip(self.arguments, found)):
            self._match(argument, g, f"argument {n}")
        return gradient

    def _match(self, argument, gradient, place):
        """Appends the gradients of an argument's arrays."""
        if isinstance(argument, (list, tuple, dict)):
            keys = list(argument) if isinstance(argument, dict) else range(len(argument))
            if gradient is not None and (isinstance(gradient, Array) or len(gradient) != len(keys)):
                raise TypeError(f"custom_gradient: the gradient of {self.name} for {place} must have the same structure as it: "
                                f"got {_kind_of(gradient)}")
            for k in keys:
                self._match(argument[k], None if gradient is None else gradient[k], f"{place}, {k!r}")
        elif isinstance(argument, Array):
            if not isinstance(gradient, (Array, int, float, type(None))):
                raise TypeError(f"custom_gradient: the gradient of {self.name} for {place} must be an array: got "
                                f"{_kind_of(gradient)}")
            if not isinstance(gradient, Array):
                gradient = xp.full(argument.shape, 0.0 if gradient is None else gradient, dtype=argument.dtype)
            if gradient.shape != argument.shape:
                raise ValueError(f"custom_gradient: the gradient of {self.name} for {place} has shape {gradient.shape}, "
                                 f"expected {argument.shape}")
            self.found.append(xp.astype(gradient, argument.dtype, copy=False))

    def _of_argument(self, i, gradient):
        return self.found[i]

    def forget(self):
        """Lets go of all arrays: the traces that hold the rule are held by them."""
        self.__dict__.clear()


def _forget_rules():
    if not _state.depth and not _state.runs:
        for rule in _state.rules:
            rule.forget()
        _state.rules.clear()


@contextlib.contextmanager
def run_of_trainer():
    """While the library traces modules and takes gradients of its own."""
    _state.runs += 1
    try:
        yield
    finally:
        _state.runs -= 1
        _forget_rules()


def custom_gradient(function):
    """A function with a gradient of its own. It returns its value and a function that takes the gradient of the value and
    returns those of the positional arguments, one per argument, in the argument's structure; None is zero. Also a
    decorator: @freight.custom_gradient."""

    @functools.wraps(function)
    def wrapped(*arguments, **keywords):
        found = function(*arguments, **keywords)
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
            raise TypeError(f"custom_gradient: {function.__qualname__} must return its value and a function of the value's "
                            f"gradient, got {type(found)}")
        if not (_state.depth or _state.runs and _core.compiling()):
            return found[0]
        leaves = []
        _flatten(arguments, leaves)
        rule = _Rule(function, found[1], arguments)
        _state.rules.append(rule)
        return rule.attach(found[0], leaves)

    return wrapped


class autocast:
    """While it lasts, compiled functions that are called compute matrix products and convolutions in a 16-bit type, with
    what lies between them; arguments, results, sums and losses keep theirs. A context, and a decorator of functions:
    `with freight.autocast(freight.bfloat16): loss = step(w, x)`."""

    def __init__(self, dtype=_core.bfloat16, enabled=True):
        self._dtype = _core.as_dtype(dtype) if enabled else _core.float32
        if self._dtype not in (_core.bfloat16, _core.float16, _core.float32):
            raise ValueError(f"autocast: dtype must be bfloat16 or float16, got {self._dtype}")

    def __enter__(self):
        if _core.compiling():
            raise TypeError("autocast: inside of a compiled function it has no effect: put it around the call, or "
                            "@freight.autocast(dtype) above @freight.jit")
        _state.outer.append(_state.compute)
        _state.compute = self._dtype
        return self

    def __exit__(self, *exception):
        _state.compute = _state.outer.pop()

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*arguments, **keywords):
            with autocast(self._dtype):
                return function(*arguments, **keywords)
        return wrapped
