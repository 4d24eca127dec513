"""Parameters and buffers of modules, and what several modules share: `decoder.weight = encoder.weight` ties them, as in PyTorch."""
import collections
import math
import weakref

from . import _array_api as xp
from . import _attributes, _core
from ._transforms import _state


def recording():
    return _state.depth or _core.compiling()


def _elements(data, trained):
    """Elements on the host: floating ones in f32, others, of a buffer alone, as they are."""
    x = xp.asarray(data)
    if not trained and xp.isdtype(x.dtype, ("bool", "integral")):
        return _core.to_host(x)
    if not xp.isdtype(x.dtype, "real floating"):
        raise TypeError(f"{'Parameter' if trained else 'Buffer'}: expected {'floating' if trained else 'real'} numbers, got {x.dtype}")
    return _core.to_host(xp.astype(x, xp.float32, copy=False))


class Parameter:
    """A trained array of a module, in f32: `self.scale = nn.Parameter(freight.ones(3))`. The module's attribute gives its
    value, an array. Operators and functions of arrays take `value`."""

    _trained = True

    def __init__(self, data, requires_grad=True):
        self._node = _core.make_held(_elements(data, self._trained), self._trained)
        self._variable = self._node.variable
        if self._trained and not requires_grad:
            self._variable.trainable = False

    @classmethod
    def _of(cls, variable, owner=None):
        held = cls.__new__(cls)
        held._node, held._variable, held._owner = None, variable, owner  # the module whose parameters were asked for
        return held

    @property
    def value(self):
        """The elements: within jit and grad those that are trained, else a copy."""
        return self._variable.value() if recording() else self._variable.elements()

    @value.setter
    def value(self, x):
        x = xp.asarray(x)
        if x.shape != self.shape:
            raise ValueError(f"{self.name or type(self).__name__}: expected shape {self.shape}, got {x.shape}")
        x = xp.astype(x, self.dtype, copy=False)
        if recording():
            self._variable.assign(x)
        else:
            self._variable.set(_core.to_host(x))

    data = value

    @property
    def requires_grad(self):
        """Whether it is trained; False freezes it."""
        return self._variable.trainable

    @requires_grad.setter
    def requires_grad(self, on):
        self._variable.trainable = on
        _attributes.assigned()

    def requires_grad_(self, requires_grad=True):
        """Sets requires_grad, and returns the parameter."""
        self.requires_grad = requires_grad
        return self

    @property
    def name(self):
        """The path in the module: "fc.weight"."""
        return self._variable.name

    @property
    def shape(self):
        """The sizes of the axes, a tuple."""
        return self._variable.shape

    @property
    def dtype(self):
        """The type of the elements."""
        return self._variable.dtype

    @property
    def device(self):
        """Where the elements are: "cpu", "cuda:0"."""
        return self._variable.device

    def numel(self):
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def _kept_value(self):
        """The value for the extension's functions of arrays, which borrow it."""
        self.__dict__["_borrowed"] = self.value
        return self.__dict__["_borrowed"]

    @property
    def _on_host(self):
        return not recording()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __array__(self, dtype=None, copy=None):
        return self.value.__array__(dtype, copy=copy)

    def __dlpack__(self, **keywords):
        return self.value.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()

    def __repr__(self):
        return f"{type(self).__name__}({self._variable.elements()!r})"

    def __reduce__(self):
        return _restored, (type(self), Saved.of(self._variable), self.requires_grad)


def _operators():
    """Operators compute with the value; those that assign (p -= rate * g, p[0] = 1) set it."""
    def of_value(name):
        def method(self):
            return getattr(self.value, name)()
        return method

    def with_other(name):
        def method(self, other):
            return getattr(self.value, name)(other)
        return method

    def assigning(name):
        def method(self, other):
            self.value = getattr(self.value, name)(other)
            return self
        return method

    def setitem(self, key, x):
        value = self.value
        value[key] = x
        self.value = value

    arithmetic = "add sub mul truediv floordiv mod pow matmul".split()
    for name in arithmetic:
        yield f"__{name}__", with_other(f"__{name}__")
        yield f"__r{name}__", with_other(f"__r{name}__")
        yield f"__i{name}__", assigning(f"__{name}__")
    for name in "lt le gt ge eq ne getitem contains".split():
        yield f"__{name}__", with_other(f"__{name}__")
    for name in "neg pos abs len iter bool float int complex".split():
        yield f"__{name}__", of_value(f"__{name}__")
    yield "__setitem__", setitem


