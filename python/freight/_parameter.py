"""Parameters and buffers of modules, and what several modules share: `decoder.weight = encoder.weight` ties them, as in PyTorch."""
import math
import weakref

from . import _array_api as xp
from . import _core
from ._transforms import _state


def recording():
    return _state.depth or _core.compiling()


def _floats(data, what):
    """Elements on the host in f32."""
    x = xp.asarray(data)
    if not xp.isdtype(x.dtype, "real floating"):
        raise TypeError(f"{what}: expected floating numbers, got {x.dtype}")
    return _core.to_host(xp.astype(x, xp.float32, copy=False))


class Parameter:
    """A trained array of a module, in f32: `self.scale = nn.Parameter(freight.ones(3))`. The module's attribute gives its
    value, an array. Operators and functions of arrays take `value`."""

    _trained = True

    def __init__(self, data, requires_grad=True):
        self._node = _core.make_held(_floats(data, type(self).__name__), self._trained)
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
        return self._variable.trainable

    @requires_grad.setter
    def requires_grad(self, on):
        self._variable.trainable = on

    @property
    def name(self):
        return self._variable.name

    @property
    def shape(self):
        return self._variable.shape

    @property
    def dtype(self):
        return self._variable.dtype

    @property
    def device(self):
        return self._variable.device

    def numel(self):
        return math.prod(self.shape)

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


class Buffer(Parameter):
    """An array of a module that is saved with it and not trained: `self.mean = nn.Buffer(freight.zeros(3))`."""

    _trained = False


_given: dict = {}  # by the id of an array that an attribute of a module gave: a reference to it, and its variable


def given(variable):
    """The value of a variable as an attribute of a module: within jit and grad the elements that are trained, else a copy, of
    which `tied` knows where it is from."""
    if recording():
        return variable.value()
    x = variable.elements()
    key = id(x)
    _given[key] = weakref.ref(x, lambda _: _given.pop(key, None)), variable
    return x


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
