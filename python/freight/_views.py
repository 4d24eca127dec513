"""Views of arrays that are traced, or on other devices. The library's tensors share no elements, so that a write to an array is
repeated here in the array that it is a view of, and in the other views of that one; NumPy's rules say which functions give views."""
import itertools
import weakref

from . import _array_api as xp
from . import _core, _parameter
from ._core import Array
from ._functions import _call
from ._own_arrays import need_own  # noqa: F401  (of the extension)


class _View:
    """What is known of a view: the array that it is taken from, which it keeps, how, and how that array is with other elements in the
    view: put(base, view); None where nothing but the places of the elements says so. `key` is that of base[key]."""

    __slots__ = ("base", "take", "put", "key", "reference")

    def __init__(self, base, take, put, key, reference):
        self.base, self.take, self.put, self.key, self.reference = base, take, put, key, reference


_views: dict = {}  # by the id of an array: its _View
_taken: dict = {}  # by the id of an array: references to its views


def add(base, view, function, arguments):
    """Notes that a view is _core.FUNCTION(base, *arguments)."""
    take, put = getattr(_core, function), None
    if function == "reshape":
        def put(x, part):
            return _call("reshape", part, x.shape)
    elif function == "permute_dims":
        order = arguments[0]

        def put(x, part):
            return _call("permute", part, [order.index(a) for a in range(len(order))])
    _note(base, view, lambda x: take(x, *arguments), put, None)


def add_part(base, view, key, written):
    """Notes that a view is base[key], whose key has no arrays."""
    _note(base, view, lambda x: x[key], lambda x, part: written(x, key, part), key)


def _note(base, view, take, put, key):
    if not isinstance(base, Array) or base is view:  # of nn.Parameter, which gives an array of its own each time
        return
    number, base_number = id(view), id(base)

    def forget(reference):
        del _views[number]
        siblings = _taken[base_number]
        siblings.remove(reference)
        if not siblings:
            del _taken[base_number]

    reference = weakref.ref(view, forget)
    _views[number] = _View(base, take, put, key, reference)
    _taken.setdefault(base_number, []).append(reference)


def beside(x, y):
    """An array of the host on the device of x."""
    return y if not y._on_host or x._on_host or _core.compiling() else y.to_device(x.device)


def scattered(x, places, value):
    """The array x with values at places, which count its elements."""
    y = _call("scatter", _call("reshape", x, (-1,)), beside(x, xp.reshape(places, (-1,))), _call("reshape", value, (-1,)), 0)
    return _call("reshape", y, x.shape)


def has_part(x, key, value):
    """Whether a value is x[key] itself, as behind x[key] += y, which has changed x already."""
    view = _views.get(id(value))
    return view is not None and view.base is x and (view.key is key or type(key) is slice and view.key == key)


def write(x, y):
    """Makes the elements of x those of y, which has its shape and type, and changes the arrays that share them, and the buffer or
    parameter of a module whose value they are."""
    if id(x) not in _views and id(x) not in _taken:
        x._take(y)
        _parameter.assigned(x)
        return
    chain, places = _chain(x)
    root = chain[-1]
    if root is not x and any(n > 1 and step == 0 for n, step in zip(places.shape, places.strides)):
        raise ValueError("output array is read-only: a view that broadcast_to has made")
    x._take(y)
    if all(_views[id(v)].put for v in chain[:-1]):
        for view, base in itertools.pairwise(chain):
            base._take(_views[id(view)].put(base, view))
    else:
        root._take(scattered(root, places, x))
        chain = [x, root]
    _parameter.assigned(root)
    _renew(root, _places_of(root), chain)


def _places_of(root):
    return xp.reshape(xp.arange(root.size), root.shape)


def _chain(x):
    """(x, the array that it is a view of, and so on, to the one that is none; where in that one the elements are): the places are an
    array of the host, which is a view itself where x is one."""
    view = _views.get(id(x))
    if view is None:
        return [x], _places_of(x)
    chain, places = _chain(view.base)
    part = view.take(places)
    if part.size and not part._share_memory(places):  # as reshape copies some layouts
        return [x], _places_of(x)
    return [x, *chain], part


def _renew(base, places, written):
    """Takes the views of an array anew, and theirs, but for those that are written already."""
    for reference in list(_taken.get(id(base), ())):
        view = reference()
        if view is None:
            continue
        take = _views[id(view)].take
        part = take(places)
        if part.size and not part._share_memory(places):
            continue
        if not any(view is w for w in written):
            view._take(take(base))
        _renew(view, part, written)