for _name, _method in _operators():
    setattr(Parameter, _name, _method)


class Buffer(Parameter):
    """An array of a module that is saved with it and not trained: `self.mean = nn.Buffer(freight.zeros(3))`. Floating numbers are kept
    in f32, integers and truth values as they are."""

    _trained = False


_given: dict = {}  # by the id of an array that an attribute of a module gave: a reference to it, and its variable


def given(variable):
    """The value of a variable as an attribute of a module: within jit and grad the elements that are trained, else a copy. `tied`,
    `written` and `assigned` know where it is from."""
    x = variable.value() if recording() else variable.copy_of_elements()
    key = id(x)
    _given[key] = weakref.ref(x, lambda _: _given.pop(key, None)), variable
    return x


def written(x, key, value):
    """What x, which a module has given, is after x[key] = value: the parameter's elements by then, which get the value, too."""
    parameter = origin(x)
    y = parameter._variable.elements()
    y[key] = value
    parameter.value = y
    return y


def assigned(x):
    """Gives the elements of x, to which a function that is traced has written, to the variable whose value x was."""
    parameter = origin(x)
    if parameter is not None and recording():
        parameter._variable.assign(x)


def origin(x):
    """The parameter whose value an attribute of a module has given as x; None for other arrays."""
    _, variable = _given.get(id(x), (None, None))
    return None if variable is None else Parameter._of(variable)


def tied(variable, value):
    """Makes a variable one with that of another module whose attribute gave the value; False where the value has no such
    origin, or was changed since then, and is to be copied."""
    _, other = _given.get(id(value), (None, None))
    if other is None or recording() or other.identity == variable.identity or not bool(xp.all(other.elements() == value)):
        return False
    if variable.shape != other.shape:
        raise ValueError(f"{variable.name}: expected shape {variable.shape}, got {other.shape} of {other.name}")
    variable.tie(other)
    return True


_differentiated: collections.OrderedDict = collections.OrderedDict()  # by the set of names: {variable: name}, the latest last


def differentiated(names):
    """Remembers which variables have the names in gradients that are taken now: {variable's identity: name}. The name that a variable
    has itself is of the module that was used last, which may be another one that shares it."""
    key = frozenset(names.values())
    known = [n for n in _differentiated.pop(key, ()) if n != names]
    _differentiated[key] = [*known[-15:], names]
    while len(_differentiated) > 64:
        _differentiated.popitem(last=False)


def names_in(grads, variables):
    """The names that these variables have in the gradients of a module, a dict by name, or None where they are not known."""
    for names in reversed(_differentiated.get(frozenset(grads), ())):
        if all(v.identity in names for v in variables):
            return [names[v.identity] for v in variables]
    return None


class Saved:
    """The elements of a variable in a pickle: one object for all modules that share the variable."""

    _latest: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by variable

    def __init__(self, elements):
        self.elements, self.variable = elements, None

    @classmethod
    def of(cls, variable):
        saved = cls._latest.get(variable.identity)
        if saved is None:
            saved = cls._latest[variable.identity] = cls(variable.elements())
        else:
            saved.elements = variable.elements()
        return saved

    @staticmethod
    def restore(variable, saved):
        """Gives a new variable its elements, or makes it one with that which has got them already. Pickles of earlier versions
        have the elements themselves."""
        if not isinstance(saved, Saved):
            variable.set(saved)
        elif saved.variable is None:
            variable.set(saved.elements)
            saved.variable = variable
        else:
            variable.tie(saved.variable)

    def __reduce__(self):
        return Saved, (self.elements,)


def _restored(cls, saved, requires_grad):
    held = cls(saved.elements, requires_grad)
    Saved.restore(held._variable, saved)
    return held
